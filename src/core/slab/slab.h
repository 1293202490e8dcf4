/*
 * A slab: a unit of 16 KiB in use for objects, with its record, its UNIT word, and its live words or bitmaps.
 *
 * A slab of a LARGE size class (class.h) has up to three more units behind the first. Their UNIT words are 0, because
 * no object starts in them. This file calls the first unit the slab's unit.
 *
 * UNIT word, 64 bits, atomic:
 *     [63:36] line   line of the owner: its bin (churn) or its block (scope)
 *     [35:32] 0      so one shift of the word gives the place of the line
 *     [31] FOREIGN   the slab is on a queue of cross-thread frees, or the thread that set the bit is about to push it
 *     [30] ZOMBIE    the slab has no owner, and is on a queue. The thread that takes it off the queue gives it back
 *     [29] SCOPE     a scope slab: the line is its block's
 *     [28] SPAN      the first unit of a span, NORMAL or FAR. The era is the span's tag, the line is 0, and queue_next
 *                    is the index of the epoch
 *     [27] HANDLED   a churn slab of which a handle was made in this use
 *     [26:0] era     era of the owning block
 * The word is 0 while the unit has no owner: it is free, retained, or inside of a span. The word is CUT while the
 * unit is cut into PIECES (supply/piece.h).
 *
 * Each piece is free, or a scope slab with a UNIT word, a record and a foreign word of its own. Its start and freed
 * bits are half a word. Two pieces may belong to different threads, so no two may have bits in one word. Therefore a
 * cut unit has its bitmaps twice: one for the pieces in even places, one for those in odd places. All pieces of a unit
 * are short, or all are LONG: the word of the unit says which. A long piece has the place of two short ones, the
 * number, the record and the word of the first, and both their foreign words. Its bits are a whole word.
 *
 * A SLAB NUMBER names a unit, or a piece: TS_PIECE, the unit, and the number of the piece in it. Entries are those of
 * the unit in both cases. Everything that this file says of a slab's unit holds for a piece. The tags and generations
 * of a piece begin above those that its unit has had, and end below those that the unit gets when it is whole again.
 * So foreign bits that are void, and handles that are stale, stay so.
 *
 * A unit belongs to its block while the era in the word is the era of the block. A block gets a new era when its
 * epoch is destroyed. That makes all of its slabs stale in one instant, whatever their words say.
 *
 * LIVE WORDS (churn) have a bit for each entry: a live object starts there. Only the owner of the slab writes them.
 *
 * GENERATIONS tell an object from others that its slot had before, and so a handle from a stale one. All objects of a
 * use have the generation of the slab, until the use is HANDLED: from then on each free in it counts the slot's own
 * generation on, and an object has the sum of the two. The count comes while the live bit is off. So a look at bit and
 * count, in that order, does not take the next object for the last one, and a second look does not take the last one
 * for the next: a handle is made by two. A thread that makes a use HANDLED sets the bit, and then holds the owner's
 * heap, or enters its own. So all frees are over that have looked at the UNIT word before, and every later one finds
 * the bit. Only then a handle is made. (A hold before the bit would not do: the owner's frees go on meanwhile.) A
 * HANDLED word matches no key: the usual frees miss there, and pay nothing for it elsewhere. The reset after such a
 * use begins above its greatest generation. It raises the slab's generation first, and then clears those of the slots;
 * a reader takes the two in the other order. So it never finds the sum of an older object. A slot whose generations
 * are used up is RETIRED until the reset.
 *
 * Invariants
 *  1. A slot is in exactly one place. It is live, or in the magazine of its bin, or in the claimed word of its bin,
 *     or in the slab's free bitmap, or retired. The slab is empty if and only if free_count == empty_at.
 *  2. The thread that resets a slab is its only owner. The UNIT word is 0, so no cross-thread free can queue the
 *     slab, and the slab is on no list. The reset comes before the word is published.
 *  3. A foreign word is { tag : 28, count : 4, bits : 32 }. Its bits count only under the slab's present tag. A reset
 *     changes the tag, and so makes all bits void; it writes the words only in a churn slab. A cross-thread free that
 *     began before the reset writes its old tag, or its compare-and-swap fails. In both cases it does nothing.
 *  4. Generations only rise. A slab whose own generations or tags are used up is never handed out again.
 *
 * Fields marked (o) are written by the owner: the thread whose heap has the slab, or the thread that holds that heap.
 * Fields marked (w) are also written by a thread that takes the slab from a list of retained units or puts it there,
 * under that list's lock.
 */
/* Modelled in tests/model: foreign, look, orders. */
#ifndef TS_SLAB_SLAB_H
#define TS_SLAB_SLAB_H

#include "base/base.h"
#include "os/os.h"
#include "region/region.h"
#include "slab/class.h"

#include <stddef.h>

#define TS_UNIT_FOREIGN ((uint64_t)1 << 31)
#define TS_UNIT_ZOMBIE ((uint64_t)1 << 30)
#define TS_UNIT_SCOPE ((uint64_t)1 << 29)
#define TS_UNIT_SPAN ((uint64_t)1 << 28)
#define TS_UNIT_HANDLED ((uint64_t)1 << 27)
#define TS_UNIT_LINE_SHIFT 36u
/* The word of a cut unit. No other word has both bits. A reader that does not know CUT finds a zombie: nothing in it
   is live. */
#define TS_UNIT_CUT (TS_UNIT_ZOMBIE | TS_UNIT_SPAN)
#define TS_UNIT_LONG ((uint64_t)1) /* with CUT: the pieces are long */
static inline bool ts_word_is_cut(uint64_t word) { return (word & TS_UNIT_CUT) == TS_UNIT_CUT; }
#define TS_UNIT_ERA_MASK (((uint64_t)1 << 27) - 1)
_Static_assert(TS_MAX_UNITS_LOG2 + 6 <= 64 - TS_UNIT_LINE_SHIFT, "a line fits: a NEAR unit has at most 64");

#define TS_FINE_LINES_END 5u /* the bins of FINE classes are the third to fifth line of a block; block.h asserts it */

#define TS_FOREIGN_TAG_SHIFT 36u
#define TS_FOREIGN_COUNT_ONE ((uint64_t)1 << 32)
#define TS_FOREIGN_COUNT_MASK ((uint64_t)15 << 32)
#define TS_GEN_BITS 24u
#define TS_GEN_MAX (((uint32_t)1 << TS_GEN_BITS) - 1)

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

#define TS_SLAB_PAGES 4u /* A SLAB PAGE has 4 KiB, whatever pages the system has: 64 granules */
#define TS_SLAB_PAGE_BYTES (TS_UNIT_BYTES / TS_SLAB_PAGES)
#define TS_SLAB_ALL_PAGES ((1u << TS_SLAB_PAGES) - 1)
#define TS_SLAB_IS_EMPTY 0x80u

struct ts_allocator;

typedef struct ts_slab {
    union {
        _Atomic uint64_t free[4];   /* (o) churn, COARSE: bit per place, set: free */
        _Atomic uint64_t last_word; /* (o)(w) while the UNIT word is 0: the word before it, for messages */
        _Atomic uint64_t pieces;    /* cut unit, guarded by the lock of the retained units: a bit per free piece */
        struct {
            _Atomic uint64_t epoch;      /* span: id of its epoch */
            _Atomic uint64_t bytes;      /* span: usable */
            uint32_t units;              /* with its guards; units of its part */
            uint32_t guard;              /* units of the guard before it, 0: none */
            _Atomic uint32_t with_epoch; /* 1: it died with its epoch */
            union {
                uint32_t written; /* until it is in an epoch: 1 + where it was written while retained; 0: nowhere */
                uint32_t number;  /* from then on: the upper half of ts_span_number */
            };
        } span; /* guarded by the epoch's lock while the UNIT word says SPAN; messages read the atomic fields, too */
    } u;        /* atomic: messages look at the slab of a refused pointer, in whatever use it is by then (diagnose.c) */
    uint32_t next; /* (o)(w) links of the list of its bin, block, epoch or retained units: slab numbers */
    uint32_t prev;
    _Atomic uint32_t tag;        /* (o) of the foreign words; rises with every reset; read by any thread */
    _Atomic uint32_t gen;        /* (o) first generation of this use; read by handle tests */
    uint16_t free_count;         /* (o) churn: bits in the free bitmap; scope: objects freed */
    uint16_t empty_at;           /* (o) churn: slots that are not retired; scope: objects in it, once it is full. Span:
                                    with free_count the lower half of ts_span_number */
    _Atomic uint16_t end;        /* (o) scope: entries used, 0 while objects are still added; churn: further units */
    _Atomic uint8_t kind;        /* (o) ts_kind of the last use; read by messages */
    _Atomic uint8_t handled;     /* a handle was made in this use: set by any thread, cleared by a reset. Churn: by
                                    the holder of the heap (TS_ALL_COUNT), and by the claim that ends the use */
    _Atomic uint32_t queue_next; /* link of the queue of cross-thread frees, written by the thread that set FOREIGN;
                                    span: index of its epoch, written before the UNIT word */
    uint16_t allocator;          /* (o)(w) index of the allocator for which it was claimed last */
    /* (o) not FINE: a bit per slab page that went back to the system and was not claimed of since (cache/hollow.c).
       TS_SLAB_IS_EMPTY: the slab lies in a bin and has no slot in use (free_count == empty_at). It is for threads that
       hold the heap of another, running thread. */
    uint8_t given;
    _Atomic uint64_t foreign[8]; /* churn, COARSE: 32 granules a word. The record of a piece ends before it */
} ts_slab;

/* The bitmaps of a scope slab, a bit per 16 bytes. (o), read by any thread. The bitmaps of the pieces in odd places
   come behind. */
typedef struct ts_scope_bits {
    _Atomic uint64_t start[16]; /* an object starts here; never cleared before the reset */
    _Atomic uint64_t freed[16]; /* it was freed */
} ts_scope_bits;

_Static_assert(sizeof(ts_slab) == TS_SLAB_BYTES, "region.h gives each unit this much");
_Static_assert(offsetof(ts_slab, foreign) <= TS_PIECE_RECORD_BYTES, "the record of a piece");
_Static_assert(TS_PIECE_ENTRIES == 32, "a piece has one foreign word, and half a word of each bitmap");
_Static_assert(16 * sizeof(uint64_t) == TS_FINE_BYTES, "the free bitmap of a FINE slab");
_Static_assert(2 * sizeof(ts_scope_bits) == TS_SCOPE_BITS_BYTES, "region.h gives each unit this much");
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
/* The unit that the slab is, or in which the piece lies. */
static inline uint32_t ts_unit_of(uint32_t slab) {
    return TS_UNLIKELY(ts_is_piece(slab)) ? (slab & ~TS_PIECE) >> TS_PIECE_SHIFT : slab;
}
static inline _Atomic uint64_t *ts_unit_word(uint32_t slab) {
    return TS_UNLIKELY(ts_is_piece(slab)) ? &ts_region.piece_word[slab & ~TS_PIECE]
                                          : &ts_region.part[TS_NORMAL].unit[slab];
}
/* Whether the piece is long. An answer about a piece of a unit that is whole again is 0 or 1, and means nothing. */
static inline bool ts_piece_is_long(uint32_t piece) {
    return (ts_load_relaxed(ts_unit_word(ts_unit_of(piece))) & TS_UNIT_LONG) != 0;
}
/* The first entry of a scope slab within its unit, and the end. */
static inline uint32_t ts_scope_first_entry(uint32_t slab) {
    return ts_is_piece(slab) ? slab % TS_PIECES * TS_PIECE_ENTRIES : 0;
}
static inline uint32_t ts_scope_end_entry(uint32_t slab) {
    uint32_t last = ts_is_piece(slab) ? (TS_PIECE_ENTRIES << ts_piece_is_long(slab)) - 1 : TS_UNIT_ENTRIES - 1;
    return (ts_scope_first_entry(slab) | last) + 1;
}
/* The words of its bitmaps; a piece has one word, of which a short one uses half. */
static inline unsigned ts_scope_first_word(uint32_t slab) { return ts_scope_first_entry(slab) / 64; }
static inline unsigned ts_scope_end_word(uint32_t slab) { return (ts_scope_end_entry(slab) + 63) / 64; }
/* Where the unit of a slab begins; and where the data of the slab begins. */
static inline char *ts_slab_unit_address(uint32_t slab) { return ts_unit_address(ts_unit_of(slab)); }
static inline char *ts_slab_address(uint32_t slab) {
    return ts_slab_unit_address(slab) + ts_scope_first_entry(slab) * 16;
}
/* Bytes of a slab of one unit, or of a piece. */
static inline size_t ts_slab_bytes(uint32_t slab) {
    return ts_is_piece(slab) ? TS_PIECE_BYTES << ts_piece_is_long(slab) : TS_UNIT_BYTES;
}

static inline ts_slab *ts_slab_at(uint32_t slab) {
    char *record = TS_UNLIKELY(ts_is_piece(slab)) ? ts_region.piece + (size_t)(slab & ~TS_PIECE) * TS_PIECE_RECORD_BYTES
                                                  : ts_region.part[TS_NORMAL].slab + (size_t)slab * TS_SLAB_BYTES;
    return (ts_slab *)(void *)record;
}
/* The unit of a slab record. Not for a piece. */
static inline uint32_t ts_slab_unit(const ts_slab *slab) {
    return (uint32_t)((size_t)((const char *)slab - ts_region.part[TS_NORMAL].slab) / TS_SLAB_BYTES);
}
/* Memory of a span, in units of 16 KiB. */
static inline uint64_t ts_span_weight(const ts_slab *slab) {
    return ts_units_weight(ts_slab_unit(slab), slab->u.span.units);
}
/* The slab of an entry below the region's mark. acquire: a thread that finds the unit cut can read the words of its
   pieces. The answer is a hint, as the UNIT word is. A thread that looks at the piece's word afterwards finds 0 if
   the unit is whole again. */
static inline uint32_t ts_slab_of_entry(uint64_t entry) {
    uint32_t unit = (uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT);
    uint64_t word = ts_load_acquire(ts_unit_word(unit));
    if (TS_LIKELY(!ts_word_is_cut(word))) return unit;
    return ts_piece_number(unit, (unsigned)((entry / TS_PIECE_ENTRIES) % TS_PIECES & ~(word & TS_UNIT_LONG)));
}
/* A list by next and prev, in which 0 is none. Caller has what guards the list. */
static inline void ts_slab_list_push(uint32_t *head, uint32_t slab) {
    ts_slab *record = ts_slab_at(slab);
    record->prev = 0;
    record->next = *head;
    if (record->next) ts_slab_at(record->next)->prev = slab;
    *head = slab;
}
static inline void ts_slab_list_remove(uint32_t *head, uint32_t slab) {
    const ts_slab *record = ts_slab_at(slab);
    if (record->next) ts_slab_at(record->next)->prev = record->prev;
    uint32_t *before = record->prev ? &ts_slab_at(record->prev)->next : head;
    *before = record->next;
}
/* The next slab of a walk over all of them, which begins with unit 1. Pieces come after their unit, whose word says
   CUT. */
static inline uint32_t ts_slab_after(uint32_t slab) {
    if (ts_is_piece(slab)) return slab % TS_PIECES + 1 < TS_PIECES ? slab + 1 : ts_unit_of(slab) + 1;
    return ts_word_is_cut(ts_load_acquire(ts_unit_word(slab))) ? ts_piece_number(slab, 0) : slab + 1;
}

/* The bitmaps of the slab. For a piece these are bitmaps of its unit, in which it has half a word, or a word, each. */
static inline ts_scope_bits *ts_slab_scope_bits(uint32_t slab) {
    ts_scope_bits *bits = (ts_scope_bits *)(void *)(ts_region.part[TS_NORMAL].scope_bits +
                                                    (size_t)ts_unit_of(slab) * TS_SCOPE_BITS_BYTES);
    return ts_is_piece(slab) ? bits + slab % 2 : bits;
}
/* Units of a slab. */
static inline uint32_t ts_slab_units(const ts_slab *slab) {
    return ts_slab_kind(slab) == TS_KIND_CHURN ? ts_load_relaxed(&slab->end) + 1u : 1;
}
/* Whether a churn slab is FINE: by the place of its bin in the block, which has a chunk of lines. */
TS_ALWAYS_INLINE bool ts_word_is_fine(uint64_t word) {
    return (word >> TS_UNIT_LINE_SHIFT) % (TS_LINES_CHUNK / TS_CACHE_LINE) < TS_FINE_LINES_END;
}

/* Where the slab of an object begins. */
static inline void *ts_slab_start(void *object) { return (char *)object - ((uintptr_t)object & (TS_UNIT_BYTES - 1)); }

/* The free bitmap of a churn slab, and the number of its words. */
TS_ALWAYS_INLINE _Atomic uint64_t *ts_slab_free_words(bool fine, ts_slab *slab) {
    return fine ? (_Atomic uint64_t *)(void *)(ts_region.fine + (size_t)ts_slab_unit(slab) * TS_FINE_BYTES)
                : slab->u.free;
}
TS_ALWAYS_INLINE unsigned ts_slab_free_word_count(bool fine) { return fine ? 16u : 4u; }

/* The foreign words of a slab are WIDE, with 32 entries a word, if the slab is a scope slab or FINE. Else a word has
   32 COARSE granules. Only SCOPE and the line of the UNIT word matter here. Both places never hold anything but
   foreign words, so a late compare-and-swap meets nothing else. */
TS_ALWAYS_INLINE bool ts_word_is_wide(uint64_t word) { return (word & TS_UNIT_SCOPE) != 0 || ts_word_is_fine(word); }
TS_ALWAYS_INLINE _Atomic uint64_t *ts_wide_words(uint64_t unit) {
    return (_Atomic uint64_t *)(void *)(ts_region.wide + (size_t)unit * TS_WIDE_BYTES);
}
/* The foreign words of a slab are those from *first to *end - 1 of the result. */
static inline _Atomic uint64_t *ts_slab_foreign_of(uint32_t slab, bool wide, unsigned *first, unsigned *end) {
    *first = ts_scope_first_entry(slab) / 32;
    *end = wide ? ts_scope_end_entry(slab) / 32 : 8;
    return wide ? ts_wide_words(ts_unit_of(slab)) : ts_slab_at(slab)->foreign;
}
static inline _Atomic uint64_t *ts_slab_foreign_words(uint32_t slab, uint64_t word, unsigned *first, unsigned *end) {
    return ts_slab_foreign_of(slab, ts_word_is_wide(word), first, end);
}

/* The number of an object's bit in the foreign words of its slab; a word has 32 bits. */
TS_ALWAYS_INLINE uint64_t ts_foreign_index(uint64_t word, uint64_t entry) {
    uint64_t in_unit = entry & (TS_UNIT_ENTRIES - 1), coarse = ts_granule(false, in_unit);
    return ts_word_is_wide(word) ? in_unit : coarse;
}

/* The foreign word and bit of the object at an entry. A conditional move: calls of all sizes mix. */
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

/* Whether the owner's free of an object was the first. The owner has taken its live bit off, and has not released the
   slab. false: another thread has freed the object before. seq_cst, after the store of that bit: cache/foreign.c, 7. */
TS_ALWAYS_INLINE bool ts_foreign_is_first(const ts_slab *slab, _Atomic uint64_t *foreign, uint64_t bit) {
    uint64_t x = ts_load_relaxed(foreign), tag = ts_load_relaxed(&slab->tag);
    while (TS_UNLIKELY(!ts_cas_seq(foreign, &x, ts_foreign_counted_on(x & ~bit)))) {
    }
    return TS_LIKELY(!(x & bit)) || x >> TS_FOREIGN_TAG_SHIFT != tag;
}

/* ---- generations ----------------------------------------------------------------------------------------- */

#define TS_SLOT_GEN_MAX 4095u /* a slot above it is retired */
/* The generation of the object at an entry, or of the next one there, in a slab with that UNIT word. It is at least
   that of the life that a reader has seen. acquire: partner of the fence in a reset, which raises the slab's first. */
static inline uint32_t ts_slab_generation(const ts_slab *slab, uint64_t word, uint64_t entry) {
    uint32_t slot = word & TS_UNIT_HANDLED ? ts_load_acquire(ts_generation_word(entry)) : 0u;
    return slot + ts_load_relaxed(&slab->gen);
}
/* A life in a HANDLED slab has ended: its bit is off, as a reader of the count sees. false: the slot is retired. */
TS_ALWAYS_INLINE bool ts_slot_count(uint64_t entry) {
    _Atomic uint16_t *word = ts_generation_word(entry);
    uint32_t next = ts_load_relaxed(word) + 1u;
    ts_store_release(word, (uint16_t)next);
    return next <= TS_SLOT_GEN_MAX;
}
/* The next free retires the slot. */
TS_ALWAYS_INLINE bool ts_slot_is_last(uint64_t entry) {
    return ts_load_relaxed(ts_generation_word(entry)) == TS_SLOT_GEN_MAX;
}
static inline bool ts_slot_is_retired(uint64_t entry) {
    return ts_load_relaxed(ts_generation_word(entry)) > TS_SLOT_GEN_MAX;
}
#define TS_ALL_COUNT 2u /* of `handled`: every free in this use that is not over counts */
/* Sets HANDLED in the UNIT word of a churn slab that still is `word`; ts_region_commit_generations comes before. */
void ts_slab_set_handled(uint32_t unit, uint64_t word);
/* Notes TS_ALL_COUNT. Caller: holds the heap, since the bit was set; or writes the UNIT word next. */
void ts_slab_note_handled(uint32_t unit);
/* Both. Caller: the owner, in its heap. */
static inline void ts_slab_make_handled(uint32_t unit) {
    ts_slab_set_handled(unit, ts_load_relaxed(ts_unit_word(unit)));
    ts_slab_note_handled(unit);
}

void ts_slab_init_templates(void);
const uint8_t *ts_class_starts(unsigned cls);

/* A use ends whose last UNIT word this is: a note for messages, and for reset and purge if it was HANDLED. (A thread
   that made it so, and was lost in a fork, has noted nothing.) */
static inline void ts_slab_note_last(uint32_t unit, uint64_t word) {
    ts_store_relaxed(&ts_slab_at(unit)->u.last_word, word & ~(TS_UNIT_FOREIGN | TS_UNIT_ZOMBIE));
    if (TS_LIKELY(!(word & TS_UNIT_HANDLED))) return;
    ts_store_relaxed(&ts_slab_at(unit)->handled, 1);
    ts_region.run[unit].counted = 1;
}

/* Takes a unit that is on no list out of reach of cross-thread frees: its UNIT word becomes 0. false: the unit is on
   a queue. It is a zombie then, and the thread that takes it off the queue gives it back. Caller: its only owner.
   zombies counts zombies; it rises before another thread can see the zombie. */
TS_ALWAYS_INLINE bool ts_slab_claim(uint32_t unit, _Atomic uint64_t *zombies) {
    _Atomic uint64_t *word = ts_unit_word(unit);
    uint64_t w = ts_load_relaxed(word);
    for (;;) {
        /* seq_cst: the partner is a cross-thread free, which sets FOREIGN by compare-and-swap. One of the two sees
           the other's value. */
        if (TS_UNLIKELY(w & TS_UNIT_FOREIGN)) {
            ts_assert(2, !(w & TS_UNIT_ZOMBIE));
            ts_fetch_add_relaxed(zombies, 1);
            if (ts_cas_seq(word, &w, w | TS_UNIT_ZOMBIE)) return false;
            ts_fetch_sub_relaxed(zombies, 1);
        } else if (TS_LIKELY(ts_cas_seq(word, &w, 0))) {
            if (w != 0) ts_slab_note_last(unit, w);
            return true;
        }
    }
}

/* Claims a scope slab, the first unit of a list of retained units, which the caller holds, unless a cross-thread free
   has met it. false: it is that other case, and nothing was done. If the unit then stays on its list, its word of 0
   does no harm: such a unit has no owner either way. */
TS_ALWAYS_INLINE bool ts_slab_claim_clean(uint32_t unit) {
    _Atomic uint64_t *word = ts_unit_word(unit);
    uint64_t w = ts_load_relaxed(word);
    /* seq_cst: as in ts_slab_claim */
    if (TS_UNLIKELY((w & TS_UNIT_FOREIGN) || !ts_cas_seq(word, &w, 0))) return false;
    if (w != 0) ts_store_relaxed(&ts_slab_at(unit)->u.last_word, w);
    return true;
}

/* Before the generations of a claimed unit are lost: notes in the record those that handles may carry. A handle that
   another thread is making meanwhile is not made: see ts_slab_next_generation. */
void ts_slab_fold_generations(uint32_t unit);

/* The first generation of the next use of a slab of which handles were made. Clears the flag that says so. */
uint32_t ts_slab_handled_generation(ts_slab *slab);
/* The first generation of a slab's next use. It moves on only if a handle was made in the last use, so a program
   without handles uses none up. Why no handle is missed: the last use ended by a change of the block's key or of the
   UNIT word. A seq_cst change of that word came after it (ts_slab_claim, or the release of an empty slab). This
   function reads `handled` (seq_cst) after that. ts_object_handle sets `handled`, passes a seq_cst fence, and then
   looks at the key and the word again. So either the flag is seen here, or the end of the use is seen there and no
   handle is made. (The owner of a churn slab finds HANDLED, and needs no note: that change finds it, and sets it.) */
TS_ALWAYS_INLINE uint32_t ts_slab_next_generation(ts_slab *slab) {
    if (TS_UNLIKELY(ts_load_seq(&slab->handled))) return ts_slab_handled_generation(slab);
    return ts_load_relaxed(&slab->gen);
}
/* Begins the next use, with this generation and another tag. false: generations or tags are used up. */
TS_ALWAYS_INLINE bool ts_slab_next_use(ts_slab *slab, ts_kind kind, uint32_t gen) {
    uint32_t tag = ts_load_relaxed(&slab->tag);
    if (TS_UNLIKELY(gen > TS_GEN_MAX - TS_SLOT_GEN_MAX - 1 || tag >= TS_UNIT_ERA_MASK)) {
        ts_store_relaxed(&slab->kind, TS_KIND_RETIRED);
        return false;
    }
    if (ts_slab_kind(slab) == TS_KIND_NONE && gen == 0) gen = 1; /* so that no handle is 0 */
    ts_store_relaxed(&slab->gen, gen);
    /* release fence: a thread that reads a live word or start bit of the new use sees that the slab was claimed
       (ts_fast_look, object.c) */
    atomic_thread_fence(memory_order_release);
    /* release: a thread that reads the new tag sees the new era of the block that owned the slab before */
    ts_store_release(&slab->tag, tag + 1);
    ts_store_relaxed(&slab->kind, (uint8_t)kind);
    return true;
}

static inline void ts_slab_clear16(_Atomic uint64_t *words) {
    for (unsigned i = 0; i < 16; i += 8) {
        ts_clear_pair_owned(&words[i]);
        ts_clear_pair_owned(&words[i + 2]);
        ts_clear_pair_owned(&words[i + 4]);
        ts_clear_pair_owned(&words[i + 6]);
    }
}

/* Clears the bitmaps of a unit or of a piece. unfreed: none of its `freed` bits is on. */
TS_ALWAYS_INLINE void ts_slab_clear_bits(ts_scope_bits *bits, uint32_t slab, bool piece, bool unfreed) {
    if (piece) {
        ts_store_relaxed(&bits->start[ts_scope_first_word(slab)], 0);
        ts_store_relaxed(&bits->freed[ts_scope_first_word(slab)], 0);
    } else {
        ts_slab_clear16(bits->start);
        if (TS_UNLIKELY(!unfreed)) ts_slab_clear16(bits->freed);
    }
}

/* Makes a claimed unit a fresh churn slab. false: generations or tags are used up. FINE: committed before. */
bool ts_slab_reset_churn(uint32_t unit, unsigned cls);
/* Makes a claimed unit or piece a fresh scope slab, as ts_scope_next does in the usual case. false: as above. */
TS_ALWAYS_INLINE bool ts_slab_reset_scope(uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    ts_assert(2, ts_load_relaxed(ts_unit_word(unit)) == 0);
    /* After a scope use in which nothing was freed, `freed` has no bit on. */
    bool unfreed = ts_slab_kind(slab) == TS_KIND_SCOPE && slab->free_count == 0;
    if (!ts_slab_next_use(slab, TS_KIND_SCOPE, ts_slab_next_generation(slab))) return false;
    ts_slab_clear_bits(ts_slab_scope_bits(unit), unit, ts_is_piece(unit), unfreed);
    slab->free_count = slab->empty_at = 0;
    ts_store_relaxed(&slab->end, 0);
    return true;
}
/* Makes a claimed unit the first of a span: only the tag and the generation move on. false: as above. */
static inline bool ts_slab_reset_span(uint32_t unit) {
    return ts_slab_next_use(ts_slab_at(unit), TS_KIND_SPAN, ts_slab_next_generation(ts_slab_at(unit)));
}

/* A bit for each slab page that the bytes from begin to end - 1 of a slab lie in. */
static inline unsigned ts_slab_pages_between(unsigned begin, unsigned end) {
    unsigned first = begin / TS_SLAB_PAGE_BYTES, last = (end - 1) / TS_SLAB_PAGE_BYTES;
    return (2u << last) - (1u << first);
}
/* The slab pages of a COARSE churn slab in which slots lie that are not in its free bitmap. */
unsigned ts_slab_pages_in_use(const ts_slab *slab, unsigned cls);

/* Live slots of a churn slab, by its live words; and live objects of a scope slab, by its bitmaps. */
unsigned ts_slab_count_live(uint32_t unit);
unsigned ts_scope_count_live(uint32_t unit);
/* Sets the free bitmap, free_count and empty_at of a churn slab from its live words alone. */
void ts_slab_rebuild(uint32_t unit, unsigned cls);

/* Objects that were ever started in a scope slab. */
unsigned ts_scope_count_started(uint32_t unit);
/* Entries from the object at an entry to the next object, or to `end`: the entries used in its unit. */
uint32_t ts_scope_entries(uint32_t unit, uint32_t entry_in_unit, uint32_t end);
/* The rest of this door: handles, and loans of slabs to a device. */
#include "slab/handle.h"
#include "slab/lent.h"

#endif
