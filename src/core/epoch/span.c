/*
 * Spans: units in a row for one large object, of 16 KiB each or, above TS_FAR_BYTES, of 1 MiB (region.h).
 *
 * A span belongs to an epoch, not to a thread. It is listed, and taken off the list, under the epoch's lock. Its memory
 * is got before that and given back after it.
 *
 * The UNIT word of the first unit is SPAN with the span's tag, which changes at every use. The words of the other units
 * are 0, so no place inside of a span is the start of an object. A span is live while its word is there. Word and
 * record change under the lock of the epoch whose index is in queue_next. So a thread that has that lock, and finds
 * word and index unchanged, may read the record.
 */
#include "base/base.h"
#include "cache/cache.h"
#include "epoch/epoch.h"
#include "memtools/memtools.h"
#include "os/os.h"
#include "slab/slab.h"
#include "supply/supply.h"

#include <errno.h>
#include <string.h>

/* The note is written before the span is in its epoch: from then on another thread may change the record, and it has a
   number. */
TS_COLD static void give_out_span(ts_allocator *allocator, uint32_t unit, size_t size, bool zero, ts_span_note *note) {
    const ts_slab *slab = ts_slab_at(unit);
    char *p = ts_unit_address(unit);
    if (slab->u.span.written) note->written = slab->u.span.written - 1;
    note->bytes = ts_load_relaxed(&slab->u.span.bytes);
    ts_care_allocated(allocator->care, p, p, size, note->bytes, false);
    if (zero) ts_care_defined(allocator->care, p, size);
}

/* A number that no part has, if it is more than the machine has. */
static uint64_t units_for(unsigned part, size_t size) {
    if (TS_UNLIKELY(size > ts_region.far_most_bytes)) return UINT32_MAX;
    return ((uint64_t)size + ts_part_bytes(part, 1) - 1) >> ts_part_shift(part);
}

/* share: the calling thread's own, which is counted in without a locked instruction. */
static void count_allocated(ts_allocator *allocator, ts_share *share, uint64_t objects, uint64_t bytes,
                            uint64_t weight) {
    if (TS_LIKELY(share != NULL)) { /* always, but for a span that grows */
        ts_count(&share->span_counts.allocated, objects);
        ts_count(&share->span_counts.bytes_allocated, bytes);
        ts_count(&share->span_counts.units_taken, weight);
        return;
    }
    ts_fetch_add_relaxed(&allocator->span_counts.allocated, objects);
    ts_fetch_add_relaxed(&allocator->span_counts.bytes_allocated, bytes);
    ts_fetch_add_relaxed(&allocator->span_counts.units_taken, weight);
}

/* release: a reader of statistics that sees a free sees the allocation, which came first under the epoch's lock. */
static void count_freed(ts_allocator *allocator, ts_share *share, uint64_t bytes, uint64_t weight) {
    if (TS_LIKELY(share != NULL)) {
        ts_count_release(&share->span_counts.freed, 1);
        ts_count_release(&share->span_counts.bytes_freed, bytes);
        ts_count_release(&share->span_counts.units_given, weight);
        return;
    }
    atomic_fetch_add_explicit(&allocator->span_counts.freed, 1, memory_order_release);
    atomic_fetch_add_explicit(&allocator->span_counts.bytes_freed, bytes, memory_order_release);
    atomic_fetch_add_explicit(&allocator->span_counts.units_given, weight, memory_order_release);
}

/* *taken: what the account has granted for that many units, 0 without one. false with errno: it grants nothing, and is
   let go. */
static inline bool charge_units(const ts_allocator *allocator, ts_account *account, EpochId id, unsigned part,
                                uint32_t units, uint32_t align_units, uint64_t *taken) {
    *taken = 0;
    if (TS_LIKELY(account == NULL)) return true;
    if (allocator->settings.guard_spans) units = ts_span_guarded_units(part, units, align_units);
    *taken = ts_part_weight(part, units);
    if (ts_limit_charge(account, *taken, id)) return true;
    ts_account_unref(account);
    return false;
}

/* Adds a span to the epoch, which counts it and whose lock is held. Its object is there now. Returns its UNIT word. */
TS_ALWAYS_INLINE uint64_t add_span(ts_epoch *epoch, uint32_t unit, uint64_t bytes, uint64_t weight) {
    ts_slab *slab = ts_slab_at(unit);
    epoch->has_more = true;
    ts_slab_list_push(&epoch->spans, unit);
    ts_add_owned(&epoch->span_allocated, 1);
    ts_span_set_number(slab, ts_load_relaxed(&epoch->span_allocated));
    ts_add_owned(&epoch->span_bytes_allocated, bytes);
    ts_add_owned(&epoch->span_units, (uint32_t)weight);
    uint64_t word = TS_UNIT_SPAN | ts_load_relaxed(&slab->tag);
    ts_store_relaxed(&slab->queue_next, epoch->record.index);
    /* release: a thread that reads the word sees the record */
    ts_store_release(ts_unit_word(unit), word);
    return word;
}

TS_ALWAYS_INLINE void *alloc_in_part(const unsigned part, ts_allocator *allocator, EpochId id, size_t size,
                                     size_t align, bool *zero, ts_span_note *note) {
    uint64_t units = units_for(part, size > 0 ? size : 1);
    uint64_t align_units = align <= ts_part_bytes(part, 1) ? 1 : align >> ts_part_shift(part);
    bool fresh;
    ts_heap *heap = ts_heap_mine();
    if (!heap) return NULL;
    ts_epoch *epoch = ts_epoch_find(allocator, id);
    /* Joining tells an old epoch from one that never was. */
    if (!epoch || ts_load_relaxed(&epoch->state) != EPOCH_ACTIVE) {
        if (ts_epoch_join(heap, allocator, id)) errno = ESTALE;
        return NULL;
    }
    if (units > ts_region.part[part].units || align_units > ts_region.part[part].units) return ts_fail_null(ENOMEM);
    /* The units are the record's before the epoch has them: it waits if another thread frees the allocator meanwhile. A
       share has it pinned, and no other thread drops it. */
    ts_share *share = ts_heap_share_now(heap, allocator);
    if (!share) return NULL;
    uint64_t taken;
    ts_account *account = TS_LIKELY(!ts_load_relaxed(&epoch->account)) ? NULL : ts_account_get(epoch, id);
    if (!charge_units(allocator, account, id, part, (uint32_t)units, (uint32_t)align_units, &taken)) return NULL;
    unsigned home = part == TS_FAR ? TS_HOME_ANY : ts_share_wanted_home(allocator, share, account);
    uint32_t unit =
        TS_UNLIKELY(allocator->settings.guard_spans)
            ? ts_span_acquire_guarded(allocator, part, home, (uint32_t)units, (uint32_t)align_units, size, &fresh)
            : ts_span_acquire(allocator, share, part, home, (uint32_t)units, (uint32_t)align_units, &fresh);
    if (!unit) {
        ts_account_let_go(account, taken);
        return NULL;
    }
    TS_ASSUME(!ts_is_piece(unit));
    ts_slab *slab = ts_slab_at(unit);
    char *at = ts_part_unit_address(part, unit);
    ts_store_relaxed(&slab->u.span.epoch, id);
    uint64_t bytes = ts_load_relaxed(&slab->u.span.bytes), weight = ts_part_weight(part, slab->u.span.units);
    ts_care_begin(allocator->care, at, bytes, false);
    if (TS_UNLIKELY(allocator->care)) give_out_span(allocator, unit, size, *zero && fresh, note);
    if (*zero && !fresh) memset(at, 0, size);
    epoch = ts_epoch_find_active(allocator, id);
    if (epoch) {
        /* All of it, if the epoch has got an account since. */
        ts_account *now = ts_load_relaxed(&epoch->account);
        ts_account_add(now, now == account ? weight - taken : weight);
        if (now == account) taken = 0;
        count_allocated(allocator, share, 1, bytes, weight);
        if (fresh) ts_fetch_add_relaxed(&allocator->span_miss, 1);
        ts_thread.span_fresh = fresh;
        note->word = add_span(epoch, unit, bytes, weight);
        ts_epoch_release(epoch);
    }
    ts_account_let_go(account, taken);
    if (epoch) return at;
    ts_span_release(allocator, share, unit, slab->u.span.units);
    return ts_fail_null(ESTALE);
}

TS_NOINLINE static void *alloc_far(ts_allocator *allocator, EpochId id, size_t size, size_t align, bool *zero,
                                   ts_span_note *note) {
    return alloc_in_part(TS_FAR, allocator, id, size, align, zero, note);
}

void *ts_span_alloc(ts_allocator *allocator, EpochId id, size_t size, size_t align, bool *zero, ts_span_note *note) {
    if (TS_UNLIKELY(ts_span_part(allocator, size) == TS_FAR)) return alloc_far(allocator, id, size, align, zero, note);
    return alloc_in_part(TS_NORMAL, allocator, id, size, align, zero, note);
}

/* Its object is dead, and nobody else has the units. */
TS_COLD static void take_back_span(const ts_allocator *allocator, uint32_t unit) {
    char *p = ts_unit_address(unit);
    ts_care_span_end(allocator->care, p, ts_load_relaxed(&ts_slab_at(unit)->u.span.bytes));
}

/* Caller has the lock. share: the calling thread's, or NULL. */
TS_ALWAYS_INLINE void count_out(ts_epoch *epoch, ts_allocator *allocator, ts_share *share, const ts_slab *slab) {
    ts_add_owned(&epoch->span_freed, 1);
    uint64_t bytes = ts_load_relaxed(&slab->u.span.bytes), weight = ts_span_weight(slab);
    ts_add_owned(&epoch->span_bytes_freed, bytes);
    ts_add_owned(&epoch->span_units, 0u - (uint32_t)weight);
    ts_account_uncharge(ts_load_relaxed(&epoch->account), weight);
    count_freed(allocator, share, bytes, weight);
}

ts_epoch *ts_span_lock(ts_allocator *allocator, uint32_t unit, uint64_t word) {
    TS_ASSUME(!ts_is_piece(unit));
    uint32_t index = ts_load_relaxed(&ts_slab_at(unit)->queue_next);
    if (index == 0 || index >= ts_table_high(&ts_epochs)) return NULL;
    ts_epoch *epoch = ts_table_at(&ts_epochs, index);
    ts_epoch_acquire(epoch);
    if (ts_load_relaxed(ts_unit_word(unit)) == word && ts_load_relaxed(&ts_slab_at(unit)->queue_next) == index &&
        ts_load_relaxed(&epoch->allocator) == allocator)
        return epoch;
    ts_epoch_release(epoch);
    return NULL;
}

/* A span that its epoch no longer has. Its units are the caller's, which has the allocator pinned, or a share of it. */
typedef struct taken_out {
    ts_share *share;
    ts_epoch *epoch;
    EpochId id;
    uint32_t units;
    bool drained;
} taken_out;

/* moves: its bytes are wanted, which are not there if it is lent. */
TS_ALWAYS_INLINE bool take_out(ts_allocator *allocator, uint32_t unit, uint64_t word, uint32_t generation,
                               const bool moves, taken_out *out) {
    TS_ASSUME(!ts_is_piece(unit));
    ts_slab *slab = ts_slab_at(unit);
    ts_epoch *epoch = ts_span_lock(allocator, unit, word);
    if (!epoch) return false;
    if ((generation != TS_ANY_GENERATION && generation != ts_load_relaxed(&slab->gen)) || (moves && ts_is_lent(unit))) {
        ts_epoch_release(epoch);
        return false;
    }
    *out = (taken_out){.share = ts_share_of_mine(ts_load_relaxed(&allocator->token)),
                       .epoch = epoch,
                       .id = ts_load_relaxed(&slab->u.span.epoch),
                       .units = slab->u.span.units};
    ts_store_release(ts_unit_word(unit), 0);
    ts_slab_list_remove(&epoch->spans, unit);
    count_out(epoch, allocator, out->share, slab);
    out->drained = ts_load_relaxed(&epoch->state) == EPOCH_CLOSING && ts_load_relaxed(&epoch->span_units) == 0;
    /* The free of the allocator ends this epoch before it gives the record back, and so comes later. */
    if (!out->share) ts_allocator_pin(allocator);
    ts_epoch_release(epoch);
    return true;
}

static void end_taken_out(ts_allocator *allocator, const taken_out *out) {
    if (!out->share) ts_allocator_unpin(allocator);
    if (out->drained) ts_epoch_finish(out->epoch, out->id);
}

bool ts_span_free(ts_allocator *allocator, uint32_t unit, uint64_t word, uint32_t generation) {
    taken_out out;
    if (!take_out(allocator, unit, word, generation, false, &out)) return false;
    ts_nodes_freed(allocator, unit);
    if (TS_UNLIKELY(allocator->care)) take_back_span(allocator, unit);
    ts_span_release(allocator, out.share, unit, out.units);
    end_taken_out(allocator, &out);
    return true;
}

/* Moves pages where the system can, and copies the rest. The system moves a range only if that is one area to it. So a
   span of which a part was moved before goes by halves. true: all of it was moved, and the first range has no memory.
   */
static bool move_bytes(char *from, char *to, size_t bytes) {
    if (bytes < TS_SPAN_MOVE_BYTES || (((uintptr_t)from | (uintptr_t)to | bytes) & (ts_os_page_bytes() - 1)) != 0) {
        memcpy(to, from, bytes);
        return false;
    }
    if (ts_os->move(from, to, bytes)) return true;
    size_t half = ts_align_up(bytes / 2, TS_PAGE_BYTES_MAX);
    bool first = move_bytes(from, to, half);
    return move_bytes(from + half, to + half, bytes - half) && first;
}

/* The old object ends first. Then its units are this thread's alone, whatever other threads do with the pointer. */
bool ts_span_move(ts_allocator *allocator, uint32_t unit, uint64_t word, uint32_t generation, void *to, size_t room) {
    taken_out out;
    if (!take_out(allocator, unit, word, generation, true, &out)) return false;
    size_t bytes = ts_units_bytes(unit, out.units);
    /* Another thread can have let it grow since it was looked at. */
    if (move_bytes(ts_unit_address(unit), to, bytes < room ? bytes : room) && bytes <= room)
        ts_span_release_bare(allocator, unit, out.units);
    else
        ts_span_release(allocator, out.share, unit, out.units);
    end_taken_out(allocator, &out);
    return true;
}

static void count_grown(ts_epoch *epoch, ts_allocator *allocator, uint64_t units, uint64_t bytes) {
    ts_add_owned(&epoch->span_bytes_allocated, bytes);
    ts_add_owned(&epoch->span_units, (uint32_t)units);
    count_allocated(allocator, ts_share_of_mine(ts_load_relaxed(&allocator->token)), 0, bytes, units);
}

/* The units come first, as no lock is held while the pool grows. Then the word tells whether the span is still there.
   Its length is unchanged: another thread that let it grow would have needed these units. */
bool ts_span_grow(ts_allocator *allocator, uint32_t unit, uint64_t word, size_t size) {
    ts_slab *slab = ts_slab_at(unit);
    unsigned part = ts_part_of_unit(unit);
    uint64_t units = units_for(part, size);
    /* An object that becomes too large for its part moves to the other. */
    if (units > ts_region.part[part].units || (part == TS_NORMAL && ts_span_part(allocator, size) != part))
        return false;
    ts_epoch *epoch = ts_span_lock(allocator, unit, word);
    if (!epoch) return false;
    uint32_t before = slab->u.span.units, more = (uint32_t)(units - before);
    uint64_t weight = ts_units_weight(unit, more);
    size_t bytes = ts_units_bytes(unit, more);
    /* It has as many already if another thread let it grow since it was looked up. */
    bool grown = slab->u.span.guard == 0 && units > before && !ts_is_lent(unit);
    ts_account *account = ts_load_relaxed(&epoch->account);
    EpochId id = ts_load_relaxed(&slab->u.span.epoch);
    if (TS_UNLIKELY(account != NULL)) ts_account_ref(account);
    /* The free of the allocator ends this epoch before it gives the record back, and so comes later. */
    ts_allocator_pin(allocator);
    ts_epoch_release(epoch);
    bool fresh, taken = grown && (!account || ts_limit_charge(account, weight, id));
    grown = taken;
    if (grown && ts_span_acquire_behind(allocator, unit + before, more, (uint32_t)units, &fresh)) {
        ts_care_begin(allocator->care, ts_unit_address(unit + before), bytes, false);
        epoch = ts_span_lock(allocator, unit, word);
        grown = epoch && !ts_is_lent(unit);
        if (grown) {
            slab->u.span.units = (uint32_t)units;
            ts_store_relaxed(&slab->u.span.bytes, ts_units_bytes(unit, units));
            count_grown(epoch, allocator, weight, bytes);
            ts_account *now = ts_load_relaxed(&epoch->account);
            if (now != account) ts_account_add(now, weight);
            taken = taken && now != account;
            ts_epoch_release(epoch);
        } else {
            if (epoch) ts_epoch_release(epoch);
            ts_span_give_behind(allocator, unit + before, more, fresh);
        }
    } else {
        grown = false;
    }
    ts_account_let_go(account, taken ? weight : 0);
    ts_allocator_unpin(allocator);
    return grown;
}

uint32_t ts_span_detach(ts_epoch *epoch) {
    uint32_t first = epoch->spans;
    ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    ts_share *share = first ? ts_share_of_mine(ts_load_relaxed(&allocator->token)) : NULL;
    if (first) ts_allocator_pin(allocator); /* until ts_span_release_list is done */
    for (uint32_t unit = first; unit; unit = ts_slab_at(unit)->next) {
        ts_store_relaxed(&ts_slab_at(unit)->u.span.with_epoch, 1);
        count_out(epoch, allocator, share, ts_slab_at(unit));
        ts_store_release(ts_unit_word(unit), 0);
    }
    epoch->spans = 0;
    return first;
}

uint64_t ts_span_count(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    if (!epoch) return 0;
    uint64_t count = ts_load_relaxed(&epoch->span_allocated);
    ts_epoch_release(epoch);
    return count;
}

/* The list has the newest first. */
void ts_span_release_newer(ts_allocator *allocator, EpochId id, uint64_t count) {
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    if (!epoch) return;
    uint32_t first = 0, unit;
    while ((unit = epoch->spans) != 0) {
        ts_slab *slab = ts_slab_at(unit);
        if (ts_span_number(slab) <= count) break;
        ts_slab_list_remove(&epoch->spans, unit);
        ts_store_relaxed(&slab->u.span.with_epoch, 1);
        count_out(epoch, allocator, ts_share_of_mine(ts_load_relaxed(&allocator->token)), slab);
        ts_store_release(ts_unit_word(unit), 0);
        slab->next = first;
        first = unit;
    }
    if (first) ts_allocator_pin(allocator);
    ts_epoch_release(epoch);
    ts_span_release_list(allocator, first);
}

void ts_span_release_list(ts_allocator *allocator, uint32_t first) {
    bool pinned = first != 0;
    while (first) {
        ts_slab *slab = ts_slab_at(first);
        uint32_t next = slab->next;
        if (TS_UNLIKELY(allocator->care)) take_back_span(allocator, first);
        ts_span_release(allocator, NULL, first, slab->u.span.units);
        first = next;
    }
    if (pinned) ts_allocator_unpin(allocator);
}
