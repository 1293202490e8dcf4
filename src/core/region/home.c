#include "region/home.h"

#include "os/os.h"

_Atomic(_Atomic uint8_t *) ts_home_huge_pages;

/* Only ts_homes_start writes these. It writes ts_homes_known last. */
static bool asked;
static unsigned nodes;
static bool binds;
static int node_ids[TS_HOME_NODES];
_Atomic uint32_t ts_homes_known; /* release and acquire: a thread that sees it sees the others */

/* By the id of a node: 1 + the home of a thread that runs there; 0: not looked for yet. */
#define KNOWN_NODES 1024u
static _Atomic uint8_t near_home[KNOWN_NODES]; /* relaxed: a thread that does not see a value finds it anew */

static bool can_bind(int node) {
    char *at = ts_os_map(1); /* a page */
    bool bound = at && ts_os->bind(at, ts_os_page_bytes(), node);
    ts_os_unmap(at, 1);
    return bound;
}

void ts_homes_start(void) {
    if (asked) return;
    asked = true;
    nodes = ts_os->nodes(node_ids, TS_HOME_NODES);
    unsigned told = nodes < TS_HOME_NODES ? nodes : TS_HOME_NODES;
    const ts_part *normal = &ts_region.part[TS_NORMAL], *far = &ts_region.part[TS_FAR];
    if (told < 2 || normal->units < TS_HOME_LEAST_UNITS) return;
    /* One more, because a merge looks behind the last unit. */
    void *homes = ts_os_map(((size_t)normal->units + far->units) / TS_HOME_UNITS + 1);
    if (!homes) return;
    for (unsigned i = 0; i < told; i++)
        if (node_ids[i] >= 0 && node_ids[i] < (int)KNOWN_NODES)
            ts_store_relaxed(&near_home[node_ids[i]], (uint8_t)(1 + i + 1));
    binds = can_bind(node_ids[0]);
    ts_store_release(&ts_home_huge_pages, homes); /* it reads as zero: ANY */
    ts_store_release(&ts_homes_known, told);
}

unsigned ts_homes_nodes(void) { return nodes; }
bool ts_homes_bind(void) { return binds; }

int ts_home_node(unsigned home) { return home >= 1 && home <= ts_homes_count() ? node_ids[home - 1] : -1; }

bool ts_home_of_node(int node, unsigned *home) {
    unsigned homes = ts_homes_count(), told = nodes < TS_HOME_NODES ? nodes : TS_HOME_NODES;
    for (unsigned i = 0; i < told; i++) {
        if (node_ids[i] != node) continue;
        *home = homes == 0 ? TS_HOME_ANY : i + 1;
        return true;
    }
    return false;
}

void ts_home_set(uint32_t first, uint32_t units, unsigned home) {
    ts_assert(1, first % TS_HOME_UNITS == 0 && units % TS_HOME_UNITS == 0 && home < TS_HOMES);
    _Atomic uint8_t *homes = ts_load_acquire(&ts_home_huge_pages);
    /* release: comes after all that the old pool did with the units */
    for (uint32_t huge = first >> TS_HOME_SHIFT; huge < (first + units) >> TS_HOME_SHIFT; huge++)
        ts_store_release(&homes[huge], (uint8_t)home);
}

bool ts_home_bind(uint32_t first, uint32_t units, unsigned home) {
    int node = home == TS_HOME_ANY ? TS_NODE_ANY : home == TS_HOME_EACH ? TS_NODE_EACH : ts_home_node(home);
    return ts_os->bind(ts_unit_address(first), (size_t)units * TS_UNIT_BYTES, node);
}

/* For a node without memory: touches a page first, and asks the system which node it came from. */
static unsigned home_near(void) {
    unsigned home = TS_HOME_ANY;
    int node = -1;
    char *at = ts_os_map(1);
    if (!at) return home;
    *(volatile char *)at = 1;
    void *const touched[1] = {at};
    if (!ts_os->nodes_of(touched, 1, &node) || !ts_home_of_node(node, &home)) home = TS_HOME_ANY;
    ts_os_unmap(at, 1);
    return home;
}

unsigned ts_home_here(void) {
    if (ts_homes_count() == 0) return TS_HOME_ANY;
    int node = ts_os->node_here();
    if (node < 0 || node >= (int)KNOWN_NODES) return TS_HOME_ANY;
    unsigned known = ts_load_relaxed(&near_home[node]);
    if (TS_UNLIKELY(known == 0)) {
        known = 1 + home_near();
        ts_store_relaxed(&near_home[node], (uint8_t)known);
    }
    return known - 1;
}
