/*
 * The spare: memory for the few objects that the core cannot give. They are those of a process whose libc is not
 * ready, of the making of the allocator itself, and of a thread that has ended but for some destructors.
 *
 * Blocks are powers of two from 32 bytes on, cut from a range that only grows; a free block waits on the list of its
 * size.
 *
 * Invariants
 *  1. Nothing here takes a lock or calls anything that could allocate: the spare works inside of everything, in a
 *     signal handler and in a child of fork.
 *  2. A list's head is { turn, block }: a pop of a block exchanges the whole head. A block that was popped and pushed
 *     again meanwhile has changed the turn, so an old `next` is never put in place. Pushes raise the turn.
 *  3. The first granule of a block is the spare's own for ever: a pop reads `next`, also while the block is another's.
 *  4. Before each object lies its mark, in the granule before it. An object is live while its mark says so; the thread
 *     that changes that to free has freed it, and no other has.
 */
#ifndef TM_MALLOC_SPARE_H
#define TM_MALLOC_SPARE_H

#include <stdbool.h>
#include <stddef.h>

/* alignment: a power of two. NULL with errno ENOMEM. */
void *tm_spare_alloc(size_t alignment, size_t size);
/* Whether p is in the spare's memory, at the start of an object or not. */
bool tm_spare_owns(const void *p);
/* false: not a live object of the spare. */
bool tm_spare_free(void *p);
/* 0: not a live object of the spare. */
size_t tm_spare_usable(const void *p);

#endif
