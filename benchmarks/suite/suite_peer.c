/* The suite's requests to an allocator beyond peers.h: its counters, the size of an object, memory back, epochs. */
#include "suite.h"

#if defined(BENCH_PEER_TSLAB)

#include <tslab/stats.h>

suite_counters suite_count(peer_ref peer) {
    SlabGlobalStats stats;
    if (!slab_stats_global(peer.allocator, &stats)) suite_fail("slab_stats_global failed");
    return (suite_counters){
        .known = true,
        .live_objects = stats.live_objects,
        .live_bytes = stats.live_bytes,
        .committed_bytes = stats.committed_bytes,
        .metadata_bytes = stats.metadata_bytes,
        .retain_bytes = (stats.cache_capacity + 128) * 16384,
        .slabs_allocated = stats.new_slab_count,
        .slabs_recycled = stats.empty_slab_recycled,
        .slabs_overflowed = stats.empty_slab_overflowed,
        .lock_acquired = stats.lock_fast_acquire + stats.lock_contended,
        .lock_contended = stats.lock_contended,
        .lock_waits = stats.process_lock_waits,
        .foreign_frees = stats.foreign_frees,
        .cas_retries = stats.foreign_free_cas_retries,
        .rejected_frees = stats.rejected_frees_total,
    };
}

size_t suite_usable_size(peer_ref peer, void *object) { return slab_usable_size(peer.allocator, object); }

size_t suite_header_bytes(void) { return 0; }

void suite_trim(peer_ref peer) { (void)slab_trim(peer.allocator); }

peer_ref suite_epoch_open(peer_ref peer, const char *label, bool scope) {
    peer_ref epoch = {peer.allocator, epoch_open(peer.allocator, label, scope ? EPOCH_SCOPE : EPOCH_CHURN)};
    if (epoch.epoch == EPOCH_NONE) suite_fail("epoch_open failed");
    return epoch;
}

bool suite_epoch_close(peer_ref epoch) { return epoch_close(epoch.allocator, epoch.epoch); }

#else

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

suite_counters suite_count(peer_ref peer) {
    (void)peer;
    return (suite_counters){.known = false};
}

size_t suite_usable_size(peer_ref peer, void *object) {
    (void)peer;
    return malloc_usable_size(object);
}

size_t suite_header_bytes(void) { return strcmp(SUITE_ALLOCATOR, "malloc") == 0 ? sizeof(size_t) : 0; }

/* A function of the allocator by its name, to *function, which is NULL where there is none. */
static bool find_function(const char *symbol, void *function) {
    void *address = dlsym(RTLD_DEFAULT, symbol);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

/* snmalloc has nothing that could be asked for it. */
void suite_trim(peer_ref peer) {
    int (*mallctl)(const char *, void *, size_t *, void *, size_t);
    void (*release)(void), (*release_bytes)(size_t), (*collect)(bool);
    (void)peer;
    if (strcmp(SUITE_ALLOCATOR, "malloc") == 0) {
        malloc_trim(0);
    } else if (find_function("mallctl", &mallctl)) {
        char name[64];
        snprintf(name, sizeof name, "arena.%d.purge", 4096); /* MALLCTL_ARENAS_ALL */
        mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
        if (mallctl(name, NULL, NULL, NULL, 0) != 0) suite_fail("jemalloc refuses mallctl(\"%s\")", name);
    } else if (find_function("MallocExtension_ReleaseFreeMemory", &release)) {
        release();
    } else if (find_function("MallocExtension_Internal_ReleaseMemoryToSystem", &release_bytes)) {
        release_bytes(SIZE_MAX);
    } else if (find_function("mi_collect", &collect)) {
        collect(true);
    }
}

peer_ref suite_epoch_open(peer_ref peer, const char *label, bool scope) {
    (void)label;
    (void)scope;
    return peer;
}

bool suite_epoch_close(peer_ref epoch) {
    (void)epoch;
    return true;
}

#endif
