/* Labels of epochs: what is not UTF-8 becomes '?', and a reader needs no lock. */
#include "epoch/epoch.h"

#include <string.h>

/* Bytes of the UTF-8 sequence at s, 0 if it is none (also: overlong, surrogate, above U+10FFFF). */
static unsigned utf8_length(const unsigned char *s) {
    unsigned n = s[0] < 0x80                   ? 1
                 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                 : (s[0] & 0xf0) == 0xe0       ? 3
                 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                               : 0;
    for (unsigned i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))) return 0;
    if (n == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))) return 0;
    return n;
}

static void copy_label(char *to, const char *from) {
    size_t used = 0;
    memset(to, 0, SLAB_LABEL_BYTES);
    const unsigned char *s = (const unsigned char *)(from ? from : "");
    while (*s) {
        unsigned n = utf8_length(s);
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

/* Caller has the lock, or the epoch is not published yet. A reader that has seen a part of the new label sees the odd turn
   too (release fence, acquire fence in ts_epoch_read_label). */
void ts_epoch_set_label(ts_epoch *epoch, const char *label) {
    union {
        char text[SLAB_LABEL_BYTES];
        uint64_t word[SLAB_LABEL_BYTES / 8];
    } u;
    copy_label(u.text, label);
    uint32_t turn = ts_load_relaxed(&epoch->label_turn);
    ts_store_relaxed(&epoch->label_turn, turn + 1);
    atomic_thread_fence(memory_order_release);
    for (unsigned i = 0; i < SLAB_LABEL_BYTES / 8; i++) ts_store_relaxed(&epoch->label[i], u.word[i]);
    ts_store_release(&epoch->label_turn, turn + 2);
}

void ts_epoch_read_label(const ts_epoch *epoch, char out[SLAB_LABEL_BYTES]) {
    uint64_t word[SLAB_LABEL_BYTES / 8];
    for (unsigned looks = 0; looks < 16; looks++) {
        uint32_t turn = ts_load_acquire(&epoch->label_turn); /* partner: the release in ts_epoch_set_label */
        for (unsigned i = 0; i < SLAB_LABEL_BYTES / 8; i++) word[i] = ts_load_relaxed(&epoch->label[i]);
        atomic_thread_fence(memory_order_acquire);
        if (turn % 2 == 0 && ts_load_relaxed(&epoch->label_turn) == turn) break;
    }
    memcpy(out, word, SLAB_LABEL_BYTES);
    out[SLAB_LABEL_BYTES - 1] = 0;
}
