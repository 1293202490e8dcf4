#include "advise/placement.h"

#include "elf/elf.h"

#include <stdlib.h>
#include <string.h>

/* Sites with less than this share of all objects and of all byte-seconds go with their neighbours. */
#define LEAST_SHARE 1e-3

/* A stack that allocates, and how far it is looked up. */
typedef struct item {
    const turn_site *site;
    uint32_t at;     /* node of the frame; 0: the stack has ended */
    uint32_t module; /* of placement.module; UINT32_MAX: code in no file, or in one without a build id */
    uint64_t offset;
} item;

typedef struct making {
    const stack_tree *r;
    bool *is_copy; /* by function: libtslab-malloc stands in for it */
    placement *p;
    double run_seconds;
} making;

static uint32_t module_of(placement *p, const trace_module *m) {
    size_t i = 0;
    if (!m || !m->build_id[0]) return UINT32_MAX;
    while (i < p->modules && strcmp(p->module[i]->build_id, m->build_id) != 0) i++;
    if (i == PLACEMENT_MODULES) return UINT32_MAX;
    p->module[i] = m;
    if (i == p->modules) p->modules++;
    return (uint32_t)i;
}

static void look(making *m, item *i, uint32_t at) {
    const trace *t = m->r->t;
    uint64_t address = trace_stack_address(t, at);
    const trace_module *module = at ? trace_module_of(t, trace_stack_image(t, at), address - 1) : NULL;
    i->at = at;
    i->module = module_of(m->p, module);
    i->offset = module ? address - module->base : 0;
}

static int by_address(const void *a, const void *b) {
    const elf_place *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/* libc's strdup and its like, which libtslab-malloc has of its own: their callers are the sites. false: no memory. */
static bool find_copies(making *m) {
    const stack_tree *r = m->r;
    elf_place *place = calloc(r->function_count + 1, sizeof *place);
    m->is_copy = calloc(r->function_count + 1, sizeof *m->is_copy);
    for (size_t i = 0; place && m->is_copy && i < trace_module_count(r->t); i++) {
        const trace_module *of = trace_module_at(r->t, i);
        const char *slash = strrchr(of->path, '/');
        size_t count = 0;
        if (!slash || strcmp(slash, "/libc.so.6") != 0) continue;
        for (size_t k = 1; k < r->function_count; k++)
            if (r->functions[k].module == i + 1) place[count++] = (elf_place){r->functions[k].start - of->base, NULL};
        qsort(place, count, sizeof *place, by_address);
        elf_functions(of->path, place, count);
        for (size_t k = 1; k < r->function_count; k++) {
            const elf_place key = {r->functions[k].start - of->base, NULL};
            const elf_place *found =
                r->functions[k].module == i + 1 ? bsearch(&key, place, count, sizeof *place, by_address) : NULL;
            const char *name = found && found->name ? found->name + strspn(found->name, "_") : "";
            m->is_copy[k] |= strcmp(name, "strdup") == 0 || strcmp(name, "strndup") == 0 || strcmp(name, "wcsdup") == 0;
        }
        for (size_t k = 0; k < count; k++) free(place[k].name);
    }
    free(place);
    return place && m->is_copy;
}

static int by_frame(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->module != y->module) return x->module < y->module ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Its number; 0: objects of this life stay where they are. */
static uint32_t epoch_of(placement *p, placement_epoch e) {
    size_t i = 0;
    if (e.life == LIFE_SHORT) return 0;
    while (i < p->epochs && memcmp(&p->epoch[i], &e, sizeof e) != 0) i++;
    if (i == PLACEMENT_EPOCHS) return 0;
    p->epoch[i] = e;
    if (i == p->epochs) p->epochs++;
    return (uint32_t)i + 1;
}

static placement_epoch life_of(const making *m, const turn_site *s) {
    double mean = s->life_seconds / (double)s->objects;
    if (mean < m->run_seconds / 50) return (placement_epoch){LIFE_SHORT, 0, 0, 0};
    if (s->turns_later) return (placement_epoch){LIFE_GENERATION, 0, s->turn_stack, s->turns_later};
    if ((s->live + s->late) * 2 >= s->objects) return (placement_epoch){LIFE_RUN, 0, 0, 0};
    unsigned share = mean >= m->run_seconds / 4 ? 1 : mean >= m->run_seconds / 16 ? 2 : 3;
    return (placement_epoch){LIFE_CACHE, share, 0, 0};
}

/* Of all of them together. *differ: whether they have several. */
static uint32_t epoch_of_all(making *m, const item *items, size_t count, bool *differ) {
    turn_site all = {0};
    placement_epoch first = life_of(m, items[0].site);
    *differ = false;
    for (size_t i = 0; i < count; i++) {
        placement_epoch e = life_of(m, items[i].site);
        *differ |= memcmp(&e, &first, sizeof e) != 0;
        turn_site_add(&all, items[i].site);
    }
    return epoch_of(m->p, *differ ? life_of(m, &all) : first);
}

/* Nodes for items whose frames are looked at, beneath a parent whose own objects go to `epoch`. false: there is no room
   for all. */
static bool divide(making *m, item *items, size_t count, uint32_t parent, uint32_t epoch, unsigned depth) {
    placement *p = m->p;
    bool all = true;
    qsort(items, count, sizeof *items, by_frame);
    for (size_t i = 0, end; i < count; i = end) {
        bool differ;
        for (end = i + 1; end < count && by_frame(&items[i], &items[end]) == 0;) end++;
        uint32_t own = epoch_of_all(m, items + i, end - i, &differ);
        if (items[i].module == UINT32_MAX || (own == epoch && !differ)) continue;
        if (p->nodes == PLACEMENT_NODES) return false;
        size_t node = p->nodes++;
        p->node[node] = (placement_node){parent, items[i].module, items[i].offset, own};
        if (differ && depth < PLACEMENT_DEPTH) {
            for (size_t k = i; k < end; k++) look(m, &items[k], trace_stack_caller(m->r->t, items[k].at));
            all &= divide(m, items + i, end - i, (uint32_t)node + 1, own, depth + 1);
        }
        if (own == epoch && p->nodes == node + 1) p->nodes--; /* it says nothing */
    }
    return all;
}

/* Those that no node is in. */
static void drop_modules(placement *p) {
    uint32_t number[PLACEMENT_MODULES] = {0};
    size_t kept = 0;
    for (size_t i = 0; i < p->nodes; i++) number[p->node[i].module] = 1;
    for (size_t i = 0; i < p->modules; i++) {
        if (!number[i]) continue;
        p->module[kept] = p->module[i];
        number[i] = (uint32_t)kept++;
    }
    p->modules = kept;
    for (size_t i = 0; i < p->nodes; i++) p->node[i].module = number[p->node[i].module];
}

static bool counts(const turn_site *s, const turn_site *all) {
    return s->objects && s->stack &&
           ((double)s->objects > LEAST_SHARE * (double)all->objects ||
            s->byte_seconds > LEAST_SHARE * all->byte_seconds);
}

placement *placement_make(const stack_tree *r, const turn_site *site, uint64_t duration_ns) {
    placement *p = calloc(1, sizeof *p);
    item *items = calloc(r->nodes, sizeof *items);
    turn_site all = {0};
    size_t count = 0;
    making m = {.r = r, .p = p, .run_seconds = (double)duration_ns * 1e-9};
    if (p) p->node = calloc(PLACEMENT_NODES, sizeof *p->node);
    if (!items || !p || !p->node || !find_copies(&m)) {
        free(m.is_copy);
        free(items);
        placement_free(p);
        return NULL;
    }
    for (uint32_t i = 1; i < r->nodes; i++) turn_site_add(&all, &site[i]);
    for (uint32_t i = 1; i < r->nodes; i++) {
        if (!counts(&site[i], &all)) continue;
        items[count] = (item){.site = &site[i]};
        uint32_t caller = m.is_copy[r->function[i]] ? trace_stack_caller(r->t, i) : 0;
        look(&m, &items[count++], caller ? caller : i);
        if (life_of(&m, &site[i]).life == LIFE_SHORT) continue;
        p->objects += site[i].objects;
        p->bytes += site[i].bytes;
    }
    if (count) (void)divide(&m, items, count, 0, 0, 1);
    drop_modules(p);
    free(m.is_copy);
    free(items);
    return p;
}

void placement_free(placement *p) {
    if (p) free(p->node);
    free(p);
}
