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
#ifndef TS_BASE_ATOMIC_H
#define TS_BASE_ATOMIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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
/* Or into an owned word. */
static inline void ts_or_owned_16(_Atomic uint16_t *p, uint16_t v) {
    __asm__("orw %1, %0" : "+m"(*(uint16_t *)(void *)p) : "ir"(v) : "cc");
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
#define ts_or_owned_16(p, v) ts_store_relaxed((p), (uint16_t)(ts_load_relaxed(p) | (v)))
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
#define ts_has_any_64(v, bits) (((v) & (bits)) != 0)
#endif

/* Sets an owned word to v, without a store if it is v already, as its last use often left it. A path of hundreds of
   instructions waits for its stores, and a compare that comes out as always costs next to nothing. ts_keep is for
   words that are not atomic. */
#define ts_keep_relaxed(p, v) (ts_load_relaxed(p) != (v) ? ts_store_relaxed(p, v) : (void)0)
#define ts_keep(p, v) (*(p) != (v) ? (void)(*(p) = (v)) : (void)0)

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

#endif
