/*
 * The end of a thread against others that still need its heap. Two heaps, one block with one slab in the first, and a heap without a thread, where
 * the owner puts the block if it gives that up while it lives (cache/orphan.c); each thread
 * exits at any time. Other models show the steps of this one: the UNIT word's flag and bits in foreign.pml, holding a heap in
 * hold.pml (here: hold succeeds, or fails while the owner is in an operation, or while another has the heap's lock: nobody waits for
 * that but the thread itself, when it exits).
 *
 * The threads: the owner of heap 0, and of heap 1 (which adopts the block when heap 0 is abandoned, then may exit too);
 * one that frees an object of the block; one that destroys its epoch; one that trims; and a new thread, which takes heap 0
 * when that is on the list of free heaps, makes a block and exits.
 */
#ifndef FREES
#define FREES 1    /* the thread that frees is there */
#endif
#ifndef DESTROYS
#define DESTROYS 1 /* the threads that destroy and trim are there */
#endif
#ifndef GIVES
#define GIVES 0    /* the owner gives the block up, or not */
#endif
#ifndef NEWCOMER
#define NEWCOMER 1 /* the new thread is there */
#endif

mtype = {STARTING, LIVE, ABANDONED}
#define HOME 2
#define NONE 3

mtype state[3] = LIVE;
bool locked[3], revoked[3], in_op[3];
bool queue[3];          /* the slab is on it */
bool condemned[3];      /* the block is on it */
bool called[3];         /* ts_heap.revoked from TS_CALLED on */
bool blocks[3];         /* the block is in the heap's list; heap_of says whose it is */
byte heap_of;
bool flag, pending;         /* FOREIGN; a foreign free that is not worked off */
bool killed;            /* era, and off the epoch's list; guarded by epoch_locked */
bool epoch_locked, registry;
bool free_listed;       /* heap 0 is on the list of free heaps */

/* Ghosts. */
bool in_hand;           /* the slab is with the thread that popped it */
byte ends;              /* ts_block_end of the block */
bool new_block;         /* in heap 0: the block of a later thread of it */
byte running;

#define HAS_BLOCKS(h) (blocks[h] || ((h) == 0 && new_block))
#define UNLOCK(x) x = false
#define LOCK(x) atomic { !x -> x = true }

/* ---- heaps ---------------------------------------------------------------------------------------------------- */

inline enter(h) { atomic { !revoked[h] -> in_op[h] = true } }
inline leave(h) { in_op[h] = false }

/* hold: held is the answer. A thread that is in an operation looks when that is over; the holder of the lock, when it lets go. */
inline hold(h) {
    do
    :: atomic { !locked[h] -> locked[h] = true }
       if
       :: state[h] == ABANDONED -> held = true
       :: state[h] == STARTING -> held = false
       :: state[h] == LIVE ->
          revoked[h] = true;
          if
          :: !in_op[h] -> held = true
          :: in_op[h] -> atomic { revoked[h] = false; held = false }
          fi
       fi;
       if
       :: held -> break
       :: else ->
          UNLOCK(locked[h]);
          if
          :: called[h] && state[h] == ABANDONED -> skip
          :: else -> break
          fi
       fi
    :: locked[h] -> held = false; break
    od
}

/* ts_heap_notify */
inline call_heap(h) { called[h] = true; hold(h) }

/* drop, list_if_unused */
inline let_go(h) {
    unused = (state[h] == ABANDONED && !HAS_BLOCKS(h));
    serial = uses;
    atomic { revoked[h] = false; UNLOCK(locked[h]) };
    if
    :: unused && h == 0 ->
       LOCK(registry);
#ifdef WITHOUT_SERIAL
       if
       :: state[0] == ABANDONED && !free_listed ->
#else
       if
       :: state[0] == ABANDONED && !free_listed && serial == uses ->
#endif
          assert(!HAS_BLOCKS(0)); /* a heap with blocks is nobody's */
          free_listed = true
       :: else -> skip
       fi;
       UNLOCK(registry)
    :: else -> skip
    fi
}

byte uses; /* serial of heap 0: of its threads */

/* ---- foreign frees ------------------------------------------------------------------------------------------- */

inline push(h) { atomic { assert(!queue[0] && !queue[1] && !queue[HOME]); in_hand = false; queue[h] = true } }

inline push_on(h) {
    push(h);
#ifndef WITHOUT_DRAIN_BY_PUSHER
    if
    :: state[h] == ABANDONED || heap_of != h -> todo = h
    :: else -> skip
    fi
#else
    skip
#endif
}

/* ts_foreign_drain. visitor: the heap's thread lives and is another one. */
inline drain(h, visitor) {
    if
    :: !queue[h] -> skip
    :: atomic { queue[h] -> queue[h] = false; in_hand = true }
       alive = !killed;
       to = (alive -> heap_of : h);
       if
#ifndef WITHOUT_PASSING_ON
       :: to != h -> push_on(to)
#endif
       :: else ->
          if
          :: visitor && alive -> push(h)
          :: else ->
             atomic { flag = false; in_hand = false };
             if
             :: alive -> atomic { assert(killed || heap_of == h); pending = false } /* by the holder of the block's heap */
             :: else -> skip
             fi
          fi
       fi
    fi
}

inline end_block(h) { atomic { assert(blocks[h] && !ends); blocks[h] = false; ends++ } }

inline end_posted(h) {
    if
    :: atomic { condemned[h] -> condemned[h] = false }
       end_block(h)
    :: !condemned[h] -> skip
    fi
}

/* ts_heap_run_posted */
inline work_off(h) {
    called[h] = false;
    end_posted(h);
    drain(h, state[h] == LIVE)
}

/* ts_heap_drop */
inline drop(h) {
    do
    :: let_go(h);
#ifdef WITHOUT_LOOK_AT_DROP
       break
#else
       if
       :: called[h] ->
          hold(h);
          if
          :: held -> work_off(h)
          :: else -> break
          fi
       :: !called[h] -> break
       fi
#endif
    od
}

/* ts_run_deferred, ts_foreign_drain_for */
inline settle() {
    do
    :: todo != NONE ->
       atomic { mine = todo; todo = NONE };
       do
       :: call_heap(mine); /* once at least */
          if
          :: held -> work_off(mine); drop(mine)
          :: else -> break
          fi;
          if
          :: state[mine] == ABANDONED && queue[mine] -> skip
          :: else -> break
          fi
       od;
#ifdef WITHOUT_SETTLE_AGAIN
       break
#endif
    :: else -> break
    od
}

/* ---- threads --------------------------------------------------------------------------------------------------- */

inline exit_thread(h) {
    enter(h);
    drain(h, false);
    end_posted(h);
    leave(h);
    LOCK(locked[h]);
    state[h] = ABANDONED;
#ifndef WITHOUT_LAST_DRAIN
    drain(h, false);
#endif
    drop(h);
    settle()
}

inline slow_operation(h) {
    enter(h);
    drain(h, false);
    end_posted(h);
    leave(h);
    if
    :: called[h] -> enter(h); called[h] = false; end_posted(h); drain(h, false); leave(h) /* ts_heap_drain_inbox */
    :: else -> skip
    fi
}

/* ts_epoch_disown, ts_block_disown; ts_orphans_pass_on */
inline give_up() {
    LOCK(epoch_locked);
    if
    :: !killed && heap_of == 0 ->
       hold(HOME);
       if
       :: held ->
          if
          :: atomic { !revoked[0] -> in_op[0] = true };
             atomic { assert(blocks[0] && !condemned[0]); blocks[0] = false };
             heap_of = HOME;
             blocks[HOME] = true;
             leave(0);
             gave = true
          :: revoked[0] -> skip
          fi;
          drop(HOME)
       :: else -> skip
       fi
    :: else -> skip
    fi;
    UNLOCK(epoch_locked);
#ifndef WITHOUT_PASSING_ON_OWN
    if
    :: gave -> enter(0); drain(0, false); leave(0); settle()
    :: else -> skip
    fi
#else
    skip
#endif
}

proctype owner() {
    bool held, alive, unused, gave;
    byte to, serial, mine, todo = NONE;
#if GIVES
    if
    :: give_up()
    :: true
    fi;
#endif
    if
    :: slow_operation(0); settle()
    :: true
    fi;
    if
    :: exit_thread(0)
    :: true
    fi;
    running--
}

/* ts_epoch_join with take_over, by the thread of heap 1 */
proctype adopter() {
    bool held, alive, unused, taken;
    byte to, serial, mine, todo = NONE, old;
    LOCK(epoch_locked);
    old = heap_of;
    if
#ifdef WITHOUT_STATE_AT_ADOPTION
    :: !killed ->
       hold(old);
       if
       :: held && heap_of == old ->
#else
    :: !killed && state[old] == ABANDONED ->
       hold(old);
       if
       :: held && heap_of == old && state[old] == ABANDONED ->
#endif
          drain(old, false);
          atomic { assert(blocks[old] && !in_op[old]); blocks[old] = false };
          heap_of = 1;
          taken = true;
          drop(old)
       :: else ->
          if :: held -> drop(old) :: else -> skip fi
       fi
    :: else -> skip
    fi;
    if
    :: taken -> enter(1); blocks[1] = true; leave(1)
    :: else -> skip
    fi;
    UNLOCK(epoch_locked);
    settle();
    if
    :: slow_operation(1); settle()
    :: true
    fi;
    if
    :: exit_thread(1)
    :: true
    fi;
    running--
}

proctype freer() {
    bool held, alive, unused;
    byte to, serial, mine, todo = NONE, h;
    if
    :: atomic { !killed -> pending = true; flag = true; in_hand = true }
       h = heap_of;
       push_on(h);
       settle()
    :: killed -> skip
    fi;
    running--
}

/* kill_locked, take_apart, end_blocks */
proctype destroyer() {
    bool held, alive, unused;
    byte to, serial, mine, todo = NONE, h;
    LOCK(epoch_locked);
    killed = true;
    UNLOCK(epoch_locked);
    h = heap_of;
    hold(h);
    if
    :: held -> drain(h, state[h] == LIVE); end_block(h); drop(h)
    :: else ->
       condemned[h] = true;
#ifndef WITHOUT_CALL_AFTER_CONDEMNING
       call_heap(h);
       if
       :: held -> work_off(h); drop(h)
       :: else -> skip
       fi
#endif
    fi;
    settle();
    running--
}

/* ts_heap_visit of heap 0 */
proctype trimmer() {
    bool held, alive, unused;
    byte to, serial, mine, todo = NONE;
    call_heap(0);
    if
    :: held -> work_off(0); drop(0)
    :: else -> skip
    fi;
    settle();
    running--
}

/* make_heap, ts_heap_make; then a block, and the end */
proctype newcomer() {
    bool held, alive, unused;
    byte to, serial, mine, todo = NONE;
    LOCK(registry);
    if
    :: free_listed ->
       free_listed = false;
       state[0] = STARTING;
       UNLOCK(registry);
       LOCK(locked[0]);
       uses++;
       state[0] = LIVE;
       UNLOCK(locked[0]);
       if
       :: enter(0); new_block = true; leave(0)
       :: true
       fi;
       if
       :: exit_thread(0)
       :: true
       fi
    :: else -> UNLOCK(registry)
    fi;
    running--
}

#define NOBODY(h) (state[h] == ABANDONED)
#define LEFT_OVER(h) (!locked[h] && !revoked[h] && !(NOBODY(h) && queue[h]) && !(NOBODY(h) && condemned[h]))

init {
    atomic {
        blocks[0] = true;
        state[HOME] = ABANDONED;
        running = 2 + NEWCOMER + FREES + 2 * DESTROYS;
        run owner();
        run adopter();
#if NEWCOMER
        run newcomer();
#endif
#if FREES
        run freer();
#endif
#if DESTROYS
        run destroyer();
        run trimmer()
#endif
    };
    running == 0;
    /* Nothing runs any more; threads that have not ended go on to drain their own. */
    assert(!in_hand);
    /* Neither foreign frees that nobody will take, nor a dead block that nobody will end. */
    assert(LEFT_OVER(0));
    assert(LEFT_OVER(1));
    assert(LEFT_OVER(HOME));
    assert(flag == (queue[0] || queue[1] || queue[HOME]));
    assert(!(pending && !killed && !flag));
    assert(!(queue[0] && !killed && heap_of != 0 && !called[0])); /* the owner may rest */
    assert(ends + blocks[0] + blocks[1] + blocks[HOME] == 1);
    assert(!ends || killed);
    assert(!(killed && !ends) || condemned[0] || condemned[1] || condemned[HOME]);
    assert(!free_listed || (NOBODY(0) && !HAS_BLOCKS(0)))
}
