#!/usr/bin/env python3
"""notmuch, and trees of talloc by themselves: plain, with jemalloc preloaded, and under libtslab-talloc; in turn, medians
and spread.

usage: bench.py LIBRARY [--rounds N] [--mails N]
"""

import argparse
import glob
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import programs  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
COMMANDS = (["new", "--quiet"], ["search", "*"], ["show", "--format=json", "--entire-thread=true", "*"], ["dump"])
NAMES = ("notmuch new", "notmuch search", "notmuch show", "notmuch dump")
TREES = ("one object made and freed, ns", "one object in a pool, ns", "context of 4 objects, ns an object", "context of 1,000 objects, ns an object",
         "context of 100,000 objects, ns an object")


def command(binaries, root, preload, arguments):
    """Seconds of processor, and MiB that the process had at most."""
    done = subprocess.run([binaries / "peak", "notmuch", *arguments], env=programs.environment(preload, root), stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=True)
    return [float(number) for number in done.stderr.split("\n")[-2].split()]


def trees(binaries, root, preload):
    said = subprocess.run([binaries / "trees"], env=programs.environment(preload, root), capture_output=True, text=True, check=True).stdout
    return [float(number) for number in re.findall(r"[\d.]+", said)]


def one_round(binaries, root, preload):
    programs.forget(root)
    figures = []
    for arguments in COMMANDS:
        figures += command(binaries, root, preload, arguments)
    return figures + trees(binaries, root, preload)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("library", help="libtslab-talloc.so")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mails", type=int, default=5000)
    arguments = parser.parse_args()
    if programs.missing():
        print("bench.py: not installed: " + " ".join(programs.missing()), file=sys.stderr)
        return 1
    kinds = {"plain": None, "tslab": str(pathlib.Path(arguments.library).resolve())}
    found = glob.glob("/usr/lib/*/libjemalloc.so.2")
    if found:
        kinds["jemalloc"] = found[0]
    rows = [(name + unit, form) for name in NAMES for unit, form in ((", s of processor", "%.2f"), (", MiB at most", "%.1f"))]
    rows += [(name, "%.1f") for name in TREES]
    figures = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("peak", "trees"):
            subprocess.run(["gcc", "-O2", "-o", root / name, HERE / (name + ".c"), "-ltalloc"], check=True)
        programs.mails(root, arguments.mails)
        for number in range(arguments.rounds):
            for kind, preload in kinds.items():
                print("round %d of %d: %s" % (number + 1, arguments.rounds, kind), file=sys.stderr)
                figures[kind].append(one_round(root, root, preload))
    print("| | %s |\n|---%s|" % (" | ".join(kinds), "|---" * len(kinds)))
    for at, (name, form) in enumerate(rows):
        cells = []
        for kind in kinds:
            values = [one[at] for one in figures[kind]]
            cells.append("%s (%s to %s)" % (form % statistics.median(values), form % min(values), form % max(values)))
        print("| %s | %s |" % (name, " | ".join(cells)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
