/*
 * The region: one reservation of address space for the whole process. It is made once and never given back.
 *
 *     data      units of 16 KiB: slabs and spans
 *     live      per unit: the live words of a churn slab, 128 bytes
 *     scope     per unit: the bitmaps of a scope slab, twice: those of pieces in odd places lie behind
 *     unit      per unit: the UNIT word, which names its owner (slab/slab.h)
 *     slab      per unit: the record of the slab, 128 bytes
 *     fine      per unit: the free bitmap of a FINE slab
 *     generations  per unit: a 16-bit count for each entry, of a HANDLED slab
 *     wide      per unit: the foreign words of a scope slab or of a FINE slab
 *     piece     per piece of a unit, 32 a unit: a UNIT word and a record, as a unit has (slab/slab.h)
 *     run       per unit: free runs of the pool (pool.h)
 *     lines     records that are addressed by a line number: heaps, blocks, bins, magazines (lines.h)
 *     chunk     per 4 KiB of the lines: a note (chunk.h)
 *     tables    epochs, domains, allocators (table.h)
 *
 * The first 2^22 units, 64 GiB, are NEAR. Where the system has room for 16 TiB more, the data and the tables go on
 * behind them, by addresses only: OUTER units, 6.6 TiB. Each 2^22 of them are a REGION. Most of the code does not tell
 * them from NEAR ones. Three places are too narrow for their numbers:
 *
 *     a claimed word         32 bits of granule: an OUTER slab gives and takes its objects one by one (cache/bin.c)
 *     the number of a piece  31 bits: only NEAR units are cut
 *     a handle               22 bits of unit: it names the region apart (slab/handle.h)
 *
 * So no fast path knows an OUTER unit. It compares with `near`, and an OUTER place is above that, as a place of the FAR
 * part is. OUTER units come into use when there is no NEAR one. They are a part of the 16 TiB.
 * Where fewer bytes can be reserved there are fewer of them, or none. So start and `ulimit -v` are as without them.
 *
 * The other half is the FAR part, 8 TiB. Its units have 1 MiB, and only spans of large objects lie in them. Spans need
 * UNIT words, slab records and run records. Those of FAR units stand in the tables of the NORMAL part, behind its own.
 * Both parts share one numbering of units: FAR numbers begin where NORMAL numbers end. No fast path knows of the FAR
 * part: an address in it is outside of the NORMAL part.
 *
 * Invariants
 *  1. The region is reserved without access, and made accessible in large steps. So it works where the system counts
 *     every accessible byte (strict overcommit), and core dumps and mlockall skip memory that was never used. Memory
 *     that was used is never unmapped, except free FAR units. Memory that was never used is unmapped when the region
 *     shrinks (api/shrink.c). Other mappings may then lie between its addresses. Such an address is above the mark,
 *     or its unit belongs to nobody.
 *  2. Each part has a MARK, `limit`, which only rises. `near` is the mark too, until it passes the last NEAR unit. The
 *     metadata of the units below it is accessible for ever. The metadata of the units above it cannot even be read.
 *     The data of a NORMAL unit is accessible once the pool has
 *     the unit, the data of a FAR unit while it is handed out.
 *     The metadata that only FINE slabs need becomes accessible for a group of units at once, with the first FINE
 *     slab in the group. A bit of `fine_groups` says so from then on. Nothing looks at it before a UNIT word names a
 *     bin of FINE slabs. Generations follow the same rule, with `generation_groups` and a UNIT word that says HANDLED,
 *     and what only cut units need with `piece_groups` and CUT.
 *  3. A place that comes from the program (an address, a handle) is compared with the mark first. At or above the
 *     mark the answer is "not ours", without an access.
 *  4. Unit 0 is never handed out: entry 0 means "none".
 *  5. The other fields of ts_region are constant after ts_region_init, except those that fall when the region
 *     shrinks. Marks are 0 before the init, so every address is out of range.
 *
 * Why no access meets a page without access. The thread that raises the mark (ts_region_raise) makes the metadata
 * accessible first, and then stores the mark with release. A thread that looks up a place loads the mark before the
 * metadata. There are three cases.
 *  a. The unit was handed out, and the place came to this thread in a way that the program orders. Units are handed
 *     out after the mark has risen, so the load finds that mark or a later one.
 *  b. The place is a guess, or came by a race, and the load finds a mark below it. The place is refused. If the unit
 *     is handed out meanwhile, it counts as handed out after the call: no order of the program says otherwise.
 *  c. The place is a guess, and the load finds a mark above it. Acquire is enough: the accesses behind the load come
 *     after the system call that was made before the release. Fast paths load the mark relaxed, in the compare
 *     itself, and the access depends on the compare's outcome. A compiler makes no access that can fault before it is
 *     due. A processor may try such an access early, but it takes a fault only once the compare has come out. The
 *     system then looks at the protection, under its own locks. It finds the range accessible, and the access is
 *     repeated. The value that it reads may be older than the mark. Then it is zero: nobody's unit, which is refused.
 *     Every word of the metadata is atomic and has its own order, as for any guess below the mark.
 * Units above the mark have never been used, and their metadata would be zero. So a refusal without a look loses
 * nothing.
 *
 * An ENTRY names a 16-byte place of the data: (address - base) / 16. An entry of a NEAR unit has 32 bits.
 *
 * A GRANULE is a place of 64 bytes (COARSE) or 16 bytes (FINE) in which one object at most starts. It has a bit in the
 * free bitmap of its slab, and in its foreign words. The number of a FINE granule is its entry.
 */
#ifndef TS_REGION_REGION_H
#define TS_REGION_REGION_H

#include "base/base.h"

#define TS_UNIT_SHIFT 14u
#define TS_UNIT_BYTES ((size_t)1 << TS_UNIT_SHIFT)
#define TS_UNIT_ENTRIES (TS_UNIT_BYTES / 16u) /* 1024 */
#define TS_ENTRY_UNIT_SHIFT 10u
/* Bits of the region's addresses, the highest of them a sign: a scope's bump word has room for these
   (ownership/block.h). */
#define TS_ADDRESS_BITS 52u
#define TS_PAGE_BYTES_MAX ((size_t)64 << 10) /* with larger pages initialisation fails */

#define TS_MAX_UNITS_LOG2 22u    /* 64 GiB, the NEAR units and each region: a handle has 22 bits for the unit */
#define TS_MAX_UNITS_LOG2_32 15u /* 512 MiB where addresses have 32 bits */
#define TS_MIN_UNITS_LOG2 9u     /* 8 MiB: below that initialisation fails */
#define TS_GRANULES_COARSE 256u  /* of a unit */
#define TS_GRANULES_FINE 1024u
_Static_assert((uint64_t)TS_GRANULES_FINE << TS_MAX_UNITS_LOG2 <= (uint64_t)1 << 32, "a granule's number has 32 bits");
#define TS_NEAR_UNITS ((uint32_t)1 << TS_MAX_UNITS_LOG2)
#define TS_UNITS_LOG2 29u /* the number of a NORMAL unit: 128 regions */
static inline bool ts_is_outer(uint32_t unit) { return TS_UNLIKELY(unit >= TS_NEAR_UNITS); }

/* Slabs, and single retained units, lie in the NORMAL part only. */
enum { TS_NORMAL, TS_FAR, TS_PARTS };

#define TS_FAR_SHIFT 20u
#define TS_FAR_UNITS_LOG2 23u /* 8 TiB */
#define TS_BEYOND_LOG2 44u    /* 16 TiB for OUTER and FAR units, halved until it fits: half of it is the FAR part's */
#define TS_FAR_LEAST_LOG2 16u /* 64 GiB, all of it the FAR part's; where not even that fits there is none */
#define TS_FAR_BYTES ((size_t)32 << 20) /* objects above it lie there */

/* Sizes of the records that the slab layer keeps per unit. slab.h asserts them. */
#define TS_SLAB_BYTES 128u
#define TS_FINE_BYTES 128u
#define TS_WIDE_BYTES 256u
#define TS_SCOPE_BITS_BYTES 512u
#define TS_CHUNK_NOTE_BYTES 12u /* of the note of a chunk of the lines; chunk.h asserts it */

/* A PIECE is a thirty-second of a unit that is cut. It has one foreign word of a scope slab, and half a word of each
   of its bitmaps. */
#define TS_PIECES 32u
#define TS_PIECE_BYTES (TS_UNIT_BYTES / TS_PIECES)
#define TS_PIECE_ENTRIES (TS_UNIT_ENTRIES / TS_PIECES)
#define TS_PIECE_RECORD_BYTES 64u

/* The group of units whose FINE metadata becomes accessible at once: 128 units (16 KiB of bitmaps, 256 KiB of
   generations) in the first 2 GiB, 1,024 units beyond. So core dumps show little that was never used, and a heap of any
   size has some thousand such mappings at most. */
#define TS_FINE_NEAR_UNITS ((uint32_t)1 << 17)
#define TS_FINE_NEAR_SHIFT 7u
#define TS_FINE_FAR_SHIFT 10u
#define TS_FINE_FAR_FIRST ((TS_FINE_NEAR_UNITS >> TS_FINE_NEAR_SHIFT) - (TS_FINE_NEAR_UNITS >> TS_FINE_FAR_SHIFT))
#define TS_GROUPS(units_log2) (TS_FINE_FAR_FIRST + ((uint32_t)1 << ((units_log2)-TS_FINE_FAR_SHIFT)))
#define TS_FINE_GROUPS TS_GROUPS(TS_UNITS_LOG2)
#define TS_PIECE_GROUPS TS_GROUPS(TS_MAX_UNITS_LOG2) /* only NEAR units are cut */
_Static_assert(TS_FINE_GROUPS % 64 == 0 && TS_PIECE_GROUPS % 64 == 0, "whole words of bits");
static inline uint32_t ts_fine_group(uint32_t unit) {
    return unit < TS_FINE_NEAR_UNITS ? unit >> TS_FINE_NEAR_SHIFT : TS_FINE_FAR_FIRST + (unit >> TS_FINE_FAR_SHIFT);
}

struct ts_run;

typedef struct ts_part {
    char *base;
    _Atomic uint64_t limit; /* the mark, in entries: an entry at or above it is out of range. Raised under the
                                   pool's grow lock, as `near` is */
    _Atomic uint64_t *unit; /* [entry >> 10] */
    _Atomic uint64_t *live; /* [entry >> 6] */
    uintptr_t live_at;      /* the same as an address, less the place of address 0: [address >> 10] */
    char *scope_bits;       /* [(entry >> 10) * TS_SCOPE_BITS_BYTES] */
    char *slab;             /* [(entry >> 10) * TS_SLAB_BYTES] */
    uint32_t first_unit;    /* 0; FAR: the number of NORMAL units, or UINT32_MAX: there is no FAR part */
    uint32_t units;
} ts_part;

typedef struct ts_region {
    /* Every operation reads the fields below. A processor holds a load back for an earlier store at the same offset
       of another page, until it knows both addresses whole (docs/decisions.md, "the end of a page"). So the fields
       lie at an offset at which threads write rarely: the first thread's share, written with each slab, begins at
       0xc80 of its page. */
    TS_ALIGNED(4096) char before[0x880];
    _Atomic uint64_t near; /* the mark of the NORMAL part as fast paths know it: NEAR units only. Beside their part */
    ts_part part[TS_PARTS];
    char *lines;          /* address of line 0 */
    uint32_t line_limit;  /* number of lines; guarded by the lines' lock after init */
    char *chunk;          /* [line / lines of a chunk * TS_CHUNK_NOTE_BYTES] */
    char *fine;           /* [unit * TS_FINE_BYTES] */
    char *wide;           /* [unit * TS_WIDE_BYTES] */
    uint32_t piece_units; /* units below this can be cut: NEAR ones, or one in 64 where the address space is limited */
    char *piece;          /* [piece * TS_PIECE_RECORD_BYTES] */
    _Atomic uint64_t *piece_word; /* [piece] */
    struct ts_run *run;           /* [global unit] */
    char *table[3];               /* reserved ranges of the tables, TS_TABLE_* */
    uint32_t table_capacity[3];
    _Atomic size_t reserved_bytes;       /* by both parts; this field and the next two fall when the region shrinks */
    _Atomic uint32_t part_end[TS_PARTS]; /* units of a part below it may be handed out */
    _Atomic size_t far_bytes;            /* larger objects are FAR: TS_FAR_BYTES (tests set less); SIZE_MAX: none is */
    size_t far_most_bytes;               /* the largest object, FAR or not (os/os.h) */
    _Atomic uint16_t *generation;        /* [entry] */
    /* A bit for each group; bits are only set. release: a thread that sees the bit can read the metadata of the
       group. */
    _Atomic uint64_t fine_groups[TS_FINE_GROUPS / 64], generation_groups[TS_FINE_GROUPS / 64],
        piece_groups[TS_PIECE_GROUPS / 64];
} ts_region_t;

enum { TS_TABLE_EPOCH = 0, TS_TABLE_DOMAIN = 1, TS_TABLE_ALLOCATOR = 2 };
#define TS_EPOCH_STRIDE 192u
#define TS_DOMAIN_STRIDE 128u
#define TS_ALLOCATOR_STRIDE 4096u
#define TS_MAX_ALLOCATORS 4096u

extern TS_HIDDEN ts_region_t ts_region;

/* Reserves the region. Caller has start_mutex (runtime.c). One call succeeds. max_units_log2: tests ask for a small
   region, which has no OUTER units and no FAR part. false: the system refused even the smallest region; the call may be
   repeated. */
bool ts_region_init(unsigned max_units_log2);
/* Address space of the smallest region. */
size_t ts_region_least_bytes(void);

/* Makes metadata accessible: `bytes` from `at`, widened to whole pages. Does not count it. */
bool ts_region_commit_metadata(void *at, size_t bytes);
/* Adds to ts_region_metadata_bytes. */
void ts_region_count_metadata(size_t bytes);
/* Bytes of metadata that are accessible. */
size_t ts_region_metadata_bytes(void);

/* Limits OUTER and FAR units together to this power of two of bytes; 0: there are none. Before ts_region_init. */
void ts_region_limit_beyond(unsigned bytes_log2);

/*
 * A smaller region. The part of a range between two places goes back to the system, in whole pages of 64 KiB. The
 * caller makes sure that it was never used, and never will be.
 */
void ts_region_release_tail(char *base, size_t from, size_t to);
/* Ends a part at unit `end`: the data of the units behind it go back, and so does their metadata above the mark.
   Caller: the only thread that raises this part's mark. None of these units is handed out. In the NORMAL part `end` is
   a multiple of TS_REGION_END_UNITS. */
void ts_region_release_units(unsigned part, uint32_t end);
#define TS_REGION_END_UNITS ((uint32_t)1 << TS_FINE_FAR_SHIFT) /* FINE and piece metadata goes back in whole groups */
/* Bytes that a NORMAL unit takes in all ranges together. */
size_t ts_region_unit_bytes(void);
/* Makes the metadata of a part's units below `end` accessible, and raises the mark to `end` or further. It goes in
   large steps, and makes no system call where the mark is there already. Caller: the only thread that raises this
   part's mark. false: the system refused; the mark is where it was. */
bool ts_region_raise(unsigned part, uint32_t end);
/* Makes the data of the units [first, first + count) of a part accessible. */
bool ts_region_commit_data(unsigned part, uint32_t first, uint32_t count);
/* Makes the FINE metadata of a unit accessible. false: the system has no memory for it. Any thread. It is one load
   where the metadata is accessible already. */
bool ts_region_commit_fine(uint32_t unit);
/* Whether the FINE metadata of a unit is accessible. acquire: partner of the release that sets the bit. */
static inline bool ts_region_has_fine(uint32_t unit) {
    uint32_t group = ts_fine_group(unit);
    return (ts_load_acquire(&ts_region.fine_groups[group / 64]) >> group % 64 & 1) != 0;
}
/* The same of the generations of a unit's slots. */
bool ts_region_commit_generations(uint32_t unit);
static inline bool ts_region_has_generations(uint32_t unit) {
    uint32_t group = ts_fine_group(unit);
    return (ts_load_acquire(&ts_region.generation_groups[group / 64]) >> group % 64 & 1) != 0;
}
static inline _Atomic uint16_t *ts_generation_word(uint64_t entry) { return &ts_region.generation[entry]; }
/* Makes the metadata of a unit's pieces accessible. false: there is no memory for it, or the unit cannot be cut. Any
   thread. */
bool ts_region_commit_pieces(uint32_t unit);
/* Units of a part that may be handed out. Those that are handed out count, too. */
static inline uint32_t ts_region_part_end(unsigned part) { return ts_load_relaxed(&ts_region.part_end[part]); }
/* Units of a part below its mark. acquire: their metadata is accessible. */
static inline uint32_t ts_region_marked_units(unsigned part);

/* Rotates by 4 bits: a place off the 16-byte grid, or outside of the part, becomes a number above every mark. */
TS_ALWAYS_INLINE uint64_t ts_entry_of(const ts_part *part, const void *p) {
    uint64_t o = (uint64_t)((uintptr_t)p - (uintptr_t)part->base);
    return (o >> 4) | (o << 60);
}
/* Whether an entry is below the part's mark. relaxed: "Why no access" above, case c. */
TS_ALWAYS_INLINE bool ts_is_in_part(const ts_part *part, uint64_t entry) {
    return !ts_is_at_most_relaxed_64(&part->limit, entry);
}
/* And in a NEAR unit. */
TS_ALWAYS_INLINE bool ts_is_near(uint64_t entry) { return !ts_is_at_most_relaxed_64(&ts_region.near, entry); }
TS_ALWAYS_INLINE char *ts_entry_address(const ts_part *part, uint64_t entry) { return part->base + entry * 16u; }

/* The granule of an entry, and the first entry of a granule. Conditional moves: calls of all sizes mix. */
TS_ALWAYS_INLINE uint64_t ts_granule(bool fine, uint64_t entry) { return fine ? entry : entry >> 2; }
TS_ALWAYS_INLINE uint64_t ts_granule_entry(bool fine, uint64_t granule) { return fine ? granule : granule << 2; }
TS_ALWAYS_INLINE unsigned ts_granules_per_unit(bool fine) { return fine ? TS_GRANULES_FINE : TS_GRANULES_COARSE; }

#define TS_LIVE_WORDS 16u /* of a unit */
#define TS_LIVE_SHIFT 6u  /* entries of a word */
TS_ALWAYS_INLINE _Atomic uint64_t *ts_live_word(uint64_t entry) {
    return &ts_region.part[TS_NORMAL].live[entry >> TS_LIVE_SHIFT];
}
static inline _Atomic uint64_t *ts_unit_live(uint32_t unit) {
    return &ts_region.part[TS_NORMAL].live[(size_t)unit * TS_LIVE_WORDS];
}
/* Whether a live object of a churn slab starts at the entry. acquire: partner of the release of a free. */
static inline bool ts_is_live(uint64_t entry) { return ts_has_bit(ts_load_acquire(ts_live_word(entry)), entry); }

/* Bytes of a unit, as a power of two. */
static inline unsigned ts_part_shift(unsigned part) { return part == TS_NORMAL ? TS_UNIT_SHIFT : TS_FAR_SHIFT; }
/* Low bits of an entry that name its place in the unit. */
static inline unsigned ts_part_entry_shift(unsigned part) { return ts_part_shift(part) - 4u; }
static inline uint32_t ts_region_marked_units(unsigned part) {
    return (uint32_t)(ts_load_acquire(&ts_region.part[part].limit) >> ts_part_entry_shift(part));
}
static inline unsigned ts_part_of_unit(uint32_t unit) {
    return TS_UNLIKELY(unit >= ts_region.part[TS_FAR].first_unit) ? TS_FAR : TS_NORMAL;
}
/* Bytes of a number of units of a part. */
static inline size_t ts_part_bytes(unsigned part, uint64_t units) { return (size_t)units << ts_part_shift(part); }
static inline bool ts_is_data_of(unsigned part, const void *p) {
    const ts_part *n = &ts_region.part[part];
    return (uintptr_t)p - (uintptr_t)n->base < ts_part_bytes(part, n->units);
}
/* Whether an address lies in the data of the region, below the mark or not. */
static inline bool ts_is_data(const void *p) { return ts_is_data_of(TS_NORMAL, p) || ts_is_data_of(TS_FAR, p); }
/* Whether any number is a unit below the mark of that part. */
static inline bool ts_is_unit_of(unsigned part, uint64_t in_part) { return in_part < ts_region_marked_units(part); }
static inline uint32_t ts_unit_in_part(uint32_t unit) {
    return unit - ts_region.part[ts_part_of_unit(unit)].first_unit;
}
/* The address of a unit that lies in that part. */
static inline char *ts_part_unit_address(unsigned part, uint32_t unit) {
    const ts_part *p = &ts_region.part[part];
    return p->base + ts_part_bytes(part, unit - p->first_unit);
}
static inline char *ts_unit_address(uint32_t unit) { return ts_part_unit_address(ts_part_of_unit(unit), unit); }
/* Bytes of `count` units that begin with this one. Their WEIGHT is the number of units of 16 KiB that they would be:
   all accounts count memory in it. */
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
/* Finds the unit of a place in the FAR part. Objects begin only at the first entry of a FAR unit. *entry is that
   entry for the beginning of a unit, and the next one for any other place. false: the place is not in the part, or
   off the grid. */
bool ts_locate_far(const void *p, uint32_t *unit, uint64_t *entry);
/* FAR units that have the weight of `units` units of 16 KiB, rounded up. */
static inline uint32_t ts_far_units(uint64_t units) {
    return (uint32_t)((units + ((uint64_t)1 << TS_FAR_WEIGHT_SHIFT) - 1) >> TS_FAR_WEIGHT_SHIFT);
}

/* The rest of this door: units without memory, lines, records of fixed size, and NUMA homes. */
#include "region/chunk.h"
#include "region/home.h"
#include "region/huge.h"
#include "region/lines.h"
#include "region/pool.h"
#include "region/table.h"

#endif
