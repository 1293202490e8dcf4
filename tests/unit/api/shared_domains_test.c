/* A domain that one thread ends or gives up while its cleanups run: in another thread's reset, or from one of
   themselves. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "errands.h"
#include "walk/check.h"

#include <errno.h>

static SlabAllocator *allocator;
static EpochDomain *domain;
static unsigned ran;
static bool answer;
static int error;
static bool its_own;

static void count(void *arg) { ran += arg != NULL; }

static void destroy_domain(void) {
    errno = 0;
    epoch_domain_destroy(domain);
    error = errno;
}

/* By the other thread, while a cleanup of this one's reset runs. */
static void destroyed_meanwhile(void *arg) {
    ran++;
    (void)arg;
    let(destroy_domain);
}

static void destroyed_by_another_in_a_reset(void **state) {
    allocator = *state;
    for (unsigned more = 0; more < 2; more++) {
        begin();
        ran = 0;
        domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
        EpochId epoch = epoch_domain_epoch(domain);
        assert_true(epoch_domain_on_destroy(domain, destroyed_meanwhile, NULL));
        if (more) assert_true(epoch_domain_on_destroy(domain, count, allocator));
        assert_true(epoch_domain_enter(domain));
        assert_non_null(slab_alloc(100));
        assert_true(epoch_domain_reset(domain, 0));
        assert_int_equal(error, 0);
        assert_int_equal(ran, 1 + more);
        /* Both have happened: it is empty, and gone. */
        assert_null(epoch_domain_allocator(domain));
        assert_null(epoch_domain_current());
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        destroy_domain();
        assert_int_equal(error, EINVAL);
        end();
    }
    sup_check_empty(allocator);
}

static void destroy_itself(void *arg) {
    (void)arg;
    destroy_domain();
}

static void destroyed_by_its_own_cleanup(void **state) {
    allocator = *state;
    domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
    assert_true(epoch_domain_on_destroy(domain, destroy_itself, NULL));
    assert_true(epoch_domain_reset(domain, 0));
    assert_int_equal(error, EPERM);
    assert_ptr_equal(epoch_domain_allocator(domain), allocator); /* it is there still */
    epoch_domain_destroy(domain);
    assert_null(epoch_domain_allocator(domain));
    sup_check_empty(allocator);
}

static void give_up(void *arg) {
    (void)arg;
    errno = 0;
    answer = epoch_domain_hand_over(domain);
    error = errno;
}

static void give_domain_up(void) { give_up(NULL); }
static void let_give_up(void *arg) {
    (void)arg;
    let(give_domain_up);
}

static void handed_over_by_its_own_cleanup(void **state) {
    allocator = *state;
    for (unsigned destroy = 0; destroy < 2; destroy++) {
        domain = epoch_domain_create(allocator);
        assert_true(epoch_domain_on_destroy(domain, give_up, NULL));
        answer = true;
        if (destroy)
            epoch_domain_destroy(domain);
        else
            assert_true(epoch_domain_reset(domain, 0));
        assert_false(answer);
        assert_int_equal(error, EPERM);
        if (!destroy) {
            assert_true(epoch_domain_hand_over(domain)); /* when they are over */
            assert_true(epoch_domain_enter(domain) && epoch_domain_exit(domain));
            epoch_domain_destroy(domain);
        }
    }
    sup_check_empty(allocator);
}

/* A shared one is nobody's to give up: no harm while another thread empties it. */
static void handed_over_by_another_in_a_reset(void **state) {
    allocator = *state;
    begin();
    domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
    assert_true(epoch_domain_on_destroy(domain, let_give_up, NULL));
    answer = false;
    assert_true(epoch_domain_reset(domain, 0));
    assert_true(answer);
    epoch_domain_destroy(domain);
    end();
    sup_check_empty(allocator);
}

/* In a child of fork nobody goes on with an end or a reset of a thread that is not there. The domain is used again, and
   then ended, with the cleanups that are left. */
static void end_in_the_child(void *arg) {
    (void)arg;
    EpochId epoch = epoch_domain_epoch(domain);
    unsigned before = ran;
    SUP_CHECK(slab_malloc_epoch(allocator, 100, epoch), "an object");
    unsigned more = epoch_domain_on_destroy(domain, count, allocator); /* if it is shared */
    if (its_own) epoch_domain_destroy(domain);
    SUP_CHECK(its_own || epoch_domain_end(domain), "epoch_domain_end: %d", errno);
    SUP_CHECK(ran == before + 1 + more, "%u cleanups", ran - before);
    SUP_CHECK(epoch_state(allocator, epoch) != EPOCH_ACTIVE && !epoch_domain_allocator(domain), "it is over");
    SUP_CHECK(!epoch_domain_end(domain) && errno == EINVAL, "twice");
    ts_check walk;
    SUP_CHECK(ts_check_all(&walk, true), "%s", walk.why);
}

static void fork_for(void (*child)(void *)) {
    char err[400];
    error = sup_child(child, NULL, 10, err, sizeof err);
    if (error != 0) print_error("%s", err);
}
static void fork_to_end(void) { fork_for(end_in_the_child); }
static void let_fork(void *arg) {
    (void)arg;
    let(fork_to_end);
}

static void make_domain_with_cleanups(void) {
    domain = epoch_domain_create(allocator);
    SUP_CHECK(epoch_domain_on_destroy(domain, count, allocator), "a cleanup");
    SUP_CHECK(epoch_domain_on_destroy(domain, let_fork, NULL), "a cleanup");
}

/* Another thread ends the domain of the one that forks: in the child it is that one's still, which ends it as its
   own. */
static void forked_by_the_owner(void **state) {
    allocator = *state;
    begin();
    let(make_domain_with_cleanups);
    error = -1;
    its_own = true;
    assert_true(epoch_domain_end(domain));
    its_own = false;
    assert_int_equal(error, 0);
    end();
    sup_check_empty(allocator);
}

static bool reset_all(EpochDomain *d) { return epoch_domain_reset(d, 0); }
static bool destroy_at_once(EpochDomain *d) {
    epoch_domain_destroy(d);
    return true;
}

static void forked_in_an_end(void **state) {
    bool (*const calls[])(EpochDomain *) = {reset_all, destroy_at_once, epoch_domain_end};
    static const unsigned flags[] = {EPOCH_DOMAIN_SHARED, 0, EPOCH_CHURN, EPOCH_DOMAIN_DRAIN | EPOCH_DOMAIN_SHARED};
    allocator = *state;
    begin();
    for (unsigned i = 0; i < 12; i++) {
        bool child = i % 2;
        EpochDomain *parent =
            child ? epoch_domain_create_ex(allocator, NULL, flags[i / 3] & EPOCH_DOMAIN_SHARED) : NULL;
        domain = child ? epoch_domain_create_child(parent, NULL, flags[i / 3])
                       : epoch_domain_create_ex(allocator, NULL, flags[i / 3]);
        assert_non_null(domain);
        assert_true(epoch_domain_on_destroy(domain, count, allocator)); /* is left when the next one runs */
        assert_true(epoch_domain_on_destroy(domain, let_fork, NULL));
        ran = 0;
        error = -1;
        assert_true(calls[i % 3](domain));
        assert_int_equal(error, 0);
        assert_int_equal(ran, 1);
        if (i % 3 == 0) epoch_domain_destroy(domain);
        epoch_domain_destroy(parent);
        sup_check_empty(allocator);
    }
    end();
}

/* A thread ends a domain while another one empties it, which has to end it, and then forks. Nobody in the child knows
   of the domain any more. It has ended there, with all below it and without cleanups: these were the other thread's. */
static void look_that_all_has_ended(void *arg) {
    (void)arg;
    static ts_check walk;
    SUP_CHECK(!epoch_domain_allocator(domain), "it is there");
    SUP_CHECK(ran == 0, "%u cleanups", ran);
    SUP_CHECK(ts_check_all(&walk, true), "%s", walk.why);
    sup_check_empty(allocator);
}
static void destroy_and_fork(void) {
    epoch_domain_destroy(domain);
    fork_for(look_that_all_has_ended);
}
static void destroyed_and_forked(void *arg) {
    (void)arg;
    let(destroy_and_fork);
}

static void forked_with_an_end_left_to_a_reset(void **state) {
    allocator = *state;
    begin();
    for (unsigned children = 0; children < 3; children++) {
        domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
        assert_true(domain && slab_malloc_epoch(allocator, 100, epoch_domain_epoch(domain)));
        assert_true(epoch_domain_on_destroy(domain, count, allocator));
        EpochDomain *newest = domain;
        for (unsigned i = 0; i < children; i++) {
            newest = epoch_domain_create_child(domain, NULL, EPOCH_DOMAIN_SHARED);
            assert_true(newest && slab_malloc_epoch(allocator, 100, epoch_domain_epoch(newest)));
            assert_true(epoch_domain_on_destroy(newest, count, allocator));
        }
        assert_true(epoch_domain_on_destroy(newest, destroyed_and_forked, NULL));
        ran = 0;
        error = -1;
        assert_true(epoch_domain_reset(domain, 0));
        assert_int_equal(error, 0);
        assert_int_equal(ran, 1 + children);
        sup_check_empty(allocator);
    }
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(destroyed_by_another_in_a_reset),
        SUP_WITH_ALLOCATOR(destroyed_by_its_own_cleanup),
        SUP_WITH_ALLOCATOR(handed_over_by_its_own_cleanup),
        SUP_WITH_ALLOCATOR(handed_over_by_another_in_a_reset),
        SUP_WITH_ALLOCATOR(forked_in_an_end),
        SUP_WITH_ALLOCATOR(forked_by_the_owner),
        SUP_WITH_ALLOCATOR(forked_with_an_end_left_to_a_reset),
    };
    return cmocka_run_group_tests_name("api.shared_domains", tests, NULL, NULL);
}
