#!/usr/bin/env python3
"""Compares the CSV files of a folder with targets.csv. Exit code 1 if a figure misses its target or is not there, or if an
allocator was not measured that --without does not name: a ratio to the best peer is another one where the best is missing.

What missed in the figures of the tree (benchmarks/results) as well is told apart from what is new, which a change has to
explain."""

import argparse
import pathlib
import sys

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))

from harness import ending  # noqa: E402
from report import bench_report as report  # noqa: E402
from report import make_results  # noqa: E402
from report import suite_figures as figures  # noqa: E402

PEERS = [*figures.ALLOCATORS[1:], *figures.REGIONS, *figures.KEPT_REGIONS]


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="gate.py", description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", nargs="?", metavar="DIR", default=BENCHMARKS / "results", help="default benchmarks/results")
    parser.add_argument("--without", metavar="A,B", default="", help="allocators that cannot be had here")
    options = parser.parse_args(arguments)
    options.without = [name for name in options.without.split(",") if name]
    for name in options.without:
        if name not in PEERS:
            parser.error(f"unknown allocator '{name}': one of {', '.join(PEERS)}")
    return options


def judge(folder, targets):
    suite, summary = make_results.summarize(folder)
    figures.check_run(suite, targets)
    return suite, summary, report.judge_all(summary, targets, figures.expected(suite, targets))


def names_of_missed(judged):
    return [f"{row.work} {row.metric}" for row in judged if row.verdict not in ("ok", "does not apply")]


def missed_in_tree(folder, targets):
    """Names of what the tree's own figures miss; None: these are they, or there are none to compare with."""
    if pathlib.Path(folder).resolve() == (BENCHMARKS / "results").resolve():
        return None
    try:
        return set(names_of_missed(judge(BENCHMARKS / "results", targets)[2]))
    except report.InputError:
        return None


def main(arguments):
    options = parse_arguments(arguments)
    try:
        targets = report.read_targets(BENCHMARKS / "targets.csv")
        suite, summary, judged = judge(options.folder, targets)
        before = missed_in_tree(options.folder, targets)
    except report.InputError as error:
        print(f"gate: {error}", file=sys.stderr)
        return 2
    rows = [["work", "metric", "tslab", "compared with", "its figure", "figure", "limit", ""]]
    for row in judged:
        entries = summary.get((row.work, row.metric), {})
        times = " x" if row.kind.startswith("ratio") else ""
        rows.append([row.work, row.metric, report.cell(entries.get(report.OURS)), report.compared_with(row),
                     report.cell(entries.get(row.best)), "-" if row.figure is None else report.beside_limit(row.figure, row.limit, 3) + times,
                     f"{row.limit:g}{times}", report.verdict(row)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join([*(row[i].ljust(widths[i]) for i in (0, 1)), *(row[i].rjust(widths[i]) for i in range(2, 7)),
                         row[7]]).rstrip())
    missed = names_of_missed(judged)
    mode = suite.header().get("mode", "full")
    if mode != "full":
        print(f"\nof a run with less work (mode {mode}): figures that need all of it, as the drift and p99.99, are of less")
    print(f"\n{len(judged) - len(missed)} of {len(judged)} targets hold")
    if missed and before is None:
        print(f"missed or not measured: {', '.join(missed)}")
    elif missed:
        for words, names in (("missed or not measured, as in the tree's figures", [name for name in missed if name in before]),
                             ("NEW", [name for name in missed if name not in before])):
            print(f"{words}: {', '.join(names) or 'none'}")
    absent = [name for name in figures.ALLOCATORS if name not in suite.measured()]
    absent += [name for name in (*figures.REGIONS, *figures.KEPT_REGIONS) if name not in suite.allocators("scope_bench")]
    if absent:
        print(f"judged without {', '.join(absent)}: the run did not measure them")
    unexplained = [name for name in absent if name not in options.without]
    if unexplained:
        print(f"install them, or: benchmarks/report/gate.py --without {','.join(unexplained)}")
    failed = missed or unexplained
    print("gate: " + ("FAILED" if failed else "passed"))
    return 1 if failed else 0


if __name__ == "__main__":
    ending.run("gate", main)
