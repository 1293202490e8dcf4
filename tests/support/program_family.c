/* The calls that name no allocator, and walks. */
#include "pattern.h"
#include "program_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { ZERO, ALIGNED, STRDUP, STRNDUP, MEMDUP, PRINTF, RESIZE, REALLOC_EPOCH, IN_DOMAIN, KINDS };

/* The expected result of an allocation, and the object's properties. */
struct wanted {
    struct model_epoch *epoch; /* NULL: refused, with `error` */
    int error;
    size_t size, alignment;
    bool zeroed;
    const char *contents; /* NULL: whatever */
    size_t length;
};

static _Thread_local char text[4097];

static void make_text(size_t length) {
    for (size_t i = 0; i < length; i++) {
        text[i] = (char)('a' + i % 26u);
    }
    text[length] = '\0';
}

static void *zero(struct prog *program, const struct prog_op *op, int slot, struct wanted *wanted) {
    size_t count = 1u + op->extra / KINDS % 7u, size = (size_t)op->size / count;
    if (op->extra % 64u == 0) { /* it overflows */
        size = SIZE_MAX / count + 1 + op->extra;
    }
    wanted->zeroed = true;
    if (count > 1 && size > SIZE_MAX / count) {
        wanted->epoch = NULL;
        wanted->error = ENOMEM;
    }
    wanted->size = count * size;
    TRACE(program, "p[%d] = slab_alloc_zero(%zu, %zuu);", slot, count, size);
    return slab_alloc_zero(count, size);
}

static void *aligned(struct prog *program, const struct prog_op *op, int slot, struct wanted *wanted) {
    size_t alignment = (size_t)1 << (op->extra / KINDS % 22u);
    if (op->extra % 128u == 0) {
        alignment = op->extra | 3u;
        wanted->epoch = NULL;
        wanted->error = EINVAL;
    }
    wanted->alignment = alignment;
    TRACE(program, "p[%d] = slab_alloc_aligned(%zu, %zu);", slot, alignment, wanted->size);
    return slab_alloc_aligned(alignment, wanted->size);
}

static void *copy(struct prog *program, const struct prog_op *op, int slot, unsigned kind, struct wanted *wanted) {
    size_t length = (size_t)(op->size % (sizeof text - 1)), most = op->extra / KINDS % 3u == 0 ? length / 2 : SIZE_MAX;
    make_text(length);
    wanted->contents = text;
    wanted->size = wanted->length = length + 1;
    switch (kind) {
    case STRDUP:
        TRACE(program, "p[%d] = slab_alloc(%zu); /* strdup */", slot, length + 1);
        return slab_alloc_strdup(text);
    case PRINTF: {
        TRACE(program, "p[%d] = slab_alloc(%zu); /* printf */", slot, length + 1);
        make_text(length < 3 ? 3 : length);
        wanted->size = wanted->length = strlen(text) + 1;
        return slab_alloc_printf("%c%s%.*s", text[0], "bc", (int)(strlen(text) - 3), text + 3);
    }
    case STRNDUP:
        TRACE(program, "p[%d] = slab_alloc_strndup(\"\", 0); /* of %zu bytes */", slot, length);
        wanted->length = most < length ? most : length;
        wanted->size = wanted->length + 1;
        return slab_alloc_strndup(text, most);
    default:
        TRACE(program, "p[%d] = slab_alloc(%zu); /* memdup */", slot, length);
        wanted->size = wanted->length = length;
        return slab_alloc_memdup(text, length);
    }
}

static bool check(struct prog *program, int slot, const struct wanted *wanted, void *address) {
    if (wanted->epoch == NULL) {
        EXPECT(program, address == NULL && errno == wanted->error, "p[%d]: errno %d, not %d", slot, errno,
               wanted->error);
        return true;
    }
    size_t alignment = wanted->alignment < 16 ? 16 : wanted->alignment;
    uint64_t needed = alignment > 16 ? (uint64_t)wanted->size + alignment : wanted->size;
    if (!prog_check_answer(program, slot, wanted->epoch, address, needed < wanted->size ? UINT64_MAX : needed)) {
        return false;
    }
    if (address == NULL) {
        return true;
    }
    EXPECT(program, wanted->contents == NULL || memcmp(address, wanted->contents, wanted->length) == 0,
           "p[%d] is not the copy of %zu bytes", slot, wanted->length);
    return prog_adopt(program, slot, wanted->epoch->allocator, wanted->epoch, address, wanted->size, alignment,
                      wanted->zeroed);
}

static bool allocate(struct prog *program, const struct prog_op *op, int slot) {
    struct wanted wanted = {.error = EINVAL, .size = (size_t)op->size, .alignment = 16};
    unsigned kind = op->extra % KINDS;
    const struct model_domain *domain = &program->domains[op->domain % PROG_DOMAINS];
    struct model_epoch *epoch = program->epochs[op->epoch % PROG_EPOCHS];
    void *address;
    if (kind == IN_DOMAIN) {
        if (!domain->alive) {
            return true;
        }
        wanted.epoch = domain->epoch;
        TRACE(program, "p[%d] = epoch_domain_alloc(d[%d], %zu);", slot, op->domain % PROG_DOMAINS, wanted.size);
        errno = 0;
        return check(program, slot, &wanted, epoch_domain_alloc(domain->domain, wanted.size));
    }
    if (kind == REALLOC_EPOCH) {
        if (epoch == NULL || !program->alive[epoch->allocator]) {
            return true;
        }
        wanted.epoch = epoch;
        TRACE(program, "p[%d] = slab_realloc_epoch(a[%d], NULL, %zu, e[%d]);", slot, epoch->allocator, wanted.size,
              op->epoch % PROG_EPOCHS);
        errno = 0;
        address = slab_realloc_epoch(program->allocators[epoch->allocator], NULL, wanted.size, epoch->id);
        return check(program, slot, &wanted, address);
    }
    if (!prog_ambient(program, &wanted.epoch)) {
        return false;
    }
    errno = 0;
    switch (kind) {
    case ZERO: address = zero(program, op, slot, &wanted); break;
    case ALIGNED: address = aligned(program, op, slot, &wanted); break;
    case RESIZE:
        TRACE(program, "p[%d] = slab_alloc_resize(NULL, %zu);", slot, wanted.size);
        address = slab_alloc_resize(NULL, wanted.size);
        break;
    default: address = copy(program, op, slot, kind, &wanted); break;
    }
    return check(program, slot, &wanted, address);
}

/* ---- in whichever allocator owns it ---- */

static bool release(struct prog *program, int slot) {
    struct model_object *object = &program->objects[slot];
    if (object->live) {
        if (!prog_check_object(program, slot)) {
            return false;
        }
        TRACE(program, "slab_release(p[%d]); /* true */", slot);
        EXPECT(program, slab_release(object->address), "slab_release of the live p[%d]", slot);
        prog_drop_object(program, object);
        return true;
    }
    if (object->address == NULL || prog_together(program) || !program->alive[object->allocator]) {
        return true;
    }
    for (int allocator = 0; allocator < PROG_ALLOCATORS; allocator++) {
        if (prog_find_address(program, allocator, object->address) >= 0) {
            return true;
        }
    }
    TRACE(program, "slab_release(p[%d]); /* false */", slot);
    EXPECT(program, !slab_release(object->address), "slab_release of the stale p[%d]", slot);
    errno = 0;
    EXPECT(program, slab_alloc_resize(object->address, 10) == NULL && errno == EINVAL,
           "slab_alloc_resize of the stale p[%d]: errno %d", slot, errno);
    return true;
}

/* ---- walks ---- */

struct walk {
    struct prog *program;
    const struct model_epoch *epoch;
    uint64_t shown, most;
    bool seen[PROG_OBJECTS];
    const char *wrong;
};

static bool look(void *address, size_t bytes, void *argument) {
    struct walk *walk = argument;
    int slot = prog_find_address(walk->program, walk->epoch->allocator, address);
    walk->shown++;
    if (slot < 0 || walk->program->objects[slot].epoch != walk->epoch) {
        walk->wrong = "what is no object of the epoch";
    } else if (walk->seen[slot]) {
        walk->wrong = "an object twice";
    } else if (bytes != walk->program->objects[slot].usable) {
        walk->wrong = "the wrong size";
    }
    if (slot >= 0) {
        walk->seen[slot] = true;
    }
    return walk->shown < walk->most;
}

static bool walk_epoch(struct prog *program, const struct prog_op *op) {
    int at = op->epoch % PROG_EPOCHS;
    const struct model_epoch *epoch = program->epochs[at];
    if (epoch == NULL || !program->alive[epoch->allocator] || (prog_together(program) && epoch->was_lent)) {
        return true;
    }
    struct walk walk = {
        .program = program, .epoch = epoch, .most = op->extra % 3u == 0 ? 1 + op->extra / 3u % 8u : UINT64_MAX};
    TRACE(program, "slab_walk(a[%d], e[%d], ...);", epoch->allocator, at);
    size_t answer = slab_walk(program->allocators[epoch->allocator], epoch->id, look, &walk);
    uint64_t expected = epoch->live < walk.most ? epoch->live : walk.most;
    EXPECT(program, walk.wrong == NULL, "slab_walk of e[%d] shows %s", at, walk.wrong);
    EXPECT(program, answer == walk.shown && answer == expected,
           "slab_walk of e[%d]: %zu, shown %" PRIu64 " of %" PRIu64, at, answer, walk.shown, expected);
    return true;
}

bool prog_family_op(struct prog *program, const struct prog_op *op) {
    int slot = op->object % PROG_OBJECTS;
    if (op->kind == PROG_WALK) {
        return walk_epoch(program, op);
    }
    if (op->kind == PROG_RELEASE) {
        return release(program, slot);
    }
    return program->objects[slot].live ? prog_free_slot(program, slot) : allocate(program, op, slot);
}
