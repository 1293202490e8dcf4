/*
 * idle_connections: a server with a thousand connections. At first one request comes after the other; these are timed.
 * Then every connection has a request at the same time. The requests end, the connections stay, idle. The memory that
 * the process keeps then is the figure.
 *
 * A connection has 1.5 KB that live as long as it, a request some 60 KB that die with it. malloc puts both side by
 * side. temporal-slab: all connections share one churn epoch, and each request has a domain. The option `background` is
 * on, as in a server.
 */
#include <stdlib.h>
#include <string.h>

#include <tslab/tslab.h>

#include "case.h"

#define TOOL "idle_connections"
#define CONNECTIONS 1000
#define STEPS 12 /* of a request; those of all connections take turns */
#define OBJECTS 20
#define KEPT 4
#define QUIET_NS WL_NS_PER_S

typedef struct Connection {
    void *kept[KEPT]; /* its record, two texts and a buffer; kept[0] NULL: not open */
    EpochDomain *domain;
    void *objects[STEPS * OBJECTS];
    size_t count;
    uint64_t took_ns;
} Connection;

static Case *run;
static SlabAllocator *allocator;
static EpochId connections_epoch;
static bench_rng rng = {42};

static void *filled(void *object, size_t size) {
    if (object == NULL) wl_die(BENCH_EXIT_FAILED, TOOL, "no memory");
    memset(object, 'x', size);
    return object;
}

static void open_connection(Connection *connection) {
    const size_t sizes[KEPT] = {256, bench_rng_between(&rng, 24, 96), bench_rng_between(&rng, 24, 96), 1024};
    for (int i = 0; i < KEPT; i++) {
        void *object =
            run->allocator == WL_TSLAB ? slab_malloc_epoch(allocator, sizes[i], connections_epoch) : malloc(sizes[i]);
        connection->kept[i] = filled(object, sizes[i]);
    }
}

static void close_connection(Connection *connection) {
    for (int i = 0; i < KEPT; i++) {
        if (run->allocator == WL_TSLAB)
            slab_free(allocator, connection->kept[i]);
        else
            free(connection->kept[i]);
    }
    connection->kept[0] = NULL;
}

/* A part of the connection's request: other connections' parts come between it and the next. */
static void step(Connection *connection) {
    uint64_t begin_ns = bench_now_ns();
    if (run->allocator == WL_TSLAB && connection->domain == NULL &&
        (connection->domain = epoch_domain_create_ex(allocator, "request", 0)) == NULL)
        wl_die(BENCH_EXIT_FAILED, TOOL, "no domain");
    for (int i = 0; i < OBJECTS; i++) {
        size_t size = bench_rng_between(&rng, 24, 480);
        void *object = connection->domain != NULL ? epoch_domain_alloc(connection->domain, size) : malloc(size);
        connection->objects[connection->count++] = filled(object, size);
    }
    connection->took_ns += bench_now_ns() - begin_ns;
}

static void end_request(Connection *connection, bool recorded) {
    uint64_t begin_ns = bench_now_ns();
    if (connection->domain != NULL)
        epoch_domain_destroy(connection->domain);
    else
        for (size_t i = 0; i < connection->count; i++) free(connection->objects[i]);
    connection->domain = NULL;
    connection->count = 0;
    if (recorded) bench_hist_add(&run->latencies, connection->took_ns + bench_now_ns() - begin_ns);
    connection->took_ns = 0;
}

/* Usual traffic: one request after the other, now and then a connection is closed and another one opened. */
static void serve_usual(Connection *connections) {
    Connection *connection = &connections[bench_rng_between(&rng, 0, CONNECTIONS - 1)];
    if (connection->kept[0] != NULL && bench_rng_between(&rng, 0, 9) == 0) close_connection(connection);
    if (connection->kept[0] == NULL) open_connection(connection);
    for (int turn = 0; turn < STEPS; turn++) step(connection);
    end_request(connection, true);
}

/* The spike: every connection at the same time. */
static void serve_all(Connection *connections) {
    for (int turn = 0; turn < STEPS; turn++) {
        for (int i = 0; i < CONNECTIONS; i++) {
            if (connections[i].kept[0] == NULL) open_connection(&connections[i]);
            step(&connections[i]);
        }
    }
    for (int i = 0; i < CONNECTIONS; i++) end_request(&connections[i], false);
}

int main(int argc, char **argv) {
    run = case_begin(argc, argv, TOOL,
                     "Usual requests, then one on each of a thousand connections at once; then all are idle.");
    Connection *connections = bench_map(CONNECTIONS * sizeof *connections);
    if (run->allocator == WL_TSLAB) {
        SlabOptions options = {.size = sizeof options, .background = 1};
        allocator = slab_allocator_create_ex(&options);
        if (allocator == NULL) wl_die(BENCH_EXIT_FAILED, TOOL, "no allocator");
        connections_epoch = epoch_open(allocator, "connections", EPOCH_CHURN);
    }
    case_start(run);
    while (case_goes_on(run)) serve_usual(connections);
    serve_all(connections);
    wl_sleep_until_ns(bench_now_ns() + QUIET_NS);
    run->digest = CASE_HASH_START;
    int code = case_finish(run);
    for (int i = 0; i < CONNECTIONS; i++)
        if (connections[i].kept[0] != NULL) close_connection(&connections[i]);
    return code;
}
