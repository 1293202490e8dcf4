#include "advise/tree.h"

#include "advise/functions.h"

#include <stdlib.h>
#include <string.h>

/* Open addressing from a pair of numbers to a number. */
typedef struct pairs {
    struct {
        uint64_t a, b;
        uint32_t value; /* 0: empty */
    } * slot;
    size_t slots;
} pairs;

static bool pairs_make(pairs *p, size_t most) {
    p->slots = 64;
    while (p->slots < 2 * most) p->slots *= 2;
    p->slot = calloc(p->slots, sizeof *p->slot);
    return p->slot != NULL;
}

/* The place of the pair's value, which is 0 if the pair is new. */
static uint32_t *pairs_at(pairs *p, uint64_t a, uint64_t b) {
    uint64_t h = (a * 0x9e3779b97f4a7c15u ^ b) * 0xbf58476d1ce4e5b9u;
    for (size_t i = (size_t)(h >> 20);; i++) {
        size_t at = i & (p->slots - 1);
        if (p->slot[at].value == 0) {
            p->slot[at].a = a;
            p->slot[at].b = b;
            return &p->slot[at].value;
        }
        if (p->slot[at].a == a && p->slot[at].b == b) return &p->slot[at].value;
    }
}

/* The start of the function that a return address is in, as the image has it. Without a table sites are functions. */
static uint64_t start_of(const trace_module *m, const starts *s, uint64_t address) {
    uint64_t start = m ? start_before(s, address - 1 - m->base) : 0;
    return start ? start + m->base : address;
}

static uint32_t module_number(const trace *t, const trace_module *m) {
    return m ? (uint32_t)(m - trace_module_at(t, 0)) + 1 : 0;
}

static bool find_functions(stack_tree *r, starts *tables) {
    pairs known;
    if (!pairs_make(&known, r->nodes)) return false;
    for (uint32_t node = 1; node < r->nodes; node++) {
        uint32_t image = trace_stack_image(r->t, node);
        uint64_t address = trace_stack_address(r->t, node);
        const trace_module *m = trace_module_of(r->t, image, address - 1);
        uint32_t module = module_number(r->t, m);
        if (m && tables[module].start == NULL && tables[module].count == 0) {
            tables[module] = starts_of(m->path);
            if (!tables[module].start) tables[module].count = 0;
        }
        uint64_t start = start_of(m, &tables[module], address);
        uint32_t *value = pairs_at(&known, start, image);
        if (*value == 0) {
            *value = (uint32_t)++r->function_count;
            r->functions[*value] = (turn_function){image, module, start};
        }
        r->function[node] = *value;
    }
    free(known.slot);
    r->function_count++;
    return true;
}

static bool is_on_stack(const stack_tree *r, uint32_t node) {
    for (uint32_t at = trace_stack_caller(r->t, node); at; at = trace_stack_caller(r->t, at))
        if (r->function[at] == r->function[node]) return true;
    return false;
}

static bool find_instances(stack_tree *r) {
    pairs known;
    if (!pairs_make(&known, r->nodes)) return false;
    for (uint32_t node = 1; node < r->nodes; node++) {
        uint32_t *value = pairs_at(&known, trace_stack_caller(r->t, node), r->function[node]);
        if (*value == 0) *value = node;
        r->instance[node] = is_on_stack(r, node) ? 0 : *value;
    }
    free(known.slot);
    return true;
}

bool tree_make(stack_tree *r, trace *t) {
    *r = (stack_tree){.t = t, .nodes = trace_stack_count(t) + 1};
    size_t modules = trace_module_count(t) + 1;
    starts *tables = calloc(modules, sizeof *tables);
    r->function = calloc(r->nodes, sizeof *r->function);
    r->instance = calloc(r->nodes, sizeof *r->instance);
    r->functions = calloc(r->nodes + 1u, sizeof *r->functions);
    bool done = tables && r->function && r->instance && r->functions && find_functions(r, tables) && find_instances(r);
    for (size_t i = 0; tables && i < modules; i++) free(tables[i].start);
    free(tables);
    if (!done) tree_free(r);
    return done;
}

void tree_free(stack_tree *r) {
    free(r->function);
    free(r->instance);
    free(r->functions);
    *r = (stack_tree){0};
}

bool tree_is_libc(const stack_tree *r, uint32_t node) {
    const trace_module *m = trace_module_of(r->t, trace_stack_image(r->t, node), trace_stack_address(r->t, node) - 1);
    const char *slash = m ? strrchr(m->path, '/') : NULL, *name = slash ? slash + 1 : m ? m->path : "";
    return strncmp(name, "libc.so", 7) == 0 || strncmp(name, "libc-", 5) == 0 || strncmp(name, "libpthread", 10) == 0;
}

size_t tree_path(const stack_tree *r, uint32_t stack, uint32_t path[TREE_DEPTH]) {
    uint32_t inner[TREE_DEPTH];
    size_t count = 0;
    for (uint32_t at = stack; at; at = trace_stack_caller(r->t, at)) {
        if (count == TREE_DEPTH) { /* the outermost ones are what turns are made of */
            memmove(inner, inner + 1, sizeof inner - sizeof *inner);
            count--;
        }
        inner[count++] = at;
    }
    for (size_t i = 0; i < count; i++) path[i] = inner[count - 1 - i];
    return count;
}
