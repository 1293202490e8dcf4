/*
 * Two copies of the library in one process: pointers of the other are refused, domains are each copy's own. And a
 * plugin whose names are bound to the program's copy: docs/threads.md. Arguments: PLUGIN, and "two" or "one".
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tslab/tslab.h>

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            (void)fprintf(stderr, "copies.c:%d: %s\n", __LINE__, #condition); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

/* A pointer to data is no pointer to a function in C; POSIX says that dlsym's is. */
static void find(void *plugin, const char *name, void *function) {
    void *at = dlsym(plugin, name);
    CHECK(at != NULL);
    memcpy(function, &at, sizeof at);
}

int main(int argc, char **argv) {
    SlabAllocator *(*make)(void);
    void *(*allocate)(SlabAllocator *);
    bool (*free_object)(SlabAllocator *, void *), (*owns)(SlabAllocator *, const void *);
    EpochDomain *(*enter)(SlabAllocator *), *(*current)(void);
    CHECK(argc == 3);
    bool two = strcmp(argv[2], "two") == 0;
    void *plugin = dlopen(argv[1], RTLD_NOW);
    if (!plugin) {
        (void)fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    find(plugin, "plugin_make", &make);
    find(plugin, "plugin_malloc", &allocate);
    find(plugin, "plugin_free", &free_object);
    find(plugin, "plugin_owns", &owns);
    find(plugin, "plugin_enter", &enter);
    find(plugin, "plugin_current", &current);

    SlabAllocator *mine = slab_allocator_create(), *its = make();
    CHECK(mine != NULL && its != NULL);
    void *p = slab_malloc(mine, 100), *q = allocate(its);
    CHECK(p != NULL && q != NULL);
    CHECK(slab_owns(mine, p) && owns(its, q));
    /* With two copies each starts with the same number, so this is also the pointer of a value that is open there. */
    CHECK((its == mine) == two);
    CHECK(!slab_owns(mine, q) && !owns(its, p));
    CHECK(!slab_free(mine, q) && !free_object(its, p));
    CHECK(slab_owns(mine, p) && owns(its, q));
    EpochDomain *domain = enter(its);
    CHECK(domain != NULL && current() == domain);
    CHECK(epoch_domain_current() == (two ? NULL : domain));
    CHECK(slab_free(mine, p) && free_object(its, q));
    return 0;
}
