/*
 * The end of the process: all objects that wait and all that live are looked at. The first fault of a live object is
 * told, in one line. That ends the program only where TSLAB_ON_MISUSE=abort asks for it: other threads may go on, and
 * the program was done.
 *
 * Invariants
 *  1. From before the look at what lives on nothing more becomes inaccessible (ts_hard_large_keep_accessible). So an
 *     object can end while it is looked at, and its place be another's, but its bytes can be read.
 *  2. A fault counts if the word of the object, and the life of its place, are the same after the look as before it:
 *     the object lived all the while, and was not resized, as from then on it moves (ts_hard_looks_at_all). (Another
 *     one of the same place and size has the same word, and so has an object that grows and shrinks.)
 */
#include "malloc/hard_parts.h"

static bool tell_first(void *object, size_t bytes, void *arg) {
    (void)bytes, (void)arg;
    const char *fault = ts_hard_fault_of_live(object);
    if (!fault) return true;
    if (ts_hard_has(TS_HARDEN_ABORT))
        ts_hard_tell("exit", object, fault);
    else
        ts_private_report(ts_target_allocator(&ts_hard), "exit", object, fault);
    return false;
}

TS_AT_END static void look_at_all(void) {
    if (!ts_is_hard()) return;
    ts_hard_wait_look();
    if (!ts_hard_has(TS_HARDEN_CANARY) || !ts_hard_large_keep_accessible()) return;
    (void)slab_walk(ts_target_allocator(&ts_hard), ts_target_epoch(&ts_hard), tell_first, NULL);
}
