/*
 * The requests of synthetic_bench.
 *
 * A request is a plan (how many objects, their sizes, which of them leak), drawn before its clock starts,
 * and then: allocate every object, touch every 64-byte line of it, free the objects that the free policy selects. Its
 * latency is the time of these three, without the wait for its deadline.
 *
 * How temporal-slab is used follows from the policies:
 *     per_req, within_req    a domain per request; its destroy frees the objects
 *     per_req, lag or leak   an epoch per request, closed at its end; the objects are freed one by one, and
 *                            an epoch with an object that never is stays closing, with its label
 *     batch:N                an epoch for N requests of a thread, closed after the last of them
 *     manual                 the rolling epoch
 * malloc always frees one by one.
 */
#ifndef WORKLOADS_BENCH_ENGINE_H
#define WORKLOADS_BENCH_ENGINE_H

#include <tslab/tslab.h>

#include "bench_hist.h"
#include "bench_options.h"

typedef struct BenchTotals {
    uint64_t requests;
    uint64_t objects;       /* allocated */
    uint64_t object_bytes;  /* asked for */
    uint64_t freed;         /* objects, by free or by the end of their domain; objects - freed leaked */
    uint64_t leaked_bytes;  /* asked for by the objects that leaked */
    uint64_t failures;      /* allocations that gave NULL, or found no epoch */
    uint64_t refused_frees; /* slab_free of a live object that said false: always 0 */
    uint64_t elapsed_ns;    /* of the slowest thread, without the frees that lag beyond the last request */
} BenchTotals;

typedef struct BenchRun BenchRun;

/* The memory that the run itself needs; it stays the same until bench_destroy, so that resident memory
   measured between moves with the objects only. slab: NULL for malloc. NULL if the system refuses. */
BenchRun *bench_create(const BenchOptions *options, SlabAllocator *slab);
/* Runs the requests once, on options->threads threads, the caller's being one of them; returns when all have
   ended and every object that is to be freed is. latencies: zeroed by the caller. false: no threads (errno). */
bool bench_execute(BenchRun *run, BenchTotals *totals, bench_hist *latencies);
/* Objects that the requests leaked so far. Any thread, also while the run lasts. */
uint64_t bench_leaked_objects(const BenchRun *run);
void bench_destroy(BenchRun *run);

#endif
