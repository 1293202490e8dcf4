/*
 * The pair of a function and its argument is read whole while others set it: message.c once more, and another thread's
 * calls at each place where the pair is read.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "unit.h"

#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "steps.h"

#include "os/message.c"

#define PAIRS 8u

static unsigned sets, heard, heard_of;
static unsigned current;    /* number of the last pair that was set */
static unsigned waited_for; /* of those before it, the first that may still be called */
static char number[PAIRS];

static void hear_as(unsigned odd, void *arg) {
    unsigned n = (unsigned)((char *)arg - number);
    assert_int_equal(n % 2, odd); /* the argument of the other function otherwise */
    assert_true(n >= waited_for);
    heard++;
    heard_of = n;
}
static void hear_even(const char *line, size_t bytes, void *arg) { (void)line, (void)bytes, hear_as(0, arg); }
static void hear_odd(const char *line, size_t bytes, void *arg) { (void)line, (void)bytes, hear_as(1, arg); }

static void set_next(void) {
    current++;
    uint64_t ticket = ts_message_set_sink(current % 2 ? hear_odd : hear_even, &number[current]);
    if (atomic_load(&slot[ticket & 1].running) == 0) {
        waited_for = current; /* the setter waits no longer: earlier functions are called no more */
    }
}

static void set_them(void) {
    for (unsigned i = 0; i < sets; i++) set_next();
}

static void at_every_step(void **state) {
    unsigned met = 0;
    (void)state;
    for (sets = 1; sets <= 4; sets++) {
        bool stopped = true;
        for (unsigned at = 0; stopped; at++) {
            current = 0;
            waited_for = 0;
            heard = 0;
            (void)ts_message_set_sink(hear_even, &number[0]);
            sup_stop_arm(&at_step, at, set_them);
            ts_message_write("a line\n", 7);
            assert_int_equal(heard, 1);
            assert_int_equal(atomic_load(&slot[0].running) + atomic_load(&slot[1].running), 0);
            stopped = sup_stop_disarm(&at_step);
            met += stopped;
            assert_true(heard_of == current || heard_of == 0);
        }
    }
    assert_true(met >= 8); /* the function and the argument, for each number of sets */
    (void)ts_message_set_sink(NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(at_every_step)};
    return cmocka_run_group_tests_name("os.message_steps", tests, NULL, NULL);
}
