/* tslab stats, tslab doctor: statistics and findings of running programs, from its page in shared memory or its
   endpoint. */
#include "advice/advice.h"
#include "common/endpoint.h"
#include "common/options.h"
#include "common/symbols.h"
#include "common/target.h"
#include "common/text.h"
#include "tslab/commands.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef enum format { TEXT, JSON, PROMETHEUS, OPENMETRICS, DOCTOR, STACKS } format;

/* By format: where an endpoint has it. */
static const char *const PATHS[] = {"/stats.txt", "/stats.json", "/metrics", "/metrics", "/doctor.txt", "/stacks.txt"};

typedef struct options {
    format format;
    double every;   /* seconds; 0: once */
    long allocator; /* number, -1: the one with the most memory */
    char **where;
    int count; /* of them */
} options;

static bool print(const char *text, size_t length) {
    if (fwrite(text, 1, length, stdout) == length && fflush(stdout) == 0) return true;
    if (errno != EPIPE) say("stdout: %s", strerror(errno));
    return false;
}

/* With lines of the source in the place of addresses. */
static bool print_resolved(const char *text, pid_t pid) {
    char *resolved = symbols_resolve(text, pid);
    const char *shown = resolved ? resolved : text;
    bool printed = print(shown, strlen(shown));
    free(resolved);
    return printed;
}

static int render_places(const ts_view *view, format f, char *buffer, size_t bytes, int *worst) {
    ts_sink sink = ts_sink_buffer(buffer, bytes);
    if (f == DOCTOR)
        *worst = ts_render_doctor(&sink, view);
    else
        ts_render_stacks(&sink, view);
    return (int)ts_sink_end(&sink);
}

/* What has addresses in it. */
static int show_places(const ts_view *view, format f, pid_t files_of) {
    int worst = -1, length = render_places(view, f, NULL, 0, &worst);
    char *text = malloc((size_t)length + 1);
    if (!text) {
        say("no memory");
        return EXIT_NO_TARGET;
    }
    (void)render_places(view, f, text, (size_t)length + 1, &worst);
    bool printed = print_resolved(text, files_of);
    free(text);
    if (!printed) return EXIT_NO_TARGET;
    return worst >= TS_WARNING ? EXIT_FINDINGS : EXIT_DONE;
}

/* files_of: the process in whose file system the program's files are, 0: this one's. */
static int render(const ts_view *view, format f, pid_t files_of) {
    static char buffer[65536];
    if (f == DOCTOR || f == STACKS) return show_places(view, f, files_of);
    ts_sink sink = ts_sink_fd(STDOUT_FILENO, buffer, sizeof buffer);
    switch (f) {
    case JSON:
        ts_render_json(&sink, view);
        ts_put(&sink, "\n");
        break;
    case PROMETHEUS: ts_render_prometheus(&sink, view, false); break;
    case OPENMETRICS: ts_render_prometheus(&sink, view, true); break;
    default: ts_render_text(&sink, view); break;
    }
    if (ts_sink_end(&sink) == 0) {
        if (sink.error != EPIPE) say("stdout: %s", strerror(sink.error));
        return EXIT_NO_TARGET;
    }
    return EXIT_DONE;
}

static int dump_page(const target *t, const options *o) {
    static ts_page_bank bank;
    double age;
    if (!target_read_page(t, &bank)) return EXIT_NO_TARGET;
    if (target_has_ended(t)) {
        say("process %ld has ended", (long)t->pid);
        return EXIT_NO_TARGET;
    }
    if (bank.views == 0) {
        say("process %ld has no allocator now", (long)t->pid);
        return EXIT_NO_TARGET;
    }
    if (o->allocator >= (long)bank.views) {
        say("process %ld shows %u allocators, from 0: there is no %ld", (long)t->pid, bank.views, o->allocator);
        return EXIT_USAGE;
    }
    uint32_t which = 0;
    for (uint32_t i = 1; i < bank.views; i++)
        if (bank.view[i].global.committed_bytes > bank.view[which].global.committed_bytes) which = i;
    if (o->allocator >= 0) which = (uint32_t)o->allocator;
    if (target_is_stale(t, &bank, &age))
        say("the page was written %.1f s ago: process %ld is stopped", age, (long)t->pid);
    if (o->allocator < 0 && bank.allocators > 1)
        say("allocator %u of %u, the one that holds most of the first %u (--allocator=N for another)", which,
            bank.allocators, bank.views);
    return render(&bank.view[which], o->format, t->is_core ? 0 : t->pid);
}

static int dump_url(const target *t, const options *o) {
    size_t length;
    char *body = endpoint_get(t, PATHS[o->format],
                              o->format == OPENMETRICS ? "application/openmetrics-text; version=1.0.0" : NULL, &length);
    if (!body) return EXIT_NO_TARGET;
    length = text_tame(body, length, true);
    bool written;
    if (o->format == DOCTOR || o->format == STACKS)
        written = print_resolved(body, 0);
    else
        written = print(body, length) && (o->format != JSON || print("\n", 1));
    bool found = strstr(body, ". warning: ") != NULL || strstr(body, ". critical: ") != NULL;
    free(body);
    if (!written) return EXIT_NO_TARGET;
    return o->format == DOCTOR && found ? EXIT_FINDINGS : EXIT_DONE;
}

/* One of the programs; which of them is said if there are several. */
static int dump_one(const options *o, const char *where) {
    target t;
    int code = target_open(&t, where);
    if (code == EXIT_DONE && !t.pid && o->allocator >= 0)
        code = option_wrong("--allocator is of a process, which shows all of them; this address shows one:", where);
    if (code == EXIT_DONE && o->count > 1) {
        char line[600];
        int n = snprintf(line, sizeof line, "%s %s:\n", t.is_core ? "core file" : t.pid ? "process" : "program", where);
        (void)text_tame(line, strlen(line), true);
        if (!print(line, n > 0 && (size_t)n < sizeof line ? (size_t)n : strlen(line))) code = EXIT_NO_TARGET;
    }
    if (code == EXIT_DONE) code = t.pid ? dump_page(&t, o) : dump_url(&t, o);
    target_close(&t);
    return code;
}

/* The worst of what there is to say: what cannot be read is worse than what is found. */
static int dump_all(const options *o) {
    int worst = EXIT_DONE;
    for (int i = 0; i < o->count; i++) {
        int code = dump_one(o, o->where[i]);
        if (code > worst) worst = code;
        if (i + 1 < o->count && code <= EXIT_FINDINGS && !print("\n", 1)) return EXIT_NO_TARGET;
    }
    return o->count ? worst : dump_one(o, NULL);
}

static int run(const options *o) {
    bool clear = target_has_screen() && o->every > 0;
    for (;;) {
        if (clear && write(STDOUT_FILENO, "\033[H\033[2J", 7) != 7) return EXIT_NO_TARGET;
        int code = dump_all(o);
        if (o->every <= 0 || code > EXIT_FINDINGS) return code;
        const struct timespec wait = {(time_t)o->every, (long)((o->every - (double)(time_t)o->every) * 1e9)};
        (void)nanosleep(&wait, NULL);
    }
}

/* ---- the commands ------------------------------------------------------------------------------------------------ */

static void help_stats(void) {
    printf("usage: %s [--text|--json|--prometheus|--openmetrics|--doctor|--stacks]\n"
           "          [--watch[=SECONDS]] [--allocator=N] [PID|URL|CORE]\n"
           "\n"
           "Statistics of a program that uses temporal-slab and runs with TSLAB_SHM=1 (PID), or that serves them\n"
           "(URL, such as http://127.0.0.1:9464), or from its core file, as it was when it ended (CORE, of one with\n"
           "TSLAB_SHM=1). Without: the one process here that has a page.\n"
           "\n"
           "  --text          all figures for people (default)\n"
           "  --json          all figures; keys are the names of docs/stats.md\n"
           "  --prometheus    metrics in Prometheus's text format\n"
           "  --openmetrics   metrics in the format OpenMetrics\n"
           "  --doctor        what is wrong, worst first, with evidence and advice\n"
           "  --stacks        which lines allocated what is live (of a program with TSLAB_SAMPLE_STACKS)\n"
           "  --watch[=S]     again every S seconds (1)\n"
           "  --allocator=N   of a PID: its N-th allocator, from 0 to 7 (of these the one that holds most)\n"
           "  --help, --version\n"
           "\n"
           "Exit code: 0; 1 --doctor found a warning or worse; 2 wrong usage; 3 the program cannot be read.\n",
           option_command);
}

static void help_doctor(void) {
    fputs("usage: tslab doctor [--watch[=SECONDS]] [--allocator=N] [PID|URL|CORE]...\n"
          "\n"
          "What is wrong with programs that run with TSLAB_SHM=1 (PID), or that serve their statistics (URL): worst\n"
          "first, with evidence, advice, and the lines that allocated it where stacks are sampled. Several programs\n"
          "are several reports.\n"
          "Exit code: 0; 1 a warning or worse was found; 2 wrong usage; 3 a program cannot be read.\n",
          stdout);
}

enum { NO_FORMAT = STACKS + 1, WATCH, ALLOCATOR, VERSION };
static const struct option KNOWN[] = {{"text", no_argument, NULL, TEXT},
                                      {"json", no_argument, NULL, JSON},
                                      {"prometheus", no_argument, NULL, PROMETHEUS},
                                      {"openmetrics", no_argument, NULL, OPENMETRICS},
                                      {"doctor", no_argument, NULL, DOCTOR},
                                      {"stacks", no_argument, NULL, STACKS},
                                      {"watch", optional_argument, NULL, WATCH},
                                      {"allocator", required_argument, NULL, ALLOCATOR},
                                      {"version", no_argument, NULL, VERSION},
                                      {"help", no_argument, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

/* doctor: the format is chosen, and there may be several programs. -1: go on; else the exit code. */
static int parse(int argc, char **argv, options *o, bool doctor) {
    bool chosen = false;
    unsigned long number;
    for (int c; (c = option_next(argc, argv, doctor ? KNOWN + NO_FORMAT : KNOWN)) != -1;) {
        switch (c) {
        case WATCH:
            o->every = 1;
            if (optarg && !seconds_of(optarg, &o->every)) return option_wrong(SECONDS_WANTED, option_text(argv));
            break;
        case ALLOCATOR:
            if (!number_of(optarg, 0, &number) || number > LONG_MAX)
                return option_wrong("not a number:", option_text(argv));
            o->allocator = (long)number;
            break;
        case VERSION: printf("%s %s\n", tool_name, slab_version()); return EXIT_DONE;
        case 'h': doctor ? help_doctor() : help_stats(); return EXIT_DONE;
        case '?':
        case ':': return option_bad(c, argv);
        default:
            if (chosen && o->format != (format)c) return option_wrong("two formats: also", option_text(argv));
            o->format = (format)c;
            chosen = true;
        }
    }
    o->where = argv + optind;
    o->count = argc - optind;
    if (!doctor && o->count > 1) return option_wrong("more than one PID or URL: also", o->where[1]);
    return -1;
}

static int parse_and_run(int argc, char **argv, bool doctor) {
    options o = {.format = doctor ? DOCTOR : TEXT, .allocator = -1};
    int code = parse(argc, argv, &o, doctor);
    return code >= 0 ? code : run(&o);
}

int command_stats(int argc, char **argv) { return parse_and_run(argc, argv, false); }
int command_doctor(int argc, char **argv) { return parse_and_run(argc, argv, true); }
