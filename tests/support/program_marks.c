/* Marks and rewinds. */
#include "program_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

void prog_void_marks(struct prog *program, const struct model_epoch *epoch) {
    for (int slot = 0; slot < PROG_DOMAINS; slot++) {
        struct model_domain *domain = &program->domains[slot];
        for (int i = 0; i < domain->marks && domain->epoch == epoch; i++) {
            domain->mark[i].good = false;
        }
    }
}

/* 0, or the error with which a mark is refused. Of a closed epoch, that may be gone: ESTALE stands for EINVAL, too. */
static int refusal(const struct model_domain *domain) {
    const struct model_epoch *epoch = domain->epoch;
    if (domain->shared || (epoch->flags & EPOCH_SCOPE) == 0 || epoch->state == MODEL_GONE) {
        return EINVAL;
    }
    return epoch->state == MODEL_ACTIVE ? 0 : ESTALE;
}

/* A program with an object of it can allocate in it, too, by a resize. */
static bool is_alone(const struct model_epoch *epoch) { return !epoch->other_thread && !epoch->was_lent; }

static bool mark(struct prog *program, struct model_domain *domain, int slot) {
    SlabMark made = {0};
    int expected = refusal(domain);
    TRACE(program, "epoch_domain_mark(d[%d], &m[%d][%d]); /* %s */", slot, slot, domain->marks % PROG_MARKS,
          expected ? "false" : "true");
    errno = 0;
    bool answer = epoch_domain_mark(domain->domain, &made);
    int error = answer ? 0 : errno;
    bool drained = expected == ESTALE && error == EINVAL;
    bool full = expected == 0 && error == ENOMEM && !prog_is_sure(program, domain->epoch, 16);
    bool alone = is_alone(domain->epoch);
    EXPECT(program, error == expected || drained || full || (!alone && error == EINVAL),
           "epoch_domain_mark of d[%d]: %s, not %s", slot, strerror(error), strerror(expected));
    if (expected != EINVAL && domain->epoch->state == MODEL_ACTIVE) {
        domain->kin = true;
    }
    if (!answer) {
        return true;
    }
    if (domain->marks == PROG_MARKS) {
        domain->marks--;
        memmove(domain->mark, domain->mark + 1, (size_t)domain->marks * sizeof *domain->mark);
    }
    domain->mark[domain->marks++] = (struct model_mark){made, program->events, true};
    return true;
}

/* A mark of this domain, or of another; where there is none, one that never was. */
static bool rewind_to(struct prog *program, const struct prog_op *op, struct model_domain *domain, int slot) {
    const struct model_domain *of = op->extra % 8 == 0 ? &program->domains[op->size % PROG_DOMAINS] : domain;
    int at = of->marks == 0 ? -1 : op->extra / 8 % of->marks;
    struct model_mark to = at < 0 ? (struct model_mark){.mark = {op->size, op->extra}} : of->mark[at];
    if (prog_is_lent(program, slot)) {
        return true;
    }
    bool expected = of == domain && to.good && domain->epoch->state == MODEL_ACTIVE && of->alive;
    prog_expect_due(program, slot, to.event);
    TRACE(program, "epoch_domain_rewind(d[%d], m[%d][%d]); /* %s */", slot, (int)(of - program->domains),
          at < 0 ? 0 : at, expected ? "true" : "false");
    errno = 0;
    bool answer = epoch_domain_rewind(domain->domain, to.mark);
    bool alone = is_alone(domain->epoch);
    EXPECT(program, answer == expected || (!answer && !alone), "epoch_domain_rewind of d[%d] to mark %d of %d: %s",
           slot, at, of->marks, strerror(errno));
    EXPECT(program, answer || errno == EINVAL, "epoch_domain_rewind of d[%d]: %s", slot, strerror(errno));
    if (!prog_check_due(program, slot, answer)) {
        return false;
    }
    if (answer) {
        prog_kill_since(program, domain->epoch, to.event);
        domain->marks = at + 1;
    }
    return true;
}

bool prog_mark_op(struct prog *program, const struct prog_op *op) {
    int slot = op->domain % PROG_DOMAINS;
    struct model_domain *domain = &program->domains[slot];
    if (!domain->alive) {
        return true;
    }
    return op->kind == PROG_MARK ? mark(program, domain, slot) : rewind_to(program, op, domain, slot);
}
