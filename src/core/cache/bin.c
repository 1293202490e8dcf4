/* Modelled in tests/model: foreign, look, orders. */
#include "cache/bin.h"
#include "base/assert.h"
#include "base/bits.h"
#include "base/probe.h"
#include "cache/life.h"
#include "memtools/care.h"
#include "supply/account.h"
#include "supply/allocator.h"
#include "supply/span.h"

static uint32_t slab_of_entry(uint32_t entry) { return entry >> TS_ENTRY_UNIT_SHIFT; }
static unsigned granule_in_slab(bool fine, uint32_t entry) {
    return (unsigned)ts_granule(fine, entry) & (ts_granules_per_unit(fine) - 1);
}

bool ts_bin_ready(ts_churn_block *block, unsigned cls) {
    ts_bin *bin = &block->bin[cls];
    if (bin->magazine) return true;
    uint64_t used = ts_load_relaxed(&block->b.bins_used);
    unsigned others = ts_popcount64(used); /* they keep theirs as long as the block keeps any: block_pool.c */
    ts_magazine *magazine =
        others < TS_OWN_MAGAZINES ? &block->own[others] : ts_lines_take(TS_LINES_MAGAZINE, TS_MAGAZINE_BYTES);
    if (!magazine) return false;
    bin->magazine = magazine;
    bin->full_at = ts_classes.full_at[cls];
    bin->state = ts_region.part[TS_NORMAL].state[ts_class_is_fine(cls)];
    ts_store_relaxed(&block->b.bins_used, used | (uint64_t)1 << cls);
    return true;
}

/* ---- the magazine ---------------------------------------------------------------------------------------- */

/*
 * Words of one moment. What leaves the magazine for its slab was freed directly from then on: who empties it counts
 * its objects among the direct frees first and notes how many (a release store each), then takes them off top, then
 * takes the note away. A reader looks at `direct_frees`, then at `top` (acquire).
 *   no note, and the same again afterwards: top is of that time, and its objects are in no other count (what the owner
 *   stores in top later is of the release sequence of the store that emptied it);
 *   a note: the objects of top are in the count already. Those that came after them are left out, for this look;
 *   no note, and another word afterwards: top may be that of after the emptying. It looks again, and finds the note or
 *   what comes after it, however long the other is away in between.
 * A free past a full magazine changes `direct_frees` as well, as one of another thread's object does when it is taken
 * in: the looks are limited, so that one who frees all the time keeps nobody.
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

/* What a note from before is about is counted already. (After a fork a heap whose thread vanished in the middle of this
   can have one; it was not held, and stays as it is.) */
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
 * An allocation from the claimed word takes a bit off it and counts nothing: `claims` says how many bits it had. Who
 * changes the word says so first (the bits in claims 0, and what was allocated until then), then stores the word,
 * then how many bits it has (release). A reader looks at claims, at the word (acquire each), and at claims again:
 *   the same, and with bits: the word is of this claim. Of an earlier one it cannot be, for claims came after the
 *   word; nor of a later one, for whose claims without bits came before it, which the second look would have found
 *   (the fence covers what allocations store in the word afterwards: they are of the thread that claimed it, for who
 *   takes a block over finds none in it). And no two claims look alike: at least one object is allocated from each,
 *   in the operation that claims it, so the upper bits rise from one to the next. without bits, or other than before:
 *   the upper bits of the second look are all that was allocated when the word was changed last, which was during
 *   this call or is yet under way; or was put back, and nothing is allocated since.
 * All this is within one use of the block. Its end sets claims to 0: who reads a block that ends learns so afterwards
 * (ts_epoch_read_blocks).
 */
uint64_t ts_bin_word_allocs(const ts_bin *bin) {
    uint64_t claims = ts_load_acquire(&bin->claims);
    uint64_t word = ts_load_acquire(&bin->word);
    uint64_t now = ts_load_relaxed(&bin->claims), bits = now & TS_CLAIMS_BITS;
    return (now >> TS_CLAIMS_SHIFT) + (now == claims && bits != 0 ? bits - ts_popcount64(word) : 0);
}

/* The word is about to be changed; `left` of its bits were not allocated. */
TS_ALWAYS_INLINE uint64_t begin_word(ts_bin *bin, uint64_t left) {
    uint64_t claims = ts_load_relaxed(&bin->claims), bits = claims & TS_CLAIMS_BITS;
    /* without bits it was put back, or its thread vanished in a fork while it changed it: nothing more was allocated */
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

uint32_t ts_bin_word_entry(const ts_bin *bin, bool fine, unsigned bit) {
    uint64_t granule = (uint64_t)bin->word_granule + bit;
    uint32_t start = ts_load_relaxed(&bin->state[granule]) >> TS_STATE_START_SHIFT & 3u;
    return (uint32_t)ts_granule_entry(fine, granule) + (fine ? 0 : start);
}

uint64_t ts_bin_take_word(ts_bin *bin) {
    uint64_t word = ts_load_relaxed(&bin->word);
    begin_word(bin, ts_popcount64(word));
    ts_store_relaxed(&bin->word, 0);
    return word;
}

/* ---- the bin's list: slabs with free slots first --------------------------------------------------- */

/* The first slab's prev is the last one; the last one's next is 0. */
static void unlink_slab(ts_bin *bin, ts_slab *slab, uint32_t unit) {
    uint32_t last = ts_slab_at(bin->head)->prev;
    if (slab->next)
        ts_slab_at(slab->next)->prev = slab->prev;
    else
        ts_slab_at(bin->head)->prev = slab->prev;
    if (unit == bin->head)
        bin->head = slab->next;
    else
        ts_slab_at(slab->prev)->next = slab->next;
    if (bin->head && unit != last) ts_slab_at(bin->head)->prev = last;
}

static void push_head(ts_bin *bin, ts_slab *slab, uint32_t unit) {
    slab->next = bin->head;
    slab->prev = bin->head ? ts_slab_at(bin->head)->prev : unit;
    if (bin->head) ts_slab_at(bin->head)->prev = unit;
    bin->head = unit;
}

static void push_tail(ts_bin *bin, ts_slab *slab, uint32_t unit) {
    if (!bin->head) {
        push_head(bin, slab, unit);
        return;
    }
    slab->next = 0;
    slab->prev = ts_slab_at(bin->head)->prev;
    ts_slab_at(slab->prev)->next = unit;
    ts_slab_at(bin->head)->prev = unit;
}

void ts_bin_list_by_free(ts_bin *bin) {
    uint32_t unit = bin->head, full = 0;
    bin->head = 0;
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
    ts_store_relaxed(&bin->full, full);
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
    for (uint32_t unit = block->bin[cls].head; unit; unit = ts_slab_at(unit)->next) {
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
    /* release: who reads the word sees the reset slab */
    ts_store_release(ts_unit_word(unit), ts_load_relaxed(&block->b.era) | (ts_class_is_fine(cls) ? TS_UNIT_FINE : 0) |
                                             line << TS_UNIT_LINE_SHIFT);
    TS_PROBE2(slab__new, ts_unit_address(unit), (uint64_t)ts_class_bytes[cls]);
}

/* An empty slab, of which nobody frees anything any more, leaves the bin. */
static void take_out(ts_churn_block *block, ts_bin *bin, ts_slab *slab, uint32_t unit) {
    uint32_t units = ts_class_units(ts_bin_class(block, bin));
    unlink_slab(bin, slab, unit);
    if (slab->free_count == 0) ts_add_owned(&bin->full, (uint32_t)-1); /* all its slots are retired */
    count_used(block, ts_bin_class(block, bin), slab);
    ts_add_owned(&bin->slabs, (uint32_t)-1);
    ts_add_owned(&block->b.slabs, 0u - units);
    ts_block_gives(&block->b, units);
}

void ts_bin_take_out(ts_churn_block *block, ts_bin *bin, uint32_t unit) {
    take_out(block, bin, ts_slab_at(unit), unit);
    ts_note_drained(&block->b);
}

/* Takes an empty slab out of the bin. false: it is on a queue of foreign frees, and stays until it comes off. */
static bool release_slab(ts_churn_block *block, ts_bin *bin, ts_slab *slab) {
    uint32_t unit = ts_slab_unit(slab);
    _Atomic uint64_t *word = ts_unit_word(unit);
    uint64_t w = ts_load_relaxed(word);
    /* seq_cst: against the foreign free that sets FOREIGN; if it comes first, the slab stays here */
    while (!(w & TS_UNIT_FOREIGN)) {
        if (!ts_cas_seq(word, &w, 0)) continue;
        uint32_t units = ts_class_units(ts_bin_class(block, bin));
        take_out(block, bin, slab, unit);
        ts_store_relaxed(&slab->u.last_word, w);
        ts_share_keep_slab(block->b.share, unit, units);
        ts_note_drained(&block->b);
        return true;
    }
    return false;
}

/* An open bin keeps one empty slab, and an eighth of its slabs: a program that frees and allocates in waves does not
   take and give slabs all the time, and what it does not use is bounded. Closing, trimming and going idle take all;
   with AT_ONCE nothing is kept, nor where the thread ends or has, as nobody else could take them. Caller holds the
   heap. */
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
    ts_add_owned(&bin->full, (uint32_t)-1);
}

static ts_slab *put_slot(ts_churn_block *block, ts_bin *bin, uint32_t entry) {
    bool fine = ts_bin_is_fine(bin);
    uint32_t unit = slab_of_entry(entry);
    ts_slab *slab = ts_slab_at(unit);
    unsigned granule = granule_in_slab(fine, entry);
    _Atomic uint64_t *word = &ts_slab_free_words(fine, slab)[granule >> 6];
    ts_assert(2, (ts_load_relaxed(word) >> (granule & 63) & 1) == 0);
    ts_store_relaxed(word, ts_load_relaxed(word) | (uint64_t)1 << (granule & 63));
    slab->free_count++;
    if (slab->free_count == slab->empty_at) count_empty(block, ts_bin_class(block, bin), slab);
    if (slab->free_count == 1) full_to_partial(bin, slab, unit);
    return slab;
}

void ts_bin_give_slot(ts_churn_block *block, ts_bin *bin, uint32_t entry) {
    ts_slab *slab = put_slot(block, bin, entry);
    if (slab->free_count == slab->empty_at && !worth_keeping(block, bin, slab)) release_slab(block, bin, slab);
}

void ts_bin_release_if_empty(ts_churn_block *block, ts_bin *bin, uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    if (slab->free_count == slab->empty_at && !worth_keeping(block, bin, slab)) release_slab(block, bin, slab);
}

void ts_bin_release_empty(ts_churn_block *block, ts_bin *bin, uint32_t unit) {
    ts_slab *slab = ts_slab_at(unit);
    if (slab->given & TS_SLAB_IS_EMPTY) release_slab(block, bin, slab);
}

/* The owner inside an operation, without holding the heap: only the slot's bit is set here; what changes a list
   is done with the heap held. The operation ends before that, so another thread may have ended or flushed the block
   meanwhile: its era is looked at again, and the slot's bit. */
TS_NOINLINE static bool give_moves_slab(ts_churn_block *block, ts_bin *bin, uint32_t entry) {
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
        unsigned granule = granule_in_slab(fine, entry);
        if ((ts_load_relaxed(&ts_slab_free_words(fine, slab)[granule >> 6]) >> (granule & 63) & 1) == 0)
            ts_bin_give_slot(block, bin, entry);
    }
    ts_heap_leave(heap);
    return true;
}

bool ts_bin_give_freed(ts_churn_block *block, ts_bin *bin, uint32_t entry) {
    ts_slab *slab = ts_slab_at(slab_of_entry(entry));
    unsigned after = slab->free_count + 1u;
    if (TS_UNLIKELY(after == 1 || after == slab->empty_at)) return give_moves_slab(block, bin, entry);
    bool fine = ts_bin_is_fine(bin);
    unsigned granule = granule_in_slab(fine, entry);
    _Atomic uint64_t *word = &ts_slab_free_words(fine, slab)[granule >> 6];
    ts_store_relaxed(word, ts_load_relaxed(word) | (uint64_t)1 << (granule & 63));
    slab->free_count = (uint16_t)after;
    ts_op_end(&ts_thread);
    return true;
}

/* A word of the free bitmap that is not 0, and the bits of it to take. Of a slab that is not FINE each page has half
   of the bits of two words; pages of the unit that nothing was taken of yet, or that went back to the system, come
   last, so that what is in use of a slab is not spread over more memory than it needs. Once claims have had them all
   since its memory came from the system, whole words are. */
TS_ALWAYS_INLINE unsigned pick_word(bool fine, ts_slab *slab, const _Atomic uint64_t *words, uint64_t *bits) {
    unsigned w = 0;
    *bits = UINT64_MAX;
    if (fine || TS_LIKELY(slab->touched == TS_SLAB_ALL_PAGES)) {
        while (ts_load_relaxed(&words[w]) == 0) w++; /* at most 4 words, 16 of a FINE slab */
        return w;
    }
    for (unsigned step = 0;; step++) {
        unsigned page = step % TS_SLAB_PAGES;
        if (step < TS_SLAB_PAGES && !(slab->touched >> page & 1)) continue;
        *bits = (uint64_t)UINT32_MAX << page % 2 * 32;
        for (w = page / 2; w < 4; w += 2) {
            if (!(words[w] & *bits)) continue;
            slab->touched |= (uint8_t)(1u << page);
            return w;
        }
    }
}

/* What the next claim reads one after the other, out of the nearest caches as a rule: the state words of the next
   slots, and the record of the slab after that. */
TS_ALWAYS_INLINE void fetch_next_claim(const ts_bin *bin, bool fine) {
    const ts_slab *slab = ts_slab_at(bin->head);
    if (slab->next) __builtin_prefetch(ts_slab_at(slab->next), 1);
    if (fine || slab->free_count == 0) return;
    unsigned w = 0;
    uint64_t bits;
    while ((bits = ts_load_relaxed(&slab->u.free[w])) == 0) w++;
    __builtin_prefetch((const void *)(uintptr_t)&ts_unit_states(bin->head, false)[w * 64u + ts_ctz64(bits)], 1);
}

bool ts_bin_claim(ts_churn_block *block, unsigned cls) {
    ts_bin *bin = &block->bin[cls];
    bool fine = ts_class_is_fine(cls);
    ts_counters *count = &block->b.share->count[cls];
    ts_assert(2, ts_load_relaxed(&bin->word) == 0);
    uint32_t unit = bin->head;
    if (!unit) {
        ts_count(&count->current_partial_null, 1);
        return false;
    }
    ts_slab *slab = ts_slab_at(unit);
    if (slab->free_count == 0) {
        ts_count(&count->current_partial_full, 1);
        return false;
    }
    _Atomic uint64_t *words = ts_slab_free_words(fine, slab);
    uint64_t bits;
    unsigned w = pick_word(fine, slab, words, &bits); /* free_count says there is one */
    ts_assert(2, w < ts_slab_free_word_count(fine));
    if (slab->free_count == slab->empty_at) count_used(block, cls, slab);
    uint64_t word = ts_load_relaxed(&words[w]);
    bits &= word;
    ts_store_relaxed(&words[w], word - bits);
    if (TS_UNLIKELY(slab->given != 0)) slab->given &= (uint8_t)ts_slab_pages_in_use(slab, cls) ^ TS_SLAB_ALL_PAGES;
    unsigned claimed = ts_popcount64(bits);
    set_word(bin, bits, claimed);
    uint64_t granule = (uint64_t)unit * ts_granules_per_unit(fine) + w * 64u;
    bin->word_granule = (uint32_t)granule;
    slab->free_count = (uint16_t)(slab->free_count - claimed);
    if (slab->free_count == 0) {
        unlink_slab(bin, slab, unit);
        push_tail(bin, slab, unit);
        ts_add_owned(&bin->full, 1);
        ts_count_release(&count->list_move_partial_to_full, 1); /* after `full`: snapshot.c, `rising` */
    }
    fetch_next_claim(bin, fine);
    return true;
}

static void after_direct_frees(ts_churn_block *block, ts_bin *bin, ts_slab *slab, uint32_t unit, unsigned free_before) {
    if (slab->free_count == slab->empty_at) count_empty(block, ts_bin_class(block, bin), slab);
    if (free_before == 0 && slab->free_count != 0) full_to_partial(bin, slab, unit);
}

/* The slots of one foreign word in one go: a state word each, then bitmap, counts and list once. */
unsigned ts_bin_free_bits(ts_churn_block *block, ts_bin *bin, uint32_t unit, unsigned granule, uint32_t bits) {
    bool fine = ts_bin_is_fine(bin);
    ts_slab *slab = ts_slab_at(unit);
    _Atomic uint16_t *state = ts_unit_states(unit, fine) + granule;
    _Atomic uint64_t *words = ts_slab_free_words(fine, slab);
    unsigned free_before = slab->free_count, freed = 0, retired = 0;
    uint64_t slots = 0;
    for (uint32_t left = bits; left; left &= left - 1) {
        unsigned i = ts_ctz64(left);
        uint32_t s = ts_load_relaxed(&state[i]);
        if (TS_UNLIKELY(!(s & TS_STATE_LIVE))) continue;
        uint32_t next = s + TS_STATE_FREE_STEP;
        ts_store_release(&state[i], (uint16_t)next); /* as in ts_fast_free */
        freed++;
        /* A slot whose generations are used up is nowhere until the slab is reset. */
        if (TS_UNLIKELY(ts_state_is_retired(next)))
            retired++;
        else
            slots |= (uint64_t)1 << i;
    }
    if (freed == 0) return 0;
    uint64_t word = ts_load_relaxed(&words[granule >> 6]);
    ts_assert(2, (word & slots << (granule & 63)) == 0);
    ts_store_relaxed(&words[granule >> 6], word | slots << (granule & 63)); /* granule is a multiple of 32 */
    slab->free_count = (uint16_t)(free_before + freed - retired);
    slab->empty_at = (uint16_t)(slab->empty_at - retired);
    ts_count(&bin->direct_frees, freed * TS_DIRECT_ONE);
    after_direct_frees(block, bin, slab, unit, free_before);
    return freed;
}

void ts_bin_free_direct(ts_churn_block *block, ts_bin *bin, uint32_t entry) {
    unsigned granule = granule_in_slab(ts_bin_is_fine(bin), entry);
    ts_assert(2, ts_load_relaxed(ts_entry_state(entry, ts_bin_is_fine(bin))) & TS_STATE_LIVE);
    (void)ts_bin_free_bits(block, bin, slab_of_entry(entry), granule & ~31u, (uint32_t)1 << (granule & 31));
}
