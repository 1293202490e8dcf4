#include "epoch/check.h"

#if TSLAB_ASSERT >= 3

#include "base/bits.h"
#include "epoch/domain.h"
#include "epoch/epoch.h"
#include "epoch/spill.h"
#include "epoch/tree.h"
#include "heap/nodes.h"
#include "heap/spilled.h"
#include "os/os.h"
#include "region/pool.h"

#include <stdlib.h>
#include <string.h>

#define FAIL(...) return ts_check_fail(check, __VA_ARGS__)
#define REQUIRE(cond, ...)                                     \
    do {                                                       \
        if (!(cond)) return ts_check_fail(check, __VA_ARGS__); \
    } while (0)

/* Where an entry of a table was found. */
enum { ENTRY_NOWHERE, ENTRY_USED, ENTRY_FREE, ENTRY_SPARE };

static bool in_lines(const void *p) {
    return (const char *)p >= ts_region.lines && (size_t)((const char *)p - ts_region.lines) < ts_lines_accessible();
}

/* ---- region ------------------------------------------------------------------------------------------------- */

static bool visit_run(void *arg, uint32_t first, uint32_t count) {
    ts_check *check = arg;
    for (uint32_t i = 0; i < count; i++)
        if (!ts_check_claim_unit(check, first + i, TS_USE_FREE)) return false;
    return true;
}

static bool check_pool(ts_check *check, bool forked) {
    for (unsigned part = 0; part < TS_PARTS; part++) {
        const char *fault = ts_pool_walk(part, visit_run, check, forked);
        if (fault && check->why[0] == 0) FAIL("%s", fault);
        if (fault) return false;
    }
    return true;
}

static bool visit_line(void *arg, ts_line_kind kind, const void *record) {
    static const size_t bytes[TS_LINES_KINDS] = {
        [TS_LINES_HEAP] = sizeof(ts_heap),
        [TS_LINES_SHARE] = sizeof(ts_share),
        [TS_LINES_CHURN_BLOCK] = sizeof(ts_churn_block),
        [TS_LINES_SCOPE_BLOCK] = sizeof(ts_scope_block),
        [TS_LINES_MAGAZINE] = TS_MAGAZINE_BYTES,
        [TS_LINES_CLEANUP] = sizeof(ts_domain_scope),
        [TS_LINES_KIN] = sizeof(ts_kin),
        [TS_LINES_ACCOUNT] = sizeof(ts_account),
        [TS_LINES_NODES] = sizeof(ts_nodes),
    };
    return ts_check_claim_lines(arg, record, bytes[kind], "a free record");
}

static bool check_lines(ts_check *check) {
    const char *fault = ts_lines_walk(visit_line, check);
    if (!fault) fault = ts_block_pool_walk(ts_check_pooled, check);
    if (fault && check->why[0] == 0) FAIL("%s", fault);
    return fault == NULL;
}

/* ---- tables --------------------------------------------------------------------------------------------------- */

static bool check_table(ts_check *check, ts_table *table, const char *name, int which) {
    uint32_t high = ts_table_high(table);
    uint8_t *found = calloc(high, 1);
    REQUIRE(found, "no memory to walk the table of %s", name);
    bool good = true;
    for (uint32_t i = table->free_head; good && i; i = ((const ts_entry *)ts_table_at(table, i))->next_free) {
        if (i >= high)
            good = ts_check_fail(check, "table of %s: the free list leads to entry %u of %u", name, i, high);
        else if (found[i] != ENTRY_NOWHERE)
            good = ts_check_fail(check, "table of %s: entry %u is twice on the free list", name, i);
        else
            found[i] = ENTRY_FREE;
    }
    for (const ts_heap *h = which <= TS_TABLE_DOMAIN ? ts_heaps() : NULL; good && h; h = h->next) {
        if (h->spares[which] > TS_SPARE_ENTRIES) good = ts_check_fail(check, "heap %u: too many spare entries", h->id);
        for (unsigned k = 0; good && k < h->spares[which]; k++) {
            uint32_t i = h->spare[which][k]->index;
            if (i == 0 || i >= high || found[i] != ENTRY_NOWHERE)
                good = ts_check_fail(check, "table of %s: entry %u is a spare of heap %u, and somewhere else", name, i,
                                     h->id);
            else
                found[i] = ENTRY_SPARE;
        }
        uint32_t next = which == TS_TABLE_DOMAIN ? ts_load_acquire(&h->returned) : 0;
        for (; good && next; next = ((const ts_entry *)ts_table_at(table, next))->next_free) {
            if (next >= high || found[next] != ENTRY_NOWHERE)
                good = ts_check_fail(check, "table of %s: entry %u was given back to heap %u, and is somewhere else",
                                     name, next, h->id);
            else
                found[next] = ENTRY_SPARE;
        }
    }
    for (uint32_t i = 1; good && i < high; i++) {
        const ts_entry *e = ts_table_at(table, i);
        uint64_t id = ts_load_relaxed(&e->id), era = ts_load_relaxed(&e->era);
        if (e->index != i)
            good = ts_check_fail(check, "table of %s: entry %u says it is %u", name, i, e->index);
        else if (id != 0 && found[i] != ENTRY_NOWHERE)
            good = ts_check_fail(check, "table of %s: entry %u is in use and free", name, i);
        else if (id != 0 && id != (era << table->index_bits | i))
            good = ts_check_fail(check, "table of %s: entry %u has id %#llx in era %llu", name, i,
                                 (unsigned long long)id, (unsigned long long)era);
        else if (era == 0 || era > table->era_limit)
            good = ts_check_fail(check, "table of %s: entry %u has era %llu", name, i, (unsigned long long)era);
        /* An allocator that has ended keeps its record while it is pinned. */
        bool pinned =
            which == TS_TABLE_ALLOCATOR && ts_load_relaxed(&((const ts_allocator *)(const void *)e)->pins) != 0;
        /* A domain whose allocator was freed while a thread was inside. */
        if (which == TS_TABLE_DOMAIN) pinned = ts_domain_inside((const ts_domain *)(const void *)e) != 0;
        if (id == 0 && found[i] == ENTRY_NOWHERE && era < table->era_limit && !pinned) check->lost_entries++;
    }
    free(found);
    return good;
}

/* ---- heaps ------------------------------------------------------------------------------------------------------ */

static bool check_queue(ts_check *check, const ts_heap *heap, uint64_t first) {
    for (uint64_t unit = first; unit; unit = ts_load_relaxed(&ts_slab_at((uint32_t)unit)->queue_next)) {
        REQUIRE(unit <= UINT32_MAX && ts_unit_of((uint32_t)unit) < check->high[TS_NORMAL],
                "heap %u: its queue of foreign frees leads to unit %llu", heap->id, (unsigned long long)unit);
        uint8_t *found = ts_check_unit(check, (uint32_t)unit);
        REQUIRE((*found & TS_USE_QUEUED) == 0, "unit %llu is on two queues, or twice on one", (unsigned long long)unit);
        REQUIRE(ts_load_relaxed(ts_unit_word((uint32_t)unit)) & TS_UNIT_FOREIGN,
                "unit %llu is on a queue, and its word does not say so", (unsigned long long)unit);
        *found |= TS_USE_QUEUED;
        check->queued++;
    }
    return true;
}

static bool check_condemned(ts_check *check, const ts_heap *heap, const ts_block *first) {
    uint64_t n = 0;
    for (const ts_block *b = first; b; b = (const ts_block *)(ts_load_relaxed(&b->left) & ~TS_LEFT_MARKS)) {
        REQUIRE(in_lines(b) && n++ < check->lines, "heap %u: the list of condemned blocks is broken", heap->id);
        uintptr_t marks = ts_load_relaxed(&b->left) & TS_LEFT_MARKS;
        REQUIRE(marks != 0, "heap %u: a block on the list of those that are left is not marked", heap->id);
        if (!(marks & TS_LEFT_DEAD)) {
            REQUIRE(!(marks & TS_LEFT_SHUT) || ts_load_relaxed(&b->open_id) == TS_ID_NEVER,
                    "heap %u: a block that is left is open", heap->id);
            REQUIRE(ts_load_relaxed(&b->heap) == heap, "heap %u: a block that is left is another's", heap->id);
            continue;
        }
        REQUIRE(ts_era(b) != ts_load_relaxed(&b->era), "heap %u: a condemned block is alive", heap->id);
        REQUIRE(ts_load_relaxed(&b->heap) == heap, "heap %u: a condemned block is another's", heap->id);
        check->allocator[b->share->allocator->entry.index].condemned++;
    }
    return true;
}

static bool check_scopes(ts_check *check, const ts_heap *heap) {
    if (heap->spare_scope && !ts_check_claim_lines(check, heap->spare_scope, sizeof(ts_domain_scope), "a spare scope"))
        return false;
    for (const ts_domain_scope *s = heap->tls ? heap->tls->domain : NULL; s; s = s->outer)
        if (!ts_check_claim_lines(check, s, sizeof *s, "a domain entered")) return false;
    return true;
}

static bool check_tls(ts_check *check, const ts_heap *heap) {
    const ts_tls *tls = heap->tls;
    REQUIRE(tls->heap == heap, "heap %u: its thread has another", heap->id);
    uintptr_t token = ts_load_relaxed(&tls->token);
    REQUIRE((token == UINTPTR_MAX) == (tls->share_key == TS_KEY_NO_SHARE) || token == TS_TOKEN_CALLED,
            "heap %u: half bound to an allocator", heap->id);
    if (token != UINTPTR_MAX && token != TS_TOKEN_CALLED) {
        const ts_share *share = ts_line_address(tls->share_key >> TS_KEY_SHARE_SHIFT);
        REQUIRE(in_lines(share) && share->heap == heap && share->token == token &&
                    tls->share_key == ts_share_key(share),
                "heap %u: bound to a share that is not its own", heap->id);
    }
    REQUIRE(tls->block == &ts_no_block || in_lines(tls->block), "heap %u: cached block at %p", heap->id,
            (void *)tls->block);
    REQUIRE(tls->rolling == &ts_no_block || in_lines(tls->rolling), "heap %u: cached rolling block at %p", heap->id,
            (void *)tls->rolling);
    const ts_scope_block *scope = ts_load_relaxed(&tls->scope);
    REQUIRE(scope == &ts_no_scope || in_lines(scope), "heap %u: cached scope block at %p", heap->id,
            (const void *)scope);
    REQUIRE(tls->last == &ts_no_scope || in_lines(tls->last), "heap %u: scope block used last at %p", heap->id,
            (const void *)tls->last);
    REQUIRE(!ts_is_in_op(tls), "heap %u: its thread is inside of an operation", heap->id);
    return true;
}

static bool check_heaps(ts_check *check, bool forked) {
    uint32_t waiting = 0;
    for (ts_heap *h = ts_heaps(); h; h = h->next) {
        uint32_t state = ts_load_relaxed(&h->state);
        if (!ts_check_claim_lines(check, h, sizeof *h, "a heap")) return false;
        check->heaps++;
        REQUIRE((ts_load_relaxed(&h->revoked) & (TS_REVOKED | TS_UNHOLDABLE)) == 0,
                "heap %u is revoked, and nobody holds it", h->id);
        if (!check_queue(check, h, ts_load_relaxed(&h->queue)) || !check_queue(check, h, ts_load_relaxed(&h->backlog)))
            return false;
        /* Of threads that vanished in a fork. */
        if (state == TS_HEAP_LOST || (forked && state == TS_HEAP_STARTING)) continue;
        REQUIRE(state == TS_HEAP_LIVE || state == TS_HEAP_ABANDONED, "heap %u: state %u", h->id, state);
        REQUIRE((state == TS_HEAP_LIVE) == (h->tls != NULL), "heap %u: state %u, thread at %p", h->id, state,
                (void *)h->tls);
        REQUIRE(!h->listed_free || (state == TS_HEAP_ABANDONED && !ts_heap_first_block(h)),
                "heap %u is free and in use", h->id);
        waiting += state == TS_HEAP_ABANDONED && !h->listed_free;
        if (h->tls && !check_tls(check, h)) return false;
        if (!check_condemned(check, h, ts_load_relaxed(&h->condemned)) ||
            !check_condemned(check, h, ts_load_relaxed(&h->ending)))
            return false;
        if (!check_scopes(check, h) || !ts_check_heap(check, h)) return false;
    }
    REQUIRE(waiting == ts_load_relaxed(&ts_heaps_abandoned), "%u heaps of ended threads have blocks, %u counted",
            waiting, ts_load_relaxed(&ts_heaps_abandoned));
    return true;
}

/* ---- epochs ------------------------------------------------------------------------------------------------------- */

/* All of its units are the object's, or it lies in whole pages between its guards. */
static bool span_fits(const ts_slab *slab) {
    uint64_t units = slab->u.span.units, guard = slab->u.span.guard, bytes = slab->u.span.bytes;
    if (guard == 0) return units > 0 && bytes == units * TS_UNIT_BYTES;
    return bytes > 0 && bytes % ts_os_page_bytes() == 0 && bytes < (units - guard) * TS_UNIT_BYTES;
}

static bool check_spans(ts_check *check, const ts_epoch *epoch, uint32_t index) {
    uint64_t id = ts_load_relaxed(&epoch->entry.id), units = 0, bytes = 0, count = 0;
    uint32_t before = 0;
    for (uint32_t unit = epoch->spans; unit; unit = ts_slab_at(unit)->next) {
        if (!ts_check_claim_unit(check, unit, TS_USE_SPAN)) return false;
        const ts_slab *slab = ts_slab_at(unit);
        uint64_t word = ts_load_relaxed(ts_unit_word(unit));
        REQUIRE(word == (TS_UNIT_SPAN | ts_load_relaxed(&slab->tag)), "span at unit %u: its UNIT word is %#llx", unit,
                (unsigned long long)word);
        REQUIRE(slab->u.span.epoch == id && ts_load_relaxed(&slab->queue_next) == index,
                "span at unit %u is of another epoch", unit);
        REQUIRE(slab->prev == before, "span at unit %u: prev is %u, it comes after %u", unit, slab->prev, before);
        REQUIRE(slab->kind == TS_KIND_SPAN && span_fits(slab), "span at unit %u: %u units, %llu bytes", unit,
                slab->u.span.units, (unsigned long long)slab->u.span.bytes);
        uint32_t first = unit - slab->u.span.guard;
        for (uint32_t u = first; u < first + slab->u.span.units; u++) {
            if (u == unit) continue;
            if (!ts_check_claim_unit(check, u, TS_USE_SPAN)) return false;
            REQUIRE(ts_load_relaxed(ts_unit_word(u)) == 0, "unit %u is inside of a span, and has an owner", u);
        }
        units += slab->u.span.units;
        bytes += slab->u.span.bytes;
        count++;
        before = unit;
    }
    REQUIRE(units == ts_load_relaxed(&epoch->span_units) &&
                count == ts_load_relaxed(&epoch->span_allocated) - ts_load_relaxed(&epoch->span_freed) &&
                bytes == ts_load_relaxed(&epoch->span_bytes_allocated) - ts_load_relaxed(&epoch->span_bytes_freed),
            "epoch %#llx: %llu spans of %llu units in its list, other counters", (unsigned long long)id,
            (unsigned long long)count, (unsigned long long)units);
    ts_check_sums *sums = &check->allocator[ts_load_relaxed(&epoch->allocator)->entry.index];
    sums->units += units;
    sums->live += count;
    check->spans += count;
    check->live += count;
    return true;
}

/* Of an epoch that is not over. Its lent pieces are in its blocks and its list of spans. */
static bool check_spill(ts_check *check, const ts_epoch *epoch) {
    const ts_spill *spill = epoch->spill;
    if (!spill) return true;
    ts_check_sums *sums = &check->allocator[spill->allocator->entry.index];
    sums->spills++;
    if (spill->state == TS_SPILL_AWAY) sums->away_units += spill->units;
    for (size_t i = 0; i < spill->pieces; i++) {
        const ts_spill_piece *piece = &spill->piece[i];
        uint64_t word = ts_load_relaxed(ts_unit_word(piece->unit));
        bool lent = ts_is_lent(piece->unit), span = (piece->units_and_kind & TS_SPILL_SPAN) != 0;
        REQUIRE(lent == (word != 0), "unit %u: lent %d, and its word is %#llx", piece->unit, lent,
                (unsigned long long)word);
        REQUIRE(!lent || span || (word & TS_UNIT_FOREIGN), "unit %u: a slab that is lent, and FOREIGN is off",
                piece->unit);
        for (uint32_t u = piece->unit; !lent && u < piece->unit + ts_spill_piece_units(piece); u++)
            if (!ts_check_claim_unit(check, u, TS_USE_SPAN)) return false;
        if (!lent) sums->units += ts_spill_piece_units(piece);
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
    REQUIRE(ts_load_relaxed(&b->rolling) == 0 || (active && ts_load_relaxed(&b->rolling) == b->share->token),
            "epoch %#llx: a block says it is of a rolling epoch", (unsigned long long)id);
    REQUIRE(!active || b->closing == TS_OPEN, "epoch %#llx: ACTIVE, and a block is closing", (unsigned long long)id);
    REQUIRE(!ts_load_relaxed(&b->flushed) || b->closing == TS_CLOSING,
            "epoch %#llx: a block was flushed, and is not closing", (unsigned long long)id);
    return true;
}

static bool is_lost(const ts_heap *heap) { return ts_load_relaxed(&heap->state) == TS_HEAP_LOST; }

/* What ts_epoch_clean would write is there. */
static bool is_clean(const ts_epoch *e) {
    return ts_load_relaxed(&e->label[0]) == 0 && ts_load_relaxed(&e->closed_at_ns) == 0 &&
           !ts_load_relaxed(&e->blocks) && !e->dying && !e->spans && !e->pins && !e->destroyed &&
           (ts_load_relaxed(&e->span_allocated) | ts_load_relaxed(&e->span_freed) |
            ts_load_relaxed(&e->span_bytes_allocated) | ts_load_relaxed(&e->span_bytes_freed) |
            ts_load_relaxed(&e->span_units) | ts_load_relaxed(&e->rss_before) | ts_load_relaxed(&e->rss_after)) == 0;
}

static bool check_epochs(ts_check *check, bool forked, uint64_t *blocks) {
    uint64_t listed = 0;
    uint32_t high = ts_table_high(&ts_epochs);
    for (uint32_t i = 1; i < high; i++) {
        const ts_epoch *e = ts_table_at(&ts_epochs, i);
        uint64_t id = ts_load_relaxed(&e->entry.id);
        REQUIRE(e->pins == (e->spill != NULL) && e->dying == NULL, "epoch entry %u is pinned at a quiet point", i);
        /* One that a vanished thread was about to show is nobody's. */
        REQUIRE(forked || id != 0 || !e->clean || is_clean(e), "epoch entry %u says it is clean", i);
        if (id == 0) continue;
        uint32_t state = ts_load_relaxed(&e->state);
        const ts_allocator *a = ts_load_relaxed(&e->allocator);
        REQUIRE(state == EPOCH_ACTIVE || state == EPOCH_CLOSING, "epoch %#llx: state %u", (unsigned long long)id,
                state);
        REQUIRE(a && (forked || ts_load_relaxed(&a->entry.id) == a->token), "epoch %#llx: its allocator has ended",
                (unsigned long long)id);
        for (const ts_block *b = e->blocks; b; b = b->epoch_next) {
            /* It was claimed with its heap; a circle ends at the count. */
            REQUIRE(in_lines(b) && listed++ <= check->lines, "epoch %#llx: the list of its blocks is broken",
                    (unsigned long long)id);
            *blocks += !is_lost(ts_load_relaxed(&b->heap));
            if (!check_epoch_block(check, e, id, b)) return false;
        }
        if (!check_spans(check, e, i) || !check_spill(check, e)) return false;
    }
    return true;
}

/* Every block that a heap has in use is in the list of its epoch, or dead. (Of a heap that is lost in a fork perhaps not.) */
static bool check_blocks_listed(ts_check *check, uint64_t listed) {
    uint64_t alive = 0;
    for (const ts_heap *h = ts_heaps(); h; h = h->next)
        for (const ts_block *b = is_lost(h) ? NULL : ts_heap_first_block(h); b; b = ts_heap_next_block(b))
            alive += ts_era(b) == ts_load_relaxed(&b->era);
    REQUIRE(alive == listed, "%llu blocks are alive, the epochs list %llu", (unsigned long long)alive,
            (unsigned long long)listed);
    return true;
}

static bool check_domains(ts_check *check, bool forked) {
    uint32_t high = ts_table_high(&ts_domains);
    for (uint32_t i = 1; i < high; i++) {
        const ts_domain *d = ts_table_at(&ts_domains, i);
        if (ts_load_relaxed(&d->entry.id) == 0) continue;
        const ts_allocator *a = ts_load_relaxed(&d->allocator);
        REQUIRE(a && (forked || ts_load_relaxed(&a->entry.id) == a->token) && ts_load_relaxed(&d->token) == a->token,
                "domain entry %u: its allocator has ended", i);
        REQUIRE(forked || !ts_load_relaxed(&d->busy), "domain entry %u is being ended at a quiet point", i);
        const ts_kin *kin = ts_load_relaxed(&d->kin);
        if (kin && !ts_check_claim_lines(check, kin, sizeof *kin, "kin")) return false;
        REQUIRE(!kin || kin->domain == ts_load_relaxed(&d->entry.id), "domain entry %u: its kin are another's", i);
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

/* ---- allocators ------------------------------------------------------------------------------------------------------ */

typedef struct run_walk {
    ts_check *check;
    uint64_t found;
    bool good;
} run_walk;

static bool claim_run(ts_check *check, uint32_t first, uint32_t units) {
    for (uint32_t u = first; u < first + units; u++) {
        if (!ts_check_claim_unit(check, u, TS_USE_WARM_SPAN)) return false;
        REQUIRE(ts_load_relaxed(ts_unit_word(u)) == 0, "unit %u is in a warm run, and has an owner", u);
    }
    return true;
}

static bool visit_warm_run(void *arg, uint32_t first, uint32_t units) {
    run_walk *walk = arg;
    walk->good = claim_run(walk->check, first, units);
    walk->found += units;
    return walk->good;
}

static bool check_runs(ts_check *check, const ts_allocator *a, uint64_t *units) {
    run_walk walk = {check, 0, true};
    const char *fault = ts_runs_walk(a, visit_warm_run, &walk);
    if (!walk.good) return false;
    REQUIRE(!fault, "allocator %u: %s", a->entry.index, fault);
    for (uint32_t unit = a->stuck; unit; unit = ts_slab_at(unit)->next) {
        REQUIRE(ts_slab_at(unit)->kind == TS_KIND_SPAN && ts_slab_at(unit)->u.span.guard > 0,
                "unit %u is among the spans whose guards stay, and has none", unit);
        if (!claim_run(check, unit - ts_slab_at(unit)->u.span.guard, ts_slab_at(unit)->u.span.units)) return false;
        walk.found += ts_slab_at(unit)->u.span.units;
    }
    REQUIRE(walk.found == ts_load_relaxed(&a->span_warm_units), "%llu units in warm runs, %llu counted",
            (unsigned long long)walk.found, (unsigned long long)ts_load_relaxed(&a->span_warm_units));
    *units += walk.found;
    check->warm_units += walk.found;
    return true;
}

/* Free pieces at the allocator. */
static bool check_cut(ts_check *check, const ts_allocator *a) {
    uint32_t before = 0;
    for (uint32_t unit = a->cut; unit; before = unit, unit = ts_slab_at(unit)->next) {
        uint64_t pieces = ts_slab_at(unit)->u.pieces;
        REQUIRE(unit < check->high[TS_NORMAL] && ts_load_relaxed(ts_unit_word(unit)) == TS_UNIT_CUT &&
                    ts_slab_at(unit)->prev == before,
                "allocator %u: its list of cut units is broken at %u", a->entry.index, unit);
        REQUIRE(pieces != 0 && pieces < ((uint64_t)1 << TS_PIECES) - 1, "unit %u: of its pieces %#llx are free", unit,
                (unsigned long long)pieces);
        for (; pieces; pieces &= pieces - 1) {
            uint32_t piece = ts_piece_number(unit, ts_ctz64(pieces));
            if (!ts_check_claim_unit(check, piece, TS_USE_PIECE)) return false;
            REQUIRE(ts_load_relaxed(ts_unit_word(piece)) == 0, "piece %#x is free, and has an owner", piece);
        }
    }
    return true;
}

static bool check_allocator_lists(ts_check *check, uint32_t index, bool forked) {
    const ts_allocator *a = ts_table_at(&ts_allocators, index);
    ts_check_sums *sums = &check->allocator[index];
    for (unsigned part = 0; part < TS_PARTS; part++)
        if (!ts_check_warm(check, &a->warm[part], part, &sums->warm_units)) return false;
    if (!check_runs(check, a, &sums->warm_units)) return false;
    const ts_nodes *nodes = ts_nodes_of(a);
    if (nodes && !ts_check_claim_lines(check, nodes, sizeof *nodes, "a record of homes")) return false;
    if (!check_cut(check, a)) return false;
    if (ts_load_relaxed(&a->entry.id) != a->token) return true;
    uint64_t listed = 0;
    for (const ts_share *s = a->shares; s; s = s->allocator_next) {
        REQUIRE(in_lines(s) && s->allocator == a && s->token == a->token && listed++ <= check->lines,
                "allocator %u: its list of shares is broken", index);
    }
    REQUIRE(forked || listed == sums->shares, "allocator %u: lists %llu shares, the heaps have %llu", index,
            (unsigned long long)listed, (unsigned long long)sums->shares);
    EpochId current = ts_load_relaxed(&a->current_epoch);
    const ts_epoch *e = current ? ts_epoch_at_id(current) : NULL;
    REQUIRE(!e || ts_load_relaxed(&e->allocator) == a, "allocator %u: its rolling epoch is another's", index);
    return true;
}

/* Units that are in no list: zombies, retired, lost. */
static void find_zombie(ts_check *check, uint32_t unit, uint64_t word) {
    uint32_t index = ts_slab_at(unit)->allocator;
    if ((word & TS_UNIT_ZOMBIE) && index < ts_table_high(&ts_allocators)) {
        check->allocator[index].zombies++;
        check->allocator[index].zombie_pieces += ts_is_piece(unit);
        check->zombies++;
    }
}

/* Each is in a block, free, a zombie, or retired. */
static bool check_pieces(ts_check *check, uint32_t unit) {
    uint32_t index = ts_slab_at(unit)->allocator;
    REQUIRE(index < ts_table_high(&ts_allocators), "unit %u is cut, of allocator %u", unit, index);
    check->allocator[index].cut_units++;
    for (unsigned i = 0; i < TS_PIECES; i++) {
        uint32_t piece = ts_piece_number(unit, i);
        unsigned found = *ts_check_unit(check, piece), use = found & ~TS_USE_QUEUED;
        uint64_t word = ts_load_relaxed(ts_unit_word(piece));
        REQUIRE(((found & TS_USE_QUEUED) != 0) == ((word & TS_UNIT_FOREIGN) != 0),
                "piece %#x: its word is %#llx, and it is on %s queue", piece, (unsigned long long)word,
                found & TS_USE_QUEUED ? "a" : "no");
        REQUIRE(!(word & TS_UNIT_ZOMBIE) || ((word & TS_UNIT_FOREIGN) && use == TS_USE_NONE),
                "piece %#x is a zombie, and somewhere else", piece);
        if (use != TS_USE_NONE) continue;
        if (word & TS_UNIT_ZOMBIE)
            find_zombie(check, piece, word);
        else if (ts_slab_at(piece)->kind != TS_KIND_RETIRED)
            check->lost_units++;
    }
    return true;
}

static bool check_units(ts_check *check) {
    for (unsigned part = 0; part < TS_PARTS; part++) {
        for (uint32_t i = 1; i < check->high[part]; i++) {
            uint32_t unit = ts_region.part[part].first_unit + i;
            unsigned found = *ts_check_unit(check, unit), use = found & ~TS_USE_QUEUED;
            uint64_t word = ts_load_relaxed(ts_unit_word(unit));
            bool queued = (found & TS_USE_QUEUED) != 0;
            if (word == TS_UNIT_CUT) {
                REQUIRE(found == TS_USE_NONE, "unit %u is cut, and somewhere else", unit);
                if (!check_pieces(check, unit)) return false;
                continue;
            }
            bool lent = (word & TS_UNIT_FOREIGN) && ts_is_lent(unit);
            REQUIRE((queued || lent) == ((word & TS_UNIT_FOREIGN) != 0),
                    "unit %u: its word is %#llx, and it is on %s queue", unit, (unsigned long long)word,
                    queued ? "a" : "no");
            REQUIRE(!(word & TS_UNIT_ZOMBIE) || (queued && use == TS_USE_NONE),
                    "unit %u is a zombie, and somewhere else", unit);
            REQUIRE(use != TS_USE_FREE || word == 0, "unit %u is free, and its word is %#llx", unit,
                    (unsigned long long)word);
            if (use != TS_USE_NONE) continue;
            if (word & TS_UNIT_ZOMBIE)
                find_zombie(check, unit, word);
            else if (ts_slab_at(unit)->kind == TS_KIND_RETIRED)
                check->retired_units++;
            else
                check->lost_units++;
        }
    }
    return true;
}

static bool check_sums(ts_check *check, uint32_t index, bool forked) {
    const ts_allocator *a = ts_table_at(&ts_allocators, index);
    const ts_check_sums *sums = &check->allocator[index];
    uint64_t committed = ts_load_relaxed(&a->committed_units), pins = ts_load_relaxed(&a->pins);
    uint64_t found =
        sums->units + sums->cut_units + sums->warm_units + sums->zombies - sums->zombie_pieces - sums->away_units;
    bool alive = ts_load_relaxed(&a->entry.id) != 0;
    check->condemned_units += sums->condemned_units;
    if (forked || pins == 0) return true; /* 0: nobody's record, its figures are of its last use */
    REQUIRE(sums->cut_units == ts_load_relaxed(&a->cut_units), "allocator %u: %llu cut units, %llu counted", index,
            (unsigned long long)sums->cut_units, (unsigned long long)ts_load_relaxed(&a->cut_units));
    REQUIRE(committed == found,
            "allocator %u: committed %llu units, found %llu in slabs and spans, %llu warm, %llu zombies", index,
            (unsigned long long)committed, (unsigned long long)sums->units, (unsigned long long)sums->warm_units,
            (unsigned long long)sums->zombies);
    REQUIRE(pins == alive + sums->shares + sums->condemned + sums->zombies + sums->spills,
            "allocator %u: %llu pins, found %llu shares, %llu condemned blocks, %llu zombies", index,
            (unsigned long long)pins, (unsigned long long)sums->shares, (unsigned long long)sums->condemned,
            (unsigned long long)sums->zombies);
    return true;
}

/* Heaps that vanished in a fork are put in order by their next user: that is now. */
static void settle_heaps(void) {
    for (ts_heap *h = ts_heaps(); h; h = h->next) {
        if (!h->rebuild || ts_load_relaxed(&h->state) != TS_HEAP_ABANDONED) continue;
        if (ts_heap_hold(h)) ts_heap_drop(h);
    }
}

static bool walk(ts_check *check, bool forked) {
    uint64_t blocks = 0;
    uint32_t allocators = ts_table_high(&ts_allocators);
    settle_heaps();
    if (!check_pool(check, forked) || !check_lines(check)) return false;
    if (!check_table(check, &ts_epochs, "epochs", TS_TABLE_EPOCH) ||
        !check_table(check, &ts_domains, "domains", TS_TABLE_DOMAIN) ||
        !check_table(check, &ts_allocators, "allocators", TS_TABLE_ALLOCATOR))
        return false;
    if (!check_heaps(check, forked) || !check_epochs(check, forked, &blocks) || !check_blocks_listed(check, blocks) ||
        !check_domains(check, forked))
        return false;
    for (uint32_t i = 1; i < allocators; i++)
        if (!check_allocator_lists(check, i, forked)) return false;
    if (!check_units(check)) return false;
    for (uint32_t i = 1; i < allocators; i++)
        if (!check_sums(check, i, forked)) return false;
    REQUIRE(forked || check->lost_units + check->lost_entries == 0, "%llu units and %llu table entries are nobody's",
            (unsigned long long)check->lost_units, (unsigned long long)check->lost_entries);
    return true;
}

bool ts_check_all(ts_check *check, bool forked) {
    memset(check, 0, sizeof *check);
    if (ts_load_relaxed(&ts_allocators.high) == 0) return true; /* nothing was ever made */
    for (unsigned part = 0; part < TS_PARTS; part++) check->high[part] = ts_pool_high(part);
    check->lines = ts_lines_used();
    check->unit = calloc(check->high[TS_NORMAL], 1 + TS_PIECES);
    check->line = calloc(check->lines, 1);
    check->allocator = calloc(ts_table_high(&ts_allocators), sizeof *check->allocator);
    bool good = check->unit && check->line && check->allocator ? walk(check, forked)
                                                               : ts_check_fail(check, "no memory for the walk");
    free(check->unit);
    free(check->line);
    free(check->allocator);
    check->unit = check->line = NULL;
    check->allocator = NULL;
    return good;
}

#endif
