#include "walk/check_runs.h"

#include "region/region.h"
#include "supply/supply.h"

const char *ts_check_runs(const ts_allocator *allocator, ts_extents_visit *visit, void *arg) {
    const ts_nodes *nodes = ts_nodes_of(allocator);
    ts_extents_walk w = {.visit = visit, .arg = arg, .most = ts_load_relaxed(&allocator->span_retained_units)};
    const char *fault = NULL;
    for (; !fault && w.part < TS_PARTS; w.part++) {
        w.end = ts_region.part[w.part].first_unit + ts_pool_highest(w.part);
        fault = ts_check_extents(&allocator->runs[w.part], &w);
    }
    w.part = TS_NORMAL;
    w.end = ts_pool_highest(TS_NORMAL);
    for (w.home = 1; nodes && !fault && w.home < TS_HOMES; w.home++) fault = ts_check_extents(&nodes->runs[w.home], &w);
    return fault ? fault : ts_check_ages(&allocator->ages, w.aged);
}
