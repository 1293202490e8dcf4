/* Compiler attributes and small macros, of gcc and clang. No other header of the project is included here. */
#ifndef TS_BASE_ATTR_H
#define TS_BASE_ATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Puts a pointer that the function returns into the register for results, from here on. Otherwise compilers may work
   on it in another register, and copy it twice. */
#if defined(__x86_64__)
#define TS_RETURNED(x) __asm__("" : "+a"(x))
#else
#define TS_RETURNED(x) ((void)0)
#endif

/* Puts a pointer into a register from here on. Otherwise compilers may compute it twice. */
#define TS_COMPUTED(x) __asm__("" : "+r"(x))
#define TS_COMPUTED_AFTER(x, y) __asm__("" : "+r"(x) : "r"(y)) /* and computes nothing from x before y is there */

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

#endif
