/*
 * With _FORTIFY_SOURCE, which this file is compiled with, a write beyond the size that was asked for ends the program,
 * as with malloc: the header says the compiler how large an object is.
 */
#include "check.h"
#include "proc.h"
#include "unit.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define ROOM 100

static volatile size_t bytes;
static SlabAllocator *a;

/* One object a case, of ROOM bytes; written to for `bytes`. */
static void fill(void *argument) {
    EpochId e = epoch_current(a);
    SlabHandle handle;
    EpochDomain *d = epoch_domain_create(a);
    SUP_CHECK(d && epoch_domain_enter(d), "a domain");
    (void)signal(SIGABRT, SIG_DFL);
    switch (*(const int *)argument) {
#define CASE(number, call)           \
    case number: {                   \
        char *p = call;              \
        SUP_CHECK(p != NULL, #call); \
        memset(p, 1, bytes);         \
        break;                       \
    }
        CASE(0, slab_malloc(a, ROOM))
        CASE(1, slab_malloc_epoch(a, ROOM, e))
        CASE(2, slab_calloc_epoch(a, 4, ROOM / 4, e))
        CASE(3, slab_aligned_epoch(a, 64, ROOM, e))
        CASE(4, slab_realloc(a, NULL, ROOM))
        CASE(5, slab_realloc_epoch(a, NULL, ROOM, e))
        CASE(6, alloc_obj_epoch(a, ROOM, e, &handle))
        CASE(7, slab_alloc(ROOM))
        CASE(8, slab_alloc_zero(ROOM / 4, 4))
        CASE(9, slab_alloc_aligned(64, ROOM))
        CASE(10, slab_alloc_resize(NULL, ROOM))
        CASE(11, epoch_domain_alloc(d, ROOM))
#undef CASE
    }
}
enum { CASES = 12 };

/* The compiler is not told that nothing else leads to an object: writes by way of its handle, or of a walk, are
   seen. */
static bool doubles(void *object, size_t size, void *argument) {
    (void)size;
    (void)argument;
    *(int *)object *= 2;
    return true;
}
static void other_ways_to_an_object_are_seen(void **state) {
    (void)state;
    a = slab_allocator_create();
    EpochId e = epoch_open(a, NULL, EPOCH_CHURN);
    SlabHandle handle;
    int *p = alloc_obj_epoch(a, sizeof *p, e, &handle);
    assert_non_null(p);
    *p = 1;
    *(int *)slab_handle_get(a, handle) = 21;
    assert_int_equal(*p, 21);
    int *q = slab_malloc_epoch(a, sizeof *q, e);
    assert_non_null(q);
    *q = 4;
    assert_int_equal(slab_walk(a, e, doubles, NULL), 2);
    assert_int_equal(*q, 8);
    slab_allocator_free(a);
}

static void an_overflow_ends_the_program(void **state) {
    (void)state;
#if !defined(__GLIBC__) || !defined(__OPTIMIZE__) || SUP_SANITIZED
    skip();
#endif
    a = slab_allocator_create();
    assert_non_null(a);
    for (int i = 0; i < CASES; i++) {
        char err[1024];
        bytes = ROOM;
        assert_int_equal(sup_child(fill, &i, SUP_CHILD_SECONDS, err, sizeof err), 0);
        bytes = ROOM + 1;
        int status = sup_child(fill, &i, SUP_CHILD_SECONDS, err, sizeof err);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
            print_error("case %d: status %#x\n", i, (unsigned)status);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
    slab_allocator_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_overflow_ends_the_program),
                                       cmocka_unit_test(other_ways_to_an_object_are_seen)};
    return cmocka_run_group_tests_name("misuse.fortify", tests, NULL, NULL);
}
