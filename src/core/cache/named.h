/* The scope block of a call that names its epoch, or its domain, instead of being in it. */
#ifndef TS_CACHE_NAMED_H
#define TS_CACHE_NAMED_H

#include "cache/fast.h"
#include "cache/renew.h"
#include "ownership/heap.h"

/* Makes `last` the thread's own open block of a scope epoch, which it used before it used another. false: it has none, or none
   that the fast paths may use. Inside an operation, bound to the block's allocator. */
TS_ALWAYS_INLINE bool ts_find_scope(ts_tls *tls, EpochId epoch) {
    if (TS_UNLIKELY(!tls->heap)) return false; /* bound to what is no allocator */
    ts_scope_block *block = tls->heap->scope_map[(uint32_t)epoch % TS_HEAP_MAP];
    /* Open to this thread's share of this allocator: so its heap, its token, and no care. */
    if (!block || !ts_is_relaxed_64(&block->b.open_id, epoch) || block->b.slow ||
        ts_load_relaxed(&block->b.key) >> TS_KEY_SHARE_SHIFT != tls->share_key >> TS_KEY_SHARE_SHIFT)
        return false;
    tls->last = block;
    return true;
}

/* The thread's own open block of a churn epoch of the allocator whose share has that key. NULL: as above. Inside an operation. */
TS_ALWAYS_INLINE ts_churn_block *ts_churn_of(const ts_heap *heap, uint64_t share_key, EpochId epoch) {
    ts_churn_block *block = heap->map[(uint32_t)epoch % TS_HEAP_MAP];
    if (!block || !ts_is_relaxed_64(&block->b.open_id, epoch) || block->b.slow ||
        ts_load_relaxed(&block->b.key) >> TS_KEY_SHARE_SHIFT != share_key >> TS_KEY_SHARE_SHIFT)
        return NULL;
    return block;
}

/* The same of the allocator that the thread is bound to: its block in the epoch is `block` then. */
TS_ALWAYS_INLINE bool ts_find_churn(ts_tls *tls, EpochId epoch) {
    if (TS_UNLIKELY(!tls->heap)) return false;
    ts_churn_block *block = ts_churn_of(tls->heap, tls->share_key, epoch);
    if (!block) return false;
    tls->block = block;
    return true;
}

/* An object in a scope block of the thread: from its current slab, or else, if it may, the next, if that can be had in the usual way. NULL:
   another case. Inside an operation. */
TS_ALWAYS_INLINE void *ts_named_next(ts_tls *tls, ts_scope_block *block, size_t size, bool may_renew) {
    uint64_t bump, next;
    if (ts_fast_has_room(block, size, &bump, &next)) return ts_fast_bump(block, bump, next);
    size_t bytes = (size + 15) & ~(size_t)15;
    /* in_op is 1, so the heap is held unless another thread revoked it; what the caller has seen may have been before that. */
    if (TS_UNLIKELY(bytes - 16 > TS_SCOPE_MAX_BYTES - 16 || ts_load_acquire(&tls->heap->revoked) != 0 ||
                    ts_load_relaxed(&block->b.open_id) == TS_ID_NEVER || ts_heap_is_waited_for(tls->heap)) ||
        !may_renew)
        return NULL;
    void *at = ts_scope_next(block, bytes);
    return TS_LIKELY(at != NULL) ? at : ts_scope_renew_for(block, bytes);
}

#endif
