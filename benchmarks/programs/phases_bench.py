#!/usr/bin/env python3
"""Memory over time of a program whose work changes its phases, under one malloc after the other.

    phases_bench.py LIBRARY PROGRAM [--csv FILE] [--smoke]

LIBRARY is libtslab-malloc.so, PROGRAM is phases (phases.c). All run at the same time, so that a machine which is busy is so for each.
The chart is `benchmarks/report/plot_bench.py phases`.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, run  # noqa: E402
from programs import programs_bench  # noqa: E402

HEADING = "phase,second,rss_mib,faults"
PHASES = ["small", "large", "small again", "thread", "night", "day", "night again"]


def main(arguments):
    parser = run.Parser("phases_bench.py", __doc__, "csv smoke")
    parser.add_argument("library")
    parser.add_argument("program")
    options = parser.parse_args(arguments)
    command = [options.program] + (["--smoke"] if options.smoke else [])
    commands = {"malloc" if name == "glibc" else name: (command, {**programs_bench.SAME, **settings})
                for name, settings in programs_bench.allocators(options.library, False).items()}
    lines = []
    for name, said in run.at_once(commands).items():
        heading, *rows = said.splitlines()
        rows = [row.split(",") for row in rows]
        last = {row[0]: row for row in rows}
        if heading != HEADING or list(last) != PHASES:
            raise run.Missing(f"{name}: the phases {list(last)}")
        lines += [[name, *row] for row in rows]
        print(f"{name:<9}" + "  ".join(f"{phase} {float(row[2]):.0f}" for phase, row in last.items()) + "  (MiB at the end of each)")
    if options.csv:
        run.write_csv(options.csv, [], ["allocator", *HEADING.split(",")], lines)
    return 0


if __name__ == "__main__":
    ending.run("phases_bench", main)
