/*
 * Allocation off the fast path. Nothing here is called inside an operation or with a lock held.
 *
 * What could go wrong: the epoch ends between two steps of an allocation, and a step works on another object at the
 * same place. It does not. The object is taken inside the heap or an operation, and an end of the epoch waits for
 * both (heap.c). Later steps, which make a handle or poison, compare a note of the object with its slab (ts_taken).
 * Another use of the slab differs from the note.
 */
/* Modelled in tests/model: orders. */
#include "base/base.h"
#include "cache/cache.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "memtools/memtools.h"
#include "object/find.h"
#include "object/object.h"
#include "object/refill.h"
#include "os/os.h"
#include "supply/supply.h"

#include <errno.h>
#include <string.h>

#define TS_SMALL_MOST 8192u /* bytes of an object, and of its alignment, in the first slab of a churn domain */

/* ---- choosing ---------------------------------------------------------------------------------------- */

static bool is_open(const ts_block *block, const ts_allocator *allocator, EpochId id) {
    return ts_load_relaxed(&block->open_id) == id &&
           ts_load_relaxed(&block->allocator) == ts_load_relaxed(&allocator->token);
}

/* This thread's block in an open epoch. */
static ts_block *find_block(ts_heap *heap, ts_allocator *allocator, EpochId id) {
    unsigned i = ts_table_index(&ts_epochs, id) % TS_HEAP_MAP;
    ts_block *b = heap->map[i] ? &heap->map[i]->b : NULL;
    if (b && is_open(b, allocator, id)) return b;
    b = heap->scope_map[i] ? &heap->scope_map[i]->b : NULL;
    if (b && is_open(b, allocator, id)) return b;
    return ts_epoch_join(heap, allocator, id);
}

/* Reports the damage that care has found at a new object in a slab; kind: a class or TS_COUNT_SCOPE. */
TS_COLD static void tell(ts_allocator *allocator, EpochId id, void *p, uint32_t kind, const ts_taken *t) {
    if (TS_UNLIKELY(ts_care_written)) {
        const char *at = ts_care_written;
        ts_care_written = NULL;
        ts_misuse_written_free(ts_load_relaxed(&allocator->token), at);
    }
    size_t usable = kind < TS_CLASSES ? ts_class_bytes[kind] : ts_scope_round(t->size);
    if (t->written != TS_CARE_CLEAN)
        ts_misuse_written(ts_load_relaxed(&allocator->token), p, t->written, kind, usable, id, t->again);
}

static void *span_alloc(ts_allocator *allocator, EpochId id, size_t size, size_t align, bool zero, ts_taken *t) {
    ts_span_note note = {.written = TS_CARE_CLEAN};
    void *p = ts_span_alloc(allocator, id, size, align, &zero, &note);
    t->word = note.word;
    if (TS_UNLIKELY(note.written != TS_CARE_CLEAN))
        ts_misuse_written(ts_load_relaxed(&allocator->token), p, note.written, TS_COUNT_SPAN, note.bytes, id, true);
    return p;
}

/*
 * Starting small. A churn domain of one thread mostly has few objects: it is a session or a connection. So the
 * thread's first objects in it lie in one slab of mixed sizes, as in a scope. Only the touched pages of that slab
 * have memory. An object that does not fit there makes a block with bins, which serves all later objects. Objects
 * that are freed in the first slab are not used again; that wastes one slab at most. No fast path allocates there
 * (`slow`), because objects are aligned to their size if that is a power of two. An object that is too large for a
 * piece lies beside the pieces, in the unit of another block. So a connection with a buffer of one page holds that
 * page and the pieces of its small objects.
 */
static size_t small_alignment(size_t size, size_t align) {
    bool natural = size >= 32 && size <= TS_SMALL_MOST && ts_is_pow2(size);
    return natural && size > align ? size : align;
}

/* Also for sizes beyond those of ts_scope_round. */
static size_t small_bytes(size_t size) { return size == 0 ? 16 : (size + 15) & ~(size_t)15; }

/* Whether the block has its small objects in pieces, or will, and this one is too large for a piece. */
static bool lies_beside(const ts_scope_block *block, size_t size) {
    const ts_epoch *epoch = ts_load_relaxed(&block->b.epoch);
    return size > TS_PIECE_BYTES && size <= TS_SMALL_MOST && epoch && !ts_load_relaxed(&epoch->account) &&
           ts_scope_is_in_pieces(block);
}

/* Whether the block's first unit has room for the object; pieces come before that unit. Called by the block's thread:
   no other moves the bump pointer. */
static bool small_has_room(const ts_scope_block *block, size_t size, size_t align) {
    if (size > TS_SMALL_MOST || align > TS_SMALL_MOST) return false;
    const char *at = ts_bump_at(ts_load_relaxed(&block->bump));
    uint32_t current = ts_load_relaxed(&block->current);
    if (!at || ts_is_piece(current)) return ts_load_relaxed(&block->b.slabs) == ts_load_relaxed(&block->pieces);
    const char *end = ts_unit_address(current) + TS_UNIT_BYTES;
    uintptr_t aligned = ts_align_up((uintptr_t)at, align);
    return aligned <= (uintptr_t)end && small_bytes(size) <= (uintptr_t)end - aligned;
}

bool ts_has_as_span(const ts_allocator *allocator, EpochId id, size_t size) {
    const ts_epoch *epoch = size > TS_QUARTER_BYTES ? ts_epoch_at_id(id) : NULL;
    bool scope = epoch && (ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE);
    return size > (scope ? ts_allocator_scope_bytes(allocator) : ts_allocator_class_bytes(allocator));
}

/* zero: the bytes have to be zero. align is a power of two. */
static void *alloc_in(ts_heap *heap, ts_allocator *allocator, EpochId id, size_t align, bool zero, ts_taken *t) {
    void *p = NULL;
    size_t size = t->size;
    if (size > PTRDIFF_MAX) return ts_fail_null(ENOMEM);
    unsigned cls = ts_class_aligned(size, align);
    size_t most = ts_allocator_class_bytes(allocator);
    bool small = align <= most && !ts_has_as_span(allocator, id, size);
    ts_block *block = NULL;
    while (small && !p) {
        block = find_block(heap, allocator, id);
        if (!block) return NULL;
        if (TS_UNLIKELY(ts_block_is_small(block))) {
            size_t natural = small_alignment(size, align);
            if (lies_beside(ts_scope(block), size))
                block = ts_epoch_join_as(heap, allocator, id, (ts_wanted){.first = block});
            if (!block) return NULL;
            if (small_has_room(ts_scope(block), size, natural)) {
                p = ts_refill_scope(heap, ts_scope(block), small_bytes(size), natural, id, t);
                if (!p && errno != ESTALE) return NULL;
                continue;
            }
            block = ts_epoch_join_as(heap, allocator, id, (ts_wanted){.bins = true});
            if (!block) return NULL;
            heap->scope_map[ts_table_index(&ts_epochs, id) % TS_HEAP_MAP] = NULL; /* later searches find this one */
        }
        if (block->scope && (size + align <= TS_SCOPE_MAX_BYTES + 16 ||
                             (align == 16 && ts_scope_may_renew(ts_scope(block), small_bytes(size)))))
            p = ts_refill_scope(heap, ts_scope(block), small_bytes(size), align, id, t);
        else if (!block->scope && cls < TS_CLASSES)
            p = ts_refill_churn(heap, ts_churn(block), cls, id, t);
        else
            small = false;
        /* ESTALE: the block has ended, by a reset if the epoch goes on; find_block tells which. */
        if (small && !p && errno != ESTALE) return NULL;
    }
    if (!small) return span_alloc(allocator, id, size, align, zero, t);
    if (TS_UNLIKELY(allocator->care && p)) tell(allocator, id, p, block->scope ? TS_COUNT_SCOPE : cls, t);
    if (p && zero && !t->zero) memset(p, 0, size);
    return p;
}

/* The next allocations in the thread's block of that epoch are counted without the slow path, if it is slow only for
   that (ts_alloc_counted). */
static void know_counted(const ts_heap *heap, uintptr_t token, EpochId id) {
    unsigned i = ts_table_index(&ts_epochs, id) % TS_HEAP_MAP;
    uint64_t key = ts_thread.share_key;
    if (ts_load_relaxed(&ts_thread.token) != token) return;
    ts_churn_block *churn = heap->map[i];
    ts_scope_block *scope = heap->scope_map[i];
    if (churn && churn->b.slow == TS_SLOW_COUNTED && ts_is_own_open(&churn->b, key, id))
        ts_thread.counted = churn;
    else if (scope && scope->b.slow == TS_SLOW_COUNTED && ts_is_own_open(&scope->b, key, id))
        ts_thread.counted_scope = scope;
}

/* An allocation that failed. That the budget does not allow it is said once for each budget. */
TS_COLD static void note_failure(ts_allocator *allocator, size_t size) {
    uint64_t budget = ts_allocator_budget_units(allocator), units = size / TS_UNIT_BYTES + 1;
    ts_fetch_add_relaxed(&allocator->allocation_failures, 1);
    if (budget == 0 || ts_load_relaxed(&allocator->committed_units) + units <= budget) return;
    if (atomic_exchange_explicit(&allocator->budget_told, 1, memory_order_relaxed)) return;
    ts_tell("budget of %" PRIu64 " bytes reached: no memory for an object of %" PRIu64 " bytes",
            ts_load_relaxed(&allocator->budget_bytes), (uint64_t)size);
}

/* caller: where the program goes on after its call. */
TS_ALWAYS_INLINE void *alloc_noted(uintptr_t token, size_t align, EpochId id, bool zero, ts_taken *t, void *caller) {
    int before = errno; /* a failed try sets it, and the next try may succeed */
    ts_allocator *allocator = ts_allocator_find(token);
    if (!allocator) return ts_fail_null(EINVAL);
    ts_care_call(allocator->care);
    ts_heap *heap = ts_heap_mine();
    if (!heap) return NULL;
    if (id == EPOCH_NONE) return ts_fail_null(EINVAL);
    ts_timing timing = ts_sample_begin(heap, TS_SAMPLE_ALLOC);
    void *p = alloc_in(heap, allocator, id, align, zero, t);
    ts_sample_end(heap, &timing, TS_SAMPLE_ALLOC);
    if (TS_UNLIKELY(ts_load_relaxed(&allocator->sampled)) && p) {
        ts_share *share = ts_share_of_mine(token);
        if (share) ts_stacks_count(heap, share, id, p, t->size, caller);
        know_counted(heap, token, id);
    }
    bool failed = !p && errno == ENOMEM;
    ts_epoch_run_deferred();
    if (TS_UNLIKELY(failed)) note_failure(allocator, t->size);
    if (p) errno = before;
    return p;
}

_Atomic size_t ts_aligned_most = 16;

TS_COLD static void raise_aligned_most(size_t align) {
    size_t before = ts_load_relaxed(&ts_aligned_most);
    while (before < align && !atomic_compare_exchange_weak_explicit(&ts_aligned_most, &before, align,
                                                                    memory_order_relaxed, memory_order_relaxed)) {
    }
}

TS_ENTRY void *ts_alloc_aligned(uintptr_t token, size_t align, size_t size, EpochId id, bool zero) {
    ts_taken t = {.size = size};
    if (TS_UNLIKELY(align > ts_load_relaxed(&ts_aligned_most))) raise_aligned_most(align);
    return alloc_noted(token, align, id, zero, &t, TS_CALLER());
}

/* If the slab is in another use the object has died, and the place is another's. */
void *ts_handle_new(uintptr_t token, void *p, uint64_t word, SlabHandle *handle) {
    ts_object object;
    *handle = SLAB_HANDLE_NONE;
    if (!ts_object_at(token, p, &object) || !ts_is_same_use(object.word, word)) return ts_fail_null(ESTALE);
    *handle = ts_object_handle(token, &object);
    if (*handle != SLAB_HANDLE_NONE) return p;
    int why = errno;
    (void)ts_free_object(token, &object);
    return ts_fail_null(why);
}

TS_ENTRY void *ts_alloc_object(uintptr_t token, size_t size, EpochId id, SlabHandle *handle) {
    ts_taken t = {.size = size};
    *handle = SLAB_HANDLE_NONE;
    void *p = alloc_noted(token, 16, id, false, &t, TS_CALLER());
    return p ? ts_handle_new(token, p, t.word, handle) : NULL;
}

static char *bump_small(ts_scope_block *block, size_t size) {
    size_t align = small_alignment(size, 16);
    uint64_t bump, next;
    if (TS_LIKELY(((uintptr_t)ts_bump_at(ts_load_relaxed(&block->bump)) & (align - 1)) == 0))
        return ts_fast_has_room(block, size, &bump, &next) ? ts_fast_bump(block, bump, next) : NULL;
    return ts_scope_bump_aligned(block, align, small_bytes(size));
}

/* bump_small in the next piece. */
TS_NOINLINE static char *renew_small(const ts_heap *heap, ts_scope_block *block, size_t size) {
    if (size > TS_PIECE_BYTES || ts_heap_is_waited_for(heap) || ts_sample_is_news(heap)) return NULL;
    return ts_scope_next_piece(block, small_bytes(size));
}

/* As ts_alloc_counted_bytes. */
TS_NOINLINE static char *bump_small_counted(ts_scope_block *block, size_t size) {
    size_t bytes = ts_stacks_bytes(size);
    if (block->b.share->slow[true] != TS_SLOW_COUNTED || !ts_count_before_sample(&ts_thread, &block->b, bytes))
        return NULL;
    return ts_counted(&block->b, size, bump_small(block, size));
}

/* "Starting small": an object of the thread's first block, where its slab has room. NULL: the slow path. Inside an
   operation, with no holder, the heap is as if held (heap.c). */
static void *small_at_hand(uintptr_t token, size_t size, EpochId id) {
    ts_tls *tls = &ts_thread;
    const ts_heap *heap = tls->heap;
    if (!heap || id == EPOCH_NONE || ts_load_relaxed(&tls->token) != token || size > TS_SMALL_MOST) return NULL;
    ts_scope_block *block = heap->scope_map[(uint32_t)id % TS_HEAP_MAP];
    void *p = NULL;
    if (!block) return NULL;
    ts_op_begin(tls);
    if (ts_load_relaxed(&block->b.open_id) == id && ts_load_acquire(&heap->revoked) == 0 && /* as in ts_heap_enter */
        (ts_load_relaxed(&block->b.key) ^ tls->share_key) >> TS_KEY_SHARE_SHIFT == 0 && ts_block_is_small(&block->b)) {
        bool counted = block->b.share->slow[true];
        p = TS_LIKELY(!counted) ? bump_small(block, size) : bump_small_counted(block, size);
        if (TS_UNLIKELY(!p) && !counted) p = renew_small(heap, block, size);
    }
    ts_op_end(tls);
    return p;
}

TS_ENTRY void *ts_alloc(uintptr_t token, size_t size, EpochId id) {
    void *p = small_at_hand(token, size, id);
    return p ? p : ts_alloc_aligned(token, 16, size, id, false);
}

/* slab_malloc finds the block at once from now on. Partner: shut_blocks writes open_id, then 0 to `rolling` (release).
   Either that 0 comes later and overwrites the token, or the exchange finds it (acquire), and then open_id is seen to
   be over. */
static void make_rolling(ts_heap *heap, uintptr_t token, EpochId id) {
    unsigned i = ts_table_index(&ts_epochs, id) % TS_HEAP_MAP;
    ts_churn_block *block = heap->map[i];
    if (!block || (block->b.slow & TS_SLOW_ALWAYS) || ts_load_relaxed(&ts_thread.token) != token ||
        ts_load_relaxed(&block->b.open_id) != id)
        return;
    if (ts_load_relaxed(&block->b.rolling) != token)
        atomic_exchange_explicit(&block->b.rolling, token, memory_order_acq_rel);
    if (ts_load_relaxed(&block->b.open_id) != id) ts_store_relaxed(&block->b.rolling, 0);
    if (block->b.slow)
        ts_thread.counted = block;
    else
        ts_thread.rolling = block;
}

static bool is_inside_of(uintptr_t token) {
    for (const ts_domain_scope *s = ts_thread.domain; s; s = s->outer)
        if (s->allocator == token) return true;
    return false;
}

TS_ENTRY void *ts_alloc_current(uintptr_t token, size_t align, size_t size, bool zero) {
    ts_allocator *allocator = ts_allocator_find(token);
    if (!allocator) return ts_fail_null(EINVAL);
    if (TS_UNLIKELY(align > ts_load_relaxed(&ts_aligned_most))) raise_aligned_most(align);
    for (int before = errno;;) {
        EpochId id = ts_epoch_current(allocator, token);
        ts_taken t = {.size = size};
        if (id == EPOCH_NONE) return NULL;
        void *p = alloc_noted(token, align, id, zero, &t, TS_CALLER());
        if (p) make_rolling(ts_thread.heap, token, id);
        if (p) errno = before;
        /* Another thread advanced meanwhile: the next epoch serves as well. */
        if (p || errno != ESTALE || ts_load_acquire(&allocator->current_epoch) == id) return p;
    }
}

TS_ENTRY void *ts_alloc_rolling(uintptr_t token, size_t size) {
    const ts_allocator *allocator = ts_allocator_find(token);
    if (allocator && ts_hints(allocator) && is_inside_of(token))
        ts_hint("slab_malloc", "of an allocator whose domain this thread is inside of: the object is not the domain's",
                TS_CALLER());
    return ts_alloc_current(token, 16, size, false);
}
