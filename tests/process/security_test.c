/*
 * The promises of docs/security.md on the process's memory: no page of the region is executable, it lies where the
 * kernel's randomness puts it, metadata is apart from data, and the table of the system's functions is read-only.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "proc.h"
#include "unit.h"

#include "api/runtime.h"
#include "check.h"
#include "os/os.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Calls visit for each mapping; its permissions as in /proc/self/maps. */
static void for_mappings(void (*visit)(uintptr_t from, uintptr_t to, const char *permissions, void *argument),
                         void *argument) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], permissions[8];
    SUP_CHECK(maps != NULL, "/proc/self/maps");
    while (fgets(line, sizeof line, maps)) {
        uintmax_t from, to;
        if (sscanf(line, "%jx-%jx %7s", &from, &to, permissions) == 3) {
            visit((uintptr_t)from, (uintptr_t)to, permissions, argument);
        }
    }
    (void)fclose(maps);
}

struct seen {
    unsigned mappings, executable, data_writable;
};

/* The last byte of a reservation: the addresses around its aligned part are not the region's. */
static uintptr_t end_of_region(void) {
    static const size_t stride[] = {TS_EPOCH_STRIDE, TS_DOMAIN_STRIDE, TS_ALLOCATOR_STRIDE};
    uintptr_t end = (uintptr_t)(ts_region.lines + (size_t)ts_region.line_limit * TS_CACHE_LINE);
    for (unsigned i = 0; i < sizeof stride / sizeof *stride; i++) {
        uintptr_t at = (uintptr_t)(ts_region.table[i] + ts_region.table_capacity[i] * stride[i]);
        end = at > end ? at : end;
    }
    return end;
}

static void in_region(uintptr_t from, uintptr_t to, const char *permissions, void *argument) {
    struct seen *seen = argument;
    uintptr_t base = (uintptr_t)ts_region.part[TS_NORMAL].base;
    if (to <= base || from >= end_of_region()) {
        return;
    }
    seen->mappings++;
    seen->executable += permissions[2] == 'x';
    seen->data_writable += permissions[1] == 'w';
}

static void nothing_is_executable(void **state) {
    (void)state;
    SlabAllocator *allocator = slab_allocator_create();
    assert_non_null(slab_malloc(allocator, 100));
    assert_non_null(slab_malloc(allocator, 16));
    assert_non_null(slab_malloc(allocator, 1000000));
    struct seen seen = {0};
    for_mappings(in_region, &seen);
    assert_true(seen.mappings > 3 && seen.data_writable > 1);
    assert_int_equal(seen.executable, 0);
    slab_allocator_free(allocator);
}

/* No metadata below the end of the data; between the used data and the metadata lie addresses that fault. */
static void metadata_is_apart(void **state) {
    (void)state;
    SlabAllocator *allocator = slab_allocator_create();
    char *object = slab_malloc(allocator, 100);
    char *data_end = ts_region.part[TS_NORMAL].base + (size_t)ts_region.part[TS_NORMAL].units * TS_UNIT_BYTES;
    assert_true(object >= ts_region.part[TS_NORMAL].base && object < data_end);
    assert_true(ts_region.part[TS_NORMAL].scope_bits >= data_end);
    assert_true((char *)(uintptr_t)ts_region.part[TS_NORMAL].live >= data_end);
    assert_true((char *)(uintptr_t)ts_region.generation >= data_end);
    assert_true((char *)(uintptr_t)ts_region.part[TS_NORMAL].unit >= data_end &&
                ts_region.part[TS_NORMAL].slab >= data_end);
    assert_true(ts_region.lines >= data_end && ts_region.table[0] >= data_end && ts_region.fine >= data_end);
    slab_allocator_free(allocator);
}

struct place {
    uintptr_t at;
    bool found, writable;
};

static void find_place(uintptr_t from, uintptr_t to, const char *permissions, void *argument) {
    struct place *place = argument;
    if (from <= place->at && place->at < to) {
        place->found = true;
        place->writable = permissions[1] == 'w';
    }
}

static void the_systems_table_is_read_only(void **state) {
    (void)state;
    struct place place = {(uintptr_t)&ts_os_native, false, true};
    for_mappings(find_place, &place);
    assert_true(place.found && !place.writable);
}

static void placed_at_random(void **state) {
    (void)state;
    char *const argv[] = {(char *)(uintptr_t) "security_test", (char *)(uintptr_t) "where", NULL};
    char first[64], next[64];
    FILE *setting = fopen("/proc/sys/kernel/randomize_va_space", "r");
    int random = 0;
    if (setting == NULL || fscanf(setting, "%d", &random) != 1) {
        random = 0;
    }
    if (setting != NULL) {
        (void)fclose(setting);
    }
    /* With 32 bits the system moves a mapping by a megabyte at most, and the region begins at a multiple of four. */
    if (random != 2 || SUP_SANITIZED || SUP_EMULATED || sizeof(void *) < 8) {
        print_message("the system does not place mappings at random here\n");
        skip();
    }
    assert_int_equal(sup_reexec(argv, NULL, NULL, first, sizeof first), 0);
    bool differs = false;
    for (int i = 0; i < 5 && !differs; i++) {
        assert_int_equal(sup_reexec(argv, NULL, NULL, next, sizeof next), 0);
        differs = strcmp(first, next) != 0;
    }
    assert_true(strlen(first) > 5 && differs);
}

/* ---- a program with more rights than the user who starts it ------------------------------------------------------ */

#define HAS_PAGE 1
#define HAS_BUDGET 2
#define NOT_SECURE 4

static bool have_page(void) {
    for (int fd = 3; fd < 64; fd++) {
        if (fcntl(fd, F_GET_SEALS) > 0) {
            return true;
        }
    }
    return false;
}

/* Runs a copy of this program, its user's or of another user's rights, with TSLAB_SHM=1 and a budget. */
static int run_copy(const char *name, bool set_user) {
    char *const argv[] = {(char *)(uintptr_t)name, (char *)(uintptr_t) "page", NULL};
    char *const environment[] = {(char *)(uintptr_t) "TSLAB_SHM=1", (char *)(uintptr_t) "TSLAB_BUDGET=1M", NULL};
    int status = -1;
    assert_int_equal(chown(name, set_user ? 65534 : 0, (gid_t)-1), 0);
    assert_int_equal(chmod(name, set_user ? 04755 : 0755), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)execve(name, argv, environment);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void environment_of_another_user(void **state) {
    (void)state;
    char name[] = "./security_test_copy_XXXXXX";
    static char bytes[1 << 16];
    if (geteuid() != 0 || SUP_EMULATED || SUP_SANITIZED) {
        print_message("only root can make a program of another user's here\n");
        skip();
    }
    int to = mkstemp(name), from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(to >= 0 && from >= 0);
    for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0;) {
        assert_int_equal(write(to, bytes, (size_t)n), n);
    }
    assert_true(close(to) == 0 && close(from) == 0);
    int own = run_copy(name, false), others = run_copy(name, true);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(own, HAS_PAGE | HAS_BUDGET);
    if (others == NOT_SECURE || others == 127) {
        print_message("programs take no rights of their file's owner here\n");
        skip();
    }
    assert_int_equal(others, 0);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "page") == 0) {
        SUP_CHECK(slab_alloc(10) != NULL, "slab_alloc");
        if (geteuid() != getuid() && getauxval(AT_SECURE) == 0) {
            return NOT_SECURE;
        }
        return (have_page() ? HAS_PAGE : 0) | (slab_alloc(4 << 20) == NULL ? HAS_BUDGET : 0);
    }
    if (argc == 2 && strcmp(argv[1], "where") == 0) {
        SUP_CHECK(slab_alloc(10) != NULL, "slab_alloc");
        (void)fprintf(stderr, "%p\n", (void *)ts_region.part[TS_NORMAL].base);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_executable),          cmocka_unit_test(metadata_is_apart),
        cmocka_unit_test(the_systems_table_is_read_only), cmocka_unit_test(placed_at_random),
        cmocka_unit_test(environment_of_another_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
