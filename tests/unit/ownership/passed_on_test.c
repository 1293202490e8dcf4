/*
 * The last object of a closed epoch, freed by a thread that lost its processor between two steps of it: meanwhile the
 * thread that allocated it ends, or hands its domain over, and its block goes to another, which sleeps. The free gives
 * the slab back all the same, and ends the epoch. foreign.c is compiled once more, in place of the library's, with a
 * place to stop at before every word that it reads.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "actors.h"
#include "check.h"
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "cache/cache.h"
#include "cache/free.h"
#include "os/os.h"
#include "supply/supply.h"

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>

static void reads(const void *word);

#undef ts_load_relaxed
#undef ts_load_seq
#define ts_load_relaxed(p) (reads(p), atomic_load_explicit((p), memory_order_relaxed))
#define ts_load_seq(p) (reads(p), atomic_load_explicit((p), memory_order_seq_cst))
#include "cache/foreign.c"

/* An actor that stops at places of its choice. */
typedef struct actor {
    sup_actor a; /* first: sup_me is one of these */
    sem_t reached, released;
    unsigned stops; /* so many times it stops at the word that `reads` names */
} actor;

static actor owner, freer, passer, adopter, stranger;

static actor *me(void) { return (actor *)sup_me; }

static void begin(actor *a) {
    SUP_CHECK(sem_init(&a->reached, 0, 0) == 0 && sem_init(&a->released, 0, 0) == 0, "sem_init");
    a->stops = 0;
    sup_actor_begin(&a->a);
}
static void let_begin(actor *a, void (*fn)(void)) { sup_actor_let_begin(&a->a, fn); }
static void wait_for(actor *a) { sup_actor_meet(&a->a); }
static void let(actor *a, void (*fn)(void)) { sup_actor_let(&a->a, fn); }
static void end(actor *a) { sup_actor_end(&a->a); }

/* The actor goes on to its next stop. */
static void go_on(actor *a) { SUP_CHECK(sem_post(&a->released) == 0, "sem_post"); }
static void wait_for_stop(actor *a) { SUP_CHECK(sem_wait(&a->reached) == 0, "sem_wait"); }

static void stop_here(void) {
    me()->stops--;
    SUP_CHECK(sem_post(&me()->reached) == 0 && sem_wait(&me()->released) == 0, "a stop");
}

static SlabAllocator *allocator;
static EpochId epoch;
static void *objects[2]; /* of 40 and of 16 bytes, so in two slabs */
static unsigned looks;   /* of the passer, at the adopter's queue */

/* The first stop is before the push on the ended thread's queue. The freer's second one is behind it, the passer's
   before it passes on the freer's slab: its own is the first. */
static void reads(const void *word) {
    if ((me() != &freer && me() != &passer) || me()->stops == 0) return;
    bool first = me()->stops == 2;
    if (first) {
        if (word == (const void *)&owner.a.heap->queue) {
            stop_here();
        }
    } else if (me() == &freer) {
        if (word == (const void *)&owner.a.heap->state) {
            stop_here();
        }
    } else if (word == (const void *)&adopter.a.heap->queue && ++looks == 2) {
        stop_here();
    }
}

static void make_objects(void) {
    objects[0] = slab_malloc_epoch(allocator, 40, epoch);
    objects[1] = slab_malloc_epoch(allocator, 16, epoch);
    SUP_CHECK(objects[0] != NULL && objects[1] != NULL, "slab_malloc_epoch");
}

/* A thread with a heap, as most threads. */
static void get_a_heap(void) {
    EpochId other = epoch_open(allocator, NULL, EPOCH_CHURN);
    SUP_CHECK(slab_free(allocator, slab_malloc_epoch(allocator, 100, other)) && epoch_destroy(allocator, other),
              "a heap");
}

static void free_first(void) { SUP_CHECK(slab_free(allocator, objects[0]), "slab_free"); }
static void free_second(void) { SUP_CHECK(slab_free(allocator, objects[1]), "slab_free"); }

/* Allocates in the epoch, for which it takes the ended thread's block over, and keeps nothing. */
static void adopt(void) {
    void *p = slab_malloc_epoch(allocator, 40, epoch);
    SUP_CHECK(p != NULL && slab_free(allocator, p), "an object");
}

static size_t usual_size;
static void make_one(void) {
    objects[0] = slab_malloc_epoch(allocator, usual_size, epoch);
    SUP_CHECK(objects[0] != NULL, "slab_malloc_epoch");
}
static void adopt_one(void) {
    void *p = slab_malloc_epoch(allocator, usual_size, epoch);
    SUP_CHECK(p != NULL && slab_free(allocator, p), "an object");
}

static int start(void **state) {
    (void)state;
    slab_thread_idle();
    allocator = slab_allocator_create();
    looks = 0;
    return allocator == NULL;
}

static int stop(void **state) {
    (void)state;
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
    return 0;
}

/* with_stranger: the ended thread's heap has a new thread by then, which does not know of the slab. close_first: the
   close comes before the push, else behind the free. */
static void pushed_late(bool with_stranger, bool close_first) {
    begin(&owner);
    begin(&freer);
    begin(&adopter);
    let(&owner, make_one);
    let(&freer, get_a_heap);
    freer.stops = 2;
    let_begin(&freer, free_first);
    wait_for_stop(&freer);
    freer.stops = 0;
    end(&owner);
    let(&adopter, adopt_one);
    if (with_stranger) {
        begin(&stranger);
        let(&stranger, get_a_heap);
        SUP_CHECK(stranger.a.heap == owner.a.heap, "the ended thread's heap is another's");
    }
    if (close_first) {
        assert_true(epoch_close(allocator, epoch));
    }
    go_on(&freer);
    wait_for(&freer);
    if (!close_first) {
        assert_true(epoch_close(allocator, epoch));
    }
    SUP_CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSED, "size %zu, stranger %d, close first %d: the last free",
              usual_size, with_stranger, close_first);
    end(&freer);
    end(&adopter);
    if (with_stranger) {
        end(&stranger);
    }
}

static void pushed_on_an_ended_heap(void **state) {
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        usual_size = i < 2 ? 40 : 100; /* by the slow path, or the usual one */
        epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        pushed_late(false, i % 2 == 0);
    }
}

static void pushed_on_a_strangers_heap(void **state) {
    (void)state;
    if (!ts_os->barrier_all()) {
        print_message("skipped: no barrier for all threads, so nobody takes anything from a thread that sleeps\n");
        skip();
    }
    for (unsigned i = 0; i < 4; i++) {
        usual_size = i < 2 ? 40 : 100;
        epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        pushed_late(true, i % 2 == 0);
    }
}

/* Another thread, which has freed in the same epoch, has taken the slab off the ended thread's queue, and not yet
   passed it on. */
static void in_the_hands_of_another(void **state) {
    (void)state;
    epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    begin(&owner);
    begin(&freer);
    begin(&passer);
    begin(&adopter);
    let(&owner, make_objects);
    let(&freer, get_a_heap);
    let(&passer, get_a_heap);
    freer.stops = passer.stops = 2;
    let_begin(&freer, free_first);
    let_begin(&passer, free_second);
    wait_for_stop(&freer);
    wait_for_stop(&passer);
    end(&owner);
    let(&adopter, adopt);
    assert_true(epoch_close(allocator, epoch));
    go_on(&freer);
    wait_for_stop(&freer); /* it has pushed */
    go_on(&passer);
    wait_for_stop(&passer); /* it drains, and has the freer's slab */
    go_on(&freer);
    sup_until_waits(&freer.a.id);
    go_on(&passer);
    wait_for(&freer);
    wait_for(&passer);
    SUP_CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSED, "all objects are freed");
    end(&freer);
    end(&passer);
    end(&adopter);
}

/* A thread that hands its domain over, and then sleeps. */
static EpochDomain *domain;
static void make_in_domain(void) {
    domain = epoch_domain_create_ex(allocator, NULL, EPOCH_CHURN);
    SUP_CHECK(domain != NULL && epoch_domain_enter(domain), "a domain");
    objects[0] = slab_alloc(usual_size);
    epoch = epoch_domain_epoch(domain);
    SUP_CHECK(objects[0] != NULL && epoch_domain_exit(domain), "an object");
}
static void hand_over(void) { SUP_CHECK(epoch_domain_hand_over(domain), "hand over"); }
static void take_up(void) { SUP_CHECK(epoch_domain_enter(domain) && epoch_domain_exit(domain), "enter"); }
static void destroy_domain(void) { epoch_domain_destroy(domain); }

/* late: the free is about to push the slab on the giver's queue, else it has done so. */
static void freed_at_the_giver(bool late) {
    begin(&owner);
    begin(&freer);
    begin(&adopter);
    let(&owner, make_in_domain);
    let(&freer, get_a_heap);
    freer.stops = late ? 2 : 0;
    let_begin(&freer, free_first);
    if (late) {
        wait_for_stop(&freer);
        freer.stops = 0;
    } else {
        wait_for(&freer);
    }
    let(&owner, hand_over);
    let(&adopter, take_up);
    assert_true(epoch_close(allocator, epoch));
    if (late) {
        go_on(&freer);
        wait_for(&freer);
    }
    SUP_CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSED, "size %zu, late %d: the last object is freed", usual_size,
              late);
    let(&adopter, destroy_domain);
    end(&freer);
    end(&adopter);
    end(&owner);
}

static void pushed_on_a_givers_heap(void **state) {
    (void)state;
    if (!ts_os->barrier_all()) {
        print_message("skipped: no barrier for all threads, so nobody takes anything from a thread that sleeps\n");
        skip();
    }
    for (usual_size = 40; usual_size <= 15000; usual_size += 14960) { /* in the first slab, and in a bin */
        freed_at_the_giver(false);
        freed_at_the_giver(true);
    }
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(pushed_on_an_ended_heap),
        WITH(pushed_on_a_strangers_heap),
        WITH(in_the_hands_of_another),
        WITH(pushed_on_a_givers_heap),
    };
    return cmocka_run_group_tests_name("ownership.passed_on", tests, NULL, NULL);
}
