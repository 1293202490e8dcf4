/*
 * Limits on what epochs hold.
 *
 * What could go wrong: two threads together go beyond a limit, or what was given back counts for ever. It does not:
 * units are charged before they are got, to the account and all above it, under one lock (account.h). Whoever takes a
 * unit off a block gives it back to the account that the block has, and a getting that failed gives back what it took.
 */
#include "epoch/limit.h"

#include "base/line.h"
#include "base/park.h"
#include "epoch/blocks.h"
#include "epoch/diagnose.h"
#include "heap/nodes.h"

#include <errno.h>

#define NAPS_MOST 20000u /* a second at least */

TS_COLD static void tell(const ts_account *full) {
    ts_line line = {.used = 0};
    ts_line_text(&line, "tslab: limit of ");
    ts_line_decimal(&line, ts_load_relaxed(&full->limit_bytes));
    ts_line_text(&line, " bytes reached: ");
    ts_diagnose_epoch(&line, ts_load_relaxed(&full->epoch));
    ts_line_write(&line);
}

/* Slabs without an object that this thread's bins keep in the epoch. */
TS_COLD static void give_what_is_kept(EpochId id) {
    ts_heap *heap = ts_thread.heap;
    if (!heap) return;
    uint64_t recycled = 0;
    ts_heap_enter(heap);
    ts_churn_block *block = heap->map[ts_table_index(&ts_epochs, id) % TS_HEAP_MAP];
    if (block && ts_load_relaxed(&block->b.open_id) == id) (void)ts_block_flush(heap, &block->b, &recycled);
    ts_heap_leave(heap);
}

bool ts_limit_take(ts_account *account, uint64_t units, EpochId id) {
    bool news;
    if (TS_LIKELY(!ts_account_take(account, units, NULL))) return true;
    give_what_is_kept(id);
    const ts_account *full = ts_account_take(account, units, &news);
    if (TS_LIKELY(!full)) return true;
    if (news) tell(full);
    errno = ENOMEM;
    return false;
}

ts_account *ts_limit_hold(ts_epoch *epoch, EpochId id) {
    if (TS_LIKELY(!ts_load_relaxed(&epoch->account))) return NULL;
    ts_epoch_acquire(epoch);
    ts_account *account = ts_load_relaxed(&epoch->entry.id) == id ? ts_load_relaxed(&epoch->account) : NULL;
    if (account) ts_account_ref(account);
    ts_epoch_release(epoch);
    return account;
}

/* The block of another thread is looked at while its heap is held. false: it cannot be, now: its thread is in the
   middle of an operation, or another holds it. */
static bool begin_to_count(ts_block *block, ts_account *account) {
    ts_heap *heap = ts_load_acquire(&block->heap);
    if (heap == ts_thread.heap)
        ts_heap_enter(heap);
    else if (!ts_heap_hold(heap))
        return ts_load_relaxed(&heap->state) == TS_HEAP_LOST; /* nobody allocates there */
    if (ts_load_relaxed(&block->heap) == heap && ts_block_account(block) != account)
        ts_block_set_account(block, account);
    ts_heap_drop(heap);
    return true;
}

/* All that the epoch has; blocks that come later begin with its account. Caller has its lock. */
static bool count_blocks(const ts_epoch *epoch, ts_account *account) {
    bool all = true;
    for (ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = ts_epoch_next_block(b))
        all = begin_to_count(b, account) && all;
    return all;
}

/* The epoch's account, made if it has none. Caller has its lock. */
static ts_account *account_of(ts_epoch *epoch, ts_account **made) {
    ts_account *account = ts_load_relaxed(&epoch->account);
    if (account || !*made) return account;
    account = *made;
    *made = NULL;
    epoch->clean = false;
    ts_store_release(&epoch->account, account);
    ts_account_add(account, ts_load_relaxed(&epoch->span_units));
    return account;
}

/* The account of an epoch, with a reference. NULL with errno. */
static ts_account *hold_made(ts_allocator *allocator, EpochId id) {
    ts_account *made = ts_account_make(id), *account = NULL;
    if (!made) {
        errno = ENOMEM;
        return NULL;
    }
    /* A thread in the middle of an allocation is waited for, without the lock: what it takes from then on counts. It
       makes no call of the system there; one that has no processor for so long that this ends goes on uncounted. */
    for (unsigned naps = 0; naps < NAPS_MOST; naps++) {
        ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
        if (!epoch) break;
        if (!account) {
            account = account_of(epoch, &made);
            ts_account_ref(account);
        }
        bool whole = account->whole = account->whole || count_blocks(epoch, account);
        ts_epoch_release(epoch);
        if (whole) break;
        ts_nap();
    }
    ts_account_unref(made);
    if (!account) errno = EINVAL;
    return account;
}

bool ts_limit_set(ts_allocator *allocator, EpochId id, size_t bytes) {
    ts_account *account = hold_made(allocator, id);
    if (!account) return false;
    ts_store_relaxed(&account->limit_bytes, bytes);
    ts_account_unref(account);
    return true;
}

/* Why there is no account: an epoch that has drained, or was destroyed, holds nothing, which is as good as counted. */
static bool is_gone(int before) {
    if (errno != EINVAL) return false;
    errno = before;
    return true;
}

bool ts_limit_bind(ts_allocator *allocator, EpochId id, unsigned home) {
    ts_account *account = hold_made(allocator, id);
    if (!account) return false;
    ts_store_relaxed(&account->bound, (uint8_t)(home < TS_HOMES ? home + 1 : 0));
    ts_account_unref(account);
    return true;
}

bool ts_limit_link(ts_allocator *allocator, EpochId child, EpochId parent) {
    int before = errno;
    ts_account *below = hold_made(allocator, child);
    if (!below) return is_gone(before);
    ts_account *above = parent != EPOCH_NONE ? hold_made(allocator, parent) : NULL;
    bool made = above || parent == EPOCH_NONE || is_gone(before);
    bool done = made && ts_account_move(below, above);
    if (made && !done) errno = EINVAL; /* two domains of one epoch: no circle of domains, but one of what is held */
    ts_account_unref(below);
    ts_account_unref(above);
    return done;
}

void ts_limit_leave(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = ts_epoch_find(allocator, id);
    ts_account *account = epoch ? ts_limit_hold(epoch, id) : NULL;
    if (account) (void)ts_account_move(account, NULL);
    ts_account_unref(account);
}

static void add_slabs(void *sum, const ts_block *b) { *(uint64_t *)sum += ts_load_relaxed(&b->slabs); }

size_t ts_limit_held(ts_allocator *allocator, EpochId id) {
    for (unsigned looks = 0; looks < 16; looks++) {
        ts_epoch *epoch = ts_epoch_find(allocator, id);
        if (!epoch) return 0;
        const ts_account *account = ts_load_acquire(&epoch->account);
        uint64_t units = account ? ts_load_relaxed(&account->units) : ts_load_relaxed(&epoch->span_units);
        bool whole = account ? ts_epoch_is_still(epoch, id) : ts_epoch_read_blocks(epoch, id, add_slabs, &units);
        if (whole) return (size_t)(units * TS_UNIT_BYTES);
    }
    return 0;
}
