#!/usr/bin/env python3
"""The five patterns of synthetic_bench with malloc and with temporal-slab, in one table: benchmarks/workloads/COMPARISON_RESULTS.md.

    benchmarks/workloads/comparison.py                 runs them (two minutes), and writes benchmarks/results/comparison.csv and the page
    benchmarks/workloads/comparison.py --seconds 60    of each run
    benchmarks/workloads/comparison.py --csv FILE      the figures only, into that file
    benchmarks/workloads/comparison.py --page          runs nothing: the page from the figures that are there
    benchmarks/workloads/comparison.py --check         writes nothing; exit 1 if the page is not what the figures give

malloc and temporal-slab take turns, pattern by pattern, each in a process of its own. How long it takes to detect the leak is
measured from outside: `tslab doctor` is asked twice a second until it names the label that leaks.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from core.run_bench import describe_commit, describe_machine  # noqa: E402
from harness import place  # noqa: E402

PATTERNS = ["burst", "steady", "leak", "hotspot", "kernel"]
PAGE = ROOT / "benchmarks" / "workloads" / "COMPARISON_RESULTS.md"
FIGURES = ROOT / "benchmarks" / "results" / "comparison.csv"
MARKS = ("<!-- figures: comparison begin (benchmarks/workloads/comparison.py) -->", "<!-- figures: comparison end -->")
LIMIT_S = 60
MIB = 1 << 20


class Failure(Exception):
    """Why there are no figures, or no page."""


# ---- measuring ----------------------------------------------------------------------------------


def clean_environment(**more):
    return {**{key: value for key, value in os.environ.items() if key != "LD_PRELOAD" and not key.startswith("TSLAB_")}, **more}


def program(build, name):
    path = pathlib.Path(build) / name
    if not path.is_file():
        raise Failure(f"{path} is not built: make run")
    return str(path)


def run(bench, allocator, pattern, seconds):
    """What synthetic_bench says of a run."""
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        done = subprocess.run([bench, f"--allocator={allocator}", f"--pattern={pattern}", f"--duration_s={seconds:g}",
                               f"--json={result}"], capture_output=True, text=True, env=clean_environment(), check=False)
        if done.returncode != 0:
            raise Failure(f"{pattern} with {allocator}: {done.stderr.strip()}")
        with open(result, encoding="utf-8") as file:
            return json.load(file)


def detect(bench, doctor):
    """Seconds from the start of the leak pattern until the doctor names what leaks."""
    begin = time.monotonic()
    leaking = subprocess.Popen([bench, "--pattern=leak", f"--duration_s={LIMIT_S}"], stdout=subprocess.DEVNULL,
                               env=clean_environment(TSLAB_SHM="1"))
    try:
        while time.monotonic() - begin < LIMIT_S:
            answer = subprocess.run([doctor, "doctor", str(leaking.pid)], capture_output=True, text=True, check=False)
            if any("after its close" in line and "`req`" in line for line in answer.stdout.splitlines()):
                return time.monotonic() - begin
            time.sleep(0.5)
    finally:
        leaking.kill()
        leaking.wait()
    raise Failure(f"the doctor did not name the leak within {LIMIT_S} s")


def figures_of(result):
    """{figure: value} of one run."""
    latency, rss, leaked = result["latency_ns"], result["rss"], result["leaked"]
    found = {"requests": result["requests"], "requests_per_s": result["requests_per_s"], "p50_ns": latency["p50"],
             "p99_ns": latency["p99"], "p999_ns": latency["p99_9"], "rss_peak_bytes": rss["peak_bytes"],
             "rss_after_bytes": rss["after_bytes"], "leaked_objects": leaked["objects"], "leaked_bytes": leaked["bytes"]}
    ours = result["tslab"]
    if ours:
        hits, new, miss = (ours[key] for key in ("slow_path_hits", "new_slab_count", "slow_path_cache_miss"))
        found.update(fast_path_pct=100 * ours["fast_path_rate"], slow_cache_miss=miss, slow_warm_slab=new - miss,
                     slow_other=max(hits - new, 0), slow_epoch_closed=ours["slow_path_epoch_closed"],
                     recycled_pct=100 * ours["empty_slab_recycled"] / new if new else 0, net_slabs=new - ours["empty_slab_recycled"],
                     # a domain for each request ends without epoch_close
                     ends=ours["epoch_close_calls"] or result["requests"], madvise_calls=ours["madvise_calls"],
                     madvise_bytes=ours["madvise_bytes"], leak_epochs=sum(row["epochs"] for row in leaked["by_epoch_label"]),
                     leak_keeps_bytes=sum(row["slab_bytes"] for row in leaked["by_epoch_label"]))
    return found


def measure(options):
    bench, doctor = program(options.build, "benchmarks/synthetic_bench"), program(options.build, "tools/tslab")
    rows = []
    for at, pattern in enumerate(PATTERNS):
        for allocator in ("malloc", "tslab")[::1 if at % 2 == 0 else -1]:
            print(f"comparison: {pattern} with {allocator}, {options.seconds:g} s", file=sys.stderr)
            found = figures_of(run(bench, allocator, pattern, options.seconds))
            rows += [(pattern, allocator, figure, f"{value:.6g}" if isinstance(value, float) else value)
                     for figure, value in found.items()]
    if not options.smoke:
        rows.append(("leak", "tslab", "detected_s", f"{detect(bench, doctor):.1f}"))
    return rows


def write_figures(path, options, rows):
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "w", newline="", encoding="utf-8") as file:
        file.write(f"# machine: {describe_machine()}\n# command: benchmarks/workloads/comparison.py --seconds {options.seconds:g}\n"
                   f"# date: {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC, load {os.getloadavg()[0]:.2f} at the end\n"
                   f"# commit: {describe_commit()}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["pattern", "allocator", "figure", "value"])
        writer.writerows(rows)
    temporary.replace(path)


# ---- the page -----------------------------------------------------------------------------------


def read_figures(path):
    """({word: text} of the lines before the heading, {(pattern, allocator): {figure: value}})"""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    about = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    found = {}
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        found.setdefault((row["pattern"], row["allocator"]), {})[row["figure"]] = float(row["value"])
    return about, found


def us(value):
    return f"{value / 1e3:,.1f}"


def mib(value):
    return f"{value / MIB:,.1f}"


def whole(value):
    return f"{value:,.0f}"


def percent(value):
    return f"{value:.3f}" if 99 < value < 100 else f"{value:.1f}"


BOTH = [("requests/s", "requests_per_s", whole), ("request p50, us", "p50_ns", us), ("p99, us", "p99_ns", us),
        ("p99.9, us", "p999_ns", us), ("resident at its peak, MiB", "rss_peak_bytes", mib),
        ("resident afterwards, MiB", "rss_after_bytes", mib), ("leaked objects", "leaked_objects", whole),
        ("their bytes, MiB", "leaked_bytes", mib)]
OURS = [("fast path, % of the allocations", "fast_path_pct", percent), ("slow paths: a slab without memory", "slow_cache_miss", whole),
        ("slow paths: a retained slab", "slow_warm_slab", whole), ("slow paths: another reason", "slow_other", whole),
        ("slow paths: refused, epoch closed", "slow_epoch_closed", whole),
        ("slabs recycled, % of those taken", "recycled_pct", percent), ("net slabs: taken, not recycled", "net_slabs", whole),
        ("epochs closed, or domains ended", "ends", whole), ("calls that give memory back", "madvise_calls", whole),
        ("given back by them, MiB", "madvise_bytes", mib), ("leaking epochs, named by label", "leak_epochs", whole),
        ("what leaked objects keep, MiB of slabs", "leak_keeps_bytes", mib),
        ("time until the doctor names the leak, s", "detected_s", lambda value: f"{value:.1f}")]


def block(about, found):
    """The lines between the marks."""
    missing = [f"{p} with {a}" for p in PATTERNS for a in ("malloc", "tslab") if (p, a) not in found]
    if missing:
        raise Failure(f"no figures of {', '.join(missing)}")
    less = [] if about.get("mode", "full") == "full" else [f"**A {about['mode']} run: less work, so the figures vary more.**", ""]
    lines = [*less, "malloc's figure stands before ours.", "", f"| malloc, temporal-slab | {' | '.join(PATTERNS)} |",
             f"|---|{'---|' * len(PATTERNS)}"]
    for name, figure, text in BOTH:
        cells = [", ".join(text(found[p, a][figure]) for a in ("malloc", "tslab")) for p in PATTERNS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", f"| temporal-slab alone: malloc does not say | {' | '.join(PATTERNS)} |", f"|---|{'---|' * len(PATTERNS)}"]
    for name, figure, text in OURS:
        cells = [text(found[p, "tslab"][figure]) if figure in found[p, "tslab"] else "" for p in PATTERNS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, "", f"Commit {about.get('commit', '')}, {about.get('date', '')}. {about.get('machine', '')}. "
            f"Command: `{about.get('command', '')}`."]


def page(text, about, found):
    begin, end = (text.find(mark) for mark in MARKS)
    if begin < 0 or end < begin:
        raise Failure(f"{PAGE}: no block of figures")
    return text[:begin] + "\n".join([MARKS[0], *block(about, found), MARKS[1]]) + text[end + len(MARKS[1]):]


def write_page(options):
    """0; 1: it is not as the figures say, with --check."""
    text = options.page_file.read_text(encoding="utf-8")
    new = page(text, *read_figures(options.csv))
    if options.check:
        if new != text:
            print(f"comparison: {options.page_file} is not what {options.csv} gives: benchmarks/workloads/comparison.py --page", file=sys.stderr)
        return int(new != text)
    options.page_file.write_text(new, encoding="utf-8")
    return 0


def main(arguments):
    parser = argparse.ArgumentParser(prog="comparison.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="of each run (default 10)")
    parser.add_argument("--build", default=str(ROOT / "build" / "release"), help="default build/release")
    parser.add_argument("--csv", type=pathlib.Path, metavar="FILE", help="default benchmarks/results/comparison.csv, and the page is written")
    parser.add_argument("--page", action="store_true", help="run nothing")
    parser.add_argument("--check", action="store_true", help="run nothing, write nothing")
    parser.add_argument("--smoke", action="store_true", help="a moment each, no time to detect: does it work")
    parser.add_argument("--page-file", type=pathlib.Path, default=PAGE, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.smoke:
        options.seconds = min(options.seconds, 0.1)
    figures_only = options.csv is not None and not options.page and not options.check
    if figures_only:
        place.announce(options.csv)
    options.csv = options.csv or FIGURES
    try:
        if not options.page and not options.check:
            write_figures(options.csv, options, measure(options))
        return 0 if figures_only else write_page(options)
    except Failure as failure:
        print(f"comparison: {failure}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
