/*
 * No page goes back to the system twice within a second while a program's work changes: small objects, large ones,
 * small ones again, nights with little to do, by a clock that the test moves. Each purge of data is noted by its pages.
 */
#include "check.h"
#include "identities.h"
#include "rng.h"
#include "unit.h"

#include "os/os.h"
#include "region/region.h"

#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
#define OPERATION_NS 1000u /* and one for each byte: so no phase is shorter than a second */
#define PAGE ((uintptr_t)4096)

enum { SLOTS = 1 << 19, PAGES = 1 << 17, NIGHT_OBJECTS = 20 };

static ts_os_table table;
static uint64_t now_ns;
static uint64_t purged_ns[PAGES]; /* when, 0: never */
static uint64_t purged_pages, twice;
static void *slot[SLOTS];
static size_t slot_bytes[SLOTS];
static SlabAllocator *allocator;
static struct sup_rng rng;

static uint64_t test_time(void) { return now_ns; }

static bool noting_purge(void *address, size_t bytes) {
    uintptr_t from = (uintptr_t)address - (uintptr_t)ts_region.part[TS_NORMAL].base;
    for (uintptr_t page = from / PAGE; page < (from + bytes) / PAGE && page < PAGES; page++) {
        purged_pages++;
        twice += purged_ns[page] != 0 && now_ns - purged_ns[page] < SECOND_NS;
        purged_ns[page] = now_ns;
    }
    return ts_os_native.purge(address, bytes);
}

static void put(size_t at, size_t bytes) {
    SUP_CHECK(slab_free(allocator, slot[at]), "slab_free");
    slot[at] = slab_malloc(allocator, bytes);
    SUP_CHECK(slot[at] != NULL, "an object of %zu bytes", bytes);
    *(char *)slot[at] = 1;
    slot_bytes[at] = bytes;
    now_ns += OPERATION_NS + bytes;
}

static size_t between(size_t least, size_t most) { return least + (size_t)sup_rng_below(&rng, most - least + 1); }

/* As `work` of benchmarks/programs/phases.c. */
static void work(size_t limit, unsigned replaced, size_t least, size_t most) {
    size_t used = 0, bytes = 0;
    while (bytes < limit && used < SLOTS) {
        put(used, between(least, most));
        bytes += slot_bytes[used++];
    }
    while (replaced-- > 0) put((size_t)sup_rng_below(&rng, used), between(least, most));
    while (used > 0) {
        SUP_CHECK(slab_free(allocator, slot[--used]), "slab_free");
        slot[used] = NULL;
        now_ns += OPERATION_NS;
    }
}

static void night(unsigned seconds) {
    for (unsigned i = 0; i < seconds * 20; i++) {
        for (unsigned k = 0; k < NIGHT_OBJECTS; k++) put(k, between(16, 512));
        for (unsigned k = 0; k < NIGHT_OBJECTS; k++) {
            SUP_CHECK(slab_free(allocator, slot[k]), "slab_free");
            slot[k] = NULL;
        }
        now_ns += SECOND_NS / 20;
    }
}

static void work_that_changes(void **state) {
    (void)state;
    SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF};
    table = ts_os_native;
    table.purge = noting_purge;
    table.wall_ns = table.coarse_ns = test_time;
    now_ns = ts_os_native.wall_ns();
    ts_os = &table;
    rng.state = 42;
    allocator = slab_allocator_create_ex(&options);
    const size_t mib = (size_t)1 << 20;
    work(96 * mib, 500000, 16, 512);
    work(96 * mib, 3000, 65536, mib);
    work(96 * mib, 500000, 16, 512);
    night(15);
    work(96 * mib, 300000, 16, 4096);
    night(15);
    SUP_CHECK(purged_pages > 16 * mib / PAGE, "%llu pages were purged", (unsigned long long)purged_pages);
    SUP_CHECK(twice == 0, "%llu of %llu pages were purged twice within a second", (unsigned long long)twice,
              (unsigned long long)purged_pages);
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
    ts_os = &ts_os_native;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(work_that_changes)};
    return cmocka_run_group_tests_name("supply.purge_rate", tests, NULL, NULL);
}
