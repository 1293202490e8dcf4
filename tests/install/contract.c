/* Every name of the second contract's core, as programs write it: compiled as C11 and as C++17, and run. */
#include <tslab/stats.h>
#include <tslab/tslab.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(x) ((x) ? (void)0 : (void)(fprintf(stderr, "contract: line %d: %s\n", __LINE__, #x), exit(1)))

static int cleanups;
static void cleanup(void *arg) { cleanups += *(int *)arg; }
static bool show(void *object, size_t bytes, void *arg) {
    *(size_t *)arg += object != NULL ? bytes : 0;
    return true;
}
static char *formatted(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = slab_alloc_vprintf(format, arguments);
    va_end(arguments);
    return text;
}

static void objects(SlabAllocator *a) {
    EpochDomain *d = epoch_domain_create_ex(a, "contract", EPOCH_SCOPE);
    EpochId epoch = epoch_domain_epoch(d);
    MUST(epoch_domain_alloc(d, 10) != NULL);
    MUST(epoch_domain_enter(d));
    char *zero = (char *)slab_alloc_zero(4, 25);
    MUST(zero != NULL && zero[99] == 0);
    MUST((size_t)slab_alloc_aligned(256, 10) % 256 == 0);
    char *text = slab_alloc_strdup("text");
    MUST(strcmp(text, "text") == 0 && strcmp(slab_alloc_strndup("text", 2), "te") == 0);
    MUST(memcmp(slab_alloc_memdup("\0x", 2), "\0x", 2) == 0);
    MUST(strcmp(slab_alloc_printf("%d %s", 1, "one"), "1 one") == 0 && strcmp(formatted("%d", 2), "2") == 0);
    text = (char *)slab_alloc_resize(text, 5000);
    MUST(text != NULL && strcmp(text, "text") == 0 && slab_alloc_resize(NULL, 1) != NULL);
    void *p = slab_realloc_epoch(a, NULL, 10, epoch);
    MUST(p != NULL && (p = slab_realloc_epoch(a, p, 100, epoch)) != NULL);
    MUST((p = slab_realloc_aligned(a, p, 256, 50000)) != NULL && (size_t)p % 256 == 0);
    MUST(slab_release(p) && slab_release(NULL) && !slab_release(&cleanups));
    size_t bytes = 0;
    MUST(slab_walk(a, epoch, show, &bytes) > 5 && bytes > 100);
    MUST(epoch_domain_exit(d));
    epoch_domain_destroy(d);
}

static void domains(SlabAllocator *a) {
    int one = 1;
    EpochDomain *parent = epoch_domain_create(a), *other = epoch_domain_create(a);
    EpochDomain *child = epoch_domain_create_child(parent, "child", 0);
    MUST(child != NULL && epoch_domain_parent(child) == parent && epoch_domain_parent(parent) == NULL);
    MUST(epoch_domain_move(child, other) && epoch_domain_move(child, NULL) && epoch_domain_move(child, parent));
    MUST(!epoch_domain_move(parent, child) && errno == EINVAL);
    MUST(epoch_domain_on_destroy(child, cleanup, &one) && epoch_domain_on_destroy(parent, cleanup, &one));
    MUST(epoch_domain_off_destroy(parent, cleanup, &one) && !epoch_domain_off_destroy(parent, cleanup, &one));
    MUST(epoch_domain_set_limit(parent, 1 << 20) && epoch_set_limit(a, epoch_domain_epoch(child), 1 << 16));
    MUST(epoch_domain_alloc(child, 1 << 17) == NULL && errno == ENOMEM);
    MUST(epoch_domain_alloc(child, 100) != NULL && epoch_domain_held(parent) >= 100);
    SlabMark mark;
    MUST(epoch_domain_mark(parent, &mark));
    SlabMark copy = mark;
    MUST(copy.place == mark.place && copy.use == mark.use);
    void *p = epoch_domain_alloc(parent, 100);
    MUST(p != NULL && epoch_domain_rewind(parent, copy) && !slab_owns(a, p));
    SlabEpochStats stats;
    MUST(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch_domain_epoch(child), &stats));
    MUST(stats.parent_epoch_id == epoch_domain_epoch(parent) && stats.limit_bytes == 1 << 16);
    MUST(stats.limit_failures_total == 1);
    MUST(epoch_domain_end(parent) && cleanups == 1);
    MUST(!epoch_domain_end(child) && errno == EINVAL);
    EpochDomain *drains = epoch_domain_create_ex(a, "drains", EPOCH_DOMAIN_DRAIN);
    EpochId epoch = epoch_domain_epoch(drains);
    p = epoch_domain_alloc(drains, 10);
    MUST(epoch_domain_end(drains) && epoch_state(a, epoch) == EPOCH_CLOSING && slab_free(a, p));
    epoch_domain_destroy(other);
}

static void statistics(SlabAllocator *a) {
    SlabGlobalStats global;
    SlabClassStats cls;
    SlabThreadStats thread;
    SlabEpochStats epoch;
    MUST(slab_stats_global(a, &global) && slab_stats_global_sized(a, &global, sizeof global));
    MUST(slab_stats_class(a, 0, &cls) && slab_stats_class_sized(a, 0, &cls, sizeof cls));
    MUST(slab_stats_epoch_sized(a, SLAB_ALL_CLASSES, epoch_current(a), &epoch, sizeof epoch));
    MUST(slab_stats_thread_sized(&thread, sizeof thread) && slab_stats_thread().version == thread.version);
    PerfCounters perf;
    MUST(get_perf_counters(a, 0, &perf) && get_perf_counters_sized(a, 0, &perf, sizeof perf));
    MUST(perf.current_partial_miss == perf.current_partial_null + perf.current_partial_full);
    EpochId over = epoch_open(a, "over", EPOCH_CHURN);
    MUST(epoch_destroy(a, over) && slab_stats_epoch(a, SLAB_ALL_CLASSES, over, &epoch));
    MUST(epoch.state == EPOCH_CLOSED && epoch.ended_for_ns > 0 && epoch.returned_bytes == 0);
    bool (*plain)(SlabAllocator *, SlabGlobalStats *) = slab_stats_global;
    MUST(plain(a, &global));
    MUST(slab_set_sample_stacks(a, 1024) && slab_set_sample_stacks(a, 0));
    (void)slab_maintain(a, 1000000);
}

int main(void) {
    SlabOptions options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.strict = options.hints = options.background = 0;
    SlabAllocator *a = slab_allocator_create_ex(&options);
    MUST(a != NULL);
    objects(a);
    domains(a);
    statistics(a);
    slab_allocator_free(a);
    puts("contract: good");
    return 0;
}
