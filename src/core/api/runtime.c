/* Modelled in tests/model: record, orders. */
#include "api/runtime.h"
#include "cache/cache.h"
#include "epoch/epoch.h"
#include "supply/supply.h"

#include "advice/advice.h"
#include "api/api.h"
#include "api/layout.h"
#include "diagnose/diagnose.h"
#include "domain/domain.h"
#include "memtools/memtools.h"
#include "observe/observe.h"
#include "os/os.h"
#include "region/region.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEMCHECK_UNITS_LOG2 16u

_Atomic EpochId ts_kept_epoch;

static _Atomic bool started;
static pthread_mutex_t start_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool region_made, tables_made, hooks_made; /* guarded by start_mutex */

static _Atomic uint64_t process; /* that has the region */
static void note_process(void) { ts_store_relaxed(&process, (uint64_t)getpid()); }
bool ts_runtime_has_region(void) { return region_made && ts_load_relaxed(&process) == (uint64_t)getpid(); }

void ts_runtime_lock(void) { pthread_mutex_lock(&start_mutex); }
void ts_runtime_unlock(void) { pthread_mutex_unlock(&start_mutex); }

/* ---- fork: every lock there is ------------------------------------------------------------------------- */

/*
 * The locks are taken in rank order, with two exceptions. ts_heap_fork_prepare takes the list of heaps before the
 * heaps, so that the list stays as it is, and the lock of ended blocks (block_pool.c, rank TABLE) before the locks of
 * retained units. No circle of waiting comes of it. No other thread has the lock of the list and a heap's lock
 * together. A thread that has the lock of ended blocks, or a lock of retained units, takes no other.
 */

static uint32_t fork_allocators; /* guarded by start_mutex: those whose locks are taken */

/*
 * A fork of the only thread takes no lock, and has nothing to put in order in the child: the child goes on as the
 * parent does. So a signal handler may fork, whatever it interrupts, another fork included.
 *
 * A handler of fork may fork, too. While this thread has the locks, for a fork that is under way, the inner fork takes
 * none, and its child goes on inside of the outer fork: with the locks, and at its end as a child, whichever side of
 * the outer fork it is on. The library's own threads begin in a child behind the outermost fork, so that no inner one
 * comes upon them.
 */
static _Thread_local struct {
    uint32_t depth;     /* forks that this thread is inside of */
    uint32_t locked_at; /* the depth of the one that takes the locks, from before the first to behind the last */
    bool is_child;      /* the process has come of one of them */
    ts_fork_outer_hooks *outer_hooks; /* the function that this fork has called, and calls again; NULL: none */
} forking;

static _Atomic(ts_fork_outer_hooks *)
    outer_hooks; /* of the process's malloc: locks that are taken before these (api.h) */
static void call_outer_hooks(ts_fork_when when) {
    if (when == TS_FORK_BEGINS)
        forking.outer_hooks = ts_load_relaxed(&outer_hooks); /* another thread may just set it */
    if (forking.outer_hooks) forking.outer_hooks(when);
}

static void for_allocator_locks(ts_lock_fn *fn, bool retained) {
    for (uint32_t i = 1; i < fork_allocators; i++) {
        ts_allocator *a = ts_table_at(&ts_allocators, i);
        if (a->lock.rank != TS_RANK_ALLOCATOR) continue; /* never used */
        fn(retained ? &a->retained_lock : &a->lock);
    }
}

static void for_locks_before_heaps(ts_lock_fn *fn) {
    fn(&ts_tree_lock);
    for_allocator_locks(fn, false);
    ts_epoch_for_locks(fn);
}

static void for_locks_behind_heaps(ts_lock_fn *fn) {
    for_allocator_locks(fn, true);
    fn(&ts_allocators.lock);
    fn(&ts_epochs.lock);
    fn(&ts_domains.lock);
    ts_lines_for_locks(fn);
    ts_pool_for_locks(fn);
    ts_account_for_locks(fn);
}

static void fork_prepare(void) {
    forking.depth++;
    if (forking.locked_at != 0 || ts_os_is_alone()) return;
    forking.locked_at = forking.depth;
    call_outer_hooks(TS_FORK_BEGINS);
    pthread_mutex_lock(&start_mutex);
    if (!hooks_made) return; /* nothing has been allocated yet */
    fork_allocators = ts_table_high(&ts_allocators);
    for_locks_before_heaps(ts_lock_acquire_for_fork);
    ts_heap_fork_prepare();
    for_locks_behind_heaps(ts_lock_acquire_for_fork);
}

/* A release waits for nothing, so the order among the locks of one group does not matter. */
static void release_all(ts_fork_when when, void (*of_heaps)(void)) {
    if (hooks_made) {
        for_locks_behind_heaps(ts_lock_release_for_fork);
        of_heaps();
        for_locks_before_heaps(ts_lock_release_for_fork);
    }
    pthread_mutex_unlock(&start_mutex);
    call_outer_hooks(when);
    forking.locked_at = 0;
}

static void end_all_in(ts_allocator *a) {
    ts_epoch_destroy_all(a); /* first: from then on no epoch of it gets a domain (ts_domain_wrap) */
    ts_domain_destroy_all(a);
    /* Shares of live threads stay until these threads drop them: a call may be using one. Each pins the record. */
    ts_allocator_trim(a);
}

/* In a child of fork: frees all that an allocator has, if a thread of the parent was freeing that allocator. Its record
   stays, because nothing says whether that thread has taken its pin off. */
static void end_left_allocator(ts_allocator *a) {
    if (ts_load_relaxed(&a->record.id) == 0 && ts_load_relaxed(&a->pins) != 0) end_all_in(a);
}

static void put_in_order(void) {
    ts_message_fork_child();
    ts_os_stack_fork_child();
    bool made = hooks_made;
    release_all(TS_FORK_CHILD, ts_heap_fork_child);
    if (!made) return;
    for (uint32_t i = 1; i < fork_allocators; i++) ts_allocator_fork_child(ts_table_at(&ts_allocators, i));
    ts_shares_fork_child();
    ts_stacks_fork_child();
    ts_epoch_fork_child();
    ts_domain_fork_child();
    for (uint32_t i = 1; i < fork_allocators; i++) end_left_allocator(ts_table_at(&ts_allocators, i));
}

static void fork_over(void) {
    if (forking.locked_at == forking.depth) {
        if (forking.is_child)
            put_in_order();
        else
            release_all(TS_FORK_PARENT, ts_heap_fork_parent);
    }
    if (--forking.depth > 0 || !forking.is_child) return;
    forking.is_child = false;
    ts_background_fork_child();
    ts_page_fork_child();
}

static void fork_child(void) {
    note_process();
    ts_last_thread_leads();
    forking.is_child = true;
    fork_over();
}

/* Handlers of fork that are registered later run while these locks are free: so a program's own may allocate, if these
   come first. */
static bool fork_registered; /* written before main, or under start_mutex */
TS_AT_LOAD static void register_fork(void) {
    if (!fork_registered) fork_registered = ts_os_register_fork(fork_prepare, fork_over, fork_child);
}

void ts_private_fork_outer_hooks(ts_fork_outer_hooks *function) {
    pthread_mutex_lock(&start_mutex);
    ts_store_relaxed(&outer_hooks, function);
    register_fork();
    pthread_mutex_unlock(&start_mutex);
}

/* Its first call registers the process with the system: 3 us while there is one thread, some milliseconds later. */
TS_AT_LOAD static void register_barrier(void) { (void)ts_os_native.barrier_all(); }

/* ---- start --------------------------------------------------------------------------------------------- */

static void thread_exit(void *unused) {
    (void)unused;
    ts_os_thread_ends(); /* the program may stand in for what it calls, and begin a heap there */
    ts_heap *mine = ts_thread.heap;
    if (!mine) return;
    for (const ts_domain_scope *s = ts_thread.domain; s; s = s->outer) {
        const ts_allocator *a = ts_allocator_find(s->allocator);
        if (a && ts_hints(a))
            ts_hint("thread", "ends inside of a domain, which is left behind", (const void *)(uintptr_t)s->domain);
    }
    ts_domain_thread_ends();
    while (ts_thread.domain && ts_domain_exit(ts_thread.domain->domain)) {
    }
    ts_domain_collect_any_returned(mine);
    while (mine->spares[TS_TABLE_EPOCH] > 0)
        ts_table_free(&ts_epochs, mine->spare[TS_TABLE_EPOCH][--mine->spares[TS_TABLE_EPOCH]]);
    while (mine->spares[TS_TABLE_DOMAIN] > 0)
        ts_table_free(&ts_domains, mine->spare[TS_TABLE_DOMAIN][--mine->spares[TS_TABLE_DOMAIN]]);
    ts_heap_exit(mine);
    ts_epoch_run_deferred();
}

static bool calls_chosen; /* these two guarded by start_mutex */
static ts_purge_kind purges;

/* Chooses the table of system calls, before the first of them. Under start_mutex. */
static void choose_calls(void) {
    static ts_os_table table;
    if (calls_chosen) return;
    calls_chosen = true;
    table = *ts_os;
    purges = ts_os_probe_purge(&table);
    if (purges != TS_PURGE_TRUE || table.move != ts_os->move) ts_os = &table;
}

TS_COLD static void say_how_it_purges(void) {
    const char *how = purges == TS_PURGE_BY_MAPS ? "memory is given back by mappings anew, which take longer"
                                                 : "no memory is given back";
    ts_tell("this system's madvise keeps what it says it took back: %s", how);
}

/* Once per process: every call comes here until it goes well. Caller holds no lock, because the program's function
   may get the line. */
TS_COLD static void tell_limit(void) {
    static _Atomic uint32_t told;
    uint64_t bytes;
    const char *name = ts_os_limit_met(&bytes);
    if (!name || atomic_exchange(&told, 1)) return;
    ts_tell("no memory: the smallest region takes %" PRIu64 " bytes of address space, which %s (%" PRIu64
            " bytes) has no room for",
            (uint64_t)ts_region_least_bytes(), name, bytes);
}

static bool start_locked(void) {
    if (!region_made) {
        choose_calls();
        /* memcheck looks through all that can be read for pointers: 1 GiB of memory has metadata enough. */
        ts_region_limit_beyond(ts_care_beyond_log2());
        if (!ts_region_init(ts_care_on_memcheck() ? MEMCHECK_UNITS_LOG2 : TS_MAX_UNITS_LOG2)) return false;
        ts_care_start();
        ts_class_init();
        ts_slab_init_templates();
        ts_pool_init();
        ts_lines_init();
        note_process();
        ts_observe_start();
        region_made = true;
    }
    if (!tables_made) {
        ts_allocators_init();
        if (!ts_heap_init(&ts_cache_ops)) return false;
        ts_account_init(ts_epoch_account);
        ts_epoch_init();
        ts_domain_init();
        ts_leaks_start(ts_domain_show_cleanups);
        tables_made = true;
    }
    if (!hooks_made) {
        register_fork();
        if (!fork_registered || !ts_os_register_exit(thread_exit)) return false;
        hooks_made = true;
    }
    return true;
}

/* acquire: partner of the release below */
bool ts_runtime_started(void) { return ts_load_acquire(&started); }

/* *first: this call has started it. errno changes only if it has failed. */
static bool start(bool *first) {
    int before = errno;
    pthread_mutex_lock(&start_mutex);
    bool done = ts_load_relaxed(&started) || start_locked();
    *first = done && !ts_load_relaxed(&started);
    if (done) ts_store_release(&started, true);
    bool no_region = !region_made;
    pthread_mutex_unlock(&start_mutex);
    if (no_region) tell_limit();
    if (*first && purges != TS_PURGE_TRUE) say_how_it_purges();
    errno = done ? before : ENOMEM;
    return done;
}

bool ts_runtime_start(bool *first) {
    *first = false;
    if (TS_LIKELY(ts_runtime_started())) return true;
    int before = errno;
    ts_os_stay_loaded();
    ts_care_prepare();
    bool done = start(first);
    errno = done ? before : ENOMEM;
    return done;
}

bool ts_private_start(void) {
    bool first;
    return ts_runtime_started() || start(&first);
}

/* ---- allocators ------------------------------------------------------------------------------------------- */

ts_allocator *ts_api_find_pinned(const SlabAllocator *allocator) {
    ts_allocator *a = ts_api_find(allocator);
    if (!a || ts_allocator_pin_use(a, ts_token(allocator))) return a;
    return ts_fail_null(EINVAL);
}

static void reset_record(ts_allocator *a) {
    if (a->lock.rank != TS_RANK_ALLOCATOR) {
        ts_lock_init(&a->retained_lock, TS_RANK_RETAINED);
        ts_lock_init(&a->lock, TS_RANK_ALLOCATOR);
    }
    ts_lock_reset_counts(&a->retained_lock);
    ts_lock_reset_counts(&a->lock);
    memset(&a->retained, 0, sizeof a->retained);
    a->retained_group = 0;
    ts_runs_init(a);
    a->stuck = a->cut[0] = a->cut[1] = 0;
    ts_store_relaxed(&a->nodes, NULL);
    ts_store_relaxed(&a->shares, NULL);
    ts_store_relaxed(&a->past, NULL);
    for (unsigned i = 0; i < TS_ALLOCATOR_WORDS; i++) ts_store_relaxed(&a->words[i], 0);
    ts_store_relaxed(&a->budget_told, 0);
    ts_store_relaxed(&a->span_retained_units, 0);
    ts_store_relaxed(&a->reserved_units, 0);
    ts_store_relaxed(&a->pins, 1);
}

/* Reports a reserve that could not be had whole, for a user that set TSLAB_RESERVE and reads no statistics. Once per
   process. */
TS_COLD static void warn_of_reserve(ts_allocator *a, size_t bytes) {
    static _Atomic uint32_t warned;
    if (atomic_exchange(&warned, 1)) return;
    ts_tell("of the %" PRIu64 " bytes of TSLAB_RESERVE %" PRIu64 " could be had", (uint64_t)bytes,
            ts_load_relaxed(&a->reserved_units) * TS_UNIT_BYTES);
}

bool ts_runtime_start_homes(void) {
    pthread_mutex_lock(&start_mutex);
    ts_homes_start();
    ts_pool_start_homes();
    pthread_mutex_unlock(&start_mutex);
    return ts_homes_count() != 0;
}

/* Where there is one node, or the system says nothing of nodes, it is as if the option was off. */
static void start_numa(ts_allocator *a) {
    if (a->settings.numa == SLAB_NUMA_OFF) return;
    int error = errno;
    if (!ts_runtime_start_homes() || !ts_nodes_make(a)) a->settings.numa = SLAB_NUMA_OFF;
    errno = error;
}

ts_allocator *ts_allocator_make(const ts_settings *settings) {
    if (settings->sample_stacks && !ts_stacks_start()) return ts_fail_null(ENOMEM);
    pthread_mutex_lock(&start_mutex); /* a record's locks are made while no fork can come */
    ts_allocator *a = ts_table_take(&ts_allocators);
    if (a) reset_record(a);
    pthread_mutex_unlock(&start_mutex);
    if (!a) return ts_fail_null(ENOMEM);
    uint64_t id = ts_table_next_id(&ts_allocators, a);
    ts_store_relaxed(&a->token, (uintptr_t)id);
    a->settings = *settings;
    ts_store_relaxed(&a->on_misuse, settings->on_misuse);
    unsigned tell = settings->on_misuse != SLAB_MISUSE_IGNORE ? TS_CARE_TELL : 0;
    a->care = (uint8_t)((settings->poison_on_free ? TS_CARE_FILL | tell : 0) |
                        (ts_care_tools && settings->memory_tools != SLAB_TOOLS_OFF ? TS_CARE_MARK : 0));
    if (settings->memory_tools == SLAB_TOOLS_LEAKS) ts_listen_for_leaks();
    ts_stacks_set_rate(a, settings->sample_stacks);
    start_numa(a);
    ts_store_relaxed(&a->budget_bytes, settings->budget_bytes);
    ts_retain_init(&a->retain, settings->retain_bytes / TS_UNIT_BYTES,
                   !settings->retain_given && settings->reclaim_policy == SLAB_RECLAIM_BUDGET);
    ts_table_publish(a, id);
    if (settings->sample_rate) ts_store_relaxed(&ts_sample_rate, settings->sample_rate);
    if (settings->guard_spans) { /* guards would split the mappings of what is asked for, for good */
        ts_huge_give();
        ts_huge_leave_to_program();
    }
    if (settings->huge_pages != SLAB_HUGE_DEFAULT) {
        static _Atomic uint32_t advised; /* process-wide: the first allocator with a wish decides */
        if (!atomic_exchange(&advised, 1)) {
            ts_huge_leave_to_program();
            for (unsigned part = 0; part < TS_PARTS; part++) {
                size_t bytes = ts_part_bytes(part, ts_region_part_end(part));
                if (bytes) ts_os->huge_pages(ts_region.part[part].base, bytes, settings->huge_pages == SLAB_HUGE_ON);
            }
        }
    }
    if (settings->reserve_bytes) {
        /* Less than was asked for is no failure: memory can still be got when it is needed. */
        size_t bytes = settings->reserve_bytes;
        int error = errno;
        bool all = ts_allocator_reserve(a, bytes / TS_UNIT_BYTES + (bytes % TS_UNIT_BYTES != 0));
        if (!all && settings->reserve_by_env) warn_of_reserve(a, bytes);
        errno = error;
    }
    if (settings->background) ts_background_start();
    return a;
}

void ts_allocator_end(ts_allocator *a) {
    if (ts_barriers && ts_heap_any_other()) ts_barrier_or_wait(); /* partner: ts_epoch_show_in_time without its fence */
    end_all_in(a);
    /* One that is being read, or of a heap that another thread holds, is dropped by a later call of this thread. */
    if (ts_thread.heap && ts_heap_try_enter(ts_thread.heap)) {
        ts_heap_drop_dead_shares(ts_thread.heap);
        ts_heap_leave(ts_thread.heap);
    }
    if (ts_thread.settle == a) ts_thread.settle = NULL;
    ts_allocator_unpin(a);
}
