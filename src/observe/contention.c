/*
 * Contention by label: how often threads wait for locks, and repeat compare-and-swaps, by the label of the epoch in
 * which they work. It is counted for the whole process since its start. A thread counts when it has waited or has to
 * try again, so no other operation pays for it.
 *
 * A thread works in its innermost domain's epoch, or, outside of domains, in the epoch in which it allocated last.
 *
 * Invariants
 *  1. A row belongs to the label whose hash stands in it. The thread that claims the row writes the hash, once.
 *  2. A row is shown when `ready` is set, which publishes its label. Its counters only rise.
 *  3. Counting takes no lock, waits for nothing and needs no memory: it runs inside of locks and in signal handlers.
 */
#include "observe/observe.h"

#include "base/base.h"
#include "core/read.h"
#include "os/os.h"

#include <string.h>

#define LABEL_WORDS (SLAB_LABEL_BYTES / sizeof(uint64_t))

typedef struct row {
    _Atomic uint64_t hash; /* 0: nobody's */
    _Atomic uint32_t ready;
    _Atomic uint64_t label[LABEL_WORDS];
    _Atomic uint64_t lock_waits, cas_retries;
} row;

static row rows[TS_CONTENTION_ROWS];

static row *row_of_thread(void) {
    char label[SLAB_LABEL_BYTES];
    uint64_t word[LABEL_WORDS];
    ts_read_thread_label(label);
    ts_label_show(label);
    if (strcmp(label, TS_LABEL_OTHER) == 0) return &rows[TS_CONTENTION_LABELS];
    uint64_t hash = ts_hash(0, label, strlen(label)) | 1;
    for (unsigned i = 0; i < TS_CONTENTION_LABELS; i++) {
        row *r = &rows[i];
        uint64_t found = ts_load_relaxed(&r->hash);
        if (found == hash) return r;
        if (found != 0) continue;
        /* relaxed: the hash publishes nothing; `ready` does */
        if (!atomic_compare_exchange_strong_explicit(&r->hash, &found, hash, memory_order_relaxed,
                                                     memory_order_relaxed)) {
            if (found == hash) return r;
            continue;
        }
        memcpy(word, label, sizeof word);
        for (unsigned k = 0; k < LABEL_WORDS; k++) ts_store_relaxed(&r->label[k], word[k]);
        ts_store_release(&r->ready, 1); /* the label is there; partner: ts_contention_rows */
        return r;
    }
    return &rows[TS_CONTENTION_LABELS];
}

TS_COLD static void waited(void) { ts_fetch_add_relaxed(&row_of_thread()->lock_waits, 1); }

TS_COLD static void repeated(uint64_t times) { ts_fetch_add_relaxed(&row_of_thread()->cas_retries, times); }

void ts_contention_start(void) {
    ts_store_relaxed(&ts_lock_waited, waited);
    ts_store_relaxed(&ts_cas_repeated, repeated);
}

unsigned ts_contention_rows(ts_contention out[TS_CONTENTION_ROWS]) {
    unsigned n = 0;
    for (unsigned i = 0; i < TS_CONTENTION_ROWS; i++) {
        bool is_other = i == TS_CONTENTION_LABELS;
        uint64_t word[LABEL_WORDS] = {0};
        if (!is_other && !ts_load_acquire(&rows[i].ready)) continue; /* partner: row_of_thread */
        for (unsigned k = 0; k < LABEL_WORDS; k++) word[k] = ts_load_relaxed(&rows[i].label[k]);
        ts_contention *to = &out[n];
        memset(to, 0, sizeof *to);
        memcpy(to->label, word, SLAB_LABEL_BYTES);
        to->is_other = is_other;
        if (is_other) strcpy(to->label, TS_LABEL_OTHER);
        to->lock_waits = ts_load_relaxed(&rows[i].lock_waits);
        to->cas_retries = ts_load_relaxed(&rows[i].cas_retries);
        if (to->lock_waits + to->cas_retries > 0) n++;
    }
    return n;
}
