#!/usr/bin/env python3
"""Runs the mixed load in windows: 400 slots, 16-1040 bytes, 70 % of the operations allocate.

Each allocator has one process (soak_mixed) for the whole soak. The processes take turns, a window each, so that a slow
spell of the machine falls on all of them; nobody else runs meanwhile. Every window is written to the CSV file at once.
At the end, or when interrupted, what was measured is summed up as by analyze_epoch_tail_csv.py.
"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, machine, run  # noqa: E402
from harness.ending import Refusal  # noqa: E402
from harness.peers import ALLOCATORS, clean_environment  # noqa: E402
from report import analyze_epoch_tail_csv as analyze  # noqa: E402

END_S = 60  # how long a program may take to free everything
HEADER = "allocator,epoch,throughput_ops_sec,seconds,allocations,frees,live_objects,rss_kib,floor_ns,version"


def parse_arguments(arguments):
    parser = run.Parser("soak_mixed_single_process.sh", __doc__, "quick smoke allocators build csv")
    parser.add_argument("--seconds", type=run.whole(1, 1000000), metavar="N", help="how long each allocator runs (default 300; --quick: 20)")
    parser.add_argument("--touch-mb", type=run.whole(0, 100000), default=0, metavar="N", help="allocate, write and free so much before the first window")
    options = parser.parse_args(arguments)
    if options.csv is None:  # not where the figures of a run_all.sh are, whose record would then say of them what is not so
        folder = run.BENCHMARKS / "results" / "alone"
        folder.mkdir(parents=True, exist_ok=True)
        options.csv = run.output(folder / "soak.csv")
    options.window_ms = 10 if options.smoke else 1000
    seconds = options.seconds or (0.03 if options.smoke else 20 if options.quick else 300)
    options.windows = round(seconds * 1000 / options.window_ms)
    return options


class Runner:
    """One allocator's process. It runs a window for each line that it gets."""

    def __init__(self, program, name, options):
        self.name, self.windows = name, 0
        command = [program, "--allocator", name, "--paced", "--windows", str(options.windows), "--window_ms", str(options.window_ms),
                   "--touch_mb", str(options.touch_mb), *(["--smoke"] if options.smoke else [])]
        # In a session of its own: an interruption ends the turn here, not in the middle of a line there.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=clean_environment(), start_new_session=True)
        if self.read() != HEADER:
            raise Refusal(f"{name}: not the columns {HEADER}", 1)

    def read(self):
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            raise Refusal(f"{self.name}: ended too early: {run.last(self.process.communicate()[1])}", 1)
        return line[:-1]

    def window(self):
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # read() says why
        line = self.read()
        fields = line.split(",")
        self.windows += 1
        if len(fields) != HEADER.count(",") + 1 or fields[:2] != [self.name, str(self.windows)]:
            raise Refusal(f"{self.name}: unexpected line '{line}'", 1)
        return line

    def end(self):
        """Lets it free everything and check its counters."""
        try:
            rest, errors = self.process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired as error:
            raise Refusal(f"{self.name}: no end within {END_S} s of the last window", 1) from error
        if self.process.returncode != 0 or rest:
            raise Refusal(f"{self.name}: {run.last(errors + rest)}", 1)


def soak(options, program, names, out):
    """Writes a line per window."""
    runners, progress = {}, run.Progress(options.windows * len(names))
    try:
        for name in names:
            runners[name] = Runner(program, name, options)

        def window(name, number):
            out.write(runners[name].window() + "\n")
            out.flush()
            progress.step(f"window {number + 1} of {options.windows}, {name}")

        run.in_turns(names, options.windows, window)
        for runner in runners.values():
            runner.end()
    finally:
        progress.end()
        for runner in runners.values():
            runner.process.kill()
            runner.process.wait()


def command_words(options):
    words = [f"--{size}" for size in ("quick", "smoke") if getattr(options, size)]
    words += [f"--{name.replace('_', '-')} {getattr(options, name)}" for name in ("touch_mb", "seconds", "allocators") if getattr(options, name)]
    return " ".join(["benchmarks/soak_mixed_single_process.sh", *words])


def main(arguments):
    options = parse_arguments(arguments)
    program = run.programs_in(options.build, "soak_mixed") / "soak_mixed"
    given = options.allocators and options.allocators.replace("glibc", "malloc")
    wanted = run.choose(given, ALLOCATORS, "allocator")
    versions, absent = run.identify(lambda name: [program, "--allocator", name], wanted, wanted if given else ["tslab"], options.smoke)
    print(f"{', '.join(f'{name} {each.version}' for name, each in versions.items())}; {options.windows} windows of {options.window_ms} ms each", flush=True)
    interrupted = False
    with run.lock_file(options.csv), open(options.csv, "w", encoding="utf-8") as out:  # it stays there for the writer, so it is not moved
        about = machine.about(command_words(options), {name: each.version for name, each in versions.items()}, absent)
        out.writelines([*(f"# {line}\n" for line in about), HEADER + "\n"])
        try:
            soak(options, program, list(versions), out)
        except KeyboardInterrupt:
            interrupted = True
    if interrupted and options.csv.read_text(encoding="utf-8").endswith(HEADER + "\n"):
        return ending.interrupted()
    print("\n".join([*analyze.table(analyze.read_windows(options.csv, {})), run.shown(options.csv)]))
    if interrupted:
        print("interrupted: the windows above are kept")
        return ending.interrupted()
    return 0


if __name__ == "__main__":
    ending.run("soak_mixed_single_process", main)
