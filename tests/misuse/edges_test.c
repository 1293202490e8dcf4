/*
 * Programs that must be caught by AddressSanitizer (where the library is built with it) or by memcheck (else, where
 * valgrind is installed), and programs that must not be (memtools.h).
 *
 *     edges_test                 every case, in a process of its own; exit 77 and the reason if no tool is there
 *     edges_test --case NAME     one of them in this process
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "proc.h"

#include "memtools/memtools.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tslab/stats.h>
#include <unistd.h>

#define CAUGHT 99 /* exit code of memcheck when it saw an error */
#define SKIPPED 77

static SlabAllocator *a;
static EpochId churn, scope;
static volatile char sink;

static char *get(size_t size, EpochId epoch) {
    char *p = slab_malloc_epoch(a, size, epoch);
    SUP_CHECK(p != NULL, "slab_malloc_epoch(%zu)", size);
    memset(p, 1, size);
    return p;
}

static void release(void *p) { SUP_CHECK(slab_free(a, p), "slab_free"); }
static void look(const char *p) { sink = *(const volatile char *)p; }
static void touch(char *p) { *(volatile char *)p = 1; }

/* A crime a line, where it fits. */
/* clang-format off */

/* ---- must be caught: the last access of each ------------------------------------------------------------------ */

static void read_after_free_16(void) { char *p = get(16, churn); release(p); look(p); }
static void read_after_free_64(void) { char *p = get(64, churn); release(p); look(p + 63); }
static void read_after_free_4096(void) { char *p = get(4096, churn); release(p); look(p + 2000); }
static void read_after_free_scope(void) { char *p = get(100, scope); release(p); look(p + 99); }
static void read_after_free_span(void) { char *p = get(100000, churn); release(p); look(p + 70000); }
static void read_after_free_large_span(void) { char *p = get(5000000, churn); release(p); look(p + 4999999); }
static void write_after_free(void) { char *p = get(64, churn); release(p); touch(p + 8); }

static void *free_in_thread(void *p) { release(p); return NULL; }
static void read_after_foreign_free(void) {
    char *p = get(64, churn);
    sup_in_thread(free_in_thread, p);
    look(p);
}

static void read_after_free_by_handle(void) {
    SlabHandle handle;
    char *p = alloc_obj_epoch(a, 64, churn, &handle);
    SUP_CHECK(p != NULL && free_obj(a, handle), "free_obj");
    look(p);
}

static void read_after_epoch_destroy(void) {
    char *p = get(64, churn); SUP_CHECK(epoch_destroy(a, churn), "destroy"); look(p);
}
static void read_after_epoch_destroy_scope(void) {
    char *p = get(64, scope); SUP_CHECK(epoch_destroy(a, scope), "destroy"); look(p);
}
static void read_after_epoch_destroy_span(void) {
    char *p = get(70000, scope); SUP_CHECK(epoch_destroy(a, scope), "destroy"); look(p);
}
static void read_after_allocator_free(void) { char *p = get(64, churn); slab_allocator_free(a); look(p); }

static void read_after_domain(bool reset) {
    EpochDomain *domain = epoch_domain_create(a);
    SUP_CHECK(domain != NULL && epoch_domain_enter(domain), "domain");
    char *p = slab_alloc(64);
    memset(p, 1, 64);
    if (reset) {
        SUP_CHECK(epoch_domain_reset(domain, 1 << 20), "reset");
    } else {
        epoch_domain_destroy(domain);
    }
    look(p);
}
static void read_after_domain_destroy(void) { read_after_domain(false); }
static void read_after_domain_reset(void) { read_after_domain(true); }

static void read_after_promote(void) {
    EpochDomain *domain = epoch_domain_create(a);
    char *p = get(64, churn), *q = slab_promote(domain, p);
    SUP_CHECK(q != NULL && q[63] == 1, "promote");
    look(p);
}

static void read_after_realloc(void) {
    char *p = get(64, churn), *q = slab_realloc(a, p, 500); SUP_CHECK(q != p, "moved"); look(p);
}

static void overflow_by_one(void) { char *p = get(61, churn); touch(p + 61); }
static void overflow_by_one_scope(void) { char *p = get(50, scope); touch(p + 50); }
static void overflow_by_one_alloc(void) {
    EpochDomain *domain = epoch_domain_create(a);
    SUP_CHECK(domain != NULL && epoch_domain_enter(domain), "domain");
    (void)slab_alloc(40);
    char *p = slab_alloc(40);
    touch(p + 40);
}
static void overflow_by_one_span(void) { char *p = get(9000, churn); touch(p + 9000); }
static void overflow_by_one_half_slab(void) { char *p = get(8000, churn); touch(p + 8000); }
static void overflow_into_free_slot(void) {
    char *p = get(64, churn), *q = get(64, churn); release(p > q ? p : q); touch((p > q ? q : p) + 64);
}
static void overflow_of_nothing(void) { char *p = slab_malloc_epoch(a, 0, churn); touch(p + 1); }
static void overflow_calloc(void) { char *p = slab_calloc_epoch(a, 7, 7, churn); touch(p + 49); }
static void overflow_aligned(void) { char *p = slab_aligned_epoch(a, 256, 100, churn); touch(p + 100); }
static void overflow_rolling(void) { char *p = slab_malloc(a, 100); touch(p + 100); }
static void underflow_into_free_slot(void) {
    char *p = get(64, churn), *q = get(64, churn); release(p > q ? q : p); look((p > q ? p : q) - 1);
}
static void never_allocated(void) { char *p = get(96, churn); look(p + 40 * 96); }
static void end_of_slab(void) { char *p = get(96, churn); look((char *)((uintptr_t)p | 16383)); }
static void behind_bump(void) { char *p = get(96, scope); look(p + 96); }
static void after_shrink(void) {
    char *p = get(64, churn); SUP_CHECK(slab_realloc(a, p, 40) == p, "in place"); look(p + 40);
}
static void after_shrink_scope(void) {
    char *p = get(640, scope); SUP_CHECK(slab_realloc(a, p, 40) == p, "in place"); look(p + 100);
}
static void after_grow(void) {
    char *p = get(50, churn); SUP_CHECK(slab_realloc(a, p, 60) == p, "in place"); touch(p + 60);
}

/* ---- must not be caught ----------------------------------------------------------------------------------------- */

static void all_bytes_of_all_sizes(void) {
    for (size_t size = 0; size < 18000; size += 1 + size / 7) {
        char *p = get(size, churn), *q = get(size, scope);
        SUP_CHECK(slab_usable_size(a, p) == (size ? size : 1), "usable %zu of %zu", slab_usable_size(a, p), size);
        for (size_t i = 0; i < slab_usable_size(a, p); i++) touch(p + i);
        for (size_t i = 0; i < slab_usable_size(a, q); i++) touch(q + i);
        release(p);
        if (size % 2) release(q);
    }
}

static void reuse(void) {
    enum { COUNT = 2000 };
    static char *p[COUNT];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < COUNT; i++) p[i] = get((size_t)(i + round) % 300, churn);
        for (int i = 0; i < COUNT; i++) release(p[i]);
    }
    for (int round = 0; round < 4; round++) {
        EpochId epoch = epoch_open(a, NULL, round % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        for (int i = 0; i < COUNT; i++) p[i] = get((size_t)i * (size_t)(1 + round), epoch);
        SUP_CHECK(epoch_destroy(a, epoch), "destroy");
        (void)slab_trim(a);
    }
}

static void realloc_in_every_way(void) {
    for (int k = 0; k < 2; k++) {
        EpochId epoch = k ? scope : churn;
        char *p = get(1, epoch);
        size_t size = 1;
        for (int i = 0; i < 400; i++) {
            size_t next = (size * 7 + (size_t)i * 13) % 12000;
            p = slab_realloc(a, p, next);
            SUP_CHECK(p != NULL, "slab_realloc");
            for (size_t b = 0; b < next && b < size; b++) SUP_CHECK(p[b] == 1, "byte %zu of %zu", b, next);
            memset(p, 1, next);
            size = next;
        }
        release(p);
    }
}

static void zeroed(void) {
    for (int i = 0; i < 300; i++) {
        size_t size = (size_t)i * 37;
        char *p = slab_calloc_epoch(a, 1, size, churn);
        for (size_t b = 0; b < size; b++) SUP_CHECK(p[b] == 0, "byte %zu", b);
        memset(p, 1, size);
        release(p);
    }
}

/* Marks for one allocator do not affect another. */
static void without_tools(void) {
    SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF};
    char *p = get(64, churn);
    slab_allocator_free(a);
    a = slab_allocator_create_ex(&options);
    churn = epoch_open(a, "no tools", EPOCH_CHURN);
    for (int i = 0; i < 1000; i++) {
        char *q = get(60, churn);
        touch(q + 63);
        release(q);
        touch(q); /* nobody watches */
    }
    char *span = get(100000, churn);
    touch(span + 100001);
    (void)p;
}

static void *churn_in_thread(void *unused) {
    (void)unused;
    char *p[100];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 100; i++) p[i] = get((size_t)i * 5, churn);
        for (int i = 0; i < 100; i++) release(p[i]);
    }
    return get(77, churn);
}

static void threads(void) {
    pthread_t ids[4];
    for (int i = 0; i < 4; i++) SUP_CHECK(pthread_create(&ids[i], NULL, churn_in_thread, NULL) == 0, "pthread_create");
    for (int i = 0; i < 4; i++) {
        void *p;
        SUP_CHECK(pthread_join(ids[i], &p) == 0, "pthread_join");
        touch((char *)p + 76);
        release(p);
    }
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

struct edge {
    const char *name;
    void (*run)(void);
    bool caught;
};

#define CATCH(name) {#name, name, true}
#define PASS(name) {#name, name, false}
static const struct edge edges[] = {
    CATCH(read_after_free_16), CATCH(read_after_free_64), CATCH(read_after_free_4096), CATCH(read_after_free_scope),
    CATCH(read_after_free_span), CATCH(read_after_free_large_span), CATCH(write_after_free),
    CATCH(read_after_foreign_free), CATCH(read_after_free_by_handle), CATCH(read_after_epoch_destroy),
    CATCH(read_after_epoch_destroy_scope), CATCH(read_after_epoch_destroy_span), CATCH(read_after_allocator_free),
    CATCH(read_after_domain_destroy), CATCH(read_after_domain_reset), CATCH(read_after_promote),
    CATCH(read_after_realloc), CATCH(overflow_by_one), CATCH(overflow_by_one_scope), CATCH(overflow_by_one_alloc),
    CATCH(overflow_by_one_span), CATCH(overflow_by_one_half_slab), CATCH(overflow_into_free_slot),
    CATCH(overflow_of_nothing), CATCH(overflow_calloc), CATCH(overflow_aligned), CATCH(overflow_rolling),
    CATCH(underflow_into_free_slot), CATCH(never_allocated), CATCH(end_of_slab), CATCH(behind_bump),
    CATCH(after_shrink), CATCH(after_shrink_scope), CATCH(after_grow),
    PASS(all_bytes_of_all_sizes), PASS(reuse), PASS(realloc_in_every_way), PASS(zeroed), PASS(without_tools),
    PASS(threads),
};
/* clang-format on */
#define EDGES (sizeof edges / sizeof edges[0])

static int one(const char *name) {
    const char *poison = getenv("EDGES_POISON");
    SlabOptions options = {.size = sizeof options,
                           .memory_tools = SLAB_TOOLS_ON,
                           .poison_on_free = poison != NULL,
                           .on_misuse = poison != NULL ? SLAB_MISUSE_ABORT : SLAB_MISUSE_IGNORE};
    (void)unsetenv("TSLAB_TOOLS");
    a = slab_allocator_create_ex(&options);
    SUP_CHECK(a != NULL, "slab_allocator_create_ex");
    churn = epoch_open(a, "churn", EPOCH_CHURN);
    scope = epoch_open(a, "scope", EPOCH_SCOPE);
    for (size_t i = 0; i < EDGES; i++) {
        if (strcmp(edges[i].name, name) == 0) {
            edges[i].run();
            sink = 0;
            return 0;
        }
    }
    (void)fprintf(stderr, "edges_test: no case \"%s\"\n", name);
    return 2;
}

/* In place of this child: the program again, for one case, under memcheck if that is to catch it. */
static void start(void *argument) {
    char option[] = "--case", name[64], tool[] = "valgrind", quiet[] = "-q", code[] = "--error-exitcode=99";
    char leaks[] = "--leak-check=no", self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    SUP_CHECK(length > 0, "readlink");
    self[length] = 0;
    (void)snprintf(name, sizeof name, "%s", (const char *)argument);
    /* The words are enough, and names of functions take half a second each. */
    const char *options = getenv("ASAN_OPTIONS");
    char more[512];
    (void)snprintf(more, sizeof more, "%s:symbolize=0", options ? options : "");
    (void)setenv("ASAN_OPTIONS", more, 1);
    char *const plain[] = {self, option, name, NULL};
    char *const checked[] = {tool, quiet, code, leaks, self, option, name, NULL};
    (void)(TS_CARE_ASAN ? execv(self, plain) : execvp(tool, checked));
    _exit(127);
}

/* Whether Valgrind can run this very program: it does not know every format of debugging information. */
static void do_nothing(void *argument) {
    char tool[] = "valgrind", quiet[] = "-q", log[] = "--log-file=/dev/null", option[] = "--nothing", self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    (void)argument;
    SUP_CHECK(length > 0, "readlink");
    self[length] = 0;
    char *const argv[] = {tool, quiet, log, self, option, NULL};
    (void)execvp(tool, argv);
    _exit(127);
}

/* The whole test again under memcheck, which starts once and then follows every fork. */
static int under_memcheck(void) {
    char tool[] = "valgrind", quiet[] = "-q", code[] = "--error-exitcode=99", leaks[] = "--leak-check=no",
         log[] = "--log-file=/dev/null";
    char option[] = "--forked", self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    SUP_CHECK(length > 0, "readlink");
    self[length] = 0;
    char *const argv[] = {tool, quiet, code, leaks, log, self, option, NULL};
    char err[1024] = "";
    int status = sup_child(do_nothing, NULL, SUP_CHILD_SECONDS, err, sizeof err);
    if (status == 0) {
        (void)execvp(tool, argv);
    }
    (void)printf("edges_test: skipped: valgrind %s\n",
                 WIFEXITED(status) && WEXITSTATUS(status) == 127 ? "is not here" : "cannot run this program");
    return SKIPPED;
}

static void set_poison(bool poison) { (void)(poison ? setenv("EDGES_POISON", "1", 1) : unsetenv("EDGES_POISON")); }

static void fork_case(void *name) { exit(one(name)); }

static bool check(const struct edge *edge, bool poison) {
    static const char *const words[] = {"AddressSanitizer: use-after-poison", "Invalid read", "Invalid write"};
    char err[16384] = "";
    char *name = (char *)(uintptr_t)edge->name;
    set_poison(poison);
    int status = sup_child(TS_CARE_ASAN ? start : fork_case, name, SUP_CHILD_SECONDS, err, sizeof err);
    bool good;
    if (TS_CARE_ASAN) {
        good = edge->caught ? status != 0 && strstr(err, words[0]) != NULL : status == 0 && err[0] == 0;
    } else {
        good = status == 0 ? !edge->caught : edge->caught && WIFEXITED(status) && WEXITSTATUS(status) == CAUGHT;
        good = good && err[0] == 0; /* memcheck's words go elsewhere */
    }
    if (!good) {
        (void)fprintf(stderr, "FAIL %s%s: status %#x, %s\n%s\n", edge->name, poison ? " with poison" : "",
                      (unsigned)status, edge->caught ? "should have been caught" : "should not", err);
    }
    return good;
}

/* memcheck reports an access, and nothing else. */
static bool check_words(const char *name) {
    char err[16384] = "";
    set_poison(false);
    (void)sup_child(start, (char *)(uintptr_t)name, SUP_CHILD_SECONDS, err, sizeof err);
    bool good = strstr(err, "Invalid read of size 1") != NULL && strstr(err, "of size 64 free'd") != NULL;
    if (!good) {
        (void)fprintf(stderr, "FAIL %s: memcheck does not tell of the object:\n%s\n", name, err);
    }
    return good;
}

static int all(void) {
    unsigned failed = 0, runs = 0;
    /* memcheck takes a second for each: all of them only if it is asked for (make test-valgrind). */
    bool each = TS_CARE_ASAN || getenv("EDGES_ALL") != NULL;
    for (size_t i = 0; i < EDGES; i += each ? 1 : 12) {
        for (int poison = 0; poison < (each ? 2 : 1); poison++) {
            failed += !check(&edges[i], poison);
            runs++;
        }
    }
    (void)printf("edges_test: %zu programs under %s, %u runs, %u failed\n", EDGES,
                 TS_CARE_ASAN ? "AddressSanitizer" : "memcheck", runs, failed);
    return failed != 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--case") == 0) {
        return one(argv[2]);
    }
    if (argc == 2 && strcmp(argv[1], "--nothing") == 0) {
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--forked") == 0) {
        if (!ts_care_on_memcheck()) {
            (void)printf("edges_test: skipped: the library is built without Valgrind's headers\n");
            return SKIPPED;
        }
        int code = all();
        return !check_words("read_after_free_64") || code;
    }
    if (TS_CARE_ASAN) {
        return all();
    }
    if (SUP_SANITIZED) {
        (void)printf("edges_test: skipped: a sanitizer that is not AddressSanitizer\n");
        return SKIPPED;
    }
    return under_memcheck();
}
