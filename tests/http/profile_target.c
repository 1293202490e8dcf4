/*
 * A program whose profile is known: keep() has allocated 100 objects of 1000 bytes that live, drop() 200 of 500 bytes
 * that are freed, forget() 10 of 64 bytes that outlive their epoch's close. Serves on a port of the loopback, which it
 * prints; ends with its input. An argument N: so many labels more, each with an object that is freed.
 */
#include <tslab/http.h>

#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))

static SlabAllocator *allocator;
static volatile unsigned done; /* a store behind a call makes it no jump */

static void *good(void *object) {
    if (!object) exit(1);
    return object;
}

NOINLINE static void keep(EpochId epoch) {
    (void)good(slab_malloc_epoch(allocator, 1000, epoch));
    done++;
}

NOINLINE static void drop(EpochId epoch) {
    if (!slab_free(allocator, good(slab_malloc_epoch(allocator, 500, epoch)))) exit(1);
    done++;
}

NOINLINE static void forget(EpochId epoch) {
    (void)good(slab_malloc_epoch(allocator, 64, epoch));
    done++;
}

int main(int argc, char **argv) {
    allocator = slab_allocator_default();
    EpochId cache = epoch_open(allocator, "cache", EPOCH_CHURN),
            request = epoch_open(allocator, "request", EPOCH_CHURN);
    EpochId session = epoch_open(allocator, "session", EPOCH_SCOPE);
    for (volatile unsigned i = 0; i < 100; i++) keep(cache);
    for (volatile unsigned i = 0; i < 200; i++) drop(request);
    for (volatile unsigned i = 0; i < 10; i++) forget(session);
    if (!epoch_close(allocator, session)) return 1;
    for (volatile int i = 0; argc > 1 && i < atoi(argv[1]); i++) {
        char label[32];
        snprintf(label, sizeof label, "label %d", i);
        EpochId epoch = epoch_open(allocator, label, EPOCH_SCOPE);
        drop(epoch);
        if (!epoch_destroy(allocator, epoch)) return 1;
    }
    if (!slab_http_start(allocator, "127.0.0.1:0")) return 1;
    printf("%d\n", slab_http_port());
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
