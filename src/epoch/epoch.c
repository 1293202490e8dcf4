/* Modelled in tests/model: hold, exit, epoch, orders. */
#include "epoch/epoch.h"

#include "base/assert.h"
#include "base/probe.h"
#include "os/os.h"

#include <errno.h>
#include <string.h>

#define STRIPES 64u

ts_table ts_epochs;
static struct {
    TS_ALIGNED(64) ts_lock lock;
} stripes[STRIPES];

void ts_epoch_init(void) {
    ts_table_init(&ts_epochs, TS_TABLE_EPOCH, TS_EPOCH_STRIDE, 64);
    for (unsigned i = 0; i < STRIPES; i++) ts_lock_init(&stripes[i].lock, TS_RANK_EPOCH);
}

ts_lock *ts_epoch_lock(const ts_epoch *epoch) { return &stripes[epoch->entry.index % STRIPES].lock; }

ts_epoch *ts_epoch_find(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = ts_table_find(&ts_epochs, id);
    return epoch && ts_load_relaxed(&epoch->allocator) == allocator ? epoch : NULL;
}

/* The epoch with its lock taken; NULL without the lock: no such epoch. */
TS_ALWAYS_INLINE ts_epoch *find_locked(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = ts_table_find(&ts_epochs, id);
    if (!epoch) return NULL;
    ts_lock_acquire(ts_epoch_lock(epoch));
    if (ts_load_relaxed(&epoch->entry.id) == id && ts_load_relaxed(&epoch->allocator) == allocator) return epoch;
    ts_lock_release(ts_epoch_lock(epoch));
    return NULL;
}

/* ---- labels --------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 sequence at s, 0 if it is none (also: overlong, surrogate, above U+10FFFF). */
static unsigned utf8_length(const unsigned char *s) {
    unsigned n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 :
                 s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
    for (unsigned i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))) return 0;
    if (n == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))) return 0;
    return n;
}

static void copy_label(char *to, const char *from) {
    size_t used = 0;
    memset(to, 0, SLAB_LABEL_BYTES);
    const unsigned char *s = (const unsigned char *)(from ? from : "");
    while (*s) {
        unsigned n = utf8_length(s);
        unsigned take = n ? n : 1;
        if (used + take > SLAB_LABEL_BYTES - 1) break;
        if (n)
            memcpy(to + used, s, n);
        else
            to[used] = '?';
        used += take;
        s += take;
    }
}

/* Caller has the lock, or the epoch is not published yet. A reader that has seen a part of the new label sees the odd turn
   too (release fence, acquire fence in ts_epoch_read_label). */
void ts_epoch_set_label(ts_epoch *epoch, const char *label) {
    union {
        char text[SLAB_LABEL_BYTES];
        uint64_t word[SLAB_LABEL_BYTES / 8];
    } u;
    copy_label(u.text, label);
    uint32_t turn = ts_load_relaxed(&epoch->label_turn);
    ts_store_relaxed(&epoch->label_turn, turn + 1);
    atomic_thread_fence(memory_order_release);
    for (unsigned i = 0; i < SLAB_LABEL_BYTES / 8; i++) ts_store_relaxed(&epoch->label[i], u.word[i]);
    ts_store_release(&epoch->label_turn, turn + 2);
}

void ts_epoch_read_label(const ts_epoch *epoch, char out[SLAB_LABEL_BYTES]) {
    uint64_t word[SLAB_LABEL_BYTES / 8];
    for (unsigned looks = 0; looks < 16; looks++) {
        uint32_t turn = ts_load_acquire(&epoch->label_turn); /* partner: the release in ts_epoch_set_label */
        for (unsigned i = 0; i < SLAB_LABEL_BYTES / 8; i++) word[i] = ts_load_relaxed(&epoch->label[i]);
        atomic_thread_fence(memory_order_acquire);
        if (turn % 2 == 0 && ts_load_relaxed(&epoch->label_turn) == turn) break;
    }
    memcpy(out, word, SLAB_LABEL_BYTES);
    out[SLAB_LABEL_BYTES - 1] = 0;
}

/* ---- the list of blocks ------------------------------------------------------------------------------- */

static ts_block *next_in_epoch(const ts_block *block) { return ts_load_relaxed(&block->epoch_next); }

/* Caller has the lock. Whoever ends these blocks, or uses them again, does so after the fence: a reader that has seen
   anything of that sees the count too. */
TS_ALWAYS_INLINE ts_block *detach_blocks(ts_epoch *epoch) {
    ts_block *blocks = ts_load_relaxed(&epoch->blocks);
    ts_store_relaxed(&epoch->blocks, NULL);
    ts_store_relaxed(&epoch->detached, ts_load_relaxed(&epoch->detached) + 1);
    atomic_thread_fence(memory_order_release); /* partner: ts_epoch_read_blocks */
    return blocks;
}

/* Blocks enter at the head and leave all together: while `detached` is the same, the list from a head on is the same.
   Off the list a walk can get into the list of another epoch; it ends when a block's epoch is another. */
bool ts_epoch_read_blocks(const ts_epoch *epoch, EpochId id, void (*fn)(void *, const ts_block *), void *arg) {
    uint32_t detached = ts_load_acquire(&epoch->detached);
    if (ts_load_acquire(&epoch->entry.id) != id) return false;
    /* acquire: partner of the release in new_block; a block's link is written before the block is in the list */
    for (const ts_block *b = ts_load_acquire(&epoch->blocks); b; b = next_in_epoch(b)) {
        if (ts_load_relaxed(&b->epoch) != epoch) return false;
        fn(arg, b);
    }
    atomic_thread_fence(memory_order_acquire); /* partner: detach_blocks */
    return ts_load_relaxed(&epoch->detached) == detached && ts_load_relaxed(&epoch->entry.id) == id;
}

/* ---- blocks that come into an epoch -------------------------------------------------------------------- */

/* Caller has the epoch's lock, which keeps the epoch ACTIVE, or has not published the epoch; the block is on no list that
   anyone else walks, or was shut by the end of its thread. */
TS_ALWAYS_INLINE void open_block(ts_block *block, EpochId id) {
    /* release: who sees the id sees whose heap it is (domain.c: is_block_of) */
    ts_store_release(&block->open_id, id);
    /* Care is the slow path's work: such a block is never open to fast frees. */
    if (block->share->allocator->care) return;
    ts_store_relaxed(&block->key, ts_era(block) | (uint64_t)ts_line_of(block->share) << TS_KEY_SHARE_SHIFT);
}

/* Whether an ended thread's block can serve the class. Bins are read without holding its heap: a hint. */
static bool has_free(const ts_block *block, unsigned cls) {
    if (block->scope) return false;
    const ts_bin *bin = &((const ts_churn_block *)(const void *)block)->bin[cls];
    return ts_load_relaxed(&bin->slabs) > ts_load_relaxed(&bin->full);
}

/* Moves a block of an ended thread to this thread's heap. Caller has the epoch's lock and no heap. The block
   changes its heap while the old one is held, with its queue empty: from then on, who drains the old heap's
   queue and finds a slab of this block passes it on. */
static bool take_over(ts_heap *heap, ts_share *share, ts_block *block, EpochId id) {
    ts_heap *old = ts_load_acquire(&block->heap);
    if (old == heap || ts_load_seq(&old->state) != TS_HEAP_ABANDONED) return false;
    if (!ts_heap_hold(old)) return false;
    bool taken = false;
    if (ts_load_relaxed(&block->heap) == old && ts_load_relaxed(&old->state) == TS_HEAP_ABANDONED) {
        ts_foreign_drain(old);
        ts_heap_unlink(old, block);
        block->share = share;
        ts_store_release(&block->heap, heap);
        taken = true;
    }
    ts_heap_drop(old);
    if (!taken) return false;
    ts_heap_enter(heap);
    ts_heap_link(heap, block);
    open_block(block, id);
    ts_heap_leave(heap);
    return true;
}

static void remember(ts_heap *heap, ts_block *block, const ts_epoch *epoch) {
    unsigned i = epoch->entry.index % TS_HEAP_MAP;
    if (block->scope)
        heap->scope_map[i] = ts_scope(block);
    else
        heap->map[i] = ts_churn(block);
}

TS_ALWAYS_INLINE ts_block *new_block(ts_heap *heap, ts_share *share, ts_epoch *epoch, EpochId id) {
    ts_heap_enter(heap);
    ts_block *block = ts_block_take(heap, share, epoch, (ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE) != 0);
    if (block) {
        ts_store_relaxed(&block->epoch_id, id);
        open_block(block, id);
    }
    ts_heap_leave(heap);
    if (!block) {
        errno = ENOMEM;
        return NULL;
    }
    ts_block *first = ts_load_relaxed(&epoch->blocks);
    block->epoch_prev = NULL;
    ts_store_relaxed(&block->epoch_next, first);
    if (first) first->epoch_prev = block;
    ts_store_release(&epoch->blocks, block); /* whole, for ts_epoch_read_blocks */
    return block;
}

/* ---- open ------------------------------------------------------------------------------------------ */

/* The opener's block, while nobody else can find the epoch: no lock is needed. Without memory it joins later. */
static void join_unpublished(ts_allocator *allocator, ts_epoch *epoch, EpochId id) {
    ts_heap *heap = ts_heap_mine();
    ts_share *share = heap ? ts_heap_share_now(heap, allocator) : NULL;
    ts_block *block = share ? new_block(heap, share, epoch, id) : NULL;
    if (block) remember(heap, block, epoch);
}

/* When the newest epoch was opened that is not a domain's. A hint of the order only. */
static TS_ALIGNED(64) _Atomic uint64_t newest_ns;

/* Tells the order in which epochs were opened: those of one thread among themselves, whichever clock it was, and any two of
   which one is not a domain's (if the clock moves while a domain is made, as it does but for some virtual machines).
   Domains come by the thousand: in the time that a good clock takes two more can be made. */
static uint64_t opening_time(bool domain) {
    uint64_t now = domain ? ts_os->coarse_ns() : ts_os->wall_ns();
    if (domain) {
        uint64_t last = ts_load_relaxed(&newest_ns);
        if (last < ts_thread.opened_ns) last = ts_thread.opened_ns;
        if (now <= last) now = last + 1;
    } else {
        uint64_t newest = ts_load_relaxed(&newest_ns); /* only forward: another thread may have read its clock earlier */
        while (newest < now && !atomic_compare_exchange_weak_explicit(&newest_ns, &newest, now, memory_order_relaxed,
                                                                      memory_order_relaxed)) {
        }
    }
    ts_thread.opened_ns = now;
    return now;
}

EpochId ts_epoch_open(ts_allocator *allocator, const char *label, unsigned flags, bool join) {
    if (flags & ~(EPOCH_CHURN | EPOCH_SCOPE) || flags == (EPOCH_CHURN | EPOCH_SCOPE)) {
        errno = EINVAL;
        return EPOCH_NONE;
    }
    ts_epoch *epoch = ts_heap_take_entry(&ts_epochs, TS_TABLE_EPOCH);
    if (!epoch) {
        errno = ENOMEM;
        return EPOCH_NONE;
    }
    uint64_t id = ts_table_next_id(&ts_epochs, epoch);
    uintptr_t token = allocator->token;
    uint64_t now = opening_time(join);
    /* No lock: nobody reads an entry whose id is 0, and its last use ended under the lock. */
    ts_store_relaxed(&epoch->flags, flags ? flags : EPOCH_CHURN);
    ts_store_relaxed(&epoch->allocator, allocator);
    /* That of the last use is still there, for messages. */
    if (label || ts_load_relaxed(&epoch->label[0]) != 0) ts_epoch_set_label(epoch, label);
    ts_store_relaxed(&epoch->open_since_ns, now);
    ts_store_relaxed(&epoch->closed_at_ns, 0);
    ts_store_relaxed(&epoch->blocks, NULL);
    epoch->dying = NULL;
    epoch->spans = 0;
    epoch->pins = 0;
    epoch->destroyed = false;
    ts_store_relaxed(&epoch->span_allocated, 0);
    ts_store_relaxed(&epoch->span_freed, 0);
    ts_store_relaxed(&epoch->span_bytes_allocated, 0);
    ts_store_relaxed(&epoch->span_bytes_freed, 0);
    ts_store_relaxed(&epoch->span_units, 0);
    ts_store_relaxed(&epoch->rss_before, 0);
    ts_store_relaxed(&epoch->rss_after, 0);
    ts_store_relaxed(&epoch->state, EPOCH_ACTIVE);
    if (join) join_unpublished(allocator, epoch, id);
    ts_table_publish(epoch, id);
    /* An allocator ends by changing its id and then destroying all epochs it finds (both seq_cst): it finds this one, or
       its end is seen here. */
    atomic_thread_fence(memory_order_seq_cst);
    if (TS_UNLIKELY(ts_load_relaxed(&allocator->entry.id) != token)) {
        ts_epoch_destroy(allocator, id);
        errno = EINVAL;
        return EPOCH_NONE;
    }
    TS_PROBE3(epoch__open, id, label, (uint64_t)flags);
    return id;
}

/* ---- joining -------------------------------------------------------------------------------------------- */

ts_block *ts_epoch_join(ts_heap *heap, ts_allocator *allocator, EpochId id) {
    ts_share *share = ts_heap_share(heap, allocator);
    if (!share) return NULL;
    /* Those that others have ended for it, who cannot give them away. Before there is a block: as soon as the lock is
       released that can end, and it must stay this heap's while the caller has a pointer to it. */
    ts_heap_limit_blocks(heap);
    ts_epoch *epoch = find_locked(allocator, id);
    if (!epoch) {
        /* Ids are given out in order of era: one that its entry has passed is an old id, any other never was one
           of this allocator. */
        uint64_t index = ts_table_index(&ts_epochs, id), era = id >> ts_epochs.index_bits;
        bool old = false;
        if (index > 0 && index < ts_table_high(&ts_epochs) && era > 0) {
            const ts_entry *entry = ts_table_at(&ts_epochs, (uint32_t)index);
            uint64_t present = ts_load_relaxed(&entry->era);
            old = era < present || (era == present && ts_load_relaxed(&entry->id) != id);
        }
        errno = old ? ESTALE : EINVAL;
        return NULL;
    }
    ts_block *block = NULL;
    if (ts_load_relaxed(&epoch->state) != EPOCH_ACTIVE) {
        ts_count(&share->refused_closed, 1);
        errno = ESTALE;
    } else {
        for (block = ts_load_relaxed(&epoch->blocks); block; block = next_in_epoch(block))
            if (ts_load_relaxed(&block->heap) == heap) break;
        for (ts_block *b = ts_load_relaxed(&epoch->blocks); !block && b; b = next_in_epoch(b))
            if (take_over(heap, share, b, id)) block = b;
        if (!block) block = new_block(heap, share, epoch, id);
        if (block) remember(heap, block, epoch);
    }
    ts_lock_release(ts_epoch_lock(epoch));
    return block;
}

bool ts_epoch_adopt(ts_heap *heap, ts_epoch *epoch, EpochId id, unsigned cls) {
    bool adopted = false;
    ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    /* The allocation that asks goes on with it: ts_heap_share would drop it if the allocator has ended. */
    ts_share *share = ts_heap_find_share(heap, allocator->token);
    if (!share || find_locked(allocator, id) != epoch) return false;
    if (ts_load_relaxed(&epoch->state) == EPOCH_ACTIVE) {
        for (ts_block *b = ts_load_relaxed(&epoch->blocks); b && !adopted; b = next_in_epoch(b)) {
            if (!has_free(b, cls)) continue;
            /* This thread's own other block, adopted earlier, is as good. */
            adopted = ts_load_relaxed(&b->heap) == heap || take_over(heap, share, b, id);
            if (adopted) remember(heap, b, epoch);
        }
    }
    ts_lock_release(ts_epoch_lock(epoch));
    return adopted;
}

/* ---- close, destroy, finish ----------------------------------------------------------------------------- */

/* Caller has the lock. release: partner of make_rolling, which exchanges `rolling` and, if it finds what is written
   here, sees open_id too. */
static void shut_blocks(ts_epoch *epoch, bool kill) {
    for (ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = next_in_epoch(b)) {
        ts_store_relaxed(&b->open_id, TS_ID_NEVER);
        ts_store_release(&b->rolling, 0);
        if (kill)
            ts_block_kill(b); /* from here on nothing in the block is live to anyone who looks */
        else
            ts_block_shut(b);
    }
}

/* Ends blocks that are in no epoch's list any more. A heap that cannot be held ends its block itself. */
static void end_blocks(ts_allocator *allocator, ts_block *block) {
    while (block) {
        ts_block *next = next_in_epoch(block);
        ts_heap *heap = ts_load_acquire(&block->heap);
        bool held = ts_heap_hold(heap);
        if (!held) {
            ts_allocator_pin(allocator);
            ts_heap_condemn(heap, block);
            ts_heap_end_condemned_abandoned(heap);
        } else {
            ts_foreign_drain(heap);
            ts_block_end(heap, block);
            ts_heap_drop(heap);
        }
        block = next;
    }
}

/* The epoch is CLOSED, stale, pinned by nobody, without spans, and its lock is taken; released here. */
static void take_apart(ts_epoch *epoch) {
    ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    ts_block *blocks = detach_blocks(epoch), *dying = epoch->dying;
    epoch->dying = NULL;
    ts_lock_release(ts_epoch_lock(epoch));
    end_blocks(allocator, blocks);
    end_blocks(allocator, dying);
    ts_heap_give_entry(&ts_epochs, TS_TABLE_EPOCH, epoch);
}

/* All that the epoch has, if that is one scope block of this thread, for whose heap nobody waits; NULL: it is another case.
   Caller has the lock. */
TS_ALWAYS_INLINE ts_block *only_block(const ts_epoch *epoch) {
    const ts_heap *heap = ts_thread.heap;
    ts_block *block = ts_load_relaxed(&epoch->blocks);
    if (!block || !block->scope || next_in_epoch(block) || ts_load_relaxed(&block->heap) != heap) return NULL;
    if (epoch->pins != 0 || epoch->spans != 0 || epoch->dying || ts_heap_is_waited_for(heap)) return NULL;
    return block;
}

/* Without the lock, which the caller has, only the exit of a block's thread changes its key, so two stores do what
   shut_blocks does by read-modify-write; release is enough, see ts_slab_next_use. */
TS_ALWAYS_INLINE void kill_only_block(ts_block *block) {
    ts_store_relaxed(&block->open_id, TS_ID_NEVER);
    ts_store_release(&block->key, ts_era(block) + 1);
}

/* The usual end of a domain's epoch, with the lock, which is released then. false: it is another case, nothing was done. */
TS_ALWAYS_INLINE bool kill_own(ts_epoch *epoch) {
    ts_heap *heap = ts_thread.heap;
    ts_block *block = only_block(epoch);
    if (!block) return false;
    kill_only_block(block);
    ts_store_release(&epoch->state, EPOCH_CLOSED);
    ts_store_release(&epoch->entry.id, 0);
    (void)detach_blocks(epoch);
    ts_lock_release(ts_epoch_lock(epoch));
    ts_heap_enter(heap);
    ts_block_end(heap, block);
    ts_heap_leave(heap);
    ts_heap_give_entry(&ts_epochs, TS_TABLE_EPOCH, epoch);
    return true;
}

/* Caller has the lock; released here. Everything is dead before the state or the id says so. */
static void kill_locked(ts_epoch *epoch) {
    ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    TS_PROBE1(epoch__destroy, ts_load_relaxed(&epoch->entry.id));
    if (TS_LIKELY(kill_own(epoch))) return;
    shut_blocks(epoch, true);
    uint32_t spans = ts_span_detach(epoch);
    ts_store_release(&epoch->state, EPOCH_CLOSED);
    ts_store_release(&epoch->entry.id, 0);
    if (epoch->pins > 0) {
        epoch->destroyed = true;
        ts_lock_release(ts_epoch_lock(epoch));
    } else {
        take_apart(epoch);
    }
    ts_span_release_list(allocator, spans);
}

bool ts_epoch_destroy(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = find_locked(allocator, id);
    if (!epoch) return false;
    ts_epoch_destroy_locked(epoch);
    return true;
}

ts_epoch *ts_epoch_find_locked(ts_allocator *allocator, EpochId id) { return find_locked(allocator, id); }

void ts_epoch_destroy_locked(ts_epoch *epoch) {
    uint64_t released = ts_thread.released;
    kill_locked(epoch);
    ts_settle_phase(ts_thread.released - released);
    ts_epoch_settle_noted();
    if (TS_LIKELY(ts_thread.heap != NULL)) ts_heap_limit_blocks(ts_thread.heap);
}

static bool nothing_left(const ts_epoch *epoch) {
    if (ts_load_relaxed(&epoch->span_units) != 0) return false;
    /* closing: whoever set it held the heap, so no slab is on its way into the block. It is read under no hold of the
       heap, hence atomically, and before the count: until it is set, an operation that began before the close can add a
       slab. Once set it stays. */
    for (const ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = next_in_epoch(b))
        if (!ts_load_acquire(&b->flushed) || ts_load_relaxed(&b->slabs) != 0) return false;
    return true;
}

static void look_if_left(void *left, const ts_block *b) {
    if (!ts_load_acquire(&b->flushed) || ts_load_relaxed(&b->slabs) != 0) *(bool *)left = true; /* as in nothing_left */
}

bool ts_epoch_is_over(const ts_epoch *epoch, EpochId id) {
    bool left = ts_load_relaxed(&epoch->span_units) != 0;
    if (left || ts_load_relaxed(&epoch->state) != EPOCH_CLOSING) return false;
    return ts_epoch_read_blocks(epoch, id, look_if_left, &left) && !left;
}

void ts_epoch_finish(ts_epoch *epoch, EpochId id) {
    ts_lock_acquire(ts_epoch_lock(epoch));
    if (id != 0 && ts_load_relaxed(&epoch->entry.id) == id && epoch->pins == 0 &&
        ts_load_relaxed(&epoch->state) == EPOCH_CLOSING && nothing_left(epoch)) {
        kill_locked(epoch);
        return;
    }
    ts_lock_release(ts_epoch_lock(epoch));
}

void ts_epoch_settle(void) {
    if (ts_thread.drained_count > 0) {
        do {
            ts_epoch *epoch = ts_thread.drained[--ts_thread.drained_count];
            if (epoch) ts_epoch_finish(epoch, ts_load_acquire(&epoch->entry.id));
        } while (ts_thread.drained_count > 0);
        if (ts_thread.heap) ts_heap_limit_blocks(ts_thread.heap);
    }
    ts_settle_pending();
}

ts_epoch *ts_epoch_pin(ts_allocator *allocator, EpochId id, ts_block **blocks) {
    ts_epoch *epoch = find_locked(allocator, id);
    if (!epoch) return NULL;
    epoch->pins++;
    *blocks = ts_load_relaxed(&epoch->blocks);
    ts_lock_release(ts_epoch_lock(epoch));
    return epoch;
}

void ts_epoch_unpin(ts_epoch *epoch) {
    ts_lock_acquire(ts_epoch_lock(epoch));
    uint64_t id = ts_load_relaxed(&epoch->entry.id);
    epoch->pins--;
    if (epoch->pins == 0 && epoch->destroyed) {
        take_apart(epoch); /* releases the lock */
        return;
    }
    ts_block *dying = epoch->pins == 0 ? epoch->dying : NULL;
    if (dying) epoch->dying = NULL;
    ts_lock_release(ts_epoch_lock(epoch));
    end_blocks(ts_load_relaxed(&epoch->allocator), dying);
    /* Who found it drained meanwhile could not end it. */
    ts_epoch_finish(epoch, id);
}

/* Takes what is empty in every block; the epoch is pinned. */
static bool flush_block(ts_block *b, uint64_t *scanned, uint64_t *recycled) {
    ts_heap *heap = ts_load_acquire(&b->heap);
    if (!ts_heap_hold(heap)) return false;
    /* The block was shut before the barrier of this hold. */
    bool flush = b->closing != TS_CLOSING;
    b->closing = TS_CLOSING;
    ts_foreign_drain(heap);
    if (flush) *scanned += ts_block_flush(heap, b, recycled);
    ts_heap_drop(heap);
    return true;
}

/* A heap that cannot be held belongs to a thread that lost its processor in the middle of an operation; it has
   moved on by the second or third pass. Else it flushes the block itself: at its next free in the epoch, at its
   exit, in slab_thread_idle; or slab_trim does. */
static void flush_blocks(ts_block *blocks, uint64_t *scanned, uint64_t *recycled) {
    bool missed = true;
    for (unsigned pass = 0; pass < 3 && missed; pass++) {
        missed = false;
        for (ts_block *b = blocks; b; b = next_in_epoch(b))
            if (!flush_block(b, scanned, recycled)) missed = true;
    }
}

bool ts_epoch_close(ts_allocator *allocator, EpochId id) {
    ts_epoch *epoch = find_locked(allocator, id);
    if (!epoch) return false;
    if (ts_load_relaxed(&epoch->state) != EPOCH_ACTIVE) {
        ts_lock_release(ts_epoch_lock(epoch));
        return false;
    }
    uint64_t from = ts_os->wall_ns(), scanned = 0, recycled = 0;
    ts_store_relaxed(&epoch->closed_at_ns, from);
    ts_store_relaxed(&epoch->state, EPOCH_CLOSING);
    epoch->pins++;
    shut_blocks(epoch, false);
    ts_block *blocks = ts_load_relaxed(&epoch->blocks);
    ts_lock_release(ts_epoch_lock(epoch));

    bool record = allocator->settings.record_rss != 0;
    uint64_t before = record ? ts_os->resident_bytes() : 0;
    uint64_t released = ts_thread.released;
    flush_blocks(blocks, &scanned, &recycled);
    ts_settle_phase(ts_thread.released - released);
    uint64_t after = record ? ts_os->resident_bytes() : 0;
    ts_fetch_add_relaxed(&allocator->close_calls, 1);
    ts_fetch_add_relaxed(&allocator->close_scanned, scanned);
    ts_fetch_add_relaxed(&allocator->close_recycled, recycled);
    uint64_t took = ts_os->wall_ns() - from;
    ts_fetch_add_relaxed(&allocator->close_ns, took);
    TS_PROBE4(epoch__close, id, scanned, recycled, took);

    ts_lock_acquire(ts_epoch_lock(epoch));
    ts_store_relaxed(&epoch->rss_before, before);
    ts_store_relaxed(&epoch->rss_after, after);
    ts_lock_release(ts_epoch_lock(epoch));
    ts_epoch_unpin(epoch);
    ts_epoch_settle();
    return true;
}

/* `blocks` come before those that are dying already. */
static void add_dying(ts_epoch *epoch, ts_block *blocks) {
    if (!blocks) return;
    ts_block *last = blocks;
    while (next_in_epoch(last)) last = next_in_epoch(last);
    ts_store_relaxed(&last->epoch_next, epoch->dying);
    epoch->dying = blocks;
}

bool ts_epoch_reset_own(ts_epoch *epoch, uint64_t *units_freed) {
    ts_heap *heap = ts_thread.heap;
    ts_block *block = ts_load_relaxed(&epoch->state) == EPOCH_ACTIVE ? only_block(epoch) : NULL;
    /* With care all that it holds is gone through, which is not for under the lock. */
    if (!block || block->share->allocator->care) return false;
    ts_share *share = block->share;
    uint32_t resets = block->resets;
    *units_freed = ts_load_relaxed(&block->slabs);
    kill_only_block(block);
    (void)detach_blocks(epoch);
    ts_heap_enter(heap);
    ts_block_end(heap, block);
    ts_heap_leave(heap);
    /* Mostly the same block in its next era. Without memory the thread joins later. */
    int before = errno;
    ts_block *next = new_block(heap, share, epoch, ts_load_relaxed(&epoch->entry.id));
    if (next == block) next->resets = resets + 1;
    if (next) remember(heap, next, epoch);
    errno = before;
    return true;
}

bool ts_epoch_reset(ts_allocator *allocator, EpochId id, uint64_t *units_freed) {
    ts_epoch *epoch = find_locked(allocator, id);
    if (!epoch || ts_load_relaxed(&epoch->state) != EPOCH_ACTIVE) {
        if (epoch) ts_lock_release(ts_epoch_lock(epoch));
        errno = ESTALE;
        return false;
    }
    uint64_t units = 0;
    shut_blocks(epoch, true);
    ts_block *blocks = detach_blocks(epoch);
    for (ts_block *b = blocks; b; b = next_in_epoch(b)) units += ts_load_relaxed(&b->slabs);
    uint32_t spans = ts_span_detach(epoch);
    /* Who pins walks these blocks still: dead now, taken apart by the last who unpins. */
    if (epoch->pins > 0) {
        add_dying(epoch, blocks);
        blocks = NULL;
    }
    ts_lock_release(ts_epoch_lock(epoch));
    end_blocks(allocator, blocks);
    uint64_t released = ts_thread.released; /* spans that stay warm; longer ones have gone back */
    ts_span_release_list(allocator, spans);
    *units_freed = units + (ts_thread.released - released);
    return true;
}

static bool is_listed(const ts_block *block) {
    const ts_epoch *epoch = ts_load_relaxed(&block->epoch);
    const ts_block *b = ts_load_relaxed(&epoch->entry.id) != 0 ? ts_load_relaxed(&epoch->blocks) : NULL;
    while (b && b != block) b = next_in_epoch(b);
    for (b = b ? b : epoch->dying; b && b != block;) b = next_in_epoch(b);
    return b != NULL;
}

/* Another thread of the parent was about to show an epoch with its first block, or had taken blocks off an epoch's list to
   end them. There is no such thread in the child. */
static void end_left_behind(ts_heap *heap) {
    ts_block *next;
    if ((ts_load_relaxed(&heap->condemned) || ts_load_relaxed(&heap->ending)) && ts_heap_hold(heap)) {
        ts_heap_end_condemned(heap);
        ts_heap_drop(heap);
    }
    for (ts_block *b = heap->blocks; b; b = next) {
        next = b->heap_next;
        if (is_listed(b) || !ts_heap_hold(heap)) continue;
        ts_foreign_drain(heap);
        ts_block_end(heap, b);
        ts_heap_drop(heap);
    }
}

void ts_epoch_fork_child(void) {
    uint32_t high = ts_table_high(&ts_epochs);
    for (uint32_t i = 1; i < high; i++) {
        ts_epoch *epoch = ts_table_at(&ts_epochs, i);
        if (epoch->pins == 0) continue;
        epoch->pins = 1;
        ts_epoch_unpin(epoch);
    }
    for (ts_heap *heap = ts_heaps(); heap; heap = heap->next)
        if (ts_load_relaxed(&heap->state) != TS_HEAP_LOST) end_left_behind(heap);
}

/* ---- the rolling epoch ------------------------------------------------------------------------------------ */

EpochId ts_epoch_current(ts_allocator *allocator) {
    EpochId id = ts_load_acquire(&allocator->current_epoch);
    if (TS_LIKELY(id != EPOCH_NONE)) return id;
    ts_lock_acquire(&allocator->lock);
    id = ts_load_relaxed(&allocator->current_epoch);
    if (id == EPOCH_NONE) {
        id = ts_epoch_open(allocator, NULL, EPOCH_CHURN, false);
        ts_store_release(&allocator->current_epoch, id);
    }
    ts_lock_release(&allocator->lock);
    return id;
}

EpochId ts_epoch_advance(ts_allocator *allocator) {
    EpochId next = ts_epoch_open(allocator, NULL, EPOCH_CHURN, false);
    if (next == EPOCH_NONE) return EPOCH_NONE;
    ts_lock_acquire(&allocator->lock);
    EpochId old = ts_load_relaxed(&allocator->current_epoch);
    ts_store_release(&allocator->current_epoch, next);
    ts_lock_release(&allocator->lock);
    if (old != EPOCH_NONE) ts_epoch_close(allocator, old);
    return next;
}

void ts_epoch_destroy_all(ts_allocator *allocator) {
    atomic_thread_fence(memory_order_seq_cst); /* partner: ts_epoch_open */
    uint32_t high = ts_table_high(&ts_epochs);
    for (uint32_t i = 1; i < high; i++) {
        ts_epoch *epoch = ts_table_at(&ts_epochs, i);
        uint64_t id = ts_load_acquire(&epoch->entry.id);
        if (id != 0 && ts_load_relaxed(&epoch->allocator) == allocator) ts_epoch_destroy(allocator, id);
    }
}

void ts_epoch_fork_prepare(void) {
    for (unsigned i = 0; i < STRIPES; i++) ts_lock_acquire_for_fork(&stripes[i].lock);
}

void ts_epoch_fork_done(void) {
    for (unsigned i = STRIPES; i-- > 0;) ts_lock_release_for_fork(&stripes[i].lock);
}
