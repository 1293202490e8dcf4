/* Objects and handles. The fast paths are laid out here, so that a call is one function deep. */
#include "api/runtime.h"

#include "base/bits.h"
#include "heap/fast.h"

#include <errno.h>
#include <string.h>

TS_ALWAYS_INLINE void *pop_from(ts_churn_block *block, size_t size, uint32_t *entry, unsigned *part) {
    unsigned cls = ts_classes.of[(size + 15) >> 4];
    ts_bin *bin = &block->bin[cls];
    *part = TS_NORMAL;
    if (TS_LIKELY(cls >= TS_SMALL_CLASSES)) return ts_fast_pop(bin, TS_NORMAL, entry);
    *part = TS_SMALL;
    return ts_fast_pop(bin, TS_SMALL, entry);
}

TS_ALWAYS_INLINE void *alloc_epoch(uintptr_t token, size_t size, EpochId epoch, uint32_t *entry, unsigned *part) {
    ts_tls *tls = &ts_thread;
    void *p = NULL;
    ts_op_begin(tls);
    ts_churn_block *block = tls->block;
    if (TS_LIKELY(ts_load_relaxed(&block->b.open_id) == epoch && ts_load_relaxed(&block->b.allocator) == token &&
                  size <= TS_MAX_CLASS_BYTES))
        p = pop_from(block, size, entry, part);
    ts_op_end(tls);
    return p;
}

void *slab_malloc_epoch(SlabAllocator *allocator, size_t size, EpochId epoch) {
    uint32_t entry;
    unsigned part;
    void *p = alloc_epoch(ts_token(allocator), size, epoch, &entry, &part);
    if (TS_LIKELY(p != NULL)) return p;
    return ts_alloc(ts_token(allocator), size, epoch);
}

void *slab_malloc(SlabAllocator *allocator, size_t size) {
    ts_tls *tls = &ts_thread;
    uint32_t entry;
    unsigned part;
    void *p = NULL;
    ts_op_begin(tls);
    ts_churn_block *block = tls->rolling;
    if (TS_LIKELY(ts_load_relaxed(&block->b.rolling) == ts_token(allocator) && allocator != NULL &&
                  size <= TS_MAX_CLASS_BYTES))
        p = pop_from(block, size, &entry, &part);
    ts_op_end(tls);
    if (TS_LIKELY(p != NULL)) return p;
    return ts_alloc_rolling(ts_token(allocator), size);
}

void *slab_alloc(size_t size) {
    ts_tls *tls = &ts_thread;
    void *p = NULL;
    ts_op_begin(tls);
    ts_scope_block *block = tls->scope;
    size_t bytes = ts_scope_round(size);
    if (TS_LIKELY(ts_load_relaxed(&block->b.owner) == tls->id && bytes != 0)) p = ts_fast_bump(block, bytes);
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
    uint32_t entry;
    unsigned part;
    void *p = alloc_epoch(ts_token(allocator), n * size, epoch, &entry, &part);
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

TS_NOINLINE static bool free_slow(uintptr_t token, void *p) {
    if (p == NULL) return true;
    if (TS_LIKELY(ts_free(token, p, TS_ANY_GENERATION))) return true;
    return rejected(token, "slab_free", p, SLAB_HANDLE_NONE);
}

bool slab_free(SlabAllocator *allocator, void *p) {
    ts_tls *tls = &ts_thread;
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    bool done = false;
    ts_op_begin(tls);
    if (TS_LIKELY(entry < ts_region.part[TS_NORMAL].limit)) {
        done = ts_fast_free(tls, TS_NORMAL, entry, ts_token(allocator));
    } else {
        entry = ts_entry_of(&ts_region.part[TS_SMALL], p);
        if (entry < ts_region.part[TS_SMALL].limit) done = ts_fast_free(tls, TS_SMALL, entry, ts_token(allocator));
    }
    ts_op_end(tls);
    if (TS_LIKELY(done)) return true;
    return free_slow(ts_token(allocator), p);
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
