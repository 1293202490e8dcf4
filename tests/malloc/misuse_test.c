/*
 * Frees and resizes of pointers to no live object, by a program that knows nothing of the library. Without a mode:
 * counted, otherwise nothing happens. Reported: one line that says what is wrong. In abort mode: stopped there.
 * Arguments: none, or the name of a crime, which is then committed.
 */
#define _GNU_SOURCE
#include "malloc_test.h"

#include <tslab/malloc.h>
#include <tslab/stats.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void free_sized(void *, size_t);
void free_aligned_sized(void *, size_t, size_t);

static char in_data[256];
static size_t bytes = 40; /* of the objects */

static void double_direct(void) {
    void *p = malloc(bytes);
    free(p);
    free(hidden(p));
}
static void double_delayed(void) {
    void *p = malloc(bytes), *q[50];
    free(p);
    for (int i = 0; i < 50; i++) q[i] = malloc(bytes + 5000);
    for (int i = 0; i < 50; i++) free(q[i]);
    free(hidden(p));
}
static void double_interleaved(void) {
    void *p = malloc(bytes), *q = malloc(bytes);
    free(p);
    free(q);
    free(hidden(p));
}
static void *free_on_thread(void *p) {
    free(p);
    return NULL;
}
static void double_other_thread(void) {
    void *p = malloc(bytes);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_on_thread, p) == 0 && pthread_join(thread, NULL) == 0);
    free(hidden(p));
}
static void double_by_realloc(void) {
    void *p = malloc(bytes);
    CHECK(realloc(p, hidden_size(0)) == NULL);
    CHECK(realloc(hidden(p), 100) == NULL);
}
static void interior(void) {
    char *p = malloc(bytes);
    free(hidden(p + 16));
    free(p);
}
static void unaligned(void) {
    char *p = malloc(bytes);
    free(hidden(p + 1));
    free(p);
}
static void before(void) {
    char *p = malloc(bytes);
    free(hidden(p - 16));
    free(p);
}
static void on_stack(void) {
    char here[256];
    free(hidden(here + 64));
}
static void by_alloca(void) { free(hidden(__builtin_alloca(bytes + 64))); }
static void of_data(void) { free(hidden(in_data + 128)); }
static void of_code(void) { free(hidden((void *)(uintptr_t)0x1230)); }
static void far(void) { free(hidden((void *)(uintptr_t)0x7ffffffffff0)); }
static void mapped(void) {
    char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    free(hidden(p + 4096));
}
static void by_brk(void) {
    char *p = sbrk(65536);
    CHECK(p != (void *)-1);
    free(hidden(p + 4096));
}
static void resize_stack(void) {
    char here[256];
    CHECK(realloc(hidden(here + 64), 1000) == NULL);
}

static void sized_wrong(void) { free_sized(malloc(bytes), hidden_size(bytes * 100 + (1 << 20))); }
static void aligned_wrong(void) { free_aligned_sized(malloc(24), hidden_size(1 << 20), 24); }

static const struct crime {
    const char *name;
    void (*commit)(void);
    const char *told; /* part of the line */
    int refused;
} crimes[] = {
    {"double_direct", double_direct, "free: pointer 0x", 1},
    {"double_delayed", double_delayed, "free: pointer 0x", 1},
    {"double_interleaved", double_interleaved, "free: pointer 0x", 1},
    {"double_other_thread", double_other_thread, "free: pointer 0x", 1},
    {"double_by_realloc", double_by_realloc, "realloc: pointer 0x", 1},
    {"interior", interior, "free: pointer 0x", 1},
    {"unaligned", unaligned, "free: pointer 0x", 1},
    {"before", before, "free: pointer 0x", 1},
    {"on_stack", on_stack, "not memory of temporal-slab", 1},
    {"by_alloca", by_alloca, "not memory of temporal-slab", 1},
    {"of_data", of_data, "not memory of temporal-slab", 1},
    {"of_code", of_code, "not memory of temporal-slab", 1},
    {"far", far, "not memory of temporal-slab", 1},
    {"mapped", mapped, "not memory of temporal-slab", 1},
    {"by_brk", by_brk, "not memory of temporal-slab", 1},
    {"resize_stack", resize_stack, "realloc: pointer 0x", 1},
    {"sized_wrong", sized_wrong, "freed with a size that is ", 0},
    {"aligned_wrong", aligned_wrong, "alignment", 0},
};
#define CRIMES (sizeof crimes / sizeof *crimes)

static int commit(const char *name, const char *size) {
    bytes = (size_t)atol(size);
    for (size_t i = 0; i < CRIMES; i++) {
        if (strcmp(crimes[i].name, name) != 0) continue;
        crimes[i].commit();
        SlabGlobalStats stats;
        CHECK(slab_stats_global(slab_malloc_allocator(), &stats));
        CHECK(stats.rejected_frees_total == (uint64_t)crimes[i].refused);
        CHECK(stats.live_objects < 100);
        void *p = malloc(bytes); /* the program goes on */
        CHECK(p != NULL);
        free(p);
        return 0;
    }
    return 2;
}

/* The program again, with that mode; text gets its messages. */
static int run(const char *self, const char *crime, const char *size, const char *mode, char text[4096]) {
    int pipes[2], status;
    CHECK(pipe(pipes) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(pipes[1], STDERR_FILENO);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
        CHECK(setenv("TSLAB_ON_MISUSE", mode, 1) == 0);
        execl(self, self, crime, size, (char *)NULL);
        _exit(127);
    }
    (void)close(pipes[1]);
    size_t used = 0;
    for (ssize_t n; (n = read(pipes[0], text + used, 4095 - used)) > 0;) used += (size_t)n;
    text[used] = 0;
    (void)close(pipes[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

int main(int argc, char **argv) {
    static const char *const size[] = {"8", "40", "500", "8000", "20000", "3000000"};
    char text[4096];
    if (argc == 3) return commit(argv[1], argv[2]);
    for (size_t i = 0; i < CRIMES; i++) {
        for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
            int status = run("/proc/self/exe", crimes[i].name, size[k], "ignore", text);
            bool quiet = WIFEXITED(status) && WEXITSTATUS(status) == 0 && text[0] == 0;
            status = run("/proc/self/exe", crimes[i].name, size[k], "report", text);
            bool told = WIFEXITED(status) && WEXITSTATUS(status) == 0 && strstr(text, crimes[i].told) &&
                        strchr(text, '\n') == strrchr(text, '\n');
            status = run("/proc/self/exe", crimes[i].name, size[k], "abort", text);
            bool stopped = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(text, crimes[i].told);
            if (quiet && told && stopped) continue;
            fprintf(stderr, "%s of %s bytes: quiet %d, told %d, stopped %d: %s\n", crimes[i].name, size[k], quiet, told,
                    stopped, text);
            return 1;
        }
    }
    return 0;
}
