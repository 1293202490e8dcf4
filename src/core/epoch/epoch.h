/*
 * Epochs: the record of one, its lock, and how it begins.
 *
 *     ACTIVE --close--> CLOSING --last object freed--> CLOSED (the record is free, the id is stale)
 *        \------------------ destroy, from both --------^
 *
 * Each epoch has a lock: one of 64 stripes, by the index of its record. No allocation or free in a known epoch takes
 * it.
 * A thread takes it for its first allocation in the epoch, for a large object, and to end or reset the epoch.
 *
 * Invariants
 *  1. A block is in the list of its epoch from the join to the end of the epoch. It enters before the epoch can be
 *     found, or under the lock, while the epoch is ACTIVE. So the list is complete as soon as the state has changed
 *     under the lock.
 *  2. A close and a destroy first shut every block under the lock: they write key, open_id and rolling. Then they hold
 *     the heaps one by one, without the lock. Every operation that began before has ended by then (heap.c).
 *  3. While pins > 0 a thread walks the list without the lock, and no block of it ends. A reset or destroy makes them
 *     stale and moves them to `dying`; the last unpin ends them, and after a destroy takes the epoch apart.
 *  4. A record whose id is 0 is free. Its id never comes back.
 *
 * "Under the lock" says that only the thread that holds the lock changes a field, "guarded by the lock" that it reads
 * the field there too. The domain of an epoch (domain.h), which has one at most, is guarded by the lock of the epoch.
 */
/* Modelled in tests/model: epoch. */
#ifndef TS_EPOCH_EPOCH_H
#define TS_EPOCH_EPOCH_H

#include "supply/account.h"
#include "supply/allocator.h"

/* The usual domain touches the first line alone. */
typedef struct ts_epoch {
    ts_table_record record;
    _Atomic(ts_allocator *) allocator; /* constant during a use; read by anyone */
    _Atomic(ts_block *) blocks;        /* written under the lock; walked by readers without it */
    _Atomic uint64_t open_since_ns;    /* constant during a use */
    _Atomic uint32_t detached;         /* how often blocks have left the list; written under the lock */
    _Atomic uint8_t state;             /* EPOCH_*; written under the lock */
    _Atomic uint8_t flags;             /* constant during a use */
    /* Guarded by the lock, as the next: the last unpin takes the epoch apart. */
    bool destroyed : 1;
    /* A thread's first objects in this churn epoch lie in a slab of mixed sizes (alloc.c, "Starting small"). */
    bool starts_small : 1;
    /* In a free record: all fields but those that every use sets are as in an epoch that was just opened. In a record
       in use it means nothing: the end may have to write it. */
    bool clean : 1;
    /* A domain has been made for it, and has not ended. In a free record it means nothing. */
    bool has_domain : 1;
    /* It was closed, or since it began or was last emptied it has had a large object or a limit. If not it is ACTIVE,
       and has no pins. */
    bool has_more : 1;
    bool has_label : 1;
    _Atomic bool is_away;           /* its memory is on a device; written under the lock, read by anyone */
    _Atomic uint32_t closed_kib;    /* held when it was closed; written under the lock */
    _Atomic uint32_t span_units;    /* of its spans; both parts of the region have fewer than 1 << 31 */
    TS_ALIGNED(64) ts_block *dying; /* guarded by the lock: blocks that a reset or destroy took while there was a pin */
    uint32_t spans;                 /* guarded by the lock: first unit of the first span */
    uint32_t pins;                  /* guarded by the lock */
    _Atomic(ts_account *) account;  /* written under the lock; read by anyone; NULL: none */
    _Atomic uint64_t span_allocated;
    _Atomic uint64_t label[SLAB_LABEL_BYTES / 8]; /* written under the lock, in turns (label.c) */
    _Atomic uint64_t closed_at_ns;                /* written under the lock; 0 while ACTIVE */
    _Atomic uint64_t span_freed, span_bytes_allocated, span_bytes_freed;
    _Atomic uint32_t rss_before_kib, rss_after_kib; /* written under the lock */
    struct ts_spill *spill; /* guarded by the lock: the loan of its memory, which has one pin; NULL: none (spill.h) */
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
    return &ts_epoch_stripes[epoch->record.index % TS_EPOCH_STRIPES].lock;
}
/* An epoch that was found by its id may have ended by the time that its lock is taken: the caller looks at the id
   again. */
static inline void ts_epoch_acquire(const ts_epoch *epoch) { ts_lock_acquire(ts_epoch_lock(epoch)); }
static inline void ts_epoch_release(const ts_epoch *epoch) { ts_lock_release(ts_epoch_lock(epoch)); }

/* What the first block of a thread is. TS_FIRST_USUAL: made by its first allocation. TS_FIRST_JOINS: the calling thread
   gets it at once. TS_FIRST_SMALL: in a churn epoch, a slab of mixed sizes (object/alloc.c, "Starting small"), but not
   with care, or where each slab goes back at once. */
enum { TS_FIRST_USUAL, TS_FIRST_JOINS, TS_FIRST_SMALL };
/* An epoch that nobody can find yet. has_domain: the caller makes a domain for it. NULL with errno. */
ts_epoch *ts_epoch_make(ts_allocator *allocator, const char *label, unsigned flags, unsigned first, bool has_domain);
/* token: that by which the caller found the allocator. EPOCH_NONE with errno. */
EpochId ts_epoch_open(ts_allocator *allocator, uintptr_t token, const char *label, unsigned flags, unsigned first);
/* For an epoch that is not a domain's. Where many epochs are closed and hold objects, as those that leak do, new ones
   start small: so what stays of them is no block with bins, which takes a page. */
#define TS_EPOCH_MANY_DRAIN 64u
static inline unsigned ts_epoch_first(const ts_allocator *allocator) {
    return ts_load_relaxed(&allocator->draining) >= TS_EPOCH_MANY_DRAIN ? TS_FIRST_SMALL : TS_FIRST_USUAL;
}
/* true: fields that were read before, without the lock, are of that epoch, not of the record's next use. acquire: those
   loads come first; partner of the fence in ts_epoch_begin. */
static inline bool ts_epoch_is_still(const ts_epoch *epoch, EpochId id) {
    atomic_thread_fence(memory_order_acquire);
    return ts_load_relaxed(&epoch->record.id) == id;
}
/* An epoch of any allocator. */
TS_ALWAYS_INLINE ts_epoch *ts_epoch_at_id(EpochId id) { return ts_table_find_strided(&ts_epochs, id, TS_EPOCH_STRIDE); }
/* In any state. NULL: the allocator has no such epoch, or no longer. */
static inline ts_epoch *ts_epoch_find(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = ts_epoch_at_id(id);
    return epoch && ts_load_relaxed(&epoch->allocator) == allocator ? epoch : NULL;
}
/* The epoch, with its lock taken. NULL: there is none, and no lock is taken. */
TS_ALWAYS_INLINE ts_epoch *ts_epoch_find_locked(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = ts_epoch_at_id(id);
    if (!epoch) return NULL;
    ts_epoch_acquire(epoch);
    if (ts_load_relaxed(&epoch->record.id) == id && ts_load_relaxed(&epoch->allocator) == allocator) return epoch;
    ts_epoch_release(epoch);
    return NULL;
}
/* Clears what a use can leave behind in a record that is free. */
void ts_epoch_clean(ts_epoch *epoch);
/* Memory of its slabs and spans, in KiB. Exact while no thread is in an operation on it. Caller has the lock. */
uint32_t ts_epoch_held_kib(const ts_epoch *epoch);
/* Calls fn for every block of the epoch, without a lock. false: blocks have left the epoch meanwhile, by a reset or an
   end, and what fn was shown means nothing. The memory of a block is a block for ever, so the walk itself is safe. */
bool ts_epoch_read_blocks(const ts_epoch *epoch, EpochId id, void (*fn)(void *, const ts_block *), void *arg);
/* The rolling epoch of the allocator with that token; EPOCH_NONE with errno. */
EpochId ts_epoch_current(ts_allocator *allocator, uintptr_t token);
EpochId ts_epoch_advance(ts_allocator *allocator, uintptr_t token);
void ts_epoch_for_locks(ts_lock_fn *fn);

/* Which block of a churn epoch that starts small is wanted: one with bins; or a second one without that is not `first`,
   which the thread's next looks still find. */
typedef struct ts_wanted {
    bool bins;
    const ts_block *first; /* NULL: any without bins */
} ts_wanted;
/* The calling thread's block in an ACTIVE epoch. NULL with errno: EINVAL, ESTALE, ENOMEM. The thread is not inside its
   heap. */
ts_block *ts_epoch_join_as(ts_heap *heap, ts_allocator *allocator, EpochId id, ts_wanted wanted);
static inline ts_block *ts_epoch_join(ts_heap *heap, ts_allocator *allocator, EpochId id) {
    return ts_epoch_join_as(heap, allocator, id, (ts_wanted){.bins = false});
}
/* A scope block in a churn epoch. No fast path allocates in it. */
static inline bool ts_block_is_small(const ts_block *block) {
    const ts_epoch *epoch = ts_load_relaxed(&block->epoch);
    return block->scope && epoch && !(ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE);
}
/* What that adds to `slow` of the block. */
static inline uint8_t ts_block_slow_as_small(const ts_block *block) {
    return ts_block_is_small(block) ? TS_SLOW_ALWAYS : 0;
}
/* Whether the epoch takes objects. Caller has the lock. */
static inline bool ts_epoch_is_active(const ts_epoch *epoch) { return ts_load_relaxed(&epoch->state) == EPOCH_ACTIVE; }
/* As ts_epoch_find_locked, and NULL for one that takes none. */
static inline ts_epoch *ts_epoch_find_active(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    if (!epoch || ts_epoch_is_active(epoch)) return epoch;
    ts_epoch_release(epoch);
    return NULL;
}

#endif
