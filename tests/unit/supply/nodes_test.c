/*
 * An allocator on machines with several nodes (supply/nodes.h), which support/topology.h invents: a thread's memory is
 * of its node, memory that is freed elsewhere goes home, and counts by node hold. One machine for each test, in a
 * child.
 */
#include "check.h"
#include "identities.h"
#include "in_child.h"
#include "proc.h"
#include "topology.h"
#include "unit.h"

#include "api/runtime.h"
#include "region/region.h"
#include "supply/supply.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define UNIT ((size_t)16384)

static const sup_topology two = {.nodes = {0, 1}, .count = 2, .nearest = 0, .full = -1};

static SlabAllocator *make(int numa) {
    const SlabOptions options = {.size = sizeof options, .numa = numa};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    SUP_CHECK(a != NULL, "an allocator");
    return a;
}

static int node_of(const void *p) { return sup_topology_bound(p); }

static SlabNodeStats stats_of(SlabAllocator *a, int node) {
    SlabNodeStats s;
    SUP_CHECK(slab_stats_node(a, node, &s), "node %d: errno %d", node, errno);
    SUP_CHECK(s.version == SLAB_STATS_VERSION && s.node == node, "what it is of");
    return s;
}

/* All of the allocator's committed memory is of some node. */
static void check_sums(SlabAllocator *a) {
    sup_check_identities(a);
    SUP_CHECK(stats_of(a, 0).committed_bytes + stats_of(a, 1).committed_bytes == sup_committed_bytes(a),
              "%zu and %zu of %zu", (size_t)stats_of(a, 0).committed_bytes, (size_t)stats_of(a, 1).committed_bytes,
              (size_t)sup_committed_bytes(a));
}

/* Small objects, large ones and spans, in churn and scope: all on the node. */
static void allocate_all_kinds(SlabAllocator *a, EpochId epoch, int node, void **out, unsigned count) {
    static const size_t sizes[] = {16, 64, 200, 1000, 4000, 9000, 20000, 60000, 300000, 5000000};
    for (unsigned i = 0; i < count; i++) {
        size_t size = sizes[i % (sizeof sizes / sizeof *sizes)];
        out[i] = slab_malloc_epoch(a, size, epoch);
        SUP_CHECK(out[i] != NULL, "object %u: errno %d", i, errno);
        memset(out[i], 1, size);
        SUP_CHECK(node_of(out[i]) == node && node_of((char *)out[i] + size - 1) == node,
                  "object %u of %zu bytes is of node %d, not %d", i, size, node_of(out[i]), node);
    }
}

static void local_child(void *arg) {
    (void)arg;
    sup_topology_use(&two);
    SlabAllocator *a = make(SLAB_NUMA_LOCAL);
    static void *p[400], *q[400];
    for (unsigned flags = 0; flags < 2; flags++) {
        EpochId epoch = epoch_open(a, NULL, flags ? EPOCH_SCOPE : EPOCH_CHURN);
        sup_topology_go_to(0);
        allocate_all_kinds(a, epoch, 0, p, 100);
        /* A thread goes on with the slab that it has begun: so one epoch for each. */
        EpochId other = epoch_open(a, NULL, flags ? EPOCH_SCOPE : EPOCH_CHURN);
        sup_topology_go_to(1);
        allocate_all_kinds(a, other, 1, q, 400);
        check_sums(a);
        SUP_CHECK(stats_of(a, 1).committed_bytes > stats_of(a, 0).committed_bytes && stats_of(a, 0).committed_bytes > 0,
                  "four times as much");
        SUP_CHECK(epoch_destroy(a, other) && epoch_destroy(a, epoch), "both end");
        check_sums(a);
    }
    (void)slab_trim(a);
    check_sums(a);
    SUP_CHECK(stats_of(a, 1).committed_bytes == 0 && stats_of(a, 0).committed_bytes == 0, "all went back");
    slab_allocator_free(a);
    ts_pool_check();
    SUP_CHECK(ts_pool_used_units() == 0, "to the pools");
}
SUP_IN_CHILD(local)

/* A thread that comes to another node does not allocate there from its retained memory; that serves the threads of its
   own node. */
static void wanders_child(void *arg) {
    (void)arg;
    sup_topology_use(&two);
    SlabAllocator *a = make(SLAB_NUMA_LOCAL);
    static void *p[2000];
    uint64_t committed = 0;
    for (unsigned round = 0; round < 20; round++) {
        int node = (int)(round % 2);
        sup_topology_go_to(node);
        EpochDomain *d = epoch_domain_create(a);
        SUP_CHECK(epoch_domain_enter(d), "enter");
        for (unsigned i = 0; i < 2000; i++) {
            p[i] = slab_alloc(1000);
            SUP_CHECK(p[i] != NULL && node_of(p[i]) == node, "round %u: object %u is of node %d", round, i,
                      node_of(p[i]));
        }
        SUP_CHECK(epoch_domain_exit(d), "exit");
        epoch_domain_destroy(d);
        check_sums(a);
        if (round == 5) committed = sup_committed_bytes(a);
        if (round > 5) SUP_CHECK(sup_committed_bytes(a) <= committed, "what is retained is used again");
    }
    slab_allocator_free(a);
    ts_pool_check();
}
SUP_IN_CHILD(wanders)

typedef struct freer {
    SlabAllocator *a;
    void **p;
    unsigned count;
    int node;
} freer;

static void *frees(void *arg) {
    const freer *f = arg;
    sup_topology_go_to(f->node);
    for (unsigned i = 0; i < f->count; i++) SUP_CHECK(slab_free(f->a, f->p[i]), "free %u", i);
    return NULL;
}

/* Freed by a thread of another node, in memory of its own epoch or not: the units are its node's again. */
static void goes_home_child(void *arg) {
    (void)arg;
    static void *p[3000];
    sup_topology_use(&two);
    SlabAllocator *a = make(SLAB_NUMA_LOCAL);
    EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
    sup_topology_go_to(1);
    for (unsigned i = 0; i < 3000; i++) {
        p[i] = slab_malloc_epoch(a, i % 2 ? 500 : 30000, epoch);
        SUP_CHECK(p[i] != NULL && node_of(p[i]) == 1, "on node 1");
    }
    uint64_t committed = stats_of(a, 1).committed_bytes;
    freer f = {a, p, 3000, 0};
    sup_in_thread(frees, &f);
    SUP_CHECK(epoch_close(a, epoch) && sup_live_objects(a) == 0, "all is freed");
    check_sums(a);
    SUP_CHECK(stats_of(a, 1).committed_bytes <= committed, "nothing was taken");
    SUP_CHECK(stats_of(a, 1).remote_frees_total == 3000 && stats_of(a, 0).remote_frees_total == 0, "%zu remote frees",
              (size_t)stats_of(a, 1).remote_frees_total);
    /* A thread on node 0 gets none of it, one on node 1 all. */
    EpochId next = epoch_open(a, NULL, EPOCH_CHURN);
    sup_topology_go_to(0);
    for (unsigned i = 0; i < 100; i++) {
        void *q = slab_malloc_epoch(a, 500, next);
        SUP_CHECK(q != NULL && node_of(q) == 0, "on node 0");
    }
    SUP_CHECK(epoch_destroy(a, next), "ends");
    check_sums(a);
    slab_allocator_free(a);
    ts_pool_check();
    SUP_CHECK(ts_pool_used_units() == 0, "to the pools");
}
SUP_IN_CHILD(goes_home)

/* A span of a retained run and of free units behind it, where the run begins a node's memory: it has both, and no other
   span gets them. */
static void row_from_the_edge_child(void *arg) {
    (void)arg;
    sup_topology_use(&two);
    const SlabOptions options = {.size = sizeof options, .numa = SLAB_NUMA_LOCAL, .retain_bytes = 400 * UNIT};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    SUP_CHECK(a != NULL, "an allocator");
    for (int node = 0; node < 2; node++) {
        EpochId epoch = epoch_open(a, NULL, EPOCH_SCOPE);
        sup_topology_go_to(node);
        char *run = slab_malloc_epoch(a, 40 * UNIT, epoch);
        SUP_CHECK(run && node_of(run) == node && node_of(run - 1) != node, "the first units of node %d", node);
        SUP_CHECK(slab_free(a, run), "they are retained");
        char *row = slab_malloc_epoch(a, 60 * UNIT, epoch), *next = slab_malloc_epoch(a, 40 * UNIT, epoch);
        SUP_CHECK(row == run && node_of(row + 60 * UNIT - 1) == node, "the run, and what is behind it");
        SUP_CHECK(next && (next + 40 * UNIT <= row || next >= row + 60 * UNIT), "node %d: other memory", node);
        check_sums(a);
    }
    slab_allocator_free(a);
    ts_pool_check();
    SUP_CHECK(ts_pool_used_units() == 0, "to the pools");
}
SUP_IN_CHILD(row_from_the_edge)

static void interleave_child(void *arg) {
    (void)arg;
    static void *p[100];
    sup_topology_use(&two);
    SlabAllocator *a = make(SLAB_NUMA_INTERLEAVE);
    EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
    unsigned heres = sup_topology_heres();
    allocate_all_kinds(a, epoch, -2, p, 100);
    SUP_CHECK(sup_topology_heres() == heres, "nobody asks where he is");
    SlabNodeStats s0 = stats_of(a, 0), s1 = stats_of(a, 1);
    SUP_CHECK(s0.committed_bytes == s1.committed_bytes && s0.committed_bytes > 0, "half each");
    SUP_CHECK(s0.foreign_bytes == 0 && s1.foreign_bytes == 0, "it was asked for from all");
    uint64_t both = s0.resident_bytes + s1.resident_bytes, apart = s0.resident_bytes > s1.resident_bytes
                                                                       ? s0.resident_bytes - s1.resident_bytes
                                                                       : s1.resident_bytes - s0.resident_bytes;
    SUP_CHECK(apart < both / 50, "%zu and %zu resident", (size_t)s0.resident_bytes, (size_t)s1.resident_bytes);
    slab_allocator_free(a);
    ts_pool_check();
}
SUP_IN_CHILD(interleave)

/* One node, or none that is known: nothing is asked, bound or counted, and all is as without the option. */
static void same_without(const sup_topology *machine) {
    static void *p[100];
    sup_topology_use(machine);
    for (int numa = SLAB_NUMA_OFF; numa <= SLAB_NUMA_INTERLEAVE; numa++) {
        SlabAllocator *a = make(numa);
        EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
        allocate_all_kinds(a, epoch, -1, p, 100);
        SUP_CHECK(ts_nodes_of(ts_allocator_find(ts_token(a))) == NULL, "no record");
        sup_check_identities(a);
        slab_allocator_free(a);
    }
    SUP_CHECK(sup_topology_heres() == 0 && sup_topology_binds() == 0, "nothing was asked for");
    ts_pool_check();
}
static void one_node_child(void *arg) {
    (void)arg;
    const sup_topology machine = {.nodes = {2}, .count = 1, .full = -1};
    same_without(&machine);
}
SUP_IN_CHILD(one_node)
static void refused_child(void *arg) {
    (void)arg;
    const sup_topology machine = {.nodes = {0, 1}, .count = 2, .refuse_nodes = true, .full = -1};
    same_without(&machine);
}
SUP_IN_CHILD(refused)

/* Every one of the other calls refused: the same allocations. */
static void all_but_nodes_refused_child(void *arg) {
    (void)arg;
    static void *p[100];
    const sup_topology machine = {
        .nodes = {0, 1}, .count = 2, .refuse_bind = true, .refuse_here = true, .refuse_where = true, .full = -1};
    sup_topology_use(&machine);
    for (int numa = SLAB_NUMA_LOCAL; numa <= SLAB_NUMA_INTERLEAVE; numa++) {
        SlabAllocator *a = make(numa);
        EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
        allocate_all_kinds(a, epoch, -1, p, 100);
        errno = 0;
        SUP_CHECK(!epoch_bind(a, epoch, 1) && errno == ENOTSUP, "memory cannot be placed");
        SUP_CHECK(epoch_bind(a, epoch, -1), "anywhere is where it is");
        SlabNodeStats s;
        SUP_CHECK(slab_stats_node(a, 1, &s) && s.resident_bytes == 0 && s.foreign_bytes == 0,
                  "nobody says where it is");
        sup_check_identities(a);
        slab_allocator_free(a);
    }
    ts_pool_check();
}
SUP_IN_CHILD(all_but_nodes_refused)

/* Ids with gaps, a node with processors and no memory, one with memory and no processors, one that is full. */
static void uneven_child(void *arg) {
    (void)arg;
    static void *p[50];
    const sup_topology machine = {.nodes = {0, 3, 9}, .count = 3, .nearest = 3, .full = 9};
    sup_topology_use(&machine);
    SlabAllocator *a = make(SLAB_NUMA_LOCAL);
    EpochId here = epoch_open(a, NULL, EPOCH_CHURN), far = epoch_open(a, NULL, EPOCH_CHURN);
    sup_topology_go_to(1); /* no memory there: it comes from 3 */
    allocate_all_kinds(a, here, 3, p, 50);
    SUP_CHECK(epoch_bind(a, far, 9), "bound to a node on which no thread runs");
    allocate_all_kinds(a, far, 9, p, 50);
    SlabNodeStats s3 = stats_of(a, 3), s9 = stats_of(a, 9), s0 = stats_of(a, 0);
    SUP_CHECK(s0.committed_bytes == 0 && s0.resident_bytes == 0, "nothing on 0");
    SUP_CHECK(s9.committed_bytes > 0 && s9.resident_bytes == 0 && s9.foreign_bytes > s9.committed_bytes / 4,
              "9 is full, so it lies elsewhere");
    SUP_CHECK(s3.resident_bytes > s9.foreign_bytes && s3.foreign_bytes == 0, "on 3");
    SlabNodeStats none;
    errno = 0;
    SUP_CHECK(!slab_stats_node(a, 1, &none) && errno == EINVAL, "a node without memory has no figures");
    SUP_CHECK(!epoch_bind(a, far, 1) && errno == EINVAL, "nor can anything be bound to it");
    slab_allocator_free(a);
    ts_pool_check();
}
SUP_IN_CHILD(uneven)

/* ---- bound epochs -------------------------------------------------------------------------------- */

static void bind_child(void *arg) {
    (void)arg;
    static void *p[100], *q[100];
    sup_topology_use(&two);
    for (int numa = SLAB_NUMA_OFF; numa <= SLAB_NUMA_INTERLEAVE; numa++) {
        SlabAllocator *a = make(numa);
        int usual = numa == SLAB_NUMA_OFF ? -1 : numa == SLAB_NUMA_LOCAL ? 0 : -2;
        sup_topology_go_to(0);
        for (unsigned scope = 0; scope < 2; scope++) {
            EpochId far = epoch_open(a, NULL, scope ? EPOCH_SCOPE : EPOCH_CHURN),
                    near = epoch_open(a, NULL, scope ? EPOCH_SCOPE : EPOCH_CHURN);
            SUP_CHECK(epoch_bind(a, far, 1), "bound: errno %d", errno);
            allocate_all_kinds(a, far, 1, p, 100);
            if (usual != -1) allocate_all_kinds(a, near, usual, q, 100);
            sup_check_identities(a);
            SUP_CHECK(stats_of(a, 1).committed_bytes > 0, "counted");
            /* Memory that is freed there is bound again; unbound memory follows the option. */
            for (unsigned i = 0; i < 100; i++) SUP_CHECK(slab_free(a, p[i]), "free");
            allocate_all_kinds(a, far, 1, p, 100);
            SUP_CHECK(epoch_bind(a, far, -1) && epoch_bind(a, near, -1), "as before");
            EpochId after = epoch_open(a, NULL, EPOCH_CHURN);
            SUP_CHECK(epoch_bind(a, after, 0) && epoch_bind(a, after, 1), "again");
            allocate_all_kinds(a, after, 1, q, 50);
            SUP_CHECK(epoch_destroy(a, far) && epoch_destroy(a, near) && epoch_destroy(a, after), "they end");
            sup_check_identities(a);
        }
        slab_allocator_free(a);
        ts_pool_check();
        SUP_CHECK(ts_pool_used_units() == 0, "to the pools");
    }
}
SUP_IN_CHILD(bind)

static void bind_wrongly_child(void *arg) {
    (void)arg;
    sup_topology_use(&two);
    SlabAllocator *a = make(SLAB_NUMA_OFF), *other = make(SLAB_NUMA_OFF);
    EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN), closed = epoch_open(a, NULL, EPOCH_CHURN);
    void *keeps = slab_malloc_epoch(a, 1, closed);
    SUP_CHECK(keeps && epoch_close(a, closed), "a closed epoch that drains");
    const struct {
        SlabAllocator *a;
        EpochId epoch;
        int node;
    } wrong[] = {{NULL, epoch, 0}, {other, epoch, 0},   {a, EPOCH_NONE, 0}, {a, closed, 0},       {a, closed, -1},
                 {a, epoch, 2},    {a, epoch, 1000000}, {a, epoch, -2},     {a, epoch, INT32_MIN}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        errno = 0;
        SUP_CHECK(!epoch_bind(wrong[i].a, wrong[i].epoch, wrong[i].node) && errno == EINVAL, "call %zu: errno %d", i,
                  errno);
    }
    SlabNodeStats s;
    SUP_CHECK(!slab_stats_node(NULL, 0, &s) && errno == EINVAL && !slab_stats_node(a, 0, NULL) && errno == EINVAL,
              "statistics of nothing");
    errno = 7;
    SUP_CHECK(epoch_bind(a, epoch, 1) && errno == 7, "a good one leaves errno alone");
    slab_allocator_free(other);
    slab_allocator_free(a);
}
SUP_IN_CHILD(bind_wrongly)

/* A limit, a budget and a trim hold for bound memory as for any. */
static void bind_within_limits_child(void *arg) {
    (void)arg;
    sup_topology_use(&two);
    SlabAllocator *a = make(SLAB_NUMA_LOCAL);
    EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
    SUP_CHECK(epoch_bind(a, epoch, 1) && epoch_set_limit(a, epoch, 10 * UNIT), "bound and limited");
    unsigned n = 0;
    while (slab_malloc_epoch(a, 1000, epoch)) n++;
    SUP_CHECK(errno == ENOMEM && n >= 150 && n <= 170, "%u objects", n);
    SUP_CHECK(stats_of(a, 1).committed_bytes >= 10 * UNIT && stats_of(a, 0).committed_bytes == 0, "on the node");
    SUP_CHECK(epoch_set_limit(a, epoch, 0) && slab_set_budget(a, 40 * UNIT), "a budget");
    while (slab_malloc_epoch(a, 1000, epoch)) n++;
    SUP_CHECK(errno == ENOMEM && sup_committed_bytes(a) <= 40 * UNIT, "%u objects", n);
    /* Retained memory of another node makes room. */
    SUP_CHECK(epoch_destroy(a, epoch), "ends");
    sup_topology_go_to(0);
    epoch = epoch_open(a, NULL, EPOCH_CHURN);
    for (n = 0; slab_malloc_epoch(a, 1000, epoch);) n++;
    SUP_CHECK(n >= 39 * 16, "%u objects", n);
    check_sums(a);
    slab_allocator_free(a);
}
SUP_IN_CHILD(bind_within_limits)

static void reserve_child(void *arg) {
    (void)arg;
    sup_topology_use(&two);
    SlabAllocator *a = make(SLAB_NUMA_LOCAL);
    sup_topology_go_to(1);
    SUP_CHECK(slab_reserve(a, 100 * UNIT), "reserve");
    SlabNodeStats s = stats_of(a, 1);
    SUP_CHECK(s.committed_bytes == 100 * UNIT, "on the node of who asks");
    SUP_CHECK(SUP_EMULATED || s.resident_bytes == 100 * UNIT, "populated"); /* qemu answers so, and does not */
    EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
    for (unsigned i = 0; i < 90; i++) SUP_CHECK(slab_malloc_epoch(a, 16000, epoch), "object");
    SUP_CHECK(stats_of(a, 1).committed_bytes == 100 * UNIT, "and it is used");
    slab_allocator_free(a);
}
SUP_IN_CHILD(reserve)

/* ---- threads ------------------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS 200
static SlabAllocator *shared;
static void *handed[THREADS][64];

static void *works(void *arg) {
    unsigned me = (unsigned)(size_t)arg;
    unsigned random = me * 7919 + 1;
    for (unsigned round = 0; round < SUP_SCALED(ROUNDS); round++) {
        random = random * 1664525 + 1013904223;
        int node = (int)(random >> 16 & 1);
        sup_topology_go_to(node);
        EpochId epoch = epoch_open(shared, NULL, round % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        if (round % 7 == 0) SUP_CHECK(epoch_bind(shared, epoch, node = 1 - node), "bind");
        for (unsigned i = 0; i < 64; i++) {
            size_t size = (random >> (i % 16)) % 40000 + 1;
            void *p = slab_malloc_epoch(shared, size, epoch);
            SUP_CHECK(p != NULL && node_of(p) == node, "round %u: on node %d", round, p ? node_of(p) : -9);
            memset(p, (int)i, size);
            void **slot = &handed[(me + 1) % THREADS][i], *before = __atomic_exchange_n(slot, p, __ATOMIC_ACQ_REL);
            if (before) (void)slab_free(shared, before); /* of an epoch that has ended perhaps */
        }
        if (round % 3)
            (void)epoch_destroy(shared, epoch);
        else
            (void)epoch_close(shared, epoch);
        if (round % 16 == 0) (void)slab_trim(shared);
    }
    return NULL;
}

static void threads_child(void *arg) {
    (void)arg;
    sup_topology_use(&two);
    shared = make(SLAB_NUMA_LOCAL);
    pthread_t thread[THREADS];
    for (size_t i = 0; i < THREADS; i++) SUP_CHECK(pthread_create(&thread[i], NULL, works, (void *)i) == 0, "thread");
    for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    check_sums(shared);
    slab_allocator_free(shared);
    ts_pool_check();
    SUP_CHECK(ts_pool_used_units() == 0, "to the pools");
}
SUP_IN_CHILD(threads)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local),        cmocka_unit_test(wanders),
        cmocka_unit_test(goes_home),    cmocka_unit_test(row_from_the_edge),
        cmocka_unit_test(interleave),   cmocka_unit_test(one_node),
        cmocka_unit_test(refused),      cmocka_unit_test(all_but_nodes_refused),
        cmocka_unit_test(uneven),       cmocka_unit_test(bind),
        cmocka_unit_test(bind_wrongly), cmocka_unit_test(bind_within_limits),
        cmocka_unit_test(reserve),      cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
