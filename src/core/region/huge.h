/*
 * Huge pages by density. While the process grows, and most likely writes to all that it takes, the next units of the
 * untouched end are ASKED FOR as huge pages before any thread can touch them. The system gives a huge page at the first
 * touch of its 2 MiB, if it has one.
 *
 * What could go wrong: memory becomes resident that the program never touches, or that went back. The bounds:
 *  1. Nothing is asked for while less than TS_HUGE_LEAST_UNITS are in use, nor before the process has grown by
 *     TS_HUGE_GROWTH_UNITS since memory last went back. So what is asked for is little beside what is in use. Units are
 *     taken from the front (cells.c), and so one such range at a time is in part untouched.
 *  2. Units are LOOSE that hold one or more new objects larger than a quarter of a unit: the program may leave pages of
 *     them untouched. So are those of SHORT classes, which leave a page of each alone. Other objects are not, nor is an
 *     object that realloc lets grow: it is filled. Nothing is asked
 *     for while more than one unit in TS_HUGE_LOOSE was loose, nor for a loose object of 2 MiB or more.
 *  3. Before memory goes back, nothing is asked for any more. So the system does not fill again what goes back of a
 *     range. The range stays a mapping of its own, with an anon_vma of its own: one for 4 MiB at most.
 *  4. After a huge page that took the thread more than TS_HUGE_SLOW_NS, the next TS_HUGE_SKIPPED growths ask for none.
 *     It is so where the system first has to move the pages of others, and in a virtual machine whose free memory goes
 *     back to its host.
 * The figures that decide are hints: a stale one asks for 4 MiB more, or less.
 */
#ifndef TS_REGION_HUGE_H
#define TS_REGION_HUGE_H

#include "base/base.h"

#include <stdbool.h>

struct ts_pool;

#define TS_HUGE_LEAST_UNITS 1280u /* 20 MiB */
#define TS_HUGE_GROWTH_UNITS 256u
#define TS_HUGE_LOOSE 4u
#define TS_HUGE_SLOW_NS 2000000u /* page by page 2 MiB take about as long on a busy machine */
#define TS_HUGE_SKIPPED 32u      /* 128 MiB */

/* The program has a wish of its own (option huge_pages), of which the caller tells the system next; or an allocator
   guards its objects. From now on none are asked for by density, and none refused. */
void ts_huge_leave_to_program(void);
/* Whether the calling thread lets an object grow: then what it takes is not loose. */
void ts_huge_set_growing(bool growing);
bool ts_huge_is_growing(void);
/* Units that the caller has got from the pool are loose, unless it lets an object grow. */
void ts_huge_note_loose(uint32_t units);
/* The pool has grown by these units, for a request of `wanted`. Nobody has them yet. Caller has the lock of growth. */
void ts_huge_grown(const struct ts_pool *pool, uint32_t first, uint32_t units, uint32_t wanted);
/* Memory is about to go back to the system. Caller has no lock of rank GROWTH or above. */
void ts_huge_give(void);

#endif
