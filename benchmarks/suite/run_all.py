#!/usr/bin/env python3
"""Runs every benchmark and gathers its CSV files.

Allocators take turns: a step runs once per round and allocator, each round beginning with another one. The rows of
all rounds and allocators go to one file per kind, with the column `round` behind those of the program (churn_test.csv and
fragmentation.csv have the program's columns alone, and the first round). run.csv beside them says what ran, how long, and
with which command, under lines that name machine, mode, date, allocators and commit;
run.log has what the programs printed, times.log what each step took.

What is finished is kept at once. Interrupted, the same command with --resume goes on. The figures of an earlier run, and
their lines in run.csv, stay until those of the same step replace them. Figures of another mode are moved aside, into a
folder beside them that is named after their mode and date.
"""

import argparse
import csv
import dataclasses
import datetime
import fcntl
import hashlib
import itertools
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
ROOT = BENCHMARKS.parent
sys.path.insert(0, str(BENCHMARKS))

from core.run_bench import clean_environment, describe_commit, describe_machine, shown  # noqa: E402
from harness import ending  # noqa: E402
from harness.peers import ALLOCATORS, NEWEST  # noqa: E402
from steps import STEPS, Step, has  # noqa: E402

MODES = ["full", "quick", "smoke"]
EXIT_UNAVAILABLE = 3
EXIT_JUDGED = 4  # all is measured, and a program says that its figures are not as they should be
EXIT_NO_PROGRAM = 127
WITH_FIGURES = ("0", str(EXIT_JUDGED))
IDENTIFY_S = 60  # how long a program may take to identify itself
# What scope_bench calls the ways of an allocator to drop objects together.
SCOPES = {"tslab": ["tslab", "tslab_keep", "tslab_reset"], "malloc": ["glibc"],
          "jemalloc": ["jemalloc", "jemalloc_tcache", "jemalloc_free"], "tcmalloc": ["tcmalloc_free"],
          "mimalloc": ["mimalloc", "mimalloc_free"], "snmalloc": [], "google": []}


WAYS = ["tslab", "tslab_reset", "apr", "apr_clear", "bumpalo", "bumpalo_reset", "pmr", "talloc", "mimalloc", "mimalloc3", "glibc",
        "jemalloc_free", "tcmalloc_free", "mimalloc_free"]  # of scope_bench, those that a page or a picture shows

# Of these files only the rows of the first round are kept, and of those the ones with these fields. Of the first nobody looks
# at the rest, which is large; the columns of the others are fixed, and have none for a round.
ONLY = {"latency_cdf.csv": {"size_class": "128"}, "fragmentation.csv": {}, "churn_test.csv": {}}
FIXED = ("fragmentation.csv", "churn_test.csv")


class Refusal(Exception):
    """What was asked for cannot be done; exit code 2."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line."""

    def error(self, message):
        raise Refusal(f"{message} (see --help)")


def parse_arguments(arguments):
    steps = "\n".join(f"  {step.name:<24} {step.what}" for step in STEPS)
    parser = Parser(
        prog="run_all.sh", description=__doc__, epilog=f"steps:\n{steps}", allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a part of the work")
    size.add_argument("--smoke", action="store_true", help="seconds: does everything run; no figures to quote")
    parser.add_argument("--allocators", metavar="A,B", help=f"only these of {','.join(ALLOCATORS)} (default: those "
                        "that are installed)")
    parser.add_argument("--steps", metavar="A,B", help="only these steps")
    parser.add_argument("--out", metavar="DIR", help="where the CSV files go (default benchmarks/results)")
    parser.add_argument("--build", metavar="DIR", help="build directory (default build/release, else build)")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run of the same command")
    parser.add_argument("--gate", action="store_true", help="exit 1 if a figure misses its target (targets.csv)")
    parser.add_argument("--list", action="store_true", help="print the steps and how long they take")
    options = parser.parse_args(arguments)
    options.mode = "smoke" if options.smoke else "quick" if options.quick else "full"
    if options.smoke and options.gate:
        raise Refusal("--smoke makes no figures: it does not go with --gate")
    options.wanted = choose(options.allocators, ALLOCATORS, "allocator")
    names = choose(options.steps, [step.name for step in STEPS], "step")
    options.chosen = [step for step in STEPS if step.name in names]
    if options.out == "":
        raise Refusal("--out '' is no folder")
    if not any(step.rounds[MODES.index(options.mode)] for step in options.chosen):
        raise Refusal(f"--steps {options.steps}: nothing of it runs with --{options.mode}")
    return options


def choose(text, known, what):
    if text is None:
        return list(known)
    chosen = text.split(",")
    for name in chosen:
        if name not in known:
            raise Refusal(f"unknown {what} '{name}': one of {', '.join(known)}")
    return chosen


# ---- available programs -------------------------------------------------------------------------


def find_programs(build):
    for candidate in [pathlib.Path(build)] if build else [ROOT / "build" / "release", ROOT / "build"]:
        for folder in (candidate / "benchmarks", candidate):
            if (folder / "benchmark_accurate").is_file():
                return folder.resolve()
    raise Refusal(f"no benchmark_accurate in {build or 'build/release or build'}: build the project first")


def ask(program, name):
    """What a program of the suite answers to --identify for this allocator."""
    try:
        return subprocess.run([program, "--allocator", name, "--identify"], capture_output=True, text=True,
                              env=clean_environment(), timeout=IDENTIFY_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Refusal(f"{name}: {program.name} has no answer to --identify within {IDENTIFY_S} s") from error


def identify(options, folder):
    """{allocator: version} of the wanted ones. Each program proves that its allocator is the one it claims."""
    versions = {}
    for name in options.wanted:
        answer = ask(folder / "benchmark_accurate", name)
        fields = answer.stdout.strip().split(",")
        if answer.returncode == 0 and len(fields) == 4 and fields[0] == name:
            if fields[3] != "optimized" and not options.smoke:
                raise Refusal(f"benchmark_accurate is a {fields[3]} build: measure a release build")
            versions[name] = fields[1]
        elif answer.returncode != 2 or name == "tslab" or options.allocators:
            raise Refusal(answer.stderr.strip() or f"{name}: '{answer.stdout.strip()}' is no answer to --identify")
        else:
            say(f"{name} is not installed: left out")
    return versions


def destination(options):
    """Where the CSV files go. A smoke run makes no figures: it goes to a folder of its own beside them, so that nobody takes
    what it leaves for some."""
    if options.out:
        return pathlib.Path(options.out).absolute()
    folder = BENCHMARKS / "results"
    return folder / "smoke" if options.smoke else folder


def mode_of(folder):
    try:
        return next(line for line in header_of(folder / "run.csv") if line.startswith("mode: "))[6:]
    except (OSError, StopIteration):
        return None


def set_aside(folder, mode):
    """Moves what a run of another mode left in the folder into one within it. Its name; None: there was nothing."""
    before = mode_of(folder)
    if before in (None, mode):
        return None
    date = next((line[6:] for line in header_of(folder / "run.csv") if line.startswith("date: ")), "undated")
    place = folder / f"{before}-{re.sub('[^0-9]', '', date) or 'undated'}"
    place.mkdir(exist_ok=True)
    for path in [*folder.glob("*.csv"), folder / "run.log"]:
        if path.is_file():
            path.replace(place / path.name)
    return place


def header_of(path):
    with open(path, encoding="utf-8-sig") as file:
        return [line[2:].rstrip("\n") for line in file if line.startswith("# ")]


def versions_in(header):
    """{allocator: version} of the lines before a heading."""
    text = next((line.removeprefix("allocators: ") for line in header if line.startswith("allocators: ")), "")
    return dict(part.partition(" ")[::2] for part in text.split(", "))


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
    plan = []
    mode = MODES.index(options.mode)
    for step in options.chosen:
        for number in range(1, step.rounds[mode] + 1):
            shift = (number - 1) % len(allocators)
            names = {"each": allocators[shift:] + allocators[:shift], "all": ["all"],
                     "ours": [name for name in allocators if name == "tslab"]}[step.kind]
            plan += [Unit(step, number, name) for name in names]
    return plan


def command_of(unit, options, programs, allocators, target):
    """The command of a unit, whose files go to the folder target; None: what it needs cannot be had here."""
    step, build = unit.step, programs.parent
    if not all(has(need, build, programs, allocators) for need in step.needs):
        return None
    words = {"benchmarks": BENCHMARKS, "root": ROOT, "programs": programs, "build": build, "target": target, "name": step.name,
             "csv": target / f"{step.name}.csv", "allocator": unit.allocator, "allocators": ",".join(allocators),
             "glibc": ",".join("glibc" if name == "malloc" else name for name in allocators)}
    lists = {"@size": [f"--{options.mode}"] if options.mode != "full" else [], "@extra": step.arguments.get(options.mode, []),
             "@ways": ways_of(options, programs, allocators) if "@ways" in step.line else [],
             "@further": [word for option, name in step.further.items() for word in (option, str(target / f"{name}.csv"))],
             "@peers": ["--peers", str(NEWEST)] if not options.smoke and any(NEWEST.glob("*-*.so")) else []}
    line = step.smoke if options.smoke and step.smoke else step.line
    return [given for word in line.split() for given in lists.get(word, [word.format(**words)])]


def ways_of(options, programs, allocators):
    """--allocator NAME for each way of scope_bench that takes part."""
    chosen = [way for name in allocators for way in SCOPES[name]] if options.allocators else \
        [] if options.smoke else [way for way in WAYS if (programs / f"scope_bench_{way}").is_file()]
    return [word for way in chosen for word in ("--allocator", way)]


# ---- results ------------------------------------------------------------------------------------


RUN_COLUMNS = ["step", "round", "allocator", "seconds", "exit_code", "date", "commit", "machine", "command"]


STAMP = ("commit", "date", "mode")  # of the lines about a run, those that every file has


def stamped(about, header):
    """The lines before a heading, with those of the run's that are not among them."""
    has = {line[2:].split(":")[0] for line in about}
    return about + [f"# {line}" for line in header if line.split(":")[0] in STAMP and line.split(":")[0] not in has]


def merge(parts, out, units, header=()):
    """Joins the files of the same name in the folders of the units, in their order; each says what the lines about the run say
    of commit, date and mode."""
    gathered = {}
    for unit in units:
        for path in sorted((parts / unit.folder).glob("*.csv")):
            gathered.setdefault(path.name, []).append((unit, path))
    for name, sources in gathered.items():
        about, heading, lines = [], None, []
        for unit, path in sources:
            text = path.read_text(encoding="utf-8").splitlines()
            about = list(itertools.takewhile(lambda line: line.startswith("#"), text))
            if unit.step.name == "core_bench":
                lines = text[len(about):]  # complete in itself
                break
            first, *rows = text[len(about):]
            numbered = "round" in first.split(",") or name in FIXED
            first += "" if numbered else ",round"
            if heading not in (None, first):
                raise Refusal(f"{path}: the columns {first} differ from {heading} of the others")
            heading = first
            if name in ONLY:
                rows = [row for row in rows if unit.round == 1 and wanted(first, row, ONLY[name])]
            lines += [row if numbered else f"{row},{unit.round}" for row in rows if row]
        if lines:
            temporary = out / f".{name}.tmp"
            temporary.write_text("\n".join(stamped(about, header) + ([heading] if heading else []) + lines) + "\n", encoding="utf-8")
            temporary.replace(out / name)


def wanted(heading, row, fields):
    values = dict(zip(heading.split(","), row.split(",")))
    return all(values.get(column) == value for column, value in fields.items())


def write_run(path, header, finished):
    temporary = path.with_name(".run.csv.tmp")
    with open(temporary, "w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {line}\n" for line in header)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(RUN_COLUMNS)
        writer.writerows([row[column] for column in RUN_COLUMNS] for row in finished)
    temporary.replace(path)


def read_run(path):
    """Its rows. One that does not say on which machine it was is of the machine in the lines before the heading."""
    machine = next((line.removeprefix("machine: ") for line in header_of(path) if line.startswith("machine: ")), "")
    with open(path, newline="", encoding="utf-8-sig") as file:
        lines = csv.DictReader(line for line in file if not line.startswith("#"))
        missing = [column for column in RUN_COLUMNS if column not in [*(lines.fieldnames or []), "machine"]]
        if missing:
            raise Refusal(f"{path}: the heading has no column {', '.join(missing)}")
        rows = [{"machine": machine, **row} for row in lines]
    for row in rows:
        if None in row or None in row.values():
            raise Refusal(f"{path}: a row of step '{row['step']}' has not as many fields as the heading")
    return rows


def key_of(row):
    return row["step"], row["round"], row["allocator"]


def allocators_of(row):
    """Those that a row of run.csv is of; where it is of all, those that its command names."""
    if row["allocator"] != "all":
        return {row["allocator"]}
    known = {**{name: name for name in ALLOCATORS}, **{way: name for name, ways in SCOPES.items() for way in ways}}
    named = re.findall(r"--allocators? (\S+)", row["command"])
    return {known[word] for words in named for word in words.split(",") if word in known}


# ---- running ------------------------------------------------------------------------------------


def say(text):
    print(text, file=sys.stderr, flush=True)


def clock(seconds):
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:02.0f} min" if seconds >= 3600 else \
        f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"


def lock(folder):
    """A descriptor that says to others that this folder is in use; children inherit it, so it is as long as any of them runs."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise Refusal(f"{shown(folder)} is in use: by another run_all.sh, or by a program that one which was killed "
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


def run_unit(command, target, log, inherited):
    """The exit code. An interruption is passed on, and waited for: the child may have something to put in order."""
    target.mkdir(parents=True, exist_ok=True)
    log.write(f"\n$ {shorten(command, target)}\n")
    log.flush()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                             env=clean_environment(), start_new_session=True, cwd=ROOT, pass_fds=[inherited])
    try:
        return child.wait()
    except BaseException:
        for number, patience in ((signal.SIGTERM, 20), (signal.SIGKILL, None)):  # SIGINT may be ignored
            try:
                os.killpg(child.pid, number)
                child.wait(patience)
                break
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                pass
        raise


def shorten(command, target):
    """The command with paths from the project's folder on; files are named without the folder of this unit."""
    return " ".join(word.replace(f"{target}/", "").replace(f"{ROOT}/", "") for word in command)


def last_line(log_path, start):
    with open(log_path, encoding="utf-8", errors="replace") as file:
        file.seek(start)
        lines = [line.strip() for line in file if line.strip()]
    return re.sub(r".*\r", "", lines[-1]) if len(lines) > 1 else "no output"


class Run:
    """One call of run_all.sh."""

    def __init__(self, options):
        self.options = options
        self.programs = find_programs(options.build)
        self.versions = identify(options, self.programs)
        self.allocators = list(self.versions)
        self.out = destination(options)
        self.parts = self.out / ".parts"
        self.own = self.parts / "run.csv"  # as run.csv, of this run alone: --resume goes on from it
        self.plan = make_plan(options, self.allocators)
        self.header = self.describe()
        self.finished = []  # rows of run.csv
        self.kept = []      # those that earlier runs left there
        self.known = {}     # {allocator: version} of those runs
        self.failures = []
        self.judged = []    # units whose files are whole, and that say that something does not hold
        self.locked = None

    def describe(self):
        words = ["benchmarks/run_all.sh"]
        words += [f"--{self.options.mode}"] if self.options.mode != "full" else []
        words += ["--allocators", self.options.allocators] if self.options.allocators else []
        words += ["--steps", self.options.steps] if self.options.steps else []
        return [
            f"machine: {describe_machine()}",
            f"mode: {self.options.mode}",
            f"command: {' '.join(words)}",
            f"date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M:%S} UTC",
            f"allocators: {', '.join(f'{name} {version}' for name, version in self.versions.items())}",
            f"commit: {describe_commit()}",
        ]

    def need_interrupted(self):
        if not self.own.is_file():
            raise Refusal(f"--resume: there is no interrupted run in {shown(self.out)}")

    def prepare(self):
        """Fresh folders, or those of the interrupted run."""
        built = self.parts / "build"
        if self.options.resume:
            self.need_interrupted()
            if built.is_file() and built.read_text(encoding="utf-8") != fingerprint(self.programs):
                raise Refusal("--resume: the interrupted run was of other programs than those built now")
            before = header_of(self.own)
            for kind in ("machine", "command", "allocators", "commit"):
                old = next((line for line in before if line.startswith(f"{kind}: ")), f"no {kind}")
                new = next(line for line in self.header if line.startswith(f"{kind}: "))
                if old != new:
                    raise Refusal(f"--resume: the interrupted run had '{old}', this one has '{new}'")
            self.header = before
            rows = read_run(self.own)
            self.finished = [row for row in rows if row["exit_code"] in ("0", str(EXIT_UNAVAILABLE))]
            self.read_record(rows)
            return
        aside = set_aside(self.out, self.options.mode)
        if aside:
            say(f"the figures that were there are in {shown(aside)} now")
        self.read_record([])
        self.discard_parts()
        self.parts.mkdir(parents=True)
        built.write_text(fingerprint(self.programs), encoding="utf-8")
        (self.out / "run.log").write_text("", encoding="utf-8")
        write_run(self.own, self.header, [])

    def read_record(self, own):
        """What earlier runs of this mode left in run.csv, beside the rows of this one."""
        record = self.out / "run.csv"
        rows = read_run(record) if record.is_file() else []
        if mode_of(self.out) == self.options.mode:
            self.kept = [row for row in rows if row not in own]
            self.known = versions_in(header_of(record))

    def discard_parts(self):
        """The list of the units goes first: without it there is nothing to resume."""
        self.own.unlink(missing_ok=True)
        shutil.rmtree(self.parts, ignore_errors=True)

    def record(self, unit, seconds, code, command):
        now = datetime.datetime.now(datetime.timezone.utc)
        self.finished.append({"step": unit.step.name, "round": str(unit.round), "allocator": unit.allocator,
                              "seconds": f"{seconds:.1f}", "exit_code": str(code), "date": f"{now:%Y-%m-%d %H:%M:%S}",
                              "commit": self.header[-1].removeprefix("commit: "),
                              "machine": self.header[0].removeprefix("machine: "),
                              "command": shorten(command, self.parts / unit.folder)})
        write_run(self.own, self.header, self.finished)

    def header_for(self, rows):
        """The lines of run.csv before these rows: those of this run, and with its allocators those of the rows."""
        versions = {**self.known, **self.versions}
        names = set(self.versions).union(*map(allocators_of, rows))
        named = ", ".join(f"{name} {versions.get(name, '')}".strip() for name in ALLOCATORS if name in names)
        return [f"allocators: {named}" if line.startswith("allocators: ") else line for line in self.header]

    def write_record(self, rows):
        write_run(self.out / "run.csv", self.header_for(rows), rows)

    def publish(self):
        """Brings the CSV files and run.csv to what is finished. The rows of a step are replaced with its figures: those of
        the earlier ones go before the first file is replaced, the new ones come after the last."""
        def with_figures(rows):
            return {row["step"] for row in rows if row["exit_code"] in WITH_FIGURES}

        replaced = {row["step"] for row in self.finished} - with_figures(self.kept) | with_figures(self.finished)
        if not replaced:
            return
        rows = [row for row in self.kept if row["step"] not in replaced]
        rows += [row for row in self.finished if row["step"] in replaced]
        record = self.out / "run.csv"
        if record.is_file():
            before = read_run(record)
            self.write_record([row for row in rows if row in before])
        done = {key_of(row) for row in self.finished if row["exit_code"] in WITH_FIGURES}
        merge(self.parts, self.out, [unit for unit in self.plan if unit.key in done], self.header)
        self.write_record(rows)

    def write_times(self):
        """times.log: what each step took, those of an interrupted run too, beside what the table of steps expects."""
        mode, lines, spent = MODES.index(self.options.mode), [], 0.0
        for step in self.options.chosen:
            planned = [unit for unit in self.plan if unit.step is step]
            rows = [row for row in self.finished if row["step"] == step.name]
            seconds = math.fsum(float(row["seconds"]) for row in rows)
            spent += seconds
            if planned:
                lines.append(f"{step.name:<24} {seconds:7.0f} s, {len(rows)} of {len(planned)} runs, expected {len(planned) * step.seconds[mode]} s")
        (self.out / "times.log").write_text("\n".join([*lines, f"{'all':<24} {spent:7.0f} s"]) + "\n", encoding="utf-8")
        return lines

    def expected(self, units):
        mode = MODES.index(self.options.mode)
        return sum(unit.step.seconds[mode] for unit in units)

    def run_one(self, unit, log_path):
        target = self.parts / unit.folder
        shutil.rmtree(target, ignore_errors=True)
        command = command_of(unit, self.options, self.programs, self.allocators, target)
        if command is None:
            self.record(unit, 0, EXIT_UNAVAILABLE, [unit.step.name])
            say("    left out: it has nothing for this allocator")
            return
        start, begin = log_path.stat().st_size, time.monotonic()
        with open(log_path, "a", encoding="utf-8") as log:
            try:
                code = run_unit(command, target, log, self.locked)
            except FileNotFoundError as error:
                code = EXIT_NO_PROGRAM
                log.write(f"{error.filename}: {error.strerror}\n")
        if code == 1 and any(target.glob("*.csv")):  # programs write their files when all is measured
            code = EXIT_JUDGED
        self.record(unit, time.monotonic() - begin, code, command)
        if code == EXIT_JUDGED:
            self.judged.append(unit.name)
            say(f"    measured, but: {last_line(log_path, start)}")
        elif code == EXIT_UNAVAILABLE:
            say(f"    left out: {last_line(log_path, start)}")
        elif code != 0:
            self.failures.append(unit.name)
            say(f"    FAILED with exit code {code}: {last_line(log_path, start)}")

    def run(self):
        if self.options.resume:
            self.need_interrupted()  # before a folder is made; and again once nobody else can end that run
        self.out.mkdir(parents=True, exist_ok=True)
        self.locked = lock(self.out)
        self.prepare()
        done = {key_of(row) for row in self.finished}
        left = [unit for unit in self.plan if unit.key not in done]
        log_path = self.out / "run.log"
        log_path.touch()
        begin = time.monotonic()
        interrupted = False
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
                    say("    " + next(line for line in times if line.startswith(f"{unit.step.name} ")))
        except KeyboardInterrupt:
            interrupted = True
            self.publish()
        return self.conclude(interrupted, len(left), time.monotonic() - begin)

    def conclude(self, interrupted, planned, seconds):
        place = shown(self.out)
        if interrupted:
            say(f"interrupted: {len(self.finished)} of {len(self.plan)} runs are finished and kept in {place}; "
                "the same command with --resume goes on")
            return ending.interrupted()
        if self.failures:
            say(f"{len(self.failures)} of {planned} runs failed: {'; '.join(self.failures)}. See {place}/run.log; "
                "the same command with --resume repeats them")
            return 1
        self.discard_parts()
        if self.judged:
            say(f"{len(self.judged)} of {planned} runs say that something does not hold: {'; '.join(self.judged)}. See {place}/run.log")
        say(f"{planned} runs in {clock(seconds)}; the results are in {place}")
        return EXIT_JUDGED if self.judged else 0


def list_steps():
    print(f"{'step':<24} {'runs':<6} {'rounds':>12}  {'seconds a run':>16}  what")
    print(f"{'':<24} {'':<6} {'full/quick':>12}  {'full/quick':>16}")
    for step in STEPS:
        rounds, seconds = (f"{pair[0]}/{pair[1]}" for pair in (step.rounds, step.seconds))
        print(f"{step.name:<24} {step.kind:<6} {rounds:>12}  {seconds:>16}  {step.what}")
    for number, mode in enumerate(MODES):
        total = sum(step.rounds[number] * step.seconds[number] * (len(ALLOCATORS) if step.kind == "each" else 1)
                    for step in STEPS)
        print(f"{mode}: about {clock(total)} with all allocators")
    return 0


def main(arguments):
    run = None
    try:
        options = parse_arguments(arguments)
        if options.list:
            return list_steps()
        run = Run(options)
        code = run.run()
        if code in (0, EXIT_JUDGED) and options.gate:
            return subprocess.run([sys.executable, "-B", str(BENCHMARKS / "report" / "gate.py"), str(run.out)], check=False).returncode
        return code
    except Refusal as refusal:
        say(f"run_all: {refusal}")
        return 2
    except BrokenPipeError:
        raise
    except OSError as error:
        say("run_all: " + ": ".join(str(part) for part in (error.filename, error.strerror) if part) +
            ("; what is finished is kept: the same command with --resume goes on" if run and run.finished else ""))
        return 2


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, ending.interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, ending.interrupt)
    ending.run("run_all", main)
