/*
 * Atomics whose order stands in their name. Every shared field is _Atomic and goes through these.
 *
 * relaxed  a single word that publishes nothing else (a counter, a hint, an owner's own field that others
 *          may read), or whose order is given by a barrier named at the place of use.
 * acquire  partner of a release; the comment at the place of use names the partner.
 * seq_cst  store-then-load protocols (two parties that each write one word and read the other's).
 *
 * Exchanges and compare-and-swaps are of words of 32 bits and more only: narrower ones are calls into a library on some
 * machines (riscv64).
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
#define ts_exchange_seq(p, v) atomic_exchange_explicit((p), (v), memory_order_seq_cst)
#define ts_fetch_add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define ts_fetch_sub_relaxed(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_relaxed)
/* Strong; on failure *e is what was found, with acquire. */
#define ts_cas_seq(p, e, v) \
    atomic_compare_exchange_strong_explicit((p), (e), (v), memory_order_seq_cst, memory_order_acquire)

/* Adds to a word that only the caller's thread writes: a load and a store, no locked instruction. On x86-64 both are one
   instruction, which compilers do not make of two relaxed accesses; ThreadSanitizer has to see these. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(TS_THREAD_SANITIZER)
static inline void ts_add_owned_64(_Atomic uint64_t *p, uint64_t v) {
    __asm__("addq %1, %0" : "+m"(*(uint64_t *)(void *)p) : "er"(v) : "cc");
}
static inline void ts_add_owned_32(_Atomic uint32_t *p, uint32_t v) {
    __asm__("addl %1, %0" : "+m"(*(uint32_t *)(void *)p) : "er"(v) : "cc");
}
/* The same of a bitwise or. */
static inline void ts_or_owned_16(_Atomic uint16_t *p, uint16_t v) {
    __asm__("orw %1, %0" : "+m"(*(uint16_t *)(void *)p) : "ir"(v) : "cc");
}
/* The low byte of a word that only the caller's thread writes. Likewise. */
static inline uint64_t ts_low_byte_owned(const _Atomic uint64_t *p) {
    uint64_t byte;
    __asm__("movzbl %1, %k0" : "=r"(byte) : "m"(*(const uint8_t *)(const void *)p));
    return byte;
}
/* Clears two words that lie together, of which only the caller's thread writes either; p is a multiple of 16. Likewise one
   store; each word of it is seen whole. */
typedef uint64_t __attribute__((vector_size(16), may_alias)) ts_pair;
static inline void ts_clear_pair_owned(_Atomic uint64_t *p) {
    __asm__("movaps %1, %0" : "=m"(*(ts_pair *)(void *)p) : "x"((ts_pair){0, 0}));
}
#ifdef __GCC_ASM_FLAG_OUTPUTS__
#define TS_ASM_FLAGS 1
/* Whether a word is v, with a relaxed load. Likewise one instruction. */
static inline bool ts_is_relaxed_64(const _Atomic uint64_t *p, uint64_t v) {
    bool is;
    __asm__("cmpq %2, %1" : "=@cce"(is) : "m"(*(const uint64_t *)(const void *)p), "er"(v));
    return is;
}
/* Whether it is not. Not by a `!` before the other: where a function goes on to return true if the word is v, the compiler returns that
   answer, which takes it a register to save. */
static inline bool ts_is_other_relaxed_64(const _Atomic uint64_t *p, uint64_t v) {
    bool differs;
    __asm__("cmpq %2, %1" : "=@ccne"(differs) : "m"(*(const uint64_t *)(const void *)p), "er"(v));
    return differs;
}
/* Whether a word is v or less. Likewise. */
static inline bool ts_is_at_most_relaxed_64(const _Atomic uint64_t *p, uint64_t v) {
    bool is;
    __asm__("cmpq %2, %1" : "=@ccbe"(is) : "m"(*(const uint64_t *)(const void *)p), "er"(v));
    return is;
}
/* Whether a word is less than v. Likewise. */
static inline bool ts_is_below_relaxed_64(const _Atomic uint64_t *p, uint64_t v) {
    bool is;
    __asm__("cmpq %2, %1" : "=@ccb"(is) : "m"(*(const uint64_t *)(const void *)p), "er"(v));
    return is;
}
/* Whether a word of 32 bits is more than v. Likewise. */
static inline bool ts_is_above_relaxed_32(const _Atomic uint32_t *p, uint32_t v) {
    bool is;
    __asm__("cmpl %2, %1" : "=@cca"(is) : "m"(*(const uint32_t *)(const void *)p), "er"(v));
    return is;
}
#endif
#define ts_add_owned(p, v) \
    _Generic((p), _Atomic uint64_t * : ts_add_owned_64, _Atomic uint32_t * : ts_add_owned_32)((p), (v))
/* Every store of an x86-64 is a release; the compiler must not move others behind it. */
#define ts_add_owned_release(p, v) (atomic_signal_fence(memory_order_release), ts_add_owned((p), (v)))
#else
#define ts_add_owned(p, v) ts_store_relaxed((p), ts_load_relaxed(p) + (v))
#define ts_add_owned_release(p, v) ts_store_release((p), ts_load_relaxed(p) + (v))
#define ts_or_owned_16(p, v) ts_store_relaxed((p), (uint16_t)(ts_load_relaxed(p) | (v)))
#define ts_low_byte_owned(p) (ts_load_relaxed(p) & 0xff)
#define ts_clear_pair_owned(p) (ts_store_relaxed(p, 0), ts_store_relaxed((p) + 1, 0))
#endif

#ifndef TS_ASM_FLAGS
#define ts_is_relaxed_64(p, v) (ts_load_relaxed(p) == (v))
#define ts_is_other_relaxed_64(p, v) (ts_load_relaxed(p) != (v))
#define ts_is_at_most_relaxed_64(p, v) (ts_load_relaxed(p) <= (v))
#define ts_is_below_relaxed_64(p, v) (ts_load_relaxed(p) < (v))
#define ts_is_above_relaxed_32(p, v) (ts_load_relaxed(p) > (v))
#endif

/* A word that only the caller's thread writes is v afterwards; a word that already is, as its use before left it, is not stored
   to. A path of hundreds of instructions waits for its stores (docs/architecture.md, "Fast paths"); a compare that comes out as
   always costs next to nothing. ts_keep: of a word that is not atomic. */
#define ts_keep_relaxed(p, v) (ts_load_relaxed(p) != (v) ? ts_store_relaxed(p, v) : (void)0)
#define ts_keep(p, v) (*(p) != (v) ? (void)(*(p) = (v)) : (void)0)

/* Adds to an owned word that nothing but the statistics reads. The build with TSLAB_UNCOUNTED leaves it out: it only exists
   to measure what counting costs, and its statistics are wrong. */
#ifdef TSLAB_UNCOUNTED
#define TS_COUNTED 0
#define ts_count(p, v) ((void)(p), (void)(v))
#define ts_count_release(p, v) ((void)(p), (void)(v))
#else
#define TS_COUNTED 1
#define ts_count(p, v) ts_add_owned((p), (v))
#define ts_count_release(p, v) ts_add_owned_release((p), (v))
#endif

/* Keeps the compiler, not the machine, from moving accesses across. Partner of os barrier_all(). */
#define ts_compiler_fence() atomic_signal_fence(memory_order_seq_cst)

#endif
