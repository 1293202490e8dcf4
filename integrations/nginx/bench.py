#!/usr/bin/env python3
"""nginx with its own pools, the same with jemalloc preloaded, and with the pools of temporal-slab; in turn, medians and spread.

usage: bench.py FOLDER [--rounds N] [--seconds N]     FOLDER: with plain/nginx and tslab/nginx
"""

import argparse
import glob
import http.client
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import programs  # noqa: E402

TAILS = """done = function(summary, latency)
    io.write(string.format("count %.0f p50 %.0f p99 %.0f p999 %.0f\\n", summary.requests, latency:percentile(50), latency:percentile(99),
                           latency:percentile(99.9)))
end
"""
ROWS = (("requests a second, small file", "%.0f"), ("p50, us", "%.0f"), ("p99, us", "%.0f"), ("p99.9, us", "%.0f"),
        ("processor time of a request, us", "%.2f"), ("bytes an idle connection", "%.0f"), ("MiB with 10,000 of them", "%.1f"),
        ("MiB after a burst", "%.1f"), ("MiB five seconds later", "%.1f"))
PATHS = ("/small.html", "/proxy/a", "/ssi/ssi.html")


def ticks(pid):
    fields = pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wrk(port, path, connections, seconds, script):
    done = subprocess.run(["wrk", "-t1", "-c%d" % connections, "-d%d" % seconds, "-H", "Accept-Encoding: gzip", "-s", str(script),
                           "http://127.0.0.1:%d%s" % (port, path)], capture_output=True, text=True, check=True).stdout
    rate = float(re.search(r"Requests/sec: +([\d.]+)", done)[1])
    count, *tails = map(float, re.search(r"count (\d+) p50 (\d+) p99 (\d+) p999 (\d+)", done).groups())
    return count, [rate, *tails]


def figures(command, root, behind, extra, seconds, script):
    with programs.nginx(command, root, behind, extra) as server:
        worker = server.workers()[0]
        wrk(server.port, "/small.html", 16, 1, script)
        before = ticks(worker)
        count, found = wrk(server.port, "/small.html", 16, seconds, script)
        found.append((ticks(worker) - before) / count * 1e6)
    with programs.nginx(command, root, behind, extra) as server:
        worker = server.workers()[0]
        connections = programs.idle(server.port, 1000)
        before = programs.memory(worker)
        connections += programs.idle(server.port, programs.room_for(programs.CONNECTIONS) - 1000)
        found += [(programs.memory(worker) - before) / (len(connections) - 1000), programs.memory(worker) / (1 << 20)]
        for one in connections:
            one.close()
    with programs.nginx(command, root, behind, extra) as server:
        worker = server.workers()[0]
        for path in ("/gzip/small.html", "/threads/large.bin", "/ssi/ssi.html"):
            wrk(server.port, path, 1000, 2, script)
        found.append(programs.memory(worker) / (1 << 20))
        time.sleep(5)
        return [*found, programs.memory(worker) / (1 << 20)]


def instructions(command, root, behind, path):
    """Of one request more, without those of the kernel."""
    found = []
    for count in (200, 1200):
        log = root / "valgrind.log"
        under = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-file=%s" % log, *command]
        with programs.nginx(under, root, behind, lines="master_process off;") as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            for _ in range(count):
                programs.request(connection, "GET", path)
            connection.close()
        found.append(int(re.search(r"Collected : (\d+)", log.read_text())[1]))
    return (found[1] - found[0]) / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", help="with plain/nginx and tslab/nginx")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    arguments = parser.parse_args()
    folder = pathlib.Path(arguments.folder).resolve()
    if not shutil.which("wrk"):
        print("bench.py: not installed: wrk", file=sys.stderr)
        return 1
    kinds = {"plain": ("plain", {}), "tslab": ("tslab", {"TSLAB_BACKGROUND": "1"})}
    found = glob.glob("/usr/lib/*/libjemalloc.so.2")
    if found:
        kinds["jemalloc"] = ("plain", {"LD_PRELOAD": found[0]})
    all_of = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as name, programs.second() as behind:
        root = pathlib.Path(name)
        root.chmod(0o755)
        script = root / "tails.lua"
        script.write_text(TAILS)
        for number in range(arguments.rounds):
            for kind, (which, extra) in kinds.items():
                print("round %d of %d: %s" % (number + 1, arguments.rounds, kind), file=sys.stderr)
                all_of[kind].append(figures([folder / which / "nginx"], root / kind, behind, extra, arguments.seconds, script))
        print("| | %s |\n|---%s|" % (" | ".join(kinds), "|---" * len(kinds)))
        for at, (row, form) in enumerate(ROWS):
            values = [[one[at] for one in all_of[kind]] for kind in kinds]
            cells = ("%s (%s to %s)" % (form % statistics.median(v), form % min(v), form % max(v)) for v in values)
            print("| %s | %s |" % (row, " | ".join(cells)))
        for path in PATHS if shutil.which("valgrind") else ():
            counts = ("%s %.0f" % (kind, instructions([folder / kind / "nginx"], root / kind, behind, path)) for kind in ("plain", "tslab"))
            print("instructions a request of %s, without the kernel's: %s" % (path, ", ".join(counts)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
