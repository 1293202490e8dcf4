/*
 * State words of slabs that are away (spill/spilled.h). They take 512 bytes of a slab of 16 KiB, and eight slabs' lie in a page. When
 * all eight units of such a page are lent, to one spill or to several, what their words say is packed (spill/state_words.h), and the page goes
 * back to the system. Who has to know the words of a slab then has them written again, for that slab: so all that looks at states looks as before.
 *
 *  1. While a slab is lent nobody writes its state words but who has turned its bit off (free.c: an owner's free leaves a foreign bit,
 *     too), or restores what they were. So what was packed stays right until they are there again.
 *  2. Who turns the bit off calls ts_packed_restore first or next, before he writes. Who packs does so under the lock, and only if all
 *     bits are on: he comes before that call, which then restores, or sees the bit off. Who ends the loan of what is still lent lets
 *     others write as soon as the bit is off: he restores and turns it off in one step, under the lock (ts_packed_take_lent).
 *  3. Who looks calls ts_states_look, reads, and asks ts_states_moved: if so he looks again. A page goes back after the turn has risen,
 *     and the turn rises after ts_packed_groups says what is packed. So who reads zeros of a page that has gone has read an older turn,
 *     or has found the pack and had the words restored.
 *  4. Nobody restores while a page is going back (`going`, under the lock): he would write to what is lost. He waits for that one call
 *     of the system, in naps. In a child of fork nobody is in it.
 *  5. Words are read without the lock, before it is known that they may be packed. A page is published only if no other pack has it then,
 *     and, where others have slabs of it, if no pack was withdrawn and no loan begun since: so what was read is what is there.
 *  6. A pack is the spill's that sent it, whoever's the slabs are. It is freed when the lock's table does not lead to it any more, which is decided under the lock; it is read only
 *     under the lock.
 */
/* Modelled in tests/model: spill. */
#ifndef TS_SPILL_PACKED_H
#define TS_SPILL_PACKED_H

#include "spill/spilled.h"

/* Of the units of one page of state words. */
typedef struct ts_pack {
    struct ts_pack *next;      /* of the same spill: its keeper's */
    struct ts_pack *hash_next; /* guarded by the lock */
    uint32_t first;            /* unit; constant after the pack is published, but for the next */
    uint32_t left;             /* bit per unit: its words are here alone. Guarded by the lock */
    uint64_t changes;          /* 5: as many had been when its words were read; constant, as the next */
    bool shared;               /* units of the page are of others */
    uint16_t at[];             /* by unit: where its packed words are, in bytes behind this structure; then these */
} ts_pack;

#define TS_PACK_GROUP 8u /* units: of the smallest pages */
#define TS_PACK_GROUPS ((UINT32_C(1) << TS_MAX_UNITS_LOG2) / TS_PACK_GROUP)
extern TS_HIDDEN _Atomic uint64_t ts_pack_turn; /* rises before pages go back; 0: none ever did */
extern TS_HIDDEN _Atomic uint64_t
    ts_packed_groups[TS_PACK_GROUPS / 64]; /* a bit each: units of it are packed. Changed under the lock */

/* Of a piece, those of its unit: it is cut, so not lent, and its group is not packed. */
static inline _Atomic uint64_t *ts_packed_word(uint32_t slab) {
    return &ts_packed_groups[ts_unit_of(slab) / TS_PACK_GROUP / 64];
}
static inline uint64_t ts_packed_bit(uint32_t slab) { return (uint64_t)1 << ts_unit_of(slab) / TS_PACK_GROUP % 64; }

void ts_packed_init(void);
void ts_packed_fork_prepare(void);
void ts_packed_fork_done(void);
void ts_packed_fork_child(void);

/* The state words of the unit are there when this returns, and are whoever's the slab is. */
void ts_packed_restore(uint32_t unit);
/* The same, and ts_take_lent, in one step. */
bool ts_packed_take_lent(uint32_t unit);
/* Before the first slab of a spill is lent. */
void ts_packed_loan_begins(void);

/* Before the state words of a unit are read by who does not hold the heap of its slab, or of one that may be lent. */
static inline uint64_t ts_states_look(uint32_t unit) {
    uint64_t turn = ts_load_acquire(&ts_pack_turn); /* acquire: what is packed by then is seen to be */
    if (TS_UNLIKELY(turn != 0) && (ts_load_acquire(ts_packed_word(unit)) & ts_packed_bit(unit)))
        ts_packed_restore(unit);
    return turn;
}
/* Whether what was read since may be of a page that has gone back. */
static inline bool ts_states_moved(uint64_t turn) {
    atomic_thread_fence(memory_order_acquire); /* the reads come before the turn's */
    return TS_UNLIKELY(ts_load_relaxed(&ts_pack_turn) != turn);
}

/* After a foreign bit was set (seq_cst) in a slab that is lent: its state words are there, so that who finds the bit reads them. */
static inline void ts_states_keep(uint32_t unit) {
    if (ts_load_seq(ts_packed_word(unit)) & ts_packed_bit(unit)) ts_packed_restore(unit);
}

/* Memory of the keeper, for what is packed. take: NULL: none; called holding nothing. */
typedef struct ts_pack_memory {
    void *(*take)(size_t bytes);
    void (*give)(void *at);
} ts_pack_memory;

/* Packs the state words of the units [first, end), all of which are lent, or inside of what is, and gives the pages back. Pages stay that
   units share which are not lent, and those of slabs that were freed, or freed in, meanwhile. *packs: a list, which grows. */
void ts_packed_send(uint32_t first, uint32_t end, const ts_pack_memory *memory, ts_pack **packs);
/* All is there again. */
void ts_packed_return(ts_pack **packs, const ts_pack_memory *memory);

#endif
