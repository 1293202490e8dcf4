/*
 * fork while another thread has a lock that is taken before the allocator's, and allocates with it: stdio's list of
 * files or a mutex of another library's handlers of fork. And fork in signal handlers that interrupt an allocation, a
 * free or another fork. Each part is a child, which an alarm ends where it hangs.
 */
#define _GNU_SOURCE
#include "malloc_test.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_ENOUGH_S 60u

static void expect_zero(pid_t pid) {
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (status != 0) fprintf(stderr, "the child ended with status %d\n", status);
    CHECK(status == 0);
}

/* ---- a thread that has an older lock, and allocates while another one forks -------------------------------------- */

static atomic_int main_thread, go;

static bool is_asleep(int thread) {
    char path[64], text[512];
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    ssize_t n = read(fd, text, sizeof text - 1);
    CHECK(n > 0 && close(fd) == 0);
    text[n] = 0;
    const char *state = strrchr(text, ')');
    CHECK(state != NULL);
    return state[2] == 'S';
}

/* Several looks: on its way to where it waits for the lock it may sleep for a moment. */
static void wait_until_asleep(int thread) {
    for (int looks = 0; looks < 200; looks++) {
        if (!is_asleep(thread)) looks = 0;
        (void)sched_yield();
    }
}

/* Large and small, so that some of it needs memory that all threads share. */
static void allocate(void) {
    void *p[64];
    for (size_t i = 0; i < 64; i++) CHECK((p[i] = malloc(hidden_size(i * i * 100))) != NULL);
    for (size_t i = 0; i < 64; i++) free(p[i]);
}

/* The caller has the lock. */
static void allocate_during_fork(void) {
    atomic_store(&go, 1);
    wait_until_asleep(atomic_load(&main_thread));
    allocate();
}

static void fork_beside(void *(*run)(void *), void *arg) {
    pthread_t thread;
    atomic_store(&main_thread, (int)syscall(SYS_gettid));
    CHECK(pthread_create(&thread, NULL, run, arg) == 0);
    while (!atomic_load(&go)) (void)sched_yield();
    pid_t pid = fork();
    if (pid == 0) {
        allocate();
        CHECK(fflush(NULL) == 0); /* its locks are free */
        FILE *file = fopen("/dev/null", "r");
        CHECK(file != NULL && fclose(file) == 0);
        _exit(0);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    expect_zero(pid);
    CHECK(fflush(NULL) == 0);
}

static atomic_int flusher;

static void *flush_all(void *arg) {
    atomic_store(&flusher, (int)syscall(SYS_gettid));
    CHECK(fflush(NULL) == 0);
    return arg;
}

/* A flush of all files has the list of files, and waits for a file, which this thread has. */
static void *with_a_file(void *arg) {
    pthread_t thread;
    flockfile(stdout);
    CHECK(pthread_create(&thread, NULL, flush_all, NULL) == 0);
    while (!atomic_load(&flusher)) (void)sched_yield();
    wait_until_asleep(atomic_load(&flusher));
    allocate_during_fork();
    funlockfile(stdout);
    CHECK(pthread_join(thread, NULL) == 0);
    return arg;
}

static void stdio(void) { fork_beside(with_a_file, NULL); }

static void *with_a_mutex(void *mutex) {
    CHECK(pthread_mutex_lock(mutex) == 0);
    allocate_during_fork();
    CHECK(pthread_mutex_unlock(mutex) == 0);
    return NULL;
}

static void *elder_mutex;
static void other_handlers(void) { fork_beside(with_a_mutex, elder_mutex); }

/* ---- signal handlers --------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t forks;

static void fork_in_handler(int number) {
    pid_t pid = fork();
    (void)number;
    if (pid == 0) _exit(0);
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) _exit(2);
    forks = forks + 1;
}

/* A signal for each turn of the parent, after a while of another length each time: with more of them no fork would come
   to an end. */
static pid_t start_sender(const atomic_uint *turn) {
    pid_t parent = getpid(), sender = fork();
    unsigned seen = 0;
    while (sender == 0 && getppid() == parent) {
        unsigned now = atomic_load(turn);
        if (now == seen) {
            (void)sched_yield();
            continue;
        }
        seen = now;
        for (volatile unsigned n = now * 977 % 30000; n > 0; n--) continue;
        (void)kill(parent, SIGUSR1);
    }
    if (sender == 0) _exit(0);
    CHECK(sender > 0);
    return sender;
}

static void stop_sender(pid_t sender) {
    int status;
    CHECK(kill(sender, SIGKILL) == 0 && waitpid(sender, &status, 0) == sender);
}

/* Chance decides which code each interrupts: hundreds of signals come. */
static void signals(void) {
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
    atomic_uint *turn = mmap(NULL, sizeof *turn, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(turn != MAP_FAILED && sigaction(SIGUSR1, &action, NULL) == 0);
    pid_t sender = start_sender(turn);
    for (unsigned n = 0; forks < 500; n++) {
        atomic_fetch_add(turn, 1);
        void *p[16];
        for (unsigned i = 0; i < 16; i++) CHECK((p[i] = malloc(hidden_size((n + i) * 977 % 300000))) != NULL);
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        expect_zero(pid);
        for (unsigned i = 0; i < 16; i++) free(p[i]);
    }
    stop_sender(sender);
    allocate();
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* ---- threads that have ended ------------------------------------------------------------------------------------- */

static atomic_int last_thread;

static void *say_number(void *arg) {
    atomic_store(&last_thread, (int)syscall(SYS_gettid));
    return arg;
}

/* Each thread allocates nothing. It frees libc's memory of the thread before it, when its own destructors have run. Its
   own memory goes with the next thread, whose stack is larger, so that libc cannot use an old one again. */
static void ended_threads(void) {
    char path[64];
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    for (size_t mib = 64; mib <= 128; mib += 16) {
        pthread_t thread;
        atomic_store(&last_thread, 0);
        CHECK(pthread_attr_setstacksize(&attributes, mib << 20) == 0);
        CHECK(pthread_create(&thread, &attributes, say_number, NULL) == 0);
        while (!atomic_load(&last_thread)) (void)sched_yield();
        (void)snprintf(path, sizeof path, "/proc/self/task/%d", atomic_load(&last_thread));
        while (access(path, F_OK) == 0) (void)sched_yield();
    }
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    expect_zero(pid);
}

static void in_child(void (*part)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        (void)alarm(LONG_ENOUGH_S);
        part();
        _exit(0);
    }
    expect_zero(pid);
}

int main(void) {
#ifndef MALLOC_TEST_STATIC
    elder_mutex = dlsym(RTLD_DEFAULT, "elder_mutex");
#endif
    in_child(stdio);
    if (sizeof(void *) >= 8) in_child(ended_threads);
    if (elder_mutex)
        in_child(other_handlers);
    else
        in_child(signals);
    return 0;
}
