/*
 * A thread's shares of allocators.
 *
 * What could go wrong: an allocator ends while a thread makes its share of it, and the share is of an allocator that
 * is no more. It is not. The thread first pins the allocator's record, under the id that it was given, and the pin
 * goes with the share. The thread itself, or a holder of its heap, drops shares of allocators that have ended.
 */
/* Modelled in tests/model: record. */
#include "supply/share.h"
#include "base/base.h"
#include "supply/purge.h"

#include "memtools/memtools.h"
#include "os/os.h"
#include "supply/piece.h"
#include "supply/retained.h"
#include "supply/span.h"

#include <errno.h>

/* In no list. NULL with errno. */
static ts_share *make_share(ts_heap *heap, ts_allocator *allocator, uintptr_t token) {
    ts_share *made = ts_lines_take(TS_LINES_SHARE, sizeof *made);
    if (!made) return ts_fail_null(ENOMEM);
    if (token == 0 || !ts_allocator_pin_use(allocator, token)) { /* until the share is dropped */
        ts_lines_give(TS_LINES_SHARE, made);
        return ts_fail_null(EINVAL);
    }
    made->allocator = allocator;
    made->token = token;
    ts_share_set_slow(made);
    made->care = allocator->care != 0 || ts_care_tools;
    made->looks = made->care || allocator->settings.numa != SLAB_NUMA_OFF;
    made->open_key = allocator->care ? 0 : ts_share_key(made);
    made->index = ts_allocator_index(allocator);
    made->heap = heap;
    return made;
}

static void list(ts_allocator *allocator, ts_share *share) {
    share->allocator_next = ts_load_relaxed(&allocator->shares);
    ts_store_release(&allocator->shares, share); /* whole, for threads that walk the list without the lock */
}

/* Shows the share to threads that go through the allocator's shares. */
static void show_share(ts_allocator *allocator, ts_share *made) {
    ts_lock_acquire(&allocator->lock);
    list(allocator, made);
    ts_lock_release(&allocator->lock);
}

/* The lists of all allocators anew: a thread that was about to show a share is not here. */
void ts_shares_fork_child(void) {
    for (const ts_heap *h = ts_heaps(); h; h = h->next)
        for (const ts_share *s = h->shares; s; s = s->heap_next) ts_store_relaxed(&s->allocator->shares, NULL);
    for (const ts_heap *h = ts_heaps(); h; h = h->next)
        for (ts_share *s = h->shares; s; s = s->heap_next) list(s->allocator, s);
}

ts_share *ts_heap_share(ts_heap *heap, ts_allocator *allocator) {
    uintptr_t token = ts_load_acquire(&allocator->record.id);
    /* The usual case. No other thread adds or drops a share of a heap whose thread lives. */
    ts_share *share = heap->shares;
    if (TS_LIKELY(share && token != 0 && share->token == token)) return share;
    ts_heap_enter(heap);
    share = ts_heap_find_share(heap, token);
    if (!share) ts_heap_drop_dead_shares(heap);
    ts_heap_leave(heap);
    if (share) return share;
    share = make_share(heap, allocator, token);
    if (!share) return NULL;
    ts_heap_enter(heap);
    share->heap_next = heap->shares;
    heap->shares = share;
    ts_heap_leave(heap);
    show_share(allocator, share);
    return share;
}

/* Any thread may add a share of such a heap, or drop one of an allocator that has ended, but not while this thread is
   a reader. So each share in the heap's list gets into the allocator's. */
bool ts_heap_share_of_home(ts_heap *home, ts_allocator *allocator) {
    uintptr_t token = ts_load_acquire(&allocator->record.id);
    if (token == 0 || !ts_allocator_read_begin(allocator, token)) return false;
    ts_share *share = make_share(home, allocator, token);
    bool made = share != NULL, added = made && ts_heap_hold(home);
    if (added) {
        ts_heap_drop_dead_shares(home);
        added = !ts_heap_find_share(home, token);
        if (added) {
            share->heap_next = home->shares;
            home->shares = share;
        }
        ts_heap_drop(home);
    }
    if (added) {
        show_share(allocator, share);
    } else if (made) {
        ts_lines_give(TS_LINES_SHARE, share);
        ts_allocator_unpin(allocator);
    }
    ts_allocator_read_end(allocator);
    return made;
}

void ts_share_set_slow(ts_share *share) {
    const ts_settings *settings = &share->allocator->settings;
    share->slow[false] = ts_load_relaxed(&share->allocator->sampled) ? TS_SLOW_COUNTED : 0;
    if (settings->hints) share->slow[false] |= TS_SLOW_ALWAYS;
    share->slow[true] = share->slow[false];
    if (settings->guard_spans) share->slow[true] |= TS_SLOW_ALWAYS;
    share->stack_left = 0;
}

uint64_t ts_share_give_retained(ts_share *share) {
    ts_allocator *a = share->allocator;
    ts_lock_acquire(&a->retained_lock);
    uint64_t units = ts_load_relaxed(&share->retained.count);
    ts_retained_splice(&a->retained, &share->retained);
    units += ts_share_give_spans(share);
    units += ts_share_give_pieces(share);
    ts_lock_release(&a->retained_lock);
    return units;
}

void ts_heap_drop_dead_shares(ts_heap *heap) {
    for (ts_share **at = &heap->shares; *at;) {
        ts_share *share = *at;
        /* seq_cst: see ts_allocator_read_begin */
        if (ts_load_seq(&share->allocator->record.id) == share->token || share->blocks ||
            ts_load_seq(&share->allocator->readers) != 0) {
            at = &share->heap_next;
            continue;
        }
        *at = share->heap_next;
        (void)ts_share_give_retained(share);
        ts_allocator *allocator = share->allocator;
        if (ts_thread.share_key == ts_share_key(share)) ts_heap_unbind();
        for (unsigned i = 0; i < TS_RECENT_SHARES; i++)
            if (ts_load_relaxed(&heap->recent[i]) == share) ts_store_relaxed(&heap->recent[i], NULL);
        if (ts_load_relaxed(&share->past)) ts_lines_give(TS_LINES_PAST, ts_load_relaxed(&share->past));
        if (ts_load_relaxed(&share->brief)) ts_lines_give(TS_LINES_BRIEF, ts_load_relaxed(&share->brief));
        ts_lines_give(TS_LINES_SHARE, share);
        ts_allocator_unpin(allocator);
    }
}

/* The thread has come to another node. The units that it retains are mostly of the home that it wanted before. */
static void leave_home(ts_share *share, unsigned home) {
    ts_heap *heap = ts_thread.heap;
    ts_heap_enter(heap);
    uint64_t given = ts_share_give_retained(share);
    share->home = (uint8_t)home;
    ts_heap_leave(heap);
    ts_note_retained(share->allocator, given);
}

unsigned ts_share_choose_home(ts_allocator *allocator, ts_share *share, const ts_account *account) {
    if (account && ts_load_relaxed(&account->bound) != 0) return ts_load_relaxed(&account->bound) - 1u;
    unsigned home = ts_nodes_by_option(allocator);
    if (share && TS_UNLIKELY(share->home != home)) leave_home(share, home);
    return home;
}
