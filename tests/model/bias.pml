/*
 * An epoch that its thread has by its bias, without the lock, against threads that take the lock (src/core/epoch/epoch.h: "Who HAS an
 * epoch"), and against threads that end it or give it an account, who leave the end, or the counting, to its thread if they meet it in an
 * operation (asked.c). One heap; two entries of the table, which are used again, with or without a bias.
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
#ifndef ENDERS
#define ENDERS 1 /* of the others; they wait for nobody */
#endif
#ifndef COUNTERS
#define COUNTERS 0 /* likewise; they come after those */
#endif
#define BUFFER 7
#define ENTRIES 2
#define NONE 0

/* Fields that the owner writes, in memory: in_op, which epoch that is on, then of each entry its id and its bias. */
#define IN_OP 0
#define ENDING 1
#define ID(e) (2 + (e))
#define BIAS(e) (2 + ENTRIES + (e))
byte mem[6];
#define IN_END 2
/* Written by others. A bias is 1 + its turn. */
#ifdef LATE
#define BEGUN 2
#else
#define BEGUN 0
#endif
byte biased = 1 + BEGUN / 2;
bool locked[ENTRIES], bias_lock;
byte asked[ENTRIES]; /* the use, and how */
#define COUNT 1
#define END 2
#define ASKING(id, how) ((id) * 4 + (how))
#define ASKED_USE(a) ((a) / 4)
#define ASKED_HOW(a) ((a) % 4)
byte account[ENTRIES]; /* of which use, 0: there is none */
bool whole[ENTRIES];

byte at[BUFFER], value[BUFFER], buffered;

/* Ghosts. */
bool owner_has[ENTRIES], other_has[ENTRIES];
byte others_left = OTHERS;
short left; /* ids whose end was left to the owner */

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

/* ts_limit_forget: by who has it */
inline forget(e, now) {
    if
    :: account[e] != now -> account[e] = 0
    :: else -> skip
    fi
}

/* ts_epoch_begin, with a bias or without; by its number the id is another. */
inline begin_epoch(e) {
    assert(account[e] == 0); /* of a use that is over */
    if
    :: rests -> store(BIAS(e), NONE)
    :: else -> store(BIAS(e), bias)
    fi;
    uses++;
    store(ID(e), uses)
}

/* ts_epoch_answer */
inline answer(e) {
    atomic { !locked[e] -> locked[e] = true };
    load(ID(e), now);
#ifndef WITHOUT_FORGET
    forget(e, now);
#endif
    if
#ifdef WITHOUT_ASKED_USE
    :: ASKED_HOW(asked[e]) == END && now != 0 ->
#else
    :: asked[e] == ASKING(now, END) && now != 0 ->
#endif
       assert(left & (1 << now));
       now = 0;
       use_epoch(e);
       drain();
       account[e] = 0;
       store(ID(e), 0)
    :: asked[e] == ASKING(now, COUNT) && now != 0 ->
       now = 0;
       assert(account[e] != 0);
       use_epoch(e);
       whole[e] = true
    :: else -> now = 0
    fi;
    asked[e] = 0;
    drain();
    locked[e] = false
}

/* hold_usual, and the end or the reset */
inline end_usual(e) {
    if /* the owner's slow path, with a bias that is one */
    :: unusual = false
    :: unusual = true
    fi;
    load(ID(e), id);
#ifdef WITHOUT_ENDING_FIRST
    store(IN_OP, IN_END);
    store(ENDING, 1 + e);
#else
    store(ENDING, 1 + e);
    store(IN_OP, IN_END);
#endif
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
#ifdef WITHOUT_ACCOUNT_LOOKED_AT
    :: b == r && !unusual ->
#else
    :: b == r && !unusual && account[e] == 0 -> /* ts_epoch_only_block */
#endif
#endif
       use_epoch(e);
       if
       :: true -> store(ID(e), 0)
       :: true -> skip /* a reset */
       fi
    :: else -> unusual = true
    fi;
    store(IN_OP, 0);
#ifndef WITHOUT_ANSWER
    if
    :: asked[e] != 0 -> answer(e)
    :: else -> skip
    fi;
#endif
    if
    :: unusual -> /* ts_epoch_find_locked */
       atomic { !locked[e] -> locked[e] = true };
       load(ID(e), r);
       if
       :: r == id && id != 0 ->
          use_epoch(e);
          drain();
          if
          :: atomic { account[e] = 0; asked[e] = 0 };
             store(ID(e), 0)
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
    byte ops, b, r, k, id, bias, uses, e, now;
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
    assert(mem[IN_OP] == 0 && !locked[0] && !locked[1] && !bias_lock);
    /* What was left is done. */
    assert(account[0] == mem[ID(0)] && whole[0] || account[0] == 0);
    assert(account[1] == mem[ID(1)] && whole[1] || account[1] == 0);
    assert(mem[ID(0)] == 0 || !(left & (1 << mem[ID(0)])));
    assert(mem[ID(1)] == 0 || !(left & (1 << mem[ID(1)])))
}

/* ---- the others ------------------------------------------------------------------------------------------------- */

inline run_barrier() {
    d_step { do :: buffered > 0 -> write_oldest() :: else -> break od }
}

/* ts_heap_unbias, of the bias b: over */
inline unbias() {
#ifndef WITHOUT_BIAS_LOCK
    atomic { !bias_lock -> bias_lock = true };
#endif
    if
    :: biased == b ->
       biased = (b == TURNS -> 1 : b + 1);
#ifndef WITHOUT_BARRIER
       run_barrier()
#endif
    :: else -> skip
    fi;
#ifdef WITHOUT_LOOK
    over = true;
#else
#ifdef WITHOUT_IN_OP_FIRST
    over = mem[ENDING] != 1 + e;
    over = over || mem[IN_OP] != IN_END;
#else
    over = mem[IN_OP] != IN_END;
#ifndef WITHOUT_WHICH
    over = over || mem[ENDING] != 1 + e;
#endif
#endif
#endif
    if
#ifdef WITHOUT_COMPARE
    :: over -> mem[BIAS(e)] = NONE
#else
    :: over -> d_step { if :: mem[BIAS(e)] == b -> mem[BIAS(e)] = NONE :: else -> skip fi }
#endif
    :: else -> skip
    fi;
#ifndef WITHOUT_BIAS_LOCK
    bias_lock = false
#endif
}

/* ts_epoch_try_unbias: over. With e's lock. */
inline try_unbias() {
    do
    :: b = mem[BIAS(e)];
       if
       :: b == NONE -> over = true; break
       :: else ->
          unbias();
          if
          :: over -> skip
          :: else -> break
          fi
       fi
    od;
    b = 0
}

/* hold_account_of. That the id is still this one is found out first. */
inline give_account() {
    if
    :: what == COUNT && mem[ID(e)] == id ->
       if
       :: account[e] == 0 -> atomic { account[e] = id; whole[e] = false }
       :: else -> skip
       fi
    :: else -> skip
    fi
}

/* ts_epoch_acquire, and what comes of it; or an end of the epoch, or its account, which wait for nobody (ts_epoch_find_to_end, hold_made).
   what: 0, END, COUNT */
proctype other(byte what) {
    byte id, e, b, j, before;
    bool over;
    if
    :: e = 0
    :: e = 1
    fi;
    id = mem[ID(e)];
    if
    :: id == 0 -> goto away
    :: else -> skip
    fi;
    atomic { !locked[e] -> locked[e] = true };
    try_unbias();
#ifdef WITHOUT_QUESTION_FIRST
    give_account();
#endif
    if
    :: over -> skip
    :: !over && (what == 0 || mem[ID(e)] != id) -> locked[e] = false; goto away /* as if it came later */
    :: !over && what != 0 && mem[ID(e)] == id ->
       before = (ASKED_USE(asked[e]) == id -> asked[e] : 0);
       if
       :: ASKED_HOW(before) >= what -> skip
       :: else ->
          atomic { asked[e] = ASKING(id, what); left = (what == END -> left | (1 << id) : left) };
#ifndef WITHOUT_BARRIER_TO_ASK
          run_barrier();
#endif
#ifdef WITHOUT_LAST_LOOK
          over = false;
#else
          try_unbias();
#endif
          if
          :: over -> atomic { asked[e] = before; left = (what == END -> left & ~(1 << id) : left) }
          :: else -> skip
          fi
       fi;
       if
       :: over -> skip
       :: else -> give_account(); locked[e] = false; goto away
       fi
    fi;
    if
    :: over -> give_account()
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
       :: what != COUNT -> /* destroyed; the entry goes to the owner again */
          atomic { account[e] = 0; asked[e] = 0 };
          mem[ID(e)] = 0
       :: what == 0 -> skip
       :: what == COUNT -> whole[e] = true
       fi
    fi;
    locked[e] = false;
away:
    over = false; e = 0; id = 0; before = 0;
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
        for (i : 1 .. OTHERS) { run other((i <= ENDERS -> END : (i <= ENDERS + COUNTERS -> COUNT : 0))) }
    }
}
