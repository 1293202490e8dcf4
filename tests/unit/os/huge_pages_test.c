/*
 * Huge pages: none for a small program; some for one that grows (unit/region/huge has when), or that asks; and a purged
 * part of one goes back at once. The test reads the kernel's own counts.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "proc.h"
#include "unit.h"

#include "os/os.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define HUGE_BYTES (2 * MIB)
#define HUGE_PAGES 8u

#define SETTING "/sys/kernel/mm/transparent_hugepage/enabled"

/* ---- the kernel's counts --------------------------------------------------------------------------------- */

/* "", "always", "madvise" or "never". */
static const char *setting(void) {
    static char line[128];
    FILE *file = fopen(SETTING, "r");
    const char *chosen = file && fgets(line, sizeof line, file) ? strchr(line, '[') : NULL;
    if (file) {
        (void)fclose(file);
    }
    return chosen ? strtok(line + (chosen + 1 - line), "]") : "";
}

typedef struct mapping {
    bool asked, refused; /* hg, nh */
    size_t huge_bytes;
} mapping;

/* All mappings that have a page in [at, at + bytes). */
static mapping look_at(const void *at, size_t bytes) {
    mapping m = {0};
    char line[512];
    uintptr_t from, to, begin = (uintptr_t)at;
    size_t kib;
    bool inside = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    SUP_CHECK(file != NULL, "/proc/self/smaps");
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
            inside = from < begin + bytes && to > begin;
        } else if (inside && sscanf(line, "AnonHugePages: %zu kB", &kib) == 1) {
            m.huge_bytes += kib << 10;
        } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            m.asked = m.asked || strstr(line, " hg");
            m.refused = m.refused || strstr(line, " nh");
        }
    }
    (void)fclose(file);
    return m;
}

static uint64_t count_of(const char *name) {
    char line[128], found[64];
    uint64_t count = 0, n;
    FILE *file = fopen("/proc/vmstat", "r");
    SUP_CHECK(file != NULL, "/proc/vmstat");
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63s %" SCNu64, found, &n) == 2 && strcmp(found, name) == 0) {
            count = n;
        }
    }
    (void)fclose(file);
    return count;
}

static size_t resident_bytes(void) { return (size_t)ts_os_native.resident_bytes(); }

/* ---- tests ------------------------------------------------------------------------------------------------- */

static void *filled(SlabAllocator *allocator, size_t bytes) {
    EpochId epoch = epoch_open(allocator, "filled", EPOCH_SCOPE);
    char *first = NULL;
    for (size_t done = 0; done < bytes; done += 4096) {
        char *p = slab_malloc_epoch(allocator, 4096, epoch);
        SUP_CHECK(p != NULL, "no memory");
        *p = 1;
        first = first ? first : p;
    }
    return first;
}

static void default_refuses_small(void *argument) {
    (void)argument;
    SlabAllocator *allocator = slab_allocator_create();
    const void *p = filled(allocator, 4 * HUGE_BYTES);
    mapping m = look_at(p, 4096), all = look_at(p, 4 * HUGE_BYTES);
    SUP_CHECK(m.refused && !m.asked && all.huge_bytes == 0, "nobody asked, and there are %zu bytes in huge pages",
              all.huge_bytes);
}

#define GROWN_BYTES (32 * HUGE_BYTES)

static bool gives_some(uint64_t failed_before) {
    return strcmp(setting(), "never") != 0 && count_of("thp_fault_fallback") == failed_before;
}

static ts_os_table table;
static uint64_t standing_ns(void) { return 1; }

/* On a machine on which no huge page takes long (huge.h, 4). */
static SlabAllocator *created(void) {
    table = ts_os_native;
    table.cpu_ns = standing_ns;
    ts_os = &table;
    return slab_allocator_create();
}

/* Slabs of 1,500 bytes leave a page of each alone. */
static void short_slabs_get_none(void *argument) {
    (void)argument;
    SlabAllocator *allocator = created();
    char *first = NULL;
    for (size_t done = 0; done < GROWN_BYTES; done += 1500) {
        char *p = slab_malloc(allocator, 1500);
        SUP_CHECK(p != NULL, "no memory");
        *p = 1;
        first = first ? first : p;
    }
    SUP_CHECK(!look_at(first, GROWN_BYTES).asked, "huge pages for slabs that leave a page alone");
}

/* A program that grows has some; a child of fork, too, and it gives all back, as the parent does. Once memory went back
   nothing is asked for any more. */
static void default_grows(void *argument) {
    (void)argument;
    uint64_t failed = count_of("thp_fault_fallback");
    SlabAllocator *allocator = created();
    const void *p = filled(allocator, GROWN_BYTES);
    mapping m = look_at(p, GROWN_BYTES);
    SUP_CHECK(m.asked && (!gives_some(failed) || m.huge_bytes > 0), "it grows, and %zu bytes are in huge pages",
              m.huge_bytes);
    SUP_CHECK(look_at(p, 4096).refused, "what it had before it grew is asked for, too");
    pid_t child = fork();
    if (child == 0) p = filled(allocator, GROWN_BYTES);
    m = look_at(p, GROWN_BYTES);
    SUP_CHECK(m.asked && (!gives_some(failed) || m.huge_bytes > 0), "with a child of fork");
    slab_allocator_free(allocator);
    m = look_at(p, 2 * GROWN_BYTES);
    SUP_CHECK(!m.asked && m.refused && m.huge_bytes == 0, "%zu bytes are not given back", m.huge_bytes);
    if (child == 0) _exit(0);
    int status;
    SUP_CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child failed");
}

static void default_where_forbidden(void *argument) {
    (void)argument;
    SUP_CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0, "prctl");
    SlabAllocator *allocator = created();
    size_t before = resident_bytes();
    const void *p = filled(allocator, GROWN_BYTES);
    mapping m = look_at(p, GROWN_BYTES);
    SUP_CHECK(m.huge_bytes == 0, "%zu bytes in huge pages", m.huge_bytes);
    /* A sanitizer's shadow is an eighth of it. */
    SUP_CHECK(resident_bytes() - before < GROWN_BYTES + GROWN_BYTES / (SUP_SANITIZED ? 3 : 8),
              "more is resident than was touched");
    slab_allocator_free(allocator);
}

static void on_asks(void *argument) {
    (void)argument;
    const SlabOptions options = {.size = sizeof options, .huge_pages = SLAB_HUGE_ON};
    uint64_t failed = count_of("thp_fault_fallback");
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    const void *p = filled(allocator, 16 * HUGE_BYTES);
    mapping m = look_at(p, 4096), all = look_at(p, 16 * HUGE_BYTES);
    SUP_CHECK(m.asked && !m.refused, "not asked for");
    SUP_CHECK(strcmp(setting(), "never") == 0 || all.huge_bytes > 0 || count_of("thp_fault_fallback") != failed,
              "the system was asked, had some, and gave none");
}

/* The first wish is for none, and later ones come too late. */
static void off_decides(void *argument) {
    (void)argument;
    const SlabOptions off = {.size = sizeof off, .huge_pages = SLAB_HUGE_OFF};
    const SlabOptions on = {.size = sizeof on, .huge_pages = SLAB_HUGE_ON};
    SlabAllocator *first = slab_allocator_create_ex(&off), *second = slab_allocator_create_ex(&on);
    const void *p = filled(second, GROWN_BYTES);
    SUP_CHECK(first && second && look_at(p, GROWN_BYTES).refused && !look_at(p, GROWN_BYTES).asked,
              "asked for after all");
}

static void in_a_child(void (*fn)(void *)) {
    if (SUP_EMULATED || setting()[0] == 0) {
        print_message("no huge pages here\n");
        skip();
    }
    char err[512];
    int status = sup_child(fn, NULL, SUP_CHILD_SECONDS, err, sizeof err);
    if (status != 0) {
        print_error("%s\n", err);
    }
    assert_int_equal(status, 0);
}

static void none_for_a_small_program(void **state) {
    (void)state;
    in_a_child(default_refuses_small);
}

static void none_for_short_slabs(void **state) {
    (void)state;
    in_a_child(short_slabs_get_none);
}

static void some_for_who_grows(void **state) {
    (void)state;
    in_a_child(default_grows);
}

static void none_where_forbidden(void **state) {
    (void)state;
    in_a_child(default_where_forbidden);
}

static void some_for_who_asks(void **state) {
    (void)state;
    in_a_child(on_asks);
}

static void who_decides_first(void **state) {
    (void)state;
    in_a_child(off_decides);
}

/* Of each huge page a small one is purged, then half, and then all. */
static void purge_parts(void *argument) {
    (void)argument;
    size_t page = ts_os_page_bytes(), bytes = HUGE_PAGES * HUGE_BYTES;
    char *reserved = ts_os_native.reserve(bytes + HUGE_BYTES);
    SUP_CHECK(reserved != NULL, "reserve");
    char *at = reserved + (HUGE_BYTES - (uintptr_t)reserved % HUGE_BYTES) % HUGE_BYTES;
    SUP_CHECK(ts_os_native.commit(at, bytes), "commit");
    ts_os_native.huge_pages(at, bytes, true);
    memset(at, 7, bytes);
    size_t huge = look_at(at, bytes).huge_bytes / HUGE_BYTES;
    uint64_t split = count_of("thp_split_page");
    errno = 0;
    for (size_t i = 0; i < HUGE_PAGES; i++) {
        SUP_CHECK(ts_os_native.purge(at + i * HUGE_BYTES + page * (1 + i % 2 * 3), page), "purge");
    }
    SUP_CHECK(errno == 0, "a hint that sets errno");
    SUP_CHECK(count_of("thp_split_page") - split >= huge, "%zu huge pages, %" PRIu64 " split", huge,
              count_of("thp_split_page") - split);
    for (size_t i = 0; i < HUGE_PAGES; i++) {
        const char *purged = at + i * HUGE_BYTES + page * (1 + i % 2 * 3);
        for (const char *p = at + i * HUGE_BYTES; p < at + (i + 1) * HUGE_BYTES; p += page) {
            SUP_CHECK(*p == (p == purged ? 0 : 7), "page %zu of %zu", (size_t)(p - at) / page, i);
        }
    }
    SUP_CHECK(ts_os_native.purge(at, bytes), "purge");
    SUP_CHECK(look_at(at, bytes).huge_bytes == 0, "not all given back");
    /* A range that begins in the middle of one huge page and ends in the middle of another. */
    memset(at, 7, bytes);
    huge = look_at(at, bytes).huge_bytes / HUGE_BYTES;
    split = count_of("thp_split_page");
    SUP_CHECK(ts_os_native.purge(at + HUGE_BYTES / 2, bytes - HUGE_BYTES), "purge");
    SUP_CHECK(huge < HUGE_PAGES || count_of("thp_split_page") - split >= 2, "both ends are split");
    SUP_CHECK(at[HUGE_BYTES / 2 - 1] == 7 && at[HUGE_BYTES / 2] == 0, "where it begins");
    SUP_CHECK(at[bytes - HUGE_BYTES / 2 - 1] == 0 && at[bytes - HUGE_BYTES / 2] == 7, "where it ends");
    ts_os_native.release(reserved, bytes + HUGE_BYTES);
}

static void parts_go_back(void **state) {
    (void)state;
    in_a_child(purge_parts);
}

/* Pages move, and each range keeps what was asked of it: of the first range, or of none. */
static void move_between(void *argument) {
    (void)argument;
    char *reserved = ts_os_native.reserve(9 * HUGE_BYTES);
    SUP_CHECK(reserved != NULL, "reserve");
    char *from = reserved + (HUGE_BYTES - (uintptr_t)reserved % HUGE_BYTES) % HUGE_BYTES, *to = from + 4 * HUGE_BYTES;
    SUP_CHECK(ts_os_native.commit(from, 8 * HUGE_BYTES), "commit");
    ts_os_native.huge_pages(from, 2 * HUGE_BYTES, true);
    memset(from, 7, 2 * HUGE_BYTES);
    if (!ts_os_native.move(from, to, 2 * HUGE_BYTES)) return; /* a system that moves nothing */
    mapping m = look_at(to, 2 * HUGE_BYTES);
    SUP_CHECK(m.refused && !m.asked, "nobody asked for where they are now");
    m = look_at(from, 2 * HUGE_BYTES);
    SUP_CHECK(m.asked && !m.refused, "where they were is not asked for any more");
    SUP_CHECK(ts_os_native.move(to, from, 2 * HUGE_BYTES), "move");
    m = look_at(from, 2 * HUGE_BYTES);
    SUP_CHECK(m.asked && !m.refused, "where they come back to is not asked for");
    ts_os_native.huge_pages(from, 2 * HUGE_BYTES, false);
    SUP_CHECK(!look_at(from, 8 * HUGE_BYTES).asked, "something is left that is asked for");
    for (const char *p = from; p < from + 2 * HUGE_BYTES; p++) SUP_CHECK(*p == 7, "byte %zu", (size_t)(p - from));
    ts_os_native.release(reserved, 9 * HUGE_BYTES);
}

static void moved_pages_take_nothing_along(void **state) {
    (void)state;
    in_a_child(move_between);
}

static char *anew;
static unsigned meanwhile; /* calls of the system after which the request is taken back; 0: it is not */

/* Stands before the C library's, for the calls of os_linux.c. */
long syscall(long number, ...) {
    static long (*native)(long, ...);
    va_list args;
    long a[6];
    if (!native) *(void **)&native = dlsym(RTLD_NEXT, "syscall");
    va_start(args, number);
    for (unsigned i = 0; i < 6; i++) a[i] = va_arg(args, long);
    va_end(args);
    if (meanwhile != 0 && --meanwhile == 0) ts_os_native.huge_pages(anew, HUGE_BYTES, false);
    return native(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* A range is mapped anew, and another thread takes the request back before one of the calls of the system by which
   that is done: it is not asked for afterwards. */
static void take_back_meanwhile(void *argument) {
    (void)argument;
    char *reserved = ts_os_native.reserve(2 * HUGE_BYTES);
    SUP_CHECK(reserved != NULL, "reserve");
    anew = reserved + (HUGE_BYTES - (uintptr_t)reserved % HUGE_BYTES) % HUGE_BYTES;
    SUP_CHECK(ts_os_native.commit(anew, HUGE_BYTES), "commit");
    for (unsigned call = 1; meanwhile == 0; call++) {
        ts_os_native.huge_pages(anew, HUGE_BYTES, true);
        meanwhile = call;
        SUP_CHECK(ts_os_native.purge_anew(anew, ts_os_page_bytes()), "purge_anew");
        SUP_CHECK(look_at(anew, HUGE_BYTES).asked == (meanwhile != 0), "taken back before call %u", call);
        SUP_CHECK(meanwhile == 0 || call > 2, "%u calls", call - 1);
    }
    meanwhile = 0;
    ts_os_native.release(reserved, 2 * HUGE_BYTES);
}

static void a_request_taken_back_meanwhile(void **state) {
    (void)state;
    if (SUP_SANITIZED) skip(); /* the calls are not made by syscall there */
    in_a_child(take_back_meanwhile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_for_a_small_program),
        cmocka_unit_test(none_for_short_slabs),
        cmocka_unit_test(some_for_who_grows),
        cmocka_unit_test(none_where_forbidden),
        cmocka_unit_test(some_for_who_asks),
        cmocka_unit_test(who_decides_first),
        cmocka_unit_test(parts_go_back),
        cmocka_unit_test(moved_pages_take_nothing_along),
        cmocka_unit_test(a_request_taken_back_meanwhile),
    };
    return cmocka_run_group_tests_name("os.huge_pages", tests, NULL, NULL);
}
