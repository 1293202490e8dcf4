/* See harness.h. */
#include "harness.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *wl_allocator_name(WlAllocator allocator) { return allocator == WL_TSLAB ? "tslab" : "malloc"; }

bool wl_allocator_parse(const char *text, WlAllocator *out) {
    if (strcmp(text, "malloc") == 0) {
        *out = WL_MALLOC;
        return true;
    }
    if (strcmp(text, "tslab") == 0) {
        *out = WL_TSLAB;
        return true;
    }
    return false;
}

_Noreturn void wl_die(int code, const char *tool, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", tool);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(code);
}

_Noreturn void wl_bad_option(const char *tool, int answer, char *const *argv) {
    if (answer == ':') wl_die(BENCH_EXIT_USAGE, tool, "%s: needs a value", argv[optind - 1]);
    if (optopt >= 256) wl_die(BENCH_EXIT_USAGE, tool, "%s: takes no value", argv[optind - 1]);
    if (optopt != 0) wl_die(BENCH_EXIT_USAGE, tool, "-%c: unknown option (--help lists them)", optopt);
    wl_die(BENCH_EXIT_USAGE, tool, "%s: unknown option (--help lists them)", argv[optind - 1]);
}

void wl_check_value(const char *tool, char *const *argv) {
    if (optarg != NULL && optarg == argv[optind - 1] && strncmp(optarg, "--", 2) == 0)
        wl_die(BENCH_EXIT_USAGE, tool, "%s: needs a value, not '%s'", argv[optind - 2], optarg);
}

void wl_sleep_until_ns(uint64_t deadline_ns) {
    struct timespec deadline = {
        .tv_sec = (time_t)(deadline_ns / WL_NS_PER_S),
        .tv_nsec = (long)(deadline_ns % WL_NS_PER_S),
    };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == EINTR) {
    }
}

bool wl_parse_u64(const char *text, uint64_t low, uint64_t high, uint64_t *out) {
    if (*text < '0' || *text > '9') return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < low || value > high) return false;
    *out = value;
    return true;
}

bool wl_parse_double(const char *text, double low, bool open_low, double high, double *out) {
    if (*text == '\0' || strspn(text, "0123456789.") != strlen(text)) return false;
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value)) return false;
    if (value < low || (open_low && value <= low) || value > high) return false;
    *out = value;
    return true;
}
