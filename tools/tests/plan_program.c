/*
 * What plan_test.py records, and runs by the plan. Each object begins with the name of its site. With libtslab-malloc
 * as the malloc the program says at its end how many objects of each site are in which epoch: EPOCH/SITE COUNT.
 *
 *     LIBRARY ROUNDS [threads | fork | close | domain | array | realigned | unload]
 *
 * Each round keeps an object of each site, and has some that die in it.
 *
 * LIBRARY is loaded late, and calls the wrapper from functions without names.
 * close: the epochs of the plan are closed before the last rounds. domain: the last rounds are in a domain that
 * captures. unload: the library is closed; ends with 10 if it is still there, else with 11. array: also by a wrapper
 * whose frame has no constant size. realigned: by one whose frame is not where its caller's ends.
 */
#define _GNU_SOURCE
#include <tslab/stats.h>
#include <tslab/tslab.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma weak slab_malloc_allocator
#pragma weak slab_walk
#pragma weak slab_epochs
#pragma weak slab_stats_epoch_sized
#pragma weak epoch_close
#pragma weak epoch_domain_create_ex
#pragma weak epoch_domain_enter
extern SlabAllocator *slab_malloc_allocator(void);

#define NOINLINE __attribute__((noinline))
enum { EPOCHS = 32, NAMES = 32, NAME = 24, BURST = 20 };

typedef void *take_function(unsigned way, void *(*allocate)(size_t), size_t size);

static take_function *library_take;
static volatile unsigned done; /* a store behind a call makes it no jump */

static void *name(void *p, const char *text) {
    if (!p) exit(3);
    snprintf(p, NAME, "site %s", text);
    done++;
    return p;
}

/* ---- sites ------------------------------------------------------------------------------------------------------- */

NOINLINE static void *wrapper(size_t bytes) {
    void *p = malloc(bytes);
    done++;
    return p;
}
NOINLINE static void *outer_wrapper(size_t bytes) {
    void *p = wrapper(bytes);
    done++;
    return p;
}

NOINLINE static void *array_wrapper(size_t bytes) {
    volatile char array[bytes + done % 64];
    array[0] = 1;
    void *p = malloc(bytes + (size_t)array[0]);
    done++;
    return p;
}

NOINLINE static void *realigned_wrapper(size_t bytes) {
    volatile _Alignas(64) char array[64];
    array[0] = 1;
    void *p = malloc(bytes + (size_t)array[0]);
    done++;
    return p;
}

NOINLINE static void by_other(void *(*wrap)(size_t)) {
    (void)name(wrap(100), "other kept");
    for (unsigned i = 0; i < BURST; i++) free(name(wrap(100), "other dying"));
    (void)name(wrap(100), "other kept");
}

static void keep(void) {
    (void)name(malloc(100), "direct");
    (void)name(wrapper(100), "wrapped");
    (void)name(outer_wrapper(100), "twice");
    (void)name(calloc(1, 100), "zeroed");
    (void)name(realloc(NULL, 100), "grown");
    (void)name(aligned_alloc(64, 128), "aligned");
    (void)name(strdup("0123456789012345678901234567890123456789"), "copied");
    (void)name(library_take(0, wrapper, 100), "library");
}

NOINLINE static void burst(bool stays) {
    void *p[BURST];
    for (unsigned i = 0; i < BURST; i++)
        p[i] = name(i % 3 == 0   ? outer_wrapper(100)
                    : i % 3 == 1 ? library_take(1, wrapper, 100)
                                 : library_take(0, outer_wrapper, 100), /* by the call that keeps those of "library" */
                    "dying");
    for (unsigned i = 0; i < BURST && !stays; i++) free(p[i]);
}

/* ---- what is where ----------------------------------------------------------------------------------------------- */

static struct {
    char name[NAME];
    unsigned count;
} seen[NAMES];

static bool count(void *object, size_t bytes, void *arg) {
    unsigned i = 0;
    (void)arg;
    if (bytes < NAME || memcmp(object, "site ", 5) != 0) return true;
    while (seen[i].count && strcmp(seen[i].name, object) != 0) i++;
    memcpy(seen[i].name, object, NAME);
    seen[i].count++;
    return true;
}

static void for_each_epoch(void (*call)(EpochId epoch, const char *label)) {
    EpochId epoch[EPOCHS];
    SlabEpochStats about;
    size_t n = slab_malloc_allocator ? slab_epochs(slab_malloc_allocator(), epoch, EPOCHS) : 0;
    for (size_t i = 0; i < n && i < EPOCHS; i++)
        if (slab_stats_epoch(slab_malloc_allocator(), SLAB_ALL_CLASSES, epoch[i], &about)) call(epoch[i], about.label);
}

static void tell_of(EpochId epoch, const char *label) {
    memset(seen, 0, sizeof seen);
    (void)slab_walk(slab_malloc_allocator(), epoch, count, NULL);
    for (unsigned k = 0; seen[k].count; k++) printf("%s/%s %u\n", label, seen[k].name + 5, seen[k].count);
}

static void close_planned(EpochId epoch, const char *label) {
    if (strncmp(label, "malloc: ", 8) == 0) epoch_close(slab_malloc_allocator(), epoch);
}

static void *rounds(void *arg) {
    for (unsigned long i = 0; i < *(unsigned long *)arg; i++) {
        keep();
        burst(false);
    }
    return NULL;
}

int main(int argc, char **argv) {
    void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL,
         *symbol = library ? dlsym(library, "library_take") : NULL;
    if (!symbol) return 2;
    memcpy(&library_take, &symbol, sizeof library_take);
    unsigned long n = strtoul(argv[2], NULL, 10);
    const char *how = argc > 3 ? argv[3] : "";
    (void)rounds(&n);
    if (strcmp(how, "threads") == 0) {
        pthread_t thread[4];
        for (unsigned i = 0; i < 4; i++)
            if (pthread_create(&thread[i], NULL, rounds, &n) != 0) return 3;
        for (unsigned i = 0; i < 4; i++) (void)pthread_join(thread[i], NULL);
    } else if (strcmp(how, "fork") == 0) {
        pid_t child = fork();
        int status = 1;
        if (child > 0) return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 3;
        (void)rounds(&n);
    } else if (strcmp(how, "domain") == 0) {
        EpochDomain *domain = epoch_domain_create_ex(slab_malloc_allocator(), "captured", EPOCH_DOMAIN_CAPTURE);
        if (!domain) return 3;
        epoch_domain_enter(domain);
        (void)rounds(&n);
    } else if (strcmp(how, "unload") == 0) {
        dlclose(library);
        if (getenv("TOOLS_EARLY")) dlclose(library); /* for early_library.c, which has loaded it, too */
        return dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) ? 10 : 11;
    } else if (strcmp(how, "array") == 0 || strcmp(how, "realigned") == 0) {
        for (unsigned long i = 0; i < n; i++) by_other(*how == 'a' ? array_wrapper : realigned_wrapper);
    } else if (strcmp(how, "close") == 0) {
        for_each_epoch(close_planned);
        (void)rounds(&n);
    }
    if (slab_malloc_allocator) burst(true);
    for_each_epoch(tell_of);
    fflush(stdout);
    return 0;
}
