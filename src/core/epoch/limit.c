/*
 * Limits on what epochs hold.
 *
 * What could go wrong: two threads together go beyond a limit, or what was given back counts for ever. They do not: a
 * thread takes units from the account and all accounts above it, under one lock, before it gets the memory (account.h).
 * A unit that leaves a block goes back to the account that the block has. So do units for which no memory was had. A
 * thread may be in the middle of an allocation when the epoch gets its account. The units of that operation are
 * counted when it is over.
 */
#include "base/base.h"
#include "cache/cache.h"
#include "epoch/epoch.h"

#include "epoch/blocks.h"
#include "os/os.h"
#include "supply/supply.h"

#include <errno.h>

TS_COLD static void tell(const ts_account *full) {
    ts_text line = {.used = 0};
    ts_text_add(&line, "tslab: limit of %" PRIu64 " bytes reached: ", ts_load_relaxed(&full->limit_bytes));
    ts_epoch_describe(&line, ts_load_relaxed(&full->epoch));
    ts_text_write(&line);
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

bool ts_limit_charge(ts_account *account, uint64_t units, EpochId id) {
    bool news;
    if (TS_LIKELY(!ts_account_charge(account, units, NULL))) return true;
    give_what_is_kept(id);
    const ts_account *full = ts_account_charge(account, units, &news);
    if (TS_LIKELY(!full)) return true;
    if (news) tell(full);
    return ts_fail(ENOMEM);
}

ts_account *ts_account_get(ts_epoch *epoch, EpochId id) {
    if (TS_LIKELY(!ts_load_relaxed(&epoch->account))) return NULL;
    ts_epoch_acquire(epoch);
    ts_account *account = ts_load_relaxed(&epoch->record.id) == id ? ts_load_relaxed(&epoch->account) : NULL;
    if (account) ts_account_ref(account);
    ts_epoch_release(epoch);
    return account;
}

/* acquire: the account says which epoch it is of; partner of the release in begin_account */
ts_account *ts_epoch_account(const ts_epoch *epoch) { return ts_load_acquire(&epoch->account); }

/* The block gets the account while its heap is held. If the heap cannot be held, the block is left to its thread, which
   may be in the middle of an operation. true: it is left, and the heap is to be called. Caller has the lock, so the
   block changes neither its epoch nor its heap. */
static bool leave_or_count(ts_block *block, ts_account *account) {
    ts_heap *heap = ts_load_acquire(&block->heap);
    if (ts_heap_hold(heap)) {
        if (ts_block_account(block) != account) ts_block_set_account(block, account);
        ts_heap_drop(heap);
        return false;
    }
    if (ts_load_relaxed(&heap->state) == TS_HEAP_LOST) return false; /* nobody allocates there */
    ts_heap_post_count(heap, block);
    return true;
}

/* The account of an epoch that had none: its blocks get it, or are left to get it. Blocks that come later begin with
   it. Caller has the lock, which is released. Calls are made without the lock: while the epoch is pinned its blocks
   stay in the list, and those that a reset has emptied are held until it is not. */
static void begin_account(ts_epoch *epoch, ts_account *account) {
    bool left = false;
    ts_block *blocks = ts_load_relaxed(&epoch->blocks);
    epoch->has_more = true;
    ts_store_release(&epoch->account, account); /* partner: ts_epoch_account */
    ts_account_add(account, ts_load_relaxed(&epoch->span_units));
    for (ts_block *b = blocks; b; b = ts_epoch_next_block(b)) left = leave_or_count(b, account) || left;
    if (!left) {
        ts_epoch_release(epoch);
        return;
    }
    epoch->pins++;
    ts_epoch_release(epoch);
    for (ts_block *b = blocks; b;
         b = ts_epoch_next_block(b)) /* it is counted before its next slab but one (refill.c) */
        if (ts_load_relaxed(&b->left) & TS_POST_COUNT) (void)ts_heap_notify_for(ts_load_acquire(&b->heap));
    ts_epoch_unpin(epoch);
    ts_epoch_run_noted();
}

/* The account of an epoch, made if it has none, with a reference. NULL with errno. It waits for no allocation: a block
   whose thread is in the middle of one is counted when that is over. */
static ts_account *hold_made(ts_allocator *allocator, EpochId id) {
    ts_account *made = ts_account_make(id);
    if (!made) return ts_fail_null(ENOMEM);
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    ts_account *account = epoch ? ts_load_relaxed(&epoch->account) : NULL;
    if (epoch && !account) {
        ts_account_ref(made); /* the epoch's reference, and the caller's */
        begin_account(epoch, made);
        return made;
    }
    if (account) ts_account_ref(account);
    if (epoch) ts_epoch_release(epoch);
    ts_account_unref(made);
    if (!account) errno = EINVAL;
    return account;
}

bool ts_limit_set(ts_allocator *allocator, EpochId id, size_t bytes) {
    ts_account *account = hold_made(allocator, id);
    if (!account) return false;
    /* A limit that no slab fits into would be none that is meant. */
    ts_store_relaxed(&account->limit_bytes, bytes != 0 && bytes < TS_UNIT_BYTES ? TS_UNIT_BYTES : bytes);
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
    if (made && !done) errno = EINVAL; /* other threads have moved both meanwhile: it would be a circle */
    ts_account_unref(below);
    ts_account_unref(above);
    return done;
}

void ts_limit_leave(const ts_epoch *epoch) {
    ts_account *account = ts_load_relaxed(&epoch->account);
    if (account) (void)ts_account_move(account, NULL);
}

static void add_slabs(void *sum, const ts_block *b) { *(uint64_t *)sum += ts_block_held_bytes(b); }

size_t ts_limit_held(ts_allocator *allocator, EpochId id) {
    for (unsigned looks = 0; looks < 16; looks++) {
        ts_epoch *epoch = ts_epoch_find(allocator, id);
        if (!epoch) return 0;
        const ts_account *account = ts_load_acquire(&epoch->account);
        uint64_t bytes =
            (account ? ts_load_relaxed(&account->units) : ts_load_relaxed(&epoch->span_units)) * TS_UNIT_BYTES;
        bool whole = account ? ts_epoch_is_still(epoch, id) : ts_epoch_read_blocks(epoch, id, add_slabs, &bytes);
        if (whole) return (size_t)bytes;
    }
    return 0;
}
