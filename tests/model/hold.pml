/*
 * Who may touch the bins and the lists of a heap: its owner's fast paths (no fence, no lock), its owner's slow paths,
 * a thread that closes the epoch, and one that trims. One heap, one block.
 *
 * The owner's stores go through a store buffer that is emptied in order, one store at a time, whenever the machine
 * likes (total store order): its in_op = 1 can reach the memory after its next loads. barrier_all empties the buffer at
 * one moment: that is what membarrier does, by an interrupt on the owner's processor. The others' stores go to the
 * memory at once: each is followed by a locked instruction before it matters (the lock, the key, the seq_cst store of
 * `revoked`). Weaker orders than this one: tests/model/orders, bracket.
 *
 * Slots are only counted. A slot that two threads move at once is lost or there twice: the sum tells.
 */
#ifndef OPS
#define OPS 3
#endif
#define BUFFER 6 /* a full one makes the processor wait */

/* Fields that the owner writes, in memory. CLOSING: ts_block.closing. */
#define IN_OP 0
#define MAGAZINE 1
#define SLAB 2
#define UNITS 3
#define CLOSING 4
#define LIST 5 /* 1: a list of the heap is half changed */
#define OPEN_BLOCK 0
#define SHUT_SEEN 1
#define CLOSED 2
byte mem[6];

/* Written by others. */
bool open = true;     /* open_id: an allocation goes by it, and who looks whether the block is shut */
bool key_open = true; /* key: a fast free goes by it */
bool revoked, locked;

byte at[BUFFER], value[BUFFER], buffered;

/* Ghosts. */
byte live, given;
bool close_returned, owner_done;
byte visitors = 2;
#define SLOTS_PER_UNIT 2
#define TOTAL 6

/* ---- the owner's processor ------------------------------------------------------------------------------ */

inline store(v, x) {
    d_step { buffered < BUFFER -> at[buffered] = v; value[buffered] = x; buffered++ }
}

/* The newest of its own stores, else the memory. */
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

inline op_begin() { store(IN_OP, 1) }
inline op_end() { store(IN_OP, 0) }

/* ts_heap_enter */
inline enter() {
    do
    :: op_begin();
       if
#ifndef WITHOUT_REVOKED_AT_ENTER
       :: revoked ->
          op_end();
          atomic { !locked -> locked = true };
          locked = false
#endif
       :: else -> break
       fi
    od
}

/* ts_bin_claim: the heap must be held. */
inline claim() {
    load(SLAB, s);
    if
    :: s > 0 -> store(LIST, 1); store(SLAB, 0); store(MAGAZINE, s - 1); store(LIST, 0); live++
    :: else -> skip
    fi
}

inline fast_alloc() {
    late = close_returned;
    op_begin();
    if
#ifndef WITHOUT_OPEN_AT_ALLOC
    :: !open -> skip
#endif
    :: else ->
       assert(!late); /* an allocation after the close */
       load(MAGAZINE, r);
       if
       :: r > 0 -> store(MAGAZINE, r - 1); live++
#ifndef WITHOUT_REVOKED_AT_CLAIM
       :: r == 0 && revoked -> skip
#endif
       :: else -> if :: r == 0 -> claim() :: else -> skip fi
       fi
    fi;
    op_end()
}

inline fast_free() {
    op_begin();
    if
    :: live > 0 && key_open -> load(MAGAZINE, r); store(MAGAZINE, r + 1); live--
    :: else -> skip
    fi;
    op_end()
}

inline owner_flush() {
    load(MAGAZINE, r);
    load(SLAB, s);
    store(SLAB, s + r);
    store(MAGAZINE, 0)
}

/* churn_try and free_own: a unit for the slab, or the flush that a closer left. */
inline slow() {
    enter();
    if
    :: open ->
       load(UNITS, r);
       if
       :: r > 0 -> store(UNITS, r - 1); load(SLAB, s); store(SLAB, s + SLOTS_PER_UNIT)
       :: else -> skip
       fi
    :: else ->
       load(CLOSING, r);
       if
       :: r != CLOSED -> store(CLOSING, CLOSED); owner_flush()
       :: else -> skip
       fi
    fi;
    op_end()
}

proctype owner() {
    byte ops, r, s, k;
    bool late;
    do
    :: ops < OPS ->
       ops++;
       if
       :: fast_alloc()
       :: fast_free()
       :: slow()
       :: break
       fi;
       r = 0; s = 0; late = false
    :: else -> break
    od;
    buffered == 0;
    visitors == 0;
    /* Quiet: nothing is lost, nothing is there twice. What a closer had to leave is the owner's to do. */
    assert(mem[IN_OP] == 0 && !revoked && !locked);
    assert(mem[MAGAZINE] + mem[SLAB] + live + SLOTS_PER_UNIT * (mem[UNITS] + given) == TOTAL);
    assert(mem[CLOSING] != CLOSED || mem[MAGAZINE] == 0)
}

/* ---- the others --------------------------------------------------------------------------------------------- */

inline barrier_all() {
#ifndef WITHOUT_BARRIER
    d_step { do :: buffered > 0 -> write_oldest() :: else -> break od }
#else
    skip
#endif
}

/* ts_heap_hold and revoke; held: the answer. Giving up is possible whenever in_op is seen at 1. */
inline hold() {
    atomic { !locked -> locked = true };
#ifndef WITHOUT_REVOKED
    revoked = true;
#endif
    barrier_all();
#ifdef WITHOUT_WAIT
    held = true;
#else
    do
    :: mem[IN_OP] == 0 -> held = true; break
    :: mem[IN_OP] == 1 -> held = false; break
    od;
#endif
    if
    :: !held -> revoked = false; locked = false
    :: else -> skip
    fi
}

inline drop() { revoked = false; locked = false }

inline flush() {
    r = mem[MAGAZINE];
    mem[MAGAZINE] = 0;
    s = mem[SLAB];
    mem[SLAB] = s + r
}

/* ts_epoch_close: shut_blocks, flush_block */
proctype closer() {
    byte r, s, j;
    bool held;
#ifdef WITHOUT_SHUT_FIRST
    hold();
#endif
#ifndef WITHOUT_KEY_FIRST
    key_open = false;
    open = false;
#else
    open = false;
    key_open = false;
#endif
#ifndef WITHOUT_SHUT_FIRST
    hold();
#endif
    if
    :: held ->
       r = mem[CLOSING];
       mem[CLOSING] = CLOSED;
       if :: r != CLOSED -> flush() :: else -> skip fi;
       drop()
    :: else -> skip
    fi;
    close_returned = true;
    visitors--
}

/* ts_heap_visit */
proctype trimmer() {
    byte r, s, j, again;
    bool held;
    do
    :: hold();
       if
       :: !held -> break
       :: else ->
          assert(mem[LIST] == 0); /* whoever holds the heap walks its lists; fork copies them */
          r = mem[UNITS]; /* give_warm */
          mem[UNITS] = 0;
          given = given + r;
          r = mem[CLOSING];
          again = false;
          if
          :: skip /* `unflushed` does not say that a block was missed */
          :: r == SHUT_SEEN -> mem[CLOSING] = CLOSED; flush()
          :: r == OPEN_BLOCK && !open ->
#ifdef WITHOUT_SECOND_HOLD
             mem[CLOSING] = CLOSED; flush()
#else
             mem[CLOSING] = SHUT_SEEN; again = true
#endif
          :: else -> skip
          fi;
          drop();
          if :: again -> skip :: else -> break fi
       fi
    od;
    visitors--
}

init {
    atomic {
        mem[MAGAZINE] = 1; mem[SLAB] = 1; mem[UNITS] = 1; live = 2;
        run processor(); run owner(); run closer(); run trimmer()
    }
}
