/*
 * Objects of the process's malloc (private.h). There is one such allocator in a process, with one epoch. So a thread
 * keeps its block and its key for that (thread.h), and these calls look up nothing else: neither a token nor an epoch.
 * They see by the same words as slab_malloc_epoch and slab_free what is free, what is live, and whose it is.
 */
#include "api/private.h"
#include "api/runtime.h"

#include "cache/allocate.h"
#include "cache/free.h"
#include "object/find.h"
#include "object/object.h"

static _Atomic uintptr_t served; /* token of that allocator; 0: there is none */

void ts_private_serve(SlabAllocator *allocator) {
    /* release, partner of the loads: a thread that sees it asks before it refuses a pointer (ts_private_ask_...) */
    ts_store_release(&served, ts_token(allocator));
}

void ts_private_elsewhere(void) { ts_store_relaxed(&ts_thread.private_block, &ts_no_block); }

/* ---- allocation ------------------------------------------------------------------------------------------------- */

/* Inside an operation, which ends here, as in all that miss. */
TS_ENTRY TS_NOINLINE static void *malloc_missed(size_t size, ts_private_rest *rest, const void *caller) {
    ts_tls *tls = &ts_thread;
    ts_found found = {.churn = ts_load_relaxed(&tls->private_block)};
    bool open = ts_is_other_relaxed_64(&found.churn->b.open_id, TS_ID_NEVER);
    void *p = TS_LIKELY(open) ? ts_take_more(tls, found, size) : NULL;
    if (TS_LIKELY(p != NULL)) return ts_taken_object(tls, p);
    ts_op_end(tls);
    return rest(size, caller);
}

TS_ENTRY void *ts_private_malloc(size_t size, ts_private_rest *rest, const void *caller) {
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    ts_churn_block *block = ts_load_relaxed(&tls->private_block);
    if (TS_UNLIKELY(!ts_is_other_relaxed_64(&block->b.open_id, TS_ID_NEVER))) return malloc_missed(size, rest, caller);
    void *p = ts_take_slot(block, size);
    if (TS_UNLIKELY(p == NULL)) return malloc_missed(size, rest, caller);
    ts_op_end(tls);
    return p;
}

TS_ENTRY void *ts_private_malloc_epoch(SlabAllocator *allocator, size_t size, EpochId epoch) {
    void *p = slab_malloc_epoch(allocator, size, epoch);
    ts_tls *tls = &ts_thread;
    if (TS_LIKELY(p != NULL) && !ts_is_other_relaxed_64(&tls->token, ts_token(allocator)))
        ts_heap_bind_private(tls->heap, ts_is_relaxed_64(&tls->block->b.open_id, epoch) ? tls->block : &ts_no_block);
    return p;
}

/* ---- frees ------------------------------------------------------------------------------------------------------ */

/* Not in part NORMAL, as NULL is, which many programs free all the time. */
TS_ENTRY TS_NOINLINE static void free_elsewhere(void *p, ts_private_free_rest *rest) {
    uintptr_t token = ts_load_acquire(&served);
    if (p && token) {
        (void)ts_free_elsewhere(token, p);
        return;
    }
    ts_op_end(&ts_thread);
    if (p) rest(p);
}

TS_ENTRY TS_NOINLINE static void free_missed(void *p, ts_private_free_rest *rest) {
    ts_tls *tls = &ts_thread;
    uintptr_t token = ts_load_acquire(&served);
    uint64_t key = ts_load_relaxed(&tls->private_key);
    if (TS_UNLIKELY(!token)) {
        ts_op_end(tls);
        rest(p);
    } else if (TS_UNLIKELY(key == TS_KEY_NO_SHARE) && !ts_is_other_relaxed_64(&tls->token, token)) {
        ts_heap_bind_private(tls->heap, NULL);
        ts_op_end(tls);
        ts_private_free(p, rest); /* once more: now there is a key, or the thread is called, and has no such token */
    } else {
        (void)ts_free_missed_of(token, p, key);
    }
}

TS_ENTRY void ts_private_free(void *p, ts_private_free_rest *rest) {
    ts_tls *tls = &ts_thread;
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    ts_op_begin(tls);
    if (TS_UNLIKELY(!ts_is_in_part(&ts_region.part[TS_NORMAL], entry))) {
        free_elsewhere(p, rest);
        return;
    }
    ts_fast_result r = ts_fast_free(ts_load_relaxed(&tls->private_key), entry, p, false, SLAB_HANDLE_NONE, NULL);
    if (TS_UNLIKELY(!r.freed)) {
        free_missed(p, rest);
        return;
    }
    if (TS_UNLIKELY(r.full)) {
        (void)ts_free_full(r.bin, entry, r.granule);
        return;
    }
    ts_op_end(tls);
}
