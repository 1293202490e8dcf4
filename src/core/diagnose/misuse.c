#include "diagnose/diagnose.h"
#include "epoch/epoch.h"

#include "base/base.h"
#include "os/os.h"

#include <stdlib.h>

_Atomic int ts_misuse_default;
_Atomic(const ts_misuse_words *) ts_misuse_finder;

int ts_misuse_mode(uintptr_t token) {
    const ts_allocator *a = ts_allocator_find(token);
    if (!a && ts_table_was_last(&ts_allocators, token))
        a = ts_table_at(&ts_allocators, ts_table_index(&ts_allocators, token));
    return a ? ts_load_relaxed(&a->on_misuse) : ts_load_relaxed(&ts_misuse_default);
}

/* false: nothing is told. */
static bool begin(ts_text *line, int mode, const char *call) {
    if (TS_LIKELY(mode == SLAB_MISUSE_IGNORE)) return false;
    line->used = 0;
    ts_text_add(line, "tslab: %s: ", call);
    return true;
}

static void end(ts_text *line, int mode) {
    ts_text_write(line);
    if (mode == SLAB_MISUSE_ABORT) abort();
}

static void add_epoch(ts_text *line, const char *before, EpochId epoch) {
    ts_text_put(line, before);
    ts_epoch_describe(line, epoch);
    ts_text_put(line, ")");
}

/* What is wrong with it. Before there is a region nothing is known of any pointer or handle. */
static void diagnose(ts_text *line, uintptr_t token, const void *p, const SlabHandle *handle) {
    const ts_misuse_words *find = ts_load_acquire(&ts_misuse_finder);
    if (!find)
        ts_text_put(line, handle ? "not a handle" : "not memory of temporal-slab");
    else if (handle)
        find->handle(line, token, *handle);
    else
        find->pointer(line, token, p);
}

void ts_misuse_put_kind(ts_text *line, uint32_t kind, uint64_t bytes) {
    const char *name = kind == TS_COUNT_SCOPE ? "scope" : "span";
    if (kind < TS_CLASSES)
        ts_text_add(line, "class %" PRIu64, (uint64_t)ts_class_bytes[kind]);
    else if (bytes != 0)
        ts_text_add(line, "%s of %" PRIu64, name, bytes);
    else
        ts_text_put(line, name);
}

static void report(uintptr_t token, int mode, const char *call, const void *p, const SlabHandle *handle,
                   const char *why) {
    ts_text line;
    if (!begin(&line, mode, call)) return;
    if (!why && token != TS_ANY_ALLOCATOR && !ts_allocator_find(token)) {
        bool past = ts_table_is_past(&ts_allocators, token);
        ts_text_add(&line, "allocator %#" PRIx64 ": %s; ", (uint64_t)token,
                    past ? "freed already" : "not an allocator");
    }
    ts_text_add(&line, "%s %#" PRIx64 ": ", handle ? "handle" : "pointer", handle ? *handle : (uint64_t)(uintptr_t)p);
    if (why)
        ts_text_put(&line, why);
    else
        diagnose(&line, token, p, handle);
    ts_text_write(&line);
    const ts_misuse_words *find = ts_load_acquire(&ts_misuse_finder);
    if (find && p && !why) find->origin(p);
    if (mode == SLAB_MISUSE_ABORT) abort();
}

void ts_misuse(uintptr_t token, const char *call, const void *p, const SlabHandle *handle, const char *why) {
    report(token, ts_misuse_mode(token), call, p, handle, why);
}

void ts_misuse_mention(uintptr_t token, const char *call, const void *p, const char *why) {
    int mode = ts_misuse_mode(token);
    report(token, mode == SLAB_MISUSE_ABORT ? SLAB_MISUSE_REPORT : mode, call, p, NULL, why);
}

void ts_misuse_free(uintptr_t token, const char *call, const void *p, const SlabHandle *handle, const char *why) {
    ts_allocator *a = ts_allocator_find(token);
    if (a) ts_fetch_add_relaxed(&a->rejected_frees, 1);
    TS_PROBE3(free__rejected, call, p, handle ? *handle : SLAB_HANDLE_NONE);
    ts_misuse(token, call, p, handle, why);
}

/* ---- hints ------------------------------------------------------------------------------------------------------ */

#define PLACES 1024u /* call sites that are remembered; of more than that the rest is told of again */

/* Takes a place for the caller, if it has none. */
static bool is_news(uintptr_t caller) {
    static _Atomic uintptr_t places[PLACES];
    for (unsigned i = 0; i < PLACES; i++) {
        _Atomic uintptr_t *at = &places[(caller / 4 + i) % PLACES];
        uintptr_t there = ts_load_relaxed(at);
        if (there == caller) return false;
        if (there == 0 &&
            atomic_compare_exchange_strong_explicit(at, &there, caller, memory_order_relaxed, memory_order_relaxed))
            return true;
        if (there == caller) return false;
    }
    return true;
}

typedef struct place {
    ts_text *line;
    uint64_t address;
    bool found;
} place;

static void put_place(void *arg, const ts_os_module *m) {
    place *p = arg;
    if (p->found || p->address < m->start || p->address >= m->end || !m->path[0]) return;
    p->found = true;
    ts_text_put(p->line, m->path);
    ts_text_add(p->line, "+%#" PRIx64, p->address - m->base);
}

/* The place as FILE+OFFSET, which addr2line takes; of code in no file the address. */
TS_COLD void ts_hint(const char *call, const char *what, const void *caller) {
    ts_text line = {.used = 0};
    place at = {&line, (uint64_t)(uintptr_t)caller, false};
    if (!is_news((uintptr_t)caller)) return;
    ts_text_add(&line, "tslab: hint: %s: %s (called before ", call, what);
    ts_os_modules(put_place, &at);
    if (!at.found) ts_text_add(&line, "%#" PRIx64, at.address);
    ts_text_put(&line, ")");
    ts_text_write(&line);
}

/* Misuse that is ignored. */
static void hint_instead(uintptr_t token, const char *call, const char *why, const void *caller) {
    const ts_allocator *a = ts_allocator_find(token);
    if (a && ts_hints(a)) ts_hint(call, why, caller);
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

void ts_misuse_call(uintptr_t token, const char *call, const char *why, bool asks, const void *caller) {
    int mode = ts_misuse_mode(token);
    ts_text line;
    if (begin(&line, mode, call)) {
        ts_text_put(&line, why);
        end(&line, asks ? SLAB_MISUSE_REPORT : mode);
    } else {
        hint_instead(token, call, why, caller);
    }
}

void ts_misuse_domain(const char *call, uint64_t id, const char *why, uintptr_t token, const EpochId *epoch) {
    int mode = ts_misuse_mode(token);
    ts_text line;
    if (begin(&line, mode, call)) {
        ts_text_add(&line, "domain %#" PRIx64 ": %s", id, why);
        if (epoch) add_epoch(&line, " (", *epoch);
        end(&line, mode);
    } else {
        hint_instead(token, call, why, (const void *)(uintptr_t)id);
    }
}

void ts_misuse_written_free(uintptr_t token, const void *at) {
    int mode = ts_misuse_mode(token);
    ts_text line;
    if (!begin(&line, mode, "allocation")) return;
    ts_text_add(&line,
                "address %#" PRIx64
                ": written after its object was freed or its epoch had ended, in a slab that is taken"
                " again now",
                (uint64_t)(uintptr_t)at);
    end(&line, mode);
}

void ts_misuse_written(uintptr_t token, const void *p, uint64_t at, uint32_t kind, uint64_t bytes, EpochId epoch,
                       bool freed) {
    int mode = ts_misuse_mode(token);
    ts_text line;
    if (!begin(&line, mode, "allocation")) return;
    ts_text_add(&line, "pointer %#" PRIx64 ": written %s, at byte %" PRIu64 " (", (uint64_t)(uintptr_t)p,
                freed ? "after free" : "before it was allocated", at);
    ts_misuse_put_kind(&line, kind, bytes);
    add_epoch(&line, ", ", epoch);
    end(&line, mode);
}
