#!/usr/bin/env python3
"""Compares the CSV files of a folder with targets.csv. Exit code 1 if a figure misses its target or is not there."""

import pathlib
import sys

import bench_report as report
import make_results
import suite_figures as figures

HERE = pathlib.Path(__file__).resolve().parent


def main(arguments):
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print("usage: gate.py [DIR]   (default benchmarks/results)", file=sys.stderr)
        return 0 if arguments == ["--help"] else 2
    try:
        targets = report.read_targets(HERE / "targets.csv")
        suite, summary = make_results.summarize(arguments[0] if arguments else HERE / "results")
        figures.check_run(suite, targets)
        judged = report.judge_all(summary, targets, figures.expected(suite, targets))
    except report.InputError as error:
        print(f"gate: {error}", file=sys.stderr)
        return 2
    rows = [["work", "metric", "tslab", "compared with", "its figure", "figure", "limit", ""]]
    for row in judged:
        entries = summary.get((row.work, row.metric), {})
        times = " x" if row.kind.startswith("ratio") else ""
        rows.append([row.work, row.metric, report.cell(entries.get(report.OURS)), report.compared_with(row),
                     report.cell(entries.get(row.best)), "-" if row.figure is None else f"{row.figure:.3f}{times}",
                     f"{row.limit:g}{times}", report.verdict(row)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join([*(row[i].ljust(widths[i]) for i in (0, 1)), *(row[i].rjust(widths[i]) for i in range(2, 7)),
                         row[7]]).rstrip())
    missed = [f"{row.work} {row.metric}" for row in judged if row.verdict not in ("ok", "does not apply")]
    mode = suite.header().get("mode", "full")
    if mode != "full":
        print(f"\nof a run with less work (mode {mode}): figures that need all of it, as the drift and p99.99, are of less")
    print(f"\n{len(judged) - len(missed)} of {len(judged)} targets hold")
    if missed:
        print(f"missed or not measured: {', '.join(missed)}")
    absent = [name for name in figures.ALLOCATORS if name not in suite.measured()]
    absent += [name for name in figures.REGIONS if name not in suite.allocators("scope_bench")]
    if absent:
        print(f"judged without {', '.join(absent)}: the run did not measure them")
    print("gate: " + ("FAILED" if missed else "passed"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
