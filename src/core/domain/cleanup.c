/*
 * Cleanups: functions that run at the end of a domain, or when it is emptied, newest first.
 *
 * A cleanup is taken off the list, under the epoch's lock, before it runs. So it runs once, whatever it does to the
 * domain itself.
 *
 * What could go wrong: a cleanup does not return. It leaves by longjmp or by an exception, or ends its thread. Then
 * nothing dangles: what is noted of a cleanup that runs lies in its own record, which names the record of its domain.
 * That domain is busy, so both stay. The thread's next end or reset of it finds out by the stack that the cleanup has
 * been left. The end of the thread lets go of the rest. Then the domain is as if the call had not been made, but for
 * the cleanups that have begun.
 */
/* Modelled in tests/model: enter. */
#include "domain/domain_parts.h"
#include "os/os.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

typedef struct ts_cleanup {
    struct ts_cleanup *next; /* the next older one of the domain. While it runs: the next outer one that runs */
    void (*fn)(void *);
    void *arg;
    uint64_t event; /* the event at which it was registered: for marks */
    /* While it runs, of the thread that runs it. */
    ts_domain *domain;
    const void *at; /* the stack above is its caller's, and below its own */
    int cancels;    /* the thread's state of cancellation outside of it */
} ts_cleanup;
_Static_assert(sizeof(ts_cleanup) <= 64 && sizeof(ts_domain_scope) <= 64, "one kind of line serves both");

bool ts_domain_on_destroy(uint64_t id, void (*fn)(void *), void *arg) {
    ts_domain *d = ts_domain_mine(id, "epoch_domain_on_destroy");
    if (!d) return false;
    if (!fn) return ts_fail(EINVAL);
    ts_cleanup *c = ts_lines_take(TS_LINES_CLEANUP, sizeof(ts_domain_scope));
    if (!c) return ts_fail(ENOMEM);
    c->fn = fn;
    c->arg = arg;
    c->event = ts_domain_next_event();
    ts_epoch *epoch = ts_domain_lock(d);
    bool same = ts_load_relaxed(&d->record.id) == id;
    if (same) {
        c->next = ts_load_relaxed(&d->cleanups);
        ts_store_relaxed(&d->cleanups, c);
    }
    ts_epoch_release(epoch);
    if (same) return true;
    ts_lines_give(TS_LINES_CLEANUP, c);
    return ts_fail(EINVAL);
}

bool ts_domain_off_destroy(uint64_t id, void (*fn)(void *), void *arg) {
    ts_domain *d = ts_domain_mine(id, "epoch_domain_off_destroy");
    if (!d) return false;
    ts_epoch *epoch = ts_domain_lock(d);
    bool same = ts_load_relaxed(&d->record.id) == id;
    ts_cleanup *before = NULL, *c = same ? ts_load_relaxed(&d->cleanups) : NULL;
    while (c && (c->fn != fn || c->arg != arg)) {
        before = c;
        c = c->next;
    }
    if (c && before) before->next = c->next;
    if (c && !before) ts_store_relaxed(&d->cleanups, c->next);
    ts_epoch_release(epoch);
    if (!c) return ts_fail(same ? ENOENT : EINVAL);
    ts_lines_give(TS_LINES_CLEANUP, c);
    return true;
}

/* ---- cleanups that do not return --------------------------------------------------------------------------------- */

uint32_t ts_domain_level(void) { return ts_thread.cleaning ? ts_thread.cleaning->domain->busy_level + 1 : 0; }

/* Whether a call that was left has made the domain busy. It stays busy then until this thread changes that. */
static bool is_left(const ts_domain *d, uint64_t id, uint32_t level) {
    ts_epoch *epoch = ts_domain_lock(d);
    uint32_t busy = ts_load_relaxed(&d->busy);
    bool left = ts_load_relaxed(&d->record.id) == id && busy != TS_QUIET && busy != TS_TRIED &&
                d->busy_by == ts_thread.serial && d->busy_level >= level;
    ts_epoch_release(epoch);
    return left;
}

/* Takes the domain back to where it was before a call of this thread made it busy. That call does not go on. */
static void make_endable(ts_domain *d, uint64_t id) {
    uint64_t owner = d->owner_before;
    /* A cleanup may have entered it. Only the owner counts itself out. */
    if (owner != 0 && owner != ts_thread.serial) ts_domain_leave_all(ts_thread.heap, id);
    ts_epoch *epoch = ts_domain_lock(d);
    uint32_t busy = ts_load_relaxed(&d->busy);
    d->owner_before = 0;
    ts_store_release(&d->busy, TS_QUIET);
    /* release: as in unmark, in domain_tree.c */
    if (owner != 0) ts_store_release(&d->owner, owner);
    ts_epoch_release(epoch);
    if (!ts_allocator_find(ts_load_relaxed(&d->token))) /* its end has passed the domain by: as in reset_other */
        ts_domain_end_begun(d, id);
    else if (busy == TS_RESETS_THEN_ENDS) /* the call that ended it has returned */
        ts_domain_destroy(id);
}

/* This thread has left calls of the library from within cleanups: those in which it had begun `level` others, and inner
   ones. A call is left with all that it calls in the library. So the domains that these calls made busy have that level
   or a higher one, and those of outer calls, which go on, a lower one. */
TS_COLD static void leave_calls(uint32_t level) {
    for (ts_cleanup *c; (c = ts_thread.cleaning) != NULL && c->domain->busy_level >= level;) {
        const ts_domain *d = c->domain;
        EpochId epoch = ts_load_relaxed(&d->epoch);
        ts_thread.cleaning = c->next;
        ts_lines_give(TS_LINES_CLEANUP, c);
        ts_misuse_domain("epoch_domain_on_destroy", ts_load_relaxed(&d->record.id),
                         "one of its cleanups did not return", ts_load_relaxed(&d->token), &epoch);
    }
    uint32_t i = 1;
    uint64_t id;
    for (ts_domain *d; (d = ts_table_next(&ts_domains, &i, &id)) != NULL;)
        if (is_left(d, id, level)) make_endable(d, id);
}

void ts_domain_thread_ends(void) {
    if (TS_UNLIKELY(ts_thread.cleaning != NULL)) leave_calls(0);
}

/* A call from inside of a cleanup lies deeper on the stack than the call of the cleanup. One that does not comes after
   the cleanup was left. */
bool ts_domain_is_in_cleanup(uint64_t id) {
    const ts_cleanup *of = NULL; /* the outermost one of the domain, or of one below it */
    for (const ts_cleanup *c = ts_thread.cleaning; c; c = c->next) {
        uint64_t cleaned = ts_load_relaxed(&c->domain->record.id);
        if (cleaned == id || ts_tree_is_of(cleaned, id)) of = c;
    }
    if (!of || (uintptr_t)__builtin_frame_address(0) <= (uintptr_t)of->at) return of != NULL;
    int cancels = of->cancels;
    leave_calls(of->domain->busy_level);
    (void)pthread_setcancelstate(cancels, &cancels);
    return false;
}

/* ---- run --------------------------------------------------------------------------------------------------------- */

/* Whether this thread runs it, and has not taken it for left. The compiler keeps the address of a thread's storage
   across a call: it is found anew. */
TS_NOINLINE static bool is_running(const ts_cleanup *cleanup) {
    ts_compiler_fence();
    const ts_cleanup *c = ts_thread.cleaning;
    while (c && c != cleanup) c = c->next;
    return c != NULL;
}

/* Stops the program: a cleanup of a fiber has changed its thread. The end of the domain is half done in the other
   thread's storage. */
TS_COLD static void stop_elsewhere(uint64_t id) {
    ts_tell("a cleanup of domain %#" PRIx64 " returned in another thread than it was called in", id);
    abort();
}

/* Calls it behind some room on the stack. A program that has left it may call the library again from a few frames
   deeper than before: that call still lies above the room, and one from inside of the cleanup below. */
#define ROOM_BYTES 1024u
TS_NOINLINE static void call(ts_domain *d, ts_cleanup *c) {
    uint64_t id = ts_load_relaxed(&d->record.id);
    c->domain = d;
    c->at = __builtin_alloca(ROOM_BYTES);
    c->next = ts_thread.cleaning;
    ts_thread.cleaning = c;
    c->fn(c->arg);
    if (TS_UNLIKELY(!is_running(c))) stop_elsewhere(id);
    if (TS_UNLIKELY(ts_thread.cleaning != c)) leave_calls(d->busy_level + 1);
    ts_thread.cleaning = c->next;
    ts_lines_give(TS_LINES_CLEANUP, c);
}

/* A cleanup registered while others run is newer than the rest, so it comes next. errno is restored for the caller.
   A thread that is cancelled meanwhile ends later: it would leave the domain half ended. */
void ts_domain_run_cleanups(ts_domain *d, uint64_t after) {
    if (!ts_load_relaxed(&d->cleanups)) return;
    int before = errno, cancels;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
    for (;;) {
        ts_epoch *epoch = ts_domain_lock(d);
        ts_cleanup *c = ts_load_relaxed(&d->cleanups);
        if (c && c->event <= after) c = NULL;
        if (c) ts_store_relaxed(&d->cleanups, c->next);
        ts_epoch_release(epoch);
        if (!c) break;
        c->cancels = cancels;
        call(d, c);
        errno = before;
    }
    (void)pthread_setcancelstate(cancels, &cancels);
}

TS_COLD void ts_domain_show_cleanups(void (*keep)(void *arg)) {
    uint32_t i = 1;
    uint64_t id;
    for (const ts_domain *d; (d = ts_table_next(&ts_domains, &i, &id)) != NULL;) {
        ts_epoch *epoch = ts_domain_lock(d);
        if (ts_load_relaxed(&d->record.id) == id)
            for (const ts_cleanup *c = ts_load_relaxed(&d->cleanups); c; c = c->next) keep(c->arg);
        ts_epoch_release(epoch);
    }
}

void ts_domain_drop_cleanups(ts_cleanup *first) {
    for (ts_cleanup *c = first, *next; c; c = next) {
        next = c->next;
        ts_lines_give(TS_LINES_CLEANUP, c);
    }
}
