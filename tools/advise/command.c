/* tslab advise: which allocations die together, and where the boundary is. */
#include "advise/costs.h"
#include "advise/show.h"
#include "advise/turns.h"
#include "common/options.h"
#include "common/target.h"
#include "tslab/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void help(void) {
    printf("usage: %s [--json | --proof] [--html OUT] FILE\n"
           "\n"
           "Says of a trace of tslab record which allocations die together, and which function's calls or loop is the\n"
           "boundary; what a domain there saves, and what escapes it. docs/advise.md explains each figure.\n"
           "\n"
           "  --proof     replays the trace under each allocator, and under tslab with the first boundary as domains\n"
           "  --json      the same for programs; docs/advise.md has the keys\n"
           "  --html OUT  writes a page of it as well: one file, which needs no network\n"
           "  --help      this text\n"
           "\n"
           "Exit status: 0 there is advice; 1 there is no boundary that saves anything; 2 a wrong command line;\n"
           "3 the trace cannot be read, or OUT not written.\n",
           option_command);
}

static void progress(double share) {
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%3.0f %%", 100 * share);
}

static bool write_page(const advice *a, const char *path) {
    FILE *out = fopen(path, "w");
    if (!out) {
        say("%s: %s", path, strerror(errno));
        return false;
    }
    bool done = advice_html(a, out);
    if (!done) say("%s: no memory", path);
    if (fclose(out) != 0 && done) {
        say("%s: %s", path, strerror(errno));
        done = false;
    }
    return done;
}

/* tslab replay, with this advice as the plan. */
static void prove(const advice *a) {
    char plan[] = "/tmp/tslab-plan-XXXXXX";
    int fd = mkstemp(plan), status = 0;
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file) advice_json(a, file);
    if (!file || fclose(file) != 0) {
        say("%s: %s", plan, strerror(errno));
        return;
    }
    printf("\nProof: the trace again (docs/replay.md)\n");
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "tslab", "replay", "--plan", plan, "--", a->path, (char *)NULL);
        _exit(EXIT_NO_TARGET);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    (void)unlink(plan);
}

static int advise(const char *path, const char *html, bool json, bool proof) {
    char error[256];
    const char *why;
    trace *t = trace_open(path, error, sizeof error);
    if (!t) {
        say("%s: %s", path, error);
        return EXIT_NO_TARGET;
    }
    advice a = {.t = t, .path = path, .costs = costs_measure()};
    costs_measure_captured(&a.costs);
    turns *found = turns_find(t, &a.costs, progress);
    a.turns = found;
    if (isatty(STDERR_FILENO)) fputs("\r     \r", stderr);
    if (trace_damage(t)) say("%s: %s; only the events before are read", path, trace_damage(t));
    if (!found || !advice_name(&a)) {
        say("%s: no memory", path);
        turns_free(found);
        trace_close(t);
        return EXIT_NO_TARGET;
    }
    if (json)
        advice_json(&a, stdout);
    else
        advice_text(&a, stdout);
    int code = advice_has_turns(&a, &why) ? EXIT_DONE : EXIT_FINDINGS;
    if (html && !write_page(&a, html)) code = EXIT_NO_TARGET;
    if (proof && code == EXIT_DONE) prove(&a);
    advice_free(&a);
    turns_free(found);
    trace_close(t);
    return tool_end(code);
}

int command_advise(int argc, char **argv) {
    enum { JSON = 256, HTML, PROOF, HELP };
    static const struct option known[] = {{"json", no_argument, NULL, JSON},
                                          {"html", required_argument, NULL, HTML},
                                          {"proof", no_argument, NULL, PROOF},
                                          {"help", no_argument, NULL, HELP},
                                          {NULL, 0, NULL, 0}};
    bool json = false, proof = false;
    const char *html = NULL;
    if (argc == 2 && strcmp(argv[1], "--captured") == 0) return costs_print_captured(); /* how costs.c starts it */
    for (int c; (c = option_next(argc, argv, known)) != -1;) {
        if (c == JSON) {
            json = true;
        } else if (c == PROOF) {
            proof = true;
        } else if (c == HTML) {
            html = optarg;
        } else if (c == HELP || c == 'h') {
            help();
            return tool_end(EXIT_DONE);
        } else {
            return option_bad(c, argv);
        }
    }
    if (optind == argc) {
        say("no trace is named; see %s --help", option_command);
        return EXIT_USAGE;
    }
    if (optind + 1 < argc) return option_wrong("more than one trace:", argv[optind + 1]);
    if (json && proof) return option_wrong("--proof prints text, and does not go with", "--json");
    return advise(argv[optind], html, json, proof);
}
