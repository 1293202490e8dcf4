/*
 * libtslab-record: a library that is preloaded, and records what the program allocates. What its files share.
 *
 * A hook asks record_begin first. If that says true, it passes the call on to the function that it stands before, tells
 * of it, and ends with record_end. Else it only passes it on. Within a hook the thread's other calls are not recorded:
 * a function of the C library or of another allocator that calls malloc by itself is one allocation.
 */
#ifndef RECORD_INSIDE_H
#define RECORD_INSIDE_H

#include "record/shared.h"

#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

typedef struct stack_cache stack_cache;

typedef struct record_thread {
    bool inside;     /* in a hook, or in the recorder itself */
    bool is_forking; /* between the handlers of fork */
    bool turn_is_on;
    uint8_t ends; /* rounds of destructors that it has seen */
    record_slot *slot;
    uint64_t head; /* that of the slot */
    stack_cache *cache;
    uint64_t turn;
    uint32_t depth; /* of domains */
    char name[RECORD_THREAD_NAME];
} record_thread;

extern _Thread_local record_thread record_self __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern record_shared *record_memory __attribute__((visibility("hidden")));
/* 0: not attached yet; 1: being attached; 2: records; 3: does not. */
enum { RECORD_NEW, RECORD_ATTACHING, RECORD_ON, RECORD_OFF };
extern _Atomic int record_state __attribute__((visibility("hidden")));
extern uint32_t record_process_number, record_image __attribute__((visibility("hidden")));
extern uintptr_t record_own_start, record_own_end __attribute__((visibility("hidden")));

#pragma GCC visibility push(hidden)

/* thread.c */
bool record_begin_slow(void);
void record_end(void);
uint64_t record_now(void);
void record_put(const raw_event *e);
/* An event, and the text that belongs to it. */
void record_put_text(raw_event *e, const char *text, size_t bytes);
void record_threads_init(void);
void record_threads_pause(void);
void record_threads_go_on(void);
/* In a child of fork: it has no slot yet. */
void record_threads_forget(void);
void record_turn(void); /* a turn of this thread begins */

/* process.c */
void record_attach(void);
void record_slot_is_new(void); /* a thread has taken its slot */
void record_check_modules(uintptr_t address);

/* stacks.c */
uint32_t record_stack(void); /* of the hook's caller; 0: none */

/* sample.c: the objects whose births are recorded, if not all are */
bool record_is_sampled(const void *object);
void record_add_sampled(const void *object);
bool record_remove_sampled(const void *object); /* false: it is none */
void record_forget_sampled(void);

/* tell.c: what a hook says */
void record_birth(const void *object, size_t size, size_t align, uint64_t scope, bool has_scope);
void record_death(const void *object);
void record_death_at(const void *object, uint64_t time_ns);
/* Before a resize: whether it is to be told of. Then one of these. */
bool record_leave(const void *object);
void record_arrive(const void *object, size_t size);
void record_scope(uint8_t kind, uint64_t scope, const char *label);

#pragma GCC visibility pop

/* Whether this call is to be recorded. */
static inline bool record_begin(void) {
    if (UNLIKELY(record_self.inside)) return false;
    const int state = atomic_load_explicit(&record_state, memory_order_relaxed);
    if (state == RECORD_OFF) return false;
    return record_begin_slow();
}

/* Whether births are recorded now, by this thread. */
static inline bool record_is_on(void) {
    const record_shared *m = record_memory;
    if (LIKELY(!m || m->sample == SAMPLE_ALL)) return true;
    if (m->sample == SAMPLE_TIME) return atomic_load_explicit(&m->window, memory_order_relaxed) != 0;
    return record_self.turn_is_on;
}

/* Whether this allocation is to be recorded: as record_begin, but nothing while births are not. */
static inline bool record_begin_birth(void) {
    if (!record_is_on() || !record_begin()) return false;
    if (LIKELY(record_is_on())) return true;
    record_end(); /* attached by this call */
    return false;
}
/* This free. */
static inline bool record_begin_death(const void *object) {
    const record_shared *m = record_memory;
    if (!object || (m && m->sample != SAMPLE_ALL && !record_is_sampled(object))) return false;
    return record_begin();
}

#endif
