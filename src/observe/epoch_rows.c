/* The rows of epochs in statistics: the holdings of one, its reclaimable slabs, the oldest epochs. */
#include "base/base.h"
#include "epoch/epoch.h"
#include "observe/snapshot.h"
#include "observe/top.h"
#include "os/os.h"
#include "region/region.h"

#include <string.h>

static void row_add_kind(const ts_sums *s, unsigned k, SlabEpochStats *out) {
    const ts_tally *t = &s->kind[k];
    out->allocated_objects_total += t->allocated;
    out->freed_objects_total += t->freed;
    out->live_bytes += t->bytes_allocated - ts_least(t->bytes_freed, t->bytes_allocated);
    out->slab_count += t->slabs;
    out->estimated_rss_bytes +=
        ts_tally_bytes(t) - (out->state == EPOCH_SPILLED ? ts_tally_units(t) * TS_UNIT_BYTES : 0);
    out->partial_slab_count += s->partial[k];
    out->full_slab_count += s->full[k];
}

static void row_finish(SlabEpochStats *out) {
    out->live_objects = out->alloc_count = out->allocated_objects_total - out->freed_objects_total;
}

static void row_begin(SlabEpochStats *out, EpochId id, uint32_t cls, uint32_t state, uint32_t flags) {
    memset(out, 0, sizeof *out);
    out->version = SLAB_STATS_VERSION;
    out->class_index = cls;
    out->epoch_id = id;
    out->epoch_era = id >> ts_epochs.index_bits;
    out->state = (int32_t)state;
    out->flags = flags;
}

void ts_snapshot_epoch_row(const ts_epoch *e, EpochId id, uint32_t state, const ts_sums *sums, uint32_t kind,
                           SlabEpochStats *out) {
    row_begin(out, id, SLAB_ALL_CLASSES, state, ts_load_relaxed(&e->flags));
    ts_epoch_read_label(e, out->label);
    out->open_since_ns = ts_load_relaxed(&e->open_since_ns);
    uint64_t now = ts_os->wall_ns(), closed = ts_load_relaxed(&e->closed_at_ns);
    out->age_ns = now > out->open_since_ns ? now - out->open_since_ns : 0;
    /* 0: it has ended meanwhile, without a close perhaps */
    out->closing_for_ns = state != EPOCH_ACTIVE && closed != 0 && now > closed ? now - closed : 0;
    const ts_account *account = ts_load_acquire(&e->account);
    if (account) {
        const ts_account *parent = ts_load_relaxed(&account->parent);
        out->limit_bytes = ts_load_relaxed(&account->limit_bytes);
        out->limit_failures_total = ts_load_relaxed(&account->failures);
        out->parent_epoch_id = parent ? ts_load_relaxed(&parent->epoch) : EPOCH_NONE;
    }
    out->rss_before_close = (uint64_t)ts_load_relaxed(&e->rss_before_kib) << 10;
    out->rss_after_close = (uint64_t)ts_load_relaxed(&e->rss_after_kib) << 10;
    uint64_t held = 0;
    for (uint64_t left = sums->used; left; left &= left - 1) {
        unsigned k = ts_ctz64(left);
        held += ts_tally_bytes(&sums->kind[k]);
        if (kind == TS_COUNT_KINDS || kind == k) row_add_kind(sums, k, out);
    }
    uint64_t at_close = out->closing_for_ns ? (uint64_t)ts_load_relaxed(&e->closed_kib) << 10 : 0;
    out->returned_bytes = at_close - ts_least(held, at_close);
    row_finish(out);
}

/* cls, object_size: as in other rows. */
static void row_of_past(const ts_past_note *note, uint32_t cls, uint64_t object_size, SlabEpochStats *out) {
    row_begin(out, note->id, cls, EPOCH_CLOSED, note->flags);
    out->object_size = object_size;
    memcpy(out->label, note->label, sizeof out->label);
    out->open_since_ns = note->opened_ns;
    uint64_t now = ts_os->wall_ns(), ended = note->ended_ns;
    out->age_ns = ended ? ended - note->opened_ns : 0;
    out->closing_for_ns = note->closed_ns ? ended - note->closed_ns : 0;
    out->rss_before_close = (uint64_t)note->rss_before_kib << 10;
    out->rss_after_close = (uint64_t)note->rss_after_kib << 10;
    out->returned_bytes = note->returned_bytes;
    uint64_t since = ended ? ended : note->opened_ns;
    out->ended_for_ns = now > since ? now - since : 1; /* 0 says that it has not */
}

unsigned ts_snapshot_ended(ts_allocator *a, SlabEpochStats rows[TS_VIEW_ENDED]) {
    ts_past_note note[TS_VIEW_ENDED];
    unsigned count = ts_past_newest(a, note, TS_VIEW_ENDED);
    for (unsigned i = 0; i < count; i++) row_of_past(&note[i], SLAB_ALL_CLASSES, 0, &rows[i]);
    return count;
}

/* A slab of the row's epoch: whether it is reclaimable, and the frees that are pending there. */
static void row_add_slab(SlabEpochStats *row, const ts_block *block, uint32_t slab, uint64_t word) {
    uint64_t bytes = 0, pending = word & TS_UNIT_FOREIGN ? ts_unit_pending(block, slab, word, &bytes) : 0;
    unsigned live = word & TS_UNIT_SCOPE ? ts_scope_count_live(slab) : ts_slab_count_live(slab);
    if (live <= pending) {
        row->reclaimable_slab_count++;
        row->reclaimable_bytes += ts_slab_bytes(slab);
    }
    row->freed_objects_total += ts_least(pending, row->live_objects);
    row->live_bytes -= ts_least(bytes, row->live_bytes);
    row_finish(row);
}

/* Objects in slabs of mixed sizes that the epoch had when it was counted. */
typedef struct mixed {
    uint64_t objects, bytes;
} mixed;

/* They count in their size class while they live, and as of mixed sizes once they are freed. kind: of the row. What is
   not in `left` was allocated since it was counted. */
static void row_add_sizes(SlabEpochStats *row, const ts_sizes *sizes, uint32_t kind, mixed *left) {
    bool goes = kind == TS_COUNT_SCOPE; /* out of the row, else into it */
    uint64_t *objects = goes ? &row->live_objects : &left->objects, *bytes = goes ? &row->live_bytes : &left->bytes;
    for (uint64_t used = sizes->used; used; used &= used - 1) {
        unsigned k = ts_ctz64(used);
        if (!goes && kind != k) continue;
        uint64_t n = ts_least(sizes->objects[k], *objects), b = ts_least(sizes->bytes[k], *bytes);
        *objects -= n;
        *bytes -= b;
        row->allocated_objects_total += goes ? 0 - n : n;
        if (!goes) row->live_bytes += b;
    }
    row_finish(row);
}

/* The blocks of an epoch, so that a scan of the UNIT words need not look at every block. */
#define KNOWN_BLOCKS 32u
typedef struct known_blocks {
    unsigned count; /* more than KNOWN_BLOCKS: there was no room for all */
    const ts_block *block[KNOWN_BLOCKS];
} known_blocks;

static void know_block(void *arg, const ts_block *b) {
    known_blocks *known = arg;
    if (known->count < KNOWN_BLOCKS) known->block[known->count] = b;
    known->count++;
}

static bool is_known(const known_blocks *known, uint64_t word) {
    const ts_block *block = ts_block_of_word(word); /* of a span something else, which is not looked at */
    for (unsigned i = 0; i < known->count && i < KNOWN_BLOCKS; i++)
        if (known->block[i] == block) return true;
    return known->count > KNOWN_BLOCKS;
}

/* Finds a row by its epoch: open addressing over the rows, by the index of the epoch's entry. */
#define ROW_SLOTS 256u

typedef struct scan {
    uint32_t kind;             /* of slabs; TS_COUNT_KINDS: all */
    bool by_size;              /* slabs of mixed sizes count in the kind, too */
    const known_blocks *known; /* of these blocks; NULL: of all */
    mixed mixed;
    uint64_t left; /* slabs to be found */
} scan;

static void row_scan_slab(SlabEpochStats *row, const ts_block *block, uint32_t slab, uint64_t word, scan *s) {
    uint32_t kind = ts_unit_kind(block, word);
    if (s->kind == TS_COUNT_KINDS || s->kind == kind) row_add_slab(row, block, slab, word);
    if (!s->by_size || kind != TS_COUNT_SCOPE) return;
    ts_sizes sizes;
    ts_unit_sizes(block, slab, word, &sizes);
    row_add_sizes(row, &sizes, s->kind, &s->mixed);
}

/* Adds what the slabs of the rows say, in one pass over the units. */
static void add_slabs(ts_allocator *a, SlabEpochStats *rows, unsigned count, scan *s) {
    uint8_t slot[ROW_SLOTS] = {0}; /* number of the row + 1 */
    for (unsigned i = 0; i < count; i++) {
        unsigned at = ts_table_index(&ts_epochs, rows[i].epoch_id) % ROW_SLOTS;
        while (slot[at]) at = (at + 1) % ROW_SLOTS;
        slot[at] = (uint8_t)(i + 1);
    }
    for (unsigned part = 0; part < TS_PARTS && s->left; part++) {
        uint32_t end = ts_pool_highest(part), first = ts_region.part[part].first_unit;
        for (uint32_t u = first + 1; ts_unit_of(u) < first + end && s->left; u = ts_slab_after(u)) {
            uint64_t word = ts_load_acquire(ts_unit_word(u));
            if (word == 0 || (s->known && !is_known(s->known, word))) continue;
            const ts_block *block = ts_unit_block(a, word);
            const ts_epoch *e = block ? ts_load_relaxed(&block->epoch) : NULL;
            uint32_t kind = e ? ts_unit_kind(block, word) : 0;
            bool wanted = s->kind == TS_COUNT_KINDS || s->kind == kind || (s->by_size && kind == TS_COUNT_SCOPE);
            if (!e || !wanted) continue;
            EpochId id = ts_load_relaxed(&e->record.id);
            unsigned at = e->record.index % ROW_SLOTS;
            while (slot[at] && rows[slot[at] - 1].epoch_id != id) at = (at + 1) % ROW_SLOTS;
            if (!slot[at]) continue;
            row_scan_slab(&rows[slot[at] - 1], block, u, word, s);
            s->left--;
        }
    }
}

void ts_snapshot_epoch_slabs(ts_allocator *a, SlabEpochStats *rows, unsigned count) {
    scan s = {.kind = TS_COUNT_KINDS};
    for (unsigned i = 0; i < count; i++) s.left += rows[i].slab_count;
    add_slabs(a, rows, count, &s);
}

/* What a pass over the slabs looks for, for a row of that kind of the epoch with these sums. */
static scan scan_for(const ts_sums *sums, uint32_t kind, const known_blocks *known, uint64_t slabs) {
    const ts_tally *t = &sums->kind[TS_COUNT_SCOPE];
    scan s = {.kind = kind, .by_size = kind <= TS_COUNT_SCOPE && t->slabs, .known = known};
    s.mixed.objects = t->allocated - ts_least(t->freed, t->allocated);
    s.mixed.bytes = t->bytes_allocated - ts_least(t->bytes_freed, t->bytes_allocated);
    uint64_t spans = sums->kind[TS_COUNT_SPAN].slabs;
    s.left = kind == TS_COUNT_SPAN ? 0 : kind == TS_COUNT_KINDS ? slabs - ts_least(slabs, spans) : slabs;
    if (kind < TS_COUNT_SCOPE) s.left += t->slabs;
    return s;
}

static bool read_live(ts_allocator *a, uint32_t cls, uint32_t kind, EpochId id, SlabEpochStats *out) {
    const ts_epoch *e = ts_epoch_find(a, id);
    ts_sums sums;
    memset(&sums, 0, sizeof sums);
    if (!e || !ts_snapshot_read_epoch(e, id, &sums)) return false;
    SlabEpochStats row;
    ts_snapshot_epoch_row(e, id, ts_epoch_shown_state(e), &sums, kind, &row);
    row.class_index = cls;
    row.object_size = kind < TS_CLASSES ? ts_class_bytes[kind] : 0;
    atomic_thread_fence(memory_order_acquire); /* the counters before the foreign bits */
    known_blocks known = {0};
    if (!ts_epoch_read_blocks(e, id, know_block, &known)) known.count = KNOWN_BLOCKS + 1;
    scan s = scan_for(&sums, kind, &known, row.slab_count);
    add_slabs(a, &row, 1, &s);
    if (ts_load_acquire(&e->record.id) != id) return false;
    *out = row;
    return true;
}

bool ts_snapshot_epoch(ts_allocator *a, uint32_t cls, EpochId id, SlabEpochStats *out) {
    uint32_t kind = TS_COUNT_KINDS;
    ts_past_note note;
    if (cls != SLAB_ALL_CLASSES && !ts_kind_of_class(cls, &kind)) return false;
    if (read_live(a, cls, kind, id, out)) return true;
    atomic_thread_fence(memory_order_acquire); /* a reader that finds the id over finds the record (epoch/past.h) */
    if (!ts_past_find(a, id, &note)) return false;
    row_of_past(&note, cls, kind < TS_CLASSES ? ts_class_bytes[kind] : 0, out);
    return true;
}

/* By its record, which stays: an epoch that has ended since is put anywhere. */
static uint64_t open_since(EpochId id) {
    const ts_epoch *e = ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, id));
    return ts_load_relaxed(&e->open_since_ns);
}

static bool is_older(const void *a, const void *b) {
    EpochId x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    uint64_t since_x = open_since(x), since_y = open_since(y);
    return since_x != since_y ? since_x < since_y : x < y;
}

size_t ts_snapshot_epochs(const ts_allocator *a, EpochId *out, size_t capacity) {
    size_t found = 0;
    ts_top oldest = {out, sizeof *out, capacity, 0, is_older};
    uint32_t i = 1;
    uint64_t id;
    for (const ts_epoch *e; (e = ts_table_next(&ts_epochs, &i, &id)) != NULL;) {
        if (ts_load_relaxed(&e->allocator) != a) continue;
        /* Not ended here: that takes locks, and this may be a signal handler in the middle of a call that changes the
           same. */
        if (ts_epoch_is_over(e, id)) continue;
        found++;
        if (ts_top_takes(&oldest, &id)) ts_top_put(&oldest, &id);
    }
    ts_top_sort(&oldest);
    return found;
}
