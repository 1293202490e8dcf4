/*
 * A plan: objects of some call sites get epochs of their own in the process's malloc. `tslab run --plan` writes it into
 * TSLAB_PLAN (docs/advise.md), from what `tslab advise` has found. It preloads libtslab-malloc-plan, which is
 * libtslab-malloc with TSLAB_MALLOC_PLAN: there each allocation first looks its caller up here. Elsewhere there is
 * nothing of this.
 *
 * A site is a chain of return addresses, the call of malloc first. The plan is a tree of them: a node's children are
 * the calls of its function. The return address of a node's caller stands on the stack `up` bytes above the node's own,
 * or above the frame pointer. The tool has found that out by the unwind tables of the file.
 *
 * Invariants
 *  1. A plan decides where an object lies, and nothing else: each is freed, resized and checked as ever. So a wrong
 *     answer costs memory, and breaks nothing.
 *  2. A node has an address only while its module is loaded in the build that the plan is of, by its build id. Such a
 *     module is never unloaded any more. So `up` is that of the code at the address, and what is read there lies on the
 *     stack.
 *  3. An entry of the table is written once, its key last. Threads read it without a lock.
 *  4. A domain that captures comes first, and the hard mode has no plan.
 */
#ifndef TS_MALLOC_PLAN_H
#define TS_MALLOC_PLAN_H

#include "base/base.h"

#include <tslab/tslab.h>

#ifdef TSLAB_MALLOC_PLAN

/* Where the call's return address stands on the stack: behind the caller's frame pointer. Elsewhere: the address
   itself, and the plan knows no callers of callers. */
#if defined(__x86_64__)
#define TS_SEES_CALLERS 1
#define TS_CALLED_AT() __builtin_frame_address(0)
TS_ALWAYS_INLINE uint64_t ts_plan_caller(const void *called_at) { return ((const uintptr_t *)called_at)[1]; }
#else
#define TS_CALLED_AT() __builtin_return_address(0)
TS_ALWAYS_INLINE uint64_t ts_plan_caller(const void *called_at) { return (uintptr_t)called_at; }
#endif

typedef struct ts_plan_entry {
    _Atomic uint64_t key; /* 0: not written */
    uint16_t up, saved;   /* as in a frames_step (tools/common/frames.h); up 0: no callers are looked at */
    uint16_t node;
    uint8_t epoch;
    _Atomic bool claimed; /* by the thread that writes it. No lock: a child of fork would wait for it for ever */
} ts_plan_entry;
#define TS_PLAN_SLOTS 4096u
extern TS_HIDDEN ts_plan_entry ts_plan_table[TS_PLAN_SLOTS];

TS_ALWAYS_INLINE uint32_t ts_plan_slot(uint64_t key) { return (uint32_t)(key * 0x9e3779b97f4a7c15u >> 40); }

TS_ALWAYS_INLINE const ts_plan_entry *ts_plan_find(uint64_t key) {
    for (uint32_t at = ts_plan_slot(key);; at++) {
        const ts_plan_entry *e = &ts_plan_table[at % TS_PLAN_SLOTS];
        uint64_t there = ts_load_acquire(&e->key); /* partner: add, in plan.c */
        if (there == key) return e;
        if (there == 0) return NULL;
    }
}

/* An object of a call whose address has that entry; NULL: the process's epoch has to. That may be as the program has
   closed the plan's, or the thread can have no heap; then errno says so, also if the call succeeds by the other. */
void *ts_plan_malloc(const ts_plan_entry *e, size_t size, const void *called_at);
void *ts_plan_alloc(const ts_plan_entry *e, size_t alignment, size_t size, bool zero, const void *called_at);

/* In a function that allocates: returns the object, if the plan has an epoch for it. alignment: a power of two. */
#define TS_PLANNED(alignment, size, zero)                                                                  \
    do {                                                                                                   \
        const ts_plan_entry *entry_ = ts_plan_find(ts_plan_caller(TS_CALLED_AT()));                        \
        void *p_ = NULL;                                                                                   \
        if (TS_UNLIKELY(entry_ != NULL))                                                                   \
            p_ = (alignment) > 16 || (zero) ? ts_plan_alloc(entry_, alignment, size, zero, TS_CALLED_AT()) \
                                            : ts_plan_malloc(entry_, size, TS_CALLED_AT());                \
        if (TS_UNLIKELY(p_ != NULL)) return p_;                                                            \
    } while (0)

/* At load, once there is a target. */
void ts_plan_start(void);
/* After a dlopen: libraries that came with it have their sites now. open: libc's. */
void ts_plan_follow(void *(*open)(const char *file, int mode));
#define TS_HAS_PLAN true

#else

#define TS_PLANNED(alignment, size, zero) ((void)0)
#define TS_HAS_PLAN false
TS_ALWAYS_INLINE void ts_plan_start(void) {}
TS_ALWAYS_INLINE void ts_plan_follow(void *(*open)(const char *file, int mode)) { (void)open; }

#endif

#endif
