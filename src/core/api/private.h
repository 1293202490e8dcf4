/*
 * What the project's own libraries need of the core beyond its public interface. libtslab.so exports it under the
 * version node TSLAB_PRIVATE. Nothing of it is promised to anybody else, or from one build to the next: a library
 * that uses it compares ts_private_build with its own TSLAB_BUILD first.
 */
#ifndef TS_API_PRIVATE_H
#define TS_API_PRIVATE_H

#include "base/attr.h"

#include <tslab/tslab.h>

#if defined(__GNUC__) || defined(__clang__)
#define TS_PRIVATE __attribute__((visibility("default")))
#else
#define TS_PRIVATE
#endif

/* TSLAB_BUILD of the core: a hash of its sources. */
TS_PRIVATE extern const char ts_private_build[];

/* Starts the core without what may allocate by malloc: the page of statistics, and keeping the library loaded. For who
   is the process's malloc, and is never unloaded. false with errno ENOMEM. */
TS_PRIVATE bool ts_private_start(void);
/* The page of statistics, if TSLAB_SHM asks for it. May allocate by malloc. */
TS_PRIVATE void ts_private_start_page(void);

/* One allocator of the process has an owner that is asked before slab_free refuses a pointer of it: `refused` says
   whether it has dealt with it. To be set once, before the allocator is used. */
TS_PRIVATE void ts_private_ask_before_refusal(SlabAllocator *allocator, bool (*refused)(void *p));
/* Who is told of where the calling thread's malloc is to allocate while it is inside a domain that captures
   (allocator NULL: in none); from now on there can be such domains. To be set once. */
TS_PRIVATE void ts_private_capture(void (*changed)(SlabAllocator *allocator, EpochId epoch));
/* The allocator in whose memory p lies, at the start of an object or not; NULL: none. A hint while other threads free
   it. */
TS_PRIVATE SlabAllocator *ts_private_owner(const void *p);
/* As slab_realloc of a pointer that is not NULL, but one that is no live object is not counted as misuse. */
TS_PRIVATE void *ts_private_realloc(SlabAllocator *allocator, void *p, size_t size);
/* A refused free of p, by a call of that name: counted, told, stopped, as the allocator's options say. */
TS_PRIVATE void ts_private_refuse(SlabAllocator *allocator, const char *call, const void *p);
/* The same of a call that was not refused; why: what is said of p. */
TS_PRIVATE void ts_private_tell(SlabAllocator *allocator, const char *call, const void *p, const char *why);
/* A SlabOnMisuse. */
TS_PRIVATE int ts_private_misuse_mode(SlabAllocator *allocator);
/* Whether the calling thread has a heap, without which it can take objects of no size class. */
TS_PRIVATE bool ts_private_has_heap(void);

#endif
