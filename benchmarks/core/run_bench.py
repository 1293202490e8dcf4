#!/usr/bin/env python3
"""Runs core_bench for every allocator, interleaved, and compares the medians with targets.csv.

Each measurement is a process of its own. A round runs every work once with every allocator, one allocator
after the other, each round beginning with another one, so that a slow spell of the machine hits all alike.
Every measurement is appended to the raw file at once.
"""

import argparse
import datetime
import fcntl
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import time

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
ROOT = BENCHMARKS.parent
sys.path.insert(0, str(BENCHMARKS))

from harness import ending, peers, place  # noqa: E402
from harness.peers import clean_environment  # noqa: E402
from report import bench_report as report  # noqa: E402

PEERS = ["glibc", *peers.PEERS[1:]]
ALLOCATORS = [report.OURS, *PEERS]
EXIT_USAGE = 2
EXIT_UNAVAILABLE = 3
TIMEOUT_S = 180


def fail(message):
    print(f"{pathlib.Path(sys.argv[0]).stem}: {message}", file=sys.stderr)
    sys.exit(2)


def shown(path):
    """A path as it is told to the caller: relative where it lies below the working directory, else absolute."""
    relative = os.path.relpath(path)
    return os.path.abspath(path) if relative.split(os.sep)[0] == os.pardir else relative


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line."""

    def error(self, message):
        fail(f"{message} (see --help)")


def parse_arguments(arguments):
    parser = Parser(
        prog="run_bench.sh", description=f"Speed and memory of tslab beside {', '.join(PEERS)}."
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="measurements of each work and allocator (default 7)")
    parser.add_argument("--quick", action="store_true", help="3 rounds of shorter measurements")
    parser.add_argument("--smoke", action="store_true", help="only check that every program works, with tiny amounts")
    parser.add_argument("--works", metavar="A,B", help="only these works")
    parser.add_argument("--allocators", metavar="A,B", help=f"only these of {','.join(ALLOCATORS)}")
    parser.add_argument("--gate", action="store_true", help="exit 1 if a figure misses its target")
    parser.add_argument("--touch", action="store_true", help="write the first byte of every new object")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of sizes and order (default 1)")
    parser.add_argument("--build", metavar="DIR", help="build directory (default build/release, else build)")
    parser.add_argument("--out", metavar="FILE", help="results (default benchmarks/results/core_bench.csv; for a "
                        "quick or partial run core_bench_partial.csv); the raw file lies beside it")
    options = parser.parse_args(arguments)
    if options.rounds is not None and not 1 <= options.rounds <= 1000:
        fail(f"--rounds takes a number from 1 to 1000, not '{options.rounds}'")
    if options.smoke and options.gate:
        fail("--smoke makes no figures: it does not go with --gate")
    if options.seed < 0:
        fail(f"--seed takes a number from 0 up, not '{options.seed}'")
    if options.out is not None and (not pathlib.Path(options.out).name or pathlib.Path(options.out).is_dir()):
        fail(f"--out takes the name of a file, not '{options.out}'")
    options.rounds = options.rounds or (3 if options.quick else 7)
    options.partial = bool(options.quick or options.works or options.allocators or options.touch)
    return options


def find_programs(options):
    """{allocator: program} of the wanted ones that are built, and {allocator: why not} of the others."""
    candidates = [pathlib.Path(options.build)] if options.build else [ROOT / "build" / "release", ROOT / "build"]
    for build in candidates:
        folder = build / "benchmarks" if (build / "benchmarks").is_dir() else build
        if any((folder / f"core_bench_{name}").is_file() for name in ALLOCATORS):
            break
    else:
        fail(f"no core_bench_* in {' or '.join(shown(path) for path in candidates)}: build the project first")
    wanted = choose(options.allocators, ALLOCATORS, "allocator")
    programs, notes = {}, {}
    for name in wanted:
        program = folder / f"core_bench_{name}"
        if not program.is_file() or (program.is_symlink() and call(program, "--identify").returncode == EXIT_USAGE):
            notes[name] = "not installed"
            continue
        programs[name] = program
    return programs, notes


def choose(text, known, what):
    if text is None:
        return list(known)
    chosen = [name for name in text.split(",") if name]
    for name in chosen:
        if name not in known:
            fail(f"unknown {what} '{name}': one of {', '.join(known)}")
    if not chosen:
        fail(f"no {what} in '{text}'")
    return chosen


def call(program, *arguments):
    command = [str(program), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, env=clean_environment(), check=False
    )


def identify(programs):
    """{allocator: version}. Each program proves that its allocator is the one it claims."""
    versions = {}
    for name, program in programs.items():
        answer = call(program, "--identify")
        fields = answer.stdout.strip().split(",")
        if answer.returncode != 0 or len(fields) != 4 or fields[0] != name:
            fail(f"{program.name}: {answer.stderr.strip() or answer.stdout.strip() or 'no answer to --identify'}")
        if fields[3] != "optimized":
            fail(f"{program.name} is a {fields[3]} build: measure a release build")
        versions[name] = fields[1]
    return versions


def list_works(programs):
    """{work: the allocators that have it}, in the order of the programs' own tables."""
    works = {}
    for name, program in programs.items():
        for line in call(program, "--list").stdout.splitlines():
            works.setdefault(line.split("\t")[0], []).append(name)
    return works


def governor():
    """What sets the processors' frequency, as far as the system shows it."""
    found = {path.read_text(encoding="ascii").strip()
             for path in pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return f"governor {' and '.join(sorted(found))}" if found else "governor not shown"


def affinity():
    """The processors that programs started from here may use, as `0-3,6`."""
    runs = []
    for cpu in sorted(os.sched_getaffinity(0)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{low}-{high}" if low < high else f"{low}" for low, high in runs)


def built_with(build=ROOT / "build" / "release"):
    """Compiler and flags of a build; empty where there is none."""
    try:
        cache = dict(re.findall(r"(?m)^(\w+):\w+=(.*)$", (build / "CMakeCache.txt").read_text(encoding="utf-8")))
        compiler = next((build / "CMakeFiles").glob("*/CMakeCCompiler.cmake")).read_text(encoding="utf-8")
    except (OSError, StopIteration):
        return ""
    kind = cache.get("CMAKE_BUILD_TYPE", "")
    flags = f"{cache.get('CMAKE_C_FLAGS', '')} {cache.get(f'CMAKE_C_FLAGS_{kind.upper()}', '')}".split()
    named = [re.search(rf'set\(CMAKE_C_COMPILER_{word} "([^"]*)"', compiler) for word in ("ID", "VERSION")]
    return " ".join([*(match[1] for match in named if match), *flags])


def describe_machine():
    """The processor with family and model where the system tells them: one name may cover several generations. Which
    processors may be used, what sets their frequency, and what the programs were built with."""
    facts, memory_kb = {}, 0
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if not line.strip():
                break  # the first processor's part ends
            key, _, value = line.partition(":")
            facts[key.strip()] = value.strip()
        memory_kb = int(pathlib.Path("/proc/meminfo").read_text(encoding="utf-8").split()[1])
    except (OSError, ValueError, IndexError):
        pass
    model = facts.get("model name", platform.machine())
    if "cpu family" in facts and "model" in facts:
        model += f" (family {facts['cpu family']} model {facts['model']})"
    processors = f"{len(os.sched_getaffinity(0))} processors ({affinity()})"
    kernel = re.match(r"[0-9.]*", platform.release())[0].rstrip(".")  # without its builder's additions
    parts = [model, processors, governor(), f"{memory_kb / 1048576:.0f} GiB", f"{platform.system()} {kernel}", built_with()]
    return ", ".join(part for part in parts if part)


def describe_commit():
    """The commit that is checked out; with `+changes` if a file of the sources is not as it is there, or not there."""
    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)

    figures = (":(exclude)benchmarks/results",)
    try:
        answer = git("rev-parse", "--short", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "include", "cmake",
                      ":(glob)benchmarks/**/*.[chp]*", "benchmarks/peers/rust", "CMakeLists.txt", "CMakePresets.json",
                      *figures).stdout.strip()
        added = git("ls-files", "--others", "--exclude-standard", "--", "src", "include", "benchmarks", *figures).stdout.strip()
    except OSError:
        return "unknown"
    return f"{answer.stdout.strip()}{'+changes' if changed or added else ''}" if answer.stdout.strip() else "unknown"


def command_words(options, works):
    words = ["benchmarks/run_bench.sh", "--rounds", str(options.rounds), "--seed", str(options.seed)]
    if options.quick:
        words.append("--quick")
    if options.touch:
        words.append("--touch")
    if options.works:
        words += ["--works", ",".join(works)]
    if options.allocators:
        words += ["--allocators", options.allocators]
    return words


def header_lines(words, versions, notes):
    """What a file of measurements says of its run. words: the command; notes: {allocator: why it has no figures}."""
    load = os.getloadavg()[0]
    return [
        f"machine: {describe_machine()}",
        f"command: {' '.join(words)}",
        f"date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M:%S} UTC, load {load:.2f} at the start",
        f"allocators: {', '.join(f'{name} {version}' for name, version in versions.items())}"
        + "".join(f", {name} {note}" for name, note in notes.items()),
        f"commit: {describe_commit()}",
    ]


class Progress:
    """One line that is rewritten on a terminal, a line every ten seconds elsewhere."""

    def __init__(self, total):
        self.total, self.done, self.start, self.shown = total, 0, time.monotonic(), 0.0
        self.terminal = sys.stderr.isatty()

    def step(self, what):
        self.done += 1
        now = time.monotonic()
        if not self.terminal and now - self.shown < 10 and self.done < self.total:
            return
        self.shown = now
        left = (now - self.start) / self.done * (self.total - self.done)
        text = f"{self.done}/{self.total} {what}, {left // 60:.0f} min {left % 60:02.0f} s left"
        if self.terminal:
            print(f"\r{text:<78}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def end(self):
        if self.terminal and self.done:
            print(file=sys.stderr)


def plan_of(rounds, works, programs):
    """(round, work, allocator) in the order of measuring: the first allocator changes with each round."""
    names = list(programs)
    for number in range(rounds):
        order = names[number % len(names) :] + names[: number % len(names)]
        for work, available in works.items():
            for name in order:
                if name in available:
                    yield number + 1, work, name


def lock_file(path):
    """The file, made if it is not there, which is this run's to write as long as it is open."""
    if path.exists() and not path.is_file():
        fail(f"{shown(path)} is no file that can be read again")
    file = open(path, "ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fail(f"{shown(path)} is in use: another run writes to it")
    return file


def measure(options, programs, works, header, raw_path):
    """Runs the plan. Returns (measurements, {(work, allocator): why it failed or is not available}, interrupted)."""
    measurements, plan = [], list(plan_of(options.rounds, works, programs))
    raw_path.write_text("\n".join([*(f"# {line}" for line in header), ",".join(report.RAW_COLUMNS)]) + "\n", encoding="utf-8")
    arguments = ["--csv", "--seed", str(options.seed)]
    arguments += ["--touch"] if options.touch else []
    arguments += ["--seconds", "0.05"] if options.quick else []
    problems, interrupted = {}, False
    progress = Progress(len(plan))
    try:
        with open(raw_path, "a", encoding="utf-8") as raw:
            for number, work, name in plan:
                if (work, name) not in problems:
                    rows, problem = measure_once(programs[name], name, work, arguments, number)
                    if problem:
                        problems[work, name] = problem
                    lines = [",".join(str(row[column]) for column in report.RAW_COLUMNS) for row in rows]
                    raw.write("".join(f"{line}\n" for line in lines))
                    raw.flush()
                    measurements += rows
                progress.step(f"round {number} of {options.rounds}, {work}, {name}")
    except KeyboardInterrupt:
        interrupted = True
    progress.end()
    return measurements, problems, interrupted


def measure_once(program, name, work, arguments, number):
    """([measurements], None) or ([], (failed, why))."""
    try:
        answer = call(program, "--work", work, *arguments)
    except subprocess.TimeoutExpired:
        return [], (True, f"no end after {TIMEOUT_S} s")
    if answer.returncode == EXIT_UNAVAILABLE:
        return [], (False, answer.stderr.strip())
    if answer.returncode != 0:
        return [], (True, answer.stderr.strip() or f"exit code {answer.returncode}")
    rows = []
    for line in answer.stdout.splitlines():
        fields = line.split(",")
        if len(fields) != 6 or fields[0] != name or fields[2] != work:
            return [], (True, f"unexpected line '{line}'")
        row = dict(zip(report.RAW_COLUMNS, [number, *fields]))
        row["value"] = float(row["value"])
        rows.append(row)
    return rows, None if rows else (True, "no output")


def smoke(programs, notes):
    failed = False
    for name, program in programs.items():
        answer = call(program, "--smoke")
        failed |= answer.returncode != 0
        print((answer.stdout if answer.returncode == 0 else answer.stderr).strip() or f"{program.name}: failed")
    for name, note in notes.items():
        print(f"core_bench_{name}: {note}")
    return 1 if failed else 0


def expected_peers(targets, works, problems):
    """{(work, metric): the allocators that must have a figure there}: those that have the work and can measure here."""
    unavailable = {key for key, (is_failure, _) in problems.items() if not is_failure}
    return {(work, metric): [name for name in works.get(work, []) if (work, name) not in unavailable]
            for (work, metric), (kind, _) in targets.items() if kind == "ratio"}


def verdict_lines(judged, gate, measured):
    """The closing sentence, and whether the gate holds."""
    misses = [f"{row.work} {row.metric}" for row in judged if row.verdict == "miss"]
    missing = [f"{row.work} {row.metric}" for row in judged if row.verdict == "not measured"]
    met = len(judged) - len(misses) - len(missing)
    lines = [f"{met} of {len(judged)} targets met"]
    if misses:
        lines.append(f"missed: {', '.join(misses)}")
    if missing:
        lines.append(f"not measured: {', '.join(missing)}")
    holds = not misses and not missing and met > 0
    absent = [name for name in ALLOCATORS if name not in measured]
    if gate and absent:
        lines.append(f"judged without {', '.join(absent)}: this run did not measure them")
    if gate:
        lines.append("gate: " + ("passed" if holds else "FAILED"))
    return lines, holds


def main(arguments):
    options = parse_arguments(arguments)
    programs, notes = find_programs(options)
    if options.smoke:
        return smoke(programs, notes)
    try:
        targets = report.read_targets(BENCHMARKS / "targets.csv")
    except report.InputError as error:
        fail(str(error))
    if not programs:
        fail("none of the wanted allocators is built")
    versions = identify(programs)
    available = list_works(programs)
    works = {work: available[work] for work in choose(options.works, available, "work")}
    targets = {key: value for key, value in targets.items()
               if key[0] in works or not (options.works or key[0].startswith(report.SUITE))}
    header = header_lines(command_words(options, works), versions, notes)
    default = BENCHMARKS / "results" / ("core_bench_partial.csv" if options.partial else "core_bench.csv")
    out_path = pathlib.Path(options.out) if options.out else default
    raw_path = out_path.with_name(out_path.stem + "_raw.csv")
    try:
        out_path.parent.mkdir(parents=True, exist_ok=True)
        for each in (out_path, raw_path):
            place.announce(each)
        locked = lock_file(raw_path)
        measurements, problems, interrupted = measure(options, programs, works, header, raw_path)
        header[2] += f", {os.getloadavg()[0]:.2f} at the end"
        summary = report.summarize(measurements)
        report.write_summary(out_path, header, summary)
        locked.close()
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")

    for line in header[:4]:
        print(line)
    print("\nmedian of the rounds ± half the distance between the quartiles;", end=" ")
    print("figure: tslab / the best peer, or tslab itself")
    judged = report.judge_all(summary, targets, expected_peers(targets, works, problems))
    for line in report.table(summary, targets, judged, [*programs, *notes], notes):
        print(line)
    print()
    lines, holds = verdict_lines(judged, options.gate, programs)
    for line in lines:
        print(line)
    failed = False
    for (work, name), (is_failure, why) in problems.items():
        print(f"{'FAILED' if is_failure else 'not here'}: {work}, {name}: {why}")
        failed |= is_failure
    print(f"{shown(out_path)}, {shown(raw_path)}")
    if interrupted:
        print(f"interrupted: {shown(raw_path)} has what was measured")
        return ending.interrupted()
    return 1 if failed or (options.gate and not holds) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, ending.interrupt)
    ending.run("run_bench", main)
