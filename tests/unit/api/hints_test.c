/* The options strict and hints: which calls are refused, and which are reported once (misuse.c). */
#define _GNU_SOURCE
#include "check.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int err[2], before;
static char text[4096];

static void listen_to_stderr(void) {
    assert_int_equal(pipe(err), 0);
    before = dup(2);
    assert_int_equal(dup2(err[1], 2), 2);
}

static const char *heard(void) {
    (void)dup2(before, 2);
    (void)close(before);
    (void)close(err[1]);
    ssize_t n = read(err[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    (void)close(err[0]);
    return text;
}

static unsigned lines(const char *s) {
    unsigned n = 0;
    for (; *s; s++) n += *s == '\n';
    return n;
}

static void strict_outside(void **state) {
    (void)state;
    errno = 0;
    assert_null(slab_alloc(10));
    assert_int_equal(errno, EINVAL);
    assert_null(slab_alloc_zero(1, 10));
    assert_null(slab_alloc_zero(1, 100000));
    assert_null(slab_alloc_aligned(64, 10));
    assert_null(slab_alloc_strdup("x"));
    EpochDomain *d = epoch_domain_create(NULL);
    assert_true(epoch_domain_enter(d));
    assert_non_null(slab_alloc(10));
    assert_non_null(slab_malloc(slab_allocator_default(), 10));
    epoch_domain_destroy(d);
    assert_null(slab_alloc(10));
}

/* Where calls end in jumps each place is another one; else some are the library's own: also on i386, whose arguments
   are on the stack. */
static void check_told(const char *said, const char *what, unsigned places) {
    unsigned told = 0;
    for (const char *at = said; (at = strstr(at, what)) != NULL; at++) told++;
#if defined(__OPTIMIZE__) && !defined(__i386__)
    if (!SUP_SANITIZED) assert_int_equal(told, places);
#endif
    assert_in_range(told, 1, places);
    assert_int_equal(lines(said), told);
}

/* All that a child says whose default allocator is not strict, and that calls this. */
static const char *heard_of_child(bool (*calls)(void)) {
    int status = -1;
    listen_to_stderr();
    pid_t child = fork();
    if (child == 0) {
        (void)unsetenv("TSLAB_STRICT");
        (void)setenv("TSLAB_HINTS", "1", 1);
        _exit(!calls());
    }
    bool ended = waitpid(child, &status, 0) == child;
    const char *said = heard();
    assert_true(child > 0 && ended && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return said;
}

static bool two_places(void) {
    bool good = true;
    for (volatile int i = 0; i < 5; i++) good &= slab_alloc(10) != NULL;
    for (volatile int i = 0; i < 5; i++) good &= slab_alloc(10) != NULL;
    return good;
}

static void outside_of_domains(void **state) {
    (void)state;
    const char *said = heard_of_child(two_places);
    char place[256]; /* FILE+OFFSET */
    (void)snprintf(place, sizeof place, "/%s+0x", program_invocation_short_name);
    assert_non_null(strstr(said, place));
    check_told(said, "tslab: hint: slab_alloc: outside of any domain", 2);
}

static bool places_of_the_family(void) {
    bool good = true;
    for (volatile int i = 0; i < 3; i++) {
        good &= slab_alloc_strdup("one") != NULL;
        good &= slab_alloc_strdup("another") != NULL;
        good &= slab_alloc_strndup("one", 2) != NULL;
        good &= slab_alloc_strndup("another", 2) != NULL;
        good &= slab_alloc_memdup("one", 2) != NULL;
        good &= slab_alloc_memdup("another", 2) != NULL;
        good &= slab_alloc_printf("%d", i) != NULL;
        good &= slab_alloc_printf("another %d", i) != NULL;
        good &= slab_alloc_zero(1, 100) != NULL;
        good &= slab_alloc_zero(1, 200) != NULL;
        good &= slab_alloc_zero(1, 100000) != NULL;
        good &= slab_alloc_aligned(4096, 10) != NULL;
        good &= slab_alloc_aligned(8192, 10) != NULL;
        good &= slab_alloc_resize(NULL, 10) != NULL;
    }
    return good;
}

/* A hint names the place in the program, not one in the library: so it keeps quiet of no other place. */
static void outside_of_domains_by_the_family(void **state) {
    (void)state;
    const char *said = heard_of_child(places_of_the_family);
    check_told(said, "tslab: hint: slab_alloc: outside of any domain", 14);
}

/* Nobody asked for hints: a debug build tells of that one all the same, unless they are turned off. */
static void outside_of_domains_by_default(void **state) {
    (void)state;
#ifdef TSLAB_DEBUG
    const bool debug = true;
#else
    const bool debug = false;
#endif
    for (int off = 0; off < 2; off++) {
        int status = -1;
        listen_to_stderr();
        pid_t child = fork();
        if (child == 0) {
            (void)unsetenv("TSLAB_STRICT");
            (void)unsetenv("TSLAB_HINTS");
            if (off) (void)setenv("TSLAB_HINTS", "0", 1);
            _exit(slab_alloc(10) == NULL);
        }
        bool ended = waitpid(child, &status, 0) == child;
        const char *said = heard();
        assert_true(child > 0 && ended && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(lines(said), debug && !off);
        assert_true(!*said || strstr(said, "tslab: hint: slab_alloc: outside of any domain"));
    }
}

/* A call that is refused for its flags, or for the kind of domain, is reported where misuse is, or hints are. */
static void refused_for_its_kind(void **state) {
    (void)state;
    static const struct {
        int on_misuse, hints;
        const char *begins;
    } told[] = {
        {SLAB_MISUSE_IGNORE, 0, NULL}, {SLAB_MISUSE_REPORT, 0, "tslab: "}, {SLAB_MISUSE_IGNORE, 1, "tslab: hint: "}};
    for (unsigned i = 0; i < sizeof told / sizeof *told; i++) {
        SlabOptions options = {.size = sizeof options, .on_misuse = told[i].on_misuse, .hints = told[i].hints};
        SlabAllocator *a = slab_allocator_create_ex(&options);
        EpochDomain *churn = epoch_domain_create_ex(a, NULL, EPOCH_CHURN), *parent = epoch_domain_create(a);
        SlabMark mark;
        listen_to_stderr();
        bool refused = epoch_open(a, NULL, 64) == EPOCH_NONE &&
                       epoch_open(a, NULL, EPOCH_DOMAIN_SHARED) == EPOCH_NONE &&
                       epoch_open(a, NULL, EPOCH_CHURN | EPOCH_SCOPE) == EPOCH_NONE;
        refused &= epoch_domain_create_ex(a, NULL, 64) == NULL && errno == EINVAL;
        refused &= epoch_domain_create_child(parent, NULL, EPOCH_DOMAIN_SHARED) == NULL && errno == EINVAL;
        refused &= epoch_domain_create_ex(a, NULL, EPOCH_DOMAIN_CAPTURE) == NULL && errno == ENOTSUP;
        refused &= !epoch_domain_mark(churn, &mark) && errno == EINVAL;
        const char *said = heard();
        static const char *const why[] = {
            "epoch_open: a flag that does not exist",
            "epoch_open: a flag that is for domains only",
            "epoch_open: EPOCH_CHURN and EPOCH_SCOPE together",
            "epoch_domain_create_ex: a flag that does not exist",
            "epoch_domain_create_child: a shared child of a domain that is not",
            "epoch_domain_create_ex: EPOCH_DOMAIN_CAPTURE without libtslab-malloc in the process",
            "marks are for scope domains of one thread",
        };
        assert_true(refused);
        assert_int_equal(lines(said), told[i].begins ? sizeof why / sizeof *why : 0);
        for (unsigned k = 0; told[i].begins && k < sizeof why / sizeof *why; k++) assert_non_null(strstr(said, why[k]));
        if (told[i].begins) assert_memory_equal(said, told[i].begins, strlen(told[i].begins));
        assert_true(told[i].hints || !strstr(said, "hint"));
        slab_allocator_free(a);
    }
}

/* A null pointer makes slab_realloc slab_malloc; and no earlier allocation has opened a fast path, which would report
   nothing. In a child: its reports do not count as given here. */
static void inside_of_its_domain(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .hints = 1};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    EpochDomain *d = epoch_domain_create(a);
    int status = -1;
    for (int i = 0; i < 200; i++) assert_non_null(slab_malloc(a, 10));
    listen_to_stderr();
    pid_t child = fork();
    if (child == 0) {
        bool in = epoch_domain_enter(d);
        for (volatile int i = 0; i < 5; i++) (void)slab_malloc(a, 10);
        for (volatile int i = 0; i < 5; i++) (void)slab_realloc(a, NULL, 10);
        for (volatile int i = 0; i < 5; i++) (void)slab_alloc(10);
        _exit(!(in && epoch_domain_exit(d)));
    }
    bool ended = waitpid(child, &status, 0) == child;
    const char *said = heard();
    assert_true(child > 0 && ended && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_told(said, "tslab: hint: slab_malloc: ", 2);
    slab_allocator_free(a);
}

static void *destroys_another(void *d) {
    for (int i = 0; i < 3; i++) epoch_domain_destroy(d);
    return NULL;
}
static void *ends_inside(void *a) {
    (void)epoch_domain_enter(epoch_domain_create(a));
    return NULL;
}

static void hints_once(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .hints = 1};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    EpochDomain *d = epoch_domain_create(a);
    pthread_t t;
    listen_to_stderr();
    bool in = epoch_domain_enter(d);
    for (volatile int i = 0; i < 5; i++) (void)slab_malloc(a, 10); /* one call site: not unrolled */
    (void)epoch_domain_exit(d);
    for (volatile int i = 0; i < 5; i++) (void)slab_malloc(a, 10); /* one call site: not unrolled */
    (void)pthread_create(&t, NULL, destroys_another, d);
    (void)pthread_join(t, NULL);
    (void)pthread_create(&t, NULL, ends_inside, a);
    (void)pthread_join(t, NULL);
    const char *said = heard();
    assert_true(in);
    assert_non_null(strstr(said, "tslab: hint: slab_malloc: "));
    assert_non_null(strstr(said, "tslab: hint: epoch_domain_destroy: "));
    assert_non_null(strstr(said, "tslab: hint: thread: "));
    assert_int_equal(lines(said), 3);
    slab_allocator_free(a);
}

int main(void) {
    (void)setenv("TSLAB_STRICT", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outside_of_domains),
        cmocka_unit_test(outside_of_domains_by_the_family),
        cmocka_unit_test(outside_of_domains_by_default),
        cmocka_unit_test(refused_for_its_kind),
        cmocka_unit_test(strict_outside),
        cmocka_unit_test(inside_of_its_domain),
        cmocka_unit_test(hints_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
