/*
 * Parents and children of domains. A domain that ever had either has a record of kin; all records are guarded by one lock, which no
 * allocation, no entering and no usual end of a domain takes, unless another thread tries to end the same domain just then.
 *
 *  1. Kin of one allocator; the domains of a tree are of one thread, or all shared. There is no circle.
 *  2. A record is made before it is linked, and goes with its domain: who ends that unlinks it, under the lock, before the id is over.
 *     So while the lock is held, a record that is found in a tree is of a domain that has not ended.
 *  3. `kin` of a domain is written with this lock and its epoch's, or before it can be found: the end that looks at it under
 *     either sees it.
 *  4. Who ends a domain ends its children first, newest first, and none is added to one that is busy.
 *
 * A tree that another thread ends (ts_domain_end, domain_tree.c) is TRIED first, and then MARKED or QUIET again, all of it under one hold of the
 * lock.
 */
#ifndef TS_DOMAIN_TREE_H
#define TS_DOMAIN_TREE_H

#include "domain/domain.h"

typedef struct ts_kin {
    uint64_t domain; /* id */
    struct ts_kin *parent;
    struct ts_kin *child;         /* newest first */
    struct ts_kin *older, *newer; /* siblings */
    uint64_t born;                /* the event with which its parent got it: for marks */
    struct ts_mark *marks;        /* owner only, as the next: newest first (mark.h) */
    uint32_t mark_count;
} ts_kin;
_Static_assert(sizeof(ts_kin) <= 64, "one line");

extern TS_HIDDEN ts_lock ts_tree_lock;

void ts_tree_init(void);
/* The domain's record, made if it has none. NULL: no memory, or the domain has ended. Holds nothing. */
ts_kin *ts_tree_kin(uint64_t domain);
/* Makes the first a child of the second. 0 or errno: EINVAL no such domains, a circle; ESTALE one is ending. parent 0: of none. */
int ts_tree_link(uint64_t child, uint64_t parent);
/* Whose a domain is: ENDING only if its id is over. Waits for another thread that finds out whether it can end the domain. Holds nothing. */
uint64_t ts_tree_owner(const ts_domain *d, uint64_t id);
/* Each domain that is TRIED now is so no more. Holds nothing. */
void ts_tree_wait(void);
/* What it would answer. */
int ts_tree_may_link(uint64_t child, uint64_t parent);
/* 0: none, or no such domain. */
uint64_t ts_tree_parent(uint64_t domain);
uint64_t ts_tree_newest_child(uint64_t domain);
/* The epoch of its parent. */
EpochId ts_tree_parent_epoch(uint64_t domain);
/* The next domain to be ended of those below `domain`: of its newest child, if that was born after the event, the newest one without
   children, looked for from `from` on if that is below it. 0: there is none. */
uint64_t ts_tree_leaf(uint64_t domain, uint64_t from, uint64_t after);
/* Of no parent any more. */
void ts_tree_detach(uint64_t domain);
/* Whether the first is below the second. */
bool ts_tree_is_of(uint64_t domain, uint64_t above);
/* Whether the domain has a child. Caller has the lock. */
bool ts_tree_has_child(const ts_domain *d);
/* The domain ends: its record goes, and its children have no parent. Caller has the lock. */
void ts_tree_unlink(ts_domain *d);
/* Of a domain that is handed over: none of its tree is entered or ending, and it is nobody's child; all become nobody's; the thread
   with that serial, which owns the first, owns all that are nobody's. */
bool ts_tree_may_go(uint64_t domain);
void ts_tree_give_up(uint64_t domain, uint64_t serial);
void ts_tree_take_over(uint64_t domain, uint64_t serial);
/* The next of a walk through the domain's tree, each after its parent; NULL: that was all. Caller has the lock. */
ts_kin *ts_tree_next(const ts_kin *root, ts_kin *kin);
/* Whether domain is `above`, or below it. Caller has the lock. */
bool ts_tree_is_below(const ts_kin *kin, const ts_kin *above);

#endif
