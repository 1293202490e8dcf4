#!/usr/bin/env python3
"""What a call of the soak does, by count: instructions, memory accesses, misses of a first-level cache, mispredicted branches.

    benchmarks/suite/soak_counts.py --csv FILE        half a minute; needs valgrind

soak_mixed runs under cachegrind twice for each allocator, with a short window and a longer one. The differences of the counts
over the difference of the calls have no set-up in them. Nothing is timed, so the load of the machine is not in it. The simulated
first level has 32 KiB, 8 ways, lines of 64 bytes. The loop around the calls is in all counts.
"""

import argparse
import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
ROOT = BENCHMARKS.parent
sys.path.insert(0, str(BENCHMARKS))

from core.run_bench import clean_environment, describe_commit, describe_machine  # noqa: E402
from harness import ending, peers, place  # noqa: E402
from suite import run_all  # noqa: E402

COUNTS = {"instructions": r"I\s+refs", "accesses": r"D\s+refs", "l1_misses": r"D1\s+misses", "mispredicts": "Mispredicts"}
VALGRIND = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes", "--cachegrind-out-file=/dev/null",
            "--D1=32768,8,64", "--LL=1048576,8,64"]


class Failure(Exception):
    """A run that gave no counts."""


def count(program, settings, window_ms):
    """(calls, {count: number}) of one run."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "window.csv")
        try:
            done = subprocess.run([*VALGRIND, *program, "--windows", "1", "--window_ms", str(window_ms), "--csv", out],
                                  capture_output=True, text=True, env={**clean_environment(), **settings}, check=False)
        except FileNotFoundError as error:
            raise Failure("valgrind is not installed (tools/setup.sh valgrind)") from error
        if done.returncode != 0:
            raise Failure(f"{program[0]}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
        with open(out, encoding="utf-8") as file:
            row = list(csv.DictReader(line for line in file if not line.startswith("#")))[-1]
    numbers = {name: re.search(rf"{pattern}:\s+([\d,]+)", done.stderr) for name, pattern in COUNTS.items()}
    return int(row["allocations"]) + int(row["frees"]), {name: int(found[1].replace(",", "")) for name, found in numbers.items()}


def of_a_call(program, settings, short_ms, long_ms):
    (calls, first), (more_calls, second) = count(program, settings, short_ms), count(program, settings, long_ms)
    if more_calls <= calls:
        raise Failure(f"{program[0]}: no more calls in {long_ms} ms than in {short_ms} ms")
    return {name: (second[name] - first[name]) / (more_calls - calls) for name in COUNTS}


def main(arguments):
    parser = argparse.ArgumentParser(prog="soak_counts.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=place.output, metavar="FILE", help="default: the standard output")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="default build/release")
    parser.add_argument("--windows", type=int, nargs=2, default=(200, 3000), metavar="MS", help="the two (default 200 3000)")
    parser.add_argument("--allocators", metavar="A,B", help=f"only these of {','.join(peers.ALLOCATORS)}")
    options = parser.parse_args(arguments)
    lines = []
    try:
        ours = options.build / "benchmarks" / "soak_mixed"
        if not ours.is_file():
            raise Failure(f"{ours} is not built: make bench")
        for name in options.allocators.split(",") if options.allocators else peers.ALLOCATORS:
            if name == "google":  # valgrind has no restartable sequences, so it would be another allocator than it is
                print("soak_counts: google is left out: it has no caches per processor below valgrind", file=sys.stderr)
                continue
            said = run_all.ask(ours, name).stdout.split(",")
            if len(said) != 4:
                print(f"soak_counts: {name} is not installed: left out", file=sys.stderr)
                continue
            # valgrind does not follow a program that starts itself again with another allocator
            program, settings = (ours, {}) if name == "tslab" else (ours.with_name("soak_mixed_malloc"), {})
            if name not in ("tslab", "malloc"):
                settings = peers.settings(name, said[2])
            try:
                counts = of_a_call([str(program), "--allocator", name], settings, *options.windows)
            except Failure as failure:
                if name in ("tslab", "malloc") or not shutil.which("valgrind"):
                    raise
                print(f"soak_counts: {name} does not run below valgrind: left out ({failure})", file=sys.stderr)
                continue
            lines.append(",".join([name, *(f"{counts[key]:.3f}" for key in COUNTS)]))
    except Failure as failure:
        print(f"soak_counts: {failure}", file=sys.stderr)
        return 3
    text = "\n".join([f"# machine: {describe_machine()}",
                      f"# date: {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC", f"# commit: {describe_commit()}",
                      ",".join(["allocator", *COUNTS]), *lines, ""])
    if options.csv is None:
        print(text, end="")
    else:
        options.csv.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    ending.run("soak_counts", main)
