/*
 * Labels of epochs. A byte that is not UTF-8 becomes '?'. A reader needs no lock.
 *
 * A reader sees one whole label, the old one or the next. While a label is set, the one before lies in another place:
 * there is one such place for all epochs of one lock, and a turn, which is odd while the label of the epoch `of` is
 * set.
 *     writer:  under the lock:  of = the epoch;  before = its label;  turn + 1 (odd);  its label = the next;
 *              turn + 2 (even)
 *     reader:  read turn, and of if that is odd;  read `before` if of is its epoch, else the label;
 *              read turn again: it is unchanged, or the reader begins again
 *  1. The words that a turn shows are not written to before the turn has moved on. So a writer that sleeps in the
 *     middle, or is interrupted by its own reader in a signal handler, keeps no reader: the first look succeeds.
 *  2. A reader that has read a word of a later label, or the next epoch in `of`, finds that the turn has moved on.
 *     Before each of the two copies the writer has a release fence, behind its last store of turn. Partner: the
 *     reader's acquire fence between its words and its second look.
 *  3. A reader that finds a turn finds the words that it shows: the stores of turn are releases, and the first load is
 *     an acquire.
 *  4. A look fails only if the turn moved meanwhile, by a thread that got on with a new label. A look takes a dozen
 *     loads; a writer takes a lock between two labels.
 */
/* Modelled in tests/model: orders. */
#include "base/base.h"
#include "epoch/epoch.h"
#include "os/os.h"

#include <string.h>

enum { WORDS = SLAB_LABEL_BYTES / 8 };

typedef struct label_turn {
    _Atomic uint64_t turn;          /* as is all of it: written under the lock of those epochs */
    _Atomic uint32_t of;            /* an epoch, by its index */
    _Atomic uint64_t before[WORDS]; /* its label, before the one that is set */
} label_turn;
static label_turn label_turns[TS_EPOCH_STRIPES];

static void copy_label(char *to, const char *from) {
    size_t used = 0;
    memset(to, 0, SLAB_LABEL_BYTES);
    for (const char *s = from ? from : ""; *s;) {
        unsigned n = ts_utf8_length(s);
        unsigned take = n ? n : 1;
        if (used + take > SLAB_LABEL_BYTES - 1) break;
        if (n)
            memcpy(to + used, s, n);
        else
            to[used] = '?';
        used += take;
        s += take;
    }
}

void ts_epoch_set_label(ts_epoch *epoch, const char *label) {
    union {
        char text[SLAB_LABEL_BYTES];
        uint64_t word[WORDS];
    } u;
    copy_label(u.text, label);
    label_turn *t = &label_turns[epoch->record.index % TS_EPOCH_STRIPES];
    uint64_t turn = ts_load_relaxed(&t->turn);
    atomic_thread_fence(memory_order_release); /* 2: behind the even turn of the last label */
    ts_store_relaxed(&t->of, epoch->record.index);
    for (unsigned i = 0; i < WORDS; i++) ts_store_relaxed(&t->before[i], ts_load_relaxed(&epoch->label[i]));
    ts_store_release(&t->turn, turn + 1);      /* 3 */
    atomic_thread_fence(memory_order_release); /* 2 */
    for (unsigned i = 0; i < WORDS; i++) ts_store_relaxed(&epoch->label[i], u.word[i]);
    ts_store_release(&t->turn, turn + 2); /* 3 */
    epoch->has_label = u.word[0] != 0;
}

void ts_epoch_read_label(const ts_epoch *epoch, char out[SLAB_LABEL_BYTES]) {
    const label_turn *t = &label_turns[epoch->record.index % TS_EPOCH_STRIPES];
    uint64_t word[WORDS], turn;
    do {
        turn = ts_load_acquire(&t->turn); /* 3; partner: the releases in ts_epoch_set_label */
        bool is_set = turn % 2 != 0 && ts_load_relaxed(&t->of) == epoch->record.index;
        const _Atomic uint64_t *whole = is_set ? t->before : epoch->label;
        for (unsigned i = 0; i < WORDS; i++) word[i] = ts_load_relaxed(&whole[i]);
        atomic_thread_fence(memory_order_acquire); /* 2; partner: the fences in ts_epoch_set_label */
    } while (ts_load_relaxed(&t->turn) != turn);
    memcpy(out, word, SLAB_LABEL_BYTES);
    out[SLAB_LABEL_BYTES - 1] = 0;
}

bool ts_read_epoch(ts_allocator *allocator, EpochId id, char label[SLAB_LABEL_BYTES], int32_t *state) {
    const ts_epoch *epoch = ts_epoch_find(allocator, id);
    if (!epoch) return false;
    *state = (int32_t)ts_epoch_shown_state(epoch);
    ts_epoch_read_label(epoch, label);
    return true;
}

void ts_read_thread_label(char label[SLAB_LABEL_BYTES]) {
    const ts_domain_scope *top = ts_thread.domain;
    const ts_epoch *epoch = top ? ts_epoch_at_id(top->epoch) : ts_load_relaxed(&ts_thread.block->b.epoch);
    memset(label, 0, SLAB_LABEL_BYTES);
    if (epoch) ts_epoch_read_label(epoch, label);
}

void ts_label_show(char label[SLAB_LABEL_BYTES]) {
    for (char *c = label; *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\n') || *c == 0x7f) *c = '?';
    if (strcmp(label, TS_LABEL_NONE) == 0) memset(label, 0, SLAB_LABEL_BYTES);
}

void ts_epoch_describe(ts_text *line, EpochId id) {
    ts_text_add(line, "epoch %" PRIu64, id);
    ts_epoch *epoch = ts_epoch_at_id(id);
    bool ended = epoch == NULL;
    if (ended && ts_table_was_last(&ts_epochs, id)) epoch = ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, id));
    char label[SLAB_LABEL_BYTES] = "";
    if (epoch) ts_epoch_read_label(epoch, label);
    if (label[0]) {
        ts_text_put(line, " ");
        ts_text_quoted(line, label, SLAB_LABEL_BYTES);
    }
    if (ended)
        ts_text_put(line, ", ended");
    else if (ts_load_relaxed(&epoch->state) == EPOCH_CLOSING)
        ts_text_put(line, ", closed");
}
