/*
 * The loan of a slab to a spill (src/core/spill/spilled.h), and its state words, which are packed meanwhile (spill/packed.h). One slab with two
 * live objects, of a closed epoch; its keeper lends it, packs its words, gives their page back, and ends the loan. The owner, who holds his
 * heap, frees one object and another thread the other; DOUBLE: two threads free the only one. SHARED: a neighbour, another spill
 * with a slab that has its words in the same page, sends that page too, and returns, at any time, while the owner frees the only
 * object, or (with DOUBLE) another thread does.
 *
 * Sequentially consistent, but for the page: after the keeper's call of the system its words read as 0, each from a moment of its own on.
 * A word that is restored is written in two steps, too. What a late foreign free does to a slab of another use: foreign.pml.
 */
#define OBJECTS 2

/* The UNIT word: alive (0: dead), FOREIGN. */
bool alive = true, foreign;
bool lent;             /* its bit in ts_spilled_units */
bool mark[OBJECTS];    /* foreign bits */
byte count[OBJECTS];   /* counts of the words with them, modulo 4: a drain counts on */
bool state[OBJECTS];   /* live: as the page says */
bool saved[OBJECTS];   /* what is packed */
bool packed;           /* the pack has the words alone: a bit of ts_packed_groups */
bool locked;           /* the lock of packed.c */
byte going;
byte turn;             /* ts_pack_turn */
byte changes;          /* loans begun, and packs withdrawn */
bool held;             /* the heap */
bool queued;           /* on the queue of the heap */

/* Ghosts. */
byte freed[OBJECTS];   /* answers "true" */
byte ended;            /* how often the unit became nobody's, or the spill's */
bool over;             /* the loan */
byte done;

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }
inline hold() { atomic { !held -> held = true } }
inline drop() { held = false }

/* ts_packed_restore */
inline restore() {
    do
    :: lock();
       if
       :: !packed -> unlock(); break
#ifndef WITHOUT_GOING
       :: packed && going > 0 -> unlock(); going == 0
       :: packed && going == 0 ->
#else
       :: packed ->
#endif
          state[0] = saved[0];
          state[1] = saved[1];
          changes++;
          packed = false;
          unlock();
          break
       fi
    od
}

/* ts_packed_take_lent */
inline restore_and_take(got) {
#ifndef WITHOUT_ONE_STEP
    do
    :: lock();
       if
       :: packed && going > 0 -> unlock(); going == 0
       :: else ->
          if
          :: packed -> state[0] = saved[0]; state[1] = saved[1]; changes++; packed = false
          :: else -> skip
          fi;
          take_lent(got);
          unlock();
          break
       fi
    od
#else
    restore();
    take_lent(got)
#endif
}

/* The send of a page: ts_packed_send. Without more than its reads while it is not lent. */
inline send_page() {
    /* pack_page, without the lock */
    c = changes;
    if
    :: packed || !lent -> skip
    :: else ->
       x = state[0];
       y = state[1];
       /* send_batch */
       lock(); going++; unlock();
       lock();
#ifndef WITHOUT_LENT_STILL
       good = lent && !packed;
#else
       good = !packed;
#endif
#ifndef WITHOUT_CHANGES
       good = good && changes == c;
#endif
       if
       :: good ->
          saved[0] = x;
          saved[1] = y;
          packed = true;
#ifndef WITHOUT_BITS_SEEN
          if
          :: mark[0] || mark[1] -> changes++; packed = false; good = false
          :: else -> skip
          fi
#endif
       :: else -> skip
       fi;
       unlock();
       turn++;
       if
       :: good ->
          if
          :: true -> state[0] = false; state[1] = false
          :: true -> state[1] = false; state[0] = false
          fi
       :: else -> skip
       fi;
       lock(); going--; unlock()
    fi
}

/* ts_states_look */
inline look() {
    t = turn;
    if
    :: packed -> restore()
    :: else -> skip
    fi
}

/* Whether the reads since then are to be done again. */
#ifndef WITHOUT_MOVED
#define MOVED (turn != t)
#else
#define MOVED false
#endif

/* ts_foreign_all_freed */
inline all_freed(answer) {
    do
    :: look();
       answer = true;
       k = 0;
       do
       :: k < OBJECTS ->
          b = mark[k];
          s = state[k];
          if
          :: s && !b -> answer = false
          :: else -> skip
          fi;
          k++
       :: else -> break
       od;
       k = 0;
       if
       :: answer && turn != t -> skip
       :: else -> break
       fi
    od
}

/* drain_slab, by who holds the heap: bits become states. */
inline drain() {
    k = 0;
    do
    :: k < OBJECTS ->
       if
       :: mark[k] -> assert(state[k]); state[k] = false; atomic { mark[k] = false; count[k] = (count[k] + 1) % 4 }
       :: else -> skip
       fi;
       k++
    :: else -> break
    od;
    k = 0
}

inline take_lent(got) { atomic { got = lent; lent = false } }

/* ts_spilled_take_out; holds the heap */
inline take_out() {
    if
    :: alive ->
       all_freed(all);
       if
       :: all ->
#ifndef WITHOUT_TAKER
          take_lent(got);
#else
          got = lent; lent = false;
#endif
          if
          :: got ->
#ifndef WITHOUT_RESTORE_OF_THE_DEAD
             restore();
#endif
             drain();
             assert(!state[0] && !state[1]);
             ended++;
             alive = false
          :: else -> skip
          fi
       :: else -> skip
       fi
    :: else -> skip
    fi
}

/* Gives an empty slab back unless a flag is on again: who has set it looks once more. */
inline release() {
    atomic {
        if
        :: alive && !foreign && !state[0] && !state[1] -> ended++; alive = false
        :: else -> skip
        fi
    }
}

/* What was taken off the queue, by who holds the heap: take_slab. */
inline work_off() {
    if
    :: queued ->
       assert(alive);
       queued = false;
       foreign = false;
       drain();
       release()
    :: else -> skip
    fi
}

/* ts_foreign_free of the object o */
inline foreign_free(o, answer) {
    do
    :: look();
       atomic { b = mark[o]; n = count[o] }
       if
       :: !alive -> answer = false; break
       :: else -> skip
       fi;
       s = state[o];
       if
       :: !s && MOVED -> skip
       :: !s && !MOVED -> answer = false; break
       :: s && b -> answer = false; break
       :: s && !b ->
          atomic {
              if
              :: !mark[o] && count[o] == n -> mark[o] = true; won = true; freed[o]++
              :: else -> won = false
              fi
          }
          if
          :: !won -> skip
          :: won ->
             answer = true;
             assert(freed[o] == 1);
             /* queue_slab */
             atomic {
                 if
                 :: alive && !foreign -> foreign = true; queued = true
                 :: else -> skip
                 fi
             }
#ifndef WITHOUT_KEEP
             if
             :: lent && packed -> restore()
             :: else -> skip
             fi;
#endif
             /* who finds the bit reads the word: statistics do, without a look */
             assert(!(mark[o] && packed && !going));
             break
          fi
       fi
    od
}

/* ts_foreign_give_closed, ts_spilled_freed */
inline give_closed() {
    if
    :: alive && foreign ->
       all_freed(all);
       if
       :: all ->
          hold();
          if
          :: lent -> take_out()
          :: else -> work_off()
          fi;
          drop()
       :: else -> skip
       fi
    :: else -> skip
    fi
}

inline is_told(o, answer) {
    /* refused: another was first */
    assert(answer || freed[o] == 1)
}

proctype other(byte o) {
    byte t, k, n;
    bool b, s, all, got, answer, won;
    foreign_free(o, answer);
    is_told(o, answer);
    if
    :: answer -> give_closed()
    :: else -> skip
    fi;
    done++
}

/* free_own, and what free_once does after it */
proctype owner(byte o) {
    byte t, k, n;
    bool b, s, all, got, answer, won;
    hold();
    if
    :: !alive -> answer = false
    :: alive && foreign && mark[o] -> answer = false
#ifndef WITHOUT_FREE_OF_THE_LENT
    :: alive && !(foreign && mark[o]) && foreign && lent -> foreign_free(o, answer)
    :: alive && !(foreign && mark[o]) && !(foreign && lent) ->
#else
    :: alive && !(foreign && mark[o]) ->
#endif
       if
       :: state[o] ->
          /* by pointer; with others at the same object at the same instant: foreign.c, 8 */
          atomic { state[o] = false; freed[o]++ }
          answer = true
       :: else -> answer = false
       fi;
       release()
    fi;
    is_told(o, answer);
    if
    :: alive && foreign && lent -> take_out()
    :: alive && foreign && !lent -> work_off()
    :: else -> skip
    fi;
    drop();
    done++
}

proctype neighbour() {
    byte c;
    bool x, y, good;
    send_page();
    restore(); /* ts_packed_return */
    done++
}

proctype keeper() {
    byte t, k, c;
    bool b, s, all, got, good, x, y;
    /* ts_spilled_lend_slab, with the heap held and the queue drained */
    hold();
    work_off();
    if
    :: !alive -> drop(); goto end
    :: else -> skip
    fi;
    changes++;
    lent = true;
    atomic {
        if
        :: !foreign -> foreign = true; good = true
        :: else -> good = false
        fi
    }
    if
    :: !good -> restore_and_take(got); drop(); goto end
    :: else -> drop()
    fi;
    send_page();

    /* ts_spill_return */
#ifndef WITHOUT_RESTORE_FIRST
    restore();
    restore_and_take(got);
#else
    take_lent(got);
#endif
    if
    :: got ->
#ifdef WITHOUT_RESTORE_FIRST
       restore();
#endif
       queued = true
    :: else ->
#ifndef WITHOUT_WAIT
       !alive;
#endif
       assert(!alive) /* the unit goes to the system */
    fi;
    hold();
    work_off();
    drop();
end:
    over = true;
    done++
}

init {
    state[0] = true;
#if !defined(DOUBLE) && !defined(SHARED)
    state[1] = true;
    atomic { run keeper(); run owner(0); run other(1) }
#else
    freed[1] = 1; /* before all this */
#ifndef SHARED
    atomic { run keeper(); run other(0); run other(0) }
#elif defined(DOUBLE)
    atomic { run keeper(); run neighbour(); run other(0) }
#else
    atomic { run keeper(); run neighbour(); run owner(0) }
#endif
#endif
    done == 3;
    /* All that was freed is, once; and the slab ended, once. */
    assert(freed[0] == 1 && freed[1] == 1);
    assert(!alive && ended == 1);
    assert(!packed && !lent && !queued && going == 0)
}
