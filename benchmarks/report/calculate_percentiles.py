#!/usr/bin/env python3
"""Percentiles of latencies, and how far the tail is from the middle: p99.999 over p50.

    calculate_percentiles.py               those of 128 bytes in benchmarks/results/benchmark_accurate.csv
    calculate_percentiles.py --size 64     another size
    calculate_percentiles.py FILE...       of files: `-` is standard input

A file has one number a line; or it is a CSV file, of which --column is read (allocators are told apart by the column
allocator); or it is what `benchmark_accurate --csv` writes, whose percentiles stand there already: of several rounds
the median. Percentiles interpolate linearly between the two nearest values, rank (n - 1) * N / 100 from 0. One that
fewer than ten values lie above is shown with a question mark.
"""

import argparse
import pathlib
import sys

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))

from harness import ending  # noqa: E402
from report import analyze_epoch_tail_csv as analyze  # noqa: E402
from report import bench_report as report  # noqa: E402

PERCENTS = [50, 90, 95, 99, 99.9, 99.99, 99.999]
# Those that benchmark_accurate writes.
COLUMNS = {50: "p50_ns", 95: "p95_ns", 99: "p99_ns", 99.9: "p999_ns", 99.99: "p9999_ns", 99.999: "p99999_ns"}
LEFT_ABOVE = 10


def figures_of(values):
    """{percent: (value, whether ten values lie above)}, the largest and the number of values."""
    ordered = sorted(values)
    found = {p: (analyze.percentile(ordered, p), len(ordered) * (100 - p) / 100 >= LEFT_ABOVE) for p in PERCENTS}
    return found, ordered[-1], len(ordered)


def of_suite(path, rows, size):
    """{(allocator, op): figures} of what benchmark_accurate wrote: medians over its rounds."""
    grouped = {}
    for number, row in rows:
        if row["size_class"] == size and row["op"] in ("alloc", "free"):
            grouped.setdefault((row["allocator"], row["op"]), []).append((number, row))
    if not grouped:
        raise report.InputError(f"{path}: no alloc or free of {size} bytes")
    result = {}
    for key, same in grouped.items():
        def median(column, same=same):
            return report.median([analyze.number(f"{path}:{number}", column, row[column]) for number, row in same])
        found = {p: (median(column), True) for p, column in COLUMNS.items()}
        result[key] = found, median("max_ns"), int(median("samples"))
    return result


def of_numbers(path, lines):
    values = [analyze.number(f"{path}:{number}", "the line", line) for number, line in lines]
    if not values:
        raise report.InputError(f"{path}: no number")
    return {(pathlib.Path(path).name, ""): figures_of(values)}


def of_column(path, rows, column):
    grouped = {}
    for number, row in rows:
        name = row.get("allocator") or pathlib.Path(path).name
        grouped.setdefault((name, row.get("op", "")), []).append(analyze.number(f"{path}:{number}", column, row[column]))
    if not grouped:
        raise report.InputError(f"{path}: no line after the heading")
    return {key: figures_of(values) for key, values in grouped.items()}


def read(path, options):
    """{(name, op): figures} of one file."""
    text = sys.stdin.read() if path == "-" else "\n".join(report.read_lines(path))
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip() and not line.startswith("#")]
    if lines and not analyze.NUMBER.fullmatch(lines[0][1].strip()):
        heading = report.split(path, *lines[0])
        rows = []
        for number, line in lines[1:]:
            fields = report.split(path, number, line)
            if len(fields) != len(heading):
                raise report.InputError(f"{path}:{number}: {len(fields)} fields, the heading has {len(heading)}")
            rows.append((number, dict(zip(heading, fields))))
        if options.column is None and {"size_class", "op", *COLUMNS.values(), "max_ns", "samples"} <= set(heading):
            return of_suite(path, rows, options.size)
        column = options.column or "latency_ns"
        if column not in heading:
            raise report.InputError(f"{path}:{lines[0][0]}: no column {column}: --column says which one")
        return of_column(path, rows, column)
    return of_numbers(path, lines)


def over(found):
    """p99.999 over p50."""
    return found[99.999][0] / found[50][0] if found[50][0] > 0 else None


def table(results):
    """Rows of text. The last column: how often malloc's quotient has this one in it."""
    rows = [["", "values", *(f"p{p:g}" for p in PERCENTS), "max", "p99.999/p50", "malloc's over it"]]
    for (name, op), (found, largest, count) in results.items():
        cells = [analyze.short(found[p][0]) + ("" if found[p][1] else "?") if p in found else "-" for p in PERCENTS]
        theirs = results.get(("malloc", op))
        mine, beside = over(found), over(theirs[0]) if theirs else None
        rows.append([f"{name} {op}".strip(), str(count), *cells, analyze.short(largest),
                     analyze.short(mine) if mine else "-", f"{beside / mine:.2f}" if mine and beside else "-"])
    return rows


def show(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in range(1, len(row)))]).rstrip())


def main(arguments):
    parser = argparse.ArgumentParser(prog="calculate_percentiles.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--column", metavar="NAME", help="of a CSV file (default latency_ns)")
    parser.add_argument("--size", metavar="BYTES", default="128", help="of what benchmark_accurate wrote (default 128)")
    parser.add_argument("files", nargs="*", metavar="FILE", default=[str(BENCHMARKS / "results" / "benchmark_accurate.csv")])
    options = parser.parse_args(arguments)
    results = {}
    try:
        for path in options.files:
            for key, figures in read(path, options).items():
                if key in results:
                    raise report.InputError(f"{path}: '{' '.join(key).strip()}' was in a file before")
                results[key] = figures
    except report.InputError as error:
        print(f"calculate_percentiles: {error}", file=sys.stderr)
        return 2
    show(table(results))
    return 0


if __name__ == "__main__":
    ending.run("calculate_percentiles", main)
