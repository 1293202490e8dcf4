/*
 * The region: one reservation of address space for the whole process, made once, never given back.
 *
 *     data      units of 16 KiB: slabs and spans
 *     state     per unit, twice: a 16-bit word for each granule of 64 bytes (COARSE, 512 bytes), and one for each granule of 16
 *               bytes (FINE, 2 KiB). A slab uses the one or the other, by its class
 *     unit      per unit: the UNIT word, who owns it (slab/slab.h)
 *     slab      per unit: the slab's own record, 128 bytes
 *     fine      per unit: the free bitmap of a FINE slab
 *     wide      per unit: the foreign words of a scope slab or of a FINE slab
 *     piece     per piece of a unit, 32 a unit: its UNIT word and its record, as of a unit that is a slab (slab/slab.h)
 *     run       per unit: free runs of the pool (pool.h)
 *     lines     what is addressed by a line number: heaps, blocks, bins, magazines (lines.h)
 *     chunk     per 4 KiB of the lines: a note (chunk.h)
 *     tables    epochs, domains, allocators (table.h)
 *
 * Where the system has room for it there is a second reservation, of 16 TiB: the FAR part. Its units have 1 MiB. Only
 * spans of large objects lie there, so of the metadata it has what spans need: UNIT words, slab records and runs,
 * behind those of the NORMAL part in the same tables. Units of both parts have one numbering: the FAR ones begin where
 * the NORMAL ones end. No fast path knows of it: an address in it is outside of the NORMAL part.
 *
 * Invariants
 *  1. Everything is reserved without access and made accessible in large steps, so that it works where the
 *     system counts every accessible byte (strict overcommit), and so that a core dump or mlockall meets
 *     nothing that was never used. What was used is never unmapped, but for free FAR units; what was not is when the region
 *     shrinks (api/shrink.c): another mapping may come to lie there, whose addresses are above the mark, or nobody's.
 *  2. The region has a MARK, `limit`, which only rises. The metadata of the units below it is accessible, for ever after;
 *     that of the units above it is not even readable. The data of a unit is accessible once the pool has it, and of
 *     a FAR one while it is handed out. What only FINE slabs
 *     need becomes accessible a block of units at a time, with the first of them in it, and a bit of `fine_blocks` says so for ever
 *     after. Nobody looks at it before a UNIT word says FINE. What only units that are cut need does so likewise (`piece_blocks`; a
 *     UNIT word that says CUT).
 *  3. Whoever was given a place (an address, a handle) by the program compares it with the mark first, and refuses what is
 *     at or above it: "not ours", without an access.
 *  4. Unit 0 is never handed out: entry 0 means "none".
 *  5. All other fields of ts_region are constant after ts_region_init, but for what falls when it shrinks; marks are 0 before, so that every address
 *     is out of range.
 *
 * Why no access meets a page without access. Who raises the mark (ts_region_raise) makes the metadata accessible first and
 * stores the mark afterwards, with release. Who looks up a place loads the mark before the metadata. Three cases:
 *  a. The place is that of a unit that was handed out, and came to this thread in a way that the program orders (it was
 *     given it): handing out comes after the mark, so the load finds that mark or a later one.
 *  b. The place is a guess, or came by a race. The load finds a mark below it: refused. A unit handed out meanwhile is as
 *     if it were handed out after the call: the program has no order that says otherwise.
 *  c. The place is a guess and the load finds a mark above it. Acquire is enough: the accesses behind the load come after
 *     the call of the system that was made before the release. The fast paths load it relaxed, in the compare itself.
 *     The access behind it depends on the compare's outcome. A compiler makes no access that can fault before it is due.
 *     A processor may try such an access early, but it takes a fault only once the compare has come out, and the system looks at the protection then, under its own locks: it finds
 *     the range accessible and the access is repeated. What is read there may be older than the mark: zero, nobody's unit,
 *     which is refused; every word of the metadata is atomic and has its own order, as for any guess below the mark.
 * Units above the mark have never been used, so what their metadata would say is zero: refusing without a look loses nothing.
 *
 * An ENTRY names a 16-byte place: (address - base) / 16, 32 bits.
 *
 * A GRANULE has a number, by which its state word and its bits in the bitmaps of a slab are found. A FINE one is an entry, and its
 * number is that. The 256 COARSE granules of a unit are counted from the even places first: the one in place 2i is number i, the
 * one in 2i + 1 number 128 + i. Objects of 128 bytes, and of every other multiple, begin in even places only: half as many
 * lines of state words are touched for as many objects, and a word of the free bitmap has twice as many of them.
 *
 * Which table a slab's state words are in its bin knows (ownership/types.h). So a path that serves all sizes selects a number by a
 * conditional move, and goes on as one.
 */
#ifndef TS_REGION_REGION_H
#define TS_REGION_REGION_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/bits.h"

#define TS_UNIT_SHIFT 14u
#define TS_UNIT_BYTES ((size_t)1 << TS_UNIT_SHIFT)
#define TS_UNIT_ENTRIES (TS_UNIT_BYTES / 16u) /* 1024 */
#define TS_ENTRY_UNIT_SHIFT 10u
#define TS_ADDRESS_BITS \
    52u /* of the region's addresses, the highest of them a sign: what a scope's bump word has (ownership/types.h) */
#define TS_PAGE_BYTES_MAX ((size_t)64 << 10) /* with larger pages initialisation fails */

#define TS_MAX_UNITS_LOG2 22u    /* 64 GiB: the slab id of a handle has 22 bits */
#define TS_MAX_UNITS_LOG2_32 15u /* 512 MiB where addresses have 32 bits */
#define TS_MIN_UNITS_LOG2 9u     /* 8 MiB: below that initialisation fails */
#define TS_STATES_COARSE 256u
#define TS_STATES_FINE 1024u
_Static_assert((uint64_t)TS_STATES_FINE << TS_MAX_UNITS_LOG2 <= (uint64_t)1 << 32, "a granule's number has 32 bits");

/* Slabs, and what is kept warm of single units, are of the first part. */
enum { TS_NORMAL = 0, TS_SLAB_PARTS = 1, TS_FAR = 1, TS_PARTS = 2 };

#define TS_FAR_SHIFT 20u
#define TS_FAR_UNITS_LOG2 24u /* 16 TiB; halved until it fits */
#define TS_ALL_UNITS (((size_t)1 << TS_MAX_UNITS_LOG2) + ((size_t)1 << TS_FAR_UNITS_LOG2)) /* of both parts */
#define TS_FAR_LEAST_LOG2 16u           /* 64 GiB; where not even that fits there is no such part */
#define TS_FAR_BYTES ((size_t)16 << 20) /* objects above it lie there */

/* Sizes of the records that the slab layer keeps per unit; it asserts that they are these. */
#define TS_SLAB_BYTES 128u
#define TS_FINE_BYTES 128u
#define TS_WIDE_BYTES 256u
#define TS_CHUNK_NOTE_BYTES 12u /* and what is kept per chunk of the lines */

/* A PIECE is a thirty-second of a unit that is cut: what a foreign word of a scope slab stands for, and half a word of its bitmaps. */
#define TS_PIECES 32u
#define TS_PIECE_BYTES (TS_UNIT_BYTES / TS_PIECES)
#define TS_PIECE_ENTRIES (TS_UNIT_ENTRIES / TS_PIECES)
#define TS_PIECE_RECORD_BYTES 64u

/* Blocks of units that get at once what FINE slabs need: 128 units, 272 KiB, in the first 2 GiB, and 1,024 beyond that. So a dump shows
   little that was never used, and a heap of any size has some thousand mappings of them at most. */
#define TS_FINE_NEAR_UNITS ((uint32_t)1 << 17)
#define TS_FINE_NEAR_SHIFT 7u
#define TS_FINE_FAR_SHIFT 10u
#define TS_FINE_FAR_FIRST ((TS_FINE_NEAR_UNITS >> TS_FINE_NEAR_SHIFT) - (TS_FINE_NEAR_UNITS >> TS_FINE_FAR_SHIFT))
#define TS_FINE_BLOCKS (TS_FINE_FAR_FIRST + ((uint32_t)1 << (TS_MAX_UNITS_LOG2 - TS_FINE_FAR_SHIFT)))
_Static_assert(TS_FINE_BLOCKS % 64 == 0, "whole words of bits");
static inline uint32_t ts_fine_block(uint32_t unit) {
    return unit < TS_FINE_NEAR_UNITS ? unit >> TS_FINE_NEAR_SHIFT : TS_FINE_FAR_FIRST + (unit >> TS_FINE_FAR_SHIFT);
}

struct ts_run;

typedef struct ts_part {
    char *base;
    _Atomic uint64_t
        limit; /* the mark, in entries: one at or above it is out of range. Raised by who has the pool's grow lock */
    _Atomic uint64_t *unit;     /* [entry >> 10] */
    _Atomic uint16_t *state[2]; /* COARSE, FINE: [granule] */
    char *slab;                 /* [(entry >> 10) * TS_SLAB_BYTES] */
    uint32_t first_unit;        /* 0; FAR: the NORMAL units. UINT32_MAX: there is no such part */
    uint32_t units;
} ts_part;

typedef struct ts_region {
    /* Every operation reads what follows, so it lies where a thread's records are not written all the time: a load is held back for a
       store before it to the same place of another page, until the whole of both addresses is known (docs/decisions.md, "the end
       of a page"). The first thread's share, whose lists and counters change with each slab, is at 0xc80 of its page and on. */
    TS_ALIGNED(4096) char before[0x880];
    ts_part part[TS_PARTS];
    char *lines;          /* address of line 0 */
    uint32_t line_limit;  /* lines there are; of the lines' lock, after init */
    char *chunk;          /* [line / lines of a chunk * TS_CHUNK_NOTE_BYTES] */
    char *fine;           /* [unit * TS_FINE_BYTES] */
    char *wide;           /* [unit * TS_WIDE_BYTES] */
    uint32_t piece_units; /* units below this can be cut: all, or where the address space is limited one in 64 */
    char *piece;          /* [piece * TS_PIECE_RECORD_BYTES] */
    _Atomic uint64_t *piece_word; /* [piece] */
    struct ts_run *run;           /* [global unit] */
    char *table[3];               /* reserved ranges of the tables, TS_TABLE_* */
    uint32_t table_capacity[3];
    _Atomic size_t reserved_bytes;       /* by both parts; falls, as the next two, when it shrinks */
    _Atomic uint32_t part_end[TS_PARTS]; /* units of a part below it may be handed out */
    _Atomic size_t far_bytes;            /* an object above it is FAR: TS_FAR_BYTES, but in tests; SIZE_MAX: none is */
    size_t far_most_bytes;               /* and has so many at most (os/machine.h) */
    _Atomic uint64_t
        fine_blocks[TS_FINE_BLOCKS / 64]; /* bits are only set. release: who sees one can read what is in the block */
    _Atomic uint64_t piece_blocks[TS_FINE_BLOCKS / 64]; /* likewise */
} ts_region_t;

enum { TS_TABLE_EPOCH = 0, TS_TABLE_DOMAIN = 1, TS_TABLE_ALLOCATOR = 2 };
#define TS_EPOCH_STRIDE 192u
#define TS_DOMAIN_STRIDE 128u
#define TS_ALLOCATOR_STRIDE 4096u
#define TS_MAX_ALLOCATORS 4096u

extern TS_HIDDEN ts_region_t ts_region;

/* Reserves; called under start_mutex (runtime.c), once if it succeeds. max_units_log2: for tests that want a small
   region, which has no FAR part. false: not even the minimum could be had; may be called again. */
bool ts_region_init(unsigned max_units_log2);
/* Address space of the smallest region. */
size_t ts_region_least_bytes(void);

/* Makes metadata accessible: bytes from at, widened to pages; and counts bytes that are. */
bool ts_region_commit_metadata(void *at, size_t bytes);
void ts_region_count_metadata(size_t bytes);
/* Bytes of metadata that are accessible. */
size_t ts_region_metadata_bytes(void);

/* The FAR part gets so many bytes at most, as a power of two; 0: there is none. Before ts_region_init. */
void ts_region_limit_far(unsigned bytes_log2);

/*
 * A smaller region. What is between two places of a range goes back to the system, in whole pages of 64 KiB; who asks for it sees to it
 * that it was never used, and will not be.
 */
void ts_region_release_tail(char *base, size_t from, size_t to);
/* No units of a part from `end` on are handed out any more: their data go back, and their metadata above the mark. Caller: the only one
   who raises this part's mark; none of them is handed out, and `end` is a multiple of TS_REGION_END_UNITS or lower than all. */
void ts_region_release_units(unsigned part, uint32_t end);
#define TS_REGION_END_UNITS ((uint32_t)1 << TS_FINE_FAR_SHIFT) /* what FINE slabs and pieces need is of whole blocks */
/* Bytes of all ranges that a NORMAL unit has. */
size_t ts_region_unit_bytes(void);
/* Makes the metadata of a part's units below `end` accessible, and raises the mark so far at least. In large steps: it is no
   system call where the mark is there already. Caller: the only one who raises this part's mark. false: the system refused; the
   mark is where it was. */
bool ts_region_raise(unsigned part, uint32_t end);
/* Makes the data of the units [first, first + count) of a part accessible. */
bool ts_region_commit_data(unsigned part, uint32_t first, uint32_t count);
/* Makes accessible what the unit needs as a FINE slab. false: there is no memory for that. Any thread; a load if it is accessible
   already. */
bool ts_region_commit_fine(uint32_t unit);
/* Whether it is. acquire: partner of the release that sets the bit */
static inline bool ts_region_has_fine(uint32_t unit) {
    uint32_t block = ts_fine_block(unit);
    return (ts_load_acquire(&ts_region.fine_blocks[block / 64]) >> block % 64 & 1) != 0;
}
/* Makes accessible what the unit needs to be cut. Likewise; also false: it is not one that can be. */
bool ts_region_commit_pieces(uint32_t unit);
/* Units of a part that may be handed out, those that are included. */
static inline uint32_t ts_region_part_end(unsigned part) { return ts_load_relaxed(&ts_region.part_end[part]); }
/* Units of a part below its mark. acquire: their metadata is accessible. */
static inline uint32_t ts_region_marked_units(unsigned part);

/* ROR by 4: a place off the 16-byte grid, or outside of the part, becomes a number above every limit. */
TS_ALWAYS_INLINE uint64_t ts_entry_of(const ts_part *part, const void *p) {
    uint64_t o = (uint64_t)((uintptr_t)p - (uintptr_t)part->base);
    return (o >> 4) | (o << 60);
}
/* Whether an entry is below the part's mark. relaxed: "Why no access" above, c. */
TS_ALWAYS_INLINE bool ts_is_in_part(const ts_part *part, uint64_t entry) {
    return !ts_is_at_most_relaxed_64(&part->limit, entry);
}
TS_ALWAYS_INLINE char *ts_entry_address(const ts_part *part, uint64_t entry) { return part->base + entry * 16u; }

/* Granule of an entry; and the first entry of a granule. Conditional moves: sizes mix. */
TS_ALWAYS_INLINE uint64_t ts_granule(bool fine, uint64_t entry) {
    uint64_t coarse = ts_ror_low_byte(entry >> 2);
    return fine ? entry : coarse;
}
TS_ALWAYS_INLINE uint64_t ts_granule_entry(bool fine, uint64_t granule) {
    return fine ? granule : ts_rol_low_byte(granule) << 2;
}
TS_ALWAYS_INLINE unsigned ts_granules_per_unit(bool fine) { return fine ? TS_STATES_FINE : TS_STATES_COARSE; }

/* The state words of a unit, by granule. */
static inline _Atomic uint16_t *ts_unit_states(uint32_t unit, bool fine) {
    return &ts_region.part[TS_NORMAL].state[fine][(size_t)unit * ts_granules_per_unit(fine)];
}
/* The state word of an entry. */
static inline _Atomic uint16_t *ts_entry_state(uint64_t entry, bool fine) {
    return &ts_region.part[TS_NORMAL].state[fine][ts_granule(fine, entry)];
}

/* Entries from one granule of a word of 64 to the next: the COARSE ones of a word are all in even places, or all in odd ones. */
#define TS_WORD_STRIDE(fine) ((fine) ? 1u : 8u)

/* Bytes of a unit, as a power of two. */
static inline unsigned ts_part_shift(unsigned part) { return part == TS_NORMAL ? TS_UNIT_SHIFT : TS_FAR_SHIFT; }
/* Bits of an entry that name its place in the unit. */
static inline unsigned ts_part_entry_shift(unsigned part) { return ts_part_shift(part) - 4u; }
static inline uint32_t ts_region_marked_units(unsigned part) {
    return (uint32_t)(ts_load_acquire(&ts_region.part[part].limit) >> ts_part_entry_shift(part));
}
static inline unsigned ts_part_of_unit(uint32_t unit) {
    return TS_UNLIKELY(unit >= ts_region.part[TS_FAR].first_unit) ? TS_FAR : TS_NORMAL;
}
/* Bytes of so many units of a part. */
static inline size_t ts_part_bytes(unsigned part, uint64_t units) { return (size_t)units << ts_part_shift(part); }
static inline bool ts_is_data_of(unsigned part, const void *p) {
    const ts_part *n = &ts_region.part[part];
    return (uintptr_t)p - (uintptr_t)n->base < ts_part_bytes(part, n->units);
}
/* Whether an address lies in the data of the region, used ever or not. */
static inline bool ts_is_data(const void *p) { return ts_is_data_of(TS_NORMAL, p) || ts_is_data_of(TS_FAR, p); }
/* Whether a number, whatever it is, is that of a unit below the mark of its part; of the NORMAL part. */
static inline bool ts_is_unit_of(unsigned part, uint64_t in_part) { return in_part < ts_region_marked_units(part); }
static inline bool ts_is_unit(uint64_t unit) { return ts_is_unit_of(TS_NORMAL, unit); }
static inline uint32_t ts_unit_in_part(uint32_t unit) {
    return unit - ts_region.part[ts_part_of_unit(unit)].first_unit;
}
/* Of a unit of that part. */
static inline char *ts_part_unit_address(unsigned part, uint32_t unit) {
    const ts_part *p = &ts_region.part[part];
    return p->base + ts_part_bytes(part, unit - p->first_unit);
}
static inline char *ts_unit_address(uint32_t unit) { return ts_part_unit_address(ts_part_of_unit(unit), unit); }
/* Of `count` units from that one: their bytes; and how many units of 16 KiB those are, in which memory is counted
   everywhere. */
static inline size_t ts_units_bytes(uint32_t unit, uint64_t count) {
    return ts_part_bytes(ts_part_of_unit(unit), count);
}
#define TS_FAR_WEIGHT_SHIFT (TS_FAR_SHIFT - TS_UNIT_SHIFT)
static inline uint64_t ts_part_weight(unsigned part, uint64_t count) {
    return count << (ts_part_shift(part) - TS_UNIT_SHIFT);
}
static inline uint64_t ts_units_weight(uint32_t unit, uint64_t count) {
    return ts_part_weight(ts_part_of_unit(unit), count);
}
/* The unit of a place in the FAR part. An object begins only at the first entry of one: *entry is that of its unit, or
   the next for any other place. false: not in the part, or off the grid. */
bool ts_locate_far(const void *p, uint32_t *unit, uint64_t *entry);
/* FAR units that have so many of 16 KiB. */
static inline uint32_t ts_far_units(uint64_t units) {
    return (uint32_t)((units + ((uint64_t)1 << TS_FAR_WEIGHT_SHIFT) - 1) >> TS_FAR_WEIGHT_SHIFT);
}

#endif
