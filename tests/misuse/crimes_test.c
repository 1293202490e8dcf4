/*
 * One case per crime, each in a process of its own for each of the three modes of on_misuse: the answer, the exact
 * message, and that nothing is damaged.
 *
 *     crimes_test                          every case in every mode
 *     crimes_test --case NAME --mode MODE  one of them in this process: ignore, report or abort
 *
 * A case names the message it expects before it commits the crime. In mode ignore nothing may be written; in report
 * every expected line, and nothing else; in abort the first line, and the process ends by SIGABRT.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "proc.h"

#include "region/region.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define TEXT_BYTES 8192

/* Shared with the process that runs the case. */
struct expected {
    char text[TEXT_BYTES];
    size_t used;
    size_t first; /* length of the first line */
};

static struct expected *expected;
static int mode;
static int poisoned; /* the world's allocators have poison_on_free */

static struct {
    SlabAllocator *a, *b;
    EpochId churn, scope;
    EpochDomain *domain;
    char *neighbours[8]; /* live objects that no crime may touch */
} world;

#define NEIGHBOUR_BYTES 64u

SUP_PRINTF(1, 2) static void expect(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *at = expected->text + expected->used;
    int n = vsnprintf(at, TEXT_BYTES - expected->used, format, arguments);
    va_end(arguments);
    SUP_CHECK(n > 0 && (size_t)n + 2 < TEXT_BYTES - expected->used, "the expected text is too long");
    at[n] = '\n';
    at[n + 1] = 0;
    expected->used += (size_t)n + 1;
    if (expected->first == 0) {
        expected->first = expected->used;
    }
}

/* The line that is expected, the crime, its answer. */
#define FREE_CRIME(allocator, pointer, ...)                                                                    \
    do {                                                                                                       \
        void *crime_ = (pointer);                                                                              \
        char what_[256];                                                                                       \
        (void)snprintf(what_, sizeof what_, __VA_ARGS__);                                                      \
        expect("tslab: slab_free: pointer 0x%" PRIxPTR ": %s", (uintptr_t)crime_, what_);                      \
        SUP_CHECK(!slab_free(allocator, crime_), "slab_free says true");                                       \
        silent_queries(allocator, crime_);                                                                     \
        expect("tslab: slab_realloc: pointer 0x%" PRIxPTR ": %s", (uintptr_t)crime_, what_);                   \
        errno = 0;                                                                                             \
        SUP_CHECK(slab_realloc(allocator, crime_, 100) == NULL && errno == EINVAL, "slab_realloc: %d", errno); \
    } while (0)

#define HANDLE_CRIME(allocator, handle, ...)                                                       \
    do {                                                                                           \
        SlabHandle crime_ = (handle);                                                              \
        char what_[256];                                                                           \
        (void)snprintf(what_, sizeof what_, __VA_ARGS__);                                          \
        expect("tslab: free_obj: handle 0x%" PRIx64 ": %s", crime_, what_);                        \
        SUP_CHECK(!free_obj(allocator, crime_), "free_obj says true");                             \
        SUP_CHECK(slab_handle_get(allocator, crime_) == NULL, "slab_handle_get gives an address"); \
    } while (0)

/* Questions are no crimes: no message. */
static void silent_queries(SlabAllocator *allocator, void *pointer) {
    SUP_CHECK(slab_usable_size(allocator, pointer) == 0, "slab_usable_size is not 0");
    SUP_CHECK(!slab_owns(allocator, pointer), "slab_owns says true");
    SUP_CHECK(slab_handle_of(allocator, pointer) == SLAB_HANDLE_NONE, "slab_handle_of gives a handle");
}

static void *get(SlabAllocator *allocator, size_t size, EpochId epoch) {
    void *p = slab_malloc_epoch(allocator, size, epoch);
    SUP_CHECK(p != NULL, "slab_malloc_epoch(%zu): errno %d", size, errno);
    return p;
}

static void release(SlabAllocator *allocator, void *p) {
    SUP_CHECK(slab_free(allocator, p), "the free that is no crime");
}

/* Objects of 64 bytes until one is at p, which was one before. */
static void get_again(const void *p) {
    for (int i = 0; i < 2000; i++) {
        if (get(world.a, 64, world.churn) == p) {
            return;
        }
    }
    SUP_CHECK(false, "the place is not used again");
}

/* "epoch N "label"" of the world's epochs, in a buffer of its own for each. */
static const char *churn_text(void) {
    static char text[64];
    (void)snprintf(text, sizeof text, "epoch %" PRIu64 " \"churn\"", world.churn);
    return text;
}

static const char *scope_text(void) {
    static char text[64];
    (void)snprintf(text, sizeof text, "epoch %" PRIu64 " \"scope\"", world.scope);
    return text;
}

static void make_world(void) {
    /* Writes to freed memory are this test's purpose, and no fault for a tool to find. */
    SlabOptions options = {
        .size = sizeof options, .on_misuse = mode, .memory_tools = SLAB_TOOLS_OFF, .poison_on_free = poisoned};
    world.a = slab_allocator_create_ex(&options);
    world.b = slab_allocator_create_ex(&options);
    SUP_CHECK(world.a != NULL && world.b != NULL, "slab_allocator_create_ex");
    world.churn = epoch_open(world.a, "churn", EPOCH_CHURN);
    world.scope = epoch_open(world.a, "scope", EPOCH_SCOPE);
    for (unsigned i = 0; i < 8; i++) {
        world.neighbours[i] = get(world.a, NEIGHBOUR_BYTES, i % 2 ? world.scope : world.churn);
        memset(world.neighbours[i], (int)(i + 1), NEIGHBOUR_BYTES);
    }
}

static void check_world(void) {
    for (unsigned i = 0; i < 8; i++) {
        for (unsigned k = 0; k < NEIGHBOUR_BYTES; k++) {
            SUP_CHECK(world.neighbours[i][k] == (char)(i + 1), "byte %u of neighbour %u is damaged", k, i);
        }
        SUP_CHECK(slab_free(world.a, world.neighbours[i]), "neighbour %u is gone", i);
    }
    sup_check_identities(world.a);
    slab_allocator_free(world.a);
    slab_allocator_free(world.b);
}

/* ---- double free ---------------------------------------------------------------------------------------- */

/* A place of which a churn slab knows that it was freed: it is on the magazine of the calling thread, or its lives are
   counted. */
static const char *freed(bool known) {
    return known || poisoned ? "freed already" : "freed already, or never allocated";
}

static void double_free(int size) {
    void *p = get(world.a, (size_t)size, world.churn);
    release(world.a, p);
    FREE_CRIME(world.a, p, "freed already (class %u, %s)",
               (unsigned)slab_class_size((uint32_t)slab_class_of((size_t)size)), churn_text());
}

/* Other frees in between: in the magazine, behind the magazine, in a slab that was given back. */
static void double_free_distance(int distance) {
    enum { MOST = 20000 };
    static void *between[MOST];
    SUP_CHECK(distance <= MOST, "too far");
    void *p = get(world.a, 96, world.churn);
    for (int i = 0; i < distance; i++) {
        between[i] = get(world.a, 96, world.churn);
    }
    release(world.a, p);
    for (int i = 0; i < distance; i++) {
        release(world.a, between[i]);
    }
    enum { MAGAZINE = 64 };
    FREE_CRIME(world.a, p, "freed already (class 96, %s)", churn_text());
    if (distance > 0) {
        FREE_CRIME(world.a, between[distance - 1], "%s (class 96, %s)", freed(distance < MAGAZINE), churn_text());
        FREE_CRIME(world.a, between[distance / 2], "%s (class 96, %s)", freed(distance / 2 + 1 < MAGAZINE),
                   churn_text());
    }
}

/* Of three objects, freed in one order and freed again in another: `order` names one of the 36 pairs. */
static void double_free_order(int order) {
    static const int permutation[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    void *p[3];
    for (int i = 0; i < 3; i++) {
        p[i] = get(world.a, 200, world.churn);
    }
    for (int i = 0; i < 3; i++) {
        release(world.a, p[permutation[order / 6][i]]);
    }
    for (int i = 0; i < 3; i++) {
        FREE_CRIME(world.a, p[permutation[order % 6][i]], "freed already (class 208, %s)", churn_text());
    }
}

/* The place is another object by now; it may be freed once, by the first call. */
static void double_free_reused(int unused) {
    (void)unused;
    void *p = get(world.a, 64, world.churn);
    release(world.a, p);
    get_again(p);
    release(world.a, p);
    FREE_CRIME(world.a, p, "freed already (class 64, %s)", churn_text());
}

static void double_free_scope(int unused) {
    (void)unused;
    void *p = get(world.a, 100, world.scope), *q = get(world.a, 30, world.scope);
    release(world.a, p);
    FREE_CRIME(world.a, p, "freed already (scope of 112, %s)", scope_text());
    release(world.a, q);
    FREE_CRIME(world.a, q, "freed already (scope of 32, %s)", scope_text());
}

static void double_free_span(int kib) {
    void *p = get(world.a, (size_t)kib << 10, world.churn);
    size_t bytes = slab_usable_size(world.a, p);
    release(world.a, p);
    FREE_CRIME(world.a, p, "freed already (span of %zu, %s)", bytes, churn_text());
}

/* The first free came from another thread and waits for the owner. */
static void *free_in_thread(void *p) {
    release(world.a, p);
    return NULL;
}

static void double_free_foreign_first(int size) {
    void *p = get(world.a, (size_t)size, world.churn);
    sup_in_thread(free_in_thread, p);
    FREE_CRIME(world.a, p, "freed already (class %d, %s)", size, churn_text());
}

static void *crime_in_thread(void *p) {
    FREE_CRIME(world.a, p, "freed already (class 64, %s)", churn_text());
    return NULL;
}
static void *unknown_in_thread(void *p) {
    FREE_CRIME(world.a, p, "%s (class 64, %s)", freed(false), churn_text());
    return NULL;
}

static void double_free_foreign_second(int unused) {
    (void)unused;
    void *p = get(world.a, 64, world.churn);
    release(world.a, p);
    sup_in_thread(unknown_in_thread, p);
}

static void double_free_both_foreign(int unused) {
    (void)unused;
    void *p = get(world.a, 64, world.churn);
    sup_in_thread(free_in_thread, p);
    sup_in_thread(crime_in_thread, p);
}

/* ---- pointers that never were an object -------------------------------------------------------------------- */

static char static_bytes[64];

static void free_outside(int which) {
    char on_stack[64];
    char *mapped = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *from_malloc = malloc(100);
    SUP_CHECK(mapped != MAP_FAILED && from_malloc != NULL, "memory");
    uintptr_t object = (uintptr_t)world.neighbours[0];
    void *const places[] = {on_stack,
                            static_bytes,
                            mapped,
                            from_malloc,
                            (void *)(uintptr_t)&free_in_thread,
                            (void *)1,
                            (void *)15,
                            (void *)16,
                            (void *)UINTPTR_MAX,
                            (void *)(UINTPTR_MAX - 15),
                            (void *)(object ^ ((uintptr_t)1 << (8 * sizeof(void *) - 1))),
                            (void *)(object + ((uintptr_t)1 << (sizeof(void *) < 8 ? 30 : 46))),
                            on_stack + 1,
                            static_bytes + 8};
    SUP_CHECK((size_t)which < sizeof places / sizeof places[0], "which");
    FREE_CRIME(world.a, places[which], "not memory of temporal-slab");
    (void)munmap(mapped, 65536);
    free(from_malloc);
}
#define PLACES_OUTSIDE 14

static void never_allocated(int unused) {
    (void)unused;
    char *p = get(world.a, 1024, world.churn);
    char *unit = (char *)((uintptr_t)p & ~(uintptr_t)16383);
    char *other = p == unit ? unit + 15 * 1024 : unit + ((uintptr_t)p - (uintptr_t)unit + 8192) % 16384;
    FREE_CRIME(world.a, other, "freed already, or never allocated (class 1024, %s)", churn_text());
    p = get(world.a, 96, world.churn);
    unit = (char *)((uintptr_t)p & ~(uintptr_t)16383);
    FREE_CRIME(world.a, unit + 16384 - 16, "never allocated (class 96, %s)", churn_text());
    FREE_CRIME(world.a, unit + 16384 - 8, "never allocated (class 96, %s)", churn_text());
    p = get(world.a, 64, world.scope);
    FREE_CRIME(world.a, p + 64, "never allocated (scope, %s)", scope_text());
    FREE_CRIME(world.a, p + 4096, "never allocated (scope, %s)", scope_text());
}

static void never_used_memory(int unused) {
    (void)unused;
    /* Far behind everything that was ever handed out, in the same reservation. */
    char *p = (char *)((uintptr_t)world.neighbours[0] & ~(uintptr_t)16383) + 1024 * (size_t)16384;
    FREE_CRIME(world.a, p, "in memory that holds no object");
}

static const char *many(int n) { return n == 1 ? "" : "s"; }

static void interior(int offset) {
    char *p = get(world.a, 512, world.churn);
    FREE_CRIME(world.a, p + offset, "%d byte%s into a live object (class 512, %s)", offset, many(offset), churn_text());
    release(world.a, p);
    FREE_CRIME(world.a, p + offset, "%d byte%s into a freed object (class 512, %s)", offset, many(offset),
               churn_text());
}

static void interior_small(int offset) {
    char *p = get(world.a, 48, world.churn);
    FREE_CRIME(world.a, p + offset, "%d byte%s into a live object (class 48, %s)", offset, many(offset), churn_text());
    release(world.a, p);
}

static void interior_scope(int offset) {
    char *p = get(world.a, 512, world.scope);
    char *after = get(world.a, 16, world.scope);
    FREE_CRIME(world.a, p + offset, "%d byte%s into a live object (scope of 512, %s)", offset, many(offset),
               scope_text());
    release(world.a, p);
    FREE_CRIME(world.a, p + offset, "%d byte%s into a freed object (scope of 512, %s)", offset, many(offset),
               scope_text());
    release(world.a, after);
}

static void interior_large(int offset) {
    char *p = get(world.a, 40000, world.churn);
    FREE_CRIME(world.a, p + offset, "%d byte%s into a live object (class 49152, %s)", offset, many(offset),
               churn_text());
}

static void interior_span(int offset) {
    char *p = get(world.a, 100000, world.churn);
    FREE_CRIME(world.a, p + offset, "%d byte%s into a live object (span of 114688, %s)", offset, many(offset),
               churn_text());
    release(world.a, p);
}

/* ---- another allocator's, and after an end -------------------------------------------------------------------- */

static void foreign_allocator(int unused) {
    (void)unused;
    EpochId own = epoch_open(world.b, "of b", EPOCH_CHURN), scope = epoch_open(world.b, "b's scope", EPOCH_SCOPE);
    char *p = get(world.b, 100, own), *q = get(world.b, 100, scope), *r = get(world.b, 80000, own);
    FREE_CRIME(world.a, p, "an object of another allocator (class 112, epoch %" PRIu64 " \"of b\")", own);
    FREE_CRIME(world.a, q, "an object of another allocator (scope of 112, epoch %" PRIu64 " \"b's scope\")", scope);
    FREE_CRIME(world.a, r, "an object of another allocator (span of 81920, epoch %" PRIu64 " \"of b\")", own);
    FREE_CRIME(world.a, p + 16,
               "16 bytes into a live object of another allocator (class 112, epoch %" PRIu64 " \"of b\")", own);
    release(world.b, p);
    release(world.b, q);
    release(world.b, r);
}

static void not_an_allocator(int unused) {
    (void)unused;
    /* No allocator, so the mode is the environment's. */
    SlabAllocator *wrong = (SlabAllocator *)(uintptr_t)0x12345678u;
    char *p = world.neighbours[0];
    expect("tslab: slab_free: allocator 0x12345678: not an allocator; pointer 0x%" PRIxPTR
           ": an object of another allocator (class 64, %s)",
           (uintptr_t)p, churn_text());
    SUP_CHECK(!slab_free(wrong, p), "slab_free says true");
    expect("tslab: slab_realloc: allocator 0x0: not an allocator; pointer 0x%" PRIxPTR
           ": an object of another allocator (class 64, %s)",
           (uintptr_t)p, churn_text());
    errno = 0;
    SUP_CHECK(slab_realloc(NULL, p, 100) == NULL && errno == EINVAL, "slab_realloc");
    silent_queries(wrong, p);
    silent_queries(NULL, p);
}

static void after_destroy(int unused) {
    (void)unused;
    EpochId churn = epoch_open(world.a, "request", EPOCH_CHURN), scope = epoch_open(world.a, "frame", EPOCH_SCOPE);
    char *p = get(world.a, 100, churn), *small = get(world.a, 16, churn), *span = get(world.a, 80000, churn);
    char *s = get(world.a, 100, scope);
    (void)get(world.a, 16, scope);
    char *before = get(world.a, 100, churn);
    release(world.a, before);
    SUP_CHECK(epoch_destroy(world.a, churn) && epoch_destroy(world.a, scope), "epoch_destroy");
    FREE_CRIME(world.a, p, "freed with its epoch (class 112, epoch %" PRIu64 " \"request\", ended)", churn);
    FREE_CRIME(world.a, small, "freed with its epoch (class 16, epoch %" PRIu64 " \"request\", ended)", churn);
    FREE_CRIME(world.a, span, "freed with its epoch (span of 81920, epoch %" PRIu64 " \"request\", ended)", churn);
    FREE_CRIME(world.a, s, "freed with its epoch (scope, epoch %" PRIu64 " \"frame\", ended)", scope);
    FREE_CRIME(world.a, before, "%s (class 112, epoch %" PRIu64 " \"request\", ended)", freed(false), churn);
    FREE_CRIME(world.a, p + 16,
               "16 bytes into an object that was freed with its epoch (class 112, epoch %" PRIu64
               " \"request\", ended)",
               churn);
    /* Freed with its epoch, and the epoch's place is another's by now: the label is known no more. */
    EpochId last = EPOCH_NONE;
    for (int i = 0; i < 20; i++) {
        last = epoch_open(world.a, "next", EPOCH_SCOPE);
    }
    SUP_CHECK(last != EPOCH_NONE, "epoch_open");
    FREE_CRIME(world.a, p, "freed with its epoch (class 112, epoch %" PRIu64 ", ended)", churn);
}

/* The epoch ended by itself, with its last object. */
static void after_close(int unused) {
    (void)unused;
    EpochId churn = epoch_open(world.a, "batch", EPOCH_CHURN);
    char *p = get(world.a, 100, churn), *q = get(world.a, 100, churn);
    release(world.a, p);
    SUP_CHECK(epoch_close(world.a, churn), "epoch_close");
    FREE_CRIME(world.a, p, "%s (class 112, epoch %" PRIu64 " \"batch\", closed)", freed(false), churn);
    release(world.a, q);
    SUP_CHECK(epoch_state(world.a, churn) == EPOCH_CLOSED, "epoch_state");
    FREE_CRIME(world.a, p, "%s (class 112, epoch %" PRIu64 " \"batch\", ended)", freed(false), churn);
}

static void after_reset(int unused) {
    (void)unused;
    EpochDomain *domain = epoch_domain_create_ex(world.a, "loop", 0);
    EpochId epoch = epoch_domain_epoch(domain);
    char *p = get(world.a, 100, epoch);
    SUP_CHECK(epoch_domain_reset(domain, MIB), "epoch_domain_reset");
    FREE_CRIME(world.a, p, "freed with its epoch (scope, epoch %" PRIu64 " \"loop\")", epoch);
    epoch_domain_destroy(domain);
}

static void after_allocator_free(int unused) {
    (void)unused;
    EpochId epoch = epoch_open(world.b, "of b", EPOCH_CHURN);
    char *p = get(world.b, 100, epoch);
    slab_allocator_free(world.b);
    expect("tslab: slab_free: allocator 0x%" PRIxPTR ": freed already; pointer 0x%" PRIxPTR
           ": freed with its epoch (class 112, epoch %" PRIu64 " \"of b\", ended)",
           (uintptr_t)world.b, (uintptr_t)p, epoch);
    SUP_CHECK(!slab_free(world.b, p), "slab_free says true");
    FREE_CRIME(world.a, p, "freed with its epoch (class 112, epoch %" PRIu64 " \"of b\", ended)", epoch);
    silent_queries(world.b, p);
    slab_allocator_free(world.b);
}

/* ---- the rolling epoch, labels --------------------------------------------------------------------------------- */

static void labels(int unused) {
    (void)unused;
    EpochId rolling = epoch_current(world.a);
    void *p = slab_malloc(world.a, 64);
    release(world.a, p);
    FREE_CRIME(world.a, p, "freed already (class 64, epoch %" PRIu64 ")", rolling);
    SUP_CHECK(slab_epoch_set_label(world.a, rolling, "a \"b\" \\ c\nd"), "slab_epoch_set_label");
    FREE_CRIME(world.a, p, "freed already (class 64, epoch %" PRIu64 " \"a \\\"b\\\" \\\\ c?d\")", rolling);
    SUP_CHECK(slab_epoch_set_label(world.a, rolling, "0123456789012345678901234567890123456789"), "label");
    FREE_CRIME(world.a, p, "freed already (class 64, epoch %" PRIu64 " \"0123456789012345678901234567890\")", rolling);
    SUP_CHECK(epoch_advance(world.a) != EPOCH_NONE, "epoch_advance");
}

/* ---- handles ----------------------------------------------------------------------------------------------- */

#define GENERATION(n) ((uint64_t)(n) << 18)

static void *get_handle(size_t size, EpochId epoch, SlabHandle *handle) {
    void *p = alloc_obj_epoch(world.a, size, epoch, handle);
    SUP_CHECK(p != NULL, "alloc_obj_epoch");
    return p;
}

static void handle_double(int unused) {
    SlabHandle churn, scope, span;
    (void)unused;
    (void)get_handle(64, world.churn, &churn);
    (void)get_handle(64, world.scope, &scope);
    (void)get_handle(70000, world.churn, &span);
    SUP_CHECK(free_obj(world.a, churn) && free_obj(world.a, scope) && free_obj(world.a, span), "free_obj");
    HANDLE_CRIME(world.a, churn, "freed already (class 64, %s)", churn_text());
    HANDLE_CRIME(world.a, scope, "freed already (scope of 64, %s)", scope_text());
    HANDLE_CRIME(world.a, span, "freed already (span of 81920, %s)", churn_text());
}

static void handle_stale(int unused) {
    SlabHandle first, second;
    (void)unused;
    void *p = get_handle(64, world.churn, &first);
    SUP_CHECK(free_obj(world.a, first), "free_obj");
    get_again(p);
    second = slab_handle_of(world.a, p);
    SUP_CHECK(second != SLAB_HANDLE_NONE && second != first, "the same place, another handle");
    HANDLE_CRIME(world.a, first, "stale: freed already, and its place has had another object since (class 64, %s)",
                 churn_text());
    SUP_CHECK(free_obj(world.a, second), "free_obj");
    HANDLE_CRIME(world.a, first, "stale: freed already, and its place has had another object since (class 64, %s)",
                 churn_text());
    HANDLE_CRIME(world.a, second, "freed already (class 64, %s)", churn_text());
}

static void handle_forged(int unused) {
    SlabHandle h;
    (void)unused;
    void *p = get_handle(64, world.churn, &h);
    HANDLE_CRIME(world.a, h + GENERATION(1), "forged: this generation was never given out (class 64, %s)",
                 churn_text());
    HANDLE_CRIME(world.a, h ^ GENERATION(1u << 23), "forged: this generation was never given out (class 64, %s)",
                 churn_text());
    HANDLE_CRIME(world.a, h ^ (UINT64_C(1) << 3), "forged: no object has it (class 64, %s)", churn_text());
    HANDLE_CRIME(world.a, h ^ (UINT64_C(1) << 8), "forged: no object has it (class 64, %s)", churn_text());
    HANDLE_CRIME(world.a, h ^ 1u, "not a handle");
    HANDLE_CRIME(world.a, h ^ 2u, "not a handle");
    uint64_t units = ts_region.part[TS_NORMAL].units;
    SlabHandle of_no_slab = h & ((UINT64_C(1) << 42) - 1);
    HANDLE_CRIME(world.a, of_no_slab | (units - 1) << 42, "forged: this generation was never given out");
    HANDLE_CRIME(world.a, of_no_slab, "not a handle");
    HANDLE_CRIME(world.a, (h & ~(UINT64_C(31) << 3)) | 29u << 3, "not a handle");
    SUP_CHECK(slab_handle_get(world.a, h) == p && free_obj(world.a, h), "the handle itself");
}

static void handle_shifted(int unused) {
    SlabHandle h;
    (void)unused;
    (void)get_handle(64, world.churn, &h);
    HANDLE_CRIME(world.a, h << 1, "not a handle");
    HANDLE_CRIME(world.a, h << 8, "not a handle");
    HANDLE_CRIME(world.a, (uint32_t)h, "not a handle");
    HANDLE_CRIME(world.a, h & UINT64_C(0xffffff), "not a handle");
    HANDLE_CRIME(world.a, SLAB_HANDLE_NONE, "not a handle");
    HANDLE_CRIME(world.a, ~h & ~UINT64_C(7), "not a handle");
    SUP_CHECK(free_obj(world.a, h), "the handle itself");
    for (unsigned by = 1; by < 64; by++) { /* these are refused, with any message */
        SUP_CHECK(slab_handle_get(world.a, h << by) == NULL && slab_handle_get(world.a, h >> by) == NULL, "by %u", by);
    }
}

static void handle_after_ends(int unused) {
    SlabHandle h, of_b;
    (void)unused;
    EpochId epoch = epoch_open(world.a, "request", EPOCH_CHURN);
    (void)get_handle(64, epoch, &h);
    SUP_CHECK(epoch_destroy(world.a, epoch), "epoch_destroy");
    HANDLE_CRIME(world.a, h, "freed with its epoch (class 64, epoch %" PRIu64 " \"request\", ended)", epoch);
    EpochId own = epoch_open(world.b, "of b", EPOCH_SCOPE);
    void *p = alloc_obj_epoch(world.b, 64, own, &of_b);
    SUP_CHECK(p != NULL, "alloc_obj_epoch");
    HANDLE_CRIME(world.a, of_b, "an object of another allocator (scope of 64, epoch %" PRIu64 " \"of b\")", own);
    slab_allocator_free(world.b);
    expect("tslab: free_obj: allocator 0x%" PRIxPTR ": freed already; handle 0x%" PRIx64
           ": freed with its epoch (scope, epoch %" PRIu64 " \"of b\", ended)",
           (uintptr_t)world.b, of_b, own);
    SUP_CHECK(!free_obj(world.b, of_b), "free_obj says true");
}

/* Of a slab that has been another kind of slab since. */
static void handle_of_a_slab_used_again(int unused) {
    SlabHandle h;
    (void)unused;
    EpochId epoch = epoch_open(world.a, "request", EPOCH_CHURN);
    char *p = get_handle(64, epoch, &h);
    SUP_CHECK(epoch_destroy(world.a, epoch), "epoch_destroy");
    epoch = epoch_open(world.a, "next", EPOCH_SCOPE);
    bool found = false;
    for (int i = 0; i < 1000 && !found; i++) {
        char *q = get(world.a, 4000, epoch);
        found = ((uintptr_t)q ^ (uintptr_t)p) < 16384;
    }
    SUP_CHECK(found, "the slab was not used again");
    HANDLE_CRIME(world.a, h, "stale: its slab has had another use since");
}

/* ---- writes that are no business of the allocator's -------------------------------------------------------------- */

/* No message: nobody was asked. The structures of the allocator lie elsewhere, so all that follows works. */
static void write_after_free(int size) {
    unsigned char *p = get(world.a, (size_t)size, world.churn);
    release(world.a, p);
    memset(p, 0xff, (size_t)size);
    for (int i = 0; i < 1000; i++) {
        unsigned char *q = get(world.a, (size_t)size, world.churn);
        memset(q, i, (size_t)size);
        release(world.a, q);
    }
    SUP_CHECK(!slab_owns(world.a, p), "the freed object");
}

/* ---- with poison_on_free ------------------------------------------------------------------------------------ */

static void poison_written_after_free(int size) {
    unsigned char *p = get(world.a, (size_t)size, world.churn);
    int cls = slab_class_of((size_t)size);
    release(world.a, p);
    for (int i = 0; i < size; i++) {
        SUP_CHECK(p[i] == 0xdb, "byte %d is not filled", i);
    }
    p[size / 2] = 7;
    /* Every other slot of the slab comes before or after this one: no word of those. */
    expect("tslab: allocation: pointer 0x%" PRIxPTR ": written after free, at byte %d (class %u, %s)", (uintptr_t)p,
           size / 2, (unsigned)slab_class_size((uint32_t)cls), churn_text());
    for (int i = 0; i < 2000; i++) {
        if (get(world.a, (size_t)size, world.churn) == p) {
            return;
        }
    }
    SUP_CHECK(false, "the place is not used again");
}

static void poison_written_after_foreign_free(int unused) {
    (void)unused;
    unsigned char *p = get(world.a, 64, world.churn);
    sup_in_thread(free_in_thread, p);
    SUP_CHECK(p[0] == 0xdb && p[63] == 0xdb, "not filled");
    p[0] = 7;
    expect("tslab: allocation: pointer 0x%" PRIxPTR ": written after free, at byte 0 (class 64, %s)", (uintptr_t)p,
           churn_text());
    get_again(p);
}

static void poison_written_before(int unused) {
    (void)unused;
    unsigned char *p = get(world.a, 64, world.scope);
    p[64 + 9] = 7; /* behind it */
    expect("tslab: allocation: pointer 0x%" PRIxPTR ": written before it was allocated, at byte 9 (scope of 32, %s)",
           (uintptr_t)p + 64, scope_text());
    SUP_CHECK(get(world.a, 20, world.scope) == p + 64, "the next place");
    EpochId fresh = epoch_open(world.a, "fresh", EPOCH_CHURN);
    p = get(world.a, 1024, fresh);
    SUP_CHECK(p[0] == 0xdb && p[1023] == 0xdb, "what was never allocated is filled too");
    p[1024] = p[1025] = 0; /* the next slot, of which slot 15 of this slab has none */
    expect("tslab: allocation: pointer 0x%" PRIxPTR
           ": written before it was allocated, at byte 0 (class 1024, epoch %" PRIu64 " \"fresh\")",
           (uintptr_t)p + 1024, fresh);
    for (int i = 0; i < 16; i++) {
        (void)get(world.a, 1024, fresh);
    }
}

static void poison_span(int unused) {
    (void)unused;
    unsigned char *p = get(world.a, 100000, world.churn), *q = get(world.a, 100000, world.churn);
    memset(p, 1, 100000);
    release(world.a, p);
    SUP_CHECK(p[0] == 0xdb && p[99999] == 0xdb, "not filled");
    p[77777] = 7;
    expect("tslab: allocation: pointer 0x%" PRIxPTR ": written after free, at byte 77777 (span of 114688, %s)",
           (uintptr_t)p, churn_text());
    SUP_CHECK(get(world.a, 100000, world.churn) == p, "the retained span");
    release(world.a, p);
    SUP_CHECK(get(world.a, 100000, world.churn) == p, "the retained span, in order"); /* no second line */
    unsigned char *zero = q;
    release(world.a, q);
    zero = slab_calloc_epoch(world.a, 1, 100000, world.churn);
    SUP_CHECK(zero == q, "the retained span");
    for (int i = 0; i < 100000; i++) {
        SUP_CHECK(zero[i] == 0, "byte %d of a zeroed span", i);
    }
}

/* An object that dies with its epoch is filled as well. */
static void poison_epoch(int flags) {
    EpochId epoch = epoch_open(world.a, "request", (unsigned)flags);
    unsigned char *p[200];
    for (int i = 0; i < 200; i++) {
        p[i] = get(world.a, 300, epoch);
        memset(p[i], i, 300);
    }
    SUP_CHECK(epoch_destroy(world.a, epoch), "epoch_destroy");
    for (int i = 0; i < 200; i++) {
        SUP_CHECK(p[i][0] == 0xdb && p[i][299] == 0xdb, "object %d is not filled", i);
    }
}

/* ... and looked at when its slab is taken again, as is a slab whose objects were freed one by one. */
static void poison_written_after_the_end(int how) {
    enum { COUNT = 100 };
    unsigned char *p[COUNT];
    EpochId epoch = epoch_open(world.a, "request", how % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
    for (int i = 0; i < COUNT; i++) {
        p[i] = get(world.a, 1000, epoch);
    }
    for (int i = 0; how >= 2 && i < COUNT; i++) {
        release(world.a, p[i]);
    }
    SUP_CHECK(how >= 2 ? epoch_close(world.a, epoch) : epoch_destroy(world.a, epoch), "the end");
    SUP_CHECK(p[50][20] == 0xdb, "not filled");
    p[50][20] = p[50][21] = 7;
    expect("tslab: allocation: address 0x%" PRIxPTR
           ": written after its object was freed or its epoch had ended, in a slab that is taken again now",
           (uintptr_t)p[50] + 20);
    EpochId next = epoch_open(world.a, "next", EPOCH_SCOPE);
    for (int i = 0; i < 4 * COUNT; i++) {
        (void)get(world.a, 1000, next);
    }
    SUP_CHECK(epoch_destroy(world.a, next), "epoch_destroy");
}

/* Nothing is said where nothing was written: every kind of use, over and over. */
static void poison_clean(int unused) {
    enum { COUNT = 500 };
    static unsigned char *p[COUNT];
    (void)unused;
    SUP_CHECK(slab_reserve(world.a, 1 << 20), "slab_reserve");
    for (int round = 0; round < 6; round++) {
        EpochId epoch = epoch_open(world.a, "round", round % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        for (int i = 0; i < COUNT; i++) {
            size_t size = (size_t)i * (size_t)(round + 1) * 3;
            p[i] = i % 7 ? get(world.a, size, epoch) : slab_aligned_epoch(world.a, 128, size, epoch);
            memset(p[i], i, size);
        }
        for (int i = 0; i < COUNT; i += 2) {
            release(world.a, p[i]);
        }
        for (int i = 1; i < COUNT; i += 2) {
            p[i] = slab_realloc(world.a, p[i], (size_t)(i * 5));
            memset(p[i], 9, (size_t)(i * 5));
        }
        if (round % 3 == 0) {
            (void)slab_trim(world.a);
        }
        SUP_CHECK(epoch_destroy(world.a, epoch), "epoch_destroy");
    }
}

static void overflow(int underflow) {
    enum { COUNT = 200 }; /* in any order: more than a slab of those of 96 bytes has */
    unsigned char *p[COUNT];
    const size_t sizes[] = {16, 64, 96, 1024};
    for (unsigned s = 0; s < 4; s++) {
        size_t size = sizes[s];
        EpochId epoch = epoch_open(world.a, "overflow", s % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        for (int i = 0; i < COUNT; i++) {
            p[i] = get(world.a, size, epoch);
            memset(p[i], i, size);
        }
        unsigned char *neighbour = NULL;
        unsigned char *victim = p[50];
        for (int i = 0; i < COUNT; i++) {
            if (p[i] == victim + (underflow ? -(ptrdiff_t)size : (ptrdiff_t)size)) {
                neighbour = p[i];
            }
        }
        SUP_CHECK(neighbour != NULL, "object 50 of %zu bytes has no neighbour", size);
        if (underflow) {
            memset(victim - 16, 0xee, 16);
            SUP_CHECK(neighbour[size - 1] == 0xee, "the neighbour's end");
        } else {
            memset(victim + size, 0xee, 16);
            SUP_CHECK(neighbour[0] == 0xee, "the neighbour's beginning");
        }
        for (int i = 0; i < COUNT; i++) {
            SUP_CHECK(slab_usable_size(world.a, p[i]) >= size, "object %d", i);
            release(world.a, p[i]);
        }
        SUP_CHECK(epoch_destroy(world.a, epoch), "epoch_destroy");
    }
}

/* ---- domains ------------------------------------------------------------------------------------------------- */

#define DOMAIN_CRIME(call, domain, why, tail) \
    expect("tslab: " call ": domain 0x%" PRIxPTR ": " why "%s", (uintptr_t)(domain), tail)

static const char *domain_tail(EpochDomain *domain, const char *label, const char *state) {
    static char text[96];
    (void)snprintf(text, sizeof text, " (epoch %" PRIu64 " \"%s\"%s)", epoch_domain_epoch(domain), label, state);
    return text;
}

static void domain_twice(int unused) {
    (void)unused;
    EpochDomain *domain = epoch_domain_create_ex(world.a, "request", 0);
    char tail[96];
    (void)snprintf(tail, sizeof tail, "%s", domain_tail(domain, "request", ", ended"));
    void *p = get(world.a, 64, epoch_domain_epoch(domain));
    epoch_domain_destroy(domain);
    SUP_CHECK(!slab_owns(world.a, p), "its object died");
    DOMAIN_CRIME("epoch_domain_destroy", domain, "destroyed already", tail);
    errno = 0;
    epoch_domain_destroy(domain);
    SUP_CHECK(errno == EINVAL, "errno %d", errno);
    DOMAIN_CRIME("epoch_domain_enter", domain, "destroyed already", tail);
    SUP_CHECK(!epoch_domain_enter(domain) && errno == EINVAL, "enter");
    DOMAIN_CRIME("epoch_domain_exit", domain, "destroyed already", tail);
    SUP_CHECK(!epoch_domain_exit(domain) && errno == EINVAL, "exit");
    DOMAIN_CRIME("epoch_domain_reset", domain, "destroyed already", tail);
    SUP_CHECK(!epoch_domain_reset(domain, 0) && errno == EINVAL, "reset");
    DOMAIN_CRIME("epoch_domain_force_close", domain, "destroyed already", tail);
    SUP_CHECK(!epoch_domain_force_close(domain) && errno == EINVAL, "force_close");
    DOMAIN_CRIME("epoch_domain_hand_over", domain, "destroyed already", tail);
    SUP_CHECK(!epoch_domain_hand_over(domain) && errno == EINVAL, "hand_over");
    DOMAIN_CRIME("epoch_domain_on_destroy", domain, "destroyed already", tail);
    SUP_CHECK(!epoch_domain_on_destroy(domain, free, NULL) && errno == EINVAL, "on_destroy");
    DOMAIN_CRIME("slab_promote", domain, "destroyed already", tail);
    SUP_CHECK(slab_promote(domain, world.neighbours[0]) == NULL && errno == EINVAL, "promote");
    SUP_CHECK(epoch_domain_allocator(domain) == NULL && epoch_domain_epoch(domain) == EPOCH_NONE, "questions");
}

/* Destroyed while this thread is inside: that is allowed, and leaves it on every level. */
static void domain_entered(int unused) {
    (void)unused;
    EpochDomain *domain = epoch_domain_create_ex(world.a, "request", 0);
    char tail[96];
    (void)snprintf(tail, sizeof tail, "%s", domain_tail(domain, "request", ", ended"));
    SUP_CHECK(epoch_domain_enter(domain) && epoch_domain_enter(domain), "enter");
    SUP_CHECK(slab_alloc(64) != NULL, "slab_alloc");
    epoch_domain_destroy(domain);
    SUP_CHECK(epoch_domain_current() == NULL, "still inside");
    DOMAIN_CRIME("epoch_domain_exit", domain, "destroyed already", tail);
    SUP_CHECK(!epoch_domain_exit(domain) && errno == EINVAL, "exit");
}

static EpochDomain *inside;
static void destroy_inside(void *count) {
    ++*(int *)count;
    DOMAIN_CRIME("epoch_domain_destroy", inside, "its cleanups are running", domain_tail(inside, "request", ""));
    errno = 0;
    epoch_domain_destroy(inside);
    SUP_CHECK(errno == EPERM, "errno %d", errno);
    DOMAIN_CRIME("epoch_domain_reset", inside, "its cleanups are running", domain_tail(inside, "request", ""));
    SUP_CHECK(!epoch_domain_reset(inside, 0) && errno == EPERM, "reset");
}

static void domain_in_its_cleanup(int unused) {
    int count = 0;
    (void)unused;
    inside = epoch_domain_create_ex(world.a, "request", 0);
    SUP_CHECK(epoch_domain_on_destroy(inside, destroy_inside, &count), "on_destroy");
    epoch_domain_destroy(inside);
    SUP_CHECK(count == 1 && epoch_domain_epoch(inside) == EPOCH_NONE, "destroyed once");
}

static void *wrong_thread(void *argument) {
    EpochDomain *domain = argument;
    const char *tail = domain_tail(domain, "request", "");
    DOMAIN_CRIME("epoch_domain_destroy", domain, "belongs to another thread", tail);
    errno = 0;
    epoch_domain_destroy(domain);
    SUP_CHECK(errno == EPERM, "errno %d", errno);
    DOMAIN_CRIME("epoch_domain_enter", domain, "belongs to another thread", tail);
    SUP_CHECK(!epoch_domain_enter(domain) && errno == EPERM, "enter");
    DOMAIN_CRIME("epoch_domain_exit", domain, "not the innermost domain of this thread", tail);
    SUP_CHECK(!epoch_domain_exit(domain) && errno == EINVAL, "exit");
    DOMAIN_CRIME("epoch_domain_reset", domain, "belongs to another thread", tail);
    SUP_CHECK(!epoch_domain_reset(domain, 0) && errno == EPERM, "reset");
    DOMAIN_CRIME("epoch_domain_on_destroy", domain, "belongs to another thread", tail);
    SUP_CHECK(!epoch_domain_on_destroy(domain, free, NULL) && errno == EPERM, "on_destroy");
    DOMAIN_CRIME("epoch_domain_hand_over", domain, "belongs to another thread", tail);
    SUP_CHECK(!epoch_domain_hand_over(domain) && errno == EPERM, "hand_over");
    DOMAIN_CRIME("slab_promote", domain, "belongs to another thread", tail);
    SUP_CHECK(slab_promote(domain, world.neighbours[0]) == NULL && errno == EPERM, "promote");
    return NULL;
}

static void domain_on_the_wrong_thread(int unused) {
    (void)unused;
    EpochDomain *domain = epoch_domain_create_ex(world.a, "request", 0);
    void *p = get(world.a, 64, epoch_domain_epoch(domain));
    sup_in_thread(wrong_thread, domain);
    SUP_CHECK(slab_owns(world.a, p), "its object lives on");
    epoch_domain_destroy(domain);
    SUP_CHECK(!slab_owns(world.a, p), "its object died");
}

/* Domains are independent: no crime, and the inner one lives on. */
static void domain_parent_first(int unused) {
    (void)unused;
    EpochDomain *outer = epoch_domain_create_ex(world.a, "outer", 0);
    EpochDomain *inner = epoch_domain_create_ex(world.a, "inner", 0);
    SUP_CHECK(epoch_domain_enter(outer) && epoch_domain_enter(inner), "enter");
    void *p = slab_alloc(64);
    DOMAIN_CRIME("epoch_domain_exit", outer, "not the innermost domain of this thread",
                 domain_tail(outer, "outer", ""));
    SUP_CHECK(!epoch_domain_exit(outer) && errno == EINVAL, "exit");
    epoch_domain_destroy(outer);
    SUP_CHECK(epoch_domain_current() == inner && slab_owns(world.a, p), "the inner domain lives on");
    SUP_CHECK(slab_alloc(64) != NULL, "and takes objects");
    SUP_CHECK(epoch_domain_exit(inner), "exit");
    SUP_CHECK(epoch_domain_current() == NULL, "inside of nothing");
    epoch_domain_destroy(inner);
    SUP_CHECK(!slab_owns(world.a, p), "its object died");
}

static void domain_handed_over_while_entered(int unused) {
    (void)unused;
    EpochDomain *domain = epoch_domain_create_ex(world.a, "request", 0);
    SUP_CHECK(epoch_domain_enter(domain), "enter");
    DOMAIN_CRIME("epoch_domain_hand_over", domain, "still entered", domain_tail(domain, "request", ""));
    SUP_CHECK(!epoch_domain_hand_over(domain) && errno == EPERM, "hand_over");
    SUP_CHECK(epoch_domain_exit(domain), "exit");
    epoch_domain_destroy(domain);
}

static void domain_after_allocator_free(int unused) {
    (void)unused;
    EpochDomain *domain = epoch_domain_create_ex(world.b, "of b", 0);
    char tail[96];
    (void)snprintf(tail, sizeof tail, "%s", domain_tail(domain, "of b", ", ended"));
    SUP_CHECK(epoch_domain_enter(domain), "enter");
    slab_allocator_free(world.b);
    SUP_CHECK(epoch_domain_exit(domain), "leaving it is no crime");
    DOMAIN_CRIME("epoch_domain_destroy", domain, "destroyed already", tail);
    errno = 0;
    epoch_domain_destroy(domain);
    SUP_CHECK(errno == EINVAL, "errno %d", errno);
}

static void not_a_domain(int unused) {
    (void)unused;
    EpochDomain *domain = (EpochDomain *)(uintptr_t)0x7654321u;
    DOMAIN_CRIME("epoch_domain_destroy", domain, "not a domain", "");
    errno = 0;
    epoch_domain_destroy(domain);
    SUP_CHECK(errno == EINVAL, "errno %d", errno);
    DOMAIN_CRIME("epoch_domain_enter", (EpochDomain *)NULL, "not a domain", "");
    SUP_CHECK(!epoch_domain_enter(NULL) && errno == EINVAL, "enter");
    errno = 0;
    epoch_domain_destroy(NULL);
    SUP_CHECK(errno == 0, "NULL is no crime");
}

static void promote_of_no_object(int unused) {
    (void)unused;
    EpochDomain *domain = epoch_domain_create_ex(world.a, "outer", 0);
    char *p = get(world.a, 64, world.churn);
    release(world.a, p);
    expect("tslab: slab_promote: pointer 0x%" PRIxPTR ": freed already (class 64, %s)", (uintptr_t)p, churn_text());
    SUP_CHECK(slab_promote(domain, p) == NULL && errno == EINVAL, "slab_promote");
    expect("tslab: slab_promote: pointer 0x0: not memory of temporal-slab");
    SUP_CHECK(slab_promote(domain, NULL) == NULL && errno == EINVAL, "slab_promote");
    epoch_domain_destroy(domain);
}

/* ---- no crimes ---------------------------------------------------------------------------------------------- */

static void no_crime(int unused) {
    (void)unused;
    SUP_CHECK(slab_free(world.a, NULL), "NULL");
    void *p = slab_realloc(world.a, NULL, 10);
    SUP_CHECK(p != NULL, "slab_realloc of NULL");
    release(world.a, p);
    silent_queries(world.a, p);
    SUP_CHECK(!epoch_destroy(world.a, 12345) && !epoch_close(world.a, 12345), "an unknown epoch");
    SUP_CHECK(slab_malloc_epoch(world.a, 10, 12345) == NULL && errno == EINVAL, "an unknown epoch");
}

/* ---- running ------------------------------------------------------------------------------------------------ */

struct crime {
    const char *name;
    void (*commit)(int);
    int from, to; /* the numbers it is committed with, `to` included */
    int step;
    bool by_environment; /* its mode is the environment's */
    bool poisoned;
};

static const struct crime crimes[] = {
    {"no_crime", no_crime, 0, 0, 1, false, false},
    {"double_free", double_free, 0, 8192, 126, false, false},
    {"double_free_distance_near", double_free_distance, 0, 66, 11, false, false},
    {"double_free_distance_magazine", double_free_distance, 63, 65, 1, false, false},
    {"double_free_distance_far", double_free_distance, 170, 19000, 6276, false, false},
    {"double_free_order", double_free_order, 0, 35, 1, false, false},
    {"double_free_reused", double_free_reused, 0, 0, 1, false, false},
    {"double_free_scope", double_free_scope, 0, 0, 1, false, false},
    {"double_free_span", double_free_span, 65, 3065, 600, false, false},
    {"double_free_foreign_first", double_free_foreign_first, 16, 64, 48, false, false},
    {"double_free_foreign_second", double_free_foreign_second, 0, 0, 1, false, false},
    {"double_free_both_foreign", double_free_both_foreign, 0, 0, 1, false, false},
    {"free_outside", free_outside, 0, PLACES_OUTSIDE - 1, 1, false, false},
    {"never_allocated", never_allocated, 0, 0, 1, false, false},
    {"never_used_memory", never_used_memory, 0, 0, 1, false, false},
    {"interior", interior, 1, 511, 51, false, false},
    {"interior_aligned", interior, 16, 496, 96, false, false},
    {"interior_small", interior_small, 1, 47, 23, false, false},
    {"interior_scope", interior_scope, 8, 504, 62, false, false},
    {"interior_large", interior_large, 16, 49136, 8184, false, false},
    {"interior_span", interior_span, 16, 98320, 16384, false, false},
    {"foreign_allocator", foreign_allocator, 0, 0, 1, false, false},
    {"not_an_allocator", not_an_allocator, 0, 0, 1, true, false},
    {"after_destroy", after_destroy, 0, 0, 1, false, false},
    {"after_close", after_close, 0, 0, 1, false, false},
    {"after_reset", after_reset, 0, 0, 1, false, false},
    {"after_allocator_free", after_allocator_free, 0, 0, 1, false, false},
    {"labels", labels, 0, 0, 1, false, false},
    {"handle_double", handle_double, 0, 0, 1, false, false},
    {"handle_stale", handle_stale, 0, 0, 1, false, false},
    {"handle_forged", handle_forged, 0, 0, 1, false, false},
    {"handle_shifted", handle_shifted, 0, 0, 1, false, false},
    {"handle_after_ends", handle_after_ends, 0, 0, 1, false, false},
    {"handle_of_a_slab_used_again", handle_of_a_slab_used_again, 0, 0, 1, false, false},
    {"poison_written_after_free", poison_written_after_free, 16, 4096, 680, false, true},
    {"poison_written_after_foreign_free", poison_written_after_foreign_free, 0, 0, 1, false, true},
    {"poison_written_before", poison_written_before, 0, 0, 1, false, true},
    {"poison_span", poison_span, 0, 0, 1, false, true},
    {"poison_epoch", poison_epoch, EPOCH_CHURN, EPOCH_SCOPE, 1, false, true},
    {"poison_written_after_the_end", poison_written_after_the_end, 0, 3, 1, false, true},
    {"poison_clean", poison_clean, 0, 0, 1, false, true},
    {"poison_double_free", double_free, 0, 4096, 819, false, true},
    {"poison_interior", interior, 16, 496, 240, false, true},
    {"poison_after_destroy", after_destroy, 0, 0, 1, false, true},
    {"poison_foreign_first", double_free_foreign_first, 16, 64, 48, false, true},
    {"write_after_free", write_after_free, 16, 4096, 1020, false, false},
    {"overflow", overflow, 0, 0, 1, false, false},
    {"underflow", overflow, 1, 1, 1, false, false},
    {"domain_twice", domain_twice, 0, 0, 1, false, false},
    {"domain_entered", domain_entered, 0, 0, 1, false, false},
    {"domain_in_its_cleanup", domain_in_its_cleanup, 0, 0, 1, false, false},
    {"domain_on_the_wrong_thread", domain_on_the_wrong_thread, 0, 0, 1, false, false},
    {"domain_parent_first", domain_parent_first, 0, 0, 1, false, false},
    {"domain_handed_over_while_entered", domain_handed_over_while_entered, 0, 0, 1, false, false},
    {"domain_after_allocator_free", domain_after_allocator_free, 0, 0, 1, false, false},
    {"not_a_domain", not_a_domain, 0, 0, 1, true, false},
    {"promote_of_no_object", promote_of_no_object, 0, 0, 1, false, false},
};
#define CRIMES (sizeof crimes / sizeof crimes[0])
static const char *const mode_names[] = {"ignore", "report", "abort"};

struct attempt {
    const struct crime *crime;
    int number;
};

static void commit(void *argument) {
    const struct attempt *attempt = argument;
    int wanted = mode;
    if (attempt->crime->by_environment) {
        SUP_CHECK(setenv("TSLAB_ON_MISUSE", mode_names[mode], 1) == 0, "setenv");
        mode = 0;
    }
    poisoned = attempt->crime->poisoned;
    make_world();
    attempt->crime->commit(attempt->number);
    mode = wanted;
    check_world();
}

static bool run(const struct attempt *attempt) {
    char err[TEXT_BYTES] = "";
    memset(expected, 0, sizeof *expected);
    int status = sup_child(commit, (void *)(uintptr_t)attempt, SUP_CHILD_SECONDS, err, sizeof err);
    bool aborts = mode == SLAB_MISUSE_ABORT && expected->used > 0;
    size_t length = mode == SLAB_MISUSE_IGNORE ? 0 : aborts ? expected->first : expected->used;
    bool ended_well = aborts ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT : status == 0;
    /* A sanitizer adds its own report to the abort, an emulator a line. */
    bool said_well = strncmp(err, expected->text, length) == 0 &&
                     (strlen(err) == length || (aborts && (SUP_SANITIZED || SUP_EMULATED)));
    if (ended_well && said_well) {
        return true;
    }
    (void)fprintf(stderr, "FAIL %s %d in mode %s: status %#x\nexpected:\n%.*sfound:\n%s", attempt->crime->name,
                  attempt->number, mode_names[mode], (unsigned)status, (int)length, expected->text, err);
    return false;
}

static int one(const char *name, const char *mode_name) {
    for (mode = 0; mode < 3 && strcmp(mode_names[mode], mode_name) != 0; mode++) {
    }
    for (size_t i = 0; i < CRIMES; i++) {
        if (mode < 3 && strcmp(crimes[i].name, name) == 0) {
            struct attempt attempt = {&crimes[i], crimes[i].from};
            commit(&attempt);
            return 0;
        }
    }
    (void)fprintf(stderr, "crimes_test: no case \"%s\" or no mode \"%s\"\n", name, mode_name);
    return 2;
}

/* Where a process takes a second to start: of the k-th number of the i-th crime. Each crime is committed, and each mode
   met. */
static bool is_left_out(size_t i, size_t k) { return SUP_EMULATED && (k % 3 != 0 || (i + k / 3) % 3 != (size_t)mode); }

int main(int argc, char **argv) {
    unsigned attempts = 0, failed = 0;
    /* The environment of a test run must not decide. */
    (void)unsetenv("TSLAB_ON_MISUSE");
    expected = mmap(NULL, sizeof *expected, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    SUP_CHECK(expected != MAP_FAILED, "mmap");
    if (argc == 5 && strcmp(argv[1], "--case") == 0 && strcmp(argv[3], "--mode") == 0) {
        return one(argv[2], argv[4]);
    }
    if (argc != 1) {
        (void)fprintf(stderr, "usage: crimes_test [--case NAME --mode ignore|report|abort]\n");
        return 2;
    }
    for (size_t i = 0; i < CRIMES; i++) {
        size_t k = 0;
        for (int number = crimes[i].from; number <= crimes[i].to; number += crimes[i].step, k++) {
            for (mode = 0; mode < 3; mode++) {
                if (is_left_out(i, k)) continue;
                struct attempt attempt = {&crimes[i], number};
                failed += !run(&attempt);
                attempts++;
            }
        }
    }
    (void)printf("crimes_test: %zu crimes, %u processes, %u failed\n", CRIMES, attempts, failed);
    return failed != 0;
}
