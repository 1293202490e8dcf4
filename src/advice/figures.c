/* The list of figures as tables, and names that all renderers use. */
#include "advice/figures.h"

#define X(...) +1
_Static_assert(sizeof(ts_zones_stats) == 64 + 8 * (TS_STATS_ZONES(X)), "the list has all figures of zones");
_Static_assert(offsetof(ts_label_stats, active_allocated) ==
                   offsetof(ts_label_stats, active_age_ns) + 8 * (TS_STATS_LABEL(X)),
               "the list has all figures of labels but those for advice");
#undef X
#define X(field, type, scope, unit, metric, meaning, worry) \
    {#field, TS_##type, TS_SCOPE_##scope, TS_##unit, metric, meaning, offsetof(ROW, field)},
#define ROW SlabClassStats
const ts_field ts_class_fields[] = {TS_STATS_COUNTERS(X) TS_STATS_GAUGES(X){0}};
#undef ROW
#define ROW SlabGlobalStats
const ts_field ts_shared_fields[] = {TS_STATS_COUNTERS(X) TS_STATS_GAUGES(X){0}};
const ts_field ts_global_fields[] = {TS_STATS_GLOBAL(X){0}};
#undef ROW
#define ROW SlabEpochStats
const ts_field ts_epoch_fields[] = {TS_STATS_EPOCH(X){0}};
#undef ROW
#define ROW SlabThreadStats
const ts_field ts_sample_fields[] = {TS_STATS_SAMPLES(X){0}};
#undef ROW
#define ROW ts_label_stats
const ts_field ts_label_fields[] = {TS_STATS_LABEL(X){0}};
#undef ROW
#define ROW SlabNodeStats
const ts_field ts_node_fields[] = {TS_STATS_NODE_COUNTED(X){0}};
#undef ROW
#define ROW ts_zones_stats
const ts_field ts_state_fields[] = {TS_STATS_ZONE_STATES(X){0}};
const ts_field ts_zones_fields[] = {TS_STATS_ZONE_FIGURES(X){0}};
#undef ROW
#define ROW SlabStackSample
const ts_field ts_stack_fields[] = {TS_STATS_STACK(X){0}};
#undef ROW
#undef X

const char *ts_state_name(int state) {
    return state == EPOCH_ACTIVE    ? "active"
           : state == EPOCH_CLOSING ? "closing"
           : state == EPOCH_SPILLED ? "spilled"
                                    : "closed";
}

const char *ts_class_name(uint32_t cls, char name[16]) {
    if (cls == SLAB_CLASS_SCOPE) return "scope";
    if (cls == SLAB_CLASS_SPAN) return "span";
    ts_sink s = ts_sink_buffer(name, 16);
    ts_put_u64(&s, cls < TS_CLASSES ? ts_class_bytes[cls] : 0);
    (void)ts_sink_end(&s);
    return name;
}

const char *ts_label_name(const ts_label_stats *label) {
    return label->is_other ? TS_LABEL_OTHER : label->label[0] ? label->label : TS_LABEL_NONE;
}
