/*
 * Other threads act between two looks of the thread that gathers figures by label. view.c is compiled once more, in
 * place of the library's, with a place to stop at before every look at a shared word. By a clock of the test.
 */
#include "check.h"
#include "unit.h"

#include "api/runtime.h"
#include "base/base.h"
#include "observe/observe.h"
#include "own_clock.h"

#include <string.h>
#include <unistd.h>

#include "steps.h"

#include "observe/view.c"

#define SINCE_CLOSE (5 * SECOND)

static EpochId leaking, next;

static int start(void **state) {
    (void)state;
    own_clock_begin();
    allocator = slab_allocator_create();
    return allocator == NULL;
}

/* The epoch ends, and its entry is that of another, which nobody has closed. */
static void use_the_entry_again(void) {
    SUP_CHECK(epoch_destroy(allocator, leaking), "epoch_destroy");
    next = epoch_open(allocator, "next", EPOCH_CHURN);
    SUP_CHECK(ts_table_index(&ts_epochs, next) == ts_table_index(&ts_epochs, leaking), "not the same entry");
}

static void ended_while_counted(void **state) {
    (void)state;
    for (unsigned at = 0, more = 1; more; at++) {
        leaking = epoch_open(allocator, "leaking", EPOCH_CHURN);
        assert_non_null(slab_malloc_epoch(allocator, 100, leaking));
        assert_true(epoch_close(allocator, leaking));
        now += SINCE_CLOSE;
        sup_stop_arm(&at_step, at, use_the_entry_again);
        ts_view *view = ts_view_make(ts_allocator_find(ts_token(allocator)), ts_token(allocator));
        more = sup_stop_disarm(&at_step);
        assert_non_null(view);
        assert_true(more || at > 1); /* there were steps */
        for (unsigned i = 0; i < view->label_rows; i++) {
            uint64_t since = view->label[i].closing_for_ns;
            assert_true(since == 0 || since == SINCE_CLOSE);
        }
        assert_true(more || view->label_rows == 1);
        ts_view_free(view);
        assert_true(epoch_destroy(allocator, more ? next : leaking));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ended_while_counted, start, stop),
    };
    return cmocka_run_group_tests_name("observe.view_steps", tests, NULL, NULL);
}
