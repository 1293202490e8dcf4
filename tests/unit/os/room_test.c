/* The room that a process has (room.c), by files of /proc and /sys that the test makes up. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "unit.h"

#include "os/os.h"
#include "os/small_file.h"

typedef struct file {
    const char *path, *text;
} file;
static const file *files; /* up to one without a path */

static bool made_up(const char *path, char *text, size_t bytes) {
    const file *f = files;
    while (f->path && strcmp(f->path, path) != 0) f++;
    text[0] = 0;
    if (!f->path) return false;
    strncat(text, f->text, bytes - 1);
    return true;
}
#define ts_small_file_read made_up
#define ts_room_bytes made_up_bytes
#define ts_room_limit made_up_limit
#include "os/room.c"

#define V1 "/sys/fs/cgroup/memory"
#define V2 "/sys/fs/cgroup"
#define UNLIMITED "9223372036854771712\n"
#define MEMINFO \
    { "/proc/meminfo", "MemTotal: 9 kB\nMemFree: 5 kB\nMemAvailable:   4000 kB\n" }

static void expect(const file *f, uint64_t left, uint64_t limit) {
    const char *what = "";
    files = f;
    assert_int_equal(made_up_bytes(&what), left);
    assert_int_equal(made_up_limit(), limit);
    assert_string_equal(what, left == 4000 << 10 || left == UINT64_MAX ? "the machine's memory"
                                                                       : "the memory limit of the cgroup");
}

static void nothing_is_known(void **state) {
    (void)state;
    expect((const file[]){{NULL, NULL}}, UINT64_MAX, UINT64_MAX);
    expect((const file[]){{"/proc/self/cgroup", ""}, {NULL, NULL}}, UINT64_MAX, UINT64_MAX);
    expect((const file[]){{"/proc/self/cgroup", "x\n:\n0:\n1:memory\n::\n:memory:"}, MEMINFO, {NULL, NULL}}, 4000 << 10,
           UINT64_MAX);
}

static void version_2(void **state) {
    (void)state;
#define GROUP {"/proc/self/cgroup", "0::/a/b\n"}, MEMINFO
    expect((const file[]){GROUP, {V2 "/a/b/memory.max", "max\n"}, {NULL, NULL}}, 4000 << 10, UINT64_MAX);
    expect((const file[]){GROUP, {V2 "/a/b/memory.max", "1000\n"}, {V2 "/a/b/memory.current", "300\n"}, {NULL, NULL}},
           700, 1000);
    /* That of a group around it; the page cache that goes first is no use. */
    expect((const file[]){GROUP,
                          {V2 "/a/b/memory.max", "1000\n"},
                          {V2 "/a/b/memory.current", "300\n"},
                          {V2 "/a/memory.max", "900\n"},
                          {V2 "/a/memory.current", "880\n"},
                          {V2 "/a/memory.stat", "anon 5\ninactive_anon 7\ninactive_file 50\nactive_file 9\n"},
                          {NULL, NULL}},
           70, 900);
    /* Where a group is held up counts as well; and it is full. */
    expect((const file[]){GROUP,
                          {V2 "/a/b/memory.max", "max\n"},
                          {V2 "/a/b/memory.high", "500\n"},
                          {V2 "/a/b/memory.current", "501\n"},
                          {NULL, NULL}},
           0, UINT64_MAX);
    /* In a container: the path is the machine's, the root its own group. */
    expect((const file[]){GROUP, {V2 "/memory.max", "1000\n"}, {V2 "/memory.current", "100\n"}, {NULL, NULL}}, 900,
           1000);
    expect(
        (const file[]){
            {"/proc/self/cgroup", "0::/\n"}, {V2 "/memory.max", "9\n"}, {V2 "/memory.current", "4\n"}, {NULL, NULL}},
        5, 9);
}

static void version_1(void **state) {
    (void)state;
    static const char *const lines[] = {"3:memory:/a/b\n", "9:name=systemd:/x\n4:cpu,memory:/a/b\n2:cpu:/y\n0::/\n",
                                        "4:memory,cpu:/a/b"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const file of_lines = {"/proc/self/cgroup", lines[i]};
        expect((const file[]){of_lines, MEMINFO, {V1 "/a/b/memory.limit_in_bytes", UNLIMITED}, {NULL, NULL}},
               4000 << 10, UINT64_MAX);
        expect((const file[]){of_lines,
                              {V1 "/a/b/memory.limit_in_bytes", UNLIMITED},
                              {V1 "/a/b/memory.usage_in_bytes", "7\n"},
                              {V1 "/a/memory.limit_in_bytes", "1000\n"},
                              {V1 "/a/memory.usage_in_bytes", "600\n"},
                              {V1 "/a/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n"},
                              {V1 "/memory.limit_in_bytes", "100000\n"},
                              {V1 "/memory.usage_in_bytes", "50000\n"},
                              {NULL, NULL}},
               500, 1000);
    }
    /* Names that only begin so are others'. */
    expect((const file[]){{"/proc/self/cgroup", "3:memory2:/a\n4:name=memory:/a\n"},
                          {V1 "/a/memory.limit_in_bytes", "1\n"},
                          {V1 "/a/memory.usage_in_bytes", "1\n"},
                          {NULL, NULL}},
           UINT64_MAX, UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known),
        cmocka_unit_test(version_2),
        cmocka_unit_test(version_1),
    };
    return cmocka_run_group_tests_name("os.room", tests, NULL, NULL);
}
