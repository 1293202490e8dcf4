/* Homes: where the memory of chunks comes from, and goes. chunk.h says what a home is. */
#include "chunk.h"

#include <string.h>

#define OWN_DOMAIN_AT 64u

/* A number that no other thread has, nor had. */
static uint64_t this_thread(void) {
    static _Atomic uint64_t last;
    static _Thread_local uint64_t number;
    if (!number)
        number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1; /* nothing hangs on the order */
    return number;
}

static __attribute__((noinline)) void *allocate_first(size_t bytes) {
    return !tt_allocator && tt_start() ? slab_malloc_epoch(tt_allocator, bytes, tt_shared) : NULL;
}

static inline void *allocate(size_t bytes, EpochId epoch) {
    void *p = slab_malloc_epoch(tt_allocator, bytes, epoch);
    return !unlikely(!p) ? p : allocate_first(bytes);
}

/* Member by member: a compiler makes a string instruction of a whole structure, which takes longer than the rest. */
static void begin_home(Home *home, Chunk *root, char *pool) {
    home->mark = HOME_MARK;
    atomic_init(&home->direct, EPOCH_NONE);
    atomic_init(&home->live, 1);
    atomic_init(&home->made, 0);
    atomic_init(&home->mixed, root->child != NULL);
    home->careful = 0;
    home->root = root;
    home->domain = NULL;
    home->early = NULL;
    home->pool = pool;
    home->pooled = 0;
}

/* ---- pools ------------------------------------------------------------------------------------------------ */

static Chunk *get_in_pool(Home *home, size_t size) {
    size_t bytes = tt_extent(size);
    if (bytes > (size_t)(home->end - home->at)) return NULL;
    Chunk *chunk = (Chunk *)(void *)home->at;
    home->at += bytes;
    home->pooled++;
    return chunk;
}

/* Where a chunk of a pool can have the size without leaving the pool; NULL: nowhere. The only one moves to the start. */
static Chunk *resize_in_pool(Home *home, Chunk *chunk, size_t size) {
    size_t old = tt_extent(chunk->size), bytes = tt_extent(size);
    char *here = (char *)chunk, *to = here;
    if (bytes <= old) {
        if (here + old == home->at) home->at = here + bytes;
        return chunk;
    }
    if (home->pooled == 1)
        to = tt_start_of_pool(home);
    else if (here + old != home->at)
        to = home->at;
    if (bytes > (size_t)(home->end - to)) return NULL;
    memmove(to, chunk, sizeof *chunk + chunk->size);
    if (to == home->at) chunk->mark |= IS_FREE;
    home->at = to + bytes;
    return (Chunk *)(void *)to;
}

Chunk *tt_get_pool(size_t size, size_t bytes) {
    Home *home = allocate(sizeof *home, tt_shared);
    char *block = home ? allocate(tt_extent(size) + bytes, tt_shared) : NULL;
    if (!block) {
        (void)slab_free(tt_allocator, home);
        return NULL;
    }
    Chunk *chunk = (Chunk *)(void *)block;
    *chunk = (Chunk){.mark = tt_mark | IS_POOL, .size = (uint32_t)size, .home = home};
    begin_home(home, chunk, block);
    home->at = tt_start_of_pool(home);
    home->end = home->at + bytes;
    return chunk;
}

/* ---- homes -------------------------------------------------------------------------------------------------- */

/* A context that was stolen before it allocated anything has the home of its parent. */
Home *tt_make_home(Chunk *chunk) {
    Home *home;
    if (chunk->parent && chunk->parent != tt_null) {
        home = chunk->parent->home ? chunk->parent->home : tt_make_home(chunk->parent);
        if (home) (void)tt_count(home, &home->live, 1);
    } else {
        home = allocate(sizeof *home, tt_shared);
        if (home) begin_home(home, chunk, NULL);
    }
    return chunk->home = home;
}

/* So many objects have a domain of their own, if there is memory for one. */
static __attribute__((noinline)) void make_domain(Home *home) {
    const char *name = home->root ? home->root->name : NULL;
    home->domain = epoch_domain_create_ex(tt_allocator, name ? name : "UNNAMED", EPOCH_CHURN);
    home->thread = this_thread();
    /* Of a pool, the block comes first. release: another thread that sees it can allocate there. */
    if (home->domain && !home->pool)
        atomic_store_explicit(&home->direct, epoch_domain_epoch(home->domain), memory_order_release);
}

void tt_label(const Chunk *chunk) {
    const Home *home = chunk->home;
    if (home && home->root == chunk && home->domain)
        (void)slab_epoch_set_label(tt_allocator, epoch_domain_epoch(home->domain),
                                   chunk->name ? chunk->name : "UNNAMED");
}

static void end_domain(Home *home) {
    if (home->domain && home->thread == this_thread())
        epoch_domain_destroy(home->domain);
    else if (home->domain)
        (void)epoch_domain_end(home->domain);
}

void tt_forget(Home *home) {
    end_domain(home);
    if (home->pool) (void)slab_free(tt_allocator, home->pool);
    home->mark = 0;
    (void)slab_free(tt_allocator, home);
}

/* ---- memory of chunks ------------------------------------------------------------------------------------------ */

static Link *link_of(Chunk *chunk) { return (Link *)(void *)chunk - 1; }

static Chunk *get_early(Home *home, size_t size) {
    Link *link = allocate(sizeof *link + sizeof(Chunk) + size, tt_shared);
    if (!link) return NULL;
    link->previous = NULL;
    link->next = home->early;
    if (link->next) link->next->previous = link;
    home->early = link;
    return (Chunk *)(void *)(link + 1);
}

static void leave_early(Home *home, const Link *link) {
    if (link->previous)
        link->previous->next = link->next;
    else
        home->early = link->next;
    if (link->next) link->next->previous = link->previous;
}

static void *memory_of(Chunk *chunk) { return chunk->mark & IS_EARLY ? (void *)link_of(chunk) : (void *)chunk; }

Chunk *tt_get_memory_slowly(Home *home, size_t size, uint32_t *flags) {
    if (!home) return allocate(sizeof(Chunk) + size, tt_shared);
    if (home->pool) {
        Chunk *chunk = get_in_pool(home, size);
        *flags = IN_POOL;
        if (chunk) return chunk;
        *flags = 0;
    }
    bool mixed = tt_is_mixed(home);
    uint32_t before = atomic_load_explicit(&home->made, memory_order_relaxed); /* a count */
    if (before < OWN_DOMAIN_AT && mixed)
        before = atomic_fetch_add_explicit(&home->made, 1, memory_order_relaxed);
    else if (before < OWN_DOMAIN_AT)
        atomic_store_explicit(&home->made, before + 1, memory_order_relaxed); /* of one thread */
    if (unlikely(before == OWN_DOMAIN_AT - 1)) make_domain(home);
    if (before >= OWN_DOMAIN_AT && home->domain && home->pool)
        return allocate(sizeof(Chunk) + size, epoch_domain_epoch(home->domain));
    if (mixed) return allocate(sizeof(Chunk) + size, tt_shared);
    *flags = IS_EARLY;
    return get_early(home, size);
}

static void tell_free(Chunk *chunk, const char *location) {
    chunk->name = location;
    chunk->mark |= IS_FREE;
}

/* Out of a pool that is full. */
static Chunk *leave_pool(Home *home, Chunk *chunk, size_t size) {
    uint32_t flags = 0;
    Chunk *moved = tt_get_memory_slowly(home, size, &flags);
    if (!moved) return NULL;
    memcpy(moved, chunk, sizeof *chunk + (chunk->size < size ? chunk->size : size));
    moved->mark = tt_mark | flags;
    tt_leave_pool(home, chunk);
    tell_free(chunk, "talloc_realloc");
    return moved;
}

/* A chunk of another size at its old place or a new one; the caller links it. NULL: the old one is as it was. */
Chunk *tt_resize_memory(Chunk *chunk, size_t size, bool stay) {
    Home *home = chunk->home;
    Chunk *moved;
    if (chunk->mark & IN_POOL) {
        moved = resize_in_pool(home, chunk, size);
        if (!moved && !stay) moved = leave_pool(home, chunk, size);
    } else {
        size_t before = chunk->mark & IS_EARLY ? sizeof(Link) : 0;
        bool early = before && !tt_is_mixed(home);
        chunk->mark |= IS_FREE; /* what stays behind is told to be free */
        char *memory = slab_realloc(tt_allocator, memory_of(chunk), before + sizeof *chunk + size);
        moved = memory ? (Chunk *)(void *)(memory + before) : NULL;
        (moved ? moved : chunk)->mark &= ~(uint32_t)IS_FREE;
        if (moved && early) {
            Link *link = link_of(moved);
            if (link->next) link->next->previous = link;
            *(link->previous ? &link->previous->next : &home->early) = link;
        }
    }
    if (!moved) return NULL;
    moved->size = (uint32_t)size;
    if (home && home->root == chunk) home->root = moved;
    return moved;
}

void tt_release_memory(Chunk *chunk, const char *location) {
    Home *home = chunk->home;
    uint32_t mark = chunk->mark;
    tell_free(chunk, location);
    if (unlikely(tt_fill >= 0)) memset(tt_object(chunk), tt_fill, chunk->size);
    if (unlikely(home && home->root == chunk)) home->root = NULL;
    if (mark & IN_POOL) {
        tt_leave_pool(home, chunk);
    } else if (!(mark & IS_POOL)) {
        if (mark & IS_EARLY && !tt_is_mixed(home)) leave_early(home, link_of(chunk));
        (void)slab_free(tt_allocator, memory_of(chunk));
    }
    if (home && tt_count(home, &home->live, (size_t)-1) == 1) tt_forget(home);
}

/* All at once: tt_ends_at_once has said so. */
void tt_end_home(Chunk *root, const char *location) {
    Home *home = root->home;
    for (Link *link = home->early, *next; link; link = next) {
        next = link->next;
        ((Chunk *)(void *)(link + 1))->mark |= IS_FREE;
        (void)slab_free(tt_allocator, link);
    }
    tell_free(root, location);
    if (!(root->mark & IS_POOL)) (void)slab_free(tt_allocator, root);
    tt_forget(home);
}

/* Before a chunk gets another parent. */
void tt_note_parents(Chunk *chunk, Chunk *new_parent) {
    Home *home = chunk->home, *to = new_parent ? new_parent->home : NULL;
    if (home == to) return;
    tt_mix(to);
    if (home && home->root != chunk) tt_mix(home);
}
