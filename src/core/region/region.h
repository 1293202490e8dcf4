/*
 * The region: one reservation of address space for the whole process, made once, never given back.
 *
 *     data      units of 16 KiB, in two parts:
 *               part NORMAL  slabs with 64-byte granules, scope slabs, spans
 *               part SMALL   slabs with 16-byte granules, for the classes below 64 bytes
 *     state     per unit: one 16-bit word for each granule (512 bytes NORMAL, 2 KiB SMALL)
 *     unit      per unit: the UNIT word, who owns it (slab/slab.h)
 *     slab      per unit: the slab's own record, 128 bytes
 *     small     per SMALL unit: the bitmaps that do not fit in the slab's record
 *     scope     per NORMAL unit: the foreign words of a scope slab
 *     run       per unit: free runs of the pool (pool.h)
 *     lines     what is addressed by a line number: heaps, blocks, bins, magazines (lines.h)
 *     chunk     per 4 KiB of the lines: a note (chunk.h)
 *     tables    epochs, domains, allocators (table.h)
 *
 * Invariants
 *  1. Everything is reserved without access and made accessible in large steps, so that it works where the
 *     system counts every accessible byte (strict overcommit), and so that a core dump or mlockall meets
 *     nothing that was never used. Nothing is ever unmapped.
 *  2. A part has a MARK, `limit`, which only rises. The metadata of the units below it is accessible, for ever after;
 *     that of the units above it is not even readable. The data of a unit is accessible once the pool has it.
 *  3. Whoever was given a place (an address, a handle) by the program compares it with the mark first, and refuses what is
 *     at or above it: "not ours", without an access.
 *  4. Unit 0 of each part is never handed out: entry 0 means "none".
 *  5. All other fields of ts_region are constant after ts_region_init; marks are 0 before, so that every address
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
 * An ENTRY names a 16-byte place in a part: (address - part base) / 16, 32 bits.
 *
 * A GRANULE has a number, by which its state word and its bits in the bitmaps of a slab are found. In part SMALL it is the
 * entry. The 256 granules of a NORMAL unit are counted from the even places first: the one in place 2i is number i, the one
 * in 2i + 1 number 128 + i. Objects of 128 bytes, and of every other multiple, begin in even places only: half as many lines
 * of state words are touched for as many objects, and a word of the free bitmap has twice as many of them.
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
    52u /* of the region's addresses, the highest of them a sign: what a scope's bump word has (heap/types.h) */
#define TS_PAGE_BYTES_MAX ((size_t)64 << 10) /* with larger pages initialisation fails */

#define TS_MAX_UNITS_LOG2 22u    /* 64 GiB: the slab id of a handle has 22 bits */
#define TS_MAX_UNITS_LOG2_32 15u /* 512 MiB where addresses have 32 bits */
#define TS_MIN_UNITS_LOG2 9u     /* 8 MiB: below that initialisation fails */
#define TS_STATES_NORMAL 256u
#define TS_STATES_SMALL 1024u

enum { TS_NORMAL = 0, TS_SMALL = 1, TS_PARTS = 2 };

/* Sizes of the records that the slab layer keeps per unit; it asserts that they are these. */
#define TS_SLAB_BYTES 128u
#define TS_SMALL_BYTES 384u
#define TS_SCOPE_BYTES 256u
#define TS_CHUNK_NOTE_BYTES 12u /* and what is kept per chunk of the lines */

struct ts_run;

typedef struct ts_part {
    char *base;
    _Atomic uint64_t
        limit; /* the mark, in entries: one at or above it is out of range. Raised by who has the pool's grow lock */
    _Atomic uint16_t *state; /* [granule] */
    _Atomic uint64_t *unit;  /* [entry >> 10] */
    char *slab;              /* [(entry >> 10) * TS_SLAB_BYTES] */
    uintptr_t
        state_bias; /* address of a granule's state word = this + 2 * (address >> granule bits, counted as above) */
    uint32_t first_unit; /* global number of the part's unit 0 */
    uint32_t units;
} ts_part;

typedef struct ts_region {
    /* Every operation reads what follows, so it lies where a thread's records are not written all the time: a load is held back for a
       store before it to the same place of another page, until the whole of both addresses is known (docs/architecture.md, "the end
       of a page"). The first thread's share, whose lists and counters change with each slab, is at 0xc80 of its page and on. */
    TS_ALIGNED(4096) char before[0x880];
    ts_part part[TS_PARTS];
    char *lines;         /* address of line 0 */
    uint32_t line_limit; /* lines there are */
    char *chunk;         /* [line / lines of a chunk * TS_CHUNK_NOTE_BYTES] */
    char *small;         /* [SMALL unit * TS_SMALL_BYTES] */
    char *scope;         /* [NORMAL unit * TS_SCOPE_BYTES] */
    struct ts_run *run;  /* [global unit] */
    char *table[3];      /* reserved ranges of the tables, TS_TABLE_* */
    uint32_t table_capacity[3];
    size_t reserved_bytes;
} ts_region_t;

enum { TS_TABLE_EPOCH = 0, TS_TABLE_DOMAIN = 1, TS_TABLE_ALLOCATOR = 2 };
#define TS_EPOCH_STRIDE 256u
#define TS_DOMAIN_STRIDE 128u
#define TS_ALLOCATOR_STRIDE 4096u
#define TS_MAX_ALLOCATORS 4096u

extern TS_HIDDEN ts_region_t ts_region;

/* Reserves; called under start_mutex (runtime.c), once if it succeeds. max_units_log2: for tests that want a small region.
   false: not even the minimum could be had; may be called again. */
bool ts_region_init(unsigned max_units_log2);
/* Address space of the smallest region. */
size_t ts_region_least_bytes(void);

/* Makes metadata accessible: bytes from at, widened to pages; and counts bytes that are. */
bool ts_region_commit_metadata(void *at, size_t bytes);
void ts_region_count_metadata(size_t bytes);
/* Bytes of metadata that are accessible. */
size_t ts_region_metadata_bytes(void);

/* Makes the metadata of a part's units below `end` accessible, and raises the mark so far at least. In large steps: it is no
   system call where the mark is there already. Caller: the only one who raises this part's mark. false: the system refused; the
   mark is where it was. */
bool ts_region_raise(unsigned part, uint32_t end);
/* Makes the data of the units [first, first + count) of a part accessible. */
bool ts_region_commit_data(unsigned part, uint32_t first, uint32_t count);
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

/* Granule of a place, in granules (64 bytes NORMAL, 16 bytes SMALL) from any multiple of a unit; of an entry; and the first
   entry of a granule. */
TS_ALWAYS_INLINE uint64_t ts_granule_in(unsigned part, uint64_t place) {
    return part == TS_NORMAL ? ts_ror_low_byte(place) : place;
}
TS_ALWAYS_INLINE uint64_t ts_granule(unsigned part, uint64_t entry) {
    return ts_granule_in(part, part == TS_NORMAL ? entry >> 2 : entry);
}
TS_ALWAYS_INLINE uint64_t ts_granule_entry(unsigned part, uint64_t granule) {
    return part == TS_NORMAL ? ts_rol_low_byte(granule) << 2 : granule;
}
TS_ALWAYS_INLINE unsigned ts_granules_per_unit(unsigned part) {
    return part == TS_NORMAL ? TS_STATES_NORMAL : TS_STATES_SMALL;
}

/* From one granule of a word of 64 to the next: in part NORMAL those of a word are all in even places, or all in odd ones. */
#define TS_WORD_STRIDE(part) ((part) == TS_NORMAL ? 128u : 16u)

static inline uint32_t ts_region_marked_units(unsigned part) {
    return (uint32_t)(ts_load_acquire(&ts_region.part[part].limit) >> TS_ENTRY_UNIT_SHIFT);
}
static inline unsigned ts_part_of_unit(uint32_t unit) { return unit >= ts_region.part[TS_SMALL].first_unit; }
static inline unsigned ts_part_of_object(const void *p) { return (const char *)p >= ts_region.part[TS_SMALL].base; }
/* Whether an address lies in the data of the region, used ever or not. */
static inline bool ts_is_data(const void *p) {
    const ts_part *n = &ts_region.part[TS_NORMAL], *s = &ts_region.part[TS_SMALL];
    return (uintptr_t)p - (uintptr_t)n->base < ((size_t)n->units + s->units) * TS_UNIT_BYTES;
}
/* Whether a number, whatever it is, is that of a unit below the mark of its part. */
static inline bool ts_is_unit(uint64_t unit) {
    unsigned part = unit >= ts_region.part[TS_SMALL].first_unit;
    return unit - ts_region.part[part].first_unit < ts_region_marked_units(part);
}
static inline uint32_t ts_unit_in_part(uint32_t unit) {
    return unit - ts_region.part[ts_part_of_unit(unit)].first_unit;
}
static inline char *ts_unit_address(uint32_t unit) {
    const ts_part *p = &ts_region.part[ts_part_of_unit(unit)];
    return p->base + (size_t)(unit - p->first_unit) * TS_UNIT_BYTES;
}

#endif
