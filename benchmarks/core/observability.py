#!/usr/bin/env python3
"""What the statistics cost: instructions per operation with and without the counters that only they read.

Builds the library a second time with TSLAB_UNCOUNTED, in build/uncounted, and counts both with valgrind's callgrind as
count_instructions.py does. The figure is the mean over the calls of a kind in a work: allocations, frees, calls of a domain. Counters that the allocator
itself works by (a magazine's depth stands in the word that counts its allocations; a scope slab is empty when as many
objects are freed as were allocated) are in both builds: without them it would be another allocator.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))

from core import count_instructions as count  # noqa: E402
from core import run_bench  # noqa: E402
from harness import place  # noqa: E402

# magazine, magazine with evictions, claimed words, sizes mixed, scope slabs
WORKS = ["random_replace_2k", "fifo_replace", "free_all_alloc_all", "mixed_400", "request"]
HEADER = "work,call,calls,counted,uncounted,difference"
LIMIT = 1.0


def build_uncounted(log):
    folder = run_bench.ROOT / "build" / "uncounted"
    options = ["-DTSLAB_UNCOUNTED=ON", "-DTSLAB_BUILD_TESTS=OFF"]
    for command in (
        ["cmake", "-S", str(run_bench.ROOT), "-B", str(folder), *options],
        ["cmake", "--build", str(folder), "-j", str(os.cpu_count() or 1), "--target", "core_bench_tslab"],
    ):
        answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        log.write(answer.stdout)
        if answer.returncode != 0:
            print(answer.stdout[-2000:], file=sys.stderr)
            run_bench.fail(f"{' '.join(command)} failed")
    return folder / "benchmarks" / "core_bench_tslab"


def measure(program, work, folder):
    """{kind: (calls, instructions per call)}; start-up and warm-up cancel out."""
    few, many = (count.profile(run_bench.report.OURS, program, work, reps, pathlib.Path(folder)) for reps in (1, 3))
    result = {}
    for kind in count.FUNCTIONS:
        calls = many[kind][0] - few[kind][0]
        if calls > 0:
            result[kind] = calls, (many[kind][1] - few[kind][1]) / calls
    return result


def main(arguments):
    parser = run_bench.Parser(prog="observability.py", description=__doc__)
    parser.add_argument("--works", metavar="A,B", help=f"default {','.join(WORKS)}")
    parser.add_argument("--build", metavar="DIR", help="build directory (default build/release, else build)")
    parser.add_argument("--csv", metavar="FILE", type=place.output, help="write the results to FILE")
    options = parser.parse_args(arguments)
    if options.csv is not None:  # before anything is built and counted
        try:
            open(options.csv, "a", encoding="utf-8").close()
        except OSError as error:
            run_bench.fail(f"--csv {options.csv}: {error.strerror}")
    options.allocators = "tslab"
    programs, _ = run_bench.find_programs(options)
    run_bench.identify(programs)
    works = run_bench.choose(options.works, run_bench.list_works(programs), "work") if options.works else WORKS
    with tempfile.TemporaryDirectory() as folder:
        with open(pathlib.Path(folder) / "log", "w", encoding="utf-8") as log:
            uncounted = build_uncounted(log)
        lines, means = [HEADER], {}
        print(f"{'work':<20} {'call':<7} {'counted':>9} {'uncounted':>10} {'difference':>11}")
        for work in works:
            ours, without = (measure(program, work, folder) for program in (programs["tslab"], uncounted))
            for kind, (calls, each) in ours.items():
                other = without[kind][1]
                means[f"{work}, {kind}"] = each - other
                lines.append(f"{work},{kind},{calls},{each:.3f},{other:.3f},{each - other:.3f}")
                print(f"{work:<20} {kind:<7} {each:>9.2f} {other:>10.2f} {each - other:>11.2f}", flush=True)
    if options.csv:
        pathlib.Path(options.csv).write_text("\n".join(lines) + "\n", encoding="utf-8")
    worst = max(means, key=means.get)
    print(f"an operation: at most {means[worst]:.2f} instructions ({worst}), limit {LIMIT:g}")
    return 0 if means[worst] <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
