/* The list of figures (fields.h) as tables, and names that all renderers use. */
#ifndef TS_ADVICE_FIGURES_H
#define TS_ADVICE_FIGURES_H

#include "advice/fields.h"
#include "advice/sink.h"
#include "observe/observe.h"

#include <string.h>

typedef struct ts_field {
    const char *name; /* NULL: the end of a table */
    ts_field_type type;
    ts_field_scope scope;
    ts_field_unit unit;
    const char *metric, *meaning;
    size_t offset; /* of its uint64_t */
} ts_field;
/* recycle_rate_pct is in none, because it is no uint64_t. */
extern const ts_field ts_class_fields[], ts_epoch_fields[], ts_sample_fields[], ts_label_fields[], ts_node_fields[],
    ts_stack_fields[];
/* Of SlabGlobalStats: what classes have, too; and all else. */
extern const ts_field ts_shared_fields[], ts_global_fields[];
/* Of ts_zones_stats: the zones by state; and all else. */
extern const ts_field ts_state_fields[], ts_zones_fields[];
static inline uint64_t ts_figure(const void *row, size_t offset) {
    uint64_t value;
    memcpy(&value, (const char *)row + offset, sizeof value);
    return value;
}

const char *ts_state_name(int state);
/* "128", "scope", "span". */
const char *ts_class_name(uint32_t cls, char name[16]);
/* The label as it is shown. */
const char *ts_label_name(const ts_label_stats *label);

#endif
