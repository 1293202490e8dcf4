#!/usr/bin/env python3
"""Percentiles of latencies, and how far the tail is from the middle: p99.999 over p50.

    calculate_percentiles.py               those of 128 bytes in benchmarks/results/benchmark_accurate.csv
    calculate_percentiles.py FILE...       of files: one number a line (`-` is standard input), or what `benchmark_accurate --csv` writes

What `benchmark_accurate` writes has the percentiles already: of several rounds the median. Percentiles interpolate linearly between the
two nearest values, rank (n - 1) * N / 100 from 0. One that fewer than ten values lie above is shown with a question mark.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, run  # noqa: E402
from report import data  # noqa: E402
from report.analyze_epoch_tail_csv import percentile, short  # noqa: E402
from report.suite_figures import SIZE  # noqa: E402

PERCENTS = [50, 90, 95, 99, 99.9, 99.99, 99.999]
# Those that benchmark_accurate writes.
COLUMNS = {50: "p50_ns", 95: "p95_ns", 99: "p99_ns", 99.9: "p999_ns", 99.99: "p9999_ns", 99.999: "p99999_ns"}
LEFT_ABOVE = 10


def of_suite(path):
    """{(allocator, op): ({percent: (value, whether ten values lie above)}, the largest, how many)}: medians over the rounds."""
    grouped = {}
    for row in data.read(path, {"size_class": "count", "op": "text"}, {**dict.fromkeys(COLUMNS.values(), "from 0"), "max_ns": "from 0", "samples": "count"}):
        if row["size_class"] == SIZE and row["op"] in ("alloc", "free"):
            grouped.setdefault((row["allocator"], row["op"]), []).append(row)
    if not grouped:
        raise data.InputError(f"{path}: no alloc or free of {SIZE} bytes")

    def median(rows, column):
        return run.median([row.number(column) for row in rows])

    return {key: ({p: (median(rows, column), True) for p, column in COLUMNS.items()}, median(rows, "max_ns"), int(median(rows, "samples")))
            for key, rows in grouped.items()}


def of_numbers(path, lines):
    for number, line in lines:
        data.check(f"{path}:{number}", "the line", line.strip(), "number")
    values = [float(line) for _, line in lines]
    if not values:
        raise data.InputError(f"{path}: no number")
    found = {p: (percentile(values, p), len(values) * (100 - p) / 100 >= LEFT_ABOVE) for p in PERCENTS}
    return {(pathlib.Path(path).name, ""): (found, max(values), len(values))}


def read(path):
    if path == "-":
        return of_numbers(path, [(number, line) for number, line in enumerate(sys.stdin, 1) if line.strip() and not line.startswith("#")])
    lines = data.read_lines(path)
    return of_suite(path) if lines and "," in lines[0][1] else of_numbers(path, lines)


def over(found):
    """p99.999 over p50."""
    return found[99.999][0] / found[50][0] if found[50][0] > 0 else None


def table(results):
    """Rows of text. The last column: how often malloc's quotient has this one in it."""
    rows = [["", "values", *(f"p{p:g}" for p in PERCENTS), "max", "p99.999/p50", "malloc's over it"]]
    for (name, op), (found, largest, count) in results.items():
        cells = [short(found[p][0]) + ("" if found[p][1] else "?") if p in found else "-" for p in PERCENTS]
        theirs = results.get(("malloc", op))
        mine, beside = over(found), over(theirs[0]) if theirs else None
        rows.append([f"{name} {op}".strip(), str(count), *cells, short(largest), short(mine) if mine else "-",
                     f"{beside / mine:.2f}" if mine and beside else "-"])
    return rows


def main(arguments):
    parser = run.Parser("calculate_percentiles.py", __doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", default=[str(run.BENCHMARKS / "results" / "benchmark_accurate.csv")])
    results = {}
    for path in parser.parse_args(arguments).files:
        for key, figures in read(path).items():
            if key in results:
                raise data.InputError(f"{path}: '{' '.join(key).strip()}' was in a file before")
            results[key] = figures
    print("\n".join(run.aligned(table(results))))
    return 0


if __name__ == "__main__":
    ending.run("calculate_percentiles", main)
