/*
 * The record of an allocator: found by its value, pinned by each share, given back at the last unpin. One record, used
 * again when it comes back; three threads that make and drop a share, with a value that may be stale; one that makes and
 * frees allocators.
 */
#ifndef USES
#define USES 2
#endif

byte id, era = 1, pins;
bool free_listed = true; /* guarded by the table's lock: taking and giving are one step */

/* Ghosts. */
byte known; /* the value that was given out last */
byte running, shares;
bool over; /* slab_allocator_free was called for the present use */

/* ts_allocator_unpin */
inline unpin() {
    atomic { assert(pins > 0); pins--; last = (pins == 0) };
    if
    :: last ->
       assert(over && shares == 0); /* the record of a living allocator */
       id = 0;                      /* ts_table_end */
       era++;
       atomic { assert(!free_listed); free_listed = true } /* given twice */
    :: else -> skip
    fi
}

/* ts_allocator_find, ts_heap_share; later ts_heap_drop_dead_shares */
proctype user() {
    byte token;
    bool last;
    token = known;
    if
    :: token != 0 && id == token ->
       if
#ifdef WITHOUT_PIN_OF_THE_LIVING_ONLY
       :: atomic { true -> pins++; shares++ }
#else
       :: atomic { pins > 0 -> pins++; shares++ }
#endif
#ifndef WITHOUT_LOOK_AFTER_THE_PIN
          if
          :: id == token -> skip
          :: else -> shares--; unpin(); goto done
          fi;
#endif
          assert(token == era); /* a share of another use, on its list */
#ifdef WITHOUT_UNPIN_AFTER_THE_SHARE
          unpin();
          shares--
#else
          shares--;
          unpin()
#endif
       :: atomic { pins == 0 -> skip } /* as if the allocator had not been found */
       fi
    :: else -> skip
    fi;
done:
    running--
}

/* ts_allocator_make, slab_allocator_free; by one thread, which changes nothing here: the first is alone with the record,
   and of several that free it one goes on. */
proctype maker() {
    byte n, mine;
    bool last;
    do
    :: atomic { n < USES && free_listed -> n++; free_listed = false };
       pins = 1; /* reset_record */
       atomic { over = false; assert(id == 0) };
       mine = era;
       id = mine;
       known = mine;
       if
       :: true ->
          id = 0;
          over = true;
          unpin()
       :: break
       fi
    :: break
    od;
    running--
}

init {
    atomic {
        running = 4;
        run maker();
        run user();
        run user();
        run user()
    };
    running == 0;
    assert(shares == 0);
    assert(pins == (free_listed -> 0 : 1));
    assert(free_listed == (id == 0)) /* not lost */
}
