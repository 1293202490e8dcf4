/* talloc_realloc and its family. */
#include "chunk.h"

#define KEEPS_ITS_NAME 1024u /* one that shrinks by less, as with talloc */

/* Those that point to the chunk, point to where it is now. */
static void relink(Chunk *chunk) {
    if (chunk->next) chunk->next->previous = chunk;
    if (chunk->previous)
        chunk->previous->next = chunk;
    else if (chunk->parent)
        chunk->parent->child = chunk;
    for (Chunk *c = chunk->child; c; c = c->next) c->parent = chunk;
}

/* With limits. What stays in its pool is charged nothing. */
static Chunk *resize_within_limits(Chunk *chunk, size_t size) {
    size_t held = tt_own_charge(chunk), more = size + CHARGED > held ? size + CHARGED - held : 0;
    Chunk *moved = chunk->mark & IN_POOL ? tt_resize_memory(chunk, size, true) : NULL;
    if (moved || !tt_charge(chunk, more)) return moved;
    moved = tt_resize_memory(chunk, size, false);
    if (!moved)
        tt_refund(chunk, more);
    else if (!more)
        tt_refund(moved, held - size - CHARGED);
    return moved;
}

void *_talloc_realloc(const void *context, void *object, size_t size, const char *name) {
    if (size == 0) {
        (void)talloc_unlink(context, object);
        return NULL;
    }
    if (size >= LARGEST) return NULL;
    if (!object) return talloc_named_const(context, size, name);
    Chunk *chunk = tt_chunk(object);
    if (!chunk || chunk->references || chunk->mark & IS_POOL) return NULL;
    size_t old = chunk->size;
    bool limits = atomic_load_explicit(&tt_limits, memory_order_relaxed); /* see limit.c */
    Chunk *moved = limits ? resize_within_limits(chunk, size) : tt_resize_memory(chunk, size, false);
    if (!moved) return NULL;
    if (moved != chunk) relink(moved);
    if (size > old || old - size >= (limits ? 1 : KEEPS_ITS_NAME)) {
        moved->name = name;
        tt_label(moved);
    }
    return tt_object(moved);
}

void *_talloc_realloc_array(const void *context, void *object, size_t size, unsigned count, const char *name) {
    return size && count >= LARGEST / size ? NULL : _talloc_realloc(context, object, size * count, name);
}

void *talloc_realloc_fn(const void *context, void *object, size_t size) {
    return _talloc_realloc(context, object, size, NULL);
}
