/*
 * The whole deep walk (walk/check_slabs.h): every record of the process is what its header says,
 * every unit and every line is in exactly one place, and the sums agree:
 *
 *     units below the pool's high == free + in blocks + in spans + retained + zombies + retired (+ lost)
 *     committed_units of an allocator == its units in blocks, spans and retained lists + its zombies
 *     pins of an allocator == 1 + its shares + its condemned blocks + its zombies
 *     table entries below high == in use + on the free list + spares of threads + used up (+ lost)
 *     objects counted by a bin, a scope block, an epoch's spans == live by its live words, bitmaps, list
 *
 * Lost are records that another thread had between two lists at the moment of a fork: only the child may have any.
 */
#ifndef TS_WALK_CHECK_H
#define TS_WALK_CHECK_H

#include "walk/check_slabs.h"

/* false: check->why names the requirement that does not hold; the figures of *check are then those of the walk so far.
   forked: this is a child that was forked from a process with several threads: then something may be lost, and the sums
   of allocators are not looked at. Caller: at a quiet point, where no other thread is inside of a call, and with
   nothing held. Takes memory from malloc. Heaps whose threads vanished in a fork are put in order first, as their next
   user would do. */
bool ts_check_all(ts_check *check, bool forked);

#endif
