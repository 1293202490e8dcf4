/*
 * A program's own handlers of fork allocate, free, open and end epochs, though they were registered before the
 * library's first use: prepare before the library takes its locks, parent and child after it let them go. A second
 * thread is there, as fork takes no locks without one.
 */
#include "check.h"
#include "identities.h"

#include <tslab/tslab.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static SlabAllocator *allocator;
static unsigned calls;

static void use(void) {
    calls++;
    SUP_CHECK(slab_free(allocator, slab_malloc(allocator, 100)), "an object of a handler");
    SUP_CHECK(slab_free(allocator, slab_malloc(allocator, 1 << 20)), "a large object of a handler");
    EpochId epoch = epoch_open(allocator, "handler", EPOCH_SCOPE);
    SUP_CHECK(slab_malloc_epoch(allocator, 100, epoch) != NULL, "an epoch of a handler");
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
}

static void *stay(void *unused) {
    for (;;) pause();
    return unused;
}

int main(void) {
    pthread_t second;
    SUP_CHECK(pthread_create(&second, NULL, stay, NULL) == 0, "pthread_create");
    SUP_CHECK(pthread_atfork(use, use, use) == 0, "pthread_atfork");
    allocator = slab_allocator_create();
    void *kept = slab_malloc(allocator, 500);
    for (unsigned i = 0; i < 3; i++) {
        pid_t child = fork();
        SUP_CHECK(child >= 0, "fork");
        if (child == 0) {
            SUP_CHECK(slab_owns(allocator, kept) && calls == 2 * i + 2, "in the child");
            sup_check_identities(allocator);
            _exit(0);
        }
        int status;
        SUP_CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %d", status);
    }
    SUP_CHECK(calls == 6 && slab_free(allocator, kept), "in the parent");
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
    return 0;
}
