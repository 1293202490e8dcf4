#include "walk/check_parts.h"

#include "base/base.h"
#include "domain/domain.h"
#include "domain/tree.h"
#include "epoch/epoch.h"
#include "os/os.h"
#include "slab/slab.h"
#include "spill/spill.h"
#include "supply/supply.h"

#include <string.h>

/* All of its units are the object's, or it lies in whole pages between its guards. */
static bool span_fits(const ts_slab *slab) {
    uint64_t units = slab->u.span.units, guard = slab->u.span.guard, bytes = ts_load_relaxed(&slab->u.span.bytes);
    uint32_t unit = ts_slab_unit(slab);
    if (guard == 0) return units > 0 && bytes == ts_units_bytes(unit, units);
    return bytes > 0 && bytes % ts_os_page_bytes() == 0 && bytes < ts_units_bytes(unit, units - guard);
}

static bool check_spans(ts_check *check, const ts_epoch *epoch, uint32_t index) {
    uint64_t id = ts_load_relaxed(&epoch->record.id), units = 0, bytes = 0, count = 0;
    uint64_t newer = ts_load_relaxed(&epoch->span_allocated) + 1;
    uint32_t before = 0;
    for (uint32_t unit = epoch->spans; unit; unit = ts_slab_at(unit)->next) {
        if (!ts_check_claim_unit(check, unit, TS_USE_SPAN)) return false;
        const ts_slab *slab = ts_slab_at(unit);
        uint64_t word = ts_load_relaxed(ts_unit_word(unit));
        REQUIRE(word == (TS_UNIT_SPAN | ts_load_relaxed(&slab->tag)), "span at unit %u: its UNIT word is %#llx", unit,
                (unsigned long long)word);
        REQUIRE(ts_load_relaxed(&slab->u.span.epoch) == id && ts_load_relaxed(&slab->queue_next) == index,
                "span at unit %u is of another epoch", unit);
        REQUIRE(slab->prev == before, "span at unit %u: prev is %u, it comes after %u", unit, slab->prev, before);
        REQUIRE(ts_slab_kind(slab) == TS_KIND_SPAN && span_fits(slab), "span at unit %u: %u units, %llu bytes", unit,
                slab->u.span.units, (unsigned long long)ts_load_relaxed(&slab->u.span.bytes));
        REQUIRE(ts_span_number(slab) < newer, "span at unit %u: its number is no less than of the one before", unit);
        newer = ts_span_number(slab);
        uint32_t first = unit - slab->u.span.guard;
        for (uint32_t u = first; u < first + slab->u.span.units; u++) {
            if (u == unit) continue;
            if (!ts_check_claim_unit(check, u, TS_USE_SPAN)) return false;
            REQUIRE(ts_load_relaxed(ts_unit_word(u)) == 0, "unit %u is inside of a span, and has an owner", u);
        }
        units += ts_span_weight(slab);
        bytes += ts_load_relaxed(&slab->u.span.bytes);
        count++;
        before = unit;
    }
    REQUIRE(units == ts_load_relaxed(&epoch->span_units) &&
                count == ts_load_relaxed(&epoch->span_allocated) - ts_load_relaxed(&epoch->span_freed) &&
                bytes == ts_load_relaxed(&epoch->span_bytes_allocated) - ts_load_relaxed(&epoch->span_bytes_freed),
            "epoch %#llx: %llu spans of %llu units in its list, other counters", (unsigned long long)id,
            (unsigned long long)count, (unsigned long long)units);
    ts_check_sums *sums = &check->allocator[ts_load_relaxed(&epoch->allocator)->record.index];
    sums->units += units;
    sums->live += count;
    check->spans += count;
    check->live += count;
    return true;
}

/* Of an epoch that is not over. Its lent extents are in its blocks and its list of spans. */
static bool check_spill(ts_check *check, const ts_epoch *epoch) {
    const ts_spill *spill = epoch->spill;
    if (!spill) return true;
    ts_check_sums *sums = &check->allocator[spill->allocator->record.index];
    sums->spills++;
    if (spill->state == TS_SPILL_AWAY) sums->away_units += spill->units;
    for (size_t i = 0; i < spill->extents; i++) {
        const ts_spill_extent *extent = &spill->extent[i];
        uint64_t word = ts_load_relaxed(ts_unit_word(extent->unit));
        bool lent = ts_is_lent(extent->unit), span = extent->is_span;
        REQUIRE(lent == (word != 0), "unit %u: lent %d, and its word is %#llx", extent->unit, lent,
                (unsigned long long)word);
        REQUIRE(!lent || span || (word & TS_UNIT_FOREIGN), "unit %u: a slab that is lent, and FOREIGN is off",
                extent->unit);
        for (uint32_t u = extent->unit; !lent && u < extent->unit + extent->units; u++)
            if (!ts_check_claim_unit(check, u, TS_USE_SPAN)) return false;
        if (!lent) sums->units += ts_units_weight(extent->unit, extent->units);
    }
    return true;
}

static bool check_epoch_block(ts_check *check, const ts_epoch *epoch, uint64_t id, const ts_block *b) {
    bool active = ts_load_relaxed(&epoch->state) == EPOCH_ACTIVE;
    uint64_t key = ts_load_relaxed(&b->key), open_id = ts_load_relaxed(&b->open_id);
    const ts_heap *heap = ts_load_relaxed(&b->heap);
    REQUIRE(ts_load_relaxed(&b->epoch) == epoch, "epoch %#llx: has the block of another", (unsigned long long)id);
    bool scope = (ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE) != 0;
    REQUIRE((b->scope != 0) == scope || (b->scope && epoch->starts_small && b->slow),
            "epoch %#llx: a block of the other kind", (unsigned long long)id);
    REQUIRE((key & TS_UNIT_ERA_MASK) == ts_load_relaxed(&b->era), "epoch %#llx: a block of its list is dead",
            (unsigned long long)id);
    REQUIRE(open_id == (active ? id : TS_ID_NEVER), "epoch %#llx: a block is open to %#llx", (unsigned long long)id,
            (unsigned long long)open_id);
    if (ts_load_relaxed(&heap->state) == TS_HEAP_LOST) return true;
    REQUIRE(key >> TS_KEY_SHARE_SHIFT == 0 || (ts_load_relaxed(&heap->state) == TS_HEAP_LIVE && active &&
                                               key >> TS_KEY_SHARE_SHIFT == ts_line_of(b->share)),
            "epoch %#llx: a block is open to the fast paths of a thread that is not its owner", (unsigned long long)id);
    REQUIRE(b->scope || ts_load_relaxed(&b->rolling) == 0 ||
                (active && ts_load_relaxed(&b->rolling) == b->share->token),
            "epoch %#llx: a block says it is of a rolling epoch", (unsigned long long)id);
    REQUIRE(!active || b->closing == TS_OPEN, "epoch %#llx: ACTIVE, and a block is closing", (unsigned long long)id);
    REQUIRE(!ts_load_relaxed(&b->flushed) || b->closing == TS_CLOSING,
            "epoch %#llx: a block was flushed, and is not closing", (unsigned long long)id);
    return true;
}

static bool is_lost(const ts_heap *heap) { return ts_load_relaxed(&heap->state) == TS_HEAP_LOST; }

/* The words that ts_epoch_clean would write are there. */
static bool is_clean(const ts_epoch *e) {
    return ts_load_relaxed(&e->label[0]) == 0 && ts_load_relaxed(&e->closed_at_ns) == 0 &&
           !ts_load_relaxed(&e->blocks) && !e->dying && !e->spans && !e->pins && !e->destroyed && !e->has_more &&
           !e->has_label &&
           (ts_load_relaxed(&e->span_allocated) | ts_load_relaxed(&e->span_freed) |
            ts_load_relaxed(&e->span_bytes_allocated) | ts_load_relaxed(&e->span_bytes_freed) |
            ts_load_relaxed(&e->span_units) | ts_load_relaxed(&e->rss_before_kib) |
            ts_load_relaxed(&e->rss_after_kib)) == 0;
}

bool ts_check_epochs(ts_check *check, bool forked, uint64_t *blocks) {
    uint64_t listed = 0;
    uint32_t high = ts_table_high(&ts_epochs);
    for (uint32_t i = 1; i < high; i++) {
        const ts_epoch *e = ts_table_at(&ts_epochs, i);
        uint64_t id = ts_load_relaxed(&e->record.id);
        REQUIRE(e->pins == (e->spill != NULL) && e->dying == NULL, "epoch entry %u is pinned at a quiet point", i);
        /* One that a vanished thread was about to show is nobody's. */
        REQUIRE(forked || id != 0 || !e->clean || is_clean(e), "epoch entry %u says it is clean", i);
        if (id == 0) continue;
        REQUIRE(e->has_more || (!e->pins && !e->spans && !ts_load_relaxed(&e->account) &&
                                ts_load_relaxed(&e->span_allocated) == 0),
                "epoch %#llx: has more than it says", (unsigned long long)id);
        REQUIRE(e->has_label == (ts_load_relaxed(&e->label[0]) != 0), "epoch %#llx: its label", (unsigned long long)id);
        uint32_t state = ts_load_relaxed(&e->state);
        const ts_allocator *a = ts_load_relaxed(&e->allocator);
        REQUIRE(state == EPOCH_ACTIVE || state == EPOCH_CLOSING, "epoch %#llx: state %u", (unsigned long long)id,
                state);
        REQUIRE(a && (forked || ts_load_relaxed(&a->record.id) == ts_load_relaxed(&a->token)),
                "epoch %#llx: its allocator has ended", (unsigned long long)id);
        for (const ts_block *b = e->blocks; b; b = b->epoch_next) {
            /* It was claimed with its heap; a circle ends at the count. */
            REQUIRE(ts_check_in_lines(b) && listed++ <= check->lines, "epoch %#llx: the list of its blocks is broken",
                    (unsigned long long)id);
            *blocks += !is_lost(ts_load_relaxed(&b->heap));
            if (!check_epoch_block(check, e, id, b)) return false;
        }
        if (!check_spans(check, e, i) || !check_spill(check, e)) return false;
    }
    return true;
}

/* Every block that a heap has in use is in the list of its epoch, or dead. (Of a heap that is lost in a fork perhaps
   not.) */
bool ts_check_blocks_listed(ts_check *check, uint64_t listed) {
    uint64_t alive = 0;
    for (const ts_heap *h = ts_heaps(); h; h = h->next)
        for (const ts_block *b = is_lost(h) ? NULL : ts_heap_first_block(h); b; b = ts_heap_next_block(b))
            alive += ts_era(b) == ts_load_relaxed(&b->era);
    REQUIRE(alive == listed, "%llu blocks are alive, the epochs list %llu", (unsigned long long)alive,
            (unsigned long long)listed);
    return true;
}

bool ts_check_domains(ts_check *check, bool forked) {
    uint32_t high = ts_table_high(&ts_domains);
    for (uint32_t i = 1; i < high; i++) {
        const ts_domain *d = ts_table_at(&ts_domains, i);
        if (ts_load_relaxed(&d->record.id) == 0) continue;
        const ts_allocator *a = ts_load_relaxed(&d->allocator);
        REQUIRE(a && (forked || ts_load_relaxed(&a->record.id) == ts_load_relaxed(&a->token)) &&
                    ts_load_relaxed(&d->token) == ts_load_relaxed(&a->token),
                "domain entry %u: its allocator has ended", i);
        REQUIRE(forked || !ts_load_relaxed(&d->busy), "domain entry %u is being ended at a quiet point", i);
        const ts_kin *kin = ts_load_relaxed(&d->kin);
        if (kin && !ts_check_claim_lines(check, kin, sizeof *kin, "kin")) return false;
        REQUIRE(!kin || kin->domain == ts_load_relaxed(&d->record.id), "domain entry %u: its kin are another's", i);
        const char *c = (const char *)ts_load_relaxed(&d->cleanups);
        while (c) {
            if (!ts_check_claim_lines(check, c, sizeof(ts_domain_scope), "a cleanup")) return false;
            const char *next;
            memcpy(&next, c, sizeof next); /* its first member is the next */
            c = next;
        }
    }
    return true;
}
