/*
 * The accounting equations of tslab/stats.h, checked from outside.
 */
#ifndef SUP_IDENTITIES_H
#define SUP_IDENTITIES_H

#include <tslab/stats.h>

/* At a quiet point: every identity of the allocator, its classes and its epochs. On false, `why` says which
   one and with which figures. */
bool sup_identities(SlabAllocator *allocator, char *why, size_t capacity);

/* At a quiet point after every object is gone: nothing live, and no slab in use. */
bool sup_is_empty(SlabAllocator *allocator, char *why, size_t capacity);

/* The two above for tests with SUP_CHECK; the first with the deep walk of everything in the process. */
void sup_check_identities(SlabAllocator *allocator);
void sup_check_empty(SlabAllocator *allocator);

/* Ends the process's only allocator, with the first of these. For the teardown of a test: 0, or 1 if units are in use
   yet. */
int sup_end_only(SlabAllocator *allocator);

/* Figures by name, 0 where the call fails. */
uint64_t sup_live_objects(SlabAllocator *allocator);
uint64_t sup_committed_bytes(SlabAllocator *allocator);

#endif
