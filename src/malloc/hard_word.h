/*
 * Words and canaries of the hard mode. A word is 25 bits of fields and 39 of checksum; no byte of a canary, and not the
 * first byte of a word in memory, is below 0x80: the end of a string that is written one too far is always seen. A
 * longer overrun that keeps the checksum is one of 2^39. The checksum is no cryptography: the words of many objects
 * together give the secret away.
 */
#ifndef TM_MALLOC_HARD_WORD_H
#define TM_MALLOC_HARD_WORD_H

#include "base/base.h"
#include "malloc/process.h"

#include <string.h>

typedef enum tm_hard_state {
    TM_HARD_LIVE,
    TM_HARD_WAITS, /* freed, and in the quarantine */
    TM_HARD_FREE,  /* the core's, and clear; the use of its slab in the place of the slack */
} tm_hard_state;

/* Fields of a word. */
#define TM_HARD_SLACK_BITS 20u /* bytes between the object's end and the word */
#define TM_HARD_KIND_SHIFT 20u
#define TM_HARD_STATE_SHIFT 22u
#define TM_HARD_FRONT \
    ((uint64_t)1 << 24) /* the word before an object that does not begin where its slot or span does */
#define TM_HARD_FIELDS_SHIFT 39u

#define TM_HARD_CANARY_BYTES 64u /* behind an object at most */

extern TS_HIDDEN uint64_t tm_hard_secret[2]; /* constant after the start */
extern TS_HIDDEN unsigned char tm_hard_canary;

TS_ALWAYS_INLINE uint64_t tm_hard_fields(tm_hard_state state, tm_kind kind, size_t slack) {
    return (uint64_t)state << TM_HARD_STATE_SHIFT | (uint64_t)kind << TM_HARD_KIND_SHIFT | slack;
}
TS_ALWAYS_INLINE tm_hard_state tm_hard_state_of(uint64_t word) {
    return (tm_hard_state)(word >> (TM_HARD_FIELDS_SHIFT + TM_HARD_STATE_SHIFT) & 3);
}
TS_ALWAYS_INLINE tm_kind tm_hard_kind_of(uint64_t word) {
    return (tm_kind)(word >> (TM_HARD_FIELDS_SHIFT + TM_HARD_KIND_SHIFT) & 3);
}
TS_ALWAYS_INLINE size_t tm_hard_slack_of(uint64_t word) {
    return (size_t)(word >> TM_HARD_FIELDS_SHIFT & (((uint64_t)1 << TM_HARD_SLACK_BITS) - 1));
}

/* The word of the object at p. */
TS_ALWAYS_INLINE uint64_t tm_hard_word(const void *p, uint64_t fields) {
    uint64_t h = ((uint64_t)(uintptr_t)p ^ tm_hard_secret[0]) * UINT64_C(0x9e3779b97f4a7c15);
    h = ((h ^ h >> 32) + fields) * tm_hard_secret[1];
    h ^= h >> 32;
    return fields << TM_HARD_FIELDS_SHIFT | (h & (((uint64_t)1 << TM_HARD_FIELDS_SHIFT) - 1)) | 0x80;
}
TS_ALWAYS_INLINE bool tm_hard_is_word(const void *p, uint64_t word) {
    return tm_hard_word(p, word >> TM_HARD_FIELDS_SHIFT) == word;
}

/* In memory the byte of 0x80 comes first. */
TS_ALWAYS_INLINE uint64_t tm_hard_in_memory(uint64_t word) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(word);
#else
    return word;
#endif
}
typedef _Atomic uint64_t tm_hard_place;
/* relaxed: the word publishes nothing; a thread gets an object from another in an order of the program's own. */
TS_ALWAYS_INLINE uint64_t tm_hard_load(const tm_hard_place *at) { return tm_hard_in_memory(ts_load_relaxed(at)); }
TS_ALWAYS_INLINE uint64_t tm_hard_load_seq(const tm_hard_place *at) { return tm_hard_in_memory(ts_load_seq(at)); }
TS_ALWAYS_INLINE void tm_hard_store(tm_hard_place *at, uint64_t word) { ts_store_relaxed(at, tm_hard_in_memory(word)); }
/* acquire and release: writes of the object's users come before the clearing by its free. seq_cst: resize_here. */
TS_ALWAYS_INLINE bool tm_hard_change(tm_hard_place *at, uint64_t from, uint64_t to) {
    uint64_t seen = tm_hard_in_memory(from);
    return atomic_compare_exchange_strong_explicit(at, &seen, tm_hard_in_memory(to), memory_order_seq_cst,
                                                   memory_order_relaxed);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* (The compiler takes memcpy for a call here: the library has -fno-builtin.) */

TS_ALWAYS_INLINE size_t tm_hard_canary_bytes(size_t slack) {
    return slack < TM_HARD_CANARY_BYTES ? slack : TM_HARD_CANARY_BYTES;
}
TS_ALWAYS_INLINE uint64_t tm_hard_canaries(void) { return tm_hard_canary * UINT64_C(0x0101010101010101); }
TS_ALWAYS_INLINE void tm_hard_draw(char *at, size_t bytes) {
    uint64_t canaries = tm_hard_canaries();
    size_t i = 0;
    for (; i + sizeof canaries <= bytes; i += sizeof canaries) __builtin_memcpy(at + i, &canaries, sizeof canaries);
    for (; i < bytes; i++) at[i] = (char)tm_hard_canary;
}
TS_ALWAYS_INLINE bool tm_hard_is_drawn(const char *at, size_t bytes) {
    unsigned char other = 0;
    for (size_t i = 0; i < bytes; i++) other |= (unsigned char)at[i] ^ tm_hard_canary;
    return other == 0;
}

/* As tm_hard_is_drawn, of a canary with a word behind it or with more bytes of the slot: seven bytes beyond its end are
   read. */
TS_ALWAYS_INLINE bool tm_hard_is_drawn_wide(const char *at, size_t bytes) {
    uint64_t canaries = tm_hard_canaries(), other = 0, w;
    size_t i = 0;
    for (; i + sizeof w <= bytes; i += sizeof w) {
        __builtin_memcpy(&w, at + i, sizeof w);
        other |= w ^ canaries;
    }
    if (i == bytes) return other == 0;
    __builtin_memcpy(&w, at + i, sizeof w);
    unsigned beyond = 8 * (unsigned)(i + sizeof w - bytes);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (other | (w ^ canaries) >> beyond) == 0;
#else
    return (other | (w ^ canaries) << beyond) == 0;
#endif
}

/* at: a multiple of 16. */
TS_ALWAYS_INLINE bool tm_hard_is_clear(const char *at, size_t bytes) {
#if defined(__GNUC__)
    typedef uint64_t lane __attribute__((vector_size(16)));
    lane any = {0, 0}, w[4];
#else
    uint64_t any = 0, w[4];
#endif
    size_t i = 0;
    for (; i + sizeof w <= bytes; i += sizeof w) {
        __builtin_memcpy(w, at + i, sizeof w);
        any |= (w[0] | w[1]) | (w[2] | w[3]);
    }
    uint64_t rest = 0, last;
    for (; i + sizeof last <= bytes; i += sizeof last) {
        __builtin_memcpy(&last, at + i, sizeof last);
        rest |= last;
    }
    for (; i < bytes; i++) rest |= (unsigned char)at[i];
#if defined(__GNUC__)
    rest |= any[0] | any[1];
#else
    rest |= any;
#endif
    return rest == 0;
}

#endif
