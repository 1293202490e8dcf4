/* A plugin with a copy of the library of its own: copies.c. */
#include <tslab/tslab.h>

SlabAllocator *plugin_make(void) { return slab_allocator_create(); }
void *plugin_malloc(SlabAllocator *allocator) { return slab_malloc(allocator, 100); }
bool plugin_free(SlabAllocator *allocator, void *p) { return slab_free(allocator, p); }
bool plugin_owns(SlabAllocator *allocator, const void *p) { return slab_owns(allocator, p); }
EpochDomain *plugin_enter(SlabAllocator *allocator) {
    EpochDomain *domain = epoch_domain_create(allocator);
    return domain && epoch_domain_enter(domain) ? domain : NULL;
}
EpochDomain *plugin_current(void) { return epoch_domain_current(); }
