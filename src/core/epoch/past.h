/*
 * The epochs that ended last, for the statistics.
 *
 * A record is written before the epoch's id is over. So a reader that finds the id over finds the record. There are
 * three kinds of rings. Each has the newest TS_PAST of the epochs that come into it, so the newest TS_PAST of all are
 * among them.
 *
 *     allocator->past    written by any thread that ends an epoch, with the lock of the epoch
 *     share->past        written by the share's thread, for epochs that no other thread was in, and that had a label or
 *                        large objects, or were closed
 *     share->brief       written by the share's thread, for all other epochs that no other thread was in: mostly those
 *                        of domains. A record takes some instructions, and no clock
 *
 * With the option record_rss there are no brief records. The record of an epoch that was not closed gets the resident
 * memory before its end, and that after its end, each read when the thread that ends it holds nothing: no lock is held
 * across a read of /proc (ts_epoch_destroy, ts_epoch_run_deferred).
 *
 * A ring is made when the first record comes, and goes with the share or the allocator (supply/share.c, record.c).
 * Without memory for a ring there are no records.
 *
 * What could go wrong: two threads write one record, or a reader takes half of one and half of the next. They do not:
 *  1. A writer takes the record: it exchanges the id for TS_PAST_TAKEN. If it finds that, another writer has the
 *     record, as many records behind, and its own epoch gets none. acquire: its stores come after those of the last
 *     writer. A ring of brief records has one writer, which stores the mark.
 *  2. The mark is there before the fields change (release fence; partner: the acquire fence of 3), and the id after
 *     them (release).
 *  3. A reader finds the id (acquire), reads the fields, and then the id again, behind an acquire fence. If it has read
 *     a field of a later record, it finds the mark or a later id. No id comes twice.
 *  4. The writer of the memory after an end takes the record as 1 says, but by an exchange of that id alone. So it
 *     never writes into another epoch's record.
 *  5. Shares and rings stay while a reader is in the allocator (ts_allocator_read_begin). A writer has an epoch of the
 *     allocator, or a share of it. Both keep the allocator's record.
 */
/* Modelled in tests/model: orders. */
#ifndef TS_EPOCH_PAST_H
#define TS_EPOCH_PAST_H

#include "epoch/epoch.h"
#include "ownership/ownership.h"

#include <tslab/tslab.h>

#define TS_PAST 256u
#define TS_PAST_TAKEN UINT64_MAX
#define TS_PAST_LABEL_WORDS (SLAB_LABEL_BYTES / 8)

typedef struct ts_past {
    _Atomic uint64_t id; /* 0: there was none yet */
    _Atomic uint64_t label[TS_PAST_LABEL_WORDS];
    _Atomic uint64_t opened_ns, closed_ns, ended_ns; /* closed: 0, by no close */
    _Atomic uint64_t returned_bytes;
    _Atomic uint32_t rss_before_kib, rss_after_kib, flags;
} ts_past;
typedef struct ts_past_ring {
    _Atomic uint32_t next; /* counts on for ever */
    ts_past at[TS_PAST];
} ts_past_ring;

typedef struct ts_brief {
    _Atomic uint64_t id, opened_ns;
    _Atomic uint32_t slabs, pieces;
} ts_brief;
typedef struct ts_brief_ring {
    _Atomic uint32_t next; /* written by the share's thread, like all of the ring */
    ts_brief at[TS_PAST];
} ts_brief_ring;

/* The ring of that place, made if there is none. NULL: no memory. */
ts_past_ring *ts_past_ring_of(_Atomic(ts_past_ring *) *place);
ts_brief_ring *ts_brief_ring_of(_Atomic(ts_brief_ring *) *place);
/* The record to write, by any thread; NULL: none. Its id comes last, by a release. */
ts_past *ts_past_begin(ts_past_ring *ring);
/* Measures resident memory: before an end, and after it for the epoch that ts_thread.measured names. Hold nothing. */
TS_COLD void ts_past_measure_before(void);
TS_COLD void ts_past_measure(void);
TS_ALWAYS_INLINE void ts_brief_write(ts_brief_ring *ring, uint64_t id, uint64_t opened_ns, uint32_t slabs,
                                     uint32_t pieces) {
    uint32_t next = ts_load_relaxed(&ring->next);
    ts_brief *b = &ring->at[next % TS_PAST];
    ts_store_relaxed(&ring->next, next + 1);
    ts_store_relaxed(&b->id, TS_PAST_TAKEN);
    atomic_thread_fence(memory_order_release); /* 2 */
    ts_store_relaxed(&b->opened_ns, opened_ns);
    ts_store_relaxed(&b->slabs, slabs);
    ts_store_relaxed(&b->pieces, pieces);
    ts_store_release(&b->id, id);
}

#endif
