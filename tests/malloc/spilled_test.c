/*
 * Objects that a library allocates by malloc in a domain that captures, and keeps, leave memory for zones with the
 * domain's epoch. free and its relatives answer of them without touching them, in the hard mode too; they come back
 * with their bytes. Argument: a file for the zones, which is made.
 */
#define _GNU_SOURCE
#include "malloc_test.h"

#include <tslab/malloc.h>
#include <tslab/stats.h>
#include <tslab/zones.h>

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { OBJECTS = 400 };
static char *kept[OBJECTS];

static size_t bytes_of(unsigned i) { return i % 50 == 0 ? 20000 : 16 + i * 13 % 3000; }

/* By the allocator and by malloc's, which counts objects without an owner. */
static uint64_t refused(SlabAllocator *a) {
    SlabGlobalStats stats, of_malloc;
    CHECK(slab_stats_global(a, &stats) && slab_stats_global(slab_malloc_allocator(), &of_malloc));
    return stats.rejected_frees_total + (a == slab_malloc_allocator() ? 0 : of_malloc.rejected_frees_total);
}

static void check(unsigned i) {
    for (size_t k = 0; k < bytes_of(i); k++) CHECK(kept[i][k] == (char)(i + k));
}

/* The epoch of a domain that has drained; its objects live on. */
static EpochId capture(SlabAllocator *a) {
    EpochDomain *d = epoch_domain_create_ex(a, "kept", EPOCH_DOMAIN_CAPTURE | EPOCH_DOMAIN_DRAIN);
    CHECK(d && epoch_domain_enter(d));
    EpochId epoch = epoch_domain_epoch(d);
    for (unsigned i = 0; i < OBJECTS; i++) {
        kept[i] = malloc(bytes_of(i));
        CHECK(kept[i] != NULL);
        for (size_t k = 0; k < bytes_of(i); k++) kept[i][k] = (char)(i + k);
    }
    CHECK(epoch_domain_exit(d));
    epoch_domain_destroy(d);
    CHECK(epoch_state(a, epoch) == EPOCH_CLOSING);
    return epoch;
}

static void *free_in_a_thread(void *p) {
    free(p);
    return NULL;
}

static void test_spilled(SlabAllocator *a, SlabZones *zones) {
    EpochId epoch = capture(a);
    uint64_t before = refused(a);
    pthread_t thread;
    CHECK(epoch_spill(a, epoch, zones) && epoch_state(a, epoch) == EPOCH_SPILLED);
    CHECK(malloc_usable_size(kept[1]) >= bytes_of(1));
    errno = 0;
    CHECK(realloc(kept[1], hidden_size(100000)) == NULL && errno == ESTALE);
    CHECK(reallocarray(kept[2], 3, 5000) == NULL && errno == ESTALE);
    errno = 7;
    free(kept[3]);
    free(kept[50]); /* has memory of its own */
    CHECK(errno == 7);
    CHECK(pthread_create(&thread, NULL, free_in_a_thread, kept[4]) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(refused(a) == before && epoch_state(a, epoch) == EPOCH_SPILLED);
    free(hidden(kept[3])); /* twice */
    CHECK(refused(a) == before + 1);
    CHECK(epoch_load(a, epoch) && epoch_state(a, epoch) == EPOCH_CLOSING);
    for (unsigned i = 5; i < OBJECTS; i++)
        if (i != 50) check(i);
    /* Moves: its epoch takes none any more. */
    char *moved = realloc(kept[1], 5000);
    CHECK(moved && moved != kept[1]);
    for (size_t k = 0; k < bytes_of(1); k++) CHECK(moved[k] == (char)(1 + k));
    free(moved);
    for (unsigned i = 0; i < OBJECTS; i++)
        if (i != 1 && i != 3 && i != 4 && i != 50) free(kept[i]);
    CHECK(refused(a) == before + 1 && epoch_state(a, epoch) == EPOCH_CLOSED);
}

/* The last free of a lent object ends the epoch; and so does its destruction, after which all of it is stale. */
static void test_ends(SlabAllocator *a, SlabZones *zones) {
    EpochId epoch = capture(a);
    uint64_t before = refused(a);
    CHECK(epoch_spill(a, epoch, zones));
    for (unsigned i = 0; i < OBJECTS; i++) free(kept[i]);
    CHECK(epoch_state(a, epoch) == EPOCH_CLOSED && refused(a) == before);
    epoch = capture(a);
    CHECK(epoch_spill(a, epoch, zones) && epoch_destroy(a, epoch));
    free(hidden(kept[7]));
    CHECK(refused(a) == before + 1);
}

int main(int argc, char **argv) {
    char where[4200];
    SlabAllocator *mine = slab_malloc_allocator(), *other = slab_allocator_create();
    CHECK(argc == 2 && mine && other);
    (void)unlink(argv[1]);
    snprintf(where, sizeof where, "emulated:%s?zones=16&zone_size=4M", argv[1]);
    SlabZones *zones = slab_zones_open(where, NULL);
    CHECK(zones != NULL);
    test_spilled(mine, zones);
    test_spilled(other, zones);
    test_ends(mine, zones);
    test_ends(other, zones);
    CHECK(slab_zones_close(zones));
    (void)unlink(argv[1]);
    return 0;
}
