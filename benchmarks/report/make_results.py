#!/usr/bin/env python3
"""Writes docs/results.md, and what stands between two marks in README.md, from the CSV files of run_all.sh.

The output depends on these files and on targets.csv alone. --check writes nothing and fails if a file would change.
"""

import argparse
import collections
import dataclasses
import math
import pathlib
import re
import sys

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
ROOT = BENCHMARKS.parent
sys.path.insert(0, str(BENCHMARKS))

from report import analyze_epoch_tail_csv as analyze  # noqa: E402
from report import bench_report as report  # noqa: E402
from report import suite_figures as figures  # noqa: E402
from report.bench_report import OURS, SUITE  # noqa: E402
from report.suite_figures import ALLOCATORS, SIZE, Suite  # noqa: E402

MARKS = ("<!-- figures: begin (benchmarks/report/make_results.py) -->", "<!-- figures: end -->")
LABELS = {"tslab": "temporal-slab", "malloc": "malloc"}
PROGRAMS = "build/release/benchmarks"
# What is nearer than this is called equal: a share, and points of per cent.
EQUAL = 0.03
POINTS = 0.5


@dataclasses.dataclass(frozen=True)
class Claim:
    """A reference figure: what it is of the design's own allocator and of malloc, and where ours is. In `what` stand the
    amounts of the run that the figures are of, see amounts()."""

    what: str
    theirs: str
    malloc: str
    work: str
    metric: str
    unit: str
    command: str
    turn: object = None  # from the metric, of which less is better, to the figure that the reference names


def percent_of_rest(value):
    return 100 - value


def pair_of(value):
    return 2 * value


CHURN, ACCURATE, THREADS, FRAGMENTS = "churn_test", "benchmark_accurate", "benchmark_threads", "fragmentation_over_time"
LATENCY = f"{SUITE}latency_{SIZE}"
CLAIMS = [
    Claim("allocation p50, {operations} operations of churn", "30 ns", "24 ns", LATENCY, "alloc_p50_ns", "ns", ACCURATE),
    Claim("allocation p99", "76 ns (39 x better)", "2,962 ns", LATENCY, "alloc_p99_ns", "ns", ACCURATE),
    Claim("allocation p99.9", "166 ns (69 x better)", "11,525 ns", LATENCY, "alloc_p999_ns", "ns", ACCURATE),
    Claim("allocation p99.99", "1,542 ns (41 x better)", "63,940 ns", LATENCY, "alloc_p9999_ns", "ns", ACCURATE),
    Claim("allocation p99.999", "19,800 ns (12.9 x better)", "254,000 ns", LATENCY, "alloc_p99999_ns", "ns", ACCURATE),
    Claim("in sequence: allocation p99", "131 ns (11.2 x better)", "1,463 ns", LATENCY, "seq_alloc_p99_ns", "ns", ACCURATE),
    Claim("in sequence: allocation p99.9", "371 ns (11.9 x better)", "4,418 ns", LATENCY, "seq_alloc_p999_ns", "ns",
          ACCURATE),
    Claim("free p99.9", "", "", LATENCY, "free_p999_ns", "ns", ACCURATE),
    Claim("growth of resident memory over {cycles} cycles", "0 to 2.4 %", "0 %", f"{SUITE}churn_test", "rss_growth_pct", "%",
          CHURN),
    Claim("resident memory in these cycles", "+37 % over malloc", "", f"{SUITE}churn_test", "rss_mib", "MiB", CHURN),
    Claim("{shifts} phase shifts: largest change of what is live, of all rounds", "no drift", "", f"{SUITE}phase_shifts",
          "live_bytes_drift", "bytes", CHURN),
    Claim("the same of what is committed", "no drift", "", f"{SUITE}phase_shifts", "committed_bytes_drift", "bytes",
          CHURN),
    Claim("share of a 256 MiB spike that is returned as soon as it is over, mean", "71.9 %", "18.6 %", f"{SUITE}phase_shifts", "kept_pct", "%",
          CHURN, percent_of_rest),
    Claim("the least of all shifts", "", "", f"{SUITE}phase_shifts", "worst_kept_pct", "%", CHURN, percent_of_rest),
    Claim("share of the last spike that is returned once the allocator is asked for it", "", "", f"{SUITE}phase_shifts",
          "kept_asked_pct", "%", CHURN, percent_of_rest),
    Claim("the same shifts: growth of resident memory after the spikes, from the second to the last", "", "",
          f"{SUITE}phase_shifts", "rss_growth_pct", "%", CHURN),
    Claim("share of 192 MiB that is returned once every object is freed", "", "", f"{SUITE}survivors_together",
          "kept_empty_pct", "%", FRAGMENTS, percent_of_rest),
    Claim("the same, once the allocator is asked for it", "", "", f"{SUITE}survivors_together", "kept_empty_asked_pct", "%",
          FRAGMENTS, percent_of_rest),
    Claim("growth over 20 epochs of 50,000 objects", "0 %", "", f"{SUITE}epoch_cycles", "rss_growth_pct", "%", CHURN),
    Claim("growth in a mixed load without boundaries (reference: another load, whose working set grows)", "1,033 %",
          "1,111 %", f"{SUITE}mixed_load", "rss_growth_pct", "%", CHURN),
    Claim("space efficiency over a realistic mix of sizes", "88.9 %", "75 to 85 %", f"{SUITE}size_mix", "waste_pct", "%",
          ACCURATE, percent_of_rest),
    Claim("resident over the payload, 128 B, metadata counted", "3 %", "", f"{SUITE}space_128", "overhead_pct", "%",
          ACCURATE),
    Claim("1 thread, 100,000 objects allocated, then freed, memory warm: time of both (reference: a first time, and a sort in "
          "it)", "172 ns", "", f"{SUITE}threads_1_batch", "op_ns", "ns", THREADS, pair_of),
    Claim("16 threads: the same, of all together (likewise)", "9,524 ns", "", f"{SUITE}threads_16_batch", "op_ns", "ns", THREADS, pair_of),
    Claim("16 threads: p99 of an allocation (likewise)", "19,916 ns", "", f"{SUITE}threads_16_batch", "p99_ns", "ns", THREADS),
    Claim("16 threads: share of the acquisitions of the allocator's locks that waited (in batches)", "18 to 20 %, a plateau", "",
          f"{SUITE}threads", "batch_waited_pct", "%", THREADS),
    Claim("16 threads, 2,000 live objects of each replaced, all in one epoch: waits for any lock of the library, the most of any "
          "round of ten trials", "", "", f"{SUITE}threads", "lock_waits", "", THREADS),
    Claim("the same, an epoch each", "", "", f"{SUITE}threads", "lock_waits_separate", "", THREADS),
    Claim("instructions of a call for the statistics", "about 2 ns a lock", "", f"{SUITE}observability",
          "instructions_per_call", "", "observability"),
]

COMMANDS = {
    ACCURATE: f"{PROGRAMS}/benchmark_accurate --allocator NAME --csv FILE",
    CHURN: f"{PROGRAMS}/churn_test --allocator NAME --csv FILE",
    THREADS: f"{PROGRAMS}/benchmark_threads --allocator NAME --csv FILE",
    FRAGMENTS: f"{PROGRAMS}/fragmentation_over_time --allocator NAME --csv FILE",
    "scope_bench": f"{PROGRAMS}/scope_bench --csv FILE",
    "tail_attribution": f"{PROGRAMS}/tail_attribution --csv FILE",
    "soak": "benchmarks/soak_mixed_single_process.sh --csv FILE",
    "observability": "benchmarks/core/observability.py --csv FILE",
    "core_bench": "benchmarks/run_bench.sh",
    "zones": f"{PROGRAMS}/zones_bench --csv FILE",
    "numa_bench": f"{PROGRAMS}/numa_bench --csv FILE",
}


# ---- what holds of several parts ----------------------------------------------------------------

NOISE = ("A p50 is what is left after the clock's own median is subtracted. Where ours or the best peer's is below half of "
         "what was subtracted, and their rounds overlap, their ratio is noise, and none is formed (`-`).")
DRIFT = "Drift of live bytes is 0 with any correct allocator: the work replaces objects by others of the same sizes."
NEVER = "Drift, locks and waits are the largest of all rounds, not the median."
EMPTY = ("Every object freed: first nineteen in twenty are, ten seconds pass, the allocator is asked to give memory back, and "
         "the rest is freed; memory is counted at once, and again when the allocator was asked once more. Asked: slab_trim, "
         "malloc_trim, arena.purge, ReleaseFreeMemory, mi_collect. The end of an epoch asks by itself.")
SPIKES = ("`sequential` times the call alone, as the reference figures do; `sequential_written` times the call and the first "
          "write to its object. Both are shown because the first use of a page is a page fault, and malloc writes headers into "
          "new memory: its page faults are in the time of the call, those of an allocator that does not write there are not; "
          "with the first write they are in the time of every allocator.")
LOCKS = ("No fast path takes a lock. `locks_contended` counts waits for the two locks of the allocator itself, on slow paths: that "
         "of its rolling epochs and that of its warm memory units. The locks of epochs, of heaps and of the region are in "
         "`lock_waits`, which counts them all.")
CALLS = ("Every program is compiled with the same flags. `malloc` is called by way of the table of jumps (PLT), as in any program; "
         "`tslab.h` has GCC call the library without it. A program that is compiled with `-fno-plt` spares the others that, too; "
         "`docs/decisions.md` says what is left of the ratios then.")
KEPT = ("`object_ns` is of scopes that are made and dropped, beside the regions that cannot free a single object; `kept_object_ns` "
        "of scopes that are kept and emptied (`epoch_domain_reset`), beside such regions.")


def in_the_noise(summary, work, metric):
    """Whether the row is of p50s, ours or the best peer's is less than half of the floor that was subtracted, and the rounds of
    the two do not tell them apart."""
    floors = summary.get((work, metric.removesuffix("p50_ns") + "floor_ns"), {})
    entries = summary.get((work, metric), {})
    best = report.best_peer(entries)
    if not metric.endswith("p50_ns") or OURS not in entries or best is None:
        return False
    small = any(2 * entries[name]["median"] < floors[name]["median"] for name in (OURS, best) if name in floors)
    return small and entries[OURS]["min"] <= entries[best]["max"] and entries[best]["min"] <= entries[OURS]["max"]


def where(summary, work, metric, kind=""):
    """standing() of a row; a dash where its ratio is noise."""
    return "-" if in_the_noise(summary, work, metric) else standing(summary.get((work, metric), {}), kind)


# ---- numbers ------------------------------------------------------------------------------------


def number(value):
    """Three significant digits, thousands separated, no exponent."""
    if abs(value) < 0.00005:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) < 0.005:
        return f"{value:.4f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def with_spread(entry, turn=None):
    """The median, and the least and the largest of what it is the median of, where these differ."""
    if entry is None:
        return "-"
    values = [turn(v) if turn else v for v in (entry["median"], entry["min"], entry["max"])]
    if number(values[1]) == number(values[2]):
        return number(values[0])
    low, high = sorted(values[1:])
    return f"{number(values[0])} ({number(low)}..{number(high)})"


def markdown(rows):
    """A table; the first row is its heading."""
    lines = [f"| {' | '.join(rows[0])} |", "|" + "---|" * len(rows[0])]
    return lines + [f"| {' | '.join(row)} |" for row in rows[1:]]


def times(ratio):
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:,.0f}"


def judged_ratio(row):
    return report.beside_limit(row.figure, row.limit, 2) if row.figure < 9.995 else times(row.figure)


def compare(ours, theirs, metric):
    """(the distance in words, ours / theirs or the difference in points, ours is worse, ours is better). Points are for
    metrics that are per cent already; the quotient is that of the rounds, see bench_report.quotient()."""
    mine, other = ours["median"], theirs["median"]
    if metric.endswith("_pct"):
        return f"{number(abs(mine - other))} points", mine - other, mine - other > POINTS, other - mine > POINTS
    ratio = report.quotient(ours, theirs)
    if mine <= 0 or not ratio:
        return "", math.inf if mine > other else 1.0, mine > other, mine < other
    return f"{times(max(ratio, 1 / ratio))} x", ratio, ratio > 1 + EQUAL, ratio < 1 - EQUAL


def standing(by_allocator, metric=""):
    """Where ours is among all of one row, of which less is better."""
    ours = by_allocator.get(OURS)
    best = report.best_peer(by_allocator)
    if ours is None or best is None:
        return ""
    words, _, worse, better = compare(ours, by_allocator[best], metric)
    words = f" by {words}" if words else ""
    if worse:
        return f"**behind {best}{words}**"
    return f"ahead of {best}{words}" if better else f"equal to {best}"


# ---- the parts ----------------------------------------------------------------------------------


def about_the_run(suite):
    header = suite.header()
    if not header:
        return ["The run was not recorded (there is no run.csv)."]
    rows = suite.rows("run")
    spent = sum(suite.number("run", row, "seconds") for row in rows)
    return [
        f"Machine: {suite.machines()}. Mode {header['mode']}, {len(rows)} runs in {spent / 60:.0f} minutes. "
        f"{header['allocators']}.",
        "",
        *markdown([["commit", "measured (UTC)", "steps"], *measured_when(suite)]),
        "",
        "What measures all of it (`--steps A,B`: a part, whose figures replace those that were there), and what makes the charts "
        "and this file:",
        "",
        f"    {whole_run(header)}",
        "    tools/plot_bench.py",
        "    benchmarks/report/make_results.py",
    ]


def whole_run(header):
    """The command of the last run, which may have been one of some steps or allocators, without that choice."""
    words = header["command"].split()
    for choice in "--steps", "--allocators":
        if choice in words:
            at = words.index(choice)
            words[at:at + 2] = []
    return " ".join(words)


def measured_when(suite):
    """A row for each commit: when the first and the last of its programs ended, and its steps."""
    commits = {}
    for row in suite.rows("run"):
        ended, steps = commits.setdefault(row["commit"], ([], {}))
        ended.append((row.get("date") or suite.header()["date"])[:len("2020-01-01 00:00")])
        steps[row["step"]] = None
    return [[commit, span(min(ended), max(ended)), ", ".join(steps)] for commit, (ended, steps) in commits.items()]


def span(first, last):
    """From one day and time to another; the day once if it is the same."""
    if first == last:
        return first
    day, _, time = last.partition(" ")
    return f"{first} to {time if first.startswith(day) else last}"


def amounts(suite):
    """How much was measured, in words of the claims."""
    def most(name, column):
        return f"{max((int(suite.number(name, row, column)) for row in suite.rows(name)), default=0):,}"

    samples = [suite.number(ACCURATE, row, "samples") for row in suite.rows(ACCURATE)
               if row["op"] == "alloc" and "samples" in row]
    return {"cycles": most("churn_test", "cycle"), "shifts": most("phase_shifts", "shift"),
            "operations": f"{2 * max(samples, default=0) / 1e6:.0f} M"}


def claims(suite, summary):
    names = present(summary)
    counts = amounts(suite)
    rows = [["figure", "reference", "reference: malloc", *(label(name) for name in names), "where we are", "from"]]
    for claim in CLAIMS:
        entries = summary.get((claim.work, claim.metric), {})
        if not entries:
            continue
        unit = f" ({claim.unit})" if claim.unit else ""
        cells = [with_spread(entries.get(name), claim.turn) for name in names]
        rows.append([claim.what.format(**counts) + unit, claim.theirs or "-", claim.malloc or "-", *cells,
                     where(summary, claim.work, claim.metric, claim.metric) or own_verdict(claim, entries), claim.command])
    used = dict.fromkeys(claim.command for claim in CLAIMS if summary.get((claim.work, claim.metric)))
    return [*markdown(rows), "", NOISE, DRIFT, NEVER, EMPTY, "", *commands(used)]


def own_verdict(claim, entries):
    """Where no other allocator counts the same: against the reference's own words, where these are a figure."""
    if OURS not in entries:
        return ""
    mine = entries[OURS]["median"]
    if mine == 0:
        return "none at all"
    if claim.metric.startswith("lock_waits"):
        return "**not 0**"
    return "" if claim.theirs != "no drift" else "**drifts**"


def commands(names):
    return ["Reproduce:", "", *(f"    {COMMANDS[name]}" for name in names)]


def label(name):
    return LABELS.get(name, name)


def present(summary):
    found = {name for entries in summary.values() for name in entries}
    return [name for name in ALLOCATORS if name in found]


def judged_targets(suite, summary):
    wanted = report.read_targets(BENCHMARKS / "targets.csv")
    return report.judge_all(summary, wanted, figures.expected(suite, wanted))


def over(row):
    """How many times its limit a missed figure is."""
    return row.figure / row.limit if row.limit else math.inf


def aims(judged):
    """How many are met, and the three that are farthest over their limits."""
    met = sum(row.verdict == "ok" for row in judged)
    missed = sorted((row for row in judged if row.verdict == "miss"), key=over, reverse=True)[:3]
    farthest = f" Farthest over their limits: {', '.join(map(miss, missed))}." if missed else ""
    return f"{met} of {len(judged)} aims met.{farthest}"


def miss(row):
    limit = f"{row.limit:g}" + (" x" if row.kind.startswith("ratio") else "")
    distance = f"{times(over(row))} times the limit of {limit}" if row.limit else f"{number(row.figure)}, the limit is 0"
    return f"`{row.work.removeprefix(SUITE)} {row.metric}` ({distance})"


def targets(suite, summary):
    judged = judged_targets(suite, summary)
    rows = [["work", "metric", "temporal-slab", "compared with", "its figure", "ratio or figure", "limit", ""]]
    for row in judged:
        entries = summary.get((row.work, row.metric), {})
        ratio = row.kind.startswith("ratio")
        rows.append([
            row.work.removeprefix(SUITE), row.metric, with_spread(entries.get(OURS)), report.compared_with(row),
            with_spread(entries.get(row.best)),
            "-" if row.figure is None else f"{judged_ratio(row)} x" if ratio else number(row.figure),
            f"{row.limit:g} x" if ratio else f"{row.limit:g}",
            {"ok": "met", "miss": "**missed**"}.get(row.verdict, report.verdict(row)),
        ])
    met, missed = (sum(row.verdict == verdict for row in judged) for verdict in ("ok", "miss"))
    other = ["The rows down to `domain_cycle` are of core_bench. " + line for line in about_the_core(suite)[:1]]
    return [f"{met} of {len(judged)} met, {missed} missed. Compared is with the best peer, or with the one that the target "
            "names: (fixed).", KEPT, CALLS, *other,
            "", *markdown(rows), "", SPIKES, LOCKS, DRIFT, NEVER]


# Metrics that say how a measurement was made, or that another one contains: object_ns of the scopes is a part of any_object_ns.
SKIPPED = re.compile(r"floor|step_ns|round_trip|from_start|drift| spike_|worst_"
                     rf"|^{SUITE}scope_\S+ object_ns$")


def behind(summary):
    """Every row in which a peer is better by more than what is called equal, the worst first."""
    found, compared, noisy = [], 0, 0
    for (work, metric), entries in summary.items():
        best = report.best_peer(entries)
        if OURS not in entries or best is None or SKIPPED.search(f"{work} {metric}"):
            continue
        if in_the_noise(summary, work, metric):
            noisy += 1
            continue
        compared += 1
        words, distance, worse, _ = compare(entries[OURS], entries[best], metric)
        if worse:
            found.append((metric.endswith("_pct"), -distance,
                          [work.removeprefix(SUITE), metric, with_spread(entries[OURS]), best, with_spread(entries[best]),
                           words]))
    found.sort()
    rows = [["work", "metric", "temporal-slab", "best peer", "its figure", "behind by"], *(row for *_, row in found)]
    text = f"In {len(found)} of {compared} rows with a peer some other allocator is better than temporal-slab by more than " \
           f"{100 * EQUAL:.0f} %, or {POINTS} points where the figure is per cent"
    scope = ["`any_object_ns` is the time of an object whose scope is made and dropped, with every allocator of scope_bench:",
             "also those that free each object, or could."] if any(metric == "any_object_ns" for _, metric in summary) else []
    left_out = [f"{noisy} rows of p50s are left out. {NOISE}"] if noisy else []
    return [f"{text}.", *scope, *left_out, *(["", *markdown(rows)] if found else [])]


def latency(suite, summary):
    names = present(summary)
    sizes = sorted({int(row["size_class"]) for row in suite.rows(ACCURATE)})
    rows = [["size", "operation", "percentile", *(label(name) for name in names), "where we are"]]
    for size in sizes:
        for op, text in (("alloc", "allocation"), ("free", "free"), ("seq_alloc", "allocation in sequence"),
                         ("written", "the same with the first write"), ("seq_free", "free in sequence")):
            for percentile, shown in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"), ("p9999", "p99.99")):
                key = f"{SUITE}latency_{size}", f"{op}_{percentile}_ns"
                entries = summary.get(key, {})
                rows.append([str(size), text, shown, *(with_spread(entries.get(name)) for name in names), where(summary, *key)])
    floors = [suite.number(ACCURATE, row, "p9999_ns") for row in suite.rows(ACCURATE) if row["op"] == "floor"]
    floor = f" The machine itself, with nothing called: p99.99 {number(min(floors))} to {number(max(floors))} ns." if floors \
        else ""
    return [f"Nanoseconds; the clock's own median is subtracted.{floor}", NOISE, "", *markdown(rows), "",
            *without_the_clock(summary, names), *commands([ACCURATE])]


def without_the_clock(summary, names):
    """What a call takes in a loop that reads no clock."""
    rows = [["size", "operation", *(label(name) for name in names), "where we are"]]
    for size in ("64", "128", "512"):
        for op, text in (("alloc", "allocation, first write"), ("free", "free")):
            entries = summary.get((f"{SUITE}latency_{size}", f"{op}_call_ns"), {})
            if entries:
                rows.append([size, text, *(with_spread(entries.get(name)) for name in names), standing(entries)])
    if len(rows) == 1:
        return []
    return ["The same churn without a clock in the loop: nanoseconds an operation, 1e9 / `ops_per_sec`, the loop included and "
            "nothing subtracted.", "", *markdown(rows), ""]


def threads(suite, summary):
    names = present(summary)
    rows = [["threads", "who frees", "metric", *(label(name) for name in names), "an epoch each", "where we are"]]
    for count in ("1", "2", "4", "8", "16"):
        for frees, who in (("private", "the same thread"), ("cross", "another"), ("batch", "the same, 100,000 at once")):
            work = f"{SUITE}threads_{count}_{frees}"
            for metric, text in (("op_ns", "ns an operation, all threads"), ("p99_ns", "p99, ns")):
                entries = summary.get((work, metric), {})
                if not entries:
                    continue
                own = summary.get((f"{work}_separate", metric), {}).get(OURS)
                rows.append([count, who, text,
                             *(with_spread(entries.get(name)) for name in names), with_spread(own), standing(entries)])
    contended = [["threads", "epochs", "who frees", "locks taken", "waited for", "waits, any lock", "foreign frees", "retries"]]
    sums = {}
    for row in suite.rows(THREADS):
        if row["allocator"] == OURS:
            counts = sums.setdefault((row["threads"], row["epochs"], row["frees"]), dict.fromkeys(figures.COUNTERS))
            for column in figures.COUNTERS:
                counts[column] = (counts[column] or 0) + int(row[column]) if row[column] else counts[column]
    contended += [[*key, *("-" if count is None else f"{count:,}" for count in counts.values())] for key, counts in sums.items()]
    return [*markdown(rows), "", "Locks and retries of temporal-slab, in all trials together. Taken and waited for: the locks of "
            "the allocator itself, that of its rolling epochs and that of its warm memory units; waits, any lock: those of epochs, "
            "heaps and the region too. Fast paths take no lock; `batch` goes beyond them with each slab. In batches of four threads "
            "and more, temporal-slab has more than its retain budget (32 MiB) to give back each time, and does; the others keep it.", "",
            *markdown(contended), "", *commands([THREADS])]


def memory(suite, summary):
    names = present(summary)
    rows = [["", *(label(name) for name in names), "where we are"]]
    for work, metric, text in (
        ("space_128", "overhead_pct", "128 B objects: resident over the payload (%)"),
        ("space_mix", "overhead_pct", "realistic mix: resident over the payload (%)"),
        ("size_mix", "waste_pct", "realistic mix: lost by rounding (%)"),
        ("phase_shifts", "kept_pct", "kept of a 256 MiB spike (%)"),
        ("phase_shifts", "kept_asked_pct", "the same after the last, asked for it: kept (%)"),
        ("phase_shifts", "rss_growth_pct", "growth of resident memory after the spikes, second to last shift (%)"),
        ("survivors_together", "kept_idle_pct", "one in twenty survives, ten idle seconds: kept (%)"),
        ("survivors_together", "kept_asked_pct", "the same, asked for it: kept (%)"),
        ("survivors_together", "kept_empty_pct", "the survivors freed as well: kept (%)"),
        ("survivors_together", "kept_empty_asked_pct", "the same, asked for it: kept (%)"),
        ("survivors_by_lifetime", "kept_idle_pct", "survivors in an epoch of their own: kept (%)"),
        ("survivors_by_lifetime", "kept_empty_pct", "these freed as well: kept (%)"),
        ("survivors_by_lifetime", "kept_empty_asked_pct", "the same, asked for it: kept (%)"),
    ):
        entries = summary.get((SUITE + work, metric), {})
        if entries:
            rows.append([text, *(with_spread(entries.get(name)) for name in names), standing(entries, metric)])
    scope = summary.get((f"{SUITE}space_128", "scope_overhead_pct"), {}).get(OURS)
    more = [f"In a scope epoch 128 B objects cost {with_spread(scope)} % over the payload."] if scope else []
    return [*markdown(rows), "", *more, EMPTY, "", *commands([ACCURATE, CHURN, FRAGMENTS])]


ENOUGH = 100  # so many scopes timed have a 99th percentile


def scope_cell(suite, row, column):
    """A figure of a row; none if the row is not there or a percentile is of too few."""
    few = column.startswith("p99") and row and int(row.get("timed_scopes") or 0) < ENOUGH
    return "-" if row is None or few else number(suite.number("scope_bench", row, column))


def scopes(suite):
    name = "scope_bench"
    rows = suite.rows(name)
    names = list(dict.fromkeys(row["allocator"] for row in rows))
    shapes = list(dict.fromkeys((row["objects_per_scope"], row["scopes_open"]) for row in rows))
    entries = {}
    for row in rows:
        median, low, high = (suite.number(name, row, column) for column in ("ns_per_object", "ns_min", "ns_max"))
        key = row["allocator"], row["objects_per_scope"], row["scopes_open"]
        entries[key] = {"median": median, "min": low, "max": high}
    lines = [["objects", "open", *names]]
    for shape in shapes:
        lines.append([f"{int(count):,}" for count in shape] + [with_spread(entries.get((each, *shape))) for each in names])
    more = []
    for column, text in (("held_per_payload", "Resident bytes over the payload, while all scopes are open and full."),
                         ("p99_ns_per_scope", "The 99th percentile of a whole scope, in nanoseconds. There is none (`-`) "
                          f"where fewer than {ENOUGH} scopes were timed in a round.")):
        values = {(row["allocator"], row["objects_per_scope"], row["scopes_open"]): row for row in rows if row.get(column)}
        if values:
            more += [text, "", *markdown([["objects", "open", *names]] + [
                [*(f"{int(count):,}" for count in shape),
                 *(scope_cell(suite, values.get((each, *shape)), column) for each in names)] for shape in shapes]), ""]
    return ["Nanoseconds an object, its scope made, its objects allocated and written, the scope dropped. No region is told how "
            "large it will be, but `talloc_pool`. `NAME_free` is malloc and free of each object; the other names are in "
            "benchmarks/README.md.", "", *markdown(lines), "", *more, *commands([name])]


def soak(suite):
    speeds = {}
    for row in suite.rows("soak"):
        speeds.setdefault(row["allocator"], []).append(suite.number("soak", row, "throughput_ops_sec"))
    rows = [["", "windows", "M calls/s p50", "p10", "p1", "cv", "ns/call p50", "p99", "p99.9", "p99/p50", "of p50 the loop alone"]]
    for name in suite.allocators("soak"):
        f = analyze.analyze(speeds[name])
        floor = next((row["floor_ns"] for row in suite.rows("soak") if row["allocator"] == name and row.get("floor_ns")), None)
        rows.append([label(name), str(f["windows"]), *(number(f[f"throughput_{p}"] / 1e6) for p in ("p50", "p10", "p1")),
                     f"{100 * f['throughput_cv']:.2f} %", *(number(f[f"latency_ns_{p}"]) for p in ("p50", "p99", "p999")),
                     f"{f['latency_p99_over_p50']:.3f}", number(float(floor)) if floor else "-"])
    return [*markdown(rows), "", *commands(["soak"]),
            "    benchmarks/report/analyze_epoch_tail_csv.py benchmarks/results/soak.csv"]


def tails(suite):
    name = "tail_attribution"
    rows = suite.rows(name)
    verdicts = {}
    for row in rows:
        verdicts.setdefault(row["verdict"], []).append(row)
    text = {"scheduler": "the thread was switched out", "page_fault": "the system found memory for a new page",
            "allocator": "one of the allocator's longer paths, or its call into the system",
            "machine": "none of these: an interrupt, the host, caches"}
    lines = [["whose time", "operations", "share of their time", "slowest (ns)", "empty ones as slow as the fastest of these",
              "paths"]]
    total = sum(suite.number(name, row, "wall_ns") for row in rows)
    for verdict in sorted(verdicts, key=lambda v: -len(verdicts[v])):
        walls = [suite.number(name, row, "wall_ns") for row in verdicts[verdict]]
        empty = max(int(suite.number(name, row, "empty_as_slow")) for row in verdicts[verdict])
        paths = collections.Counter(row["path"] for row in verdicts[verdict]).most_common(3)
        lines.append([f"{verdict}: {text.get(verdict, '')}", str(len(walls)), f"{100 * sum(walls) / total:.0f} %",
                      number(max(walls)), str(empty), ", ".join(f"{path} ({n})" for path, n in paths)])
    count = int(suite.number(name, rows[0], "operations"))
    return [f"The {len(rows)} slowest of {count:,} operations of temporal-slab, and of as many empty ones measured in the same way "
            "between them:", "", *markdown(lines), "",
            *commands([name])]


def instructions(suite):
    rows = [["work", "call", "instructions", "without the counters", "difference"]]
    rows += [[row["work"], row["call"], row["counted"], row["uncounted"], row["difference"]]
             for row in suite.rows("observability")]
    return ["Counted with callgrind, with and without the counters that only the statistics read (TSLAB_UNCOUNTED).", "",
            *markdown(rows), "", *commands(["observability"])]


def zones(suite):
    """The aims of libtslab-zones. No allocator has anything like it: there is nobody to compare with."""
    rows = [["what", "figure", "aim at most", "measured", "load"]]
    for row in suite.rows("zones"):
        value = suite.number("zones", row, "value")
        missed = row["limit"] != "" and value > float(row["limit"])
        text = f"{value:.2f}" if "%" in row["figure"] or "times" in row["figure"] else f"{value:.3f}".rstrip("0").rstrip(".")
        rows.append([row["work"], row["figure"], f"{float(row['limit']):g}" if row["limit"] else "", f"**{text}**" if missed else text, row["load"]])
    return ["The emulated device on a file, zones of 4 MiB with a capacity of 3 MiB. Every byte that came back was compared. What misses its aim is bold. Load: of the machine, at that "
            "moment; with 2 processors times say little above 2. `docs/zones.md` says what the figures mean.", "", *markdown(rows), "",
            *commands(["zones"])]


def placement(suite):
    """Shares of pages on the right node, in the machines of make vm-test: of each case the least of all nodes and variants."""
    machines = list(dict.fromkeys(row["machine"] for row in suite.rows("placement")))
    least = {}
    for row in suite.rows("placement"):
        key = row["case"], row["machine"]
        least[key] = min(least.get(key, 100), suite.number("placement", row, "percent"))
    rows = [["pages on the right node, % at least", *machines]]
    for case in dict.fromkeys(case for case, _ in least):
        rows.append([case, *(f"{least[case, machine]:.2f}" if (case, machine) in least else "" for machine in machines)])
    return markdown(rows)


def nodes(suite):
    """The aims of TSLAB_NUMA: placement by a real kernel, and what it is worth, simulated."""
    lines = []
    if suite.rows("placement"):
        lines = ["Where a kernel really puts the pages of 12 MiB in 6,000 objects, asked by `move_pages`, in each machine of `make vm-test`. The aim is 99 %; "
                 "`interleave` has the pages on all nodes, and `off` is what happens without the option.", "", *placement(suite), "", "Reproduce:", "",
                 "    make vm-test ARGS=\"--tests 'unit\\.os\\.placement' --variants plain,huge_always --topologies two,four,no_processors,no_memory,uneven --csv FILE\"", ""]
    columns = ["90_140", "100_250"]
    rows = [["work", "option", "misses, % of accesses", "of the own node, %", "of the busiest node, %",
             *(f"ns a miss ({' and '.join(c.split('_'))} ns)" for c in columns), *("beside off" for _ in columns)]]
    for row in suite.rows("numa_bench"):
        rows.append([row["work"], row["option"], f"{suite.number('numa_bench', row, 'missed_percent'):.1f}", f"{suite.number('numa_bench', row, 'local_percent'):.2f}",
                     f"{suite.number('numa_bench', row, 'busiest_percent'):.1f}", *(f"{suite.number('numa_bench', row, 'ns_' + c):.1f}" for c in columns),
                     *(f"{suite.number('numa_bench', row, 'beside_off_' + c):.2f}" for c in columns)])
    return [*lines, "What that is worth: four threads on two nodes run on the allocator as it is, and each access goes through a simulated cache of 1 MiB a "
            "thread; what misses costs what memory of that node is assumed to cost, the thread's own and another. `docs/numa.md` says what is simulated.", "",
            *markdown(rows), "", *commands(["numa_bench"])]


def programs(suite):
    """Real programs and loops under a preload of each allocator."""
    name, header = "programs", suite.header("programs")
    names = [n for n in dict.fromkeys(row["allocator"] for row in suite.rows(name)) if n != "glibc"]
    names = [OURS, "glibc", *(n for n in names if n != OURS)]
    found = {}
    for row in suite.rows(name):
        found.setdefault(row["part"], {}).setdefault(row["row"], {})[row["allocator"]] = row

    def figures_of(rows, column, factor):
        return {a: suite.number(name, row, column) * factor for a, row in rows.items() if row[column] != ""}

    lines = [f"{header['machine']}; {header['date']}; commit {header['commit']}. Each program runs with `LD_PRELOAD` of one allocator after the "
             "other, in an order that turns; a cell is the median of the rounds. `python malloc` is Python with `PYTHONMALLOC=malloc`; `loop` rows "
             "are small programs of this project that do nothing else. Peak memory is at least 15 MB, that of who starts them.", ""]
    for part, column, factor, what in (("time", "cpu_s", 1, "Seconds of processor time, of user and system together."),
                                       ("time", "kib", 1 / 1024, "Peak resident memory, MiB."),
                                       ("idle", "kib", 1 / 1024, "Resident memory 20 s after the work, when the program has freed all but what it "
                                                                 "keeps, MiB.")):
        table, over = [["program", *(label(n) for n in names), "ratio to the best other"]], []
        for work, rows in found.get(part, {}).items():
            values = figures_of(rows, column, factor)
            others = [v for a, v in values.items() if a != OURS]
            ratio = values[OURS] / min(others) if OURS in values and others and min(others) > 0 else None
            over += [ratio] if ratio else []
            cells = [("fails" if n in rows else "-") if n not in values else f"{values[n]:.3f}" if factor == 1 else f"{values[n]:.1f}"
                     for n in names]
            table.append([work, *cells, times(ratio) if ratio else "-"])
        if over:
            mean = math.exp(sum(map(math.log, over)) / len(over))
            table.append(["geometric mean", *("" for _ in names), times(mean)])
            lines += [what, "", *markdown(table), ""]
    latency = [row for row in suite.rows(name) if row["part"] == "latency" and row.get("median_p999_p9999_ns")]
    if latency:
        table = [["program", "allocator", "median", "p99.9", "p99.99"]]
        table += [[row["row"], label(row["allocator"]), *row["median_p999_p9999_ns"].split(" ")] for row in latency]
        lines += ["malloc, calloc and realloc one by one, ns; calls that were interrupted left out.", "", *markdown(table), ""]
    return [*lines, "Reproduce:", "", f"    {header['command']}"]


def about_the_core(suite):
    """core_bench measures its rounds in one go, perhaps another day than the rest, on another machine or of another commit."""
    header = suite.header("core_bench_raw")
    if not header:
        return []
    differing = {"machine": {}, "commit": {}}
    for row in suite.rows("run"):
        for column, steps in differing.items():
            value = row.get(column) or suite.header().get(column, "")
            if row["step"] != "core_bench" and value != header[column]:
                steps.setdefault(value, {})[row["step"]] = None
    if not any(differing.values()):
        return []
    others = [f"{value} ({', '.join(of)})" for steps in differing.values() for value, of in steps.items()]
    return [f"Its figures are of {header['machine']}, {header['date']}, commit {header['commit']}; of others are: "
            f"{'; '.join(others)}.", ""]


def core(suite, summary):
    names = ["tslab", "glibc", "jemalloc", "tcmalloc", "mimalloc"]
    wanted = report.read_targets(BENCHMARKS / "targets.csv")
    rows = [["work", "metric", *(label(name) for name in names), "where we are"]]
    for work, metric in wanted:
        entries = summary.get((work, metric), {})
        if entries and not work.startswith(SUITE):
            rows.append([work, metric, *(with_spread(entries.get(name)) for name in names), standing(entries)])
    for (work, metric), entries in summary.items():
        if work.startswith("destroy_") and (work, metric) not in wanted and OURS in entries:
            rows.append([work, metric, *(with_spread(entries.get(name)) for name in names), standing(entries)])
    return [*about_the_core(suite), *markdown(rows), "", *commands(["core_bench"])]


def image(name, text):
    return ["", f"![{text}](images/{name}.png)", ""]


def document(suite, summary):
    lines = ["# Results", "", "Generated by `benchmarks/report/make_results.py` from `benchmarks/results/*.csv`: do not edit.",
             "A cell is the median of the rounds, with the least and the largest where there are several. A ratio (x) is",
             "the median of the quotients round by round, so that it may differ from the quotient of two cells, even in which",
             "side is ahead; where the two sides were measured in other rounds it is that quotient. The best peer is the one with",
             "the least median. `producer_consumer` depends on how long a cache line takes from one processor to the other, which",
             "the host may change between two measurements: there each round is compared with those of the peer in which a line",
             "took as long, and the best peer is the one with the largest ratio.",
             "", aims(judged_targets(suite, summary)), ""]
    lines += [*about_the_run(suite), *image("summary", "Four figures, all allocators"),
              "## The reference figures, measured again", "",
              "Reference figures are those of the design that the allocator follows, with its own allocator and with malloc, "
              "taken on another machine: they are here for orientation, the comparison is with the other allocators in the "
              "same run.", "", *claims(suite, summary), "",
              "## The figures to reach", "", *targets(suite, summary), "", "## Where we are behind", "", *behind(summary), ""]
    for heading, needs, part, charts in (
        ("Latency", ACCURATE, lambda: latency(suite, summary), ["latency_percentiles", "latency_cdf"]),
        ("Memory", "phase_shifts", lambda: memory(suite, summary), ["rss_over_time", "fragmentation", "slab_lifecycle"]),
        ("Threads", THREADS, lambda: threads(suite, summary), ["scaling", "p99_vs_threads"]),
        ("Scopes", "scope_bench", lambda: scopes(suite), ["scope_cost"]),
        ("Soak", "soak", lambda: soak(suite), ["soak_distribution"]),
        ("Whose tail it is", "tail_attribution", lambda: tails(suite), []),
        ("What the statistics cost", "observability", lambda: instructions(suite), []),
        ("Zones", "zones", lambda: zones(suite), []),
        ("NUMA nodes", "numa_bench", lambda: nodes(suite), []),
        ("Real programs", "programs", lambda: programs(suite), []),
    ):
        if suite.rows(needs):
            lines += [f"## {heading}", ""]
            for chart in charts:
                lines += image(chart, chart.replace("_", " "))[1:]
            lines += [*part(), ""]
    if any(not work.startswith(SUITE) for work, _ in summary):
        by_size = image("time_by_size", "time by size")[1:] if any(work == "by_size" for work, _ in summary) else []
        lines += ["## The core's table", "", *by_size, *core(suite, summary), ""]
    while lines[-1] == "":
        lines.pop()
    return "\n".join(lines) + "\n"


# ---- the README ---------------------------------------------------------------------------------


def readme_lines(suite, summary):
    """The chart, and a line for each of the main figures."""
    judged = judged_targets(suite, summary)
    lines = ["![Four figures, all allocators](docs/images/summary.png)", ""]
    sentences = [
        sentence(summary, LATENCY, "alloc_p999_ns", "Allocation p99.9, 100,000 live objects of 128 B: {ours} ns; {peers}."),
        with_drift(summary, " ".join(filter(None, (
            sentence(summary, f"{SUITE}phase_shifts", "kept_pct", "Returned of a 256 MiB spike as soon as it is over: {ours} %; {peers}.",
                     percent_of_rest),
            sentence(summary, f"{SUITE}phase_shifts", "kept_asked_pct", "Once asked for it: {ours} %; {peers}.", percent_of_rest))))),
        " ".join(filter(None, (
            sentence(summary, f"{SUITE}space_128", "overhead_pct", "Resident over the payload, 128 B: {ours} %; {peers}."),
            sentence(summary, f"{SUITE}space_mix", "overhead_pct", "Over a mix of sizes: {ours} %; {peers}.")))),
        sentence(summary, f"{SUITE}soak", "op_ns", "Mixed load, a call: {ours} ns; {peers}."),
        scope_sentence(summary, judged),
    ]
    lines += [*(f"- {text}" for text in sentences if text), "", f"{aims(judged)} {behind(summary)[0]}"]
    header = suite.header()
    if header:
        less = f" Mode {header['mode']}: less work than a full run." if header["mode"] != "full" else ""
        lines += ["", f"{suite.machines()}.{less} All figures, also those where others are ahead, with the commands: "
                  "[docs/results.md](docs/results.md)."]
    return lines


def sentence(summary, work, metric, text, turn=None):
    entries = summary.get((work, metric), {})
    if OURS not in entries:
        return None
    value = {name: number(turn(e["median"]) if turn else e["median"]) for name, e in entries.items()}
    peers = ", ".join(f"{name} {value[name]}" for name in ALLOCATORS[1:] if name in value)
    return text.format(ours=value[OURS], peers=peers or "no other measured")


def scope_sentence(summary, judged):
    """The shapes of scopes in which ours is best and worst beside the regions that cannot free a single object."""
    rows = sorted((row for row in judged if row.work.startswith(f"{SUITE}scope_") and row.metric == "object_ns"
                   and row.figure is not None), key=lambda row: row.figure)
    if not rows:
        return None
    best, worst = (scope_end(summary, row) for row in (rows[0], rows[-1]))
    return f"Scopes, an object, beside the best region that cannot free a single one: at best {best}, at worst {worst}."


def scope_end(summary, row):
    objects, _, is_open = row.work.removeprefix(f"{SUITE}scope_").partition("x")
    entries = summary[row.work, row.metric]
    ours, theirs = (number(entries[name]["median"]) for name in (OURS, row.best))
    return f"{times(row.figure)} x ({int(objects):,} objects, {int(is_open):,} open: {ours} ns, {row.best} {theirs})"


def with_drift(summary, text):
    drift = summary.get((f"{SUITE}phase_shifts", "committed_bytes_drift"), {}).get(OURS)
    if not text or not drift:
        return text
    return f"{text} Committed bytes after each phase differ from those after the first by {number(drift['median'])} at most."


def between_marks(path, lines):
    """The text of the file with these lines between its marks."""
    text = report.read_utf8(path)
    begin, end = (text.find(mark) for mark in MARKS)
    if begin < 0 or end < begin:
        raise report.InputError(f"{path}:1: the marks '{MARKS[0]}' and '{MARKS[1]}' are not there")
    return text[:begin] + "\n".join([MARKS[0], *lines, MARKS[1]]) + text[end + len(MARKS[1]):]


# ---- main ---------------------------------------------------------------------------------------


def summarize(folder):
    suite = Suite(folder)
    rows = figures.measurements(suite)
    core_raw = suite.path("core_bench_raw")
    if core_raw.is_file():
        rows = report.read_raw(core_raw) + rows
    if not rows:
        raise report.InputError(f"{folder}:1: no results: run benchmarks/run_all.sh")
    return suite, report.summarize(rows)


def fail(message):
    print(f"make_results: {message}", file=sys.stderr)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line."""

    def error(self, message):
        fail(f"{message} (see --help)")


def main(arguments):
    parser = Parser(prog="make_results.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", metavar="DIR", default=str(BENCHMARKS / "results"), help="default benchmarks/results")
    parser.add_argument("--out", metavar="FILE", default=str(ROOT / "docs" / "results.md"), help="default docs/results.md")
    parser.add_argument("--readme", metavar="FILE", help="default README.md, unless --out is given")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file would change")
    options = parser.parse_args(arguments)
    out = pathlib.Path(options.out)
    by_default = options.out == parser.get_default("out")
    readme = options.readme or (ROOT / "README.md" if by_default else None)
    try:
        suite, summary = summarize(options.results)
        wanted = {out: document(suite, summary)}
        if readme:
            wanted[pathlib.Path(readme)] = between_marks(pathlib.Path(readme), readme_lines(suite, summary))
        stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
        if options.check:
            for path in stale:
                print(f"make_results: {path} is not what the figures give: run benchmarks/report/make_results.py", file=sys.stderr)
            return 1 if stale else 0
        for path in stale:
            path.write_text(wanted[path], encoding="utf-8")
            print(path)
    except report.InputError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
