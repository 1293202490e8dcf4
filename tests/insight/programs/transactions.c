/* Transactions of statements: a statement's rows die with it, a transaction's locks and undo records with the
   transaction. */
#include "common.h"

enum { STATEMENTS = 12, ROWS = 30 };

FUNCTION static void *lock_row(void) { return get(48); }

FUNCTION static void *undo_record(void) { return get(120); }

FUNCTION static void run_statement(void **locks, void **undo) {
    void *rows[ROWS];
    for (unsigned i = 0; i < ROWS; i++) {
        rows[i] = get(32 + random_below(200));
    }
    *locks = lock_row();
    *undo = undo_record();
    for (unsigned i = 0; i < ROWS; i++) {
        free(rows[i]);
    }
}

FUNCTION static void run_transaction(void) {
    void *locks[STATEMENTS], *undo[STATEMENTS];
    for (unsigned i = 0; i < STATEMENTS; i++) {
        run_statement(&locks[i], &undo[i]);
    }
    for (unsigned i = 0; i < STATEMENTS; i++) {
        free(locks[i]);
        free(undo[i]);
    }
}

int main(void) {
    for (unsigned i = 0; i < 500; i++) {
        run_transaction();
    }
    puts("500");
    return 0;
}
