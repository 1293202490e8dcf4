/* A new configuration replaces an old one, whose readers finish with it: an epoch for each, closed, and drained by its readers. */
#include <stdio.h>
#include <string.h>

#include <tslab/tslab.h>

typedef struct Configuration {
    EpochId epoch;
    char *name;
} Configuration;

static bool load(SlabAllocator *allocator, Configuration *configuration, const char *name) {
    configuration->epoch = epoch_open(allocator, name, EPOCH_CHURN);
    configuration->name = slab_malloc_epoch(allocator, strlen(name) + 1, configuration->epoch);
    return configuration->name && strcpy(configuration->name, name);
}

int main(void) {
    SlabAllocator *allocator = slab_allocator_default();
    Configuration old, new;
    if (!load(allocator, &old, "monday") || !load(allocator, &new, "tuesday")) return 1;
    epoch_close(allocator, old.epoch); /* no new objects; a reader still has the name */
    if (epoch_state(allocator, old.epoch) != EPOCH_CLOSING) return 1;
    printf("a reader of %s is still there\n", old.name);
    slab_free(allocator, old.name); /* the last object: the epoch is over, and its memory goes back */
    if (epoch_state(allocator, old.epoch) != EPOCH_CLOSED) return 1;
    return epoch_destroy(allocator, new.epoch) ? 0 : 1; /* without waiting for anybody */
}
