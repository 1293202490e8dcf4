#!/usr/bin/env python3
"""The cost of being watched: one program, unwatched and watched by each allocator's own means.

    benchmarks/watched/watched_bench.py                the table (two minutes)
    benchmarks/watched/watched_bench.py --csv FILE     and the figures
    benchmarks/watched/watched_bench.py --rounds 1 --seconds 0.5    quickly

The program is synthetic_bench with the pattern `hotspot` and no pause between requests: 120 objects of 48 to 768 bytes each. A
cost is how much longer a request takes than with the same allocator unwatched. The time is the mean of a run, and that of the
best run counts: other work on the machine only adds to it. Unwatched and watched runs take turns. What is not installed is left out, by name:
libjemalloc2 (its heap profile, where it was built with it), libgoogle-perftools4, heaptrack, valgrind (massif); Debian's names.
"""

import argparse
import csv
import dataclasses
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from core.run_bench import describe_commit, describe_machine  # noqa: E402
from harness import ending, place  # noqa: E402

LIBRARIES = ("/usr/lib/*/", "/usr/lib/", "/usr/local/lib/")
COLUMNS = ["watcher", "allocator", "says", "run", "unwatched_ns", "watched_ns"]


@dataclasses.dataclass(frozen=True)
class Watcher:
    """A way to watch the program. {folder} in its settings and command is one for its output."""

    name: str
    allocator: str  # tslab, or a library that is preloaded; "" is the system's malloc
    says: str
    settings: dict = dataclasses.field(default_factory=dict)
    command: tuple = ()  # before the program
    writes: str = ""     # a pattern of the files that it leaves, if it did watch
    package: str = ""


WATCHERS = [
    Watcher("temporal-slab: statistics page", "tslab", "every counter, by class, epoch and label; doctor", {"TSLAB_SHM": "1"}),
    Watcher("temporal-slab: sampled stacks", "tslab", "and live bytes by stack, one sample in 512 KiB",
            {"TSLAB_SHM": "1", "TSLAB_SAMPLE_STACKS": "512K"}),
    Watcher("jemalloc: heap profile", "libjemalloc.so.2", "live bytes by stack, one sample in 512 KiB",
            {"MALLOC_CONF": "prof:true,prof_final:true,lg_prof_sample:19,prof_prefix:{folder}/je"}, (), "je*.heap", "libjemalloc2"),
    Watcher("tcmalloc: heap profile", "libtcmalloc.so.4", "live bytes by stack, every allocation", {"HEAPPROFILE": "{folder}/tc"}, (),
            "tc*.heap", "libgoogle-perftools4"),
    Watcher("heaptrack", "", "every allocation with its stack", {}, ("heaptrack", "--output", "{folder}/track"), "track*", "heaptrack"),
    Watcher("massif", "", "live bytes by stack, every allocation", {},
            ("valgrind", "--tool=massif", "--massif-out-file={folder}/massif"), "massif*", "valgrind"),
]


class Missing(Exception):
    """Why a watcher is left out."""


def find_library(name):
    for place in LIBRARIES:
        for path in sorted(glob.glob(place + name)):
            return path
    return None


def parts_of(watcher, folder):
    """(settings of the allocator, settings and command of the watcher), or Missing."""
    settings = {key: value.format(folder=folder) for key, value in watcher.settings.items()}
    command = [word.format(folder=folder) for word in watcher.command]
    if command and not shutil.which(command[0]):
        raise Missing(f"{watcher.name}: {command[0]} is not installed ({watcher.package})")
    if watcher.allocator in ("", "tslab"):
        return {}, settings, command
    library = find_library(watcher.allocator)
    if not library:
        raise Missing(f"{watcher.name}: {watcher.allocator} is not installed ({watcher.package})")
    return {"LD_PRELOAD": library}, settings, command


def run(options, watcher, environment, command, folder):
    """The mean time of a request in nanoseconds."""
    clean = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "MALLOC_CONF", "HEAPPROFILE")
             and not key.startswith("TSLAB_")}
    result = os.path.join(folder, "result.json")
    line = [*command, str(options.program), f"--allocator={'tslab' if watcher.allocator == 'tslab' else 'malloc'}",
            "--pattern=hotspot", "--req_rate=0", f"--duration_s={options.seconds:g}", f"--json={result}"]
    done = subprocess.run(line, env={**clean, **environment}, capture_output=True, text=True, errors="replace", check=False)
    if "Invalid conf" in done.stderr:
        raise Missing(f"{watcher.name}: this build of the library has none")
    if done.returncode != 0:
        raise Missing(f"{watcher.name}: exit code {done.returncode}: {done.stderr.strip()[-200:]}")
    with open(result, encoding="utf-8") as file:
        return json.load(file)["latency_ns"]["mean"]


def measure(options, watcher):
    """[(unwatched, watched)] of the rounds."""
    pairs = []
    for at in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            allocator, settings, command = parts_of(watcher, folder)
            runs = [(allocator, []), ({**allocator, **settings}, command)]
            times = [run(options, watcher, *each, folder) for each in (runs if at % 2 == 0 else runs[::-1])]
            if watcher.writes and not glob.glob(os.path.join(folder, watcher.writes)):
                raise Missing(f"{watcher.name}: it left no {watcher.writes}, so it did not watch")
        pairs.append(tuple(times if at % 2 == 0 else times[::-1]))
    return pairs


def cost_text(cost):
    return f"{cost:.0f} times" if cost >= 2.95 else f"{100 * (cost - 1):+.0f} %"


def show(results):
    rows = [("watched by", "a request, us", "watched", "cost", "says")]
    for watcher, pairs in results:
        unwatched, watched = (min(pair[i] for pair in pairs) / 1e3 for i in (0, 1))
        rows.append((watcher.name, f"{unwatched:.2f}", f"{watched:.2f}", cost_text(watched / unwatched), watcher.says))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        print("  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in (1, 2, 3)), row[4]]))


def write(path, options, results):
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "w", newline="", encoding="utf-8") as file:
        file.write(f"# machine: {describe_machine()}\n"
                   f"# command: benchmarks/watched/watched_bench.py --rounds {options.rounds} --seconds {options.seconds:g}\n"
                   f"# date: {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC, load {os.getloadavg()[0]:.2f} at the end\n"
                   f"# commit: {describe_commit()}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for watcher, pairs in results:
            for number, (unwatched, watched) in enumerate(pairs, 1):
                writer.writerow([watcher.name, watcher.allocator or "malloc", watcher.says, number, f"{unwatched:.1f}",
                                 f"{watched:.1f}"])
    temporary.replace(path)


def main(arguments):
    parser = argparse.ArgumentParser(prog="watched_bench.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of each run (default 2)")
    parser.add_argument("--csv", type=place.output, metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="three rounds of half a second")
    parser.add_argument("--smoke", action="store_true", help="a moment each: does it work")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="default build/release")
    options = parser.parse_args(arguments)
    if options.quick or options.smoke:
        options.rounds, options.seconds = (3, 0.5) if options.quick else (1, 0.05)
    options.program = options.build / "benchmarks" / "synthetic_bench"
    if not options.program.is_file():
        print(f"watched_bench: {options.program} is not built: make run", file=sys.stderr)
        return 3
    results = []
    for watcher in WATCHERS:
        try:
            results.append((watcher, measure(options, watcher)))
        except Missing as missing:
            print(f"watched_bench: left out: {missing}", file=sys.stderr)
    show(results)
    if options.csv:
        write(options.csv, options, results)
    return 0


if __name__ == "__main__":
    ending.run("watched_bench", main)
