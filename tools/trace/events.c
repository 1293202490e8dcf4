/*
 * The events of a trace in the order of time, and the objects that live meanwhile. Each thread's events are in the
 * order of time already, so a heap of the threads by their next event merges them. A resize is two events of the file:
 * the thread keeps the object between them, as another thread may get its old place before it has the new one.
 */
#include "trace/inside.h"

#include <stdlib.h>
#include <string.h>

/* ---- objects by address ------------------------------------------------------------------------------------------ */

static size_t slot_of(const trace_objects *o, uint32_t process, uint64_t address) {
    uint64_t hash = ((address >> 4) + process * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    return (size_t)(hash >> 20) & (o->slots - 1);
}

/* Where it is, or the empty slot where it would be. */
static size_t find(const trace_objects *o, uint32_t process, uint64_t address) {
    size_t i = slot_of(o, process, address);
    while (o->slot[i].address && (o->slot[i].address != address || o->slot[i].process != process))
        i = (i + 1) & (o->slots - 1);
    return i;
}

/* Twice the room; without the objects of processes that have ended. */
static bool grow(trace *t) {
    trace_objects old = t->objects, o = {NULL, old.slots ? 2 * old.slots : 1024, 0};
    o.slot = calloc(o.slots, sizeof *o.slot);
    if (!o.slot) return false;
    for (size_t i = 0; i < old.slots; i++) {
        const trace_object *x = &old.slot[i];
        if (!x->address || (x->process < t->processes && t->has_ended[x->process])) continue;
        o.slot[find(&o, x->process, x->address)] = *x;
        o.count++;
    }
    free(old.slot);
    t->objects = o;
    return true;
}

/* false: no memory. One that was there has ended unseen: with its epoch. */
static bool insert(trace *t, const trace_object *x) {
    if (2 * t->objects.count >= t->objects.slots && !grow(t)) return false;
    trace_object *at = &t->objects.slot[find(&t->objects, x->process, x->address)];
    t->objects.count += at->address == 0;
    *at = *x;
    return true;
}

/* Takes it out. Its address is 0 if there is none. */
static trace_object extract(trace_objects *o, uint32_t process, uint64_t address) {
    trace_object none = {0};
    if (o->slots == 0 || address == 0) return none;
    size_t i = find(o, process, address);
    trace_object out = o->slot[i];
    if (out.address == 0) return none;
    o->count--;
    for (size_t k = (i + 1) & (o->slots - 1); o->slot[k].address; k = (k + 1) & (o->slots - 1)) {
        size_t home = slot_of(o, o->slot[k].process, o->slot[k].address);
        if (((k - home) & (o->slots - 1)) < ((k - i) & (o->slots - 1))) continue;
        o->slot[i] = o->slot[k];
        i = k;
    }
    o->slot[i].address = 0;
    return out;
}

/* ---- threads by their next event --------------------------------------------------------------------------------- */

static uint64_t time_of(const trace *t, size_t cursor) {
    const trace_cursor *c = &t->cursor[cursor];
    return c->events ? c->events[c->next].time_ns : t->block[c->block].head.first_ns;
}

static bool is_before(const trace *t, size_t a, size_t b) {
    uint64_t x = time_of(t, a), y = time_of(t, b);
    return x != y ? x < y : a < b;
}

static void sink(trace *t, size_t i) {
    for (size_t child; (child = 2 * i + 1) < t->heap_count; i = child) {
        if (child + 1 < t->heap_count && is_before(t, t->heap[child + 1], t->heap[child])) child++;
        if (!is_before(t, t->heap[child], t->heap[i])) return;
        size_t swap = t->heap[i];
        t->heap[i] = t->heap[child];
        t->heap[child] = swap;
    }
}

static bool make_cursors(trace *t) {
    for (size_t i = 0; i < t->blocks; i++)
        t->cursors += i == 0 || t->block[i].head.thread != t->block[i - 1].head.thread;
    t->cursor = calloc(t->cursors + 1, sizeof *t->cursor);
    t->heap = calloc(t->cursors + 1, sizeof *t->heap);
    t->has_ended = calloc(t->processes + 1, sizeof *t->has_ended);
    return t->cursor && t->heap && t->has_ended;
}

bool trace_begin(trace *t) {
    if (!t->cursor && !make_cursors(t)) return false;
    size_t n = 0;
    for (size_t i = 0, end; i < t->blocks; i = end, n++) {
        for (end = i + 1; end < t->blocks && t->block[end].head.thread == t->block[i].head.thread;) end++;
        free(t->cursor[n].events);
        t->cursor[n] = (trace_cursor){.thread = t->block[i].head.thread, .block = i, .end = end};
        t->heap[n] = n;
    }
    t->heap_count = n;
    for (size_t i = n; i-- > 0;) sink(t, i);
    if (t->processes) memset(t->has_ended, 0, t->processes * sizeof *t->has_ended);
    free(t->objects.slot);
    t->objects = (trace_objects){0};
    t->last_object = 0;
    return grow(t);
}

bool trace_rewind(trace *t) { return trace_begin(t); }

void trace_end_reading(trace *t) {
    for (size_t i = 0; t->cursor && i < t->cursors; i++) free(t->cursor[i].events);
    free(t->cursor);
    free(t->heap);
    free(t->has_ended);
    free(t->objects.slot);
}

/* Reads the block at hand. */
static bool load(trace *t, trace_cursor *c) {
    const trace_block *b = &t->block[c->block];
    const char *why = NULL;
    unsigned char *in = trace_read_block(t->fd, b->offset, &b->head, &why);
    c->next = 0;
    c->events = in ? malloc(b->head.count * sizeof *c->events) : NULL;
    if (in && !c->events) why = "no memory";
    if (c->events && !format_unpack_events(in, b->head.plain_bytes, b->head.first_ns, c->events, b->head.count))
        why = "a block of events is damaged";
    else if (c->events &&
             (c->events[0].time_ns != b->head.first_ns || c->events[b->head.count - 1].time_ns != b->head.last_ns))
        why = "a block of events has other times than its head";
    free(in);
    if (!why) return true;
    free(c->events);
    c->events = NULL;
    trace_set_damage(t, b->offset - FORMAT_HEAD_BYTES, why);
    t->heap_count = 0;
    return false;
}

/* Behind the event that was taken. false: the next block begins before it. */
static bool advance(trace *t, trace_cursor *c, uint64_t time_ns) {
    if (++c->next < t->block[c->block].head.count) return true;
    free(c->events);
    c->events = NULL;
    c->next = 0;
    if (++c->block == c->end) {
        t->heap[0] = t->heap[--t->heap_count];
    } else if (t->block[c->block].head.first_ns < time_ns) {
        trace_set_damage(t, t->block[c->block].offset - FORMAT_HEAD_BYTES, "a block begins before the one before ends");
        t->heap_count = 0;
        return false;
    }
    return true;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static bool give_birth(trace *t, const raw_event *r, trace_event *out) {
    trace_object x = {.address = r->address,
                      .number = ++t->last_object,
                      .size = r->size,
                      .scope = r->scope,
                      .born_ns = r->time_ns,
                      .process = out->process,
                      .stack = r->stack,
                      .thread = out->thread};
    out->kind = TRACE_ALLOC;
    out->object = x.number;
    out->align = r->kind == RAW_ALLOC ? 0 : (uint16_t)(1u << (r->align_log2 & 15));
    if (r->align_log2 == 0) out->align = 0;
    out->scope = r->scope;
    return r->address == 0 || insert(t, &x);
}

static void fill_from(trace_event *out, const trace_object *x) {
    out->object = x->number;
    out->from_size = x->size;
    out->scope = x->scope;
    out->born_ns = x->born_ns;
    out->birth_stack = x->stack;
    out->birth_thread = x->thread;
}

static bool resize(trace *t, trace_cursor *c, const raw_event *r, trace_event *out) {
    trace_object x = c->moving;
    memset(&c->moving, 0, sizeof c->moving);
    const uint64_t from = x.address;
    out->kind = TRACE_REALLOC;
    out->from = from;
    fill_from(out, &x);
    if (x.number == 0) return true;
    x.address = r->address;
    if (r->size > 0 || r->address != from) x.size = r->size; /* else it failed */
    out->size = x.size;
    return r->address == 0 || insert(t, &x);
}

/* 1: an event; 0: none to show; -1: no memory. */
static int show(trace *t, trace_cursor *c, const raw_event *r, trace_event *out) {
    *out = (trace_event){.time_ns = r->time_ns,
                         .thread = c->thread,
                         .process = t->block[c->block].head.process,
                         .address = r->address,
                         .size = r->size,
                         .stack = r->stack};
    if (r->kind == RAW_IN) return resize(t, c, r, out) ? 1 : -1;
    if (raw_is_birth(r->kind)) return give_birth(t, r, out) ? 1 : -1;
    if (raw_is_death(r->kind)) {
        trace_object x = extract(&t->objects, out->process, r->address);
        if (r->kind == RAW_OUT) {
            x.address = r->address;
            c->moving = x;
            return 0;
        }
        fill_from(out, &x);
        out->kind = TRACE_FREE;
        out->size = out->from_size;
        out->from_size = 0;
        return 1;
    }
    out->kind = (uint8_t)(r->kind - RAW_PROCESS_START + TRACE_PROCESS_START);
    if (r->kind == RAW_PROCESS_START || r->kind == RAW_THREAD_NAME || r->kind == RAW_SCOPE_CREATE) {
        out->text = (uint32_t)r->size;
        out->size = 0;
    }
    if (r->kind >= RAW_SCOPE_CREATE && r->kind <= RAW_SCOPE_END) {
        out->scope = r->address;
        out->address = 0;
    }
    if (r->kind == RAW_PROCESS_END && out->process < t->processes) t->has_ended[out->process] = true;
    return 1;
}

bool trace_next(trace *t, trace_event *out) {
    for (int shown = 0; shown == 0;) {
        if (t->heap_count == 0) return false;
        trace_cursor *c = &t->cursor[t->heap[0]];
        if (!c->events && !load(t, c)) return false;
        const raw_event r = c->events[c->next];
        shown = show(t, c, &r, out);
        if (shown < 0) trace_set_damage(t, t->block[c->block].offset - FORMAT_HEAD_BYTES, "no memory");
        if (shown < 0) t->heap_count = 0;
        if (shown < 0 || !advance(t, c, r.time_ns)) return shown > 0;
        sink(t, 0);
    }
    return true;
}
