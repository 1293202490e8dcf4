#include "advise/turns.h"

#include "advise/choose.h"
#include "advise/lives.h"
#include "advise/placement.h"
#include "advise/rounds.h"
#include "advise/tree.h"

#include <stdlib.h>
#include <string.h>

enum {
    STEP = 1 << 16, /* events between two calls of progress */
    LATE = 1000,
    ESCAPE_SLOTS = 1 << 14
};

/* Open addressing; objects 0: empty. */
typedef struct escape_rows {
    turn_escape *row;
    size_t count;
} escape_rows;

typedef struct reading {
    trace *t;
    stack_tree tree;
    turns *out;
    node_counts count;
    candidates found;
    rounds rounds; /* of the reading at hand */
    void (*progress)(double);
    unsigned pass;
    int *turn_of; /* by candidate cut, while escapes are read; -1: none */
    escape_rows escape, freed;
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
        r->count.births[i] = site->objects;
        r->count.bytes[i] = site->bytes;
        if (i && r->count.enters[i] > r->count.enters[r->out->enter_stack]) r->out->enter_stack = i;
    }
    for (uint32_t i = r->tree.nodes - 1; i > 0; i--) { /* a caller has the lower number */
        const uint32_t caller = trace_stack_caller(r->t, i);
        r->count.births[caller] += r->count.births[i];
        r->count.bytes[caller] += r->count.bytes[i];
        r->count.reallocs[caller] += r->count.reallocs[i];
        r->count.enters[caller] += r->count.enters[i];
    }
}

/* An event of a domain, or of an object in one: it is there already. */
static bool count_scoped(reading *r, const trace_event *e) {
    if (e->kind == TRACE_SCOPE_ENTER) {
        r->out->enters++;
        r->count.enters[e->stack]++;
    }
    if (!e->scope || e->kind > TRACE_REALLOC) return false;
    r->out->scoped += e->kind == TRACE_ALLOC;
    return true;
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
        if (count_scoped(r, &e)) continue;
        if (e.kind == TRACE_ALLOC || (e.kind == TRACE_REALLOC && !e.object))
            count_birth(r, &e, born_at, &live);
        else if (e.kind == TRACE_FREE)
            count_death(r, &e, born_at, &live);
        else if (e.kind == TRACE_REALLOC) {
            r->count.reallocs[e.stack]++;
            r->out->site[e.birth_stack].live_bytes += e.size - e.from_size;
            live += e.size - e.from_size;
        }
        if (live > r->out->peak_bytes) r->out->peak_bytes = live;
    }
    end_of_first(r, born_at);
    memcpy(r->count.visits, r->rounds.count, r->tree.nodes * sizeof *r->count.visits);
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

/* The row of these objects, which is new if it has none; NULL: the table is full, and the largest came early. */
static turn_escape *row_at(escape_rows *rows, uint32_t of, uint32_t stack, uint32_t freed) {
    uint64_t h = (stack * 0x9e3779b97f4a7c15u ^ freed ^ ((uint64_t)of << 40)) * 0xbf58476d1ce4e5b9u;
    if (rows->count * 2 >= ESCAPE_SLOTS) return NULL;
    for (size_t i = (size_t)(h >> 20);; i++) {
        turn_escape *at = &rows->row[i & (ESCAPE_SLOTS - 1)];
        if (at->objects && (at->turn != of || at->stack != stack || at->freed != freed)) continue;
        rows->count += at->objects == 0;
        at->turn = of;
        at->stack = stack;
        at->freed = freed;
        return at;
    }
}

static void add_to_row(turn_escape *at, const trace_event *e) {
    if (!at) return;
    at->objects++;
    at->bytes += e->size;
    if (e->time_ns - e->born_ns > at->oldest_ns) at->oldest_ns = e->time_ns - e->born_ns;
}

static void add_escape(reading *r, uint32_t of, const trace_event *e, unsigned ago) {
    turn_escape *at = row_at(&r->escape, of, e->birth_stack, e->stack);
    add_to_row(at, e);
    if (at) at->lag[ago - 1]++;
}

static void count_round(reading *r, const trace_event *e, size_t number, size_t above) {
    candidate *c = &r->found.one[number];
    cuts *of;
    unsigned ago = rounds_ago(r, e, c, &of);
    if (r->turn_of) {
        const int best = r->turn_of[number];
        if (ago && best >= 0) add_escape(r, (uint32_t)best, e, ago);
        if (!ago && best >= 0) add_to_row(row_at(&r->freed, (uint32_t)best, 0, e->stack), e);
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
    uint64_t events = 0, births = 0;
    trace_event e;
    r->pass++;
    if (!trace_rewind(r->t) || !rounds_make(&r->rounds, &r->tree, trace_thread_count(r->t), r->found.watched))
        return false;
    r->rounds.on_cut = r->turn_of ? NULL : close_round;
    r->rounds.arg = r;
    while (trace_next(r->t, &e)) {
        tell(r, ++events);
        rounds_step(&r->rounds, e.thread, e.stack, e.time_ns);
        births += e.kind == TRACE_ALLOC;
        if (e.kind != TRACE_FREE || !e.object || e.scope) continue;
        count_rounds(r, &e);
        if (!r->turn_of && births >= r->out->births - r->out->births / LATE) r->out->site[e.birth_stack].late++;
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
                double mean = site->life_seconds / (double)site->objects * 1e9;
                turn_escape *row = row_at(&r->escape, (uint32_t)of, i, 0);
                if (!row) return;
                row->objects = site->live;
                row->bytes = site->live_bytes;
                row->oldest_ns = (uint64_t)(mean < (double)trace_end_ns(r->t) ? mean : (double)trace_end_ns(r->t));
            }
    }
}

/* The rows of a table, one behind the other; the caller's from now on. */
static turn_escape *take_rows(escape_rows *rows, size_t *count) {
    turn_escape *row = rows->row;
    for (size_t i = 0; i < ESCAPE_SLOTS; i++)
        if (row[i].objects) row[(*count)++] = row[i];
    rows->row = NULL;
    return row;
}

/* Which functions outside of libc allocate what a turn covers, or lets escape. The tables are by function. */
static void find_entries(reading *r, turn *t, uint64_t *objects, uint64_t *most, uint32_t *stack) {
    const stack_tree *tree = &r->tree;
    memset(objects, 0, tree->function_count * sizeof *objects);
    memset(most, 0, tree->function_count * sizeof *most);
    for (uint32_t i = 1; i < tree->nodes; i++) {
        const uint64_t here = r->out->site[i].objects;
        uint32_t at = here ? i : 0, entry = at;
        while (at && tree->function[at] != t->function) at = trace_stack_caller(r->t, at);
        if (!at) continue;
        while (entry != at && tree_is_libc(tree, entry)) entry = trace_stack_caller(r->t, entry);
        const uint32_t function = tree->function[entry];
        objects[function] += here;
        if (here > most[function]) most[function] = here, stack[function] = entry;
    }
    for (unsigned k = 0; k < TURN_ENTRIES; k++) {
        size_t best = 0;
        for (size_t f = 1; f < tree->function_count; f++)
            if (objects[f] > objects[best]) best = f;
        if (objects[best] * 10 < t->births) break;
        t->entry[k] = (turn_entry){stack[best], objects[best]};
        objects[best] = 0;
    }
}

static bool read_entries(reading *r) {
    const size_t functions = r->tree.function_count + 1;
    uint64_t *objects = calloc(functions, sizeof *objects), *most = calloc(functions, sizeof *most);
    uint32_t *stack = calloc(functions, sizeof *stack);
    const bool done = objects && most && stack;
    for (size_t i = 0; done && i < r->out->count; i++) find_entries(r, &r->out->best[i], objects, most, stack);
    free(objects);
    free(most);
    free(stack);
    return done;
}

static bool read_escapes(reading *r) {
    turns *out = r->out;
    r->escape.row = calloc(ESCAPE_SLOTS, sizeof *r->escape.row);
    r->freed.row = calloc(ESCAPE_SLOTS, sizeof *r->freed.row);
    if (!r->escape.row || !r->freed.row || !generations_make(&r->generations, out, &r->tree, &r->found) ||
        !read_deaths(r) || !read_entries(r))
        return false;
    generations_tell(&r->generations, out, &r->tree, &r->found, r->count.visits, r->turn_of);
    add_never_freed(r);
    out->escape = take_rows(&r->escape, &out->escapes);
    out->freed = take_rows(&r->freed, &out->freeds);
    return true;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static bool merge(reading *r) {
    bool *is_wrapper = wrappers_find(&r->tree, r->leaf);
    r->out->row_of = calloc(r->tree.nodes, sizeof *r->out->row_of);
    r->out->sites = r->tree.nodes;
    lives_classify(r->out);
    r->out->placement = placement_make(&r->tree, r->out->site, r->out->duration_ns);
    bool done = is_wrapper && r->out->placement && r->out->row_of && lives_merge(r->out, &r->tree, is_wrapper);
    free(is_wrapper);
    while (r->out->sites && !r->out->site[r->out->sites - 1].objects) r->out->sites--;
    return done;
}

static bool find(reading *r, const turn_costs *costs) {
    turns *out = r->out;
    uint32_t nodes = r->tree.nodes;
    out->site = calloc(nodes, sizeof *out->site);
    r->leaf = calloc(nodes, sizeof *r->leaf);
    uint64_t **const counts[] = {&r->count.births, &r->count.bytes, &r->count.reallocs, &r->count.enters,
                                 &r->count.visits};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!(*counts[i] = calloc(nodes, sizeof **counts[i]))) return false;
    if (!r->leaf || !out->site || !read_births(r)) return false;
    out->duration_ns = trace_end_ns(r->t);
    if (!candidates_find(&r->found, &r->tree, &r->count, out->births)) return false;
    if (!read_deaths(r)) return false;
    r->turn_of = calloc(r->found.count + 1, sizeof *r->turn_of);
    if (!r->turn_of || !choose_turns(out, &r->found, &r->tree, &r->count, costs, r->turn_of)) return false;
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
    free(r.count.births);
    free(r.count.bytes);
    free(r.count.reallocs);
    free(r.count.enters);
    free(r.count.visits);
    free(r.turn_of);
    free(r.escape.row);
    free(r.freed.row);
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
    free(a->freed);
    free(a->site);
    free(a->function);
    free(a->function_of);
    free(a->row_of);
    placement_free(a->placement);
    free(a);
}
