/*
 * The objects whose births were recorded, if not all are: so that their frees are recorded, and no others. A count for
 * each of FILTER places says whether any such object is there, so that most frees of others cost one load. Behind it
 * stands a set for each of STRIPES parts of the addresses, under a lock.
 *
 * A free finds the object that the thread has: whoever frees it has got its address after record_add_sampled.
 */
#define _GNU_SOURCE
#include "record/inside.h"

#include <sched.h>
#include <sys/mman.h>

enum { FILTER = 1 << 18, IN_WORD = 4, STRIPES = 256, FIRST = 512, MOST = 255 };

typedef struct stripe {
    _Atomic uint32_t lock;
    uint32_t count, room; /* room: a power of two */
    uintptr_t *at;        /* 0: nothing there */
} stripe;

static _Atomic uint32_t filter[FILTER / IN_WORD]; /* four counts each: not all machines can swap a byte */
static stripe stripes[STRIPES];

static uint64_t hash(uintptr_t address) { return (address >> 4) * 0x9e3779b97f4a7c15u; }
static _Atomic uint32_t *word_of(uint64_t h) { return &filter[h >> 48]; }
static unsigned shift_of(uint64_t h) { return (unsigned)(h >> 46 & (IN_WORD - 1)) * 8; }
static stripe *stripe_of(uint64_t h) { return &stripes[h >> 30 & (STRIPES - 1)]; }

static void lock(stripe *s) {
    while (atomic_exchange_explicit(&s->lock, 1, memory_order_acquire)) (void)sched_yield();
}
static void unlock(stripe *s) { atomic_store_explicit(&s->lock, 0, memory_order_release); }

/* A count that is at its most stays there: its place then says yes for ever. */
static void count(uint64_t h, uint32_t by) {
    _Atomic uint32_t *word = word_of(h);
    uint32_t is = atomic_load_explicit(word, memory_order_relaxed);
    while ((is >> shift_of(h) & MOST) != MOST && !atomic_compare_exchange_weak(word, &is, is + (by << shift_of(h)))) {
    }
}

static size_t find(const stripe *s, uintptr_t address) {
    size_t i = (size_t)hash(address) & (s->room - 1);
    while (s->at[i] && s->at[i] != address) i = (i + 1) & (s->room - 1);
    return i;
}

static bool grow(stripe *s) {
    stripe old = *s;
    s->room = old.room ? 2 * old.room : FIRST;
    void *p = mmap(NULL, s->room * sizeof *s->at, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return s->room = old.room, false;
    s->at = p;
    for (size_t i = 0; i < old.room; i++)
        if (old.at[i]) s->at[find(s, old.at[i])] = old.at[i];
    if (old.at) (void)munmap(old.at, old.room * sizeof *old.at);
    return true;
}

bool record_is_sampled(const void *object) {
    const uint64_t h = hash((uintptr_t)object);
    if (LIKELY((atomic_load_explicit(word_of(h), memory_order_relaxed) >> shift_of(h) & MOST) == 0)) return false;
    stripe *s = stripe_of(h);
    lock(s);
    bool is = s->room && s->at[find(s, (uintptr_t)object)];
    unlock(s);
    return is;
}

void record_add_sampled(const void *object) {
    const uint64_t h = hash((uintptr_t)object);
    stripe *s = stripe_of(h);
    lock(s);
    if (2 * s->count < s->room || grow(s)) {
        size_t i = find(s, (uintptr_t)object);
        if (!s->at[i]) {
            s->at[i] = (uintptr_t)object;
            s->count++;
            count(h, 1);
        }
    }
    unlock(s);
}

bool record_remove_sampled(const void *object) {
    const uint64_t h = hash((uintptr_t)object);
    stripe *s = stripe_of(h);
    lock(s);
    size_t i = s->room ? find(s, (uintptr_t)object) : 0;
    bool is = s->room && s->at[i];
    for (size_t k = i; is;) {
        k = (k + 1) & (s->room - 1);
        if (!s->at[k]) break;
        size_t home = (size_t)hash(s->at[k]) & (s->room - 1);
        if (((k - home) & (s->room - 1)) < ((k - i) & (s->room - 1))) continue;
        s->at[i] = s->at[k];
        i = k;
    }
    if (is) {
        s->at[i] = 0;
        s->count--;
        count(h, 0u - 1u);
    }
    unlock(s);
    return is;
}

/* In a child of fork, alone: its objects were born in its parent. */
void record_forget_sampled(void) {
    for (size_t i = 0; i < FILTER / IN_WORD; i++) atomic_store_explicit(&filter[i], 0, memory_order_relaxed);
    for (size_t i = 0; i < STRIPES; i++) {
        if (stripes[i].at) (void)munmap(stripes[i].at, stripes[i].room * sizeof *stripes[i].at);
        stripes[i] = (stripe){0};
    }
}
