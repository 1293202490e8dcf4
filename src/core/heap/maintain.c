/*
 * Maintenance. A thread rests if it has needed no slab since the last look, which its counters tell: then what it keeps warm goes to
 * the allocator, and what others have left to it is done. When it has rested for five and for ten seconds its bins are looked at, twice, so
 * that those in which it has allocated nothing in between let go of their empty slabs; its next call does the same with what its magazines
 * hold. A thread that works is left alone. What is over the limit goes back to the system in small steps, with a look at the clock after
 * each.
 *
 * What could go wrong: memory is taken from a thread that works, which then fetches it anew, or the caller is held up.
 * It does not: a thread is visited only if its counters stood still since the last look, and holding a heap waits for
 * nobody (heap.h). And the thread frees and allocates meanwhile: in its magazine, in its claimed word and in slabs that have objects, all of
 * which are left alone. An empty slab has nothing that it could free, and it claims from none while its heap is held.
 */
#include "heap/maintain.h"

#include "os/os.h"

#define STEP_UNITS 64u      /* 1 MiB, some 100 us */
#define REST_NS 200000000u  /* since the last look: below that it says nothing */
#define SHED_NS 5000000000u /* from one look at its bins to the next: as a thread looks at its own (epoch/decay.c) */
#define SHEDS 2u            /* the first only notes what was allocated */

static ts_share *share_of(const ts_heap *heap, const ts_allocator *allocator) {
    /* Another thread's shares are looked at from the allocator's side, whose list is for readers. */
    ts_share *share = ts_load_acquire(&allocator->shares);
    while (share && share->heap != heap) share = share->allocator_next;
    return share;
}

/* Rises with each slab that the thread takes, looks for or gives back, and is another with each foreign free that waits for it. */
static uint64_t work_of(const ts_heap *heap, const ts_share *share) {
    uint64_t sum = ts_load_relaxed(&heap->queue);
    for (unsigned k = 0; share && k < TS_COUNT_KINDS; k++)
        sum += ts_load_relaxed(&share->count[k].slow_path_hits) + ts_load_relaxed(&share->count[k].new_slab_count) +
               ts_load_relaxed(&share->count[k].ended);
    return sum + (share ? ts_share_warm_units(share) : 0) + 1;
}

static bool keeps_any(const ts_heap *heap, const ts_share *share) {
    return ts_heap_is_waited_for(heap) || ts_heap_is_called(heap) || ts_load_relaxed(&heap->unflushed) ||
           (share && ts_share_warm_units(share) != 0);
}

/* For how long it has rested, 0: it does not. Another thread that looks at the same moment notes the same, or a little later. */
static uint64_t rested(ts_seen *seen, uint64_t work, uint64_t now) {
    if (ts_load_relaxed(&seen->work) == work) {
        uint64_t since = now - ts_load_relaxed(&seen->ns);
        return since >= REST_NS ? since : 0;
    }
    ts_store_relaxed(&seen->work, work);
    ts_store_relaxed(&seen->ns, now);
    ts_store_relaxed(&seen->sheds, 0);
    return 0;
}

static bool is_to_shed(uint32_t sheds, uint64_t since) { return sheds < SHEDS && since >= (sheds + 1) * SHED_NS; }

static void note_shed(ts_allocator *allocator, const ts_heap *heap) {
    if (!ts_allocator_read_begin(allocator, ts_load_relaxed(&allocator->token))) return;
    ts_share *share = share_of(heap, allocator);
    if (share) ts_fetch_add_relaxed(&share->seen.sheds, 1);
    ts_allocator_read_end(allocator);
}

/* false: the allocator has ended. */
static bool look_at(ts_heap *heap, ts_allocator *allocator) {
    if (!ts_allocator_read_begin(allocator, ts_load_relaxed(&allocator->token))) return false;
    ts_share *share = share_of(heap, allocator);
    uint64_t since = rested(share ? &share->seen : &heap->seen, work_of(heap, share), ts_os->wall_ns());
    uint32_t looks = share ? ts_load_relaxed(&share->seen.sheds) : SHEDS;
    bool keeps = keeps_any(heap, share), sheds = is_to_shed(looks, since);
    ts_allocator_read_end(allocator);
    if (since == 0) return true;
    if (!sheds && keeps) ts_heap_visit(heap, allocator);
    if (sheds && ts_heap_visit_resting(heap, allocator, looks == SHEDS - 1)) note_shed(allocator, heap);
    return true;
}

void ts_allocator_maintain(ts_allocator *allocator, uint64_t until) {
    for (ts_heap *heap = ts_heaps(); heap; heap = heap->next) {
        if (heap == ts_thread.heap || ts_load_relaxed(&heap->state) == TS_HEAP_LOST) continue;
        if (!look_at(heap, allocator)) return;
        if (ts_os->wall_ns() >= until) break;
    }
    ts_note_warm(allocator, 0);
    ts_allocator_fall(allocator);
    while (ts_allocator_settle(allocator, STEP_UNITS) != 0 && ts_os->wall_ns() < until) {
    }
}
