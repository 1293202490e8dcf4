#!/usr/bin/env python3
"""Runs model_test over many seeds: a million programs by default.

usage: nightly.py MODEL_TEST [--programs N] [--ops N] [--chunk N] [--threads N] [--seed N] [--jobs N]

Each chunk is a process of its own: so many programs one by one, then as many operations again by threads side by side.
A line of progress for each; the first that fails ends the run with exit code 1, its output (the shrunken program)
printed. The last line is the number of operations.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import time


def positive(text):
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return number


def run(arguments, seed, programs):
    command = [arguments.model_test, "--seed", str(seed), "--programs", str(programs), "--ops", str(arguments.ops),
               "--threads", str(arguments.threads)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    counted = re.search(r"^operations: (\d+)$", done.stdout, re.MULTILINE)
    good = done.returncode == 0 and counted is not None
    return good, command, int(counted.group(1)) if counted else 0, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_test")
    parser.add_argument("--programs", type=positive, default=1_000_000)
    parser.add_argument("--ops", type=positive, default=1000, help="operations of a program")
    parser.add_argument("--chunk", type=positive, default=2000, help="programs of a process")
    parser.add_argument("--threads", type=positive, default=8, help="threads side by side")
    parser.add_argument("--seed", type=positive, default=1, help="of the first chunk; the others count on")
    parser.add_argument("--jobs", type=positive, default=os.cpu_count() or 1, help="processes at once")
    arguments = parser.parse_args()
    if not os.access(arguments.model_test, os.X_OK):
        parser.error(f"{arguments.model_test}: no program that can be run")

    chunks = []
    left = arguments.programs
    while left > 0:
        chunks.append((arguments.seed + len(chunks), min(left, arguments.chunk)))
        left -= chunks[-1][1]
    started = time.monotonic()
    programs = operations = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = {pool.submit(run, arguments, seed, count): count for seed, count in chunks}
        for future in concurrent.futures.as_completed(futures):
            good, command, done, output = future.result()
            if not good:
                for other in futures:
                    other.cancel()
                print(output, end="")
                print("nightly: FAILED:", " ".join(command))
                return 1
            programs += futures[future]
            operations += done
            seconds = time.monotonic() - started
            rest = seconds / programs * (arguments.programs - programs)
            print(f"nightly: {programs} of {arguments.programs} programs, {operations} operations, {seconds:.0f} s,"
                  f" {rest:.0f} s to go", flush=True)
    print(f"nightly: {programs} programs in {time.monotonic() - started:.0f} s: good")
    print(f"operations: {operations}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
