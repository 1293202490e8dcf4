#!/usr/bin/env python3
"""Runs the mixed load in windows: 400 slots, 16-1040 bytes, 70 % of the operations allocate.

Each allocator has one process (soak_mixed) for the whole soak. The processes take turns, a window each, so that a slow
spell of the machine falls on all of them; nobody else runs meanwhile. Every window is written to the CSV file at once.
At the end, or when interrupted, what was measured is summed up as by analyze_epoch_tail_csv.py.
"""

import argparse
import pathlib
import signal
import subprocess
import sys

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
ROOT = BENCHMARKS.parent
sys.path.insert(0, str(BENCHMARKS))

from core.run_bench import Progress, clean_environment, header_lines, lock_file, shown  # noqa: E402
from harness.peers import ALLOCATORS  # noqa: E402
from harness import ending, place  # noqa: E402
from report import analyze_epoch_tail_csv as analyze  # noqa: E402
from suite import run_all  # noqa: E402

END_S = 60  # how long a program may take to free everything
HEADER = "allocator,epoch,throughput_ops_sec,seconds,allocations,frees,live_objects,rss_kib,floor_ns,version"


class Failure(Exception):
    """A program that did not do what it should."""


def fail(message):
    print(f"soak_mixed_single_process: {message}", file=sys.stderr)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line."""

    def error(self, message):
        fail(f"{message} (see --help)")


def whole_number(low, high):
    def convert(text):
        if not (text.isascii() and text.isdecimal() and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"takes a whole number from {low} to {high}, not '{text}'")
        return int(text)

    return convert


def parse_arguments(arguments):
    parser = Parser(
        prog="soak_mixed_single_process.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--seconds", type=whole_number(1, 1000000), metavar="N",
                        help="how long each allocator runs (default 300)")
    parser.add_argument("--window-ms", type=whole_number(1, 3600000), metavar="N", help="length of a window "
                        "(default 1000)")
    parser.add_argument("--touch-mb", type=whole_number(0, 100000), default=0, metavar="N", help="allocate, write and free so much "
                        "before the first window (default 0)")
    parser.add_argument("--allocators", metavar="A,B", help=f"only these of {','.join(ALLOCATORS)} (default: those "
                        "that are installed)")
    parser.add_argument("--csv", metavar="FILE", help="where the windows go (default benchmarks/results/soak.csv, or "
                        "results/alone/soak.csv where run_all.sh has left its figures)")
    parser.add_argument("--seed", type=whole_number(0, 2**64 - 1), default=1, metavar="N", help="default 1")
    parser.add_argument("--build", metavar="DIR", help="build directory (default build/release, else build)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="20 seconds for each")
    size.add_argument("--smoke", action="store_true", help="3 windows of 10 ms, every object checked: no figures")
    options = parser.parse_args(arguments)
    if options.csv == "":
        fail("--csv: the name of a file is missing")
    options.window_ms = options.window_ms or (10 if options.smoke else 1000)
    if options.seconds is None:
        options.windows = 3 if options.smoke else max(1, (20 if options.quick else 300) * 1000 // options.window_ms)
    else:
        if options.seconds * 1000 < options.window_ms:
            fail(f"--seconds {options.seconds} is less than a window of {options.window_ms} ms")
        options.windows = options.seconds * 1000 // options.window_ms
    return options


def find_folder(build):
    for candidate in [pathlib.Path(build)] if build else [ROOT / "build" / "release", ROOT / "build"]:
        for folder in (candidate / "benchmarks", candidate):
            if (folder / "soak_mixed").is_file():
                return folder
    return fail(f"no soak_mixed in {build or 'build/release or build'}: build the project first")


def choose(options, folder):
    """{allocator: version} of the wanted ones. Each program proves that its allocator is the one it claims."""
    wanted = ALLOCATORS
    if options.allocators is not None:
        wanted = ["malloc" if name == "glibc" else name for name in options.allocators.split(",")]
        for name in wanted:
            if name not in ALLOCATORS:
                fail(f"unknown allocator '{name}': one of {', '.join(ALLOCATORS)}")
        if len(set(wanted)) < len(wanted):
            fail(f"an allocator is there twice in '{options.allocators}'")
    versions = {}
    for name in wanted:
        try:
            answer = run_all.ask(folder / "soak_mixed", name)
        except run_all.Refusal as refusal:
            fail(str(refusal))
        fields = answer.stdout.strip().split(",")
        if answer.returncode == 0 and len(fields) == 4 and fields[0] == name:
            if fields[3] != "optimized" and not options.smoke:
                fail(f"soak_mixed is a {fields[3]} build: measure a release build")
            versions[name] = fields[1]
        elif options.allocators is not None or name == "tslab" or answer.returncode != 2:
            fail(f"{name}: {answer.stderr.strip() or answer.stdout.strip() or 'no answer to --identify'}")
        else:
            print(f"{name} is not installed: left out", file=sys.stderr)
    return versions


class Runner:
    """One allocator's process. It runs a window for each line that it gets."""

    def __init__(self, folder, name, options):
        self.name, self.windows = name, 0
        command = [folder / "soak_mixed", "--allocator", name, "--paced", "--windows", str(options.windows),
                   "--window_ms", str(options.window_ms), "--seed", str(options.seed),
                   "--touch_mb", str(options.touch_mb)]
        command += ["--smoke"] if options.smoke else []
        # In a session of its own: an interruption ends the turn here, not in the middle of a line there.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=clean_environment(), start_new_session=True)
        if self.read() != HEADER:
            raise Failure(f"{name}: not the columns {HEADER}")

    def read(self):
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            errors = self.process.communicate()[1].strip().splitlines()
            raise Failure(f"{self.name}: {errors[-1] if errors else 'ended too early'}")
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
            raise Failure(f"{self.name}: unexpected line '{line}'")
        return line

    def end(self):
        """Lets it free everything and check its counters."""
        try:
            rest, errors = self.process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"{self.name}: no end within {END_S} s of the last window") from error
        if self.process.returncode != 0 or rest:
            raise Failure(f"{self.name}: {(errors.strip() or rest.strip() or 'failed').splitlines()[-1]}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def soak(options, folder, versions, out):
    """Writes a line per window. Returns whether it came to its end."""
    runners = []
    progress = Progress(options.windows * len(versions))
    try:
        for name in versions:
            runners.append(Runner(folder, name, options))
        for number in range(options.windows):
            shift = number % len(runners)
            for runner in runners[shift:] + runners[:shift]:
                out.write(runner.window() + "\n")
                out.flush()
                progress.step(f"window {number + 1} of {options.windows}, {runner.name}")
        progress.end()
        for runner in runners:
            runner.end()
        return True
    except KeyboardInterrupt:
        progress.end()
        return False
    finally:
        for runner in runners:
            runner.kill()


def default_path():
    """Not where the figures of a run_all.sh are, whose record would then say of them what is not so."""
    folder = BENCHMARKS / "results"
    return folder / "alone" / "soak.csv" if (folder / "run.csv").is_file() else folder / "soak.csv"


def command_words(options):
    words = ["benchmarks/soak_mixed_single_process.sh", "--window-ms", str(options.window_ms), "--seed", str(options.seed)]
    words += [f"--{size}" for size in ("quick", "smoke") if getattr(options, size)]
    words += ["--touch-mb", str(options.touch_mb)] if options.touch_mb else []
    words += ["--seconds", str(options.seconds)] if options.seconds else []
    return words + (["--allocators", options.allocators] if options.allocators else [])


def main(arguments):
    options = parse_arguments(arguments)
    folder = find_folder(options.build)
    versions = choose(options, folder)
    path = pathlib.Path(options.csv) if options.csv else default_path()
    print(f"{', '.join(f'{name} {version}' for name, version in versions.items())}; {options.windows} windows of "
          f"{options.window_ms} ms each", flush=True)
    code = 0
    try:
        if not options.csv:
            path.parent.mkdir(parents=True, exist_ok=True)
        with lock_file(path):  # its contents stay there for the writing program, so it is not moved
            if path.stat().st_size > 0:
                place.announce(path)
            with open(path, "w", encoding="utf-8") as out:
                out.writelines(f"# {line}\n" for line in header_lines(command_words(options), versions, {}))
                out.write(HEADER + "\n")
                finished = soak(options, folder, versions, out)
    except OSError as error:
        fail(f"{error.filename or path}: {error.strerror}")
    except Failure as failure:
        print(f"soak_mixed_single_process: {failure}", file=sys.stderr)
        finished, code = False, 1
    windows = {}
    try:
        analyze.read_windows(path, windows)
        print("\n".join(analyze.table({name: analyze.analyze(speeds) for name, speeds in windows.items()})))
    except analyze.InputError as error:
        if finished:
            fail(str(error))
    print(shown(path))
    if not finished and code == 0:
        print("interrupted: the windows above are kept")
        return ending.interrupted()
    return code


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, ending.interrupt)
    ending.run("soak_mixed_single_process", main)
