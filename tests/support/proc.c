#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "proc.h"

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Reads the pipe to its end, and keeps as much as fits. */
static void drain(int descriptor, char *err, size_t capacity) {
    size_t used = 0;
    char chunk[4096];
    for (;;) {
        ssize_t got = read(descriptor, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        for (ssize_t i = 0; i < got && used + 1 < capacity; i++) {
            err[used++] = chunk[i];
        }
    }
    if (capacity > 0) {
        err[used] = '\0';
    }
}

static int collect(pid_t child, int pipe_end, char *err, size_t capacity) {
    if (pipe_end >= 0) {
        drain(pipe_end, err, capacity);
        (void)close(pipe_end);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        SUP_CHECK(errno == EINTR, "waitpid: %s", strerror(errno));
    }
    return status;
}

static pid_t fork_captured(int ends[2], int captured) {
    ends[0] = -1;
    ends[1] = -1;
    if (captured) {
        SUP_CHECK(pipe(ends) == 0, "pipe: %s", strerror(errno));
    }
    (void)fflush(NULL);
    pid_t child = fork();
    SUP_CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0 && captured) {
        (void)dup2(ends[1], STDERR_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
    } else if (captured) {
        (void)close(ends[1]);
    }
    return child;
}

#ifdef SUP_COVERAGE
void __gcov_dump(void); /* of libgcov */
#endif

void sup_exit(int status) {
#ifdef SUP_COVERAGE
    __gcov_dump();
#endif
    _exit(status);
}

int sup_child(void (*fn)(void *), void *arg, unsigned seconds, char *err, size_t capacity) {
    int ends[2];
    pid_t child = fork_captured(ends, err != NULL);
    if (child == 0) {
        (void)alarm(seconds);
        fn(arg);
        (void)fflush(NULL);
        sup_exit(0);
    }
    return collect(child, ends[0], err, capacity);
}

/* The words of TEST_EMULATOR, the path of this executable, and its arguments. */
static void exec_emulated(const char *emulator, char *const argv[]) {
    static char words[1024], path[4096];
    char *all[64];
    size_t count = 0;
    SUP_CHECK(strlen(emulator) < sizeof words, "TEST_EMULATOR is too long");
    memcpy(words, emulator, strlen(emulator) + 1);
    for (char *word = strtok(words, " "); word != NULL && count < 32; word = strtok(NULL, " ")) {
        all[count++] = word;
    }
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    SUP_CHECK(count > 0 && length > 0, "TEST_EMULATOR=%s: %s", emulator, strerror(errno));
    all[count++] = path;
    for (size_t i = 1; argv[i] != NULL && count < 63; i++) {
        all[count++] = argv[i];
    }
    all[count] = NULL;
    (void)execvp(all[0], all);
}

static void exec_again(char *const argv[]) {
    const char *emulator = getenv("TEST_EMULATOR");
    if (emulator != NULL) {
        exec_emulated(emulator, argv);
    } else {
        (void)execv("/proc/self/exe", argv);
    }
}

int sup_reexec(char *const argv[], const char *name, const char *value, char *err, size_t capacity) {
    int ends[2];
    pid_t child = fork_captured(ends, err != NULL);
    if (child == 0) {
        if (name != NULL) {
            (void)setenv(name, value, 1);
        }
        (void)alarm(SUP_CHILD_SECONDS);
        exec_again(argv);
        _exit(127);
    }
    return collect(child, ends[0], err, capacity);
}

size_t sup_rss_bytes(void) {
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (file == NULL) {
        return 0;
    }
    char line[256];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "Rss:", 4) == 0) {
            kib = strtoull(line + 4, NULL, 10);
            break;
        }
    }
    (void)fclose(file);
    return (size_t)kib * 1024u;
}

size_t sup_count_lines(const char *text) {
    size_t lines = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\n') {
            lines++;
        }
    }
    return lines;
}

void sup_sleep_ms(unsigned milliseconds) {
    struct timespec pause = {(time_t)(milliseconds / 1000u), (long)(milliseconds % 1000u) * 1000000L};
    while (nanosleep(&pause, &pause) != 0 && errno == EINTR) {
    }
}

long sup_thread_id(void) { return syscall(SYS_gettid); }

/* The figures of /proc on a thread: whether it sleeps, and the clock ticks that it has run. False: it has ended. */
static bool look_at_thread(long id, bool *sleeps, unsigned long *ran) {
    char path[64], line[512] = "", state = 0;
    unsigned long user = 0, system = 0;
    (void)snprintf(path, sizeof path, "/proc/self/task/%ld/stat", id);
    FILE *file = fopen(path, "r");
    bool read = file != NULL && fgets(line, sizeof line, file) != NULL;
    if (file != NULL) {
        (void)fclose(file);
    }
    const char *name_ends = read ? strrchr(line, ')') : NULL;
    if (name_ends == NULL ||
        sscanf(name_ends, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state, &user, &system) != 3) {
        return false;
    }
    *sleeps = state == 'S';
    *ran = user + system;
    return true;
}

void sup_until_set_or_waits(const atomic_bool *flag, const atomic_long *id) {
    unsigned long first = 0, ran, ticks = (unsigned long)sysconf(_SC_CLK_TCK) / 50;
    bool sleeps, begun = false;
    for (unsigned slept = 0; slept < 2 && !(flag && atomic_load(flag));) {
        sup_sleep_ms(1);
        long thread = atomic_load(id);
        if (thread == 0) {
            continue;
        }
        if (!look_at_thread(thread, &sleeps, &ran) || (begun && ran - first >= ticks)) {
            return;
        }
        first = begun ? first : ran;
        begun = true;
        slept = sleeps ? slept + 1 : 0;
    }
}

void sup_until_waits(const atomic_long *id) { sup_until_set_or_waits(NULL, id); }

void sup_until_set(const atomic_bool *flag) {
    for (double from = sup_now_s(); !atomic_load(flag);) {
        SUP_CHECK(sup_now_s() - from < 10, "it does not come to that");
        (void)sched_yield();
    }
}

void sup_in_thread(void *(*fn)(void *), void *arg) {
    pthread_t thread;
    SUP_CHECK(pthread_create(&thread, NULL, fn, arg) == 0 && pthread_join(thread, NULL) == 0, "a thread");
}
