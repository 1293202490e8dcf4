/*
 * Names of threads, for the sampled stacks. Once names are wanted, a thread asks the system for its own name when it
 * begins, and never again: a sandbox that it enters later may forbid the question. A reader of the samples looks
 * later names up in /proc.
 *
 * The fields are a hint: a name that is read while it changes may be half of each.
 */
#ifndef TS_OWNERSHIP_THREAD_NAME_H
#define TS_OWNERSHIP_THREAD_NAME_H

#include "os/stack.h"
#include "ownership/heap.h"

typedef struct ts_thread_name {
    uint64_t serial; /* of the thread's heap while it had that; 0: unknown */
    uint64_t word[2];
} ts_thread_name;
_Static_assert(sizeof(((ts_thread_name *)0)->word) == TS_OS_THREAD_NAME_BYTES, "a name is two words");

/* From now on; once. A thread that has begun before asks for its name when it is first sampled. */
void ts_thread_names_want(void);
/* The calling thread has this heap now; has it no more. */
void ts_thread_name_begin(ts_heap *heap);
void ts_thread_name_end(ts_heap *heap);
/* As the calling thread, which has that heap, knows its name. */
ts_thread_name ts_thread_name_own(ts_heap *heap);
/* The name that the thread has now. If it has ended: the name that it had when this one was taken. */
void ts_thread_name_now(const ts_thread_name *name, char out[TS_OS_THREAD_NAME_BYTES]);
/* Looks up the names of all threads. Any thread, holding nothing. */
void ts_thread_names_look(void);
void ts_thread_names_fork_child(void);

#endif
