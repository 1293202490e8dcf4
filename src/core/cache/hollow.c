/*
 * What could go wrong: the system takes a page in which a thread gets an object meanwhile, or whose slab has got
 * another owner. It does not: only the calling thread gets objects there, and the slab is lent meanwhile, so that it
 * gets no other owner.
 *
 * In a hollow page all slots are free in the slab's bitmap, before and after. All words about them lie outside of the
 * data. So the page can go and come at any time while no object lies in it.
 *
 * No thread gets an object there while the system takes the page:
 *  1. Only the owner of a slab's block claims slots of it, and that is the calling thread.
 *  2. A slab gets another owner (when its epoch ends) only while FOREIGN is off in its UNIT word. So the slab is lent:
 *     FOREIGN is set, as by a thread between 6 and 7 of foreign.c. Once the system has answered, the slab is queued, as
 *     that thread would do. To all other threads it looks like a slab with a cross-thread free under way.
 * In a closed block no thread claims anything any more. So any thread may give its pages back
 * (ts_hollow_purge_closed), and lends the slab in that way, too. It acts like a thread that frees an object and has
 * not done 5 of foreign.c. Conclusions 3 and 4 there hold, whatever becomes of the slab: no thread gets its units
 * before it is off the queue. So the system call keeps no other thread waiting. A fork in the middle of it finds the
 * slab in heap->lent, and the child queues the slab (ts_heap_fork_child).
 */
#include "cache/cache.h"

#include "base/base.h"
#include "os/os.h"
#include "region/region.h"
#include "supply/supply.h"

/* The bin of the unit, if the unit is a churn slab of this thread in the allocator, with FOREIGN off. *word: its UNIT
   word. Inside an operation the answer stays right, except that FOREIGN may be set. */
static ts_bin *my_bin(const ts_heap *heap, const ts_allocator *allocator, uint32_t unit, uint64_t *word) {
    /* acquire: partner of ts_bin_add, so that the block is there */
    uint64_t w = *word = ts_load_acquire(ts_unit_word(unit));
    if (w == 0 || (w & (TS_UNIT_SPAN | TS_UNIT_SCOPE | TS_UNIT_ZOMBIE | TS_UNIT_FOREIGN)) || ts_word_is_fine(w))
        return NULL;
    const ts_block *block = ts_block_of_line(ts_word_line(w), false);
    if (ts_load_relaxed(&block->heap) != heap ||
        ts_load_relaxed(&block->allocator) != ts_load_relaxed(&allocator->token))
        return NULL;
    return ts_era(block) == ts_word_era(w) ? ts_line_address(ts_word_line(w)) : NULL;
}

/* The hollow pages of a slab that did not go back yet. Caller holds the heap. */
static unsigned hollow_pages(const ts_bin *bin, uint32_t unit) {
    const ts_slab *slab = ts_slab_at(unit);
    if (slab->free_count == 0) return 0;
    unsigned cls = ts_bin_class(ts_churn(ts_block_of_line(ts_line_of(bin), false)), bin);
    return ~(ts_slab_pages_in_use(slab, cls) | slab->given) & TS_SLAB_ALL_PAGES;
}

/* Purges pages of a slab. Returns the pages that went: all of them, unless the system refuses some. */
static unsigned purge(ts_allocator *allocator, const char *slab, unsigned pages) {
    unsigned gone = 0;
    for (unsigned first = 0, end; first < TS_SLAB_PAGES; first = end + 1) {
        for (end = first; pages >> end & 1;) end++;
        if (end == first) continue;
        if (!ts_purge_pages(allocator, slab + first * TS_SLAB_PAGE_BYTES, slab + end * TS_SLAB_PAGE_BYTES)) break;
        gone |= (1u << end) - (1u << first);
    }
    return gone;
}

/* Gives back the hollow pages of one unit. false: the caller stops here. The system has refused, and will again, or
   another thread holds the heap. */
static bool purge_of(ts_heap *heap, ts_allocator *allocator, uint32_t unit) {
    uint64_t word, now;
    if (!ts_heap_try_enter(heap)) return false; /* another thread holds it, and may have lost its processor */
    const ts_bin *bin = my_bin(heap, allocator, unit, &word);
    unsigned pages = bin ? hollow_pages(bin, unit) : 0;
    if (pages != 0 && !ts_foreign_lend(heap, unit, word)) pages = 0;
    ts_heap_leave(heap);
    if (pages == 0) return true;
    unsigned gone = purge(allocator, ts_unit_address(unit), pages);
    ts_heap_enter(heap); /* waits for the holder: a heap lends one slab at a time, until it is queued */
    now = ts_load_acquire(ts_unit_word(unit));
    if (now == (word | TS_UNIT_FOREIGN) && ts_era(ts_block_of_line(ts_word_line(now), false)) == ts_word_era(now))
        ts_slab_at(unit)->given |= (uint8_t)gone;
    /* Drains at once: another holder of the heap would meet everything that is queued. */
    ts_foreign_lent_back(heap);
    ts_foreign_drain(heap);
    ts_heap_leave(heap);
    return gone == pages;
}

/* ---- the bins of the calling thread ------------------------------------------------------------------------------ */

#define BINS 128u /* found at a time */
#define BEGINS 8u /* of a look at one bin, where its slabs leave it meanwhile */

/* A look at a bin, which goes on while the heap is not held. */
typedef struct look {
    const ts_bin *bin;
    uint32_t unit; /* the last slab with hollow pages, 0: none yet */
    unsigned begins;
} look;

/* The bins behind the first `skip` that may have hollow pages. Caller holds the heap. */
static unsigned find_bins(const ts_heap *heap, const ts_allocator *allocator, unsigned skip,
                          const ts_bin *found[BINS]) {
    unsigned n = 0;
    for (const ts_share *s = heap->shares; s; s = s->heap_next) {
        for (ts_block *b = s->allocator == allocator ? s->blocks : NULL; b; b = b->heap_next) {
            uint64_t used = b->scope ? 0 : ts_load_relaxed(&b->bins_used) >> TS_FINE_CLASSES << TS_FINE_CLASSES;
            for (; used; used &= used - 1) {
                const ts_bin *bin = &ts_churn(b)->bin[ts_ctz64(used)];
                if (ts_bin_head(bin) == 0 || ts_slab_at(ts_bin_head(bin))->free_count == 0) continue;
                if (skip > 0) {
                    skip--;
                    continue;
                }
                if (n == BINS) return n;
                found[n++] = bin;
            }
        }
    }
    return n;
}

/* The next slab of the bin with hollow pages, 0: there is none. Caller holds the heap. */
static uint32_t next_hollow(const ts_heap *heap, const ts_allocator *allocator, look *l) {
    uint64_t word;
    uint32_t unit = l->unit;
    /* It may have left the bin meanwhile, or have become a full slab, or the block is another's. */
    bool there = unit && my_bin(heap, allocator, unit, &word) == l->bin && ts_slab_at(unit)->free_count != 0;
    if (!there && (l->begins++ == BEGINS || ts_load_relaxed(&ts_bin_block(l->bin)->b.heap) != heap)) return 0;
    for (unit = there ? ts_slab_at(unit)->next : ts_bin_head(l->bin); unit; unit = ts_slab_at(unit)->next) {
        if (ts_slab_at(unit)->free_count == 0) return 0; /* the slabs behind it are full, too */
        if (hollow_pages(l->bin, unit) != 0 && my_bin(heap, allocator, unit, &word)) return l->unit = unit;
    }
    return 0;
}

/* false: as purge_of. */
static bool purge_bin(ts_heap *heap, ts_allocator *allocator, const ts_bin *bin) {
    look l = {.bin = bin};
    for (;;) {
        if (!ts_heap_try_enter(heap)) return false;
        uint32_t unit = next_hollow(heap, allocator, &l);
        ts_heap_leave(heap);
        if (!unit) return true;
        if (!purge_of(heap, allocator, unit)) return false;
    }
}

/* Slabs with free slots come first in a bin: so the cost is that of these, and of the bins. Bins that come or go
   meanwhile may be missed. */
void ts_hollow_purge(ts_heap *heap, ts_allocator *allocator) {
    const ts_bin *bins[BINS];
    if (ts_os_page_bytes() != TS_SLAB_PAGE_BYTES || allocator->care) return;
    for (unsigned skip = 0, n = BINS; n == BINS; skip += n) {
        if (!ts_heap_try_enter(heap)) return;
        n = find_bins(heap, allocator, skip, bins);
        ts_heap_leave(heap);
        for (unsigned i = 0; i < n; i++)
            if (!purge_bin(heap, allocator, bins[i])) return;
    }
}

/* ---- closed blocks ---------------------------------------------------------------------------------------------- */

static unsigned live_scope_pages(uint32_t unit, const ts_scope_block *block) {
    const ts_scope_bits *bits = ts_slab_scope_bits(unit);
    unsigned pages = 0;
    for (unsigned w = 0; w < 16; w++) {
        /* `freed` is read first: an object that began afterwards would seem live. No object begins in a closed block.
           */
        uint64_t freed = ts_load_acquire(&bits->freed[w]);
        for (uint64_t live = ts_load_acquire(&bits->start[w]) & ~freed; live; live &= live - 1) {
            uint32_t entry = w * 64 + ts_ctz64(live);
            unsigned begin = entry * 16;
            size_t bytes = ts_scope_object_bytes(block, unit, entry);
            pages |=
                ts_slab_pages_between(begin, (unsigned)(begin + bytes > TS_UNIT_BYTES ? TS_UNIT_BYTES : begin + bytes));
        }
    }
    return pages;
}

static unsigned live_churn_pages(uint32_t unit, unsigned bytes) {
    unsigned pages = 0;
    for (uint32_t i = 0; i < TS_LIVE_WORDS; i++)
        for (uint64_t live = ts_load_acquire(&ts_unit_live(unit)[i]); live; live &= live - 1) {
            unsigned begin = (i * 64 + ts_ctz64(live)) * 16;
            pages |= ts_slab_pages_between(begin, begin + bytes > TS_UNIT_BYTES ? TS_UNIT_BYTES : begin + bytes);
        }
    return pages;
}

unsigned ts_hollow_closed_pages(uint32_t unit, uint64_t word) {
    if (ts_os_page_bytes() != TS_SLAB_PAGE_BYTES) return 0;
    ts_block *block = ts_block_of_word(word);
    unsigned live;
    if (word & TS_UNIT_SCOPE) {
        live = live_scope_pages(unit, ts_scope(block));
    } else {
        const ts_bin *bin = ts_line_address(ts_word_line(word));
        live = live_churn_pages(unit, ts_class_bytes[ts_bin_class(ts_churn(block), bin)]);
    }
    return ~live & TS_SLAB_ALL_PAGES;
}

bool ts_hollow_purge_closed(ts_heap *heap, ts_allocator *allocator, uint32_t unit, uint64_t word, unsigned pages) {
    if (!ts_heap_try_enter(heap)) return false;
    bool lent = ts_foreign_lend(heap, unit, word);
    ts_heap_leave(heap);
    if (!lent) return true;
    unsigned gone = purge(allocator, ts_unit_address(unit), pages);
    ts_heap_enter(heap);
    ts_foreign_lent_back(heap);
    ts_foreign_drain_some(heap, TS_FOREIGN_WORK);
    ts_heap_leave(heap);
    return gone == pages;
}
