#define TSLAB_BUILDS 1 /* the names of stats.h are functions here */
#include "core/read.h"
#include "observe/observe.h"
#include "observe/snapshot.h"
#include "observe/stack_totals.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

void ts_copy_out(void *out, size_t bytes, const void *from, size_t filled) {
    size_t both = bytes < filled ? bytes : filled;
    memcpy(out, from, both);
    memset((char *)out + both, 0, bytes - both);
}

size_t slab_class_count(void) { return TS_CLASSES; }

uint32_t slab_class_size(uint32_t cls) { return cls < TS_CLASSES ? ts_class_bytes[cls] : 0; }

/* From the sizes, not from the lookup table, which is made with the first allocator. */
int slab_class_of(size_t size) {
    for (unsigned cls = 0; cls < TS_CLASSES; cls++)
        if (size <= ts_class_bytes[cls]) return (int)cls;
    return -1;
}

bool slab_stats_global_sized(SlabAllocator *allocator, SlabGlobalStats *out, size_t bytes) {
    ts_allocator *a = out ? ts_read_begin(allocator) : NULL;
    if (!a) return false;
    ts_snapshot snapshot;
    SlabGlobalStats stats;
    ts_snapshot_take(a, &snapshot, NULL, NULL, NULL);
    ts_snapshot_global(&snapshot, &stats, true);
    ts_read_end(a);
    ts_copy_out(out, bytes, &stats, sizeof stats);
    return true;
}

bool slab_stats_class_sized(SlabAllocator *allocator, uint32_t cls, SlabClassStats *out, size_t bytes) {
    ts_allocator *a = out ? ts_read_begin(allocator) : NULL;
    if (!a) return false;
    ts_snapshot snapshot;
    SlabClassStats stats;
    ts_snapshot_take(a, &snapshot, NULL, NULL, NULL);
    bool known = ts_snapshot_class(&snapshot, cls, &stats);
    ts_read_end(a);
    if (known) ts_copy_out(out, bytes, &stats, sizeof stats);
    return known;
}

bool slab_stats_epoch_sized(SlabAllocator *allocator, uint32_t cls, EpochId epoch, SlabEpochStats *out, size_t bytes) {
    ts_allocator *a = out ? ts_read_begin(allocator) : NULL;
    if (!a) return false;
    SlabEpochStats stats;
    bool known = ts_snapshot_epoch(a, cls, epoch, &stats);
    ts_read_end(a);
    if (known) ts_copy_out(out, bytes, &stats, sizeof stats);
    return known;
}

bool slab_stats_thread_sized(SlabThreadStats *out, size_t bytes) {
    if (!out) return false;
    SlabThreadStats stats = ts_snapshot_thread();
    ts_copy_out(out, bytes, &stats, sizeof stats);
    return true;
}

/* The structures as they were in version 0.1, whatever they are now. */
#define BYTES_TO(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

bool slab_stats_global(SlabAllocator *allocator, SlabGlobalStats *out) {
    return slab_stats_global_sized(allocator, out, BYTES_TO(SlabGlobalStats, process_lock_waits));
}

bool slab_stats_class(SlabAllocator *allocator, uint32_t cls, SlabClassStats *out) {
    return slab_stats_class_sized(allocator, cls, out, BYTES_TO(SlabClassStats, recycle_rate_pct));
}

bool slab_stats_epoch(SlabAllocator *allocator, uint32_t cls, EpochId epoch, SlabEpochStats *out) {
    return slab_stats_epoch_sized(allocator, cls, epoch, out, BYTES_TO(SlabEpochStats, closing_for_ns));
}

SlabThreadStats slab_stats_thread(void) { return ts_snapshot_thread(); }
_Static_assert(sizeof(SlabThreadStats) == BYTES_TO(SlabThreadStats, free_cpu_ns_max),
               "what is returned by value cannot grow: slab_stats_thread_sized can");

/* Ends epochs that are over, which takes locks. A signal handler may have interrupted its thread inside of an
   operation or with a lock taken, and would wait for ever. It gets an answer that says to ask again. */
size_t slab_epochs(SlabAllocator *allocator, EpochId *out, size_t capacity) {
    const ts_allocator *a = ts_read_find(allocator);
    if (!a) return 0;
    return ts_snapshot_epochs(a, out, out ? capacity : 0);
}

size_t slab_stacks(SlabAllocator *allocator, EpochId epoch, SlabStackSample *out, size_t capacity) {
    ts_allocator *a = ts_read_begin(allocator);
    bool memory;
    if (!a) return 0;
    size_t count = ts_stacks_sum(a, ts_token(allocator), epoch, out, out ? capacity : 0, &memory);
    ts_read_end(a);
    if (!memory) errno = ENOMEM;
    return count;
}

size_t slab_stack_totals(SlabAllocator *allocator, SlabStackTotal *out, size_t capacity) {
    ts_allocator *a = ts_read_begin(allocator);
    if (!a) return 0;
    size_t count = ts_stack_totals_read(a, ts_token(allocator), out, out ? capacity : 0);
    ts_read_end(a);
    return count;
}

size_t slab_allocators(SlabAllocator **out, size_t capacity) {
    size_t found = 0;
    uint32_t i = 1;
    uintptr_t token;
    for (; ts_read_next(&i, &token); found++)
        if (out && found < capacity) out[found] = ts_public(token);
    return found;
}
