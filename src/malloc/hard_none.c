/*
 * Objects of no bytes: places in a range without access, so that whatever is read or written there ends the program.
 * Each has a state: 0, or by which function it was allocated. A cursor goes around, so that a place that was freed is
 * the last to be used again.
 */
#define _GNU_SOURCE
#include "api/api.h"
#include "base/base.h"
#include "malloc/hard_parts.h"

#include <sys/mman.h>

/* A sixty-fourth of the region, which is smaller where the address space is limited. Powers of two. */
#define MOST_BYTES ((size_t)16 << 20)
#define LEAST_BYTES ((size_t)64 << 10)
#define TRIES 4096u

/* Constant after the start. */
static char *range;
static size_t range_bytes;
static _Atomic uint32_t *states; /* a word for each place: its kind + 1, or 0 */
static _Atomic uint32_t cursor;

bool tm_hard_none_start(void) {
    size_t region, bytes = MOST_BYTES;
    (void)ts_private_region(&region);
    while (bytes > LEAST_BYTES && bytes > region / 64) bytes /= 2;
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *q = mmap(NULL, bytes / 16 * sizeof *states, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || q == MAP_FAILED) return false;
    (void)madvise(q, bytes / 16 * sizeof *states, MADV_NOHUGEPAGE); /* it is touched here and there */
    range = p;
    range_bytes = bytes;
    states = q;
    return true;
}

bool tm_hard_is_none(const void *p) { return (uintptr_t)p - (uintptr_t)range < range_bytes; }

static _Atomic uint32_t *state_of(const void *p) {
    uintptr_t offset = (uintptr_t)p - (uintptr_t)range;
    return offset % 16 == 0 ? &states[offset / 16] : NULL;
}

/* The range begins on a page. */
void *tm_hard_none_alloc(size_t alignment, tm_kind kind) {
    uint32_t step = alignment <= 16 ? 1 : (uint32_t)(alignment / 16);
    if (alignment > 4096) return NULL;
    for (unsigned i = 0; i < TRIES; i++) {
        uint32_t place = ts_fetch_add_relaxed(&cursor, 1) * step % (uint32_t)(range_bytes / 16), free = 0;
        if (atomic_compare_exchange_strong_explicit(&states[place], &free, (uint32_t)kind + 1, memory_order_relaxed,
                                                    memory_order_relaxed))
            return range + (size_t)place * 16;
    }
    return NULL;
}

bool tm_hard_none_is_live(const void *p) {
    _Atomic uint32_t *state = state_of(p);
    return state && ts_load_relaxed(state) != 0;
}

tm_hard_answer tm_hard_none_free(const char *call, void *p, tm_kind kind, size_t size) {
    if (!tm_hard_is_none(p)) return TM_HARD_OTHER;
    _Atomic uint32_t *state = state_of(p);
    uint32_t was = state ? atomic_exchange_explicit(state, 0, memory_order_relaxed) : 0;
    if (was == 0) return tm_hard_refuse(call, p, "freed already, or never given out");
    tm_hard_compare(call, p, kind, (tm_kind)(was - 1), size, 0);
    return TM_HARD_DONE;
}
