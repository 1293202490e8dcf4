/*
 * An account counts the units that an epoch and the epochs of its domain's children hold, and limits them. It is made
 * on first use: by a limit, or by a child. An epoch without an account costs nothing, and its blocks have none.
 *
 *     units == units in the epoch's blocks and spans + units of its children's accounts + units that are just being got
 *
 * One lock guards all accounts. It is the last of all ranks, so a holder of a heap may take it. Only the holder of a
 * block's heap changes or reads the block's account. A thread takes a unit from the account before it adds it to a
 * block (ts_account_charge), and gives it back after it has taken it off. So no threads together are beyond a limit.
 *
 * An epoch gets its account at once. A block gets it when its heap can be held. If its thread is in the middle of an
 * operation, that is a job for the thread (TS_POST_COUNT). The holder of a heap cannot wait for the epoch's lock,
 * so it finds the right account without it:
 *     epoch:  account = NULL;  unref, which takes the lock here
 *     block:  lock;  read the epoch's account: not NULL, and of the block's use of the epoch;  ref;  unlock
 * A thread that reads the account there comes before that unref, so the epoch's own reference is still there.
 */
#ifndef TS_SUPPLY_ACCOUNT_H
#define TS_SUPPLY_ACCOUNT_H

#include "ownership/ownership.h"

typedef struct ts_account {
    _Atomic(struct ts_account *) parent; /* read by anyone: accounts are accounts for ever */
    _Atomic uint64_t units;              /* read by anyone, as the next three */
    _Atomic uint64_t limit_bytes;        /* 0: none */
    _Atomic uint64_t failures;           /* taking that this limit refused */
    _Atomic uint64_t epoch;              /* whose it is */
    uint64_t refs;                       /* by the epoch, its blocks, its children, and threads that take units */
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
/* Takes units from an account. NULL: done; a NULL account has no limit. Else the account whose limit refuses it.
   *tell: the caller reports the refusal. tell NULL: the call is a try, which does not count as a failure. */
const ts_account *ts_account_charge(ts_account *account, uint64_t units, bool *tell);
/* Adds units that are there already, whatever the limit. In the next three NULL stands for no account. */
void ts_account_count(ts_account *account, uint64_t units);
static inline void ts_account_add(ts_account *account, uint64_t units) {
    if (TS_UNLIKELY(account != NULL)) ts_account_count(account, units);
}
static inline void ts_account_uncharge(ts_account *account, uint64_t units) { ts_account_add(account, 0 - units); }
/* Gives units back that the account has granted, and lets go of it. */
static inline void ts_account_let_go(ts_account *account, uint64_t back) {
    if (TS_LIKELY(account == NULL)) return;
    ts_account_uncharge(account, back);
    ts_account_unref(account);
}
/* The account gets another parent, or none, and its units go with it. false: it is above that parent, or is that
   parent; nothing was done. */
bool ts_account_move(ts_account *account, ts_account *parent);

/* Caller holds the block's heap. */
static inline ts_account *ts_block_account(const ts_block *block) {
    return block->scope ? ((const ts_scope_block *)(const void *)block)->b.account
                        : ((const ts_churn_block *)(const void *)block)->account;
}
/* The block gets that account, or none, and its units go with it. Caller holds its heap, here and below. */
void ts_block_set_account(ts_block *block, ts_account *account);
/* The block gets the account of its epoch, unless its use of the epoch has ended. */
void ts_block_count(ts_block *block);
static inline void ts_block_gives(ts_block *block, uint64_t units) {
    ts_account_uncharge(ts_block_account(block), units);
}

void ts_account_for_locks(ts_lock_fn *fn);

#endif
