#define _GNU_SOURCE
#include "malloc/spare.h"

#include "base/base.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GRANULE 16u
#define FIRST_BYTES ((size_t)64 << 10) /* in the library's own memory */
#define RANGE_BYTES ((size_t)64 << 20) /* reserved when that is used up */
#define CLASSES 22u                    /* 32 bytes to 64 MiB */
#define LIVE 0x6c697665u               /* marks; a place that is none has one by chance only */
#define FREE 0x66726565u

typedef struct mark {
    _Atomic uint32_t state; /* LIVE or FREE, mixed with the place */
    _Atomic uint32_t cls;
    _Atomic uint32_t block; /* its first granule */
    _Atomic uint32_t next;  /* of a block's first granule: the next free block, 0: none */
} mark;
_Static_assert(sizeof(mark) == GRANULE, "one granule");

/* Granules are counted over both ranges; granule 0 is not used. */
static TS_ALIGNED(4096) char first[FIRST_BYTES];
static _Atomic(char *) range; /* constant once it is not NULL */
static _Atomic uint64_t first_used = GRANULE, range_used;
static _Atomic uint64_t heads[CLASSES]; /* turn << 32 | granule */

#define FIRST_GRANULES ((uint32_t)(FIRST_BYTES / GRANULE))

static mark *at(uint32_t granule) {
    char *base = granule < FIRST_GRANULES ? first : ts_load_acquire(&range) - FIRST_BYTES;
    return (mark *)(void *)(base + (size_t)granule * GRANULE);
}

/* The granule of an address; 0: it is not here. */
static uint32_t granule_of(const void *p) {
    uintptr_t in_first = (uintptr_t)p - (uintptr_t)first;
    if (in_first < FIRST_BYTES) return (uint32_t)(in_first / GRANULE);
    const char *base = ts_load_acquire(&range);
    uintptr_t in_range = (uintptr_t)p - (uintptr_t)base;
    return base && in_range < RANGE_BYTES ? (uint32_t)((FIRST_BYTES + in_range) / GRANULE) : 0;
}

static size_t class_bytes(uint32_t cls) { return (size_t)32 << cls; }

static uint32_t pop(uint32_t cls) {
    uint64_t head = ts_load_acquire(&heads[cls]); /* acquire: partner of push, `next` is there */
    while ((uint32_t)head != 0) {
        uint64_t after = (head & ~(uint64_t)UINT32_MAX) | ts_load_relaxed(&at((uint32_t)head)->next);
        if (atomic_compare_exchange_weak_explicit(&heads[cls], &head, after, memory_order_acquire,
                                                  memory_order_acquire))
            return (uint32_t)head;
    }
    return 0;
}

static void push(uint32_t cls, uint32_t granule) {
    uint64_t head = ts_load_relaxed(&heads[cls]), after;
    do {
        ts_store_relaxed(&at(granule)->next, (uint32_t)head);
        after = ((head >> 32) + 1) << 32 | granule;
        /* release: partner of pop; and what the object's last user wrote comes before its next use */
    } while (
        !atomic_compare_exchange_weak_explicit(&heads[cls], &head, after, memory_order_release, memory_order_relaxed));
}

static bool reserve(void) {
    if (ts_load_acquire(&range)) return true;
#if defined(SYS_mmap2)
    void *p = (void *)syscall(SYS_mmap2, NULL, RANGE_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
#elif !defined(__s390__)
    void *p = (void *)syscall(SYS_mmap, NULL, RANGE_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
#else
    void *p = mmap(NULL, RANGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
#endif
    if (p == MAP_FAILED) return false;
    char *none = NULL;
    if (!atomic_compare_exchange_strong_explicit(&range, &none, p, memory_order_acq_rel, memory_order_acquire))
        (void)syscall(SYS_munmap, p, RANGE_BYTES);
    return true;
}

/* From what was never used; 0: there is none. */
static uint32_t cut(_Atomic uint64_t *used, size_t limit, size_t bytes) {
    uint64_t from = ts_load_relaxed(used);
    do {
        if (bytes > limit - from) return 0;
    } while (
        !atomic_compare_exchange_weak_explicit(used, &from, from + bytes, memory_order_relaxed, memory_order_relaxed));
    return (uint32_t)(from / GRANULE) + 1;
}

static uint32_t take(uint32_t cls) {
    uint32_t granule = pop(cls);
    if (granule) return granule;
    granule = cut(&first_used, FIRST_BYTES, class_bytes(cls));
    if (granule) return granule - 1;
    if (!reserve()) return 0;
    granule = cut(&range_used, RANGE_BYTES, class_bytes(cls));
    return granule ? granule - 1 + FIRST_GRANULES : 0;
}

void *tm_spare_alloc(size_t alignment, size_t size) {
    size_t more = alignment <= GRANULE ? GRANULE : alignment; /* the mark, or up to the alignment behind it */
    uint32_t cls = 0;
    if (size > RANGE_BYTES || more > RANGE_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    while (cls < CLASSES && class_bytes(cls) < size + more) cls++;
    uint32_t block = cls < CLASSES ? take(cls) : 0;
    if (!block) {
        errno = ENOMEM;
        return NULL;
    }
    uintptr_t start = (uintptr_t)at(block) + GRANULE;
    char *p = (char *)at(block) + GRANULE + (0 - start) % more;
    mark *m = (mark *)(void *)(p - GRANULE);
    ts_store_relaxed(&m->cls, cls);
    ts_store_relaxed(&m->block, block);
    /* release: a thread that finds it live reads the two above */
    ts_store_release(&m->state, LIVE ^ granule_of(p));
    return p;
}

bool tm_spare_owns(const void *p) { return granule_of(p) != 0; }

/* The mark of a live object; NULL: it is none. *granule: of the object. */
static mark *live(const void *p, uint32_t *granule) {
    *granule = granule_of(p);
    if (*granule < 2 || (uintptr_t)p % GRANULE != 0) return NULL;
    mark *m = at(*granule - 1);
    return ts_load_acquire(&m->state) == (LIVE ^ *granule) ? m : NULL;
}

bool tm_spare_free(void *p) {
    uint32_t granule;
    mark *m = live(p, &granule);
    if (!m) return false;
    uint32_t state = LIVE ^ granule, cls = ts_load_relaxed(&m->cls), block = ts_load_relaxed(&m->block);
    if (!atomic_compare_exchange_strong_explicit(&m->state, &state, FREE ^ granule, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    push(cls, block);
    return true;
}

size_t tm_spare_usable(const void *p) {
    uint32_t granule;
    const mark *m = live(p, &granule);
    if (!m) return 0;
    const char *end = (const char *)at(ts_load_relaxed(&m->block)) + class_bytes(ts_load_relaxed(&m->cls));
    return (size_t)(end - (const char *)p);
}
