/*
 * Where the kernel really puts memory: on a machine with several NUMA nodes (tests/vm makes some) at least 99 of 100
 * pages of a thread's objects lie on its node, also when memory was freed by threads of other nodes before. Skipped
 * where there is one node.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "in_child.h"
#include "proc.h"
#include "unit.h"

#include "os/os.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__) && defined(CPU_SETSIZE)

#define MIB ((size_t)1 << 20)
#define NODES_MOST 16u
#define CPUS_MOST 64
#define OBJECTS 6000u /* some 12 MiB */
#define SHARE_PERCENT 99.0

static int nodes[NODES_MOST];
static unsigned node_count;
static struct { int cpu, node; /* the node may have no memory */ } cpus[CPUS_MOST];
static unsigned cpu_count;

static bool go_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

static bool has_memory(int node) {
    for (unsigned i = 0; i < node_count; i++)
        if (nodes[i] == node) return true;
    return false;
}

static void look_at_machine(void) {
    node_count = ts_os_native.nodes(nodes, NODES_MOST);
    if (node_count > NODES_MOST) node_count = NODES_MOST;
    for (int cpu = 0; cpu < CPUS_MOST; cpu++) {
        if (!go_to(cpu)) continue;
        cpus[cpu_count].cpu = cpu;
        cpus[cpu_count++].node = ts_os_native.node_here();
    }
}

static size_t size_of(unsigned i) { return (size_t)(i * 2654435761u >> 20) % 4000 + 16; }

static void fill(SlabAllocator *a, EpochId epoch, void **p) {
    for (unsigned i = 0; i < OBJECTS; i++) {
        p[i] = slab_malloc_epoch(a, size_of(i), epoch);
        SUP_CHECK(p[i] != NULL, "object %u: errno %d", i, errno);
        memset(p[i], 1, size_of(i));
    }
}

/* Of the pages in which the objects begin, those on the node, in percent. */
static double share(void **p, int node) {
    static int where[OBJECTS];
    unsigned on = 0, there = 0;
    SUP_CHECK(ts_os_native.nodes_of(p, OBJECTS, where), "move_pages");
    for (unsigned i = 0; i < OBJECTS; i++) {
        there += where[i] >= 0;
        on += where[i] == node;
    }
    SUP_CHECK(there == OBJECTS, "%u of %u pages are resident", there, OBJECTS);
    return 100.0 * on / there;
}

static void expect(const char *what, void **p, int node) {
    double percent = share(p, node);
    printf("%-44s node %d: %6.2f %%\n", what, node, percent);
    (void)fflush(stdout);
    SUP_CHECK(percent >= SHARE_PERCENT, "%s: %.2f %% on node %d", what, percent, node);
}

static SlabAllocator *make(int numa, int huge) {
    const SlabOptions options = {.size = sizeof options, .numa = numa, .huge_pages = huge};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    SUP_CHECK(a != NULL, "an allocator");
    return a;
}

static void *p[NODES_MOST][OBJECTS];

/* ---- local --------------------------------------------------------------------------------------- */

typedef struct worker {
    SlabAllocator *a;
    unsigned cpu, frees; /* indices: of cpus; whose objects it frees */
} worker;

static void *works(void *arg) {
    const worker *w = arg;
    SUP_CHECK(go_to(cpus[w->cpu].cpu), "processor");
    for (unsigned i = 0; i < OBJECTS; i++) SUP_CHECK(slab_free(w->a, p[w->frees][i]), "free");
    slab_thread_idle();
    return NULL;
}

/* Each thread's memory is freed by the next one, of another node; then all allocate again. */
static void local_with(int huge) {
    SlabAllocator *a = make(SLAB_NUMA_LOCAL, huge);
    for (unsigned round = 0; round < 4; round++) {
        unsigned used = 0, of[NODES_MOST];
        EpochId epoch[NODES_MOST];
        for (unsigned i = 0; i < cpu_count && used < NODES_MOST; i++) {
            if (!has_memory(cpus[i].node)) continue;
            SUP_CHECK(go_to(cpus[i].cpu), "processor");
            epoch[used] = epoch_open(a, NULL, round % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
            fill(a, epoch[used], p[used]);
            expect(huge    ? "local, huge pages"
                   : round ? "local, after frees from other nodes"
                           : "local",
                   p[used], cpus[i].node);
            of[used++] = i;
        }
        for (unsigned i = 0; i < used; i++) {
            worker w = {a, of[(i + 1) % used], i};
            sup_in_thread(works, &w);
        }
        slab_thread_idle(); /* takes in frees of others */
        uint64_t remote = 0, committed = 0;
        for (unsigned n = 0; n < node_count; n++) {
            SlabNodeStats s;
            SUP_CHECK(slab_stats_node(a, nodes[n], &s), "slab_stats_node");
            SUP_CHECK(s.foreign_bytes <= s.committed_bytes / 100, "node %d: %zu of %zu bytes are elsewhere", nodes[n],
                      (size_t)s.foreign_bytes, (size_t)s.committed_bytes);
            remote += s.remote_frees_total;
            committed += s.committed_bytes;
        }
        SUP_CHECK(used < 2 || cpus[of[0]].node == cpus[of[1]].node || remote > 0, "frees of other nodes are counted");
        SUP_CHECK(committed == sup_committed_bytes(a), "%zu of %zu bytes are of nodes", (size_t)committed,
                  (size_t)sup_committed_bytes(a));
        for (unsigned i = 0; i < used; i++) SUP_CHECK(epoch_destroy(a, epoch[i]), "epoch_destroy");
        sup_check_identities(a);
    }
    slab_allocator_free(a);
}

static void local_child(void *arg) {
    (void)arg;
    local_with(SLAB_HUGE_DEFAULT);
}
static void huge_child(void *arg) {
    (void)arg;
    local_with(SLAB_HUGE_ON);
}

/* A thread that goes from node to node. */
static void wanders_child(void *arg) {
    (void)arg;
    SlabAllocator *a = make(SLAB_NUMA_LOCAL, SLAB_HUGE_DEFAULT);
    for (unsigned i = 0; i < 4 * cpu_count; i++) {
        if (!has_memory(cpus[i % cpu_count].node)) continue;
        SUP_CHECK(go_to(cpus[i % cpu_count].cpu), "processor");
        EpochDomain *d = epoch_domain_create(a);
        fill(a, epoch_domain_epoch(d), p[0]);
        expect("local, a thread that moves", p[0], cpus[i % cpu_count].node);
        epoch_domain_destroy(d);
    }
    slab_allocator_free(a);
}

/* A processor whose node has no memory: somewhere it is, and no call fails. */
static void without_memory_child(void *arg) {
    (void)arg;
    SlabAllocator *a = make(SLAB_NUMA_LOCAL, SLAB_HUGE_DEFAULT);
    for (unsigned i = 0; i < cpu_count; i++) {
        if (has_memory(cpus[i].node)) continue;
        SUP_CHECK(go_to(cpus[i].cpu), "processor");
        EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
        errno = 0;
        SUP_CHECK(!epoch_bind(a, epoch, cpus[i].node) && errno == EINVAL, "bound to a node without memory");
        fill(a, epoch, p[0]);
        double best = 0;
        for (unsigned n = 0; n < node_count; n++) best = share(p[0], nodes[n]) > best ? share(p[0], nodes[n]) : best;
        printf("%-44s node %d: %6.2f %% on one other\n", "local, a node without memory", cpus[i].node, best);
        SUP_CHECK(best >= SHARE_PERCENT, "its memory is of several nodes");
    }
    slab_allocator_free(a);
}

/* ---- bound, spread ------------------------------------------------------------------------------- */

static void bind_child(void *arg) {
    (void)arg;
    for (int numa = SLAB_NUMA_OFF; numa <= SLAB_NUMA_INTERLEAVE; numa++) {
        SlabAllocator *a = make(numa, SLAB_HUGE_DEFAULT);
        for (unsigned round = 0; round < 2; round++) {
            EpochId epoch[NODES_MOST];
            for (unsigned n = 0; n < node_count; n++) {
                epoch[n] = epoch_open(a, NULL, round ? EPOCH_SCOPE : EPOCH_CHURN);
                SUP_CHECK(epoch_bind(a, epoch[n], nodes[n]), "epoch_bind: errno %d", errno);
                fill(a, epoch[n], p[n]);
            }
            for (unsigned n = 0; n < node_count; n++) {
                expect(numa == SLAB_NUMA_OFF ? "epoch_bind" : "epoch_bind beside an option", p[n], nodes[n]);
                SUP_CHECK(epoch_destroy(a, epoch[n]), "epoch_destroy");
            }
        }
        slab_allocator_free(a);
    }
}

static void interleave_child(void *arg) {
    (void)arg;
    SlabAllocator *a = make(SLAB_NUMA_INTERLEAVE, SLAB_HUGE_DEFAULT);
    fill(a, epoch_open(a, NULL, EPOCH_CHURN), p[0]);
    /* Of all pages: objects begin in the first page of a slab more often than in others. */
    uint64_t on[NODES_MOST], sum = 0;
    for (unsigned n = 0; n < node_count; n++) {
        SlabNodeStats s;
        SUP_CHECK(slab_stats_node(a, nodes[n], &s), "slab_stats_node");
        sum += on[n] = s.resident_bytes;
    }
    for (unsigned n = 0; n < node_count; n++) {
        double percent = 100.0 * (double)on[n] / (double)sum;
        printf("%-44s node %d: %6.2f %%\n", "interleave", nodes[n], percent);
        SUP_CHECK(percent > 80.0 / node_count && percent < 120.0 / node_count, "%.2f %% on node %d", percent, nodes[n]);
    }
    slab_allocator_free(a);
}

/* The purpose of the option: without it retained memory goes from node to node. Shown, and not asked for. */
static void off_child(void *arg) {
    (void)arg;
    SlabAllocator *a = make(SLAB_NUMA_OFF, SLAB_HUGE_DEFAULT);
    for (unsigned i = 0; i < cpu_count; i++) {
        SUP_CHECK(go_to(cpus[i].cpu), "processor");
        EpochDomain *d = epoch_domain_create(a);
        fill(a, epoch_domain_epoch(d), p[0]);
        printf("%-44s node %d: %6.2f %%\n", "off, a thread that moves", cpus[i].node, share(p[0], cpus[i].node));
        epoch_domain_destroy(d);
    }
    slab_allocator_free(a);
}

#define IN_CHILD(name)                                                \
    static void name(void **state) {                                  \
        (void)state;                                                  \
        sup_in_child_for(name##_child, NULL, 10 * SUP_CHILD_SECONDS); \
    }
IN_CHILD(local)
IN_CHILD(huge)
IN_CHILD(wanders)
IN_CHILD(without_memory)
IN_CHILD(bind)
IN_CHILD(interleave)
IN_CHILD(off)

int main(void) {
    look_at_machine();
    printf("%u nodes with memory, %u processors\n", node_count, cpu_count);
    if (node_count < 2 || SUP_EMULATED) {
        printf("placement: skipped: one node, or none that the system tells of\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local),   cmocka_unit_test(huge),
        cmocka_unit_test(wanders), cmocka_unit_test(without_memory),
        cmocka_unit_test(bind),    cmocka_unit_test(interleave),
        cmocka_unit_test(off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) { return 77; }

#endif
