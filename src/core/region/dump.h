/*
 * Core dumps leave out free units, in whole huge pages (home.h). A dump by the kernel or by gcore writes every page
 * that can be read, even one without memory. Without this a dump after a burst would be as large as the burst.
 *
 * A huge page is HIDDEN while dumps leave it out: its data, state words, slab records, foreign words and FINE
 * bitmaps. The UNIT words stay shown, so a debugger sees in a dump that the units belong to nobody.
 *
 * Invariants
 *  1. A huge page is hidden only while all of its units are free. The thread that hides it has all of them in its hands
 *     meanwhile, so no other thread hides or shows it.
 *  2. A thread that gets a unit of a hidden huge page shows the huge page before it uses the unit or gives it back.
 *     Several threads may do so at once, and showing twice does no harm. None of them has given its unit back yet, so
 *     no thread hides the huge page at that moment.
 *  3. The bit of a huge page is cleared after it was shown. A fork may leave the bit set for one that a vanished
 *     thread was showing: then the next user shows it.
 *  4. Hidden huge pages lie in at most TS_DUMP_RUNS runs, because each run is a mapping of its own in each of six
 *     tables. Beyond that number only huge pages beside hidden ones are hidden.
 * FINE metadata that becomes accessible while its huge page is hidden stays shown until the huge page was in use
 * again. FAR units do not take part: they are accessible only while they are handed out (pool.h).
 */
#ifndef TS_REGION_DUMP_H
#define TS_REGION_DUMP_H

#include "region/region.h"

#define TS_DUMP_SHIFT 7u /* 128 units */
#define TS_DUMP_UNITS (1u << TS_DUMP_SHIFT)
#define TS_DUMP_RUNS 64u
#define TS_DUMP_WORDS (((size_t)1 << TS_MAX_UNITS_LOG2) / TS_DUMP_UNITS / 64)

/* [part][huge page / 64]: a bit for each huge page. The thread that hides or shows a huge page changes its bit; other
   threads change the other bits of the word. relaxed: units pass by the pool's lock, or by a cell's release and
   acquire. */
extern TS_HIDDEN _Atomic uint64_t ts_dump_hidden[TS_SLAB_PARTS][TS_DUMP_WORDS];

/* Sets up: nothing is hidden. */
void ts_dump_init(void);
/* Chooses the huge pages to hide after the units [first, first + count) came back. Candidates are those that these
   units lie in, and two more at either end, as far as they lie in the free run [*from, *end). [*from, *end) becomes
   the range to hide: from the first to the last candidate that is not hidden. Unit 0, which nobody has, is hidden
   with its huge page. false: there is nothing to hide. Caller has the pool's lock. */
bool ts_dump_choose(unsigned part, uint32_t first, uint32_t count, uint32_t *from, uint32_t *end);
/* Hides whole huge pages. Caller has all of their units in its hands, and no lock. */
void ts_dump_hide(unsigned part, uint32_t from, uint32_t end);
/* Shows the huge pages of these units, as far as they are hidden. Caller has the units in its hands. */
void ts_dump_show(unsigned part, uint32_t first, uint32_t count);
/* Runs of hidden huge pages in a part. */
unsigned ts_dump_runs(unsigned part);

static inline bool ts_dump_is_hidden(unsigned part, uint32_t unit) {
    uint32_t huge = unit >> TS_DUMP_SHIFT;
    return (ts_load_relaxed(&ts_dump_hidden[part][huge / 64]) >> huge % 64 & 1) != 0;
}
/* Shows units (numbered within the part) that the caller has just taken. */
static inline void ts_dump_use(unsigned part, uint32_t first, uint32_t count) {
    if (TS_UNLIKELY(count > 1 || ts_dump_is_hidden(part, first))) ts_dump_show(part, first, count);
}

#endif
