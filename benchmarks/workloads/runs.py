"""Runs a row with one allocator, in a process of its own, and returns its figures."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import peers

OURS = "temporal-slab"
BACKGROUND = " bg"  # jemalloc with background_thread:true, in the rows whose programs rest
SHOWN = {"tcmalloc": "gperftools"}
PYTHON = """import json, random
random.seed(1)
for k in range(%d):
    data = {str(i): [random.random() for _ in range(i %% 20)] for i in range(3000)}
    assert json.loads(json.dumps(data)) == data
"""


class Failure(Exception):
    """A run that gave no figures; its text is what to say, its code the exit code."""

    def __init__(self, text, code=1):
        super().__init__(text)
        self.code = code


class Missing(Exception):
    """A row that is left out; its text says what is missing."""


def find_peers(newest=None):
    """peers.find(), by the names that a reader sees."""
    found, absent = peers.find(newest)
    return {SHOWN.get(name, name): path for name, path in found.items()}, [SHOWN.get(name, name) for name in absent]


def with_background(allocators):
    """The allocators of a row that rests: jemalloc also with the thread that gives memory back, as temporal-slab has one there."""
    both = {}
    for name, library in allocators.items():
        both[name] = library
        if name.startswith("jemalloc"):
            both[name + BACKGROUND] = library
    return both


def environment(library, background=False):
    clean = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD" and not key.startswith("TSLAB_")}
    if "TSLAB_HTTP" in os.environ:
        clean["TSLAB_HTTP"] = os.environ["TSLAB_HTTP"]
    if library:
        clean.update(peers.settings(os.path.basename(library), library))
    if background:
        clean["MALLOC_CONF"] = "background_thread:true"
    return clean


def start(line, what, library, said, background=False):
    """Runs a program; what it complains of is printed once."""
    try:
        done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=300,
                              env=environment(library, background))
    except FileNotFoundError:
        raise Failure("%s is missing: build the release first (make)" % line[0])
    except subprocess.TimeoutExpired:
        raise Failure("%s: no end after 300 s" % what)
    for complaint in done.stderr.splitlines():
        if complaint not in said:
            said.add(complaint)
            print(complaint, file=sys.stderr)
    if done.returncode != 0:
        how = "signal %d" % -done.returncode if done.returncode < 0 else "exit code %d" % done.returncode
        raise Failure("%s: %s" % (what, how), 2 if done.returncode == 2 else 1)
    return done.stdout


def run_program(row, allocator, library, options, said):
    program = os.path.join(options.build, "benchmarks", row.program)
    if row.needs and not os.path.exists(program):
        raise Missing("%s: %s is not built (%s)" % (row.name, row.program, row.needs))
    with tempfile.TemporaryDirectory() as directory:
        result = os.path.join(directory, "result.json")
        seconds = "--duration_s=%g" if row.program == "synthetic_bench" else "--seconds=%g"
        line = [program, "--allocator=" + ("tslab" if allocator == OURS else "malloc"), seconds % options.seconds,
                "--json=" + result, *row.arguments]
        if row.program == "json_docs":
            line += ["--", *options.paths]  # -- : a path may begin with a dash
        start(line, "%s with %s" % (row.name, allocator), library, said, allocator.endswith(BACKGROUND))
        with open(result, encoding="utf-8") as file:
            return json.load(file)


# A child's use of memory, told by the child's own parent, so that this process's memory is no part of it.
WAITER = """import os, sys
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


def run_unmodified(row, allocator, library, options, said):
    python = shutil.which("python3")
    if not python:
        raise Missing("%s: python3 is not installed" % row.name)
    if allocator == OURS:
        library = os.path.join(options.build, "src", "malloc", "libtslab-malloc.so")
        if not os.path.exists(library):
            raise Missing("%s: %s is not built" % (row.name, os.path.basename(library)))
    amount = max(1, round(20 * options.seconds))
    settings = ["%s=%s" % pair for pair in peers.settings(os.path.basename(library), library).items()] if library else []
    line = [python, "-E", "-S", "-c", WAITER, "env", *settings, "PYTHONMALLOC=malloc", "PYTHONHASHSEED=0", python, "-E", "-S", "-c"]
    what = "%s with %s" % (row.name, allocator)
    seconds, memory = start(line + [PYTHON % amount], what, None, said).split()
    _, empty = start(line + ["import json, random"], what, None, said).split()
    return {"latency_ns": {"p50": float(seconds) * 1e9, "p99": float(seconds) * 1e9},
            "rss": {"peak_bytes": int(memory), "before_bytes": int(empty)}}


def run_once(row, allocator, library, options, said):
    return (run_unmodified if row.program is None else run_program)(row, allocator, library, options, said)


def merged(results):
    """One result of the rounds of one allocator: the shortest time, as others' work on the machine only adds to it; the
    median of the memory."""
    result = dict(results[-1])
    result["latency_ns"] = min((each["latency_ns"] for each in results), key=lambda latency: latency["p50"])
    result["rss"] = {key: statistics.median_low(each["rss"][key] for each in results)
                     for key in result["rss"] if key.endswith("_bytes") and key != "series_ms_bytes"}
    result["allocation_failures"] = sum(each.get("allocation_failures", 0) for each in results)
    return result


def run(row, allocators, options, said, note):
    """{allocator: result}. The allocators take turns, so that what else the machine does meets all of them."""
    slow = row.memory == "idle afterwards"  # they rest for a second each time
    allocators = with_background(allocators) if slow else allocators
    rounds = {name: [] for name in allocators}
    for number in range(min(options.rounds, 2) if slow else options.rounds):
        if number and time.monotonic() > options.deadline:
            break  # a machine with other work: one round of each row that is left
        for name, library in allocators.items():
            note("%s with %s, round %d" % (row.name, name, number + 1))
            rounds[name].append(run_once(row, name, library, options, said))
        check_same(row, {name: results[-1] for name, results in rounds.items()})
    results = {name: merged(results) for name, results in rounds.items()}
    # Memory that a process has before its work is no allocator's use: the least of any allocator's is taken off all of
    # them.
    empty = min(each["rss"].get("before_bytes", 0) for each in results.values())
    for each in results.values():
        each["rss"]["empty_bytes"] = empty
    return results


def check_same(row, results):
    """Every allocator served the same requests and computed the same."""
    first_name, first = next(iter(results.items()))
    for name, result in results.items():
        if result.get("digest") != first.get("digest"):
            raise Failure("%s: %s and %s compute different results" % (row.name, first_name, name))
        if "documents" not in result:
            continue
        ours, theirs = result["documents"], first["documents"]
        if [each["path"] for each in ours] != [each["path"] for each in theirs]:
            raise Failure("%s: %s served %d of them, %s %d" % (row.name, first_name, len(theirs), name, len(ours)))
        for left, right in zip(theirs, ours):
            if left != right:
                raise Failure("%s: %s: %s and %s print it differently" % (row.name, left["path"], first_name, name))
