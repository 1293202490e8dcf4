/* Bit operations on 64-bit words, and roundings. */
#ifndef TS_BASE_BITS_H
#define TS_BASE_BITS_H

#include "base/attr.h"

/* Index of the lowest set bit; x is not 0. */
static inline unsigned ts_ctz64(uint64_t x) { return (unsigned)__builtin_ctzll(x); }

/* Index of the highest set bit; x is not 0. */
static inline unsigned ts_log2_64(uint64_t x) { return 63u - (unsigned)__builtin_clzll(x); }

static inline unsigned ts_popcount64(uint64_t x) {
    x = x - ((x >> 1) & 0x5555555555555555u);
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)((x * 0x0101010101010101u) >> 56);
}

/* Bit n of x as bit 2n. */
static inline uint64_t ts_spread_32(uint32_t bits) {
    uint64_t x = (bits | (uint64_t)bits << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
    x = (x | x << 2) & 0x3333333333333333u;
    return (x | x << 1) & 0x5555555555555555u;
}

/* A hash of bytes, which goes on from `hash`: 0, or that of what comes before them. */
static inline uint64_t ts_hash(uint64_t hash, const void *at, size_t bytes) {
    const unsigned char *c = (const unsigned char *)at;
    hash += 1469598103934665603u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ c[i]) * 1099511628211u;
    return hash;
}

/* x with bit n modulo 64 on. On x86-64 it is one instruction. Compilers make a shift where x is in memory, and that
   is three micro-operations on Intel processors. */
#if defined(__x86_64__)
TS_ALWAYS_INLINE uint64_t ts_with_bit(uint64_t x, uint64_t n) {
    __asm__("btsq %1, %0" : "+r"(x) : "r"(n) : "cc");
    return x;
}
#else
TS_ALWAYS_INLINE uint64_t ts_with_bit(uint64_t x, uint64_t n) { return x | (uint64_t)1 << (n & 63); }
#endif

/* The low byte. Compilers prefer a mask, whose code is two bytes longer on x86-64. That counts where it makes a
   function end in one more cache line. */
#if defined(__x86_64__)
TS_ALWAYS_INLINE uint64_t ts_low_byte(uint64_t x) {
    uint64_t byte;
    __asm__("movzbl %b1, %k0" : "=r"(byte) : "q"(x));
    return byte;
}
#else
TS_ALWAYS_INLINE uint64_t ts_low_byte(uint64_t x) { return x & 0xff; }
#endif

/* x with its low byte turned by one bit, to the right or the left; the other bytes stay. On x86-64 it is one
   instruction, which compilers do not make of the portable form. It turns by seven the other way, because a turn by
   one is two micro-operations on Intel processors. */
#if defined(__x86_64__)
TS_ALWAYS_INLINE uint64_t ts_ror_low_byte(uint64_t x) {
    __asm__("rolb $7, %b0" : "+q"(x) : : "cc");
    return x;
}
TS_ALWAYS_INLINE uint64_t ts_rol_low_byte(uint64_t x) {
    __asm__("rorb $7, %b0" : "+q"(x) : : "cc");
    return x;
}
#else
TS_ALWAYS_INLINE uint64_t ts_ror_low_byte(uint64_t x) { return (x & ~(uint64_t)0xff) | (x & 0xff) >> 1 | (x & 1) << 7; }
TS_ALWAYS_INLINE uint64_t ts_rol_low_byte(uint64_t x) { return (x & ~(uint64_t)0xff) | (x & 0x7f) << 1 | (x >> 7 & 1); }
#endif

/* Whether a + b has more than 16 bits; *sum has the lower 16. One addition and its carry. */
TS_ALWAYS_INLINE bool ts_add_carries_16(uint16_t a, uint16_t b, uint16_t *sum) {
    return __builtin_add_overflow(a, b, sum);
}

static inline bool ts_is_pow2(uint64_t x) { return x != 0 && (x & (x - 1)) == 0; }

/* align is a power of two. x + align does not overflow. */
static inline uint64_t ts_align_up(uint64_t x, uint64_t align) { return (x + align - 1) & ~(align - 1); }
static inline uint64_t ts_align_down(uint64_t x, uint64_t align) { return x & ~(align - 1); }

#endif
