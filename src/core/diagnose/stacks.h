/*
 * Sampled call stacks: the lines that allocated the live objects.
 *
 * The bytes that a thread allocates are a line on which samples lie like the points of a Poisson process, one in
 * `sample_stacks` bytes on average: the distance to the next is drawn from the exponential distribution, and an
 * object on which a point falls is sampled. An object of s bytes is sampled with probability 1 - exp(-s / mean),
 * whatever was allocated before it, so one over that is the number of objects it stands for, without bias.
 *
 * A sample says which object it is of (ts_watch) and is never taken back. A reader asks the object's own slab whether
 * that object is still live, as for a handle. So frees, destroys, resets and promotes of every kind know
 * nothing of samples, and no sample outlives its object. A place whose object has died is used again.
 *
 * A thread counts the bytes down to its next sample, for each allocator (share->stack_left). While an allocator
 * samples, no hit allocates from its blocks (block->slow). So every allocation misses, and is counted. Before the next
 * sample it still takes an object at hand (ts_take_counted); the slow path has the rest. Frees keep their hits. While
 * an allocator does not sample, no hit knows of it. Where that changes in a running program (ts_stacks_set_rate), a
 * turn of the process goes on, and each thread tells its own blocks when it next takes the slow path (ts_sample_begin):
 * so `slow` has one writer. The distance is then drawn anew, as the points have no memory.
 *
 * The process has one table of TS_STACK_SAMPLES places. A thread that makes the turn of a place odd, by a
 * compare-and-swap, writes the place (ts_stack_record). No lock; a thread that finds no place drops the sample.
 */
#ifndef TS_DIAGNOSE_STACKS_H
#define TS_DIAGNOSE_STACKS_H

#include "diagnose/sample.h"
#include "epoch/epoch.h"
#include "os/stack.h"

#include <tslab/stats.h>

#define TS_STACK_SAMPLES 16384u
#define TS_STACK_FRAMES SLAB_STACK_FRAMES

/* Where the calling function returns to, for systems that cannot walk a stack. */
#define TS_CALLER() __builtin_return_address(0)

typedef struct ts_stack {
    EpochId epoch;
    double objects;                       /* that it stands for */
    uint64_t bytes;                       /* of its own object, usable */
    char thread[TS_OS_THREAD_NAME_BYTES]; /* name of the thread that allocated it */
    unsigned frame_count;
    uint64_t frame[TS_STACK_FRAMES]; /* return addresses, innermost first */
} ts_stack;

/* The first member of the records of both tables, here and in stack_totals.h. A record is whole while its turn is even
   and stays. */
typedef struct ts_stack_record {
    _Atomic uint32_t turn; /* odd: being written */
    _Atomic uint32_t frame_count;
    _Atomic uint64_t token; /* of its allocator; 0: empty */
    _Atomic uint64_t frame[TS_STACK_FRAMES];
} ts_stack_record;
/* Makes the turn, which was even, odd. false: another thread has done so since. */
bool ts_stack_record_take(ts_stack_record *record, uint32_t turn);
/* Writes the record, after the fields behind it, and makes it whole. */
void ts_stack_record_give(ts_stack_record *record, uintptr_t token, const uint64_t *frame, unsigned frame_count);
/* Reads the frames. The caller has read the turn (acquire), and all other fields. false: it was not whole since. */
bool ts_stack_record_read(const ts_stack_record *record, uint32_t turn, uint64_t *frame, unsigned *frame_count);
/* A record that another thread was writing is lost to the child of a fork. */
void ts_stack_record_fork_child(ts_stack_record *record);

/* The allocator samples one in `bytes` bytes from this call on; 0: none. */
void ts_stacks_set_rate(ts_allocator *allocator, size_t bytes);
/* Samples a byte. */
static inline double ts_stacks_rate(const ts_allocator *allocator) {
    uint64_t mean = ts_load_relaxed(&allocator->stack_mean_bytes);
    return mean ? 1.0 / (double)mean : 0;
}

/* Stacks begin outside of that code, too. Once, by a library that allocates for the program. */
void ts_stacks_leave_out(const void *start, size_t bytes);
/* The table, once. false: no memory. Holding nothing. */
bool ts_stacks_start(void);
/* Counts an allocation that the calling thread has just made, and samples it if its turn has come. share: the thread's,
   of the allocator. errno is kept. Not in an operation, no lock held. */
static inline void ts_stacks_count(ts_heap *heap, ts_share *share, EpochId epoch, void *p, size_t size, void *caller);
/* begins: the distance to the next sample was not drawn before that object. */
void ts_stacks_take(ts_heap *heap, ts_share *share, bool begins, EpochId epoch, void *p, size_t bytes, void *caller);
/* Shows the stack of every sampled object of the allocator that is live. Any thread, without a lock. */
void ts_stacks_walk(const ts_allocator *allocator, uintptr_t token, void (*fn)(void *arg, const ts_stack *stack),
                    void *arg);
/* What other threads were writing is lost to the child. */
void ts_stacks_fork_child(void);
/* From the next thread on, the same numbers at every run; 0: not. For tests. */
extern TS_HIDDEN _Atomic uint64_t ts_stacks_seed;

/* Bytes that an allocation counts as. */
static inline size_t ts_stacks_bytes(size_t size) { return size <= 16 ? 16 : (size + 15) & ~(size_t)15; }

static inline void ts_stacks_count(ts_heap *heap, ts_share *share, EpochId epoch, void *p, size_t size, void *caller) {
    size_t bytes = ts_stacks_bytes(size);
    int64_t left = share->stack_left;
    share->stack_left = left - (int64_t)bytes;
    if (TS_UNLIKELY(share->stack_left <= 0)) ts_stacks_take(heap, share, left == 0, epoch, p, bytes, caller);
}

#endif
