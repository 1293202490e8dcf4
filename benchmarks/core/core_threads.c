/*
 * Several threads. threads_N: each replaces random objects of its own 2,000, all in one allocator (and one
 * epoch, where there are epochs); the figure is wall time over the pairs of all threads together.
 * producer_consumer: one thread allocates, another frees, each on a processor of its own. How long a cache line
 * takes from one to the other and back is emitted as round_trip_ns: on a virtual machine it depends on where the
 * host has put the two processors, and changes by itself.
 */
#include "core_bench.h"

#include "bench_clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { OBJECT_BYTES = 128, LIVE = 2000, ORDER_COUNT = 1 << 16, CACHE_LINE = 64 };
enum { MAX_THREADS = 16, MAX_REPS = 1000 };

static void start_thread(pthread_t *thread, void *(*run)(void *), void *arg) {
    if (pthread_create(thread, NULL, run, arg) != 0) bench_die(BENCH_EXIT_FAILED, "the harness cannot start a thread");
}

/* ---- threads_N -------------------------------------------------------------------------------- */

/*
 * All threads run the same phases, with a barrier before and after each: one without the allocator, one to
 * warm up, then measured ones until thread 0 says that it is enough.
 */
typedef struct threads_shared {
    const core_config *config;
    peer_ref peer;
    unsigned threads;
    size_t pairs; /* of one thread in one phase */
    const uint32_t *order;
    pthread_barrier_t barrier;
    bool finished; /* written by thread 0 between two barriers */
} threads_shared;

typedef struct threads_member {
    _Alignas(CACHE_LINE) threads_shared *shared;
    unsigned index;
    uint64_t begin_ns; /* of the phase just done */
    uint64_t end_ns;
    size_t cursor;
    void *slots[LIVE];
} threads_member;

BENCH_INLINE void member_loop(threads_member *member, enum bench_mode mode) {
    peer_ref peer = member->shared->peer;
    const uint32_t *order = member->shared->order;
    size_t at = member->cursor;
    for (size_t n = member->shared->pairs; n > 0; n--) {
        uint32_t slot = order[at++ & (ORDER_COUNT - 1)];
        core_free(peer, mode, member->slots[slot], slot);
        member->slots[slot] = core_alloc(peer, mode, OBJECT_BYTES, slot);
    }
    member->cursor = at;
}

static void member_phase(threads_member *member, enum bench_mode mode) {
    member->begin_ns = bench_now_ns();
    CORE_DISPATCH(member_loop, member, mode);
    member->end_ns = bench_now_ns();
}

/* Wall nanoseconds per pair of the phase that all members have just done. */
static double phase_pair_ns(const threads_member *members, unsigned threads, size_t pairs) {
    uint64_t begin_ns = members[0].begin_ns, end_ns = members[0].end_ns;
    for (unsigned i = 1; i < threads; i++) {
        if (members[i].begin_ns < begin_ns) begin_ns = members[i].begin_ns;
        if (members[i].end_ns > end_ns) end_ns = members[i].end_ns;
    }
    return (double)(end_ns - begin_ns) / ((double)pairs * threads);
}

static void *run_member(void *arg) {
    threads_member *member = arg;
    threads_shared *shared = member->shared;
    threads_member *members = member - member->index;
    enum bench_mode mode = core_mode(shared->config);
    double values[MAX_REPS];
    unsigned done = 0;

    for (size_t i = 0; i < LIVE; i++) member->slots[i] = core_null_object;
    pthread_barrier_wait(&shared->barrier);
    member_phase(member, MODE_EMPTY);
    pthread_barrier_wait(&shared->barrier);
    if (member->index == 0) core_emit("floor_ns", phase_pair_ns(members, shared->threads, shared->pairs), "ns");
    pthread_barrier_wait(&shared->barrier);
    for (size_t i = 0; i < LIVE; i++) member->slots[i] = core_alloc(shared->peer, mode, OBJECT_BYTES, (uint32_t)i);
    member_phase(member, mode);
    uint64_t start_ns = bench_now_ns();
    for (;;) {
        pthread_barrier_wait(&shared->barrier);
        if (shared->finished) break;
        member_phase(member, mode);
        pthread_barrier_wait(&shared->barrier);
        if (member->index == 0) {
            values[done++] = phase_pair_ns(members, shared->threads, shared->pairs);
            shared->finished = done == MAX_REPS || core_enough(shared->config, done, 7, start_ns);
        }
    }
    for (size_t i = 0; i < LIVE; i++) core_free(shared->peer, mode, member->slots[i], (uint32_t)i);
    if (member->index == 0) core_emit("pair_ns", bench_median(values, done), "ns");
    return NULL;
}

static void measure_threads(const core_config *config, unsigned threads) {
    pthread_t ids[MAX_THREADS];
    size_t members_bytes = threads * sizeof(threads_member);
    threads_member *members = bench_map(members_bytes);
    threads_shared shared = {.config = config, .threads = threads};
    shared.pairs = (config->smoke ? 64000 : 8000000) / threads;
    shared.order = core_random_slots(config->seed, ORDER_COUNT, LIVE);
    shared.peer = peer_open();
    if (pthread_barrier_init(&shared.barrier, NULL, threads) != 0)
        bench_die(BENCH_EXIT_FAILED, "the harness cannot make a barrier for %u threads", threads);
    for (unsigned i = 0; i < threads; i++) {
        members[i].shared = &shared;
        members[i].index = i;
        members[i].cursor = i * (ORDER_COUNT / MAX_THREADS);
    }
    for (unsigned i = 1; i < threads; i++) start_thread(&ids[i], run_member, &members[i]);
    run_member(&members[0]);
    for (unsigned i = 1; i < threads; i++) pthread_join(ids[i], NULL);
    pthread_barrier_destroy(&shared.barrier);
    peer_close(shared.peer);
    bench_unmap((void *)shared.order, ORDER_COUNT * sizeof *shared.order);
    bench_unmap(members, members_bytes);
}

void core_threads_1(const core_config *config) { measure_threads(config, 1); }

void core_threads_2(const core_config *config) { measure_threads(config, 2); }

void core_threads_8(const core_config *config) { measure_threads(config, 8); }

void core_threads_16(const core_config *config) { measure_threads(config, 16); }

/* ---- producer_consumer ------------------------------------------------------------------------ */

/*
 * A ring of pointers for one producer and one consumer. Both positions are published one cache line of
 * pointers at a time, and each side keeps a copy of the other's position, so that the queue costs about one
 * transferred line per eight objects and not several per object.
 */
enum { RING_SLOTS = 1024, RING_BATCH = CACHE_LINE / sizeof(void *) };

typedef struct pipe_shared {
    _Alignas(CACHE_LINE) atomic_size_t written; /* producer writes */
    _Alignas(CACHE_LINE) atomic_size_t read;    /* consumer writes */
    _Alignas(CACHE_LINE) void *ring[RING_SLOTS];
    const core_config *config;
    peer_ref peer;
    size_t objects; /* of one block; a multiple of RING_BATCH */
    int cpus[2];    /* producer's, consumer's; -1: not pinned */
    pthread_barrier_t barrier;
    uint64_t begin_ns;    /* producer writes, consumer reads after the barrier */
    enum bench_mode mode; /* consumer writes between two barriers */
    size_t round_trips;   /* likewise; not 0: no objects, a word goes to and fro as often as this */
    bool finished;        /* likewise */
} pipe_shared;

/* Waits until *position is at least `wanted`; returns it. The acquire pairs with the other side's release
   and makes the pointers (for the consumer) or the emptied slots (for the producer) visible. */
static size_t wait_for(atomic_size_t *position, size_t wanted) {
    for (unsigned spins = 0;; spins++) {
        size_t now = atomic_load_explicit(position, memory_order_acquire);
        if (now >= wanted) return now;
        if (spins % 1024 == 1023)
            sched_yield();
        else
            bench_cpu_relax();
    }
}

BENCH_INLINE void produce_loop(pipe_shared *pipe, enum bench_mode mode) {
    peer_ref peer = pipe->peer;
    size_t read = 0, at = 0;
    while (at < pipe->objects) {
        if (at + RING_BATCH > read + RING_SLOTS) read = wait_for(&pipe->read, at + RING_BATCH - RING_SLOTS);
        for (size_t i = 0; i < RING_BATCH; i++, at++)
            pipe->ring[at % RING_SLOTS] = core_alloc(peer, mode, OBJECT_BYTES, (uint32_t)at);
        atomic_store_explicit(&pipe->written, at, memory_order_release); /* publishes the batch of pointers */
    }
}

BENCH_INLINE void consume_loop(pipe_shared *pipe, enum bench_mode mode) {
    peer_ref peer = pipe->peer;
    size_t written = 0, at = 0;
    while (at < pipe->objects) {
        if (at + RING_BATCH > written) written = wait_for(&pipe->written, at + RING_BATCH);
        for (size_t i = 0; i < RING_BATCH; i++, at++) core_free(peer, mode, pipe->ring[at % RING_SLOTS], (uint32_t)at);
        atomic_store_explicit(&pipe->read, at, memory_order_release); /* the slots are no longer read */
    }
}

/* A word goes to and fro, each side writing its own and waiting for the other's; one side begins. */
static void bounce(atomic_size_t *mine, atomic_size_t *theirs, size_t trips, bool first) {
    for (size_t trip = 1; trip <= trips; trip++) {
        if (first) atomic_store_explicit(mine, trip, memory_order_release);
        wait_for(theirs, trip);
        if (!first) atomic_store_explicit(mine, trip, memory_order_release);
    }
}

static void *run_producer(void *arg) {
    pipe_shared *pipe = arg;
    if (pipe->cpus[0] >= 0) bench_pin_thread(pipe->cpus[0]);
    for (;;) {
        pthread_barrier_wait(&pipe->barrier);
        if (pipe->finished) return NULL;
        pipe->begin_ns = bench_now_ns();
        if (pipe->round_trips != 0)
            bounce(&pipe->written, &pipe->read, pipe->round_trips, false);
        else
            CORE_DISPATCH(produce_loop, pipe, pipe->mode);
        pthread_barrier_wait(&pipe->barrier);
    }
}

/* Runs one block in both threads; its nanoseconds. Consumer only. */
static double pipe_block(pipe_shared *pipe, enum bench_mode mode, size_t round_trips) {
    pipe->mode = mode;
    pipe->round_trips = round_trips;
    atomic_store_explicit(&pipe->written, 0, memory_order_relaxed); /* the barrier publishes both */
    atomic_store_explicit(&pipe->read, 0, memory_order_relaxed);
    pthread_barrier_wait(&pipe->barrier);
    if (round_trips != 0)
        bounce(&pipe->read, &pipe->written, round_trips, true);
    else
        CORE_DISPATCH(consume_loop, pipe, mode);
    uint64_t end_ns = bench_now_ns();
    pthread_barrier_wait(&pipe->barrier);
    return (double)(end_ns - pipe->begin_ns);
}

void core_producer_consumer(const core_config *config) {
    double values[MAX_REPS];
    unsigned done = 0;
    int cpus[2];
    pthread_t producer;
    pipe_shared *pipe = bench_map(sizeof *pipe);

    bool own_cpus = bench_cpus(cpus, 2) >= 2;
    if (!own_cpus && !config->smoke)
        bench_die(BENCH_EXIT_UNAVAILABLE, "producer_consumer needs two processors, and this process may use one");
    pipe->config = config;
    pipe->objects = config->smoke ? 16384 : 500000;
    pipe->cpus[0] = own_cpus ? cpus[0] : -1;
    pipe->cpus[1] = own_cpus ? cpus[1] : -1;
    pipe->peer = peer_open();
    if (pthread_barrier_init(&pipe->barrier, NULL, 2) != 0)
        bench_die(BENCH_EXIT_FAILED, "the harness cannot make a barrier");
    start_thread(&producer, run_producer, pipe);
    if (own_cpus) bench_pin_thread(pipe->cpus[1]);

    enum bench_mode mode = core_mode(config);
    for (unsigned i = 0; i < 3; i++) values[i] = pipe_block(pipe, MODE_EMPTY, 0) / (double)pipe->objects;
    core_emit("floor_ns", bench_median(values, 3), "ns");
    size_t trips = config->smoke ? 100 : 100000;
    core_emit("round_trip_ns", pipe_block(pipe, MODE_EMPTY, trips) / (double)trips, "ns");
    pipe_block(pipe, mode, 0);
    uint64_t start_ns = bench_now_ns();
    while (done < MAX_REPS && !core_enough(config, done, 7, start_ns))
        values[done++] = pipe_block(pipe, mode, 0) / (double)pipe->objects;
    core_emit("object_ns", bench_median(values, done), "ns");

    pipe->finished = true;
    pthread_barrier_wait(&pipe->barrier);
    pthread_join(producer, NULL);
    pthread_barrier_destroy(&pipe->barrier);
    peer_close(pipe->peer);
    bench_unmap(pipe, sizeof *pipe);
}
