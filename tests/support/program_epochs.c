/* The epoch operations of a program. */
#include "program_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct model_epoch *prog_new_epoch(struct prog *program, EpochId id, int allocator, unsigned flags) {
    struct model_epoch *epoch = calloc(1, sizeof *epoch);
    SUP_CHECK(epoch != NULL, "out of memory");
    epoch->id = id;
    epoch->allocator = allocator;
    epoch->flags = flags;
    atomic_init(&epoch->lent, 0);
    epoch->next = program->all_epochs;
    program->all_epochs = epoch;
    return epoch;
}

struct model_epoch *prog_rolling(struct prog *program, int allocator) {
    EpochId id = epoch_current(program->allocators[allocator]);
    struct model_epoch *epoch = program->rolling[allocator];
    if (id == EPOCH_NONE) {
        return NULL;
    }
    if (epoch == NULL) {
        epoch = prog_new_epoch(program, id, allocator, EPOCH_CHURN);
        epoch->rolling = true;
        epoch->was_lent = allocator == 0; /* others may have objects in it */
        program->rolling[allocator] = epoch;
    }
    return epoch->id == id ? epoch : NULL;
}

void prog_remember_old(struct prog *program, const struct model_epoch *epoch) {
    unsigned at = program->old_next++ % PROG_OLD;
    program->old[at] = epoch->id;
    program->old_allocator[at] = epoch->allocator;
}

void prog_epoch_gone(struct prog *program, struct model_epoch *epoch) {
    prog_kill_epoch(program, epoch);
    epoch->state = MODEL_GONE;
    prog_remember_old(program, epoch);
}

static const char *const LABELS[] = {
    "request",
    "",
    "a label that is longer than the thirty-one bytes kept",
    "\xc3\xa4\xc3\xb6\xc3\xbc",
    "\xff\xfe bad",
    "exactly thirty bytes of label!\xc3\xa9",
};

static bool open_epoch(struct prog *program, const struct prog_op *op, int slot) {
    int allocator = op->allocator % PROG_ALLOCATORS;
    if (!prog_ensure_allocator(program, allocator, op->extra)) {
        return false;
    }
    unsigned flags = (const unsigned[]){0, EPOCH_CHURN, EPOCH_SCOPE}[op->extra % 3];
    const char *label = op->size % 4 == 0 ? NULL : LABELS[op->size % (sizeof LABELS / sizeof LABELS[0])];
    TRACE(program, "e[%d] = epoch_open(a[%d], %s, %u);", slot, allocator, label == NULL ? "NULL" : "\"label\"", flags);
    errno = 0;
    EpochId id = epoch_open(program->allocators[allocator], label, flags);
    EXPECT(program, id != EPOCH_NONE, "epoch_open: %s", strerror(errno));
    for (const struct model_epoch *other = program->all_epochs; other != NULL; other = other->next) {
        EXPECT(program, other->id != id, "epoch_open gave the id %" PRIu64 " twice", id);
    }
    EXPECT(program, epoch_state(program->allocators[allocator], id) == EPOCH_ACTIVE, "state of the new e[%d]", slot);
    program->epochs[slot] = prog_new_epoch(program, id, allocator, flags == 0 ? EPOCH_CHURN : flags);
    return true;
}

/* Another thread can hold this one's memory at the moment of a close: then it is CLOSED a little later. */
static int settled_state(const struct prog *program, const struct model_epoch *epoch) {
    int state = epoch_state(program->allocators[epoch->allocator], epoch->id);
    bool waits = prog_together(program) && epoch->state == MODEL_CLOSED && epoch->live == 0 && !epoch->was_lent;
    for (int i = 0; i < 100000 && waits && state == EPOCH_CLOSING; i++) {
        (void)sched_yield();
        state = epoch_state(program->allocators[epoch->allocator], epoch->id);
    }
    return state;
}

static bool check_state(struct prog *program, const struct model_epoch *epoch, int slot) {
    int state = settled_state(program, epoch);
    if (epoch->state == MODEL_ACTIVE) {
        EXPECT(program, state == EPOCH_ACTIVE, "epoch_state of the open e[%d]: %d", slot, state);
    } else if (epoch->state == MODEL_GONE) {
        EXPECT(program, state == EPOCH_CLOSED, "epoch_state of the destroyed e[%d]: %d", slot, state);
    } else if (epoch->was_lent) {
        EXPECT(program, state == EPOCH_CLOSING || state == EPOCH_CLOSED, "epoch_state of the closed e[%d]: %d", slot,
               state);
    } else {
        EXPECT(program, state == (epoch->live != 0 ? EPOCH_CLOSING : EPOCH_CLOSED),
               "epoch_state of the closed e[%d] with %" PRIu64 " live objects: %d", slot, epoch->live, state);
    }
    return true;
}

static bool close_epoch(struct prog *program, struct model_epoch *epoch, int slot) {
    bool expected = epoch->state == MODEL_ACTIVE;
    TRACE(program, "epoch_close(a[%d], e[%d]); /* %s */", epoch->allocator, slot, expected ? "true" : "false");
    bool answer = epoch_close(program->allocators[epoch->allocator], epoch->id);
    EXPECT(program, answer == expected, "epoch_close of e[%d] in state %d", slot, (int)epoch->state);
    if (expected) {
        epoch->state = MODEL_CLOSED;
    }
    return check_state(program, epoch, slot);
}

static bool destroy_epoch(struct prog *program, struct model_epoch *epoch, int slot) {
    if (atomic_load_explicit(&epoch->lent, memory_order_acquire) != 0) {
        return true;
    }
    TRACE(program, "epoch_destroy(a[%d], e[%d]);", epoch->allocator, slot);
    bool answer = epoch_destroy(program->allocators[epoch->allocator], epoch->id);
    /* An epoch that is closed and has drained may be known still, or be gone already. */
    bool either = epoch->state == MODEL_CLOSED && (epoch->live == 0 || epoch->was_lent);
    EXPECT(program, either || answer == (epoch->state != MODEL_GONE), "epoch_destroy of e[%d] in state %d", slot,
           (int)epoch->state);
    if (epoch->state != MODEL_GONE) {
        prog_epoch_gone(program, epoch);
    }
    EXPECT(program, !epoch_destroy(program->allocators[epoch->allocator], epoch->id), "epoch_destroy of e[%d] twice",
           slot);
    return check_state(program, epoch, slot);
}

static bool advance(struct prog *program, const struct prog_op *op) {
    int allocator = op->allocator % PROG_ALLOCATORS;
    if (prog_together(program) && allocator == 0) {
        return true;
    }
    if (!prog_ensure_allocator(program, allocator, op->extra)) {
        return false;
    }
    struct model_epoch *before = prog_rolling(program, allocator);
    EXPECT(program, before != NULL, "epoch_current(a[%d]) fails", allocator);
    TRACE(program, "epoch_advance(a[%d]);", allocator);
    EpochId id = epoch_advance(program->allocators[allocator]);
    EXPECT(program, id != EPOCH_NONE && id != before->id, "epoch_advance(a[%d])", allocator);
    EXPECT(program, epoch_current(program->allocators[allocator]) == id, "epoch_current after epoch_advance");
    before->state = MODEL_CLOSED;
    before->rolling = false;
    program->rolling[allocator] = NULL;
    EXPECT(program, prog_rolling(program, allocator) != NULL, "epoch_current changes by itself");
    program->rolling[allocator]->was_lent = false;
    return check_state(program, before, -1);
}

static bool set_label(struct prog *program, const struct prog_op *op, struct model_epoch *epoch, int slot) {
    const char *label = LABELS[op->size % (sizeof LABELS / sizeof LABELS[0])];
    SlabAllocator *of = program->allocators[epoch->allocator];
    bool answer = slab_epoch_set_label(of, epoch->id, label);
    bool either = epoch->state == MODEL_CLOSED && (epoch->live == 0 || epoch->was_lent);
    EXPECT(program, either || answer == (epoch->state != MODEL_GONE), "slab_epoch_set_label of e[%d] in state %d", slot,
           (int)epoch->state);
    SlabEpochStats stats;
    if (epoch->state != MODEL_ACTIVE) {
        return true;
    }
    EXPECT(program, slab_stats_epoch(of, SLAB_ALL_CLASSES, epoch->id, &stats), "slab_stats_epoch of the open e[%d]",
           slot);
    EXPECT(program, memchr(stats.label, '\0', sizeof stats.label) != NULL, "the label of e[%d] has no end", slot);
    EXPECT(program, epoch->was_lent || stats.live_objects >= epoch->live, "live objects of e[%d]: %" PRIu64, slot,
           stats.live_objects);
    return true;
}

bool prog_epoch_op(struct prog *program, const struct prog_op *op) {
    int slot = op->epoch % PROG_EPOCHS;
    struct model_epoch *epoch = program->epochs[slot];
    if (op->kind == PROG_EPOCH_ADVANCE) {
        return advance(program, op);
    }
    if (op->kind == PROG_EPOCH_OPEN) {
        return open_epoch(program, op, slot);
    }
    if (epoch == NULL || !program->alive[epoch->allocator]) {
        return true;
    }
    switch (op->kind) {
    case PROG_EPOCH_CLOSE: return close_epoch(program, epoch, slot);
    case PROG_EPOCH_DESTROY: return destroy_epoch(program, epoch, slot);
    case PROG_EPOCH_LABEL: return set_label(program, op, epoch, slot);
    default: return check_state(program, epoch, slot);
    }
}
