/*
 * The loan of a slab to a spill (src/core/spill/spilled.h). One slab with two live objects, of a closed epoch; its keeper lends it, and
 * ends the loan. The owner, which holds its heap, frees one object and another thread the other; DOUBLE: two threads free the only one;
 * LASTING: the loan ends after the frees, and has to find the slab dead.
 *
 * Sequentially consistent. A late foreign free into a slab of another use: foreign.pml.
 */
#define OBJECTS 2

/* The UNIT word: alive (0: dead), FOREIGN. */
bool alive = true, foreign;
bool lent;             /* its bit in ts_spilled_units */
bool mark[OBJECTS];    /* foreign bits */
byte count[OBJECTS];   /* counts of the words with them, modulo 4: a drain counts on */
bool state[OBJECTS];   /* live */
bool held;             /* the heap */
bool called;           /* by a thread that could not hold it: its holder works off the queue before it lets go */
bool queued;           /* on the queue of the heap */

/* Ghosts. */
byte freed[OBJECTS];   /* answers "true" */
byte ended;            /* how often the unit became nobody's, or the spill's */
byte done;

inline hold() { atomic { !held -> held = true } }
/* ts_heap_drop, ts_heap_leave */
inline drop() {
    do
    :: atomic { !called -> held = false; break }
    :: called -> called = false; work_off()
    od
}

/* ts_foreign_all_freed: for each word the bit before the states, as all_pending has it */
inline all_freed(answer) {
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
    k = 0
}

/* drain_churn and drain_scope, by the holder of the heap: bits become states. */
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

/* take_out_slab; holds the heap */
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

/* Gives an empty slab back unless a flag is on again: its setter looks once more. */
inline release() {
    atomic {
        if
        :: alive && !foreign && !state[0] && !state[1] -> ended++; alive = false
        :: else -> skip
        fi
    }
}

/* The slabs taken off the queue, by the holder of the heap: take_slab. */
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

/* ts_foreign_drain_closing, by the holder of the heap */
inline take_off() {
    if
    :: alive && foreign && lent -> take_out()
    :: alive && foreign && !lent -> work_off()
    :: else -> skip
    fi
}

/* ts_foreign_free of the object o */
inline foreign_free(o, answer) {
    do
    :: atomic { b = mark[o]; n = count[o] }
       if
       :: !alive -> answer = false; break
       :: else -> skip
       fi;
       s = state[o];
       if
       :: !s || b -> answer = false; break
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
             break
          fi
       fi
    od
}

/* ts_foreign_give_closed, hold_and_take_out */
inline give_closed() {
    if
    :: alive && foreign ->
       all_freed(all);
       if
       :: all ->
          if
          :: lent ->
#ifndef WITHOUT_HOLD
             hold(); take_out(); drop()
#else
             take_out()
#endif
          :: else -> skip
          fi;
          if
          :: alive ->
             atomic {
                 if
                 :: held -> called = true; won = false
                 :: else -> held = true; won = true
                 fi
             }
             if
             :: won -> take_off(); drop()
             :: else -> skip
             fi
          :: else -> skip
          fi
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
    byte k, n;
    bool b, s, all, got, answer, won;
    foreign_free(o, answer);
    is_told(o, answer);
    if
    :: answer -> give_closed()
    :: else -> skip
    fi;
    done++
}

/* free_own, and the rest of free_once */
proctype owner(byte o) {
    byte k;
    bool b, s, all, got, answer;
    hold();
    if
    :: !alive -> answer = false
    :: alive && foreign && mark[o] -> answer = false
    :: alive && !(foreign && mark[o]) ->
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
#ifndef WITHOUT_OWNERS_LOOK
    take_off();
#else
    work_off();
#endif
    drop();
    done++
}

proctype keeper() {
    byte k;
    bool b, s, all, got, good;
    /* ts_spilled_lend_slab, with the heap held and the queue drained */
    hold();
    work_off();
    if
    :: !alive -> drop(); goto end
    :: else -> skip
    fi;
#ifndef WITHOUT_BIT_FIRST
    lent = true;
#endif
    atomic {
        if
        :: !foreign -> foreign = true; good = true
        :: else -> good = false
        fi
    }
#ifdef WITHOUT_BIT_FIRST
    lent = good;
#endif
    if
    :: !good -> take_lent(got); drop(); goto end
    :: else -> drop()
    fi;

#ifdef LASTING
    done == 2;
    assert(!alive);
#endif
    /* ts_spill_return; until then FOREIGN keeps the slab in its block, so it ends by a free that takes it out, or not at all */
    take_lent(got);
    if
    :: got ->
#ifndef WITHOUT_PUSH
       queued = true
#endif
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
    done++
}

init {
    state[0] = true;
#ifndef DOUBLE
    state[1] = true;
    atomic { run keeper(); run owner(0); run other(1) }
#else
    freed[1] = 1; /* before all this */
    atomic { run keeper(); run other(0); run other(0) }
#endif
    done == 3;
    /* All that was freed is, once; and the slab ended, once. */
    assert(freed[0] == 1 && freed[1] == 1);
    assert(!alive && ended == 1);
    assert(!lent && !queued)
}
