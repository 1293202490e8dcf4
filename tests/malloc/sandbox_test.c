/*
 * A thread that has forbidden itself all but the 21 system calls that the sandbox of a login server leaves: under every
 * option, in the program and in a child of fork, it can allocate and free, use epochs and domains, and give memory
 * back. A call of the system that is not among the 21 is named by its number.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "malloc_test.h"

#include <tslab/malloc.h>
#include <tslab/tslab.h>

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static const unsigned short ALLOWED[] = {
    SYS_brk,       SYS_clock_gettime, SYS_close,   SYS_exit,           SYS_exit_group, SYS_futex,    SYS_getpid,
    SYS_getrandom, SYS_gettimeofday,  SYS_madvise, SYS_mmap,           SYS_mprotect,   SYS_mremap,   SYS_munmap,
    SYS_nanosleep, SYS_poll,          SYS_read,    SYS_rt_sigprocmask, SYS_select,     SYS_shutdown, SYS_write};
enum { CALLS = sizeof ALLOWED / sizeof *ALLOWED };
_Static_assert(CALLS == 21, "as many as there");

static const char *variable; /* of the option under test */

static void refused(int number, siginfo_t *info, void *context) {
    char text[160];
    (void)number, (void)context;
    int n = snprintf(text, sizeof text, "system call %d with %s\n", info->si_syscall, variable);
    if (write(STDERR_FILENO, text, (size_t)n) != n) _exit(3);
    _exit(2);
}

static void enter_sandbox(void) {
    struct sock_filter code[CALLS + 4] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (unsigned i = 0; i < CALLS; i++)
        code[1 + i] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ALLOWED[i], (unsigned char)(CALLS - i), 0);
    code[1 + CALLS] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    code[2 + CALLS] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {3 + CALLS, code};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = refused;
    action.sa_flags = SA_SIGINFO;
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void objects(void) {
    static void *p[200];
    for (size_t size = 1; size <= (size_t)8 << 20; size = size * 3 + 1) {
        size_t n = size < 100000 ? 200 : 2;
        for (size_t i = 0; i < n; i++) p[i] = malloc(hidden_size(size));
        for (size_t i = 0; i < n; i++) {
            CHECK(p[i] != NULL);
            memset(p[i], 1, size < 64 ? size : 64);
            if (i % 3 == 0) CHECK(p[i] = realloc(p[i], hidden_size(size * 2)));
        }
        for (size_t i = 0; i < n; i++) free(p[i]);
    }
    free(calloc(1000, 1000));
    void *aligned = NULL;
    CHECK(posix_memalign(&aligned, 4096, 10000) == 0);
    free(aligned);
}

/* own: with memory reserved before, because a reservation reads /proc. */
static void epochs(SlabAllocator *own) {
    SlabAllocator *a = slab_malloc_allocator();
    if (strncmp(variable, "TSLAB_RESERVE=", strlen("TSLAB_RESERVE=")) != 0) {
        SlabAllocator *inside = slab_allocator_create();
        CHECK(inside && slab_malloc(inside, 100));
        slab_allocator_free(inside);
    }
    for (unsigned i = 0; i < 200; i++) {
        EpochDomain *d = epoch_domain_create_ex(i % 2 ? a : own, "sandbox", i % 4 < 2 ? 0 : EPOCH_CHURN);
        CHECK(d && epoch_domain_enter(d));
        for (unsigned k = 0; k < 100; k++) CHECK(slab_alloc(k * 50));
        CHECK(epoch_domain_exit(d));
        epoch_domain_destroy(d);
        CHECK(epoch_advance(own) != EPOCH_NONE && slab_malloc(own, 100));
    }
    (void)slab_trim(own);
    (void)slab_maintain(a, UINT64_MAX);
    slab_thread_idle();
    slab_allocator_free(own);
    if (strcmp(variable, "TSLAB_HARDEN=1") != 0) (void)slab_free(a, &own); /* misuse is reported as the options say */
}

static void inside(void) {
    SlabAllocator *own = slab_allocator_create();
    CHECK(own && slab_reserve(own, (size_t)8 << 20));
    enter_sandbox();
    objects();
    epochs(own);
    _exit(0);
}

static void ends_well(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "sandbox_test: %s: status %#x\n", variable, (unsigned)status);
        _Exit(1);
    }
}

/* Under the option of the environment: in the process that has started with it, and in a child. */
static int one(void) {
    variable = getenv("SANDBOX_OPTION");
    objects();
    pid_t child = fork();
    if (child == 0) inside();
    ends_well(child);
    inside();
    return 1;
}

int main(int argc, char **argv) {
    static const char *const options[] = {
        "NOTHING=1",      "TSLAB_SAMPLE_STACKS=1000", "TSLAB_SHM=1",     "TSLAB_BACKGROUND=1",    "TSLAB_POISON=1",
        "TSLAB_GUARD=1",  "TSLAB_HARDEN=1",           "TSLAB_SAMPLE=3",  "TSLAB_RECLAIM=at_once", "TSLAB_RECLAIM=keep",
        "TSLAB_RETAIN=0", "TSLAB_RESERVE=8M",         "TSLAB_BUDGET=1G", "TSLAB_HUGE_PAGES=on",   "TSLAB_STRICT=0",
        "TSLAB_HINTS=1",  "TSLAB_ON_MISUSE=report",   "TSLAB_NUMA=local"};
    if (getenv("SANDBOX_OPTION")) return one();
    (void)argc;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        variable = options[i];
        pid_t child = fork();
        if (child == 0) {
            char text[64];
            snprintf(text, sizeof text, "%s", variable);
            char *value = strchr(text, '=');
            *value++ = 0;
            if (setenv(text, value, 1) != 0 || setenv("SANDBOX_OPTION", variable, 1) != 0) _exit(4);
            execv("/proc/self/exe", argv);
            _exit(5);
        }
        ends_well(child);
    }
    return 0;
}
#else
int main(void) {
    puts("sandbox_test: skipped, the filter is one of x86-64 without sanitizers");
    return 77;
}
#endif
