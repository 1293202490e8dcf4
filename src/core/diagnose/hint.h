/* Hints: mistakes of new users that are no errors, told once a call site, by the option `hints`. Never an abort. */
#ifndef TS_DIAGNOSE_HINT_H
#define TS_DIAGNOSE_HINT_H

#include "supply/allocator.h"

/* Tells that the call did something, unless it was told of that place already. caller: where the program goes on. */
void ts_hint(const char *call, const char *what, const void *caller);
static inline bool ts_hints(const ts_allocator *allocator) { return TS_UNLIKELY(allocator->settings.hints != 0); }

#endif
