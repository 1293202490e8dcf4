/*
 * Writes a trace whose live bytes are known, for replay_test.py: `replay_trace FILE [turns [COMMAND]]`. Thread 1
 * allocates 20000 objects of 1000 bytes, and thread 2 frees each even one after the next was allocated. Thread 1
 * resizes half of the odd ones to 5000 bytes, and frees all but the last ten. With `turns`: a trace with a boundary.
 * COMMAND: the command line that the trace has.
 */
#include "trace/writer.h"

#include <stdio.h>

enum { OBJECTS = 20000, KEPT = 10, BYTES = 1000, MORE_BYTES = 5000, TURNS = 200, TURN_OBJECTS = 30 };

static uint64_t address_of(unsigned i) { return 0x100000 + (uint64_t)i * 8192; }

static uint64_t now_ns;
static uint64_t next_ns(void) { return now_ns += 1000; }

static void write_events(trace_writer *w, uint32_t stack) {
    for (unsigned i = 0; i < OBJECTS; i++) {
        trace_writer_alloc(w, 0, 1, next_ns(), address_of(i), BYTES, stack);
        if (i % 2 == 1) trace_writer_free(w, 0, 2, next_ns(), address_of(i - 1), stack);
    }
    for (unsigned i = 1; i < OBJECTS; i += 4)
        trace_writer_realloc(w, 0, 1, next_ns(), address_of(i), address_of(i) + (1 << 28), MORE_BYTES, stack);
    for (unsigned i = 1; i < OBJECTS - 2 * KEPT; i += 2)
        trace_writer_free(w, 0, 1, next_ns(), address_of(i) + (i % 4 == 1 ? 1 << 28 : 0), stack);
    /* Of an object whose birth the trace does not have. */
    trace_writer_free(w, 0, 2, next_ns(), 0x10, stack);
}

/* Each turn allocates 30 objects below its own call and frees them; each tenth keeps one to the end. */
static void write_turns(trace_writer *w) {
    const uint64_t inner[] = {0x5000, 0x4000}, outer[] = {0x4100};
    const uint32_t turn = trace_writer_frames(w, 1, inner, 2), between = trace_writer_frames(w, 1, outer, 1);
    for (unsigned i = 0; i < TURNS; i++) {
        const bool keeps = i % 10 == 9;
        for (unsigned k = 0; k < TURN_OBJECTS; k++)
            trace_writer_alloc(w, 0, 1, next_ns(), address_of(i * TURN_OBJECTS + k), 100, turn);
        for (unsigned k = keeps; k < TURN_OBJECTS; k++)
            trace_writer_free(w, 0, 1, next_ns(), address_of(i * TURN_OBJECTS + k), turn);
        trace_writer_alloc(w, 0, 1, next_ns(), 0x10, 100, between);
        trace_writer_free(w, 0, 1, next_ns(), 0x10, between);
    }
}

int main(int argc, char **argv) {
    static char about[1 << 21];
    char error[160] = "usage: replay_trace FILE [turns [COMMAND]]";
    snprintf(about, sizeof about, "command=%s\n", argc > 3 ? argv[3] : "known");
    trace_writer *w = argc >= 2 ? trace_writer_create(argv[1], about, error, sizeof error) : NULL;
    if (!w) return (void)fprintf(stderr, "%s\n", error), 1;
    (void)trace_writer_process(w, UINT32_MAX, 1, 100, "known");
    const uint64_t frame = 0x4000;
    const uint32_t stack = trace_writer_frames(w, 1, &frame, 1);
    if (argc > 2)
        write_turns(w);
    else
        write_events(w, stack);
    return trace_writer_close(w, "status=0\n") ? 0 : 1;
}
