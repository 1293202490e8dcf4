/*
 * An arena per open scope, created beforehand; arena.N.reset drops its objects. The manual demands that no thread cache
 * holds objects of the arena at that moment: MALLOCX_TCACHE_NONE, or (SCOPE_JEMALLOC_TCACHE) an explicit cache per
 * arena that is flushed before. There are at most some 4,000 arenas in a process.
 *
 * Declared here, since the library's headers need not be installed; the flags are part of its documented interface.
 */
#include "bench_util.h"
#include "scope_worker.h"

#include <stdio.h>
#include <string.h>

#if defined(SCOPE_JEMALLOC_TCACHE)
#define SCOPE_NAME "jemalloc_tcache"
#else
#define SCOPE_NAME "jemalloc"
#endif
#define SCOPE_ALIGN 16

int mallctl(const char *name, void *old_value, size_t *old_length, void *new_value, size_t new_length);
int mallctlnametomib(const char *name, size_t *mib, size_t *length);
int mallctlbymib(const size_t *mib, size_t length, void *old_value, size_t *old_length, void *new_value,
                 size_t new_length);
void *mallocx(size_t size, int flags);

#define FLAG_ARENA(index) (((int)(index) + 1) << 20)
#define FLAG_TCACHE(index) (((int)(index) + 2) << 8)

typedef struct scope_ref {
    unsigned arena;
    unsigned tcache;
    int flags; /* 0: not made yet */
} scope_ref;

static size_t reset_mib[3], flush_mib[2];
static size_t reset_length = 3, flush_length = 2;

static void scope_version(char *out, size_t capacity) {
    const char *version = NULL;
    size_t length = sizeof version;
    if (mallctl("version", &version, &length, NULL, 0) != 0 || version == NULL)
        scope_wrong("jemalloc does not answer mallctl(\"version\")");
    snprintf(out, capacity, "%.*s", (int)strcspn(version, "-"), version);
}

static void scope_start(const scope_run *run) {
    if (run->open > 4000) scope_unavailable("jemalloc has at most some 4,000 arenas");
    if (mallctlnametomib("arena.0.reset", reset_mib, &reset_length) != 0 ||
        mallctlnametomib("tcache.flush", flush_mib, &flush_length) != 0)
        scope_wrong("jemalloc does not know arena.N.reset or tcache.flush");
}
static void scope_finish(void) {}

static void make_arena(scope_ref *slot) {
    size_t length = sizeof slot->arena;
    if (mallctl("arenas.create", &slot->arena, &length, NULL, 0) != 0) scope_wrong("arenas.create failed");
#if defined(SCOPE_JEMALLOC_TCACHE)
    length = sizeof slot->tcache;
    if (mallctl("tcache.create", &slot->tcache, &length, NULL, 0) != 0) scope_wrong("tcache.create failed");
    slot->flags = FLAG_ARENA(slot->arena) | FLAG_TCACHE(slot->tcache);
#else
    slot->flags = FLAG_ARENA(slot->arena) | FLAG_TCACHE(-1);
#endif
}

static inline void scope_open(scope_ref *slot) {
    if (__builtin_expect(slot->flags == 0, 0)) make_arena(slot);
}
static inline void *scope_alloc(scope_ref *slot, size_t size) { return mallocx(size, slot->flags); }
static inline void scope_leave(scope_ref *slot) { (void)slot; }
static inline void scope_drop(scope_ref *slot) {
#if defined(SCOPE_JEMALLOC_TCACHE)
    if (mallctlbymib(flush_mib, flush_length, NULL, NULL, &slot->tcache, sizeof slot->tcache) != 0)
        scope_wrong("tcache.flush failed");
#endif
    reset_mib[1] = slot->arena;
    if (mallctlbymib(reset_mib, reset_length, NULL, NULL, NULL, 0) != 0) scope_wrong("arena.N.reset failed");
}

#include "scope_loop.h"
