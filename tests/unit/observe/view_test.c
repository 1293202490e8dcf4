/* A view (observe.h): labels are bounded and lose nothing; lists of epochs; the doctor's findings; formatting. By a
   clock of the test. */
#include "check.h"
#include "proc.h"
#include "unit.h"

#include "advice/advice.h"
#include "api/runtime.h"
#include "observe/observe.h"
#include "os/os.h"
#include "own_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[1 << 20];

static int start(void **state) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_KEEP};
    (void)state;
    own_clock_begin();
    allocator = slab_allocator_create_ex(&options);
    return allocator == NULL;
}

static ts_view *view_of(void) {
    ts_view *view = ts_advised_view(ts_allocator_find(ts_token(allocator)), ts_token(allocator));
    assert_non_null(view);
    return view;
}

static EpochId filled(const char *label, unsigned objects, size_t size) {
    EpochId epoch = epoch_open(allocator, label, EPOCH_CHURN);
    for (unsigned i = 0; i < objects; i++) assert_non_null(slab_malloc_epoch(allocator, size, epoch));
    return epoch;
}

/* ---- labels ------------------------------------------------------------------------------------------------------ */

static void check_labels(unsigned distinct) {
    ts_view *view = view_of();
    uint64_t epochs = 0, live = 0, bytes = 0;
    assert_int_equal(view->label_rows,
                     distinct < TS_VIEW_LABELS ? distinct : TS_VIEW_LABELS + (distinct > TS_VIEW_LABELS));
    for (unsigned i = 0; i < view->label_rows; i++) {
        const ts_label_stats *l = &view->label[i];
        epochs += l->active_epochs + l->closing_epochs;
        live += l->active_live_objects + l->closing_live_objects;
        bytes += l->active_live_bytes + l->closing_live_bytes;
        uint64_t rss = 0, slabs = 0;
        for (unsigned k = 0; k < TS_COUNT_KINDS; k++) {
            rss += l->class_rss_bytes[0][k] + l->class_rss_bytes[1][k];
            slabs += l->class_slabs[0][k] + l->class_slabs[1][k];
        }
        assert_int_equal(rss, l->active_rss_bytes + l->closing_rss_bytes);
        assert_true(slabs >= l->active_epochs + l->closing_epochs);
        assert_int_equal(l->is_other, distinct > TS_VIEW_LABELS && i == TS_VIEW_LABELS);
    }
    assert_int_equal(epochs, view->epoch_count);
    assert_int_equal(live, view->global.live_objects);
    assert_int_equal(bytes, view->global.live_bytes);
    ts_view_free(view);
}

static void labels_are_bounded(void **state) {
    char label[32];
    (void)state;
    check_labels(0);
    for (unsigned i = 0; i < 1500; i++) {
        snprintf(label, sizeof label, "label-%u", i);
        (void)filled(label, i == 40 ? 2000 : 1 + i % 3, 128);
        if (i == 1 || i == TS_VIEW_LABELS - 1 || i == TS_VIEW_LABELS || i == 1499) check_labels(i + 1);
    }
    ts_view *view = view_of();
    assert_string_equal(view->label[0].label, "label-40"); /* the heaviest first */
    assert_string_equal(ts_label_name(&view->label[TS_VIEW_LABELS]), "(other)");
    ts_view_free(view);
    size_t length = slab_stats_prometheus(allocator, text, sizeof text);
    assert_true(length > 0 && length < sizeof text);
    unsigned series = 0;
    for (const char *at = text; (at = strstr(at, "\ntemporal_slab_epochs{")) != NULL; at++) series++;
    assert_int_equal(series, TS_VIEW_LABELS + 1);
    assert_non_null(strstr(text, "temporal_slab_epoch_live_objects{label=\"label-40\",state=\"active\"} 2000\n"));
    assert_non_null(strstr(text, "label=\"(other)\""));
    /* 2,000 objects of 128 bytes: 16 slabs of 128 of them, but for the objects in the first slab of mixed sizes. */
    const char *slabs =
        strstr(text, "temporal_slab_epoch_class_slabs{label=\"label-40\",state=\"active\",class=\"128\"} ");
    const char *rss = strstr(
        text, "temporal_slab_epoch_class_estimated_rss_bytes{label=\"label-40\",state=\"active\",class=\"128\"} ");
    assert_true(slabs && rss);
    unsigned long count = strtoul(strchr(slabs, ' ') + 1, NULL, 10);
    assert_in_range(count, 15, 17);
    assert_int_equal(strtoul(strchr(rss, ' ') + 1, NULL, 10), count * TS_UNIT_BYTES);
}

/* Of the row that has the label; NULL: there is none. */
static const ts_label_stats *row_of(const ts_view *view, const char *label) {
    const ts_label_stats *found = NULL;
    for (unsigned i = 0; i < view->label_rows; i++) {
        if (strcmp(ts_label_name(&view->label[i]), label) != 0) continue;
        assert_null(found); /* no two look alike */
        found = &view->label[i];
    }
    return found;
}

enum { HANDED = 3000 };
static void *handed[HANDED];
static unsigned handed_from, handed_to;

static void *free_handed(void *argument) {
    for (unsigned i = handed_from; i < handed_to; i++) SUP_CHECK(slab_free(allocator, handed[i]), "slab_free");
    return argument;
}

static void free_elsewhere(unsigned from, unsigned to) {
    handed_from = from;
    handed_to = to;
    sup_in_thread(free_handed, NULL);
}

/* A free by another thread counts at once, also by label, and while its owner sleeps. */
static void labels_without_what_is_pending(void **state) {
    (void)state;
    for (unsigned flags = EPOCH_CHURN; flags <= EPOCH_SCOPE; flags++) {
        EpochId epoch = epoch_open(allocator, "batch", flags);
        for (unsigned i = 0; i < HANDED; i++) assert_non_null(handed[i] = slab_malloc_epoch(allocator, 100, epoch));
        now += SECOND;
        free_elsewhere(0, HANDED / 2);
        ts_view *view = view_of();
        const ts_label_stats *row = row_of(view, "batch");
        assert_int_equal(row->active_live_objects, HANDED / 2);
        assert_int_equal(row->active_live_bytes, view->global.live_bytes);
        assert_true(row->active_age_ns >= SECOND);
        ts_view_free(view);
        free_elsewhere(HANDED / 2, HANDED);
        view = view_of();
        row = row_of(view, "batch");
        assert_int_equal(view->global.live_objects, 0);
        assert_int_equal(row->active_live_objects + row->active_live_bytes + row->active_age_ns, 0);
        ts_view_free(view);
        assert_true(epoch_destroy(allocator, epoch));
    }
}

/* Labels that would be shown alike are one. */
static void labels_that_look_alike(void **state) {
    (void)state;
    (void)filled(NULL, 1, 100);
    (void)filled("(none)", 1, 100);
    (void)filled("a\t", 1, 100);
    (void)filled("a?", 1, 100);
    (void)filled("(other)", 1, 100);
    ts_view *view = view_of();
    assert_int_equal(row_of(view, "(none)")->active_epochs, 2);
    assert_int_equal(row_of(view, "a?")->active_epochs, 2);
    assert_int_equal(row_of(view, "(other)")->active_epochs, 1);
    assert_int_equal(view->label_rows, 3);
    ts_view_free(view);
}

static void reasons_sum_up(void **state) {
    (void)state;
    EpochId epoch = filled("x", 5000, 128);
    assert_true(epoch_destroy(allocator, epoch));
    (void)filled("y", 5000, 128);
    uint64_t sum = 0;
    (void)slab_stats_prometheus(allocator, text, sizeof text);
    for (const char *at = text; (at = strstr(at, "\ntemporal_slab_slow_path_hits_total{")) != NULL; at++)
        sum += strtoull(strchr(at, '}') + 1, NULL, 10);
    SlabGlobalStats global;
    assert_true(slab_stats_global(allocator, &global));
    assert_true(global.slow_path_hits > 0);
    assert_int_equal(sum, global.slow_path_hits + global.slow_path_epoch_closed);
}

/* ---- epochs ------------------------------------------------------------------------------------------------------ */

/* All of them fit where addresses have 32 bits. */
#define EPOCHS (sizeof(void *) < 8 ? 200u : 300u)

static void lists_of_epochs(void **state) {
    char label[32], count[32];
    (void)state;
    snprintf(count, sizeof count, "\"epoch_count\":%u", EPOCHS);
    for (unsigned i = 0; i < EPOCHS; i++) {
        now += SECOND;
        snprintf(label, sizeof label, "e%03u", (i * 7) % EPOCHS); /* its rank by size */
        (void)filled(label, 8 * (1 + (i * 7) % EPOCHS), 2048);
    }
    for (unsigned limit = 0; limit <= EPOCHS + 1; limit += limit < 3 ? 1 : EPOCHS / 2 - 1) {
        size_t length = slab_stats_epochs_json(allocator, SLAB_EPOCHS_LARGEST, limit, text, sizeof text);
        assert_true(length > 0 && length < sizeof text && strstr(text, count) != NULL);
        const char *at = text;
        for (unsigned i = 0; i < limit && i < EPOCHS; i++) {
            snprintf(label, sizeof label, "{\"label\":\"e%03u\"", EPOCHS - 1 - i);
            at = strstr(at, "{\"label\":");
            assert_true(at && strncmp(at, label, strlen(label)) == 0);
            at++;
        }
        assert_null(strstr(at, "{\"label\":"));
    }
    assert_true(slab_stats_epochs_json(allocator, SLAB_EPOCHS_OLDEST, 2, text, sizeof text) > 0);
    const char *first = strstr(text, "{\"label\":\"e000\""), *second = strstr(text, "{\"label\":\"e007\"");
    assert_true(first && second && first < second);
    ts_view *view = view_of();
    assert_int_equal(view->epoch_rows, TS_VIEW_EPOCHS);
    bool largest = false, oldest = false;
    snprintf(label, sizeof label, "e%03u", EPOCHS - 1);
    for (unsigned i = 0; i < view->epoch_rows; i++) {
        assert_true(i == 0 || view->epoch[i - 1].open_since_ns < view->epoch[i].open_since_ns);
        largest |= strcmp(view->epoch[i].label, label) == 0;
        oldest |= strcmp(view->epoch[i].label, "e000") == 0;
    }
    assert_true(largest && oldest);
    ts_view_free(view);
}

static void label_while_it_changes(void **state) {
    (void)state;
    EpochId epoch = filled("first", 1, 64);
    SlabEpochStats stats;
    assert_true(slab_epoch_set_label(allocator, epoch, "second, of thirty-one bytes..!!"));
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    assert_string_equal(stats.label, "second, of thirty-one bytes..!!");
    assert_true(slab_epoch_set_label(allocator, epoch, NULL));
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    assert_string_equal(stats.label, "");
}

/* ---- doctor ------------------------------------------------------------------------------------------------------ */

static bool doctor_says(const char *words) {
    assert_true(slab_stats_doctor(allocator, text, sizeof text) > 0);
    return strstr(text, words) != NULL;
}

static void doctor(void **state) {
    (void)state;
    assert_true(doctor_says("nothing found") && !doctor_says("most objects"));
    EpochId leak = epoch_open(allocator, "handler:/api/upload", EPOCH_CHURN);
    for (int i = 0; i < 352; i++) assert_non_null(slab_malloc_epoch(allocator, 128, leak));
    (void)filled("handler:/api/list", 1000, 64);
    now += 1000 * SECOND; /* an old epoch alone is none */
    assert_true(doctor_says("nothing found"));
    assert_true(
        doctor_says("; most objects are in `handler:/api/list`: 1000 objects in 1 open epoch, the oldest for 1"));
    assert_true(epoch_close(allocator, leak));
    now += 9 * SECOND;
    assert_true(doctor_says("nothing found"));
    now += SECOND;
    assert_true(
        doctor_says("warning: `handler:/api/upload` has held 45.0 kB in 128-byte objects for 10 s after its close\n"));
    now += 53 * SECOND;
    assert_true(doctor_says(
        "1. critical: `handler:/api/upload` has held 45.0 kB in 128-byte objects for 63 s after its close\n"));
    assert_true(doctor_says("evidence: 352 live objects (45.0 kB) in 1 closed epoch keep 49.1 kB of slabs\n"));
    assert_false(doctor_says("handler:/api/list"));
    /* Ranked: the worse, and then the larger, first. */
    assert_false(slab_free(allocator, text));
    assert_true(doctor_says("\n2. warning: 1 free was refused"));
    EpochId larger = filled("larger", 1000, 2000);
    assert_true(epoch_close(allocator, larger));
    now += 100 * SECOND;
    assert_true(doctor_says("1. critical: `larger` has held 2.0 MB in 2048-byte objects"));
    assert_true(doctor_says("\n2. critical: `handler:/api/upload`") && doctor_says("\n3. warning: 1 free"));
    assert_null(slab_malloc_epoch(allocator, 1, larger));
    assert_true(doctor_says("1 allocation was refused: the epoch was closed"));
    SlabGlobalStats global;
    assert_true(slab_stats_global(allocator, &global));
    assert_true(slab_set_budget(allocator, global.committed_bytes + 1));
    assert_true(doctor_says("critical: the memory budget is nearly used up"));
    (void)slab_stats_json(allocator, text, sizeof text);
    assert_non_null(strstr(text, "\"id\":\"leak_after_close\",\"severity\":\"critical\",\"what\":\"`larger`"));
    assert_true(epoch_destroy(allocator, leak) && epoch_destroy(allocator, larger));
    assert_false(doctor_says("after its close"));
}

/* More leaks than there is room for: the largest are told. */
static void doctor_ranks(void **state) {
    char label[32];
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        snprintf(label, sizeof label, "leak-%02u", i);
        assert_true(epoch_close(allocator, filled(label, 8 * (1 + i * 7 % 40), 2000)));
    }
    now += 20 * SECOND;
    ts_view *view = view_of();
    const ts_finding *f = view->finding;
    assert_int_equal(view->finding_count, TS_FINDINGS);
    for (unsigned i = 1; i < TS_FINDINGS; i++) assert_true(f[i].weight < f[i - 1].weight);
    assert_int_equal(f[0].weight, 40 * TS_UNIT_BYTES);
    assert_int_equal(f[TS_FINDINGS - 1].weight, (40 - TS_FINDINGS + 1) * TS_UNIT_BYTES);
    ts_view_free(view);
}

/* ---- rules, on figures made up ---- */

static ts_view made_up;

static ts_label_stats *one_label(const char *label) {
    memset(&made_up, 0, sizeof made_up);
    made_up.label_rows = 1;
    strcpy(made_up.label[0].label, label);
    return &made_up.label[0];
}

/* Findings of that name that the doctor makes of the figures. */
static const ts_finding *found(const char *id) {
    ts_doctor(&made_up, 0);
    for (unsigned i = 0; i < made_up.finding_count; i++)
        if (strcmp(made_up.finding[i].id, id) == 0) return &made_up.finding[i];
    return NULL;
}

static void leaks_by_kind(void **state) {
    static const struct {
        unsigned kind;
        const char *says;
    } kinds[] = {{0, "16-byte objects"}, {TS_COUNT_SCOPE, "objects of mixed sizes"}, {TS_COUNT_SPAN, "large objects"}};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ts_label_stats *l = one_label("x");
        l->closing_live_objects = 3;
        l->closing_for_ns = 100 * SECOND;
        assert_null(found("leak_after_close")); /* objects of no class yet: they came while the figures were taken */
        l->class_objects[1][1] = 1;
        l->class_bytes[1][1] = 10;
        l->class_objects[1][kinds[i].kind] = 2;
        l->class_bytes[1][kinds[i].kind] = 2000;
        l->class_objects[1][TS_CLASSES - 1] = 1;
        l->class_bytes[1][TS_CLASSES - 1] = 1000;
        const ts_finding *f = found("leak_after_close");
        assert_non_null(f);
        assert_int_equal(f->severity, TS_CRITICAL);
        assert_non_null(strstr(f->what, kinds[i].says));
    }
}

static void epochs_that_are_not_closed(void **state) {
    (void)state;
    ts_label_stats *l = one_label("request");
    l->active_epochs = 99;
    l->active_age_ns = 600 * SECOND;
    l->active_live_objects = 1;
    assert_null(found("epochs_not_closed"));
    l->active_epochs = 100;
    const ts_finding *f = found("epochs_not_closed");
    assert_non_null(f);
    assert_string_equal(f->what, "100 epochs labelled `request` are open, the oldest for 10 min");
    assert_string_equal(f->evidence, "1 live object, 0 B of slabs");
    assert_int_equal(f->severity, TS_WARNING);
    l->is_other = 1; /* of several labels */
    assert_null(found("epochs_not_closed"));
    l->is_other = 0;
    l->active_age_ns = 600 * SECOND - 1; /* connections may be open so long */
    f = found("epochs_not_closed");
    assert_non_null(f);
    assert_int_equal(f->severity, TS_INFO);
    l->active_live_objects = 0; /* an epoch without objects costs nothing */
    assert_null(found("epochs_not_closed"));
    l->active_live_objects = 1;
    l->active_age_ns = 60 * SECOND - 1;
    assert_null(found("epochs_not_closed"));
}

static void figures_that_are_too_high(void **state) {
    (void)state;
    SlabGlobalStats *g = &made_up.global;
    memset(&made_up, 0, sizeof made_up);
    g->lock_contended = 1000;
    assert_null(found("lock_contention"));
    g->lock_contended = 2000;
    g->lock_fast_acquire = 200000;
    assert_null(found("lock_contention"));
    g->lock_fast_acquire = 199999;
    assert_non_null(found("lock_contention"));
    g->madvise_failures = 1;
    g->madvise_calls = 2;
    assert_string_equal(found("purge_failures")->evidence, "madvise_failures 1 of 2 calls");
    SlabClassStats *scope = &made_up.cls[TS_COUNT_SCOPE];
    g->allocated_objects_total = 99999;
    g->slow_path_hits = scope->slow_path_hits = 99999;
    assert_null(found("slow_paths"));
    g->allocated_objects_total = 2000000;
    g->slow_path_hits = scope->slow_path_hits = 200000;
    scope->list_move_partial_to_full = 100000; /* slabs that were needed */
    assert_null(found("slow_paths"));
    scope->list_move_partial_to_full = 99999;
    assert_string_equal(found("slow_paths")->what, "5.0 % of the allocations take a slab for an epoch of few objects");
    g->slow_path_cache_miss = 10000;
    g->empty_slab_overflowed = 10000;
    assert_null(found("memory_back_and_forth"));
    g->slow_path_cache_miss = 20001;
    assert_null(found("memory_back_and_forth"));
    g->empty_slab_overflowed = 10001;
    assert_non_null(found("memory_back_and_forth"));
    g->budget_bytes = 1000;
    g->committed_bytes = 899;
    assert_null(found("budget_near"));
    g->committed_bytes = 900;
    assert_non_null(found("budget_near"));
    g->region_bytes = 10000;
    g->region_used_bytes = 8999;
    assert_null(found("region_near"));
    g->region_used_bytes = 9000;
    assert_non_null(found("region_near"));
    g->region_bytes = g->region_used_bytes = 0;
    assert_null(found("region_near"));
    assert_true(made_up.finding[0].severity == TS_CRITICAL && made_up.finding_count == 5);
}

static void slabs_that_are_sparse(void **state) {
    (void)state;
    SlabGlobalStats *g = &made_up.global;
    ts_label_stats *l = one_label("sparse");
    g->committed_bytes = (uint64_t)20 << 20;
    g->retained_bytes = (uint64_t)30 << 20; /* taken a moment later */
    assert_null(found("sparse_slabs"));
    g->retained_bytes = ((uint64_t)4 << 20) + 1;
    assert_null(found("sparse_slabs"));
    g->retained_bytes = (uint64_t)4 << 20;
    g->live_bytes = ((uint64_t)8 << 20) + 1;
    assert_null(found("sparse_slabs"));
    g->live_bytes = (uint64_t)8 << 20;
    assert_non_null(found("sparse_slabs"));
    assert_null(strstr(found("sparse_slabs")->evidence, "sparse")); /* no label has them */
    l->active_rss_bytes = 5000000;
    l->active_live_bytes = 1000000;
    assert_non_null(strstr(found("sparse_slabs")->evidence, "; most of it `sparse`, 4.0 MB in 0 epochs"));
}

/* A worse finding takes the place of the least one, a lesser one gets none. */
static void more_findings_than_places(void **state) {
    (void)state;
    memset(&made_up, 0, sizeof made_up);
    made_up.label_rows = TS_FINDINGS;
    for (unsigned i = 0; i < TS_FINDINGS; i++) {
        ts_label_stats *l = &made_up.label[i];
        snprintf(l->label, sizeof l->label, "label-%u", i);
        l->closing_live_objects = l->class_objects[1][0] = 1;
        l->closing_for_ns = i < 2 ? 20 * SECOND : 100 * SECOND; /* two warnings, the others are critical */
        l->closing_rss_bytes = 1000 + i;
    }
    SlabGlobalStats *g = &made_up.global;
    g->rejected_frees_total = 1; /* a warning of less weight */
    g->lock_contended = 2000;    /* a hint */
    assert_null(found("rejected_frees"));
    assert_null(found("lock_contention"));
    assert_int_equal(made_up.finding_count, TS_FINDINGS);
    g->madvise_failures = 5000;
    assert_non_null(found("purge_failures"));
    assert_string_equal(made_up.finding[TS_FINDINGS - 1].id, "leak_after_close");
    assert_int_equal(made_up.finding[TS_FINDINGS - 1].weight, 1001);
    for (unsigned i = 0; i < 2; i++) made_up.label[i].closing_for_ns = 100 * SECOND;
    assert_null(found("purge_failures")); /* all are worse */
    assert_null(found("rejected_frees") ? found("rejected_frees") : found("lock_contention"));
    g->slow_path_epoch_closed = 1;
    g->allocated_objects_total = g->slow_path_hits = 1000000;
    g->slow_path_cache_miss = g->empty_slab_overflowed = 20000;
    g->committed_bytes = (uint64_t)64 << 20;
    g->budget_bytes = (uint64_t)65 << 20;
    assert_non_null(found("budget_near")); /* critical, and the heaviest */
    assert_int_equal(made_up.finding[0].weight, g->committed_bytes);
    for (unsigned i = 1; i < TS_FINDINGS; i++) assert_string_equal(made_up.finding[i].id, "leak_after_close");
}

/* ---- formatting -------------------------------------------------------------------------------------------------- */

#define FORMATS(want, call)                                  \
    do {                                                     \
        char out[64];                                        \
        ts_sink s = ts_sink_buffer(out, sizeof out);         \
        call;                                                \
        assert_int_equal(ts_sink_end(&s), sizeof(want) - 1); \
        assert_string_equal(out, want);                      \
    } while (0)

static void formatting(void **state) {
    (void)state;
    FORMATS("0", ts_put_u64(&s, 0));
    FORMATS("18446744073709551615", ts_put_u64(&s, UINT64_MAX));
    FORMATS("   42", ts_put_u64_wide(&s, 42, 5));
    FORMATS("42   ", ts_put_u64_wide(&s, 42, -5));
    FORMATS("\xc3\xa9  ", ts_put_wide(&s, "\xc3\xa9", -3));
    FORMATS("?[m?", ts_put_wide(&s, "\033[m\n", 3));
    FORMATS("?\x7e? \xc2\xa0?x", ts_put_shown(&s, "\x1f\x7e\x7f \xc2\xa0\xc2\x9bx"));
    /* The text is UTF-8, with any bytes in memory. */
    FORMATS("?x?\xe2\x82\xac??", ts_put_shown(&s, "\xffx\x80\xe2\x82\xac\xe2\x82"));
    FORMATS("???\xf0\x9f\x98\x80?", ts_put_shown(&s, "\xed\xa0\x80\xf0\x9f\x98\x80\xc3"));
    FORMATS("?a ", ts_put_wide(&s,
                               "\xc3"
                               "a",
                               -3));
    FORMATS("1.000000005", ts_put_decimal(&s, 1000000005, 9, 9));
    FORMATS("0.000000000", ts_put_decimal(&s, 0, 9, 9));
    FORMATS("12.34", ts_put_decimal(&s, 1234, 2, 2));
    FORMATS("0.0", ts_put_decimal(&s, 9, 2, 1));
    FORMATS("18446744073.709551615", ts_put_decimal(&s, UINT64_MAX, 9, 9));
    FORMATS("999 B", ts_put_size(&s, 999));
    FORMATS("1.0 kB", ts_put_size(&s, 1000));
    FORMATS("45.0 kB", ts_put_size(&s, 45056));
    FORMATS("999.9 MB", ts_put_size(&s, 999999999));
    FORMATS("18.4 EB", ts_put_size(&s, UINT64_MAX));
    FORMATS("999 ms", ts_put_duration(&s, 999999999));
    FORMATS("63 s", ts_put_duration(&s, 63 * SECOND));
    FORMATS("10 min", ts_put_duration(&s, 600 * SECOND));
    FORMATS("10 h", ts_put_duration(&s, 36000 * SECOND));
    FORMATS("\"a\\\"\\\\\\n?\"", ts_put_quoted(&s, "a\"\\\n\x01"));
    FORMATS("\"?\\\"?\xc3\xa4??\"", ts_put_quoted(&s, "\xc3\"\xf5\xc3\xa4\xe2\x82"));
}

#define WITH_ALLOCATOR(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_ALLOCATOR(labels_are_bounded),
        WITH_ALLOCATOR(reasons_sum_up),
        WITH_ALLOCATOR(labels_without_what_is_pending),
        WITH_ALLOCATOR(labels_that_look_alike),
        WITH_ALLOCATOR(lists_of_epochs),
        WITH_ALLOCATOR(label_while_it_changes),
        WITH_ALLOCATOR(doctor),
        WITH_ALLOCATOR(doctor_ranks),
        cmocka_unit_test(leaks_by_kind),
        cmocka_unit_test(epochs_that_are_not_closed),
        cmocka_unit_test(figures_that_are_too_high),
        cmocka_unit_test(slabs_that_are_sparse),
        cmocka_unit_test(more_findings_than_places),
        cmocka_unit_test(formatting),
    };
    return cmocka_run_group_tests_name("observe.view", tests, NULL, NULL);
}
