/*
 * What could go wrong: a program that breaks the contract frees the object in another thread while it is resized, or
 * ends its epoch. Then the place may be another object's by the time that it is to be freed. So it is freed as the
 * object that was seen: live, in the same use of its slot and of its slab. In a block that is open to this thread
 * states become live by this thread alone, so what is looked at inside of the operation of the free is so until that is
 * done. Elsewhere the slab is in the same use still when the free begins, and the slot's generation is looked at by
 * that: what is left is an epoch that ends in that very moment.
 *
 * The epoch is that of the block. If that ends meanwhile the new object is of an epoch that is over, or of the block's
 * next one: then the program has lost the object that it resized, and what it got is another that lives.
 */
#include "api/move.h"

#include "api/runtime.h"
#include "cache/bin.h"
#include "cache/free.h"
#include "epoch/epoch.h"
#include "object/object.h"

#include <errno.h>
#include <string.h>

typedef struct ts_seen_object {
    const ts_bin *bin;
    uint32_t state, tag; /* of its slot; of the use that its slab is in */
} ts_seen_object;

static const ts_slab *slab_of(uint64_t entry) {
    return ts_slab_in(&ts_region.part[TS_NORMAL], entry >> TS_ENTRY_UNIT_SHIFT);
}

/* The tag first (acquire: before the look): if the slab is in another use by the time of the look, it is not this
   thread's. */
static ts_seen_object look(uint64_t entry) {
    ts_seen_object seen = {.tag = ts_load_acquire(&slab_of(entry)->tag), .state = 0};
    seen.bin = ts_fast_look(&ts_thread, entry, &seen.state);
    return seen;
}

/* false: it is not the object that was seen any more, or not this thread's to free without the heap. */
static bool free_own(uintptr_t token, void *p, uint64_t entry, const ts_seen_object *seen) {
    ts_tls *tls = &ts_thread;
    ts_op_begin(tls);
    ts_seen_object now = look(entry);
    bool same = !ts_is_other_relaxed_64(&tls->token, token) && now.bin == seen->bin && now.state == seen->state &&
                now.tag == seen->tag;
    ts_fast_result r = {.freed = false};
    if (TS_LIKELY(same)) r = ts_fast_free(tls, entry, p, false, SLAB_HANDLE_NONE);
    if (TS_UNLIKELY(r.freed && r.full) && !ts_fast_give(r.bin, entry, r.granule)) {
        (void)ts_bin_give_freed(ts_bin_block(r.bin), r.bin, (uint32_t)entry);
        ts_epoch_settle();
        return true;
    }
    ts_op_end(tls);
    return r.freed;
}

/* Its epoch was closed meanwhile; or it is dead. */
TS_COLD static void free_seen(uintptr_t token, void *p, uint64_t entry, const ts_seen_object *seen) {
    uint32_t generation = ts_load_relaxed(&slab_of(entry)->gen) + ts_state_generation(seen->state);
    if (ts_load_acquire(&slab_of(entry)->tag) == seen->tag) (void)ts_free(token, p, generation);
}

bool ts_move_own(SlabAllocator *allocator, void *p, size_t bytes, size_t size, void **q) {
    uint64_t entry = ts_entry_of(&ts_region.part[TS_NORMAL], p);
    ts_seen_object seen = look(entry);
    if (TS_UNLIKELY(!seen.bin)) return false;
    EpochId epoch = ts_load_relaxed(&ts_bin_block(seen.bin)->b.open_id);
    if (TS_UNLIKELY(epoch == TS_ID_NEVER)) return false; /* closing: it may be that a smaller one stays */
    int error = errno;
    char *to = slab_malloc_epoch(allocator, size, epoch);
    if (TS_UNLIKELY(!to)) {
        /* The epoch is over meanwhile: a smaller one stays, a larger one has nowhere to go, as ts_realloc says. */
        if (errno == ESTALE || errno == EINVAL) return false;
        *q = size <= bytes ? p : NULL;
        if (*q) errno = error;
        return true;
    }
    memcpy(to, p, size < bytes ? size : bytes);
    if (TS_UNLIKELY(!free_own(ts_token(allocator), p, entry, &seen))) free_seen(ts_token(allocator), p, entry, &seen);
    errno = error;
    *q = to;
    return true;
}
