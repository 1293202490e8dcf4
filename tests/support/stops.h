/* Places at which a test lets something else happen, in a source that it compiles once more or in a call of its own. */
#ifndef SUP_STOPS_H
#define SUP_STOPS_H

#include <stdbool.h>
#include <stddef.h>

/* One kind of place: fn is called there once, when the thread has passed by so many times. NULL: it is not armed. */
typedef struct sup_stop {
    void (*fn)(void);
    unsigned passes;
} sup_stop;

static inline void sup_stop_arm(sup_stop *stop, unsigned passes, void (*fn)(void)) { *stop = (sup_stop){fn, passes}; }

/* Whether the place was reached. Nothing happens there from here on. A place that was reached is not written: another
   thread may be passing it. */
static inline bool sup_stop_disarm(sup_stop *stop) {
    bool reached = stop->fn == NULL;
    if (!reached) stop->fn = NULL;
    return reached;
}

static inline void sup_stop_here(sup_stop *stop) {
    void (*fn)(void) = stop->fn;
    if (fn && stop->passes-- == 0) {
        stop->fn = NULL;
        fn();
    }
}

#endif
