/*
 * soak_mixed: one load for minutes in one process, its throughput in windows: whether an allocator slows down with
 * time, and how even it is. soak_mixed_single_process.sh runs it for all allocators, windows in turn.
 *
 * The load: 400 slots. An operation draws a slot; 70 % put a new object of 16 to 1040 bytes in it and free the one that
 * was there, 30 % free the slot's object. Each window has a random sequence of its own, made while no clock runs, the
 * same for every allocator, and repeats it until its time is over. Counted are calls to the allocator, allocations and
 * frees; each object is written to (with --smoke they are filled, and compared when they are freed). The time of the
 * loop without the calls is measured before the windows: floor_ns.
 */
#include "suite.h"

#include "bench_clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 400, MIN_BYTES = 16, MAX_BYTES = 1040, ALLOCATE_PERCENT = 70, SEQUENCE = 1 << 16, TOUCHED_BYTES = 1000 };

typedef struct soak_op {
    uint16_t slot;
    uint16_t size; /* 0: free */
} soak_op;

typedef struct soak_state {
    peer_ref peer;
    soak_op *ops;
    uint64_t allocations; /* of one pass over ops */
    void *slots[SLOTS];
    uint16_t sizes[SLOTS]; /* only of checked objects */
} soak_state;

typedef struct soak_window {
    double seconds, floor_ns;
    uint64_t allocations, frees;
    unsigned live;
    size_t rss_bytes;
} soak_window;

static struct {
    uint64_t windows;
    uint64_t window_ms;
    uint64_t touch_mb;
    bool paced;
} options;

/* ---- the load --------------------------------------------------------------------------------- */

static void make_sequence(soak_state *state, uint64_t window) {
    bench_rng rng = {suite.seed * UINT64_C(0x100000001) + window};
    state->allocations = 0;
    for (size_t i = 0; i < SEQUENCE; i++) {
        bool allocate = bench_rng_below(&rng, 100) < ALLOCATE_PERCENT;
        state->ops[i].slot = (uint16_t)bench_rng_below(&rng, SLOTS);
        state->ops[i].size = (uint16_t)(MIN_BYTES + bench_rng_below(&rng, MAX_BYTES - MIN_BYTES + 1));
        if (!allocate) state->ops[i].size = 0;
        state->allocations += allocate;
    }
}

static void check_and_free(soak_state *state, unsigned slot) {
    if (!suite_verify(state->slots[slot], state->sizes[slot], slot))
        suite_fail("the object of %u bytes in slot %u is not as it was written", state->sizes[slot], slot);
    if (!peer_free(state->peer, state->slots[slot]))
        suite_fail("the free of the live object %p was refused", state->slots[slot]);
}

typedef enum soak_mode { USUAL, CHECKED, FLOOR } soak_mode;

/* mode is a constant at every call. FLOOR: without the allocator; every object is the same memory. */
BENCH_INLINE void pass(soak_state *state, const soak_mode mode) {
    static _Alignas(16) char one_object[MAX_BYTES];
    peer_ref peer = state->peer;
    const soak_op *ops = state->ops;
    for (size_t i = 0; i < SEQUENCE; i++) {
        soak_op op = ops[i];
        void *object = state->slots[op.slot];
        if (object != NULL) {
            if (mode == CHECKED)
                check_and_free(state, op.slot);
            else if (mode == USUAL)
                peer_free(peer, object);
        }
        object = NULL;
        if (op.size != 0) {
            object = mode == FLOOR ? one_object : suite_alloc(peer, op.size);
            if (mode == CHECKED) {
                suite_fill(object, op.size, op.slot);
                state->sizes[op.slot] = op.size;
            } else {
                suite_touch(object);
            }
        }
        state->slots[op.slot] = object;
    }
}

static unsigned count_live(const soak_state *state) {
    unsigned live = 0;
    for (unsigned slot = 0; slot < SLOTS; slot++) live += state->slots[slot] != NULL;
    return live;
}

static soak_window run_window(soak_state *state, uint64_t number) {
    soak_window window = {0};
    unsigned live_before = count_live(state);
    uint64_t passes = 0, now_ns;
    make_sequence(state, number);
    uint64_t begin_ns = bench_now_ns(), end_ns = begin_ns + options.window_ms * 1000000u;
    do {
        if (suite.smoke)
            pass(state, CHECKED);
        else
            pass(state, USUAL);
        passes++;
        now_ns = bench_now_ns();
    } while (now_ns < end_ns);
    window.seconds = (double)(now_ns - begin_ns) * 1e-9;
    window.live = count_live(state);
    window.allocations = passes * state->allocations;
    window.frees = window.allocations + live_before - window.live;
    window.rss_bytes = bench_rss_bytes();
    return window;
}

/* Allocates, writes and frees as much: memory that the load may find touched, and the frees may have given back. */
static void touch(soak_state *state) {
    size_t count = options.touch_mb * 1000000 / TOUCHED_BYTES, bytes = count * sizeof(void *);
    void **objects = bench_map(bytes + 1);
    for (size_t i = 0; i < count; i++) {
        objects[i] = suite_alloc(state->peer, TOUCHED_BYTES);
        memset(objects[i], 1, TOUCHED_BYTES);
    }
    for (size_t i = 0; i < count; i++) peer_free(state->peer, objects[i]);
}

/* The median of passes without the allocator, for each call that they leave out. The slots are empty, before and after. */
static double measure_floor(soak_state *state) {
    enum { PASSES = 51 };
    double values[PASSES];
    make_sequence(state, 0);
    for (unsigned i = 0; i < PASSES; i++) {
        uint64_t calls = 2 * state->allocations + count_live(state), begin_ns = bench_now_ns();
        pass(state, FLOOR);
        uint64_t took_ns = bench_now_ns() - begin_ns;
        values[i] = (double)took_ns / (double)(calls - count_live(state));
    }
    memset(state->slots, 0, sizeof state->slots);
    return bench_median(values, PASSES);
}

/* ---- output ----------------------------------------------------------------------------------- */

static const char header[] =
    "allocator,epoch,throughput_ops_sec,seconds,allocations,frees,live_objects,rss_kib,floor_ns,version";

static void emit(suite_csv *csv, uint64_t number, const soak_window *w) {
    char line[256];
    snprintf(line, sizeof line, "%s,%llu,%.1f,%.6f,%llu,%llu,%u,%zu,%.3f,%s", SUITE_ALLOCATOR,
             (unsigned long long)number, (double)(w->allocations + w->frees) / w->seconds, w->seconds,
             (unsigned long long)w->allocations, (unsigned long long)w->frees, w->live, w->rss_bytes / 1024,
             w->floor_ns, suite.identity.version);
    suite_csv_line(csv, "%s", line);
    if (suite.csv == NULL) {
        puts(line);
        if (fflush(stdout) != 0) suite_fail("cannot write to the standard output");
    }
}

/* The next line of the standard input; false at its end. */
static bool wait_for_turn(void) {
    char c;
    ssize_t got;
    do {
        got = read(STDIN_FILENO, &c, 1);
    } while (got == 1 && c != '\n');
    return got == 1;
}

int main(int argc, char **argv) {
    static const suite_option extra[] = {
        {.name = "--windows",
         .value = "N",
         .help = "how many windows (default 300; --quick 20, --smoke 3)",
         .number = &options.windows,
         .low = 1,
         .high = 1000000},
        {.name = "--window_ms",
         .value = "N",
         .help = "how long each is (default 1000; --smoke 10)",
         .number = &options.window_ms,
         .low = 1,
         .high = 3600000},
        {.name = "--touch_mb",
         .value = "N",
         .help = "allocate, write and free so many MB before the first window (default 0)",
         .number = &options.touch_mb,
         .high = 100000},
        {.name = "--paced",
         .help = "begin each window when a line comes on the standard input, end when it ends",
         .flag = &options.paced},
    };
    static const suite_program program = {
        .name = "soak_mixed",
        .summary = "400 slots, 16-1040 bytes, 70 % of the operations allocate: throughput in windows. The windows go\n"
                   "to the standard output, or to --csv at the end.",
        .options = extra,
        .option_count = sizeof extra / sizeof extra[0],
    };
    static soak_state state;

    suite_begin(&program, argc, argv);
    if (options.windows == 0) options.windows = suite_amount(300, 20, 3);
    if (options.window_ms == 0) options.window_ms = suite_amount(1000, 1000, 10);
    suite_csv *csv = suite_csv_open(suite.csv, header);
    if (csv == NULL) puts(header);
    state.ops = bench_map(SEQUENCE * sizeof *state.ops);
    double floor_ns = measure_floor(&state);
    state.peer = peer_open();
    touch(&state);
    make_sequence(&state, 0); /* warms up, and fills the slots */
    pass(&state, suite.smoke ? CHECKED : USUAL);
    fflush(stdout);
    for (uint64_t number = 1; number <= options.windows && (!options.paced || wait_for_turn()); number++) {
        soak_window window = run_window(&state, number);
        window.floor_ns = floor_ns;
        emit(csv, number, &window);
        if (!options.paced)
            suite_progress(number == options.windows, "window %llu of %llu, %.2f M operations a second",
                           (unsigned long long)number, (unsigned long long)options.windows,
                           (double)(window.allocations + window.frees) / window.seconds * 1e-6);
    }
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        if (state.slots[slot] == NULL) continue;
        if (suite.smoke)
            check_and_free(&state, slot);
        else
            peer_free(state.peer, state.slots[slot]);
    }
    peer_close(state.peer);
    suite_csv_commit();
    return 0;
}
