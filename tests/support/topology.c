#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "topology.h"

#include "check.h"

#include "os/os.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#define BOUND_MOST 65536u

typedef struct bound {
    uintptr_t from, end;
    int node;
} bound;

static sup_topology now;
static ts_os_table table;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bound bounds[BOUND_MOST]; /* guarded by mutex, as the next; the newest last */
static unsigned bound_count;
static atomic_uint here_calls;
static _Thread_local int here = -1;

static unsigned fake_nodes(int *ids, unsigned most) {
    if (now.refuse_nodes) return 0;
    for (unsigned i = 0; i < now.count && i < most; i++) ids[i] = now.nodes[i];
    return now.count;
}

static int fake_here(void) {
    atomic_fetch_add(&here_calls, 1);
    return now.refuse_here ? -1 : here >= 0 ? here : now.nodes[0];
}

static bool fake_bind(void *at, size_t bytes, int node) {
    if (now.refuse_bind) return false;
    pthread_mutex_lock(&mutex);
    SUP_CHECK(bound_count < BOUND_MOST, "more ranges bound than there is room for");
    bounds[bound_count++] = (bound){(uintptr_t)at, (uintptr_t)at + bytes, node};
    pthread_mutex_unlock(&mutex);
    return true;
}

int sup_topology_bound(const void *at) {
    int node = TS_NODE_ANY;
    pthread_mutex_lock(&mutex);
    for (unsigned i = bound_count; i-- > 0;) {
        if ((uintptr_t)at < bounds[i].from || (uintptr_t)at >= bounds[i].end) continue;
        node = bounds[i].node;
        break;
    }
    pthread_mutex_unlock(&mutex);
    return node;
}

/* The next reservation there is bound to nothing. */
static void fake_release(void *at, size_t bytes) {
    ts_os_native.release(at, bytes);
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < bound_count; i++)
        if (bounds[i].from >= (uintptr_t)at && bounds[i].end <= (uintptr_t)at + bytes) bounds[i].end = bounds[i].from;
    pthread_mutex_unlock(&mutex);
}

static bool has_memory(int node) {
    for (unsigned i = 0; i < now.count; i++)
        if (now.nodes[i] == node) return true;
    return false;
}

static int node_of(void *at) {
    unsigned char resident = 0;
    size_t page = ts_os_native.page_bytes();
    if (mincore(at, page, &resident) != 0 || !(resident & 1)) return -1;
    int node = sup_topology_bound(at);
    if (node == TS_NODE_EACH) return now.nodes[(uintptr_t)at / page % now.count];
    if (node == TS_NODE_ANY) node = here >= 0 ? here : now.nodes[0];
    return has_memory(node) && node != now.full ? node : now.nearest;
}

static bool fake_nodes_of(void *const *at, size_t count, int *node) {
    if (now.refuse_where) return false;
    for (size_t i = 0; i < count; i++) node[i] = node_of(at[i]);
    return true;
}

void sup_topology_use(const sup_topology *topology) {
    now = *topology;
    bound_count = 0;
    table = ts_os_native;
    table.nodes = fake_nodes;
    table.node_here = fake_here;
    table.bind = fake_bind;
    table.release = fake_release;
    table.nodes_of = fake_nodes_of;
    ts_os = &table;
}

sup_topology *sup_topology_now(void) { return &now; }
void sup_topology_go_to(int node) { here = node; }
unsigned sup_topology_heres(void) { return atomic_load(&here_calls); }

unsigned sup_topology_binds(void) {
    pthread_mutex_lock(&mutex);
    unsigned count = bound_count;
    pthread_mutex_unlock(&mutex);
    return count;
}
