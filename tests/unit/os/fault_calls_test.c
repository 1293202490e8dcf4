/*
 * Every public function with the N-th call to the system refused, for every N until the call meets no refusal: once and
 * from then on, on a thread that has a heap and on one that has none. A call that fails says ENOMEM, after a refusal,
 * leaves every object as it was, and works when it is tried again; one that succeeds leaves errno alone, also after
 * refusals inside of it; at the end every unit is back in the pool.
 *
 * The table names the functions that the library exports (cmake/tslab.map): one that is missing here fails the test.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "pattern.h"
#include "proc.h"
#include "unit.h"

#include "os/os.h"
#include "region/region.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define NOTHING_REFUSED 42

/* ---- the table of the system ---------------------------------------------------------------------------- */

static atomic_bool armed;
static atomic_long calls_made, refusals;
static long refused_from;
static bool refused_on; /* from then on, not once */

static bool refuse(void) {
    if (!armed) {
        return false;
    }
    long n = atomic_fetch_add(&calls_made, 1) + 1;
    if (refused_on ? n < refused_from : n != refused_from) {
        return false;
    }
    atomic_fetch_add(&refusals, 1);
    return true;
}

/* The system itself refuses: the request is impossible, so that errno has the system's value. (An emulator may grant
   it.) */
static bool refused_call(bool (*call)(void *, size_t)) {
    size_t page = ts_os_page_bytes();
    bool done = call((void *)(uintptr_t)page, page); /* nothing is there */
    SUP_CHECK(!done || SUP_EMULATED, "granted");
    return false;
}

static void *fault_reserve(size_t bytes) { return ts_os_native.reserve(refuse() ? SIZE_MAX - 0xffff : bytes); }
#define FAULT(call)                                                                       \
    static bool fault_##call(void *at, size_t bytes) {                                    \
        return refuse() ? refused_call(ts_os_native.call) : ts_os_native.call(at, bytes); \
    }
FAULT(commit)
FAULT(protect)
FAULT(freeze)
FAULT(purge)
FAULT(populate)
#undef FAULT
static bool fault_barrier(void) { return !refuse() && ts_os_native.barrier_all(); }
static uint64_t fault_resident(void) { return refuse() ? 0 : ts_os_native.resident_bytes(); }
static uint64_t fault_room(void) { return refuse() ? 0 : ts_os_native.room_bytes(); }

/* A machine with two nodes. */
static unsigned fault_nodes(int *ids, unsigned most) {
    for (unsigned i = 0; i < 2 && i < most; i++) ids[i] = (int)i;
    return 2;
}
static int fault_here(void) { return refuse() ? -1 : 0; }
static bool fault_bind(void *at, size_t bytes, int node) {
    (void)at, (void)bytes, (void)node;
    return !refuse();
}
static bool fault_nodes_of(void *const *at, size_t count, int *node) {
    (void)at;
    memset(node, 0, count * sizeof *node);
    return !refuse();
}

static void install(void) {
    static ts_os_table table;
    table = ts_os_native;
    table.nodes = fault_nodes;
    table.node_here = fault_here;
    table.bind = fault_bind;
    table.nodes_of = fault_nodes_of;
    table.reserve = fault_reserve;
    table.commit = fault_commit;
    table.protect = fault_protect;
    table.freeze = fault_freeze;
    table.purge = fault_purge;
    table.populate = fault_populate;
    table.barrier_all = fault_barrier;
    table.resident_bytes = fault_resident;
    table.room_bytes = fault_room;
    ts_os = &table;
}

/* ---- the world -------------------------------------------------------------------------------------------- */

static SlabAllocator *a, *guarded, *sampled;
static EpochId churn, scope, doomed;
static EpochDomain *domain;
static void *object[6], *spare;
static SlabHandle handle;
static const size_t object_bytes[6] = {16, 100, 1000, 4096, 50000, 3 * MIB};

static void must(bool condition, const char *what) { SUP_CHECK(condition, "%s, errno %d", what, errno); }

static void make_world(void) {
    SlabOptions options = {
        .size = sizeof options, .guard_spans = 1, .reclaim_policy = SLAB_RECLAIM_AT_ONCE, .record_rss = 1};
    a = slab_allocator_create();
    guarded = slab_allocator_create_ex(&options);
    sampled = slab_allocator_create_ex(&(SlabOptions){.size = sizeof(SlabOptions), .sample_stacks = 1});
    must(a != NULL && guarded != NULL && sampled != NULL, "slab_allocator_create");
    must(slab_malloc(sampled, 1000) != NULL, "slab_malloc");
    SlabNodeStats nodes; /* from here on it is known that there are two */
    must(slab_stats_node(a, 1, &nodes), "slab_stats_node");
    churn = epoch_open(a, "churn", EPOCH_CHURN);
    scope = epoch_open(a, "scope", EPOCH_SCOPE);
    doomed = epoch_open(a, "doomed", EPOCH_CHURN);
    domain = epoch_domain_create_ex(a, "shared", EPOCH_DOMAIN_SHARED);
    for (unsigned i = 0; i < 6; i++) {
        object[i] = slab_malloc_epoch(a, object_bytes[i], i % 2 ? scope : churn);
        must(object[i] != NULL, "slab_malloc_epoch");
        sup_pattern_fill(object[i], object_bytes[i], i);
        for (unsigned k = 0; k < 30; k++) {
            must(slab_malloc_epoch(a, object_bytes[i] / 2, doomed) != NULL, "slab_malloc_epoch");
        }
    }
    spare = alloc_obj_epoch(a, 200, churn, &handle);
    must(spare != NULL, "alloc_obj_epoch");
    (void)slab_trim(a); /* nothing is retained: every need of memory asks the system */
}

static void check_objects(void) {
    for (unsigned i = 0; i < 6; i++) {
        SUP_CHECK(slab_owns(a, object[i]), "object %u is gone", i);
        SUP_CHECK(sup_pattern_check(object[i], object_bytes[i], i), "object %u has other bytes", i);
    }
}

static void end_world(void) {
    check_objects();
    /* This thread now gives the memory that the other could not take from it, as a barrier was refused. */
    slab_thread_idle();
    sup_check_identities(a);
    sup_check_identities(guarded);
    for (unsigned i = 0; i < 6; i++) {
        must(slab_free(a, object[i]), "slab_free");
    }
    slab_allocator_free(guarded);
    slab_allocator_free(sampled);
    slab_allocator_free(a);
    SlabAllocator *of_process = slab_allocator_default();
    must(of_process != NULL, "slab_allocator_default");
    sup_check_identities(of_process);
    (void)slab_trim(of_process);
    ts_pool_check();
    uint64_t left = ts_pool_used_units() - sup_committed_bytes(of_process) / TS_UNIT_BYTES;
    SUP_CHECK(left == 0, "%llu units belong to nobody", (unsigned long long)left);
}

/* ---- the calls: true, or false with errno -------------------------------------------------------------------- */

#define MANY 700 /* more than fit into one step of a table or of the lines */

static bool c_alloc_obj_epoch(void) {
    SlabHandle h = 1;
    void *p = alloc_obj_epoch(a, 60 * KIB, churn, &h);
    SUP_CHECK((p != NULL) == (h != SLAB_HANDLE_NONE), "address and handle");
    return p != NULL;
}
static bool c_epoch_advance(void) {
    for (int i = 0; i < 3; i++) {
        if (epoch_advance(a) == EPOCH_NONE) {
            return false;
        }
    }
    return true;
}
static bool c_epoch_close(void) {
    if (epoch_state(a, doomed) == EPOCH_ACTIVE) {
        must(epoch_close(a, doomed), "epoch_close");
    }
    SUP_CHECK(epoch_state(a, doomed) == EPOCH_CLOSING, "state");
    return true;
}
static bool c_epoch_current(void) { return epoch_current(a) != EPOCH_NONE; }
static bool c_epoch_destroy(void) {
    must(epoch_destroy(a, doomed), "epoch_destroy");
    SUP_CHECK(epoch_state(a, doomed) == EPOCH_CLOSED, "state");
    return true;
}
static bool c_epoch_domain_allocator(void) { return epoch_domain_allocator(domain) == a; }
static bool c_epoch_domain_create(void) {
    for (int i = 0; i < MANY; i++) {
        if (epoch_domain_create(a) == NULL) {
            return false;
        }
    }
    return true;
}
static bool c_epoch_domain_create_ex(void) {
    for (int i = 0; i < MANY; i++) {
        EpochDomain *d = epoch_domain_create_ex(a, "many", EPOCH_CHURN | EPOCH_DOMAIN_SHARED);
        if (d == NULL) {
            return false;
        }
        if (i % 2) {
            epoch_domain_destroy(d);
        }
    }
    return true;
}
static bool c_epoch_domain_current(void) { return epoch_domain_current() == NULL; }
static bool c_epoch_domain_destroy(void) {
    if (epoch_domain_epoch(domain) == EPOCH_NONE) {
        return true;
    }
    epoch_domain_destroy(domain);
    return epoch_domain_epoch(domain) == EPOCH_NONE;
}
static bool enter_and_exit(int depth) {
    int entered = 0;
    while (entered < depth && epoch_domain_enter(domain)) {
        entered++;
    }
    int error = errno;
    for (int i = 0; i < entered; i++) {
        must(epoch_domain_exit(domain), "epoch_domain_exit");
    }
    errno = error;
    SUP_CHECK(epoch_domain_current() == NULL, "still inside");
    return entered == depth;
}
static bool c_epoch_domain_enter(void) { return enter_and_exit(5000); }
static bool c_epoch_domain_exit(void) { return enter_and_exit(1); }
static bool c_epoch_domain_epoch(void) { return epoch_domain_epoch(domain) != EPOCH_NONE; }
static bool c_epoch_domain_force_close(void) {
    if (epoch_state(a, epoch_domain_epoch(domain)) == EPOCH_ACTIVE) {
        must(epoch_domain_force_close(domain), "epoch_domain_force_close");
    }
    return true;
}
static bool c_epoch_domain_hand_over(void) { return epoch_domain_hand_over(domain); }
static void nothing(void *unused) { (void)unused; }
static bool c_epoch_domain_on_destroy(void) {
    for (int i = 0; i < 5000; i++) {
        if (!epoch_domain_on_destroy(domain, nothing, NULL)) {
            return false;
        }
    }
    return true;
}
static bool c_epoch_domain_reset(void) {
    if (!epoch_domain_enter(domain)) {
        return false;
    }
    bool made = slab_alloc(1000) != NULL && slab_alloc(100000) != NULL;
    int error = errno;
    must(epoch_domain_exit(domain), "epoch_domain_exit");
    bool reset = epoch_domain_reset(domain, 0);
    if (!made) {
        errno = error;
    }
    return made && reset;
}
static bool c_epoch_domain_wrap(void) {
    for (int i = 0; i < MANY; i++) {
        EpochId opened = epoch_open(a, NULL, EPOCH_SCOPE);
        if (opened == EPOCH_NONE || epoch_domain_wrap(a, opened, true) == NULL) {
            return false;
        }
    }
    return true;
}
static bool c_epoch_open(void) {
    for (int i = 0; i < MANY; i++) {
        if (epoch_open(a, "many", i % 2 ? EPOCH_SCOPE : EPOCH_CHURN) == EPOCH_NONE) {
            return false;
        }
    }
    return true;
}
static bool c_epoch_state(void) { return epoch_state(a, churn) == EPOCH_ACTIVE; }
static bool c_free_obj(void) { return slab_handle_get(a, handle) == NULL || free_obj(a, handle); }
static bool c_get_perf_counters(void) {
    PerfCounters counters;
    return get_perf_counters(a, 0, &counters);
}
static bool c_slab_aligned_epoch(void) {
    for (size_t align = 1; align <= MIB; align *= 2) {
        void *p = slab_aligned_epoch(a, align, 5000, churn),
             *q = p ? slab_aligned_epoch(guarded, align, 5000, epoch_current(guarded)) : NULL;
        SUP_CHECK((uintptr_t)p % align == 0 && (uintptr_t)q % align == 0, "alignment");
        if (q == NULL) {
            return false;
        }
    }
    return true;
}
static bool c_slab_alloc(void) {
    if (slab_alloc(100) == NULL || slab_alloc(100000) == NULL || !epoch_domain_enter(domain)) {
        return false;
    }
    bool done = slab_alloc(100) != NULL && slab_alloc(100000) != NULL;
    int error = errno;
    must(epoch_domain_exit(domain), "epoch_domain_exit");
    errno = error;
    return done;
}
static bool c_slab_allocator_create(void) {
    for (int i = 0; i < 20; i++) {
        SlabAllocator *b = slab_allocator_create();
        if (b == NULL) {
            return false;
        }
        if (i % 2) {
            slab_allocator_free(b);
        }
    }
    return true;
}
static bool c_slab_allocator_create_ex(void) {
    SlabOptions options = {.size = sizeof options, .reserve_bytes = 5 * MIB, .huge_pages = SLAB_HUGE_OFF};
    SlabAllocator *b = slab_allocator_create_ex(&options);
    slab_allocator_free(b);
    return b != NULL;
}
static bool c_slab_allocator_default(void) { return slab_allocator_default() != NULL; }
static bool c_slab_allocator_free(void) {
    SlabAllocator *b = slab_allocator_create();
    if (b == NULL) {
        return false;
    }
    EpochId epoch = epoch_open(b, NULL, 0);
    bool made = epoch != EPOCH_NONE;
    for (size_t size = 10; made && size < MIB; size *= 3) {
        made = slab_malloc_epoch(b, size, epoch) != NULL;
    }
    int error = errno;
    slab_allocator_free(b);
    SUP_CHECK(epoch_current(b) == EPOCH_NONE, "an allocator that is freed");
    errno = error;
    return made;
}
static bool c_slab_calloc_epoch(void) {
    for (size_t size = 10; size < MIB; size *= 3) {
        void *p = slab_calloc_epoch(a, 3, size, churn);
        if (p == NULL) {
            return false;
        }
        SUP_CHECK(sup_zero_check(p, 3 * size), "not zero");
        memset(p, 1, 3 * size);
        must(slab_free(a, p), "slab_free");
    }
    return true;
}
static bool c_slab_class_count(void) { return slab_class_count() > 0; }
static bool c_slab_class_of(void) { return slab_class_of(100) >= 0; }
static bool c_slab_class_size(void) { return slab_class_size(0) > 0; }
static bool c_slab_epoch_set_label(void) { return slab_epoch_set_label(a, churn, "another"); }
static bool c_slab_epochs(void) {
    EpochId ids[8];
    return slab_epochs(a, ids, 8) >= 3;
}
static bool c_slab_free(void) {
    if (slab_owns(a, spare)) {
        must(slab_free(a, spare), "slab_free");
    }
    void *p = slab_malloc_epoch(guarded, 100000, epoch_current(guarded));
    return p != NULL && slab_free(guarded, p);
}
static bool c_slab_handle_get(void) { return slab_handle_get(a, handle) == spare; }
static bool c_slab_handle_of(void) { return slab_handle_of(a, spare) == handle; }
static bool c_slab_malloc(void) {
    for (size_t size = 10; size < 8 * MIB; size *= 3) {
        if (slab_malloc(a, size) == NULL || slab_malloc(guarded, size) == NULL) {
            return false;
        }
    }
    return true;
}
static bool c_slab_malloc_epoch(void) {
    for (size_t size = 1; size < 8 * MIB; size *= 3) {
        if (slab_malloc_epoch(a, size, churn) == NULL || slab_malloc_epoch(a, size, scope) == NULL) {
            return false;
        }
    }
    return true;
}
static bool c_slab_message(void) {
    slab_message(NULL);
    return true;
}
static bool c_slab_set_message_sink(void) {
    slab_set_message_sink(NULL, NULL);
    return true;
}
static bool c_slab_owns(void) { return slab_owns(a, spare) && !slab_owns(guarded, spare); }
static bool c_slab_promote(void) {
    if (!slab_owns(a, spare)) {
        return true;
    }
    sup_pattern_fill(spare, 200, 9);
    void *p = slab_promote(domain, spare);
    SUP_CHECK(slab_owns(a, spare) == (p == NULL), "moved or not");
    SUP_CHECK(sup_pattern_check(p ? p : spare, 200, 9), "other bytes");
    return p != NULL;
}
static bool c_slab_realloc(void) {
    static const size_t sizes[] = {300, 5000, 100000, 10, 3 * MIB, 0};
    for (unsigned i = 0; i < 6; i++) {
        size_t kept = slab_usable_size(a, spare) < sizes[i] ? slab_usable_size(a, spare) : sizes[i];
        sup_pattern_fill(spare, kept, i);
        void *p = slab_realloc(a, spare, sizes[i]);
        SUP_CHECK(slab_owns(a, p ? p : spare), "the object is gone");
        SUP_CHECK(sup_pattern_check(p ? p : spare, kept, i), "other bytes");
        if (p == NULL) {
            return false;
        }
        spare = p;
    }
    return true;
}
static bool c_slab_reserve(void) { return slab_reserve(a, 20 * MIB); }
static bool c_slab_set_budget(void) {
    must(slab_set_budget(a, 64 * KIB) && slab_set_budget(a, 0), "slab_set_budget");
    return true;
}
static bool c_slab_stats_class(void) {
    SlabClassStats stats;
    return slab_stats_class(a, SLAB_ALL_CLASSES, &stats);
}
static bool c_slab_stats_epoch(void) {
    SlabEpochStats stats;
    return slab_stats_epoch(a, SLAB_ALL_CLASSES, churn, &stats);
}
static bool c_slab_stats_global(void) {
    SlabGlobalStats stats;
    return slab_stats_global(a, &stats);
}
static char text[1 << 16];
static bool c_slab_stats_json(void) { return slab_stats_json(a, text, sizeof text) > 0; }
static bool c_slab_stats_prometheus(void) { return slab_stats_prometheus(a, text, sizeof text) > 0; }
static bool c_slab_stats_text(void) { return slab_stats_text(a, text, sizeof text) > 0; }
static bool c_slab_allocators(void) { return slab_allocators(NULL, 0) > 0; }
static bool c_slab_stacks(void) {
    SlabStackSample row;
    size_t n = slab_stacks(sampled, EPOCH_NONE, &row, 1);
    SUP_CHECK(n == 0 || (n == 1 && row.samples == 1 && row.frame_count > 0), "the one sample");
    return n == 1;
}
static bool c_slab_stack_totals(void) {
    SlabStackTotal row;
    size_t n = slab_stack_totals(sampled, &row, 1);
    return n == 0 || row.version == SLAB_STATS_VERSION;
}
static bool c_slab_stacks_json(void) { return slab_stacks_json(sampled, text, sizeof text) > 0; }
static bool c_slab_stacks_text(void) { return slab_stacks_text(sampled, text, sizeof text) > 0; }
static bool c_slab_stats_doctor(void) { return slab_stats_doctor(a, text, sizeof text) > 0; }
static bool c_slab_stats_dump_fd(void) {
    int fd = open("/dev/null", O_WRONLY);
    bool done = slab_stats_dump_fd(a, fd);
    int error = errno;
    (void)close(fd);
    errno = error;
    return done;
}
static bool c_slab_stats_epochs_json(void) {
    return slab_stats_epochs_json(a, SLAB_EPOCHS_LARGEST, 3, text, sizeof text) > 0;
}
static bool c_slab_stats_openmetrics(void) { return slab_stats_openmetrics(a, text, sizeof text) > 0; }
static bool c_slab_stats_view(void) { return slab_stats_view(a, text, sizeof text) > 0; }
static bool c_slab_stats_thread(void) { return slab_stats_thread().version == SLAB_STATS_VERSION; }
static bool c_slab_thread_idle(void) {
    slab_thread_idle();
    return true;
}
static bool c_slab_trim(void) {
    (void)slab_trim(a);
    (void)slab_trim(guarded);
    return true;
}
static bool c_slab_usable_size(void) { return slab_usable_size(a, spare) >= 200; }
static bool c_slab_version(void) { return slab_version()[0] != 0; }

#include "fault_family.h"

struct call {
    const char *name;
    bool (*run)(void);
};

/* clang-format off */
#define CALL(name) {#name, c_##name}
static const struct call calls[] = {
    CALL(alloc_obj_epoch), CALL(epoch_advance), CALL(epoch_close), CALL(epoch_current), CALL(epoch_destroy),
    CALL(epoch_domain_allocator), CALL(epoch_domain_create), CALL(epoch_domain_create_ex), CALL(epoch_domain_current),
    CALL(epoch_domain_destroy), CALL(epoch_domain_enter), CALL(epoch_domain_epoch), CALL(epoch_domain_exit),
    CALL(epoch_domain_force_close), CALL(epoch_domain_hand_over), CALL(epoch_domain_on_destroy),
    CALL(epoch_domain_reset), CALL(epoch_domain_wrap), CALL(epoch_open), CALL(epoch_state), CALL(free_obj),
    CALL(get_perf_counters), CALL(get_perf_counters_sized), CALL(slab_aligned_epoch), CALL(slab_alloc),
    CALL(slab_allocator_create),
    CALL(slab_allocator_create_ex), CALL(slab_allocator_default), CALL(slab_allocator_free), CALL(slab_calloc_epoch),
    CALL(slab_class_count), CALL(slab_class_of), CALL(slab_class_size), CALL(slab_epoch_set_label), CALL(slab_epochs),
    CALL(slab_free), CALL(slab_handle_get), CALL(slab_handle_of), CALL(slab_malloc), CALL(slab_malloc_epoch),
    CALL(slab_message), CALL(slab_owns), CALL(slab_set_message_sink),
    CALL(slab_promote), CALL(slab_realloc), CALL(slab_reserve), CALL(slab_set_budget),
    CALL(slab_allocators), CALL(slab_stats_doctor), CALL(slab_stats_dump_fd), CALL(slab_stats_epochs_json),
    CALL(slab_stack_totals), CALL(slab_stacks), CALL(slab_stacks_json), CALL(slab_stacks_text),
    CALL(slab_stats_openmetrics), CALL(slab_stats_view),
    CALL(slab_stats_class), CALL(slab_stats_epoch), CALL(slab_stats_global), CALL(slab_stats_json),
    CALL(slab_stats_prometheus), CALL(slab_stats_text), CALL(slab_stats_thread), CALL(slab_thread_idle),
    CALL(slab_trim), CALL(slab_usable_size), CALL(slab_version),
    CALL(epoch_domain_alloc), CALL(epoch_domain_off_destroy), CALL(slab_alloc_aligned), CALL(slab_alloc_zero),
    CALL(slab_alloc_resize), CALL(slab_alloc_memdup), CALL(slab_alloc_printf), CALL(slab_alloc_strdup),
    CALL(slab_alloc_strndup), CALL(slab_alloc_vprintf), CALL(slab_realloc_epoch), CALL(slab_realloc_aligned),
    CALL(slab_release), CALL(slab_walk),
    CALL(slab_maintain), CALL(slab_set_sample_stacks), CALL(slab_stats_global_sized), CALL(slab_stats_class_sized),
    CALL(slab_stats_epoch_sized), CALL(slab_stats_thread_sized),
    CALL(epoch_domain_create_child), CALL(epoch_domain_parent), CALL(epoch_domain_move), CALL(epoch_domain_end),
    CALL(epoch_domain_set_limit), CALL(epoch_set_limit), CALL(epoch_bind), CALL(slab_stats_node),
    CALL(slab_stats_node_sized), CALL(epoch_domain_held),
    CALL(epoch_domain_mark), CALL(epoch_domain_rewind),
};
/* clang-format on */
#define CALLS (sizeof calls / sizeof calls[0])

/* ---- running ---------------------------------------------------------------------------------------------------- */

struct attempt {
    const struct call *call;
    bool thread, retained;
};

static void *try_call(void *argument) {
    const struct call *call = argument;
    errno = EXDEV; /* nobody's here */
    atomic_store(&armed, true);
    bool worked = call->run();
    int error = errno;
    atomic_store(&armed, false);
    SUP_CHECK(!worked || error == EXDEV, "%s works, and leaves errno %d", call->name, error);
    if (!worked) {
        SUP_CHECK(atomic_load(&refusals) > 0, "%s failed with errno %d, and nothing was refused", call->name, error);
        SUP_CHECK(error == ENOMEM, "%s: errno %d, not ENOMEM", call->name, error);
        check_objects();
        SUP_CHECK(call->run(), "%s fails again with nothing refused: errno %d", call->name, errno);
    }
    check_objects();
    return NULL;
}

static void run_attempt(void *argument) {
    const struct attempt *attempt = argument;
    install();
    make_world();
    if (attempt->retained) {
        must(slab_reserve(a, MIB), "slab_reserve");
        must(slab_malloc_epoch(guarded, 100, epoch_open(guarded, NULL, 0)) != NULL, "slab_malloc_epoch");
    }
    if (attempt->thread) {
        sup_in_thread(try_call, (void *)(uintptr_t)attempt->call);
    } else {
        (void)try_call((void *)(uintptr_t)attempt->call);
    }
    end_world();
    _exit(atomic_load(&refusals) ? 0 : NOTHING_REFUSED);
}

static long refuse_in_turn(const struct call *call, bool thread, bool retained, bool on, long *failed) {
    struct attempt attempt = {call, thread, retained};
    char err[2048];
    refused_on = on;
    for (refused_from = 1; refused_from < 1000; refused_from += SUP_EMULATED && refused_from > 1 ? 29 : 1) {
        int status = sup_child(run_attempt, &attempt, SUP_CHILD_SECONDS, err, sizeof err);
        if (WIFEXITED(status) && WEXITSTATUS(status) == NOTHING_REFUSED) {
            return refused_from - 1;
        }
        if (status != 0) {
            print_error("%s%s%s, refused %s %ld: status %#x\n%s", call->name, thread ? ", new thread" : "",
                        retained ? ", retained" : "", on ? "from" : "at", refused_from, (unsigned)status, err);
            if (++*failed > 5) {
                break; /* the rest would say the same */
            }
        }
    }
    return refused_from;
}

static void every_call(void **state) {
    long refused = 0, failed = 0, met = 0;
    (void)state;
    for (size_t i = 0; i < CALLS; i++) {
        long of_this = 0;
        for (unsigned way = 0; way < 8; way++) {
            if (SUP_EMULATED ? way != i % 8 : (SUP_SANITIZED || !sup_long()) && way % 3 != i % 3) {
                continue;
            }
            of_this += refuse_in_turn(&calls[i], way & 1, way & 2, way & 4, &failed);
            assert_true(failed <= 5);
        }
        refused += of_this;
        met += of_this > 0;
    }
    print_message("%zu functions, %ld of them call the system, %ld calls refused in turn\n", CALLS, met, refused);
    assert_int_equal(failed, 0);
    assert_true(met > 15);
}

/* The same names in the same order as the version script. */
static void no_function_is_missing(void **state) {
    FILE *map = fopen(TSLAB_MAP, "r");
    char line[256];
    size_t next = 0;
    (void)state;
    assert_non_null(map);
    while (fgets(line, sizeof line, map) != NULL) {
        char name[128];
        if (sscanf(line, " %127[a-z_0-9];", name) != 1 || strstr(line, "};") != NULL || strchr(line, ':') != NULL ||
            strncmp(name, "ts_", 3) == 0) { /* not for programs */
            continue;
        }
        bool found = false;
        for (size_t i = 0; i < CALLS; i++) {
            found |= strcmp(calls[i].name, name) == 0;
        }
        if (!found) {
            fail_msg("%s is exported and not tried here", name);
        }
        next++;
    }
    (void)fclose(map);
    assert_int_equal(next, CALLS);
}

/* ---- budgets of every size --------------------------------------------------------------------------------------- */

/* As many objects of a size as go in; returns how many. Never over the budget. */
static unsigned fill_up(SlabAllocator *allocator, EpochId epoch, size_t size, size_t budget, void **into,
                        unsigned most) {
    unsigned n = 0;
    while (n < most) {
        errno = 0;
        void *p = slab_malloc_epoch(allocator, size, epoch);
        if (p == NULL) {
            SUP_CHECK(errno == ENOMEM, "errno %d", errno);
            SUP_CHECK(sup_committed_bytes(allocator) <= (budget < TS_UNIT_BYTES ? TS_UNIT_BYTES : budget),
                      "over the budget");
            return n;
        }
        memset(p, (int)n, size);
        into[n++] = p;
    }
    SUP_CHECK(false, "no end of %zu bytes under %zu", size, budget);
    return n;
}

static void budgets(void *unused) {
    enum { MOST = 40000 };
    static void *objects[MOST];
    static const size_t sizes[] = {16, 64, 1000, 4096, 5000, 8192, 16384, 40000};
    static const size_t in_churn[] = {1024, 256, 16, 4, 3, 2, 1, 1}; /* in a slab */
    (void)unused;
    /* Every number of units, and lengths between them, then ever larger steps. */
    for (size_t budget = 1; budget <= (SUP_SANITIZED ? 8u : 40u) * TS_UNIT_BYTES;
         budget += budget < 4 * TS_UNIT_BYTES ? 7 * KIB : budget / 3 + 1) {
        SlabOptions options = {.size = sizeof options, .budget_bytes = budget, .memory_tools = SLAB_TOOLS_OFF};
        SlabAllocator *allocator = slab_allocator_create_ex(&options);
        must(allocator != NULL, "slab_allocator_create_ex");
        for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
                EpochId epoch = epoch_open(allocator, NULL, flags);
                unsigned first = fill_up(allocator, epoch, sizes[s], budget, objects, MOST), again = first;
                size_t units = budget < TS_UNIT_BYTES ? 1 : budget / TS_UNIT_BYTES;
                size_t in_scope = sizes[s] > 8192 ? 1 : TS_UNIT_BYTES / ((sizes[s] + 15) / 16 * 16);
                size_t a_unit = flags == EPOCH_CHURN ? in_churn[s] : in_scope;
                size_t fit = units / ((sizes[s] + TS_UNIT_BYTES - 1) / TS_UNIT_BYTES) * a_unit;
                SUP_CHECK(first == fit, "%u objects of %zu bytes under %zu, not %zu", first, sizes[s], budget, fit);
                sup_check_identities(allocator);
                for (unsigned i = 0; i < first; i++) {
                    SUP_CHECK(*(unsigned char *)objects[i] == (unsigned char)i, "object %u has other bytes", i);
                    must(slab_free(allocator, objects[i]), "slab_free");
                }
                again = fill_up(allocator, epoch, sizes[s], budget, objects, MOST);
                SUP_CHECK(again == first, "%u objects of %zu bytes, then %u", first, sizes[s], again);
                must(epoch_destroy(allocator, epoch), "epoch_destroy");
                sup_check_empty(allocator);
            }
        }
        slab_allocator_free(allocator);
        ts_pool_check();
        SUP_CHECK(ts_pool_used_units() == 0, "%llu units are lost", (unsigned long long)ts_pool_used_units());
    }
}

static void budgets_of_every_size(void **state) {
    char err[1024] = "";
    (void)state;
    int status = sup_child(budgets, NULL, SUP_CHILD_SECONDS, err, sizeof err);
    if (status != 0) {
        fail_msg("status %#x: %s", (unsigned)status, err);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_function_is_missing),
        cmocka_unit_test(every_call),
        cmocka_unit_test(budgets_of_every_size),
    };
    return cmocka_run_group_tests_name("os.fault_calls", tests, NULL, NULL);
}
