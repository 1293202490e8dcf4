/* See captured.h: requests whose domain drains, then requests whose domain ends with all that is in it. */
#define _GNU_SOURCE
#include "captured.h"

#include <tslab/malloc.h>
#include <tslab/stats.h>

#include <stdint.h>

#define REQUESTS 200u

static SlabGlobalStats figures(void) {
    SlabGlobalStats stats;
    CHECK(slab_stats_global(slab_malloc_allocator(), &stats));
    return stats;
}

/* How many objects the request has allocated in its domain. */
static uint64_t serve(void (*request)(unsigned), unsigned i, unsigned flags) {
    SlabEpochStats stats;
    EpochDomain *d = epoch_domain_create_ex(slab_malloc_allocator(), "request", EPOCH_DOMAIN_CAPTURE | flags);
    CHECK(d && epoch_domain_enter(d));
    request(i);
    CHECK(slab_stats_epoch(slab_malloc_allocator(), SLAB_ALL_CLASSES, epoch_domain_epoch(d), &stats));
    CHECK(epoch_domain_exit(d));
    epoch_domain_destroy(d);
    return stats.allocated_objects_total;
}

/* Memory that a library keeps lives on in the epoch of its request, and is freed when the library frees it. */
static void test_drain(void) {
    for (unsigned i = 0; i < REQUESTS; i++) CHECK(serve(tested.serve, i, EPOCH_DOMAIN_DRAIN) > 10);
    SlabGlobalStats stats = figures();
    CHECK(stats.rejected_frees_total == 0 && stats.active_epoch_count == 1);
    CHECK(stats.closing_epoch_count < REQUESTS / 4); /* most requests leave nothing */
    printf("%u requests: %llu epochs with what the library keeps\n", REQUESTS,
           (unsigned long long)stats.closing_epoch_count);
}

/* All that a request has allocated ends with it: nothing is freed, and nothing grows. */
static void test_drop(void) {
    if (!tested.drop) return;
    for (unsigned i = 0; i < 10; i++) (void)serve(tested.drop, i, 0);
    uint64_t before = figures().live_objects;
    for (unsigned i = 0; i < REQUESTS; i++) CHECK(serve(tested.drop, i, 0) > 10);
    CHECK(figures().live_objects <= before + 4 && figures().rejected_frees_total == 0);
}

int main(void) {
    CHECK(slab_malloc_active());
    tested.begin();
    test_drain();
    test_drop();
    tested.end();
    SlabGlobalStats stats = figures();
    CHECK(stats.closing_epoch_count == 0 && stats.rejected_frees_total == 0);
    return 0;
}
