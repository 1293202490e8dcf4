/*
 * Figures of zones that are open, for the view. libtslab-zones writes them here; the core knows nothing else of them.
 *
 * A row belongs to its taker until it is given back. The taker writes it from one thread at a time. Any thread reads it
 * at any time, a signal handler too, and does not wait: the row has two banks, and the one that is not shown is written
 * (as in advice/page.c).
 */
#include "observe/observe.h"

#include "base/base.h"

#include <string.h>

#define WORDS (sizeof(ts_zones_stats) / 8)
_Static_assert(sizeof(ts_zones_stats) % 8 == 0, "written by words");
#define LOOKS 8u /* at a row that is written all the time */

enum { FREE, TAKEN, SHOWN };
/* `turn` rises with each write, and never falls: its lowest bit is the bank that is shown. */
static struct {
    _Atomic uint32_t state;
    _Atomic uint64_t turn;
    _Atomic uint64_t bank[2][WORDS];
} rows[TS_ZONES_ROWS];

uint32_t ts_zones_row_take(void) {
    for (uint32_t i = 0; i < TS_ZONES_ROWS; i++) {
        uint32_t state = FREE;
        if (ts_cas_seq(&rows[i].state, &state, TAKEN)) return i;
    }
    return TS_ZONES_NO_ROW;
}

static uint64_t thousandths(uint64_t part, uint64_t of) {
    return of ? (uint64_t)((double)part * 1000.0 / (double)of + 0.5) : 0;
}

void ts_zones_row_write(uint32_t row, const ts_zones_stats *stats) {
    if (row >= TS_ZONES_ROWS) return;
    ts_zones_stats s = *stats;
    uint64_t words[WORDS], turn = ts_load_relaxed(&rows[row].turn);
    s.write_amplification = thousandths(s.appended_bytes + s.padding_bytes, s.payload_bytes);
    s.fill_at_reset = thousandths(s.reset_filled_bytes_total, s.reset_zones_total * s.capacity_bytes);
    memcpy(words, &s, sizeof s);
    /* A reader may still be in that bank, which the turn before showed. If it meets a word of this write, it finds
       that the turn has risen since. Partner: the reader's acquire fence. */
    atomic_thread_fence(memory_order_release);
    for (unsigned i = 0; i < WORDS; i++) ts_store_relaxed(&rows[row].bank[(turn + 1) & 1][i], words[i]);
    ts_store_release(&rows[row].turn, turn + 1);         /* partner: the reader's acquire */
    ts_store_release(&rows[row].state, (uint32_t)SHOWN); /* partner: read_row */
}

void ts_zones_row_give(uint32_t row) {
    if (row < TS_ZONES_ROWS) ts_store_release(&rows[row].state, (uint32_t)FREE);
}

/* false: it is not shown, or was written at each look. */
static bool read_row(uint32_t row, ts_zones_stats *out) {
    for (unsigned looks = 0; looks < LOOKS; looks++) {
        uint64_t words[WORDS];
        if (ts_load_acquire(&rows[row].state) != SHOWN) return false;
        uint64_t turn = ts_load_acquire(&rows[row].turn);
        for (unsigned i = 0; i < WORDS; i++) words[i] = ts_load_relaxed(&rows[row].bank[turn & 1][i]);
        atomic_thread_fence(memory_order_acquire);
        if (ts_load_relaxed(&rows[row].turn) != turn) continue;
        memcpy(out, words, sizeof *out);
        return true;
    }
    return false;
}

uint32_t ts_zones_rows(ts_zones_stats out[TS_ZONES_ROWS]) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < TS_ZONES_ROWS; i++) n += read_row(i, &out[n]);
    return n;
}
