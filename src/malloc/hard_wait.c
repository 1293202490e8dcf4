/*
 * The quarantine: a freed object waits here before the core has it again. Each thread has one of SHARDS shards, which
 * it shares with others if there are many. A shard is PLACES words, each of them an object or 0. A freed object is
 * exchanged for the content of a place by chance, which leaves; so an object waits for as many frees as there are
 * places, on the mean, and nobody can say when it leaves. A shard keeps LIMIT bytes at most: beyond that, others leave.
 *
 * The thread that exchanges a word has the object in it alone: no lock. A thread that ends leaves what waits to the
 * others of its shard, and to the end of the process, when all that waits is looked at.
 */
#define _GNU_SOURCE
#include "api/api.h"
#include "base/base.h"
#include "malloc/hard_parts.h"
#include "malloc/hard_word.h"

#define SHARDS 32u
#define PLACES 1024u
#define LIMIT ((int64_t)512 << 10)

/* An object: its place in the region in sixteenths, then 31 bits, then whether it is a span. The bits are its
   sixteenths, and of a slot, which has less than 2048 of them, the use of its slab before that. */
#define PLACE_SHIFT 32u
#define USE_SHIFT 12u
#define SIXTEENTHS_SHIFT 1u

typedef struct shard {
    _Atomic int64_t bytes; /* of what waits; less for a moment, while a word is in nobody's place */
    _Atomic int64_t
        around; /* what its threads have added to that of tm_hard_add_around: only the sum of all says something */
    TS_ALIGNED(64) _Atomic uint64_t places[PLACES];
} shard;

static shard shards[SHARDS];
static _Atomic uint32_t threads;
static _Thread_local uint32_t own; /* shard + 1; 0: none yet */
static _Thread_local uint64_t random_state;

uint64_t tm_hard_random(void) {
    uint64_t x = random_state;
    if (TS_UNLIKELY(x == 0)) x = (tm_hard_secret[0] ^ (uintptr_t)&random_state * UINT64_C(0xd1342543de82ef95)) | 1;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    random_state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d) >> 24;
}

static shard *of_thread(void) {
    if (TS_UNLIKELY(own == 0)) own = ts_fetch_add_relaxed(&threads, 1) % SHARDS + 1;
    return &shards[own - 1];
}

void tm_hard_add_around(size_t more, size_t less) {
    (void)atomic_fetch_add_explicit(&of_thread()->around, (int64_t)more - (int64_t)less, memory_order_relaxed);
}

size_t tm_hard_beside_bytes(void) {
    int64_t sum = 0;
    for (unsigned k = 0; k < SHARDS; k++) sum += ts_load_relaxed(&shards[k].around);
    return (sum > 0 ? (size_t)sum : 0) + tm_hard_waiting_bytes() + tm_hard_large_waiting_bytes();
}

/*
 * Lives. Two looks at a place may find the same there although one object has left it in between, and another come and
 * gone: words and records come again. The count of those that have left does not. The first look at the count comes
 * before all others, and the second after them. An object that is gone by a look was counted before (tm_hard_release),
 * so the second look at the count finds another number. It has as many values as no thread can miss between two looks.
 * Places share counts: then a fault that is there goes unseen by that look, as if it had come later.
 */
#define LIVES_LOG2 12u
static _Atomic uint32_t lives[1u << LIVES_LOG2];

static _Atomic uint32_t *life_at(const char *home) {
    uint32_t unit = (uint32_t)((uintptr_t)home / TS_PRIVATE_UNIT);
    return &lives[(unit * UINT32_C(0x9e3779b1)) >> (32 - LIVES_LOG2)];
}

/* The fence orders the looks before, the acquire those that follow. Partner: the release in tm_hard_end_life, and the
   stores of that thread after it. */
uint32_t tm_hard_life(const char *home) {
    atomic_thread_fence(memory_order_acquire);
    return ts_load_acquire(life_at(home));
}

void tm_hard_end_life(const char *home) { (void)atomic_fetch_add_explicit(life_at(home), 1, memory_order_acq_rel); }

static char *region; /* constant after the start */

void tm_hard_wait_start(void) {
    size_t bytes;
    region = ts_private_region(&bytes);
}

static uint64_t pack(const tm_hard_waiting *object) {
    return (uint64_t)(object->p - region) / 16 << PLACE_SHIFT | (uint64_t)object->use << USE_SHIFT |
           (uint64_t)(object->bytes / 16) << SIXTEENTHS_SHIFT | object->span;
}

static tm_hard_waiting unpack(uint64_t word) {
    tm_hard_waiting object = {.p = region + (size_t)(word >> PLACE_SHIFT) * 16, .span = (word & 1) != 0};
    uint32_t sixteenths = (uint32_t)word >> SIXTEENTHS_SHIFT;
    if (!object.span) {
        object.use = (uint32_t)word >> USE_SHIFT;
        sixteenths &= ((uint32_t)1 << (USE_SHIFT - SIXTEENTHS_SHIFT)) - 1;
    }
    object.bytes = (size_t)sixteenths * 16;
    return object;
}

/* The content of the place leaves the shard. acquire and release: writes to it from before it came here are seen now.
   Returns its bytes. */
static size_t exchange(shard *s, uint64_t place, uint64_t word) {
    uint64_t before = atomic_exchange_explicit(&s->places[place], word, memory_order_acq_rel);
    if (!before) return 0;
    tm_hard_waiting object = unpack(before);
    tm_hard_release(&object);
    return object.bytes;
}

void tm_hard_wait(const tm_hard_waiting *object) {
    if (TS_UNLIKELY(!tm_hard_has(TS_HARDEN_QUARANTINE))) {
        tm_hard_release(object);
        return;
    }
    shard *s = of_thread();
    uint64_t place = tm_hard_random() % PLACES;
    size_t left = exchange(s, place, pack(object));
    int64_t change = (int64_t)object->bytes - (int64_t)left;
    int64_t bytes = atomic_fetch_add_explicit(&s->bytes, change, memory_order_relaxed) + change;
    if (TS_LIKELY(bytes <= LIMIT)) return;
    uint64_t from = tm_hard_random();
    for (unsigned i = 0; i < PLACES && bytes > LIMIT; i++) {
        uint64_t other = (from + i) % PLACES;
        if (other == place || ts_load_relaxed(&s->places[other]) == 0) continue;
        change = -(int64_t)exchange(s, other, 0);
        bytes = atomic_fetch_add_explicit(&s->bytes, change, memory_order_relaxed) + change;
    }
}

size_t tm_hard_wait_less(size_t bytes) {
    uint64_t from = tm_hard_random();
    size_t sum = 0;
    for (uint64_t i = 0; i < SHARDS * PLACES && sum < bytes; i++) {
        shard *s = &shards[(from + i) / PLACES % SHARDS];
        uint64_t place = (from + i) % PLACES;
        if (ts_load_relaxed(&s->places[place]) == 0) continue;
        size_t left = exchange(s, place, 0);
        (void)atomic_fetch_sub_explicit(&s->bytes, (int64_t)left, memory_order_relaxed);
        sum += left;
    }
    return sum;
}

size_t tm_hard_waiting_bytes(void) {
    int64_t sum = 0;
    for (unsigned k = 0; k < SHARDS; k++) sum += ts_load_relaxed(&shards[k].bytes);
    return sum > 0 ? (size_t)sum : 0;
}

/* Other threads may go on: they look at the objects that they take meanwhile. */
void tm_hard_wait_look(void) {
    for (unsigned k = 0; k < SHARDS; k++) {
        for (unsigned i = 0; i < PLACES; i++) {
            uint64_t word = atomic_exchange_explicit(&shards[k].places[i], 0, memory_order_acq_rel);
            if (!word) continue;
            tm_hard_waiting object = unpack(word);
            tm_hard_look(&object);
            /* It stays: memory is the system's in a moment. */
            (void)atomic_exchange_explicit(&shards[k].places[i], word, memory_order_acq_rel);
        }
    }
}
