/*
 * Parents and children of domains (tree.h has the invariants).
 *
 * What could go wrong: a child is added to a parent that is ending, or is ended from two sides, or there is a circle.
 * It does not. All links are changed and followed under one lock. A domain that ends is busy, and no child is added
 * to a busy one. The end of a domain takes it out of the tree before its id is over.
 */
/* Modelled in tests/model: enter. */
#include "domain/tree.h"
#include "epoch/epoch.h"

#include "domain/domain_parts.h"

#include <errno.h>

ts_lock ts_tree_lock; /* rank TREE */

/* One count for all threads. A thread sees its own additions, and those that another thread made before it handed a
   domain over (release and acquire of the owner). No other order is needed. */
static _Atomic uint64_t events;

uint64_t ts_domain_next_event(void) { return ts_fetch_add_relaxed(&events, 1) + 1; }
uint64_t ts_domain_last_event(void) { return ts_load_relaxed(&events); }

void ts_tree_init(void) { ts_lock_init(&ts_tree_lock, TS_RANK_TREE); }

static ts_domain *domain_of(const ts_kin *kin) {
    return ts_table_of_strided(&ts_domains, kin->domain, TS_DOMAIN_STRIDE);
}

/* The record of kin of a domain that may have ended. Caller has the lock. */
static ts_kin *kin_of(uint64_t id) {
    const ts_domain *d = ts_domain_find(id);
    ts_kin *kin = d ? ts_load_acquire(&d->kin) : NULL;
    return kin && kin->domain == id ? kin : NULL;
}

/* Holds the epoch's lock: so the domain has not ended, and an end that comes next sees `kin`. */
static bool set_kin(ts_domain *d, uint64_t id, ts_kin *kin) {
    ts_epoch *epoch = ts_domain_lock(d);
    bool same = ts_load_relaxed(&d->record.id) == id;
    if (same) ts_store_release(&d->kin, kin);
    ts_epoch_release(epoch);
    return same;
}

ts_kin *ts_tree_kin(uint64_t id) {
    ts_domain *d = ts_domain_find(id);
    ts_kin *made = d ? ts_lines_take(TS_LINES_KIN, sizeof *made) : NULL;
    if (!made) {
        errno = d ? ENOMEM : EINVAL;
        return NULL;
    }
    made->domain = id;
    ts_lock_acquire(&ts_tree_lock);
    ts_kin *kin = kin_of(id);
    if (!kin && set_kin(d, id, made)) {
        kin = made;
        made = NULL;
    }
    ts_lock_release(&ts_tree_lock);
    if (made) ts_lines_give(TS_LINES_KIN, made);
    if (!kin) errno = EINVAL;
    return kin;
}

static void take_out(ts_kin *kin) {
    if (!kin->parent) return;
    if (kin->newer)
        kin->newer->older = kin->older;
    else
        kin->parent->child = kin->older;
    if (kin->older) kin->older->newer = kin->newer;
    kin->parent = kin->older = kin->newer = NULL;
}

static void put_in(ts_kin *kin, ts_kin *parent) {
    kin->parent = parent;
    kin->newer = NULL;
    kin->older = parent->child;
    if (kin->older) kin->older->newer = kin;
    parent->child = kin;
    kin->born = ts_domain_next_event();
}

/* Whether it is `above`, or below it. Caller has the lock. */
static bool is_below(const ts_kin *kin, const ts_kin *above) {
    while (kin && kin != above) kin = kin->parent;
    return kin != NULL;
}

static bool is_busy(uint64_t id) {
    const ts_domain *d = ts_domain_find(id);
    return d && ts_load_acquire(&d->busy) != TS_QUIET;
}

/* A domain gets busy under its epoch's lock alone, so it may do so meanwhile. Then it ends with the child that it
   gets here: the end looks for children under this lock until there is none. */
int ts_tree_link(uint64_t child, uint64_t parent, bool now) {
    int error = 0;
    ts_lock_acquire(&ts_tree_lock);
    ts_kin *kin = kin_of(child), *above = parent ? kin_of(parent) : NULL;
    if (!kin || (parent && !above) || (above && is_below(above, kin)))
        error = EINVAL;
    else if (is_busy(child) || (parent && is_busy(parent)))
        error = ESTALE;
    if (!error && now) {
        take_out(kin);
        if (above) put_in(kin, above);
    }
    ts_lock_release(&ts_tree_lock);
    return error;
}

void ts_tree_wait(void) {
    ts_lock_acquire(&ts_tree_lock);
    ts_lock_release(&ts_tree_lock);
}

uint64_t ts_tree_owner(const ts_domain *d, uint64_t id) {
    for (;;) {
        /* acquire: partners are unmark, and last_owner, which comes after the id is over */
        uint64_t owner = ts_load_acquire(&d->owner);
        if (TS_LIKELY(owner != TS_OWNER_ENDING) || ts_load_relaxed(&d->record.id) != id) return owner;
        ts_tree_wait();
    }
}

uint64_t ts_tree_parent(uint64_t id) {
    const ts_domain *d = ts_domain_find(id);
    if (!d || !ts_load_relaxed(&d->kin)) return 0;
    ts_lock_acquire(&ts_tree_lock);
    const ts_kin *kin = kin_of(id);
    uint64_t parent = kin && kin->parent ? kin->parent->domain : 0;
    ts_lock_release(&ts_tree_lock);
    return parent;
}

uint64_t ts_tree_leaf(uint64_t id, uint64_t from, uint64_t after) {
    ts_lock_acquire(&ts_tree_lock);
    const ts_kin *root = kin_of(id), *top = root ? root->child : NULL;
    if (top && top->born <= after) top = NULL;
    const ts_kin *kin = top && from ? kin_of(from) : NULL;
    if (!kin || !is_below(kin, top)) kin = top;
    while (kin && kin->child) kin = kin->child;
    uint64_t leaf = kin ? kin->domain : 0;
    ts_lock_release(&ts_tree_lock);
    return leaf;
}

void ts_tree_detach(uint64_t id) {
    ts_lock_acquire(&ts_tree_lock);
    ts_kin *kin = kin_of(id);
    if (kin) take_out(kin);
    ts_lock_release(&ts_tree_lock);
}

bool ts_tree_is_of(uint64_t id, uint64_t above) {
    ts_lock_acquire(&ts_tree_lock);
    const ts_kin *kin = kin_of(id), *top = kin ? kin_of(above) : NULL;
    bool is = kin && top && is_below(kin, top);
    ts_lock_release(&ts_tree_lock);
    return is;
}

void ts_tree_unlink(ts_domain *d) {
    ts_kin *kin = ts_load_relaxed(&d->kin);
    if (!kin) return;
    while (kin->child) take_out(kin->child);
    take_out(kin);
    ts_store_relaxed(&d->kin, NULL);
    ts_lines_give(TS_LINES_KIN, kin);
}

ts_domain *ts_tree_next(const ts_domain *root, const ts_domain *d) {
    const ts_kin *top = ts_load_relaxed(&root->kin), *kin = ts_load_relaxed(&d->kin);
    if (!kin) return NULL;
    if (kin->child) return domain_of(kin->child);
    while (kin != top && !kin->older) kin = kin->parent;
    return kin == top ? NULL : domain_of(kin->older);
}

/* ---- hand over ------------------------------------------------------------------------------------------------ */

bool ts_tree_may_go(uint64_t id) {
    ts_lock_acquire(&ts_tree_lock);
    const ts_kin *kin = kin_of(id);
    bool may = !kin || !kin->parent;
    const ts_domain *root = ts_domain_find(id);
    for (const ts_domain *d = root; d && may; d = ts_tree_next(root, d))
        if (!ts_load_relaxed(&d->shared))
            may = ts_load_relaxed(&d->inside) == 0 && ts_load_relaxed(&d->busy) == TS_QUIET;
    ts_lock_release(&ts_tree_lock);
    return may;
}

/* Of a domain in a tree. */
static uint64_t nobody_of(const ts_domain *d) { return ts_domain_nobody(ts_load_relaxed(&d->record.id)); }

/* The domain itself keeps its owner; the caller changes that. */
void ts_tree_disown(uint64_t id, uint64_t serial) {
    ts_lock_acquire(&ts_tree_lock);
    const ts_domain *root = ts_domain_find(id);
    for (ts_domain *d = root ? ts_tree_next(root, root) : NULL; d; d = ts_tree_next(root, d)) {
        uint64_t owner = serial;
        (void)ts_epoch_disown_blocks(ts_load_relaxed(&d->allocator), ts_load_relaxed(&d->epoch));
        /* release: as in ts_domain_hand_over */
        (void)atomic_compare_exchange_strong_explicit(&d->owner, &owner, nobody_of(d), memory_order_release,
                                                      memory_order_relaxed);
    }
    ts_lock_release(&ts_tree_lock);
}

void ts_tree_adopt(uint64_t id, uint64_t serial) {
    ts_lock_acquire(&ts_tree_lock);
    const ts_domain *root = ts_domain_find(id);
    for (ts_domain *d = root ? ts_tree_next(root, root) : NULL; d; d = ts_tree_next(root, d)) {
        uint64_t nobody = nobody_of(d);
        (void)atomic_compare_exchange_strong_explicit(&d->owner, &nobody, serial, memory_order_acq_rel,
                                                      memory_order_relaxed);
    }
    ts_lock_release(&ts_tree_lock);
}
