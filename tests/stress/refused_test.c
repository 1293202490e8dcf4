/*
 * Messages about refused pointers and handles beside threads to whose slabs they point: these open epochs of each kind,
 * allocate and free in them, and end them, while others free the same addresses in allocators that they are not of, one
 * of which has ended. Each call is refused and each message is a line, whose content may be out of date.
 *
 *     refused_test [--seconds N] [--seed N] [--threads N]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "stress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define RING 256u
#define OBJECTS 60u

static struct {
    struct sup_args args;
    SlabAllocator *allocator, *other, *ended;
    _Atomic(void *) ring[RING];
    _Atomic SlabHandle handles[RING];
    _Atomic bool last;
    _Atomic uint64_t epochs, messages;
} arena = {.args = {.seconds = 2.0, .seed = 1, .threads = 2}};

static void count_line(const char *line, size_t bytes, void *unused) {
    (void)unused;
    bool is_frame = strncmp(line, "    #", 5) == 0; /* of a stack, under AddressSanitizer */
    SUP_CHECK(is_frame || strncmp(line, "tslab: ", 7) == 0, "no message: %s", line);
    SUP_CHECK(bytes > 7 && line[bytes - 1] == '\n', "no line: %s", line);
    atomic_fetch_add_explicit(&arena.messages, 1, memory_order_relaxed);
}

static size_t any_size(struct sup_rng *rng) {
    static const size_t most[] = {64, 500, 5000, 200000};
    return sup_rng_below(rng, most[sup_rng_below(rng, 4)]);
}

static void one_epoch(struct sup_rng *rng) {
    void *objects[OBJECTS];
    EpochId epoch = epoch_open(arena.allocator, "worked in", sup_rng_below(rng, 2) ? EPOCH_CHURN : EPOCH_SCOPE);
    SUP_CHECK(epoch != EPOCH_NONE, "epoch_open");
    unsigned count = 1 + (unsigned)sup_rng_below(rng, OBJECTS);
    for (unsigned i = 0; i < count; i++) {
        SlabHandle handle;
        objects[i] = alloc_obj_epoch(arena.allocator, any_size(rng), epoch, &handle);
        SUP_CHECK(objects[i] != NULL, "alloc_obj_epoch");
        uint64_t at = sup_rng_below(rng, RING);
        atomic_store_explicit(&arena.ring[at], objects[i], memory_order_relaxed);
        atomic_store_explicit(&arena.handles[at], handle, memory_order_relaxed);
    }
    for (unsigned i = 0; i < count; i++)
        if (sup_rng_below(rng, 3) != 0) SUP_CHECK(slab_free(arena.allocator, objects[i]), "slab_free");
    SUP_CHECK(epoch_destroy(arena.allocator, epoch), "epoch_destroy");
    if (sup_rng_below(rng, 50) == 0) (void)slab_trim(arena.allocator);
    atomic_fetch_add_explicit(&arena.epochs, 1, memory_order_relaxed);
}

static void work(void *unused, unsigned number) {
    struct sup_rng rng = {sup_mix(arena.args.seed) + number};
    (void)unused;
    while (!atomic_load(&arena.last)) one_epoch(&rng);
}

static void refuse(void *unused, unsigned number) {
    struct sup_rng rng = {sup_mix(arena.args.seed + 77) + number};
    (void)unused;
    while (!atomic_load(&arena.last)) {
        uint64_t at = sup_rng_below(&rng, RING);
        char *p = atomic_load_explicit(&arena.ring[at], memory_order_relaxed);
        SlabHandle handle = atomic_load_explicit(&arena.handles[at], memory_order_relaxed);
        SlabAllocator *wrong = sup_rng_below(&rng, 2) ? arena.other : arena.ended;
        if (p == NULL) continue;
        SUP_CHECK(!slab_free(wrong, p) && !slab_free(wrong, p + sup_rng_below(&rng, 100)),
                  "it is of another allocator");
        SUP_CHECK(!free_obj(wrong, handle), "it is of another allocator");
    }
}

static bool met_all(void) { return atomic_load(&arena.epochs) > 0 && atomic_load(&arena.messages) > 0; }

int main(int argc, char **argv) {
    struct stress_crew workers, refusers;
    SlabOptions options = {.size = sizeof options, .on_misuse = SLAB_MISUSE_REPORT};
    sup_args_parse(argc, argv, &arena.args);
    SUP_CHECK(arena.args.threads >= 1 && arena.args.threads <= 16, "1 to 16 threads");
    slab_set_message_sink(count_line, NULL);
    arena.allocator = slab_allocator_create_ex(&options);
    arena.other = slab_allocator_create_ex(&options);
    arena.ended = slab_allocator_create_ex(&options);
    SUP_CHECK(arena.allocator && arena.other && arena.ended, "slab_allocator_create_ex");
    slab_allocator_free(arena.ended);
    stress_start(&workers, (unsigned)arena.args.threads, work, NULL);
    stress_start(&refusers, 2, refuse, NULL);
    /* The record of the one that has ended is used again now and then. */
    for (double until = sup_now_s() + arena.args.seconds; sup_now_s() < until || !met_all();) {
        slab_allocator_free(slab_allocator_create_ex(&options));
        const struct timespec wait = {0, 200000};
        (void)nanosleep(&wait, NULL);
    }
    atomic_store(&arena.last, true);
    stress_join(&workers);
    stress_join(&refusers);
    slab_allocator_free(arena.other);
    slab_allocator_free(arena.allocator);
    (void)printf("refused_test: seed %" PRIu64 ", %" PRIu64 " epochs, %" PRIu64 " messages: good\n", arena.args.seed,
                 atomic_load(&arena.epochs), atomic_load(&arena.messages));
    return 0;
}
