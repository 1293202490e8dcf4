#include "peers.h"

#include "bench_util.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#if defined(BENCH_PEER_TSLAB)
#include <tslab/stats.h>
#define ALLOCATION_SYMBOL "slab_malloc_epoch"
#define FREE_SYMBOL "slab_free"
#define LIBRARY_PREFIX "libtslab."
#else
#define ALLOCATION_SYMBOL "malloc"
#define FREE_SYMBOL "free"
#endif

#if defined(BENCH_PEER_GLIBC)
#include <gnu/libc-version.h>
#define LIBRARY_PREFIX "libc."
#elif defined(BENCH_PEER_JEMALLOC)
#define LIBRARY_PREFIX "libjemalloc."
int mallctl(const char *name, void *old_value, size_t *old_length, void *new_value, size_t new_length);
#elif defined(BENCH_PEER_TCMALLOC)
#define LIBRARY_PREFIX "libtcmalloc"
const char *tc_version(int *major, int *minor, const char **patch);
#elif defined(BENCH_PEER_MIMALLOC)
#define LIBRARY_PREFIX "libmimalloc"
int mi_version(void);
#endif

static void ask_version(char *out, size_t capacity) {
#if defined(BENCH_PEER_TSLAB)
    snprintf(out, capacity, "%s", slab_version());
#elif defined(BENCH_PEER_GLIBC)
    snprintf(out, capacity, "%s", gnu_get_libc_version());
#elif defined(BENCH_PEER_JEMALLOC)
    const char *version = NULL;
    size_t length = sizeof version;
    if (mallctl("version", &version, &length, NULL, 0) != 0 || version == NULL)
        bench_die(BENCH_EXIT_FAILED, "jemalloc does not answer mallctl(\"version\")");
    snprintf(out, capacity, "%.*s", (int)strcspn(version, "-"), version);
#elif defined(BENCH_PEER_TCMALLOC)
    int major = 0, minor = 0;
    const char *patch = "";
    if (tc_version(&major, &minor, &patch) == NULL)
        bench_die(BENCH_EXIT_FAILED, "tcmalloc does not answer tc_version()");
    snprintf(out, capacity, "%d.%d%s", major, minor, patch ? patch : "");
#elif defined(BENCH_PEER_MIMALLOC)
    int version = mi_version();
    if (version < 1000)
        snprintf(out, capacity, "%d.%d.%d", version / 100, version / 10 % 10, version % 10);
    else
        snprintf(out, capacity, "%d", version);
#endif
}

static void find_library_of(const char *symbol, char *out, size_t capacity) {
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, symbol);
    if (address == NULL || dladdr(address, &info) == 0 || info.dli_fname == NULL)
        bench_die(BENCH_EXIT_FAILED, "cannot find out where %s comes from", symbol);
    const char *slash = strrchr(info.dli_fname, '/');
    const char *name = slash ? slash + 1 : info.dli_fname;
    if (strncmp(name, LIBRARY_PREFIX, strlen(LIBRARY_PREFIX)) != 0)
        bench_die(BENCH_EXIT_FAILED, "%s comes from %s, not from %s*: this is no measurement of %s", symbol,
                  info.dli_fname, LIBRARY_PREFIX, PEER_NAME);
    snprintf(out, capacity, "%s", info.dli_fname);
}

peer_identity peer_identify(void) {
    peer_identity identity;
    char free_library[sizeof identity.library];
    find_library_of(ALLOCATION_SYMBOL, identity.library, sizeof identity.library);
    find_library_of(FREE_SYMBOL, free_library, sizeof free_library);
    if (strcmp(identity.library, free_library) != 0)
        bench_die(BENCH_EXIT_FAILED, "%s comes from %s but %s from %s", ALLOCATION_SYMBOL, identity.library,
                  FREE_SYMBOL, free_library);
    ask_version(identity.version, sizeof identity.version);
    return identity;
}

#if defined(BENCH_PEER_TSLAB)

peer_ref peer_open(void) {
    peer_ref peer;
    peer.allocator = slab_allocator_create();
    if (peer.allocator == NULL) bench_die(BENCH_EXIT_FAILED, "slab_allocator_create failed");
    peer.epoch = epoch_open(peer.allocator, "bench", EPOCH_CHURN);
    if (peer.epoch == EPOCH_NONE) bench_die(BENCH_EXIT_FAILED, "epoch_open failed");
    return peer;
}

static void check_statistics(peer_ref peer) {
    SlabGlobalStats stats;
    if (!slab_stats_global(peer.allocator, &stats)) bench_die(BENCH_EXIT_FAILED, "slab_stats_global failed");
    if (stats.live_objects != 0 || stats.allocated_objects_total != stats.freed_objects_total)
        bench_die(BENCH_EXIT_FAILED, "everything was freed, and %llu objects are live (%llu allocated, %llu freed)",
                  (unsigned long long)stats.live_objects, (unsigned long long)stats.allocated_objects_total,
                  (unsigned long long)stats.freed_objects_total);
    if (stats.rejected_frees_total != 0)
        bench_die(BENCH_EXIT_FAILED, "%llu frees of live objects were refused",
                  (unsigned long long)stats.rejected_frees_total);
}

void peer_close(peer_ref peer) {
#ifndef TSLAB_UNCOUNTED
    check_statistics(peer);
#else
    (void)check_statistics;
#endif
    if (!epoch_destroy(peer.allocator, peer.epoch))
        bench_die(BENCH_EXIT_FAILED, "epoch_destroy of the benchmark's epoch failed");
    slab_allocator_free(peer.allocator);
}

#else

peer_ref peer_open(void) {
    peer_ref peer = {0};
    return peer;
}

void peer_close(peer_ref peer) { (void)peer; }

#endif
