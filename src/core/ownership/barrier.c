/* Barriers of all threads, also for a program that has forbidden itself the system call. */
#include "ownership/ownership.h"

#include "os/os.h"

#include <errno.h>

bool ts_barriers;
/* Far more than a store needs to reach the other processors, which is less than a microsecond. */
#define STORES_REACH_NS 20000000u
#define STORES_REACH_NAPS 400u /* as long, where there is no clock */

void ts_barrier_init(void) { ts_barriers = ts_os->barrier_all(); }

/* The system can refuse later (seccomp) what it has granted once. Time stands for the barrier then, which C11 asks of
   stores anyway (7.17.3, 16). */
TS_COLD static void wait_for_stores(void) {
    int error = errno;
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t from = ts_os->wall_ns();
    for (unsigned i = 0; i < STORES_REACH_NAPS && (from == 0 || ts_os->wall_ns() - from < STORES_REACH_NS); i++)
        ts_nap();
    atomic_thread_fence(memory_order_seq_cst);
    errno = error;
}

void ts_barrier_or_wait(void) {
    if (TS_UNLIKELY(!ts_os->barrier_all())) wait_for_stores();
}
