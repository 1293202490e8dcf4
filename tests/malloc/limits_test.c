/*
 * Limits of the process that it sets while it runs. With RLIMIT_AS its stack grows, threads begin, memory can be
 * mapped, programs are started, libraries loaded, and malloc keeps to it. With RLIMIT_DATA a thread begins after all
 * was used and freed. Each part is a child.
 */
#define _GNU_SOURCE
#include "live.h"
#include "malloc_test.h"

#include <tslab/malloc.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define LIMIT (512 * MIB)
#define THREADS 4

/* A field of statm, in bytes: 0 the address space, 5 the memory that RLIMIT_DATA counts, and the stack. */
static size_t statm_bytes(unsigned field) {
    char text[128] = "", *at = text;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    while (field-- > 0) (void)strtoull(at, &at, 10);
    return strtoull(at, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}
static size_t address_space(void) { return statm_bytes(0); }

static void *take_a_little(void *arg) {
    char *p = malloc(hidden_size(30000));
    CHECK(p != NULL);
    p[0] = 1;
    free(p);
    return arg;
}

static void begin_threads(void) {
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&thread[i], NULL, take_a_little, NULL) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(thread[i], NULL) == 0);
}

static size_t grow_stack(unsigned more) {
    char volatile here[16384];
    here[0] = (char)more;
    return more == 0 ? (size_t)here[0] : grow_stack(more - 1) + (size_t)here[0];
}

/* The allocations of a process of that size under its limit. */
static void do_everything(void) {
    (void)grow_stack(4 * MIB / 16384);
    begin_threads();
    void *mapped = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED && munmap(mapped, 16 * MIB) == 0);
    FILE *pipe = popen("echo well", "r");
    char text[8] = "";
    CHECK(pipe && fgets(text, sizeof text, pipe) && strcmp(text, "well\n") == 0 && pclose(pipe) == 0);
#ifndef MALLOC_TEST_STATIC
    void *library = dlopen("libm.so.6", RTLD_NOW);
    CHECK(library != NULL && dlclose(library) == 0);
#endif
}

/* Returns how many objects of that size there were. */
static size_t use_up(size_t bytes) {
    void *first = NULL, **p;
    size_t count = 0;
    for (; (p = malloc(hidden_size(bytes))) != NULL; count++) {
        *p = first;
        first = p;
    }
    CHECK(errno == ENOMEM);
    for (; (p = first) != NULL; free(p)) first = *p;
    return count;
}

static void set_address_space(size_t bytes) {
    struct rlimit limit = {bytes, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* A quarter is left to the program, and of the rest some is for the allocator's records. */
static void use_within(size_t limit) {
    CHECK(address_space() < limit);
    do_everything();
    size_t small = use_up(3000) * 3000, large = use_up(MIB) * MIB, larger = use_up(20 * MIB) * 20 * MIB;
    CHECK(small > limit / 4 && small < limit && large > limit / 4 && large < limit);
    CHECK(larger > limit / 8 && larger < limit && address_space() < limit);
    do_everything();
}

/* Less again, by the other function; memory that has gone back does not come again with a higher limit. */
static void address_space_limited(void) {
    set_address_space(2 * LIMIT);
    CHECK(address_space() < 2 * LIMIT);
    do_everything();
#ifdef MALLOC_TEST_STATIC
    set_address_space(LIMIT);
#else
    struct rlimit limit = {LIMIT, RLIM_INFINITY}, old;
    CHECK(prlimit(0, RLIMIT_AS, &limit, &old) == 0 && old.rlim_cur == 2 * LIMIT);
#endif
    use_within(LIMIT);
    size_t before = address_space();
    set_address_space(8 * LIMIT);
    CHECK(address_space() == before);
    do_everything();
}

/* Objects of all sizes keep their places and contents. Those that were freed before are no address space. */
static void limited_in_use(void) {
    char *p[24], *freed[4];
    begin_threads();
    for (size_t i = 0; i < 4; i++) {
        CHECK((freed[i] = malloc(hidden_size(300 * MIB))) != NULL);
        freed[i][0] = 1;
    }
    for (size_t i = 0; i < 24; i++) {
        CHECK((p[i] = malloc((size_t)8 << i)) != NULL);
        p[i][0] = p[i][((size_t)8 << i) - 1] = (char)i;
    }
    for (size_t i = 0; i < 4; i++) free(freed[i]);
    set_address_space(2 * LIMIT);
    CHECK(address_space() < 2 * LIMIT);
    do_everything();
    for (size_t i = 0; i < 24; i++) {
        CHECK(is_live(p[i]) && p[i][0] == (char)i && p[i][((size_t)8 << i) - 1] == (char)i);
        CHECK((p[i] = realloc(p[i], ((size_t)8 << i) + 40)) != NULL);
        CHECK(p[i][0] == (char)i && p[i][((size_t)8 << i) - 1] == (char)i);
        free(p[i]);
    }
    CHECK(use_up(MIB) * MIB > LIMIT / 2);
}

/* Each way to allocate, until there is no memory for it; several threads at once take it from one another. */
static void *allocate_by(unsigned way, size_t bytes) {
    void *p = NULL;
    switch (way) {
    case 0: return malloc(hidden_size(bytes));
    case 1: return calloc(1, hidden_size(bytes));
    case 2: return realloc(NULL, hidden_size(bytes));
    case 3: return aligned_alloc(64, hidden_size(bytes));
    case 4: return memalign(8192, hidden_size(bytes));
    case 5: return valloc(hidden_size(bytes));
    case 6: return pvalloc(hidden_size(bytes));
    default: errno = posix_memalign(&p, 4096, hidden_size(bytes)); return p;
    }
}
enum { WAYS = 8 };

static void *use_up_by_all_ways(void *arg) {
    static const size_t sizes[] = {2000, 90000, 3 * MIB};
    for (unsigned i = 0; i < WAYS; i++) {
        void *first = NULL, **p;
        while ((p = allocate_by(i, sizes[i % 3])) != NULL) {
            *p = first;
            first = p;
        }
        CHECK(errno == ENOMEM);
        for (; (p = first) != NULL; free(p)) first = *p;
    }
    return arg;
}

static void threads_without_memory(void) {
    pthread_t thread[THREADS];
    set_address_space(LIMIT);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, use_up_by_all_ways, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(thread[i], NULL) == 0);
    CHECK(address_space() < LIMIT);
    do_everything();
}

/* The objects that wait in the hard mode's quarantine leave for one that finds room in pieces only. */
static void room_in_pieces(void) {
    static char *p[LIMIT / MIB];
    size_t count = 0;
    unsigned random = 1;
    set_address_space(LIMIT);
    while ((p[count] = malloc(hidden_size(MIB))) != NULL) count++;
    CHECK(count > 140); /* half of them are more than what waits, at most 64 */
    for (size_t left = count; left > 0; left--) {
        random = random * 1103515245u + 12345u;
        size_t one = (random >> 16) % left;
        free(p[one]);
        p[one] = p[left - 1];
    }
    char *large = malloc(hidden_size(count / 2 * MIB));
    CHECK(large != NULL);
    free(large);
}

/* A limit that leaves enough changes nothing; nor does one of another process. */
static void not_limited(void) {
    size_t before = address_space();
    struct rlimit limit = {LIMIT, RLIM_INFINITY};
    set_address_space(2 * before);
    CHECK(address_space() == before);
    set_address_space(RLIM_INFINITY);
    pid_t pid = vfork();
    if (pid == 0) _exit(setrlimit(RLIMIT_AS, &limit) == 0 ? 0 : 1);
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && address_space() == before);
    free(malloc(hidden_size(100 * MIB))); /* a first large object takes its room */
    before = statm_bytes(5);
    pid = vfork();
    if (pid == 0) _exit(setrlimit(RLIMIT_DATA, &limit) == 0 ? 0 : 1);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && statm_bytes(5) == before);
    char *p = malloc(hidden_size(300 * MIB));
    CHECK(p != NULL);
    free(p);
}

/* All that was used goes back, so a thread has its stack. */
static void use_data_up(size_t bytes) {
    CHECK(use_up(3000) * 3000 > bytes / 4);
    begin_threads();
    CHECK(use_up(MIB) * MIB > bytes / 4);
    begin_threads();
    CHECK(use_up(3000) * 3000 > bytes / 4);
    if (is_hard()) return; /* it has memory of its own */
    void *mapped = mmap(NULL, bytes / 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
}

static void data_limited(void) {
    struct rlimit limit = {128 * MIB, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
    use_data_up(128 * MIB);
}

/* As data_limited, in a program that begins under the limit. */
static void data_limited_before(void) {
    struct rlimit limit = {128 * MIB, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
    (void)execl("/proc/self/exe", "limits_test", "limited", NULL);
    CHECK(false);
}

/* A small limit before the start. */
#define SMALL_LIMIT (64 * MIB)
static void use_small_limit(void) {
    CHECK(use_up(1000) * 1000 > SMALL_LIMIT / 8);
    CHECK(use_up(300000) * 300000 > SMALL_LIMIT / 16);
    char *none = malloc(hidden_size(0));
    CHECK(none != NULL);
    free(none);
}

static void small_limit_before(void) {
    set_address_space(SMALL_LIMIT);
    (void)execl("/proc/self/exe", "limits_test", "small", NULL);
    CHECK(false);
}

static void in_child(void (*part)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        part();
        _exit(0);
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (status != 0) fprintf(stderr, "the child ended with status %d\n", status);
    CHECK(status == 0);
}

int main(int argc, char **argv) {
    CHECK(slab_malloc_active());
    if (argc > 1 && strcmp(argv[1], "limited") == 0) return use_data_up(128 * MIB), 0;
    if (argc > 1 && strcmp(argv[1], "small") == 0) return use_small_limit(), 0;
    in_child(not_limited);
    /* The hard mode's quarantine counts as memory in use. */
    in_child(is_hard() ? room_in_pieces : limited_in_use);
    in_child(address_space_limited);
    in_child(threads_without_memory);
    in_child(data_limited);
    in_child(data_limited_before);
    in_child(small_limit_before);
    return 0;
}
