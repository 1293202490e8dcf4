#!/usr/bin/env python3
"""The tables of docs/study.md, from soak.csv, soak_counts.csv and benchmark_accurate.csv; and that of docs/guarantees.md.

BLOCKS is {name: function(suite, summary)}, each of which gives the lines of a block. make_results.py writes them into the pages, called by
this name too.
"""

import math
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending  # noqa: E402
from harness.run import deviation, median, variation  # noqa: E402
from report import suite_figures as figures  # noqa: E402
from report.analyze_epoch_tail_csv import percentile, short  # noqa: E402
from report.words import markdown, number  # noqa: E402

NAMES = {"tslab": "temporal-slab", "malloc": "glibc"}
OURS, BESIDE = "tslab", "mimalloc"


def speeds_of(suite):
    """{allocator: throughputs in the order of the windows}"""
    return {name: suite.series("soak", name, "throughput_ops_sec") for name in suite.allocators("soak")}


def times_of(suite):
    return {name: [1e9 / speed for speed in speeds] for name, speeds in speeds_of(suite).items()}


def named(name):
    return NAMES.get(name, name)


def spread(series, scale, from_slow_side):
    """A row for each allocator. from_slow_side: the N-th percentile is what N % of the windows exceed."""
    rows = [["", "p50", "p90", "p99", "p99.9", "mean", "deviation", "cv", "least", "most"]]
    for name, values in series.items():
        values = [value / scale for value in values]
        points = [percentile(values, 100 - p if from_slow_side else p) if len(values) * (100 - p) / 100 >= 1 else None for p in (50, 90, 99, 99.9)]
        rows.append([named(name), *("-" if point is None else short(point) for point in points), short(statistics.fmean(values)),
                     short(deviation(values)), f"{100 * variation(values):.2f} %", short(min(values)), short(max(values))])
    return rows


def beyond(suite):
    """What a dash in the tables means."""
    windows = min(map(len, speeds_of(suite).values()), default=0)
    left_out = [f"p{p:g}" for p in (90, 99, 99.9) if windows * (100 - p) / 100 < 1]
    return ["", f"{windows} windows each. Beyond {' and '.join(left_out)} there is less than one: that is the slowest window."] if left_out \
        else ["", f"{windows} windows each."]


def throughput_block(suite, _summary):
    return markdown(spread(speeds_of(suite), 1e6, True)) + beyond(suite)


def time_block(suite, _summary):
    return markdown(spread(times_of(suite), 1, False))


def order_block(suite, _summary):
    """In words: who is fastest, who is most even, and where ours is beside mimalloc."""
    speeds = speeds_of(suite)
    middle = {name: statistics.median(values) for name, values in speeds.items()}
    uneven = {name: variation(values) for name, values in speeds.items()}
    fastest = map(named, sorted(middle, key=middle.get, reverse=True))
    evenest = map(named, sorted(uneven, key=uneven.get))
    least = min(map(len, speeds.values()))
    error = 1 / math.sqrt(2 * (least - 1)) if least > 1 else math.inf  # of a deviation from so many values, if they are normal
    near = [named(name) for name in uneven if name != OURS and abs(math.log(uneven[name] / uneven[OURS])) < 2 * math.sqrt(2) * error] \
        if all(uneven.values()) else []
    return [f"- From fast to slow, by the median: {', '.join(fastest)}.", f"- From even to uneven, by cv: {', '.join(evenest)}.",
            f"- temporal-slab beside mimalloc: median {middle[OURS] / middle[BESIDE]:.2f}, cv {uneven[OURS] / uneven[BESIDE]:.2f}.",
            f"- A cv of {least} windows has an error of {100 * error:.0f} %. Within twice that of a quotient, temporal-slab is as even as: "
            f"{', '.join(near) or 'none'}."]


def correlation(a, b):
    mean_a, mean_b = statistics.fmean(a), statistics.fmean(b)
    both = math.fsum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    return both / math.sqrt(math.fsum((x - mean_a) ** 2 for x in a) * math.fsum((y - mean_b) ** 2 for y in b))


def shares(speeds):
    """What is left of ours when the others' part is taken out, over the whole: deviations, then variances. Only variances add up."""
    mine = speeds[OURS]
    others = [statistics.fmean([values[at] / statistics.fmean(values) for name, values in speeds.items() if name != OURS])
              for at in range(min(map(len, speeds.values())))]
    mine = [value / statistics.fmean(mine) for value in mine][:len(others)]
    if len(set(mine)) < 2 or len(set(others)) < 2:
        return "-", "-"
    left = 1 - correlation(mine, others) ** 2
    return f"{100 * math.sqrt(left):.0f} %", f"{100 * left:.0f} %"


def shared_block(suite, _summary):
    """How much of each allocator's unevenness the others have in the same windows."""
    relative = {name: [value / statistics.fmean(values) for value in values] for name, values in speeds_of(suite).items()}
    rows = [["", "cv", "correlation with the others' mean in the same window", "cv of the quotient of both"]]
    for name, mine in relative.items():
        others = [statistics.fmean(relative[other][at] for other in relative if other != name) for at in range(len(mine))]
        rows.append([named(name), f"{100 * deviation(mine):.2f} %", f"{correlation(mine, others):.2f}",
                     f"{100 * variation([x / y for x, y in zip(mine, others)]):.2f} %"])
    return markdown(rows)


COUNTS = {"instructions": "instructions", "accesses": "memory accesses", "l1_misses": "misses", "mispredicts": "mispredicted branches"}


def calls_block(suite, _summary):
    """What a call does, by count, beside how uneven the windows are."""
    times = times_of(suite)
    rows = [["a call", "instructions", "memory accesses", "misses of a first level of 32 KiB", "mispredicted branches", "deviation of the windows, ns"]]
    for row in suite.rows("soak_counts"):
        values = times.get(row["allocator"])
        rows.append([named(row["allocator"]), *(short(row.number(column)) for column in COUNTS),
                     short(deviation(values)) if values else "-"])
    return markdown(rows) + explained(suite, times)


def explained(suite, times):
    """Whether the allocators with more of something have the more uneven windows: rank correlations with the cv."""
    counted = [row for row in suite.rows("soak_counts") if row["allocator"] in times]
    if len(counted) < 3:
        return []
    uneven = [variation(times[row["allocator"]]) for row in counted]
    lines = [""]
    for column, words in COUNTS.items():
        values = [row.number(column) for row in counted]
        if len(set(values)) == 1 or len(set(uneven)) == 1:
            lines.append(f"- More {words}, more uneven: all have as many.")
            continue
        rho = correlation(ranks(values), ranks(uneven))
        lines.append(f"- More {words}, more uneven: rank correlation {rho:.1f} over {len(counted)} allocators"
                     f"{', so they do not explain it' if rho < 0.5 else ', of too few to prove it' if rho < 0.9 else ''}.")
    return lines


def ranks(values):
    ordered = sorted(values)
    return [float(ordered.index(value)) for value in values]


def traps_block(suite, _summary):
    """Each trap with the two figures that are taken for one another."""
    speeds, times = speeds_of(suite), times_of(suite)
    mine, beside = speeds[OURS], times[BESIDE]
    quotients = [a / b for a, b in zip(times[OURS], beside)]
    p99 = {name: percentile(times[name], 99) for name in (OURS, BESIDE)}
    slow, fast = (percentile(mine, p) / 1e6 for p in (1, 99))

    single = [row for row in suite.rows("benchmark_accurate") if (row["allocator"], row["op"], row["size_class"]) == (OURS, "alloc", figures.SIZE)]
    tail, middle = (median([row.number(column) for row in single]) if single else 0
                    for column in ("p999_ns", "p50_ns"))
    return markdown([
        ["taken for one another", "one", "the other"],
        ["ours, the slowest over the middle: of windows; of single allocations (p99.9)",
         f"{max(times[OURS]) / statistics.median(times[OURS]):.3f}", f"{tail / middle:.1f}" if middle else "-"],
        ["ours, part of the unevenness that is not the others': by deviation; by variance", *shares(speeds)],
        ["ours, M calls/s: what 99 % of the windows reach; what 1 % of them reach (the 99th percentile)", short(slow),
         short(fast)],
        ["ours: cv of throughput; cv of time", f"{100 * variation(mine):.2f} %", f"{100 * variation(times[OURS]):.2f} %"],
        ["our time over mimalloc's: p99 of the windows' quotients; quotient of the p99s",
         f"{percentile(quotients, 99):.3f}", f"{p99[OURS] / p99[BESIDE]:.3f}"],
        ["the same, in the middle: median of the quotients; quotient of the medians", f"{statistics.median(quotients):.3f}",
         f"{statistics.median(times[OURS]) / statistics.median(beside):.3f}"],
    ])


def variance_block(suite, _summary):
    """p99.999 over p50 of single allocations and frees, and of the loop without them; medians of the rounds."""
    rows = [["128 bytes, 100,000 live", "p50 ns", "p99.999 ns", "p99.999 / p50"]]
    for op in ("alloc", "free", "floor"):
        for name in suite.allocators("benchmark_accurate"):
            same = [row for row in suite.rows("benchmark_accurate")
                    if (row["allocator"], row["op"], row["size_class"]) == (name, op, figures.SIZE)]
            middle, tail = (median([row.number(column) for row in same])
                            for column in ("p50_ns", "p99999_ns"))
            rows.append([f"{named(name)}, {op}", short(middle), f"{tail:,.0f}",
                         f"{tail / middle:,.0f}" if middle else "-"])
    return markdown(rows)


# guarantee, meaning of the figure, work, metric, unit
GUARANTEED = [
    ("1", "p99.99 of an allocation over its p50, 100,000 live objects", "suite/latency_128", "alloc_p9999_over_p50", " x"),
    ("2", "growth of resident memory over 20 epochs", "suite/epoch_cycles", "rss_growth_pct", " %"),
    ("2", "growth of resident memory over the cycles of churn", "suite/churn_test", "rss_growth_pct", " %"),
    ("2", "growth of a mixed load without ends of lifetimes", "suite/mixed_load", "rss_growth_pct", " %"),
    ("3", "instructions a call with counters over those without", "suite/observability", "instructions_per_call", " x"),
    ("4", "the end of 200,000 objects over that of 1,000", "destroy_growth", "ratio", " x"),
    ("6", "waits for any lock, 16 threads that free their own", "suite/threads", "lock_waits", ""),
]


def guarantees_block(_suite, summary):
    rows = [["guarantee", "figure of temporal-slab", "measured"]]
    for guarantee, words, work, metric, unit in GUARANTEED:
        entry = summary.get((work, metric), {}).get(OURS)
        rows.append([guarantee, words, "not measured" if entry is None else number(entry["median"]) + unit])
    return markdown(rows)


BLOCKS = {"guarantees": guarantees_block, "soak_order": order_block, "soak_throughput": throughput_block, "soak_time": time_block,
          "soak_shared": shared_block, "soak_calls": calls_block, "soak_traps": traps_block, "variance": variance_block}


if __name__ == "__main__":
    from report import make_results
    ending.run("study", make_results.main)
