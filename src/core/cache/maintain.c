/*
 * Maintenance. A thread RESTS if its counters are what they were at the last look: it has needed no slab since. Then
 * the memory that it retains goes to the allocator, and the jobs that others left to it are done. A thread that
 * works is left alone.
 *
 * When it has rested for five and for ten seconds, its bins are looked at. The first look notes what was allocated.
 * After the second one, bins in which the thread has allocated nothing in between let go of their empty slabs, and
 * the thread's next call does so with the objects of its magazines.
 *
 * Memory beyond the limit goes back to the system in small steps, with a look at the clock after each. Once nobody
 * has needed memory of the allocator for twelve seconds, all retained memory goes back, except the reserved part.
 * With a budget of the program's own, or where memory is kept, only memory beyond that does.
 *
 * What could go wrong: memory is taken from a thread that works, which then fetches it anew; or the caller is held
 * up. Neither happens. A thread is visited only if its counters stood still, and a hold waits for nobody
 * (ownership/heap.c). The thread may free and allocate meanwhile, in its magazine, in its claimed word, and in slabs
 * that have objects. The visit leaves all of these alone. An empty slab has nothing to free, and the thread claims
 * from none while its heap is held.
 */
#include "cache/cache.h"
#include "os/os.h"
#include "supply/supply.h"

#define STEP_UNITS 64u      /* 1 MiB, some 100 us */
#define REST_NS 200000000u  /* since the last look: below that it says nothing */
#define SHED_NS 5000000000u /* from one look at its bins to the next: as a thread looks at its own (epoch/decay.c) */
#define SHEDS 2u            /* the first only notes what was allocated */
#define ALL_REST_NS 12000000000u /* of an allocator: later than both looks at bins, which add to its memory */

static uint64_t slab_work(const ts_share *share) {
    uint64_t sum = 0;
    for (unsigned k = 0; k < TS_COUNT_KINDS; k++)
        sum += ts_load_relaxed(&share->count[k].slow_path_hits) + ts_load_relaxed(&share->count[k].new_slab_count) +
               ts_load_relaxed(&share->count[k].ended);
    return sum;
}

/* Rises with each slab that the thread takes, looks for or gives back. Changes with each cross-thread free that
   waits. */
static uint64_t work_of(const ts_share *share) {
    return slab_work(share) + ts_load_relaxed(&share->heap->queue) + ts_share_retained_units(share) + 1;
}

/* How long the thread has rested; 0: it does not rest. Another thread that looks at this moment may note a time that
   is still in the future for this one. */
static uint64_t rested(ts_seen *seen, uint64_t work, uint64_t now) {
    if (ts_load_acquire(&seen->work) == work) { /* acquire: with the time of that look, if several maintain at once */
        int64_t since = (int64_t)(now - ts_load_relaxed(&seen->ns));
        return since >= (int64_t)REST_NS ? (uint64_t)since : 0;
    }
    ts_store_relaxed(&seen->ns, now);
    ts_store_relaxed(&seen->sheds, 0);
    ts_store_release(&seen->work, work);
    return 0;
}

static bool is_to_shed(uint32_t sheds, uint64_t since) { return sheds < SHEDS && since >= (sheds + 1) * SHED_NS; }

static void look_at(ts_share *share) {
    ts_heap *heap = share->heap;
    if (heap == ts_thread.heap || ts_load_relaxed(&heap->state) == TS_HEAP_LOST) return;
    uint64_t since = rested(&share->seen, work_of(share), ts_os->wall_ns());
    uint32_t looks = ts_load_relaxed(&share->seen.sheds);
    if (since == 0) return;
    if (!is_to_shed(looks, since)) {
        if (ts_heap_has_posted(heap) || ts_share_retained_units(share) != 0) ts_heap_visit(heap, share->allocator);
    } else if (ts_heap_visit_resting(heap, share->allocator, looks == SHEDS - 1)) {
        ts_fetch_add_relaxed(&share->seen.sheds, 1);
    }
}

/* The allocator's list of shares grows at its head. Each call goes on where the last one ran out of time, and then
   comes to the shares before that. So each gets its turn, however short the calls are. Places are counted from the
   list's end, where they do not change. */
static bool is_over(uint64_t until) { return ts_os->wall_ns() >= until; }

static uint32_t count_shares(const ts_share *share) {
    uint32_t n = 0;
    for (; share; share = share->allocator_next) n++;
    return n;
}

/* Those whose place is from..0, or, behind: above that. false: no time is left. */
static bool look_at_shares(ts_allocator *allocator, ts_share *share, uint32_t from, bool behind, uint64_t until) {
    for (uint32_t place = count_shares(share); place-- > 0; share = share->allocator_next) {
        if ((place > from) != behind) continue;
        look_at(share);
        ts_store_relaxed(&allocator->maintain_share, place - 1); /* of 0: with the first of all */
        if (is_over(until)) return false;
    }
    return true;
}

static bool look_at_all(ts_allocator *allocator, uint64_t until) {
    /* acquire: partner of the release in ts_heap_share. A share in the list stays, as the caller is a reader */
    ts_share *shares = ts_load_acquire(&allocator->shares);
    uint32_t from = ts_load_relaxed(&allocator->maintain_share);
    return look_at_shares(allocator, shares, from, false, until) &&
           look_at_shares(allocator, shares, from, true, until);
}

static uint64_t spans_of(const ts_span_counts *counts) {
    return ts_load_relaxed(&counts->allocated) + ts_load_relaxed(&counts->freed);
}

/* Rises with all that any thread takes of the allocator. Units that a visit takes from a share do not count: they are
   nobody's work. */
static uint64_t work_of_all(ts_allocator *allocator) {
    uint64_t sum = ts_load_relaxed(&allocator->taken_units) + spans_of(&allocator->span_counts) + 1;
    /* acquire: as in look_at_all */
    for (const ts_share *s = ts_load_acquire(&allocator->shares); s; s = s->allocator_next)
        sum += spans_of(&s->span_counts) + slab_work(s);
    return sum;
}

/* Caller is a reader. Nothing is counted where nothing could go back. */
static bool all_rest(ts_allocator *allocator) {
    if (!allocator->retain.rises || allocator->settings.reclaim_policy == SLAB_RECLAIM_KEEP ||
        ts_retained_shared(allocator) <= ts_load_relaxed(&allocator->reserved_units))
        return false;
    return rested(&allocator->seen, work_of_all(allocator), ts_os->wall_ns()) >= ALL_REST_NS;
}

void ts_allocator_maintain(ts_allocator *allocator, uint64_t until) {
    if (!ts_allocator_read_begin(allocator, ts_load_relaxed(&allocator->token))) return; /* it has ended */
    (void)look_at_all(allocator, until);
    bool rest = all_rest(allocator);
    ts_allocator_read_end(allocator);
    ts_note_retained(allocator, 0);
    while (ts_purge_to_limit(allocator, STEP_UNITS) + ts_allocator_look(allocator, STEP_UNITS) != 0 &&
           !is_over(until)) {
    }
    while (rest && ts_purge_shared(allocator, ts_load_relaxed(&allocator->reserved_units), STEP_UNITS) != 0 &&
           !is_over(until)) {
    }
}
