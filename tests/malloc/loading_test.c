/* Libraries that come late, in a namespace of their own, or with libc's functions before ours. Arguments: the plugin,
   and one with a C++ library of its own. */
#define _GNU_SOURCE
#include "live.h"
#include "malloc_test.h"

#include <tslab/malloc.h>
#include <tslab/stats.h>

#include <dlfcn.h>
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>

typedef struct plugin {
    char *(*make)(size_t);
    void (*take)(void *);
    int (*work)(void), (*free_early)(void);
} plugin;

static void look_up(void *handle, const char *name, void *function) {
    void *symbol = dlsym(handle, name);
    CHECK(symbol != NULL);
    memcpy(function, &symbol, sizeof symbol);
}

static plugin load(void *handle) {
    plugin p;
    if (!handle) fprintf(stderr, "%s\n", dlerror());
    CHECK(handle != NULL);
    look_up(handle, "plugin_make", &p.make);
    look_up(handle, "plugin_take", &p.take);
    look_up(handle, "plugin_work", &p.work);
    look_up(handle, "plugin_free_early", &p.free_early);
    CHECK(p.work() == 0);
    return p;
}

static uint64_t refused(void) {
    SlabGlobalStats stats;
    CHECK(slab_stats_global(slab_malloc_allocator(), &stats));
    return stats.rejected_frees_total;
}

static void free_nobodys(void) {
    char on_stack[256];
    void *mapped = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    memset(on_stack, 0x21, sizeof on_stack); /* sizes and flags as libc's malloc would have them */
    memset(mapped, 0x21, 1 << 16);
    free(hidden(on_stack + 64));
    free(hidden((char *)mapped + 4096));
    CHECK(realloc(hidden((char *)mapped + 8192), 100) == NULL && refused() == 3);
    /* As an object of libc's in a mapping of its own; as one of an arena; at an address without memory. */
    size_t *word = (size_t *)(void *)((char *)mapped + 4096);
    word[0] = 0;
    word[1] = ((size_t)1 << 32) | 2;
    free(hidden(word + 2));
    word[1] = 64 | 5;
    word[9] = 1;
    free(hidden(word + 2));
    free((void *)(uintptr_t)4096);
    CHECK(refused() == 6);
    CHECK(munmap(mapped, 1 << 16) == 0);
}

static void show(void *p) { CHECK(is_live(p)); }

/* All operators of C++, though it has a C++ library of its own. */
static void load_with_operators(const char *file) {
    int (*work)(void (*)(void *));
    void *deep = dlopen(file, RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!deep) fprintf(stderr, "%s\n", dlerror());
    CHECK(deep != NULL);
    look_up(deep, "plugin_cxx_work", &work);
    const unsigned *calls = dlsym(deep, "own_cxx_calls");
    CHECK(work(show) == 96 && calls && *calls == 0);
    CHECK(dlclose(deep) == 0);
}

static const char by_name[] = "libBrokenLocale.so.1"; /* the system has one, too */

/* In a domain that captures; and what the loader keeps is not the domain's. */
static void captured(const char *file) {
    EpochDomain *d = epoch_domain_create_ex(slab_malloc_allocator(), "captured", EPOCH_DOMAIN_CAPTURE);
    CHECK(d && epoch_domain_enter(d));
    void *handle = dlopen(file, RTLD_NOW);
    CHECK(dlopen("no such library", RTLD_NOW) == NULL);
    CHECK(epoch_domain_exit(d));
    epoch_domain_destroy(d);
    char *error = dlerror();
    CHECK(error && is_live(error) && strstr(error, "no such library"));
    (void)load(handle);
    CHECK(dlclose(handle) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 3 && slab_malloc_active());

    /* In a namespace of its own it has a libc, and a malloc, of its own. */
    void *alone = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
    plugin p = load(alone);
    char *q = p.make(1000);
    CHECK(q && !slab_owns(slab_malloc_allocator(), q));
    p.take(q);
    CHECK(dlclose(alone) == 0 && refused() == 0);

    /* With RTLD_DEEPBIND, by libc's dlopen, it has libc's malloc. Its objects may be freed and resized here. */
    void *(*libc_dlopen)(const char *, int);
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    CHECK(libc != NULL);
    look_up(libc, "dlopen", &libc_dlopen);
    void *deep = libc_dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    p = load(deep);
    for (size_t bytes = 8; bytes < 60000; bytes *= 3) {
        q = p.make(bytes);
        CHECK(q && !slab_owns(slab_malloc_allocator(), q) && malloc_usable_size(q) >= bytes);
        char *r = p.make(bytes), *s = p.make(bytes);
        r = realloc(r, bytes * 2);
        CHECK(r && is_live(r) && r[0] == 'x' && r[bytes - 1] == 'x');
        free(r);
        free(q);
        p.take(s);
    }
    CHECK(refused() == 0);
    /* A pointer that no malloc of the process has given out is passed on to none, also while there is another. */
    if (!is_hard()) free_nobodys();
    uint64_t before = refused();
    CHECK(dlclose(deep) == 0);

    /* By the process's dlopen it has the process's malloc, and both may free the other's objects. */
    for (int now = 0; now < 2; now++) {
        deep = dlopen(argv[1], (now ? RTLD_NOW : RTLD_LAZY) | RTLD_LOCAL | RTLD_DEEPBIND);
        p = load(deep);
        q = p.make(1000);
        CHECK(is_live(q));
        free(q);
        p.take(malloc(100));
        CHECK(p.free_early() == 0 && refused() == before);
        CHECK(dlclose(deep) == 0 && refused() == before);
    }

    /* By a name that is searched for in a directory that only this program names. */
    captured(by_name);
    deep = dlopen(by_name, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    p = load(deep);
    q = p.make(1000);
    CHECK(is_live(q));
    free(q);
    p.take(malloc(100));
    CHECK(dlopen(by_name, RTLD_LAZY | RTLD_DEEPBIND) == deep && dlclose(deep) == 0);
    CHECK(p.free_early() == 0 && dlclose(deep) == 0 && refused() == before);
    CHECK(dlopen("no such library", RTLD_NOW | RTLD_DEEPBIND) == NULL && dlerror() != NULL);

    load_with_operators(argv[2]);
    CHECK(refused() == before);

    void *usual = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    p = load(usual);
    q = p.make(1000);
    CHECK(is_live(q));
    free(q);
    p.take(malloc(100));
    CHECK(dlclose(usual) == 0);
    CHECK(dlopen("no such library", RTLD_NOW) == NULL && dlerror() != NULL);
    CHECK(refused() == before);
    return 0;
}
