/*
 * Handles: [63:42] unit  [41:18] generation  [17:8] entry in the unit  [7:2] kind  [1:0] format
 *
 * The kind is a size class, TS_COUNT_SCOPE, TS_COUNT_SPAN (ownership/block.h) or TS_HANDLE_FAR. The handle of an object
 * in an OUTER unit has the unit's number within its region, and the number of the region in place of kind and format:
 * the lowest two bits are 0 for regions 1 to 63, 1 for regions 64 to 127, and no format. So the fast paths, which look
 * at the NEAR unit with that number and compare the eight bits, refuse it as they refuse any other kind.
 *
 * The generation alone tells an object from all that its place has had before. It rises with each use of the unit,
 * of whichever kind. So a handle without a kind is as exact as one with it.
 */
#ifndef TS_SLAB_HANDLE_H
#define TS_SLAB_HANDLE_H

#include "base/base.h"
#include "region/region.h"
#include "slab/slab.h"

/* Whether two UNIT words of a slab are of one use, in which FOREIGN comes and goes, and HANDLED comes. */
TS_ALWAYS_INLINE bool ts_is_same_use(uint64_t word, uint64_t other) {
    return ((word ^ other) & ~(TS_UNIT_FOREIGN | TS_UNIT_HANDLED)) == 0;
}

#define TS_HANDLE_FORMAT 2u
#define TS_HANDLE_FAR 63u /* a FAR span; the upper bits of its unit number stand in place of the entry */
#define TS_HANDLE_KIND_SHIFT 2u
_Static_assert(TS_CLASSES + 2 <= TS_HANDLE_FAR, "a kind has six bits");
TS_ALWAYS_INLINE uint64_t ts_handle_pack(uint32_t unit, uint32_t generation, uint32_t entry, unsigned kind) {
    return (uint64_t)unit << 42 | (uint64_t)(generation & TS_GEN_MAX) << 18 |
           (uint64_t)(entry & (TS_UNIT_ENTRIES - 1)) << 8 | (uint64_t)kind << TS_HANDLE_KIND_SHIFT | TS_HANDLE_FORMAT;
}
/* Whether a handle of this place was made of an object with this generation and kind. */
TS_ALWAYS_INLINE bool ts_handle_is(uint64_t handle, uint32_t generation, unsigned kind) {
    return (((uint32_t)(handle >> 18) ^ generation) & TS_GEN_MAX) == 0 &&
           (handle & 255u) == (kind << TS_HANDLE_KIND_SHIFT | TS_HANDLE_FORMAT);
}
/* The low bits of a handle that name a region of OUTER units; and the region that they name, 0: none. */
static inline uint32_t ts_handle_low_of_region(uint32_t region) { return region % 64 << 2 | region / 64; }
static inline uint32_t ts_handle_region(uint64_t handle) {
    return (handle & 2) != 0 ? 0 : (uint32_t)(handle & 1) << 6 | ((uint32_t)handle >> 2 & 63);
}
/* The number of the unit within its region, as the fast paths take it; and the whole number. */
TS_ALWAYS_INLINE uint32_t ts_handle_low_unit(uint64_t handle) { return (uint32_t)(handle >> 42); }
static inline uint32_t ts_handle_unit(uint64_t handle) {
    return ts_handle_region(handle) << TS_MAX_UNITS_LOG2 | ts_handle_low_unit(handle);
}
static inline uint64_t ts_handle_pack_outer(uint32_t unit, uint32_t generation, uint32_t entry) {
    uint64_t near = ts_handle_pack(unit % TS_NEAR_UNITS, generation, entry, 0);
    return (near & ~(uint64_t)255) | ts_handle_low_of_region(unit >> TS_MAX_UNITS_LOG2);
}
static inline uint32_t ts_handle_entry(uint64_t handle) { return (uint32_t)(handle >> 8) & (TS_UNIT_ENTRIES - 1); }
#define TS_HANDLE_UNIT_BITS TS_MAX_UNITS_LOG2
_Static_assert(TS_UNITS_LOG2 - TS_MAX_UNITS_LOG2 <= 7, "a region has seven bits");
_Static_assert(TS_FAR_UNITS_LOG2 <= TS_HANDLE_UNIT_BITS + 10, "the number of a FAR unit has room");
static inline bool ts_handle_is_far(uint64_t handle) {
    return (handle & 255u) == (TS_HANDLE_FAR << TS_HANDLE_KIND_SHIFT | TS_HANDLE_FORMAT);
}
/* The number of the unit within the FAR part. */
static inline uint32_t ts_handle_far_unit(uint64_t handle) {
    return ts_handle_entry(handle) << TS_HANDLE_UNIT_BITS | ts_handle_low_unit(handle);
}
static inline uint64_t ts_handle_pack_far(uint32_t in_part, uint32_t generation) {
    uint32_t low = in_part & (((uint32_t)1 << TS_HANDLE_UNIT_BITS) - 1);
    return ts_handle_pack(low, generation, in_part >> TS_HANDLE_UNIT_BITS, TS_HANDLE_FAR);
}

#endif
