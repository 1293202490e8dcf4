/* Every object that is live in an epoch. */
#include <stdio.h>

#include <tslab/tslab.h>

static bool add(void *object, size_t bytes, void *sum) {
    (void)object;
    *(size_t *)sum += bytes;
    return true; /* false: stop here */
}

int main(void) {
    SlabAllocator *allocator = slab_allocator_default();
    EpochId epoch = epoch_open(allocator, "walked", EPOCH_CHURN);
    void *one = slab_malloc_epoch(allocator, 100, epoch), *two = slab_malloc_epoch(allocator, 5000, epoch);
    if (!one || !two || !slab_malloc_epoch(allocator, 100, epoch)) return 1;
    slab_free(allocator, one);
    size_t sum = 0, count = slab_walk(allocator, epoch, add, &sum);
    printf("%zu objects with room for %zu bytes\n", count, sum);
    return count == 2 && sum >= 5100 && epoch_destroy(allocator, epoch) ? 0 : 1;
}
