/* std::pmr::monotonic_buffer_resource behind C calls; see scope_pmr.cpp. */
#ifndef SCOPE_PMR_H
#define SCOPE_PMR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Room for a resource; alignment 16. */
typedef struct scope_pmr {
#ifdef __cplusplus
    alignas(16)
#else
    _Alignas(16)
#endif
        unsigned char place[128];
} scope_pmr;

/* The version of the standard library that the resources come from. */
const char *scope_pmr_version(void);
/* pooled: chunks come from a std::pmr::unsynchronized_pool_resource and not from operator new. */
void scope_pmr_start(int pooled);
void scope_pmr_finish(void);
void scope_pmr_open(scope_pmr *scope);
/* NULL: no memory. */
void *scope_pmr_alloc(scope_pmr *scope, size_t size);
void scope_pmr_drop(scope_pmr *scope);

#ifdef __cplusplus
}
#endif

#endif
