#!/usr/bin/env python3
"""Apache httpd and Subversion: plain, with jemalloc preloaded, and under libtslab-apr; in turn, medians and spread.

usage: bench.py LIBRARY [--rounds N] [--seconds N] [--revisions N]
"""

import pathlib
import resource
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent)]
import programs  # noqa: E402
import shared  # noqa: E402

ROWS = (("requests/s, small file", "%.0f"), ("p50, us", "%.0f"), ("p99, us", "%.0f"), ("p99.9, us", "%.0f"),
        ("MiB after a burst", "%.1f"), ("MiB 5 s later", "%.1f"), ("svn: seconds of processor", "%.2f"), ("svn: largest process, MiB", "%.1f"))


def server(root, preload, seconds):
    with programs.httpd(root, preload) as (port, parent):
        shared.wrk(root, port, "/small.html", 8, 1)
        _, figures = shared.wrk(root, port, "/small.html", 8, seconds)
        shared.wrk(root, port, "/large.bin", 45, seconds)
        after = programs.memory_mib(parent.pid)
        time.sleep(5)
        return [*figures, after, programs.memory_mib(parent.pid)]


def repository(root, preload, revisions):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = "import sys; sys.path[:0] = [%r, %r]; import programs, pathlib, resource; " \
              "programs.svn(pathlib.Path(%r), %r, %d); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)" % (
                  *sys.path[:2], str(root), preload, revisions)
    largest = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return [after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, int(largest) / 1024]


def main():
    parser = shared.parser_of(__doc__, 5)
    parser.add_argument("library", help="libtslab-apr.so")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--revisions", type=int, default=2000)
    arguments = parser.parse_args()
    if programs.missing():
        parser.error("not installed: " + " ".join(programs.missing()))
    kinds = {"plain": None, "tslab": str(pathlib.Path(arguments.library).resolve())}
    kinds = shared.with_jemalloc({kind: (kind, preload) for kind, preload in kinds.items()}, lambda file: ("jemalloc", file))
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        root.chmod(0o755)
        shared.compare(kinds, arguments.rounds, lambda kind: server(root / kind[0], kind[1], arguments.seconds) +
                       repository(root / "svn", kind[1], arguments.revisions), ROWS)
    return 0


if __name__ == "__main__":
    shared.ending.run("bench", lambda _: main())
