#include "walk/check_runs.h"

#include "region/pool.h"
#include "supply/nodes.h"

/* The length of the allocator's run that begins or ends there, 0: none. */
static uint32_t length_at(const ts_allocator *allocator, uint32_t unit) {
    const ts_run *r = &ts_region.run[unit];
    return ts_load_relaxed(&r->retained_of) == ts_allocator_index(allocator) ? r->next : 0;
}

static const char *walk_runs(const ts_allocator *allocator, unsigned part, unsigned home, const ts_runs *runs,
                             ts_runs_visit *visit, void *arg, uint64_t *found, uint32_t *aged) {
    uint64_t retained = ts_load_relaxed(&allocator->span_retained_units);
    uint32_t begin = ts_region.part[part].first_unit, end = begin + ts_region.part[part].units;
    for (unsigned list = 0; list < TS_RETAINED_LISTS; list++) {
        bool some = (runs->some[list / 64] >> list % 64) & 1;
        uint32_t before = 0;
        if (some != (runs->head[list] != 0)) return "a list of retained runs and its bit";
        for (uint32_t first = runs->head[list]; first; before = first, first = ts_slab_at(first)->next) {
            if (first <= begin || first >= end) return "a retained run outside of its part";
            uint32_t units = length_at(allocator, first);
            if (units == 0 || units > end - first) return "the length of a retained run";
            if (length_at(allocator, first + units - 1) != units) return "a retained run with two lengths";
            if (ts_runs_list(units) != list) return "a retained run in the list of another length";
            if (ts_slab_at(first)->prev != before) return "a list of retained runs that is broken";
            if (ts_home_of(first) != home || !ts_home_is_same(first, first + units - 1))
                return "a retained run of another home";
            if (ts_home_is_same(first - 1, first) && length_at(allocator, first - 1) != 0)
                return "two retained runs that touch";
            *found += ts_units_weight(first, units);
            *aged += ts_units_weight(first, units) >= TS_RUNS_AGED;
            if (*found > retained)
                return "more units in retained runs than are counted"; /* a list that is a circle ends here */
            if (visit && !visit(arg, first, units)) return "a retained run";
        }
    }
    return NULL;
}

/* aged: how many runs have an age. */
static const char *walk_ages(const ts_allocator *allocator, uint32_t aged) {
    uint32_t before = 0;
    for (uint32_t first = allocator->oldest; first; before = first, first = ts_slab_at(first)->u.run.newer) {
        if (aged-- == 0) return "more runs in the list by age than have one";
        if (ts_units_weight(first, length_at(allocator, first)) < TS_RUNS_AGED) return "a run without an age";
        if (ts_slab_at(first)->u.run.older != before) return "a list of runs by age that is broken";
    }
    return aged != 0 || allocator->newest != before ? "the ends of the list of runs by age" : NULL;
}

const char *ts_check_runs(const ts_allocator *allocator, ts_runs_visit *visit, void *arg) {
    const ts_nodes *nodes = ts_nodes_of(allocator);
    uint64_t found = 0;
    uint32_t aged = 0;
    const char *fault = NULL;
    for (unsigned part = 0; !fault && part < TS_PARTS; part++)
        fault = walk_runs(allocator, part, TS_HOME_ANY, &allocator->runs[part], visit, arg, &found, &aged);
    for (unsigned home = 1; nodes && !fault && home < TS_HOMES; home++)
        fault = walk_runs(allocator, TS_NORMAL, home, &nodes->runs[home], visit, arg, &found, &aged);
    return fault ? fault : walk_ages(allocator, aged);
}
