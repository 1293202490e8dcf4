/*
 * Epochs: the state machine, and what it does to the blocks of all threads.
 *
 *     ACTIVE --close--> CLOSING --last object freed--> CLOSED (entry free, id stale)
 *        \------------------ destroy, from both --------^
 *
 * An epoch's entry is guarded by the lock of its stripe (the index modulo 64), which no allocation or free of a
 * known epoch takes: only joining (a thread's first allocation in the epoch), spans, close and destroy.
 *
 * Invariants
 *  1. A block is in its epoch's list from the join to the end of the epoch; it enters before the epoch is published,
 *     or while it is ACTIVE, looked at under the lock. So after the state has changed under the lock, the list is complete.
 *  2. Close and destroy first write key (its owner; destroy: its era too), open_id and rolling of every block under the lock,
 *     then hold the heaps one by one without it (heap.h: by then every operation that began before has ended).
 *  3. While pins > 0 somebody walks the block list without the lock: no block leaves it. A destroy meanwhile
 *     makes everything stale and leaves the taking apart to the last who unpins.
 *  4. An entry whose id is 0 is nobody's. Its id never comes back.
 *
 * Fields marked "under the lock" or "guarded by the lock" are changed by the thread that holds the lock of the epoch's
 * stripe. The domains of an epoch (domain.h) are guarded by the lock of their epoch. A thread that ends or resets an
 * epoch holds it for the change itself, some fifty instructions; it takes its memory apart when it has released it (end.c).
 */
/* Modelled in tests/model: epoch, orders. */
#ifndef TS_EPOCH_EPOCH_H
#define TS_EPOCH_EPOCH_H

#include "supply/account.h"
#include "supply/allocator.h"

typedef struct ts_epoch {
    /* What a domain writes when it opens and ends, then what it looks at besides: two lines. */
    ts_entry entry;
    _Atomic(ts_allocator *) allocator; /* constant during a use; read without the lock to find epochs */
    _Atomic(ts_block *) blocks;        /* written under the lock; walked by readers without it */
    _Atomic uint64_t open_since_ns;    /* constant during a use */
    _Atomic uint32_t detached; /* how often its blocks have left it; written under the lock; see ts_epoch_read_blocks */
    _Atomic uint8_t state;     /* EPOCH_*; written under the lock */
    _Atomic uint8_t flags;     /* constant during a use */
    bool destroyed : 1;        /* guarded by the lock: to be taken apart at the last unpin */
    bool starts_small : 1; /* guarded by the lock: a thread's first objects in this churn epoch lie in a slab of mixed
                                        sizes (alloc.c, "Starting small") */
    bool clean : 1;        /* of an entry that is free: all but what every use sets is as in an epoch that was just
                                        opened. Of one in use it means nothing: its end may have to write it */
    _Atomic bool is_away;  /* its memory is; written under the lock, read by anyone */
    _Atomic uint32_t closed_kib;    /* held when it was closed; written under the lock */
    _Atomic uint32_t span_units;    /* its spans have; both parts of the region have fewer than 1 << 31 */
    TS_ALIGNED(64) ts_block *dying; /* guarded by the lock: blocks of a reset or destroy that met a pin */
    uint32_t spans;                 /* first unit of the first span; guarded by the lock */
    uint32_t pins;                  /* guarded by the lock */
    _Atomic(ts_account *) account;  /* written under the lock; read by anyone; NULL: none */
    _Atomic uint64_t span_allocated;
    _Atomic uint64_t label[SLAB_LABEL_BYTES / 8]; /* written under the lock, in turns (label.c) */
    _Atomic uint64_t closed_at_ns;                /* written under the lock; 0 while ACTIVE */
    _Atomic uint64_t span_freed, span_bytes_allocated, span_bytes_freed;
    _Atomic uint32_t rss_before_kib, rss_after_kib; /* written under the lock */
    struct ts_spill
        *spill; /* guarded by the lock: what has its memory lent, and has it pinned once; NULL: nothing (spill.h) */
    uint64_t marked_by; /* guarded by the lock: the domain that makes marks in it; an old id: none does (mark.c) */
} ts_epoch;
_Static_assert(sizeof(ts_epoch) <= TS_EPOCH_STRIDE, "an open epoch that holds nothing costs 192 bytes");

extern TS_HIDDEN ts_table ts_epochs;

#define TS_EPOCH_STRIPES 64u
typedef struct ts_epoch_stripe {
    TS_ALIGNED(64) ts_lock lock;
} ts_epoch_stripe;
extern TS_HIDDEN ts_epoch_stripe ts_epoch_stripes[TS_EPOCH_STRIPES];

void ts_epoch_init(void);
static inline ts_lock *ts_epoch_lock(const ts_epoch *epoch) {
    return &ts_epoch_stripes[epoch->entry.index % TS_EPOCH_STRIPES].lock;
}
/* The lock of an epoch that the caller has found by its id, or of a domain of it, or of whatever use of its entry comes after that. */
static inline void ts_epoch_acquire(const ts_epoch *epoch) { ts_lock_acquire(ts_epoch_lock(epoch)); }
static inline void ts_epoch_release(const ts_epoch *epoch) { ts_lock_release(ts_epoch_lock(epoch)); }

/* token: by which the caller found the allocator. join: the calling thread gets its block at once. EPOCH_NONE with errno. */
EpochId ts_epoch_open(ts_allocator *allocator, uintptr_t token, const char *label, unsigned flags, bool join);
/* The epoch of that allocator, any state. NULL: no such epoch (any more). */
ts_epoch *ts_epoch_find(ts_allocator *allocator, EpochId id);
/* After fields of it were read without the lock: they are of that epoch, not of the entry's next use. acquire: the loads
   before come first; partner of the fence in ts_epoch_begin. */
static inline bool ts_epoch_is_still(const ts_epoch *epoch, EpochId id) {
    atomic_thread_fence(memory_order_acquire);
    return ts_load_relaxed(&epoch->entry.id) == id;
}
/* Of any allocator. */
TS_ALWAYS_INLINE ts_epoch *ts_epoch_at_id(EpochId id) { return ts_table_find_strided(&ts_epochs, id, TS_EPOCH_STRIDE); }
/* The epoch with its lock taken; NULL without the lock: no such epoch. */
TS_ALWAYS_INLINE ts_epoch *ts_epoch_find_locked(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = ts_epoch_at_id(id);
    if (!epoch) return NULL;
    ts_epoch_acquire(epoch);
    if (ts_load_relaxed(&epoch->entry.id) == id && ts_load_relaxed(&epoch->allocator) == allocator) return epoch;
    ts_epoch_release(epoch);
    return NULL;
}
/* Of a free entry: what a use can leave behind. */
void ts_epoch_clean(ts_epoch *epoch);
/* Memory of its slabs and spans, in KiB. Exact when no thread is in an operation on it. Caller has the epoch. */
uint32_t ts_epoch_held_kib(const ts_epoch *epoch);
/* Calls fn for every block of the epoch, without a lock. false: blocks left the epoch meanwhile (it was reset or has
   ended), and what fn was shown means nothing. A block's memory is a block's for ever, so the walk itself is safe. */
bool ts_epoch_read_blocks(const ts_epoch *epoch, EpochId id, void (*fn)(void *, const ts_block *), void *arg);
/* Rolling epoch of the allocator with that token; EPOCH_NONE with errno. */
EpochId ts_epoch_current(ts_allocator *allocator, uintptr_t token);
EpochId ts_epoch_advance(ts_allocator *allocator, uintptr_t token);
void ts_epoch_fork_prepare(void);
void ts_epoch_fork_done(void);
/* The calling thread's block in an ACTIVE epoch. NULL with errno: EINVAL, ESTALE, ENOMEM. Not inside the heap. */
ts_block *ts_epoch_join(ts_heap *heap, ts_allocator *allocator, EpochId id);
/* The same of a churn epoch that starts small: the block with bins. */
ts_block *ts_epoch_join_bins(ts_heap *heap, ts_allocator *allocator, EpochId id);
/* A second block without bins there; the thread's next looks find the first. */
ts_block *ts_epoch_join_beside(ts_heap *heap, ts_allocator *allocator, EpochId id, const ts_block *first);
/* A scope block in a churn epoch: none of the fast paths allocates there. */
static inline bool ts_block_is_small(const ts_block *block) {
    const ts_epoch *epoch = ts_load_relaxed(&block->epoch);
    return block->scope && epoch && !(ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE);
}
/* Whether it takes objects. Caller has the lock. */
static inline bool ts_epoch_is_active(const ts_epoch *epoch) { return ts_load_relaxed(&epoch->state) == EPOCH_ACTIVE; }

#endif
