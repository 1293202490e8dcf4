/*
 * Maintenance. A thread rests if it has needed no slab since the last look, which its counters tell: then what it keeps warm goes to
 * the allocator, and what others have left to it is done. A thread that works is left alone. What is over the limit goes back
 * to the system in small steps, with a look at the clock after each.
 *
 * What could go wrong: memory is taken from a thread that works, which then fetches it anew, or the caller is held up.
 * It does not: a thread is visited only if its counters stood still since the last look, and holding a heap waits for
 * nobody (heap.h).
 */
#include "heap/maintain.h"

#include "os/os.h"

#define STEP_UNITS 64u     /* 1 MiB, some 100 us */
#define REST_NS 200000000u /* since the last look: below that it says nothing */

/* Rises with each slab that the thread takes, looks for or gives back, and is another with each foreign free that waits for it. */
static uint64_t work_of(const ts_heap *heap, const ts_allocator *allocator) {
    uint64_t sum = ts_load_relaxed(&heap->queue);
    /* Another thread's shares are looked at from the allocator's side, whose list is for readers. */
    for (const ts_share *s = ts_load_acquire(&allocator->shares); s; s = s->allocator_next) {
        if (s->heap != heap) continue;
        for (unsigned k = 0; k < TS_COUNT_KINDS; k++)
            sum += ts_load_relaxed(&s->count[k].slow_path_hits) + ts_load_relaxed(&s->count[k].new_slab_count) +
                   ts_load_relaxed(&s->count[k].ended);
        sum += ts_share_warm_units(s);
    }
    return sum + 1;
}

static bool keeps_any(const ts_heap *heap, const ts_allocator *allocator) {
    if (ts_heap_is_waited_for(heap) || ts_heap_is_called(heap) || ts_load_relaxed(&heap->unflushed)) return true;
    for (const ts_share *s = ts_load_acquire(&allocator->shares); s; s = s->allocator_next)
        if (s->heap == heap && ts_share_warm_units(s) != 0) return true;
    return false;
}

/* Since the last look. Another thread that looks at the same moment notes the same, or a little later. */
static bool rests(ts_heap *heap, const ts_allocator *allocator, uint64_t now) {
    uint64_t work = work_of(heap, allocator), index = ts_allocator_index(allocator);
    uint64_t seen = ts_load_relaxed(&heap->seen_work), at = ts_load_relaxed(&heap->seen_ns);
    uint64_t same = work * 4096 + index;
    if (seen == same) return now - at >= REST_NS;
    ts_store_relaxed(&heap->seen_work, same);
    ts_store_relaxed(&heap->seen_ns, now);
    return false;
}

void ts_allocator_maintain(ts_allocator *allocator, uint64_t until) {
    uintptr_t token = allocator->token;
    for (ts_heap *heap = ts_heaps(); heap; heap = heap->next) {
        if (heap == ts_thread.heap || ts_load_relaxed(&heap->state) == TS_HEAP_LOST) continue;
        if (!ts_allocator_read_begin(allocator, token)) return;
        bool visit = rests(heap, allocator, ts_os->wall_ns()) && keeps_any(heap, allocator);
        ts_allocator_read_end(allocator);
        if (visit) ts_heap_visit(heap, allocator);
        if (ts_os->wall_ns() >= until) break;
    }
    ts_note_warm(allocator, 0);
    while (ts_allocator_settle(allocator, STEP_UNITS) != 0 && ts_os->wall_ns() < until) {
    }
}
