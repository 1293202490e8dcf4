#include "walk/check_extents.h"

#include "region/region.h"

static const char *check_extent(const ts_extents *set, ts_extents_walk *w, unsigned list, uint32_t first,
                                uint32_t before) {
    const ts_run *run = ts_region.run;
    if (first <= ts_region.part[w->part].first_unit || first >= w->end) return "an extent outside of its part";
    uint32_t units = ts_extent_at(set, first);
    if (units == 0 || units > w->end - first) return "the length of an extent";
    if (ts_extent_at(set, first + units - 1) != units) return "an extent with two lengths";
    if (ts_extent_list(units) != list) return "an extent in the list of another length";
    if (run[first].prev != before) return "a list of extents that is broken";
    if (ts_home_of(first) != w->home || !ts_home_is_same(first, first + units - 1)) return "an extent of another home";
    if (ts_extent_at(set, first - 1) != 0) return "two extents that touch";
    w->found += ts_units_weight(first, units);
    w->aged += ts_units_weight(first, units) >= TS_EXTENT_AGED;
    if (w->found > w->most) return "more units in extents than are counted"; /* a list that is a circle ends here */
    return w->visit && !w->visit(w->arg, first, units) ? "an extent" : NULL;
}

const char *ts_check_extents(const ts_extents *set, ts_extents_walk *w) {
    for (unsigned list = 0; list < TS_EXTENT_LISTS; list++) {
        bool some = (ts_load_relaxed(&set->some[list / 64]) >> list % 64) & 1;
        uint32_t before = 0;
        if (some != (set->head[list] != 0)) return "a list of extents and its bit";
        for (uint32_t first = set->head[list]; first; before = first, first = ts_region.run[first].next) {
            const char *fault = check_extent(set, w, list, first, before);
            if (fault) return fault;
        }
    }
    return NULL;
}

const char *ts_check_ages(const ts_ages *ages, uint32_t aged) {
    uint32_t before = 0;
    for (uint32_t first = ages->oldest; first; before = first, first = ts_region.run[first].newer) {
        const ts_run *r = &ts_region.run[first];
        if (aged-- == 0) return "more extents in the list by age than have one";
        if (ts_units_weight(first, r->length) < TS_EXTENT_AGED) return "an extent without an age";
        if (r->older != before) return "a list of extents by age that is broken";
    }
    return aged != 0 || ages->newest != before ? "the ends of the list of extents by age" : NULL;
}
