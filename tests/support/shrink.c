#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "shrink.h"

#include "check.h"
#include "proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* For programs that hang: to be ended counts as a failure. */
#define RUN_SECONDS (SUP_EMULATED ? 100u : 10u)

struct run {
    const struct prog_op *ops;
    size_t count;
    FILE *trace;
};

static void run_program(void *argument) {
    const struct run *run = argument;
    char why[512] = "";
    prog_quiet();
    if (!prog_run(run->ops, run->count, run->trace, NULL, why, sizeof why)) {
        (void)fflush(NULL);
        _exit(1);
    }
}

bool shrink_fails(const struct prog_op *ops, size_t count) {
    struct run run = {ops, count, NULL};
    char ignored[2];
    return sup_child(run_program, &run, RUN_SECONDS, ignored, sizeof ignored) != 0;
}

/* Removes ops[from, from + length) if the rest still fails. */
static bool try_without(struct prog_op *ops, struct prog_op *scratch, size_t *count, size_t from, size_t length) {
    memcpy(scratch, ops, from * sizeof *ops);
    memcpy(scratch + from, ops + from + length, (*count - from - length) * sizeof *ops);
    if (!shrink_fails(scratch, *count - length)) {
        return false;
    }
    *count -= length;
    memcpy(ops, scratch, *count * sizeof *ops);
    return true;
}

static void shrink_sizes(struct prog_op *ops, size_t count, double until) {
    static const uint64_t smaller[] = {0, 16, 100, 1000};
    for (size_t i = 0; i < count && sup_now_s() < until; i++) {
        uint64_t original = ops[i].size;
        for (size_t s = 0; s < sizeof smaller / sizeof smaller[0] && smaller[s] < original; s++) {
            ops[i].size = smaller[s];
            if (shrink_fails(ops, count)) {
                break;
            }
            ops[i].size = original;
        }
    }
}

size_t shrink_program(struct prog_op *ops, size_t count, double seconds) {
    double until = sup_now_s() + seconds;
    struct prog_op *scratch = malloc((count + 1) * sizeof *scratch);
    SUP_CHECK(scratch != NULL, "out of memory");
    size_t length = count / 2;
    while (length > 0 && sup_now_s() < until) {
        bool removed = false;
        /* From the end: operations after the failure go first. */
        for (size_t end = count; end > 0 && sup_now_s() < until;) {
            size_t from = end > length ? end - length : 0;
            removed |= try_without(ops, scratch, &count, from, end - from);
            end = from;
        }
        if (!removed || length > count) {
            length /= 2;
        }
    }
    shrink_sizes(ops, count, until);
    free(scratch);
    return count;
}

void shrink_print(const struct prog_op *ops, size_t count) {
    struct run run = {ops, count, stderr};
    (void)fprintf(stderr, "---- %zu operations; the calls they make: ----\n", count);
    int status = sup_child(run_program, &run, RUN_SECONDS, NULL, 0);
    if (WIFSIGNALED(status)) {
        (void)fprintf(stderr, "    /* signal %d (%s) in the call above */\n", WTERMSIG(status),
                      strsignal(WTERMSIG(status)));
    }
    (void)fprintf(stderr, "----\n");
}
