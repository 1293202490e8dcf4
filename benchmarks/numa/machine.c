#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "machine.h"

#include "os/os.h"
#include "region/region.h"
#include "topology.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define LINE 64u
#define CACHE_LINES 16384u /* 1 MiB, each line in one place */
#define VERSIONS (1u << 20)

typedef struct cached {
    uintptr_t line;
    uint32_t version; /* another: somebody has written to it since */
} cached;

static ts_os_table table, below;
static unsigned node_count;
static char *base;
static size_t pages;
static uint8_t *page_node; /* node + 1; 0: no memory */
static cached (*cache)[CACHE_LINES];
static uint32_t *version; /* by line; some have one in common, which makes misses of hits now and then */
static machine_counts counts;
static _Thread_local unsigned here, thread_number;

static void *map(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) abort();
    return at;
}

/* The number of the page; pages: it is none of the region's. */
static size_t page_of(const void *at) {
    size_t page = (size_t)((uintptr_t)at - (uintptr_t)base) / PAGE;
    return base && (const char *)at >= base && page < pages ? page : pages;
}

/* ---- calls of the allocator ---------------------------------------------------------------------------------- */

static void forget(void *at, size_t bytes) {
    size_t first = page_of(at), count = bytes / PAGE;
    if (first == pages) return;
    if (count > pages - first) count = pages - first;
    memset(page_node + first, 0, count);
}

static bool purge(void *at, size_t bytes) {
    if (!below.purge(at, bytes)) return false;
    forget(at, bytes);
    return true;
}
static bool purge_anew(void *at, size_t bytes) {
    if (!below.purge_anew(at, bytes)) return false;
    forget(at, bytes);
    return true;
}
static bool move(void *from, void *to, size_t bytes) {
    if (!below.move(from, to, bytes)) return false;
    size_t a = page_of(from), b = page_of(to);
    if (a != pages && b != pages) memcpy(page_node + b, page_node + a, bytes / PAGE);
    forget(from, bytes);
    return true;
}

void machine_use(unsigned nodes) {
    sup_topology topology = {.count = nodes, .full = -1};
    for (unsigned i = 0; i < nodes; i++) topology.nodes[i] = (int)i;
    node_count = nodes;
    sup_topology_use(&topology);
    table = below = *ts_os;
    table.purge = purge;
    table.purge_anew = purge_anew;
    table.move = move;
    ts_os = &table;
    cache = map(MACHINE_THREADS * sizeof *cache);
    version = map(VERSIONS * sizeof *version);
}

void machine_begin(void) {
    base = ts_unit_address(0);
    pages = (size_t)ts_region.part[TS_NORMAL].units * (TS_UNIT_BYTES / PAGE);
    page_node = map(pages);
}

/* ---- accesses of threads ------------------------------------------------------------------------------------- */

void machine_go_to(unsigned thread, unsigned node) {
    thread_number = thread;
    here = node;
    sup_topology_go_to((int)node);
}

static unsigned node_of(const void *at) {
    size_t page = page_of(at);
    if (page == pages) abort();
    if (page_node[page] == 0) {
        int bound = sup_topology_bound(at);
        unsigned node = bound == TS_NODE_EACH  ? (unsigned)(page % node_count)
                        : bound == TS_NODE_ANY ? here
                                               : (unsigned)bound;
        page_node[page] = (uint8_t)(node + 1);
    }
    return page_node[page] - 1u;
}

void machine_access(const void *at, size_t bytes, bool writes) {
    for (uintptr_t line = (uintptr_t)at / LINE; line <= ((uintptr_t)at + bytes - 1) / LINE; line++) {
        cached *c = &cache[thread_number][line % CACHE_LINES];
        uint32_t *v = &version[line % VERSIONS];
        if (c->line == line && c->version == *v) {
            counts.hits++;
        } else {
            unsigned node = node_of((const char *)at + (line * LINE - (uintptr_t)at / LINE * LINE));
            counts.of_node[node]++;
            if (node == here)
                counts.local++;
            else
                counts.remote++;
        }
        if (writes) ++*v;
        *c = (cached){line, *v};
    }
}

machine_counts machine_take_counts(void) {
    machine_counts c = counts;
    memset(&counts, 0, sizeof counts);
    return c;
}
