/* Domains with parents and children: made, moved, and ended as a tree, also by another thread than theirs. */
/* Modelled in tests/model: enter. */
#include "domain/domain_parts.h"
#include "domain/tree.h"
#include "epoch/epoch.h"

#include <errno.h>

static EpochId epoch_of(uint64_t id) { return ts_domain_read(id).epoch; }

/* ---- children ------------------------------------------------------------------------------------------------- */

uint64_t ts_domain_create_child(uint64_t parent, const char *label, unsigned flags) {
    const ts_domain *p = ts_domain_mine(parent, "epoch_domain_create_child");
    if (!p) return 0;
    ts_allocator *allocator = ts_load_relaxed(&p->allocator);
    uintptr_t token = ts_load_relaxed(&p->token);
    EpochId above = ts_load_relaxed(&p->epoch);
    bool shared = ts_load_relaxed(&p->shared);
    if (!ts_domain_is_still(p, parent) || ((flags & EPOCH_DOMAIN_SHARED) && !shared)) return ts_fail(EINVAL);
    const ts_epoch *e = ts_epoch_find(allocator, above);
    if (!e || ts_load_relaxed(&e->state) != EPOCH_ACTIVE) return ts_fail(ESTALE);
    uint64_t id = ts_domain_open(allocator, token, label, flags | (shared ? EPOCH_DOMAIN_SHARED : 0));
    if (!id) return 0;
    EpochId below = epoch_of(id);
    int error = ts_tree_kin(id) && ts_tree_kin(parent) && ts_limit_link(allocator, below, above)
                    ? ts_tree_link(id, parent, true)
                    : errno;
    if (!error) return id;
    ts_domain_destroy(id);
    errno = error;
    return 0;
}

bool ts_domain_move(uint64_t child, uint64_t parent) {
    const ts_domain *c = ts_domain_mine(child, "epoch_domain_move");
    const ts_domain *p = c && parent ? ts_domain_mine(parent, "epoch_domain_move") : NULL;
    if (!c || (parent && !p)) return false;
    if (p && (ts_load_relaxed(&c->token) != ts_load_relaxed(&p->token) ||
              ts_load_relaxed(&c->shared) != ts_load_relaxed(&p->shared)))
        return ts_fail(EINVAL);
    if (!parent && !ts_load_relaxed(&c->kin)) return true;
    if (!ts_tree_kin(child) || (parent && !ts_tree_kin(parent))) return false;
    /* Its memory is charged at its new place before it is there, so nothing can fail in between. */
    ts_allocator *allocator = ts_load_relaxed(&c->allocator);
    EpochId epoch = ts_load_relaxed(&c->epoch), before = epoch_of(ts_tree_parent(child));
    int error = ts_tree_link(child, parent, false);
    if (!error && !ts_limit_link(allocator, epoch, epoch_of(parent))) error = errno;
    if (!error && (error = ts_tree_link(child, parent, true)) != 0) (void)ts_limit_link(allocator, epoch, before);
    return error ? ts_fail(error) : true;
}

void ts_domain_end_children(uint64_t id, uint64_t after) {
    uint64_t from = 0;
    for (uint64_t leaf; (leaf = ts_tree_leaf(id, from, after)) != 0;) {
        from = ts_tree_parent(leaf);
        ts_domain *d = ts_domain_find(leaf);
        if (d && ts_domain_make_busy(d, leaf, TS_ENDS)) {
            ts_domain_finish(d, leaf);
        } else { /* another thread ends it, or empties it and then ends it */
            if (d) (void)ts_domain_defer_end(d, leaf);
            ts_tree_detach(leaf);
        }
    }
}

/* ---- an end with an answer --------------------------------------------------------------------------------------- */

/* Tries to make a domain TRIED. Returns 0 or an error. Caller has the lock of the tree. */
static int mark(ts_domain *d, uint64_t id) {
    uint64_t me = ts_thread.serial;
    ts_epoch *epoch = ts_domain_lock(d);
    bool same = ts_load_relaxed(&d->record.id) == id;
    bool quiet = same && ts_load_relaxed(&d->busy) == TS_QUIET;
    int error = !same ? EINVAL : quiet ? 0 : d->busy_by == me ? EPERM : EBUSY;
    if (quiet) {
        d->busy_by = me;
        d->busy_level = ts_domain_level();
        /* acquire: partner of the release in ts_domain_hand_over. An exchange, because a thread may be taking the
           domain over. */
        uint64_t owner = ts_load_acquire(&d->owner);
        while (!ts_load_relaxed(&d->shared) && owner != me &&
               !atomic_compare_exchange_weak_explicit(&d->owner, &owner, TS_OWNER_ENDING, memory_order_acq_rel,
                                                      memory_order_acquire)) {
        }
        d->owner_before = owner;
        ts_store_seq(&d->busy, TS_TRIED); /* partner: count_in_shared */
    }
    ts_epoch_release(epoch);
    return error;
}

/* Takes TRIED away. The domain is MARKED for this thread until its turn comes, or is as it was before. The owner is
   stored last: a thread that finds the owner finds `busy`, too. */
static void unmark(ts_domain *d, bool ends) {
    ts_epoch *epoch = ts_domain_lock(d);
    uint64_t owner = ends ? ts_thread.serial : d->owner_before;
    if (!ends) d->owner_before = 0;
    ts_store_release(&d->busy, ends ? TS_MARKED : TS_QUIET);
    /* release: as in ts_domain_hand_over; partner of ts_tree_owner */
    if (!ts_load_relaxed(&d->shared)) ts_store_release(&d->owner, owner);
    ts_epoch_release(epoch);
}

static bool is_another_inside(const ts_domain *d) {
    uint64_t id = ts_load_relaxed(&d->record.id);
    uint32_t own = 0;
    for (const ts_domain_scope *s = ts_thread.domain; s; s = s->outer) own += s->domain == id;
    return ts_domain_inside(d) != own;
}

/* Marks a domain and all below it under one hold of the lock, so that none of them ends, and none is added. */
static int mark_all(ts_domain *d, uint64_t id) {
    ts_lock_acquire(&ts_tree_lock);
    int error = mark(d, id);
    ts_domain *end = d; /* the domains before it are marked; NULL: all */
    while (!error && (end = ts_tree_next(d, end)) != NULL) error = mark(end, ts_load_relaxed(&end->record.id));
    if (!error) ts_barrier_or_wait(); /* partner: count_in_own */
    for (const ts_domain *x = d; x && !error; x = ts_tree_next(d, x))
        if (is_another_inside(x)) error = EBUSY;
    for (ts_domain *x = d; x != end; x = ts_tree_next(d, x)) unmark(x, !error);
    ts_lock_release(&ts_tree_lock);
    return error;
}

/* An end by the owner: no other thread can be inside of the domain, or of a child, which has this owner, too. It
   fails where another thread is ending the domain. */
static bool end_own(ts_domain *d, uint64_t id) {
    if (ts_load_relaxed(&d->shared) || ts_load_relaxed(&d->owner) != ts_thread.serial) return false;
    if (!ts_domain_make_busy(d, id, TS_ENDS)) return false;
    ts_domain_finish(d, id);
    return true;
}

bool ts_domain_end_other(uint64_t id) {
    ts_domain *d = ts_domain_find(id);
    if (!d) return ts_domain_refuse("epoch_domain_end", id, NULL, EINVAL);
    if (!ts_heap_mine()) return false;
    if (ts_domain_is_in_cleanup(id)) return ts_domain_refuse("epoch_domain_end", id, TS_IS_ENDING, EPERM);
    if (end_own(d, id)) return true;
    int error = mark_all(d, id);
    if (error) return ts_fail(error);
    if (ts_domain_make_busy(d, id, TS_ENDS)) ts_domain_finish(d, id);
    return true;
}
