"""The one runner: command lines, allocators that prove who they are and take turns, files and tables of what was measured.

A script of this folder is a list of works, the columns of its file, and a function that runs one work once.
"""

import argparse
import csv
import ctypes
import fcntl
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time
from collections import namedtuple

from harness import machine
from harness.ending import Refusal
from harness.peers import clean_environment

ROOT = machine.ROOT
BENCHMARKS = ROOT / "benchmarks"
RELEASE = ROOT / "build" / "release"
LIBRARY = "src/malloc/libtslab-malloc.so"
IDENTIFY_S = 60  # how long a program may take to identify itself
NOT_INSTALLED = 2  # the exit code of a program whose allocator is not there

LIBC = ctypes.CDLL(None)

Identity = namedtuple("Identity", "version library")


class Missing(Refusal):
    """Why a work has no figures, or cannot have any here (code 3)."""


# ---- command lines ------------------------------------------------------------------------------


def announce(path):
    """A file that is there is not replaced without a word."""
    if pathlib.Path(path).is_file() and pathlib.Path(path).stat().st_size:
        print(f"'{path}' is there, and is replaced at the end", file=sys.stderr, flush=True)


def writable(text):
    """For argparse: the path of a file that can be written, before anything is measured."""
    path = pathlib.Path(text)
    if not path.name or path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"takes the name of a file in a folder that is there, not '{text}'")
    return path


def output(text):
    announce(writable(text))
    return pathlib.Path(text)


def whole(low, high):
    """For argparse: a whole number."""
    def convert(text):
        if not (text.isascii() and text.isdecimal() and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"takes a whole number from {low} to {high}, not '{text}'")
        return int(text)

    return convert


COMMON = {
    "--csv": {"type": output, "metavar": "FILE", "help": "write the results to FILE"},
    "--build": {"metavar": "DIR", "help": "build directory (default build/release, else build)"},
    "--rounds": {"type": whole(1, 1000), "metavar": "N", "help": "measurements of each work and allocator"},
    "--quick": {"action": "store_true", "help": "a part of the work"},
    "--smoke": {"action": "store_true", "help": "tiny amounts: does everything run; no figures to quote"},
    "--allocators": {"metavar": "A,B", "help": "only these (default: those that are installed)"},
    "--works": {"metavar": "A,B", "help": "only these works"},
}


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line. common: of COMMON, with the default behind a `=`."""

    def __init__(self, prog, doc, common=""):
        super().__init__(prog=prog, description=doc, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
        for word in common.split():
            name, _, default = word.partition("=")
            known = COMMON[f"--{name}"]
            default = {"default": known.get("type", str)(default)} if default else {}
            self.add_argument(f"--{name}", **known, **default)

    def error(self, message):
        raise Refusal(f"{message} (see --help)")


def choose(text, known, what):
    """Of the known names those of a list on the command line."""
    if text is None:
        return list(known)
    chosen = text.split(",")
    for at, name in enumerate(chosen):
        if name not in known:
            raise Refusal(f"unknown {what} '{name}': one of {', '.join(known)}")
        if name in chosen[:at]:
            raise Refusal(f"{what} '{name}' is there twice in '{text}'")
    return chosen


def shown(path):
    """A path as it is told to the caller: relative where it lies below the working directory, else absolute."""
    path = pathlib.Path(path).resolve()
    return str(path.relative_to(pathlib.Path.cwd()) if pathlib.Path.cwd() in path.parents else path)


def programs_in(build, *names):
    """The folder of the programs of a build, in which one of these is."""
    for candidate in [pathlib.Path(build)] if build else [RELEASE, ROOT / "build"]:
        for folder in (candidate / "benchmarks", candidate):
            if any((folder / name).is_file() for name in names):
                return folder.resolve()
    raise Refusal(f"no {names[0]} in {build or 'build/release or build'}: build the project first (make bench)")


# ---- running ------------------------------------------------------------------------------------


def say(text):
    print(text, file=sys.stderr, flush=True)


def call(command, timeout=None, **more):
    """What a program answers, without what would make its allocator another. more: of its environment, and cwd."""
    cwd = more.pop("cwd", None)
    words = [str(word) for word in command]
    try:
        return subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=timeout, cwd=cwd, check=False,
                              env={**clean_environment(), **more})
    except OSError as error:
        raise Missing(f"{words[0]}: {error.strerror}: build the project first (make bench), or install it", 3) from error


def last(text):
    return (text.strip().splitlines() or ["no output"])[-1]


def output_of(command, **more):
    """What it prints; Missing if it fails."""
    try:
        done = call(command, **more)
    except subprocess.TimeoutExpired as error:
        raise Missing(f"no end after {error.timeout:g} s") from error
    if done.returncode != 0:
        raise Missing(f"{pathlib.Path(command[0]).name}: exit code {done.returncode}: {last(done.stderr)}")
    return done.stdout


def identify(command_of, names, required=(), debug=False):
    """({name: Identity}, [names that are not installed]). Each program proves that its allocator is the one it claims.

    command_of(name): its first words, or None. debug: whether another build than an optimized one will do."""
    found, absent = {}, []
    for name in names:
        command = command_of(name)
        try:
            answer = command and call([*command, "--identify"], timeout=IDENTIFY_S)
        except subprocess.TimeoutExpired as error:
            raise Refusal(f"{name}: {command[0].name} has no answer to --identify within {IDENTIFY_S} s") from error
        fields = answer.stdout.strip().split(",") if answer else []
        if answer and answer.returncode == 0 and len(fields) == 4 and fields[0] == name:
            if fields[3] != "optimized" and not debug:
                raise Refusal(f"{command[0].name} is a {fields[3]} build: measure a release build")
            found[name] = Identity(*fields[1:3])
        elif name not in required and (not answer or answer.returncode == NOT_INSTALLED):
            absent.append(name)
        else:
            raise Refusal(f"{name}: " + (answer and answer.stderr.strip() or f"'{answer and answer.stdout.strip()}' is no answer to --identify"))
    return found, absent


def turn(names, number):
    """The order of a round: each begins with another name."""
    names = list(names)
    shift = number % len(names)
    return names[shift:] + names[:shift]


def in_turns(names, rounds, run):
    """{name: [what run(name, round) gives in each round]}, one after the other, so that a slow spell of the machine hits all alike."""
    results = {name: [] for name in names}
    for number in range(rounds):
        for name in turn(names, number):
            results[name].append(run(name, number))
    return results


def at_once(commands, cwd=None):
    """{name: output} of programs that mostly wait: all run at the same time. commands: {name: (words, settings)}."""
    running = {name: subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True, cwd=cwd,
                                      env={**clean_environment(), **settings}) for name, (words, settings) in commands.items()}
    said = {name: process.communicate()[0] for name, process in running.items()}
    failed = {name: process.returncode for name, process in running.items() if process.returncode != 0}
    if failed:
        raise Refusal("; ".join(f"{name}: exit code {code}" for name, code in failed.items()), 1)
    return said


def supervised(command, held, patience=60, **more):
    """The exit code of a program that ends with this one, also when this one is killed. An interruption is passed on, and waited for: the
    program may have something to put in order. held: a descriptor that it inherits, and with it the lock on it."""
    child = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, cwd=ROOT, pass_fds=[held], start_new_session=True,
                             preexec_fn=lambda: LIBC.prctl(1, int(signal.SIGTERM)), **more)
    try:
        return child.wait()
    except BaseException:
        for number, wait in ((signal.SIGTERM, patience), (signal.SIGKILL, None)):  # SIGINT may be ignored
            try:
                os.killpg(child.pid, number)
                child.wait(wait)
                break
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                pass
        raise


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
        print(f"\r{text:<78}" if self.terminal else text, end="" if self.terminal else "\n", file=sys.stderr, flush=True)

    def end(self):
        if self.terminal and self.done:
            print(file=sys.stderr)


# ---- figures ------------------------------------------------------------------------------------


def quantile(values, fraction):
    """The quantile with linear interpolation between the two nearest values."""
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def median(values):
    return quantile(values, 0.5)


def range_of(values):
    """(median, interquartile range)"""
    return median(values), quantile(values, 0.75) - quantile(values, 0.25)


def deviation(values):
    """The sample standard deviation; 0 for a single value, which has no spread to speak of."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def variation(values):
    """The coefficient of variation."""
    return deviation(values) / statistics.fmean(values)


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(math.log(max(value, 1e-9)) for value in values) / len(values))


# ---- files and tables ---------------------------------------------------------------------------


def lock_file(path):
    """The file, made if it is not there, which is this run's to write as long as it is open."""
    if path.exists() and not path.is_file():
        raise Refusal(f"{shown(path)} is no file that can be read again")
    file = open(path, "ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Refusal(f"{shown(path)} is in use: another run writes to it") from error
    return file


def write_csv(path, about, heading, rows):
    """The file is there whole or not at all. about: the lines before its heading, see machine.about()."""
    path = pathlib.Path(path).resolve()
    temporary = path.with_name(f".{path.name}.tmp") if path.is_file() or not path.exists() else path
    with open(temporary, "w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {line}\n" for line in about)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heading)
        writer.writerows(rows)
    if temporary != path:
        temporary.replace(path)


def header_of(path):
    """{word: text} of the lines before the heading."""
    with open(path, encoding="utf-8-sig") as file:
        return dict(line[2:].rstrip("\n").split(": ", 1) for line in file if line.startswith("# ") and ": " in line)


def read_csv(path):
    """The rows of a file that a program has just written."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def aligned(rows, left=1):
    """Lines of text: the first columns to the left, the others to the right, and the last as it is if its heading is empty."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    free = len(rows[0]) - 1 if rows[0][-1] == "" else None
    return ["  ".join(text if i == free else text.ljust(widths[i]) if i < left else text.rjust(widths[i])
                      for i, text in enumerate(row)).rstrip() for row in rows]
