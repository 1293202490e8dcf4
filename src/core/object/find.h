/*
 * Where an allocation goes that has missed the fast path: the calling thread's block, and the next object of it. All of
 * this is called inside an operation of the thread, and looks at the words of a block after the operation has begun: so
 * what they say is true until it ends (ownership/heap.c).
 */
/* Modelled in tests/model: bump, orders. */
#ifndef TS_OBJECT_FIND_H
#define TS_OBJECT_FIND_H

#include "cache/allocate.h"
#include "cache/cache.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "object/object.h"
#include "os/os.h"

/* The calling thread's share of another allocator than the one that it is bound to. The fast paths may use the share's
   open blocks: their keys and the ids of their epochs say so. So a thread that goes from one allocator to another need
   not be bound anew each time. NULL: the slow path, which binds the thread. This is so now and then, without a share,
   with care, while timing is on, and if the thread is called, which only its token tells it (heap.c). */
TS_ALWAYS_INLINE const ts_share *ts_find_share(ts_tls *tls, uintptr_t token) {
    uintptr_t bound = ts_load_relaxed(&tls->token);
    if (TS_UNLIKELY(bound == TS_TOKEN_CALLED || bound == UINTPTR_MAX || bound == token || token == 0)) return NULL;
    if (TS_UNLIKELY((tls->heap->sample_rate | ts_load_relaxed(&ts_sample_rate)) != 0)) return NULL;
    if (TS_UNLIKELY(++tls->others >= TS_OTHERS_MOST)) {
        tls->others = 0;
        return NULL;
    }
    _Atomic(ts_share *) *recent = &tls->heap->recent[(uint32_t)token % TS_RECENT_SHARES];
    ts_share *share = ts_load_relaxed(recent);
    if (TS_UNLIKELY(share == NULL || share->token != token)) {
        share = ts_heap_find_share(tls->heap, token);
        ts_store_relaxed(recent, share);
    }
    return TS_LIKELY(share && !share->care) ? share : NULL;
}

/* Whether a block is open in that epoch to the share of that key, so to this thread and without care. */
TS_ALWAYS_INLINE bool ts_is_own_open(const ts_block *block, uint64_t share_key, EpochId epoch) {
    return ts_is_relaxed_64(&block->open_id, epoch) &&
           (ts_load_relaxed(&block->key) ^ share_key) >> TS_KEY_SHARE_SHIFT == 0;
}

/* And whether the fast paths may use it. */
TS_ALWAYS_INLINE bool ts_is_open_to(const ts_block *block, uint64_t share_key, EpochId epoch) {
    return ts_is_relaxed_64(&block->open_id, epoch) && !block->slow &&
           (ts_load_relaxed(&block->key) ^ share_key) >> TS_KEY_SHARE_SHIFT == 0;
}

/* A block of the calling thread's that is open and that the fast paths may use: one of the two, or none. */
typedef struct ts_found {
    ts_churn_block *churn;
    ts_scope_block *scope;
} ts_found;
static inline bool ts_is_found(ts_found found) { return ((uintptr_t)found.churn | (uintptr_t)found.scope) != 0; }

/* Its open block of an epoch, by the one order in which all allocations look: the thread's map of churn blocks, its map
   of scopes. bound: the allocator is the one of the thread's last operation, which looks in `block` and `last` before;
   the block that is found takes that place. Else share_key is of another allocator's share. */
TS_ALWAYS_INLINE ts_found ts_find_block(ts_tls *tls, uint64_t share_key, EpochId epoch, const bool bound) {
    const ts_heap *heap = tls->heap;
    if (bound && TS_UNLIKELY(!heap)) return (ts_found){NULL, NULL}; /* bound to what is no allocator */
    ts_churn_block *churn = heap->map[(uint32_t)epoch % TS_HEAP_MAP];
    if (churn && ts_is_open_to(&churn->b, share_key, epoch)) {
        if (bound) tls->block = churn;
        return (ts_found){churn, NULL};
    }
    ts_scope_block *scope = heap->scope_map[(uint32_t)epoch % TS_HEAP_MAP];
    if (TS_UNLIKELY(!scope || !ts_is_open_to(&scope->b, share_key, epoch))) return (ts_found){NULL, NULL};
    if (bound) tls->last = scope;
    return (ts_found){NULL, scope};
}

/* The whole search, where the hit path has not looked at the blocks used last. */
TS_ALWAYS_INLINE ts_found ts_find(ts_tls *tls, uintptr_t token, EpochId epoch) {
    if (TS_UNLIKELY(epoch == EPOCH_NONE)) return (ts_found){NULL, NULL};
    if (TS_LIKELY(!ts_is_other_relaxed_64(&tls->token, token))) {
        if (ts_is_relaxed_64(&tls->block->b.open_id, epoch)) return (ts_found){tls->block, NULL};
        if (ts_is_relaxed_64(&tls->last->b.open_id, epoch)) return (ts_found){NULL, tls->last};
        return ts_find_block(tls, tls->share_key, epoch, true);
    }
    const ts_share *share = ts_find_share(tls, token);
    return TS_LIKELY(share != NULL) ? ts_find_block(tls, ts_share_key(share), epoch, false) : (ts_found){NULL, NULL};
}

/* An object from what the block has at hand. NULL: it has none at hand, or the object is a large one. */
TS_ALWAYS_INLINE void *ts_alloc_slot(ts_churn_block *block, size_t size) {
    ts_bin *bin = ts_bin_of(block, size);
    return TS_LIKELY(bin != NULL) ? ts_fast_slot(bin) : NULL;
}
TS_ALWAYS_INLINE void *ts_alloc_bytes(ts_scope_block *block, size_t size) {
    uint64_t bump, next;
    if (TS_UNLIKELY(!ts_fast_has_room(block, size, &bump, &next))) return NULL;
    char *p = ts_fast_bump(block, bump, next);
    TS_ASSUME(p != NULL);
    return p;
}
TS_ALWAYS_INLINE void *ts_alloc_cached(ts_found found, size_t size) {
    if (TS_LIKELY(found.churn != NULL)) return ts_alloc_slot(found.churn, size);
    return TS_LIKELY(found.scope != NULL) ? ts_alloc_bytes(found.scope, size) : NULL;
}

/* An object in the current slab of the scope that the thread is inside of: size `last` + 1, which is a multiple of
   16. The operation begins with the bump word, and ends as that moves on to the next object (heap.c). aligned: only
   if the place is a multiple of that alignment. NULL: missed, and the operation goes on; the next step begins
   another. */
TS_ALWAYS_INLINE char *ts_alloc_innermost(ts_tls *tls, size_t last, const bool aligned, size_t alignment) {
    ts_scope_block *block = ts_load_relaxed(&tls->scope);
    uint64_t bump = ts_load_relaxed(&block->bump);
    ts_op_begin_bump(tls, bump);
    /* First: a thread that closes the block may be changing the rest of it already. Only its owner opens it again, so
       if it is open it was so when bump was read. */
    if (TS_UNLIKELY(ts_is_relaxed_64(&block->b.open_id, TS_ID_NEVER))) return NULL;
    ts_compiler_fence(); /* else the compiler makes one condition of that and the next */
    if (TS_UNLIKELY(last >= TS_UNIT_BYTES)) return NULL; /* too large, or of size 0 */
    /* A place of 0 is none. An alignment of 0 is no power of two, and nothing is a multiple of it. */
    if (aligned && (TS_UNLIKELY(alignment > ts_load_relaxed(&ts_aligned_most)) ||
                    TS_UNLIKELY((((uintptr_t)ts_bump_at(bump) | alignment) & (alignment - 1)) != 0)))
        return NULL;
    uint64_t next = ts_bump_next(bump, last + 1);
    if (TS_UNLIKELY(ts_is_below_relaxed_64(&block->limit, next))) return NULL;
    char *p = ts_fast_bump(block, bump, next);
    TS_ASSUME(p != NULL);
    return p;
}

/* The block of the rolling epoch. */
TS_ALWAYS_INLINE ts_churn_block *ts_find_rolling(ts_tls *tls, uintptr_t token) {
    if (TS_LIKELY(!ts_is_other_relaxed_64(&tls->token, token)))
        return TS_LIKELY(ts_load_relaxed(&tls->rolling->b.rolling) != 0) ? tls->rolling : NULL;
    const ts_share *share = ts_find_share(tls, token);
    EpochId epoch = EPOCH_NONE;
    if (TS_LIKELY(share != NULL))
        epoch = ts_load_acquire(&share->allocator->current_epoch); /* as in ts_epoch_current */
    if (TS_UNLIKELY(epoch == EPOCH_NONE)) return NULL;
    ts_churn_block *churn = ts_find_block(tls, ts_share_key(share), epoch, false).churn;
    return TS_LIKELY(churn && ts_load_relaxed(&churn->b.rolling) == token) ? churn : NULL;
}

/* An object in the next slab of a scope, in place of the current one, if that slab can be had without the slow path;
   else NULL. in_op is 1, so the heap is held unless another thread revoked it; the caller may have looked before
   that. */
TS_ALWAYS_INLINE void *ts_alloc_next_slab(const ts_tls *tls, ts_scope_block *block, size_t size) {
    size_t bytes = (size + 15) & ~(size_t)15;
    if (TS_UNLIKELY(ts_load_relaxed(&block->b.open_id) == TS_ID_NEVER || bytes == 0 ||
                    !ts_scope_may_renew(block, bytes) || ts_load_acquire(&tls->heap->revoked) != 0 ||
                    ts_heap_is_waited_for(tls->heap) || ts_sample_is_news(tls->heap)))
        return NULL;
    void *p = ts_scope_next(block, bytes, false);
    return TS_LIKELY(p != NULL) ? p : ts_scope_renew_for(block, bytes);
}

/* An object of a block, which was found, and has none at hand: from the next claimed word, or the next slab. NULL:
   the slow path. */
TS_ALWAYS_INLINE void *ts_alloc_refill(const ts_tls *tls, ts_found found, size_t size) {
    if (found.scope) return ts_alloc_next_slab(tls, found.scope, size);
    ts_bin *bin = ts_bin_of(found.churn, size);
    return TS_LIKELY(bin != NULL) ? ts_fast_claim(tls, found.churn, bin) : NULL;
}

/* ---- while the allocator samples stacks (observe/stacks.h) ---------------------------------------------------- */

/* Counts the bytes of an object of a block that is open, if it is so to this thread (ts_is_own_open), and the next
   sample is beyond them. The key comes first: a block that is another thread's may end. A caller that gets no object
   then takes them back. */
TS_ALWAYS_INLINE bool ts_count_before_sample(const ts_tls *tls, const ts_block *block, size_t bytes) {
    if (TS_UNLIKELY((ts_load_relaxed(&block->key) ^ tls->share_key) >> TS_KEY_SHARE_SHIFT != 0)) return false;
    ts_share *share = block->share;
    if (TS_LIKELY(ts_leaves_any_64(&share->stack_left, (int64_t)bytes))) return true;
    share->stack_left += (int64_t)bytes;
    return false;
}
TS_ALWAYS_INLINE void *ts_counted(const ts_block *block, size_t size, void *p) {
    if (TS_UNLIKELY(p == NULL)) block->share->stack_left += (int64_t)ts_stacks_bytes(size);
    return p;
}

/* ts_fast_slot, but for an object whose place has a name, which the slow path takes first (diagnose/named.c). */
TS_ALWAYS_INLINE void *ts_counted_slot(ts_bin *bin) {
    uint64_t top = ts_load_relaxed(&bin->top), depth = ts_low_byte(top);
    if (TS_UNLIKELY((uint32_t)depth == 0)) return ts_fast_word(bin);
    char *object = bin->magazine->object[depth - 1];
    if (TS_UNLIKELY(!ts_is_zero_relaxed_16(ts_name_word_at(object)))) return NULL;
    TS_ASSUME(object != NULL);
    ts_store_relaxed(&bin->top, top + TS_TOP_POP); /* as ts_fast_pop */
    ts_set_live(object);
    return object;
}

/* An object at hand of an open block that is slow only because samples are taken. The hint may be old: the block can
   have another use. NULL: the slow path, which counts what it allocates. */
TS_ALWAYS_INLINE void *ts_alloc_counted_slot(const ts_tls *tls, ts_churn_block *block, size_t size) {
    if (TS_UNLIKELY(size - 1 >= TS_MAX_CLASS_BYTES)) return NULL; /* the rest is rare */
    if (TS_UNLIKELY(block->b.slow != TS_SLOW_COUNTED)) return NULL;
    if (TS_UNLIKELY(!ts_count_before_sample(tls, &block->b, (size + 15) & ~(size_t)15))) return NULL;
    return ts_counted(&block->b, size, ts_counted_slot(ts_bin_of(block, size)));
}
TS_ALWAYS_INLINE void *ts_alloc_counted_bytes(const ts_tls *tls, ts_scope_block *block, size_t size) {
    if (TS_UNLIKELY(size - 1 >= TS_UNIT_BYTES) || TS_UNLIKELY(block->b.slow != TS_SLOW_COUNTED)) return NULL;
    if (TS_UNLIKELY(!ts_count_before_sample(tls, &block->b, (size + 15) & ~(size_t)15))) return NULL;
    return ts_counted(&block->b, size, ts_alloc_bytes(block, size));
}

/* The same in an epoch of the allocator that the thread is bound to, where it is that of the last such block. */
TS_ALWAYS_INLINE void *ts_alloc_counted(const ts_tls *tls, size_t size, EpochId epoch) {
    if (TS_LIKELY(ts_is_relaxed_64(&tls->counted->b.open_id, epoch)))
        return ts_alloc_counted_slot(tls, tls->counted, size);
    if (ts_is_relaxed_64(&tls->counted_scope->b.open_id, epoch))
        return ts_alloc_counted_bytes(tls, tls->counted_scope, size);
    return NULL;
}

/* The end of an operation with that object, which may have left something to settle. */
TS_ALWAYS_INLINE void *ts_alloc_done(ts_tls *tls, void *p) {
    ts_op_end(tls);
    if (TS_UNLIKELY(ts_epoch_is_anything_noted())) ts_epoch_run_deferred();
    return p;
}

#endif
