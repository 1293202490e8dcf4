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

import json
import math
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, run  # noqa: E402
from report import data  # noqa: E402

# Keys of the figures, and the percentiles that they are.
SLOW_SIDE = {"p50": 50, "p10": 10, "p1": 1, "p0_1": 0.1}
LONG_SIDE = {"p50": 50, "p90": 90, "p99": 99, "p999": 99.9}


def percentile(values, percent):
    return run.quantile(values, percent / 100)


def analyze(speeds):
    """The figures of one allocator, from the operations per second of its windows."""
    latencies = [1e9 / speed for speed in speeds]
    return {
        "windows": len(speeds),
        **{f"throughput_{key}": percentile(speeds, percent) for key, percent in SLOW_SIDE.items()},
        "throughput_mean": statistics.fmean(speeds), "throughput_stddev": run.deviation(speeds), "throughput_cv": run.variation(speeds),
        **{f"latency_ns_{key}": percentile(latencies, percent) for key, percent in LONG_SIDE.items()},
        "latency_ns_mean": statistics.fmean(latencies), "latency_ns_stddev": run.deviation(latencies),
        "latency_p99_over_p50": percentile(latencies, 99) / percentile(latencies, 50),
    }


def read_windows(path, windows):
    """Adds the windows of a file to {allocator: [throughput]}."""
    rows = data.read(path, {"epoch": "number"}, {"throughput_ops_sec": "positive"}, {"allocator": "text"})
    if not rows:
        raise data.InputError(f"{path}: no window after the heading")
    for row in rows:
        windows.setdefault(row.get("allocator", pathlib.Path(path).stem), []).append(float(row["throughput_ops_sec"]))
    return windows


def short(value):
    """Four significant digits, without an exponent where that is readable."""
    if value == 0:
        return "0"
    return f"{value:.4g}" if value < 1e-3 or value >= 1e7 else f"{value:.{max(0, 3 - math.floor(math.log10(value)))}f}"


def table(windows):
    """Lines of text: one row per allocator."""
    rows = [["allocator", "windows", "M ops/s p50", "p10", "p1", "p0.1", "mean", "stddev", "cv", "ns/op p50", "p90",
             "p99", "p99.9", "mean", "stddev", "p99/p50"]]
    for name, speeds in windows.items():
        f, single = analyze(speeds), len(speeds) == 1
        rows.append([name, str(f["windows"]), *(short(f[f"throughput_{key}"] / 1e6) for key in (*SLOW_SIDE, "mean")),
                     *(["-", "-"] if single else [short(f["throughput_stddev"] / 1e6), f"{100 * f['throughput_cv']:.2f} %"]),
                     *(short(f[f"latency_ns_{key}"]) for key in (*LONG_SIDE, "mean")), "-" if single else short(f["latency_ns_stddev"]),
                     f"{f['latency_p99_over_p50']:.3f}"])
    return run.aligned(rows)


def main(arguments):
    parser = run.Parser("analyze_epoch_tail_csv.py", __doc__)
    parser.add_argument("--json", action="store_true", help='{"ALLOCATOR": {"windows": N, "throughput_p50": ...}, ...}')
    parser.add_argument("files", nargs="+", metavar="FILE", help="CSV: [allocator,]epoch,throughput_ops_sec[,...]")
    options = parser.parse_args(arguments)
    windows, given = {}, {}
    for path in options.files:
        if os.path.realpath(path) in given:
            raise data.InputError(f"{path}: given twice")
        given[os.path.realpath(path)] = read_windows(path, windows)
    print(json.dumps({name: analyze(speeds) for name, speeds in windows.items()}, indent=2) if options.json else "\n".join(table(windows)))
    return 0


if __name__ == "__main__":
    ending.run("analyze_epoch_tail_csv", main)
