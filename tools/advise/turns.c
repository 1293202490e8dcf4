#include "advise/turns.h"

#include "advise/choose.h"
#include "advise/lives.h"
#include "advise/rounds.h"
#include "advise/tree.h"

#include <stdlib.h>
#include <string.h>

enum { STEP = 1 << 16 }; /* events between two calls of progress */

typedef struct reading {
    trace *t;
    stack_tree tree;
    turns *out;
    uint64_t *births; /* by node: of all stacks that have it */
    uint64_t *bytes;
    uint64_t *visits; /* by node */
    candidates found;
    rounds rounds; /* of the reading at hand */
    void (*progress)(double);
    unsigned pass;
    int *turn_of;        /* by candidate cut, while escapes are read; -1: none */
    turn_escape *escape; /* open addressing; objects 0: empty */
    size_t escape_slots, escapes;
    bool *leaf; /* by node: a stack of an allocation or free ends there */
    generations generations;
    bool no_memory;
} reading;

/* ---- the first reading: births and visits ----------------------------------------------------------------------- */

typedef struct born {
    double seconds; /* the times of the births of live objects together */
} born;

static void count_birth(reading *r, const trace_event *e, born *born_at, uint64_t *live) {
    turn_site *site = &r->out->site[e->stack];
    site->objects++;
    site->bytes += e->size;
    site->live++;
    site->live_bytes += e->size;
    born_at[e->stack].seconds += (double)e->time_ns * 1e-9;
    r->out->births++;
    r->out->bytes += e->size;
    *live += e->size;
}

static void count_death(reading *r, const trace_event *e, born *born_at, uint64_t *live) {
    if (!e->object) {
        r->out->unknown_deaths++;
        return;
    }
    turn_site *site = &r->out->site[e->birth_stack];
    double life = (double)(e->time_ns - e->born_ns) * 1e-9;
    site->live--;
    site->live_bytes -= e->size;
    site->life_seconds += life;
    site->byte_seconds += life * (double)e->size;
    born_at[e->birth_stack].seconds -= (double)e->born_ns * 1e-9;
    r->out->deaths++;
    *live -= e->size;
}

static void tell(reading *r, uint64_t events) {
    uint64_t all = trace_event_count(r->t);
    if (r->progress && events % STEP == 0 && all) r->progress(((double)events / (double)all + r->pass) / 3);
}

static void end_of_first(reading *r, const born *born_at) {
    double end = (double)trace_end_ns(r->t) * 1e-9;
    for (uint32_t i = 0; i < r->tree.nodes; i++) {
        turn_site *site = &r->out->site[i];
        double life = (double)site->live * end - born_at[i].seconds;
        site->stack = i;
        site->life_seconds += life;
        if (site->live) site->byte_seconds += life * (double)site->live_bytes / (double)site->live;
        r->births[i] = site->objects;
        r->bytes[i] = site->bytes;
    }
    for (uint32_t i = r->tree.nodes - 1; i > 0; i--) { /* a caller has the lower number */
        r->births[trace_stack_caller(r->t, i)] += r->births[i];
        r->bytes[trace_stack_caller(r->t, i)] += r->bytes[i];
    }
}

static bool read_births(reading *r) {
    uint64_t events = 0, live = 0;
    trace_event e;
    born *born_at = calloc(r->tree.nodes, sizeof *born_at);
    if (!born_at || !rounds_make(&r->rounds, &r->tree, trace_thread_count(r->t), NULL)) {
        free(born_at);
        return false;
    }
    while (trace_next(r->t, &e)) {
        tell(r, ++events);
        rounds_step(&r->rounds, e.thread, e.stack, e.time_ns);
        if (e.kind <= TRACE_REALLOC) r->leaf[e.stack] = e.stack != 0;
        if (e.scope && e.kind <= TRACE_REALLOC) continue; /* it is in a domain already */
        if (e.kind == TRACE_ALLOC || (e.kind == TRACE_REALLOC && !e.object))
            count_birth(r, &e, born_at, &live);
        else if (e.kind == TRACE_FREE)
            count_death(r, &e, born_at, &live);
        else if (e.kind == TRACE_REALLOC) {
            r->out->site[e.birth_stack].live_bytes += e.size - e.from_size;
            live += e.size - e.from_size;
        }
        if (live > r->out->peak_bytes) r->out->peak_bytes = live;
    }
    end_of_first(r, born_at);
    memcpy(r->visits, r->rounds.count, r->tree.nodes * sizeof *r->visits);
    bool done = !r->rounds.no_memory;
    rounds_free(&r->rounds);
    free(born_at);
    return done;
}

/* ---- the second and third: deaths, by round ---------------------------------------------------------------------- */

static void close_one(candidate *of, cuts *c, uint64_t now) {
    c->covered = 0;
    if (!c->held_bytes) return;
    of->held += (double)c->held_bytes * (double)now * 1e-9 - c->held_from;
    if (c->held_bytes > of->held_peak) of->held_peak = c->held_bytes;
    c->held_bytes = 0;
    c->held_from = 0;
}

/* A cut ends the round of its site; the end of a call those of the sites in the function. */
static void close_round(void *arg, uint32_t node, bool at_end, cuts *c, uint64_t now) {
    reading *r = arg;
    candidate *found = candidate_at(&r->found, node, at_end);
    if (found) close_one(found, c, now);
    for (size_t i = at_end ? r->found.below[node] : 0; i; i = r->found.one[i].next_below) {
        candidate *below = &r->found.one[i];
        node_visits *site = rounds_of(&r->rounds, r->rounds.number, below->node);
        if (site) close_one(below, below->at_end ? &site->end : &site->start, now);
    }
}

/* How many rounds ago the object was allocated; TURN_LAGS: so many or more, or its function has returned. */
static unsigned rounds_ago(const reading *r, const trace_event *e, const candidate *c, cuts **of) {
    node_visits *site = rounds_of(&r->rounds, e->birth_thread, c->node);
    uint32_t caller = trace_stack_caller(r->t, c->node);
    node_visits *call = caller ? rounds_of(&r->rounds, e->birth_thread, caller) : NULL;
    *of = site ? (c->at_end ? &site->end : &site->start) : NULL;
    if (call && rounds_since(&call->end, e->born_ns, true)) return TURN_LAGS;
    return *of ? rounds_since(*of, e->born_ns, c->at_end) : 0;
}

/* ago: of the lags; 0: it never died. */
static void add_escape(reading *r, int of, const trace_event *e, unsigned ago) {
    uint64_t h = (e->birth_stack * 0x9e3779b97f4a7c15u ^ e->stack ^ ((uint64_t)of << 40)) * 0xbf58476d1ce4e5b9u;
    if (r->escapes * 2 >= r->escape_slots) return; /* full: the largest ones came early */
    for (size_t i = (size_t)(h >> 20);; i++) {
        turn_escape *at = &r->escape[i & (r->escape_slots - 1)];
        bool is_new = at->objects == 0;
        if (!is_new && (at->turn != (uint32_t)of || at->stack != e->birth_stack || at->freed != e->stack)) continue;
        r->escapes += is_new;
        at->turn = (uint32_t)of;
        at->stack = e->birth_stack;
        at->freed = e->stack;
        at->objects++;
        at->bytes += e->size;
        if (ago) at->lag[ago - 1]++;
        if (e->time_ns - e->born_ns > at->oldest_ns) at->oldest_ns = e->time_ns - e->born_ns;
        return;
    }
}

static void count_round(reading *r, const trace_event *e, size_t number, size_t above) {
    candidate *c = &r->found.one[number];
    cuts *of;
    unsigned ago = rounds_ago(r, e, c, &of);
    if (r->turn_of) {
        if (ago && r->turn_of[number] >= 0) add_escape(r, r->turn_of[number], e, ago);
        if (r->generations.count[e->birth_stack]) r->generations.count[e->birth_stack][above][ago]++;
        return;
    }
    if (ago) {
        c->lag[ago - 1]++;
        return;
    }
    c->covered++;
    c->covered_bytes += e->size;
    if (of) {
        if (++of->covered > c->most) c->most = of->covered;
        of->held_bytes += e->size;
        of->held_from += (double)e->size * (double)e->time_ns * 1e-9;
    }
}

static void count_rounds(reading *r, const trace_event *e) {
    size_t above = 0;
    for (uint32_t at = e->birth_stack; at; at = trace_stack_caller(r->t, at)) {
        uint32_t instance = r->tree.instance[at];
        if (!instance) continue;
        for (size_t i = r->found.first[instance]; i; i = r->found.one[i].next) count_round(r, e, i, above++);
    }
}

static bool read_deaths(reading *r) {
    uint64_t events = 0;
    trace_event e;
    r->pass++;
    if (!trace_rewind(r->t) || !rounds_make(&r->rounds, &r->tree, trace_thread_count(r->t), r->found.watched))
        return false;
    r->rounds.on_cut = r->turn_of ? NULL : close_round;
    r->rounds.arg = r;
    while (trace_next(r->t, &e)) {
        tell(r, ++events);
        rounds_step(&r->rounds, e.thread, e.stack, e.time_ns);
        if (e.kind == TRACE_FREE && e.object && !e.scope) count_rounds(r, &e);
    }
    bool done = !r->rounds.no_memory;
    rounds_free(&r->rounds);
    return done;
}

/* ---- escapes of the best ----------------------------------------------------------------------------------------- */

/* Objects that were never freed, by the site that allocated them. */
static void add_never_freed(reading *r) {
    for (uint32_t i = 1; i < r->tree.nodes; i++) {
        const turn_site *site = &r->out->site[i];
        uint64_t seen = 0;
        if (!site->live) continue;
        for (uint32_t at = i; at; at = trace_stack_caller(r->t, at))
            for (size_t k = r->found.first[r->tree.instance[at]]; r->tree.instance[at] && k; k = r->found.one[k].next) {
                int of = r->turn_of[k];
                if (of < 0 || of >= 64 || seen >> of & 1u) continue;
                seen |= (uint64_t)1 << of;
                trace_event e = {.birth_stack = i, .time_ns = trace_end_ns(r->t)};
                double mean = site->life_seconds / (double)site->objects;
                e.born_ns = e.time_ns - (uint64_t)(mean * 1e9 < (double)e.time_ns ? mean * 1e9 : (double)e.time_ns);
                size_t before = r->escapes;
                add_escape(r, of, &e, 0);
                if (r->escapes == before) continue;
                for (size_t s = 0; s < r->escape_slots; s++) {
                    turn_escape *x = &r->escape[s];
                    if (x->objects && x->stack == i && x->freed == 0 && x->turn == (uint32_t)of) {
                        x->objects = site->live;
                        x->bytes = site->live_bytes;
                    }
                }
            }
    }
}

static bool read_escapes(reading *r) {
    turns *out = r->out;
    r->escape_slots = 1 << 14;
    r->escape = calloc(r->escape_slots, sizeof *r->escape);
    if (!r->escape || !generations_make(&r->generations, out, &r->tree, &r->found) || !read_deaths(r)) return false;
    generations_tell(&r->generations, out, &r->tree, &r->found, r->visits);
    add_never_freed(r);
    for (size_t i = 0; i < r->escape_slots; i++)
        if (r->escape[i].objects) r->escape[out->escapes++] = r->escape[i];
    out->escape = r->escape;
    r->escape = NULL;
    return true;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static bool merge(reading *r) {
    bool *is_wrapper = wrappers_find(&r->tree, r->leaf);
    r->out->row_of = calloc(r->tree.nodes, sizeof *r->out->row_of);
    r->out->sites = r->tree.nodes;
    lives_classify(r->out);
    bool done = is_wrapper && r->out->row_of && lives_merge(r->out, &r->tree, is_wrapper);
    free(is_wrapper);
    while (r->out->sites && !r->out->site[r->out->sites - 1].objects) r->out->sites--;
    return done;
}

static bool find(reading *r, const turn_costs *costs) {
    turns *out = r->out;
    uint32_t nodes = r->tree.nodes;
    out->site = calloc(nodes, sizeof *out->site);
    r->births = calloc(nodes, sizeof *r->births);
    r->bytes = calloc(nodes, sizeof *r->bytes);
    r->visits = calloc(nodes, sizeof *r->visits);
    r->leaf = calloc(nodes, sizeof *r->leaf);
    if (!r->leaf || !out->site || !r->births || !r->bytes || !r->visits || !read_births(r)) return false;
    out->duration_ns = trace_end_ns(r->t);
    if (!candidates_find(&r->found, &r->tree, r->births, r->visits, out->births)) return false;
    if (!read_deaths(r)) return false;
    r->turn_of = calloc(r->found.count + 1, sizeof *r->turn_of);
    if (!r->turn_of || !choose_turns(out, &r->found, &r->tree, r->births, r->bytes, r->visits, costs, r->turn_of))
        return false;
    if (!read_escapes(r) || !merge(r)) return false;
    out->function = r->tree.functions;
    out->functions = r->tree.function_count;
    out->function_of = r->tree.function;
    r->tree.functions = NULL;
    r->tree.function = NULL;
    return true;
}

turns *turns_find(trace *t, const turn_costs *costs, void (*progress)(double share)) {
    reading r = {.t = t, .progress = progress, .out = calloc(1, sizeof(turns))};
    bool done = r.out && tree_make(&r.tree, t) && find(&r, costs);
    candidates_free(&r.found);
    tree_free(&r.tree);
    free(r.births);
    free(r.bytes);
    free(r.visits);
    free(r.turn_of);
    free(r.escape);
    free(r.leaf);
    generations_free(&r.generations);
    if (done) return r.out;
    turns_free(r.out);
    return NULL;
}

void turns_free(turns *a) {
    if (!a) return;
    free(a->best);
    free(a->escape);
    free(a->site);
    free(a->function);
    free(a->function_of);
    free(a->row_of);
    free(a);
}
