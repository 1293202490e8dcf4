/*
 * Events that a listening tool has to report: listen_program CASE. Functions whose names must be in its report are
 * makes_NAME, where the object comes from, and ends_NAME, where its lifetime ends.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tslab/tslab.h>
#include <unistd.h>

#define APART __attribute__((noinline)) /* a frame of its own, also for the last call in it */
#define STAY __asm__ volatile("" ::: "memory")

SlabAllocator *a;
EpochId churn;
EpochDomain *domain;
void *volatile kept; /* by a pointer that tools see */
volatile char sink;

static void must(bool good, const char *what) {
    if (good) return;
    (void)fprintf(stderr, "listen_program: %s\n", what);
    exit(3);
}

/* ---- where objects come from, and where their lifetime ends ------------------------------------------------------ */

APART static char *makes_object(size_t bytes) {
    char *p = slab_malloc_epoch(a, bytes, churn);
    must(p != NULL, "slab_malloc_epoch");
    memset(p, 0, bytes);
    return p;
}

APART static char *makes_scratch(size_t bytes) {
    char *p = slab_alloc(bytes);
    must(p != NULL, "slab_alloc");
    memset(p, 0, bytes);
    return p;
}

static void *makes_elsewhere(void *unused) {
    (void)unused;
    return makes_object(64);
}

APART static void ends_object(void *p) {
    must(slab_free(a, p), "slab_free");
    STAY;
}

APART static void ends_domain(void) {
    epoch_domain_destroy(domain);
    STAY;
}

APART static void ends_by_reset(void) {
    must(epoch_domain_reset(domain, 1 << 20), "epoch_domain_reset");
    STAY;
}

APART static void ends_epoch(void) {
    must(epoch_destroy(a, churn), "epoch_destroy");
    STAY;
}

APART static void ends_allocator(void) {
    slab_allocator_free(a);
    STAY;
}

APART static void reads(const char *p) {
    sink = *(const volatile char *)p;
    STAY;
}

static void enter(void) {
    domain = epoch_domain_create(a);
    must(domain != NULL && epoch_domain_enter(domain), "domain");
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void after_free(void) {
    char *p = makes_object(64);
    ends_object(p);
    reads(p + 8);
}

static void after_span_free(void) {
    char *p = makes_object(100000);
    ends_object(p);
    reads(p + 70000);
}

static void after_domain(void) {
    enter();
    char *p = makes_scratch(64);
    must(epoch_domain_exit(domain), "exit");
    ends_domain();
    reads(p + 8);
}

static void after_domain_span(void) {
    enter();
    char *p = makes_scratch(50000);
    must(epoch_domain_exit(domain), "exit");
    ends_domain();
    reads(p + 40000);
}

static void after_reset(void) {
    enter();
    char *p = makes_scratch(200);
    ends_by_reset();
    reads(p + 199);
}

/* valgrind may take the first 16 bytes of an object for the bytes behind the one before. */
static void after_epoch(void) {
    (void)makes_object(64);
    char *p = makes_object(64);
    ends_epoch();
    reads(p + 24);
}

static void after_epoch_of_thread(void) {
    pthread_t thread;
    void *p = NULL;
    must(pthread_create(&thread, NULL, makes_elsewhere, NULL) == 0 && pthread_join(thread, &p) == 0, "thread");
    ends_epoch();
    reads((char *)p + 8);
}

/* The memory is the next domain's, but the place is not. */
static void after_domain_and_next(void) {
    enter();
    (void)makes_scratch(64);
    char *p = makes_scratch(64);
    must(epoch_domain_exit(domain), "exit");
    ends_domain();
    enter();
    (void)slab_alloc(32);
    reads(p + 24);
}

static void after_allocator(void) {
    char *p = makes_object(64);
    ends_allocator();
    reads(p + 8);
}

/* Refused, and told by on_misuse. */
static void free_twice(void) {
    char *p = makes_object(64);
    ends_object(p);
    must(!slab_free(a, p), "freed twice");
}

static void grown(void) {
    char *p = slab_realloc(a, makes_object(50), 60);
    must(p != NULL, "slab_realloc");
    reads(p + 60);
}

static void beyond(void) {
    char *p = makes_object(61);
    reads(p + 61);
}

/* ---- leaks ------------------------------------------------------------------------------------------------------- */

struct link {
    struct link *next, *back;
    char more[80];
};

APART static void forgets_list(void) {
    struct link *list = NULL;
    for (int i = 0; i < 3; i++) {
        struct link *made = (struct link *)(void *)makes_object(sizeof *made);
        made->next = list;
        if (list) list->back = made;
        list = made;
    }
}

APART static void forgets_object(void) { (void)makes_object(50); }
APART static void forgets_span(void) { (void)makes_object(50000); }
APART static void makes_kept(void) {
    void **p = (void **)(void *)makes_object(2 * sizeof *p);
    *p = malloc(77);
    kept = p;
}

APART static void sweep_stack(void) {
    volatile char bytes[8192];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = 0;
    STAY;
}

static void leaks(void) {
    domain = epoch_domain_create(a);
    must(domain && epoch_domain_on_destroy(domain, free, malloc(99)), "cleanup");
    makes_kept();
    forgets_object();
    forgets_span();
    forgets_list();
    sweep_stack();
}

static volatile bool runs;
static void *allocates_for_ever(void *unused) {
    (void)unused;
    for (;;) {
        ends_object(makes_object(32));
        runs = true;
    }
    return NULL;
}

/* The process ends while a thread is at work. */
static void leaks_beside_thread(void) {
    pthread_t thread;
    forgets_object();
    sweep_stack();
    must(pthread_create(&thread, NULL, allocates_for_ever, NULL) == 0, "pthread_create");
    while (!runs) (void)usleep(1000);
}

static void no_leak(void) {
    enter();
    makes_kept();
    ((void **)kept)[1] = makes_scratch(100); /* by a pointer in an object */
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"after_free", after_free},
    {"after_span_free", after_span_free},
    {"after_domain", after_domain},
    {"after_domain_span", after_domain_span},
    {"after_reset", after_reset},
    {"after_epoch", after_epoch},
    {"after_epoch_of_thread", after_epoch_of_thread},
    {"after_domain_and_next", after_domain_and_next},
    {"after_allocator", after_allocator},
    {"free_twice", free_twice},
    {"grown", grown},
    {"beyond", beyond},
    {"leaks", leaks},
    {"leaks_beside_thread", leaks_beside_thread},
    {"no_leak", no_leak},
};

int main(int argc, char **argv) {
    a = slab_allocator_create();
    must(a != NULL, "slab_allocator_create");
    churn = epoch_open(a, "request", EPOCH_CHURN);
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, argv[1]) != 0) continue;
        cases[i].run();
        return 0;
    }
    (void)fprintf(stderr, "listen_program: which case?\n");
    return 2;
}
