/*
 * Barriers of all threads, and the bias of a heap's epochs (epoch.h).
 *
 * What could go wrong: a thread changes its epoch without the lock, by its bias, while another one changes it under
 * the lock. It does not: who takes the lock first ends the turn of the bias, runs a barrier of all threads, and goes on
 * if the owner is in no operation on that epoch that may still go by it. An operation that begins later reads another
 * turn of the bias, and takes the lock.
 */
/* Modelled in tests/model: bias, orders. */
#include "ownership/bias.h"

#include "base/park.h"
#include "os/os.h"

#include <errno.h>

bool ts_barriers;
static _Atomic bool refused; /* since; a hint */
/* Far more than a store needs to reach the other processors, which is less than a microsecond. */
#define STORES_REACH_NS 20000000u
#define STORES_REACH_NAPS 400u /* the same, where there is no clock */
#define BARRIER_TRIES 3u
/* How often ts_heap_unbias asks whether an operation is over: some hundred nanoseconds, as long as a usual end or reset takes. */
#define END_LOOKS 100u

/* What the system has granted once it can refuse later, if the program forbids itself system calls (seccomp): then time stands for
   the barrier, which C11 asks of stores anyway (7.17.3, 16), and a thread whose bias was taken gets none any more. */
TS_COLD static void wait_for_stores(void) {
    int error = errno;
    ts_store_relaxed(&refused, true);
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t from = ts_os->wall_ns();
    for (unsigned i = 0; i < STORES_REACH_NAPS && (from == 0 || ts_os->wall_ns() - from < STORES_REACH_NS); i++)
        ts_nap();
    atomic_thread_fence(memory_order_seq_cst);
    errno = error;
}

static bool try_barrier(void) {
    for (unsigned i = 0; i < BARRIER_TRIES; i++)
        if (TS_LIKELY(ts_os->barrier_all())) return true;
    return false;
}

bool ts_heap_barrier(void) {
    if (TS_LIKELY(try_barrier())) return true;
    wait_for_stores();
    return false;
}

/* acquire: partner of the release that ends it; of a later operation, too, which begins with
   a relaxed store of the same thread to the same word, and so in the same release sequence (C11, 5.1.2.4, 10). */
void ts_heap_wait_for_end(const ts_tls *tls) {
    for (unsigned i = 0; ts_load_acquire(&tls->in_op) == TS_IN_END; i++)
        if (i > 100) ts_nap(); /* it lost its processor, perhaps to this thread */
}

/* Whether, after a barrier, that thread is in an operation on the epoch in which it may have it by its bias. Both acquire: partners of
   ts_op_end and ts_op_begin_end. in_op first: with it comes the epoch of that operation, or of a later one. */
static bool is_ending(const ts_tls *tls, const ts_entry *epoch) {
    for (unsigned i = 0; i < END_LOOKS; i++)
        if (ts_load_acquire(&tls->in_op) != TS_IN_END || ts_load_acquire(&tls->ending) != epoch) return false;
    return true;
}

static uint32_t next_turn(uint32_t bias) {
    uint32_t turn = bias & TS_BIAS_NEVER, line = bias - turn;
    if (turn == TS_BIAS_NEVER || ts_load_relaxed(&refused)) return line | TS_BIAS_NEVER;
    return line | (turn + 1) % TS_BIAS_NEVER;
}

bool ts_heap_unbias(uint32_t bias, const ts_entry *epoch, _Atomic uint32_t *of) {
    ts_heap *heap = ts_line_address(bias >> TS_BIAS_TURN_BITS);
    ts_lock_acquire(&heap->bias_lock);
    /* Another turn: that one was ended, and the barrier run, under this lock. No thread: the next one begins with another
       (ts_heap_set_tls). */
    if (ts_load_relaxed(&heap->biased) == bias && heap->tls) {
        /* release: who reads the turn reads what others have made of the epochs that had it before (hold_usual) */
        ts_store_release(&heap->biased, next_turn(bias));
        if (TS_UNLIKELY(!try_barrier())) {
            ts_store_release(&heap->biased, bias | TS_BIAS_NEVER); /* it is not paid for again */
            wait_for_stores();
        }
    }
    bool over = !heap->tls || !is_ending(heap->tls, epoch);
    /* Under this lock, so that the turn has not come again. Not if it is the next use's, of which nothing is known. acquire: partner of the
       fence in ts_epoch_begin */
    if (over) (void)atomic_compare_exchange_strong_explicit(of, &bias, 0, memory_order_acquire, memory_order_acquire);
    ts_lock_release(&heap->bias_lock);
    return over;
}

TS_NOINLINE uint32_t ts_heap_bias_again(ts_heap *heap) {
    if (!ts_barriers || ts_load_relaxed(&refused) || ++heap->bias_rest < TS_BIAS_REST) return 0;
    heap->bias_rest = 0;
    return heap->bias = ts_load_relaxed(&heap->biased);
}

void ts_heap_set_tls(ts_heap *heap, ts_tls *tls) {
    ts_lock_acquire(&heap->bias_lock);
    heap->tls = tls;
    if (tls) {
        ts_store_release(&heap->biased, next_turn(ts_load_relaxed(&heap->biased)));
        heap->bias = ts_barriers && !ts_load_relaxed(&refused) ? ts_load_relaxed(&heap->biased) : 0;
        heap->bias_rest = 0;
    }
    ts_lock_release(&heap->bias_lock);
}
