#!/usr/bin/env python3
"""nginx with its own pools, the same with jemalloc preloaded, and with the pools of temporal-slab; in turn, medians and spread.

usage: bench.py FOLDER [--rounds N] [--seconds N]     FOLDER: with plain/nginx and tslab/nginx
"""

import http.client
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent)]
import programs  # noqa: E402
import shared  # noqa: E402

ROWS = (("requests a second, small file", "%.0f"), ("p50, us", "%.0f"), ("p99, us", "%.0f"), ("p99.9, us", "%.0f"),
        ("processor time of a request, us", "%.2f"), ("bytes an idle connection", "%.0f"), ("MiB with 10,000 of them", "%.1f"),
        ("MiB after a burst", "%.1f"), ("MiB five seconds later", "%.1f"))
PATHS = ("/small.html", "/proxy/a", "/ssi/ssi.html")


def ticks(pid):
    fields = pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def figures(command, root, behind, extra, seconds):
    with programs.nginx(command, root, behind, extra) as server:
        worker = server.workers()[0]
        shared.wrk(root, server.port, "/small.html", 16, 1)
        before = ticks(worker)
        count, found = shared.wrk(root, server.port, "/small.html", 16, seconds)
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
            shared.wrk(root, server.port, path, 1000, 2)
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
    parser = shared.parser_of(__doc__, 5)
    parser.add_argument("folder", help="with plain/nginx and tslab/nginx")
    parser.add_argument("--seconds", type=int, default=5)
    arguments = parser.parse_args()
    folder = pathlib.Path(arguments.folder).resolve()
    if not shutil.which("wrk"):
        parser.error("not installed: wrk")
    kinds = shared.with_jemalloc({"plain": ("plain", "plain", {}), "tslab": ("tslab", "tslab", {"TSLAB_BACKGROUND": "1"})},
                                 lambda file: ("jemalloc", "plain", {"LD_PRELOAD": file}))
    with tempfile.TemporaryDirectory() as name, programs.second() as behind:
        root = pathlib.Path(name)
        root.chmod(0o755)

        def once(kind):
            return figures([folder / kind[1] / "nginx"], root / kind[0], behind, kind[2], arguments.seconds)

        shared.compare(kinds, arguments.rounds, once, ROWS)
        for path in PATHS if shutil.which("valgrind") else ():
            counts = ("%s %.0f" % (kind, instructions([folder / kind / "nginx"], root / kind, behind, path)) for kind in ("plain", "tslab"))
            print("instructions a request of %s, without the kernel's: %s" % (path, ", ".join(counts)))
    return 0


if __name__ == "__main__":
    shared.ending.run("bench", lambda _: main())
