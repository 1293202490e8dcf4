/* Small files of the system as they are read (os/small_file.h): whole, cut off, missing, with and without a number. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/small_file.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

static char path[64];

static int set_up(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/small_file_test.%ld", (long)getpid());
    return 0;
}
static int tear_down(void **state) {
    (void)state;
    return unlink(path);
}

static void write_file(const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void reads(void **state) {
    (void)state;
    char text[8];
    write_file("first\nsecond\n");
    errno = 7;
    assert_true(ts_small_file_read(path, text, sizeof text));
    assert_string_equal(text, "first\ns"); /* as much as there is room for */
    assert_true(ts_small_file_line(path, text, sizeof text));
    assert_string_equal(text, "first");
    assert_false(ts_small_file_read("/nonexistent/file", text, sizeof text));
    assert_string_equal(text, "");
    assert_int_equal(errno, 7);
}

static void numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t number;
    } cases[] = {{"123\n", 123}, {"  \t42 kB", 42}, {"max\n", 0},
                 {"", 0},        {"-5", 0},         {"18446744073709551615", UINT64_MAX}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(cases[i].text);
        assert_int_equal(ts_small_file_number(path), cases[i].number);
    }
    uint64_t n = 9;
    assert_false(ts_number_at(" x1", &n));
    assert_int_equal(n, 9);
    assert_int_equal(ts_small_file_number("/nonexistent/file"), 0);
}

/* A program's name may have parentheses, blanks and numbers. */
static void words_of_a_process(void **state) {
    (void)state;
    write_file("77 (a) 5 (b c) S 1 22 333 4444\n");
    assert_int_equal(ts_process_word(path, 4), 1);
    assert_int_equal(ts_process_word(path, 7), 4444);
    assert_int_equal(ts_process_word(path, 3), 0); /* a letter */
    assert_int_equal(ts_process_word(path, 8), 0); /* there is none */
    write_file("no process");
    assert_int_equal(ts_process_word(path, 4), 0);
#if defined(__linux__)
    assert_int_equal(ts_process_word("/proc/self/stat", 4), (uint64_t)getppid());
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(words_of_a_process, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("os.small_file", tests, NULL, NULL);
}
