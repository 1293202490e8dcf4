/*
 * tslab record [OPTIONS] PROGRAM [ARGUMENTS]: starts the program with libtslab-record preloaded, takes the events from
 * the memory that it shares with it, and writes them to a file (docs/trace-format.md). It stays until the program ends,
 * so the program may be killed at any time.
 */
#include "common/options.h"
#include "record/shared.h"
#include "trace/writer.h"
#include "tslab/commands.h"
#include "tslab/drain.h"
#include "tslab/launch.h"

#include <tslab/tslab.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WINDOWS = 4096, PASS_NS = 10000000, FLUSH_NS = 1000000000, KILLED = 128 };

static void help(FILE *to) {
    fputs(
        "usage: tslab record [OPTIONS] PROGRAM [ARGUMENTS]\n"
        "\n"
        "Runs the program, and writes every allocation, reallocation and free of all its threads to a file, with time\n"
        "and call stack. The program keeps its own malloc.\n"
        "\n"
        "  -o FILE          the file; tslab-PROGRAM-PID.trace if not given\n"
        "  --children       record the processes that it starts, too\n"
        "  --sample time=ON/EVERY\n"
        "                   only what is allocated in the first ON of each EVERY: time=10ms/1s. The frees of these\n"
        "                   objects are recorded whenever they come\n"
        "  --sample turn=N/M\n"
        "                   only what is allocated in the first N of each M turns of a thread: turn=1/100. A turn is\n"
        "                   the outermost domain that the thread is in, or a round of its loop that waits for events\n"
        "                   (epoll_wait, poll, select, recv)\n"
        "\n"
        "Programs that are linked statically, or have more rights than who starts them, cannot be recorded.\n"
        "Exit code: the program's, 128 and the signal if one ended it; 2 wrong usage; 126 it cannot be run; 127 it is\n"
        "not found.\n",
        to);
}

typedef struct plan {
    const char *file, *sample_text;
    char file_name[256];
    bool with_children;
    enum record_sample sample;
    uint64_t on, of; /* nanoseconds, or turns */
} plan;

typedef struct recording {
    record_shared *memory;
    int memory_fd;
    trace_writer *writer;
    drain *drain;
    pid_t root;
    bool has_status;
    int status;
    uint64_t on_ns, of_ns;
    pthread_t clock;
    bool has_clock;
    _Atomic bool clock_ends;
    struct {
        uint64_t time_ns;
        bool on;
    } window[WINDOWS]; /* written by the clock */
    _Atomic uint32_t windows;
    uint32_t windows_taken;
    bool has_said;
} recording;

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* "10ms", "1s", "500us". 0: it is none. */
static uint64_t ns_of_text(const char *text, const char *end) {
    char *rest;
    errno = 0;
    unsigned long long n = strtoull(text, &rest, 10);
    if (rest == text || errno || n > 1000000000 || *text < '0' || *text > '9') return 0;
    size_t length = (size_t)(end - rest);
    if (length == 1 && *rest == 's') return n * 1000000000u;
    if (length == 2 && strncmp(rest, "ms", 2) == 0) return n * 1000000u;
    if (length == 2 && strncmp(rest, "us", 2) == 0) return n * 1000u;
    return 0;
}

static bool read_sample(plan *p, const char *text) {
    const char *slash = strchr(text, '/');
    if (!slash) return false;
    p->sample_text = text;
    if (strncmp(text, "time=", 5) == 0) {
        p->sample = SAMPLE_TIME;
        p->on = ns_of_text(text + 5, slash);
        p->of = ns_of_text(slash + 1, slash + strlen(slash));
        return p->on >= 100000 && p->on < p->of;
    }
    char digits[16];
    unsigned long on, of;
    size_t n = (size_t)(slash - text);
    if (strncmp(text, "turn=", 5) != 0 || n <= 5 || n - 5 >= sizeof digits) return false;
    snprintf(digits, sizeof digits, "%.*s", (int)(n - 5), text + 5);
    if (!number_of(digits, 1, &on) || !number_of(slash + 1, 2, &of) || on >= of || of > UINT32_MAX) return false;
    p->sample = SAMPLE_TURNS;
    p->on = on;
    p->of = of;
    return true;
}

/* ---- the memory and the file ------------------------------------------------------------------------------------- */

static int make_memory(recording *r, const plan *p) {
    struct timespec now;
    r->memory_fd = memfd_create("tslab-record", 0);
    if (r->memory_fd < 0 || ftruncate(r->memory_fd, sizeof *r->memory) != 0)
        return launch_fail(EXIT_CANNOT, "memory: %s", strerror(errno));
    void *at = mmap(NULL, sizeof *r->memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, r->memory_fd, 0);
    if (at == MAP_FAILED) return launch_fail(EXIT_CANNOT, "memory: %s", strerror(errno));
    r->memory = at;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    r->memory->version = RECORD_VERSION;
    r->memory->bytes = sizeof *r->memory;
    r->memory->tool_pid = getpid();
    r->memory->with_children = p->with_children;
    r->memory->start_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    r->memory->sample = (uint32_t)p->sample;
    if (p->sample == SAMPLE_TURNS) r->memory->turn_on = (uint32_t)p->on, r->memory->turn_of = (uint32_t)p->of;
    if (p->sample == SAMPLE_TIME) r->on_ns = p->on, r->of_ns = p->of;
    return -1;
}

static char *about_text(const plan *p, char **argv) {
    struct timespec now;
    struct utsname system;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return NULL;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    fprintf(out, "recorder=tslab %s\nstart_realtime_ns=%lld%09ld\n", slab_version(), (long long)now.tv_sec,
            now.tv_nsec);
    if (uname(&system) == 0) fprintf(out, "machine=%s\nhost=%s\n", system.machine, system.nodename);
    if (p->sample_text) fprintf(out, "sample=%s\n", p->sample_text);
    fprintf(out, "stacks=%d\ncommand=", RECORD_FRAMES);
    for (char **a = argv; *a; a++) {
        if (a != argv) fputc(' ', out);
        for (const char *c = *a; *c; c++) fputc(*c == '\n' ? ' ' : *c, out);
    }
    fputc('\n', out);
    return fclose(out) == 0 ? text : NULL;
}

static int make_file(recording *r, plan *p, char **argv) {
    char error[160];
    if (!p->file) {
        const char *slash = strrchr(argv[0], '/');
        snprintf(p->file_name, sizeof p->file_name, "tslab-%.200s-%ld.trace", slash ? slash + 1 : argv[0],
                 (long)getpid());
        p->file = p->file_name;
    }
    char *about = about_text(p, argv);
    r->writer = about ? trace_writer_create(p->file, about, error, sizeof error) : NULL;
    if (!about) snprintf(error, sizeof error, "no memory");
    free(about);
    if (!r->writer) return launch_fail(EXIT_CANNOT, "%s: %s", p->file, error);
    r->drain = drain_create(r->memory, r->writer);
    return r->drain ? -1 : launch_fail(EXIT_CANNOT, "no memory");
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static void start_program(recording *r, char **argv, int error_fd, const sigset_t *signals) {
    char variable[64], library[PATH_MAX];
    snprintf(variable, sizeof variable, "/proc/%ld/fd/%d", (long)getppid(), r->memory_fd);
    int code = launch_find_library("libtslab-record.so." TSLAB_SOVERSION, library);
    if (code >= 0) _exit(code);
    if (!launch_preload(library) || setenv(RECORD_VARIABLE, variable, 1) != 0)
        _exit(launch_fail(EXIT_CANNOT, "no memory"));
    atomic_store(&r->memory->root_pid, getpid());
    (void)close(r->memory_fd); /* it is opened by its name */
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGQUIT, SIG_DFL);
    (void)signal(SIGXFSZ, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, signals, NULL);
    execvp(argv[0], argv);
    int error = errno;
    (void)!write(error_fd, &error, sizeof error);
    _exit(EXIT_CANNOT);
}

static pid_t root_pid;

static void pass_on(int number) {
    if (root_pid > 0) (void)kill(root_pid, number);
}

/* -1: it runs; else an exit code. */
static int launch(recording *r, char **argv) {
    int fd[2], error = 0, status;
    sigset_t none, before;
    if (pipe2(fd, O_CLOEXEC) != 0) return launch_fail(EXIT_CANNOT, "%s", strerror(errno));
    if (launch_is_static(argv[0])) (void)launch_fail(0, "%s is linked statically and cannot be recorded", argv[0]);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* the program's children stay this tool's when it ends */
    sigfillset(&none);
    (void)sigprocmask(SIG_BLOCK, &none, &before);
    root_pid = r->root = fork();
    if (r->root == 0) start_program(r, argv, fd[1], &before);
    (void)signal(SIGINT, SIG_IGN); /* a terminal sends them to the program too, which decides */
    (void)signal(SIGQUIT, SIG_IGN);
    (void)signal(SIGTERM, pass_on); /* the program's end ends the tool */
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)close(fd[1]);
    if (r->root < 0) return launch_fail(EXIT_CANNOT, "%s", strerror(errno));
    bool failed = read(fd[0], &error, sizeof error) == (ssize_t)sizeof error;
    (void)close(fd[0]);
    if (!failed) return -1;
    while (waitpid(r->root, &status, 0) < 0 && errno == EINTR) {
    }
    return launch_fail(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT, "%s: %s", argv[0], strerror(error));
}

/* ---- windows of time --------------------------------------------------------------------------------------------- */

static uint64_t clock_ns(const recording *r) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - r->memory->start_ns;
}

static void sleep_until(const recording *r, uint64_t at_ns) {
    const uint64_t at = at_ns + r->memory->start_ns;
    struct timespec t = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

static void set_window(recording *r, bool on) {
    uint32_t n = atomic_load(&r->windows);
    r->window[n % WINDOWS].time_ns = clock_ns(r);
    r->window[n % WINDOWS].on = on;
    atomic_store(&r->memory->window, on);
    atomic_store(&r->windows, n + 1);
}

static void *run_clock(void *arg) {
    recording *r = arg;
    for (uint64_t at = 0; !atomic_load(&r->clock_ends); at += r->of_ns) {
        sleep_until(r, at);
        set_window(r, true);
        sleep_until(r, at + r->on_ns);
        set_window(r, false);
        /* In steps, so that the tool ends with the program. */
        for (uint64_t now = at + r->on_ns; now < at + r->of_ns && !atomic_load(&r->clock_ends); now += 50000000)
            sleep_until(r, now < at + r->of_ns ? now : at + r->of_ns);
        while (at + r->of_ns < clock_ns(r)) at += r->of_ns;
    }
    return NULL;
}

static void take_windows(recording *r) {
    for (uint32_t n = atomic_load(&r->windows); r->windows_taken != n; r->windows_taken++)
        drain_window(r->drain, r->window[r->windows_taken % WINDOWS].time_ns, r->window[r->windows_taken % WINDOWS].on);
}

/* ---- until it ends ----------------------------------------------------------------------------------------------- */

/* Children that lost their parent, too. */
static void collect_status(recording *r) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != r->root) continue;
        r->has_status = true;
        r->status = status;
    }
}

static void say_if_full(recording *r, const plan *p) {
    const char *error = trace_writer_error(r->writer);
    if (!error || r->has_said) return;
    r->has_said = true;
    atomic_store(&r->memory->is_over, 1);
    (void)launch_fail(0, "%s: %s; the recording ends here, and the program goes on", p->file, error);
}

static void sleep_for_work(recording *r) {
    record_shared *m = r->memory;
    struct timespec t = {0, PASS_NS};
    uint32_t work = atomic_load(&m->work);
    atomic_store(&m->tool_sleeps, 1);
    (void)syscall(SYS_futex, &m->work, RECORD_FUTEX_WAIT, work, &t, NULL, 0);
    atomic_store(&m->tool_sleeps, 0);
}

static void take_all(recording *r, const plan *p) {
    uint64_t flushed_ns = 0, looked_ns = 0;
    for (size_t alive = 1; !r->has_status || (p->with_children && alive > 0);) {
        size_t count = drain_take(r->drain);
        uint64_t now = clock_ns(r);
        take_windows(r);
        if (now - looked_ns >= PASS_NS || count == 0) {
            collect_status(r);
            alive = drain_reap(r->drain, r->root, r->has_status, r->status);
            looked_ns = now;
        }
        if (now - flushed_ns >= FLUSH_NS) {
            trace_writer_flush(r->writer);
            flushed_ns = now;
        }
        say_if_full(r, p);
        if (count < RECORD_RING / 4) sleep_for_work(r);
    }
    (void)drain_take(r->drain);
    (void)drain_reap(r->drain, r->root, true, r->status);
}

static void say_end(recording *r, const plan *p, bool whole) {
    const record_shared *m = r->memory;
    const uint64_t bytes = trace_writer_bytes(r->writer), events = drain_events(r->drain);
    if (atomic_load(&m->has_own_malloc))
        (void)launch_fail(
            0, "the program, or one of its children, has a malloc of its own, and its calls cannot be recorded");
    if (atomic_load(&m->processes) == 0)
        (void)launch_fail(0, "nothing was recorded: the program did not load libtslab-record");
    if (atomic_load(&m->full_slots))
        (void)launch_fail(0, "more than %d threads at once: some were not recorded", RECORD_SLOTS);
    if (m->sample == SAMPLE_TURNS && atomic_load(&m->turns) == 0)
        (void)launch_fail(0, "no thread had a turn: nothing was recorded; see --sample time=ON/EVERY");
    (void)launch_fail(0, "%s: %" PRIu64 " events of %" PRIu64 " threads, %.1f MB, %.1f bytes an event%s", p->file,
                      events, drain_threads(r->drain), (double)bytes / 1e6,
                      events ? (double)bytes / (double)events : 0.0, whole ? "" : "; it is cut off");
}

static int finish(recording *r, const plan *p) {
    char lines[256];
    atomic_store(&r->clock_ends, true);
    if (r->has_clock) (void)pthread_join(r->clock, NULL);
    take_windows(r);
    atomic_store(&r->memory->is_over, 1);
    trace_writer_flush(r->writer);
    say_if_full(r, p);
    snprintf(lines, sizeof lines, "status=%d\nlost_stacks=%" PRIu64 "\n", r->status,
             (uint64_t)atomic_load(&r->memory->lost_stacks));
    say_end(r, p, !trace_writer_error(r->writer));
    drain_free(r->drain);
    if (!trace_writer_close(r->writer, lines) && !r->has_said) (void)launch_fail(0, "%s: it is cut off", p->file);
    return WIFSIGNALED(r->status) ? KILLED + WTERMSIG(r->status) : WEXITSTATUS(r->status);
}

static int record(plan *p, char **argv) {
    static recording r;
    int code = make_memory(&r, p);
    if (code < 0) code = make_file(&r, p, argv);
    if (code >= 0) return code;
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is as a full disk */
    code = launch(&r, argv);
    if (code >= 0) {
        (void)unlink(p->file); /* it is empty */
        return code;
    }
    if (p->sample == SAMPLE_TIME) r.has_clock = pthread_create(&r.clock, NULL, run_clock, &r) == 0;
    take_all(&r, p);
    return finish(&r, p);
}

int command_record(int argc, char **argv) {
    static const struct option KNOWN[] = {{"output", required_argument, NULL, 'o'},
                                          {"children", no_argument, NULL, 1},
                                          {"sample", required_argument, NULL, 2},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    plan p = {0};
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, "+:ho:", KNOWN, NULL)) != -1;) {
        if (c == 'h') return help(stdout), EXIT_DONE;
        if (c == ':') return launch_fail(EXIT_USAGE, "%s needs a value", option_text(argv));
        if (c == '?') return launch_fail(EXIT_USAGE, "unknown option '%s'; see tslab record --help", option_text(argv));
        if (c == 'o') p.file = optarg;
        if (c == 1) p.with_children = true;
        if (c == 2 && !read_sample(&p, optarg))
            return launch_fail(EXIT_USAGE, "--sample '%s': time=10ms/1s or turn=1/100 is wanted", optarg);
    }
    if (optind >= argc) return help(stderr), EXIT_USAGE;
    return record(&p, argv + optind);
}
