#include "observe/listen.h"
#include "diagnose/diagnose.h"
#include "observe/observe.h"

#include "memtools/memtools.h"
#include "observe/diagnose.h"
#include "os/os.h"

#include <stdlib.h>
#include <string.h>

#define BEHIND_BYTES 64u /* how far from an object an access may lie to be one before it */

/* ---- stacks ------------------------------------------------------------------------------------------------------ */

/* By the names that the runtime finds; more than one where functions are inlined, each with its zero. */
static void tell_frame(uint64_t *number, const void *address) {
    char names[1024];
    memset(names, 0, sizeof names);
    if (__sanitizer_symbolize_pc) {
        union {
            const void *is;
            void *asked;
        } pc = {.is = address};
        __sanitizer_symbolize_pc(pc.asked, "%p %F %L", names, sizeof names - 2);
    }
    const char *name = names;
    do {
        ts_text line = {.used = 0};
        ts_text_add(&line, "    #%" PRIu64 " ", (*number)++);
        if (*name)
            ts_text_put(&line, name);
        else
            ts_text_add(&line, "%#" PRIx64, (uint64_t)(uintptr_t)address);
        ts_text_write(&line);
        name += strlen(name) + 1;
    } while (name < names + sizeof names && *name);
}

/* what: with the number of the thread, and the frames, if any are known. */
static void tell_call(const char *what, uint64_t word) {
    ts_origin_call call;
    bool known = ts_origin_call_of(word, &call);
    ts_tell("%s thread %" PRIu64 "%s", what, (uint64_t)call.thread,
            known ? ":" : ", by a stack that there was no room for");
    uint64_t number = 0;
    for (unsigned i = 0; i < call.frame_count; i++) tell_frame(&number, call.frame[i]);
}

/* ---- a report ---------------------------------------------------------------------------------------------------- */

static const char *plural(uint64_t n) { return n == 1 ? "" : "s"; }

static bool is_inside(const ts_origin *origin, const char *at) {
    return at >= origin->start && (uint64_t)(at - origin->start) < (origin->size ? origin->size : 1);
}

/* The object that the place belongs to: the one that it lies in; else the next, if it is near and live; else the one
   before. */
static bool find(const char *at, ts_origin *origin) {
    ts_origin behind;
    bool before = ts_origin_find(at, origin);
    if (before && is_inside(origin, at)) return true;
    if (ts_origin_find_behind(at, BEHIND_BYTES, &behind) && (!before || (!behind.ended && origin->ended)))
        *origin = behind;
    else
        return before;
    return true;
}

void ts_listen_tell(const void *p) {
    const char *at = p;
    ts_origin origin;
    if (!find(at, &origin)) return;
    bool before = at < origin.start, inside = is_inside(&origin, at);
    uint64_t far = before ? (uint64_t)(origin.start - at) : (uint64_t)(at - origin.start) - (inside ? 0 : origin.size);
    ts_text line = {.used = 0};
    ts_text_add(&line, "tslab: %#" PRIx64 " is %" PRIu64 " byte%s %s %s object of %" PRIu64 " byte%s%s",
                (uint64_t)(uintptr_t)at, far, plural(far),
                before   ? "before"
                : inside ? "inside"
                         : "behind",
                origin.ended ? "an" : "a live", origin.size, plural(origin.size),
                origin.ended ? " that has ended" : "");
    ts_diagnose_details(&line, origin.start);
    ts_text_write(&line);
    if (origin.ended) tell_call("its lifetime ended in", origin.ended_in);
    tell_call("it came from", origin.born_in);
}

static void on_report(const char *report) {
    (void)report;
    const void *at = __asan_get_report_address();
    if (ts_is_data(at)) ts_listen_tell(at);
}

void ts_listen_start(void) {
    if (ts_origin_is_kept && __asan_set_error_report_callback && __asan_get_report_address)
        __asan_set_error_report_callback(on_report);
}

/* ---- the end of the process -------------------------------------------------------------------------------------- */

#define GROUPS 4096u
#define GROUPS_TOLD 50u

typedef struct group { /* of objects that one stack has allocated */
    uint64_t call, count, bytes;
    const char *start; /* of one of them */
} group;

typedef struct leaks {
    group *groups; /* [GROUPS], by the stack */
    uint64_t count, bytes;
} leaks;

static bool is_asked_for(const char *p) {
    uintptr_t token = ts_object_owner(p);
    ts_allocator *a = ts_allocator_find(token);
    ts_object object;
    /* Other threads go on, and may end it. */
    if (!a || !ts_allocator_read_begin(a, token)) return false;
    bool wanted = a->settings.memory_tools == SLAB_TOOLS_LEAKS;
    ts_allocator_read_end(a);
    return wanted && ts_object_at(token, p, &object);
}

static void count(void *arg, const ts_origin *origin) {
    leaks *found = arg;
    if (!is_asked_for(origin->start)) return;
    found->count++;
    found->bytes += origin->size;
    uint64_t stack = ts_origin_stack_of(origin->born_in);
    for (unsigned i = 0; i < GROUPS; i++) {
        group *g = &found->groups[(stack + i) % GROUPS];
        if (g->count != 0 && ts_origin_stack_of(g->call) != stack) continue;
        if (g->count++ == 0) {
            g->call = origin->born_in;
            g->start = origin->start;
        }
        g->bytes += origin->size;
        return;
    }
}

static void tell_group(const group *g) {
    ts_text line = {.used = 0};
    ts_text_add(&line, "tslab: %" PRIu64 " object%s, %" PRIu64 " byte%s, still live%s", g->count, plural(g->count),
                g->bytes, plural(g->bytes), g->count == 1 ? "" : "; the first");
    ts_diagnose_details(&line, g->start);
    ts_text_write(&line);
    tell_call("allocated by", g->call);
}

static void tell_all(leaks *found) {
    for (unsigned told = 0; told < GROUPS_TOLD; told++) {
        group *most = found->groups;
        for (unsigned i = 1; i < GROUPS; i++)
            if (found->groups[i].bytes > most->bytes) most = &found->groups[i];
        if (most->count == 0) break;
        tell_group(most);
        memset(most, 0, sizeof *most);
    }
    ts_tell("%" PRIu64 " object%s, %" PRIu64 " byte%s, live when the process ended", found->count, plural(found->count),
            found->bytes, plural(found->bytes));
}

static void tell_leaks(void) {
    leaks found = {0};
    found.groups = ts_os_map(GROUPS * sizeof(group));
    if (!found.groups) return;
    ts_origin_walk(count, &found);
    if (found.count != 0) tell_all(&found);
}

/* A destructor would come after LeakSanitizer, which may end the process. */
void ts_listen_for_leaks(void) {
    static _Atomic uint32_t asked;
    if (ts_origin_is_kept && !atomic_exchange(&asked, 1)) (void)atexit(tell_leaks);
}
