/* A library that uses tslab, built once with the shared and once with the static one; dlclose_test loads and unloads
   it. */
#include <stdlib.h>
#include <string.h>
#include <tslab/tslab.h>

int plugin_work(int n);
void *plugin_keep(void);
int plugin_drop(void *object);

static SlabAllocator *allocator;

/* 0: everything that was tried was good. */
int plugin_work(int n) {
    if (!allocator) {
        allocator = slab_allocator_create();
    }
    EpochDomain *domain = epoch_domain_create(allocator);
    if (!domain || !epoch_domain_enter(domain)) {
        return 1;
    }
    for (int i = 0; i < n; i++) {
        char *object = slab_alloc((size_t)(i % 500));
        if (!object) {
            return 2;
        }
        memset(object, i, (size_t)(i % 500));
    }
    epoch_domain_destroy(domain);
    void *object = slab_malloc(allocator, 100);
    return object && slab_free(allocator, object) && !slab_free(allocator, object) ? 0 : 3;
}

void *plugin_keep(void) { return slab_malloc(allocator, 1000); }
int plugin_drop(void *object) { return slab_free(allocator, object) ? 0 : 1; }
