/*
 * fork, for the process's malloc. A thread that has a lock of libc's may allocate, and wait for one of ours: so a fork,
 * which takes all of ours, has such a lock before, or takes it after ours are let go.
 *
 * Invariants
 *  1. The core's handlers of fork are the first of the process: those of all others run while its locks are free. (In
 *     an archive: those of every library that has no constructor before it.)
 *  2. libc takes the lock of stdio's list of files behind all handlers. A thread that has it waits for a file, and a
 *     thread that has a file allocates. It is recursive, so the fork takes it before ours too.
 */
#ifndef TM_MALLOC_FORK_H
#define TM_MALLOC_FORK_H

/* Before the first fork of a process with an allocator. */
void tm_malloc_fork_start(void);

#endif
