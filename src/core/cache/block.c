/* Modelled in tests/model: hold, exit, epoch, orders. */
#include "base/base.h"
#include "cache/allocate.h"
#include "cache/cache.h"
#include "cache/free.h"
#include "memtools/memtools.h"
#include "os/os.h"
#include "supply/supply.h"

#include <limits.h>
#include <string.h>

/* Loads the frees first, and the allocations from claimed words last, so that a reader sees no more freed than
   allocated. Where the owner's stores may be seen in another order, the second line corrects it: freed objects were
   allocated. */
static ts_tally bin_tally(const ts_bin *bin) {
    ts_tally t = {0};
    ts_magazine_counts counts = ts_bin_magazine_counts(bin);
    t.freed = counts.frees;
    t.allocated = counts.pops + ts_bin_word_allocs(bin);
    if (TS_UNLIKELY(t.freed > t.allocated)) t.allocated = t.freed;
    t.slabs = ts_load_relaxed(&bin->slabs);
    return t;
}

/* The bytes in full slabs and in the current one. The owner gives a slab its end first. Then it adds its bytes to
   those of full slabs (release, in ts_scope_seal), and then goes on to the next slab. So a slab that had no end after
   the count was read is not in the count. If it has one, the owner is between two slabs for a moment. */
TS_ALWAYS_INLINE uint64_t scope_bytes(const ts_scope_block *s) {
    uint64_t full = 0;
    for (unsigned looks = 0; looks < 16; looks++) {
        full = ts_load_acquire(&s->bytes_allocated);
        const char *bump = ts_bump_at(ts_load_acquire(&s->bump)); /* acquire: the end of the slab before is seen */
        uint32_t current = ts_load_relaxed(&s->current);
        bool ended = current && ts_load_relaxed(&ts_slab_at(current)->end) != 0;
        atomic_thread_fence(memory_order_acquire);
        if (TS_UNLIKELY(ts_load_relaxed(&s->bytes_allocated) != full)) continue; /* a slab was counted meanwhile */
        if (!bump || !current) return full;
        size_t used = (size_t)(bump - ts_slab_address(current));
        /* used is too large if the two are of different slabs */
        if (TS_LIKELY(used <= ts_slab_bytes(current) && !ended)) return full + used;
    }
    return full;
}

TS_ALWAYS_INLINE ts_tally scope_tally(const ts_scope_block *s) {
    ts_tally t;
    t.freed = ts_load_relaxed(&s->frees); /* before allocs: a reader never sees more freed than allocated */
    t.bytes_freed = ts_load_relaxed(&s->bytes_freed);
    t.allocated = ts_scope_allocs(s);
    if (TS_UNLIKELY(t.freed > t.allocated)) t.allocated = t.freed; /* as in bin_tally */
    t.bytes_allocated = scope_bytes(s);
    t.slabs = ts_load_relaxed(&s->b.slabs);
    t.pieces = ts_load_relaxed(&s->pieces);
    return t;
}

ts_tally ts_block_tally(const ts_block *block, uint32_t cls) {
    ts_tally t = {0};
    if (block->scope) {
        if (cls != UINT32_MAX && cls != TS_COUNT_SCOPE) return t;
        return scope_tally((const ts_scope_block *)(const void *)block);
    }
    const ts_churn_block *c = (const ts_churn_block *)(const void *)block;
    unsigned from = cls == UINT32_MAX ? 0 : cls, to = cls == UINT32_MAX ? TS_CLASSES : cls + 1;
    if (from >= TS_CLASSES) return t;
    for (unsigned i = from; i < to; i++) {
        ts_tally bin = bin_tally(&c->bin[i]);
        t.freed += bin.freed;
        t.allocated += bin.allocated;
        t.bytes_freed += bin.freed * ts_class_bytes[i];
        t.bytes_allocated += bin.allocated * ts_class_bytes[i];
        t.slabs += bin.slabs * ts_class_units(i);
    }
    return t;
}

/* Tells the memory tools of slabs whose objects died together, linked by next. */
static void end_slabs(const ts_block *block, uint32_t unit) {
    EpochId epoch = ts_load_relaxed(&block->epoch_id);
    for (; unit; unit = ts_slab_at(unit)->next)
        ts_care_end(block->share->allocator->care, ts_unit_address(unit), TS_UNIT_BYTES, epoch);
}

static void keep_slabs(ts_share *share, const ts_retained *list) {
    uint32_t count = ts_load_relaxed(&list->count);
    ts_thread.released += count;
    if (ts_share_add_retained(share, list->head, list->tail, count)) ts_share_overflow(share);
}

/* Gives the slabs of a LARGE bin back one by one, because they have several units. Slabs on a queue become zombies. */
static void end_large(ts_share *share, unsigned cls, uint32_t unit) {
    ts_allocator *allocator = share->allocator;
    for (uint32_t next; unit; unit = next) {
        next = ts_slab_at(unit)->next;
        ts_slab_at(unit)->allocator =
            ts_allocator_index(allocator); /* ts_zombie_give reads it if the slab becomes a zombie */
        if (ts_slab_claim(unit, &allocator->pins)) ts_share_keep_slab(share, unit, ts_class_units(cls));
    }
}

TS_NOINLINE static void end_churn(ts_churn_block *block) {
    ts_retained list = {0, 0, 0};
    for (uint64_t left = ts_load_relaxed(&block->b.bins_used); left; left &= left - 1) {
        unsigned cls = ts_ctz64(left);
        ts_bin *bin = &block->bin[cls];
        uint32_t head = ts_bin_head(bin);
        ts_retained chain = {head, head ? ts_slab_at(head)->prev : 0, 0};
        if (TS_UNLIKELY(block->b.share->allocator->care)) end_slabs(&block->b, head);
        ts_store_relaxed(&chain.count, ts_load_relaxed(&bin->slabs));
        if (ts_class_units(cls) > 1)
            end_large(block->b.share, cls, head);
        else
            ts_retained_splice(&list, &chain);
        ts_share_fold(block->b.share, cls, bin_tally(bin).allocated);
        ts_store_relaxed(&bin->word, 0);
        bin->word_place = 0;
        bin->head_low = 0;
        block->empty[cls] = 0;
        ts_store_relaxed(&bin->full, 0);
        ts_store_relaxed(&bin->slabs, 0);
        ts_store_relaxed(&bin->top, 0);
        ts_store_relaxed(&bin->claims, 0);
        ts_store_relaxed(&bin->direct_frees, 0);
    }
    block->little = block->handled = 0;
    keep_slabs(block->b.share, &list);
}

static void end_scope(ts_heap *heap, ts_scope_block *block) {
    ts_share *share = block->b.share;
    ts_thread.released += ts_load_relaxed(&block->b.slabs);
    if (ts_scope_end(heap, block)) ts_share_overflow(share);
}

void ts_block_end(ts_heap *heap, ts_block *block) {
    ts_store_relaxed(&block->open_id, TS_ID_NEVER);
    if (!block->scope) ts_store_relaxed(&block->rolling, 0);
    /* The block is shut, on no epoch's list, and its heap is held: no other thread changes the key. release: as in
       ts_block_kill. */
    if (ts_era(block) == ts_load_relaxed(&block->era)) ts_store_release(&block->key, (ts_era(block) + 1));
    if (block->scope) {
        if (TS_UNLIKELY(block->share->allocator->care)) end_slabs(block, ts_scope(block)->head);
        end_scope(heap, ts_scope(block));
    } else {
        end_churn(ts_churn(block));
        ts_block_set_free(heap, block, false);
    }
}

/* Puts the objects of the magazine, and the claimed slots, back into their slabs. */
static void return_slots(ts_churn_block *block, ts_bin *bin) {
    for (uint64_t i = ts_bin_depth(bin); i > 0; i--)
        ts_bin_give_slot(block, bin, ts_entry_of(&ts_region.part[TS_NORMAL], bin->magazine->object[i - 1]));
    ts_bin_forget_magazine(bin);
    ts_bin_give_word(block, bin);
}

static uint32_t flush_bin(ts_churn_block *block, unsigned cls, uint64_t *recycled) {
    ts_bin *bin = &block->bin[cls];
    uint32_t scanned = 0;
    uint32_t before = ts_load_relaxed(&bin->slabs);
    return_slots(block, bin);
    for (uint32_t unit = ts_bin_head(bin); unit && block->empty[cls] != 0;) {
        ts_slab *slab = ts_slab_at(unit);
        uint32_t next = slab->next;
        scanned++;
        if (slab->free_count == 0) break; /* the slabs behind it are full, too */
        ts_bin_release_empty(block, bin, unit);
        unit = next;
    }
    *recycled += before - ts_load_relaxed(&bin->slabs);
    return scanned;
}

uint32_t ts_block_flush(ts_heap *heap, ts_block *block, uint64_t *recycled) {
    uint32_t scanned = 0;
    (void)heap;
    /* release: publishes the count of slabs after the flush. A reader that sees 1 and no slabs is right, because a
       closing block gets no new slab. */
    ts_store_release(&block->flushed, block->closing == TS_CLOSING);
    if (block->scope) {
        uint32_t before = ts_load_relaxed(&block->slabs);
        ts_scope_retire_current(ts_scope(block));
        if (block->closing == TS_CLOSING) ts_scope_forget_all(ts_scope(block));
        *recycled += before - ts_load_relaxed(&block->slabs);
        return before;
    }
    for (uint64_t left = ts_load_relaxed(&block->bins_used); left; left &= left - 1)
        scanned += flush_bin(ts_churn(block), ts_ctz64(left), recycled);
    return scanned;
}

/* The bin in which the last call stopped, at heap->shed_unit, if that unit still is a slab of it. NULL: the call
   begins with the first bin. The unit's word is right about blocks of this heap, which the caller holds. */
static ts_bin *shed_at(const ts_heap *heap) {
    uint64_t word = heap->shed_unit ? ts_load_acquire(ts_unit_word(heap->shed_unit)) : 0;
    if (word == 0 || (word & (TS_UNIT_SPAN | TS_UNIT_SCOPE | TS_UNIT_ZOMBIE))) return NULL;
    const ts_block *block = ts_block_of_line(ts_word_line(word), false);
    bool same = ts_load_relaxed(&block->heap) == heap && ts_era(block) == ts_word_era(word);
    return same ? ts_line_address(ts_word_line(word)) : NULL;
}

/* Sheds a bin in which nothing was allocated since the last look. (Or by chance a multiple of 256 objects, which does
   no harm.) Its free objects go to their slabs, and its slabs without any object go to the share. Returns how many
   slabs it has looked at; the others come in the next calls. A visitor is not the bin's thread. That thread goes on
   with its magazine, its claimed word, and the free slots of slabs that have objects. So a visitor leaves these, and
   reads only fields of a slab that the holder of the heap writes. It also leaves the bin's first slab: taking it out
   would write `head`, which shares its word with `full_at`, and the thread reads that at any time. */
static uint32_t shed_bin(ts_heap *heap, ts_churn_block *block, unsigned cls, uint32_t most, bool *more) {
    ts_bin *bin = &block->bin[cls];
    bool visitor = heap != ts_thread.heap;
    uint8_t now = (uint8_t)(ts_bin_magazine_counts(bin).pops + ts_bin_word_allocs(bin));
    uint32_t looked = 1;
    bool idle = block->seen[cls] == now;
    block->seen[cls] = now;
    if (!idle || ts_load_relaxed(&bin->slabs) == 0) return looked;
    if (!visitor) return_slots(block, bin);
    uint32_t first = visitor ? ts_bin_head(bin) : 0;
    uint32_t stay = first && (ts_slab_at(first)->given & TS_SLAB_IS_EMPTY) ? 1 : 0;
    uint32_t unit = shed_at(heap) == bin ? heap->shed_unit : ts_bin_head(bin);
    heap->shed_unit = 0;
    for (uint32_t next; unit && block->empty[cls] > stay; unit = next) {
        next = ts_slab_at(unit)->next;
        if (looked++ >= most) {
            heap->shed_unit = unit;
            *more = true;
            break;
        }
        if (unit != first) ts_bin_release_empty(block, bin, unit);
    }
    return looked;
}

#define SHED_SLABS 256u  /* slabs that one call looks at */
#define SHED_BLOCKS 256u /* blocks that one call looks at; those in use for the shortest time come first */

bool ts_heap_shed(ts_heap *heap, const ts_allocator *allocator) {
    uint32_t looked = 0, blocks = 0;
    bool more = false;
    const ts_bin *at = shed_at(heap);
    const ts_block *in = at ? &ts_bin_block(at)->b : NULL;
    if (in && (in->closing == TS_CLOSING || (allocator && in->share->allocator != allocator))) in = NULL;
    for (ts_block *b = ts_heap_first_block(heap); b && blocks < SHED_BLOCKS && !more; b = ts_heap_next_block(b)) {
        if (b->scope || b->closing == TS_CLOSING || (allocator && b->share->allocator != allocator)) continue;
        if (in && b != in) continue; /* the last call has looked at this block */
        uint64_t left = ts_load_relaxed(&b->bins_used);
        blocks++;
        if (in) left &= ~(uint64_t)0 << ts_bin_class(ts_churn(b), at);
        in = NULL;
        for (; left && !more; left &= left - 1) {
            uint32_t most = looked < SHED_SLABS ? SHED_SLABS - looked : 1;
            looked += shed_bin(heap, ts_churn(b), ts_ctz64(left), most, &more);
        }
    }
    if (!more) heap->shed_unit = 0;
    return more;
}

void ts_block_flush_if_shut(ts_heap *heap, ts_block *block) {
    uint64_t recycled = 0;
    /* acquire: the shut key is seen, too: see shut_blocks */
    if (block->closing == TS_CLOSING || ts_load_acquire(&block->open_id) != TS_ID_NEVER) return;
    block->closing = TS_CLOSING;
    ts_block_flush(heap, block, &recycled);
    ts_foreign_drain_flushed(heap);
    ts_note_drained(block);
}

static void rebuild_scope(ts_scope_block *block) {
    uint64_t live = 0, live_bytes = 0;
    uint32_t current = ts_load_relaxed(&block->current);
    if (current) {
        /* The vanished thread may have set a start bit and not moved bump yet: no thread has that object. */
        const char *bump = ts_bump_at(ts_load_relaxed(&block->bump));
        uint32_t used = (uint32_t)((size_t)(bump - ts_slab_unit_address(current)) / 16);
        ts_scope_bits *bits = ts_slab_scope_bits(current);
        if (used < ts_scope_end_entry(current))
            ts_store_relaxed(&bits->start[used >> 6],
                             ts_load_relaxed(&bits->start[used >> 6]) & ~((uint64_t)1 << (used & 63)));
    }
    for (uint32_t unit = block->head; unit; unit = ts_slab_at(unit)->next) {
        ts_slab *slab = ts_slab_at(unit);
        const ts_scope_bits *bits = ts_slab_scope_bits(unit);
        slab->free_count = (uint16_t)(ts_scope_count_started(unit) - ts_scope_count_live(unit));
        live += ts_scope_count_live(unit);
        for (uint32_t e = ts_scope_first_entry(unit); e < ts_scope_end_entry(unit); e++) {
            uint64_t bit = (uint64_t)1 << (e & 63);
            if ((ts_load_relaxed(&bits->start[e >> 6]) & bit) && !(ts_load_relaxed(&bits->freed[e >> 6]) & bit))
                live_bytes += ts_scope_object_bytes(block, unit, e);
        }
    }
    ts_scope_retire_current(block);
    ts_store_relaxed(&block->frees, ts_scope_allocs_held(block) - live);
    ts_store_relaxed(&block->bytes_freed, ts_load_relaxed(&block->bytes_allocated) - live_bytes);
}

void ts_block_rebuild(ts_heap *heap, ts_block *block) {
    (void)heap;
    if (block->scope) {
        rebuild_scope(ts_scope(block));
        return;
    }
    ts_churn_block *churn = ts_churn(block);
    for (uint64_t left = ts_load_relaxed(&block->bins_used); left; left &= left - 1) {
        unsigned cls = ts_ctz64(left);
        ts_bin *bin = &churn->bin[cls];
        uint64_t live = 0;
        ts_bin_forget_magazine(bin);
        (void)ts_bin_take_word(bin); /* the live words show its free slots */
        for (uint32_t unit = ts_bin_head(bin); unit; unit = ts_slab_at(unit)->next) {
            ts_slab_rebuild(unit, cls);
            live += ts_slab_count_live(unit);
        }
        ts_bin_count_empty(churn, cls);
        ts_bin_list_by_free(bin);
        /* The vanished thread may have counted one half of an operation. Afterwards allocated - freed is live again. */
        uint64_t allocated = ts_bin_word_allocs(bin); /* objects freed into the magazine were allocated from it */
        if (allocated < live) ts_add_owned(&bin->claims, (live - allocated) << TS_CLAIMS_SHIFT);
        ts_store_relaxed(&bin->direct_frees, allocated < live ? 0 : (allocated - live) << TS_DIRECT_SHIFT);
    }
}

static void end_posted(ts_heap *heap, ts_block *block) {
    ts_allocator *allocator = block->share->allocator;
    ts_assert(2, ts_load_relaxed(&block->left) == 0);
    /* Another thread has passed the fence in ts_epoch_detach_blocks. This fence is for that count: a reader that
       sees a later store of this function sees the count. */
    atomic_thread_fence(memory_order_release);
    ts_block_end(heap, block);
    ts_allocator_unpin(allocator);
}

/*
 * Blocks that are left to their thread. Each heap has one list for all kinds of work; a mark in `left` names the kind.
 *  1. The thread that changes `left` from 0 pushes the block. A thread that finds marks there adds its own, and is
 *     done. So a block is on the list once.
 *  2. The thread that takes a block off the list holds the heap, or goes to hold it. It takes all of `left` in one
 *     exchange, and so has all marks that were set before. A thread that sets a mark afterwards pushes the block
 *     again. The exchange reads the successor, too.
 *  3. Only the thread that took the marks of a block ends it. So the block gets no next use while it is on a list,
 *     and its memory does not go back.
 *  4. A close has the epoch pinned until its push is done, and the blocks are ended after the last unpin.
 *  5. A thread that leaves a block to be counted has the block's epoch, so the block is in the epoch's list until the
 *     push is done. No thread takes over a block that has marks (ts_epoch_adopt_block): it is on the list of the
 *     heap that it is in.
 */
static ts_block *left_next(uintptr_t left) { return (ts_block *)(left & ~TS_LEFT_MARKS); }

/* Pushes the blocks from `first` to `last`, which the caller has linked. */
static void push_left(ts_heap *heap, ts_block *first, ts_block *last) {
    ts_block *head = ts_load_relaxed(&heap->inbox);
    do {
        /* Marks that other threads add meanwhile stay. */
        uintptr_t left = ts_load_relaxed(&last->left);
        while (!ts_cas_seq(&last->left, &left, (left & TS_LEFT_MARKS) | (uintptr_t)head)) {
        }
    } while (!ts_cas_seq(&heap->inbox, &head, first)); /* publishes the links */
}

static void post(ts_heap *heap, ts_block *block, uintptr_t mark) {
    if (atomic_fetch_or_explicit(&block->left, mark, memory_order_seq_cst) == 0) push_left(heap, block, block);
}

void ts_heap_post_end(ts_heap *heap, ts_block *block) { post(heap, block, TS_POST_END); }
void ts_heap_post_flush(ts_heap *heap, ts_block *block) { post(heap, block, TS_POST_FLUSH); }
void ts_heap_post_count(ts_heap *heap, ts_block *block) { post(heap, block, TS_POST_COUNT); }

void ts_heap_post_list(ts_heap *heap, ts_block *block) {
    ts_block *last = block;
    for (ts_block *next; (next = left_next(ts_load_acquire(&last->left))) != NULL;) last = next;
    push_left(heap, block, last);
}

/* Does the work of the first block of a list that was taken off the heap. Returns the next block. */
static ts_block *end_left(ts_heap *heap, ts_block *block) {
    uintptr_t left = ts_exchange_seq(&block->left, 0);
    if (left & TS_POST_END) {
        end_posted(heap, block);
    } else {
        if (TS_UNLIKELY(left & TS_POST_COUNT)) ts_block_count(block);
        ts_block_flush_if_shut(heap, block);
    }
    return left_next(left);
}

void ts_heap_end_posted(ts_heap *heap) { ts_heap_end_posted_some(heap, UINT_MAX); }

void ts_heap_end_posted_some(ts_heap *heap, unsigned most) {
    bool more = ts_load_seq(&heap->inbox) != NULL; /* seq_cst: against the last look of an exit */
    if (TS_LIKELY(!more && !ts_load_relaxed(&heap->ending))) return;
    for (; most > 0; most--) {
        ts_block *block = ts_load_relaxed(&heap->ending);
        if (!block && more) {
            block = ts_exchange_seq(&heap->inbox, NULL);
            more = false;
        }
        if (!block) break;
        ts_store_relaxed(&heap->ending, end_left(heap, block));
    }
}

void ts_heap_end_list(ts_heap *heap, ts_block *block) {
    while (block) block = end_left(heap, block);
}
