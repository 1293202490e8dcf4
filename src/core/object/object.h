/* Objects off the fast paths: allocation, free and resizing, where api/objects.c has missed. */
#ifndef TS_OBJECT_OBJECT_H
#define TS_OBJECT_OBJECT_H

#include "cache/cache.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"

/* ---- not inside an operation ---------------------------------------------------------------------------- */

void *ts_alloc(uintptr_t allocator, size_t size, EpochId epoch);
/* Allocates, and makes the object's handle. ESTALE: the object has died since. */
void *ts_alloc_object(uintptr_t allocator, size_t size, EpochId epoch, SlabHandle *handle);
/* Makes the handle of a new object; word: the UNIT word of its slab in the operation that took it. Returns p. NULL with
   errno, and p is freed: ESTALE, as above; ENOMEM, for generations. */
void *ts_handle_new(uintptr_t allocator, void *p, uint64_t word, SlabHandle *handle);
void *ts_alloc_aligned(uintptr_t allocator, size_t align, size_t size, EpochId epoch, bool zero);
/* In whichever epoch is the current one, however often other threads advance. ESTALE: the program has ended that. */
void *ts_alloc_current(uintptr_t allocator, size_t align, size_t size, bool zero);
/* The same, of slab_malloc. */
void *ts_alloc_rolling(uintptr_t allocator, size_t size);
/* The largest alignment that any object of the process was requested with, at least 16. It rises before the object is
   there. relaxed: a thread has the object from the thread that requested it, and that orders the two. */
extern TS_HIDDEN _Atomic size_t ts_aligned_most;
/* The alignment that an object keeps when it moves: its address's, as far as it can have been requested. */
static inline size_t ts_alignment_kept(const void *p) {
    uintptr_t of_address = (uintptr_t)p & (0u - (uintptr_t)p);
    size_t most = ts_load_relaxed(&ts_aligned_most);
    return of_address < most ? of_address : most;
}
/* generation: the object's (from a handle), or TS_ANY_GENERATION. */
bool ts_free(uintptr_t allocator, void *p, uint32_t generation);
/* Frees the object that was looked at: in that use of its slab, and of that generation. */
bool ts_free_object(uintptr_t allocator, const ts_object *object);
/* Frees an object that was looked at, and has been copied. Nothing is freed if its slab is in another use: without a
   handle a generation does not tell one use from another (slab.h). Nor if the copy lies in its place: it was freed
   meanwhile, and the copy is what lives there. */
static inline void ts_free_copied(uintptr_t token, const ts_object *object, const void *copy) {
    if (TS_LIKELY(ts_is_same_use(ts_load_acquire(ts_unit_word(object->unit)), object->word)) &&
        TS_LIKELY(copy != object->address))
        (void)ts_free_object(token, object);
}
/* NULL with errno: EINVAL, it is no live object; ENOMEM; ESTALE, its epoch takes no larger one. */
void *ts_realloc(uintptr_t allocator, void *p, size_t alignment, size_t size);
/* Resizes an object that does not stay where it is (ts_realloc_stays), and that ts_fast_look has seen with that UNIT
   word. The object is not looked at again before it is freed. */
void *ts_resize_own(uintptr_t allocator, void *p, size_t size, uint64_t word);
/* Whether objects of that size are spans in an epoch. */
bool ts_has_as_span(const ts_allocator *allocator, EpochId id, size_t size);
/* Whether an object of a class stays where it is when it is resized to `size` bytes, which fit. It does unless half
   of it or more would be wasted. */
TS_ALWAYS_INLINE bool ts_realloc_stays(size_t bytes, size_t size) { return size >= bytes / 2 || bytes <= 64; }

/* ---- inside an operation -------------------------------------------------------------------------------- */

/* The allocator of the thread's last operation on a fast path. The share tells it: another thread may have
   overwritten the token (heap.c). */
static inline uintptr_t ts_bound_token(const ts_tls *tls) {
    if (TS_UNLIKELY(tls->share_key == TS_KEY_NO_SHARE)) return UINTPTR_MAX; /* of what is no allocator */
    const ts_share *share = ts_line_address(tls->share_key >> TS_KEY_SHARE_SHIFT);
    return share->token;
}

/* Puts an object that was freed past a full magazine into its slab, and ends the operation. Returns true. */
bool ts_free_full(ts_bin *bin, uint64_t entry);
/* Go on for slab_free if p, which lies below the mark of part NORMAL, is no object of the thread's own open churn
   block; they end the operation. The first takes the pointer alone, so that slab_free needs fewer registers: the
   allocator is that of the thread's last operation. */
bool ts_free_missed(void *p);
bool ts_free_missed_of(uintptr_t allocator, void *p, uint64_t share_key);

/* Goes on for slab_free if p is in no NEAR unit, and ends the operation. */
bool ts_free_elsewhere(uintptr_t allocator, void *p);

/* A function that is asked before a pointer of one allocator is refused (api/api.h); token 0: there is none. */
typedef struct ts_refusal {
    _Atomic uintptr_t token; /* written once, after the next */
    bool (*ask)(void *p);
} ts_refusal;
extern TS_HIDDEN ts_refusal ts_refusals;
/* A free of a pointer or a handle that is no live object is counted and reported. Returns the answer of the call. */
bool ts_free_refused(uintptr_t allocator, const char *call, void *p, const SlabHandle *handle);

#endif
