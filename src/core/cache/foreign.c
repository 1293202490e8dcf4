/*
 * Foreign frees: a thread frees an object of a block it does not own.
 *
 * What could go wrong: a free is lost, an object is freed twice, or a late free hits the next object at its place. It
 * does not: a free is one bit of a word of the slab, set by compare-and-swap under a tag that is another in each use
 * of the slab. And a slab with such a bit is on its owner's queue until he has taken it in. (One case is left: 8.)
 *
 * Freeing thread T                                   Owner O (holding its heap)
 *  1. u = UNIT word (acquire); kind from it           a. take the whole queue (exchange)
 *  2. x = foreign word, t = tag (acquire)             b. for each slab: clear FOREIGN (and ZOMBIE)
 *  3. UNIT word again: still u, era = block's era     c. read each foreign word's bits
 *  4. state word live, bit not in x                   d. free those objects
 *  5. CAS foreign word x -> t, x | bit                e. clear the bits of those objects
 *  6. CAS UNIT word u -> u | FOREIGN unless set       f. if the slab is empty: UNIT word -> 0 unless
 *  7. if 6 set it: push the slab on O's queue            FOREIGN is set again; then reuse it
 *
 * Conclusions
 *  1. No free is lost. After 5, T finds FOREIGN set or sets it (6). If it was set, O has not yet done b for
 *     this slab, so c comes after 5 (5, 6, b, c are seq_cst) and finds the bit; if T sets it, T queues the slab.
 *     e clears only the bits that d worked off.
 *  2. A slab is on at most one queue: only who turns FOREIGN on pushes, and only who popped it turns it off.
 *     So queue_next has one user at a time. The owner may do a and the rest of the slabs later (heap->backlog): such a
 *     slab has FOREIGN on as if it were still on the queue, and nobody but who holds the heap can tell the difference.
 *  3. A slab on a queue is not handed on: f, ts_slab_claim and the release paths all require FOREIGN to be off
 *     by a compare-and-swap on the word that holds it. A dead slab that is found with FOREIGN on becomes a
 *     zombie, which who pops it gives back.
 *  4. A late T does no damage. If the slab was reset between 2 and 5, 5 fails, or it writes the old tag t, under
 *     which bits count no more. If it was reset after 5, the object had been freed by a destroy (an individual free
 *     of it is this one), the new tag voids the bit, and 6 fails because the UNIT word is another one: nothing is
 *     queued. (Bits of an older tag in x are not taken over: 5 writes bit alone then.) If the
 *     slab came back into the same bin of the same block, 6 succeeds and queues a slab without bits: the owner
 *     finds nothing in it.
 *  5. t is read before the era is checked, so that 5 cannot write the tag of a later use: that tag is written
 *     after the era changed, and reading it (acquire) shows the new era at 3.
 *  6. A double free is refused while the first is under way: 4 looks at x, 5 lets one of two win, and the owner
 *     looks at the bit whenever FOREIGN is set, which it is from 6 (before the first free returns) to b; from b on
 *     the owner is draining. For everybody else an object is live if its bit is off and its state is live, looked
 *     at in this order: d takes the state off before e takes the bit off, so no one finds the bit already off and
 *     the state still on. f comes after all e's: the words are not touched once the slab can be another's.
 *  7. A free of the owner's that has the object's generation (of a handle; realloc, promote) makes the state not
 *     live, and then, by a compare-and-swap of the word, counts it on and takes the object's bit off
 *     (ts_foreign_is_first). If the bit was on, T has set it and is told true: so the owner is told false, of an
 *     object that it has freed for T. If it was off, T sets it no more: its compare-and-swap fails for the count, and
 *     the state, which it reads next, is of after the owner's. Nobody drains meanwhile. So of threads that free one
 *     handle at one instant exactly one is told true, whoever owns it. (Of foreign threads, by e: it counts the word
 *     on, too. The count has sixteen values: a T that is away between 2 and 5, while the very object that it frees is
 *     freed by another and a multiple of sixteen drains and such frees come to the word, succeeds, with what 8 says
 *     of that.)
 *  8. The limit: a free of the owner's by pointer, which looks at no bit if FOREIGN was off, while T frees the same
 *     object by pointer or handle and is between 4 and 6, for as long as T is away there. Then both can answer true.
 *     The bit is found at d on a slot that is not live and is dropped (counted as rejected), or on the slot's next
 *     object, if one was allocated there before d, which is freed by it. No structure is damaged: the state word has
 *     one writer. Closing this window needs a fence in every free of an owner. (A second look of T's after 5, which
 *     takes the bit off again where the object is gone, meets it more often than not, but cannot tell its bit from
 *     that of a later free of the slot's next object, after sixteen counts: then a free is lost that nobody did
 *     twice.)
 *
 * The owner of a block can change (adoption, thread exit) while T is between 6 and 7: T pushes on the queue of the
 * heap it read. Who drains a queue passes a slab of another heap on to that heap's queue, and T sees to it that
 * somebody does (push_on), before it looks whether the object was the last of a closed epoch's slab.
 *
 * A closed epoch gives its slabs back with their last objects, whoever frees them and whatever the owner does
 * meanwhile: who frees the last one holds the owner's heap and takes the slab in (ts_foreign_give_closed). Of frees
 * that meet the close: it shuts the block, holds the heap (a barrier), drains, flushes, sets `flushed`, and drains
 * again (ts_foreign_drain_flushed). A freeing thread reads the key (only ts_foreign_freed) and `flushed` after its
 * push.
 *
 * An allocation or a free of the owner works off a bounded number of objects (ts_foreign_drain_some): however much
 * other threads have freed, one call does not pay for all of it. What closes, ends or trims takes all. The slab of a
 * closed epoch's last object is looked for among all that are queued, a step each. Nothing of the above hangs on when
 * the owner drains: an allocation puts it off after a round that brought little (churn_try), a free that meets the
 * flag but for the last of so many (free_own), and looks at the bit.
 *
 * A visitor (who holds the heap of a live thread) drains only dead slabs and those of blocks that are closing: the
 * owner's fast paths go on in the others. 5 to 7 are done inside T's own heap bracket, so that no fork finds a slab
 * with FOREIGN set that is on no queue.
 */
/* Modelled in tests/model: foreign, look, exit, spill, orders. */
#include "base/assert.h"
#include "base/bits.h"
#include "cache/bin.h"
#include "cache/free.h"
#include "cache/life.h"
#include "cache/scope.h"
#include "slab/lent.h"
#include "supply/allocator.h"
#include "supply/nodes.h"
#include "supply/warm.h"

#include <limits.h>

static void push(ts_heap *heap, uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    uint64_t head = ts_load_relaxed(&heap->queue);
    do {
        ts_store_relaxed(&slab->queue_next, (uint32_t)head);
    } while (!ts_cas_seq(&heap->queue, &head, unit)); /* publishes queue_next; partner: exchange in drain */
}

static bool has_queued(const ts_heap *heap) {
    /* backlog: what a bounded drain (ts_foreign_give_closed) has taken off the queue and not come to */
    return ts_load_seq(&heap->queue) != 0 || ts_load_relaxed(&heap->backlog) != 0;
}

/* Once at least: another who holds the heap may have what was pushed in his hands. He looks again when he lets go, if
   he is called; so does its thread, if it is in the middle of an operation. */
void ts_foreign_drain_for(ts_heap *heap) {
    do {
        if (!ts_heap_call(heap)) return;
        ts_heap_work_off(heap);
        ts_heap_drop(heap);
    } while (ts_load_seq(&heap->state) == TS_HEAP_ABANDONED && has_queued(heap));
}

void ts_foreign_drain_for_all(void) {
    for (ts_heap *heap = ts_heaps(); heap; heap = heap->next)
        if (heap != ts_thread.heap && (ts_load_seq(&heap->state) == TS_HEAP_ABANDONED || has_queued(heap)))
            ts_foreign_drain_for(heap);
}

/* The heap of a block that may have ended since it was found alive, and may be nobody's, with its memory or without. */
static ts_heap *block_home(const ts_block *block) {
    ts_heap *heap = ts_load_seq(&block->heap); /* seq_cst: push_on */
    return TS_LIKELY(heap != NULL) ? heap : ts_heap_nobody;
}

static void note_drain(ts_heap *heap) {
    ts_thread.drain_others |= ts_thread.drain != NULL && ts_thread.drain != heap;
    ts_thread.drain = heap;
}

/*
 * On the queue of the block's heap, as far as it was known. Nobody may come for it there:
 *   - The heap has no thread any more. seq_cst: ts_heap_exit writes the state and then drains; T pushes and then
 *     reads the state: one of the two sees the other.
 *   - It has another thread, which may sleep, and the block is elsewhere. Who reads that thread's state sees where
 *     the block went before.
 *   - Its thread has given the block up, and may sleep. It writes the block's heap, and then drains (orphan.c); T
 *     pushes, and then reads the block's heap: one of the two sees the other (all seq_cst).
 * Then who has pushed drains it for that one, once he holds nothing (ts_settle_now), and passes the slab on.
 */
static void push_on(ts_heap *heap, uint32_t unit, const ts_block *block) {
    push(heap, unit);
    if (TS_LIKELY(ts_load_seq(&heap->state) != TS_HEAP_ABANDONED && block_home(block) == heap)) return;
    note_drain(heap);
}

static void queue_slab(uint32_t unit, uint64_t u) {
    _Atomic uint64_t *word = ts_unit_word(unit);
    uint64_t now = ts_load_seq(word);
    while (now == u) {
        if (!ts_cas_seq(word, &now, u | TS_UNIT_FOREIGN)) continue;
        ts_block *block = ts_block_of_line(ts_word_line(u), (u & TS_UNIT_SCOPE) != 0);
        ts_nodes_queue(unit);
        push_on(block_home(block), unit, block);
        return;
    }
}

/* As 6 and 7 of a thread that has done no 5: 4 of the conclusions says what becomes of a slab without bits. */
bool ts_foreign_lend(ts_heap *heap, uint32_t unit, uint64_t word) {
    if (!ts_cas_seq(ts_unit_word(unit), &word, word | TS_UNIT_FOREIGN)) return false;
    heap->lent = unit;
    ts_nodes_queue_empty(unit);
    return true;
}

void ts_foreign_lent_back(ts_heap *heap) {
    uint32_t unit = heap->lent;
    /* A zombie, perhaps; the line is the same. */
    uint64_t word = ts_load_acquire(ts_unit_word(unit));
    const ts_block *block = ts_block_of_line(ts_word_line(word), (word & TS_UNIT_SCOPE) != 0);
    heap->lent = 0;
    push_on(block_home(block), unit, block);
}

void ts_foreign_return(uint32_t unit, const ts_block *block) { push_on(block_home(block), unit, block); }

ts_foreign_result ts_foreign_free(uint32_t unit, uint64_t entry, uintptr_t allocator, uint32_t generation,
                                  uint64_t *retries) {
    _Atomic uint64_t *word = ts_unit_word(unit);
    for (;; ++*retries) {
        uint64_t u = ts_load_acquire(word);
        bool scope = (u & TS_UNIT_SCOPE) != 0;
        if (u == 0 || (u & (TS_UNIT_SPAN | TS_UNIT_ZOMBIE))) return TS_FOREIGN_NOT_LIVE;
        uint64_t bit;
        _Atomic uint64_t *foreign = ts_slab_foreign_word(u, entry, &bit);
        uint64_t x = ts_load_acquire(foreign);
        /* The words of a churn slab always have the present tag. */
        uint64_t t = !scope ? x >> TS_FOREIGN_TAG_SHIFT : ts_load_acquire(&ts_slab_at(unit)->tag);
        uint64_t bits = x >> TS_FOREIGN_TAG_SHIFT == t ? (uint32_t)x : 0;
        uint64_t again = ts_load_acquire(word);
        if ((again | TS_UNIT_FOREIGN) != (u | TS_UNIT_FOREIGN)) continue;
        ts_block *block = ts_block_of_line(ts_word_line(u), scope);
        if (ts_era(block) != ts_word_era(u)) return TS_FOREIGN_NOT_LIVE;
        if (ts_load_relaxed(&block->allocator) != allocator) return TS_FOREIGN_NOT_LIVE;
        uint32_t slot_generation = 0;
        if (scope) {
            const ts_scope_bits *map = ts_slab_scope_bits(unit);
            uint32_t in_unit = (uint32_t)entry & (TS_UNIT_ENTRIES - 1);
            uint64_t mask = (uint64_t)1 << (in_unit & 63);
            if (!(ts_load_acquire(&map->start[in_unit >> 6]) & mask)) return TS_FOREIGN_NOT_LIVE;
            if (ts_load_acquire(&map->freed[in_unit >> 6]) & mask) return TS_FOREIGN_NOT_LIVE;
        } else {
            uint32_t s = ts_load_acquire(ts_entry_state(entry, ts_word_is_fine(u)));
            if (!ts_state_is_of(s, entry)) return TS_FOREIGN_NOT_LIVE;
            slot_generation = ts_state_generation(s);
        }
        if (generation != TS_ANY_GENERATION && generation != ts_load_relaxed(&ts_slab_at(unit)->gen) + slot_generation)
            return TS_FOREIGN_NOT_LIVE;
        if (bits & bit) return TS_FOREIGN_NOT_LIVE;
        uint64_t count = x & TS_FOREIGN_COUNT_MASK;
        if (!ts_cas_seq(foreign, &x, t << TS_FOREIGN_TAG_SHIFT | count | bits | bit)) continue;
        queue_slab(unit, u & ~TS_UNIT_FOREIGN);
        return TS_FOREIGN_FREED;
    }
}

/* The live objects among 32 granules of a slab, a bit each. */
static uint32_t live_bits(uint32_t unit, uint64_t word, unsigned i) {
    if (word & TS_UNIT_SCOPE) {
        const ts_scope_bits *bits = ts_slab_scope_bits(unit);
        return (uint32_t)((ts_load_seq(&bits->start[i / 2]) & ~ts_load_seq(&bits->freed[i / 2])) >> (i % 2 * 32));
    }
    const _Atomic uint16_t *state = ts_unit_states(unit, ts_word_is_fine(word)) + i * 32u;
    uint32_t live = 0;
    for (unsigned k = 0; k < 32; k++) live |= (uint32_t)(ts_load_seq(&state[k]) & TS_STATE_LIVE) << k;
    return live;
}

/* Whether every live object of these is freed by another thread than the owner. */
static bool all_pending(uint32_t unit, uint64_t word, unsigned i, const _Atomic uint64_t *words) {
    uint64_t x = ts_load_seq(&words[i]);
    uint32_t bits = x >> TS_FOREIGN_TAG_SHIFT == ts_load_acquire(&ts_slab_at(unit)->tag) ? (uint32_t)x : 0;
    return (live_bits(unit, word, i) & ~bits) == 0;
}

bool ts_foreign_all_freed(uint32_t unit, uint64_t word) {
    unsigned first, end;
    const _Atomic uint64_t *words = ts_slab_foreign_words(unit, word, &first, &end);
    for (unsigned i = first; i < end; i++)
        if (!all_pending(unit, word, i, words)) return false;
    return true;
}

/* seq_cst: each of those who free the last objects at once writes its bit (the owner: the state) and then looks at all
   others, so the last of them sees that nothing is left. The owner looks at FOREIGN after that (free.c: free_once).
   seq_cst of `flushed`: ts_foreign_drain_flushed. */
void ts_foreign_give_closed(uint32_t unit, uint64_t entry) {
    _Atomic uint64_t *word = ts_unit_word(unit);
    uint64_t u = ts_load_acquire(word);
    if (!(u & TS_UNIT_FOREIGN) || (u & (TS_UNIT_ZOMBIE | TS_UNIT_SPAN))) return;
    const ts_block *block = ts_block_of_line(ts_word_line(u), (u & TS_UNIT_SCOPE) != 0);
    if (ts_era(block) != ts_word_era(u) || !ts_load_seq(&block->flushed)) return;
    unsigned first, end;
    const _Atomic uint64_t *words = ts_slab_foreign_words(unit, u, &first, &end);
    if (!all_pending(unit, u, (unsigned)(ts_foreign_index(u, entry) >> 5), words)) return;
    if (!ts_foreign_all_freed(unit, u)) return;
    if (TS_UNLIKELY(ts_is_lent(unit))) {
        ts_loan_of_lent()->freed(unit);
        if (((ts_load_acquire(word) ^ u) & ~TS_UNIT_FOREIGN) != 0) return; /* taken out */
    }
    ts_heap *heap = ts_load_acquire(&block->heap);
    if (!heap || heap == ts_thread.heap) return;
    if (ts_heap_hold(heap))
        ts_foreign_take_off(heap, unit);
    else if (ts_heap_call(heap)) /* its thread is in the middle of a call, and may rest after that: it looks first */
        ts_heap_work_off(heap);
    else
        return;
    ts_heap_drop(heap);
}

ts_foreign_result ts_foreign_queue(uint64_t entry, uint64_t seen) {
    queue_slab((uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT), seen & ~TS_UNIT_FOREIGN); /* 6, 7 */
    return ts_foreign_freed(ts_block_of_line(ts_word_line(seen), false));
}

bool ts_foreign_pending(uint32_t unit, uint64_t word, uint64_t entry) {
    uint64_t bit;
    uint64_t x = ts_load_acquire(ts_slab_foreign_word(word, entry, &bit));
    return (x & bit) != 0 && x >> TS_FOREIGN_TAG_SHIFT == ts_load_acquire(&ts_slab_at(unit)->tag);
}

static void drop_late(ts_block *block) { ts_fetch_add_relaxed(&block->share->allocator->rejected_frees, 1); }

static unsigned free_churn_bits(ts_churn_block *block, ts_bin *bin, uint32_t unit, unsigned granule, uint32_t bits) {
    unsigned freed = ts_bin_free_bits(block, bin, unit, granule, bits);
    ts_count(&block->b.share->count[ts_bin_class(block, bin)].foreign_frees, freed);
    for (unsigned late = ts_popcount64(bits) - freed; late > 0; late--) drop_late(&block->b);
    return freed;
}

static unsigned free_scope_bits(ts_scope_block *block, uint32_t unit, uint32_t in_unit, uint64_t bits) {
    unsigned freed = ts_popcount64(bits);
    for (; bits; bits &= bits - 1) {
        if (ts_scope_free(block, unit, in_unit + ts_ctz64(bits)))
            ts_count(&block->b.share->count[TS_COUNT_SCOPE].foreign_frees, 1);
        else
            drop_late(&block->b);
    }
    return freed;
}

/* The lines of the state words that a drain of a churn slab changes, all at once: who frees has read them on his
   processor last. */
static void fetch_states(uint32_t unit, uint64_t word, const _Atomic uint64_t *words, unsigned count) {
    const _Atomic uint16_t *state = ts_unit_states(unit, ts_word_is_fine(word));
    __builtin_prefetch((const void *)(uintptr_t)words, 1); /* they are changed, too */
    for (unsigned i = 0; i < count; i++)
        if ((uint32_t)ts_load_relaxed(&words[i]) != 0) __builtin_prefetch((const void *)(uintptr_t)&state[i * 32u], 1);
}

/* Returns the objects worked on; adds the bytes of slots that are free again. */
static unsigned drain_slab(ts_block *block, uint32_t unit, uint64_t w, size_t *bytes) {
    unsigned first, end, objects = 0;
    _Atomic uint64_t *words = ts_slab_foreign_words(unit, w, &first, &end);
    ts_bin *bin = block->scope ? NULL : ts_line_address(ts_word_line(w));
    uint64_t tag = ts_load_relaxed(&ts_slab_at(unit)->tag);
    if (!block->scope) fetch_states(unit, w, words, end);
    for (unsigned i = first; i < end; i++) {
        uint64_t x = ts_load_seq(&words[i]), bits = (uint32_t)x; /* step c */
        if (bits == 0 || x >> TS_FOREIGN_TAG_SHIFT != tag) continue;
        if (block->scope)
            objects += free_scope_bits(ts_scope(block), unit, i * 32, bits);
        else
            objects += free_churn_bits(ts_churn(block), bin, unit, i * 32, (uint32_t)bits);
        /* Step e: bits off, count on; the bits that came meanwhile stay. */
        while (!ts_cas_seq(&words[i], &x, ts_foreign_counted_on(x & ~bits))) {
        }
    }
    if (block->scope) {
        ts_scope_release_if_empty(ts_scope(block), unit);
    } else {
        *bytes += (size_t)objects * ts_class_bytes[ts_bin_class(ts_churn(block), bin)];
        ts_bin_release_if_empty(ts_churn(block), bin, unit);
    }
    return objects;
}

void ts_foreign_take_in(ts_block *block, uint32_t unit, uint64_t word) {
    size_t bytes = 0;
    (void)drain_slab(block, unit, word, &bytes);
}

static bool is_alive(const ts_block *block, uint64_t w) {
    return !(w & TS_UNIT_ZOMBIE) && ts_era(block) == ts_word_era(w);
}

/* Steps b to f of a slab that is off the queue; w: its word. Returns the objects worked on. */
static unsigned take_slab(uint32_t unit, ts_block *block, uint64_t w, size_t *bytes) {
    bool alive = is_alive(block, w);
    unsigned remote = ts_nodes_queued(unit), objects;
    /* A zombie's word becomes 0 in the same step: a late compare-and-swap that expects the word without flags finds
       either both or none of them. */
    while (!ts_cas_seq(ts_unit_word(unit), &w, w & TS_UNIT_ZOMBIE ? 0 : w & ~TS_UNIT_FOREIGN)) {
    }
    if (w & TS_UNIT_ZOMBIE) ts_zombie_give(unit);
    if (!alive) return 0;
    objects = drain_slab(block, unit, w & ~TS_UNIT_FOREIGN, bytes);
    ts_nodes_count_remote(block->share->allocator, remote, objects);
    return objects;
}

/* Puts what the queue has before what was taken off it earlier. */
static void queue_to_backlog(ts_heap *heap) {
    uint32_t first = (uint32_t)ts_exchange_seq(&heap->queue, 0), last = first;
    if (first == 0) return;
    for (uint32_t next; (next = ts_load_relaxed(&ts_slab_at(last)->queue_next)) != 0;) last = next;
    ts_store_relaxed(&ts_slab_at(last)->queue_next, ts_load_relaxed(&heap->backlog));
    ts_store_relaxed(&heap->backlog, first);
}

/* What the owner of the heap does not have to do itself: slabs of closing blocks, and dead ones. */
static bool is_ending(const ts_heap *heap, const ts_block *block, uint64_t w) {
    return !is_alive(block, w) || (ts_load_acquire(&block->heap) == heap && block->closing == TS_CLOSING);
}

/* The others on the way are taken in with it, so that they are not met again and again, but no more than one call
   should do. */
void ts_foreign_take_off(ts_heap *heap, uint32_t unit) {
    size_t bytes = 0;
    unsigned work = 0;
    if (!(ts_load_acquire(ts_unit_word(unit)) & TS_UNIT_FOREIGN)) return;
    if (TS_UNLIKELY(ts_is_lent(unit))) {
        ts_loan_of_lent()->take_out(heap, unit);
        return;
    }
    if (ts_load_relaxed(&heap->state) == TS_HEAP_ABANDONED) { /* nobody comes for the rest */
        ts_foreign_drain(heap);
        return;
    }
    queue_to_backlog(heap);
    _Atomic uint32_t *at = &heap->backlog; /* only who holds the heap walks it */
    for (uint32_t slab = 0; slab != unit && (slab = ts_load_relaxed(at)) != 0;) {
        uint64_t w = ts_load_acquire(ts_unit_word(slab));
        ts_block *block = ts_block_of_line(ts_word_line(w), (w & TS_UNIT_SCOPE) != 0);
        if ((slab == unit || work < 16 * TS_FOREIGN_WORK) && is_ending(heap, block, w)) {
            ts_store_relaxed(at, ts_load_relaxed(&ts_slab_at(slab)->queue_next));
            work += TS_FOREIGN_SLAB_WORK + take_slab(slab, block, w, &bytes);
        } else {
            at = &ts_slab_at(slab)->queue_next;
        }
    }
}

void ts_foreign_drain(ts_heap *heap) { ts_foreign_drain_some(heap, UINT_MAX); }

/* A thread that frees the last object of a slab pushes, then reads `flushed`, and takes the slab in itself if it is
   set; here `flushed` was set, and then the queue is read (both seq_cst): one of the two sees the other. */
void ts_foreign_drain_flushed(ts_heap *heap) {
    atomic_thread_fence(memory_order_seq_cst);
    ts_foreign_drain(heap);
}

size_t ts_foreign_drain_some(ts_heap *heap, unsigned most) {
    bool more = ts_load_seq(&heap->queue) != 0; /* taken once, so that who drains all ends while others push */
    if (TS_LIKELY(!more && ts_load_relaxed(&heap->backlog) == 0)) return 0;
    size_t bytes = 0;
    bool visitor = heap != ts_thread.heap && ts_load_relaxed(&heap->state) == TS_HEAP_LIVE;
    uint32_t not_mine = 0; /* slabs that only their owner may work on, linked by queue_next */
    for (unsigned work = 0; work < most;) {
        /* seq_cst, and acquire of queue_next: partner of push */
        uint32_t unit = ts_load_relaxed(&heap->backlog);
        if (unit == 0 && more) {
            unit = (uint32_t)ts_exchange_seq(&heap->queue, 0);
            more = false;
        }
        if (unit == 0) break;
        ts_slab *slab = ts_slab_at(unit);
        ts_store_relaxed(&heap->backlog, ts_load_relaxed(&slab->queue_next));
        work += TS_FOREIGN_SLAB_WORK;
        uint64_t w = ts_load_acquire(ts_unit_word(unit));
        ts_block *block = ts_block_of_line(ts_word_line(w), (w & TS_UNIT_SCOPE) != 0);
        bool alive = is_alive(block, w);
        ts_heap *owner = alive ? block_home(block) : heap;
        if (owner != heap) {
            push_on(owner, unit, block);
            /* Who has freed the last object of a closed epoch's slab did not find it there: it was in this thread's
               hands. seq_cst: as in ts_foreign_give_closed */
            if (ts_load_seq(&block->flushed)) note_drain(owner);
        } else if (visitor && alive && block->closing != TS_CLOSING) {
            ts_store_relaxed(&slab->queue_next, not_mine);
            not_mine = unit;
        } else {
            work += take_slab(unit, block, w, &bytes);
        }
    }
    while (not_mine) {
        uint32_t next = ts_load_relaxed(&ts_slab_at(not_mine)->queue_next);
        push(heap, not_mine);
        not_mine = next;
    }
    return bytes;
}
