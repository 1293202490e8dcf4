/*
 * Three readings of the trace: which process allocates most; how many operations each thread has, and when most bytes
 * are live; the operations. The last two are the same walk, so they agree about slots and windows.
 *
 * Memory: 4 bytes for each object. The operations lie in a temporary file, 16 bytes each.
 */
#include "replay/decode.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NONE = 0, LAY_BY = 4096 /* slots freed by another thread that wait before they are taken again */ };

typedef struct slot_list {
    uint32_t *slot;
    size_t count, capacity, first; /* first: of a queue */
} slot_list;

typedef struct thread_state {
    uint32_t number; /* plus one, in the order of first operations; 0: it has none */
    uint32_t window; /* plus one */
    uint64_t turn;   /* that is open; 0: none */
    uint64_t ops, first;
    slot_list own, others; /* free slots: freed by the thread itself, as a stack; by others, as a queue */
} thread_state;

typedef struct slot_state {
    uint64_t bytes, last_op; /* of the file */
    uint32_t birth, last;    /* threads, by number in the trace */
    uint32_t turn;
    uint64_t turn_of_birth; /* of the plan; 0: none, or it has been resized outside */
    bool scoped;
} slot_state;

typedef struct walk {
    trace *t;
    decoded *out;
    bool writes, no_memory;
    thread_state *thread; /* by number in the trace */
    uint32_t main;        /* the first thread */
    slot_state *slot;
    uint32_t slots, slot_capacity;
    uint32_t *slot_of; /* by object; plus one, 0: none */
    uint64_t objects;  /* capacity */
    uint8_t *dies;     /* by object, from the first walk to the second: it dies in the turn of its birth */
    uint64_t dies_capacity;
    uint32_t *window; /* threads in it */
    uint32_t windows, window_capacity;
    uint64_t operations, live, peak_at, each;
    ops_head *head;
    op *ops;
    const replay_plan *plan; /* NULL: none */
    bool captures;           /* its turns capture: no operation is one of an object in a domain */
    rounds rounds;
    uint32_t event_thread;
} walk;

static bool grow(void **array, uint64_t *capacity, uint64_t wanted, size_t bytes) {
    if (wanted < *capacity) return true;
    uint64_t more = wanted * 2 + 64;
    void *grown = realloc(*array, more * bytes);
    if (!grown) return false;
    memset((char *)grown + *capacity * bytes, 0, (more - *capacity) * bytes);
    *array = grown;
    *capacity = more;
    return true;
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

static void list_add(walk *w, slot_list *l, uint32_t slot) {
    if (l->first > 1024 && l->first * 2 > l->count) {
        memmove(l->slot, l->slot + l->first, (l->count - l->first) * sizeof *l->slot);
        l->count -= l->first;
        l->first = 0;
    }
    uint64_t capacity = l->capacity;
    void *array = l->slot;
    w->no_memory |= !grow(&array, &capacity, l->count, sizeof *l->slot);
    l->slot = array;
    l->capacity = capacity;
    if (!w->no_memory) l->slot[l->count++] = slot;
}

static uint32_t take_slot(walk *w, thread_state *thread) {
    if (thread->own.count > 0) return thread->own.slot[--thread->own.count];
    if (thread->others.count - thread->others.first > LAY_BY) return thread->others.slot[thread->others.first++];
    uint64_t capacity = w->slot_capacity;
    void *array = w->slot;
    w->no_memory |= w->slots == UINT32_MAX - 1 || !grow(&array, &capacity, w->slots, sizeof *w->slot);
    w->slot = array;
    w->slot_capacity = (uint32_t)capacity;
    return w->no_memory ? 0 : w->slots++;
}

static void give_slot(walk *w, uint32_t slot, uint32_t by) {
    thread_state *birth = &w->thread[w->slot[slot].birth];
    list_add(w, w->slot[slot].birth == by ? &birth->own : &birth->others, slot);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static op *emit(walk *w, uint32_t thread, op o) {
    thread_state *s = &w->thread[thread];
    op *at = w->writes ? &w->ops[s->first + s->ops] : NULL;
    if (at) *at = o;
    s->ops++;
    return at;
}

/* The thread's first operation, or its first one of a window. */
static void enter_window(walk *w, uint32_t thread) {
    thread_state *s = &w->thread[thread];
    const uint32_t now = (uint32_t)(w->operations / OPS_WINDOW);
    if (!s->number) {
        s->number = ++w->out->threads;
        if (s->number == 1)
            w->main = thread;
        else
            (void)emit(w, w->main, (op){.kind = OP_START, .slot = s->number - 1});
    }
    if (s->window == now + 1) return;
    uint64_t capacity = w->window_capacity;
    void *array = w->window;
    w->no_memory |= !grow(&array, &capacity, now, sizeof *w->window);
    w->window = array;
    w->window_capacity = (uint32_t)capacity;
    if (w->no_memory) return;
    w->window[now]++;
    w->windows = now + 1;
    (void)emit(w, thread, (op){.kind = OP_WINDOW, .slot = now, .turn = s->window});
    s->window = now + 1;
}

static void take_sample(walk *w, const trace_event *e) {
    if (!w->writes || w->out->samples == OPS_SAMPLES_MOST) return;
    if (w->operations % w->each != 0 && w->operations != w->peak_at) return;
    w->out->sample[w->out->samples] = (decoded_sample){e->time_ns, w->operations, w->live};
    (void)emit(w, e->thread, (op){.kind = OP_SAMPLE, .slot = w->out->samples++});
}

/* ---- turns of the plan ------------------------------------------------------------------------------------------- */

static void end_turn(walk *w, uint32_t thread) {
    if (!w->thread[thread].turn) return;
    w->thread[thread].turn = 0;
    (void)emit(w, thread, (op){.kind = OP_TURN_END});
}

static void begin_turn(walk *w, uint32_t thread) {
    end_turn(w, thread);
    enter_window(w, thread);
    w->thread[thread].turn = ++w->out->turns;
    (void)emit(w, thread, (op){.kind = OP_TURN, .size = w->captures});
}

/* From each cut to the next one, while the function runs. */
static void on_cut(void *arg, uint32_t node, bool at_end, cuts *c, uint64_t now) {
    walk *w = arg;
    (void)c;
    (void)now;
    if (node == w->plan->node && at_end == w->plan->at_end)
        begin_turn(w, w->event_thread);
    else if (node == w->plan->caller && at_end)
        end_turn(w, w->event_thread);
    else if (node == w->plan->caller && w->plan->at_end)
        begin_turn(w, w->event_thread);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Whether the operation is one of an object that lies in the domain of a turn. The first walk finds which do. */
static bool is_scoped(walk *w, const trace_event *e, op_kind kind, slot_state *s) {
    const uint64_t open = w->thread[s->birth].turn;
    if (w->captures) return false;
    if (kind == OP_ALLOC) {
        s->turn_of_birth = open;
        s->scoped = w->writes && e->object < w->dies_capacity && w->dies[e->object];
    } else if (s->turn_of_birth != open || (kind == OP_REALLOC && s->birth != e->thread)) {
        s->turn_of_birth = 0;
    }
    if (kind != OP_FREE) return s->scoped;
    w->out->dropped += s->scoped;
    void *array = w->dies;
    if (!w->writes && s->turn_of_birth) {
        w->no_memory |= !grow(&array, &w->dies_capacity, e->object, 1);
        w->dies = array;
        if (!w->no_memory) w->dies[e->object] = 1;
    }
    return s->scoped;
}

static void emit_memory(walk *w, const trace_event *e, op_kind kind, uint32_t slot) {
    slot_state *s = &w->slot[slot];
    const bool hands_over = s->last && s->last != e->thread;
    if (hands_over) {
        if (w->writes) w->ops[s->last_op].tells = 1;
        s->turn++;
    }
    op o = {.kind = kind, .slot = slot, .turn = s->turn, .waits = hands_over, .size = e->size};
    if (kind == OP_ALLOC && e->align) o.align_log2 = (unsigned)__builtin_ctz(e->align) & 63u;
    if (kind == OP_FREE) o.size = 0;
    o.scoped = is_scoped(w, e, kind, s);
    s->last_op = w->thread[e->thread].first + w->thread[e->thread].ops;
    s->last = e->thread;
    (void)emit(w, e->thread, o);
}

static void do_birth(walk *w, const trace_event *e) {
    enter_window(w, e->thread);
    const uint32_t slot = take_slot(w, &w->thread[e->thread]);
    void *array = w->slot_of;
    w->no_memory |= !grow(&array, &w->objects, e->object, sizeof *w->slot_of);
    w->slot_of = array;
    if (w->no_memory) return;
    w->slot_of[e->object] = slot + 1;
    w->slot[slot].birth = e->thread;
    w->slot[slot].bytes = e->size;
    w->live += e->size;
    w->out->allocs++;
    emit_memory(w, e, OP_ALLOC, slot);
}

static void do_change(walk *w, const trace_event *e, uint32_t slot) {
    enter_window(w, e->thread);
    w->live -= w->slot[slot].bytes;
    if (e->kind == TRACE_REALLOC) {
        w->live += w->slot[slot].bytes = e->size;
        w->out->reallocs++;
        emit_memory(w, e, OP_REALLOC, slot);
        return;
    }
    w->out->frees++;
    emit_memory(w, e, OP_FREE, slot);
    w->slot_of[e->object] = NONE;
    give_slot(w, slot, e->thread);
}

static void take_event(walk *w, const trace_event *e) {
    if (e->kind == TRACE_LOST) w->out->lost += e->size;
    if (e->process != w->out->process) return;
    w->event_thread = e->thread;
    if (w->plan) rounds_step(&w->rounds, e->thread, e->stack, e->time_ns);
    if (e->kind > TRACE_REALLOC) return;
    const uint32_t slot = e->object && e->object < w->objects ? w->slot_of[e->object] : NONE;
    if (e->size >> 40 || e->scope || !e->object || (e->kind == TRACE_FREE && slot == NONE)) {
        w->out->left_out++;
        return;
    }
    if (slot == NONE)
        do_birth(w, e);
    else
        do_change(w, e, slot - 1);
    w->operations++;
    if (w->live > w->out->live_peak_bytes) {
        w->out->live_peak_bytes = w->live;
        if (!w->writes) w->peak_at = w->operations;
    }
    take_sample(w, e);
}

static bool walk_trace(walk *w) {
    trace_event e;
    const uint32_t process = w->out->process;
    const int fd = w->out->fd;
    *w->out = (decoded){.fd = fd, .process = process};
    for (uint32_t i = 0; i <= trace_thread_count(w->t); i++) {
        thread_state *s = &w->thread[i];
        s->number = s->window = 0;
        s->ops = s->turn = 0;
        s->own.count = s->others.count = s->others.first = 0;
    }
    if (w->objects) memset(w->slot_of, 0, w->objects * sizeof *w->slot_of);
    if (w->slot_capacity) memset(w->slot, 0, w->slot_capacity * sizeof *w->slot);
    if (w->window_capacity) memset(w->window, 0, w->window_capacity * sizeof *w->window);
    w->slots = 0;
    w->operations = w->live = 0;
    if (w->plan && !rounds_make(&w->rounds, &w->plan->tree, trace_thread_count(w->t), w->plan->watched)) return false;
    w->rounds.on_cut = on_cut;
    w->rounds.arg = w;
    if (!trace_rewind(w->t)) return false;
    while (!w->no_memory && trace_next(w->t, &e)) take_event(w, &e);
    for (uint32_t i = 1; i <= trace_thread_count(w->t); i++) {
        end_turn(w, i);
        if (w->thread[i].number)
            (void)emit(w, i, (op){.kind = OP_WINDOW, .slot = UINT32_MAX, .turn = w->thread[i].window});
    }
    w->no_memory |= w->rounds.no_memory;
    if (w->plan) rounds_free(&w->rounds);
    w->out->live_end_bytes = w->live;
    return !w->no_memory;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* Room for the operations of each thread, and for all samples in each. */
static const char *make_file(walk *w) {
    ops_head head = {.magic = OPS_MAGIC, .threads = w->out->threads, .slots = w->slots, .windows = w->windows};
    uint64_t ops = 0;
    for (uint32_t i = 1; i <= trace_thread_count(w->t); i++) {
        w->thread[i].first = ops;
        if (w->thread[i].number) ops += w->thread[i].ops + OPS_SAMPLES_MOST;
    }
    head.streams_at = sizeof head;
    head.windows_at = head.streams_at + head.threads * sizeof(ops_stream);
    head.ops_at = (head.windows_at + head.windows * sizeof(uint32_t) + 63) & ~(uint64_t)63;
    head.bytes = head.ops_at + ops * sizeof(op);
    FILE *file = tmpfile();
    w->out->fd = file ? dup(fileno(file)) : -1;
    if (file) (void)fclose(file);
    if (w->out->fd < 0 || posix_fallocate(w->out->fd, 0, (off_t)head.bytes) != 0) return "no room for a temporary file";
    void *at = mmap(NULL, head.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->out->fd, 0);
    if (at == MAP_FAILED) return "no memory";
    w->head = at;
    *w->head = head;
    void *first = (char *)at + head.ops_at;
    w->ops = first;
    return NULL;
}

static void finish_file(walk *w) {
    void *streams = (char *)w->head + w->head->streams_at, *windows = (char *)w->head + w->head->windows_at;
    ops_stream *stream = streams;
    for (uint32_t i = 1; i <= trace_thread_count(w->t); i++)
        if (w->thread[i].number) stream[w->thread[i].number - 1] = (ops_stream){w->thread[i].first, w->thread[i].ops};
    memcpy(windows, w->window, w->windows * sizeof *w->window);
    (void)munmap(w->head, w->head->bytes);
}

/* Which process allocates most. false: no memory. */
static bool choose_process(walk *w) {
    uint64_t *births = NULL, capacity = 0, most = 0;
    void *array = NULL;
    trace_event e;
    bool done = true;
    while (done && trace_next(w->t, &e)) {
        if (e.kind != TRACE_ALLOC) continue;
        done = grow(&array, &capacity, e.process, sizeof *births);
        births = array;
        if (done && ++births[e.process] > most) {
            most = births[e.process];
            w->out->process = e.process;
        }
    }
    free(array);
    return done;
}

static const char *decode(walk *w) {
    if (!trace_rewind(w->t)) return "no memory";
    w->thread = calloc(trace_thread_count(w->t) + 1u, sizeof *w->thread);
    if (!w->thread || !choose_process(w) || !walk_trace(w)) return "no memory";
    if (!w->operations) return "it has no allocation that can be replayed";
    const char *error = make_file(w);
    if (error) return error;
    w->each = w->operations / OPS_SAMPLES + 1;
    w->writes = true;
    if (!walk_trace(w)) return "no memory";
    finish_file(w);
    return NULL;
}

const char *decode_trace(trace *t, const replay_plan *plan, bool captures, decoded *out) {
    walk w = {.t = t, .plan = plan, .captures = captures, .out = out};
    *out = (decoded){.fd = -1};
    const char *error = decode(&w);
    for (uint32_t i = 0; w.thread && i <= trace_thread_count(t); i++) {
        free(w.thread[i].own.slot);
        free(w.thread[i].others.slot);
    }
    free(w.thread);
    free(w.slot);
    free(w.slot_of);
    free(w.dies);
    free(w.window);
    return error;
}
