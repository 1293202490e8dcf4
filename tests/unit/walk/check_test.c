/*
 * The deep walk finds nothing wrong in a process that uses everything, and finds every change by hand, for each of its
 * requirements: a word, or the few that it takes, put back afterwards.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "bins.h"
#include "domain/domain.h"
#include "region/free_runs.h"
#include "walk/check.h"
#include "walk/check_pool.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* A macro where the library is built without the walk; the tests have it. */
void(ts_check_heap_now)(const ts_heap *heap);

enum { MANY = 3000, FULL = 200, ENTRIES = 12 };
static SlabAllocator *allocator, *second;
static EpochId churn, scope, closing, guarded;
static void *objects[MANY], *small, *scoped[MANY], *span, *left, *left_too, *full[FULL], *draining, *between_guards;
static EpochDomain *domain;

/* ---- structures to look at ---------------------------------------------------------------------------------- */

static void nothing(void *argument) { (void)argument; }

#define FOREIGN_FREES 10

/* Leaves a block behind, and foreign frees on the queue of the first thread. */
static void *other_thread(void *argument) {
    left = slab_malloc_epoch(allocator, 200, churn);
    left_too = slab_malloc_epoch(allocator, 112, churn);
    for (int i = 0; i < FOREIGN_FREES; i++) SUP_CHECK(slab_free(allocator, objects[i * 7]), "a foreign free");
    return argument;
}

/* Another allocator, of which this thread has a share, and a span between guards. */
static bool make_second(void) {
    SlabOptions options = {.size = sizeof options, .guard_spans = 1};
    second = slab_allocator_create_ex(&options);
    if (!second) return false;
    guarded = epoch_open(second, NULL, EPOCH_CHURN);
    between_guards = slab_malloc_epoch(second, 50000, guarded);
    return between_guards && slab_malloc_epoch(second, 100, guarded);
}

/* Free blocks of both kinds, one with a magazine; entries of both tables on the thread's spares and on the free
   lists. */
static bool make_free_ones(void) {
    EpochId ids[ENTRIES];
    EpochDomain *domains[ENTRIES];
    for (int i = 0; i < ENTRIES; i++) {
        ids[i] = epoch_open(allocator, NULL, i % 2 ? EPOCH_CHURN : EPOCH_SCOPE);
        domains[i] = epoch_domain_create(allocator);
        if (!domains[i] || !slab_malloc_epoch(allocator, 112, ids[i])) return false;
    }
    for (int i = 0; i < ENTRIES; i++) {
        if (!epoch_destroy(allocator, ids[i])) return false;
        epoch_domain_destroy(domains[i]);
    }
    return true;
}

static int make(void **state) {
    (void)state;
    pthread_t thread;
    if (!make_second()) return 1;
    allocator = slab_allocator_create();
    churn = epoch_open(allocator, "churn", EPOCH_CHURN);
    scope = epoch_open(allocator, "scope", EPOCH_SCOPE);
    closing = epoch_open(allocator, "closing", EPOCH_CHURN);
    for (int i = 0; i < MANY; i++) {
        objects[i] = slab_malloc_epoch(allocator, 112, churn);
        scoped[i] = slab_malloc_epoch(allocator, 40, scope);
        if (!objects[i] || !scoped[i]) return 1;
    }
    /* A magazine that is full, and slabs with free slots and without. */
    for (int i = 1; i < MANY; i += 3) {
        if (i % 7 != 0 && !slab_free(allocator, objects[i])) return 1;
    }
    for (int i = 0; i < FULL; i++)
        if (!(full[i] = slab_malloc_epoch(allocator, 768, churn))) return 1;
    draining = slab_malloc_epoch(allocator, 300, closing);
    if (!slab_free(allocator, scoped[5]) || !draining) return 1;
    for (size_t bytes = 200; bytes <= 200u * (TS_OWN_MAGAZINES - 1);
         bytes += 200) /* so that the last has none in the block */
        if (!slab_malloc_epoch(allocator, bytes, churn)) return 1;
    small = slab_malloc_epoch(allocator, 48, churn);
    span = slab_malloc_epoch(allocator, 100000, churn);
    void *another = slab_malloc_epoch(allocator, 100000, churn);
    void *third = slab_malloc_epoch(allocator, 70000, churn);
    if (!another || !third) return 1;
    /* Retained units. */
    EpochId ended = epoch_open(allocator, NULL, EPOCH_SCOPE);
    for (int i = 0; i < MANY; i++) (void)slab_malloc_epoch(allocator, 100, ended);
    if (!epoch_destroy(allocator, ended) || !epoch_close(allocator, closing)) return 1;
    if (!make_free_ones()) return 1;
    domain = epoch_domain_create(allocator);
    if (!epoch_domain_enter(domain) || !slab_alloc(10) || !epoch_domain_on_destroy(domain, nothing, NULL)) return 1;
    if (!slab_malloc(allocator, 100)) return 1;
    if (pthread_create(&thread, NULL, other_thread, NULL) || pthread_join(thread, NULL)) return 1;
    /* A span that this thread keeps, and a retained run: the last, as slabs are made of runs where no single units are
       retained. */
    return !slab_free(allocator, slab_malloc_epoch(allocator, 70000, churn)) ||
           !slab_free(allocator, slab_malloc_epoch(allocator, 500000, churn));
}

static int unmake(void **state) {
    (void)state;
    epoch_domain_destroy(domain);
    slab_allocator_free(allocator);
    slab_allocator_free(second);
    return 0;
}

static ts_allocator *record(void) { return ts_allocator_find((uintptr_t)allocator); }
static ts_epoch *epoch_of(EpochId id) { return ts_epoch_find(record(), id); }
static ts_churn_block *churn_block(void) { return ts_churn(block_of(objects[0])); }
static ts_scope_block *scope_block(void) { return ts_scope(block_of(scoped[0])); }
static ts_bin *bin_of_objects(void) { return &churn_block()->bin[ts_classes.of[112 / 16]]; }
static ts_slab *slab_of(const void *p) {
    uint64_t entry;
    return ts_slab_at(unit_of(p, &entry));
}
static _Atomic uint64_t *word_of(const void *p) {
    uint64_t entry;
    return ts_unit_word(unit_of(p, &entry));
}

/* ---- one change at a time ------------------------------------------------------------------------------------- */

/* The words that a case has changed, to be put back in reverse. */
static struct {
    void *at;
    uint64_t before;
    size_t bytes;
} changes[40];
static unsigned change_count;

static void change(void *at, size_t bytes, uint64_t value) {
    SUP_CHECK(change_count < sizeof changes / sizeof *changes, "too many changes");
    changes[change_count].at = at;
    changes[change_count].bytes = bytes;
    memcpy(&changes[change_count++].before, at, bytes);
    const uint16_t one = 1;
    bool is_little = *(const unsigned char *)&one == 1;
    memcpy(at, (const char *)&value + (is_little ? 0 : sizeof value - bytes), bytes); /* the low bytes */
}

static bool differs(void) {
    bool any = false;
    for (unsigned i = 0; i < change_count; i++)
        any = any || memcmp(changes[i].at, &changes[i].before, changes[i].bytes) != 0;
    return any;
}

static void put_back(void) {
    while (change_count > 0) {
        change_count--;
        memcpy(changes[change_count].at, &changes[change_count].before, changes[change_count].bytes);
    }
}

#define ADD(field, n) CHANGE(field, (field) + (n))
#define CHANGE(field, to) change((void *)(uintptr_t) & (field), sizeof(field), (uint64_t)(to))

/* The first free run of the pool. */
static ts_run *free_run(void) {
    uint32_t high = ts_pool_high(TS_NORMAL);
    for (uint32_t i = 1; i < high; i++)
        if (ts_extent_at(&ts_pools[TS_NORMAL].free, i) > 1) return &ts_region.run[i];
    SUP_CHECK(false, "no free run");
    return NULL;
}

static void pool_length(void) { ADD(free_run()->length, 1); }
static void pool_end_tag(void) {
    ts_run *r = free_run();
    ADD(r[r->length - 1].length, 1);
}
static void pool_tag_inside(void) {
    ts_run *before = free_run() - 1;
    CHANGE(before->length, 1);
    CHANGE(before->owner, ts_pools[TS_NORMAL].free.number);
}
static void pool_prev(void) { CHANGE(free_run()->prev, 3); }
static void pool_next(void) { CHANGE(free_run()->next, ts_region.part[TS_NORMAL].units); }
static void pool_no_length(void) { CHANGE(free_run()->length, 0); }
static void pool_too_long(void) { CHANGE(free_run()->length, ts_pool_high(TS_NORMAL)); }
static void pool_other_length(void) { CHANGE(free_run()->length, 1); } /* its first unit is its last then */
static bool is_cell(void *arg, uint32_t first, uint32_t count) {
    if (count > 0 && ts_load_relaxed(&ts_region.run[first].owner) == 0) *(uint32_t *)arg = first;
    return true;
}
static void pool_cell(void) {
    uint32_t first = 0;
    ts_pool_give(ts_pool_take(TS_NORMAL, 1, 1), 1); /* so that there is one */
    SUP_CHECK(!ts_pool_walk(TS_NORMAL, is_cell, &first, false) && first != 0, "no cell");
    CHANGE(ts_region.run[first].length, 1);
    CHANGE(ts_region.run[first].owner, ts_pools[TS_NORMAL].free.number);
}
static void table_id(void) { ADD(epoch_of(churn)->record.id, (uint64_t)1 << ts_epochs.index_bits); }
static void table_index(void) { ADD(epoch_of(churn)->record.index, 1); }
static void table_era(void) { CHANGE(epoch_of(churn)->record.era, 0); }
static void table_free_list(void) { CHANGE(ts_domains.free_head, ts_table_high(&ts_domains) + 5); }
static void table_spare(void) { CHANGE(ts_thread.heap->spare[0][0]->id, 77); }
static ts_share *my_share(void);
static void heap_block_list(void) { CHANGE(my_share()->blocks->heap_next->heap_prev, 0); }
static void heap_block_lost(void) { CHANGE(my_share()->blocks, (uintptr_t)my_share()->blocks->heap_next); }
static void heap_revoked(void) { CHANGE(ts_thread.heap->revoked, 1); }
static void heap_in_operation(void) { CHANGE(ts_thread.in_op, 1); }
static void heap_token(void) { ADD(ts_thread.token, 1); }
static void heap_abandoned_count(void) { ADD(ts_heaps_abandoned, 1); }
static void heap_queue(void) { CHANGE(ts_thread.heap->queue, 0); }
static void heap_queue_loop(void) {
    uint32_t unit = (uint32_t)ts_load_relaxed(&ts_thread.heap->queue);
    CHANGE(ts_slab_at(unit)->queue_next, unit);
}
static void heap_condemned(void) {
    CHANGE(churn_block()->b.left, TS_POST_END);
    CHANGE(ts_thread.heap->inbox, (uintptr_t)churn_block());
}
static void heap_left(void) {
    CHANGE(churn_block()->b.left, TS_POST_FLUSH);
    CHANGE(ts_thread.heap->inbox, (uintptr_t)churn_block());
}
static void heap_left_unmarked(void) { CHANGE(ts_thread.heap->inbox, (uintptr_t)churn_block()); }
static void block_slabs(void) { ADD(churn_block()->b.slabs, 1); }
static void block_key(void) { ADD(churn_block()->b.key, 1); }
static void block_owner(void) { ADD(churn_block()->b.key, (uint64_t)1 << TS_KEY_SHARE_SHIFT); }
static void block_open(void) { CHANGE(churn_block()->b.open_id, scope); }
static void block_epoch(void) { CHANGE(churn_block()->b.epoch, (uintptr_t)epoch_of(scope)); }
static void block_heap(void) { CHANGE(churn_block()->b.heap, (uintptr_t)block_of(left)->heap); }
static void block_share(void) { CHANGE(churn_block()->b.share, (uintptr_t)block_of(left)->share); }
static void block_closing(void) { CHANGE(churn_block()->b.closing, TS_CLOSING); }
static void block_flushed(void) { CHANGE(churn_block()->b.flushed, 1); }
static void block_of_closed_epoch_open(void) { CHANGE(epoch_of(closing)->blocks->open_id, closing); }
static void bin_slabs(void) { ADD(bin_of_objects()->slabs, 1); }
static void bin_full(void) { ADD(bin_of_objects()->full, 1); }
static void bin_page(void) { CHANGE(ts_slab_at(ts_bin_head(bin_of_objects()))->given, TS_SLAB_ALL_PAGES); }
static void bin_empty(void) { ADD(churn_block()->empty[ts_classes.of[112 / 16]], 1); }
static void bin_pops(void) { ADD(bin_of_objects()->claims, 1u << TS_CLAIMS_SHIFT); }
static void bin_pushes(void) { ADD(bin_of_objects()->direct_frees, TS_DIRECT_ONE); }
/* Its head is a part of a word. */
static void change_head(ts_bin *bin, uint32_t to) {
    char *at = (char *)&bin->full - sizeof(uint32_t);
    uint32_t before, after, head = bin->head_low;
    memcpy(&before, at, sizeof before);
    bin->head_low = to;
    memcpy(&after, at, sizeof after);
    bin->head_low = head;
    SUP_CHECK(after != before, "head is not before full");
    change(at, sizeof after, after);
}
static void bin_head(void) { change_head(bin_of_objects(), ts_slab_at(ts_bin_head(bin_of_objects()))->next); }
static void bin_next(void) { CHANGE(ts_slab_at(ts_bin_head(bin_of_objects()))->next, ts_bin_head(bin_of_objects())); }
static void bin_prev(void) { ADD(ts_slab_at(ts_slab_at(ts_bin_head(bin_of_objects()))->next)->prev, 1); }
static void bin_word(void) { CHANGE(bin_of_objects()->word, bin_of_objects()->word ^ 1); }
static char **magazine_top(unsigned below) {
    ts_bin *bin = bin_of_objects();
    uint64_t depth = ts_bin_depth(bin);
    SUP_CHECK(depth > below, "the magazine is not full");
    return &bin->magazine->object[depth - 1 - below];
}
static void magazine_gap(void) { CHANGE(*magazine_top(1), 0); }
static void magazine_too_deep(void) { CHANGE(bin_of_objects()->top, TS_MAGAZINE_SLOTS + 1); }
static void magazine_half_changed(void) { ADD(bin_of_objects()->direct_frees, 1); }
static void magazine_twice(void) { CHANGE(*magazine_top(0), (uintptr_t)*magazine_top(1)); }
static void magazine_interior(void) { CHANGE(*magazine_top(0), (uintptr_t)*magazine_top(0) + 16); }
static void magazine_foreign(void) { CHANGE(*magazine_top(0), (uintptr_t)&allocator); }
static void bin_starts(void) { CHANGE(bin_of_objects()->starts, (uintptr_t)ts_class_starts(TS_CLASSES - 1)); }
static void slab_word_handled(void) {
    CHANGE(*word_of(objects[MANY - 1]), *word_of(objects[MANY - 1]) ^ TS_UNIT_HANDLED);
}
static void magazine_of_other_bin(void) { CHANGE(*magazine_top(0), (uintptr_t)left); }
static void magazine_live(void) { CHANGE(*magazine_top(0), (uintptr_t)objects[0]); }
static void magazine_place(void) { CHANGE(bin_of_objects()->magazine, (uintptr_t)bin_of_objects()->magazine + 8); }
/* A block has room for the magazines of its first classes: that of 48 bytes is elsewhere. */
static ts_bin *bin_of_class(size_t bytes) { return &churn_block()->bin[ts_classes.of[bytes / 16]]; }
static void magazine_line(void) { CHANGE(bin_of_class(48)->magazine, (uintptr_t)bin_of_class(48)->magazine + 8); }
static void magazine_of_two(void) { CHANGE(bin_of_class(768)->magazine, (uintptr_t)bin_of_objects()->magazine); }
static void live_off(void) { CHANGE(*live_of(objects[2]), *live_of(objects[2]) & ~live_bit(objects[2])); }
static void live_on(void) {
    CHANGE(*live_of(*magazine_top(0)), *live_of(*magazine_top(0)) | live_bit(*magazine_top(0)));
}
static void live_no_slot(void) { CHANGE(*live_of(small), *live_of(small) | live_bit(small) << 1); }
static void slab_free_count(void) { ADD(slab_of(objects[2])->free_count, 1); }
static void slab_empty_at(void) { ADD(slab_of(objects[2])->empty_at, -1); }
static void slab_bitmap(void) { CHANGE(slab_of(objects[2])->u.free[0], slab_of(objects[2])->u.free[0] ^ 1); }
static void slab_kind(void) { CHANGE(slab_of(objects[2])->kind, TS_KIND_SPAN); }
static void slab_word(void) { ADD(*word_of(objects[MANY - 1]), 1); }
static void slab_word_zero(void) { CHANGE(*word_of(objects[MANY - 1]), 0); }
static void slab_word_flag(void) { CHANGE(*word_of(objects[MANY - 1]), *word_of(objects[MANY - 1]) | TS_UNIT_FOREIGN); }
static void slab_foreign_bits(void) {
    CHANGE(slab_of(objects[MANY - 1])->foreign[3], slab_of(objects[MANY - 1])->foreign[3] | 8u);
}
static void slab_foreign_tag(void) { ADD(slab_of(objects[MANY - 1])->foreign[3], (uint64_t)1 << TS_FOREIGN_TAG_SHIFT); }
static void scope_start(void) {
    ts_scope_bits *bits = scope_block()->bits;
    CHANGE(bits->start[15], (uint64_t)1 << 63);
}
static void scope_freed(void) {
    uint64_t entry;
    ts_scope_bits *bits = ts_slab_scope_bits(unit_of(scoped[0], &entry));
    CHANGE(bits->freed[0], bits->freed[0] | 2u);
}
static void scope_live(void) {
    uint64_t entry;
    ts_scope_bits *bits = ts_slab_scope_bits(unit_of(scoped[0], &entry));
    CHANGE(bits->freed[0], bits->freed[0] | 1u);
}
static void scope_end(void) { ADD(slab_of(scoped[0])->end, 1000); }
static void scope_end_short(void) { ADD(slab_of(scoped[0])->end, -1); }
static uint64_t bump_moved(ptrdiff_t bytes) {
    return ts_load_relaxed(&scope_block()->bump) + ((uint64_t)bytes << TS_BUMP_SHIFT);
}
static void scope_bump(void) { CHANGE(scope_block()->bump, bump_moved(-64)); }
static void scope_bump_count(void) { ADD(scope_block()->bump, -1); }
static void scope_bump_turn(void) { CHANGE(scope_block()->bump, ts_load_relaxed(&scope_block()->bump) ^ TS_BUMP_TURN); }
static void scope_allocs(void) { ADD(scope_block()->allocs, 1 << TS_ALLOCS_SHIFT); }
static void scope_bytes(void) { ADD(scope_block()->bytes_freed, 16); }
static void scope_tail(void) { CHANGE(scope_block()->tail, scope_block()->head); }
static void scope_current(void) { CHANGE(scope_block()->current, scope_block()->tail); }
static void scope_prev(void) { CHANGE(slab_of(scoped[0])->prev, 0); }
static void span_word(void) { ADD(*word_of(span), 1); }
static void span_epoch(void) { CHANGE(slab_of(span)->u.span.epoch, scope); }
static void span_units(void) { ADD(slab_of(span)->u.span.units, 1); }
static void span_inner_word(void) { CHANGE(*word_of((char *)span + TS_UNIT_BYTES), 5); }
static void span_list(void) { CHANGE(epoch_of(churn)->spans, slab_of(span)->prev); }
static void span_counter(void) { ADD(epoch_of(churn)->span_units, 1); }
static void epoch_state_word(void) { CHANGE(epoch_of(churn)->state, EPOCH_CLOSED); }
static void epoch_blocks(void) { CHANGE(epoch_of(churn)->blocks, 0); }
static void epoch_pin(void) { ADD(epoch_of(churn)->pins, 1); }
static void epoch_more(void) { ADD(epoch_of(scope)->span_allocated, 1); }
static void epoch_label(void) { CHANGE(epoch_of(churn)->label[0], 0); }
static ts_epoch *clean_entry(void) {
    ts_epoch *e = NULL;
    for (uint32_t i = 1; i < ts_table_high(&ts_epochs); i++) {
        e = ts_table_at(&ts_epochs, i);
        if (ts_load_relaxed(&e->record.id) == 0 && e->clean) return e;
    }
    SUP_CHECK(false, "no clean entry");
    return e;
}
static void epoch_not_clean(void) { CHANGE(clean_entry()->closed_at_ns, 1); }
static void epoch_not_clean_of_spans(void) { CHANGE(clean_entry()->span_bytes_freed, 1); }
static void epoch_allocator(void) { CHANGE(epoch_of(scope)->allocator, 0); }
static ts_share *my_share(void) { return churn_block()->b.share; }
static void share_list(void) { CHANGE(record()->shares, (uintptr_t)record()->shares->allocator_next); }
static void retained_count(void) { ADD(my_share()->retained.count, 1); }
static void retained_short(void) { ADD(my_share()->retained.count, -1); }
static void retained_tail(void) { ADD(my_share()->retained.tail, 1); }
static void warm_loop(void) {
    uint32_t head = my_share()->retained.head;
    CHANGE(ts_slab_at(head)->next, head);
}
static void retained_owned(void) {
    uint64_t entry;
    uint64_t word = ts_load_relaxed(word_of(objects[0])) & ~TS_UNIT_FOREIGN;
    (void)unit_of(objects[0], &entry);
    CHANGE(*ts_unit_word(my_share()->retained.head), word);
}
static void retained_spans(void) { ADD(record()->span_retained_units, 1); }
/* The first of the shortest retained runs of part NORMAL. */
static uint32_t *retained_run_list(void) {
    uint32_t *head = record()->runs[TS_NORMAL].head;
    for (unsigned i = 0; i < TS_EXTENT_LISTS; i++)
        if (head[i]) return &head[i];
    SUP_CHECK(false, "no retained run");
    return NULL;
}
static ts_run *retained_run(void) { return &ts_region.run[*retained_run_list()]; }
static void kept_spans(void) { ADD(my_share()->span_units, 1); }
static void kept_span_list(void) {
    SUP_CHECK(my_share()->spans[5] != 0, "no span that is kept");
    CHANGE(my_share()->spans[5], 0);
}
static void kept_span_loop(void) {
    uint32_t unit = my_share()->spans[5];
    CHANGE(ts_slab_at(unit)->next, unit);
}
static void kept_span_owned(void) { CHANGE(*ts_unit_word(my_share()->spans[5] + 3), 5); }
static void retained_run_off_its_list(void) { CHANGE(*retained_run_list(), 0); }
static void retained_run_bit(void) { CHANGE(record()->runs[TS_NORMAL].some[0], 0); }
static void retained_run_length(void) { ADD(retained_run()->length, 1); }
static void retained_run_end(void) { ADD(ts_region.run[*retained_run_list() + retained_run()->length - 1].owner, 1); }
static void retained_run_begin(void) { ADD(retained_run()->owner, 1); }
static void retained_run_link(void) { ADD(retained_run()->prev, 1); }
static void allocator_committed(void) { ADD(record()->committed_units, 1); }
static void allocator_pins(void) { ADD(record()->pins, 1); }
static void domain_busy(void) { CHANGE(ts_domain_find((uintptr_t)domain)->busy, 1); }
static void domain_cleanups(void) { CHANGE(ts_domain_find((uintptr_t)domain)->cleanups, (uintptr_t)my_share()); }
static void domain_allocator(void) { ADD(ts_domain_find((uintptr_t)domain)->token, 1); }
static void domain_scope(void) { CHANGE(ts_thread.domain, (uintptr_t)ts_thread.heap); }

/* ---- lists that lead elsewhere --------------------------------------------------------------------------------- */

#define NOT_A_LINE ((uintptr_t)TS_CACHE_LINE)
static uintptr_t behind_the_lines(void) {
    return (uintptr_t)(ts_region.lines + (size_t)ts_region.line_limit * TS_CACHE_LINE);
}

/* The newest free record of a kind: its first bytes are the link. */
static void *free_record(void) {
    void *taken = ts_lines_take(TS_LINES_CLEANUP, sizeof(ts_domain_scope));
    ts_lines_give(TS_LINES_CLEANUP, taken);
    return taken;
}
static void lines_loop(void) {
    uintptr_t *link = free_record();
    CHANGE(*link, (uintptr_t)link);
}
static void lines_elsewhere(void) {
    uintptr_t *link = free_record();
    CHANGE(*link, NOT_A_LINE);
}
static void lines_off_the_grid(void) {
    uintptr_t *link = free_record();
    CHANGE(*link, (uintptr_t)link + 8);
}

static ts_heap *mine(void) { return ts_thread.heap; }
static ts_heap *others(void) { return ts_load_relaxed(&block_of(left)->heap); }
static ts_table_record *spare(unsigned which) {
    SUP_CHECK(mine()->spares[which] > 1, "spares");
    return mine()->spare[which][0];
}

static void table_spare_in_use(void) { CHANGE(spare(0)->id, 77); }
static void table_spare_of_no_era(void) { CHANGE(spare(0)->era, 0); }
static void table_spare_of_no_era_left(void) { CHANGE(spare(0)->era, ts_epochs.era_limit + 1); }
static void table_spare_twice(void) { CHANGE(mine()->spare[0][0], (uintptr_t)mine()->spare[0][1]); }
static void table_spare_index(void) { CHANGE(spare(1)->index, ts_table_high(&ts_domains)); }
static void table_spare_zero(void) { CHANGE(spare(1)->index, 0); }
static void table_spare_lost(void) { ADD(mine()->spares[1], -1); }
static void table_spares(void) { CHANGE(mine()->spares[0], TS_SPARE_RECORDS + 1); }
static ts_table_record *free_entry(void) {
    SUP_CHECK(ts_domains.free_head != 0, "no free entry");
    return ts_table_at(&ts_domains, ts_domains.free_head);
}
static void table_free_loop(void) { CHANGE(free_entry()->next_free, ts_domains.free_head); }
static void table_free_in_use(void) { CHANGE(free_entry()->id, 77); }
static void table_of_allocators(void) { ADD(record()->record.index, 1); }

static void queue_too_far(void) { CHANGE(mine()->queue, (uint64_t)1 << 40); }
static void queue_untaken(void) { CHANGE(mine()->queue, ts_pool_high(TS_NORMAL)); }
static void queue_without_a_flag(void) {
    _Atomic uint64_t *word = ts_unit_word((uint32_t)ts_load_relaxed(&mine()->queue));
    CHANGE(*word, ts_load_relaxed(word) & ~TS_UNIT_FOREIGN);
}
static void condemned_elsewhere(void) { CHANGE(mine()->inbox, NOT_A_LINE); }
static void condemn(ts_block *b) {
    ADD(b->key, 1);
    CHANGE(b->left, TS_POST_END);
    CHANGE(mine()->inbox, (uintptr_t)b);
}
static void condemned_in_its_epoch(void) { condemn(&churn_block()->b); }
static void condemned_loop(void) {
    condemn(&churn_block()->b);
    CHANGE(churn_block()->b.left, (uintptr_t)churn_block() | TS_POST_END);
}
static void condemned_of_another(void) { condemn(block_of(left)); }
static void left_of_another(void) {
    CHANGE(block_of(left)->open_id, TS_ID_NEVER);
    CHANGE(block_of(left)->left, TS_POST_FLUSH);
    CHANGE(mine()->inbox, (uintptr_t)block_of(left));
}
static void spare_scope_elsewhere(void) { CHANGE(mine()->spare_scope, NOT_A_LINE); }
static void spare_scope_behind(void) { CHANGE(mine()->spare_scope, behind_the_lines()); }
static void spare_scope_untaken(void) { CHANGE(mine()->spare_scope, (uintptr_t)ts_line_address(ts_lines_used())); }
static void spare_scope_of_a_block(void) { CHANGE(mine()->spare_scope, (uintptr_t)churn_block()); }

static void tls_heap(void) { CHANGE(ts_thread.heap, (uintptr_t)others()); }
static void tls_half_bound(void) { CHANGE(ts_thread.share_key, TS_KEY_NO_SHARE); }
static void tls_share_of_another(void) { CHANGE(ts_thread.share_key, ts_share_key(block_of(left)->share)); }
static void tls_share_elsewhere(void) {
    CHANGE(ts_thread.share_key, TS_KEY_NO_SHARE - ((uint64_t)1 << TS_KEY_SHARE_SHIFT));
}
static void tls_share_with_era(void) { CHANGE(ts_thread.share_key, ts_thread.share_key | 1); }
static void tls_block(void) { CHANGE(ts_thread.block, NOT_A_LINE); }
static void tls_rolling(void) { CHANGE(ts_thread.rolling, behind_the_lines()); }
static void tls_scope(void) { CHANGE(ts_thread.scope, NOT_A_LINE); }
static void heap_state(void) { CHANGE(mine()->state, 9); }
static void heap_state_without_thread(void) { CHANGE(others()->state, TS_HEAP_LIVE); }
static void heap_free_and_live(void) { CHANGE(mine()->listed_free, true); }
static void heap_free_with_blocks(void) { CHANGE(others()->listed_free, true); }
static void heap_spares(void) { CHANGE(mine()->spares[1], TS_SPARE_RECORDS + 1); }
static void heap_blocks_loop(void) { CHANGE(my_share()->blocks->heap_next, (uintptr_t)my_share()->blocks); }

/* ---- blocks ---------------------------------------------------------------------------------------------------- */

static ts_block *closing_block(void) { return block_of(draining); }
static void block_kind(void) { CHANGE(epoch_of(churn)->flags, EPOCH_SCOPE); }
static void block_of_the_ended_open(void) {
    CHANGE(block_of(left)->key, ts_load_relaxed(&block_of(left)->key) | (uint64_t)ts_line_of(my_share())
                                                                            << TS_KEY_SHARE_SHIFT);
}
static void block_closing_open(void) {
    CHANGE(closing_block()->key, ts_load_relaxed(&closing_block()->key) | (uint64_t)ts_line_of(my_share())
                                                                              << TS_KEY_SHARE_SHIFT);
}
static void block_rolling(void) { CHANGE(churn_block()->b.rolling, my_share()->token + 1); }
static void block_rolling_closed(void) { CHANGE(closing_block()->rolling, my_share()->token); }
static void block_allocator(void) { ADD(churn_block()->b.allocator, 1); }
static void free_block_in_use(void) { CHANGE(mine()->free_churn, (uintptr_t)churn_block()); }
static void free_scope_in_use(void) { CHANGE(mine()->free_scope, (uintptr_t)scope_block()); }
static ts_churn_block *free_churn(void) {
    SUP_CHECK(mine()->free_churn != NULL, "no free block");
    return ts_churn(mine()->free_churn);
}
static void free_block_kind(void) { CHANGE(free_churn()->b.scope, 1); }
static void free_block_slabs(void) { CHANGE(free_churn()->b.slabs, 1); }
static void free_block_open(void) { CHANGE(free_churn()->b.open_id, churn); }
static void free_block_key(void) { ADD(free_churn()->b.key, (uint64_t)1 << TS_KEY_SHARE_SHIFT); }
static ts_bin *free_bin(void) {
    ts_bin *bin = &free_churn()->bin[ts_classes.of[112 / 16]];
    SUP_CHECK(bin->magazine != NULL, "a free block without a magazine");
    return bin;
}
static void free_block_magazine(void) { CHANGE(free_bin()->magazine, (uintptr_t)bin_of_objects()->magazine); }
static void free_block_magazine_filled(void) { CHANGE(free_bin()->top, 1); }

/* ---- slabs of bins ---------------------------------------------------------------------------------------------- */

static ts_bin *bin_of_full(void) { return &churn_block()->bin[ts_classes.of[768 / 16]]; }
static ts_bin *bin_of_small(void) { return &churn_block()->bin[ts_classes.of[48 / 16]]; }
static ts_bin *unused_bin(void) {
    ts_bin *bin = &churn_block()->bin[ts_classes.of[512 / 16]];
    SUP_CHECK(bin->magazine == NULL, "a bin in use");
    return bin;
}
static void bin_magazine_unnoted(void) {
    CHANGE(churn_block()->b.bins_used, ts_load_relaxed(&churn_block()->b.bins_used) & ~(1u << ts_classes.of[112 / 16]));
}
static void bin_unused_head(void) { change_head(unused_bin(), ts_bin_head(bin_of_objects())); }
static void bin_unused_slabs(void) { CHANGE(unused_bin()->slabs, 1); }
static void bin_unused_word(void) { CHANGE(unused_bin()->word, 1); }
static void bin_too_few_slabs(void) { ADD(bin_of_objects()->slabs, -1); }
static void bin_of_other_part(void) { change_head(bin_of_small(), ts_bin_head(bin_of_objects())); }
static void bin_order(void) {
    uint32_t last = ts_slab_at(ts_bin_head(bin_of_full()))->prev;
    SUP_CHECK(ts_bin_full(bin_of_full()) > 1 && ts_slab_at(last)->free_count == 0, "full slabs");
    CHANGE(ts_slab_at(last)->free_count, 1);
}
static void bin_first_prev(void) { CHANGE(ts_slab_at(ts_bin_head(bin_of_objects()))->prev, 0); }
static void bin_word_elsewhere(void) {
    CHANGE(bin_of_objects()->word, 1);
    CHANGE(bin_of_objects()->word_place, UINT32_MAX);
}
static void bin_word_of_the_ended(void) {
    uint64_t entry;
    ts_bin *bin = ts_bin_of(ts_churn(block_of(left)), 200);
    CHANGE(bin->word, 1);
    CHANGE(bin->word_place, unit_of(left, &entry) * ts_granules_per_unit(false));
}
/* A free slot moves from the magazine to its slab's bitmap, and a slot of another's slab is in its place. */
static void magazine_of_other_block(void) {
    uint64_t entry;
    unsigned below = 0;
    while (slab_of(*magazine_top(below))->free_count == 0) {
        below++; /* of a full slab, which would not be full then */
    }
    ts_slab *slab = ts_slab_at(unit_of(*magazine_top(below), &entry));
    unsigned place = entry % TS_UNIT_ENTRIES / 4;
    CHANGE(slab->u.free[place / 64], slab->u.free[place / 64] | (uint64_t)1 << place % 64);
    ADD(slab->free_count, 1);
    CHANGE(*magazine_top(below), (uintptr_t)left_too);
}
static void slab_bit_of_no_slot(void) {
    ts_slab *slab = slab_of(objects[MANY - 1]);    /* objects of 112 bytes begin in places 0, 1, 3, 5, 7, ... */
    CHANGE(slab->u.free[0], slab->u.free[0] | 4u); /* place 2 */
}
static void slab_empty_while_closing(void) {
    uint64_t entry;
    ts_slab *slab = ts_slab_at(unit_of(draining, &entry));
    unsigned place = entry % TS_UNIT_ENTRIES / 4;
    CHANGE(*live_of(draining), ts_load_relaxed(live_of(draining)) & ~live_bit(draining));
    CHANGE(slab->u.free[place / 64], slab->u.free[place / 64] | (uint64_t)1 << place % 64);
    ADD(slab->free_count, 1);
}

/* ---- scope slabs ------------------------------------------------------------------------------------------------- */

static ts_slab *current_slab(void) { return ts_slab_at(ts_load_relaxed(&scope_block()->current)); }
static char *current_address(void) { return ts_unit_address(ts_load_relaxed(&scope_block()->current)); }
static void scope_kind(void) { CHANGE(slab_of(scoped[0])->kind, TS_KIND_CHURN); }
static void scope_current_end(void) { CHANGE(current_slab()->end, 5); }
static void scope_bump_before(void) { CHANGE(scope_block()->bump, ts_bump_word(current_address() - 64, 0)); }
static void scope_bump_behind(void) {
    CHANGE(scope_block()->bump, ts_bump_word(current_address() + TS_UNIT_BYTES + 16, 0));
}
static void scope_bump_off_the_grid(void) { CHANGE(scope_block()->bump, bump_moved(8)); }
static void scope_bump_limit(void) { ADD(scope_block()->limit, -64); }
static void scope_bump_bits(void) {
    CHANGE(scope_block()->bits, (uintptr_t)scope_block()->bits + sizeof(ts_scope_bits));
}
static void scope_bump_missing(void) { CHANGE(scope_block()->bump, 0); }
static void scope_first_object(void) {
    uint64_t entry;
    ts_scope_bits *bits = ts_slab_scope_bits(unit_of(scoped[100], &entry));
    ts_scope_bits *first = ts_slab_scope_bits(scope_block()->tail);
    SUP_CHECK(bits == first, "the first slab");
    CHANGE(bits->start[0], ts_load_relaxed(&bits->start[0]) & ~(uint64_t)1);
}
static void scope_started(void) { ADD(slab_of(scoped[0])->empty_at, -1); }
static void scope_empty(void) {
    uint32_t unit = scope_block()->tail;
    ts_scope_bits *bits = ts_slab_scope_bits(unit);
    for (unsigned i = 0; i < 16; i++) CHANGE(bits->freed[i], ts_load_relaxed(&bits->start[i]));
    CHANGE(ts_slab_at(unit)->free_count, ts_scope_count_started(unit));
}
static void scope_too_few_slabs(void) { ADD(scope_block()->b.slabs, -1); }
static void scope_too_many_slabs(void) { ADD(scope_block()->b.slabs, 1); }
static void scope_of_other_slab(void) {
    uint64_t entry;
    CHANGE(ts_slab_at(scope_block()->head)->next, unit_of(small, &entry));
}
static void scope_loop(void) { CHANGE(ts_slab_at(scope_block()->head)->next, scope_block()->head); }

/* ---- spans, epochs, domains ------------------------------------------------------------------------------------- */

static uint32_t free_unit(void) { return (uint32_t)(free_run() - ts_region.run); }
static uint32_t my_unit(const void *p) {
    uint64_t entry;
    return unit_of(p, &entry);
}
static void slab_too_high(void) { CHANGE(ts_region.fine_groups[ts_fine_group(my_unit(small)) / 64], 0); }
static void span_next(void) { CHANGE(slab_of(span)->next, free_unit()); }
static void span_index(void) { ADD(slab_of(span)->queue_next, 1); }
static void span_kind(void) { CHANGE(slab_of(span)->kind, TS_KIND_CHURN); }
static void span_prev(void) { ADD(slab_of(span)->prev, 1); }
static void span_number(void) { ADD(slab_of(span)->u.span.number, 1); }
static void span_nothing(void) { CHANGE(slab_of(span)->u.span.units, 0); }
static void span_bytes(void) { ADD(slab_of(span)->u.span.bytes, 16); }
static void span_onto_another(void) {
    CHANGE(slab_of(span)->u.span.units, 5000);
    CHANGE(slab_of(span)->u.span.bytes, 5000 * TS_UNIT_BYTES);
}
static void span_count(void) { ADD(epoch_of(churn)->span_freed, 1); }
static void span_byte_count(void) { ADD(epoch_of(churn)->span_bytes_freed, 16); }
static void guarded_nothing(void) { CHANGE(slab_of(between_guards)->u.span.bytes, 0); }
static void guarded_part_of_a_page(void) { ADD(slab_of(between_guards)->u.span.bytes, 16); }
static void guarded_without_a_guard(void) { CHANGE(slab_of(between_guards)->u.span.bytes, 100 * TS_UNIT_BYTES); }
static void epoch_dying(void) { CHANGE(epoch_of(churn)->dying, (uintptr_t)churn_block()); }
static void epoch_blocks_elsewhere(void) { CHANGE(epoch_of(churn)->blocks, NOT_A_LINE); }
static void epoch_allocator_ended(void) { ADD(record()->token, 1); }
static void domain_without_allocator(void) { CHANGE(ts_domain_find((uintptr_t)domain)->allocator, 0); }

/* ---- allocators -------------------------------------------------------------------------------------------------- */

static ts_allocator *second_record(void) { return ts_allocator_find((uintptr_t)second); }
static ts_share *second_share(void) { return ts_load_relaxed(&second_record()->shares); }
static void share_of_another(void) { CHANGE(second_share()->heap, (uintptr_t)others()); }
static void share_loop(void) { CHANGE(second_share()->heap_next, (uintptr_t)second_share()); }
static void shares_elsewhere(void) { CHANGE(record()->shares, NOT_A_LINE); }
static void shares_of_another(void) { CHANGE(record()->shares, (uintptr_t)second_share()); }
static void shares_allocator(void) { CHANGE(second_share()->allocator, (uintptr_t)record()); }
static void rolling_of_another(void) { CHANGE(record()->current_epoch, guarded); }
static void retained_nowhere(void) { CHANGE(my_share()->retained.head, UINT32_MAX); }
static void retained_untaken(void) { CHANGE(my_share()->retained.head, ts_pool_high(TS_NORMAL)); }
static void retained_of_a_span(void) { CHANGE(*ts_unit_word(my_share()->retained.head), TS_UNIT_SPAN | 5); }
static void retained_zombie(void) { CHANGE(*ts_unit_word(my_share()->retained.head), TS_UNIT_ZOMBIE); }
static void retained_zombie_queued(void) {
    uint32_t unit = my_share()->retained.head;
    CHANGE(ts_slab_at(unit)->queue_next, ts_load_relaxed(&mine()->queue));
    CHANGE(mine()->queue, unit);
    CHANGE(*ts_unit_word(unit), TS_UNIT_ZOMBIE | TS_UNIT_FOREIGN);
}
static void allocator_retained(void) { ADD(record()->retained.count, 1); }
static void group_elsewhere(void) { CHANGE(record()->retained_group, my_unit(objects[0])); }
static void stuck_of_a_block(void) { CHANGE(record()->stuck, my_unit(objects[0])); }
static void retained_run_elsewhere(void) { CHANGE(*retained_run_list(), my_unit(objects[0])); }
static void retained_run_owned(void) { CHANGE(*ts_unit_word(*retained_run_list() + 1), 5); }
static void free_unit_owned(void) { CHANGE(*ts_unit_word(free_unit()), 5); }
static void free_unit_zombie(void) { CHANGE(*ts_unit_word(free_unit()), TS_UNIT_ZOMBIE); }

/* A unit leaves the retained list and is nobody's. */
static uint32_t lose_retained_unit(void) {
    ts_retained *retained = &my_share()->retained;
    uint32_t unit = retained->head;
    CHANGE(retained->head, ts_slab_at(unit)->next);
    ADD(retained->count, -1);
    return unit;
}
static void unit_lost(void) {
    (void)lose_retained_unit();
    ADD(record()->committed_units, -1);
}
static void make_zombie(void) {
    uint32_t unit = lose_retained_unit();
    CHANGE(ts_slab_at(unit)->allocator, record()->record.index);
    CHANGE(ts_slab_at(unit)->queue_next, ts_load_relaxed(&mine()->queue));
    CHANGE(mine()->queue, unit);
    CHANGE(*ts_unit_word(unit), TS_UNIT_ZOMBIE | TS_UNIT_FOREIGN);
}

static const struct {
    const char *name;
    void (*apply)(void);
    const char *says;
} cases[] = {
#define CASE(fn, text) \
    { #fn, fn, text }
    CASE(pool_length, "extent"),
    CASE(pool_end_tag, "an extent with two lengths"),
    CASE(pool_tag_inside, "two extents that touch"),
    CASE(pool_cell, "a cell in a run"),
    CASE(pool_prev, "a list of extents that is broken"),
    CASE(pool_next, "an extent outside of its part"),
    CASE(pool_no_length, "the length of an extent"),
    CASE(pool_too_long, "the length of an extent"),
    CASE(pool_other_length, "an extent in the list of another length"),
    CASE(table_id, "table of epochs"),
    CASE(table_index, "table of epochs"),
    CASE(table_era, "table of epochs"),
    CASE(table_free_list, "table of domains"),
    CASE(table_spare, "table of epochs"),
    CASE(heap_block_list, "the list of its blocks"),
    CASE(heap_block_lost, "blocks are alive"),
    CASE(heap_revoked, "revoked"),
    CASE(heap_in_operation, "inside of an operation"),
    CASE(heap_token, "bound to a share"),
    CASE(heap_abandoned_count, "counted"),
    CASE(heap_queue, "no queue"),
    CASE(heap_queue_loop, "twice"),
    CASE(heap_condemned, "condemned block is alive"),
    CASE(heap_left, "a block that is left is open"),
    CASE(heap_left_unmarked, "is not marked"),
    CASE(block_slabs, "the block counts"),
    CASE(block_key, "dead"),
    CASE(block_owner, "open to the fast paths"),
    CASE(block_open, "a block is open to"),
    CASE(block_epoch, "block of another"),
    CASE(block_heap, "block of another"),
    CASE(block_share, "another share than the one that lists it"),
    CASE(block_closing, "closing"),
    CASE(block_flushed, "flushed"),
    CASE(block_of_closed_epoch_open, "a block is open to"),
    CASE(bin_slabs, "counted"),
    CASE(bin_full, "full slabs"),
    CASE(bin_page, "went back, and"),
    CASE(bin_empty, "empty slabs"),
    CASE(bin_pops, "live objects"),
    CASE(bin_pushes, "live objects"),
    CASE(bin_head, ""),
    CASE(bin_next, "in a block and in a block"),
    CASE(bin_prev, "prev is"),
    CASE(bin_word, "claimed word"),
    CASE(magazine_gap, "no place"),
    CASE(magazine_too_deep, "objects in a magazine"),
    CASE(magazine_half_changed, "half changed"),
    CASE(magazine_twice, "twice in the magazine"),
    CASE(magazine_interior, "no slot"),
    CASE(magazine_foreign, "no place"),
    CASE(bin_starts, "its starts are others"),
    CASE(slab_too_high, "a FINE slab without FINE words"),
    CASE(slab_word_handled, "without generations"),
    CASE(magazine_of_other_bin, ""),
    CASE(magazine_live, "in the bitmap 0, in the magazine or the claimed word"),
    CASE(magazine_place, "another place of its block"),
    CASE(magazine_line, "not in the lines"),
    CASE(magazine_of_two, "or another bin's"),
    CASE(live_off, "live 0"),
    CASE(live_on, "live 1"),
    CASE(live_no_slot, "no slots"),
    CASE(slab_free_count, "free_count"),
    CASE(slab_empty_at, "empty_at"),
    CASE(slab_bitmap, ""),
    CASE(slab_kind, "kind"),
    CASE(slab_word, "UNIT word"),
    CASE(slab_word_zero, "UNIT word"),
    CASE(slab_word_flag, "queue"),
    CASE(slab_foreign_bits, "foreign word"),
    CASE(slab_foreign_tag, "foreign word"),
    CASE(scope_start, "above the end"),
    CASE(scope_freed, "never started"),
    CASE(scope_live, "free_count"),
    CASE(scope_end, "its end is"),
    CASE(scope_end_short, "live bytes"),
    CASE(scope_bump, "above the end"),
    CASE(scope_bump_count, "counted"),
    CASE(scope_bump_turn, "turn"),
    CASE(scope_allocs, "live objects"),
    CASE(scope_bytes, "live bytes"),
    CASE(scope_tail, "tail"),
    CASE(scope_current, "current slab"),
    CASE(scope_prev, "prev is"),
    CASE(span_word, "UNIT word"),
    CASE(span_epoch, "another epoch"),
    CASE(span_units, "units"),
    CASE(span_inner_word, "has an owner"),
    CASE(span_list, ""),
    CASE(span_counter, "spans"),
    CASE(epoch_state_word, "state"),
    CASE(epoch_blocks, "blocks are alive"),
    CASE(epoch_pin, "pinned"),
    CASE(epoch_more, "has more than it says"),
    CASE(epoch_label, "its label"),
    CASE(epoch_not_clean, "says it is clean"),
    CASE(epoch_not_clean_of_spans, "says it is clean"),
    CASE(epoch_allocator, "allocator has ended"),
    CASE(share_list, "shares"),
    CASE(retained_count, "retained list"),
    CASE(retained_short, "retained list"),
    CASE(retained_tail, "tail"),
    CASE(warm_loop, "retained and retained"),
    CASE(retained_owned, "belongs to somebody"),
    CASE(retained_spans, "retained runs"),
    CASE(retained_run_off_its_list, "a list of extents and its bit"),
    CASE(kept_spans, "units in the spans that it keeps, "),
    CASE(kept_span_list, "units in the spans that it keeps, "),
    CASE(kept_span_loop, "more than 5 units in the spans that it keeps"),
    CASE(kept_span_owned, "is in a span that is kept, and has an owner"),
    CASE(retained_run_bit, "a list of extents and its bit"),
    CASE(retained_run_length, "an extent with two lengths"),
    CASE(retained_run_end, "an extent with two lengths"),
    CASE(retained_run_begin, "the length of an extent"),
    CASE(retained_run_link, "a list of extents that is broken"),
    CASE(allocator_committed, "committed"),
    CASE(allocator_pins, "pins"),
    CASE(domain_busy, "being ended"),
    CASE(domain_cleanups, "a cleanup"),
    CASE(domain_allocator, "allocator has ended"),
    CASE(domain_scope, "a domain entered"),
    CASE(lines_loop, "a free record"),
    CASE(lines_elsewhere, "leads out of the lines"),
    CASE(lines_off_the_grid, "leads out of the lines"),
    CASE(table_spare_in_use, "is in use and free"),
    CASE(table_spare_of_no_era, "has era 0"),
    CASE(table_spare_of_no_era_left, "has era"),
    CASE(table_spare_twice, "is a spare of heap"),
    CASE(table_spare_index, "is a spare of heap"),
    CASE(table_spare_zero, "is a spare of heap"),
    CASE(table_spare_lost, "table entries are nobody's"),
    CASE(table_spares, "too many spare entries"),
    CASE(table_free_loop, "twice on the free list"),
    CASE(table_free_in_use, "is in use and free"),
    CASE(table_of_allocators, "table of allocators"),
    CASE(queue_too_far, "its queue of foreign frees leads to"),
    CASE(queue_untaken, "its queue of foreign frees leads to"),
    CASE(queue_without_a_flag, "its word does not say so"),
    CASE(condemned_elsewhere, "list of condemned blocks is broken"),
    CASE(condemned_in_its_epoch, "a block of its list is dead"),
    CASE(condemned_loop, "list of condemned blocks is broken"),
    CASE(condemned_of_another, "a condemned block is another's"),
    CASE(left_of_another, "a block that is left is another's"),
    CASE(spare_scope_elsewhere, "a spare scope"),
    CASE(spare_scope_behind, "a spare scope"),
    CASE(spare_scope_untaken, "never taken"),
    CASE(spare_scope_of_a_block, "another record"),
    CASE(tls_heap, "its thread has another"),
    CASE(tls_half_bound, "half bound"),
    CASE(tls_share_of_another, "bound to a share"),
    CASE(tls_share_elsewhere, "bound to a share"),
    CASE(tls_share_with_era, "bound to a share"),
    CASE(tls_block, "cached block"),
    CASE(tls_rolling, "cached rolling block"),
    CASE(tls_scope, "cached scope block"),
    CASE(heap_state, "state 9"),
    CASE(heap_state_without_thread, "thread at"),
    CASE(heap_free_and_live, "is free and in use"),
    CASE(heap_free_with_blocks, "is free and in use"),
    CASE(heap_spares, "too many spare entries"),
    CASE(heap_blocks_loop, "a block at line"),
    CASE(block_kind, "a block of the other kind"),
    CASE(block_of_the_ended_open, "open to the fast paths"),
    CASE(block_closing_open, "open to the fast paths"),
    CASE(block_rolling, "of a rolling epoch"),
    CASE(block_rolling_closed, "of a rolling epoch"),
    CASE(block_allocator, "of one allocator"),
    CASE(free_block_in_use, "a free block"),
    CASE(free_scope_in_use, "a free block"),
    CASE(free_block_kind, "list of the other kind"),
    CASE(free_block_slabs, "is open, or has slabs"),
    CASE(free_block_open, "is open, or has slabs"),
    CASE(free_block_key, "is open, or has slabs"),
    CASE(free_block_magazine, "a magazine at line"),
    CASE(free_block_magazine_filled, "in a magazine"),
    CASE(bin_magazine_unnoted, "without a note of it"),
    CASE(bin_unused_head, "slabs and no magazine"),
    CASE(bin_unused_slabs, "slabs and no magazine"),
    CASE(bin_unused_word, "slabs and no magazine"),
    CASE(bin_too_few_slabs, "goes on after its"),
    CASE(bin_of_other_part, "in a bin"),
    CASE(bin_order, "comes after a full one"),
    CASE(bin_first_prev, "its first slab says"),
    CASE(bin_word_elsewhere, "of no place"),
    CASE(bin_word_of_the_ended, "of an ended thread"),
    CASE(magazine_of_other_block, "that is not the bin's"),
    CASE(slab_bit_of_no_slot, "bits of the free bitmap that are no slots"),
    CASE(slab_empty_while_closing, "still in a block that is closing"),
    CASE(scope_kind, "in a scope block"),
    CASE(scope_current_end, "objects are added to it"),
    CASE(scope_bump_before, "bump pointer"),
    CASE(scope_bump_behind, "bump pointer"),
    CASE(scope_bump_off_the_grid, "bump pointer"),
    CASE(scope_bump_limit, "bump pointer"),
    CASE(scope_bump_bits, "bump pointer"),
    CASE(scope_bump_missing, "a bump pointer without a slab"),
    CASE(scope_first_object, "no object starts at its beginning"),
    CASE(scope_started, "empty_at"),
    CASE(scope_empty, "empty, and still in its block"),
    CASE(scope_too_few_slabs, "goes on after its"),
    CASE(scope_too_many_slabs, "in a scope block's list"),
    CASE(scope_of_other_slab, "it comes after"),
    CASE(scope_loop, "in a block and in a block"),
    CASE(span_next, "is free and in a span"),
    CASE(span_index, "another epoch"),
    CASE(span_kind, "units"),
    CASE(span_prev, "prev is"),
    CASE(span_number, "its number is"),
    CASE(span_nothing, "0 units"),
    CASE(span_bytes, "units"),
    CASE(span_onto_another, "in a span"),
    CASE(span_count, "spans of"),
    CASE(span_byte_count, "spans of"),
    CASE(guarded_nothing, "0 bytes"),
    CASE(guarded_part_of_a_page, "bytes"),
    CASE(guarded_without_a_guard, "bytes"),
    CASE(epoch_dying, "pinned"),
    CASE(epoch_blocks_elsewhere, "list of its blocks is broken"),
    CASE(epoch_allocator_ended, "its allocator has ended"),
    CASE(domain_without_allocator, "its allocator has ended"),
    CASE(share_of_another, "has the share of another"),
    CASE(share_loop, "a share at line"),
    CASE(shares_elsewhere, "list of shares is broken"),
    CASE(shares_of_another, "list of shares is broken"),
    CASE(shares_allocator, ""),
    CASE(rolling_of_another, "its rolling epoch is another's"),
    CASE(retained_nowhere, "there is no unit"),
    CASE(retained_untaken, "was never taken"),
    CASE(retained_of_a_span, "belongs to somebody"),
    CASE(retained_zombie, "is a zombie, and somewhere else"),
    CASE(retained_zombie_queued, "is a zombie, and somewhere else"),
    CASE(allocator_retained, "retained list"),
    CASE(group_elsewhere, "group of retained units"),
    CASE(stuck_of_a_block, "among the spans whose guards stay, and has none"),
    CASE(retained_run_elsewhere, "the length of an extent"),
    CASE(retained_run_owned, "is in a retained run, and has an owner"),
    CASE(free_unit_owned, "is free, and its word is"),
    CASE(free_unit_zombie, "is a zombie, and somewhere else"),
    CASE(unit_lost, "units and 0 table entries are nobody's"),
    CASE(make_zombie, "pins"),
#undef CASE
};

static void each_change_is_found(void **state) {
    (void)state;
    ts_check check;
    unsigned missed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SUP_CHECK(ts_check_all(&check, false), "before %s: %s", cases[i].name, check.why);
        cases[i].apply();
        SUP_CHECK(differs(), "%s changes nothing", cases[i].name);
        bool found = !ts_check_all(&check, false);
        put_back();
        if (!found || strstr(check.why, cases[i].says) == NULL) {
            print_error("%s: %s \"%s\"\n", cases[i].name, found ? "says" : "not found", check.why);
            missed++;
        }
    }
    assert_int_equal(missed, 0);
}

static void nothing_wrong_is_found(void **state) {
    (void)state;
    ts_check check;
    SUP_CHECK(ts_check_all(&check, false), "%s", check.why);
    assert_true(check.heaps >= 2 && check.blocks >= 5 && check.slabs > 20 && check.spans == 4 &&
                check.retained_units > 0);
    assert_true(check.queued > 0 && check.retired_units == 0);
    /* To the walk an object on the queue is live until the drain; in the figures it counts as freed. */
    assert_int_equal(check.live, sup_live_objects(allocator) + sup_live_objects(second) + FOREIGN_FREES);
    SlabGlobalStats stats, more;
    assert_true(slab_stats_global(allocator, &stats) && slab_stats_global(second, &more));
    assert_int_equal(check.retained_units * TS_UNIT_BYTES, stats.retained_bytes + more.retained_bytes);
}

/* A slab that is nobody's and on a queue is accounted for. */
static void a_zombie_is_whole(void **state) {
    (void)state;
    ts_check check;
    make_zombie();
    ADD(record()->pins, 1);
    SUP_CHECK(ts_check_all(&check, false), "%s", check.why);
    assert_int_equal(check.zombies, 1);
    put_back();
    SUP_CHECK(ts_check_all(&check, false), "%s", check.why);
    assert_int_equal(check.zombies, 0);
}

/* In a child of fork a thread that was lost within a call may have had a slab. */
static void a_slab_in_lost_hands(void **state) {
    static void (*const changes[])(void) = {slab_word_flag, slab_foreign_bits};
    (void)state;
    ts_check check;
    ts_heap *other = ts_heaps();
    while (other == ts_thread.heap) other = other->next;
    for (unsigned lost = 0; lost < 2; lost++) {
        for (unsigned i = 0; i < sizeof changes / sizeof *changes; i++) {
            if (lost && ts_load_relaxed(&other->state) == TS_HEAP_ABANDONED && !other->listed_free)
                ADD(ts_heaps_abandoned, -1);
            if (lost) CHANGE(other->state, TS_HEAP_LOST);
            changes[i]();
            assert_int_equal(ts_check_all(&check, true), lost);
            put_back();
            SUP_CHECK(ts_check_all(&check, true), "%s", check.why);
        }
    }
}

/* Every thread's idling and end walks its own heap in a checked build; here the same walk alone. */
static void a_heap_alone(void **state) {
    (void)state;
    ts_check check = {.why = ""};
    ts_heap_enter(ts_thread.heap);
    SUP_CHECK(ts_check_heap(&check, ts_thread.heap), "%s", check.why);
    assert_true(check.blocks >= 4);
    bin_pops();
    assert_false(ts_check_heap(&check, ts_thread.heap));
    assert_non_null(strstr(check.why, "live objects"));
    put_back();
    for (unsigned which = 0; which < 2; which++) {
        CHANGE(mine()->spares[which], TS_SPARE_RECORDS + 1);
        assert_false(ts_check_heap(&check, ts_thread.heap));
        assert_non_null(strstr(check.why, "too many spare entries"));
        put_back();
    }
    (ts_check_heap_now)(ts_thread.heap);
    ts_heap_leave(ts_thread.heap);
}

static void walk_and_stop(void *argument) {
    (void)argument;
    scope_bytes();
    (ts_check_heap_now)(ts_thread.heap);
}

static void a_broken_heap_stops_the_process(void **state) {
    (void)state;
    char err[1024];
    int status = sup_child(walk_and_stop, NULL, SUP_CHILD_SECONDS, err, sizeof err);
    assert_true(status != 0);
    assert_non_null(strstr(err, "tslab: assertion failed: a scope block counts"));
}

static void a_checked_build_stops(void *argument) {
    (void)argument;
    ts_add_owned(&scope_block()->frees, 1);
    slab_thread_idle();
}

static void a_checked_build_walks_when_a_thread_idles(void **state) {
    (void)state;
#if TSLAB_ASSERT >= 3
    char err[1024];
    int status = sup_child(a_checked_build_stops, NULL, SUP_CHILD_SECONDS, err, sizeof err);
    assert_true(status != 0);
    assert_non_null(strstr(err, "tslab: assertion failed: a scope block counts"));
#else
    (void)a_checked_build_stops;
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_wrong_is_found, make, unmake),
        cmocka_unit_test_setup_teardown(each_change_is_found, make, unmake),
        cmocka_unit_test_setup_teardown(a_zombie_is_whole, make, unmake),
        cmocka_unit_test_setup_teardown(a_slab_in_lost_hands, make, unmake),
        cmocka_unit_test_setup_teardown(a_heap_alone, make, unmake),
        cmocka_unit_test_setup_teardown(a_broken_heap_stops_the_process, make, unmake),
        cmocka_unit_test_setup_teardown(a_checked_build_walks_when_a_thread_idles, make, unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
