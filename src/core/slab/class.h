/*
 * Size classes of churn slabs (docs/decisions.md has the figures that chose them).
 *
 *     up to 160      steps of 16
 *     up to 256      steps of 32, and 208
 *     up to 512      steps of 64, and 416
 *     up to 1024     steps of 64, without 832
 *     up to 8192     largest multiples of 16 of which 14, 12, 10, 9 ... 2 objects fit in a unit; and 1536, 3072, 6144
 *     10240, 14336   two objects in a slab of two units
 *     up to 65536    LARGE: a slab of one to four units with one object
 *
 * A class costs a thread a cache line in each churn epoch. A class that the thread uses costs a magazine, and the
 * free rest of a slab, too. So more classes waste less in large heaps, and more in small ones.
 *
 * The classes of 5456, 6144 and 8192 bytes have three or two objects to a slab. Their magazines keep up to 192 slabs,
 * 3 MiB, for each epoch and thread that uses them. An allocator that gives memory back at once, or guards large
 * objects, has spans of these sizes instead.
 *
 * A LARGE object is rounded up as a span is. Its magazines are full at 1 MiB at most. An allocation or a free of it
 * takes no lock and no locked instruction. A span takes the lock of its epoch, and counts for all threads.
 *
 * Powers of two keep their natural alignment, because a slab begins on 16 KiB.
 *
 * Slabs of the classes below 64 bytes are FINE, with granules of 16 bytes. Objects of all other classes are at least
 * as large as a granule of 64 bytes. So at most one object starts in a granule.
 */
#ifndef TS_SLAB_CLASS_H
#define TS_SLAB_CLASS_H

#include "base/base.h"
#include "region/region.h"

#define TS_CLASSES 46u
#define TS_FINE_CLASSES 3u /* 16, 32, 48 */
#define TS_MAX_CLASS_BYTES 8192u
#define TS_PAIR_CLASS 40u       /* the first of two classes whose slab is two objects in two units */
#define TS_LARGE_CLASS 42u      /* the first class whose slab is one object: of a unit, two, three and four units */
#define TS_LARGE_STEP_SHIFT 11u /* classes above TS_MAX_CLASS_BYTES are multiples of 2 KiB */
#define TS_LARGE_STEPS (TS_MAX_SLAB_BYTES >> TS_LARGE_STEP_SHIFT)
#define TS_MAX_SLAB_BYTES 65536u /* the largest object in a slab; larger ones are spans */
#define TS_QUARTER_BYTES 4096u   /* a quarter of a unit; objects up to this size are in slabs under all options */

/* The largest object for which a scope takes a new slab in any case: half of a unit. The slab that it leaves has less
   room left than the new one. */
#define TS_SCOPE_MAX_BYTES 8192u

/* ts_heap_init fills `bin` and `large_bin` at the start, ts_class_init the other fields. Constant then. */
typedef struct ts_classes {
    /* [size]: where the bin of the class lies in a block. By size, not by sixteenths: two instructions less for each
       allocation. First, so that it has no offset: shorter code. */
    uint16_t bin[TS_MAX_CLASS_BYTES + 1];
    uint16_t large_bin[TS_LARGE_STEPS];      /* [(size - 1) / 2048]: the same of larger ones */
    uint8_t of[TS_MAX_CLASS_BYTES / 16 + 1]; /* [(size + 15) / 16]: the class */
    uint8_t large[TS_LARGE_STEPS];           /* [(size - 1) / 2048] */
    uint16_t slots[TS_CLASSES];              /* objects in a slab */
    uint8_t full_at[TS_CLASSES];             /* objects in a full magazine; a power of two */
} ts_classes_t;

extern TS_HIDDEN ts_classes_t ts_classes;
extern TS_HIDDEN const uint32_t ts_class_bytes[TS_CLASSES];

void ts_class_init(void);

/* SHORT classes, of 1536, 3072 and 6144 bytes, leave the last page of a slab alone. It never gets memory, so their
   eight, four and two objects waste nothing. */
#define TS_SHORT_BYTES 12288u
static inline bool ts_class_is_short(unsigned cls) {
    return cls < TS_LARGE_CLASS && ts_class_bytes[cls] % (TS_SHORT_BYTES / 8) == 0;
}
/* PAIR classes, of 10,240 and 14,336 bytes: the second object begins in the slab's unit, and ends in the one behind. */
TS_ALWAYS_INLINE bool ts_class_is_pair(unsigned cls) { return cls - TS_PAIR_CLASS < TS_LARGE_CLASS - TS_PAIR_CLASS; }
TS_ALWAYS_INLINE bool ts_class_is_fine(unsigned cls) { return cls < TS_FINE_CLASSES; }
/* Units of a slab of the class. */
TS_ALWAYS_INLINE uint32_t ts_class_units(unsigned cls) {
    return ts_class_is_pair(cls) ? 2 : cls <= TS_LARGE_CLASS ? 1 : cls - TS_LARGE_CLASS + 1;
}
/* The class of a size from TS_MAX_CLASS_BYTES + 1 to TS_MAX_SLAB_BYTES. */
static inline unsigned ts_class_of_large(size_t size) { return ts_classes.large[(size - 1) >> TS_LARGE_STEP_SHIFT]; }

/* The smallest class of at least `size` bytes whose objects all lie on multiples of `align`, a power of two.
   TS_CLASSES: there is none. */
unsigned ts_class_aligned(size_t size, size_t align);

#endif
