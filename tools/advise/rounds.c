#include "advise/rounds.h"

#include <stdlib.h>

bool rounds_make(rounds *r, const stack_tree *tree, uint32_t threads, const bool *watched) {
    *r = (rounds){.tree = tree, .watched = watched, .threads = threads};
    r->thread = calloc(threads + 1u, sizeof(round_thread *));
    r->count = watched ? NULL : calloc(tree->nodes, sizeof *r->count);
    return r->thread && (watched || r->count);
}

void rounds_free(rounds *r) {
    for (uint32_t i = 0; r->thread && i <= r->threads; i++) {
        if (!r->thread[i]) continue;
        for (uint32_t p = 0; p <= r->tree->nodes / ROUND_PAGE; p++) free(r->thread[i]->page[p]);
        free(r->thread[i]->page);
        free(r->thread[i]);
    }
    free(r->thread);
    free(r->count);
    r->thread = NULL;
    r->count = NULL;
}

static round_thread *thread_at(rounds *r, uint32_t number) {
    if (number > r->threads) return NULL;
    if (!r->thread[number]) {
        round_thread *made = calloc(1, sizeof *made);
        if (made && !(made->page = calloc(r->tree->nodes / ROUND_PAGE + 1u, sizeof *made->page))) {
            free(made);
            made = NULL;
        }
        r->thread[number] = made;
        r->no_memory |= made == NULL;
    }
    return r->thread[number];
}

static node_visits *visits_at(rounds *r, round_thread *thread, uint32_t node) {
    node_visits **page = &thread->page[node / ROUND_PAGE];
    if (!*page) *page = calloc(ROUND_PAGE, sizeof **page);
    r->no_memory |= *page == NULL;
    return *page ? &(*page)[node % ROUND_PAGE] : NULL;
}

static void cut(rounds *r, uint32_t node, bool at_end, cuts *c, uint64_t now) {
    if (r->on_cut) r->on_cut(r->arg, node, at_end, c, now);
    c->at[c->count++ % TURN_LAGS] = now;
}

static void begin_visit(rounds *r, round_thread *thread, uint32_t node, uint64_t now) {
    if (!r->watched) {
        r->count[node]++;
    } else if (r->watched[node]) {
        node_visits *v = visits_at(r, thread, node);
        if (v) cut(r, node, false, &v->start, now);
    }
}

static void end_visit(rounds *r, round_thread *thread, uint32_t node) {
    if (!r->watched || !r->watched[node]) return;
    node_visits *v = visits_at(r, thread, node);
    if (v) cut(r, node, true, &v->end, thread->last_ns);
}

void rounds_step(rounds *r, uint32_t number, uint32_t stack, uint64_t now) {
    uint32_t path[TREE_DEPTH];
    round_thread *thread = stack ? thread_at(r, number) : NULL;
    if (!thread) return;
    r->number = number;
    if (thread->depth == 0 || thread->path[thread->depth - 1] != stack) {
        size_t depth = tree_path(r->tree, stack, path), same = 0;
        while (same < depth && same < thread->depth && path[same] == thread->path[same]) same++;
        for (size_t i = thread->depth; i > same; i--) end_visit(r, thread, thread->path[i - 1]);
        for (size_t i = same; i < depth; i++) {
            begin_visit(r, thread, path[i], now);
            thread->path[i] = path[i];
        }
        thread->depth = depth;
    }
    thread->last_ns = now;
}

node_visits *rounds_of(const rounds *r, uint32_t thread, uint32_t node) {
    if (thread > r->threads || !r->thread[thread]) return NULL;
    node_visits *page = r->thread[thread]->page[node / ROUND_PAGE];
    return page ? &page[node % ROUND_PAGE] : NULL;
}

unsigned rounds_since(const cuts *c, uint64_t born, bool at_end) {
    unsigned n = 0;
    for (uint64_t i = c->count; i > 0 && n < TURN_LAGS; i--, n++) {
        uint64_t at = c->at[(i - 1) % TURN_LAGS];
        if (at_end ? at < born : at <= born) break;
    }
    return n;
}
