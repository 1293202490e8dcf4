#!/usr/bin/env python3
"""Ten trials of each number of threads, beside a peer in the same run, and what a change must not lose.

The median and the interquartile range of throughput, p50 and p99 (benchmark_threads). The gate is on the quotient to the peer:
p50 and p99 of objects that their own thread frees one by one, that another frees, and that go 100,000 at once. Counts need no clock:
partial misses and slow paths of a healthy run (synthetic_bench). Exit code 1 where a limit is missed, 2 where nothing was measured.
"""

import collections
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, peers, run  # noqa: E402

OURS = "tslab"
THREADS = (1, 2, 4, 8, 16)
# frees, column, at most so many times the peer's; wider than the measurements on a shared machine of two processors
TIMES = [("private", "p50_ns", 1.25), ("private", "p99_ns", 1.25), ("cross", "p50_ns", 1.5), ("cross", "p99_ns", 1.5),
         ("batch", "p50_ns", 0.75), ("batch", "p99_ns", 0.5)]
# pattern of synthetic_bench, at most so many slow paths in a hundred allocations; partial misses: none, as it has one thread
COUNTS = [("hotspot", 0.1), ("burst", 2.0)]


def trials_of(path):
    """{(frees, threads, column): values} of the trials in one epoch."""
    found = collections.defaultdict(list)
    for row in run.read_csv(path):
        if row["epochs"] == "same":
            for column, name, scale in (("ops_per_sec", "M ops/s", 1e-6), ("p50_ns", "p50_ns", 1), ("p99_ns", "p99_ns", 1)):
                found[row["frees"], int(row["threads"]), name].append(float(row[column]) * scale)
    return found


def judge_times(ours, peer):
    """[(what, our median, its range, the peer's, its range, quotient, limit or None)]"""
    limits = {(frees, column): most for frees, column, most in TIMES}
    rows = []
    for key in sorted(ours, key=lambda key: (key[0], key[2], key[1])):
        if key not in peer:
            continue
        frees, threads, column = key
        mine, theirs = run.range_of(ours[key]), run.range_of(peer[key])
        rows.append((f"{frees}, {threads} threads, {column}", *mine, *theirs, mine[0] / theirs[0] if theirs[0] else float("inf"),
                     limits.get((frees, column))))
    return rows


def judge_counts(answer, most):
    """[(what, count, limit)] of a run of synthetic_bench."""
    counters, allocated = answer["tslab"], answer["tslab"]["allocated_objects_total"]
    misses = counters["current_partial_null"] + counters["current_partial_full"]
    return [("partial misses", misses, 0), ("slow paths in 100 allocations", 100 * counters["slow_path_hits"] / max(1, allocated), most)]


def measure_threads(options, programs, folder):
    """{allocator: trials}; the allocators take turns, one number of threads after the other."""
    found = {OURS: {}, options.peer: {}}
    for threads in THREADS:
        for name in found:
            trials = folder / f"{name}_{threads}.trials.csv"
            run.output_of([programs / "benchmark_threads", threads, "--allocator", name, "--trials", options.trials, "--csv",
                           folder / f"{name}_{threads}.csv", "--trials-csv", trials, "--smoke" if options.smoke else "--quick"])
            found[name].update(trials_of(trials))
    return found


def measure_counts(options, programs, folder):
    rows = []
    for pattern, most in COUNTS:
        path = folder / f"{pattern}.json"
        run.output_of([programs / "synthetic_bench", f"--pattern={pattern}", "--req_rate=0", f"--duration_s={0.05 if options.smoke else 1}",
                       f"--json={path}"])
        rows += [(f"{pattern}: {what}", count, limit) for what, count, limit in
                 judge_counts(json.loads(path.read_text(encoding="utf-8")), most)]
    return rows


def show(times, counts, peer):
    """Prints all, and returns what is beyond its limit."""
    rows = [["", "temporal-slab", "IQR", peer, "IQR", "times", "at most"]]
    rows += [[what, *(f"{value:,.1f}" for value in values), f"{times_peer:.2f}", "-" if most is None else f"{most:g}"]
             for what, *values, times_peer, most in times]
    rows += [[what, f"{count:,.3f}", "", "", "", "", f"{most:g}"] for what, count, most in counts]
    print("\n".join(run.aligned(rows)))
    return [f"{what}: {figure:.3f}, at most {most:g}" for what, *_, figure, most in [*times, *counts] if most is not None and figure > most]


def main(arguments):
    parser = run.Parser("trial_gate.py", __doc__, "build smoke")
    parser.add_argument("--peer", default="malloc", choices=peers.PEERS, help="default malloc")
    parser.add_argument("--trials", type=run.whole(2, 1000), default=10, metavar="N", help="default 10")
    options = parser.parse_args(arguments)
    programs = run.programs_in(options.build, "benchmark_threads")
    with tempfile.TemporaryDirectory() as folder:
        found = measure_threads(options, programs, pathlib.Path(folder))
        counts = measure_counts(options, programs, pathlib.Path(folder))
    times = judge_times(found[OURS], found[options.peer])
    if options.smoke:
        times = [(*row[:-1], None) for row in times]
    beyond = show(times, counts, options.peer)
    print("\n".join([*(f"BEYOND: {line}" for line in beyond), f"gate: {'FAILED' if beyond else 'passed'}"]))
    return int(bool(beyond))


if __name__ == "__main__":
    ending.run("trial_gate", main)
