/* Objects and handles. The fast paths are laid out here, so that a call is one function deep. */
#include "api/runtime.h"

#include "base/bits.h"
#include "heap/fast.h"

#include <errno.h>
#include <string.h>

/*
 * Every way out of the usual case is a jump to a function of its own: the usual case then needs no stack and few
 * registers. Measured with callgrind, per pair of slab_malloc_epoch and slab_free: see docs/architecture.md.
 */
#define SMALL_BIN (offsetof(ts_churn_block, bin) + TS_SMALL_CLASSES * sizeof(ts_bin))

/* The block holds for this allocator and epoch; size is one of a class. */
TS_ALWAYS_INLINE void *pop_any(ts_churn_block *block, size_t size) {
    size_t bin_offset = ts_classes.bin[(size + 15) >> 4];
    ts_bin *bin = ts_bin_at(block, bin_offset);
    void *p;
    if (bin_offset >= SMALL_BIN) {
        p = ts_fast_pop(bin, TS_NORMAL);
        return p ? p : ts_fast_word(bin, TS_NORMAL);
    }
    p = ts_fast_pop(bin, TS_SMALL);
    return p ? p : ts_fast_word(bin, TS_SMALL);
}

TS_ALWAYS_INLINE bool block_serves(const ts_tls *tls, uintptr_t token, size_t size, EpochId epoch) {
    return tls->token == token && ts_load_relaxed(&tls->block->b.open_id) == epoch && size <= TS_MAX_CLASS_BYTES;
}

/* The ring was empty, or the object is below 64 bytes, or this is not a case for the fast paths at all. */
TS_NOINLINE static void *malloc_epoch_more(uintptr_t token, size_t size, EpochId epoch) {
    ts_tls *tls = &ts_thread;
    void *p = NULL;
    ts_op_begin(tls);
    if (TS_LIKELY(block_serves(tls, token, size, epoch))) p = pop_any(tls->block, size);
    ts_op_end(tls);
    return TS_LIKELY(p != NULL) ? p : ts_alloc(token, size, epoch);
}

void *slab_malloc_epoch(SlabAllocator *allocator, size_t size, EpochId epoch) {
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    if (TS_LIKELY(block_serves(tls, ts_token(allocator), size, epoch))) {
        size_t bin_offset = ts_classes.bin[(size + 15) >> 4];
        if (TS_LIKELY(bin_offset >= SMALL_BIN)) {
            void *p = ts_fast_pop(ts_bin_at(tls->block, bin_offset), TS_NORMAL);
            if (TS_LIKELY(p != NULL)) {
                ts_op_end(tls);
                return p;
            }
        }
    }
    return malloc_epoch_more(ts_token(allocator), size, epoch);
}

TS_ALWAYS_INLINE bool rolling_serves(const ts_tls *tls, uintptr_t token, size_t size) {
    return tls->token == token && ts_load_relaxed(&tls->rolling->b.rolling) != 0 && size <= TS_MAX_CLASS_BYTES;
}

TS_NOINLINE static void *malloc_more(uintptr_t token, size_t size) {
    ts_tls *tls = &ts_thread;
    void *p = NULL;
    ts_op_begin(tls);
    if (TS_LIKELY(rolling_serves(tls, token, size))) p = pop_any(tls->rolling, size);
    ts_op_end(tls);
    return TS_LIKELY(p != NULL) ? p : ts_alloc_rolling(token, size);
}

void *slab_malloc(SlabAllocator *allocator, size_t size) {
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    if (TS_LIKELY(rolling_serves(tls, ts_token(allocator), size))) {
        size_t bin_offset = ts_classes.bin[(size + 15) >> 4];
        if (TS_LIKELY(bin_offset >= SMALL_BIN)) {
            void *p = ts_fast_pop(ts_bin_at(tls->rolling, bin_offset), TS_NORMAL);
            if (TS_LIKELY(p != NULL)) {
                ts_op_end(tls);
                return p;
            }
        }
    }
    return malloc_more(ts_token(allocator), size);
}

void *slab_alloc(size_t size) {
    ts_tls *tls = &ts_thread;
    void *p = NULL;
    ts_op_begin(tls);
    ts_scope_block *block = tls->scope;
    size_t bytes = ts_scope_round(size);
    if (TS_LIKELY(ts_load_relaxed(&block->b.open_id) != TS_ID_NEVER && bytes != 0)) p = ts_fast_bump(block, bytes);
    ts_op_end(tls);
    if (TS_LIKELY(p != NULL)) return p;
    if (tls->domain) return ts_domain_alloc(size);
    SlabAllocator *allocator = slab_allocator_default();
    return allocator ? slab_malloc(allocator, size) : NULL;
}

void *slab_calloc_epoch(SlabAllocator *allocator, size_t n, size_t size, EpochId epoch) {
    if (n != 0 && size > SIZE_MAX / n) {
        errno = ENOMEM;
        return NULL;
    }
    ts_tls *tls = &ts_thread;
    void *p = NULL;
    ts_op_begin(tls);
    if (TS_LIKELY(block_serves(tls, ts_token(allocator), n * size, epoch))) p = pop_any(tls->block, n * size);
    ts_op_end(tls);
    if (TS_LIKELY(p != NULL)) return memset(p, 0, n * size);
    return ts_alloc_aligned(ts_token(allocator), 16, n * size, epoch, true);
}

void *slab_aligned_epoch(SlabAllocator *allocator, size_t alignment, size_t size, EpochId epoch) {
    if (!ts_is_pow2(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    if (alignment > (size_t)1 << 30) {
        errno = ENOMEM;
        return NULL;
    }
    return ts_alloc_aligned(ts_token(allocator), alignment < 16 ? 16 : alignment, size, epoch, false);
}

TS_COLD static bool rejected(uintptr_t token, const char *call, const void *p, SlabHandle handle) {
    ts_misuse(token, call, p, handle);
    return false;
}

TS_NOINLINE static bool free_more(uintptr_t token, void *p) {
    ts_tls *tls = &ts_thread;
    uint64_t entry = ts_entry_of(&ts_region.part[TS_SMALL], p);
    ts_fast_result r = {false, NULL, NULL, NULL};
    ts_op_begin(tls);
    if (tls->token == token && entry < ts_region.part[TS_SMALL].limit)
        r = ts_fast_free(tls->share_line, TS_SMALL, entry, p);
    if (TS_UNLIKELY(r.evicted != NULL)) return ts_bin_evict(r.block, r.bin, r.evicted);
    ts_op_end(tls);
    if (TS_LIKELY(r.freed || p == NULL)) return true;
    if (TS_LIKELY(ts_free(token, p, TS_ANY_GENERATION))) return true;
    return rejected(token, "slab_free", p, SLAB_HANDLE_NONE);
}

bool slab_free(SlabAllocator *allocator, void *p) {
    ts_tls *tls = &ts_thread;
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    ts_op_begin(tls);
    if (TS_LIKELY(tls->token == ts_token(allocator) && entry < ts_region.part[TS_NORMAL].limit)) {
        ts_fast_result r = ts_fast_free(tls->share_line, TS_NORMAL, entry, p);
        if (TS_UNLIKELY(r.evicted != NULL)) return ts_bin_evict(r.block, r.bin, r.evicted);
        if (TS_LIKELY(r.freed)) {
            ts_op_end(tls);
            return true;
        }
    }
    return free_more(ts_token(allocator), p);
}

void *slab_realloc(SlabAllocator *allocator, void *p, size_t size) {
    if (p == NULL) return slab_malloc(allocator, size);
    int before = errno;
    errno = 0;
    void *q = ts_realloc(ts_token(allocator), p, size);
    if (!q && errno == EINVAL) {
        ts_misuse(ts_token(allocator), "slab_realloc", p, SLAB_HANDLE_NONE);
        errno = EINVAL;
    } else if (q) {
        errno = before;
    }
    return q;
}

size_t slab_usable_size(SlabAllocator *allocator, const void *p) {
    ts_object object;
    return ts_object_at(ts_token(allocator), p, &object) ? object.bytes : 0;
}

bool slab_owns(SlabAllocator *allocator, const void *p) {
    ts_object object;
    return ts_object_at(ts_token(allocator), p, &object);
}

/* ---- handles -------------------------------------------------------------------------------------------- */

void *alloc_obj_epoch(SlabAllocator *allocator, size_t size, EpochId epoch, SlabHandle *out) {
    if (!out) {
        errno = EINVAL;
        return NULL;
    }
    void *p = slab_malloc_epoch(allocator, size, epoch);
    *out = p ? slab_handle_of(allocator, p) : SLAB_HANDLE_NONE;
    if (p && *out == SLAB_HANDLE_NONE) {
        /* Destroyed between the two steps, by another thread. */
        errno = ESTALE;
        return NULL;
    }
    return p;
}

bool free_obj(SlabAllocator *allocator, SlabHandle handle) {
    ts_object object;
    if (ts_object_of_handle(ts_token(allocator), handle, &object) &&
        ts_free(ts_token(allocator), object.address, object.generation))
        return true;
    return rejected(ts_token(allocator), "free_obj", NULL, handle);
}

void *slab_handle_get(SlabAllocator *allocator, SlabHandle handle) {
    ts_object object;
    return ts_object_of_handle(ts_token(allocator), handle, &object) ? object.address : NULL;
}

SlabHandle slab_handle_of(SlabAllocator *allocator, const void *p) {
    ts_object object;
    if (!ts_object_at(ts_token(allocator), p, &object)) return SLAB_HANDLE_NONE;
    return ts_object_handle(ts_token(allocator), &object);
}
