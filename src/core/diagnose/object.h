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
/* Where p lies: the number of its slab (slab/slab.h), and the entry. false: not in the region, or not on a 16-byte
   place. */
static inline bool ts_locate(const void *p, uint32_t *unit, uint64_t *entry) {
    const ts_part *r = &ts_region.part[TS_NORMAL];
    uint64_t e = ts_entry_of(r, p);
    if (TS_UNLIKELY(!ts_is_in_part(r, e))) return ts_locate_far(p, unit, entry);
    *unit = ts_slab_of_entry(e);
    *entry = e;
    return true;
}

/* Of the allocator in whose slab or span p lies, whether or not an object starts there; 0: in none. Takes no lock. */
uintptr_t ts_object_owner(const void *p);
/* Whether p is the start of a live object of the allocator, and all about it. */
bool ts_object_at(uintptr_t allocator, const void *p, ts_object *out);
/* The same; false for a span, which is looked at under its epoch's lock: for who holds a heap. */
bool ts_object_at_in_slab(uintptr_t allocator, const void *p, ts_object *out);
/* The bytes of it that the program may use: `bytes`, but those asked for where a tool watches (care.h). */
size_t ts_object_usable(const ts_object *object);
/* The same for a handle; 0 in the generation of the handle never matches. */
bool ts_object_of_handle(uintptr_t allocator, SlabHandle handle, ts_object *out);
/* The object's handle; SLAB_HANDLE_NONE if it stopped living meanwhile. */
SlabHandle ts_object_handle(uintptr_t allocator, const ts_object *object);

/* One object and no other that has or had its address: for who asks later whether it still lives, without using up a
   generation of its slab as a handle does. */
typedef struct ts_watch {
    uint64_t word; /* UNIT word, FOREIGN cleared */
    uint32_t tag;  /* of its slab's use; 0: span, the word has it */
    uint32_t generation;
} ts_watch;
/* false: not the start of a live object. Takes no lock, as the next. */
bool ts_object_watch(uintptr_t allocator, const void *p, ts_watch *out);
/* Whether the object that was at p is still live. *bytes: usable; 0: a span. */
bool ts_object_watched(uintptr_t allocator, const void *p, const ts_watch *watch, size_t *bytes);

#endif
