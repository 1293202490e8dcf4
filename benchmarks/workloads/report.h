/*
 * The report of a workload at its end, for people and as JSON: latencies, resident memory, and temporal-slab's own
 * statistics. malloc has none: "n/a", and null.
 */
#ifndef WORKLOADS_REPORT_H
#define WORKLOADS_REPORT_H

#include <stdio.h>

#include <jansson.h>
#include <tslab/stats.h>
#include <tslab/tslab.h>

#include "bench_hist.h"
#include "harness.h"
#include "rss.h"

#define REPORT_LABELS_MAX 64u

/* The epochs of one label that hold objects. */
typedef struct LeakRow {
    char label[SLAB_LABEL_BYTES];
    uint64_t epochs;
    uint64_t objects;
    uint64_t bytes;      /* slots */
    uint64_t slab_bytes; /* of the slabs that these objects keep in use */
    uint64_t oldest_age_ns;
} LeakRow;

/* Rows of more than REPORT_LABELS_MAX labels are counted in the last one, under "(other)". */
typedef struct LeakReport {
    size_t count;
    uint64_t objects;
    LeakRow rows[REPORT_LABELS_MAX];
} LeakReport;

/* Asks every open and draining epoch of the allocator for its live objects. false: no memory for the list. */
bool leak_report_collect(SlabAllocator *slab, LeakReport *out);
/* Destroys every epoch that holds an object; returns how many. */
uint64_t leak_report_destroy_epochs(SlabAllocator *slab);

/* Bytes at four moments, and the sampled series between them. */
typedef struct MemoryReport {
    uint64_t before_bytes;        /* all set up, nothing allocated */
    uint64_t peak_bytes;          /* the largest of all samples and of the two others */
    uint64_t after_bytes;         /* everything freed that is to be freed; leaks are still there */
    uint64_t after_destroy_bytes; /* temporal-slab: the leaking epochs destroyed; otherwise after_bytes */
    uint64_t high_water_bytes;    /* the kernel's own maximum since the process started */
    uint64_t sample_ms;
    const RssSeries *series;
} MemoryReport;

/* Sets peak_bytes and high_water_bytes from the others. */
void memory_report_finish(MemoryReport *memory);

void report_print_latencies(const bench_hist *latencies);
void report_print_memory(const MemoryReport *memory, WlAllocator allocator);
/* stats and leaks: NULL for malloc. */
void report_print_allocator(const SlabGlobalStats *stats);
void report_print_leaks(const LeakReport *leaks);

/* New references; NULL arguments give JSON null. */
json_t *report_json_latencies(const bench_hist *latencies);
json_t *report_json_memory(const MemoryReport *memory);
json_t *report_json_allocator(const SlabGlobalStats *stats);
json_t *report_json_leaks(const LeakReport *leaks);
/* Opens the file before the run, so that a bad name costs no run: exit 2 with a line that names it. */
FILE *report_open_json(const char *path, const char *tool);
/* Writes the document, drops the reference and closes the file; exits 1 with a line if it cannot. */
void report_write_json(json_t *document, FILE *file, const char *path, const char *tool);

#endif
