/*
 * One record of the table of domains, used again and again: threads that enter a domain by an id, which may be over, against threads that
 * end it from outside, hand it over, take it over, free its allocator, and begin the next domain in the record (src/core/domain/enter.c: "Entering
 * against an end from another thread").
 *
 * An owner counts with a load and a store. These stores go through a buffer, and reach the memory at any later moment, but before the same
 * thread's next locked instruction, and before a barrier_all. All else is sequentially consistent.
 */
#ifndef THREADS
#define THREADS 2
#endif
#ifndef OPS
#define OPS 4
#endif
#ifndef USES
#define USES 3
#endif
#define BUFFER 3
#define SHARED 0 /* an owner: a thread is 1 + its number */
#define ENDING 15
#define NOBODY(use) (8 + (use))

/* The record. */
byte id, uses, owner, owner_before;
bool shared;
mtype = { QUIET, MARKED, ENDS, ENDS_ALONE }; /* MARKED: TRIED, too; a thread that meets it is refused, or waits and tries once more, which is another try here */
mtype busy = QUIET;
byte busy_by;
byte inside; /* in memory */
byte guests_use, guests;
bool guests_left;
bool lock, tree; /* of its epoch, of the tree */
bool is_free = true;
bool returned[THREADS], left_behind;
bool ended[THREADS]; /* the thread */

byte value[THREADS * BUFFER], buffered[THREADS];

/* Ghosts: of which use a thread is trying to get in, or is in, or has stored a count last; the uses that ended though somebody was in: their allocator
   was freed. */
byte trying[THREADS], in[THREADS], wrote[THREADS];
bool forced[USES + 1];
byte running = THREADS;

inline write_all(p) {
    d_step {
        if
        :: buffered[p] > 0 -> inside = value[p * BUFFER + buffered[p] - 1]; buffered[p] = 0
        :: else
        fi
    }
}
inline store(p, x) { d_step { buffered[p] < BUFFER -> wrote[p] = mine; value[p * BUFFER + buffered[p]] = x; buffered[p]++ } }
#define loaded(p) (buffered[p] > 0 -> value[(p) * BUFFER + buffered[p] - 1] : inside)

/* The oldest store of one of them reaches the memory. */
proctype processor(byte p) {
end:
    do
    :: d_step {
           buffered[p] > 0 ->
           inside = value[p * BUFFER];
           value[p * BUFFER] = value[p * BUFFER + 1];
           value[p * BUFFER + 1] = value[p * BUFFER + 2];
           buffered[p]--
       }
    od
}

inline acquire(l) { atomic { !l -> l = true; write_all(p) } }

/* By way of the table, whose lock is taken. */
inline give() { atomic { assert(!is_free && id == 0); is_free = true; write_all(p) } }

inline keep_own() {
    if
    :: loaded(p) != 0 -> left_behind = true
    :: else -> give()
    fi
}

/* end_use; caller has the epoch's lock */
inline end_use(use) {
    atomic {
        g = 0;
        do
        :: g < THREADS -> assert(in[g] != use || forced[use]); g++ /* ended with somebody inside */
        :: else -> break
        od;
        g = 0;
        id = 0
    };
    if
    :: shared ->
#ifdef WITHOUT_LEFT
       if
       :: guests == 0 -> give()
       :: else -> guests_left = true
       fi
#else
       atomic { guests_left = true; x = guests; write_all(p) };
       if
       :: x == 0 -> give()
       :: else
       fi
#endif
    :: else ->
       /* last_owner */
       x = owner_before;
       owner_before = 0;
       if
       :: x == 0 && owner != 1 + p ->
          atomic { x = owner; owner = ENDING; write_all(p) } /* see `owner` in orders */
       :: else
       fi;
       if
       :: x == 0 || x == 1 + p -> keep_own()
#ifndef WITHOUT_RETURN
       :: x > 1 + p && x <= THREADS && !ended[x - 1] -> returned[x - 1] = true
       :: x > 0 && x < 1 + p && !ended[x - 1] -> returned[x - 1] = true
       :: x > 0 && x <= THREADS && x != 1 + p && ended[x - 1] -> give()
#else
       :: x > 0 && x <= THREADS && x != 1 + p -> give()
#endif
       :: x > THREADS -> give()
       fi
    fi
}

inline count_out() {
    if
    :: shared ->
       atomic { assert(guests > 0); guests--; x = guests; b = guests_left; write_all(p) };
       if
       :: b && x == 0 -> give()
       :: else
       fi
    :: else ->
       x = loaded(p);
       store(p, x - 1);
       if
       :: left_behind && loaded(p) == 0 -> left_behind = false; give()
       :: else
       fi
    fi;
    b = false
}

/* count_in_shared */
inline count_in_shared() {
    do
    :: atomic {
#ifdef WITHOUT_TAG
           true -> if
#ifdef WITHOUT_LEFT
                   :: guests++; got = true
#else
                   :: !guests_left -> guests++; got = true
                   :: else
#endif
                   fi
#else
           true -> if
#ifdef WITHOUT_LEFT
                   :: guests_use == mine -> guests++; got = true
#else
                   :: guests_use == mine && !guests_left -> guests++; got = true
#endif
                   :: else
                   fi
#endif
       };
       break
    od;
    if
    :: !got
#ifndef WITHOUT_LOOK_AT_BUSY
    :: got && (busy == MARKED || busy == ENDS_ALONE) -> got = false; count_out()
    :: got && busy != MARKED && busy != ENDS_ALONE
#else
    :: got
#endif
    fi
}

inline count_in_own() {
    x = loaded(p);
    store(p, x + 1);
    if
    :: owner == 1 + p -> got = true
#ifdef WITHOUT_LOOK_AT_OWNER
    :: else -> got = true
#else
    :: else -> x = loaded(p); store(p, x - 1)
#endif
    fi
}

/* ts_domain_enter */
inline enter() {
    got = false;
    trying[p] = mine;
    if
    :: id != mine -> skip
    :: else ->
       s = shared;
       if
       :: s || owner == 1 + p -> got = true
       :: else -> /* take_own */
          atomic {
              if
              :: owner == NOBODY(mine) -> owner = 1 + p; got = true
              :: else
              fi;
              write_all(p)
          }
       fi;
       if
       :: got && id == mine ->
          got = false;
          if
          :: s -> count_in_shared()
          :: else -> count_in_own()
          fi;
          if
          :: got ->
             atomic {
                 if
#ifndef WITHOUT_LOOK_AT_ID
                 :: id == mine -> in[p] = mine
#else
                 :: true -> assert(id == mine); in[p] = mine
#endif
                 :: id != mine -> got = false
                 fi
             };
             if
             :: in[p] == 0 -> count_out()
             :: else
             fi
          :: else
          fi
       :: else
       fi
    fi;
    trying[p] = 0;
    got = false;
    s = false
}

inline leave() {
    atomic { in[p] = 0; trying[p] = mine }; /* counted yet */
    count_out();
    trying[p] = 0
}

/* ts_domain_end, from outside: mark_all, then make_busy and the end */
inline end() {
    acquire(tree);
    acquire(lock);
    if
    :: id == mine && busy == QUIET ->
       busy_by = p;
#ifdef WITHOUT_EXCHANGE
       x = owner;
       if
       :: !shared && x != 1 + p -> owner = ENDING
       :: else
       fi;
#else
       atomic {
           x = owner;
           if
           :: !shared && x != 1 + p -> owner = ENDING
           :: else
           fi
       };
#endif
       owner_before = x;
       busy = MARKED;
       lock = false;
#ifndef WITHOUT_BARRIER
       d_step { /* of all threads */
           g = 0;
           do
           :: g < THREADS -> write_all(g); g++
           :: else -> break
           od;
           g = 0
       };
#endif
       atomic {
           got = (shared -> guests == 0 : loaded(p) == 0);
           if
           :: !got -> /* EBUSY: because of a thread that is inside of this domain, or about to be */
              g = 0;
              do
              :: g < THREADS && (g == p || (in[g] != mine && trying[g] != mine && (buffered[g] == 0 || wrote[g] != mine))) -> g++
              :: else -> break
              od;
              assert(g < THREADS);
              g = 0
           :: else
           fi
       };
       acquire(lock);
       if
       :: got ->
          if
          :: !shared -> owner = 1 + p
          :: else
          fi
       :: else ->
          x = owner_before;
          owner_before = 0;
          busy = QUIET;
          if
          :: !shared -> owner = x
          :: else
          fi
       fi;
       lock = false;
       tree = false;
       if
       :: got ->
          acquire(lock);
#ifdef WITHOUT_ENDS_ALONE
          busy = ENDS;
#else
          busy = ENDS_ALONE;
#endif
          lock = false;
          acquire(lock);
          if
          :: end_use(mine)
          :: x = owner_before; /* make_endable: a cleanup has not returned */
             owner_before = 0;
             busy = QUIET;
             if
             :: !shared -> owner = x
             :: else
             fi
          fi;
          lock = false
       :: else
       fi
    :: else -> lock = false; tree = false
    fi;
    got = false
}

/* The allocator is freed, also with threads inside (ts_domain_destroy_all). */
inline free_all() {
    acquire(lock);
    if
    :: id == mine && busy == QUIET ->
       busy = ENDS;
       lock = false;
       acquire(lock);
       forced[mine] = true;
       end_use(mine)
    :: else
    fi;
    lock = false
}

/* begin_domain */
inline begin_use(whose) {
    s = (whose == SHARED);
    shared = s;
    owner = whose;
    busy = QUIET;
    if
    :: s -> atomic { guests_use = uses + 1; guests_left = false; assert(guests == 0) }
    :: else -> assert(inside == 0 && buffered[p] == 0)
    fi;
    atomic { uses++; id = uses };
    s = false
}

proctype thread(byte p) {
    byte n, mine, x, g;
    bool got, s, b;
    do
    :: n < OPS ->
       n++;
       /* ts_domain_collect_returned: in every call off the usual paths */
       if
       :: returned[p] -> returned[p] = false; keep_own()
       :: true
       fi;
       if
       :: atomic { id != 0 -> mine = id }
       :: mine != 0
       :: id == 0 && mine == 0
       fi;
       if
       :: mine != 0 -> enter();
          if
          :: in[p] != 0 -> leave()
          :: else
          fi
       :: mine != 0 -> end()
#ifdef FREES
       :: mine != 0 -> free_all()
#endif
       :: atomic { uses < USES && is_free -> is_free = false; write_all(p) };
          if
          :: begin_use(1 + p)
          :: begin_use(SHARED)
          fi
       :: mine != 0 && id == mine && owner == 1 + p && busy == QUIET -> /* ts_domain_hand_over */
          atomic {
              if
              :: owner == 1 + p -> owner = NOBODY(mine)
              :: else
              fi;
              write_all(p)
          }
       :: true
       fi
    :: break
    od;
    /* thread_exit */
    if
    :: returned[p] -> returned[p] = false; keep_own()
    :: else
    fi;
    atomic { write_all(p); ended[p] = true; running--;
        if
        :: running == 0 ->
           assert(inside == 0 && guests == 0);
           /* one that was pushed as its thread ended is the heap's next one's */
           assert(id != 0 || is_free || returned[0] || returned[THREADS - 1] || (THREADS > 2 && returned[1]))
        :: else
        fi
    }
}

init {
    byte t;
    atomic {
        do
        :: t < THREADS -> run thread(t); run processor(t); t++
        :: else -> break
        od
    }
}
