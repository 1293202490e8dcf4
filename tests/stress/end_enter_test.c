/*
 * A thread enters its domain, over and over, while others try to end it. A thread whose end succeeds finds nobody
 * inside, and the cleanup has run once; a thread inside keeps its objects. Owned domains, and shared ones with two
 * visitors.
 */
#include "check.h"
#include "stress.h"

#include <tslab/stats.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define VISITORS 2

static SlabAllocator *allocator;
static _Atomic(EpochDomain *) domain;
static int rounds; /* of each kind; constant once the threads run */
static atomic_int inside, cleanups, round_no, stopped, waiting;

static void clean(void *unused) {
    (void)unused;
    SUP_CHECK(atomic_load(&inside) == 0, "a cleanup runs while somebody is inside");
    atomic_fetch_add(&cleanups, 1);
}

/* Enters until it is refused. */
static void visit(EpochDomain *d) {
    for (unsigned n = 1;; n++) {
        errno = 0;
        if (!epoch_domain_enter(d)) {
            SUP_CHECK(errno == ESTALE || errno == EINVAL, "entering is refused with %d", errno);
            return;
        }
        atomic_fetch_add(&inside, 1);
        char *p = slab_alloc(32);
        SUP_CHECK(p != NULL, "nothing to be had inside, errno %d", errno);
        *p = 1;
        SUP_CHECK(slab_owns(allocator, p), "an object of a domain that somebody is inside of is gone");
        if (n % 32 == 0) { /* not each time: a domain with a thread nearly always inside cannot be ended */
            SUP_CHECK(epoch_domain_enter(d) && epoch_domain_exit(d), "who is inside is refused, errno %d", errno);
            SUP_CHECK(epoch_domain_alloc(d, 16) != NULL, "who is inside gets nothing, errno %d", errno);
        }
        atomic_fetch_sub(&inside, 1);
        SUP_CHECK(epoch_domain_exit(d), "exit");
    }
}

static void *visitor(void *unused) {
    (void)unused;
    for (int seen = 0; !atomic_load(&stopped);) {
        int now = atomic_load(&round_no);
        if (now == seen) {
            (void)sched_yield();
            continue;
        }
        seen = now;
        visit(atomic_load(&domain));
        atomic_fetch_add(&waiting, 1);
    }
    return NULL;
}

/* Makes the domain, and is its owner. */
static void *owner(void *unused) {
    (void)unused;
    for (int i = 0; i < rounds; i++) {
        atomic_store(&domain, epoch_domain_create(allocator));
        SUP_CHECK(epoch_domain_on_destroy(atomic_load(&domain), clean, NULL), "on_destroy");
        atomic_fetch_add(&round_no, 1);
        visit(atomic_load(&domain));
        while (atomic_load(&waiting) == 0) (void)sched_yield();
        atomic_store(&waiting, 0);
    }
    atomic_store(&stopped, 1);
    return NULL;
}

/* The domain of the round ends here. */
static void end_round(void) {
    EpochDomain *d = atomic_load(&domain);
    int before = atomic_load(&cleanups);
    for (;;) {
        errno = 0;
        if (epoch_domain_end(d)) break;
        SUP_CHECK(errno == EBUSY, "ending is refused with %d", errno);
    }
    SUP_CHECK(atomic_load(&inside) == 0, "a domain has ended while somebody is inside");
    SUP_CHECK(atomic_load(&cleanups) == before + 1, "the cleanup has run");
}

int main(void) {
    pthread_t t[VISITORS];
    rounds = sup_long() ? 400 : 100;
    allocator = slab_allocator_create();
    SUP_CHECK(pthread_create(&t[0], NULL, owner, NULL) == 0, "pthread_create");
    for (int seen = 0; seen < rounds; seen++) {
        while (atomic_load(&round_no) == seen) (void)sched_yield();
        end_round();
        atomic_fetch_add(&waiting, 1);
    }
    pthread_join(t[0], NULL);
    atomic_store(&stopped, 0);
    atomic_store(&round_no, 0);
    atomic_store(&waiting, 0);
    for (int i = 0; i < VISITORS; i++) SUP_CHECK(pthread_create(&t[i], NULL, visitor, NULL) == 0, "pthread_create");
    for (int i = 0; i < rounds; i++) {
        atomic_store(&domain, epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED));
        SUP_CHECK(epoch_domain_on_destroy(atomic_load(&domain), clean, NULL), "on_destroy");
        atomic_fetch_add(&round_no, 1);
        end_round();
        while (atomic_load(&waiting) < VISITORS) (void)sched_yield();
        atomic_store(&waiting, 0);
    }
    atomic_store(&stopped, 1);
    for (int i = 0; i < VISITORS; i++) pthread_join(t[i], NULL);
    slab_allocator_free(allocator);
    printf("end_enter_test: %d ends\n", atomic_load(&cleanups));
    return 0;
}
