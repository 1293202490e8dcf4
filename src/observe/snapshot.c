/* Filling the structures of tslab/stats.h from the counters of blocks, shares and allocators. */
/* Modelled in tests/model: orders. */
#include "observe/snapshot.h"
#include "epoch/epoch.h"
#include "supply/supply.h"

#include "base/base.h"
#include "cache/cache.h"
#include "os/os.h"
#include "region/region.h"

#include <stddef.h>
#include <string.h>

/* A domain that is reset all the time: after so many looks it is left out of this snapshot. */
#define EPOCH_LOOKS 8u
/* Blocks of a list that threads take off meanwhile. */
#define LEFT_LOOKS 1000000u

/* ---- slabs: frees that are pending, and sizes -------------------------------------------------------------------- */

uint32_t ts_unit_kind(const ts_block *block, uint64_t word) {
    if (word & TS_UNIT_SCOPE) return TS_COUNT_SCOPE;
    const ts_churn_block *churn = (const ts_churn_block *)(const void *)block;
    unsigned cls = ts_bin_class(churn, ts_line_address(ts_word_line(word)));
    return cls < TS_CLASSES ? cls : 0;
}

ts_block *ts_unit_block(const ts_allocator *a, uint64_t word) {
    if (word == 0 || (word & (TS_UNIT_SPAN | TS_UNIT_ZOMBIE))) return NULL;
    ts_block *block = ts_block_of_word(word);
    if (ts_era(block) != ts_word_era(word) || ts_load_relaxed(&block->allocator) != ts_load_relaxed(&a->token))
        return NULL;
    return block;
}

uint64_t ts_unit_pending(const ts_block *block, uint32_t unit, uint64_t word, uint64_t *bytes) {
    bool scope = (word & TS_UNIT_SCOPE) != 0;
    unsigned first, end;
    const _Atomic uint64_t *foreign = ts_slab_foreign_words(unit, word, &first, &end);
    uint64_t tag = ts_load_relaxed(&ts_slab_at(unit)->tag), n = 0;
    const _Atomic uint64_t *lives = ts_unit_live(ts_unit_of(unit));
    bool fine = ts_word_is_fine(word);
    const ts_scope_bits *map = ts_slab_scope_bits(unit);
    for (unsigned i = first; i < end; i++) {
        uint64_t x = ts_load_acquire(&foreign[i]);
        if ((uint32_t)x == 0 || x >> TS_FOREIGN_TAG_SHIFT != tag) continue;
        for (uint32_t bits = (uint32_t)x; bits; bits &= bits - 1) {
            uint32_t at = i * 32 + ts_ctz64(bits);
            if (scope) {
                uint64_t mask = (uint64_t)1 << (at & 63);
                if (!(ts_load_relaxed(&map->start[at >> 6]) & mask) || (ts_load_relaxed(&map->freed[at >> 6]) & mask))
                    continue;
                *bytes += ts_scope_object_bytes((const ts_scope_block *)(const void *)block, unit, at);
            } else if ((ts_load_relaxed(&lives[ts_granule_entry(fine, at) >> 6]) >> (ts_granule_entry(fine, at) & 63) &
                        (fine ? 1 : 15)) == 0) {
                continue;
            }
            n++;
        }
    }
    if (!scope) *bytes += n * ts_class_bytes[ts_unit_kind(block, word)];
    return n;
}

/* The block's epoch, as long as the slab is the block's of that use. */
static const ts_epoch *epoch_of(const ts_allocator *a, const ts_block *block, uint64_t word) {
    /* acquire: a reader that sees the epoch of a later use sees this era over; partner in ts_block_begin */
    const ts_epoch *e = ts_load_acquire(&block->epoch);
    return ts_unit_block(a, word) == block ? e : NULL;
}

static void add_slab(ts_allocator *a, ts_sums *sums, uint32_t slab, uint64_t word, ts_slab_fn *fn, void *arg) {
    const ts_block *block = ts_unit_block(a, word);
    if (!block) return;
    uint32_t kind = ts_unit_kind(block, word);
    uint64_t bytes = 0, n = word & TS_UNIT_FOREIGN ? ts_unit_pending(block, slab, word, &bytes) : 0;
    bool mixed = fn && kind == TS_COUNT_SCOPE;
    if (!n && !mixed) return;
    sums->pending[kind] += n;
    sums->pending_bytes[kind] += bytes;
    sums->used |= (uint64_t)1 << kind;
    ts_sizes sizes;
    if (mixed) ts_unit_sizes(block, slab, word, &sizes);
    const ts_epoch *e = fn ? epoch_of(a, block, word) : NULL;
    if (e) fn(arg, e, kind, n, bytes, mixed ? &sizes : NULL);
}

static void look_at_slabs(ts_allocator *a, ts_sums *sums, ts_slab_fn *fn, void *arg) {
    uint64_t wanted = fn ? TS_UNIT_FOREIGN | TS_UNIT_SCOPE : TS_UNIT_FOREIGN;
    for (unsigned part = 0; part < TS_PARTS; part++) {
        uint32_t end = ts_pool_highest(part), first = ts_region.part[part].first_unit;
        for (uint32_t u = first + 1; ts_unit_of(u) < first + end; u = ts_slab_after(u)) {
            /* acquire: partner of ts_bin_add and ts_scope_append, so that the block is there */
            uint64_t word = ts_load_acquire(ts_unit_word(u));
            if (TS_UNLIKELY(word & wanted)) add_slab(a, sums, u, word, fn, arg);
        }
    }
}

/* ---- sums ------------------------------------------------------------------------------------------------------ */

static void sums_clear(ts_sums *s) {
    for (uint64_t left = s->used; left; left &= left - 1) {
        unsigned k = ts_ctz64(left);
        memset(&s->kind[k], 0, sizeof s->kind[k]);
        s->partial[k] = s->full[k] = s->pending[k] = s->pending_bytes[k] = 0;
    }
    s->used = 0;
    s->unread = false;
}

static void tally_add(ts_tally *to, const ts_tally *t) {
    to->allocated += t->allocated;
    to->freed += t->freed;
    to->bytes_allocated += t->bytes_allocated;
    to->bytes_freed += t->bytes_freed;
    to->slabs += t->slabs;
    to->pieces += t->pieces;
}

static void sums_add(ts_sums *to, const ts_sums *from) {
    for (uint64_t left = from->used; left; left &= left - 1) {
        unsigned k = ts_ctz64(left);
        tally_add(&to->kind[k], &from->kind[k]);
        to->partial[k] += from->partial[k];
        to->full[k] += from->full[k];
    }
    to->used |= from->used;
    to->unread |= from->unread;
}

/* A scope block's full slabs are all but its current one. */
static void add_block(void *arg, const ts_block *b) {
    ts_sums *s = arg;
    if (b->scope) {
        ts_tally t = ts_block_tally(b, TS_COUNT_SCOPE);
        uint64_t partial = ts_load_relaxed(&((const ts_scope_block *)(const void *)b)->current) != 0 && t.slabs ? 1 : 0;
        tally_add(&s->kind[TS_COUNT_SCOPE], &t);
        s->partial[TS_COUNT_SCOPE] += partial;
        s->full[TS_COUNT_SCOPE] += t.slabs - partial;
        s->used |= (uint64_t)1 << TS_COUNT_SCOPE;
        return;
    }
    const ts_churn_block *c = (const ts_churn_block *)(const void *)b;
    /* A bin's bit is on before it counts anything. */
    for (uint64_t left = ts_load_relaxed(&b->bins_used); left; left &= left - 1) {
        unsigned k = ts_ctz64(left);
        ts_tally t = ts_block_tally(b, k);
        uint64_t full = ts_bin_full(&c->bin[k]);
        if (full > t.slabs) full = t.slabs; /* a slab came or went between the two loads */
        tally_add(&s->kind[k], &t);
        s->full[k] += full;
        s->partial[k] += t.slabs - full;
        s->used |= (uint64_t)1 << k;
    }
}

static void add_span_tally(ts_sums *s, ts_tally t) {
    if (t.freed > t.allocated) t.freed = t.allocated;
    if (t.bytes_freed > t.bytes_allocated) t.bytes_freed = t.bytes_allocated;
    tally_add(&s->kind[TS_COUNT_SPAN], &t);
    s->full[TS_COUNT_SPAN] += t.slabs;
    if (t.allocated) s->used |= (uint64_t)1 << TS_COUNT_SPAN;
}

/* What was freed is read first (acquire: partner of forget_spans, in epoch/end.c). */
static void add_spans_of_epoch(ts_sums *s, const ts_epoch *e) {
    ts_tally t = {0};
    t.freed = ts_load_acquire(&e->span_freed);
    t.bytes_freed = ts_load_acquire(&e->span_bytes_freed);
    t.allocated = ts_load_relaxed(&e->span_allocated);
    t.bytes_allocated = ts_load_relaxed(&e->span_bytes_allocated);
    t.slabs = ts_load_relaxed(&e->span_units);
    add_span_tally(s, t);
}

static void add_spans_freed(ts_tally *t, uint64_t *given, const ts_span_counts *c) {
    t->freed += ts_load_acquire(&c->freed);
    t->bytes_freed += ts_load_acquire(&c->bytes_freed);
    *given += ts_load_acquire(&c->units_given);
}

static void add_spans_allocated(ts_tally *t, const ts_span_counts *c) {
    t->allocated += ts_load_relaxed(&c->allocated);
    t->bytes_allocated += ts_load_relaxed(&c->bytes_allocated);
    t->slabs += ts_load_relaxed(&c->units_taken);
}

/* All that was freed is read before anything that was allocated (acquire: partner of count_freed in epoch/span.c):
   the thread that freed a span had the lock of its epoch after the one that allocated it, whose share was in the list
   by then. */
static void add_spans(ts_sums *sums, const ts_allocator *a) {
    ts_tally t = {0};
    uint64_t given = 0;
    add_spans_freed(&t, &given, &a->span_counts);
    for (const ts_share *s = ts_load_acquire(&a->shares); s; s = s->allocator_next)
        add_spans_freed(&t, &given, &s->span_counts);
    for (const ts_share *s = ts_load_acquire(&a->shares); s; s = s->allocator_next)
        add_spans_allocated(&t, &s->span_counts);
    add_spans_allocated(&t, &a->span_counts);
    t.slabs -= ts_least(given, t.slabs);
    add_span_tally(sums, t);
}

bool ts_snapshot_read_epoch(const ts_epoch *e, EpochId id, ts_sums *s) {
    for (unsigned looks = 0; looks < EPOCH_LOOKS; looks++) {
        sums_clear(s);
        if (ts_epoch_read_blocks(e, id, add_block, s)) {
            add_spans_of_epoch(s, e);
            return true;
        }
        if (ts_load_relaxed(&e->record.id) != id) return false;
    }
    sums_clear(s);
    s->unread = true;
    return true; /* reset at every look: its objects are not there long enough to be counted */
}

static void add_shares(ts_allocator *a, ts_snapshot *out) {
    /* acquire: partner of the release in ts_heap_share */
    for (const ts_share *s = ts_load_acquire(&a->shares); s; s = s->allocator_next) {
        for (unsigned k = 0; k < TS_COUNT_KINDS; k++) {
            uint64_t ended = ts_load_relaxed(&s->count[k].ended);
            ts_tally t = {.allocated = ended, .freed = ended};
            tally_add(&out->sums.kind[k], &t);
#define X(name) out->count[k].name += ts_load_relaxed(&s->count[k].name);
            TS_SHARE_COUNTERS(X)
#undef X
        }
        out->refused += ts_load_relaxed(&s->refused_closed);
        out->retained_units += ts_share_retained_units(s);
    }
    out->sums.used = ((uint64_t)1 << TS_COUNT_KINDS) - 1;
}

/* With many epochs the walk waits for memory. So the record of a later epoch is fetched ahead, and then its block. */
static void prefetch_epoch(uint32_t i, uint32_t high) {
    if (i + 16 < high) {
        const ts_epoch *e = ts_table_at(&ts_epochs, i + 16);
        __builtin_prefetch(e);
        __builtin_prefetch((const char *)e + 64);
        __builtin_prefetch((const char *)e + 128);
    }
    if (i + 8 >= high) return;
    const ts_block *b = ts_load_relaxed(&((const ts_epoch *)ts_table_at(&ts_epochs, i + 8))->blocks);
    if (!b) return;
    __builtin_prefetch(b);
    __builtin_prefetch((const char *)b + 64);
    __builtin_prefetch((const char *)b + 128);
}

/* Slabs in blocks that are dead and left to their thread, which is to take them apart: in no epoch, and not retained
   yet. The lists are walked as they are; blocks never go from where they are, and one that is off its list leads
      nowhere.
   */
static void add_left(const ts_allocator *a, ts_snapshot *out) {
    for (const ts_heap *h = ts_heaps(); h; h = h->next) {
        const ts_block *lists[] = {ts_load_acquire(&h->inbox), ts_load_acquire(&h->ending)};
        for (unsigned i = 0; i < 2; i++) {
            const ts_block *b = lists[i];
            for (unsigned n = 0; b && n < LEFT_LOOKS; n++) {
                uintptr_t left = ts_load_acquire(&b->left);
                bool counts = (left & TS_POST_END) && ts_load_relaxed(&b->allocator) == ts_load_relaxed(&a->token);
                uint64_t slabs = ts_load_relaxed(&b->slabs);
                if (counts) out->left_units += slabs - ts_least(ts_block_pieces(b), slabs);
                b = (const ts_block *)(left & ~TS_LEFT_MARKS);
            }
        }
    }
}

void ts_snapshot_take(ts_allocator *a, ts_snapshot *out, ts_epoch_fn *fn, ts_slab_fn *slab, void *arg) {
    memset(out, 0, sizeof *out);
    out->allocator = a;
    for (unsigned k = 0; k <= TS_COUNT_KINDS; k++) {
        out->shown_allocated[k] = ts_load_relaxed(&a->shown_allocated[k]);
        out->shown_freed[k] = ts_load_relaxed(&a->shown_freed[k]);
        if (k < TS_COUNT_KINDS) out->shown_foreign[k] = ts_load_relaxed(&a->shown_foreign[k]);
    }
    add_shares(a, out);
    atomic_thread_fence(memory_order_acquire); /* the shares before the epochs: snapshot.h, 2 */
    add_spans(&out->sums, a);
    out->retained_units += (uint64_t)ts_load_relaxed(&a->retained.count) + ts_load_relaxed(&a->span_retained_units);
    ts_sums of_epoch;
    memset(&of_epoch, 0, sizeof of_epoch);
    uint32_t high = ts_table_high(&ts_epochs), i = 1;
    EpochId id;
    for (const ts_epoch *e; (e = ts_table_next(&ts_epochs, &i, &id)) != NULL;) {
        prefetch_epoch(i, high);
        if (ts_load_relaxed(&e->allocator) != a) continue;
        if (!ts_snapshot_read_epoch(e, id, &of_epoch)) continue;
        uint32_t state = ts_epoch_shown_state(e);
        /* A block ends with all its slabs. The counts of an epoch that is over, or has ended since it was counted,
           must not be lost. */
        bool over = state == EPOCH_CLOSED || !ts_epoch_is_still(e, id) ||
                    ((state == EPOCH_CLOSING || state == EPOCH_SPILLED) && ts_epoch_is_over(e, id));
        if (fn && !over) fn(arg, e, id, state, &of_epoch);
        /* Spans of epochs are in the allocator's own figures. */
        of_epoch.used &= ~((uint64_t)1 << TS_COUNT_SPAN);
        sums_add(&out->sums, &of_epoch);
        of_epoch.used |= (uint64_t)1 << TS_COUNT_SPAN;
        if (over) continue;
        if (state == EPOCH_ACTIVE)
            out->active++;
        else
            out->closing++;
    }
    add_left(a, out);
    atomic_thread_fence(memory_order_acquire); /* the counters before the foreign bits: snapshot.h, 4 */
    look_at_slabs(a, &out->sums, slab, arg);
}

/* ---- classes and the whole ------------------------------------------------------------------------------------ */

static uint64_t cache_capacity(const ts_allocator *a) {
    switch (a->settings.reclaim_policy) {
    case SLAB_RECLAIM_KEEP: return UINT64_MAX;
    case SLAB_RECLAIM_AT_ONCE: return 0;
    default: return ts_load_relaxed(&a->retain.units);
    }
}

static void raise_to(_Atomic uint64_t *at, uint64_t value) {
    uint64_t now = ts_load_relaxed(at);
    while (now < value &&
           !atomic_compare_exchange_weak_explicit(at, &now, value, memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Makes allocated - freed == live, with neither of the first two below a figure that was shown before. A shown figure
   was true when the snapshot began, or less; a counted one is true now, or less. So the larger of the two is not too
   large, and objects that are missing in the sum have been freed. An object that another thread freed, that was shown
   so, and that was collected between the two looks of this snapshot is still counted as live: the sum corrects that.
   */
static void show(const ts_snapshot *s, unsigned kind, uint64_t *allocated, uint64_t *freed, uint64_t *live) {
    uint64_t most = *allocated > s->shown_allocated[kind] ? *allocated : s->shown_allocated[kind];
    uint64_t least = s->shown_allocated[kind] > *live ? s->shown_allocated[kind] - *live : 0;
    if (*freed < least) *freed = least;
    if (*freed < s->shown_freed[kind]) *freed = s->shown_freed[kind];
    if (*freed + *live > most) *live = most > *freed ? most - *freed : 0;
    *allocated = *freed + *live;
    raise_to(&s->allocator->shown_allocated[kind], *allocated);
    raise_to(&s->allocator->shown_freed[kind], *freed);
}

bool ts_kind_of_class(uint32_t cls, uint32_t *kind) {
    *kind = cls == SLAB_CLASS_SCOPE ? TS_COUNT_SCOPE : cls == SLAB_CLASS_SPAN ? TS_COUNT_SPAN : cls;
    return *kind < TS_COUNT_KINDS && (cls < TS_CLASSES || cls >= SLAB_CLASS_SPAN);
}

/* Both looks miss an object that is collected between them, or that went with its epoch before it was collected. So a
   figure that was shown once stays. By kind, so that kinds sum up to the whole. */
static uint64_t foreign_frees(const ts_snapshot *s, unsigned k, uint64_t pending) {
    uint64_t n = s->count[k].foreign_frees + pending;
    if (n < s->shown_foreign[k]) n = s->shown_foreign[k];
    raise_to(&s->allocator->shown_foreign[k], n);
    return n;
}

/* What frees and ends do to slabs is not counted there, where it would cost them something, but known by a
   difference: of the slabs that were ever so, those that are so no more. `all` was read first, so it is at most what
   is true by now; it is shown no lower than before. An epoch that could not be read would be missing in `rest`. */
static uint64_t rising(const ts_snapshot *s, _Atomic uint64_t *shown, uint64_t all, uint64_t rest) {
    if (all > rest && !s->sums.unread) raise_to(shown, all - rest);
    return ts_least(ts_load_relaxed(shown), all); /* another thread may have shown what was true later */
}
static uint64_t recycled(const ts_snapshot *s, unsigned k) {
    if (k == TS_COUNT_SPAN) return 0;
    return rising(s, &s->allocator->shown_recycled[k], s->count[k].new_slab_count, s->sums.kind[k].slabs);
}
static uint64_t unfilled(const ts_snapshot *s, unsigned k) {
    if (k >= TS_CLASSES) return 0;
    return rising(s, &s->allocator->shown_unfilled[k], s->count[k].list_move_partial_to_full, s->sums.full[k]);
}

/* Bytes of the units that are cut, but for the pieces that epochs have. They are in use while any epoch has one. */
static uint64_t pieces_used(const ts_snapshot *s) { return s->sums.kind[TS_COUNT_SCOPE].pieces * TS_PIECE_BYTES; }
static uint64_t cut_rest(const ts_snapshot *s) {
    uint64_t cut = ts_load_relaxed(&s->allocator->cut_units) * TS_UNIT_BYTES;
    return cut - ts_least(pieces_used(s), cut);
}

static void add_kind(const ts_snapshot *s, unsigned k, SlabClassStats *out) {
    const ts_tally *t = &s->sums.kind[k];
    uint64_t live = t->allocated - t->freed, bytes = t->bytes_allocated - ts_least(t->bytes_freed, t->bytes_allocated);
    uint64_t pending = ts_least(s->sums.pending[k], live);
    out->live_bytes +=
        k < TS_CLASSES ? (live - pending) * ts_class_bytes[k] : bytes - ts_least(s->sums.pending_bytes[k], bytes);
    out->allocated_objects_total += t->allocated;
    out->freed_objects_total += t->freed + pending;
    out->committed_bytes += ts_tally_bytes(t);
    if (k == TS_COUNT_SCOPE && pieces_used(s)) out->committed_bytes += cut_rest(s);
    out->total_partial_slabs += s->sums.partial[k];
    out->total_full_slabs += s->sums.full[k];
    out->slow_path_hits += s->count[k].slow_path_hits;
    out->new_slab_count += s->count[k].new_slab_count;
    out->slow_path_cache_miss += s->count[k].slow_path_cache_miss;
    out->list_move_partial_to_full += s->count[k].list_move_partial_to_full;
    out->list_move_full_to_partial += unfilled(s, k);
    out->current_partial_null += s->count[k].current_partial_null;
    out->current_partial_full += s->count[k].current_partial_full;
    out->empty_slab_recycled += recycled(s, k);
    out->foreign_frees += foreign_frees(s, k, pending);
    if (k != TS_COUNT_SPAN) return;
    uint64_t spans = t->allocated;
    out->slow_path_hits += spans;
    out->new_slab_count += spans;
    out->slow_path_cache_miss += ts_load_relaxed(&s->allocator->span_miss);
}

bool ts_snapshot_class(const ts_snapshot *s, uint32_t cls, SlabClassStats *out) {
    const ts_allocator *a = s->allocator;
    uint32_t kind = TS_COUNT_KINDS;
    if (cls != SLAB_ALL_CLASSES && !ts_kind_of_class(cls, &kind)) return false;
    memset(out, 0, sizeof *out);
    out->version = SLAB_STATS_VERSION;
    out->class_index = cls;
    out->object_size = kind < TS_CLASSES ? ts_class_bytes[kind] : 0;
    for (unsigned k = 0; k < TS_COUNT_KINDS; k++)
        if (kind == TS_COUNT_KINDS || kind == k) add_kind(s, k, out);
    out->live_objects = out->allocated_objects_total - out->freed_objects_total;
    show(s, kind, &out->allocated_objects_total, &out->freed_objects_total, &out->live_objects);
    out->slow_path_epoch_closed = s->refused;
    out->empty_slab_overflowed = ts_load_relaxed(&a->overflowed);
    out->madvise_calls = ts_load_relaxed(&a->madvise_calls);
    out->madvise_bytes = ts_load_relaxed(&a->madvise_bytes);
    out->madvise_failures = ts_load_relaxed(&a->madvise_failures);
    out->epoch_close_calls = ts_load_relaxed(&a->close_calls);
    out->epoch_close_scanned_slabs = ts_load_relaxed(&a->close_scanned);
    out->epoch_close_recycled_slabs = ts_load_relaxed(&a->close_recycled);
    out->epoch_close_total_ns = ts_load_relaxed(&a->close_ns);
    out->lock_fast_acquire = ts_load_relaxed(&a->lock.fast_acquired) + ts_load_relaxed(&a->retained_lock.fast_acquired);
    out->lock_contended = ts_load_relaxed(&a->lock.contended) + ts_load_relaxed(&a->retained_lock.contended);
    out->foreign_free_cas_retries = ts_load_relaxed(&a->cas_retries);
    out->rejected_frees_total = ts_load_relaxed(&a->rejected_frees);
    out->cache_size = s->retained_units;
    out->cache_capacity = cache_capacity(a);
    uint64_t all = out->empty_slab_recycled + out->empty_slab_overflowed;
    out->recycle_rate_pct = all ? 100.0 * (double)out->empty_slab_recycled / (double)all : 0.0;
    return true;
}

/* The figures that classes have, too, are the same fields one behind the other in both structures
   (unit/observe/conservation_test.c). */
#define SHARED offsetof(SlabClassStats, slow_path_hits)
#define SHARED_IN_GLOBAL offsetof(SlabGlobalStats, slow_path_hits)
#define SHARED_BYTES (sizeof(SlabClassStats) - SHARED)

void ts_snapshot_global(const ts_snapshot *s, SlabGlobalStats *out, bool measure) {
    const ts_allocator *a = s->allocator;
    SlabClassStats c;
    memset(out, 0, sizeof *out);
    (void)ts_snapshot_class(s, SLAB_ALL_CLASSES, &c);
    out->version = SLAB_STATS_VERSION;
    out->class_count = TS_CLASSES;
    out->current_epoch = ts_load_acquire(&a->current_epoch);
    out->active_epoch_count = s->active;
    out->closing_epoch_count = s->closing;
    memcpy((char *)out + SHARED_IN_GLOBAL, (const char *)&c + SHARED, SHARED_BYTES);
    out->committed_bytes = ts_load_relaxed(&a->committed_units) * TS_UNIT_BYTES;
    out->resident_bytes = measure ? ts_os->resident_bytes() : 0;
    out->metadata_bytes = ts_region_metadata_bytes();
    out->reserved_bytes = ts_load_relaxed(&ts_region.reserved_bytes);
    out->region_bytes = ts_part_bytes(TS_NORMAL, ts_region_part_end(TS_NORMAL));
    out->region_used_bytes = ts_part_bytes(TS_NORMAL, ts_pool_used(TS_NORMAL));
    out->budget_bytes = ts_load_relaxed(&a->budget_bytes);
    out->left_bytes = s->left_units * TS_UNIT_BYTES;
    out->retained_bytes = c.cache_size * TS_UNIT_BYTES + (pieces_used(s) ? 0 : cut_rest(s)) + out->left_bytes;
    out->epoch_left_total = ts_load_relaxed(&a->left);
    out->stack_samples_dropped = ts_load_relaxed(&a->stack_drops);
    out->stack_samples_taken = ts_load_relaxed(&a->stack_samples);
    out->process_lock_waits = ts_load_relaxed(&ts_lock_waits);
    out->allocation_failures_total = ts_load_relaxed(&a->allocation_failures);
}
