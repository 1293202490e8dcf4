/*
 * Cross-thread frees: a thread frees an object of a block that it does not own. (Names in the code say "foreign".)
 *
 * What could go wrong: a free is lost, an object is freed twice, or a late free hits the next object at its place. It
 * does not. A free is one bit in a word of the slab. Compare-and-swap sets it, under a tag that differs in each use
 * of the slab. A slab with such a bit is on its owner's queue until the owner has taken the bit in. (Conclusion 8 has
 * the one case that is left.)
 *
 * Freeing thread T                                   Owner O (holding its heap)
 *  1. u = UNIT word (acquire); kind from it           a. take the whole queue (exchange)
 *  2. x = foreign word, t = tag (acquire)             b. for each slab: clear FOREIGN (and ZOMBIE)
 *  3. UNIT word again: still u, era = block's era     c. read each foreign word's bits
 *  4. live bit on, bit not in x                       d. free those objects
 *  5. CAS foreign word x -> t, x | bit                e. clear the bits of those objects
 *  6. CAS UNIT word u -> u | FOREIGN unless set       f. if the slab is empty: UNIT word -> 0 unless
 *  7. if 6 set it: push the slab on O's queue            FOREIGN is set again; then reuse it
 *
 * Conclusions
 *  1. No free is lost. After 5, T finds FOREIGN set, or sets it (6). If it was set, O has not done b for this slab
 *     yet. So c comes after 5, and finds the bit (5, 6, b and c are seq_cst). If T sets it, T queues the slab. Step e
 *     clears only the bits that d has worked off.
 *  2. A slab is on one queue at most. Only the thread that turns FOREIGN on pushes the slab. Only the thread that
 *     popped it turns FOREIGN off. So queue_next has one user at a time. The owner may do a, and leave the rest of
 *     the slabs for later (heap->backlog). Such a slab has FOREIGN on, as if it were still on the queue. Only the
 *     holder of the heap can tell the difference.
 *  3. A slab on a queue is not handed on. Step f, ts_slab_claim and the release paths all require FOREIGN to be off,
 *     by a compare-and-swap on the word that holds it. A dead slab that is found with FOREIGN on becomes a zombie.
 *     The thread that pops the zombie gives it back.
 *  4. A late T does no damage. There are three cases:
 *     The slab was reset between 2 and 5. Then 5 fails, or it writes the old tag t, under which bits no longer count.
 *     The slab was reset after 5. Then a destroy had freed the object (a free of this one object is T's own). The new
 *     tag voids the bit. Step 6 fails, because the UNIT word is another one, and nothing is queued.
 *     The slab came back into the bin of its block. Then 6 succeeds and queues a slab without bits, in which the
 *     owner finds nothing.
 *     Bits of an older tag in x are not taken over: 5 writes T's bit alone then.
 *  5. T reads t before it checks the era. So 5 cannot write the tag of a later use: that tag is written after the era
 *     has changed, and reading it (acquire) shows the new era at 3.
 *  6. A double free is refused while the first free is under way. Step 4 looks at x, and 5 lets one of two threads
 *     win. The owner looks at the bit whenever FOREIGN is set. FOREIGN is set from 6, before the first free returns,
 *     to b. From b on the owner is draining. To all other threads an object is live if its bit is off and its state
 *     is live, read in this order. Step d takes the state off before e takes the bit off. So no thread finds the bit
 *     off and the state still on. Step f comes after all e's: the words are not touched once the slab can belong to
 *     another block.
 *  7. Some frees of the owner have the object's generation: frees by handle, realloc, promote. Such a free makes the
 *     state not live. Then, by a compare-and-swap of the word, it raises the count and takes the object's bit off
 *     (ts_foreign_is_first). If the bit was on, T has set it and is told true. So the owner is told false: it has
 *     freed the object for T. If the bit was off, T no longer sets it: T's compare-and-swap fails for the count, and
 *     T then reads the state that the owner has written. Nothing drains meanwhile. So of threads that free one handle
 *     at one instant exactly one is told true, whatever thread owns the object. (Between two cross-thread frees step
 *     e does this: it raises the count, too. The count has sixteen values. Suppose that T is away between 2 and 5,
 *     another thread frees T's very object, and a multiple of sixteen drains and such frees come to the word. Then 5
 *     succeeds, with the consequences that 8 names.)
 *  8. The limit. The owner frees by pointer, and looks at no bit because FOREIGN was off. T frees that object by
 *     pointer or handle, and is between 4 and 6. While T is away there, both can answer true. The drain finds the bit
 *     at d. The slot is not live: then the bit is dropped, and counted as rejected. Or the slot's next object was
 *     allocated there before d: then d frees that one. No structure is damaged, because the live word has one
 *     writer. Closing this window needs a fence in every free of an owner. (T could look once more after 5, and take
 *     the bit off where the object is gone. That meets the case more often than not. But after sixteen counts T
 *     cannot tell its bit from a later free of the slot's next object, and that free would be lost, though no object
 *     was freed twice.)
 *
 * The owner of a block can change between 6 and 7, by adoption or by the exit of a thread. T pushes on the queue of
 * the heap that it has read. A thread that drains a queue passes a slab of another heap on to that heap's queue. T
 * makes sure that some thread does, before its call returns (push_on, ts_run_deferred). Where that thread passes on a
 * slab of a closed epoch, it drains the other queue as well. So the slab goes back although T has not found it there.
 *
 * A closed epoch gives its slabs back with their last objects, whatever thread frees them, and whatever the owner does
 * meanwhile. The thread that frees the last object holds the owner's heap and takes the slab in
 * (ts_foreign_give_closed). Frees may meet the close itself. The close shuts the block, holds the heap (a barrier),
 * drains, flushes, sets `flushed`, and drains again (ts_foreign_drain_flushed). A freeing thread reads the key (only
 * ts_foreign_freed) and `flushed` after its push.
 *
 * An allocation or a free of the owner works off a bounded number of objects (ts_foreign_drain_some). So one call
 * never pays for all that other threads have freed. A close, an end or a trim takes everything. The slab of a closed
 * epoch's last object is looked for among all that are queued, one step each. No conclusion depends on when the owner
 * drains. An allocation puts it off after a round that brought little (churn_try). A free that meets FOREIGN puts it
 * off, too, except every TS_FOREIGN_FLAGS_MET-th, and looks at the bit.
 *
 * A visitor holds the heap of a running thread. It drains only dead slabs, and slabs of blocks that are closing: the
 * owner's fast paths go on in the others. Steps 5 to 7 are done inside T's own heap bracket, so that no fork finds a
 * slab with FOREIGN set that is on no queue. Only a thread that frees at its very end has no heap, and no bracket: then
 * the child may lose the slab's unit.
 */
/* Modelled in tests/model: foreign, look, exit, spill, orders. */
#include "base/base.h"
#include "cache/cache.h"
#include "cache/free.h"
#include "os/os.h"
#include "slab/slab.h"
#include "supply/supply.h"

#include <limits.h>

static void push(ts_heap *heap, uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    uint64_t head = ts_load_relaxed(&heap->queue);
    do {
        ts_store_relaxed(&slab->queue_next, (uint32_t)head);
    } while (!ts_cas_seq(&heap->queue, &head, unit)); /* publishes queue_next; partner: the exchange in a drain */
}

static bool has_queued(const ts_heap *heap) {
    /* backlog: slabs that a bounded drain has taken off the queue, and has not worked on yet */
    return ts_load_seq(&heap->queue) != 0 || ts_load_relaxed(&heap->backlog) != 0;
}

/* Calls once at least: another holder of the heap may have the pushed slab in its hands. It looks again when it drops
   the heap, because it was called. So does the heap's thread if it is in the middle of an operation. */
void ts_foreign_drain_for(ts_heap *heap) {
    while (ts_heap_notify_for(heap) && ts_load_seq(&heap->state) == TS_HEAP_ABANDONED && has_queued(heap)) {
    }
}

void ts_foreign_drain_for_all(void) {
    for (ts_heap *heap = ts_heaps(); heap; heap = heap->next)
        if (ts_load_seq(&heap->state) == TS_HEAP_ABANDONED || has_queued(heap)) /* its own, too: note_drain */
            ts_foreign_drain_for(heap);
}

/* The heap of a block. The block may have ended since it was found alive, and may have no heap, or no memory. */
static ts_heap *block_owner(const ts_block *block) {
    ts_heap *heap = ts_load_seq(&block->heap); /* seq_cst: push_on */
    return TS_LIKELY(heap != NULL) ? heap : ts_heap_nobody;
}

static void note_drain(ts_heap *heap) {
    ts_thread.drain_others |= ts_thread.drain != NULL && ts_thread.drain != heap;
    ts_thread.drain = heap;
}

/*
 * Pushes a slab on the queue of the heap that the block had when T read it. There are three cases in which no thread
 * may come for it there:
 *   - The heap has no thread any more. ts_heap_exit writes the state and then drains; T pushes and then reads the
 *     state. One of the two sees the other (seq_cst).
 *   - The heap has another thread, which may sleep, and the block is in another heap. A thread that reads that
 *     thread's state sees where the block went before.
 *   - The heap's thread has given the block up, and may sleep. It writes the block's heap, and then drains
 *     (orphan.c); T pushes, and then reads the block's heap. One of the two sees the other (seq_cst).
 * Then T itself drains that heap, once T holds nothing (ts_run_deferred), and passes the slab on.
 */
static void push_on(ts_heap *heap, uint32_t unit, const ts_block *block) {
    push(heap, unit);
    if (TS_LIKELY(ts_load_seq(&heap->state) != TS_HEAP_ABANDONED && block_owner(block) == heap)) return;
    note_drain(heap);
}

static void queue_slab(uint32_t unit, uint64_t u) {
    _Atomic uint64_t *word = ts_unit_word(unit);
    uint64_t now = ts_load_seq(word);
    while (((now ^ u) & ~TS_UNIT_HANDLED) == 0) { /* it may be HANDLED since */
        if (!ts_cas_seq(word, &now, now | TS_UNIT_FOREIGN)) continue;
        ts_block *block = ts_block_of_word(u);
        ts_nodes_queue(unit);
        push_on(block_owner(block), unit, block);
        return;
    }
}

/* It does steps 6 and 7 without 5. Conclusion 4 says what becomes of a slab without bits. */
bool ts_foreign_lend(ts_heap *heap, uint32_t unit, uint64_t word) {
    if (!ts_cas_seq(ts_unit_word(unit), &word, word | TS_UNIT_FOREIGN)) return false;
    heap->lent = unit;
    ts_nodes_queue_empty(unit);
    return true;
}

void ts_foreign_lent_back(ts_heap *heap) {
    uint32_t unit = heap->lent;
    heap->lent = 0;
    ts_foreign_return(unit);
}

void ts_foreign_return(uint32_t unit) {
    /* It may be a zombie by now; its line has not changed. */
    const ts_block *block = ts_block_of_word(ts_load_acquire(ts_unit_word(unit)));
    push_on(block_owner(block), unit, block);
}

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
        if (((again ^ u) & ~TS_UNIT_FOREIGN) != 0) continue;
        ts_block *block = ts_block_of_line(ts_word_line(u), scope);
        if (ts_era(block) != ts_word_era(u)) return TS_FOREIGN_NOT_LIVE;
        if (ts_load_relaxed(&block->allocator) != allocator) return TS_FOREIGN_NOT_LIVE;
        if (scope) {
            const ts_scope_bits *map = ts_slab_scope_bits(unit);
            uint32_t in_unit = (uint32_t)entry & (TS_UNIT_ENTRIES - 1);
            uint64_t mask = (uint64_t)1 << (in_unit & 63);
            if (!(ts_load_acquire(&map->start[in_unit >> 6]) & mask)) return TS_FOREIGN_NOT_LIVE;
            if (ts_load_acquire(&map->freed[in_unit >> 6]) & mask) return TS_FOREIGN_NOT_LIVE;
        } else {
            if (!ts_is_live(entry)) return TS_FOREIGN_NOT_LIVE;
        }
        if (generation != TS_ANY_GENERATION && generation != ts_slab_generation(ts_slab_at(unit), scope ? 0 : u, entry))
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
    const _Atomic uint64_t *lives = ts_unit_live(unit);
    if (ts_word_is_fine(word)) return (uint32_t)(ts_load_seq(&lives[i / 2]) >> i % 2 * 32);
    uint32_t live = 0;
    for (unsigned k = 0; k < 32; k++) {
        live |= (uint32_t)((ts_load_seq(&lives[i * 2 + k / 16]) >> k % 16 * 4 & 15) != 0) << k;
    }
    return live;
}

/* Whether other threads have freed every live object of these 32 granules. */
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

/* seq_cst: several threads may free the last objects at once. Each writes its bit (the owner: the live bit) and then
   looks at all others. So the last of them sees that nothing is left. The owner looks at FOREIGN after that (free.c:
   free_once). seq_cst of `flushed`: ts_foreign_drain_flushed. */
void ts_foreign_give_closed(uint32_t unit, uint64_t entry) {
    _Atomic uint64_t *word = ts_unit_word(unit);
    uint64_t u = ts_load_acquire(word);
    if (!(u & TS_UNIT_FOREIGN) || (u & (TS_UNIT_ZOMBIE | TS_UNIT_SPAN))) return;
    const ts_block *block = ts_block_of_word(u);
    if (ts_era(block) != ts_word_era(u) || !ts_load_seq(&block->flushed)) return;
    unsigned first, end;
    const _Atomic uint64_t *words = ts_slab_foreign_words(unit, u, &first, &end);
    if (!all_pending(unit, u, (unsigned)(ts_foreign_index(u, entry) >> 5), words)) return;
    if (!ts_foreign_all_freed(unit, u)) return;
    if (TS_UNLIKELY(ts_is_lent(unit))) {
        ts_loan_of_lent()->freed(unit);
        uint64_t now = ts_load_acquire(word);
        if (((now ^ u) & ~(TS_UNIT_FOREIGN | TS_UNIT_HANDLED)) != 0) return; /* it was taken out */
    }
    ts_heap *heap = ts_load_acquire(&block->heap);
    if (!heap || heap == ts_thread.heap) return;
    if (ts_heap_hold(heap))
        ts_foreign_drain_closing(heap, unit);
    else if (ts_heap_notify(heap)) /* its thread is in the middle of a call, and looks before it rests */
        ts_heap_run_posted(heap);
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

/* Step e: bits off, count on; the bits that came meanwhile stay. */
static void take_bits_off(_Atomic uint64_t *word, uint64_t x, uint64_t bits) {
    while (!ts_cas_seq(word, &x, ts_foreign_counted_on(x & ~bits))) {
    }
}

/* Steps c to f of a churn slab, whose foreign words have the present tag. In a block that is open to its owner the
   caller is that owner. It keeps what it takes in for its next allocations. Returns the objects freed; adds their
   bytes. */
static unsigned drain_churn(ts_churn_block *block, uint32_t unit, uint64_t w, size_t *bytes) {
    ts_bin *bin = ts_line_address(ts_word_line(w));
    unsigned first, end, objects = 0, cls = ts_bin_class(block, bin);
    _Atomic uint64_t *words = ts_slab_foreign_words(unit, w, &first, &end);
    bool keeps = ts_load_relaxed(&block->b.key) >> TS_KEY_SHARE_SHIFT != 0;
    ts_assert(2, !keeps || ts_load_relaxed(&block->b.heap) == ts_thread.heap);
    if (cls >= TS_LARGE_CLASS) end = 1; /* there is one object */
    uint32_t some = 0;
    for (unsigned i = 0; i < end; i++) {
        if ((uint32_t)ts_load_seq(&words[i]) == 0) continue;
        some |= (uint32_t)1 << i;
        /* The freeing threads' processors had these lines last. */
        __builtin_prefetch((const void *)(uintptr_t)&ts_unit_live(unit)[ts_word_is_fine(w) ? i / 2 : i * 2], 1);
    }
    for (; some; some &= some - 1) {
        unsigned i = ts_ctz64(some);
        uint64_t x = ts_load_seq(&words[i]), bits = (uint32_t)x;
        objects += ts_bin_free_bits(block, bin, unit, i * 32, (uint32_t)bits, keeps);
        take_bits_off(&words[i], x, bits);
    }
    ts_count(&block->b.share->count[cls].foreign_frees, objects);
    ts_bin_release_if_empty(block, bin, unit);
    *bytes += (size_t)objects * ts_class_bytes[cls];
    return objects;
}

static unsigned free_scope_bits(ts_scope_block *block, uint32_t unit, uint32_t in_unit, uint64_t bits) {
    unsigned freed = ts_popcount64(bits);
    for (; bits; bits &= bits - 1) {
        if (ts_scope_free(block, unit, in_unit + ts_ctz64(bits)))
            ts_count(&block->b.share->count[TS_COUNT_SCOPE].foreign_frees, 1);
        else
            ts_fetch_add_relaxed(&block->b.share->allocator->rejected_frees, 1); /* late: 8 */
    }
    return freed;
}

static unsigned drain_scope(ts_scope_block *block, uint32_t unit, uint64_t w) {
    unsigned first, end, objects = 0;
    _Atomic uint64_t *words = ts_slab_foreign_words(unit, w, &first, &end);
    uint64_t tag = ts_load_relaxed(&ts_slab_at(unit)->tag);
    for (unsigned i = first; i < end; i++) {
        uint64_t x = ts_load_seq(&words[i]), bits = (uint32_t)x; /* step c */
        if (bits == 0 || x >> TS_FOREIGN_TAG_SHIFT != tag) continue;
        objects += free_scope_bits(block, unit, i * 32, bits);
        take_bits_off(&words[i], x, bits);
    }
    ts_scope_release_if_empty(block, unit);
    return objects;
}

/* Returns the objects worked on; adds the bytes of slots that are free again. */
static unsigned drain_slab(ts_block *block, uint32_t unit, uint64_t w, size_t *bytes) {
    return block->scope ? drain_scope(ts_scope(block), unit, w) : drain_churn(ts_churn(block), unit, w, bytes);
}

void ts_foreign_drain_slab(ts_block *block, uint32_t unit, uint64_t word) {
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
    if (w & TS_UNIT_ZOMBIE) {
        ts_slab_note_last(unit, w);
        ts_zombie_give(unit);
    }
    if (!alive) return 0;
    objects = drain_slab(block, unit, w & ~TS_UNIT_FOREIGN, bytes);
    ts_nodes_count_remote(block->share->allocator, remote, objects);
    return objects;
}

/* Moves the slabs of the queue to the front of the backlog. */
static void queue_to_backlog(ts_heap *heap) {
    uint32_t first = (uint32_t)ts_exchange_seq(&heap->queue, 0), last = first;
    if (first == 0) return;
    for (uint32_t next; (next = ts_load_relaxed(&ts_slab_at(last)->queue_next)) != 0;) last = next;
    ts_store_relaxed(&ts_slab_at(last)->queue_next, ts_load_relaxed(&heap->backlog));
    ts_store_relaxed(&heap->backlog, first);
}

/* Whether another thread may work on the slab in place of the heap's owner: it is dead, or its block is closing. */
static bool is_ending(const ts_heap *heap, const ts_block *block, uint64_t w) {
    return !is_alive(block, w) || (ts_load_acquire(&block->heap) == heap && block->closing == TS_CLOSING);
}

/* Takes in other ending slabs on the way, so that they are not met again and again: as many as one call should pay
   for. */
void ts_foreign_drain_closing(ts_heap *heap, uint32_t unit) {
    size_t bytes = 0;
    unsigned work = 0;
    if (!(ts_load_acquire(ts_unit_word(unit)) & TS_UNIT_FOREIGN)) return;
    if (TS_UNLIKELY(ts_is_lent(unit))) {
        ts_loan_of_lent()->take_out(heap, unit);
        return;
    }
    if (ts_load_relaxed(&heap->state) == TS_HEAP_ABANDONED) { /* no thread comes for the rest */
        ts_foreign_drain(heap);
        return;
    }
    queue_to_backlog(heap);
    _Atomic uint32_t *at = &heap->backlog; /* only the holder of the heap walks it */
    for (uint32_t slab = 0; slab != unit && (slab = ts_load_relaxed(at)) != 0;) {
        uint64_t w = ts_load_acquire(ts_unit_word(slab));
        ts_block *block = ts_block_of_word(w);
        if ((slab == unit || work < 16 * TS_FOREIGN_WORK) && is_ending(heap, block, w)) {
            ts_store_relaxed(at, ts_load_relaxed(&ts_slab_at(slab)->queue_next));
            work += TS_FOREIGN_SLAB_WORK + take_slab(slab, block, w, &bytes);
        } else {
            at = &ts_slab_at(slab)->queue_next;
        }
    }
}

void ts_foreign_drain(ts_heap *heap) { ts_foreign_drain_some(heap, UINT_MAX); }

/* A thread that frees the last object of a slab pushes, and then reads `flushed`. If it is set, the thread takes the
   slab in itself. Here `flushed` was set, and then the queue is read (both seq_cst): one of the two sees the other. */
void ts_foreign_drain_flushed(ts_heap *heap) {
    atomic_thread_fence(memory_order_seq_cst);
    ts_foreign_drain(heap);
}

size_t ts_foreign_drain_some(ts_heap *heap, unsigned most) {
    /* The queue is taken once, so that a drain of everything ends while other threads push. */
    bool more = ts_load_seq(&heap->queue) != 0;
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
        ts_block *block = ts_block_of_word(w);
        bool alive = is_alive(block, w);
        ts_heap *owner = alive ? block_owner(block) : heap;
        if (owner != heap) {
            push_on(owner, unit, block);
            /* The thread that freed the last object of a closed epoch's slab may not have found the slab on that
               queue, because this thread had it in its hands. seq_cst: as in ts_foreign_give_closed. */
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
