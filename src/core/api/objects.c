/* Objects and handles. The fast paths are laid out here, so that a call is one function deep. */
/* Modelled in tests/model: bump, orders. */
#include "api/move.h"
#include "api/private.h"
#include "api/runtime.h"

#include "base/bits.h"
#include "cache/allocate.h"
#include "cache/bin.h"
#include "cache/free.h"
#include "cache/scope.h"
#include "diagnose/hint.h"
#include "diagnose/misuse.h"
#include "diagnose/sample.h"
#include "diagnose/stacks.h"
#include "object/object.h"

#include <errno.h>
#include <string.h>

/*
 * Every way out of the usual case is a jump to a function of its own: the usual case then needs no stack and few
 * registers. Instructions per call: docs/architecture.md, "Fast paths".
 */
/* The claimed word is used up too. Inside an operation: the next word of the bin's slabs is claimed with the heap
   held: in_op is 1, so it is held unless another thread revoked it. false: the slow path. */
TS_ALWAYS_INLINE bool claims(const ts_tls *tls, ts_churn_block *block, ts_bin *bin) {
    const ts_heap *heap = tls->heap;
    return TS_LIKELY(ts_load_acquire(&heap->revoked) == 0) && ts_bin_claim(block, ts_bin_class(block, bin));
}

/* The same with the object, and the operation ends here. */
TS_ALWAYS_INLINE void *pop_claimed(ts_tls *tls, ts_churn_block *block, ts_bin *bin) {
    void *p = claims(tls, block, bin) ? ts_fast_word(bin) : NULL;
    ts_op_end(tls);
    return p;
}

TS_ALWAYS_INLINE bool block_serves(const ts_tls *tls, uintptr_t token, EpochId epoch) {
    return TS_LIKELY(!ts_is_other_relaxed_64(&tls->token, token)) && TS_LIKELY(epoch != EPOCH_NONE) &&
           TS_LIKELY(ts_is_relaxed_64(&tls->block->b.open_id, epoch));
}
TS_ALWAYS_INLINE bool rolling_serves(const ts_tls *tls, uintptr_t token) {
    return TS_LIKELY(!ts_is_other_relaxed_64(&tls->token, token)) &&
           TS_LIKELY(ts_load_relaxed(&tls->rolling->b.rolling) != 0);
}

/* These two without the allocator, which is the thread's: a register less to keep in the usual case. */
TS_ENTRY TS_NOINLINE static void *malloc_epoch_claimed(ts_bin *bin, size_t size, EpochId epoch) {
    void *p = pop_claimed(&ts_thread, ts_thread.block, bin);
    return TS_LIKELY(p != NULL) ? p : ts_alloc(ts_bound_token(&ts_thread), size, epoch);
}

/* These two with the arguments in the order of slab_malloc_epoch: where they are, they stay. */

/* A span. Inside an operation; the epoch is the thread's. */
TS_ENTRY TS_NOINLINE static void *malloc_epoch_span(uintptr_t token, size_t size, EpochId epoch) {
    ts_op_end(&ts_thread);
    return ts_alloc(token, size, epoch);
}

static void *settled(void *p);

/* Into a scope that the thread has not used last, or whose current slab has no room. Inside an operation; the
   allocator is the thread's, and epoch is not EPOCH_NONE. */
TS_ENTRY TS_NOINLINE static void *malloc_epoch_scope(uintptr_t token, size_t size, EpochId epoch) {
    ts_tls *tls = &ts_thread;
    void *p = NULL;
    if (TS_LIKELY(ts_is_relaxed_64(&tls->last->b.open_id, epoch)) || ts_find_scope(tls, epoch))
        p = ts_named_next(tls, tls->last, size, !ts_sample_is_news(tls->heap));
    ts_op_end(tls);
    if (TS_UNLIKELY(p == NULL)) return ts_alloc(token, size, epoch);
    return TS_UNLIKELY(ts_epoch_is_anything_noted()) ? settled(p) : p;
}

/* Into another churn epoch than the thread's last, or a scope. Likewise. Of its own, so that it needs no stack. */
TS_ENTRY TS_NOINLINE static void *malloc_epoch_elsewhere(uintptr_t token, size_t size, EpochId epoch) {
    ts_tls *tls = &ts_thread;
    if (!ts_find_churn(tls, epoch)) return malloc_epoch_scope(token, size, epoch);
    ts_bin *bin = ts_bin_of(tls->block, size);
    if (TS_UNLIKELY(bin == NULL)) return malloc_epoch_span(token, size, epoch);
    void *p = ts_fast_pop(bin);
    if (TS_UNLIKELY(p == NULL)) {
        p = ts_fast_word(bin);
        if (TS_UNLIKELY(p == NULL)) return malloc_epoch_claimed(bin, size, epoch);
    }
    ts_op_end(tls);
    return p;
}

/* The calling thread's share of another allocator than the one that it is bound to, whose blocks its fast paths may
   use where these are open to the share: they say so themselves, by their key and the id of their epoch, which an
   operation looks at after it has begun. So a thread that goes from one allocator to another need not be bound anew
   each time. NULL: it must be, or it is another case: one without fast paths; one that is called, whose token is the
   only thing that tells it (heap.h). Inside an operation. */
TS_ALWAYS_INLINE const ts_share *other_share(ts_tls *tls, uintptr_t token) {
    uintptr_t bound = ts_load_relaxed(&tls->token);
    if (TS_UNLIKELY(bound == TS_TOKEN_CALLED || bound == UINTPTR_MAX || bound == token || token == 0)) return NULL;
    if (TS_UNLIKELY((tls->heap->sample_rate | ts_load_relaxed(&ts_sample_rate)) != 0)) return NULL;
    if (TS_UNLIKELY(++tls->others >= TS_OTHERS_MOST)) {
        tls->others = 0;
        return NULL;
    }
    const ts_share *share = ts_heap_recent_share(tls->heap, token);
    return TS_LIKELY(share && !share->care) ? share : NULL;
}

/* Of a thread that goes from one allocator to another: the fast paths are for that one now, if they can be. Not
   inside an operation. */
static bool switches_to(ts_tls *tls, uintptr_t token) {
    ts_heap *heap = tls->heap;
    if (!heap || (heap->sample_rate | ts_load_relaxed(&ts_sample_rate)) != 0 || ts_load_relaxed(&tls->token) == token ||
        ts_load_relaxed(&heap->asked_to_shed) != 0)
        return false;
    const ts_share *share = ts_heap_find_share(heap, token);
    if (!share || share->care) return false;
    ts_heap_bind(heap, share);
    return ts_load_relaxed(&tls->token) == token;
}

/* No case for the fast paths. Inside an operation. */
TS_ENTRY TS_NOINLINE static void *malloc_epoch_switching(uintptr_t token, size_t size, EpochId epoch) {
    ts_tls *tls = &ts_thread;
    ts_op_end(tls);
    if (epoch == EPOCH_NONE || !switches_to(tls, token)) return ts_alloc(token, size, epoch);
    ts_op_begin(tls);
    if (TS_LIKELY(!ts_is_other_relaxed_64(&tls->token, token))) return malloc_epoch_elsewhere(token, size, epoch);
    ts_op_end(tls);
    return ts_alloc(token, size, epoch);
}

/* From the magazine or the claimed word of a block that the thread's own open one is said to be. NULL: another case.
   Inside an operation, which goes on then, and ends else. */
TS_ALWAYS_INLINE void *pop_of(ts_tls *tls, ts_churn_block *block, size_t size) {
    ts_bin *bin = TS_LIKELY(block != NULL) ? ts_bin_of(block, size) : NULL;
    if (TS_UNLIKELY(bin == NULL)) return NULL;
    void *p = ts_fast_pop(bin);
    if (TS_UNLIKELY(p == NULL)) p = ts_fast_word(bin);
    if (TS_LIKELY(p != NULL)) ts_op_end(tls);
    return p;
}

/* Of another allocator than the thread's last one, or no case for the fast paths. Likewise. */
TS_ENTRY TS_NOINLINE static void *malloc_epoch_other(uintptr_t token, size_t size, EpochId epoch) {
    ts_tls *tls = &ts_thread;
    const ts_share *share = TS_LIKELY(epoch != EPOCH_NONE) ? other_share(tls, token) : NULL;
    if (TS_UNLIKELY(share == NULL)) return malloc_epoch_switching(token, size, epoch);
    void *p = pop_of(tls, ts_churn_of(tls->heap, ts_share_key(share), epoch), size);
    return TS_LIKELY(p != NULL) ? p : malloc_epoch_switching(token, size, epoch);
}

TS_ENTRY void *slab_malloc_epoch(SlabAllocator *allocator, size_t size, EpochId epoch) {
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    if (TS_UNLIKELY(epoch == EPOCH_NONE) || TS_UNLIKELY(ts_is_other_relaxed_64(&tls->token, ts_token(allocator))))
        return malloc_epoch_other(ts_token(allocator), size, epoch);
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&tls->block->b.open_id, epoch))) {
        ts_scope_block *scope = tls->last;
        uint64_t bump, next;
        if (TS_UNLIKELY(ts_is_other_relaxed_64(&scope->b.open_id, epoch)) ||
            TS_UNLIKELY(!ts_fast_has_room(scope, size, &bump, &next)))
            return malloc_epoch_elsewhere(ts_token(allocator), size, epoch);
        void *at = ts_fast_bump(scope, bump, next);
        ts_op_end(tls);
        return at;
    }
    ts_bin *bin = ts_bin_of(tls->block, size);
    if (TS_UNLIKELY(bin == NULL)) return malloc_epoch_span(ts_token(allocator), size, epoch);
    void *p = ts_fast_pop(bin);
    if (TS_UNLIKELY(p == NULL)) {
        p = ts_fast_word(bin);
        if (TS_UNLIKELY(p == NULL)) return malloc_epoch_claimed(bin, size, epoch);
    }
    ts_op_end(tls);
    return p;
}

/* ---- for the process's malloc (private.h) ------------------------------------------------------------------------ */

/* Inside an operation. */
TS_ENTRY TS_NOINLINE static void *process_malloc_other(size_t size, SlabAllocator *allocator, EpochId epoch,
                                                       ts_private_rest *rest) {
    ts_op_end(&ts_thread);
    void *p = slab_malloc_epoch(allocator, size, epoch);
    return TS_LIKELY(p != NULL) ? p : rest(size);
}

/* The magazine and the claimed word are used up. Likewise. */
TS_ENTRY TS_NOINLINE static void *process_malloc_claimed(size_t size, ts_bin *bin, EpochId epoch,
                                                         ts_private_rest *rest) {
    void *p = pop_claimed(&ts_thread, ts_thread.block, bin);
    if (TS_UNLIKELY(p == NULL)) p = ts_alloc(ts_bound_token(&ts_thread), size, epoch);
    return TS_LIKELY(p != NULL) ? p : rest(size);
}

/* As slab_malloc_epoch of a churn epoch. Its way out if there is no memory is a call of its own, so that its caller
   needs no stack. */
TS_ENTRY void *ts_private_malloc(size_t size, SlabAllocator *allocator, EpochId epoch, ts_private_rest *rest) {
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&tls->token, ts_token(allocator))) ||
        TS_UNLIKELY(ts_is_other_relaxed_64(&tls->block->b.open_id, epoch)))
        return process_malloc_other(size, allocator, epoch, rest);
    ts_bin *bin = ts_bin_of(tls->block, size);
    if (TS_UNLIKELY(bin == NULL)) return process_malloc_other(size, allocator, epoch, rest);
    void *p = ts_fast_pop(bin);
    if (TS_UNLIKELY(p == NULL)) {
        p = ts_fast_word(bin);
        if (TS_UNLIKELY(p == NULL)) return process_malloc_claimed(size, bin, epoch, rest);
    }
    ts_op_end(tls);
    return p;
}

TS_ENTRY TS_NOINLINE static void *malloc_claimed(ts_bin *bin, size_t size) {
    void *p = pop_claimed(&ts_thread, ts_thread.rolling, bin);
    return TS_LIKELY(p != NULL) ? p : ts_alloc_rolling(ts_bound_token(&ts_thread), size);
}

/* Another block than the thread's last rolling one, as it goes from one allocator to another, or no case for the fast
   paths. Likewise. */
TS_ENTRY TS_NOINLINE static void *malloc_other(uintptr_t token, size_t size) {
    ts_tls *tls = &ts_thread;
    const ts_share *share = other_share(tls, token);
    if (TS_LIKELY(share != NULL)) {
        EpochId epoch = ts_load_acquire(&share->allocator->current_epoch); /* acquire: as in ts_epoch_current */
        ts_churn_block *block = ts_churn_of(tls->heap, ts_share_key(share), epoch);
        if (TS_UNLIKELY(epoch == EPOCH_NONE || (block && ts_load_relaxed(&block->b.rolling) != token))) block = NULL;
        void *p = pop_of(tls, block, size);
        if (TS_LIKELY(p != NULL)) return p;
    }
    ts_op_end(tls);
    return ts_alloc_rolling(token, size);
}

TS_ENTRY void *slab_malloc(SlabAllocator *allocator, size_t size) {
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    if (rolling_serves(tls, ts_token(allocator))) {
        ts_bin *bin = ts_bin_of(tls->rolling, size);
        if (TS_UNLIKELY(bin == NULL)) return malloc_other(ts_token(allocator), size);
        void *p = ts_fast_pop(bin);
        if (TS_UNLIKELY(p == NULL)) {
            p = ts_fast_word(bin);
            if (TS_UNLIKELY(p == NULL)) return malloc_claimed(bin, size);
        }
        ts_op_end(tls);
        return p;
    }
    return malloc_other(ts_token(allocator), size);
}

TS_ENTRY TS_NOINLINE static void *alloc_elsewhere(size_t size) {
    ts_tls *tls = &ts_thread;
    ts_op_end(tls);
    if (tls->domain) {
        /* A churn epoch's: as slab_malloc_epoch. */
        uintptr_t token = tls->domain->allocator;
        EpochId epoch = tls->domain->epoch;
        return block_serves(tls, token, epoch) ? slab_malloc_epoch(ts_public(token), size, epoch)
                                               : ts_domain_alloc(size);
    }
    SlabAllocator *allocator = ts_outside_of_domains(TS_CALLER());
    return allocator ? slab_malloc(allocator, size) : NULL;
}

/* A debug build tells who forgets to enter his domain, unless TSLAB_HINTS=0 says not to. */
#ifdef TSLAB_DEBUG
#define TS_TELLS_OUTSIDE 1
#else
#define TS_TELLS_OUTSIDE 0
#endif

/* caller: of slab_alloc or one of its family. NULL with errno. */
SlabAllocator *ts_outside_of_domains(const void *caller) {
    SlabAllocator *allocator = slab_allocator_default();
    const ts_allocator *a = allocator ? ts_allocator_find(ts_token(allocator)) : NULL;
    if (!a) return NULL;
    if (TS_UNLIKELY(a->settings.strict)) {
        ts_misuse_call(ts_token(allocator), "slab_alloc", "outside of any domain (TSLAB_STRICT=1)", false, caller);
        errno = EINVAL;
        return NULL;
    }
    if (ts_hints(a) || (TS_TELLS_OUTSIDE && !a->settings.hints_given))
        ts_hint("slab_alloc", "outside of any domain: the object lives until it is freed", caller);
    return allocator;
}

TS_NOINLINE static void *settled(void *p) {
    ts_epoch_settle();
    return p;
}

/* The next slab is taken in another way than the usual one, if one is warm. Inside an operation, with the heap held. */
TS_ENTRY TS_NOINLINE static void *alloc_renewing(size_t size) {
    ts_tls *tls = &ts_thread;
    ts_scope_block *block = ts_load_relaxed(&tls->scope);
    void *at = ts_scope_renew_for(block, ts_scope_round(size));
    if (!at) return alloc_elsewhere(size);
    ts_op_end(tls);
    return settled(at);
}

/* The current slab has no room, or the thread is in no scope domain, or the size is 0. The next slab is taken with
   the heap held: in_op is 1, so it is held unless another thread revoked it. What slab_alloc has seen may have been
   before that. */
TS_ENTRY TS_NOINLINE static void *alloc_other(size_t size) {
    ts_tls *tls = &ts_thread;
    ts_scope_block *block = ts_load_relaxed(&tls->scope);
    size_t bytes = (size + 15) & ~(size_t)15;
    ts_op_begin(tls);
    if (TS_UNLIKELY(ts_load_relaxed(&block->b.open_id) == TS_ID_NEVER || bytes - 16 > TS_SCOPE_MAX_BYTES - 16 ||
                    ts_load_acquire(&tls->heap->revoked) != 0 || ts_heap_is_waited_for(tls->heap) ||
                    ts_sample_is_news(tls->heap)))
        return alloc_elsewhere(size);
    char *at = ts_scope_next(block, bytes);
    if (TS_UNLIKELY(!at)) return alloc_renewing(size);
    ts_op_end(tls);
    return TS_UNLIKELY(ts_epoch_is_anything_noted()) ? settled(at) : at;
}

TS_ENTRY void *slab_alloc(size_t size) {
    ts_tls *tls = &ts_thread;
    ts_scope_block *block = ts_load_relaxed(&tls->scope);
    uint64_t bump = ts_load_relaxed(&block->bump);
    ts_op_begin_bump(tls, bump);
    /* First: who closes the block may be changing the rest of it already. Only its owner opens it again, so if it is
       open it was so when bump was read. */
    if (TS_UNLIKELY(ts_is_relaxed_64(&block->b.open_id, TS_ID_NEVER))) return alloc_other(size);
    /* Rounded up by its last byte: that of size 0 is beyond all. */
    size_t last = (size - 1) | 15;
    if (TS_UNLIKELY(last >= TS_UNIT_BYTES)) return alloc_other(size);
    uint64_t next = ts_bump_next(bump, last + 1);
    if (TS_UNLIKELY(ts_is_below_relaxed_64(&block->limit, next))) return alloc_other(size);
    return ts_fast_bump(block, bump, next); /* ends the operation */
}

TS_ENTRY void *slab_calloc_epoch(SlabAllocator *allocator, size_t n, size_t size, EpochId epoch) {
    if (n != 0 && size > SIZE_MAX / n) {
        errno = ENOMEM;
        return NULL;
    }
    /* Spans come zero from the system if they can: below, it is known whether they did, and what is a span. */
    if (n * size > TS_QUARTER_BYTES) return ts_alloc_aligned(ts_token(allocator), 16, n * size, epoch, true);
    void *p = slab_malloc_epoch(allocator, n * size, epoch);
    return p ? memset(p, 0, n * size) : NULL;
}

/* From the bin of the smallest class whose objects all lie so, as ts_class_aligned has it, in the churn block of the
   epoch used last. NULL: another case. alignment is a power of two above 16. Inside an operation, which it ends. */
TS_ALWAYS_INLINE void *aligned_fast(ts_tls *tls, uintptr_t token, size_t alignment, size_t size, EpochId epoch) {
    /* Whoever has these bytes and lies so is a multiple of the alignment. 0: of no byte, or of more than there are. */
    size_t least = (size + alignment - 1) & ~(alignment - 1);
    void *p = NULL;
    if (TS_LIKELY(block_serves(tls, token, epoch)) && TS_LIKELY(least - 1 < TS_MAX_CLASS_BYTES) &&
        TS_LIKELY(alignment <= ts_load_relaxed(&ts_aligned_most))) { /* else the slow path notes it */
        unsigned cls = ts_classes.of[least / 16];
        while ((ts_class_bytes[cls] & (alignment - 1)) != 0) cls++; /* to that of 8 KiB at the most */
        ts_bin *bin = &tls->block->bin[cls];
        p = ts_fast_pop(bin);
        if (TS_UNLIKELY(p == NULL)) p = ts_fast_word(bin);
        if (TS_UNLIKELY(p == NULL) && claims(tls, tls->block, bin)) p = ts_fast_word(bin);
    }
    ts_op_end(tls);
    return p;
}

/* From the current slab of a scope of the thread; NULL: another case. Inside an operation; alignment is a power of
   two. */
TS_ALWAYS_INLINE void *aligned_in(ts_scope_block *scope, size_t alignment, size_t size) {
    uint64_t bump, next;
    size_t bytes = (size + 15) & ~(size_t)15;
    if (alignment > ts_load_relaxed(&ts_aligned_most) || !ts_scope_may_align(alignment, bytes)) return NULL;
    if (((uintptr_t)ts_bump_at(ts_load_relaxed(&scope->bump)) & (alignment - 1)) == 0 &&
        ts_fast_has_room(scope, size, &bump, &next))
        return ts_fast_bump(scope, bump, next);
    return ts_scope_bump_aligned(scope, alignment, bytes);
}

/* Into the scope that the thread has used last, or another case. Not inside an operation. */
TS_ENTRY TS_NOINLINE static void *aligned_scope(uintptr_t token, size_t alignment, size_t size, EpochId epoch) {
    ts_tls *tls = &ts_thread;
    void *p = NULL;
    ts_op_begin(tls);
    if (!ts_is_other_relaxed_64(&tls->token, token) && epoch != EPOCH_NONE &&
        ts_is_relaxed_64(&tls->last->b.open_id, epoch))
        p = aligned_in(tls->last, alignment, size);
    ts_op_end(tls);
    return TS_LIKELY(p != NULL) ? p : ts_alloc_aligned(token, alignment, size, epoch, false);
}

/* false with errno. */
TS_ALWAYS_INLINE bool is_alignment(size_t alignment) {
    if (TS_LIKELY(ts_is_pow2(alignment) && alignment <= (size_t)1 << 30)) return true;
    errno = ts_is_pow2(alignment) ? ENOMEM : EINVAL;
    return false;
}

TS_ENTRY void *slab_aligned_epoch(SlabAllocator *allocator, size_t alignment, size_t size, EpochId epoch) {
    if (!is_alignment(alignment)) return NULL;
    if (alignment <= 16) return slab_malloc_epoch(allocator, size, epoch);
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    void *p = aligned_fast(tls, ts_token(allocator), alignment, size, epoch);
    return TS_LIKELY(p != NULL) ? p : aligned_scope(ts_token(allocator), alignment, size, epoch);
}

/* Of another allocator than the thread's last one, or elsewhere. Inside an operation. */
TS_ENTRY TS_NOINLINE static bool free_of_other(uintptr_t token, void *p, uint64_t entry) {
    ts_tls *tls = &ts_thread;
    if (p == NULL) { /* in no part; many programs free it all the time */
        ts_op_end(tls);
        return true;
    }
    if (TS_UNLIKELY(!ts_is_in_part(&ts_region.part[TS_NORMAL], entry))) return ts_free_elsewhere(token, p);
    const ts_share *share = other_share(tls, token);
    uint64_t share_key = TS_LIKELY(share != NULL) ? ts_share_key(share) : TS_KEY_NO_SHARE;
    const ts_tls own = {.share_key = share_key};
    ts_fast_result r = ts_fast_free(&own, entry, p, false, SLAB_HANDLE_NONE);
    if (TS_UNLIKELY(!r.freed)) return ts_free_missed_of(token, p, share_key);
    if (TS_UNLIKELY(r.full)) return ts_free_full(r.bin, entry, r.granule);
    ts_op_end(tls);
    return true;
}

/* In the section of the allocations, so that its distance from them does not change with what else the library has:
   docs/decisions.md. */
TS_ENTRY bool slab_free(SlabAllocator *allocator, void *p) {
    ts_tls *tls = &ts_thread;
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    ts_op_begin(tls);
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&tls->token, ts_token(allocator))) ||
        TS_UNLIKELY(!ts_is_in_part(&ts_region.part[TS_NORMAL], entry)))
        return free_of_other(ts_token(allocator), p, entry);
    ts_fast_result r = ts_fast_free(tls, entry, p, false, SLAB_HANDLE_NONE);
    if (TS_UNLIKELY(!r.freed)) return ts_free_missed(p);
    if (TS_UNLIKELY(r.full)) return ts_free_full(r.bin, entry, r.granule);
    ts_op_end(tls);
    return true;
}

static void *realloc_any(SlabAllocator *allocator, const char *function, void *p, size_t alignment, size_t size) {
    int before = errno;
    errno = 0;
    void *q = ts_realloc(ts_token(allocator), p, alignment, size);
    if (!q && errno == EINVAL) {
        ts_misuse_free(ts_token(allocator), function, p, NULL);
        errno = EINVAL;
    } else if (q) {
        errno = before;
    }
    return q;
}

/* bytes: of one that ts_move_own is for; 0: it is another case. */
TS_NOINLINE static void *realloc_other(SlabAllocator *allocator, void *p, size_t bytes, size_t size) {
    if (p == NULL) return slab_malloc(allocator, size);
    void *moved;
    if (TS_LIKELY(bytes != 0) && ts_move_own(allocator, p, bytes, size, &moved)) return moved;
    return realloc_any(allocator, "slab_realloc", p, 16, size);
}

TS_ENTRY void *slab_realloc(SlabAllocator *allocator, void *p, size_t size) {
    size_t bytes = ts_fast_own_bytes(&ts_thread, ts_token(allocator), p);
    if (TS_LIKELY(bytes != 0 && size <= bytes) && ts_realloc_stays(bytes, size)) return p;
    return realloc_other(allocator, p, bytes, size);
}

void *slab_realloc_aligned(SlabAllocator *allocator, void *p, size_t alignment, size_t size) {
    if (!is_alignment(alignment)) return NULL;
    if (alignment <= 16) return slab_realloc(allocator, p, size);
    if (p == NULL) return slab_aligned_epoch(allocator, alignment, size, epoch_current(allocator));
    size_t bytes = ts_fast_own_bytes(&ts_thread, ts_token(allocator), p);
    if (TS_LIKELY(bytes != 0 && size <= bytes) && ts_realloc_stays(bytes, size)) return p;
    return realloc_any(allocator, "slab_realloc_aligned", p, alignment, size);
}

size_t slab_usable_size(SlabAllocator *allocator, const void *p) {
    ts_object object;
    size_t bytes = ts_fast_own_bytes(&ts_thread, ts_token(allocator), p);
    if (TS_LIKELY(bytes != 0)) return bytes;
    return ts_object_at(ts_token(allocator), p, &object) ? ts_object_usable(&object) : 0;
}

bool slab_owns(SlabAllocator *allocator, const void *p) {
    ts_object object;
    return ts_object_at(ts_token(allocator), p, &object);
}

/* ---- handles -------------------------------------------------------------------------------------------- */

/* Of an object that the operation has just taken from the bin. Nobody ends its use before the operation is over, so
   the note is seen by who resets the slab, without a fence: he comes after that, by what he held the heap with or
   took the unit from. */
TS_ALWAYS_INLINE SlabHandle new_handle(const ts_churn_block *block, const ts_bin *bin, const void *p) {
    const ts_part *region = &ts_region.part[TS_NORMAL];
    uint64_t entry = ts_entry_of(region, p);
    ts_slab *slab = ts_slab_in(region, entry >> TS_ENTRY_UNIT_SHIFT);
    ts_keep_relaxed(&slab->handled, 1);
    uint32_t state = ts_load_relaxed(ts_entry_state(entry, ts_bin_is_fine(bin)));
    uint32_t generation = ts_load_relaxed(&slab->gen) + ts_state_generation(state);
    return ts_handle_pack(ts_slab_unit(slab), generation, (uint32_t)entry, ts_bin_class(block, bin));
}

/* The usual case, in which there is an object in the magazine, or the claimed word, or one can be claimed. NULL:
   another. */
TS_ALWAYS_INLINE void *alloc_obj_fast(ts_tls *tls, size_t size, SlabHandle *out) {
    ts_churn_block *block = tls->block;
    ts_bin *bin = ts_bin_at(block, ts_classes.bin[size]);
    void *p = ts_fast_pop(bin);
    if (TS_UNLIKELY(!p)) p = ts_fast_word(bin);
    if (TS_UNLIKELY(!p) && claims(tls, block, bin)) p = ts_fast_word(bin);
    if (TS_LIKELY(p != NULL)) *out = new_handle(block, bin, p);
    return p;
}

/* Of the objects of a scope's current slab: a handle, less the place of the unit. With the place of the object it is
   that one's. It is made with the slab's first handle, and kept (ts_block.handle). Not 0, for its low bits are those
   of the kind. */
static uint64_t new_scope_handles(ts_scope_block *block) {
    uint32_t unit = ts_load_relaxed(&block->current);
    ts_slab *slab = ts_slab_at(unit);
    ts_keep_relaxed(&slab->handled, 1); /* as in new_handle */
    uint64_t handle = ts_handle_pack(ts_unit_of(unit), ts_load_relaxed(&slab->gen), 0, TS_HANDLE_SCOPE);
    return block->b.handle = handle - ((uint64_t)(uintptr_t)ts_slab_unit_address(unit) << 4);
}

/* An entry is 16 bytes, and its number is in a handle from bit 8 on. */
TS_ALWAYS_INLINE SlabHandle scope_handle(uint64_t handle, const void *p) {
    return handle + ((uint64_t)(uintptr_t)p << 4);
}

TS_COLD static void *no_place_for_handle(void) {
    errno = EINVAL;
    return NULL;
}

/* As malloc_epoch_elsewhere. Likewise. */
TS_ENTRY TS_NOINLINE static void *alloc_obj_scope(uintptr_t token, size_t size, EpochId epoch, SlabHandle *out) {
    ts_tls *tls = &ts_thread;
    void *p = NULL;
    if (TS_LIKELY(ts_is_relaxed_64(&tls->last->b.open_id, epoch)) || ts_find_scope(tls, epoch))
        p = ts_named_next(tls, tls->last, size, !ts_sample_is_news(tls->heap));
    if (TS_LIKELY(p != NULL)) *out = scope_handle(new_scope_handles(tls->last), p);
    ts_op_end(tls);
    if (TS_UNLIKELY(p == NULL)) return ts_alloc_object(token, size, epoch, out);
    return TS_UNLIKELY(ts_epoch_is_anything_noted()) ? settled(p) : p;
}

/* Into the churn block of the epoch used last, or another case. Inside an operation. */
TS_ENTRY TS_NOINLINE static void *alloc_obj_churn(uintptr_t token, size_t size, EpochId epoch, SlabHandle *out) {
    ts_tls *tls = &ts_thread;
    void *p = NULL;
    if (block_serves(tls, token, epoch) && TS_LIKELY(size <= TS_MAX_CLASS_BYTES)) p = alloc_obj_fast(tls, size, out);
    ts_op_end(tls);
    return TS_LIKELY(p != NULL) ? p : ts_alloc_object(token, size, epoch, out);
}

/* Of its own, so that what follows needs no stack in a scope. */
TS_ENTRY void *alloc_obj_epoch(SlabAllocator *allocator, size_t size, EpochId epoch, SlabHandle *out) {
    if (TS_UNLIKELY(!out)) return no_place_for_handle();
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&tls->token, ts_token(allocator))))
        return alloc_obj_churn(ts_token(allocator), size, epoch, out);
    ts_compiler_fence(); /* else the compiler makes one condition of that and the next: two instructions more */
    if (TS_UNLIKELY(epoch == EPOCH_NONE) || !ts_is_other_relaxed_64(&tls->block->b.open_id, epoch))
        return alloc_obj_churn(ts_token(allocator), size, epoch, out);
    ts_scope_block *scope = tls->last;
    uint64_t bump, next, handle;
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&scope->b.open_id, epoch)) || TS_UNLIKELY((handle = scope->b.handle) == 0) ||
        TS_UNLIKELY(!ts_fast_has_room(scope, size, &bump, &next)))
        return alloc_obj_scope(ts_token(allocator), size, epoch, out);
    void *p = ts_fast_bump(scope, bump, next);
    *out = scope_handle(handle, p);
    ts_op_end(tls);
    return p;
}

/* The usual case: of this thread's own open block. false: another; nothing was done, and the operation goes on.
   *first: the answer. */
TS_ALWAYS_INLINE bool free_obj_fast(const ts_tls *tls, SlabHandle handle, bool *first) {
    uint64_t unit = ts_handle_unit(handle);
    uint64_t entry = unit * TS_UNIT_ENTRIES + ts_handle_entry(handle);
    if (TS_UNLIKELY(!ts_is_in_part(&ts_region.part[TS_NORMAL], entry))) return false;
    ts_fast_result r = ts_fast_free(tls, entry, ts_entry_address(&ts_region.part[TS_NORMAL], entry), true, handle);
    if (TS_UNLIKELY(!r.freed)) return false;
    *first = !r.late;
    if (TS_UNLIKELY(r.full)) return ts_free_full(r.bin, entry, r.granule);
    ts_op_end(&ts_thread);
    return true;
}

/* Another case. The operation has begun. */
TS_NOINLINE static bool free_obj_other(uintptr_t token, SlabHandle handle) {
    ts_object object;
    ts_op_end(&ts_thread);
    if (TS_LIKELY(ts_object_of_handle(token, handle, &object)) && TS_LIKELY(ts_free_object(token, &object)))
        return true;
    return ts_free_refused(token, "free_obj", NULL, &handle);
}

TS_COLD static bool freed_for_another(uintptr_t token, SlabHandle handle) {
    return ts_free_refused(token, "free_obj", NULL, &handle);
}

bool free_obj(SlabAllocator *allocator, SlabHandle handle) {
    ts_tls *tls = &ts_thread;
    bool first;
    ts_op_begin(tls);
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&tls->token, ts_token(allocator))) ||
        TS_UNLIKELY(!free_obj_fast(tls, handle, &first)))
        return free_obj_other(ts_token(allocator), handle);
    return TS_LIKELY(first) ? true : freed_for_another(ts_token(allocator), handle);
}

/* The object of a handle, if it is of the thread's own churn block; NULL: it is another case. */
TS_ALWAYS_INLINE void *own_object(const ts_tls *tls, uintptr_t token, SlabHandle handle) {
    const ts_part *region = &ts_region.part[TS_NORMAL];
    uint32_t unit = ts_handle_unit(handle), state;
    uint64_t entry = (uint64_t)unit * TS_UNIT_ENTRIES + ts_handle_entry(handle);
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&tls->token, token)) || TS_UNLIKELY(!ts_is_in_part(region, entry)))
        return NULL;
    const ts_bin *bin = ts_fast_look(tls, entry, &state);
    if (TS_UNLIKELY(bin == NULL)) return NULL;
    const ts_slab *slab = ts_slab_in(region, unit);
    uint32_t generation = ts_load_relaxed(&slab->gen) + ts_state_generation(state);
    /* A handle was made of this use only if the slab says so. */
    bool is =
        ts_handle_is(handle, generation, ts_bin_class(ts_bin_block(bin), bin)) && ts_load_relaxed(&slab->handled) != 0;
    return TS_LIKELY(is) ? ts_entry_address(region, entry) : NULL;
}

void *slab_handle_get(SlabAllocator *allocator, SlabHandle handle) {
    ts_object object;
    void *p = own_object(&ts_thread, ts_token(allocator), handle);
    if (TS_LIKELY(p != NULL)) return p;
    return ts_object_of_handle(ts_token(allocator), handle, &object) ? object.address : NULL;
}

SlabHandle slab_handle_of(SlabAllocator *allocator, const void *p) {
    ts_object object;
    if (!ts_object_at(ts_token(allocator), p, &object)) return SLAB_HANDLE_NONE;
    return ts_object_handle(ts_token(allocator), &object);
}
