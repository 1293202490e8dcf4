/*
 * An end of a domain that another thread tries, and takes back as somebody is inside: nobody else notices. domain.c,
 * domain_end.c and domain_tree.c are compiled once more, with a place to stop at before each look at a shared word and
 * each store of one. A call of this thread stops at each of its steps; there the other thread tries to end the domain,
 * and stops at each step between its first mark and the last; this thread goes on, and stops once more at each step;
 * the other ends, and then this one. A failure ends the process: the other thread may be anywhere.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "turns.h"
#include "unit.h"

#include "cache/allocate.h"
#include "cache/cache.h"
#include "cache/free.h"
#include "domain/domain.h"
#include "domain/tree.h"
#include "epoch/blocks.h"
#include "epoch/epoch.h"
#include "errands.h"
#include "memtools/memtools.h"
#include "ownership/ownership.h"
#include "slab/slab.h"

#include <errno.h>
#include <stdatomic.h>

#define SUP_OWN_STEP
#include "steps.h"

static bool exchange_here(_Atomic uint64_t *p, uint64_t *expected, uint64_t value) {
    step();
    return atomic_compare_exchange_strong(p, expected, value);
}

#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(p, expected, value, done, failed) \
    exchange_here((p), (expected), (value))
#undef ts_load_seq
#define ts_load_seq(p) (step(), atomic_load_explicit((p), memory_order_seq_cst))
#undef ts_store_release
#define ts_store_release(p, v) (step(), atomic_store_explicit((p), (v), memory_order_release))
#undef ts_store_seq
#define ts_store_seq(p, v) (step(), atomic_store_explicit((p), (v), memory_order_seq_cst))
#include "domain/domain.c"
#include "domain/domain_end.c"
#include "domain/domain_tree.c"
#include "domain/enter.c"

static SlabAllocator *allocator;
static EpochDomain *domain, *child;
static ts_domain *entry;

static bool stops_before; /* the other thread stops before its first mark, too */

static void step(void) {
    if (sup_side == SUP_SECOND && !stops_before && atomic_load(&entry->busy) != TS_TRIED &&
        atomic_load(&entry->owner) != TS_OWNER_ENDING)
        return;
    sup_turn_step();
}

/* ---- the other thread ------------------------------------------------------------------------------------------ */

static bool ended;
static int end_error;

static void try_to_end(void) {
    sup_turn_begin(SUP_SECOND);
    errno = 0;
    ended = epoch_domain_end(domain);
    end_error = errno;
    sup_turn_end();
}

static bool entered_there;
static void enter_there(void) { entered_there = epoch_domain_enter(domain) && epoch_domain_exit(domain); }
static void end_there(void) { SUP_CHECK(epoch_domain_end(domain), "end: errno %d", errno); }

/* ---- calls of this thread -------------------------------------------------------------------------------------- */

enum { OWN, SHARED, KINDS_OF_DOMAINS };

static void count(void *n) { ++*(unsigned *)n; }
static unsigned counted;
static void *object;
static SlabMark mark_before;

static bool enter_again(void) { return epoch_domain_enter(domain) && epoch_domain_exit(domain); }
static bool allocate(void) { return epoch_domain_alloc(domain, 40) != NULL; }
static bool on_destroy(void) { return epoch_domain_on_destroy(domain, count, &counted); }
static bool off_destroy(void) { return epoch_domain_off_destroy(domain, count, &counted); }
static bool promote(void) { return slab_promote(domain, object) != NULL; }
static bool mark_domain(void) { return epoch_domain_mark(domain, &mark_before); }
static bool rewind_domain(void) { return epoch_domain_rewind(domain, mark_before); }
static bool reset(void) { return epoch_domain_reset(domain, SIZE_MAX); }
static bool make_child(void) { return (child = epoch_domain_create_child(domain, NULL, 0)) != NULL; }
static bool destroy(void) {
    epoch_domain_destroy(domain);
    return epoch_domain_epoch(domain) == EPOCH_NONE;
}
static bool end_here(void) { return epoch_domain_end(domain); }
static bool enter(void) { return epoch_domain_enter(domain); }
static bool hand_over(void) { return epoch_domain_hand_over(domain); }

typedef struct call {
    const char *name;
    bool (*fn)(void);
    bool own_only, ends;
} call;

/* ---- both ------------------------------------------------------------------------------------------------------ */

static bool answer;
static int answer_error;

/* Whether all three places were reached: the first of this thread, that of the other, the second of this thread. */
typedef struct met {
    bool first, second, third;
} met;

static met together(void (*other)(void), bool (*fn)(void), unsigned first, unsigned second, unsigned third) {
    entry = ts_domain_find((uint64_t)(uintptr_t)domain);
    assert_non_null(entry);
    sup_turns_start(first, third, second);
    let_begin(other);
    sup_turn_begin(SUP_FIRST);
    errno = 0;
    answer = fn();
    answer_error = errno;
    sup_turn_end();
    meet();
    return (met){sup_turns.stopped[SUP_FIRST] > 0, sup_turns.stopped[SUP_SECOND] > 0, sup_turns.stopped[SUP_FIRST] > 1};
}

/* once: makes a domain, brings the two together, and checks the result. stride: between the second stops of this
   thread. How often the other was stopped. */
static unsigned at_each_step(met (*once)(unsigned first, unsigned second, unsigned third), unsigned stride) {
    unsigned stopped = 0;
    met m = {true, true, true};
    for (unsigned first = 0; m.first; first++) {
        m.second = true;
        for (unsigned second = 0; m.first && m.second; second++) {
            m.third = true;
            for (unsigned third = 0; m.first && m.second && m.third;
                 third += SUP_SANITIZED || SUP_EMULATED ? 4 * stride : stride) {
                m = once(first, second, third);
                stopped += m.second;
            }
        }
    }
    return stopped;
}

static atomic_uint messages;
static void count_message(const char *line, size_t bytes, void *unused) {
    (void)line, (void)bytes, (void)unused;
    atomic_fetch_add(&messages, 1);
}

static void start_threads(void) {
    SlabOptions options = {.size = sizeof options, .on_misuse = SLAB_MISUSE_REPORT};
    messages = 0;
    slab_set_message_sink(count_message, NULL);
    allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    begin();
}

static void stop_threads(void) {
    sup_check_empty(allocator);
    end();
    slab_allocator_free(allocator);
    slab_set_message_sink(NULL, NULL);
}

/* Nobody has used the domain as he must not. */
static void no_misuse(void) { SUP_CHECK(atomic_load(&messages) == 0, "a misuse is reported"); }

static int kind;
static const call *chosen;

static void make_domain(void) {
    domain = epoch_domain_create_ex(allocator, NULL, kind == SHARED ? EPOCH_DOMAIN_SHARED : 0);
    assert_non_null(domain);
}

/* This thread is inside, so its calls succeed as at any time, and the other cannot end the domain. */
static met call_inside(unsigned first, unsigned second, unsigned third) {
    make_domain();
    EpochId elsewhere = epoch_open(allocator, NULL, EPOCH_CHURN);
    object = slab_malloc_epoch(allocator, 50, elsewhere);
    assert_true(object && epoch_domain_enter(domain) && slab_alloc(10));
    if (kind == OWN) assert_true(mark_domain());
    if (chosen->fn == off_destroy) assert_true(on_destroy());
    met m = together(try_to_end, chosen->fn, first, second, third);
    SUP_CHECK(answer, "%s at %u, %u, %u: errno %d", chosen->name, first, second, third, answer_error);
    SUP_CHECK(!ended, "ended with somebody inside, or a child busy");
    SUP_CHECK(end_error == EBUSY || (chosen->ends && end_error == EINVAL), "end: errno %d", end_error);
    if (!chosen->ends) {
        assert_non_null(slab_alloc(10));
        assert_true(epoch_domain_exit(domain));
        epoch_domain_destroy(domain);
    }
    assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
    assert_true(epoch_destroy(allocator, elsewhere));
    return m;
}

static void who_is_inside_notices_nothing(void **state) {
    static const call calls[] = {
        {"enter", enter_again, false, false},
        {"alloc", allocate, false, false},
        {"on_destroy", on_destroy, false, false},
        {"off_destroy", off_destroy, false, false},
        {"promote", promote, false, false},
        {"mark", mark_domain, true, false},
        {"rewind", rewind_domain, true, false},
        {"reset", reset, false, false},
        {"create_child", make_child, false, false},
        {"destroy", destroy, false, true},
        {"end", end_here, false, true},
    };
    (void)state;
    start_threads();
    for (kind = OWN; kind < KINDS_OF_DOMAINS; kind++) {
        for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i++) {
            chosen = &calls[i];
            if (kind == SHARED && chosen->own_only) continue;
            assert_true(at_each_step(call_inside, 12) > 0);
            if (!chosen->ends) no_misuse();
            messages = 0;
        }
    }
    stop_threads();
}

/* The one is inside, or the other has ended the domain: not neither. */
static met enter_outside(unsigned first, unsigned second, unsigned third) {
    make_domain();
    met m = together(try_to_end, enter, first, second, third);
    SUP_CHECK(answer != ended, "at %u, %u, %u: %s", first, second, third, ended ? "both" : "neither");
    if (answer) {
        SUP_CHECK(end_error == EBUSY, "end: errno %d", end_error);
        assert_true(epoch_domain_exit(domain));
        epoch_domain_destroy(domain);
    } else {
        assert_true(answer_error == ESTALE || answer_error == EINVAL);
    }
    return m;
}

static void one_enters_or_the_other_ends(void **state) {
    (void)state;
    start_threads();
    for (kind = OWN; kind < KINDS_OF_DOMAINS; kind++) assert_true(at_each_step(enter_outside, 1) > 0);
    stop_threads();
}

/* It is handed over, or has ended. */
static met hand_over_outside(unsigned first, unsigned second, unsigned third) {
    make_domain();
    met m = together(try_to_end, hand_over, first, second, third);
    if (ended) return m;
    SUP_CHECK(answer, "at %u, %u, %u: errno %d", first, second, third, answer_error);
    let(enter_there);
    SUP_CHECK(entered_there, "at %u, %u, %u: it was not handed over", first, second, third);
    let(end_there);
    return m;
}

static void handed_over_or_ended(void **state) {
    (void)state;
    start_threads();
    kind = OWN;
    assert_true(at_each_step(hand_over_outside, 1) > 0);
    stop_threads();
}

/* ---- one that is nobody's -------------------------------------------------------------------------------------- */

static atomic_bool in_cleanup, go_on;

static void wait_in_cleanup(void *unused) {
    (void)unused;
    atomic_store(&in_cleanup, true);
    while (!atomic_load(&go_on)) sup_sleep_ms(1);
}

static void *end_child(void *unused) {
    SUP_CHECK(epoch_domain_end(child), "end of the child: errno %d", errno);
    return unused;
}

/* A third thread is ending a child, so the other cannot end the tree; nobody owns it, and this thread takes it over. */
static met take_over(unsigned first, unsigned second, unsigned third) {
    pthread_t third_thread;
    make_domain();
    child = epoch_domain_create_child(domain, NULL, 0);
    assert_true(child && epoch_domain_on_destroy(child, wait_in_cleanup, NULL));
    assert_true(epoch_domain_hand_over(domain));
    in_cleanup = go_on = false;
    assert_int_equal(pthread_create(&third_thread, NULL, end_child, NULL), 0);
    while (!atomic_load(&in_cleanup)) (void)sched_yield();
    met m = together(try_to_end, enter, first, second, third);
    go_on = true;
    assert_int_equal(pthread_join(third_thread, NULL), 0);
    SUP_CHECK(answer, "enter at %u, %u, %u: errno %d", first, second, third, answer_error);
    SUP_CHECK(!ended, "ended with somebody inside, or a child busy");
    SUP_CHECK(end_error == EBUSY, "end: errno %d", end_error);
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
    assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
    return m;
}

static void taken_over_all_the_same(void **state) {
    (void)state;
    start_threads();
    kind = OWN;
    stops_before = true;
    assert_true(at_each_step(take_over, 4) > 0);
    stops_before = false;
    no_misuse();
    stop_threads();
}

/* The third begins with the child when the call has begun. */
static pthread_t ends_child;
static void end_beside_the_child(void) {
    sup_turn_begin(SUP_SECOND);
    SUP_CHECK(pthread_create(&ends_child, NULL, end_child, NULL) == 0, "pthread_create");
    while (!atomic_load(&in_cleanup)) (void)sched_yield();
    errno = 0;
    ended = epoch_domain_end(domain);
    end_error = errno;
    sup_turn_end();
}

/* It is nobody's afterwards, or this thread's still, as a child was about to end. */
static met hand_over_with_child(unsigned first, unsigned second, unsigned third) {
    make_domain();
    child = epoch_domain_create_child(domain, NULL, 0);
    assert_true(child && epoch_domain_on_destroy(child, wait_in_cleanup, NULL));
    in_cleanup = go_on = false;
    met m = together(end_beside_the_child, hand_over, first, second, third);
    go_on = true;
    assert_int_equal(pthread_join(ends_child, NULL), 0);
    SUP_CHECK(!ended, "ended with somebody inside, or a child busy");
    SUP_CHECK(end_error == EBUSY, "end: errno %d", end_error);
    if (answer) {
        let(enter_there);
        SUP_CHECK(entered_there, "at %u, %u, %u: it was not handed over", first, second, third);
        let(end_there);
    } else {
        SUP_CHECK(answer_error == EPERM, "hand over: errno %d", answer_error);
        assert_true(epoch_domain_enter(domain) && epoch_domain_exit(domain));
        epoch_domain_destroy(domain);
    }
    assert_int_equal(epoch_domain_epoch(domain), EPOCH_NONE);
    return m;
}

static void handed_over_beside_a_child_that_ends(void **state) {
    (void)state;
    start_threads();
    kind = OWN;
    assert_true(at_each_step(hand_over_with_child, 1) > 0);
    no_misuse();
    stop_threads();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_inside_notices_nothing),
        cmocka_unit_test(one_enters_or_the_other_ends),
        cmocka_unit_test(handed_over_or_ended),
        cmocka_unit_test(taken_over_all_the_same),
        cmocka_unit_test(handed_over_beside_a_child_that_ends),
    };
    return cmocka_run_group_tests_name("domain.tried_steps", tests, NULL, NULL);
}
