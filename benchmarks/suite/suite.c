#include "suite.h"

#include "bench_clock.h"
#include "bench_place.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

suite_common suite = {.seed = 1};

static const suite_program *program;

#define ALLOCATORS "tslab, malloc, jemalloc, tcmalloc, mimalloc, snmalloc or google"
static const char *const allocators[] = {"tslab",    "malloc",   "glibc",    "jemalloc",
                                         "tcmalloc", "mimalloc", "snmalloc", "google"};

/* ---- errors ----------------------------------------------------------------------------------- */

static void end_progress(void);

_Noreturn static void stop(int code, const char *format, va_list args) {
    char text[1024];
    end_progress();
    vsnprintf(text, sizeof text, format, args);
    bench_die(code, "%s (%s): %s", program->name, SUITE_ALLOCATOR, text);
}

void suite_usage(const char *format, ...) {
    va_list args;
    va_start(args, format);
    stop(BENCH_EXIT_USAGE, format, args);
}

void suite_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    stop(BENCH_EXIT_FAILED, format, args);
}

/* ---- command line ----------------------------------------------------------------------------- */

static const char *wanted_allocator;
static bool wants_identity;

static const suite_option common_options[] = {
    {.name = "--csv", .value = "FILE", .help = "write the results to FILE", .text = &suite.csv},
    {.name = "--allocator", .value = "NAME", .help = ALLOCATORS, .text = &wanted_allocator},
    {.name = "--seed",
     .value = "N",
     .help = "seed of sizes and order (default 1)",
     .number = &suite.seed,
     .high = UINT64_MAX},
    {.name = "--quick", .help = "a part of the work, in seconds", .flag = &suite.quick},
    {.name = "--smoke", .help = "tiny amounts with every object checked: no figures to quote", .flag = &suite.smoke},
    {.name = "--identify", .help = "print allocator,version,library,build", .flag = &wants_identity},
};
enum { COMMON_COUNT = sizeof common_options / sizeof common_options[0] };

static void print_options(const suite_option *options, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", options[i].name, options[i].value ? options[i].value : "");
        printf("  %-20s  %s\n", left, options[i].help);
    }
}

static void print_help(void) {
    printf("usage: %s", program->name);
    if (program->operand) printf(" [%s]", program->operand->value);
    printf(" [options]\n\n%s\n\n", program->summary);
    if (program->operand) printf("  %-20s  %s\n", program->operand->value, program->operand->help);
    print_options(program->options, program->option_count);
    print_options(common_options, COMMON_COUNT);
    printf("  %-20s  %s\n", "--help", "print this");
}

static void parse_number(const suite_option *option, const char *text) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < option->low || value > option->high)
        suite_usage("%s takes a whole number from %llu to %llu, not '%s'", option->name,
                    (unsigned long long)option->low, (unsigned long long)option->high, text);
    *option->number = value;
}

static const suite_option *find_option(const char *name, size_t length) {
    for (size_t i = 0; i < program->option_count; i++)
        if (strlen(program->options[i].name) == length && strncmp(program->options[i].name, name, length) == 0)
            return &program->options[i];
    for (size_t i = 0; i < COMMON_COUNT; i++)
        if (strlen(common_options[i].name) == length && strncmp(common_options[i].name, name, length) == 0)
            return &common_options[i];
    return NULL;
}

static void parse(int argc, char **argv) {
    bool operand_seen = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0) {
            print_help();
            exit(fflush(stdout) == 0 ? 0 : BENCH_EXIT_FAILED);
        }
        if (word[0] != '-') {
            if (program->operand == NULL || operand_seen) suite_usage("unexpected argument '%s' (see --help)", word);
            parse_number(program->operand, word);
            operand_seen = true;
            continue;
        }
        const char *equals = strchr(word, '=');
        const suite_option *option = find_option(word, equals ? (size_t)(equals - word) : strlen(word));
        if (option == NULL) suite_usage("unknown option '%s' (see --help)", word);
        if (option->flag) {
            if (equals) suite_usage("%s takes no value: '%s'", option->name, word);
            *option->flag = true;
            continue;
        }
        if (!equals && i + 1 >= argc) suite_usage("%s must be followed by %s", option->name, option->value);
        const char *value = equals ? equals + 1 : argv[++i];
        /* for a file of that name use --csv=--file */
        if (!equals && strncmp(value, "--", 2) == 0)
            suite_usage("%s must be followed by %s, not by '%s'", option->name, option->value, value);
        if (value[0] == '\0') suite_usage("%s must be followed by %s, not by nothing", option->name, option->value);
        if (option->text)
            *option->text = value;
        else
            parse_number(option, value);
    }
    if (suite.quick && suite.smoke) suite_usage("--quick and --smoke exclude each other");
    if (program->check) program->check();
}

const char *suite_allocator(void) { return strcmp(PEER_NAME, "glibc") == 0 ? "malloc" : PEER_NAME; }

/* The program beside this one that is linked to temporal-slab, or the one for malloc. */
static void become_other(bool ours, char **argv) {
    char self[PATH_MAX], path[PATH_MAX + 128];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) suite_fail("cannot find out where this program lies: %s", strerror(errno));
    self[length] = '\0';
    snprintf(path, sizeof path, "%s/%s%s", dirname(self), program->name, ours ? "" : "_malloc");
    execv(path, argv);
    suite_usage("allocator '%s' is not installed, or was not when this was built: no %s", wanted_allocator, path);
}

static void choose_allocator(char **argv) {
    const char *wanted = wanted_allocator;
    if (wanted == NULL) wanted = PEER_HAS_DOMAINS ? "tslab" : "malloc";
    bool known = false;
    for (size_t i = 0; i < sizeof allocators / sizeof allocators[0]; i++) known |= strcmp(wanted, allocators[i]) == 0;
    if (!known) suite_usage("--allocator takes " ALLOCATORS ", not '%s'", wanted);
    bool ours = strcmp(wanted, "tslab") == 0;
    if (ours != PEER_HAS_DOMAINS) become_other(ours, argv);
#if !PEER_HAS_DOMAINS
    peer_become(strcmp(wanted, "malloc") == 0 ? "glibc" : wanted, argv);
#endif
}

static void note_settings(void) {
    static const char *const prefixes[] = {"GLIBC_TUNABLES", "MALLOC_", "MIMALLOC_", "TCMALLOC_", "TSLAB_"};
    for (char **entry = environ; *entry && getenv("BENCH_PEER") == NULL; entry++) /* peer_become() has set its own */
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            if (strncmp(*entry, prefixes[i], strlen(prefixes[i])) == 0)
                fprintf(stderr, "%s: note: the environment has %s\n", program->name, *entry);
    if (strcmp(bench_build_kind(), "optimized") != 0 && !suite.smoke)
        fprintf(stderr, "%s: note: this is a %s build, its figures mean nothing\n", program->name, bench_build_kind());
}

void suite_begin(const suite_program *self, int argc, char **argv) {
    static char stdout_buffer[16384]; /* so that stdio takes nothing from the allocator under test */
    program = self;
    setvbuf(stdout, stdout_buffer, _IOFBF, sizeof stdout_buffer);
    parse(argc, argv);
    choose_allocator(argv);
    suite.identity = peer_identify();
    if (wants_identity) {
        printf("%s,%s,%s,%s\n", SUITE_ALLOCATOR, suite.identity.version, suite.identity.library, bench_build_kind());
        exit(fflush(stdout) == 0 ? 0 : BENCH_EXIT_FAILED);
    }
    fprintf(stderr, "%s: %s %s (%s)\n", program->name, SUITE_ALLOCATOR, suite.identity.version, suite.identity.library);
    note_settings();
}

/* ---- CSV -------------------------------------------------------------------------------------- */

enum { CSV_FILES = 8 };

/* Shared with the processes of suite_run. */
typedef struct csv_text {
    size_t length;
    char bytes[];
} csv_text;

enum { CSV_BYTES = 64 << 20, CSV_RESIDENT_BYTES = 1 << 20 };

struct suite_csv {
    bool open;
    int fd;
    bench_place place;
    csv_text *text;
};

static suite_csv files[CSV_FILES];
static bool is_part; /* a process of suite_run: the files are not its own */

/* Only calls that a signal handler may make. */
static void remove_temporaries(void) {
    for (int i = 0; i < CSV_FILES && !is_part; i++)
        if (files[i].open) bench_place_drop(&files[i].place);
}

static void on_signal(int number) {
    remove_temporaries();
    signal(number, SIG_DFL);
    raise(number);
}

static void clean_up_at_exit(void) {
    static bool done;
    if (done) return;
    done = true;
    atexit(remove_temporaries);
    bench_on_interruption(on_signal);
}

_Noreturn static void cannot_write(const char *path, int error) {
    suite_usage("cannot write '%s': %s", path, strerror(error));
}

suite_csv *suite_csv_open(const char *path, const char *header) {
    if (path == NULL) return NULL;
    for (int i = 0; i < CSV_FILES; i++) {
        suite_csv *csv = &files[i];
        if (csv->open) {
            if (strcmp(csv->place.path, path) == 0) suite_usage("two results would go to one file, '%s'", path);
            continue;
        }
        clean_up_at_exit();
        csv->text = mmap(NULL, CSV_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (csv->text == MAP_FAILED) suite_fail("the harness cannot map memory for its results");
        csv->open = true;
        csv->fd = bench_place_open(&csv->place, path);
        if (csv->fd < 0) cannot_write(path, errno);
        suite_csv_line(csv, "%s", header);
        return csv;
    }
    suite_fail("more than %d results", CSV_FILES);
}

void suite_csv_line(suite_csv *csv, const char *format, ...) {
    char line[1024];
    va_list args;
    if (csv == NULL) return;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (length < 0 || length >= (int)sizeof line - 1) suite_fail("a line of '%s' is too long", csv->place.path);
    line[length++] = '\n';
    if (csv->text->length + (size_t)length > CSV_BYTES - sizeof *csv->text)
        suite_fail("'%s' would have more than %d bytes", csv->place.path, CSV_BYTES);
    memcpy(csv->text->bytes + csv->text->length, line, (size_t)length);
    csv->text->length += (size_t)length;
}

static void write_out(suite_csv *csv) {
    for (size_t at = 0; at < csv->text->length;) {
        ssize_t written = write(csv->fd, csv->text->bytes + at, csv->text->length - at);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) cannot_write(csv->place.path, errno);
        at += (size_t)written;
    }
    if (close(csv->fd) != 0) cannot_write(csv->place.path, errno);
}

void suite_csv_commit(void) {
    if (fflush(stdout) != 0) cannot_write("standard output", errno);
    for (int i = 0; i < CSV_FILES; i++)
        if (files[i].open) write_out(&files[i]);
    for (int i = 0; i < CSV_FILES; i++) {
        suite_csv *csv = &files[i];
        if (!csv->open) continue;
        if (!bench_place_commit(&csv->place)) cannot_write(csv->place.path, errno);
        csv->open = false;
        munmap(csv->text, CSV_BYTES);
    }
}

/* ---- processes -------------------------------------------------------------------------------- */

void *suite_shared(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) suite_fail("the harness cannot map %zu bytes for itself", bytes);
    return memory;
}

int suite_try(suite_phase *phase, const void *arg) {
    int status = 0;
    fflush(stdout);
    fflush(stderr);
    pid_t parent = getpid(), child = fork();
    if (child < 0) suite_fail("cannot fork: %s", strerror(errno));
    if (child == 0) {
        is_part = true;
        /* the parent may be gone already */
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) _exit(BENCH_EXIT_FAILED);
        for (int i = 0; i < CSV_FILES; i++)
            for (size_t at = 0; files[i].open && at < CSV_RESIDENT_BYTES; at += 4096)
                *((volatile char *)files[i].text + at) = *((volatile char *)files[i].text + at);
        phase(arg);
        end_progress();
        if (fflush(stdout) != 0) cannot_write("standard output", errno);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) suite_fail("cannot wait for a part of the work: %s", strerror(errno));
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    fprintf(stderr, "%s (%s): a part of the work was ended by signal %d\n", program->name, SUITE_ALLOCATOR,
            WTERMSIG(status));
    return BENCH_EXIT_FAILED;
}

void suite_run(suite_phase *phase, const void *arg) {
    int code = suite_try(phase, arg);
    if (code != 0) exit(code); /* it has said why */
}

/* ---- progress --------------------------------------------------------------------------------- */

static bool progress_open; /* a line on the terminal waits to be overwritten */

static void end_progress(void) {
    if (progress_open) fputc('\n', stderr);
    progress_open = false;
}

void suite_progress(bool now, const char *format, ...) {
    static uint64_t last_ns;
    static int terminal = -1;
    char text[256];
    va_list args;
    uint64_t time_ns = bench_now_ns();
    if (terminal < 0) terminal = isatty(STDERR_FILENO);
    if (!now && time_ns - last_ns < (terminal ? 1000000000u : UINT64_C(10000000000))) return;
    last_ns = time_ns;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, terminal ? "\r\033[K%s: %s" : "%s: %s\n", program->name, text);
    progress_open = terminal;
    if (terminal && now) end_progress();
}

/* ---- memory ----------------------------------------------------------------------------------- */

size_t suite_resident_bytes(void) {
    char text[4096];
    size_t length = 0;
    ssize_t got = -1;
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && length < sizeof text - 1 && (got = read(fd, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    if (fd >= 0) close(fd);
    text[length] = '\0';
    const char *field = strstr(text, "\nAnonymous:");
    if (field == NULL)
        bench_die(BENCH_EXIT_UNAVAILABLE, "%s: the kernel does not say what is resident (/proc/self/smaps_rollup)",
                  program->name);
    return (size_t)strtoull(field + strlen("\nAnonymous:"), NULL, 10) * 1024u;
}

/* ---- objects ---------------------------------------------------------------------------------- */

static unsigned char pattern_byte(size_t size, uint32_t tag, size_t offset) {
    return (unsigned char)(tag * 37u + (tag >> 8) * 11u + (uint32_t)size * 5u + (uint32_t)offset * 17u + 3u);
}

void suite_fill(void *object, size_t size, uint32_t tag) {
    unsigned char *bytes = object;
    for (size_t i = 0; i < size; i++) bytes[i] = pattern_byte(size, tag, i);
}

bool suite_verify(const void *object, size_t size, uint32_t tag) {
    const unsigned char *bytes = object;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != pattern_byte(size, tag, i)) return false;
    return true;
}

/* ---- single operations -------------------------------------------------------------------------- */

suite_clock suite_clock_start(void) {
    suite_clock clock = {.step = 1};
    if (!bench_clock_is_invariant() && !suite.smoke)
        bench_die(BENCH_EXIT_UNAVAILABLE, "%s: the tick counter %s of this processor changes its rate", program->name,
                  BENCH_TICK_SOURCE);
    bench_hist *hist = bench_hist_create();
    clock.tick_ns = bench_clock_calibrate();
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t begin = bench_tick_begin();
        bench_hist_add(hist, bench_tick_end() - begin);
    }
    clock.step = bench_hist_step(hist);
    bench_hist_destroy(hist);
    return clock;
}

double suite_percentile_ns(const bench_hist *hist, double fraction, const suite_clock *clock, double floor_ns) {
    double ticks = bench_hist_percentile(hist, fraction, clock->step);
    /* interpolated within a step, the last one may end beyond the largest value seen */
    if (ticks > (double)hist->max) ticks = (double)hist->max;
    double ns = ticks * clock->tick_ns - floor_ns;
    return ns > 0 ? ns : 0;
}

double suite_mean_ns(const bench_hist *hist, const suite_clock *clock, double floor_ns) {
    if (hist->count == 0) return 0;
    double ns = bench_hist_sum(hist) / (double)hist->count * clock->tick_ns - floor_ns;
    return ns > 0 ? ns : 0;
}

suite_field suite_count_field(bool known, uint64_t value) {
    suite_field field = {""};
    if (known) snprintf(field.text, sizeof field.text, "%llu", (unsigned long long)value);
    return field;
}
