/*
 * Size classes of churn slabs. Steps of 16 up to 128, then four to a doubling: rounding up wastes less than a fifth
 * from 64 bytes on, a tenth on average. Above 1024 the sizes are the largest multiples of 16 of which a whole number
 * fills a unit, those that lose least, the ends of slabs included, on what eight programs ask for (benchmarks/size_mix.h):
 * 9.7 % of what they take; with 1280 and 1536 and without 2336 it was 11.0 %. A block of 2 KiB has no room for more
 * classes. Powers of two keep their natural alignment because a slab begins on 16 KiB.
 *
 * Classes below 64 bytes live in part SMALL (16-byte granules); all others are at least a 64-byte granule,
 * so that at most one object starts in a granule.
 */
#ifndef TS_SLAB_CLASS_H
#define TS_SLAB_CLASS_H

#include "base/attr.h"
#include "region/region.h"

#define TS_CLASSES 28u
#define TS_SMALL_CLASSES 3u /* 16, 32, 48 */
#define TS_MAX_CLASS_BYTES 4096u

/* Constant after ts_class_init, except that they are all compile-time tables but the first. */
typedef struct ts_classes {
    uint8_t of[TS_MAX_CLASS_BYTES / 16 + 1]; /* [(size + 15) / 16]: class */
    uint16_t bin[TS_MAX_CLASS_BYTES + 1];    /* [size]: where the class's bin lies in a block; set by the heap layer. By
                                                size, not by sixteenths: two instructions less per allocation */
    uint16_t slots[TS_CLASSES];              /* objects in a slab */
} ts_classes_t;

extern TS_HIDDEN ts_classes_t ts_classes;
extern TS_HIDDEN const uint16_t ts_class_bytes[TS_CLASSES];

void ts_class_init(void);

static inline unsigned ts_class_part(unsigned cls) { return cls < TS_SMALL_CLASSES ? TS_SMALL : TS_NORMAL; }

/* The smallest class of at least `size` bytes whose objects all lie on multiples of `align` (a power of
   two); TS_CLASSES if there is none. */
unsigned ts_class_aligned(size_t size, size_t align);

#endif
