/*
 * The loops of a scope peer. Included last by scope_peer_NAME.c, which defines before
 *
 *     SCOPE_NAME                          the peer's name
 *     SCOPE_ALIGN                         what its objects are aligned to
 *     scope_ref                           what the program keeps per open scope
 *     scope_version, scope_start, scope_finish
 *     scope_open, scope_alloc, scope_leave, scope_drop    static inline, on a scope_ref *
 *     SCOPE_KNOWS_DEAD, scope_gone        if it can tell whether an object of a dropped scope is dead
 *     SCOPE_ONE_OBJECT                    if all objects are the same memory, which then cannot be checked
 */
#ifndef SCOPE_LOOP_H
#define SCOPE_LOOP_H

#include "bench_clock.h"
#include "bench_util.h"
#include "scope_worker.h"

#include <stdbool.h>

static struct {
    scope_ref *slots;
    bool *full;
} scopes;

static void loop_start(const scope_run *run) {
    scopes.slots = bench_map(run->open * sizeof *scopes.slots);
    scopes.full = bench_map(run->open * sizeof *scopes.full);
    scope_start(run);
}

BENCH_INLINE void loop_step(scope_run *run) {
    scope_ref *slot = &scopes.slots[run->slot];
    const uint16_t *sizes = run->sizes;
    size_t next = run->next_size;
    if (__builtin_expect(scopes.full[run->slot], 1)) scope_drop(slot);
    scope_open(slot);
    for (size_t i = run->objects; i > 0; i--) {
        size_t size = sizes[next++ % SCOPE_SIZES];
        volatile unsigned char *object = scope_alloc(slot, size);
        if (__builtin_expect(object == NULL, 0)) scope_out_of_memory(size);
        object[0] = 1;
        object[size - 1] = 1;
    }
    scope_leave(slot);
    scopes.full[run->slot] = true;
    run->next_size = next % SCOPE_SIZES;
    if (++run->slot == run->open) run->slot = 0;
}

static void loop_steps(scope_run *run, size_t count) {
    for (; count > 0; count--) loop_step(run);
}

static void loop_steps_timed(scope_run *run, size_t count, bench_hist *hist) {
    for (; count > 0; count--) {
        uint64_t begin = bench_tick_begin();
        loop_step(run);
        uint64_t end = bench_tick_end();
        bench_hist_add(hist, end - begin);
    }
}

static void loop_drops_timed(scope_run *run, size_t count, bench_hist *hist) {
    for (; count > 0; count--) {
        if (scopes.full[run->slot]) {
            uint64_t begin = bench_tick_begin();
            scope_drop(&scopes.slots[run->slot]);
            uint64_t end = bench_tick_end();
            bench_hist_add(hist, end - begin);
            scopes.full[run->slot] = false;
        }
        loop_step(run);
    }
}

static void loop_drop_all(scope_run *run) {
    for (size_t i = 0; i < run->open; i++) {
        if (scopes.full[i]) scope_drop(&scopes.slots[i]);
        scopes.full[i] = false;
    }
}

static void loop_check(scope_run *run, size_t count) {
    unsigned char **objects = bench_map(run->open * run->objects * sizeof *objects);
    uint16_t *sizes = bench_map(run->open * run->objects * sizeof *sizes);
    for (size_t step = 0; step < count + run->open; step++) {
        size_t s = run->slot, first = s * run->objects;
        scope_ref *slot = &scopes.slots[s];
        if (scopes.full[s]) {
#if !defined(SCOPE_ONE_OBJECT)
            for (size_t i = 0; i < run->objects; i++)
                scope_verify(objects[first + i], sizes[first + i], (uint32_t)(first + i));
#endif
            scope_drop(slot);
            scopes.full[s] = false;
#if defined(SCOPE_KNOWS_DEAD)
            for (size_t i = 0; i < run->objects; i++)
                if (!scope_gone(objects[first + i])) scope_wrong("an object is live after its scope was dropped");
#endif
        }
        run->slot = (s + 1) % run->open;
        if (step >= count) continue; /* the last round only drops */
        scope_open(slot);
        for (size_t i = 0; i < run->objects; i++) {
            size_t size = run->sizes[run->next_size++ % SCOPE_SIZES];
            void *object = scope_alloc(slot, size);
            if (object == NULL) scope_out_of_memory(size);
            if ((uintptr_t)object % SCOPE_ALIGN != 0) scope_wrong("an object is not aligned as it should be");
            scope_fill(object, size, (uint32_t)(first + i));
            objects[first + i] = object;
            sizes[first + i] = (uint16_t)size;
        }
        scope_leave(slot);
        scopes.full[s] = true;
    }
    bench_unmap(objects, run->open * run->objects * sizeof *objects);
    bench_unmap(sizes, run->open * run->objects * sizeof *sizes);
}

const scope_peer scope_peer_here = {
    .name = SCOPE_NAME,
    .version = scope_version,
    .start = loop_start,
    .steps = loop_steps,
    .steps_timed = loop_steps_timed,
    .drops_timed = loop_drops_timed,
    .drop_all = loop_drop_all,
    .check = loop_check,
    .finish = scope_finish,
};

#endif
