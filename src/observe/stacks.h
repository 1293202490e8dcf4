/*
 * Sampled call stacks: the lines that allocated the live objects.
 *
 * The bytes that a thread allocates are a line on which samples lie like the points of a Poisson process, one in
 * `sample_stacks` bytes on average: the distance to the next is drawn from the exponential distribution, and an
 * object on which a point falls is sampled. An object of s bytes is sampled with probability 1 - exp(-s / mean),
 * whatever was allocated before it, so one over that is the number of objects it stands for, without bias.
 *
 * A sample says which object it is of (ts_watch) and is never taken back. A reader asks the object's own slab whether
 * that object is still live. So frees, destroys, resets and promotes of every kind know nothing of samples, and no
 * sample outlives its object. A place whose object has died is used again. An allocation in the slot of a sampled
 * object takes the name of that sample (diagnose/named.c); while samples are taken no hit allocates.
 *
 * The core counts the bytes, and draws (diagnose/sample.c). It calls this folder with each object that is sampled.
 *
 * The process has one table of TS_STACK_SAMPLES places. A thread that makes the turn of a place odd, by a
 * compare-and-swap, writes the place (ts_stack_record). No lock; a thread that finds no place drops the sample.
 */
#ifndef TS_OBSERVE_STACKS_H
#define TS_OBSERVE_STACKS_H

#include "core/read.h"
#include "os/os.h"

#include <tslab/stats.h>

#define TS_STACK_SAMPLES 16383u
#define TS_STACK_FRAMES SLAB_STACK_FRAMES

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

/* Shows the stack of every sampled object of the allocator that is live. Any thread, without a lock. */
void ts_stacks_walk(const ts_allocator *allocator, uintptr_t token, void (*fn)(void *arg, const ts_stack *stack),
                    void *arg);

#endif
