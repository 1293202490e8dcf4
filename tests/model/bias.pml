/*
 * An epoch that its thread has by its bias, without the lock, against threads that take the lock (src/core/epoch/epoch.h: "Who HAS an
 * epoch"). One heap; two entries of the table, which are used again, with or without a bias.
 *
 * The owner's stores go through a store buffer, as in hold.pml: its in_op = TS_IN_END, its next use of an entry, can reach the
 * memory after its next loads. barrier_all empties the buffer at one moment. The others' stores go to the memory at once: each
 * is followed by a locked instruction before it matters.
 *
 * Turns are counted modulo TURNS. LATE: begins with an epoch of the last turn and one of this, of two turns; so the last turn comes
 * again soon.
 */
#ifndef OPS
#define OPS 3
#endif
#ifndef TURNS
#define TURNS 4
#endif
#ifndef OTHERS
#define OTHERS 2
#endif
#define BUFFER 7
#define ENTRIES 2
#define NONE 0

/* Fields that the owner writes, in memory: in_op, then of each entry its id and its bias. */
#define IN_OP 0
#define ID(e) (1 + (e))
#define BIAS(e) (1 + ENTRIES + (e))
byte mem[5];
#define IN_END 2
/* Written by others. A bias is 1 + its turn. */
#ifdef LATE
#define BEGUN 2
#else
#define BEGUN 0
#endif
byte biased = 1 + BEGUN / 2;
bool locked[ENTRIES], bias_lock;

byte at[BUFFER], value[BUFFER], buffered;

/* Ghosts. */
bool owner_has[ENTRIES], other_has[ENTRIES];
byte others_left = OTHERS;

inline store(v, x) { d_step { buffered < BUFFER -> at[buffered] = v; value[buffered] = x; buffered++ } }

inline load(v, to) {
    d_step {
        to = mem[v];
        k = 0;
        do
        :: k < buffered && at[k] == v -> to = value[k]; k++
        :: k < buffered && at[k] != v -> k++
        :: k == buffered -> break
        od;
        k = 0
    }
}

inline write_oldest() {
    mem[at[0]] = value[0];
    buffered--;
    j = 0;
    do
    :: j < buffered -> at[j] = at[j + 1]; value[j] = value[j + 1]; j++
    :: else -> break
    od;
    at[buffered] = 0;
    value[buffered] = 0;
    j = 0
}

proctype processor() {
    byte j;
end:
    do
    :: d_step { buffered > 0 -> write_oldest() }
    od
}

/* ---- the owner ----------------------------------------------------------------------------------------------- */

/* What is done with an epoch that is had: two steps, so that another can be in the middle of it. */
inline use_epoch(e) {
    atomic { assert(!other_has[e]); owner_has[e] = true };
    atomic { assert(!other_has[e]); owner_has[e] = false }
}

/* ts_epoch_begin, with a bias or without; by its number the id is another. */
inline begin_epoch(e) {
    if
    :: rests -> store(BIAS(e), NONE)
    :: else -> store(BIAS(e), bias)
    fi;
    uses++;
    store(ID(e), uses)
}

/* hold_usual, and the end or the reset */
inline end_usual(e) {
    if /* the owner's slow path, with a bias that is one */
    :: unusual = false
    :: unusual = true
    fi;
    load(ID(e), id);
    store(IN_OP, IN_END);
#ifdef WITHOUT_TURN_FIRST
    load(BIAS(e), b);
    r = biased;
#else
    r = biased;
    load(BIAS(e), b);
#endif
    if
#ifdef WITHOUT_TURN
    :: b != NONE ->
#else
    :: b == r && !unusual ->
#endif
       use_epoch(e);
       if
       :: true -> store(ID(e), 0)
       :: true -> skip /* a reset */
       fi
    :: else -> skip
    fi;
    store(IN_OP, 0);
    if
    :: b != r || unusual -> /* ts_epoch_find_locked */
       atomic { !locked[e] -> locked[e] = true };
       load(ID(e), r);
       if
       :: r == id && id != 0 ->
          use_epoch(e);
          drain();
          if
          :: store(ID(e), 0)
          :: skip /* any other call */
          fi
       :: else -> skip
       fi;
       drain();
       locked[e] = false
    :: else -> skip
    fi
}

/* A locked instruction. */
inline drain() { buffered == 0 }

proctype owner() {
    byte ops, b, r, k, id, bias, uses, e;
    bool rests, unusual;
    bias = 1 + BEGUN / 2;
    uses = BEGUN;
    do
    :: ops < OPS ->
       ops++;
       if
       :: e = 0
       :: e = 1
       fi;
       load(ID(e), id);
       if
       :: id == 0 ->
          if /* ts_heap_bias */
          :: bias == biased -> rests = false
          :: bias != biased -> rests = true
          :: bias != biased -> bias = biased; rests = false
          fi;
          begin_epoch(e)
       :: else -> end_usual(e)
       fi;
       b = 0; r = 0; id = 0; rests = false; unusual = false; e = 0
    :: else -> break
    od;
    buffered == 0;
    others_left == 0;
    assert(mem[IN_OP] == 0 && !locked[0] && !locked[1] && !bias_lock)
}

/* ---- the others ------------------------------------------------------------------------------------------------- */

inline barrier_all() {
#ifndef WITHOUT_BARRIER
    d_step { do :: buffered > 0 -> write_oldest() :: else -> break od }
#else
    skip
#endif
}

/* ts_heap_unbias */
inline unbias(b) {
#ifndef WITHOUT_BIAS_LOCK
    atomic { !bias_lock -> bias_lock = true };
#endif
    if
    :: biased == b ->
       biased = (b == TURNS -> 1 : b + 1);
       barrier_all();
#ifndef WITHOUT_WAIT
       mem[IN_OP] != IN_END
#endif
    :: else -> skip
    fi;
#ifndef WITHOUT_BIAS_LOCK
    bias_lock = false
#endif
}

/* ts_epoch_find_locked and what comes of it */
proctype other() {
    byte id, e, b, j;
    if
    :: e = 0
    :: e = 1
    fi;
    id = mem[ID(e)];
    if
    :: id == 0 -> goto over
    :: else -> skip
    fi;
    atomic { !locked[e] -> locked[e] = true };
    b = mem[BIAS(e)];
    if
    :: b != NONE ->
#ifndef WITHOUT_EXCHANGE
       atomic { b = mem[BIAS(e)]; mem[BIAS(e)] = NONE };
#endif
       if
#ifndef WITHOUT_LOOK_AT_NOTHING
       :: b == NONE -> skip
#endif
       :: else -> assert(b != NONE); unbias(b)
       fi
    :: else -> skip
    fi;
    if
#ifndef WITHOUT_SECOND_LOOK
    :: mem[ID(e)] != id -> skip
#endif
    :: else ->
       atomic { assert(!owner_has[e]); assert(mem[ID(e)] == id); other_has[e] = true };
       atomic { assert(!owner_has[e]); other_has[e] = false };
       if
       :: true -> mem[ID(e)] = 0 /* destroyed; the entry goes to the owner again */
       :: true -> skip
       fi
    fi;
    locked[e] = false;
over:
    others_left--
}

init {
    byte i;
    atomic {
        if
        :: BEGUN > 0 -> mem[ID(0)] = 1; mem[BIAS(0)] = 1; mem[ID(1)] = 2; mem[BIAS(1)] = 2
        :: else -> skip
        fi;
        run processor();
        run owner();
        for (i : 1 .. OTHERS) { run other() }
    }
}
