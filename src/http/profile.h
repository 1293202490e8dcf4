/*
 * Profiles of an allocator's sampled stacks in the format of pprof: live objects and all that there ever were, with
 * their bytes, by stack and epoch label.
 */
#ifndef TSLAB_HTTP_PROFILE_H
#define TSLAB_HTTP_PROFILE_H

#include <tslab/stats.h>

/* HEAP shows the live objects first, ALLOCS all that there ever were. Both have all four figures. */
typedef enum http_profile_kind { HTTP_PROFILE_HEAP, HTTP_PROFILE_ALLOCS } http_profile_kind;

/* Compressed with gzip, of malloc. NULL: no memory, or no such allocator. Takes the loader's lock for a moment. */
unsigned char *http_profile(SlabAllocator *allocator, http_profile_kind kind, size_t *bytes);

#endif
