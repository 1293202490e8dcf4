/* The threads of the soak. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "soak.h"

#include "pattern.h"
#include "proc.h"
#include "walk/check.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct life {
    struct soak *soak;
    struct sup_rng rng;
    struct soak_object kept[SOAK_KEPT];
    SlabHandle stale[SOAK_STALE];
    unsigned cleanups;
    bool forked; /* a child, in which a thread that is not there may hold the lock of a box */
    struct soak_counts counts;
};

static uint64_t below(struct life *life, uint64_t limit) { return sup_rng_below(&life->rng, limit); }

static size_t pick_size(struct life *life) {
    uint64_t choice = below(life, 1000);
    return (size_t)(choice < 700   ? below(life, 256)
                    : choice < 940 ? below(life, 1100)
                    : choice < 990 ? below(life, 9000)
                                   : below(life, 300000));
}

static struct soak_object make(struct life *life, SlabAllocator *allocator, EpochId epoch, size_t size) {
    struct soak_object o = {{NULL, size, sup_rng_next(&life->rng)}, allocator};
    errno = 0;
    o.object.address = epoch == EPOCH_NONE ? slab_malloc(allocator, size) : slab_malloc_epoch(allocator, size, epoch);
    if (o.object.address == NULL) {
        bool expected = (allocator == life->soak->tight && errno == ENOMEM) || errno == ESTALE;
        SUP_CHECK(expected, "%zu bytes: %s", size, strerror(errno));
        life->counts.refused++;
        return o;
    }
    SUP_CHECK(slab_usable_size(allocator, o.object.address) >= size || epoch == life->soak->chaos, "usable size");
    sup_pattern_fill(o.object.address, size, o.object.key);
    life->counts.objects++;
    return o;
}

/* ---- objects ------------------------------------------------------------------------------------------------- */

static void release(struct soak_object *o) {
    if (o->object.address != NULL) {
        stress_free(o->allocator, &o->object);
    }
}

static void replace_kept(struct life *life) {
    struct soak *soak = life->soak;
    struct soak_object *slot = &life->kept[below(life, SOAK_KEPT)];
    if (slot->object.address != NULL) {
        release(slot);
        return;
    }
    switch (below(life, 8)) {
    case 0: *slot = make(life, soak->tight, soak->tight_churn, pick_size(life) / 4); break;
    case 1: *slot = make(life, soak->plain, EPOCH_NONE, pick_size(life)); break;
    default: *slot = make(life, soak->plain, soak->churn, pick_size(life)); break;
    }
}

static void resize_kept(struct life *life) {
    struct soak_object *slot = &life->kept[below(life, SOAK_KEPT)];
    if (slot->object.address == NULL) {
        return;
    }
    size_t size = pick_size(life);
    stress_check(&slot->object);
    unsigned char *moved = slab_realloc(slot->allocator, slot->object.address, size);
    if (moved == NULL) {
        /* ESTALE: the rolling epoch it is in was advanced. */
        SUP_CHECK(errno == ESTALE || (slot->allocator == life->soak->tight && errno == ENOMEM), "slab_realloc: %s",
                  strerror(errno));
        stress_check(&slot->object);
        return;
    }
    size_t kept = size < slot->object.size ? size : slot->object.size;
    SUP_CHECK(sup_pattern_check_prefix(moved, slot->object.size, kept, slot->object.key), "slab_realloc lost bytes");
    slot->object.address = moved;
    slot->object.size = size;
    sup_pattern_fill(moved, size, slot->object.key);
}

static void pass_on(struct life *life) {
    struct stress_box *box = &life->soak->boxes[below(life, SOAK_BOXES)];
    struct soak_object *slot = &life->kept[below(life, SOAK_KEPT)];
    if (slot->object.address != NULL && slot->allocator == life->soak->plain && stress_put(box, &slot->object)) {
        slot->object.address = NULL;
    }
}

static void take_over(struct life *life) {
    struct stress_object object;
    for (unsigned i = 0; i < 4 && stress_take(&life->soak->boxes[below(life, SOAK_BOXES)], &object); i++) {
        stress_free(life->soak->plain, &object);
        SUP_CHECK(!slab_owns(life->soak->plain, NULL), "NULL is nobody's");
        life->counts.foreign++;
    }
}

static void special(struct life *life) {
    struct soak *soak = life->soak;
    size_t size = 1 + (size_t)below(life, 20000);
    unsigned char *zero = slab_calloc_epoch(soak->plain, 1, size, soak->churn);
    SUP_CHECK(zero != NULL && sup_zero_check(zero, size), "slab_calloc_epoch of %zu bytes", size);
    size_t alignment = (size_t)1 << below(life, 16);
    unsigned char *aligned =
        slab_aligned_epoch(soak->plain, alignment, size, below(life, 2) ? soak->churn : soak->scope);
    SUP_CHECK(aligned != NULL && ((uintptr_t)aligned & (alignment - 1)) == 0, "alignment %zu", alignment);
    SUP_CHECK(slab_free(soak->plain, zero) && slab_free(soak->plain, aligned), "slab_free");
}

static void handles(struct life *life) {
    struct soak *soak = life->soak;
    SlabHandle handle;
    unsigned char *object = alloc_obj_epoch(soak->plain, 1 + (size_t)below(life, 2000),
                                            below(life, 2) ? soak->churn : soak->scope, &handle);
    SUP_CHECK(object != NULL && slab_handle_get(soak->plain, handle) == object, "a handle of a new object");
    SUP_CHECK(slab_handle_of(soak->plain, object) == handle, "one object, one handle");
    SUP_CHECK(free_obj(soak->plain, handle) && slab_handle_get(soak->plain, handle) == NULL, "free_obj");
    SUP_CHECK(!free_obj(soak->plain, handle), "free_obj twice");
    life->stale[below(life, SOAK_STALE)] = handle;
    SlabHandle old = life->stale[below(life, SOAK_STALE)];
    SUP_CHECK(old == SLAB_HANDLE_NONE || slab_handle_get(soak->plain, old) == NULL, "a stale handle is accepted");
    life->counts.handles++;
}

static void misuse(struct life *life) {
    struct soak *soak = life->soak;
    int on_stack = 0;
    uintptr_t garbage = (uintptr_t)sup_rng_next(&life->rng);
    SUP_CHECK(!slab_free(soak->plain, &on_stack), "the stack was freed");
    SUP_CHECK(!slab_owns(soak->tight, (void *)(garbage | 1)), "an odd address is an object");
    struct soak_object *slot = &life->kept[below(life, SOAK_KEPT)];
    if (slot->object.address != NULL) {
        SlabAllocator *other = slot->allocator == soak->plain ? soak->tight : soak->plain;
        SUP_CHECK(!slab_free(other, slot->object.address), "freed by another allocator");
        SUP_CHECK(!slab_free(slot->allocator, slot->object.address + 1), "an interior pointer was freed");
        stress_check(&slot->object);
    }
}

/* ---- large objects -------------------------------------------------------------------------------------------- */

/* 256 KiB to 128 MiB (32 bits: 4 MiB), as often between any two powers of two. Above 32 MiB they are FAR. */
static size_t large_size(struct life *life) {
    size_t least = (size_t)1 << (18 + below(life, sizeof(size_t) > 4 ? 9 : 4));
    return least + (size_t)below(life, least);
}

static void resize_large(struct life *life, struct stress_object *o) {
    size_t size = below(life, 3) ? large_size(life) : pick_size(life), old = o->size;
    unsigned char *moved = slab_realloc(life->soak->plain, o->address, size);
    SUP_CHECK(moved != NULL, "slab_realloc of %zu bytes to %zu: %s", old, size, strerror(errno));
    SUP_CHECK(sup_pattern_check_prefix(moved, old, size < old ? size : old, o->key), "slab_realloc lost bytes");
    o->address = moved;
    o->size = size;
    sup_pattern_fill(moved, size, o->key);
}

static struct stress_object make_large(struct life *life, EpochId epoch) {
    SlabAllocator *plain = life->soak->plain;
    if (below(life, 3)) {
        return make(life, plain, epoch, large_size(life)).object;
    }
    struct stress_object o = {NULL, large_size(life), sup_rng_next(&life->rng)};
    if (below(life, 2)) {
        o.address = slab_calloc_epoch(plain, 1, o.size, epoch);
        SUP_CHECK(o.address != NULL && sup_zero_check(o.address, o.size), "slab_calloc_epoch of %zu bytes", o.size);
    } else {
        size_t alignment = (size_t)4096 << below(life, 10);
        o.address = slab_aligned_epoch(plain, alignment, o.size, epoch);
        SUP_CHECK(o.address != NULL && ((uintptr_t)o.address & (alignment - 1)) == 0, "alignment %zu", alignment);
    }
    sup_pattern_fill(o.address, o.size, o.key);
    life->counts.objects++;
    return o;
}

static void large(struct life *life) {
    struct soak *soak = life->soak;
    struct stress_object other;
    if (!life->forked && stress_take(&soak->large, &other)) {
        stress_free(soak->plain, &other);
        life->counts.foreign++;
    }
    bool own = below(life, 3) == 0;
    EpochId epoch = own ? epoch_open(soak->plain, "large", EPOCH_CHURN) : soak->churn;
    struct stress_object o = make_large(life, epoch);
    SlabHandle handle = slab_handle_of(soak->plain, o.address);
    SUP_CHECK(handle != SLAB_HANDLE_NONE && slab_handle_get(soak->plain, handle) == o.address, "a handle of %zu bytes",
              o.size);
    SUP_CHECK(!slab_free(soak->tight, o.address), "freed by another allocator");
    SUP_CHECK(!slab_free(soak->plain, o.address + o.size / 2), "an interior pointer was freed");
    if (below(life, 4) == 0) {
        resize_large(life, &o);
        handle = slab_handle_of(soak->plain, o.address);
    }
    life->counts.large++;
    if (own) {
        stress_check(&o);
        SUP_CHECK(epoch_destroy(soak->plain, epoch) && slab_handle_get(soak->plain, handle) == NULL,
                  "the end of an epoch with %zu bytes in one object", o.size);
    } else if (!life->forked && below(life, 2) == 0 && stress_put(&soak->large, &o)) {
        return;
    } else {
        stress_check(&o);
        SUP_CHECK(free_obj(soak->plain, handle) && !free_obj(soak->plain, handle), "free_obj of %zu bytes", o.size);
    }
    life->stale[below(life, SOAK_STALE)] = handle;
}

/* ---- epochs ---------------------------------------------------------------------------------------------------- */

static void own_epoch(struct life *life) {
    struct soak *soak = life->soak;
    SlabAllocator *allocator = below(life, 4) ? soak->plain : soak->tight;
    EpochId epoch = epoch_open(allocator, "own", below(life, 2) ? EPOCH_SCOPE : EPOCH_CHURN);
    SUP_CHECK(epoch != EPOCH_NONE, "epoch_open: %s", strerror(errno));
    struct soak_object objects[120];
    unsigned count = 1 + (unsigned)below(life, 120);
    for (unsigned i = 0; i < count; i++) {
        objects[i] = make(life, allocator, epoch, pick_size(life) / 2);
    }
    for (unsigned i = 0; i < count; i += 3) {
        release(&objects[i]);
    }
    SUP_CHECK(slab_epoch_set_label(allocator, epoch, "ends soon"), "slab_epoch_set_label");
    life->counts.epochs++;
    if (below(life, 2)) {
        SUP_CHECK(epoch_close(allocator, epoch), "epoch_close");
        SUP_CHECK(slab_malloc_epoch(allocator, 10, epoch) == NULL && (errno == ESTALE || errno == ENOMEM),
                  "a closed epoch takes objects");
        for (unsigned i = 0; i < count; i++) {
            release(&objects[i]);
        }
        /* Another thread's look at the figures may put it off, not prevent it. */
        for (double until_s = sup_now_s() + 20; epoch_state(allocator, epoch) != EPOCH_CLOSED; (void)sched_yield()) {
            SUP_CHECK(sup_now_s() < until_s, "nothing is left in it, and it does not end");
        }
        return;
    }
    /* Its address may be another thread's object at once; the handle never is. */
    SlabHandle last = slab_handle_of(allocator, objects[count - 1].object.address);
    SUP_CHECK(epoch_destroy(allocator, epoch), "epoch_destroy");
    SUP_CHECK(!epoch_destroy(allocator, epoch), "epoch_destroy twice");
    SUP_CHECK(!free_obj(allocator, last), "freed after its epoch");
    life->stale[below(life, SOAK_STALE)] = allocator == soak->plain ? last : SLAB_HANDLE_NONE;
}

/* Objects of an epoch that another thread may end at any time: only that nothing breaks. */
static void chaos(struct life *life) {
    struct soak *soak = life->soak;
    EpochId epoch = atomic_load(&soak->chaos);
    void *objects[40];
    for (unsigned i = 0; i < 40; i++) {
        errno = 0;
        objects[i] = slab_malloc_epoch(soak->plain, (size_t)below(life, 400), epoch);
        SUP_CHECK(objects[i] != NULL || errno == ESTALE, "in an epoch that ends: %s", strerror(errno));
    }
    if (below(life, 30) != 0) {
        return;
    }
    EpochId next = epoch_open(soak->plain, "chaos", below(life, 2) ? EPOCH_SCOPE : EPOCH_CHURN);
    SUP_CHECK(next != EPOCH_NONE, "epoch_open");
    EpochId old = atomic_exchange(&soak->chaos, next);
    bool closes = below(life, 2);
    SUP_CHECK(!closes || epoch_close(soak->plain, old), "epoch_close of what only one thread can have");
    /* Closed with nothing in it, it has ended. */
    SUP_CHECK(epoch_destroy(soak->plain, old) || closes, "epoch_destroy of what only one thread can have");
    life->counts.epochs++;
}

static void advance(struct life *life) {
    struct soak *soak = life->soak;
    SUP_CHECK(epoch_advance(soak->plain) != EPOCH_NONE, "epoch_advance");
    life->counts.epochs++;
}

/* ---- domains ----------------------------------------------------------------------------------------------------- */

static void count_cleanup(void *argument) { ++*(unsigned *)argument; }

static void nested(struct life *life, unsigned depth) {
    EpochDomain *domain = epoch_domain_create_ex(life->soak->plain, "nested", below(life, 4) ? 0 : EPOCH_CHURN);
    SUP_CHECK(domain != NULL && epoch_domain_enter(domain), "a domain: %s", strerror(errno));
    EpochDomain *outer_most = domain;
    unsigned before = life->cleanups, registered = 0;
    struct stress_object objects[30];
    unsigned count = 1 + (unsigned)below(life, 30);
    for (unsigned i = 0; i < count; i++) {
        objects[i] = (struct stress_object){NULL, (size_t)below(life, 700), sup_rng_next(&life->rng)};
        objects[i].address = slab_alloc(objects[i].size);
        SUP_CHECK(objects[i].address != NULL, "slab_alloc: %s", strerror(errno));
        sup_pattern_fill(objects[i].address, objects[i].size, objects[i].key);
    }
    for (; registered < below(life, 4); registered++) {
        SUP_CHECK(epoch_domain_on_destroy(domain, count_cleanup, &life->cleanups), "epoch_domain_on_destroy");
    }
    if (depth < 3 && below(life, 2)) {
        nested(life, depth + 1);
    }
    unsigned after_inner = life->cleanups;
    for (unsigned i = 0; i < count; i++) {
        stress_check(&objects[i]);
    }
    if (below(life, 3) == 0) {
        SlabHandle first = slab_handle_of(life->soak->plain, objects[0].address);
        SUP_CHECK(first != SLAB_HANDLE_NONE, "a handle of a live object");
        SUP_CHECK(epoch_domain_reset(domain, 1 << 16), "epoch_domain_reset: %s", strerror(errno));
        SUP_CHECK(life->cleanups == after_inner + registered, "a reset runs the cleanups");
        SUP_CHECK(slab_handle_get(life->soak->plain, first) == NULL, "an object outlives a reset");
        after_inner = life->cleanups;
        registered = 0;
        objects[0].address = slab_alloc(objects[0].size);
        sup_pattern_fill(objects[0].address, objects[0].size, objects[0].key);
    }
    /* One object outlives its domain. */
    EpochDomain *parent = epoch_domain_create(life->soak->plain);
    struct stress_object kept = objects[0];
    kept.address = slab_promote(parent, objects[0].address);
    SUP_CHECK(kept.address != NULL, "slab_promote: %s", strerror(errno));
    if (below(life, 2)) {
        SUP_CHECK(epoch_domain_exit(domain), "exit");
    }
    epoch_domain_destroy(outer_most);
    SUP_CHECK(life->cleanups == after_inner + registered && life->cleanups >= before, "cleanups at the end");
    stress_check(&kept);
    epoch_domain_destroy(parent);
    life->counts.domains += 2;
}

static void shared_domain(struct life *life) {
    SUP_CHECK(epoch_domain_enter(life->soak->shared), "enter: %s", strerror(errno));
    for (unsigned i = 0; i < 20; i++) {
        struct stress_object o = {NULL, (size_t)below(life, 300), sup_rng_next(&life->rng)};
        o.address = slab_alloc(o.size);
        SUP_CHECK(o.address != NULL, "slab_alloc in a shared domain: %s", strerror(errno));
        sup_pattern_fill(o.address, o.size, o.key);
        if (i % 4 != 0) {
            stress_free(life->soak->plain, &o);
        }
    }
    SUP_CHECK(epoch_domain_exit(life->soak->shared), "exit");
}

/* Takes a domain that somebody gave up, or makes one; gives it up or ends it. */
static void handed_over(struct life *life) {
    struct soak *soak = life->soak;
    EpochDomain *domain = NULL;
    (void)pthread_mutex_lock(&soak->parked_mutex);
    if (soak->parked_count > 0 && below(life, 3)) {
        domain = soak->parked[--soak->parked_count];
    }
    (void)pthread_mutex_unlock(&soak->parked_mutex);
    if (domain == NULL) {
        domain = epoch_domain_create(soak->plain);
        life->counts.domains++;
    }
    SUP_CHECK(domain != NULL && epoch_domain_enter(domain), "what was handed over: %s", strerror(errno));
    SUP_CHECK(slab_alloc((size_t)below(life, 1000)) != NULL, "slab_alloc");
    SUP_CHECK(epoch_domain_exit(domain), "exit");
    if (below(life, 4) != 0 && epoch_domain_hand_over(domain)) {
        (void)pthread_mutex_lock(&soak->parked_mutex);
        bool room = soak->parked_count < SOAK_PARKED;
        if (room) {
            soak->parked[soak->parked_count++] = domain;
        }
        (void)pthread_mutex_unlock(&soak->parked_mutex);
        if (room) {
            return;
        }
        SUP_CHECK(epoch_domain_enter(domain), "taken back: %s", strerror(errno));
    }
    epoch_domain_destroy(domain);
}

/* ---- memory, figures, processes ---------------------------------------------------------------------------------- */

static void memory(struct life *life) {
    struct soak *soak = life->soak;
    switch (below(life, 6)) {
    case 0: (void)slab_trim(below(life, 2) ? soak->plain : soak->tight); break;
    case 1:
        SUP_CHECK(slab_reserve(soak->plain, (size_t)below(life, 1 << 20)), "slab_reserve: %s", strerror(errno));
        break;
    case 2: SUP_CHECK(slab_set_budget(soak->tight, (size_t)1 << (19 + below(life, 6))), "slab_set_budget"); break;
    case 3: slab_thread_idle(); break;
    default: {
        char text[512];
        SlabGlobalStats stats;
        SUP_CHECK(slab_stats_global(soak->plain, &stats), "slab_stats_global");
        SUP_CHECK(slab_stats_json(soak->plain, text, sizeof text) > 100, "slab_stats_json");
        SlabEpochStats epoch;
        SUP_CHECK(slab_stats_epoch(soak->plain, SLAB_ALL_CLASSES, soak->churn, &epoch), "slab_stats_epoch");
        break;
    }
    }
    life->counts.trims++;
}

static void allocator_of_its_own(struct life *life) {
    SlabAllocator *own = slab_allocator_create();
    SUP_CHECK(own != NULL, "slab_allocator_create: %s", strerror(errno));
    void *object = NULL;
    for (unsigned i = 0; i < 50; i++) {
        object = slab_malloc(own, pick_size(life));
        SUP_CHECK(object != NULL, "slab_malloc: %s", strerror(errno));
    }
    slab_allocator_free(own);
    SUP_CHECK(!slab_free(own, object), "freed after its allocator");
    life->counts.allocators++;
}

static void in_the_child(void *argument) {
    struct life *life = argument;
    static ts_check walk;
    SUP_CHECK(ts_check_all(&walk, true), "in a child: %s", walk.why);
    life->forked = true;
    for (unsigned i = 0; i < SOAK_KEPT; i++) {
        release(&life->kept[i]);
    }
    for (unsigned i = 0; i < 200; i++) {
        replace_kept(life);
    }
    own_epoch(life);
    nested(life, 0);
    large(life);
    (void)epoch_destroy(life->soak->plain, life->soak->churn);
    SUP_CHECK(ts_check_all(&walk, true), "at the end of a child: %s", walk.why);
}

static void fork_child(struct life *life) {
    int status = sup_child(in_the_child, life, SUP_CHILD_SECONDS, NULL, 0);
    SUP_CHECK(status == 0, "a child ended with status %d%s", status, status == 14 ? " (it hung)" : "");
    life->counts.forks++;
}

/* ---- a life ------------------------------------------------------------------------------------------------------ */

static void one_operation(struct life *life) {
    uint64_t choice = below(life, 10000);
    if (choice < 6000) {
        replace_kept(life);
    } else if (choice < 6600) {
        resize_kept(life);
    } else if (choice < 7300) {
        pass_on(life);
    } else if (choice < 8000) {
        take_over(life);
    } else if (choice < 8600) {
        handles(life);
    } else if (choice < 8900) {
        special(life);
    } else if (choice < 9100) {
        misuse(life);
    } else if (choice < 9300) {
        own_epoch(life);
    } else if (choice < 9500) {
        chaos(life);
    } else if (choice < 9700) {
        nested(life, 0);
    } else if (choice < 9800) {
        shared_domain(life);
    } else if (choice < 9900) {
        handed_over(life);
    } else if (choice < 9965) {
        memory(life);
    } else if (choice < 9970) {
        large(life);
    } else if (choice < 9985) {
        advance(life);
    } else {
        allocator_of_its_own(life);
    }
    life->counts.operations++;
}

static void add_counts(struct life *life) {
    uint64_t figures[sizeof life->counts / sizeof(uint64_t)];
    memcpy(figures, &life->counts, sizeof figures);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        atomic_fetch_add_explicit(&life->soak->count[i], figures[i], memory_order_relaxed);
    }
    life->counts = (struct soak_counts){0};
}

void soak_live(struct soak *soak, uint64_t seed) {
    struct life life = {.soak = soak, .rng = {seed}};
    double until = sup_now_s() + 0.05 + (double)below(&life, 1000) / 1000.0;
    bool forks = below(&life, 4) == 0;
    life.counts.threads = 1;
    for (uint64_t i = 0;
         (i % 64 != 0 || sup_now_s() < until) && !atomic_load_explicit(&soak->stop, memory_order_relaxed); i++) {
        one_operation(&life);
        if (i % 256 == 0) {
            add_counts(&life);
        }
        if (atomic_load_explicit(&soak_gate_shut, memory_order_relaxed)) {
            soak_gate_wait();
        }
    }
    if (forks) {
        fork_child(&life);
    }
    /* The remaining objects go to others, which find them in the slabs of a thread that has ended. */
    for (unsigned i = 0; i < SOAK_KEPT; i++) {
        struct soak_object *o = &life.kept[i];
        if (o->object.address != NULL &&
            (o->allocator != soak->plain || !stress_put(&soak->boxes[i % SOAK_BOXES], &o->object))) {
            release(o);
        }
    }
    if (below(&life, 3) == 0) {
        (void)epoch_domain_enter(soak->shared); /* ends inside of it */
    }
    add_counts(&life);
}

static void drain_box(struct soak *soak, struct stress_box *box) {
    struct stress_object object;
    while (stress_take(box, &object)) {
        stress_free(soak->plain, &object);
    }
}

void soak_drain_large(struct soak *soak) { drain_box(soak, &soak->large); }

void soak_drain(struct soak *soak) {
    for (unsigned i = 0; i < SOAK_BOXES; i++) {
        drain_box(soak, &soak->boxes[i]);
    }
    soak_drain_large(soak);
    while (soak->parked_count > 0) {
        EpochDomain *domain = soak->parked[--soak->parked_count];
        SUP_CHECK(epoch_domain_enter(domain), "a domain that nobody has: %s", strerror(errno));
        epoch_domain_destroy(domain);
    }
}
