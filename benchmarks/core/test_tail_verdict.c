/* The verdicts of tail_attribution, by hand. */
#include "tail_verdict.h"

#include <stdio.h>

static int failures;

static void expect(const char *what, tail_facts facts, tail_verdict wanted) {
    tail_verdict got = tail_judge(&facts);
    if (got == wanted) return;
    fprintf(stderr, "test_tail_verdict: %s: verdict %d, not %d\n", what, (int)got, (int)wanted);
    failures++;
}

int main(void) {
    expect("fast path, on the processor all the time", (tail_facts){.wall_ns = 9000, .cpu_ns = 9000}, TAIL_MACHINE);
    expect("switched out for nearly all of it",
           (tail_facts){.wall_ns = 4000000, .cpu_ns = 2000, .switches = 1, .steps = TAIL_STEP_SLAB}, TAIL_SCHEDULER);
    expect("not running, and not switched out", (tail_facts){.wall_ns = 4000000, .cpu_ns = 2000}, TAIL_MACHINE);
    expect("half of the time not running", (tail_facts){.wall_ns = 2000, .cpu_ns = 1000, .switches = 1},
           TAIL_SCHEDULER);
    expect("less than half of it", (tail_facts){.wall_ns = 2000, .cpu_ns = 1002, .switches = 1, .faults = 1},
           TAIL_PAGE_FAULT);
    expect("a fault on the way to a fresh slab",
           (tail_facts){.wall_ns = 3000, .cpu_ns = 3000, .faults = 1, .steps = TAIL_STEP_SLAB | TAIL_STEP_FRESH},
           TAIL_PAGE_FAULT);
    expect("the usual cost of a purge",
           (tail_facts){.wall_ns = 90000, .cpu_ns = 90000, .steps = TAIL_STEP_PURGE, .path_p99_ns = 80000},
           TAIL_ALLOCATOR);
    expect("many times that: the call into the system was the allocator's all the same",
           (tail_facts){.wall_ns = 900000, .cpu_ns = 900000, .steps = TAIL_STEP_PURGE, .path_p99_ns = 80000},
           TAIL_ALLOCATOR);
    expect("waited for a lock",
           (tail_facts){.wall_ns = 900000, .cpu_ns = 900000, .steps = TAIL_STEP_LOCK, .path_p99_ns = 1000},
           TAIL_ALLOCATOR);
    expect("four times the usual at most",
           (tail_facts){.wall_ns = 4003, .cpu_ns = 4003, .steps = TAIL_STEP_SLAB, .path_p99_ns = 1000}, TAIL_ALLOCATOR);
    expect("more than that",
           (tail_facts){.wall_ns = 4004, .cpu_ns = 4004, .steps = TAIL_STEP_SLAB, .path_p99_ns = 1000}, TAIL_MACHINE);
    expect("a path too rare to say", (tail_facts){.wall_ns = 50000, .cpu_ns = 50000, .steps = TAIL_STEP_DRAIN},
           TAIL_ALLOCATOR);
    expect("more processor time than time: the clocks' own error",
           (tail_facts){.wall_ns = 100, .cpu_ns = 300, .steps = 1}, TAIL_ALLOCATOR);
    if (failures == 0) puts("test_tail_verdict: ok");
    return failures ? 1 : 0;
}
