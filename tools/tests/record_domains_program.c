/* Ten turns of a domain, each with five objects; an epoch with one, which is resized. record_test.py counts them. */
#include <tslab/tslab.h>

int main(void) {
    SlabAllocator *a = slab_allocator_create();
    EpochDomain *d = epoch_domain_create_ex(a, "request", EPOCH_SCOPE);
    bool good = d != NULL;
    for (int i = 0; i < 10; i++) {
        good &= epoch_domain_enter(d);
        for (int k = 0; k < 5; k++) good &= slab_alloc(100) != NULL;
        good &= epoch_domain_exit(d) && epoch_domain_reset(d, 0);
    }
    epoch_domain_destroy(d);
    EpochId e = epoch_open(a, "mine", EPOCH_CHURN);
    void *p = slab_malloc_epoch(a, 50, e);
    p = slab_realloc(a, p, 500);
    good &= p != NULL && slab_free(a, p) && !slab_free(a, p) && epoch_close(a, e);
    slab_allocator_free(a);
    return !good;
}
