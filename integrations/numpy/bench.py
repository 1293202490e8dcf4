#!/usr/bin/env python3
"""A pipeline of arrays and pandas frames: plain, with jemalloc preloaded, and each step in a domain's numpy().

Each run is a process of its own, by turns. A table: medians, and least to most.

usage: bench.py [--rounds N]     in an environment that has tslab, numpy and pandas
"""

import contextlib
import gc
import json
import os
import pathlib
import subprocess
import sys
import time
from types import SimpleNamespace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import shared  # noqa: E402

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


def in_process(way):
    """The figures of a process of its own."""
    how, variables = way
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", **variables)
    done = subprocess.run([sys.executable, __file__, "--run", how], capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def main():
    parser = shared.parser_of(__doc__, 7)
    parser.add_argument("--run", choices=("plain", "domains"), help="one run of the pipeline")
    arguments = parser.parse_args()
    if arguments.run:
        run(arguments.run == "domains")
        return 0
    kinds = {"plain": ("plain", {}), "a domain each step": ("domains", {}), "the same, `TSLAB_RETAIN=8M`": ("domains", {"TSLAB_RETAIN": "8M"})}
    kinds = shared.with_jemalloc(kinds, lambda file: ("plain", {"LD_PRELOAD": file}), "jemalloc preloaded")
    rows = [*(("MiB after `%s`" % step.__name__, "%.0f") for step in STEPS), ("MiB at the peak", "%.0f"),
            *(("s of processor in `%s`" % step.__name__, "%.2f") for step in STEPS), ("s of processor in all", "%.2f")]
    figures = shared.compare(kinds, arguments.rounds, in_process, rows)
    if len({one[-1] for values in figures.values() for one in values}) != 1:
        raise shared.Refusal("the results differ", 1)
    return 0


if __name__ == "__main__":
    shared.ending.run("bench", lambda _: main())
