/*
 * A program whose threads all end, the first one by pthread_exit, ends as without the library: its handlers of exit
 * run, its streams are flushed, signals reach it, its status is 0. For programs with the library as their malloc, and
 * for those that only use it: each case is such a program, which starts the library first.
 */
#ifndef SUP_LAST_THREAD_H
#define SUP_LAST_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Two looks of the library's threads, and half of one. */
static const struct timespec some_looks = {0, 625000000};
#ifdef __GLIBC__
#define HANDLER_BYTES 600000 /* more than a thread of the library's has */
#else
#define HANDLER_BYTES 60000 /* the stack of a thread is small */
#endif

static void say_bye(void) { (void)!write(STDERR_FILENO, "bye\n", 4); }

static void use_memory(void); /* of the library, by the calling thread */

static void *end_at_once(void *unused) {
    use_memory();
    return unused;
}

static void *end_later(void *unused) {
    use_memory();
    (void)nanosleep(&some_looks, NULL);
    printf("worked\n"); /* the stream is flushed at the end */
    return unused;
}

static void *raise_and_end(void *unused) {
    sigset_t all;
    use_memory();
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    (void)nanosleep(&some_looks, NULL);
    (void)kill(getpid(), SIGTERM);
    return unused;
}

/* In a static program libgcc's unwinder has a lock that fork does not know: a child that is made while another thread
   unwinds (pthread_exit does) waits for it in exit, with the library or without. So the leader ends first. */
static pthread_t leader;
static void *fork_and_end(void *unused) {
    int status = 0;
    use_memory();
#ifdef MALLOC_TEST_STATIC
    if (pthread_join(leader, NULL) != 0) _exit(9);
#endif
    pid_t pid = fork();
    if (pid == 0) {
        use_memory();
        printf("child\n");
        pthread_t thread;
        if (pthread_create(&thread, NULL, end_at_once, NULL) != 0 || pthread_join(thread, NULL) != 0) _exit(3);
        return unused; /* the child's leader ends */
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) _exit(4);
    return unused;
}

static void take_signal(int number) {
    (void)number;
    (void)!write(STDERR_FILENO, "taken\n", 6);
}

static void take_much_stack(void) {
    volatile char much[HANDLER_BYTES];
    memset((char *)much, 1, sizeof much);
    if (much[HANDLER_BYTES / 2] == 1) say_bye();
}

static void end_the_thread(void) { pthread_exit(NULL); }

static void make_thread(void *(*run)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) != 0) _exit(2);
}

static void run_two(void) {
    make_thread(end_at_once);
    pthread_exit(NULL);
}
static void run_other_last(void) {
    make_thread(end_later);
    pthread_exit(NULL);
}
static void run_leader_last(void) {
    make_thread(end_at_once);
    (void)end_later(NULL);
    pthread_exit(NULL);
}
static void run_signal(void) {
    make_thread(raise_and_end);
    pthread_exit(NULL);
}
static void run_taken_signal(void) {
    (void)signal(SIGTERM, take_signal);
    run_signal();
}
static void run_fork(void) {
    leader = pthread_self();
    make_thread(fork_and_end);
    pthread_exit(NULL);
}
static void run_much_stack(void) {
    (void)atexit(take_much_stack);
    run_two();
}
static void run_thread_ends_in_handler(void) {
    (void)atexit(end_the_thread);
    run_two();
}
/* Beside the library's threads the leader is alone, and lives. */
static void run_leader_alone(void) {
    make_thread(end_at_once);
    (void)nanosleep(&some_looks, NULL);
    exit(7);
}

/* status: of waitpid. said: to both streams, in the order of their flushes. */
static const struct last_thread_case {
    const char *name;
    void (*run)(void);
    int status;
    const char *said;
} last_thread_cases[] = {
    {"two threads", run_two, 0, "bye\nbegun\n"},
    {"another one is the last", run_other_last, 0, "bye\nbegun\nworked\n"},
    {"the leader is the last", run_leader_last, 0, "bye\nbegun\nworked\n"},
    {"a signal is left", run_signal, SIGTERM, ""},
    {"a signal with a handler is left", run_taken_signal, 0, "taken\nbye\nbegun\n"},
    {"a child of fork", run_fork, 0, "bye\nbegun\nchild\nbye\nbegun\n"},
    {"a handler with much stack", run_much_stack, 0, "bye\nbye\nbegun\n"},
    {"a handler that ends its thread", run_thread_ends_in_handler, 0, "bye\nbegun\n"},
    {"the leader is alone", run_leader_alone, 7 << 8, "bye\nbegun\n"},
};

static void last_thread_run(const struct last_thread_case *c, void (*begin)(void), int out) {
    if (dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0) _exit(5);
    (void)setvbuf(stdout, NULL, _IOFBF, BUFSIZ);
    (void)alarm(20);
    begin();
    use_memory();
    (void)atexit(say_bye);
    printf("begun\n");
    c->run();
}

/* Checks the result of the case. Returns whether it is right, and reports a wrong one. */
static int last_thread_is_right(const struct last_thread_case *c, pid_t pid, int in) {
    char said[4096];
    size_t used = 0;
    int status = -1;
    for (ssize_t n; used < sizeof said - 1 && (n = read(in, said + used, sizeof said - 1 - used)) > 0;)
        used += (size_t)n;
    said[used] = 0;
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status == c->status && strcmp(said, c->said) == 0) return 1;
    fprintf(stderr, "last_thread: %s: status %#x, not %#x; said \"%s\", not \"%s\"\n", c->name, (unsigned)status,
            (unsigned)c->status, said, c->said);
    return 0;
}

/* The cases, all at once, each in a process that executes the program with its number. Returns the status of the
   test. */
static int last_thread_main(int argc, char **argv, void (*begin)(void)) {
    enum { CASES = sizeof last_thread_cases / sizeof *last_thread_cases };
    pid_t pid[CASES];
    int in[CASES], right = 1;
    if (argc == 3 && strcmp(argv[1], "--case") == 0) {
        last_thread_run(&last_thread_cases[atoi(argv[2])], begin, STDOUT_FILENO);
        return 6;
    }
    for (int i = 0; i < CASES; i++) {
        int ends[2];
        if (pipe(ends) != 0) return 1;
        in[i] = ends[0];
        pid[i] = fork();
        if (pid[i] == 0) {
            char number[16];
            snprintf(number, sizeof number, "%d", i);
            (void)dup2(ends[1], STDOUT_FILENO);
            (void)close(ends[0]);
            (void)close(ends[1]);
            execl("/proc/self/exe", argv[0], "--case", number, (char *)NULL);
            _exit(127);
        }
        (void)close(ends[1]);
    }
    for (int i = 0; i < CASES; i++) right &= last_thread_is_right(&last_thread_cases[i], pid[i], in[i]);
    return !right;
}

#endif
