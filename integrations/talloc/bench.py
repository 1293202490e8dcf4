#!/usr/bin/env python3
"""notmuch, and trees of talloc by themselves: plain, with jemalloc preloaded, and under libtslab-talloc; in turn, medians
and spread.

usage: bench.py LIBRARY [--rounds N] [--mails N]
"""

import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent)]
import programs  # noqa: E402
import shared  # noqa: E402

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
    parser = shared.parser_of(__doc__, 7)
    parser.add_argument("library", help="libtslab-talloc.so")
    parser.add_argument("--mails", type=int, default=5000)
    arguments = parser.parse_args()
    if programs.missing():
        parser.error("not installed: " + " ".join(programs.missing()))
    kinds = shared.with_jemalloc({"plain": None, "tslab": str(pathlib.Path(arguments.library).resolve())}, lambda file: file)
    rows = [(name + unit, form) for name in NAMES for unit, form in ((", s of processor", "%.2f"), (", MiB at most", "%.1f"))]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("peak", "trees"):
            subprocess.run(["gcc", "-O2", "-o", root / name, HERE / (name + ".c"), "-ltalloc"], check=True)
        programs.mails(root, arguments.mails)
        shared.compare(kinds, arguments.rounds, lambda preload: one_round(root, root, preload), rows + [(name, "%.1f") for name in TREES])
    return 0


if __name__ == "__main__":
    shared.ending.run("bench", lambda _: main())
