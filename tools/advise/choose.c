#include "advise/choose.h"

#include <stdlib.h>
#include <string.h>

enum {
    SITES = 6,       /* of one instance that are tried */
    LEAST_TURNS = 4, /* fewer are no turns */
    MANY_TURNS = 8,
    MOST_HELD = 32,     /* times the peak */
    NO_PRICE = 1 << 20, /* a smaller peak is taken for so many bytes */
    LEAST_BIRTHS = 32,
    SHARE = 500,    /* an instance with less than 1/SHARE of all births is not looked at */
    MOST_TURNS = 12 /* that are shown */
};

/* ---- candidates -------------------------------------------------------------------------------------------------- */

typedef struct counted_site {
    uint32_t node;
    uint64_t visits;
} counted_site;

static int fewest_visits(const void *a, const void *b) {
    const counted_site *x = a, *y = b;
    if (x->visits != y->visits) return x->visits < y->visits ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static bool add_candidate(candidates *c, uint32_t instance, uint32_t node) {
    if (c->count + 3 > c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : 256;
        candidate *one = realloc(c->one, capacity * sizeof *one);
        if (!one) return false;
        memset(one + c->capacity, 0, (capacity - c->capacity) * sizeof *one);
        c->one = one;
        c->capacity = capacity;
    }
    c->of[node] = c->count + 1;
    for (int at_end = 0; at_end < 2; at_end++) {
        c->one[++c->count] = (candidate){.node = node, .at_end = at_end != 0, .next = c->first[instance]};
        c->first[instance] = c->count;
    }
    return true;
}

/* Sites with one number of visits cut the same rounds: the first and the last one of them are enough. */
static bool pick_sites(candidates *c, const stack_tree *r, uint32_t instance, counted_site *all, size_t count,
                       uint64_t births) {
    unsigned picked = 0;
    qsort(all, count, sizeof *all, fewest_visits);
    for (size_t i = 0; i < count && picked < SITES; i++) {
        bool is_first = i == 0 || all[i - 1].visits != all[i].visits;
        bool is_last = i + 1 == count || all[i + 1].visits != all[i].visits;
        if (all[i].visits < LEAST_TURNS || births / all[i].visits < 2 || !(is_first || is_last)) continue;
        if (!add_candidate(c, instance, all[i].node)) return false;
        picked++;
    }
    if (picked) {
        uint32_t caller = trace_stack_caller(r->t, instance);
        c->watched[caller] = true;
        for (size_t i = c->first[instance]; i; i = c->one[i].next) {
            c->watched[c->one[i].node] = true;
            c->one[i].next_below = c->below[caller];
            c->below[caller] = i;
        }
    }
    return true;
}

static bool make_tables(candidates *c, uint32_t nodes) {
    c->first = calloc(nodes, sizeof *c->first);
    c->below = calloc(nodes, sizeof *c->below);
    c->of = calloc(nodes, sizeof *c->of);
    c->watched = calloc(nodes, sizeof *c->watched);
    return c->first && c->below && c->of && c->watched;
}

static bool of_each_instance(candidates *c, const stack_tree *r, const node_counts *of, uint64_t all,
                             const uint32_t *next, counted_site *sites) {
    for (uint32_t i = 1; i < r->nodes; i++) {
        if (r->instance[i] != i) continue;
        size_t count = 0;
        uint64_t sum = 0;
        for (uint32_t at = i; at; at = next[at]) {
            sites[count++] = (counted_site){at, of->visits[at]};
            sum += of->births[at];
        }
        if (sum < LEAST_BIRTHS || sum < all / SHARE) continue;
        if (!pick_sites(c, r, i, sites, count, sum)) return false;
    }
    return true;
}

bool candidates_find(candidates *c, const stack_tree *r, const node_counts *of, uint64_t all) {
    uint32_t *next = calloc(r->nodes, sizeof *next);
    counted_site *sites = calloc(r->nodes, sizeof *sites);
    bool done = next && sites && make_tables(c, r->nodes);
    for (uint32_t i = done ? r->nodes - 1 : 0; i > 0; i--) { /* of each instance, behind its first node */
        uint32_t head = r->instance[i];
        if (!head || head == i) continue;
        next[i] = next[head];
        next[head] = i;
    }
    done = done && of_each_instance(c, r, of, all, next, sites);
    free(next);
    free(sites);
    return done;
}

void candidates_free(candidates *c) {
    free(c->one);
    free(c->first);
    free(c->below);
    free(c->of);
    free(c->watched);
    *c = (candidates){0};
}

candidate *candidate_at(candidates *c, uint32_t node, bool at_end) {
    return c->of[node] ? &c->one[c->of[node] + at_end] : NULL;
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

typedef struct choice {
    turn turn;
    uint64_t address;   /* of the site */
    uint64_t calls;     /* visits of the call of the function */
    uint64_t most;      /* objects that one round covers */
    double worth;       /* what it saves, less the price of the memory that it holds */
    bool has_beginning; /* a site before this one is visited less often than its rounds: a loop */
    bool is_entry;
    bool is_edge; /* the cut is before the first site of the function, or behind the last one: rounds are calls */
} choice;

/* The code that starts threads and programs calls each of its functions once. */
static bool is_start_code(const stack_tree *r, uint32_t node) {
    if (!node) return true;
    return !trace_stack_caller(r->t, node) || tree_is_libc(r, node);
}

static void add_counts(turn *t, const stack_tree *r, const node_counts *of, const uint32_t instance) {
    for (uint32_t i = instance; i < r->nodes; i++) {
        if (r->instance[i] != instance) continue;
        t->births += of->births[i];
        t->bytes += of->bytes[i];
        t->reallocs += of->reallocs[i];
        t->enters += of->enters[i];
    }
}

static void look_for_beginning(choice *x, const stack_tree *r, uint32_t instance, const uint64_t *visits,
                               uint64_t calls) {
    for (uint32_t i = instance; i < x->turn.stack; i++)
        if (r->instance[i] == instance && visits[i] <= calls && visits[i] < x->turn.count / 2) x->has_beginning = true;
}

/* Sites lie in the code in the order in which a call visits them; one that few calls visit does not count. */
static bool is_at_edge(const turn *t, const stack_tree *r, uint32_t instance, const uint64_t *visits) {
    const uint64_t address = trace_stack_address(r->t, t->stack);
    for (uint32_t i = instance; i < r->nodes; i++) {
        if (r->instance[i] != instance || i == t->stack || visits[i] * 2 < t->count) continue;
        if (t->at_end ? trace_stack_address(r->t, i) > address : trace_stack_address(r->t, i) < address) return false;
    }
    return true;
}

static choice choice_of(const candidate *c, const stack_tree *r, const node_counts *of) {
    uint32_t instance = r->instance[c->node], caller = trace_stack_caller(r->t, c->node);
    choice x = {.address = trace_stack_address(r->t, c->node), .most = c->most};
    x.turn = (turn){.function = r->function[c->node],
                    .stack = c->node,
                    .at_end = c->at_end,
                    .count = of->visits[c->node],
                    .covered = c->covered,
                    .covered_bytes = c->covered_bytes,
                    .held_byte_seconds = c->held,
                    .held_peak = c->held_peak,
                    .parent = -1};
    memcpy(x.turn.lag, c->lag, sizeof x.turn.lag);
    add_counts(&x.turn, r, of, instance);
    x.calls = caller ? of->visits[caller] : 1;
    x.is_entry = is_start_code(r, caller);
    x.is_edge = is_at_edge(&x.turn, r, instance, of->visits);
    look_for_beginning(&x, r, instance, of->visits, x.calls);
    return x;
}

static int by_site(const void *a, const void *b) {
    const choice *x = a, *y = b;
    if (x->turn.function != y->turn.function) return x->turn.function < y->turn.function ? -1 : 1;
    if (x->address != y->address) return x->address < y->address ? -1 : 1;
    return (int)x->turn.at_end - (int)y->turn.at_end;
}

static void add_choice(choice *to, const choice *from) {
    to->turn.count += from->turn.count;
    to->turn.births += from->turn.births;
    to->turn.bytes += from->turn.bytes;
    to->turn.reallocs += from->turn.reallocs;
    to->turn.enters += from->turn.enters;
    to->turn.covered += from->turn.covered;
    to->turn.covered_bytes += from->turn.covered_bytes;
    for (unsigned i = 0; i < TURN_LAGS; i++) to->turn.lag[i] += from->turn.lag[i];
    to->turn.held_byte_seconds += from->turn.held_byte_seconds;
    if (from->turn.held_peak > to->turn.held_peak) to->turn.held_peak = from->turn.held_peak;
    to->calls += from->calls;
    if (from->most > to->most) to->most = from->most;
    to->has_beginning |= from->has_beginning;
    to->is_entry |= from->is_entry;
    to->is_edge &= from->is_edge;
}

/* One for each site of a function, with any caller. Returns how many are left. */
static size_t merge_sites(choice *all, size_t count) {
    size_t kept = 0;
    qsort(all, count, sizeof *all, by_site);
    for (size_t i = 0; i < count; i++)
        if (kept && by_site(&all[kept - 1], &all[i]) == 0)
            add_choice(&all[kept - 1], &all[i]);
        else
            all[kept++] = all[i];
    return kept;
}

static void price(choice *x, const turn_costs *costs) {
    turn *t = &x->turn;
    double escaped = (double)(t->births - t->covered);
    t->saved_ns = (double)t->covered * (costs->malloc_free - costs->scope_alloc) - (double)t->count * costs->domain -
                  escaped * costs->malloc_free / 2;
    /* More rounds than calls: calls that follow each other with nothing between are seen as one. It may be either. */
    t->is_loop = t->count > x->calls + x->calls / 20 + 1 && (x->has_beginning || x->is_entry || !x->is_edge);
}

static bool is_near(uint64_t a, uint64_t b) {
    uint64_t most = a > b ? a : b, least = a > b ? b : a;
    return most - least <= most / 20 + 1;
}

/* Of one function: the cut in whose rounds most objects die; of near ones that whose rounds are calls, or that with
   more turns, as a cut between the ends of turns covers as much, and its rounds are no turns. */
static bool is_better(const choice *x, const choice *y) {
    const turn *a = &x->turn, *b = &y->turn;
    uint64_t most = a->covered > b->covered ? a->covered : b->covered;
    if (a->covered + most / 100 < b->covered || b->covered + most / 100 < a->covered) return a->covered > b->covered;
    if (x->is_edge != y->is_edge && is_near(a->count, b->count)) return x->is_edge;
    if (a->count != b->count) return a->count > b->count;
    return a->covered > b->covered;
}

/* Of many rounds one has most objects: a cut of the program's start or end, and the work lies between two visits. */
static bool is_lopsided(const choice *x) { return x->turn.count >= MANY_TURNS && x->most * 2 > x->turn.covered; }

static size_t best_of_functions(choice *all, size_t count, turns *out) {
    size_t functions = 0, kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_lopsided(&all[i])) continue;
        if (!functions || all[functions - 1].turn.function != all[i].turn.function)
            all[functions++] = all[i];
        else if (is_better(&all[i], &all[functions - 1]))
            all[functions - 1] = all[i];
    }
    for (size_t i = 0; i < functions; i++) {
        const turn *t = &all[i].turn;
        if (t->covered * 2 < t->births) continue;
        out->too_small |= t->saved_ns <= 0 && t->covered * 5 >= out->births;
        if (t->saved_ns > 0) all[kept++] = all[i];
    }
    return kept;
}

static int most_worth(const void *a, const void *b) {
    double x = ((const choice *)a)->worth, y = ((const choice *)b)->worth;
    return (x < y) - (x > y);
}

/* Memory that a boundary holds longer, in the mean, has a price: a fifth of the program's peak costs nearly all of what
   is saved. One that would hold many times the peak at once is none: a collector decides when its objects die. */
static size_t with_memory(choice *all, size_t count, turns *out) {
    double seconds = (double)out->duration_ns * 1e-9;
    double peak = (double)(out->peak_bytes > NO_PRICE ? out->peak_bytes : NO_PRICE);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        double mean = seconds > 0 ? all[i].turn.held_byte_seconds / seconds : 0;
        if (mean > (double)all[i].turn.held_peak) mean = (double)all[i].turn.held_peak;
        if (all[i].turn.held_peak > out->peak_bytes * MOST_HELD) {
            out->too_large = true;
            continue;
        }
        all[i].worth = all[i].turn.saved_ns * (mean < 0.19 * peak ? 1 - 5 * mean / peak : 0.05);
        all[kept++] = all[i];
    }
    return kept;
}

static bool is_within(const stack_tree *r, const turn *inner, const turn *outer) {
    for (uint32_t at = trace_stack_caller(r->t, inner->stack); at; at = trace_stack_caller(r->t, at))
        if (r->function[at] == outer->function) return true;
    return false;
}

/* Functions that only pass a turn on have the same one: the inner one, which covers nearly as much, is shown. */
static size_t without_twins(choice *all, size_t count, const stack_tree *r) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool twin = false;
        for (size_t k = 0; k < kept && !twin; k++) {
            if (!is_near(all[k].turn.count, all[i].turn.count) || !is_near(all[k].turn.covered, all[i].turn.covered))
                continue;
            twin = true;
            if (is_within(r, &all[i].turn, &all[k].turn))
                all[k] = all[i];
            else
                twin = is_within(r, &all[k].turn, &all[i].turn);
        }
        if (!twin) all[kept++] = all[i];
    }
    return kept < MOST_TURNS ? kept : MOST_TURNS;
}

/* The nearest turn in whose function this one's is called. */
static int parent_of(const turns *out, const stack_tree *r, const turn *of) {
    for (uint32_t at = trace_stack_caller(r->t, of->stack); at; at = trace_stack_caller(r->t, at))
        for (size_t i = 0; i < out->count; i++)
            if (out->best[i].function == r->function[at] && out->best[i].function != of->function) return (int)i;
    return -1;
}

static void bind_candidates(const turns *out, const candidates *c, const stack_tree *r, int *turn_of) {
    for (size_t i = 0; i <= c->count; i++) {
        turn_of[i] = -1;
        for (size_t k = 0; i && k < out->count; k++)
            if (r->function[c->one[i].node] == out->best[k].function && c->one[i].at_end == out->best[k].at_end &&
                trace_stack_address(r->t, c->one[i].node) == trace_stack_address(r->t, out->best[k].stack))
                turn_of[i] = (int)k;
    }
}

bool is_worth_showing(const turns *out, const turn *t) { return t->covered * 20 >= out->births; }

bool choose_turns(turns *out, const candidates *c, const stack_tree *r, const node_counts *of, const turn_costs *costs,
                  int *turn_of) {
    choice *all = calloc(c->count + 1, sizeof *all);
    if (!all) return false;
    for (size_t i = 1; i <= c->count; i++) all[i - 1] = choice_of(&c->one[i], r, of);
    size_t count = merge_sites(all, c->count);
    for (size_t i = 0; i < count; i++) price(&all[i], costs);
    count = best_of_functions(all, count, out);
    count = with_memory(all, count, out);
    qsort(all, count, sizeof *all, most_worth);
    count = without_twins(all, count, r);
    out->best = calloc(count + 1, sizeof *out->best);
    for (size_t i = 0; out->best && i < count; i++) out->best[out->count++] = all[i].turn;
    for (size_t i = 0; i < out->count; i++) out->best[i].parent = parent_of(out, r, &out->best[i]);
    if (out->best) bind_candidates(out, c, r, turn_of);
    free(all);
    return out->best != NULL;
}
