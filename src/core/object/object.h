/* Objects off the fast paths: what allocates, frees and resizes where api/objects.c has missed. */
#ifndef TS_OBJECT_OBJECT_H
#define TS_OBJECT_OBJECT_H

#include "diagnose/object.h"
#include "epoch/epoch.h"

/* ---- not inside an operation ---------------------------------------------------------------------------- */

void *ts_alloc(uintptr_t allocator, size_t size, EpochId epoch);
/* The same with the object's handle. ESTALE: it has died since. */
void *ts_alloc_object(uintptr_t allocator, size_t size, EpochId epoch, SlabHandle *handle);
/* In the calling thread's own block of a scope epoch; bytes: a result of ts_scope_round, not 0. */
void *ts_alloc_scope(ts_heap *heap, ts_scope_block *block, size_t bytes, EpochId epoch);
/* In the rolling epoch. */
void *ts_alloc_rolling(uintptr_t allocator, size_t size);
void *ts_alloc_aligned(uintptr_t allocator, size_t align, size_t size, EpochId epoch, bool zero);
/* The largest alignment that an object of the process was asked for with, 16 at least. It rises before the object is
   there. relaxed: who has the object has it from who asked. */
extern TS_HIDDEN _Atomic size_t ts_aligned_most;
/* What an object that moves keeps: as much of its address's alignment as it can have been asked for with. */
static inline size_t ts_alignment_kept(const void *p) {
    uintptr_t of_address = (uintptr_t)p & (0u - (uintptr_t)p);
    size_t most = ts_load_relaxed(&ts_aligned_most);
    return of_address < most ? of_address : most;
}
/* generation: the object's (from a handle), or TS_ANY_GENERATION. */
bool ts_free(uintptr_t allocator, void *p, uint32_t generation);
/* The object that was looked at: in that use of its slab, and of that generation. */
bool ts_free_object(uintptr_t allocator, const ts_object *object);
/* An object that was looked at, and has been copied. Nothing is freed if its slab is in another use by now: where no
   handle was made a generation says nothing of that (slab.h). */
static inline void ts_free_copied(uintptr_t token, const ts_object *object) {
    if (TS_LIKELY((ts_load_acquire(ts_unit_word(object->unit)) & ~TS_UNIT_FOREIGN) == object->word))
        (void)ts_free_object(token, object);
}
/* NULL with errno: EINVAL, it is no live object; ENOMEM; ESTALE, its epoch takes no larger one. */
void *ts_realloc(uintptr_t allocator, void *p, size_t alignment, size_t size);
/* The same of an object that ts_fast_look has seen, with that UNIT word and state word, and that does not stay where it
   is. It is not looked at again before it is freed. */
void *ts_resize_own(uintptr_t allocator, void *p, size_t size, uint64_t word, uint32_t state);
/* Whether an epoch has objects of so many bytes as spans. */
bool ts_has_as_span(const ts_allocator *allocator, EpochId id, size_t size);
/* Whether an object of a class stays where it is when it is resized to `size` bytes, which fit: unless a good half of
   it would be wasted. */
TS_ALWAYS_INLINE bool ts_realloc_stays(size_t bytes, size_t size) { return size >= bytes / 2 || bytes <= 64; }

/* ---- inside an operation -------------------------------------------------------------------------------- */

/* The allocator of the thread's last operation on a fast path. By the share, as another thread may have written over
   the token (heap.h). */
static inline uintptr_t ts_bound_token(const ts_tls *tls) {
    if (TS_UNLIKELY(tls->share_key == TS_KEY_NO_SHARE)) return UINTPTR_MAX; /* of what is no allocator */
    const ts_share *share = ts_line_address(tls->share_key >> TS_KEY_SHARE_SHIFT);
    return share->token;
}

/* Puts an object that was freed past a full magazine into its slab, and ends the operation. Returns true. */
bool ts_free_full(ts_bin *bin, uint64_t entry, uint64_t granule);
/* slab_free of what is no object of the thread's own open churn block, and lies below the limit of part NORMAL; it
   ends the operation. The first is of the pointer alone, as slab_free needs fewer registers then: the allocator is
   that of the thread's last operation. */
bool ts_free_missed(void *p);
bool ts_free_missed_of(uintptr_t allocator, void *p, uint64_t share_key);

/* slab_free by way of ts_free; it ends the operation. */
bool ts_free_elsewhere(uintptr_t allocator, void *p);

/* A function that is asked before a pointer of one allocator is refused (api/private.h); token 0: there is none. */
typedef struct ts_refusal {
    _Atomic uintptr_t token; /* written once, after the next */
    bool (*ask)(void *p);
} ts_refusal;
extern TS_HIDDEN ts_refusal ts_refusals;
/* A free of that pointer, or of that handle, which is no live object: counted and told. Returns the answer of the
   call. */
bool ts_free_refused(uintptr_t allocator, const char *call, void *p, const SlabHandle *handle);

#endif
