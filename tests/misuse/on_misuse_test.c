/* on_misuse: silence, one line, or one line and abort(). Each in a forked child, for its stderr and its end. */
#include "check.h"
#include "proc.h"
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum crime { NO_CRIME, BAD_FREE, DOUBLE_FREE, BAD_HANDLE, BAD_REALLOC, CRIMES };

struct attempt {
    int on_misuse;
    enum crime crime;
};

static void commit(void *argument) {
    const struct attempt *attempt = argument;
    SlabOptions options = {.size = sizeof options, .on_misuse = attempt->on_misuse, .memory_tools = SLAB_TOOLS_OFF};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    void *object = slab_malloc(allocator, 64);
    void *kept = slab_malloc(allocator, 64);
    SUP_CHECK(object != NULL && kept != NULL, "slab_malloc");
    SUP_CHECK(slab_free(allocator, NULL) && slab_free(allocator, object), "what is no crime");
    switch (attempt->crime) {
    case BAD_FREE: SUP_CHECK(!slab_free(allocator, (char *)kept + 8), "an interior pointer"); break;
    case DOUBLE_FREE: SUP_CHECK(!slab_free(allocator, object), "a double free"); break;
    case BAD_HANDLE:
        SUP_CHECK(!free_obj(allocator, slab_handle_of(allocator, kept) ^ (UINT64_C(1) << 41)), "a forged handle");
        break;
    case BAD_REALLOC:
        errno = 0;
        SUP_CHECK(slab_realloc(allocator, object, 10) == NULL && errno == EINVAL, "realloc of a freed object");
        break;
    case NO_CRIME:
    case CRIMES: break;
    }
    SUP_CHECK(slab_free(allocator, kept), "the allocator works on");
    slab_allocator_free(allocator);
}

static int run(int on_misuse, enum crime crime, char *err, size_t capacity) {
    struct attempt attempt = {on_misuse, crime};
    return sup_child(commit, &attempt, SUP_CHILD_SECONDS, err, capacity);
}

static void ignored(void **state) {
    (void)state;
    for (int crime = NO_CRIME; crime < CRIMES; crime++) {
        char err[2048] = "";
        assert_int_equal(run(SLAB_MISUSE_IGNORE, (enum crime)crime, err, sizeof err), 0);
        assert_string_equal(err, "");
    }
}

static void reported(void **state) {
    (void)state;
    for (int crime = NO_CRIME; crime < CRIMES; crime++) {
        char err[2048] = "";
        assert_int_equal(run(SLAB_MISUSE_REPORT, (enum crime)crime, err, sizeof err), 0);
        assert_int_equal(sup_count_lines(err), crime == NO_CRIME ? 0 : 1);
        assert_true(crime == NO_CRIME || strlen(err) > 10);
    }
}

/* A sanitizer, or an emulator, adds its own report to the abort. */
static void aborted(void **state) {
    (void)state;
    for (int crime = NO_CRIME; crime < CRIMES; crime++) {
        char err[2048] = "";
        int status = run(SLAB_MISUSE_ABORT, (enum crime)crime, err, sizeof err);
        if (crime == NO_CRIME) {
            assert_int_equal(status, 0);
            assert_string_equal(err, "");
            continue;
        }
        assert_true(SUP_SANITIZED ? status != 0 : WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        assert_true(sup_count_lines(err) == 1 || ((SUP_SANITIZED || SUP_EMULATED) && sup_count_lines(err) > 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ignored),
        cmocka_unit_test(reported),
        cmocka_unit_test(aborted),
    };
    return cmocka_run_group_tests_name("misuse.on_misuse", tests, NULL, NULL);
}
