/* See bench_engine.h. */
#include "bench_engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define TOUCH_STEP 64u /* bytes: a cache line */

/* Where an object comes from; constant for a run. */
typedef enum Source {
    SOURCE_MALLOC,
    SOURCE_DOMAIN,  /* slab_alloc inside the request's domain */
    SOURCE_EPOCH,   /* slab_malloc_epoch in an epoch of the request or the batch */
    SOURCE_ROLLING, /* slab_malloc */
} Source;

/* Threads start together. ready, go: guarded by lock. */
typedef struct Gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool go;
    bool cancelled;
    uint64_t start_ns;
} Gate;

/* Objects of one request that are still to be freed. */
typedef struct Kept {
    uint32_t count;
    void **objects; /* objs_max of them */
} Kept;

/* One thread; used by that thread only, and by the caller before it starts and after it ends; but for leaked_objects. */
typedef struct Worker {
    const BenchOptions *options;
    SlabAllocator *slab;
    Gate *gate;
    pthread_t thread;
    uint32_t index;
    Source source;
    bench_rng rng;
    BenchTotals totals;
    atomic_uint_fast64_t leaked_objects; /* written by the thread, read by any: a figure alone, so relaxed will do */

    uint32_t plan_count;  /* the next request: objects ... */
    uint32_t *plan_sizes; /* ... their sizes ... */
    bool *plan_leaks;     /* ... and which of them are never freed */
    Kept *kept;           /* ring of kept_count requests; the newest at requests % kept_count */
    uint64_t kept_count;

    EpochId epoch; /* SOURCE_EPOCH: the open one, or EPOCH_NONE */
    EpochDomain *domain;
    void *memory; /* one mapping for all of the above arrays */
    size_t memory_bytes;
    bench_hist latencies;
} Worker;

struct BenchRun {
    size_t bytes; /* of this mapping */
    uint32_t count;
    Gate gate;
    Worker workers[]; /* count of them */
};

static Source source_of(const BenchOptions *options) {
    if (options->allocator == WL_MALLOC) return SOURCE_MALLOC;
    if (options->epoch_policy == POLICY_MANUAL) return SOURCE_ROLLING;
    if (options->epoch_policy == POLICY_PER_REQ && options->free_policy == FREE_WITHIN_REQ) return SOURCE_DOMAIN;
    return SOURCE_EPOCH;
}

/* ---- one request ------------------------------------------------------------------------------ */

static void draw_plan(Worker *worker) {
    const BenchOptions *options = worker->options;
    double leak_below = options->leak_pct / 100.0 * 4294967296.0;
    worker->plan_count = bench_rng_between(&worker->rng, options->objs_min, options->objs_max);
    for (uint32_t i = 0; i < worker->plan_count; i++) {
        bool hot = options->hot_pct != 0 && bench_rng_between(&worker->rng, 1, 100) <= options->hot_pct;
        worker->plan_sizes[i] =
            hot ? options->hot_bytes : bench_rng_between(&worker->rng, options->size_min, options->size_max);
        if (options->free_policy == FREE_LEAK)
            worker->plan_leaks[i] = (double)(bench_rng_next(&worker->rng) >> 32) < leak_below;
    }
}

static void open_lifetime(Worker *worker) {
    if (worker->source == SOURCE_DOMAIN) {
        worker->domain = epoch_domain_create_ex(worker->slab, "req", EPOCH_SCOPE);
        if (worker->domain != NULL && !epoch_domain_enter(worker->domain)) {
            epoch_domain_destroy(worker->domain);
            worker->domain = NULL;
        }
    } else if (worker->source == SOURCE_EPOCH && worker->epoch == EPOCH_NONE) {
        bool batch = worker->options->epoch_policy == POLICY_BATCH;
        worker->epoch = epoch_open(worker->slab, batch ? "batch" : "req", EPOCH_CHURN);
    }
}

static inline void *allocate(Worker *worker, size_t bytes) {
    switch (worker->source) {
    case SOURCE_MALLOC: return malloc(bytes);
    case SOURCE_DOMAIN: return worker->domain != NULL ? slab_alloc(bytes) : NULL;
    case SOURCE_EPOCH: return slab_malloc_epoch(worker->slab, bytes, worker->epoch);
    case SOURCE_ROLLING: return slab_malloc(worker->slab, bytes);
    }
    return NULL;
}

static inline void touch(unsigned char *object, uint32_t bytes) {
    volatile unsigned char *target = object;
    for (uint32_t at = 0; at < bytes; at += TOUCH_STEP) target[at] = (unsigned char)at;
    target[bytes - 1] = 1;
}

static inline void release(Worker *worker, void *object) {
    if (worker->source == SOURCE_MALLOC)
        free(object);
    else if (!slab_free(worker->slab, object))
        worker->totals.refused_frees++;
    worker->totals.freed++;
}

static void release_kept(Worker *worker, Kept *kept) {
    for (uint32_t i = 0; i < kept->count; i++) release(worker, kept->objects[i]);
    kept->count = 0;
}

static void fill_request(Worker *worker, Kept *kept) {
    BenchTotals *totals = &worker->totals;
    bool leaks = worker->options->free_policy == FREE_LEAK;
    uint32_t count = 0;
    for (uint32_t i = 0; i < worker->plan_count; i++) {
        uint32_t bytes = worker->plan_sizes[i];
        void *object = allocate(worker, bytes);
        if (object == NULL) {
            totals->failures++;
            continue;
        }
        touch(object, bytes);
        totals->objects++;
        totals->object_bytes += bytes;
        if (leaks && worker->plan_leaks[i]) {
            totals->leaked_bytes += bytes;
            atomic_fetch_add_explicit(&worker->leaked_objects, 1, memory_order_relaxed);
        } else {
            kept->objects[count++] = object;
        }
    }
    kept->count = count;
}

static void close_epoch(Worker *worker) {
    if (worker->epoch != EPOCH_NONE) epoch_close(worker->slab, worker->epoch);
    worker->epoch = EPOCH_NONE;
}

static void finish_request(Worker *worker, uint64_t number, Kept *newest) {
    const BenchOptions *options = worker->options;
    if (worker->source == SOURCE_DOMAIN) {
        if (worker->domain != NULL) epoch_domain_destroy(worker->domain);
        worker->domain = NULL;
        worker->totals.freed += newest->count;
        newest->count = 0;
        return;
    }
    /* The oldest of the ring: the request `lag` before this one, or this one where nothing lags. */
    release_kept(worker, &worker->kept[(number + 1) % worker->kept_count]);
    if (worker->source == SOURCE_EPOCH &&
        (options->epoch_policy == POLICY_PER_REQ || (number + 1) % options->batch == 0))
        close_epoch(worker);
}

static void run_request(Worker *worker) {
    uint64_t number = worker->totals.requests;
    Kept *newest = &worker->kept[number % worker->kept_count];
    open_lifetime(worker);
    fill_request(worker, newest);
    finish_request(worker, number, newest);
    worker->totals.requests = number + 1;
}

/* ---- a thread --------------------------------------------------------------------------------- */

static bool wait_for_start(Worker *worker, uint64_t *start_ns) {
    Gate *gate = worker->gate;
    pthread_mutex_lock(&gate->lock);
    while (!gate->go) pthread_cond_wait(&gate->opened, &gate->lock);
    bool cancelled = gate->cancelled;
    *start_ns = gate->start_ns;
    pthread_mutex_unlock(&gate->lock);
    return !cancelled;
}

/* The deadline of request `number` of this thread. The threads take turns, so that the requests of all of
   them are spread evenly. */
static uint64_t deadline_ns(const Worker *worker, uint64_t start_ns, uint64_t number) {
    const BenchOptions *options = worker->options;
    double turn = (double)number * options->threads + worker->index;
    return start_ns + (uint64_t)(turn * (double)WL_NS_PER_S / (double)options->req_rate);
}

static void *worker_main(void *argument) {
    Worker *worker = argument;
    uint64_t start_ns;
    if (!wait_for_start(worker, &start_ns)) return NULL;
    bool paced = worker->options->req_rate != 0;
    uint64_t end_ns = start_ns + (uint64_t)(worker->options->duration_s * (double)WL_NS_PER_S);
    uint64_t now_ns = bench_now_ns();
    while (now_ns < end_ns) {
        draw_plan(worker);
        if (paced) {
            uint64_t due_ns = deadline_ns(worker, start_ns, worker->totals.requests);
            if (due_ns >= end_ns) break;
            if (due_ns > bench_now_ns()) wl_sleep_until_ns(due_ns);
        }
        uint64_t begin_ns = bench_now_ns();
        run_request(worker);
        now_ns = bench_now_ns();
        bench_hist_add(&worker->latencies, now_ns - begin_ns);
    }
    if (paced && now_ns < end_ns) wl_sleep_until_ns(end_ns);
    worker->totals.elapsed_ns = bench_now_ns() - start_ns;
    for (uint64_t i = 0; i < worker->kept_count; i++) release_kept(worker, &worker->kept[i]);
    close_epoch(worker);
    return NULL;
}

/* ---- all of them ------------------------------------------------------------------------------ */

static size_t rounded(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

static bool worker_init(Worker *worker, const BenchOptions *options, SlabAllocator *slab, Gate *gate, uint32_t index) {
    size_t objects = options->objs_max;
    uint64_t kept_count = bench_kept_requests(options);
    size_t sizes_bytes = rounded(objects * sizeof *worker->plan_sizes);
    size_t leaks_bytes = rounded(objects * sizeof *worker->plan_leaks);
    size_t kept_bytes = rounded((size_t)kept_count * sizeof *worker->kept);
    worker->memory_bytes = sizes_bytes + leaks_bytes + kept_bytes + (size_t)kept_count * objects * sizeof(void *);
    worker->memory = bench_map(worker->memory_bytes);
    unsigned char *next = worker->memory;
    worker->plan_sizes = (uint32_t *)(void *)next;
    next += sizes_bytes;
    worker->plan_leaks = (bool *)(void *)next;
    next += leaks_bytes;
    worker->kept = (Kept *)(void *)next;
    next += kept_bytes;
    for (uint64_t i = 0; i < kept_count; i++) {
        worker->kept[i].objects = (void **)(void *)next;
        next += objects * sizeof(void *);
    }
    worker->kept_count = kept_count;
    worker->options = options;
    worker->slab = slab;
    worker->gate = gate;
    worker->index = index;
    worker->source = source_of(options);
    worker->epoch = EPOCH_NONE;
    worker->rng.state = options->seed + (uint64_t)index * UINT64_C(0xd1342543de82ef95);
    return true;
}

static void open_gate(Gate *gate, bool cancelled) {
    pthread_mutex_lock(&gate->lock);
    gate->start_ns = bench_now_ns();
    gate->cancelled = cancelled;
    gate->go = true;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

static void add_totals(BenchTotals *into, const BenchTotals *from) {
    into->requests += from->requests;
    into->objects += from->objects;
    into->object_bytes += from->object_bytes;
    into->freed += from->freed;
    into->leaked_bytes += from->leaked_bytes;
    into->failures += from->failures;
    into->refused_frees += from->refused_frees;
    if (from->elapsed_ns > into->elapsed_ns) into->elapsed_ns = from->elapsed_ns;
}

/* Thread 0 is the caller: a program with one thread is measured as one. */
static int run_workers(Worker *workers, uint32_t count, Gate *gate) {
    uint32_t started = 1;
    int error = 0;
    while (started < count && error == 0) {
        error = pthread_create(&workers[started].thread, NULL, worker_main, &workers[started]);
        if (error == 0) started++;
    }
    open_gate(gate, error != 0);
    worker_main(&workers[0]);
    for (uint32_t i = 1; i < started; i++) pthread_join(workers[i].thread, NULL);
    return error;
}

BenchRun *bench_create(const BenchOptions *options, SlabAllocator *slab) {
    size_t bytes = sizeof(BenchRun) + options->threads * sizeof(Worker);
    BenchRun *run = bench_map(bytes);
    run->bytes = bytes;
    run->count = options->threads;
    pthread_mutex_init(&run->gate.lock, NULL);
    pthread_cond_init(&run->gate.opened, NULL);
    for (uint32_t i = 0; i < run->count; i++) {
        if (!worker_init(&run->workers[i], options, slab, &run->gate, i)) {
            bench_destroy(run);
            return NULL;
        }
    }
    return run;
}

bool bench_execute(BenchRun *run, BenchTotals *totals, bench_hist *latencies) {
    int error = run_workers(run->workers, run->count, &run->gate);
    memset(totals, 0, sizeof *totals);
    for (uint32_t i = 0; i < run->count; i++) {
        add_totals(totals, &run->workers[i].totals);
        bench_hist_merge(latencies, &run->workers[i].latencies);
    }
    errno = error;
    return error == 0;
}

uint64_t bench_leaked_objects(const BenchRun *run) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < run->count; i++)
        sum += atomic_load_explicit(&run->workers[i].leaked_objects, memory_order_relaxed);
    return sum;
}

void bench_destroy(BenchRun *run) {
    for (uint32_t i = 0; i < run->count; i++) bench_unmap(run->workers[i].memory, run->workers[i].memory_bytes);
    pthread_cond_destroy(&run->gate.opened);
    pthread_mutex_destroy(&run->gate.lock);
    bench_unmap(run, run->bytes);
}
