"""Runs every workload with malloc, with the allocators that are installed, and with temporal-slab, and says who is ahead.

Every figure comes from the JSON that the programs write; every sentence is computed from the figures. Exit 1 if a
program fails or two allocators compute different results, 2 on wrong usage.
"""

import argparse
import csv
import json
import os
import sys
import time

import picture
import runs
import words
from rows import ROWS

SECONDS_MAX = 8.0
ROUNDS = 3
ENOUGH_S = 75  # after so long the rows that are left have one round each


def parse_arguments(argv):
    default_build = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "release")
    parser = argparse.ArgumentParser(prog="benchmarks/workloads/run.sh", description=__doc__.split("\n\n", 1)[0],
                                     allow_abbrev=False)
    parser.add_argument("paths", nargs="*", metavar="ROW|PATH", help="a row's name: only such rows; a path: JSON documents, or "
                        "directories of them")
    parser.add_argument("--seconds", type=float, help="of each run; default 0.3, at most %g" % SECONDS_MAX)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each workload and allocator; default %d" % ROUNDS)
    parser.add_argument("--quick", "--smoke", action="store_true", help="a moment each, without other allocators: does it work")
    parser.add_argument("--peers", metavar="DIR", help="the NAME-VERSION.so of benchmarks/peers/newest.sh, in place of installed ones")
    parser.add_argument("--build", default=default_build, help="build directory; default build/release")
    parser.add_argument("--json", metavar="FILE", help="all results as JSON")
    parser.add_argument("--csv", metavar="FILE", help="time and memory of each row and allocator")
    parser.add_argument("--picture", metavar="FILE", help="a picture of all rows (needs python3-matplotlib)")
    # One line that names the argument, without the usage text.
    parser.error = lambda message: parser.exit(2, "benchmarks/workloads/run.sh: %s\n" % message)
    options = parser.parse_args(argv)
    if options.seconds is None:
        options.seconds = 0.2 if options.quick else 0.3
    if not 0 < options.seconds <= SECONDS_MAX:
        parser.error("--seconds=%g: must be more than 0 and at most %g" % (options.seconds, SECONDS_MAX))
    if not 1 <= options.rounds <= 100:
        parser.error("--rounds=%d: must be from 1 to 100" % options.rounds)
    if options.quick:
        options.rounds = 1
    names = [row.name for row in ROWS]
    options.rows = [row for row in ROWS if row.name in options.paths] or ROWS
    options.paths = [path for path in options.paths if path not in names]
    for path in options.paths:
        if not os.path.exists(path):
            parser.error("%s: no row, file or directory; the rows are '%s'" % (path, "', '".join(names)))
    for option in ("json", "csv", "picture"):
        path = getattr(options, option)
        try:
            if path:
                if option != "picture" and os.path.exists(path) and os.path.getsize(path):
                    print("'%s' is there, and is replaced at the end" % path, file=sys.stderr)
                open(path, "ab").close()
        except OSError as error:
            parser.error("--%s=%s: %s" % (option, path, error.strerror))
    return options


def note_progress(what):
    """A line that the next one replaces, where somebody looks."""
    if sys.stderr.isatty():
        print("\r\033[K%s" % (what + " ..." if what else ""), end="", file=sys.stderr, flush=True)


def run_all(options):
    """([(row, {allocator: result})], [what is left out])"""
    peers, absent = ({}, []) if options.quick else runs.find_peers(options.peers)
    missing = ["%s: not installed" % name for name in absent]
    allocators = {"malloc": None, **peers, runs.OURS: None}
    done, said = [], set()
    for row in options.rows:
        try:
            done.append((row, runs.run(row, allocators, options, said, note_progress)))
        except runs.Missing as what:
            missing.append(str(what))
            continue
        finally:
            note_progress("")
        print(words.block(*done[-1]) + "\n", flush=True)
    return done, missing


def main(argv):
    options = parse_arguments(argv)
    begin = time.monotonic()
    options.deadline = begin + ENOUGH_S if options.rounds == ROUNDS else float("inf")
    try:
        results, missing = run_all(options)
    except runs.Failure as failure:
        print("benchmarks/workloads/run.sh: %s" % failure, file=sys.stderr)
        return failure.code
    except KeyboardInterrupt:
        return 130
    print(words.table(results))
    print()
    print(words.summary(results))
    for what in missing:
        print("Left out: %s." % what)
    if options.picture and not options.quick:
        trouble = picture.draw(results, options.picture)
        print("Not drawn: %s." % trouble if trouble else "Drawn: %s." % options.picture)
    print("%.0f s. A time is the best of up to %d runs of %g s, a memory their median. Long runs: docs/results.md." %
          (time.monotonic() - begin, options.rounds, options.seconds))
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["row", "allocator", "time_ns", "memory_bytes"])
            for row, by_allocator in results:
                writer.writerows([row.name, "tslab" if name == runs.OURS else name, words.time_of(each), words.memory_of(row, each)]
                                 for name, each in by_allocator.items())
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"runs": {row.name: by_allocator for row, by_allocator in results}, "summary": words.summary(results)}, file,
                      indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
