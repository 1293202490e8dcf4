#include "common/domain_calls.h"

#include <dlfcn.h>
#include <string.h>

bool domain_calls_find(domain_calls *d) {
    static const char *const names[] = {"slab_malloc_allocator", "epoch_domain_create_ex", "epoch_domain_enter",
                                        "epoch_domain_exit",     "epoch_domain_destroy",   "slab_alloc",
                                        "slab_alloc_aligned",    "slab_alloc_resize"};
    void *const into[] = {&d->allocator, &d->create, &d->enter,         &d->leave,
                          &d->destroy,   &d->alloc,  &d->alloc_aligned, &d->resize};
    bool all = true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *found = dlsym(RTLD_DEFAULT, names[i]);
        memcpy(into[i], &found, sizeof found);
        all &= found != NULL;
    }
    return all;
}
