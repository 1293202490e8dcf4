/*
 * Parents and children of domains. A domain that ever had either has a record of its KIN. One lock guards all of
 * these records. No allocation, no entering and no usual end of a domain takes it, unless another thread tries to end
 * that domain just then.
 *
 * Invariants
 *  1. The domains of a tree belong to one allocator. They belong to one thread, or all are shared. There is no circle.
 *  2. A record of kin is made before it is linked, and goes with its domain. The end of the domain unlinks it, under
 *     the lock, before the id is over. So while the lock is held, a record that is found in a tree belongs to a
 *     domain that has not ended.
 *  3. `kin` of a domain is written with this lock and its epoch's lock, or before the domain can be found. So an end
 *     that looks at it under either lock sees it.
 *  4. The end of a domain ends its children first, newest first. No child is added to a busy domain.
 *
 * A tree that another thread ends (ts_domain_end, domain_tree.c) is TRIED first, and then MARKED, or QUIET again,
 * under one hold of the lock.
 */
#ifndef TS_DOMAIN_TREE_H
#define TS_DOMAIN_TREE_H

#include "domain/domain.h"

typedef struct ts_kin {
    uint64_t domain; /* id */
    struct ts_kin *parent;
    struct ts_kin *child;         /* newest first */
    struct ts_kin *older, *newer; /* siblings */
    uint64_t born;                /* the event at which its parent got it: for marks */
    struct ts_mark *marks;        /* owner only: newest first (mark.c) */
} ts_kin;
_Static_assert(sizeof(ts_kin) <= 64, "one line");

void ts_tree_init(void);
/* The domain's record of kin; makes it if there is none. NULL: no memory, or the domain has ended. Caller holds
   nothing. */
ts_kin *ts_tree_kin(uint64_t domain);
/* Makes a domain the child of another one; parent 0: the child of none. Returns 0 or an error. EINVAL: there are no
   such domains, or it would make a circle. ESTALE: one of them is ending. now false: only returns the answer. */
int ts_tree_link(uint64_t child, uint64_t parent, bool now);
/* The owner of a domain; TS_OWNER_ENDING only if its id is over. Waits while another thread finds out whether it can
   end the domain. Caller holds nothing. */
uint64_t ts_tree_owner(const ts_domain *d, uint64_t id);
/* Returns when no domain is TRIED any more that was so before the call. Caller holds nothing. */
void ts_tree_wait(void);
/* The next domain to end among those below `domain`. It goes from the newest child, if that was born after the event,
   down to a domain without children. It begins at `from` if that is below this child. 0: there is none. */
uint64_t ts_tree_leaf(uint64_t domain, uint64_t from, uint64_t after);
/* Takes the domain from its parent. */
void ts_tree_detach(uint64_t domain);
/* Whether `domain` is `above`, or below it. */
bool ts_tree_is_of(uint64_t domain, uint64_t above);
/* Takes an ending domain out of its tree: its record of kin goes, and its children have no parent. Caller has the
   lock. */
void ts_tree_unlink(ts_domain *d);
/* The hand-over of a domain. First: whether it may be handed over. No domain of its tree is entered or ending, and it
   has no parent. Second: the domains below it lose their owner. Third: the thread with this serial, which owns the
   domain, gets all domains below it that have no owner. */
bool ts_tree_may_go(uint64_t domain);
void ts_tree_disown(uint64_t domain, uint64_t serial);
void ts_tree_adopt(uint64_t domain, uint64_t serial);
/* The next domain of a walk through the tree of `root`, which begins there. Each comes after its parent. NULL: that was
   all. Caller has the lock since it found that `root` has not ended. */
ts_domain *ts_tree_next(const ts_domain *root, const ts_domain *d);

#endif
