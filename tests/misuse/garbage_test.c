/*
 * Pointers and handles that are no live object, of every kind, to every call that takes one: an answer, and
 * nothing damaged.
 *
 *     garbage_test [--seed N] [--ops N]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "pattern.h"
#include "rng.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LIVE 600

struct world {
    SlabAllocator *allocator;
    SlabAllocator *other;
    EpochDomain *domain;
    void *objects[LIVE];
    size_t usable[LIVE];
    SlabHandle handles[LIVE];
};

static char static_bytes[4096];

static void check_world(const struct world *world) {
    for (int i = 0; i < LIVE; i++) {
        SUP_CHECK(slab_usable_size(world->allocator, world->objects[i]) == world->usable[i], "object %d", i);
        SUP_CHECK(slab_handle_get(world->allocator, world->handles[i]) == world->objects[i], "handle %d", i);
        SUP_CHECK(sup_pattern_check(world->objects[i], world->usable[i], (uint64_t)i), "object %d is damaged", i);
    }
    SUP_CHECK(sup_live_objects(world->allocator) == LIVE, "live objects");
    sup_check_identities(world->allocator);
}

static void make_world(struct world *world) {
    world->allocator = slab_allocator_create();
    world->other = slab_allocator_create();
    SUP_CHECK(world->allocator != NULL && world->other != NULL, "slab_allocator_create");
    world->domain = epoch_domain_create(world->allocator);
    EpochId churn = epoch_open(world->allocator, "churn", EPOCH_CHURN);
    for (int i = 0; i < LIVE; i++) {
        EpochId epoch = i % 2 == 0 ? churn : epoch_domain_epoch(world->domain);
        size_t size = i % 50 == 49 ? 20000u * (size_t)i : (size_t)i * 5;
        world->objects[i] = slab_malloc_epoch(world->allocator, size, epoch);
        SUP_CHECK(world->objects[i] != NULL, "slab_malloc_epoch");
        world->usable[i] = slab_usable_size(world->allocator, world->objects[i]);
        world->handles[i] = slab_handle_of(world->allocator, world->objects[i]);
        sup_pattern_fill(world->objects[i], world->usable[i], (uint64_t)i);
    }
}

static void refuse(const struct world *world, void *pointer, const char *what) {
    SlabAllocator *allocators[] = {world->allocator, world->other};
    for (int a = 0; a < 2; a++) {
        SUP_CHECK(!slab_free(allocators[a], pointer), "%s: slab_free(%p)", what, pointer);
        SUP_CHECK(slab_usable_size(allocators[a], pointer) == 0, "%s: slab_usable_size(%p)", what, pointer);
        SUP_CHECK(!slab_owns(allocators[a], pointer), "%s: slab_owns(%p)", what, pointer);
        SUP_CHECK(slab_handle_of(allocators[a], pointer) == SLAB_HANDLE_NONE, "%s: slab_handle_of(%p)", what, pointer);
        errno = 0;
        SUP_CHECK(slab_realloc(allocators[a], pointer, 64) == NULL && errno == EINVAL, "%s: slab_realloc(%p), errno %d",
                  what, pointer, errno);
    }
    errno = 0;
    SUP_CHECK(slab_promote(world->domain, pointer) == NULL && errno == EINVAL, "%s: slab_promote(%p), errno %d", what,
              pointer, errno);
}

static void foreign_memory(const struct world *world) {
    char on_stack[256];
    char *mapped = mmap(NULL, 1u << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *from_malloc = malloc(1000);
    SUP_CHECK(mapped != MAP_FAILED && from_malloc != NULL, "memory to be refused");
    for (size_t i = 0; i < sizeof on_stack; i++) {
        refuse(world, on_stack + i, "stack");
    }
    for (size_t i = 0; i < sizeof static_bytes; i += 8) {
        refuse(world, static_bytes + i, "static");
    }
    for (size_t i = 0; i < 1u << 16; i += 1008) {
        refuse(world, mapped + i, "mmap");
    }
    refuse(world, from_malloc, "malloc");
    refuse(world, from_malloc + 16, "malloc");
    refuse(world, (void *)(uintptr_t)&refuse, "code");
    (void)munmap(mapped, 1u << 16);
    refuse(world, mapped, "unmapped");
    free(from_malloc);
}

static void far_addresses(const struct world *world) {
    static const uintptr_t far[] = {1,
                                    8,
                                    15,
                                    16,
                                    4096,
                                    UINTPTR_MAX,
                                    UINTPTR_MAX - 7,
                                    UINTPTR_MAX - 15,
                                    UINTPTR_MAX / 2,
                                    UINTPTR_MAX / 2 + 1,
                                    (uintptr_t)0xffff800000000000u,
                                    (uintptr_t)0xffffffff81000000u,
                                    (uintptr_t)0x00007ffffffff000u,
                                    (uintptr_t)0x0000800000000000u,
                                    (uintptr_t)0xdeadbeefdeadbee0u};
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        if (far[i] != 0) { /* some are 0 in 32 bits */
            refuse(world, (void *)far[i], "far");
        }
    }
    const unsigned top = sizeof(uintptr_t) * 8 - 1;
    for (unsigned bit = 4; bit <= top; bit++) {
        refuse(world, (void *)((uintptr_t)world->objects[0] ^ ((uintptr_t)1 << top) ^ ((uintptr_t)1 << (bit % top))),
               "the far half");
    }
    SUP_CHECK(slab_free(world->allocator, NULL), "NULL is freed and nothing happens");
    SUP_CHECK(!slab_owns(world->allocator, NULL) && slab_usable_size(world->allocator, NULL) == 0, "NULL");
    SUP_CHECK(slab_handle_of(world->allocator, NULL) == SLAB_HANDLE_NONE, "NULL");
}

static bool is_object(const struct world *world, const void *pointer) {
    for (int i = 0; i < LIVE; i++) {
        if (world->objects[i] == pointer) {
            return true;
        }
    }
    return false;
}

static void around_live_objects(const struct world *world) {
    for (int i = 0; i < LIVE; i++) {
        char *object = world->objects[i];
        size_t step = world->usable[i] > 512 ? world->usable[i] / 97 : 1;
        for (size_t offset = 1; offset < world->usable[i]; offset += step) {
            refuse(world, object + offset, "interior");
        }
        for (size_t offset = 16; offset < world->usable[i]; offset += (step + 15) / 16 * 16) {
            refuse(world, object + offset, "interior, aligned");
        }
        for (size_t back = 1; back < 64; back++) {
            void *before = (void *)((uintptr_t)object - back);
            if (!is_object(world, before)) {
                refuse(world, before, "just before");
            }
        }
        void *behind = object + world->usable[i];
        if (!is_object(world, behind)) {
            refuse(world, behind, "just behind");
        }
        SUP_CHECK(!slab_free(world->other, object), "another allocator's object");
        SUP_CHECK(!free_obj(world->other, world->handles[i]), "another allocator's handle");
        SUP_CHECK(slab_realloc(world->other, object, 10) == NULL, "another allocator's object");
        SUP_CHECK(slab_usable_size(world->other, object) == 0 && !slab_owns(world->other, object), "not the owner");
    }
}

static void dead_objects(const struct world *world) {
    enum { COUNT = 500 };
    void *dead[COUNT];
    const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    for (int k = 0; k < 2; k++) {
        SlabAllocator *gone = slab_allocator_create();
        EpochId epoch = epoch_open(gone, NULL, kinds[k]);
        for (int i = 0; i < COUNT; i++) {
            dead[i] = slab_malloc_epoch(gone, (size_t)i * 3, epoch);
            SUP_CHECK(dead[i] != NULL, "slab_malloc_epoch");
        }
        SUP_CHECK(epoch_destroy(gone, epoch), "epoch_destroy");
        for (int i = 0; i < COUNT; i++) {
            SUP_CHECK(!slab_free(gone, dead[i]), "freed by a destroy");
            refuse(world, dead[i], "freed by a destroy");
        }
        epoch = epoch_open(gone, NULL, kinds[k]);
        for (int i = 0; i < COUNT; i++) {
            dead[i] = slab_malloc_epoch(gone, (size_t)i * 3, epoch);
        }
        slab_allocator_free(gone);
        for (int i = 0; i < COUNT; i++) {
            SUP_CHECK(!slab_free(gone, dead[i]), "freed with its allocator");
            refuse(world, dead[i], "freed with its allocator");
        }
    }
}

/* Freed n frees ago: still refused, whether it lies in a cache, in a queue, or in a slab that was given back. */
static void double_free_at_distances(const struct world *world) {
    enum { MOST = 20000 };
    static void *dead[MOST];
    const unsigned kinds[] = {EPOCH_CHURN, EPOCH_SCOPE};
    for (int k = 0; k < 2; k++) {
        for (int distance = 1; distance <= MOST; distance = distance * 5 / 2 + 1) {
            EpochId epoch = epoch_open(world->allocator, NULL, kinds[k]);
            for (int i = 0; i < distance; i++) {
                dead[i] = slab_malloc_epoch(world->allocator, 16 + (size_t)(i % 3) * 100, epoch);
                SUP_CHECK(dead[i] != NULL, "slab_malloc_epoch");
            }
            for (int i = 0; i < distance; i++) {
                SUP_CHECK(slab_free(world->allocator, dead[i]), "the first free");
            }
            for (int turn = 0; turn < 2; turn++) {
                for (int i = 0; i < distance; i++) {
                    SUP_CHECK(!slab_free(world->allocator, dead[i]), "free number %d of %p, %d frees apart", turn + 2,
                              dead[i], distance);
                }
            }
            SUP_CHECK(epoch_destroy(world->allocator, epoch), "epoch_destroy");
        }
    }
}

static void random_numbers(const struct world *world, struct sup_rng *rng, uint64_t count) {
    uintptr_t base = (uintptr_t)world->objects[0];
    for (uint64_t i = 0; i < count; i++) {
        uint64_t number = sup_rng_next(rng);
        /* A third anywhere, a third in the 64 GiB around a real object (512 MiB where addresses have 32 bits), a third
           near one. */
        const unsigned wide = sizeof(uintptr_t) < 8 ? 29 : 36;
        uintptr_t address = i % 3 == 0   ? (uintptr_t)number
                            : i % 3 == 1 ? base + (uintptr_t)(number >> (64 - wide)) - ((uintptr_t)1 << (wide - 1))
                                         : base + (uintptr_t)(number >> 44) - ((uintptr_t)1 << 19);
        void *pointer = (void *)(i % 2 == 0 ? address & ~(uintptr_t)15 : address);
        if (slab_owns(world->allocator, pointer)) {
            SUP_CHECK(is_object(world, pointer), "%p is owned, and is no object", pointer);
        } else {
            SUP_CHECK(pointer == NULL || !slab_free(world->allocator, pointer), "slab_free(%p)", pointer);
        }
        SlabHandle handle = i % 2 == 0 ? number : world->handles[i % LIVE] ^ (number & (number << 7) & (number >> 9));
        void *object = slab_handle_get(world->allocator, handle);
        if (object != NULL) {
            SUP_CHECK(is_object(world, object) && slab_handle_of(world->allocator, object) == handle,
                      "handle %" PRIx64 " gives %p", handle, object);
        } else {
            SUP_CHECK(!free_obj(world->allocator, handle), "free_obj(%" PRIx64 ")", handle);
        }
    }
}

int main(int argc, char **argv) {
    struct sup_args args = {.seed = 1, .ops = SUP_SCALED(10000000)};
    static struct world world;
    sup_args_parse(argc, argv, &args);
    struct sup_rng rng = {sup_mix(args.seed)};
    make_world(&world);
    check_world(&world);
    foreign_memory(&world);
    check_world(&world);
    far_addresses(&world);
    check_world(&world);
    around_live_objects(&world);
    check_world(&world);
    dead_objects(&world);
    check_world(&world);
    double_free_at_distances(&world);
    check_world(&world);
    random_numbers(&world, &rng, args.ops);
    check_world(&world);
    for (int i = 0; i < LIVE; i++) {
        SUP_CHECK(slab_free(world.allocator, world.objects[i]), "object %d", i);
    }
    slab_allocator_free(world.allocator);
    slab_allocator_free(world.other);
    (void)printf("garbage_test: seed %" PRIu64 ", %" PRIu64 " random pointers and handles: good\n", args.seed,
                 args.ops);
    return 0;
}
