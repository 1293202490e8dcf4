/*
 * The life of a heap above its hand-over (ownership/heap.c): how the jobs that others leave to it are done, what its
 * thread gives away when it rests or ends, and how other threads come for the memory that it retains.
 */
/* Modelled in tests/model: hold, exit, orders. */
#include "cache/cache.h"

#include "os/os.h"
#include "ownership/ownership.h"
#include "supply/supply.h"

/* ---- notes for later -------------------------------------------------------------------------- */

void ts_note_drained(ts_block *block) {
    if (block->closing != TS_CLOSING || ts_load_relaxed(&block->slabs) != 0) return;
    const ts_table_record *epoch = (const void *)ts_load_relaxed(&block->epoch);
    if (!epoch) return;
    for (unsigned i = 0; i < ts_thread.drained_count; i++)
        if (ts_thread.drained[i] == epoch->index) return;
    if (ts_thread.drained_count < TS_DRAINED)
        ts_thread.drained[ts_thread.drained_count++] = epoch->index;
    else
        ts_thread.drained_more = true;
}

void ts_run_deferred(uint64_t purge_units) {
    /* Draining can leave further notes: slabs that are passed on to another heap, units over the limit. */
    while (ts_thread.drain) {
        ts_heap *heap = ts_thread.drain;
        bool others = ts_thread.drain_others;
        ts_thread.drain = NULL;
        ts_thread.drain_others = false;
        if (others)
            ts_foreign_drain_for_all();
        else
            ts_foreign_drain_for(heap);
    }
    ts_purge_owed(purge_units);
}

/* ---- jobs ---------------------------------------------------------------------------------- */

/* The heap's thread lives, and is another. Jobs that were left before the hold cannot be told from those that were
   left since. So one more barrier runs, and then the thread is asked again whether it is in an operation that began
   before. */
static void work_off_visited(ts_heap *heap) {
    /* Those that the owner has begun with were on the list before. */
    ts_heap_end_list(heap, ts_load_relaxed(&heap->ending));
    ts_store_relaxed(&heap->ending, NULL);
    ts_block *left = ts_load_relaxed(&heap->inbox) ? ts_exchange_seq(&heap->inbox, NULL) : NULL;
    if (!left) return;
    if (ts_os->barrier_all() && ts_heap_is_quiet(heap->tls)) {
        ts_heap_end_list(heap, left);
        return;
    }
    ts_heap_post_list(heap, left);
    atomic_fetch_add_explicit(&heap->revoked, TS_CALLED, memory_order_seq_cst);
    ts_heap_notify_thread(heap); /* `revoked` was written before that barrier */
}

/* Before the jobs are looked for. A job that comes later is seen by the next answer. Caller holds the heap. */
static void note_answer(ts_heap *heap) {
    ts_store_release(&heap->answers, ts_load_relaxed(&heap->answers) + 1);
    atomic_fetch_and_explicit(&heap->revoked, TS_REVOKED | TS_UNHOLDABLE, memory_order_seq_cst);
}

void ts_heap_run_posted(ts_heap *heap) {
    note_answer(heap);
    if (heap != ts_thread.heap && ts_load_relaxed(&heap->state) == TS_HEAP_LIVE) {
        work_off_visited(heap);
        ts_foreign_drain(heap);
        return;
    }
    ts_heap_end_posted(heap);
    if (TS_UNLIKELY(ts_load_relaxed(&heap->unflushed) != 0)) {
        ts_store_relaxed(&heap->unflushed, 0);
        for (ts_block *b = ts_heap_first_block(heap); b; b = ts_heap_next_block(b)) ts_block_flush_if_shut(heap, b);
    }
    ts_foreign_drain(heap);
}

bool ts_heap_notify_for(ts_heap *heap) {
    if (!ts_heap_notify(heap)) return false;
    ts_heap_run_posted(heap);
    ts_heap_drop(heap);
    return true;
}

/* Does as much as one call should do. The next ones go on. */
static void answer_own(ts_heap *heap) {
    if (!ts_heap_try_enter(heap)) return; /* its holder looks */
    note_answer(heap);
    ts_heap_end_posted_some(heap, TS_CONDEMNED_WORK);
    ts_foreign_drain_some(heap, TS_FOREIGN_WORK);
    bool more = ts_load_relaxed(&heap->ending) != NULL || ts_load_relaxed(&heap->backlog) != 0;
    if (TS_UNLIKELY(more)) atomic_fetch_add_explicit(&heap->revoked, TS_CALLED, memory_order_relaxed);
    ts_heap_leave(heap);
}

void ts_heap_drain_inbox(ts_heap *heap) {
    if (heap == ts_thread.heap) {
        answer_own(heap);
    } else if (ts_heap_hold(heap)) {
        ts_heap_run_posted(heap);
        ts_heap_drop(heap);
    }
}

/* The thread itself looks at its magazines and claimed words, in its next call, which is a slow one. Caller holds the
   heap. */
static void ask_to_shed(ts_heap *heap) {
    if (heap == ts_thread.heap || ts_load_relaxed(&heap->state) != TS_HEAP_LIVE) return;
    ts_store_relaxed(&heap->asked_to_shed, 1);
    ts_heap_notify_thread(heap);
}

/* false: it could not be held, or more is left to be shed. */
static bool visit_heap(ts_heap *heap, ts_allocator *allocator, bool sheds, bool asks) {
    bool visitor = heap != ts_thread.heap;
    bool left = ts_heap_is_waited_for(heap) || ts_heap_is_notified(heap);
    if (!(left ? ts_heap_notify(heap) : ts_heap_hold(heap))) return false;
    ts_heap_run_posted(heap);
    bool more = sheds && ts_heap_shed(heap, allocator);
    if (asks && !more) ask_to_shed(heap);
    /* Not in this thread's own heap: an allocation that found no memory, and so trims, may be using a share. */
    if (visitor && ts_load_relaxed(&heap->state) == TS_HEAP_ABANDONED) ts_heap_drop_dead_shares(heap);
    for (ts_share *s = heap->shares; s; s = s->heap_next)
        if (s->allocator == allocator) (void)ts_share_give_retained(s);
    ts_heap_drop(heap);
    return !more;
}

void ts_heap_visit(ts_heap *heap, ts_allocator *allocator) { (void)visit_heap(heap, allocator, false, false); }
bool ts_heap_visit_resting(ts_heap *heap, ts_allocator *allocator, bool asks) {
    return visit_heap(heap, allocator, true, asks);
}

/* ---- a thread that rests or ends -------------------------------------------------------------- */

/* only: all that it has of that allocator; NULL: of all. */
static void let_go(ts_heap *heap, const ts_allocator *only) {
    uint64_t recycled = 0;
    ts_foreign_drain(heap);
    ts_heap_end_posted(heap);
    /* All that drains comes first. A drain fills magazines of open blocks, and what it puts there after the flush would
       keep its slab. */
    for (unsigned flushes = 0; flushes < 2; flushes++)
        for (ts_share *s = heap->shares; s; s = s->heap_next) {
            if (only && s->allocator != only) continue;
            for (ts_block *b = s->blocks; b; b = b->heap_next) {
                if (flushes)
                    ts_block_flush(heap, b, &recycled);
                else
                    ts_block_flush_if_shut(heap, b);
            }
        }
    for (ts_share *s = heap->shares; s; s = s->heap_next)
        if (!only || s->allocator == only) ts_note_retained(s->allocator, ts_share_give_retained(s));
    ts_heap_drop_dead_shares(heap);
    ts_heap_give_blocks(heap, 0, 0, UINT32_MAX);
    ts_check_heap_now(heap);
}

void ts_heap_let_go(ts_heap *heap, const ts_allocator *allocator) {
    if (ts_heap_try_enter(heap)) { /* else its holder does the jobs, and a moment's caches stay */
        let_go(heap, allocator);
        ts_heap_leave(heap);
    }
    ts_run_deferred_all();
}

void ts_heap_idle(ts_heap *heap) {
    ts_heap_enter(heap);
    let_go(heap, NULL);
    ts_heap_leave(heap);
    /* Its units went to each allocator it has a share of. Only this thread adds and drops shares. */
    for (ts_share *s = heap->shares; s; s = s->heap_next) (void)ts_purge_to_limit(s->allocator, UINT64_MAX);
    ts_run_deferred_all();
    ts_records_purge(false);
}

void ts_heap_exit(void *arg) {
    ts_heap *heap = arg;
    if (heap != ts_thread.heap) return;
    ts_heap_unbind();
    ts_thread_name_end(heap);
    ts_heap_enter(heap);
    heap->keeps_nothing = true; /* before the flush: a later holder frees for nobody */
    let_go(heap, NULL);
    for (ts_block *b = ts_heap_first_block(heap); b; b = ts_heap_next_block(b)) ts_block_shut(b);
    ts_heap_leave(heap);
    /* From here on this thread is like any other thread to the heap. */
    ts_lock_acquire(&heap->lock);
    heap->tls = NULL;
    ts_thread.heap = NULL;
    ts_thread.serial = TS_NO_SERIAL;
    /* seq_cst, then a last drain: see ts_foreign_drain_for */
    ts_store_seq(&heap->state, TS_HEAP_ABANDONED);
    ts_fetch_add_relaxed(&ts_heaps_abandoned, 1);
    ts_foreign_drain(heap);
    ts_heap_drop(heap); /* jobs that were left meanwhile were called */
    ts_run_deferred_all();
    ts_records_purge(false);
}

/* ---- memory that others retain ---------------------------------------------------------------- */

/* A thread whose heap is visited waits meanwhile, so only heaps that have something are. */
static void collect(ts_allocator *allocator) {
    /* acquire: partner of the release in ts_heap_share. Nobody drops a share between here and ts_allocator_read_end.
       The record stays, for the caller has pinned it, or is ending it. */
    bool reads = ts_allocator_read_begin(allocator, ts_load_relaxed(&allocator->token));
    for (ts_heap *heap = ts_heaps(); heap; heap = heap->next)
        if (!reads || heap == ts_thread.heap || ts_heap_has_posted(heap)) ts_heap_visit(heap, allocator);
    if (!reads) return;
    for (ts_share *s = ts_load_acquire(&allocator->shares); s; s = s->allocator_next) {
        bool retained = ts_share_retained_units(s) != 0;
        if (s->heap == ts_thread.heap) continue;
        /* Nobody waits for an ended thread's heap; and its shares of ended allocators are dropped. */
        if (retained || ts_load_relaxed(&s->heap->state) == TS_HEAP_ABANDONED) ts_heap_visit(s->heap, allocator);
    }
    ts_allocator_read_end(allocator);
}

void ts_allocator_purge_to(ts_allocator *allocator, uint64_t keep_units) {
    collect(allocator);
    (void)ts_purge_shared(allocator, keep_units, UINT64_MAX);
}

void ts_allocator_trim(ts_allocator *allocator) {
    ts_lock_acquire(&allocator->retained_lock);
    ts_retain_forget(&allocator->retain);
    ts_lock_release(&allocator->retained_lock);
    ts_allocator_purge_to(allocator, 0);
}

/* Empty slabs of this thread's bins, with those that magazines and claimed words keep, are retained. Not blocks of
   scopes: the rest of their current slab could not be had any more. false: there was none. */
static bool flush_bins(ts_heap *heap, const ts_allocator *allocator) {
    uint64_t recycled = 0;
    ts_heap_enter(heap);
    for (const ts_share *s = heap->shares; s; s = s->heap_next)
        for (ts_block *b = s->allocator == allocator ? s->blocks : NULL; b; b = b->heap_next)
            if (!b->scope) ts_block_flush(heap, b, &recycled);
    ts_heap_leave(heap);
    return recycled > 0;
}

static bool scrape(ts_allocator *allocator, bool bins) {
    if (bins && (!ts_thread.heap || !flush_bins(ts_thread.heap, allocator))) return false;
    ts_allocator_trim(allocator);
    return true;
}

static void rebuild(ts_heap *heap) {
    for (ts_block *b = ts_heap_first_block(heap); b; b = ts_heap_next_block(b)) ts_block_rebuild(heap, b);
}

const ts_heap_op_table ts_cache_ops = {ts_heap_run_posted, rebuild, ts_foreign_lent_back, scrape};
