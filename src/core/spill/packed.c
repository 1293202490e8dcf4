/* See packed.h. */
/* Modelled in tests/model: spill. */
#include "spill/packed.h"

#include "base/bits.h"
#include "base/park.h"
#include "cache/bin.h"
#include "os/os.h"
#include "spill/state_words.h"

#include <string.h>

_Atomic uint64_t ts_pack_turn;
_Atomic uint64_t ts_packed_groups[TS_PACK_GROUPS / 64];

static ts_lock lock;             /* rank PACKED */
#define BUCKETS 16384u           /* with 64 GiB away 32 packs have one */
static ts_pack *bucket[BUCKETS]; /* guarded by lock */
static _Atomic uint64_t changes; /* rises when a loan begins, and, under the lock, when a pack is withdrawn */
static unsigned going;           /* calls in which pages go back; guarded by lock */

void ts_packed_init(void) { ts_lock_init(&lock, TS_RANK_PACKED); }
void ts_packed_fork_prepare(void) { ts_lock_acquire_for_fork(&lock); }
void ts_packed_fork_done(void) { ts_lock_release_for_fork(&lock); }
void ts_packed_fork_child(void) { going = 0; }

static uint32_t units_of_a_page(void) { return (uint32_t)(ts_os_page_bytes() / (TS_STATES_COARSE * sizeof(uint16_t))); }

static const uint8_t *bytes_of(const ts_pack *pack, uint32_t unit) {
    return (const uint8_t *)pack + pack->at[unit - pack->first];
}

/* Pages side by side have buckets side by side. */
static ts_pack **bucket_of(uint32_t unit) { return &bucket[unit / units_of_a_page() % BUCKETS]; }

/* Caller has the lock. NULL: nothing is packed of the unit's page. */
static ts_pack *pack_of(uint32_t unit) {
    ts_pack *pack = *bucket_of(unit);
    while (pack && unit - pack->first >= units_of_a_page()) pack = pack->hash_next;
    return pack;
}

/* Caller has the lock. seq_cst: has_foreign_bits; release of the last: who finds the bit off reads words that are there. */
static void set_groups(uint32_t first, bool packed) {
    for (uint32_t unit = first; unit < first + units_of_a_page(); unit += TS_PACK_GROUP) {
        if (packed)
            atomic_fetch_or_explicit(ts_packed_word(unit), ts_packed_bit(unit), memory_order_seq_cst);
        else
            atomic_fetch_and_explicit(ts_packed_word(unit), ~ts_packed_bit(unit), memory_order_seq_cst);
    }
}

/* Caller has the lock, as of the next. */
static void publish(ts_pack *pack) {
    pack->hash_next = *bucket_of(pack->first);
    *bucket_of(pack->first) = pack;
    set_groups(pack->first, true);
}

/* release: who reads a word that was written again, or one of a new loan, reads this number or a later one (is_as_before). */
static void note_change(void) { atomic_fetch_add_explicit(&changes, 1, memory_order_acq_rel); }

static void withdraw(ts_pack *pack) {
    note_change();
    ts_pack **at = bucket_of(pack->first);
    while (*at != pack) at = &(*at)->hash_next;
    *at = pack->hash_next;
    set_groups(pack->first, false);
}

/* Caller has the lock. */
static void restore(ts_pack *pack, uint32_t unit) {
    ts_slab_unpack(unit, bytes_of(pack, unit));
    pack->left &= ~(UINT32_C(1) << (unit - pack->first));
    if (pack->left == 0) withdraw(pack);
}

/* take: and ends its loan, so that nobody can pack it in between. Returns whether it was lent then. */
static bool restore_unit(uint32_t unit, bool take) {
    for (;;) {
        ts_lock_acquire(&lock);
        ts_pack *pack = pack_of(unit);
        bool packed = pack && (pack->left >> (unit - pack->first) & 1) != 0, waits = packed && going != 0;
        if (packed && !waits) restore(pack, unit);
        bool taken = take && !waits && ts_take_lent(unit);
        ts_lock_release(&lock);
        if (!waits) return taken;
        ts_nap();
    }
}

void ts_packed_restore(uint32_t unit) { (void)restore_unit(unit, false); }
bool ts_packed_take_lent(uint32_t unit) { return restore_unit(unit, true); }

void ts_packed_loan_begins(void) { note_change(); }

/* ---- there ------------------------------------------------------------------------------------------------------- */

#define BATCH 16u /* pages that go back by one call: who waits for it waits for some 0.1 ms */

/* Others have no state words of their own here: spans, slabs of small objects (FINE), and units inside of a slab or span, or dead (0). */
static bool is_packed_alone(uint64_t word) { return word != 0 && !(word & (TS_UNIT_SPAN | TS_UNIT_FINE)); }

static unsigned class_of(uint64_t word) {
    if (word & TS_UNIT_SCOPE) return TS_PACKED_SCOPE;
    ts_bin *bin = ts_line_address(ts_word_line(word));
    return ts_bin_class(ts_bin_block(bin), bin);
}

/* Units of one spill, in a row: what is sent now. */
typedef struct own_units {
    uint32_t first, end;
} own_units;
static bool is_own(const own_units *own, uint32_t unit) { return unit - own->first < own->end - own->first; }

/* Packs what the units of a page say. 0: the page stays; else the bytes. Nothing is published yet. Of units of others all have to be slabs
   that are lent: what is nobody's may be somebody's the next moment. */
static size_t pack_page(const own_units *own, uint32_t first, uint32_t units, ts_pack *pack) {
    size_t at = sizeof *pack + units * sizeof pack->at[0];
    pack->first = first;
    pack->left = 0;
    pack->shared = false;
    pack->changes = ts_load_acquire(&changes);
    if (ts_load_acquire(ts_packed_word(first)) & ts_packed_bit(first)) return 0;
    for (uint32_t i = 0; i < units; i++) {
        uint64_t word = ts_load_acquire(ts_unit_word(first + i));
        bool alone = is_packed_alone(word), mine = is_own(own, first + i);
        pack->at[i] = (uint16_t)at;
        pack->shared |= !mine;
        if (!alone && !mine) return 0;
        if (!alone) continue;
        if (!ts_is_lent(first + i)) return 0;
        at += ts_slab_pack(first + i, class_of(word), (uint8_t *)pack + at);
        pack->left |= UINT32_C(1) << i;
    }
    return pack->left == 0 || at > ts_os_page_bytes() / 4 * 3 ? 0 : at;
}

/* Caller has the lock. A page that others have slabs of may have been packed by them meanwhile. Or it was, and its words are there again, but
   were not when they were read here; or a slab has been returned, and lent again with other words. */
static bool is_as_before(const ts_pack *pack) {
    return !pack_of(pack->first) && (!pack->shared || ts_load_acquire(&changes) == pack->changes);
}

/* Caller has the lock. Whether all that was packed is lent still, so that it says the same. */
static bool is_lent_still(const ts_pack *pack) {
    for (uint32_t left = pack->left; left; left &= left - 1)
        if (!ts_is_lent(pack->first + ts_ctz64(left))) return false;
    return true;
}

/* seq_cst: who sets a bit then looks for the pack, which was published before this (ts_states_keep): one of the two sees the other. */
static bool has_foreign_bits(uint32_t unit) {
    unsigned first, end;
    const _Atomic uint64_t *words = ts_slab_foreign_words(unit, ts_load_relaxed(ts_unit_word(unit)), &first, &end);
    uint64_t tag = ts_load_relaxed(&ts_slab_at(unit)->tag);
    for (unsigned i = first; i < end; i++) {
        uint64_t x = ts_load_seq(&words[i]);
        if ((uint32_t)x != 0 && x >> TS_FOREIGN_TAG_SHIFT == tag) return true;
    }
    return false;
}

static bool was_freed_in(const ts_pack *pack) {
    for (uint32_t left = pack->left; left; left &= left - 1)
        if (has_foreign_bits(pack->first + ts_ctz64(left))) return true;
    return false;
}

/* Of units without state words of their own what the next use has to know goes into the record, as wherever such words are lost. */
static void leave_others(const ts_pack *pack, uint32_t units) {
    for (uint32_t i = 0; i < units; i++)
        if (ts_load_acquire(ts_unit_word(pack->first + i)) == 0) ts_slab_leave_states(pack->first + i);
}

/* The page may go, and nobody needs it then. */
static bool publish_pack(ts_pack *pack, uint32_t units) {
    ts_lock_acquire(&lock);
    bool good = is_lent_still(pack) && is_as_before(pack); /* in this order: a loan is noted before its first bit */
    if (good) {
        publish(pack);
        good = !was_freed_in(pack); /* statistics read state words where there are such bits, without a look */
        if (!good) withdraw(pack);
    }
    if (good) leave_others(pack, units);
    ts_lock_release(&lock);
    return good;
}

static void count_going(int more) {
    ts_lock_acquire(&lock);
    going += (unsigned)more;
    ts_lock_release(&lock);
}

/* Refused: the words are there, and say the same. The counters of purges are about data. */
static void purge(uint32_t first, uint32_t end) {
    if (first == end) return;
    (void)ts_os->purge((void *)(uintptr_t)ts_unit_states(first, false),
                       (size_t)(end - first) * TS_STATES_COARSE * sizeof(uint16_t));
}

/* In between no memory is asked for: who waits in ts_packed_restore may hold the heap that it would come from. */
static void send_batch(ts_pack **batch, unsigned count, uint32_t units) {
    uint32_t from = 0, end = 0;
    count_going(1);
    for (unsigned i = 0; i < count; i++)
        if (!publish_pack(batch[i], units)) batch[i]->left = 0;
    atomic_fetch_add_explicit(&ts_pack_turn, 1,
                              memory_order_seq_cst); /* after what is published, before the pages go: 3 */
    for (unsigned i = 0; i < count; i++) {
        if (batch[i]->left == 0) continue;
        if (batch[i]->first != end) {
            purge(from, end);
            from = batch[i]->first;
        }
        end = batch[i]->first + units;
    }
    purge(from, end);
    count_going(-1);
}

void ts_packed_send(uint32_t first, uint32_t end, const ts_pack_memory *memory, ts_pack **packs) {
    uint32_t units = units_of_a_page();
    const own_units own = {first, end};
    if (units < TS_PACK_GROUP || units > 32) return;
    first = (uint32_t)ts_align_down(first, units);
    end = (uint32_t)ts_align_up(end, units);
    ts_pack *room = memory->take(sizeof *room + units * (sizeof room->at[0] + TS_PACKED_MOST));
    while (room && first < end) {
        ts_pack *batch[BATCH];
        unsigned count = 0;
        for (; count < BATCH && first < end; first += units) {
            size_t bytes = pack_page(&own, first, units, room);
            batch[count] = bytes != 0 ? memory->take(bytes) : NULL;
            if (batch[count]) memcpy(batch[count++], room, bytes);
        }
        if (count == 0) continue;
        send_batch(batch, count, units);
        for (unsigned i = 0; i < count; i++) {
            batch[i]->next = *packs;
            *packs = batch[i]; /* one that is not published, too: nothing of it is left */
        }
    }
    if (room) memory->give(room);
}

/* ---- and back ---------------------------------------------------------------------------------------------------- */

void ts_packed_return(ts_pack **packs, const ts_pack_memory *memory) {
    for (ts_pack *pack; (pack = *packs) != NULL; memory->give(pack)) {
        *packs = pack->next;
        ts_lock_acquire(&lock);
        for (uint32_t i = 0; i < units_of_a_page(); i++)
            if (pack->left >> i & 1) restore(pack, pack->first + i);
        ts_lock_release(&lock);
    }
}
