/* The domain operations of a program. */
#include "pattern.h"
#include "program_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static bool entered(const struct prog *program, int slot) {
    for (int level = 0; level < program->depth; level++) {
        if (program->stack[level] == slot) {
            return true;
        }
    }
    return false;
}

/* The domain is left on every level. */
static void leave_all(struct prog *program, int slot) {
    int kept = 0;
    for (int level = 0; level < program->depth; level++) {
        if (program->stack[level] != slot) {
            program->stack[kept++] = program->stack[level];
        }
    }
    program->depth = kept;
}

static bool check_innermost(struct prog *program) {
    EpochDomain *expected = program->depth == 0 ? NULL : program->domains[program->stack[program->depth - 1]].domain;
    EXPECT(program, epoch_domain_current() == expected, "epoch_domain_current at depth %d", program->depth);
    return true;
}

/* Newest first; every third one allocates in the domain that is going. */
static void on_destroy(void *argument) {
    struct model_cleanup *cleanup = argument;
    struct prog *program = cleanup->program;
    struct model_domain *domain = &program->domains[cleanup->domain];
    if (cleanup->sequence != domain->cleanups - 1) {
        program->cleanup_wrong = true;
    }
    domain->cleanups--;
    if (cleanup->sequence % 3 != 0) {
        return;
    }
    errno = 0;
    unsigned char *object = slab_malloc_epoch(program->allocators[domain->allocator], 40, domain->epoch->id);
    bool must = domain->epoch->state == MODEL_ACTIVE && !program->budgeted[domain->allocator];
    if (object != NULL) {
        memset(object, 0x5a, 40);
        program->cleanup_wrong |= domain->epoch->state != MODEL_ACTIVE;
    } else {
        program->cleanup_wrong |= must;
    }
    /* In an epoch that outlives the domain the object would be one that the model does not know. */
    if (object != NULL && domain->wrapped && !domain->auto_close) {
        program->cleanup_wrong |= !slab_free(program->allocators[domain->allocator], object);
    }
}

bool prog_destroy_domain(struct prog *program, int slot) {
    struct model_domain *domain = &program->domains[slot];
    bool ends = !domain->wrapped || domain->auto_close;
    TRACE(program, "epoch_domain_destroy(d[%d]);", slot);
    epoch_domain_destroy(domain->domain);
    EXPECT(program, domain->cleanups == 0 && !program->cleanup_wrong, "cleanups of d[%d]: %d were not run, order %s",
           slot, domain->cleanups, program->cleanup_wrong ? "wrong" : "right");
    leave_all(program, slot);
    domain->alive = false;
    if (ends && domain->epoch->state != MODEL_GONE) {
        prog_epoch_gone(program, domain->epoch);
    }
    if (ends) {
        EXPECT(program, epoch_state(program->allocators[domain->allocator], domain->epoch->id) == EPOCH_CLOSED,
               "the epoch of d[%d] after its destroy", slot);
    }
    return check_innermost(program);
}

static bool lent(const struct model_domain *domain) {
    return atomic_load_explicit(&domain->epoch->lent, memory_order_acquire) != 0;
}

static bool create(struct prog *program, const struct prog_op *op, int slot) {
    struct model_domain *domain = &program->domains[slot];
    int allocator = op->allocator % PROG_ALLOCATORS;
    if (domain->alive && ((!domain->wrapped && lent(domain)) || !prog_destroy_domain(program, slot))) {
        return program->why[0] == '\0';
    }
    if (!prog_ensure_allocator(program, allocator, op->extra)) {
        return false;
    }
    unsigned flags = op->extra % 4 == 1 ? EPOCH_CHURN : op->extra % 4 == 2 ? EPOCH_SCOPE : 0;
    flags |= op->extra % 5 == 0 ? EPOCH_DOMAIN_SHARED : 0;
    TRACE(program, "d[%d] = epoch_domain_create_ex(a[%d], \"d\", %u);", slot, allocator, flags);
    errno = 0;
    EpochDomain *made = flags == 0 && op->extra % 2 == 0
                            ? epoch_domain_create(program->allocators[allocator])
                            : epoch_domain_create_ex(program->allocators[allocator], "d", flags);
    EXPECT(program, made != NULL, "epoch_domain_create: %s", strerror(errno));
    EpochId id = epoch_domain_epoch(made);
    EXPECT(program, id != EPOCH_NONE, "epoch_domain_epoch of a new domain");
    EXPECT(program, epoch_domain_allocator(made) == program->allocators[allocator], "epoch_domain_allocator of d[%d]",
           slot);
    struct model_epoch *epoch =
        prog_new_epoch(program, id, allocator, (flags & EPOCH_CHURN) != 0 ? EPOCH_CHURN : EPOCH_SCOPE);
    *domain = (struct model_domain){.domain = made, .epoch = epoch, .allocator = allocator, .alive = true};
    program->epochs[op->epoch % PROG_EPOCHS] = epoch;
    TRACE(program, "e[%d] = epoch_domain_epoch(d[%d]);", op->epoch % PROG_EPOCHS, slot);
    return true;
}

static bool wrap(struct prog *program, const struct prog_op *op, int slot) {
    struct model_domain *domain = &program->domains[slot];
    struct model_epoch *epoch = program->epochs[op->epoch % PROG_EPOCHS];
    if (epoch == NULL || !program->alive[epoch->allocator] || epoch->state != MODEL_ACTIVE) {
        return true;
    }
    if (domain->alive && ((!domain->wrapped && lent(domain)) || !prog_destroy_domain(program, slot))) {
        return program->why[0] == '\0';
    }
    if (epoch->state != MODEL_ACTIVE) {
        return true;
    }
    bool auto_close = op->extra % 2 == 0 && !prog_together(program);
    TRACE(program, "d[%d] = epoch_domain_wrap(a[%d], e[%d], %d);", slot, epoch->allocator, op->epoch % PROG_EPOCHS,
          auto_close);
    EpochDomain *made = epoch_domain_wrap(program->allocators[epoch->allocator], epoch->id, auto_close);
    EXPECT(program, made != NULL, "epoch_domain_wrap of the open e[%d]: %s", op->epoch % PROG_EPOCHS, strerror(errno));
    EXPECT(program, epoch_domain_epoch(made) == epoch->id, "epoch_domain_epoch of a wrapped epoch");
    *domain = (struct model_domain){.domain = made,
                                    .epoch = epoch,
                                    .allocator = epoch->allocator,
                                    .alive = true,
                                    .wrapped = true,
                                    .auto_close = auto_close};
    return true;
}

static bool enter(struct prog *program, struct model_domain *domain, int slot) {
    if (program->depth == PROG_DEPTH) {
        return true;
    }
    bool expected = domain->epoch->state == MODEL_ACTIVE;
    TRACE(program, "epoch_domain_enter(d[%d]); /* %s */", slot, expected ? "true" : "false");
    errno = 0;
    bool answer = epoch_domain_enter(domain->domain);
    EXPECT(program, answer == expected, "epoch_domain_enter of d[%d], epoch state %d: %s", slot,
           (int)domain->epoch->state, strerror(errno));
    EXPECT(program, answer || errno == ESTALE, "epoch_domain_enter of the closed d[%d]: %s", slot, strerror(errno));
    if (answer) {
        program->stack[program->depth++] = slot;
    }
    return check_innermost(program);
}

static bool leave(struct prog *program, const struct prog_op *op, int slot) {
    if (op->extra % 4 != 0 && program->depth > 0) {
        slot = program->stack[program->depth - 1];
    }
    struct model_domain *domain = &program->domains[slot];
    if (!domain->alive) {
        return true;
    }
    bool expected = program->depth > 0 && program->stack[program->depth - 1] == slot;
    TRACE(program, "epoch_domain_exit(d[%d]); /* %s */", slot, expected ? "true" : "false");
    errno = 0;
    bool answer = epoch_domain_exit(domain->domain);
    EXPECT(program, answer == expected, "epoch_domain_exit of d[%d] at depth %d", slot, program->depth);
    EXPECT(program, answer || errno == EINVAL, "epoch_domain_exit of d[%d]: %s", slot, strerror(errno));
    program->depth -= expected;
    return check_innermost(program);
}

static bool force_close(struct prog *program, struct model_domain *domain, int slot) {
    bool expected = domain->epoch->state == MODEL_ACTIVE;
    TRACE(program, "epoch_domain_force_close(d[%d]); /* %s */", slot, expected ? "true" : "false");
    EXPECT(program, epoch_domain_force_close(domain->domain) == expected,
           "epoch_domain_force_close of d[%d], epoch state %d", slot, (int)domain->epoch->state);
    if (expected) {
        domain->epoch->state = MODEL_CLOSED;
    }
    return true;
}

static bool reset(struct prog *program, const struct prog_op *op, struct model_domain *domain, int slot) {
    if (lent(domain)) {
        return true;
    }
    bool plain = domain->wrapped && !domain->auto_close;
    bool expected = !plain && domain->epoch->state == MODEL_ACTIVE;
    size_t keep = (size_t)(op->size % 200000u);
    TRACE(program, "epoch_domain_reset(d[%d], %zu); /* %s */", slot, keep, expected ? "true" : "false");
    errno = 0;
    bool answer = epoch_domain_reset(domain->domain, keep);
    EXPECT(program, answer == expected, "epoch_domain_reset of d[%d], wrapped %d, epoch state %d: %s", slot, plain,
           (int)domain->epoch->state, strerror(errno));
    if (!answer) {
        EXPECT(program, errno == (plain ? EINVAL : ESTALE) || (plain && domain->epoch->state != MODEL_ACTIVE),
               "epoch_domain_reset of d[%d]: %s", slot, strerror(errno));
        return true;
    }
    EXPECT(program, domain->cleanups == 0 && !program->cleanup_wrong, "cleanups of d[%d] at its reset", slot);
    EXPECT(program, epoch_domain_epoch(domain->domain) == domain->epoch->id, "the epoch of d[%d] after reset", slot);
    prog_kill_epoch(program, domain->epoch);
    SlabEpochStats stats;
    EXPECT(program,
           slab_stats_epoch(program->allocators[domain->allocator], SLAB_ALL_CLASSES, domain->epoch->id, &stats),
           "slab_stats_epoch of d[%d] after reset", slot);
    EXPECT(program, stats.live_objects == 0, "%" PRIu64 " live objects in d[%d] after reset", stats.live_objects, slot);
    return check_innermost(program);
}

static bool add_cleanup(struct prog *program, struct model_domain *domain, int slot) {
    if (domain->cleanups == PROG_CLEANUPS) {
        return true;
    }
    struct model_cleanup *cleanup = &domain->cleanup[domain->cleanups];
    *cleanup = (struct model_cleanup){program, slot, domain->cleanups};
    TRACE(program, "epoch_domain_on_destroy(d[%d], on_destroy, NULL); /* %d */", slot, cleanup->sequence);
    EXPECT(program, epoch_domain_on_destroy(domain->domain, on_destroy, cleanup),
           "epoch_domain_on_destroy of d[%d]: %s", slot, strerror(errno));
    domain->cleanups++;
    return true;
}

/* Gives the domain up and takes it again. */
static bool hand_over(struct prog *program, struct model_domain *domain, int slot) {
    bool expected = !entered(program, slot);
    if (domain->epoch->state != MODEL_ACTIVE || (expected && program->depth == PROG_DEPTH)) {
        return true;
    }
    TRACE(program, "epoch_domain_hand_over(d[%d]); /* %s */", slot, expected ? "true" : "false");
    errno = 0;
    bool answer = epoch_domain_hand_over(domain->domain);
    EXPECT(program, answer == expected, "epoch_domain_hand_over of d[%d]: %s", slot, strerror(errno));
    EXPECT(program, answer || errno == EPERM, "epoch_domain_hand_over of the entered d[%d]: %s", slot, strerror(errno));
    return !expected || enter(program, domain, slot);
}

static bool promote(struct prog *program, const struct prog_op *op, struct model_domain *domain, int slot) {
    int object_slot = op->object % PROG_OBJECTS;
    struct model_object before = program->objects[object_slot];
    if (!before.live || !prog_check_object(program, object_slot)) {
        return program->why[0] == '\0';
    }
    SlabAllocator *of = program->allocators[domain->allocator];
    TRACE(program, "p[%d] = slab_promote(d[%d], p[%d]); /* NULL: keep the old p[%d] */", object_slot, slot, object_slot,
          object_slot);
    errno = 0;
    void *address = slab_promote(domain->domain, before.address);
    int error = errno;
    bool possible = before.allocator == domain->allocator && domain->epoch->state == MODEL_ACTIVE;
    if (address == NULL) {
        bool sure = possible && !program->budgeted[domain->allocator] && before.usable <= PROG_SURE_BYTES;
        EXPECT(program, !sure, "slab_promote of p[%d] to d[%d]: %s", object_slot, slot, strerror(error));
        EXPECT(program, error == EINVAL || error == ESTALE || error == ENOMEM, "slab_promote of p[%d]: %s", object_slot,
               strerror(error));
        EXPECT(program, slab_owns(program->allocators[before.allocator], before.address),
               "p[%d] after a failed slab_promote", object_slot);
        return prog_check_object(program, object_slot);
    }
    EXPECT(program, possible, "slab_promote of p[%d] to d[%d] cannot succeed", object_slot, slot);
    size_t usable = slab_usable_size(of, address);
    EXPECT(program, usable >= before.size, "promoted p[%d]: usable %zu of %zu bytes", object_slot, usable, before.size);
    EXPECT(program, sup_pattern_check_prefix(address, before.usable, before.size, before.key),
           "promoted p[%d] lost its contents", object_slot);
    if (address != before.address) {
        EXPECT(program, slab_handle_get(of, before.handle) == NULL, "the handle of p[%d] before it was promoted",
               object_slot);
    }
    prog_drop_object(program, &program->objects[object_slot]);
    return prog_adopt(program, object_slot, domain->allocator, domain->epoch, address, before.size, 16, false);
}

bool prog_domain_op(struct prog *program, const struct prog_op *op) {
    int slot = op->domain % PROG_DOMAINS;
    struct model_domain *domain = &program->domains[slot];
    switch (op->kind) {
    case PROG_DOMAIN_CREATE: return create(program, op, slot);
    case PROG_DOMAIN_WRAP: return wrap(program, op, slot);
    case PROG_DOMAIN_EXIT: return leave(program, op, slot);
    default: break;
    }
    if (!domain->alive) {
        return true;
    }
    switch (op->kind) {
    case PROG_DOMAIN_ENTER: return enter(program, domain, slot);
    case PROG_DOMAIN_DESTROY: return lent(domain) || prog_destroy_domain(program, slot);
    case PROG_DOMAIN_FORCE_CLOSE: return force_close(program, domain, slot);
    case PROG_DOMAIN_RESET: return reset(program, op, domain, slot);
    case PROG_DOMAIN_ON_DESTROY: return add_cleanup(program, domain, slot);
    case PROG_DOMAIN_HAND_OVER: return hand_over(program, domain, slot);
    default: return promote(program, op, domain, slot);
    }
}
