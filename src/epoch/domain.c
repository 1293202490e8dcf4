/* Modelled in tests/model: epoch, orders. */
#include "epoch/domain.h"

#include "epoch/blocks.h"
#include "epoch/misuse.h"
#include "epoch/sample.h"
#include "heap/ended.h"
#include "heap/fast.h"

#include <errno.h>
#include <string.h>

ts_table ts_domains;

typedef struct ts_cleanup {
    struct ts_cleanup *next;
    void (*fn)(void *);
    void *arg;
} ts_cleanup;
_Static_assert(sizeof(ts_cleanup) <= 64 && sizeof(ts_domain_scope) <= 64, "one kind of line serves both");

void ts_domain_init(void) { ts_table_init(&ts_domains, TS_TABLE_DOMAIN, TS_DOMAIN_STRIDE, 8 * sizeof(void *)); }

static bool fail(int error) {
    errno = error;
    return false;
}

/* A free entry becomes a domain that can be found. */
TS_ALWAYS_INLINE uint64_t begin_domain(ts_domain *d, ts_allocator *allocator, uintptr_t token, EpochId epoch,
                                       uint64_t owner, bool shared, bool ends_epoch, ts_scope_block *block) {
    uint64_t id = ts_table_next_id(&ts_domains, d);
    atomic_thread_fence(memory_order_release); /* the last id went before any of these: is_still */
    ts_keep_relaxed(&d->allocator, allocator);
    ts_keep_relaxed(&d->token, token);
    ts_store_relaxed(&d->epoch, epoch);
    ts_keep_relaxed(&d->owner, owner);
    ts_keep_relaxed(&d->shared, shared);
    ts_keep_relaxed(&d->ends_epoch, ends_epoch);
    ts_keep_relaxed(&d->busy, 0);
    ts_keep_relaxed(&d->cleanups, NULL);
    ts_keep_relaxed(&d->block, block);
    ts_table_publish(d, id);
    return id;
}

static bool make_busy(ts_domain *d, uint64_t id);
TS_COLD static void end_without_cleanups(ts_domain *d);

/* A new domain whose allocator has ended meanwhile: ts_domain_destroy_all has passed it by, or ends it. */
TS_COLD static uint64_t begun_too_late(ts_domain *d, uint64_t id) {
    if (make_busy(d, id)) end_without_cleanups(d);
    errno = EINVAL;
    return 0;
}

uint64_t ts_domain_create(ts_allocator *allocator, uintptr_t token, EpochId epoch, bool shared, bool ends_epoch) {
    ts_heap *heap = ts_heap_mine();
    ts_domain *d = heap ? ts_heap_take_entry(&ts_domains, TS_TABLE_DOMAIN) : NULL;
    if (!d) {
        errno = ENOMEM;
        return 0;
    }
    uint64_t id = begin_domain(d, allocator, token, epoch, shared ? 0 : heap->serial, shared, ends_epoch,
                               heap->scope_map[ts_table_index(&ts_epochs, epoch) % TS_HEAP_MAP]);
    /* Partner: ts_domain_destroy_all, which comes after the end of the allocator's id. */
    atomic_thread_fence(memory_order_seq_cst);
    return TS_LIKELY(ts_load_relaxed(&allocator->entry.id) == token) ? id : begun_too_late(d, id);
}

/* The domain was ended perhaps, as it could be found before its epoch could, and its entry be another's by now. */
TS_COLD static uint64_t made_too_late(ts_allocator *allocator, ts_domain *d, uint64_t id, EpochId epoch) {
    ts_epoch_destroy(allocator, epoch);
    return begun_too_late(d, id);
}

/* The clock comes first, and all that may be missing is looked for before anything is changed: so nothing is live across a
   call. */
uint64_t ts_domain_make(uintptr_t token) {
    uint64_t now = ts_epoch_domain_time();
    ts_heap *heap = ts_thread.heap;
    if (TS_UNLIKELY(!heap || heap->spares[TS_TABLE_EPOCH] == 0 || heap->spares[TS_TABLE_DOMAIN] == 0)) return 0;
    ts_share *share = ts_heap_find_share(heap, token);
    if (TS_UNLIKELY(!share)) return 0;
    ts_allocator *allocator = share->allocator;
    ts_epoch *epoch = (void *)heap->spare[TS_TABLE_EPOCH][heap->spares[TS_TABLE_EPOCH] - 1];
    ts_op_begin(&ts_thread);
    /* acquire: as in ts_heap_enter; only then is the list this thread's to look at */
    ts_block *block = TS_LIKELY(ts_load_acquire(&heap->revoked) == 0) ? heap->free_scope : NULL;
    if (TS_UNLIKELY(!block) || TS_UNLIKELY(!epoch->clean)) {
        ts_op_end(&ts_thread);
        return 0;
    }
    heap->spares[TS_TABLE_EPOCH]--;
    EpochId epoch_id = ts_epoch_begin(epoch, allocator, EPOCH_SCOPE, now, true);
    ts_epoch_first_scope(heap, share, epoch, epoch_id, block);
    ts_heap_leave(heap);
    ts_epoch_remember_scope(heap, ts_scope(block), epoch);
    ts_domain *d = (void *)heap->spare[TS_TABLE_DOMAIN][--heap->spares[TS_TABLE_DOMAIN]];
    uint64_t id = begin_domain(d, allocator, token, epoch_id, heap->serial, false, true, ts_scope(block));
    /* What is shown last looks whether the allocator has ended, for both. */
    if (TS_UNLIKELY(!ts_epoch_show_in_time(epoch, allocator, token, epoch_id)))
        return made_too_late(allocator, d, id, epoch_id);
    TS_PROBE3(epoch__open, epoch_id, NULL, (uint64_t)EPOCH_SCOPE);
    return id;
}

/* A misuse that is an answer as well. */
static bool refuse(const char *call, uint64_t id, const char *why, int error) {
    ts_misuse_domain(call, id, why);
    return fail(error);
}

#define OF_ANOTHER_THREAD "belongs to another thread"
#define IS_ENDING "its cleanups are running"

/* Its cleanups run, or another thread has ended it meanwhile. */
static bool refuse_busy(const char *call, uint64_t id) {
    return ts_domain_find(id) ? refuse(call, id, IS_ENDING, EPERM) : refuse(call, id, NULL, EINVAL);
}

/* The domain, if the calling thread may use it; errno otherwise. */
TS_ALWAYS_INLINE ts_domain *mine(uint64_t id, const char *call) {
    ts_domain *d = ts_domain_find(id);
    if (!d) {
        refuse(call, id, NULL, EINVAL);
        return NULL;
    }
    ts_heap *heap = ts_heap_mine();
    if (!heap) return NULL;
    if (ts_load_relaxed(&d->shared) || ts_load_relaxed(&d->owner) == heap->serial) return d;
    refuse(call, id, OF_ANOTHER_THREAD, EPERM);
    return NULL;
}

/* ---- the stack of domains entered -------------------------------------------------------------------- */

/* A block that is shut to fast frees is one with care (care.h). */
TS_ALWAYS_INLINE bool is_fast(const ts_block *block) {
    return ts_load_relaxed(&block->key) >> TS_KEY_SHARE_SHIFT != 0 && !block->slow;
}

/* Timing is on for this thread, or will be at its next slow call. */
TS_ALWAYS_INLINE bool is_timed(const ts_heap *heap) {
    return (heap->sample_rate | ts_load_relaxed(&ts_sample_rate)) != 0;
}

/* A hint may be old: the block may be in another use, or with the heap of another thread. */
TS_ALWAYS_INLINE bool is_block_of(const ts_scope_block *block, const ts_heap *heap, EpochId epoch) {
    /* acquire: partner of ts_epoch_open_block; with the id comes the heap that the block is open in */
    return block && ts_load_acquire(&block->b.open_id) == epoch && ts_load_relaxed(&block->b.heap) == heap &&
           is_fast(&block->b);
}

/* This thread's block for the innermost domain, if it has one: slab_alloc then finds it at once. */
TS_NOINLINE static void follow(ts_heap *heap, const ts_domain_scope *top) {
    ts_scope_block *b = top->block;
    if (!is_block_of(b, heap, top->epoch)) b = heap->scope_map[ts_table_index(&ts_epochs, top->epoch) % TS_HEAP_MAP];
    if (is_block_of(b, heap, top->epoch)) ts_set_scope(&ts_thread, b);
}
TS_ALWAYS_INLINE void follow_innermost(ts_heap *heap) {
    const ts_domain_scope *top = ts_thread.domain;
    ts_set_scope(&ts_thread, &ts_no_scope);
    if (top && !is_timed(heap)) follow(heap, top);
}

/* After the fields of a domain were read: they are that domain's. Another thread can end a shared one at any moment, and
   its entry can be in use again. acquire: the loads before come first; partner of the fence in begin_domain. */
TS_ALWAYS_INLINE bool is_still(const ts_domain *d, uint64_t id) {
    atomic_thread_fence(memory_order_acquire);
    return ts_load_relaxed(&d->entry.id) == id;
}

/* As it is known by that id. */
TS_ALWAYS_INLINE bool read_fields(const ts_domain *d, uint64_t id, ts_allocator **allocator, uintptr_t *token,
                                  EpochId *epoch) {
    *allocator = ts_load_relaxed(&d->allocator);
    *token = ts_load_relaxed(&d->token);
    *epoch = ts_load_relaxed(&d->epoch);
    return is_still(d, id);
}

bool ts_domain_read(uint64_t id, uintptr_t *token, EpochId *epoch) {
    const ts_domain *d = ts_domain_find(id);
    ts_allocator *allocator;
    return d && read_fields(d, id, &allocator, token, epoch);
}

TS_ALWAYS_INLINE void push(ts_domain_scope *scope, uint64_t id, EpochId epoch, uintptr_t token, ts_scope_block *block) {
    ts_keep(&scope->outer, ts_thread.domain);
    scope->domain = id;
    scope->epoch = epoch;
    ts_keep(&scope->allocator, token);
    ts_keep(&scope->block, block);
    ts_thread.domain = scope;
}

TS_NOINLINE static bool enter_slowly(uint64_t id) {
    ts_domain *d = ts_domain_find(id);
    ts_heap *heap = ts_heap_mine();
    if (!d) return refuse("epoch_domain_enter", id, NULL, EINVAL);
    if (!heap) return false;
    bool taken = false;
    if (!ts_load_relaxed(&d->shared) && ts_load_relaxed(&d->owner) != heap->serial) {
        /* A domain given up is owned by who enters first. acquire: partner of the release in hand_over. */
        uint64_t nobody = 0;
        if (!atomic_compare_exchange_strong_explicit(&d->owner, &nobody, heap->serial, memory_order_acq_rel,
                                                     memory_order_relaxed))
            return refuse("epoch_domain_enter", id, OF_ANOTHER_THREAD, EPERM);
        taken = true;
    }
    EpochId epoch = ts_load_relaxed(&d->epoch);
    ts_scope_block *block = ts_load_relaxed(&d->block);
    uintptr_t token = ts_load_relaxed(&d->token);
    ts_allocator *allocator = ts_load_relaxed(&d->allocator);
    if (TS_UNLIKELY(!is_still(d, id))) {
        uint64_t me = heap->serial; /* given up by its creator, too: then it still is */
        if (taken)
            (void)atomic_compare_exchange_strong_explicit(&d->owner, &me, 0, memory_order_acq_rel,
                                                          memory_order_relaxed);
        return refuse("epoch_domain_enter", id, NULL, EINVAL);
    }
    /* While a block of this thread is open in the epoch, the epoch is ACTIVE. */
    bool here = is_block_of(block, heap, epoch);
    if (!here) {
        const ts_epoch *e = ts_epoch_find(allocator, epoch);
        if (!e || ts_load_relaxed(&e->state) != EPOCH_ACTIVE) return fail(ESTALE);
    }
    ts_domain_scope *scope = heap->spare_scope;
    if (scope)
        heap->spare_scope = NULL;
    else
        scope = ts_lines_take(TS_LINES_CLEANUP, sizeof *scope);
    if (!scope) return fail(ENOMEM);
    push(scope, id, epoch, token, block);
    if (here && !is_timed(heap))
        ts_set_scope(&ts_thread, block);
    else
        follow_innermost(heap);
    return true;
}

/* The usual domain: this thread's, in which it has its block. While a block of this thread is open in the epoch, the epoch is
   ACTIVE. */
bool ts_domain_enter(uint64_t id) {
    const ts_domain *d = ts_domain_find(id);
    ts_heap *heap = ts_thread.heap;
    if (TS_UNLIKELY(!d) || TS_UNLIKELY(!heap) || TS_UNLIKELY(ts_load_relaxed(&d->owner) != heap->serial))
        return enter_slowly(id);
    EpochId epoch = ts_load_relaxed(&d->epoch);
    ts_scope_block *block = ts_load_relaxed(&d->block);
    uintptr_t token = ts_load_relaxed(&d->token);
    ts_domain_scope *scope = heap->spare_scope;
    if (TS_UNLIKELY(!is_still(d, id)) || TS_UNLIKELY(!scope) || TS_UNLIKELY(!is_block_of(block, heap, epoch)) ||
        TS_UNLIKELY(is_timed(heap)))
        return enter_slowly(id);
    heap->spare_scope = NULL;
    push(scope, id, epoch, token, block);
    ts_set_scope(&ts_thread, block);
    return true;
}

static void leave(ts_heap *heap, ts_domain_scope **at) {
    ts_domain_scope *scope = *at;
    *at = scope->outer;
    if (!heap->spare_scope)
        heap->spare_scope = scope;
    else
        ts_lines_give(TS_LINES_CLEANUP, scope);
}

bool ts_domain_exit(uint64_t id) {
    ts_heap *heap = ts_thread.heap;
    if (!heap || !ts_thread.domain || ts_thread.domain->domain != id || id == 0)
        return refuse("epoch_domain_exit", id, ts_domain_find(id) ? "not the innermost domain of this thread" : NULL,
                      EINVAL);
    leave(heap, &ts_thread.domain);
    follow_innermost(heap);
    return true;
}

/* Leaves the domain on every level of this thread. */
static void leave_all(ts_heap *heap, uint64_t id) {
    bool left = false;
    for (ts_domain_scope **at = &ts_thread.domain; *at;) {
        if ((*at)->domain == id) {
            leave(heap, at);
            left = true;
        } else {
            at = &(*at)->outer;
        }
    }
    if (left) follow_innermost(heap);
}

/* ---- cleanups ------------------------------------------------------------------------------------------- */

static ts_lock *lock_of(const ts_domain *d) {
    return ts_epoch_lock(ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, ts_load_relaxed(&d->epoch))));
}

bool ts_domain_on_destroy(uint64_t id, void (*fn)(void *), void *arg) {
    ts_domain *d = mine(id, "epoch_domain_on_destroy");
    if (!d) return false;
    if (!fn) return fail(EINVAL);
    ts_cleanup *c = ts_lines_take(TS_LINES_CLEANUP, sizeof(ts_domain_scope));
    if (!c) return fail(ENOMEM);
    c->fn = fn;
    c->arg = arg;
    ts_lock *lock = lock_of(d);
    ts_lock_acquire(lock);
    bool same = ts_load_relaxed(&d->entry.id) == id;
    if (same) {
        c->next = ts_load_relaxed(&d->cleanups);
        ts_store_relaxed(&d->cleanups, c);
    }
    ts_lock_release(lock);
    if (same) return true;
    ts_lines_give(TS_LINES_CLEANUP, c);
    return fail(EINVAL);
}

/* One registered while they run is newer than the rest, so it comes next. */
static void run_cleanups(ts_domain *d) {
    if (!ts_load_relaxed(&d->cleanups)) return;
    for (;;) {
        ts_lock_acquire(lock_of(d));
        ts_cleanup *c = ts_load_relaxed(&d->cleanups);
        if (c) ts_store_relaxed(&d->cleanups, c->next);
        ts_lock_release(lock_of(d));
        if (!c) return;
        void (*fn)(void *) = c->fn;
        void *arg = c->arg;
        ts_lines_give(TS_LINES_CLEANUP, c);
        fn(arg);
    }
}

/* Only one thread gets to end or empty a domain at a time, and none from inside of its own cleanups. A use of an entry ends
   under its epoch's lock, so who has that and finds the id has a domain that stays: `busy` and `cleanups` are this use's. The
   entry may have got another use since it was found: its epoch's lock is then another, but the id is, too. */
static bool make_busy(ts_domain *d, uint64_t id) {
    ts_lock *lock = lock_of(d);
    ts_lock_acquire(lock);
    bool mine_now = ts_load_relaxed(&d->entry.id) == id && !ts_load_acquire(&d->busy);
    if (mine_now) ts_store_relaxed(&d->busy, 1);
    ts_lock_release(lock);
    return mine_now;
}

/* ---- ends --------------------------------------------------------------------------------------------- */

/* The last step of who is busy with it. false: another thread has registered a cleanup meanwhile, which has to run. */
static bool end_if_clean(ts_domain *d) {
    ts_lock *lock = lock_of(d);
    ts_lock_acquire(lock);
    bool clean = !ts_load_relaxed(&d->cleanups);
    if (clean) ts_heap_give_entry(&ts_domains, TS_TABLE_DOMAIN, d);
    ts_lock_release(lock);
    return clean;
}

static bool is_entered(uint64_t id) {
    for (const ts_domain_scope *s = ts_thread.domain; s; s = s->outer)
        if (s->domain == id) return true;
    return false;
}

/* Caller has the lock of its epoch: nobody is busy with the domain and it has no cleanups. Both stay so while the lock is
   held. */
TS_ALWAYS_INLINE bool is_quiet(const ts_domain *d, uint64_t id) {
    return TS_LIKELY(ts_load_relaxed(&d->entry.id) == id) && TS_LIKELY(!ts_load_acquire(&d->busy)) &&
           TS_LIKELY(!ts_load_relaxed(&d->cleanups));
}

/* The domain's epoch, locked, if the domain is quiet. NULL without the lock. */
static ts_epoch *lock_quiet(ts_domain *d, uint64_t id) {
    if (ts_load_relaxed(&d->cleanups)) return NULL;
    ts_epoch *epoch = ts_epoch_find_locked(ts_load_relaxed(&d->allocator), ts_load_relaxed(&d->epoch));
    if (!epoch) return NULL;
    if (is_quiet(d, id)) return epoch;
    ts_lock_release(ts_epoch_lock(epoch));
    return NULL;
}

/* No cleanups, left by this thread, and its epoch ends with it: both under one hold of the epoch's lock. false: nothing was
   done. */
static bool destroy_at_once(ts_domain *d, uint64_t id) {
    if (!ts_load_relaxed(&d->ends_epoch) || is_entered(id)) return false;
    ts_epoch *epoch = lock_quiet(d, id);
    if (!epoch) return false;
    ts_heap_give_entry(&ts_domains, TS_TABLE_DOMAIN, d);
    ts_epoch_destroy_locked(epoch);
    return true;
}

/* The usual reset: no cleanups, and all that it has is one block of this thread. false: nothing was done. */
static bool reset_at_once(ts_domain *d, uint64_t id, uint64_t *units) {
    ts_epoch *epoch = lock_quiet(d, id);
    if (!epoch) return false;
    bool done = ts_epoch_reset_own(epoch, !ts_load_relaxed(&d->shared), units);
    ts_lock_release(ts_epoch_lock(epoch));
    if (done) follow_innermost(ts_thread.heap);
    return done;
}

TS_NOINLINE static void destroy_slowly(ts_domain *d, uint64_t id) {
    if (!make_busy(d, id)) {
        refuse_busy("epoch_domain_destroy", id);
        return;
    }
    /* While the cleanups run the domain can still be used, entered or not. */
    ts_allocator *allocator = ts_load_relaxed(&d->allocator);
    EpochId epoch = ts_load_relaxed(&d->epoch);
    bool ends = ts_load_relaxed(&d->ends_epoch);
    do {
        run_cleanups(d);
        leave_all(ts_thread.heap, id);
    } while (!end_if_clean(d));
    if (ends) ts_epoch_destroy(allocator, epoch);
}

TS_NOINLINE static void destroy_other(uint64_t id) {
    ts_domain *d = mine(id, "epoch_domain_destroy");
    if (d && !destroy_at_once(d, id)) destroy_slowly(d, id);
}

/* Inside an operation, with the lock, when it is another case. */
TS_NOINLINE static void destroy_unlocked(ts_lock *lock, uint64_t id) {
    ts_op_end(&ts_thread);
    if (ts_lock_give(lock)) ts_lock_wake(lock);
    destroy_other(id);
}

/* What the usual end has left to do, inside the heap, which it leaves. wake: a lock at which somebody sleeps; over: a share
   with more warm units than it keeps; or NULL. slabs: as many it made warm. */
TS_NOINLINE static void destroyed(ts_lock *wake, ts_share *over, uint32_t slabs) {
    if (over) ts_share_overflow(over, TS_NORMAL);
    ts_heap_leave(ts_thread.heap);
    if (wake) ts_lock_wake(wake);
    ts_epoch_settle_end(slabs);
    ts_heap_limit_blocks(ts_thread.heap);
}

/* The second half of the usual end: nobody can find the epoch, and the heap is held. */
TS_NOINLINE static void end_block(ts_heap *heap, ts_epoch *epoch, ts_block *block, ts_lock *wake) {
    ts_share *share = block->share;
    uint32_t slabs = ts_load_relaxed(&block->slabs);
    bool over = ts_scope_end(heap, ts_scope(block));
    ts_heap_keep_entry(heap, &ts_epochs, TS_TABLE_EPOCH, epoch);
    if (TS_UNLIKELY(over) || TS_UNLIKELY(wake) || TS_UNLIKELY(ts_epoch_is_anything_noted()) ||
        TS_UNLIKELY(ts_heap_has_surplus(heap))) {
        destroyed(wake, over ? share : NULL, slabs);
        return;
    }
    ts_heap_leave(heap);
}

/* The usual end: the domain of this thread alone, which has left it, without cleanups; its epoch ends with it and has one block.
   All else is found out before anything is changed, or is left to the call that comes last: so nothing is live across a call.
   The lock is tried inside of the operation with which the heap is held: who tries waits for nobody, so nobody who waits for the
   end of the operation waits for ever, whatever lock he has. */
void ts_domain_destroy(uint64_t id) {
    ts_domain *d = ts_domain_find(id);
    ts_heap *heap = ts_thread.heap;
    if (TS_UNLIKELY(!d) || TS_UNLIKELY(!heap) || TS_UNLIKELY(ts_load_relaxed(&d->owner) != heap->serial) ||
        TS_UNLIKELY(!ts_load_relaxed(&d->ends_epoch)) || TS_UNLIKELY(is_entered(id)) ||
        TS_UNLIKELY(heap->spares[TS_TABLE_EPOCH] >= TS_SPARE_ENTRIES) ||
        TS_UNLIKELY(heap->spares[TS_TABLE_DOMAIN] >= TS_SPARE_ENTRIES)) {
        destroy_other(id);
        return;
    }
    EpochId epoch_id = ts_load_relaxed(&d->epoch);
    ts_epoch *epoch = ts_table_of_strided(&ts_epochs, epoch_id, TS_EPOCH_STRIDE);
    ts_lock *lock = ts_epoch_lock(epoch);
    TS_COMPUTED(lock);
    ts_op_begin(&ts_thread);
    /* acquire: as in ts_heap_enter */
    if (TS_UNLIKELY(ts_load_acquire(&heap->revoked) != 0) || TS_UNLIKELY(!ts_lock_try(lock))) {
        ts_op_end(&ts_thread);
        destroy_other(id);
        return;
    }
    ts_block *block =
        is_quiet(d, id) && ts_load_relaxed(&epoch->entry.id) == epoch_id ? ts_epoch_only_block(epoch) : NULL;
    if (TS_UNLIKELY(!block) || TS_UNLIKELY(block->share->care)) {
        destroy_unlocked(lock, id);
        return;
    }
    ts_store_release(&d->entry.id, 0);
    ts_heap_keep_entry(heap, &ts_domains, TS_TABLE_DOMAIN, d);
    ts_epoch_end_use(epoch, block);
    end_block(heap, epoch, block, ts_lock_give(lock) ? lock : NULL);
}

bool ts_domain_force_close(uint64_t id) {
    const ts_domain *d = ts_domain_find(id);
    ts_allocator *allocator;
    uintptr_t token;
    EpochId epoch;
    if (!d || !read_fields(d, id, &allocator, &token, &epoch))
        return refuse("epoch_domain_force_close", id, NULL, EINVAL);
    if (!ts_epoch_close(allocator, epoch)) return fail(EINVAL);
    return true;
}

/* By who is busy with it: its allocator has ended, and its cleanups do not run. */
static void end_without_cleanups(ts_domain *d) {
    ts_lock *lock = lock_of(d);
    ts_lock_acquire(lock);
    ts_cleanup *c = ts_load_relaxed(&d->cleanups);
    ts_table_give(&ts_domains, d);
    ts_lock_release(lock);
    while (c) {
        ts_cleanup *next = c->next;
        ts_lines_give(TS_LINES_CLEANUP, c);
        c = next;
    }
}

static bool reset_slowly(ts_domain *d, uint64_t id, uint64_t *units) {
    if (!make_busy(d, id)) return refuse_busy("epoch_domain_reset", id);
    run_cleanups(d);
    bool done = ts_epoch_reset(ts_load_relaxed(&d->allocator), ts_load_relaxed(&d->epoch), units);
    ts_store_release(&d->busy, 0); /* partner: the lock in make_busy */
    /* Who ended the allocator meanwhile passed by a domain that was busy. Its id changes first and busy is read then, both
       in order (ts_domain_destroy_all); here it is the other way round: one of the two sees the other. */
    atomic_thread_fence(memory_order_seq_cst);
    if (TS_UNLIKELY(!ts_allocator_find(ts_load_relaxed(&d->token))) && make_busy(d, id)) end_without_cleanups(d);
    return done;
}

bool ts_domain_reset(uint64_t id, size_t keep_bytes) {
    ts_domain *d = mine(id, "epoch_domain_reset");
    uint64_t units = 0;
    if (!d) return false;
    if (!ts_load_relaxed(&d->ends_epoch)) return fail(EINVAL);
    ts_allocator *allocator = ts_load_relaxed(&d->allocator);
    uintptr_t token = ts_load_relaxed(&d->token);
    if (TS_UNLIKELY(!reset_at_once(d, id, &units)) && !reset_slowly(d, id, &units)) return false;
    uint64_t keep = keep_bytes / TS_UNIT_BYTES;
    /* Another thread may be ending the allocator. */
    if (units > keep && ts_allocator_pin_use(allocator, token)) {
        uint64_t warm = 0, excess = units - keep;
        if (ts_allocator_read_begin(allocator, token)) {
            warm = ts_allocator_warm_units(allocator);
            ts_allocator_read_end(allocator);
        }
        ts_allocator_trim(allocator, warm > excess ? warm - excess : 0);
        ts_allocator_unpin(allocator);
    }
    ts_settle_phase(units);
    ts_epoch_settle();
    return true;
}

bool ts_domain_hand_over(uint64_t id) {
    ts_domain *d = mine(id, "epoch_domain_hand_over");
    if (!d) return false;
    if (is_entered(id)) return refuse("epoch_domain_hand_over", id, "still entered", EPERM);
    ts_allocator *allocator;
    uintptr_t token;
    EpochId epoch;
    if (!read_fields(d, id, &allocator, &token, &epoch)) return refuse("epoch_domain_hand_over", id, NULL, EINVAL);
    ts_epoch_leave_empty(allocator, epoch);
    /* release: partner of the acquire in enter_slowly. Not where the entry has got another use by now (of a shared domain
       another thread can end it): then its owner is another, or none. */
    uint64_t me = ts_thread.heap->serial;
    (void)atomic_compare_exchange_strong_explicit(&d->owner, &me, 0, memory_order_release, memory_order_relaxed);
    return true;
}

void ts_domain_destroy_all(ts_allocator *allocator) {
    atomic_thread_fence(memory_order_seq_cst); /* partners: reset_slowly, ts_domain_create, ts_epoch_show */
    uint32_t high = ts_table_high(&ts_domains);
    for (uint32_t i = 1; i < high; i++) {
        ts_domain *d = ts_table_at(&ts_domains, i);
        uint64_t id = ts_load_acquire(&d->entry.id);
        if (id == 0 || ts_load_relaxed(&d->allocator) != allocator || !make_busy(d, id)) continue;
        end_without_cleanups(d);
    }
}

/* ---- objects ---------------------------------------------------------------------------------------------- */

/* This thread's first object in the domain gets its block without a detour, unless timing is on or about to change, or it
   has none that slab_alloc finds at once: a churn epoch, stacks that are sampled, guards, care. refused: there is none, and
   errno says why. */
static bool join_innermost(ts_heap *heap, const ts_domain_scope *top, bool *refused) {
    ts_allocator *allocator = ts_allocator_find(top->allocator);
    if (!allocator || allocator->sampled || allocator->settings.guard_spans || allocator->care || is_timed(heap))
        return false;
    const ts_epoch *epoch = ts_epoch_find(allocator, top->epoch);
    if (!epoch || (ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE) == 0) return false;
    ts_block *block = ts_epoch_join(heap, allocator, top->epoch);
    *refused = block == NULL;
    if (!block || !block->scope || !is_fast(block)) return false;
    ts_set_scope(&ts_thread, ts_scope(block));
    return true;
}

TS_ENTRY void *ts_domain_alloc(size_t size) {
    const ts_domain_scope *top = ts_thread.domain;
    ts_heap *heap = ts_thread.heap;
    size_t bytes = ts_scope_round(size);
    bool refused = false;
    void *p;
    const ts_scope_block *scope = ts_load_relaxed(&ts_thread.scope);
    if (bytes != 0 && (ts_load_relaxed(&scope->b.open_id) == top->epoch || join_innermost(heap, top, &refused))) {
        p = ts_alloc_scope(heap, ts_load_relaxed(&ts_thread.scope), bytes, top->epoch);
        /* ESTALE: closed, or reset by another thread meanwhile */
        if (p || errno != ESTALE) return p;
    }
    if (refused) return NULL;
    p = ts_alloc(top->allocator, size, top->epoch);
    if (p && ts_load_relaxed(&ts_thread.scope) == &ts_no_scope) follow_innermost(heap);
    return p;
}

TS_ENTRY void *ts_domain_promote(uint64_t id, void *p) {
    ts_domain *d = mine(id, "slab_promote");
    ts_object object;
    if (!d) return NULL;
    ts_allocator *allocator;
    uintptr_t token;
    EpochId epoch;
    if (!read_fields(d, id, &allocator, &token, &epoch)) {
        (void)refuse("slab_promote", id, NULL, EINVAL);
        return NULL;
    }
    if (!ts_object_at(token, p, &object)) {
        ts_misuse(token, "slab_promote", p, NULL);
        errno = EINVAL;
        return NULL;
    }
    size_t bytes = ts_object_usable(&object);
    void *q = ts_alloc(token, bytes, epoch);
    if (!q) return NULL;
    memcpy(q, p, bytes);
    ts_free(token, p, object.generation);
    return q;
}
