#include "walk/check_slabs.h"
#include "supply/supply.h"

#include "base/base.h"
#include "cache/cache.h"
#include "walk/check_require.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool ts_check_fail(ts_check *check, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(check->why, sizeof check->why, format, arguments);
    va_end(arguments);
    return false;
}

static const char *use_name(unsigned use) {
    static const char *const names[] = {"nothing",           "free",        "in a block", "in a span", "retained",
                                        "in a retained run", "a free piece"};
    use &= ~TS_USE_QUEUED;
    return use < sizeof names / sizeof *names ? names[use] : "?";
}

bool ts_check_claim_unit(ts_check *check, uint32_t unit, ts_check_use use) {
    uint32_t whole = ts_unit_of(unit);
    REQUIRE(ts_is_unit_of(ts_part_of_unit(whole), ts_unit_in_part(whole)) && ts_unit_in_part(whole) != 0,
            "there is no unit %u, which is %s", unit, use_name(use));
    if (!check->unit) return true;
    REQUIRE(ts_unit_in_part(whole) < check->high[ts_part_of_unit(whole)], "unit %u is %s and was never taken", unit,
            use_name(use));
    uint8_t *found = ts_check_unit(check, unit);
    REQUIRE((*found & ~TS_USE_QUEUED) == TS_USE_NONE, "unit %u is %s and %s", unit, use_name(*found), use_name(use));
    *found |= (uint8_t)use;
    REQUIRE(!ts_is_piece(unit) || ts_word_is_cut(ts_load_relaxed(ts_unit_word(ts_unit_of(unit)))),
            "piece %#x is %s, and its unit is not cut", unit, use_name(use));
    return true;
}

bool ts_check_claim_lines(ts_check *check, const void *record, size_t bytes, const char *what) {
    size_t at = (size_t)((const char *)record - ts_region.lines);
    size_t limit = ts_lines_accessible();
    REQUIRE((const char *)record >= ts_region.lines && at < limit && at % TS_CACHE_LINE == 0,
            "%s at %p: not in the lines", what, record);
    if (!check->line) return true;
    size_t first = at / TS_CACHE_LINE, count = (bytes + TS_CACHE_LINE - 1) / TS_CACHE_LINE;
    REQUIRE(first + count <= check->lines, "%s at line %zu: lines that were never taken", what, first);
    for (size_t i = first; i < first + count; i++) {
        REQUIRE(check->line[i] == 0, "%s at line %zu: another record, or the same twice, has line %zu", what, first, i);
        check->line[i] = 1;
    }
    return true;
}

/* Those in the block are claimed with it, but no two bins have the same one. */
static bool claim_magazines(ts_check *check, const ts_churn_block *block) {
    bool own[TS_OWN_MAGAZINES] = {false};
    for (unsigned cls = 0; cls < TS_CLASSES; cls++) {
        const ts_magazine *magazine = block->bin[cls].magazine;
        if (!magazine) continue;
        if (!ts_is_own_magazine(block, magazine)) {
            if (!ts_check_claim_lines(check, magazine, TS_MAGAZINE_BYTES, "a magazine")) return false;
            continue;
        }
        size_t at = (uintptr_t)magazine - (uintptr_t)block->own, which = at / TS_MAGAZINE_BYTES;
        REQUIRE(at % TS_MAGAZINE_BYTES == 0 && which < TS_OWN_MAGAZINES && !own[which],
                "class %u: its magazine is another place of its block, or another bin's", cls);
        own[which] = true;
    }
    return true;
}

/* Whether the UNIT word says that a live block has the unit. */
static bool owned(uint64_t word) {
    if (word == 0 || (word & TS_UNIT_ZOMBIE)) return false;
    if (word & TS_UNIT_SPAN) return true;
    return ts_era(ts_block_of_word(word)) == ts_word_era(word);
}

bool ts_check_retained(ts_check *check, const ts_retained *retained, uint64_t *units) {
    uint32_t count = ts_load_relaxed(&retained->count), found = 0, last = 0;
    for (uint32_t unit = retained->head; unit; unit = ts_slab_at(unit)->next) {
        REQUIRE(found < count, "a retained list goes on after its %u units, to unit %u", count, unit);
        if (!ts_check_claim_unit(check, unit, TS_USE_RETAINED)) return false;
        REQUIRE(ts_part_of_unit(unit) == TS_NORMAL, "retained unit %u is of the FAR part", unit);
        REQUIRE(!owned(ts_load_relaxed(ts_unit_word(unit))), "retained unit %u belongs to somebody", unit);
        found++;
        last = unit;
    }
    REQUIRE(found == count, "a retained list has %u units, its count is %u", found, count);
    /* tail is of use only while there is one */
    REQUIRE(count == 0 || retained->tail == last, "a retained list ends at unit %u, its tail is %u", last,
            retained->tail);
    *units += count;
    check->retained_units += count;
    return true;
}

bool ts_check_groups(ts_check *check, const ts_allocator *allocator) {
    uint32_t group = allocator->retained_group, last = 0;
    unsigned left = 0; /* units of the present group from this one on */
    for (uint32_t unit = allocator->retained.head; unit; unit = ts_slab_at(unit)->next) {
        if (unit == group) {
            REQUIRE(left == 0, "retained unit %u begins a group inside of another", unit);
            last = ts_slab_at(unit)->prev;
            left = TS_RETAINED_UNITS_MOVED;
        }
        if (left == 0 || --left > 0) continue;
        REQUIRE(unit == last, "a group of retained units ends at unit %u, its first says %u", unit, last);
        group = ts_slab_at(unit)->prev;
    }
    REQUIRE(group == 0 && left == 0, "a group of retained units is not in the list, or not whole: %u", group);
    return true;
}

/* ---- slabs of a bin ------------------------------------------------------------------------------------- */

/* Free slots that are in the magazine or the claimed word. */
typedef struct places {
    unsigned count, seen;
    uint32_t entry[TS_MAGAZINE_SLOTS + 64];
} places;

static bool check_word(ts_check *check, uint32_t unit, uint64_t want, bool dead) {
    uint64_t w = ts_load_relaxed(ts_unit_word(unit));
    /* Beside other threads a use becomes HANDLED at any moment, and the record follows. */
    uint64_t apart = TS_UNIT_FOREIGN | (check->unit ? 0 : TS_UNIT_HANDLED);
    REQUIRE((w & ~apart) == (want & ~apart), "unit %u: its UNIT word is %#llx, its block says %#llx", unit,
            (unsigned long long)w, (unsigned long long)want);
    if (!check->unit) return true;
    /* At a quiet point a foreign free that is noted is queued. */
    unsigned first, count;
    bool scope = (w & TS_UNIT_SCOPE) != 0;
    const _Atomic uint64_t *words = ts_slab_foreign_words(unit, w, &first, &count);
    uint32_t tag = ts_load_relaxed(&ts_slab_at(unit)->tag);
    for (unsigned i = first; i < count; i++) {
        uint64_t x = ts_load_relaxed(&words[i]);
        REQUIRE(scope || x >> TS_FOREIGN_TAG_SHIFT == tag, "unit %u: foreign word %u has tag %u, the slab %u", unit, i,
                (unsigned)(x >> TS_FOREIGN_TAG_SHIFT), tag);
        if ((uint32_t)x == 0 || x >> TS_FOREIGN_TAG_SHIFT != tag || dead) continue;
        REQUIRE((w & TS_UNIT_FOREIGN) || check->lost_heaps, /* or it was lost before it had set FOREIGN */
                "unit %u: foreign word %u has bits, and the slab is on no queue", unit, i);
    }
    return true;
}

static bool check_churn_slab(ts_check *check, const ts_churn_block *block, unsigned cls, uint32_t unit,
                             places *free_now, uint64_t *live) {
    bool fine = ts_class_is_fine(cls);
    REQUIRE(!fine || ts_region_has_fine(unit), "unit %u: a FINE slab without FINE words", unit);
    const ts_slab *slab = ts_slab_at(unit);
    const _Atomic uint64_t *bitmap = ts_slab_free_words(fine, ts_slab_at(unit));
    const _Atomic uint64_t *lives = ts_unit_live(unit);
    uint64_t elsewhere[16] = {0}, handled = ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_HANDLED;
    unsigned free_count = 0, bits = 0, retired = 0, live_slots = 0;
    for (unsigned i = 0; i < free_now->count; i++) {
        if (free_now->entry[i] >> TS_ENTRY_UNIT_SHIFT != unit) continue;
        unsigned g = (unsigned)ts_granule(fine, free_now->entry[i] & (TS_UNIT_ENTRIES - 1));
        REQUIRE((elsewhere[g >> 6] >> (g & 63) & 1) == 0,
                "unit %u, place %u: twice in the magazine or the claimed word", unit, g);
        elsewhere[g >> 6] |= (uint64_t)1 << (g & 63);
        free_now->seen++;
    }
    REQUIRE(ts_slab_kind(slab) == (fine ? TS_KIND_FINE : TS_KIND_CHURN), "unit %u: kind %u in a bin", unit,
            ts_slab_kind(slab));
    for (unsigned i = 0; i < ts_slab_free_word_count(fine); i++) bits += ts_popcount64(ts_load_relaxed(&bitmap[i]));
    REQUIRE(!handled || ts_region_has_generations(unit), "unit %u: lives are counted, without generations", unit);
    for (unsigned slot = 0; slot < ts_classes.slots[cls]; slot++) {
        unsigned entry = slot * ts_class_bytes[cls] / 16, g = (unsigned)ts_granule(fine, entry);
        unsigned is_live = ts_load_relaxed(&lives[entry >> 6]) >> (entry & 63) & 1;
        unsigned is_retired = !is_live && handled && ts_slot_is_retired((uint64_t)unit * TS_UNIT_ENTRIES + entry);
        unsigned is_free = ts_load_relaxed(&bitmap[g >> 6]) >> (g & 63) & 1,
                 is_elsewhere = elsewhere[g >> 6] >> (g & 63) & 1;
        REQUIRE(is_live + is_retired + is_free + is_elsewhere == 1,
                "unit %u, slot %u: live %u, retired %u, in the bitmap %u, in the magazine or the claimed word %u", unit,
                slot, is_live, is_retired, is_free, is_elsewhere);
        live_slots += is_live;
        retired += is_retired;
        free_count += is_free;
    }
    REQUIRE(bits == free_count, "unit %u: bits of the free bitmap that are no slots", unit);
    REQUIRE(ts_slab_count_live(unit) == live_slots, "unit %u: live bits that are no slots", unit);
    REQUIRE(slab->free_count == free_count, "unit %u: %u free slots, free_count is %u", unit, free_count,
            slab->free_count);
    REQUIRE(slab->empty_at == ts_classes.slots[cls] - retired, "unit %u: %u slots retired, empty_at is %u of %u", unit,
            retired, slab->empty_at, ts_classes.slots[cls]);
    bool dead = ts_era(&block->b) != ts_load_relaxed(&block->b.era);
    REQUIRE(!check->unit || dead || block->b.closing != TS_CLOSING || slab->free_count != slab->empty_at ||
                (ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_FOREIGN),
            "unit %u: empty, and still in a block that is closing", unit);
    *live += live_slots;
    return check_word(
        check, unit,
        ts_load_relaxed(&block->b.era) | handled | (uint64_t)ts_line_of(&block->bin[cls]) << TS_UNIT_LINE_SHIFT, dead);
}

static bool collect(ts_check *check, const ts_churn_block *block, unsigned cls, places *out) {
    const ts_bin *bin = &block->bin[cls];
    const ts_part *region = &ts_region.part[TS_NORMAL];
    bool fine = ts_class_is_fine(cls);
    unsigned depth = (unsigned)ts_bin_depth(bin);
    REQUIRE(depth <= ts_classes.full_at[cls], "class %u: %u objects in a magazine of %u", cls, depth,
            ts_classes.full_at[cls]);
    REQUIRE((ts_load_relaxed(&bin->direct_frees) & TS_DIRECT_NOTE) == 0,
            "class %u: the magazine's counts are half changed", cls);
    for (unsigned i = 0; i < depth; i++) {
        uint64_t entry = ts_entry_of(region, bin->magazine->object[i]);
        REQUIRE(entry < region->limit, "class %u: entry %u in the magazine is no place", cls, (uint32_t)entry);
        REQUIRE((entry & (TS_UNIT_ENTRIES - 1)) * 16 % ts_class_bytes[cls] == 0,
                "class %u: entry %u in the magazine is no slot", cls, (uint32_t)entry);
        out->entry[out->count++] = (uint32_t)entry;
    }
    for (uint64_t word = ts_load_relaxed(&bin->word); word; word &= word - 1) {
        REQUIRE(ts_granule_entry(fine, (uint64_t)bin->word_place + 63) < region->limit,
                "class %u: the claimed word is of no place", cls);
        uint64_t place = (uint64_t)bin->word_place + ts_ctz64(word);
        uint32_t entry = (uint32_t)(fine ? place : place * 4 + bin->starts[place & 255]);
        REQUIRE((entry & (TS_UNIT_ENTRIES - 1)) * 16 % ts_class_bytes[cls] == 0,
                "class %u: the claimed word has entry %u, no slot", cls, entry);
        out->entry[out->count++] = entry;
    }
    REQUIRE(block->b.closing != TS_CLOSING || out->count == 0,
            "class %u: a block that is closing has %u slots in its magazine and word", cls, out->count);
    /* Nobody would flush it. Blocks that are handed over wait with theirs for the next thread. */
    const ts_heap *heap = ts_load_relaxed(&block->b.heap);
    REQUIRE(ts_load_relaxed(&heap->state) != TS_HEAP_ABANDONED || heap->is_threadless || out->count == 0,
            "class %u: a block of an ended thread has %u slots in its magazine and word", cls, out->count);
    return true;
}

static bool check_bin(ts_check *check, const ts_churn_block *block, unsigned cls, uint64_t *live) {
    const ts_bin *bin = &block->bin[cls];
    uint32_t slabs = ts_load_relaxed(&bin->slabs), full = ts_bin_full(bin);
    bool used = (block->b.bins_used >> cls & 1) != 0;
    REQUIRE(!used || bin->starts == ts_class_starts(cls), "class %u: its starts are others", cls);
    REQUIRE(used == (bin->magazine != NULL), "class %u: a magazine without a note of it, or the other way round", cls);
    if (!used) {
        REQUIRE(ts_bin_head(bin) == 0 && slabs == 0 && ts_load_relaxed(&bin->word) == 0,
                "class %u: slabs and no magazine", cls);
        return true;
    }
    places free_now = {0};
    uint32_t found = 0, found_full = 0, empty = 0, before = 0;
    uint64_t live_slots = 0;
    if (!collect(check, block, cls, &free_now)) return false;
    for (uint32_t unit = ts_bin_head(bin); unit; unit = ts_slab_at(unit)->next) {
        REQUIRE(found < slabs, "class %u: the bin's list goes on after its %u slabs, to unit %u", cls, slabs, unit);
        if (!ts_check_claim_unit(check, unit, TS_USE_BLOCK)) return false;
        const ts_slab *slab = ts_slab_at(unit);
        REQUIRE(ts_slab_units(slab) == ts_class_units(cls), "unit %u: a slab of %u units in class %u", unit,
                ts_slab_units(slab), cls);
        for (uint32_t u = unit + 1; u < unit + ts_class_units(cls); u++) {
            if (!ts_check_claim_unit(check, u, TS_USE_BLOCK)) return false;
            REQUIRE(ts_load_relaxed(ts_unit_word(u)) == 0, "unit %u is inside of a slab, and has an owner", u);
        }
        REQUIRE(found == 0 || slab->prev == before, "unit %u: prev is %u, it comes after %u", unit, slab->prev, before);
        REQUIRE(slab->free_count == 0 || found_full == 0, "unit %u: has free slots, and comes after a full one", unit);
        if (!check_churn_slab(check, block, cls, unit, &free_now, &live_slots)) return false;
        unsigned here = ts_class_is_fine(cls) ? TS_SLAB_ALL_PAGES : ts_slab_pages_in_use(slab, cls);
        REQUIRE((slab->given & here) == 0, "unit %u: pages %u went back, and %u are in use", unit, slab->given, here);
        found++;
        found_full += slab->free_count == 0;
        bool is_empty = slab->free_count == slab->empty_at;
        REQUIRE(is_empty == ((slab->given & TS_SLAB_IS_EMPTY) != 0),
                "unit %u: %u of %u slots are free, and it is marked %x", unit, slab->free_count, slab->empty_at,
                slab->given);
        empty += is_empty;
        before = unit;
    }
    REQUIRE(found == slabs, "class %u: %u slabs in the bin's list, %u counted", cls, found, slabs);
    REQUIRE(slabs == 0 || ts_slab_at(ts_bin_head(bin))->prev == before,
            "class %u: the list ends at unit %u, its first slab says %u", cls, before,
            ts_slab_at(ts_bin_head(bin))->prev);
    REQUIRE(found_full == full, "class %u: %u full slabs, %u counted", cls, found_full, full);
    REQUIRE(empty == block->empty[cls], "class %u: %u empty slabs, %u counted", cls, empty, block->empty[cls]);
    REQUIRE(free_now.seen == free_now.count,
            "class %u: a slot in the magazine or the claimed word of a slab that is not the bin's", cls);
    ts_magazine_counts counts = ts_bin_magazine_counts(bin);
    uint64_t balance = counts.pops + ts_bin_word_allocs(bin) - counts.frees;
    REQUIRE(balance == live_slots, "class %u: the counters say %llu live objects, the live words %llu", cls,
            (unsigned long long)balance, (unsigned long long)live_slots);
    check->slabs += found * ts_class_units(cls);
    *live += live_slots;
    return true;
}

/* ---- scope slabs ------------------------------------------------------------------------------------------- */

static bool check_scope_slab(ts_check *check, const ts_scope_block *block, uint32_t unit, uint64_t *live,
                             uint64_t *live_bytes) {
    const ts_slab *slab = ts_slab_at(unit);
    const ts_scope_bits *bits = ts_slab_scope_bits(unit);
    uint32_t end = ts_load_relaxed(&slab->end);
    bool current = unit == ts_load_relaxed(&block->current);
    unsigned freed = 0, started = ts_scope_count_started(unit);
    uint64_t word = ts_load_relaxed(&block->bump);
    REQUIRE(ts_slab_kind(slab) == TS_KIND_SCOPE, "unit %u: kind %u in a scope block", unit, ts_slab_kind(slab));
    if (current) {
        const char *bump = ts_bump_at(word);
        REQUIRE(end == 0, "unit %u: objects are added to it, and its end is %u", unit, end);
        const char *begin = ts_slab_address(unit);
        REQUIRE(bump >= begin && bump <= begin + ts_slab_bytes(unit) && ((uintptr_t)bump & 15) == 0 &&
                    ts_load_relaxed(&block->limit) == ts_bump_limit(begin, ts_slab_bytes(unit)) && block->bits == bits,
                "unit %u: bump pointer %p, limit %p", unit, (const void *)bump,
                (const void *)ts_bump_at(ts_load_relaxed(&block->limit)));
        end = (uint32_t)((size_t)(bump - ts_slab_unit_address(unit)) / 16);
    }
    const uint32_t least = ts_scope_first_entry(unit);
    REQUIRE(end <= TS_UNIT_ENTRIES, "unit %u: its end is %u", unit, end);
    for (unsigned i = ts_scope_first_word(unit); i < ts_scope_end_word(unit); i++) {
        uint64_t s = ts_load_relaxed(&bits->start[i]), f = ts_load_relaxed(&bits->freed[i]);
        uint64_t below = end >= (i + 1) * 64 ? ~(uint64_t)0 : end <= i * 64 ? 0 : ((uint64_t)1 << (end & 63)) - 1;
        REQUIRE((s & ~below) == 0, "unit %u: an object starts above the end %u", unit, end);
        REQUIRE((f & ~s) == 0, "unit %u: an object was freed that never started", unit);
        freed += ts_popcount64(f);
    }
    REQUIRE(end <= least || (ts_load_relaxed(&bits->start[least / 64]) >> least % 64 & 1),
            "unit %u: no object starts at its beginning", unit);
    REQUIRE(slab->free_count == freed, "unit %u: %u objects freed, free_count is %u", unit, freed, slab->free_count);
    /* More by its anchors (rewind.c). */
    REQUIRE(current || slab->empty_at >= started, "unit %u: %u objects started, empty_at is %u", unit, started,
            slab->empty_at);
    REQUIRE(!current || (word & TS_BUMP_TURN) == (ts_load_relaxed(&block->allocs) & TS_ALLOCS_TURN) * TS_BUMP_TURN,
            "unit %u: its turn is not that of its block's count", unit);
    REQUIRE(!current || ts_bump_count(word) + block->skipped >= started,
            "unit %u: %u objects started, %u counted, %u skipped", unit, started, (unsigned)ts_bump_count(word),
            block->skipped);
    bool dead = ts_era(&block->b) != ts_load_relaxed(&block->b.era);
    REQUIRE(!check->unit || dead || current || slab->empty_at != slab->free_count ||
                (ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_FOREIGN),
            "unit %u: empty, and still in its block", unit);
    *live += started - freed;
    for (uint32_t e = least; e < end; e++) {
        uint64_t bit = (uint64_t)1 << (e & 63);
        if ((ts_load_relaxed(&bits->start[e >> 6]) & bit) && !(ts_load_relaxed(&bits->freed[e >> 6]) & bit))
            *live_bytes += ts_scope_entries(unit, e, end) * 16u;
    }
    return check_word(
        check, unit, TS_UNIT_SCOPE | ts_load_relaxed(&block->b.era) | (uint64_t)ts_line_of(block) << TS_UNIT_LINE_SHIFT,
        dead);
}

static bool check_scope(ts_check *check, const ts_scope_block *block) {
    uint32_t slabs = ts_load_relaxed(&block->b.slabs), current = ts_load_relaxed(&block->current), found = 0,
             before = 0;
    uint64_t live = 0, live_bytes = 0;
    uint32_t pieces = 0;
    REQUIRE(current == 0 || block->head == current, "the current slab is unit %u, the first %u", current, block->head);
    REQUIRE((current != 0) == (ts_load_relaxed(&block->bump) != 0),
            "a bump pointer without a slab, or the other way round");
    for (uint32_t unit = block->head; unit; unit = ts_slab_at(unit)->next) {
        REQUIRE(found < slabs, "a scope block's list goes on after its %u slabs, to unit %u", slabs, unit);
        if (!ts_check_claim_unit(check, unit, TS_USE_BLOCK)) return false;
        REQUIRE(ts_slab_at(unit)->prev == before, "unit %u: prev is %u, it comes after %u", unit,
                ts_slab_at(unit)->prev, before);
        if (!check_scope_slab(check, block, unit, &live, &live_bytes)) return false;
        bool is_long = ts_is_piece(unit) && ts_piece_is_long(unit);
        REQUIRE(ts_is_piece(unit) || pieces == 0, "unit %u comes after a piece in its block", unit);
        pieces += ts_is_piece(unit) + is_long; /* a long piece counts as two */
        found += 1 + is_long;
        before = unit;
    }
    REQUIRE(found == slabs, "%u slabs in a scope block's list, %u counted", found, slabs);
    REQUIRE(pieces == ts_load_relaxed(&block->pieces), "%u pieces in a scope block's list, %u counted", pieces,
            ts_load_relaxed(&block->pieces));
    REQUIRE(block->tail == before, "a scope block's list ends at unit %u, its tail is %u", before, block->tail);
    uint64_t balance = ts_scope_allocs_held(block) - ts_load_relaxed(&block->frees);
    REQUIRE(balance == live, "a scope block counts %llu live objects, its slabs have %llu", (unsigned long long)balance,
            (unsigned long long)live);
    uint64_t bytes = ts_load_relaxed(&block->bytes_allocated) - ts_load_relaxed(&block->bytes_freed);
    if (current) bytes += (uint64_t)(ts_bump_at(ts_load_relaxed(&block->bump)) - ts_slab_address(current));
    REQUIRE(bytes == live_bytes, "a scope block counts %llu live bytes, its slabs have %llu", (unsigned long long)bytes,
            (unsigned long long)live_bytes);
    check->slabs += found;
    check->live += live;
    if (check->allocator) check->allocator[block->b.share->allocator->record.index].live += live;
    return true;
}

/* ---- blocks and heaps ------------------------------------------------------------------------------------------ */

bool ts_check_block(ts_check *check, const ts_block *block) {
    check->blocks++;
    if (block->scope) return check_scope(check, (const ts_scope_block *)(const void *)block);
    const ts_churn_block *churn = (const ts_churn_block *)(const void *)block;
    uint64_t slabs = 0, live = 0;
    if (!claim_magazines(check, churn)) return false;
    for (unsigned cls = 0; cls < TS_CLASSES; cls++) {
        if (!check_bin(check, churn, cls, &live)) return false;
        slabs += (uint64_t)ts_load_relaxed(&churn->bin[cls].slabs) * ts_class_units(cls);
    }
    REQUIRE(slabs == ts_load_relaxed(&block->slabs), "the bins of a block have %llu units, the block counts %u",
            (unsigned long long)slabs, ts_load_relaxed(&block->slabs));
    check->live += live;
    if (check->allocator) check->allocator[block->share->allocator->record.index].live += live;
    return true;
}

static size_t block_bytes(const ts_block *block) {
    return block->scope ? sizeof(ts_scope_block) : sizeof(ts_churn_block);
}

static bool check_own_spans(ts_check *check, const ts_share *s, uint64_t *retained) {
    uint32_t count = ts_load_relaxed(&s->span_units), found = 0;
    for (uint32_t units = 0; units <= TS_LOCAL_SPAN_UNITS; units++) {
        for (uint32_t unit = s->spans[units]; unit; unit = ts_slab_at(unit)->next, found += units) {
            REQUIRE(units > 0 && found < count, "heap %u: more than %u units in the spans that it keeps", s->heap->id,
                    count);
            for (uint32_t u = unit; u < unit + units; u++) {
                if (!ts_check_claim_unit(check, u, TS_USE_RETAINED_SPAN)) return false;
                REQUIRE(ts_load_relaxed(ts_unit_word(u)) == 0, "unit %u is in a span that is kept, and has an owner",
                        u);
            }
        }
    }
    REQUIRE(found == count, "heap %u: %u units in the spans that it keeps, %u counted", s->heap->id, found, count);
    *retained += found;
    check->retained_units += found;
    return true;
}

static bool check_pieces(ts_check *check, const ts_share *s) {
    uint32_t found = 0;
    for (unsigned is_long = 0; is_long < 2; is_long++)
        for (uint32_t piece = s->pieces[is_long]; piece; piece = ts_slab_at(piece)->next, found++) {
            REQUIRE(found < s->piece_count && ts_is_piece(piece) && ts_piece_is_long(piece) == is_long,
                    "heap %u: its list of %u pieces leads to %#x", s->heap->id, s->piece_count, piece);
            if (!ts_check_claim_unit(check, piece, TS_USE_PIECE)) return false;
            REQUIRE(!owned(ts_load_relaxed(ts_unit_word(piece))), "piece %#x is free, and belongs to somebody", piece);
        }
    REQUIRE(found == s->piece_count, "heap %u: keeps %u pieces, %u counted", s->heap->id, found, s->piece_count);
    return true;
}

static bool check_shares(ts_check *check, const ts_heap *heap) {
    for (const ts_share *s = heap->shares; s; s = s->heap_next) {
        uint64_t retained = 0;
        if (!ts_check_claim_lines(check, s, sizeof *s, "a share")) return false;
        REQUIRE(s->heap == heap, "heap %u: has the share of another", heap->id);
        REQUIRE(s->index == s->allocator->record.index, "heap %u: a share of allocator %u says %u", heap->id,
                s->allocator->record.index, (unsigned)s->index);
        if (!ts_check_retained(check, &s->retained, &retained)) return false;
        if (!check_own_spans(check, s, &retained) || !check_pieces(check, s)) return false;
        if (!check->allocator) continue;
        check->allocator[s->allocator->record.index].retained_units += retained;
        check->allocator[s->allocator->record.index].shares++;
    }
    for (unsigned i = 0; i < TS_RECENT_SHARES; i++) {
        const ts_share *recent = ts_load_relaxed(&heap->recent[i]), *s = heap->shares;
        while (s && s != recent) s = s->heap_next;
        REQUIRE(s == recent, "heap %u: remembers a share that it does not have", heap->id);
    }
    return true;
}

static bool check_free_block(ts_check *check, const ts_heap *heap, const ts_block *b, bool scope) {
    if (!ts_check_claim_lines(check, b, scope ? sizeof(ts_scope_block) : sizeof(ts_churn_block), "a free block"))
        return false;
    REQUIRE((b->scope != 0) == scope, "heap %u: a free block is in the list of the other kind", heap->id);
    REQUIRE(ts_load_relaxed(&b->heap) == heap, "heap %u: a free block is another's", heap->id);
    REQUIRE(ts_load_relaxed(&b->slabs) == 0 && ts_load_relaxed(&b->open_id) == TS_ID_NEVER &&
                ts_load_relaxed(&b->key) >> TS_KEY_SHARE_SHIFT == 0,
            "heap %u: a free block is open, or has slabs", heap->id);
    if (scope) return true;
    const ts_churn_block *churn = (const ts_churn_block *)(const void *)b;
    if (!claim_magazines(check, churn)) return false;
    for (unsigned cls = 0; cls < TS_CLASSES; cls++) {
        const ts_bin *bin = &churn->bin[cls];
        if (!bin->magazine) continue;
        REQUIRE(ts_load_relaxed(&bin->top) == 0, "heap %u: a free block has %u objects in a magazine", heap->id,
                (unsigned)ts_bin_depth(bin));
        REQUIRE(ts_load_relaxed(&bin->claims) == 0 && ts_load_relaxed(&bin->word) == 0 &&
                    ts_load_relaxed(&bin->direct_frees) == 0,
                "heap %u: a free block counts objects of class %u", heap->id, cls);
    }
    return true;
}

static bool check_free_blocks(ts_check *check, const ts_heap *heap, bool scope) {
    uint32_t count = 0;
    for (const ts_block *b = scope ? heap->free_scope : heap->free_churn; b; b = b->heap_next, count++)
        if (!check_free_block(check, heap, b, scope)) return false;
    REQUIRE(count == ts_load_relaxed(&heap->free_blocks[scope]), "heap %u: %u free blocks in a list, %u counted",
            heap->id, count, ts_load_relaxed(&heap->free_blocks[scope]));
    return true;
}

bool ts_check_pooled(void *arg, uint32_t chunk, bool bare) {
    ts_check *check = arg;
    const ts_block *block = ts_chunk_address(chunk);
    uint32_t era = ts_chunk_note_of(chunk)->kept;
    REQUIRE(era != 0 && (bare || era == ts_era(block)), "a free block in chunk %u: era %u in its note", chunk, era);
    return bare ? ts_check_claim_lines(check, block, sizeof(ts_churn_block), "a block without memory")
                : check_free_block(check, ts_heap_nobody, block, false);
}

static bool check_blocks_of(ts_check *check, const ts_heap *heap, const ts_share *share) {
    const ts_block *before = NULL;
    for (const ts_block *b = share->blocks; b; before = b, b = b->heap_next) {
        if (!ts_check_claim_lines(check, b, block_bytes(b), "a block")) return false;
        REQUIRE(!before || b->heap_prev == before, "heap %u: the list of its blocks is broken", heap->id);
        REQUIRE(ts_load_relaxed(&b->heap) == heap, "heap %u: has the block of another", heap->id);
        REQUIRE(b->share == share, "heap %u: a block has another share than the one that lists it", heap->id);
        REQUIRE(ts_load_relaxed(&b->allocator) == share->token,
                "heap %u: a block is of one allocator, its share of another", heap->id);
        if (!ts_check_block(check, b)) return false;
        if (!check->allocator) continue;
        ts_check_sums *sums = &check->allocator[share->allocator->record.index];
        uint32_t units = ts_load_relaxed(&b->slabs);
        if (b->scope) units -= ts_load_relaxed(&((const ts_scope_block *)(const void *)b)->pieces);
        sums->units += units;
        if (ts_era(b) != ts_load_relaxed(&b->era)) sums->condemned_units += units;
    }
    return true;
}

bool ts_check_heap(ts_check *check, const ts_heap *heap) {
    if (!check_shares(check, heap)) return false;
    for (const ts_share *s = heap->shares; s; s = s->heap_next)
        if (!check_blocks_of(check, heap, s)) return false;
    REQUIRE(heap->spares[0] <= TS_SPARE_RECORDS && heap->spares[1] <= TS_SPARE_RECORDS,
            "heap %u: too many spare entries", heap->id);
    return check_free_blocks(check, heap, false) && check_free_blocks(check, heap, true);
}

void ts_check_heap_now(const ts_heap *heap) {
    ts_check check = {{0}, NULL, NULL, NULL, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    if (!ts_check_heap(&check, heap)) ts_assert_failed(check.why, __FILE__, __LINE__);
}
