/* What a pool does at its end: cleanups, and the processes that it has noted. */
#include "pool.h"

#include <apr_errno.h>
#include <apr_strings.h>
#include <apr_time.h>
#include <signal.h>

/* A cleanup may register another, which runs next. */
void ta_run_cleanups(ta_cleanup **list) {
    for (ta_cleanup *c; (c = *list) != NULL;) {
        *list = c->next;
        (void)c->plain((void *)c->data);
    }
}

static void add(apr_pool_t *pool, ta_cleanup **list, const void *data, apr_status_t (*plain)(void *),
                apr_status_t (*child)(void *)) {
    ta_cleanup *c = pool->unused;
    if (c)
        pool->unused = c->next;
    else if (!(c = apr_palloc(pool, sizeof *c)))
        return;
    *c = (ta_cleanup){*list, data, plain, child};
    *list = c;
}

APR_DECLARE(void)
apr_pool_cleanup_register(apr_pool_t *pool, const void *data, apr_status_t (*plain)(void *),
                          apr_status_t (*child)(void *)) {
    if (pool) add(pool, &pool->cleanups, data, plain, child);
}

APR_DECLARE(void)
apr_pool_pre_cleanup_register(apr_pool_t *pool, const void *data, apr_status_t (*plain)(void *)) {
    if (pool) add(pool, &pool->pre_cleanups, data, plain, NULL);
}

/* The link to the newest cleanup with that function and datum. */
static ta_cleanup **find(ta_cleanup **list, const void *data, apr_status_t (*plain)(void *)) {
    while (*list && !((*list)->data == data && (*list)->plain == plain)) list = &(*list)->next;
    return list;
}

static void take_out(apr_pool_t *pool, ta_cleanup **at) {
    ta_cleanup *c = *at;
    if (!c) return;
    *at = c->next;
    c->next = pool->unused;
    pool->unused = c;
}

APR_DECLARE(void) apr_pool_cleanup_kill(apr_pool_t *pool, const void *data, apr_status_t (*plain)(void *)) {
    if (!pool) return;
    take_out(pool, find(&pool->cleanups, data, plain));
    take_out(pool, find(&pool->pre_cleanups, data, plain));
}

APR_DECLARE(void)
apr_pool_child_cleanup_set(apr_pool_t *pool, const void *data, apr_status_t (*plain)(void *),
                           apr_status_t (*child)(void *)) {
    ta_cleanup *c = pool ? *find(&pool->cleanups, data, plain) : NULL;
    if (c) c->child = child;
}

APR_DECLARE(apr_status_t) apr_pool_cleanup_run(apr_pool_t *pool, void *data, apr_status_t (*cleanup)(void *)) {
    apr_pool_cleanup_kill(pool, data, cleanup);
    return cleanup(data);
}

APR_DECLARE_NONSTD(apr_status_t) apr_pool_cleanup_null(void *data) {
    (void)data;
    return APR_SUCCESS;
}

static void run_before_exec(apr_pool_t *pool) {
    for (ta_cleanup *c; (c = pool->cleanups) != NULL;) {
        pool->cleanups = c->next;
        (void)c->child((void *)c->data);
    }
    for (apr_pool_t *p = pool->child; p; p = p->sibling) run_before_exec(p);
}

APR_DECLARE(void) apr_pool_cleanup_for_exec(void) {
    if (ta_root()) run_before_exec(ta_root());
}

/* ---- user data ------------------------------------------------------------------------------------------------- */

static apr_status_t set_user_data(const void *data, const char *key, bool copies, apr_status_t (*cleanup)(void *),
                                  apr_pool_t *pool) {
    if (!pool->user_data) pool->user_data = apr_hash_make(pool);
    if (!pool->user_data) return APR_ENOMEM;
    if (copies && !apr_hash_get(pool->user_data, key, APR_HASH_KEY_STRING) && !(key = apr_pstrdup(pool, key)))
        return APR_ENOMEM;
    apr_hash_set(pool->user_data, key, APR_HASH_KEY_STRING, data);
    if (cleanup) apr_pool_cleanup_register(pool, data, cleanup, cleanup);
    return APR_SUCCESS;
}

APR_DECLARE(apr_status_t)
apr_pool_userdata_set(const void *data, const char *key, apr_status_t (*cleanup)(void *), apr_pool_t *pool) {
    return set_user_data(data, key, true, cleanup, pool);
}

APR_DECLARE(apr_status_t)
apr_pool_userdata_setn(const void *data, const char *key, apr_status_t (*cleanup)(void *), apr_pool_t *pool) {
    return set_user_data(data, key, false, cleanup, pool);
}

APR_DECLARE(apr_status_t) apr_pool_userdata_get(void **data, const char *key, apr_pool_t *pool) {
    *data = pool->user_data ? apr_hash_get(pool->user_data, key, APR_HASH_KEY_STRING) : NULL;
    return APR_SUCCESS;
}

/* ---- processes ------------------------------------------------------------------------------------------------- */

APR_DECLARE(void) apr_pool_note_subprocess(apr_pool_t *pool, apr_proc_t *process, apr_kill_conditions_e how) {
    ta_process *p = apr_palloc(pool, sizeof *p);
    if (!p) return;
    *p = (ta_process){pool->processes, process, how};
    pool->processes = p;
}

static bool is_over(const ta_process *p) {
    return apr_proc_wait(p->process, NULL, NULL, APR_NOWAIT) != APR_CHILD_NOTDONE;
}

/* Sends SIGTERM and SIGKILL as noted. Whether a process has three seconds to end now. */
static bool signal_all(ta_process *processes) {
    bool waits = false;
    for (ta_process *p = processes; p; p = p->next) {
        if (is_over(p))
            p->how = APR_KILL_NEVER;
        else if (p->how == APR_KILL_ALWAYS)
            (void)apr_proc_kill(p->process, SIGKILL);
        else if (p->how == APR_KILL_AFTER_TIMEOUT || p->how == APR_KILL_ONLY_ONCE)
            waits |= apr_proc_kill(p->process, SIGTERM) == APR_SUCCESS && p->how == APR_KILL_AFTER_TIMEOUT;
    }
    return waits;
}

static bool any_waits(ta_process *processes) {
    bool waits = false;
    for (ta_process *p = processes; p; p = p->next) {
        if (p->how != APR_KILL_AFTER_TIMEOUT) continue;
        if (is_over(p))
            p->how = APR_KILL_NEVER;
        else
            waits = true;
    }
    return waits;
}

void ta_end_processes(ta_process *processes) {
    if (!processes) return;
    bool waits = signal_all(processes);
    const apr_time_t end = apr_time_now() + apr_time_from_sec(3);
    for (apr_interval_time_t pause = 1000; waits && apr_time_now() < end; pause += pause / 2) {
        apr_sleep(pause);
        waits = any_waits(processes);
    }
    for (ta_process *p = processes; waits && p; p = p->next)
        if (p->how == APR_KILL_AFTER_TIMEOUT) (void)apr_proc_kill(p->process, SIGKILL);
    for (ta_process *p = processes; p; p = p->next)
        if (p->how != APR_KILL_NEVER) (void)apr_proc_wait(p->process, NULL, NULL, APR_WAIT);
}
