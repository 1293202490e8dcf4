/*
 * The cells of a pool: single units that any thread takes without the pool's lock (pool.h, 3).
 *
 * What could go wrong: two threads get one unit, or a unit is in no run and in no cell, and is lost. It does not. A
 * cell is one word: its first unit, and how many. A thread that takes a unit moves the word on by compare-and-swap. A
 * thread that empties the cell exchanges the word for 0. Only the thread that has the lock fills a cell, and only an
 * empty one. So each unit leaves the cell once.
 */
#ifndef TS_REGION_CELLS_H
#define TS_REGION_CELLS_H

#include "region/free_runs.h"

static inline uint32_t ts_cell_first(uint64_t cell) { return (uint32_t)(cell >> 32); }
static inline uint32_t ts_cell_units(uint64_t cell) { return (uint32_t)cell; }

/* The first unit of a cell; 0: all are empty. Any thread, without the lock. */
uint32_t ts_cells_take(ts_pool *pool);
/* Whether a cell is empty, and a free run could fill it. A hint; any thread. */
bool ts_cells_want(const ts_pool *pool);
/* Fills the empty cells from the shortest free runs. Caller has the lock. */
void ts_cells_fill(ts_pool *pool);
/* Makes free runs of each cell with units from `first` to `end` - 1. false: there was none. Caller has the lock. */
bool ts_cells_empty(ts_pool *pool, uint32_t first, uint32_t end);

#endif
