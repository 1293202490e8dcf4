/*
 * Sets of extents. An extent is a row of units that are in no use: RETAINED ones, with their memory, in the sets of an
 * allocator (supply/runs.h), or ones that are AWAY, without memory, in those of the pool (pool.h). Extents of one set
 * that touch become one. So a span of any length finds room, and memory goes back in long pieces.
 *
 * The extents of a set are in lists by length, four to a doubling, with a bit for each list that is not empty. Finding,
 * splitting and merging take a fixed number of steps. The links and lengths lie in the records of the units.
 *
 * Invariants (guarded by the lock of the set)
 *  1. In the records of the first and of the last unit of an extent `owner` is the number of its set, and `length` is
 *     the extent's length. In the records of other units `owner` is never that number. So two words of a unit beside an
 *     extent tell whether one of the same set begins or ends there. Only the holder of a set's lock writes its number,
 *     or replaces it; `length` is read where `owner` is the set's.
 *  2. No two extents of one set touch. All units of an extent have one home and one part.
 *  3. An extent is in the list of its length. In a set with ages an extent of TS_EXTENT_AGED units of 16 KiB or more is
 *     in the list by age, too. It is as old as the last time that units were given to it, or taken of it for use.
 */
#ifndef TS_REGION_EXTENTS_H
#define TS_REGION_EXTENTS_H

#include "base/base.h"
#include "region/region.h"

#define TS_EXTENT_LISTS 112u /* four to a doubling, for up to 2^29 units */
#define TS_EXTENT_AGED 16u   /* 256 KiB; shorter ones are too many, and go back only where far too much is retained */

/* The record of a unit. */
typedef struct ts_run {
    uint32_t length; /* first and last unit of an extent: its units */
    uint32_t next;   /* first unit of an extent: the next one in its list */
    uint32_t prev;   /* the one before it. In use, with its slab on a queue of cross-thread frees: supply/nodes.h;
                        written by the thread that set FOREIGN */
    _Atomic uint32_t owner; /* first and last unit of an extent: the number of its set; of a lent FAR span: TS_RUN_LENT;
                               else 0 */
    uint32_t newer, older;  /* first unit of an extent with an age: its neighbours in the list by age */
    uint32_t counted;       /* a use that ended since its generations went back to the system has written them; of the
                               unit's owner */
} ts_run;
#define TS_RUN_LENT UINT32_MAX                  /* no set has this number */
#define TS_EXTENTS_OF_POOLS ((uint32_t)1 << 31) /* numbers of the sets of pools; those of allocators are below it */

typedef struct ts_ages {
    uint32_t oldest, newest; /* extents, 0: none */
} ts_ages;

typedef struct ts_extents {
    _Atomic uint64_t some[2]; /* bit per list: it is not empty; a hint to threads without the lock */
    uint32_t head[TS_EXTENT_LISTS];
    uint32_t number; /* constant, as is the next; not 0 */
    ts_ages *ages;   /* NULL: its extents have no age */
} ts_extents;

typedef struct ts_range {
    uint32_t first, count;
} ts_range;

/* The list for extents of that length. */
static inline unsigned ts_extent_list(uint32_t units) {
    if (units < 4) return units;
    unsigned log2 = ts_log2_64(units);
    return 4 * (log2 - 1) + ((units >> (log2 - 2)) & 3u);
}

/* A set without extents. No other thread sees it. */
void ts_extents_init(ts_extents *set, uint32_t number, ts_ages *ages);
/* Whether it has an extent. A hint; any thread. */
static inline bool ts_extents_some(const ts_extents *set) {
    return (ts_load_relaxed(&set->some[0]) | ts_load_relaxed(&set->some[1])) != 0;
}

/* All of these: the caller has the lock of the set. */

/* The length of the set's extent that begins or ends there, 0: none. The unit's record is there: it is below the mark.
   It may be another's. */
static inline uint32_t ts_extent_at(const ts_extents *set, uint32_t unit) {
    const ts_run *r = &ts_region.run[unit];
    return ts_load_relaxed(&r->owner) == set->number ? r->length : 0;
}
/* As ts_extent_at, of any unit. */
static inline uint32_t ts_extent_behind(const ts_extents *set, uint32_t unit) {
    unsigned part = ts_part_of_unit(unit);
    return ts_is_unit_of(part, unit - ts_region.part[part].first_unit) ? ts_extent_at(set, unit) : 0;
}
/* Units become an extent, merged with those of the set on both sides. Returns it. */
ts_range ts_extents_give(ts_extents *set, uint32_t first, uint32_t units);
/* Takes the units from `from` to `end` - 1 out of the extent that begins with `first`. What is left of it stays; aged:
   as the oldest of all. */
void ts_extents_cut(ts_extents *set, uint32_t first, uint32_t from, uint32_t end, bool aged);
/* An extent of at least `units` units: one of its own list, of which some are looked at, or the first of the next list.
   It stays. 0: there is none. */
uint32_t ts_extents_find(const ts_extents *set, uint32_t units);
/* One of the longest extents; 0: the set has none. */
uint32_t ts_extents_longest(const ts_extents *set);

#endif
