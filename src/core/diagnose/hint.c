#include "diagnose/hint.h"

#include "os/line.h"

#define PLACES 1024u /* call sites that are remembered; of more than that the rest is told of again */

/* Takes a place for the caller, if it has none. */
static bool is_news(uintptr_t caller) {
    static _Atomic uintptr_t places[PLACES];
    for (unsigned i = 0; i < PLACES; i++) {
        _Atomic uintptr_t *at = &places[(caller / 4 + i) % PLACES];
        uintptr_t there = ts_load_relaxed(at);
        if (there == caller) return false;
        if (there == 0 &&
            atomic_compare_exchange_strong_explicit(at, &there, caller, memory_order_relaxed, memory_order_relaxed))
            return true;
        if (there == caller) return false;
    }
    return true;
}

TS_COLD void ts_hint(const char *call, const char *what, const void *caller) {
    if (!is_news((uintptr_t)caller)) return;
    ts_tell("hint: %s: %s (called before %#" PRIx64 ")", call, what, (uint64_t)(uintptr_t)caller);
}
