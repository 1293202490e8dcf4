/*
 * Prints docs/stats.md anew: the page up to its line MARK, which people write, then every figure of the one list. A
 * test compares the output with the file; `make docs` writes it.
 *
 *     stats_docs docs/stats.md
 */
#include "advice/fields.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *unit_name(ts_field_unit unit) {
    switch (unit) {
    case TS_BYTES: return "bytes";
    case TS_SLABS: return "slabs";
    case TS_NS: return "ns";
    case TS_PERCENT: return "%";
    case TS_ID: return "id";
    case TS_RATIO: return "ratio";
    default: return "count";
    }
}

static void head(const char *title, const char *text) {
    printf("\n## %s\n\n%s\n\n", title, text);
    printf("| field | unit | kind | meaning | when to worry | metric |\n|---|---|---|---|---|---|\n");
}

static void row(const char *field, ts_field_type type, ts_field_scope scope, ts_field_unit unit, const char *metric,
                const char *meaning, const char *worry, bool say_scope) {
    printf("| `%s` | %s | %s%s | %s | %s | ", field, unit_name(unit), type == TS_COUNTER ? "counter" : "gauge",
           say_scope && scope == TS_SCOPE_WHOLE ? ", whole allocator" : "", meaning, worry[0] ? worry : "-");
    if (metric[0])
        printf("`temporal_slab_%s%s` |\n", metric, type == TS_COUNTER ? "_total" : "");
    else
        printf("- |\n");
}

#define ROW(field, type, scope, unit, metric, meaning, worry) \
    row(#field, TS_##type, TS_SCOPE_##scope, TS_##unit, metric, meaning, worry, true);
#define PLAIN(field, type, scope, unit, metric, meaning, worry) \
    row(#field, TS_##type, TS_SCOPE_##scope, TS_##unit, metric, meaning, worry, false);

#define MARK "<!-- The rest comes from src/advice/fields.h: `make docs` -->\n"

static int copy(const char *path) {
    FILE *file = fopen(path, "r");
    char line[1024] = "";
    if (!file) {
        perror(path);
        return 1;
    }
    while (strcmp(line, MARK) != 0 && fgets(line, sizeof line, file)) fputs(line, stdout);
    bool found = strcmp(line, MARK) == 0;
    if (!found) fprintf(stderr, "stats_docs: %s has no line %s", path, MARK);
    return fclose(file) != 0 || !found;
}

int main(int argc, char **argv) {
    if (argc != 2 || strcmp(argv[1], "--help") == 0) {
        fputs("usage: stats_docs docs/stats.md\n", argc == 2 ? stdout : stderr);
        return argc == 2 ? 0 : 2;
    }
    if (copy(argv[1]) != 0) return 1;
    head("Classes and the whole: `SlabClassStats`, `SlabGlobalStats`",
         "The first eight are `PerfCounters` too, which has the sum of the last two as `current_partial_miss`: 0 in a "
         "program of one thread. A slab that is taken because all are full is no miss. A field "
         "marked *whole allocator* is counted once per allocator: "
         "`slab_stats_class` gives the allocator's figure in every class. The metrics of the others have the label "
         "`class`: the size of a slot, `scope` or `span`. `slow_path_hits` is the metric "
         "`temporal_slab_slow_path_hits_total` by `class` and `reason` (`cache_miss`, `warm_slab`, `other`, "
         "`epoch_closed`); each slow path has one reason.");
    TS_STATS_SHARED(ROW)
    head("The whole alone: `SlabGlobalStats`", "Beside `version` and `class_count`, the number of size classes.");
    TS_STATS_GLOBAL(PLAIN)
    head("Epochs: `SlabEpochStats`",
         "Of one epoch, and there of one class or of all. Beside these: `version`, `class_index` and `object_size` as "
         "asked for, `state` (in JSON `active`, `closing`, `spilled` or `closed`), `flags` (in JSON `kind`: `churn` or "
         "`scope`) "
         "and "
         "`label`.");
    TS_STATS_EPOCH(PLAIN)
    head("Labels",
         "Sums over the epochs of one label: `labels` in JSON, and the metrics of epochs, with the labels `label` and "
         "`state` (`active`, `closing` or `spilled`). At most 64 labels, those with the most slabs of the first 1,023 "
         "that are "
         "met; the rest is summed in "
         "`(other)`, and epochs without a label in `(none)`. `temporal_slab_epoch_class_live_objects`, "
         "`temporal_slab_epoch_class_live_bytes`, `temporal_slab_epoch_class_slabs` and "
         "`temporal_slab_epoch_class_estimated_rss_bytes` tell `class` apart too. "
         "`temporal_slab_label_lock_waits_total` "
         "and `temporal_slab_label_cas_retries_total` say which label meets contention: of the whole process, by the "
         "label of the epoch in which the thread works that waits or tries again. At most 32 labels there, the rest in "
         "`(other)`.");
    TS_STATS_LABEL(PLAIN)
    head(
        "Nodes: `SlabNodeStats`",
        "Of one NUMA node, `node`, an id as the system has it (docs/numa.md). `slab_stats_node` asks the system for "
        "every page of the allocator. What needs no such question is in JSON (`nodes`, with `node`) and in the metrics "
        "with the label `node`: a row for each node that the allocator tells apart, none without the option `numa` "
        "and `epoch_bind`.");
    TS_STATS_NODE(PLAIN)
    head(
        "Zones",
        "Of each `SlabZones` that is open, as it was after the last call on it: `zones` in JSON, with `device`, and "
        "the "
        "metrics with the label `device`. They are of the process, the same for each allocator. The zones by state are "
        "the metric `temporal_slab_zones` with the label `state` (`empty`, `active`, `full` or `failed`). A process "
        "shows 8 of them. `slab_zones_stats` asks the device too, and tells which zones are open.");
    TS_STATS_ZONES(PLAIN)
    head("Timing: `SlabThreadStats`",
         "From the operations that the option `sample_rate` picks; beside `version` and `sample_rate`. "
         "`slab_stats_thread` gives those of the calling thread, JSON (`samples`) and metrics those of all threads "
         "there ever were.");
    TS_STATS_SAMPLES(PLAIN)
    head(
        "Stacks: `SlabStackSample`",
        "What is live, by the call stack that allocated it, from the objects that the option `sample_stacks` picks; "
        "beside `version`, `state`, `label` and `reserved` (0). `frames` are `frame_count` return addresses, innermost "
        "first. In JSON `stacks` has the present mean (`sample_stacks`), `samples_taken`, `samples_dropped`, the "
        "number of "
        "stacks (`count`), the `modules` that the addresses lie in (`base`: an address less it is the address in the "
        "file "
        "`path`; `start`, `end`), and the 64 largest stacks (`sites`; a quarter of them for closed epochs).");
    TS_STATS_STACK(PLAIN)
    puts("\nIn JSON `holders` says who holds what, estimated from `samples` samples: `threads` by the name that the "
         "thread had when it "
         "allocated (the 16 that hold most, and `(others)`), `functions` by the program's own functions, where there "
         "is no other "
         "label than `malloc` (a program without epochs under libtslab-malloc). Each has `samples`, `live_objects` and "
         "`live_bytes`; "
         "a function has `frames`, the return addresses that it comes by, outermost first.");
    return ferror(stdout) != 0;
}
