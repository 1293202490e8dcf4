/*
 * What the two files of domains share: domain.c, in which they begin and are entered, and domain_end.c, in which they end.
 */
/* Modelled in tests/model: orders. */
#ifndef TS_DOMAIN_DOMAIN_PARTS_H
#define TS_DOMAIN_DOMAIN_PARTS_H

#include "diagnose/misuse.h"
#include "diagnose/sample.h"
#include "domain/domain.h"
#include "domain/tree.h"

#include <errno.h>

static inline bool ts_domain_fail(int error) {
    errno = error;
    return false;
}

/* Tells of a misuse, and is the call's answer. why NULL: it is no domain. */
bool ts_domain_refuse(const char *call, uint64_t id, const char *why, int error);

/* After the fields of a domain were read: they are that domain's. Another thread can end a shared one at any moment, and
   its entry can be in use again. acquire: the loads before come first; partner of the fence in begin_domain. */
TS_ALWAYS_INLINE bool ts_domain_is_still(const ts_domain *d, uint64_t id) {
    atomic_thread_fence(memory_order_acquire);
    return ts_load_relaxed(&d->entry.id) == id;
}

#define TS_OF_ANOTHER_THREAD "belongs to another thread"
#define TS_IS_ENDING "its cleanups are running"

/* The domain, if the calling thread may use it; errno otherwise. Who is inside may, also while another thread finds out that it cannot end it. */
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

/* Timing is on for this thread, or will be at its next slow call. */
TS_ALWAYS_INLINE bool ts_domain_is_timed(const ts_heap *heap) {
    return (heap->sample_rate | ts_load_relaxed(&ts_sample_rate)) != 0;
}

/* As it is known by that id. */
TS_ALWAYS_INLINE bool ts_domain_read_fields(const ts_domain *d, uint64_t id, ts_allocator **allocator, uintptr_t *token,
                                            EpochId *epoch) {
    *allocator = ts_load_relaxed(&d->allocator);
    *token = ts_load_relaxed(&d->token);
    *epoch = ts_load_relaxed(&d->epoch);
    return ts_domain_is_still(d, id);
}

/* This thread's block for the innermost domain, if it has one: slab_alloc then finds it at once. */
void ts_domain_follow(ts_heap *heap, const ts_domain_scope *top);
TS_ALWAYS_INLINE void ts_domain_follow_innermost(ts_heap *heap) {
    const ts_domain_scope *top = ts_thread.domain;
    ts_set_scope(&ts_thread, &ts_no_scope);
    if (top && !ts_domain_is_timed(heap)) ts_domain_follow(heap, top);
}

/* This thread is inside once less. */
void ts_domain_count_out(ts_domain *d);
/* Leaves the domain on every level of this thread. */
void ts_domain_leave_all(ts_heap *heap, uint64_t id);
/* In whatever use its entry is. Before the look at the domain's id: it is its epoch then, not that of the entry's next use. acquire: partner
   of the fence in begin_domain, as in ts_domain_is_still; and of its release of the epoch, whose entry may be a new one. */
static inline ts_epoch *ts_domain_epoch_of(const ts_domain *d) {
    EpochId epoch = ts_load_acquire(&d->epoch);
    return ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, epoch));
}

/* A domain whose cleanups this thread is running: on its stack. */
typedef struct ts_cleaning {
    uint64_t domain; /* id */
    struct ts_cleaning *outer;
} ts_cleaning;

/* Another thread empties a shared domain, which is to end: that one ends it. Not for one of the cleanups that run. */
bool ts_domain_leave_to_who_resets(ts_domain *d, uint64_t id);
/* One thread gets to end or empty a domain at a time, and none from inside of its own cleanups; a MARKED one is for who marked it. */
bool ts_domain_make_busy(ts_domain *d, uint64_t id, uint32_t how);
/* The caller has emptied it, and is no longer busy with it: true, but has to end it. */
bool ts_domain_make_quiet(ts_domain *d);
/* Ends a domain by who is busy with it. */
void ts_domain_finish(ts_domain *d, uint64_t id);
/* Those registered after the event; one registered while they run is newer than the rest, so it comes next. */
void ts_domain_run_cleanups(ts_domain *d, uint64_t after);
/* Of a domain that has ended without running them. */
void ts_domain_drop_cleanups(struct ts_cleanup *first);
/* Ends the children that were born after the event, newest first, each with its own. */
void ts_domain_end_children(uint64_t id, uint64_t after);
/* Whether the calling thread is running a cleanup of the domain, or of one below it. */
bool ts_domain_is_in_cleanup(uint64_t id);
/* Rises with each call: what came after what, also where a domain has changed its thread in between. Children and
   cleanups, for marks. */
uint64_t ts_domain_next_event(void);
/* Those that this thread, or one from which it has a domain, has seen are none later. */
uint64_t ts_domain_last_event(void);

/* ts_domain_end of all but the usual domain. */
bool ts_domain_end_other(uint64_t id);

/* Of one that has begun too late. */
void ts_domain_end_begun(ts_domain *d, uint64_t id);

#endif
