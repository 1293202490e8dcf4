/* Many small scopes of one allocator, whose first slabs are pieces from the first one on. */
#ifndef SUP_SMALL_SCOPES_H
#define SUP_SMALL_SCOPES_H

#include "check.h"
#include "identities.h"
#include "pattern.h"
#include "unit.h"

#include "bins.h"
#include "errands.h"
#include "supply/supply.h"
#include "walk/check_pool.h"

enum { MANY = 200 };

static SlabAllocator *allocator;
static ts_allocator *record;
static EpochDomain *domains[MANY];
static char *objects[MANY];

static int start(void **state) {
    (void)state;
    ts_pieces_after = 0;
    SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF}; /* with care there are no pieces */
    allocator = slab_allocator_create_ex(&options);
    record = ts_allocator_find(ts_token(allocator));
    return record == NULL;
}

static int stop(void **state) {
    (void)state;
    slab_allocator_free(allocator);
    slab_thread_idle();
    return ts_pool_used_units() != 0;
}

static uint32_t slab_of(const void *p) {
    uint64_t entry;
    return unit_of(p, &entry);
}

static void *one_object(EpochDomain *domain, size_t size) {
    SUP_CHECK(epoch_domain_enter(domain), "epoch_domain_enter");
    void *p = slab_alloc(size);
    SUP_CHECK(p && epoch_domain_exit(domain), "slab_alloc");
    return p;
}

static void make_many(unsigned flags, size_t size) {
    for (unsigned i = 0; i < MANY; i++) {
        domains[i] = epoch_domain_create_ex(allocator, NULL, flags);
        objects[i] = one_object(domains[i], size);
        sup_pattern_fill(objects[i], size, i);
    }
}

static void end_many(void) {
    for (unsigned i = 0; i < MANY; i++) {
        epoch_domain_destroy(domains[i]);
    }
}

static uint64_t cut_units(void) { return ts_load_relaxed(&record->cut_units); }

static void all_goes_back(void) {
    sup_check_identities(allocator);
    sup_check_empty(allocator);
    (void)slab_trim(allocator);
    assert_int_equal(cut_units(), 0);
    SlabGlobalStats global;
    assert_true(slab_stats_global(allocator, &global));
    assert_int_equal(global.committed_bytes, 0);
}

#endif
