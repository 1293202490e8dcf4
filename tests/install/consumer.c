/*
 * A program of somebody else: knows the installed headers and the installed library, nothing more. It allocates in
 * a domain, destroys it, and finds that everything in it is stale; exit code 0 only if all of it holds.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tslab/stats.h>
#include <tslab/tslab.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define HEADER_VERSION TEXT(TSLAB_VERSION_MAJOR) "." TEXT(TSLAB_VERSION_MINOR) "." TEXT(TSLAB_VERSION_PATCH)

#define CHECK(condition)                                                                                  \
    do {                                                                                                  \
        if (!(condition)) {                                                                               \
            fprintf(stderr, "consumer: line %d: not true: %s (errno %d)\n", __LINE__, #condition, errno); \
            return 1;                                                                                     \
        }                                                                                                 \
    } while (0)

int main(void) {
    CHECK(strcmp(slab_version(), HEADER_VERSION) == 0);

    SlabAllocator *allocator = slab_allocator_create();
    CHECK(allocator);
    EpochDomain *domain = epoch_domain_create_ex(allocator, "consumer", EPOCH_SCOPE);
    CHECK(domain);
    CHECK(epoch_domain_enter(domain));
    char *text = slab_alloc(100);
    CHECK(text);
    memset(text, 'x', 100);
    SlabHandle handle = slab_handle_of(allocator, text);
    CHECK(handle != SLAB_HANDLE_NONE);
    CHECK(slab_handle_get(allocator, handle) == text);

    SlabEpochStats stats;
    CHECK(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch_domain_epoch(domain), &stats));
    CHECK(stats.version == SLAB_STATS_VERSION);
    CHECK(stats.live_objects == 1);

    CHECK(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
    CHECK(!slab_free(allocator, text));
    CHECK(!slab_handle_get(allocator, handle));
    slab_allocator_free(allocator);
    return 0;
}
