#!/usr/bin/env python3
"""Ten trials of each number of threads, beside a peer in the same run, and what a change must not lose.

The median and the interquartile range of throughput, p50 and p99 (benchmark_threads). The gate is on the quotient to the peer:
p50 and p99 of objects that their own thread frees one by one, that another frees, and that go 100,000 at once. Counts need no clock:
partial misses and slow paths of a healthy run (synthetic_bench). Exit code 1 where a limit is missed, 2 where nothing was measured.
"""

import argparse
import collections
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
ROOT = BENCHMARKS.parent
sys.path.insert(0, str(BENCHMARKS))

from core.run_bench import clean_environment  # noqa: E402
from harness import ending, peers  # noqa: E402

OURS = "tslab"
THREADS = (1, 2, 4, 8, 16)
# frees, column, at most so many times the peer's; wider than the measurements on a shared machine of two processors
TIMES = [("private", "p50_ns", 1.25), ("private", "p99_ns", 1.25), ("cross", "p50_ns", 1.5), ("cross", "p99_ns", 1.5),
         ("batch", "p50_ns", 0.75), ("batch", "p99_ns", 0.5)]
# pattern of synthetic_bench, at most so many slow paths in a hundred allocations; partial misses: none, as it has one thread
COUNTS = [("hotspot", 0.1), ("burst", 2.0)]


class Failure(Exception):
    """A program that gave no figures."""


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, env=clean_environment())
    if done.returncode != 0:
        raise Failure(f"{pathlib.Path(command[0]).name}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
    return done.stdout


def trials_of(path):
    """{(frees, threads, column): values} of the trials in one epoch."""
    found = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if row["epochs"] == "same":
                for column in ("ops_per_sec", "p50_ns", "p99_ns"):
                    name, scale = ("M ops/s", 1e-6) if column == "ops_per_sec" else (column, 1)
                    found[row["frees"], int(row["threads"]), name].append(float(row[column]) * scale)
    return found


def spread(values):
    """(median, interquartile range)"""
    if len(values) < 2:
        return values[0], 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, high - low


def judge_times(ours, peer):
    """[(what, our median, its range, the peer's, its range, quotient, limit or None)]"""
    limits = {(frees, column): most for frees, column, most in TIMES}
    rows = []
    for key in sorted(ours, key=lambda key: (key[0], key[2], key[1])):
        if key not in peer:
            continue
        frees, threads, column = key
        mine, theirs = spread(ours[key]), spread(peer[key])
        rows.append((f"{frees}, {threads} threads, {column}", *mine, *theirs, mine[0] / theirs[0] if theirs[0] else float("inf"),
                     limits.get((frees, column))))
    return rows


def judge_counts(answer, most):
    """[(what, count, limit)] of a run of synthetic_bench."""
    counters, allocated = answer["tslab"], answer["tslab"]["allocated_objects_total"]
    misses = counters["current_partial_null"] + counters["current_partial_full"]
    return [("partial misses", misses, 0), ("slow paths in 100 allocations", 100 * counters["slow_path_hits"] / max(1, allocated), most)]


def measure_threads(options, build, folder):
    """{allocator: trials}; the allocators take turns, one number of threads after the other."""
    found = {OURS: {}, options.peer: {}}
    for threads in THREADS:
        for name in found:
            trials = folder / f"{name}_{threads}.trials.csv"
            run([build / "benchmarks" / "benchmark_threads", threads, "--allocator", name, "--trials", options.trials, "--csv",
                 folder / f"{name}_{threads}.csv", "--trials-csv", trials, "--smoke" if options.smoke else "--quick"])
            found[name].update(trials_of(trials))
    return found


def measure_counts(options, build, folder):
    rows = []
    for pattern, most in COUNTS:
        path = folder / f"{pattern}.json"
        run([build / "benchmarks" / "synthetic_bench", f"--pattern={pattern}", "--req_rate=0",
             f"--duration_s={0.05 if options.smoke else 1}", f"--json={path}"])
        rows += [(f"{pattern}: {what}", count, limit) for what, count, limit in
                 judge_counts(json.loads(path.read_text(encoding="utf-8")), most)]
    return rows


def show(times, counts, peer):
    """Prints all, and returns what is beyond its limit."""
    beyond = []
    print(f"{'':36}{'temporal-slab':>15}{'IQR':>12}{peer:>15}{'IQR':>12}{'times':>8}{'at most':>9}")
    for what, middle, iqr, theirs, their_iqr, times_peer, most in times:
        print(f"{what:36}{middle:15,.1f}{iqr:12,.1f}{theirs:15,.1f}{their_iqr:12,.1f}{times_peer:8.2f}{'-' if most is None else f'{most:g}':>9}")
        if most is not None and times_peer > most:
            beyond.append(f"{what}: {times_peer:.2f} times {peer}'s, at most {most:g}")
    for what, count, most in counts:
        print(f"{what:51}{count:12,.3f}{'':35}{most:9g}")
        if count > most:
            beyond.append(f"{what}: {count:.3f}, at most {most:g}")
    return beyond


def main(arguments):
    parser = argparse.ArgumentParser(prog="trial_gate.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", metavar="DIR")
    parser.add_argument("--peer", default="malloc", choices=peers.PEERS, help="default malloc")
    parser.add_argument("--trials", type=int, default=10, metavar="N", help="default 10")
    parser.add_argument("--smoke", action="store_true", help="tiny amounts, and times are not judged: does it work")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = measure_threads(options, options.build, pathlib.Path(folder))
            counts = measure_counts(options, options.build, pathlib.Path(folder))
    except (Failure, OSError, KeyError) as error:
        print(f"trial_gate: {error}", file=sys.stderr)
        return 2
    times = judge_times(found[OURS], found[options.peer])
    if options.smoke:
        times = [(*row[:-1], None) for row in times]
    beyond = show(times, counts, options.peer)
    for line in beyond:
        print(f"BEYOND: {line}")
    print(f"gate: {'FAILED' if beyond else 'passed'}")
    return int(bool(beyond))


if __name__ == "__main__":
    ending.run("trial_gate", main)
