/* tslab top: the epochs of a running program by label, like top(1). */
#include "advice/advice.h"
#include "base/utf8.h"
#include "common/target.h"
#include "common/text.h"
#include "tslab/holders.h"
#include "tslab/report.h"
#include "tslab/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

typedef enum order { BY_BYTES, BY_OBJECTS, BY_AGE, BY_LABEL, ORDERS } order;
static const char *const ORDER_NAMES[] = {"bytes", "objects", "age", "label"};

typedef struct options {
    double every;
    unsigned long frames; /* 0: for ever */
    bool batch;
    order order;
    const char *where;
} options;

static void help(FILE *to) {
    fputs("usage: tslab top [--batch] [--frames=N] [--every=SECONDS] [--sort=bytes|objects|age|label] [PID|URL|CORE]\n"
          "       tslab stats [OPTIONS] [PID|URL|CORE]       (tslab stats --help)\n"
          "       tslab doctor [OPTIONS] [PID|URL|CORE]...   (tslab doctor --help)\n"
          "       tslab run [OPTIONS] PROGRAM [ARGUMENTS]    (tslab run --help)\n"
          "       tslab help [COMMAND] | --help | -h | --version\n"
          "\n"
          "top: the epochs of a program that runs with TSLAB_SHM=1 (PID), or that serves its statistics (URL), by "
          "label.\n"
          "Without: the one process here that has a page. CORE: its core file. Keys: q ends, s the next order, b o a l "
          "an order,\n"
          "p stops and goes on. Columns that do not fit are left out; those that say of a leak stay longest.\n"
          "\n"
          "  --batch         plain text, one frame after the other; so it is when the output is no terminal, or one\n"
          "                  that cannot place its cursor (TERM=dumb)\n"
          "  --frames=N      ends after so many (batch: 1)\n"
          "  --every=S       seconds between two frames (1)\n"
          "  --sort=ORDER    bytes of slabs (default), live objects, age, label\n"
          "\n"
          "Exit code: 0; 2 wrong usage; 3 the program cannot be read.\n",
          to);
}

/* ---- a frame ------------------------------------------------------------------------------------------------------- */

static uint64_t bytes_of(const ts_label_stats *l) { return l->active_rss_bytes + l->closing_rss_bytes; }
static uint64_t objects_of(const ts_label_stats *l) {
    return l->active_live_objects + l->closing_live_objects + l->spilled_live_objects;
}
static uint64_t age_of(const ts_label_stats *l) {
    return l->active_age_ns > l->closing_age_ns ? l->active_age_ns : l->closing_age_ns;
}

static order sorted_by;

static int compare(const void *a, const void *b) {
    const ts_label_stats *x = *(const ts_label_stats *const *)a, *y = *(const ts_label_stats *const *)b;
    uint64_t p = 0, q = 0;
    if (sorted_by == BY_BYTES) p = bytes_of(x), q = bytes_of(y);
    if (sorted_by == BY_OBJECTS) p = objects_of(x), q = objects_of(y);
    if (sorted_by == BY_AGE) p = age_of(x), q = age_of(y);
    return p != q ? (p < q ? 1 : -1) : strcmp(ts_label_name(x), ts_label_name(y));
}

/* A line of the frame, no wider than the screen; `on` and `off` are not counted. */
typedef struct frame {
    ts_sink out;
    unsigned rows, columns, used;
    bool colours;
} frame;

/* As much of the text as `places` hold, what is no character as '?'. Returns how many are left. */
static unsigned put_shown(ts_sink *s, const char *text, unsigned places) {
    while (*text && places > 0) {
        size_t n = text_character(text);
        ts_put_bytes(s, n ? text : "?", n ? n : 1);
        size_t step = ts_utf8_length(text);
        text += step ? step : 1;
        places--;
    }
    return places;
}

static void line(frame *f, const char *text, const char *colour) {
    if (f->used >= f->rows) return;
    if (f->colours && f->used > 0) ts_put(&f->out, "\r\n");
    if (f->colours)
        ts_put(&f->out, "\033[K"); /* before the text: behind a full line it would take its last character */
    if (f->colours && colour) ts_put(&f->out, colour);
    (void)put_shown(&f->out, text, f->columns);
    if (f->colours && colour) ts_put(&f->out, "\033[0m");
    if (!f->colours) ts_put(&f->out, "\n");
    f->used++;
}

/* On as many lines as it takes, broken at spaces. */
static void wrapped(frame *f, const char *text, const char *colour) {
    while (*text) {
        char part[512];
        size_t n = 0, fits = 0;
        for (unsigned places = 0; text[n] && n < sizeof part - 4 && places < f->columns; places++) {
            size_t length = text_character(text + n);
            n += length ? length : 1;
            if (text[n] == ' ' || !text[n]) fits = n;
        }
        if (fits == 0) fits = n;
        memcpy(part, text, fits);
        part[fits] = 0;
        line(f, part, colour);
        text += fits + strspn(text + fits, " ");
    }
}

static void size_wide(ts_sink *s, uint64_t bytes, int width) {
    char text[32];
    ts_sink t = ts_sink_buffer(text, sizeof text);
    ts_put_size(&t, bytes);
    (void)ts_sink_end(&t);
    ts_put_wide(s, text, width);
}

static void duration_wide(ts_sink *s, uint64_t ns, int width) {
    char text[32];
    ts_sink t = ts_sink_buffer(text, sizeof text);
    if (ns)
        ts_put_duration(&t, ns);
    else
        ts_put(&t, "-");
    (void)ts_sink_end(&t);
    ts_put_wide(s, text, width);
}

/* Of the live bytes of open epochs; "-": not known yet. */
static void growth_wide(ts_sink *s, const ts_label_stats *l, int width) {
    char text[32];
    ts_sink t = ts_sink_buffer(text, sizeof text);
    int64_t more = l->growth_bytes_per_minute;
    if (l->growth_ns == 0) {
        ts_put(&t, "-");
    } else {
        if (more != 0) ts_put(&t, more < 0 ? "-" : "+");
        ts_put_size(&t, (uint64_t)(more < 0 ? -more : more));
    }
    (void)ts_sink_end(&t);
    ts_put_wide(s, text, width);
}

static void head(frame *f, const ts_view *v, const char *note) {
    char text[512];
    const SlabGlobalStats *g = &v->global;
    ts_sink s = ts_sink_buffer(text, sizeof text);
    ts_put(&s, "process ");
    ts_put_u64(&s, v->pid);
    ts_put(&s, "  resident ");
    ts_put_size(&s, g->resident_bytes);
    ts_put(&s, "  committed ");
    ts_put_size(&s, g->committed_bytes);
    ts_put(&s, "  warm ");
    ts_put_size(&s, g->retained_bytes);
    ts_put(&s, "  live ");
    ts_put_size(&s, g->live_bytes);
    ts_put(&s, " in ");
    ts_put_u64(&s, g->live_objects);
    ts_put(&s, " objects");
    (void)ts_sink_end(&s);
    line(f, text, NULL);
    s = ts_sink_buffer(text, sizeof text);
    ts_put(&s, "epochs: ");
    ts_put_u64(&s, g->active_epoch_count);
    ts_put(&s, " open, ");
    ts_put_u64(&s, g->closing_epoch_count);
    ts_put(&s, " closing  rejected frees ");
    ts_put_u64(&s, g->rejected_frees_total);
    ts_put(&s, "  purges ");
    ts_put_u64(&s, g->madvise_calls);
    ts_put(&s, "  by ");
    ts_put(&s, ORDER_NAMES[sorted_by]);
    ts_put(&s, note);
    (void)ts_sink_end(&s);
    line(f, text, NULL);
}

/* A line for each device that epochs are spilled to. */
static void zones(frame *f, const ts_view *v) {
    for (unsigned i = 0; i < v->zones_rows; i++) {
        const ts_zones_stats *z = &v->zones[i];
        char text[512];
        ts_sink s = ts_sink_buffer(text, sizeof text);
        ts_put(&s, "zones: ");
        ts_put_u64(&s, z->empty_zones);
        ts_put(&s, " empty, ");
        ts_put_u64(&s, z->active_zones);
        ts_put(&s, " active, ");
        ts_put_u64(&s, z->full_zones);
        ts_put(&s, " full, ");
        ts_put_u64(&s, z->failed_zones);
        ts_put(&s, " failed  spilled ");
        ts_put_size(&s, z->spilled_bytes);
        ts_put(&s, " in ");
        ts_put_u64(&s, z->spilled_epochs);
        ts_put(&s, " epochs  amplification ");
        ts_put_decimal(&s, z->write_amplification, 3, 2);
        ts_put(&s, "  fill at reset ");
        ts_put_decimal(&s, z->fill_at_reset, 3, 2);
        ts_put(&s, "  ");
        ts_put(&s, z->device);
        (void)ts_sink_end(&s);
        line(f, text, z->failed_zones ? "\033[33m" : NULL);
    }
}

/* All of them in a line, as far as it goes. */
static void nodes(frame *f, const ts_view *v) {
    if (v->node_rows == 0) return;
    char text[1024];
    ts_sink s = ts_sink_buffer(text, sizeof text);
    ts_put(&s, "nodes: ");
    for (unsigned i = 0; i < v->node_rows && i < TS_NODE_ROWS; i++) {
        ts_put(&s, i ? "  |  " : "");
        ts_put_u64(&s, (uint64_t)v->node[i].node);
        ts_put(&s, " has ");
        ts_put_size(&s, v->node[i].committed_bytes);
        ts_put(&s, ", ");
        ts_put_u64(&s, v->node[i].remote_frees_total);
        ts_put(&s, " remote frees");
    }
    (void)ts_sink_end(&s);
    line(f, text, NULL);
}

/* The columns behind the label, and which of them a narrow screen has: `rank` 1 goes first. */
enum { OPEN, CLOSING, SPILLED, OBJECTS, LIVE, SLABS, GROWTH, AGE, AFTER_CLOSE, COLUMNS };
static const struct {
    const char *title;
    unsigned width, rank;
} COLUMN[COLUMNS] = {{"OPEN", 8, 2},   {"CLOSING", 9, 4},   {"SPILLED", 10, 0}, {"OBJECTS", 11, 5},    {"LIVE", 10, 1},
                     {"SLABS", 10, 8}, {"A MINUTE", 11, 7}, {"AGE", 8, 3},      {"AFTER CLOSE", 12, 6}};
static unsigned lowest_rank; /* 0: there are spilled epochs; 1: the column is left out */
#define LABEL_WIDTH 31u
#define LABEL_WIDTH_MIN 22u

/* The places for a label, when the columns of rank `from` and above are shown. */
static unsigned label_width(const frame *f, unsigned *from) {
    unsigned columns = 0;
    for (unsigned c = 0; c < COLUMNS; c++)
        if (COLUMN[c].rank >= lowest_rank) columns += COLUMN[c].width;
    for (*from = lowest_rank; *from <= COLUMNS && columns + LABEL_WIDTH_MIN > f->columns; ++*from)
        for (unsigned c = 0; c < COLUMNS; c++)
            if (COLUMN[c].rank == *from) columns -= COLUMN[c].width;
    unsigned left = f->columns > columns ? f->columns - columns : 0;
    return left < LABEL_WIDTH ? left : LABEL_WIDTH;
}

static void put_cell(ts_sink *s, unsigned column, const ts_label_stats *l) {
    int width = (int)COLUMN[column].width;
    switch (column) {
    case OPEN: ts_put_u64_wide(s, l->active_epochs, width); break;
    case CLOSING: ts_put_u64_wide(s, l->closing_epochs, width); break;
    case SPILLED: size_wide(s, l->spilled_bytes, width); break;
    case OBJECTS: ts_put_u64_wide(s, objects_of(l), width); break;
    case LIVE: size_wide(s, l->active_live_bytes + l->closing_live_bytes + l->spilled_live_bytes, width); break;
    case SLABS: size_wide(s, bytes_of(l), width); break;
    case GROWTH: growth_wide(s, l, width); break;
    case AGE: duration_wide(s, age_of(l), width); break;
    default: duration_wide(s, l->closing_live_objects ? l->closing_for_ns : 0, width); break;
    }
}

/* A label's row; NULL: the titles. */
static void row(frame *f, const ts_label_stats *l) {
    char text[512];
    unsigned from, width = label_width(f, &from);
    ts_sink s = ts_sink_buffer(text, sizeof text);
    for (unsigned left = put_shown(&s, l ? ts_label_name(l) : "LABEL", width); left > 0; left--) ts_put(&s, " ");
    for (unsigned c = 0; c < COLUMNS; c++) {
        if (COLUMN[c].rank < from) continue;
        if (l)
            put_cell(&s, c, l);
        else
            ts_put_wide(&s, COLUMN[c].title, (int)COLUMN[c].width);
    }
    (void)ts_sink_end(&s);
    bool leaks = l && l->closing_live_objects && l->closing_for_ns >= 10000000000u;
    line(f, text, !l ? "\033[7m" : leaks ? "\033[31m" : NULL);
}

static void holder_line(void *arg, const char *text, bool is_title) { line(arg, text, is_title ? "\033[7m" : NULL); }

static void draw(frame *f, const ts_view *v, pid_t files_of, const char *note) {
    const ts_label_stats *rows[TS_VIEW_LABELS + 1];
    char text[512];
    head(f, v, note);
    nodes(f, v);
    zones(f, v);
    const ts_finding *findings = v->finding;
    for (unsigned i = 0; i < v->finding_count && i < 3; i++) {
        snprintf(text, sizeof text, "%s: %s", ts_severity_name(findings[i].severity), findings[i].what);
        wrapped(f, text,
                findings[i].severity == TS_CRITICAL  ? "\033[1;31m"
                : findings[i].severity == TS_WARNING ? "\033[33m"
                                                     : NULL);
    }
    lowest_rank = 1;
    for (unsigned i = 0; i < v->label_rows; i++)
        if (v->label[i].spilled_epochs) lowest_rank = 0;
    row(f, NULL);
    for (unsigned i = 0; i < v->label_rows; i++) rows[i] = &v->label[i];
    qsort(rows, v->label_rows, sizeof *rows, compare);
    for (unsigned i = 0; i < v->label_rows; i++) row(f, rows[i]);
    holders_show(v, files_of, holder_line, f);
}

/* ---- where from ------------------------------------------------------------------------------------------------------ */

/* The view of the page's allocator that holds most, or of the endpoint. NULL, and said: none. */
static const ts_view *fetch(const target *t, const char **note, char *note_text, size_t note_bytes) {
    static ts_page_bank bank;
    static ts_view from_url;
    *note = "";
    if (t->pid) {
        double age;
        uint32_t which = 0;
        if (!target_read_page(t, &bank)) return NULL;
        if (target_has_ended(t)) {
            say("process %ld has ended", (long)t->pid);
            return NULL;
        }
        if (bank.views == 0) {
            say("process %ld has no allocator now", (long)t->pid);
            return NULL;
        }
        for (uint32_t i = 1; i < bank.views; i++)
            if (bank.view[i].global.committed_bytes > bank.view[which].global.committed_bytes) which = i;
        if (t->is_core) *note = "  CORE FILE: as it was at its end";
        if (target_is_stale(t, &bank, &age)) {
            snprintf(note_text, note_bytes, "  STOPPED: as it was %.0f s ago", age);
            *note = note_text;
        }
        return &bank.view[which];
    }
    size_t length;
    char *body = target_get(t, "/view", NULL, &length);
    if (!body) return NULL;
    bool good = length == sizeof from_url;
    if (good) memcpy(&from_url, body, length);
    free(body);
    if (good && from_url.version == SLAB_STATS_VERSION && target_check_view(&from_url)) return &from_url;
    say("the program uses another version of the library than this tool");
    return NULL;
}

/* ---- the screen --------------------------------------------------------------------------------------------------------- */

static struct termios before;
static volatile sig_atomic_t screen_taken;

/* Functions for signal handlers too. */
static void give_screen_back(void) {
    if (!screen_taken) return;
    screen_taken = 0;
    (void)!write(STDOUT_FILENO, "\033[0m\033[?25h\033[?1049l", 18);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static bool take_screen(void) {
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) return false;
    screen_taken = 1;
    (void)!write(STDOUT_FILENO, "\033[?1049h\033[?25l", 14);
    return true;
}

static void on_resize(int number) { (void)number; } /* ends the wait for keys */

static void on_end(int number) {
    give_screen_back();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* Ctrl-Z: stops with the shell's screen, and takes its own again afterwards. */
static void on_stop(int number) {
    int error = errno;
    sigset_t stop;
    struct sigaction again, stopping = {.sa_handler = SIG_DFL};
    give_screen_back();
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, number);
    (void)sigaction(number, &stopping, &again);
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, &stop, NULL); /* it stops here */
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
    (void)sigaction(number, &again, NULL);
    (void)take_screen();
    errno = error;
}

static void handle(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler}, old;
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_IGN) return; /* as nohup wants it */
    (void)sigaction(number, &action, NULL);
}

static bool begin_screen(void) {
    if (tcgetattr(STDIN_FILENO, &before) != 0) return false;
    before_saying = give_screen_back;
    (void)atexit(give_screen_back);
    handle(SIGINT, on_end);
    handle(SIGTERM, on_end);
    handle(SIGHUP, on_end);
    handle(SIGQUIT, on_end);
    handle(SIGTSTP, on_stop);
    handle(SIGWINCH, on_resize);
    return take_screen();
}

static uint64_t now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

typedef enum event { TIME_IS_UP, DRAW_AGAIN, THE_END } event;

/* Waits for the time of the next frame, a key or another size. */
static event wait_until(uint64_t due_ms, bool *stopped) {
    struct pollfd in = {STDIN_FILENO, POLLIN, 0};
    uint64_t now = now_ms();
    char key;
    int n = poll(&in, 1, *stopped ? -1 : due_ms > now ? (int)(due_ms - now) : 0);
    if (n == 0) return TIME_IS_UP;
    if (n < 0) return errno == EINTR ? DRAW_AGAIN : THE_END;
    if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q') return THE_END;
    if (key == 'p') *stopped = !*stopped;
    if (key == 's') sorted_by = (order)((sorted_by + 1) % ORDERS);
    const char *at = key ? strchr("boal", key) : NULL;
    if (at) sorted_by = (order)(at - "boal");
    return DRAW_AGAIN;
}

/* 0, or why it could not be written. */
static int show(const ts_view *v, pid_t files_of, const char *note, bool screen) {
    static char buffer[65536];
    struct winsize size = {.ws_row = 0};
    if (screen) (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    frame f = {ts_sink_fd(STDOUT_FILENO, buffer, sizeof buffer), screen ? size.ws_row ? size.ws_row : 24 : 10000,
               screen ? size.ws_col ? size.ws_col : 80 : 1000, 0, screen};
    if (screen) ts_put(&f.out, "\033[H");
    draw(&f, v, files_of, note);
    if (screen && f.used < f.rows) ts_put(&f.out, "\r\n\033[J");
    if (ts_sink_end(&f.out) != 0 || f.out.error == EINTR) return 0;
    return f.out.error ? f.out.error : EIO;
}

static pid_t files_of(const target *t) { return t->is_core ? 0 : t->pid; }

static int run_on_screen(const options *o, const target *t) {
    char note_text[64];
    const char *note;
    bool stopped = false;
    for (unsigned long n = 0; o->frames == 0 || n < o->frames; n++) {
        const ts_view *v = fetch(t, &note, note_text, sizeof note_text);
        if (!v) return EXIT_NO_TARGET;
        if (!screen_taken && !begin_screen()) {
            say("the terminal cannot be set: %s", strerror(errno));
            return EXIT_NO_TARGET;
        }
        uint64_t due = now_ms() + (uint64_t)(o->every * 1000);
        event e;
        do {
            if (show(v, files_of(t), stopped ? "  PAUSED" : note, true) != 0) return EXIT_DONE;
            if (n + 1 == o->frames) return EXIT_DONE;
            e = wait_until(due, &stopped);
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
        const ts_view *v = fetch(t, &note, note_text, sizeof note_text);
        if (!v) return EXIT_NO_TARGET;
        if (n > 0) (void)!write(STDOUT_FILENO, "\n", 1);
        int error = show(v, files_of(t), note, false);
        if (error == EPIPE) return EXIT_DONE; /* who reads has enough */
        if (error != 0) {
            say("stdout: %s", strerror(error));
            return EXIT_NO_TARGET;
        }
    }
    return EXIT_DONE;
}

static int top(const options *o) {
    target t;
    int code = target_open(&t, o->where);
    if (code != EXIT_DONE) return code;
    sorted_by = o->order;
    code = o->batch || !target_has_screen() || !isatty(STDIN_FILENO) ? run_as_text(o, &t) : run_on_screen(o, &t);
    give_screen_back();
    target_close(&t);
    return code;
}

/* ---- the command line ------------------------------------------------------------------------------------------------------ */

static int wrong(const char *what, const char *argument) {
    say("%s '%s'; see tslab --help", what, argument);
    return EXIT_USAGE;
}

static int parse_top(int argc, char **argv, options *o) {
    for (int i = 2; i < argc; i++) {
        const char *a = argv[i];
        char *end = NULL;
        errno = 0;
        if (strcmp(a, "--batch") == 0) {
            o->batch = true;
        } else if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
            help(stdout);
            return EXIT_DONE;
        } else if (strncmp(a, "--frames=", 9) == 0) {
            o->frames = strtoul(a + 9, &end, 10);
            if (errno || end == a + 9 || *end || a[9] == '-' || o->frames == 0) return wrong("not a number from 1:", a);
        } else if (strncmp(a, "--every=", 8) == 0) {
            o->every = strtod(a + 8, &end);
            if (errno || end == a + 8 || *end || !(o->every >= 0.05 && o->every <= 86400))
                return wrong("not a number of seconds from 0.05 to 86400:", a);
        } else if (strncmp(a, "--sort=", 7) == 0) {
            unsigned k = 0;
            while (k < ORDERS && strcmp(a + 7, ORDER_NAMES[k]) != 0) k++;
            if (k == ORDERS) return wrong("not one of bytes, objects, age, label:", a);
            o->order = (order)k;
        } else if (a[0] == '-') {
            return wrong("unknown option", a);
        } else if (o->where) {
            return wrong("more than one PID or URL: also", a);
        } else {
            o->where = a;
        }
    }
    return -1;
}

static int command(int argc, char **argv) {
    options o = {.every = 1};
    if (argc < 2) {
        help(stderr);
        return EXIT_USAGE;
    }
    char help_option[] = "--help", *of_command[] = {argv[0], NULL, help_option, NULL};
    if (strcmp(argv[1], "help") == 0 && argc > 2) { /* as COMMAND --help */
        of_command[1] = argv[2];
        argv = of_command;
        argc = 3;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("tslab %s\n", slab_version());
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "run") == 0) return ts_run(argc, argv);
    if (strcmp(argv[1], "stats") == 0) return ts_stats(argc, argv);
    if (strcmp(argv[1], "doctor") == 0) return ts_doctor_of(argc, argv);
    if (strcmp(argv[1], "top") != 0) return wrong("unknown command", argv[1]);
    int code = parse_top(argc, argv, &o);
    return code >= 0 ? code : top(&o);
}

int main(int argc, char **argv) { return tool_end(command(argc, argv)); }
