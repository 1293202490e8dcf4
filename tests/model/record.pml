/*
 * The record of an allocator: found by its value, pinned by each share, given back at the last unpin. One record, used
 * again when it comes back; three threads that make and drop a share, or settle, with a value that may be stale; one that
 * makes and frees allocators. A share that is dropped may leave a retained unit, which is on a queue of foreign frees yet;
 * another thread takes it off there, some time. A thread that settles may find that the system takes nothing, and put the unit back.
 */
#ifndef USES
#define USES 2
#endif

byte id, era = 1, pins;
bool free_listed = true; /* guarded by the table's lock: taking and giving are one step */
byte retained;               /* units on the record's lists, guarded by the retained lock */
bool queued;             /* one of them is on a queue of foreign frees */
bool zombie;             /* it was taken while it was, and pins the record */
byte left;               /* units that shares may leave yet */

/* Ghosts. */
byte known; /* the value that was given out last */
byte running, shares;
bool over; /* slab_allocator_free was called for the present use */

/* purge_shared, as far as ts_slab_claim: caller has a pin, or is the last */
inline give_retained_back() {
    atomic {
        if
        :: retained > 0 && queued -> queued = false; zombie = true; pins++; retained = 0
        :: else -> retained = 0
        fi
    }
}

/* ts_allocator_unpin */
inline unpin() {
    seen = pins;
    do
    :: atomic {
#ifdef WITHOUT_PIN_WHILE_GIVING
           assert(pins > 0); pins--; seen = pins + 1
       };
       if
       :: seen != 1 -> break
       :: else -> give_retained_back()
       fi;
#else
           skip };
       if
       :: seen == 1 -> give_retained_back(); seen = pins
       :: else -> skip
       fi;
       atomic {
           assert(pins > 0);
           if
           :: pins == seen -> pins--
           :: else -> seen = pins; goto again
           fi
       };
       if
       :: seen != 1 -> break
       :: else -> skip
       fi;
#ifndef WITHOUT_LOOK_AT_ZERO
       if
       :: retained > 0 -> pins = 1; goto again
       :: else -> skip
       fi;
#endif
#endif
       assert(over && shares == 0); /* the record of a living allocator */
       assert(retained == 0 && !zombie && !queued);
       id = 0;                      /* ts_table_end */
       era++;
       atomic { assert(!free_listed); free_listed = true }; /* given twice */
       break;
again: skip
    od
}

/* ts_allocator_find, ts_heap_share; later ts_heap_drop_dead_shares. Or ts_run_deferred. */
proctype user() {
    byte token, seen, taken;
    bool mine;
    token = known;
    if
    :: token != 0 && id == token ->
       if
#ifdef WITHOUT_PIN_OF_THE_LIVING_ONLY
       :: atomic { true -> pins++; shares++ }
#else
       :: atomic { pins > 0 -> pins++; shares++ }
#endif
          mine = true;
#ifndef WITHOUT_LOOK_AFTER_THE_PIN
          mine = (id == token);
#endif
          if
          :: mine ->
             assert(token == era); /* a share of another use, on its list */
             if
             :: atomic { left > 0 && !queued && !zombie -> left--; retained++; queued = true }
             :: atomic { !queued -> taken = retained; retained = 0 }; /* ts_run_deferred */
                atomic { retained = retained + taken; taken = 0 }
             :: true
             fi
          :: else -> skip
          fi;
#ifndef WITHOUT_UNPIN_AFTER_THE_SHARE
          shares--;
          mine = false;
#endif
          unpin();
          if
          :: mine -> shares--
          :: else -> skip
          fi
       :: atomic { pins == 0 -> skip } /* as if the allocator had not been found */
       fi
    :: else -> skip
    fi;
    running--
}

/* ts_foreign_drain_some: the unit comes off its queue; ts_zombie_give */
proctype drainer() {
    byte seen;
    if
    :: atomic { queued -> queued = false }
    :: zombie ->
       atomic { zombie = false; retained++ };
       unpin()
    :: atomic { running == 1 && !queued && !zombie -> skip }
    fi;
    running--
}

/* ts_allocator_make, slab_allocator_free; by one thread, which changes nothing here: the first is alone with the record,
   and of several that free it one goes on. */
proctype maker() {
    byte n, mine, seen;
    do
    :: atomic { n < USES && free_listed -> n++; free_listed = false };
       atomic { pins = 1; retained = 0 }; /* reset_record */
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
        left = 1;
        running = 5;
        run maker();
        run user();
        run user();
        run user();
        run drainer()
    };
    running == 0;
    assert(shares == 0 && !queued && !zombie);
    assert(pins == (free_listed -> 0 : 1));
    assert(!free_listed || retained == 0);
    assert(free_listed == (id == 0)) /* not lost */
}
