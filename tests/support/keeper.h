/*
 * A keeper of lent slabs, in memory: for tests of the rest of the library. The bytes of the slabs are copied when they
 * are lent, and written back before the loan ends.
 */
#ifndef TEST_KEEPER_H
#define TEST_KEEPER_H

#include "check.h"

#include "os/os.h"
#include "region/region.h"
#include "spill/spill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct keeper {
    ts_spill spill;
    ts_spill_extent extent[4096];
    char *bytes;
} keeper;

static void (*keeper_copied)(void); /* called once, before they are sent */
static inline void keep(keeper *k, ts_allocator *allocator, EpochId epoch) {
    k->spill = (ts_spill){.extent = k->extent, .room = sizeof k->extent / sizeof *k->extent};
    SUP_CHECK(ts_spill_begin(ts_load_relaxed(&allocator->token), epoch, &k->spill), "begin: %s", strerror(errno));
    char *to = k->bytes = malloc((size_t)k->spill.units * TS_UNIT_BYTES);
    for (size_t i = 0; i < k->spill.extents; i++) {
        size_t bytes = (size_t)k->extent[i].slabs * TS_UNIT_BYTES;
        memcpy(to, ts_unit_address(k->extent[i].unit), bytes);
        to += bytes;
    }
    void (*fn)(void) = keeper_copied;
    keeper_copied = NULL;
    if (fn) fn();
    SUP_CHECK(ts_spill_send(&k->spill), "send: %s", strerror(errno));
}

static inline void bring_back(keeper *k) {
    const char *from = k->bytes;
    SUP_CHECK(ts_spill_fetch(&k->spill), "fetch: %s", strerror(errno));
    for (size_t i = 0; i < k->spill.extents; i++) {
        size_t bytes = (size_t)k->extent[i].slabs * TS_UNIT_BYTES;
        memcpy(ts_unit_address(k->extent[i].unit), from, bytes);
        from += bytes;
    }
    ts_spill_return(&k->spill);
    free(k->bytes);
}

#endif
