#!/usr/bin/env python3
"""The five patterns of synthetic_bench with malloc and with temporal-slab.

    benchmarks/workloads/comparison.py                 runs them (two minutes): benchmarks/results/comparison.csv, and the pages
    benchmarks/workloads/comparison.py --seconds 60    of each run
    benchmarks/workloads/comparison.py --csv FILE      the figures only, into that file

malloc and temporal-slab take turns, pattern by pattern, each in a process of its own. How long it takes to detect the leak is
measured from outside: `tslab doctor` is asked twice a second until it names the label that leaks. make_results.py writes the page.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, machine, run  # noqa: E402
from harness.peers import clean_environment  # noqa: E402
from harness.run import Missing  # noqa: E402
from report import data  # noqa: E402

PATTERNS = ["burst", "steady", "leak", "hotspot", "kernel"]
LIMIT_S = 60
MIB = 1 << 20


def once(bench, allocator, pattern, seconds):
    """What synthetic_bench says of a run."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.json"
        run.output_of([bench, f"--allocator={allocator}", f"--pattern={pattern}", f"--duration_s={seconds:g}", f"--json={result}"])
        return json.loads(result.read_text(encoding="utf-8"))


def detect(bench, doctor):
    """Seconds from the start of the leak pattern until the doctor names what leaks."""
    begin = time.monotonic()
    leaking = subprocess.Popen([bench, "--pattern=leak", f"--duration_s={LIMIT_S}"], stdout=subprocess.DEVNULL,
                               env={**clean_environment(), "TSLAB_SHM": "1"})
    try:
        while time.monotonic() - begin < LIMIT_S:
            answer = run.call([doctor, "doctor", leaking.pid])
            if any("after its close" in line and "`req`" in line for line in answer.stdout.splitlines()):
                return time.monotonic() - begin
            time.sleep(0.5)
    finally:
        leaking.kill()
        leaking.wait()
    raise Missing(f"the doctor did not name the leak within {LIMIT_S} s")


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
    programs = run.programs_in(options.build, "synthetic_bench")
    bench, rows = programs / "synthetic_bench", []
    for at, pattern in enumerate(PATTERNS):
        for allocator in run.turn(("malloc", "tslab"), at):
            run.say(f"comparison: {pattern} with {allocator}, {options.seconds:g} s")
            rows += [(pattern, allocator, figure, f"{value:.6g}" if isinstance(value, float) else value)
                     for figure, value in figures_of(once(bench, allocator, pattern, options.seconds)).items()]
    if not options.smoke:
        rows.append(("leak", "tslab", "detected_s", f"{detect(bench, programs.parent / 'tools' / 'tslab'):.1f}"))
    return rows


# ---- the page -----------------------------------------------------------------------------------


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


def block(suite, _summary):
    """The lines of the page's block."""
    about, found = suite.header("comparison"), {}
    for row in suite.rows("comparison"):
        found.setdefault((row["pattern"], row["allocator"]), {})[row["figure"]] = row.number("value")
    missing = [f"{p} with {a}" for p in PATTERNS for a in ("malloc", "tslab") if (p, a) not in found]
    if missing:
        raise data.InputError(f"{suite.path('comparison')}: no figures of {', '.join(missing)}")
    lines = ["malloc's figure stands before ours.", "", f"| malloc, temporal-slab | {' | '.join(PATTERNS)} |", f"|---|{'---|' * len(PATTERNS)}"]
    for name, figure, text in BOTH:
        cells = [", ".join(text(found[p, a][figure]) for a in ("malloc", "tslab")) for p in PATTERNS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", f"| temporal-slab alone: malloc does not say | {' | '.join(PATTERNS)} |", f"|---|{'---|' * len(PATTERNS)}"]
    for name, figure, text in OURS:
        cells = [text(found[p, "tslab"][figure]) if figure in found[p, "tslab"] else "" for p in PATTERNS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, "", f"Commit {about.get('commit', '')}, {about.get('date', '')}. {about.get('machine', '')}. "
            f"Command: `{about.get('command', '')}`."]


def main(arguments):
    parser = run.Parser("comparison.py", __doc__, "build csv smoke")
    parser.add_argument("--seconds", type=float, default=10, help="of each run (default 10)")
    options = parser.parse_args(arguments)
    if options.smoke:
        options.seconds = min(options.seconds, 0.1)
    rows = measure(options)
    about = machine.about(f"benchmarks/workloads/comparison.py --seconds {options.seconds:g}")
    run.write_csv(options.csv or run.BENCHMARKS / "results" / "comparison.csv", about, ["pattern", "allocator", "figure", "value"], rows)
    if options.csv:
        return 0
    from report import make_results
    return make_results.main([])


if __name__ == "__main__":
    ending.run("comparison", main)
