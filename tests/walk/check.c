#include "walk/check_parts.h"

#include "base/base.h"
#include "domain/domain.h"
#include "domain/tree.h"
#include "epoch/epoch.h"
#include "epoch/past.h"
#include "os/os.h"
#include "ownership/ownership.h"
#include "region/region.h"
#include "slab/slab.h"
#include "spill/spill.h"
#include "supply/supply.h"
#include "walk/check_lines.h"
#include "walk/check_pool.h"
#include "walk/check_runs.h"

#include <stdlib.h>
#include <string.h>

/* Where an entry of a table was found. */
enum { ENTRY_NOWHERE, ENTRY_USED, ENTRY_FREE, ENTRY_SPARE };

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
        [TS_LINES_PAST] = sizeof(ts_past_ring),
        [TS_LINES_BRIEF] = sizeof(ts_brief_ring),
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
    for (uint32_t i = table->free_head; good && i; i = ((const ts_table_record *)ts_table_at(table, i))->next_free) {
        if (i >= high)
            good = ts_check_fail(check, "table of %s: the free list leads to entry %u of %u", name, i, high);
        else if (found[i] != ENTRY_NOWHERE)
            good = ts_check_fail(check, "table of %s: entry %u is twice on the free list", name, i);
        else
            found[i] = ENTRY_FREE;
    }
    for (const ts_heap *h = which <= TS_TABLE_DOMAIN ? ts_heaps() : NULL; good && h; h = h->next) {
        if (h->spares[which] > TS_SPARE_RECORDS) good = ts_check_fail(check, "heap %u: too many spare entries", h->id);
        for (unsigned k = 0; good && k < h->spares[which]; k++) {
            uint32_t i = h->spare[which][k]->index;
            if (i == 0 || i >= high || found[i] != ENTRY_NOWHERE)
                good = ts_check_fail(check, "table of %s: entry %u is a spare of heap %u, and somewhere else", name, i,
                                     h->id);
            else
                found[i] = ENTRY_SPARE;
        }
        uint32_t next = which == TS_TABLE_DOMAIN ? ts_load_acquire(&h->returned) : 0;
        for (; good && next; next = ((const ts_table_record *)ts_table_at(table, next))->next_free) {
            if (next >= high || found[next] != ENTRY_NOWHERE)
                good = ts_check_fail(check, "table of %s: entry %u was given back to heap %u, and is somewhere else",
                                     name, next, h->id);
            else
                found[next] = ENTRY_SPARE;
        }
    }
    for (uint32_t i = 1; good && i < high; i++) {
        const ts_table_record *e = ts_table_at(table, i);
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

/* ---- allocators -------------------------------------------------------------------------------------------------- */

typedef struct run_walk {
    ts_check *check;
    uint64_t found;
    bool good;
} run_walk;

static bool claim_run(ts_check *check, uint32_t first, uint32_t units) {
    for (uint32_t u = first; u < first + units; u++) {
        if (!ts_check_claim_unit(check, u, TS_USE_RETAINED_SPAN)) return false;
        REQUIRE(ts_load_relaxed(ts_unit_word(u)) == 0, "unit %u is in a retained run, and has an owner", u);
    }
    return true;
}

static bool visit_retained_run(void *arg, uint32_t first, uint32_t units) {
    run_walk *walk = arg;
    walk->good = claim_run(walk->check, first, units);
    walk->found += ts_units_weight(first, units);
    return walk->good;
}

static bool check_runs(ts_check *check, const ts_allocator *a, uint64_t *units) {
    run_walk walk = {check, 0, true};
    const char *fault = ts_check_runs(a, visit_retained_run, &walk);
    if (!walk.good) return false;
    REQUIRE(!fault, "allocator %u: %s", a->record.index, fault);
    for (uint32_t unit = a->stuck; unit; unit = ts_slab_at(unit)->next) {
        REQUIRE(ts_slab_kind(ts_slab_at(unit)) == TS_KIND_SPAN && ts_slab_at(unit)->u.span.guard > 0,
                "unit %u is among the spans whose guards stay, and has none", unit);
        if (!claim_run(check, unit - ts_slab_at(unit)->u.span.guard, ts_slab_at(unit)->u.span.units)) return false;
        walk.found += ts_span_weight(ts_slab_at(unit));
    }
    REQUIRE(walk.found == ts_load_relaxed(&a->span_retained_units), "%llu units in retained runs, %llu counted",
            (unsigned long long)walk.found, (unsigned long long)ts_load_relaxed(&a->span_retained_units));
    *units += walk.found;
    check->retained_units += walk.found;
    return true;
}

/* Free pieces at the allocator, of one length. */
static bool check_cut(ts_check *check, const ts_allocator *a, bool is_long) {
    uint32_t before = 0;
    for (uint32_t unit = a->cut[is_long]; unit; before = unit, unit = ts_slab_at(unit)->next) {
        uint64_t pieces = ts_slab_at(unit)->u.pieces, firsts = UINT64_MAX / 3; /* each second bit */
        REQUIRE(unit < check->high[TS_NORMAL] &&
                    ts_load_relaxed(ts_unit_word(unit)) == (TS_UNIT_CUT | (is_long ? TS_UNIT_LONG : 0)) &&
                    ts_slab_at(unit)->prev == before,
                "allocator %u: its list of cut units is broken at %u", a->record.index, unit);
        REQUIRE(pieces != 0 && pieces < ((uint64_t)1 << TS_PIECES) - 1, "unit %u: of its pieces %#llx are free", unit,
                (unsigned long long)pieces);
        REQUIRE(!is_long || ((pieces & firsts) * 3) == pieces, "unit %u: halves of long pieces are free", unit);
        if (is_long) pieces &= firsts;
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
    if (!ts_check_retained(check, &a->retained, &sums->retained_units)) return false;
    if (!ts_check_groups(check, a)) return false;
    if (!check_runs(check, a, &sums->retained_units)) return false;
    const ts_nodes *nodes = ts_nodes_of(a);
    if (nodes && !ts_check_claim_lines(check, nodes, sizeof *nodes, "a record of homes")) return false;
    const ts_past_ring *past = ts_load_relaxed(&a->past);
    if (past && !ts_check_claim_lines(check, past, sizeof *past, "a record of past epochs")) return false;
    if (!check_cut(check, a, false) || !check_cut(check, a, true)) return false;
    if (ts_load_relaxed(&a->record.id) != ts_load_relaxed(&a->token)) return true;
    uint64_t listed = 0;
    for (const ts_share *s = a->shares; s; s = s->allocator_next) {
        REQUIRE(ts_check_in_lines(s) && s->allocator == a && s->token == ts_load_relaxed(&a->token) &&
                    listed++ <= check->lines,
                "allocator %u: its list of shares is broken", index);
        const ts_past_ring *of_share = ts_load_relaxed(&s->past);
        const ts_brief_ring *brief = ts_load_relaxed(&s->brief);
        if (of_share && !ts_check_claim_lines(check, of_share, sizeof *of_share, "past epochs of a share"))
            return false;
        if (brief && !ts_check_claim_lines(check, brief, sizeof *brief, "brief ones of a share")) return false;
    }
    /* Heaps of threads that vanished within a call, or as they began, are not looked at. */
    REQUIRE(forked ? listed >= sums->shares : listed == sums->shares,
            "allocator %u: lists %llu shares, the heaps have %llu", index, (unsigned long long)listed,
            (unsigned long long)sums->shares);
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

/* A thread that was lost within a call had it: the slab is never pushed, or was taken off a queue. */
static bool is_in_lost_hands(const ts_check *check, uint64_t word) {
    return check->lost_heaps != 0 && (word & TS_UNIT_FOREIGN) != 0;
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
        if (i % 2 && ts_piece_is_long(piece)) {
            REQUIRE(found == TS_USE_NONE && word == 0, "piece %#x: the second half of a long one is in use", piece);
            continue;
        }
        REQUIRE(((found & TS_USE_QUEUED) != 0) == ((word & TS_UNIT_FOREIGN) != 0) || is_in_lost_hands(check, word),
                "piece %#x: its word is %#llx, and it is on %s queue", piece, (unsigned long long)word,
                found & TS_USE_QUEUED ? "a" : "no");
        REQUIRE(!(word & TS_UNIT_ZOMBIE) || ((word & TS_UNIT_FOREIGN) && use == TS_USE_NONE),
                "piece %#x is a zombie, and somewhere else", piece);
        if (use != TS_USE_NONE) continue;
        if (word & TS_UNIT_ZOMBIE)
            find_zombie(check, piece, word);
        else if (ts_slab_kind(ts_slab_at(piece)) != TS_KIND_RETIRED)
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
            if (ts_word_is_cut(word)) {
                REQUIRE(found == TS_USE_NONE, "unit %u is cut, and somewhere else", unit);
                if (!check_pieces(check, unit)) return false;
                continue;
            }
            bool lent = (word & TS_UNIT_FOREIGN) && ts_is_lent(unit);
            REQUIRE((queued || lent) == ((word & TS_UNIT_FOREIGN) != 0) || is_in_lost_hands(check, word),
                    "unit %u: its word is %#llx, and it is on %s queue", unit, (unsigned long long)word,
                    queued ? "a" : "no");
            REQUIRE(!(word & TS_UNIT_ZOMBIE) || ((queued || check->lost_heaps) && use == TS_USE_NONE),
                    "unit %u is a zombie, and somewhere else", unit);
            REQUIRE(use != TS_USE_FREE || word == 0, "unit %u is free, and its word is %#llx", unit,
                    (unsigned long long)word);
            if (use != TS_USE_NONE) continue;
            if (word & TS_UNIT_ZOMBIE)
                find_zombie(check, unit, word);
            else if (ts_slab_kind(ts_slab_at(unit)) == TS_KIND_RETIRED)
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
        sums->units + sums->cut_units + sums->retained_units + sums->zombies - sums->zombie_pieces - sums->away_units;
    bool alive = ts_load_relaxed(&a->record.id) != 0;
    check->condemned_units += sums->condemned_units;
    if (forked || pins == 0) return true; /* 0: nobody's record, its figures are of its last use */
    REQUIRE(sums->cut_units == ts_load_relaxed(&a->cut_units), "allocator %u: %llu cut units, %llu counted", index,
            (unsigned long long)sums->cut_units, (unsigned long long)ts_load_relaxed(&a->cut_units));
    REQUIRE(committed == found,
            "allocator %u: committed %llu units, found %llu in slabs and spans, %llu retained, %llu zombies", index,
            (unsigned long long)committed, (unsigned long long)sums->units, (unsigned long long)sums->retained_units,
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
    if (!ts_check_heaps(check, forked) || !ts_check_epochs(check, forked, &blocks) ||
        !ts_check_blocks_listed(check, blocks) || !ts_check_domains(check, forked))
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
    check->unit = calloc((size_t)check->high[TS_NORMAL] * (1 + TS_PIECES) + check->high[TS_FAR], 1);
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
