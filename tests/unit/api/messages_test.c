/*
 * Messages: where they go, which calls the function of a program may make, and the fate of a file that cannot be
 * written.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "proc.h"
#include "unit.h"

#include <tslab/tslab.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int stack_object;
static char *self;

static SlabAllocator *telling(void) {
    SlabOptions options = {.size = sizeof options, .on_misuse = SLAB_MISUSE_REPORT};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    SUP_CHECK(a != NULL, "errno %d", errno);
    return a;
}

static void in_child(void (*fn)(void *), void *arg, char *err, size_t capacity) {
    int status = sup_child(fn, arg, SUP_CHILD_SECONDS, err, capacity);
    if (status != 0) {
        fail_msg("status %#x: %s", (unsigned)status, err);
    }
}

/* ---- a function -------------------------------------------------------------------------------------------------- */

struct heard {
    char text[4096];
    size_t used, calls;
};

static void hear(const char *line, size_t bytes, void *arg) {
    struct heard *heard = arg;
    SUP_CHECK(bytes == strlen(line) && bytes > 0 && line[bytes - 1] == '\n', "%zu bytes", bytes);
    SUP_CHECK(memchr(line, '\n', bytes) == line + bytes - 1, "one line");
    SUP_CHECK(heard->used + bytes < sizeof heard->text, "too much");
    memcpy(heard->text + heard->used, line, bytes + 1);
    heard->used += bytes;
    heard->calls++;
}

static void every_line(void *unused) {
    static struct heard heard;
    (void)unused;
    (void)setenv("TSLAB_RETAIN", "much", 1);
    (void)setenv("TSLAB_NO_SUCH", "1", 1);
    (void)setenv("TSLAB_SHM", "perhaps", 1);
    (void)setenv("TSLAB_RESERVE", sizeof(void *) < 8 ? "3000000000" : "999999999999999", 1);
    slab_set_message_sink(hear, &heard);
    SUP_CHECK(heard.calls == 0, "nothing to say yet");
    SlabOptions options = {.size = sizeof options, .on_misuse = SLAB_MISUSE_REPORT, .huge_pages = -7};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    SUP_CHECK(a != NULL, "errno %d", errno);
    SUP_CHECK(strstr(heard.text, "TSLAB_RETAIN=\"much\" is not a size"), "%s", heard.text);
    SUP_CHECK(strstr(heard.text, "unknown variable TSLAB_NO_SUCH "), "%s", heard.text);
    SUP_CHECK(strstr(heard.text, "TSLAB_SHM=\"perhaps\""), "%s", heard.text);
    SUP_CHECK(strstr(heard.text, "of TSLAB_RESERVE "), "%s", heard.text);
    SUP_CHECK(strstr(heard.text, "SlabOptions.huge_pages = -7 is none"), "%s", heard.text);
    size_t calls = heard.calls;
    errno = EXDEV;
    SUP_CHECK(!slab_free(a, &stack_object) && errno == EXDEV, "errno %d", errno);
    SUP_CHECK(heard.calls == calls + 1 && strstr(heard.text, "slab_free: pointer 0x"), "%s", heard.text);
    slab_message("of another library\nand no more");
    SUP_CHECK(heard.calls == calls + 2 && strstr(heard.text, "\nof another library\n"), "%s", heard.text);
    slab_message(NULL);
    SUP_CHECK(heard.calls == calls + 2, "nothing");
}

static void instead_of_stderr(void **state) {
    char err[4096] = "";
    (void)state;
    in_child(every_line, NULL, err, sizeof err);
    assert_string_equal(err, "");
}

static void back_again(void *unused) {
    static struct heard first, second;
    (void)unused;
    SlabAllocator *a = telling();
    slab_set_message_sink(hear, &first);
    (void)slab_free(a, &stack_object);
    slab_set_message_sink(hear, &second);
    (void)slab_free(a, &stack_object);
    (void)slab_free(a, &stack_object);
    slab_set_message_sink(NULL, &first);
    (void)slab_free(a, &stack_object);
    SUP_CHECK(first.calls == 1 && second.calls == 2, "%zu and %zu", first.calls, second.calls);
}

static void null_is_stderr(void **state) {
    char err[4096] = "";
    (void)state;
    in_child(back_again, NULL, err, sizeof err);
    assert_int_equal(sup_count_lines(err), 1);
    assert_non_null(strstr(err, "slab_free: pointer"));
}

/* ---- a function that uses the library ---------------------------------------------------------------------------- */

struct user {
    SlabAllocator *a;
    EpochDomain *domain;
    unsigned calls;
    bool sets;
};

static void use_the_library(const char *line, size_t bytes, void *arg) {
    struct user *user = arg;
    user->calls++;
    errno = EBADF;
    char *copy = slab_malloc(user->a, bytes + 1), *large = slab_malloc(user->a, 100000);
    SUP_CHECK(copy != NULL && large != NULL, "errno %d", errno);
    memcpy(copy, line, bytes + 1);
    SUP_CHECK(slab_free(user->a, copy) && slab_free(user->a, large), "slab_free");
    EpochDomain *d = epoch_domain_create(user->a);
    SUP_CHECK(d != NULL && epoch_domain_enter(d) && slab_alloc(100) != NULL, "errno %d", errno);
    epoch_domain_destroy(d);
    SUP_CHECK(epoch_advance(user->a) != EPOCH_NONE, "errno %d", errno);
    (void)slab_trim(user->a);
    SlabAllocator *b = slab_allocator_create();
    SUP_CHECK(b != NULL, "errno %d", errno);
    slab_allocator_free(b);
    SUP_CHECK(!slab_free(user->a, &stack_object), "misuse of its own"); /* to stderr, and not to here */
    if (user->sets) {
        slab_set_message_sink(use_the_library, user); /* waits for nothing */
    }
}

static void misuse_of_every_kind(void *unused) {
    static struct user user;
    (void)unused;
    (void)setenv("TSLAB_ON_MISUSE", "report", 1); /* for messages of no allocator */
    SlabOptions options = {.size = sizeof options, .poison_on_free = 1};
    SlabAllocator *a = slab_allocator_create_ex(&options);
    SUP_CHECK(a != NULL, "errno %d", errno);
    user.a = telling();
    slab_set_message_sink(use_the_library, &user);
    unsigned calls = 0;
#define SAID(call)                                                             \
    do {                                                                       \
        errno = EXDEV;                                                         \
        (void)(call);                                                          \
        SUP_CHECK(user.calls == ++calls, "%u lines at %s", user.calls, #call); \
        SUP_CHECK(errno != EBADF, "errno is the function's");                  \
    } while (0)
    SlabHandle handle;
    EpochId epoch = epoch_open(a, "label", EPOCH_CHURN);
    void *p = alloc_obj_epoch(a, 100, epoch, &handle);
    SAID(slab_free(a, &stack_object));
    SAID(slab_free(a, (char *)p + 16));
    SAID(slab_realloc(a, &stack_object, 10));
    SUP_CHECK(slab_free(a, p), "slab_free");
    SAID(slab_free(a, p));
    SAID(free_obj(a, handle));
    SAID(epoch_domain_enter((EpochDomain *)(uintptr_t)99));
    EpochDomain *d = epoch_domain_create(a);
    SUP_CHECK(d != NULL && epoch_domain_enter(d), "errno %d", errno);
    SAID(epoch_domain_hand_over(d));
    SAID(slab_promote(d, &stack_object));
    SUP_CHECK(epoch_domain_exit(d), "exit");
    SAID(epoch_domain_exit(d));
    epoch_domain_destroy(d);
    SAID((epoch_domain_destroy(d), 0));
    memset(p, 5, 50); /* written after free: told when it is given out again */
    for (unsigned i = 0; i < 1000 && user.calls == calls; i++) {
        SUP_CHECK(slab_malloc_epoch(a, 100, epoch) != NULL, "errno %d", errno);
    }
    SUP_CHECK(user.calls == ++calls, "%u lines", user.calls);
    user.sets = true;
    SAID(slab_free(a, &stack_object));
    SAID(slab_free(a, &stack_object));
    (void)fprintf(stderr, "%u\n", calls);
}

static void a_function_that_uses_the_library(void **state) {
    char err[1 << 14] = "";
    (void)state;
    in_child(misuse_of_every_kind, NULL, err, sizeof err);
    /* Its own misuse is told, each time, and the number of times. */
    const char *last = strrchr(err, '\n');
    while (last > err && last[-1] != '\n') {
        last--;
    }
    assert_int_equal(sup_count_lines(err), (size_t)strtoul(last, NULL, 10) + 1);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

struct pair {
    atomic_uint magic;
    char pad[60];
};
#define ALIVE 0x600du
static struct pair pairs[64];
static atomic_bool stop;
static atomic_ulong heard_in_all;

/* One of two functions, each with pairs of its own. */
static void hear_pair(struct pair *pair, unsigned odd) {
    SUP_CHECK((size_t)(pair - pairs) % 2 == odd, "the argument of another function");
    for (unsigned i = 0; i < 20; i++) {
        SUP_CHECK(atomic_load(&pair->magic) == ALIVE, "called with an argument that is gone");
        if (i == 10) {
            (void)sched_yield();
        }
    }
    atomic_fetch_add(&heard_in_all, 1);
}
static void hear_even(const char *line, size_t bytes, void *arg) { (void)line, (void)bytes, hear_pair(arg, 0); }
static void hear_odd(const char *line, size_t bytes, void *arg) { (void)line, (void)bytes, hear_pair(arg, 1); }

static void *misuse_on(void *allocator) {
    while (!atomic_load(&stop)) {
        (void)slab_free(allocator, &stack_object);
    }
    return NULL;
}

static void set_while_others_speak(void *unused) {
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    (void)unused;
    SlabAllocator *a = telling();
    atomic_store(&pairs[0].magic, ALIVE);
    slab_set_message_sink(hear_even, &pairs[0]);
    for (unsigned i = 0; i < THREADS; i++) {
        SUP_CHECK(pthread_create(&thread[i], NULL, misuse_on, a) == 0, "pthread_create");
    }
    unsigned now = 0, rounds = 0;
    while (rounds++ < SUP_SCALED(4000u) || atomic_load(&heard_in_all) < 1000) {
        unsigned next = (now + 1) % 64;
        atomic_store(&pairs[next].magic, ALIVE);
        slab_set_message_sink(next % 2 ? hear_odd : hear_even, &pairs[next]);
        atomic_store(&pairs[now].magic, 0);
        now = next;
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++) {
        SUP_CHECK(pthread_join(thread[i], NULL) == 0, "pthread_join");
    }
}

static void the_argument_of_the_one_before_is_free(void **state) {
    char err[1024] = "";
    (void)state;
    in_child(set_while_others_speak, NULL, err, sizeof err);
    assert_string_equal(err, "");
}

/* ---- fork -------------------------------------------------------------------------------------------------------- */

static atomic_bool inside, go_on;
static void stay_inside(const char *line, size_t bytes, void *arg) {
    (void)line, (void)bytes, (void)arg;
    atomic_store(&inside, true);
    while (!atomic_load(&go_on)) {
        sup_sleep_ms(1);
    }
}

static void *speak_once(void *allocator) {
    (void)slab_free(allocator, &stack_object);
    return NULL;
}

static void fork_beside_a_function(void *unused) {
    static struct heard heard;
    pthread_t thread;
    (void)unused;
    SlabAllocator *a = telling();
    slab_set_message_sink(stay_inside, NULL);
    SUP_CHECK(pthread_create(&thread, NULL, speak_once, a) == 0, "pthread_create");
    while (!atomic_load(&inside)) {
        sup_sleep_ms(1);
    }
    pid_t child = fork();
    SUP_CHECK(child >= 0, "fork");
    if (child == 0) {
        (void)alarm(SUP_CHILD_SECONDS / 2);
        slab_set_message_sink(hear, &heard); /* the thread inside the function is not in the child */
        (void)slab_free(a, &stack_object);
        sup_exit(heard.calls == 1 ? 0 : 1);
    }
    int status = 0;
    SUP_CHECK(waitpid(child, &status, 0) == child && status == 0, "status %#x", (unsigned)status);
    atomic_store(&go_on, true);
    SUP_CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
}

static void fork_inside(const char *line, size_t bytes, void *arg) {
    (void)line, (void)bytes;
    *(pid_t *)arg = fork();
}

static void fork_in_a_function(void *unused) {
    static struct heard heard;
    static pid_t child;
    (void)unused;
    SlabAllocator *a = telling();
    slab_set_message_sink(fork_inside, &child);
    (void)slab_free(a, &stack_object);
    SUP_CHECK(child >= 0, "fork");
    (void)alarm(SUP_CHILD_SECONDS / 2);
    slab_set_message_sink(hear, &heard);
    (void)slab_free(a, &stack_object);
    SUP_CHECK(heard.calls == 1, "%zu calls", heard.calls);
    int status = 0;
    if (child == 0) {
        sup_exit(0);
    }
    SUP_CHECK(waitpid(child, &status, 0) == child && status == 0, "status %#x", (unsigned)status);
}

static void forks(void **state) {
    char err[1024] = "";
    (void)state;
    if (!SUP_EMULATED) { /* qemu aborts in children of programs with threads */
        in_child(fork_beside_a_function, NULL, err, sizeof err);
    }
    in_child(fork_in_a_function, NULL, err, sizeof err);
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static SlabAllocator *of_handler;
static atomic_uint handled;
static void misuse_in_a_handler(int signal) {
    (void)signal;
    (void)slab_free(of_handler, &stack_object);
    handled++;
}
static void raise_inside(const char *line, size_t bytes, void *arg) {
    (void)line, (void)bytes;
    ++*(unsigned *)arg;
    (void)raise(SIGUSR1);
}

static void a_signal_inside(void *unused) {
    static unsigned calls;
    (void)unused;
    of_handler = telling();
    (void)signal(SIGUSR1, misuse_in_a_handler);
    (void)raise(SIGUSR1); /* to stderr */
    slab_set_message_sink(raise_inside, &calls);
    (void)slab_free(of_handler, &stack_object); /* that of the handler to stderr */
    SUP_CHECK(calls == 1 && handled == 2, "%u calls, %u signals", calls, handled);
}

static void signals(void **state) {
    char err[1024] = "";
    (void)state;
    in_child(a_signal_inside, NULL, err, sizeof err);
    assert_int_equal(sup_count_lines(err), 2);
}

/* ---- a file ------------------------------------------------------------------------------------------------------ */

static char directory[] = "/tmp/tslab_messages_XXXXXX";

static const char *in_directory(const char *name) {
    static char path[4][128];
    static unsigned next;
    char *to = path[next++ % 4];
    (void)snprintf(to, sizeof path[0], "%s/%s", directory, name);
    return to;
}

/* The text of a file, NULL if there is none. */
static const char *read_text(const char *path) {
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return NULL;
    }
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    (void)fclose(file);
    return text;
}

/* Runs this program again, with TSLAB_LOG. */
static int again(const char *what, const char *log, char *err, size_t capacity) {
    char *argv[] = {self, (char *)(uintptr_t)what, NULL};
    return sup_reexec(argv, "TSLAB_LOG", log, err, capacity);
}

static int run_again(const char *what) {
    static struct heard heard;
    SlabAllocator *a;
    if (strcmp(what, "chdir") == 0) {
        SUP_CHECK(chdir("/") == 0, "chdir");
    }
    if (strcmp(what, "close") == 0) { /* as daemons do, and then open files of their own */
        a = telling();
        (void)slab_free(a, &stack_object);
        for (int fd = 3; fd < 256; fd++) {
            (void)close(fd);
        }
        for (unsigned i = 0; i < 20; i++) {
            SUP_CHECK(open("/dev/null", O_RDONLY) >= 0, "open");
        }
    }
    if (strcmp(what, "sink first") == 0) {
        slab_set_message_sink(hear, &heard);
    }
    if (strcmp(what, "quiet") == 0) {
        return slab_allocator_create() != NULL ? 0 : 1;
    }
    a = telling();
    (void)slab_free(a, &stack_object);
    (void)slab_free(a, &stack_object);
    if (strcmp(what, "sink") == 0) {
        slab_set_message_sink(hear, &heard);
        (void)slab_free(a, &stack_object);
        SUP_CHECK(heard.calls == 1, "%zu calls", heard.calls);
        slab_set_message_sink(NULL, NULL);
        (void)slab_free(a, &stack_object);
    }
    SUP_CHECK(strcmp(what, "sink first") != 0 || heard.calls == 2, "%zu calls", heard.calls);
    return 0;
}

static void a_file(void **state) {
    char err[4096] = "";
    (void)state;
    const char *log = in_directory("log");
    assert_int_equal(again("plain", log, err, sizeof err), 0);
    assert_string_equal(err, "");
    assert_int_equal(sup_count_lines(read_text(log)), 2);
    assert_int_equal(again("close", log, err, sizeof err), 0); /* is added to */
    assert_string_equal(err, "");
    assert_int_equal(sup_count_lines(read_text(log)), 5);
    assert_int_equal(again("sink", log, err, sizeof err), 0); /* the last call decides */
    assert_int_equal(sup_count_lines(err), 1);
    assert_int_equal(sup_count_lines(read_text(log)), 7);
    assert_int_equal(again("sink first", log, err, sizeof err), 0);
    assert_string_equal(err, "");
    assert_int_equal(sup_count_lines(read_text(log)), 7);
}

static void a_name_of_the_first_directory(void **state) {
    char err[4096] = "", before[4096];
    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(directory), 0);
    int status = again("chdir", "relative", err, sizeof err);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, 0);
    assert_string_equal(err, "");
    assert_int_equal(sup_count_lines(read_text(in_directory("relative"))), 2);
}

static void cannot_be_written(const char *log, const char *what, const char *why, size_t lines) {
    char err[4096] = "";
    assert_int_equal(again(what, log, err, sizeof err), 0);
    if (sup_count_lines(err) != lines || strstr(err, log) == NULL || strstr(err, why) == NULL ||
        strstr(err, "stderr") == NULL) {
        fail_msg("%s: %s", log, err);
    }
}

/* One line names it, and the others are there. */
static void a_file_that_cannot_be_written(void **state) {
    (void)state;
    const char *missing = in_directory("no/such/directory");
    cannot_be_written(missing, "plain", "no such directory", 3);
    cannot_be_written(missing, "quiet", "no such directory", 1); /* at once, not when there is something to say */
    cannot_be_written(directory, "plain", "it is a directory", 3);
    const char *pipe = in_directory("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    cannot_be_written(pipe, "plain", "nobody reads from it", 3);
    if (access("/dev/full", W_OK) == 0) {
        cannot_be_written("/dev/full", "plain", "no space left", 3);
    }
}

static void a_name_that_is_too_long(void **state) {
    static char name[5000];
    char err[4096] = "";
    (void)state;
    memset(name, 'a', sizeof name - 1);
    assert_int_equal(again("plain", name, err, sizeof err), 0);
    assert_int_equal(sup_count_lines(err), 3);
    assert_non_null(strstr(err, "TSLAB_LOG: the name is too long"));
}

static int make_directory(void **state) {
    (void)state;
    return mkdtemp(directory) == NULL;
}
static int remove_directory(void **state) {
    (void)state;
    (void)unlink(in_directory("log"));
    (void)unlink(in_directory("relative"));
    (void)unlink(in_directory("pipe"));
    return rmdir(directory);
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 1) {
        return run_again(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instead_of_stderr),
        cmocka_unit_test(null_is_stderr),
        cmocka_unit_test(a_function_that_uses_the_library),
        cmocka_unit_test(the_argument_of_the_one_before_is_free),
        cmocka_unit_test(forks),
        cmocka_unit_test(signals),
        cmocka_unit_test(a_file),
        cmocka_unit_test(a_name_of_the_first_directory),
        cmocka_unit_test(a_file_that_cannot_be_written),
        cmocka_unit_test(a_name_that_is_too_long),
    };
    return cmocka_run_group_tests_name("api.messages", tests, make_directory, remove_directory);
}
