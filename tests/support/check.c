#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t current_seed;

void sup_set_seed(uint64_t seed) { current_seed = seed; }

void sup_fail(const char *file, int line, const char *condition, const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "FAIL %s:%d: %s: %s (seed %" PRIu64 ", pid %ld)\n", file, line, condition, message,
                  current_seed, (long)getpid());
    (void)fflush(NULL);
    _exit(1);
}

double sup_now_s(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

SUP_NORETURN static void bad_argument(const char *what, const char *value) {
    (void)fprintf(stderr, "%s: %s\n", what, value);
    exit(2);
}

static uint64_t parse_number(const char *text) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0' || !isdigit((unsigned char)text[0])) {
        bad_argument("not a number", text);
    }
    return value;
}

static double parse_seconds(const char *text) {
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0.0 && value <= 1e6)) {
        bad_argument("not a number of seconds", text);
    }
    return value;
}

bool sup_long(void) {
    const char *value = getenv("TEST_LONG"); /* NOLINT(concurrency-mt-unsafe) */
    return value != NULL && value[0] != '\0';
}

void sup_args_parse(int argc, char **argv, struct sup_args *args) {
    if (!sup_long()) {
        args->seconds /= SUP_SANITIZED ? 2 : 4;
        args->programs = (args->programs + 3) / 4;
    }
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (name[0] != '-') {
            args->seconds = parse_seconds(name);
            continue;
        }
        bool known = strcmp(name, "--seconds") == 0 || strcmp(name, "--seed") == 0 || strcmp(name, "--programs") == 0 ||
                     strcmp(name, "--ops") == 0 || strcmp(name, "--threads") == 0;
        if (!known) {
            bad_argument("unknown option", name);
        }
        if (i + 1 == argc) {
            bad_argument("option without a value", name);
        }
        const char *value = argv[++i];
        if (strcmp(name, "--seconds") == 0) {
            args->seconds = parse_seconds(value);
        } else if (strcmp(name, "--seed") == 0) {
            args->seed = parse_number(value);
        } else if (strcmp(name, "--programs") == 0) {
            args->programs = parse_number(value);
        } else if (strcmp(name, "--ops") == 0) {
            args->ops = parse_number(value);
        } else {
            args->threads = parse_number(value);
        }
    }
    sup_set_seed(args->seed);
}
