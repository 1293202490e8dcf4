/* tslab top: the epochs of a running program by label, like top(1). */
#include "common/endpoint.h"
#include "common/options.h"
#include "common/target.h"
#include "tslab/commands.h"
#include "tslab/frame.h"
#include "tslab/screen.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

typedef struct options {
    double every;
    unsigned long frames; /* 0: for ever */
    bool batch;
    frame_order order;
    long allocator; /* number, -1: all of them */
    const char *where;
} options;

/* Those that the endpoint shows. false, and said: none. */
static bool fetch_url(const target *t, ts_views *out) {
    static ts_view view[TS_VIEWS];
    size_t length;
    char *body = endpoint_get(t, "/view", NULL, &length);
    if (!body) return false;
    size_t count = length / sizeof *view;
    bool good = length > 0 && length % sizeof *view == 0 && count <= TS_VIEWS;
    if (good) memcpy(view, body, length);
    free(body);
    for (size_t i = 0; good && i < count; i++)
        good = view[i].version == SLAB_STATS_VERSION && target_check_view(&view[i]);
    if (!good) say("the program uses another version of the library than this tool");
    return good && target_choose(view, (uint32_t)count, (uint32_t)count, -1, out) == EXIT_DONE;
}

/* The views of the page or of the endpoint. EXIT_DONE; else an exit code, and said. */
static int fetch(const target *t, long allocator, ts_views *out, const char **note, char *note_text,
                 size_t note_bytes) {
    *note = "";
    if (!t->pid) {
        ts_views all;
        if (!fetch_url(t, &all)) return EXIT_NO_TARGET;
        *out = all;
        for (unsigned i = 0; i < all.count && allocator >= 0; i++)
            if (all.at[i]->number == (unsigned long)allocator) *out = ts_views_of(all.at[i]);
        if (allocator < 0 || (out->count == 1 && out->at[0]->number == (unsigned long)allocator)) return EXIT_DONE;
        say("the program has %u allocators, from 0: there is no %ld", all.count, allocator);
        return EXIT_USAGE;
    }
    double age;
    int code = target_read_views(t, allocator, out, &age);
    if (code != EXIT_DONE) return code;
    if (t->is_core) *note = "  CORE FILE: as it was at its end";
    if (age > 0) {
        snprintf(note_text, note_bytes, "  STOPPED: as it was %.0f s ago", age);
        *note = note_text;
    }
    return EXIT_DONE;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static uint64_t now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

typedef enum event { TIME_IS_UP, DRAW_AGAIN, THE_END } event;

/* Waits for the time of the next frame, a key or another size. */
static event wait_until(uint64_t due_ms, bool *stopped, frame_order *order) {
    struct pollfd in = {STDIN_FILENO, POLLIN, 0};
    uint64_t now = now_ms();
    char key;
    int n = poll(&in, 1, *stopped ? -1 : due_ms > now ? (int)(due_ms - now) : 0);
    if (n == 0) return TIME_IS_UP;
    if (n < 0) return errno == EINTR ? DRAW_AGAIN : THE_END;
    if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q') return THE_END;
    if (key == 'p') *stopped = !*stopped;
    if (key == 's') *order = (frame_order)((*order + 1) % ORDERS);
    const char *at = key ? strchr("boal", key) : NULL;
    if (at) *order = (frame_order)(at - "boal");
    return DRAW_AGAIN;
}

/* 0, or why it could not be written. */
static int show(const ts_views *v, frame_order order, pid_t files_of, const char *note, bool screen) {
    static char buffer[65536];
    struct winsize size = {.ws_row = 0};
    if (screen) (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    frame f = {ts_sink_fd(STDOUT_FILENO, buffer, sizeof buffer), screen ? size.ws_row ? size.ws_row : 24 : 10000,
               screen ? size.ws_col ? size.ws_col : 80 : 1000, 0, screen};
    if (screen) ts_put(&f.out, "\033[H");
    frame_draw(&f, v, order, files_of, note);
    if (screen && f.used < f.rows) ts_put(&f.out, "\r\n\033[J");
    if (ts_sink_end(&f.out) != 0 || f.out.error == EINTR) return 0;
    return f.out.error ? f.out.error : EIO;
}

static pid_t files_of(const target *t) { return t->is_core ? 0 : t->pid; }

static int run_on_screen(const options *o, const target *t) {
    char note_text[64];
    const char *note;
    bool stopped = false;
    frame_order order = o->order;
    for (unsigned long n = 0; o->frames == 0 || n < o->frames; n++) {
        ts_views views;
        int code = fetch(t, o->allocator, &views, &note, note_text, sizeof note_text);
        if (code != EXIT_DONE) return code;
        if (!screen_begin()) {
            say("the terminal cannot be set: %s", strerror(errno));
            return EXIT_NO_TARGET;
        }
        uint64_t due = now_ms() + (uint64_t)(o->every * 1000);
        event e;
        do {
            if (show(&views, order, files_of(t), stopped ? "  PAUSED" : note, true) != 0) return EXIT_DONE;
            if (n + 1 == o->frames) return EXIT_DONE;
            e = wait_until(due, &stopped, &order);
        } while (e == DRAW_AGAIN);
        if (e == THE_END) break;
    }
    return EXIT_DONE;
}

static int run_as_text(const options *o, const target *t) {
    char note_text[64];
    const char *note;
    for (unsigned long n = 0; n < (o->frames ? o->frames : 1); n++) {
        const struct timespec wait = {(time_t)o->every, (long)((o->every - (double)(time_t)o->every) * 1e9)};
        if (n > 0) (void)nanosleep(&wait, NULL);
        ts_views views;
        int code = fetch(t, o->allocator, &views, &note, note_text, sizeof note_text);
        if (code != EXIT_DONE) return code;
        if (n > 0) (void)!write(STDOUT_FILENO, "\n", 1);
        int error = show(&views, o->order, files_of(t), note, false);
        if (error == EPIPE) return EXIT_DONE; /* the reader has enough */
        if (error != 0) {
            say("stdout: %s", strerror(error));
            return EXIT_NO_TARGET;
        }
    }
    return EXIT_DONE;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static const char HELP[] =
    "usage: tslab top [--batch] [--frames=N] [--every=SECONDS] [--sort=bytes|objects|age|label]\n"
    "          [--allocator=N] [PID|URL|CORE]\n"
    "\n"
    "The epochs of a program that runs with TSLAB_SHM=1 (PID), or that serves its statistics (URL), by label.\n"
    "Without: the one process here that has a page. CORE: its core file. Keys: q ends, s the next order, b o a l an\n"
    "order, p stops and goes on. Columns that do not fit are left out; those that say of a leak stay longest.\n"
    "\n"
    "  --batch         plain text, one frame after the other; so it is when the output is no terminal, or one\n"
    "                  that cannot place its cursor (TERM=dumb)\n"
    "  --frames=N      ends after so many (batch: 1)\n"
    "  --every=S       seconds between two frames (1)\n"
    "  --sort=ORDER    bytes of slabs (default), live objects, age, label\n"
    "  --allocator=N   the allocator with that number alone, from 0 (else all of them)\n"
    "\n"
    "Exit code: 0; 2 wrong usage; 3 the program cannot be read.\n";

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, options *o) {
    static const struct option known[] = {{"batch", no_argument, NULL, 'B'},
                                          {"frames", required_argument, NULL, 'F'},
                                          {"every", required_argument, NULL, 'E'},
                                          {"sort", required_argument, NULL, 'S'},
                                          {"allocator", required_argument, NULL, 'A'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    for (int c; (c = option_next(argc, argv, known)) != -1;) {
        unsigned k = 0;
        unsigned long number;
        switch (c) {
        case 'B': o->batch = true; break;
        case 'F':
            if (!number_of(optarg, 1, &o->frames)) return option_wrong("not a number from 1:", option_text(argv));
            break;
        case 'E':
            if (!seconds_of(optarg, &o->every)) return option_wrong(SECONDS_WANTED, option_text(argv));
            break;
        case 'S':
            while (k < ORDERS && strcmp(optarg, FRAME_ORDERS[k]) != 0) k++;
            if (k == ORDERS) return option_wrong("not one of bytes, objects, age, label:", option_text(argv));
            o->order = (frame_order)k;
            break;
        case 'A':
            if (!number_of(optarg, 0, &number) || number > LONG_MAX)
                return option_wrong("not a number:", option_text(argv));
            o->allocator = (long)number;
            break;
        case 'h': fputs(HELP, stdout); return EXIT_DONE;
        default: return option_bad(c, argv);
        }
    }
    if (argc - optind > 1) return option_wrong("more than one PID or URL: also", argv[optind + 1]);
    o->where = argv[optind];
    return -1;
}

int command_top(int argc, char **argv) {
    options o = {.every = 1, .allocator = -1};
    target t;
    int code = parse(argc, argv, &o);
    if (code >= 0) return code;
    code = target_open(&t, o.where);
    if (code != EXIT_DONE) return code;
    code = o.batch || !target_has_screen() || !isatty(STDIN_FILENO) ? run_as_text(&o, &t) : run_on_screen(&o, &t);
    screen_give_back();
    target_close(&t);
    return code;
}
