/*
 * Large objects of the hard mode. Each is in a span of the core's, whose first and last pages are without access. The
 * object ends where the last pages begin, but for its alignment. Once freed all of it is without access, and its memory
 * is the system's; it waits so in one of PLACES places, of which chance empties one for the next.
 *
 *     [ guard | canary | object | canary | guard ]
 *
 * One that has grown begins where the first guard ends, and has room to grow: its last guard is that much longer.
 *
 * An object is at least eight units of the region long, so that the eighths of them in which objects begin are one
 * object's each: a RECORD for each, found by the object's place. Its state is the object's place, LIVE or WAITS, and
 * which function it was allocated by.
 *
 * Invariants
 *  1. The thread that changes a state from LIVE to WAITS has the object alone, to free or to resize it: no other
 *     touches its memory. A resize makes it LIVE again.
 *  2. home and bytes of a record are written before its state is not 0, and stay until its span is the core's again;
 *     from before there are guards until there are none it is not 0. size is written by the thread that has the object
 *     alone.
 *  3. All of a span is accessible when the core has it.
 */
#define _GNU_SOURCE
#include "api/api.h"
#include "base/base.h"
#include "malloc/hard_parts.h"
#include "malloc/hard_word.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GROUP_BYTES (8 * TS_PRIVATE_UNIT)
#define PLACES 64u
#define LIMIT ((int64_t)256 << 20) /* of addresses that wait */

typedef struct record {
    _Atomic uint64_t state;      /* place << STATE_SHIFT | kind << 1 | WAITS; 0: no object */
    _Atomic(char *) home;        /* start of the span */
    _Atomic(size_t) bytes, size; /* of the span, of the object; read by a free of no object, too */
    _Atomic(char *) object;      /* of the span that begins here: where its object began last; NULL: there was none */
} record;
#define STATE_SHIFT 8u
#define WAITS ((uint64_t)1)

/* Constant after the start. */
static record *records;
static char *region;
static size_t region_bytes, page;

static _Atomic uint64_t waiting[PLACES]; /* offset of an object in the region; 0: none */
static _Atomic int64_t waiting_bytes;

bool tm_hard_large_start(void) {
    region = ts_private_region(&region_bytes);
    page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (region_bytes / GROUP_BYTES + 1) * sizeof(record);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return false;
    (void)madvise(p, bytes, MADV_NOHUGEPAGE); /* it is touched here and there */
    records = p;
    return true;
}

static record *record_of(const void *p) {
    uintptr_t offset = (uintptr_t)p - (uintptr_t)region;
    return offset < region_bytes ? &records[offset / GROUP_BYTES] : NULL;
}

static uint64_t state_for(const void *p, tm_kind kind) {
    return (uint64_t)((const char *)p - region) << STATE_SHIFT | (uint64_t)kind << 1;
}
static bool is_of(uint64_t state, const void *p) {
    return state != 0 && state >> STATE_SHIFT == (uint64_t)((const char *)p - region);
}
static tm_kind kind_of(uint64_t state) { return (tm_kind)(state >> 1 & 3); }

static char *guard_behind(const record *r, const char *p) {
    return (char *)(uintptr_t)ts_align_up((uintptr_t)p + ts_load_relaxed(&r->size), page);
}

/* The record of the object in the span at home, which begins as far behind home as its alignment asks for. NULL: there
   is none. A group is no longer than a span, so no two spans begin in one. */
static record *record_at_home(const char *home) {
    const record *first = record_of(home);
    const char *p = first ? ts_load_acquire(&first->object) : NULL; /* partner: alloc */
    record *r = p ? record_of(p) : NULL;
    return r && ts_load_acquire(&r->state) != 0 && ts_load_relaxed(&r->home) == home ? r : NULL;
}

bool tm_hard_is_large(const char *home) { return record_at_home(home) != NULL; }

/* ---- allocation -------------------------------------------------------------------------------------------------- */

/* Where the front guard ends: a page behind the span's start, or as far as the alignment asks for. */
static size_t front_bytes(size_t alignment) { return alignment > page ? alignment : page; }

static char *take_span(size_t alignment, size_t bytes, bool zero) {
    SlabAllocator *allocator = tm_target_allocator(&tm_hard);
    EpochId epoch = tm_target_epoch(&tm_hard);
    if (alignment <= TS_PRIVATE_UNIT && page <= TS_PRIVATE_UNIT) /* which knows whether the memory is clear */
        return zero ? slab_calloc_epoch(allocator, 1, bytes, epoch) : slab_malloc_epoch(allocator, bytes, epoch);
    char *home = slab_aligned_epoch(allocator, alignment > page ? alignment : page, bytes, epoch);
    return home && zero ? memset(home, 0, bytes) : home;
}

static _Atomic bool stays_accessible; /* the process ends, and looks at all that lives */
static _Atomic uint32_t hiding;       /* threads that may be making something inaccessible */

/* Only with guards is anything inaccessible. The order of the two is that of tm_hard_large_keep_accessible turned
   around, and all are seq_cst: so either this thread sees that all is to stay, or is seen there. */
static bool protect(char *at, size_t bytes, int access) {
    if (!tm_hard_has(TS_HARDEN_GUARD)) return true;
    if (access != PROT_NONE) return mprotect(at, bytes, access) == 0;
    (void)atomic_fetch_add(&hiding, 1);
    bool done = atomic_load(&stays_accessible) || mprotect(at, bytes, access) == 0;
    (void)atomic_fetch_sub(&hiding, 1);
    return done;
}

bool tm_hard_looks_at_all(void) { return atomic_load(&stays_accessible); }

/* In a child of fork a thread that is no more may seem to be hiding for ever. */
bool tm_hard_large_keep_accessible(void) {
    atomic_store(&stays_accessible, true);
    for (int i = 0; i < 1000 && atomic_load(&hiding) != 0; i++) (void)sched_yield();
    return atomic_load(&hiding) == 0;
}

/* Where the system refuses (it has no room for another mapping) the object has its canaries. */
static void make_guards(char *home, char *from, char *to, char *end) {
    /* Pieces of a mapping become one again only if they were written to while they were one. */
    *(volatile char *)from = 0;
    if (protect(to, (size_t)(end - to), PROT_NONE) && !protect(home, (size_t)(from - home), PROT_NONE))
        (void)protect(to, (size_t)(end - to), PROT_READ | PROT_WRITE);
}

static void draw(char *at, size_t bytes) {
    if (tm_hard_has(TS_HARDEN_CANARY)) tm_hard_draw(at, bytes);
}

/* more: room to grow, a multiple of the page; else 0. */
static char *alloc(size_t alignment, size_t size, size_t more, bool zero, tm_kind kind) {
    if (alignment < 16) alignment = 16;
    size_t front = front_bytes(alignment), room = ts_align_up(size, page);
    ts_private_place place;
    char *home = take_span(alignment, front + room + more + page, zero);
    if (!home) return NULL;
    if (!ts_private_find(tm_target_allocator(&tm_hard), home, &place)) abort(); /* see alloc_span (hard.c) */
    int error = errno;
    char *from = home + front, *to = from + room;
    char *p = more ? from : from + (((size_t)(to - from) - size) & ~(alignment - 1));
    record *r = record_of(p);
    ts_store_relaxed(&r->home, home);
    ts_store_relaxed(&r->bytes, place.bytes);
    ts_store_relaxed(&r->size, size);
    /* release, both: partners of record_at_home, for a thread with the address of an object that was here before */
    ts_store_release(&r->state, state_for(p, kind) | WAITS);
    ts_store_release(&record_of(home)->object, p);
    make_guards(home, from, to, home + place.bytes);
    draw(p - tm_hard_canary_bytes((size_t)(p - from)), tm_hard_canary_bytes((size_t)(p - from)));
    draw(p + size, tm_hard_canary_bytes((size_t)(to - p) - size));
    tm_hard_add_around(place.bytes, size);
    /* release: a thread that finds the state reads the record */
    ts_store_release(&r->state, state_for(p, kind));
    errno = error;
    return p;
}

void *tm_hard_large_alloc(size_t alignment, size_t size, bool zero, tm_kind kind) {
    return alloc(alignment, size, 0, zero, kind);
}

/* ---- free -------------------------------------------------------------------------------------------------------- */

/* Out of the quarantine. */
static size_t release(uint64_t offset) {
    char *p = region + offset;
    record *r = record_of(p);
    char *home = ts_load_relaxed(&r->home);
    size_t bytes = ts_load_relaxed(&r->bytes);
    int error = errno;
    /* Refused, it stays as it is for ever: nobody can use it. */
    if (protect(home, bytes, PROT_READ | PROT_WRITE)) {
        tm_hard_end_life(home);
        ts_store_release(&r->state, 0);
        (void)slab_free(tm_target_allocator(&tm_hard), home);
    }
    errno = error;
    return bytes;
}

/* Returns the bytes of what was in the place. */
static size_t leave(unsigned place, uint64_t offset) {
    /* acquire and release: the records of the object that leaves and of the one that comes */
    uint64_t before = atomic_exchange_explicit(&waiting[place % PLACES], offset, memory_order_acq_rel);
    if (!before) return 0;
    size_t bytes = release(before);
    (void)atomic_fetch_sub_explicit(&waiting_bytes, (int64_t)bytes, memory_order_relaxed);
    return bytes;
}

static void wait(const record *r, const char *p) {
    int64_t bytes = (int64_t)ts_load_relaxed(&r->bytes);
    if (!tm_hard_has(TS_HARDEN_QUARANTINE)) {
        (void)release((uint64_t)(p - region));
        return;
    }
    unsigned place = (unsigned)tm_hard_random();
    (void)atomic_fetch_add_explicit(&waiting_bytes, bytes, memory_order_relaxed);
    (void)leave(place, (uint64_t)(p - region));
    /* All others, before the one that has just come. */
    for (unsigned i = 1; i < PLACES && ts_load_relaxed(&waiting_bytes) > LIMIT; i++) (void)leave(place + i, 0);
}

size_t tm_hard_large_wait_less(size_t bytes) {
    unsigned place = (unsigned)tm_hard_random();
    size_t sum = 0;
    for (unsigned i = 0; i < PLACES && sum < bytes; i++) sum += leave(place + i, 0);
    return sum;
}

size_t tm_hard_large_waiting_bytes(void) {
    int64_t bytes = ts_load_relaxed(&waiting_bytes);
    return bytes > 0 ? (size_t)bytes : 0;
}

static const char *fault_of(const record *r, const char *p) {
    if (!tm_hard_has(TS_HARDEN_CANARY)) return NULL;
    size_t front = tm_hard_canary_bytes((uintptr_t)p & (page - 1));
    size_t size = ts_load_relaxed(&r->size);
    size_t behind = tm_hard_canary_bytes((size_t)(guard_behind(r, p) - p) - size);
    if (!tm_hard_is_drawn(p + size, behind)) return "the bytes behind it are overwritten";
    return tm_hard_is_drawn(p - front, front) ? NULL : "the bytes before it are overwritten";
}

const char *tm_hard_large_fault(const char *home) {
    const record *r = record_at_home(home);
    uint64_t state = r ? ts_load_seq(&r->state) : 0; /* partner: tm_hard_large_resize */
    if (state == 0 || (state & WAITS)) return NULL;
    const char *fault = fault_of(r, region + (state >> STATE_SHIFT));
    /* acquire fence: a thread that frees it changes the state before it touches the bytes */
    atomic_thread_fence(memory_order_acquire);
    return fault && ts_load_relaxed(&r->state) == state ? fault : NULL;
}

static void make_inaccessible(const record *r, char *p) {
    int error = errno;
    char *from = p - ((uintptr_t)p & (page - 1)), *to = guard_behind(r, p);
    bool gone = madvise(from, (size_t)(to - from), MADV_DONTNEED) == 0;
    if (!gone) memset(from, 0, (size_t)(to - from)); /* it is locked */
    (void)protect(ts_load_relaxed(&r->home), ts_load_relaxed(&r->bytes), PROT_NONE);
    errno = error;
}

/* Invariant 1. OTHER: no large object begins there. */
static tm_hard_answer take(const char *call, void *p, uint64_t *state, const char *refusal) {
    record *r = record_of(p);
    /* acquire: partner of the release in alloc */
    *state = r ? ts_load_acquire(&r->state) : 0;
    if (!is_of(*state, p)) return TM_HARD_OTHER;
    uint64_t live = *state;
    if ((live & WAITS) || !atomic_compare_exchange_strong_explicit(&r->state, &live, live | WAITS, memory_order_seq_cst,
                                                                   memory_order_relaxed))
        return tm_hard_refuse(call, p, refusal);
    return TM_HARD_DONE;
}

static void look_at_taken(const char *call, char *p, tm_kind kind, tm_kind own, size_t size) {
    const record *r = record_of(p);
    const char *fault = fault_of(r, p);
    if (fault) tm_hard_tell(call, p, fault);
    tm_hard_compare(call, p, kind, own, size, ts_load_relaxed(&r->size));
}

void tm_hard_large_end(void *p) {
    const record *r = record_of(p);
    tm_hard_add_around(ts_load_relaxed(&r->size), ts_load_relaxed(&r->bytes));
    make_inaccessible(r, p);
    wait(r, p);
}

tm_hard_answer tm_hard_large_free(const char *call, void *p, tm_kind kind, size_t size) {
    uint64_t state;
    tm_hard_answer answer = take(call, p, &state, "freed already");
    if (answer != TM_HARD_DONE) return answer;
    look_at_taken(call, p, kind, kind_of(state), size);
    tm_hard_large_end(p);
    return TM_HARD_DONE;
}

tm_hard_answer tm_hard_large_usable(const void *p, size_t *bytes) {
    const record *r = record_of(p);
    uint64_t state = r ? ts_load_acquire(&r->state) : 0;
    if (!is_of(state, p)) return TM_HARD_OTHER;
    if (state & WAITS) return TM_HARD_REFUSED;
    *bytes = ts_load_relaxed(&r->size);
    return TM_HARD_DONE;
}

/* ---- realloc ----------------------------------------------------------------------------------------------------- */

/* Between two multiples of the page: from what was the guard's, or to it. */
static bool move_guard(char *before, char *after) {
    int error = errno;
    bool done = true;
    if (after > before) {
        done = protect(before, (size_t)(after - before), PROT_READ | PROT_WRITE);
    } else if (after < before) {
        if (madvise(after, (size_t)(before - after), MADV_DONTNEED) != 0) memset(after, 0, (size_t)(before - after));
        (void)protect(after, (size_t)(before - after), PROT_NONE);
    }
    errno = error;
    return done;
}

/* Where it is, if its span has the room and it does not waste the better half. By the thread that has taken the
   object. */
static bool resize_here(record *r, char *p, size_t size) {
    size_t was = ts_load_relaxed(&r->size);
    char *last = ts_load_relaxed(&r->home) + ts_load_relaxed(&r->bytes) - page;
    char *before = guard_behind(r, p), *after = (char *)(uintptr_t)ts_align_up((uintptr_t)p + size, page);
    if (size < TM_HARD_LARGE_BYTES || size < was / 2 || size > (size_t)(last - p) || after > last) return false;
    if (!move_guard(before, after)) return false;
    if (size > was)
        memset(p + was, 0, tm_hard_canary_bytes((size_t)(before - p) - was));
    else
        memset(p + size, 0, (size_t)((after < before ? after : p + was) - p) - size);
    draw(p + size, tm_hard_canary_bytes((size_t)(after - p) - size));
    ts_store_relaxed(&r->size, size);
    tm_hard_add_around(was, size);
    return true;
}

tm_hard_answer tm_hard_large_take(const char *call, void *p, size_t *bytes) {
    uint64_t state;
    tm_hard_answer answer = take(call, p, &state, "freed already, or never given out");
    if (answer != TM_HARD_DONE) return answer;
    look_at_taken(call, p, TM_BY_MALLOC, kind_of(state), TM_SIZE_UNKNOWN);
    *bytes = ts_load_relaxed(&record_of(p)->size);
    return TM_HARD_DONE;
}

/* release: as in alloc */
void tm_hard_large_give_back(void *p) {
    record *r = record_of(p);
    ts_store_release(&r->state, ts_load_relaxed(&r->state) & ~WAITS);
}

bool tm_hard_large_resize(void *p, size_t size) {
    if (tm_hard_looks_at_all()) return false; /* as in resize_here (hard.c) */
    if (!resize_here(record_of(p), p, size)) return false;
    tm_hard_large_give_back(p);
    return true;
}

/* As the core does: an object that grows bit by bit moves once in a while. */
void *tm_hard_large_alloc_growing(size_t size) {
    char *p = alloc(16, size, ts_align_up(size / 4, page), false, TM_BY_MALLOC);
    return p ? p : alloc(16, size, 0, false, TM_BY_MALLOC);
}
