/* A program that rests gives memory back: slab_maintain(), now and then. */
#include <stdio.h>
#include <string.h>

#include <tslab/stats.h>
#include <tslab/tslab.h>

#define MIB ((size_t)1 << 20)

int main(void) {
    EpochDomain *spike[500];
    for (int i = 0; i < 500; i++) {
        spike[i] = epoch_domain_create_ex(NULL, "spike", 0);
        for (int k = 0; k < 30; k++) {
            char *object = epoch_domain_alloc(spike[i], 4000);
            if (!object) return 1;
            memset(object, 1, 4000);
        }
    }
    for (int i = 0; i < 500; i++) epoch_domain_destroy(spike[i]);
    size_t given = 0, bytes;
    while ((bytes = slab_maintain(slab_allocator_default(), 1000000)) > 0) given += bytes; /* each for 1 ms at most */
    SlabGlobalStats stats;
    if (!slab_stats_global(slab_allocator_default(), &stats)) return 1;
    printf("%zu MiB given back; %zu MiB are still retained\n", given / MIB, (size_t)stats.retained_bytes / MIB);
    return stats.live_objects == 0 ? 0 : 1;
}
