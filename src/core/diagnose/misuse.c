#include "diagnose/misuse.h"
#include "epoch/label.h"

#include "base/probe.h"
#include "diagnose/diagnose.h"
#include "diagnose/hint.h"
#include "diagnose/listen.h"

#include <stdlib.h>

_Atomic int ts_misuse_default;

/* An allocator that has ended keeps its mode until its record has another use. In that moment it may be the mode of
   that use. */
static int mode_of(uintptr_t token) {
    const ts_allocator *a = ts_allocator_find(token);
    if (!a && ts_table_was_last(&ts_allocators, token))
        a = ts_table_at(&ts_allocators, ts_table_index(&ts_allocators, token));
    return a ? ts_load_relaxed(&a->on_misuse) : ts_load_relaxed(&ts_misuse_default);
}

/* p: an object, where it came from is told too if that is kept; NULL: none. */
static void tell(ts_line *line, int mode, const void *p) {
    ts_line_write(line);
    if (TS_UNLIKELY(ts_origin_is_kept) && p) ts_listen_tell(p);
    if (mode == SLAB_MISUSE_ABORT) abort();
}

static void begin(ts_line *line, const char *call) {
    line->used = 0;
    ts_line_text(line, "tslab: ");
    ts_line_text(line, call);
    ts_line_text(line, ": ");
}

static void name_number(ts_line *line, const char *what, uint64_t number) {
    ts_line_text(line, what);
    ts_line_hex(line, number);
    ts_line_text(line, ": ");
}

void ts_misuse(uintptr_t token, const char *call, const void *p, const SlabHandle *handle) {
    int mode = mode_of(token);
    if (TS_LIKELY(mode == SLAB_MISUSE_IGNORE)) return;
    ts_line line;
    begin(&line, call);
    if (!ts_allocator_find(token)) {
        ts_line_text(&line, "allocator ");
        ts_line_hex(&line, token);
        ts_line_text(&line, ts_table_is_past(&ts_allocators, token) ? ": freed already; " : ": not an allocator; ");
    }
    if (handle) {
        name_number(&line, "handle ", *handle);
        ts_diagnose_handle(&line, token, *handle);
    } else {
        name_number(&line, "pointer ", (uintptr_t)p);
        ts_diagnose_pointer(&line, token, p);
    }
    tell(&line, mode, p);
}

void ts_misuse_foreign(const char *call, const void *p) {
    int mode = ts_load_relaxed(&ts_misuse_default);
    TS_PROBE3(free__rejected, call, p, SLAB_HANDLE_NONE);
    if (TS_LIKELY(mode == SLAB_MISUSE_IGNORE)) return;
    ts_line line;
    begin(&line, call);
    name_number(&line, "pointer ", (uintptr_t)p);
    ts_diagnose_pointer(&line, 0, p);
    tell(&line, mode, p);
}

static void because(int mode, const char *call, const void *p, const char *why) {
    if (mode == SLAB_MISUSE_IGNORE) return;
    ts_line line;
    begin(&line, call);
    name_number(&line, "pointer ", (uintptr_t)p);
    ts_line_text(&line, why);
    tell(&line, mode, NULL);
}

void ts_misuse_because(uintptr_t token, const char *call, const void *p, const char *why) {
    because(mode_of(token), call, p, why);
}

void ts_misuse_mention(uintptr_t token, const char *call, const void *p, const char *why) {
    int mode = mode_of(token);
    because(mode == SLAB_MISUSE_ABORT ? SLAB_MISUSE_REPORT : mode, call, p, why);
}

int ts_misuse_mode(uintptr_t token) { return mode_of(token); }

void ts_misuse_free(uintptr_t token, const char *call, const void *p, const SlabHandle *handle) {
    ts_allocator *a = ts_allocator_find(token);
    if (a) ts_fetch_add_relaxed(&a->rejected_frees, 1);
    TS_PROBE3(free__rejected, call, p, handle ? *handle : SLAB_HANDLE_NONE);
    ts_misuse(token, call, p, handle);
}

void ts_misuse_refused(uintptr_t token, const char *call, const void *p, const char *why) {
    ts_allocator *a = ts_allocator_find(token);
    if (a) ts_fetch_add_relaxed(&a->rejected_frees, 1);
    TS_PROBE3(free__rejected, call, p, SLAB_HANDLE_NONE);
    ts_misuse_because(token, call, p, why);
}

void ts_misuse_call(uintptr_t token, const char *call, const char *why, bool asks, const void *caller) {
    int mode = mode_of(token);
    if (TS_LIKELY(mode == SLAB_MISUSE_IGNORE)) {
        const ts_allocator *a = ts_allocator_find(token);
        if (a && ts_hints(a)) ts_hint(call, why, caller);
        return;
    }
    ts_line line;
    begin(&line, call);
    ts_line_text(&line, why);
    tell(&line, asks ? SLAB_MISUSE_REPORT : mode, NULL);
}

void ts_misuse_domain(const char *call, uint64_t id, const char *why, uintptr_t token, const EpochId *epoch) {
    int mode = mode_of(token);
    if (TS_LIKELY(mode == SLAB_MISUSE_IGNORE)) return;
    ts_line line;
    begin(&line, call);
    name_number(&line, "domain ", id);
    ts_line_text(&line, why);
    if (epoch) {
        ts_line_text(&line, " (");
        ts_epoch_describe(&line, *epoch);
        ts_line_text(&line, ")");
    }
    tell(&line, mode, NULL);
}

void ts_misuse_written_free(uintptr_t token, const void *at) {
    int mode = mode_of(token);
    if (mode == SLAB_MISUSE_IGNORE) return;
    ts_line line;
    begin(&line, "allocation");
    name_number(&line, "address ", (uintptr_t)at);
    ts_line_text(&line, "written after its object was freed or its epoch had ended, in a slab that is taken again now");
    tell(&line, mode, NULL);
}

void ts_misuse_written(uintptr_t token, const void *p, uint64_t at, uint32_t kind, uint64_t bytes, EpochId epoch,
                       bool freed) {
    int mode = mode_of(token);
    if (mode == SLAB_MISUSE_IGNORE) return;
    ts_line line;
    begin(&line, "allocation");
    name_number(&line, "pointer ", (uintptr_t)p);
    ts_line_text(&line, freed ? "written after free, at byte " : "written before it was allocated, at byte ");
    ts_line_decimal(&line, at);
    ts_line_text(&line, " (");
    ts_diagnose_kind(&line, kind, bytes);
    ts_line_text(&line, ", ");
    ts_epoch_describe(&line, epoch);
    ts_line_text(&line, ")");
    tell(&line, mode, NULL);
}
