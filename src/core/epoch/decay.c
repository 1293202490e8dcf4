/*
 * Memory of closed epochs and of bins at rest goes back, in calls that come later: the core has no thread of its own.
 *
 *  1. A slab of a closed epoch gives back the pages in which no live object lies: some 10 seconds after the close, and
 *     again when the epoch is twice, four times, ... as old. One slow call in eight (end.c) does a piece of a pass over
 *     all units (decay.c).
 *  2. A bin in which its thread has allocated nothing for 5 to 10 seconds lets go of its magazine and its empty slabs.
 *     So an open epoch whose objects were all freed keeps no memory. Maintenance that finds the thread at rest asks for
 *     that at once (cache/maintain.c).
 *
 * Without closed epochs that have live objects, and without churn blocks of the thread, a look costs reading the clock.
 */
#include "cache/cache.h"
#include "epoch/epoch.h"
#include "supply/supply.h"

#include "os/os.h"
#include "region/region.h"

#define SECOND ((uint64_t)1000000000)
#define AGE_NS (8 * SECOND)    /* of a closed epoch that is looked at first; a pass comes within 1 second after that */
#define SOON_NS SECOND         /* from one pass to the next while a closed epoch is younger */
#define LATER_NS (10 * SECOND) /* while all are older */
#define IDLE_NS (5 * SECOND)   /* from one look at a thread's own bins to the next */
#define UNITS_A_PIECE 512u     /* of a pass in one call: some 0.5 us */
#define SLABS_A_PIECE 16u      /* of closed epochs that are looked at more closely in one call: some 0.2 us each */
#define PURGES_A_PIECE 4u      /* slabs that give something back: some 2 us each */

/*
 * The pass. `running` is a lock that nobody waits for. The thread that has it reads and writes the rest; others only
 * look. An epoch is due in the pass that is the first to begin after its age was AGE_NS, and twice, four times, ...
 * that. It follows from when this pass and the one before it began, so nothing is noted in the epoch.
 */
static _Atomic uint32_t running;
static _Atomic uint32_t cursor;      /* the next unit to be looked at; 0: no pass is on its way */
static _Atomic uint64_t next_ns;     /* when the next one begins; 0: nothing waits for one */
static _Atomic uint32_t noted;       /* an epoch was closed since this pass began, which it may have passed by */
static uint64_t began_ns, before_ns; /* this pass, and the one before it */
static bool any_young, any_old;      /* closed epochs that it has met, by age */

/* Against the end of a pass, after which none is to come: it writes next_ns, then looks at `noted`; this writes
   `noted`, then looks at next_ns. All seq_cst: one of the two sees the other. */
void ts_decay_note_closed(void) {
    uint64_t soon = ts_os->coarse_ns() + AGE_NS;
    ts_store_seq(&noted, 1);
    uint64_t next = ts_load_seq(&next_ns);
    if (next == 0 || next > soon) (void)ts_cas_seq(&next_ns, &next, soon);
}

/* Whether an epoch closed then gets due in this pass. */
static bool is_due(uint64_t closed_ns) {
    for (uint64_t age = AGE_NS; age < (uint64_t)1 << 62; age *= 2) {
        if (closed_ns + age > began_ns) return false;
        if (closed_ns + age > before_ns) return true;
    }
    return false;
}

/* The slab's block, if it belongs to a closed epoch that is due. The caller holds nothing, so the answer is a hint.
   One thing is certain: a flushed block gets no objects any more in the era that the word has. */
static ts_block *due_block(uint64_t word, ts_allocator **allocator, uintptr_t *token) {
    if (word == 0 || (word & (TS_UNIT_SPAN | TS_UNIT_ZOMBIE | TS_UNIT_FOREIGN))) return NULL;
    ts_block *block = ts_block_of_word(word);
    const ts_epoch *epoch = ts_load_relaxed(&block->epoch);
    if (!epoch || !ts_load_acquire(&block->flushed) || ts_era(block) != ts_word_era(word)) return NULL;
    uint64_t closed = ts_load_relaxed(&epoch->closed_at_ns);
    if (ts_load_relaxed(&epoch->state) != EPOCH_CLOSING || closed == 0) return NULL;
    bool young = began_ns < closed + AGE_NS;
    any_young |= young;
    any_old |= !young;
    *allocator = ts_load_relaxed(&epoch->allocator);
    *token = ts_load_relaxed(&block->allocator);
    return !young && is_due(closed) ? block : NULL;
}

/* false: no more in this call. */
static bool purge_of(uint32_t unit, uint64_t word, unsigned *purges) {
    ts_allocator *allocator;
    uintptr_t token;
    if (!due_block(word, &allocator, &token)) return true;
    unsigned pages = ts_hollow_closed_pages(unit, word);
    if (pages == 0 || !allocator || !ts_allocator_pin_use(allocator, token)) return true;
    bool more = allocator->care || ts_hollow_purge_closed(ts_thread.heap, allocator, unit, word, pages);
    ts_allocator_unpin(allocator);
    return ++*purges < PURGES_A_PIECE && more;
}

static void begin_pass(uint64_t now) {
    before_ns = began_ns;
    began_ns = now;
    any_young = any_old = false;
    ts_store_seq(&noted, 0);
    ts_store_relaxed(&cursor, 1);
}

static void end_pass(void) {
    uint64_t none = 0, next = any_young ? SOON_NS : any_old ? LATER_NS : 0;
    ts_store_relaxed(&cursor, 0);
    ts_store_seq(&next_ns, next != 0 ? began_ns + next : 0);
    if (next != SOON_NS && ts_load_seq(&noted)) { /* partner: ts_decay_note_closed */
        if (next != 0)
            ts_store_relaxed(&next_ns, began_ns + SOON_NS);
        else
            (void)ts_cas_seq(&next_ns, &none, began_ns + SOON_NS);
    }
}

static void piece(void) {
    uint32_t unit = ts_load_relaxed(&cursor), end = ts_pool_highest(TS_NORMAL), looked = 0;
    unsigned purges = 0;
    uint32_t last = unit + UNITS_A_PIECE < end ? unit + UNITS_A_PIECE : end;
    for (; unit < last && looked < SLABS_A_PIECE; unit++) {
        uint64_t word =
            ts_load_acquire(ts_unit_word(unit)); /* acquire: partner of ts_bin_add, so that the block is there */
        looked += word != 0 && !(word & TS_UNIT_SPAN);
        if (!purge_of(unit, word, &purges)) {
            unit++;
            break;
        }
    }
    if (unit < end)
        ts_store_relaxed(&cursor, unit);
    else
        end_pass();
}

/* Whether there is more of the pass. */
static bool pass(uint64_t now) {
    uint64_t next = ts_load_relaxed(&next_ns);
    if (TS_LIKELY(next == 0) || (now < next && ts_load_relaxed(&cursor) == 0)) return false;
    uint32_t free = 0;
    if (!ts_thread.heap || !ts_cas_seq(&running, &free, 1)) return false;
    if (ts_load_relaxed(&cursor) == 0 && now >= ts_load_relaxed(&next_ns) && ts_load_relaxed(&next_ns) != 0)
        begin_pass(now);
    if (ts_load_relaxed(&cursor) != 0) piece();
    bool more = ts_load_relaxed(&cursor) != 0;
    ts_store_release(&running, 0); /* partner: the exchange above */
    return more;
}

/* The thread's own. */
static bool shed(uint64_t now) {
    ts_heap *heap = ts_thread.heap;
    if (!heap || (now < heap->shed_ns && !ts_load_relaxed(&heap->asked_to_shed)) || !ts_heap_try_enter(heap))
        return false;
    bool more = ts_heap_shed(heap, NULL);
    if (!more) ts_store_relaxed(&heap->asked_to_shed, 0);
    ts_heap_leave(heap);
    if (!more) heap->shed_ns = now + IDLE_NS;
    return more;
}

/* What is retained of the allocators that the thread has begun with last. */
static void look_at_retained(void) {
    const ts_share *share = ts_thread.heap ? ts_thread.heap->shares : NULL;
    for (unsigned n = 0; share && n < TS_RECENT_SHARES; n++, share = share->heap_next)
        (void)ts_allocator_look(share->allocator, TS_PURGE_PIECE_UNITS);
}

void ts_decay_look(void) {
    uint64_t now = ts_os->coarse_ns();
    (void)pass(now);
    (void)shed(now);
    look_at_retained();
}

void ts_decay_run(uint64_t until) {
    uint64_t now = ts_os->coarse_ns();
    while (pass(now) && ts_os->wall_ns() < until) {
    }
    while (shed(now) && ts_os->wall_ns() < until) {
    }
}

void ts_decay_fork_child(void) { ts_store_relaxed(&running, 0); }
