/* Several threads build one result: a shared domain. */
#include <pthread.h>
#include <stdio.h>

#include <tslab/tslab.h>

#define WORKERS 4

static EpochDomain *job;
static char *part[WORKERS];

static void *work(void *argument) {
    int number = *(int *)argument;
    if (!epoch_domain_enter(job)) return NULL;
    part[number] = slab_alloc_printf("part %d", number);
    epoch_domain_exit(job);
    return NULL;
}

int main(void) {
    pthread_t threads[WORKERS];
    int numbers[WORKERS];
    job = epoch_domain_create_ex(NULL, "job", EPOCH_DOMAIN_SHARED);
    if (!job) return 1;
    for (int i = 0; i < WORKERS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, work, &numbers[i]) != 0) return 1;
    }
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < WORKERS; i++) {
        if (!part[i]) return 1;
        puts(part[i]);
    }
    return epoch_domain_end(job) ? 0 : 1; /* false with EBUSY, and nothing happens, while a thread is inside */
}
