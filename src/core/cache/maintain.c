/*
 * Maintenance. A thread rests if it has needed no slab since the last look, which its counters tell: then what it
 * keeps warm goes to the allocator, and what others have left to it is done. When it has rested for five and for ten
 * seconds its bins are looked at, twice, so that those in which it has allocated nothing in between let go of their
 * empty slabs; its next call does the same with what its magazines hold. A thread that works is left alone. What is
 * over the limit goes back to the system in small steps, with a look at the clock after each. Once nobody has needed
 * memory of the allocator for twelve seconds, all that is warm does, but for what was reserved; with a budget of the
 * program's own, or where memory is kept, only what is over that.
 *
 * What could go wrong: memory is taken from a thread that works, which then fetches it anew, or the caller is held up.
 * It does not: a thread is visited only if its counters stood still since the last look, and holding a heap waits for
 * nobody (heap.h). And the thread frees and allocates meanwhile: in its magazine, in its claimed word and in slabs
 * that have objects, all of which are left alone. An empty slab has nothing that it could free, and it claims from
 * none while its heap is held.
 */
#include "cache/maintain.h"

#include "cache/life.h"
#include "os/os.h"
#include "supply/share.h"

#define STEP_UNITS 64u      /* 1 MiB, some 100 us */
#define REST_NS 200000000u  /* since the last look: below that it says nothing */
#define SHED_NS 5000000000u /* from one look at its bins to the next: as a thread looks at its own (epoch/decay.c) */
#define SHEDS 2u            /* the first only notes what was allocated */
#define ALL_REST_NS 12000000000u /* of an allocator: later than both, as what they let go of comes to it */

/* Rises with each slab that the thread takes, looks for or gives back, and is another with each foreign free that
   waits for it. */
static uint64_t work_of(const ts_heap *heap, const ts_share *share) {
    uint64_t sum = ts_load_relaxed(&heap->queue);
    for (unsigned k = 0; share && k < TS_COUNT_KINDS; k++)
        sum += ts_load_relaxed(&share->count[k].slow_path_hits) + ts_load_relaxed(&share->count[k].new_slab_count) +
               ts_load_relaxed(&share->count[k].ended);
    return sum + (share ? ts_share_warm_units(share) : 0) + 1;
}

static bool keeps_any(const ts_heap *heap, const ts_share *share) {
    return ts_heap_has_errands(heap) || (share && ts_share_warm_units(share) != 0);
}

/* For how long it has rested, 0: it does not. Another thread that looks at the same moment notes the same, or a
   little later: a time that is to come for this one. */
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

/* share: its share of the allocator, NULL: it has none. */
static void look_at(ts_heap *heap, ts_share *share, ts_allocator *allocator) {
    if (heap == ts_thread.heap || ts_load_relaxed(&heap->state) == TS_HEAP_LOST) return;
    uint64_t since = rested(share ? &share->seen : &heap->seen, work_of(heap, share), ts_os->wall_ns());
    uint32_t looks = share ? ts_load_relaxed(&share->seen.sheds) : SHEDS;
    if (since == 0) return;
    if (!is_to_shed(looks, since)) {
        if (keeps_any(heap, share)) ts_heap_visit(heap, allocator);
    } else if (ts_heap_visit_resting(heap, allocator, looks == SHEDS - 1)) {
        ts_fetch_add_relaxed(&share->seen.sheds, 1);
    }
}

/*
 * Two lists that grow at their heads only are gone through: the allocator's shares, and all heaps, for those that
 * have no share of it. Each call goes on where the last one has run out of time, and then comes to what is before
 * that: so each gets its turn, however short the calls are. Places are counted from a list's end, where they stay the
 * same.
 */
static bool is_over(uint64_t until) { return ts_os->wall_ns() >= until; }

static uint32_t count_shares(const ts_share *share) {
    uint32_t n = 0;
    for (; share; share = share->allocator_next) n++;
    return n;
}

static uint32_t count_heaps(const ts_heap *heap) {
    uint32_t n = 0;
    for (; heap; heap = heap->next) n++;
    return n;
}

/* Those whose place is from..0, or, behind: above that. false: no time is left. */
static bool look_at_shares(ts_allocator *allocator, ts_share *share, uint32_t from, bool behind, uint64_t until) {
    for (uint32_t place = count_shares(share); place-- > 0; share = share->allocator_next) {
        if ((place > from) != behind) continue;
        look_at(share->heap, share, allocator);
        ts_store_relaxed(&allocator->maintain_share, place - 1); /* of 0: with the first of all */
        if (is_over(until)) return false;
    }
    return true;
}

static bool look_at_heaps(ts_allocator *allocator, uint32_t turn, uint32_t from, bool behind, uint64_t until) {
    ts_heap *heap = ts_heaps();
    for (uint32_t place = count_heaps(heap); place-- > 0; heap = heap->next) {
        if ((place > from) != behind || ts_load_relaxed(&heap->maintained) == turn) continue;
        look_at(heap, NULL, allocator);
        ts_store_relaxed(&allocator->maintain_heap, place - 1);
        if (is_over(until)) return false;
    }
    return true;
}

static _Atomic uint32_t turns;

/* Heaps with a share have the mark of this call. Another thread that maintains at the same moment may write over it,
   and then one of them is looked at as one without: for what others have left to it. */
static uint32_t mark(ts_share *share) {
    uint32_t turn = ts_fetch_add_relaxed(&turns, 1) + 1;
    for (; share; share = share->allocator_next) ts_store_relaxed(&share->heap->maintained, turn);
    return turn;
}

static bool look_at_all(ts_allocator *allocator, uint64_t until) {
    /* acquire: partner of the release in ts_heap_share; what is behind it stays, as the caller is a reader */
    ts_share *shares = ts_load_acquire(&allocator->shares);
    uint32_t turn = mark(shares), share = ts_load_relaxed(&allocator->maintain_share),
             heap = ts_load_relaxed(&allocator->maintain_heap);
    return look_at_shares(allocator, shares, share, false, until) &&
           look_at_shares(allocator, shares, share, true, until) &&
           look_at_heaps(allocator, turn, heap, false, until) && look_at_heaps(allocator, turn, heap, true, until);
}

static uint64_t spans_of(const ts_span_counts *counts) {
    return ts_load_relaxed(&counts->allocated) + ts_load_relaxed(&counts->freed);
}

/* Rises with all that is taken of the allocator, by any thread. What a visit takes of a share makes no difference: it
   is no work of anybody. */
static uint64_t work_of_all(ts_allocator *allocator) {
    uint64_t sum = ts_load_relaxed(&allocator->taken_units) + spans_of(&allocator->span_counts) + 1;
    /* acquire: as in look_at_all */
    for (const ts_share *s = ts_load_acquire(&allocator->shares); s; s = s->allocator_next) {
        sum += spans_of(&s->span_counts);
        for (unsigned k = 0; k < TS_COUNT_KINDS; k++)
            sum += ts_load_relaxed(&s->count[k].slow_path_hits) + ts_load_relaxed(&s->count[k].new_slab_count) +
                   ts_load_relaxed(&s->count[k].ended);
    }
    return sum;
}

/* The caller is a reader. Nobody counts where nothing could be given. */
static bool all_rest(ts_allocator *allocator) {
    if (!allocator->retain.rises || allocator->settings.reclaim_policy == SLAB_RECLAIM_KEEP ||
        ts_warm_shared(allocator) <= ts_load_relaxed(&allocator->reserved_units))
        return false;
    return rested(&allocator->seen, work_of_all(allocator), ts_os->wall_ns()) >= ALL_REST_NS;
}

void ts_allocator_maintain(ts_allocator *allocator, uint64_t until) {
    if (!ts_allocator_read_begin(allocator, ts_load_relaxed(&allocator->token))) return; /* it has ended */
    (void)look_at_all(allocator, until);
    bool rest = all_rest(allocator);
    ts_allocator_read_end(allocator);
    ts_note_warm(allocator, 0);
    while (ts_allocator_settle(allocator, STEP_UNITS) + ts_allocator_look(allocator, STEP_UNITS) != 0 &&
           !is_over(until)) {
    }
    while (rest && ts_purge_shared(allocator, ts_load_relaxed(&allocator->reserved_units), STEP_UNITS) != 0 &&
           !is_over(until)) {
    }
}
