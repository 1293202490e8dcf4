#!/usr/bin/env python3
"""Runs a program of the suite that mostly waits with all allocators at the same time, and joins their CSV files.

    at_once.py PROGRAM --allocators A,B --csv FILE [--smoke|--quick]
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending  # noqa: E402


def main(arguments):
    parser = argparse.ArgumentParser(prog="at_once.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--allocators", required=True, metavar="A,B")
    parser.add_argument("--csv", required=True, type=pathlib.Path, metavar="FILE")
    options, more = parser.parse_known_args(arguments)
    lines, code = [], 0
    with tempfile.TemporaryDirectory() as folder:
        running = {}
        for name in options.allocators.split(","):
            part = pathlib.Path(folder) / f"{name}.csv"
            running[name] = part, subprocess.Popen([options.program, "--allocator", name, *more, "--csv", str(part)])
        for name, (part, process) in running.items():
            if process.wait() != 0:
                print(f"at_once: {name}: exit code {process.returncode}", file=sys.stderr)
                code = code or abs(process.returncode)
                continue
            heading, *rows = part.read_text(encoding="utf-8").splitlines()
            lines += rows if lines else [heading, *rows]
    if code == 0:
        options.csv.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    ending.run("at_once", main)
