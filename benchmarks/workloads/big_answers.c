/*
 * big_answers: a server at rest gets a burst. Eight threads each build one answer of 2 MB: a tree of some 14,000 JSON
 * objects, printed and freed. Then all is quiet. The memory that the process keeps then is the figure; the threads wait
 * for work, as a server's do.
 *
 * temporal-slab: the default allocator as it is, and a domain for each answer.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <tslab/tslab.h>

#include "case.h"

#define TOOL "big_answers"
#define THREADS 8
#define ROWS 14000
#define QUIET_NS (WL_NS_PER_S / 5)

static Case *run;
static pthread_barrier_t begin, end;
static bool over; /* written between two barriers */

typedef struct Server {
    pthread_t thread;
    uint64_t digest, took_ns;
} Server;

/* Frees of a tree that dies with its domain are left out. */
static void keep(void *pointer) { (void)pointer; }

static uint64_t answer(void) {
    json_t *rows = json_array();
    for (int i = 0; i < ROWS; i++) {
        char name[48];
        snprintf(name, sizeof name, "row number %d of the answer", i);
        json_t *row = json_object();
        json_object_set_new(row, "id", json_integer(i));
        json_object_set_new(row, "name", json_string(name));
        json_object_set_new(row, "text", json_string("one of many rows, each with a text of its own"));
        json_object_set_new(row, "price", json_real(i * 0.25));
        json_array_append_new(rows, row);
    }
    char *text = json_dumps(rows, JSON_COMPACT);
    if (text == NULL) wl_die(BENCH_EXIT_FAILED, TOOL, "no memory");
    uint64_t digest = case_hash(CASE_HASH_START, text, strlen(text));
    if (run->allocator == WL_MALLOC) {
        free(text);
        json_decref(rows);
    }
    return digest;
}

static uint64_t serve(void) {
    if (run->allocator == WL_MALLOC) return answer();
    EpochDomain *domain = epoch_domain_create(NULL);
    if (domain == NULL || !epoch_domain_enter(domain)) wl_die(BENCH_EXIT_FAILED, TOOL, "no domain");
    uint64_t digest = answer();
    epoch_domain_exit(domain);
    epoch_domain_destroy(domain);
    return digest;
}

static void *serve_bursts(void *argument) {
    Server *server = argument;
    for (;;) {
        pthread_barrier_wait(&begin);
        if (over) return NULL;
        uint64_t begin_ns = bench_now_ns();
        server->digest = serve();
        server->took_ns = bench_now_ns() - begin_ns;
        pthread_barrier_wait(&end);
    }
}

int main(int argc, char **argv) {
    run = case_begin(argc, argv, TOOL, "Bursts of eight answers of 2 MB at once, and what is kept when they are over.");
    if (run->allocator == WL_TSLAB) json_set_alloc_funcs(slab_alloc, keep);
    json_object_seed(1);
    Server servers[THREADS] = {{0}};
    pthread_barrier_init(&begin, NULL, THREADS + 1);
    pthread_barrier_init(&end, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&servers[i].thread, NULL, serve_bursts, &servers[i]) != 0)
            wl_die(BENCH_EXIT_FAILED, TOOL, "no thread");
    case_start(run);
    while (case_goes_on(run)) {
        pthread_barrier_wait(&begin);
        pthread_barrier_wait(&end);
        for (int i = 0; i < THREADS; i++) {
            bench_hist_add(&run->latencies, servers[i].took_ns);
            case_same(run, servers[i].digest);
        }
        wl_sleep_until_ns(bench_now_ns() + QUIET_NS);
    }
    wl_sleep_until_ns(bench_now_ns() + WL_NS_PER_S - QUIET_NS);
    if (run->allocator == WL_TSLAB) json_set_alloc_funcs(malloc, free); /* the report is not the answers' */
    int code = case_finish(run);
    over = true;
    pthread_barrier_wait(&begin);
    for (int i = 0; i < THREADS; i++) pthread_join(servers[i].thread, NULL);
    return code;
}
