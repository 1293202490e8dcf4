/*
 * A thread has one HEAP. In the heap it has one SHARE for each allocator, and in the share one block (block.h) for each
 * epoch in which it allocates.
 *
 * Ownership
 *  1. A heap is owned by its thread. Fields that are marked (h) are changed only by the HOLDER of the heap. The
 *     holder is its owner between ts_heap_enter and ts_heap_leave, or any thread between a ts_heap_hold that returned
 *     true and ts_heap_drop. There is one holder at a time.
 *  2. The owner's fast paths change the bins of a block without holding the heap, while the block is OPEN TO ITS OWNER:
 *     its key names the owner's share. So another thread first shuts the block (key, open_id), and then holds the heap.
 *
 * Why a hold is enough. Each operation of a thread on its blocks, but for the allocation described below, is
 * bracketed by in_op = 1 and in_op = 0. ts_heap_hold writes `revoked`, runs ts_os->barrier_all(), and
 * then reads in_op:
 *     owner:  in_op = 1;  (compiler fence)   read key / open_id / revoked
 *     other:  write key, open_id, revoked; barrier_all;  read in_op
 * This is the store-then-load protocol, in which barrier_all replaces the owner's machine fence. An operation that
 * read the old values began before the barrier. So its in_op = 1 is visible after the barrier, and in_op == 0 shows
 * that it is over (release and acquire on in_op hand over all that it wrote). An operation that begins later reads
 * the new values. It leaves the fast path, and stops in ts_heap_enter at `revoked`.
 *
 * Jobs. Nobody waits for another thread's operation, or for a heap that a third thread holds: either may have lost
 * its processor. A thread that cannot hold a heap LEAVES a job to it, and CALLS. Jobs are blocks on the heap's
 * list `inbox` (block.c), and slabs on its queue.
 *  1. A call writes the job, adds TS_CALLED to `revoked`, and tries once more to hold the heap. Each holder reads
 *     that count after it has released the lock (ts_heap_drop, hold_heap, ts_heap_enter_revoked; a seq_cst fence on
 *     both sides). So one of the two sees the other.
 *  2. The call sends a thread that is in the middle of an operation out of its usual paths: after the barrier of the
 *     hold it overwrites the thread's token (ts_heap_notify_thread). If the thread wrote its token before that barrier,
 *     the token is gone. If it writes it later, it then reads `revoked` (ts_heap_bind), finds the call, and takes the
 *     token back. So the thread's next allocation or free, of any epoch, is a slow one, and ts_epoch_run_deferred
 *     answers at its end (ts_heap_drain_inbox). The process's malloc looks at private_block and private_word in place
 *     of the token: all of this holds for these, too. Only slab_alloc looks at no token: its thread answers when it
 *     needs a slab, or leaves or ends a domain.
 *  3. An answer takes the count to 0 before it looks for jobs. So a job that comes later is called again.
 *  4. A holder of a live thread's heap takes the jobs off the list and then runs one more barrier, because they
 *     may have been left, and their blocks shut, after the barrier of its hold. If the thread is in an operation
 *     again, they are put back.
 *  5. Later closes and every trim hold the heaps that are called. So a thread that rests afterwards keeps nothing.
 *
 * An allocation from the current slab of a scope (slab_alloc) needs no store of 0. It begins with a store of the bump
 * word, which is a place and a count of objects (the place alone where in_op has 32 bits), and ends with the word's
 * next value:
 *     owner:  at = bump;  in_op = at (release);  (compiler fence)  read open_id;  start bit;
 *             bump = at + bytes (release)
 *     other:  ... barrier_all;  read in_op, then scope, then its bump
 * While the operation goes on, bump is `at`: nobody else changes the word of an open block, and a thread that has
 * shut the block waits. If bump differs, the operation is over or has come to nothing: each way out of the usual case
 * begins as an operation of its own (in_op = 1), and reads open_id and revoked again. The release at the beginning
 * covers the end of the operation before. The value that stays in in_op never becomes true again by itself. For bump
 * comes back to a place only with another use of the slab, or when an object shrinks, and both are operations that
 * end with a 0. And if the thread goes to another block without an operation, that block's bump is in another slab,
 * or at the end of one. No object began there in this way: the first object of a slab comes with the slab.
 *
 * Where the system has no such barrier, nobody can hold the heap of a live thread. Jobs then wait for its next
 * slow call, its exit, or slab_thread_idle.
 *
 * No circle of waiting can form. A thread that waits for another's operation (fork; a free with care) is in
 * none, and a thread that is in an operation waits for no lock below rank HEAP.
 *
 * Conservation, per bin: pops + word_allocs - pushes - direct frees == live slots of the bin's slabs, at each moment
 * outside of an operation (block.h; word_allocs: ts_bin_word_allocs). The statistics sum these up.
 */
/*
 * A thread's heap, and how it passes from hand to hand (heap.c has the argument).
 *
 * What could go wrong: two threads change the bins of one block at the same time. They do not. An owner's operation
 * says that it is under way. Another thread that wants the heap first writes the words that send the owner out of its
 * fast paths. Then it runs a barrier of all threads, and then it looks whether an operation is under way. If one is, it
 * does not wait. It leaves a job to the owner, and calls.
 */
/* Modelled in tests/model: hold, bump, exit, orders. */
#include "base/base.h"
#include "ownership/ownership.h"

#include "os/os.h"

#include <string.h>

/* How often ts_heap_hold asks ts_is_in_op before it leaves the work to the owner: one or two microseconds. A usual
   operation takes nanoseconds, so this is reached only if the thread lost its processor in the middle of one. There
   is no waiting for that. */
#define HOLD_LOOKS 100u
/* How often a fork asks. It cannot leave its work to the owner. */
#define FORK_LOOKS 20000u

ts_churn_block ts_no_block = {.b = {.open_id = TS_ID_NEVER}};
ts_scope_block ts_no_scope = {.b = {.open_id = TS_ID_NEVER, .scope = 1}};
_Thread_local ts_tls ts_thread = {.private_block = &ts_no_block,
                                  .private_word = TS_WORD_NONE,
                                  .block = &ts_no_block,
                                  .rolling = &ts_no_block,
                                  .scope = &ts_no_scope,
                                  .last = &ts_no_scope,
                                  .counted = &ts_no_block,
                                  .counted_scope = &ts_no_scope,
                                  .serial = TS_NO_SERIAL,
                                  .token = UINTPTR_MAX,
                                  .share_key = TS_KEY_NO_SHARE};

const ts_heap_op_table *ts_heap_ops;

static ts_lock registry;             /* rank REGISTRY: making heaps, free heaps */
static _Atomic(ts_heap *) all_heaps; /* grows at the head only */
_Atomic uint32_t ts_heaps_abandoned, ts_heaps_notified;
static ts_heap *free_heaps; /* guarded by registry */
static uint32_t heap_count; /* guarded by registry */
/* The heap of no thread, abandoned from the beginning and never handed out. Its lists of ended blocks are those that
   any heap may take from. */
ts_heap *ts_heap_nobody;

bool ts_heap_init(const ts_heap_op_table *ops) {
    ts_heap_ops = ops;
    ts_lock_init(&registry, TS_RANK_REGISTRY);
    ts_block_pool_init();
    for (unsigned i = 0; i <= TS_MAX_CLASS_BYTES; i++)
        ts_classes.bin[i] = (uint16_t)(offsetof(ts_churn_block, bin) + ts_classes.of[(i + 15) / 16] * sizeof(ts_bin));
    for (unsigned i = 0; i < TS_LARGE_STEPS; i++)
        ts_classes.large_bin[i] = (uint16_t)(offsetof(ts_churn_block, bin) + ts_classes.large[i] * sizeof(ts_bin));
    /* A UNIT word of 0 leads to line 0: a block whose era no word can have. */
    ts_block *none = ts_lines_take(TS_LINES_CHURN_BLOCK, sizeof(ts_churn_block));
    if (!none) return false;
    ts_assert(1, ts_line_of(none) == 0);
    ts_store_relaxed(&none->key, UINT64_MAX);
    ts_barrier_init();
    ts_heap_nobody = ts_lines_take(TS_LINES_HEAP, sizeof *ts_heap_nobody);
    if (!ts_heap_nobody) return false;
    ts_lock_init(&ts_heap_nobody->lock, TS_RANK_HEAP);
    ts_store_relaxed(&ts_heap_nobody->state, TS_HEAP_ABANDONED);
    ts_heap_nobody->listed_free = true;
    ts_store_release(&all_heaps, ts_heap_nobody);
    return true;
}

ts_heap *ts_heaps(void) { return ts_load_acquire(&all_heaps); } /* partner: release in make_heap */

/* ---- brackets --------------------------------------------------------------------------------- */

void ts_heap_enter_revoked(ts_heap *heap) {
    /* acquire: partner of the release in let_in */
    while (ts_load_acquire(&heap->revoked) & (TS_REVOKED | TS_UNHOLDABLE)) {
        ts_op_end(&ts_thread);
        /* The holder of the heap has its lock. */
        ts_lock_acquire(&heap->lock);
        ts_lock_release(&heap->lock);
        atomic_thread_fence(
            memory_order_seq_cst); /* a thread that found the lock taken meanwhile has called: as in ts_heap_drop */
        ts_op_begin(&ts_thread);
    }
}

bool ts_heap_is_quiet(const ts_tls *tls) {
    for (unsigned i = 0; i < HOLD_LOOKS; i++)
        if (!ts_is_in_op(tls)) return true;
    return false;
}

static void set_revoked(ts_heap *heap) { atomic_fetch_or_explicit(&heap->revoked, TS_REVOKED, memory_order_seq_cst); }
/* release: partner of the loads of the owner */
static void let_in(ts_heap *heap) {
    atomic_fetch_and_explicit(&heap->revoked, ~(TS_REVOKED | TS_UNHOLDABLE), memory_order_release);
}

/* Caller has the lock of a heap whose thread lives. call: something is left to that one. A thread that is seen in the
   middle of an operation costs no barrier, but to call it. */
static bool revoke_heap(ts_heap *heap, bool call) {
    if (!call && !ts_heap_is_quiet(heap->tls)) return false;
    set_revoked(heap);
    bool barrier = ts_os->barrier_all();
    if (barrier && ts_heap_is_quiet(heap->tls)) return true;
    if (call) ts_heap_notify_thread(heap);
    let_in(heap);
    return false;
}

/* Caller has the heap's lock, which is released if the answer is false. */
static bool hold_locked(ts_heap *heap, bool call) {
    uint32_t state = ts_load_relaxed(&heap->state); /* written under the lock */
    if (state == TS_HEAP_ABANDONED) {
        if (TS_UNLIKELY(heap->rebuild)) {
            heap->rebuild = false;
            ts_heap_ops->rebuild(heap);
        }
        return true;
    }
    if (state == TS_HEAP_LIVE && revoke_heap(heap, call)) return true;
    ts_lock_release(&heap->lock);
    return false;
}

/*
 * A thread that has left a job calls: it counts `revoked` on, and then tries the lock. If the lock is taken, it
 * goes away, because the thread that releases the lock looks at the count afterwards. Both run a seq_cst fence, so
 * one of the two sees the other. A count that has changed since the barrier of the last call, or was answered since,
 * may belong to a job that came too late for that call. So the thread is called again.
 */
static bool hold_heap(ts_heap *heap, bool call) {
    if (heap == ts_thread.heap) return ts_heap_try_enter(heap);
    ts_assert(2, !ts_is_in_op(&ts_thread));
    for (;;) {
        uint32_t answers = ts_load_acquire(&heap->answers); /* acquire: before the next; partner of note_answer */
        uint32_t before = ts_load_relaxed(&heap->revoked);
        if (!ts_lock_try(&heap->lock)) return false;
        if (hold_locked(heap, call)) return true;
        atomic_thread_fence(memory_order_seq_cst);        /* partner: ts_heap_notify */
        uint32_t after = ts_load_acquire(&heap->revoked); /* acquire: partner of note_answer */
        if (after < TS_CALLED) return false;
        if (call && after / TS_CALLED == before / TS_CALLED && ts_load_relaxed(&heap->answers) == answers) return false;
        if (ts_load_relaxed(&heap->state) != TS_HEAP_LIVE) return false; /* it begins, and looks then; or it is lost */
        call = true;
    }
}

bool ts_heap_hold(ts_heap *heap) { return hold_heap(heap, false); }

bool ts_heap_hold_of(const ts_block *block, ts_heap **held) {
    for (*held = NULL;;) {
        ts_heap *owner = ts_load_acquire(&block->heap);
        if (!owner) return false;
        if (ts_load_relaxed(&owner->state) == TS_HEAP_LOST) return true;
        if (owner == ts_thread.heap) ts_heap_enter(owner);
        if (owner == ts_thread.heap || ts_heap_hold(owner)) {
            if (ts_load_relaxed(&block->heap) == owner) {
                *held = owner;
                return true;
            }
            ts_heap_drop(owner);
        } else if (!ts_os->barrier_all()) {
            return true;
        } else {
            ts_nap(); /* the owner lost its processor in the middle of an operation */
        }
    }
}

bool ts_heap_notify(ts_heap *heap) {
    /* seq_cst: the job was written before */
    atomic_fetch_add_explicit(&heap->revoked, TS_CALLED, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst); /* partner: in hold_heap and ts_heap_drop */
    if (hold_heap(heap, true)) return true;
    ts_store_relaxed(&ts_heaps_notified, 1);
    return false;
}

/* serial: of the heap's last thread, read when it was seen to be unused. Another serial: meanwhile it has served a
   thread more, and has blocks perhaps. */
static void list_if_unused(ts_heap *heap, uint64_t serial) {
    if (heap->is_threadless) return;
    ts_lock_acquire(&registry);
    /* An abandoned heap gets no new blocks, so it still has none. Only the holder of this lock changes its state.
       acquire: the serial was written before the state. */
    if (ts_load_acquire(&heap->state) == TS_HEAP_ABANDONED && !heap->listed_free && heap->serial == serial &&
        serial < TS_SERIAL_LAST) {
        heap->listed_free = true;
        ts_fetch_sub_relaxed(&ts_heaps_abandoned, 1);
        heap->free_next = free_heaps;
        free_heaps = heap;
    }
    ts_lock_release(&registry);
}

static void drop_heap(ts_heap *heap) {
    bool unused = ts_load_relaxed(&heap->state) == TS_HEAP_ABANDONED && !ts_heap_first_block(heap);
    uint64_t serial = heap->serial;
    if (heap != ts_heap_nobody && ts_load_relaxed(&heap->state) == TS_HEAP_ABANDONED)
        ts_heap_give_blocks(heap, 0, 0, UINT32_MAX);
    let_in(heap);
    ts_lock_release(&heap->lock);
    if (unused) list_if_unused(heap, serial);
}

void ts_heap_drop(ts_heap *heap) {
    if (heap == ts_thread.heap) {
        ts_heap_leave(heap);
        return;
    }
    for (;;) {
        drop_heap(heap);
        atomic_thread_fence(memory_order_seq_cst); /* partner: ts_heap_notify */
        if (TS_LIKELY(!ts_heap_is_notified(heap)) || !hold_heap(heap, true)) return;
        ts_heap_ops->work_off(heap);
    }
}

/* ---- life ------------------------------------------------------------------------------------- */

/* Caller has the registry's lock. */
static ts_heap *add_heap(bool is_threadless) {
    ts_heap *heap = ts_lines_take(TS_LINES_HEAP, sizeof *heap);
    if (!heap) return NULL;
    ts_lock_init(&heap->lock, TS_RANK_HEAP);
    heap->id = ++heap_count;
    heap->is_threadless = heap->keeps_nothing = is_threadless;
    ts_store_relaxed(&heap->state, is_threadless ? TS_HEAP_ABANDONED : TS_HEAP_STARTING);
    heap->next = ts_load_relaxed(&all_heaps);
    ts_store_release(&all_heaps, heap);
    return heap;
}

ts_heap *ts_heap_make_threadless(_Atomic(ts_heap *) *at) {
    ts_lock_acquire(&registry);
    ts_heap *heap = ts_load_relaxed(at);
    if (!heap) heap = add_heap(true);
    ts_store_release(at, heap); /* whole, for readers without the lock */
    ts_lock_release(&registry);
    return heap;
}

static ts_heap *make_heap(void) {
    ts_heap *heap = NULL;
    ts_lock_acquire(&registry);
    if (free_heaps) {
        heap = free_heaps;
        free_heaps = heap->free_next;
        heap->listed_free = false;
        heap->keeps_nothing = false;
        ts_store_relaxed(&heap->state, TS_HEAP_STARTING);
    } else {
        heap = add_heap(false);
    }
    ts_lock_release(&registry);
    atomic_thread_fence(memory_order_seq_cst); /* partner: ts_heap_any_other */
    return heap;
}

bool ts_heap_any_other(void) {
    atomic_thread_fence(memory_order_seq_cst); /* partner: the fence in make_heap */
    for (const ts_heap *heap = ts_heaps(); heap; heap = heap->next)
        if (heap != ts_heap_nobody && heap != ts_thread.heap && !heap->is_threadless) return true;
    return false;
}

void ts_heap_unbind(void) {
    ts_store_relaxed(&ts_thread.token, UINTPTR_MAX);
    ts_thread.share_key = TS_KEY_NO_SHARE;
    ts_forget_private(&ts_thread);
    ts_thread.block = &ts_no_block;
    ts_thread.rolling = &ts_no_block;
    ts_thread.last = &ts_no_scope;
    ts_thread.counted = &ts_no_block;
    ts_thread.counted_scope = &ts_no_scope;
    ts_set_scope(&ts_thread, &ts_no_scope);
}

void ts_heap_bind(ts_heap *heap, const ts_share *share) {
    if (ts_load_relaxed(&ts_thread.token) == share->token || heap->sample_rate != 0 || share->open_key == 0) return;
    ts_store_relaxed(&ts_thread.token, share->token);
    ts_thread.share_key = ts_share_key(share);
    ts_thread.block = &ts_no_block;
    ts_thread.rolling = &ts_no_block;
    ts_thread.last = &ts_no_scope;
    ts_thread.counted = &ts_no_block;
    ts_thread.counted_scope = &ts_no_scope;
    ts_compiler_fence(); /* partner: barrier_all in revoke_heap */
    if (TS_UNLIKELY(ts_load_acquire(&heap->revoked) != 0)) ts_heap_notify_thread(heap); /* acquire: partner of let_in */
}

void ts_heap_bind_private(ts_heap *heap, ts_churn_block *block, bool allocates) {
    ts_thread.private_bins = block;
    ts_store_relaxed(&ts_thread.private_word, (uint64_t)ts_line_of(block) << TS_UNIT_LINE_SHIFT | ts_era(&block->b));
    if (allocates) ts_store_relaxed(&ts_thread.private_block, block);
    ts_compiler_fence(); /* as in ts_heap_bind, and so is the next */
    if (TS_UNLIKELY(ts_load_acquire(&heap->revoked) != 0)) ts_heap_notify_thread(heap);
}

/* The system may allocate for its note of the thread: if this is the process's malloc, that comes by here once more,
   and gets none. */
static bool note_thread(void) {
    static _Thread_local bool noting;
    if (noting) return false;
    noting = true;
    bool noted = ts_os_thread_started();
    noting = false;
    return noted;
}

ts_heap *ts_heap_make(void) {
    ts_heap *heap = make_heap();
    if (!heap) return ts_fail_null(ENOMEM);
    if (!note_thread()) {
        ts_store_relaxed(&heap->state, TS_HEAP_ABANDONED);
        ts_fetch_add_relaxed(&ts_heaps_abandoned, 1);
        list_if_unused(heap, heap->serial);
        return ts_fail_null(ENOMEM);
    }
    ts_lock_acquire(
        &heap->lock); /* a thread that finds it taken has called, and this thread answers at the end of its call */
    heap->tls = &ts_thread;
    heap->serial = (heap->serial ? heap->serial : ts_line_of(heap)) + TS_SERIAL_NEXT;
    memset(heap->map, 0, sizeof heap->map);
    memset(heap->scope_map, 0, sizeof heap->scope_map);
    for (unsigned i = 0; i < TS_SAMPLE_FIGURES; i++)
        heap->sample_start[i] = ts_sample_is_max(i) ? 0 : ts_load_relaxed(&heap->sample[i]);
    heap->stack_busy = false; /* its last thread may have vanished in a fork */
    ts_store_seq(&heap->state, TS_HEAP_LIVE);
    ts_lock_release(&heap->lock);
    ts_thread.heap = heap;
    ts_thread.serial = heap->serial;
    ts_thread_name_begin(heap);
    return heap;
}

/* ---- fork ------------------------------------------------------------------------------------- */

/* With every heap's lock and `revoked` set, no thread is inside ts_heap_enter ... leave. */
void ts_heap_fork_prepare(void) {
    bool any = false;
    ts_lock_acquire_for_fork(&registry);
    for (ts_heap *h = ts_heaps(); h; h = h->next) {
        ts_lock_acquire_for_fork(&h->lock);
        if (ts_load_relaxed(&h->state) == TS_HEAP_LIVE && h != ts_thread.heap) {
            set_revoked(h);
            any = true;
        }
    }
    bool barrier = !any || ts_os->barrier_all();
    for (ts_heap *h = ts_heaps(); h; h = h->next) {
        if (!(ts_load_relaxed(&h->revoked) & TS_REVOKED)) continue;
        bool quiet = false;
        for (unsigned i = 0; barrier && !quiet && i < FORK_LOOKS; i++) {
            quiet = !ts_is_in_op(h->tls);
            if (!quiet && i > 100) ts_os->yield();
        }
        if (!quiet) atomic_fetch_or_explicit(&h->revoked, TS_UNHOLDABLE, memory_order_relaxed); /* by the child */
    }
    ts_block_pool_fork_prepare();
}

void ts_heap_fork_parent(void) {
    ts_block_pool_fork_done();
    for (ts_heap *h = ts_heaps(); h; h = h->next) {
        let_in(h);
        ts_lock_release_for_fork(&h->lock);
    }
    ts_lock_release_for_fork(&registry);
    atomic_thread_fence(memory_order_seq_cst); /* as in ts_heap_drop: for calls that came meanwhile */
    for (ts_heap *h = ts_heaps(); h; h = h->next) {
        if (h == ts_thread.heap || !ts_heap_is_notified(h) || !hold_heap(h, true)) continue;
        ts_heap_ops->work_off(h);
        ts_heap_drop(h);
    }
}

void ts_heap_fork_child(void) {
    ts_block_pool_fork_done();
    for (ts_heap *h = ts_heaps(); h; h = h->next) {
        if (h != ts_thread.heap && ts_load_relaxed(&h->state) == TS_HEAP_LIVE) {
            bool lost = (ts_load_relaxed(&h->revoked) & TS_UNHOLDABLE) != 0;
            h->tls = NULL;
            h->rebuild = !lost;
            h->keeps_nothing = true;
            /* Its thread may have been about to take one, or to put one back. */
            h->spares[TS_TABLE_EPOCH] = h->spares[TS_TABLE_DOMAIN] = 0;
            ts_store_seq(&h->state, lost ? TS_HEAP_LOST : TS_HEAP_ABANDONED);
            if (!lost) ts_fetch_add_relaxed(&ts_heaps_abandoned, 1);
            for (ts_block *b = ts_heap_first_block(h); b && !lost; b = ts_heap_next_block(b)) ts_block_shut(b);
            if (h->lent && !lost) ts_heap_ops->give_lent_back(h);
        }
        ts_store_relaxed(&h->unflushed, 1);
        let_in(h);
        ts_lock_release_for_fork(&h->lock);
    }
    ts_lock_release_for_fork(&registry);
}
