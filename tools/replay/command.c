/* tslab replay: the operations of a trace under several allocators. */
#include "common/options.h"
#include "common/target.h"
#include "replay/show.h"
#include "tslab/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 5 };

static void help(void) {
    printf("usage: %s [OPTIONS] FILE\n"
           "\n"
           "Makes the allocations and frees of a trace of tslab record again, in the same order and threads, under\n"
           "several allocators. Shows time, tails and resident memory of each. docs/replay.md explains each figure.\n"
           "\n"
           "  --allocator LIST   of malloc,jemalloc,tcmalloc,mimalloc,tslab; all if not given\n"
           "  --rounds N         so many rounds, 1 to 99, each with all allocators; 5 if not given\n"
           "  --plan PLAN        what tslab advise --json has said: two more rows are tslab with a domain for each\n"
           "                     turn of its first boundary: captured, by the lines of advise, and planned, by\n"
           "                     slab_alloc and without the frees\n"
           "  --csv OUT          writes live and resident bytes over time to a file\n"
           "  --json             the same for programs; docs/replay.md has the keys\n"
           "  --help             this text\n"
           "\n"
           "Exit status: 0 done, also where an allocator is not installed and left out; 2 a wrong command line; 3 the\n"
           "trace or the plan cannot be read, the trace not be replayed, or OUT not be written.\n",
           option_command);
}

static void progress(double share) {
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%3.0f %%", 100 * share);
}

/* ---- which allocators -------------------------------------------------------------------------------------------- */

/* false, and said: there is one that is not known, or is named twice. */
static bool read_list(replay *r, const char *list) {
    char name[32];
    for (const char *at = list; at; at = *at ? at + 1 : NULL) {
        const size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, at);
        at += n;
        run_allocator found;
        bool is_known = run_allocator_named(name, &found);
        for (unsigned i = 0; i < r->count && is_known; i++) is_known = r->allocator[i].name != found.name;
        if (!is_known) {
            (void)option_wrong("not a list of malloc,jemalloc,tcmalloc,mimalloc,tslab:", list);
            return false;
        }
        r->allocator[r->count++] = found;
    }
    return true;
}

static void leave_out_missing(replay *r) {
    unsigned kept = 0;
    for (unsigned i = 0; i < r->count; i++) {
        run_allocator *a = &r->allocator[i];
        if (run_is_installed(a)) {
            r->allocator[kept++] = *a;
            continue;
        }
        say("%s is left out: %s is not installed", a->name, a->library);
        r->skipped[r->skips++] = a->name;
    }
    r->count = kept;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static void say_limits(const replay *r, const trace *t) {
    const char *sample = trace_about(t, "sample");
    if (trace_damage(t)) say("%s: %s; only the events before are replayed", r->path, trace_damage(t));
    if (sample) say("%s: a sample (%s): only its objects are replayed", r->path, sample);
    if (r->ops.lost) say("%s: %llu events are missing in it", r->path, (unsigned long long)r->ops.lost);
    if (trace_process_count(t) > 1)
        say("%s: of %u processes number %u is replayed, which allocates most", r->path, trace_process_count(t),
            r->ops.process);
}

static bool write_csv(const replay *r, const char *path) {
    FILE *out = fopen(path, "w");
    if (out) replay_csv(r, out);
    bool done = out && !ferror(out);
    if (out && fclose(out) != 0) done = false;
    if (!done) say("%s: %s", path, strerror(errno));
    return done;
}

/* NULL, or what is wrong with it. */
static const char *take_plan(replay *r, trace *t) {
    unsigned i = 0;
    while (i < r->count && strcmp(r->allocator[i].name, "tslab") != 0) i++;
    if (i == r->count) return "a plan is for the allocator tslab, which is not among those of --allocator";
    const char *error = plan_find(&r->plan, t);
    if (!error) error = decode_trace(t, &r->plan, true, &r->captured_ops);
    if (!error) error = decode_trace(t, &r->plan, false, &r->planned_ops);
    if (error) return error;
    r->allocator[r->count] = r->allocator[r->count + 1] = r->allocator[i];
    r->allocator[r->count++].name = "captured";
    r->allocator[r->count++].name = "planned";
    return NULL;
}

static const decoded *ops_of(const replay *r, const run_allocator *a) {
    if (strcmp(a->name, "captured") == 0) return &r->captured_ops;
    return strcmp(a->name, "planned") == 0 ? &r->planned_ops : &r->ops;
}

static int replay_trace(replay *r, trace *t) {
    run_allocator *list[RUN_ALLOCATORS];
    const char *error = decode_trace(t, NULL, false, &r->ops);
    say_limits(r, t);
    if (error) return say("%s: %s", r->path, error), EXIT_NO_TARGET;
    if (r->plan_path && (error = take_plan(r, t))) return say("%s: %s", r->plan_path, error), EXIT_NO_TARGET;
    for (unsigned i = 0; i < r->count; i++) {
        list[i] = &r->allocator[i];
        const decoded *d = ops_of(r, list[i]);
        list[i]->ops_fd = d->fd;
        list[i]->samples = d->samples;
        if (!(list[i]->figures = calloc(1, sizeof *list[i]->figures))) return say("no memory"), EXIT_NO_TARGET;
    }
    error = run_rounds(list, r->count, r->rounds, &r->player_ns, progress);
    if (isatty(STDERR_FILENO)) fputs("\r     \r", stderr);
    if (error) return say("%s: %s", r->path, error), EXIT_NO_TARGET;
    return EXIT_DONE;
}

static int run(replay *r, const char *csv, bool json) {
    char error[256];
    const char *wrong = r->plan_path ? plan_read(&r->plan, r->plan_path) : NULL;
    if (wrong) return say("%s: %s", r->plan_path, wrong), EXIT_NO_TARGET;
    trace *t = trace_open(r->path, error, sizeof error);
    if (!t) return say("%s: %s", r->path, error), EXIT_NO_TARGET;
    leave_out_missing(r);
    r->t = t;
    int code = r->count ? replay_trace(r, t) : EXIT_NO_TARGET;
    if (code == EXIT_DONE && json) replay_json(r, stdout);
    if (code == EXIT_DONE && !json) replay_text(r, stdout);
    if (code == EXIT_DONE && csv && !write_csv(r, csv)) code = EXIT_NO_TARGET;
    for (unsigned i = 0; i < r->count; i++) free(r->allocator[i].figures);
    if (r->ops.fd >= 0) (void)close(r->ops.fd);
    if (r->captured_ops.fd >= 0) (void)close(r->captured_ops.fd);
    if (r->planned_ops.fd >= 0) (void)close(r->planned_ops.fd);
    plan_free(&r->plan);
    trace_close(t);
    return tool_end(code);
}

/* How run.c starts the player: replay --play FD MODE LIBRARY. */
static int become_player(char **argv) {
    unsigned long mode;
    if (!number_of(argv[3], 0, &mode) || mode > PLAY_MEASURE) return EXIT_USAGE;
    return play((int)strtol(argv[2], NULL, 10), (play_mode)mode, argv[4]);
}

int command_replay(int argc, char **argv) {
    enum { ALLOCATOR = 256, AMOUNT, PLAN, CSV, JSON, HELP };
    static const struct option known[] = {{"allocator", required_argument, NULL, ALLOCATOR},
                                          {"rounds", required_argument, NULL, AMOUNT},
                                          {"plan", required_argument, NULL, PLAN},
                                          {"csv", required_argument, NULL, CSV},
                                          {"json", no_argument, NULL, JSON},
                                          {"help", no_argument, NULL, HELP},
                                          {NULL, 0, NULL, 0}};
    replay r = {.rounds = ROUNDS, .ops.fd = -1, .captured_ops.fd = -1, .planned_ops.fd = -1};
    const char *list = "malloc,jemalloc,tcmalloc,mimalloc,tslab", *csv = NULL;
    unsigned long number;
    bool json = false;
    if (argc == 5 && strcmp(argv[1], "--play") == 0) return become_player(argv);
    for (int c; (c = option_next(argc, argv, known)) != -1;) {
        if (c == HELP || c == 'h') return help(), tool_end(EXIT_DONE);
        if (c == '?' || c == ':') return option_bad(c, argv);
        if (c == ALLOCATOR) list = optarg;
        if (c == PLAN) r.plan_path = optarg;
        if (c == CSV) csv = optarg;
        if (c == JSON) json = true;
        if (c != AMOUNT) continue;
        if (!number_of(optarg, 1, &number) || number > RUN_ROUNDS_MOST)
            return option_wrong("not a number of rounds from 1 to 99:", optarg);
        r.rounds = (unsigned)number;
    }
    if (!read_list(&r, list)) return EXIT_USAGE;
    if (optind == argc) return say("no trace is named; see %s --help", option_command), EXIT_USAGE;
    if (optind + 1 < argc) return option_wrong("more than one trace:", argv[optind + 1]);
    r.path = argv[optind];
    return run(&r, csv, json);
}
