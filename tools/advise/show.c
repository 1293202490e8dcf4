#include "advise/show.h"

#include "advise/choose.h"
#include "advise/hint.h"
#include "advise/placement.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool add_address(advice *a, size_t *capacity, uint32_t image, uint64_t address) {
    for (size_t i = 0; i < a->places; i++)
        if (a->place[i].address == address && a->place[i].image == image) return true;
    if (a->places == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 64;
        trace_place *grown = realloc(a->place, *capacity * sizeof *grown);
        if (!grown) return false;
        a->place = grown;
    }
    a->place[a->places++] = (trace_place){.image = image, .address = address};
    return true;
}

static const turn_function *function_at(const advice *a, uint32_t stack) {
    return &a->turns->function[a->turns->function_of[stack]];
}

/* The call, and the function that it is in: at the address of the call a name may be of a function inlined there. */
static bool add_place(advice *a, size_t *capacity, uint32_t stack) {
    const turn_function *f = function_at(a, stack);
    return add_address(a, capacity, trace_stack_image(a->t, stack), trace_stack_address(a->t, stack) - 1) &&
           add_address(a, capacity, f->image, f->start);
}

/* The functions of the wrappers, and the call above them. */
static bool add_path(advice *a, size_t *capacity, uint32_t stack, uint32_t named) {
    for (uint32_t at = stack; at != named; at = trace_stack_caller(a->t, at))
        if (!add_place(a, capacity, at)) return false;
    return !named || add_place(a, capacity, named);
}

/* The first rows of each turn; NULL: no memory. */
static turn_escape *add_rows(advice *a, size_t *capacity, const turn_escape *from, size_t count, size_t *kept) {
    size_t of_turn = 0;
    turn_escape *to = calloc(count + 1, sizeof *to);
    for (size_t i = 0; to && i < count; i++) {
        const turn_escape *e = &from[i];
        of_turn = i && from[i - 1].turn == e->turn ? of_turn + 1 : 0;
        if (of_turn >= NAMED_ESCAPES) continue;
        to[(*kept)++] = *e;
        if (add_path(a, capacity, e->stack, e->named) && add_path(a, capacity, e->freed, e->freed_named)) continue;
        free(to);
        to = NULL;
    }
    return to;
}

static bool add_places(advice *a) {
    const turns *t = a->turns;
    size_t capacity = 0;
    if (t->enter_stack && !add_place(a, &capacity, t->enter_stack)) return false;
    for (size_t i = 0; i < t->count; i++) {
        if (!add_place(a, &capacity, t->best[i].stack)) return false;
        for (unsigned k = 0; k < TURN_ENTRIES && t->best[i].entry[k].objects; k++)
            if (!add_place(a, &capacity, t->best[i].entry[k].stack)) return false;
    }
    a->escape = add_rows(a, &capacity, t->escape, t->escapes, &a->escapes);
    a->freed = add_rows(a, &capacity, t->freed, t->freeds, &a->freeds);
    if (!a->escape || !a->freed) return false;
    for (size_t i = 0; i < t->sites && a->lives < NAMED_SITES; i++) {
        const turn_site *s = &t->site[i];
        if (s->life == LIFE_SHORT && i >= SHOWN_BANDS) continue;
        if (!add_path(a, &capacity, s->stack, s->named)) return false;
        if (s->life == LIFE_SHORT) continue;
        a->life[a->lives++] = *s;
        if (s->turn_stack && !add_place(a, &capacity, s->turn_stack)) return false;
    }
    return true;
}

/* Rows that would be shown as the same become one. Returns how many are left. */
static size_t merge_rows(const advice *a, turn_escape *row, size_t count) {
    size_t kept = 0;
    for (size_t i = 0, k; i < count; i++) {
        for (k = 0; k < kept; k++) {
            const turn_escape *x = &row[k], *y = &row[i];
            if (x->turn == y->turn && advice_same(a, x->stack, x->named, y->stack, y->named) &&
                !x->freed == !y->freed && advice_same(a, x->freed, x->freed_named, y->freed, y->freed_named))
                break;
        }
        if (k < kept)
            turn_escape_add(&row[k], &row[i]);
        else
            row[kept++] = row[i];
    }
    turn_escapes_sort(row, kept);
    return kept;
}

static void merge_shown(advice *a) {
    size_t kept = 0;
    for (size_t i = 0, k; i < a->lives; i++) {
        for (k = 0; k < kept; k++)
            if (a->life[k].life == a->life[i].life && a->life[k].turns_later == a->life[i].turns_later &&
                advice_same(a, a->life[k].stack, a->life[k].named, a->life[i].stack, a->life[i].named))
                break;
        if (k < kept)
            turn_site_add(&a->life[k], &a->life[i]);
        else
            a->life[kept++] = a->life[i];
    }
    a->lives = kept;
    turn_sites_sort(a->life, a->lives);
    a->escapes = merge_rows(a, a->escape, a->escapes);
    a->freeds = merge_rows(a, a->freed, a->freeds);
}

bool advice_name(advice *a) {
    bool done = add_places(a) && (a->places == 0 || trace_name_places(a->t, a->place, a->places));
    if (done) merge_shown(a);
    return done;
}

void advice_free(advice *a) {
    if (a->place) trace_free_places(a->place, a->places);
    free(a->place);
    free(a->escape);
    free(a->freed);
    a->place = NULL;
    a->escape = a->freed = NULL;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const trace_place *place_at(const advice *a, uint32_t image, uint64_t address) {
    for (size_t i = 0; i < a->places; i++)
        if (a->place[i].address == address && a->place[i].image == image) return &a->place[i];
    return NULL;
}

const trace_place *advice_start(const advice *a, uint32_t stack) {
    const turn_function *f = function_at(a, stack);
    return place_at(a, f->image, f->start);
}

spot advice_spot(const advice *a, uint32_t stack) {
    const turn_function *f = function_at(a, stack);
    const trace_place *call = place_at(a, trace_stack_image(a->t, stack), trace_stack_address(a->t, stack) - 1);
    const trace_place *start = place_at(a, f->image, f->start);
    const trace_module *m = trace_module_of(a->t, f->image, f->start);
    spot s = {
        .function = start ? start->function : NULL, .file = call ? call->file : NULL, .line = call ? call->line : 0};
    s.inlined = call && call->outer ? call->function : NULL;
    if (m)
        snprintf(s.plain, sizeof s.plain, "%s+0x%" PRIx64, base_name(m->path), f->start - m->base);
    else
        snprintf(s.plain, sizeof s.plain, "0x%" PRIx64, f->start);
    return s;
}

size_t advice_through(const advice *a, uint32_t stack, uint32_t named, uint32_t through[ADVICE_THROUGH]) {
    size_t count = 0;
    for (uint32_t at = stack; at != named && count < ADVICE_THROUGH; at = trace_stack_caller(a->t, at))
        through[count++] = at;
    return count;
}

static bool same_spot(const advice *a, uint32_t x, uint32_t y) {
    spot one = advice_spot(a, x), other = advice_spot(a, y);
    return one.line == other.line && strcmp(one.plain, other.plain) == 0 && !one.file == !other.file &&
           (!one.file || strcmp(one.file, other.file) == 0);
}

bool advice_same(const advice *a, uint32_t x, uint32_t x_named, uint32_t y, uint32_t y_named) {
    if (!x || !y) return x == y;
    for (; x != x_named && y != y_named; x = trace_stack_caller(a->t, x), y = trace_stack_caller(a->t, y))
        if (a->turns->function_of[x] != a->turns->function_of[y]) return false;
    return x == x_named && y == y_named && same_spot(a, x_named, y_named);
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

bool advice_has_turns(const advice *a, const char **why) {
    const turns *t = a->turns;
    *why = "";
    if (t->births == 0) {
        *why = "the trace has no allocations outside of domains";
    } else if (t->count == 0) {
        *why = t->deaths * 10 < t->births ? "nearly all objects live to the end"
               : t->too_large
                   ? "a domain would hold many times the memory that the program has: a collector runs seldom"
               : t->too_small ? "the turns have so few objects that a domain costs more than it saves"
                              : "no function is called, and no loop goes round, at whose end its objects die";
    } else if (!is_worth_showing(t, &t->best[0])) {
        *why = "the best boundary has fewer than 5 % of the allocations";
    }
    return !**why;
}

const char *advice_life(const turn_site *site) {
    static const char *const name[] = {"short", "run", "cache", "generation"};
    return name[site->life];
}

unsigned advice_turns_later(const turn_escape *e) {
    for (unsigned lag = 0; lag + 1 < TURN_LAGS; lag++)
        if (e->lag[lag] * 20 >= e->objects * 19) return lag + 1;
    return 0;
}

const char *advice_at_destroy(const advice *a, size_t of) {
    const turn *t = &a->turns->best[of];
    uint64_t escaped = t->births - t->covered, first = 0, oldest = 0;
    unsigned rows = 0;
    if (!escaped) return "none";
    for (size_t i = 0; i < a->escapes; i++) {
        if (a->escape[i].turn != of || rows++ >= PROMOTED_SITES || advice_turns_later(&a->escape[i])) continue;
        first += a->escape[i].objects;
        if (a->escape[i].oldest_ns > oldest) oldest = a->escape[i].oldest_ns;
    }
    return first * 10 >= escaped * 9 && oldest >= a->turns->duration_ns / 50 ? "promote" : "drain";
}

bool advice_has_domain(const turn *t) { return t->enters * 2 > t->count && t->enters * 2 < t->count * 3; }

bool advice_saved_captured(const advice *a, const turn *t, double *ns) {
    const turn_costs *c = &a->costs;
    *ns = (double)t->births * (c->malloc_free - c->captured_pair) - (double)t->count * c->captured_domain;
    return c->captured_pair > 0;
}

double advice_saved_by_epochs(const advice *a, uint64_t frees, uint64_t epochs) {
    const turn_costs *c = &a->costs;
    const double saved = (double)frees * (c->malloc_free - c->scope_alloc) - (double)epochs * c->domain;
    if (saved * 20 < (double)a->turns->births * c->malloc_free) return 0;
    return saved * 10000 > (double)a->turns->duration_ns ? saved : 0;
}

double advice_saved_by_epoch(const advice *a, const turn_site *s) {
    return advice_saved_by_epochs(a, s->objects - s->live, s->turn_stack ? s->rounds : 1);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

void advice_put_spot(const advice *a, uint32_t stack, FILE *out) {
    spot s = advice_spot(a, stack);
    if (!s.function)
        fprintf(out, "%s", s.plain);
    else if (s.file)
        fprintf(out, "%s (%s:%u)", s.function, base_name(s.file), s.line);
    else
        fprintf(out, "%s (%s)", s.function, s.plain);
}

double advice_per_cent(uint64_t part, uint64_t all) { return all ? 100.0 * (double)part / (double)all : 0; }

void advice_put_size(double bytes, FILE *out) {
    static const char *const unit[] = {"bytes", "KB", "MB", "GB", "TB"};
    unsigned i = 0;
    for (; bytes >= 1000 && i < 4; i++) bytes /= 1000;
    fprintf(out, i && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, unit[i]);
}

void advice_put_time(double ns, FILE *out) {
    static const char *const unit[] = {"ns", "us", "ms", "s"};
    unsigned i = 0;
    for (; ns >= 1000 && i < 3; i++) ns /= 1000;
    fprintf(out, i && ns < 100 ? "%.1f %s" : "%.0f %s", ns, unit[i]);
}

/* FUNCTION (FILE:LINE) > WRAPPER > WRAPPER */
void advice_put_path(const advice *a, uint32_t stack, uint32_t named, FILE *out) {
    uint32_t through[ADVICE_THROUGH];
    advice_put_spot(a, named, out);
    for (size_t i = advice_through(a, stack, named, through); i > 0; i--) {
        spot s = advice_spot(a, through[i - 1]);
        fprintf(out, " > %s", s.function ? s.function : s.plain);
    }
}

static void put_escape(const advice *a, const turn_escape *e, FILE *out) {
    unsigned later = advice_turns_later(e);
    fprintf(out, "       escapes: %" PRIu64 " objects from ", e->objects);
    advice_put_path(a, e->stack, e->named, out);
    if (e->freed) {
        fputs(", freed ", out);
        if (later) fprintf(out, "%u turn%s later ", later, later == 1 ? "" : "s");
        fputs("in ", out);
        advice_put_path(a, e->freed, e->freed_named, out);
    } else {
        fputs(", never freed", out);
    }
    fputs(", the oldest after ", out);
    advice_put_time((double)e->oldest_ns, out);
    fputs("\n", out);
}

/* All that have names, of the boundary whose lines are printed. */
static void put_escapes(const advice *a, size_t of, FILE *out) {
    const char *fate = advice_at_destroy(a, of);
    uint64_t escaped = a->turns->best[of].births - a->turns->best[of].covered, rest = escaped;
    unsigned shown = 0;
    for (size_t i = 0; i < a->escapes && (of == 0 || shown < SHOWN_ESCAPES); i++) {
        if (a->escape[i].turn != of) continue;
        put_escape(a, &a->escape[i], out);
        rest -= a->escape[i].objects < rest ? a->escape[i].objects : rest;
        shown++;
    }
    if (*fate == 'n') return;
    if (rest) fprintf(out, "       escapes: and %" PRIu64 " more objects\n", rest);
    fprintf(out, "       destroy: would free %" PRIu64 " objects that are still used. %s\n", escaped,
            *fate == 'p' ? "slab_promote them to a domain that lives longer, or DRAIN"
                         : "DRAIN: they live on until they are freed");
}

/* By slab_alloc and without the frees, and by the lines that are printed. */
static void put_saving(const advice *a, const turn *t, FILE *out) {
    const double each = (double)t->count;
    double captured;
    fputs("       saves ", out);
    advice_put_time(t->saved_ns / each, out);
    fprintf(out, " a turn by slab_alloc and without %" PRIu64 " frees; holds memory ", t->covered);
    advice_put_size((double)t->held_peak, out);
    fputs(" longer at most\n", out);
    if (advice_has_domain(t) || !advice_saved_captured(a, t, &captured)) return;
    fprintf(out, "       first, by CAPTURE with each free: %s ", captured < 0 ? "costs" : "saves");
    advice_put_time((captured < 0 ? -captured : captured) / each, out);
    fprintf(out, " a turn%s\n", captured < 0 ? ", as a captured allocation takes longer than malloc" : "");
}

static void put_turn(const advice *a, size_t i, FILE *out) {
    const turn *t = &a->turns->best[i];
    double each = (double)t->count;
    fprintf(out, "\n  %2zu.  ", i + 1);
    advice_put_spot(a, t->stack, out);
    fprintf(out, ": %s a turn\n", advice_kind(a, i));
    if (advice_has_domain(t))
        fprintf(out, "       a domain is here already, entered %" PRIu64 " times; remaining:\n", t->enters);
    fprintf(out, "       %" PRIu64 " turns of %.1f objects and ", t->count, (double)t->births / each);
    advice_put_size((double)t->bytes / each, out);
    if (t->reallocs) fprintf(out, ", with %.1f reallocs", (double)t->reallocs / each);
    fprintf(out, "; %.1f %% of all allocations; %.2f %% of them escape\n", advice_per_cent(t->births, a->turns->births),
            advice_per_cent(t->births - t->covered, t->births));
    put_saving(a, t, out);
    if (t->parent >= 0) fprintf(out, "       lies within %d.\n", t->parent + 1);
    put_escapes(a, i, out);
    if (i == 0) advice_put_how(a, i, out);
}

static void put_lives(const advice *a, FILE *out) {
    for (size_t i = 0; i < a->lives && i < SHOWN_SITES; i++) {
        const turn_site *s = &a->life[i];
        const double saved = advice_saved_by_epoch(a, s);
        if (i == 0)
            fputs("\nLong lives, which hold the memory around them unless they have an epoch of their own:\n", out);
        fprintf(out, "  %-10s  %" PRIu64 " objects, ", advice_life(s), s->objects);
        advice_put_size((double)s->bytes, out);
        fputs(", ", out);
        advice_put_time(s->life_seconds / (double)s->objects * 1e9, out);
        fputs(" each in the mean: ", out);
        advice_put_path(a, s->stack, s->named, out);
        if (s->turn_stack) {
            spot rounds = advice_spot(a, s->turn_stack);
            fprintf(out, "; they die %u turn%s of %s later", s->turns_later, s->turns_later == 1 ? "" : "s",
                    rounds.function ? rounds.function : rounds.plain);
        }
        if (saved > 0) {
            fputs(s->turn_stack ? "; an epoch for each turn saves " : "; an epoch saves ", out);
            advice_put_time(saved, out);
            fputs(" in all\n", out);
        } else {
            fputs("; not worth it alone\n", out);
        }
    }
    const placement *p = a->turns->placement;
    if (p->nodes == 0) return;
    fprintf(out,
            "\nEpochs for %" PRIu64 " objects that live long, without a change of the program:\n"
            "  tslab advise --json %s > PLAN\n  tslab run --plan PLAN PROGRAM\n",
            p->objects, a->path);
}

static void put_costs(const turn_costs *c, FILE *out) {
    fprintf(out, "here malloc and free take %.1f ns, slab_alloc in a domain %.1f, a domain %.1f", c->malloc_free,
            c->scope_alloc, c->domain);
    if (c->captured_pair > 0)
        fprintf(out, "; captured, malloc and free take %.1f, a domain %.1f", c->captured_pair, c->captured_domain);
    fputc('\n', out);
}

/* Why there is none; and what else is worth it. */
static void put_none(const advice *a, const char *why, FILE *out) {
    uint64_t frees = 0, epochs = 0;
    for (size_t i = 0; i < a->lives && i < SHOWN_SITES; i++) {
        if (!a->life[i].turn_stack) continue;
        frees += a->life[i].objects - a->life[i].live;
        if (a->life[i].rounds > epochs) epochs = a->life[i].rounds;
    }
    const double saved = advice_saved_by_epochs(a, frees, epochs);
    fprintf(out, "\nNo boundary: %s.\n", why);
    if (saved <= 0) return;
    fprintf(out, "Yet %.1f %% of the allocations die together, as the generations below: an epoch for each turn saves ",
            advice_per_cent(frees, a->turns->births));
    advice_put_time(saved, out);
    fputs(" in all.\n", out);
}

void advice_text(const advice *a, FILE *out) {
    const char *why, *command = trace_about(a->t, "command");
    bool any = advice_has_turns(a, &why);
    text_put_command(command ? command : a->path, out);
    fprintf(out, ": %" PRIu64 " allocations of ", a->turns->births);
    advice_put_size((double)a->turns->bytes, out);
    fputs(" in ", out);
    advice_put_time((double)a->turns->duration_ns, out);
    fputs("; at most ", out);
    advice_put_size((double)a->turns->peak_bytes, out);
    fputs(" live\n", out);
    put_costs(&a->costs, out);
    if (a->turns->enters || a->turns->scoped) {
        fprintf(out, "a domain is here already: entered %" PRIu64 " times", a->turns->enters);
        if (a->turns->enter_stack) fputs(", most often in ", out);
        if (a->turns->enter_stack) advice_put_spot(a, a->turns->enter_stack, out);
        fprintf(out, ", with %" PRIu64 " objects by slab_alloc. This is of the remaining ones\n", a->turns->scoped);
    }
    if (!any)
        put_none(a, why, out);
    else
        fputs("\nBoundaries, best first:\n", out);
    for (size_t i = 0; any && i < a->turns->count; i++) put_turn(a, i, out);
    put_lives(a, out);
    if (any) advice_put_patch(a, 0, out);
}
