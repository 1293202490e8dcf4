/*
 * No allocator: every object is the same static buffer. The cost of the loop itself, the floor of scope_bench.
 */
#include "scope_worker.h"

#include <stdio.h>

#define SCOPE_NAME "none"
#define SCOPE_ALIGN 16
#define SCOPE_ONE_OBJECT 1

typedef struct scope_ref {
    char unused;
} scope_ref;

static _Alignas(64) unsigned char buffer[SCOPE_MAX_BYTES];

static void scope_version(char *out, size_t capacity) { snprintf(out, capacity, "-"); }
static void scope_start(const scope_run *run) { (void)run; }
static void scope_finish(void) {}

static inline void scope_open(scope_ref *slot) { (void)slot; }
static inline void *scope_alloc(scope_ref *slot, size_t size) {
    void *object = buffer;
    (void)slot;
    __asm__ volatile("" : "+r"(object), "+r"(size)::"memory");
    return object;
}
static inline void scope_leave(scope_ref *slot) { (void)slot; }
static inline void scope_drop(scope_ref *slot) { (void)slot; }

#include "scope_loop.h"
