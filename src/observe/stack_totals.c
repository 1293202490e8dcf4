#include "observe/stack_totals.h"
#include "supply/supply.h"

#include "base/base.h"

#include <string.h>

#define LABEL_WORDS (SLAB_LABEL_BYTES / sizeof(uint64_t))
#define OBJECTS_UNIT 1024.0 /* objects are counted in parts of so many */
_Static_assert(SLAB_LABEL_BYTES % sizeof(uint64_t) == 0, "a label is whole words");

typedef struct row {
    ts_stack_record record;
    _Atomic uint64_t hash;
    _Atomic uint64_t label[LABEL_WORDS];
    _Atomic uint64_t samples, objects, bytes;
} row;

static _Atomic(row *) table;       /* constant once it is not NULL */
static _Atomic uint32_t used_rows; /* that were ever used */

size_t ts_stack_totals_bytes(void) { return (size_t)TS_STACK_TOTALS * sizeof(row); }

/* release: its zeros are there before it is; partner: the acquire loads of the table */
void ts_stack_totals_start(void *at) { ts_store_release(&table, (row *)at); }

static uint64_t hash_of(uintptr_t token, const char *label, const uint64_t *frame, unsigned frame_count) {
    return ts_hash(ts_hash(token, label, strlen(label)), frame, frame_count * sizeof *frame);
}

static bool is_same(const row *r, uint64_t hash, const uint64_t *frame, unsigned frame_count) {
    if (ts_load_relaxed(&r->hash) != hash || ts_load_relaxed(&r->record.frame_count) != frame_count) return false;
    for (unsigned i = 0; i < frame_count; i++)
        if (ts_load_relaxed(&r->record.frame[i]) != frame[i]) return false;
    return true;
}

/* The row of that stack and label; NULL: there is none. It stays while the caller is in a call of that allocator. */
static row *find(row *rows, uintptr_t token, uint64_t hash, const uint64_t *frame, unsigned frame_count) {
    for (unsigned i = 0; i < TS_TOTAL_PROBES; i++) {
        row *r = &rows[(hash + i) % TS_STACK_TOTALS];
        uint32_t turn = ts_load_acquire(&r->record.turn); /* partner: the release in ts_stack_record_give */
        if (turn == 0) return NULL;                       /* none was ever used from here on */
        if (turn % 2 == 0 && ts_load_relaxed(&r->record.token) == token && is_same(r, hash, frame, frame_count))
            return r;
    }
    return NULL;
}

static row *make(row *rows, uintptr_t token, uint64_t hash, const char *label, const uint64_t *frame,
                 unsigned frame_count) {
    uint64_t word[LABEL_WORDS];
    for (unsigned i = 0; i < TS_TOTAL_PROBES; i++) {
        row *r = &rows[(hash + i) % TS_STACK_TOTALS];
        uint32_t turn = ts_load_acquire(&r->record.turn);
        uint64_t of = ts_load_relaxed(&r->record.token);
        if (turn % 2 != 0 || (of != 0 && ts_allocator_find((uintptr_t)of))) continue;
        if (!ts_stack_record_take(&r->record, turn)) continue;
        if (of == 0) ts_fetch_add_relaxed(&used_rows, 1);
        memset(word, 0, sizeof word);
        memcpy(word, label, strlen(label)); /* its end included: it is at most 31 bytes */
        ts_store_relaxed(&r->hash, hash);
        for (unsigned k = 0; k < LABEL_WORDS; k++) ts_store_relaxed(&r->label[k], word[k]);
        ts_store_relaxed(&r->samples, 0);
        ts_store_relaxed(&r->objects, 0);
        ts_store_relaxed(&r->bytes, 0);
        ts_stack_record_give(&r->record, token, frame, frame_count);
        return r;
    }
    return NULL;
}

static row *find_or_make(row *rows, uintptr_t token, const char *label, const uint64_t *frame, unsigned frame_count) {
    uint64_t hash = hash_of(token, label, frame, frame_count);
    row *r = find(rows, token, hash, frame, frame_count);
    if (r) return r;
    if (ts_load_relaxed(&used_rows) >= TS_STACK_TOTALS / 2 && strcmp(label, TS_LABEL_OF_MANY) != 0) return NULL;
    return make(rows, token, hash, label, frame, frame_count);
}

void ts_stack_totals_add(ts_allocator *allocator, const char label[SLAB_LABEL_BYTES], const uint64_t *frame,
                         unsigned frame_count, double objects, uint64_t bytes) {
    row *rows = ts_load_acquire(&table);
    uint64_t n = (uint64_t)(objects * OBJECTS_UNIT + 0.5), sum = (uint64_t)(objects * (double)bytes + 0.5);
    row *r = find_or_make(rows, ts_load_relaxed(&allocator->token), label, frame, frame_count);
    if (!r) r = find_or_make(rows, ts_load_relaxed(&allocator->token), TS_LABEL_OF_MANY, frame, frame_count);
    ts_fetch_add_relaxed(r ? &r->samples : &allocator->total_drops, 1);
    ts_fetch_add_relaxed(r ? &r->objects : &allocator->total_objects_dropped, n);
    ts_fetch_add_relaxed(r ? &r->bytes : &allocator->total_bytes_dropped, sum);
}

static void fill(SlabStackTotal *t, const _Atomic uint64_t *samples, const _Atomic uint64_t *objects,
                 const _Atomic uint64_t *bytes) {
    t->version = SLAB_STATS_VERSION;
    t->samples = ts_load_relaxed(samples);
    t->objects = (uint64_t)((double)ts_load_relaxed(objects) / OBJECTS_UNIT + 0.5);
    t->bytes = ts_load_relaxed(bytes);
}

size_t ts_stack_totals_read(const ts_allocator *allocator, uintptr_t token, SlabStackTotal *out, size_t capacity) {
    const row *rows = ts_load_acquire(&table);
    size_t count = 0;
    for (unsigned i = 0; rows && i < TS_STACK_TOTALS; i++) {
        const row *r = &rows[i];
        SlabStackTotal total = {0};
        uint64_t word[LABEL_WORDS];
        uint32_t turn = ts_load_acquire(&r->record.turn); /* partner: the release in ts_stack_record_give */
        if (turn % 2 != 0 || ts_load_relaxed(&r->record.token) != token) continue;
        for (unsigned k = 0; k < LABEL_WORDS; k++) word[k] = ts_load_relaxed(&r->label[k]);
        memcpy(total.label, word, sizeof total.label);
        fill(&total, &r->samples, &r->objects, &r->bytes);
        if (!ts_stack_record_read(&r->record, turn, total.frames, &total.frame_count) || total.samples == 0) continue;
        if (count++ < capacity) out[count - 1] = total;
    }
    SlabStackTotal dropped = {.label = "(dropped)"};
    fill(&dropped, &allocator->total_drops, &allocator->total_objects_dropped, &allocator->total_bytes_dropped);
    if (dropped.samples > 0 && count++ < capacity) out[count - 1] = dropped;
    return count;
}

void ts_stack_totals_fork_child(void) {
    row *rows = ts_load_relaxed(&table);
    for (unsigned i = 0; rows && i < TS_STACK_TOTALS; i++) ts_stack_record_fork_child(&rows[i].record);
}
