/*
 * __cxa_atexit, on_exit and at_quick_exit are libc's. The names are here for programs that were linked when this
 * library did more: they may have them as its own.
 */
#define _GNU_SOURCE
#include "malloc/entry.h"
#include "malloc/next.h"

#include <stdlib.h>

TM_MALLOC_NEXT(int, __cxa_atexit, (void (*fn)(void *), void *arg, void *object))
TM_MALLOC_NEXT(int, __cxa_at_quick_exit, (void (*fn)(void *), void *object))
TM_MALLOC_NEXT(int, on_exit, (void (*fn)(int, void *), void *arg))

TM_EXPORT int __cxa_atexit(void (*fn)(void *), void *arg, void *object);
int __cxa_atexit(void (*fn)(void *), void *arg, void *object) { return next___cxa_atexit()(fn, arg, object); }

TM_EXPORT int __cxa_at_quick_exit(void (*fn)(void *), void *object);
int __cxa_at_quick_exit(void (*fn)(void *), void *object) { return next___cxa_at_quick_exit()(fn, object); }

TM_EXPORT int on_exit(void (*fn)(int, void *), void *arg) { return next_on_exit()(fn, arg); }
