/*
 * What the files of libtslab-talloc share. A chunk is an object of talloc: a header of 80 bytes, and the object behind
 * it.
 *
 * HOMES. A top-level context and all that is allocated below it have a home: the record from which their memory comes.
 * The first objects of a home lie in an epoch that all homes share, as most contexts stay small. With its 64th object a
 * home gets a domain of its own, which has the name of the context.
 *
 * END IN ONE STEP. A home ends in one step, without a look at its objects, when its root is freed and
 *   1. no object has come to the tree from another home or left it, nor is there a reference to another home or from
 *   one
 *      (mixed is false), and
 *   2. no object but the root has a destructor (careful is 0).
 * Otherwise the tree is walked as talloc walks it. A home lives as long as a chunk names it (live).
 *
 * THREADS. talloc's rule: a tree is used by one thread at a time. An object that leaves its tree keeps its home, so two
 * threads may share a home from then on. The step that sets mixed comes before the object can reach another thread;
 * while mixed is set, what threads count (live, made) is counted by atomic additions, and the list of first objects and
 * careful are not touched any more. Pools are of one thread, as talloc's.
 */
#ifndef TSLAB_TALLOC_CHUNK_H
#define TSLAB_TALLOC_CHUNK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <talloc.h>
#include <tslab/tslab.h>

#undef talloc
#undef talloc_free
#undef talloc_set_destructor
#undef talloc_steal
#undef talloc_move
#undef talloc_memdup
#undef talloc_reference
#undef talloc_realloc
#undef talloc_zero

#define LARGEST 0x10000000u /* sizes from here on are refused, as talloc refuses them */
#define CHARGED 96u         /* what a limit counts beside an object's size: talloc's header */
#define POOL_CHARGED 128u   /* the same of a pool */
#define NAME_OF_TEXT ".name"
#define NAME_OF_REFERENCE ".reference"

enum {
    IS_FREE = 1,
    IN_LOOP = 2, /* is being freed or walked */
    IS_POOL = 4,
    IN_POOL = 8,
    IS_EARLY = 16, /* one of the first of its home: a Link lies before it */
    IS_REFERENCE = 32,
    ALL_FLAGS = 63,
};

typedef struct Chunk Chunk;
typedef struct Home Home;

typedef struct Reference {
    struct Reference *next, *previous; /* of the same target */
    Chunk *target;
    const char *location;
} Reference;

typedef struct Limit {
    size_t most, held;
} Limit;

struct Chunk {
    uint32_t mark; /* a number of this process; the lowest bits are flags */
    uint32_t size;
    Home *home; /* NULL: a top-level context that has allocated nothing */
    Chunk *parent, *child, *next, *previous;
    const char *name;
    int (*destructor)(void *);
    Reference *references;
    Limit *limit;
};
_Static_assert(sizeof(Chunk) % 16 == 0 || sizeof(void *) == 4, "objects are aligned as malloc's are");

typedef struct Link {
    struct Link *next, *previous;
} Link;
_Static_assert(sizeof(Link) % 16 == 0 || sizeof(void *) == 4, "objects are aligned as malloc's are");

struct Home {
    uint64_t mark;           /* HOME_MARK while it lives */
    _Atomic(EpochId) direct; /* where objects are allocated; EPOCH_NONE: home.c decides. Set once */
    _Atomic size_t live;     /* chunks that name it */
    _Atomic uint32_t made;   /* allocated in it so far, up to OWN_DOMAIN_AT */
    atomic_bool mixed;       /* never set back */
    uint32_t careful;        /* destructors, but for the root's */
    Chunk *root;             /* NULL: freed */
    EpochDomain *domain;     /* written by the thread that makes made OWN_DOMAIN_AT */
    uint64_t thread;         /* which made the domain */
    Link *early;             /* the first objects */
    char *pool, *at, *end;   /* of a pool: its block, what is free of it */
    size_t pooled;           /* objects in the block */
};
#define HOME_MARK UINT64_C(0x656d6f6863636174)

#define HIDDEN __attribute__((visibility("hidden")))
#define unlikely(x) __builtin_expect(!!(x), 0)

/* state.c */
extern HIDDEN uint32_t tt_mark;
extern HIDDEN SlabAllocator *tt_allocator;
extern HIDDEN EpochId tt_shared; /* the epoch of small homes, and of top-level contexts */
extern HIDDEN Chunk *tt_null;    /* talloc's null_context, or NULL */
extern HIDDEN int tt_fill;       /* TALLOC_FREE_FILL, or -1 */
HIDDEN bool tt_start(void);
HIDDEN void tt_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
HIDDEN void tt_abort(const char *reason);
HIDDEN Chunk *tt_not_a_chunk(const Chunk *);

/* home.c */
HIDDEN Chunk *tt_get_memory_slowly(Home *, size_t size, uint32_t *flags); /* of a small home, of a pool, of none */
HIDDEN void tt_forget(Home *);                                            /* no chunk names it any more */
HIDDEN Chunk *tt_get_pool(size_t size, size_t bytes);
HIDDEN Chunk *tt_resize_memory(Chunk *, size_t size, bool stay); /* stay: in its pool, or not at all */
HIDDEN void tt_release_memory(Chunk *, const char *location);
HIDDEN Home *tt_make_home(Chunk *);
HIDDEN void tt_end_home(Chunk *root, const char *location);
HIDDEN void tt_label(const Chunk *);
HIDDEN void tt_note_parents(Chunk *, Chunk *new_parent);

/* limit.c */
extern HIDDEN atomic_uint tt_limits;                /* how many there are */
HIDDEN bool tt_charge(Chunk *parent, size_t bytes); /* false: over a limit */
HIDDEN void tt_refund(Chunk *parent, size_t bytes);
HIDDEN void tt_leave_limits(Chunk *);
HIDDEN size_t tt_charge_of(const Chunk *); /* with all below it */

/* tree.c */
HIDDEN Chunk *tt_new(const void *context, size_t size, const char *name);
HIDDEN int tt_free(Chunk *, const char *location);
HIDDEN void tt_steal(Chunk *new_parent, Chunk *);

static inline void *tt_object(const Chunk *chunk) { return (void *)(uintptr_t)(chunk + 1); }

/* The chunk of a pointer that the program gives; NULL after the abort function has been called. */
static inline Chunk *tt_chunk(const void *pointer) {
    Chunk *chunk = (Chunk *)(uintptr_t)pointer - 1;
    bool good = (chunk->mark & ~(uint32_t)(ALL_FLAGS & ~IS_FREE)) == tt_mark;
    return good && (!chunk->home || chunk->home->mark == HOME_MARK) ? chunk : tt_not_a_chunk(chunk);
}

/* What it takes in a pool. */
static inline size_t tt_extent(size_t size) { return (sizeof(Chunk) + size + 15) & ~(size_t)15; }

static inline char *tt_start_of_pool(const Home *home) {
    return home->pool + tt_extent(((const Chunk *)(const void *)home->pool)->size);
}

/* The last in the block gives its place back; the only one gives all back. */
static inline void tt_leave_pool(Home *home, const Chunk *chunk) {
    if (home->at == (const char *)chunk + tt_extent(chunk->size)) home->at = (char *)(uintptr_t)chunk;
    if (--home->pooled == 0) home->at = tt_start_of_pool(home);
}

static inline size_t tt_own_charge(const Chunk *chunk) { return chunk->mark & IN_POOL ? 0 : chunk->size + CHARGED; }

/* Counts in a home, which another thread may do, too, once it is mixed. Returns what was there before. */
static inline size_t tt_count(Home *home, _Atomic size_t *what, size_t by) {
    if (unlikely(atomic_load_explicit(&home->mixed, memory_order_relaxed)))
        return atomic_fetch_add_explicit(what, by, memory_order_acq_rel); /* partner: the other threads' additions */
    size_t before = atomic_load_explicit(what, memory_order_relaxed);     /* of one thread */
    atomic_store_explicit(what, before + by, memory_order_relaxed);
    return before;
}

static inline bool tt_is_mixed(const Home *home) {
    return atomic_load_explicit(&home->mixed, memory_order_relaxed); /* set before another thread can have the object */
}

static inline void tt_mix(Home *home) {
    if (home) atomic_store_explicit(&home->mixed, true, memory_order_relaxed); /* as above */
}

/* Whether all of a home can go in one step with the chunk. */
static inline bool tt_ends_at_once(const Chunk *chunk) {
    const Home *home = chunk->home;
    return home && home->root == chunk && !home->careful && !tt_is_mixed(home) && tt_fill < 0;
}

/* A destructor comes (1) or goes (-1). */
static inline void tt_be_careful(Chunk *chunk, int by) {
    Home *home = chunk->home;
    if (home && !tt_is_mixed(home) && home->root != chunk) home->careful += (uint32_t)by;
}

#endif
