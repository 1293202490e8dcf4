/*
 * Every call of the system table refused in turn. A scripted program that uses every public call runs in a fresh
 * process for N = 1, 2, 3, ... with the N-th call of one kind refused, once or from then on, until a run meets no
 * refusal. A call that fails sets ENOMEM after a refusal, changes no object, and succeeds at the next try; at the end
 * every unit is back in the pool.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "in_child.h"
#include "pattern.h"
#include "proc.h"
#include "unit.h"

#include "os/os.h"
#include "region/region.h"
#include "walk/check_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define NOTHING_REFUSED 42

/* ---- the table ---------------------------------------------------------------------------------------- */

typedef enum call { RESERVE, COMMIT, PURGE, POPULATE, BARRIER, CALLS } call;
static const char *const call_names[CALLS] = {"reserve", "commit", "purge", "populate", "barrier_all"};

/* Set before the runtime starts, but for `lifted`. */
static call refused_call;
static long refused_from;
static bool refused_on; /* from then on, not once */
static atomic_bool lifted;
static atomic_long call_count[CALLS];
static atomic_long refusals;

static bool refuse(call which) {
    long n = atomic_fetch_add(&call_count[which], 1) + 1;
    if (which != refused_call || lifted || (refused_on ? n < refused_from : n != refused_from)) {
        return false;
    }
    atomic_fetch_add(&refusals, 1);
    errno = EAGAIN; /* of the system's call: the library's answer is its own */
    return true;
}

static void *fault_reserve(size_t bytes) { return refuse(RESERVE) ? NULL : ts_os_native.reserve(bytes); }
static bool fault_commit(void *at, size_t bytes) { return !refuse(COMMIT) && ts_os_native.commit(at, bytes); }
static bool fault_purge(void *at, size_t bytes) { return !refuse(PURGE) && ts_os_native.purge(at, bytes); }
static bool fault_populate(void *at, size_t bytes) { return !refuse(POPULATE) && ts_os_native.populate(at, bytes); }
static bool fault_barrier(void) { return !refuse(BARRIER) && ts_os_native.barrier_all(); }

static ts_os_table fault_table;

static void install(void) {
    fault_table = ts_os_native;
    fault_table.reserve = fault_reserve;
    fault_table.commit = fault_commit;
    fault_table.purge = fault_purge;
    fault_table.populate = fault_populate;
    fault_table.barrier_all = fault_barrier;
    ts_os = &fault_table;
}

/* ---- objects ------------------------------------------------------------------------------------------ */

typedef struct object {
    SlabAllocator *allocator;
    unsigned char *address;
    size_t size;
    uint64_t key;
    EpochId epoch;
} object;

/* As support/pattern.h, for objects that are looked at thousands of times: whole words, the remaining bytes at the end,
   and only the ends of objects that are too large for a slab. */
static size_t next_word(size_t at, size_t size) { return at == 2048 && size > 8192 ? size / 8 * 8 - 2048 : at + 8; }

static void fill(unsigned char *p, size_t size, uint64_t key) {
    size_t at = 0;
    for (; at + 8 <= size; at = next_word(at, size)) {
        uint64_t word = (key + at) * 0x9e3779b97f4a7c15u;
        memcpy(p + at, &word, 8);
    }
    for (; at < size; at++) {
        p[at] = (unsigned char)(key + at);
    }
}

/* The first `kept` bytes of an object of `size`. */
static bool filled(const unsigned char *p, size_t size, size_t kept, uint64_t key) {
    size_t at = 0;
    for (; at + 8 <= size; at = next_word(at, size)) {
        uint64_t word;
        if (at + 8 > kept) {
            return true;
        }
        memcpy(&word, p + at, 8);
        if (word != (key + at) * 0x9e3779b97f4a7c15u) {
            return false;
        }
    }
    for (; at < kept; at++) {
        if (p[at] != (unsigned char)(key + at)) {
            return false;
        }
    }
    return true;
}

enum { MOST = 40000 };
static object objects[MOST];
static unsigned object_count;

static void check_objects(void) {
    for (unsigned i = 0; i < object_count; i++) {
        const object *o = &objects[i];
        SUP_CHECK(slab_owns(o->allocator, o->address), "object %u of %zu bytes is gone", i, o->size);
        SUP_CHECK(filled(o->address, o->size, o->size, o->key), "object %u of %zu bytes has other bytes", i, o->size);
    }
}

static void keep_in(SlabAllocator *allocator, void *address, size_t size, EpochId epoch) {
    SUP_CHECK(object_count < MOST, "more objects than there is room for");
    SUP_CHECK(slab_usable_size(allocator, address) >= size, "%zu bytes do not fit", size);
    object *o = &objects[object_count];
    *o = (object){allocator, address, size, object_count * 0x9e3779b97f4a7c15u + size, epoch};
    fill(address, size, o->key);
    object_count++;
}

static void keep(SlabAllocator *allocator, void *address, size_t size) {
    keep_in(allocator, address, size, EPOCH_NONE);
}

static void drop(unsigned index) {
    object *o = &objects[index];
    SUP_CHECK(index < object_count, "object %u of %u", index, object_count);
    SUP_CHECK(filled(o->address, o->size, o->size, o->key), "object %u has other bytes", index);
    SUP_CHECK(slab_free(o->allocator, o->address), "slab_free(object %u) is false", index);
    SUP_CHECK(!slab_free(o->allocator, o->address), "slab_free(object %u) is true again", index);
    *o = objects[--object_count];
}

/* Objects from `first` on die with their epoch. */
static void forget(unsigned first) { object_count = first; }

/* ---- one step ----------------------------------------------------------------------------------------- */

static void refused_well(const char *what, long before, int error) {
    SUP_CHECK(atomic_load(&refusals) > before, "%s failed with errno %d, and nothing was refused", what, error);
    SUP_CHECK(error == ENOMEM, "%s: errno %d, not ENOMEM", what, error);
    check_objects();
    atomic_store(&lifted, true);
}

/* The expression is false only after a refusal, with ENOMEM; then it is true at the second try. */
#define STEP(expression)                                                                            \
    do {                                                                                            \
        long before_ = atomic_load(&refusals);                                                      \
        errno = 0;                                                                                  \
        if (!(expression)) {                                                                        \
            refused_well(#expression, before_, errno);                                              \
            SUP_CHECK((expression), "%s fails with nothing refused: errno %d", #expression, errno); \
        }                                                                                           \
    } while (0)

static SlabAllocator *alloc_a, *alloc_b;

static void make(SlabAllocator *allocator, size_t size, EpochId epoch) {
    void *p;
    STEP((p = slab_malloc_epoch(allocator, size, epoch)) != NULL);
    keep_in(allocator, p, size, epoch);
}

static EpochId open_epoch(SlabAllocator *allocator, const char *label, unsigned flags) {
    EpochId id;
    STEP((id = epoch_open(allocator, label, flags)) != EPOCH_NONE);
    return id;
}

static void identities(SlabAllocator *allocator) {
    check_objects();
    sup_check_identities(allocator);
}

/* ---- the script --------------------------------------------------------------------------------------- */

static void churn_objects(EpochId epoch) {
    unsigned char *p;
    for (size_t i = 0; i < 3500; i++) {
        make(alloc_a, i * 37 % 4097, epoch);
    }
    STEP((p = slab_calloc_epoch(alloc_a, 100, 10, epoch)) != NULL);
    SUP_CHECK(sup_zero_check(p, 1000), "calloc is not zero");
    keep(alloc_a, p, 1000);
    STEP((p = slab_calloc_epoch(alloc_a, 100, 1000, epoch)) != NULL);
    SUP_CHECK(sup_zero_check(p, 100000), "calloc is not zero");
    keep(alloc_a, p, 100000);
    for (size_t align = 16; align <= MIB; align *= 4) {
        STEP((p = slab_aligned_epoch(alloc_a, align, 100, epoch)) != NULL);
        SUP_CHECK((uintptr_t)p % align == 0, "not aligned to %zu", align);
        keep(alloc_a, p, 100);
    }
    make(alloc_a, 60 * KIB, epoch);
    make(alloc_a, 5 * MIB, epoch);
    for (unsigned i = object_count; i-- > 0;) {
        if (i % 7 == 3) {
            drop(i);
        }
    }
    for (unsigned i = 0; i < object_count; i += 97) {
        object *o = &objects[i];
        size_t size = o->size + 5000;
        STEP((p = slab_realloc(o->allocator, o->address, size)) != NULL);
        SUP_CHECK(filled(p, o->size, o->size, o->key), "realloc lost bytes");
        o->address = p;
        o->size = size;
        fill(p, size, o->key);
    }
}

/* More than one step of growth of the part for small objects. */
static void small_objects(EpochId epoch) {
    enum { COUNT = 95000 };
    uint64_t *last = NULL;
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t *p;
        STEP((p = slab_malloc_epoch(alloc_a, 48, epoch)) != NULL);
        p[0] = (uint64_t)(uintptr_t)last;
        p[5] = i;
        last = p;
    }
    uint64_t seen = 0;
    for (uint64_t *p = last; p; p = (uint64_t *)(uintptr_t)p[0]) {
        SUP_CHECK(p[5] == COUNT - 1 - seen, "small object %llu has other bytes", (unsigned long long)seen);
        seen++;
    }
    SUP_CHECK(seen == COUNT, "%llu of %d small objects", (unsigned long long)seen, COUNT);
}

static void handles(EpochId epoch) {
    SlabHandle made[100];
    for (unsigned i = 0; i < 100; i++) {
        void *p;
        STEP((p = alloc_obj_epoch(alloc_a, 100 + i, epoch, &made[i])) != NULL);
        SUP_CHECK(slab_handle_get(alloc_a, made[i]) == p && slab_handle_of(alloc_a, p) == made[i], "handle %u", i);
    }
    for (unsigned i = 0; i < 100; i++) {
        SUP_CHECK(free_obj(alloc_a, made[i]) && !free_obj(alloc_a, made[i]), "free_obj %u", i);
    }
}

/* Enough of them that the tables and the lines grow. */
static void many_epochs(void) {
    enum { COUNT = 300 };
    static EpochId ids[COUNT];
    unsigned first = object_count;
    for (unsigned i = 0; i < COUNT; i++) {
        ids[i] = open_epoch(alloc_a, "many", i % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        SUP_CHECK(slab_epoch_set_label(alloc_a, ids[i], "one of many"), "slab_epoch_set_label");
        if (i % 2 == 0 || i % 10 == 1) {
            make(alloc_a, 100 + i, ids[i]);
        }
    }
    check_objects();
    for (unsigned i = 0; i < COUNT; i++) {
        SUP_CHECK(epoch_state(alloc_a, ids[i]) == EPOCH_ACTIVE, "epoch %u is not active", i);
        SUP_CHECK(epoch_destroy(alloc_a, ids[i]), "epoch_destroy %u", i);
        SUP_CHECK(epoch_state(alloc_a, ids[i]) == EPOCH_CLOSED, "epoch %u is not closed", i);
    }
    forget(first);
}

static void rolling(void) {
    EpochId id, next;
    void *p;
    STEP((id = epoch_current(alloc_a)) != EPOCH_NONE);
    STEP((p = slab_malloc(alloc_a, 200)) != NULL);
    STEP((next = epoch_advance(alloc_a)) != EPOCH_NONE);
    SUP_CHECK(next != id && epoch_state(alloc_a, id) == EPOCH_CLOSING, "the old epoch must drain");
    SUP_CHECK(slab_free(alloc_a, p), "slab_free");
    SUP_CHECK(epoch_state(alloc_a, id) == EPOCH_CLOSED, "the old epoch must be over");
    STEP((p = slab_malloc(alloc_a, 300)) != NULL);
    keep(alloc_a, p, 300);
}

static unsigned cleaned;
static void cleanup(void *number) { cleaned += *(unsigned *)number; }

static void domains(void) {
    enum { COUNT = 600 };
    static EpochDomain *many[COUNT];
    static unsigned one = 1;
    EpochDomain *outer, *inner, *wrap;
    void *p, *q;
    unsigned first = object_count;
    STEP((outer = epoch_domain_create(alloc_a)) != NULL);
    STEP((inner = epoch_domain_create_ex(alloc_a, "inner", EPOCH_DOMAIN_SHARED | EPOCH_CHURN)) != NULL);
    EpochId wrapped = open_epoch(alloc_a, "wrapped", EPOCH_SCOPE);
    STEP((wrap = epoch_domain_wrap(alloc_a, wrapped, true)) != NULL);
    STEP(epoch_domain_enter(outer));
    for (size_t i = 0; i < 500; i++) {
        STEP((p = slab_alloc(i * 11)) != NULL);
        keep(alloc_a, p, i * 11);
    }
    STEP(epoch_domain_enter(inner));
    STEP(epoch_domain_enter(wrap));
    SUP_CHECK(epoch_domain_current() == wrap && epoch_domain_epoch(wrap) == wrapped, "the innermost domain");
    STEP((p = slab_alloc(1000)) != NULL);
    fill(p, 1000, 77);
    STEP((q = slab_promote(outer, p)) != NULL);
    SUP_CHECK(filled(q, 1000, 1000, 77) && !slab_owns(alloc_a, p), "promote lost bytes");
    STEP(epoch_domain_on_destroy(wrap, cleanup, &one));
    SUP_CHECK(epoch_domain_exit(wrap) && epoch_domain_exit(inner) && epoch_domain_exit(outer), "epoch_domain_exit");
    cleaned = 0;
    SUP_CHECK(epoch_domain_reset(wrap, 0) && cleaned == 1, "epoch_domain_reset");
    SUP_CHECK(epoch_domain_hand_over(outer), "epoch_domain_hand_over");
    STEP(epoch_domain_enter(outer));
    SUP_CHECK(epoch_domain_exit(outer) && epoch_domain_allocator(outer) == alloc_a, "epoch_domain_exit");
    SUP_CHECK(epoch_domain_force_close(inner), "epoch_domain_force_close");
    check_objects();
    for (unsigned i = 0; i < COUNT; i++) {
        STEP((many[i] = epoch_domain_create_ex(alloc_a, NULL, 0)) != NULL);
        STEP(epoch_domain_on_destroy(many[i], cleanup, &one));
    }
    cleaned = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        epoch_domain_destroy(many[i]);
    }
    SUP_CHECK(cleaned == COUNT, "%u cleanups of %d", cleaned, COUNT);
    epoch_domain_destroy(wrap);
    epoch_domain_destroy(inner);
    epoch_domain_destroy(outer);
    forget(first);
}

/* Outside of any domain: the default allocator. */
static void ambient(void) {
    SlabAllocator *a;
    void *p;
    STEP((a = slab_allocator_default()) != NULL);
    STEP((p = slab_alloc(123)) != NULL);
    SUP_CHECK(slab_owns(a, p) && slab_free(a, p), "slab_alloc outside of any domain");
}

/* ---- a second thread ----------------------------------------------------------------------------------- */

static EpochId shared_epoch, closed_epoch, dead_epoch;
static pthread_barrier_t meeting;

static void meet(void) { (void)pthread_barrier_wait(&meeting); }

static void *other_thread(void *argument) {
    (void)argument;
    unsigned first = object_count;
    for (size_t i = 0; i < 1000; i++) {
        make(alloc_a, 100 + i % 5, shared_epoch);
    }
    for (unsigned i = 0; i < first && i < object_count; i += 3) {
        drop(i);
    }
    for (size_t i = 0; i < 300; i++) {
        make(alloc_a, 200, closed_epoch);
    }
    unsigned dead = object_count;
    for (size_t i = 0; i < 300; i++) {
        make(alloc_a, 700, dead_epoch);
    }
    forget(dead);
    meet(); /* the main thread closes one epoch and destroys the other */
    meet();
    for (unsigned i = object_count; i-- > 0;) {
        if (objects[i].epoch == closed_epoch) {
            drop(i);
        }
    }
    slab_thread_idle();
    return NULL;
}

static void two_threads(void) {
    pthread_t thread;
    shared_epoch = open_epoch(alloc_a, "shared", EPOCH_CHURN);
    closed_epoch = open_epoch(alloc_a, "closed", EPOCH_CHURN);
    dead_epoch = open_epoch(alloc_a, "dead", EPOCH_SCOPE);
    SUP_CHECK(pthread_barrier_init(&meeting, NULL, 2) == 0, "pthread_barrier_init");
    SUP_CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0, "pthread_create");
    meet();
    SUP_CHECK(epoch_close(alloc_a, closed_epoch), "epoch_close");
    SUP_CHECK(epoch_destroy(alloc_a, dead_epoch), "epoch_destroy");
    (void)slab_trim(alloc_a);
    for (unsigned i = 0; i < object_count; i += 5) {
        if (objects[i].size < 5000) {
            drop(i); /* objects of both threads */
        }
    }
    check_objects();
    meet();
    SUP_CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    SUP_CHECK(epoch_state(alloc_a, closed_epoch) == EPOCH_CLOSED, "the closed epoch holds nothing");
    for (size_t i = 0; i < 1000; i++) {
        make(alloc_a, 100, shared_epoch); /* adopts */
    }
    pthread_barrier_destroy(&meeting);
}

/* ---- memory on demand, statistics ---------------------------------------------------------------------- */

static void budget(EpochId epoch) {
    SUP_CHECK(slab_set_budget(alloc_a, sup_committed_bytes(alloc_a) + 64 * KIB), "slab_set_budget");
    errno = 0;
    SUP_CHECK(slab_malloc_epoch(alloc_a, 64 * MIB, epoch) == NULL && errno == ENOMEM, "over the budget");
    SUP_CHECK(slab_set_budget(alloc_a, 0), "slab_set_budget");
}

static void statistics(EpochId epoch) {
    SlabGlobalStats global;
    SlabClassStats class_stats;
    SlabEpochStats epoch_stats;
    PerfCounters counters;
    char text[256];
    EpochId ids[4];
    int cls = slab_class_of(100);
    SUP_CHECK(cls >= 0 && (size_t)cls < slab_class_count() && slab_class_size((uint32_t)cls) >= 100, "class of 100");
    SUP_CHECK(slab_stats_global(alloc_a, &global) && global.live_objects > 0, "slab_stats_global");
    SUP_CHECK(slab_stats_class(alloc_a, (uint32_t)cls, &class_stats), "slab_stats_class");
    SUP_CHECK(slab_stats_epoch(alloc_a, SLAB_ALL_CLASSES, epoch, &epoch_stats), "slab_stats_epoch");
    SUP_CHECK(get_perf_counters(alloc_a, (uint32_t)cls, &counters), "get_perf_counters");
    SUP_CHECK(slab_stats_thread().version == SLAB_STATS_VERSION, "slab_stats_thread");
    SUP_CHECK(slab_epochs(alloc_a, ids, 4) > 0, "slab_epochs");
    STEP(slab_stats_json(alloc_a, text, sizeof text) > 0); /* the other renderers begin in the same way */
    STEP(slab_stats_epochs_json(alloc_a, SLAB_EPOCHS_OLDEST, 5, text, sizeof text) > 0);
    STEP(slab_stats_view(alloc_a, NULL, 0) > 0);
    SUP_CHECK(slab_allocators(NULL, 0) >= 1, "slab_allocators");
}

/* More than fit in one step of the allocators' table; some end with memory in every kind of slab. */
static void many_allocators(void) {
    enum { COUNT = 17 };
    SlabAllocator *made[COUNT];
    unsigned first = object_count;
    for (unsigned i = 0; i < COUNT; i++) {
        STEP((made[i] = slab_allocator_create()) != NULL);
        if (i % 6 == 0) {
            make(made[i], 40, open_epoch(made[i], NULL, EPOCH_CHURN));
            make(made[i], 400, open_epoch(made[i], NULL, EPOCH_SCOPE));
            make(made[i], 40 * KIB, open_epoch(made[i], NULL, 0));
        }
    }
    check_objects();
    forget(first);
    for (unsigned i = 0; i < COUNT; i++) {
        slab_allocator_free(made[i]);
    }
}

static void script(void) {
    SlabOptions options = {
        .size = sizeof options, .reserve_bytes = MIB, .record_rss = 1, .reclaim_policy = SLAB_RECLAIM_AT_ONCE};
    STEP((alloc_a = slab_allocator_create()) != NULL);
    STEP((alloc_b = slab_allocator_create_ex(&options)) != NULL);
    EpochId churn = open_epoch(alloc_a, "churn", EPOCH_CHURN);
    churn_objects(churn);
    identities(alloc_a);
    EpochId small = open_epoch(alloc_a, "small", EPOCH_CHURN);
    small_objects(small);
    handles(churn);
    SUP_CHECK(epoch_destroy(alloc_a, small), "epoch_destroy");
    EpochId at_once = open_epoch(alloc_b, "at once", EPOCH_CHURN);
    unsigned first = object_count;
    for (size_t i = 0; i < 60; i++) {
        make(alloc_b, i * 100, at_once);
    }
    while (object_count > first + 10) {
        drop(object_count - 1);
    }
    SUP_CHECK(epoch_close(alloc_b, at_once), "epoch_close");
    STEP(slab_reserve(alloc_b, 2 * MIB));
    rolling();
    many_epochs();
    domains();
    ambient();
    two_threads();
    budget(churn);
    statistics(churn);
    many_allocators();
    (void)slab_trim(alloc_a);
    identities(alloc_a);
    identities(alloc_b);
    while (object_count > 0) {
        drop(object_count / 2);
    }
    SUP_CHECK(epoch_state(alloc_b, at_once) == EPOCH_CLOSED, "the closed epoch holds nothing");
    EpochId last;
    STEP((last = epoch_advance(alloc_a)) != EPOCH_NONE);
    SUP_CHECK(epoch_close(alloc_a, churn) && epoch_destroy(alloc_a, shared_epoch), "the last epochs");
    slab_allocator_free(alloc_b);

    /* From here on nothing is refused. */
    atomic_store(&lifted, true);
    sup_check_identities(alloc_a);
    sup_check_empty(alloc_a);
    (void)slab_trim(alloc_a);
    SUP_CHECK(sup_committed_bytes(alloc_a) == 0, "committed %llu bytes after a trim",
              (unsigned long long)sup_committed_bytes(alloc_a));
    slab_allocator_free(alloc_a);
    (void)slab_trim(slab_allocator_default());
    ts_pool_check();
    uint64_t left = ts_pool_used_units() - sup_committed_bytes(slab_allocator_default()) / TS_UNIT_BYTES;
    SUP_CHECK(left == 0, "%llu units belong to nobody", (unsigned long long)left);
}

static void run_script(void *argument) {
    (void)argument;
    install();
    script();
    sup_exit(atomic_load(&refusals) ? 0 : NOTHING_REFUSED);
}

/* All N of one kind; every N that fails is named. The short form and sanitized builds take some of them: the first,
   then each `step`-th. */
static void refuse_in_turn(call which, bool on) {
    char err[2048];
    long failed = 0;
    refused_call = which;
    refused_on = on;
    const long step = SUP_EMULATED ? 197 : SUP_SANITIZED ? 7 : sup_step(13);
    for (refused_from = 1;; refused_from += refused_from > (SUP_EMULATED ? 2 : 8) ? step : 1) {
        int status = sup_child(run_script, NULL, SUP_CHILD_SECONDS, err, sizeof err);
        if (WIFEXITED(status) && WEXITSTATUS(status) == NOTHING_REFUSED) {
            break;
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            failed++;
            print_error("%s refused %s %ld: status %#x\n%s", call_names[which], on ? "from" : "at", refused_from,
                        (unsigned)status, err);
            if (failed == 5) {
                break; /* the rest would say the same */
            }
        }
        assert_true(refused_from < 2000);
    }
    print_message("%s: %ld calls refused in turn\n", call_names[which], refused_from - 1);
    assert_int_equal(failed, 0);
    assert_true(refused_from > 1); /* the script meets every kind of call */
}

#define REFUSE(name, which)                         \
    static void name##_once(void **state) {         \
        (void)state;                                \
        refuse_in_turn(which, false);               \
    }                                               \
    static void name##_from_then_on(void **state) { \
        (void)state;                                \
        refuse_in_turn(which, true);                \
    }
REFUSE(reserve, RESERVE)
REFUSE(commit, COMMIT)
REFUSE(purge, PURGE)
REFUSE(populate, POPULATE)
REFUSE(barrier, BARRIER)

/* ---- refusals that go on --------------------------------------------------------------------------------- */

static bool refuse_data(void *at, size_t bytes) {
    const char *from = ts_region.part[TS_NORMAL].base;
    bool data = (char *)at >= from && (char *)at < from + (size_t)ts_region.part[TS_NORMAL].units * TS_UNIT_BYTES;
    return !data && ts_os_native.commit(at, bytes);
}

/* A refused purge is not counted, however often it is tried. */
static void refused_growth_counts_nothing(void *argument) {
    (void)argument;
    SlabAllocator *allocator = slab_allocator_create();
    EpochId epoch = epoch_open(allocator, NULL, 0);
    fault_table = ts_os_native;
    fault_table.commit = refuse_data;
    ts_os = &fault_table;
    SUP_CHECK(slab_malloc_epoch(allocator, 1000, epoch) == NULL && errno == ENOMEM, "refused");
    size_t metadata = ts_region_metadata_bytes();
    for (int i = 0; i < 50; i++) {
        SUP_CHECK(slab_malloc_epoch(allocator, 1000, epoch) == NULL && errno == ENOMEM, "refused");
    }
    SUP_CHECK(ts_region_metadata_bytes() == metadata, "metadata_bytes went from %zu to %zu by refusals", metadata,
              ts_region_metadata_bytes());
    SUP_CHECK(sup_committed_bytes(allocator) == 0, "committed");
    ts_os = &ts_os_native;
    SUP_CHECK(slab_malloc_epoch(allocator, 1000, epoch) != NULL, "after the refusals");
    SUP_CHECK(ts_region_metadata_bytes() <= 2 * metadata, "metadata_bytes counts a range twice");
    ts_pool_check();
}

/* slab_trim does not count memory that the system kept. */
static bool never(void *at, size_t bytes) {
    (void)at, (void)bytes;
    return false;
}

static void refused_purge_gives_nothing(void *argument) {
    size_t size = *(size_t *)argument;
    fault_table = ts_os_native;
    fault_table.purge = never;
    ts_os = &fault_table;
    SlabAllocator *allocator = slab_allocator_create();
    EpochId epoch = epoch_open(allocator, NULL, 0);
    SUP_CHECK(slab_free(allocator, slab_malloc_epoch(allocator, size, epoch)), "slab_free");
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    size_t committed = sup_committed_bytes(allocator), said = slab_trim(allocator);
    SUP_CHECK(said == 0, "slab_trim says %zu bytes", said);
    SUP_CHECK(sup_committed_bytes(allocator) == committed, "committed changed");
    ts_os = &ts_os_native;
    SUP_CHECK(slab_trim(allocator) == committed && sup_committed_bytes(allocator) == 0, "the trim that works");
}

static void growth_refused_again_and_again(void **state) {
    (void)state;
    sup_in_child(refused_growth_counts_nothing, NULL);
}

static void trim_while_purge_is_refused(void **state) {
    size_t slab = 100, span = 64 * KIB;
    (void)state;
    sup_in_child(refused_purge_gives_nothing, &slab);
    sup_in_child(refused_purge_gives_nothing, &span);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserve_once),
        cmocka_unit_test(reserve_from_then_on),
        cmocka_unit_test(commit_once),
        cmocka_unit_test(commit_from_then_on),
        cmocka_unit_test(purge_once),
        cmocka_unit_test(purge_from_then_on),
        cmocka_unit_test(populate_once),
        cmocka_unit_test(populate_from_then_on),
        cmocka_unit_test(barrier_once),
        cmocka_unit_test(barrier_from_then_on),
        cmocka_unit_test(growth_refused_again_and_again),
        cmocka_unit_test(trim_while_purge_is_refused),
    };
    return cmocka_run_group_tests_name("os.fault", tests, NULL, NULL);
}
