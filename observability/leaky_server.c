/*
 * A server of ten handlers, each request an epoch labelled with its handler, of which one forgets an object now and then.
 *
 *     leaky_server SECONDS [LEAKING_HANDLER]     0 to 9; none: -1
 *
 * Says "leaks from now on" when the first object is forgotten. What it shows comes from TSLAB_HTTP and TSLAB_SHM.
 */
#include <tslab/stats.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define OBJECTS 60u

static unsigned long forgotten;

static void request(SlabAllocator *allocator, unsigned handler, bool leaks) {
    void *objects[OBJECTS];
    char label[32];
    snprintf(label, sizeof label, "handler:/api/%u", handler);
    EpochId epoch = epoch_open(allocator, label, EPOCH_CHURN);
    for (unsigned i = 0; i < OBJECTS; i++) {
        objects[i] = slab_malloc_epoch(allocator, i % 3 ? 128 : 48 + 16 * handler, epoch);
        if (!objects[i]) exit(1);
    }
    for (unsigned i = 0; i < OBJECTS; i++) {
        if (leaks && i == 1) {
            if (forgotten++ == 0) {
                puts("leaks from now on");
                fflush(stdout);
            }
            continue;
        }
        if (!slab_free(allocator, objects[i])) exit(1);
    }
    if (!epoch_close(allocator, epoch)) exit(1);
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    int leaking = argc > 2 ? atoi(argv[2]) : -1;
    SlabAllocator *allocator = slab_allocator_default();
    if (seconds <= 0 || leaking > 9 || !allocator) {
        fputs("usage: leaky_server SECONDS [LEAKING_HANDLER]\n", stderr);
        return 2;
    }
    time_t end = time(NULL) + (time_t)seconds;
    for (unsigned n = 0; time(NULL) < end; n++) {
        for (unsigned handler = 0; handler < 10; handler++)
            request(allocator, handler, (int)handler == leaking && n % 10 == 9);
        (void)nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    printf("%lu objects forgotten\n", forgotten);
    return 0;
}
