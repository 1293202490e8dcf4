/*
 * A walk over the objects of an epoch goes by the UNIT words, which lead to blocks and so to epochs. It looks at each
 * place where an object may start as at any pointer (object.c). So beside other threads a walk may miss an object,
 * but never shows a place without one.
 */
#include "diagnose/diagnose.h"
#include "observe/observe.h"

#include "base/base.h"
#include "region/region.h"

typedef struct walk {
    uintptr_t token;
    EpochId epoch;
    bool (*fn)(void *, size_t, void *);
    void *arg;
    size_t shown;
    bool stopped;
} walk;

static void look(walk *w, char *p) {
    ts_object object;
    if (!ts_object_at(w->token, p, &object) || object.epoch != w->epoch) return;
    w->shown++;
    w->stopped = !w->fn(p, ts_object_usable(&object), w->arg);
}

static void walk_scope(walk *w, uint32_t unit) {
    const ts_scope_bits *bits = ts_slab_scope_bits(unit);
    for (uint32_t i = ts_scope_first_word(unit); i < ts_scope_end_word(unit); i++)
        for (uint64_t start = ts_load_acquire(&bits->start[i]); start && !w->stopped; start &= start - 1)
            look(w, ts_slab_unit_address(unit) + (i * 64 + ts_ctz64(start)) * 16);
}

static void walk_churn(walk *w, uint32_t unit) {
    for (uint32_t i = 0; i < TS_LIVE_WORDS; i++)
        for (uint64_t live = ts_load_acquire(&ts_unit_live(unit)[i]); live && !w->stopped; live &= live - 1)
            look(w, ts_unit_address(unit) + (i * 64 + ts_ctz64(live)) * 16);
}

/* A hint: `look` looks at each object in it. */
static bool is_of_epoch(const walk *w, uint64_t word) {
    if (word == 0 || (word & (TS_UNIT_ZOMBIE | TS_UNIT_SPAN))) return false;
    const ts_block *block = ts_block_of_word(word);
    return ts_era(block) == ts_word_era(word) && ts_load_relaxed(&block->epoch_id) == w->epoch;
}

size_t ts_epoch_walk(uintptr_t token, EpochId epoch, bool (*fn)(void *, size_t, void *), void *arg) {
    walk w = {.token = token, .epoch = epoch, .fn = fn, .arg = arg};
    for (unsigned part = 0; part < TS_PARTS; part++) {
        uint32_t end = ts_pool_highest(part), first = ts_region.part[part].first_unit;
        for (uint32_t u = first + 1; ts_unit_of(u) < first + end && !w.stopped; u = ts_slab_after(u)) {
            uint64_t word =
                ts_load_acquire(ts_unit_word(u)); /* acquire: the block is there (ts_bin_add, ts_scope_append) */
            if (ts_word_is_cut(word)) continue;   /* its pieces come next */
            if (word & TS_UNIT_SPAN)
                look(&w, ts_unit_address(u));
            else if (is_of_epoch(&w, word) && (word & TS_UNIT_SCOPE))
                walk_scope(&w, u);
            else if (is_of_epoch(&w, word))
                walk_churn(&w, u);
        }
    }
    return w.shown;
}
