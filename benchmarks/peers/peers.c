#include "peers.h"

#include "bench_util.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#else
#define gnu_get_libc_version() "of another libc"
#endif

#if defined(BENCH_PEER_TSLAB)
#include <tslab/stats.h>
#define ALLOCATION_SYMBOL "slab_malloc_epoch"
#define FREE_SYMBOL "slab_free"
#else
#define ALLOCATION_SYMBOL "malloc"
#define FREE_SYMBOL "free"
#endif

/* An allocator by the file that it comes from: STEM.so, libSTEM.so.2, STEM-1.2.so. */
typedef struct peer {
    const char *name;
    const char *stem;   /* of its file */
    const char *system; /* the file that a system's package has, and that package's name with Debian */
    const char *package;
    const char *tunables; /* of libc, that its own documentation asks for */
} peer;

static const peer peers[] = {
    {.name = "tslab", .stem = "tslab"},
    {.name = "glibc", .stem = "c"},
    {"jemalloc", "jemalloc", "libjemalloc.so.2", "libjemalloc2", NULL},
    {.name = "tcmalloc", .stem = "gperftools"},
    {"tcmalloc", "tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4", NULL},
    {"mimalloc", "mimalloc", "libmimalloc.so.2", "libmimalloc2.0", NULL},
    {.name = "snmalloc", .stem = "snmalloc"},
    {.name = "google", .stem = "google", .tunables = "glibc.pthread.rseq=0"}, /* so that its caches are per processor */
};
enum { PEERS = sizeof peers / sizeof peers[0] };

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The allocator that a file is of, or NULL. */
static const peer *peer_of(const char *path) {
    const char *stem = base_of(path);
    stem += strncmp(stem, "lib", 3) == 0 ? 3 : 0;
    size_t length = strcspn(stem, ".-_");
    for (size_t i = 0; i < PEERS; i++)
        if (strlen(peers[i].stem) == length && strncmp(peers[i].stem, stem, length) == 0) return &peers[i];
    return NULL;
}

/* ---- who is it ---------------------------------------------------------------------------------- */

static void find_library_of(const char *symbol, char *out, size_t capacity) {
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, symbol);
    if (address == NULL || dladdr(address, &info) == 0 || info.dli_fname == NULL)
        bench_die(BENCH_EXIT_FAILED, "cannot find out where %s comes from", symbol);
    if (peer_of(info.dli_fname) == NULL)
        bench_die(BENCH_EXIT_FAILED, "%s comes from %s: that is no allocator that is known here", symbol,
                  info.dli_fname);
    snprintf(out, capacity, "%s", info.dli_fname);
}

const char *peer_name(void) {
    static const char *name;
    char library[PATH_MAX];
    if (name == NULL) {
        find_library_of(ALLOCATION_SYMBOL, library, sizeof library);
        name = peer_of(library)->name;
    }
    return name;
}

/* A function of the library, or NULL: each allocator has its own way to tell its version. */
static void find_function(const char *symbol, void *function) {
    void *address = dlsym(RTLD_DEFAULT, symbol);
    memcpy(function, &address, sizeof address); /* as POSIX has it: no cast of C11 makes a function of an object */
}

static void ask_version(const char *library, char *out, size_t capacity) {
    int (*mallctl)(const char *, void *, size_t *, void *, size_t);
    const char *(*tc_version)(int *, int *, const char **);
    int (*mi_version)(void);
    const char *text = "", *dash = strrchr(base_of(library), '-');
    int major = 0, minor = 0;
    size_t length = sizeof text;
    find_function("mallctl", &mallctl);
    find_function("tc_version", &tc_version);
    find_function("mi_version", &mi_version);
#if defined(BENCH_PEER_TSLAB)
    snprintf(out, capacity, "%s", slab_version());
    return;
#endif
    if (strcmp(peer_name(), "glibc") == 0)
        snprintf(out, capacity, "%s", gnu_get_libc_version());
    else if (dash != NULL) /* NAME-VERSION.so */
        snprintf(out, capacity, "%.*s", (int)(strlen(dash + 1) - strlen(".so")), dash + 1);
    else if (mallctl != NULL && mallctl("version", &text, &length, NULL, 0) == 0)
        snprintf(out, capacity, "%.*s", (int)strcspn(text, "-"), text);
    else if (tc_version != NULL && tc_version(&major, &minor, &text) != NULL)
        snprintf(out, capacity, "%d.%d%s", major, minor, text ? text : "");
    else if (mi_version != NULL && mi_version() < 1000)
        snprintf(out, capacity, "%d.%d.%d", mi_version() / 100, mi_version() / 10 % 10, mi_version() % 10);
    else
        bench_die(BENCH_EXIT_FAILED, "%s does not tell its version", library);
}

peer_identity peer_identify(void) {
    peer_identity identity;
    char free_library[sizeof identity.library];
    find_library_of(ALLOCATION_SYMBOL, identity.library, sizeof identity.library);
    find_library_of(FREE_SYMBOL, free_library, sizeof free_library);
    if (strcmp(identity.library, free_library) != 0)
        bench_die(BENCH_EXIT_FAILED, "%s comes from %s but %s from %s", ALLOCATION_SYMBOL, identity.library,
                  FREE_SYMBOL, free_library);
    ask_version(identity.library, identity.version, sizeof identity.version);
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

/* ---- become another ------------------------------------------------------------------------------ */

#define STARTED_AS "BENCH_PEER" /* in the environment of a process that was started again */

/* The newest of the files that match, by their versions; or false. */
static bool newest_of(const char *pattern, char *out, size_t capacity) {
    glob_t found;
    bool any = glob(pattern, 0, NULL, &found) == 0;
    for (size_t i = 0; any && i < found.gl_pathc; i++)
        if (i == 0 || strverscmp(found.gl_pathv[i], out) > 0) snprintf(out, capacity, "%s", found.gl_pathv[i]);
    globfree(&found);
    return any;
}

static bool find_library(const peer *p, const char *program, char *out, size_t capacity) {
    static const char *const places[] = {"/usr/lib/*", "/usr/lib", "/usr/local/lib"};
    const char *folder = getenv("BENCH_PEERS");
    char pattern[PATH_MAX + 128];
    if (folder)
        snprintf(pattern, sizeof pattern, "%s/%s-*.so", folder, p->stem);
    else /* beside the build that this program is of */
        snprintf(pattern, sizeof pattern, "%.*s/../../peers/%s-*.so", (int)(base_of(program) - program), program,
                 p->stem);
    if (newest_of(pattern, out, capacity)) return true;
    for (size_t i = 0; p->system && i < sizeof places / sizeof places[0]; i++) {
        snprintf(pattern, sizeof pattern, "%s/%s", places[i], p->system);
        if (newest_of(pattern, out, capacity)) return true;
    }
    return false;
}

void peer_become(const char *name, char **argv) {
    char program[PATH_MAX], library[PATH_MAX];
    const char *package = NULL;
    if (strcmp(name, peer_name()) == 0) return;
    if (strcmp(name, "glibc") == 0)
        bench_die(BENCH_EXIT_FAILED, "malloc comes from %s: this is no measurement of glibc", peer_identify().library);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0) bench_die(BENCH_EXIT_FAILED, "cannot find out where this program lies: %s", strerror(errno));
    program[length] = '\0';
    for (size_t i = 0; i < PEERS && getenv(STARTED_AS) == NULL; i++) {
        if (strcmp(peers[i].name, name) != 0) continue;
        package = package ? package : peers[i].package;
        if (!find_library(&peers[i], program, library, sizeof library)) continue;
        if (peers[i].tunables) setenv("GLIBC_TUNABLES", peers[i].tunables, 1);
        if (setenv("LD_PRELOAD", library, 1) == 0 && setenv(STARTED_AS, name, 1) == 0) execv(program, argv);
        bench_die(BENCH_EXIT_FAILED, "cannot start %s again: %s", program, strerror(errno));
    }
    bench_die(BENCH_EXIT_USAGE, "allocator '%s' is not installed%s%s%s", name, package ? " (Debian: " : "",
              package ? package : "", package ? ")" : "");
}

#endif
