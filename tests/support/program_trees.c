/* Parents and children of domains, and limits. */
#include "program_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define UNIT_BYTES 16384u
#define PIECE_BYTES 512u /* of a small scope's first slabs, which do not count against limits */
/* A large object takes whole units, and some more for alignment and guards; a slab of a class of large objects has
   several. */
#define SPARE_UNITS(size) ((size) > 4096u ? 64u : 1u)

/* ---- limits ---- */

/* Epochs that are gone count as long as an epoch below them is there. */
bool prog_is_limited(const struct model_epoch *epoch) {
    while (epoch != NULL && epoch->limit == 0) {
        epoch = epoch->above;
    }
    return epoch != NULL;
}

static bool counts_for(const struct model_epoch *epoch, const struct model_epoch *above) {
    while (epoch != NULL && epoch != above) {
        epoch = epoch->above;
    }
    return epoch != NULL;
}

static uint64_t held_units(struct prog *program, const struct model_epoch *epoch, uint64_t *pieces) {
    uint64_t units = 0;
    *pieces = 0;
    for (const struct model_epoch *other = program->all_epochs; other != NULL; other = other->next) {
        SlabEpochStats stats;
        if (counts_for(other, epoch) && other->state != MODEL_GONE && program->alive[other->allocator] &&
            slab_stats_epoch(program->allocators[other->allocator], SLAB_ALL_CLASSES, other->id, &stats)) {
            uint64_t its = (stats.slab_count * UNIT_BYTES - stats.estimated_rss_bytes) / (UNIT_BYTES - PIECE_BYTES);
            units += stats.slab_count - its;
            *pieces += its;
        }
    }
    return units;
}

uint64_t prog_held_units(struct prog *program, const struct model_epoch *epoch) {
    uint64_t pieces;
    return held_units(program, epoch, &pieces);
}

bool prog_check_limits(struct prog *program, const struct model_epoch *epoch, const void *address, uint64_t size) {
    if (!prog_is_limited(epoch) || (address != NULL && program->events % 8u != 0)) { /* it takes a while */
        return true;
    }
    uint64_t needed = size / UNIT_BYTES + SPARE_UNITS(size);
    /* Other programs, that have objects of it, free them meanwhile: then there is room a moment later. */
    bool others = prog_together(program) && epoch->allocator == 0;
    bool full = program->budgeted[epoch->allocator] || size > PROG_SURE_BYTES || others;
    for (const struct model_epoch *above = epoch; above != NULL; above = above->above) {
        if (above->limit == 0) {
            continue;
        }
        uint64_t held = prog_held_units(program, above), most = above->limit / UNIT_BYTES;
        full = full || held + needed > most;
        /* It may have held more when the limit was set: then an object in memory that it holds is no growth. */
        EXPECT(program, held <= most || held <= above->most_units,
               "epoch %" PRIu64 " holds %" PRIu64 " units, limit %zu bytes, held %" PRIu64 " when it was set",
               above->id, held, above->limit, above->most_units);
    }
    EXPECT(program, address != NULL || full, "%" PRIu64 " bytes in epoch %" PRIu64 " are refused below its limits",
           size, epoch->id);
    return true;
}

/* Its held memory becomes its limit from now on, where the limit is lower. */
static void note_held(struct prog *program, struct model_epoch *epoch) {
    for (struct model_epoch *above = epoch; above != NULL; above = above->above) {
        above->most_units = prog_held_units(program, above);
    }
}

static bool check_held(struct prog *program, int slot) {
    const struct model_domain *domain = &program->domains[slot];
    bool may_be_gone = domain->epoch->state == MODEL_CLOSED && (domain->epoch->live == 0 || domain->epoch->was_lent);
    if (may_be_gone || prog_together(program)) {
        return true;
    }
    uint64_t held = epoch_domain_held(domain->domain), expected = 0, pieces = 0;
    if (domain->epoch->state != MODEL_GONE) {
        expected = held_units(program, domain->epoch, &pieces) * UNIT_BYTES;
    }
    /* Where nothing is limited, all that it has is counted. */
    if (held == expected + pieces * PIECE_BYTES) {
        return true;
    }
    EXPECT(program, held == expected, "epoch_domain_held of d[%d]: %" PRIu64 ", not %" PRIu64, slot, held, expected);
    return true;
}

/* 0: refused; 1: granted; -1: either, as it may be gone or not. */
static int is_known(const struct model_epoch *epoch) {
    if (epoch->state == MODEL_GONE) {
        return 0;
    }
    return epoch->state == MODEL_CLOSED && (epoch->live == 0 || epoch->was_lent) ? -1 : 1;
}

static bool set_limit(struct prog *program, const struct prog_op *op) {
    int slot = op->domain % PROG_DOMAINS, at = op->epoch % PROG_EPOCHS;
    bool by_domain = op->extra % 2 == 0;
    struct model_domain *domain = &program->domains[slot];
    struct model_epoch *epoch = by_domain ? domain->epoch : program->epochs[at];
    if ((by_domain && !domain->alive) || epoch == NULL || !program->alive[epoch->allocator]) {
        return true;
    }
    if (by_domain && !check_held(program, slot)) {
        return false;
    }
    size_t bytes = op->extra % 3 == 0 ? 0 : 1 + (size_t)(op->size * 7u % (1u << 20));
    int known = is_known(epoch);
    bool answer;
    errno = 0;
    if (by_domain) {
        TRACE(program, "epoch_domain_set_limit(d[%d], %zu);", slot, bytes);
        answer = epoch_domain_set_limit(domain->domain, bytes);
    } else {
        TRACE(program, "epoch_set_limit(a[%d], e[%d], %zu);", epoch->allocator, at, bytes);
        answer = epoch_set_limit(program->allocators[epoch->allocator], epoch->id, bytes);
    }
    EXPECT(program, known < 0 || answer == (known != 0), "a limit of epoch %" PRIu64 ": %d (%s)", epoch->id, answer,
           strerror(errno));
    EXPECT(program, answer || errno == EINVAL, "a limit of epoch %" PRIu64 ": %s", epoch->id, strerror(errno));
    if (answer) {
        epoch->limit = bytes != 0 && bytes < UNIT_BYTES ? UNIT_BYTES : bytes;
        epoch->most_units = prog_held_units(program, epoch);
    }
    return true;
}

/* ---- trees ---- */

static bool create_child(struct prog *program, const struct prog_op *op, int slot) {
    int above = op->extra / 64 % PROG_DOMAINS;
    struct model_domain *parent = &program->domains[above];
    if (!parent->alive || prog_is_below(program, above, slot) || !prog_free_domain_slot(program, slot)) {
        return program->why[0] == '\0';
    }
    unsigned flags = op->extra % 4 == 1 ? EPOCH_CHURN : op->extra % 4 == 2 ? EPOCH_SCOPE : 0;
    flags |= op->extra % 8 == 0 ? EPOCH_DOMAIN_SHARED : 0;
    flags |= op->extra % 5 == 0 ? EPOCH_DOMAIN_DRAIN : 0;
    int error = (flags & EPOCH_DOMAIN_SHARED) != 0 && !parent->shared ? EINVAL
                : parent->epoch->state != MODEL_ACTIVE                ? ESTALE
                                                                      : 0;
    TRACE(program, "d[%d] = epoch_domain_create_child(d[%d], \"child\", %u); /* %s */", slot, above, flags,
          error ? "NULL" : "not NULL");
    errno = 0;
    EpochDomain *made = epoch_domain_create_child(parent->domain, "child", flags);
    EXPECT(program, (made == NULL ? errno : 0) == error, "epoch_domain_create_child of d[%d]: %s, not %s", above,
           strerror(errno), strerror(error));
    if (made == NULL) {
        return true;
    }
    EXPECT(program, epoch_domain_parent(made) == parent->domain, "epoch_domain_parent of d[%d]", slot);
    struct model_epoch *epoch = prog_new_epoch(program, epoch_domain_epoch(made), parent->allocator,
                                               (flags & EPOCH_CHURN) != 0 ? EPOCH_CHURN : EPOCH_SCOPE);
    prog_new_domain(program, slot, made, epoch, parent->shared,
                    (flags & EPOCH_DOMAIN_DRAIN) != 0 ? MODEL_DRAINS : MODEL_ENDS);
    program->domains[slot].parent = above;
    program->domains[slot].born = ++program->events;
    program->domains[slot].kin = parent->kin = true;
    epoch->above = parent->epoch;
    program->epochs[op->epoch % PROG_EPOCHS] = epoch;
    TRACE(program, "e[%d] = epoch_domain_epoch(d[%d]);", op->epoch % PROG_EPOCHS, slot);
    return true;
}

/* 0, or the error with which it is refused; -1: it may be, or not. */
static int move_answer(struct prog *program, int slot, int above) {
    struct model_domain *child = &program->domains[slot];
    if (above < 0 && !child->kin) {
        return 0;
    }
    if (above >= 0) {
        struct model_domain *parent = &program->domains[above];
        if (child->allocator != parent->allocator || child->shared != parent->shared) {
            return EINVAL;
        }
        child->kin = parent->kin = true;
        if (prog_is_below(program, above, slot)) {
            return EINVAL;
        }
        /* No circle of domains, but of their epochs: as long as both are there. */
        int one = is_known(child->epoch), other = is_known(parent->epoch);
        if (one != 0 && other != 0 && counts_for(parent->epoch, child->epoch)) {
            return one < 0 || other < 0 ? -1 : EINVAL;
        }
    }
    return 0;
}

/* The accounts that the epoch counts against now. The parent's may be gone, or not yet. */
static bool note_above(struct prog *program, struct model_epoch *epoch, struct model_epoch *parent) {
    SlabEpochStats stats;
    if (!slab_stats_epoch(program->allocators[epoch->allocator], SLAB_ALL_CLASSES, epoch->id, &stats) ||
        stats.ended_for_ns != 0) {
        EXPECT(program, is_known(epoch) != 1, "slab_stats_epoch of epoch %" PRIu64, epoch->id);
        return true; /* it holds nothing, and its children count where they did */
    }
    bool linked = parent != NULL && stats.parent_epoch_id == parent->id;
    EXPECT(program, linked || (stats.parent_epoch_id == EPOCH_NONE && (parent == NULL || is_known(parent) != 1)),
           "parent_epoch_id of epoch %" PRIu64 ": %" PRIu64, epoch->id, stats.parent_epoch_id);
    epoch->above = linked ? parent : NULL;
    note_held(program, epoch);
    return true;
}

static bool move(struct prog *program, const struct prog_op *op, int slot) {
    int above = op->extra % (PROG_DOMAINS + 1) - 1;
    struct model_domain *child = &program->domains[slot];
    if (!child->alive || (above >= 0 && !program->domains[above].alive)) {
        return true;
    }
    bool nothing = above < 0 && !child->kin;
    int expected = move_answer(program, slot, above);
    char parent[16] = "NULL";
    if (above >= 0) {
        (void)snprintf(parent, sizeof parent, "d[%d]", above);
    }
    TRACE(program, "epoch_domain_move(d[%d], %s); /* %s */", slot, parent, expected ? "false" : "true");
    errno = 0;
    bool answer = epoch_domain_move(child->domain, above < 0 ? NULL : program->domains[above].domain);
    int error = answer ? 0 : errno;
    EXPECT(program, error == expected || (expected < 0 && (error == 0 || error == EINVAL)),
           "epoch_domain_move(d[%d], %s): %s, not %s", slot, parent, strerror(error), strerror(expected));
    if (answer && !nothing) {
        child->parent = above;
        child->born = ++program->events;
        if (!note_above(program, child->epoch, above < 0 ? NULL : program->domains[above].epoch)) {
            return false;
        }
    }
    EpochDomain *now = child->parent < 0 ? NULL : program->domains[child->parent].domain;
    EXPECT(program, epoch_domain_parent(child->domain) == now, "epoch_domain_parent of d[%d]", slot);
    return check_held(program, slot) && (above < 0 || check_held(program, above));
}

bool prog_tree_op(struct prog *program, const struct prog_op *op) {
    int slot = op->domain % PROG_DOMAINS;
    switch (op->kind) {
    case PROG_CHILD: return create_child(program, op, slot);
    case PROG_MOVE: return move(program, op, slot);
    case PROG_LIMIT: return set_limit(program, op);
    default:
        if (!program->domains[slot].alive || prog_is_lent(program, slot)) {
            return true;
        }
        return prog_end_domain(program, slot, op->extra % 3 == 0 ? PROG_BY_ANOTHER_THREAD : PROG_BY_END);
    }
}
