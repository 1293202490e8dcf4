/*
 * Functions that the rooms of this floor share: domain (made), enter, cleanup, domain_end, domain_tree and record.
 */
/* Modelled in tests/model: orders. */
#ifndef TS_DOMAIN_DOMAIN_PARTS_H
#define TS_DOMAIN_DOMAIN_PARTS_H

#include "base/base.h"
#include "diagnose/diagnose.h"
#include "domain/domain.h"
#include "domain/tree.h"

/* Reports a misuse, and returns the call's answer. why NULL: it is no domain. */
bool ts_domain_refuse(const char *call, uint64_t id, const char *why, int error);

/* Whether fields that were read before belong to the domain with this id. Another thread can end a shared domain at
   any moment, and its record can be in use again. acquire fence: the loads before come first; partner of the fence in
   begin_domain. */
TS_ALWAYS_INLINE bool ts_domain_is_still(const ts_domain *d, uint64_t id) {
    atomic_thread_fence(memory_order_acquire);
    return ts_load_relaxed(&d->record.id) == id;
}

#define TS_OF_ANOTHER_THREAD "belongs to another thread"
#define TS_IS_ENDING "its cleanups are running"

/* The domain, if the calling thread may use it. NULL: errno says why not. A thread that is inside may use it, also
   while another thread finds out that it cannot end it. */
TS_ALWAYS_INLINE ts_domain *ts_domain_mine(uint64_t id, const char *call) {
    ts_domain *d = ts_domain_find(id);
    if (!d) {
        ts_domain_refuse(call, id, NULL, EINVAL);
        return NULL;
    }
    ts_heap *heap = ts_heap_mine();
    if (!heap) return NULL;
    if (ts_load_relaxed(&d->shared) || ts_load_relaxed(&d->owner) == heap->serial) return d;
    if (ts_tree_owner(d, id) == heap->serial) return d;
    bool still = ts_domain_is_still(d, id);
    ts_domain_refuse(call, id, still ? TS_OF_ANOTHER_THREAD : NULL, still ? EPERM : EINVAL);
    return NULL;
}

static inline bool ts_domain_is_entered(uint64_t id) {
    for (const ts_domain_scope *s = ts_thread.domain; s; s = s->outer)
        if (s->domain == id) return true;
    return false;
}

/* Whether timing is on for this thread, or will be at its next slow call. */
TS_ALWAYS_INLINE bool ts_domain_is_timed(const ts_heap *heap) {
    return (heap->sample_rate | ts_load_relaxed(&ts_sample_rate)) != 0;
}

/* Notes this thread's block in the innermost domain, if it has one, so that slab_alloc finds it at once. */
void ts_domain_follow(ts_heap *heap, const ts_domain_scope *top);
TS_ALWAYS_INLINE void ts_domain_follow_innermost(ts_heap *heap) {
    const ts_domain_scope *top = ts_thread.domain;
    ts_set_scope(&ts_thread, &ts_no_scope);
    if (top && !ts_domain_is_timed(heap)) ts_domain_follow(heap, top);
}

/* Counts this thread out of the domain once. */
void ts_domain_count_out(ts_domain *d);
/* Takes the domain off this thread's stack on every level. */
void ts_domain_leave_all(ts_heap *heap, uint64_t id);
/* The record of a domain's epoch, in any use of the record, with its lock taken. If the caller then finds that the
   domain's id still is that of the domain, so is the epoch. acquire: partner of the fence in begin_domain, as in
   ts_domain_is_still, and of its release of the epoch, whose record may be new. */
static inline ts_epoch *ts_domain_lock(const ts_domain *d) {
    EpochId id = ts_load_acquire(&d->epoch);
    ts_epoch *epoch = ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, id));
    ts_epoch_acquire(epoch);
    return epoch;
}

/* How many cleanups this thread is running, one in the other. */
uint32_t ts_domain_level(void);

/* Leaves the end of a shared domain to another thread that is emptying it. Not for one of the cleanups that run. */
bool ts_domain_defer_end(ts_domain *d, uint64_t id);
/* Makes a domain busy. One thread at a time ends or empties it, and none from inside of its own cleanups. Only the
   thread that marked a MARKED domain gets it. */
bool ts_domain_make_busy(ts_domain *d, uint64_t id, uint32_t how);
/* After the caller has emptied the domain. true: the domain is quiet. false: the caller has to end it. */
bool ts_domain_make_quiet(ts_domain *d);
/* Ends a domain. Caller: the thread that made it busy. */
void ts_domain_finish(ts_domain *d, uint64_t id);
/* Runs the cleanups that were registered after the event. One registered while they run is newer than the rest, so it
   comes next. */
void ts_domain_run_cleanups(ts_domain *d, uint64_t after);
/* Drops the cleanups of a domain that has ended without running them. */
void ts_domain_drop_cleanups(struct ts_cleanup *first);
/* Ends the children that were born after the event, newest first, each with its own children. */
void ts_domain_end_children(uint64_t id, uint64_t after);
/* Whether the calling thread is running a cleanup of the domain, or of one below it. One that has left by longjmp or by
   an exception does not run: misuse, after which all that its call was ending is as it was before. */
bool ts_domain_is_in_cleanup(uint64_t id);
/* The number of a new event: the birth of a child, or a registered cleanup. It rises with each call, and orders
   events for marks, also across threads that hand a domain over. */
uint64_t ts_domain_next_event(void);
/* The last event. No event that this thread has seen is later, nor any seen by a thread before it handed a domain to
   this one. */
uint64_t ts_domain_last_event(void);

/* ts_domain_end, except for the usual domain. */
bool ts_domain_end_other(uint64_t id);

/* Ends a domain that has begun too late. */
void ts_domain_end_begun(ts_domain *d, uint64_t id);

#endif
