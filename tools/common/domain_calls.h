/* Domains of the library that is preloaded, for a tool that carries one of its own. */
#ifndef DOMAIN_CALLS_H
#define DOMAIN_CALLS_H

#include <tslab/tslab.h>

typedef struct domain_calls {
    SlabAllocator *(*allocator)(void);
    EpochDomain *(*create)(SlabAllocator *allocator, const char *label, unsigned flags);
    bool (*enter)(EpochDomain *domain), (*leave)(EpochDomain *domain);
    void (*destroy)(EpochDomain *domain);
    void *(*alloc)(size_t size), *(*alloc_aligned)(size_t alignment, size_t size);
    void *(*resize)(void *pointer, size_t size);
} domain_calls;

/* false: the process's malloc has none of them, or not all. */
bool domain_calls_find(domain_calls *d);

#endif
