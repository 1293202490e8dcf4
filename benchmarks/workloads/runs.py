"""Runs a row with one allocator, in a process of its own, and returns its figures."""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

from harness import peers, run
from harness.ending import Refusal
from harness.run import Missing

OURS = "temporal-slab"
BACKGROUND = " bg"  # jemalloc with background_thread:true, in the rows whose programs rest
SHOWN = {"tcmalloc": "gperftools"}
PYTHON = """import json, random
random.seed(1)
for k in range(%d):
    data = {str(i): [random.random() for _ in range(i %% 20)] for i in range(3000)}
    assert json.loads(json.dumps(data)) == data
"""

Result = namedtuple("Result", "time memory raw")  # nanoseconds; bytes above an empty process; what the program wrote


def find_peers(newest=None):
    """peers.find(), by the names that a reader sees."""
    found, absent = peers.find(newest)
    return {SHOWN.get(name, name): path for name, path in found.items()}, [SHOWN.get(name, name) for name in absent]


def with_background(allocators):
    """The allocators of a row that rests: jemalloc also with the thread that gives memory back, as temporal-slab has one there."""
    return {shown: library for name, library in allocators.items()
            for shown in ([name, name + BACKGROUND] if name.startswith("jemalloc") else [name])}


def settings(allocator, library):
    more = {"MALLOC_CONF": "background_thread:true"} if allocator.endswith(BACKGROUND) else {}
    return {**(peers.settings(os.path.basename(library), library) if library else {}), **more}


def start(row, allocator, line, said, **more):
    """Runs a program; what it complains of is printed once."""
    what = f"{row.name} with {allocator}"
    try:
        done = run.call(line, timeout=300, **more)
    except subprocess.TimeoutExpired as error:
        raise Refusal(f"{what}: no end after 300 s", 1) from error
    for complaint in set(done.stderr.splitlines()) - said:
        said.add(complaint)
        print(complaint, file=sys.stderr)
    if done.returncode != 0:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise Refusal(f"{what}: {how}", 2 if done.returncode == 2 else 1)
    return done.stdout


def run_program(row, allocator, library, options):
    program = pathlib.Path(options.build) / "benchmarks" / row.program
    if not program.exists():
        raise (Missing if row.needs else Refusal)(f"{row.name}: {row.program} is not built ({row.needs or 'make'})")
    with tempfile.TemporaryDirectory() as directory:
        result = pathlib.Path(directory) / "result.json"
        seconds = "--duration_s" if row.program == "synthetic_bench" else "--seconds"
        line = [program, "--allocator=" + ("tslab" if allocator == OURS else "malloc"), f"{seconds}={options.seconds:g}", f"--json={result}",
                *row.arguments, *(["--", *options.paths] if row.program == "json_docs" else [])]  # -- : a path may begin with a dash
        start(row, allocator, line, options.said, **settings(allocator, library))
        return json.loads(result.read_text(encoding="utf-8"))


# A child's use of memory, told by the child's own parent, so that this process's memory is no part of it.
WAITER = """import os, sys
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


def run_unmodified(row, allocator, library, options):
    python = shutil.which("python3")
    if allocator == OURS:
        library = os.path.join(options.build, run.LIBRARY)
        if not os.path.exists(library):
            raise Missing(f"{row.name}: {os.path.basename(library)} is not built")
    preload = [f"{key}={value}" for key, value in settings(allocator, library).items()]
    line = [python, "-E", "-S", "-c", WAITER, "env", *preload, "PYTHONMALLOC=malloc", "PYTHONHASHSEED=0", python, "-E", "-S", "-c"]
    seconds, memory = start(row, allocator, line + [PYTHON % max(1, round(20 * options.seconds))], options.said).split()
    _, empty = start(row, allocator, line + ["import json, random"], options.said).split()
    return {"latency_ns": {"p50": float(seconds) * 1e9}, "rss": {"peak_bytes": int(memory), "before_bytes": int(empty)}}


def run_row(row, allocators, options, note):
    """{allocator: Result}: the shortest time of the rounds, as others' work on the machine only adds to it; the median of the memory."""
    slow = row.memory == "idle afterwards"  # they rest for a second each time

    def once(name, number):
        note(f"{row.name} with {name}, round {number + 1}")
        return (run_unmodified if row.program is None else run_program)(row, name, allocators[name], options)

    allocators = with_background(allocators) if slow else allocators
    rounds = {name: [] for name in allocators}
    for number in range(min(options.rounds, 2) if slow else options.rounds):
        if number and time.monotonic() > options.deadline:
            break  # a machine with other work: one round of each row that is left
        for name in allocators:
            rounds[name].append(once(name, number))
        check_same(row, {name: results[-1] for name, results in rounds.items()})
    # Memory that a process has before its work is no allocator's use: the least of any allocator's is taken off all of them.
    empty = min(results[-1]["rss"].get("before_bytes", 0) for results in rounds.values())
    return {name: Result(min(each["latency_ns"]["p50"] for each in results),
                         max(statistics.median_low(each["rss"][row.memory_key] for each in results) - empty, 4096),
                         {**results[-1], "allocation_failures": sum(each.get("allocation_failures", 0) for each in results)})
            for name, results in rounds.items()}


def check_same(row, results):
    """Every allocator served the same requests and computed the same."""
    (first, one), *others = results.items()
    for name, each in others:
        if each.get("digest") != one.get("digest"):
            raise Refusal(f"{row.name}: {first} and {name} compute different results", 1)
        if each.get("documents") != one.get("documents"):
            path = next((ours["path"] for ours, theirs in zip(each["documents"], one["documents"]) if ours != theirs), "some")
            raise Refusal(f"{row.name}: {path}: {first} and {name} print it differently", 1)
