"""What the tests and benchmarks of these folders share: what is expected, servers and their clients, ways that take turns and their table."""

import contextlib
import pathlib
import re
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "benchmarks"))  # behind the caller's: it has a folder programs, too

from harness import ending, peers, run  # noqa: E402

# ---- tests --------------------------------------------------------------------------------------------------

MISUSE_ENDS = {"TSLAB_ON_MISUSE": "abort"}
SHOWN = {"TSLAB_SHM": "1", "TSLAB_BACKGROUND": "1"}
failures = []


def expect(what, good, shown=""):
    print(("ok      " if good else "FAILED  ") + what, flush=True)
    if not good:
        failures.append(what)
        print(str(shown)[:4000])


def differences(these, those):
    return [pair for pair in zip(these, those) if pair[0] != pair[1]]


def doctor_names(tool, name, pids, work=lambda: time.sleep(1), seconds=60):
    """Whether the doctor names this leak within that time, and what it said last. pids(): the processes to ask for; work: before each question."""
    end, said = time.monotonic() + seconds, ""
    while time.monotonic() < end:
        work()
        for pid in pids():
            found = subprocess.run([tool, "doctor", str(pid)], capture_output=True, text=True, check=False)
            said = found.stdout + found.stderr
            if "`%s` leaks" % name in said:
                return True, said
    return False, said


def arguments_of(doc):
    """The two folders or files of a test's command line."""
    if len(sys.argv) != 3:
        print(doc, file=sys.stderr)
        sys.exit(2)
    return [pathlib.Path(word).resolve() for word in sys.argv[1:]]


# ---- servers ------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def children(pid):
    found = []
    for task in pathlib.Path("/proc/%d/task" % pid).glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that ends
            found += map(int, task.read_text().split())
    return found


def descendants(pid):
    return [below for child in children(pid) for below in (child, *descendants(child))]


TAILS = """done = function(summary, latency)
    io.write(string.format("count %.0f p50 %.0f p99 %.0f p999 %.0f\\n", summary.requests, latency:percentile(50), latency:percentile(99),
                           latency:percentile(99.9)))
end
"""


def wrk(root, port, path, connections, seconds):
    """Requests, and: requests a second, p50, p99 and p99.9 in us. root: a folder for its script."""
    script = root / "tails.lua"
    script.write_text(TAILS)
    done = subprocess.run(["wrk", "-t1", "-c%d" % connections, "-d%d" % seconds, "-H", "Accept-Encoding: gzip", "-s", script,
                           "http://127.0.0.1:%d%s" % (port, path)], capture_output=True, text=True, check=True).stdout
    count, *tails = map(float, re.search(r"count (\d+) p50 (\d+) p99 (\d+) p999 (\d+)", done).groups())
    return count, [float(re.search(r"Requests/sec: +([\d.]+)", done)[1]), *tails]


# ---- benchmarks ---------------------------------------------------------------------------------------------

Refusal = ending.Refusal

def parser_of(doc, rounds):
    return run.Parser("bench.py", doc, "rounds=%d" % rounds)


def with_jemalloc(kinds, preloaded, name="jemalloc"):
    """The ways that are compared, and where it is installed the one with jemalloc. preloaded(its file): that one."""
    file = peers.installed(peers.SYSTEM["jemalloc"])
    return {**kinds, **({name: preloaded(file)} if file else {})}


def compare(kinds, rounds, once, rows):
    """Prints a table: medians, and least to most. once(kind): the figures of a run; rows: (name, format) of each figure."""
    def told(kind, number):
        print("round %d of %d: %s" % (number + 1, rounds, kind), file=sys.stderr)
        return once(kinds[kind])

    figures = run.in_turns(kinds, rounds, told)
    print("| | %s |\n|---%s|" % (" | ".join(kinds), "|---" * len(kinds)))
    for at, (name, form) in enumerate(rows):
        values = [[one[at] for one in figures[kind]] for kind in kinds]
        print("| %s | %s |" % (name, " | ".join("%s (%s to %s)" % (form % run.median(v), form % min(v), form % max(v)) for v in values)))
    return figures
