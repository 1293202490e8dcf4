/*
 * Realloc off the fast path. Nothing here is called inside an operation or with a lock held.
 *
 * What could go wrong: another thread frees the old object, or ends its epoch, while it is copied. The old one is freed
 * if its slab is in the same use still, and by the generation that was seen before: a place that is another object's by
 * then stays that object's. (Of slabs of which no handle was made a generation says nothing of another use.) Who frees
 * an object while it is resized has broken the contract; what is copied then is memory of the region in any case.
 */
#include "base/bits.h"
#include "cache/allocate.h"
#include "cache/foreign.h"
#include "cache/scope.h"
#include "epoch/epoch.h"
#include "memtools/care.h"
#include "object/object.h"
#include "slab/lent.h"
#include "supply/warm.h"

#include <errno.h>
#include <string.h>

/* The last object of the current scope slab can grow and shrink where it is. */
static bool scope_resize(const ts_object *object, size_t bytes) {
    ts_heap *heap = ts_thread.heap;
    ts_scope_block *block = ts_scope(object->block);
    bool done = false;
    if (!heap || ts_load_acquire(&object->block->heap) != heap || bytes == 0) return false;
    ts_heap_enter(heap);
    uint64_t bump = ts_load_relaxed(&block->bump);
    if (ts_era(object->block) == ts_word_era(object->word) && ts_load_relaxed(&block->current) == object->unit &&
        ts_load_relaxed(&object->block->open_id) != TS_ID_NEVER &&
        object->address + object->bytes == ts_bump_at(bump) &&
        bytes <= (size_t)(ts_slab_address(object->unit) + ts_slab_bytes(object->unit) - object->address)) {
        /* as in ts_fast_bump */
        ts_store_release(&block->bump, ts_bump_word(object->address + bytes, bump & (TS_BUMP_TURN | TS_BUMP_COUNT)));
        done = true;
    }
    ts_heap_leave(heap);
    return done;
}

static void *resized(const ts_object *object, size_t size, size_t usable) {
    const ts_allocator *allocator = object->care_of;
    void *home = object->kind == TS_COUNT_SPAN ? object->address : ts_slab_start(object->address);
    if (TS_UNLIKELY(allocator->care)) ts_care_resized(allocator->care, home, object->address, size, usable);
    return object->address;
}

static bool is_active(EpochId id) {
    const ts_epoch *epoch = ts_epoch_at_id(id);
    return epoch && ts_load_relaxed(&epoch->state) == EPOCH_ACTIVE;
}

/* A large span whose pages move when it grows. It gets a quarter more room if it grows by less than that: one that
   grows bit by bit, and has others behind it, moves once in a while. */
static bool is_moved(const ts_object *object) {
    const ts_allocator *allocator = object->care_of;
    return object->kind == TS_COUNT_SPAN && object->bytes >= TS_SPAN_MOVE_BYTES && !allocator->care &&
           !allocator->settings.guard_spans;
}

TS_ENTRY void *ts_realloc(uintptr_t token, void *p, size_t alignment, size_t size) {
    ts_object object;
    if (!ts_object_at(token, p, &object)) {
        errno = EINVAL;
        return NULL;
    }
    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    if (TS_UNLIKELY(ts_is_lent(object.unit))) {
        errno = ESTALE;
        return NULL;
    }
    if (object.kind == TS_COUNT_SCOPE) {
        size_t bytes = size <= TS_SCOPE_MAX_BYTES ? ts_scope_round(size) : 0;
        if (bytes != 0 && scope_resize(&object, bytes)) {
            if (bytes < object.bytes) ts_care_fill(object.care_of->care, object.address + bytes, object.bytes - bytes);
            return resized(&object, size, bytes > object.bytes ? bytes : object.bytes);
        }
        /* The rest of a smaller object cannot be given back anyway. */
        if (size <= object.bytes) return resized(&object, size, object.bytes);
    } else if (size <= object.bytes) {
        /* In place unless a good half of it would be wasted: then a smaller one, if there is memory. */
        if (ts_realloc_stays(object.bytes, size) ||
            (object.kind == TS_COUNT_SPAN && object.bytes <= 2 * TS_UNIT_BYTES &&
             ts_has_as_span(object.care_of, object.epoch, size)))
            return resized(&object, size, object.bytes);
    }
    bool shrinking = size <= object.bytes;
    /* A sample of its stack has the bytes that were allocated (stacks.h): there, another object is. */
    if (!shrinking && object.kind == TS_COUNT_SPAN && !object.care_of->care &&
        !ts_load_relaxed(&object.care_of->sampled) &&
        ts_span_grow(ts_allocator_find(token), object.unit, object.word, size))
        return p;
    if (shrinking && !is_active(object.epoch)) return resized(&object, size, object.bytes); /* not a refusal */
    int before = errno;
    bool moves = !shrinking && is_moved(&object);
    size_t room = moves && size - object.bytes < object.bytes / 4 && !ts_allocator_is_sparing(object.care_of)
                      ? object.bytes + object.bytes / 4
                      : size;
    void *q = ts_alloc_aligned(token, alignment, room, object.epoch, false);
    if (!q && room > size) q = ts_alloc_aligned(token, alignment, room = size, object.epoch, false);
    if (!q) {
        if (!shrinking) return NULL;
        errno = before;
        return resized(&object, size, object.bytes);
    }
    if (moves) {
        bool moved = ts_span_move(ts_allocator_find(token), object.unit, object.word, object.generation, q,
                                  ts_align_up(room, TS_UNIT_BYTES));
        if (!moved) (void)ts_free(token, q, TS_ANY_GENERATION);
        ts_epoch_settle();
        errno = moved ? before : EINVAL; /* another thread has freed the old one */
        return moved ? q : NULL;
    }
    size_t kept = ts_object_usable(&object);
    memcpy(q, p, size < kept ? size : kept);
    ts_free_copied(token, &object);
    return q;
}
