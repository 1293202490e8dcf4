#include "advice/advice.h"
#include "api/api.h"
#include "diagnose/diagnose.h"
#include "supply/supply.h"

#include "api/runtime.h"
#include "cache/cache.h"
#include "cache/free.h"
#include "object/object.h"
#include "observe/observe.h"
#include "os/os.h"
#include "region/region.h"
#include "spill/spill.h"

#include <tslab_build.h>

#include <errno.h>

const char ts_private_build[] = TSLAB_BUILD;

void ts_private_ask_before_refusal(SlabAllocator *allocator, bool (*refused)(void *p)) {
    ts_refusals.ask = refused;
    ts_store_release(&ts_refusals.token, ts_token(allocator)); /* partner: ts_free_refused */
}

static void (*capture_changed)(SlabAllocator *, EpochId); /* constant once ts_capture is set */

static void tell_of_capture(uintptr_t token, EpochId epoch) { capture_changed(ts_public(token), epoch); }

void ts_private_capture(void (*changed)(SlabAllocator *allocator, EpochId epoch)) {
    capture_changed = changed;
    ts_store_release(&ts_capture, tell_of_capture); /* partners: ts_domain_open, ts_domain_follow_capture */
}

bool ts_private_capture_pause(void) {
    bool captures = ts_load_acquire(&ts_capture) != NULL;
    if (captures) tell_of_capture(0, EPOCH_NONE);
    return captures;
}

void ts_private_capture_go_on(const bool *paused) {
    if (*paused) ts_domain_follow_capture();
}

SlabAllocator *ts_private_owner(const void *p) { return ts_public(ts_object_owner(p)); }

bool ts_private_is_data(const void *p) { return ts_is_data(p); }
bool ts_private_is_data_limited(void) { return ts_pool_is_data_limited(); }

void ts_private_refuse(SlabAllocator *allocator, const char *call, const void *p, const char *why) {
    ts_misuse_free(ts_token(allocator), call, p, NULL, why);
}

void ts_private_tell(SlabAllocator *allocator, const char *call, const void *p, const char *why) {
    ts_misuse(ts_token(allocator), call, p, NULL, why);
}

void ts_private_report(SlabAllocator *allocator, const char *call, const void *p, const char *why) {
    ts_misuse_mention(ts_token(allocator), call, p, why);
}

int ts_private_misuse_mode(SlabAllocator *allocator) { return ts_misuse_mode(ts_token(allocator)); }

void ts_private_start_page(void) { ts_page_start(ts_settings_want_page()); }

bool ts_private_has_heap(void) { return ts_thread.heap != NULL; }

void ts_private_own_code(const void *start, size_t bytes) { ts_stacks_leave_out(start, bytes); }

bool ts_private_threads_rest(void) { return ts_own_threads_rest(); }
void ts_private_threads_go_on(void) { ts_own_threads_go_on(); }

void ts_private_signals_block(void *before) { ts_own_signals_block(before); }
void ts_private_threads_count(int more) { ts_own_threads_count(more); }
void ts_private_last_thread_look(void) { ts_last_thread_look(); }

uint32_t ts_private_use(const void *p) {
    const ts_part *part = &ts_region.part[TS_NORMAL];
    return ts_load_relaxed(&ts_slab_in(part, (uint32_t)(ts_entry_of(part, p) >> TS_ENTRY_UNIT_SHIFT))->tag);
}

bool ts_private_is_own(SlabAllocator *allocator, const void *p) {
    ts_looked seen;
    return ts_fast_own_bytes(&ts_thread, ts_token(allocator), p, &seen) != 0;
}

bool ts_private_find(SlabAllocator *allocator, const void *p, ts_private_place *place) {
    ts_object object;
    if (!ts_object_at(ts_token(allocator), p, &object)) return false;
    place->bytes = object.bytes;
    place->epoch = object.epoch;
    place->use = ts_load_relaxed(&ts_slab_at(object.unit)->tag);
    place->span = object.kind == TS_COUNT_SPAN || (object.kind >= TS_LARGE_CLASS && object.kind < TS_CLASSES);
    return true;
}

bool ts_private_fills(SlabAllocator *allocator) {
    const ts_allocator *a = ts_allocator_find(ts_token(allocator));
    return a && a->settings.poison_on_free;
}

size_t ts_private_slot_bytes(SlabAllocator *allocator, size_t size) {
    const ts_allocator *a = ts_allocator_find(ts_token(allocator));
    if (!a || size > ts_class_bytes[TS_LARGE_CLASS - 1] || size > ts_allocator_class_bytes(a)) return 0;
    return ts_class_bytes[ts_class_aligned(size, 16)];
}

_Static_assert(TS_PRIVATE_UNIT == TS_UNIT_BYTES, "a span begins with a unit");

/* Units of so many that there are no room for, beside those used, among `most`. */
static uint64_t lacking_of(uint64_t units, uint64_t used, uint64_t most) {
    if (units > most) return UINT64_MAX;
    return used + units > most ? used + units - most : 0;
}

size_t ts_private_useful_bytes(SlabAllocator *allocator, size_t bytes, size_t freeable) {
    const ts_allocator *a = ts_allocator_find(ts_token(allocator));
    uint64_t units = bytes / TS_UNIT_BYTES + 1, budget = a ? ts_allocator_budget_units(a) : 0;
    uint64_t most = ts_region_part_end(TS_NORMAL), useful = lacking_of(units, ts_pool_used(TS_NORMAL), most);
    uint64_t of_budget = budget ? lacking_of(units, ts_load_relaxed(&a->committed_units), budget) : 0;
    if (useful < of_budget) useful = of_budget;
    if (useful == 0) {
        bool in_pieces = lacking_of(units, ts_pool_highest(TS_NORMAL), most) != 0;
        useful = in_pieces && units > freeable / TS_UNIT_BYTES ? freeable / TS_UNIT_BYTES : units;
    }
    return useful <= freeable / TS_UNIT_BYTES ? (size_t)useful * TS_UNIT_BYTES : 0;
}

char *ts_private_region(size_t *bytes) {
    const ts_part *part = &ts_region.part[TS_NORMAL];
    ts_store_relaxed(&ts_region.far_bytes, SIZE_MAX);
    ts_pool_shrink(TS_NORMAL, TS_NEAR_UNITS);
    *bytes = (size_t)ts_region_part_end(TS_NORMAL) * TS_UNIT_BYTES;
    return part->base;
}
/* ---- spills ----------------------------------------------------------------------------------------------------- */

bool ts_private_spill_wants(uint32_t unit) { return ts_load_acquire(ts_unit_word(unit)) != 0; }
void *ts_private_unit_address(uint32_t unit) { return ts_unit_address(unit); }

bool ts_private_object_of(SlabAllocator *allocator, SlabHandle handle, ts_private_object *out) {
    ts_object object;
    if (!ts_object_of_handle(ts_token(allocator), handle, &object)) return false;
    *out = (ts_private_object){.epoch = object.epoch,
                               .address = object.address,
                               .unit = object.unit,
                               .offset = object.entry_in_unit * 16u,
                               .bytes = object.bytes,
                               .stays = ts_is_piece(object.unit)};
    return true;
}
