/*
 * Objects of the process's malloc (api.h). There is one such allocator in a process, and one epoch of it that does
 * not end. So a thread keeps its block there (thread.h), and these calls look up nothing else: no token, no epoch, and
 * no key. They see by the same words as slab_malloc_epoch and slab_free what is free, what is live, and whose it is.
 */
#include "api/api.h"
#include "api/runtime.h"

#include "cache/allocate.h"
#include "cache/cache.h"
#include "cache/free.h"
#include "epoch/epoch.h"
#include "object/find.h"
#include "object/object.h"

#include <errno.h>

static _Atomic uintptr_t served; /* token of the allocator; 0: there is none */

void ts_private_keep(EpochId epoch) { ts_store_relaxed(&ts_kept_epoch, epoch); }

void ts_private_serve(SlabAllocator *allocator) {
    /* release, partner of the loads: a thread that sees it asks before it refuses a pointer (ts_private_ask_...), and
       knows the epoch */
    ts_store_release(&served, ts_token(allocator));
}

void ts_private_elsewhere(void) {
    ts_store_relaxed(&ts_thread.private_block, &ts_no_block);
    ts_thread.private_counted = false;
}

/* Binds the thread if its fast paths are for that allocator, and it has a block in the epoch. */
static void bind(ts_tls *tls, uintptr_t token, bool allocates) {
    EpochId epoch = ts_load_relaxed(&ts_kept_epoch);
    if (ts_is_other_relaxed_64(&tls->token, token) || epoch == EPOCH_NONE) return;
    ts_churn_block *block = tls->heap->map[(uint32_t)epoch % TS_HEAP_MAP];
    if (!block || !ts_is_own_open(&block->b, tls->share_key, epoch) || (block->b.slow & TS_SLOW_ALWAYS)) return;
    if (allocates) tls->private_counted = block->b.slow;
    ts_heap_bind_private(tls->heap, block, allocates && !block->b.slow);
}

/* ---- allocation ------------------------------------------------------------------------------------------------- */

/* An object that no slab has. NULL: the slow path tells why, or begins to sample. errno: as in alloc_noted. */
static void *malloc_large(const ts_share *share, size_t size) {
    bool zero = false;
    int before = errno;
    ts_span_note note;
    if (share->care || ts_sample_is_news(ts_thread.heap) || size > PTRDIFF_MAX) return NULL;
    void *p = ts_span_alloc(share->allocator, ts_load_relaxed(&ts_kept_epoch), size, 16, &zero, &note);
    ts_epoch_run_noted();
    errno = before;
    return p;
}

/* No block is known, perhaps because the allocator samples stacks. Inside an operation, which ends here, as in all that
   miss. */
TS_ENTRY TS_NOINLINE static void *malloc_counted(size_t size, ts_private_rest *rest, const void *caller) {
    ts_tls *tls = &ts_thread;
    void *p = NULL;
    if (tls->private_counted && !ts_is_other_relaxed_64(&tls->token, ts_load_relaxed(&served)))
        p = ts_alloc_counted(tls, size, ts_load_relaxed(&ts_kept_epoch));
    ts_op_end(tls);
    return p ? p : rest(size, caller);
}

TS_ENTRY TS_NOINLINE static void *malloc_more(ts_churn_block *block, size_t size, ts_private_rest *rest,
                                              const void *caller) {
    ts_tls *tls = &ts_thread;
    void *p = ts_alloc_refill(tls, (ts_found){block, NULL}, size);
    if (TS_LIKELY(p != NULL)) return ts_alloc_done(tls, p);
    ts_op_end(tls);
    if (size > TS_MAX_SLAB_BYTES) p = malloc_large(block->b.share, size);
    return p ? p : rest(size, caller);
}

TS_ENTRY TS_NOINLINE static void *malloc_missed(size_t size, ts_private_rest *rest, const void *caller) {
    ts_churn_block *block = ts_load_relaxed(&ts_thread.private_block);
    return block == &ts_no_block ? malloc_counted(size, rest, caller) : malloc_more(block, size, rest, caller);
}

TS_ENTRY void *ts_private_malloc(size_t size, ts_private_rest *rest, const void *caller) {
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    void *p = ts_alloc_slot(ts_load_relaxed(&tls->private_block), size);
    if (TS_UNLIKELY(p == NULL)) return malloc_missed(size, rest, caller);
    ts_op_end(tls);
    return p;
}

TS_ENTRY void *ts_private_malloc_epoch(SlabAllocator *allocator, size_t size, EpochId epoch) {
    void *p = slab_malloc_epoch(allocator, size, epoch);
    if (TS_LIKELY(p != NULL)) bind(&ts_thread, ts_token(allocator), true);
    return p;
}

/* ---- frees ------------------------------------------------------------------------------------------------------ */

/* In no NEAR unit, as NULL is, which many programs free all the time. */
TS_ENTRY TS_NOINLINE static void free_elsewhere(void *p, ts_private_free_rest *rest) {
    uintptr_t token = ts_load_acquire(&served);
    if (p && token) {
        (void)ts_free_elsewhere(token, p);
        return;
    }
    ts_op_end(&ts_thread);
    if (p) rest(p);
}

TS_ENTRY TS_NOINLINE static void free_and_bind(uintptr_t token, void *p) {
    bind(&ts_thread, token, false);
    (void)ts_free_missed_of(token, p, ts_thread.share_key);
}

/* The thread is bound to another allocator, as one that is captured. An object of that allocator is freed there: the
   other way refuses it first, in four times the instructions. */
TS_ENTRY TS_NOINLINE static void free_unbound(uintptr_t token, void *p) {
    uintptr_t bound = ts_load_relaxed(&ts_thread.token);
    if (bound == 0 || ts_object_owner(p) != bound) {
        (void)ts_free_missed_of(token, p, TS_KEY_NO_SHARE);
        return;
    }
    ts_op_end(&ts_thread);
    (void)slab_free(ts_public(bound), p); /* which tells of misuse itself */
}

TS_ENTRY TS_NOINLINE static void free_missed(void *p, ts_private_free_rest *rest) {
    ts_tls *tls = &ts_thread;
    uintptr_t token = ts_load_acquire(&served);
    if (TS_UNLIKELY(!token)) {
        ts_op_end(tls);
        rest(p);
        return;
    }
    if (ts_is_other_relaxed_64(&tls->token, token))
        free_unbound(token, p);
    else if (TS_UNLIKELY(ts_is_relaxed_64(&tls->private_word, TS_WORD_NONE)))
        free_and_bind(token, p);
    else
        (void)ts_free_missed_of(token, p, tls->share_key); /* perhaps of a block that the thread has adopted */
}

TS_ENTRY void ts_private_free(void *p, ts_private_free_rest *rest) {
    ts_tls *tls = &ts_thread;
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    ts_op_begin(tls);
    if (TS_UNLIKELY(!ts_is_near(entry))) {
        free_elsewhere(p, rest);
        return;
    }
    ts_fast_result r = ts_fast_free_private(tls, entry, p);
    if (TS_UNLIKELY(!r.freed)) {
        free_missed(p, rest);
        return;
    }
    if (TS_UNLIKELY(r.full)) {
        (void)ts_free_full(r.bin, r.entry);
        return;
    }
    ts_op_end(tls);
}
