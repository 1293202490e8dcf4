/* The allocating and freeing operations of a program. */
#include "pattern.h"
#include "program_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

int prog_find_address(const struct prog *program, int allocator, const void *address) {
    for (int slot = 0; slot < PROG_OBJECTS; slot++) {
        const struct model_object *object = &program->objects[slot];
        if (object->live && object->allocator == allocator && object->address == address) {
            return slot;
        }
    }
    return -1;
}

int prog_find_handle(const struct prog *program, int allocator, SlabHandle handle) {
    for (int slot = 0; slot < PROG_OBJECTS; slot++) {
        const struct model_object *object = &program->objects[slot];
        if (object->live && object->allocator == allocator && object->handle == handle) {
            return slot;
        }
    }
    return -1;
}

bool prog_check_object(struct prog *program, int slot) {
    const struct model_object *object = &program->objects[slot];
    EXPECT(program, sup_pattern_check(object->address, object->usable, object->key),
           "p[%d] = %p of %zu bytes is damaged", slot, object->address, object->size);
    return true;
}

/* No byte of the new object may belong to another live one. */
static bool check_apart(struct prog *program, int slot, const void *address, size_t usable) {
    uintptr_t from = (uintptr_t)address;
    for (int other = 0; other < PROG_OBJECTS; other++) {
        const struct model_object *object = &program->objects[other];
        if (other == slot || !object->live) {
            continue;
        }
        uintptr_t start = (uintptr_t)object->address;
        EXPECT(program, from + usable <= start || start + object->usable <= from,
               "p[%d] = %p of %zu bytes overlaps the live p[%d] = %p of %zu bytes", slot, address, usable, other,
               object->address, object->usable);
    }
    return true;
}

/* prog_adopt without counting it in the epoch. */
static bool enter_object(struct prog *program, int slot, int allocator, struct model_epoch *epoch, void *address,
                         size_t size, size_t alignment, bool zeroed) {
    struct model_object *object = &program->objects[slot];
    SlabAllocator *of = program->allocators[allocator];
    EXPECT(program, address != NULL, "p[%d] of %zu bytes is NULL (%s)", slot, size, strerror(errno));
    EXPECT(program, (uintptr_t)address % alignment == 0, "p[%d] = %p of %zu bytes", slot, address, size);
    size_t usable = slab_usable_size(of, address);
    EXPECT(program, usable >= size && usable > 0, "p[%d]: slab_usable_size %zu of %zu bytes", slot, usable, size);
    EXPECT(program, slab_owns(of, address), "p[%d]: slab_owns", slot);
    SlabHandle handle = slab_handle_of(of, address);
    EXPECT(program, handle != SLAB_HANDLE_NONE, "p[%d]: slab_handle_of", slot);
    EXPECT(program, slab_handle_get(of, handle) == address, "p[%d]: slab_handle_get of its handle", slot);
    if (!check_apart(program, slot, address, usable)) {
        return false;
    }
    EXPECT(program, !zeroed || sup_zero_check(address, size), "p[%d] of %zu bytes from calloc is not zero", slot, size);
    *object =
        (struct model_object){address,   size, usable, program->next_key++ * 0x10001u, handle, ++program->events, epoch,
                              allocator, true, false};
    sup_pattern_fill(address, usable, object->key);
    TRACE(program, "h[%d] = slab_handle_of(a[%d], p[%d]);", slot, allocator, slot);
    return true;
}

bool prog_adopt(struct prog *program, int slot, int allocator, struct model_epoch *epoch, void *address, size_t size,
                size_t alignment, bool zeroed) {
    if (!enter_object(program, slot, allocator, epoch, address, size, alignment, zeroed)) {
        return false;
    }
    epoch->live++;
    return true;
}

void prog_drop_object(struct prog *program, struct model_object *object) {
    (void)program;
    object->live = false;
    if (object->received) {
        atomic_fetch_sub_explicit(&object->epoch->lent, 1, memory_order_release);
        object->received = false;
    } else {
        object->epoch->live--;
    }
}

void prog_kill_since(struct prog *program, struct model_epoch *epoch, uint64_t event) {
    for (int slot = 0; slot < PROG_OBJECTS; slot++) {
        struct model_object *object = &program->objects[slot];
        if (object->live && !object->received && object->epoch == epoch && object->born > event) {
            prog_drop_object(program, object);
        }
    }
}

void prog_kill_epoch(struct prog *program, struct model_epoch *epoch) { prog_kill_since(program, epoch, 0); }

bool prog_free_slot(struct prog *program, int slot) {
    struct model_object *object = &program->objects[slot];
    if (!prog_check_object(program, slot)) {
        return false;
    }
    TRACE(program, "slab_free(a[%d], p[%d]); /* true */", object->allocator, slot);
    EXPECT(program, slab_free(program->allocators[object->allocator], object->address), "slab_free of the live p[%d]",
           slot);
    prog_drop_object(program, object);
    return true;
}

static bool free_by_handle(struct prog *program, int slot) {
    struct model_object *object = &program->objects[slot];
    SlabAllocator *of = program->allocators[object->allocator];
    if (!prog_check_object(program, slot)) {
        return false;
    }
    TRACE(program, "free_obj(a[%d], h[%d]); /* true */", object->allocator, slot);
    EXPECT(program, free_obj(of, object->handle), "free_obj of the live h[%d]", slot);
    prog_drop_object(program, object);
    TRACE(program, "free_obj(a[%d], h[%d]); /* false */", object->allocator, slot);
    EXPECT(program, !free_obj(of, object->handle), "free_obj of h[%d] a second time", slot);
    program->rejected[object->allocator]++;
    return true;
}

bool prog_is_sure(const struct prog *program, const struct model_epoch *epoch, uint64_t size) {
    return epoch->state == MODEL_ACTIVE && !program->budgeted[epoch->allocator] && !prog_is_limited(epoch) &&
           size <= PROG_SURE_BYTES;
}

bool prog_ambient(struct prog *program, struct model_epoch **epoch) {
    *epoch = NULL;
    if (program->depth > 0) {
        *epoch = program->domains[program->stack[program->depth - 1]].epoch;
    } else if (!program->strict) {
        *epoch = prog_rolling(program, 0);
        EXPECT(program, *epoch != NULL, "epoch_current(a[0]) fails");
    }
    return true;
}

bool prog_check_answer(struct prog *program, int slot, const struct model_epoch *epoch, void *address, uint64_t size) {
    int error = errno;
    if (epoch->state != MODEL_ACTIVE) {
        bool never = size >= PROG_NEVER_BYTES;
        EXPECT(program, address == NULL, "p[%d] of %" PRIu64 " bytes in an epoch that takes none", slot, size);
        EXPECT(program, error == ESTALE || (never && error == ENOMEM), "p[%d] in a closed epoch: errno %s", slot,
               strerror(error));
        return true;
    }
    if (address == NULL) {
        EXPECT(program, error == ENOMEM, "p[%d] of %" PRIu64 " bytes: errno %s", slot, size, strerror(error));
        EXPECT(program, !prog_is_sure(program, epoch, size), "p[%d] of %" PRIu64 " bytes without a limit: no memory",
               slot, size);
    }
    EXPECT(program, address == NULL || size < PROG_NEVER_BYTES, "p[%d] of %" PRIu64 " bytes cannot exist", slot, size);
    return prog_check_limits(program, epoch, address, size);
}

static void *call_allocate(struct prog *program, const struct prog_op *op, int slot, int a,
                           const struct model_epoch *epoch, int e, size_t *alignment, SlabHandle *handle) {
    SlabAllocator *of = program->allocators[a];
    size_t size = (size_t)op->size;
    char name[24];
    (void)snprintf(name, sizeof name, e >= 0 ? "e[%d]" : "epoch_current(a[%d])", e >= 0 ? e : a);
    errno = 0;
    if (op->kind == PROG_CALLOC) {
        size_t count = 1u + op->extra % 7u;
        TRACE(program, "p[%d] = slab_calloc_epoch(a[%d], %zu, %zu, %s);", slot, a, count, size / count, name);
        return slab_calloc_epoch(of, count, size / count, epoch->id);
    }
    if (op->kind == PROG_ALIGNED) {
        *alignment = (size_t)1 << (op->extra % 22u);
        TRACE(program, "p[%d] = slab_aligned_epoch(a[%d], %zu, %zu, %s);", slot, a, *alignment, size, name);
        return slab_aligned_epoch(of, *alignment, size, epoch->id);
    }
    if (op->kind == PROG_ALLOC_OBJ) {
        TRACE(program, "p[%d] = alloc_obj_epoch(a[%d], %zu, %s, &h[%d]);", slot, a, size, name, slot);
        return alloc_obj_epoch(of, size, epoch->id, handle);
    }
    if (e < 0) {
        TRACE(program, "p[%d] = slab_malloc(a[%d], %zu);", slot, a, size);
        return slab_malloc(of, size);
    }
    TRACE(program, "p[%d] = slab_malloc_epoch(a[%d], %zu, %s);", slot, a, size, name);
    return slab_malloc_epoch(of, size, epoch->id);
}

static bool natural_alignment(size_t size, size_t *alignment) {
    if (size < 32 || size > 8192 || (size & (size - 1)) != 0) {
        return false;
    }
    *alignment = size > *alignment ? size : *alignment;
    return true;
}

static bool allocate(struct prog *program, const struct prog_op *op, int slot) {
    int allocator = op->allocator % PROG_ALLOCATORS;
    int e = op->epoch % PROG_EPOCHS;
    struct model_epoch *epoch = op->kind == PROG_MALLOC ? NULL : program->epochs[e];
    if (epoch != NULL) {
        allocator = epoch->allocator;
        if (!program->alive[allocator]) {
            return true;
        }
    } else {
        e = -1;
        if (!prog_ensure_allocator(program, allocator, op->extra)) {
            return false;
        }
        epoch = prog_rolling(program, allocator);
        EXPECT(program, epoch != NULL, "epoch_current(a[%d]) fails", allocator);
    }
    size_t alignment = 16;
    size_t size = (size_t)op->size;
    SlabHandle handle = SLAB_HANDLE_NONE;
    void *address = call_allocate(program, op, slot, allocator, epoch, e, &alignment, &handle);
    if (op->kind == PROG_CALLOC) {
        size_t count = 1u + op->extra % 7u;
        size = size / count * count;
    }
    alignment = alignment < 16 ? 16 : alignment;
    uint64_t needed = op->kind == PROG_ALIGNED ? (uint64_t)size + alignment : (uint64_t)size;
    if (!prog_check_answer(program, slot, epoch, address, needed < size ? UINT64_MAX : needed)) {
        return false;
    }
    if (address == NULL) {
        return true;
    }
    if ((epoch->flags & EPOCH_SCOPE) == 0) {
        (void)natural_alignment(size, &alignment);
    }
    if (!prog_adopt(program, slot, allocator, epoch, address, size, alignment, op->kind == PROG_CALLOC)) {
        return false;
    }
    EXPECT(program, op->kind != PROG_ALLOC_OBJ || handle == program->objects[slot].handle,
           "h[%d]: alloc_obj_epoch says %" PRIx64 ", slab_handle_of %" PRIx64, slot, handle,
           program->objects[slot].handle);
    return true;
}

static bool ambient_allocate(struct prog *program, const struct prog_op *op, int slot) {
    struct model_epoch *epoch;
    if (!prog_ambient(program, &epoch)) {
        return false;
    }
    TRACE(program, "p[%d] = slab_alloc(%zu);", slot, (size_t)op->size);
    errno = 0;
    void *address = slab_alloc((size_t)op->size);
    if (epoch == NULL) {
        EXPECT(program, address == NULL && errno == EINVAL, "slab_alloc outside of any domain: errno %d", errno);
        return true;
    }
    return prog_check_answer(program, slot, epoch, address, op->size) &&
           (address == NULL ||
            prog_adopt(program, slot, epoch->allocator, epoch, address, (size_t)op->size, 16, false));
}

/* The live object of the slot. In a closed epoch an object that fits must stay where it is. */
static bool reallocate(struct prog *program, const struct prog_op *op, int slot) {
    struct model_object *object = &program->objects[slot];
    struct model_object before = *object;
    SlabAllocator *of = program->allocators[before.allocator];
    size_t size = (size_t)op->size;
    if (!prog_check_object(program, slot)) {
        return false;
    }
    void *address;
    errno = 0;
    if (op->kind == PROG_RESIZE && op->extra % 2 == 0) {
        TRACE(program, "p[%d] = slab_alloc_resize(p[%d], %zu); /* NULL: keep the old p[%d] */", slot, slot, size, slot);
        address = slab_alloc_resize(before.address, size);
    } else if (op->kind == PROG_RESIZE) { /* the epoch is for a pointer that is NULL */
        TRACE(program, "p[%d] = slab_realloc_epoch(a[%d], p[%d], %zu, 0); /* NULL: keep the old p[%d] */", slot,
              before.allocator, slot, size, slot);
        address = slab_realloc_epoch(of, before.address, size, EPOCH_NONE);
    } else {
        TRACE(program, "p[%d] = slab_realloc(a[%d], p[%d], %zu); /* NULL: keep the old p[%d] */", slot,
              before.allocator, slot, size, slot);
        address = slab_realloc(of, before.address, size);
    }
    int error = errno;
    bool open = !before.received && before.epoch->state == MODEL_ACTIVE;
    bool sure = open && prog_is_sure(program, before.epoch, size);
    if (address == NULL) {
        EXPECT(program, !sure && size > before.usable, "slab_realloc of p[%d] from %zu to %zu bytes: %s", slot,
               before.size, size, strerror(error));
        EXPECT(program, error == ENOMEM || (error == ESTALE && !open), "slab_realloc of p[%d]: errno %s", slot,
               strerror(error));
        EXPECT(program,
               slab_usable_size(of, before.address) == before.usable &&
                   slab_handle_of(of, before.address) == before.handle,
               "p[%d] after a failed slab_realloc", slot);
        return prog_check_object(program, slot);
    }
    EXPECT(program, size < PROG_NEVER_BYTES, "slab_realloc of p[%d] to %zu bytes cannot succeed", slot, size);
    EXPECT(program, before.received || open || address == before.address,
           "slab_realloc moved p[%d] within a closed epoch", slot);
    size_t usable = slab_usable_size(of, address);
    size_t kept = before.usable < size ? before.usable : size;
    EXPECT(program, usable >= size, "slab_realloc of p[%d]: usable %zu of %zu bytes", slot, usable, size);
    EXPECT(program, sup_pattern_check_prefix(address, before.usable, kept, before.key),
           "slab_realloc of p[%d] from %zu to %zu bytes lost its contents", slot, before.size, size);
    if (address != before.address) {
        EXPECT(program, slab_handle_get(of, before.handle) == NULL, "the handle of p[%d] before it moved", slot);
        EXPECT(program, prog_together(program) || !slab_owns(of, before.address), "p[%d] where it was before it moved",
               slot);
    } else {
        EXPECT(program, slab_handle_get(of, before.handle) == address, "the handle of p[%d], resized in place", slot);
    }
    if (!enter_object(program, slot, before.allocator, before.epoch, address, size, 16, false)) {
        return false;
    }
    object->received = before.received;
    if (address == before.address) {
        object->born = before.born;
    }
    return true;
}

static bool query(struct prog *program, int slot) {
    const struct model_object *object = &program->objects[slot];
    SlabAllocator *of = program->allocators[object->allocator];
    if (!object->live) {
        return true;
    }
    EXPECT(program, slab_usable_size(of, object->address) == object->usable, "slab_usable_size of the live p[%d]",
           slot);
    EXPECT(program, slab_owns(of, object->address), "slab_owns of the live p[%d]", slot);
    EXPECT(program, slab_handle_of(of, object->address) == object->handle, "slab_handle_of the live p[%d]", slot);
    EXPECT(program, slab_handle_get(of, object->handle) == object->address, "slab_handle_get of the live h[%d]", slot);
    return prog_check_object(program, slot);
}

static bool verify_all(struct prog *program) {
    for (int slot = 0; slot < PROG_OBJECTS; slot++) {
        if (program->objects[slot].live && !query(program, slot)) {
            return false;
        }
    }
    return true;
}

static bool realloc_nothing(struct prog *program, const struct prog_op *op, int slot) {
    int allocator = op->allocator % PROG_ALLOCATORS;
    if (!prog_ensure_allocator(program, allocator, op->extra)) {
        return false;
    }
    struct model_epoch *epoch = prog_rolling(program, allocator);
    EXPECT(program, epoch != NULL, "epoch_current(a[%d]) fails", allocator);
    TRACE(program, "p[%d] = slab_realloc(a[%d], NULL, %zu);", slot, allocator, (size_t)op->size);
    errno = 0;
    void *address = slab_realloc(program->allocators[allocator], NULL, (size_t)op->size);
    return prog_check_answer(program, slot, epoch, address, op->size) &&
           (address == NULL || prog_adopt(program, slot, allocator, epoch, address, (size_t)op->size, 16, false));
}

bool prog_object_op(struct prog *program, const struct prog_op *op) {
    int slot = op->object % PROG_OBJECTS;
    bool live = program->objects[slot].live;
    switch (op->kind) {
    case PROG_VERIFY: return verify_all(program);
    case PROG_QUERY: return query(program, slot);
    case PROG_FREE: return !live || prog_free_slot(program, slot);
    case PROG_FREE_OBJ: return !live || free_by_handle(program, slot);
    case PROG_REALLOC: return live ? reallocate(program, op, slot) : realloc_nothing(program, op, slot);
    case PROG_RESIZE: return !live || reallocate(program, op, slot);
    default: break;
    }
    if (live) {
        return op->extra % 2 == 0 ? prog_free_slot(program, slot) : free_by_handle(program, slot);
    }
    return op->kind == PROG_SLAB_ALLOC ? ambient_allocate(program, op, slot) : allocate(program, op, slot);
}
