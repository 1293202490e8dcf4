/*
 * What record_test.py records. Its allocations are counted here by the program itself.
 *
 *     threads N M    N threads, each M times: malloc, realloc, free; half of the objects are freed by the next thread
 *     fork N         the parent and a child allocate N objects each; the child executes itself: `leaf N`
 *     hold N         allocates N objects, says so, and waits for its end
 *     jit [hold]     code that is in no file calls malloc, and a perf map names it; waits for its end
 *     storm N        N forks, each with an object more, while four threads allocate without a pause
 *     middle         forks while another thread is in malloc (slow_malloc_library.c); 5: the child finds it there
 *     spin N         N rounds of malloc and free
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long rounds;
static void *volatile keep;
static void *handed[64];
static pthread_barrier_t all_there;

static void *use(void *p) {
    if (!p) exit(3);
    keep = p;
    return p;
}

/* One malloc, one realloc and one free each round; one object more is handed on. */
static void *work(void *arg) {
    const size_t me = (size_t)arg;
    (void)pthread_setname_np(pthread_self(), "counted");
    for (unsigned long i = 0; i < rounds; i++) free(use(realloc(use(malloc(1000 + i % 100)), 5000)));
    handed[me] = use(malloc(777));
    (void)pthread_barrier_wait(&all_there);
    free(handed[me ^ 1]);
    return NULL;
}

static void threads(size_t n) {
    pthread_t thread[64];
    (void)pthread_barrier_init(&all_there, NULL, (unsigned)n);
    for (size_t i = 0; i < n; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)i) != 0) exit(3);
    for (size_t i = 0; i < n; i++) (void)pthread_join(thread[i], NULL);
}

static void some(unsigned long n, size_t size) {
    for (unsigned long i = 0; i < n; i++) free(use(malloc(size)));
}

static void fork_and_execute(char *self, char *n) {
    char leaf[] = "leaf", *argv[] = {self, leaf, n, NULL};
    some(rounds, 1001);
    pid_t child = fork();
    if (child == 0) {
        some(rounds, 1002);
        (void)execv("/proc/self/exe", argv);
        _exit(3);
    }
    (void)waitpid(child, NULL, 0);
}

static _Atomic int is_over;

static void *allocate(void *unused) {
    for (size_t i = 0; !is_over; i++) free(use(malloc(100 + i % 50)));
    return unused;
}

static void storm(void) {
    pthread_t thread[4];
    for (size_t i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, allocate, NULL) != 0) exit(3);
    for (unsigned long i = 0; i < rounds; i++) {
        pid_t child = fork();
        if (child == 0) {
            free(use(malloc(1004)));
            _exit(0);
        }
        if (child < 0 || waitpid(child, NULL, 0) != child) exit(3);
    }
    is_over = 1;
    for (size_t i = 0; i < 4; i++) (void)pthread_join(thread[i], NULL);
}

static void *allocate_slowly(void *unused) {
    free(use(malloc(31337)));
    return unused;
}

static int fork_in_the_middle(void) {
    _Atomic int *busy = dlsym(RTLD_DEFAULT, "slow_malloc_is_busy");
    pthread_t thread;
    int status = 0;
    if (!busy || pthread_create(&thread, NULL, allocate_slowly, NULL) != 0) return 3;
    while (!*busy) {
    }
    pid_t child = fork();
    if (child == 0) _exit(*busy ? 5 : 0);
    if (child < 0 || waitpid(child, &status, 0) != child) return 3;
    (void)pthread_join(thread, NULL);
    return WEXITSTATUS(status);
}

static void *take(void) { return malloc(12345); }

/* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
static void jit(void) {
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    char path[64];
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *(*call)(void *(*)(void)) = NULL;
    if (page == MAP_FAILED) exit(3);
    memcpy(page, code, sizeof code);
    memcpy(&call, &page, sizeof call);
    (void)snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    FILE *out = fopen(path, "w");
    if (!out) exit(3);
    fprintf(out, "%lx 8 made_at_run_time\n", (unsigned long)page);
    (void)fclose(out);
    (void)use(call(take));
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    rounds = argc > 2 ? strtoul(argv[argc - 1], NULL, 10) : 0;
    if (strcmp(argv[1], "threads") == 0) threads(strtoul(argv[2], NULL, 10));
    if (strcmp(argv[1], "fork") == 0) fork_and_execute(argv[0], argv[2]);
    if (strcmp(argv[1], "leaf") == 0) some(rounds, 1003);
    if (strcmp(argv[1], "storm") == 0) storm();
    if (strcmp(argv[1], "middle") == 0) return fork_in_the_middle();
    if (strcmp(argv[1], "spin") == 0) some(rounds, 64);
    if (strcmp(argv[1], "jit") == 0) jit();
    if (strcmp(argv[argc - 1], "hold") != 0 && strcmp(argv[1], "hold") != 0) return 0;
    for (unsigned long i = 0; i < rounds; i++) (void)use(malloc(4321));
    puts("holds");
    (void)fflush(stdout);
    (void)pause();
    return 0;
}
