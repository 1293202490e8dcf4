/* A transaction: what it changes lies in a domain of its own. A commit moves that to the store; a rollback is the domain's end. */
#include <stdio.h>
#include <stdlib.h>

#include <tslab/stats.h>
#include <tslab/tslab.h>

typedef struct Account {
    char name[16];
    long cents;
} Account;

enum { ACCOUNTS = 3 };
static Account *accounts[ACCOUNTS]; /* in the store; each is replaced, never changed */

/* The new versions take the places of the old ones: both or none. */
static bool commit(EpochDomain *store, int from, Account *payer, int to, Account *payee) {
    Account *new_payer = slab_promote(store, payer);
    Account *new_payee = new_payer ? slab_promote(store, payee) : NULL;
    if (!new_payee) {
        slab_release(new_payer);
        return false;
    }
    slab_release(accounts[from]);
    slab_release(accounts[to]);
    accounts[from] = new_payer;
    accounts[to] = new_payee;
    return true;
}

/* false: rolled back, and nothing has happened. */
static bool transfer(EpochDomain *store, int from, int to, long cents) {
    EpochDomain *transaction = epoch_domain_create_ex(epoch_domain_allocator(store), "transaction", 0);
    if (!transaction) return false;
    bool done = false;
    if (epoch_domain_enter(transaction)) {
        Account *payer = slab_alloc_memdup(accounts[from], sizeof *payer);
        Account *payee = slab_alloc_memdup(accounts[to], sizeof *payee);
        char *entry = slab_alloc_printf("%s pays %ld to %s", accounts[from]->name, cents, accounts[to]->name);
        if (payer && payee && entry) {
            payer->cents -= cents;
            payee->cents += cents;
            done = payer->cents >= 0 && commit(store, from, payer, to, payee);
            printf("%s: %s\n", entry, done ? "committed" : "rolled back");
        }
        epoch_domain_exit(transaction);
    }
    epoch_domain_destroy(transaction); /* what the commit did not move is gone: all of it after a failure */
    return done;
}

int main(void) {
    static const char *const names[ACCOUNTS] = {"ada", "ben", "cleo"};
    SlabAllocator *allocator = slab_allocator_create();
    EpochDomain *store = allocator ? epoch_domain_create_ex(allocator, "store", EPOCH_CHURN) : NULL;
    if (!store) return 1;
    for (int i = 0; i < ACCOUNTS; i++) {
        accounts[i] = epoch_domain_alloc(store, sizeof *accounts[i]);
        if (!accounts[i]) return 1;
        snprintf(accounts[i]->name, sizeof accounts[i]->name, "%s", names[i]);
        accounts[i]->cents = 1000;
    }
    if (!transfer(store, 0, 1, 700) || transfer(store, 0, 2, 700) || !transfer(store, 1, 2, 1700)) return 1;
    if (accounts[0]->cents != 300 || accounts[1]->cents != 0 || accounts[2]->cents != 2700) return 1;
    SlabGlobalStats stats;
    if (!slab_stats_global(allocator, &stats) || stats.live_objects != ACCOUNTS) return 1; /* nothing else is left */
    epoch_domain_destroy(store);
    slab_allocator_free(allocator);
    return 0;
}
