/*
 * Foreign frees of one slab with two slots: two threads that free, the owner, and a thread that destroys the epoch.
 * Sequentially consistent; each access of a shared word is a step of its own. The letters and numbers of the steps are
 * those of src/core/cache/foreign.c.
 *
 * The slab begins in block 1. It can come back to block 1 while that lives, go to block 3 (another epoch of the same
 * thread), or, once block 1 was destroyed, to block 2 (the same record with its next era). Blocks 2 and 3 live on.
 *
 * The program's freedom: the owner hands each object to none, one or both of the freeing threads. The owner frees an
 * object by its pointer only while no other thread's call is about its address; after such a call it must be refused. A double
 * free by the owner's pointer at the same instant is the limit that foreign.c states (8). By its handle it frees an
 * object at any time, if its epoch lives: then one of all is told true (7).
 *
 * TAGGED 1: the foreign words are set at every reset (NORMAL churn slabs; ts_foreign_open takes the same steps). 0: they are left as they are (scope, SMALL).
 */
#ifndef TAGGED
#define TAGGED 1
#endif
#ifndef OPS
#define OPS 7     /* operations of the owner */
#endif
#ifndef RESETS
#define RESETS 2
#endif
#define OBJECTS 3 /* allocations */

#define FOREIGN 8
#define ZOMBIE 16
#define USE(w) ((w) & 7)
#define ALIVE(u) ((u) == 3 || (u) == 2 || ((u) == 1 && !killed))
/* A foreign word: bits [1:0], count [3:2], tag [7:4]. */
#define BITS(x) ((x) & 3)
#define COUNT(x) (((x) >> 2) & 3)
#define TAG(x) ((x) >> 4)
#define WORD(t, c, b) (((t) << 4) | (((c) & 3) << 2) | (b))

mtype = {IN_BIN, RETAINED, CLAIMED, ZOMBIE_SLAB}

byte word = 1;          /* UNIT word */
byte tag = 1, fw = WORD(1, 0, 0);
bool live[2];           /* live bits; generations stand in `object` */
bool killed, ended, open1 = true;
bool queued, popped;    /* the slab is on the queue; in the hands of the popping thread, FOREIGN still on */
bool held;              /* the heap: in_op of the owner, or a visitor's hold */

/* Ghosts, for the properties. */
mtype where = IN_BIN;
byte bin_use = 1;       /* the block in whose bin the slab is or was last */
byte object[2];         /* serial of the slot's newest object */
byte objects;
bool foreign_freed[OBJECTS + 1];
bool exactly_freed[OBJECTS + 1]; /* by the owner, by its handle, and it was told so */
byte freeing;           /* the object that the owner frees so just now: not live, and its bit not looked at */
byte given[2], given_slot[2], given_use[2];
bool returned[2], no_more;

/* ---- the thread that frees ------------------------------------------------------------------------------ */

inline push() {
    atomic {
        assert(!queued && !popped); /* on two queues */
        queued = true;
    }
}

proctype thread(byte me) {
    byte u, x, t, s, o;
    bool stale; /* the epoch of the object was destroyed before the call */
    if
    :: atomic { given[me] != 0 -> s = given_slot[me]; stale = !ALIVE(given_use[me]) }
    :: atomic { given[me] == 0 && no_more -> goto done }
    fi;
again:
    atomic { u = word; if :: USE(u) == 0 || (u & ZOMBIE) -> goto done :: else -> skip fi };        /* 1 */
#if TAGGED
    atomic { x = fw; t = TAG(x) };                                                                 /* 2 */
#else
    x = fw;
    t = tag;
#endif
#ifndef WITHOUT_SECOND_READ
    atomic { if :: (word | FOREIGN) != (u | FOREIGN) -> goto clear :: else -> skip fi };           /* 3 */
#endif
#ifndef WITHOUT_ERA
    atomic { if :: !ALIVE(USE(u)) -> goto done :: else -> skip fi };
#endif
    atomic {
        o = (live[s] -> object[s] : 0);                                                            /* 4 */
        if
        :: o == 0 -> goto done
#ifndef WITHOUT_BIT_LOOKED_AT
        :: o != 0 && TAG(x) == t && (BITS(x) & (1 << s)) -> goto done
#endif
        :: else -> u = USE(u)
        fi
    };
    atomic {
        if
        :: fw != x -> goto clear
        :: fw == x && TAG(x) == t -> fw = x | (1 << s)                                             /* 5 */
#ifdef WITHOUT_TAG_AT_FREE
        :: fw == x && TAG(x) != t -> fw = WORD(t, COUNT(x), BITS(x) | (1 << s))
#else
        :: fw == x && TAG(x) != t -> fw = WORD(t, COUNT(x), 1 << s)
#endif
        fi;
        assert(!stale || ALIVE(u)); /* an object of a destroyed epoch */
        if
        :: t == tag && where == IN_BIN && ALIVE(bin_use) ->
           assert((live[s] || freeing == o) && object[s] == o); /* the object that was looked at */
           assert(!foreign_freed[o] && !exactly_freed[o]);      /* freed twice */
           foreign_freed[o] = true
        :: else -> skip
        fi;
        x = 0; t = 0; o = 0
    };
#ifdef WITHOUT_FLAG_TEST
    atomic { if :: USE(word) == u -> word = word | FOREIGN :: else -> goto done fi };              /* 6 */
#else
    atomic { if :: word != u -> goto done :: else -> skip fi };                                    /* 6 */
    atomic { if :: word != u -> goto done :: else -> word = u | FOREIGN fi };
#endif
#ifndef WITHOUT_PUSH
    push();                                                                                        /* 7 */
#endif
    goto done;
clear:
    atomic { x = 0; t = 0; o = 0; goto again };
done:
    atomic { returned[me] = true; u = 0; x = 0; t = 0; o = 0 }
}

/* ---- the holder of the heap ------------------------------------------------------------------------------- */

inline hold() { atomic { !held -> held = true } }
inline drop() { held = false }

#define EMPTY (!live[0] && !live[1])

/* f. The slab is on the retained list afterwards, or stays. */
inline release_slab() {
    w = word;
    do
#ifndef WITHOUT_FLAG_AT_RELEASE
    :: (w & FOREIGN) -> break
#endif
    :: else ->
       if
       :: atomic { word == w -> assert(where == IN_BIN); word = 0; where = RETAINED }
          break
       :: atomic { word != w -> w = word }
       fi
    od
}

inline end_slot(i) {
    atomic {
        if
        :: BITS(x) & (1 << i) ->
           assert(live[i]); /* a bit on a slot that is not live */
           assert(foreign_freed[object[i]] || !ALIVE(USE(word))); /* an object that nobody freed */
           live[i] = false
        :: else -> skip
        fi
    }
}

inline clear_bits() {
    b = BITS(x);
    do
#ifdef WITHOUT_COUNT
#define NEXT_COUNT(x) COUNT(x)
#else
#define NEXT_COUNT(x) (COUNT(x) + 1)
#endif
#ifdef WITHOUT_BITS_KEPT
    :: atomic { fw == x -> fw = WORD(TAG(x), NEXT_COUNT(x), 0) }
       break
#else
    :: atomic { fw == x -> fw = WORD(TAG(x), NEXT_COUNT(x), BITS(x) & ~b) }
       break
#endif
    :: atomic { fw != x -> x = fw }
    od
}

inline drain_slab() {
    t = tag;
    x = fw;                                                              /* c */
    if
#if defined(WITHOUT_TAG_AT_DRAIN) || TAGGED /* then it is the present one */
    :: BITS(x) == 0 -> skip
#else
    :: BITS(x) == 0 || TAG(x) != t -> skip
#endif
    :: else ->
#ifdef WITHOUT_STATE_FIRST
       b = x; clear_bits(); x = (x & ~3) | BITS(b);
       end_slot(0); end_slot(1)
#else
       end_slot(0); end_slot(1);                                         /* d */
       clear_bits()                                                      /* e */
#endif
    fi;
    if
    :: EMPTY -> release_slab()                                           /* f */
    :: true -> skip /* live objects, or worth keeping */
    fi
}

inline flag_off() {
    do
    :: atomic { word == w -> popped = false; word = ((w & ZOMBIE) -> 0 : w & ~FOREIGN) }
       break
    :: atomic { word != w -> w = word }
    od
}

inline drain(visitor) {
    if
    :: !queued -> skip
    :: atomic { queued -> queued = false; popped = true }                /* a */
       w = word;
       alive = !(w & ZOMBIE) && ALIVE(USE(w));
       if
       :: visitor && alive ->
          atomic { popped = false; queued = true } /* its owner's work */
       :: else ->
#ifdef WITHOUT_FLAG_OFF_FIRST
          if :: !(w & ZOMBIE) && alive -> drain_slab() :: else -> skip fi;
          w = word;
          flag_off();
          alive = false;
#else
          flag_off();                                                    /* b */
#endif
          if
          :: w & ZOMBIE -> atomic { assert(where == ZOMBIE_SLAB); where = RETAINED }
          :: !(w & ZOMBIE) && alive -> drain_slab()
          :: else -> skip
          fi
       fi
    fi
}

/* ---- the owner --------------------------------------------------------------------------------------------- */

/* Handing objects over is symmetric: the second thread gets one only when the first has one. */
inline allocate(i) {
    atomic {
        !held && where == IN_BIN && !live[i] && (i == 0 || object[0] != 0) && objects < OBJECTS && (bin_use != 1 || open1) ->
        held = true
    };
    atomic {
        objects++;
        object[i] = objects;
        live[i] = true;
        held = false;
        if
        :: given[0] == 0 -> given_slot[0] = i; given_use[0] = bin_use; given[0] = objects
        :: true -> skip
        fi;
        if
        :: given[1] == 0 && given[0] != 0 -> given_slot[1] = i; given_use[1] = bin_use; given[1] = objects
        :: true -> skip
        fi
    }
}

/* The fast path if the word has no flag, else free_own. freed: the answer. */
inline free_own(i) {
    freed = false;
    w = word;
#ifdef WITHOUT_FLAG_AT_OWN_FREE
    if
    :: USE(w) == bin_use && ALIVE(USE(w)) ->
#else
    if
    :: w == bin_use && ALIVE(USE(w)) ->
#endif
       if
       :: atomic { live[i] -> live[i] = false; freed = true }
       :: else -> skip
       fi
    :: else ->
       if :: w & FOREIGN -> drain(false) :: true -> skip fi; /* every so many times only */
       w = word;
       if
       :: USE(w) != bin_use || (w & ZOMBIE) || !ALIVE(USE(w)) -> skip
       :: else ->
          b = 0;
#ifndef WITHOUT_PENDING
          if
          :: w & FOREIGN -> x = fw; b = (TAG(x) == tag && (BITS(x) & (1 << i)))
          :: else -> skip
          fi;
#endif
          if
          :: b -> skip
          :: else ->
             if
             :: atomic { live[i] -> live[i] = false; freed = true }
                if :: EMPTY -> release_slab() :: true -> skip fi
             :: else -> skip
             fi
          fi
       fi
    fi
}

#define AIMS_AT(i, k) (given[k] != 0 && given_slot[k] == (i) && !returned[k])
/* Whether the program may free the slot's object by the owner: no call of another thread is about that address. */
#define MAY_FREE(i) (where == IN_BIN && live[i] && !AIMS_AT(i, 0) && !AIMS_AT(i, 1) && ALIVE(bin_use))

inline free_one(i) {
    atomic { !held && MAY_FREE(i) -> held = true; o = object[i]; expect_no = foreign_freed[o] };
    free_own(i);
    assert(!(expect_no && freed)); /* a late double free is refused */
    drop()
}

/* By its handle: not live, then the word counted on and the bit off, then the slab. Nobody drains meanwhile. */
inline free_exactly(i) {
    atomic { !held && where == IN_BIN && live[i] && ALIVE(bin_use) -> held = true; o = object[i] };
    w = word;
    if
    :: USE(w) != bin_use || (w & ZOMBIE) || !ALIVE(USE(w)) -> skip
    :: else ->
       b = 0;
       if
       :: w & FOREIGN -> x = fw; b = (TAG(x) == tag && (BITS(x) & (1 << i)))
       :: else -> skip
       fi;
       if
       :: b -> assert(foreign_freed[o] || !ALIVE(bin_use))
       :: else ->
          atomic { assert(live[i] && object[i] == o); live[i] = false; freeing = o };
          atomic {
              freeing = 0;
              b = (TAG(fw) == tag && (BITS(fw) & (1 << i)));
#ifdef WITHOUT_BIT_AT_EXACT
              b = 0;
#endif
              if
              :: b -> assert(foreign_freed[o] || !ALIVE(bin_use))
              :: else ->
                 assert(!foreign_freed[o] || !ALIVE(bin_use)); /* freed twice */
                 exactly_freed[o] = true
              fi;
#ifdef WITHOUT_COUNT_AT_EXACT
              fw = fw & ~(1 << i)
#else
#ifdef WITHOUT_BIT_OFF_AT_EXACT
              fw = WORD(TAG(fw), COUNT(fw) + 1, BITS(fw))
#else
              fw = WORD(TAG(fw), COUNT(fw) + 1, BITS(fw) & ~(1 << i))
#endif
#endif
          };
          if :: EMPTY -> release_slab() :: true -> skip fi
       fi
    fi;
    drop()
}

/* ts_slab_claim, next_use, reset, ts_bin_add. Claims and resets hold nothing. */
inline acquire() {
    atomic { where == RETAINED && resets < RESETS -> where = CLAIMED; resets++; w = word };
    do
#ifndef WITHOUT_ZOMBIES
    :: atomic { (w & FOREIGN) ->
          if
          :: word == w -> assert(!(w & ZOMBIE)); word = w | ZOMBIE; where = ZOMBIE_SLAB; break
          :: else -> w = word
          fi }
    :: atomic { !(w & FOREIGN) ->
#else
    :: atomic { true ->
#endif
          if
          :: word == w -> word = 0; break
          :: else -> w = word
          fi }
    od;
    if
    :: where == CLAIMED ->
       atomic {
           assert(word == 0 && !queued && !popped); /* handed on while it is on a queue */
#ifndef WITHOUT_TAG
           tag++
#endif
       };
       atomic { live[0] = false; live[1] = false };
#if TAGGED
       fw = WORD(tag, 0, 0);
#endif
       hold();
       atomic {
           if
           :: !killed && open1 -> bin_use = 1
           :: ended -> bin_use = 2
           :: true -> bin_use = 3
           fi;
           word = bin_use; where = IN_BIN; held = false
       }
    :: else -> skip
    fi
}

proctype owner() {
    byte w, x, t, b, o, ops, resets;
    bool alive, freed, expect_no;
    do
    :: ops < OPS ->
       ops++;
       if
       :: allocate(0)
       :: allocate(1)
       :: free_one(0)
       :: free_one(1)
       :: free_exactly(0)
       :: free_exactly(1)
       :: atomic { !held && queued -> held = true }; drain(false); drop()
       :: acquire()
       :: true -> break
       fi;
       atomic { w = 0; x = 0; t = 0; b = 0; o = 0; alive = false; freed = false; expect_no = false }
    :: else -> break
    od;
    no_more = true;
    (returned[0] && returned[1] && (ended || !killed));
    /* Nothing runs any more: one drain finds all that is left. */
    hold();
    drain(false);
    assert(!queued && !popped && !(word & FOREIGN)); /* nobody would ever take it off again */
    assert(where != IN_BIN || word == bin_use || !ALIVE(bin_use));
    if
    :: where == IN_BIN && ALIVE(bin_use) ->
       assert(!(live[0] && foreign_freed[object[0]]));
       assert(!(live[1] && foreign_freed[object[1]]))
    :: else -> skip
    fi;
    drop()
}

/* ---- destroy -------------------------------------------------------------------------------------------------- */

proctype destroyer() {
    byte w, x, t, b;
    bool alive;
    if
    :: no_more -> goto done /* the epoch stays */
    :: true -> skip
    fi;
    open1 = false;
    killed = true; /* ts_block_kill */
    hold();
    drain(true);
    atomic { /* ts_block_end: its slabs are retained, their words as they were */
        if
        :: where == IN_BIN && bin_use == 1 -> where = RETAINED
        :: else -> skip
        fi;
        ended = true
    };
    drop();
done:
    skip
}

init {
    atomic {
        run thread(0);
        run thread(1);
        run owner();
        run destroyer()
    }
}
