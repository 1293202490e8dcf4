/*
 * Loads the shared library at run time, as other languages do, and allocates with it: its thread storage must fit into
 * the room that the C library keeps free for late libraries. Argument: the library's path.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: dlopen LIBRARY\n");
        return 2;
    }
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "dlopen: %s\n", dlerror());
        return 1;
    }
    void *(*allocate)(size_t);
    void *(*default_allocator)(void);
    bool (*release)(void *, void *);
    /* POSIX makes both the same size; ISO C has no conversion between them. */
    void *symbol[3] = {dlsym(library, "slab_alloc"), dlsym(library, "slab_allocator_default"),
                       dlsym(library, "slab_free")};
    if (!symbol[0] || !symbol[1] || !symbol[2]) {
        fprintf(stderr, "dlopen: a symbol is missing\n");
        return 1;
    }
    memcpy(&allocate, &symbol[0], sizeof(allocate));
    memcpy(&default_allocator, &symbol[1], sizeof(default_allocator));
    memcpy(&release, &symbol[2], sizeof(release));

    char *object = allocate(1000);
    if (!object) {
        fprintf(stderr, "dlopen: slab_alloc(1000) failed\n");
        return 1;
    }
    memset(object, 1, 1000);
    if (!release(default_allocator(), object) || release(default_allocator(), object)) {
        fprintf(stderr, "dlopen: slab_free did not answer true, then false\n");
        return 1;
    }
    return 0;
}
