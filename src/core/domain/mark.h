/*
 * Marks: places to which a scope domain of one thread can go back (cache/rewind.c). A domain keeps its newest 32
 * marks. Each has a number that no other mark has. So a mark of another domain, a mark of before a reset, and one
 * that was rewound past are refused.
 */
#ifndef TS_DOMAIN_MARK_H
#define TS_DOMAIN_MARK_H

#include "domain/domain.h"

/* false: errno is EINVAL (the domain cannot have marks), EPERM, ESTALE (closed) or ENOMEM. */
bool ts_mark_make(uint64_t domain, SlabMark *out);
/* false: errno is EINVAL (no such mark) or EPERM. */
bool ts_mark_rewind(uint64_t domain, SlabMark mark);
/* Drops the marks of a domain. Caller: the thread that empties or ends it; anchored: or its owner, who gives it up,
   while its objects stay. */
void ts_mark_drop_all(const ts_domain *d, bool anchored);

#endif
