/*
 * A ranked lock: a word, and the sleep of a thread that finds it taken (src/core/os/lock.c; park.c is a futex here). Three threads take it
 * twice each. A sleeper may wake for no reason; waking wakes any one of those that are asleep then. That nobody sleeps for
 * ever is the absence of an invalid end state.
 */
#ifndef TIMES
#define TIMES 2
#endif
#define THREADS 3

mtype = { FREE, HELD, WAITED };
mtype word = FREE;
bool asleep[THREADS];
byte inside; /* ghost */

/* ts_unpark */
inline unpark() {
    atomic {
        if
        :: asleep[0] -> asleep[0] = false
        :: asleep[1] -> asleep[1] = false
        :: asleep[2] -> asleep[2] = false
        :: !asleep[0] && !asleep[1] && !asleep[2] -> skip
        fi
    }
}

/* ts_park: looks at the word and falls asleep in one step */
inline park(me) {
    atomic {
#ifdef WITHOUT_VALUE
        asleep[me] = true
#else
        if
        :: word == WAITED -> asleep[me] = true
        :: else
        fi
#endif
    };
    if
    :: !asleep[me]
    :: atomic { asleep[me] && spurious > 0 -> spurious--; asleep[me] = false }
    fi
}

/* ts_lock_acquire, take_waiting */
inline acquire(me) {
    if
    :: atomic { word == FREE -> word = HELD }
    :: atomic { word != FREE -> skip }; /* at the moment of the compare-and-swap */
        do
        :: atomic {
               seen = word;
#ifdef WITHOUT_WAITED_AFTER_SLEEP
               if
               :: seen == FREE -> word = HELD
               :: else -> word = WAITED
               fi
#else
               word = WAITED
#endif
           };
           if
           :: seen == FREE -> break
           :: else
           fi;
           park(me)
#ifdef WITHOUT_SECOND_LOOK
           ; break
#endif
        od
    fi
}

/* ts_lock_release, give */
inline release() {
    atomic { seen = word; word = FREE };
    if
#ifdef WITHOUT_WAKE
    :: seen == WAITED -> skip
#else
    :: seen == WAITED -> unpark()
#endif
    :: else
    fi
}

byte spurious = 1;

proctype thread(byte me) {
    mtype seen;
    byte n;
    for (n : 1 .. TIMES) {
        acquire(me);
        inside++;
        assert(inside == 1);
        inside--;
        release()
    }
}

init {
    atomic {
        run thread(0);
        run thread(1);
        run thread(2)
    }
}
