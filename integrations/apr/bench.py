#!/usr/bin/env python3
"""Apache httpd and Subversion: plain, with jemalloc preloaded, and under libtslab-apr; in turn, medians and spread.

usage: bench.py LIBRARY [--rounds N] [--seconds N] [--revisions N]
"""

import argparse
import glob
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import programs  # noqa: E402

TAILS = """done = function(summary, latency)
    io.write(string.format("p50 %.0f p99 %.0f p999 %.0f\\n", latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
"""
ROWS = (("requests/s, small file", "%.0f"), ("p50, us", "%.0f"), ("p99, us", "%.0f"), ("p99.9, us", "%.0f"),
        ("MiB after a burst", "%.1f"), ("MiB 5 s later", "%.1f"), ("svn: seconds of processor", "%.2f"), ("svn: largest process, MiB", "%.1f"))


def wrk(port, path, connections, seconds, script):
    done = subprocess.run(["wrk", "-t1", "-c%d" % connections, "-d%d" % seconds, "-s", str(script), "http://127.0.0.1:%d%s" % (port, path)],
                          capture_output=True, text=True, check=True).stdout
    rate = float(re.search(r"Requests/sec: +([\d.]+)", done)[1])
    return [rate, *map(float, re.search(r"p50 (\d+) p99 (\d+) p999 (\d+)", done).groups())]


def server(root, preload, seconds, script):
    with programs.httpd(root, preload) as (port, parent):
        wrk(port, "/small.html", 8, 1, script)
        figures = wrk(port, "/small.html", 8, seconds, script)
        wrk(port, "/large.bin", 45, seconds, script)
        after = programs.memory_mib(parent.pid)
        time.sleep(5)
        return [*figures, after, programs.memory_mib(parent.pid)]


def repository(root, preload, revisions):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = "import sys; sys.path.insert(0, %r); import programs, pathlib, resource; " \
              "programs.svn(pathlib.Path(%r), %r, %d); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)" % (
                  str(pathlib.Path(__file__).resolve().parent), str(root), preload, revisions)
    largest = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return [after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, int(largest) / 1024]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("library", help="libtslab-apr.so")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--revisions", type=int, default=2000)
    arguments = parser.parse_args()
    if programs.missing():
        print("bench.py: not installed: " + " ".join(programs.missing()), file=sys.stderr)
        return 1
    kinds = {"plain": None, "tslab": str(pathlib.Path(arguments.library).resolve())}
    found = glob.glob("/usr/lib/*/libjemalloc.so.2")
    if found:
        kinds["jemalloc"] = found[0]
    figures = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        root.chmod(0o755)
        script = root / "tails.lua"
        script.write_text(TAILS)
        for number in range(arguments.rounds):
            for kind, preload in kinds.items():
                print("round %d of %d: %s" % (number + 1, arguments.rounds, kind), file=sys.stderr)
                figures[kind].append(server(root / kind, preload, arguments.seconds, script) +
                                     repository(root / "svn", preload, arguments.revisions))
    print("| | %s |\n|---%s|" % (" | ".join(kinds), "|---" * len(kinds)))
    for at, (name, form) in enumerate(ROWS):
        cells = []
        for kind in kinds:
            values = [one[at] for one in figures[kind]]
            cells.append("%s (%s to %s)" % (form % statistics.median(values), form % min(values), form % max(values)))
        print("| %s | %s |" % (name, " | ".join(cells)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
