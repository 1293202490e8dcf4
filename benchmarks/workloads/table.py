"""Runs every workload with malloc, with the allocators that are installed, and with temporal-slab, and says who is ahead.

Every figure comes from the JSON that the programs write; every sentence is computed from the figures. Exit 1 if a
program fails or two allocators compute different results, 2 on wrong usage.
"""

import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, run  # noqa: E402
from workloads import picture, runs, words  # noqa: E402
from workloads.rows import ROWS  # noqa: E402

SECONDS_MAX = 8.0
ROUNDS = 3
ENOUGH_S = 75  # after so long the rows that are left have one round each


def parse_arguments(arguments):
    parser = run.Parser("benchmarks/workloads/run.sh", __doc__, f"rounds={ROUNDS} csv")
    parser.add_argument("paths", nargs="*", metavar="ROW|PATH", help="a row's name: only such rows; a path: JSON documents, or "
                        "directories of them")
    parser.add_argument("--seconds", type=float, default=0.3, help=f"of each run; default 0.3, at most {SECONDS_MAX:g}")
    parser.add_argument("--quick", "--smoke", action="store_true", help="a moment each, without other allocators: does it work")
    parser.add_argument("--peers", metavar="DIR", help="the NAME-VERSION.so of benchmarks/peers/newest.sh, in place of installed ones")
    parser.add_argument("--build", default=str(run.RELEASE), help="build directory; default build/release")
    parser.add_argument("--picture", type=run.writable, metavar="FILE", help="a picture of all rows (needs python3-matplotlib)")
    options = parser.parse_args(arguments)
    if not 0 < options.seconds <= SECONDS_MAX:
        parser.error(f"--seconds={options.seconds:g}: must be more than 0 and at most {SECONDS_MAX:g}")
    if options.quick:
        options.rounds, options.seconds = 1, min(options.seconds, 0.2)
    names = [row.name for row in ROWS]
    options.rows = [row for row in ROWS if row.name in options.paths] or ROWS
    options.paths = [path for path in options.paths if path not in names]
    quoted = "', '".join(names)
    for path in options.paths:
        if not os.path.exists(path):
            parser.error(f"{path}: no row, file or directory; the rows are '{quoted}'")
    options.said = set()
    options.deadline = time.monotonic() + ENOUGH_S if options.rounds == ROUNDS else float("inf")
    return options


def note_progress(what):
    """A line that the next one replaces, where somebody looks."""
    if sys.stderr.isatty():
        print(f"\r\033[K{what}{' ...' if what else ''}", end="", file=sys.stderr, flush=True)


def measure(options):
    """([(row, {allocator: Result})], [what is left out])"""
    peers, absent = ({}, []) if options.quick else runs.find_peers(options.peers)
    missing = [f"{name}: not installed" for name in absent]
    allocators = {"malloc": None, **peers, runs.OURS: None}
    done = []
    for row in options.rows:
        try:
            done.append((row, runs.run_row(row, allocators, options, note_progress)))
        except runs.Missing as what:
            missing.append(str(what))
            continue
        finally:
            note_progress("")
        print(words.block(*done[-1]) + "\n", flush=True)
    return done, missing


def main(arguments):
    options = parse_arguments(arguments)
    begin = time.monotonic()
    results, missing = measure(options)
    print(words.table(results) + "\n\n" + words.summary(results))
    for what in missing:
        print(f"Left out: {what}.")
    lines = [[row.name, "tslab" if name == runs.OURS else name, each.time, each.memory] for row, found in results for name, each in found.items()]
    if options.csv:
        run.write_csv(options.csv, [], picture.HEADING, lines)
    if options.picture and not options.quick:
        trouble = picture.draw(lines, options.picture)
        print(f"Not drawn: {trouble}." if trouble else f"Drawn: {options.picture}.")
    print(f"{time.monotonic() - begin:.0f} s. A time is the best of up to {options.rounds} runs of {options.seconds:g} s, a memory their median. "
          "Long runs: docs/results.md.")
    return 0


if __name__ == "__main__":
    ending.run("benchmarks/workloads/run.sh", main)
