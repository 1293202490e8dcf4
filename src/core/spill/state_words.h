/*
 * The state words of one COARSE slab as a few bytes: what its class, or the order of its bits, says anyway is left out. A slab of
 * objects of 64 bytes of which no slot has been used twice takes 36 bytes instead of 512.
 *
 *     churn   class, bits b of a generation, least generation (2 bytes); a bit per slot: live; b bits per slot: generation
 *     scope   0xff, whether something was freed, which of 16 words of start bits differ from the one before (2 bytes); these words; a bit
 *             per object: freed
 */
#ifndef TS_SPILL_STATE_WORDS_H
#define TS_SPILL_STATE_WORDS_H

#include "slab/slab.h"

#define TS_PACKED_SCOPE 0xffu
#define TS_PACKED_MOST 512u /* bytes, of any slab */

/* Of a slab of that class, or (TS_PACKED_SCOPE) of a scope. Nobody writes its state words meanwhile. Returns the bytes. */
size_t ts_slab_pack(uint32_t unit, unsigned cls, uint8_t out[TS_PACKED_MOST]);
/* Writes the state words as they were. */
void ts_slab_unpack(uint32_t unit, const uint8_t *packed);

#endif
