#!/usr/bin/env python3
"""Counts the instructions of an allocation and of a free, with valgrind's callgrind.

Runs core_bench_NAME --work WORK under callgrind for two numbers of blocks and divides the difference in
instructions inside the allocation and free functions, all that they call included, by the difference in calls:
start-up and warm-up cancel out. Instructions do not depend on what else the machine does.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))

from core import run_bench  # noqa: E402
from harness import peers  # noqa: E402

FUNCTIONS = {
    "alloc": {"slab_malloc_epoch", "slab_alloc", "malloc", "tc_malloc", "mi_malloc"},
    "free": {"slab_free", "free", "tc_free", "cfree", "mi_free"},
    "domain": {"epoch_domain_create", "epoch_domain_enter", "epoch_domain_exit", "epoch_domain_destroy"},
}
PROGRAM_FILE = re.compile(r"core_bench_\w+$")


def read_profile(path):
    """{kind: (calls, instructions)} of the calls that the benchmark program itself makes."""
    totals = {kind: [0, 0] for kind in FUNCTIONS}
    from_program, kind, calls = False, None, 0
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("ob="):
            from_program = bool(PROGRAM_FILE.search(line[3:]))
        elif line.startswith("cfn="):
            name = line[4:].split("'")[0].split("@")[0]
            kind = next((k for k, names in FUNCTIONS.items() if name in names), None)
        elif line.startswith("calls="):
            calls = int(line[6:].split()[0])
        elif calls:
            if kind and from_program:
                totals[kind][0] += calls
                totals[kind][1] += int(line.split()[-1])
            calls, kind = 0, None
    return totals


def settings(name, program):
    """What makes the program measure that allocator at once: valgrind does not follow it where it starts itself again."""
    library = run_bench.call(program, "--identify").stdout.split(",")[2]
    return peers.settings(name, library) if name not in (run_bench.report.OURS, "glibc") else {}


def profile(name, program, work, reps, folder):
    out = folder / f"callgrind.{reps}"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-strings=no",
               "--compress-pos=no", str(program), "--work", work, "--reps", str(reps)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, env={**run_bench.clean_environment(), **settings(name, program)}, check=False)
    except FileNotFoundError:
        run_bench.fail("valgrind is not installed")
    if answer.returncode != 0:
        run_bench.fail(f"{program.name} --work {work} under valgrind: {answer.stderr.strip().splitlines()[-1]}")
    return read_profile(out)


def main(arguments):
    parser = run_bench.Parser(prog="count_instructions.py", description="Instructions per allocation and free.")
    parser.add_argument("--works", default="random_replace_2k", metavar="A,B", help="default random_replace_2k")
    parser.add_argument("--allocators", metavar="A,B", help="default all that are built")
    parser.add_argument("--build", metavar="DIR", help="build directory (default build/release, else build)")
    options = parser.parse_args(arguments)
    programs, notes = run_bench.find_programs(options)
    run_bench.identify(programs)
    works = run_bench.choose(options.works, run_bench.list_works(programs), "work")
    print(f"{'work':<20} {'allocator':<10} {'call':<7} {'instructions':>12}")
    for work in works:
        for name, program in programs.items():
            with tempfile.TemporaryDirectory() as folder:
                few = profile(name, program, work, 1, pathlib.Path(folder))
                many = profile(name, program, work, 3, pathlib.Path(folder))
            for kind in FUNCTIONS:
                calls = many[kind][0] - few[kind][0]
                if calls > 0:
                    each = (many[kind][1] - few[kind][1]) / calls
                    print(f"{work:<20} {name:<10} {kind:<7} {each:>12.2f}", flush=True)
    for name, note in notes.items():
        print(f"core_bench_{name}: {note}")
    return 0


if __name__ == "__main__":
    if os.name != "posix":
        run_bench.fail("needs a POSIX system")
    sys.exit(main(sys.argv[1:]))
