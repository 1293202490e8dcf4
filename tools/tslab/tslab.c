/* tslab top: the epochs of a running program by label, like top(1). */
#include "common/target.h"

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

static struct termios before;
static bool screen_taken;

static void help(FILE *to) {
    fputs("usage: tslab top [--batch] [--frames=N] [--every=SECONDS] [--sort=bytes|objects|age|label] [PID|URL]\n"
          "       tslab --help | --version\n"
          "\n"
          "The epochs of a program that runs with TSLAB_SHM=1 (PID), or that serves its statistics (URL), by label.\n"
          "Without either: the one process here that has a page. Keys: q ends, s the next order, b o a l an order,\n"
          "p stops and goes on.\n"
          "\n"
          "  --batch         plain text, one frame after the other; so it is when the output is no terminal\n"
          "  --frames=N      ends after so many (batch: 1)\n"
          "  --every=S       seconds between two frames (1)\n"
          "  --sort=ORDER    bytes of slabs (default), live objects, age, label\n"
          "\n"
          "Exit code: 0; 2 wrong usage; 3 the program cannot be read.\n",
          to);
}

/* ---- a frame ------------------------------------------------------------------------------------------------------- */

static uint64_t bytes_of(const ts_label_stats *l) { return l->active_rss_bytes + l->closing_rss_bytes; }
static uint64_t objects_of(const ts_label_stats *l) { return l->active_live_objects + l->closing_live_objects; }
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

static void line(frame *f, const char *text, const char *colour) {
    unsigned places = 0;
    if (f->used >= f->rows) return;
    if (f->colours && colour) ts_put(&f->out, colour);
    for (const char *c = text; *c; c++) {
        places += ((unsigned char)*c & 0xc0) != 0x80;
        if (places > f->columns) break;
        ts_put_bytes(&f->out, c, 1);
    }
    if (f->colours) ts_put(&f->out, colour ? "\033[0m\033[K" : "\033[K");
    f->used++;
    ts_put(&f->out, f->colours && f->used < f->rows ? "\r\n" : f->colours ? "" : "\n");
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

static void draw(frame *f, const ts_view *v, const char *note) {
    const ts_label_stats *rows[TS_VIEW_LABELS + 1];
    char text[512];
    head(f, v, note);
    const ts_finding *findings = v->finding;
    for (unsigned i = 0; i < v->finding_count && i < 3; i++) {
        snprintf(text, sizeof text, "%s: %s", ts_severity_name(findings[i].severity), findings[i].what);
        line(f, text, findings[i].severity == TS_CRITICAL ? "\033[1;31m" : findings[i].severity == TS_WARNING ? "\033[33m" : NULL);
    }
    line(f, "LABEL                              OPEN  CLOSING      OBJECTS       LIVE      SLABS       AGE  AFTER CLOSE",
         "\033[7m");
    for (unsigned i = 0; i < v->label_rows; i++) rows[i] = &v->label[i];
    qsort(rows, v->label_rows, sizeof *rows, compare);
    for (unsigned i = 0; i < v->label_rows; i++) {
        const ts_label_stats *l = rows[i];
        ts_sink s = ts_sink_buffer(text, sizeof text);
        ts_put_wide(&s, ts_label_name(l), -31);
        ts_put_u64_wide(&s, l->active_epochs, 8);
        ts_put_u64_wide(&s, l->closing_epochs, 9);
        ts_put_u64_wide(&s, objects_of(l), 13);
        size_wide(&s, l->active_live_bytes + l->closing_live_bytes, 11);
        size_wide(&s, bytes_of(l), 11);
        duration_wide(&s, age_of(l), 10);
        duration_wide(&s, l->closing_live_objects ? l->closing_for_ns : 0, 13);
        (void)ts_sink_end(&s);
        bool leaks = l->closing_live_objects && l->closing_for_ns >= 10000000000u;
        line(f, text, leaks ? "\033[31m" : NULL);
    }
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
        if (bank.views == 0) {
            say("process %ld has no allocator now", (long)t->pid);
            return NULL;
        }
        for (uint32_t i = 1; i < bank.views; i++)
            if (bank.view[i].global.committed_bytes > bank.view[which].global.committed_bytes) which = i;
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
    if (good && from_url.magic == TS_VIEW_MAGIC && from_url.version == SLAB_STATS_VERSION &&
        from_url.bytes == sizeof from_url && from_url.label_rows <= TS_VIEW_LABELS + 1 &&
        from_url.epoch_rows <= TS_VIEW_EPOCHS && from_url.finding_count <= TS_FINDINGS)
        return &from_url;
    say("the program uses another version of the library than this tool");
    return NULL;
}

/* ---- the screen --------------------------------------------------------------------------------------------------------- */

static void give_screen_back(void) {
    if (!screen_taken) return;
    screen_taken = false;
    (void)!write(STDOUT_FILENO, "\033[?25h\033[?1049l", 14);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void on_end(int number) {
    give_screen_back();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static bool take_screen(void) {
    if (tcgetattr(STDIN_FILENO, &before) != 0) return false;
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) return false;
    screen_taken = true;
    (void)atexit(give_screen_back);
    (void)signal(SIGINT, on_end);
    (void)signal(SIGTERM, on_end);
    (void)!write(STDOUT_FILENO, "\033[?1049h\033[?25l", 14);
    return true;
}

/* Waits for the next frame, taking keys. false: the end. */
static bool wait_for_keys(options *o, bool *stopped) {
    struct pollfd in = {STDIN_FILENO, POLLIN, 0};
    int left = (int)(o->every * 1000);
    do {
        char key;
        int n = poll(&in, 1, left);
        if (n < 0 && errno != EINTR) return false;
        if (n <= 0 && !*stopped) return true;
        if (n <= 0) continue;
        if (read(STDIN_FILENO, &key, 1) != 1) return false;
        if (key == 'q') return false;
        if (key == 'p') *stopped = !*stopped;
        if (key == 's') sorted_by = (order)((sorted_by + 1) % ORDERS);
        const char *at = strchr("boal", key);
        if (key && at) sorted_by = (order)(at - "boal");
        if (!*stopped) return true;
    } while (*stopped);
    return true;
}

static int top(options *o) {
    static char buffer[65536];
    target t;
    bool stopped = false;
    int code = target_open(&t, o->where);
    if (code != EXIT_DONE) return code;
    bool batch = o->batch || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO);
    if (batch && o->frames == 0) o->frames = 1;
    sorted_by = o->order;
    for (unsigned long n = 0; o->frames == 0 || n < o->frames; n++) {
        char note_text[64];
        const char *note;
        if (n > 0 && batch) {
            const struct timespec wait = {(time_t)o->every, (long)((o->every - (double)(time_t)o->every) * 1e9)};
            (void)nanosleep(&wait, NULL);
        } else if (n > 0 && !wait_for_keys(o, &stopped)) {
            break;
        }
        const ts_view *v = fetch(&t, &note, note_text, sizeof note_text);
        if (!v) {
            code = EXIT_NO_TARGET;
            break;
        }
        if (!batch && !screen_taken && !take_screen()) batch = true;
        struct winsize size = {.ws_row = 24, .ws_col = 80};
        if (!batch) (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        frame f = {ts_sink_fd(STDOUT_FILENO, buffer, sizeof buffer), batch ? 10000 : size.ws_row ? size.ws_row : 24,
                   batch ? 1000 : size.ws_col ? size.ws_col : 80, 0, !batch};
        if (!batch) ts_put(&f.out, "\033[H");
        if (batch && n > 0) ts_put(&f.out, "\n");
        draw(&f, v, note);
        if (!batch) ts_put(&f.out, "\033[J");
        if (ts_sink_end(&f.out) == 0) break;
    }
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
        } else if (strcmp(a, "--help") == 0) {
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

int main(int argc, char **argv) {
    options o = {.every = 1};
    if (argc < 2) {
        help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0) {
        help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("tslab %s\n", slab_version());
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "top") != 0) return wrong("unknown command", argv[1]);
    int code = parse_top(argc, argv, &o);
    return code >= 0 ? code : top(&o);
}
