/*
 * An object is resized: where it is, or by a new one, a copy, and the end of the old one. Nothing here is called inside
 * an operation or with a lock held.
 *
 * What could go wrong: a program that breaks the contract frees the old object in another thread while it is resized,
 * or ends its epoch. The copy reads memory of the region in any case. But the place may be another object's
 * by the time that the old one is to be freed. So the old one is freed as the object that was seen.
 *
 * An object of the thread's own open churn block (ts_resize_own): live, in the same use of its slot and of its slab.
 *  1. The tag of its slab is read after the look, and open_id of the block after the tag. A slab that has a live
 *     object leaves its bin only as the block ends. Then open_id says so before the slab gets another tag, and only
 *     this thread opens the block again. So if the block is open, the tag is of the use in which the object was seen.
 *     Each use of a slab has a higher tag than the one before: a free that finds the same tag finds the slab in that
 *     use.
 *  2. In such a block states become live by this thread alone. So what the free looks at inside its operation is so
 *     until that is done.
 *  3. If the block was closed meanwhile, the slab is in the same use when the free begins, and that free looks at the
 *     generation of the slot. One case is left: the epoch ends in that very moment.
 * The new object is of the block's epoch. If that ends meanwhile the new one is of an epoch that is over, or of the
 * block's next one: then the program has lost the object that it resized, and what it got is another that lives.
 *
 * Any other object (ts_realloc): the old one is freed if its slab is in the same use still, and by the generation that
 * was seen. (Where no handle of a slab was made, a generation says nothing of another use of the slab.)
 */
#include "base/base.h"
#include "cache/cache.h"
#include "cache/free.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "memtools/memtools.h"
#include "object/find.h"
#include "object/object.h"
#include "slab/slab.h"
#include "supply/supply.h"

#include <errno.h>
#include <string.h>

/* ---- where it is -------------------------------------------------------------------------------------------- */

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

/* ---- to another place -------------------------------------------------------------------------------------- */

/* A large span whose pages move when it grows. It gets a quarter more room if it grows by less than that: one that
   grows bit by bit, and has others behind it, moves once in a while. */
static bool is_moved(const ts_object *object) {
    const ts_allocator *allocator = object->care_of;
    return object->kind == TS_COUNT_SPAN && object->bytes >= TS_SPAN_MOVE_BYTES && !allocator->care &&
           !allocator->settings.guard_spans;
}

/* The new object. */
TS_ENTRY static void *make_object(uintptr_t token, size_t alignment, size_t size, EpochId epoch) {
    ts_tls *tls = &ts_thread;
    if (TS_UNLIKELY(alignment > 16)) return ts_alloc_aligned(token, alignment, size, epoch, false);
    ts_op_begin(tls);
    ts_found found = ts_find(tls, token, epoch);
    void *p = ts_alloc_cached(found, size);
    ts_op_end(tls);
    return TS_LIKELY(p != NULL) ? p : ts_alloc(token, size, epoch);
}

/* The room that an object gets at its new place. One of a scope, above a quarter of a unit, gets the next half or
   whole: one that grows bit by bit, with others behind it, moves twice before it is a span. */
static size_t room_of(const ts_object *object, size_t size, bool moves) {
    const ts_allocator *allocator = object->care_of;
    bool in_scope = object->kind == TS_COUNT_SCOPE && size > object->bytes && !allocator->care;
    if (in_scope && size > TS_QUARTER_BYTES && size <= TS_UNIT_BYTES)
        return size <= TS_SCOPE_MAX_BYTES ? TS_SCOPE_MAX_BYTES : TS_UNIT_BYTES;
    bool more = moves && size - object->bytes < object->bytes / 4 && !ts_allocator_is_sparing(allocator);
    return more ? object->bytes + object->bytes / 4 : size;
}

/* Larger, or smaller in an epoch that still takes objects. NULL: it stays as it is. */
TS_ENTRY static void *move_object(uintptr_t token, const ts_object *object, size_t alignment, size_t size) {
    bool moves = size > object->bytes && is_moved(object);
    size_t room = room_of(object, size, moves);
    void *q = make_object(token, alignment, room, object->epoch);
    if (!q && room > size) q = make_object(token, alignment, room = size, object->epoch);
    if (!q) return NULL;
    /* Pages that move take the place of those that a retained span has: these are lost, and where the pages were none
       are left. So there a copy costs less. */
    if (moves && ts_thread.span_fresh) {
        bool moved = ts_span_move(ts_allocator_find(token), object->unit, object->word, object->generation, q,
                                  ts_align_up(room, TS_UNIT_BYTES));
        if (!moved) (void)ts_free(token, q, TS_ANY_GENERATION);
        ts_epoch_run_deferred();
        if (!moved) errno = EINVAL; /* another thread has freed the old one */
        return moved ? q : NULL;
    }
    size_t kept = ts_object_usable(object);
    memcpy(q, object->address, size < kept ? size : kept);
    ts_free_copied(token, object);
    return q;
}

/* An object that fits: whether it stays, as a smaller one would waste no less than half of it. */
static bool stays(const ts_object *object, size_t size) {
    if (object->kind == TS_COUNT_SCOPE) return true; /* the rest cannot be given back anyway */
    if (ts_realloc_stays(object->bytes, size)) return true;
    return object->kind == TS_COUNT_SPAN && object->bytes <= 2 * TS_UNIT_BYTES &&
           ts_has_as_span(object->care_of, object->epoch, size);
}

static uint32_t generation_of(const ts_object *object, const ts_looked *seen) {
    return ts_load_relaxed(&ts_slab_at(object->unit)->gen) + ts_state_generation(seen->state);
}

/* seen: it has to be that object still; NULL: any. */
TS_ENTRY static void *resize_object(uintptr_t token, void *p, size_t alignment, size_t size, const ts_looked *seen) {
    ts_object object;
    bool live = ts_object_at(token, p, &object);
    if (live && seen) live = object.word == seen->word && object.generation == generation_of(&object, seen);
    if (!live) return ts_fail_null(EINVAL);
    if (size > PTRDIFF_MAX) return ts_fail_null(ENOMEM);
    if (TS_UNLIKELY(ts_is_lent(object.unit))) return ts_fail_null(ESTALE);
    if (object.kind == TS_COUNT_SCOPE) {
        size_t bytes = size <= ts_allocator_scope_bytes(object.care_of) ? ts_align_up(size != 0 ? size : 1, 16) : 0;
        if (bytes != 0 && scope_resize(&object, bytes)) {
            if (bytes < object.bytes) ts_care_fill(object.care_of->care, object.address + bytes, object.bytes - bytes);
            return resized(&object, size, bytes > object.bytes ? bytes : object.bytes);
        }
    }
    bool shrinking = size <= object.bytes;
    int before = errno;
    if (shrinking && (stays(&object, size) || !is_active(object.epoch))) return resized(&object, size, object.bytes);
    /* A sample of its stack has the bytes that were allocated (stacks.h): there, another object is. */
    ts_huge_set_growing(!shrinking);
    bool grown = !shrinking && object.kind == TS_COUNT_SPAN && !object.care_of->care &&
                 !ts_load_relaxed(&object.care_of->sampled) &&
                 ts_span_grow(ts_allocator_find(token), object.unit, object.word, size);
    void *q = grown ? p : move_object(token, &object, alignment, size);
    ts_huge_set_growing(false);
    if (q || shrinking) errno = before; /* no memory for a smaller one is no refusal */
    return q || !shrinking ? q : resized(&object, size, object.bytes);
}

TS_ENTRY void *ts_realloc(uintptr_t token, void *p, size_t alignment, size_t size) {
    return resize_object(token, p, alignment, size, NULL);
}

/* ---- an object of the thread's own open churn block ------------------------------------------------------------ */

static const ts_slab *slab_of(uint64_t entry) {
    return ts_slab_in(&ts_region.part[TS_NORMAL], entry >> TS_ENTRY_UNIT_SHIFT);
}

/* Its epoch was closed meanwhile; or it is dead. */
TS_COLD static void free_seen(uintptr_t token, void *p, uint64_t entry, const ts_looked *seen) {
    uint32_t generation = ts_load_relaxed(&slab_of(entry)->gen) + ts_state_generation(seen->state);
    if (ts_load_acquire(&slab_of(entry)->tag) == seen->tag) (void)ts_free(token, p, generation);
}

/* Frees the object that was seen. */
static void free_moved(uintptr_t token, void *p, uint64_t entry, const ts_looked *seen) {
    ts_tls *tls = &ts_thread;
    ts_fast_result r = {.freed = false};
    ts_op_begin(tls);
    if (TS_LIKELY(!ts_is_other_relaxed_64(&tls->token, token)))
        r = ts_fast_free(tls->share_key, entry, p, TS_FAST_PLAIN, SLAB_HANDLE_NONE, seen, false);
    if (TS_UNLIKELY(r.full)) {
        (void)ts_free_full(r.bin, entry);
        return;
    }
    ts_op_end(tls);
    if (TS_UNLIKELY(!r.freed)) free_seen(token, p, entry, seen);
}

TS_ENTRY void *ts_resize_own(uintptr_t token, void *p, size_t size, uint64_t word, uint32_t state) {
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    const ts_bin *bin = (const void *)(ts_region.lines + (word >> TS_UNIT_BIN_SHIFT));
    ts_looked seen = {.word = word, .state = state};
    seen.tag = ts_load_acquire(&slab_of(entry)->tag); /* 1: acquire, before open_id; partner: ts_slab_next_use */
    EpochId epoch = ts_load_relaxed(&ts_bin_block(bin)->b.open_id);
    if (TS_UNLIKELY(epoch == TS_ID_NEVER)) /* closing: it may be that a smaller one stays */
        return resize_object(token, p, 16, size, &seen);
    size_t bytes = ts_class_bytes[ts_bin_class(ts_bin_block(bin), bin)];
    int before = errno;
    bool grows = size > bytes && size > TS_QUARTER_BYTES; /* smaller ones make no difference (huge.h) */
    if (TS_UNLIKELY(grows)) ts_huge_set_growing(true);
    char *q = make_object(token, 16, size, epoch);
    if (TS_UNLIKELY(grows)) ts_huge_set_growing(false);
    if (TS_UNLIKELY(!q)) {
        /* The epoch is over meanwhile: a smaller one stays, a larger one has nowhere to go, as ts_realloc says. */
        if (errno == ESTALE || errno == EINVAL) return resize_object(token, p, 16, size, &seen);
        if (size > bytes) return NULL;
        errno = before;
        return p;
    }
    memcpy(q, p, size < bytes ? size : bytes);
    free_moved(token, p, entry, &seen);
    errno = before;
    return q;
}
