/* Modelled in tests/model: epoch. */
#include "region/table.h"

#include "base/base.h"
#include "region/region.h"

#define GROW_BYTES ((size_t)64 << 10)

void ts_table_init(ts_table *table, int which, uint32_t stride, unsigned id_bits) {
    table->base = ts_region.table[which];
    table->stride = stride;
    table->capacity = ts_region.table_capacity[which];
    table->index_bits = ts_log2_64(table->capacity);
    table->index_mask = ((uint64_t)1 << table->index_bits) - 1;
    table->era_limit = ((uint64_t)1 << (id_bits - table->index_bits)) - 1;
    ts_lock_init(&table->lock, TS_RANK_TABLE);
    ts_store_relaxed(&table->high, 1);
    table->free_head = 0;
    table->accessible = 0;
}

void ts_table_shrink(ts_table *table, uint32_t records) {
    ts_lock_acquire(&table->lock);
    size_t bytes = ts_align_up((size_t)records * table->stride, GROW_BYTES);
    size_t limit = (size_t)table->capacity * table->stride;
    if (bytes < table->accessible) bytes = table->accessible;
    if (bytes < limit) {
        table->capacity = (uint32_t)(bytes / table->stride);
        ts_region_release_tail(table->base, bytes, limit);
    }
    ts_lock_release(&table->lock);
}

void *ts_table_take(ts_table *table) {
    ts_table_record *record = NULL;
    ts_lock_acquire(&table->lock);
    if (table->free_head) {
        record = ts_table_at(table, table->free_head);
        table->free_head = record->next_free;
    } else {
        uint32_t index = ts_load_relaxed(&table->high); /* relaxed: written under this lock only */
        size_t end = ((size_t)index + 1) * table->stride;
        size_t limit = (size_t)table->capacity * table->stride;
        if (index < table->capacity && end > table->accessible) {
            size_t to = ts_align_up(end, GROW_BYTES);
            if (to > limit) to = limit;
            if (ts_region_commit_metadata(table->base + table->accessible, to - table->accessible)) {
                ts_region_count_metadata(to - table->accessible);
                table->accessible = to;
            }
        }
        if (index < table->capacity && end <= table->accessible) {
            record = ts_table_at(table, index);
            record->index = index;
            ts_store_relaxed(&record->era, 1);
            /* release: a thread that sees the new limit may touch the record */
            ts_store_release(&table->high, index + 1);
        }
    }
    ts_lock_release(&table->lock);
    return record;
}

void ts_table_free(ts_table *table, void *record) {
    ts_table_record *e = record;
    ts_lock_acquire(&table->lock);
    e->next_free = table->free_head;
    table->free_head = e->index;
    ts_lock_release(&table->lock);
}

void ts_table_give(ts_table *table, void *record) {
    if (ts_table_end(table, record)) ts_table_free(table, record);
}

bool ts_table_is_past(const ts_table *table, uint64_t id) {
    uint64_t index = ts_table_index(table, id), era = id >> table->index_bits;
    if (index == 0 || index >= ts_table_high(table) || era == 0) return false;
    const ts_table_record *record = ts_table_at(table, (uint32_t)index);
    uint64_t present = ts_load_relaxed(&record->era);
    return era < present || (era == present && ts_load_relaxed(&record->id) != id);
}

bool ts_table_was_last(const ts_table *table, uint64_t id) {
    if (!ts_table_is_past(table, id)) return false;
    const ts_table_record *record = ts_table_at(table, ts_table_index(table, id));
    uint64_t present = ts_load_relaxed(&record->era), era = id >> table->index_bits;
    return ts_load_relaxed(&record->id) == 0 && (present == era || present == era + 1);
}
