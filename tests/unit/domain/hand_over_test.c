/*
 * A domain that is handed over from thread to thread holds the blocks of one thread, however many had it. Meanwhile
 * there are frees by its last owner, its allocations by the epoch's id, ends, limits, marks, a fork.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "actors.h"
#include "check.h"
#include "identities.h"
#include "pattern.h"
#include "proc.h"
#include "unit.h"

#include "api/runtime.h"
#include "cache/cache.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "os/os.h"
#include "region/region.h"
#include "supply/supply.h"
#include "walk/check_pool.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 16, OBJECTS = 3 };

static SlabAllocator *allocator;
static EpochDomain *domain;
static EpochId epoch;

/* Threads that all live, and run one at a time. */
static sup_actor walkers[THREADS];
static void (*to_do)(unsigned);

static void run_order(void) { to_do((unsigned)(sup_me - walkers)); }

static void let(unsigned i, void (*fn)(unsigned)) {
    to_do = fn;
    sup_actor_let(&walkers[i], run_order);
}

static int start(void **state) {
    (void)state;
    allocator = slab_allocator_create();
    for (unsigned i = 0; i < THREADS; i++) sup_actor_begin(&walkers[i]);
    return allocator == NULL;
}

static void end_all(void) {
    for (unsigned i = 0; i < THREADS; i++) sup_actor_end(&walkers[i]);
}

static int stop(void **state) {
    (void)state;
    end_all();
    sup_check_identities(allocator);
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
    return ts_pool_used_units() != 0;
}

static size_t size;
static unsigned char *objects[THREADS][OBJECTS];

static void add(unsigned i) {
    SUP_CHECK(epoch_domain_enter(domain), "enter");
    for (unsigned k = 0; k < OBJECTS; k++) {
        objects[i][k] = slab_alloc(size);
        SUP_CHECK(objects[i][k] != NULL, "an object of %zu bytes", size);
        sup_pattern_fill(objects[i][k], size, i * OBJECTS + k);
    }
    SUP_CHECK(epoch_domain_exit(domain), "exit");
}

static void give(unsigned i) {
    (void)i;
    SUP_CHECK(epoch_domain_hand_over(domain), "hand over");
}

static void add_and_give(unsigned i) {
    add(i);
    give(i);
}

static void make_scope(unsigned i) {
    (void)i;
    domain = epoch_domain_create(allocator);
    epoch = epoch_domain_epoch(domain);
}
static void make_churn(unsigned i) {
    (void)i;
    domain = epoch_domain_create_ex(allocator, NULL, EPOCH_CHURN);
    epoch = epoch_domain_epoch(domain);
}
static void take(unsigned i) {
    (void)i;
    SUP_CHECK(epoch_domain_enter(domain) && epoch_domain_exit(domain), "enter");
}
static void destroy(unsigned i) {
    (void)i;
    epoch_domain_destroy(domain);
}

static ts_block *first_block(void) { return ts_load_relaxed(&ts_epoch_at_id(epoch)->blocks); }
static unsigned count_blocks(void) {
    unsigned n = 0;
    for (const ts_block *b = first_block(); b; b = ts_load_relaxed(&b->epoch_next)) n++;
    return n;
}
static uint64_t count_slabs(void) {
    uint64_t n = 0;
    for (const ts_block *b = first_block(); b; b = ts_load_relaxed(&b->epoch_next)) n += ts_load_relaxed(&b->slabs);
    return n;
}

static void check_objects(void) {
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned k = 0; k < OBJECTS; k++)
            SUP_CHECK(sup_pattern_check(objects[i][k], size, i * OBJECTS + k), "object %u of thread %u", k, i);
}

static void wander(void (*make)(unsigned), unsigned blocks, uint64_t slabs) {
    let(0, make);
    for (unsigned i = 0; i < THREADS; i++) let(i, add_and_give);
    check_objects();
    SUP_CHECK(count_blocks() <= blocks && count_slabs() <= slabs, "%u blocks, %llu slabs of objects of %zu bytes",
              count_blocks(), (unsigned long long)count_slabs(), size);
    sup_check_identities(allocator);
    let(THREADS - 1, take);
    assert_ptr_equal(ts_load_relaxed(&first_block()->heap), walkers[THREADS - 1].heap);
    sup_check_identities(allocator);
    let(THREADS - 1, destroy);
}

static void one_block_for_all(void **state) {
    (void)state;
    size = 64;
    wander(make_scope, 1, 1);
    wander(make_churn, 1, 1);
    ts_pieces_after = 0;
    wander(make_scope, 1, 6);
    ts_pieces_after = TS_PIECES_AFTER;
    size = 1000;
    wander(make_scope, 1, 4);
    /* The first slab's, and that with bins. */
    wander(make_churn, 2, 5);
}

/* It goes on by the epoch's id, in a block of its own. */
static void allocate_by_id(unsigned i) {
    SlabHandle handle;
    void *p[4] = {slab_malloc_epoch(allocator, size, epoch), alloc_obj_epoch(allocator, size, epoch, &handle),
                  slab_aligned_epoch(allocator, 64, size, epoch), slab_malloc_epoch(allocator, size, epoch)};
    for (unsigned k = 0; k < 4; k++) {
        ts_object object;
        SUP_CHECK(p[k] && ts_object_at(ts_token(allocator), p[k], &object), "an object");
        SUP_CHECK(ts_load_relaxed(&object.block->heap) == walkers[i].heap, "in another thread's block");
        if (k < 3) SUP_CHECK(slab_free(allocator, p[k]), "slab_free");
    }
}

static void use_by_id(unsigned i) {
    void *p = slab_malloc_epoch(allocator, size, epoch);
    SUP_CHECK(p && slab_free(allocator, p), "an object");
    add(i);
    p = slab_malloc_epoch(allocator, size, epoch);
    SUP_CHECK(p && slab_free(allocator, p), "an object");
}

static void the_giver_goes_on(void **state) {
    (void)state;
    size = 200;
    for (unsigned kind = 0; kind < 4; kind++) {
        size = kind < 2 ? 200 : kind == 2 ? 3000 : 8000;
        let(0, kind % 2 ? make_churn : make_scope);
        let(0, use_by_id);
        let(0, give);
        let(1, add);
        let(0, allocate_by_id);
        SUP_CHECK(count_blocks() >= 2, "the giver has a block of its own");
        let(1, allocate_by_id);
        sup_check_identities(allocator);
        let(1, destroy);
    }
}

/* The thread's first block, in one epoch after the other: each leaves a hint in another place. */
static EpochId between[4];
static void use_in_turn(unsigned i) {
    for (unsigned k = 0; k < 4; k++) {
        make_scope(i);
        add(i);
        epoch_domain_destroy(domain);
        between[k] = epoch_open(allocator, NULL, EPOCH_CHURN); /* takes the entry of that epoch */
    }
    make_scope(i);
    add(i);
}

static void no_hint_is_left(void **state) {
    (void)state;
    size = 100;
    let(0, use_in_turn);
    const ts_block *block = first_block();
    unsigned before = 0, after = 0;
    for (unsigned i = 0; i < TS_HEAP_MAP; i++)
        before += (const void *)walkers[0].heap->scope_map[i] == (const void *)block;
    let(0, give);
    for (unsigned i = 0; i < TS_HEAP_MAP; i++)
        after += (const void *)walkers[0].heap->scope_map[i] == (const void *)block;
    SUP_CHECK(before > 1 && after == 0, "%u hints before, %u after", before, after);
    let(1, take);
    let(1, destroy);
    for (unsigned k = 0; k < 4; k++) assert_true(epoch_destroy(allocator, between[k]));
}

static void free_all(unsigned i) {
    for (unsigned k = 0; k < OBJECTS; k++) {
        SUP_CHECK(slab_free(allocator, objects[0][k]), "thread %u frees", i);
        SUP_CHECK(!slab_free(allocator, objects[0][k]), "thread %u frees twice", i);
    }
}

/* By the giver, while the domain is nobody's, and when it is another's; by the next thread, whose own they are; and by
   one that never had it. */
static void frees(void **state) {
    (void)state;
    size = 300;
    for (unsigned kind = 0; kind < 2; kind++) {
        for (unsigned who = 0; who < 3; who++) {
            for (unsigned taken = 0; taken < 2; taken++) {
                let(0, kind ? make_churn : make_scope);
                let(0, add);
                let(0, give);
                if (taken) let(1, take);
                let(who, free_all);
                if (!taken) let(1, take);
                SUP_CHECK(taken && who != 1 ? true : sup_live_objects(allocator) == 0, "live objects");
                sup_check_identities(allocator);
                let(1, destroy);
                SUP_CHECK(sup_live_objects(allocator) == 0, "live objects");
            }
        }
    }
}

/* Ends of a domain that is nobody's: each has its objects gone, and leaves nothing. */
static void end_domain(unsigned i) {
    (void)i;
    SUP_CHECK(epoch_domain_end(domain), "end");
}
static void close_domain(unsigned i) {
    SUP_CHECK(epoch_domain_force_close(domain), "close");
    for (unsigned k = 0; k < OBJECTS; k++) SUP_CHECK(slab_free(allocator, objects[0][k]), "slab_free");
    (void)i;
}

static void ends(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        for (size = 100; size <= 5000; size += 4900) {
            let(0, kind ? make_churn : make_scope);
            let(0, add_and_give);
            let(1, end_domain);
            SUP_CHECK(sup_live_objects(allocator) == 0, "live objects");
            let(0, kind ? make_churn : make_scope);
            let(0, add_and_give);
            let(1, close_domain);
            SUP_CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSED, "its last object is freed");
            let(2, end_domain);
            sup_check_identities(allocator);
        }
    }
}

/* Its allocator goes while it is nobody's, and another comes. */
static void without_its_allocator(void **state) {
    (void)state;
    size = 100;
    for (unsigned again = 0; again < 5; again++) {
        let(0, again % 2 ? make_churn : make_scope);
        let(0, add_and_give);
        slab_allocator_free(allocator);
        allocator = slab_allocator_create();
        assert_non_null(allocator);
        sup_check_identities(allocator);
    }
}

/* The heap where it would wait is held by another thread: the block stays where it is, and the next thread gets one of
   its own. */
static void while_that_heap_is_held(void **state) {
    (void)state;
    size = 100;
    let(0, make_scope);
    let(0, add);
    let(0, give);
    ts_heap *home = ts_load_relaxed(&first_block()->heap);
    assert_true(home->is_threadless && home != walkers[0].heap);
    assert_true(ts_heap_hold(home));
    let(1, add); /* it cannot have that one now */
    let(1, give);
    ts_heap_drop(home);
    SUP_CHECK(count_blocks() == 2, "%u blocks", count_blocks());
    sup_check_identities(allocator);
    let(0, take);
    let(0, add);
    let(0, destroy);
    let(0, make_scope);
    let(0, add);
    assert_true(ts_heap_hold(home));
    let(0, give);
    assert_ptr_equal(ts_load_relaxed(&first_block()->heap), walkers[0].heap);
    ts_heap_drop(home);
    let(1, add_and_give);
    sup_check_identities(allocator);
    let(2, take);
    let(2, destroy);
}

static void limit_domain(unsigned i) {
    (void)i;
    SUP_CHECK(epoch_domain_set_limit(domain, (size_t)1 << 20), "a limit");
}

static void limits(void **state) {
    (void)state;
    size = 1000;
    for (unsigned kind = 0; kind < 2; kind++) {
        let(0, kind ? make_churn : make_scope);
        let(0, add_and_give);
        let(1, limit_domain); /* while it waits */
        for (unsigned i = 0; i < THREADS; i++) let(i, add_and_give);
        SUP_CHECK(count_blocks() <= 2, "%u blocks", count_blocks());
        sup_check_identities(allocator);
        let(3, take);
        let(3, destroy);
    }
}

/* A child goes with its parent. */
static EpochDomain *parent;
static void make_child(unsigned i) {
    (void)i;
    parent = epoch_domain_create(allocator);
    domain = epoch_domain_create_child(parent, NULL, 0);
    SUP_CHECK(domain != NULL, "a child");
    epoch = epoch_domain_epoch(domain);
}
static void add_to_child(unsigned i) {
    SUP_CHECK(epoch_domain_enter(parent), "enter the parent");
    add(i);
    SUP_CHECK(epoch_domain_exit(parent) && epoch_domain_hand_over(parent), "hand over the parent");
}
static void destroy_parent(unsigned i) {
    (void)i;
    SUP_CHECK(epoch_domain_enter(parent), "enter the parent");
    epoch_domain_destroy(parent);
}

static void children(void **state) {
    (void)state;
    size = 100;
    let(0, make_child);
    for (unsigned i = 0; i < THREADS; i++) let(i, add_to_child);
    check_objects();
    SUP_CHECK(count_blocks() == 1, "%u blocks", count_blocks());
    sup_check_identities(allocator);
    let(5, destroy_parent);
}

static bool child(void) {
    size = 100;
    let(0, make_scope);
    let(0, add_and_give);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool right = epoch_domain_enter(domain) && slab_alloc(100) && slab_free(allocator, objects[0][0]) &&
                     count_blocks() == 1 && epoch_domain_exit(domain);
        epoch_domain_destroy(domain);
        _exit(!right);
    }
    int status = 1;
    assert_true(waitpid(pid, &status, 0) == pid);
    let(1, take);
    let(1, destroy);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void a_fork(void **state) {
    (void)state;
    assert_true(child());
}

/* A thread that has given up a domain ends, and its heap is the next thread's, while the domain waits. */
static void after_its_thread(void **state) {
    (void)state;
    size = 100;
    let(0, make_scope);
    let(0, add_and_give);
    sup_actor_end(&walkers[0]);
    sup_actor_begin(&walkers[0]);
    sup_check_identities(allocator);
    let(1, add);
    SUP_CHECK(count_blocks() == 1, "%u blocks", count_blocks());
    let(1, destroy);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(one_block_for_all),
        WITH(the_giver_goes_on),
        WITH(frees),
        WITH(ends),
        WITH(without_its_allocator),
        WITH(while_that_heap_is_held),
        WITH(limits),
        WITH(a_fork),
        WITH(after_its_thread),
        WITH(children),
        WITH(no_hint_is_left),
    };
    return cmocka_run_group_tests_name("domain.hand_over", tests, NULL, NULL);
}
