#include "bench_csv.h"

#include "bench_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t bench_csv_child;

static const char *program_name, *final_path;
static char temporary[4200];

static void remove_temporary(void) {
    if (temporary[0] != '\0') unlink(temporary);
}

static void interrupted(int signal_number) {
    if (bench_csv_child > 0) kill((pid_t)bench_csv_child, SIGKILL);
    remove_temporary();
    _exit(128 + signal_number);
}

FILE *bench_csv_open(const char *program, const char *path) {
    program_name = program;
    final_path = path;
    if (path == NULL) return NULL;
    int length = snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof temporary) {
        temporary[0] = '\0';
        bench_die(BENCH_EXIT_USAGE, "%s: --csv: the path is too long", program);
    }
    /* Before there is something to remove. */
    signal(SIGINT, interrupted);
    signal(SIGTERM, interrupted);
    FILE *file = fopen(temporary, "w");
    if (file == NULL) {
        temporary[0] = '\0';
        bench_die(BENCH_EXIT_USAGE, "%s: --csv %s: %s", program, path, strerror(errno));
    }
    atexit(remove_temporary);
    return file;
}

void bench_csv_close(FILE *file) {
    if (file == NULL) return;
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0) failed = true;
    if (failed || rename(temporary, final_path) != 0)
        bench_die(BENCH_EXIT_FAILED, "%s: %s: %s", program_name, final_path, strerror(errno));
    temporary[0] = '\0';
}
