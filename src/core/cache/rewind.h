/*
 * Places to which a scope can go back. Objects that began behind a place die at once, and their memory is used again
 * if that is safe.
 *
 * A place is an ANCHOR: 16 bytes of the current slab that are skipped like a gap for an alignment. One more object is
 * counted for it, which never was and is never freed. So a slab with an anchor is never empty, and stays in its
 * block's list. The object before the anchor keeps its size, whatever comes behind. Slabs that came later are before
 * it in the list.
 */
#ifndef TS_CACHE_REWIND_H
#define TS_CACHE_REWIND_H

#include "cache/scope.h"

typedef struct ts_place {
    uint32_t unit, tag; /* the slab, and its tag in this use */
    uint16_t entry;     /* the first one behind the anchor */
    uint16_t count;     /* objects begun in the slab before the anchor */
} ts_place;

/* Makes an anchor of the last object of the current slab: 16 bytes that were just allocated there. false: it is not
   the last object. Caller holds the heap. */
bool ts_scope_anchor(ts_scope_block *block, const void *object, ts_place *out);
/* Whether the place still exists. Caller holds the heap. */
bool ts_scope_is_there(const ts_scope_block *block, const ts_place *place);
/* Kills all objects that began behind the place. anchors: the number of anchors in its slab behind it, which go, too.
   false: the place does not exist. Caller is the owner, holds the heap, and has taken in the cross-thread frees. */
bool ts_scope_rewind(ts_scope_block *block, const ts_place *place, uint32_t anchors);
/* Gives the place up; all objects stay. Caller is the owner and holds the heap. */
void ts_scope_forget(ts_scope_block *block, const ts_place *place);

/* Gives all places up. The block is closed, so no rewind comes any more, and slabs that are empty except for anchors
   can go. Caller holds the heap; there is no current slab. */
void ts_scope_forget_all(ts_scope_block *block);

#endif
