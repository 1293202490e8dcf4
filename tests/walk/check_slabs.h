/*
 * The deep walk of level 3 (os/assert.c): the invariants of pool.h, lines.h, table.h, slab.h, heap.c and epoch.h,
 * checked for every record. This header is common to its two halves: the heap's part walks what one thread owns, the
 * epoch's part (walk/check.h) everything in the process.
 *
 * It is built into the library at level 3 only; tests build it beside a library of any level. A walk changes nothing,
 * follows no link before it knows that it leads to a record, and stops at the first thing that is not as it must be.
 */
#ifndef TS_WALK_CHECK_SLABS_H
#define TS_WALK_CHECK_SLABS_H

#include "os/os.h"
#include "supply/supply.h"

/* The kind of place a unit was found in. */
typedef enum ts_check_use {
    TS_USE_NONE,
    TS_USE_FREE,
    TS_USE_BLOCK,
    TS_USE_SPAN,
    TS_USE_RETAINED,
    TS_USE_RETAINED_SPAN,
    TS_USE_PIECE /* a piece that is free */
} ts_check_use;
#define TS_USE_QUEUED 0x80u /* and it is on a queue of foreign frees */

/* Of one allocator, by its index in the table. */
typedef struct ts_check_sums {
    uint64_t units, retained_units, zombies; /* in blocks and spans; in retained lists; nobody's, on a queue */
    uint64_t cut_units, zombie_pieces;
    uint64_t condemned_units;           /* of units: in blocks that are dead and not yet taken apart */
    uint64_t away_units;                /* of units: they do not count (spill/spill.h) */
    uint64_t shares, condemned, spills; /* each pins the record */
    uint64_t live;
} ts_check_sums;

typedef struct ts_check {
    char why[256]; /* "": nothing wrong was found */
    /* Of the whole walk only; NULL while a thread walks its own heap and others run. */
    uint8_t *unit; /* ts_check_use of each unit below high, and of the pieces of each behind these: ts_check_unit */
    uint8_t *line; /* [line]: 1 if a record has it */
    ts_check_sums *allocator;
    uint32_t high[TS_PARTS]; /* units ever taken from the untouched end of each part */
    uint32_t lines;          /* lines ever taken */
    /* Figures of the walk. */
    uint64_t heaps, blocks, slabs, spans, live, queued, retained_units, zombies, condemned_units, retired_units;
    uint64_t lost_units;   /* handed out and found nowhere: 0, but in the child of a fork */
    uint64_t lost_heaps;   /* of threads that were within a call when their process forked: not looked at */
    uint64_t lost_entries; /* of the tables: likewise */
} ts_check;

/* Of a slab whose unit is below its part's high. */
static inline uint8_t *ts_check_unit(const ts_check *check, uint32_t slab) {
    size_t normal = check->high[TS_NORMAL];
    if (ts_is_piece(slab)) return &check->unit[normal + (slab & ~TS_PIECE)];
    bool far = ts_part_of_unit(slab) == TS_FAR;
    return &check->unit[far ? normal * (1 + TS_PIECES) + ts_unit_in_part(slab) : slab];
}

/* Notes the text. Always false. */
bool ts_check_fail(ts_check *check, const char *format, ...) TS_PRINTF(2, 3);
/* Notes the place of a unit, or the lines of a record; false: it is something else already, or no such unit or line. */
bool ts_check_claim_unit(ts_check *check, uint32_t unit, ts_check_use use);
bool ts_check_claim_lines(ts_check *check, const void *record, size_t bytes, const char *what);
/* A list of retained units. */
bool ts_check_retained(ts_check *check, const ts_retained *retained, uint64_t *units);
/* The groups in the allocator's list, which was looked at before. */
bool ts_check_groups(ts_check *check, const ts_allocator *allocator);
/* A churn block that nobody has, for ts_block_pool_walk. */
bool ts_check_pooled(void *check, uint32_t chunk, bool bare);
/* A block that is in use, with its slabs, magazines and claimed words. */
bool ts_check_block(ts_check *check, const ts_block *block);
/* All blocks and shares of a heap. Caller: the holder of the heap. */
bool ts_check_heap(ts_check *check, const ts_heap *heap);

#endif
