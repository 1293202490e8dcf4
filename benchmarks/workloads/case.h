/*
 * Common to the four small programs of `make run` (xml_tree, lua_states, big_answers, idle_connections): the command
 * line, the latencies, the resident memory, and the result as JSON in the form of the other programs.
 *
 *     PROGRAM --allocator=tslab|malloc [--seconds=N] [--json=FILE] [FILE]
 */
#ifndef WORKLOADS_CASE_H
#define WORKLOADS_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bench_hist.h"
#include "harness.h"
#include "report.h"
#include "rss.h"

typedef struct Case {
    const char *tool;
    WlAllocator allocator;
    double seconds;
    const char *input; /* the argument FILE, or NULL */
    const char *json_path;
    FILE *json;
    bench_hist latencies;
    RssSeries series;
    MemoryReport memory;
    uint64_t digest; /* of the requests' results: the same with every allocator */
    uint64_t begin_ns, end_ns;
} Case;

/* One per process. Exits on wrong usage, and after --help. */
Case *case_begin(int argc, char **argv, const char *tool, const char *what);
/* From here on memory is sampled and the time runs. */
void case_start(Case *run);
/* Whether another request is to be served. */
bool case_goes_on(const Case *run);
/* FNV-1a over a request's result. */
uint64_t case_hash(uint64_t hash, const void *bytes, size_t count);
#define CASE_HASH_START UINT64_C(0xcbf29ce484222325)
/* Every request of a kind computes the same: exits 1 if this one did not. */
void case_same(Case *run, uint64_t digest);
/* Measures the memory as it is now, prints the figures and writes them. The exit code of the program. */
int case_finish(Case *run);

#endif
