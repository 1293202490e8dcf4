#include "bench_util.h"

#include "bench_clock.h"
#include "bench_hist.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

void bench_die(int code, const char *format, ...) {
    va_list args;
    fflush(stdout);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(code);
}

const char *bench_build_kind(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return "sanitized";
#elif defined(__OPTIMIZE__)
    return "optimized";
#else
    return "debug";
#endif
}

static void flush_stdout(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return;
    fputs("cannot write to the standard output\n", stderr);
    _exit(BENCH_EXIT_USAGE);
}

void bench_watch_stdout(void) { (void)atexit(flush_stdout); }

const char *bench_option_value(const char *program, const char *peer, int argc, char **argv, int *i) {
    const char *option = argv[*i], *value = ++*i < argc ? argv[*i] : NULL;
    if (!value) bench_die(BENCH_EXIT_USAGE, "%s%s: a value must follow '%s' (see --help)", program, peer, option);
    if (strncmp(value, "--", 2) == 0)
        bench_die(BENCH_EXIT_USAGE, "%s%s: a value must follow '%s', not '%s' (see --help)", program, peer, option,
                  value);
    return value;
}

void *bench_map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) bench_die(BENCH_EXIT_FAILED, "the harness cannot map %zu bytes for itself", bytes);
    return memory;
}

void bench_unmap(void *memory, size_t bytes) { munmap(memory, bytes); }

static int compare_doubles(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double bench_median(double *values, size_t count) {
    if (count == 0) return 0;
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

size_t bench_rss_bytes(void) {
    char text[4096];
    size_t length = 0;
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    for (;;) {
        ssize_t got = read(fd, text + length, sizeof text - 1 - length);
        if (got <= 0) break;
        length += (size_t)got;
    }
    close(fd);
    text[length] = '\0';
    const char *field = strstr(text, "\nRss:");
    return field ? (size_t)strtoull(field + 5, NULL, 10) * 1024u : 0;
}

int bench_cpus(int *out, int capacity) {
    cpu_set_t set;
    int count = 0;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set)) continue;
        if (count < capacity) out[count] = cpu;
        count++;
    }
    return count;
}

bool bench_pin_thread(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

/* ---- clock ------------------------------------------------------------------------------------ */

double bench_clock_calibrate(void) {
    uint64_t ns_begin = bench_now_ns();
    uint64_t tick_begin = bench_tick_begin();
    uint64_t ns_end;
    do {
        ns_end = bench_now_ns();
    } while (ns_end - ns_begin < 20000000u);
    uint64_t tick_end = bench_tick_end();
    if (tick_end <= tick_begin) bench_die(BENCH_EXIT_FAILED, "the tick counter %s does not advance", BENCH_TICK_SOURCE);
    return (double)(ns_end - ns_begin) / (double)(tick_end - tick_begin);
}

int bench_clock_is_invariant(void) {
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8) != 0;
#else
    return 1;
#endif
}

/* ---- histogram -------------------------------------------------------------------------------- */

bench_hist *bench_hist_create(void) { return bench_map(sizeof(bench_hist)); }

void bench_hist_destroy(bench_hist *hist) { bench_unmap(hist, sizeof *hist); }

void bench_hist_add_above(bench_hist *hist, uint64_t ticks) {
    unsigned bit = 63 - (unsigned)__builtin_clzll(ticks);
    unsigned part = (unsigned)(ticks >> (bit - BENCH_HIST_PARTS_BITS)) % BENCH_HIST_PARTS;
    hist->above[(bit - BENCH_HIST_EXACT_BITS) * BENCH_HIST_PARTS + part]++;
    hist->count++;
    if (ticks > hist->max) hist->max = ticks;
}

uint64_t bench_hist_step(const bench_hist *hist) {
    uint64_t step = 0;
    for (uint64_t ticks = 1; ticks < BENCH_HIST_EXACT; ticks++) {
        if (hist->exact[ticks] == 0) continue;
        uint64_t a = step, b = ticks;
        while (b != 0) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        step = a;
    }
    return step ? step : 1;
}

/* Of the i-th bucket above BENCH_HIST_EXACT. */
static double above_width(unsigned i) {
    return (double)(UINT64_C(1) << (BENCH_HIST_EXACT_BITS - BENCH_HIST_PARTS_BITS + i / BENCH_HIST_PARTS));
}
static double above_edge(unsigned i) { return (double)(BENCH_HIST_PARTS + i % BENCH_HIST_PARTS) * above_width(i); }

double bench_hist_sum(const bench_hist *hist) {
    double sum = 0;
    for (uint64_t ticks = 0; ticks < BENCH_HIST_EXACT; ticks++) sum += (double)ticks * hist->exact[ticks];
    for (unsigned i = 0; i < BENCH_HIST_ABOVE; i++)
        sum += (double)hist->above[i] * (above_edge(i) + above_width(i) / 2);
    return sum;
}

void bench_hist_merge(bench_hist *to, const bench_hist *from) {
    to->count += from->count;
    if (from->max > to->max) to->max = from->max;
    for (unsigned i = 0; i < BENCH_HIST_ABOVE; i++) to->above[i] += from->above[i];
    for (size_t i = 0; i < BENCH_HIST_EXACT; i++) to->exact[i] += from->exact[i];
}

double bench_hist_percentile(const bench_hist *hist, double fraction, uint64_t step) {
    if (hist->count == 0) return 0;
    double rank = fraction * (double)hist->count;
    uint64_t seen = 0;
    for (uint64_t ticks = 0; ticks < BENCH_HIST_EXACT; ticks++) {
        uint64_t here = hist->exact[ticks];
        if (here == 0) continue;
        if ((double)(seen + here) >= rank) {
            double within = (rank - (double)seen) / (double)here - 0.5;
            double value = (double)ticks + within * (double)step;
            return value > 0 ? value : 0;
        }
        seen += here;
    }
    for (unsigned i = 0; i < BENCH_HIST_ABOVE; i++) {
        uint64_t here = hist->above[i];
        if (here == 0) continue;
        if ((double)(seen + here) >= rank) {
            double value = above_edge(i) + (rank - (double)seen) / (double)here * above_width(i);
            return value < (double)hist->max ? value : (double)hist->max;
        }
        seen += here;
    }
    return (double)hist->max;
}
