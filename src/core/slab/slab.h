/*
 * What one slab is: a unit of 16 KiB, its record, its UNIT word and its state. A slab of a LARGE class (class.h) has up to three units
 * more behind it, whose UNIT words are 0: nothing inside of them is the start of an object. All that is said here of a slab's unit
 * is of its first one.
 *
 * UNIT word, 64 bits, atomic:
 *     [63:36] line   of the owner's bin (churn) or block (scope)
 *     [35:32] 0      so that the line's place is the word shifted once
 *     [31] FOREIGN   the slab is on a queue of foreign frees (or about to be, by who set the bit)
 *     [30] ZOMBIE    nobody's slab, on a queue; who takes it off the queue gives it back
 *     [29] SCOPE     scope slab: the line is its block's
 *     [28] SPAN      first unit of a span, FAR ones too: the era is the span's tag, the line 0; queue_next is the
 *                    epoch's index
 *     [27] FINE      churn slab with granules of 16 bytes
 *     [26:0] era     of the block that owns it
 * 0: nobody's (free, warm, or inside of a span). CUT: the unit is cut into PIECES (cache/piece.h), and each of them is a scope slab, or
 * free: with a UNIT word, a record and a foreign word of its own. Its start and freed bits are half a word, but no two pieces have bits in
 * one word, as they may be different threads': a unit that is cut has its bitmaps twice, for the pieces in even places and for those in odd
 * ones.
 *
 * A SLAB NUMBER is that of a unit, or of a piece: TS_PIECE, the unit, and which of the 32. Entries are those of the unit in both. What is said
 * of a unit that is a slab holds for a piece. A piece's tags and generations begin above those that its unit has had, and
 * end below those that it gets when it is whole again: so what is void or stale by them stays so.
 *
 * A unit belongs to its block while the word's era is the block's era. A block gets a new era when its epoch
 * is destroyed, which makes every slab of it stale in that instant, whatever their words say.
 *
 * State word of a granule (churn), 16 bits: [0] live  [2:1] the two low bits of the entry where the object starts (so where in
 * the granule, if that has 64 bytes)  [14:3] generation of the slot  [15] usable: 0 once its generations are used up. Written by the
 * owner of the slab only. Freeing is adding 7 (live off, generation on); at the end that carries out of the word, and
 * what is left has bit 15 off: the slot is retired.
 *
 * Invariants
 *  1. A slot is in exactly one place: live, in the magazine of its bin, in the claimed word of its bin, in the
 *     slab's free bitmap, or retired. Empty means free_count == empty_at, and nothing else.
 *  2. Whoever resets a slab owns it alone: its UNIT word is 0, so that no foreign free can queue it, and it
 *     is on no list. The reset comes before the word is published.
 *  3. Foreign words are { tag : 28, count : 4, bits : 32 }; the bits count only under the slab's present tag. A reset changes
 *     the tag and need not touch the words (it does in a churn slab): all that is in them is void. A foreign free that began before the
 *     reset writes its old tag, or fails its compare-and-swap; either way it does nothing.
 *  4. Generations only rise. A slot whose generation is used up is retired until the slab is reset; a slab
 *     whose generations or tags are used up is never handed out again.
 *
 * Who may write what: fields marked (o) the owner: the thread whose heap has the slab, or who holds that heap;
 * (w) who took it from or puts it on a warm list, under that list's lock.
 */
/* Modelled in tests/model: foreign, look, orders. */
#ifndef TS_SLAB_SLAB_H
#define TS_SLAB_SLAB_H

#include "base/assert.h"
#include "base/atomic.h"
#include "base/attr.h"
#include "region/region.h"
#include "slab/class.h"

#include <stddef.h>

#define TS_UNIT_FOREIGN ((uint64_t)1 << 31)
#define TS_UNIT_ZOMBIE ((uint64_t)1 << 30)
#define TS_UNIT_SCOPE ((uint64_t)1 << 29)
#define TS_UNIT_SPAN ((uint64_t)1 << 28)
#define TS_UNIT_FINE ((uint64_t)1 << 27)
#define TS_UNIT_LINE_SHIFT 36u
/* Of a unit that is cut. No other word has both; who does not look for it finds a zombie, in which nothing is live. */
#define TS_UNIT_CUT (TS_UNIT_ZOMBIE | TS_UNIT_SPAN)
#define TS_UNIT_ERA_MASK (((uint64_t)1 << 27) - 1)
_Static_assert(TS_MAX_UNITS_LOG2 + 6 <= 64 - TS_UNIT_LINE_SHIFT, "a line fits: there are 64 a unit at most");

#define TS_STATE_LIVE 1u
#define TS_STATE_START 6u
#define TS_STATE_START_SHIFT 1u
#define TS_STATE_GEN_SHIFT 3u
#define TS_STATE_GEN_MAX 0xfffu
#define TS_STATE_FREE_STEP ((1u << TS_STATE_GEN_SHIFT) - TS_STATE_LIVE)
#define TS_STATE_USABLE 0x8000u
/* Of a retired slot: one past the last. */
static inline uint32_t ts_state_generation(uint32_t state) { return (state ^ TS_STATE_USABLE) >> TS_STATE_GEN_SHIFT; }
/* Whether it says that a live object starts at that entry. */
static inline bool ts_state_is_of(uint32_t state, uint64_t entry) {
    return ((state ^ (2 * (uint32_t)entry + 1)) & 7u) == 0;
}
static inline bool ts_state_is_retired(uint32_t state) { return (state & TS_STATE_USABLE) == 0; }
#define TS_FOREIGN_TAG_SHIFT 36u
#define TS_FOREIGN_COUNT_ONE ((uint64_t)1 << 32)
#define TS_FOREIGN_COUNT_MASK ((uint64_t)15 << 32)
#define TS_GEN_BITS 24u
#define TS_GEN_MAX (((uint32_t)1 << TS_GEN_BITS) - 1)

/* A handle: [63:42] unit  [41:18] generation  [17:8] entry in the unit  [7:2] size class, or one of these two  [1:0] format. */
#define TS_HANDLE_FORMAT 2u
#define TS_HANDLE_SCOPE 62u
#define TS_HANDLE_SPAN 63u
#define TS_HANDLE_FAR \
    61u /* a span of the FAR part: the unit's number in it, with its upper bits where others have the entry */
#define TS_HANDLE_KIND_SHIFT 2u
_Static_assert(TS_CLASSES <= TS_HANDLE_FAR, "a class has six bits");
TS_ALWAYS_INLINE uint64_t ts_handle_pack(uint32_t unit, uint32_t generation, uint32_t entry, unsigned kind) {
    return (uint64_t)unit << 42 | (uint64_t)(generation & TS_GEN_MAX) << 18 |
           (uint64_t)(entry & (TS_UNIT_ENTRIES - 1)) << 8 | (uint64_t)kind << TS_HANDLE_KIND_SHIFT | TS_HANDLE_FORMAT;
}
/* Whether it was made of an object with these, if it is of its place. */
TS_ALWAYS_INLINE bool ts_handle_is(uint64_t handle, uint32_t generation, unsigned kind) {
    return (((uint32_t)(handle >> 18) ^ generation) & TS_GEN_MAX) == 0 &&
           (handle & 255u) == (kind << TS_HANDLE_KIND_SHIFT | TS_HANDLE_FORMAT);
}
static inline uint32_t ts_handle_unit(uint64_t handle) { return (uint32_t)(handle >> 42); }
static inline uint32_t ts_handle_entry(uint64_t handle) { return (uint32_t)(handle >> 8) & (TS_UNIT_ENTRIES - 1); }
#define TS_HANDLE_UNIT_BITS 22u
_Static_assert(TS_FAR_UNITS_LOG2 <= TS_HANDLE_UNIT_BITS + 10, "the number of a FAR unit has room");
static inline bool ts_handle_is_far(uint64_t handle) {
    return ((uint32_t)(handle >> TS_HANDLE_KIND_SHIFT) & 63u) == TS_HANDLE_FAR;
}
/* In the FAR part. */
static inline uint32_t ts_handle_far_unit(uint64_t handle) {
    return ts_handle_entry(handle) << TS_HANDLE_UNIT_BITS | ts_handle_unit(handle);
}
static inline uint64_t ts_handle_pack_far(uint32_t in_part, uint32_t generation) {
    uint32_t low = in_part & (((uint32_t)1 << TS_HANDLE_UNIT_BITS) - 1);
    return ts_handle_pack(low, generation, in_part >> TS_HANDLE_UNIT_BITS, TS_HANDLE_FAR);
}

/* FINE: a churn slab with granules of 16 bytes. RETIRED: its generations or tags are used up. CUT: see above. */
typedef enum ts_kind {
    TS_KIND_NONE,
    TS_KIND_CHURN,
    TS_KIND_SCOPE,
    TS_KIND_SPAN,
    TS_KIND_RETIRED,
    TS_KIND_FINE,
    TS_KIND_CUT
} ts_kind;
static inline bool ts_kind_is_churn(unsigned kind) { return kind == TS_KIND_CHURN || kind == TS_KIND_FINE; }

#define TS_SLAB_PAGES 4u /* of 4 KiB, whatever the system's are: 64 granules, half of the bits of two words of `free` */
#define TS_SLAB_PAGE_BYTES (TS_UNIT_BYTES / TS_SLAB_PAGES)
#define TS_SLAB_ALL_PAGES ((1u << TS_SLAB_PAGES) - 1)
#define TS_SLAB_IS_EMPTY 0x80u

struct ts_allocator;

typedef struct ts_slab {
    union {
        _Atomic uint64_t free[4];   /* (o) churn, COARSE: bit per granule, set: free */
        _Atomic uint64_t last_word; /* (o)(w) while the UNIT word is 0: what it was before, for messages */
        _Atomic uint64_t pieces; /* of a unit that is cut, guarded by the warm lock: bit per piece that is free there */
        struct {
            _Atomic uint64_t epoch;      /* span: id of its epoch */
            _Atomic uint64_t bytes;      /* span: usable */
            uint32_t units;              /* with its guards; of its part */
            uint32_t guard;              /* units of the guard before it, 0: none */
            _Atomic uint32_t with_epoch; /* it died by the end of its epoch */
            uint32_t written;            /* warm before: 1 + where it was written meanwhile, 0: nowhere */
        } span; /* guarded by the epoch's lock while the UNIT word says SPAN; what is atomic is read by messages, too */
    } u; /* atomic: messages look at the slab of a pointer that was refused, in whatever use that is by then (diagnose.c) */
    uint32_t next; /* (o)(w) list of its bin, block, epoch or warm list; global unit numbers */
    uint32_t prev;
    _Atomic uint32_t tag;    /* (o) of the foreign words; rises with every reset; read by anyone */
    _Atomic uint32_t gen;    /* (o) first generation of this use; read by handle tests */
    uint16_t free_count;     /* (o) churn: bits in the free bitmap; scope: objects freed */
    uint16_t empty_at;       /* (o) churn: slots that are not retired; scope: objects, once it is full */
    _Atomic uint16_t end;    /* (o) scope: entries used, 0 while objects are still added; churn: units behind this one
                                    that are of the slab, too */
    _Atomic uint8_t kind;    /* (o) ts_kind of the last use; read by messages */
    _Atomic uint8_t handled; /* a handle was made in this use: set by any thread, cleared by a reset */
    _Atomic uint32_t queue_next; /* link of the queue of foreign frees, written by who set FOREIGN; span: index of
                                      its epoch, written before the UNIT word */
    uint16_t allocator;          /* (o)(w) index of the allocator that it was claimed for last */
    uint8_t
        touched; /* (o) not FINE: bit per page of 4 KiB that a claim has taken slots of, since the unit's memory came from the
                              system or the page went back to it; TS_SLAB_ALL_PAGES: all, or as good as */
    uint8_t
        given; /* (o) not FINE: bit per page that went back to the system, and was not claimed of since (supply/hollow.c). TS_SLAB_IS_EMPTY: (h) in
                              a bin, without a slot in use: free_count == empty_at, for who holds the heap of a thread that goes on */
    _Atomic uint64_t foreign[8]; /* churn, COARSE: 32 granules a word. A piece has no more than what is before this */
} ts_slab;

/* The state words of a unit, eight bytes at a time: for resets, and for scope slabs. */
typedef _Atomic uint64_t TS_MAY_ALIAS ts_state64;

/* A scope slab uses the state words of its unit as two bitmaps, a bit per 16 bytes. (o), read by anyone. Those of the pieces in odd places
   come behind. */
typedef struct ts_scope_bits {
    ts_state64 start[16]; /* an object starts here; never cleared before the reset */
    ts_state64 freed[16]; /* it was freed */
} ts_scope_bits;

_Static_assert(sizeof(ts_slab) == TS_SLAB_BYTES, "region.h gives each unit this much");
_Static_assert(offsetof(ts_slab, foreign) <= TS_PIECE_RECORD_BYTES, "the record of a piece");
_Static_assert(TS_PIECE_ENTRIES == 32,
               "a foreign word is a piece's, and of a word of the bitmaps the one half or the other");
_Static_assert(16 * sizeof(uint64_t) == TS_FINE_BYTES, "the free bitmap of a FINE slab");
_Static_assert(2 * sizeof(ts_scope_bits) <= TS_STATES_COARSE * 2, "the bitmaps lie over the unit's COARSE state words");
_Static_assert(32 * sizeof(uint64_t) == TS_WIDE_BYTES, "foreign words of a scope slab, and of a FINE one");

TS_ALWAYS_INLINE unsigned ts_slab_kind(const ts_slab *slab) { return ts_load_relaxed(&slab->kind); }

TS_ALWAYS_INLINE ts_slab *ts_slab_in(const ts_part *part, uint64_t unit_in_part) {
    return (ts_slab *)(void *)(part->slab + unit_in_part * TS_SLAB_BYTES);
}
/* ---- slab numbers ------------------------------------------------------------------------------------------ */

#define TS_PIECE (UINT32_C(1) << 31)
#define TS_PIECE_SHIFT 5u
_Static_assert(TS_PIECES == 1u << TS_PIECE_SHIFT && TS_MAX_UNITS_LOG2 + TS_PIECE_SHIFT < 31, "a piece has a number");
TS_ALWAYS_INLINE bool ts_is_piece(uint32_t slab) { return slab >= TS_PIECE; }
static inline uint32_t ts_piece_number(uint32_t unit, unsigned piece) {
    return TS_PIECE | unit << TS_PIECE_SHIFT | piece;
}
/* The unit in which it lies, or that it is. */
static inline uint32_t ts_unit_of(uint32_t slab) {
    return TS_UNLIKELY(ts_is_piece(slab)) ? (slab & ~TS_PIECE) >> TS_PIECE_SHIFT : slab;
}
/* Entries of a scope slab in its unit: from which on, and the end. */
static inline uint32_t ts_scope_first_entry(uint32_t slab) {
    return ts_is_piece(slab) ? slab % TS_PIECES * TS_PIECE_ENTRIES : 0;
}
static inline uint32_t ts_scope_end_entry(uint32_t slab) {
    return ts_is_piece(slab) ? (slab % TS_PIECES + 1) * TS_PIECE_ENTRIES : TS_UNIT_ENTRIES;
}
/* Words of its bitmaps; of those of a piece the other half is 0. */
static inline unsigned ts_scope_first_word(uint32_t slab) { return ts_scope_first_entry(slab) / 64; }
static inline unsigned ts_scope_end_word(uint32_t slab) { return (ts_scope_end_entry(slab) + 63) / 64; }
/* Where the data of a slab begins, and where the unit's of which its entries are. */
static inline char *ts_slab_unit_address(uint32_t slab) { return ts_unit_address(ts_unit_of(slab)); }
static inline char *ts_slab_address(uint32_t slab) {
    return ts_slab_unit_address(slab) + ts_scope_first_entry(slab) * 16;
}
/* Bytes of a slab of one unit, or of a piece. */
static inline size_t ts_slab_bytes(uint32_t slab) { return ts_is_piece(slab) ? TS_PIECE_BYTES : TS_UNIT_BYTES; }

static inline ts_slab *ts_slab_at(uint32_t slab) {
    char *record = TS_UNLIKELY(ts_is_piece(slab)) ? ts_region.piece + (size_t)(slab & ~TS_PIECE) * TS_PIECE_RECORD_BYTES
                                                  : ts_region.part[TS_NORMAL].slab + (size_t)slab * TS_SLAB_BYTES;
    return (ts_slab *)(void *)record;
}
/* Not of a piece. */
static inline uint32_t ts_slab_unit(const ts_slab *slab) {
    return (uint32_t)((size_t)((const char *)slab - ts_region.part[TS_NORMAL].slab) / TS_SLAB_BYTES);
}
/* Memory of a span, in units of 16 KiB. */
static inline uint64_t ts_span_weight(const ts_slab *slab) {
    return ts_units_weight(ts_slab_unit(slab), slab->u.span.units);
}
static inline _Atomic uint64_t *ts_unit_word(uint32_t slab) {
    return TS_UNLIKELY(ts_is_piece(slab)) ? &ts_region.piece_word[slab & ~TS_PIECE]
                                          : &ts_region.part[TS_NORMAL].unit[slab];
}
/* The slab in which an entry lies that is below the region's mark. acquire: who finds that the unit is cut can read its pieces' words. A
   hint, as the UNIT word of it is: who looks at that again finds 0 if the unit is whole again. */
static inline uint32_t ts_slab_of_entry(uint64_t entry) {
    uint32_t unit = (uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT);
    if (TS_LIKELY(ts_load_acquire(ts_unit_word(unit)) != TS_UNIT_CUT)) return unit;
    return ts_piece_number(unit, (unsigned)(entry / TS_PIECE_ENTRIES) % TS_PIECES);
}
/* For who looks at all slabs, from unit 1 on: the next. Pieces come after their unit, whose word says CUT. */
static inline uint32_t ts_slab_after(uint32_t slab) {
    if (ts_is_piece(slab)) return slab % TS_PIECES + 1 < TS_PIECES ? slab + 1 : ts_unit_of(slab) + 1;
    return ts_load_acquire(ts_unit_word(slab)) == TS_UNIT_CUT ? ts_piece_number(slab, 0) : slab + 1;
}

/* Of the unit: a piece has half a word of each. */
static inline ts_scope_bits *ts_slab_scope_bits(uint32_t slab) {
    ts_scope_bits *bits = (ts_scope_bits *)(void *)(uintptr_t)ts_unit_states(ts_unit_of(slab), false);
    return ts_is_piece(slab) ? bits + slab % 2 : bits;
}
/* Units of the slab that this one is the first of. */
static inline uint32_t ts_slab_units(const ts_slab *slab) {
    return ts_slab_kind(slab) == TS_KIND_CHURN ? ts_load_relaxed(&slab->end) + 1u : 1;
}
static inline bool ts_word_is_fine(uint64_t word) { return (word & TS_UNIT_FINE) != 0; }

/* Where the slab of an object begins. */
static inline void *ts_slab_start(void *object) { return (char *)object - ((uintptr_t)object & (TS_UNIT_BYTES - 1)); }

/* The free bitmap of a churn slab and its words. */
TS_ALWAYS_INLINE _Atomic uint64_t *ts_slab_free_words(bool fine, ts_slab *slab) {
    return fine ? (_Atomic uint64_t *)(void *)(ts_region.fine + (size_t)ts_slab_unit(slab) * TS_FINE_BYTES)
                : slab->u.free;
}
TS_ALWAYS_INLINE unsigned ts_slab_free_word_count(bool fine) { return fine ? 16u : 4u; }

/* The foreign words of a slab with that UNIT word (only SCOPE and FINE of it count): of 32 entries each where it has those of a
   scope (WIDE), else of 32 COARSE granules. In either place there is never anything but foreign words, so a late compare-and-swap
   can meet nothing else. */
TS_ALWAYS_INLINE bool ts_word_is_wide(uint64_t word) { return (word & (TS_UNIT_SCOPE | TS_UNIT_FINE)) != 0; }
TS_ALWAYS_INLINE _Atomic uint64_t *ts_wide_words(uint64_t unit) {
    return (_Atomic uint64_t *)(void *)(ts_region.wide + (size_t)unit * TS_WIDE_BYTES);
}
/* The slab's are those from *first to *end - 1. */
static inline _Atomic uint64_t *ts_slab_foreign_words(uint32_t slab, uint64_t word, unsigned *first, unsigned *end) {
    bool wide = ts_word_is_wide(word);
    *first = ts_scope_first_entry(slab) / 32;
    *end = wide ? ts_scope_end_entry(slab) / 32 : 8;
    return wide ? ts_wide_words(ts_unit_of(slab)) : ts_slab_at(slab)->foreign;
}

/* Which bit an object has in the foreign words of such a slab: 32 a word. */
TS_ALWAYS_INLINE uint64_t ts_foreign_index(uint64_t word, uint64_t entry) {
    uint64_t in_unit = entry & (TS_UNIT_ENTRIES - 1), coarse = ts_granule(false, in_unit);
    return ts_word_is_wide(word) ? in_unit : coarse;
}

/* Word and bit of the object at an entry. A conditional move: sizes mix. */
TS_ALWAYS_INLINE _Atomic uint64_t *ts_slab_foreign_word(uint64_t word, uint64_t entry, uint64_t *bit) {
    uint64_t unit = entry >> TS_ENTRY_UNIT_SHIFT;
    _Atomic uint64_t *wide = ts_wide_words(unit), *coarse = ts_slab_in(&ts_region.part[TS_NORMAL], unit)->foreign;
    uint64_t index = ts_foreign_index(word, entry);
    *bit = (uint64_t)1 << (index & 31);
    return &(ts_word_is_wide(word) ? wide : coarse)[index >> 5];
}

static inline uint64_t ts_foreign_counted_on(uint64_t x) {
    return (x & ~TS_FOREIGN_COUNT_MASK) | ((x + TS_FOREIGN_COUNT_ONE) & TS_FOREIGN_COUNT_MASK);
}

/* For the owner, who has freed an object of the slab by its generation, and has not released the slab: whether no other thread was
   first. seq_cst, after the store of the state: foreign.c, 7. */
TS_ALWAYS_INLINE bool ts_foreign_is_first(const ts_slab *slab, _Atomic uint64_t *foreign, uint64_t bit) {
    uint64_t x = ts_load_relaxed(foreign), tag = ts_load_relaxed(&slab->tag);
    while (TS_UNLIKELY(!ts_cas_seq(foreign, &x, ts_foreign_counted_on(x & ~bit)))) {
    }
    return TS_LIKELY(!(x & bit)) || x >> TS_FOREIGN_TAG_SHIFT != tag;
}

void ts_slab_init_templates(void);

/* Takes a unit that is on no list out of reach of foreign frees: its UNIT word becomes 0. false: it is on a
   queue; it is now a zombie, and who takes it off the queue gives it back. Caller: its only owner. zombies counts
   them: up before a zombie can be seen. */
TS_ALWAYS_INLINE bool ts_slab_claim(uint32_t unit, _Atomic uint64_t *zombies) {
    _Atomic uint64_t *word = ts_unit_word(unit);
    uint64_t w = ts_load_relaxed(word);
    for (;;) {
        /* seq_cst: against the foreign free that sets FOREIGN by compare-and-swap; one of the two sees the
           other's value, never neither. */
        if (TS_UNLIKELY(w & TS_UNIT_FOREIGN)) {
            ts_assert(2, !(w & TS_UNIT_ZOMBIE));
            ts_fetch_add_relaxed(zombies, 1);
            if (ts_cas_seq(word, &w, w | TS_UNIT_ZOMBIE)) return false;
            ts_fetch_sub_relaxed(zombies, 1);
        } else if (TS_LIKELY(ts_cas_seq(word, &w, 0))) {
            if (w != 0) ts_store_relaxed(&ts_slab_at(unit)->u.last_word, w);
            return true;
        }
    }
}

/* The same of the first of a warm list, which the caller holds, if no foreign free is met. false: it is another case, nothing
   was done. The claim of one that stays on its list is nothing that matters: 0 is nobody's, too. */
TS_ALWAYS_INLINE bool ts_slab_claim_clean(uint32_t unit) {
    _Atomic uint64_t *word = ts_unit_word(unit);
    uint64_t w = ts_load_relaxed(word);
    /* seq_cst: as in ts_slab_claim */
    if (TS_UNLIKELY((w & TS_UNIT_FOREIGN) || !ts_cas_seq(word, &w, 0))) return false;
    if (w != 0) ts_store_relaxed(&ts_slab_at(unit)->u.last_word, w);
    return true;
}

/* The state words of a claimed unit are about to be lost: what the next use must know of them (the generations that
   handles may carry) goes into the record. A handle that is being made meanwhile is not made: see ts_slab_next_generation. */
void ts_slab_leave_states(uint32_t unit);

/* First generation of the next use of a slab of which handles were made, and none since. */
uint32_t ts_slab_handled_generation(ts_slab *slab);
/* The first generation of a slab's next use. Handles hold a generation, so it moves on only if one was made: a program without
   handles never uses any up. The last use ended by a change of the block's key or of the UNIT word; a seq_cst change of that
   word came after it (ts_slab_claim, the release of an empty slab), and `handled` is read (seq_cst) after that.
   ts_object_handle sets it, then passes a seq_cst fence, then looks at key and word again: either the flag is seen here, or
   the end of the use is seen there and no handle is made. */
TS_ALWAYS_INLINE uint32_t ts_slab_next_generation(ts_slab *slab) {
    if (TS_UNLIKELY(ts_load_seq(&slab->handled))) return ts_slab_handled_generation(slab);
    return ts_load_relaxed(&slab->gen);
}
/* The next use begins, with that generation and another tag. */
TS_ALWAYS_INLINE bool ts_slab_next_use(ts_slab *slab, ts_kind kind, uint32_t gen) {
    uint32_t tag = ts_load_relaxed(&slab->tag);
    if (TS_UNLIKELY(gen > TS_GEN_MAX - TS_STATE_GEN_MAX - 1 || tag >= TS_UNIT_ERA_MASK)) {
        ts_store_relaxed(&slab->kind, TS_KIND_RETIRED);
        return false;
    }
    if (ts_slab_kind(slab) == TS_KIND_NONE && gen == 0) gen = 1; /* so that no handle is 0 */
    ts_store_relaxed(&slab->gen, gen);
    /* release fence: who reads a state word, or start bit, of the new use sees that the slab was claimed (ts_fast_look, object.c) */
    atomic_thread_fence(memory_order_release);
    /* release: who reads the new tag sees that the block which owned the slab before has another era */
    ts_store_release(&slab->tag, tag + 1);
    ts_store_relaxed(&slab->kind, (uint8_t)kind);
    return true;
}

static inline void ts_slab_clear16(ts_state64 *words) {
    for (unsigned i = 0; i < 16; i += 8) {
        ts_clear_pair_owned(&words[i]);
        ts_clear_pair_owned(&words[i + 2]);
        ts_clear_pair_owned(&words[i + 4]);
        ts_clear_pair_owned(&words[i + 6]);
    }
}

/* Makes a claimed unit a fresh slab. false: its generations or tags are used up; it must be retired. Of a FINE class:
   after ts_region_commit_fine. */
bool ts_slab_reset_churn(uint32_t unit, unsigned cls);
/* The same; the usual case has a path of its own: ts_scope_next. */
TS_ALWAYS_INLINE bool ts_slab_reset_scope(uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    ts_assert(2, ts_load_relaxed(ts_unit_word(unit)) == 0);
    /* A scope slab in which nothing was freed has no bit on in `freed`. */
    bool unfreed = ts_slab_kind(slab) == TS_KIND_SCOPE && slab->free_count == 0;
    if (!ts_slab_next_use(slab, TS_KIND_SCOPE, ts_slab_next_generation(slab))) return false;
    ts_scope_bits *bits = ts_slab_scope_bits(unit);
    if (ts_is_piece(unit)) {
        ts_store_relaxed(&bits->start[ts_scope_first_word(unit)], 0);
        ts_store_relaxed(&bits->freed[ts_scope_first_word(unit)], 0);
    } else {
        ts_slab_clear16(bits->start);
        if (!unfreed) ts_slab_clear16(bits->freed);
    }
    slab->free_count = slab->empty_at = 0;
    ts_store_relaxed(&slab->end, 0);
    return true;
}
/* For a span: only the tag and the generation move on. */
bool ts_slab_reset_span(uint32_t unit);

/* A bit per page of a slab that bytes from begin to end - 1 of it lie in. */
static inline unsigned ts_slab_pages_between(unsigned begin, unsigned end) {
    unsigned first = begin / TS_SLAB_PAGE_BYTES, last = (end - 1) / TS_SLAB_PAGE_BYTES;
    return (2u << last) - (1u << first);
}
/* Of a churn slab that is not FINE: pages in which slots lie that are not in its free bitmap. */
unsigned ts_slab_pages_in_use(const ts_slab *slab, unsigned cls);

/* Live slots of a churn slab, FINE or not, by its state words; and of a scope slab, by its bitmaps. */
unsigned ts_slab_count_live(uint32_t unit, bool fine);
unsigned ts_scope_count_live(uint32_t unit);
/* Sets the free bitmap and free_count of a churn slab from its state words alone; counts retired slots. */
void ts_slab_rebuild(uint32_t unit, unsigned cls);

/* Objects that were ever started in a scope slab. */
unsigned ts_scope_count_started(uint32_t unit);
/* Entries from the object at `entry` to the next start, or to `end` (that of the slab: the entries used in its unit). */
uint32_t ts_scope_entries(uint32_t unit, uint32_t entry_in_unit, uint32_t end);

#endif
