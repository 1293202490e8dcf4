/* The layout of the records, for debuggers (tools/gdb/tslab-gdb.py): macros are not in the debug information. */
#ifndef TS_API_LAYOUT_H
#define TS_API_LAYOUT_H

#include "ownership/ownership.h"

/* clang-format off */
#define TS_LAYOUT(X)                                                                                               \
    X(UNIT_SHIFT) X(UNIT_BYTES) X(FAR_SHIFT) X(UNIT_ENTRIES) X(SLAB_BYTES) X(WIDE_BYTES) X(CHURN_BLOCK_ALIGN)      \
    X(PIECE) X(PIECES) X(PIECE_BYTES) X(PIECE_RECORD_BYTES) X(GRANULES_COARSE) X(GRANULES_FINE) X(UNIT_LONG)           \
    X(UNIT_FOREIGN) X(UNIT_ZOMBIE) X(UNIT_SCOPE) X(UNIT_SPAN) X(UNIT_HANDLED) X(UNIT_CUT) X(UNIT_ERA_MASK)            \
    X(FINE_LINES_END) X(SLOT_GEN_MAX) X(FOREIGN_TAG_SHIFT) X(ADDRESS_BITS) X(BUMP_SHIFT)            \
    X(BUMP_TURN) X(HANDLE_FORMAT) X(HANDLE_FAR) X(COUNT_SCOPE) X(COUNT_SPAN) X(NEAR_UNITS) X(FULL_BITS)            \
    X(KIND_NONE) X(KIND_CHURN) X(KIND_SCOPE) X(KIND_SPAN) X(KIND_RETIRED) X(KIND_FINE) X(KIND_CUT)
/* clang-format on */

__attribute__((used)) static const struct ts_layout {
#define X(name) uint64_t name;
    TS_LAYOUT(X)
#undef X
} ts_layout = {
#define X(name) TS_##name,
    TS_LAYOUT(X)
#undef X
};

#endif
