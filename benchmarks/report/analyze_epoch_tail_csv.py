#!/usr/bin/env python3
"""Throughput and latency of the windows of a soak, and how even they are.

Reads CSV files with the columns allocator, epoch and throughput_ops_sec (in any order; more may follow), one line
per window, any number of allocators to a file; the windows of an allocator in several files count together.
Without the column allocator a file is of one allocator, and goes by the file's name.

    throughput_pN   the throughput that N % of the windows fall short of, from the slow side: p1 is the 1st
                    percentile, what 99 % of the windows reach or exceed; p0_1 is the 0.1th
    latency_ns      of a window: 1e9 / throughput, the mean time of one operation in it
    latency_ns_pN   the percentile of these latencies themselves: N % of the windows are at most as slow. With
                    interpolation that is not the inverse of a percentile of the throughputs
    percentiles     interpolate linearly between the two nearest windows: rank (n - 1) * N / 100 from 0
    stddev, cv      the sample standard deviation (n - 1), and that divided by the mean; 0 for a single window
"""

import argparse
import csv
import io
import json
import math
import os
import pathlib
import re
import sys

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))

from harness import ending  # noqa: E402

COLUMNS = ("allocator", "epoch", "throughput_ops_sec")
NEEDED = COLUMNS[1:]
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
# A value outside has no square in floating point, and is no throughput of a computer.
LEAST, MOST = 1e-100, 1e100


class InputError(Exception):
    """A file that cannot be used; the message names the file and the line."""


def percentile(ordered, percent):
    """The percentile of values in rising order, interpolated linearly."""
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def mean(values):
    return math.fsum(values) / len(values)


def sample_stddev(values):
    """With n - 1 in the denominator. 0 for a single value, which has no spread to speak of."""
    if len(values) == 1:
        return 0.0
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def analyze(throughputs):
    """The figures of one allocator, from the operations per second of its windows."""
    speeds = sorted(throughputs)
    latencies = sorted(1e9 / speed for speed in speeds)
    stddev = sample_stddev(speeds)
    return {
        "windows": len(speeds),
        "throughput_p50": percentile(speeds, 50),
        "throughput_p10": percentile(speeds, 10),
        "throughput_p1": percentile(speeds, 1),
        "throughput_p0_1": percentile(speeds, 0.1),
        "throughput_mean": mean(speeds),
        "throughput_stddev": stddev,
        "throughput_cv": stddev / mean(speeds),
        "latency_ns_p50": percentile(latencies, 50),
        "latency_ns_p90": percentile(latencies, 90),
        "latency_ns_p99": percentile(latencies, 99),
        "latency_ns_p999": percentile(latencies, 99.9),
        "latency_ns_mean": mean(latencies),
        "latency_ns_stddev": sample_stddev(latencies),
        "latency_p99_over_p50": percentile(latencies, 99) / percentile(latencies, 50),
    }


# ---- reading ------------------------------------------------------------------------------------


def read_utf8(path):
    """A file of UTF-8 text as it is."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8 text") from error


def read_text(path):
    text = read_utf8(path).removeprefix("\ufeff")
    if not text.strip():
        raise InputError(f"{path}:1: the file is empty; it must begin with the columns {','.join(COLUMNS)}")
    return text


def number(where, column, text):
    text = text.strip()
    if not text:
        raise InputError(f"{where}: {column} is empty")
    if not NUMBER.fullmatch(text):
        raise InputError(f"{where}: {column} '{text}' is not a number")
    value = float(text)
    if not math.isfinite(value):
        raise InputError(f"{where}: {column} '{text}' is too large")
    return value


def throughput(where, column, text):
    value = number(where, column, text)
    if value <= 0:
        raise InputError(f"{where}: {column} '{text.strip()}' is not above zero")
    if not LEAST <= value <= MOST:
        raise InputError(f"{where}: {column} '{text.strip()}' is not between {LEAST:g} and {MOST:g}")
    return value


def positions(where, heading):
    """Where each of COLUMNS is in the heading; None for an allocator that is not there."""
    names = [name.strip() for name in heading]
    missing = [column for column in NEEDED if column not in names]
    if missing:
        raise InputError(f"{where}: no column {', '.join(missing)} in the heading '{','.join(names)}'")
    for column in COLUMNS:
        if names.count(column) > 1:
            raise InputError(f"{where}: the column {column} is there {names.count(column)} times")
    return [names.index(column) if column in names else None for column in COLUMNS]


def read_windows(path, windows):
    """Adds the windows of a file to {allocator: [throughput]}."""
    rows = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    columns, width, count = None, 0, 0
    while True:
        where = f"{path}:{rows.line_num + 1}"  # where the row begins: a quote may run over many lines
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise InputError(f"{where}: {error}") from error
        if row is None:
            break
        if not any(field.strip() for field in row):
            continue
        if columns is None:
            if row[0].lstrip().startswith("#"):
                continue  # lines about the run, before the heading
            columns, width = positions(where, row), len(row)
            continue
        if len(row) != width:
            raise InputError(f"{where}: {len(row)} fields, the heading has {width}")
        name, epoch, speed = (pathlib.Path(path).stem if column is None else row[column] for column in columns)
        name = name.strip()
        if not name or not name.isprintable():
            raise InputError(f"{where}: allocator '{ascii(name)[1:-1]}' is not a name")
        number(where, "epoch", epoch)
        windows.setdefault(name, []).append(throughput(where, "throughput_ops_sec", speed))
        count += 1
    if columns is None:
        raise InputError(f"{path}:1: no heading; it must be {','.join(COLUMNS)}")
    if count == 0:
        raise InputError(f"{path}:{rows.line_num}: no window after the heading")


# ---- output -------------------------------------------------------------------------------------


def short(value):
    """Four significant digits, without an exponent where that is readable."""
    if value == 0:
        return "0"
    return f"{value:.4g}" if value < 1e-3 or value >= 1e7 else f"{value:.{max(0, 3 - math.floor(math.log10(value)))}f}"


def table(figures):
    """Lines of text: one row per allocator."""
    heading = ["allocator", "windows", "M ops/s p50", "p10", "p1", "p0.1", "mean", "stddev", "cv", "ns/op p50", "p90",
               "p99", "p99.9", "mean", "stddev", "p99/p50"]
    rows = [heading]
    for name, f in figures.items():
        single = f["windows"] == 1
        million = [short(f[f"throughput_{key}"] / 1e6) for key in ("p50", "p10", "p1", "p0_1", "mean")]
        spread = ["-", "-"] if single else [short(f["throughput_stddev"] / 1e6), f"{100 * f['throughput_cv']:.2f} %"]
        latency = [short(f[f"latency_ns_{key}"]) for key in ("p50", "p90", "p99", "p999", "mean")]
        latency.append("-" if single else short(f["latency_ns_stddev"]))
        rows.append([name, str(f["windows"]), *million, *spread, *latency, f"{f['latency_p99_over_p50']:.3f}"])
    widths = [max(len(row[i]) for row in rows) for i in range(len(heading))]
    return ["  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in range(1, len(row)))]) for row in rows]


def fail(message):
    print(f"analyze_epoch_tail_csv: {message}", file=sys.stderr)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line."""

    def error(self, message):
        fail(f"{message} (see --help)")


def main(arguments):
    parser = Parser(
        prog="analyze_epoch_tail_csv.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help='{"ALLOCATOR": {"windows": N, "throughput_p50": ...}, ...}')
    parser.add_argument("files", nargs="+", metavar="FILE", help="CSV: [allocator,]epoch,throughput_ops_sec[,...]")
    options = parser.parse_args(arguments)
    windows, given = {}, {}
    try:
        for path in options.files:
            real = os.path.realpath(path)
            if real in given:
                raise InputError(f"{path}: given twice" + (f", as {given[real]} too" if given[real] != path else ""))
            given[real] = path
            read_windows(path, windows)
    except InputError as error:
        fail(str(error))
    figures = {name: analyze(speeds) for name, speeds in windows.items()}
    print(json.dumps(figures, indent=2) if options.json else "\n".join(table(figures)))
    return 0


if __name__ == "__main__":
    ending.run("analyze_epoch_tail_csv", main)
