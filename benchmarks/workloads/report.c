/* See report.h. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB (1024.0 * 1024.0)

/* ---- leaks ------------------------------------------------------------------------------------ */

/* The open and draining epochs, in a mapping of *bytes. NULL: none, or no memory (then *count is not 0). */
static EpochId *list_epochs(SlabAllocator *slab, size_t *count, size_t *bytes) {
    *count = slab_epochs(slab, NULL, 0);
    *bytes = *count * sizeof(EpochId);
    if (*count == 0) return NULL;
    EpochId *epochs = bench_map(*bytes);
    size_t now = slab_epochs(slab, epochs, *count);
    if (now < *count) *count = now;
    return epochs;
}

static LeakRow *row_of(LeakReport *report, const char *label) {
    for (size_t i = 0; i < report->count; i++)
        if (strcmp(report->rows[i].label, label) == 0) return &report->rows[i];
    if (report->count == REPORT_LABELS_MAX) return &report->rows[REPORT_LABELS_MAX - 1];
    LeakRow *row = &report->rows[report->count++];
    snprintf(row->label, sizeof row->label, "%s", report->count == REPORT_LABELS_MAX ? "(other)" : label);
    return row;
}

bool leak_report_collect(SlabAllocator *slab, LeakReport *out) {
    memset(out, 0, sizeof *out);
    size_t count, bytes;
    EpochId *epochs = list_epochs(slab, &count, &bytes);
    if (epochs == NULL) return count == 0;
    for (size_t i = 0; i < count; i++) {
        SlabEpochStats stats;
        if (!slab_stats_epoch(slab, SLAB_ALL_CLASSES, epochs[i], &stats) || stats.live_objects == 0) continue;
        LeakRow *row = row_of(out, stats.label[0] != '\0' ? stats.label : "(no label)");
        row->epochs++;
        row->objects += stats.live_objects;
        row->bytes += stats.live_bytes;
        row->slab_bytes += stats.estimated_rss_bytes;
        if (stats.age_ns > row->oldest_age_ns) row->oldest_age_ns = stats.age_ns;
        out->objects += stats.live_objects;
    }
    bench_unmap(epochs, bytes);
    return true;
}

uint64_t leak_report_destroy_epochs(SlabAllocator *slab) {
    size_t count, bytes;
    uint64_t destroyed = 0;
    EpochId *epochs = list_epochs(slab, &count, &bytes);
    if (epochs == NULL) return 0;
    for (size_t i = 0; i < count; i++) {
        SlabEpochStats stats;
        if (slab_stats_epoch(slab, SLAB_ALL_CLASSES, epochs[i], &stats) && stats.live_objects != 0 &&
            epoch_destroy(slab, epochs[i]))
            destroyed++;
    }
    bench_unmap(epochs, bytes);
    return destroyed;
}

/* ---- memory ----------------------------------------------------------------------------------- */

void memory_report_finish(MemoryReport *memory) {
    memory->peak_bytes = memory->series->peak_bytes;
    if (memory->before_bytes > memory->peak_bytes) memory->peak_bytes = memory->before_bytes;
    if (memory->after_bytes > memory->peak_bytes) memory->peak_bytes = memory->after_bytes;
    memory->high_water_bytes = rss_high_water_bytes();
}

/* ---- for people ------------------------------------------------------------------------------- */

static double us(uint64_t ns) { return (double)ns / 1e3; }
static uint64_t quantile(const bench_hist *latencies, double fraction) {
    return (uint64_t)bench_hist_percentile(latencies, fraction, 1);
}
static double mean(const bench_hist *latencies) {
    return latencies->count == 0 ? 0 : bench_hist_sum(latencies) / (double)latencies->count;
}

void report_print_latencies(const bench_hist *latencies) {
    printf("latency of a request    p50 %.1f us, p99 %.1f us, p99.9 %.1f us, max %.1f us, mean %.1f us\n",
           us(quantile(latencies, 0.5)), us(quantile(latencies, 0.99)), us(quantile(latencies, 0.999)),
           us(latencies->max), mean(latencies) / 1e3);
}

void report_print_memory(const MemoryReport *memory, WlAllocator allocator) {
    printf("resident memory         %.1f MiB before, %.1f at peak, %.1f now, %.1f given back\n",
           (double)memory->before_bytes / MIB, (double)memory->peak_bytes / MIB, (double)memory->after_bytes / MIB,
           (double)(memory->peak_bytes - memory->after_bytes) / MIB);
    printf("  samples               %" PRIu64 ", one every %" PRIu64 " ms; the kernel's maximum %.1f MiB\n",
           memory->series->taken, memory->sample_ms, (double)memory->high_water_bytes / MIB);
    if (allocator == WL_TSLAB && memory->after_destroy_bytes != memory->after_bytes)
        printf("  leaking epochs gone   %.1f MiB, after epoch_destroy of each\n",
               (double)memory->after_destroy_bytes / MIB);
}

void report_print_allocator(const SlabGlobalStats *stats) {
    if (stats == NULL) {
        printf("fast path               n/a (malloc does not say)\n"
               "slow paths              n/a\n"
               "slabs                   n/a\n"
               "purges                  n/a\n");
        return;
    }
    uint64_t allocated = stats->allocated_objects_total;
    printf("fast path               %.4f %% of %" PRIu64 " allocations\n",
           allocated == 0 ? 0.0 : 100.0 * (1.0 - (double)stats->slow_path_hits / (double)allocated), allocated);
    printf("slow paths              %" PRIu64 ": no retained slab %" PRIu64 "; refused, epoch closed %" PRIu64 "\n",
           stats->slow_path_hits, stats->slow_path_cache_miss, stats->slow_path_epoch_closed);
    printf("partial misses          %" PRIu64 ": left by ended threads %" PRIu64 ", freed by other threads %" PRIu64
           "\n",
           stats->current_partial_null + stats->current_partial_full, stats->current_partial_null,
           stats->current_partial_full);
    printf("slabs                   %" PRIu64 " made, %" PRIu64 " recycled, %" PRIu64
           " given back, %.1f MiB retained\n",
           stats->new_slab_count, stats->empty_slab_recycled, stats->empty_slab_overflowed,
           (double)stats->retained_bytes / MIB);
    printf("purges                  %" PRIu64 " calls, %.1f MiB, %" PRIu64 " failures\n", stats->madvise_calls,
           (double)stats->madvise_bytes / MIB, stats->madvise_failures);
}

void report_print_leaks(const LeakReport *leaks) {
    if (leaks == NULL) {
        printf("leaked, by epoch label  n/a (malloc does not say)\n");
        return;
    }
    printf("leaked, by epoch label  %" PRIu64 " objects\n", leaks->objects);
    for (size_t i = 0; i < leaks->count; i++) {
        const LeakRow *row = &leaks->rows[i];
        printf("  \"%s\": %" PRIu64 " objects, %.1f MiB in slabs of %.1f MiB, in %" PRIu64
               " epochs, the oldest opened %.1f s ago\n",
               row->label, row->objects, (double)row->bytes / MIB, (double)row->slab_bytes / MIB, row->epochs,
               (double)row->oldest_age_ns / 1e9);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static json_t *integer(uint64_t value) { return json_integer((json_int_t)value); }

json_t *report_json_latencies(const bench_hist *latencies) {
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:f}", "count", (json_int_t)latencies->count, "p50",
                     integer(quantile(latencies, 0.5)), "p90", integer(quantile(latencies, 0.9)), "p99",
                     integer(quantile(latencies, 0.99)), "p99_9", integer(quantile(latencies, 0.999)), "max",
                     integer(latencies->max), "mean", mean(latencies));
}

json_t *report_json_memory(const MemoryReport *memory) {
    json_t *points = json_array();
    for (size_t i = 0; i < memory->series->count; i++)
        json_array_append_new(points, json_pack("[I, I]", (json_int_t)memory->series->points[i].at_ms,
                                                (json_int_t)memory->series->points[i].bytes));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "before_bytes", integer(memory->before_bytes),
                     "peak_bytes", integer(memory->peak_bytes), "after_bytes", integer(memory->after_bytes),
                     "given_back_bytes", integer(memory->peak_bytes - memory->after_bytes), "after_destroy_bytes",
                     integer(memory->after_destroy_bytes), "high_water_bytes", integer(memory->high_water_bytes),
                     "sample_ms", integer(memory->sample_ms), "samples", integer(memory->series->taken),
                     "series_ms_bytes", points);
}

json_t *report_json_allocator(const SlabGlobalStats *stats) {
    if (stats == NULL) return json_null();
    uint64_t allocated = stats->allocated_objects_total;
    json_t *rate = allocated == 0 ? json_null() : json_real(1.0 - (double)stats->slow_path_hits / (double)allocated);
    json_t *out = json_object();
    json_object_set_new(out, "fast_path_rate", rate);
    json_object_set_new(out, "allocated_objects_total", integer(allocated));
    json_object_set_new(out, "freed_objects_total", integer(stats->freed_objects_total));
    json_object_set_new(out, "live_objects", integer(stats->live_objects));
    json_object_set_new(out, "slow_path_hits", integer(stats->slow_path_hits));
    json_object_set_new(out, "slow_path_cache_miss", integer(stats->slow_path_cache_miss));
    json_object_set_new(out, "slow_path_epoch_closed", integer(stats->slow_path_epoch_closed));
    json_object_set_new(out, "current_partial_null", integer(stats->current_partial_null));
    json_object_set_new(out, "current_partial_full", integer(stats->current_partial_full));
    json_object_set_new(out, "new_slab_count", integer(stats->new_slab_count));
    json_object_set_new(out, "empty_slab_recycled", integer(stats->empty_slab_recycled));
    json_object_set_new(out, "empty_slab_overflowed", integer(stats->empty_slab_overflowed));
    json_object_set_new(out, "madvise_calls", integer(stats->madvise_calls));
    json_object_set_new(out, "madvise_bytes", integer(stats->madvise_bytes));
    json_object_set_new(out, "madvise_failures", integer(stats->madvise_failures));
    json_object_set_new(out, "epoch_close_calls", integer(stats->epoch_close_calls));
    json_object_set_new(out, "recycle_rate_pct", json_real(stats->recycle_rate_pct));
    json_object_set_new(out, "slabs_in_use", integer(stats->total_partial_slabs + stats->total_full_slabs));
    json_object_set_new(out, "committed_bytes", integer(stats->committed_bytes));
    json_object_set_new(out, "retained_bytes", integer(stats->retained_bytes));
    json_object_set_new(out, "metadata_bytes", integer(stats->metadata_bytes));
    return out;
}

json_t *report_json_leaks(const LeakReport *leaks) {
    if (leaks == NULL) return json_null();
    json_t *rows = json_array();
    for (size_t i = 0; i < leaks->count; i++) {
        const LeakRow *row = &leaks->rows[i];
        json_array_append_new(rows, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "label", row->label, "epochs",
                                              (json_int_t)row->epochs, "objects", (json_int_t)row->objects, "bytes",
                                              (json_int_t)row->bytes, "slab_bytes", (json_int_t)row->slab_bytes,
                                              "oldest_age_ns", (json_int_t)row->oldest_age_ns));
    }
    return rows;
}

FILE *report_open_json(const char *path, const char *tool) {
    FILE *file = fopen(path, "w");
    if (file == NULL) wl_die(BENCH_EXIT_USAGE, tool, "--json=%s: %s", path, strerror(errno));
    return file;
}

void report_write_json(json_t *document, FILE *file, const char *path, const char *tool) {
    bool written = json_dumpf(document, file, JSON_INDENT(1)) == 0 && fputc('\n', file) != EOF;
    if (fclose(file) != 0 || !written) wl_die(BENCH_EXIT_FAILED, tool, "--json=%s: cannot be written", path);
    json_decref(document);
}
