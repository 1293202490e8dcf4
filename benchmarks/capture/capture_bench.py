#!/usr/bin/env python3
"""Requests that unmodified libraries serve: by plain malloc of each allocator, and each in a domain that captures.

usage: capture_bench.py LIBRARY DIRECTORY [--rounds N] [--requests N] [--smoke] [--csv FILE] [LIBRARY_NAME...]

LIBRARY: libtslab-malloc.so; DIRECTORY: where the programs are built. Of each row: requests a second, the 99.9th percentile of a request in us, and
MB that are resident after the requests; medians of rounds in which every way runs once, in an order that turns. "drained": the library frees, and
what it keeps lives on; "dropped": nothing is freed, the end of the domain frees all. A library or an allocator that is not there is left out, by
name.
"""
import argparse
import csv
import glob
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import place

# name, requests (usual, smoke)
LIBRARIES = [("libxml2", 4000), ("jansson", 8000), ("containers", 8000), ("sqlite3", 2500), ("lua", 1500), ("openssl", 800)]
ALLOCATORS = [("jemalloc", "libjemalloc.so.2"), ("tcmalloc", "libtcmalloc_minimal.so.4"), ("mimalloc", "libmimalloc.so.2")]


def ways(library):
    """Name, program's suffix, mode, and what is preloaded."""
    found = [("glibc", "", "plain", "")]
    for name, pattern in ALLOCATORS:
        paths = sorted(glob.glob(f"/usr/lib/*/{pattern}") + glob.glob(f"/usr/local/lib/{pattern}"))
        if paths:
            found.append((name, "", "plain", paths[0]))
        else:
            print(f"{name}: not installed")
    return found + [("tslab", "", "plain", library), ("tslab, drained", "_linked", "drain", ""), ("tslab, dropped", "_linked", "drop", "")]


def run(directory, name, way, requests):
    """Three figures; None: the library cannot be used so."""
    kept = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("TSLAB_")}
    if way[3]:
        kept["LD_PRELOAD"] = way[3]
    answer = subprocess.run([os.path.join(directory, f"capture_{name}{way[1]}"), way[2], str(requests)], env=kept, capture_output=True, text=True,
                            check=False)
    if answer.returncode == 77:
        return None
    if answer.returncode != 0:
        sys.exit(f"{name}, {way[0]}: status {answer.returncode}: {answer.stderr[-300:]}")
    return tuple(map(float, answer.stdout.split()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("directory")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--csv", metavar="FILE", type=place.output)
    arguments = parser.parse_intermixed_args()
    if not os.path.exists(arguments.library):
        parser.error(f"{arguments.library}: no such file")
    all_ways, lines = ways(os.path.abspath(arguments.library)), []
    for name, requests in LIBRARIES:
        if arguments.names and name not in arguments.names:
            continue
        if not os.path.exists(os.path.join(arguments.directory, "capture_" + name)):
            print(f"{name}: left out, it is not installed")
            continue
        requests = 20 if arguments.smoke else arguments.requests or requests
        figures, order = {w[0]: [] for w in all_ways}, list(all_ways)
        for _ in range(1 if arguments.smoke else arguments.rounds):
            for way in order:
                figures[way[0]].append(run(arguments.directory, name, way, requests))
            order = order[1:] + order[:1]
        print(f"\n{name:18s}{'requests/s':>12s}{'p99.9 us':>12s}{'MB after':>10s}")
        for way, all_of_it in figures.items():
            if None in all_of_it:
                print(f"  {way:16s}{'not so: it would meet again what is gone':>40s}")
                continue
            rate, tail, kib = (statistics.median(column) for column in zip(*all_of_it))
            print(f"  {way:16s}{rate:12.0f}{tail:12.1f}{kib / 1024:10.1f}", flush=True)
            lines.append([name, way, f"{rate:.0f}", f"{tail:.2f}", int(kib)])
    if not lines:
        sys.exit("no library is there")
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="ascii") as f:
            csv.writer(f).writerows([["library", "way", "requests_per_s", "p999_us", "kib_after"]] + lines)


if __name__ == "__main__":
    main()
