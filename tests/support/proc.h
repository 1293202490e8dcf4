/*
 * Processes: forked and re-executed children with a time limit and their stderr, and the kernel's figures of our
 * memory.
 */
#ifndef SUP_PROC_H
#define SUP_PROC_H

#include "check.h"
#include <stdatomic.h>

#include <stdbool.h>
#include <stddef.h>

/* For processes that hang. Under an emulator a start of a process takes a second of a processor. */
#define SUP_CHILD_SECONDS (SUP_EMULATED ? 300u : 60u)

/* Runs fn(arg) in a forked child, which ends with _exit(0) when fn returns. Keeps up to capacity - 1 bytes of
   its stderr in err, terminated (err may be NULL: not captured). Returns the wait status. A child that runs
   longer than seconds is ended by SIGALRM. */
int sup_child(void (*fn)(void *), void *arg, unsigned seconds, char *err, size_t capacity);

/* _exit for a child; in a coverage build its run counts. */
void sup_exit(int status);

/* Runs this executable again with the given arguments (argv[0] included, NULL-terminated) and the variable
   name=value in its environment (name NULL: none). The rest as sup_child. A kernel that cannot run the executable
   by itself is given the words of TEST_EMULATOR first. */
int sup_reexec(char *const argv[], const char *name, const char *value, char *err, size_t capacity);

/* Resident memory of this process from /proc/self/smaps_rollup; 0 if it cannot be read. */
size_t sup_rss_bytes(void);

/* Lines in text. */
size_t sup_count_lines(const char *text);

void sup_sleep_ms(unsigned milliseconds);

/* Returns when the thread `*id` (gettid; 0: it has not begun) waits: it slept in the kernel at two looks in turn, or
   has run for 20 ms since the first. */
void sup_until_waits(const atomic_long *id);

/* Returns when *flag is set, or that thread waits. */
void sup_until_set_or_waits(const atomic_bool *flag, const atomic_long *id);

/* Returns when *flag is set. The calling thread does not sleep, so it does not wait in the sense above. After ten
   seconds the test has failed. */
void sup_until_set(const atomic_bool *flag);

/* fn(arg) in a new thread, which has ended when this returns. */
void sup_in_thread(void *(*fn)(void *), void *arg);

/* gettid(). */
long sup_thread_id(void);

#endif
