#!/usr/bin/env python3
"""What the statistics cost: instructions per operation with and without the counters that only they read.

Builds the library a second time with TSLAB_UNCOUNTED, in build/uncounted, and counts both with valgrind's callgrind as
count_instructions.py does. The figure is the mean over the calls of a kind in a work: allocations, frees, calls of a domain. Counters that
the allocator itself works by (a magazine's depth stands in the word that counts its allocations; a scope slab is empty when as many
objects are freed as were allocated) are in both builds: without them it would be another allocator.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from core import run_bench  # noqa: E402
from core.count_instructions import instructions  # noqa: E402
from harness import ending, run  # noqa: E402

# magazine, magazine with evictions, claimed words, sizes mixed, scope slabs
WORKS = "random_replace_2k,fifo_replace,free_all_alloc_all,mixed_400,request"
LIMIT = 1.0


def build_uncounted():
    folder = run.ROOT / "build" / "uncounted"
    for command in (["cmake", "-S", run.ROOT, "-B", folder, "-DTSLAB_UNCOUNTED=ON", "-DTSLAB_BUILD_TESTS=OFF"],
                    ["cmake", "--build", folder, "-j", os.cpu_count() or 1, "--target", "core_bench_tslab"]):
        run.output_of(command)
    return folder / "benchmarks" / "core_bench_tslab"


def main(arguments):
    options = run.Parser("observability.py", __doc__, f"works={WORKS} build csv").parse_args(arguments)
    options.allocators = "tslab"
    programs = run_bench.find_programs(options)[0]
    works = run.choose(options.works, run_bench.list_works(programs), "work")
    uncounted = build_uncounted()
    rows = []
    for work in works:
        ours, without = (instructions(program, work) for program in (programs["tslab"], uncounted))
        rows += [(work, kind, calls, each, without[kind][1], each - without[kind][1]) for kind, (calls, each) in ours.items()]
    heading = ["work", "call", "calls", "counted", "uncounted", "difference"]
    cells = [[work, kind, str(calls), *(f"{figure:.3f}" for figure in figures)] for work, kind, calls, *figures in rows]
    print("\n".join(run.aligned([heading, *cells], 2)))
    if options.csv:
        run.write_csv(options.csv, [], heading, cells)
    worst = max(rows, key=lambda row: row[-1])
    print(f"an operation: at most {worst[-1]:.2f} instructions ({worst[0]}, {worst[1]}), limit {LIMIT:g}")
    return 0 if worst[-1] <= LIMIT else 1


if __name__ == "__main__":
    ending.run("observability", main)
