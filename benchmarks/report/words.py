"""Figures as text: numbers, tables of Markdown, and who is ahead in words."""

import math

from harness.peers import label
from report import bench_report as report
from report.bench_report import OURS
from report.suite_figures import ALLOCATORS

# A note for readers on an allocator that was measured, by its name in CSV files and options.
NOTES = {
    "tcmalloc": "`gperftools` (`tcmalloc` in CSV files and options) is Debian's `libtcmalloc-minimal4`: no registry carries newer sources.",
    "google": "`Google's tcmalloc` (`google`) is that of the crate libtcmalloc-sys. It has `GLIBC_TUNABLES=glibc.pthread.rseq=0`, without which it "
              "has no caches per processor.",
}
# Figures nearer than this are called equal: a share, and points of per cent.
EQUAL = 0.03
POINTS = 0.5


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


def others(names):
    """Which versions were measured, and what has to be known of some."""
    return " ".join(["An allocator is the newest that crates.io has, or Debian's where that was not built; the run's line names the versions.",
                     *(NOTES[name] for name in names if name in NOTES)])


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
        return f"**behind {label(best)}{words}**"
    return f"ahead of {label(best)}{words}" if better else f"equal to {label(best)}"


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


def present(summary):
    found = {name for entries in summary.values() for name in entries}
    return [name for name in ALLOCATORS if name in found]
