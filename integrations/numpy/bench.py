#!/usr/bin/env python3
"""A pipeline of arrays and pandas frames: plain, with jemalloc preloaded, and each step in a domain's numpy().

Each run is a process of its own, by turns. A table: medians, and least to most.

usage: bench.py [--rounds N]     in an environment that has tslab, numpy and pandas
"""

import argparse
import contextlib
import gc
import glob
import json
import os
import statistics
import subprocess
import sys
import time
from types import SimpleNamespace

ROWS = 1_000_000


def read(out, _):
    """The table that all steps read: it stays."""
    import numpy

    random = numpy.random.default_rng(7)
    out.key = random.integers(0, 1000, ROWS)
    out.value = random.normal(size=ROWS)
    out.time = numpy.cumsum(random.exponential(size=ROWS))


def clean(out, table):
    """Whole columns, and a temporary for each operator."""
    import numpy

    value = numpy.where(numpy.abs(table.value) > 3, 0.0, table.value)
    z = (value - value.mean()) / value.std()
    smooth = numpy.convolve(z, numpy.ones(50) / 50, mode="same")
    order = numpy.argsort(smooth)
    out.top = table.key[order[-1000:]]
    out.spectrum = numpy.abs(numpy.fft.rfft(smooth))[:1000]


def frames(out, table):
    """pandas: groups, a join, a pivot."""
    import pandas

    frame = pandas.DataFrame({"key": table.key, "value": table.value, "hour": (table.time // 3600).astype("int64")})
    groups = frame.groupby(["key", "hour"], as_index=False)["value"].agg(["mean", "std", "count"])
    joined = frame.merge(groups, on=["key", "hour"])
    joined["score"] = (joined["value"] - joined["mean"]) / joined["std"]
    out.scores = joined.groupby("key")["score"].max()
    out.hours = joined.pivot_table(index="hour", values="value", aggfunc="sum")


def windows(out, table):
    """400,000 small arrays, of which one in a hundred is a result."""
    parts = [table.value[i : i + 20 + i % 60] * 2.0 for i in range(0, 400_000)]
    out.kept = parts[::100]


STEPS = (read, clean, frames, windows)


def resident(field="VmRSS"):
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field + ":"))


def run(in_domains):
    """Prints what is resident after each step, the peak, the seconds of processor of all steps, and what came out."""
    import numpy
    import pandas
    import tslab

    pandas.DataFrame({"k": [1, 2], "v": [1.0, 2.0]}).groupby("k").sum()  # what is loaded late
    results, memory, seconds = [], [], []
    table = None
    for step in STEPS:
        started = time.process_time()
        with contextlib.ExitStack() as stack:
            out = stack.enter_context(stack.enter_context(tslab.Domain(step.__name__)).numpy()) if in_domains else SimpleNamespace()
            step(out, table)
        seconds.append(time.process_time() - started)
        table = table or out
        results.append(out)
        gc.collect()
        memory.append(resident())
    total = sum(float(numpy.sum(numpy.asarray(results[at].__dict__[name]))) for at, name in ((1, "spectrum"), (1, "top"), (2, "hours")))
    print(json.dumps([*memory, resident("VmHWM"), *seconds, sum(seconds), round(total, 3)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--run", choices=("plain", "domains"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run(arguments.run == "domains")
        return 0
    kinds = {"plain": ("plain", {}), "a domain each step": ("domains", {}), "the same, `TSLAB_RETAIN=8M`": ("domains", {"TSLAB_RETAIN": "8M"})}
    jemalloc = glob.glob("/usr/lib/*/libjemalloc.so.2")
    if jemalloc:
        kinds["jemalloc preloaded"] = ("plain", {"LD_PRELOAD": jemalloc[0]})
    figures = {kind: [] for kind in kinds}
    for number in range(arguments.rounds):
        for kind, (how, variables) in kinds.items():
            print("round %d of %d: %s" % (number + 1, arguments.rounds, kind), file=sys.stderr)
            environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", **variables)
            done = subprocess.run([sys.executable, __file__, "--run", how], capture_output=True, text=True, check=True, env=environment)
            figures[kind].append(json.loads(done.stdout))
    if len({one[-1] for values in figures.values() for one in values}) != 1:
        print("bench.py: the results differ", file=sys.stderr)
        return 1
    names = ["MiB after `%s`" % step.__name__ for step in STEPS] + ["MiB at the peak"] + ["s of processor in `%s`" % step.__name__ for step in STEPS] + ["s of processor in all"]
    print("| | %s |\n|---%s|" % (" | ".join(kinds), "|---" * len(kinds)))
    for at, name in enumerate(names):
        form = "%.2f" if name.startswith("s ") else "%.0f"
        cells = []
        for kind in kinds:
            values = [one[at] for one in figures[kind]]
            cells.append("%s (%s to %s)" % (form % statistics.median(values), form % min(values), form % max(values)))
        print("| %s | %s |" % (name, " | ".join(cells)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
