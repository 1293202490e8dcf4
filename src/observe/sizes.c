/*
 * What lives in slabs of mixed sizes, by size class. Allocations count no sizes there: a snapshot reads them from the
 * bits where objects start.
 */
#include "base/base.h"
#include "cache/cache.h"
#include "observe/snapshot.h"

#define NONE UINT32_MAX

/* Of the 64 entries of a word of the bitmaps: those whose object another thread has freed. */
static uint64_t foreign_bits(const _Atomic uint64_t *foreign, unsigned end, unsigned i, uint64_t tag) {
    uint64_t bits = 0;
    for (unsigned half = 0; half < 2 && 2 * i + half < end; half++) {
        uint64_t x = ts_load_acquire(&foreign[2 * i + half]);
        if (x >> TS_FOREIGN_TAG_SHIFT == tag) bits |= (x & UINT32_MAX) << 32 * half;
    }
    return bits;
}

/* Objects of one size, one behind the other as they often are. */
static void add(ts_sizes *out, uint32_t entries, uint32_t objects) {
    if (objects == 0) return;
    uint32_t bytes = entries * 16;
    unsigned cls = bytes <= TS_MAX_CLASS_BYTES ? ts_classes.of[entries] : ts_class_of_large(bytes);
    if (!(out->used >> cls & 1)) out->objects[cls] = out->bytes[cls] = 0;
    out->used |= (uint64_t)1 << cls;
    out->objects[cls] += objects;
    out->bytes[cls] += objects * bytes;
}

void ts_unit_sizes(const ts_block *block, uint32_t slab, uint64_t word, ts_sizes *out) {
    const ts_scope_bits *bits = ts_slab_scope_bits(slab);
    unsigned first, end;
    const _Atomic uint64_t *foreign = ts_slab_foreign_words(slab, word, &first, &end);
    uint64_t tag = ts_load_relaxed(&ts_slab_at(slab)->tag);
    uint32_t from = NONE; /* the start of a live object whose end has not come yet */
    uint32_t entries = 0, objects = 0;
    out->used = 0;
    for (unsigned i = ts_scope_first_word(slab); i < ts_scope_end_word(slab); i++) {
        uint64_t dead = word & TS_UNIT_FOREIGN ? foreign_bits(foreign, end, i, tag) : 0;
        dead |= ts_load_relaxed(&bits->freed[i]);
        for (uint64_t start = ts_load_acquire(&bits->start[i]); start; start &= start - 1) {
            uint32_t bit = ts_ctz64(start), at = i * 64 + bit;
            if (from != NONE && at - from != entries) {
                add(out, entries, objects);
                entries = at - from;
                objects = 0;
            }
            if (from != NONE) objects++;
            from = dead >> bit & 1 ? NONE : at;
        }
    }
    add(out, entries, objects);
    if (from == NONE) return;
    add(out, (uint32_t)(ts_scope_object_bytes((const ts_scope_block *)(const void *)block, slab, from) / 16), 1);
}
