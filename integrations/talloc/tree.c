/* The tree: chunks made, freed, moved, referenced; and what is known of them. */
#include "chunk.h"

#include <string.h>

/* ---- links ------------------------------------------------------------------------------------------------------ */

static inline void link_to(Chunk *chunk, Chunk *parent) {
    chunk->parent = parent;
    chunk->previous = NULL;
    chunk->next = parent ? parent->child : NULL;
    if (!parent) return;
    if (chunk->next) chunk->next->previous = chunk;
    parent->child = chunk;
}

static inline void unlink_chunk(Chunk *chunk) {
    if (chunk->next) chunk->next->previous = chunk->previous;
    if (chunk->previous)
        chunk->previous->next = chunk->next;
    else if (chunk->parent)
        chunk->parent->child = chunk->next;
    chunk->parent = chunk->next = chunk->previous = NULL;
}

static bool limited(void) { return unlikely(atomic_load_explicit(&tt_limits, memory_order_relaxed)); /* see limit.c */ }

/* NULL stands for the null context, if there is one. */
static inline bool context_of(const void *context, Chunk **chunk) {
    *chunk = context ? tt_chunk(context) : tt_null;
    return *chunk || !context;
}

/* ---- made ------------------------------------------------------------------------------------------------------- */

/* A chunk with mark, size and home. */
static inline __attribute__((always_inline)) Chunk *get_memory(Home *home, size_t size) {
    uint32_t flags = 0;
    Chunk *chunk;
    /* acquire: partner is the release in make_domain */
    EpochId direct = home ? atomic_load_explicit(&home->direct, memory_order_acquire) : EPOCH_NONE;
    if (direct != EPOCH_NONE)
        chunk = slab_malloc_epoch(tt_allocator, sizeof *chunk + size, direct);
    else
        chunk = tt_get_memory_slowly(home, size, &flags);
    if (unlikely(!chunk)) return NULL;
    chunk->mark = tt_mark | flags;
    chunk->size = (uint32_t)size;
    chunk->home = home;
    if (home) (void)tt_count(home, &home->live, 1);
    return chunk;
}

static inline void fill_in(Chunk *chunk, Chunk *parent, const char *name) {
    chunk->child = NULL;
    chunk->name = name;
    chunk->destructor = NULL;
    chunk->references = NULL;
    chunk->limit = NULL;
    link_to(chunk, parent);
}

/* With limits: what is charged, first. */
static __attribute__((noinline)) Chunk *new_within_limits(Chunk *parent, Home *home, size_t size) {
    bool pooled = home && home->pool && tt_extent(size) <= (size_t)(home->end - home->at);
    size_t bytes = pooled ? 0 : size + CHARGED;
    if (!tt_charge(parent, bytes)) return NULL;
    Chunk *chunk = get_memory(home, size);
    if (!chunk) tt_refund(parent, bytes);
    return chunk;
}

Chunk *tt_new(const void *context, size_t size, const char *name) {
    Chunk *parent = tt_null, *chunk;
    Home *home = NULL;
    if (unlikely(size >= LARGEST)) return NULL;
    if (context && unlikely(!(parent = tt_chunk(context)))) return NULL;
    if (parent != tt_null) {
        home = parent->home;
        if (unlikely(!home) && !(home = tt_make_home(parent))) return NULL;
    }
    chunk = limited() ? new_within_limits(parent, home, size) : get_memory(home, size);
    if (unlikely(!chunk)) return NULL;
    fill_in(chunk, parent, name);
    return chunk;
}

static void *object_or_null(Chunk *chunk) { return chunk ? tt_object(chunk) : NULL; }

void *talloc_named_const(const void *context, size_t size, const char *name) {
    return object_or_null(tt_new(context, size, name));
}

void *_talloc(const void *context, size_t size) { return object_or_null(tt_new(context, size, NULL)); }

void *_talloc_zero(const void *context, size_t size, const char *name) {
    Chunk *chunk = tt_new(context, size, name);
    return chunk ? memset(tt_object(chunk), 0, size) : NULL;
}

void *_talloc_memdup(const void *context, const void *from, size_t size, const char *name) {
    Chunk *chunk = from || !size ? tt_new(context, size, name) : NULL;
    if (chunk && size) memcpy(tt_object(chunk), from, size);
    return object_or_null(chunk);
}

void *_talloc_array(const void *context, size_t size, unsigned count, const char *name) {
    return size && count >= LARGEST / size ? NULL : talloc_named_const(context, size * count, name);
}

void *_talloc_zero_array(const void *context, size_t size, unsigned count, const char *name) {
    return size && count >= LARGEST / size ? NULL : _talloc_zero(context, size * count, name);
}

static void *new_pool(const void *context, size_t size, size_t bytes, const char *name) {
    Chunk *parent;
    if (size >= LARGEST || bytes >= LARGEST || !context_of(context, &parent) || !tt_start()) return NULL;
    size_t charged = tt_extent(size) - sizeof(Chunk) + bytes + POOL_CHARGED;
    bool charge = parent && limited();
    if (charge && !tt_charge(parent, charged)) return NULL;
    Chunk *chunk = tt_get_pool(size, bytes);
    if (!chunk) {
        if (charge) tt_refund(parent, charged);
        return NULL;
    }
    if (parent) tt_mix(parent->home);
    fill_in(chunk, parent, name);
    return tt_object(chunk);
}

void *talloc_pool(const void *context, size_t size) { return new_pool(context, 0, size, NULL); }

void *_talloc_pooled_object(const void *context, size_t size, const char *type, unsigned objects, size_t bytes) {
    size_t headers = (size_t)objects * (sizeof(Chunk) + 15);
    return bytes >= LARGEST || headers >= LARGEST ? NULL : new_pool(context, size, bytes + headers, type);
}

/* ---- references --------------------------------------------------------------------------------------------------- */

static Reference *reference_in(Chunk *handle) { return tt_object(handle); }
static Chunk *handle_of(Reference *reference) { return (Chunk *)(void *)reference - 1; }

void *_talloc_reference_loc(const void *context, const void *pointer, const char *location) {
    Chunk *target = pointer ? tt_chunk(pointer) : NULL;
    Chunk *handle = target ? tt_new(context, sizeof(Reference), NAME_OF_REFERENCE) : NULL;
    if (!handle) return NULL;
    Reference *reference = reference_in(handle);
    handle->mark |= IS_REFERENCE;
    *reference = (Reference){.next = target->references, .target = target, .location = location};
    if (reference->next) reference->next->previous = reference;
    target->references = reference;
    if (handle->home != target->home) {
        tt_mix(handle->home);
        tt_mix(target->home);
    }
    return (void *)(uintptr_t)pointer;
}

/* At the end of the handle. */
static void leave_target(Chunk *handle) {
    Reference *reference = reference_in(handle);
    if (reference->next) reference->next->previous = reference->previous;
    if (reference->previous)
        reference->previous->next = reference->next;
    else
        reference->target->references = reference->next;
}

int talloc_increase_ref_count(const void *pointer) { return _talloc_reference_loc(NULL, pointer, "") ? 0 : -1; }

size_t talloc_reference_count(const void *pointer) {
    const Chunk *chunk = pointer ? tt_chunk(pointer) : NULL;
    size_t count = 0;
    for (const Reference *r = chunk ? chunk->references : NULL; r; r = r->next) count++;
    return count;
}

static Reference *reference_of(const Chunk *context, const Chunk *target) {
    Reference *reference = target->references;
    while (reference && handle_of(reference)->parent != context) reference = reference->next;
    return reference;
}

static void tell_references(const Chunk *chunk) {
    for (const Reference *r = chunk->references; r; r = r->next) tt_log("\treference at %s\n", r->location);
}

/* ---- freed ---------------------------------------------------------------------------------------------------------- */

static int is_running(void *object) { return object ? -1 : 0; }

/* False: the destructor wants the object to live, or runs already. */
static bool destroy(Chunk *chunk) {
    int (*destructor)(void *) = chunk->destructor;
    if (destructor == is_running) return false;
    chunk->destructor = is_running;
    if (destructor(tt_object(chunk)) == -1) {
        if (chunk->destructor == is_running) chunk->destructor = destructor;
        return false;
    }
    if (chunk->destructor) tt_be_careful(chunk, -1);
    chunk->destructor = NULL;
    return true;
}

static bool is_below(const Chunk *chunk, const Chunk *above) {
    for (int depth = 0; chunk && depth < TALLOC_MAX_DEPTH; depth++, chunk = chunk->parent)
        if (chunk == above) return true;
    return false;
}

/* Most chunks: with nothing below them and nothing to ask. False: it is another. */
static inline bool free_leaf(Chunk *chunk, const char *location) {
    Home *home = chunk->home;
    bool plain =
        !chunk->references && !chunk->destructor && !chunk->child && (chunk->mark & ~(uint32_t)IN_POOL) == tt_mark;
    if (!plain || !home || home->root == chunk || limited() || tt_fill >= 0) return false;
    unlink_chunk(chunk);
    bool pooled = chunk->mark & IN_POOL;
    chunk->name = location;
    chunk->mark |= IS_FREE;
    if (pooled)
        tt_leave_pool(home, chunk);
    else
        (void)slab_free(tt_allocator, chunk);
    if (tt_count(home, &home->live, (size_t)-1) == 1) tt_forget(home);
    return true;
}

/* One that cannot be freed now goes to the context of its newest reference, or up to the parent of its parent. One that is
   being freed already, further up the stack, is nobody's. */
static void free_children(Chunk *chunk, const char *location) {
    while (chunk->child) {
        Chunk *child = chunk->child;
        if (free_leaf(child, location)) continue;
        Chunk *heir = child->references ? handle_of(child->references)->parent : NULL;
        if (unlikely(!tt_chunk(tt_object(child)))) return; /* written over */
        if (child->mark & IN_LOOP)
            tt_steal(NULL, child);
        else if (tt_free(child, location) == -1 && child->parent == chunk)
            tt_steal(heir && heir != tt_null ? heir : chunk->parent ? chunk->parent : tt_null, child);
    }
}

int tt_free(Chunk *chunk, const char *location) {
    if (unlikely(!chunk)) return -1;
    if (unlikely(chunk->references)) {
        Chunk *handle = handle_of(chunk->references);
        bool own = is_below(handle, chunk);
        (void)tt_free(handle, location);
        return own ? tt_free(chunk, location) : -1;
    }
    if (unlikely(chunk->mark & IN_LOOP)) return 0;
    if (chunk->destructor && !destroy(chunk)) return -1;
    if (unlikely(chunk->mark & IS_REFERENCE)) leave_target(chunk);
    if (tt_ends_at_once(chunk) && !limited()) {
        unlink_chunk(chunk);
        tt_end_home(chunk, location);
        return 0;
    }
    chunk->mark |= IN_LOOP;
    if (chunk->child) free_children(chunk, location);
    if (limited()) tt_leave_limits(chunk);
    unlink_chunk(chunk);
    tt_release_memory(chunk, location);
    return 0;
}

int _talloc_free(void *object, const char *location) {
    Chunk *chunk = object ? tt_chunk(object) : NULL;
    if (unlikely(!chunk)) return -1;
    if (unlikely(chunk->references)) {
        bool one = !chunk->references->next && (!chunk->parent || chunk->parent == tt_null);
        if (one) return talloc_unlink(NULL, object);
        tt_log("ERROR: talloc_free with references at %s\n", location);
        tell_references(chunk);
        return -1;
    }
    return free_leaf(chunk, location) ? 0 : tt_free(chunk, location);
}

/* The name stays if it is a child's text. */
void talloc_free_children(void *object) {
    Chunk *chunk = object ? tt_chunk(object) : NULL;
    if (!chunk) return;
    Chunk *name = chunk->child;
    while (name && (chunk->name != tt_object(name) || !name->name || strcmp(name->name, NAME_OF_TEXT) != 0))
        name = name->next;
    if (name) unlink_chunk(name);
    free_children(chunk, "talloc_free_children");
    if (name) link_to(name, chunk);
}

int talloc_unlink(const void *context, void *object) {
    Chunk *parent, *chunk = object ? tt_chunk(object) : NULL;
    if (!chunk || !context_of(context, &parent)) return -1;
    Reference *reference = reference_of(parent, chunk);
    if (reference) return tt_free(handle_of(reference), "talloc_unlink");
    if (chunk->parent != parent) return -1;
    if (!chunk->references) return tt_free(chunk, "talloc_unlink");
    Chunk *handle = handle_of(chunk->references);
    Chunk *heir = handle->parent;
    if (tt_free(handle, "talloc_unlink") == -1) return -1;
    tt_steal(heir, chunk);
    return 0;
}

void _talloc_set_destructor(const void *object, int (*destructor)(void *)) {
    Chunk *chunk = object ? tt_chunk(object) : NULL;
    if (!chunk) return;
    tt_be_careful(chunk, (destructor != NULL) - (chunk->destructor != NULL));
    chunk->destructor = destructor;
}

/* ---- moved ------------------------------------------------------------------------------------------------------------ */

void tt_steal(Chunk *new_parent, Chunk *chunk) {
    if (chunk == new_parent) return;
    size_t held = limited() ? tt_charge_of(chunk) : 0;
    if (held) tt_refund(chunk->parent, held);
    tt_note_parents(chunk, new_parent);
    unlink_chunk(chunk);
    link_to(chunk, new_parent);
    for (Chunk *c = held ? new_parent : NULL; c; c = c->parent)
        if (c->limit) c->limit->held += held;
}

void *_talloc_steal_loc(const void *new_context, const void *object, const char *location) {
    Chunk *parent, *chunk = object ? tt_chunk(object) : NULL;
    if (!chunk || !context_of(new_context, &parent)) return NULL;
    if (chunk->references && chunk->parent != parent) {
        tt_log("WARNING: talloc_steal with references at %s\n", location);
        tell_references(chunk);
    }
    tt_steal(parent, chunk);
    return tt_object(chunk);
}

void *_talloc_move(const void *new_context, const void *from) {
    void *const *place = from, *object = *place;
    memset((void *)(uintptr_t)from, 0, sizeof object);
    return _talloc_steal_loc(new_context, object, "talloc_move");
}

void *talloc_reparent(const void *old_context, const void *new_context, const void *object) {
    Chunk *old_parent, *parent, *chunk = object ? tt_chunk(object) : NULL;
    if (!chunk || !context_of(old_context, &old_parent) || !context_of(new_context, &parent)) return NULL;
    Reference *reference = chunk->parent == old_parent ? NULL : reference_of(old_parent, chunk);
    if (chunk->parent == old_parent)
        tt_steal(parent, chunk);
    else if (reference)
        tt_steal(parent, handle_of(reference));
    else
        return NULL;
    return tt_object(chunk);
}
