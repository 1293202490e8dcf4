/* Domains and threads (domain/record.c): the owner is checked, a domain can be handed over, a shared one is for all. */
#include "check.h"
#include "identities.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void run_thread(void *(*fn)(void *), void *argument) {
    pthread_t thread;
    SUP_CHECK(pthread_create(&thread, NULL, fn, argument) == 0, "pthread_create");
    (void)pthread_join(thread, NULL);
}

#define REFUSED(call, error)                                         \
    do {                                                             \
        errno = 0;                                                   \
        SUP_CHECK(!(call), "on another thread's domain");            \
        SUP_CHECK(errno == (error), "errno is %s", strerror(errno)); \
    } while (0)

static void *touch_what_is_not_ours(void *argument) {
    EpochDomain *domain = argument;
    SlabAllocator *allocator = epoch_domain_allocator(domain);
    SUP_CHECK(allocator != NULL && epoch_domain_epoch(domain) != EPOCH_NONE, "any thread may ask");
    void *object = slab_malloc(allocator, 64);
    REFUSED(epoch_domain_enter(domain), EPERM);
    REFUSED(epoch_domain_reset(domain, 0), EPERM);
    REFUSED(epoch_domain_on_destroy(domain, free, NULL), EPERM);
    REFUSED(epoch_domain_hand_over(domain), EPERM);
    REFUSED(slab_promote(domain, object) != NULL, EPERM);
    SUP_CHECK(!epoch_domain_exit(domain), "it was not entered here");
    errno = 0;
    epoch_domain_destroy(domain);
    SUP_CHECK(errno == EPERM, "errno is %s", strerror(errno));
    SUP_CHECK(epoch_domain_epoch(domain) != EPOCH_NONE, "the domain is destroyed by the wrong thread");
    SUP_CHECK(epoch_domain_current() == NULL, "nothing is entered here");
    SUP_CHECK(slab_free(allocator, object), "the object was not touched");
    return NULL;
}

static void wrong_thread(void) {
    SlabAllocator *allocator = slab_allocator_create();
    EpochDomain *domain = epoch_domain_create(allocator);
    SUP_CHECK(epoch_domain_enter(domain), "enter");
    void *object = slab_alloc(64);
    run_thread(touch_what_is_not_ours, domain);
    SUP_CHECK(slab_owns(allocator, object) && epoch_domain_current() == domain, "nothing has changed here");
    epoch_domain_destroy(domain);
    SUP_CHECK(!slab_owns(allocator, object), "destroyed by its owner");
    slab_allocator_free(allocator);
}

static EpochDomain *wrapped;
static void *wrap(void *epoch) {
    wrapped = epoch_domain_wrap(NULL, *(const EpochId *)epoch, true);
    return NULL;
}

/* All that is in the epoch is this thread's, but not the domain. */
static void wrapped_by_another(void) {
    SlabAllocator *allocator = slab_allocator_default();
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_SCOPE);
    void *object = slab_malloc_epoch(allocator, 64, epoch);
    run_thread(wrap, &epoch);
    SUP_CHECK(wrapped != NULL, "wrap: %s", strerror(errno));
    errno = 0;
    epoch_domain_destroy(wrapped);
    SUP_CHECK(errno == EPERM && epoch_domain_epoch(wrapped) == epoch, "errno is %s", strerror(errno));
    SUP_CHECK(slab_owns(allocator, object) && epoch_destroy(allocator, epoch), "the epoch stays");
}

static void *take_over(void *argument) {
    EpochDomain *domain = argument;
    SUP_CHECK(epoch_domain_enter(domain), "enter what was handed over: %s", strerror(errno));
    SUP_CHECK(slab_alloc(64) != NULL, "slab_alloc");
    SUP_CHECK(epoch_domain_exit(domain), "exit");
    SUP_CHECK(epoch_domain_hand_over(domain), "hand over: %s", strerror(errno));
    return NULL;
}

static void *take_and_destroy(void *argument) {
    EpochDomain *domain = argument;
    SUP_CHECK(epoch_domain_enter(domain), "enter what was handed over: %s", strerror(errno));
    epoch_domain_destroy(domain);
    SUP_CHECK(epoch_domain_current() == NULL, "left by the destroy");
    return NULL;
}

static void *be_refused(void *argument) {
    REFUSED(epoch_domain_enter(argument), EPERM);
    return NULL;
}

static void hand_over(void) {
    SlabAllocator *allocator = slab_allocator_create();
    EpochDomain *domain = epoch_domain_create(allocator);
    SUP_CHECK(epoch_domain_enter(domain), "enter");
    SUP_CHECK(slab_alloc(64) != NULL, "slab_alloc");
    REFUSED(epoch_domain_hand_over(domain), EPERM);
    SUP_CHECK(epoch_domain_exit(domain), "exit");
    SUP_CHECK(epoch_domain_hand_over(domain), "hand over");
    for (int i = 0; i < 5; i++) {
        run_thread(take_over, domain);
    }
    SUP_CHECK(sup_live_objects(allocator) == 6, "every owner has left an object");
    /* Its creator again, whose block is open in it as ever. */
    SUP_CHECK(epoch_domain_enter(domain) && slab_alloc(64) != NULL, "the creator");
    run_thread(be_refused, domain);
    SUP_CHECK(epoch_domain_exit(domain) && epoch_domain_hand_over(domain), "hand over again");
    run_thread(take_and_destroy, domain);
    REFUSED(epoch_domain_enter(domain), EINVAL);
    sup_check_identities(allocator);
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
}

static void *use_shared(void *argument) {
    EpochDomain *domain = argument;
    for (int i = 0; i < 2000; i++) {
        SUP_CHECK(epoch_domain_enter(domain), "enter a shared domain: %s", strerror(errno));
        unsigned char *object = slab_alloc(16 + (size_t)(i % 500));
        SUP_CHECK(object != NULL, "slab_alloc in a shared domain");
        memset(object, i & 0xff, 16);
        SUP_CHECK(epoch_domain_exit(domain), "exit");
    }
    return NULL;
}

static void shared(void) {
    enum { THREADS = 4 };
    SlabAllocator *allocator = slab_allocator_create();
    EpochDomain *domain = epoch_domain_create_ex(allocator, "shared", EPOCH_DOMAIN_SHARED);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        SUP_CHECK(pthread_create(&threads[i], NULL, use_shared, domain) == 0, "pthread_create");
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    sup_check_identities(allocator);
    SUP_CHECK(sup_live_objects(allocator) == THREADS * 2000, "each object of each thread lives");
    epoch_domain_destroy(domain);
    sup_check_identities(allocator);
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
}

static void *force_close_domain(void *argument) {
    SUP_CHECK(epoch_domain_force_close(argument), "force_close from any thread");
    return NULL;
}

static void force_close_from_another(void) {
    SlabAllocator *allocator = slab_allocator_create();
    EpochDomain *domain = epoch_domain_create(allocator);
    SUP_CHECK(epoch_domain_enter(domain), "enter");
    SUP_CHECK(slab_alloc(64) != NULL, "slab_alloc");
    run_thread(force_close_domain, domain);
    REFUSED(slab_alloc(64) != NULL, ESTALE);
    SUP_CHECK(epoch_domain_exit(domain), "exit");
    REFUSED(epoch_domain_enter(domain), ESTALE);
    epoch_domain_destroy(domain);
    sup_check_empty(allocator);
    slab_allocator_free(allocator);
}

int main(void) {
    wrong_thread();
    wrapped_by_another();
    hand_over();
    shared();
    force_close_from_another();
    (void)printf("domain_threads_test: good\n");
    return 0;
}
