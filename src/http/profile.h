/*
 * Profiles of an allocator's sampled stacks in the format of pprof: what is live and what was ever allocated, objects
 * and bytes, by stack and epoch label.
 */
#ifndef TSLAB_HTTP_PROFILE_H
#define TSLAB_HTTP_PROFILE_H

#include <tslab/stats.h>

/* HEAP: shows first what is live; ALLOCS: what was ever allocated. Both have all four figures. */
typedef enum http_profile_kind { HTTP_PROFILE_HEAP, HTTP_PROFILE_ALLOCS } http_profile_kind;

/* Compressed with gzip, of malloc. NULL: no memory, or no such allocator. Takes the loader's lock for a moment. */
unsigned char *http_profile(SlabAllocator *allocator, http_profile_kind kind, size_t *bytes);

#endif
