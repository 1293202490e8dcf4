/*
 * Call stacks as numbers of nodes in the shared table. The table is open addressing by caller and address; a node is
 * claimed by its state, and has its fields before it is ready. A thread remembers the numbers of its last stacks by a
 * hash of their frames, so most stacks cost the walk and one comparison.
 */
#define _GNU_SOURCE
#include "record/inside.h"

#include <sys/mman.h>

#ifdef RECORD_LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#else
#include <unwind.h>
#endif

enum { CACHE = 8192, TRIES = 64, SPINS = 1000 };

struct stack_cache {
    struct {
        uint64_t hash;
        uint32_t stack;
    } at[CACHE];
};

#ifdef RECORD_LIBUNWIND

static int walk(void **frames) { return unw_backtrace(frames, RECORD_FRAMES); }

#else

typedef struct taken {
    void **frames;
    int count;
} taken;

static _Unwind_Reason_Code take(struct _Unwind_Context *context, void *arg) {
    taken *t = arg;
    void *const address = (void *)_Unwind_GetIP(context);
    if (!address || t->count == RECORD_FRAMES) return _URC_END_OF_STACK; /* what arm has, too */
    t->frames[t->count++] = address;
    return _URC_NO_REASON;
}

static int walk(void **frames) {
    taken t = {frames, 0};
    (void)_Unwind_Backtrace(take, &t);
    return t.count;
}

#endif

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

/* Whether the node is ready. One whose maker was killed never is. */
static bool is_ready(record_node *n) {
    for (unsigned i = 0; i < SPINS; i++)
        if (atomic_load_explicit(&n->state, memory_order_acquire) == NODE_READY) return true;
    return false;
}

/* Its number; 0: the table is full there. Two threads may make two nodes of one: each is right. */
static uint32_t node_of(uint32_t caller, uint64_t address) {
    record_shared *m = record_memory;
    size_t at = (size_t)(mix(caller * 0xd6e8feb86659fd93u, address) >> 8);
    for (unsigned i = 0; i < TRIES; i++) {
        record_node *n = &m->node[(at + i) % RECORD_NODES];
        uint32_t state = atomic_load_explicit(&n->state, memory_order_acquire);
        if (state == NODE_FREE && atomic_compare_exchange_strong(&n->state, &state, NODE_CLAIMED)) {
            n->caller = caller;
            n->address = address;
            atomic_store_explicit(&n->state, NODE_READY, memory_order_release);
            if (caller) record_check_modules(address);
            return (uint32_t)((at + i) % RECORD_NODES) + 1;
        }
        if (is_ready(n) && n->caller == caller && n->address == address) return (uint32_t)((at + i) % RECORD_NODES) + 1;
    }
    atomic_fetch_add_explicit(&m->lost_stacks, 1, memory_order_relaxed);
    return 0;
}

static uint32_t enter_stack(void *const *frames, int count) {
    uint32_t stack = node_of(0, record_image);
    for (int i = count; stack && i-- > 0;) stack = node_of(stack, (uintptr_t)frames[i]);
    return stack;
}

static bool is_own(const void *frame) {
    return (uintptr_t)frame - record_own_start < record_own_end - record_own_start;
}

uint32_t record_stack(void) {
    void *frames[RECORD_FRAMES];
    int count = walk(frames), first = 0;
    uint64_t hash = record_image;
    while (first < count && is_own(frames[first])) first++;
    if (first == count) return 0;
    if (!record_self.cache) {
        void *p = mmap(NULL, sizeof *record_self.cache, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return enter_stack(frames + first, count - first);
        record_self.cache = p;
    }
    for (int i = first; i < count; i++) hash = mix(hash, (uintptr_t)frames[i]);
    if (record_self.cache->at[hash % CACHE].hash != hash) {
        record_self.cache->at[hash % CACHE].stack = enter_stack(frames + first, count - first);
        record_self.cache->at[hash % CACHE].hash = hash;
    }
    return record_self.cache->at[hash % CACHE].stack;
}
