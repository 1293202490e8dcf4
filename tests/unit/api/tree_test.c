/* Parents and children of domains, ends from any thread, and ends that drain. */
#define _GNU_SOURCE
#include "identities.h"
#include "unit.h"

#include "supply/account.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

static char order[64];
static void note(void *arg) { strncat(order, arg, 1); }

static void *on_thread(void *(*fn)(void *), void *arg) {
    pthread_t t;
    void *result;
    assert_int_equal(pthread_create(&t, NULL, fn, arg), 0);
    assert_int_equal(pthread_join(t, &result), 0);
    return result;
}

static EpochDomain *child(EpochDomain *parent, char *name) {
    EpochDomain *d = epoch_domain_create_child(parent, name, 0);
    assert_non_null(d);
    assert_ptr_equal(epoch_domain_parent(d), parent);
    assert_true(epoch_domain_on_destroy(d, note, name));
    assert_non_null(epoch_domain_alloc(d, 100));
    return d;
}

static void parents_end_children(void **state) {
    SlabAllocator *a = *state;
    for (int how = 0; how < 4; how++) {
        EpochDomain *p = epoch_domain_create_ex(a, "parent", 0);
        assert_null(epoch_domain_parent(p));
        order[0] = 0;
        EpochDomain *d1 = child(p, "1"), *d2 = child(p, "2"), *d3 = child(d1, "3"), *d4 = child(d1, "4");
        void *object = epoch_domain_alloc(d3, 64);
        assert_true(epoch_domain_on_destroy(p, note, "p"));
        assert_true(epoch_domain_enter(p) && epoch_domain_enter(d4));
        if (how == 0) epoch_domain_destroy(p);
        if (how == 1) assert_true(epoch_domain_end(p));
        if (how == 2) assert_true(epoch_domain_reset(p, SIZE_MAX));
        if (how == 3) { /* each by itself, from below */
            assert_true(epoch_domain_end(d2));
            assert_true(epoch_domain_end(d4) && epoch_domain_end(d3) && epoch_domain_end(d1));
            epoch_domain_destroy(p);
        }
        assert_string_equal(order, how == 3 ? "2431p" : "2431p");
        assert_false(slab_owns(a, object));
        assert_int_equal(epoch_domain_epoch(d1), EPOCH_NONE);
        assert_int_equal(epoch_domain_epoch(d4), EPOCH_NONE);
        assert_null(epoch_domain_parent(d4));
        if (how == 2) {
            assert_ptr_equal(epoch_domain_current(), p);
            assert_non_null(slab_alloc(10));
            assert_non_null(child(p, "5"));
            assert_true(epoch_domain_end(p));
        }
        assert_null(epoch_domain_current());
        errno = 0;
        assert_false(epoch_domain_end(p));
        assert_int_equal(errno, EINVAL);
    }
    sup_check_identities(a);
}

static void *allocates(void *domain) { return epoch_domain_alloc(domain, 10); }

static void moves(void **state) {
    SlabAllocator *a = *state, *b = slab_allocator_create();
    EpochDomain *p = epoch_domain_create(a), *q = epoch_domain_create(a), *other = epoch_domain_create(b);
    EpochDomain *shared = epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_SHARED);
    EpochDomain *c = child(p, "c"), *g = child(c, "g");
    errno = 0;
    assert_false(epoch_domain_move(p, g));
    assert_int_equal(errno, EINVAL);
    assert_false(epoch_domain_move(p, p));
    errno = 0;
    assert_false(epoch_domain_move(c, other));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_false(epoch_domain_move(c, shared));
    assert_int_equal(errno, EINVAL);
    assert_ptr_equal(epoch_domain_parent(c), p);
    assert_true(epoch_domain_move(c, q));
    assert_ptr_equal(epoch_domain_parent(c), q);
    epoch_domain_destroy(p);
    assert_non_null(epoch_domain_alloc(g, 10));
    assert_true(epoch_domain_move(g, NULL));
    assert_true(epoch_domain_move(g, NULL));
    assert_null(epoch_domain_parent(g));
    epoch_domain_destroy(q);
    assert_int_equal(epoch_domain_epoch(c), EPOCH_NONE);
    assert_non_null(epoch_domain_alloc(g, 10));
    errno = 0;
    assert_false(epoch_domain_move(g, q));
    assert_int_equal(errno, EINVAL);
    epoch_domain_destroy(g);
    /* A child of a shared domain is shared; one of a thread's is not. */
    EpochDomain *s = epoch_domain_create_child(shared, NULL, 0);
    assert_non_null(s);
    assert_true(slab_owns(a, on_thread(allocates, s)));
    errno = 0;
    assert_null(epoch_domain_create_child(other, NULL, EPOCH_DOMAIN_SHARED));
    assert_int_equal(errno, EINVAL);
    assert_null(epoch_domain_create_child(NULL, NULL, 0));
    assert_null(epoch_domain_create_child(other, NULL, 0x1000));
    assert_true(epoch_domain_force_close(other));
    errno = 0;
    assert_null(epoch_domain_create_child(other, NULL, 0));
    assert_int_equal(errno, ESTALE);
    epoch_domain_destroy(shared);
    assert_int_equal(epoch_domain_epoch(s), EPOCH_NONE);
    /* No circle, neither of those whose epochs are closed, and count against no limit any more. */
    EpochDomain *above = epoch_domain_create(a), *below = child(above, "below");
    assert_true(epoch_domain_force_close(below) && epoch_domain_force_close(above));
    errno = 0;
    assert_false(epoch_domain_move(above, below));
    assert_int_equal(errno, EINVAL);
    epoch_domain_destroy(above);
    assert_int_equal(epoch_domain_epoch(below), EPOCH_NONE);
    slab_allocator_free(b);
}

/* ---- from another thread --------------------------------------------------------------------------------------- */

static void *end_on_thread(void *domain) {
    errno = 0;
    return epoch_domain_end(domain) ? NULL : (void *)(intptr_t)errno;
}
static void *makes_a_tree(void *parent) {
    EpochDomain *p = epoch_domain_create(parent), *c = p ? epoch_domain_create_child(p, NULL, 0) : NULL;
    return c && epoch_domain_enter(c) && slab_alloc(64) ? c : NULL; /* and ends inside of it */
}
static void *creates_child(void *parent) {
    errno = 0;
    EpochDomain *c = epoch_domain_create_child(parent, NULL, 0);
    return c ? NULL : (void *)(intptr_t)errno;
}
static void *enters(void *domain) {
    errno = 0;
    if (epoch_domain_enter(domain)) return epoch_domain_exit(domain) ? NULL : (void *)1;
    return (void *)(intptr_t)errno;
}

static void from_another_thread(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *p = epoch_domain_create(a), *c = epoch_domain_create_child(p, NULL, 0);
    order[0] = 0;
    assert_true(epoch_domain_on_destroy(p, note, "p") && epoch_domain_on_destroy(c, note, "c"));
    assert_int_equal((intptr_t)on_thread(creates_child, p), EPERM);
    assert_true(epoch_domain_enter(c));
    void *object = slab_alloc(100);
    assert_int_equal((intptr_t)on_thread(end_on_thread, p), EBUSY); /* inside of a child */
    assert_int_equal((intptr_t)on_thread(end_on_thread, c), EBUSY);
    assert_string_equal(order, ""); /* nothing has happened */
    assert_true(slab_owns(a, object));
    assert_non_null(slab_alloc(100));
    assert_true(epoch_domain_exit(c));
    assert_true(epoch_domain_enter(p) && epoch_domain_exit(p)); /* still this thread's */
    assert_int_equal((intptr_t)on_thread(enters, p), EPERM);
    assert_int_equal((intptr_t)on_thread(end_on_thread, p), 0);
    assert_string_equal(order, "cp");
    assert_false(slab_owns(a, object));
    errno = 0;
    assert_false(epoch_domain_enter(p));
    assert_int_equal(errno, EINVAL);
    /* Whose thread has ended, inside of it. */
    c = on_thread(makes_a_tree, a);
    assert_non_null(c);
    p = epoch_domain_parent(c);
    assert_true(epoch_domain_end(p));
    assert_int_equal(epoch_domain_epoch(c), EPOCH_NONE);
    /* Handed over, and nobody's. */
    p = epoch_domain_create(a);
    c = epoch_domain_create_child(p, NULL, 0);
    errno = 0;
    assert_false(epoch_domain_hand_over(c));
    assert_int_equal(errno, EPERM);
    assert_true(epoch_domain_hand_over(p));
    errno = 0;
    assert_null(epoch_domain_alloc(c, 10));
    assert_int_equal(errno, EPERM);
    assert_int_equal((intptr_t)on_thread(enters, c), EPERM); /* with its parent, not without */
    assert_true(epoch_domain_enter(p) && epoch_domain_exit(p));
    assert_non_null(epoch_domain_alloc(c, 10));
    assert_true(epoch_domain_hand_over(p));
    assert_int_equal((intptr_t)on_thread(end_on_thread, p), 0);
    assert_int_equal(epoch_domain_epoch(c), EPOCH_NONE);
    sup_check_identities(a);
}

typedef struct visitor {
    EpochDomain *domain;
    sem_t in, out;
} visitor;
static void *visit(void *arg) {
    visitor *v = arg;
    bool in = epoch_domain_enter(v->domain) && slab_alloc(10) != NULL;
    sem_post(&v->in);
    sem_wait(&v->out);
    return in && epoch_domain_exit(v->domain) ? NULL : arg;
}

static void shared_and_entered(void **state) {
    SlabAllocator *a = *state;
    EpochDomain *p = epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_SHARED), *c = epoch_domain_create_child(p, NULL, 0);
    visitor v = {.domain = c};
    assert_int_equal(sem_init(&v.in, 0, 0) | sem_init(&v.out, 0, 0), 0);
    pthread_t t;
    void *result;
    assert_int_equal(pthread_create(&t, NULL, visit, &v), 0);
    sem_wait(&v.in);
    assert_true(epoch_domain_enter(p)); /* oneself is nobody else */
    errno = 0;
    assert_false(epoch_domain_end(p));
    assert_int_equal(errno, EBUSY);
    assert_non_null(epoch_domain_alloc(c, 10));
    sem_post(&v.out);
    assert_int_equal(pthread_join(t, &result), 0);
    assert_null(result);
    assert_true(epoch_domain_end(p));
    assert_null(epoch_domain_current());
    /* Destroyed under a visitor, whose way out is as it was. */
    v.domain = epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_SHARED);
    assert_int_equal(pthread_create(&t, NULL, visit, &v), 0);
    sem_wait(&v.in);
    epoch_domain_destroy(v.domain);
    EpochDomain *next[100];
    for (int i = 0; i < 100; i++) assert_true(epoch_domain_enter(next[i] = epoch_domain_create(a)));
    sem_post(&v.out);
    assert_int_equal(pthread_join(t, &result), 0);
    assert_null(result);
    for (int i = 99; i >= 0; i--) {
        assert_true(epoch_domain_exit(next[i]));
        assert_int_equal((intptr_t)on_thread(end_on_thread, next[i]), 0);
    }
    sup_check_identities(a);
}

/* While a shared one ends that nobody was inside of, its cleanups may enter it; another thread may not, not even
   then. */
static struct {
    EpochDomain *domain;
    int others, mine;
    bool emptied;
} during;
static void *enter_on_thread(void *domain) {
    errno = 0;
    return (void *)(intptr_t)(epoch_domain_enter(domain) ? 0 : errno);
}
static void enters_during_the_end(void *arg) {
    (void)arg;
    during.others = (int)(intptr_t)on_thread(enter_on_thread, during.domain);
    errno = 0;
    during.mine = epoch_domain_enter(during.domain) && slab_alloc(10) && epoch_domain_exit(during.domain) ? 0 : errno;
}

static void empties_and_enters(void *arg) {
    during.emptied = epoch_domain_reset(during.domain, 0);
    enters_during_the_end(arg);
}

static void nobody_comes_in_during_the_end(void **state) {
    SlabAllocator *a = *state;
    /* The domain; its child, at the end of both; a child while its older sibling is only marked; the same when that was
       emptied meanwhile. */
    for (int how = 0; how < 4; how++) {
        EpochDomain *p = epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_SHARED);
        EpochDomain *c = epoch_domain_create_child(p, NULL, 0), *younger = epoch_domain_create_child(p, NULL, 0);
        during.domain = how == 0 ? p : c;
        during.others = during.mine = -1;
        during.emptied = false;
        assert_true(epoch_domain_on_destroy(how >= 2 ? younger : during.domain,
                                            how == 3 ? empties_and_enters : enters_during_the_end, NULL));
        assert_true(epoch_domain_end(p));
        assert_int_equal(during.emptied, how == 3);
        assert_int_equal(during.others, ESTALE);
        assert_int_equal(during.mine, 0);
        assert_int_equal((intptr_t)on_thread(enter_on_thread, p), EINVAL);
    }
    sup_check_identities(a);
}

/* ---- from inside ------------------------------------------------------------------------------------------------- */

static EpochDomain *tried_parent, *tried;
static int answers[3];
static void tries(void *arg) {
    (void)arg;
    errno = 0;
    answers[0] = epoch_domain_end(tried) ? 0 : errno;
    errno = 0;
    answers[1] = epoch_domain_end(tried_parent) ? 0 : errno;
    errno = 0;
    answers[2] = epoch_domain_create_child(tried, NULL, 0) ? 0 : errno;
    epoch_domain_destroy(tried_parent);
}

static void from_its_cleanup(void **state) {
    SlabAllocator *a = *state;
    for (int from_above = 0; from_above < 2; from_above++) {
        tried_parent = epoch_domain_create(a);
        tried = epoch_domain_create_child(tried_parent, NULL, 0);
        assert_true(epoch_domain_on_destroy(tried, tries, NULL));
        memset(answers, 0, sizeof answers);
        assert_true(epoch_domain_end(from_above ? tried_parent : tried));
        assert_int_equal(answers[0], EPERM);
        assert_int_equal(answers[1], EPERM);
        assert_int_equal(answers[2], ESTALE);
        assert_int_equal(epoch_domain_epoch(tried), EPOCH_NONE);
        if (!from_above) {
            assert_true(epoch_domain_epoch(tried_parent) != EPOCH_NONE);
            epoch_domain_destroy(tried_parent);
        }
    }
}

static void drains(void **state) {
    SlabAllocator *a = *state;
    for (int by_end = 0; by_end < 2; by_end++) {
        EpochDomain *d = epoch_domain_create_ex(a, "drains", EPOCH_DOMAIN_DRAIN);
        EpochId epoch = epoch_domain_epoch(d);
        void *p = epoch_domain_alloc(d, 100), *large = epoch_domain_alloc(d, 100000);
        memset(p, 7, 100);
        if (by_end)
            assert_true(epoch_domain_end(d));
        else
            epoch_domain_destroy(d);
        assert_int_equal(epoch_domain_epoch(d), EPOCH_NONE);
        assert_int_equal(epoch_state(a, epoch), EPOCH_CLOSING);
        SlabEpochStats s;
        assert_true(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch, &s));
        assert_int_equal(s.live_objects, 2);
        assert_int_equal(((char *)p)[99], 7);
        assert_true(slab_release(p) && slab_release(large));
        assert_int_equal(epoch_state(a, epoch), EPOCH_CLOSED);
    }
    /* Empty, it is over at once. A reset is a reset. */
    EpochDomain *d = epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_DRAIN | EPOCH_CHURN);
    EpochId epoch = epoch_domain_epoch(d);
    void *p = epoch_domain_alloc(d, 100);
    assert_true(epoch_domain_reset(d, SIZE_MAX));
    assert_false(slab_owns(a, p));
    epoch_domain_destroy(d);
    assert_int_equal(epoch_state(a, epoch), EPOCH_CLOSED);
    sup_check_identities(a);
}

static void deep_and_wide(void **state) {
    SlabAllocator *a = *state;
    enum { DEEP = 10000 }; /* with 32 bits 32,767 epochs can be open */
    EpochDomain *root = epoch_domain_create(a), *at = root;
    for (int i = 0; i < DEEP; i++) assert_non_null(at = epoch_domain_create_child(at, NULL, 0));
    for (int i = 0; i < DEEP; i++) assert_non_null(epoch_domain_create_child(root, NULL, 0));
    assert_true(epoch_domain_end(root));
    assert_int_equal(epoch_domain_epoch(at), EPOCH_NONE);
    SlabGlobalStats g;
    assert_true(slab_stats_global(a, &g));
    assert_int_equal(g.active_epoch_count, 0);
}

static void of_a_freed_allocator(void **state) {
    (void)state;
    SlabAllocator *a = slab_allocator_create();
    EpochDomain *p = epoch_domain_create(a), *c = epoch_domain_create_child(p, NULL, 0);
    assert_true(epoch_domain_enter(p) && epoch_domain_enter(c));
    slab_allocator_free(a);
    assert_null(epoch_domain_parent(c));
    errno = 0;
    assert_null(slab_alloc(10));
    assert_int_equal(errno, ESTALE);
    assert_true(epoch_domain_exit(c) && epoch_domain_exit(p));
    errno = 0;
    assert_false(epoch_domain_end(p));
    assert_int_equal(errno, EINVAL);
}

/* Two threads may move two domains at once, each where the tree still has no circle. */
static void accounts_are_in_no_circle(void **state) {
    (void)state;
    slab_allocator_free(slab_allocator_create());
    ts_account *a[3];
    for (int i = 0; i < 3; i++) a[i] = ts_account_make((uint64_t)i + 1);
    assert_true(ts_account_move(a[0], a[1]) && ts_account_move(a[1], a[2]));
    for (int i = 0; i < 3; i++) assert_false(ts_account_move(a[2], a[i]));
    for (int i = 0; i < 2; i++) assert_true(ts_account_move(a[i], NULL));
    assert_true(ts_account_move(a[2], a[0]) && ts_account_move(a[2], NULL));
    for (int i = 0; i < 3; i++) ts_account_unref(a[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(parents_end_children),
        SUP_WITH_ALLOCATOR(moves),
        SUP_WITH_ALLOCATOR(from_another_thread),
        SUP_WITH_ALLOCATOR(shared_and_entered),
        SUP_WITH_ALLOCATOR(nobody_comes_in_during_the_end),
        SUP_WITH_ALLOCATOR(from_its_cleanup),
        SUP_WITH_ALLOCATOR(drains),
        SUP_WITH_ALLOCATOR(deep_and_wide),
        cmocka_unit_test(of_a_freed_allocator),
        cmocka_unit_test(accounts_are_in_no_circle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
