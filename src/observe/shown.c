/* Which allocators are shown: their numbers and names. */
#include "observe/observe.h"

#include <errno.h>

_Atomic uintptr_t ts_default_token;

static const char *name_of(uintptr_t token) {
    if (ts_read_is_malloc(token)) return TS_LABEL_MALLOC;
    return token == ts_load_acquire(&ts_default_token) ? "default" : "created";
}

bool ts_shown_one(uintptr_t token, ts_shown *out) {
    uint32_t i = 1;
    uintptr_t other;
    ts_allocator *a;
    for (uint32_t n = 0; (a = ts_read_next(&i, &other)) != NULL; n++) {
        if (other != token) continue;
        *out = (ts_shown){a, token, n, name_of(token)};
        return true;
    }
    errno = EINVAL;
    return false;
}

static uint64_t held(const ts_shown *s) { return ts_read_committed_units(s->allocator); }

/* In the place of the one that holds least; those behind it move up, so that numbers rise. */
static void take_for_least(ts_shown out[TS_VIEWS], const ts_shown *more) {
    unsigned least = 0;
    for (unsigned i = 1; i < TS_VIEWS; i++)
        if (held(&out[i]) < held(&out[least])) least = i;
    if (held(more) <= held(&out[least])) return;
    for (unsigned i = least; i + 1 < TS_VIEWS; i++) out[i] = out[i + 1];
    out[TS_VIEWS - 1] = *more;
}

unsigned ts_shown_all(ts_shown out[TS_VIEWS], uint32_t *found) {
    unsigned count = 0;
    uint32_t i = 1;
    uintptr_t token;
    *found = 0;
    for (ts_allocator *a; (a = ts_read_next(&i, &token)) != NULL; ++*found) {
        const ts_shown one = {a, token, *found, name_of(token)};
        if (count < TS_VIEWS)
            out[count++] = one;
        else
            take_for_least(out, &one);
    }
    return count;
}
