/*
 * The allocator's record: its options, its budget, and the memory and counters that its threads share. Each thread
 * keeps a part of its own in its share (share.h), and comes here when the share runs empty or over.
 *
 *     committed_units == units in slabs and spans + cut units + retained units of all shares + retained units here
 *
 * holds at a quiet point.
 */
#ifndef TS_SUPPLY_ALLOCATOR_H
#define TS_SUPPLY_ALLOCATOR_H

#include "ownership/ownership.h"
#include "supply/retain.h"
#include "supply/runs.h"

#include <tslab/tslab.h>

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
    bool reserve_by_env; /* reserve_bytes is from TSLAB_RESERVE */
    bool hints_given;    /* hints is not the default */
} ts_settings;

/* 64-bit words in the order of the record: its state, its counters, spans, the highest figures shown, samples. */
#define TS_ALLOCATOR_WORDS \
    (6 + 13 + sizeof(ts_span_counts) / 8 + 2 * (TS_COUNT_KINDS + 1) + TS_COUNT_KINDS + TS_COUNT_SPAN + TS_CLASSES + 6)
typedef struct ts_allocator {
    ts_table_record record;
    _Atomic uintptr_t token;           /* public value; constant during a use; may be read without a use */
    ts_settings settings;              /* constant during a use, as is the next */
    uint8_t care;                      /* TS_CARE_*, 0: the usual case (memtools.h) */
    _Atomic int on_misuse;             /* as in the settings; may be read without a use, and after its end */
    _Atomic uint8_t sampled;           /* its stacks are; see observe/stacks.h, as for the next */
    _Atomic uint64_t stack_mean_bytes; /* for one sample of a stack; 0: none is taken */
    /* The end of a large epoch touches these fields, which are out of the caches by then. So they lie together. */
    TS_ALIGNED(64) ts_lock retained_lock; /* rank RETAINED: the lists of retained units and spans */
    ts_retained retained;
    uint32_t retained_group;              /* the first unit in retained that begins a group, 0: none (retained.c) */
    _Atomic uint64_t span_retained_units; /* in runs and stuck; read by anyone */
    _Atomic uint64_t reserved_units;      /* retained units kept beyond the retain budget, by slab_reserve */
    ts_retain retain;
    ts_extents runs[TS_PARTS];
    ts_ages ages; /* of all runs */
    _Atomic(struct ts_nodes *)
        nodes;       /* NULL: homes are not told apart (nodes.h), the usual case; written under retained_lock */
    uint32_t cut[2]; /* cut units with free pieces here, short and long ones, linked by next and prev (piece.h) */
    uint32_t stuck; /* guarded spans that the system does not make accessible again, linked by next: ts_purge_guarded */
    ts_lock lock;   /* rank ALLOCATOR: rolling epoch, list of shares */
    _Atomic(ts_share *) shares;          /* grows at its head, under lock; walked by readers without it */
    _Atomic(struct ts_past_ring *) past; /* past.h; NULL: none */
    _Atomic uint32_t readers;            /* threads between ts_allocator_read_begin and _end; and TS_READERS_OVER */
    _Atomic uint32_t budget_told;        /* that an allocation failed because of the budget */
    union {
        _Atomic uint64_t words[TS_ALLOCATOR_WORDS]; /* all of the following, which begin at 0 in each use */
        struct {
            _Atomic uint64_t current_epoch; /* written under lock, read by anyone */
            _Atomic uint64_t committed_units;
            _Atomic uint64_t cut_units;    /* of them */
            _Atomic uint64_t taken_units;  /* ever taken from the pool */
            _Atomic uint64_t budget_bytes; /* 0: none; whole units of it count, one at least */
            _Atomic uint64_t pins;         /* 1 + references to the record, which is given back at 0 */
            /* Counters of the whole allocator: added to atomically, none of them on a fast path. */
            _Atomic uint64_t rejected_frees, cas_retries, overflowed, allocation_failures;
            _Atomic uint64_t madvise_calls, madvise_bytes, madvise_failures;
            _Atomic uint64_t close_calls, close_scanned, close_recycled, close_ns;
            _Atomic uint64_t left;      /* blocks that an end has left to their threads */
            _Atomic uint64_t draining;  /* its epochs that are CLOSING */
            ts_span_counts span_counts; /* by threads without a share of it */
            /* Highest figures that statistics have shown, per kind and in all; see snapshot.c. */
            _Atomic uint64_t shown_allocated[TS_COUNT_KINDS + 1], shown_freed[TS_COUNT_KINDS + 1],
                shown_foreign[TS_COUNT_KINDS], shown_recycled[TS_COUNT_SPAN], shown_unfilled[TS_CLASSES];
            _Atomic uint64_t stack_samples, stack_drops;
            _Atomic uint64_t total_drops, total_objects_dropped, total_bytes_dropped; /* stack_totals.h */
            _Atomic uint64_t span_miss;
        };
    };
    _Atomic uint32_t maintain_share; /* where ts_allocator_maintain goes on; any value will do */
    ts_seen seen;                    /* whether all of its threads rest; as in a share */
} ts_allocator;
_Static_assert(sizeof(ts_allocator) <= TS_ALLOCATOR_STRIDE, "one record of a table");
_Static_assert(offsetof(ts_allocator, span_miss) == offsetof(ts_allocator, words[TS_ALLOCATOR_WORDS - 1]),
               "a new use zeroes each counter, and nothing else");
_Static_assert(TS_MAX_ALLOCATORS <= UINT16_MAX + 1u, "a slab's record has 16 bits for the index");

/* As the record of a slab has it. */
static inline uint16_t ts_allocator_index(const ts_allocator *allocator) { return (uint16_t)allocator->record.index; }

extern TS_HIDDEN ts_table ts_allocators;
void ts_allocators_init(void);

static inline ts_allocator *ts_allocator_find(uintptr_t token) {
    return ts_table_find_strided(&ts_allocators, token, TS_ALLOCATOR_STRIDE);
}

/* The allocators one by one, with their tokens. *index: 1 at first. NULL: there is no more. Others come and go. */
static inline ts_allocator *ts_allocator_next(uint32_t *index, uintptr_t *token) {
    uint64_t id = 0;
    ts_allocator *a = ts_table_next(&ts_allocators, index, &id);
    *token = (uintptr_t)id;
    return a;
}

/* Between the two calls no share of the allocator is dropped, and its record gets no other use. They take no lock,
   and nobody waits for the reader. false: the use has ended. */
bool ts_allocator_read_begin(ts_allocator *allocator, uintptr_t token);
void ts_allocator_read_end(ts_allocator *allocator);
#define TS_READERS_OVER (UINT32_C(1) << 31) /* nothing refers to the record: the last reader gives it back */
/* In a child of fork, where the readers of other threads are not. */
void ts_allocator_fork_child(ts_allocator *allocator);

/* Pins a record that is pinned already. */
void ts_allocator_pin(ts_allocator *allocator);
/* Pins a record that was found by its token. false: that use has ended. */
bool ts_allocator_pin_use(ts_allocator *allocator, uintptr_t token);
void ts_allocator_unpin(ts_allocator *allocator);

/* The largest object that a churn epoch has in a slab; larger ones are spans. Bins of larger classes stay
   empty, so that the fast paths find nothing there. With care large objects are spans, because care knows no slab of
   several units. */
static inline size_t ts_allocator_class_bytes(const ts_allocator *allocator) {
    const ts_settings *settings = &allocator->settings;
    bool spans = settings->guard_spans || settings->reclaim_policy == SLAB_RECLAIM_AT_ONCE;
    return spans ? TS_QUARTER_BYTES : allocator->care ? TS_MAX_CLASS_BYTES : TS_MAX_SLAB_BYTES;
}
/* The same of a scope. Above half of a unit it takes a new slab only where that wastes nothing (ts_scope_may_renew). */
static inline size_t ts_allocator_scope_bytes(const ts_allocator *allocator) {
    return allocator->settings.guard_spans ? TS_QUARTER_BYTES : allocator->care ? TS_SCOPE_MAX_BYTES : TS_UNIT_BYTES;
}

#endif
