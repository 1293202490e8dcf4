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

#include "cache/cache.h"
#include "core/read.h"
#include "os/os.h"
#include "ownership/ownership.h"
#include "supply/supply.h"

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
/* EPOCH_*: of a closed epoch whose memory is in zones EPOCH_SPILLED. relaxed: it is shown, and nothing is read by it.
   */
static inline uint32_t ts_epoch_shown_state(const ts_epoch *epoch) {
    uint32_t state = ts_load_relaxed(&epoch->state);
    return state == EPOCH_CLOSING && ts_load_relaxed(&epoch->is_away) ? EPOCH_SPILLED : state;
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

/* ---- the domains that a thread is in ---------------------------------------------------------------------------- */

/* The domains that a thread is inside of, for the floors between epochs and domains. */

/* One of them; lives in the lines of the thread's heap, and is linked from ts_thread.domain. */
typedef struct ts_domain_scope {
    struct ts_domain_scope *outer;
    uint64_t domain; /* id; the domain itself may be gone */
    EpochId epoch;
    uintptr_t allocator;
    ts_scope_block *block; /* the domain's; a hint */
    bool captures;         /* the domain's */
} ts_domain_scope;

/* ---- labels ----------------------------------------------------------------------------------------------------- */

/* Labels of epochs (label.c). */

/* Caller has the lock, also of an epoch that nobody can find yet. */
void ts_epoch_set_label(ts_epoch *epoch, const char *label);
/* The whole label, terminated: the last one or the next, while another thread sets it. Takes no lock. */
void ts_epoch_read_label(const ts_epoch *epoch, char out[SLAB_LABEL_BYTES]);
/* Adds the epoch's id, its label while it is known, and whether it is closed or has ended. Takes no lock. */
void ts_epoch_describe(ts_text *line, EpochId id);

/* ---- limits ----------------------------------------------------------------------------------------------------- */

/* Limits on what epochs hold, and the accounts that count it (supply/account.h). */

/* Takes units of the epoch's account. If a limit refuses them, the empty slabs that this thread's bins keep in the
   epoch go back first. false with ENOMEM: a limit still refuses; a message says so, once a second at most. Holds
   nothing. */
bool ts_limit_charge(ts_account *account, uint64_t units, EpochId id);
/* The epoch's account, with a reference; NULL: it has none, or has ended. */
ts_account *ts_account_get(ts_epoch *epoch, EpochId id);
/* The account that the epoch has at the moment, read without its lock; NULL: none. */
ts_account *ts_epoch_account(const ts_epoch *epoch);
/* false with errno: EINVAL no such epoch, ENOMEM. */
bool ts_limit_set(ts_allocator *allocator, EpochId id, size_t bytes);
/* New memory of the epoch is to be of that NUMA node's home (supply/nodes.h); TS_HOMES: as the allocator's option says.
   false with errno, as ts_limit_set. */
bool ts_limit_bind(ts_allocator *allocator, EpochId id, unsigned home);
/* Makes one epoch the child of another, whose limit then counts both. EPOCH_NONE: of none. false with errno. */
bool ts_limit_link(ts_allocator *allocator, EpochId child, EpochId parent);
/* Makes the epoch the child of none, if it has an account. Caller has its lock. */
void ts_limit_leave(const ts_epoch *epoch);
/* Bytes held by the epoch, children included. */
size_t ts_limit_held(ts_allocator *allocator, EpochId id);

/* ---- large objects ---------------------------------------------------------------------------------------------- */

/* Spans: large objects (span.c). */

/* A note of a new span, made before another thread can end its epoch. */
typedef struct ts_span_note {
    uint64_t word;  /* its UNIT word */
    uint64_t bytes; /* usable; this field and the next are for an allocator with care */
    size_t written; /* place of the first byte that was written since the span was filled, or TS_CARE_CLEAN */
} ts_span_note;
void *ts_span_alloc(ts_allocator *allocator, EpochId epoch, size_t size, size_t align, bool *zero, ts_span_note *note);
bool ts_span_free(ts_allocator *allocator, uint32_t unit, uint64_t word, uint32_t generation);
/* The system moves spans of at least this many bytes. Each moved span leaves a mapping of its own in the process, and
   Linux allows some 65,000 of these. The region has room for 16,384 such spans. */
#define TS_SPAN_MOVE_BYTES ((size_t)4 << 20)
/* Moves the bytes of a span without guards to `to`, as many as there is room for, and frees the span. Not for an
   allocator with care. false: it was not live, and nothing was done. */
bool ts_span_move(ts_allocator *allocator, uint32_t unit, uint64_t word, uint32_t generation, void *to, size_t room);
/* Grows the live span with this word in place, to the units that `size` bytes need. false: it stays as it is. The
   units behind it are not free, or beyond the budget, or it has guards, or it is not live any more. Not for an
   allocator with care. */
bool ts_span_grow(ts_allocator *allocator, uint32_t unit, uint64_t word, size_t size);
/* The epoch of a live span, with its lock taken. NULL, without a lock: the unit has another word by now, or the span
   belongs to another allocator. */
ts_epoch *ts_span_lock(ts_allocator *allocator, uint32_t unit, uint64_t word);
/* The spans of an epoch are numbered by the count of those that it ever got, which 64 bits hold. */
static inline void ts_span_set_number(ts_slab *slab, uint64_t number) {
    slab->free_count = (uint16_t)number;
    slab->empty_at = (uint16_t)(number >> 16);
    slab->u.span.number = (uint32_t)(number >> 32);
}
static inline uint64_t ts_span_number(const ts_slab *slab) {
    return (uint64_t)slab->u.span.number << 32 | (uint64_t)slab->empty_at << 16 | slab->free_count;
}
/* How many spans the epoch ever got. And the end of all spans that came after the first `count`. */
uint64_t ts_span_count(ts_allocator *allocator, EpochId epoch);
void ts_span_release_newer(ts_allocator *allocator, EpochId epoch, uint64_t count);
/* Takes all spans off an epoch; the caller has its lock. Returns the first. */
uint32_t ts_span_detach(ts_epoch *epoch);
void ts_span_release_list(ts_allocator *allocator, uint32_t first);

/* ---- from one thread to another --------------------------------------------------------------------------------- */

/* Blocks of an epoch that go from one thread to another (hand_over.c). */

/* Moves a block of a heap without a thread to this thread's heap. Caller has the epoch's lock, and holds no heap. */
bool ts_epoch_adopt_block(ts_heap *heap, ts_share *share, ts_block *block, EpochId id);
/* The calling thread gives the epoch up to another thread. Its block ends if that holds nothing. Its other blocks wait
   for the next thread (cache/cache.h). */
void ts_epoch_disown(ts_allocator *allocator, EpochId id);
/* The part of ts_epoch_disown that may be done with the lock of the tree. ts_orphans_make_share comes before, if the
   answer is TS_GIVEN_UP_NO_SHARE, and ts_orphans_pass_on after, both without that lock. TS_GIVEN_UP_NOT: there was
   nothing to give up. */
ts_disowned ts_epoch_disown_blocks(ts_allocator *allocator, EpochId id);
/* The calling thread owns an epoch that was given up. It gets the blocks that wait; others it takes over as it joins.
   */
void ts_epoch_adopt_blocks(ts_heap *heap, ts_allocator *allocator, EpochId id);
/* Takes over a block that an ended thread left in the epoch, if one has a free slot of the class and is not
   about as large as the block of this thread, or many such blocks wait. any: of any size, because there is no memory
   for a slab. */
bool ts_epoch_adopt(ts_heap *heap, ts_epoch *epoch, EpochId id, unsigned cls, bool any);

/* ---- ends ------------------------------------------------------------------------------------------------------- */

/* The ends of epochs, and the work that is due after one (end.c). */

/* false: there is no such epoch that is ACTIVE. */
bool ts_epoch_close(ts_allocator *allocator, EpochId id);
bool ts_epoch_destroy(ts_allocator *allocator, EpochId id);
/* As both, for a caller that has the lock, which is released, and nothing else. The epoch is ACTIVE, second: in any
   state. The third comes before an end, without the lock: a tool wants to know the call, a record resident memory. */
void ts_epoch_close_locked(ts_epoch *epoch);
void ts_epoch_destroy_locked(ts_epoch *epoch);
void ts_epoch_note_call(const ts_allocator *allocator, EpochId id);
/* Kills all objects. The epoch stays ACTIVE under its id. units_freed: units of slabs and spans that are retained. */
bool ts_epoch_reset(ts_allocator *allocator, EpochId id, uint64_t *units_freed);
/* Takes a pin off that a close or a spill has put on. While there is one no block of the epoch ends. */
void ts_epoch_unpin(ts_epoch *epoch);
/* Ends a CLOSING epoch in which nothing is left. */
void ts_epoch_finish(ts_epoch *epoch, EpochId id);
/* Ends each CLOSING epoch of the allocator, NULL: of all allocators, in which nothing is left. The thread that took the
   last slab of such an epoch has noted it, but may not have come to it. Holds nothing. */
void ts_epoch_finish_over(const ts_allocator *allocator);
/* Does what this thread has noted: epochs that are drained, and retained memory beyond a limit. Holds nothing. */
void ts_epoch_run_deferred(void);
static inline bool ts_epoch_is_anything_noted(void) {
    return ts_thread.drained_count != 0 || ts_thread.settle != NULL || ts_thread.drain != NULL;
}
static inline void ts_epoch_run_noted(void) {
    if (TS_UNLIKELY(ts_epoch_is_anything_noted())) ts_epoch_run_deferred();
}
/* Called at the end of an epoch that released this many units. */
void ts_epoch_purge_after_end(uint64_t released);
/* The epoch is CLOSING, and nothing is left in it: it ends as soon as a call asks for its state. Takes no lock. */
bool ts_epoch_is_over(const ts_epoch *epoch, EpochId id);
/* Destroys all epochs of an allocator. */
void ts_epoch_destroy_all(ts_allocator *allocator);
/* Ends what threads that are not in the child were taking apart, and lets go of their pins. */
void ts_epoch_fork_child(void);

/* ---- memory of closed epochs ------------------------------------------------------------------------------------ */

/* An epoch was closed, and has live objects. Any thread calls it. */
void ts_decay_note_closed(void);
/* Does a piece of the work that is due. Holds nothing. */
void ts_decay_look(void);
/* Does all of the work that is due, until that time by ts_os->wall_ns. Holds nothing. */
void ts_decay_run(uint64_t until);
void ts_decay_fork_child(void);

/* ---- epochs that have ended ------------------------------------------------------------------------------------- */

/* A record as it was read. */
typedef struct ts_past_note {
    uint64_t id;
    uint64_t label[SLAB_LABEL_BYTES / 8];
    uint64_t opened_ns, closed_ns, ended_ns; /* ended: 0, not known */
    uint64_t returned_bytes;
    uint32_t rss_before_kib, rss_after_kib, flags;
} ts_past_note;

/* Finds an epoch in the allocator's rings. The caller is between ts_allocator_read_begin and ts_allocator_read_end,
   also in ts_past_newest. */
bool ts_past_find(struct ts_allocator *allocator, uint64_t id, ts_past_note *out);
/* The epochs that ended last, newest first, of those whose end is known. Returns how many. */
unsigned ts_past_newest(struct ts_allocator *allocator, ts_past_note *out, unsigned most);

#endif
