/* The domain operations of a program. */
#include "pattern.h"
#include "program_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

bool prog_is_entered(const struct prog *program, int slot) {
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

bool prog_check_innermost(struct prog *program) {
    EpochDomain *expected = program->depth == 0 ? NULL : program->domains[program->stack[program->depth - 1]].domain;
    EXPECT(program, epoch_domain_current() == expected, "epoch_domain_current at depth %d", program->depth);
    return true;
}

bool prog_is_below(const struct prog *program, int slot, int above) {
    while (slot >= 0 && slot != above) {
        slot = program->domains[slot].parent;
    }
    return slot >= 0;
}

bool prog_is_lent(const struct prog *program, int slot) {
    for (int other = 0; other < PROG_DOMAINS; other++) {
        const struct model_domain *domain = &program->domains[other];
        if (domain->alive && prog_is_below(program, other, slot) &&
            atomic_load_explicit(&domain->epoch->lent, memory_order_acquire) != 0) {
            return true;
        }
    }
    return false;
}

/* ---- the ends, and their order ---- */

static void due_cleanups(struct prog *program, int slot, uint64_t after) {
    struct model_domain *domain = &program->domains[slot];
    for (uint64_t before = UINT64_MAX;;) {
        struct model_cleanup *newest = NULL;
        for (int i = 0; i < PROG_CLEANUPS; i++) {
            struct model_cleanup *cleanup = &domain->cleanup[i];
            if (cleanup->born > after && cleanup->born < before && (newest == NULL || cleanup->born > newest->born)) {
                newest = cleanup;
            }
        }
        if (newest == NULL) {
            return;
        }
        program->due[program->due_count++] = (struct model_due){slot, newest};
        before = newest->born;
    }
}

static void due_children(struct prog *program, int slot, uint64_t after) { /* NOLINT(misc-no-recursion) */
    for (uint64_t before = UINT64_MAX;;) {
        int newest = -1;
        for (int i = 0; i < PROG_DOMAINS; i++) {
            const struct model_domain *child = &program->domains[i];
            if (child->alive && child->parent == slot && child->born > after && child->born < before &&
                (newest < 0 || child->born > program->domains[newest].born)) {
                newest = i;
            }
        }
        if (newest < 0) {
            return;
        }
        before = program->domains[newest].born;
        due_children(program, newest, 0);
        due_cleanups(program, newest, 0);
        program->due[program->due_count++] = (struct model_due){newest, NULL};
    }
}

void prog_expect_due(struct prog *program, int slot, uint64_t after) {
    program->due_count = program->due_at = 0;
    due_children(program, slot, after);
    due_cleanups(program, slot, after);
}

static void finish_domain(struct prog *program, int slot) {
    struct model_domain *domain = &program->domains[slot];
    struct model_epoch *epoch = domain->epoch;
    leave_all(program, slot);
    domain->alive = false;
    domain->parent = -1;
    if (domain->end != MODEL_ENDS) {
        epoch->above = NULL;
    }
    if (domain->end == MODEL_ENDS && epoch->state != MODEL_GONE) {
        prog_epoch_gone(program, epoch);
    } else if (domain->end == MODEL_DRAINS && epoch->state == MODEL_ACTIVE) {
        epoch->state = MODEL_CLOSED;
    }
}

static void finish_due(struct prog *program) {
    while (program->due_at < program->due_count && program->due[program->due_at].cleanup == NULL) {
        finish_domain(program, program->due[program->due_at++].domain);
    }
}

bool prog_check_due(struct prog *program, int slot, bool done) {
    if (done) {
        finish_due(program);
    }
    EXPECT(program, program->due_at == (done ? program->due_count : 0) && !program->cleanup_wrong,
           "cleanups of d[%d] and its children: %d of %d have come, in %s order", slot, program->due_at,
           program->due_count, program->cleanup_wrong ? "wrong" : "right");
    program->due_count = program->due_at = 0;
    return prog_check_innermost(program);
}

/* In the order in which they are due; each third one allocates in the domain that is going, and each third tries to
   end it. */
static void on_destroy(void *argument) {
    struct model_cleanup *cleanup = argument;
    struct prog *program = cleanup->program;
    struct model_domain *domain = &program->domains[cleanup->domain];
    struct model_epoch *epoch = domain->epoch;
    SlabAllocator *of = program->allocators[domain->allocator];
    finish_due(program);
    if (program->due_at == program->due_count || program->due[program->due_at++].cleanup != cleanup) {
        program->cleanup_wrong = true;
    }
    cleanup->born = 0;
    if (cleanup->sequence % 3 == 1) {
        errno = 0;
        program->cleanup_wrong |= epoch_domain_end(domain->domain) || errno != EPERM;
        return;
    }
    if (cleanup->sequence % 3 != 0) {
        return;
    }
    epoch->other_thread |= program->elsewhere;
    errno = 0;
    unsigned char *object = slab_malloc_epoch(of, 40, epoch->id);
    if (object != NULL) {
        memset(object, 0x5a, 40);
        program->cleanup_wrong |= epoch->state != MODEL_ACTIVE;
    } else {
        program->cleanup_wrong |= prog_is_sure(program, epoch, 40);
    }
    /* In an epoch that outlives the call the object would be one that the model does not know. */
    if (object != NULL) {
        program->cleanup_wrong |= !slab_free(of, object);
    }
}

static void *end_on_thread(void *argument) {
    struct model_domain *domain = argument;
    errno = 0;
    return epoch_domain_end(domain->domain) ? NULL : (void *)(intptr_t)errno;
}

/* 0, or an error. */
static int end_elsewhere(struct prog *program, struct model_domain *domain) {
    pthread_t thread;
    void *error;
    program->elsewhere = true;
    SUP_CHECK(pthread_create(&thread, NULL, end_on_thread, domain) == 0, "pthread_create");
    (void)pthread_join(thread, &error);
    program->elsewhere = false;
    return (int)(intptr_t)error;
}

bool prog_end_domain(struct prog *program, int slot, enum prog_how how) {
    struct model_domain *domain = &program->domains[slot];
    struct model_epoch *epoch = domain->epoch;
    int error = 0;
    bool inside = false;
    for (int level = 0; level < program->depth; level++) {
        inside |= prog_is_below(program, program->stack[level], slot);
    }
    prog_expect_due(program, slot, 0);
    program->due[program->due_count++] = (struct model_due){slot, NULL};
    if (how == PROG_BY_DESTROY) {
        TRACE(program, "epoch_domain_destroy(d[%d]);", slot);
        epoch_domain_destroy(domain->domain);
    } else if (how == PROG_BY_END) {
        TRACE(program, "epoch_domain_end(d[%d]); /* true */", slot);
        error = end_on_thread(domain) != NULL;
    } else {
        TRACE(program, "epoch_domain_end(d[%d]); /* in another thread: %s */", slot, inside ? "EBUSY" : "true");
        error = end_elsewhere(program, domain);
    }
    bool busy = how == PROG_BY_ANOTHER_THREAD && inside;
    EXPECT(program, error == (busy ? EBUSY : 0), "epoch_domain_end of d[%d], entered %d: %s", slot, inside,
           strerror(error));
    if (!prog_check_due(program, slot, !busy)) {
        return false;
    }
    if (!busy && domain->end == MODEL_ENDS) {
        EXPECT(program, epoch_state(program->allocators[domain->allocator], epoch->id) == EPOCH_CLOSED,
               "the epoch of d[%d] after its end", slot);
    }
    return true;
}

bool prog_destroy_domain(struct prog *program, int slot) { return prog_end_domain(program, slot, PROG_BY_DESTROY); }

bool prog_free_domain_slot(struct prog *program, int slot) {
    return !program->domains[slot].alive || (!prog_is_lent(program, slot) && prog_destroy_domain(program, slot));
}

void prog_new_domain(struct prog *program, int slot, EpochDomain *made, struct model_epoch *epoch, bool shared,
                     enum model_end end) {
    program->domains[slot] = (struct model_domain){.domain = made,
                                                   .epoch = epoch,
                                                   .allocator = epoch->allocator,
                                                   .alive = true,
                                                   .shared = shared,
                                                   .end = end,
                                                   .parent = -1};
}

/* ---- the operations ---- */

static bool create(struct prog *program, const struct prog_op *op, int slot) {
    int allocator = op->allocator % PROG_ALLOCATORS;
    if (!prog_free_domain_slot(program, slot)) {
        return program->why[0] == '\0';
    }
    if (!prog_ensure_allocator(program, allocator, op->extra)) {
        return false;
    }
    unsigned flags = op->extra % 4 == 1 ? EPOCH_CHURN : op->extra % 4 == 2 ? EPOCH_SCOPE : 0;
    flags |= op->extra % 5 == 0 ? EPOCH_DOMAIN_SHARED : 0;
    flags |= op->extra % 7 == 0 ? EPOCH_DOMAIN_DRAIN : 0;
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
    EXPECT(program, epoch_domain_parent(made) == NULL, "epoch_domain_parent of d[%d]", slot);
    struct model_epoch *epoch =
        prog_new_epoch(program, id, allocator, (flags & EPOCH_CHURN) != 0 ? EPOCH_CHURN : EPOCH_SCOPE);
    prog_new_domain(program, slot, made, epoch, (flags & EPOCH_DOMAIN_SHARED) != 0,
                    (flags & EPOCH_DOMAIN_DRAIN) != 0 ? MODEL_DRAINS : MODEL_ENDS);
    program->epochs[op->epoch % PROG_EPOCHS] = epoch;
    TRACE(program, "e[%d] = epoch_domain_epoch(d[%d]);", op->epoch % PROG_EPOCHS, slot);
    return true;
}

static bool has_domain(const struct prog *program, const struct model_epoch *epoch) {
    for (int i = 0; i < PROG_DOMAINS; i++) {
        if (program->domains[i].alive && program->domains[i].epoch == epoch) {
            return true;
        }
    }
    return false;
}

static bool wrap(struct prog *program, const struct prog_op *op, int slot) {
    struct model_epoch *epoch = program->epochs[op->epoch % PROG_EPOCHS];
    if (epoch == NULL || !program->alive[epoch->allocator] || epoch->state != MODEL_ACTIVE) {
        return true;
    }
    if (!prog_free_domain_slot(program, slot)) {
        return program->why[0] == '\0';
    }
    if (epoch->state != MODEL_ACTIVE) {
        return true;
    }
    bool auto_close = op->extra % 2 == 0 && !prog_together(program);
    TRACE(program, "d[%d] = epoch_domain_wrap(a[%d], e[%d], %d);", slot, epoch->allocator, op->epoch % PROG_EPOCHS,
          auto_close);
    errno = 0;
    EpochDomain *made = epoch_domain_wrap(program->allocators[epoch->allocator], epoch->id, auto_close);
    if (has_domain(program, epoch)) {
        EXPECT(program, made == NULL && errno == EBUSY, "epoch_domain_wrap of e[%d], which has a domain: %s",
               op->epoch % PROG_EPOCHS, strerror(errno));
        return true;
    }
    EXPECT(program, made != NULL, "epoch_domain_wrap of the open e[%d]: %s", op->epoch % PROG_EPOCHS, strerror(errno));
    EXPECT(program, epoch_domain_epoch(made) == epoch->id, "epoch_domain_epoch of a wrapped epoch");
    prog_new_domain(program, slot, made, epoch, false, auto_close ? MODEL_ENDS : MODEL_STAYS);
    return true;
}

bool prog_enter_domain(struct prog *program, int slot) {
    const struct model_domain *domain = &program->domains[slot];
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
    return prog_check_innermost(program);
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
    return prog_check_innermost(program);
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
    if (prog_is_lent(program, slot)) {
        return true;
    }
    bool plain = domain->end == MODEL_STAYS;
    size_t keep = (size_t)(op->size % 200000u);
    prog_expect_due(program, slot, 0);
    TRACE(program, "epoch_domain_reset(d[%d], %zu);", slot, keep);
    errno = 0;
    bool answer = epoch_domain_reset(domain->domain, keep);
    int error = errno;
    if (!prog_check_due(program, slot, !plain)) {
        return false;
    }
    bool expected = !plain && domain->epoch->state == MODEL_ACTIVE;
    EXPECT(program, answer == expected, "epoch_domain_reset of d[%d], wrapped %d, epoch state %d: %s", slot, plain,
           (int)domain->epoch->state, strerror(error));
    if (!plain) {
        domain->marks = 0;
    }
    if (!answer) {
        EXPECT(program, error == (plain ? EINVAL : ESTALE), "epoch_domain_reset of d[%d]: %s", slot, strerror(error));
        return true;
    }
    EXPECT(program, epoch_domain_epoch(domain->domain) == domain->epoch->id, "the epoch of d[%d] after reset", slot);
    prog_kill_epoch(program, domain->epoch);
    prog_void_marks(program, domain->epoch);
    SlabEpochStats stats;
    EXPECT(program,
           slab_stats_epoch(program->allocators[domain->allocator], SLAB_ALL_CLASSES, domain->epoch->id, &stats),
           "slab_stats_epoch of d[%d] after reset", slot);
    EXPECT(program, stats.live_objects == 0, "%" PRIu64 " live objects in d[%d] after reset", stats.live_objects, slot);
    domain->epoch->other_thread = false;
    return prog_check_innermost(program);
}

static bool add_cleanup(struct prog *program, struct model_domain *domain, int slot) {
    struct model_cleanup *cleanup = domain->cleanup;
    while (cleanup < domain->cleanup + PROG_CLEANUPS && cleanup->born != 0) {
        cleanup++;
    }
    if (cleanup == domain->cleanup + PROG_CLEANUPS) {
        return true;
    }
    *cleanup = (struct model_cleanup){program, slot, (int)(cleanup - domain->cleanup), ++program->events};
    TRACE(program, "epoch_domain_on_destroy(d[%d], on_destroy, (void *)%d);", slot, cleanup->sequence + 1);
    EXPECT(program, epoch_domain_on_destroy(domain->domain, on_destroy, cleanup),
           "epoch_domain_on_destroy of d[%d]: %s", slot, strerror(errno));
    return true;
}

static bool take_back_cleanup(struct prog *program, const struct prog_op *op, struct model_domain *domain, int slot) {
    struct model_cleanup *cleanup = &domain->cleanup[op->extra % PROG_CLEANUPS];
    bool expected = cleanup->born != 0;
    TRACE(program, "epoch_domain_off_destroy(d[%d], on_destroy, (void *)%d); /* %s */", slot,
          (int)(op->extra % PROG_CLEANUPS) + 1, expected ? "true" : "false");
    errno = 0;
    bool answer = epoch_domain_off_destroy(domain->domain, on_destroy, cleanup);
    EXPECT(program, answer == expected && (answer || errno == ENOENT), "epoch_domain_off_destroy of d[%d]: %s", slot,
           strerror(errno));
    cleanup->born = 0;
    return true;
}

/* Gives the domain up and takes it again, and its children with it. */
bool prog_hand_over(struct prog *program, int slot) {
    struct model_domain *domain = &program->domains[slot];
    bool expected = !prog_is_entered(program, slot) && domain->parent < 0;
    for (int level = 0; level < program->depth && !domain->shared; level++) {
        expected = expected && !prog_is_below(program, program->stack[level], slot);
    }
    if (domain->epoch->state != MODEL_ACTIVE || (expected && program->depth == PROG_DEPTH)) {
        return true;
    }
    TRACE(program, "epoch_domain_hand_over(d[%d]); /* %s */", slot, expected ? "true" : "false");
    errno = 0;
    bool answer = epoch_domain_hand_over(domain->domain);
    EXPECT(program, answer == expected, "epoch_domain_hand_over of d[%d]: %s", slot, strerror(errno));
    EXPECT(program, answer || errno == EPERM, "epoch_domain_hand_over of the entered d[%d]: %s", slot, strerror(errno));
    if (!expected) {
        return true;
    }
    for (int i = 0; i < PROG_DOMAINS; i++) {
        if (program->domains[i].alive && prog_is_below(program, i, slot)) program->domains[i].marks = 0;
    }
    return prog_enter_domain(program, slot);
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
        bool sure = possible && prog_is_sure(program, domain->epoch, before.usable);
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
    case PROG_DOMAIN_ENTER: return prog_enter_domain(program, slot);
    case PROG_DOMAIN_DESTROY: return prog_is_lent(program, slot) || prog_destroy_domain(program, slot);
    case PROG_DOMAIN_FORCE_CLOSE: return force_close(program, domain, slot);
    case PROG_DOMAIN_RESET: return reset(program, op, domain, slot);
    case PROG_DOMAIN_ON_DESTROY: return add_cleanup(program, domain, slot);
    case PROG_OFF_DESTROY: return take_back_cleanup(program, op, domain, slot);
    case PROG_DOMAIN_HAND_OVER: return prog_hand_over(program, slot);
    default: return promote(program, op, domain, slot);
    }
}
