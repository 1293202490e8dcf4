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
/* Modelled in tests/model: orders. */
#ifndef TM_MALLOC_PLAN_H
#define TM_MALLOC_PLAN_H

#include "base/base.h"

#include <tslab/tslab.h>

#ifdef TSLAB_MALLOC_PLAN

/* Where the call's return address stands on the stack: behind the caller's frame pointer. Elsewhere: the address
   itself, and the plan knows no callers of callers. */
#if defined(__x86_64__)
#define TM_SEES_CALLERS 1
#define TM_CALLED_AT() __builtin_frame_address(0)
TS_ALWAYS_INLINE uint64_t tm_plan_caller(const void *called_at) { return ((const uintptr_t *)called_at)[1]; }
#else
#define TM_CALLED_AT() __builtin_return_address(0)
TS_ALWAYS_INLINE uint64_t tm_plan_caller(const void *called_at) { return (uintptr_t)called_at; }
#endif

typedef struct tm_plan_entry {
    _Atomic uint64_t key; /* 0: free; TM_PLAN_CLAIMED: a thread writes it (no lock, as a fork could leave it held) */
    uint16_t up, saved;   /* as in a frames_step (tools/common/frames.h); up 0: no callers are looked at */
    uint16_t node;
    uint8_t epoch;
} tm_plan_entry;
#define TM_PLAN_SLOTS 4096u
#define TM_PLAN_CLAIMED 1u /* the address of no call */
extern TS_HIDDEN tm_plan_entry tm_plan_table[TM_PLAN_SLOTS];

TS_ALWAYS_INLINE uint32_t tm_plan_slot(uint64_t key) { return (uint32_t)(key * 0x9e3779b97f4a7c15u >> 40); }

TS_ALWAYS_INLINE const tm_plan_entry *tm_plan_find(uint64_t key) {
    for (uint32_t at = tm_plan_slot(key);; at++) {
        const tm_plan_entry *e = &tm_plan_table[at % TM_PLAN_SLOTS];
        uint64_t there = ts_load_acquire(&e->key); /* partner: add, in plan.c */
        if (there == key) return e;
        if (there == 0) return NULL;
    }
}

/* An object of a call whose address has that entry; NULL: the process's epoch has to. That may be as the program has
   closed the plan's, or the thread can have no heap; then errno says so, also if the call succeeds by the other. */
void *tm_plan_malloc(const tm_plan_entry *e, size_t size, const void *called_at);
void *tm_plan_alloc(const tm_plan_entry *e, size_t alignment, size_t size, bool zero, const void *called_at);

/* In a function that allocates: returns the object, if the plan has an epoch for it. alignment: a power of two. */
#define TM_PLANNED(alignment, size, zero)                                                                  \
    do {                                                                                                   \
        const tm_plan_entry *entry_ = tm_plan_find(tm_plan_caller(TM_CALLED_AT()));                        \
        void *p_ = NULL;                                                                                   \
        if (TS_UNLIKELY(entry_ != NULL))                                                                   \
            p_ = (alignment) > 16 || (zero) ? tm_plan_alloc(entry_, alignment, size, zero, TM_CALLED_AT()) \
                                            : tm_plan_malloc(entry_, size, TM_CALLED_AT());                \
        if (TS_UNLIKELY(p_ != NULL)) return p_;                                                            \
    } while (0)

/* At load, once there is a target. */
void tm_plan_start(void);
/* After a dlopen: libraries that came with it have their sites now. open: libc's. */
void tm_plan_follow(void *(*open)(const char *file, int mode));
#define TM_HAS_PLAN true

#else

#define TM_PLANNED(alignment, size, zero) ((void)0)
#define TM_HAS_PLAN false
TS_ALWAYS_INLINE void tm_plan_start(void) {}
TS_ALWAYS_INLINE void tm_plan_follow(void *(*open)(const char *file, int mode)) { (void)open; }

#endif

#endif
