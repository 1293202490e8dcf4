/*
 * Tables of records that are named by an id: epochs, domains, allocators. An id has an index and an ERA, the number
 * of the record's use.
 *
 *     id = era << index_bits | index
 *
 * Invariants
 *  1. A record never moves and is never unmapped, so readers need no lock to look at one.
 *  2. record->id is the id of the present use, or 0 while the record is free. Each use has an era of its own, so no id
 *     is used twice. A record whose eras are used up is never handed out again.
 *  3. Index 0 is never used, so no id is 0.
 */
/* Modelled in tests/model: epoch, orders. */
#ifndef TS_REGION_TABLE_H
#define TS_REGION_TABLE_H

#include "base/base.h"
#include "os/os.h"

/* First member of every record. */
typedef struct ts_table_record {
    _Atomic uint64_t id;  /* changed by the record's owner; read by any thread */
    _Atomic uint64_t era; /* of the present or next use; written by the thread that ends a use, read by any thread */
    uint32_t next_free;   /* guarded by the table's lock */
    uint32_t index;       /* constant after the first use */
} ts_table_record;

typedef struct ts_table {
    char *base; /* constant after init, as are the next five fields */
    uint32_t stride;
    uint32_t capacity;
    unsigned index_bits;
    uint64_t index_mask;
    uint64_t era_limit;
    ts_lock lock;
    _Atomic uint32_t high; /* records below it were used; guarded by the lock, only rises. Any thread reads it
                              (acquire: the records below it are accessible) */
    uint32_t free_head;    /* guarded by lock */
    size_t accessible;     /* guarded by lock */
} ts_table;

/* Sets up a table. which: TS_TABLE_*. id_bits: bits of an id, 64 or the bits of a pointer. */
void ts_table_init(ts_table *table, int which, uint32_t stride, unsigned id_bits);
/* Takes a free record. Its id is still 0: the caller fills it and then publishes it. NULL: no memory. */
void *ts_table_take(ts_table *table);
/* Limits the table to this many records, or to the accessible ones. The rest of its address space goes back. */
void ts_table_shrink(ts_table *table, uint32_t records);
/* The id of the record's next use. */
static inline uint64_t ts_table_next_id(const ts_table *table, const void *record) {
    const ts_table_record *e = record;
    return ts_load_relaxed(&e->era) << table->index_bits | e->index;
}
/* Makes a filled record visible under its id. */
static inline void ts_table_publish(void *record, uint64_t id) {
    /* release: partner of the acquire in ts_table_find_strided */
    ts_store_release(&((ts_table_record *)record)->id, id);
}
/* Gives a record whose id is 0 again its next era. false: its eras are used up, and it may not be given back. */
TS_ALWAYS_INLINE bool ts_table_age(const ts_table *table, void *record) {
    ts_table_record *e = record;
    uint64_t era = ts_load_relaxed(&e->era);
    if (era >= table->era_limit) return false;
    ts_store_relaxed(&e->era, era + 1);
    return true;
}
/* Ends the use: its id is stale from this call on. false: as ts_table_age. */
static inline bool ts_table_end(const ts_table *table, void *record) {
    ts_store_release(&((ts_table_record *)record)->id, 0);
    return ts_table_age(table, record);
}
/* Puts a record whose use has ended on the free list. */
void ts_table_free(ts_table *table, void *record);
/* Ends the use of a record and puts it on the free list, unless its eras are used up. */
void ts_table_give(ts_table *table, void *record);
/* The index of the record that an id names, in use or not. */
static inline uint32_t ts_table_index(const ts_table *table, uint64_t id) { return (uint32_t)(id & table->index_mask); }
/* The record of an id that was given out once, in whatever use it is. The caller knows the table's stride at compile
   time, so the address takes a shift and no load of it. */
TS_ALWAYS_INLINE void *ts_table_of_strided(const ts_table *table, uint64_t id, uint32_t stride) {
    return table->base + (size_t)ts_table_index(table, id) * stride;
}
/* The record of an id; NULL if the id is not in use. Another thread may end the use at any time. A caller that
   changes the record looks again under the lock that guards it. The stride is known at compile time, as above. */
TS_ALWAYS_INLINE void *ts_table_find_strided(const ts_table *table, uint64_t id, uint32_t stride) {
    uint32_t index = ts_table_index(table, id);
    /* acquire: partner of the release in ts_table_take */
    if (index == 0 || index >= ts_load_acquire(&table->high)) return NULL;
    ts_table_record *record = (ts_table_record *)(void *)(table->base + (size_t)index * stride);
    /* acquire: partner of ts_table_publish, makes the record's fields visible */
    return ts_load_acquire(&record->id) == id ? record : NULL;
}
/* Whether the id named a record once, in a use that has ended. Ids are given out in order of era: an id of an era that
   the record has passed is an old one, and any other never was an id. */
bool ts_table_is_past(const ts_table *table, uint64_t id);
/* Whether that was the last use of the record until now. */
bool ts_table_was_last(const ts_table *table, uint64_t id);
/* The record at an index below ts_table_high; it may be free. */
static inline void *ts_table_at(const ts_table *table, uint32_t index) {
    return table->base + (size_t)index * table->stride;
}
static inline uint32_t ts_table_high(const ts_table *table) { return ts_load_acquire(&table->high); }
/* The records in use one by one, with their ids. *index: 1 at first. NULL: there is no more. Others come and go. */
static inline void *ts_table_next(const ts_table *table, uint32_t *index, uint64_t *id) {
    while (*index < ts_table_high(table)) {
        ts_table_record *record = (ts_table_record *)ts_table_at(table, (*index)++);
        /* acquire: partner of ts_table_publish */
        if ((*id = ts_load_acquire(&record->id)) != 0) return record;
    }
    return NULL;
}

#endif
