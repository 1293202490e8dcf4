/*
 * tslab run [OPTIONS] PROGRAM [ARGUMENTS]: replaces itself by the program, with libtslab-malloc preloaded and the
 * options as variables of the environment. The libraries are those beside this tool, installed or in the tree it was
 * built in; else the loader looks for them.
 */
#include "common/options.h"
#include "http/address.h"
#include "tslab/commands.h"
#include "tslab/launch.h"
#include "tslab/plan.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEAST_BUDGET ((unsigned long long)1 << 20)

static void help(FILE *to) {
    fputs("usage: tslab run [OPTIONS] PROGRAM [ARGUMENTS]\n"
          "\n"
          "Runs the program with temporal-slab as its malloc. `tslab top PID` and `tslab doctor PID` show what it "
          "holds.\n"
          "\n"
          "  --http ADDRESS   serves the statistics and their page there, e.g. 127.0.0.1:9464 or 9464\n"
          "  --retain BYTES   retains so much memory (TSLAB_RETAIN; 64M, 1G, ...)\n"
          "  --budget BYTES   allows it no more memory than that, 1M at least (TSLAB_BUDGET)\n"
          "  --poison         fills what is freed, and looks at it before it is used again\n"
          "  --report         says on standard error what is wrong with a pointer that is freed\n"
          "  --abort          the same, and stops the program there\n"
          "  --hard[=LIST]    stops it at overruns and at writes to what is freed, too, and tells of frees by the\n"
          "                   wrong function (TSLAB_HARDEN); reads of what is freed go on. Processor time: 1.1 to\n"
          "                   3.2 times as much. LIST: only these parts, of canary,quarantine,guard,kinds,sized.\n"
          "                   A part that is named stops the program\n"
          "  --stacks BYTES   samples a call stack every so many bytes allocated (TSLAB_SAMPLE_STACKS); 512K if not "
          "given,\n"
          "                   by which `tslab doctor PID` says who holds what; 0: none, which is faster\n"
          "  --plan FILE      objects of sites that live long, as tslab advise --json has written it of a recording "
          "of\n"
          "                   the program, get epochs of their own. Not with --hard\n"
          "\n"
          "Programs that are linked statically, or have more rights than who starts them, keep their own malloc.\n"
          "Exit code: the program's; 2 wrong usage; 126 it cannot be run; 127 it is not found.\n",
          to);
}

/* The library would say that it does not know the value, and the program would run without. */
static bool is_bytes(const char *text) {
    unsigned long long bytes;
    return bytes_of_text(text, &bytes);
}

/* 0 is no limit. With less than a megabyte most programs end before their first line, and none says why. */
static bool is_budget(const char *text) {
    unsigned long long bytes;
    return bytes_of_text(text, &bytes) && (bytes == 0 || bytes >= LEAST_BUDGET);
}

static bool is_address(const char *text) {
    struct addrinfo *list = http_address_resolve(text);
    if (list) freeaddrinfo(list);
    return list != NULL;
}

/* Whether the text lists parts of the hard mode. */
static bool are_parts(const char *text) {
    static const char *const words[] = {"0", "1", "canary", "quarantine", "guard", "kinds", "sized"};
    for (;; text++) {
        size_t n = strcspn(text, ","), k = 0, count = sizeof words / sizeof *words;
        while (k < count && (strlen(words[k]) != n || memcmp(words[k], text, n) != 0)) k++;
        if (k == count) return false;
        text += n;
        if (!*text) return true;
    }
}

/* The variable that an option sets. */
typedef struct setting {
    const char *variable, *value;      /* NULL: the option's own */
    bool (*is_good)(const char *text); /* NULL: any text */
    const char *wanted;
} setting;

static const char bytes_wanted[] = "bytes are wanted, as 65536, 64K, 64M or 1G";
static const char budget_wanted[] = "1M at least is wanted, as 64M or 1G; 0: no limit";
static const char address_wanted[] = "an address of this machine is wanted, as 127.0.0.1:9464, [::1]:9464 or 9464";
static const char parts_wanted[] = "a list is wanted, of canary,quarantine,guard,kinds,sized";

static const setting SETTINGS[] = {{"TSLAB_HTTP", NULL, is_address, address_wanted},
                                   {"TSLAB_RETAIN", NULL, is_bytes, bytes_wanted},
                                   {"TSLAB_BUDGET", NULL, is_budget, budget_wanted},
                                   {"TSLAB_SAMPLE_STACKS", NULL, is_bytes, bytes_wanted},
                                   {"TSLAB_POISON", "1", NULL, NULL},
                                   {"TSLAB_HARDEN", "1", are_parts, parts_wanted},
                                   {"TSLAB_ON_MISUSE", "report", NULL, NULL},
                                   {"TSLAB_ON_MISUSE", "abort", NULL, NULL}};
static const struct option KNOWN[] = {{"http", required_argument, NULL, 0},
                                      {"retain", required_argument, NULL, 1},
                                      {"budget", required_argument, NULL, 2},
                                      {"stacks", required_argument, NULL, 3},
                                      {"poison", no_argument, NULL, 4},
                                      {"hard", optional_argument, NULL, 5},
                                      {"report", no_argument, NULL, 6},
                                      {"abort", no_argument, NULL, 7},
                                      {"plan", required_argument, NULL, 'p'},
                                      {"help", no_argument, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

/* Applies option k. -1: done; else an exit code. */
static int set(int k) {
    const setting *s = &SETTINGS[k];
    const char *value = optarg ? optarg : s->value;
    if (!*value) return launch_fail(EXIT_USAGE, "--%s needs a value", KNOWN[k].name);
    if (s->is_good && !s->is_good(value))
        return launch_fail(EXIT_USAGE, "--%s '%s': %s", KNOWN[k].name, value, s->wanted);
    return setenv(s->variable, value, 1) == 0 ? -1 : launch_fail(EXIT_CANNOT, "%s", strerror(errno));
}

int command_run(int argc, char **argv) {
    char library[PATH_MAX];
    const char *plan = NULL;
    for (int c; (c = option_next_before_operands(argc, argv, KNOWN)) != -1;) {
        if (c == 'h') {
            help(stdout);
            return EXIT_DONE;
        }
        if (c == ':') return launch_fail(EXIT_USAGE, "%s needs a value", option_text(argv));
        if (c == '?') return launch_fail(EXIT_USAGE, "unknown option '%s'; see tslab run --help", option_text(argv));
        if (c == 'p') plan = optarg;
        int code = c == 'p' ? -1 : set(c);
        if (code >= 0) return code;
    }
    const int i = optind;
    if (i >= argc) {
        help(stderr);
        return EXIT_USAGE;
    }
    const char *http = getenv("TSLAB_HTTP");
    if (http && *http && strcmp(http, "0") != 0) {
        int code = launch_find_library("libtslab-http.so." TSLAB_SOVERSION, library);
        if (code >= 0) return code;
        /* The processes that the program starts say nothing of the port, which it has. */
        char self[24];
        snprintf(self, sizeof self, "%ld", (long)getpid());
        if (!launch_preload(library) || setenv("TSLAB_HTTP_OWNER", self, 1) != 0)
            return launch_fail(EXIT_CANNOT, "%s", strerror(errno));
    }
    const char *hard = getenv("TSLAB_HARDEN");
    if (plan && hard && *hard && strcmp(hard, "0") != 0)
        return launch_fail(EXIT_USAGE, "--plan and the hard mode do not go together: it places objects by itself");
    int code = plan ? plan_apply(plan) : -1;
    if (code < 0)
        code = launch_find_library(plan ? "libtslab-malloc-plan.so" : "libtslab-malloc.so." TSLAB_SOVERSION, library);
    if (code >= 0) return code;
    /* The page has a thread anyway; memory then goes back while the program rests, too. The stacks tell which code
       holds it. */
    if (!launch_preload(library) || setenv("TSLAB_SHM", "1", 0) != 0 || setenv("TSLAB_BACKGROUND", "1", 0) != 0 ||
        setenv("TSLAB_SAMPLE_STACKS", "512K", 0) != 0)
        return launch_fail(EXIT_CANNOT, "%s", strerror(errno));
    if (launch_is_static(argv[i])) (void)launch_fail(0, "%s is linked statically and keeps its own malloc", argv[i]);
    execvp(argv[i], argv + i);
    return launch_fail(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT, "%s: %s", argv[i], strerror(errno));
}
