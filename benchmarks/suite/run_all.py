#!/usr/bin/env python3
"""Runs every benchmark and gathers its CSV files.

Allocators take turns: a step runs once per round and allocator, each round beginning with another one. The rows of
all rounds and allocators go to one file per kind, with the column `round` behind those of the program (churn_test.csv and
fragmentation.csv have the program's columns alone, and the first round). run.csv beside them says what ran, how long, and
with which command, under lines that name machine, mode, date, allocators and commit;
run.log has what the programs printed, times.log what each step took.

What is finished is kept at once. Interrupted, the same command with --resume goes on. The figures of an earlier run, and
their lines in run.csv, stay until those of the same step replace them.
"""

import dataclasses
import fcntl
import hashlib
import itertools
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, machine, run  # noqa: E402
from harness.ending import Refusal  # noqa: E402
from harness.peers import ALLOCATORS, NEWEST, clean_environment  # noqa: E402
from harness.run import say  # noqa: E402
from steps import STEPS, Step, has  # noqa: E402

MODES = ["full", "quick", "smoke"]
EXIT_UNAVAILABLE = 3
EXIT_JUDGED = 4  # all is measured, and a program says that its figures are not as they should be
EXIT_NO_PROGRAM = 127
WITH_FIGURES = ("0", str(EXIT_JUDGED))

# Of scope_bench's ways to drop objects together, those that a page or a picture shows.
WAYS = ["tslab", "tslab_reset", "apr", "apr_clear", "bumpalo", "bumpalo_reset", "pmr", "talloc", "mimalloc", "mimalloc3", "glibc",
        "jemalloc_free", "tcmalloc_free", "mimalloc_free"]

# Of these files only the rows of the first round are kept, and of those the ones with these fields. Of the first nobody looks
# at the rest, which is large; the columns of the others are fixed, and have none for a round.
ONLY = {"latency_cdf.csv": {"size_class": "128"}, "fragmentation.csv": {}, "churn_test.csv": {}}
FIXED = ("fragmentation.csv", "churn_test.csv")

RUN_COLUMNS = ["step", "round", "allocator", "seconds", "exit_code", "date", "commit", "machine", "command"]
STAMP = ("commit", "date", "mode")  # of the lines about a run, those that every file has


def parse_arguments(arguments):
    parser = run.Parser("run_all.sh", __doc__, "quick smoke allocators build")
    parser.epilog = "steps:\n" + "\n".join(f"  {step.name:<24} {step.what}" for step in STEPS)
    parser.add_argument("--steps", metavar="A,B", help="only these steps")
    parser.add_argument("--out", metavar="DIR", help="where the CSV files go (default benchmarks/results; its folder quick or smoke)")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run of the same command")
    parser.add_argument("--gate", action="store_true", help="exit 1 if a figure misses its target (targets.csv)")
    parser.add_argument("--list", action="store_true", help="print the steps and how long they take")
    options = parser.parse_args(arguments)
    if options.smoke and (options.gate or options.quick):
        parser.error("--smoke makes no figures: it goes neither with --gate nor with --quick")
    options.mode = "smoke" if options.smoke else "quick" if options.quick else "full"
    options.wanted = run.choose(options.allocators, ALLOCATORS, "allocator")
    names = run.choose(options.steps, [step.name for step in STEPS], "step")
    options.chosen = [step for step in STEPS if step.name in names and step.rounds[MODES.index(options.mode)]]
    if not options.chosen:
        raise Refusal(f"--steps {options.steps}: nothing of it runs with --{options.mode}")
    results = run.BENCHMARKS / "results"
    # A run of less work goes to a folder of its own beside the figures, so that nobody takes what it leaves for some.
    options.out = pathlib.Path(options.out or (results if options.mode == "full" else results / options.mode)).absolute()
    return options


# ---- the plan -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Unit:
    """One run of one program."""

    step: Step
    round: int
    allocator: str  # "all" for a step that runs them all itself, "tslab" for one that has no other

    @property
    def name(self):
        return f"{self.step.name}, {self.allocator}" + (f", round {self.round}" if self.step.rounds[0] > 1 else "")

    @property
    def key(self):
        return self.step.name, str(self.round), self.allocator

    @property
    def folder(self):
        return f"{self.step.name}.{self.allocator}.{self.round}"


def make_plan(options, allocators):
    mode = MODES.index(options.mode)
    return [Unit(step, number + 1, name) for step in options.chosen for number in range(step.rounds[mode])
            for name in {"each": run.turn(allocators, number), "all": ["all"], "ours": [n for n in allocators if n == "tslab"]}[step.kind]]


def command_of(unit, options, programs, allocators, target):
    """The command of a unit, whose files go to the folder target; None: what it needs cannot be had here."""
    step, build = unit.step, programs.parent
    if not all(has(need, build, programs, allocators) for need in step.needs):
        return None
    words = {"benchmarks": run.BENCHMARKS, "root": run.ROOT, "programs": programs, "build": build, "target": target, "name": step.name,
             "csv": target / f"{step.name}.csv", "allocator": unit.allocator, "allocators": ",".join(allocators),
             "glibc": ",".join("glibc" if name == "malloc" else name for name in allocators)}
    lists = {"@size": [f"--{options.mode}"] if options.mode != "full" else [], "@extra": step.arguments.get(options.mode, []),
             "@ways": ways_of(options, programs, words["glibc"].split(",")),
             "@further": [word for option, name in step.further.items() for word in (option, str(target / f"{name}.csv"))],
             "@peers": ["--peers", str(NEWEST)] if not options.smoke and any(NEWEST.glob("*-*.so")) else []}
    line = step.smoke if options.smoke and step.smoke else step.line
    return [given for word in line.split() for given in lists.get(word, [word.format(**words)])]


def ways_of(options, programs, names):
    """--allocator NAME for each way of scope_bench that takes part."""
    chosen = [way for way in WAYS if way.split("_")[0] in names] if options.allocators else \
        [] if options.smoke else [way for way in WAYS if (programs / f"scope_bench_{way}").is_file()]
    return [word for way in chosen for word in ("--allocator", way)]


# ---- results ------------------------------------------------------------------------------------


def merge(parts, out, units, header=()):
    """Joins the files of the same name in the folders of the units, in their order; each says what the lines about the run say
    of commit, date and mode."""
    gathered = {}
    for unit in units:
        for path in sorted((parts / unit.folder).glob("*.csv")):
            gathered.setdefault(path.name, []).append((unit, path))
    for name, sources in gathered.items():
        lines = []
        for unit, path in sources:
            text = path.read_text(encoding="utf-8").splitlines()
            about = list(itertools.takewhile(lambda line: line.startswith("#"), text))
            first, *rows = text[len(about):]
            numbered = unit.step.name == "core_bench" or name in FIXED or "round" in first.split(",")
            heading = first + ("" if numbered else ",round")
            if lines and lines[0] != heading:
                raise Refusal(f"{path}: the columns {heading} differ from {lines[0]} of the others")
            if name in ONLY:
                rows = [row for row in rows if unit.round == 1 and
                        ONLY[name].items() <= dict(zip(first.split(","), row.split(","))).items()]
            lines = [*(lines or [heading]), *(row if numbered else f"{row},{unit.round}" for row in rows if row)]
        there = {line[2:].split(":")[0] for line in about}
        about += [f"# {line}" for line in header if line.split(":")[0] in STAMP and line.split(":")[0] not in there]
        temporary = out / f".{name}.tmp"
        temporary.write_text("\n".join(about + lines) + "\n", encoding="utf-8")
        temporary.replace(out / name)


def write_run(path, header, rows):
    run.write_csv(path, header, RUN_COLUMNS, [[row[column] for column in RUN_COLUMNS] for row in rows])


def read_run(path):
    """({word: text} of the lines before the heading, the rows); nothing of a file that is not there."""
    if not path.is_file():
        return {}, []
    rows = run.read_csv(path)
    if any(set(row) != set(RUN_COLUMNS) or None in row.values() for row in rows):
        raise Refusal(f"{path}: its columns are not {','.join(RUN_COLUMNS)}, or a row has other fields")
    return run.header_of(path), rows


def key_of(row):
    return row["step"], row["round"], row["allocator"]


# ---- running ------------------------------------------------------------------------------------


def clock(seconds):
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:02.0f} min" if seconds >= 3600 else \
        f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"


def lock(folder):
    """A descriptor that says to others that this folder is in use; children inherit it, so it is as long as any of them runs."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise Refusal(f"{run.shown(folder)} is in use: by another run_all.sh, or by a program that one which was killed "
                      "left running") from error
    return descriptor


def fingerprint(programs):
    """Of what is measured: the programs and the library."""
    digest = hashlib.sha256()
    executables = [path for path in programs.iterdir() if os.access(path, os.X_OK)]
    for path in sorted({*executables, *programs.glob("libtslab.*"), *programs.parent.glob("libtslab.*")}):
        if path.is_file():
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def shorten(command, target):
    """The command with paths from the project's folder on; files are named without the folder of this unit."""
    return " ".join(word.replace(f"{target}/", "").replace(f"{run.ROOT}/", "") for word in command)


def last_line(log_path, start):
    with open(log_path, encoding="utf-8", errors="replace") as file:
        file.seek(start)
        lines = [line.strip() for line in file if line.strip()]
    return re.sub(r".*\r", "", lines[-1]) if len(lines) > 1 else "no output"


class Run:
    """One call of run_all.sh."""

    def __init__(self, options):
        self.options, self.out = options, options.out
        self.programs = run.programs_in(options.build, "benchmark_accurate")
        program = self.programs / "benchmark_accurate"
        found, absent = run.identify(lambda name: [program, "--allocator", name], options.wanted,
                                     options.wanted if options.allocators else ["tslab"], options.smoke)
        for name in absent:
            say(f"{name} is not installed: left out")
        self.versions = {name: each.version for name, each in found.items()}
        self.parts = self.out / ".parts"
        self.own = self.parts / "run.csv"  # as run.csv, of this run alone: --resume goes on from it
        self.plan = make_plan(options, list(found))
        words = ["benchmarks/run_all.sh", *([f"--{options.mode}"] if options.mode != "full" else []),
                 *(f"--{name} {getattr(options, name)}" for name in ("allocators", "steps") if getattr(options, name))]
        self.header = machine.about(" ".join(words), self.versions)
        self.header.insert(1, f"mode: {options.mode}")
        self.finished = []  # rows of run.csv
        self.failures = []
        self.judged = []    # units whose files are whole, and that say that something does not hold
        self.locked = None

    def prepare(self):
        """Fresh folders, or those of the interrupted run."""
        built, before = self.parts / "build", read_run(self.out / "run.csv")[0]
        if before.get("mode", self.options.mode) != self.options.mode:
            raise Refusal(f"{run.shown(self.out)} has figures of mode {before['mode']}: name another folder with --out")
        if self.options.resume:
            if not self.own.is_file():
                raise Refusal(f"--resume: there is no interrupted run in {run.shown(self.out)}")
            if built.read_text(encoding="utf-8") != fingerprint(self.programs):
                raise Refusal("--resume: the interrupted run was of other programs than those built now")
            old, rows = read_run(self.own)
            for line in self.header:
                word, _, text = line.partition(": ")
                if word not in ("date", "mode") and old.get(word) != text:
                    raise Refusal(f"--resume: the interrupted run had '{word}: {old.get(word)}', this one has '{line}'")
            self.header = [f"{word}: {text}" for word, text in old.items()]
            self.finished = [row for row in rows if row["exit_code"] in ("0", str(EXIT_UNAVAILABLE))]
            return
        shutil.rmtree(self.parts, ignore_errors=True)
        self.parts.mkdir(parents=True)
        built.write_text(fingerprint(self.programs), encoding="utf-8")
        (self.out / "run.log").write_text("", encoding="utf-8")
        write_run(self.own, self.header, [])

    def record(self, unit, seconds, code, command):
        about = dict(line.split(": ", 1) for line in self.header)
        self.finished.append({"step": unit.step.name, "round": str(unit.round), "allocator": unit.allocator,
                              "seconds": f"{seconds:.1f}", "exit_code": str(code), "date": machine.now(), "commit": about["commit"],
                              "machine": about["machine"], "command": shorten(command, self.parts / unit.folder)})
        write_run(self.own, self.header, self.finished)

    def publish(self):
        """Brings the CSV files and run.csv to what is finished. The rows of a step are replaced with its figures: those of
        the earlier ones go before the first file is replaced, the new ones come after the last."""
        def with_figures(rows):
            return {row["step"] for row in rows if row["exit_code"] in WITH_FIGURES}

        about, recorded = read_run(self.out / "run.csv")
        earlier = [row for row in recorded if row not in self.finished]
        replaced = {row["step"] for row in self.finished} - with_figures(earlier) | with_figures(self.finished)
        if not replaced:
            return
        kept = [row for row in earlier if row["step"] not in replaced]
        if recorded:
            write_run(self.out / "run.csv", [f"{word}: {text}" for word, text in about.items()],
                      [row for row in recorded if row in kept or row in self.finished])
        done = {key_of(row) for row in self.finished if row["exit_code"] in WITH_FIGURES}
        merge(self.parts, self.out, [unit for unit in self.plan if unit.key in done], self.header)
        known = dict(part.partition(" ")[::2] for part in about.get("allocators", "").split(", ") if part and kept)
        known.update(self.versions)
        named = ", ".join(f"{name} {known[name]}" for name in ALLOCATORS if name in known)
        write_run(self.out / "run.csv", [f"allocators: {named}" if line.startswith("allocators: ") else line for line in self.header],
                  kept + [row for row in self.finished if row["step"] in replaced])

    def write_times(self):
        """times.log: what each step took, those of an interrupted run too, beside what the table of steps expects."""
        lines, spent = {}, 0.0
        for step in self.options.chosen:
            planned = [unit for unit in self.plan if unit.step is step]
            rows = [row for row in self.finished if row["step"] == step.name]
            seconds = math.fsum(float(row["seconds"]) for row in rows)
            spent += seconds
            if planned:
                lines[step.name] = f"{step.name:<24} {seconds:7.0f} s, {len(rows)} of {len(planned)} runs, expected {self.expected(planned)} s"
        (self.out / "times.log").write_text("\n".join([*lines.values(), f"{'all':<24} {spent:7.0f} s"]) + "\n", encoding="utf-8")
        return lines

    def expected(self, units):
        return sum(unit.step.seconds[MODES.index(self.options.mode)] for unit in units)

    def run_one(self, unit, log_path):
        target = self.parts / unit.folder
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        command = command_of(unit, self.options, self.programs, list(self.versions), target)
        if command is None:
            self.record(unit, 0, EXIT_UNAVAILABLE, [unit.step.name])
            say("    left out: it has nothing for this allocator")
            return
        start, begin = log_path.stat().st_size, time.monotonic()
        with open(log_path, "a", encoding="utf-8") as log:
            log.write(f"\n$ {shorten(command, target)}\n")
            log.flush()
            try:
                code = run.supervised(command, self.locked, 20, stdout=log, stderr=subprocess.STDOUT, env=clean_environment())
            except FileNotFoundError as error:
                code = EXIT_NO_PROGRAM
                log.write(f"{error.filename}: {error.strerror}\n")
        if code == 1 and any(target.glob("*.csv")):  # programs write their files when all is measured
            code = EXIT_JUDGED
        self.record(unit, time.monotonic() - begin, code, command)
        if code == 0:
            return
        say(f"    {({EXIT_JUDGED: 'measured, but', EXIT_UNAVAILABLE: 'left out'}).get(code, f'FAILED with exit code {code}')}: "
            f"{last_line(log_path, start)}")
        if code != EXIT_UNAVAILABLE:
            (self.judged if code == EXIT_JUDGED else self.failures).append(unit.name)

    def run(self):
        if not self.options.resume:
            self.out.mkdir(parents=True, exist_ok=True)
        elif not self.own.is_file():
            raise Refusal(f"--resume: there is no interrupted run in {run.shown(self.out)}")
        self.locked = lock(self.out)
        self.prepare()
        done = {key_of(row) for row in self.finished}
        left = [unit for unit in self.plan if unit.key not in done]
        log_path = self.out / "run.log"
        log_path.touch()
        begin = time.monotonic()
        say(f"{', '.join(f'{name} {version}' for name, version in self.versions.items())}; {len(left)} runs, "
            f"about {clock(self.expected(left))}")
        try:
            self.publish()
            for at, unit in enumerate(left):
                spent, planned = time.monotonic() - begin, self.expected(left[:at])
                pace = spent / planned if planned > 60 else 1
                say(f"[{at + 1}/{len(left)}] {unit.name} ({clock(spent)} so far, about "
                    f"{clock(self.expected(left[at:]) * pace)} left)")
                self.run_one(unit, log_path)
                self.publish()
                times = self.write_times()
                if unit is left[-1] or left[at + 1].step is not unit.step:
                    say("    " + times[unit.step.name])
        except KeyboardInterrupt:
            self.publish()
            say(f"interrupted: {len(self.finished)} of {len(self.plan)} runs are finished and kept in {run.shown(self.out)}; "
                "the same command with --resume goes on")
            return ending.interrupted()
        return self.conclude(len(left), time.monotonic() - begin)

    def conclude(self, planned, seconds):
        place = run.shown(self.out)
        if self.failures:
            say(f"{len(self.failures)} of {planned} runs failed: {'; '.join(self.failures)}. See {place}/run.log; "
                "the same command with --resume repeats them")
            return 1
        self.own.unlink()  # first: without it there is nothing to resume
        shutil.rmtree(self.parts)
        if self.judged:
            say(f"{len(self.judged)} of {planned} runs say that something does not hold: {'; '.join(self.judged)}. See {place}/run.log")
        say(f"{planned} runs in {clock(seconds)}; the results are in {place}")
        return EXIT_JUDGED if self.judged else 0


def list_steps():
    rows = [["step", "runs", "rounds", "seconds a run", ""]]
    rows += [[step.name, step.kind, *("{}/{}".format(*pair) for pair in (step.rounds, step.seconds)), step.what] for step in STEPS]
    print("\n".join(run.aligned(rows, 2)))
    for number, mode in enumerate(MODES):
        total = sum(step.rounds[number] * step.seconds[number] * (len(ALLOCATORS) if step.kind == "each" else 1) for step in STEPS)
        print(f"{mode}: about {clock(total)} with all allocators")
    return 0


def main(arguments):
    options = parse_arguments(arguments)
    if options.list:
        return list_steps()
    code = Run(options).run()
    if code in (0, EXIT_JUDGED) and options.gate:
        return subprocess.run([sys.executable, "-B", run.BENCHMARKS / "report" / "gate.py", options.out], check=False).returncode
    return code


if __name__ == "__main__":
    ending.run("run_all", main)
