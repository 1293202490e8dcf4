#include "identities.h"

#include "check.h"
#include "region/region.h"
#include "walk/check.h"
#include "walk/check_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PIECE_BYTES 512u
#define UNIT_BYTES 16384u
#define EPOCHS_CHECKED 512u /* each epoch costs a call; the classes of each only for the first few */
#define EPOCHS_BY_CLASS 4u

#define REQUIRE(condition, ...)                         \
    do {                                                \
        if (!(condition)) {                             \
            (void)snprintf(why, capacity, __VA_ARGS__); \
            return false;                               \
        }                                               \
    } while (0)

struct totals {
    uint64_t live_objects;
    uint64_t live_bytes;
    uint64_t committed_bytes;
    uint64_t allocated;
    uint64_t freed;
    uint64_t partial;
    uint64_t full;
};

static uint32_t class_at(size_t position, size_t count) {
    return position < count ? (uint32_t)position : position == count ? SLAB_CLASS_SCOPE : SLAB_CLASS_SPAN;
}

static bool check_class(SlabAllocator *allocator, uint32_t cls, struct totals *sum, char *why, size_t capacity) {
    SlabClassStats stats;
    REQUIRE(slab_stats_class(allocator, cls, &stats), "slab_stats_class(%" PRIu32 ") is false", cls);
    REQUIRE(stats.version == SLAB_STATS_VERSION && stats.class_index == cls, "class %" PRIu32 ": wrong header", cls);
    REQUIRE(stats.allocated_objects_total - stats.freed_objects_total == stats.live_objects,
            "class %" PRIu32 ": allocated %" PRIu64 " - freed %" PRIu64 " != live %" PRIu64, cls,
            stats.allocated_objects_total, stats.freed_objects_total, stats.live_objects);
    REQUIRE(stats.live_bytes <= stats.committed_bytes,
            "class %" PRIu32 ": live_bytes %" PRIu64 " > committed_bytes %" PRIu64, cls, stats.live_bytes,
            stats.committed_bytes);
    if (stats.object_size != 0) {
        REQUIRE(stats.live_bytes == stats.live_objects * stats.object_size,
                "class %" PRIu32 ": live_bytes %" PRIu64 " != %" PRIu64 " objects of %" PRIu64, cls, stats.live_bytes,
                stats.live_objects, stats.object_size);
    }
    REQUIRE((stats.live_objects == 0) == (stats.live_bytes == 0),
            "class %" PRIu32 ": %" PRIu64 " objects have %" PRIu64 " live bytes", cls, stats.live_objects,
            stats.live_bytes);
    sum->live_objects += stats.live_objects;
    sum->live_bytes += stats.live_bytes;
    sum->committed_bytes += stats.committed_bytes;
    sum->allocated += stats.allocated_objects_total;
    sum->freed += stats.freed_objects_total;
    sum->partial += stats.total_partial_slabs;
    sum->full += stats.total_full_slabs;
    return true;
}

static bool check_epoch(SlabAllocator *allocator, EpochId epoch, bool by_class, uint64_t *live, char *why,
                        size_t capacity) {
    SlabEpochStats stats;
    REQUIRE(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats),
            "slab_stats_epoch of a listed epoch is false");
    REQUIRE(stats.epoch_id == epoch && stats.version == SLAB_STATS_VERSION && stats.class_index == SLAB_ALL_CLASSES,
            "epoch: wrong header");
    REQUIRE(stats.allocated_objects_total - stats.freed_objects_total == stats.live_objects,
            "epoch %" PRIu64 ": allocated %" PRIu64 " - freed %" PRIu64 " != live %" PRIu64, epoch,
            stats.allocated_objects_total, stats.freed_objects_total, stats.live_objects);
    REQUIRE(stats.alloc_count == stats.live_objects, "epoch %" PRIu64 ": alloc_count %" PRIu64 " != live %" PRIu64,
            epoch, stats.alloc_count, stats.live_objects);
    REQUIRE(stats.live_bytes <= stats.estimated_rss_bytes,
            "epoch %" PRIu64 ": live_bytes %" PRIu64 " > estimated_rss_bytes %" PRIu64, epoch, stats.live_bytes,
            stats.estimated_rss_bytes);
    REQUIRE((stats.live_objects == 0) == (stats.live_bytes == 0),
            "epoch %" PRIu64 ": %" PRIu64 " objects have %" PRIu64 " live bytes", epoch, stats.live_objects,
            stats.live_bytes);
    uint64_t less = stats.slab_count * UNIT_BYTES - stats.estimated_rss_bytes, piece_less = UNIT_BYTES - PIECE_BYTES;
    REQUIRE(stats.state == EPOCH_SPILLED || (less % piece_less == 0 && less / piece_less <= stats.slab_count),
            "epoch %" PRIu64 ": estimated_rss_bytes %" PRIu64 " is not %" PRIu64 " units and pieces", epoch,
            stats.estimated_rss_bytes, stats.slab_count);
    REQUIRE(stats.partial_slab_count + stats.full_slab_count <= stats.slab_count,
            "epoch %" PRIu64 ": partial %" PRIu64 " + full %" PRIu64 " > slabs %" PRIu64, epoch,
            stats.partial_slab_count, stats.full_slab_count, stats.slab_count);
    REQUIRE(stats.reclaimable_bytes <= stats.estimated_rss_bytes && stats.reclaimable_slab_count <= stats.slab_count,
            "epoch %" PRIu64 ": more reclaimable than there is", epoch);
    *live += stats.live_objects;
    if (!by_class) {
        return true;
    }
    uint64_t class_live = 0;
    uint64_t class_allocated = 0;
    size_t classes = slab_class_count();
    for (size_t i = 0; i < classes + 2; i++) {
        SlabEpochStats part;
        REQUIRE(slab_stats_epoch(allocator, class_at(i, classes), epoch, &part),
                "slab_stats_epoch of class %" PRIu32 " is false", class_at(i, classes));
        REQUIRE(part.allocated_objects_total - part.freed_objects_total == part.live_objects,
                "epoch %" PRIu64 ", class %" PRIu32 ": allocated - freed != live", epoch, class_at(i, classes));
        class_live += part.live_objects;
        class_allocated += part.allocated_objects_total;
    }
    REQUIRE(class_live == stats.live_objects, "epoch %" PRIu64 ": classes have %" PRIu64 " live, the epoch %" PRIu64,
            epoch, class_live, stats.live_objects);
    REQUIRE(class_allocated == stats.allocated_objects_total,
            "epoch %" PRIu64 ": classes allocated %" PRIu64 ", the epoch %" PRIu64, epoch, class_allocated,
            stats.allocated_objects_total);
    return true;
}

static bool check_epochs(SlabAllocator *allocator, const SlabGlobalStats *global, char *why, size_t capacity) {
    static _Thread_local EpochId ids[EPOCHS_CHECKED];
    size_t count = slab_epochs(allocator, ids, EPOCHS_CHECKED);
    REQUIRE(count == global->active_epoch_count + global->closing_epoch_count,
            "slab_epochs %zu != active %" PRIu64 " + closing %" PRIu64, count, global->active_epoch_count,
            global->closing_epoch_count);
    uint64_t live = 0;
    for (size_t i = 0; i < count && i < EPOCHS_CHECKED; i++) {
        if (!check_epoch(allocator, ids[i], i < EPOCHS_BY_CLASS, &live, why, capacity)) {
            return false;
        }
    }
    REQUIRE(count > EPOCHS_CHECKED || live == global->live_objects,
            "epochs have %" PRIu64 " live objects, the allocator %" PRIu64, live, global->live_objects);
    return true;
}

bool sup_identities(SlabAllocator *allocator, char *why, size_t capacity) {
    SlabGlobalStats global;
    REQUIRE(slab_stats_global(allocator, &global), "slab_stats_global is false");
    REQUIRE(global.version == SLAB_STATS_VERSION && global.class_count == slab_class_count(), "global: wrong header");
    struct totals sum = {0};
    size_t classes = slab_class_count();
    for (size_t i = 0; i < classes + 2; i++) {
        if (!check_class(allocator, class_at(i, classes), &sum, why, capacity)) {
            return false;
        }
    }
    REQUIRE(global.allocated_objects_total - global.freed_objects_total == global.live_objects,
            "global: allocated %" PRIu64 " - freed %" PRIu64 " != live %" PRIu64, global.allocated_objects_total,
            global.freed_objects_total, global.live_objects);
    REQUIRE(global.live_bytes <= global.committed_bytes, "global: live_bytes %" PRIu64 " > committed_bytes %" PRIu64,
            global.live_bytes, global.committed_bytes);
    REQUIRE(sum.live_objects == global.live_objects, "classes have %" PRIu64 " live objects, the allocator %" PRIu64,
            sum.live_objects, global.live_objects);
    REQUIRE(sum.live_bytes == global.live_bytes, "classes have %" PRIu64 " live bytes, the allocator %" PRIu64,
            sum.live_bytes, global.live_bytes);
    REQUIRE(sum.allocated == global.allocated_objects_total && sum.freed == global.freed_objects_total,
            "classes: %" PRIu64 " allocated, %" PRIu64 " freed; the allocator: %" PRIu64 ", %" PRIu64, sum.allocated,
            sum.freed, global.allocated_objects_total, global.freed_objects_total);
    REQUIRE(sum.committed_bytes + global.retained_bytes == global.committed_bytes,
            "in use %" PRIu64 " + retained %" PRIu64 " != committed %" PRIu64, sum.committed_bytes,
            global.retained_bytes, global.committed_bytes);
    REQUIRE(sum.partial == global.total_partial_slabs && sum.full == global.total_full_slabs,
            "classes: %" PRIu64 " partial, %" PRIu64 " full slabs; the allocator: %" PRIu64 ", %" PRIu64, sum.partial,
            sum.full, global.total_partial_slabs, global.total_full_slabs);
    return check_epochs(allocator, &global, why, capacity);
}

bool sup_is_empty(SlabAllocator *allocator, char *why, size_t capacity) {
    SlabGlobalStats global;
    REQUIRE(slab_stats_global(allocator, &global), "slab_stats_global is false");
    REQUIRE(global.live_objects == 0 && global.live_bytes == 0, "%" PRIu64 " objects, %" PRIu64 " bytes still live",
            global.live_objects, global.live_bytes);
    REQUIRE(global.committed_bytes == global.retained_bytes,
            "nothing is live, but committed %" PRIu64 " != retained %" PRIu64, global.committed_bytes,
            global.retained_bytes);
    return true;
}

void sup_check_identities(SlabAllocator *allocator) {
    char why[256] = "";
    ts_check walk;
    SUP_CHECK(sup_identities(allocator, why, sizeof why), "%s", why);
    SUP_CHECK(ts_check_all(&walk, false), "%s", walk.why);
}

void sup_check_empty(SlabAllocator *allocator) {
    char why[256] = "";
    SUP_CHECK(sup_is_empty(allocator, why, sizeof why), "%s", why);
}

int sup_end_only(SlabAllocator *allocator) {
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
    return ts_pool_used_units() != 0;
}

uint64_t sup_live_objects(SlabAllocator *allocator) {
    SlabGlobalStats global;
    return slab_stats_global(allocator, &global) ? global.live_objects : 0;
}

uint64_t sup_committed_bytes(SlabAllocator *allocator) {
    SlabGlobalStats global;
    return slab_stats_global(allocator, &global) ? global.committed_bytes : 0;
}
