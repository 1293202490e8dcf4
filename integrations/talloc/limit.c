/* talloc_set_memlimit. While the process has a limit, all is counted; otherwise it costs one test. */
#include "chunk.h"

atomic_uint tt_limits;

bool tt_charge(Chunk *parent, size_t bytes) {
    if (!bytes) return true;
    for (Chunk *c = parent; c; c = c->parent)
        if (c->limit && c->limit->most && (c->limit->held > c->limit->most || bytes > c->limit->most - c->limit->held))
            return false;
    for (Chunk *c = parent; c; c = c->parent)
        if (c->limit) c->limit->held += bytes;
    return true;
}

void tt_refund(Chunk *parent, size_t bytes) {
    for (Chunk *c = parent; c; c = c->parent)
        if (c->limit) c->limit->held -= c->limit->held < bytes ? c->limit->held : bytes;
}

static size_t block_of(const Chunk *chunk) {
    return chunk->mark & IS_POOL ? (size_t)(chunk->home->end - (const char *)tt_object(chunk)) + POOL_CHARGED
                                 : tt_own_charge(chunk);
}

/* At the end of a chunk that has nothing below it any more. */
void tt_leave_limits(Chunk *chunk) {
    tt_refund(chunk, block_of(chunk));
    if (!chunk->limit) return;
    (void)slab_free(tt_allocator, chunk->limit);
    chunk->limit = NULL;
    atomic_fetch_sub_explicit(&tt_limits, 1, memory_order_relaxed); /* a tree is of one thread */
}

size_t tt_charge_of(const Chunk *chunk) {
    size_t all = block_of(chunk);
    for (const Chunk *c = chunk->child; c; c = c->next) all += tt_charge_of(c);
    return all;
}

int talloc_set_memlimit(const void *context, size_t most) {
    Chunk *chunk = context ? tt_chunk(context) : NULL;
    if (!chunk) return -1;
    if (!chunk->limit) {
        if (!most) return 0;
        if (!tt_start()) return -1;
        chunk->limit = slab_malloc_epoch(tt_allocator, sizeof *chunk->limit, tt_shared);
        if (!chunk->limit) return -1;
        chunk->limit->held = tt_charge_of(chunk);
        atomic_fetch_add_explicit(&tt_limits, 1, memory_order_relaxed); /* a tree is of one thread */
    }
    chunk->limit->most = most;
    return 0;
}
