/* Memory that this project's own libraries keep is not a domain's, though they are called inside of one that captures.
   Argument: the file of a device of zones. */
#define _GNU_SOURCE
#include "malloc_test.h"

#include <tslab/http.h>
#include <tslab/malloc.h>
#include <tslab/stats.h>
#include <tslab/zones.h>

#include <string.h>
#include <unistd.h>

static double seven(void *arg) { return arg ? 7 : 0; }

static uint64_t live_in(EpochDomain *d) {
    SlabEpochStats stats;
    CHECK(slab_stats_epoch(slab_malloc_allocator(), SLAB_ALL_CLASSES, epoch_domain_epoch(d), &stats));
    return stats.live_objects;
}

int main(int argc, char **argv) {
    char where[512];
    SlabAllocator *a = slab_malloc_allocator(), *other = slab_allocator_create();
    CHECK(argc == 2 && a && other);
    snprintf(where, sizeof where, "emulated:%s?zones=16&zone_size=1M", argv[1]);
    (void)unlink(argv[1]);
    const SlabHttpMetric metric = {.size = sizeof metric,
                                   .name = "of_the_program",
                                   .help = "A gauge.",
                                   .kind = SLAB_HTTP_GAUGE,
                                   .read = seven,
                                   .arg = where};
    EpochId epoch = epoch_open(other, "spilled", EPOCH_CHURN);
    void *object = slab_malloc_epoch(other, 5000, epoch);
    SlabHandle handle = slab_handle_of(other, object);
    memset(object, 3, 5000);
    CHECK(epoch_close(other, epoch));

    EpochDomain *d = epoch_domain_create_ex(a, "captured", EPOCH_DOMAIN_CAPTURE);
    CHECK(d && epoch_domain_enter(d));
    CHECK(slab_http_metric_add(&metric) && slab_http_start(a, "127.0.0.1:0"));
    SlabZones *zones = slab_zones_open(where, NULL);
    CHECK(zones && epoch_spill(other, epoch, zones));
    CHECK(live_in(d) == 0);
    CHECK(malloc(hidden_size(10)) && live_in(d) == 1); /* and it captures again */
    CHECK(epoch_domain_exit(d));
    epoch_domain_destroy(d);
    for (int i = 0; i < 1000; i++) {
        void *p = malloc(hidden_size((size_t)i * 7));
        CHECK(p);
        memset(p, 0x5a, (size_t)i * 7);
    }

    char byte = 0;
    CHECK(slab_zones_read(other, handle, &byte, 1) == 1 && byte == 3);
    CHECK(epoch_load(other, epoch) && ((char *)object)[4999] == 3);
    CHECK(slab_http_metric_remove(&metric) && slab_http_stop());
    slab_allocator_free(other);
    CHECK(slab_zones_close(zones));
    CHECK(unlink(argv[1]) == 0);
    return 0;
}
