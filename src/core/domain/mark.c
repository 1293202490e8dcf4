/*
 * Marks: places to which a scope domain of one thread can go back (cache/rewind.c). A domain keeps its newest 32
 * marks. Each has a number that no other mark has. So a mark of another domain, a mark of before a reset, and one
 * that was rewound past are refused.
 */
/*
 * Marks of a domain, and going back to one. A mark is a number. A list in the domain's record of kin, newest first,
 * has its meaning.
 *
 * What could go wrong: a mark is taken for another place: one of another domain, of before a reset, or one that was
 * rewound past. It is not. Each mark has a number that no other mark has, and only marks in the domain's list count.
 * A rewind, a reset and an end take marks off the list. A domain with marks belongs to one thread alone, so nothing
 * happens between the look and the use.
 */
#include "domain/domain.h"
#include "epoch/blocks.h"
#include "epoch/epoch.h"

#include "cache/cache.h"
#include "domain/domain_parts.h"
#include "domain/tree.h"
#include "object/object.h"

#include <errno.h>

#define MARKS_MOST 32u /* the oldest mark makes room for another one */

/* Only the domain's owner touches it. */
typedef struct ts_mark {
    struct ts_mark *older;
    uint64_t use;    /* no other mark has it */
    uint64_t events; /* events that came before it: children born and cleanups registered later are newer */
    ts_scope_block *block;
    ts_place place;
    uint64_t spans; /* spans allocated in the epoch before it */
} ts_mark;
_Static_assert(sizeof(ts_mark) <= 64, "one kind of line serves cleanups and marks");

static _Atomic uint64_t uses; /* a count; no order needed */

/* ---- the list --------------------------------------------------------------------------------------------------- */

/* The thread's own open block, if the epoch has nothing but this block and spans. NULL: errno is EINVAL or ESTALE. */
static ts_scope_block *only_block(const ts_domain *d) {
    EpochId id = ts_load_relaxed(&d->epoch);
    ts_epoch *epoch = ts_epoch_find_locked(ts_load_relaxed(&d->allocator), id);
    errno = ESTALE;
    if (!epoch) return NULL;
    ts_block *block = NULL;
    if (ts_load_relaxed(&epoch->state) == EPOCH_ACTIVE) {
        block = ts_load_relaxed(&epoch->blocks);
        bool alone = block && block->scope && !ts_epoch_next_block(block) && !epoch->dying &&
                     ts_load_relaxed(&block->heap) == ts_thread.heap;
        if (!alone) block = NULL;
        errno = EINVAL;
    }
    ts_epoch_release(epoch);
    return block ? ts_scope(block) : NULL;
}

static bool is_open_in(const ts_mark *m, const ts_heap *heap) {
    return ts_load_relaxed(&m->block->b.heap) == heap && ts_load_relaxed(&m->block->b.open_id) != TS_ID_NEVER;
}

/* Drops the mark's anchor. If the mark's block has ended since, the anchor exists no more; the close of an epoch
   drops all of them. Caller: the owner. The block may still belong to the thread that handed the domain over. */
static void drop_anchor(ts_mark *m) {
    ts_heap *heap = ts_load_acquire(&m->block->b.heap);
    if (heap == ts_thread.heap)
        ts_heap_enter(heap);
    else if (!heap || !ts_heap_hold(heap))
        return;
    if (is_open_in(m, heap)) ts_scope_forget(m->block, &m->place);
    ts_heap_drop(heap);
}

/* anchored: with the mark's anchor. */
static void drop(ts_mark **at, bool anchored) {
    ts_mark *m = *at;
    *at = m->older;
    if (anchored) drop_anchor(m);
    ts_lines_give(TS_LINES_CLEANUP, m);
}

void ts_mark_drop_all(const ts_domain *d, bool anchored) {
    ts_kin *kin = ts_load_relaxed(&d->kin);
    while (kin && kin->marks) drop(&kin->marks, anchored);
}

static void make_room(ts_kin *kin) {
    ts_mark **at = &kin->marks;
    for (unsigned newer = 1; newer < MARKS_MOST && *at; newer++) at = &(*at)->older;
    if (*at) drop(at, true);
}

static ts_mark *find(const ts_kin *kin, SlabMark mark, uint32_t *newer_in_slab) {
    *newer_in_slab = 0;
    ts_mark *m = kin ? kin->marks : NULL;
    while (m && m->use != mark.use) m = m->older;
    if (!m || mark.place != ((uint64_t)m->place.unit << 32 | m->place.entry)) return NULL;
    for (const ts_mark *n = kin->marks; n != m; n = n->older)
        *newer_in_slab += n->place.unit == m->place.unit && n->place.tag == m->place.tag;
    return m;
}

/* ---- mark ------------------------------------------------------------------------------------------------------ */

static ts_domain *markable(uint64_t id, const char *call) {
    ts_domain *d = ts_domain_mine(id, call);
    if (!d) return NULL;
    const ts_epoch *epoch = ts_epoch_find(ts_load_relaxed(&d->allocator), ts_load_relaxed(&d->epoch));
    if (!ts_load_relaxed(&d->shared) && epoch && (ts_load_relaxed(&epoch->flags) & EPOCH_SCOPE)) return d;
    (void)ts_domain_refuse(call, id, "marks are for scope domains of one thread", EINVAL);
    return NULL;
}

/* Makes 16 bytes of the domain the mark's anchor. */
static bool anchor(ts_domain *d, ts_mark *m) {
    ts_heap *heap = ts_thread.heap;
    for (;;) {
        void *p = ts_alloc(ts_load_relaxed(&d->token), 16, ts_load_relaxed(&d->epoch));
        if (!p) return false;
        m->block = only_block(d);
        if (!m->block) {
            int error = errno;
            (void)ts_free(ts_load_relaxed(&d->token), p, TS_ANY_GENERATION);
            return ts_fail(error);
        }
        ts_heap_enter(heap);
        bool open = ts_load_relaxed(&m->block->b.open_id) != TS_ID_NEVER;
        bool done = open && ts_scope_anchor(m->block, p, &m->place);
        ts_heap_leave(heap);
        if (done) return true;
        if (!open) return ts_fail(ESTALE);
        /* The object is a span, because the allocator guards objects, or the domain was reset in between. */
        (void)ts_free(ts_load_relaxed(&d->token), p, TS_ANY_GENERATION);
    }
}

bool ts_mark_make(uint64_t id, SlabMark *out) {
    int before = errno;
    ts_domain *d = out ? markable(id, "epoch_domain_mark") : NULL;
    if (!out) return ts_fail(EINVAL);
    if (!d) return false;
    ts_kin *kin = ts_tree_kin(id);
    ts_mark *m = kin ? ts_lines_take(TS_LINES_CLEANUP, sizeof(ts_domain_scope)) : NULL;
    if (!m) return kin ? ts_fail(ENOMEM) : false;
    if (!anchor(d, m)) {
        int error = errno;
        ts_lines_give(TS_LINES_CLEANUP, m);
        return ts_fail(error);
    }
    make_room(kin);
    m->use = ts_fetch_add_relaxed(&uses, 1) + 1;
    m->events = ts_domain_last_event();
    m->spans = ts_span_count(ts_load_relaxed(&d->allocator), ts_load_relaxed(&d->epoch));
    m->older = kin->marks;
    kin->marks = m;
    out->place = (uint64_t)m->place.unit << 32 | m->place.entry;
    out->use = m->use;
    errno = before;
    return true;
}

/* ---- rewind ---------------------------------------------------------------------------------------------------- */

/* Whether it is possible to go back to the mark. false: the epoch has ended or was closed since. */
static bool is_there(const ts_mark *m) {
    ts_heap *heap = ts_thread.heap;
    ts_heap_enter(heap);
    bool is = is_open_in(m, heap) && ts_scope_is_there(m->block, &m->place);
    ts_heap_leave(heap);
    return is;
}

/* Goes back to it. The newer marks leave the list with their anchors, so a child of fork has both or neither: an anchor
   that was taken away twice would be an object's place in the count of its slab. */
static bool go_back(ts_kin *kin, ts_mark *m, uint32_t anchors) {
    ts_heap *heap = ts_thread.heap;
    ts_heap_enter(heap);
    ts_foreign_drain(heap);
    ts_mark *newer = kin->marks;
    bool done = is_open_in(m, heap) && ts_scope_rewind(m->block, &m->place, anchors);
    if (done) kin->marks = m;
    ts_heap_leave(heap);
    while (done && newer != m) drop(&newer, false);
    return done;
}

bool ts_mark_rewind(uint64_t id, SlabMark mark) {
    int entry = errno;
    (void)ts_domain_is_in_cleanup(id); /* of one that was left it is found out */
    ts_domain *d = markable(id, "epoch_domain_rewind");
    if (!d) return false;
    uint32_t anchors;
    ts_kin *kin = ts_load_acquire(&d->kin);
    ts_mark *m = find(kin, mark, &anchors);
    if (!m) return ts_fail(EINVAL);
    /* Before anything has happened: another thread has objects in its epoch; it is closed; or the mark's place is no
       more. */
    if (only_block(d) != m->block || !is_there(m)) return ts_fail(EINVAL);
    if (!ts_domain_make_busy(d, id, TS_RESETS)) return ts_domain_refuse("epoch_domain_rewind", id, TS_IS_ENDING, EPERM);
    ts_domain_end_children(id, m->events);
    ts_domain_run_cleanups(d, m->events);
    /* The cleanups may have made marks. */
    m = find(kin, mark, &anchors);
    ts_allocator *allocator = ts_load_relaxed(&d->allocator);
    bool done = m && only_block(d) == m->block && go_back(kin, m, anchors);
    if (done) ts_span_release_newer(allocator, ts_load_relaxed(&d->epoch), m->spans);
    (void)ts_domain_make_quiet(d); /* no thread leaves the end of such a domain to this one */
    ts_epoch_run_deferred();
    errno = done ? entry : EINVAL;
    return done;
}
