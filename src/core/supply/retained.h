/*
 * Retained memory: units that are in no slab, and have their memory yet. The code calls them RETAINED. A thread keeps
 * some of an allocator in its share, the others are the allocator's. retained.c has the argument.
 */
#ifndef TS_SUPPLY_RETAINED_H
#define TS_SUPPLY_RETAINED_H

#include "base/base.h"
#include "supply/allocator.h"

#define TS_LOCAL_RETAINED_UNITS 64u /* 1 MiB: retained units of each allocator that a thread keeps for itself */
#define TS_RETAINED_UNITS_MOVED 16u /* 256 KiB: units that a thread gives to the allocator, or takes, at a time */

/* ---- lists; the caller has what guards the list ------------------------------------------------ */

void ts_retained_push(ts_retained *retained, uint32_t unit);
/* Units in a row, of which each page may have memory. The first comes out first. */
void ts_retained_push_run(ts_retained *retained, uint32_t first, uint32_t count);
static inline uint32_t ts_retained_pop(ts_retained *retained) {
    uint32_t unit = retained->head;
    if (!unit) return 0;
    retained->head = ts_slab_at(unit)->next;
    if (!retained->head) retained->tail = 0;
    ts_add_owned(&retained->count, (uint32_t)-1);
    return unit;
}
/* Puts from's units before to's. Touches one record only, from's tail: at the end of a large epoch the others are out
   of the caches. */
TS_ALWAYS_INLINE void ts_retained_splice(ts_retained *to, ts_retained *from) {
    if (!from->head) return;
    ts_slab_at(from->tail)->next = to->head;
    if (!to->head) to->tail = from->tail;
    to->head = from->head;
    ts_add_owned(&to->count, ts_load_relaxed(&from->count));
    from->head = from->tail = 0;
    ts_store_relaxed(&from->count, 0);
}

/* ---- units of a share; the caller holds the heap ------------------------------------------------ */

/* Retains an empty slab, whose unit is on no list. */
void ts_share_keep(ts_share *share, uint32_t unit);
/* The units that a share keeps beyond its limit go to the allocator. */
void ts_share_overflow(ts_share *share);
/* Retains a whole list of empty slabs. true: the share has more than it may keep now (ts_share_overflow). */
TS_ALWAYS_INLINE bool ts_share_add_retained(ts_share *share, uint32_t head, uint32_t tail, uint32_t count) {
    ts_retained *retained = &share->retained;
    if (!head) return false;
    TS_ASSUME(!ts_is_piece(head) && !ts_is_piece(tail));
    /* As ts_retained_splice, of a list in registers. */
    ts_slab_at(tail)->next = retained->head;
    if (!retained->head) retained->tail = tail;
    retained->head = head;
    ts_add_owned(&retained->count, count);
    TS_PROBE2(slab__recycle,
              ts_region.part[TS_NORMAL].base + (size_t)(head - ts_region.part[TS_NORMAL].first_unit) * TS_UNIT_BYTES,
              (uint64_t)count);
    return ts_load_relaxed(&retained->count) > TS_LOCAL_RETAINED_UNITS ||
           share->allocator->settings.reclaim_policy == SLAB_RECLAIM_AT_ONCE;
}
/* Takes a retained unit of the share, and claims it. 0: it has none. */
TS_ALWAYS_INLINE uint32_t ts_share_take(ts_share *share) {
    for (;;) {
        uint32_t unit = ts_retained_pop(&share->retained);
        if (TS_UNLIKELY(!unit)) return 0;
        ts_slab_at(unit)->allocator = ts_allocator_index(share->allocator); /* a zombie finds its allocator by that */
        if (TS_LIKELY(ts_slab_claim(unit, &share->allocator->pins))) return unit;
    }
}

/* ---- units of the allocator --------------------------------------------------------------------- */

/* The next of the allocator's retained units, 0: none. Caller has the retained lock. */
uint32_t ts_allocator_retained_pop(ts_allocator *allocator);
/* Notes for the retain budget that some of the allocator's units were taken. before: how many it had. Caller has the
   retained lock. */
void ts_note_reused(ts_allocator *allocator, uint64_t before);
/* As ts_note_reused, of units of the pool. Caller need not have the lock. */
void ts_note_fresh(ts_allocator *allocator, uint64_t units);
/* Retains a zombie slab, which came off a queue. */
void ts_zombie_give(uint32_t unit);

/* Near its budget, or giving back at once: takers of its units take none in advance. A hint. */
bool ts_allocator_is_sparing(const ts_allocator *allocator);
/* The budget in units, 0: none. */
uint64_t ts_allocator_budget_units(const ts_allocator *allocator);
/* Counts more units of the allocator. false: its budget has no room. */
bool ts_commit_within_budget(ts_allocator *allocator, uint64_t units);
/* Takes units in a row from the pool; if there is no room, or no memory, other retained memory goes back first. 0
   with errno ENOMEM. Holds nothing. */
uint32_t ts_units_take_fresh(ts_allocator *allocator, unsigned part, unsigned home, uint32_t units, uint32_t align);
/* Takes `units` units from the pool and retains them, with their memory. false: errno is ENOMEM, and some could not
   be had. */
bool ts_allocator_reserve(ts_allocator *allocator, uint64_t units);

/* ---- slabs --------------------------------------------------------------------------------------- */

/* A unit that is on no list, claimed, its memory readable and writable. Looks in the share, among the allocator's, in
   the pool. home: as ts_share_wanted_home. *fresh: its memory was not resident. 0 with
   errno ENOMEM. Caller: the owner, not inside the heap. */
uint32_t ts_unit_acquire(ts_heap *heap, ts_share *share, unsigned home, bool *fresh);
/* A fresh slab of that use, of that home. 0: no memory. */
uint32_t ts_slab_acquire_churn(ts_heap *heap, ts_share *share, unsigned cls, unsigned home, bool *fresh);
uint32_t ts_slab_acquire_scope(ts_heap *heap, ts_share *share, unsigned home, bool *fresh);
/* The memory of a claimed unit whose generations or tags are used up goes back. Its address is never used again. */
void ts_allocator_retire(ts_allocator *allocator, uint32_t unit);
/* Retires the first unit of a slab, which is used up. The other units can be used again. */
void ts_slab_retire(ts_allocator *allocator, uint32_t unit, uint32_t units);

#endif
