/*
 * The worth of TSLAB_NUMA: programs of some threads on two nodes, with the allocator as it is, on a machine that is
 * simulated (machine.h). Each access that no cache has costs as much as a load from that node's memory is said to cost.
 * So the figures are the same in each run and on each machine.
 *
 *     numa_bench [--csv FILE] [--smoke]
 *
 * Exit status 1: with `local` a thread that works with its own objects gets less than 99 % of its misses from its own
 * node.
 */
#define _GNU_SOURCE
#include "bench_csv.h"
#include "machine.h"
#include "rng.h"

#include <tslab/stats.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define NODES 2u
#define THREADS 4u /* on nodes 0, 1, 0, 1 */
#define SHARE_PERCENT 99.0

#define NEED(condition)                                                                       \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            (void)fprintf(stderr, "numa_bench: line %d: not so: %s\n", __LINE__, #condition); \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

enum { OFF = 1, LOCAL = 2, INTERLEAVE = 4, BIND = 8 };

static SlabAllocator *a;
static unsigned option, rounds = 30;
static struct sup_rng rng = {1};

/* ---- threads, one at a time
   ---------------------------------------------------------------------------------------- */

typedef struct hand {
    pthread_t thread;
    sem_t go, done;
    unsigned number;
    void (*work)(unsigned number); /* NULL: the end */
} hand;
static hand hands[THREADS];

static void *run_hand(void *arg) {
    hand *h = arg;
    for (;;) {
        while (sem_wait(&h->go) != 0) {
        }
        if (!h->work) return NULL;
        h->work(h->number);
        NEED(sem_post(&h->done) == 0);
    }
}

static void begin(unsigned number) {
    hand *h = &hands[number];
    h->number = number;
    NEED(sem_init(&h->go, 0, 0) == 0 && sem_init(&h->done, 0, 0) == 0);
    NEED(pthread_create(&h->thread, NULL, run_hand, h) == 0);
}

static void call(unsigned number, void (*work)(unsigned)) {
    hand *h = &hands[number];
    h->work = work;
    NEED(sem_post(&h->go) == 0);
    while (work && sem_wait(&h->done) != 0) {
    }
}

static void end(unsigned number) {
    call(number, NULL);
    NEED(pthread_join(hands[number].thread, NULL) == 0);
}

/* ---- the programs ------------------------------------------------------------------------------------------------ */

#define OBJECTS 4000u
static char *object[THREADS][OBJECTS];
static size_t bytes_of[THREADS][OBJECTS];

static size_t some_bytes(size_t least, size_t most) { return least + (size_t)sup_rng_below(&rng, most - least + 1); }

static void put(unsigned set, unsigned i, EpochId epoch, size_t bytes) {
    object[set][i] = slab_malloc_epoch(a, bytes, epoch);
    NEED(object[set][i]);
    bytes_of[set][i] = bytes;
    machine_access(object[set][i], bytes, true);
}

static void look(unsigned set, unsigned i) { machine_access(object[set][i], bytes_of[set][i], false); }

/* A request: objects of 48 to 700 bytes, each written once and read three times, in one domain. Its parts, as those
   of all threads are
   there at the same time. */
static EpochDomain *domain[THREADS];
static void begin_request(unsigned number) {
    EpochDomain *d = domain[number] = epoch_domain_create(a);
    NEED(d && epoch_domain_enter(d));
    for (unsigned i = 0; i < OBJECTS; i++) put(number, i, epoch_domain_epoch(d), some_bytes(48, 700));
}
static void read_request(unsigned number) {
    for (unsigned k = 0; k < 3; k++)
        for (unsigned i = 0; i < OBJECTS; i++) look(number, (unsigned)sup_rng_below(&rng, OBJECTS));
}
static void end_request(unsigned number) {
    NEED(epoch_domain_exit(domain[number]));
    epoch_domain_destroy(domain[number]);
}

static unsigned shift; /* of the nodes on which the threads run */
static void settle(unsigned number) { machine_go_to(number, (number + shift) % NODES); }

static void each(void (*work)(unsigned)) {
    for (unsigned t = 0; t < THREADS; t++) call(t, work);
}

static void request_of_each(void) {
    each(begin_request);
    each(read_request);
    each(end_request);
}

static void requests(void) {
    for (unsigned r = 0; r < rounds; r++) request_of_each();
}

/* The system moves each thread to the other node now and then. */
static void moved(void) {
    for (unsigned r = 0; r < rounds; r++) {
        shift = r / 3;
        each(settle);
        request_of_each();
    }
}

/* Threads of a pool that end, and others that begin on the other node. */
static void renewed(void) {
    for (unsigned r = 0; r < rounds; r++) {
        shift = r;
        for (unsigned t = 0; t < THREADS && r > 0; t++) {
            end(t);
            begin(t);
        }
        each(settle);
        request_of_each();
    }
}

/* A cache of each thread: one of 20 operations puts another object in the place of one. */
static EpochId cache_epoch;
static void fill_cache(unsigned number) {
    for (unsigned i = 0; i < OBJECTS; i++) put(number, i, cache_epoch, some_bytes(200, 2000));
}
static void use_cache(unsigned number) {
    for (unsigned k = 0; k < OBJECTS; k++) {
        unsigned i = (unsigned)sup_rng_below(&rng, OBJECTS);
        if (k % 20 == 0) {
            NEED(slab_free(a, object[number][i]));
            put(number, i, cache_epoch, some_bytes(200, 2000));
        } else {
            look(number, i);
        }
    }
}
static void caches(void) {
    cache_epoch = epoch_open(a, "cache", EPOCH_CHURN);
    each(fill_cache);
    for (unsigned r = 0; r < rounds; r++) each(use_cache);
}

/* A thread makes messages; the one on the other node reads each twice, and frees it. */
static EpochId message_epoch;
static void make_messages(unsigned number) {
    for (unsigned i = 0; i < OBJECTS; i++) put(number, i, message_epoch, some_bytes(500, 1500));
}
static void take_messages(unsigned number) {
    unsigned from = number - 1;
    for (unsigned i = 0; i < OBJECTS; i++) {
        look(from, i);
        if (i % 4 == 3)
            for (unsigned k = i - 3; k <= i; k++) look(from, k);
        NEED(slab_free(a, object[from][i]));
    }
}
static void messages(void) {
    message_epoch = epoch_open(a, "messages", EPOCH_CHURN);
    if (option == BIND) NEED(epoch_bind(a, message_epoch, 1));
    for (unsigned r = 0; r < rounds; r++) {
        for (unsigned t = 0; t < THREADS; t += 2) {
            call(t, make_messages);
            call(t + 1, take_messages);
        }
    }
}

/* A table that one thread has made, and all read. */
static void fill_table(unsigned number) {
    (void)number;
    for (unsigned set = 0; set < THREADS; set++) fill_cache(set);
}
static void read_table(unsigned number) {
    (void)number;
    for (unsigned k = 0; k < OBJECTS; k++)
        look((unsigned)sup_rng_below(&rng, THREADS), (unsigned)sup_rng_below(&rng, OBJECTS));
}
static void table(void) {
    cache_epoch = epoch_open(a, "table", EPOCH_CHURN);
    call(0, fill_table);
    (void)machine_take_counts();
    for (unsigned r = 0; r < rounds; r++) each(read_table);
}

static const struct work {
    const char *name;
    void (*run)(void);
    unsigned options;
    bool own; /* each thread works with its own objects: `local` has to put that on its node */
} works[] = {
    {"requests", requests, OFF | LOCAL, true},
    {"requests, threads move", moved, OFF | LOCAL, true},
    {"requests, threads end and begin", renewed, OFF | LOCAL, true},
    {"a cache of each thread", caches, OFF | LOCAL | INTERLEAVE, true},
    {"messages to the other node", messages, OFF | LOCAL | BIND, false},
    {"a table that all read", table, OFF | LOCAL | INTERLEAVE, false},
};

/* ---- figures
   -------------------------------------------------------------------------------------------------------- */

/* Nanoseconds of a load from memory of the thread's own node, and of another: assumed. */
static const struct { unsigned local, remote; } latencies[] = {{90, 140}, {100, 250}};
#define LATENCIES (sizeof latencies / sizeof *latencies)

static const char *option_name(unsigned o) {
    return o == OFF ? "off" : o == LOCAL ? "local" : o == INTERLEAVE ? "interleave" : "epoch_bind";
}

static double mean_ns(const machine_counts *c, size_t kind) {
    return (double)(c->local * latencies[kind].local + c->remote * latencies[kind].remote) /
           (double)(c->local + c->remote);
}

/* In a process of its own: homes are numbered once. */
static machine_counts run(const struct work *w, unsigned o) {
    machine_counts *out = mmap(NULL, sizeof *out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), counts;
    NEED(out != MAP_FAILED);
    (void)fflush(NULL);
    pid_t child = fork();
    NEED(child >= 0);
    if (child == 0) {
        SlabOptions options = {.size = sizeof options,
                               .numa = o == LOCAL        ? SLAB_NUMA_LOCAL
                                       : o == INTERLEAVE ? SLAB_NUMA_INTERLEAVE
                                                         : SLAB_NUMA_OFF};
        option = o;
        machine_use(NODES);
        NEED((a = slab_allocator_create_ex(&options)) != NULL);
        machine_begin();
        for (unsigned t = 0; t < THREADS; t++) begin(t);
        each(settle);
        w->run();
        *out = machine_take_counts();
        for (unsigned t = 0; t < THREADS; t++) end(t);
        slab_allocator_free(a);
        exit(0);
    }
    int status;
    NEED(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    counts = *out;
    (void)munmap(out, sizeof *out);
    return counts;
}

static bool report(FILE *csv, const struct work *w, unsigned o, const machine_counts *off) {
    machine_counts c = run(w, o);
    const machine_counts *beside = o == OFF ? &c : off;
    uint64_t missed = c.local + c.remote, most = 0;
    NEED(missed != 0);
    for (unsigned n = 0; n < NODES; n++) most = c.of_node[n] > most ? c.of_node[n] : most;
    double local = 100.0 * (double)c.local / (double)missed;
    bool good = o != LOCAL || !w->own || local >= SHARE_PERCENT;
    printf("%-32s %-10s %6.2f %% miss  %6.2f %% of the node  %5.1f %% of the busiest", w->name, option_name(o),
           100.0 * (double)missed / (double)(missed + c.hits), local, 100.0 * (double)most / (double)missed);
    for (size_t k = 0; k < LATENCIES; k++)
        printf("  %5.1f ns (%.2f)", mean_ns(&c, k), mean_ns(&c, k) / mean_ns(beside, k));
    printf("%s\n", good ? "" : "  LESS THAN 99 %");
    if (csv) {
        (void)fprintf(csv, "\"%s\",%s,%.3f,%.3f,%.2f", w->name, option_name(o),
                      100.0 * (double)missed / (double)(missed + c.hits), local, 100.0 * (double)most / (double)missed);
        for (size_t k = 0; k < LATENCIES; k++)
            (void)fprintf(csv, ",%.1f,%.3f", mean_ns(&c, k), mean_ns(&c, k) / mean_ns(beside, k));
        (void)fprintf(csv, "\n");
    }
    return good;
}

int main(int argc, char **argv) {
    FILE *csv = NULL;
    bool good = true;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--csv") == 0 && i + 1 < argc) {
            csv = bench_csv_open("numa_bench", argv[++i]);
        } else if (strcmp(argv[i], "--smoke") == 0) {
            rounds = 6;
        } else if (strcmp(argv[i], "--quick") != 0) {
            (void)fprintf(stderr, "usage: numa_bench [--csv FILE] [--quick] [--smoke]\n");
            return 2;
        }
    }
    if (csv) {
        (void)fprintf(csv, "work,option,missed_percent,local_percent,busiest_percent");
        for (size_t k = 0; k < LATENCIES; k++)
            (void)fprintf(csv, ",ns_%u_%u,beside_off_%u_%u", latencies[k].local, latencies[k].remote,
                          latencies[k].local, latencies[k].remote);
        (void)fprintf(csv, "\n");
    }
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        machine_counts off = run(&works[i], OFF);
        for (unsigned o = OFF; o <= BIND; o *= 2)
            if (works[i].options & o) good &= report(csv, &works[i], o, &off);
    }
    bench_csv_close(csv);
    return good ? 0 : 1;
}
