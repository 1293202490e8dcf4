/* Compiler attributes and small macros. No other header of the project is included here. */
#ifndef TS_BASE_ATTR_H
#define TS_BASE_ATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
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
/* For functions that the project's own libraries call (api/private.h). */
#define TS_PRIVATE __attribute__((visibility("default")))
#else
#define TS_LIKELY(x) (x)
#define TS_UNLIKELY(x) (x)
#define TS_ALWAYS_INLINE static inline
#define TS_NOINLINE
#define TS_COLD
#define TS_ALIGNED(n)
#define TS_ASSUME(x) ((void)0)
#define TS_PRINTF(f, a)
#define TS_MAY_ALIAS
#define TS_HIDDEN
#define TS_PRIVATE
#endif

/* Puts a pointer that the function returns into the register for results, from here on. Otherwise compilers may work
   on it in another register, and copy it twice. */
#if defined(__x86_64__) && defined(__GNUC__)
#define TS_RETURNED(x) __asm__("" : "+a"(x))
#else
#define TS_RETURNED(x) ((void)0)
#endif

/* Puts a pointer into a register from here on. Otherwise compilers may compute it twice. */
#if defined(__GNUC__) || defined(__clang__)
#define TS_COMPUTED(x) __asm__("" : "+r"(x))
#define TS_COMPUTED_AFTER(x, y) __asm__("" : "+r"(x) : "r"(y)) /* and computes nothing from x before y is there */
#else
#define TS_COMPUTED(x) ((void)0)
#define TS_COMPUTED_AFTER(x, y) ((void)(y))
#endif

/* A function with a fast path begins on a cache line. Otherwise its time depends on the code before it
   (docs/decisions.md). */
#if defined(__GNUC__) || defined(__clang__)
#define TS_AT_LINE __attribute__((aligned(64)))
#else
#define TS_AT_LINE
#endif

/* The functions that a program calls lie in a section of their own. Call stacks leave them out by the bounds of that
   section (diagnose/stacks.h), because the library may be linked statically, and is entered by jumps. */
#if defined(__ELF__) && (defined(__GNUC__) || defined(__clang__))
#define TS_ENTRY __attribute__((section("tslab_entry"))) TS_AT_LINE
#else
#define TS_ENTRY
#endif

/* Runs when the library is loaded, before main. Where compilers have no such thing, the first use calls it. */
#if defined(__GNUC__) || defined(__clang__)
#define TS_AT_LOAD __attribute__((constructor))
#else
#define TS_AT_LOAD
#endif

/* Runs when the process ends, after the destructors of a program that is linked with the library statically. */
#if defined(__GNUC__) || defined(__clang__)
#define TS_AT_END __attribute__((destructor(101)))
#else
#define TS_AT_END
#endif

#define TS_CACHE_LINE 64u

#endif
