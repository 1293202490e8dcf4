/*
 * Tables of entries that are named by an id with an era: epochs, domains, allocators.
 *
 *     id = era << index_bits | index
 *
 * Invariants
 *  1. An entry never moves and is never unmapped; readers need no lock to look at one.
 *  2. entry->id is the id of its present use, 0 while it is free. Every use has another era, so an id is
 *     never used twice. An entry whose era is used up is never handed out again.
 *  3. index 0 is never used, so no id is 0.
 */
/* Modelled in tests/model: epoch, orders. */
#ifndef TS_REGION_TABLE_H
#define TS_REGION_TABLE_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/lock.h"

/* First member of every entry. */
typedef struct ts_entry {
    _Atomic uint64_t id;  /* owner: the table's lock for changes; read by anyone */
    _Atomic uint64_t era; /* of the present or next use; written by who ends a use, read by anyone */
    uint32_t next_free;   /* guarded by the table's lock */
    uint32_t index;       /* constant after the first use */
} ts_entry;

typedef struct ts_table {
    char *base; /* constant after init, as are the next five */
    uint32_t stride;
    uint32_t capacity;
    unsigned index_bits;
    uint64_t index_mask;
    uint64_t era_limit;
    ts_lock lock;
    _Atomic uint32_t high; /* entries ever used, guarded by lock; grows only, read by anyone (acquire: the
                              entry below it is accessible) */
    uint32_t free_head;    /* guarded by lock */
    size_t accessible;     /* guarded by lock */
} ts_table;

/* which: TS_TABLE_*. id_bits: bits of an id, 64 or the bits of a pointer. */
void ts_table_init(ts_table *table, int which, uint32_t stride, unsigned id_bits);
/* A free entry, with id still 0; the caller fills it and then publishes it. NULL: no memory. */
void *ts_table_take(ts_table *table);
/* There can be no more than so many entries, or those that are accessible, from now on. */
void ts_table_shrink(ts_table *table, uint32_t entries);
/* The id of the entry's next use. */
static inline uint64_t ts_table_next_id(const ts_table *table, const void *entry) {
    const ts_entry *e = entry;
    return ts_load_relaxed(&e->era) << table->index_bits | e->index;
}
/* Makes a filled entry visible under its id. */
static inline void ts_table_publish(void *entry, uint64_t id) {
    /* release: partner of ts_table_find_strided */
    ts_store_release(&((ts_entry *)entry)->id, id);
}
/* An entry whose id is 0 again gets its next era. false: its eras are used up, it may not be given back. */
TS_ALWAYS_INLINE bool ts_table_age(const ts_table *table, void *entry) {
    ts_entry *e = entry;
    uint64_t era = ts_load_relaxed(&e->era);
    if (era >= table->era_limit) return false;
    ts_store_relaxed(&e->era, era + 1);
    return true;
}
/* Ends the use: from now on its id is stale. Likewise. */
static inline bool ts_table_end(const ts_table *table, void *entry) {
    ts_store_release(&((ts_entry *)entry)->id, 0);
    return ts_table_age(table, entry);
}
/* Puts an entry whose use has ended on the free list. */
void ts_table_free(ts_table *table, void *entry);
/* Both. */
void ts_table_give(ts_table *table, void *entry);
/* The index of the entry that an id names, in use or not. */
static inline uint32_t ts_table_index(const ts_table *table, uint64_t id) { return (uint32_t)(id & table->index_mask); }
/* The entry of an id that was given out once, in whatever use it is. For who knows the table's stride, as the next: a shift then,
   and no load. */
TS_ALWAYS_INLINE void *ts_table_of_strided(const ts_table *table, uint64_t id, uint32_t stride) {
    return table->base + (size_t)ts_table_index(table, id) * stride;
}
/* The entry of an id; NULL if the id is not in use. Another thread may end the use at any time: callers that
   change something look again under the lock that guards the entry. */
TS_ALWAYS_INLINE void *ts_table_find_strided(const ts_table *table, uint64_t id, uint32_t stride) {
    uint32_t index = ts_table_index(table, id);
    /* acquire: partner of the release in ts_table_take */
    if (index == 0 || index >= ts_load_acquire(&table->high)) return NULL;
    ts_entry *entry = (ts_entry *)(void *)(table->base + (size_t)index * stride);
    /* acquire: partner of ts_table_publish, makes the entry's fields visible */
    return ts_load_acquire(&entry->id) == id ? entry : NULL;
}
/* The same where the size of an entry is not known to the compiler: for tests. */
static inline void *ts_table_find(const ts_table *table, uint64_t id) {
    return ts_table_find_strided(table, id, table->stride);
}
/* The entry at an index below ts_table_high; it may be free. */
static inline void *ts_table_at(const ts_table *table, uint32_t index) {
    return table->base + (size_t)index * table->stride;
}
static inline uint32_t ts_table_high(const ts_table *table) { return ts_load_acquire(&table->high); }

#endif
