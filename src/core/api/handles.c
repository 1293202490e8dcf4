/* Handles: made with an object, and asked for it. The fast paths are laid out here, as in objects.c. */
#include "api/runtime.h"
#include "diagnose/diagnose.h"

#include "cache/allocate.h"
#include "cache/cache.h"
#include "cache/free.h"
#include "object/find.h"
#include "object/object.h"

#include <errno.h>

/* The handle of an object that the operation has just taken from the bin. No thread ends the slab's use before the
   operation is over. NONE: it is the first of the slab's use, which ts_object_handle makes HANDLED. */
TS_ALWAYS_INLINE SlabHandle new_handle(const ts_churn_block *block, const ts_bin *bin, const void *p, const bool near) {
    const ts_part *region = &ts_region.part[TS_NORMAL];
    uint64_t entry = ts_entry_of(region, p), unit = entry >> TS_ENTRY_UNIT_SHIFT;
    const ts_slab *slab = ts_slab_in(region, unit);
    if (TS_UNLIKELY((ts_load_relaxed(&region->unit[unit]) & TS_UNIT_HANDLED) == 0)) return SLAB_HANDLE_NONE;
    uint32_t generation = ts_load_relaxed(&slab->gen) + ts_load_relaxed(ts_generation_word(entry));
    if (!near && ts_is_outer(ts_slab_unit(slab)))
        return ts_handle_pack_outer(ts_slab_unit(slab), generation, (uint32_t)entry);
    return ts_handle_pack(ts_slab_unit(slab), generation, (uint32_t)entry, ts_bin_class(block, bin));
}

/* The handle of a scope's current slab, less the place of its unit. With the place of an object it is the object's
   handle. It is made with the slab's first handle, and kept (ts_block.handle). It is not 0, as its low bits tell the
   kind. */
TS_ALWAYS_INLINE uint64_t new_scope_handles(ts_scope_block *block) {
    uint32_t unit = ts_load_relaxed(&block->current);
    ts_slab *slab = ts_slab_at(unit);
    ts_store_relaxed_if_changed(&slab->handled, 1); /* before the operation is over: as in new_handle */
    uint64_t handle = ts_handle_pack(ts_unit_of(unit), ts_load_relaxed(&slab->gen), 0, TS_COUNT_SCOPE);
    uint32_t region = ts_unit_of(unit) >> TS_MAX_UNITS_LOG2;
    if (TS_UNLIKELY(region != 0)) handle ^= ts_handle_low_of_region(region) ^ (handle & 255);
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

/* The handle of an object that was just taken from the block. near: what was at hand in a bin is so. */
TS_ALWAYS_INLINE SlabHandle handle_of_new(ts_found found, size_t size, const void *p, const bool near) {
    if (TS_LIKELY(found.churn != NULL)) return new_handle(found.churn, ts_bin_of(found.churn, size), p, near);
    return scope_handle(new_scope_handles(found.scope), p);
}

/* The object is the first of its slab's use with a handle. Inside the operation that has taken it, which ends here, as
   in the next two. */
TS_COLD static void *first_handle(uintptr_t token, void *p, SlabHandle *out) {
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    uint64_t word = ts_load_relaxed(ts_unit_word((uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT)));
    return ts_handle_new(token, ts_alloc_done(&ts_thread, p), word, out);
}

TS_ENTRY TS_NOINLINE static void *alloc_obj_more(uintptr_t token, size_t size, EpochId epoch, SlabHandle *out,
                                                 ts_found found) {
    void *p = TS_LIKELY(ts_is_found(found)) ? ts_alloc_refill(&ts_thread, found, size) : NULL;
    if (TS_UNLIKELY(p == NULL)) {
        ts_op_end(&ts_thread);
        return ts_alloc_object(token, size, epoch, out);
    }
    *out = handle_of_new(found, size, p, false);
    return TS_UNLIKELY(*out == SLAB_HANDLE_NONE) ? first_handle(token, p, out) : ts_alloc_done(&ts_thread, p);
}

TS_ENTRY TS_NOINLINE static void *alloc_obj_missed(uintptr_t token, size_t size, EpochId epoch, SlabHandle *out) {
    ts_found found = ts_find(&ts_thread, token, epoch);
    void *p = ts_alloc_cached(found, size);
    if (TS_UNLIKELY(p == NULL)) return alloc_obj_more(token, size, epoch, out, found);
    *out = handle_of_new(found, size, p, true);
    if (TS_UNLIKELY(*out == SLAB_HANDLE_NONE)) return first_handle(token, p, out);
    ts_op_end(&ts_thread);
    return p;
}

/* In the current slab of the scope used last, which has got a handle before: else it is missed. */
TS_ENTRY void *alloc_obj_epoch(SlabAllocator *allocator, size_t size, EpochId epoch, SlabHandle *out) {
    if (TS_UNLIKELY(!out)) return no_place_for_handle();
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    ts_scope_block *scope = tls->last;
    uint64_t bump, next, handle;
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&tls->token, ts_token(allocator))) || TS_UNLIKELY(epoch == EPOCH_NONE) ||
        TS_UNLIKELY(ts_is_other_relaxed_64(&scope->b.open_id, epoch)) || TS_UNLIKELY((handle = scope->b.handle) == 0) ||
        TS_UNLIKELY(!ts_fast_has_room(scope, size, &bump, &next)))
        return alloc_obj_missed(ts_token(allocator), size, epoch, out);
    void *p = ts_fast_bump(scope, bump, next);
    *out = scope_handle(handle, p);
    ts_op_end(tls);
    return p;
}

/* The usual case: of this thread's own open block. false: another; nothing was done, and the operation goes on.
   *first: the answer. */
TS_ALWAYS_INLINE bool free_obj_fast(const ts_tls *tls, SlabHandle handle, bool *first) {
    uint64_t unit = ts_handle_low_unit(handle);
    uint64_t entry = unit * TS_UNIT_ENTRIES + ts_handle_entry(handle);
    if (TS_UNLIKELY(!ts_is_near(entry))) return false;
    ts_fast_result r = ts_fast_free(tls->share_key, entry, ts_entry_address(&ts_region.part[TS_NORMAL], entry),
                                    TS_FAST_EXACT, handle, NULL, false);
    if (TS_UNLIKELY(!r.freed)) return false;
    *first = !r.late;
    if (TS_UNLIKELY(r.full)) return ts_free_full(r.bin, r.entry);
    ts_op_end(&ts_thread);
    return true;
}

/* Another case. The operation has begun. */
TS_NOINLINE static bool free_obj_missed(uintptr_t token, SlabHandle handle) {
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
        return free_obj_missed(ts_token(allocator), handle);
    return TS_LIKELY(first) ? true : freed_for_another(ts_token(allocator), handle);
}

/* The object of a handle, if it is of the thread's own churn block; NULL: it is another case. */
TS_ALWAYS_INLINE void *own_object(const ts_tls *tls, uintptr_t token, SlabHandle handle) {
    const ts_part *region = &ts_region.part[TS_NORMAL];
    uint32_t unit = ts_handle_low_unit(handle);
    ts_looked seen;
    uint64_t entry = (uint64_t)unit * TS_UNIT_ENTRIES + ts_handle_entry(handle);
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&tls->token, token)) || TS_UNLIKELY(!ts_is_near(entry))) return NULL;
    const ts_bin *bin = ts_fast_look(tls, entry, true, &seen);
    if (TS_UNLIKELY(bin == NULL)) return NULL;
    const ts_slab *slab = ts_slab_in(region, unit);
    uint32_t generation = ts_load_relaxed(&slab->gen) + ts_load_relaxed(ts_generation_word(entry));
    bool is = ts_handle_is(handle, generation, ts_bin_class(ts_bin_block(bin), bin));
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
