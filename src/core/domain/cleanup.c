/*
 * Cleanups: functions that run at the end of a domain, or when it is emptied, newest first.
 *
 * A cleanup is taken off the list, under the epoch's lock, before it runs. So it runs once, whatever it does to the
 * domain itself.
 */
#include "domain/domain_parts.h"
#include "os/text.h"

#include <errno.h>
#include <stdlib.h>

typedef struct ts_cleanup {
    struct ts_cleanup *next;
    void (*fn)(void *);
    void *arg;
    uint64_t event; /* the event at which it was registered: for marks */
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

/* The address of the calling thread's storage, computed anew: the compiler keeps it across a call. */
TS_NOINLINE static const ts_tls *thread_now(void) {
    ts_compiler_fence();
    return &ts_thread;
}

/* Stops the program: a cleanup of a fiber has changed its thread. The end of the domain is half done in the other
   thread's storage. */
TS_COLD static void stop_elsewhere(uint64_t id) {
    ts_tell("a cleanup of domain %#" PRIx64 " returned in another thread than it was called in", id);
    abort();
}

/* A cleanup registered while others run is newer than the rest, so it comes next. errno is restored for the caller. */
void ts_domain_run_cleanups(ts_domain *d, uint64_t after) {
    if (!ts_load_relaxed(&d->cleanups)) return;
    int before = errno;
    const ts_tls *thread = thread_now();
    ts_cleaning cleaning = {ts_load_relaxed(&d->record.id), ts_thread.cleaning};
    ts_thread.cleaning = &cleaning;
    for (;;) {
        ts_epoch *epoch = ts_domain_lock(d);
        ts_cleanup *c = ts_load_relaxed(&d->cleanups);
        if (c && c->event <= after) c = NULL;
        if (c) ts_store_relaxed(&d->cleanups, c->next);
        ts_epoch_release(epoch);
        if (!c) break;
        void (*fn)(void *) = c->fn;
        void *arg = c->arg;
        ts_lines_give(TS_LINES_CLEANUP, c);
        fn(arg);
        if (TS_UNLIKELY(thread_now() != thread)) stop_elsewhere(cleaning.domain);
        errno = before;
    }
    ts_thread.cleaning = cleaning.outer;
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
