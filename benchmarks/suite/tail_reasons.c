#include "tail_reasons.h"

#if defined(BENCH_PEER_TSLAB)

#include "bench_clock.h"

#include <tslab/stats.h>

#include <stdio.h>
#include <stdlib.h>

/* In the order in which one goes before another. */
enum { NEW_SLAB, REFILL, LAST_SLOTS, FAST_PATH, REASONS };
static const char *const reason_names[REASONS] = {"new slabs", "searches for a slab with room", "last slots of a slab",
                                                  "fast paths (the machine)"};

typedef struct seen {
    uint64_t ticks;
    unsigned reason;
} seen;

struct tail_reasons {
    size_t most, count;
    seen all[];
};

static size_t bytes_for(size_t most) { return sizeof(tail_reasons) + most * sizeof(seen); }

tail_reasons *tail_reasons_create(size_t most) {
    tail_reasons *reasons = bench_map(bytes_for(most));
    reasons->most = most;
    return reasons;
}

void tail_reasons_destroy(tail_reasons *reasons) { bench_unmap(reasons, bytes_for(reasons->most)); }

static unsigned reason_of(const SlabClassStats *a, const SlabClassStats *b) {
    if (b->new_slab_count != a->new_slab_count) return NEW_SLAB;
    if (b->slow_path_hits != a->slow_path_hits) return REFILL;
    if (b->list_move_partial_to_full != a->list_move_partial_to_full) return LAST_SLOTS;
    return FAST_PATH;
}

void *tail_reasons_alloc(tail_reasons *reasons, peer_ref peer, size_t size) {
    SlabClassStats before, after;
    if (reasons->count == reasons->most) return suite_alloc(peer, size);
    bool known = slab_stats_class(peer.allocator, SLAB_ALL_CLASSES, &before);
    uint64_t begin = bench_tick_begin();
    void *object = suite_alloc(peer, size);
    uint64_t ticks = bench_tick_end() - begin;
    if (!known || !slab_stats_class(peer.allocator, SLAB_ALL_CLASSES, &after)) suite_fail("slab_stats_class failed");
    reasons->all[reasons->count++] = (seen){ticks, reason_of(&before, &after)};
    return object;
}

static int slowest_first(const void *a, const void *b) {
    uint64_t x = ((const seen *)a)->ticks, y = ((const seen *)b)->ticks;
    return (x < y) - (x > y);
}

void tail_reasons_print(tail_reasons *reasons, size_t size, const char *op) {
    size_t slowest = reasons->count / 1000;
    unsigned of[REASONS] = {0}, main_reason = 0;
    qsort(reasons->all, reasons->count, sizeof reasons->all[0], slowest_first);
    for (size_t i = 0; i < slowest; i++) of[reasons->all[i].reason]++;
    for (unsigned r = 1; r < REASONS; r++)
        if (of[r] > of[main_reason]) main_reason = r;
    if (slowest > 0) {
        printf("%-10s %5zu  %-10s p99.9 comes mainly from %u %s (the slowest %zu of %zu", SUITE_ALLOCATOR, size, op,
               of[main_reason], reason_names[main_reason], slowest, reasons->count);
        for (unsigned r = 0; r < REASONS; r++)
            if (of[r] > 0 && r != main_reason) printf("; %u %s", of[r], reason_names[r]);
        printf(")\n");
    }
    reasons->count = 0;
}

#else

tail_reasons *tail_reasons_create(size_t most) {
    (void)most;
    return NULL;
}
void tail_reasons_destroy(tail_reasons *reasons) { (void)reasons; }
void *tail_reasons_alloc(tail_reasons *reasons, peer_ref peer, size_t size) {
    (void)reasons;
    return suite_alloc(peer, size);
}
void tail_reasons_print(tail_reasons *reasons, size_t size, const char *op) {
    (void)reasons;
    (void)size;
    (void)op;
}

#endif
