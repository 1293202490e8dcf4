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

#include "base/line.h"
#include "cache/orphan.h"
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
bool ts_epoch_close(ts_allocator *allocator, EpochId id);
bool ts_epoch_destroy(ts_allocator *allocator, EpochId id);
/* Kills all objects, the epoch stays ACTIVE under its id. units_freed: of slabs and spans that are warm now. */
bool ts_epoch_reset(ts_allocator *allocator, EpochId id, uint64_t *units_freed);
/* Of a reset: the epoch has no spans any more, and is counted as one that never had any. Caller has the lock. */
void ts_epoch_forget_spans(ts_epoch *epoch);
/* For who gives the epoch up to another thread. A block of this thread that holds nothing ends; the others wait for the next thread (cache/orphan.h). */
void ts_epoch_give_up(ts_allocator *allocator, EpochId id);
/* The same for who has the lock of the tree; ts_orphans_pass_on comes when he has it no more. NO_SHARE: ts_orphans_make_share did not come
   before; NOT: there was nothing to give up. */
ts_given_up ts_epoch_give_up_blocks(ts_allocator *allocator, EpochId id);
/* The calling thread has an epoch that was given up: what waits there is its own now. The rest it takes over as it joins. */
void ts_epoch_take_up(ts_heap *heap, ts_allocator *allocator, EpochId id);
/* No block of the epoch ends until ts_epoch_unpin; *blocks is the list as it is now, which may be walked meanwhile. As
   ts_epoch_close does on its way; for tests. NULL: no such epoch. */
ts_epoch *ts_epoch_pin(ts_allocator *allocator, EpochId id, ts_block **blocks);
void ts_epoch_unpin(ts_epoch *epoch);
/* Ends a CLOSING epoch in which nothing is left. */
void ts_epoch_finish(ts_epoch *epoch, EpochId id);
/* Ends those of the allocator's CLOSING epochs in which nothing is left: each was noted by who took its last slab, unless his thread has
   not come to it. Holds nothing. */
void ts_epoch_finish_over(const ts_allocator *allocator);
/* What ts_note_drained noted, and what is over its limit. Holds nothing. */
void ts_epoch_settle(void);
static inline bool ts_epoch_is_anything_noted(void) {
    return ts_thread.drained_count != 0 || ts_thread.settle != NULL || ts_thread.drain != NULL;
}
/* The same where there mostly is nothing. */
static inline void ts_epoch_settle_noted(void) {
    if (TS_UNLIKELY(ts_epoch_is_anything_noted())) ts_epoch_settle();
}
/* At the end of an epoch that made so many units warm. */
void ts_epoch_settle_end(uint64_t released);
/* Of a free entry: what a use can leave behind. */
void ts_epoch_clean(ts_epoch *epoch);
/* Caller has the lock, also of an epoch that nobody can find yet. */
void ts_epoch_set_label(ts_epoch *epoch, const char *label);
/* The label as it is now, terminated: the whole of one label, also while another thread sets the next. Takes no lock. */
void ts_epoch_read_label(const ts_epoch *epoch, char out[SLAB_LABEL_BYTES]);
/* Adds the epoch's id, its label while it is known, and whether it is closed or has ended. Takes no lock. */
void ts_epoch_describe(ts_line *line, EpochId id);
/* Memory of its slabs and spans, in KiB. Exact when no thread is in an operation on it. Caller has the epoch. */
uint32_t ts_epoch_held_kib(const ts_epoch *epoch);
/* Calls fn for every block of the epoch, without a lock. false: blocks left the epoch meanwhile (it was reset or has
   ended), and what fn was shown means nothing. A block's memory is a block's for ever, so the walk itself is safe. */
bool ts_epoch_read_blocks(const ts_epoch *epoch, EpochId id, void (*fn)(void *, const ts_block *), void *arg);
/* CLOSING, and nothing is left in it: it ends as soon as somebody asks for its state. Takes no lock. */
bool ts_epoch_is_over(const ts_epoch *epoch, EpochId id);
/* Rolling epoch of the allocator with that token; EPOCH_NONE with errno. */
EpochId ts_epoch_current(ts_allocator *allocator, uintptr_t token);
EpochId ts_epoch_advance(ts_allocator *allocator, uintptr_t token);
/* Destroys all epochs of an allocator. */
void ts_epoch_destroy_all(ts_allocator *allocator);
void ts_epoch_fork_prepare(void);
void ts_epoch_fork_done(void);
/* Lets go of the pins of threads that are not in the child. */
void ts_epoch_fork_child(void);

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
/* Takes over a block that an ended thread left in the epoch, if one has a free slot of the class. */
bool ts_epoch_adopt(ts_heap *heap, ts_epoch *epoch, EpochId id, unsigned cls);

/* Whether it takes objects. Caller has the lock. */
static inline bool ts_epoch_is_active(const ts_epoch *epoch) { return ts_load_relaxed(&epoch->state) == EPOCH_ACTIVE; }

/* ---- spans, in span.c -------------------------------------------------------------------------------- */

/* What is noted of a new span before another thread can end its epoch. */
typedef struct ts_span_note {
    uint64_t word;  /* its UNIT word */
    uint64_t bytes; /* usable, as the next for an allocator with care */
    size_t written; /* where the first byte is that was written since the span was filled, or TS_CARE_CLEAN */
} ts_span_note;
void *ts_span_alloc(ts_allocator *allocator, EpochId epoch, size_t size, size_t align, bool *zero, ts_span_note *note);
bool ts_span_free(ts_allocator *allocator, uint32_t unit, uint64_t word, uint32_t generation);
/* Pieces of so many bytes at least are moved by the system. Each leaves an area of its own in the process's address space, of which
   Linux allows some 65,000: the region has room for 16,384 such pieces. */
#define TS_SPAN_MOVE_BYTES ((size_t)4 << 20)
/* What is in a span without guards is at `to`, or as much of it as there is room, and the span is freed. For an allocator without care. false:
   it was not live, and nothing was done. */
bool ts_span_move(ts_allocator *allocator, uint32_t unit, uint64_t word, uint32_t generation, void *to, size_t room);
/* The live span with that word gets as many units as `size` bytes need, which are more than it has, where it is. false: it stays as it
   is: what lies behind it is not free, or beyond the budget, or it has guards, or lives no more. Not for an allocator with care. */
bool ts_span_grow(ts_allocator *allocator, uint32_t unit, uint64_t word, size_t size);
/* The epoch of a live span with its lock taken; NULL without: word is no longer the unit's, or another allocator's. */
ts_epoch *ts_span_lock(ts_allocator *allocator, uint32_t unit, uint64_t word);
/* How many the epoch has ever got, its lower half; and the end of those that came after so many. */
uint32_t ts_span_count(ts_allocator *allocator, EpochId epoch);
void ts_span_release_newer(ts_allocator *allocator, EpochId epoch, uint32_t count);
/* Takes all spans off an epoch; the caller has its lock. Returns the first. */
uint32_t ts_span_detach(ts_epoch *epoch);
void ts_span_release_list(ts_allocator *allocator, uint32_t first);

/* ---- looking at objects, in object.c ------------------------------------------------------------------- */

typedef struct ts_object {
    char *address;
    size_t bytes; /* usable */
    EpochId epoch;
    uint32_t unit; /* its slab's number */
    uint32_t entry_in_unit;
    uint32_t generation;         /* 24 bits */
    uint32_t kind;               /* class, TS_COUNT_SCOPE or TS_COUNT_SPAN */
    uint64_t word;               /* UNIT word, FOREIGN cleared */
    ts_block *block;             /* NULL: span */
    const ts_allocator *care_of; /* its allocator */
} ts_object;
/* Where p lies: the number of its slab (slab/slab.h), and the entry. false: not in the region, or not on a 16-byte place. */
static inline bool ts_locate(const void *p, uint32_t *unit, uint64_t *entry) {
    const ts_part *r = &ts_region.part[TS_NORMAL];
    uint64_t e = ts_entry_of(r, p);
    if (TS_UNLIKELY(!ts_is_in_part(r, e))) return ts_locate_far(p, unit, entry);
    *unit = ts_slab_of_entry(e);
    *entry = e;
    return true;
}

/* Of the allocator in whose slab or span p lies, whether or not an object starts there; 0: in none. Takes no lock. */
uintptr_t ts_object_owner(const void *p);
/* Whether p is the start of a live object of the allocator, and all about it. */
bool ts_object_at(uintptr_t allocator, const void *p, ts_object *out);
/* The same; false for a span, which is looked at under its epoch's lock: for who holds a heap. */
bool ts_object_at_in_slab(uintptr_t allocator, const void *p, ts_object *out);
/* The bytes of it that the program may use: `bytes`, but those asked for where a tool watches (care.h). */
size_t ts_object_usable(const ts_object *object);
/* The same for a handle; 0 in the generation of the handle never matches. */
bool ts_object_of_handle(uintptr_t allocator, SlabHandle handle, ts_object *out);
/* The object's handle; SLAB_HANDLE_NONE if it stopped living meanwhile. */
SlabHandle ts_object_handle(uintptr_t allocator, const ts_object *object);

/* One object and no other that has or had its address: for who asks later whether it still lives, without using up a
   generation of its slab as a handle does. */
typedef struct ts_watch {
    uint64_t word; /* UNIT word, FOREIGN cleared */
    uint32_t tag;  /* of its slab's use; 0: span, the word has it */
    uint32_t generation;
} ts_watch;
/* false: not the start of a live object. Takes no lock, as the next. */
bool ts_object_watch(uintptr_t allocator, const void *p, ts_watch *out);
/* Whether the object that was at p is still live. *bytes: usable; 0: a span. */
bool ts_object_watched(uintptr_t allocator, const void *p, const ts_watch *watch, size_t *bytes);

#endif
