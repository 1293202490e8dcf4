/*
 * A ranked lock: a word, and a condition variable for who finds it taken (src/base/lock.c). Three threads take it twice each. A
 * sleeper may wake for no reason; a signal wakes any one of those that are asleep then. That nobody sleeps for ever is the
 * absence of an invalid end state.
 */
#ifndef TIMES
#define TIMES 2
#endif
#define THREADS 3

mtype = { FREE, HELD, WAITED };
mtype word = FREE;
bool mutex;
bool asleep[THREADS];
byte inside; /* ghost */

/* pthread_mutex_lock */
inline take_mutex() { atomic { !mutex -> mutex = true } }

/* pthread_cond_signal */
inline signal() {
    atomic {
        if
        :: asleep[0] -> asleep[0] = false
        :: asleep[1] -> asleep[1] = false
        :: asleep[2] -> asleep[2] = false
        :: !asleep[0] && !asleep[1] && !asleep[2] -> skip
        fi
    }
}

/* ts_lock_acquire, take_waiting */
inline acquire(me) {
    if
    :: atomic { word == FREE -> word = HELD }
    :: atomic { word != FREE -> skip }; /* at the moment of the compare-and-swap */
        take_mutex();
        do
        :: atomic {
               seen = word;
#ifdef WITHOUT_WAITED
               if
               :: seen == FREE -> word = HELD
               :: else -> skip
               fi
#else
#ifdef WITHOUT_WAITED_AFTER_SLEEP
               if
               :: seen == FREE -> word = HELD
               :: else -> word = WAITED
               fi
#else
               word = WAITED
#endif
#endif
           };
           if
           :: seen == FREE -> break
           :: else
           fi;
           /* pthread_cond_wait: gives the mutex up and sleeps in one step */
           atomic { mutex = false; asleep[me] = true };
           if
           :: !asleep[me]
           :: atomic { asleep[me] && spurious > 0 -> spurious--; asleep[me] = false }
           fi;
#ifdef WITHOUT_SECOND_LOOK
           take_mutex();
           break
#else
           take_mutex()
#endif
        od;
        mutex = false
    fi
}

/* ts_lock_release, wake */
inline release() {
    atomic { seen = word; word = FREE };
    if
#ifdef WITHOUT_SIGNAL
    :: seen == WAITED -> skip
#else
    :: seen == WAITED ->
#ifndef WITHOUT_MUTEX_TO_WAKE
        take_mutex();
#endif
        signal();
#ifndef WITHOUT_MUTEX_TO_WAKE
        mutex = false
#endif
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
