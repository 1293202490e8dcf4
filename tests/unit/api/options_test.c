/*
 * Options by struct and by environment. Variables are read by a process once, so each case is this executable
 * run again as `options_test --probe WHAT`, which prints nothing if all is as expected and else exits with 1.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "proc.h"
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static void refused(const SlabOptions *options) {
    errno = 0;
    assert_null(slab_allocator_create_ex(options));
    assert_int_equal(errno, EINVAL);
}

static void without_a_size(void **state) {
    (void)state;
    SlabOptions options = {.size = 0};
    refused(&options);
    options.size = sizeof(size_t) - 1;
    refused(&options);
    options.size = sizeof options;
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    slab_allocator_free(allocator);
    allocator = slab_allocator_create_ex(NULL);
    assert_non_null(allocator);
    slab_allocator_free(allocator);
}

/* A caller of an older version has a shorter struct: the bytes beyond it are not read. */
static void shorter_struct(void **state) {
    (void)state;
    SlabOptions options;
    memset(&options, 0xee, sizeof options);
    options.size = offsetof(SlabOptions, reclaim_policy);
    options.retain_bytes = MIB;
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    assert_non_null(allocator);
    SlabGlobalStats stats;
    assert_true(slab_stats_global(allocator, &stats));
    assert_int_equal(stats.budget_bytes, 0);
    slab_allocator_free(allocator);
}

static void members_do_what_they_say(void **state) {
    (void)state;
    SlabOptions options = {
        .size = sizeof options, .budget_bytes = 2 * MIB, .sample_rate = 1, .poison_on_free = 1, .record_rss = 1};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    SlabGlobalStats global;
    assert_true(slab_stats_global(allocator, &global));
    assert_int_equal(global.budget_bytes, 2 * MIB);
    errno = 0;
    assert_null(slab_malloc(allocator, 4 * MIB));
    assert_int_equal(errno, ENOMEM);
    SlabThreadStats before = slab_stats_thread();
    EpochId epoch = epoch_open(allocator, NULL, 0);
    unsigned char *objects[50];
    for (int i = 0; i < 50; i++) {
        objects[i] = slab_malloc_epoch(allocator, 64, epoch);
        memset(objects[i], 0, 64);
    }
    for (int i = 0; i < 49; i++) {
        assert_true(slab_free(allocator, objects[i]));
    }
    SlabThreadStats after = slab_stats_thread();
    assert_int_equal(after.sample_rate, 1);
    assert_int_equal(after.alloc_samples - before.alloc_samples, 50);
    assert_int_equal(after.free_samples - before.free_samples, 49);
    assert_true(after.alloc_wall_ns_max <= after.alloc_wall_ns_sum);
    assert_true(after.alloc_wait_ns_sum <= after.alloc_wall_ns_sum);
    /* The pages stay mapped: the freed object is filled, the neighbour is not touched. */
    assert_int_equal(objects[49][0], 0);
#if !SUP_SANITIZED
    assert_int_equal(objects[0][40], 0xdb);
    assert_int_equal(objects[48][63], 0xdb);
#endif
    assert_true(epoch_close(allocator, epoch));
    SlabEpochStats stats;
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    assert_true(stats.rss_before_close > 0 && stats.rss_after_close > 0);
    slab_allocator_free(allocator);
    SlabOptions quiet = {.size = sizeof quiet};
    allocator = slab_allocator_create_ex(&quiet);
    epoch = epoch_open(allocator, NULL, 0);
    void *object = slab_malloc_epoch(allocator, 64, epoch);
    assert_non_null(object);
    assert_true(epoch_close(allocator, epoch));
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    assert_int_equal(stats.rss_before_close, 0);
    slab_allocator_free(allocator);
}

/* ---- environment ---- */

static size_t to_page(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Misuse where no allocator is known: before there is one, and where the only one has a mode of its own. */
static void without_an_allocator(void) {
    int local;
    SUP_CHECK(slab_allocators(NULL, 0) == 0, "no allocator yet");
    SUP_CHECK(!slab_free(NULL, &local), "a free");
    SUP_CHECK(!epoch_domain_exit((EpochDomain *)(uintptr_t)4711), "a domain");
    SlabOptions quiet = {.size = sizeof quiet, .on_misuse = SLAB_MISUSE_REPORT};
    SUP_CHECK(slab_allocator_create_ex(&quiet) != NULL, "an allocator");
    SUP_CHECK(!slab_free((SlabAllocator *)(uintptr_t)4711, &local), "a free of no allocator");
}

/* One line a member, and the default. */
static void unknown_members(void) {
    const int bad[] = {-1, 3, 1000};
    SlabOptions options = {.size = sizeof options};
    int *const members[] = {&options.reclaim_policy, &options.huge_pages, &options.on_misuse,     &options.guard_spans,
                            &options.memory_tools,   &options.record_rss, &options.poison_on_free};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            SlabGlobalStats stats;
            *members[i] = bad[k];
            SlabAllocator *allocator = slab_allocator_create_ex(&options);
            SUP_CHECK(allocator && slab_stats_global(allocator, &stats), "member %zu: %d", i, bad[k]);
            SUP_CHECK(stats.cache_capacity == 32 * MIB / 16384, "the default policy");
            SUP_CHECK(!slab_free(allocator, &stats), "a rejected free is only an answer");
            *members[i] = 0;
        }
}

static int probe(const char *what) {
    if (strcmp(what, "nowhere") == 0 || strcmp(what, "members") == 0) {
        if (strcmp(what, "members") == 0)
            unknown_members();
        else
            without_an_allocator();
        return 0;
    }
    SlabAllocator *allocator = slab_allocator_create();
    SlabGlobalStats stats;
    SlabClassStats class_stats;
    SUP_CHECK(allocator != NULL && slab_stats_global(allocator, &stats), "an allocator");
    SUP_CHECK(slab_stats_class(allocator, 0, &class_stats), "its figures");
    if (strcmp(what, "defaults") == 0) {
        SUP_CHECK(slab_allocator_create() != NULL, "a second one, of which no more is said");
        SUP_CHECK(stats.budget_bytes == 0 && stats.retained_bytes == 0, "no budget, nothing reserved");
        SUP_CHECK(stats.cache_capacity == 32 * MIB / 16384, "retain 32 MiB, not %llu slabs",
                  (unsigned long long)stats.cache_capacity);
        SUP_CHECK(slab_stats_thread().sample_rate == 0, "no sampling");
        SUP_CHECK(!slab_free(allocator, &stats), "a rejected free is only an answer");
    } else if (strcmp(what, "budget") == 0) {
        SUP_CHECK(stats.budget_bytes == 4 * MIB, "budget %llu", (unsigned long long)stats.budget_bytes);
        SUP_CHECK(slab_malloc(allocator, 8 * MIB) == NULL && errno == ENOMEM, "over budget");
        SlabOptions options = {.size = sizeof options, .budget_bytes = 6 * MIB};
        SlabAllocator *own = slab_allocator_create_ex(&options);
        SUP_CHECK(slab_stats_global(own, &stats) && stats.budget_bytes == 6 * MIB, "the struct goes first");
    } else if (strcmp(what, "retain") == 0) {
        SUP_CHECK(stats.cache_capacity == MIB / 16384, "retain 1 MiB, not %llu slabs",
                  (unsigned long long)stats.cache_capacity);
    } else if (strcmp(what, "keep_most") == 0) {
        SUP_CHECK(stats.cache_capacity == 1024 * MIB / 16384, "retain 1 GiB, not %llu slabs",
                  (unsigned long long)stats.cache_capacity);
    } else if (strcmp(what, "keep") == 0) {
        SUP_CHECK(stats.cache_capacity == UINT64_MAX, "keep everything");
    } else if (strcmp(what, "at_once") == 0) {
        SUP_CHECK(stats.cache_capacity == 0, "keep nothing");
        SlabOptions options = {.size = sizeof options, .memory_tools = SLAB_TOOLS_OFF};
        SlabAllocator *own = slab_allocator_create_ex(&options);
        options.reclaim_policy = SLAB_RECLAIM_KEEP;
        SlabAllocator *keeping = slab_allocator_create_ex(&options);
        SUP_CHECK(slab_usable_size(own, slab_malloc(own, 5000)) == 16 * KIB,
                  "a span, which goes back when it is freed");
        SUP_CHECK(slab_usable_size(keeping, slab_malloc(keeping, 5000)) == 5456, "a third of a slab");
    } else if (strcmp(what, "reserve") == 0) {
        SUP_CHECK(stats.retained_bytes >= 4 * MIB, "reserved %llu", (unsigned long long)stats.retained_bytes);
    } else if (strcmp(what, "sample") == 0) {
        SUP_CHECK(slab_malloc(allocator, 16) != NULL, "the thread's first operation");
        SUP_CHECK(slab_stats_thread().sample_rate == 7, "sample rate %u", slab_stats_thread().sample_rate);
    } else if (strcmp(what, "stacks") == 0) {
        for (int i = 0; i < 100; i++) SUP_CHECK(slab_malloc(allocator, 4096) != NULL, "an object");
        SUP_CHECK(slab_stats_global(allocator, &stats) && stats.stack_samples_taken > 100 / 2, "stacks are sampled");
    } else if (strcmp(what, "misuse") == 0) {
        SUP_CHECK(!slab_free(allocator, &stats), "a rejected free");
    } else if (strcmp(what, "guard") == 0) {
        SUP_CHECK(slab_usable_size(allocator, slab_malloc(allocator, 5000)) == to_page(5000), "up to the guard");
        SlabOptions options = {.size = sizeof options, .guard_spans = 1};
        SlabAllocator *own = slab_allocator_create_ex(&options);
        SUP_CHECK(slab_usable_size(own, slab_malloc(own, 5000)) == to_page(5000), "by the struct");
        EpochDomain *domain = epoch_domain_create(own);
        SUP_CHECK(domain != NULL && epoch_domain_enter(domain) && slab_alloc(16) != NULL, "a domain");
        SUP_CHECK(slab_usable_size(own, slab_alloc(5000)) == to_page(5000), "in a scope, whose slab has room");
        SUP_CHECK(slab_alloc(16) != NULL && slab_usable_size(own, slab_alloc(5000)) == to_page(5000), "again");
    } else if (strcmp(what, "tools_off") == 0) {
        SUP_CHECK(slab_usable_size(allocator, slab_malloc(allocator, 60)) == 64, "all of the slot");
    } else if (strcmp(what, "poison") == 0) {
        unsigned char *object = slab_malloc(allocator, 64);
        object[40] = 0;
        SUP_CHECK(slab_free(allocator, object), "slab_free");
        SUP_CHECK(SUP_SANITIZED || object[40] == 0xdb, "a freed object is not filled");
    } else {
        SUP_CHECK(false, "unknown probe %s", what);
    }
    return 0;
}

struct variable {
    const char *probe;
    const char *name;
    const char *value;
    size_t lines; /* on stderr */
};

static void run_variable(const struct variable *variable) {
    char probe_name[32];
    char program[] = "options_test";
    char option[] = "--probe";
    char err[4096] = "";
    (void)snprintf(probe_name, sizeof probe_name, "%s", variable->probe);
    char *const argv[] = {program, option, probe_name, NULL};
    int status = sup_reexec(argv, variable->name, variable->value, err, sizeof err);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || sup_count_lines(err) != variable->lines) {
        fail_msg("%s='%s': status %d, %zu lines instead of %zu: %s", variable->name == NULL ? "" : variable->name,
                 variable->value == NULL ? "" : variable->value, status, sup_count_lines(err), variable->lines, err);
    }
    if (variable->lines == 1 && strcmp(variable->probe, "defaults") == 0) {
        char name[64 + 1];
        (void)snprintf(name, sizeof name, "%s", variable->name);
        assert_non_null(strstr(err, name));
    }
}

static void environment(void **state) {
    static const struct variable good[] = {
        {"defaults", NULL, NULL, 0},
        {"budget", "TSLAB_BUDGET", "4194304", 1},
        {"budget", "TSLAB_BUDGET", "4096k", 1},
        {"budget", "TSLAB_BUDGET", "4096K", 1},
        {"budget", "TSLAB_BUDGET", "4m", 1},
        {"budget", "TSLAB_BUDGET", "4M", 1},
        {"defaults", "TSLAB_RETAIN", "32M", 0},
        {"keep_most", "TSLAB_RETAIN", "1g", 0},
        {"defaults", "TSLAB_BUDGET", "", 0},
        {"retain", "TSLAB_RETAIN", "1048576", 0},
        {"keep", "TSLAB_RECLAIM", "keep", 0},
        {"at_once", "TSLAB_RECLAIM", "at_once", 0},
        {"defaults", "TSLAB_RECLAIM", "budget", 0},
        {"reserve", "TSLAB_RESERVE", "4194304", 0},
        {"sample", "TSLAB_SAMPLE", "7", 0},
        {"misuse", "TSLAB_ON_MISUSE", "report", 1},
        {"misuse", "TSLAB_ON_MISUSE", "ignore", 0},
        {"nowhere", "TSLAB_ON_MISUSE", "report", 3},
        {"nowhere", NULL, NULL, 0},
        {"members", NULL, NULL, 7},
        {"poison", "TSLAB_POISON", "1", 0},
        {"guard", "TSLAB_GUARD", "1", 0},
        {"defaults", "TSLAB_GUARD", "0", 0},
        {"defaults", "TSLAB_TOOLS", "on", 0},
        {"tools_off", "TSLAB_TOOLS", "off", 0},
        {"defaults", "TSLAB_HUGE_PAGES", "off", 0},
        {"defaults", "TSLAB_RECORD_RSS", "1", 0},
        {"stacks", "TSLAB_SAMPLE_STACKS", "1K", 0},
        {"defaults", "TSLAB_SAMPLE_STACKS", "0", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        run_variable(&good[i]);
    }
}

/* One line that names the variable, the default, and nothing fails. */
static void malformed_environment(void **state) {
    static const struct variable bad[] = {
        {"defaults", "TSLAB_BUDGET", "lots", 1},
        {"defaults", "TSLAB_BUDGET", "-5", 1},
        {"defaults", "TSLAB_BUDGET", "4T", 1},
        {"defaults", "TSLAB_BUDGET", "4MB", 1},
        {"defaults", "TSLAB_BUDGET", "17179869184G", 1},
        {"defaults", "TSLAB_BUDGET", "99999999999999999999999999K", 1},
        {"defaults", "TSLAB_SAMPLE", "7K", 1},
        {"defaults", "TSLAB_BUDGTE", "4M", 1},
        {"defaults", "TSLAB_A_VARIABLE_WITH_A_NAME_THAT_IS_LONGER_THAN_WHAT_IS_SHOWN_OF_ANY", "1", 1},
        {"defaults", "TSLAB_BUDGET", "99999999999999999999999999", 1},
        {"defaults", "TSLAB_RETAIN", "12 bananas", 1},
        {"defaults", "TSLAB_RECLAIM", "sometimes", 1},
        {"defaults", "TSLAB_RECLAIM", "KEEPX", 1},
        {"defaults", "TSLAB_RESERVE", "0x", 1},
        {"defaults", "TSLAB_RESERVE", "1000G", 1},
        {"defaults", "TSLAB_SAMPLE", "often", 1},
        {"defaults", "TSLAB_SAMPLE", "4294967296", 1},
        {"defaults", "TSLAB_HUGE_PAGES", "2", 1},
        {"defaults", "TSLAB_ON_MISUSE", "explode", 1},
        {"defaults", "TSLAB_POISON", "yes please", 1},
        {"defaults", "TSLAB_GUARD", "2", 1},
        {"defaults", "TSLAB_TOOLS", "none", 1},
        {"defaults", "TSLAB_RECORD_RSS", "maybe", 1},
        {"defaults", "TSLAB_SAMPLE_STACKS", "some", 1},
        {"defaults", "TSLAB_RETAIN", "5M\ntslab: \033[31mforged\n", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        run_variable(&bad[i]);
    }
}

static void abort_by_environment(void **state) {
    char program[] = "options_test";
    char option[] = "--probe";
    char name[] = "misuse";
    char *const argv[] = {program, option, name, NULL};
    char err[4096] = "";
    (void)state;
    int status = sup_reexec(argv, "TSLAB_ON_MISUSE", "abort", err, sizeof err);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == 6);
    assert_true(sup_count_lines(err) >= 1);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_size),           cmocka_unit_test(shorter_struct),
        cmocka_unit_test(members_do_what_they_say), cmocka_unit_test(environment),
        cmocka_unit_test(malformed_environment),    cmocka_unit_test(abort_by_environment),
    };
    if (argc == 3 && strcmp(argv[1], "--probe") == 0) {
        return probe(argv[2]);
    }
    return cmocka_run_group_tests_name("api.options", tests, NULL, NULL);
}
