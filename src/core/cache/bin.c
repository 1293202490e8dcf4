/* Modelled in tests/model: foreign, look, orders. */
#include "base/base.h"
#include "cache/allocate.h"
#include "cache/cache.h"
#include "memtools/memtools.h"
#include "os/os.h"
#include "supply/supply.h"

static uint32_t slab_of_entry(uint64_t entry) { return (uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT); }
static unsigned place_in_slab(bool fine, uint64_t entry) {
    return (unsigned)ts_granule(fine, entry) & (ts_granules_per_unit(fine) - 1);
}

bool ts_bin_ready(ts_churn_block *block, unsigned cls) {
    ts_bin *bin = &block->bin[cls];
    if (bin->magazine) return true;
    uint64_t used = ts_load_relaxed(&block->b.bins_used);
    unsigned others = ts_popcount64(used); /* bins keep their magazines as long as the block keeps any: block_pool.c */
    ts_magazine *magazine =
        others < TS_OWN_MAGAZINES ? &block->own[others] : ts_lines_take(TS_LINES_MAGAZINE, TS_MAGAZINE_BYTES);
    if (!magazine) return false;
    bin->magazine = magazine;
    bin->full_at = ts_classes.full_at[cls];
    bin->starts = ts_class_starts(cls);
    ts_store_relaxed(&block->b.bins_used, used | (uint64_t)1 << cls);
    return true;
}

/* ---- the magazine ---------------------------------------------------------------------------------------- */

/*
 * How a reader gets two words of one moment. Objects that leave the magazine for their slabs count as direct frees
 * from then on. The thread that empties the magazine adds its objects to `direct_frees` first, and notes there how
 * many they are. Then it takes them off `top`, and then it takes the note away (a release store each). A reader loads
 * `direct_frees`, then `top` (acquire each), then `direct_frees` again.
 *   - No note, and the word has not changed. Then `top` is of that time, and its objects are in no other count. (Later
 *     stores of the owner to `top` belong to the release sequence of the store that emptied it.)
 *   - A note. Then the objects of `top` are in `direct_frees` already. Objects that came later are left out of this
 *     look.
 *   - No note, and the word has changed. Then `top` may be of after the emptying. The reader looks again. It finds
 *     the note, or the words after it, however long the other thread is away in between.
 * Two other events change `direct_frees`: a free past a full magazine, and a cross-thread free that is taken in. So the
 * number of looks is limited: a thread that frees all the time keeps no reader.
 */
ts_magazine_counts ts_bin_magazine_counts(const ts_bin *bin) {
    ts_magazine_counts counts = {0, 0};
    for (unsigned looks = 0; looks < 16; looks++) {
        uint64_t direct = ts_load_acquire(&bin->direct_frees);
        uint64_t top = ts_load_acquire(&bin->top);
        bool noted = (direct & TS_DIRECT_NOTE) != 0;
        counts.pops = top >> TS_TOP_POPS_SHIFT;
        counts.frees = counts.pops + (noted ? 0 : top & TS_TOP_DEPTH) + (direct >> TS_DIRECT_SHIFT);
        if (TS_LIKELY(noted || ts_load_relaxed(&bin->direct_frees) == direct)) break;
    }
    return counts;
}

/* If a note is there already, its objects are counted already. (After a fork the heap of a vanished thread can have a
   note. The heap was not held, and stays as it is.) */
void ts_bin_forget_magazine(ts_bin *bin) {
    uint64_t top = ts_load_relaxed(&bin->top), direct = ts_load_relaxed(&bin->direct_frees);
    uint64_t depth = top & TS_TOP_DEPTH;
    if (depth != 0 && (direct & TS_DIRECT_NOTE) == 0) {
        direct += depth << TS_DIRECT_SHIFT | depth;
        ts_store_release(&bin->direct_frees, direct);
    }
    ts_store_release(&bin->top, top - depth);
    ts_store_release(&bin->direct_frees, direct & ~(uint64_t)TS_DIRECT_NOTE);
}

/* ---- the claimed word -------------------------------------------------------------------------------------- */

/*
 * An allocation from the claimed word takes a bit off it and counts nothing. `claims` has the number of bits that the
 * word had, and above them all objects allocated from earlier words. The thread that changes the word stores `claims`
 * without bits first, with the allocations until then. Then it stores the word, and then `claims` with the number of
 * its bits (release). A reader loads `claims`, the word (acquire each), and `claims` again. There are two cases.
 *   - Both loads of `claims` agree, and have bits. Then the word is of this claim. It cannot be of an earlier claim,
 *     because `claims` was stored after the word. Nor can it be of a later one: a store of `claims` without bits came
 *     before that word, and the second load would have found it. (The fence covers the stores of allocations to the
 *     word. They are of the thread that claimed it, because a thread that takes a block over finds no word in it.) No
 *     two claims look alike: at least one object is allocated from each, in the operation that claims it. So the
 *     upper bits rise from claim to claim.
 *   - They differ, or have no bits. Then the upper bits of the second load are all allocations up to the last change
 *     of the word. That change was during this call, or is under way. Or the word was put back, and nothing was
 *     allocated since.
 * All this is within one use of the block. Its end sets `claims` to 0. A reader of a block that ends learns of the end
 * afterwards (ts_epoch_read_blocks).
 */
uint64_t ts_bin_word_allocs(const ts_bin *bin) {
    uint64_t claims = ts_load_acquire(&bin->claims);
    uint64_t word = ts_load_acquire(&bin->word);
    uint64_t now = ts_load_relaxed(&bin->claims), bits = now & TS_CLAIMS_BITS;
    return (now >> TS_CLAIMS_SHIFT) + (now == claims && bits != 0 ? bits - ts_popcount64(word) : 0);
}

/* Begins a change of the word. `left` of its bits were not allocated. */
TS_ALWAYS_INLINE uint64_t begin_word(ts_bin *bin, uint64_t left) {
    uint64_t claims = ts_load_relaxed(&bin->claims), bits = claims & TS_CLAIMS_BITS;
    /* Without bits the word was put back, or its thread vanished in a fork while it changed it. Nothing more was
       allocated. */
    uint64_t allocated = (claims >> TS_CLAIMS_SHIFT) + (bits != 0 ? bits - left : 0);
    ts_store_relaxed(&bin->claims, allocated << TS_CLAIMS_SHIFT);
    atomic_thread_fence(memory_order_release);
    return allocated << TS_CLAIMS_SHIFT;
}

static void set_word(ts_bin *bin, uint64_t word, unsigned bits) {
    if (!TS_COUNTED) {
        ts_store_relaxed(&bin->word, word);
        return;
    }
    uint64_t claims = begin_word(bin, 0);
    ts_store_relaxed(&bin->word, word);
    ts_store_release(&bin->claims, claims | bits);
}

uint64_t ts_bin_take_word(ts_bin *bin) {
    uint64_t word = ts_load_relaxed(&bin->word);
    begin_word(bin, ts_popcount64(word));
    ts_store_relaxed(&bin->word, 0);
    return word;
}

/* ---- the bin's list: slabs with free slots first --------------------------------------------------- */

/* The bin's thread reads this word in each free, held or not (block.h): nobody else writes it in an open block. */
static void set_head(ts_bin *bin, uint32_t unit) {
    ts_assert(2, ts_load_relaxed(&ts_bin_block(bin)->b.key) >> TS_KEY_SHARE_SHIFT == 0 ||
                     ts_load_relaxed(&ts_bin_block(bin)->b.heap) == ts_thread.heap);
    bin->head_low = unit & (((uint32_t)1 << TS_HEAD_LOW_BITS) - 1);
    ts_store_relaxed_if_changed(&bin->full, unit >> TS_HEAD_LOW_BITS << TS_FULL_BITS | ts_bin_full(bin));
}

static void add_full(ts_bin *bin, int by) {
    const uint32_t counted = ((uint32_t)1 << TS_FULL_BITS) - 1, full = ts_load_relaxed(&bin->full);
    ts_store_relaxed(&bin->full, (full & ~counted) | ((full + (uint32_t)by) & counted));
}

/* The prev of the first slab is the last one. The next of the last one is 0. */
static void unlink_slab(ts_bin *bin, ts_slab *slab, uint32_t unit) {
    uint32_t head = ts_bin_head(bin), last = ts_slab_at(head)->prev;
    if (slab->next)
        ts_slab_at(slab->next)->prev = slab->prev;
    else
        ts_slab_at(head)->prev = slab->prev;
    if (unit == head)
        set_head(bin, head = slab->next);
    else
        ts_slab_at(slab->prev)->next = slab->next;
    if (head && unit != last) ts_slab_at(head)->prev = last;
}

static void push_head(ts_bin *bin, ts_slab *slab, uint32_t unit) {
    uint32_t head = ts_bin_head(bin);
    slab->next = head;
    slab->prev = head ? ts_slab_at(head)->prev : unit;
    if (head) ts_slab_at(head)->prev = unit;
    set_head(bin, unit);
}

static void push_tail(ts_bin *bin, ts_slab *slab, uint32_t unit) {
    uint32_t head = ts_bin_head(bin);
    if (!head) {
        push_head(bin, slab, unit);
        return;
    }
    slab->next = 0;
    slab->prev = ts_slab_at(head)->prev;
    ts_slab_at(slab->prev)->next = unit;
    ts_slab_at(head)->prev = unit;
}

void ts_bin_list_by_free(ts_bin *bin) {
    uint32_t unit = ts_bin_head(bin), full = 0;
    set_head(bin, 0);
    while (unit) {
        ts_slab *slab = ts_slab_at(unit);
        uint32_t next = slab->next;
        if (slab->free_count == 0) {
            push_tail(bin, slab, unit);
            full++;
        } else {
            push_head(bin, slab, unit);
        }
        unit = next;
    }
    add_full(bin, (int)(full - ts_bin_full(bin)));
}

static void count_empty(ts_churn_block *block, unsigned cls, ts_slab *slab) {
    block->empty[cls]++;
    slab->given |= TS_SLAB_IS_EMPTY;
}
static void count_used(ts_churn_block *block, unsigned cls, ts_slab *slab) {
    block->empty[cls]--;
    slab->given &= (uint8_t)~TS_SLAB_IS_EMPTY;
}

void ts_bin_count_empty(ts_churn_block *block, unsigned cls) {
    block->empty[cls] = 0;
    for (uint32_t unit = ts_bin_head(&block->bin[cls]); unit; unit = ts_slab_at(unit)->next) {
        ts_slab *slab = ts_slab_at(unit);
        slab->given &= (uint8_t)~TS_SLAB_IS_EMPTY;
        if (slab->free_count == slab->empty_at) count_empty(block, cls, slab);
    }
}

void ts_bin_add(ts_churn_block *block, unsigned cls, uint32_t unit) {
    ts_bin *bin = &block->bin[cls];
    ts_care_begin(block->b.share->allocator->care, ts_unit_address(unit), ts_class_units(cls) * TS_UNIT_BYTES, true);
    push_head(bin, ts_slab_at(unit), unit);
    count_empty(block, cls, ts_slab_at(unit));
    ts_add_owned(&bin->slabs, 1);
    ts_add_owned(&block->b.slabs, ts_class_units(cls));
    uint64_t line = ts_line_of(bin);
    /* release: a thread that reads the word sees the reset slab */
    /* Without a barrier no thread can hold the heap of another to make a use HANDLED. So all begin so, but for those of
       the process's malloc, of whose objects programs make no handles. */
    bool handled =
        TS_UNLIKELY((block->handled >> cls & 1) != 0) || TS_UNLIKELY(!ts_barriers && block != ts_thread.private_block);
    handled = handled && ts_region_has_generations(unit);
    if (handled) ts_slab_note_handled(unit);
    ts_store_release(ts_unit_word(unit),
                     ts_load_relaxed(&block->b.era) | (handled ? TS_UNIT_HANDLED : 0) | line << TS_UNIT_LINE_SHIFT);
    TS_PROBE2(slab__new, ts_unit_address(unit), (uint64_t)ts_class_bytes[cls]);
}

/* Takes an empty slab out of the bin. No thread frees anything in it any more. */
static void take_out(ts_churn_block *block, ts_bin *bin, ts_slab *slab, uint32_t unit) {
    uint32_t units = ts_class_units(ts_bin_class(block, bin));
    unlink_slab(bin, slab, unit);
    if (slab->free_count == 0) add_full(bin, -1); /* all its slots are retired */
    count_used(block, ts_bin_class(block, bin), slab);
    ts_add_owned(&bin->slabs, (uint32_t)-1);
    ts_add_owned(&block->b.slabs, 0u - units);
    ts_block_gives(&block->b, units);
}

void ts_bin_remove(ts_churn_block *block, ts_bin *bin, uint32_t unit) {
    take_out(block, bin, ts_slab_at(unit), unit);
    ts_note_drained(&block->b);
}

/* Gives an empty slab to the share. false: it is on a queue of cross-thread frees, and stays until it comes off. */
static bool release_slab(ts_churn_block *block, ts_bin *bin, ts_slab *slab) {
    uint32_t unit = ts_slab_unit(slab);
    _Atomic uint64_t *word = ts_unit_word(unit);
    uint64_t w = ts_load_relaxed(word);
    /* seq_cst: the partner is a cross-thread free, which sets FOREIGN. If it comes first, the slab stays here. */
    while (!(w & TS_UNIT_FOREIGN)) {
        if (!ts_cas_seq(word, &w, 0)) continue;
        uint32_t units = ts_class_units(ts_bin_class(block, bin));
        take_out(block, bin, slab, unit);
        ts_slab_note_last(unit, w);
        ts_share_keep_slab(block->b.share, unit, units);
        ts_note_drained(&block->b);
        return true;
    }
    return false;
}

/* An open bin keeps one empty slab, and an eighth of its slabs. So a program that frees and allocates in waves does
   not give and take slabs all the time, and its unused slabs are bounded. Closing, trimming and going idle take all.
   With SLAB_RECLAIM_AT_ONCE nothing is kept. Neither does an ending thread keep any, because no other thread could
   take them. Caller holds the heap. */
static bool worth_keeping(const ts_churn_block *block, const ts_bin *bin, const ts_slab *slab) {
    if (slab->empty_at == 0) return false; /* all its slots are retired */
    if (block->b.share->allocator->settings.reclaim_policy == SLAB_RECLAIM_AT_ONCE) return false;
    if (ts_load_relaxed(&block->b.heap)->keeps_nothing) return false;
    return block->b.closing != TS_CLOSING &&
           block->empty[ts_bin_class(block, bin)] <= 1 + ts_load_relaxed(&bin->slabs) / 8;
}

static void full_to_partial(ts_bin *bin, ts_slab *slab, uint32_t unit) {
    unlink_slab(bin, slab, unit);
    push_head(bin, slab, unit);
    add_full(bin, -1);
}

/* place: in the slab. bits: slots from there on, of one word of the bitmap, `count` of them. */
TS_ALWAYS_INLINE void put_slots(ts_churn_block *block, ts_bin *bin, uint32_t unit, unsigned place, uint64_t bits,
                                unsigned count) {
    ts_slab *slab = ts_slab_at(unit);
    _Atomic uint64_t *word = &ts_slab_free_words(ts_bin_is_fine(bin), slab)[place >> 6];
    ts_assert(2, (ts_load_relaxed(word) & bits << (place & 63)) == 0);
    ts_store_relaxed(word, ts_load_relaxed(word) | bits << (place & 63));
    unsigned before = slab->free_count;
    slab->free_count = (uint16_t)(before + count);
    if (slab->free_count == slab->empty_at) count_empty(block, ts_bin_class(block, bin), slab);
    if (before == 0 && count != 0) full_to_partial(bin, slab, unit);
}

void ts_bin_release_if_empty(ts_churn_block *block, ts_bin *bin, uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    if (slab->free_count == slab->empty_at && !worth_keeping(block, bin, slab)) release_slab(block, bin, slab);
}

void ts_bin_give_slot(ts_churn_block *block, ts_bin *bin, uint64_t entry) {
    uint32_t unit = slab_of_entry(entry);
    put_slots(block, bin, unit, place_in_slab(ts_bin_is_fine(bin), entry), 1, 1);
    ts_bin_release_if_empty(block, bin, unit);
}

void ts_bin_give_word(ts_churn_block *block, ts_bin *bin) {
    uint64_t bits = ts_bin_take_word(bin);
    uint32_t in_unit = ts_granules_per_unit(ts_bin_is_fine(bin)), unit = bin->word_place / in_unit;
    if (bits == 0) return;
    put_slots(block, bin, unit, bin->word_place % in_unit, bits, ts_popcount64(bits));
    ts_bin_release_if_empty(block, bin, unit);
}

void ts_bin_release_empty(ts_churn_block *block, ts_bin *bin, uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    if (slab->given & TS_SLAB_IS_EMPTY) release_slab(block, bin, slab);
}

/* A change of a list needs the heap, and the operation ends before the thread enters it. Another thread may end or
   flush the block in between. So this looks at the era again, and at the slot's bit. */
void ts_bin_give_freed(ts_churn_block *block, ts_bin *bin, uint64_t entry) {
    ts_heap *heap = ts_thread.heap;
    uint64_t era = ts_era(&block->b);
    ts_op_end(&ts_thread);
    ts_heap_enter(heap);
    uint64_t word = ts_load_relaxed(ts_unit_word(slab_of_entry(entry)));
    bool mine = ts_era(&block->b) == era && ts_load_relaxed(&block->b.heap) == heap;
    /* A block that was closed and rebuilt meanwhile has this slot in its bitmap already. */
    if (mine && ts_word_era(word) == era && ts_word_line(word) == ts_line_of(bin)) {
        ts_slab *slab = ts_slab_at(slab_of_entry(entry));
        bool fine = ts_bin_is_fine(bin);
        unsigned place = place_in_slab(fine, entry);
        if ((ts_load_relaxed(&ts_slab_free_words(fine, slab)[place >> 6]) >> (place & 63) & 1) == 0)
            ts_bin_give_slot(block, bin, entry);
    }
    ts_heap_leave(heap);
}

/* Picks a word of the free bitmap that is not 0. In a COARSE slab a word is a slab page. Pages that went back to the
   system come last, and then the first ones: so the objects of a slab are not spread over more memory than they need.
   There are 4 words, 16 of a FINE slab. */
TS_ALWAYS_INLINE unsigned pick_word(const ts_slab *slab, const _Atomic uint64_t *words) {
    unsigned given = slab->given & TS_SLAB_ALL_PAGES, w = 0;
    while (ts_load_relaxed(&words[w]) == 0 || TS_UNLIKELY(given >> w & 1)) {
        if (++w < TS_SLAB_PAGES || given == 0) continue;
        given = w = 0;
    }
    return w;
}

/* Fetches the cache lines that the next claim reads one after the other: the live words of the next slots, and the
   record of the slab after that. */
TS_ALWAYS_INLINE void fetch_next_claim(const ts_bin *bin, bool fine) {
    const ts_slab *slab = ts_slab_at(ts_bin_head(bin));
    if (slab->next) __builtin_prefetch(ts_slab_at(slab->next), 1);
    if (fine || slab->free_count == 0) return;
    unsigned w = 0;
    while (ts_load_relaxed(&slab->u.free[w]) == 0) w++;
    __builtin_prefetch((const void *)(uintptr_t)&ts_unit_live(ts_bin_head(bin))[w * 4], 1);
}

/* Claims the next free word of the bin's first slab. outer: its first slot only, which counts as allocated at once.
   Returns the claimed bits, and the place of the word's first bit. 0: the first slab is no OUTER one, or not the other
   kind, or has no free slot. */
TS_ALWAYS_INLINE uint64_t claim(ts_churn_block *block, unsigned cls, const bool outer, uint64_t *place) {
    ts_bin *bin = &block->bin[cls];
    bool fine = ts_class_is_fine(cls);
    ts_counters *count = &block->b.share->count[cls];
    ts_assert(2, ts_load_relaxed(&bin->word) == 0);
    uint32_t unit = ts_bin_head(bin);
    if (!unit || ts_is_outer(unit) != outer) return 0;
    ts_slab *slab = ts_slab_at(unit);
    if (slab->free_count == 0) return 0;
    _Atomic uint64_t *words = ts_slab_free_words(fine, slab);
    unsigned w = pick_word(slab, words); /* free_count says that there is one */
    ts_assert(2, w < ts_slab_free_word_count(fine));
    if (slab->free_count == slab->empty_at) count_used(block, cls, slab);
    uint64_t free = ts_load_relaxed(&words[w]), bits = outer ? free & (0 - free) : free;
    ts_store_relaxed(&words[w], free ^ bits);
    if (TS_UNLIKELY(slab->given != 0)) slab->given &= (uint8_t)ts_slab_pages_in_use(slab, cls) ^ TS_SLAB_ALL_PAGES;
    unsigned claimed = ts_popcount64(bits);
    set_word(bin, outer ? 0 : bits, claimed);
    *place = (uint64_t)unit * ts_granules_per_unit(fine) + w * 64u;
    slab->free_count = (uint16_t)(slab->free_count - claimed);
    if (slab->free_count == 0) {
        unlink_slab(bin, slab, unit);
        push_tail(bin, slab, unit);
        add_full(bin, 1);
        ts_count_release(&count->list_move_partial_to_full, 1); /* after `full`: snapshot.c, `rising` */
    }
    return bits;
}

bool ts_bin_claim(ts_churn_block *block, unsigned cls) {
    uint64_t place;
    if (!claim(block, cls, false, &place)) return false;
    block->bin[cls].word_place = (uint32_t)place;
    fetch_next_claim(&block->bin[cls], ts_class_is_fine(cls));
    return true;
}

void *ts_bin_take_outer(ts_churn_block *block, unsigned cls) {
    uint64_t place, bits = claim(block, cls, true, &place);
    return bits ? ts_take_place(&block->bin[cls], ts_class_is_fine(cls), place + ts_ctz64(bits)) : NULL;
}

/* The bits of a live word for sixteen COARSE granules: four for each. */
static uint64_t spread_granules(uint32_t bits) {
    uint64_t x = bits;
    x = (x | x << 24) & 0x000000ff000000ffu;
    x = (x | x << 12) & 0x000f000f000f000fu;
    x = (x | x << 6) & 0x0303030303030303u;
    x = (x | x << 3) & 0x1111111111111111u;
    return x * 15;
}

/* Takes the live bits of granules off, of which each stands for one slot at most. release: as in ts_fast_free. Returns
   those that were on. */
static uint64_t take_live_bits(_Atomic uint64_t *word, uint64_t mask) {
    uint64_t was = ts_load_relaxed(word);
    ts_store_release(word, was & ~mask);
    return was & mask;
}
/* The entry of the slot in a granule of a slab. */
static uint64_t entry_of_slot(const ts_bin *bin, uint32_t unit, unsigned granule) {
    uint64_t first = (uint64_t)unit * TS_UNIT_ENTRIES;
    return first + (ts_bin_is_fine(bin) ? granule : granule * 4 + bin->starts[granule]);
}

/* Lives in a HANDLED slab have ended: their live bits are off. Returns the slots that are retired by that. */
TS_COLD static uint32_t count_lives(const ts_bin *bin, uint32_t unit, unsigned granule, uint32_t bits) {
    uint32_t retired = 0;
    for (; bits; bits &= bits - 1) {
        unsigned i = ts_ctz64(bits);
        if (!ts_slot_count(entry_of_slot(bin, unit, granule + i))) retired |= (uint32_t)1 << i;
    }
    return retired;
}

/* Frees the slots of one foreign word together: live bits first, then the counts, or bitmap and list, once. */
unsigned ts_bin_free_bits(ts_churn_block *block, ts_bin *bin, uint32_t unit, unsigned granule, uint32_t bits,
                          bool keeps) {
    bool fine = ts_bin_is_fine(bin);
    bool handled = TS_UNLIKELY((ts_load_relaxed(ts_unit_word(unit)) & TS_UNIT_HANDLED) != 0);
    uint32_t slots = 0; /* that were live */
    _Atomic uint64_t *lives = &ts_unit_live(unit)[fine ? granule / 64 : granule / 16];
    if (fine) slots = (uint32_t)(take_live_bits(lives, (uint64_t)bits << (granule & 32)) >> (granule & 32));
    for (unsigned i = 0; i < 32 && !fine; i += 16) {
        uint32_t some = bits >> i & UINT16_MAX;
        uint64_t was = some ? take_live_bits(&lives[i / 16], spread_granules(some)) : 0;
        if (TS_UNLIKELY(ts_popcount64(was) != ts_popcount64(some)))
            for (unsigned k = 0; k < 16; k++) some &= ~((uint32_t)((was >> 4 * k & 15) == 0) << k);
        slots |= some << i;
    }
    if (TS_UNLIKELY(slots != bits)) /* foreign.c, 8 */
        ts_fetch_add_relaxed(&block->b.share->allocator->rejected_frees, ts_popcount64(bits & ~slots));
    uint32_t retired = handled ? count_lives(bin, unit, granule, slots) : 0;
    slots &= ~retired; /* they stay so until the slab is reset */
    unsigned gone = ts_popcount64(retired);
    /* What is more than a few is claimed as a word, in the order of addresses. A magazine has no OUTER objects. */
    uint64_t before = ts_bin_depth(bin), depth = before;
    uint64_t room = keeps && ts_popcount64(slots) <= 8 && !ts_is_outer(unit) ? bin->full_at : 0;
    for (; slots && depth < room; slots &= slots - 1) {
        uint64_t entry = entry_of_slot(bin, unit, granule + ts_ctz64(slots));
        bin->magazine->object[depth++] = ts_entry_address(&ts_region.part[TS_NORMAL], entry);
    }
    unsigned kept = (unsigned)(depth - before), given = ts_popcount64(slots) + gone;
    ts_add_owned(&bin->top, (uint64_t)kept * TS_TOP_PUSH);
    if (given != 0) {
        ts_slab_at(unit)->empty_at = (uint16_t)(ts_slab_at(unit)->empty_at - gone);
        ts_count(&bin->direct_frees, given * TS_DIRECT_ONE);
        put_slots(block, bin, unit, granule, slots, given - gone);
    }
    return kept + given;
}

void ts_bin_free_direct(ts_churn_block *block, ts_bin *bin, uint64_t entry) {
    bool fine = ts_bin_is_fine(bin);
    unsigned granule = (unsigned)ts_granule(fine, entry) & (ts_granules_per_unit(fine) - 1);
    ts_assert(2, ts_is_live(entry));
    (void)ts_bin_free_bits(block, bin, slab_of_entry(entry), granule & ~31u, (uint32_t)1 << (granule & 31), false);
}
