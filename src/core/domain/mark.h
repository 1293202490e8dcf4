/*
 * Marks: places of a scope domain of one thread to which it can go back (cache/rewind.h). A domain keeps its newest 32 marks, by a
 * number that no other mark has: so a mark of another domain, of before a reset, or that was rewound past, is none.
 */
#ifndef TS_DOMAIN_MARK_H
#define TS_DOMAIN_MARK_H

#include "domain/domain.h"

/* false with errno: EINVAL a domain that has no marks, EPERM, ESTALE closed, ENOMEM. */
bool ts_mark_make(uint64_t domain, SlabMark *out);
/* false with errno: EINVAL no such mark, EPERM. */
bool ts_mark_rewind(uint64_t domain, SlabMark mark);
/* Of a domain that is emptied, or ends. Caller: who does that. */
void ts_mark_drop_all(ts_domain *d);
/* Of one that gets another owner, and keeps its objects. Caller: the owner. */
void ts_mark_give_up_all(ts_domain *d);

#endif
