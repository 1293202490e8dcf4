/*
 * Snapshots of the counters. A snapshot takes no lock, waits for nobody and holds no heap, so it can be taken from any
 * thread at any moment, from a signal handler too, and no allocation ever waits for it.
 *
 * Why it is right without a lock
 *  1. Counters are single words, each written by one thread or atomically; of each pair, what was freed is read before
 *     what was allocated, so a difference never goes below zero. A bin's magazine has two words, read as of one moment,
 *     between what was freed past it and what was allocated past it (ts_block_tally, ts_bin_magazine_counts,
 *     ts_bin_word_allocs), and so has what was allocated in a scope (ts_scope_allocs).
 *  2. The counts of an epoch's blocks move to the shares when the blocks end or are reset. The shares are read first
 *     and the epochs then, so nothing is counted twice, and counts that move meanwhile are missed. So no counter is
 *     above the truth. Figures that only rise are never shown lower than before (ts_allocator.shown_*).
 *  3. Blocks leave an epoch, all together or, of a closed one, those that hold nothing, and that is seen
 *     (ts_epoch_read_blocks): the walk is done again. One that is reset leaves, and comes back when it counts from 0.
 *  4. Objects that another thread has freed and the owner has not collected are found by their foreign bits and count
 *     as freed. The bits are read after the counters: an object is counted once or, if it is collected in between,
 *     not yet. One that was shown as freed and is not yet counted so is not shown as live again.
 *  5. Shares stay while a reader is in the allocator (ts_allocator_read_begin).
 */
#ifndef TS_OBSERVE_SNAPSHOT_H
#define TS_OBSERVE_SNAPSHOT_H

#include "cache/cache.h"
#include "epoch/epoch.h"

#include <tslab/stats.h>

/* Figures by kind. `used`: bit per kind that has any. */
typedef struct ts_sums {
    ts_tally kind[TS_COUNT_KINDS];
    uint64_t partial[TS_COUNT_KINDS], full[TS_COUNT_KINDS];
    uint64_t pending[TS_COUNT_KINDS], pending_bytes[TS_COUNT_KINDS]; /* freed by others, not collected */
    uint64_t used;
    bool unread; /* an epoch whose blocks were reset at every look is not in it */
} ts_sums;
_Static_assert(TS_COUNT_KINDS < 64, "a bit for each kind");

typedef struct ts_snapshot {
    ts_allocator *allocator;
    ts_sums sums;
    struct {
#define X(name) uint64_t name;
        TS_SHARE_COUNTERS(X)
#undef X
    } count[TS_COUNT_KINDS];
    uint64_t refused, retained_units, left_units, active, closing;
    /* Before this snapshot. */
    uint64_t shown_allocated[TS_COUNT_KINDS + 1], shown_freed[TS_COUNT_KINDS + 1], shown_foreign[TS_COUNT_KINDS];
} ts_snapshot;

/* Called for each epoch of the snapshot with its sums, without what is pending. */
typedef void ts_epoch_fn(void *arg, const ts_epoch *epoch, EpochId id, uint32_t state, const ts_sums *sums);
/* Live objects of a slab of mixed sizes by size class, without those that others have freed. */
typedef struct ts_sizes {
    uint64_t used; /* bit per class: the others are not written */
    uint32_t objects[TS_CLASSES], bytes[TS_CLASSES];
} ts_sizes;
/* Called after that for each slab in which objects are freed by others and not collected, and for each slab of mixed
   sizes. objects, bytes: of the former. sizes: NULL: the slab has one size. */
typedef void ts_slab_fn(void *arg, const ts_epoch *epoch, uint32_t kind, uint64_t objects, uint64_t bytes,
                        const ts_sizes *sizes);

/* The caller is between ts_allocator_read_begin and _end in all of these. fn and slab may be NULL. */
void ts_snapshot_take(ts_allocator *allocator, ts_snapshot *out, ts_epoch_fn *fn, ts_slab_fn *slab, void *arg);
/* One class, SLAB_CLASS_SCOPE, SLAB_CLASS_SPAN or SLAB_ALL_CLASSES of a snapshot. false: there is none such. */
bool ts_snapshot_class(const ts_snapshot *snapshot, uint32_t cls, SlabClassStats *out);
/* measure: resident memory too, which reads /proc. */
void ts_snapshot_global(const ts_snapshot *snapshot, SlabGlobalStats *out, bool measure);
bool ts_snapshot_epoch(ts_allocator *allocator, uint32_t cls, EpochId id, SlabEpochStats *out);
/* Those of a timed end that ended last, newest first. Returns how many. */
#define TS_VIEW_ENDED 16u
unsigned ts_snapshot_ended(ts_allocator *allocator, SlabEpochStats rows[TS_VIEW_ENDED]);
/* What is known of one kind, or of all (TS_COUNT_KINDS), without a look at the slabs: reclaimable_* stays 0. */
void ts_snapshot_epoch_row(const ts_epoch *epoch, EpochId id, uint32_t state, const ts_sums *sums, uint32_t kind,
                           SlabEpochStats *out);
/* Adds what is pending and what is reclaimable to `count` rows of whole epochs, in one pass over the units. */
void ts_snapshot_epoch_slabs(ts_allocator *allocator, SlabEpochStats *rows, unsigned count);
/* The open and draining epochs, the oldest `capacity` of them in order. */
size_t ts_snapshot_epochs(const ts_allocator *allocator, EpochId *out, size_t capacity);
SlabThreadStats ts_snapshot_thread(void);
/* All threads there ever were. slow: of allocations, then of frees, how many were longer than TS_SLOW_NS,
   TS_VERY_SLOW_NS. */
SlabThreadStats ts_snapshot_samples(uint64_t slow[4]);

/* What snapshot.c, sizes.c and epoch_rows.c share. The kind of a slab by its UNIT word; the block that it belongs to
   while that lives (NULL: free, a span, of an epoch that has ended, or another allocator's); the objects of a slab that
   are live but for a foreign free that the owner has not collected, with their bytes added to *bytes. */
uint32_t ts_unit_kind(const ts_block *block, uint64_t word);
ts_block *ts_unit_block(const ts_allocator *allocator, uint64_t word);
uint64_t ts_unit_pending(const ts_block *block, uint32_t unit, uint64_t word, uint64_t *bytes);
/* Of a scope slab of the block; sizes.c. */
void ts_unit_sizes(const ts_block *block, uint32_t slab, uint64_t word, ts_sizes *out);
/* The sums of one epoch. false: it is not there any more. */
bool ts_snapshot_read_epoch(const ts_epoch *epoch, EpochId id, ts_sums *out);
/* The kind that a class index of the public API means. false: there is none such. */
bool ts_kind_of_class(uint32_t cls, uint32_t *kind);
static inline uint64_t ts_least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* The i-th of the size classes, scope and span; UINT32_MAX past the end. */
static inline uint32_t ts_class_at(unsigned i) {
    return i < TS_CLASSES ? i : i == TS_CLASSES ? SLAB_CLASS_SCOPE : i == TS_CLASSES + 1 ? SLAB_CLASS_SPAN : UINT32_MAX;
}

#endif
