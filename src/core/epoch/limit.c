/*
 * Limits on what epochs hold.
 *
 * What could go wrong: two threads together go beyond a limit, or what was given back counts for ever. It does not:
 * units are charged before they are got, to the account and all above it, under one lock (account.h). Whoever takes a
 * unit off a block gives it back to the account that the block has, and a getting that failed gives back what it took.
 */
#include "epoch/limit.h"

#include "base/line.h"
#include "epoch/blocks.h"
#include "epoch/diagnose.h"

#include <errno.h>

TS_COLD static void tell(const ts_account *full) {
    ts_line line = {.used = 0};
    ts_line_text(&line, "tslab: limit of ");
    ts_line_decimal(&line, ts_load_relaxed(&full->limit_bytes));
    ts_line_text(&line, " bytes reached: ");
    ts_diagnose_epoch(&line, ts_load_relaxed(&full->epoch));
    ts_line_write(&line);
}

bool ts_limit_take(ts_account *account, uint64_t units) {
    bool news;
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

/* The block of another thread is looked at while its heap is held. One whose thread has no processor just now stays without, and is not waited for. */
static void begin_to_count(ts_block *block, ts_account *account) {
    ts_heap *heap = ts_load_acquire(&block->heap);
    if (heap == ts_thread.heap) {
        ts_heap_enter(heap);
        ts_block_set_account(block, account);
        ts_heap_leave(heap);
        return;
    }
    if (!ts_heap_hold(heap)) return;
    ts_block_set_account(block, account);
    ts_heap_drop(heap);
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
    for (ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = ts_epoch_next_block(b)) begin_to_count(b, account);
    return account;
}

/* The account of an epoch, with a reference. NULL with errno. */
static ts_account *hold_made(ts_allocator *allocator, EpochId id) {
    ts_account *made = ts_account_make(id), *account = NULL;
    if (!made) {
        errno = ENOMEM;
        return NULL;
    }
    ts_epoch *epoch = ts_epoch_find_locked(allocator, id);
    if (epoch) {
        account = account_of(epoch, &made);
        ts_account_ref(account);
        ts_epoch_release(epoch);
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

bool ts_limit_link(ts_allocator *allocator, EpochId child, EpochId parent) {
    ts_account *below = hold_made(allocator, child);
    ts_account *above = below && parent != EPOCH_NONE ? hold_made(allocator, parent) : NULL;
    bool done = below && (above || parent == EPOCH_NONE) && below != above;
    if (done) ts_account_move(below, above);
    if (below && below == above) errno = EINVAL;
    ts_account_unref(below);
    ts_account_unref(above);
    return done;
}

void ts_limit_leave(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = ts_epoch_find(allocator, id);
    ts_account *account = epoch ? ts_limit_hold(epoch, id) : NULL;
    if (account) ts_account_move(account, NULL);
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
