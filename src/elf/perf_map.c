#include "elf/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAP_MAX ((off_t)1 << 28)

/* The id that the process has for itself: the last one of the line NSpid. */
static long own_id(pid_t pid) {
    char path[64], line[256];
    long id = pid;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *in = fopen(path, "re");
    while (in && fgets(line, sizeof line, in)) {
        const char *last = strncmp(line, "NSpid:", 6) == 0 ? strrchr(line, '\t') : NULL;
        if (last) id = strtol(last, NULL, 10);
    }
    if (in) (void)fclose(in);
    return id;
}

static char *read_file(const char *path, uid_t owner, size_t *bytes) {
    struct stat s;
    char *text = NULL;
    size_t used = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) return NULL;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && (s.st_uid == owner || s.st_uid == 0) && s.st_size <= MAP_MAX)
        text = malloc((size_t)s.st_size + 1);
    while (text && used < (size_t)s.st_size) {
        ssize_t n = read(fd, text + used, (size_t)s.st_size - used);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        used += (size_t)n;
    }
    (void)close(fd);
    while (text && used > 0 && text[used - 1] != '\n') used--; /* the last line may still be written */
    if (text) text[used] = 0;
    if (bytes) *bytes = used;
    return text;
}

char *perf_map_read(pid_t pid, size_t *bytes) {
    char path[PATH_MAX];
    struct stat s;
    uid_t owner = geteuid();
    if (pid) {
        snprintf(path, sizeof path, "/proc/%ld", (long)pid);
        if (stat(path, &s) == 0) owner = s.st_uid;
        snprintf(path, sizeof path, "/proc/%ld/root/tmp/perf-%ld.map", (long)pid, own_id(pid));
        char *text = read_file(path, owner, bytes);
        if (text) return text;
    }
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", pid ? (long)pid : (long)getpid());
    return read_file(path, owner, bytes);
}

/* "START BYTES NAME" up to the end of the line. */
static bool parse_line(const char *line, const char *end, uint64_t *start, uint64_t *bytes, const char **name) {
    char *at;
    *start = strtoull(line, &at, 16);
    if (at == line || at >= end || *at != ' ') return false;
    line = at + 1;
    *bytes = strtoull(line, &at, 16);
    if (at == line || at >= end || *at != ' ' || at + 1 == end) return false;
    *name = at + 1;
    return true;
}

void perf_map_name(const char *map, elf_place *place, size_t count) {
    for (const char *line = map, *end; *line && (end = strchr(line, '\n')); line = end + 1) {
        uint64_t start, bytes;
        const char *name;
        if (!parse_line(line, end, &start, &bytes, &name)) continue;
        for (size_t k = elf_first_from(place, count, start); k < count && place[k].address - start < bytes; k++) {
            char *copy = strndup(name, (size_t)(end - name));
            if (!copy) continue;
            free(place[k].name);
            place[k].name = copy;
        }
    }
}
