/*
 * Files of the library, and the program: numbers that the program has closed and had again stay the program's, also in
 * a child of fork, and a limit of the size of files ends nothing (own_file.h, file_limit.h, page.c).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "advice/advice.h"
#include "check.h"
#include "in_child.h"
#include "os/os.h"
#include "proc.h"
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The number of this process's page; -1: it has none. */
static int page_descriptor(void) {
    char path[PATH_MAX], link[PATH_MAX];
    int found = -1;
    DIR *dir = opendir("/proc/self/fd");
    SUP_CHECK(dir != NULL, "%s", strerror(errno));
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        ssize_t n = readlink(path, link, sizeof link - 1);
        link[n > 0 ? n : 0] = 0;
        if (strncmp(link, "/memfd:tslab-stats", 18) == 0) found = atoi(e->d_name);
    }
    (void)closedir(dir);
    return found;
}

static void limit_files(rlim_t bytes) {
    SUP_CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, RLIM_INFINITY}) == 0, "%s", strerror(errno));
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

static void numbers_stay_the_programs_child(void *unused) {
    struct stat file, st;
    (void)unused;
    (void)setenv("TSLAB_SHM", "1", 1);
    SUP_CHECK(slab_allocator_default() != NULL, "%s", strerror(errno));
    int number = page_descriptor(), status;
    SUP_CHECK(number >= 0, "no page");
    FILE *own = tmpfile();
    SUP_CHECK(own && dup2(fileno(own), number) == number && fstat(number, &file) == 0, "%s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        SUP_CHECK(fstat(number, &st) == 0 && st.st_ino == file.st_ino, "the number is another file's");
        int anew = page_descriptor();
        SUP_CHECK(anew >= 0 && anew != number, "the child has no page");
        _exit(0);
    }
    SUP_CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %#x", (unsigned)status);
    SUP_CHECK(fstat(number, &st) == 0 && st.st_ino == file.st_ino, "the number is another file's");
}

static void numbers_stay_the_programs(void **state) {
    (void)state;
    if (SUP_EMULATED) skip(); /* qemu aborts in children of programs with threads */
    sup_in_child(numbers_stay_the_programs_child, NULL);
}

/* ---- the first bank ---------------------------------------------------------------------------------------------- */

static ts_os_table waiting;
static pthread_t program;

static const ts_page *page_once_written(void) {
    int fd = page_descriptor();
    if (fd < 0) return NULL;
    const ts_page *page = mmap(NULL, sizeof *page, PROT_READ, MAP_SHARED, fd, 0);
    SUP_CHECK(page != MAP_FAILED, "%s", strerror(errno));
    while (ts_load_acquire(&page->turn) == 0) (void)sched_yield();
    return page;
}

/* A page that is there before the allocator is has written a bank by the time that memory comes for the allocator. */
static bool commit_behind_the_page(void *at, size_t bytes) {
    if (pthread_equal(pthread_self(), program)) (void)page_once_written();
    return ts_os_native.commit(at, bytes);
}

static void the_first_bank_shows_the_allocator_child(void *unused) {
    (void)unused;
    (void)setenv("TSLAB_SHM", "1", 1);
    program = pthread_self();
    waiting = *ts_os;
    waiting.commit = commit_behind_the_page;
    ts_os = &waiting;
    SUP_CHECK(slab_allocator_default() != NULL, "%s", strerror(errno));
    const ts_page *page = page_once_written();
    SUP_CHECK(page && page->bank[1].allocators == 1 && page->bank[1].views == 1, "%u allocators",
              page ? page->bank[1].allocators : 0);
}
SUP_IN_CHILD(the_first_bank_shows_the_allocator)

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void a_page_that_may_not_be(void *unused) {
    (void)unused;
    (void)setenv("TSLAB_SHM", "1", 1);
    limit_files(1024);
    SUP_CHECK(slab_allocator_default() != NULL, "%s", strerror(errno));
    SUP_CHECK(page_descriptor() < 0, "there is a page");
    pid_t child = fork();
    int status;
    if (child == 0) _exit(slab_alloc(100) ? 0 : 1);
    SUP_CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %#x", (unsigned)status);
}

static char log_path[64];
static long long log_bytes(void) {
    struct stat st;
    return stat(log_path, &st) == 0 ? (long long)st.st_size : -1;
}

/* Until the limit lines go to the file, and from there on to standard error. */
static void a_log_that_is_full(void *unused) {
    (void)unused;
    limit_files(8192);
    SUP_CHECK(slab_allocator_default() != NULL, "%s", strerror(errno));
    for (unsigned i = 0; i < 100; i++)
        slab_message("tslab: a line of a hundred bytes: "
                     "0123456789012345678901234567890123456789012345678901234567890");
    SUP_CHECK(log_bytes() > 2048 && log_bytes() <= 8192, "%lld bytes", log_bytes());
}

/* Standard error is a file that may have no more bytes. */
static void a_standard_error_that_is_full(void *unused) {
    (void)unused;
    SUP_CHECK(freopen(log_path, "w", stderr) != NULL, "%s", strerror(errno));
    limit_files(8192);
    for (unsigned i = 0; i < 100; i++)
        slab_message("tslab: a line of a hundred bytes: "
                     "0123456789012345678901234567890123456789012345678901234567890");
    if (log_bytes() <= 2048 || log_bytes() > 8192) _exit(1);
}

static void no_limit_ends_the_program(void **state) {
    char err[16384];
    (void)state;
    snprintf(log_path, sizeof log_path, "/tmp/tslab-files-%ld", (long)getpid());
    assert_int_equal(sup_child(a_page_that_may_not_be, NULL, SUP_CHILD_SECONDS, err, sizeof err), 0);
    assert_string_equal(err, "tslab: TSLAB_SHM=1: no statistics page: ulimit -f allows no file of its size\n");

    (void)setenv("TSLAB_LOG", log_path, 1);
    assert_int_equal(sup_child(a_log_that_is_full, NULL, SUP_CHILD_SECONDS, err, sizeof err), 0);
    assert_non_null(strstr(err, ": ulimit -f allows it no more bytes; messages go to stderr\n"));
    assert_in_range(sup_count_lines(err), 10, 40);
    (void)unsetenv("TSLAB_LOG");

    assert_int_equal(sup_child(a_standard_error_that_is_full, NULL, SUP_CHILD_SECONDS, err, sizeof err), 0);
    assert_int_equal(unlink(log_path), 0);
}

/* ---- readers that have gone -------------------------------------------------------------------------------------- */

static volatile sig_atomic_t pipes_caught;
static void count_pipe(int signal) {
    (void)signal;
    pipes_caught++;
}

static bool is_pending(int signal) {
    sigset_t pending;
    SUP_CHECK(sigpending(&pending) == 0, "%s", strerror(errno));
    return sigismember(&pending, signal) == 1;
}

/* A pipe without a reader in place of a descriptor. */
static void put_deaf_pipe(int fd) {
    int ends[2];
    SUP_CHECK(pipe(ends) == 0 && dup2(ends[1], fd) == fd && close(ends[0]) == 0 && close(ends[1]) == 0, "%s",
              strerror(errno));
}

/* The library's own line about a limit, a dump, and the program's own use of the signal: a write of its own brings it,
   one that it has blocked and that is pending stays so, and none is left over. */
static void a_standard_error_that_nobody_reads(void *unused) {
    SlabAllocator *allocator = slab_allocator_default();
    sigset_t pipes;
    (void)unused;
    put_deaf_pipe(STDERR_FILENO);
    EpochId epoch = epoch_open(allocator, "small", EPOCH_CHURN);
    if (!epoch_set_limit(allocator, epoch, 65536)) _exit(2);
    while (slab_malloc_epoch(allocator, 1000, epoch)) {
    }
    if (errno != ENOMEM) _exit(3);
    errno = 0;
    if (slab_stats_dump_fd(allocator, STDERR_FILENO) || errno != EPIPE) _exit(4);
    if (is_pending(SIGPIPE)) _exit(5);

    (void)sigemptyset(&pipes);
    (void)sigaddset(&pipes, SIGPIPE);
    (void)sigprocmask(SIG_BLOCK, &pipes, NULL);
    slab_message("tslab: a line");
    if (is_pending(SIGPIPE)) _exit(6);
    (void)raise(SIGPIPE);
    slab_message("tslab: a line");
    if (!is_pending(SIGPIPE)) _exit(7);
    (void)signal(SIGPIPE, count_pipe);
    (void)sigprocmask(SIG_UNBLOCK, &pipes, NULL);
    slab_message("tslab: a line");
    if (pipes_caught != 1 || write(STDERR_FILENO, "x", 1) != -1 || pipes_caught != 2) _exit(8);
}

static void no_reader_ends_the_program(void **state) {
    char err[1024];
    (void)state;
    assert_int_equal(sup_child(a_standard_error_that_nobody_reads, NULL, SUP_CHILD_SECONDS, err, sizeof err), 0);
    assert_string_equal(err, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_stay_the_programs),
        cmocka_unit_test(the_first_bank_shows_the_allocator),
        cmocka_unit_test(no_limit_ends_the_program),
        cmocka_unit_test(no_reader_ends_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
