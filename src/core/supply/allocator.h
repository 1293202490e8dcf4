/*
 * The allocator record: options, budget, and what its threads share. Threads keep their own part in shares
 * (heap.h); this one is touched when a share runs empty or over.
 *
 *     committed_units == units in slabs and spans + cut units + warm units of all shares + warm units here   (quiet point)
 */
#ifndef TS_SUPPLY_ALLOCATOR_H
#define TS_SUPPLY_ALLOCATOR_H

#include "base/probe.h"
#include "ownership/heap.h"
#include "supply/retain.h"
#include "supply/runs.h"

#include <tslab/tslab.h>

#define TS_PURGE_BATCH 512u /* units that become runs, or are purged, at a time */

typedef struct ts_settings {
    size_t retain_bytes;
    int reclaim_policy;
    uint32_t sample_rate;
    size_t reserve_bytes;
    size_t budget_bytes;
    int huge_pages;
    int on_misuse;
    int poison_on_free;
    int record_rss;
    int guard_spans;
    int memory_tools;
    size_t sample_stacks;
    int background;
    int strict;
    int hints;
    int numa;
    bool retain_given;   /* retain_bytes is not the default */
    bool reserve_by_env; /* reserve_bytes is what TSLAB_RESERVE says */
    bool hints_given;    /* hints is not the default */
} ts_settings;

typedef struct ts_allocator {
    ts_entry entry;
    _Atomic uintptr_t token;     /* public value; constant during a use; read by who has none, too */
    ts_settings settings;        /* constant during a use, as is the next */
    uint8_t care;                /* TS_CARE_*, 0: the usual case (care.h) */
    _Atomic int on_misuse;       /* as in the settings; for who has no use of it, and when that has ended */
    _Atomic uint8_t sampled;     /* its stacks are; see diagnose/stacks.h, as for the next */
    _Atomic uint64_t stack_rate; /* samples a byte, 0: none; the bits of a double */
    /* What the end of a large epoch touches lies together: everything of it is out of the caches by then. */
    TS_ALIGNED(64) ts_lock warm_lock; /* rank WARM: the lists of warm units and spans */
    ts_warm warm[TS_SLAB_PARTS];
    uint32_t warm_group;              /* the first unit in warm[TS_NORMAL] that begins a group, 0: none (warm.c) */
    _Atomic uint64_t span_warm_units; /* in runs and stuck; read by anyone */
    _Atomic uint64_t reserved_units;  /* warm units kept beyond the retain budget, by slab_reserve */
    ts_retain retain;
    ts_runs runs[TS_PARTS];
    _Atomic(struct ts_nodes *)
        nodes;      /* NULL: homes are not told apart (nodes.h), the usual case; written under warm_lock */
    uint32_t cut;   /* cut units that have free pieces here, linked by next and prev (piece.h) */
    uint32_t stuck; /* guarded spans that the system does not make accessible again, linked by next: ts_purge_guarded */
    ts_lock lock;   /* rank ALLOCATOR: rolling epoch, list of shares */
    _Atomic(ts_share *) shares;          /* grows at its head, under lock; walked by readers without it */
    _Atomic(struct ts_past_ring *) past; /* past.h; NULL: none */
    _Atomic uint32_t readers;            /* who walks the shares or reads the settings without a lock, see
                                          ts_allocator_read_begin; and TS_READERS_OVER */
    _Atomic uint64_t current_epoch;      /* written under lock, read by anyone */
    _Atomic uint64_t committed_units;
    _Atomic uint64_t cut_units;    /* of them */
    _Atomic uint64_t taken_units;  /* ever taken from the pool */
    _Atomic uint64_t budget_bytes; /* 0: none; whole units of it count, one at least */
    _Atomic uint64_t pins;         /* 1, + what still refers to the record; given back at 0 */
    /* Counters of the whole allocator: added to atomically, none of them on a fast path. */
    _Atomic uint64_t rejected_frees, cas_retries, overflowed, allocation_failures;
    _Atomic uint64_t madvise_calls, madvise_bytes, madvise_failures;
    _Atomic uint64_t close_calls, close_scanned, close_recycled, close_ns;
    _Atomic uint64_t left;      /* blocks that an end has left to their threads */
    ts_span_counts span_counts; /* by threads without a share of it */
    /* Highest figures that statistics have shown, per kind and in all; see snapshot.c. */
    _Atomic uint64_t shown_allocated[TS_COUNT_KINDS + 1], shown_freed[TS_COUNT_KINDS + 1],
        shown_foreign[TS_COUNT_KINDS], shown_recycled[TS_COUNT_SPAN], shown_unfilled[TS_CLASSES];
    _Atomic uint64_t stack_samples, stack_drops;
    _Atomic uint64_t total_drops, total_objects_dropped, total_bytes_dropped; /* stack_totals.h */
    _Atomic uint64_t span_miss;
    _Atomic uint32_t maintain_share, maintain_heap; /* where ts_allocator_maintain goes on; any value will do */
    ts_seen seen;                                   /* whether all of it rests; likewise */
} ts_allocator;
_Static_assert(sizeof(ts_allocator) <= TS_ALLOCATOR_STRIDE, "one table entry");
_Static_assert(TS_MAX_ALLOCATORS <= UINT16_MAX + 1u, "a slab's record has 16 bits for the index");

/* As the record of a slab has it. */
static inline uint16_t ts_allocator_index(const ts_allocator *allocator) { return (uint16_t)allocator->entry.index; }

extern TS_HIDDEN ts_table ts_allocators;

/* ts_heap_share in the usual case: the share was made last. No other thread adds or drops a share of a heap whose thread
   lives. */
static inline ts_share *ts_heap_share_now(ts_heap *heap, ts_allocator *allocator) {
    ts_share *share = heap->shares;
    uintptr_t token = ts_load_acquire(&allocator->entry.id);
    if (TS_LIKELY(share && token != 0 && share->allocator == allocator && share->token == token)) return share;
    return ts_heap_share(heap, allocator);
}

static inline ts_allocator *ts_allocator_find(uintptr_t token) {
    return ts_table_find_strided(&ts_allocators, token, TS_ALLOCATOR_STRIDE);
}

/* Between the two, no share of the allocator is dropped and its record is not used again; no lock is taken, and
   nobody waits for the reader. false: it has ended. */
bool ts_allocator_read_begin(ts_allocator *allocator, uintptr_t token);
void ts_allocator_read_end(ts_allocator *allocator);
#define TS_READERS_OVER (UINT32_C(1) << 31) /* nothing refers to the record: the last reader gives it back */
/* In a child of fork, where the readers of other threads are not. */
void ts_allocator_fork_child(ts_allocator *allocator);

/* For who knows that the record is pinned already. */
void ts_allocator_pin(ts_allocator *allocator);
/* For who found it by its token. false: that use has ended. */
bool ts_allocator_pin_use(ts_allocator *allocator, uintptr_t token);
void ts_allocator_unpin(ts_allocator *allocator);

/* Up to so many bytes an object of a churn epoch is in a slab, and above that a span. Bins of classes above it stay
   empty, so that the fast paths, which look into them, find nothing there. With care a large object is a span, whose care knows of
   objects of several units. */
static inline size_t ts_allocator_class_bytes(const ts_allocator *allocator) {
    const ts_settings *settings = &allocator->settings;
    bool spans = settings->guard_spans || settings->reclaim_policy == SLAB_RECLAIM_AT_ONCE;
    return spans ? TS_QUARTER_BYTES : allocator->care ? TS_MAX_CLASS_BYTES : TS_MAX_SLAB_BYTES;
}

/* The next of the allocator's warm units, 0: none. Caller has the warm lock. */
uint32_t ts_allocator_warm_pop(ts_allocator *allocator);
/* What a share keeps beyond its limit goes to the allocator. Caller holds the heap. */
void ts_share_overflow(ts_share *share, unsigned part);
/* A whole list of empty slabs becomes warm. true: now they are more than a share keeps. Caller holds the heap. */
TS_ALWAYS_INLINE bool ts_share_add_warm(ts_share *share, unsigned part, uint32_t head, uint32_t tail, uint32_t count) {
    ts_warm *warm = &share->warm[part];
    if (!head) return false;
    TS_ASSUME(!ts_is_piece(head) && !ts_is_piece(tail));
    /* As ts_warm_splice, of a list in registers. */
    ts_slab_at(tail)->next = warm->head;
    if (!warm->head) warm->tail = tail;
    warm->head = head;
    ts_add_owned(&warm->count, count);
    TS_PROBE2(slab__recycle,
              ts_region.part[part].base + (size_t)(head - ts_region.part[part].first_unit) * TS_UNIT_BYTES,
              (uint64_t)count);
    return ts_load_relaxed(&warm->count) > TS_LOCAL_WARM_UNITS ||
           share->allocator->settings.reclaim_policy == SLAB_RECLAIM_AT_ONCE;
}

/* A warm unit of the share, claimed. 0: it has none. Caller holds the heap. */
TS_ALWAYS_INLINE uint32_t ts_share_take(ts_share *share, unsigned part) {
    for (;;) {
        uint32_t unit = ts_warm_pop(&share->warm[part]);
        if (TS_UNLIKELY(!unit)) return 0;
        ts_slab_at(unit)->allocator =
            ts_allocator_index(share->allocator); /* for who makes a zombie of it, then or later */
        if (TS_LIKELY(ts_slab_claim(unit, &share->allocator->pins))) return unit;
    }
}

/* A unit that is nobody's and on no list, claimed, its memory readable and writable. Looks in the share, among
   the allocator's warm units, in the pool. home: as ts_nodes_wanted. *fresh: its memory was not resident. 0 with errno ENOMEM. Caller: the
   owner, not inside the heap. */
uint32_t ts_unit_acquire(ts_heap *heap, ts_share *share, unsigned home, bool *fresh);
/* A claimed unit whose generations or tags are used up: its memory goes back, its address is never used again. */
void ts_allocator_retire(ts_allocator *allocator, uint32_t unit);
/* The same of a slab, or span, of so many units, of which the first is used up. */
void ts_slab_retire(ts_allocator *allocator, uint32_t unit, uint32_t units);
/* A fresh slab of that use, of that home. 0: no memory. */
uint32_t ts_slab_acquire_churn(ts_heap *heap, ts_share *share, unsigned cls, unsigned home, bool *fresh);
uint32_t ts_slab_acquire_scope(ts_heap *heap, ts_share *share, unsigned home, bool *fresh);
/* Where a span of so many bytes lies. */
unsigned ts_span_part_of_large(const ts_allocator *allocator);
static inline unsigned ts_span_part(const ts_allocator *allocator, size_t bytes) {
    return TS_LIKELY(bytes <= ts_load_relaxed(&ts_region.far_bytes)) ? TS_NORMAL : ts_span_part_of_large(allocator);
}
/* Units in a row for a span, its record reset but for the epoch. *fresh: reads as zero. 0: no memory. Holds nothing. */
/* share: this thread's of the allocator, or NULL; some that it keeps may be an eighth longer. home: of FAR, ANY. */
uint32_t ts_span_acquire(ts_allocator *allocator, ts_share *share, unsigned part, unsigned home, uint32_t units,
                         uint32_t align_units, bool *fresh);
/* The same with inaccessible pages before the first unit and behind the page in which `size` bytes end, which are part
   of the span: a unit at least on either side, and `align_units` before it. */
uint32_t ts_span_acquire_guarded(ts_allocator *allocator, unsigned part, unsigned home, uint32_t units,
                                 uint32_t align_units, size_t size, bool *fresh);
/* Units of the part that it takes. */
uint64_t ts_span_guarded_units(unsigned part, uint32_t units, uint32_t align_units);
/* Units behind a span, which the caller has, if they are warm, or free and within the budget; nothing is given back for them.
   whole: units of the span with them. *fresh: they come from the pool. */
bool ts_span_acquire_behind(ts_allocator *allocator, uint32_t first, uint32_t units, uint32_t whole, bool *fresh);
/* The same units, untouched. */
void ts_span_give_behind(ts_allocator *allocator, uint32_t first, uint32_t units, bool fresh);
/* The units of a span that is on no list and whose UNIT word is 0; with its guards. The caller settles afterwards. */
void ts_span_release(ts_allocator *allocator, ts_share *share, uint32_t unit, uint32_t units);
/* This thread's share of a use of an allocator, which keeps the record from being given back; NULL: it has none. */
static inline ts_share *ts_share_of_mine(uintptr_t token) {
    const ts_heap *heap = ts_thread.heap;
    return TS_LIKELY(heap != NULL) ? ts_heap_find_share(heap, token) : NULL;
}
/* The same for units without guards whose memory is gone. */
void ts_span_release_bare(ts_allocator *allocator, uint32_t unit, uint32_t units);

/* Warm units that a thread keeps for itself. Any thread. */
static inline uint64_t ts_share_warm_units(const ts_share *share) {
    return (uint64_t)ts_load_relaxed(&share->warm[TS_NORMAL].count) + ts_load_relaxed(&share->span_units);
}

/* Near its budget, or giving back at once: whoever takes units of it takes none that he can do without. A hint. */
bool ts_allocator_is_sparing(const ts_allocator *allocator);
/* The budget in units, 0: none. */
uint64_t ts_allocator_budget_units(const ts_allocator *allocator);

/* Notes, if the allocator is over its limit of warm units now that so many were added, that this thread is to purge
   when it holds nothing. */
void ts_note_warm(ts_allocator *allocator, uint64_t added);
/* Purges up to `most` of what is warm beyond the budget. Returns units given back. Holds nothing. */
uint64_t ts_allocator_settle(ts_allocator *allocator, uint64_t most);
/* The same of what nobody has needed for a while (retain.h); to be called now and then. */
uint64_t ts_allocator_look(ts_allocator *allocator, uint64_t most);
/* A part of that which one allocation or free can pay for: see TS_PURGE_LEAST_UNITS. Returns how many of the units that it owes are left
   for its next calls. Holds nothing. */
uint64_t ts_allocator_settle_step(ts_allocator *allocator, uint64_t owed);
/* Purges down to `keep` warm units, those of all threads included. Returns bytes given back. */
size_t ts_allocator_trim(ts_allocator *allocator, uint64_t keep_units);
/* Warm units, all shares included. */
uint64_t ts_allocator_warm_units(ts_allocator *allocator);
/* A zombie slab that came off a queue. */
void ts_zombie_give(uint32_t unit);
bool ts_allocator_reserve(ts_allocator *allocator, uint64_t units);

#endif
