/*
 * Assertions for tests without a framework (threads, forked children), the common command line of the long
 * tests, and the scale of work under the sanitizers.
 */
#ifndef SUP_CHECK_H
#define SUP_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SUP_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define SUP_SANITIZED 1
#endif
#endif
#ifndef SUP_SANITIZED
#define SUP_SANITIZED 0
#endif

/* 1: the tests run under an emulator of user programs (make cross), which is not the kernel: it ignores limits of the
   address space, and the kernel's figures of the process include the emulator. */
#ifndef SUP_EMULATED
#define SUP_EMULATED 0
#endif

/* How much of n a sanitized or emulated build does: its operations cost ten to twenty times as much. */
#define SUP_SCALED(n) (SUP_SANITIZED || SUP_EMULATED ? ((n) / 16 ? (n) / 16 : 1) : (n))

/* Whether TEST_LONG is set: the long form of a test, as make test-all runs it. The short one is of make test. */
bool sup_long(void);

/* In place of `step` in an enumeration: each in the long form, each `step`-th in the short one. */
static inline long sup_step(long step) { return sup_long() ? 1 : step; }

/* Any thread. Prints the place, the condition, the message and the seed, and ends the process with 1. */
#define SUP_CHECK(condition, ...)                                  \
    do {                                                           \
        if (!(condition)) {                                        \
            sup_fail(__FILE__, __LINE__, #condition, __VA_ARGS__); \
        }                                                          \
    } while (0)

#if defined(__GNUC__) || defined(__clang__)
#define SUP_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define SUP_NORETURN __attribute__((noreturn))
#else
#define SUP_PRINTF(text, first)
#define SUP_NORETURN
#endif

SUP_NORETURN SUP_PRINTF(4, 5) void sup_fail(const char *file, int line, const char *condition, const char *format, ...);

/* The seed that sup_fail prints. Set before threads start. */
void sup_set_seed(uint64_t seed);

struct sup_args {
    double seconds;
    uint64_t seed;
    uint64_t programs;
    uint64_t ops;
    uint64_t threads;
};

/* In the short form a quarter of the seconds and of the programs that `args` has; with ThreadSanitizer half of the
   seconds. Then the options of a long test: --seconds N (or N alone), --seed N, --programs N, --ops N, --threads N.
   Members keep their value where nothing is given. An unknown option or a value that is no number: one line, exit 2. */
void sup_args_parse(int argc, char **argv, struct sup_args *args);

/* Monotonic seconds. */
double sup_now_s(void);

#endif
