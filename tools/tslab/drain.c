#include "tslab/drain.h"

#include "elf/elf.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { OWN_THREAD = 1, TEXT_BYTES = 8192, LOOK_AT_ONCE = 64 };

typedef struct process {
    uint32_t shared; /* its number in the shared memory */
    pid_t pid;
    int fd; /* pidfd; -1: none */
    uint32_t image;
    bool has_ended;
} process;

/* The known facts on a slot's owner. */
typedef struct owner {
    uint32_t process; /* number of the file */
    uint32_t thread;  /* likewise; 0: the slot is new */
    raw_event held;   /* whose text is coming */
    size_t wanted, got;
    char text[TEXT_BYTES + RECORD_NOTE_BYTES];
} owner;

struct drain {
    record_shared *memory;
    trace_writer *writer;
    process *processes; /* by their number in the file */
    size_t process_count, process_capacity;
    uint32_t *stack; /* of the file, by node number; 0: not there yet */
    uint64_t events, threads;
    owner owners[RECORD_SLOTS];
};

drain *drain_create(record_shared *memory, trace_writer *writer) {
    drain *d = calloc(1, sizeof *d);
    if (d) d->stack = calloc(RECORD_NODES + 1, sizeof *d->stack);
    if (!d || !d->stack) return free(d), NULL;
    d->memory = memory;
    d->writer = writer;
    return d;
}

void drain_free(drain *d) {
    for (size_t i = 0; i < d->process_count; i++)
        if (d->processes[i].fd >= 0) (void)close(d->processes[i].fd);
    free(d->processes);
    free(d->stack);
    free(d);
}

uint64_t drain_events(const drain *d) { return d->events; }
uint64_t drain_threads(const drain *d) { return d->threads; }

static uint64_t now_ns(const drain *d) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - d->memory->start_ns;
}

/* ---- stacks ------------------------------------------------------------------------------------------------------ */

/* The node of the file. Its callers come first. */
static uint32_t stack_of(drain *d, uint32_t node) {
    uint32_t path[RECORD_FRAMES + 2], depth = 0, known = 0;
    while (node && node <= RECORD_NODES && !(known = d->stack[node])) {
        if (depth == RECORD_FRAMES + 2) return 0; /* no stack is so deep: the program wrote over it */
        path[depth++] = node;
        node = d->memory->node[node - 1].caller;
    }
    while (depth > 0) {
        node = path[--depth];
        known = d->stack[node] = trace_writer_stack(d->writer, known, d->memory->node[node - 1].address);
    }
    return known;
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

static process *process_of_pid(drain *d, pid_t pid) {
    for (size_t i = d->process_count; i-- > 0;)
        if (d->processes[i].pid == pid && !d->processes[i].has_ended) return &d->processes[i];
    return NULL;
}

static uint32_t number_of_shared(const drain *d, uint32_t shared) {
    for (size_t i = d->process_count; i-- > 0;)
        if (d->processes[i].shared == shared) return (uint32_t)i;
    return UINT32_MAX;
}

/* The symbols that a JIT has written down. */
static void take_perf_map(drain *d, uint32_t number) {
    size_t bytes;
    char *text = perf_map_read(d->processes[number].pid, &bytes);
    if (text && bytes) trace_writer_symbols(d->writer, number, text, bytes);
    free(text);
}

static void end_process(drain *d, uint32_t number, int status) {
    process *p = &d->processes[number];
    if (p->has_ended) return;
    p->has_ended = true;
    raw_event e = {.time_ns = now_ns(d), .kind = RAW_PROCESS_END, .address = (uint64_t)(unsigned)status};
    take_perf_map(d, number);
    trace_writer_event(d->writer, number, OWN_THREAD, &e);
}

static void begin_process(drain *d, owner *o, uint32_t shared, char *note, uint64_t time_ns) {
    uint32_t parent = UINT32_MAX, image;
    long pid, ppid;
    int n = 0;
    if (sscanf(note, "%" SCNu32 " %" SCNu32 " %ld %ld %n", &parent, &image, &pid, &ppid, &n) != 4 || n == 0) return;
    process *before = process_of_pid(d, (pid_t)pid), *father = process_of_pid(d, (pid_t)ppid);
    parent = parent == UINT32_MAX ? parent : number_of_shared(d, parent);
    if (parent == UINT32_MAX && (before || father)) parent = (uint32_t)((before ? before : father) - d->processes);
    const uint32_t ended = before ? (uint32_t)(before - d->processes) : UINT32_MAX;
    if (d->process_count == d->process_capacity) {
        size_t more = d->process_capacity ? 2 * d->process_capacity : 16;
        process *at = realloc(d->processes, more * sizeof *at);
        if (!at) return;
        d->processes = at;
        d->process_capacity = more;
    }
    const process p = {shared, (pid_t)pid, (int)syscall(SYS_pidfd_open, (pid_t)pid, 0), image, false};
    d->processes[d->process_count++] = p;
    o->process = trace_writer_process(d->writer, parent, image, (int)pid, note + n);
    raw_event e = {.time_ns = time_ns, .kind = RAW_PROCESS_START, .address = (uint64_t)pid};
    e.size = trace_writer_text(d->writer, note + n);
    trace_writer_event(d->writer, o->process, o->thread, &e);
    if (ended != UINT32_MAX) end_process(d, ended, 0); /* by exec */
}

static void add_module(drain *d, char *line) {
    trace_module m = {0};
    int n = 0;
    char *path;
    if (sscanf(line, "%" SCNu32 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %n", &m.image, &m.start, &m.end,
               &m.offset, &m.base, &n) != 5 ||
        n == 0 || !(path = strchr(line + n, ' ')))
        return;
    *path++ = 0;
    path[strcspn(path, "\n")] = 0;
    m.build_id = strcmp(line + n, "-") == 0 ? "" : line + n;
    m.path = path;
    trace_writer_module(d->writer, &m);
}

/* Its text is complete. */
static void take_note(drain *d, owner *o, uint32_t shared) {
    o->text[o->wanted] = 0;
    raw_event e = o->held;
    if (e.kind == NOTE_PROCESS) begin_process(d, o, shared, o->text, e.time_ns);
    if (e.kind == NOTE_MODULES) add_module(d, o->text);
    if (e.kind != RAW_SCOPE_CREATE) return;
    e.size = trace_writer_text(d->writer, o->text);
    trace_writer_event(d->writer, o->process, o->thread, &e);
}

static void begin_note(drain *d, owner *o, const raw_event *e, uint32_t shared) {
    o->held = *e;
    o->got = 0;
    o->wanted = e->size < TEXT_BYTES ? (size_t)e->size : TEXT_BYTES;
    if (o->wanted == 0) take_note(d, o, shared);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void take_event(drain *d, owner *o, uint32_t shared, const raw_event *from) {
    raw_event e = *from;
    if (e.kind == NOTE_TEXT) {
        if (o->got >= o->wanted) return;
        memcpy(o->text + o->got, from, RECORD_NOTE_BYTES);
        o->got += RECORD_NOTE_BYTES;
        if (o->got >= o->wanted) take_note(d, o, shared);
        return;
    }
    if (e.stack) e.stack = stack_of(d, e.stack);
    if (e.kind == NOTE_PROCESS || e.kind == NOTE_MODULES || e.kind == RAW_SCOPE_CREATE) {
        begin_note(d, o, &e, shared);
        return;
    }
    if (e.kind == NOTE_NAME) {
        char name[RECORD_THREAD_NAME + 1] = "";
        memcpy(name, &from->address, RECORD_THREAD_NAME);
        e = (raw_event){.time_ns = from->time_ns, .kind = RAW_THREAD_NAME};
        e.size = trace_writer_text(d->writer, name);
    }
    if (!raw_is_known(e.kind)) return; /* the program wrote over it */
    d->events += e.kind != RAW_OUT;
    trace_writer_event(d->writer, o->process, o->thread, &e);
}

static bool begin_owner(drain *d, owner *o, record_slot *s, uint64_t tail) {
    const uint32_t shared = atomic_load(&s->process);
    o->process = number_of_shared(d, shared);
    if (o->process == UINT32_MAX && s->ring[tail % RECORD_RING].kind != NOTE_PROCESS)
        return false; /* its first thread's
                                                                                                     slot is not read
                                                                                                     yet */
    o->thread = atomic_load(&s->thread) + OWN_THREAD;
    o->wanted = o->got = 0;
    d->threads++;
    return true;
}

static size_t take_slot(drain *d, record_slot *s, owner *o) {
    const uint32_t state = atomic_load_explicit(&s->state, memory_order_acquire);
    const uint64_t head = atomic_load_explicit(&s->head, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&s->tail, memory_order_relaxed);
    const size_t count = head - tail > RECORD_RING ? 0 : (size_t)(head - tail);
    if (count > 0 && !o->thread && !begin_owner(d, o, s, tail)) return 0;
    const uint32_t shared = atomic_load(&s->process);
    while (tail != head && count > 0) {
        for (unsigned i = 0; i < RECORD_RING / 8 && tail != head; i++, tail++)
            take_event(d, o, shared, &s->ring[tail % RECORD_RING]);
        atomic_store_explicit(&s->tail, tail, memory_order_release);
        atomic_fetch_add(&s->room, 1);
        (void)syscall(SYS_futex, &s->room, RECORD_FUTEX_WAKE, 1, NULL, NULL, 0);
    }
    if (state == SLOT_LEFT) {
        o->thread = 0;
        atomic_store_explicit(&s->state, SLOT_FREE, memory_order_release);
    }
    return count;
}

size_t drain_take(drain *d) {
    size_t count = 0;
    for (size_t i = 0; i < RECORD_SLOTS; i++) {
        record_slot *s = &d->memory->slot[i];
        if (atomic_load_explicit(&s->state, memory_order_relaxed) != SLOT_FREE) count += take_slot(d, s, &d->owners[i]);
    }
    return count;
}

void drain_window(drain *d, uint64_t time_ns, bool on) {
    raw_event e = {.time_ns = time_ns, .kind = RAW_WINDOW, .size = on};
    trace_writer_event(d->writer, 0, OWN_THREAD, &e);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static bool has_ended(const process *p) {
    struct pollfd look = {p->fd, POLLIN, 0};
    if (p->fd >= 0) return poll(&look, 1, 0) > 0;
    return kill(p->pid, 0) != 0 && errno == ESRCH;
}

/* The slots of an ended process, after their events. An exec keeps the pid, and not the slots. */
static void free_slots(drain *d, uint32_t shared) {
    for (size_t i = 0; i < RECORD_SLOTS; i++) {
        record_slot *s = &d->memory->slot[i];
        if (atomic_load(&s->state) == SLOT_FREE || atomic_load(&s->process) != shared) continue;
        (void)take_slot(d, s, &d->owners[i]);
        d->owners[i].thread = 0;
        atomic_store(&s->state, SLOT_FREE);
    }
}

size_t drain_reap(drain *d, pid_t root, bool status_known, int root_status) {
    size_t alive = 0;
    for (uint32_t i = 0; i < d->process_count; i++) {
        process *p = &d->processes[i];
        if (p->fd == -2) continue;
        bool is_root = p->pid == root;
        if (!p->has_ended && !(is_root ? status_known : has_ended(p))) {
            alive++;
            continue;
        }
        free_slots(d, p->shared);
        end_process(d, i, is_root ? root_status : 0);
        if (p->fd >= 0) (void)close(p->fd);
        p->fd = -2; /* done */
    }
    return alive;
}
