/*
 * The deep walk finds nothing wrong in a process that uses everything, and finds each structure that is changed by
 * hand: one word at a time, put back afterwards.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "../heap/bins.h"
#include "epoch/check.h"
#include "epoch/domain.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MANY = 3000 };
static SlabAllocator *allocator;
static EpochId churn, scope, closing;
static void *objects[MANY], *small, *scoped[MANY], *span, *left;
static EpochDomain *domain;

/* ---- what there is to look at ------------------------------------------------------------------------------- */

static void nothing(void *argument) { (void)argument; }

#define FOREIGN_FREES 10

/* Leaves a block behind, and foreign frees on the queue of the first thread. */
static void *other_thread(void *argument) {
    left = slab_malloc_epoch(allocator, 200, churn);
    for (int i = 0; i < FOREIGN_FREES; i++) SUP_CHECK(slab_free(allocator, objects[i * 7]), "a foreign free");
    return argument;
}

static int make(void **state) {
    (void)state;
    pthread_t thread;
    allocator = slab_allocator_create();
    churn = epoch_open(allocator, "churn", EPOCH_CHURN);
    scope = epoch_open(allocator, "scope", EPOCH_SCOPE);
    closing = epoch_open(allocator, "closing", EPOCH_CHURN);
    for (int i = 0; i < MANY; i++) {
        objects[i] = slab_malloc_epoch(allocator, 112, churn);
        scoped[i] = slab_malloc_epoch(allocator, 40, scope);
        if (!objects[i] || !scoped[i]) return 1;
    }
    /* A ring that is full, and slabs with free slots and without. */
    for (int i = 1; i < MANY; i += 3) {
        if (i % 7 != 0 && !slab_free(allocator, objects[i])) return 1;
    }
    if (!slab_free(allocator, scoped[5]) || !slab_malloc_epoch(allocator, 300, closing)) return 1;
    small = slab_malloc_epoch(allocator, 48, churn);
    span = slab_malloc_epoch(allocator, 100000, churn);
    void *second = slab_malloc_epoch(allocator, 100000, churn);
    void *third = slab_malloc_epoch(allocator, 60000, churn);
    if (!slab_free(allocator, slab_malloc_epoch(allocator, 50000, churn)) || !second || !third) return 1;
    /* Warm units. */
    EpochId ended = epoch_open(allocator, NULL, EPOCH_SCOPE);
    for (int i = 0; i < MANY; i++) (void)slab_malloc_epoch(allocator, 100, ended);
    if (!epoch_destroy(allocator, ended) || !epoch_close(allocator, closing)) return 1;
    domain = epoch_domain_create(allocator);
    if (!epoch_domain_enter(domain) || !slab_alloc(10) || !epoch_domain_on_destroy(domain, nothing, NULL)) return 1;
    if (!slab_malloc(allocator, 100)) return 1;
    return pthread_create(&thread, NULL, other_thread, NULL) || pthread_join(thread, NULL);
}

static int unmake(void **state) {
    (void)state;
    epoch_domain_destroy(domain);
    slab_allocator_free(allocator);
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

static void *changed;
static uint64_t before;
static size_t changed_bytes;

static void change(void *at, size_t bytes, uint64_t value) {
    changed = at;
    changed_bytes = bytes;
    memcpy(&before, at, bytes);
    memcpy(at, &value, bytes); /* the low bytes are what is meant on either order for the values used here */
}

#define ADD(field, n) CHANGE(field, (field) + (n))
#define CHANGE(field, to)                                             \
    do {                                                              \
        uint64_t value_ = (uint64_t)(to);                             \
        if (sizeof(field) == 4) {                                     \
            uint32_t v_ = (uint32_t)value_;                           \
            memcpy(&value_, &v_, 4);                                  \
        } else if (sizeof(field) == 2) {                              \
            uint16_t v_ = (uint16_t)value_;                           \
            memcpy(&value_, &v_, 2);                                  \
        } else if (sizeof(field) == 1) {                              \
            uint8_t v_ = (uint8_t)value_;                             \
            memcpy(&value_, &v_, 1);                                  \
        }                                                             \
        change((void *)(uintptr_t) & (field), sizeof(field), value_); \
    } while (0)

/* The first free run of the pool. */
static ts_run *free_run(void) {
    uint32_t high = ts_pool_high(TS_NORMAL);
    for (uint32_t i = 1; i < high; i++)
        if (ts_region.run[i].length > 1) return &ts_region.run[i];
    SUP_CHECK(false, "no free run");
    return NULL;
}

static void pool_length(void) { ADD(free_run()->length, 1); }
static void pool_end_tag(void) {
    ts_run *r = free_run();
    ADD(r[r->length - 1].length, 1);
}
static void pool_tag_inside(void) { CHANGE(free_run()[-1].length, 1); }
static void pool_prev(void) { CHANGE(free_run()->prev, 3); }
static void table_id(void) { ADD(epoch_of(churn)->entry.id, (uint64_t)1 << ts_epochs.index_bits); }
static void table_index(void) { ADD(epoch_of(churn)->entry.index, 1); }
static void table_era(void) { CHANGE(epoch_of(churn)->entry.era, 0); }
static void table_free_list(void) { CHANGE(ts_domains.free_head, ts_table_high(&ts_domains) + 5); }
static void table_spare(void) { CHANGE(ts_thread.heap->spare[0][0]->id, 77); }
static void heap_block_list(void) { CHANGE(ts_thread.heap->blocks->heap_prev, (uintptr_t)ts_thread.heap->blocks); }
static void heap_block_lost(void) { CHANGE(ts_thread.heap->blocks, (uintptr_t)ts_thread.heap->blocks->heap_next); }
static void heap_revoked(void) { CHANGE(ts_thread.heap->revoked, 1); }
static void heap_in_operation(void) { CHANGE(ts_thread.in_op, 1); }
static void heap_token(void) { ADD(ts_thread.token, 1); }
static void heap_abandoned_count(void) { ADD(ts_heaps_abandoned, 1); }
static void heap_queue(void) { CHANGE(ts_thread.heap->queue, 0); }
static void heap_queue_loop(void) {
    uint32_t unit = (uint32_t)ts_load_relaxed(&ts_thread.heap->queue);
    CHANGE(ts_slab_at(unit)->queue_next, unit);
}
static void heap_condemned(void) { CHANGE(ts_thread.heap->condemned, (uintptr_t)churn_block()); }
static void block_slabs(void) { ADD(churn_block()->b.slabs, 1); }
static void block_key(void) { ADD(churn_block()->b.key, 1); }
static void block_owner(void) { ADD(churn_block()->b.key, (uint64_t)1 << 32); }
static void block_open(void) { CHANGE(churn_block()->b.open_id, scope); }
static void block_epoch(void) { CHANGE(churn_block()->b.epoch, (uintptr_t)epoch_of(scope)); }
static void block_heap(void) { CHANGE(churn_block()->b.heap, (uintptr_t)block_of(left)->heap); }
static void block_share(void) { CHANGE(churn_block()->b.share, (uintptr_t)block_of(left)->share); }
static void block_closing(void) { CHANGE(churn_block()->b.closing, TS_CLOSING); }
static void block_flushed(void) { CHANGE(churn_block()->b.flushed, 1); }
static void block_of_closed_epoch_open(void) { CHANGE(epoch_of(closing)->blocks->open_id, closing); }
static void bin_slabs(void) { ADD(bin_of_objects()->slabs, 1); }
static void bin_full(void) { ADD(bin_of_objects()->full, 1); }
static void bin_empty(void) { ADD(churn_block()->empty[ts_classes.of[112 / 16]], 1); }
static void bin_pops(void) { ADD(bin_of_objects()->word_allocs, 1); }
static void bin_pushes(void) { ADD(bin_of_objects()->direct_frees, 1); }
static void bin_head(void) { CHANGE(bin_of_objects()->head, ts_slab_at(bin_of_objects()->head)->next); }
static void bin_next(void) { CHANGE(ts_slab_at(bin_of_objects()->head)->next, bin_of_objects()->head); }
static void bin_prev(void) { ADD(ts_slab_at(ts_slab_at(bin_of_objects()->head)->next)->prev, 1); }
static void bin_word(void) { CHANGE(bin_of_objects()->word, bin_of_objects()->word ^ 1); }
static char **ring_top(unsigned below) {
    ts_bin *bin = bin_of_objects();
    char **place = &bin->ring[(bin->pushes - bin->pops - below) & (TS_RING_SLOTS - 1)];
    SUP_CHECK(*place != NULL, "the ring is not full");
    return place;
}
static void ring_gap(void) { CHANGE(*ring_top(1), 0); }
static void ring_twice(void) { CHANGE(*ring_top(0), (uintptr_t)*ring_top(1)); }
static void ring_interior(void) { CHANGE(*ring_top(0), (uintptr_t)*ring_top(0) + 16); }
static void ring_foreign(void) { CHANGE(*ring_top(0), (uintptr_t)&allocator); }
static void ring_of_other_bin(void) { CHANGE(*ring_top(0), (uintptr_t)left); }
static void ring_live(void) { CHANGE(*ring_top(0), (uintptr_t)objects[0]); }
static void ring_place(void) { CHANGE(bin_of_objects()->ring, (uintptr_t)bin_of_objects()->ring + 8); }
static void state_dead(void) { CHANGE(*state_of(objects[2]), *state_of(objects[2]) & ~TS_STATE_LIVE); }
static void state_alive(void) { CHANGE(*state_of(*ring_top(0)), *state_of(*ring_top(0)) | TS_STATE_LIVE); }
static void state_start(void) { CHANGE(*state_of(objects[2]), *state_of(objects[2]) ^ 2u); }
static void state_retired(void) {
    CHANGE(*state_of(objects[2]), TS_STATE_RETIRED | (*state_of(objects[2]) & ~TS_STATE_LIVE));
}
static void state_no_slot(void) {
    uint64_t entry;
    uint32_t unit = unit_of(small, &entry);
    const ts_part *part = &ts_region.part[TS_SMALL];
    CHANGE(part->state[(uint64_t)ts_unit_in_part(unit) * TS_STATES_SMALL + 1], 1); /* slots begin at every third */
}
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
static void scope_bump(void) { CHANGE(scope_block()->bump, (uintptr_t)ts_load_relaxed(&scope_block()->bump) - 64); }
static void scope_allocs(void) { ADD(scope_block()->allocs, 1); }
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
static void epoch_allocator(void) { CHANGE(epoch_of(scope)->allocator, 0); }
static ts_share *my_share(void) { return churn_block()->b.share; }
static void share_counter(void) { ADD(my_share()->count[3].allocated, 1); }
static void share_list(void) { CHANGE(record()->shares, (uintptr_t)record()->shares->allocator_next); }
static void warm_count(void) { ADD(my_share()->warm[TS_NORMAL].count, 1); }
static void warm_short(void) { ADD(my_share()->warm[TS_NORMAL].count, -1); }
static void warm_tail(void) { ADD(my_share()->warm[TS_NORMAL].tail, 1); }
static void warm_loop(void) {
    uint32_t head = my_share()->warm[TS_NORMAL].head;
    CHANGE(ts_slab_at(head)->next, head);
}
static void warm_owned(void) {
    uint64_t entry;
    uint64_t word = ts_load_relaxed(word_of(objects[0])) & ~TS_UNIT_FOREIGN;
    (void)unit_of(objects[0], &entry);
    CHANGE(*ts_unit_word(my_share()->warm[TS_NORMAL].head), word);
}
static void warm_spans(void) { ADD(record()->span_warm_units, 1); }
static void warm_span_list(void) { CHANGE(record()->span_warm[4], 0); }
static void allocator_committed(void) { ADD(record()->committed_units, 1); }
static void allocator_pins(void) { ADD(record()->pins, 1); }
static void domain_busy(void) { CHANGE(ts_domain_find((uintptr_t)domain)->busy, 1); }
static void domain_cleanups(void) { CHANGE(ts_domain_find((uintptr_t)domain)->cleanups, (uintptr_t)my_share()); }
static void domain_allocator(void) { ADD(ts_domain_find((uintptr_t)domain)->token, 1); }
static void domain_scope(void) { CHANGE(ts_thread.domain, (uintptr_t)ts_thread.heap); }

static const struct {
    const char *name;
    void (*apply)(void);
    const char *says;
} cases[] = {
#define CASE(fn, text) \
    { #fn, fn, text }
    CASE(pool_length, "pool"),
    CASE(pool_end_tag, "pool: a run with two lengths"),
    CASE(pool_tag_inside, "two runs that touch"),
    CASE(pool_prev, "pool: a list that is broken"),
    CASE(table_id, "table of epochs"),
    CASE(table_index, "table of epochs"),
    CASE(table_era, "table of epochs"),
    CASE(table_free_list, "table of domains"),
    CASE(table_spare, "table of epochs"),
    CASE(heap_block_list, "the list of its blocks"),
    CASE(heap_block_lost, "the list of its blocks"),
    CASE(heap_revoked, "revoked"),
    CASE(heap_in_operation, "inside of an operation"),
    CASE(heap_token, "bound to a share"),
    CASE(heap_abandoned_count, "counted"),
    CASE(heap_queue, "no queue"),
    CASE(heap_queue_loop, "twice"),
    CASE(heap_condemned, "condemned block is alive"),
    CASE(block_slabs, "the block counts"),
    CASE(block_key, "dead"),
    CASE(block_owner, "open to the fast paths"),
    CASE(block_open, "a block is open to"),
    CASE(block_epoch, "block of another"),
    CASE(block_heap, "block of another"),
    CASE(block_share, "share of another"),
    CASE(block_closing, "closing"),
    CASE(block_flushed, "flushed"),
    CASE(block_of_closed_epoch_open, "a block is open to"),
    CASE(bin_slabs, "counted"),
    CASE(bin_full, "full slabs"),
    CASE(bin_empty, "empty slabs"),
    CASE(bin_pops, "live objects"),
    CASE(bin_pushes, "live objects"),
    CASE(bin_head, ""),
    CASE(bin_next, "in a block and in a block"),
    CASE(bin_prev, "prev is"),
    CASE(bin_word, "claimed word"),
    CASE(ring_gap, "gap"),
    CASE(ring_twice, "twice in the ring"),
    CASE(ring_interior, "no slot"),
    CASE(ring_foreign, "no place of its part"),
    CASE(ring_of_other_bin, ""),
    CASE(ring_live, "live 1"),
    CASE(ring_place, "not in the lines"),
    CASE(state_dead, "live 0"),
    CASE(state_alive, "live 1"),
    CASE(state_start, "state word"),
    CASE(state_retired, "empty_at"),
    CASE(state_no_slot, "no slots"),
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
    CASE(epoch_allocator, "allocator has ended"),
    CASE(share_counter, "blocks that have ended"),
    CASE(share_list, "shares"),
    CASE(warm_count, "warm list"),
    CASE(warm_short, "warm list"),
    CASE(warm_tail, "tail"),
    CASE(warm_loop, "warm and warm"),
    CASE(warm_owned, "belongs to somebody"),
    CASE(warm_spans, "warm spans"),
    CASE(warm_span_list, "warm spans"),
    CASE(allocator_committed, "committed"),
    CASE(allocator_pins, "pins"),
    CASE(domain_busy, "being ended"),
    CASE(domain_cleanups, "a cleanup"),
    CASE(domain_allocator, "allocator has ended"),
    CASE(domain_scope, "a domain entered"),
#undef CASE
};

static void each_change_is_found(void **state) {
    (void)state;
    ts_check check;
    unsigned missed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SUP_CHECK(ts_check_all(&check, false), "before %s: %s", cases[i].name, check.why);
        cases[i].apply();
        SUP_CHECK(memcmp(changed, &before, changed_bytes) != 0, "%s changes nothing", cases[i].name);
        bool found = !ts_check_all(&check, false);
        memcpy(changed, &before, changed_bytes);
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
    assert_true(check.heaps >= 2 && check.blocks >= 5 && check.slabs > 20 && check.spans == 3 && check.warm_units > 0);
    assert_true(check.queued > 0 && check.retired_units == 0);
    /* To the walk, what is on the queue is live until it is drained; in the figures it counts as freed. */
    assert_int_equal(check.live, sup_live_objects(allocator) + FOREIGN_FREES);
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    assert_int_equal(check.warm_units * TS_UNIT_BYTES, stats.retained_bytes);
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
    memcpy(changed, &before, changed_bytes);
    ts_heap_leave(ts_thread.heap);
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
        cmocka_unit_test_setup_teardown(a_heap_alone, make, unmake),
        cmocka_unit_test_setup_teardown(a_checked_build_walks_when_a_thread_idles, make, unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
