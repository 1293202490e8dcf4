/*
 * The epoch or domain of a call ends, and goes to another thread, between two steps of the call. epoch.c, end.c,
 * domain.c, enter.c, domain_end.c and alloc.c are compiled once more, in place of the library's, with the places to
 * stop at.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"

#include "bins.h"
#include "cache/cache.h"
#include "domain/domain.h"
#include "epoch/epoch.h"
#include "errands.h"
#include "object/object.h"
#include "proc.h"
#include "stops.h"
#include "walk/check.h"

static sup_stop after_release, after_join, before_adopt, after_publish, after_label, before_id;
static _Thread_local bool stops; /* this thread does, the other one never */

static void pass(sup_stop *stop) {
    if (stops) sup_stop_here(stop);
}

#define ts_epoch_release(e) ((ts_epoch_release)(e), pass(&after_release))
#define ts_epoch_set_label(e, l) ((ts_epoch_set_label)((e), (l)), pass(&after_label))
#define ts_table_publish(e, i) ((ts_table_publish)((e), (i)), pass(&after_publish))
#define ts_table_next_id(t, e) (pass(&before_id), (ts_table_next_id)((t), (e)))
#include "epoch/end.c"
#include "epoch/epoch.c"
#include "epoch/hand_over.c"
#undef ts_epoch_set_label

static ts_block *join_and_stop(ts_heap *heap, ts_allocator *a, EpochId id) {
    ts_block *b = ts_epoch_join(heap, a, id);
    pass(&after_join);
    return b;
}

#define ts_epoch_join join_and_stop
#define ts_epoch_find_active(a, id) (pass(&before_id), (ts_epoch_find_active)((a), (id)))
#include "domain/domain.c"
#undef ts_epoch_find_active
#include "domain/domain_end.c"
#include "domain/enter.c"
#undef ts_epoch_release
#undef ts_table_publish
#undef ts_table_next_id
#define ts_epoch_adopt(h, e, id, c, any) (pass(&before_adopt), (ts_epoch_adopt)((h), (e), (id), (c), (any)))
#include "object/alloc.c"
#include "object/refill.c"
#undef ts_epoch_adopt
#undef ts_epoch_join

#include "fixture.h"
#include "pin.h"

enum { MANY = 400 };

static ts_allocator *record;
static EpochId epochs[MANY], epoch;
static EpochDomain *domain;
static ts_block *wanted;
static unsigned flags;

static int start(void **state) {
    (void)state;
    stops = true;
    allocator = slab_allocator_create();
    record = ts_allocator_find(ts_token(allocator));
    return record == NULL || ts_heap_mine() == NULL;
}

static void destroy_all(void) {
    for (unsigned i = 0; i < MANY; i++) {
        SUP_CHECK(epoch_destroy(allocator, epochs[i]), "epoch %u", i);
    }
}

/* Ended by the other thread, which cannot give them away. */
static void have_many_ended_blocks(void) {
    for (unsigned i = 0; i < MANY; i++) {
        epochs[i] = epoch_open(allocator, NULL, flags);
        SUP_CHECK(slab_malloc_epoch(allocator, 100, epochs[i]) != NULL, "epoch %u", i);
    }
    let(destroy_all);
}

static void find_wanted(void) {
    const ts_epoch *e = ts_epoch_find(record, epoch);
    wanted = e ? ts_load_relaxed(&e->blocks) : NULL;
    SUP_CHECK(wanted != NULL, "the epoch has no block");
}

/* Whether it is the next that this thread will use, if it ever can be. */
static bool take_until_wanted(void) {
    ts_block *const *list = flags == EPOCH_SCOPE ? &ts_thread.heap->free_scope : &ts_thread.heap->free_churn;
    for (unsigned i = 0; i < 64 && *list != wanted; i++) {
        EpochId other = epoch_open(allocator, NULL, flags);
        SUP_CHECK(slab_malloc_epoch(allocator, 100, other) != NULL, "slab_malloc_epoch");
    }
    return *list == wanted;
}

/* ---- the block that a thread has just joined with -------------------------------------------------------------- */

static void reset_epoch(void) {
    uint64_t units;
    find_wanted();
    SUP_CHECK(ts_epoch_reset(record, epoch, &units), "ts_epoch_reset");
}
static void let_reset_epoch(void) { let(reset_epoch); }

static void join_with_wanted(void) {
    if (take_until_wanted()) {
        SUP_CHECK(block_of(slab_malloc_epoch(allocator, 100, epoch)) == wanted, "another block");
    }
}
static void let_join_with_wanted(void) { let(join_with_wanted); }

/* A reset ends the block but not the epoch: the id that the block is open to does not say whose it is. */
static void reset_while_joined(void **state) {
    (void)state;
    flags = EPOCH_CHURN;
    begin();
    have_many_ended_blocks();
    epoch = epoch_open(allocator, NULL, flags);
    sup_stop_arm(&after_release, 1, let_reset_epoch); /* at the second release; the block is got at the first */
    sup_stop_arm(&after_join, 0, let_join_with_wanted);
    void *p = slab_malloc_epoch(allocator, 100, epoch);
    SUP_CHECK(sup_stop_disarm(&after_release) && sup_stop_disarm(&after_join), "not stopped");
    SUP_CHECK(p != NULL, "the epoch goes on, and there is no object");
    SUP_CHECK(ts_load_relaxed(&block_of(p)->heap) == ts_thread.heap, "an object in the block of another thread");
    end();
}

static void reset_domain(void) { SUP_CHECK(epoch_domain_reset(domain, 0), "epoch_domain_reset"); }
static void let_reset_domain(void) { let(reset_domain); }

/* A domain that another thread resets while slab_alloc joins it stays usable. */
static void domain_reset_while_joined(void **state) {
    (void)state;
    begin();
    domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
    assert_true(epoch_domain_enter(domain));
    sup_stop_arm(&after_join, 0, let_reset_domain);
    assert_non_null(slab_alloc(100));
    SUP_CHECK(sup_stop_disarm(&after_join), "not stopped");
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
    end();
}

static void end_domain(void) {
    epoch = epoch_domain_epoch(domain);
    find_wanted();
    epoch_domain_destroy(domain);
}
static void let_end_domain(void) { let(end_domain); }

static void use_wanted(void) {
    if (take_until_wanted()) {
        EpochId other = epoch_open(allocator, NULL, flags);
        SUP_CHECK(block_of(slab_malloc_epoch(allocator, 100, other)) == wanted, "another block");
    }
}
static void let_use_wanted(void) { let(use_wanted); }

static void domain_ended_while_joined(void **state) {
    (void)state;
    flags = EPOCH_SCOPE;
    begin();
    have_many_ended_blocks();
    domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
    assert_true(epoch_domain_enter(domain));
    sup_stop_arm(&after_release, 1, let_end_domain); /* at the second release */
    sup_stop_arm(&after_join, 0, let_use_wanted);
    assert_null(slab_alloc(100));
    SUP_CHECK(sup_stop_disarm(&after_release) && sup_stop_disarm(&after_join), "not stopped");
    void *p = slab_alloc(100);
    SUP_CHECK(!p, "an object in %s",
              ts_load_relaxed(&block_of(p)->heap) == ts_thread.heap ? "no domain" : "the block of another thread");
    assert_true(epoch_domain_exit(domain));
    end();
}

/* ---- the allocator ----------------------------------------------------------------------------------------------- */

static SlabAllocator *second;
static void leave_object(void) { SUP_CHECK(slab_malloc(second, 100) != NULL, "slab_malloc"); }
static void free_allocator(void) { slab_allocator_free(allocator); }
static void let_free_allocator(void) { let(free_allocator); }

/* An allocation that looks for a block to adopt goes on with its share afterwards. */
static void allocator_ends_while_adopting(void **state) {
    (void)state;
    second = slab_allocator_create();
    begin();
    let(leave_object);
    end(); /* a heap without a thread has a block */
    assert_true(ts_load_relaxed(&ts_heaps_abandoned) != 0);
    begin();
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    sup_stop_arm(&before_adopt, 0, let_free_allocator);
    assert_null(slab_malloc_epoch(allocator, 100, epoch));
    SUP_CHECK(sup_stop_disarm(&before_adopt), "not stopped");
    end();
    slab_allocator_free(second);
    static ts_check check;
    SUP_CHECK(ts_check_all(&check, false), "%s", check.why);
}

static void nothing_is_left(void) {
    static ts_check check;
    SUP_CHECK(ts_check_all(&check, false), "%s", check.why);
    for (uint32_t i = 1; i < ts_table_high(&ts_epochs); i++) {
        const ts_epoch *e = ts_table_at(&ts_epochs, i);
        SUP_CHECK(ts_load_relaxed(&e->record.id) == 0, "epoch %u of an ended allocator", i);
    }
    for (uint32_t i = 1; i < ts_table_high(&ts_domains); i++) {
        const ts_domain *d = ts_table_at(&ts_domains, i);
        SUP_CHECK(ts_load_relaxed(&d->record.id) == 0, "domain %u of an ended allocator", i);
    }
}

/* The end of the allocator comes before a new epoch or domain gets its id, or when it can be found and has not looked
   yet. */
static void allocator_ends_while_something_begins(void **state) {
    (void)state;
    enum { DOMAIN, DOMAIN_WITH_LABEL, EPOCH, HOW };
    static const unsigned places[HOW] = {2, 2, 1}; /* of an epoch's, or of an epoch's and a domain's */
    for (unsigned how = 0; how < HOW; how++) {
        for (unsigned place = 0; place < 2 * places[how]; place++) {
            sup_stop *to_end_at = place < places[how] ? &after_publish : &before_id;
            begin();
            epoch_domain_destroy(epoch_domain_create(allocator)); /* entries to spare, and a block */
            sup_stop_arm(to_end_at, place % places[how], let_free_allocator);
            errno = 0;
            switch (how) {
            case DOMAIN: assert_null(epoch_domain_create(allocator)); break;
            case DOMAIN_WITH_LABEL: assert_null(epoch_domain_create_ex(allocator, "a label", 0)); break;
            default: assert_int_equal(epoch_open(allocator, NULL, EPOCH_CHURN), EPOCH_NONE);
            }
            assert_int_equal(errno, EINVAL);
            SUP_CHECK(sup_stop_disarm(to_end_at), "not stopped");
            end();
            nothing_is_left();
            allocator = slab_allocator_create();
        }
    }
}

/* A domain of an epoch that is there begins under the epoch's lock: before the allocator's end takes that, or never. */
static void allocator_ends_while_an_epoch_is_wrapped(void **state) {
    (void)state;
    for (unsigned after = 0; after < 2; after++) {
        sup_stop *to_end_at = after ? &after_release : &before_id;
        begin();
        epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
        sup_stop_arm(to_end_at, 0, let_free_allocator);
        EpochDomain *wrapped = epoch_domain_wrap(allocator, epoch, true);
        SUP_CHECK(sup_stop_disarm(to_end_at), "not stopped");
        assert_int_equal(wrapped != NULL, after);
        assert_true(epoch_domain_epoch(wrapped) == EPOCH_NONE);
        end();
        nothing_is_left();
        allocator = slab_allocator_create();
    }
}

static EpochId last_epoch;
static uint64_t wrapped_last;
/* A thread that has found the allocator before its end. */
static void wrap_last(void) { wrapped_last = ts_domain_wrap(record, ts_token(allocator), last_epoch, TS_EPOCH_ENDS); }
static void let_wrap_last(void) { let(wrap_last); }

/* An epoch is wrapped between the ends of two epochs of the allocator. */
static void wrapped_while_epochs_end(void **state) {
    (void)state;
    begin();
    EpochId some[2] = {epoch_open(allocator, NULL, EPOCH_SCOPE), epoch_open(allocator, NULL, EPOCH_SCOPE)};
    last_epoch = some[ts_table_index(&ts_epochs, some[1]) > ts_table_index(&ts_epochs, some[0])];
    sup_stop_arm(&after_release, 0, let_wrap_last);
    slab_allocator_free(allocator);
    SUP_CHECK(sup_stop_disarm(&after_release), "not stopped");
    SUP_CHECK(wrapped_last != 0, "the epoch has ended already");
    end();
    nothing_is_left();
    allocator = slab_allocator_create();
}

/* Every epoch that can be found has its domain, and every domain its epoch. */
static void look_for_halves(void *unused) {
    (void)unused;
    EpochId found[8];
    size_t count = slab_epochs(allocator, found, 8);
    SUP_CHECK(count <= 1, "%zu epochs", count);
    for (size_t i = 0; i < count; i++)
        SUP_CHECK(!epoch_domain_wrap(allocator, found[i], true) && errno == EBUSY, "an epoch without its domain");
    for (uint32_t i = 1; i < ts_table_high(&ts_domains); i++) {
        const ts_domain *d = ts_table_at(&ts_domains, i);
        SUP_CHECK(ts_load_relaxed(&d->record.id) == 0 || ts_epoch_at_id(ts_load_relaxed(&d->epoch)),
                  "domain %u without its epoch", i);
    }
}
static unsigned forked;
static void fork_and_look_for_halves(void) {
    forked++;
    SUP_CHECK(sup_child(look_for_halves, NULL, SUP_CHILD_SECONDS, NULL, 0) == 0, "the child");
}
static void let_fork_and_look(void) { let(fork_and_look_for_halves); }

/* Another thread forks while this one makes a domain: the child has neither half without the other. */
static void forked_while_a_domain_is_made(void **state) {
    (void)state;
    sup_stop *const stop[] = {&before_id, &after_publish};
    for (unsigned how = 0; how < 3; how++) {
        forked = 0;
        for (unsigned at = 0; at < 6; at++) {
            begin();
            epoch_domain_destroy(epoch_domain_create(allocator));
            sup_stop_arm(stop[at % 2], at / 2, let_fork_and_look);
            domain = how == 0 ? epoch_domain_create(allocator)
                              : epoch_domain_create_ex(allocator, "a label", how == 1 ? 0 : EPOCH_DOMAIN_SHARED);
            assert_non_null(domain);
            (void)sup_stop_disarm(stop[at % 2]);
            epoch_domain_destroy(domain);
            end();
        }
        assert_in_range(forked, 4, 6);
    }
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
    allocator = slab_allocator_create();
}

static EpochDomain *taken[TS_SPARE_RECORDS];
static void end_and_take(void) {
    slab_allocator_free(allocator);
    for (unsigned i = 0; i < TS_SPARE_RECORDS; i++) {
        taken[i] = epoch_domain_create(second);
    }
}
static void let_end_and_take(void) { let(end_and_take); }
static void give_taken(void) {
    for (unsigned i = 0; i < TS_SPARE_RECORDS; i++) {
        epoch_domain_destroy(taken[i]);
    }
}

/* The domain can be found before its epoch can: it ends with the allocator, its entry waits for this thread while
   others make domains, and the epoch ends nevertheless. */
static void domains_entry_waits(void **state) {
    (void)state;
    second = slab_allocator_create();
    begin();
    epoch_domain_destroy(epoch_domain_create(allocator));
    const ts_heap *heap = ts_thread.heap;
    const void *spare = heap->spare[TS_TABLE_DOMAIN][heap->spares[TS_TABLE_DOMAIN] - 1];
    sup_stop_arm(&after_publish, 0, let_end_and_take);
    errno = 0;
    assert_null(epoch_domain_create(allocator));
    assert_int_equal(errno, EINVAL);
    SUP_CHECK(sup_stop_disarm(&after_publish), "not stopped");
    for (unsigned i = 0; i < TS_SPARE_RECORDS; i++) {
        assert_ptr_not_equal(ts_domain_find((uint64_t)(uintptr_t)taken[i]), spare);
    }
    let(give_taken);
    EpochDomain *labelled = epoch_domain_create_ex(second, "not the usual one", 0);
    assert_ptr_equal(ts_domain_find((uint64_t)(uintptr_t)labelled), spare);
    epoch_domain_destroy(labelled);
    sup_check_empty(second);
    slab_allocator_free(second);
    end();
    nothing_is_left();
    allocator = slab_allocator_create();
}

static void exchange_allocators(void) {
    slab_allocator_free(allocator);
    second = slab_allocator_create();
}
static void let_exchange_allocators(void) { let(exchange_allocators); }

/* Its record has its next use before the epoch can be found: the epoch is in no allocator. */
static void record_in_use_again_while_an_epoch_opens(void **state) {
    (void)state;
    begin();
    sup_stop_arm(&after_label, 0, let_exchange_allocators);
    errno = 0;
    assert_int_equal(epoch_open(allocator, "a label", EPOCH_CHURN), EPOCH_NONE);
    assert_int_equal(errno, EINVAL);
    SUP_CHECK(sup_stop_disarm(&after_label), "not stopped");
    SUP_CHECK(ts_allocator_find(ts_token(second)) == record, "another record");
    sup_check_empty(second);
    SlabGlobalStats stats;
    assert_true(slab_stats_global(second, &stats));
    assert_int_equal(stats.active_epoch_count, 0);
    slab_allocator_free(second);
    end();
    allocator = slab_allocator_create();
}

/* ---- ended blocks without a join or a destroy -------------------------------------------------------------------- */

static void drained_by_its_own_frees(void **state) {
    static void *objects[MANY];
    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        epochs[i] = epoch_open(allocator, NULL, EPOCH_CHURN);
        objects[i] = slab_malloc_epoch(allocator, 100, epochs[i]);
        SUP_CHECK(objects[i] && epoch_close(allocator, epochs[i]), "epoch %u", i);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_true(slab_free(allocator, objects[i]));
    }
    assert_in_range(ts_load_relaxed(&ts_thread.heap->free_blocks[0]), 0, TS_FREE_CHURN_BLOCKS);
}

/* ---- the entry's next use while blocks of the last one are taken apart ------------------------------------------ */

static SlabAllocator *another;
static ts_epoch *entry;
static bool refuses;
static bool barrier_unless_refused(void) { return !refuses && ts_os_native.barrier_all(); }

static void join_epoch(void) { SUP_CHECK(slab_malloc_epoch(allocator, 100, epoch) != NULL, "slab_malloc_epoch"); }

static void use_entry_again(void) {
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    EpochId next = epoch_open(another, NULL, EPOCH_CHURN);
    SUP_CHECK(ts_epoch_at_id(next) == entry, "another entry");
}
static void let_use_entry_again(void) { let(use_entry_again); }
static void answer_the_call(void) { slab_thread_idle(); }

/* The last unpin leaves a block to its thread, which pins the block's allocator, not that of the entry's next use. */
static void entry_in_use_again_at_the_last_unpin(void **state) {
    (void)state;
    static ts_os_table table;
    ts_block *blocks;
    uint64_t units;
    table = ts_os_native;
    table.barrier_all = barrier_unless_refused;
    ts_os = &table;
    begin();
    another = slab_allocator_create();
    const ts_allocator *of_another = ts_allocator_find(ts_token(another));
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    entry = ts_epoch_at_id(epoch);
    let(join_epoch);
    assert_ptr_equal(sup_epoch_pin(record, epoch, &blocks), entry);
    assert_true(ts_epoch_reset(record, epoch, &units));
    uint64_t pins = ts_load_relaxed(&record->pins), theirs = ts_load_relaxed(&of_another->pins);
    refuses = true;
    sup_stop_arm(&after_release, 0, let_use_entry_again);
    ts_epoch_unpin(entry);
    assert_true(sup_stop_disarm(&after_release));
    refuses = false;
    assert_int_equal(ts_load_relaxed(&of_another->pins), theirs);
    assert_int_equal(ts_load_relaxed(&record->pins), pins + 1);
    let(answer_the_call);
    assert_int_equal(ts_load_relaxed(&record->pins), pins);
    end();
    slab_allocator_free(another);
    ts_os = &ts_os_native;
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(reset_while_joined),
        WITH(domain_reset_while_joined),
        WITH(domain_ended_while_joined),
        WITH(allocator_ends_while_adopting),
        WITH(drained_by_its_own_frees),
        WITH(allocator_ends_while_something_begins),
        WITH(allocator_ends_while_an_epoch_is_wrapped),
        WITH(wrapped_while_epochs_end),
        WITH(forked_while_a_domain_is_made),
        WITH(domains_entry_waits),
        WITH(record_in_use_again_while_an_epoch_opens),
        WITH(entry_in_use_again_at_the_last_unpin),

    };
    return cmocka_run_group_tests_name("epoch.ended_steps", tests, NULL, NULL);
}
