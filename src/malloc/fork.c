#define _GNU_SOURCE
#include "malloc/fork.h"

#include "malloc/entry.h"

#include <limits.h> /* __GLIBC__ */

#if defined(__GLIBC__)

extern void _IO_list_lock(void);
extern void _IO_list_unlock(void);
extern void _IO_list_resetlock(void);

static void outer_hooks(ts_fork_when when) {
    switch (when) {
    case TS_FORK_BEGINS: _IO_list_lock(); break;
    case TS_FORK_PARENT: _IO_list_unlock(); break;
    case TS_FORK_CHILD: _IO_list_resetlock(); break; /* as libc has done, unless it knows of one thread only */
    }
}

void tm_malloc_fork_start(void) {
    static _Atomic uint32_t started;
    if (!atomic_exchange(&started, 1)) ts_private_fork_outer_hooks(outer_hooks);
}

#ifndef TSLAB_MALLOC_STATIC

#include "malloc/next.h"

#include <string.h>

typedef int (*register_function)(void (*)(void), void (*)(void), void (*)(void), void *);

static register_function find_register(void) {
    static _Atomic(register_function) real; /* the same value from every thread */
    register_function function = ts_load_relaxed(&real);
    if (TS_LIKELY(function != NULL)) return function;
    void *symbol = tm_malloc_next("__register_atfork");
    memcpy(&function, &symbol, sizeof function);
    ts_store_relaxed(&real, function);
    return function;
}

/* What pthread_atfork calls, which each library has of its own. A library may be initialised before this one. */
TM_EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library) {
    tm_malloc_fork_start();
    register_function function = find_register();
    return function ? function(prepare, parent, child, library) : ENOSYS;
}

#endif
#else

void tm_malloc_fork_start(void) {}

#endif
