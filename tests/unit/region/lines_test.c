/* Lines of metadata, and the layout of the region. */
#include "check.h"
#include "in_child.h"
#include "proc.h"
#include "unit.h"

#include "base/base.h"
#include "os/os.h"
#include "region/region.h"
#include "walk/check_lines.h"

#include <string.h>

static const size_t sizes[TS_LINES_KINDS] = {
    [TS_LINES_HEAP] = 1300,
    [TS_LINES_SHARE] = 3200,
    [TS_LINES_CHURN_BLOCK] = TS_LINES_CHUNK - 64,
    [TS_LINES_SCOPE_BLOCK] = 250,
    [TS_LINES_MAGAZINE] = TS_LINES_MAGAZINE_BYTES,
    [TS_LINES_CLEANUP] = 40,
    [TS_LINES_KIN] = 56,
    [TS_LINES_ACCOUNT] = 56,
    [TS_LINES_NODES] = 6500,
    [TS_LINES_PAST] = 25000,
    [TS_LINES_BRIEF] = 6200,
};

static ts_os_table table;
static bool refuse;

static bool test_commit(void *at, size_t bytes) { return !refuse && ts_os_native.commit(at, bytes); }
static void *test_reserve(size_t bytes) { return refuse ? NULL : ts_os_native.reserve(bytes); }

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
    /* Freed lines are handed out again for their own kind only, zeroed, the newest first. (Not churn blocks, nor in
       that order magazines.) */
    for (unsigned k = 0; k < TS_LINES_KINDS; k++) {
        if (k == TS_LINES_CHURN_BLOCK || k == TS_LINES_MAGAZINE) continue;
        ts_lines_give((ts_line_kind)k, made[k][0]);
        ts_lines_give((ts_line_kind)k, made[k][1]);
    }
    for (unsigned k = 0; k < TS_LINES_KINDS; k++) {
        if (k == TS_LINES_CHURN_BLOCK || k == TS_LINES_MAGAZINE) continue;
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

/* A churn block has its chunk alone, so that its memory can go back. */
static void chunk_of_a_churn_block(void *argument) {
    (void)argument;
    make_region(12);
    char *block = ts_lines_take(TS_LINES_CHURN_BLOCK, sizes[TS_LINES_CHURN_BLOCK]);
    for (unsigned k = 0; k < TS_LINES_KINDS; k++) {
        const char *other = ts_lines_take((ts_line_kind)k, sizes[k]);
        SUP_CHECK(other >= block + TS_LINES_CHUNK, "kind %u is in the chunk of a churn block", k);
    }
}

enum { PER_CHUNK = TS_LINES_CHUNK / TS_LINES_MAGAZINE_BYTES, CHUNKS = 12, MAGAZINES = CHUNKS * PER_CHUNK };

static bool count_magazine(void *arg, ts_line_kind kind, const void *record) {
    (void)record;
    *(unsigned *)arg += kind == TS_LINES_MAGAZINE;
    return true;
}

static void check_free_magazines(unsigned want, unsigned whole) {
    unsigned found = 0;
    const char *fault = ts_lines_walk(count_magazine, &found);
    SUP_CHECK(!fault, "%s", fault);
    SUP_CHECK(found == want, "%u free magazines, not %u", found, want);
    SUP_CHECK(ts_load_relaxed(&ts_magazine_pool.count) == whole, "%u free chunks, not %u",
              ts_load_relaxed(&ts_magazine_pool.count), whole);
}

static char *take_magazine(void) {
    char *p = ts_lines_take(TS_LINES_MAGAZINE, TS_LINES_MAGAZINE_BYTES);
    SUP_CHECK(p && is_zero((unsigned char *)p, TS_LINES_MAGAZINE_BYTES), "a magazine that is not zeroed");
    memset(p, 0x5a, TS_LINES_MAGAZINE_BYTES);
    return p;
}

/* A chunk all of whose magazines are free can give its memory back. A new magazine comes from a chunk that has others
   in use, then from one with memory, then from one without. */
static void chunks_of_magazines(void *argument) {
    static char *made[MAGAZINES];
    (void)argument;
    make_region(12);
    (void)ts_lines_take(TS_LINES_HEAP, 1300);
    for (unsigned i = 0; i < MAGAZINES; i++) made[i] = take_magazine();
    check_free_magazines(0, 0);
    for (unsigned i = 0; i < MAGAZINES; i++)
        if (i % PER_CHUNK != 3) ts_lines_give(TS_LINES_MAGAZINE, made[i]);
    check_free_magazines(MAGAZINES - CHUNKS, 0);
    for (unsigned c = 1; c < CHUNKS; c += 2) ts_lines_give(TS_LINES_MAGAZINE, made[c * PER_CHUNK + 3]);
    check_free_magazines(MAGAZINES - CHUNKS / 2, CHUNKS / 2);
    ts_chunk_purge(&ts_magazine_pool, 2, UINT32_MAX);
    check_free_magazines(MAGAZINES - CHUNKS / 2, 2);
    for (unsigned c = 0; c < CHUNKS; c += 2)
        SUP_CHECK(made[c * PER_CHUNK + 3][TS_LINES_MAGAZINE_BYTES - 1] == 0x5a, "one that is in use lost its memory");
    uint32_t used = ts_lines_used();
    for (unsigned i = 0; i < CHUNKS / 2 * (PER_CHUNK - 1); i++) {
        const char *p = take_magazine();
        bool beside = false;
        for (unsigned c = 0; c < CHUNKS; c += 2)
            beside |= (size_t)(p - made[c * PER_CHUNK]) < PER_CHUNK * TS_LINES_MAGAZINE_BYTES;
        SUP_CHECK(beside, "a whole chunk is begun while others have room");
    }
    check_free_magazines(CHUNKS / 2 * PER_CHUNK, 2);
    for (unsigned i = 0; i < PER_CHUNK + 1; i++) (void)take_magazine();
    check_free_magazines(CHUNKS / 2 * PER_CHUNK - PER_CHUNK - 1, 0);
    for (unsigned i = PER_CHUNK + 1; i < CHUNKS / 2 * PER_CHUNK; i++) (void)take_magazine();
    check_free_magazines(0, 0);
    SUP_CHECK(ts_lines_used() == used, "more was taken while there were free ones");
}

/* The walk reports notes that do not hold. */
static void notes_that_do_not_hold(void *argument) {
    char *made[2 * PER_CHUNK];
    unsigned found = 0;
    (void)argument;
    make_region(12);
    (void)ts_lines_take(TS_LINES_HEAP, 1300);
    for (unsigned i = 0; i < 2 * PER_CHUNK; i++) made[i] = take_magazine();
    ts_lines_give(TS_LINES_MAGAZINE, made[0]);
    ts_lines_give(TS_LINES_MAGAZINE, made[PER_CHUNK]);
    ts_chunk_note *first = ts_chunk_note_of(ts_chunk_of(made[0])),
                  *last = ts_chunk_note_of(ts_chunk_of(made[PER_CHUNK]));
    ts_chunk_note kept = *first;
    first->kept = 0;
    SUP_CHECK(strstr(ts_lines_walk(count_magazine, &found), "in the wrong list"), "none is free");
    *first = kept;
    first->prev = 0;
    SUP_CHECK(strstr(ts_lines_walk(count_magazine, &found), "list of chunks"), "the way back");
    *first = kept;
    first->next = ts_chunk_of(made[PER_CHUNK]);
    last->prev = ts_chunk_of(made[0]);
    SUP_CHECK(strstr(ts_lines_walk(count_magazine, &found), "list of chunks"), "a circle");
    *first = kept;
    last->prev = 0;
    for (unsigned i = 1; i < PER_CHUNK; i++) ts_lines_give(TS_LINES_MAGAZINE, made[i]);
    first->kept ^= 1;
    SUP_CHECK(strstr(ts_lines_walk(count_magazine, &found), "one of a pool"), "not all are free");
    first->kept ^= 1;
    first->next = ts_chunk_of(made[0]);
    SUP_CHECK(strstr(ts_lines_walk(count_magazine, &found), "more than it counts"), "a circle of free ones");
    first->next = ts_region.line_limit;
    SUP_CHECK(strstr(ts_lines_walk(count_magazine, &found), "out of the lines"), "no such chunk");
    first->next = 0;
    check_free_magazines(PER_CHUNK + 1, 1);
}

/* Every chunk that can be had has a note. */
static void notes_of_chunks(void *argument) {
    (void)argument;
    make_region(9);
    uint32_t high = 0;
    for (const void *p; (p = ts_lines_take(TS_LINES_CHURN_BLOCK, TS_LINES_CHUNK)) != NULL;) {
        uint32_t chunk = ts_chunk_of(p);
        SUP_CHECK(ts_chunk_address(chunk) == p && chunk >= high, "chunk %u", chunk);
        *ts_chunk_note_of(chunk) = (ts_chunk_note){chunk + 1, chunk + 2, chunk + 3};
        high = chunk + 1;
    }
    SUP_CHECK(high == ts_region.line_limit / (TS_LINES_CHUNK / 64), "%u chunks", high);
    for (uint32_t chunk = 0; chunk < high; chunk++)
        SUP_CHECK(ts_chunk_note_of(chunk)->next == chunk + 1 && ts_chunk_note_of(chunk)->kept == chunk + 3, "%u",
                  chunk);
}

/* Scope blocks lie in chunks that begin with a key of theirs and end with a magazine, so none is at the end of a page
   of 4 KiB. */
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
    SUP_CHECK(ts_lines_take(TS_LINES_HEAP, 1300) != NULL, "a heap is the first"); /* its chunk has no magazines */
    while (ts_lines_take(TS_LINES_MAGAZINE, TS_LINES_MAGAZINE_BYTES)) {
        count++;
    }
    size_t all = (bytes / TS_LINES_CHUNK - 1) * (TS_LINES_CHUNK / TS_LINES_MAGAZINE_BYTES);
    SUP_CHECK(count == all, "%zu of %zu", count, all);
    SUP_CHECK(!ts_lines_take(TS_LINES_SHARE, 3200) && !ts_lines_take(TS_LINES_MAGAZINE, TS_LINES_MAGAZINE_BYTES),
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
    const ts_part *n = &ts_region.part[TS_NORMAL];
    bool outer = n->units > TS_NEAR_UNITS; /* all of the usual region, and whole regions of 64 GiB behind it */
    SUP_CHECK(outer ? log2 == TS_MAX_UNITS_LOG2 && n->units % TS_NEAR_UNITS == 0 : n->units == 1u << log2, "units");
    SUP_CHECK(!n->limit && ts_entry_of(n, n->base) >= n->limit, "nothing is below a mark yet");
    SUP_CHECK(ts_region_raise(TS_NORMAL, n->units), "all of it");
    SUP_CHECK(n->limit == (uint64_t)n->units * 1024, "limits");
    SUP_CHECK(ts_region.near == (outer ? (uint64_t)1 << 32 : n->limit), "what fast paths know");
    SUP_CHECK((uintptr_t)n->base % ((size_t)2 << 20) == 0, "huge pages");
    for (unsigned part = 0; part < TS_FAR; part++) {
        const ts_part *p = &ts_region.part[part];
        char *end = p->base + (size_t)p->units * TS_UNIT_BYTES;
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
            SUP_CHECK(ts_unit_address(unit) == p->base + (size_t)u * TS_UNIT_BYTES, "unit %u", unit);
            /* All metadata below the mark can be read. */
            SUP_CHECK(ts_load_relaxed(&p->unit[u]) == 0 && p->slab[(size_t)u * TS_SLAB_BYTES + 127] == 0, "metadata");
            SUP_CHECK(ts_load_relaxed(&ts_unit_live(u)[0]) == 0, "metadata");
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
    refuse = false;
    SUP_CHECK(ts_region_init(12), "the second time");
    SUP_CHECK(!ts_region_init(TS_MIN_UNITS_LOG2 - 1), "below the minimum");
}

static void test_layout(void **state) {
    (void)state;
    /* An emulator is given less address space than a process has (cmake/toolchains). */
    unsigned most = sizeof(void *) < 8 ? TS_MAX_UNITS_LOG2_32 : SUP_EMULATED ? 18u : TS_MAX_UNITS_LOG2;
    for (unsigned log2 = TS_MIN_UNITS_LOG2; log2 <= most; log2++) {
        sup_in_child(layout, &log2);
    }
}

#define IN_CHILD(name)                      \
    static void test_##name(void **state) { \
        (void)state;                        \
        sup_in_child(name, NULL);           \
    }
IN_CHILD(records)
IN_CHILD(chunk_of_a_churn_block)
IN_CHILD(chunks_of_magazines)
IN_CHILD(notes_that_do_not_hold)
IN_CHILD(notes_of_chunks)
IN_CHILD(chunks_of_scope_blocks)
IN_CHILD(until_there_are_none)
IN_CHILD(refused)
IN_CHILD(init_may_be_tried_again)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_chunk_of_a_churn_block),
        cmocka_unit_test(test_chunks_of_magazines),
        cmocka_unit_test(test_notes_that_do_not_hold),
        cmocka_unit_test(test_notes_of_chunks),
        cmocka_unit_test(test_chunks_of_scope_blocks),
        cmocka_unit_test(test_until_there_are_none),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_init_may_be_tried_again),
    };
    return cmocka_run_group_tests_name("region.lines", tests, NULL, NULL);
}
