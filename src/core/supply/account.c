#include "supply/account.h"

#include "os/os.h"

#define TELL_EVERY_NS 1000000000u

static ts_lock lock; /* rank ACCOUNT */

static ts_account *(*account_of)(const struct ts_epoch *); /* constant after init */

void ts_account_init(ts_account *(*of_epoch)(const struct ts_epoch *)) {
    ts_lock_init(&lock, TS_RANK_ACCOUNT);
    account_of = of_epoch;
}
void ts_account_for_locks(ts_lock_fn *fn) { fn(&lock); }

static ts_account *parent_of(const ts_account *account) { return ts_load_relaxed(&account->parent); }

ts_account *ts_account_make(uint64_t epoch) {
    ts_account *account = ts_lines_take(TS_LINES_ACCOUNT, sizeof *account);
    if (!account) return NULL;
    ts_store_relaxed(&account->parent, NULL); /* it was the link of the free list */
    ts_store_relaxed(&account->epoch, epoch);
    account->refs = 1;
    return account;
}

void ts_account_ref(ts_account *account) {
    ts_lock_acquire(&lock);
    account->refs++;
    ts_lock_release(&lock);
}

/* The last reference of a child is one of its parent's. */
void ts_account_unref(ts_account *account) {
    while (account) {
        ts_lock_acquire(&lock);
        bool last = --account->refs == 0;
        ts_account *parent = last ? parent_of(account) : NULL;
        ts_lock_release(&lock);
        if (last) ts_lines_give(TS_LINES_ACCOUNT, account);
        account = parent;
    }
}

static void add_units(ts_account *from, uint64_t units) {
    if (units == 0) return;
    for (ts_account *a = from; a; a = parent_of(a)) ts_store_relaxed(&a->units, ts_load_relaxed(&a->units) + units);
}

const ts_account *ts_account_charge(ts_account *account, uint64_t units, bool *tell) {
    if (tell) *tell = false;
    if (!account) return NULL;
    ts_lock_acquire(&lock);
    ts_account *full = account;
    for (; full; full = parent_of(full)) {
        uint64_t limit = ts_load_relaxed(&full->limit_bytes);
        if (limit != 0 && ts_load_relaxed(&full->units) + units > limit / TS_UNIT_BYTES) break;
    }
    if (!full) {
        add_units(account, units);
    } else if (tell) {
        ts_store_relaxed(&full->failures, ts_load_relaxed(&full->failures) + 1);
        uint64_t now = ts_os->wall_ns();
        *tell = full->told_ns == 0 || now - full->told_ns >= TELL_EVERY_NS;
        if (*tell) full->told_ns = now;
    }
    ts_lock_release(&lock);
    return full;
}

void ts_account_count(ts_account *account, uint64_t units) {
    ts_lock_acquire(&lock);
    add_units(account, units);
    ts_lock_release(&lock);
}

bool ts_account_move(ts_account *account, ts_account *parent) {
    ts_lock_acquire(&lock);
    for (const ts_account *a = parent; a; a = parent_of(a)) {
        if (a != account) continue;
        ts_lock_release(&lock);
        return false;
    }
    ts_account *before = parent_of(account);
    uint64_t units = ts_load_relaxed(&account->units);
    add_units(before, (uint64_t)0 - units);
    add_units(parent, units);
    ts_store_relaxed(&account->parent, parent);
    if (parent) parent->refs++;
    ts_lock_release(&lock);
    ts_account_unref(before);
    return true;
}

void ts_block_count(ts_block *block) {
    ts_lock_acquire(&lock);
    ts_account *account = account_of(ts_load_relaxed(&block->epoch));
    bool its = account && ts_load_relaxed(&account->epoch) == ts_load_relaxed(&block->epoch_id);
    if (its) account->refs++;
    ts_lock_release(&lock);
    if (!its) return;
    if (ts_block_account(block) != account) ts_block_set_account(block, account);
    ts_account_unref(account);
}

void ts_block_set_account(ts_block *block, ts_account *account) {
    ts_account *before = ts_block_account(block);
    uint64_t units = ts_load_relaxed(&block->slabs); /* pieces do not count */
    if (block->scope) units -= ts_load_relaxed(&((const ts_scope_block *)(const void *)block)->pieces);
    if (account) {
        ts_account_ref(account);
        ts_account_add(account, units);
    }
    if (block->scope)
        block->account = account;
    else
        ((ts_churn_block *)(void *)block)->account = account;
    ts_account_let_go(before, units);
}
