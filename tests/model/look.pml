/*
 * ts_fast_look: the thread of an open block looks at a pointer without an operation, so without keeping anybody from its heap. Against a
 * foreign free, a close or destroy of the epoch, a trim, and the slab's next use by another thread. One slab of one slot, one object.
 *
 * WORD is whose the slab is: 0 nobody's, MINE, MINE with FLAG while a foreign free is on its way, OTHERS. key: the block is open to its
 * thread. The owner's free is an operation: it does not run while another thread holds the heap.
 */
#ifndef LOOKS
#define LOOKS 3
#endif

#define NOBODYS 0
#define MINE 1
#define FLAGGED 2
#define OTHERS 3

byte word = MINE;
bool key = true, state = true, pending, held, in_op;
bool retained; /* the slab is on a retained list */

/* Ghosts. */
bool live = true; /* the object that the pointer is of */
bool quiet = true; /* nobody but the owner has done anything */

/* ---- the owner --------------------------------------------------------------------------------------------- */

/* was: live when it began, so any answer is right; else only no. */
inline look() {
    d_step { was = live; yes = false }
    w = word;
    if
#ifndef WITHOUT_KEY
    :: w != MINE || !key -> skip
    :: w == MINE && key ->
#else
    :: w != MINE -> skip
    :: w == MINE ->
#endif
#ifndef WITHOUT_STATE
       s = state;
#else
       s = true;
#endif
       if
#ifndef WITHOUT_SECOND_LOOK
       :: s && word == w -> yes = true
       :: s && word != w -> skip
#else
       :: s -> yes = true
#endif
       :: !s -> skip
       fi
    fi;
    assert(!yes || was);
    assert(yes || !was || !quiet);
    d_step { w = 0; s = false; was = false; yes = false }
}

/* ts_fast_free, with the bracket of hold.pml. */
inline free() {
    atomic { !held -> in_op = true };
    if
    :: word == MINE && key && state -> d_step { state = false; live = false }
    :: else -> skip
    fi;
    in_op = false
}

proctype owner() {
    byte n, w;
    bool s, was, yes;
    do
    :: n < LOOKS -> n++; if :: look() :: free() fi
    :: else -> break
    od
}

/* ---- the others --------------------------------------------------------------------------------------------- */

inline hold() { atomic { !held && !in_op -> held = true; quiet = false } }

/* foreign.c, 4 to 7. The object is dead when the free returns. */
proctype foreign() {
end:
    atomic { word == MINE && state && live && !pending -> pending = true; quiet = false };
    atomic {
        if
#ifndef WITHOUT_FLAG
        :: word == MINE -> word = FLAGGED
#endif
        :: else -> skip
        fi;
        live = false
    }
}

/* take_slab, of a block that is closing: the flag goes first (b), then the state (d), then the bit (e). */
inline drain() {
    if
    :: word == FLAGGED ->
       word = MINE;
       if
       :: pending -> state = false; pending = false
       :: else -> skip
       fi
    :: else -> skip
    fi
}

/* Takes the empty slab out of the block: ts_slab_claim, or the release of an empty slab. */
inline release() {
    atomic {
        if
        :: word == MINE && !state ->
#ifndef WITHOUT_CLAIM
           word = NOBODYS;
#endif
           retained = true
        :: else -> skip
        fi
    }
}

/* A trim, which leaves the block open; it drains nothing of it. */
proctype trim() {
    hold();
    release();
    held = false
}

/* epoch_close. */
proctype close() {
#ifndef WITHOUT_SHUT_FIRST
    atomic { key = false; quiet = false };
    hold();
    drain();
#else
    hold();
    drain();
    key = false;
#endif
    if :: !retained -> release() :: else -> skip fi;
    held = false
}

/* epoch_destroy: all is dead with the key, and the slab goes as it is; the thread that takes it claims it. */
proctype destroy() {
    atomic { key = false; live = false; quiet = false };
    hold();
    if
    :: atomic { !retained && word == MINE -> retained = true }
    :: atomic { !retained && word == FLAGGED -> word = NOBODYS; retained = true } /* a zombie, off its queue */
    :: else -> skip
    fi;
    held = false
}

/* Another thread takes the slab, and allocates at the same place. */
proctype taker() {
end:
    atomic { retained -> retained = false };
#ifndef WITHOUT_CLAIM
    word = NOBODYS;
#endif
    state = false;
#ifdef WITHOUT_CLAIM
    state = true;
#endif
    word = OTHERS;
    state = true;
    state = false
}

init {
    atomic {
        run owner();
        run foreign();
        run trim();
        run taker();
        if
        :: run close()
        :: run destroy()
        fi
    }
}
