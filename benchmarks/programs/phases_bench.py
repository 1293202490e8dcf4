#!/usr/bin/env python3
"""Memory over time of a program whose work changes its phases, under one malloc after the other.

    phases_bench.py LIBRARY PROGRAM [--csv FILE] [--smoke]

LIBRARY is libtslab-malloc.so, PROGRAM is phases (phases.c). All run at the same time, so that a machine which is busy is so for each.
The chart is `benchmarks/report/plot_bench.py phases`.
"""

import argparse
import pathlib
import subprocess
import sys

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))
sys.path.insert(0, str(BENCHMARKS / "programs"))

import programs_bench  # noqa: E402
from harness import place  # noqa: E402

HEADING = "phase,second,rss_mib,faults"
PHASES = ["small", "large", "small again", "thread", "night", "day", "night again"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("program")
    parser.add_argument("--csv", metavar="FILE", type=place.output)
    parser.add_argument("--smoke", action="store_true", help="a hundredth of the time and of the memory")
    options = parser.parse_args()
    command = [options.program] + (["--smoke"] if options.smoke else [])
    running = {}
    for name, variables in programs_bench.allocators(options.library, False).items():
        environment = programs_bench.environment() | dict(v.split("=", 1) for v in variables)
        running["malloc" if name == "glibc" else name] = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    lines, failed = ["allocator," + HEADING], 0
    for name, process in running.items():
        heading, *rows = process.communicate()[0].splitlines() or [""]
        phases = list(dict.fromkeys(row.split(",")[0] for row in rows))
        if process.returncode != 0 or heading != HEADING or phases != PHASES:
            print(f"phases: {name}: exit code {process.returncode}, phases {phases}", file=sys.stderr)
            failed = 1
            continue
        lines += [f"{name},{row}" for row in rows]
        last = {row.split(",")[0]: row.split(",") for row in rows}
        print(f"{name:<9}" + "  ".join(f"{phase} {float(last[phase][2]):.0f}" for phase in PHASES) + "  (MiB at the end of each)")
    if options.csv:
        pathlib.Path(options.csv).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return failed


if __name__ == "__main__":
    sys.exit(main())
