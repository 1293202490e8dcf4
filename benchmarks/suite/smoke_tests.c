/*
 * The thing to run after a port: is the allocator correct with one thread, with eight, and does its speed look sane?
 * Each check runs in a process of its own, so that a crash is a failed check like any other. Exit 1 if one failed.
 */
#include "bench_clock.h"
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 8, THREAD_SLOTS = 1000, INBOX = 512, LARGEST_SMALL = 4200 };

static suite_csv *csv;
static struct {
    uint64_t operations;
    const char *only;
} options;

_Noreturn BENCH_PRINTF(2, 3) static void not_so(const char *condition, const char *format, ...) {
    char detail[256];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    suite_fail("not so: %s (%s)", condition, detail);
}

/* Fails the check with the condition's text and its subject. */
#define REQUIRE(condition, ...) ((condition) ? (void)0 : not_so(#condition, __VA_ARGS__))

/* ---- one thread ------------------------------------------------------------------------------- */

/* Every size around every class, and some large ones, all live at once. */
static void check_sizes(const void *unused) {
    (void)unused;
    enum { LARGE = 12, COUNT = LARGEST_SMALL + LARGE };
    void **objects = bench_map((COUNT + 1) * sizeof *objects);
    size_t *bytes = bench_map((COUNT + 1) * sizeof *bytes);
    peer_ref peer = peer_open();
    for (size_t i = 0; i <= COUNT; i++) {
        bytes[i] = i <= LARGEST_SMALL ? i : (size_t)5000 << (i - LARGEST_SMALL - 1);
        objects[i] = suite_alloc(peer, bytes[i]);
        /* other allocators align objects of less than 16 bytes to 8 */
        REQUIRE((uintptr_t)objects[i] % (PEER_HAS_DOMAINS || bytes[i] >= 16 ? 16 : 8) == 0, "object of %zu bytes at %p",
                bytes[i], objects[i]);
        REQUIRE(suite_usable_size(peer, objects[i]) >= bytes[i], "%zu bytes", bytes[i]);
        suite_fill(objects[i], bytes[i], (uint32_t)i);
    }
    for (size_t i = 0; i <= COUNT; i++)
        REQUIRE(suite_verify(objects[i], bytes[i], (uint32_t)i), "object of %zu bytes was overwritten", bytes[i]);
    for (size_t i = 0; i <= COUNT; i += 2) REQUIRE(peer_free(peer, objects[i]), "%zu bytes", bytes[i]);
    for (size_t i = 1; i <= COUNT; i += 2) {
        REQUIRE(suite_verify(objects[i], bytes[i], (uint32_t)i), "object of %zu bytes was overwritten", bytes[i]);
        REQUIRE(peer_free(peer, objects[i]), "%zu bytes", bytes[i]);
    }
    peer_close(peer);
}

typedef struct slot {
    unsigned char *object;
    uint32_t size, tag;
} slot;

static void fill_slot(peer_ref peer, slot *s, uint32_t size, uint32_t tag) {
    *s = (slot){suite_alloc(peer, size), size, tag};
    suite_fill(s->object, size, tag);
}

static void empty_slot(peer_ref peer, slot *s) {
    REQUIRE(suite_verify(s->object, s->size, s->tag), "object %p of %u bytes", (void *)s->object, s->size);
    REQUIRE(peer_free(peer, s->object), "object %p", (void *)s->object);
    s->object = NULL;
}

/* Random sizes in random order; no object may ever touch another. */
static void check_random(const void *unused) {
    (void)unused;
    bench_rng rng = {suite.seed};
    slot *slots = bench_map(THREAD_SLOTS * sizeof *slots);
    peer_ref peer = peer_open();
    for (uint64_t i = 0; i < suite_amount(500000, 500000, 20000); i++) {
        slot *s = &slots[bench_rng_below(&rng, THREAD_SLOTS)];
        if (s->object)
            empty_slot(peer, s);
        else
            fill_slot(peer, s, 1 + bench_rng_below(&rng, bench_rng_below(&rng, 100) == 0 ? 100000 : 1500), (uint32_t)i);
    }
    for (size_t i = 0; i < THREAD_SLOTS; i++)
        if (slots[i].object) empty_slot(peer, &slots[i]);
    peer_close(peer);
}

#if PEER_HAS_DOMAINS

static void check_realloc(const void *unused) {
    (void)unused;
    peer_ref peer = peer_open();
    unsigned char *zeroed = slab_calloc_epoch(peer.allocator, 100, 7, peer.epoch);
    REQUIRE(zeroed != NULL, "calloc");
    for (size_t i = 0; i < 700; i++) REQUIRE(zeroed[i] == 0, "byte %zu", i);
    errno = 0;
    volatile size_t half = SIZE_MAX / 2; /* the compiler is not to see that it cannot be had */
    REQUIRE(slab_calloc_epoch(peer.allocator, half, 3, peer.epoch) == NULL && errno == ENOMEM, "overflow");
    unsigned char *object = suite_alloc(peer, 1);
    size_t written = 1;
    object[0] = 1;
    /* grows by half and shrinks by a third, again and again; the written bytes stay */
    for (size_t size = 2; size < 1000000; size = size + size / 2) {
        const size_t steps[] = {size, size - size / 3};
        for (size_t k = 0; k < 2; k++) {
            object = slab_realloc(peer.allocator, object, steps[k]);
            REQUIRE(object != NULL, "%zu bytes", steps[k]);
            if (written > steps[k]) written = steps[k];
            for (size_t i = 0; i < written; i++)
                REQUIRE(object[i] == (unsigned char)(i * 7 + 1), "byte %zu of %zu", i, steps[k]);
            for (size_t i = written; i < steps[k]; i++) object[i] = (unsigned char)(i * 7 + 1);
            written = steps[k];
        }
    }
    for (size_t align = 16; align <= 65536; align *= 2) {
        void *aligned = slab_aligned_epoch(peer.allocator, align, 100, peer.epoch);
        REQUIRE(aligned != NULL && (uintptr_t)aligned % align == 0, "alignment %zu", align);
        REQUIRE(slab_free(peer.allocator, aligned), "alignment %zu", align);
    }
    REQUIRE(slab_free(peer.allocator, object) && slab_free(peer.allocator, zeroed), "free");
    peer_close(peer);
}

/* A free of a pointer to no live object: false, and nothing happens. */
static void check_misuse(const void *unused) {
    (void)unused;
    int on_stack = 0;
    bench_rng rng = {suite.seed};
    SlabAllocator *allocator = slab_allocator_create(), *other = slab_allocator_create();
    REQUIRE(allocator != NULL && other != NULL, "slab_allocator_create");
    EpochId epoch = epoch_open(allocator, "misuse", EPOCH_CHURN);
    SlabHandle handle = SLAB_HANDLE_NONE;
    unsigned char *object = alloc_obj_epoch(allocator, 200, epoch, &handle);
    REQUIRE(object != NULL && handle != SLAB_HANDLE_NONE, "alloc_obj_epoch");
    suite_fill(object, 200, 1);
    REQUIRE(!slab_free(allocator, &on_stack), "a variable on the stack");
    REQUIRE(!slab_free(allocator, object + 16) && !slab_free(allocator, object + 1), "inside of an object");
    REQUIRE(!slab_free(other, object), "another allocator's object");
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t garbage = bench_rng_next(&rng);
        void *near = object + (int64_t)(garbage % 2000000) - 1000000;
        REQUIRE(!slab_free(allocator, (void *)(uintptr_t)garbage), "garbage");
        REQUIRE(near == object || !slab_free(allocator, near), "%p beside an object", near);
        REQUIRE(garbage == handle || !free_obj(allocator, garbage), "a garbage handle");
    }
    REQUIRE(suite_verify(object, 200, 1) && slab_handle_get(allocator, handle) == object, "the object is untouched");
    REQUIRE(free_obj(allocator, handle), "the handle itself");
    REQUIRE(!free_obj(allocator, handle) && !slab_free(allocator, object), "twice");
    for (unsigned i = 0; i < 10000; i++) {
        unsigned char *again = slab_malloc_epoch(allocator, 200, epoch);
        REQUIRE(again != NULL && slab_handle_get(allocator, handle) == NULL, "a stale handle");
        REQUIRE(slab_free(allocator, again), "an object in its place");
    }
    slab_allocator_free(allocator);
    slab_allocator_free(allocator);
    REQUIRE(slab_malloc(allocator, 10) == NULL, "an allocator that is gone");
    slab_allocator_free(other);
}

static void check_epochs(const void *unused) {
    (void)unused;
    enum { OBJECTS = 5000 };
    void **objects = bench_map(OBJECTS * sizeof *objects);
    peer_ref peer = peer_open();
    for (unsigned round = 0; round < 20; round++) {
        EpochId epoch = epoch_open(peer.allocator, "round", round % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        peer_ref inside = {peer.allocator, epoch};
        for (size_t i = 0; i < OBJECTS; i++) {
            objects[i] = suite_alloc(inside, 20 + i % 700);
            suite_fill(objects[i], 20 + i % 700, (uint32_t)i);
        }
        for (size_t i = 0; i < OBJECTS; i++)
            REQUIRE(suite_verify(objects[i], 20 + i % 700, (uint32_t)i), "object %zu", i);
        if (round % 4 < 2) {
            REQUIRE(epoch_destroy(peer.allocator, epoch), "round %u", round);
        } else {
            REQUIRE(epoch_close(peer.allocator, epoch), "round %u", round);
            REQUIRE(epoch_state(peer.allocator, epoch) == EPOCH_CLOSING, "round %u", round);
            errno = 0;
            REQUIRE(slab_malloc_epoch(peer.allocator, 64, epoch) == NULL && errno == ESTALE, "round %u", round);
            for (size_t i = 0; i < OBJECTS; i++) REQUIRE(slab_free(peer.allocator, objects[i]), "object %zu", i);
        }
        REQUIRE(epoch_state(peer.allocator, epoch) == EPOCH_CLOSED, "round %u", round);
        for (size_t i = 0; i < OBJECTS; i++) REQUIRE(!slab_owns(peer.allocator, objects[i]), "object %zu", i);
        REQUIRE(suite_count(peer).live_objects == 0, "round %u", round);
    }
    peer_close(peer);
    bench_unmap(objects, OBJECTS * sizeof *objects);
}

static void check_domains(const void *unused) {
    (void)unused;
    SlabAllocator *allocator = slab_allocator_create();
    REQUIRE(allocator != NULL, "slab_allocator_create");
    for (unsigned round = 0; round < 100; round++) {
        EpochDomain *outer = epoch_domain_create(allocator), *inner = epoch_domain_create(allocator);
        REQUIRE(outer && inner && epoch_domain_enter(outer) && epoch_domain_enter(inner), "round %u", round);
        unsigned char *dies = slab_alloc(100), *moves = slab_alloc(100);
        REQUIRE(dies && moves, "round %u", round);
        suite_fill(moves, 100, 3);
        unsigned char *moved = slab_promote(outer, moves);
        REQUIRE(!epoch_domain_exit(outer), "the outer domain first");
        REQUIRE(epoch_domain_exit(inner), "the inner domain");
        epoch_domain_destroy(inner);
        REQUIRE(moved && suite_verify(moved, 100, 3) && slab_owns(allocator, moved), "a promoted object");
        REQUIRE(!slab_free(allocator, dies), "an object after its domain");
        REQUIRE(epoch_domain_exit(outer), "the outer domain");
        epoch_domain_destroy(outer);
        REQUIRE(!slab_owns(allocator, moved), "an object after its outer domain");
        REQUIRE(epoch_domain_current() == NULL, "no domain is entered");
    }
    slab_allocator_free(allocator);
}

#endif

/* ---- eight threads ---------------------------------------------------------------------------- */

typedef struct worker {
    peer_ref peer;
    struct worker *next;
    uint64_t operations, handed;
    bench_rng rng;
    slot slots[THREAD_SLOTS];
    /* Objects that another thread gave away: slots, themselves objects, and the objects in them. The previous thread
       puts, this one takes. */
    _Alignas(64) _Atomic(slot *) inbox[INBOX];
} worker;

static void take_parcels(worker *w) {
    for (size_t i = 0; i < INBOX; i++) {
        /* acquire: sees the writes before the release in run_worker */
        slot *s = atomic_exchange_explicit(&w->inbox[i], NULL, memory_order_acquire);
        if (s != NULL) {
            empty_slot(w->peer, s);
            REQUIRE(peer_free(w->peer, s), "parcel %p of another thread", (void *)s);
        }
    }
}

static void *run_worker(void *arg) {
    worker *w = arg;
    for (uint64_t i = 0; i < w->operations; i++) {
        slot *s = &w->slots[bench_rng_below(&w->rng, THREAD_SLOTS)];
        if (i % 4096 == 0) take_parcels(w);
        if (!s->object) {
            fill_slot(w->peer, s, 1 + bench_rng_below(&w->rng, 600), (uint32_t)i);
        } else if (bench_rng_below(&w->rng, 8) != 0) {
            empty_slot(w->peer, s);
        } else {
            slot *expected = NULL, *parcel_slot = suite_alloc(w->peer, sizeof *s);
            memcpy(parcel_slot, s, sizeof *s);
            /* release: publishes the parcel and the object that it names */
            if (atomic_compare_exchange_strong_explicit(&w->next->inbox[i % INBOX], &expected, parcel_slot,
                                                        memory_order_release, memory_order_relaxed)) {
                s->object = NULL;
                w->handed++;
            } else {
                REQUIRE(peer_free(w->peer, parcel_slot), "parcel %p", (void *)parcel_slot);
                empty_slot(w->peer, s);
            }
        }
    }
    for (size_t i = 0; i < THREAD_SLOTS; i++)
        if (w->slots[i].object) empty_slot(w->peer, &w->slots[i]);
    return NULL;
}

static void check_threads(const void *unused) {
    (void)unused;
    pthread_t ids[THREADS];
    worker *workers = bench_map(THREADS * sizeof *workers);
    uint64_t handed = 0;
    peer_ref peer = peer_open();
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].peer = peer;
        workers[i].next = &workers[(i + 1) % THREADS];
        workers[i].operations = options.operations;
        workers[i].rng.state = suite.seed * THREADS + i;
    }
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&ids[i], NULL, run_worker, &workers[i]) != 0) suite_fail("cannot start thread %u", i + 1);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        take_parcels(&workers[i]);
        handed += workers[i].handed;
    }
    REQUIRE(handed > 0, "no object went from one thread to another");
    suite_counters c = suite_count(peer);
    REQUIRE(!c.known || c.live_objects == 0, "%llu objects are live", (unsigned long long)c.live_objects);
    peer_close(peer);
    printf("     %d threads x %llu operations, %llu objects freed by another thread\n", THREADS,
           (unsigned long long)options.operations, (unsigned long long)handed);
}

/* ---- latency ---------------------------------------------------------------------------------- */

static void check_latency(const void *unused) {
    (void)unused;
    enum { LIVE = 2000 };
    uint64_t pairs = suite_amount(1000000, 1000000, 20000);
    void **objects = bench_map(LIVE * sizeof *objects);
    bench_rng rng = {suite.seed};
    bench_hist *allocs = bench_hist_create(), *frees = bench_hist_create(), *empty = bench_hist_create();
    suite_clock clock = suite_clock_start();
    peer_ref peer = peer_open();
    for (size_t i = 0; i < LIVE; i++) objects[i] = suite_alloc(peer, 128);
    for (uint64_t i = 0; i < pairs; i++) {
        void **victim = &objects[bench_rng_below(&rng, LIVE)];
        uint64_t a = bench_tick_begin(), b = bench_tick_end();
        bench_hist_add(empty, b - a);
        a = bench_tick_begin();
        bool freed = peer_free(peer, *victim);
        b = bench_tick_end();
        bench_hist_add(frees, b - a);
        REQUIRE(freed, "object %p", *victim);
        a = bench_tick_begin();
        *victim = suite_alloc(peer, 128);
        b = bench_tick_end();
        bench_hist_add(allocs, b - a);
    }
    for (size_t i = 0; i < LIVE; i++) REQUIRE(peer_free(peer, objects[i]), "object %p", objects[i]);
    peer_close(peer);
    double floor_ns = suite_percentile_ns(empty, 0.5, &clock, 0);
    const struct {
        const char *name;
        const bench_hist *hist;
    } rows[] = {{"allocation", allocs}, {"free", frees}};
    for (size_t i = 0; i < 2; i++)
        printf("     %-10s of 128 bytes: p50 %.1f, p99 %.1f, p99.9 %.1f, max %.0f ns (less %.1f for the clock)\n",
               rows[i].name, suite_percentile_ns(rows[i].hist, 0.5, &clock, floor_ns),
               suite_percentile_ns(rows[i].hist, 0.99, &clock, floor_ns),
               suite_percentile_ns(rows[i].hist, 0.999, &clock, floor_ns), (double)rows[i].hist->max * clock.tick_ns,
               floor_ns);
}

/* ---- main ------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    suite_phase *run;
} checks[] = {
    {"sizes", check_sizes},     {"random", check_random},
#if PEER_HAS_DOMAINS
    {"realloc", check_realloc}, {"misuse", check_misuse},   {"epochs", check_epochs}, {"domains", check_domains},
#endif
    {"threads", check_threads}, {"latency", check_latency},
};
enum { CHECK_COUNT = sizeof checks / sizeof checks[0] };

static void check_options(void) {
    for (size_t i = 0; options.only && i < CHECK_COUNT; i++)
        if (strcmp(options.only, checks[i].name) == 0) return;
    if (options.only) suite_usage("--check: there is no check '%s' for this allocator", options.only);
}

static const suite_option option_table[] = {
    {.name = "--operations",
     .value = "N",
     .help = "of each of eight threads (default 500000)",
     .number = &options.operations,
     .low = 1,
     .high = 1000000000},
    {.name = "--check", .value = "NAME", .help = "only this check", .text = &options.only},
};

static const suite_program self = {
    .name = "smoke_tests",
    .summary =
        "Correctness with one thread and with eight, and a first look at latency, in seconds. Exit 1 if a check\n"
        "fails.",
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .check = check_options,
};

int main(int argc, char **argv) {
    unsigned passed = 0, failed = 0;
    suite_begin(&self, argc, argv);
    if (options.operations == 0) options.operations = suite_amount(500000, 100000, 10000);
    csv = suite_csv_open(suite.csv, "allocator,check,result,seconds,version");
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        if (options.only && strcmp(options.only, checks[i].name) != 0) continue;
        suite_progress(true, "%s", checks[i].name);
        uint64_t begin_ns = bench_now_ns();
        bool ok = suite_try(checks[i].run, NULL) == 0;
        double seconds = (double)(bench_now_ns() - begin_ns) * 1e-9;
        printf("%-4s %-10s %6.2f s\n", ok ? "ok" : "FAIL", checks[i].name, seconds);
        suite_csv_line(csv, "%s,%s,%s,%.3f,%s", SUITE_ALLOCATOR, checks[i].name, ok ? "ok" : "failed", seconds,
                       suite.identity.version);
        ok ? passed++ : failed++;
    }
    printf("%s %s: %u passed, %u failed\n", SUITE_ALLOCATOR, suite.identity.version, passed, failed);
    suite_csv_commit();
    return failed == 0 ? 0 : BENCH_EXIT_FAILED;
}
