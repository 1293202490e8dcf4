"""Reading measurements and targets, medians, ratios and the table: the arithmetic of run_bench.py.

A measurement is one line `round,allocator,version,work,metric,value,unit` of a raw file. The figure of an
allocator is the median over the rounds. The best peer is the one with the least figure; a ratio is the median
of the quotients tslab / best peer round by round, so that what slows down a whole round slows down both sides.

A target is `work,metric,kind,limit`. Kinds: `ratio` to the best peer, `ratio:NAME` to that one, `absolute`. With a
question mark at its end, what is not measured is no miss. Works that begin with `suite/` are those of run_all.sh.
"""

import csv
import math
import re

OURS = "tslab"
RAW_COLUMNS = ["round", "allocator", "version", "work", "metric", "value", "unit"]
SUMMARY_COLUMNS = ["work", "metric", "unit", "allocator", "version", "median", "min", "q1", "q3", "max", "runs"]
TARGET_COLUMNS = ["work", "metric", "kind", "limit"]
SUITE = "suite/"


class InputError(Exception):
    """A file that cannot be used; the message names the file and the line."""


def quantile(values, fraction):
    """The quantile with linear interpolation between the two nearest values."""
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def median(values):
    return quantile(values, 0.5)


def _rows(path, columns):
    """(line number, fields) of every line that is neither comment nor heading."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from error
    numbered = [(n, line) for n, line in enumerate(lines, 1) if line and not line.startswith("#")]
    if not numbered or numbered[0][1].split(",") != columns:
        line = numbered[0][0] if numbered else 1
        raise InputError(f"{path}:{line}: the heading must be {','.join(columns)}")
    rows = []
    for number, line in numbered[1:]:
        fields = next(csv.reader([line]))
        if len(fields) != len(columns):
            raise InputError(f"{path}:{number}: {len(fields)} fields, {len(columns)} expected")
        rows.append((number, fields))
    return rows


def _number(path, line, text):
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{path}:{line}: '{text}' is no number from 0 up")
    return value


def read_raw(path):
    """The measurements of a raw file as dictionaries; value is a float and round an int."""
    measurements = []
    for line, fields in _rows(path, RAW_COLUMNS):
        row = dict(zip(RAW_COLUMNS, fields))
        row["value"] = _number(path, line, row["value"])
        row["round"] = int(_number(path, line, row["round"]))
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
            row["allocator"], {"version": row["version"], "unit": row["unit"], "rounds": {}}
        )
        entry["rounds"][row["round"]] = row["value"]
    summary = {}
    for key, by_allocator in values.items():
        summary[key] = {}
        for allocator, entry in by_allocator.items():
            every = list(entry["rounds"].values())
            summary[key][allocator] = {
                "version": entry["version"],
                "unit": entry["unit"],
                "median": median(every),
                "min": min(every),
                "q1": quantile(every, 0.25),
                "q3": quantile(every, 0.75),
                "max": max(every),
                "runs": len(every),
                "rounds": entry["rounds"],
            }
    return summary


def judge(figures, kind, limit):
    """(figure that the limit applies to or None, best peer or None, verdict) of one row.

    figures: {allocator: figures} of one (work, metric). The verdict is ok, miss, not measured, or does not apply.
    """
    absent = "does not apply" if kind.endswith("?") else "not measured"
    kind, _, named = kind.removesuffix("?").partition(":")
    ours = figures.get(OURS)
    peers = {name: entry["median"] for name, entry in figures.items() if name != OURS and named in ("", name)}
    best = min(peers, key=peers.get) if peers else None
    if ours is None:
        return None, best, absent
    if kind == "absolute":
        return ours["median"], best, "ok" if ours["median"] <= limit else "miss"
    theirs = figures[best]["rounds"] if best else {}
    quotients = [value / theirs[r] for r, value in ours["rounds"].items() if theirs.get(r, 0) > 0]
    if not quotients:
        return None, best, absent
    ratio = median(quotients)
    return ratio, best, "ok" if ratio <= limit else "miss"


def judge_all(summary, targets):
    """[(work, metric, kind, limit, figure, best, verdict)] for every target."""
    return [
        (work, metric, kind, limit, *judge(summary.get((work, metric), {}), kind, limit))
        for (work, metric), (kind, limit) in targets.items()
    ]


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


def table(summary, targets, allocators, notes):
    """Lines of text: a row per target, then what is measured without a target for orientation.

    notes: {allocator: why it has no figures}.
    """
    heading = ["work", "metric", *allocators, "best peer", "figure", "limit", ""]
    rows = []
    for work, metric, kind, limit, figure, best, verdict in judge_all(summary, targets):
        figures = summary.get((work, metric), {})
        if not figures:
            continue
        cells = [notes[name] if name in notes else cell(figures.get(name)) for name in allocators]
        times = " x" if kind.startswith("ratio") else ""
        shown = "-" if figure is None else f"{figure:.2f}{times}"
        bound = f"{limit:g}{times}"
        rows.append([work, metric, *cells, best or "-", shown, bound, verdict])
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
