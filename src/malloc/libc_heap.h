/*
 * The heap of libc's own malloc, which is in the process still. A library that was loaded with RTLD_DEEPBIND finds
 * libc's functions before ours, and a pointer of its may come here.
 *
 * Only what provably is of that heap is passed on: libc says that it has memory, and the words around the object are as
 * libc writes them, in what brk gives, in a mapping of the object's own, or in an arena of a thread. They are read only
 * where the system can. Objects that libc has put elsewhere, as where brk gave nothing, are answered like any pointer
 * that is nobody's.
 */
#ifndef TM_MALLOC_LIBC_HEAP_H
#define TM_MALLOC_LIBC_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* Once, when the library is loaded: a sandbox may forbid its questions to the system later. */
void tm_libc_heap_start(void);
/* false: nothing was done, as it is not there. */
bool tm_libc_heap_free(void *p);
/* 0: it is not there. */
size_t tm_libc_heap_usable(const void *p);

#endif
