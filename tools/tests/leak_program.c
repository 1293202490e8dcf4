/*
 * A program that leaks, for tools that name the line: sessions of ten objects each, of which one is forgotten. Prints
 * "ready", then waits for the end of its input.
 */
#include <tslab/tslab.h>

#include <stdio.h>
#include <stdlib.h>

#if defined(__GNUC__) || defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE
#endif

static SlabAllocator *allocator;

NOINLINE static char *remember(EpochId epoch, size_t size) {
    char *object = slab_malloc_epoch(allocator, size, epoch); /* the leaking line */
    if (!object) exit(1);
    object[0] = 1;
    return object;
}

NOINLINE static char *work(EpochId epoch, size_t size) {
    char *object = slab_malloc_epoch(allocator, size, epoch);
    if (!object) exit(1);
    object[0] = 2;
    return object;
}

int main(void) {
    allocator = slab_allocator_default();
    if (!allocator) return 1;
    for (unsigned session = 0; session < 100; session++) {
        EpochId epoch = epoch_open(allocator, "session", EPOCH_CHURN);
        for (unsigned i = 0; i < 9; i++)
            if (!slab_free(allocator, work(epoch, 1000))) return 1;
        (void)remember(epoch, 1000);
        if (!epoch_close(allocator, epoch)) return 1;
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
