/*
 * What a core dump leaves out: pages of free units, in blocks of 2 MiB. A dump (the kernel's, or gcore's) counts and writes every page
 * that can be read, also one without memory; so where a burst has ended it would be as large as the burst.
 *
 * Invariants
 *  1. A block is HIDDEN only while all of its units are free. Who hides it has all of them in his hands meanwhile, and so nobody else
 *     hides or shows it.
 *  2. Who is handed a unit of a hidden block shows the block before he uses or gives back the unit. Several may do so at once: to
 *     show it twice is to show it. None of them has given his unit back, so nobody hides it at that moment.
 *  3. The bit of a block is cleared after it was shown. In a child of a fork the bit of one that a vanished thread was showing is
 *     still set: the next user shows it.
 *  4. Hidden blocks lie in so many runs, as each is a mapping of its own in each of six tables: TS_DUMP_RUNS. Beyond that only blocks
 *     beside hidden ones are hidden.
 * What FINE slabs need of a block that was hidden before it became accessible stays shown until the block has been used again.
 * FAR units are not its business: they are accessible while they are handed out (pool.h).
 * Hidden are the data, the state words, the slabs' records, the foreign words of scope slabs and FINE ones and the bitmaps of FINE ones. The UNIT
 * words are not: a debugger sees in a dump that the units are nobody's.
 */
#ifndef TS_REGION_DUMP_H
#define TS_REGION_DUMP_H

#include "region/region.h"

#define TS_DUMP_SHIFT 7u /* 128 units */
#define TS_DUMP_UNITS (1u << TS_DUMP_SHIFT)
#define TS_DUMP_RUNS 64u
#define TS_DUMP_WORDS (((size_t)1 << TS_MAX_UNITS_LOG2) / TS_DUMP_UNITS / 64)

/* [part][block / 64]: a bit for each block. The bit of a block whose units are free changes in the hands of who hides it, that of
   another in those of who shows it; words are shared. relaxed: units come by the pool's lock, or a cell's release and acquire. */
extern TS_HIDDEN _Atomic uint64_t ts_dump_hidden[TS_SLAB_PARTS][TS_DUMP_WORDS];

/* Nothing is hidden. */
void ts_dump_init(void);
/* Of the blocks that units [first, first + count) of a part lie in, and two at either end, those in the free run [*from, *end):
   [*from, *end) becomes what is to be hidden, from the first block to the last that is not. Unit 0 goes with its block and in nobody's
   hands. false: nothing is to be hidden. Caller has the pool's lock. */
bool ts_dump_choose(unsigned part, uint32_t first, uint32_t count, uint32_t *from, uint32_t *end);
/* Hides whole blocks. Caller has all of their units in his hands, and no lock. */
void ts_dump_hide(unsigned part, uint32_t from, uint32_t end);
void ts_dump_show(unsigned part, uint32_t first, uint32_t count);
/* Runs of hidden blocks in a part. */
unsigned ts_dump_runs(unsigned part);

static inline bool ts_dump_is_hidden(unsigned part, uint32_t unit) {
    uint32_t block = unit >> TS_DUMP_SHIFT;
    return (ts_load_relaxed(&ts_dump_hidden[part][block / 64]) >> block % 64 & 1) != 0;
}
/* To who has just been handed units (numbered within the part): they are shown. */
static inline void ts_dump_use(unsigned part, uint32_t first, uint32_t count) {
    if (TS_UNLIKELY(count > 1 || ts_dump_is_hidden(part, first))) ts_dump_show(part, first, count);
}

#endif
