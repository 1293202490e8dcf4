#include "common/symbols.h"

#include "common/target.h"
#include "common/text.h"
#include "elf/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARK "      at "
#define AT_ONCE 256u /* addresses given to one addr2line */
#define ANSWER_MAX (1u << 20)
#define ADDRESS_CHARS 20u

extern char **environ;

typedef struct place {
    const char *path; /* in the text, not terminated */
    size_t path_length;
    unsigned long long address;
    char *lines; /* "FUNCTION at FILE:LINE\n" ...; NULL: not known */
} place;

typedef struct places {
    place *at;
    size_t count, capacity;
} places;

/* "      at PATH+0xADDRESS\n" at the beginning of a line; PATH is "?" of code that is in no file. */
static bool parse_line(const char *line, const char *end, place *out) {
    size_t n = strlen(MARK);
    const char *plus = NULL;
    if ((size_t)(end - line) <= n || strncmp(line, MARK, n) != 0 || (line[n] != '/' && line[n] != '?')) return false;
    for (const char *c = line + n; c + 2 < end; c++)
        if (strncmp(c, "+0x", 3) == 0) plus = c;
    if (!plus) return false;
    char *stop;
    out->path = line + n;
    out->path_length = (size_t)(plus - out->path);
    out->address = strtoull(plus + 3, &stop, 16);
    out->lines = NULL;
    return stop == end && stop > plus + 3 && out->path_length < PATH_MAX && out->address > 0;
}

static bool is_same(const place *a, const place *b) {
    return a->address == b->address && a->path_length == b->path_length &&
           memcmp(a->path, b->path, a->path_length) == 0;
}

static place *find(const places *all, const place *p) {
    for (size_t i = 0; i < all->count; i++)
        if (is_same(&all->at[i], p)) return &all->at[i];
    return NULL;
}

static const char *line_end(const char *line) {
    const char *end = strchr(line, '\n');
    return end ? end : line + strlen(line);
}

static bool collect(const char *text, places *all) {
    for (const char *line = text; *line;) {
        const char *end = line_end(line);
        place p;
        if (parse_line(line, end, &p) && !find(all, &p)) {
            if (all->count == all->capacity) {
                size_t more = all->capacity ? 2 * all->capacity : 64;
                place *at = realloc(all->at, more * sizeof *at);
                if (!at) return false;
                all->at = at;
                all->capacity = more;
            }
            all->at[all->count++] = p;
        }
        line = *end ? end + 1 : end;
    }
    return true;
}

/* ---- addr2line ------------------------------------------------------------------------------------------------- */

/* The file as it can be opened here. false: it is not, or is none to be read. */
static bool find_file(const place *p, pid_t pid, char *out, size_t bytes) {
    struct stat s;
    int length = (int)p->path_length;
    if (pid && (size_t)snprintf(out, bytes, "/proc/%ld/root%.*s", (long)pid, length, p->path) < bytes &&
        stat(out, &s) == 0 && S_ISREG(s.st_mode))
        return true;
    return (size_t)snprintf(out, bytes, "%.*s", length, p->path) < bytes && stat(out, &s) == 0 && S_ISREG(s.st_mode);
}

static char *read_all(int fd) {
    size_t used = 0;
    char *text = malloc(ANSWER_MAX + 1);
    for (ssize_t n = 1; text && n != 0 && used < ANSWER_MAX;) {
        n = read(fd, text + used, ANSWER_MAX - used);
        if (n < 0 && errno != EINTR) break;
        if (n > 0) used += (size_t)n;
    }
    if (text) text[used] = 0;
    return text;
}

/* What it prints; NULL: nothing, and *missing if there is no such program. */
static char *run(char *const argv[], bool *missing) {
    int fd[2];
    pid_t child;
    posix_spawn_file_actions_t actions;
    if (pipe(fd) != 0) return NULL;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        (void)close(fd[0]);
        (void)close(fd[1]);
        return NULL;
    }
    (void)posix_spawn_file_actions_addclose(&actions, fd[0]);
    (void)posix_spawn_file_actions_adddup2(&actions, fd[1], STDOUT_FILENO);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int error = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(fd[1]);
    *missing |= error == ENOENT;
    char *answer = error ? NULL : read_all(fd[0]);
    (void)close(fd[0]);
    if (!error)
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    return answer;
}

/* Gives each of the places its lines: the answer has "0xADDRESS: " before the first of each, in their order. */
static void take_answer(char *answer, place *const *of, size_t count) {
    size_t next = 0;
    place *p = NULL;
    for (char *line = answer, *end; line && *line && next <= count; line = end) {
        end = strchr(line, '\n');
        if (!end) return;
        *end++ = 0;
        if (strncmp(line, "0x", 2) == 0 && (line = strstr(line, ": ")) != NULL && next < count) {
            p = of[next++];
            line += 2;
        } else if (line && strncmp(line, " (inlined by) ", 14) == 0) {
            line += 14;
        } else {
            return;
        }
        char *more = strstr(line, " (discriminator");
        if (more) *more = 0;
        if (strncmp(line, "??", 2) == 0) continue;
        (void)text_tame(line, strlen(line), false);
        size_t had = p->lines ? strlen(p->lines) : 0;
        char *lines = realloc(p->lines, had + strlen(line) + 2);
        if (!lines) return;
        p->lines = lines;
        memcpy(lines + had, line, strlen(line) + 1);
        strcat(lines, "\n");
    }
}

/* Those of one file, at most AT_ONCE. */
static void ask(place *const *of, size_t count, char *file, bool *missing) {
    char address[AT_ONCE][ADDRESS_CHARS], name[] = "addr2line", options[] = "-aCfipe";
    char *argv[AT_ONCE + 4] = {name, options, file};
    for (size_t i = 0; i < count; i++) {
        snprintf(address[i], sizeof address[i], "0x%llx", of[i]->address - 1); /* in the call, which is before it */
        argv[3 + i] = address[i];
    }
    argv[3 + count] = NULL;
    char *answer = run(argv, missing);
    if (answer) take_answer(answer, of, count);
    free(answer);
}

static int compare_places(const void *a, const void *b) {
    unsigned long long x = (*(place *const *)a)->address, y = (*(place *const *)b)->address;
    return x < y ? -1 : x > y;
}

/* Where a file has no lines, addr2line names the nearest function that it knows before the address. That is another
   one's name where the address lies behind its end: then the place has none. */
static void drop_wrong_names(place **of, size_t count, const char *file) {
    elf_place at[AT_ONCE] = {{0, NULL}};
    qsort(of, count, sizeof *of, compare_places);
    for (size_t i = 0; i < count; i++) at[i].address = of[i]->address - 1;
    elf_functions(file, at, count);
    for (size_t i = 0; i < count; i++) {
        bool has_line = of[i]->lines && !strstr(of[i]->lines, " at ?");
        if (!at[i].name && of[i]->lines && !has_line) {
            free(of[i]->lines);
            of[i]->lines = NULL;
        }
        free(at[i].name);
    }
}

static bool is_in_file(const place *a, const place *b) {
    return a->path_length == b->path_length && memcmp(a->path, b->path, a->path_length) == 0;
}

static void say_missing(void) {
    static bool said;
    if (!said) say("addr2line is not installed (package binutils): places are given as FILE+ADDRESS");
    said = true;
}

/* Of code that a JIT has made: the names of the process's perf map. */
static void resolve_jit(const places *all, pid_t pid) {
    elf_place *at = calloc(all->count + 1, sizeof *at);
    place **of = calloc(all->count + 1, sizeof *of);
    size_t count = 0;
    for (size_t i = 0; at && of && i < all->count; i++)
        if (all->at[i].path_length == 1) of[count++] = &all->at[i];
    char *map = count > 0 && pid ? perf_map_read(pid, NULL) : NULL;
    if (map) {
        qsort(of, count, sizeof *of, compare_places);
        for (size_t i = 0; i < count; i++) at[i].address = of[i]->address - 1;
        perf_map_name(map, at, count);
    }
    for (size_t i = 0; map && i < count; i++) {
        size_t bytes = at[i].name ? strlen(at[i].name) + sizeof " at [JIT]\n" : 0;
        of[i]->lines = bytes ? malloc(bytes) : NULL;
        if (of[i]->lines) snprintf(of[i]->lines, bytes, "%s at [JIT]\n", at[i].name);
        if (of[i]->lines) (void)text_tame(of[i]->lines, bytes - 2, false);
        free(at[i].name);
    }
    free(map);
    free(of);
    free(at);
}

void symbols_of_file(const char *file, symbols_place *places_, size_t count) {
    place *all = calloc(count + 1, sizeof *all), *of[AT_ONCE];
    char name[PATH_MAX];
    bool missing = false;
    size_t n = 0;
    for (size_t i = 0; i < count && all; i++) all[i].address = places_[i].address;
    for (size_t i = 0; i < count && all && !missing && (size_t)snprintf(name, sizeof name, "%s", file) < sizeof name;
         i++) {
        of[n++] = &all[i];
        if (n < AT_ONCE && i + 1 < count) continue;
        ask(of, n, name, &missing);
        drop_wrong_names(of, n, file);
        n = 0;
    }
    for (size_t i = 0; i < count && all; i++) places_[i].lines = all[i].lines;
    if (missing) say_missing();
    free(all);
}

static void resolve(const places *all, pid_t pid) {
    bool missing = false;
    resolve_jit(all, pid);
    for (size_t first = 0; first < all->count && !missing; first++) {
        place *of[AT_ONCE];
        char file[PATH_MAX + 64];
        size_t count = 0, i = 0;
        while (i < first && !is_in_file(&all->at[i], &all->at[first])) i++;
        if (i < first || !find_file(&all->at[first], pid, file, sizeof file)) continue;
        for (i = first; i < all->count && !missing; i++) {
            if (is_in_file(&all->at[i], &all->at[first])) of[count++] = &all->at[i];
            if (count > 0 && (count == AT_ONCE || i + 1 == all->count)) {
                ask(of, count, file, &missing);
                drop_wrong_names(of, count, file);
                count = 0;
            }
        }
    }
    if (missing) say_missing();
}

/* ---- the text --------------------------------------------------------------------------------------------------- */

/* "FUNCTION at FILE:LINE" as "FUNCTION, FILE:LINE"; of a file without lines: "FUNCTION, PATH+0xADDRESS". */
static void put_lines(FILE *out, const place *p) {
    for (const char *line = p->lines; *line; line = line_end(line) + 1) {
        const char *end = line_end(line), *at = NULL;
        for (const char *c = line; c + 4 <= end; c++)
            if (strncmp(c, " at ", 4) == 0) at = c;
        if (!at) at = end;
        fprintf(out, MARK "%.*s, ", (int)(at - line), line);
        if (at == end || at[4] == '?')
            fprintf(out, "%.*s+0x%llx\n", (int)p->path_length, p->path, p->address);
        else
            fprintf(out, "%.*s\n", (int)(end - at - 4), at + 4);
    }
}

static void rewrite(FILE *out, const char *text, const places *all) {
    for (const char *line = text; *line;) {
        const char *end = line_end(line);
        const char *next = *end ? end + 1 : end;
        place p;
        const place *known = parse_line(line, end, &p) ? find(all, &p) : NULL;
        if (known && known->lines)
            put_lines(out, known);
        else
            fwrite(line, 1, (size_t)(next - line), out);
        line = next;
    }
}

char *symbols_resolve(const char *text, pid_t pid) {
    places all = {0};
    char *answer = NULL;
    size_t length;
    FILE *out = collect(text, &all) ? open_memstream(&answer, &length) : NULL;
    if (out) {
        resolve(&all, pid);
        rewrite(out, text, &all);
        if (fclose(out) != 0) {
            free(answer);
            answer = NULL;
        }
    }
    for (size_t i = 0; i < all.count; i++) free(all.at[i].lines);
    free(all.at);
    return answer;
}
