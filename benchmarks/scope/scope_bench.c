/*
 * scope_bench: objects that are dropped together, by every means that there is for it.
 *
 * Runs scope_bench_NAME (scope_worker.c) once per allocator, shape and round, one after the other, the allocators
 * interleaved and each round beginning with another one, and takes medians over the rounds. A shape is a number of
 * objects a scope and a number of scopes open at once. README.md describes the measurements.
 */
#include "bench_csv.h"
#include "bench_util.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct allocator {
    const char *name;
    const char *what;
    enum { FLOOR, OURS, REGION, OTHER } kind; /* REGION: cannot free single objects */
    bool keeps;                               /* the scope itself is kept and emptied, not made and ended */
} allocator;

static const allocator allocators[] = {
    {"none", "the loop alone, objects in one static buffer: the floor", FLOOR, false},
    {"tslab", "epoch_domain_create .. epoch_domain_destroy", OURS, false},
    {"tslab_keep", "the same, SLAB_RECLAIM_KEEP: empty memory is kept, as by most of the others", OURS, false},
    {"tslab_reset", "epoch_domain_reset of domains that are kept", OURS, true},
    {"mimalloc", "mi_heap_new, mi_heap_destroy; the system's shared library", OTHER, false},
    {"mimalloc3", "the same; version 3 from the crate libmimalloc-sys", OTHER, false},
    {"jemalloc", "arena.N.reset of arenas that are kept, no thread cache", OTHER, true},
    {"jemalloc_tcache", "the same, a thread cache per arena, flushed before", OTHER, true},
    {"apr", "apr_pool_create, apr_pool_destroy", REGION, false},
    {"apr_clear", "apr_pool_clear of pools that are kept", REGION, true},
    {"talloc", "a context; talloc_free of it", OTHER, false},
    {"talloc_pool", "talloc_pool as large as the scope; talloc_free of it", OTHER, false},
    {"pmr", "std::pmr::monotonic_buffer_resource, chunks from operator new", REGION, false},
    {"pmr_pooled", "the same, chunks from std::pmr::unsynchronized_pool_resource", REGION, false},
    {"bumpalo", "Bump::new, drop", REGION, false},
    {"bumpalo_reset", "Bump::reset of arenas that are kept", REGION, true},
    {"glibc", "malloc, and free of each object: no scopes", OTHER, false},
    {"jemalloc_free", "the same", OTHER, false},
    {"tcmalloc_free", "the same", OTHER, false},
    {"mimalloc_free", "the same", OTHER, false},
};
enum { ALLOCATORS = sizeof allocators / sizeof allocators[0] };

/* {name, why} of those that were not built; from CMakeLists.txt. */
static const char *const absent[][2] = {
#include "scope_bench_absent.inc"
    {NULL, NULL},
};

static const size_t all_objects[] = {1, 10, 100, 1000, 10000, 100000};
static const size_t all_open[] = {1, 10, 100, 1000, 10000};
enum { OBJECT_STEPS = 6, OPEN_STEPS = 5, MAX_SHAPES = OBJECT_STEPS * OPEN_STEPS, MAX_ROUNDS = 25 };

typedef struct shape {
    size_t objects, open;
} shape;

/* Of the loader and of the shell: a program, or a library of it, is not there. */
enum { EXIT_CANNOT_START = 127 };

/* The output of scope_bench_NAME. */
enum { NS, P99, STEPS, PEAK, PAYLOAD, AFTER, DROP, FIELDS };

typedef struct result {
    double value[FIELDS][MAX_ROUNDS];
    unsigned rounds;
    bool cannot;
} result;

static result results[ALLOCATORS][MAX_SHAPES];
static char versions[ALLOCATORS][64];
static bool selected[ALLOCATORS];
static shape shapes[MAX_SHAPES];
static unsigned shape_count;

static struct {
    unsigned rounds;
    const char *seconds;  /* of one measurement; passed on as it is */
    size_t live_limit;    /* objects live at once */
    unsigned patience;    /* seconds that one measurement may take */
    size_t objects, open; /* 0: all */
    const char *csv;
    bool smoke, list, chosen; /* chosen: by --allocator */
} config = {.rounds = 5, .seconds = "0.04", .live_limit = 100000, .patience = 10};

/* ---- programs ------------------------------------------------------------------------------------------ */

static const char *why_absent(unsigned a) {
    for (unsigned i = 0; absent[i][0] != NULL; i++)
        if (strcmp(absent[i][0], allocators[a].name) == 0) return absent[i][1];
    return NULL;
}

static void program_path(unsigned a, char *out, size_t capacity) {
    ssize_t length = readlink("/proc/self/exe", out, capacity - 1);
    if (length <= 0) bench_die(BENCH_EXIT_FAILED, "scope_bench: /proc/self/exe: %s", strerror(errno));
    out[length] = '\0';
    char *slash = strrchr(out, '/');
    size_t used = slash ? (size_t)(slash + 1 - out) : 0;
    int more = snprintf(out + used, capacity - used, "scope_bench_%s", allocators[a].name);
    if (more < 0 || (size_t)more >= capacity - used) bench_die(BENCH_EXIT_FAILED, "scope_bench: its path is too long");
}

/* Variables that would change an allocator. */
static void clean_environment(void) {
    static const char *const prefixes[] = {"LD_PRELOAD=", "MALLOC_", "MIMALLOC_",
                                           "TCMALLOC_",   "TSLAB_",  "GLIBC_TUNABLES="};
    for (char **at = environ; *at != NULL;) {
        char name[128];
        bool drop = false;
        for (unsigned i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            if (strncmp(*at, prefixes[i], strlen(prefixes[i])) == 0) drop = true;
        size_t length = strcspn(*at, "=");
        if (drop && length < sizeof name) {
            memcpy(name, *at, length);
            name[length] = '\0';
            unsetenv(name);
            at = environ;
        } else {
            at++;
        }
    }
}

/* Runs scope_bench_NAME; its output, errors too, goes to `out`. Returns its exit code, or 128 + signal. One that is
   not done in time is ended: BENCH_EXIT_UNAVAILABLE. */
static int run_program(unsigned a, char *const *arguments, char *out, size_t capacity) {
    char path[4096];
    int ends[2], status;
    size_t length = 0;
    bool late = false;
    program_path(a, path, sizeof path);
    fflush(NULL);
    if (pipe(ends) != 0) bench_die(BENCH_EXIT_FAILED, "scope_bench: pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0) bench_die(BENCH_EXIT_FAILED, "scope_bench: fork: %s", strerror(errno));
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execv(path, arguments);
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        _exit(EXIT_CANNOT_START);
    }
    bench_csv_child = child;
    close(ends[1]);
    struct pollfd readable = {.fd = ends[0], .events = POLLIN};
    for (;;) {
        int ready = poll(&readable, 1, (int)config.patience * 1000);
        if (ready == 0) {
            kill(child, SIGKILL);
            late = true;
            break;
        }
        ssize_t got = ready < 0 ? -1 : read(ends[0], out + length, capacity - 1 - length);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        length += (size_t)got;
    }
    close(ends[0]);
    out[length] = '\0';
    out[strcspn(out, "\n")] = '\0';
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) bench_die(BENCH_EXIT_FAILED, "scope_bench: waitpid: %s", strerror(errno));
    bench_csv_child = 0;
    if (late) {
        snprintf(out, capacity, "not done after %u s", config.patience);
        return BENCH_EXIT_UNAVAILABLE;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* false: it cannot be started, as it or its library was removed since the build; said on stderr. Dies if that was asked for. */
static bool identify(unsigned a) {
    char text[512];
    char *arguments[] = {(char *)(uintptr_t)allocators[a].name, (char[]){"--identify"}, NULL};
    int code = run_program(a, arguments, text, sizeof text);
    size_t length = strlen(allocators[a].name);
    if (code == EXIT_CANNOT_START && (config.chosen || a == 0))
        bench_die(BENCH_EXIT_UNAVAILABLE, "scope_bench: %s cannot be started: %s", allocators[a].name, text);
    if (code == EXIT_CANNOT_START) {
        fprintf(stderr, "scope_bench: %s is left out, it cannot be started: %s\n", allocators[a].name, text);
        return false;
    }
    if (code != 0 || strncmp(text, allocators[a].name, length) != 0 || text[length] != ',')
        bench_die(BENCH_EXIT_FAILED, "scope_bench_%s --identify: exit code %d: %s", allocators[a].name, code, text);
    snprintf(versions[a], sizeof versions[a], "%.63s", text + length + 1);
    return true;
}

static void check(unsigned a) {
    char text[512];
    char *arguments[] = {(char *)(uintptr_t)allocators[a].name, (char[]){"--smoke"}, NULL};
    int code = run_program(a, arguments, text, sizeof text);
    if (code != 0)
        bench_die(BENCH_EXIT_FAILED, "scope_bench_%s --smoke: exit code %d: %s", allocators[a].name, code, text);
    printf("%-16s %-12s every object checked\n", allocators[a].name, versions[a]);
}

static bool parse_fields(const char *text, double *fields) {
    for (unsigned i = 0; i < FIELDS; i++) {
        char *end;
        fields[i] = strtod(text, &end);
        if (end == text || !(fields[i] >= 0) || *end != (i + 1 < FIELDS ? ',' : '\0')) return false;
        text = end + 1;
    }
    return true;
}

static void measure(unsigned a, unsigned s) {
    char text[512], objects[24], open[24], seconds[24];
    double fields[FIELDS];
    result *r = &results[a][s];
    if (r->cannot) return;
    snprintf(objects, sizeof objects, "%zu", shapes[s].objects);
    snprintf(open, sizeof open, "%zu", shapes[s].open);
    snprintf(seconds, sizeof seconds, "%s", config.seconds);
    char *arguments[] = {(char *)(uintptr_t)allocators[a].name,
                         (char[]){"--objects"},
                         objects,
                         (char[]){"--open"},
                         open,
                         (char[]){"--seconds"},
                         seconds,
                         NULL};
    int code = run_program(a, arguments, text, sizeof text);
    if (code == BENCH_EXIT_UNAVAILABLE) {
        fprintf(stderr, "scope_bench: %s, %s objects a scope, %s open: left out: %s\n", allocators[a].name, objects,
                open, text);
        r->cannot = true;
        return;
    }
    if (code != 0 || !parse_fields(text, fields))
        bench_die(BENCH_EXIT_FAILED, "scope_bench_%s --objects %s --open %s: exit code %d: %s", allocators[a].name,
                  objects, open, code, text);
    for (unsigned i = 0; i < FIELDS; i++) r->value[i][r->rounds] = fields[i];
    r->rounds++;
}

/* ---- results ----------------------------------------------------------------------------------------------- */

static double median_of(const result *r, unsigned field) {
    double values[MAX_ROUNDS];
    memcpy(values, r->value[field], sizeof values);
    return bench_median(values, r->rounds);
}

static double extreme_of(const result *r, unsigned field, bool largest) {
    double found = r->value[field][0];
    for (unsigned i = 1; i < r->rounds; i++)
        if (largest ? r->value[field][i] > found : r->value[field][i] < found) found = r->value[field][i];
    return found;
}

static void print_heads(void) {
    printf("%9s %6s", "objects", "open");
    for (unsigned a = 0; a < ALLOCATORS; a++)
        if (selected[a]) printf(" %11.11s", allocators[a].name);
    putchar('\n');
}

static void print_table(const char *title, unsigned field) {
    printf("\n%s\n", title);
    print_heads();
    for (unsigned s = 0; s < shape_count; s++) {
        printf("%9zu %6zu", shapes[s].objects, shapes[s].open);
        for (unsigned a = 0; a < ALLOCATORS; a++) {
            const result *r = &results[a][s];
            if (!selected[a]) continue;
            if (r->rounds == 0)
                printf(" %11s", "-");
            else if (field == PEAK)
                printf(" %11.4g", median_of(r, PEAK) / median_of(r, PAYLOAD));
            else
                printf(" %11.2f", median_of(r, field));
        }
        putchar('\n');
    }
}

/* The fastest region allocator of the same habit; ALLOCATORS: none was measured. */
static unsigned best_region(unsigned s, bool keeps) {
    unsigned best = ALLOCATORS;
    for (unsigned a = 0; a < ALLOCATORS; a++) {
        if (allocators[a].kind != REGION || allocators[a].keeps != keeps || results[a][s].rounds == 0) continue;
        if (best == ALLOCATORS || median_of(&results[a][s], NS) < median_of(&results[best][s], NS)) best = a;
    }
    return best;
}

/* The median of left / right, round by round: a slow spell of the machine hits both. */
static double ratio(const result *left, const result *right) {
    double values[MAX_ROUNDS];
    unsigned n = left->rounds < right->rounds ? left->rounds : right->rounds;
    for (unsigned i = 0; i < n; i++) values[i] = left->value[NS][i] / right->value[NS][i];
    return bench_median(values, n);
}

static void print_ratios(unsigned ours, unsigned mimalloc) {
    printf("\n%s / the fastest allocator that cannot free single objects; %s / %s\n", allocators[ours].name,
           allocators[mimalloc].name, allocators[ours].name);
    for (unsigned s = 0; s < shape_count; s++) {
        unsigned best = best_region(s, allocators[ours].keeps);
        const result *r = &results[ours][s], *mi = &results[mimalloc][s];
        if (r->rounds == 0) continue;
        printf("%9zu %6zu", shapes[s].objects, shapes[s].open);
        if (best < ALLOCATORS)
            printf(" %8.2f %-14s", ratio(r, &results[best][s]), allocators[best].name);
        else
            printf(" %8s %-14s", "-", "");
        if (mi->rounds > 0)
            printf(" %8.1f\n", ratio(mi, r));
        else
            printf(" %8s\n", "-");
    }
}

static unsigned find_allocator(const char *name) {
    for (unsigned a = 0; a < ALLOCATORS; a++)
        if (strcmp(allocators[a].name, name) == 0) return a;
    return ALLOCATORS;
}

static void print_results(void) {
    print_table("ns per object: scope made, object allocated and written, scope dropped", NS);
    print_table("ns per scope: dropping it, alone", DROP);
    print_table("bytes resident per byte asked for, all scopes full", PEAK);
    static const char *const ours[] = {"tslab", "tslab_keep", "tslab_reset"};
    for (unsigned i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (selected[find_allocator(ours[i])]) print_ratios(find_allocator(ours[i]), find_allocator("mimalloc"));
}

/* ---- the file ------------------------------------------------------------------------------------------------ */

/* The figure of each round, so that readers can form ratios round by round too. */
static void write_rounds(FILE *file, const result *r, unsigned field) {
    for (unsigned i = 0; i < r->rounds; i++) fprintf(file, "%c%.4f", i == 0 ? ',' : ' ', r->value[field][i]);
}

static void write_csv(FILE *file) {
    fputs("allocator,version,objects_per_scope,scopes_open,ns_per_object,p99_ns_per_scope,peak_rss_bytes,payload_bytes,"
          "rounds,held_per_payload,after_rss_bytes,ns_min,ns_max,floor_ns_per_object,timed_scopes,"
          "drop_ns_per_scope,ns_of_rounds,drop_ns_of_rounds\n",
          file);
    for (unsigned s = 0; s < shape_count; s++) {
        for (unsigned a = 0; a < ALLOCATORS; a++) {
            const result *r = &results[a][s];
            if (r->rounds == 0) continue;
            fprintf(file, "%s,%s,%zu,%zu,%.4f,%.1f,%.0f,%.0f,%u,%.4f,%.0f,%.4f,%.4f,%.4f,%.0f,%.1f", allocators[a].name,
                    versions[a], shapes[s].objects, shapes[s].open, median_of(r, NS), median_of(r, P99),
                    median_of(r, PEAK), median_of(r, PAYLOAD), r->rounds, median_of(r, PEAK) / median_of(r, PAYLOAD),
                    median_of(r, AFTER), extreme_of(r, NS, false), extreme_of(r, NS, true),
                    median_of(&results[0][s], NS), median_of(r, STEPS), median_of(r, DROP));
            write_rounds(file, r, NS);
            write_rounds(file, r, DROP);
            fputc('\n', file);
        }
    }
}

/* ---- command line ------------------------------------------------------------------------------------------- */

static void print_usage(FILE *out) {
    fprintf(out,
            "usage: scope_bench [--csv FILE] [--quick] [--allocator NAME]... [--objects N] [--open N]\n"
            "                   [--live N] [--rounds N] [--seconds S]\n"
            "       scope_bench --smoke [--csv FILE] | --list | --help\n"
            "\n"
            "  --csv FILE        also write the figures to FILE\n"
            "  --quick           3 rounds, shorter ones\n"
            "  --allocator NAME  only this one, and the floor; may be given several times (see --list)\n"
            "  --objects N       only scopes of N objects: 1, 10, 100, 1000, 10000 or 100000\n"
            "  --open N          only N scopes open at once: 1, 10, 100, 1000 or 10000\n"
            "  --rounds N        rounds (1-%d; default 5)\n"
            "  --live N          at most N objects live at once (default 100000; up to 1000000): leaves shapes out\n"
            "  --seconds S       measure each for S seconds (default 0.04; up to 60)\n"
            "  --list            the allocators: name, version or why it is absent, what it does\n"
            "  --smoke           each allocator for a moment, every object filled and compared\n",
            MAX_ROUNDS);
}

_Noreturn static void usage_error(const char *what, const char *value) {
    bench_die(BENCH_EXIT_USAGE, "scope_bench: %s '%s' (see --help)", what, value);
}

static size_t parse_number(const char *what, const char *text, size_t high) {
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value == 0 || value > high)
        usage_error(what, text);
    return value;
}

static size_t parse_choice(const char *what, const char *text, const size_t *choices, unsigned count) {
    size_t value = parse_number(what, text, 1000000);
    for (unsigned i = 0; i < count; i++)
        if (choices[i] == value) return value;
    usage_error(what, text);
}

static const char *parse_seconds(const char *text) {
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(value > 0 && value <= 60) || strlen(text) > 20)
        usage_error("--seconds takes a number above 0 and up to 60, not", text);
    return text;
}

static const char *option_value(int argc, char **argv, int *i) {
    return bench_option_value("scope_bench", "", argc, argv, i);
}

static void select_allocator(const char *name) {
    unsigned a = find_allocator(name);
    if (a == ALLOCATORS) usage_error("unknown allocator", name);
    if (why_absent(a) != NULL) bench_die(BENCH_EXIT_UNAVAILABLE, "scope_bench: %s is absent: %s", name, why_absent(a));
    selected[a] = true;
}

static void parse(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "--csv") == 0) {
            config.csv = option_value(argc, argv, &i);
        } else if (strcmp(option, "--quick") == 0) {
            config.rounds = 3;
            config.seconds = "0.01";
        } else if (strcmp(option, "--allocator") == 0) {
            select_allocator(option_value(argc, argv, &i));
            config.chosen = true;
        } else if (strcmp(option, "--objects") == 0) {
            config.objects = parse_choice("--objects takes 1, 10, 100, 1000, 10000 or 100000, not",
                                          option_value(argc, argv, &i), all_objects, OBJECT_STEPS);
        } else if (strcmp(option, "--open") == 0) {
            config.open = parse_choice("--open takes 1, 10, 100, 1000 or 10000, not", option_value(argc, argv, &i),
                                       all_open, OPEN_STEPS);
        } else if (strcmp(option, "--live") == 0) {
            config.live_limit = parse_number("--live takes a whole number from 1 to 1000000, not",
                                             option_value(argc, argv, &i), 1000000);
        } else if (strcmp(option, "--rounds") == 0) {
            config.rounds = (unsigned)parse_number("--rounds takes a whole number from 1 to 25, not",
                                                   option_value(argc, argv, &i), MAX_ROUNDS);
        } else if (strcmp(option, "--seconds") == 0) {
            config.seconds = parse_seconds(option_value(argc, argv, &i));
        } else if (strcmp(option, "--smoke") == 0) {
            config.smoke = true;
        } else if (strcmp(option, "--list") == 0) {
            config.list = true;
        } else if (strcmp(option, "--help") == 0) {
            print_usage(stdout);
            exit(0);
        } else {
            usage_error("unknown option", option);
        }
    }
    for (unsigned a = 0; a < ALLOCATORS; a++)
        if (!config.chosen) selected[a] = why_absent(a) == NULL;
    selected[0] = true;
    for (unsigned o = 0; o < OBJECT_STEPS; o++) {
        for (unsigned n = 0; n < OPEN_STEPS; n++) {
            if (config.objects != 0 && config.objects != all_objects[o]) continue;
            if (config.open != 0 && config.open != all_open[n]) continue;
            if (all_objects[o] > config.live_limit / all_open[n]) continue;
            if (config.smoke && (all_objects[o] != 10 || all_open[n] != 10)) continue;
            shapes[shape_count++] = (shape){all_objects[o], all_open[n]};
        }
    }
    if (shape_count == 0 && config.smoke)
        bench_die(BENCH_EXIT_USAGE,
                  "scope_bench: --smoke measures 10 objects a scope, 10 scopes open, and nothing else");
    if (shape_count == 0)
        bench_die(BENCH_EXIT_USAGE, "scope_bench: no shape is left: more than %zu objects live at once (see --live)",
                  config.live_limit);
    if (config.smoke) {
        config.rounds = 1;
        config.seconds = "0.0005";
    }
}

static void list(void) {
    for (unsigned a = 0; a < ALLOCATORS; a++) {
        const char *why = why_absent(a);
        if (why == NULL && !identify(a)) why = "it cannot be started";
        printf("%-16s %-14s %s%s%s\n", allocators[a].name, why ? "absent" : versions[a], allocators[a].what,
               why ? "; " : "", why ? why : "");
    }
}

static void run_rounds(void) {
    bool show = isatty(STDERR_FILENO) != 0;
    for (unsigned round = 0; round < config.rounds; round++) {
        for (unsigned s = 0; s < shape_count; s++) {
            if (show)
                fprintf(stderr, "\rround %u of %u: %zu objects a scope, %zu open     ", round + 1, config.rounds,
                        shapes[s].objects, shapes[s].open);
            for (unsigned i = 0; i < ALLOCATORS; i++) {
                unsigned a = (i + round * 7 + s) % ALLOCATORS;
                if (selected[a]) measure(a, s);
            }
        }
    }
    if (show) fputc('\n', stderr);
}

int main(int argc, char **argv) {
    bench_watch_stdout();
    parse(argc, argv);
    clean_environment();
    if (config.list) {
        list();
        return 0;
    }
#if !defined(__OPTIMIZE__)
    if (!config.smoke)
        bench_die(BENCH_EXIT_UNAVAILABLE, "scope_bench: this is a debug build: its figures mean nothing");
#endif
    FILE *csv = bench_csv_open("scope_bench", config.csv);
    for (unsigned a = 0; a < ALLOCATORS; a++) {
        if (selected[a]) selected[a] = identify(a);
        if (why_absent(a) != NULL)
            fprintf(stderr, "scope_bench: %s is absent: %s\n", allocators[a].name, why_absent(a));
    }
    if (config.smoke) {
        for (unsigned a = 0; a < ALLOCATORS; a++)
            if (selected[a]) check(a);
    }
    run_rounds();
    if (csv != NULL) write_csv(csv);
    bench_csv_close(csv);
    print_results();
    return 0;
}
