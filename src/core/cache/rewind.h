/*
 * Places of a scope to which it can go back: what began behind one dies at once, and its memory is used again if that
 * is safe.
 *
 * A place is an anchor: 16 bytes of the current slab that are skipped as for an alignment, and with it one object is
 * counted that never was, and is never freed. So the slab is never empty while it has an anchor, and stays in its
 * block's list; and the object before it keeps its size, whatever comes behind. Slabs that came later are before it
 * in the list.
 */
#ifndef TS_CACHE_REWIND_H
#define TS_CACHE_REWIND_H

#include "cache/scope.h"

typedef struct ts_place {
    uint32_t unit, tag; /* of the slab, in this use */
    uint16_t entry;     /* behind the anchor */
    uint16_t count;     /* objects begun in the slab before it */
} ts_place;

/* The last object of the current slab, 16 bytes that were just allocated there, becomes an anchor. false: it is not
   the last. Caller holds the heap. */
bool ts_scope_anchor(ts_scope_block *block, const void *object, ts_place *out);
/* The place still is. Likewise. */
bool ts_scope_is_there(const ts_scope_block *block, const ts_place *place);
/* What began behind the place dies. anchors: of the slab, behind it, which go too. false: there is no such place.
   Caller is the owner, holds the heap, and has taken in what others freed. */
bool ts_scope_rewind(ts_scope_block *block, const ts_place *place, uint32_t anchors);
/* The place is given up, and the rest stays. Likewise, but for the frees of others. */
void ts_scope_forget(ts_scope_block *block, const ts_place *place);

/* All places are given up: the block is closed, so that nobody comes back to them, and what is empty but for them
   can go. Caller holds the heap; there is no current slab. */
void ts_scope_forget_all(ts_scope_block *block);

#endif
