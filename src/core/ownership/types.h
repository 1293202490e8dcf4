/*
 * What a thread owns. One HEAP per thread; in it one BLOCK per epoch in which the thread allocates; in a churn
 * block one BIN per size class; in a heap one SHARE per allocator (warm units and counters). What (h) means, and who
 * else may look at what: heap.h.
 */
#ifndef TS_OWNERSHIP_TYPES_H
#define TS_OWNERSHIP_TYPES_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/lock.h"
#include "region/chunk.h"
#include "region/lines.h"
#include "region/region.h"
#include "region/table.h"
#include "slab/slab.h"

#include <tslab/tslab.h>

#define TS_MAGAZINE_SLOTS 64u
#define TS_MAGAZINE_BYTES TS_LINES_MAGAZINE_BYTES
#define TS_SMALL_MOST 8192u    /* bytes of an object, and of its alignment, in the first slab of a churn domain */
#define TS_ID_NEVER EPOCH_NONE /* an epoch id that never is; no call gets to a fast path with it */
#define TS_DRAINED 40u         /* as many epochs as one call of an owner finds drained, and some: see TS_FOREIGN_WORK */
/* Ended blocks that a thread keeps for its next epochs: at most 800 KiB of churn blocks, if each has had objects of every
   class (4 KiB and 40 magazines each), and 58 KiB of scope blocks. What it has beyond that goes to all threads, so that
   there are never many more than were in use at once. */
#define TS_FREE_CHURN_BLOCKS 32u
#define TS_FREE_SCOPE_BLOCKS 256u
#define TS_FREE_BLOCKS_MOVED 16u /* at a time */
/* Of the churn blocks that nobody has so many keep their memory, 8 MiB; and so many chunks of magazines, 2 MiB. */
#define TS_POOL_CHURN_BLOCKS 2048u
#define TS_POOL_MAGAZINE_CHUNKS 512u
#define TS_SPARE_ENTRIES 8u /* entries that a thread keeps for its next epochs and domains */
#define TS_RECENT_SHARES 8u
/* So many calls for other allocators than the one that a thread's fast paths are for, and they are for the last of these. */
#define TS_OTHERS_MOST 256u
#define TS_HEAP_MAP 64u         /* blocks found without a search, by epoch index */
#define TS_LOCAL_WARM_UNITS 64u /* 1 MiB: warm units of each part and allocator that a thread keeps for itself */
/* Spans of up to 256 KiB stay with the thread that freed them, by length, as long as it has no more than 1 MiB of them. */
#define TS_LOCAL_SPAN_UNITS 16u
#define TS_LOCAL_SPANS_UNITS 64u
#define TS_WARM_UNITS_MOVED 16u /* 256 KiB: what it gives to the allocator's, or takes from them, at a time */
/* A thread that adds units to those of the allocator while that is over its limit owes twice as many: so what is warm comes down
   however fast objects are freed. What it owes goes back in pieces of TS_PURGE_PIECE_UNITS (1 MiB, one system call of some
   thirty microseconds where it was touched), and waits until there is such a piece. Beyond one and a half times the limit one of
   TS_PURGE_LEAST_UNITS will do, and beyond twice the limit any. Its single units become runs meanwhile, which grow together. The end of an
   epoch pays at most twice what its thread has released, itself or by frees since the last such end, in runs of any length. */
#define TS_PURGE_PIECE_UNITS 64u
#define TS_PURGE_LEAST_UNITS 16u
#define TS_PURGE_PHASE_UNITS 512u /* released by the frees of a phase: its end pays for all that is too much */
#define TS_PURGE_CALLS 2u         /* of the system in one allocation or free */
#define TS_PURGE_STEP 0u          /* for ts_settle_now: an allocation or a free pays */

/* Kinds that are counted apart: the size classes, then these two. */
#define TS_COUNT_SCOPE TS_CLASSES
#define TS_COUNT_SPAN (TS_CLASSES + 1u)
#define TS_COUNT_KINDS (TS_CLASSES + 2u)

/* The figures of timed operations: six of allocations, six of frees. */
enum { TS_SAMPLE_ALLOC = 0, TS_SAMPLE_FREE = 8, TS_SAMPLE_FIGURES = 16 };
enum {
    TS_SAMPLE_COUNT,
    TS_SAMPLE_WALL,
    TS_SAMPLE_CPU,
    TS_SAMPLE_WAIT,
    TS_SAMPLE_SLOW, /* longer on the clock than TS_SLOW_NS */
    TS_SAMPLE_VERY_SLOW,
    TS_SAMPLE_WALL_MAX,
    TS_SAMPLE_CPU_MAX
};
#define TS_SLOW_NS 200u
#define TS_VERY_SLOW_NS 10000u
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

/* Free objects, and where their state words are: an allocation that finds one computes neither from the other, and is the same for
   all sizes. Not side by side: the smaller halves lie closer together. */
typedef struct ts_magazine {
    char *object[TS_MAGAZINE_SLOTS];
    uint32_t granule[TS_MAGAZINE_SLOTS];
} ts_magazine;
_Static_assert(TS_MAGAZINE_BYTES == sizeof(ts_magazine), "lines.h says how large it is");
_Static_assert((TS_MAGAZINE_SLOTS & (TS_MAGAZINE_SLOTS - 1)) == 0 && TS_MAGAZINE_SLOTS <= 128,
               "full is one bit of the depth, which has 8, and a class may have a lower one: ts_bin");
/* The magazine is a stack of free objects; what is freed while it is full goes straight to its slab. Its depth
   and the count of its allocations are one word, `top`, so counting costs nothing: what was freed into it is what was
   allocated from it, what is in it, and what it was emptied of, which is counted as freed directly from then on. 56 bits of a count
   are 11 years of 200 million allocations a second. */
#define TS_TOP_DEPTH 255u
#define TS_TOP_PUSH 1u
#define TS_TOP_POP 255u /* one more allocated, one less in the magazine */
#define TS_TOP_POPS_SHIFT 8u
#define TS_DIRECT_NOTE 255u /* not 0 while the magazine is emptied: what is in it is among the direct frees already */
#define TS_DIRECT_SHIFT 8u
#define TS_DIRECT_ONE ((uint64_t)1 << TS_DIRECT_SHIFT)
#define TS_CLAIMS_BITS 255u
#define TS_CLAIMS_SHIFT 8u
typedef struct ts_bin {
    TS_ALIGNED(64) ts_magazine *magazine; /* NULL before the first use */
    _Atomic uint64_t top;                 /* [7:0] objects in it  [63:8] objects allocated from it (pops) */
    _Atomic uint64_t claims;       /* [63:8] objects allocated from the claimed words before this one  [7:0] bits that
                                      this one had; 0: `word` is being changed, or put back. See bin.c */
    _Atomic uint64_t direct_frees; /* [63:8] objects freed past the magazine: by other threads, while
                                      closing, retired, while it was full  [7:0] a note, see bin.c */
    _Atomic uint64_t word;         /* claimed bits of one word of a slab's free bitmap, less those allocated */
    _Atomic uint16_t *state;       /* [granule]: those of its slabs; set with the magazine */
    uint32_t word_granule;         /* that of bit 0 of the claimed word */
    /* One word: its thread reads full_at in each free, held or not, so in a block that it has open nobody else writes head. */
    uint32_t head : 24;     /* (h) slabs, those with free slots first; 0: none */
    uint32_t full_at : 8;   /* objects in a full magazine, one bit; set with it */
    _Atomic uint32_t full;  /* (h) of them, without a free slot */
    _Atomic uint32_t slabs; /* (h) */
} ts_bin;
_Static_assert(TS_MAX_UNITS_LOG2 <= 24, "a unit's number fits in head");
_Static_assert(sizeof(ts_bin) == TS_CACHE_LINE, "a bin is one line, by whose number it is found");

enum { TS_OPEN, TS_CLOSING };

/* What others have left to a block's thread, which had no processor when they came: to flush it, for a close; to end it; to have it
   counted by the account of its epoch. */
#define TS_LEFT_SHUT ((uintptr_t)1)
#define TS_LEFT_DEAD ((uintptr_t)2)
#define TS_LEFT_COUNT ((uintptr_t)4)
#define TS_LEFT_MARKS (TS_LEFT_SHUT | TS_LEFT_DEAD | TS_LEFT_COUNT)

typedef struct ts_block {
    /* Read by every free; written when the block changes hands or ends. */
    _Atomic uint64_t
        key; /* [26:0] era in the UNIT words of its slabs  [27] 1, see ts_fast_free  [63:32] line of its owner's share
                                        while that thread may use the fast paths, else 0. An owner's exit meets
                                        a close or destroy, so both change it by read-modify-write */
    _Atomic uint64_t open_id;    /* id of its epoch while that is active, else TS_ID_NEVER */
    _Atomic uintptr_t allocator; /* the allocator's public value */
    union {
        _Atomic uintptr_t rolling; /* churn: the same while its epoch is the allocator's rolling one, else 0 */
        uint64_t handle;           /* (h) scope: a handle of its current slab, but for the place; 0: none was made */
    };
    uint8_t scope;           /* constant */
    uint8_t slow;            /* owner only: no fast path allocates here, as its allocator samples stacks, or
                                        guards large objects and this is a scope, whose fast path takes any size */
    uint8_t closing;         /* (h) TS_OPEN; TS_CLOSING: flushed, frees go straight to the slabs */
    _Atomic uint8_t flushed; /* closing is TS_CLOSING and the flush is done; read by anyone */
    _Atomic uint32_t resets; /* (h) eras before this one that were of the same epoch; for messages, of any thread */
    _Atomic(struct ts_heap *) heap;   /* (h) */
    struct ts_share *share;           /* (h) */
    _Atomic(struct ts_epoch *) epoch; /* constant during a use; read by who looks at an object */
    /* (h) unless said otherwise */
    _Atomic(struct ts_block *) epoch_next; /* written under the epoch's lock, walked by readers without it */
    struct ts_block *heap_next;            /* list of the share's blocks in use, or of the heap's free ones */
    struct ts_block *heap_prev;            /* of the first block in use it means nothing */
    _Atomic uintptr_t left; /* TS_LEFT_*, and the address of the next block on its heap's list of those that are left;
                               0: it is on none. Marks are set by anyone, who pushes the block if it had none; all of it is
                               taken by who takes the block off the list and holds the heap. See block.c */
    union {
        _Atomic uint64_t
            bins_used; /* (h) churn: bit per class: the bin has a magazine; bits are only set while it is a heap's; read by
                                       anyone */
        struct ts_account *account; /* (h) scope: NULL: none, the usual case (account.h) */
    };
    _Atomic uint32_t slabs;    /* units in its bins, or slabs in its scope list */
    _Atomic uint32_t era;      /* (h) of its slabs' UNIT words; changed by a reset, too. Not the key's, which is
                                        another once the block is killed: a slab that is added then is stale too.
                                        Read by anyone, for messages */
    _Atomic uint64_t epoch_id; /* of the present use, or of the last; read by who tells of a misuse */
} ts_block;
_Static_assert(sizeof(ts_block) <= 2 * TS_CACHE_LINE, "so that bins begin on the third line");

#define TS_OWN_MAGAZINES (832u / TS_MAGAZINE_BYTES)
typedef struct ts_churn_block {
    ts_block b;
    struct ts_account *account; /* (h) as of a scope */
    TS_ALIGNED(64) ts_bin bin[TS_CLASSES];
    uint32_t empty[TS_CLASSES]; /* (h) slabs of the bin without a slot in use */
    uint64_t little;            /* (h) bit per class: see churn_try in object/alloc.c */
    uint8_t seen[TS_CLASSES]; /* (h) how much was allocated in the bin at the last look, its low byte (ts_heap_shed) */
    TS_ALIGNED(64)
    ts_magazine own[TS_OWN_MAGAZINES]; /* the magazines of the first classes that are used */
} ts_churn_block;
#define TS_CHURN_BLOCK_ALIGN TS_LINES_CHUNK
_Static_assert(sizeof(ts_churn_block) <= TS_CHURN_BLOCK_ALIGN, "a bin finds its block by a mask");
_Static_assert(sizeof(ts_churn_block) + TS_MAGAZINE_BYTES > TS_CHURN_BLOCK_ALIGN, "there is no room for one more");

/* The place of a scope's next object and how many have begun in the current slab, in one word: so an object is counted by the store
   that moves the place on, and one that comes to lie beyond the caches waits for one store less (docs/decisions.md). It
   names the operation of which it is the beginning, too (heap.h). 0: no slab. */
#define TS_BUMP_COUNT 2047u /* [10:0] objects; a slab has room for 1024 */
#define TS_BUMP_TURN 2048u  /* [11] that of `allocs` when the slab became the current one */
#define TS_BUMP_SHIFT 12u   /* [63:12] address of the next free byte */
_Static_assert(TS_UNIT_BYTES / 16 <= TS_BUMP_COUNT, "a slab full of objects is counted");
_Static_assert(TS_BUMP_SHIFT + TS_ADDRESS_BITS <= 64, "an address has room");
static inline uint64_t ts_bump_word(const char *at, uint64_t rest) {
    return (uint64_t)(uintptr_t)at << TS_BUMP_SHIFT | rest;
}
/* The address bits that have no room are as the highest that has: some systems place memory at the upper end. */
static inline char *ts_bump_at(uint64_t bump) { return (char *)(uintptr_t)((int64_t)bump >> TS_BUMP_SHIFT); }
static inline uint64_t ts_bump_count(uint64_t bump) { return bump & TS_BUMP_COUNT; }
/* After one more object of so many bytes. It fits if that is not above the limit of its slab (for bytes that do not overflow). */
static inline uint64_t ts_bump_next(uint64_t bump, size_t bytes) {
    return bump + ((uint64_t)bytes << TS_BUMP_SHIFT) + 1;
}
/* Of a slab of so many bytes that begins there. */
static inline uint64_t ts_bump_limit(const char *at, size_t bytes) {
    return ts_bump_word(at, 0) + (((uint64_t)bytes << TS_BUMP_SHIFT) + (TS_BUMP_TURN | TS_BUMP_COUNT));
}
/* As in_op has it. Where that has 32 bits it is the place alone. */
static inline uintptr_t ts_bump_name(uint64_t bump) {
    return sizeof(uintptr_t) < sizeof bump ? (uintptr_t)(bump >> TS_BUMP_SHIFT) : (uintptr_t)bump;
}

#define TS_ALLOCS_TURN 1u /* another with each slab that is sealed */
#define TS_ALLOCS_SHIFT 1u
typedef struct ts_scope_block {
    ts_block b;
    _Atomic uint64_t bytes_freed;
    TS_ALIGNED(64) _Atomic uint64_t bump; /* see above */
    _Atomic uint64_t limit;               /* of the current slab; 0: none */
    ts_scope_bits *bits;                  /* of the current slab */
    _Atomic uint32_t current;             /* its unit */
    uint32_t head, tail;                  /* (h) all slabs, the current one first */
    uint16_t skipped; /* (h) places in the current slab that were skipped for an alignment: each is a freed object of
                                    the slab, and none of the counters. An anchor (rewind.h) is two */
    uint8_t anchored; /* (h) its slabs may have anchors, of this use or one before */
    _Atomic uint8_t
        pieces; /* (h) of its slabs are pieces: the first that it got, so the last of the list; read by anyone */
    _Atomic uint64_t allocs; /* [63:1] objects of the slabs before the current one  [0] turn, see scope.c */
    _Atomic uint64_t frees;
    _Atomic uint64_t bytes_allocated; /* in slabs that are full */
} ts_scope_block;
_Static_assert(sizeof(ts_scope_block) == 3 * TS_CACHE_LINE || sizeof(void *) < 8,
               "an open domain touches each line of it");

/* Counters per kind. (h) or owner; read by anyone. */
/* clang-format off */
#define TS_SHARE_COUNTERS(X)                                                                                  \
    X(slow_path_hits) X(new_slab_count) X(slow_path_cache_miss) X(list_move_partial_to_full)                  \
    X(current_partial_null) X(current_partial_full) X(foreign_frees) X(ended)
/* clang-format on */

typedef struct ts_counters {
#define X(name) _Atomic uint64_t name;
    TS_SHARE_COUNTERS(X)
#undef X
} ts_counters;

/* Of large objects (epoch/span.c). What was freed is counted by a release, and read first: so it is never more than what was allocated. */
typedef struct ts_span_counts {
    _Atomic uint64_t allocated, bytes_allocated, units_taken;
    _Atomic uint64_t freed, bytes_freed, units_given;
} ts_span_counts;

/* By who looks whether a thread rests (maintain.c); written by any of them. */
typedef struct ts_seen {
    _Atomic uint64_t work, ns; /* its counters when they were seen to be others than before, and when that was */
    _Atomic uint32_t sheds;    /* looks at its empty slabs since */
} ts_seen;

typedef struct ts_share {
    struct ts_allocator *allocator; /* constant during a use, as are the next two */
    uintptr_t token;                /* of the allocator's use that this belongs to */
    struct ts_heap *heap;
    uint64_t open_key; /* of the key of a block of it that is open: its line, in place. 0 with care, which is the slow
                          path's work: such a block is never open to fast frees */
    uint8_t slow[2];   /* what its blocks' is, of churn and of scope; owner only */
    uint8_t care;      /* the allocator's, any tool included; likewise */
    uint8_t
        looks; /* a unit of its lists is looked at before it becomes a slab: with care, and by which home it is of; likewise */
    uint8_t home;                    /* that its thread wanted memory of last (nodes.h); likewise */
    uint16_t index;                  /* the allocator's, as records of slabs have it; likewise */
    struct ts_share *heap_next;      /* (h) */
    ts_block *blocks;                /* (h) in use, newest first */
    struct ts_share *allocator_next; /* constant once in the allocator's list */
    ts_warm warm[TS_SLAB_PARTS];     /* (h) */
    /* (h) warm spans by length, linked by next, their UNIT words 0; and the units in them, read by anyone */
    uint32_t spans[TS_LOCAL_SPAN_UNITS + 1];
    _Atomic uint32_t span_units;
    uint32_t pieces, piece_count;        /* (h) free ones, linked by next (piece.h) */
    uint32_t firsts;                     /* owner only: how often a scope's first slab was no warm unit */
    ts_span_counts span_counts;          /* by this thread; owner only, read by anyone */
    _Atomic uint64_t refused_closed;     /* allocations in an epoch that was not active */
    _Atomic(struct ts_past_ring *) past; /* past.h, as the next; NULL: none */
    _Atomic(struct ts_brief_ring *) brief;
    ts_seen seen;
    ts_counters count[TS_COUNT_KINDS]; /* ended: objects of blocks that have ended, all of them freed */
} ts_share;

/* Of a heap's `revoked`. */
#define TS_REVOKED 1u
#define TS_UNHOLDABLE 2u
#define TS_CALLED 4u

/* LOST: its thread vanished in a fork of a process in which it could not be held; it stays as it is. */
typedef enum ts_heap_state { TS_HEAP_STARTING, TS_HEAP_LIVE, TS_HEAP_ABANDONED, TS_HEAP_LOST } ts_heap_state;

#define TS_NO_SERIAL UINT64_MAX /* no thread's */
/* The part of a thread that its fast paths use. Static and usable before any heap: no entry, no owner. */
typedef struct ts_tls {
    ts_churn_block *block;           /* block of the epoch used last */
    ts_churn_block *rolling;         /* block of the rolling epoch used last */
    _Atomic(ts_scope_block *) scope; /* block of the innermost domain, if that is a scope; read by others */
    ts_scope_block *last;            /* block of the scope epoch that was used last by its id, or by its domain */
    _Atomic uintptr_t in_op;         /* see the top of heap.h; read by others */
    _Atomic uintptr_t token; /* allocator used last; UINTPTR_MAX, which is none: no fast paths (no heap, or timing is
                                        on); TS_TOKEN_CALLED: none in this call (heap.h). Written by its thread, and by who calls it */
    uint64_t share_key;      /* of this thread's share of it; TS_KEY_NO_SHARE: likewise */
    struct ts_heap *heap;
    uint64_t serial;                /* of it; TS_NO_SERIAL without one */
    struct ts_domain_scope *domain; /* innermost domain entered */
    const struct ts_domain *named;  /* entry of the domain used last by its name, whatever use it is in; or NULL */
    struct ts_cleaning *cleaning;   /* innermost domain whose cleanups it runs (domain/domain_parts.h) */
    struct ts_allocator *settle;    /* over its limit of warm units: to purge when nothing is held */
    uintptr_t settle_token;         /* its use that was meant */
    uint64_t settle_units;          /* so many units, see TS_PURGE_LEAST_UNITS */
    uint64_t released;              /* units that this thread has made warm, for who looks before and after */
    uint64_t phase_released;        /* the same at the last end of a phase at which something was owed */
    struct ts_heap *drain;          /* abandoned, with foreign frees: likewise */
    bool drain_others;              /* and so have others */
    uint32_t drained[TS_DRAINED];   /* epochs by index: closing, and a block of theirs holds nothing: likewise */
    unsigned drained_count;
    bool drained_more;  /* than there is room for, so only while it is full: ts_epoch_settle looks at all epochs */
    unsigned settled;   /* calls of ts_epoch_settle */
    uint64_t opened_ns; /* when it opened its newest epoch */
    unsigned others;    /* calls for other allocators than that of `token`, which found their way without it */
} ts_tls;

typedef struct ts_heap {
    ts_lock lock; /* taken by those who hold the heap of another thread */
    _Atomic uint32_t
        revoked; /* [0] held by another thread, or about to be; guarded by lock, read by the owner  [1] the same in
                                 fork, and it cannot be held  [31:2] how often something was left to its thread since that was
                                 worked off; added to by anyone. See heap.h */
    _Atomic uint32_t state;     /* ts_heap_state; guarded by lock */
    uint32_t id;                /* constant */
    _Atomic uint32_t answers;   /* (h) how often what is left to its thread was worked off; read by who calls it */
    bool rebuild;               /* (h) its thread vanished in a fork: trust state words only */
    bool keeps_nothing;         /* (h) its thread ends, or has: no bin keeps an empty slab any more */
    bool is_home;               /* constant: no thread has it, ever: for blocks that theirs have given up (orphan.c) */
    _Atomic uint32_t unflushed; /* (h) in a child of fork: a block of it was shut by who vanished, perhaps: who holds it
                                      looks for that one; read by others as a hint */
    ts_tls *tls;                /* written with lock (or in a child of fork); NULL when abandoned */
    _Atomic uint64_t queue;     /* newest slab with foreign frees, 0: none; pushed by any thread */
    _Atomic uint32_t backlog;   /* (h) taken off the queue, not worked on yet; a hint to its owner, as is `ending` */
    _Atomic(ts_block *) condemned;     /* blocks that are left to the owner, to flush or to take back; pushed by any */
    _Atomic(ts_block *) ending;        /* (h) taken off that list, not ended yet */
    ts_block *free_churn, *free_scope; /* (h) ended ones, for its next epochs */
    _Atomic uint32_t free_blocks[2];   /* (h) how many, of churn and of scope; a hint to its owner */
    ts_share *shares;                  /* (h) */
    _Atomic(ts_share *) recent[TS_RECENT_SHARES]; /* some of them, by token; written by the owner, read by check.c */
    struct ts_heap *next;                         /* list of all heaps; constant after it is published */
    struct ts_heap *free_next;                    /* guarded by the registry's lock, as is the next */
    bool listed_free;
    ts_entry *spare[2][TS_SPARE_ENTRIES]; /* owner only: free table entries, TS_TABLE_EPOCH and _DOMAIN */
    unsigned spares[2];
    /* Newest of the entries of domains that were this thread's and that another has ended, by index, 0: none; pushed by any thread, taken by
       this one or the heap's next (ts_domain_take_returned). */
    _Atomic uint32_t returned;
    ts_churn_block *map[TS_HEAP_MAP]; /* owner only; checked by open_id */
    ts_scope_block *scope_map[TS_HEAP_MAP];
    uint64_t serial; /* (h) of its thread; never used twice: [62:28] how many threads the heap has had
                                            [27:0] line of the heap */
    struct ts_domain_scope *spare_scope; /* owner only */
    uint32_t lent;                       /* (h) slab that its thread has lent, 0: none; see hollow.c */
    uint8_t flags_met;                   /* owner only: its frees in slabs with foreign frees, since it took those in */
    /* Sampling; written by the owner only. */
    uint32_t sample_rate, sample_left[2];       /* to the next one of allocations, of frees */
    _Atomic uint64_t sample[TS_SAMPLE_FIGURES]; /* of all threads that had this heap; read by anyone */
    uint64_t sample_start[TS_SAMPLE_FIGURES];   /* sums: when this thread began; maxima: of this thread */
    /* Sampling of stacks; owner only. */
    double stack_left;              /* to the next sample, in means; see diagnose/stacks.h */
    uint64_t stack_random;          /* 0: not begun */
    bool stack_busy;                /* what is allocated now is by the sampling itself */
    uint64_t shed_ns;               /* owner only: when it looks at its bins next (epoch/decay.c) */
    uint32_t shed_unit;             /* (h) where ts_heap_shed goes on, 0: at the beginning */
    _Atomic uint32_t asked_to_shed; /* (h) its next slow call looks at its bins; read by its thread */
    ts_seen seen;                   /* of allocators that it has no share of */
    _Atomic uint32_t maintained;    /* by which call it has a share, see maintain.c; written by any */
    uint32_t stack_turn;            /* ts_stacks_turn as its blocks know it */
    /* Its thread for people (thread_name.h); read by any, the name also written by any. */
    _Atomic uint32_t thread_number;  /* 0: not asked for, or the thread has ended */
    _Atomic uint64_t thread_serial;  /* as `serial` */
    _Atomic uint64_t thread_name[2]; /* of thread_number */
} ts_heap;

/* Heaps of ended threads that still have blocks: whether looking for one to adopt is worth it. A hint. */
extern TS_HIDDEN _Atomic uint32_t ts_heaps_abandoned;
/* Whether a heap may have been called that has not answered. A hint: whether looking for one is worth it. */
extern TS_HIDDEN _Atomic uint32_t ts_heaps_called;

extern TS_HIDDEN _Thread_local ts_tls ts_thread;
extern TS_HIDDEN ts_churn_block ts_no_block; /* matches no epoch; its magazines are empty */
extern TS_HIDDEN ts_scope_block ts_no_scope;

#endif
