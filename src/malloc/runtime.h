/*
 * What the runtimes of C and C++ allocate for themselves while a thread is inside of a domain that captures: exceptions
 * and their texts, the lists of destructors of threads and of the process, buffers of stdio, what pthread_setspecific
 * keeps. It outlives the domain, so it is the process's. Objects that they hand to their callers (strdup, getline,
 * std::string) are the domain's.
 *
 * The function that asks tells: the caller's address is compared with the bounds of those functions. Some libraries
 * allocate for themselves alone. Nothing of this is on a path outside of such domains.
 */
#ifndef TS_MALLOC_RUNTIME_H
#define TS_MALLOC_RUNTIME_H

#include "base/attr.h"

#include <stdbool.h>

/* Whether the memory that is asked for from there is a runtime's own. Not while the loader's lock is held by a thread
   that waits for this one: a library of C++ that was loaded since is looked at. */
bool ts_is_runtimes(const void *caller);
/* Once, while nothing is captured. */
void ts_runtimes_start(void);

#endif
