/*
 * scope_bench_NAME: one measurement of one way to drop a scope of objects together, in a process of its own.
 *
 * A step drops the oldest of `open` scopes, opens a new one in its place and puts `objects` objects into it, the first
 * and the last byte of each written. scope_peer_*.c defines a scope and includes scope_loop.h, which makes the loops of
 * it, so that every peer pays exactly one call per object; scope_worker.c measures them.
 */
#ifndef SCOPE_WORKER_H
#define SCOPE_WORKER_H

#include "bench_hist.h"

#include <stddef.h>
#include <stdint.h>

enum {
    SCOPE_SIZES = 4096,
    SCOPE_MIN_BYTES = 16,
    SCOPE_MAX_BYTES = 1040,
    SCOPE_MAX_OBJECTS = 1000000,
    SCOPE_MAX_OPEN = 100000
};

typedef struct scope_run {
    const uint16_t *sizes; /* SCOPE_SIZES of them, used over and over */
    size_t next_size;
    size_t objects;
    size_t open;
    size_t slot; /* of the oldest scope */
} scope_run;

/* A peer as scope_loop.h makes it. */
typedef struct scope_peer {
    const char *name;
    void (*version)(char *out, size_t capacity); /* asked of the library that is linked */
    void (*start)(const scope_run *run);
    void (*steps)(scope_run *run, size_t count);
    void (*steps_timed)(scope_run *run, size_t count, bench_hist *hist);
    void (*drops_timed)(scope_run *run, size_t count, bench_hist *hist); /* of each step only the drop */
    void (*drop_all)(scope_run *run);
    void (*check)(scope_run *run, size_t count); /* steps in which every object is filled and compared */
    void (*finish)(void);
} scope_peer;

extern const scope_peer scope_peer_here;

_Noreturn void scope_out_of_memory(size_t size);
/* The message that a peer's finish may have. */
_Noreturn void scope_wrong(const char *what);
/* This peer cannot do this measurement at all. */
_Noreturn void scope_unavailable(const char *why);
void scope_fill(void *object, size_t size, uint32_t tag);
void scope_verify(const void *object, size_t size, uint32_t tag);

#endif
