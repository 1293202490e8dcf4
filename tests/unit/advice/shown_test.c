/*
 * observe/shown.c and advice/several.c: which allocators are shown, by which number and name; and that the figures of
 * several are their sum, or those of the process.
 */
#include "check.h"
#include "unit.h"

#include "advice/advice.h"
#include "api/api.h"
#include "api/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tslab/stats.h>

#define MANY (TS_VIEWS + 4)

/* The default one and `count` others, of which the i-th holds i times so much. */
static void make(SlabAllocator *a[MANY], unsigned count) {
    assert_non_null(slab_allocator_default());
    for (unsigned i = 0; i < count; i++) {
        assert_non_null(a[i] = slab_allocator_create());
        EpochId e = epoch_open(a[i], "of it", EPOCH_CHURN);
        for (unsigned n = 0; n < 100 * (i + 1); n++) assert_non_null(slab_malloc_epoch(a[i], 1000, e));
    }
}
static void end(SlabAllocator *a[MANY], unsigned count) {
    for (unsigned i = 0; i < count; i++) slab_allocator_free(a[i]);
}

static void numbers_and_names(void **state) {
    (void)state;
    SlabAllocator *a[MANY], *all[4];
    ts_shown shown[TS_VIEWS];
    uint32_t found;
    make(a, 3);
    assert_int_equal(slab_allocators(all, 4), 4);
    assert_true(ts_shown_all(shown, &found) == 4 && found == 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_true(shown[i].number == i && shown[i].token == ts_token(all[i])); /* as slab_allocators has them */
        assert_string_equal(shown[i].name, all[i] == slab_allocator_default() ? "default" : "created");
        ts_shown one;
        assert_true(ts_shown_one(ts_token(all[i]), &one) && one.number == i);
    }
    end(a, 3);
    assert_false(ts_shown_one(ts_token(a[0]), &shown[0]));
    assert_true(ts_shown_all(shown, &found) == 1 && found == 1);
}

/* Of more than there is room for, those that hold most. */
static void the_largest(void **state) {
    (void)state;
    SlabAllocator *a[MANY];
    ts_shown shown[TS_VIEWS];
    uint32_t found;
    make(a, MANY);
    assert_int_equal(ts_shown_all(shown, &found), TS_VIEWS);
    assert_int_equal(found, MANY + 1);
    for (unsigned i = 0; i < TS_VIEWS; i++) {
        assert_int_equal(shown[i].token, ts_token(a[MANY - TS_VIEWS + i]));
        assert_true(i == 0 || shown[i].number > shown[i - 1].number);
    }
    end(a, MANY);
}

static uint64_t figure(const char *json, const char *key) {
    char name[64];
    snprintf(name, sizeof name, "\"%s\":", key);
    const char *at = strstr(json, name);
    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 10);
}

static void sums(void **state) {
    (void)state;
    SlabAllocator *a[MANY];
    SlabGlobalStats one, sum = {0};
    static char json[1 << 21], text[1 << 20];
    make(a, 2);
    assert_false(slab_free(a[0], json)); /* misuse of one of them */
    for (unsigned i = 0; i < 3; i++) {
        assert_true(slab_stats_global(i < 2 ? a[i] : slab_allocator_default(), &one));
        sum.live_bytes += one.live_bytes;
        sum.committed_bytes += one.committed_bytes;
        sum.active_epoch_count += one.active_epoch_count;
    }
    assert_true(ts_private_render(TS_TEXT_JSON, NULL, json, sizeof json) < sizeof json);
    assert_int_equal(figure(json, "live_bytes"), sum.live_bytes); /* the first one is of "global" */
    assert_int_equal(figure(json, "committed_bytes"), sum.committed_bytes);
    assert_int_equal(figure(json, "active_epoch_count"), sum.active_epoch_count);
    assert_int_equal(figure(json, "rejected_frees_total"), 1);
    assert_int_equal(figure(json, "region_bytes"), one.region_bytes);
    assert_int_equal(figure(json, "reserved_bytes"), one.reserved_bytes);
    assert_int_equal(figure(json, "cache_capacity"), 3 * one.cache_capacity);
    assert_true(ts_private_render(TS_TEXT_DOCTOR, NULL, text, sizeof text) < sizeof text);
    assert_non_null(strstr(text, "1. warning: 1 free was refused: not a live object\n   in:       allocator "));
    assert_true(ts_private_render(TS_TEXT_DOCTOR, a[1], text, sizeof text) < sizeof text);
    assert_int_equal(strncmp(text, "nothing found", 13), 0);
    assert_true(ts_private_render_epochs(NULL, SLAB_EPOCHS_LARGEST, 10, text, sizeof text) < sizeof text);
    assert_int_equal(figure(text, "epoch_count"), sum.active_epoch_count);
    end(a, 2);
    assert_int_equal(ts_private_render(TS_TEXT_DOCTOR, a[1], text, sizeof text), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_and_names), cmocka_unit_test(the_largest),
                                       cmocka_unit_test(sums)};
    return cmocka_run_group_tests_name("advice.shown", tests, NULL, NULL);
}
