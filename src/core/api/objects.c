/* Objects. The fast paths are laid out here, so that a call is one function deep. */
/* Modelled in tests/model: bump. */
#include "api/api.h"
#include "api/runtime.h"
#include "base/base.h"
#include "cache/allocate.h"
#include "cache/cache.h"
#include "cache/free.h"
#include "diagnose/diagnose.h"

#include "object/find.h"
#include "object/object.h"

#include <errno.h>
#include <string.h>

/*
 * Every way out of the usual case is a jump to a function of its own: the usual case then needs no stack and few
 * registers. benchmarks/core/count_instructions.py counts the instructions of a call. An allocation that misses jumps
 * to a function that finds the thread's block (object/find.h) and takes an object of what that has at hand. One more
 * jump, and that gets more to have at hand, or is the slow path.
 */

/* ---- in an epoch ------------------------------------------------------------------------------------------- */

/* Inside an operation, which ends here, as in the next five. */
TS_ENTRY TS_NOINLINE static void *malloc_epoch_slowly(uintptr_t token, size_t size, EpochId epoch) {
    ts_op_end(&ts_thread);
    return ts_alloc(token, size, epoch);
}

TS_ENTRY TS_NOINLINE static void *malloc_epoch_renewing(uintptr_t token, size_t size, EpochId epoch, ts_found found) {
    void *p = ts_alloc_refill(&ts_thread, found, size);
    return TS_LIKELY(p != NULL) ? ts_alloc_done(&ts_thread, p) : malloc_epoch_slowly(token, size, epoch);
}

/* The block has no object at hand, or there is no block, or the object is a large one. */
TS_ALWAYS_INLINE void *malloc_epoch_more(uintptr_t token, size_t size, EpochId epoch, ts_found found) {
    return TS_LIKELY(ts_is_found(found)) && TS_LIKELY(size <= TS_MAX_SLAB_BYTES)
               ? malloc_epoch_renewing(token, size, epoch, found)
               : malloc_epoch_slowly(token, size, epoch);
}

/* In an epoch of another allocator than the thread's last one. */
TS_ENTRY TS_NOINLINE static void *malloc_epoch_other(uintptr_t token, size_t size, EpochId epoch) {
    ts_tls *tls = &ts_thread;
    const ts_share *share = TS_LIKELY(epoch != EPOCH_NONE) ? ts_find_share(tls, token) : NULL;
    ts_found found = {NULL, NULL};
    if (TS_LIKELY(share != NULL)) found = ts_find_block(tls, ts_share_key(share), epoch, false);
    void *p = ts_alloc_cached(found, size);
    if (TS_UNLIKELY(p == NULL)) return malloc_epoch_more(token, size, epoch, found);
    ts_op_end(tls);
    return p;
}

/* In an epoch of the thread's last allocator. bin: one of the block used last, which has no such object at hand;
   NULL: it is another block. Without the allocator, so that the usual case needs a register less. */
TS_ENTRY TS_NOINLINE static void *malloc_epoch_missed(ts_bin *bin, size_t size, EpochId epoch) {
    ts_tls *tls = &ts_thread;
    if (bin) return malloc_epoch_more(ts_bound_token(tls), size, epoch, (ts_found){tls->block, NULL});
    void *counted = ts_alloc_counted(tls, size, epoch);
    if (counted) {
        ts_op_end(tls);
        return counted;
    }
    ts_found found = ts_find_block(tls, tls->share_key, epoch, true);
    void *p = ts_alloc_cached(found, size);
    if (TS_UNLIKELY(p == NULL)) return malloc_epoch_more(ts_bound_token(tls), size, epoch, found);
    ts_op_end(tls);
    return p;
}

/* In the churn block that the thread used last, or in the current slab of the scope that it used last. */
TS_ENTRY void *slab_malloc_epoch(SlabAllocator *allocator, size_t size, EpochId epoch) {
    uintptr_t token = ts_token(allocator);
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    if (TS_UNLIKELY(epoch == EPOCH_NONE) || TS_UNLIKELY(ts_is_other_relaxed_64(&tls->token, token)))
        return malloc_epoch_other(token, size, epoch);
    void *p = NULL;
    ts_bin *bin = NULL;
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&tls->block->b.open_id, epoch))) {
        if (TS_LIKELY(ts_is_relaxed_64(&tls->last->b.open_id, epoch))) p = ts_alloc_bytes(tls->last, size);
        if (TS_UNLIKELY(p == NULL)) goto missed;
        ts_op_end(tls);
        return p;
    }
    bin = ts_bin_of(tls->block, size);
    if (TS_LIKELY(bin != NULL))
        p = ts_fast_slot(bin);
    else
        bin = tls->block->bin; /* a large object: of no bin, and not to be looked for */
    if (TS_UNLIKELY(p == NULL)) goto missed;
    ts_op_end(tls);
    return p;
missed:
    return malloc_epoch_missed(bin, size, epoch);
}

/* ---- in the rolling epoch ---------------------------------------------------------------------------------- */

TS_ENTRY TS_NOINLINE static void *malloc_more(uintptr_t token, size_t size, ts_churn_block *block) {
    ts_tls *tls = &ts_thread;
    void *p = TS_LIKELY(block != NULL) ? ts_alloc_refill(tls, (ts_found){block, NULL}, size) : NULL;
    ts_op_end(tls);
    return TS_LIKELY(p != NULL) ? p : ts_alloc_rolling(token, size);
}

TS_ENTRY TS_NOINLINE static void *malloc_missed(uintptr_t token, size_t size) {
    ts_tls *tls = &ts_thread;
    ts_churn_block *block = ts_find_rolling(tls, token);
    void *p = NULL;
    if (TS_LIKELY(block != NULL))
        p = ts_alloc_slot(block, size);
    else if (ts_is_relaxed_64(&tls->counted->b.rolling, token) && !ts_is_other_relaxed_64(&tls->token, token))
        p = ts_alloc_counted_slot(tls, tls->counted, size);
    if (TS_UNLIKELY(p == NULL)) return malloc_more(token, size, block);
    ts_op_end(tls);
    return p;
}

TS_ENTRY void *slab_malloc(SlabAllocator *allocator, size_t size) {
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&tls->token, ts_token(allocator))) ||
        TS_UNLIKELY(ts_load_relaxed(&tls->rolling->b.rolling) == 0))
        return malloc_missed(ts_token(allocator), size);
    void *p = ts_alloc_slot(tls->rolling, size);
    if (TS_UNLIKELY(p == NULL)) return malloc_missed(ts_token(allocator), size);
    ts_op_end(tls);
    return p;
}

/* ---- in the innermost domain ------------------------------------------------------------------------------- */

/* The slow path. */
TS_ENTRY TS_NOINLINE static void *alloc_slowly(size_t size) {
    const ts_tls *tls = &ts_thread;
    if (tls->domain) {
        /* A churn epoch's: as slab_malloc_epoch. */
        uintptr_t token = tls->domain->allocator;
        EpochId epoch = tls->domain->epoch;
        bool churn = !ts_is_other_relaxed_64(&tls->token, token) && epoch != EPOCH_NONE &&
                     ts_is_relaxed_64(&tls->block->b.open_id, epoch);
        return churn ? slab_malloc_epoch(ts_public(token), size, epoch) : ts_domain_alloc(size);
    }
    SlabAllocator *allocator = ts_outside_of_domains(TS_CALLER());
    return allocator ? slab_malloc(allocator, size) : NULL;
}

/* The thread is in no scope domain, or in one of an allocator that samples stacks. */
TS_ENTRY TS_NOINLINE static void *alloc_counted(size_t size) {
    ts_tls *tls = &ts_thread;
    const ts_domain_scope *domain = tls->domain;
    if (TS_UNLIKELY(domain == NULL)) return alloc_slowly(size);
    ts_op_begin(tls);
    void *p = NULL;
    if (!ts_is_other_relaxed_64(&tls->token, domain->allocator)) p = ts_alloc_counted(tls, size, domain->epoch);
    ts_op_end(tls);
    return p ? p : alloc_slowly(size);
}

/* The current slab of the scope has no room, or the size is 0. */
TS_ENTRY TS_NOINLINE static void *alloc_renewing(size_t size) {
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    void *p = ts_alloc_next_slab(tls, ts_load_relaxed(&tls->scope), size);
    if (TS_LIKELY(p != NULL)) return ts_alloc_done(tls, p);
    ts_op_end(tls);
    return alloc_slowly(size);
}

TS_ENTRY TS_NOINLINE static void *alloc_missed(size_t size) {
    return ts_load_relaxed(&ts_thread.scope) == &ts_no_scope ? alloc_counted(size) : alloc_renewing(size);
}

TS_ENTRY void *slab_alloc(size_t size) {
    void *p = ts_alloc_innermost(&ts_thread, (size - 1) | 15, false, 0);
    return TS_LIKELY(p != NULL) ? p : alloc_missed(size);
}

/* ---- zeroed and aligned ------------------------------------------------------------------------------------ */

TS_ENTRY void *slab_calloc_epoch(SlabAllocator *allocator, size_t n, size_t size, EpochId epoch) {
    if (n != 0 && size > SIZE_MAX / n) return ts_fail_null(ENOMEM);
    /* Spans come zero from the system if they can: below, it is known whether they did, and what is a span. */
    if (n * size > TS_QUARTER_BYTES) return ts_alloc_aligned(ts_token(allocator), 16, n * size, epoch, true);
    void *p = slab_malloc_epoch(allocator, n * size, epoch);
    return p ? memset(p, 0, n * size) : NULL;
}

/* From the bin of the smallest class whose objects all lie so, as ts_class_aligned has it. NULL: another case, as in
   the next. alignment is a power of two above 16. Inside an operation. */
TS_ALWAYS_INLINE void *aligned_slot(const ts_tls *tls, ts_churn_block *block, size_t alignment, size_t size) {
    /* A class that has these bytes and lies so is a multiple of the alignment. 0: of no byte, or of too many. */
    size_t least = (size + alignment - 1) & ~(alignment - 1);
    if (TS_UNLIKELY(least - 1 >= TS_MAX_CLASS_BYTES)) return NULL;
    unsigned cls = ts_classes.of[least / 16];
    while ((ts_class_bytes[cls] & (alignment - 1)) != 0) cls++; /* to that of 8 KiB at the most */
    void *p = ts_fast_slot(&block->bin[cls]);
    return TS_LIKELY(p != NULL) ? p : ts_fast_claim(tls, block, &block->bin[cls]);
}

/* From the current slab of a scope. */
TS_ALWAYS_INLINE void *aligned_bump(ts_scope_block *scope, size_t alignment, size_t size) {
    uint64_t bump, next;
    size_t bytes = (size + 15) & ~(size_t)15;
    if (!ts_scope_may_align(alignment, bytes)) return NULL;
    if (((uintptr_t)ts_bump_at(ts_load_relaxed(&scope->bump)) & (alignment - 1)) == 0 &&
        ts_fast_has_room(scope, size, &bump, &next))
        return ts_fast_bump(scope, bump, next);
    return ts_scope_bump_aligned(scope, alignment, bytes);
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
    ts_found found = ts_find(tls, ts_token(allocator), epoch);
    void *p = NULL;
    if (TS_UNLIKELY(alignment > ts_load_relaxed(&ts_aligned_most))) found = (ts_found){NULL, NULL}; /* it is noted */
    if (TS_LIKELY(found.churn != NULL))
        p = aligned_slot(tls, found.churn, alignment, size);
    else if (TS_LIKELY(found.scope != NULL))
        p = aligned_bump(found.scope, alignment, size);
    ts_op_end(tls);
    return TS_LIKELY(p != NULL) ? p : ts_alloc_aligned(ts_token(allocator), alignment, size, epoch, false);
}

/* In whichever epoch is current. */
static void *aligned_current(SlabAllocator *allocator, size_t alignment, size_t size) {
    int before = errno;
    void *p = slab_aligned_epoch(allocator, alignment, size, epoch_current(allocator));
    if (TS_LIKELY(p != NULL) || errno != ESTALE) return p;
    errno = before;
    return ts_alloc_current(ts_token(allocator), alignment, size, false);
}

/* ---- frees --------------------------------------------------------------------------------------------------- */

/* p is not of the thread's last allocator, or in no NEAR unit. Inside an operation. */
TS_ENTRY TS_NOINLINE static bool free_of_other(uintptr_t token, void *p, uint64_t entry) {
    ts_tls *tls = &ts_thread;
    if (p == NULL) { /* in no part; many programs free it all the time */
        ts_op_end(tls);
        return true;
    }
    if (TS_UNLIKELY(!ts_is_near(entry))) return ts_free_elsewhere(token, p);
    const ts_share *share = ts_find_share(tls, token);
    uint64_t share_key = TS_LIKELY(share != NULL) ? ts_share_key(share) : TS_KEY_NO_SHARE;
    ts_fast_result r = ts_fast_free(share_key, entry, p, false, SLAB_HANDLE_NONE, NULL, false);
    if (TS_UNLIKELY(!r.freed)) return ts_free_missed_of(token, p, share_key);
    if (TS_UNLIKELY(r.full)) return ts_free_full(r.bin, r.entry);
    ts_op_end(tls);
    return true;
}

/* In the section of the allocations, so that its distance from them does not change with what else the library has:
   docs/decisions.md. */
TS_ENTRY bool slab_free(SlabAllocator *allocator, void *p) {
    ts_tls *tls = &ts_thread;
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    ts_op_begin(tls);
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&tls->token, ts_token(allocator))) || TS_UNLIKELY(!ts_is_near(entry)))
        return free_of_other(ts_token(allocator), p, entry);
    ts_fast_result r = ts_fast_free(tls->share_key, entry, p, false, SLAB_HANDLE_NONE, NULL, false);
    if (TS_UNLIKELY(!r.freed)) return ts_free_missed(p);
    if (TS_UNLIKELY(r.full)) return ts_free_full(r.bin, r.entry);
    ts_op_end(tls);
    return true;
}

/* Returns the result q of a resizing call, and reports misuse if p was no live object. */
static void *resized(SlabAllocator *allocator, const char *function, void *p, void *q) {
    if (TS_LIKELY(q != NULL) || errno != EINVAL) return q;
    ts_misuse_free(ts_token(allocator), function, p, NULL, NULL);
    return ts_fail_null(EINVAL);
}

/* word: the UNIT word of an object of the thread's own open churn block; 0: any other. */
TS_NOINLINE static void *realloc_missed(SlabAllocator *allocator, void *p, size_t size, uint64_t word) {
    if (p == NULL) return slab_malloc(allocator, size);
    void *q = TS_LIKELY(word != 0) ? ts_resize_own(ts_token(allocator), p, size, word)
                                   : ts_realloc(ts_token(allocator), p, 16, size);
    return resized(allocator, "slab_realloc", p, q);
}

/* Without a word of what is no live object: the caller tells. */
TS_NOINLINE static void *private_realloc_missed(SlabAllocator *allocator, void *p, size_t size, uint64_t word) {
    return TS_LIKELY(word != 0) ? ts_resize_own(ts_token(allocator), p, size, word)
                                : ts_realloc(ts_token(allocator), p, 16, size);
}

TS_ALWAYS_INLINE void *realloc_object(SlabAllocator *allocator, void *p, size_t size, const bool private) {
    ts_looked seen = {.word = 0};
    size_t bytes = ts_fast_own_bytes(&ts_thread, ts_token(allocator), p, &seen);
    if (TS_LIKELY(bytes != 0 && size <= bytes) && ts_realloc_stays(bytes, size)) return p;
    if (TS_UNLIKELY(bytes == 0)) seen.word = 0;
    return private ? private_realloc_missed(allocator, p, size, seen.word)
                   : realloc_missed(allocator, p, size, seen.word);
}

TS_ENTRY void *slab_realloc(SlabAllocator *allocator, void *p, size_t size) {
    return realloc_object(allocator, p, size, false);
}

TS_ENTRY void *ts_private_realloc(SlabAllocator *allocator, void *p, size_t size) {
    return realloc_object(allocator, p, size, true);
}

void *slab_realloc_aligned(SlabAllocator *allocator, void *p, size_t alignment, size_t size) {
    ts_looked seen;
    if (!is_alignment(alignment)) return NULL;
    if (alignment <= 16) return slab_realloc(allocator, p, size);
    if (p == NULL) return aligned_current(allocator, alignment, size);
    size_t bytes = ts_fast_own_bytes(&ts_thread, ts_token(allocator), p, &seen);
    if (TS_LIKELY(bytes != 0 && size <= bytes) && ts_realloc_stays(bytes, size)) return p;
    return resized(allocator, "slab_realloc_aligned", p, ts_realloc(ts_token(allocator), p, alignment, size));
}

size_t slab_usable_size(SlabAllocator *allocator, const void *p) {
    ts_object object;
    ts_looked seen;
    size_t bytes = ts_fast_own_bytes(&ts_thread, ts_token(allocator), p, &seen);
    if (TS_LIKELY(bytes != 0)) return bytes;
    return ts_object_at(ts_token(allocator), p, &object) ? ts_object_usable(&object) : 0;
}

bool slab_owns(SlabAllocator *allocator, const void *p) {
    ts_object object;
    return ts_object_at(ts_token(allocator), p, &object);
}
