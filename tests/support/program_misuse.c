/* The operations of a program that must all be refused, and must damage nothing. */
#include "program_impl.h"
#include "rng.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static char static_bytes[64];

static bool refuse_pointer(struct prog *program, int allocator, void *pointer, const char *what) {
    SlabAllocator *of = program->allocators[allocator];
    TRACE(program, "slab_free(a[%d], (void *)%p); /* false: %s */", allocator, pointer, what);
    EXPECT(program, !slab_free(of, pointer), "slab_free of %s %p", what, pointer);
    program->rejected[allocator]++;
    EXPECT(program, slab_usable_size(of, pointer) == 0, "slab_usable_size of %s %p", what, pointer);
    EXPECT(program, !slab_owns(of, pointer), "slab_owns of %s %p", what, pointer);
    EXPECT(program, slab_handle_of(of, pointer) == SLAB_HANDLE_NONE, "slab_handle_of %s %p", what, pointer);
    errno = 0;
    EXPECT(program, slab_realloc(of, pointer, 100) == NULL && errno == EINVAL, "slab_realloc of %s %p: errno %d", what,
           pointer, errno);
    return true;
}

static bool refuse_handle(struct prog *program, int allocator, SlabHandle handle, const char *what) {
    SlabAllocator *of = program->allocators[allocator];
    TRACE(program, "free_obj(a[%d], 0x%" PRIx64 "); /* false: %s */", allocator, handle, what);
    EXPECT(program, slab_handle_get(of, handle) == NULL, "slab_handle_get of %s %" PRIx64, what, handle);
    EXPECT(program, !free_obj(of, handle), "free_obj of %s %" PRIx64, what, handle);
    program->rejected[allocator]++;
    return true;
}

/* Whether the addresses of this allocator are known to this program alone. */
static bool addresses_known(const struct prog *program, int allocator) {
    return program->alive[allocator] && (allocator != 0 || !prog_together(program));
}

/* A pointer to an object that is gone. The address may be that of a newer object: then it is that one. */
static bool stale_pointer(struct prog *program, int slot) {
    const struct model_object *object = &program->objects[slot];
    if (object->live || object->address == NULL || !addresses_known(program, object->allocator)) {
        return true;
    }
    int now = prog_find_address(program, object->allocator, object->address);
    if (now >= 0) {
        return prog_free_slot(program, now);
    }
    return refuse_pointer(program, object->allocator, object->address, "a stale pointer");
}

static bool stale_handle(struct prog *program, int slot) {
    const struct model_object *object = &program->objects[slot];
    if (object->live || object->handle == SLAB_HANDLE_NONE || !program->alive[object->allocator]) {
        return true;
    }
    return refuse_handle(program, object->allocator, object->handle, "a stale handle");
}

static bool garbage_pointer(struct prog *program, const struct prog_op *op) {
    int allocator = op->allocator % PROG_ALLOCATORS;
    const struct model_object *object = &program->objects[op->object % PROG_OBJECTS];
    char on_stack[64];
    void *pointer = NULL;
    if (!addresses_known(program, allocator)) {
        return true;
    }
    switch (op->extra % 8) {
    case 0: pointer = on_stack + op->size % sizeof on_stack; break;
    case 1: pointer = static_bytes + op->size % sizeof static_bytes; break;
    case 2: pointer = (void *)(uintptr_t)(sup_mix(op->size) | 1u); break;
    case 3: pointer = (void *)(uintptr_t)(UINTPTR_MAX - op->size % 4096u); break;
    case 4: pointer = (void *)(uintptr_t)(1u + op->size % 4096u); break;
    case 5: /* inside of a live object */
        if (!object->live || object->usable < 2) {
            return true;
        }
        pointer = (char *)object->address + 1 + op->size % (object->usable - 1);
        break;
    case 6: /* near an object, live or not */
        if (object->address == NULL) {
            return true;
        }
        pointer = (void *)((uintptr_t)object->address + (uintptr_t)(op->size % 4096u) * 16u - 32768u);
        break;
    default: pointer = (void *)(uintptr_t)sup_mix(op->size); break;
    }
    if (pointer == NULL || prog_find_address(program, allocator, pointer) >= 0) {
        return true;
    }
    return refuse_pointer(program, allocator, pointer, "garbage");
}

static bool garbage_handle(struct prog *program, const struct prog_op *op) {
    int allocator = op->allocator % PROG_ALLOCATORS;
    const struct model_object *object = &program->objects[op->object % PROG_OBJECTS];
    if (!addresses_known(program, allocator)) {
        return true;
    }
    SlabHandle handle = sup_mix(op->size);
    if (op->extra % 2 == 0 && object->handle != SLAB_HANDLE_NONE && object->allocator == allocator) {
        handle = object->handle ^ ((SlabHandle)1 << (op->size % 64u));
    }
    return prog_find_handle(program, allocator, handle) >= 0 ||
           refuse_handle(program, allocator, handle, "a forged handle");
}

static bool wrong_allocator(struct prog *program, const struct prog_op *op, int slot) {
    int allocator = op->allocator % PROG_ALLOCATORS;
    const struct model_object *object = &program->objects[slot];
    if (!object->live || object->allocator == allocator || !program->alive[allocator]) {
        return true;
    }
    errno = 0;
    EXPECT(program,
           slab_malloc_epoch(program->allocators[allocator], 32, object->epoch->id) == NULL &&
               (errno == EINVAL || errno == ESTALE),
           "an object in another allocator's epoch, errno %d", errno);
    return refuse_pointer(program, allocator, object->address, "another allocator's object") &&
           refuse_handle(program, allocator, object->handle, "another allocator's handle");
}

/* An allocator that has been freed, while no other has its address. */
static bool dead_allocator(struct prog *program, int allocator) {
    SlabAllocator *of = program->allocators[allocator];
    if (prog_together(program)) {
        return true;
    }
    for (int other = 0; other < PROG_ALLOCATORS; other++) {
        if (program->alive[other] && program->allocators[other] == of) {
            return true;
        }
    }
    SlabGlobalStats stats;
    errno = 0;
    EXPECT(program, slab_malloc(of, 32) == NULL && errno == EINVAL, "slab_malloc of a freed allocator, errno %d",
           errno);
    EXPECT(program, epoch_open(of, NULL, 0) == EPOCH_NONE, "epoch_open of a freed allocator");
    EXPECT(program, epoch_current(of) == EPOCH_NONE, "epoch_current of a freed allocator");
    EXPECT(program, epoch_domain_create(of) == NULL || of == NULL, "epoch_domain_create of a freed allocator");
    EXPECT(program, !slab_free(of, static_bytes), "slab_free of a freed allocator");
    EXPECT(program, !slab_stats_global(of, &stats), "slab_stats_global of a freed allocator");
    EXPECT(program, slab_trim(of) == 0, "slab_trim of a freed allocator");
    slab_allocator_free(of);
    return true;
}

static bool bad_argument(struct prog *program, const struct prog_op *op) {
    int allocator = op->allocator % PROG_ALLOCATORS;
    const struct model_epoch *epoch = program->epochs[op->epoch % PROG_EPOCHS];
    SlabHandle handle = SLAB_HANDLE_NONE;
    if (!program->alive[allocator]) {
        return program->allocators[allocator] == NULL || dead_allocator(program, allocator);
    }
    SlabAllocator *of = program->allocators[allocator];
    EXPECT(program, slab_free(of, NULL), "slab_free of NULL");
    EXPECT(program, slab_usable_size(of, NULL) == 0 && !slab_owns(of, NULL), "NULL is no object");
    EXPECT(program, !free_obj(of, SLAB_HANDLE_NONE), "free_obj of SLAB_HANDLE_NONE");
    program->rejected[allocator]++;
    errno = 0;
    EXPECT(program, slab_malloc_epoch(of, 32, EPOCH_NONE) == NULL && errno == EINVAL, "EPOCH_NONE, errno %d", errno);
    errno = 0;
    EXPECT(program, epoch_open(of, NULL, 0x80000000u) == EPOCH_NONE && errno == EINVAL, "flags of epoch_open, errno %d",
           errno);
    EXPECT(program, !epoch_close(of, EPOCH_NONE) && !epoch_destroy(of, EPOCH_NONE), "EPOCH_NONE is no epoch");
    EXPECT(program, epoch_state(of, sup_mix(op->size)) == EPOCH_CLOSED, "a random number is no epoch");
    if (epoch == NULL || epoch->allocator != allocator || epoch->state != MODEL_ACTIVE) {
        return true;
    }
    errno = 0;
    EXPECT(program, slab_aligned_epoch(of, op->extra | 3u, 32, epoch->id) == NULL && errno == EINVAL,
           "alignment %u, errno %d", op->extra | 3u, errno);
    errno = 0;
    EXPECT(program, slab_calloc_epoch(of, SIZE_MAX / 2, 3 + op->extra, epoch->id) == NULL && errno == ENOMEM,
           "slab_calloc_epoch with an overflow, errno %d", errno);
    errno = 0;
    EXPECT(program, alloc_obj_epoch(of, 32, epoch->id, NULL) == NULL && errno == EINVAL, "handle NULL, errno %d",
           errno);
    errno = 0;
    EXPECT(program, alloc_obj_epoch(of, SIZE_MAX - op->extra, epoch->id, &handle) == NULL && errno == ENOMEM,
           "nearly SIZE_MAX bytes, errno %d", errno);
    return true;
}

static bool old_epoch(struct prog *program, const struct prog_op *op) {
    int at = op->extra % PROG_OLD;
    EpochId id = program->old[at];
    int allocator = program->old_allocator[at];
    if (id == EPOCH_NONE || !program->alive[allocator]) {
        return true;
    }
    SlabAllocator *of = program->allocators[allocator];
    SlabEpochStats stats;
    errno = 0;
    EXPECT(program, slab_malloc_epoch(of, (size_t)(op->size % 1000u), id) == NULL,
           "an object in the old epoch %" PRIu64, id);
    EXPECT(program, errno == ESTALE || errno == EINVAL, "an object in an old epoch: errno %d", errno);
    EXPECT(program, !epoch_close(of, id) && !epoch_destroy(of, id), "the old epoch %" PRIu64, id);
    EXPECT(program, epoch_state(of, id) == EPOCH_CLOSED, "the state of the old epoch %" PRIu64, id);
    EXPECT(program, !slab_epoch_set_label(of, id, "x"), "the label of the old epoch %" PRIu64, id);
    if (slab_stats_epoch(of, SLAB_ALL_CLASSES, id, &stats))
        EXPECT(program,
               stats.state == EPOCH_CLOSED && stats.ended_for_ns != 0 && stats.live_objects == 0 &&
                   stats.slab_count == 0,
               "figures of the old epoch %" PRIu64, id);
    return true;
}

static bool stale_domain(struct prog *program, int slot) {
    EpochDomain *domain = program->domains[slot].domain;
    if (program->domains[slot].alive || domain == NULL || prog_together(program)) {
        return true;
    }
    for (int other = 0; other < PROG_DOMAINS; other++) {
        if (program->domains[other].alive && program->domains[other].domain == domain) {
            return true;
        }
    }
    TRACE(program, "epoch_domain_destroy(d[%d]); /* again */", slot);
    epoch_domain_destroy(domain);
    errno = 0;
    EXPECT(program, !epoch_domain_enter(domain) && errno == EINVAL, "epoch_domain_enter after its destroy, errno %d",
           errno);
    EXPECT(program, !epoch_domain_exit(domain) && !epoch_domain_force_close(domain), "d[%d] after its destroy", slot);
    EXPECT(program, !epoch_domain_reset(domain, 0) && !epoch_domain_hand_over(domain), "d[%d] after its destroy", slot);
    EXPECT(program, epoch_domain_epoch(domain) == EPOCH_NONE && epoch_domain_allocator(domain) == NULL,
           "d[%d] after its destroy", slot);
    return true;
}

bool prog_misuse_op(struct prog *program, const struct prog_op *op) {
    int slot = op->object % PROG_OBJECTS;
    switch (op->kind) {
    case PROG_STALE_POINTER: return stale_pointer(program, slot);
    case PROG_STALE_HANDLE: return stale_handle(program, slot);
    case PROG_GARBAGE_POINTER: return garbage_pointer(program, op);
    case PROG_GARBAGE_HANDLE: return garbage_handle(program, op);
    case PROG_WRONG_ALLOCATOR: return wrong_allocator(program, op, slot);
    case PROG_OLD_EPOCH: return old_epoch(program, op);
    case PROG_STALE_DOMAIN: return stale_domain(program, op->domain % PROG_DOMAINS);
    default: return bad_argument(program, op);
    }
}
