/*
 * A block is all that a thread has in an epoch. A CHURN block has one BIN for each size class, and each bin a
 * magazine. A SCOPE block has a list of slabs in which objects lie one behind the other.
 *
 * Threads keep ended blocks for their next epochs (ownership.h), so a record is a block for ever. A path to a block is
 * believed only while the block itself agrees: its owner, its epoch, its era. The ERA is the number of the use. Each
 * UNIT word (region.h) names a block and an era, and is stale when the block has another.
 *
 * (h) marks a field that only the holder of the block's heap writes (heap.c). Any thread may read an atomic field.
 */
/* Modelled in tests/model: foreign, hold, orders. */
#ifndef TS_OWNERSHIP_BLOCK_H
#define TS_OWNERSHIP_BLOCK_H

#include "base/base.h"
#include "region/region.h"
#include "slab/slab.h"

#include <stddef.h>
#include <tslab/tslab.h>

struct ts_account;
struct ts_epoch;
struct ts_heap;
struct ts_share;

#define TS_ID_NEVER EPOCH_NONE /* the id of no epoch: no call reaches a fast path with it */

/* The kinds that are counted apart: the size classes, then these two. */
#define TS_COUNT_SCOPE TS_CLASSES
#define TS_COUNT_SPAN (TS_CLASSES + 1u)
#define TS_COUNT_KINDS (TS_CLASSES + 2u)

/* ---- bins ------------------------------------------------------------------------------------- */

#define TS_MAGAZINE_SLOTS 64u
#define TS_MAGAZINE_BYTES TS_LINES_MAGAZINE_BYTES

/* Free objects. The place of an object's live bit follows from its address. */
typedef struct ts_magazine {
    char *object[TS_MAGAZINE_SLOTS];
} ts_magazine;
_Static_assert(TS_MAGAZINE_BYTES == sizeof(ts_magazine), "lines.h says how large it is");
_Static_assert((TS_MAGAZINE_SLOTS & (TS_MAGAZINE_SLOTS - 1)) == 0 && TS_MAGAZINE_SLOTS <= 128,
               "full is one bit of the depth, which has 8, and a class may have a lower one: ts_bin");
/* A magazine is a stack of free objects. A free that finds it full puts the slot into its slab. The depth and the
   number of allocations share the word `top`, so counting costs nothing: frees into the magazine = allocations from
   it + objects in it + objects that it was emptied of, which count as freed directly. 56 bits of a count are 11 years
   of 200 million allocations a second. */
#define TS_TOP_DEPTH 255u
#define TS_TOP_PUSH 1u
#define TS_TOP_POP 255u /* one more allocated, one less in the magazine */
#define TS_TOP_POPS_SHIFT 8u
#define TS_DIRECT_NOTE 255u /* not 0 while the magazine is emptied: its objects are among the direct frees already */
#define TS_DIRECT_SHIFT 8u
#define TS_DIRECT_ONE ((uint64_t)1 << TS_DIRECT_SHIFT)
#define TS_CLAIMS_BITS 255u
#define TS_CLAIMS_SHIFT 8u
typedef struct ts_bin {
    TS_ALIGNED(64) ts_magazine *magazine; /* NULL before the first use */
    _Atomic uint64_t top;                 /* [7:0] objects in it  [63:8] objects allocated from it (pops) */
    _Atomic uint64_t claims;              /* [63:8] objects allocated from the words that were claimed before this one
                                             [7:0] bits that this one had; 0: `word` is being changed, or put back
                                             (bin.c) */
    _Atomic uint64_t direct_frees;        /* [63:8] objects freed past the magazine: by other threads, while closing,
                                             retired, or while it was full  [7:0] a note (bin.c) */
    _Atomic uint64_t word;                /* claimed bits of one word of a slab's free bitmap, less those allocated */
    const uint8_t *starts;                /* [place in unit]: low bits of the entry where a slot starts */
    uint32_t word_place;                  /* the place of bit 0 of the claimed word, which is of a NEAR slab */
    /* One word. Its thread reads full_at in each free, held or not, so nobody else writes head_low while the block is
       open. */
    uint32_t head_low : 24; /* (h) ts_bin_head */
    uint32_t full_at : 8;   /* objects in a full magazine, one bit; set with it */
    _Atomic uint32_t full;  /* (h) ts_bin_full, and the upper bits of ts_bin_head */
    _Atomic uint32_t slabs; /* (h) */
} ts_bin;
#define TS_HEAD_LOW_BITS 24u
#define TS_FULL_BITS 27u
_Static_assert(TS_UNITS_LOG2 <= TS_HEAD_LOW_BITS + 32 - TS_FULL_BITS, "a unit's number fits");
/* Its slabs, those with free slots first; 0: none. */
static inline uint32_t ts_bin_head(const ts_bin *bin) {
    return bin->head_low | ts_load_relaxed(&bin->full) >> TS_FULL_BITS << TS_HEAD_LOW_BITS;
}
/* Its slabs without a free slot; modulo 2^27, which take 2 TiB. */
static inline uint32_t ts_bin_full(const ts_bin *bin) {
    return ts_load_relaxed(&bin->full) & (((uint32_t)1 << TS_FULL_BITS) - 1);
}
_Static_assert(sizeof(ts_bin) == TS_CACHE_LINE, "a bin is one line, and its line's number finds it");

/* ---- blocks ----------------------------------------------------------------------------------- */

enum { TS_OPEN, TS_CLOSING };

/* Jobs that other threads leave to a block's thread, which was in the middle of an operation when they came: flush
   the block for a close; end it; count it in the account of its epoch. */
#define TS_POST_FLUSH ((uintptr_t)1)
#define TS_POST_END ((uintptr_t)2)
#define TS_POST_COUNT ((uintptr_t)4)
#define TS_LEFT_MARKS (TS_POST_FLUSH | TS_POST_END | TS_POST_COUNT)

/* Why no fast path allocates in a block. COUNTED: the allocator samples stacks, so bytes are counted (object/find.h).
   ALWAYS: there are hints; or it guards large objects, and this is a scope, whose fast path takes any size; or it is
   the first block of a churn domain (object/alloc.c, "Starting small"). */
#define TS_SLOW_COUNTED 1u
#define TS_SLOW_ALWAYS 2u

typedef struct ts_block {
    /* Every free reads these. They are written when the block changes hands or ends. */
    _Atomic uint64_t key;        /* [26:0] era in the UNIT words of its slabs  [63:32] line of its
                                    owner's share while that thread may use the fast paths, else 0. The owner's exit
                                    and a close may change it at once, so both do it by read-modify-write */
    _Atomic uint64_t open_id;    /* id of its epoch while that is active, else TS_ID_NEVER */
    _Atomic uintptr_t allocator; /* the allocator's public value */
    union {
        _Atomic uintptr_t rolling; /* churn: the public value while its epoch is the allocator's rolling one, else 0 */
        uint64_t handle;           /* (h) scope: a handle of its current slab without the place; 0: none was made */
    };
    uint8_t scope;                    /* constant */
    uint8_t slow;                     /* owner only: TS_SLOW_*; 0: the fast paths allocate here */
    uint8_t closing;                  /* (h) TS_CLOSING: flushed, and frees go straight to the slabs */
    _Atomic uint8_t flushed;          /* `closing` is TS_CLOSING and the flush is done */
    _Atomic uint32_t resets;          /* (h) how many eras before this one were of the same epoch; for messages */
    _Atomic(struct ts_heap *) heap;   /* (h) */
    struct ts_share *share;           /* (h) */
    _Atomic(struct ts_epoch *) epoch; /* constant during a use */
    /* (h) unless said otherwise */
    _Atomic(struct ts_block *) epoch_next; /* written under the epoch's lock, walked by readers without it */
    struct ts_block *heap_next;            /* list of the share's blocks in use, or of the heap's free ones */
    struct ts_block *heap_prev;            /* without meaning in the first block in use */
    _Atomic uintptr_t left;                /* TS_LEFT_* and the address of the next block on its heap's list of jobs;
                                              0: it is not on it. Any thread sets marks, and pushes the block if it had
                                              none. The holder of the heap takes it off, and takes the whole word.
                                              block.c */
    union {
        _Atomic uint64_t
            bins_used; /* (h) churn: bit per class: the bin has a magazine; only set while it is a heap's */
        struct ts_account *account; /* (h) scope: NULL: none, the usual case (account.h) */
    };
    _Atomic uint32_t slabs;    /* units in its bins, or slabs in its scope list */
    _Atomic uint32_t era;      /* (h) the era of its slabs' UNIT words; a reset changes it, too. The key has another one
                                  once the block is killed, so a slab that is added then is stale as well */
    _Atomic uint64_t epoch_id; /* of the present use, or of the last; for messages about misuse */
} ts_block;
_Static_assert(sizeof(ts_block) <= 2 * TS_CACHE_LINE, "so that bins begin on the third line");

#define TS_OWN_MAGAZINES (832u / TS_MAGAZINE_BYTES)
typedef struct ts_churn_block {
    ts_block b;
    struct ts_account *account; /* (h) see ts_block */
    TS_ALIGNED(64) ts_bin bin[TS_CLASSES];
    uint32_t empty[TS_CLASSES]; /* (h) slabs of the bin without a slot in use */
    uint64_t little;            /* (h) bit per class: see churn_try in object/refill.c */
    uint64_t handled;           /* (h) bit per class: a slab of it was HANDLED, so the next ones begin so */
    uint8_t seen[TS_CLASSES];   /* (h) low byte of the bin's allocations at the last look (ts_heap_shed) */
    TS_ALIGNED(64)
    ts_magazine own[TS_OWN_MAGAZINES]; /* the magazines of the first classes that are used */
} ts_churn_block;
#define TS_CHURN_BLOCK_ALIGN TS_LINES_CHUNK
_Static_assert(sizeof(ts_churn_block) <= TS_CHURN_BLOCK_ALIGN, "a bin finds its block by a mask");
_Static_assert(sizeof(ts_churn_block) + TS_MAGAZINE_BYTES > TS_CHURN_BLOCK_ALIGN, "there is no room for one more");

/* The BUMP WORD of a scope: the place of its next object, and how many objects have begun in the current slab. One
   store counts an object and moves the place on (docs/decisions.md says what a second store costs). The word also
   names the operation that it begins (thread.h). 0: there is no slab. */
#define TS_BUMP_COUNT 2047u /* [10:0] objects; a slab has room for 1024 */
#define TS_BUMP_TURN 2048u  /* [11] the turn of `allocs` when the slab became the current one */
#define TS_BUMP_SHIFT 12u   /* [63:12] address of the next free byte */
_Static_assert(TS_UNIT_BYTES / 16 <= TS_BUMP_COUNT, "a slab full of objects is counted");
_Static_assert(TS_BUMP_SHIFT + TS_ADDRESS_BITS <= 64, "an address has room");
static inline uint64_t ts_bump_word(const char *at, uint64_t rest) {
    return (uint64_t)(uintptr_t)at << TS_BUMP_SHIFT | rest;
}
/* The shift copies the highest address bit that has room: some systems place memory at the upper end. */
static inline char *ts_bump_at(uint64_t bump) { return (char *)(uintptr_t)((int64_t)bump >> TS_BUMP_SHIFT); }
static inline uint64_t ts_bump_count(uint64_t bump) { return bump & TS_BUMP_COUNT; }
/* The word after one more object. The object fits if that is not above the slab's limit (for bytes that do not
   overflow). */
static inline uint64_t ts_bump_next(uint64_t bump, size_t bytes) {
    return bump + ((uint64_t)bytes << TS_BUMP_SHIFT) + 1;
}
/* The limit of a slab that begins there. */
static inline uint64_t ts_bump_limit(const char *at, size_t bytes) {
    return ts_bump_word(at, 0) + (((uint64_t)bytes << TS_BUMP_SHIFT) + (TS_BUMP_TURN | TS_BUMP_COUNT));
}
/* The word as in_op holds it: the place alone where in_op has 32 bits. */
static inline uintptr_t ts_bump_name(uint64_t bump) {
    return sizeof(uintptr_t) < sizeof bump ? (uintptr_t)(bump >> TS_BUMP_SHIFT) : (uintptr_t)bump;
}

#define TS_ALLOCS_TURN 1u /* changes with each slab that is sealed */
#define TS_ALLOCS_SHIFT 1u
typedef struct ts_scope_block {
    ts_block b;
    _Atomic uint64_t bytes_freed;
    TS_ALIGNED(64) _Atomic uint64_t bump; /* see above */
    _Atomic uint64_t limit;               /* of the current slab; 0: none */
    ts_scope_bits *bits;                  /* of the current slab */
    _Atomic uint32_t current;             /* its unit */
    uint32_t head, tail;                  /* (h) all slabs, the current one first */
    uint16_t skipped; /* (h) places of the current slab that an alignment skipped. Each is a freed object of the slab,
                                and in none of the counters. An anchor (rewind.c) is two */
    uint8_t anchored; /* (h) its slabs may have anchors, of this use or one before */
    _Atomic uint8_t pieces;  /* (h) how many of its slabs are pieces: its first slabs, so the last of the list */
    _Atomic uint64_t allocs; /* [63:1] objects of the slabs before the current one  [0] turn (scope.c) */
    _Atomic uint64_t frees;
    _Atomic uint64_t bytes_allocated; /* in slabs that are full */
} ts_scope_block;
_Static_assert(sizeof(ts_scope_block) == 3 * TS_CACHE_LINE || sizeof(void *) < 8,
               "an open domain touches each line of it");

/* Blocks of no epoch. A thread's hints point to them instead of NULL, so a fast path needs no test. Their magazines are
   empty. */
extern TS_HIDDEN ts_churn_block ts_no_block;
extern TS_HIDDEN ts_scope_block ts_no_scope;

/* ---- from one to the other -------------------------------------------------------------------- */

static inline ts_churn_block *ts_churn(ts_block *b) { return (ts_churn_block *)(void *)b; }
static inline ts_scope_block *ts_scope(ts_block *b) { return (ts_scope_block *)(void *)b; }
static inline ts_block *ts_block_of_line(uint64_t line, bool scope) {
    uintptr_t at = (uintptr_t)ts_line_address(line);
    return (ts_block *)(scope ? at : at & ~(uintptr_t)(TS_CHURN_BLOCK_ALIGN - 1));
}
static inline unsigned ts_bin_class(const ts_churn_block *block, const ts_bin *bin) {
    return (unsigned)(bin - block->bin);
}
/* Whether the bin is of a class below 64 bytes: its place in the block says so. */
#define TS_FINE_BINS_END (offsetof(ts_churn_block, bin) + TS_FINE_CLASSES * sizeof(ts_bin))
_Static_assert(TS_FINE_BINS_END == TS_FINE_LINES_END * TS_CACHE_LINE && TS_CHURN_BLOCK_ALIGN == TS_LINES_CHUNK,
               "slab.h");
TS_ALWAYS_INLINE bool ts_bin_is_fine(const ts_bin *bin) {
    return ((uintptr_t)bin & (TS_CHURN_BLOCK_ALIGN - 1)) < TS_FINE_BINS_END;
}
TS_ALWAYS_INLINE ts_churn_block *ts_bin_block(const ts_bin *bin) {
    return (ts_churn_block *)((uintptr_t)bin & ~(uintptr_t)(TS_CHURN_BLOCK_ALIGN - 1));
}
static inline ts_bin *ts_bin_at(ts_churn_block *block, size_t offset) {
    return (ts_bin *)(void *)((char *)block + offset);
}
/* The bin for objects of that size. NULL: such objects are spans. */
TS_ALWAYS_INLINE ts_bin *ts_bin_of(ts_churn_block *block, size_t size) {
    if (TS_LIKELY(size <= TS_MAX_CLASS_BYTES)) {
        ts_bin *small = ts_bin_at(block, ts_classes.bin[size]);
        TS_ASSUME(small != NULL); /* so that a caller's test for NULL is no instruction of the usual case */
        return small;
    }
    if (TS_UNLIKELY(size > TS_MAX_SLAB_BYTES)) return NULL;
    ts_bin *large = ts_bin_at(block, ts_classes.large_bin[(size - 1) >> TS_LARGE_STEP_SHIFT]);
    TS_ASSUME(large != NULL);
    return large;
}
/* Whether the magazine is one of those that lie in the block. */
static inline bool ts_is_own_magazine(const ts_churn_block *block, const ts_magazine *magazine) {
    return (uintptr_t)magazine - (uintptr_t)block < sizeof *block;
}

/* ---- keys and eras ---------------------------------------------------------------------------- */

#define TS_KEY_SHARE_SHIFT 32u                                       /* of a block's key: the upper half */
#define TS_KEY_NO_SHARE ((uint64_t)UINT32_MAX << TS_KEY_SHARE_SHIFT) /* in no block's key */
static inline uint64_t ts_word_era(uint64_t word) { return word & TS_UNIT_ERA_MASK; }
static inline uint64_t ts_word_line(uint64_t word) { return word >> TS_UNIT_LINE_SHIFT; }
/* The block of a slab with that UNIT word, which is no span's. */
static inline ts_block *ts_block_of_word(uint64_t word) {
    return ts_block_of_line(ts_word_line(word), (word & TS_UNIT_SCOPE) != 0);
}
static inline uint64_t ts_era(const ts_block *block) { return ts_load_acquire(&block->key) & TS_UNIT_ERA_MASK; }
/* The owner's fast paths use the block no more. */
static inline void ts_block_shut(ts_block *block) {
    atomic_fetch_and_explicit(&block->key, TS_UNIT_ERA_MASK, memory_order_relaxed);
}
/* Shuts the block, and makes all its slabs stale before any of them can be reset (foreign.c, 5). seq_cst: see
   ts_slab_next_generation. */
static inline void ts_block_kill(ts_block *block) {
    uint64_t key = ts_load_relaxed(&block->key);
    while (!atomic_compare_exchange_weak_explicit(&block->key, &key, ((key & TS_UNIT_ERA_MASK) + 1),
                                                  memory_order_seq_cst, memory_order_relaxed)) {
    }
}
/* The UNIT word of a slab of the block in its present use. */
TS_ALWAYS_INLINE uint64_t ts_scope_word(const ts_scope_block *block) {
    return TS_UNIT_SCOPE | (uint64_t)ts_line_of(block) << TS_UNIT_LINE_SHIFT | ts_load_relaxed(&block->b.era);
}

#endif
