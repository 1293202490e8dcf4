#!/usr/bin/env python3
"""What a call of the soak does, by count: instructions, memory accesses, misses of a first-level cache, mispredicted branches.

    benchmarks/suite/soak_counts.py --csv FILE        half a minute; needs valgrind

soak_mixed runs under cachegrind twice for each allocator, with a short window and a longer one. The differences of the counts
over the difference of the calls have no set-up in them. Nothing is timed, so the load of the machine is not in it. The simulated
first level has 32 KiB, 8 ways, lines of 64 bytes. The loop around the calls is in all counts.
"""

import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, machine, peers, run  # noqa: E402
from harness.run import Missing  # noqa: E402

COUNTS = {"instructions": r"I\s+refs", "accesses": r"D\s+refs", "l1_misses": r"D1\s+misses", "mispredicts": "Mispredicts"}
VALGRIND = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes", "--cachegrind-out-file=/dev/null",
            "--D1=32768,8,64", "--LL=1048576,8,64"]


def count(program, settings, window_ms):
    """(calls, {count: number}) of one run."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "window.csv"
        done = run.call([*VALGRIND, *program, "--windows", 1, "--window_ms", window_ms, "--csv", out], **settings)
        if done.returncode != 0:
            raise Missing(f"{program[0]}: exit code {done.returncode}: {run.last(done.stderr)}")
        row = run.read_csv(out)[-1]
    numbers = {name: re.search(rf"{pattern}:\s+([\d,]+)", done.stderr) for name, pattern in COUNTS.items()}
    return int(row["allocations"]) + int(row["frees"]), {name: int(found[1].replace(",", "")) for name, found in numbers.items()}


def of_a_call(program, settings, short_ms, long_ms):
    (calls, first), (more_calls, second) = count(program, settings, short_ms), count(program, settings, long_ms)
    if more_calls <= calls:
        raise Missing(f"{program[0]}: no more calls in {long_ms} ms than in {short_ms} ms")
    return {name: (second[name] - first[name]) / (more_calls - calls) for name in COUNTS}


def main(arguments):
    parser = run.Parser("soak_counts.py", __doc__, "csv build allocators")
    parser.add_argument("--windows", type=int, nargs=2, default=(200, 3000), metavar="MS", help="the two (default 200 3000)")
    options = parser.parse_args(arguments)
    folder = run.programs_in(options.build, "soak_mixed")
    found, absent = run.identify(lambda name: [folder / "soak_mixed", "--allocator", name],
                                 run.choose(options.allocators, peers.ALLOCATORS, "allocator"), debug=True)
    for name in absent:
        run.say(f"soak_counts: {name} is not installed: left out")
    rows = []
    for name, identity in found.items():
        # valgrind does not follow a program that starts itself again with another allocator
        program = folder / ("soak_mixed" if name == "tslab" else "soak_mixed_malloc")
        try:
            if name == "google":
                raise Missing("it has no caches per processor below valgrind, which has no restartable sequences")
            settings = {} if name in ("tslab", "malloc") else peers.settings(name, identity.library)
            counts = of_a_call([program, "--allocator", name], settings, *options.windows)
        except Missing as why:
            if name in ("tslab", "malloc"):
                raise
            run.say(f"soak_counts: {name} is left out: {why}")
            continue
        rows.append([name, *(f"{counts[key]:.3f}" for key in COUNTS)])
    print("\n".join(run.aligned([["allocator", *COUNTS], *rows])))
    if options.csv:
        run.write_csv(options.csv, machine.about("benchmarks/suite/soak_counts.py"), ["allocator", *COUNTS], rows)
    return 0


if __name__ == "__main__":
    ending.run("soak_counts", main)
