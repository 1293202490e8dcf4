/*
 * The real acts of the requests, seen from outside: every malloc, slab_malloc... and free of the engine passes through
 * a wrapper here (the linker's --wrap), which notes which request an object came from and how many requests later it is
 * freed. The engine's own counts are compared with that.
 */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tslab/stats.h>
#include <tslab/tslab.h>

#include "bench_engine.h"
#include "check.h"
#include "report.h"

/* ---- counts of the wrappers ------------------------------------------------------------------- */

#define LIVE_MAX 200000u
#define LAGS_MAX 64u
#define THREADS_MAX 8u

typedef struct Seen {
    bool watching;
    uint64_t allocated;
    uint64_t freed;
    uint64_t unknown;        /* frees of dead objects */
    uint64_t lags[LAGS_MAX]; /* frees by the number of allocations since the object's own */
    uint64_t longer_lags;
    uint64_t small, hot; /* sizes outside [48, 768]; sizes of 128 */
    uint64_t sizes_hash; /* of the sizes of the first 1000 objects, in order */
    uint64_t domain_allocs, rolling_allocs, epoch_allocs;
    uint64_t domains_destroyed;
    uint64_t epoch_mixups; /* batch: objects of one batch in two epochs, or of two in one */
    uint64_t batch;        /* requests of one object; 0: not looked at */
    EpochId batch_epoch;
    EpochId last_epoch;
    pthread_t threads[THREADS_MAX];
    size_t thread_count;
} Seen;

static Seen seen; /* guarded by lock, like live */
static struct {
    void *object;
    uint64_t number;
} live[LIVE_MAX];
static size_t live_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void note_thread(void) {
    pthread_t self = pthread_self();
    for (size_t i = 0; i < seen.thread_count; i++)
        if (pthread_equal(seen.threads[i], self)) return;
    if (seen.thread_count < THREADS_MAX) seen.threads[seen.thread_count++] = self;
}

static void note_alloc(void *object, size_t bytes, uint64_t *kind) {
    if (!seen.watching || object == NULL) return;
    pthread_mutex_lock(&lock);
    note_thread();
    ++*kind;
    if (seen.allocated < 1000) seen.sizes_hash = (seen.sizes_hash ^ bytes) * UINT64_C(0x100000001b3);
    seen.small += bytes < 48 || bytes > 768;
    seen.hot += bytes == 128;
    if (live_count < LIVE_MAX) {
        live[live_count].object = object;
        live[live_count++].number = seen.allocated;
    }
    seen.allocated++;
    pthread_mutex_unlock(&lock);
}

static void note_free(void *object) {
    if (!seen.watching) return;
    pthread_mutex_lock(&lock);
    size_t at = live_count;
    while (at > 0 && live[at - 1].object != object) at--;
    if (at == 0) {
        seen.unknown++;
    } else {
        uint64_t lag = seen.allocated - 1 - live[at - 1].number;
        if (lag < LAGS_MAX)
            seen.lags[lag]++;
        else
            seen.longer_lags++;
        memmove(&live[at - 1], &live[at], (live_count - at) * sizeof live[0]);
        live_count--;
    }
    seen.freed++;
    pthread_mutex_unlock(&lock);
}

void *__real_malloc(size_t);
void __real_free(void *);
void *__real_slab_alloc(size_t);
void *__real_slab_malloc(SlabAllocator *, size_t);
void *__real_slab_malloc_epoch(SlabAllocator *, size_t, EpochId);
bool __real_slab_free(SlabAllocator *, void *);
void __real_epoch_domain_destroy(EpochDomain *);

void *__wrap_malloc(size_t);
void __wrap_free(void *);
void *__wrap_slab_alloc(size_t);
void *__wrap_slab_malloc(SlabAllocator *, size_t);
void *__wrap_slab_malloc_epoch(SlabAllocator *, size_t, EpochId);
bool __wrap_slab_free(SlabAllocator *, void *);
void __wrap_epoch_domain_destroy(EpochDomain *);

static uint64_t malloc_allocs;

void *__wrap_malloc(size_t bytes) {
    void *object = __real_malloc(bytes);
    note_alloc(object, bytes, &malloc_allocs);
    return object;
}

void __wrap_free(void *object) {
    note_free(object);
    __real_free(object);
}

void *__wrap_slab_alloc(size_t bytes) {
    void *object = __real_slab_alloc(bytes);
    note_alloc(object, bytes, &seen.domain_allocs);
    return object;
}

void *__wrap_slab_malloc(SlabAllocator *slab, size_t bytes) {
    void *object = __real_slab_malloc(slab, bytes);
    note_alloc(object, bytes, &seen.rolling_allocs);
    return object;
}

void *__wrap_slab_malloc_epoch(SlabAllocator *slab, size_t bytes, EpochId epoch) {
    void *object = __real_slab_malloc_epoch(slab, bytes, epoch);
    pthread_mutex_lock(&lock);
    if (seen.batch != 0) {
        bool first = seen.allocated % seen.batch == 0;
        seen.epoch_mixups += first ? epoch == seen.last_epoch : epoch != seen.batch_epoch;
        if (first) seen.batch_epoch = epoch;
    }
    seen.last_epoch = epoch;
    pthread_mutex_unlock(&lock);
    note_alloc(object, bytes, &seen.epoch_allocs);
    return object;
}

bool __wrap_slab_free(SlabAllocator *slab, void *object) {
    note_free(object);
    return __real_slab_free(slab, object);
}

void __wrap_epoch_domain_destroy(EpochDomain *domain) {
    pthread_mutex_lock(&lock);
    seen.domains_destroyed += seen.watching;
    pthread_mutex_unlock(&lock);
    __real_epoch_domain_destroy(domain);
}

/* ---- a run under watch ------------------------------------------------------------------------ */

static bench_hist latencies;
static BenchTotals totals;
static LeakReport leaks;
static size_t leaking_epochs_closing; /* epochs that hold objects and are EPOCH_CLOSING */
static uint64_t live_objects;         /* temporal-slab's count */
static bool rolling_kept;             /* the rolling epoch was the same before and after */

static BenchOptions preset(const char *pattern, WlAllocator allocator) {
    BenchOptions options;
    CHECK(bench_options_preset(pattern, &options), "%s", pattern);
    options.allocator = allocator;
    options.duration_s = 0.25;
    return options;
}

static void ask_allocator(SlabAllocator *slab) {
    static EpochId epochs[4096];
    SlabGlobalStats stats;
    CHECK(slab_stats_global(slab, &stats), "no statistics");
    live_objects = stats.live_objects;
    CHECK(leak_report_collect(slab, &leaks), "no leak report");
    size_t count = slab_epochs(slab, epochs, 4096);
    leaking_epochs_closing = 0;
    for (size_t i = 0; i < count && i < 4096; i++)
        leaking_epochs_closing += epoch_state(slab, epochs[i]) == EPOCH_CLOSING;
}

static void run(const BenchOptions *options, uint64_t batch) {
    SlabAllocator *slab = options->allocator == WL_TSLAB ? slab_allocator_create() : NULL;
    CHECK(options->allocator == WL_MALLOC || slab != NULL, "no allocator");
    BenchRun *bench = bench_create(options, slab);
    CHECK(bench != NULL, "no memory");
    memset(&latencies, 0, sizeof latencies);
    memset(&leaks, 0, sizeof leaks);
    memset(&seen, 0, sizeof seen);
    live_count = 0;
    live_objects = 0;
    EpochId rolling = slab != NULL ? epoch_current(slab) : EPOCH_NONE;
    seen.batch = batch;
    seen.watching = true;
    bool ran = bench_execute(bench, &totals, &latencies);
    seen.watching = false;
    CHECK(ran, "the run failed");
    rolling_kept = slab != NULL && epoch_current(slab) == rolling;
    if (slab != NULL) ask_allocator(slab);
    uint64_t leaked = bench_leaked_objects(bench);
    bench_destroy(bench);
    slab_allocator_free(slab);
    CHECK(totals.requests > 0 && totals.failures == 0 && totals.refused_frees == 0,
          "%" PRIu64 " requests, %" PRIu64 " failures, %" PRIu64 " refused", totals.requests, totals.failures,
          totals.refused_frees);
    CHECK(leaked == totals.objects - totals.freed, "%" PRIu64 " counted as leaked, %" PRIu64 " left", leaked,
          totals.objects - totals.freed);
    CHECK(latencies.count == totals.requests, "%" PRIu64 " latencies of %" PRIu64 " requests", latencies.count,
          totals.requests);
    CHECK(seen.allocated == totals.objects, "%" PRIu64 " allocated, %" PRIu64 " counted", seen.allocated,
          totals.objects);
    CHECK(seen.unknown == 0, "%" PRIu64 " frees of what is not live", seen.unknown);
}

/* ---- the policies ----------------------------------------------------------------------------- */

static void lag_frees_so_many_requests_later(WlAllocator allocator, const char *policy, EpochPolicy epochs,
                                             uint32_t lag) {
    BenchOptions options = preset("steady", allocator);
    options.objs_min = options.objs_max = 1; /* so an allocation is a request */
    options.lag = lag;
    options.epoch_policy = epochs;
    run(&options, 0);
    CHECK(totals.requests > 2 * lag, "only %" PRIu64 " requests", totals.requests);
    CHECK(seen.freed == seen.allocated, "%s: %" PRIu64 " of %" PRIu64 " freed", policy, seen.freed, seen.allocated);
    CHECK(seen.lags[lag] == seen.allocated - lag, "%s, lag %u: %" PRIu64 " of %" PRIu64, policy, lag, seen.lags[lag],
          seen.allocated);
    /* The last ones have no request left to wait for: one each of every shorter lag. */
    for (uint32_t shorter = 0; shorter < lag; shorter++)
        CHECK(seen.lags[shorter] == 1, "%s, lag %u: %" PRIu64 " freed after %u", policy, lag, seen.lags[shorter],
              shorter);
    CHECK(live_objects == 0, "%" PRIu64, live_objects);
}

static void within_req_frees_in_the_request(WlAllocator allocator, EpochPolicy epochs) {
    BenchOptions options = preset("burst", allocator);
    options.objs_min = options.objs_max = 10;
    options.epoch_policy = epochs;
    options.batch = 4;
    run(&options, 0);
    uint64_t seen_later = seen.longer_lags;
    for (size_t lag = 10; lag < LAGS_MAX; lag++) seen_later += seen.lags[lag];
    CHECK(seen_later == 0, "%" PRIu64 " freed in a later request", seen_later);
    CHECK(totals.freed == totals.objects, "%" PRIu64 " of %" PRIu64, totals.freed, totals.objects);
    CHECK(live_objects == 0, "%" PRIu64, live_objects);
    if (allocator == WL_TSLAB && epochs == POLICY_PER_REQ) {
        CHECK(seen.domains_destroyed == totals.requests, "%" PRIu64 " domains", seen.domains_destroyed);
        CHECK(seen.domain_allocs == totals.objects, "%" PRIu64 " in domains", seen.domain_allocs);
        CHECK(seen.freed == 0, "%" PRIu64 " freed one by one", seen.freed);
    } else {
        CHECK(seen.freed == totals.objects, "%" PRIu64 " freed", seen.freed);
    }
    if (allocator == WL_TSLAB && epochs == POLICY_MANUAL) {
        CHECK(seen.rolling_allocs == totals.objects, "%" PRIu64 " in the rolling epoch", seen.rolling_allocs);
        CHECK(rolling_kept, "the rolling epoch was advanced");
    }
}

static void leak_leaks_so_many_percent(WlAllocator allocator, double percent) {
    BenchOptions options = preset("leak", allocator);
    options.objs_min = options.objs_max = 100;
    options.leak_pct = percent;
    run(&options, 0);
    uint64_t leaked = seen.allocated - seen.freed;
    double fraction = percent / 100.0;
    double expected = fraction * (double)seen.allocated;
    double sigma = sqrt((double)seen.allocated * fraction * (1.0 - fraction));
    CHECK(fabs((double)leaked - expected) <= 5.0 * sigma, "%g %%: %" PRIu64 " of %" PRIu64 " leaked", percent, leaked,
          seen.allocated);
    CHECK(seen.freed == totals.freed, "%" PRIu64 " freed, %" PRIu64 " counted", seen.freed, totals.freed);
    CHECK(totals.leaked_bytes == leaked * 128, "%" PRIu64 " bytes of %" PRIu64 " objects", totals.leaked_bytes, leaked);
    if (allocator == WL_MALLOC) return;
    CHECK(live_objects == leaked && leaks.objects == leaked, "%" PRIu64 " live, %" PRIu64 " reported", live_objects,
          leaks.objects);
    CHECK(leaks.count == (leaked != 0), "%zu labels", leaks.count);
    if (leaked != 0) {
        CHECK(strcmp(leaks.rows[0].label, "req") == 0, "label \"%s\"", leaks.rows[0].label);
        CHECK(leaks.rows[0].epochs == leaking_epochs_closing, "%" PRIu64 " epochs leak, %zu are closing",
              leaks.rows[0].epochs, leaking_epochs_closing);
        CHECK(leaks.rows[0].epochs <= totals.requests, "%" PRIu64 " epochs", leaks.rows[0].epochs);
    }
}

static void a_batch_shares_one_epoch(void) {
    BenchOptions options = preset("steady", WL_TSLAB);
    options.objs_min = options.objs_max = 1;
    options.batch = 16;
    run(&options, 16);
    CHECK(seen.epoch_allocs == totals.objects, "%" PRIu64, seen.epoch_allocs);
    CHECK(seen.epoch_mixups == 0, "%" PRIu64 " objects in the wrong epoch", seen.epoch_mixups);
}

/* ---- the workload itself ---------------------------------------------------------------------- */

/* Of the first 1000 objects, however long that takes on a busy machine. */
static uint64_t first_sizes(BenchOptions *options, WlAllocator allocator, uint64_t seed) {
    options->allocator = allocator;
    options->seed = seed;
    for (options->duration_s = 0.1;; options->duration_s *= 4) {
        run(options, 0);
        if (seen.allocated >= 1000 || options->duration_s > 20) break;
    }
    CHECK(seen.allocated >= 1000, "%" PRIu64 " objects in %g s", seen.allocated, options->duration_s);
    return seen.sizes_hash;
}

static void both_allocators_get_the_same_requests(const char *pattern) {
    BenchOptions options = preset(pattern, WL_MALLOC);
    uint64_t with_malloc = first_sizes(&options, WL_MALLOC, 1);
    CHECK(first_sizes(&options, WL_TSLAB, 1) == with_malloc, "%s: other sizes", pattern);
    (void)first_sizes(&options, WL_TSLAB, 2);
    bool varies = options.size_min != options.size_max;
    CHECK(varies == (seen.sizes_hash != with_malloc), "%s: what a seed changes", pattern);
}

static void one_class_is_hot(void) {
    BenchOptions options = preset("hotspot", WL_MALLOC);
    run(&options, 0);
    double share = (double)seen.hot / (double)seen.allocated;
    double sigma = sqrt(0.8 * 0.2 / (double)seen.allocated);
    double expected = 0.8 + 0.2 / 721.0;
    CHECK(fabs(share - expected) <= 5.0 * sigma, "%g of the objects are hot", share);
    CHECK(seen.small == 0, "%" PRIu64 " sizes outside the range", seen.small);
    CHECK(seen.hot < seen.allocated, "no other size");
}

static void threads_run_and_the_rate_is_kept(WlAllocator allocator) {
    BenchOptions options = preset("burst", allocator);
    options.threads = 3;
    options.req_rate = 200;
    options.duration_s = 0.5;
    options.objs_min = options.objs_max = 3;
    run(&options, 0);
    CHECK(seen.thread_count == 3, "%zu threads", seen.thread_count);
    /* Never more than the rate; how many fewer is the machine's affair. */
    CHECK(totals.requests <= 100 && totals.requests >= 10, "%" PRIu64 " requests of 100", totals.requests);
    CHECK(totals.elapsed_ns >= 500 * WL_NS_PER_MS, "%" PRIu64 " ns", totals.elapsed_ns);
}

static void no_rate_is_as_fast_as_it_goes(WlAllocator allocator) {
    BenchOptions options = preset("kernel", allocator);
    options.duration_s = 0.1;
    options.objs_min = options.objs_max = 1;
    run(&options, 0);
    uint64_t paced = totals.requests;
    options.req_rate = 0;
    run(&options, 0);
    CHECK(totals.requests > 3 * paced, "%" PRIu64 " requests, paced %" PRIu64, totals.requests, paced);
}

int main(void) {
    for (int i = 0; i < 2; i++) {
        WlAllocator allocator = i == 0 ? WL_MALLOC : WL_TSLAB;
        lag_frees_so_many_requests_later(allocator, "batch", POLICY_BATCH, 8);
        lag_frees_so_many_requests_later(allocator, "per_req", POLICY_PER_REQ, 1);
        lag_frees_so_many_requests_later(allocator, "manual", POLICY_MANUAL, 33);
        within_req_frees_in_the_request(allocator, POLICY_PER_REQ);
        within_req_frees_in_the_request(allocator, POLICY_BATCH);
        within_req_frees_in_the_request(allocator, POLICY_MANUAL);
        leak_leaks_so_many_percent(allocator, 1.0);
        leak_leaks_so_many_percent(allocator, 0.0);
        leak_leaks_so_many_percent(allocator, 25.0);
        threads_run_and_the_rate_is_kept(allocator);
        no_rate_is_as_fast_as_it_goes(allocator);
    }
    a_batch_shares_one_epoch();
    both_allocators_get_the_same_requests("burst");
    both_allocators_get_the_same_requests("hotspot");
    one_class_is_hot();
    return check_result();
}
