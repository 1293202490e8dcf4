#include "observe/diagnose.h"
#include "cache/cache.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "memtools/memtools.h"
#include "observe/listen.h"
#include "observe/observe.h"
#include "region/region.h"

typedef enum finding {
    NO_OBJECTS, /* nothing in the unit */
    NEVER,
    FREE, /* FREED or NEVER: the slab does not know */
    FREED,
    WITH_EPOCH, /* freed by the end of its epoch */
    LIVE
} finding;

typedef struct place {
    finding found;
    uint64_t inside;     /* bytes between the start of the object and the place */
    uint32_t kind;       /* class, TS_COUNT_SCOPE, TS_COUNT_SPAN, or TS_COUNT_KINDS: not known */
    uint64_t bytes;      /* scope and span; 0: not known */
    EpochId epoch;       /* EPOCH_NONE: not known */
    uintptr_t allocator; /* 0: not known */
    uint32_t generation; /* of the place's present object, or its next */
    uint32_t last;       /* of its last object that is gone; only if found is FREED or FREE */
} place;

/* ---- places ----------------------------------------------------------------------------------------------- */

/* Whether a slot that is not live is on the magazine of a bin of this thread's, or retired: so it was freed. */
static bool was_given(const ts_churn_block *block, const ts_bin *bin, uint32_t unit, uint64_t entry) {
    bool fine = ts_bin_is_fine(bin);
    if (ts_load_relaxed(&block->b.heap) != ts_thread.heap) return false; /* the next words are the owner's */
    uint64_t bit = ts_granule(fine, entry), in_word = bit - bin->word_place;
    if (in_word < 64 && (ts_load_relaxed(&bin->word) >> in_word & 1)) return false;
    uint64_t in_slab = bit % ts_granules_per_unit(fine);
    return !(ts_load_relaxed(&ts_slab_free_words(fine, ts_slab_at(unit))[in_slab / 64]) >> in_slab % 64 & 1);
}

static void in_churn(place *at, uint32_t unit, uint32_t offset, uint64_t w, bool alive) {
    const ts_churn_block *block = ts_churn(ts_block_of_line(ts_word_line(w), false));
    const ts_bin *bin = ts_line_address(ts_word_line(w));
    unsigned cls = ts_bin_class(block, bin);
    if (cls >= TS_CLASSES) return;
    at->kind = cls;
    uint32_t slot = offset / ts_class_bytes[cls], start = slot * ts_class_bytes[cls];
    at->found = NEVER;
    at->inside = offset - start;
    if (slot >= ts_classes.slots[cls]) return; /* the end of the slab that is too short for an object */
    uint64_t entry = (uint64_t)unit * TS_UNIT_ENTRIES + start / 16;
    uint32_t first = ts_load_relaxed(&ts_slab_at(unit)->gen);
    if (!ts_region_has_generations(unit)) w &= ~TS_UNIT_HANDLED; /* it is none: last_word */
    at->generation = at->last = ts_slab_generation(ts_slab_at(unit), w, entry);
    if (ts_is_live(entry)) {
        at->found = !alive ? WITH_EPOCH : ts_foreign_pending(unit, w, entry) ? FREED : LIVE;
        return;
    }
    at->found = at->generation != first || (alive && was_given(block, bin, unit, entry)) ? FREED : FREE;
    at->last = at->generation - 1;
}

static bool bit_of(const _Atomic uint64_t *words, uint32_t entry) {
    return (ts_load_relaxed(&words[entry >> 6]) >> (entry & 63) & 1) != 0;
}

static void in_scope(place *at, uint32_t unit, uint32_t offset, uint64_t w, bool alive) {
    const ts_scope_block *block = ts_scope(ts_block_of_line(ts_word_line(w), true));
    const ts_slab *slab = ts_slab_at(unit);
    const ts_scope_bits *bits = ts_slab_scope_bits(unit);
    uint32_t entry = offset / 16, end = ts_load_acquire(&slab->end);
    at->kind = TS_COUNT_SCOPE;
    at->found = NEVER;
    at->generation = ts_load_relaxed(&slab->gen);
    at->last = at->generation;
    const char *bump = ts_bump_at(ts_load_acquire(&block->bump));
    bool current = alive && end == 0 && bump != NULL && ts_load_relaxed(&block->current) == unit;
    if (current) end = (uint32_t)((size_t)(bump - ts_slab_unit_address(unit)) / 16);
    if (end != 0 && entry >= end) return;
    uint32_t start = entry, least = ts_scope_first_entry(unit);
    while (start > least && !bit_of(bits->start, start)) start--;
    if (!bit_of(bits->start, start)) return;
    at->inside = offset - start * 16u;
    /* Once a block has ended, the end of its last object is not known. */
    if (end != 0 && end <= TS_UNIT_ENTRIES) at->bytes = (uint64_t)ts_scope_entries(unit, start, end) * 16;
    uint64_t place_entry = (uint64_t)ts_unit_of(unit) * TS_UNIT_ENTRIES + start;
    if (bit_of(bits->freed, start))
        at->found = FREED;
    else
        at->found = !alive ? WITH_EPOCH : ts_foreign_pending(unit, w, place_entry) ? FREED : LIVE;
}

/* The first unit of the live span, or slab of several units, that the unit lies in; 0: none. */
static uint32_t start_around(uint32_t unit) {
    for (uint32_t u = unit; ts_unit_in_part(u) > 0; u--) {
        uint64_t w = ts_load_relaxed(ts_unit_word(u));
        if (w == 0) continue;
        if (w & TS_UNIT_ZOMBIE) return 0;
        if (!(w & TS_UNIT_SPAN)) return unit - u < ts_slab_units(ts_slab_at(u)) ? u : 0;
        return ts_units_bytes(u, unit - u) < ts_load_relaxed(&ts_slab_at(u)->u.span.bytes) ? u : 0;
    }
    return 0;
}

static void in_span(place *at, uint32_t first, uint64_t inside, finding found) {
    const ts_slab *slab = ts_slab_at(first);
    at->found = found;
    at->inside = inside;
    at->kind = TS_COUNT_SPAN;
    at->bytes = ts_load_relaxed(&slab->u.span.bytes);
    at->epoch = ts_load_relaxed(&slab->u.span.epoch);
    at->generation = at->last = ts_load_relaxed(&slab->gen);
    if (found == LIVE) at->allocator = ts_span_owner(first);
}

/* The UNIT word of the last use of a slab that is nobody's; 0: not known. The record may have another use at any
   moment, in which the same bytes are something else: as long as its tag and its word are the same they were what
   they are taken for. (Where another processor sees
   stores in another order they may have been the next use's: so a line is one that can be looked at, whatever it is.)
   */
static uint64_t last_word(uint32_t unit) {
    const ts_slab *slab = ts_slab_at(unit);
    uint32_t tag = ts_load_acquire(&slab->tag);
    uint64_t w = ts_load_relaxed(&slab->u.last_word) & ~TS_UNIT_FOREIGN;
    atomic_thread_fence(memory_order_acquire); /* the loads above come first */
    bool same = ts_load_relaxed(&slab->tag) == tag && ts_load_relaxed(ts_unit_word(unit)) == 0;
    return same && ts_word_line(w) < ts_lines_accessible() / TS_CACHE_LINE ? w : 0;
}

/* What lies `offset` bytes into the unit of a slab, in that slab. */
static place look_at(uint32_t unit, uint32_t offset) {
    place at = {.found = NO_OBJECTS, .kind = TS_COUNT_KINDS};
    const ts_slab *slab = ts_slab_at(unit);
    uint64_t w = ts_load_acquire(ts_unit_word(unit)) & ~(TS_UNIT_FOREIGN | TS_UNIT_ZOMBIE);
    if (w & TS_UNIT_SPAN) { /* of a unit that is cut since p was located: its pieces hold nothing yet */
        if (ts_slab_kind(slab) != TS_KIND_CUT) in_span(&at, unit, offset, LIVE);
        return at;
    }
    bool owned = w != 0;
    if (!owned && !ts_is_piece(unit)) {
        uint32_t first = start_around(unit);
        uint64_t inside = ts_units_bytes(unit, unit - first) + offset;
        if (first && (ts_load_relaxed(ts_unit_word(first)) & TS_UNIT_SPAN)) {
            in_span(&at, first, inside, LIVE);
            return at;
        }
        if (first && inside < TS_MAX_SLAB_BYTES && ts_load_relaxed(ts_unit_word(first)) != 0)
            return look_at(first, (uint32_t)inside);
        if (ts_slab_kind(slab) == TS_KIND_SPAN) {
            in_span(&at, unit, offset, ts_load_relaxed(&slab->u.span.with_epoch) ? WITH_EPOCH : FREED);
            return at;
        }
    }
    if (!owned) {
        unsigned kind = ts_slab_kind(slab);
        if (kind == TS_KIND_NONE || kind == TS_KIND_CUT) return at;
        w = last_word(unit);
        if (w == 0) return at;
    }
    bool scope = (w & TS_UNIT_SCOPE) != 0;
    if (scope != (ts_slab_kind(slab) == TS_KIND_SCOPE)) return at;
    const ts_block *block = ts_block_of_line(ts_word_line(w), scope);
    bool alive = owned && ts_era(block) == ts_word_era(w);
    (scope ? in_scope : in_churn)(&at, unit, offset, w, alive);
    if (ts_load_relaxed(&block->era) - ts_word_era(w) <= ts_load_relaxed(&block->resets)) {
        at.epoch = ts_load_relaxed(&block->epoch_id);
        at.allocator = ts_load_relaxed(&block->allocator);
    }
    return at;
}

/* ---- words ------------------------------------------------------------------------------------------------ */

static void add_details(ts_text *line, const place *at) {
    if (at->kind >= TS_COUNT_KINDS) return;
    ts_text_put(line, " (");
    ts_misuse_put_kind(line, at->kind, at->bytes);
    if (at->epoch != EPOCH_NONE) {
        ts_text_put(line, ", ");
        ts_epoch_describe(line, at->epoch);
    }
    ts_text_put(line, ")");
}

static void add_finding(ts_text *line, uintptr_t allocator, const place *at) {
    static const char *const whole[] = {"in memory that holds no object",
                                        "never allocated",
                                        "freed already, or never allocated",
                                        "freed already",
                                        "freed with its epoch",
                                        "live"};
    static const char *const into[] = {"",
                                       "",
                                       " into a free place",
                                       " into a freed object",
                                       " into an object that was freed with its epoch",
                                       " into a live object"};
    bool other = at->found == LIVE && at->allocator != 0 && at->allocator != allocator;
    if (at->inside != 0 && at->found > NEVER) {
        ts_text_add(line, "%" PRIu64 " byte%s%s%s", at->inside, at->inside == 1 ? "" : "s", into[at->found],
                    other ? " of another allocator" : "");
    } else if (at->found == LIVE) {
        /* Refused a moment ago, and good by now: another thread freed it, and it was given out again. */
        ts_text_put(line, other ? "an object of another allocator" : "freed already, and given out again since");
    } else {
        ts_text_put(line, whole[at->found]);
    }
    add_details(line, at);
}

static bool find(const void *p, place *at) {
    uint32_t unit;
    uint64_t entry;
    const void *down = (const void *)((uintptr_t)p & ~(uintptr_t)15);
    if (!ts_locate(down, &unit, &entry)) return false;
    *at = look_at(unit, (uint32_t)((const char *)p - ts_slab_unit_address(unit)));
    return true;
}

void ts_diagnose_pointer(ts_text *line, uintptr_t allocator, const void *p) {
    place at;
    if (find(p, &at))
        add_finding(line, allocator, &at);
    else
        ts_text_put(line, ts_is_data(p) ? "in memory that holds no object" : "not memory of temporal-slab");
}

void ts_diagnose_details(ts_text *line, const void *p) {
    place at;
    if (find(p, &at)) add_details(line, &at);
}

/* Why a handle of that generation, with a right kind and place, is stale or forged. NULL: what was found at its place
   says it. */
static const char *fault_of(uint32_t generation, uint32_t kind, uint32_t unit, const place *at) {
    static const char *const never = "forged: this generation was never given out";
    const ts_slab *slab = ts_slab_at(unit);
    bool handled = ts_load_relaxed(&slab->handled) || (ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_HANDLED);
    if (ts_slab_kind(slab) == TS_KIND_NONE || generation > at->generation) return never;
    if (generation < ts_load_relaxed(&slab->gen)) return "stale: its slab has had another use since";
    if (at->kind != kind || at->inside != 0 || at->found <= FREE || !handled) return "forged: no object has it";
    if (generation == (at->found == LIVE ? at->generation : at->last)) return NULL;
    if (at->found == FREED && generation > at->last) return never;
    return "stale: freed already, and its place has had another object since";
}

void ts_diagnose_handle(ts_text *line, uintptr_t allocator, SlabHandle handle) {
    bool far = ts_handle_is_far(handle);
    unsigned part = far ? TS_FAR : TS_NORMAL;
    uint32_t in_part = far ? ts_handle_far_unit(handle) : ts_handle_unit(handle);
    bool outer = ts_handle_region(handle) != 0;
    uint32_t entry = far ? 0 : ts_handle_entry(handle), unit = ts_region.part[part].first_unit + in_part;
    uint32_t kind = far ? TS_COUNT_SPAN : (uint32_t)(handle >> TS_HANDLE_KIND_SHIFT) & 63u;
    uint32_t generation = (uint32_t)(handle >> 18) & TS_GEN_MAX;
    /* A region above the mark was never in use: so a handle with another format is none, as a rule. */
    bool known = outer ? ts_is_unit_of(part, in_part) : (handle & 3u) == TS_HANDLE_FORMAT && kind < TS_COUNT_KINDS;
    if (!known || in_part == 0 || in_part >= ts_region.part[part].units) {
        ts_text_put(line, "not a handle");
        return;
    }
    if (!ts_is_unit_of(part, in_part)) {
        ts_text_put(line, "forged: this generation was never given out");
        return;
    }
    if (!far) unit = ts_slab_of_entry((uint64_t)unit * TS_UNIT_ENTRIES + entry);
    place at = look_at(unit, entry * 16);
    if (outer) kind = at.kind; /* such a handle does not say */
    const char *fault = fault_of(generation, kind, unit, &at);
    if (!fault) {
        add_finding(line, allocator, &at);
        return;
    }
    ts_text_put(line, fault);
    if (generation >= ts_load_relaxed(&ts_slab_at(unit)->gen)) add_details(line, &at);
}

static void tell_origin(const void *p) {
    if (TS_UNLIKELY(ts_origin_is_kept)) ts_listen_tell(p);
}

void ts_observe_start(void) {
    static const ts_misuse_words words = {ts_diagnose_pointer, ts_diagnose_handle, tell_origin};
    ts_store_release(&ts_misuse_finder, &words); /* partner: the acquire loads in misuse.c */
    ts_contention_start();
    if (ts_care_on_asan) ts_listen_start();
}
