"""Reading measurements and targets, medians, ratios and the table: the arithmetic of run_bench.py.

A measurement is one line `round,allocator,version,work,metric,value,unit` of a raw file. The figure of an
allocator is the median over the rounds. The best peer is the one with the least figure; a ratio is the median
of the quotients tslab / best peer round by round, so that what slows down a whole round slows down both sides.
Where a work says how long a cache line takes from one processor to another (round_trip_ns), which a host changes from one
process to the next, each round is compared with the peer's rounds in which that took as long.

A target is `work,metric,kind,limit`. Kinds: `ratio` to the best peer, `ratio:NAME` to that one, `absolute`. With a
question mark at its end it applies only where there is such a row at all: glibc's spikes. Works that begin with
`suite/` are those of run_all.sh.
"""

import collections
import csv
import math
import re

from report.analyze_epoch_tail_csv import NUMBER, InputError, read_utf8

OURS = "tslab"
RAW_COLUMNS = ["round", "allocator", "version", "work", "metric", "value", "unit"]
SUMMARY_COLUMNS = ["work", "metric", "unit", "allocator", "version", "median", "min", "q1", "q3", "max", "runs"]
TARGET_COLUMNS = ["work", "metric", "kind", "limit"]
SUITE = "suite/"
# Figures in ns that may be 0: the machine's floor, and the rest after it is subtracted.
MAY_BE_ZERO = re.compile(r"floor|step_ns|p50_ns")

# How far apart two round trips of a line may be that count as equal: a host has placements a factor of three and more apart.
LIKE_ROUND_TRIPS = 1.5

# One target, its result, and why it is not measured. The verdict is ok, miss, not measured, or does not apply.
Judged = collections.namedtuple("Judged", "work metric kind limit figure best verdict why")


def quantile(values, fraction):
    """The quantile with linear interpolation between the two nearest values."""
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def median(values):
    return quantile(values, 0.5)


def read_lines(path):
    """The lines of a file of UTF-8 text, without their ends and without a byte order mark."""
    return read_utf8(path).removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


def split(path, number, line):
    """The fields of one line."""
    try:
        return next(csv.reader([line]))
    except csv.Error as error:
        raise InputError(f"{path}:{number}: {error}") from error


def _rows(path, columns):
    """(line number, fields) of every line that is neither comment nor heading."""
    numbered = [(n, line) for n, line in enumerate(read_lines(path), 1) if line and not line.startswith("#")]
    if not numbered or numbered[0][1].split(",") != columns:
        line = numbered[0][0] if numbered else 1
        raise InputError(f"{path}:{line}: the heading must be {','.join(columns)}")
    rows = []
    for number, line in numbered[1:]:
        fields = split(path, number, line)
        if len(fields) != len(columns):
            raise InputError(f"{path}:{number}: {len(fields)} fields, {len(columns)} expected")
        rows.append((number, fields))
    return rows


def _number(path, line, text):
    value = float(text) if NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{path}:{line}: '{text}' is no number from 0 up")
    return value


def read_raw(path):
    """The measurements of a raw file as dictionaries; value is a float and round an int. Each is there once."""
    measurements, lines = [], {}
    for line, fields in _rows(path, RAW_COLUMNS):
        row = dict(zip(RAW_COLUMNS, fields))
        if not re.fullmatch(r"[0-9]+", row["round"]):
            raise InputError(f"{path}:{line}: round '{row['round']}' is no number from 0 up")
        row["round"] = int(row["round"])
        value = _number(path, line, row["value"])
        if value == 0 and row["unit"] in ("ns", "bytes") and not MAY_BE_ZERO.search(row["metric"]):
            raise InputError(f"{path}:{line}: {row['metric']} of {row['work']} is 0 {row['unit']}")
        row["value"] = value
        key = tuple(row[column] for column in ("round", "allocator", "work", "metric"))
        if key in lines:
            raise InputError(f"{path}:{line}: round {', '.join(map(str, key))} stands in line {lines[key]} already")
        lines[key] = line
        measurements.append(row)
    return measurements


def read_targets(path):
    """{(work, metric): (kind, limit)} in the order of the file."""
    targets = {}
    for line, (work, metric, kind, limit) in _rows(path, TARGET_COLUMNS):
        if not re.fullmatch(r"(ratio(:[a-z0-9_]+)?|absolute)\??", kind):
            raise InputError(f"{path}:{line}: kind '{kind}' is neither ratio nor ratio:NAME nor absolute")
        if (work, metric) in targets:
            raise InputError(f"{path}:{line}: {work},{metric} has a target already")
        targets[work, metric] = kind, _number(path, line, limit)
    return targets


def summarize(measurements):
    """{(work, metric): {allocator: figures}}, in the order of first appearance."""
    values = {}
    for row in measurements:
        by_allocator = values.setdefault((row["work"], row["metric"]), {})
        entry = by_allocator.setdefault(
            row["allocator"], {"version": row["version"], "unit": row["unit"], "rounds": {}, "spread": []}
        )
        entry["rounds"][row["round"]] = row["value"]
        # a row may be a median itself, and name the values that it is the median of
        entry["spread"] += row.get("spread", [row["value"]])
    summary = {}
    for key, by_allocator in values.items():
        summary[key] = {}
        for allocator, entry in by_allocator.items():
            every = list(entry["rounds"].values())
            summary[key][allocator] = {
                "version": entry["version"],
                "unit": entry["unit"],
                "median": median(every),
                "min": min(entry["spread"]),
                "q1": quantile(every, 0.25),
                "q3": quantile(every, 0.75),
                "max": max(entry["spread"]),
                "runs": len(every),
                "rounds": entry["rounds"],
            }
    for (work, metric), figures in summary.items():
        for allocator, entry in figures.items():
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
    like = like_rounds(ours, theirs)
    if like:
        return median([mine / other for mine, other in like])
    return median([value / theirs["rounds"][r] for r, value in ours["rounds"].items()])


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
    expected = expected or {}
    return [
        Judged(*key, kind, limit, *judge(summary.get(key, {}), kind, limit, expected.get(key, ())))
        for key, (kind, limit) in targets.items()
    ]


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


def write_summary(path, header, summary):
    with open(path, "w", newline="", encoding="utf-8") as file:
        for line in header:
            file.write(f"# {line}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(SUMMARY_COLUMNS)
        for (work, metric), by_allocator in summary.items():
            for allocator, entry in by_allocator.items():
                numbers = [f"{entry[column]:.6g}" for column in ("median", "min", "q1", "q3", "max")]
                writer.writerow([work, metric, entry["unit"], allocator, entry["version"], *numbers, entry["runs"]])


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


def table(summary, targets, judged, allocators, notes):
    """Lines of text: a row per target, then what is measured without a target for orientation.

    judged: what judge_all() said of the targets. notes: {allocator: why it has no figures}.
    """
    heading = ["work", "metric", *allocators, "compared with", "figure", "limit", ""]
    rows = []
    for row in judged:
        work, metric, kind, limit, figure = row[:5]
        figures = summary.get((work, metric), {})
        if not figures:
            continue
        cells = [notes[name] if name in notes else cell(figures.get(name)) for name in allocators]
        times = " x" if kind.startswith("ratio") else ""
        shown = "-" if figure is None else f"{figure:.2f}{times}"
        bound = f"{limit:g}{times}"
        rows.append([work, metric, *cells, compared_with(row), shown, bound, verdict(row)])
    for (work, metric), figures in summary.items():
        if (work, metric) in targets or metric.endswith(("floor_ns", "step_ns", "floor_p9999_ns")):
            continue
        cells = [notes[name] if name in notes else cell(figures.get(name)) for name in allocators]
        rows.append([work, metric, *cells, "", "", "", ""])
    widths = [max(len(row[i]) for row in [heading, *rows]) for i in range(len(heading))]
    lines = []
    for row in [heading, *rows]:
        left = [row[i].ljust(widths[i]) for i in range(2)]
        right = [row[i].rjust(widths[i]) for i in range(2, len(row) - 1)]
        lines.append("  ".join([*left, *right, row[-1]]).rstrip())
    return lines
