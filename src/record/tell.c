/* What hooks say: events with their stacks. The thread is in a hook that record_begin has let in. */
#define _GNU_SOURCE
#include "record/inside.h"

#include <string.h>

static unsigned power_of(size_t align) { return align > 1 ? (unsigned)__builtin_ctzll(align) : 0; }

static bool is_all(void) { return record_memory->sample == SAMPLE_ALL; }

void record_birth(const void *object, size_t size, size_t align, uint64_t scope, bool has_scope) {
    raw_event e = {.address = (uintptr_t)object, .size = size, .scope = scope, .align_log2 = (uint8_t)power_of(align)};
    e.kind = has_scope ? RAW_SCOPED : e.align_log2 ? RAW_ALIGNED : RAW_ALLOC;
    e.stack = record_stack();
    e.time_ns = record_now();
    if (!is_all()) record_add_sampled(object);
    record_put(&e);
}

void record_death_at(const void *object, uint64_t time_ns) {
    raw_event e = {.time_ns = time_ns, .address = (uintptr_t)object, .kind = RAW_FREE};
    if (!is_all() && !record_remove_sampled(object)) return;
    e.stack = record_stack();
    if (!time_ns) e.time_ns = record_now();
    record_put(&e);
}

void record_death(const void *object) { record_death_at(object, 0); }

bool record_leave(const void *object) {
    raw_event e = {.address = (uintptr_t)object, .kind = RAW_OUT};
    if (!is_all() && !record_remove_sampled(object)) return false;
    e.time_ns = record_now();
    record_put(&e);
    return true;
}

void record_arrive(const void *object, size_t size) {
    raw_event e = {.address = (uintptr_t)object, .size = size, .kind = RAW_IN};
    if (!is_all()) record_add_sampled(object);
    e.stack = record_stack();
    e.time_ns = record_now();
    record_put(&e);
}

void record_scope(uint8_t kind, uint64_t scope, const char *label) {
    raw_event e = {.address = scope, .kind = kind};
    if (kind == RAW_SCOPE_CREATE || kind == RAW_SCOPE_ENTER) e.stack = record_stack();
    e.time_ns = record_now();
    if (kind == RAW_SCOPE_CREATE)
        record_put_text(&e, label ? label : "", label ? strnlen(label, 256) : 0);
    else
        record_put(&e);
}
