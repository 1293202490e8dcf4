/*
 * Preloaded before an allocator, or before none: how long each malloc, calloc and realloc of a program takes. A call
 * during which its thread has lost its processor is left out: its time is the scheduler's. Told by the kernel, which
 * takes a thread's restartable sequence away whenever the thread is preempted; without that (glibc before 2.35, an old
 * kernel) nothing is left out.
 *
 * At the end of the program a line goes to the file that MALLOC_TIMER names: calls, calls left out, then the median,
 * the 99.9th and the
 * 99.99th percentile, and the longest, in ns.
 */
#include "bench_clock.h"
#include "bench_hist.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define HAS_RSEQ 1
#endif
#endif

#define EXPORT __attribute__((visibility("default")))
#define HISTOGRAMS 512u /* threads at one time */

typedef struct record {
    _Atomic int taken; /* by a thread that lives */
    uint64_t left_out;
    bench_hist hist;
} record;

static record *records; /* constant once the program runs */
static _Thread_local record *mine;
static _Thread_local int busy; /* in a call of its own */
static pthread_key_t key;
static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static _Atomic int ready;

/* ---- the thread's histogram ------------------------------------------------------------------------------------------- */

static void let_go(void *arg) {
    record *r = arg;
    mine = NULL;
    atomic_store(&r->taken, 0);
}

__attribute__((noinline)) static record *take_record(void) {
    if (!atomic_load(&ready) || busy) return NULL;
    busy = 1;
    for (unsigned i = 0; i < HISTOGRAMS && !mine; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&records[i].taken, &none, 1)) mine = &records[i];
    }
    if (mine) (void)pthread_setspecific(key, mine);
    busy = 0;
    return mine;
}

/* ---- preemption ------------------------------------------------------------------------------------------------------- */

#ifdef HAS_RSEQ
/* A sequence that the thread is never in: the kernel takes a pointer to it away when it looks, at every preemption. It also looks for the
   signature before the address at which it would go on. */
static const uint32_t signature[2] = {RSEQ_SIG, 0};
static struct rseq_cs nowhere; /* constant once the program runs */
static void make_sequence(void) {
    nowhere.start_ip = (uintptr_t)&signature[0];
    nowhere.post_commit_offset = 1;
    nowhere.abort_ip = (uintptr_t)&signature[1];
}
static struct rseq *area(void) {
    return __rseq_size == 0 ? NULL : (struct rseq *)(void *)((char *)__builtin_thread_pointer() + __rseq_offset);
}
static void set_sequence(struct rseq *r, uint64_t to) {
    memcpy((char *)r + offsetof(struct rseq, rseq_cs), &to, sizeof to);
    __asm__ volatile("" ::: "memory");
}
static void watch(void) {
    struct rseq *r = area();
    if (r) set_sequence(r, (uintptr_t)&nowhere);
}
static int was_interrupted(void) {
    struct rseq *r = area();
    uint64_t now;
    if (!r) return 0;
    __asm__ volatile("" ::: "memory");
    memcpy(&now, (const char *)r + offsetof(struct rseq, rseq_cs), sizeof now);
    set_sequence(r, 0);
    return now == 0;
}
#else
static void make_sequence(void) {}
static void watch(void) {}
static int was_interrupted(void) { return 0; }
#endif

/* ---- calls -------------------------------------------------------------------------------------------------------------- */

static void count(record *r, uint64_t from, uint64_t to) {
    if (was_interrupted())
        r->left_out++;
    else
        bench_hist_add(&r->hist, to - from);
}

#define TIMED(call)                               \
    do {                                          \
        record *r_ = mine ? mine : take_record(); \
        if (!r_ || busy) return call;             \
        busy = 1;                                 \
        watch();                                  \
        uint64_t from_ = bench_tick_begin();      \
        void *p_ = call;                          \
        uint64_t to_ = bench_tick_end();          \
        count(r_, from_, to_);                    \
        busy = 0;                                 \
        return p_;                                \
    } while (0)

static void look_up(const char *name, void *function) {
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol) _exit(127);
    memcpy(function, &symbol, sizeof symbol);
}

/* While dlsym is at work, which may allocate, and before: never given back. */
static char early[65536];
static _Atomic size_t early_used;
static void *take_early(size_t bytes) {
    size_t at = atomic_fetch_add(&early_used, (bytes + 31) & ~(size_t)15);
    if (at + bytes > sizeof early) _exit(126);
    return early + at;
}
static int is_early(const void *p) { return (uintptr_t)p - (uintptr_t)early < sizeof early; }

static void find(void) {
    static _Atomic int looking;
    if (real_realloc || atomic_exchange(&looking, 1)) return;
    void *(*m)(size_t), *(*c)(size_t, size_t), *(*r)(void *, size_t);
    look_up("malloc", &m);
    look_up("calloc", &c);
    look_up("realloc", &r);
    real_malloc = m;
    real_calloc = c;
    real_realloc = r;
}

EXPORT void *malloc(size_t bytes) {
    if (!real_malloc) find();
    if (!real_malloc) return take_early(bytes);
    TIMED(real_malloc(bytes));
}

EXPORT void *calloc(size_t n, size_t bytes) {
    if (!real_calloc) find();
    if (!real_calloc) return take_early(n * bytes);
    TIMED(real_calloc(n, bytes));
}

EXPORT void *realloc(void *p, size_t bytes) {
    if (!real_realloc) find();
    if (!real_realloc || is_early(p)) {
        void *q = malloc(bytes);
        if (q && p)
            memcpy(q, p,
                   (size_t)(early + sizeof early - (char *)p) < bytes ? (size_t)(early + sizeof early - (char *)p)
                                                                      : bytes);
        return q;
    }
    TIMED(real_realloc(p, bytes));
}

/* Only for objects that were given out early. */
EXPORT void free(void *p) {
    static void (*real_free)(void *);
    if (!p || is_early(p)) return;
    if (!real_free) {
        void (*f)(void *);
        look_up("free", &f);
        real_free = f;
    }
    real_free(p);
}

/* ---- start and end -------------------------------------------------------------------------------------------------------- */

__attribute__((constructor)) static void start(void) {
    void *p = mmap(NULL, HISTOGRAMS * sizeof(record), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || pthread_key_create(&key, let_go) != 0 || !getenv("MALLOC_TIMER")) return;
    records = p;
    make_sequence();
    atomic_store(&ready, 1);
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("MALLOC_TIMER");
    if (!atomic_exchange(&ready, 0) || !path) return;
    busy = 1;
    static bench_hist all;
    uint64_t left_out = 0;
    for (unsigned i = 0; i < HISTOGRAMS; i++) {
        if (records[i].hist.count) bench_hist_merge(&all, &records[i].hist);
        left_out += records[i].left_out;
    }
    double ns = bench_clock_calibrate();
    uint64_t tick = bench_hist_step(&all);
    FILE *file = fopen(path, "a");
    if (!file) return;
    fprintf(file, "%llu %llu %.1f %.1f %.1f %.1f\n", (unsigned long long)all.count, (unsigned long long)left_out,
            ns * bench_hist_percentile(&all, 0.5, tick), ns * bench_hist_percentile(&all, 0.999, tick),
            ns * bench_hist_percentile(&all, 0.9999, tick), ns * (double)all.max);
    (void)fclose(file);
}
