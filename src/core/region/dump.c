#include "region/dump.h"

#include "os/os.h"

/* The last units that the pool grew by may never have been used. So the choice reaches this many units beyond those
   that come back. */
#define NEVER_USED (2 * TS_DUMP_UNITS)

_Atomic uint64_t ts_dump_hidden[TS_SLAB_PARTS][TS_DUMP_WORDS];

void ts_dump_init(void) {
    for (unsigned part = 0; part < TS_SLAB_PARTS; part++)
        for (size_t i = 0; i < TS_DUMP_WORDS; i++) ts_store_relaxed(&ts_dump_hidden[part][i], 0);
}

unsigned ts_dump_runs(unsigned part) {
    unsigned runs = 0;
    uint64_t before = 0; /* the last bit of the word before */
    for (size_t i = 0; i < TS_DUMP_WORDS; i++) {
        uint64_t bits = ts_load_relaxed(&ts_dump_hidden[part][i]);
        runs += ts_popcount64(bits & ~(bits << 1 | before));
        before = bits >> 63;
    }
    return runs;
}

bool ts_dump_choose(unsigned part, uint32_t first, uint32_t count, uint32_t *from, uint32_t *end) {
    uint64_t low = ts_align_down(first, TS_DUMP_UNITS), high = ts_align_up((uint64_t)first + count, TS_DUMP_UNITS);
    low = low < NEVER_USED ? 0 : low - NEVER_USED;
    high += NEVER_USED;
    if (low < *from) low = ts_align_up(*from - (*from == 1), TS_DUMP_UNITS); /* nobody has unit 0 */
    if (high > *end) high = ts_align_down(*end, TS_DUMP_UNITS);
    while (low < high && ts_dump_is_hidden(part, (uint32_t)low)) low += TS_DUMP_UNITS;
    while (low < high && ts_dump_is_hidden(part, (uint32_t)high - 1)) high -= TS_DUMP_UNITS;
    if (low >= high) return false;
    if (low == 0) low = 1;
    *from = (uint32_t)low;
    *end = (uint32_t)high;
    bool beside = (low > 1 && ts_dump_is_hidden(part, (uint32_t)low - 1)) ||
                  (high < ts_region.part[part].units && ts_dump_is_hidden(part, (uint32_t)high));
    return beside || ts_dump_runs(part) < TS_DUMP_RUNS;
}

/* Hides the whole pages within the range, or shows all pages that it touches. */
static void advise_range(const void *at, size_t bytes, bool on) {
    size_t page = ts_os_page_bytes();
    uintptr_t from = (uintptr_t)at, to = from + bytes;
    from = (uintptr_t)(on ? ts_align_down(from, page) : ts_align_up(from, page));
    to = (uintptr_t)(on ? ts_align_up(to, page) : ts_align_down(to, page));
    if (from < to) ts_os->dump((void *)from, to - from, on);
}

/* The FINE metadata of these units, where it is accessible. */
static void advise_fine(uint32_t from, uint32_t end, bool on) {
    const size_t states = TS_STATES_FINE * sizeof(uint16_t);
    for (uint32_t unit = from; unit < end;) {
        uint32_t first = unit;
        bool has = ts_region_has_fine(first);
        while (unit < end && ts_region_has_fine(unit) == has)
            unit = (unit | (((uint32_t)1 << TS_FINE_NEAR_SHIFT) - 1)) + 1;
        size_t count = (unit < end ? unit : end) - first;
        if (!has) continue;
        advise_range((const char *)(uintptr_t)ts_unit_states(first, true), count * states, on);
        advise_range(ts_region.fine + (size_t)first * TS_FINE_BYTES, count * TS_FINE_BYTES, on);
    }
}

static void advise_units(unsigned part, uint32_t from, uint32_t end, bool on) {
    const ts_part *p = &ts_region.part[part];
    const size_t coarse = TS_STATES_COARSE * sizeof(uint16_t);
    size_t first = from, count = end - from;
    advise_range(p->base + first * TS_UNIT_BYTES, count * TS_UNIT_BYTES, on);
    advise_range((const char *)(uintptr_t)p->state[false] + first * coarse, count * coarse, on);
    advise_range(p->slab + first * TS_SLAB_BYTES, count * TS_SLAB_BYTES, on);
    advise_range(ts_region.wide + first * TS_WIDE_BYTES, count * TS_WIDE_BYTES, on);
    advise_fine(from, end, on);
}

static void mark_hidden(unsigned part, uint32_t from, uint32_t end, bool hidden) {
    for (uint32_t huge = from >> TS_DUMP_SHIFT; huge < end >> TS_DUMP_SHIFT; huge++) {
        _Atomic uint64_t *word = &ts_dump_hidden[part][huge / 64];
        uint64_t bit = (uint64_t)1 << huge % 64;
        if (hidden)
            (void)atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
        else
            (void)atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed);
    }
}

void ts_dump_hide(unsigned part, uint32_t from, uint32_t end) {
    mark_hidden(part, from, end, true);
    advise_units(part, from, end, false);
}

void ts_dump_show(unsigned part, uint32_t first, uint32_t count) {
    uint32_t from = first & ~(TS_DUMP_UNITS - 1);
    uint32_t end = (uint32_t)ts_align_up((uint64_t)first + count, TS_DUMP_UNITS);
    while (from < end && !ts_dump_is_hidden(part, from)) from += TS_DUMP_UNITS;
    while (from < end && !ts_dump_is_hidden(part, end - 1)) end -= TS_DUMP_UNITS;
    if (from >= end) return;
    advise_units(part, from, end, true);
    mark_hidden(part, from, end, false);
}
