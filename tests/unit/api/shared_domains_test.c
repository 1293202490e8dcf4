/* A domain that one thread ends or gives up while its cleanups run: in another thread's reset, or from one of
   themselves. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identities.h"
#include "proc.h"
#include "unit.h"

#include "errands.h"

#include <errno.h>

static SlabAllocator *allocator;
static EpochDomain *domain;
static unsigned ran;
static bool answer;
static int error;

static void count(void *arg) { ran += arg != NULL; }

static void destroy_it(void) {
    errno = 0;
    epoch_domain_destroy(domain);
    error = errno;
}

/* By the other thread, while a cleanup of this one's reset runs. */
static void destroyed_meanwhile(void *arg) {
    ran++;
    (void)arg;
    let(destroy_it);
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
        destroy_it();
        assert_int_equal(error, EINVAL);
        end();
    }
    sup_check_empty(allocator);
}

static void destroy_itself(void *arg) {
    (void)arg;
    destroy_it();
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

static void give_it_up(void) { give_up(NULL); }
static void let_give_up(void *arg) {
    (void)arg;
    let(give_it_up);
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

/* In a child of fork nobody goes on with the reset: who wants to end the domain is told so, and ends its epoch. */
static void destroy_in_the_child(void *arg) {
    (void)arg;
    EpochId epoch = epoch_domain_epoch(domain);
    for (unsigned i = 0; i < 2; i++) {
        destroy_it();
        SUP_CHECK(error == EPERM, "errno %d", error);
    }
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
}

static void fork_it(void) {
    char err[400];
    error = sup_child(destroy_in_the_child, NULL, 10, err, sizeof err);
    if (error != 0) print_error("%s", err);
}
static void let_fork(void *arg) {
    (void)arg;
    let(fork_it);
}

static void forked_in_a_reset(void **state) {
    allocator = *state;
    begin();
    domain = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
    assert_true(epoch_domain_on_destroy(domain, let_fork, NULL));
    error = -1;
    assert_true(epoch_domain_reset(domain, 0));
    assert_int_equal(error, 0);
    epoch_domain_destroy(domain);
    end();
    sup_check_empty(allocator);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(destroyed_by_another_in_a_reset),
        SUP_WITH_ALLOCATOR(destroyed_by_its_own_cleanup),
        SUP_WITH_ALLOCATOR(handed_over_by_its_own_cleanup),
        SUP_WITH_ALLOCATOR(handed_over_by_another_in_a_reset),
        SUP_WITH_ALLOCATOR(forked_in_a_reset),
    };
    return cmocka_run_group_tests_name("api.shared_domains", tests, NULL, NULL);
}
