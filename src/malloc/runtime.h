/*
 * What the runtimes of C and C++ allocate for themselves while a thread is inside of a domain that captures: all that
 * libc does, but for what handed.c hands out; of C++ exceptions, their texts, and parts of streams. It outlives the
 * domain, so it is the process's. Objects that libstdc++ hands to its callers (std::string) are the domain's.
 *
 * The function that asks tells: the caller's address is compared with the bounds of libc and of those functions. Some
 * libraries allocate for themselves alone. Nothing of this is on a path outside of such domains.
 */
#ifndef TM_MALLOC_RUNTIME_H
#define TM_MALLOC_RUNTIME_H

#include "base/base.h"

#include <stdbool.h>

/* Whether the memory that is asked for from there is a runtime's own. Not while the loader's lock is held by a thread
   that waits for this one: a library of C++ that was loaded since is looked at. */
bool tm_is_runtimes(const void *caller);
/* Once, while nothing is captured. */
void tm_runtimes_start(void);

#endif
