#include "region/region.h"

#include "base/base.h"
#include "os/os.h"
#include "region/lines.h"
#include "region/pool.h"

ts_region_t ts_region;

static _Atomic size_t metadata_bytes; /* a sum; no order needed */

/* Every range begins on a page of the largest size, the data on 2 MiB for huge pages. */
#define RANGE_ALIGN TS_PAGE_BYTES_MAX
#define DATA_ALIGN ((size_t)2 << 20)
/* A unit's live words lie at 128 times its number. In a page these are the places of bins, blocks and of ts_region,
   and a store there holds their loads back (ts_region.before). So those of the first units lie behind the bins. */
#define LIVE_SKEW 3072u

/* The ranges that have something for each unit, in the order of their addresses. */
enum {
    DATA,
    WORDS, /* accessible below the mark of a part: WORDS to RUNS of both parts, to WIDE of the NORMAL part */
    SLABS,
    RUNS,
    SCOPE_BITS,
    LIVE,
    WIDE,
    FINE, /* accessible for a group of units: with the first FINE slab, the first HANDLED one, the first cut unit */
    GENERATIONS,
    PIECES,
    PIECE_WORDS,
    RANGES,
};
static const size_t unit_bytes[RANGES] = {
    [DATA] = TS_UNIT_BYTES,
    [WORDS] = sizeof(uint64_t),
    [SLABS] = TS_SLAB_BYTES,
    [RUNS] = sizeof(ts_run),
    [SCOPE_BITS] = TS_SCOPE_BITS_BYTES,
    [WIDE] = TS_WIDE_BYTES,
    [LIVE] = TS_LIVE_WORDS * sizeof(uint64_t),
    [FINE] = TS_FINE_BYTES,
    [GENERATIONS] = TS_UNIT_ENTRIES * sizeof(uint16_t),
    [PIECES] = (size_t)TS_PIECES * TS_PIECE_RECORD_BYTES,
    [PIECE_WORDS] = TS_PIECES * sizeof(uint64_t),
};
static char *range_base[RANGES]; /* of the NORMAL part; constant after ts_region_init */

static unsigned last_marked(unsigned part) { return part == TS_FAR ? RUNS : WIDE; }
static bool is_of_pieces(unsigned range) { return range >= PIECES; }

typedef struct layout {
    size_t range[RANGES], lines, chunk, table[3];
    uint32_t capacity[3];
    uint32_t units, piece_units, line_limit;
    size_t total;
} layout;

static size_t place_range(size_t *end, size_t bytes) {
    size_t at = ts_align_up(*end, RANGE_ALIGN);
    *end = at + bytes;
    return at;
}

/* Percent of the free address space that the region takes where the address space is limited. The rest is for the
   program: its libraries, and 8 MiB for each thread's stack. Half of the whole can be data then. */
#define TAKEN_OF_LIMITED 75u

/* The lines get a quarter of the data's size, or three sixteenths where the address space is limited. A thread's bins
   in an epoch take 4 KiB with the magazine of one size class, and 27 KiB with those of all. A thread has a unit
   for each class that it uses, so the lines suffice. There can be as many epochs as NORMAL units. OUTER units have
   neither: a line has 28 bits, and so many records are no limit in practice. */
static layout make_layout(uint32_t units, bool limited, uint32_t far_units) {
    layout l = {0};
    size_t end = limited ? 0 : DATA_ALIGN; /* nothing writable lies before the first object */
    l.units = units;
    uint32_t near = units < TS_NEAR_UNITS ? units : TS_NEAR_UNITS;
    uint32_t entries = (uint32_t)1 << ts_log2_64(near); /* of a table: a power of two, because ids are made with it */
    size_t data_bytes = (size_t)near * TS_UNIT_BYTES;
    l.piece_units = limited ? near / 64 : near;
    for (unsigned i = 0; i < RANGES; i++) {
        size_t has = is_of_pieces(i) ? l.piece_units : l.units;
        if (i >= WORDS && i <= last_marked(TS_FAR)) has += far_units;
        l.range[i] = place_range(&end, has * unit_bytes[i] + (i == LIVE ? LIVE_SKEW : 0));
        if (i == LIVE) l.range[i] += LIVE_SKEW;
    }
    size_t line_bytes = ts_align_down(limited ? data_bytes / 16 * 3 : data_bytes / 4, TS_LINES_CHUNK);
    if (line_bytes < (size_t)4 << 20) line_bytes = (size_t)4 << 20;
    l.line_limit = (uint32_t)(line_bytes / TS_CACHE_LINE);
    l.lines = place_range(&end, line_bytes);
    l.chunk = place_range(&end, line_bytes / TS_LINES_CHUNK * TS_CHUNK_NOTE_BYTES);
    l.capacity[TS_TABLE_EPOCH] = entries;
    l.capacity[TS_TABLE_DOMAIN] = entries;
    l.capacity[TS_TABLE_ALLOCATOR] = entries < TS_MAX_ALLOCATORS ? entries : TS_MAX_ALLOCATORS;
    l.table[TS_TABLE_EPOCH] = place_range(&end, (size_t)l.capacity[TS_TABLE_EPOCH] * TS_EPOCH_STRIDE);
    l.table[TS_TABLE_DOMAIN] = place_range(&end, (size_t)l.capacity[TS_TABLE_DOMAIN] * TS_DOMAIN_STRIDE);
    l.table[TS_TABLE_ALLOCATOR] = place_range(&end, (size_t)l.capacity[TS_TABLE_ALLOCATOR] * TS_ALLOCATOR_STRIDE);
    l.total = ts_align_up(end, DATA_ALIGN) + DATA_ALIGN;
    return l;
}

/* Whether a bump word has room for an address. */
static bool has_room_for(uintptr_t address) {
    uint64_t upper = (uint64_t)address >> (TS_ADDRESS_BITS - 1);
    return upper == 0 || upper == UINT64_MAX >> (TS_ADDRESS_BITS - 1);
}

/* NULL also where the system offers only addresses that are too long. */
static void *reserve_range(size_t bytes) {
    void *at = ts_os->reserve(bytes);
    if (!at || (has_room_for((uintptr_t)at) && has_room_for((uintptr_t)at + (bytes - 1)))) return at;
    ts_os->release(at, bytes);
    return NULL;
}

#define LEAST_UNITS ((uint32_t)1 << TS_MIN_UNITS_LOG2)

static bool is_room_left(size_t bytes) {
    void *at = ts_os->reserve(bytes);
    if (at) ts_os->release(at, bytes);
    return at != NULL;
}

size_t ts_region_least_bytes(void) { return make_layout(LEAST_UNITS, true, 0).total; }

/* The largest region that fits into its share of the free address space. There is room for `units` units, and for
   less than twice as many. */
static layout layout_of_limited(uint32_t units, uint32_t most_units) {
    size_t fits = make_layout(units, false, 0).total, most = make_layout(2 * units, false, 0).total;
    while (most - fits > most / 1024 && most - fits > 2 * TS_PAGE_BYTES_MAX) {
        size_t bytes = ts_align_down(fits + (most - fits) / 2, TS_PAGE_BYTES_MAX);
        *(is_room_left(bytes) ? &fits : &most) = bytes;
    }
    size_t share = fits / 100 * TAKEN_OF_LIMITED, per_unit = make_layout(2 * units, true, 0).total / (2 * units);
    units = (uint32_t)ts_align_down(share / per_unit, 64);
    if (units > most_units) units = most_units;
    return make_layout(units > LEAST_UNITS ? units : LEAST_UNITS, true, 0);
}

/* ---- OUTER units and the FAR part -------------------------------------------------------------------------- */

static unsigned beyond_log2 = TS_BEYOND_LOG2; /* written before ts_region_init */

void ts_region_limit_beyond(unsigned bytes_log2) {
    if (bytes_log2 < beyond_log2) beyond_log2 = bytes_log2;
}

typedef struct far_range {
    char *at;
    size_t bytes;
    uint32_t units; /* 0: there is none */
    uint32_t outer; /* OUTER units, which the other range has room for */
} far_range;

static void release_far(far_range *far) {
    if (far->at) ts_os->release(far->at, far->bytes);
    *far = (far_range){0};
}

/* OUTER units that fit in so many bytes with what they have in the tables, in whole regions. Pieces they have not. */
static uint32_t outer_within(uint64_t bytes) {
    uint64_t each = 0;
    for (unsigned i = 0; i < RANGES; i++) each += is_of_pieces(i) ? 0 : unit_bytes[i];
    return (uint32_t)ts_align_down(bytes / each, TS_NEAR_UNITS);
}

/* The largest power of two for both that leaves the program as much address space as they take. Half of it stays
   reserved for the FAR part, and the region takes the other half; or it is all the FAR part's, if no region of OUTER
   units fits in. */
static far_range reserve_far(void) {
    far_range far = {0};
    if (sizeof(void *) < 8) return far;
    for (unsigned log2 = beyond_log2; log2 >= TS_FAR_LEAST_LOG2 + TS_FAR_SHIFT; log2--) {
        size_t bytes = (size_t)((uint64_t)1 << log2);
        far.bytes = bytes + DATA_ALIGN;
        far.at = ts_os->reserve(far.bytes);
        if (far.at && is_room_left(far.bytes)) {
            far.outer = outer_within(bytes / 2);
            if (far.outer != 0) {
                ts_os->release(far.at + bytes / 2 + DATA_ALIGN, bytes / 2);
                far.bytes -= bytes / 2;
            }
            far.units = (uint32_t)((far.bytes - DATA_ALIGN) >> TS_FAR_SHIFT);
            return far;
        }
        release_far(&far);
    }
    return far;
}

static void set_far(const far_range *far) {
    ts_part *n = &ts_region.part[TS_NORMAL], *f = &ts_region.part[TS_FAR];
    ts_store_relaxed(&ts_region.far_bytes, far->units ? TS_FAR_BYTES : SIZE_MAX);
    ts_store_relaxed(&ts_region.part_end[TS_FAR], far->units);
    ts_region.far_most_bytes = ts_os_most_bytes();
    f->first_unit = far->units ? n->units : UINT32_MAX;
    f->units = far->units;
    if (far->units == 0) return;
    f->base = (char *)(uintptr_t)ts_align_up((uintptr_t)far->at, DATA_ALIGN);
    f->unit = n->unit + n->units;
    f->slab = n->slab + (size_t)n->units * TS_SLAB_BYTES;
    ts_store_relaxed(&ts_region.reserved_bytes, ts_load_relaxed(&ts_region.reserved_bytes) + far->bytes);
}

bool ts_region_init(unsigned max_units_log2) {
    void *at = NULL;
    layout l = {0};
    if (ts_os_page_bytes() > TS_PAGE_BYTES_MAX) return false;
    if (sizeof(void *) < 8 && max_units_log2 > TS_MAX_UNITS_LOG2_32) max_units_log2 = TS_MAX_UNITS_LOG2_32;
    unsigned log2 = max_units_log2;
    far_range far = {0};
    if (max_units_log2 == TS_MAX_UNITS_LOG2) far = reserve_far();
    for (;; log2--) {
        if (log2 < TS_MIN_UNITS_LOG2) return false;
        l = make_layout(((uint32_t)1 << log2) + far.outer, false, far.units);
        at = reserve_range(l.total);
        if (at) break;
        release_far(&far);
    }
    /* Where the system limits the address space, a region that just fits would leave nothing for the program. */
    bool fits_whole = log2 == max_units_log2;
    if (log2 > TS_MIN_UNITS_LOG2 && (!fits_whole || !is_room_left(l.total / 4))) {
        ts_os->release(at, l.total);
        release_far(&far);
        l = layout_of_limited((uint32_t)1 << log2, (uint32_t)1 << max_units_log2);
        at = reserve_range(l.total);
        if (!at) return false;
    }
    char *base = (char *)(uintptr_t)ts_align_up((uintptr_t)at, DATA_ALIGN);
    ts_part *n = &ts_region.part[TS_NORMAL];
    for (unsigned i = 0; i < RANGES; i++) range_base[i] = base + l.range[i];
    n->base = range_base[DATA];
    n->scope_bits = range_base[SCOPE_BITS];
    n->live = (_Atomic uint64_t *)(void *)range_base[LIVE];
    n->live_at = (uintptr_t)n->live - ((uintptr_t)n->base >> 10) * 8;
    ts_region.generation = (_Atomic uint16_t *)(void *)range_base[GENERATIONS];
    n->unit = (_Atomic uint64_t *)(void *)range_base[WORDS];
    n->slab = range_base[SLABS];
    n->units = l.units;
    ts_region.lines = base + l.lines;
    ts_region.line_limit = l.line_limit;
    ts_region.chunk = base + l.chunk;
    ts_region.fine = range_base[FINE];
    ts_region.wide = range_base[WIDE];
    ts_region.piece_units = l.piece_units;
    ts_region.piece = range_base[PIECES];
    ts_region.piece_word = (_Atomic uint64_t *)(void *)range_base[PIECE_WORDS];
    ts_region.run = (ts_run *)(void *)range_base[RUNS];
    for (int i = 0; i < 3; i++) {
        ts_region.table[i] = base + l.table[i];
        ts_region.table_capacity[i] = l.capacity[i];
    }
    ts_store_relaxed(&ts_region.reserved_bytes, l.total);
    ts_store_relaxed(&ts_region.part_end[TS_NORMAL], l.units);
    set_far(&far);
    return true;
}

bool ts_region_commit_metadata(void *at, size_t bytes) {
    size_t page = ts_os_page_bytes();
    uintptr_t from = (uintptr_t)ts_align_down((uintptr_t)at, page);
    uintptr_t to = (uintptr_t)ts_align_up((uintptr_t)at + bytes, page);
    return ts_os->commit((void *)from, to - from);
}

/* A range of a part, from its unit `first` on. */
static char *range_at(unsigned part, unsigned range, size_t first) {
    return range_base[range] + (ts_region.part[part].first_unit + first) * unit_bytes[range];
}

static bool commit_range(unsigned part, unsigned range, size_t first, size_t count) {
    return ts_region_commit_metadata(range_at(part, range, first), count * unit_bytes[range]);
}

void ts_region_count_metadata(size_t bytes) { ts_fetch_add_relaxed(&metadata_bytes, bytes); }

size_t ts_region_metadata_bytes(void) { return ts_load_relaxed(&metadata_bytes); }

/* Units whose metadata becomes accessible at once: 32 MiB of data have 2.1 MiB of metadata. As much of a core dump
   can be metadata of units that were never used. */
static const uint32_t raise_units[TS_PARTS] = {2048, 1024};

static bool raise_to(unsigned part, uint32_t from, uint32_t to) {
    size_t metadata = 0;
    /* A failure leaves accessible metadata above the mark. The next call makes it accessible once more. */
    for (unsigned i = WORDS; i <= last_marked(part); i++) {
        if (!commit_range(part, i, from, to - from)) return false;
        metadata += (to - from) * unit_bytes[i];
    }
    ts_region_count_metadata(metadata);
    /* release: a thread that finds the mark above a unit may read its metadata ("Why no access" in region.h) */
    uint64_t mark = (uint64_t)to << ts_part_entry_shift(part);
    const uint64_t near = (uint64_t)TS_NEAR_UNITS * TS_UNIT_ENTRIES;
    if (part == TS_NORMAL) ts_store_release(&ts_region.near, mark < near ? mark : near);
    ts_store_release(&ts_region.part[part].limit, mark);
    return true;
}

bool ts_region_raise(unsigned part, uint32_t end) {
    ts_part *p = &ts_region.part[part];
    /* relaxed: only this thread writes it */
    uint32_t from = (uint32_t)(ts_load_relaxed(&p->limit) >> ts_part_entry_shift(part));
    ts_assert(1, end <= ts_region_part_end(part));
    if (end <= from) return true;
    uint64_t to = ts_align_up(end, raise_units[part]);
    if (to > ts_region_part_end(part)) to = ts_region_part_end(part);
    /* A system short of memory may still have enough for these units. */
    return raise_to(part, from, (uint32_t)to) || (to > end && raise_to(part, from, end));
}

bool ts_region_commit_data(unsigned part, uint32_t first, uint32_t count) {
    const ts_part *p = &ts_region.part[part];
    ts_assert(1, (uint64_t)first + count <= p->units);
    return ts_region_commit_metadata(p->base + ts_part_bytes(part, first), ts_part_bytes(part, count));
}

/* Makes a range of metadata, or both of pieces, accessible for the group of a unit, up to unit `limit`. Several
   threads may do this for one group at once, which does no harm. The thread that sets the bit counts the bytes. */
static bool commit_group(uint32_t unit, uint32_t limit, unsigned range, _Atomic uint64_t *groups) {
    uint32_t group = ts_fine_group(unit);
    uint32_t units = (uint32_t)1 << (unit < TS_FINE_NEAR_UNITS ? TS_FINE_NEAR_SHIFT : TS_FINE_FAR_SHIFT);
    size_t first = ts_align_down(unit, units), count = limit - first < units ? limit - first : units;
    uint64_t bit = (uint64_t)1 << group % 64;
    /* acquire: partner of the release below */
    if (ts_load_acquire(&groups[group / 64]) & bit) return true;
    if (!commit_range(TS_NORMAL, range, first, count) ||
        (is_of_pieces(range) && !commit_range(TS_NORMAL, range + 1, first, count)))
        return false;
    /* release: a thread that sees the bit can read the metadata of the group */
    if (!(atomic_fetch_or_explicit(&groups[group / 64], bit, memory_order_release) & bit))
        ts_region_count_metadata(count * (unit_bytes[range] + (is_of_pieces(range) ? unit_bytes[range + 1] : 0)));
    return true;
}

bool ts_region_commit_fine(uint32_t unit) {
    if (TS_LIKELY(ts_region_has_fine(unit))) return true;
    return commit_group(unit, ts_region.part[TS_NORMAL].units, FINE, ts_region.fine_groups);
}

bool ts_region_commit_generations(uint32_t unit) {
    if (TS_LIKELY(ts_region_has_generations(unit))) return true;
    return commit_group(unit, ts_region.part[TS_NORMAL].units, GENERATIONS, ts_region.generation_groups);
}

bool ts_region_commit_pieces(uint32_t unit) {
    return unit < ts_region.piece_units && commit_group(unit, ts_region.piece_units, PIECES, ts_region.piece_groups);
}

bool ts_locate_far(const void *p, uint32_t *unit, uint64_t *entry) {
    const ts_part *r = &ts_region.part[TS_FAR];
    uint64_t e = ts_entry_of(r, p);
    unsigned shift = ts_part_entry_shift(TS_FAR);
    if (!ts_is_in_part(r, e)) return false;
    *unit = r->first_unit + (uint32_t)(e >> shift);
    *entry = (uint64_t)*unit * TS_UNIT_ENTRIES + ((e & (((uint64_t)1 << shift) - 1)) != 0);
    return true;
}

/* ---- a smaller region ------------------------------------------------------------------------------------ */

/* Only whole pages of the largest size go back, so that the rest can be made accessible to its end. */
void ts_region_release_tail(char *base, size_t from, size_t to) {
    uintptr_t first = (uintptr_t)ts_align_up((uintptr_t)base + from, TS_PAGE_BYTES_MAX);
    uintptr_t end = (uintptr_t)ts_align_down((uintptr_t)base + to, TS_PAGE_BYTES_MAX);
    if (first >= end) return;
    ts_os->release((void *)first, end - first);
    ts_store_relaxed(&ts_region.reserved_bytes, ts_load_relaxed(&ts_region.reserved_bytes) - (end - first));
}

size_t ts_region_unit_bytes(void) {
    size_t bytes = 0;
    for (unsigned i = 0; i < RANGES; i++) bytes += unit_bytes[i];
    return bytes;
}

void ts_region_release_units(unsigned part, uint32_t end) {
    uint32_t before = ts_region_part_end(part), marked = ts_region_marked_units(part);
    if (end >= before) return;
    ts_store_relaxed(&ts_region.part_end[part], end);
    ts_region_release_tail(ts_region.part[part].base, ts_part_bytes(part, end), ts_part_bytes(part, before));
    for (unsigned i = WORDS; i <= (part == TS_FAR ? last_marked(part) : RANGES - 1); i++) {
        /* Metadata below the mark stays. What lies above it and behind `before` went back in an earlier call. */
        uint32_t least = i <= last_marked(part) ? marked : 0, most = is_of_pieces(i) ? ts_region.piece_units : before;
        size_t from = end > least ? end : least, to = before > least ? before : least;
        if (to > most && is_of_pieces(i)) to = most;
        if (from < to) ts_region_release_tail(range_at(part, i, 0), from * unit_bytes[i], to * unit_bytes[i]);
    }
}
