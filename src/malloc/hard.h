/*
 * The hard mode: TSLAB_HARDEN when the process starts. A layer between malloc's functions and the core; without it none
 * of this runs. Each PART of it (ts_harden) can be left out:
 *
 *     canary       nothing is drawn around objects, and nothing is said of what is written there
 *     quarantine   what is freed is the core's at once, and nothing is said of what is written there
 *     guard        large objects have no guards, those of no bytes have memory
 *     kinds, sized the function and the size by which an object is freed are not compared with its own
 *
 * Words are always there: by them an object is freed once.
 *
 * An object is one of four kinds, by the bytes asked for:
 *
 *     none     0 bytes: a place in a range without access (hard_none.c)
 *     slot     up to 8184: [object | canary | word] in a slot of the core's; in the first behind a front word
 *     span     below 128 KiB: [front word | object | canary | word] in memory of its own
 *     large    from there on: between guards, and without access once freed (hard_large.c)
 *
 * The WORD is the last of a slot or span, and says all there is to say of its object: its state, by which function it
 * was allocated, its size, and a checksum of that with the place and a secret of the process.
 *
 * Invariants
 *  1. The thread that changes the word from LIVE to WAITS, by a compare-and-swap, has the object alone: to free it, or
 *     to resize it, which makes it LIVE again. The core frees it later, once: of two threads that free one object at
 *     the same instant one is refused, and touches nothing of it.
 *  2. To the core an object lives until it leaves the quarantine (hard_wait.c). So its slot stays a slot of that size,
 *     and its word stays where it is, while anything here looks at it.
 *  3. The word before each slot is the last of the slot before it. It has a right checksum, or is zero because its
 *     page went back to the system, or its slot is lost (tm_hard_is_lost). The first slot of a slab has none before
 *     it: there an object lies 16 bytes further on, behind a word of its own. One that leaves no room for that is
 *     allocated in another slot.
 *  4. An object that waits is clear. So is a slot whose word says FREE and the use of its slab that is now.
 *  5. The first allocation of a slab's use makes all its slots so (hard_slot.c).
 *
 * One case is left: a pointer is looked at (find) before anybody has its object. If that was freed before, and in
 * between leaves the quarantine and becomes part of a large object, the word that is read can lie in a guard page of
 * it. Then the program ends.
 *
 * Nothing here takes a lock: threads share atomic words only. In a child of fork an object that another thread was
 * moving is lost.
 *
 * Objects of a domain that captures, and those of the core's own functions, are not touched: they have what the core
 * checks.
 */
#ifndef TM_MALLOC_HARD_H
#define TM_MALLOC_HARD_H

#include "malloc/process.h"

/* The process's allocator in this mode; NULL: the mode is off, or there is none yet. Released after all else. */
extern TS_HIDDEN tm_target tm_hard;

TS_ALWAYS_INLINE bool tm_is_hard(void) { return tm_target_allocator(&tm_hard) != NULL; }

/* Once. parts: a ts_harden. false: no memory. */
bool tm_hard_start(SlabAllocator *allocator, EpochId epoch, uint32_t parts);

/* alignment: a power of two. NULL with errno: ESTALE or EINVAL as slab_malloc_epoch, or ENOMEM. */
void *tm_hard_alloc(size_t alignment, size_t size, bool zero, tm_kind kind);

/* What became of a pointer. OTHER: it is no object of this layer, and nothing was done. */
typedef enum tm_hard_answer { TM_HARD_DONE, TM_HARD_REFUSED, TM_HARD_OTHER } tm_hard_answer;

/* A size or an alignment that the program gives with a free is wrong. */
void tm_hard_tell_size(const char *call, const void *p, const char *why);

/* call: the name of the function. size: TM_SIZE_UNKNOWN, or what the program says it is. */
tm_hard_answer tm_hard_free(const char *call, void *p, tm_kind kind, size_t size);
/* *result: NULL with errno ENOMEM, or the object. size: not 0. */
tm_hard_answer tm_hard_realloc(void *p, size_t size, void **result);
/* Bytes that the core takes for live and the program does not have: those around objects, and objects that wait. They
   are of a moment ago. */
size_t tm_hard_beside_bytes(void);
/* DONE: a live object of this layer, of *bytes. Else *bytes is 0; REFUSED: one that is no longer live. */
tm_hard_answer tm_hard_usable(const void *p, size_t *bytes);

#endif
