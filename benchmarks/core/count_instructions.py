#!/usr/bin/env python3
"""Counts the instructions of an allocation and of a free, with valgrind's callgrind.

Runs core_bench_NAME --work WORK under callgrind for two numbers of blocks and divides the difference in
instructions inside the allocation and free functions, all that they call included, by the difference in calls:
start-up and warm-up cancel out. Instructions do not depend on what else the machine does.
"""

import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from core import run_bench  # noqa: E402
from harness import ending, peers, run  # noqa: E402

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


def profile(program, work, reps, settings):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind"
        run.output_of(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-strings=no", "--compress-pos=no",
                       program, "--work", work, "--reps", reps], **settings)
        return read_profile(out)


def instructions(program, work, settings=()):
    """{kind: (calls, instructions per call)}. settings: valgrind does not follow a program that starts itself again."""
    few, many = (profile(program, work, reps, dict(settings)) for reps in (1, 3))
    calls = {kind: many[kind][0] - few[kind][0] for kind in FUNCTIONS}
    return {kind: (count, (many[kind][1] - few[kind][1]) / count) for kind, count in calls.items() if count > 0}


def main(arguments):
    options = run.Parser("count_instructions.py", __doc__, "works=random_replace_2k allocators build").parse_args(arguments)
    programs, versions, _ = run_bench.find_programs(options)
    print(f"{'work':<20} {'allocator':<10} {'call':<7} {'instructions':>12}")
    for work in run.choose(options.works, run_bench.list_works(programs), "work"):
        for name, program in programs.items():
            settings = peers.settings(name, versions[name].library) if name not in (run_bench.report.OURS, "glibc") else {}
            for kind, (_, each) in instructions(program, work, settings).items():
                print(f"{work:<20} {name:<10} {kind:<7} {each:>12.2f}", flush=True)
    return 0


if __name__ == "__main__":
    ending.run("count_instructions", main)
