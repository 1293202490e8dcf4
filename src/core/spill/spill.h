/*
 * The memory of a CLOSING epoch is lent to a keeper, which has its bytes elsewhere (libtslab-zones), and comes back.
 *
 *     none --begin--> LENT --send--> AWAY --fetch--> FETCHED
 *       ^               |             ^  |             |  |
 *       |               |             |  '--bury--.    |  |
 *       '----return-----'             '--send-----|----'  |
 *       '-----------------------------------------'-------'  return
 *
 *     LENT      all slabs and spans of the epoch are lent (spill/spilled.h); the bytes are in memory, for the keeper
 *               to copy
 *     AWAY      the memory has gone back to the system, the addresses are inaccessible, and no budget counts them
 *     FETCHED   they are accessible and count again; the keeper fills them
 *
 * Invariants
 *  1. The record, and the pages that it names, are the keeper's from begin to return (or bury). The keeper calls
 *     these for one record from one thread at a time. Frees, close and destroy of the epoch come from any thread, at
 *     any time.
 *  2. A spill pins the epoch, so the epoch's entry and blocks stay, also when it is destroyed or its last object is
 *     freed. Then its id is stale for the program, and the keeper has to bury it. A spill pins the allocator's
 *     record, too: the allocator may end meanwhile.
 *  3. A free can end the loan of an extent. Such an extent is dead, and belongs to the record alone. Its units stay
 *     inaccessible with the others until return or bury, so that inaccessible memory stays in as few mappings as it
 *     was.
 *  4. Hidden pages have lost their bytes. So a spill whose first page can be hidden is AWAY, whatever the system
 *     refuses later. Pages that it refuses to hide are protected, or, where it refuses that too, read as zero.
 *
 * Objects that are away. A free writes live bits, generations and foreign bits, which lie outside of the
 * pages. Filling (poison_on_free), marks for a tool and guards lie in the pages: an allocator with any of them lends
 * nothing (ENOTSUP). A slab that is away has FOREIGN on. So no thread hands it on, purges it by the page
 * (cache/hollow.c), claims it or drains it. Its block is closing, so nothing is allocated in it. realloc and promote
 * ask ts_is_lent. The units of a dead extent are accessible again before anything gets them. A child of fork keeps the
 * record's state as it is, and calls none of these.
 */
#ifndef TS_SPILL_SPILL_H
#define TS_SPILL_SPILL_H

#include "epoch/epoch.h"
#include "spill/spilled.h"

/* Units in a row that one slab or span has. */
typedef struct ts_spill_extent {
    uint32_t unit, units; /* of its part */
    uint32_t slabs;       /* units of 16 KiB */
    bool is_span;
} ts_spill_extent;

enum { TS_SPILL_NONE, TS_SPILL_LENT, TS_SPILL_AWAY, TS_SPILL_FETCHED };

typedef struct ts_spill {
    ts_allocator *allocator;
    ts_epoch *epoch;
    EpochId id;
    int state;
    ts_spill_extent *extent; /* the keeper's, with room for `room`; by rising unit once it is LENT */
    size_t room, extents;
    uint64_t units;      /* of all extents, in 16 KiB */
    uint64_t kept_bytes; /* of pieces of units (supply/piece.h), which are not lent and stay */
    size_t runs;         /* of units in a row without a gap: each costs two mappings, where nothing can be hidden */
    bool no_mappings;    /* the keeper's: where nothing can be hidden it is not sent */
    bool hides;          /* what is AWAY is hidden (os.h), and in the mappings that it was in */
} ts_spill;

/* allocator: its token. Extents that the epoch can have at most: as many as a record needs room for. 0 with errno:
   EINVAL no such allocator, no such epoch, or it is active; ESTALE it has ended; EBUSY it is spilled already. */
TS_PRIVATE size_t ts_spill_most(uintptr_t allocator, EpochId id);
/* `extent` and `room` are set. false with errno, and nothing changed: the cases of ts_spill_most; EBUSY a thread has
   not given up its block of the epoch yet, or there is no room; ENOTSUP an allocator with care or guards, or pages
   larger than a unit. */
TS_PRIVATE bool ts_spill_begin(uintptr_t allocator, EpochId id, ts_spill *spill);
/* Whether the system can hide pages: then a spill needs no mappings, unless the program has locked its memory. */
TS_PRIVATE bool ts_spill_hides(void);
/* LENT to AWAY; or FETCHED to AWAY, because the keeper could not read the bytes. false with errno EBUSY: it is LENT
   still, the system has no mappings left, or they are not to be used. */
TS_PRIVATE bool ts_spill_send(ts_spill *spill);
/* AWAY to FETCHED. false with errno ENOMEM: over budget, or the system refuses; it is AWAY still. */
TS_PRIVATE bool ts_spill_fetch(ts_spill *spill);
/* LENT or FETCHED to none: slabs go to their blocks, spans to their epoch, dead extents to the system. */
TS_PRIVATE void ts_spill_return(ts_spill *spill);
/* Whether the epoch is over, so that nothing can need its bytes any more. */
TS_PRIVATE bool ts_spill_is_over(const ts_spill *spill);
/* Fetches and returns an epoch that is over, and fills nothing. false: the system refuses, now. */
TS_PRIVATE bool ts_spill_bury(ts_spill *spill);
#endif
