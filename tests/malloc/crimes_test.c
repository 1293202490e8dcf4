/*
 * Every crime of crimes.c, small, medium and large, in each mode of the library. Arguments: none: the hard mode stops
 * what it promises to stop; or --table: the table of docs/security.md; or --list: what became of each. (NAME BYTES:
 * commits that one.)
 */
#define _GNU_SOURCE
#include "crimes.h"

#include "malloc_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct mode {
    const char *title, *variables[3]; /* name=value */
} modes[] = {
    {"default", {NULL}},
    {"abort", {"TSLAB_ON_MISUSE=abort"}},
    {"poison, guards", {"TSLAB_ON_MISUSE=abort", "TSLAB_POISON=1", "TSLAB_GUARD=1"}},
    {"hard", {"TSLAB_HARDEN=1"}},
};
enum { MODES = sizeof modes / sizeof *modes, HARD = MODES - 1, SIZES = 3 };
static const size_t sizes[SIZES] = {40, 20000, 300000};

typedef enum verdict { STOPPED, HARMLESS, UNNOTICED } verdict;
static const char *const words[] = {"stopped", "harmless", "cannot be told"};

static verdict run(const crime *c, size_t bytes, const struct mode *mode) {
    char text[32];
    int status;
    snprintf(text, sizeof text, "%zu", bytes);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        (void)dup2(null, STDERR_FILENO);
        for (int i = 0; i < 3 && mode->variables[i]; i++) (void)putenv((char *)(uintptr_t)mode->variables[i]);
        execl("/proc/self/exe", "crimes_test", c->name, text, (char *)NULL);
        _exit(127);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status)) return STOPPED;
    CHECK(WEXITSTATUS(status) == CRIME_HARMLESS || WEXITSTATUS(status) == CRIME_DONE);
    return WEXITSTATUS(status) == CRIME_HARMLESS ? HARMLESS : UNNOTICED;
}

static verdict found[128][MODES][SIZES];

static void run_all(int first_mode) {
    for (size_t i = 0; i < crime_count; i++)
        for (int m = first_mode; m < MODES; m++)
            for (int s = 0; s < SIZES; s++) found[i][m][s] = run(&crimes[i], sizes[s], &modes[m]);
}

static bool is_allowed(crime_kind kind, verdict v) {
    return v == STOPPED || (v == HARMLESS && kind != CRIME_STOPPED) ||
           (v == UNNOTICED && kind != CRIME_STOPPED && kind != CRIME_CONTENTS);
}

static int check(void) {
    int failed = 0;
    run_all(HARD);
    for (size_t i = 0; i < crime_count; i++)
        for (int s = 0; s < SIZES; s++)
            if (!is_allowed(crimes[i].kind, found[i][HARD][s])) {
                fprintf(stderr, "%s of %zu bytes: %s\n", crimes[i].name, sizes[s], words[found[i][HARD][s]]);
                failed = 1;
            }
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

static void print_table(void) {
    unsigned sums[MODES][3] = {{0}};
    printf("| crime |");
    for (int m = 0; m < MODES; m++) printf(" %s |", modes[m].title);
    printf("\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < crime_count; i++) {
        printf("| `%s` |", crimes[i].name);
        for (int m = 0; m < MODES; m++) {
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
    for (int m = 0; m < MODES; m++) printf(" %u, %u, %u |", sums[m][0], sums[m][1], sums[m][2]);
    printf("\n");
}

int main(int argc, char **argv) {
    CHECK(crime_count <= sizeof found / sizeof *found);
    if (argc == 3) {
        for (size_t i = 0; i < crime_count; i++)
            if (strcmp(crimes[i].name, argv[1]) == 0) crime_run(&crimes[i], (size_t)atol(argv[2]));
        return 2;
    }
    if (argc == 1) return check();
    run_all(0);
    if (strcmp(argv[1], "--list") == 0)
        print_list();
    else
        print_table();
    return 0;
}
