/* The libraries of the project for a program that is about to be started. */
#include "tslab/launch.h"

#include "common/options.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int launch_fail(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", option_command);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return code;
}

/* Whether the loader finds a library by its name: a process of its own tries. */
static bool is_loadable(const char *name) {
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        (void)unsetenv("TSLAB_HTTP"); /* it is to start nothing */
        (void)unsetenv("TSLAB_SHM");
        _exit(dlopen(name, RTLD_LAZY) ? 0 : 1);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return child > 0 && status == 0;
}

/* The library by its path, if it is at one of the places; else by its name. -1: done; else an exit code. */
int launch_find_library(const char *name, char out[PATH_MAX]) {
    static const char *const places[] = {("../" TSLAB_LIBRARY_DIR), ("../" TSLAB_LIBRARY_DIR "/tslab"), "../src/malloc",
                                         "../src/http", "../src/record"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        char path[PATH_MAX], whole[PATH_MAX];
        int length = snprintf(path, sizeof path, "%s/%s/%s", self, places[i], name);
        if (length < 0 || length >= PATH_MAX || !realpath(path, whole)) continue;
        /* The loader takes it for the end of a name. */
        if (strpbrk(whole, ": "))
            return launch_fail(EXIT_CANNOT, "%s: a path with a space or a colon cannot be preloaded; move it", whole);
        snprintf(out, PATH_MAX, "%s", whole);
        return -1;
    }
    snprintf(out, PATH_MAX, "%s", name);
    return is_loadable(name) ? -1 : launch_fail(EXIT_CANNOT, "%s is not found", name);
}

/* In front of libraries that are preloaded already. */
bool launch_preload(const char *library) {
    const char *before = getenv("LD_PRELOAD");
    char *text = NULL;
    bool some = before && *before;
    size_t bytes = strlen(library) + (some ? strlen(before) : 0) + 2;
    text = malloc(bytes);
    if (!text) return false;
    snprintf(text, bytes, "%s%s%s", library, some ? ":" : "", some ? before : "");
    bool done = setenv("LD_PRELOAD", text, 1) == 0;
    free(text);
    return done;
}

/* Whether the file is a program that no loader loads. */
static bool is_static(const char *path) {
    ElfW(Ehdr) head;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool loaded = true;
    if (fd < 0) return false;
    if (read(fd, &head, sizeof head) == (ssize_t)sizeof head && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
        head.e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)) {
        loaded = false;
        for (unsigned i = 0; i < head.e_phnum; i++) {
            ElfW(Phdr) part;
            if (pread(fd, &part, sizeof part, (off_t)(head.e_phoff + (size_t)i * head.e_phentsize)) ==
                (ssize_t)sizeof part)
                loaded |= part.p_type == PT_INTERP;
        }
    }
    (void)close(fd);
    return !loaded;
}

bool launch_is_static(const char *name) {
    if (strchr(name, '/')) return is_static(name);
    const char *path = getenv("PATH");
    while (path && *path) {
        char file[PATH_MAX];
        size_t n = strcspn(path, ":");
        if (snprintf(file, sizeof file, "%.*s/%s", (int)n, path, name) < PATH_MAX && access(file, X_OK) == 0)
            return is_static(file);
        path += n + (path[n] == ':');
    }
    return false;
}
