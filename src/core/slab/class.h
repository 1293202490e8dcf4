/*
 * Size classes of churn slabs. Steps of 16 up to 160, of 32 up to 512 (480 is left out), of 64 up to 1024, and then the
 * largest multiples of 16 of which 15, 14, ... 2 fit in a unit: rounding up wastes at most 20.3 % of the slot from 64 to
 * 4096 bytes, 7.2 % on average above 1024 (all sizes alike), and a quarter or a third at most in the last two. On what
 * eight programs ask for (benchmarks/suite/size_mix.h) it is 7.97 % of what they take, 8.27 % with the ends of the slabs; 28
 * classes, four to a doubling, lost 9.43 and 9.73 %. A class costs a thread a line in each churn epoch, and a magazine
 * and what is free of a slab if it uses the class: resident over the payload are 15.4 % of 16 MiB of the mix (28 classes:
 * 17.1 %), but 37.8 % of 0.6 MiB (29.0 %). 480 would win 0.03 %.
 * The last two, of three and two objects to a slab, are what a span of a unit each would be otherwise: a ninth of the
 * time of a free and an allocation, and 0.71 of the memory for objects of 5,000 bytes. Their magazines keep up to 128
 * slabs, 2 MiB, of each epoch and thread that uses both. An allocator that gives memory back at once, or guards large
 * objects, has spans there.
 * Powers of two keep their natural alignment because a slab begins on 16 KiB.
 *
 * The classes above 8 KiB are LARGE: a slab of one to four units with one object, so rounded up as a span is. Free objects stay in
 * magazines, which are full at 1 MiB at most, and a free or an allocation takes no lock and no locked instruction, where a span takes the
 * lock of its epoch and counts for all threads: a third of the time (docs/decisions.md).
 *
 * Slabs of the classes below 64 bytes are FINE, with granules of 16 bytes; of all others an object is at least as large as a granule
 * of 64. So at most one object starts in a granule.
 */
#ifndef TS_SLAB_CLASS_H
#define TS_SLAB_CLASS_H

#include "base/attr.h"
#include "region/region.h"

#define TS_CLASSES 46u
#define TS_FINE_CLASSES 3u /* 16, 32, 48 */
#define TS_FINE_MAX_BYTES 48u
#define TS_MAX_CLASS_BYTES 8192u
#define TS_LARGE_CLASS 42u       /* the first class whose slab is one object: of a unit, two, three and four units */
#define TS_MAX_SLAB_BYTES 65536u /* of an object in a slab; above are spans */
#define TS_QUARTER_BYTES 4096u   /* of a unit; an object of up to so many is in a slab under all options */

/* Filled at start, `bin` by ts_heap_init and the others by ts_class_init; constant then. */
typedef struct ts_classes {
    uint16_t bin[TS_MAX_CLASS_BYTES + 1];    /* [size]: where the class's bin lies in a block; set by the heap layer. By
                                                size, not by sixteenths: two instructions less per allocation. First, so
                                                that it is reached without an offset: shorter code */
    uint8_t of[TS_MAX_CLASS_BYTES / 16 + 1]; /* [(size + 15) / 16]: class */
    uint16_t slots[TS_CLASSES];              /* objects in a slab */
    uint8_t full_at[TS_CLASSES];             /* objects in a magazine that is full; a power of two */
} ts_classes_t;

extern TS_HIDDEN ts_classes_t ts_classes;
extern TS_HIDDEN const uint32_t ts_class_bytes[TS_CLASSES];

void ts_class_init(void);

TS_ALWAYS_INLINE bool ts_class_is_fine(unsigned cls) { return cls < TS_FINE_CLASSES; }
/* Units of a slab of the class. */
TS_ALWAYS_INLINE uint32_t ts_class_units(unsigned cls) { return cls <= TS_LARGE_CLASS ? 1 : cls - TS_LARGE_CLASS + 1; }
/* Of a size from TS_MAX_CLASS_BYTES + 1 to TS_MAX_SLAB_BYTES. */
TS_ALWAYS_INLINE unsigned ts_class_of_large(size_t size) {
    return TS_LARGE_CLASS + (unsigned)((size - 1) >> TS_UNIT_SHIFT);
}

/* The smallest class of at least `size` bytes whose objects all lie on multiples of `align` (a power of
   two); TS_CLASSES if there is none. */
unsigned ts_class_aligned(size_t size, size_t align);

#endif
