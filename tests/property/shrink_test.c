/*
 * The property test finds a fault, makes the program small, and prints it as C that can be pasted as a test. The fault
 * is planted in the system table: a purge that says it gave the memory of objects back, and did not, so that memory is
 * taken for zero that is not.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "proc.h"
#include "program.h"
#include "rng.h"
#include "shrink.h"
#include "unit.h"

#include "os/os.h"
#include "region/region.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPS (SUP_EMULATED ? 500 : 2000)
#define FEW 32u

static bool lying_purge(void *at, size_t bytes) {
    const ts_part *part = &ts_region.part[TS_NORMAL];
    bool data = (char *)at < part->base + part->units * TS_UNIT_BYTES; /* metadata is behind it */
    return data || ts_os_native.purge(at, bytes);
}

static struct prog_op ops[OPS];

static void print(void *count) { shrink_print(ops, *(size_t *)count); }

/* The text between the lines of dashes, in a function, must be C. */
static void compiles(const char *text) {
    char source[] = "shrink_test_XXXXXX.c", command[1024];
    const char *from = strstr(text, "----\n"), *to = from ? strstr(from + 5, "----\n") : NULL;
    assert_non_null(to);
    from += 5;
    int fd = mkstemps(source, 2);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    (void)fprintf(
        file,
        "#include <stdlib.h>\n#include <string.h>\n#include <tslab/stats.h>\nvoid test(void);\nvoid test(void) {\n"
        "%.*s    (void)a, (void)e, (void)old, (void)d, (void)p, (void)h, (void)m;\n}\n",
        (int)(to - from), from);
    (void)fclose(file);
    (void)snprintf(command, sizeof command, "cc -std=c11 -fsyntax-only -I '%s' '%s'", TSLAB_INCLUDE, source);
    int status = system(command); /* NOLINT: the command is this test's own */
    if (status != 0) {
        print_error("%s", text);
    }
    (void)unlink(source);
    assert_int_equal(status, 0);
}

static void a_fault_is_found_and_shrunk(void **state) {
    static ts_os_table table;
    static char text[1 << 20];
    (void)state;
    table = ts_os_native;
    table.purge = lying_purge;
    ts_os = &table;
    /* Whether memory goes back can hang on the time, which a busy machine makes long: then another program is tried. */
    size_t count = 0;
    unsigned tries = 0;
    for (uint64_t seed = 0; seed < 200 && tries < 5 && (count == 0 || count > FEW); seed++) {
        struct sup_rng rng = {sup_mix(seed)};
        for (unsigned i = 0; i < OPS; i++) {
            prog_generate(&rng, &ops[i]);
        }
        if (!shrink_fails(ops, OPS)) continue;
        tries++;
        count = shrink_program(ops, OPS, 600.0); /* for hangs: it is done in seconds */
        if (!shrink_fails(ops, count)) count = 0;
    }
    assert_true(count > 0);
    int status = sup_child(print, &count, SUP_CHILD_SECONDS, text, sizeof text);
    assert_int_equal(status, 0);
    if (count > FEW) {
        fail_msg("%zu operations are left:\n%s", count, text);
    }
    print_message("%d operations shrunk to %zu\n", OPS, count);
    compiles(text);
    /* Without the fault it is a good program. */
    ts_os = &ts_os_native;
    assert_false(shrink_fails(ops, count));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_fault_is_found_and_shrunk)};
    return cmocka_run_group_tests_name("property.shrink", tests, NULL, NULL);
}
