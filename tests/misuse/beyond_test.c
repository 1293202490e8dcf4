/*
 * Places that were never used: above the mark of their part (region/region.h), where the metadata is not readable.
 * Every call that takes a pointer or a handle refuses them without an access, before the first allocation, after it,
 * and when the mark has risen.
 */
#include "check.h"
#include "identities.h"
#include "rng.h"
#include "unit.h"

#include "observe/diagnose.h"
#include "ownership/ownership.h"
#include "region/region.h"
#include "slab/slab.h"

#include <errno.h>
#include <string.h>

static void refuse_pointer(SlabAllocator *allocator, EpochDomain *domain, void *p) {
    SUP_CHECK(!slab_free(allocator, p) && !slab_owns(allocator, p), "%p is no object", p);
    SUP_CHECK(slab_usable_size(allocator, p) == 0 && slab_handle_of(allocator, p) == SLAB_HANDLE_NONE, "%p", p);
    SUP_CHECK(slab_realloc(allocator, p, 100) == NULL && errno == EINVAL, "%p", p);
    SUP_CHECK(domain == NULL || slab_promote(domain, p) == NULL, "%p", p);
    ts_text line = {.used = 0};
    ts_diagnose_pointer(&line, (uintptr_t)allocator, p); /* the message of on_misuse */
    SUP_CHECK(line.used > 0, "%p: nothing is said", p);
}

static void refuse_handle(SlabAllocator *allocator, SlabHandle handle) {
    SUP_CHECK(!free_obj(allocator, handle), "%llx", (unsigned long long)handle);
    SUP_CHECK(slab_handle_get(allocator, handle) == NULL, "%llx", (unsigned long long)handle);
    ts_text line = {.used = 0};
    ts_diagnose_handle(&line, (uintptr_t)allocator, handle);
    SUP_CHECK(line.used > 0, "%llx: nothing is said", (unsigned long long)handle);
}

/* Units of a part from its mark to its end, the next ones closely. */
static void sweep(SlabAllocator *allocator, EpochDomain *domain, struct sup_rng *rng) {
    static const uint64_t kind[] = {5, TS_COUNT_SCOPE, TS_COUNT_SPAN, TS_HANDLE_FAR};
    for (unsigned part = 0; part < TS_PARTS; part++) {
        const ts_part *p = &ts_region.part[part];
        if (p->units == 0) continue;
        uint64_t from = ts_region_marked_units(part), step = 1;
        for (uint64_t unit = from; unit<p->units; unit += step, step += unit> from + 5000 ? step : 0) {
            char *at = p->base + ts_part_bytes(part, unit);
            refuse_pointer(allocator, domain, at);
            refuse_pointer(allocator, domain, at + 16 * sup_rng_below(rng, TS_UNIT_ENTRIES) + sup_rng_below(rng, 2));
            if (part == TS_NORMAL && ts_is_outer((uint32_t)unit))
                refuse_handle(allocator, ts_handle_pack_outer((uint32_t)unit, (uint32_t)sup_rng_below(rng, 4),
                                                              (uint32_t)sup_rng_below(rng, TS_UNIT_ENTRIES)));
            for (unsigned k = 0; k < 4; k++)
                refuse_handle(allocator, unit << 42 | sup_rng_below(rng, 4) << 18 |
                                             sup_rng_below(rng, TS_UNIT_ENTRIES) << 8 | kind[k] << 2 |
                                             TS_HANDLE_FORMAT);
        }
        refuse_pointer(allocator, domain, p->base + ts_part_bytes(part, p->units) - 16);
    }
    for (unsigned i = 0; i < SUP_SCALED(20000u); i++) { /* metadata, all of the reservation, and any handle */
        refuse_pointer(allocator, domain,
                       ts_region.part[0].scope_bits +
                           16 * sup_rng_below(rng, (size_t)ts_region.part[0].units * TS_UNIT_BYTES / 32));
        refuse_handle(allocator, sup_rng_next(rng) | UINT64_C(1) << 63);
    }
}

static void nothing_beyond_the_mark_is_read(void **state) {
    (void)state;
    struct sup_rng rng = {1};
    int local = 0;
    SUP_CHECK(!slab_free(NULL, &local) && slab_handle_get(NULL, 12345) == NULL, "before the start");
    SUP_CHECK(!free_obj(NULL, UINT64_MAX) && !slab_owns(NULL, &local), "before the start");
    SlabAllocator *allocator = slab_allocator_create();
    SUP_CHECK(allocator != NULL, "slab_allocator_create");
    sweep(allocator, NULL, &rng); /* all marks are zero */
    EpochDomain *domain = epoch_domain_create(allocator);
    void *normal = slab_malloc(allocator, 100),
         *in_domain = slab_malloc_epoch(allocator, 100, epoch_domain_epoch(domain));
    SUP_CHECK(domain && normal && in_domain, "objects");
    sweep(allocator, domain, &rng); /* that of part FAR is */
    void *small = slab_malloc(allocator, 16), *large = slab_malloc(allocator, (size_t)48 << 20);
    SUP_CHECK(small && large, "objects");
    sweep(allocator, domain, &rng);
    SUP_CHECK(slab_free(allocator, normal) && slab_free(allocator, small) && slab_free(allocator, large), "slab_free");
    sweep(allocator, domain, &rng);
    epoch_domain_destroy(domain);
    sup_check_identities(allocator);
    slab_allocator_free(allocator);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_beyond_the_mark_is_read)};
    return cmocka_run_group_tests_name("misuse.beyond", tests, NULL, NULL);
}
