/* Cleanups that do not return (domain/cleanup.c): by longjmp, by the end of their thread, by cancellation. The domain
   that the call was ending can be ended afterwards, with one line, and nothing else is hurt. */
#include "check.h"
#include "identities.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static SlabAllocator *a;
static jmp_buf back;
static unsigned cleaned, lines;

static void count_line(const char *line, size_t bytes, void *arg) {
    (void)bytes, (void)arg;
    lines += strstr(line, "did not return") != NULL;
}

static void counts(void *arg) {
    (void)arg;
    cleaned++;
}
static void jumps(void *arg) {
    (void)arg;
    longjmp(back, 1);
}

/* ---- calls that are left ----------------------------------------------------------------------------------------- */

static SlabMark mark;

typedef bool call_fn(EpochDomain *d);
static bool call_destroy(EpochDomain *d) {
    epoch_domain_destroy(d);
    return true;
}
static bool call_end(EpochDomain *d) { return epoch_domain_end(d); }
static bool call_reset(EpochDomain *d) { return epoch_domain_reset(d, SIZE_MAX); }
static bool call_rewind(EpochDomain *d) { return epoch_domain_rewind(d, mark); }
static call_fn *const calls[] = {call_destroy, call_end, call_reset, call_rewind};
enum { CALLS = sizeof calls / sizeof *calls };

/* A domain with two cleanups; the newer one is left. The older one runs at its end. */
static EpochDomain *make(unsigned flags, void (*leaves)(void *)) {
    EpochDomain *d = epoch_domain_create_ex(a, "left", flags);
    SUP_CHECK(d && slab_malloc_epoch(a, 100, epoch_domain_epoch(d)), "a domain");
    if (flags == 0) SUP_CHECK(epoch_domain_mark(d, &mark), "a mark");
    SUP_CHECK(epoch_domain_on_destroy(d, counts, NULL) && epoch_domain_on_destroy(d, leaves, NULL), "cleanups");
    return d;
}

__attribute__((noinline)) static bool is_left(call_fn *fn, EpochDomain *d) {
    if (setjmp(back)) return true;
    (void)fn(d);
    return false;
}

/* Some way deeper than the call that was left. */
__attribute__((noinline)) static bool is_done_deeper(call_fn *fn, EpochDomain *d) {
    volatile char room[400] = {0};
    bool done = fn(d);
    return done | (room[0] != 0);
}

static void expect_over(EpochDomain *d, EpochId epoch, unsigned cleanups) {
    assert_int_equal(cleaned, cleanups);
    assert_int_equal(epoch_state(a, epoch), EPOCH_CLOSED);
    assert_int_equal(epoch_domain_epoch(d), EPOCH_NONE);
    assert_int_equal(lines, 1);
    sup_check_identities(a);
    sup_check_empty(a);
}

static void by_longjmp(void **state) {
    (void)state;
    for (unsigned first = 0; first < CALLS; first++)
        for (unsigned second = 0; second < CALLS; second++) {
            lines = cleaned = 0;
            EpochDomain *d = make(0, jumps), *other = make(EPOCH_CHURN, counts);
            EpochId epoch = epoch_domain_epoch(d);
            assert_true(is_left(calls[first], d));
            /* Others end and are emptied as ever. */
            assert_true(epoch_domain_reset(other, 0));
            assert_int_equal(cleaned, 2);
            epoch_domain_destroy(other);
            assert_int_equal(epoch_domain_epoch(d), epoch);
            if (!is_done_deeper(calls[second], d)) {
                /* A reset that was left has dropped the marks. */
                assert_true(second == 3 && first != 3 && errno == EINVAL);
                assert_true(epoch_domain_reset(d, 0));
            }
            assert_int_equal(lines, 1);
            epoch_domain_destroy(d);
            expect_over(d, epoch, 3);
        }
}

/* A child whose cleanup is left while its parent ends: both can be ended, by either. */
static void in_a_tree(void **state) {
    (void)state;
    for (unsigned which = 0; which < 4; which++) {
        lines = cleaned = 0;
        unsigned shared = which < 2 ? 0 : EPOCH_DOMAIN_SHARED;
        EpochDomain *parent = epoch_domain_create_ex(a, "parent", shared);
        EpochDomain *child = epoch_domain_create_child(parent, "child", 0);
        EpochDomain *sibling = epoch_domain_create_child(parent, "sibling", 0);
        assert_true(parent && child && sibling);
        assert_true(epoch_domain_on_destroy(child, counts, NULL) && epoch_domain_on_destroy(sibling, jumps, NULL));
        EpochId epoch = epoch_domain_epoch(parent);
        assert_true(is_left(which % 2 ? call_end : call_destroy, parent)); /* end marks a shared tree */
        if (which % 2) {
            assert_true(epoch_domain_end(parent));
        } else {
            epoch_domain_destroy(sibling);
            assert_int_equal(epoch_domain_epoch(sibling), EPOCH_NONE);
            assert_true(epoch_domain_enter(child) && epoch_domain_exit(child));
            epoch_domain_destroy(parent);
        }
        expect_over(parent, epoch, 1);
    }
}

/* Left inside of another domain's cleanup, which goes on: that domain is being ended still. */
static EpochDomain *inner;
static bool ends_inner;
static void *is_busy(void *arg) { return !epoch_domain_end(arg) && errno == EBUSY ? arg : NULL; }
static void leaves_inner(void *arg) {
    pthread_t thread;
    void *answer;
    SUP_CHECK(is_left(call_destroy, inner), "it returned");
    errno = 0;
    SUP_CHECK(!epoch_domain_reset(arg, 0) && errno == EPERM, "its own cleanup runs");
    if (ends_inner) epoch_domain_destroy(inner);
    SUP_CHECK(pthread_create(&thread, NULL, is_busy, arg) == 0 && pthread_join(thread, &answer) == 0, "a thread");
    SUP_CHECK(answer == arg, "another thread could end it");
    cleaned++;
}
static void inside_of_another(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        lines = cleaned = 0;
        ends_inner = i != 0;
        EpochDomain *outer = epoch_domain_create_ex(a, "outer", EPOCH_DOMAIN_SHARED);
        EpochId epoch = epoch_domain_epoch(outer);
        inner = make(0, jumps);
        assert_true(epoch_domain_on_destroy(outer, counts, NULL));
        assert_true(epoch_domain_on_destroy(outer, leaves_inner, outer));
        epoch_domain_destroy(outer);
        assert_int_equal(cleaned, ends_inner ? 3 : 2);
        assert_int_equal(epoch_state(a, epoch), EPOCH_CLOSED);
        assert_int_equal(lines, 1); /* as the outer one has returned */
        if (!ends_inner) epoch_domain_destroy(inner);
        expect_over(inner, epoch, 3);
    }
}

/* The allocator ends while a domain is left. */
static void allocator_ends(void **state) {
    SlabAllocator *tests = a;
    (void)state;
    lines = cleaned = 0;
    a = slab_allocator_create();
    assert_non_null(a);
    EpochDomain *d = make(0, jumps);
    assert_true(is_left(call_destroy, d));
    slab_allocator_free(a);
    a = tests;
    assert_false(epoch_domain_end(d));
    assert_int_equal(epoch_domain_epoch(d), EPOCH_NONE);
    assert_int_equal(cleaned, 0);
}

/* ---- threads that end -------------------------------------------------------------------------------------------- */

static void exits(void *arg) { pthread_exit(arg); }
static void is_cancelled(void *arg) {
    (void)arg;
    (void)pthread_cancel(pthread_self());
    pthread_testcancel();
    cleaned++;
}

typedef struct work {
    EpochDomain *parent, *d;
    call_fn *call;
    unsigned flags;
    void (*leaves)(void *);
    bool returned;
} work;

static void *works(void *arg) {
    work *w = arg;
    w->d = make(w->flags, w->leaves);
    w->parent = epoch_domain_create_ex(a, "parent", w->flags);
    SUP_CHECK(w->parent && epoch_domain_move(w->d, w->parent), "a parent");
    SUP_CHECK(epoch_domain_enter(w->d), "entered");
    if (w->leaves == jumps)
        (void)is_left(w->call, w->d);
    else
        (void)w->call(w->call == call_end || w->call == call_destroy ? w->parent : w->d);
    w->returned = true;
    pthread_testcancel();
    return NULL;
}

static work end_thread(call_fn *call, unsigned flags, void (*leaves)(void *)) {
    work w = {.call = call, .flags = flags, .leaves = leaves};
    pthread_t thread;
    lines = cleaned = 0;
    SUP_CHECK(pthread_create(&thread, NULL, works, &w) == 0 && pthread_join(thread, NULL) == 0, "a thread");
    return w;
}

static void by_the_end_of_the_thread(void **state) {
    void (*const ways[])(void *) = {exits, jumps};
    (void)state;
    for (unsigned way = 0; way < 2; way++)
        for (unsigned shared = 0; shared < 2; shared++)
            for (unsigned i = 0; i < CALLS - shared; i++) {
                work w = end_thread(calls[i], shared ? EPOCH_DOMAIN_SHARED : 0, ways[way]);
                EpochId epoch = epoch_domain_epoch(w.parent);
                assert_int_equal(w.returned, ways[way] == jumps);
                assert_int_equal(lines, 1);
                assert_true(epoch_domain_end(w.parent));
                expect_over(w.parent, epoch, 1);
                assert_int_equal(epoch_domain_epoch(w.d), EPOCH_NONE);
            }
}

/* The end of another thread's domain. It is that thread's again. */
static void enters(void *arg) { SUP_CHECK(epoch_domain_enter(arg), "from a cleanup"); }
static void *ends_own_again(void *arg) {
    bool left = is_left(call_end, arg); /* or the thread ends in it */
    SUP_CHECK(left && epoch_domain_current() == arg, "inside");
    errno = 0;
    SUP_CHECK(!epoch_domain_reset(arg, 0) && errno == EPERM, "it belongs to another thread");
    SUP_CHECK(epoch_domain_current() == NULL, "inside");
    return NULL;
}
static void a_domain_of_another_thread(void **state) {
    void (*const ways[])(void *) = {exits, jumps};
    (void)state;
    for (unsigned way = 0; way < 2; way++) {
        pthread_t thread;
        lines = cleaned = 0;
        EpochDomain *d = make(0, ways[way]);
        EpochId epoch = epoch_domain_epoch(d);
        assert_true(epoch_domain_on_destroy(d, enters, d));
        assert_int_equal(pthread_create(&thread, NULL, ends_own_again, d), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(epoch_domain_enter(d) && epoch_domain_exit(d));
        epoch_domain_destroy(d);
        expect_over(d, epoch, 1);
    }
}

/* It is off while they run, and as it was afterwards. */
static void cancellation_waits(void **state) {
    (void)state;
    for (unsigned i = 0; i < CALLS; i++) {
        work w = end_thread(calls[i], 0, is_cancelled);
        assert_true(w.returned);
        assert_int_equal(cleaned, 2);
        if (i >= 2) assert_true(epoch_domain_end(w.parent));
        assert_int_equal(lines, 0);
        sup_check_identities(a);
        sup_check_empty(a);
    }
}

static void cancellation_comes_back(void **state) {
    int before;
    (void)state;
    lines = cleaned = 0;
    EpochDomain *d = make(0, jumps);
    assert_int_equal(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before), 0);
    assert_true(is_left(call_destroy, d));
    epoch_domain_destroy(d);
    assert_int_equal(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before), 0);
    assert_int_equal(before, PTHREAD_CANCEL_ENABLE);
    assert_int_equal(lines, 1);
    sup_check_empty(a);
}

/* ---- a shared domain whose end was left to the thread that empties it -------------------------------------------- */

static EpochDomain *shared_domain;
static void *destroys(void *arg) {
    epoch_domain_destroy(shared_domain); /* returns at once */
    return arg;
}
static void is_ended_and_jumps(void *arg) {
    pthread_t thread;
    SUP_CHECK(pthread_create(&thread, NULL, destroys, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
    jumps(arg);
}
static void ended_by_another_meanwhile(void **state) {
    (void)state;
    lines = cleaned = 0;
    shared_domain = make(EPOCH_DOMAIN_SHARED, is_ended_and_jumps);
    EpochId epoch = epoch_domain_epoch(shared_domain);
    assert_true(is_left(call_reset, shared_domain));
    assert_int_equal(epoch_domain_epoch(shared_domain), epoch);
    (void)epoch_domain_reset(shared_domain, 0); /* finds that it is to end */
    expect_over(shared_domain, epoch, 1);
}

/* ---- another callback -------------------------------------------------------------------------------------------- */

static bool walk_leaves(void *p, size_t bytes, void *arg) {
    (void)p, (void)bytes, (void)arg;
    longjmp(back, 1);
}
static bool call_walk(EpochDomain *d) { return slab_walk(a, epoch_domain_epoch(d), walk_leaves, NULL) != 0; }
static void a_walk_is_left(void **state) {
    (void)state;
    lines = cleaned = 0;
    EpochDomain *d = make(0, counts);
    assert_true(is_left(call_walk, d));
    epoch_domain_destroy(d);
    assert_int_equal(cleaned, 2);
    assert_int_equal(lines, 0);
    sup_check_identities(a);
    sup_check_empty(a);
}

static int start(void **state) {
    SlabOptions options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.on_misuse = SLAB_MISUSE_REPORT;
    *state = a = slab_allocator_create_ex(&options);
    slab_set_message_sink(count_line, NULL);
    return a ? 0 : -1;
}
static int finish(void **state) {
    slab_allocator_free(*state);
    slab_set_message_sink(NULL, NULL);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_longjmp),
        cmocka_unit_test(in_a_tree),
        cmocka_unit_test(inside_of_another),
        cmocka_unit_test(allocator_ends),
        cmocka_unit_test(by_the_end_of_the_thread),
        cmocka_unit_test(a_domain_of_another_thread),
        cmocka_unit_test(cancellation_waits),
        cmocka_unit_test(cancellation_comes_back),
        cmocka_unit_test(ended_by_another_meanwhile),
        cmocka_unit_test(a_walk_is_left),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
