#include "bench_place.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(int error) {
    errno = error;
    return -1;
}

int bench_place_open(bench_place *place, const char *path) {
    struct stat status;
    char resolved[PATH_MAX];
    place->temporary[0] = '\0';
    if (strlen(path) >= sizeof place->path) return refuse(ENAMETOOLONG);
    snprintf(place->path, sizeof place->path, "%s", path);
    bool exists = stat(path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) return refuse(EISDIR);
    /* /dev/stdout is one of these while standard output is closed: such a link is not replaced */
    if (!exists && lstat(path, &status) == 0) return refuse(ENOENT);
    if (exists && realpath(path, resolved) != NULL && strncmp(resolved, "/dev/", 5) != 0 && S_ISREG(status.st_mode)) {
        if (access(resolved, W_OK) != 0) return -1;
        snprintf(place->path, sizeof place->path, "%s", resolved);
        if (status.st_size > 0) fprintf(stderr, "'%s' is there, and is replaced at the end\n", path);
    } else if (exists) {
        return open(path, O_WRONLY | O_CLOEXEC);
    }
    snprintf(place->temporary, sizeof place->temporary, "%s.%ld.tmp", place->path, (long)getpid());
    int fd = open(place->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) place->temporary[0] = '\0';
    return fd;
}

bool bench_place_commit(bench_place *place) {
    if (place->temporary[0] != '\0' && rename(place->temporary, place->path) != 0) return false;
    place->temporary[0] = '\0';
    return true;
}

void bench_place_drop(const bench_place *place) {
    if (place->temporary[0] != '\0') unlink(place->temporary);
}

void bench_on_interruption(void (*handler)(int number)) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction old, action = {.sa_handler = handler};
        sigemptyset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
    }
}
