#include "slab/class.h"

ts_classes_t ts_classes;

const uint32_t ts_class_bytes[TS_CLASSES] = {
    16,   32,   48,   64,   80,   96,   112,  128,  144,   160,   192,   208,   224,   256,   320,  384,
    416,  448,  512,  576,  640,  704,  768,  896,  960,   1024,  1168,  1360,  1536,  1632,  1808, 2048,
    2336, 2720, 3072, 3264, 4096, 5456, 6144, 8192, 10240, 14336, 16384, 32768, 49152, 65536,
};

void ts_class_init(void) {
    unsigned cls = 0;
    for (unsigned i = 0; i <= TS_MAX_CLASS_BYTES / 16; i++) {
        if (i * 16 > ts_class_bytes[cls]) cls++;
        ts_classes.of[i] = (uint8_t)cls;
    }
    cls = TS_PAIR_CLASS;
    for (unsigned i = TS_MAX_CLASS_BYTES >> TS_LARGE_STEP_SHIFT; i < TS_LARGE_STEPS; i++) {
        if ((i + 1) << TS_LARGE_STEP_SHIFT > ts_class_bytes[cls]) cls++;
        ts_classes.large[i] = (uint8_t)cls;
    }
    for (cls = 0; cls < TS_CLASSES; cls++) {
        size_t units = ts_class_units(cls);
        size_t room = ts_class_is_short(cls) ? TS_SHORT_BYTES : units * TS_UNIT_BYTES;
        ts_classes.slots[cls] = (uint16_t)(ts_class_is_pair(cls) ? 2 : room / ts_class_bytes[cls]);
        ts_classes.full_at[cls] = cls < TS_LARGE_CLASS ? 64 : units == 1 ? 64 : units == 2 ? 32 : 16;
    }
}

unsigned ts_class_aligned(size_t size, size_t align) {
    if (size > TS_MAX_SLAB_BYTES || align > TS_UNIT_BYTES) return TS_CLASSES;
    unsigned cls = size > TS_MAX_CLASS_BYTES ? ts_class_of_large(size) : ts_classes.of[(size + 15) / 16];
    while (cls < TS_CLASSES && (ts_class_bytes[cls] & (align - 1)) != 0) cls++;
    return cls;
}
