/* What every floor computes with. It calls nothing of the system, and no other header of the project is included
   here. */
#ifndef TS_BASE_BASE_H
#define TS_BASE_BASE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- attributes ------------------------------------------------------------------------------------------------- */

/* Compiler attributes and small macros, of gcc and clang. */

#define TS_LIKELY(x) __builtin_expect(!!(x), 1)
#define TS_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TS_ALWAYS_INLINE static inline __attribute__((always_inline))
#define TS_NOINLINE __attribute__((noinline))
#define TS_COLD __attribute__((noinline, cold))
#define TS_ALIGNED(n) __attribute__((aligned(n)))
#define TS_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define TS_MAY_ALIAS __attribute__((may_alias))
/* The compiler may rely on x. */
#define TS_ASSUME(x) ((x) ? (void)0 : __builtin_unreachable())
/* For declarations of data. Without it the compiler reaches the object by way of the offset table. */
#define TS_HIDDEN __attribute__((visibility("hidden")))
/* For functions that the project's own libraries call (api/api.h). */
#define TS_PRIVATE __attribute__((visibility("default")))

/* Puts a pointer that the function returns into the register for results, from here on. Otherwise compilers may work
   on it in another register, and copy it twice. */
#if defined(__x86_64__)
#define TS_RETURNED(x) __asm__("" : "+a"(x))
#else
#define TS_RETURNED(x) ((void)0)
#endif

/* A function with a fast path begins on a cache line. Otherwise its time depends on the code before it
   (docs/decisions.md). */
#define TS_AT_LINE __attribute__((aligned(64)))

/* The functions that a program calls lie in a section of their own. Call stacks leave them out by the bounds of that
   section (observe/stacks.h), because the library may be linked statically, and is entered by jumps. */
#define TS_ENTRY __attribute__((section("tslab_entry"))) TS_AT_LINE

/* Runs when the library is loaded, before main. */
#define TS_AT_LOAD __attribute__((constructor))

/* Runs when the process ends, after the destructors of a program that is linked with the library statically. */
#define TS_AT_END __attribute__((destructor(101)))

#define TS_CACHE_LINE 64u

/* ---- atomics ---------------------------------------------------------------------------------------------------- */

/*
 * Atomics whose order stands in their name. Every shared field is _Atomic and goes through these.
 *
 * relaxed  a word that publishes nothing else: a counter, a hint, an owner's field that other threads may read. Or a
 *          word that a barrier orders; the place of use names the barrier.
 * acquire  partner of a release; the comment at the place of use names the partner.
 * seq_cst  store-then-load protocols: two threads each write one word and then read the other's.
 *
 * Exchanges and compare-and-swaps take words of 32 bits or more. On some machines (riscv64) narrower ones are calls
 * into a library.
 */

#if defined(__SANITIZE_THREAD__)
#define TS_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TS_THREAD_SANITIZER 1
#endif
#endif

#define ts_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define ts_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define ts_load_seq(p) atomic_load_explicit((p), memory_order_seq_cst)
#define ts_store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define ts_store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define ts_store_seq(p, v) atomic_store_explicit((p), (v), memory_order_seq_cst)
/* A word that is read and changed at once has 32 bits or more: RISC-V has no instruction for fewer, and compilers call
   libatomic there. Such a word does not compile, on any machine. */
#define TS_WIDE(p) ((void)sizeof(char[sizeof *(p) >= 4 ? 1 : -1]))
#define ts_exchange_seq(p, v) (TS_WIDE(p), atomic_exchange_explicit((p), (v), memory_order_seq_cst))
#define ts_fetch_add_relaxed(p, v) (TS_WIDE(p), atomic_fetch_add_explicit((p), (v), memory_order_relaxed))
#define ts_fetch_sub_relaxed(p, v) (TS_WIDE(p), atomic_fetch_sub_explicit((p), (v), memory_order_relaxed))
/* Strong. On failure *e is the value found, loaded with acquire. */
#define ts_cas_seq(p, e, v) \
    (TS_WIDE(p), atomic_compare_exchange_strong_explicit((p), (e), (v), memory_order_seq_cst, memory_order_acquire))

/* OWNED words are written by the caller's thread only. Adding to one is a load and a store, without a locked
   instruction. On x86-64 the functions below are one instruction each, which compilers do not make of two relaxed
   accesses. ThreadSanitizer has to see the two accesses, so it gets them. */
#if defined(__x86_64__) && !defined(TS_THREAD_SANITIZER)
static inline void ts_add_owned_64(_Atomic uint64_t *p, uint64_t v) {
    __asm__("addq %1, %0" : "+m"(*(uint64_t *)(void *)p) : "er"(v) : "cc");
}
static inline void ts_add_owned_32(_Atomic uint32_t *p, uint32_t v) {
    __asm__("addl %1, %0" : "+m"(*(uint32_t *)(void *)p) : "er"(v) : "cc");
}
/* Word i of the owned words at that address: the index is in the instruction, where compilers compute it apart. */
static inline uint64_t ts_load_owned_at(uintptr_t words, uint64_t i) {
    uint64_t x;
    __asm__ volatile("movq (%1,%2,8), %0" : "=r"(x) : "r"(words), "r"(i));
    return x;
}
static inline void ts_store_owned_at_release(uintptr_t words, uint64_t i, uint64_t x) {
    __asm__ volatile("movq %2, (%0,%1,8)" : : "r"(words), "r"(i), "r"(x) : "memory");
}
/* The low byte of an owned word. */
static inline uint64_t ts_low_byte_owned(const _Atomic uint64_t *p) {
    uint64_t byte;
    __asm__("movzbl %1, %k0" : "=r"(byte) : "m"(*(const uint8_t *)(const void *)p));
    return byte;
}
/* A relaxed load, xor v. */
static inline uint64_t ts_xor_relaxed_64(const _Atomic uint64_t *p, uint64_t v) {
    __asm__("xorq %1, %0" : "+r"(v) : "m"(*(const uint64_t *)(const void *)p) : "cc");
    return v;
}
/* Clears two owned words that lie together, in one store; p is a multiple of 16. Other threads see each word whole. */
typedef uint64_t __attribute__((vector_size(16), may_alias)) ts_pair;
static inline void ts_clear_pair_owned(_Atomic uint64_t *p) {
    __asm__("movaps %1, %0" : "=m"(*(ts_pair *)(void *)p) : "x"((ts_pair){0, 0}));
}
#ifdef __GCC_ASM_FLAG_OUTPUTS__
#define TS_ASM_FLAGS 1
/* Compares of a relaxed load with v. First: whether the word is v. */
static inline bool ts_is_relaxed_64(const _Atomic uint64_t *p, uint64_t v) {
    bool is;
    __asm__("cmpq %2, %1" : "=@cce"(is) : "m"(*(const uint64_t *)(const void *)p), "er"(v));
    return is;
}
/* Whether the word is not v. A `!` before the function above costs a register: where a function returns true if the
   word is v, the compiler saves the answer. */
static inline bool ts_is_other_relaxed_64(const _Atomic uint64_t *p, uint64_t v) {
    bool differs;
    __asm__("cmpq %2, %1" : "=@ccne"(differs) : "m"(*(const uint64_t *)(const void *)p), "er"(v));
    return differs;
}
/* Whether the word is v or less. */
static inline bool ts_is_at_most_relaxed_64(const _Atomic uint64_t *p, uint64_t v) {
    bool is;
    __asm__("cmpq %2, %1" : "=@ccbe"(is) : "m"(*(const uint64_t *)(const void *)p), "er"(v));
    return is;
}
/* Whether the word is less than v. */
static inline bool ts_is_below_relaxed_64(const _Atomic uint64_t *p, uint64_t v) {
    bool is;
    __asm__("cmpq %2, %1" : "=@ccb"(is) : "m"(*(const uint64_t *)(const void *)p), "er"(v));
    return is;
}
/* Takes `by` off an owned word. Whether more than 0 is left. */
static inline bool ts_leaves_any_64(int64_t *p, int64_t by) {
    bool any;
    __asm__("subq %2, %0" : "+m"(*p), "=@ccg"(any) : "er"(by));
    return any;
}
static inline bool ts_is_zero_relaxed_16(const _Atomic uint16_t *p) {
    bool is;
    __asm__("cmpw $0, %1" : "=@cce"(is) : "m"(*(const uint16_t *)(const void *)p));
    return is;
}
/* Whether v has any of the bits of a constant, of 32 bits with a sign. Compilers copy v for that. */
static inline bool ts_has_any_64(uint64_t v, const uint64_t bits) {
    bool has;
    __asm__("testq %2, %1" : "=@ccne"(has) : "r"(v), "er"(bits));
    return has;
}
/* Whether the word, of 32 bits, is more than v. */
static inline bool ts_is_above_relaxed_32(const _Atomic uint32_t *p, uint32_t v) {
    bool is;
    __asm__("cmpl %2, %1" : "=@cca"(is) : "m"(*(const uint32_t *)(const void *)p), "er"(v));
    return is;
}
#endif
#define ts_add_owned(p, v) \
    _Generic((p), _Atomic uint64_t * : ts_add_owned_64, _Atomic uint32_t * : ts_add_owned_32)((p), (v))
/* Every store of an x86-64 is a release. The fence keeps the compiler from moving other accesses behind it. */
#define ts_add_owned_release(p, v) (atomic_signal_fence(memory_order_release), ts_add_owned((p), (v)))
#else
#define ts_add_owned(p, v) ts_store_relaxed((p), ts_load_relaxed(p) + (v))
#define ts_add_owned_release(p, v) ts_store_release((p), ts_load_relaxed(p) + (v))
#define TS_OWNED_AT(words, i) ((_Atomic uint64_t *)((words) + (uintptr_t)(i) * sizeof(uint64_t)))
#define ts_load_owned_at(words, i) ts_load_relaxed(TS_OWNED_AT((words), (i)))
#define ts_store_owned_at_release(words, i, x) ts_store_release(TS_OWNED_AT((words), (i)), (x))
#define ts_low_byte_owned(p) (ts_load_relaxed(p) & 0xff)
#define ts_xor_relaxed_64(p, v) (ts_load_relaxed(p) ^ (v))
#define ts_clear_pair_owned(p) (ts_store_relaxed(p, 0), ts_store_relaxed((p) + 1, 0))
#endif

#ifndef TS_ASM_FLAGS
#define ts_is_relaxed_64(p, v) (ts_load_relaxed(p) == (v))
#define ts_is_other_relaxed_64(p, v) (ts_load_relaxed(p) != (v))
#define ts_is_at_most_relaxed_64(p, v) (ts_load_relaxed(p) <= (v))
#define ts_is_below_relaxed_64(p, v) (ts_load_relaxed(p) < (v))
#define ts_is_above_relaxed_32(p, v) (ts_load_relaxed(p) > (v))
#define ts_leaves_any_64(p, by) ((*(p) -= (by)) > 0)
#define ts_is_zero_relaxed_16(p) (ts_load_relaxed(p) == 0)
#define ts_has_any_64(v, bits) (((v) & (bits)) != 0)
#endif

/* Sets an owned word to v, without a store if it is v already, as its last use often left it. A path of hundreds of
   instructions waits for its stores, and a compare that comes out as always costs next to nothing. ts_store_if_changed
   is for words that are not atomic. */
#define ts_store_relaxed_if_changed(p, v) (ts_load_relaxed(p) != (v) ? ts_store_relaxed(p, v) : (void)0)
#define ts_store_if_changed(p, v) (*(p) != (v) ? (void)(*(p) = (v)) : (void)0)

/* Adds to an owned word that only the statistics read. A build with TSLAB_UNCOUNTED leaves it out, to measure the
   cost of counting. Its statistics are wrong. */
#ifdef TSLAB_UNCOUNTED
#define TS_COUNTED 0
#define ts_count(p, v) ((void)(p), (void)(v))
#define ts_count_release(p, v) ((void)(p), (void)(v))
#else
#define TS_COUNTED 1
#define ts_count(p, v) ts_add_owned((p), (v))
#define ts_count_release(p, v) ts_add_owned_release((p), (v))
#endif

/* Keeps the compiler, not the processor, from moving accesses across it. Its partner is barrier_all (os/os.h). */
#define ts_compiler_fence() atomic_signal_fence(memory_order_seq_cst)

/* ---- bits ------------------------------------------------------------------------------------------------------- */

/* Bit operations on 64-bit words, and roundings. */

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
/* Turns bit n modulo 64 off; whether it was on. And whether it is on. */
#ifdef TS_ASM_FLAGS
TS_ALWAYS_INLINE bool ts_take_bit(uint64_t *x, uint64_t n) {
    bool was;
    __asm__("btrq %2, %0" : "+r"(*x), "=@ccc"(was) : "r"(n));
    return was;
}
TS_ALWAYS_INLINE bool ts_has_bit(uint64_t x, uint64_t n) {
    bool has;
    __asm__("btq %2, %1" : "=@ccc"(has) : "r"(x), "r"(n));
    return has;
}
#else
TS_ALWAYS_INLINE bool ts_has_bit(uint64_t x, uint64_t n) { return (x >> (n & 63) & 1) != 0; }
TS_ALWAYS_INLINE bool ts_take_bit(uint64_t *x, uint64_t n) {
    bool was = ts_has_bit(*x, n);
    *x &= ~((uint64_t)1 << (n & 63));
    return was;
}
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

static inline bool ts_is_pow2(uint64_t x) { return x != 0 && (x & (x - 1)) == 0; }

/* align is a power of two. x + align does not overflow. */
static inline uint64_t ts_align_up(uint64_t x, uint64_t align) { return (x + align - 1) & ~(align - 1); }
static inline uint64_t ts_align_down(uint64_t x, uint64_t align) { return x & ~(align - 1); }

/* ---- failing ---------------------------------------------------------------------------------------------------- */

/* The answer of a call that fails. */

/* Sets errno, and returns false: for an id or a size that is 0. */
static inline bool ts_fail(int error) {
    errno = error;
    return false;
}
static inline void *ts_fail_null(int error) {
    errno = error;
    return NULL;
}

/* ---- UTF-8 ------------------------------------------------------------------------------------------------------ */

/* Characters of UTF-8. */

/* Bytes of the character at `text`. 0: it is no character (also overlong, a surrogate, above U+10FFFF, or cut off by
   the end of the text). Reads no further than the zero that ends the text. A zero is a character of one byte. */
static inline unsigned ts_utf8_length(const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    unsigned n = s[0] < 0x80                   ? 1
                 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                 : (s[0] & 0xf0) == 0xe0       ? 3
                 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                               : 0;
    for (unsigned i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))) return 0;
    if (n == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))) return 0;
    return n;
}

/* ---- probes ----------------------------------------------------------------------------------------------------- */

/*
 * Probes for tracers (USDT: bpftrace, perf, systemtap). Compiled in where <sys/sdt.h> is installed (Debian:
 * systemtap-sdt-dev): one nop each while no tracer listens, and none on a fast path. Names and arguments:
 * docs/probes.md.
 */

#if defined(__has_include) && !defined(TSLAB_NO_PROBES)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments" /* in the macros of that header */
#endif
#define TS_PROBE1(name, a) DTRACE_PROBE1(tslab, name, a)
#define TS_PROBE2(name, a, b) DTRACE_PROBE2(tslab, name, a, b)
#define TS_PROBE3(name, a, b, c) DTRACE_PROBE3(tslab, name, a, b, c)
#define TS_PROBE4(name, a, b, c, d) DTRACE_PROBE4(tslab, name, a, b, c, d)
#endif
#endif

#ifndef TS_PROBE1
#define TS_PROBE1(name, a) ((void)(a))
#define TS_PROBE2(name, a, b) ((void)(a), (void)(b))
#define TS_PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#define TS_PROBE4(name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#endif

/* ---- exponential ------------------------------------------------------------------------------------------------ */

/* The next number, of mean 1, from 0 to 37. *state: the state of the generator, not 0. */
double ts_exponential(uint64_t *state);
/* 1 - exp(-x), the probability that such a number is at most x; x >= 0. Relative error below 1e-12. */
double ts_exponential_cdf(double x);

#endif
