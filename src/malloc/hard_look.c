/*
 * The end of the process: all objects that wait and all that live are looked at. The first fault of a live object is
 * told, in one line. That ends the program only where TSLAB_ON_MISUSE=abort asks for it: other threads may go on, and
 * the program was done.
 *
 * Invariants
 *  1. From before the look at what lives on nothing more becomes inaccessible (tm_hard_large_keep_accessible). So an
 *     object can end while it is looked at, and its place be another's, but its bytes can be read.
 *  2. A fault counts if the word of the object, and the life of its place, are the same after the look as before it:
 *     the object lived all the while, and was not resized, as from then on it moves (tm_hard_looks_at_all). (Another
 *     one of the same place and size has the same word, and so has an object that grows and shrinks.)
 */
#include "malloc/hard_parts.h"

static bool tell_first(void *object, size_t bytes, void *arg) {
    (void)bytes, (void)arg;
    const char *fault = tm_hard_fault_of_live(object);
    if (!fault) return true;
    if (tm_hard_has(TS_HARDEN_ABORT))
        tm_hard_tell("exit", object, fault);
    else
        ts_private_report(tm_target_allocator(&tm_hard), "exit", object, fault);
    return false;
}

TS_AT_END static void look_at_all(void) {
    if (!tm_is_hard()) return;
    tm_hard_wait_look();
    if (!tm_hard_has(TS_HARDEN_CANARY) || !tm_hard_large_keep_accessible()) return;
    (void)slab_walk(tm_target_allocator(&tm_hard), tm_target_epoch(&tm_hard), tell_first, NULL);
}
