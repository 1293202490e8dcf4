/* Filling the structures of tslab/stats.h from the counters of blocks, shares and allocators. */
#include "stats/snapshot.h"

#include "epoch/sample.h"
#include "os/os.h"

#include <string.h>

/* Sums over the allocator's shares. A share lives as long as its allocator; the list grows at its head. */
static uint64_t share_sum(ts_allocator *a, uint32_t kind, size_t offset) {
    uint64_t sum = 0;
    unsigned from = kind == UINT32_MAX ? 0 : kind, to = kind == UINT32_MAX ? TS_COUNT_KINDS : kind + 1;
    ts_lock_acquire(&a->lock);
    for (const ts_share *s = a->shares; s; s = s->allocator_next) {
        for (unsigned k = from; k < to; k++) {
            const char *at = (const char *)&s->count[k] + offset;
            sum += ts_load_relaxed((const _Atomic uint64_t *)(const void *)at);
        }
    }
    ts_lock_release(&a->lock);
    return sum;
}
#define SHARE_SUM(a, kind, member) share_sum((a), (kind), offsetof(ts_counters, member))

static uint64_t refused(ts_allocator *a) {
    uint64_t sum = 0;
    ts_lock_acquire(&a->lock);
    for (const ts_share *s = a->shares; s; s = s->allocator_next) sum += ts_load_relaxed(&s->refused_closed);
    ts_lock_release(&a->lock);
    return sum;
}

typedef struct totals {
    ts_tally tally;
    uint64_t partial, full, active, closing;
} totals;

static void add_tally(ts_tally *to, ts_tally t) {
    to->allocated += t.allocated;
    to->freed += t.freed;
    to->bytes_allocated += t.bytes_allocated;
    to->bytes_freed += t.bytes_freed;
    to->slabs += t.slabs;
}

/* A scope block's full slabs are all but its current one. */
static void add_block(totals *t, const ts_block *b, uint32_t kind) {
    ts_tally tally = ts_block_tally(b, kind);
    add_tally(&t->tally, tally);
    if (b->scope) {
        bool current = ts_load_relaxed(&((const ts_scope_block *)(const void *)b)->current) != 0;
        t->partial += current && tally.slabs ? 1 : 0;
        t->full += tally.slabs - (current && tally.slabs ? 1 : 0);
        return;
    }
    const ts_churn_block *c = (const ts_churn_block *)(const void *)b;
    unsigned from = kind == UINT32_MAX ? 0 : kind, to = kind == UINT32_MAX ? TS_CLASSES : kind + 1;
    for (unsigned i = from; i < to && i < TS_CLASSES; i++) {
        uint64_t slabs = ts_load_relaxed(&c->bin[i].slabs), full = ts_load_relaxed(&c->bin[i].full);
        t->full += full;
        t->partial += slabs - full;
    }
}

static void add_spans(totals *t, const ts_epoch *e) {
    t->tally.allocated += ts_load_relaxed(&e->span_allocated);
    t->tally.freed += ts_load_relaxed(&e->span_freed);
    t->tally.bytes_allocated += ts_load_relaxed(&e->span_bytes_allocated);
    t->tally.bytes_freed += ts_load_relaxed(&e->span_bytes_freed);
    t->tally.slabs += ts_load_relaxed(&e->span_units);
    t->full += ts_load_relaxed(&e->span_units);
}

/* Caller has the epoch's lock. */
static void add_epoch(totals *t, const ts_epoch *e, uint32_t kind) {
    if (kind != TS_COUNT_SPAN)
        for (const ts_block *b = e->blocks; b; b = b->epoch_next) add_block(t, b, kind);
}

static totals open_totals(ts_allocator *a, uint32_t kind) {
    totals t;
    memset(&t, 0, sizeof t);
    uint32_t high = ts_table_high(&ts_epochs);
    for (uint32_t i = 1; i < high; i++) {
        ts_epoch *e = ts_table_at(&ts_epochs, i);
        if (ts_load_acquire(&e->entry.id) == 0 || ts_load_relaxed(&e->allocator) != a) continue;
        ts_lock_acquire(ts_epoch_lock(e));
        if (ts_load_relaxed(&e->entry.id) != 0 && ts_load_relaxed(&e->allocator) == a) {
            if (ts_load_relaxed(&e->state) == EPOCH_ACTIVE)
                t.active++;
            else
                t.closing++;
            add_epoch(&t, e, kind);
        }
        ts_lock_release(ts_epoch_lock(e));
    }
    if (kind == TS_COUNT_SPAN || kind == UINT32_MAX) {
        t.tally.allocated += ts_load_relaxed(&a->span_allocated);
        t.tally.freed += ts_load_relaxed(&a->span_freed);
        t.tally.bytes_allocated += ts_load_relaxed(&a->span_bytes_allocated);
        t.tally.bytes_freed += ts_load_relaxed(&a->span_bytes_freed);
        t.tally.slabs += ts_load_relaxed(&a->span_units);
        t.full += ts_load_relaxed(&a->span_units);
    }
    t.tally.allocated += SHARE_SUM(a, kind, allocated);
    t.tally.freed += SHARE_SUM(a, kind, freed);
    t.tally.bytes_allocated += SHARE_SUM(a, kind, bytes_allocated);
    t.tally.bytes_freed += SHARE_SUM(a, kind, bytes_freed);
    return t;
}

static uint64_t cache_capacity(const ts_allocator *a) {
    switch (a->settings.reclaim_policy) {
    case SLAB_RECLAIM_KEEP: return UINT64_MAX;
    case SLAB_RECLAIM_AT_ONCE: return 0;
    default: return a->settings.retain_bytes / TS_UNIT_BYTES;
    }
}

static void fill_class(ts_allocator *a, uint32_t kind, const totals *t, SlabClassStats *out) {
    uint64_t live_bytes = t->tally.bytes_allocated - t->tally.bytes_freed;
    out->slow_path_hits = SHARE_SUM(a, kind, slow_path_hits);
    out->new_slab_count = SHARE_SUM(a, kind, new_slab_count);
    out->slow_path_cache_miss = SHARE_SUM(a, kind, slow_path_cache_miss);
    if (kind == TS_COUNT_SPAN || kind == UINT32_MAX) {
        uint64_t spans = ts_load_relaxed(&a->span_new);
        out->slow_path_hits += spans;
        out->new_slab_count += spans;
        out->slow_path_cache_miss += ts_load_relaxed(&a->span_miss);
    }
    out->slow_path_epoch_closed = refused(a);
    out->list_move_partial_to_full = SHARE_SUM(a, kind, list_move_partial_to_full);
    out->list_move_full_to_partial = SHARE_SUM(a, kind, list_move_full_to_partial);
    out->current_partial_null = SHARE_SUM(a, kind, current_partial_null);
    out->current_partial_full = SHARE_SUM(a, kind, current_partial_full);
    out->empty_slab_recycled = SHARE_SUM(a, kind, empty_slab_recycled);
    out->empty_slab_overflowed = ts_load_relaxed(&a->overflowed);
    out->madvise_calls = ts_load_relaxed(&a->madvise_calls);
    out->madvise_bytes = ts_load_relaxed(&a->madvise_bytes);
    out->madvise_failures = ts_load_relaxed(&a->madvise_failures);
    out->epoch_close_calls = ts_load_relaxed(&a->close_calls);
    out->epoch_close_scanned_slabs = ts_load_relaxed(&a->close_scanned);
    out->epoch_close_recycled_slabs = ts_load_relaxed(&a->close_recycled);
    out->epoch_close_total_ns = ts_load_relaxed(&a->close_ns);
    out->lock_fast_acquire = ts_load_relaxed(&a->lock.fast_acquired) + ts_load_relaxed(&a->warm_lock.fast_acquired);
    out->lock_contended = ts_load_relaxed(&a->lock.contended) + ts_load_relaxed(&a->warm_lock.contended);
    out->foreign_free_cas_retries = ts_load_relaxed(&a->cas_retries);
    out->foreign_frees = SHARE_SUM(a, kind, foreign_frees);
    out->live_objects = t->tally.allocated - t->tally.freed;
    out->live_bytes = live_bytes;
    out->committed_bytes = t->tally.slabs * TS_UNIT_BYTES;
    out->allocated_objects_total = t->tally.allocated;
    out->freed_objects_total = t->tally.freed;
    out->rejected_frees_total = ts_load_relaxed(&a->rejected_frees);
    out->cache_size = ts_allocator_warm_units(a);
    out->cache_capacity = cache_capacity(a);
    out->total_partial_slabs = t->partial;
    out->total_full_slabs = t->full;
    uint64_t all = out->empty_slab_recycled + out->empty_slab_overflowed;
    out->recycle_rate_pct = all ? 100.0 * (double)out->empty_slab_recycled / (double)all : 0.0;
}

/* Public class number to kind. false: there is none such. */
static bool kind_of(uint32_t cls, uint32_t *kind) {
    *kind = cls == SLAB_CLASS_SCOPE ? TS_COUNT_SCOPE : cls == SLAB_CLASS_SPAN ? TS_COUNT_SPAN : cls;
    return *kind < TS_COUNT_KINDS && (cls < TS_CLASSES || cls >= SLAB_CLASS_SPAN);
}

bool ts_snapshot_class(ts_allocator *a, uint32_t cls, SlabClassStats *out) {
    uint32_t kind = UINT32_MAX;
    if (cls != SLAB_ALL_CLASSES && !kind_of(cls, &kind)) return false;
    memset(out, 0, sizeof *out);
    out->version = SLAB_STATS_VERSION;
    out->class_index = cls;
    out->object_size = kind < TS_CLASSES ? ts_class_bytes[kind] : 0;
    totals t = open_totals(a, kind);
    fill_class(a, kind, &t, out);
    return true;
}

void ts_snapshot_global(ts_allocator *a, SlabGlobalStats *out) {
    SlabClassStats c;
    memset(&c, 0, sizeof c);
    memset(out, 0, sizeof *out);
    totals t = open_totals(a, UINT32_MAX);
    fill_class(a, UINT32_MAX, &t, &c);
    out->version = SLAB_STATS_VERSION;
    out->class_count = TS_CLASSES;
    out->current_epoch = ts_load_acquire(&a->current_epoch);
    out->active_epoch_count = t.active;
    out->closing_epoch_count = t.closing;
#define X(name) out->name = c.name;
    TS_STATS_SHARED(X)
#undef X
    out->committed_bytes = ts_load_relaxed(&a->committed_units) * TS_UNIT_BYTES;
    out->resident_bytes = ts_os->resident_bytes();
    out->metadata_bytes = ts_region_metadata_bytes();
    out->reserved_bytes = ts_region.reserved_bytes;
    out->budget_bytes = ts_load_relaxed(&a->budget_bytes);
    out->retained_bytes = c.cache_size * TS_UNIT_BYTES;
}

/* Slabs that hold no live object, by their state words: a walk of the epoch's slabs, which needs the heaps held one
   by one. Caller has pinned the epoch. */
static uint64_t count_reclaimable(ts_block *blocks, uint32_t kind) {
    uint64_t n = 0;
    for (ts_block *b = blocks; b; b = b->epoch_next) {
        ts_heap *heap = ts_load_acquire(&b->heap);
        if (!ts_heap_hold(heap)) continue;
        if (ts_load_relaxed(&b->heap) != heap) { /* adopted in between */
            ts_heap_drop(heap);
            continue;
        }
        ts_foreign_drain(heap);
        if (b->scope) {
            if (kind == UINT32_MAX || kind == TS_COUNT_SCOPE)
                for (uint32_t u = ts_scope(b)->head; u; u = ts_slab_at(u)->next) n += ts_scope_count_live(u) == 0;
        } else {
            for (unsigned i = 0; i < TS_CLASSES; i++) {
                if (kind != UINT32_MAX && kind != i) continue;
                for (uint32_t u = ts_churn(b)->bin[i].head; u; u = ts_slab_at(u)->next) n += ts_slab_count_live(u) == 0;
            }
        }
        ts_heap_drop(heap);
    }
    return n;
}

bool ts_snapshot_epoch(ts_allocator *a, uint32_t cls, EpochId id, SlabEpochStats *out) {
    uint32_t kind = UINT32_MAX;
    if (cls != SLAB_ALL_CLASSES && !kind_of(cls, &kind)) return false;
    ts_block *blocks;
    ts_epoch *e = ts_epoch_pin(a, id, &blocks);
    if (!e) return false;
    totals t;
    memset(&t, 0, sizeof t);
    memset(out, 0, sizeof *out);
    uint64_t reclaimable = count_reclaimable(blocks, kind);
    ts_lock_acquire(ts_epoch_lock(e));
    add_epoch(&t, e, kind);
    if (kind == TS_COUNT_SPAN || kind == UINT32_MAX) add_spans(&t, e);
    out->version = SLAB_STATS_VERSION;
    out->class_index = cls;
    out->object_size = kind < TS_CLASSES ? ts_class_bytes[kind] : 0;
    out->epoch_id = id;
    out->epoch_era = id >> ts_epochs.index_bits;
    out->state = (int32_t)ts_load_relaxed(&e->state);
    out->flags = e->flags;
    memcpy(out->label, e->label, sizeof out->label);
    out->open_since_ns = ts_load_relaxed(&e->open_since_ns);
    uint64_t now = ts_os->wall_ns();
    out->age_ns = now > out->open_since_ns ? now - out->open_since_ns : 0;
    out->live_objects = out->alloc_count = t.tally.allocated - t.tally.freed;
    out->live_bytes = t.tally.bytes_allocated - t.tally.bytes_freed;
    out->allocated_objects_total = t.tally.allocated;
    out->freed_objects_total = t.tally.freed;
    out->slab_count = t.tally.slabs;
    out->partial_slab_count = t.partial;
    out->full_slab_count = t.full;
    out->estimated_rss_bytes = t.tally.slabs * TS_UNIT_BYTES;
    out->reclaimable_slab_count = reclaimable;
    out->reclaimable_bytes = reclaimable * TS_UNIT_BYTES;
    out->rss_before_close = e->rss_before;
    out->rss_after_close = e->rss_after;
    ts_lock_release(ts_epoch_lock(e));
    ts_epoch_unpin(e);
    ts_epoch_settle();
    return true;
}

/* The `capacity` oldest, in order: a heap of the oldest so far with the youngest on top, then sorted. Ties go by id. */
static bool older(uint64_t since_a, EpochId a, uint64_t since_b, EpochId b) {
    return since_a != since_b ? since_a < since_b : a < b;
}

static uint64_t since(EpochId id) {
    const ts_epoch *e = ts_table_at(&ts_epochs, (uint32_t)(id & (((uint64_t)1 << ts_epochs.index_bits) - 1)));
    return ts_load_relaxed(&e->open_since_ns);
}

static void sift_down(EpochId *a, size_t i, size_t n) {
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= n) return;
        if (c + 1 < n && older(since(a[c]), a[c], since(a[c + 1]), a[c + 1])) c++;
        if (!older(since(a[i]), a[i], since(a[c]), a[c])) return;
        EpochId t = a[i];
        a[i] = a[c];
        a[c] = t;
        i = c;
    }
}

size_t ts_snapshot_epochs(ts_allocator *a, EpochId *out, size_t capacity) {
    size_t found = 0, kept = 0;
    uint32_t high = ts_table_high(&ts_epochs);
    for (uint32_t i = 1; i < high; i++) {
        ts_epoch *e = ts_table_at(&ts_epochs, i);
        uint64_t id = ts_load_acquire(&e->entry.id);
        if (id == 0 || ts_load_relaxed(&e->allocator) != a) continue;
        if (ts_load_relaxed(&e->state) == EPOCH_CLOSING) {
            ts_epoch_finish(e, id);
            if (ts_load_acquire(&e->entry.id) != id) continue;
        }
        found++;
        if (kept < capacity) {
            out[kept++] = id;
            if (kept == capacity)
                for (size_t k = kept / 2; k-- > 0;) sift_down(out, k, kept);
        } else if (capacity > 0 && older(since(id), id, since(out[0]), out[0])) {
            out[0] = id;
            sift_down(out, 0, kept);
        }
    }
    if (kept < capacity)
        for (size_t k = kept / 2; k-- > 0;) sift_down(out, k, kept);
    for (size_t n = kept; n > 1; n--) {
        EpochId t = out[0];
        out[0] = out[n - 1];
        out[n - 1] = t;
        sift_down(out, 0, n - 1);
    }
    return found;
}

SlabThreadStats ts_snapshot_thread(void) {
    SlabThreadStats out;
    memset(&out, 0, sizeof out);
    out.version = SLAB_STATS_VERSION;
    out.sample_rate = ts_load_relaxed(&ts_sample_rate);
    const ts_heap *heap = ts_thread.heap;
    if (!heap) return out;
    const uint64_t *a = &heap->sample[TS_SAMPLE_ALLOC], *f = &heap->sample[TS_SAMPLE_FREE];
    out.alloc_samples = a[TS_SAMPLE_COUNT];
    out.alloc_wall_ns_sum = a[TS_SAMPLE_WALL];
    out.alloc_cpu_ns_sum = a[TS_SAMPLE_CPU];
    out.alloc_wait_ns_sum = a[TS_SAMPLE_WAIT];
    out.alloc_wall_ns_max = a[TS_SAMPLE_WALL_MAX];
    out.alloc_cpu_ns_max = a[TS_SAMPLE_CPU_MAX];
    out.free_samples = f[TS_SAMPLE_COUNT];
    out.free_wall_ns_sum = f[TS_SAMPLE_WALL];
    out.free_cpu_ns_sum = f[TS_SAMPLE_CPU];
    out.free_wait_ns_sum = f[TS_SAMPLE_WAIT];
    out.free_wall_ns_max = f[TS_SAMPLE_WALL_MAX];
    out.free_cpu_ns_max = f[TS_SAMPLE_CPU_MAX];
    return out;
}
