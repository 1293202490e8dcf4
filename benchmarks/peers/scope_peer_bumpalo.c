/*
 * bumpalo, a Bump per scope, behind the C calls of rust/bumpalo. In a Rust program its allocation would be
 * inlined. SCOPE_BUMPALO_RESET: the arenas are kept, and reset when their scope is dropped.
 */
#include "scope_worker.h"

#include <stdbool.h>
#include <stdio.h>

#if defined(SCOPE_BUMPALO_RESET)
#define SCOPE_NAME "bumpalo_reset"
#else
#define SCOPE_NAME "bumpalo"
#endif
#define SCOPE_ALIGN 16

typedef struct scope_ref {
    _Alignas(16) unsigned char place[64]; /* of the Bump */
    bool made;
} scope_ref;

/* The library's own size check: false if a Bump does not fit in so many bytes. */
bool scope_bumpalo_fits(size_t bytes, size_t alignment);
const char *scope_bumpalo_version(void);
void scope_bumpalo_open(void *place);
/* NULL: no memory. */
void *scope_bumpalo_alloc(void *place, size_t size);
void scope_bumpalo_reset(void *place);
void scope_bumpalo_drop(void *place);

static void scope_version(char *out, size_t capacity) { snprintf(out, capacity, "%s", scope_bumpalo_version()); }
static void scope_start(const scope_run *run) {
    (void)run;
    if (!scope_bumpalo_fits(sizeof(((scope_ref *)NULL)->place), 16)) scope_wrong("a Bump is larger than its place");
}
static void scope_finish(void) {}

static inline void scope_open(scope_ref *slot) {
#if defined(SCOPE_BUMPALO_RESET)
    if (__builtin_expect(slot->made, 1)) return;
    slot->made = true;
#endif
    scope_bumpalo_open(slot->place);
}
static inline void *scope_alloc(scope_ref *slot, size_t size) { return scope_bumpalo_alloc(slot->place, size); }
static inline void scope_leave(scope_ref *slot) { (void)slot; }
static inline void scope_drop(scope_ref *slot) {
#if defined(SCOPE_BUMPALO_RESET)
    scope_bumpalo_reset(slot->place);
#else
    scope_bumpalo_drop(slot->place);
#endif
}

#include "scope_loop.h"
