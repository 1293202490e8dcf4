/*
 * The pool: the free units of the region, which hold no memory (never touched, or purged). Two-level
 * segregated fit over runs of units: finding, splitting and merging take a fixed number of steps, whatever
 * the heap looks like.
 *
 * Most units are taken one by one. They come from two cells, pieces of free runs that anyone takes the first unit of with one
 * compare-and-swap, so that while one has units nobody waits for who has the lock, and perhaps lost its processor.
 *
 * Each home (home.h) that is in use has such a pool, with a lock and cells of its own. That of ANY has the untouched end; the others
 * get blocks of it, two at a time, and of one another when there are no more. What is said below of a pool is of each. Where no home
 * but ANY is in use there is one, and all units are its.
 *
 * Invariants (guarded by the pool's lock, all but who takes a unit of a cell)
 *  1. Every unit below `high` is either in exactly one free run, or in one cell, or handed out, all of the pool of its home; or in the
 *     hands of who takes it from one pool to another. `high` only rises, and the mark of the part (region.h) is no lower.
 *  2. No two free runs of one home touch: a freed run is merged with its neighbours.
 *  3. run[first] and run[last] of a free run hold its length and FREE; the record of a unit in the middle of
 *     a free run is stale and not read, and the records of units handed out, and of those in cells, say 0.
 *  4. A cell gets units only when it is empty. Who wants units in a row that may be in one, or finds no run, empties it first: so
 *     a cell keeps nothing from being whole again, neither a run nor a page that goes back.
 * Making units accessible is done by one thread at a time, outside of the pool's lock, on a range that no one else can see.
 */
#ifndef TS_REGION_POOL_H
#define TS_REGION_POOL_H

#include "base/atomic.h"
#include "base/attr.h"

typedef struct ts_run {
    uint32_t length; /* first and last unit of a free run: units in it; otherwise 0 */
    uint32_t next;   /* first unit: list of the size bin; units are numbered within the part. Handed out: see warm_of */
    uint32_t prev; /* handed out, with a slab on a queue of foreign frees: supply/nodes.h; written by who set FOREIGN */
    _Atomic uint32_t warm_of; /* of units handed out: supply/runs.h; of a FAR span, slab/lent.h; else 0 */
    uint32_t
        fine; /* of a unit: its FINE state words were written since they went back to the system. Whose the unit is */
} ts_run;
#define TS_RUN_LENT UINT32_MAX /* in warm_of: no allocator's index */

/* Sets up the pool; after ts_region_init. */
void ts_pool_init(void);
/* Hands out `count` units in a row, readable, writable and zero where pages are no larger than a unit. FAR units become
   so with this call, and read-only when they come back: what was an object can be read, and costs no memory. No dump shows free
   ones.
   align: units, a power of two. Returns the global number of the first, 0 if there are none.
   Cost: constant, and no lock for single units while a cell has some; when the pool has to grow, the system's time to make the range accessible. */
uint32_t ts_pool_take(unsigned part, uint32_t count, uint32_t align);
/* The same of that home. All units are of it; others, of ANY, where it can get no more blocks. */
uint32_t ts_pool_take_of(unsigned home, uint32_t count, uint32_t align);
/* Homes are in use from now on: after ts_homes_start has found some. Under the start mutex. */
void ts_pool_start_homes(void);
/* Hands out the `count` units behind `first` - 1, which the caller has, if they are free, and of its home. Zero and writable as above.
   whole: units of the run that he has then. Behind the last unit the pool grows only if it has no free run of so many. */
bool ts_pool_take_at(uint32_t first, uint32_t count, uint32_t whole);
/* The part grows no further than to so many units, or to those that were ever in use. What lies beyond goes back to the system for good,
   and so do free units beyond. Caller: has the start mutex. */
void ts_pool_shrink(unsigned part, uint32_t units);
/* The system limits the data of the process, which is what can be written: from now on free units in long runs are read-only, as they are
   where it did so at the start. Caller: has the start mutex. And whether that is so. */
void ts_pool_limit_data(void);
bool ts_pool_is_data_limited(void);
/* Takes back units whose memory has been given back to the system. */
void ts_pool_give(uint32_t first, uint32_t count);
/* The same with memory that the system refused to take: from now on units of the pool need not be zero. */
void ts_pool_give_unpurged(uint32_t first, uint32_t count);
/* Whether units of the pool read as zero. */
bool ts_pool_is_zero(void);
/* Pages larger than a unit: adds to units that the caller has the free units beside them that lie in their first and
   last page, at each end where those are all that the page lacks; they are handed out to the caller. page_units:
   units of a page, a power of two. Of NORMAL units. */
void ts_pool_take_around(uint32_t *first, uint32_t *count, uint32_t page_units);
/* Units of a part that are handed out; takes no lock, so of a moment ago. And those of both, exactly: for tests. */
uint64_t ts_pool_used(unsigned part);
uint64_t ts_pool_used_units(void);
/* Units of the part at this number or above were never handed out; 1: none was. Takes no lock. */
uint32_t ts_pool_highest(unsigned part);

void ts_pool_fork_prepare(void);
void ts_pool_fork_done(void);
/* Units of a part that were ever taken from its untouched end, unit 0 included. */
uint32_t ts_pool_high(unsigned part);
/* Looks at every list, tag and cell of a part's pool, and shows each free run and cell to visit (may be NULL; false
   ends the walk). What does not hold, or NULL. forked: in a child, units that another thread had in its hands may be
   in none of them. */
typedef bool ts_pool_visit(void *arg, uint32_t first, uint32_t count);
const char *ts_pool_walk(unsigned part, ts_pool_visit *visit, void *arg, bool forked);
/* Walks the pools of both parts; aborts when an invariant does not hold. For tests. */
void ts_pool_check(void);

#endif
