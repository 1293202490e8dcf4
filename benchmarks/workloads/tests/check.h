/* CHECK(condition, format, ...): counts, and says where and why a condition does not hold. */
#ifndef WORKLOADS_TESTS_CHECK_H
#define WORKLOADS_TESTS_CHECK_H

#include <stdio.h>

static unsigned checks_done;
static unsigned checks_failed;

#define CHECK(condition, ...)                                               \
    do {                                                                    \
        checks_done++;                                                      \
        if (!(condition)) {                                                 \
            checks_failed++;                                                \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                   \
            fputc('\n', stderr);                                            \
        }                                                                   \
    } while (0)

/* For main: the exit code. A program that checked nothing has failed. */
static inline int check_result(void) {
    printf("%u checks, %u failed\n", checks_done, checks_failed);
    return checks_done != 0 && checks_failed == 0 ? 0 : 1;
}

#endif
