/*
 * What is left to an epoch's thread: its end, and the counting of its blocks for an account.
 *
 * A thread that ends or resets an epoch by its bias can lose its processor in the middle of that. Who closes or destroys the epoch, or
 * gives it an account, then asks it to, and goes on. What could go wrong: nobody does what was asked, or it is done to another epoch. It
 * is not:
 *     other:  lock;  the epoch's thread is in an operation on it;  asked = use and how;  barrier_all;  looks once more
 *     owner:  in_op = 0 or 1 (release);  (compiler fence)  read asked;  if it is not 0: lock, asked = 0, and what that use was asked for
 *  1. An owner that reads 0 has left its operation before the barrier: the last look finds it in none, or in a later one on the same
 *     epoch, which reads `asked` when it is over. So if the last look finds it in one, what is asked will be read.
 *  2. The use is compared under the lock: one that ended meanwhile, by its thread, is not ended again, nor the entry's next one. `asked` is
 *     0 again when a use has ended, or when its thread, who ended it, is out of that operation: so 30 bits tell one from another.
 *  3. From the question for an end on the epoch takes nothing new (ts_epoch_is_active): from other threads, as the owner gets to no
 *     allocation before. A second end finds it asked.
 *  4. In a child of fork that thread is no more: what it was asked for is done there (ts_epoch_fork_child).
 *  5. An account is put there by who has the lock and not the epoch: of an epoch by its bias the owner only looks whether there is one. If it
 *     saw none, and ends the epoch, the account is left on a use that is over. So it comes after the question, and after the last look, which
 *     found the owner in that operation: the owner, who alone can begin the entry's next use, comes to the lock first, and then the account
 *     goes (ts_limit_forget).
 *  6. Who asks for more writes over what was asked before. So whoever does what was asked leaves the question for less while that is due: as
 *     long as blocks are to be counted `asked` does not become 0 but with the use.
 *
 * The barrier is run with the lock, as is the one that takes a turn from the heap (ts_heap_unbias). Without it the last look could be at the
 * entry's next use, and what it finds would have to be told from what others have asked since. It takes some microseconds, once for each
 * question, where a thread has lost its processor.
 */
/* Modelled in tests/model: bias, orders. */
#include "epoch/epoch.h"
#include "epoch/limit.h"
#include "memtools/care.h"

bool ts_epoch_ask(ts_epoch *epoch, EpochId id, uint32_t how) {
    uint32_t before = ts_epoch_asked_how(epoch, id);
    if (before >= how) return true; /* it comes here, and finds what is due */
    ts_store_release(&epoch->asked, ts_epoch_asking(id, how));
    (void)ts_heap_barrier(); /* partner: ts_epoch_is_asked */
    if (!ts_epoch_try_unbias(epoch)) return true;
    ts_store_relaxed(&epoch->asked, before != 0 ? ts_epoch_asking(id, before) : 0);
    return false;
}

static bool is_of(const ts_epoch *epoch, const ts_allocator *allocator, EpochId id) {
    return ts_load_relaxed(&epoch->entry.id) == id && ts_load_relaxed(&epoch->allocator) == allocator;
}

ts_epoch *ts_epoch_find_to_end(ts_allocator *allocator, EpochId id, uint32_t how, bool *left) {
    *left = false;
    ts_epoch *epoch = ts_epoch_at_id(id);
    if (!epoch) return NULL;
    ts_lock_acquire(ts_epoch_lock(epoch));
    bool had = ts_epoch_try_unbias(epoch);
    bool is = is_of(epoch, allocator, id) && ts_epoch_asked_how(epoch, id) < how &&
              (how != TS_ASKED_CLOSE || ts_load_relaxed(&epoch->state) == EPOCH_ACTIVE);
    if (is && !had) {
        *left = ts_epoch_ask(epoch, id, how);
        is = !*left && is_of(epoch, allocator, id);
    }
    if (is) return epoch;
    ts_epoch_release(epoch);
    if (*left) ts_fetch_add_relaxed(&allocator->left, 1);
    return NULL;
}

/* What was asked. After a close there can be more. */
static uint32_t answer(ts_epoch *epoch) {
    uint32_t how = 0;
    if (TS_UNLIKELY(ts_care_on_asan) && (ts_load_relaxed(&epoch->asked) & 3) > TS_ASKED_COUNT)
        ts_care_call_ends(ts_load_relaxed(&epoch->allocator)->care, ts_load_relaxed(&epoch->entry.id));
    ts_lock_acquire(ts_epoch_lock(epoch));
    /* Else it is of another thread by now, which answers. */
    if (ts_epoch_try_unbias(epoch)) {
        EpochId id = ts_load_relaxed(&epoch->entry.id);
        ts_limit_forget(epoch);
        how = id != 0 ? ts_epoch_asked_how(epoch, id) : 0;
        if (how <= TS_ASKED_COUNT) ts_store_relaxed(&epoch->asked, 0);
    }
    if (how == TS_ASKED_DESTROY)
        ts_epoch_destroy_locked(epoch);
    else if (how == TS_ASKED_CLOSE)
        (void)ts_epoch_close_locked(epoch);
    else if (how == TS_ASKED_COUNT)
        ts_limit_count(epoch);
    else
        ts_epoch_release(epoch);
    return how;
}

TS_COLD void ts_epoch_answer(ts_epoch *epoch) {
    while (ts_load_relaxed(&epoch->asked) != 0 && answer(epoch) == TS_ASKED_CLOSE) {
    }
}
