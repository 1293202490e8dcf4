/*
 * Epoch ids and the end of an epoch: one table record, opened again and again; one block of one thread.
 *
 * An id is its era. Threads use ids that they learned at any time, so stale ones too: the owner of the block joins,
 * allocates and frees; one closes, one destroys. Holding a heap is a step here (hold.pml): it succeeds, or fails while
 * the owner is in an operation.
 */
#ifndef OPENS
#define OPENS 2
#endif
#ifndef OPS
#define OPS 3
#endif
#ifndef ERAS
#define ERAS 3
#endif

mtype = {ACTIVE, CLOSING, CLOSED}

/* The record. */
byte id, era = 1;
mtype state = CLOSED;
bool locked;             /* the epoch's stripe */
byte pins;
bool has_more;           /* here: it was closed */
bool destroyed, block;   /* block: it is in the epoch's list */
bool free_listed = true; /* guarded by the table's lock: taking and giving are one step */

/* The block. */
byte open_id;
byte slabs;
bool flushed, in_op;

/* Ghosts. */
byte use, walkers, running, objects;
bool used[ERAS + 1];
byte known_id, known_use; /* the newest that was published: threads learn of it */

#define LOCK atomic { !locked -> locked = true }
#define UNLOCK locked = false

/* find_locked; found is the answer. my_use: the use that the id was of. */
inline find_locked(my_id, my_use) {
    found = false;
    if
    :: my_id != 0 && id == my_id ->
       LOCK;
       if
#ifndef WITHOUT_SECOND_LOOK
       :: id != my_id -> UNLOCK
#endif
       :: else -> found = true; assert(my_use == use) /* another use under the old id */
       fi
    :: else -> skip
    fi
}

inline give_record() {
#ifndef WITHOUT_ERA_LIMIT
    if
    :: era < ERAS ->
#else
    if
    :: true ->
#endif
#ifndef WITHOUT_NEXT_ERA
       era = (era == ERAS -> 1 : era + 1);
#endif
       atomic { assert(!free_listed); free_listed = true } /* given twice */
    :: else -> skip
    fi
}

inline take_apart() {
    block = false;
    UNLOCK;
    atomic { !in_op; assert(walkers == 0); slabs = 0; objects = 0; flushed = false };
    id = 0; /* ts_table_end */
    give_record()
}

/* ts_epoch_end_only: the lock is taken and released, and the owner is in an operation, which ends. */
inline end_only() {
    open_id = 0;
    state = CLOSED;
    id = 0;
    block = false;
    UNLOCK;
    slabs = 0;
    objects = 0;
    flushed = false;
    give_record();
    in_op = false
}

/* The lock is taken; released here. */
inline kill_locked() {
    open_id = 0;
    state = CLOSED;
    id = 0;
    if
#ifndef WITHOUT_PINS
    :: pins > 0 -> destroyed = true; UNLOCK
#endif
    :: else -> take_apart()
    fi
}

inline finish(an_id) {
    LOCK;
    if
    :: an_id != 0 && id == an_id && pins == 0 && state == CLOSING ->
#ifdef WITHOUT_FLUSHED_FIRST
       a = (!block || slabs == 0);
       b = (!block || flushed);
#else
#ifdef WITHOUT_FLUSHED
       b = true;
#else
       b = (!block || flushed);
#endif
       a = (!block || slabs == 0);
#endif
       if
       :: a && b ->
          atomic { assert(objects == 0 || !block) }; /* a live object dies with an epoch that drains */
          kill_locked()
       :: else -> UNLOCK
       fi
    :: else -> UNLOCK
    fi
}

inline learn() { atomic { my_id = known_id; my_use = known_use } }

proctype opener() {
    byte n;
    do
    :: atomic { n < OPENS && free_listed -> n++; free_listed = false } /* ts_table_take */
       pins = 0;
       destroyed = false;
       has_more = false;
       if
       :: block = false
       :: atomic { !in_op -> open_id = era; flushed = false; block = true } /* join_unpublished, by the block's owner */
       fi;
       state = ACTIVE;
       atomic {
           assert(!used[era]); /* an id comes back */
           assert(id == 0);
           used[era] = true;
           use++;
           id = era; /* ts_table_publish */
           known_id = id;
           known_use = use
       }
    :: break
    od;
    running--
}

proctype owner() {
    byte my_id, my_use, ops, it;
    bool found, a, b, drained;
    do
    :: ops < OPS ->
       ops++;
       if
       :: learn();
          find_locked(my_id, my_use); /* ts_epoch_join */
          if
          :: found ->
             if
#ifndef WITHOUT_STATE_AT_JOIN
             :: state == ACTIVE && !block ->
#else
             :: !block ->
#endif
                assert(state == ACTIVE);
                atomic { in_op = true; open_id = my_id; flushed = false; in_op = false; block = true }
             :: else -> skip
             fi;
             UNLOCK
          :: else -> skip
          fi
       :: in_op = true; /* a slab for a new object */
          if
          :: open_id != 0 && open_id == my_id -> slabs++; objects++
          :: else -> skip
          fi;
          in_op = false
       :: in_op = true; /* a free, and the flush that a closer left */
          atomic {
              if
              :: objects > 0 -> objects--; slabs--; drained = (open_id == 0)
              :: true -> skip /* no free: another epoch's, or slab_thread_idle */
              fi
          };
          if
          :: open_id == 0 -> flushed = true; drained = true
          :: else -> skip
          fi;
          in_op = false;
          if
          :: drained -> it = id; finish(it) /* ts_epoch_run_deferred */
          :: else -> skip
          fi;
          drained = false
       :: learn(); /* the usual end and reset of a domain: the lock, then an operation, which waits for nobody */
          if
          :: my_id != 0 ->
             LOCK;
             if
#ifndef WITHOUT_LOOK_AT_RESET
             :: id != my_id -> UNLOCK
#endif
#ifndef WITHOUT_HAS_MORE
             :: !block || has_more -> UNLOCK
#else
             :: !block || pins > 0 -> UNLOCK
#endif
             :: else ->
                in_op = true;
                assert(my_use == use && walkers == 0);
                if
                :: true ->
                   assert(state == ACTIVE);
                   slabs = 0; /* ts_epoch_restart_block */
                   objects = 0;
                   UNLOCK;
                   in_op = false
                :: end_only()
                fi
             fi
          :: my_id == 0 -> skip
          fi
       fi;
       atomic { it = 0; a = false; b = false; found = false }
    :: break
    od;
    running--
}

proctype closer() {
    byte my_id, my_use, it;
    bool found, a, b;
    learn();
    find_locked(my_id, my_use);
    if
    :: found ->
       if
       :: state == ACTIVE ->
          state = CLOSING;
          has_more = true;
          pins++;
          open_id = 0;
          walkers++;
          UNLOCK;
          if
          :: !in_op -> atomic { if :: block -> assert(use == my_use); flushed = true :: else -> skip fi }
          :: in_op -> skip /* the flush is left to the owner */
          fi;
          walkers--;
          LOCK; /* ts_epoch_unpin */
          it = id;
          pins--;
          if
          :: pins == 0 && destroyed -> take_apart()
          :: else ->
             UNLOCK;
#ifndef WITHOUT_FINISH_AT_UNPIN
             finish(it)
#endif
          fi
       :: else -> UNLOCK
       fi
    :: else -> skip
    fi;
    running--
}

proctype destroyer() {
    byte my_id, my_use;
    bool found;
    learn();
    find_locked(my_id, my_use);
    if
    :: found -> kill_locked()
    :: else -> skip
    fi;
    running--
}

init {
    atomic {
        running = 4;
        run opener();
        run owner();
        run closer();
        run destroyer()
    };
    running == 0;
    assert(!locked && pins == 0 && walkers == 0 && !in_op);
    assert(!(id != 0 && state == CLOSING && (!block || (flushed && slabs == 0)))); /* drained, and nobody ends it */
    assert(id != 0 || free_listed || era == ERAS || use == 0)
}
