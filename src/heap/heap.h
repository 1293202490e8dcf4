/*
 * What a thread owns. One HEAP per thread; in it one BLOCK per epoch in which the thread allocates; in a churn
 * block one BIN per size class; in a heap one SHARE per allocator (warm units and counters).
 *
 * Ownership and the two kinds of hand-over
 *  1. A heap is owned by its thread. What is marked (h) is changed only by a thread that HOLDS the heap: its
 *     owner between ts_heap_enter and ts_heap_leave, or any thread between a ts_heap_hold that returned true
 *     and ts_heap_drop. The two exclude one another.
 *  2. The bins of a block are changed by the owner's fast paths too, without holding the heap, while the block
 *     is OPEN TO ITS OWNER (block->key names its share). To touch the bins of a live thread, another thread
 *     first shuts the block (key, open_id) and then holds the heap.
 *
 * Why that is enough. Every operation of a thread on its blocks, but for the one below, is bracketed by in_op = 1 ...
 * in_op = 0 in its thread block. ts_heap_hold writes `revoked`, then runs ts_os->barrier_all(), then waits for in_op == 0:
 *     owner:  in_op = 1;  (compiler fence)   read key / open_id / revoked
 *     other:  write key, open_id, revoked; barrier_all;  read in_op
 * This is the store-then-load protocol with the owner's machine fence replaced by the other's barrier_all: an
 * operation that read the old values began before the barrier, so its in_op = 1 is visible after it, and
 * waiting for in_op == 0 waits for its end (release/acquire on in_op hands over all that it wrote). An operation
 * that begins later reads the new values, leaves the fast path, and stops in ts_heap_enter at `revoked`.
 *
 * An allocation from the current slab of a scope (slab_alloc) needs no store of 0. It begins by storing the bump pointer
 * and ends by moving that on:
 *     owner:  at = bump;  in_op = at (release);  (compiler fence)  read open_id;  start bit;  bump = at + bytes (release)
 *     other:  ... barrier_all;  read in_op, then scope, then its bump
 * While the operation goes on, bump is at: nobody else changes that of an open block, and who has shut it waits. If bump
 * is another, it is over, or has come to nothing: every way out of the usual case begins as an operation of its own
 * (in_op = 1) and reads open_id and revoked again. The release in the beginning is for the operation before, whose end it
 * covers up. What is left in in_op afterwards never becomes true again by itself: bump comes back to a place only with
 * another use of the slab, or as an object shrinks, and both are operations that end with a 0; and the bump of another
 * block that the thread goes to without one is in another slab, or at the end of one, which is the place of no object
 * that began so: the first of a slab comes with the slab.
 *
 * Where the system has no such barrier, a live thread's heap cannot be held: ts_heap_hold returns false, and
 * the work is left to the owner (the condemned list), its exit, or slab_thread_idle.
 *
 * A thread that waits for another's operation is in none, and who is in one waits for no lock below rank HEAP: so no
 * circle of waiting can form. (It may try one: ts_lock_try.)
 *
 * Conservation, per bin: pops + word_allocs - pushes - direct_frees == live slots of the bin's slabs, always outside of an
 * operation (pops, pushes: the magazine's counts; word_allocs: ts_bin_word_allocs). These are what the statistics sum up.
 */
/* Modelled in tests/model: foreign, hold, bump, epoch, orders. */
#ifndef TS_HEAP_HEAP_H
#define TS_HEAP_HEAP_H

#include "base/assert.h"
#include "base/atomic.h"
#include "base/attr.h"
#include "base/lock.h"
#include "region/lines.h"
#include "region/region.h"
#include "region/table.h"
#include "slab/slab.h"

#include <tslab/tslab.h>

#define TS_MAGAZINE_SLOTS 64u
#define TS_MAGAZINE_BYTES TS_LINES_MAGAZINE_BYTES
#define TS_ID_NEVER EPOCH_NONE /* an epoch id that never is; no call gets to a fast path with it */
#define TS_DRAINED 40u         /* as many epochs as one call of an owner finds drained, and some: see TS_FOREIGN_WORK */
/* Ended blocks that a thread keeps for its next epochs: at most 800 KiB of churn blocks, if each has had objects of every
   class (4 KiB and 42 magazines each), and 68 KiB of scope blocks. What it has beyond that goes to all threads, so that
   there are never many more than were in use at once. */
#define TS_FREE_CHURN_BLOCKS 32u
#define TS_FREE_SCOPE_BLOCKS 256u
#define TS_FREE_BLOCKS_MOVED 16u /* at a time */
#define TS_SPARE_ENTRIES 8u      /* entries that a thread keeps for its next epochs and domains */
#define TS_HEAP_MAP 64u          /* blocks found without a search, by epoch index */
#define TS_LOCAL_WARM_UNITS 64u  /* 1 MiB: warm units of each part and allocator that a thread keeps for itself */
#define TS_WARM_UNITS_MOVED 16u  /* 256 KiB: what it takes from the allocator's at a time */
/* 32 KiB: what one allocation or free purges of single units at most while the allocator is over its limit, 5 to 9
   microseconds (4 units: 9 to 19; 1 would not catch up with objects of a unit each, and halves it again for twice as many
   operations that pay). Where no single unit is warm it purges one whole span, up to TS_SPAN_WARM_UNITS (1 MiB).
   A thread that adds units to those of the allocator owes twice as many, until it is below the low mark: so what
   is warm comes down however fast objects are freed. The end of an epoch pays at most twice what it released itself. */
#define TS_PURGE_UNITS_PER_STEP 2u

/* Kinds that are counted apart: the size classes, then these two. */
#define TS_COUNT_SCOPE TS_CLASSES
#define TS_COUNT_SPAN (TS_CLASSES + 1u)
#define TS_COUNT_KINDS (TS_CLASSES + 2u)

/* The figures of timed operations: six of allocations, six of frees. */
enum { TS_SAMPLE_ALLOC = 0, TS_SAMPLE_FREE = 6, TS_SAMPLE_FIGURES = 12 };
enum { TS_SAMPLE_COUNT, TS_SAMPLE_WALL, TS_SAMPLE_CPU, TS_SAMPLE_WAIT, TS_SAMPLE_WALL_MAX, TS_SAMPLE_CPU_MAX };
static inline bool ts_sample_is_max(unsigned figure) { return figure % TS_SAMPLE_FREE >= TS_SAMPLE_WALL_MAX; }

struct ts_heap;
struct ts_share;
struct ts_epoch;
struct ts_allocator;

/* Warm units: committed, in nobody's slab, linked through `next` of their records. */
typedef struct ts_warm {
    uint32_t head, tail;
    _Atomic uint32_t count; /* written with the list; read by anyone */
} ts_warm;

_Static_assert(TS_MAGAZINE_BYTES == TS_MAGAZINE_SLOTS * sizeof(char *), "a pointer for each slot");
_Static_assert((TS_MAGAZINE_SLOTS & (TS_MAGAZINE_SLOTS - 1)) == 0 && TS_MAGAZINE_SLOTS <= 128,
               "full is one bit of the depth, and the depth has 8");
/* The magazine is a stack of free objects; a free into a full one takes the place of another object, of each place in turn: an
   allocation gets one of the 64 that were freed last, and the last one unless the magazine was full. Its depth
   and the count of its allocations are one word, `top`, so counting costs nothing: what was freed into it is what was
   allocated from it, what is in it, and what left it for its slab (ts_bin_magazine_counts). 56 bits of a count are 11 years of
   200 million allocations a second. */
#define TS_TOP_DEPTH 255u
#define TS_TOP_PUSH 1u
#define TS_TOP_POP 255u /* one more allocated, one less in the magazine */
#define TS_TOP_POPS_SHIFT 8u
#define TS_EVICTED_NOTE 255u /* not 0 while it is emptied: what is in top's depth is evicted already */
#define TS_EVICTED_SHIFT 8u
#define TS_CLAIMS_BITS 255u
#define TS_CLAIMS_SHIFT 8u
typedef struct ts_bin {
    char **magazine;               /* TS_MAGAZINE_SLOTS objects; NULL before the first use */
    _Atomic uint64_t top;          /* [7:0] objects in it  [63:8] objects allocated from it (pops) */
    _Atomic uint64_t evicted;      /* [63:8] objects that left it for their slabs  [7:0] a note, see bin.c */
    _Atomic uint64_t claims;       /* [63:8] objects allocated from the claimed words before this one  [7:0] bits that
                                      this one had; 0: `word` is being changed, or put back. See bin.c */
    _Atomic uint64_t direct_frees; /* objects freed past the magazine: by other threads, while closing, retired */
    _Atomic uint64_t word;         /* claimed bits of one word of a slab's free bitmap, less those allocated */
    uint32_t word_granule;         /* granule of bit 0 */
    uint32_t head;                 /* (h) slabs, those with free slots first; 0: none */
    _Atomic uint32_t full;         /* (h) of them, without a free slot */
    _Atomic uint32_t slabs;        /* (h) */
} ts_bin;
_Static_assert(sizeof(ts_bin) <= TS_CACHE_LINE, "a bin is one line");

/* TS_SHUT_SEEN: a visitor found the block shut; who holds the heap after that may flush it (the barrier of a second
   hold is needed: the block may have been shut after the barrier of the first). */
enum { TS_OPEN, TS_SHUT_SEEN, TS_CLOSING };

typedef struct ts_block {
    /* Read by every free; written when the block changes hands or ends. */
    _Atomic uint64_t key;        /* [27:0] era in the UNIT words of its slabs  [63:32] line of its owner's share
                                        while that thread may use the fast paths, else 0. An owner's exit meets
                                        a close or destroy, so both change it by read-modify-write */
    _Atomic uint64_t open_id;    /* id of its epoch while that is active, else TS_ID_NEVER */
    _Atomic uintptr_t allocator; /* the allocator's public value */
    _Atomic uintptr_t rolling;   /* the same while its epoch is the allocator's rolling one, else 0 */
    uint8_t scope;               /* constant */
    uint8_t slow;            /* constant during a use: no fast path allocates here, as its allocator samples stacks, or
                                        guards large objects and this is a scope, whose fast path takes any size */
    uint8_t closing;         /* (h) TS_OPEN; TS_SHUT_SEEN; TS_CLOSING: flushed, frees go straight to the slabs */
    _Atomic uint8_t flushed; /* closing is TS_CLOSING and the flush is done; read by anyone */
    _Atomic uint32_t resets; /* (h) eras before this one that were of the same epoch; for messages, of any thread */
    _Atomic(struct ts_heap *) heap;   /* (h) */
    struct ts_share *share;           /* (h) */
    _Atomic(struct ts_epoch *) epoch; /* constant during a use; read by who looks at an object */
    /* (h) unless said otherwise */
    _Atomic(struct ts_block *) epoch_next; /* written under the epoch's lock, walked by readers without it */
    struct ts_block *heap_next;            /* list of the heap's blocks in use, or of its free ones */
    struct ts_block *heap_prev;            /* of the first block in use it means nothing */
    struct ts_block *condemned_next;       /* owner: who pushed it on the condemned list */
    _Atomic uint64_t
        bins_used; /* (h) bit per class: the bin has a magazine; bits are only set while it is a heap's; read by anyone */
    _Atomic uint32_t slabs;    /* units in its bins, or in its scope list */
    _Atomic uint32_t era;      /* (h) of its slabs' UNIT words; changed by a reset, too. Not the key's, which is
                                        another once the block is killed: a slab that is added then is stale too.
                                        Read by anyone, for messages */
    _Atomic uint64_t epoch_id; /* of the present use, or of the last; read by who tells of a misuse */
} ts_block;
_Static_assert(sizeof(ts_block) <= 2 * TS_CACHE_LINE, "so that bins begin on the third line");

typedef struct ts_churn_block {
    ts_block b;
    TS_ALIGNED(64) ts_bin bin[TS_CLASSES];
    uint32_t empty[TS_CLASSES]; /* (h) slabs of the bin without a slot in use */
    uint64_t little;            /* (h) bit per class: see churn_try in epoch/alloc.c */
} ts_churn_block;
#define TS_CHURN_BLOCK_ALIGN TS_LINES_CHUNK
_Static_assert(sizeof(ts_churn_block) <= TS_CHURN_BLOCK_ALIGN, "a bin finds its block by a mask");

typedef struct ts_scope_block {
    ts_block b;
    _Atomic uint64_t bytes_freed;
    TS_ALIGNED(64) _Atomic(char *) bump; /* next free byte of the current slab */
    _Atomic(char *) end;                 /* its end; both NULL: no slab */
    ts_scope_bits *bits;                 /* of the current slab */
    _Atomic uint32_t current;            /* its unit */
    uint32_t head, tail;                 /* (h) all slabs, the current one first */
    uint32_t
        allocs_before; /* (h) low half of allocs when the current slab was added, less the places skipped in it since:
                                        each is a freed object of the slab, and none of the counters */
    _Atomic uint64_t allocs;
    _Atomic uint64_t frees;
    _Atomic uint64_t bytes_allocated; /* in slabs that are full */
} ts_scope_block;
_Static_assert(sizeof(ts_scope_block) == 3 * TS_CACHE_LINE || sizeof(void *) < 8,
               "an open domain touches each line of it");

/* Counters per kind. (h) or owner; read by anyone. */
/* clang-format off */
#define TS_SHARE_COUNTERS(X)                                                                                  \
    X(slow_path_hits) X(new_slab_count) X(slow_path_cache_miss) X(list_move_partial_to_full)                  \
    X(list_move_full_to_partial) X(current_partial_null) X(current_partial_full) X(empty_slab_recycled)       \
    X(foreign_frees) X(ended)
/* clang-format on */

typedef struct ts_counters {
#define X(name) _Atomic uint64_t name;
    TS_SHARE_COUNTERS(X)
#undef X
} ts_counters;

typedef struct ts_share {
    struct ts_allocator *allocator; /* constant during a use, as are the next two */
    uintptr_t token;                /* of the allocator's use that this belongs to */
    struct ts_heap *heap;
    uint64_t open_key; /* of the key of a block of it that is open: its line, in place. 0 with care, which is the slow
                          path's work: such a block is never open to fast frees */
    uint8_t slow[2];   /* what its blocks' is, of churn and of scope; constant during a use */
    uint8_t care;      /* the allocator's, any tool included; likewise */
    uint16_t index;    /* the allocator's, as records of slabs have it; likewise */
    struct ts_share *heap_next;        /* (h) */
    struct ts_share *allocator_next;   /* constant once in the allocator's list */
    ts_warm warm[TS_PARTS];            /* (h) */
    _Atomic uint64_t refused_closed;   /* allocations in an epoch that was not active */
    ts_counters count[TS_COUNT_KINDS]; /* ended: objects of blocks that have ended, all of them freed */
} ts_share;

/* LOST: its thread vanished in a fork of a process in which it could not be held; it stays as it is. */
typedef enum ts_heap_state { TS_HEAP_STARTING, TS_HEAP_LIVE, TS_HEAP_ABANDONED, TS_HEAP_LOST } ts_heap_state;

/* The part of a thread that its fast paths use. Static and usable before any heap: no entry, no owner. */
typedef struct ts_tls {
    ts_churn_block *block;           /* block of the epoch used last */
    ts_churn_block *rolling;         /* block of the rolling epoch used last */
    _Atomic(ts_scope_block *) scope; /* block of the innermost domain, if that is a scope; read by others */
    _Atomic uintptr_t in_op;         /* see the top of this file; read by others */
    uintptr_t token;                 /* allocator used last; UINTPTR_MAX, which is none: no fast paths (no heap, or
                                        timing is on) */
    uint32_t share_line;             /* line of this thread's share of it; UINT32_MAX: likewise */
    struct ts_heap *heap;
    struct ts_domain_scope *domain; /* innermost domain entered */
    struct ts_allocator *settle;    /* over its limit of warm units: to purge when nothing is held */
    uintptr_t settle_token;         /* its use that was meant */
    uint64_t settle_units;          /* so many units, see TS_PURGE_UNITS_PER_STEP */
    uint64_t released;              /* units that this thread has made warm, for who looks before and after */
    struct ts_heap *drain;          /* abandoned, with foreign frees: likewise */
    bool drain_others;              /* and so have others */
    uint32_t drained[TS_DRAINED];   /* epochs by index: closing, and a block of theirs holds nothing: likewise */
    unsigned drained_count;
    bool drained_more;  /* than there is room for, so only while it is full: ts_epoch_settle looks at all epochs */
    uint64_t opened_ns; /* when it opened its newest epoch */
} ts_tls;

typedef struct ts_heap {
    ts_lock lock;                  /* taken by those who hold the heap of another thread */
    _Atomic uint32_t revoked;      /* guarded by lock; read by the owner */
    _Atomic uint32_t state;        /* ts_heap_state; guarded by lock */
    uint32_t id;                   /* constant */
    bool rebuild;                  /* (h) its thread vanished in a fork: trust state words only */
    ts_tls *tls;                   /* guarded by lock; NULL when abandoned */
    _Atomic uint64_t queue;        /* newest slab with foreign frees, 0: none; pushed by any thread */
    _Atomic uint32_t backlog;      /* (h) taken off the queue, not worked on yet; a hint to its owner, as is `ending` */
    _Atomic(ts_block *) condemned; /* blocks of destroyed epochs for the owner to take back; pushed by any */
    _Atomic(ts_block *) ending;    /* (h) taken off that list, not ended yet */
    ts_block *blocks;              /* (h) in use */
    ts_block *free_churn, *free_scope; /* (h) ended ones, for its next epochs */
    _Atomic uint32_t free_blocks[2];   /* (h) how many, of churn and of scope; a hint to its owner */
    ts_share *shares;                  /* (h) */
    struct ts_heap *next;              /* list of all heaps; constant after it is published */
    struct ts_heap *free_next;         /* guarded by the registry's lock, as is the next */
    bool listed_free;
    ts_entry *spare[2][TS_SPARE_ENTRIES]; /* owner only: free table entries, TS_TABLE_EPOCH and _DOMAIN */
    unsigned spares[2];
    ts_churn_block *map[TS_HEAP_MAP]; /* owner only; checked by open_id */
    ts_scope_block *scope_map[TS_HEAP_MAP];
    uint64_t serial;                     /* (h) of its thread; never used twice */
    struct ts_domain_scope *spare_scope; /* owner only */
    uint8_t flags_met;                   /* owner only: its frees in slabs with foreign frees, since it took those in */
    /* Sampling; written by the owner only. */
    uint32_t sample_rate, sample_left;
    _Atomic uint64_t sample[TS_SAMPLE_FIGURES]; /* of all threads that had this heap; read by anyone */
    uint64_t sample_start[TS_SAMPLE_FIGURES];   /* sums: when this thread began; maxima: of this thread */
    /* Sampling of stacks; owner only. */
    double stack_left;     /* to the next sample, in means; see epoch/stacks.h */
    uint64_t stack_random; /* 0: not begun */
    bool stack_busy;       /* what is allocated now is by the sampling itself */
} ts_heap;

/* Heaps of ended threads that still have blocks: whether looking for one to adopt is worth it. A hint. */
extern TS_HIDDEN _Atomic uint32_t ts_heaps_abandoned;

extern TS_HIDDEN _Thread_local ts_tls ts_thread;
extern TS_HIDDEN ts_churn_block ts_no_block; /* matches no epoch; its magazines are empty */
extern TS_HIDDEN ts_scope_block ts_no_scope;

static inline ts_block *ts_block_of_line(uint64_t line, bool scope) {
    uintptr_t at = (uintptr_t)ts_line_address(line);
    return (ts_block *)(scope ? at : at & ~(uintptr_t)(TS_CHURN_BLOCK_ALIGN - 1));
}
static inline unsigned ts_bin_class(const ts_churn_block *block, const ts_bin *bin) {
    return (unsigned)(bin - block->bin);
}
#define TS_KEY_SHARE_SHIFT 32u /* of a block's key: the upper half, as ts_halves_are compares it */
static inline uint64_t ts_word_era(uint64_t word) { return word & TS_UNIT_ERA_MASK; }
static inline uint64_t ts_word_line(uint64_t word) { return word >> TS_UNIT_LINE_SHIFT; }
static inline uint64_t ts_era(const ts_block *block) { return ts_load_acquire(&block->key) & TS_UNIT_ERA_MASK; }
static inline void ts_block_shut(ts_block *block) {
    atomic_fetch_and_explicit(&block->key, TS_UNIT_ERA_MASK, memory_order_relaxed);
}
/* Shut, and all its slabs are stale, before any of them can be reset (foreign.c, 5). seq_cst: see ts_slab_next_generation. */
static inline void ts_block_kill(ts_block *block) {
    uint64_t key = ts_load_relaxed(&block->key);
    while (!atomic_compare_exchange_weak_explicit(&block->key, &key, (key & TS_UNIT_ERA_MASK) + 1, memory_order_seq_cst,
                                                  memory_order_relaxed)) {
    }
}
static inline ts_bin *ts_bin_at(ts_churn_block *block, size_t offset) {
    return (ts_bin *)(void *)((char *)block + offset);
}
static inline ts_churn_block *ts_churn(ts_block *b) { return (ts_churn_block *)(void *)b; }
static inline ts_scope_block *ts_scope(ts_block *b) { return (ts_scope_block *)(void *)b; }
/* The UNIT word of a slab of the block in its present use. */
TS_ALWAYS_INLINE uint64_t ts_scope_word(const ts_scope_block *block) {
    return TS_UNIT_SCOPE | (uint64_t)ts_line_of(block) << TS_UNIT_LINE_SHIFT | ts_load_relaxed(&block->b.era);
}

/* ---- brackets --------------------------------------------------------------------------------- */

#define TS_IN_OP 1u
TS_ALWAYS_INLINE void ts_op_begin(ts_tls *tls) {
    ts_store_relaxed(&tls->in_op, TS_IN_OP);
    ts_compiler_fence(); /* partner: barrier_all in ts_heap_hold */
}
/* The same of one that ends with a release store to the bump pointer of the thread's scope block, which is `at`. NULL: it has not
   begun. release: who sees this sees the end of the operation before. */
TS_ALWAYS_INLINE void ts_op_begin_bump(ts_tls *tls, const char *at) {
    ts_store_release(&tls->in_op, (uintptr_t)at);
    ts_compiler_fence(); /* likewise */
}
/* release: partner of the acquire in ts_is_in_op, hands over what the operation wrote */
TS_ALWAYS_INLINE void ts_op_end(ts_tls *tls) { ts_store_release(&tls->in_op, 0); }
/* Whether a thread may be inside of an operation that it began before the caller's barrier_all. false: what those wrote is seen. Of
   one that it began later the answer says nothing. */
static inline bool ts_is_in_op(const ts_tls *tls) {
    uintptr_t at = ts_load_acquire(&tls->in_op); /* partners: ts_op_end, ts_op_begin_bump */
    if (at <= TS_IN_OP) return at != 0;
    /* acquire: who goes to another block has ended what he did in the last (ts_set_scope). The block is one for ever, whoever
       uses it. */
    const ts_scope_block *block = ts_load_acquire(&tls->scope);
    return (uintptr_t)ts_load_acquire(&block->bump) == at; /* partner: the end of the operation */
}
/* Where slab_alloc looks first. Caller: the thread itself. */
TS_ALWAYS_INLINE void ts_set_scope(ts_tls *tls, ts_scope_block *block) {
    ts_store_release(&tls->scope, block); /* partner: ts_is_in_op */
}

/* The owner begins and ends work on its own heap. Not nested; no lock of rank below HEAP may be waited for inside. */
static inline void ts_heap_enter(ts_heap *heap);
static inline void ts_heap_leave(ts_heap *heap);
/* The rest of ts_heap_enter: another thread holds the heap, or is about to. Ends the operation and waits for it. */
void ts_heap_enter_revoked(ts_heap *heap);
/* Any thread but the owner inside an operation. true: the heap is held. false: it cannot be, for now. */
bool ts_heap_hold(ts_heap *heap);
void ts_heap_drop(ts_heap *heap);

/* Notes for later, and the later: runs when this thread holds nothing and is in no operation. */
void ts_note_drained(ts_block *block);
void ts_settle_now(uint64_t purge_units);
/* After an operation on objects: purges a bounded part, the next one goes on. */
static inline void ts_settle_pending(void);
/* At the end of a phase during which `released` grew by so many: in proportion to them. */
static inline void ts_settle_phase(uint64_t units);
/* When the thread stops or rests: all of it. */
static inline void ts_settle_all(void);

/* ---- life ------------------------------------------------------------------------------------- */

bool ts_heap_init(void);
/* The heap of this thread, made or reused if it has none. NULL: no memory. */
static inline ts_heap *ts_heap_mine(void);
ts_heap *ts_heap_make(void);
/* Exit callback of the os layer. */
void ts_heap_exit(void *heap);
/* First of the list of all heaps. */
ts_heap *ts_heaps(void);
/* The fast paths of this thread are for this allocator now. Not while timing is on, nor with care (care.h). */
void ts_heap_bind(ts_heap *heap, const ts_share *share);
void ts_heap_unbind(void);
/* This thread's share of the allocator with that token, if there is one: no other thread adds or drops any. */
static inline ts_share *ts_heap_find_share(const ts_heap *heap, uintptr_t token) {
    ts_share *share = heap->shares;
    while (share && share->token != token) share = share->heap_next;
    return share;
}
/* This thread's share of an allocator, made if need be. NULL: no memory. */
ts_share *ts_heap_share(ts_heap *heap, struct ts_allocator *allocator);
/* Empties magazines and claimed words of all blocks, drains, gives warm units away. Caller: not inside the heap. */
void ts_heap_idle(ts_heap *heap);
/* As ts_table_take and ts_table_give, by way of a few entries that the thread keeps. which: TS_TABLE_EPOCH, _DOMAIN. */
static inline void *ts_heap_take_entry(ts_table *table, unsigned which) {
    ts_heap *heap = ts_thread.heap;
    if (heap && heap->spares[which] > 0) return heap->spare[which][--heap->spares[which]];
    return ts_table_take(table);
}
static inline void ts_heap_give_entry(ts_table *table, unsigned which, void *entry) {
    ts_heap *heap = ts_thread.heap;
    if (!ts_table_end(table, entry)) return;
    if (heap && heap->spares[which] < TS_SPARE_ENTRIES)
        heap->spare[which][heap->spares[which]++] = entry;
    else
        ts_table_free(table, entry);
}
/* For who has seen that there is room: an entry whose id is 0 again. */
TS_ALWAYS_INLINE void ts_heap_keep_entry(ts_heap *heap, const ts_table *table, unsigned which, void *entry) {
    if (TS_UNLIKELY(!ts_table_age(table, entry))) return;
    unsigned n = heap->spares[which]++;
    ts_keep(&heap->spare[which][n], (ts_entry *)entry);
}
/* Drops the shares of allocators that have ended and in which the heap has no block any more. Caller: the owner, in no
   allocation, or who holds the heap of an ended thread: only there no call can be using a share. */
void ts_heap_drop_dead_shares(ts_heap *heap);
/* Gives ended blocks to all threads until it has no more than so many of churn, and of scope; at most `most` in all.
   Caller holds the heap: its owner, with no pointer to an ended block, or who holds that of an ended thread. */
void ts_heap_give_blocks(ts_heap *heap, uint32_t churn, uint32_t scope, uint32_t most);
/* The owner, not inside: some of what is too many. */
void ts_heap_give_surplus(ts_heap *heap);
TS_ALWAYS_INLINE bool ts_heap_has_surplus(const ts_heap *heap) {
    return TS_UNLIKELY(ts_load_relaxed(&heap->free_blocks[0]) > TS_FREE_CHURN_BLOCKS) ||
           TS_UNLIKELY(ts_load_relaxed(&heap->free_blocks[1]) > TS_FREE_SCOPE_BLOCKS);
}
static inline void ts_heap_limit_blocks(ts_heap *heap) {
    if (ts_heap_has_surplus(heap)) ts_heap_give_surplus(heap);
}
/* Takes some of what others gave, onto the heap's own list, which is empty. Caller holds the heap. */
void ts_heap_fetch_blocks(ts_heap *heap, bool scope);
/* fork: prepare holds every heap, so that no list is half changed; operations of fast paths go on, so the child
   trusts only state words of other threads' blocks. */
void ts_heap_fork_prepare(void);
void ts_heap_fork_parent(void);
void ts_heap_fork_child(void);

/* ---- blocks, in block.c; the caller holds the heap ---------------------------------------------- */

/* One more of the heap's free blocks, of which it has none. false: there is no memory. */
bool ts_block_make(ts_heap *heap, bool scope);
/* Ends a block, killed or not: its slabs go to the share's warm units, its counters to the share, live objects die. */
void ts_block_end(ts_heap *heap, ts_block *block);
/* The same of a scope block that is killed, shut, and never was the rolling epoch's. */
void ts_block_end_killed_scope(ts_heap *heap, ts_scope_block *block);
/* Gives magazine and claimed words back to the slabs, and the slabs that are empty to the share. Returns slabs looked
   at; adds those given to *recycled. */
uint32_t ts_block_flush(ts_heap *heap, ts_block *block, uint64_t *recycled);
/* Flushes the block if another thread has closed it but could not hold this heap then. Caller: the owner, or who holds
   the heap of an ended thread. */
void ts_block_flush_if_shut(ts_heap *heap, ts_block *block);
/* The same from the state words alone, for a block whose thread vanished. */
void ts_block_rebuild(ts_heap *heap, ts_block *block);
/* Ends the blocks on the condemned list. Caller: the owner, or who holds the heap of an ended thread. */
void ts_heap_end_condemned(ts_heap *heap);
/* At most so many of them: for one allocation. */
void ts_heap_end_condemned_some(ts_heap *heap, unsigned most);
#define TS_CONDEMNED_WORK 8u
/* After a push on the list of a heap that could not be held: its thread may have ended since, and will not look again.
   Holds nothing. */
void ts_heap_end_condemned_abandoned(ts_heap *heap);
/* Ends blocks linked by condemned_next. Caller holds the heap, since after they were condemned. */
void ts_heap_end_list(ts_heap *heap, ts_block *block);
/* What others left to the heap's thread because they could not hold it: ends condemned blocks, flushes shut ones,
   drains, takes its warm units for the allocator. Any thread, holding nothing. */
void ts_heap_visit(ts_heap *heap, struct ts_allocator *allocator);
/* Empty slabs of this thread's bins become warm, those with objects in magazines and claimed words included; for who finds
   no memory. Whether there were any. Holds nothing. */
bool ts_heap_flush_bins(ts_heap *heap, const struct ts_allocator *allocator);
void ts_heap_condemn(ts_heap *heap, ts_block *block);
static inline void ts_heap_link(ts_heap *heap, ts_block *block) {
    block->heap_next = heap->blocks;
    if (heap->blocks) heap->blocks->heap_prev = block;
    heap->blocks = block;
}
static inline void ts_heap_unlink(ts_heap *heap, ts_block *block) {
    ts_block *next = block->heap_next;
    if (heap->blocks == block) {
        heap->blocks = next;
        return;
    }
    block->heap_prev->heap_next = next;
    if (next) next->heap_prev = block->heap_prev;
}

/* The first of the heap's free blocks, not yet in the epoch's list nor open. Its last use left it in no epoch and shut. */
TS_ALWAYS_INLINE void ts_block_begin(ts_heap *heap, ts_share *share, struct ts_epoch *epoch, ts_block *block,
                                     const bool scope) {
    *(scope ? &heap->free_scope : &heap->free_churn) = block->heap_next;
    ts_add_owned(&heap->free_blocks[scope], (uint32_t)-1);
    /* A cached pointer to the block's last use must not be taken for the new one. */
    if (scope) {
        if (TS_UNLIKELY((void *)ts_load_relaxed(&ts_thread.scope) == (void *)block))
            ts_set_scope(&ts_thread, &ts_no_scope);
    } else {
        if ((void *)ts_thread.rolling == (void *)block) ts_thread.rolling = &ts_no_block;
        /* It may be another allocator's now, and one with care does not change the token (ts_heap_bind). */
        if ((void *)ts_thread.block == (void *)block) ts_thread.block = &ts_no_block;
        ts_keep_relaxed(&block->rolling, 0); /* in a child of fork: its thread vanished in make_rolling */
    }
    ts_assert(2, ts_load_relaxed(&block->open_id) == TS_ID_NEVER && ts_load_relaxed(&block->heap) == heap &&
                     ts_load_relaxed(&block->key) == ts_era(block));
    ts_keep_relaxed(&block->allocator, share->token);
    ts_keep(&block->closing, TS_OPEN);
    ts_keep_relaxed(&block->flushed, 0);
    ts_keep(&block->share, share);
    ts_keep(&block->slow, share->slow[scope]);
    ts_store_relaxed(&block->era, (uint32_t)ts_era(block));
    ts_keep_relaxed(&block->resets, 0);
    ts_store_release(&block->epoch, epoch); /* after the last use: object.c, snapshot.c (epoch_of) */
    ts_heap_link(heap, block);
}

/* A block for an epoch, likewise. NULL: no memory. */
static inline ts_block *ts_block_take(ts_heap *heap, ts_share *share, struct ts_epoch *epoch, bool scope) {
    ts_block **list = scope ? &heap->free_scope : &heap->free_churn;
    if (TS_UNLIKELY(*list == NULL)) ts_heap_fetch_blocks(heap, scope);
    if (TS_UNLIKELY(*list == NULL) && !ts_block_make(heap, scope)) return NULL;
    ts_block *block = *list;
    ts_block_begin(heap, share, epoch, block, scope);
    return block;
}

typedef struct ts_tally {
    uint64_t allocated, freed, bytes_allocated, bytes_freed, slabs;
} ts_tally;
/* Sums of a block; cls: a class, TS_COUNT_SCOPE, or UINT32_MAX for all. Any thread; exact at a quiet point. */
ts_tally ts_block_tally(const ts_block *block, uint32_t cls);

/* ---- bins, in bin.c ------------------------------------------------------------------------------ */

/* Puts the bin's list in order after the free counts of its slabs were set anew. */
void ts_bin_list_by_free(ts_bin *bin);
bool ts_bin_ready(ts_churn_block *block, unsigned cls);
/* Adds a reset slab and publishes its UNIT word. Caller holds the heap. */
void ts_bin_add(ts_churn_block *block, unsigned cls, uint32_t unit);
/* Objects allocated from the magazine and freed into it, of one moment. Any thread. */
typedef struct ts_magazine_counts {
    uint64_t pops, pushes;
} ts_magazine_counts;
ts_magazine_counts ts_bin_magazine_counts(const ts_bin *bin);
/* Puts an object into a full magazine, for another that leaves it: to be given to ts_bin_evict. Owner, inside an
   operation. */
static inline char *ts_bin_exchange(ts_bin *bin, void *object) {
    uint64_t evicted = ts_load_relaxed(&bin->evicted);
    char **place = &bin->magazine[(evicted >> TS_EVICTED_SHIFT) & (TS_MAGAZINE_SLOTS - 1)];
    char *other = *place;
    *place = object;
    /* release: who sees the count sees the top that the object was freed above */
    ts_store_release(&bin->evicted, evicted + (1u << TS_EVICTED_SHIFT));
    return other;
}
/* Empties the magazine, whose objects the caller has put elsewhere. Caller holds the heap. */
void ts_bin_forget_magazine(ts_bin *bin);
/* Objects allocated from claimed words. Any thread. */
uint64_t ts_bin_word_allocs(const ts_bin *bin);
/* Takes the claimed word away, for the caller to put its bits elsewhere. Caller holds the heap. */
uint64_t ts_bin_take_word(ts_bin *bin);
/* Claims the next word of the bin's slabs. false: none has a free slot. Caller holds the heap. */
bool ts_bin_claim(ts_churn_block *block, unsigned cls);
/* Puts a free slot back into its slab; evict: owner inside an operation, which it ends, not holding the heap.
   Returns true. */
bool ts_bin_evict(ts_churn_block *block, ts_bin *bin, const char *object);
void ts_bin_give_slot(ts_churn_block *block, ts_bin *bin, uint32_t entry);
/* Gives a slab of the bin to the share if it is empty, and (if_empty) not worth keeping. Caller holds the heap. */
void ts_bin_release_if_empty(ts_churn_block *block, ts_bin *bin, uint32_t unit);
void ts_bin_release_empty(ts_churn_block *block, ts_bin *bin, uint32_t unit);
/* Frees one object past the magazine; its state word is live. The slab stays in the bin, empty or not. Caller holds the
   heap. */
void ts_bin_free_direct(ts_churn_block *block, ts_bin *bin, uint32_t entry);
/* The same for those of 32 granules of a slab (granule: the first, a multiple of 32) whose bits are on. What is not live
   is left out. Returns how many were freed. */
unsigned ts_bin_free_bits(ts_churn_block *block, ts_bin *bin, uint32_t unit, unsigned granule, uint32_t bits);

/* ---- scope slabs, in scope.c ---------------------------------------------------------------------- */

/* Adds a reset slab as the current one. Caller holds the heap. */
void ts_scope_add(ts_scope_block *block, uint32_t unit);
/* A warm unit of the share becomes the current slab, in place of the one that is perhaps there. false: there is none that can
   be used, and the slab that is there stays. Caller holds the heap. */
bool ts_scope_renew(ts_scope_block *block);
/* As ts_fast_bump, at a multiple of align (at most a quarter of a unit). */
void *ts_scope_bump_aligned(ts_scope_block *block, size_t align, size_t bytes);
/* Ends adding to the current slab; if all of it is free it goes to the share. Caller holds the heap. */
void ts_scope_retire_current(ts_scope_block *block);
/* Whether there is one, and all of its objects are freed. Caller holds the heap. */
bool ts_scope_is_current_empty(const ts_scope_block *block);
/* Frees one object of the block's own slabs. false: not the start of a live one. The slab stays. Caller holds the
   heap. */
bool ts_scope_free(ts_scope_block *block, uint32_t unit, uint32_t entry_in_unit);
void ts_scope_release_if_empty(ts_scope_block *block, uint32_t unit);
/* Bytes of the object at an entry; any thread. */
size_t ts_scope_object_bytes(const ts_scope_block *block, uint32_t unit, uint32_t entry_in_unit);

/* ---- foreign frees, in foreign.c ---------------------------------------------------------------- */

#define TS_ANY_GENERATION UINT32_MAX

/* FREED_SHUT: freed while the block was shut: to be followed by ts_foreign_give_closed. MET: another writer was met, and
   nothing was done. */
typedef enum ts_foreign_result {
    TS_FOREIGN_NOT_LIVE,
    TS_FOREIGN_FREED,
    TS_FOREIGN_FREED_SHUT,
    TS_FOREIGN_MET
} ts_foreign_result;
/* Frees an object of a block that this thread does not own. Not inside an operation. generation: the
   object's, or TS_ANY_GENERATION. retries: counted up. */
ts_foreign_result ts_foreign_free(uint32_t unit, uint64_t entry, uintptr_t allocator, uint32_t generation,
                                  uint64_t *retries);
/* The same for the usual case, from inside this thread's own heap. entry: in part NORMAL. NOT_LIVE: nothing was done, and
   the other call finds out what there is. */
ts_foreign_result ts_foreign_free_open(const ts_heap *heap, uint64_t entry, uintptr_t allocator);
/* After such a free, with nothing held: if the block is closed and this was the last live object of its slab, what waits
   on the owner's queue is taken in for it, in part: the owner may sleep, and the memory goes back now. */
void ts_foreign_give_closed(uint32_t unit, uint64_t entry);
/* Drains the queue of a heap that has no thread; of all such heaps. Hold nothing. */
void ts_foreign_drain_abandoned(ts_heap *heap);
void ts_foreign_drain_all_abandoned(void);
/* Takes all foreign frees of the heap's queue. Caller holds the heap. */
void ts_foreign_drain(ts_heap *heap);
/* The same once more, after a flush of a closing block. */
void ts_foreign_drain_flushed(ts_heap *heap);
/* Takes some: stops after the slab with which `most` is reached, a slab counting TS_FOREIGN_SLAB_WORK and each of its
   objects one. Returns the bytes of objects of churn blocks: what can be allocated again by that. */
size_t ts_foreign_drain_some(ts_heap *heap, unsigned most);
#define TS_FOREIGN_SLAB_WORK 16u
/* For one allocation or free: some microseconds. Per slab that is filled as much as a slab is taken in, and rounds are put off
   only while none has left anything, so what other threads free does not pile up. */
#define TS_FOREIGN_WORK 512u
_Static_assert(TS_DRAINED > TS_FOREIGN_WORK / TS_FOREIGN_SLAB_WORK, "one round does not look at all epochs");
/* Takes in one slab of a closing block, wherever on the queue it is. Caller holds the heap. */
void ts_foreign_take_off(ts_heap *heap, uint32_t unit);
#define TS_FOREIGN_FLAGS_MET 16u             /* measured beside 8 and 32: docs/architecture.md */
#define TS_FOREIGN_WORTH (2 * TS_UNIT_BYTES) /* what makes a round worth its while: see churn_try in epoch/alloc.c */
/* Whether a foreign free of the object is under way. */
bool ts_foreign_pending(uint32_t unit, bool scope, uint64_t entry);

static inline void ts_settle_pending(void) {
    if (TS_UNLIKELY(ts_thread.settle != NULL || ts_thread.drain != NULL)) ts_settle_now(TS_PURGE_UNITS_PER_STEP);
}
static inline void ts_settle_phase(uint64_t units) {
    if (TS_LIKELY(ts_thread.settle == NULL && ts_thread.drain == NULL)) return;
    ts_settle_now(units < TS_PURGE_UNITS_PER_STEP ? TS_PURGE_UNITS_PER_STEP : 2 * units);
}
static inline void ts_settle_all(void) {
    if (TS_UNLIKELY(ts_thread.settle != NULL || ts_thread.drain != NULL)) ts_settle_now(UINT64_MAX);
}

static inline void ts_heap_enter(ts_heap *heap) {
    ts_assert(2, !ts_is_in_op(&ts_thread) && heap == ts_thread.heap);
    ts_op_begin(&ts_thread);
    /* acquire: partner of the release in ts_heap_drop */
    if (TS_UNLIKELY(ts_load_acquire(&heap->revoked) != 0)) ts_heap_enter_revoked(heap);
}
static inline void ts_heap_leave(ts_heap *heap) {
    (void)heap;
    ts_op_end(&ts_thread);
}

/* Whether others have left anything on its lists. A hint: they may be about to. */
static inline bool ts_heap_is_waited_for(const ts_heap *heap) {
    uintptr_t blocks = (uintptr_t)ts_load_relaxed(&heap->condemned) | (uintptr_t)ts_load_relaxed(&heap->ending);
    return (ts_load_relaxed(&heap->queue) | ts_load_relaxed(&heap->backlog) | blocks) != 0;
}

static inline ts_heap *ts_heap_mine(void) {
    ts_heap *heap = ts_thread.heap;
    return TS_LIKELY(heap != NULL) ? heap : ts_heap_make();
}

/* ---- warm units, in warm.c ------------------------------------------------------------------------ */

void ts_warm_push(ts_warm *warm, uint32_t unit);
static inline uint32_t ts_warm_pop(ts_warm *warm) {
    uint32_t unit = warm->head;
    if (!unit) return 0;
    warm->head = ts_slab_at(unit)->next;
    if (!warm->head) warm->tail = 0;
    ts_add_owned(&warm->count, (uint32_t)-1);
    return unit;
}
/* from's units come before to's. Touches one record only, from's tail: at the end of a large epoch every other is out of the caches. */
TS_ALWAYS_INLINE void ts_warm_splice(ts_warm *to, ts_warm *from) {
    if (!from->head) return;
    ts_slab_at(from->tail)->next = to->head;
    if (!to->head) to->tail = from->tail;
    to->head = from->head;
    ts_add_owned(&to->count, ts_load_relaxed(&from->count));
    from->head = from->tail = 0;
    ts_store_relaxed(&from->count, 0);
}
/* An empty slab, unit on no list: becomes warm. Caller holds the heap. */
void ts_share_keep(ts_share *share, uint32_t unit);

#endif
