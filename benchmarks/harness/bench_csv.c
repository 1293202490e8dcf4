#include "bench_csv.h"

#include "bench_place.h"
#include "bench_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t bench_csv_child;

static const char *program_name;
static bench_place place;
static pid_t owner; /* a child that exits leaves the file alone */

static void remove_temporary(void) {
    if (getpid() == owner) bench_place_drop(&place);
}

static void interrupted(int signal_number) {
    if (bench_csv_child > 0) kill((pid_t)bench_csv_child, SIGKILL);
    remove_temporary();
    _exit(128 + signal_number);
}

FILE *bench_csv_open(const char *program, const char *path) {
    program_name = program;
    owner = getpid();
    if (path == NULL) return NULL;
    bench_on_interruption(interrupted); /* before there is something to remove */
    atexit(remove_temporary);
    int fd = bench_place_open(&place, path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (file == NULL) bench_die(BENCH_EXIT_USAGE, "%s: --csv %s: %s", program, path, strerror(errno));
    return file;
}

void bench_csv_close(FILE *file) {
    if (file == NULL) return;
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0) failed = true;
    if (failed || !bench_place_commit(&place))
        bench_die(BENCH_EXIT_USAGE, "%s: --csv %s: %s", program_name, place.path, strerror(errno));
}
