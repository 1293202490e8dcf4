#!/usr/bin/env python3
"""Compares the CSV files of a folder with targets.csv. Exit code 1 if a figure misses its target or is not there."""

import pathlib
import sys

import bench_report as report
import make_results

HERE = pathlib.Path(__file__).resolve().parent


def main(arguments):
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print("usage: gate.py [DIR]   (default benchmarks/results)", file=sys.stderr)
        return 0 if arguments == ["--help"] else 2
    try:
        _, summary = make_results.summarize(arguments[0] if arguments else HERE / "results")
        judged = report.judge_all(summary, report.read_targets(HERE / "targets.csv"))
    except report.InputError as error:
        print(f"gate: {error}", file=sys.stderr)
        return 2
    rows = [["work", "metric", "tslab", "best peer", "its figure", "figure", "limit", ""]]
    for work, metric, kind, limit, figure, best, verdict in judged:
        entries = summary.get((work, metric), {})
        times = " x" if kind.startswith("ratio") else ""
        rows.append([work, metric, report.cell(entries.get(report.OURS)), best or "-", report.cell(entries.get(best)),
                     "-" if figure is None else f"{figure:.3f}{times}", f"{limit:g}{times}", verdict])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join([*(row[i].ljust(widths[i]) for i in (0, 1)), *(row[i].rjust(widths[i]) for i in range(2, 7)),
                         row[7]]).rstrip())
    missed = [f"{row[0]} {row[1]}" for row in rows[1:] if row[7] not in ("ok", "does not apply")]
    print(f"\n{len(rows) - 1 - len(missed)} of {len(rows) - 1} targets hold")
    if missed:
        print(f"missed or not measured: {', '.join(missed)}")
    print("gate: " + ("FAILED" if missed else "passed"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
