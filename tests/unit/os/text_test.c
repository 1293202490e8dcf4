/* The line for standard error: its contents, its omissions, its form. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "proc.h"
#include "unit.h"

#include "os/os.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *text_of(ts_text *line) {
    line->text[line->used] = 0;
    return line->text;
}

static void numbers(void **state) {
    static const uint64_t all[] = {0, 1, 9, 10, 15, 16, 255, 12345, UINT32_MAX, UINT64_MAX, UINT64_MAX - 1};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ts_text line = {.used = 0};
        char wanted[80];
        ts_text_add(&line, "%" PRIu64 "%s%#" PRIx64 ".", all[i], " a ", all[i]);
        (void)snprintf(wanted, sizeof wanted, "%" PRIu64 " a 0x%" PRIx64 ".", all[i], all[i]);
        assert_string_equal(text_of(&line), wanted);
    }
}

static void quoted(void **state) {
    (void)state;
    ts_text line = {.used = 0};
    ts_text_quoted(&line, "a\"b\\c\nd\x7f\xc3\xa4", 32);
    ts_text_quoted(&line, "0123456789", 4);
    ts_text_quoted(&line, "", 4);
    assert_string_equal(text_of(&line), "\"a\\\"b\\\\c?d?\xc3\xa4\"\"0123\"\"\"");
    ts_text bytes = {.used = 0}; /* bytes outside of UTF-8, and a character that is cut off */
    ts_text_quoted(&bytes, "\xff\xe2\x82\xac\xc3", 32);
    ts_text_quoted(&bytes, "ab\xe2\x82\xac", 4);
    assert_string_equal(text_of(&bytes), "\"?\xe2\x82\xac?\"\"ab\"");
}

static void write_long(void *argument) {
    ts_text line = {.used = 0};
    (void)argument;
    for (unsigned i = 0; i < 1000; i++) {
        ts_text_put(&line, "ab");
    }
    ts_text_quoted(&line, "cd", 2);
    ts_text_add(&line, "%#" PRIx64, UINT64_MAX);
    errno = 77;
    ts_text_write(&line);
    if (errno != 77) {
        _exit(1);
    }
}

/* The line always ends, and nothing is written behind the buffer. */
static void too_long(void **state) {
    char err[2 * TS_TEXT_BYTES] = "";
    (void)state;
    assert_int_equal(sup_child(write_long, NULL, SUP_CHILD_SECONDS, err, sizeof err), 0);
    assert_int_equal(strlen(err), TS_TEXT_BYTES);
    assert_int_equal(err[TS_TEXT_BYTES - 1], '\n');
    assert_int_equal(sup_count_lines(err), 1);
    for (size_t i = 0; i + 1 < TS_TEXT_BYTES; i++) {
        assert_int_equal(err[i], i % 2 ? 'b' : 'a');
    }
}

static void write_nowhere(void *argument) {
    ts_text line = {.used = 0};
    (void)argument;
    (void)close(STDERR_FILENO);
    ts_text_put(&line, "nobody reads this");
    ts_text_write(&line);
}

static void no_standard_error(void **state) {
    (void)state;
    assert_int_equal(sup_child(write_nowhere, NULL, SUP_CHILD_SECONDS, NULL, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(quoted),
        cmocka_unit_test(too_long),
        cmocka_unit_test(no_standard_error),
    };
    return cmocka_run_group_tests_name("os.text", tests, NULL, NULL);
}
