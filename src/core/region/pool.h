/*
 * The pool: the free units of the region. They hold no memory: they were never touched, or their memory went back to
 * the system.
 *
 * The NORMAL part has a pool for each NUMA home in use (home.h), the FAR part has one. Each pool has its own locks and
 * cells. The pool of home ANY has the untouched end of the part: the units that were never handed out. The pools of
 * other homes get whole huge pages from it, and from one another when it has none left. A process that places no
 * memory on nodes has one pool for each part.
 *
 * Most units are taken one by one. They come from two CELLS: parts of free runs from which any thread takes the first
 * unit with one compare-and-swap. So a thread that needs a unit does not wait for one that has the lock and has lost
 * its processor.
 *
 *     extents      sets of free units in a row, with their merging: of pools, and of allocators
 *     free_runs    the record of a pool
 *     cells        single units, taken without the lock
 *     growth       the untouched end, and the limits on it
 *     pool_homes   huge pages that pass from the pool of one home to that of another
 *     pool         takes units and gives them back
 *
 * Invariants (guarded by the pool's lock; only taking a unit of a cell needs no lock)
 *  1. Each unit below `high` is in one free run, or in one cell, or handed out, or on its way from one pool to
 *     another in the hands of one thread. In the first three cases it belongs to the pool of its home. `high` only
 *     rises, and the part's mark (region.h) is never below it.
 *  2. A free run is an extent of its pool's set (extents.h). Units that are handed out, or in a cell, are in none.
 *  3. A cell gets units only while it is empty. A thread that finds no run, or wants units in a row that may lie in a
 *     cell, empties the cells first. So a cell keeps no run, and no page that could go back, from being whole.
 * One thread at a time makes the units of a range accessible. It holds no pool's lock then, and no other thread can
 * see the range yet.
 */
#ifndef TS_REGION_POOL_H
#define TS_REGION_POOL_H

#include "base/base.h"
#include "os/os.h"
#include "region/extents.h"

/* Sets up the pools; after ts_region_init. */
void ts_pool_init(void);
/* Takes `count` units in a row from a part. align: units, a power of two. Returns the global number of the first; 0:
   there are none.
   The units are readable and writable, and zero where pages are no larger than a unit. FAR units become accessible with
   this call. They are read-only once they are back: a stale pointer into them can be read through, and costs no memory.
   Cost: constant. Single units need no lock while a cell has some. When the pool grows, the system's time is added. */
uint32_t ts_pool_take(unsigned part, uint32_t count, uint32_t align);
/* Takes NORMAL units of a home, all of them of that home. Where the home can get no more huge pages, they are of ANY.
   */
uint32_t ts_pool_take_of(unsigned home, uint32_t count, uint32_t align);
/* Gives each home a pool, after ts_homes_start has found some. Caller: has the start mutex. */
void ts_pool_start_homes(void);
/* Takes the `count` units at `first`, directly behind units that the caller has, if they are free and of that home.
   They are as from ts_pool_take.
   whole: units that the caller then has in a row. At its untouched end a pool grows only if it has no free run of that
   length. */
bool ts_pool_take_at(uint32_t first, uint32_t count, uint32_t whole);
/* How many units are free from there on, but for those in cells. The untouched end counts. The answer is of a moment
   ago. */
uint32_t ts_pool_free_at(uint32_t unit);
/* Lets a part grow to this many units, or to the units that were ever in use. The address space beyond goes back to the
   system for good, and so do the free units in it. Caller: has the start mutex. */
void ts_pool_shrink(unsigned part, uint32_t units);
/* The system limits the data of the process: the memory that can be written. From this call on, long free runs are
   read-only, and units become writable when they are handed out. Caller: has the start mutex. */
void ts_pool_limit_data(void);
bool ts_pool_is_data_limited(void);
/* Gives back units whose memory went back to the system. */
void ts_pool_give(uint32_t first, uint32_t count);
/* Gives back units whose memory the system refused to take. From this call on, units of the pool need not be zero. */
void ts_pool_give_unpurged(uint32_t first, uint32_t count);
/* Whether units of the pool read as zero. */
bool ts_pool_is_zero(void);
/* For pages larger than a unit: completes the first and the last page of NORMAL units that the caller has. At each
   end where all that the page lacks is free, the caller gets these units, too. page_units: units of a page, a power
   of two. */
void ts_pool_take_around(uint32_t *first, uint32_t *count, uint32_t page_units);
/* Units of a part that are handed out. Takes no lock, so the answer is of a moment ago. */
uint64_t ts_pool_used(unsigned part);
/* The first unit of a part that was never handed out. Takes no lock. */
uint32_t ts_pool_highest(unsigned part);

void ts_pool_for_locks(ts_lock_fn *fn);

#endif
