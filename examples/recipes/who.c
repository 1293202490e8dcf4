/* Who holds how much: every open and draining epoch, with its label, age and live bytes. */
#include <stdio.h>

#include <tslab/stats.h>
#include <tslab/tslab.h>

static void report(SlabAllocator *allocator) {
    EpochId epochs[64];
    size_t count = slab_epochs(allocator, epochs, 64);
    for (size_t i = 0; i < count && i < 64; i++) {
        SlabEpochStats stats;
        if (!slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epochs[i], &stats)) continue; /* ended meanwhile */
        printf("%-10s %6llu objects %9llu bytes, open for %.3f s\n", stats.label,
               (unsigned long long)stats.live_objects, (unsigned long long)stats.live_bytes,
               (double)stats.age_ns / 1e9);
    }
}

int main(void) {
    SlabAllocator *allocator = slab_allocator_default();
    EpochId table = epoch_open(allocator, "table", EPOCH_CHURN);
    EpochDomain *request = epoch_domain_create_ex(allocator, "request", 0);
    for (int i = 0; i < 500; i++)
        if (!slab_malloc_epoch(allocator, 64, table) || !epoch_domain_alloc(request, 100)) return 1;
    report(allocator);
    epoch_domain_destroy(request);
    return epoch_destroy(allocator, table) ? 0 : 1;
}
