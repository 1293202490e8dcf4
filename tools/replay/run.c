#include "replay/run.h"

#include "tslab/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The names of their files are those of Debian's libjemalloc2, libtcmalloc-minimal4 and libmimalloc2.0. */
static const struct {
    const char *name, *library;
} KNOWN[] = {{"malloc", "libc.so.6"},
             {"jemalloc", "libjemalloc.so.2"},
             {"tcmalloc", "libtcmalloc_minimal.so.4"},
             {"mimalloc", "libmimalloc.so.2"},
             {"tslab", "libtslab-malloc.so." TSLAB_SOVERSION}};

bool run_allocator_named(const char *name, run_allocator *out) {
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        if (strcmp(KNOWN[i].name, name) != 0) continue;
        *out = (run_allocator){.name = KNOWN[i].name, .library = KNOWN[i].library};
        return true;
    }
    return false;
}

/* ---- one play ---------------------------------------------------------------------------------------------------- */

static void become_player(const run_allocator *a, int ops_fd, play_mode mode, int out) {
    char fd_text[16], mode_text[16];
    int null = mode == PLAY_PROBE ? open("/dev/null", O_WRONLY) : -1;
    snprintf(fd_text, sizeof fd_text, "%d", ops_fd);
    snprintf(mode_text, sizeof mode_text, "%d", (int)mode);
    (void)dup2(out, STDOUT_FILENO);
    if (null >= 0) (void)dup2(null, STDERR_FILENO); /* the loader says that it finds no such library */
    const int set = *a->path ? setenv("LD_PRELOAD", a->path, 1) : unsetenv("LD_PRELOAD");
    if (set == 0) execl("/proc/self/exe", "tslab", "replay", "--play", fd_text, mode_text, a->library, (char *)NULL);
    _exit(PLAY_BROKEN);
}

/* The player's exit status; result: all of it, if that is 0 and mode is no probe. */
static int play_once(const run_allocator *a, int ops_fd, play_mode mode, play_result *result) {
    int fd[2], status = 0;
    size_t got = 0;
    if (pipe2(fd, O_CLOEXEC) != 0) return PLAY_BROKEN;
    pid_t child = fork();
    if (child == 0) become_player(a, ops_fd, mode, fd[1]);
    (void)close(fd[1]);
    for (ssize_t n = 1; child > 0 && result && got < sizeof *result && n != 0;) {
        n = read(fd[0], (char *)result + got, sizeof *result - got);
        if (n < 0 && errno != EINTR) break;
        if (n > 0) got += (size_t)n;
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    (void)close(fd[0]);
    if (child < 0 || !WIFEXITED(status)) return PLAY_BROKEN;
    if (WEXITSTATUS(status) == 0 && result && got < sizeof *result) return PLAY_BROKEN;
    return WEXITSTATUS(status);
}

bool run_is_installed(run_allocator *a) {
    if (strcmp(a->name, "malloc") != 0) {
        snprintf(a->path, sizeof a->path, "%s", a->library);
        if (strcmp(a->name, "tslab") == 0 && launch_find_library(a->library, a->path) >= 0) return false;
    }
    return play_once(a, -1, PLAY_PROBE, NULL) == 0;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

typedef struct one_round {
    double time_ns, cpu_ns, peak_bytes, final_bytes, resident[OPS_SAMPLES_MOST];
} one_round;

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of the numbers that lie at the same offset in each round. */
static spread spread_of(const one_round *rounds, unsigned count, const double *first, double less) {
    double value[RUN_ROUNDS_MOST];
    const size_t offset = (size_t)((const char *)first - (const char *)rounds);
    for (unsigned i = 0; i < count; i++) {
        memcpy(&value[i], (const char *)&rounds[i] + offset, sizeof value[i]);
        value[i] = value[i] > less ? value[i] - less : 0;
    }
    qsort(value, count, sizeof *value, by_value);
    return (spread){(value[count / 2] + value[(count - 1) / 2]) / 2, value[0], value[count - 1]};
}

static const char *what_failed(int status) {
    static char text[80];
    if (status == PLAY_NO_MEMORY) return "the allocator has no memory for these operations";
    snprintf(text, sizeof text, "the player ended with status %d", status);
    return text;
}

static const char *play_round(const run_allocator *a, one_round *r, play_result *result) {
    int status = play_once(a, a->ops_fd, PLAY_TIME, result);
    if (status != 0) return what_failed(status);
    r->time_ns = (double)result->time_ns;
    r->cpu_ns = (double)result->cpu_ns;
    status = play_once(a, a->ops_fd, PLAY_MEASURE, result);
    if (status != 0) return what_failed(status);
    r->final_bytes = (double)result->final_bytes;
    r->peak_bytes = r->final_bytes;
    for (uint32_t i = 0; i < a->samples; i++) {
        r->resident[i] = (double)result->resident[i];
        if (r->resident[i] > r->peak_bytes) r->peak_bytes = r->resident[i];
    }
    buckets_add(&a->figures->alloc_ns, &result->alloc_ns);
    buckets_add(&a->figures->free_ns, &result->free_ns);
    a->figures->allocs = result->allocs;
    a->figures->frees = result->frees;
    a->figures->reallocs = result->reallocs;
    return NULL;
}

static void conclude(run_figures *f, const one_round *of, unsigned rounds, uint32_t samples, const one_round *own,
                     double *player_ns) {
    const double own_cpu = spread_of(own, rounds, &own->cpu_ns, 0).median;
    *player_ns = spread_of(own, rounds, &own->time_ns, 0).median;
    f->time_ns = spread_of(of, rounds, &of->time_ns, *player_ns);
    f->cpu_ns = spread_of(of, rounds, &of->cpu_ns, own_cpu);
    f->peak_bytes = spread_of(of, rounds, &of->peak_bytes, 0);
    f->final_bytes = spread_of(of, rounds, &of->final_bytes, 0);
    for (uint32_t i = 0; i < samples; i++) f->resident[i] = spread_of(of, rounds, &of->resident[i], 0).median;
}

const char *run_rounds(run_allocator *const *list, unsigned count, unsigned rounds, double *player_ns,
                       void (*progress)(double share)) {
    one_round *all = calloc((size_t)(count + 1) * rounds, sizeof *all), *own = all + (size_t)count * rounds;
    play_result *result = malloc(sizeof *result);
    run_allocator nothing;
    const char *error = all && result ? NULL : "no memory";
    (void)run_allocator_named("malloc", &nothing);
    for (unsigned r = 0; r < rounds && !error; r++) {
        const int status = play_once(&nothing, list[0]->ops_fd, PLAY_NOTHING, result);
        if (status != 0) error = what_failed(status);
        own[r].time_ns = (double)result->time_ns;
        own[r].cpu_ns = (double)result->cpu_ns;
        for (unsigned i = 0; i < count && !error; i++) {
            progress((double)(r * count + i) / (double)(rounds * count));
            error = play_round(list[i], &all[(size_t)i * rounds + r], result);
        }
    }
    for (unsigned i = 0; i < count && !error; i++)
        conclude(list[i]->figures, &all[(size_t)i * rounds], rounds, list[i]->samples, own, player_ns);
    free(all);
    free(result);
    return error;
}
