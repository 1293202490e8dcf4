/*
 * A trace is read as it was written; one that is cut off at any byte, or has a wrong bit anywhere, gives the events
 * before that and says so.
 */
#include "trace/writer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 3, PLACES = 200, MOST = 20000 };

typedef struct told {
    uint64_t time_ns, address, size, frame;
    uint32_t thread;
    uint8_t kind;
} told;

static told wanted[MOST];
static size_t wanted_count;
static int failures;
static char path[64];

static void expect(bool is, const char *what, size_t number) {
    if (is) return;
    if (failures++ < 20) (void)fprintf(stderr, "trace_test: %s (%zu)\n", what, number);
}

static uint32_t next_random(void) {
    static uint32_t state = 12345;
    return state = state * 1664525u + 1013904223u;
}
static uint32_t below(uint32_t n) { return (uint32_t)((uint64_t)(next_random() >> 4) * n >> 28); }

static void want(uint64_t time_ns, uint32_t thread, uint8_t kind, uint64_t address, uint64_t size, uint64_t frame) {
    if (wanted_count < MOST) wanted[wanted_count++] = (told){time_ns, address, size, frame, thread, kind};
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef struct object {
    uint64_t address, size;
} object;

static void write_one(trace_writer *w, object *o, uint64_t place, uint64_t time_ns, const uint32_t *stack,
                      const uint64_t *frame) {
    const uint32_t thread = 1 + below(THREADS), s = below(4);
    const uint64_t size = 1 + below(5000);
    if (o->address && below(4) == 0) {
        uint64_t to = below(2) ? o->address : place + 8192;
        trace_writer_realloc(w, 0, thread, time_ns, o->address, to, size, stack[s]);
        *o = (object){to, size};
        want(time_ns, thread, TRACE_REALLOC, to, size, frame[s]);
    } else if (o->address) {
        trace_writer_free(w, 0, thread, time_ns, o->address, stack[s]);
        want(time_ns, thread, TRACE_FREE, o->address, o->size, frame[s]);
        *o = (object){0, 0};
    } else {
        *o = (object){place, size};
        trace_writer_alloc(w, 0, thread, time_ns, place, size, stack[s]);
        want(time_ns, thread, TRACE_ALLOC, place, size, frame[s]);
    }
}

static void write_rare(trace_writer *w, uint64_t time_ns) {
    const raw_event events[] = {
        {.kind = RAW_THREAD_START, .address = 4711},
        {.kind = RAW_THREAD_NAME, .size = trace_writer_text(w, "worker")},
        {.kind = RAW_ALIGNED, .address = 0x7000, .size = 64, .align_log2 = 12},
        {.kind = RAW_SCOPE_CREATE, .address = 77, .size = trace_writer_text(w, "request")},
        {.kind = RAW_SCOPED, .address = 0x9000, .size = 33, .scope = 77},
        {.kind = RAW_SCOPE_RESET, .address = 77},
        {.kind = RAW_LOST, .size = 12},
    };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        raw_event e = events[i];
        e.time_ns = time_ns + i;
        trace_writer_event(w, 0, 1, &e);
    }
    const raw_event before[] = {{.kind = TRACE_THREAD_START, .address = 4711},
                                {.kind = TRACE_THREAD_NAME},
                                {.kind = TRACE_ALLOC, .address = 0x7000, .size = 64},
                                {.kind = TRACE_SCOPE_CREATE},
                                {.kind = TRACE_ALLOC, .address = 0x9000, .size = 33},
                                {.kind = TRACE_SCOPE_RESET},
                                {.kind = TRACE_LOST, .size = 12}};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        want(time_ns + i, 1, before[i].kind, before[i].address, before[i].size, 0);
}

static void write_trace(size_t events, uint64_t step_ns) {
    static object objects[PLACES];
    char error[160];
    uint64_t frame[4], time_ns = 10;
    uint32_t stack[4];
    memset(objects, 0, sizeof objects);
    wanted_count = 0;
    trace_writer *w = trace_writer_create(path, "command=a test\nmachine=none\n", error, sizeof error);
    if (!w) {
        (void)fprintf(stderr, "trace_test: %s: %s\n", path, error);
        exit(1);
    }
    (void)trace_writer_process(w, UINT32_MAX, 1, 4711, "a test");
    trace_writer_module(w, &(trace_module){.image = 1, .start = 0x1000, .end = 0x9000, .base = 0x1000, .path = "/a b"});
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t frames[3] = {0x2000 + 16 * i, 0x3000 + i / 2, 0x4000};
        frame[i] = frames[0];
        stack[i] = trace_writer_frames(w, 1, frames, 3);
        expect(stack[i] == trace_writer_frames(w, 1, frames, 3), "a stack has two numbers", i);
    }
    write_rare(w, time_ns);
    time_ns += 100;
    for (size_t i = 0; i < events; i++) {
        const uint32_t k = below(PLACES);
        write_one(w, &objects[k], UINT64_C(0x7f0000000000) + 16384 * (uint64_t)k,
                  time_ns += 1 + below((uint32_t)step_ns), stack, frame);
        if (i % (events / 4) == events / 8) trace_writer_flush(w);
    }
    expect(trace_writer_close(w, "status=0\n"), "the file is cut off", 0);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool is_told(const trace *t, const trace_event *e, const told *x) {
    return e->time_ns == x->time_ns && e->thread == x->thread && e->kind == x->kind && e->address == x->address &&
           (e->stack == 0 ? 0 : trace_stack_address(t, e->stack)) == x->frame;
}

static void test_whole(size_t events, uint64_t step_ns) {
    char error[160];
    uint64_t frames[8];
    trace_event e;
    write_trace(events, step_ns);
    trace *t = trace_open(path, error, sizeof error);
    if (!t) {
        expect(false, error, 0);
        return;
    }
    for (int round = 0; round < 2; round++) {
        size_t n = 0;
        for (; trace_next(t, &e); n++) {
            expect(n < wanted_count && is_told(t, &e, &wanted[n]), "another event was written", n);
            expect(n < wanted_count && e.size == wanted[n].size, "the size is another", n);
            expect((e.kind != TRACE_FREE && e.kind != TRACE_REALLOC) ||
                       (e.object && e.birth_stack && e.born_ns <= e.time_ns),
                   "the object has no birth", n);
        }
        expect(n == wanted_count, "events are missing", n);
        expect(trace_damage(t) == NULL, "a whole trace is damaged", 0);
        expect(trace_rewind(t), "no memory", 0);
    }
    const trace_module *m = trace_module_of(t, 1, 0x8fff);
    expect(m && strcmp(m->path, "/a b") == 0 && !trace_module_of(t, 1, 0x9000) && !trace_module_of(t, 2, 0x2000),
           "module", 0);
    expect(strcmp(trace_about(t, "command"), "a test") == 0 && strcmp(trace_about(t, "status"), "0") == 0, "about", 0);
    expect(trace_process_count(t) == 1 && trace_process_of(t, 0)->pid == 4711, "process", 0);
    expect(trace_stack_frames(t, trace_stack_count(t), frames, 8) == 3 && frames[2] == 0x4000, "frames", 0);
    trace_close(t);
}

/* How many events are read: of each thread the first ones, in order. */
static size_t read_part(const char *what, size_t at, bool *damaged) {
    size_t next[THREADS + 1] = {0}, n = 0;
    char error[160] = "";
    trace_event e;
    trace *t = trace_open(path, error, sizeof error);
    *damaged = t == NULL;
    if (!t) {
        expect(error[0] != 0, "no reason is given", at);
        return 0;
    }
    for (; trace_next(t, &e); n++) {
        size_t k = e.thread <= THREADS ? next[e.thread] : MOST;
        while (k < wanted_count && wanted[k].thread != e.thread) k++;
        expect(k < wanted_count && is_told(t, &e, &wanted[k]), what, at);
        if (e.thread <= THREADS) next[e.thread] = k + 1;
    }
    *damaged = trace_damage(t) != NULL;
    trace_close(t);
    return n;
}

static unsigned char *read_file(size_t *bytes) {
    FILE *in = fopen(path, "rb");
    unsigned char *all = malloc(1 << 20);
    *bytes = in && all ? fread(all, 1, 1 << 20, in) : 0;
    if (in) (void)fclose(in);
    return all;
}

static void write_file(const unsigned char *all, size_t bytes) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    expect(fd >= 0 && write(fd, all, bytes) == (ssize_t)bytes, "a file cannot be written", bytes);
    (void)close(fd);
}

static void test_cut_off(void) {
    size_t bytes, before = 0;
    bool damaged;
    write_trace(500, 50);
    unsigned char *all = read_file(&bytes);
    for (size_t n = 0; n < bytes; n++) {
        write_file(all, n);
        size_t read = read_part("an event that was not written, of a file that is cut off", n, &damaged);
        expect(damaged, "a file that is cut off is whole", n);
        expect(read >= before, "a longer file gives less", n);
        before = read;
    }
    write_file(all, bytes);
    expect(read_part("an event that was not written", bytes, &damaged) == wanted_count && !damaged, "the whole", bytes);
    free(all);
}

static void test_wrong_bits(void) {
    size_t bytes;
    bool damaged;
    write_trace(500, 50);
    unsigned char *all = read_file(&bytes);
    for (size_t n = 0; n < bytes; n++) {
        const unsigned char bit = (unsigned char)(1u << below(8));
        all[n] ^= bit;
        write_file(all, bytes);
        (void)read_part("an event that was not written, of a file with a wrong bit", n, &damaged);
        expect(damaged, "a wrong bit is not seen", n);
        all[n] ^= bit;
    }
    free(all);
}

int main(void) {
    (void)snprintf(path, sizeof path, "/tmp/tslab-trace-test-%ld", (long)getpid());
    test_whole(10000, 1000);
    test_whole(3000, UINT32_MAX); /* blocks end before their times are too far apart */
    test_cut_off();
    test_wrong_bits();
    (void)unlink(path);
    return failures > 0;
}
