#include "advise/lives.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEAST_CALLERS = 6, /* a wrapper has more functions than that within two calls above it */
    LAYERS = 3,        /* of wrappers over malloc */
    LEAST_SHARE = 8,   /* a further layer has more than 1/LEAST_SHARE of the stacks that get there */
    MOST_LOOKED_AT = 512,
    LEAST_OBJECTS = 32,
    LEAST_ROUNDS = 8
};

/* ---- wrappers ---------------------------------------------------------------------------------------------------- */

uint32_t wrappers_skip(const stack_tree *r, const bool *is_wrapper, uint32_t stack) {
    uint32_t at = stack;
    for (uint32_t caller; is_wrapper[r->function[at]] && (caller = trace_stack_caller(r->t, at)) != 0;) at = caller;
    return at;
}

typedef struct called {
    uint32_t function, by;
} called;

static int by_function(const void *a, const void *b) {
    const called *x = a, *y = b;
    if (x->function != y->function) return x->function < y->function ? -1 : 1;
    return (x->by > y->by) - (x->by < y->by);
}

/* One layer: functions that allocate, or call the layers below, for many functions. stacks: by function. */
static bool find_layer(const stack_tree *r, const bool *leaf, bool *is_wrapper, unsigned layer, called *calls,
                       uint32_t *stacks) {
    size_t count = 0, all = 0;
    bool found = false;
    memset(stacks, 0, r->function_count * sizeof *stacks);
    for (uint32_t i = 1; i < r->nodes; i++) {
        if (!leaf[i] || (layer && !is_wrapper[r->function[i]])) continue;
        uint32_t at = wrappers_skip(r, is_wrapper, i), function = r->function[at];
        all++;
        stacks[function]++;
        for (unsigned above = 0; above < 2 && (at = trace_stack_caller(r->t, at)) != 0; above++)
            if (r->function[at] != function) calls[count++] = (called){function, r->function[at]};
    }
    qsort(calls, count, sizeof *calls, by_function);
    for (size_t i = 0, end; i < count; i = end) {
        size_t callers = 0;
        for (end = i; end < count && calls[end].function == calls[i].function; end++)
            callers += end == i || calls[end].by != calls[end - 1].by;
        if (callers <= LEAST_CALLERS || (layer && (size_t)stacks[calls[i].function] * LEAST_SHARE <= all)) continue;
        is_wrapper[calls[i].function] = true;
        found = true;
    }
    return found;
}

bool *wrappers_find(const stack_tree *r, const bool *leaf) {
    bool *is_wrapper = calloc(r->function_count + 1, sizeof *is_wrapper);
    called *calls = calloc(2u * r->nodes, sizeof *calls);
    uint32_t *stacks = calloc(r->function_count + 1, sizeof *stacks);
    bool done = is_wrapper && calls && stacks;
    for (unsigned layer = 0; done && layer < LAYERS; layer++)
        if (!find_layer(r, leaf, is_wrapper, layer, calls, stacks)) break;
    free(calls);
    free(stacks);
    if (done) return is_wrapper;
    free(is_wrapper);
    return NULL;
}

/* ---- generations ------------------------------------------------------------------------------------------------- */

static size_t candidates_above(const stack_tree *r, const candidates *c, uint32_t stack) {
    size_t count = 0;
    for (uint32_t at = stack; at; at = trace_stack_caller(r->t, at))
        for (size_t i = r->instance[at] ? c->first[r->instance[at]] : 0; i; i = c->one[i].next) count++;
    return count;
}

bool generations_make(generations *g, const turns *out, const stack_tree *r, const candidates *c) {
    unsigned looked_at = 0;
    double least = (double)out->duration_ns * 1e-12;
    g->nodes = r->nodes;
    g->count = calloc(r->nodes, sizeof *g->count);
    for (uint32_t i = 1; g->count && i < r->nodes && looked_at < MOST_LOOKED_AT; i++) {
        const turn_site *site = &out->site[i];
        if (site->objects < LEAST_OBJECTS || site->live * 2 > site->objects ||
            site->life_seconds / (double)site->objects < least)
            continue;
        g->count[i] = calloc(candidates_above(r, c, i) + 1, sizeof *g->count[i]);
        if (!g->count[i]) return false;
        looked_at++;
    }
    return g->count != NULL;
}

void generations_free(generations *g) {
    for (uint32_t i = 0; g->count && i < g->nodes; i++) free(g->count[i]);
    free(g->count);
    g->count = NULL;
}

/* The candidate with most rounds in which the objects of the site die a constant number of them later. */
static void tell_of(const generations *g, turn_site *site, const stack_tree *r, const candidates *c,
                    const uint64_t *visits, const int *turn_of) {
    size_t k = 0;
    for (uint32_t at = site->stack; at; at = trace_stack_caller(r->t, at))
        for (size_t i = r->instance[at] ? c->first[r->instance[at]] : 0; i; i = c->one[i].next, k++) {
            const uint64_t *count = g->count[site->stack][k];
            uint32_t node = c->one[i].node, best = site->turn_stack;
            uint64_t all = 0;
            for (unsigned lag = 0; lag <= TURN_LAGS; lag++) all += count[lag];
            site->is_covered |= turn_of[i] == 0 && all && count[0] * 20 >= all * 19;
            for (unsigned lag = 1; lag < TURN_LAGS; lag++) {
                if (visits[node] < LEAST_ROUNDS || !all || count[lag] * 20 < all * 19) continue;
                if (best && (visits[best] > visits[node] || (visits[best] == visits[node] && site->turns_later <= lag)))
                    continue;
                site->turn_stack = node;
                site->turns_later = lag;
                site->rounds = visits[node];
            }
        }
}

void generations_tell(const generations *g, turns *out, const stack_tree *r, const candidates *c,
                      const uint64_t *visits, const int *turn_of) {
    for (uint32_t i = 1; i < r->nodes; i++) {
        if (!g->count[i]) continue;
        tell_of(g, &out->site[i], r, c, visits, turn_of);
        out->site[i].is_covered &= out->count && is_worth_showing(out, &out->best[0]);
        if (out->site[i].is_covered) out->site[i].turn_stack = out->site[i].turns_later = 0;
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

void lives_classify(turns *out) {
    double all = (double)out->duration_ns * 1e-9;
    for (size_t i = 0; i < out->sites; i++) {
        turn_site *site = &out->site[i];
        double mean = site->objects ? site->life_seconds / (double)site->objects : 0;
        if (!site->objects || !site->stack || site->is_covered)
            site->life = LIFE_SHORT;
        else if (site->turns_later)
            site->life = LIFE_GENERATION;
        else
            site->life = mean >= all / 3 ? LIFE_RUN : mean >= all / 50 ? LIFE_CACHE : LIFE_SHORT;
    }
}

/* A comparison needs it; one thread at a time gives advice. */
static const stack_tree *tree;

/* By the call in the named function, and by the functions of the wrappers below. */
static int by_path(uint32_t a, uint32_t a_named, uint32_t b, uint32_t b_named) {
    uint64_t x = a_named ? trace_stack_address(tree->t, a_named) : 0;
    uint64_t y = b_named ? trace_stack_address(tree->t, b_named) : 0;
    if (x != y) return x < y ? -1 : 1;
    while (a != a_named && b != b_named) {
        if (tree->function[a] != tree->function[b]) return tree->function[a] < tree->function[b] ? -1 : 1;
        a = trace_stack_caller(tree->t, a);
        b = trace_stack_caller(tree->t, b);
    }
    return (a != a_named) - (b != b_named);
}

static int same_site(const void *a, const void *b) {
    const turn_site *x = a, *y = b;
    if (x->life != y->life) return x->life < y->life ? -1 : 1;
    if (x->turns_later != y->turns_later) return x->turns_later < y->turns_later ? -1 : 1;
    return by_path(x->stack, x->named, y->stack, y->named);
}

static int same_escape(const void *a, const void *b) {
    const turn_escape *x = a, *y = b;
    if (x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
    int c = by_path(x->stack, x->named, y->stack, y->named);
    return c ? c : by_path(x->freed, x->freed_named, y->freed, y->freed_named);
}

static int most_byte_seconds(const void *a, const void *b) {
    const turn_site *x = a, *y = b;
    return (x->byte_seconds < y->byte_seconds) - (x->byte_seconds > y->byte_seconds);
}

static int most_escapes(const void *a, const void *b) {
    const turn_escape *x = a, *y = b;
    if (x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
    return (x->objects < y->objects) - (x->objects > y->objects);
}

void turn_sites_sort(turn_site *site, size_t count) {
    if (count) qsort(site, count, sizeof *site, most_byte_seconds);
}

void turn_escapes_sort(turn_escape *row, size_t count) {
    if (count) qsort(row, count, sizeof *row, most_escapes);
}

void turn_site_add(turn_site *to, const turn_site *from) {
    to->objects += from->objects;
    to->bytes += from->bytes;
    to->live += from->live;
    to->late += from->late;
    to->live_bytes += from->live_bytes;
    to->life_seconds += from->life_seconds;
    to->byte_seconds += from->byte_seconds;
    if (from->rounds > to->rounds) to->rounds = from->rounds;
}

void turn_escape_add(turn_escape *to, const turn_escape *from) {
    to->objects += from->objects;
    to->bytes += from->bytes;
    for (unsigned i = 0; i < TURN_LAGS; i++) to->lag[i] += from->lag[i];
    if (from->oldest_ns > to->oldest_ns) to->oldest_ns = from->oldest_ns;
}

static bool merge_sites(turns *out, const stack_tree *r, const bool *is_wrapper) {
    size_t kept = 0;
    uint32_t *place = calloc(out->sites + 1, sizeof *place);
    if (!place) return false;
    for (size_t i = 0; i < out->sites; i++)
        out->site[i].named = out->site[i].stack ? wrappers_skip(r, is_wrapper, out->site[i].stack) : 0;
    qsort(out->site, out->sites, sizeof *out->site, same_site);
    for (size_t i = 0; i < out->sites; i++) {
        uint32_t stack = out->site[i].stack;
        if (kept && same_site(&out->site[kept - 1], &out->site[i]) == 0)
            turn_site_add(&out->site[kept - 1], &out->site[i]);
        else
            out->site[kept++] = out->site[i];
        out->site[kept - 1].row = (uint32_t)kept - 1;
        out->row_of[stack] = (uint32_t)kept - 1;
    }
    turn_sites_sort(out->site, kept);
    for (size_t i = 0; i < kept; i++) place[out->site[i].row] = (uint32_t)i;
    for (size_t i = 0; i < out->sites; i++) out->row_of[i] = place[out->row_of[i]];
    out->sites = kept;
    free(place);
    return true;
}

/* Returns how many rows are left. */
static size_t merge_escapes(turn_escape *row, size_t count, const stack_tree *r, const bool *is_wrapper) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        row[i].named = row[i].stack ? wrappers_skip(r, is_wrapper, row[i].stack) : 0;
        row[i].freed_named = row[i].freed ? wrappers_skip(r, is_wrapper, row[i].freed) : 0;
    }
    if (count) qsort(row, count, sizeof *row, same_escape);
    for (size_t i = 0; i < count; i++)
        if (kept && same_escape(&row[kept - 1], &row[i]) == 0)
            turn_escape_add(&row[kept - 1], &row[i]);
        else
            row[kept++] = row[i];
    turn_escapes_sort(row, kept);
    return kept;
}

bool lives_merge(turns *out, const stack_tree *r, const bool *is_wrapper) {
    tree = r;
    if (!merge_sites(out, r, is_wrapper)) return false;
    out->escapes = merge_escapes(out->escape, out->escapes, r, is_wrapper);
    out->freeds = merge_escapes(out->freed, out->freeds, r, is_wrapper);
    return true;
}
