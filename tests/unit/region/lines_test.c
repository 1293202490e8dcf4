/* Lines of metadata, and the layout of the region. */
#include "check.h"
#include "proc.h"
#include "unit.h"

#include "base/bits.h"
#include "os/os.h"
#include "region/lines.h"
#include "region/pool.h"
#include "region/region.h"

#include <string.h>

static const size_t sizes[TS_LINES_KINDS] = {
    [TS_LINES_HEAP] = 1300,
    [TS_LINES_SHARE] = 3200,
    [TS_LINES_CHURN_BLOCK] = TS_LINES_CHUNK - 3 * TS_LINES_MAGAZINE_BYTES + 64,
    [TS_LINES_SCOPE_BLOCK] = 250,
    [TS_LINES_MAGAZINE] = TS_LINES_MAGAZINE_BYTES,
    [TS_LINES_CLEANUP] = 40,
};

static ts_os_table table;
static bool refuse;

static bool test_commit(void *at, size_t bytes) { return !refuse && ts_os_native.commit(at, bytes); }
static void *test_reserve(size_t bytes) { return refuse ? NULL : ts_os_native.reserve(bytes); }
static bool test_expose(void *at, size_t bytes) { return !refuse && ts_os_native.expose(at, bytes); }

static void make_region(unsigned log2) {
    table = ts_os_native;
    table.commit = test_commit;
    ts_os = &table;
    SUP_CHECK(ts_region_init(log2), "ts_region_init");
    ts_lines_init();
}

static bool is_zero(const unsigned char *p, size_t n) {
    while (n > 0 && p[n - 1] == 0) {
        n--;
    }
    return n == 0;
}

static void records(void *argument) {
    enum { COUNT = 60 };
    static unsigned char *made[TS_LINES_KINDS][COUNT];
    (void)argument;
    make_region(12);
    SUP_CHECK(ts_line_of(ts_lines_take(TS_LINES_CHURN_BLOCK, sizes[TS_LINES_CHURN_BLOCK])) == 0, "the first is line 0");
    for (int i = 0; i < COUNT; i++) {
        for (unsigned k = 0; k < TS_LINES_KINDS; k++) {
            unsigned char *p = made[k][i] = ts_lines_take((ts_line_kind)k, sizes[k]);
            size_t align = k == TS_LINES_CHURN_BLOCK ? TS_LINES_CHUNK : 64;
            SUP_CHECK(p && (uintptr_t)p % align == 0, "kind %u is not aligned", k);
            SUP_CHECK(ts_line_address(ts_line_of(p)) == p, "line number");
            SUP_CHECK(is_zero(p, sizes[k]), "kind %u is not zeroed", k);
            memset(p, (int)(k * COUNT + (unsigned)i) % 255 + 1, sizes[k]);
        }
    }
    /* No two overlap. */
    for (int i = 0; i < COUNT; i++) {
        for (unsigned k = 0; k < TS_LINES_KINDS; k++) {
            unsigned char want = (unsigned char)((k * COUNT + (unsigned)i) % 255 + 1);
            SUP_CHECK(made[k][i][0] == want && made[k][i][sizes[k] - 1] == want, "kind %u, %d is overwritten", k, i);
        }
    }
    /* What is given back comes again for its own kind only, zeroed, the newest first. */
    for (unsigned k = 0; k < TS_LINES_KINDS; k++) {
        ts_lines_give((ts_line_kind)k, made[k][0]);
        ts_lines_give((ts_line_kind)k, made[k][1]);
    }
    for (unsigned k = 0; k < TS_LINES_KINDS; k++) {
        unsigned char *p = ts_lines_take((ts_line_kind)k, sizes[k]);
        SUP_CHECK(p == made[k][1] && is_zero(p, sizes[k]), "kind %u", k);
        SUP_CHECK(ts_lines_take((ts_line_kind)k, sizes[k]) == made[k][0], "kind %u", k);
    }
    for (unsigned k = 0; k < TS_LINES_KINDS; k++) {
        unsigned char *p = ts_lines_take((ts_line_kind)k, sizes[k]);
        for (int i = 0; i < COUNT; i++) {
            SUP_CHECK(p != made[k][i], "a record is handed out twice");
        }
    }
}

/* What a churn block leaves of its chunk: the next magazines, and nothing else, lie there. */
static void rest_of_a_chunk(void *argument) {
    (void)argument;
    make_region(12);
    char *magazine[3], *block = ts_lines_take(TS_LINES_CHURN_BLOCK, sizes[TS_LINES_CHURN_BLOCK]);
    for (unsigned k = 0; k < TS_LINES_KINDS; k++) {
        if (k == TS_LINES_MAGAZINE) continue;
        char *other = ts_lines_take((ts_line_kind)k, sizes[k]);
        SUP_CHECK(other >= block + TS_LINES_CHUNK, "kind %u is in the chunk of a churn block", k);
    }
    for (unsigned i = 0; i < 2; i++)
        ts_lines_take(TS_LINES_MAGAZINE, TS_LINES_MAGAZINE_BYTES); /* of the second block */
    ts_lines_take(TS_LINES_MAGAZINE, TS_LINES_MAGAZINE_BYTES);     /* of the scope blocks' chunk */
    for (unsigned i = 0; i < 3; i++) {
        magazine[i] = ts_lines_take(TS_LINES_MAGAZINE, TS_LINES_MAGAZINE_BYTES);
        SUP_CHECK(magazine[i] >= block + sizes[TS_LINES_CHURN_BLOCK], "a magazine lies in a block");
        SUP_CHECK((magazine[i] < block + TS_LINES_CHUNK) == (i < 2), "magazine %u", i);
    }
    SUP_CHECK(magazine[1] - magazine[0] == (ptrdiff_t)TS_LINES_MAGAZINE_BYTES &&
                  magazine[1] + TS_LINES_MAGAZINE_BYTES == block + TS_LINES_CHUNK,
              "the rest is cut from its end");
}

/* Scope blocks lie in chunks that begin with a key of theirs and end with a magazine, so none is at the end of a page of 4 KiB. */
static void chunks_of_scope_blocks(void *argument) {
    (void)argument;
    make_region(12);
    const size_t size = ts_align_up(sizes[TS_LINES_SCOPE_BLOCK], 64);
    unsigned in_first = 0;
    const char *first = ts_lines_take(TS_LINES_SCOPE_BLOCK, size), *chunk = first - (uintptr_t)first % TS_LINES_CHUNK;
    for (const char *block = first; block - chunk < (ptrdiff_t)TS_LINES_CHUNK && block >= chunk; in_first++) {
        size_t at = (uintptr_t)block % TS_LINES_CHUNK;
        SUP_CHECK(at >= 64 && at + size <= TS_LINES_CHUNK - TS_LINES_MAGAZINE_BYTES, "a block at %zu", at);
        block = ts_lines_take(TS_LINES_SCOPE_BLOCK, size);
    }
    SUP_CHECK(in_first == (TS_LINES_CHUNK - TS_LINES_MAGAZINE_BYTES - 64) / size, "%u in a chunk", in_first);
    char *magazine = ts_lines_take(TS_LINES_MAGAZINE, TS_LINES_MAGAZINE_BYTES); /* the second chunk's */
    SUP_CHECK(magazine == chunk + 2 * TS_LINES_CHUNK - TS_LINES_MAGAZINE_BYTES, "the end of a chunk is a magazine");
}

static void until_there_are_none(void *argument) {
    (void)argument;
    make_region(9);
    size_t count = 0, bytes = (size_t)ts_region.line_limit * 64;
    while (ts_lines_take(TS_LINES_MAGAZINE, TS_LINES_MAGAZINE_BYTES)) {
        count++;
    }
    SUP_CHECK(count == bytes / TS_LINES_MAGAZINE_BYTES, "%zu of %zu", count, bytes / TS_LINES_MAGAZINE_BYTES);
    SUP_CHECK(!ts_lines_take(TS_LINES_HEAP, 1300) && !ts_lines_take(TS_LINES_MAGAZINE, TS_LINES_MAGAZINE_BYTES),
              "none are left");
}

static void refused(void *argument) {
    (void)argument;
    make_region(12);
    refuse = true;
    SUP_CHECK(!ts_lines_take(TS_LINES_HEAP, 1300), "refused");
    refuse = false;
    void *first = ts_lines_take(TS_LINES_HEAP, 1300);
    SUP_CHECK(first && ts_line_of(first) == 0, "a refusal uses nothing up");
    refuse = true;
    size_t count = 0;
    while (ts_lines_take(TS_LINES_MAGAZINE, TS_LINES_MAGAZINE_BYTES)) {
        count++;
    }
    SUP_CHECK(count > 0 && count <= ((size_t)256 << 10) / TS_LINES_MAGAZINE_BYTES, "%zu magazines in 256 KiB", count);
    refuse = false;
    SUP_CHECK(ts_lines_take(TS_LINES_MAGAZINE, TS_LINES_MAGAZINE_BYTES) != NULL, "after the refusal");
}

/* ---- region ------------------------------------------------------------------------------------------------ */

static void layout(void *argument) {
    unsigned log2 = *(unsigned *)argument;
    int local = 0;
    SUP_CHECK(ts_entry_of(&ts_region.part[TS_NORMAL], &local) >= ts_region.part[TS_NORMAL].limit, "before the start");
    make_region(log2);
    const ts_part *n = &ts_region.part[TS_NORMAL], *s = &ts_region.part[TS_SMALL];
    SUP_CHECK(n->units + s->units == 1u << log2 && s->first_unit == n->units && n->first_unit == 0, "units");
    SUP_CHECK(n->limit == (uint64_t)n->units * 1024 && s->limit == (uint64_t)s->units * 1024, "limits");
    SUP_CHECK((uintptr_t)n->base % ((size_t)2 << 20) == 0, "huge pages");
    SUP_CHECK(s->base == n->base + n->units * TS_UNIT_BYTES, "the parts follow one another");
    for (unsigned part = 0; part < TS_PARTS; part++) {
        const ts_part *p = &ts_region.part[part];
        char *end = p->base + p->units * TS_UNIT_BYTES;
        SUP_CHECK(ts_entry_of(p, p->base) == 0 && ts_entry_of(p, end - 16) == p->limit - 1, "entries");
        SUP_CHECK(ts_entry_address(p, p->limit - 1) == end - 16, "addresses");
        SUP_CHECK(ts_entry_of(p, end) >= p->limit && ts_entry_of(p, p->base - 16) >= p->limit, "outside");
        for (int k = 1; k < 16; k++) {
            SUP_CHECK(ts_entry_of(p, p->base + 1600 + k) >= p->limit, "off the grid");
        }
        SUP_CHECK(ts_entry_of(p, NULL) >= p->limit && ts_entry_of(p, &local) >= p->limit, "outside");
        SUP_CHECK(ts_entry_of(p, (void *)UINTPTR_MAX) >= p->limit, "outside");
        for (uint32_t u = 0; u < p->units; u += p->units / 7) {
            uint32_t unit = p->first_unit + u;
            SUP_CHECK(ts_part_of_unit(unit) == part && ts_unit_in_part(unit) == u, "unit %u", unit);
            SUP_CHECK(ts_unit_address(unit) == p->base + u * TS_UNIT_BYTES, "unit %u", unit);
            /* All metadata can be read from the start. */
            SUP_CHECK(ts_load_relaxed(&p->unit[u]) == 0 && p->slab[(size_t)u * TS_SLAB_BYTES + 127] == 0, "metadata");
            SUP_CHECK(ts_load_relaxed(&p->state[(size_t)u * ts_granules_per_unit(part)]) == 0, "metadata");
        }
    }
}

static void init_may_be_tried_again(void *argument) {
    (void)argument;
    table = ts_os_native;
    table.reserve = test_reserve;
    ts_os = &table;
    refuse = true;
    SUP_CHECK(!ts_region_init(TS_MAX_UNITS_LOG2) && ts_region.reserved_bytes == 0, "nothing to be had");
    table.reserve = ts_os_native.reserve;
    table.expose = test_expose;
    SUP_CHECK(!ts_region_init(12) && ts_region.reserved_bytes == 0, "not readable");
    refuse = false;
    SUP_CHECK(ts_region_init(12), "the third time");
    SUP_CHECK(!ts_region_init(TS_MIN_UNITS_LOG2 - 1), "below the minimum");
}

static void in_child(void (*fn)(void *), void *argument) {
    char err[1024];
    int status = sup_child(fn, argument, SUP_CHILD_SECONDS, err, sizeof err);
    if (status != 0) {
        print_error("status %#x\n%s", (unsigned)status, err);
    }
    assert_int_equal(status, 0);
}

static void test_layout(void **state) {
    (void)state;
    /* An emulator is given less address space than a process has (cmake/toolchains). */
    unsigned most = sizeof(void *) < 8 ? TS_MAX_UNITS_LOG2_32 : SUP_EMULATED ? 18u : TS_MAX_UNITS_LOG2;
    for (unsigned log2 = TS_MIN_UNITS_LOG2; log2 <= most; log2++) {
        in_child(layout, &log2);
    }
}

#define IN_CHILD(name)                      \
    static void test_##name(void **state) { \
        (void)state;                        \
        in_child(name, NULL);               \
    }
IN_CHILD(records)
IN_CHILD(rest_of_a_chunk)
IN_CHILD(chunks_of_scope_blocks)
IN_CHILD(until_there_are_none)
IN_CHILD(refused)
IN_CHILD(init_may_be_tried_again)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_rest_of_a_chunk),
        cmocka_unit_test(test_chunks_of_scope_blocks),
        cmocka_unit_test(test_until_there_are_none),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_init_may_be_tried_again),
    };
    return cmocka_run_group_tests_name("region.lines", tests, NULL, NULL);
}
