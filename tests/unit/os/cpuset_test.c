/*
 * In a cpuset with a part of the machine's nodes (tests/vm makes some) all memory lies on nodes of the set, with every
 * option and wherever the thread runs. A node outside is refused. With one node left nothing is asked of the system.
 * Which nodes are inside the tests read from /proc and /sys, not by the library's own call. Skipped where all are.
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

#include <tslab/stats.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__) && defined(CPU_SETSIZE)

#define NODES_MOST 16
#define CPUS_MOST 64
#define OBJECTS 3000u /* some 6 MiB */
#define SHARE_PERCENT 99.0

static int inside[NODES_MOST], outside[NODES_MOST]; /* nodes with memory, rising */
static unsigned inside_count, outside_count;
static struct { int cpu, node; } cpus[CPUS_MOST];
static unsigned cpu_count;

/* ---- the machine ------------------------------------------------------------------------------------------- */

/* "0,2-5", the rest of a line. */
static uint64_t list_of(const char *text) {
    uint64_t set = 0;
    while (*text >= '0' && *text <= '9') {
        char *end;
        unsigned long from = strtoul(text, &end, 10), to = from;
        if (*end == '-') to = strtoul(end + 1, &end, 10);
        for (unsigned long i = from; i <= to && i < 64; i++) set |= (uint64_t)1 << i;
        text = *end == ',' ? end + 1 : end;
    }
    return set;
}

/* Of the file's line that begins so. 0: there is none. */
static uint64_t list_in(const char *path, const char *begin) {
    char line[512];
    uint64_t set = 0;
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, begin, strlen(begin)) == 0) set = list_of(line + strlen(begin));
    (void)fclose(f);
    return set;
}

static bool go_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

static void look_at_machine(void) {
    uint64_t all = list_in("/sys/devices/system/node/has_memory", "");
    uint64_t set = list_in("/proc/self/status", "Mems_allowed_list:\t");
    for (int node = 0; node < 64; node++) {
        if (!(all >> node & 1)) continue;
        if (set >> node & 1 ? inside_count == NODES_MOST : outside_count == NODES_MOST) continue;
        if (set >> node & 1)
            inside[inside_count++] = node;
        else
            outside[outside_count++] = node;
    }
    for (int cpu = 0; cpu < CPUS_MOST; cpu++) {
        if (!go_to(cpu)) continue;
        cpus[cpu_count].cpu = cpu;
        cpus[cpu_count++].node = ts_os_native.node_here();
    }
}

static bool is_inside(int node) {
    for (unsigned i = 0; i < inside_count; i++)
        if (inside[i] == node) return true;
    return false;
}

/* ---- objects ------------------------------------------------------------------------------------------------ */

static void *p[OBJECTS];
static int where[OBJECTS];

static void fill(SlabAllocator *a, EpochId epoch) {
    for (unsigned i = 0; i < OBJECTS; i++) {
        size_t size = (size_t)(i * 2654435761u >> 20) % 4000 + 16;
        errno = 0;
        p[i] = slab_malloc_epoch(a, size, epoch);
        SUP_CHECK(p[i] != NULL, "object %u: errno %d", i, errno);
        memset(p[i], 1, size);
    }
    SUP_CHECK(ts_os_native.nodes_of(p, OBJECTS, where), "move_pages");
}

/* All pages lie inside; the part of them on the node, in percent. */
static double share(const char *what, int node) {
    unsigned on = 0;
    for (unsigned i = 0; i < OBJECTS; i++) {
        SUP_CHECK(is_inside(where[i]), "%s: object %u is on node %d", what, i, where[i]);
        on += where[i] == node;
    }
    return 100.0 * on / OBJECTS;
}

static void expect(const char *what, int node) {
    double percent = share(what, node);
    printf("%-44s node %d: %6.2f %%\n", what, node, percent);
    (void)fflush(stdout);
    SUP_CHECK(percent >= SHARE_PERCENT, "%s: %.2f %% on node %d", what, percent, node);
}

static SlabAllocator *make(int numa) {
    const SlabOptions options = {.size = sizeof options, .numa = numa};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    SUP_CHECK(a != NULL, "an allocator: errno %d", errno);
    return a;
}

/* ---- the calls that it takes -------------------------------------------------------------------------------- */

static ts_os_table table;
static unsigned binds, heres, wheres;
static bool counted_bind(void *at, size_t bytes, int node) {
    binds++;
    return ts_os_native.bind(at, bytes, node);
}
static int counted_here(void) {
    heres++;
    return ts_os_native.node_here();
}
static bool counted_nodes_of(void *const *at, size_t count, int *node) {
    wheres++;
    return ts_os_native.nodes_of(at, count, node);
}
static void count_calls(void) {
    table = ts_os_native;
    table.bind = counted_bind;
    table.node_here = counted_here;
    table.nodes_of = counted_nodes_of;
    ts_os = &table;
}

/* ---- tests ------------------------------------------------------------------------------------------------- */

static void nodes_child(void *arg) {
    int found[NODES_MOST];
    (void)arg;
    unsigned count = ts_os_native.nodes(found, NODES_MOST);
    SUP_CHECK(count == inside_count && memcmp(found, inside, count * sizeof *found) == 0, "%u nodes, not %u", count,
              inside_count);
}

/* On each processor, also of a node that may not be used. */
static void local_child(void *arg) {
    (void)arg;
    count_calls();
    SlabAllocator *a = make(SLAB_NUMA_LOCAL);
    for (unsigned i = 0; i < 2 * cpu_count; i++) {
        int node = cpus[i % cpu_count].node;
        SUP_CHECK(go_to(cpus[i % cpu_count].cpu), "processor");
        EpochId epoch = epoch_open(a, NULL, i < cpu_count ? EPOCH_CHURN : EPOCH_SCOPE);
        fill(a, epoch);
        if (is_inside(node))
            expect("in a cpuset, local", node);
        else
            expect("in a cpuset, local, a processor outside", where[0]);
        SUP_CHECK(epoch_destroy(a, epoch), "epoch_destroy");
        sup_check_identities(a);
    }
    slab_allocator_free(a);
    printf("local: %u, %u and %u calls of mbind, getcpu and move_pages\n", binds, heres, wheres);
    if (inside_count == 1) SUP_CHECK(binds + heres + wheres == 0, "calls are made for nothing");
    /* Where memory comes from for a processor outside is asked once for its node. */
    SUP_CHECK(wheres <= cpu_count, "%u calls of move_pages", wheres);
}

static void others_child(void *arg) {
    (void)arg;
    for (int numa = SLAB_NUMA_OFF; numa <= SLAB_NUMA_INTERLEAVE; numa++) {
        if (numa == SLAB_NUMA_LOCAL) continue;
        SlabAllocator *a = make(numa);
        for (unsigned i = 0; i < cpu_count; i++) {
            SUP_CHECK(go_to(cpus[i].cpu), "processor");
            EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
            fill(a, epoch);
            (void)share(numa == SLAB_NUMA_OFF ? "off" : "interleave", inside[0]);
        }
        uint64_t sum = 0, on[NODES_MOST];
        for (unsigned n = 0; n < inside_count; n++) {
            SlabNodeStats s;
            SUP_CHECK(slab_stats_node(a, inside[n], &s), "slab_stats_node: errno %d", errno);
            sum += on[n] = s.resident_bytes;
        }
        SUP_CHECK(sum > 0, "nothing is there");
        for (unsigned n = 0; n < inside_count && numa == SLAB_NUMA_INTERLEAVE; n++) {
            double percent = 100.0 * (double)on[n] / (double)sum;
            printf("%-44s node %d: %6.2f %%\n", "in a cpuset, interleave", inside[n], percent);
            SUP_CHECK(percent > 80.0 / inside_count && percent < 120.0 / inside_count, "%.2f %% on node %d", percent,
                      inside[n]);
        }
        slab_allocator_free(a);
    }
}

/* A node outside is no node of the process: refused, and the epoch goes on as it was. */
static void bound_child(void *arg) {
    (void)arg;
    for (int numa = SLAB_NUMA_OFF; numa <= SLAB_NUMA_INTERLEAVE; numa++) {
        SlabAllocator *a = make(numa);
        for (unsigned n = 0; n < outside_count; n++) {
            SlabNodeStats s;
            EpochId epoch = epoch_open(a, NULL, EPOCH_CHURN);
            errno = 0;
            SUP_CHECK(!epoch_bind(a, epoch, outside[n]) && errno == EINVAL, "node %d: errno %d", outside[n], errno);
            errno = 0;
            SUP_CHECK(!slab_stats_node(a, outside[n], &s) && errno == EINVAL, "node %d: errno %d", outside[n], errno);
            fill(a, epoch);
            (void)share("an epoch that could not be bound", inside[0]);
            SUP_CHECK(epoch_destroy(a, epoch), "epoch_destroy");
        }
        for (unsigned n = 0; n < inside_count; n++) {
            EpochId epoch = epoch_open(a, NULL, EPOCH_SCOPE);
            SUP_CHECK(epoch_bind(a, epoch, inside[n]), "node %d: errno %d", inside[n], errno);
            fill(a, epoch);
            expect("in a cpuset, epoch_bind", inside[n]);
            SUP_CHECK(epoch_destroy(a, epoch), "epoch_destroy");
        }
        sup_check_identities(a);
        slab_allocator_free(a);
    }
}

/* ---- a set that gets smaller while the process runs ------------------------------------------------------------- */

static void move_to(const char *group) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", group);
    FILE *f = fopen(path, "we");
    SUP_CHECK(f && fprintf(f, "%d\n", (int)getpid()) > 0 && fclose(f) == 0, "%s: errno %d", path, errno);
}

/* The nodes are numbered once. One that has left the set is like a full node: memory comes from those that are left,
   and the figures say so. */
static void smaller_child(void *arg) {
    const char *group = arg;
    move_to("/sys/fs/cgroup");
    int found[NODES_MOST];
    unsigned count = ts_os_native.nodes(found, NODES_MOST);
    SUP_CHECK(count == inside_count + outside_count, "%u nodes outside of the group", count);
    SlabAllocator *a[] = {make(SLAB_NUMA_OFF), make(SLAB_NUMA_LOCAL), make(SLAB_NUMA_INTERLEAVE)};
    EpochId before[3];
    for (unsigned i = 0; i < 3; i++) {
        before[i] = epoch_open(a[i], NULL, EPOCH_CHURN);
        SUP_CHECK(epoch_bind(a[i], before[i], outside[0]), "epoch_bind: errno %d", errno);
        for (unsigned k = 0; k < OBJECTS; k++) SUP_CHECK(slab_malloc_epoch(a[i], 500, before[i]), "errno %d", errno);
    }
    move_to(group);
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned c = 0; c < cpu_count; c++) {
            SUP_CHECK(go_to(cpus[c].cpu), "processor");
            EpochId epoch = epoch_open(a[i], NULL, EPOCH_CHURN);
            SUP_CHECK(c % 2 == 0 || epoch_bind(a[i], epoch, outside[0]), "epoch_bind: errno %d", errno);
            fill(a[i], epoch);
            /* Pages that were there before lie where the kernel has left or moved them. */
            SUP_CHECK(epoch_destroy(a[i], epoch), "epoch_destroy");
        }
        SUP_CHECK(epoch_destroy(a[i], before[i]), "epoch_destroy");
        (void)slab_trim(a[i]);
        EpochId fresh = epoch_open(a[i], NULL, EPOCH_CHURN);
        SUP_CHECK(epoch_bind(a[i], fresh, outside[0]), "epoch_bind: errno %d", errno);
        fill(a[i], fresh);
        (void)share("after the set got smaller", inside[0]);
        SlabNodeStats s;
        SUP_CHECK(slab_stats_node(a[i], outside[0], &s), "slab_stats_node: errno %d", errno);
        SUP_CHECK(s.committed_bytes > 0 && s.foreign_bytes >= s.committed_bytes / 2, "%zu of %zu bytes are elsewhere",
                  (size_t)s.foreign_bytes, (size_t)s.committed_bytes);
        sup_check_identities(a[i]);
        slab_allocator_free(a[i]);
    }
}

#define IN_CHILD(name)                                                \
    static void name(void **state) {                                  \
        (void)state;                                                  \
        sup_in_child_for(name##_child, NULL, 10 * SUP_CHILD_SECONDS); \
    }
IN_CHILD(nodes)
IN_CHILD(local)
IN_CHILD(others)
IN_CHILD(bound)

/* Needs the right to change one's group: SUP_CPUSET is the one that the test is in. */
static void smaller(void **state) {
    (void)state;
    char *group = getenv("SUP_CPUSET");
    if (group)
        sup_in_child_for(smaller_child, group, 10 * SUP_CHILD_SECONDS);
    else
        skip();
}

int main(void) {
    look_at_machine();
    printf("%u nodes inside of the set, %u outside, %u processors\n", inside_count, outside_count, cpu_count);
    if (inside_count == 0 || outside_count == 0 || SUP_EMULATED) {
        printf("cpuset: skipped: the process may use all nodes, or the system does not say\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes), cmocka_unit_test(local),   cmocka_unit_test(others),
        cmocka_unit_test(bound), cmocka_unit_test(smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) { return 77; }

#endif
