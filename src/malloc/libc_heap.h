/*
 * The heap of libc's own malloc, which is in the process still. A library that was loaded with RTLD_DEEPBIND finds
 * libc's functions before ours, and a pointer of its may come here.
 *
 * Only what provably is of that heap is passed on: libc says that it has taken memory by brk, and the pointer lies
 * there. Its objects in mappings of their own cannot be told from anything else; they are answered like any pointer
 * that is nobody's.
 */
#ifndef TS_MALLOC_LIBC_HEAP_H
#define TS_MALLOC_LIBC_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* false: nothing was done, as it is not there. */
bool ts_libc_heap_free(void *p);
/* 0: it is not there. */
size_t ts_libc_heap_usable(const void *p);

#endif
