/* Common to the tests of libtslab-zones: a device for each test, an epoch that is filled and checked, faults. */
#ifndef ZONES_SUPPORT_H
#define ZONES_SUPPORT_H

#include "check.h"
#include "zones/emulated.h"

#include <tslab/stats.h>
#include <tslab/zones.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file name that is this process's and this test's; removed at exit. */
const char *zt_path(void);
/* It is to lie in memory, if there is a file system for that: for tests with many calls. Before the first. */
void zt_in_memory(void);
/* "emulated:PATH?parameters" */
const char *zt_where(const char *parameters);
/* Opened; the test ends if it cannot be. */
SlabZones *zt_open(const char *parameters);
SlabZonesStats zt_stats(SlabZones *zones);

/* Objects of one epoch, each filled with bytes that follow from its number. */
typedef struct zt_object {
    unsigned char *at;
    SlabHandle handle;
    uint32_t seed, bytes; /* at 0: it was freed */
} zt_object;
typedef struct zt_epoch {
    SlabAllocator *allocator;
    EpochId id;
    zt_object *object;
    size_t count, live;
} zt_epoch;
/* As many objects of so many bytes each; 0: of all sizes, some of several slabs. Closed. */
zt_epoch zt_fill(SlabAllocator *allocator, unsigned flags, size_t count, size_t bytes, uint32_t seed);
void zt_forget(zt_epoch *epoch);
/* Every byte of every live object, by its address; by slab_zones_read. */
bool zt_is_right(const zt_epoch *epoch);
bool zt_reads_right(const zt_epoch *epoch, size_t step);
bool zt_object_reads_right(const zt_epoch *epoch, const zt_object *object);
/* Frees the object by its pointer or its handle. */
void zt_free(zt_epoch *epoch, size_t i, bool by_handle);
/* Whether the address faults. */
bool zt_faults(const void *at);
/* The deep walk of the core: at a quiet point, when no ended epoch waits for a call on its zones. */
void zt_check(void);
#define ZT_ERRNO(expression, error)                                                             \
    do {                                                                                        \
        errno = 0;                                                                              \
        SUP_CHECK(!(expression), "it does not fail");                                           \
        SUP_CHECK(errno == (error), "errno is %d (%s), not %d", errno, strerror(errno), error); \
    } while (0)

#endif
