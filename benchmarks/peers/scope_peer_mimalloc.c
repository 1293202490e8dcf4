/*
 * mi_heap_new and mi_heap_destroy. Built twice: against the shared library of the system, and (SCOPE_MIMALLOC3) against
 * version 3, which the crate libmimalloc-sys brings along. Declared here, since the library's headers need not be
 * installed.
 */
#include "scope_worker.h"

#include <stdio.h>

#if defined(SCOPE_MIMALLOC3)
#define SCOPE_NAME "mimalloc3"
#else
#define SCOPE_NAME "mimalloc"
#endif
#define SCOPE_ALIGN 16

int mi_version(void);
typedef struct mi_heap_s mi_heap_t;
mi_heap_t *mi_heap_new(void);
void *mi_heap_malloc(mi_heap_t *heap, size_t size);
void mi_heap_destroy(mi_heap_t *heap);

typedef struct scope_ref {
    mi_heap_t *heap;
} scope_ref;

/* Up to 2.2 the number has three digits, since then five. */
static void scope_version(char *out, size_t capacity) {
    int version = mi_version();
    if (version < 1000)
        snprintf(out, capacity, "%d.%d.%d", version / 100, version / 10 % 10, version % 10);
    else
        snprintf(out, capacity, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}
static void scope_start(const scope_run *run) { (void)run; }
static void scope_finish(void) {}

static inline void scope_open(scope_ref *slot) {
    slot->heap = mi_heap_new();
    if (__builtin_expect(slot->heap == NULL, 0)) scope_wrong("mi_heap_new failed");
}
static inline void *scope_alloc(scope_ref *slot, size_t size) { return mi_heap_malloc(slot->heap, size); }
static inline void scope_leave(scope_ref *slot) { (void)slot; }
static inline void scope_drop(scope_ref *slot) { mi_heap_destroy(slot->heap); }

#include "scope_loop.h"
