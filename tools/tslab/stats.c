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
    long allocator; /* number, -1: all of them */
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

static int render_places(const ts_views *views, format f, char *buffer, size_t bytes, int *worst) {
    ts_sink sink = ts_sink_buffer(buffer, bytes);
    if (f == DOCTOR)
        *worst = ts_render_doctor(&sink, views);
    else
        ts_render_stacks(&sink, views);
    return (int)ts_sink_end(&sink);
}

/* Text with addresses in it. */
static int show_places(const ts_views *views, format f, pid_t files_of) {
    int worst = -1, length = render_places(views, f, NULL, 0, &worst);
    char *text = malloc((size_t)length + 1);
    if (!text) {
        say("no memory");
        return EXIT_NO_TARGET;
    }
    (void)render_places(views, f, text, (size_t)length + 1, &worst);
    bool printed = print_resolved(text, files_of);
    free(text);
    if (!printed) return EXIT_NO_TARGET;
    return worst >= TS_WARNING ? EXIT_FINDINGS : EXIT_DONE;
}

/* files_of: the process in whose file system the program's files are, 0: this one's. */
static int render(const ts_views *views, format f, pid_t files_of) {
    static char buffer[65536];
    if (f == DOCTOR || f == STACKS) return show_places(views, f, files_of);
    ts_sink sink = ts_sink_fd(STDOUT_FILENO, buffer, sizeof buffer);
    switch (f) {
    case JSON:
        ts_render_json(&sink, views);
        ts_put(&sink, "\n");
        break;
    case PROMETHEUS: ts_render_prometheus(&sink, target_most(views), false); break;
    case OPENMETRICS: ts_render_prometheus(&sink, target_most(views), true); break;
    default: ts_render_text(&sink, views); break;
    }
    if (ts_sink_end(&sink) == 0) {
        if (sink.error != EPIPE) say("stdout: %s", strerror(sink.error));
        return EXIT_NO_TARGET;
    }
    return EXIT_DONE;
}

static int dump_page(const target *t, const options *o) {
    ts_views views;
    double age;
    int code = target_read_views(t, o->allocator, &views, &age);
    if (code != EXIT_DONE) return code;
    if (age > 0) say("the page was written %.1f s ago: process %ld is stopped", age, (long)t->pid);
    if ((o->format == PROMETHEUS || o->format == OPENMETRICS) && views.count > 1)
        say("allocator %u of %u, the one that holds most (--allocator=N for another)", target_most(&views)->number,
            views.count);
    return render(&views, o->format, t->is_core ? 0 : t->pid);
}

static int dump_url(const target *t, const options *o) {
    size_t length;
    char path[64];
    const char *accept = o->format == OPENMETRICS ? "application/openmetrics-text; version=1.0.0" : NULL;
    if (o->allocator >= 0)
        snprintf(path, sizeof path, "%s?allocator=%ld", PATHS[o->format], o->allocator);
    else
        snprintf(path, sizeof path, "%s", PATHS[o->format]);
    char *body = endpoint_get(t, path, accept, &length);
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

/* The worst result: an unreadable target is worse than a finding. */
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
           "  --allocator=N   the allocator with that number alone, from 0 (else all of them; of metrics the one that\n"
           "                  holds most)\n"
           "  --help, --version\n"
           "\n"
           "Exit code: 0; 1 --doctor found a warning or worse; 2 wrong usage; 3 the program cannot be read.\n",
           option_command);
}

static void help_doctor(void) {
    fputs("usage: tslab doctor [--watch[=SECONDS]] [--allocator=N] [PID|URL|CORE]...\n"
          "\n"
          "What is wrong with programs that run with TSLAB_SHM=1 (PID), or that serve their statistics (URL): worst\n"
          "first, with evidence, advice, and the lines that allocated it where stacks are sampled. All allocators of\n"
          "a program are looked at, or with --allocator one. Several programs are several reports.\n"
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
