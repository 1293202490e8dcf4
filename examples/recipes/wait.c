/* Is the tail ours or the scheduler's? The thread's samples say, once there are any: the option sample_rate is 0 by default. */
#include <stdio.h>

#include <tslab/stats.h>
#include <tslab/tslab.h>

/* The mean wait of a timed allocation in nanoseconds; below 0: none was timed. */
static double mean_wait_ns(const SlabThreadStats *stats) {
    if (stats->alloc_samples == 0) return -1;
    return (double)(stats->alloc_wall_ns_sum - stats->alloc_cpu_ns_sum) / (double)stats->alloc_samples;
}

int main(void) {
    SlabOptions options = {.size = sizeof options, .sample_rate = 10}; /* or TSLAB_SAMPLE=10: one in ten is timed */
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    if (!allocator) return 1;
    for (int i = 0; i < 10000; i++) slab_free(allocator, slab_malloc(allocator, 100));
    SlabThreadStats stats = slab_stats_thread();
    if (stats.alloc_samples == 0) return 1;
    printf("%llu timed, on the clock %.0f ns, of which %.0f ns the thread waited\n",
           (unsigned long long)stats.alloc_samples, (double)stats.alloc_wall_ns_sum / (double)stats.alloc_samples,
           mean_wait_ns(&stats));
    slab_allocator_free(allocator);
    return stats.alloc_wait_ns_sum != stats.alloc_wall_ns_sum - stats.alloc_cpu_ns_sum;
}
