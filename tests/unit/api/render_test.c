/* The renderers: JSON (json.c), Prometheus text (prometheus.c), the text (text.c), and the lengths of snprintf. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "unit.h"

#include "os/os.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a strict reader of JSON: the end of the value at `at`, or NULL ---- */

static const char *read_value(const char *at, int depth);

static const char *skip_space(const char *at) {
    while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r') {
        at++;
    }
    return at;
}

static const char *read_string(const char *at) {
    if (*at++ != '"') {
        return NULL;
    }
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20) {
            return NULL;
        }
        if (*at != '\\') {
            continue;
        }
        at++;
        if (*at == 'u') {
            for (int i = 0; i < 4; i++) {
                if (!isxdigit((unsigned char)*++at)) {
                    return NULL;
                }
            }
        } else if (*at == '\0' || strchr("\"\\/bfnrt", *at) == NULL) {
            return NULL;
        }
    }
    return at + 1;
}

static const char *read_number(const char *at) {
    at += *at == '-';
    if (!isdigit((unsigned char)*at)) {
        return NULL;
    }
    if (*at == '0') {
        at++;
    } else {
        while (isdigit((unsigned char)*at)) {
            at++;
        }
    }
    if (*at == '.') {
        at++;
        if (!isdigit((unsigned char)*at)) {
            return NULL;
        }
        while (isdigit((unsigned char)*at)) {
            at++;
        }
    }
    return *at == 'e' || *at == 'E' || isdigit((unsigned char)*at) ? NULL : at;
}

static const char *read_members(const char *at, char close, int depth) {
    at = skip_space(at + 1);
    if (*at == close) {
        return at + 1;
    }
    for (;;) {
        if (close == '}') {
            at = read_string(skip_space(at));
            at = at == NULL ? NULL : skip_space(at);
            if (at == NULL || *at++ != ':') {
                return NULL;
            }
        }
        at = read_value(skip_space(at), depth + 1);
        if (at == NULL) {
            return NULL;
        }
        at = skip_space(at);
        if (*at == close) {
            return at + 1;
        }
        if (*at++ != ',') {
            return NULL;
        }
    }
}

static const char *read_value(const char *at, int depth) {
    static const char *const words[] = {"true", "false", "null"};
    if (depth > 20) {
        return NULL;
    }
    if (*at == '{' || *at == '[') {
        return read_members(at, *at == '{' ? '}' : ']', depth);
    }
    if (*at == '"') {
        return read_string(at);
    }
    for (size_t i = 0; i < 3; i++) {
        if (strncmp(at, words[i], strlen(words[i])) == 0) {
            return at + strlen(words[i]);
        }
    }
    return read_number(at);
}

static bool is_json(const char *text) {
    const char *end = read_value(skip_space(text), 0);
    return end != NULL && *skip_space(end) == '\0';
}

/* ---- Prometheus: comments and `name{label="value",...} number` ---- */

static const char *read_metric_name(const char *at) {
    if (!isalpha((unsigned char)*at) && *at != '_') {
        return NULL;
    }
    while (isalnum((unsigned char)*at) || *at == '_' || *at == ':') {
        at++;
    }
    return at;
}

static bool is_sample(const char *at) {
    at = read_metric_name(at);
    if (at == NULL) {
        return false;
    }
    if (*at == '{') {
        do {
            at = read_metric_name(at + 1);
            if (at == NULL || *at++ != '=' || *at++ != '"') {
                return false;
            }
            for (; *at != '"'; at++) {
                at += *at == '\\';
                if (*at == '\0') {
                    return false;
                }
            }
            at++;
        } while (*at == ',');
        if (*at++ != '}') {
            return false;
        }
    }
    if (*at++ != ' ') {
        return false;
    }
    char *end = NULL;
    (void)strtod(at, &end);
    return end != at && *end == '\0';
}

static bool is_comment(const char *line) {
    return strncmp(line, "# HELP ", 7) == 0 || strncmp(line, "# TYPE ", 7) == 0;
}

typedef size_t renderer(SlabAllocator *, char *, size_t);

static renderer *const RENDERERS[] = {slab_stats_json, slab_stats_prometheus, slab_stats_text};

static char *render(renderer *fn, SlabAllocator *allocator) {
    size_t length = fn(allocator, NULL, 0);
    assert_true(length > 0);
    /* Figures such as the age of an epoch may get longer by a digit meanwhile. */
    char *text = malloc(length + 4096);
    assert_non_null(text);
    size_t again = fn(allocator, text, length + 4096);
    assert_true(again < length + 4096);
    assert_int_equal(strlen(text), again);
    return text;
}

static void fill(SlabAllocator *allocator) {
    EpochId churn = epoch_open(allocator, "plain", EPOCH_CHURN);
    EpochId scope = epoch_open(allocator, "q\"uo\\te\n\xc3\xa9", EPOCH_SCOPE);
    for (size_t i = 0; i < 100; i++) {
        assert_non_null(slab_malloc_epoch(allocator, i * 11, i % 2 == 0 ? churn : scope));
    }
    assert_true(epoch_close(allocator, scope));
    assert_non_null(slab_malloc(allocator, 1u << 20));
}

static void json(void **state) {
    SlabAllocator *allocator = *state;
    for (int round = 0; round < 2; round++) {
        char *text = render(slab_stats_json, allocator);
        if (!is_json(text)) {
            fail_msg("not JSON: %s", text);
        }
        assert_non_null(strstr(text, "\"live_objects\""));
        /* Spans and scopes are no class with an index. */
        assert_true(round == 0 || (strstr(text, "\"span\"") && strstr(text, "\"class_index\":")));
        assert_null(strstr(text, "\"class_index\":4294967"));
        free(text);
        fill(allocator);
    }
    assert_true(is_json("{\"a\":[1,-2.5,{}],\"b\":\"\\u00e9\"}") && !is_json("{\"a\":01}") && !is_json("{\"a\":1,}"));
}

static void prometheus(void **state) {
    SlabAllocator *allocator = *state;
    fill(allocator);
    char *text = render(slab_stats_prometheus, allocator);
    size_t samples = 0;
    char *rest = NULL;
    assert_int_equal(text[strlen(text) - 1], '\n');
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (is_comment(line)) {
            continue;
        }
        if (!is_sample(line)) {
            fail_msg("no line of Prometheus: %s", line);
        }
        samples++;
    }
    assert_true(samples >= 2);
    free(text);
}

/* The text without its digits: the part that time and the rest of the process do not change. */
static void strip_digits(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        if (!isdigit((unsigned char)*from)) {
            *to++ = *from;
        }
    }
    *to = '\0';
}

/* Ages are told in units of their own, and ten seconds after its close an epoch that holds objects is a finding of the
   doctor: by a clock that stands, the text does not depend on how fast the machine is. Nor on resident memory. */
static uint64_t standing_clock(void) { return UINT64_C(1000000000000); }
static uint64_t standing_size(void) { return UINT64_C(50000000); }

static int stand_still(void **state) {
    static ts_os_table table;
    table = ts_os_native;
    table.wall_ns = standing_clock;
    table.resident_bytes = standing_size;
    ts_os = &table;
    return sup_allocator_setup(state);
}

static int go_on(void **state) {
    int code = sup_allocator_teardown(state);
    ts_os = &ts_os_native;
    return code;
}

/* In capacities from 0 to the whole, every one of the first and last: terminated, the beginning of the text, nothing
   beyond. */
static void lengths_of_snprintf(void **state) {
    SlabAllocator *allocator = *state;
    fill(allocator);
    for (size_t r = 0; r < 3; r++) {
        char *whole = render(RENDERERS[r], allocator);
        size_t length = strlen(whole);
        /* Counters get longer meanwhile, some of them in every class. */
        size_t room = length + length / 4 + 64;
        strip_digits(whole);
        char *part = malloc(room);
        assert_non_null(part);
        for (size_t capacity = 0; capacity <= length; capacity += capacity < 200 || capacity + 200 > length ? 1
                                                                  : SUP_SANITIZED || SUP_EMULATED           ? 331
                                                                                                            : 37) {
            memset(part, '\x7f', room);
            size_t answer = RENDERERS[r](allocator, part, capacity);
            assert_true(answer + room > 2 * length && answer < room);
            for (size_t i = capacity; i < room; i++) {
                if (part[i] != '\x7f') {
                    fail_msg("renderer %zu, capacity %zu: byte %zu is written", r, capacity, i);
                }
            }
            if (capacity == 0) {
                continue;
            }
            assert_int_equal(strlen(part), answer < capacity ? answer : capacity - 1);
            strip_digits(part);
            if (strncmp(part, whole, strlen(part)) != 0) {
                fail_msg("renderer %zu, capacity %zu: not the beginning of the whole text", r, capacity);
            }
        }
        free(part);
        free(whole);
    }
}

/* The figures of timed operations are in the text while there are any. */
static void text_of_samples(void **state) {
    SlabOptions options = {.size = sizeof options, .sample_rate = 1};
    char *plain = render(slab_stats_text, *state);
    assert_null(strstr(plain, "alloc_wall_ns_sum"));
    SlabAllocator *timed = slab_allocator_create_ex(&options);
    assert_non_null(timed);
    assert_non_null(slab_malloc(timed, 100));
    char *text = render(slab_stats_text, timed);
    assert_non_null(strstr(text, "sample_rate"));
    assert_non_null(strstr(text, "alloc_wall_ns_sum"));
    free(plain);
    free(text);
    slab_allocator_free(timed);
}

static void of_no_allocator(void **state) {
    (void)state;
    for (size_t r = 0; r < 3; r++) {
        char text[8] = "xxxxxxx";
        size_t length = RENDERERS[r](NULL, text, sizeof text);
        assert_true(memchr(text, '\0', sizeof text) != NULL);
        assert_true(length < sizeof text || strlen(text) == sizeof text - 1);
        assert_int_equal(RENDERERS[r](NULL, NULL, 0), length);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUP_WITH_ALLOCATOR(json),
        SUP_WITH_ALLOCATOR(prometheus),
        cmocka_unit_test_setup_teardown(lengths_of_snprintf, stand_still, go_on),
        SUP_WITH_ALLOCATOR(text_of_samples),
        cmocka_unit_test(of_no_allocator),
    };
    return cmocka_run_group_tests_name("api.render", tests, NULL, NULL);
}
