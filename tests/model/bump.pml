/*
 * The bracket of an allocation in a scope, which begins with in_op = at and ends with the store that moves the bump pointer on:
 * against a thread that ends the block and one that only holds the heap. One heap, one block, two slabs.
 *
 * The owner's stores go through a store buffer, as in hold.pml; places of bump are 1 to 3 in the first slab, 11 to 13 in the
 * second, 0 is none. STARTS is the place of the newest object, and of none in a slab one below its first place; so outside of an
 * allocation bump is STARTS + 1.
 */
#ifndef OPS
#define OPS 3
#endif
#define BUFFER 6
#define ROOM 2 /* objects a slab */
#define SECOND 11

#define IN_OP 0
#define BUMP 1
#define STARTS 2
#define SCOPE 3 /* 1: the thread's scope is the block, 0: none, whose bump is 0 */
#define LIST 4  /* 1: a list of the heap is half changed */
byte mem[5];

#define AT 20 /* in_op is AT + place, 1 or 0 */

bool open = true, revoked, locked;
byte at[BUFFER], value[BUFFER], buffered;

/* Ghosts. */
bool ended;
byte visitors = 2;

inline store(v, x) {
    d_step { buffered < BUFFER -> at[buffered] = v; value[buffered] = x; buffered++ }
}

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

/* ---- the owner --------------------------------------------------------------------------------------------- */

/* alloc_other: the next slab, inside of the same operation, or of one that begins here. */
inline other() {
#ifndef WITHOUT_OP_AT_RENEW
    store(IN_OP, 1);
#endif
    if
#ifndef WITHOUT_OPEN_AT_RENEW
    :: !open -> skip
#endif
#ifndef WITHOUT_REVOKED_AT_RENEW
    :: revoked -> skip
#endif
    :: else ->
       assert(!late);
       if
       :: r < SECOND -> store(LIST, 1); store(STARTS, SECOND - 1); store(BUMP, SECOND); store(LIST, 0)
       :: else -> skip
       fi
    fi;
    store(IN_OP, 0)
}

/* slab_alloc */
inline alloc() {
    late = ended;
    load(SCOPE, s);
    if :: s == 1 -> load(BUMP, r) :: else -> r = 0 fi;
#ifndef WITHOUT_BRACKET
    store(IN_OP, (r == 0 -> 0 : AT + r));
#endif
    if
    :: s == 0 -> /* the thread's scope is none, which is never open: another operation (alloc_counted), or none before the next */
       if
       :: store(IN_OP, 1); store(IN_OP, 0)
       :: skip
       fi
    :: s == 1 ->
       if
#ifndef WITHOUT_OPEN
       :: !open -> other()
#endif
       :: else ->
          if
          :: r == 0 || r % 10 > ROOM -> other()
          :: else -> assert(!late); store(STARTS, r); store(BUMP, r + 1)
          fi
       fi
    fi
}

/* Any other operation: ts_op_begin, ts_op_end. */
inline operation() { store(IN_OP, 1); store(IN_OP, 0) }

proctype owner() {
    byte ops, r, s, k;
    bool late;
    do
    :: ops < OPS ->
       ops++;
       if
       :: alloc()
       :: operation()
       :: load(SCOPE, s); store(SCOPE, 1 - s) /* epoch_domain_exit, epoch_domain_enter */
       :: break
       fi;
       r = 0; s = 0; late = false
    :: else -> break
    od;
    buffered == 0;
    visitors == 0;
    assert(!revoked && !locked && mem[LIST] == 0);
    assert(!ended || mem[BUMP] == 0); /* nothing was written to a block that had ended */
    /* The heap of a sleeping thread can be held. */
    assert(mem[IN_OP] == 0 || (mem[IN_OP] > 1 && mem[IN_OP] - AT != (mem[SCOPE] == 1 -> mem[BUMP] : 0)))
}

/* ---- the others --------------------------------------------------------------------------------------------- */

inline barrier_all() {
#ifndef WITHOUT_BARRIER
    d_step { do :: buffered > 0 -> write_oldest() :: else -> break od }
#else
    skip
#endif
}

/* ts_is_in_op; held: that it is not. */
inline ask() {
    a = mem[IN_OP];
    if
    :: a == 0 -> held = true
    :: a == 1 -> held = false
    :: else ->
       s = mem[SCOPE];
       r = (s == 1 -> mem[BUMP] : 0);
       if
#ifndef WITHOUT_BUMP
       :: r == a - AT -> held = false
#endif
       :: else ->
          held = true
       fi
    fi;
    a = 0; r = 0; s = 0
}

/* ts_heap_hold and revoke; giving up is possible whenever the thread seems to be inside. */
inline hold() {
    atomic { !locked -> locked = true };
    revoked = true;
    barrier_all();
    ask();
    if
    :: !held -> revoked = false; locked = false
    :: else -> skip
    fi
}

inline drop() { revoked = false; locked = false }

/* epoch_destroy by another thread. */
proctype ender() {
    byte r, s, j, a;
    bool held;
    open = false;
    hold();
    if
    :: held ->
       assert(mem[LIST] == 0);
       assert(mem[BUMP] == 0 || mem[BUMP] == mem[STARTS] + 1); /* no object is half made */
       mem[BUMP] = 0;
       ended = true;
       drop()
    :: else -> skip
    fi;
    visitors--
}

/* ts_heap_visit: of an open block it touches nothing, of one that was shut before it all. */
proctype visitor() {
    byte r, s, j, a;
    bool held, shut;
    shut = !open;
    hold();
    if
    :: held ->
       assert(mem[LIST] == 0);
       assert(!shut || mem[BUMP] == 0 || mem[BUMP] == mem[STARTS] + 1);
       if :: shut -> mem[BUMP] = 0; ended = true :: else -> skip fi;
       drop()
    :: else -> skip
    fi;
    visitors--
}

init {
    atomic {
        if
        :: mem[BUMP] = 1 /* a slab without an object */
        :: mem[BUMP] = 0; mem[STARTS] = 0 /* no slab */
        fi;
        mem[SCOPE] = 1;
        run processor(); run owner(); run ender(); run visitor()
    }
}
