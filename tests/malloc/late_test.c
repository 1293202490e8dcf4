/*
 * The library is loaded by dlopen, when the program has allocated for long: it replaces no malloc, and works beside it.
 * Where the loader has no room for its thread storage any more, the loader says so, and the program goes on. Arguments:
 * LIBRARY, and a plugin that takes most of that room.
 */
#define _GNU_SOURCE
#include "malloc_test.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void look_up(void *handle, const char *name, void *function) {
    void *symbol = dlsym(handle, name);
    CHECK(symbol != NULL);
    memcpy(function, &symbol, sizeof symbol);
}

static void test_loaded(void *library) {
    bool (*active)(void);
    void *(*own_malloc)(size_t);
    void (*own_free)(void *);
    look_up(library, "slab_malloc_active", &active);
    look_up(library, "malloc", &own_malloc);
    look_up(library, "free", &own_free);
    CHECK(!active());
    char *theirs = malloc(100), *ours = own_malloc(100);
    CHECK(theirs && ours);
    memset(ours, 1, 100);
    own_free(ours);
    free(theirs);
}

/* Whether it is loaded: in a child, as a library stays. */
static bool loads(const char *library, const char *before) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (before) CHECK(dlopen(before, RTLD_NOW) != NULL);
        void *handle = dlopen(library, RTLD_NOW);
        if (handle) {
            test_loaded(handle);
            _exit(0);
        }
        const char *why = dlerror();
        CHECK(why && strstr(why, "static TLS"));
        void *p = malloc(1000);
        CHECK(p != NULL);
        free(p);
        _exit(3);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3);
    return WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    CHECK(loads(argv[1], NULL)); /* where nobody else wants that room */
    (void)loads(argv[1], argv[2]);
    return 0;
}
