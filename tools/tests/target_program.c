/*
 * The target of the tools' tests: ten labelled handlers, of which one leaks; prints "ready", then waits for lines:
 *     hang    takes all that it can take and never lets go: a thread in a deadlock
 *     fork    a child does the same as its parent; prints its process id
 *     misuse  frees what is not live
 *     close   closes all descriptors above the standard ones, as daemons do
 *     second  a second allocator, which holds more than the first one: a megabyte in an epoch `second`
 *     label L an epoch with the label L that holds an object of 1000 bytes
 *     end     (or the end of the input) ends
 */
#include <tslab/stats.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static SlabAllocator *allocator;

static void requests(void) {
    for (unsigned i = 0; i < 10; i++) {
        char label[32];
        snprintf(label, sizeof label, "handler:/api/%u", i);
        for (unsigned request = 0; request < 20; request++) {
            EpochId epoch = epoch_open(allocator, label, EPOCH_CHURN);
            void *objects[50];
            for (unsigned k = 0; k < 50; k++)
                if (!(objects[k] = slab_malloc_epoch(allocator, 128, epoch))) exit(1);
            /* Handler 7 forgets one object of each request. */
            for (unsigned k = i == 7 ? 1 : 0; k < 50; k++)
                if (!slab_free(allocator, objects[k])) exit(1);
            if (!epoch_close(allocator, epoch)) exit(1);
        }
    }
}

static void hang(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    puts("hanging");
    fflush(stdout);
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&mutex);
}

static bool second(void) {
    SlabAllocator *more = slab_allocator_create();
    EpochId epoch = more ? epoch_open(more, "second", EPOCH_CHURN) : EPOCH_NONE;
    for (unsigned i = 0; i < 1000; i++)
        if (!slab_malloc_epoch(more, 1000, epoch)) return false;
    return slab_free(more, NULL);
}

static void wake(int number) { (void)number; }

int main(void) {
    char line[64];
    allocator = slab_allocator_default();
    if (!allocator) return 1;
    requests();
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "hang\n") == 0) hang();
        if (strcmp(line, "misuse\n") == 0) {
            if (slab_free(allocator, line)) return 1;
            puts("refused");
        }
        if (strcmp(line, "second\n") == 0) {
            if (!second()) return 1;
            puts("seconded");
        }
        if (strcmp(line, "close\n") == 0) {
            for (int fd = 3; fd < 1024; fd++) (void)close(fd);
            puts("closed");
        }
        if (strncmp(line, "label ", 6) == 0) {
            line[strcspn(line, "\n")] = 0;
            if (!slab_malloc_epoch(allocator, 1000, epoch_open(allocator, line + 6, EPOCH_CHURN))) return 1;
            puts("labelled");
        }
        if (strcmp(line, "fork\n") == 0) {
            pid_t child = fork();
            if (child == 0) {
                if (!slab_malloc(allocator, 4000)) _exit(1);
                signal(SIGTERM, wake);
                sleep(60);
                exit(0);
            }
            printf("%ld\n", (long)child);
        }
        if (strcmp(line, "end\n") == 0) return 0;
        fflush(stdout);
    }
    return 0;
}
