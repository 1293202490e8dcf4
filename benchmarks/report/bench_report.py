"""Measurements and targets, medians, ratios and verdicts.

A measurement is one line `round,allocator,version,work,metric,value,unit` of a raw file. The figure of an
allocator is the median over the rounds. The best peer is the one with the least figure; a ratio is the median
of the quotients tslab / best peer round by round, so that what slows down a whole round slows down both sides.
Where a work says how long a cache line takes from one processor to another (round_trip_ns), which a host changes from one
process to the next, each round is compared with the peer's rounds in which that took as long.

A target is `work,metric,kind,limit,text`. Kinds: `ratio` to the best peer, `ratio:NAME` to that one, `absolute`. With a
question mark at its end it applies only where there is such a row at all: glibc's spikes. Works that begin with
`suite/` are those of run_all.sh.
"""

import collections
import re

from harness import run
from harness.run import median, quantile
from report import data
from report.data import InputError

OURS = "tslab"
RAW_COLUMNS = ["round", "allocator", "version", "work", "metric", "value", "unit"]
SUMMARY_COLUMNS = ["work", "metric", "unit", "allocator", "version", "median", "min", "q1", "q3", "max", "runs"]
TARGETS = run.BENCHMARKS / "targets.csv"
SUITE = "suite/"
# Figures in ns that may be 0: the machine's floor, and the rest after it is subtracted.
MAY_BE_ZERO = re.compile(r"floor|step_ns|p50_ns")

# How far apart two round trips of a line may be that count as equal: a host has placements a factor of three and more apart.
LIKE_ROUND_TRIPS = 1.5

# One target, its result, and why it is not measured. The verdict is ok, miss, not measured, or does not apply.
Judged = collections.namedtuple("Judged", "work metric kind limit figure best verdict why")


def read_raw(path):
    """The measurements of a raw file as dictionaries; value is a float and round an int. Each is there once."""
    rows = data.read(path, {"round": "amount", "allocator": "text", "work": "text", "metric": "text"},
                     {"version": "any", "value": "from 0", "unit": "any"})
    for row in rows:
        row.update(round=int(row["round"]), value=float(row["value"]))
        if row["value"] == 0 and row["unit"] in ("ns", "bytes") and not MAY_BE_ZERO.search(row["metric"]):
            raise InputError(f"{row.where}: {row['metric']} of {row['work']} is 0 {row['unit']}")
    return rows


def read_targets(path=TARGETS):
    """{(work, metric): (kind, limit)} in the order of the file."""
    targets = {}
    for row in data.read(path, {"work": "text", "metric": "text"}, {"kind": "text", "limit": "from 0"}):
        if not re.fullmatch(r"(ratio(:[a-z0-9_]+)?|absolute)\??", row["kind"]):
            raise InputError(f"{row.where}: kind '{row['kind']}' is neither ratio nor ratio:NAME nor absolute")
        targets[row["work"], row["metric"]] = row["kind"], float(row["limit"])
    return targets


def texts():
    """{(work, metric): what a reader calls it} of the targets of core_bench."""
    return {(row["work"], row["metric"]): row["text"] for row in data.read(TARGETS, {"work": "text", "metric": "text"}, {"text": "any"}) if row["text"]}


def summarize(measurements):
    """{(work, metric): {allocator: figures}}, in the order of first appearance."""
    summary = {}
    for row in measurements:
        entry = summary.setdefault((row["work"], row["metric"]), {}).setdefault(
            row["allocator"], {"version": row["version"], "unit": row["unit"], "rounds": {}, "spread": []})
        entry["rounds"][row["round"]] = row["value"]
        # a row may be a median itself, and name the values that it is the median of
        entry["spread"] += row.get("spread", [row["value"]])
    for (work, metric), by_allocator in summary.items():
        for allocator, entry in by_allocator.items():
            every, spread = list(entry["rounds"].values()), entry.pop("spread")
            entry.update(median=median(every), min=min(spread), q1=quantile(every, 0.25), q3=quantile(every, 0.75), max=max(spread),
                         runs=len(every))
            trips = summary.get((work, "round_trip_ns"), {}).get(allocator)
            if trips and metric != "round_trip_ns":
                entry["round_trips"] = trips["rounds"]
    return summary


def paired(ours, theirs):
    """Whether the quotients can be formed round by round: the same rounds on both sides."""
    return ours["rounds"].keys() == theirs["rounds"].keys() and min(theirs["rounds"].values()) > 0


def like_rounds(ours, theirs):
    """[(our figure, the median of theirs)] of each of our rounds to which the peer has some with like round trips."""
    pairs = []
    for number, trip in ours.get("round_trips", {}).items():
        like = [theirs["rounds"][other] for other, theirs_trip in theirs.get("round_trips", {}).items()
                if max(trip, theirs_trip) <= LIKE_ROUND_TRIPS * min(trip, theirs_trip)]
        if like:
            pairs.append((ours["rounds"][number], median(like)))
    return pairs


def quotient(ours, theirs):
    """The median of the quotients of like rounds, or round by round; of two that were measured in other rounds, of the
    medians. None if there is none."""
    if not paired(ours, theirs):
        return ours["median"] / theirs["median"] if theirs["median"] > 0 else None
    pairs = like_rounds(ours, theirs) or [(value, theirs["rounds"][r]) for r, value in ours["rounds"].items()]
    return median([mine / other for mine, other in pairs])


def best_peer(figures, names=None):
    """The peer with the least median, of these names, or the one that our like rounds are the slowest beside; None without
    peers."""
    peers = {name: entry for name, entry in figures.items() if name != OURS and (not names or name in names)}
    ours = figures.get(OURS, {})
    if peers and "round_trips" in ours and all(paired(ours, entry) and like_rounds(ours, entry) for entry in peers.values()):
        return max(peers, key=lambda name: quotient(ours, peers[name]))
    return min(peers, key=lambda name: peers[name]["median"]) if peers else None


def judge(figures, kind, limit, expected=()):
    """(figure that the limit applies to or None, best peer or None, verdict, why it is not measured) of one row.

    figures: {allocator: figures} of one (work, metric). expected: the allocators that must be among them.
    """
    optional = kind.endswith("?")
    kind, _, named = kind.removesuffix("?").partition(":")
    best = best_peer(figures, [named] if named else None)
    ours = figures.get(OURS)
    missing = [name for name in expected if name not in figures]
    if missing:
        return None, best, "not measured", f"no {', '.join(missing)}"
    if not figures and optional:
        return None, None, "does not apply", ""
    if ours is None:
        return None, best, "not measured", f"no {OURS}"
    if kind == "absolute":
        return ours["median"], best, "ok" if ours["median"] <= limit else "miss", ""
    if best is None:
        return None, None, "not measured", f"no {named or 'peer'}"
    for name in [best, *expected]:
        if figures[name]["rounds"].keys() != ours["rounds"].keys():
            return None, best, "not measured", f"{name} has other rounds"
    if not paired(ours, figures[best]):
        return None, best, "not measured", f"{best} has a 0"
    ratio = quotient(ours, figures[best])
    return ratio, best, "ok" if ratio <= limit else "miss", ""


def judge_all(summary, targets, expected=None):
    """[Judged] for every target. expected: {(work, metric): allocators that must have a figure there}."""
    return [Judged(*key, kind, limit, *judge(summary.get(key, {}), kind, limit, (expected or {}).get(key, ())))
            for key, (kind, limit) in targets.items()]


def missed(judged):
    """Names of what misses its target, or was not measured."""
    return [f"{row.work} {row.metric}" for row in judged if row.verdict not in ("ok", "does not apply")]


def compared_with(judged):
    """The name of the peer, and whether the target names it."""
    return (judged.best or "-") + (" (fixed)" if ":" in judged.kind and judged.best else "")


def verdict(judged):
    """The verdict, and why it is that where nothing was measured."""
    return judged.verdict + (f": {judged.why}" if judged.why else "")


def beside_limit(value, limit, decimals):
    """The value with so many decimals, or as many more as it takes to see on which side of its limit it lies."""
    while value > limit and decimals < 9 and float(f"{value:.{decimals}f}") <= limit:
        decimals += 1
    return f"{value:.{decimals}f}"


def write_summary(path, about, summary):
    run.write_csv(path, about, SUMMARY_COLUMNS, [
        [work, metric, entry["unit"], allocator, entry["version"],
         *(f"{entry[column]:.6g}" for column in ("median", "min", "q1", "q3", "max")), entry["runs"]]
        for (work, metric), by_allocator in summary.items() for allocator, entry in by_allocator.items()])


def short(value):
    """Three significant digits, without an exponent."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def cell(entry):
    """The median, and how far apart the middle half of the runs lies."""
    if entry is None:
        return "-"
    if entry["median"] <= 0:
        return short(entry["median"])
    return f"{short(entry['median'])} ±{50 * (entry['q3'] - entry['q1']) / entry['median']:.0f}%"


def table(summary, judged, allocators):
    """Lines of text, a row per target, or figure without one (its kind is ""). allocators: the columns; `best`: the figure of the one that
    is compared with."""
    rows = [["work", "metric", *("its figure" if name == "best" else name for name in allocators), "compared with", "figure", "limit", ""]]
    for row in judged:
        entries = summary.get((row.work, row.metric), {})
        times = " x" if row.kind.startswith("ratio") else ""
        judgement = [compared_with(row), "-" if row.figure is None else beside_limit(row.figure, row.limit, 3) + times,
                     f"{row.limit:g}{times}", verdict(row)] if row.kind else [""] * 4
        rows.append([row.work, row.metric, *(cell(entries.get(row.best if name == "best" else name)) for name in allocators), *judgement])
    return run.aligned(rows, 2)
