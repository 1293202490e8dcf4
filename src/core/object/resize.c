/*
 * An object is resized: where it is, or by a new one, a copy, and the end of the old one. Nothing here is called inside
 * an operation or with a lock held.
 *
 * What could go wrong: a program that breaks the contract frees the old object in another thread while it is resized,
 * or ends its epoch. The copy reads memory of the region in any case. But the place may be another object's by the
 * time that the old one is to be freed. So the old one is freed as the object that was seen. Nothing else tells it from
 * the next one in its slot, where the slab has no generations.
 *
 * An object of the thread's own open churn block (ts_resize_own): it is live, and the UNIT word of its slab is as seen.
 *  1. The word names a bin and an era of its block. In that era, slots of that bin become live by this thread alone,
 *     and only while the block is open. The look has seen the word and the block open.
 *  2. Between the look and the free this thread allocates one object, the new one. It is of another class than the old
 *     one: larger, or less than half of it. So it lies in another bin, and no slot of the old one's bin becomes live.
 *     A slab that leaves that bin meanwhile does not come back with the same word.
 *  3. So if the word is as seen and the object is live, it is the one that was seen. The free looks at both inside its
 *     operation, while no other thread takes the slab out of an open block.
 *  4. If the block was closed meanwhile, the free looks at the word first, and then is that of any other object. One
 *     case is left: the epoch ends in that very moment.
 * The new object is of the block's epoch. If that ends meanwhile the new one is of an epoch that is over, or of the
 * block's next one: then the program has lost the object that it resized, and what it got is another that lives.
 *
 * Any other object (ts_realloc; slab_promote goes the same way): it is live, its slab is in the use that was seen, and
 * the generation is as seen (ts_free_copied).
 *  5. The slab is this thread's, in a block that is closed or that no fast path uses. As in 1, only this thread can
 *     make the slot live, and only by the new object. If that is there, it stays.
 *  6. The slab is another thread's. If it has generations, they tell. Else one case is left. The owner or a third
 *     thread frees the object, and the owner has allocated its slot anew before the copy is done. Then that next object
 *     is freed in the old one's place, as by a free that comes too late (docs/security.md). It is freed as any object
 *     is, so no structure is damaged. (The object's bit in the foreign word could be set before the copy. But the owner
 *     drains when it likes, and would hand out the slot that is being copied. The count of that word does not tell
 *     either: drains of 31 neighbours raise it, too.)
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
    ts_free_copied(token, object, q);
    return q;
}

/* An object that fits: whether it stays, as a smaller one would waste no less than half of it. */
static bool stays(const ts_object *object, size_t size) {
    if (object->kind == TS_COUNT_SCOPE) return true; /* the rest cannot be given back anyway */
    if (ts_realloc_stays(object->bytes, size)) return true;
    return object->kind == TS_COUNT_SPAN && object->bytes <= 2 * TS_UNIT_BYTES &&
           ts_has_as_span(object->care_of, object->epoch, size);
}

/* word: the UNIT word of its slab, which has to be in that use still; 0: any. */
TS_ENTRY static void *resize_object(uintptr_t token, void *p, size_t alignment, size_t size, uint64_t word) {
    ts_object object;
    if (!ts_object_at(token, p, &object) || (word != 0 && !ts_is_same_use(object.word, word)))
        return ts_fail_null(EINVAL);
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
    return resize_object(token, p, alignment, size, 0);
}

/* ---- an object of the thread's own open churn block ------------------------------------------------------------ */

/* Its epoch was closed meanwhile, or a handle was made in its slab, or it is dead. */
TS_COLD static void free_seen(uintptr_t token, void *p, uint64_t entry, uint64_t word, const void *copy) {
    uint32_t unit = (uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT);
    const ts_object object = {.address = p,
                              .word = word,
                              .unit = unit,
                              .entry_in_unit = (uint32_t)entry & (TS_UNIT_ENTRIES - 1),
                              .generation = ts_load_relaxed(&ts_slab_at(unit)->gen)};
    ts_free_copied(token, &object, copy);
}

/* Frees the object that was seen. */
static void free_moved(uintptr_t token, void *p, uint64_t entry, uint64_t word, const void *copy) {
    const ts_looked seen = {.word = word};
    ts_tls *tls = &ts_thread;
    ts_fast_result r = {.freed = false};
    ts_op_begin(tls);
    if (TS_LIKELY(!ts_is_other_relaxed_64(&tls->token, token)))
        r = ts_fast_free(tls->share_key, entry, p, TS_FAST_PLAIN, SLAB_HANDLE_NONE, &seen, false);
    if (TS_UNLIKELY(r.full)) {
        (void)ts_free_full(r.bin, entry);
        return;
    }
    ts_op_end(tls);
    if (TS_UNLIKELY(!r.freed)) free_seen(token, p, entry, word, copy);
}

TS_ENTRY void *ts_resize_own(uintptr_t token, void *p, size_t size, uint64_t word) {
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    const ts_bin *bin = (const void *)(ts_region.lines + (word >> TS_UNIT_BIN_SHIFT));
    EpochId epoch = ts_load_relaxed(&ts_bin_block(bin)->b.open_id);
    if (TS_UNLIKELY(epoch == TS_ID_NEVER)) /* closing: it may be that a smaller one stays */
        return resize_object(token, p, 16, size, word);
    size_t bytes = ts_class_bytes[ts_bin_class(ts_bin_block(bin), bin)];
    int before = errno;
    bool grows = size > bytes && size > TS_QUARTER_BYTES; /* smaller ones make no difference (huge.h) */
    if (TS_UNLIKELY(grows)) ts_huge_set_growing(true);
    char *q = make_object(token, 16, size, epoch);
    if (TS_UNLIKELY(grows)) ts_huge_set_growing(false);
    if (TS_UNLIKELY(!q)) {
        /* The epoch is over meanwhile: a smaller one stays, a larger one has nowhere to go, as ts_realloc says. */
        if (errno == ESTALE || errno == EINVAL) return resize_object(token, p, 16, size, word);
        if (size > bytes) return NULL;
        errno = before;
        return p;
    }
    memcpy(q, p, size < bytes ? size : bytes);
    free_moved(token, p, entry, word, q);
    errno = before;
    return q;
}
