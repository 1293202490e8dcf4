/* Looking at objects (object.c). */
#ifndef TS_DIAGNOSE_OBJECT_H
#define TS_DIAGNOSE_OBJECT_H

#include "epoch/epoch.h"

typedef struct ts_object {
    char *address;
    size_t bytes; /* usable */
    EpochId epoch;
    uint32_t unit; /* its slab's number */
    uint32_t entry_in_unit;
    uint32_t generation;         /* 24 bits */
    uint32_t kind;               /* class, TS_COUNT_SCOPE or TS_COUNT_SPAN */
    uint64_t word;               /* UNIT word, FOREIGN cleared */
    ts_block *block;             /* NULL: span */
    const ts_allocator *care_of; /* its allocator */
} ts_object;
/* Finds the slab number (slab/slab.h) and the entry of an address. false: it is not in the region, or off the 16-byte
   grid. */
static inline bool ts_locate(const void *p, uint32_t *unit, uint64_t *entry) {
    const ts_part *r = &ts_region.part[TS_NORMAL];
    uint64_t e = ts_entry_of(r, p);
    if (TS_UNLIKELY(!ts_is_in_part(r, e))) return ts_locate_far(p, unit, entry);
    *unit = ts_slab_of_entry(e);
    *entry = e;
    return true;
}

/* The token of the allocator in whose slab or span p lies, whether an object starts there or not. 0: there is none.
   Takes no lock. */
uintptr_t ts_object_owner(const void *p);
/* The token of the allocator of the span at this unit, if there is one; a hint. */
uintptr_t ts_span_owner(uint32_t unit);
/* Looks at an object. false: p is not the start of a live object of the allocator. */
bool ts_object_at(uintptr_t allocator, const void *p, ts_object *out);
/* ts_object_at for a caller that holds a heap. false also for a span, because a span is looked at under its epoch's
   lock. */
bool ts_object_at_in_slab(uintptr_t allocator, const void *p, ts_object *out);
/* The bytes of an object that the program may use: `bytes`, or those asked for where a memory tool watches (care.h). */
size_t ts_object_usable(const ts_object *object);
/* ts_object_at for a handle. A handle with generation 0 never matches. */
bool ts_object_of_handle(uintptr_t allocator, SlabHandle handle, ts_object *out);
/* The object's handle; SLAB_HANDLE_NONE if it stopped living meanwhile. */
SlabHandle ts_object_handle(uintptr_t allocator, const ts_object *object);

/* A watch names one object, and no other that has or had its address. It tells later whether the object still lives.
   A handle would use up a generation of its slab; a watch does not. */
typedef struct ts_watch {
    uint64_t word; /* UNIT word, FOREIGN cleared */
    uint32_t tag;  /* of its slab's use; 0: span, the word has it */
    uint32_t generation;
} ts_watch;
/* Makes a watch. *bytes: usable; 0: a span. false: p is not the start of a live object, and *bytes stays. Takes no
   lock, and neither does ts_object_watched. */
bool ts_object_watch(uintptr_t allocator, const void *p, ts_watch *out, size_t *bytes);
/* Whether the object that was at p is still live. *bytes: as for ts_object_watch. */
bool ts_object_watched(uintptr_t allocator, const void *p, const ts_watch *watch, size_t *bytes);

#endif
