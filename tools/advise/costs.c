#include "advise/costs.h"

#include "common/domain_calls.h"
#include "tslab/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OBJECTS = 64, ROUNDS = 2000, TRIALS = 9 };

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* 16 to 256 bytes, in no order. */
static size_t size_of(unsigned i) { return 16 + (i * 37u) % 241u; }

static void touch(void *p) {
    if (p) *(volatile char *)p = 1;
}

static double malloc_ns(void) {
    void *object[OBJECTS];
    double from = now_ns();
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < OBJECTS; i++) touch(object[i] = malloc(size_of(i + round)));
        for (unsigned i = 0; i < OBJECTS; i++) free(object[(i * 29u) % OBJECTS]);
    }
    return (now_ns() - from) / ROUNDS / OBJECTS;
}

/* A turn of so many objects. */
static double domain_ns(SlabAllocator *a, unsigned objects) {
    double from = now_ns();
    for (unsigned round = 0; round < ROUNDS; round++) {
        EpochDomain *d = epoch_domain_create(a);
        if (!d) return 0;
        epoch_domain_enter(d);
        for (unsigned i = 0; i < objects; i++) touch(slab_alloc(size_of(i + round)));
        epoch_domain_exit(d);
        epoch_domain_destroy(d);
    }
    return (now_ns() - from) / ROUNDS;
}

static double least(double a, double b) { return a < b ? a : b; }

turn_costs costs_measure(void) {
    double pair = 1e9, empty = 1e9, full = 1e9;
    SlabAllocator *a = slab_allocator_create();
    for (unsigned i = 0; a && i < TRIALS; i++) { /* by turns, so that a busy machine slows all alike */
        pair = least(pair, malloc_ns());
        empty = least(empty, domain_ns(a, 1));
        full = least(full, domain_ns(a, OBJECTS));
    }
    if (!a) return (turn_costs){.malloc_free = 20, .scope_alloc = 5, .domain = 80};
    slab_allocator_free(a);
    double each = (full - empty) / (OBJECTS - 1);
    return (turn_costs){
        .malloc_free = pair, .scope_alloc = each > 0 ? each : 0, .domain = empty > each ? empty - each : empty};
}

/* ---- captured ---------------------------------------------------------------------------------------------------- */

/* A turn of so many objects, each freed before its end. */
static double captured_ns(const domain_calls *d, unsigned objects) {
    void *object[OBJECTS];
    double from = now_ns();
    for (unsigned round = 0; round < ROUNDS / 4; round++) {
        EpochDomain *inside = d->create(d->allocator(), NULL, EPOCH_DOMAIN_CAPTURE | EPOCH_DOMAIN_DRAIN);
        if (!inside || !d->enter(inside)) return 0;
        for (unsigned i = 0; i < objects; i++) touch(object[i] = malloc(size_of(i + round)));
        for (unsigned i = 0; i < objects; i++) free(object[objects == 1 ? 0 : (i * 29u) % OBJECTS]);
        (void)d->leave(inside);
        d->destroy(inside);
    }
    return (now_ns() - from) / (ROUNDS / 4);
}

int costs_print_captured(void) {
    domain_calls d;
    double empty = 1e9, full = 1e9;
    if (!domain_calls_find(&d)) return 1;
    for (unsigned i = 0; i < TRIALS; i++) {
        empty = least(empty, captured_ns(&d, 1));
        full = least(full, captured_ns(&d, OBJECTS));
    }
    const double each = (full - empty) / (OBJECTS - 1);
    if (each <= 0 || empty <= each) return 1;
    return printf("%.3f %.3f\n", each, empty - each) > 0 && fflush(stdout) == 0 ? 0 : 1;
}

static void become_captured(int out) {
    char library[PATH_MAX];
    int null = open("/dev/null", O_WRONLY);
    if (null >= 0) (void)dup2(null, STDERR_FILENO); /* the loader, or the search, says that there is no such library */
    (void)dup2(out, STDOUT_FILENO);
    (void)unsetenv("TSLAB_HTTP"); /* it is to start nothing */
    (void)unsetenv("TSLAB_SHM");
    if (launch_find_library("libtslab-malloc.so." TSLAB_SOVERSION, library) < 0 &&
        setenv("LD_PRELOAD", library, 1) == 0)
        execl("/proc/self/exe", "tslab", "advise", "--captured", (char *)NULL);
    _exit(1);
}

void costs_measure_captured(turn_costs *costs) {
    char text[64] = "";
    int fd[2], status = 1;
    double pair, domain;
    if (pipe2(fd, O_CLOEXEC) != 0) return;
    pid_t child = fork();
    if (child == 0) become_captured(fd[1]);
    (void)close(fd[1]);
    FILE *in = fdopen(fd[0], "r");
    const bool any = in && fgets(text, sizeof text, in) && sscanf(text, "%lf %lf", &pair, &domain) == 2;
    if (in) (void)fclose(in);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!any || status != 0) return;
    costs->captured_pair = pair;
    costs->captured_domain = domain;
}
