/*
 * Every crime of crimes.c, small, medium and large, in each mode of the library. Arguments: none, or TSLAB: the hard
 * mode stops the crimes that it promises to stop, and `TSLAB run --hard` the same; or --table: the table of
 * docs/security.md; or --list: the outcome of each. (NAME BYTES: commits that one.)
 */
#define _GNU_SOURCE
#include "crimes.h"

#include "malloc_test.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct mode {
    const char *title, *variables[3]; /* name=value */
} modes[] = {
    {"default", {NULL}},
    {"abort", {"TSLAB_ON_MISUSE=abort"}},
    {"poison, guards", {"TSLAB_ON_MISUSE=abort", "TSLAB_POISON=1", "TSLAB_GUARD=1"}},
    {"hard", {"TSLAB_HARDEN=1"}},
    {"hard, all parts named", {"TSLAB_HARDEN=canary,quarantine,guard,kinds,sized"}},
};
enum { MODES = sizeof modes / sizeof *modes, HARD = MODES - 2, NAMED, SIZES = 3 };
static const size_t sizes[SIZES] = {40, 20000, 300000};

typedef enum verdict { STOPPED, HARMLESS, UNNOTICED } verdict;
static char self[PATH_MAX];
static const char *const words[] = {"stopped", "harmless", "cannot be told"};

static int said = -1; /* messages go there; -1: nowhere */

/* tool: NULL, or the program that runs it with --hard. */
static pid_t start(const crime *c, size_t bytes, const struct mode *mode, const char *tool) {
    char text[32];
    snprintf(text, sizeof text, "%zu", bytes);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0) return pid;
    const struct rlimit no_core = {0, 0};
    (void)dup2(said >= 0 ? said : open("/dev/null", O_WRONLY), STDERR_FILENO);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    for (int i = 0; i < 3 && mode->variables[i]; i++) (void)putenv((char *)(uintptr_t)mode->variables[i]);
    if (tool) execl(tool, "tslab", "run", "--hard", self, c->name, text, (char *)NULL);
    execl(self, "crimes_test", c->name, text, (char *)NULL);
    _exit(127);
}

static verdict verdict_on(pid_t pid) {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status)) return STOPPED;
    CHECK(WEXITSTATUS(status) == CRIME_HARMLESS || WEXITSTATUS(status) == CRIME_DONE);
    return WEXITSTATUS(status) == CRIME_HARMLESS ? HARMLESS : UNNOTICED;
}

enum { MOST = 128 };
static verdict found[MOST][MODES][SIZES], by_tool[MOST][SIZES];

/* All of one crime at once. */
static void run_all(int first_mode, const char *tool) {
    for (size_t i = 0; i < crime_count; i++) {
        pid_t pids[MODES + 1][SIZES] = {{0}};
        for (int m = first_mode; m <= MODES; m++)
            for (int s = 0; s < SIZES; s++)
                if (m < MODES)
                    pids[m][s] = start(&crimes[i], sizes[s], &modes[m], NULL);
                else if (tool)
                    pids[m][s] = start(&crimes[i], sizes[s], &modes[0], tool);
        for (int m = first_mode; m <= MODES; m++)
            for (int s = 0; s < SIZES; s++)
                if (pids[m][s]) *(m < MODES ? &found[i][m][s] : &by_tool[i][s]) = verdict_on(pids[m][s]);
    }
}

static bool is_allowed(crime_kind kind, int mode, verdict v) {
    if (kind == CRIME_AT_EXIT) return v != UNNOTICED;
    if (kind == CRIME_MISMATCH) return v == (mode == NAMED ? STOPPED : HARMLESS);
    return v == STOPPED || (v == HARMLESS && kind != CRIME_STOPPED) ||
           (v == UNNOTICED && kind != CRIME_STOPPED && kind != CRIME_CONTENTS);
}

static int fail(size_t i, int s, const char *mode, verdict v) {
    fprintf(stderr, "%s of %zu bytes, %s: %s\n", crimes[i].name, sizes[s], mode, words[v]);
    return 1;
}

static int check(const char *tool) {
    int failed = 0;
    run_all(HARD, tool);
    for (size_t i = 0; i < crime_count; i++)
        for (int m = HARD; m < MODES; m++)
            for (int s = 0; s < SIZES; s++)
                if (!is_allowed(crimes[i].kind, m, found[i][m][s]))
                    failed |= fail(i, s, modes[m].title, found[i][m][s]);
    return failed;
}

/* A crime that ends no process is reported in one line. */
static int check_told(void) {
    char text[4096];
    int failed = 0;
    for (size_t i = 0; i < crime_count; i++) {
        if (crimes[i].kind != CRIME_MISMATCH && crimes[i].kind != CRIME_AT_EXIT) continue;
        CHECK((said = memfd_create("said", 0)) >= 0);
        verdict v = verdict_on(start(&crimes[i], sizes[0], &modes[HARD], NULL));
        ssize_t n = pread(said, text, sizeof text - 1, 0);
        CHECK(close(said) == 0 && n >= 0);
        said = -1;
        text[n] = 0;
        if (strncmp(text, "tslab: ", 7) != 0 || strchr(text, '\n') != text + n - 1) failed |= fail(i, 0, text, v);
    }
    return failed;
}

static int check_asked(void) {
    static const struct mode asked = {"hard, abort", {"TSLAB_HARDEN=1", "TSLAB_ON_MISUSE=abort"}};
    int failed = 0;
    for (size_t i = 0; i < crime_count; i++)
        for (int s = 0; s < SIZES && crimes[i].kind == CRIME_AT_EXIT; s++) {
            verdict v = verdict_on(start(&crimes[i], sizes[s], &asked, NULL));
            if (v != STOPPED) failed |= fail(i, s, asked.title, v);
        }
    return failed;
}

/* Each part by itself: a crime that it alone stops, with only that part and with those that have nothing to do with
   it. */
static int check_parts(void) {
    static const struct part {
        const char *crime;
        struct mode with, without;
    } parts[] = {
        {"over_index_1", {"canary", {"TSLAB_HARDEN=canary"}}, {"", {"TSLAB_HARDEN=quarantine,guard,kinds,sized"}}},
        {"free_write", {"quarantine", {"TSLAB_HARDEN=quarantine"}}, {"", {"TSLAB_HARDEN=canary,guard,kinds,sized"}}},
        {"zero_write", {"guard", {"TSLAB_HARDEN=guard"}}, {"", {"TSLAB_HARDEN=quarantine,kinds,sized"}}},
        {"new_free", {"kinds", {"TSLAB_HARDEN=kinds"}}, {"", {"TSLAB_HARDEN=canary,quarantine,guard,sized"}}},
        {"delete_less", {"sized", {"TSLAB_HARDEN=sized"}}, {"", {"TSLAB_HARDEN=canary,quarantine,guard,kinds"}}},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (size_t k = 0; k < crime_count; k++) {
            if (strcmp(crimes[k].name, parts[i].crime) != 0) continue;
            verdict with = verdict_on(start(&crimes[k], sizes[0], &parts[i].with, NULL));
            verdict without = verdict_on(start(&crimes[k], sizes[0], &parts[i].without, NULL));
            if (with != STOPPED) failed |= fail(k, 0, parts[i].with.title, with);
            if (without == STOPPED) failed |= fail(k, 0, "without that part", without);
        }
    return failed;
}

/* The tool stops the same crimes as the variable. */
/* Crimes before an object, of sizes that differ in the bytes there: a word of the slot before, or of its own. */
static int check_before(void) {
    static const size_t more[] = {16, 100, 504, 1000, 2000, 4072, 4096, 5000, 8000, 8184, 9000, 50000, 130000};
    int failed = 0;
    for (size_t i = 0; i < crime_count; i++)
        for (size_t k = 0; k < sizeof more / sizeof *more && strstr(crimes[i].name, "under"); k++) {
            if (crimes[i].kind != CRIME_STOPPED) continue;
            verdict v = verdict_on(start(&crimes[i], more[k], &modes[HARD], NULL));
            if (v == STOPPED) continue;
            fprintf(stderr, "%s of %zu bytes: %s\n", crimes[i].name, more[k], words[v]);
            failed = 1;
        }
    return failed;
}

static int check_tool(void) {
    int failed = 0;
    for (size_t i = 0; i < crime_count; i++)
        for (int s = 0; s < SIZES; s++)
            if (found[i][HARD][s] == STOPPED && by_tool[i][s] != STOPPED)
                failed |= fail(i, s, "run --hard", by_tool[i][s]);
    return failed;
}

static void print_list(void) {
    for (size_t i = 0; i < crime_count; i++)
        for (int s = 0; s < SIZES; s++) {
            printf("%-20s %7zu", crimes[i].name, sizes[s]);
            for (int m = 0; m < MODES; m++) printf("  %-14s", words[found[i][m][s]]);
            printf("\n");
        }
}

/* Of the named crimes only the mismatches differ. */
static void print_table(void) {
    unsigned sums[MODES][3] = {{0}};
    printf("| crime |");
    for (int m = 0; m <= HARD; m++) printf(" %s |", modes[m].title);
    printf("\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < crime_count; i++) {
        printf("| `%s` |", crimes[i].name);
        for (int m = 0; m <= HARD; m++) {
            const verdict *v = found[i][m];
            for (int s = 0; s < SIZES; s++) sums[m][v[s]]++;
            if (v[0] == v[1] && v[1] == v[2])
                printf(" %s |", words[v[0]]);
            else
                printf(" %s, %s, %s |", words[v[0]], words[v[1]], words[v[2]]);
        }
        printf("\n");
    }
    printf("| **stopped, harmless, cannot be told** |");
    for (int m = 0; m <= HARD; m++) printf(" %u, %u, %u |", sums[m][0], sums[m][1], sums[m][2]);
    printf("\n");
}

int main(int argc, char **argv) {
    CHECK(crime_count <= MOST);
    if (argc == 3) {
        for (size_t i = 0; i < crime_count; i++)
            if (strcmp(crimes[i].name, argv[1]) == 0) crime_run(&crimes[i], (size_t)atol(argv[2]));
        return 2;
    }
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    if (argc == 1) return check(NULL) | check_before() | check_parts() | check_told() | check_asked();
    if (argv[1][0] == '/')
        return check(argv[1]) | check_tool() | check_before() | check_parts() | check_told() | check_asked();
    run_all(0, NULL);
    if (strcmp(argv[1], "--list") == 0)
        print_list();
    else
        print_table();
    return 0;
}
