/*
 * Rows of nodes in every text: none where the allocator tells no nodes apart, else one for each node, with the figures
 * of slab_stats_node. On machines that are not there (support/topology.h), one for each test, in a child.
 */
#include "check.h"
#include "in_child.h"
#include "topology.h"
#include "unit.h"

#include "observe/observe.h"

#include "api/runtime.h"

#include <tslab/stats.h>

#include <stdio.h>
#include <string.h>

static char text[1 << 18];

static SlabAllocator *make(int numa) {
    const SlabOptions options = {.size = sizeof options, .numa = numa};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    SUP_CHECK(a != NULL, "an allocator");
    return a;
}

static bool says(size_t (*render)(SlabAllocator *, char *, size_t), SlabAllocator *a, const char *what) {
    SUP_CHECK(render(a, text, sizeof text) < sizeof text, "it fits");
    return strstr(text, what) != NULL;
}

static void without(const sup_topology *machine, int numa) {
    sup_topology_use(machine);
    SlabAllocator *a = make(numa);
    SUP_CHECK(slab_malloc_epoch(a, 100, epoch_current(a)) != NULL, "an object");
    SUP_CHECK(says(slab_stats_json, a, ",\"nodes\":[],\"zones\":["), "no row in JSON");
    SUP_CHECK(!says(slab_stats_prometheus, a, "temporal_slab_node_"), "no metric");
    SUP_CHECK(!says(slab_stats_text, a, "\nnode "), "nothing in the text");
    slab_allocator_free(a);
}

static const sup_topology gaps = {.nodes = {0, 3, 11}, .count = 3, .nearest = 0, .full = -1};

static void off_child(void *arg) {
    (void)arg;
    without(&gaps, SLAB_NUMA_OFF);
}
SUP_IN_CHILD(off)

static void one_node_child(void *arg) {
    (void)arg;
    const sup_topology one = {.nodes = {2}, .count = 1, .nearest = 2, .full = -1};
    without(&one, SLAB_NUMA_LOCAL);
}
SUP_IN_CHILD(one_node)

static void refused_child(void *arg) {
    (void)arg;
    sup_topology refuses = gaps;
    refuses.refuse_nodes = true;
    without(&refuses, SLAB_NUMA_LOCAL);
}
SUP_IN_CHILD(refused)

static SlabAllocator *shared;
static void *object[100];
static void *frees(void *arg) {
    (void)arg;
    sup_topology_go_to(0);
    for (unsigned i = 0; i < 100; i++) SUP_CHECK(slab_free(shared, object[i]), "freed");
    return NULL;
}

/* All texts give for each node the figures of slab_stats_node. */
static void check_rows(SlabAllocator *a) {
    static const int nodes[] = {0, 3, 11};
    char want[256], json[512] = "";
    for (unsigned i = 0; i < 3; i++) {
        SlabNodeStats s;
        SUP_CHECK(slab_stats_node(a, nodes[i], &s), "node %d", nodes[i]);
        unsigned long long committed = s.committed_bytes, frees_there = s.remote_frees_total;
        snprintf(json + strlen(json), sizeof json - strlen(json),
                 "%s{\"node\":%d,\"committed_bytes\":%llu,\"remote_frees_total\":%llu,"
                 "\"allocator\":{\"number\":0,\"name\":\"created\"}}",
                 i ? "," : "", nodes[i], committed, frees_there);
        snprintf(want, sizeof want, "\ntemporal_slab_node_committed_bytes{node=\"%d\"} %llu\n", nodes[i], committed);
        SUP_CHECK(says(slab_stats_prometheus, a, want), "no %s in %s", want, text);
        snprintf(want, sizeof want, "\ntemporal_slab_node_remote_frees_total{node=\"%d\"} %llu\n", nodes[i],
                 frees_there);
        SUP_CHECK(says(slab_stats_prometheus, a, want), "no %s in %s", want, text);
        snprintf(want, sizeof want, "\nnode %d\n  committed_bytes              %llu", nodes[i], committed);
        SUP_CHECK(says(slab_stats_text, a, want), "no %s in %s", want, text);
    }
    snprintf(want, sizeof want, "\"nodes\":[");
    SUP_CHECK(says(slab_stats_json, a, want), "no rows");
    const char *rows = strstr(text, want) + strlen(want);
    SUP_CHECK(strncmp(rows, json, strlen(json)) == 0 && rows[strlen(json)] == ']', "%s is not %s", rows, json);
}

static void local_child(void *arg) {
    (void)arg;
    sup_topology_use(&gaps);
    SlabAllocator *a = shared = make(SLAB_NUMA_LOCAL);
    EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
    check_rows(a); /* all nought */
    sup_topology_go_to(11);
    for (unsigned i = 0; i < 100; i++) SUP_CHECK((object[i] = slab_malloc_epoch(a, 1000, epoch)) != NULL, "an object");
    sup_in_thread(frees, NULL);
    SUP_CHECK(epoch_close(a, epoch), "closed: all is collected");
    SlabNodeStats row[TS_NODE_ROWS];
    SUP_CHECK(ts_node_rows(ts_allocator_find(ts_token(a)), row) == 3, "three rows");
    SUP_CHECK(row[0].node == 0 && row[1].node == 3 && row[2].node == 11, "by rising id");
    SUP_CHECK(row[2].remote_frees_total == 100 && row[0].remote_frees_total == 0, "freed by a thread on another node");
    SUP_CHECK(row[1].committed_bytes == 0 && row[2].committed_bytes > 0, "memory of one of them");
    check_rows(a);
    slab_allocator_free(a);
}
SUP_IN_CHILD(local)

/* An epoch that is bound is reason enough. */
static void bound_child(void *arg) {
    (void)arg;
    sup_topology_use(&gaps);
    SlabAllocator *a = make(SLAB_NUMA_OFF);
    EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
    SUP_CHECK(epoch_bind(a, epoch, 3), "bound");
    SUP_CHECK(slab_malloc_epoch(a, 1000, epoch) != NULL, "an object");
    check_rows(a);
    slab_allocator_free(a);
}
SUP_IN_CHILD(bound)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(off),   cmocka_unit_test(one_node), cmocka_unit_test(refused),
        cmocka_unit_test(local), cmocka_unit_test(bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
