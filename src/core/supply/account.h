/*
 * What an epoch and the epochs of its domain's children hold, in units, and the limits on it. Made on first use: by a
 * limit, or by a child. An epoch without one costs nothing; its blocks have none.
 *
 *     units == units in the epoch's blocks and spans + units of its children's accounts, and those just being got for
 *     it
 *
 * All of it is guarded by one lock, the last of all ranks: it may be taken by who holds a heap. A block's account is
 * changed and read by who holds the block's heap. Whoever adds a unit to a block has taken it from the account before
 * (ts_account_take), and whoever takes one off gives it back: so no two threads are together beyond a limit.
 *
 * An epoch gets its account at once, a block when its heap can be held: one whose thread is in the middle of an
 * operation is left to that (TS_LEFT_COUNT), and counted with all that it has then. The right account is found
 * without the epoch's lock, which who holds a heap cannot wait for:
 *     epoch:  account = NULL;  unref, which takes the lock here
 *     block:  lock;  read the epoch's account: not NULL, and of the block's use of the epoch;  ref;  unlock
 * Who reads it there comes before that unref, so the epoch's own reference is still there.
 */
#ifndef TS_SUPPLY_ACCOUNT_H
#define TS_SUPPLY_ACCOUNT_H

#include "ownership/block.h"

typedef struct ts_account {
    _Atomic(struct ts_account *) parent; /* read by anyone: accounts are accounts for ever */
    _Atomic uint64_t units;              /* read by anyone, as the next three */
    _Atomic uint64_t limit_bytes;        /* 0: none */
    _Atomic uint64_t failures;           /* taking that this limit refused */
    _Atomic uint64_t epoch;              /* whose it is */
    uint64_t refs;                       /* the epoch, its blocks, its children, who is taking */
    uint64_t told_ns;                    /* when a failure was last told of */
    _Atomic uint8_t bound;               /* 1 + the home that the epoch's memory is to be of, 0: none; read by anyone */
} ts_account;
_Static_assert(sizeof(ts_account) <= 64, "one line");

/* of_epoch: the account that an epoch has now, read without its lock. The floor above knows what an epoch is
   (epoch/limit.c). */
void ts_account_init(ts_account *(*of_epoch)(const struct ts_epoch *));
/* A new one, with one reference. NULL: no memory. */
ts_account *ts_account_make(uint64_t epoch);
void ts_account_ref(ts_account *account);
void ts_account_unref(ts_account *account);
/* So many units more. NULL: they are there. Else the account whose limit refuses it, and *tell: it is to be told of;
   tell NULL: a try, which is not counted as a failure. A NULL account has no limit. */
const ts_account *ts_account_take(ts_account *account, uint64_t units, bool *tell);
/* The same of units that are there already. */
void ts_account_add(ts_account *account, uint64_t units);
void ts_account_give(ts_account *account, uint64_t units);
/* Another parent, or none: what it holds goes with it. false: it is above that parent, or is that; nothing was done. */
bool ts_account_move(ts_account *account, ts_account *parent);

/* For who holds the block's heap. */
static inline ts_account *ts_block_account(const ts_block *block) {
    return block->scope ? ((const ts_scope_block *)(const void *)block)->b.account
                        : ((const ts_churn_block *)(const void *)block)->account;
}
/* The block has that account from now on (NULL: none any more), with the units it has. Caller holds its heap, as for
   the next. */
void ts_block_set_account(ts_block *block, ts_account *account);
/* The block has the account of its epoch from now on, unless the use of the epoch in which it is has ended. */
void ts_block_count(ts_block *block);
static inline void ts_block_gives(ts_block *block, uint64_t units) {
    ts_account *account = ts_block_account(block);
    if (TS_UNLIKELY(account != NULL)) ts_account_give(account, units);
}

void ts_account_fork_prepare(void);
void ts_account_fork_done(void);

#endif
