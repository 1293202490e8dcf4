/*
 * The slots of a slab in the hard mode (hard.h, invariants 3 to 5): words of those that are free, and the looks at the
 * neighbours of an object. Objects of a slab are allocated by one thread at a time, the one whose block it is.
 */
#define _GNU_SOURCE
#include "base/base.h"
#include "malloc/hard_parts.h"
#include "malloc/hard_word.h"

#include <string.h>
#include <unistd.h>

static bool has_words; /* constant after the start: the core looks at nothing that is free */

static pid_t first_process;

void tm_hard_slot_start(SlabAllocator *allocator) {
    has_words = !ts_private_fills(allocator);
    first_process = getpid();
}

static uint64_t free_word(char *home, size_t bytes, uint32_t use) {
    return tm_hard_word(tm_hard_name(home, bytes), tm_hard_fields(TM_HARD_FREE, TM_BY_MALLOC, use));
}

static uint32_t use_of(const void *p) { return ts_private_use(p) % TM_HARD_USES; }

/* ---- allocation -------------------------------------------------------------------------------------------------- */

/* Whether the slot has a word of this use of its slab, in which all slots get one with the first. */
static bool is_of_use(char *home, size_t bytes, uint32_t use) {
    uint64_t word = tm_hard_load(tm_hard_word_at(home, bytes));
    ts_private_place place;
    if (word == free_word(home, bytes, use)) return true;
    return tm_hard_is_word(tm_hard_name(home, bytes), word) && tm_hard_state_of(word) <= TM_HARD_WAITS &&
           ts_private_find(tm_target_allocator(&tm_hard), home, &place);
}

void tm_hard_free_slot(char *home, size_t bytes, uint32_t use) {
    /* release fence: a thread that sees the word, or that the core has the slot, sees it clear. Partner: the acquires
       in is_written */
    atomic_thread_fence(memory_order_release);
    tm_hard_store(tm_hard_word_at(home, bytes), free_word(home, bytes, use));
}

/* Whether the core has the slot; else it is an object of the core's own functions, which has no word, or of a thread
   that a fork has stopped. */
static bool is_the_cores(const char *slot) {
    ts_private_place place;
    return !ts_private_find(tm_target_allocator(&tm_hard), slot, &place);
}

/* Slots that the core had given when the first of their slab got its word: of threads that a fork has stopped, one
   each, or of the core's own functions. The word of such a slot is of a use before, or another's bytes. */
#define MOST_LOST 64
static _Atomic(char *) lost[MOST_LOST];
static atomic_uint lost_count;

bool tm_hard_is_lost(const char *slot, uint64_t word) {
    bool is = word == 0 && getpid() != first_process; /* a fork came before the word did */
    for (unsigned i = 0; i < MOST_LOST && !is; i++) is = ts_load_relaxed(&lost[i]) == slot;
    return is;
}

static void lose(char *slot) { ts_store_relaxed(&lost[ts_fetch_add_relaxed(&lost_count, 1) % MOST_LOST], slot); }

static void make_clear(char *slot, size_t bytes) {
    if (!is_the_cores(slot))
        lose(slot);
    else if (!tm_hard_is_clear(slot, bytes))
        memset(slot, 0, bytes);
}

/* Invariant 4. It may have become the core's only now. */
static void make_free(char *slot, size_t bytes, uint32_t use) {
    if (!is_the_cores(slot)) return;
    if (!tm_hard_is_clear(slot, bytes - TM_HARD_WORD_BYTES)) memset(slot, 0, bytes - TM_HARD_WORD_BYTES);
    tm_hard_free_slot(slot, bytes, use);
}

/* Whether its page went back to the system, or it is as if it did: its word reads as zero, as all of a free slot
   does. */
static bool is_given_back(char *home, size_t bytes) {
    return tm_hard_load(tm_hard_word_at(home, bytes)) == 0 && tm_hard_is_clear(home, bytes - TM_HARD_WORD_BYTES);
}

/* Bytes of the slots of a slab (slab/class.h: SHORT and PAIR classes). */
static size_t all_slots(size_t bytes) {
    size_t room = bytes % (TS_PRIVATE_UNIT / 32 * 3) == 0 ? TS_PRIVATE_UNIT / 4 * 3 : TS_PRIVATE_UNIT;
    return bytes > TS_PRIVATE_UNIT / 2 ? 2 * bytes : room / bytes * bytes;
}

/* The slot at home has not the word of one that is free in this use of its slab. So it is the first of it, or its page
   went back, or it was written to. All are clear, with their words, before the first has a word of this use: in a child
   of fork, for which another thread may stop anywhere here, the use has not begun, or what has no word is clear. */
TS_COLD static void begin_use(char *home, size_t bytes, uint32_t use) {
    char *unit = home - tm_hard_in_unit(home), *end = unit + all_slots(bytes);
    bool begun = false;
    for (char *slot = unit; slot < end && !begun; slot += bytes) begun = slot != home && is_of_use(slot, bytes, use);
    if (begun && !is_given_back(home, bytes)) tm_hard_tell_written("malloc", home);
    memset(home, 0, bytes);
    if (begun) return;
    for (char *slot = unit; slot < end; slot += bytes)
        if (slot != home) make_clear(slot, bytes);
    for (char *slot = unit; slot < end; slot += bytes)
        if (slot != home) make_free(slot, bytes, use);
}

/* It is clear from now on, and so is the word before it. */
static void look_at_free(char *home, size_t bytes, uint32_t use) {
    bool known = has_words;
    if (known && TS_UNLIKELY(tm_hard_load(tm_hard_word_at(home, bytes)) != free_word(home, bytes, use))) {
        begin_use(home, bytes, use);
    } else if (TS_UNLIKELY(!tm_hard_is_clear(home, bytes - TM_HARD_WORD_BYTES))) {
        if (known) tm_hard_tell_written("malloc", home);
        memset(home, 0, bytes - TM_HARD_WORD_BYTES);
    }
}

/* Of the first slot of a slab. */
static char *begin_behind_front(char *home) {
    char *p = home + TM_HARD_FRONT_BYTES;
    tm_hard_store(tm_hard_front_of(p), tm_hard_word(p, TM_HARD_FRONT));
    return p;
}

void *tm_hard_begin_slot(char *home, size_t bytes, size_t size, tm_kind kind) {
    look_at_free(home, bytes, has_words ? use_of(home) : 0);
    char *p = TS_UNLIKELY(tm_hard_in_unit(home) == 0) ? begin_behind_front(home) : home;
    size_t slack = bytes - TM_HARD_WORD_BYTES - (size_t)(p - home) - size;
    tm_hard_place *at = tm_hard_word_at(home, bytes);
    tm_hard_store(at, tm_hard_word(p, tm_hard_fields(TM_HARD_WAITS, kind, slack)));
    /* release fence: a thread that has read bytes of the canary or of the object reads this word too. Partner of the
       acquire fence in tm_hard_is_written_behind. */
    atomic_thread_fence(memory_order_release);
    tm_hard_draw_behind(p + size, slack);
    /* release fence: a thread that sees the object live sees its canary. Partner: tm_hard_fault_of_live */
    atomic_thread_fence(memory_order_release);
    tm_hard_store(at, tm_hard_word(p, tm_hard_fields(TM_HARD_LIVE, kind, slack)));
    tm_hard_add_around(bytes, size);
    return p;
}

/* It waits as if it were freed: so it is not the next to be allocated again. */
void tm_hard_pass_over(char *home, size_t bytes) {
    uint32_t use = use_of(home);
    look_at_free(home, bytes, use);
    char *p = tm_hard_name(home, bytes) == home ? home : begin_behind_front(home);
    tm_hard_store(tm_hard_word_at(home, bytes), tm_hard_word(p, tm_hard_fields(TM_HARD_WAITS, TM_BY_MALLOC, 0)));
    const tm_hard_waiting waiting = {.p = p, .bytes = bytes, .use = use, .span = false};
    tm_hard_wait(&waiting);
}

/* ---- neighbours -------------------------------------------------------------------------------------------------- */

bool tm_hard_is_word_before(const char *home, size_t bytes) {
    size_t offset = tm_hard_in_unit(home);
    if (!has_words || offset < bytes || offset % bytes != 0) return true;
    char *before = (char *)(uintptr_t)home - bytes;
    uint64_t word = tm_hard_load(tm_hard_word_at(before, bytes));
    return word == 0 || tm_hard_is_word(tm_hard_name(before, bytes), word) || tm_hard_is_lost(before, word);
}

/* Where an overrun comes to first. */
static bool is_clear_before_word(char *slot, size_t bytes) {
    size_t most = bytes - TM_HARD_WORD_BYTES;
    uint64_t any = 0;
    if (most > TM_HARD_CANARY_BYTES) most = TM_HARD_CANARY_BYTES;
    for (size_t i = 0; i < most; i += sizeof any) any |= tm_hard_load((tm_hard_place *)(void *)(slot + i));
    return any == 0;
}

/* A slot that seemed to be free, and written to. It may be allocated at this moment: its word is another before its
   bytes are. It may even have been allocated, written to and freed since, which gives it its word again. Its life is
   another before it has that word: so the look at its life is the last. */
TS_COLD static bool is_written(char *slot, size_t bytes, uint64_t word) {
    ts_private_place place;
    uint32_t life = tm_hard_life(slot);
    bool lives = ts_private_find(tm_target_allocator(&tm_hard), slot, &place);
    bool free_before = tm_hard_load(tm_hard_word_at(slot, bytes)) == word;
    atomic_thread_fence(memory_order_acquire);
    bool clear = is_clear_before_word(slot, bytes);
    /* acquire fence: partner of the release fence in tm_hard_begin_slot */
    atomic_thread_fence(memory_order_acquire);
    return !lives && free_before && !clear && tm_hard_load(tm_hard_word_at(slot, bytes)) == word &&
           tm_hard_life(slot) == life;
}

bool tm_hard_is_written_behind(const char *home, size_t bytes, uint32_t use) {
    char *next = (char *)(uintptr_t)home + bytes;
    size_t last = bytes > TS_PRIVATE_UNIT / 2 ? bytes : TS_PRIVATE_UNIT - bytes; /* no slot begins behind */
    if (!has_words || tm_hard_in_unit(home) + bytes > last) return false;
    uint64_t word = tm_hard_load(tm_hard_word_at(next, bytes));
    if (TS_LIKELY(tm_hard_state_of(word) != TM_HARD_FREE) || word != free_word(next, bytes, use)) return false;
    return !is_clear_before_word(next, bytes) && is_written(next, bytes, word);
}
