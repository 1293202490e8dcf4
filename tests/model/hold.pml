/*
 * The threads that may touch the bins and the lists of a heap: its owner's fast paths (no fence, no lock), its owner's slow paths,
 * a thread that closes the epoch, and one that trims. One heap, one block; the owner has another one too, which stays open.
 *
 * The owner's stores go through a store buffer that is emptied in order, one store at a time, whenever the machine
 * likes (total store order): its in_op = 1 can reach the memory after its next loads. barrier_all empties the buffer at
 * one moment: membarrier does that, by an interrupt on the owner's processor. The others' stores go to the
 * memory at once: each is followed by a locked instruction before it matters (the lock, the key, the seq_cst store of
 * `revoked`). Weaker orders than this one: tests/model/orders, bracket.
 *
 * Slots are only counted. A slot that two threads move at once is lost or there twice: the sum tells.
 */
#ifndef OPS
#define OPS 1
#endif
#define BUFFER 6 /* a full one makes the processor wait */

/* Fields that the owner writes, in memory. CLOSING: ts_block.closing. TOKEN: 1 while the usual paths are the thread's; a caller
   it writes 0 over that. An operation looks at one word of three, which are written alike: the token, private_block and private_word. */
#define IN_OP 0
#define MAGAZINE 1
#define SLAB 2
#define UNITS 3
#define CLOSING 4
#define LIST 5 /* 1: a list of the heap is half changed */
#define TOKEN 6
#define OPEN_BLOCK 0
#define CLOSED 1
byte mem[7];

/* Written by others. */
bool open = true;     /* open_id: an allocation goes by it, and a look whether the block is shut */
bool key_open = true; /* key: a fast free goes by it */
bool revoked, locked; /* bit 0 of ts_heap.revoked; the heap's lock */
byte calls;           /* the rest of that word, modulo 4 */
byte answers;         /* modulo 4 */
bool listed;          /* the block is on the list of those that are left */

byte at[BUFFER], value[BUFFER], buffered;

/* Ghosts. */
byte live, given;
bool close_returned;
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
          buffered == 0; /* a locked instruction */
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

inline owner_flush() {
    load(MAGAZINE, r);
    load(SLAB, s);
    store(SLAB, s + r);
    atomic { s = 0; store(MAGAZINE, 0) }
}

/* ts_block_flush_if_shut */
inline flush_if_shut() {
    load(CLOSING, r);
    if
    :: r != CLOSED && !open -> store(CLOSING, CLOSED); owner_flush()
    :: else -> skip
    fi
}

/* At the end of each call that is no usual one: ts_heap_drain_inbox. */
inline answer() {
    if
    :: calls > 0 ->
       op_begin();
       if
       :: revoked -> skip /* the holder looks */
       :: else ->
          d_step { buffered == 0 -> calls = 0; answers = (answers + 1) % 4 };
          if
          :: d_step { buffered == 0 && listed -> listed = false }
             flush_if_shut()
          :: d_step { buffered == 0 && !listed -> skip }
          fi
       fi;
       op_end()
    :: else -> skip
    fi
}

/* ts_heap_bind */
inline bind() {
    store(TOKEN, 1);
#ifndef WITHOUT_REVOKED_AT_BIND
    if
    :: revoked || calls > 0 -> store(TOKEN, 0)
    :: else -> skip
    fi
#endif
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
    :: else -> flush_if_shut()
    fi;
    op_end();
    bind();
    answer()
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
       :: r == 0 && (revoked || calls > 0) -> skip
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

/* A usual call in the block that stays open. */
inline elsewhere() {
    op_begin();
    load(TOKEN, t);
    op_end();
    if
    :: !t -> slow()
    :: else -> skip
    fi
}

proctype owner() {
    byte ops, r, s, k, t;
    bool late;
    do
    :: ops < OPS ->
       ops++;
       if
       :: load(TOKEN, t); if :: t -> fast_alloc() :: else -> slow() fi
       :: load(TOKEN, t); if :: t -> fast_free() :: else -> slow() fi
       :: slow()
       :: break
       fi;
       r = 0; s = 0; t = 0; late = false
    :: else -> break
    od;
    buffered == 0;
    visitors == 0;
    /* Quiet: nothing is lost, nothing is there twice. */
    assert(mem[IN_OP] == 0 && !revoked && !locked);
    assert(mem[MAGAZINE] + mem[SLAB] + live + SLOTS_PER_UNIT * (mem[UNITS] + given) == TOTAL);
    assert(mem[CLOSING] != CLOSED || mem[MAGAZINE] == 0);
    /* The next call, of any kind, does the work that the closer had to leave. */
    elsewhere();
    buffered == 0;
    assert(mem[CLOSING] == CLOSED && mem[MAGAZINE] == 0 && !listed);
    assert(mem[MAGAZINE] + mem[SLAB] + live + SLOTS_PER_UNIT * (mem[UNITS] + given) == TOTAL)
}

/* ---- the others --------------------------------------------------------------------------------------------- */

inline barrier_all() {
#ifndef WITHOUT_BARRIER
    d_step { do :: buffered > 0 -> write_oldest() :: else -> break od }
#else
    skip
#endif
}

/* is_quiet. Giving up is possible whenever in_op is seen at 1. */
inline look() {
#ifdef WITHOUT_WAIT
    held = true
#else
    held = (mem[IN_OP] == 0)
#endif
}

/* hold and revoke; held: the answer. Nobody waits for the lock. */
inline hold(call) {
    do
    :: seen_answers = answers;
       seen = calls;
       if
       :: atomic { !locked -> locked = true }
#ifndef WITHOUT_REVOKED
          revoked = true;
#endif
          barrier_all();
          look();
          if
          :: held -> break
          :: else ->
#ifndef WITHOUT_CALL
             if
             :: call -> mem[TOKEN] = 0
             :: else -> skip
             fi;
#endif
             atomic { revoked = false; locked = false };
#ifndef WITHOUT_CALLED_AGAIN
             if
             :: calls == 0 || (call && calls == seen && answers == seen_answers) -> break
             :: else -> call = true
             fi
#else
             break
#endif
          fi
       :: locked -> held = false; break
       fi
    od;
    atomic { seen = 0; seen_answers = 0; call = false }
}

/* ts_heap_notify */
inline call_heap() {
    atomic { calls = (calls == 3 -> 1 : calls + 1); again = true };
    hold(again)
}

inline flush() {
    atomic { r = mem[CLOSING]; mem[CLOSING] = CLOSED };
    if
    :: r != CLOSED ->
       r = mem[MAGAZINE];
       atomic { mem[MAGAZINE] = 0; s = mem[SLAB] };
       mem[SLAB] = s + r
    :: else -> skip
    fi;
    atomic { r = 0; s = 0 }
}

/* ts_heap_run_posted, by another thread that holds the heap */
inline work_off() {
    assert(mem[LIST] == 0); /* the holder of the heap walks its lists; fork copies them */
    atomic { calls = 0; answers = (answers + 1) % 4 };
    if
    :: atomic { listed -> listed = false }
#ifndef WITHOUT_SECOND_BARRIER
       barrier_all();
       look();
#endif
       if
       :: held -> flush()
       :: else -> listed = true; calls = (calls == 3 -> 1 : calls + 1); mem[TOKEN] = 0
       fi;
       held = true
    :: !listed -> skip
    fi
}

/* ts_heap_drop */
inline drop() {
    do
    :: atomic { revoked = false; locked = false };
#ifdef WITHOUT_LOOK_AT_DROP
       break
#else
       if
       :: calls == 0 -> break
       :: else ->
          again = true;
          hold(again);
          if
          :: held -> work_off()
          :: else -> break
          fi
       fi
#endif
    od
}

/* ts_epoch_close: shut_blocks, flush_block */
proctype closer() {
    byte r, s, j, seen, seen_answers;
    bool held, again;
#ifdef WITHOUT_SHUT_FIRST
    hold(again);
#endif
#ifndef WITHOUT_KEY_FIRST
    key_open = false;
    open = false;
#else
    open = false;
    key_open = false;
#endif
#ifndef WITHOUT_SHUT_FIRST
    hold(again);
#endif
    if
    :: held -> flush(); drop()
    :: else ->
       listed = true;
       call_heap();
       if
       :: held -> work_off(); drop()
       :: else -> skip
       fi
    fi;
    atomic { close_returned = true; visitors-- }
}

/* ts_heap_visit */
proctype trimmer() {
    byte r, s, j, seen, seen_answers;
    bool held, again;
    hold(again);
    if
    :: held ->
       work_off();
       r = mem[UNITS]; /* give_retained */
       atomic { mem[UNITS] = 0; given = given + r; r = 0 };
       drop()
    :: else -> skip
    fi;
    visitors--
}

init {
    atomic {
        mem[MAGAZINE] = 0; mem[SLAB] = 2; mem[UNITS] = 1; live = 2; mem[TOKEN] = 1;
        run processor(); run owner(); run closer(); run trimmer()
    }
}
