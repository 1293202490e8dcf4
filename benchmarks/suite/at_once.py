#!/usr/bin/env python3
"""Runs a program of the suite that mostly waits with all allocators at the same time, and joins their CSV files.

    at_once.py PROGRAM --allocators A,B --csv FILE [--smoke|--quick]
"""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, run  # noqa: E402


def main(arguments):
    parser = run.Parser("at_once.py", __doc__, "allocators csv")
    parser.add_argument("program")
    options, more = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        parts = {name: pathlib.Path(folder) / f"{name}.csv" for name in options.allocators.split(",")}
        said = run.at_once({name: ([options.program, "--allocator", name, *more, "--csv", part], {}) for name, part in parts.items()})
        print("".join(said.values()), end="")
        rows = [row for part in parts.values() for row in run.read_csv(part)]
    run.write_csv(options.csv, [], list(rows[0]), [row.values() for row in rows])
    return 0


if __name__ == "__main__":
    ending.run("at_once", main)
