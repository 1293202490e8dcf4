#!/usr/bin/env python3
"""Writes docs/results.md, the blocks of generated figures in README.md and docs/, and the CSV files of all figures and aims.

All of it follows from the CSV files of run_all.sh and from targets.csv. --check writes nothing and fails if a file would change.
A block is what stands between `<!-- figures: NAME begin (benchmarks/report/make_results.py) -->` and `<!-- figures: NAME end -->`.
"""

import argparse
import csv
import io
import pathlib
import re
import sys

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
ROOT = BENCHMARKS.parent
sys.path.insert(0, str(BENCHMARKS))

from report import bench_report as report  # noqa: E402
from report import suite_figures as figures  # noqa: E402
from report import tables  # noqa: E402
from report.bench_report import OURS, SUITE  # noqa: E402
from report.claims import LATENCY, percent_of_rest  # noqa: E402
from report.suite_figures import ALLOCATORS, Suite  # noqa: E402
from report.words import EQUAL, POINTS, compare, in_the_noise, label, markdown, number, present  # noqa: E402

BLOCK = re.compile(r"(<!-- figures: (\S+) begin \(benchmarks/report/make_results\.py\) -->)\n(.*?)(<!-- figures: \2 end -->)", re.DOTALL)
BEGIN = re.compile(r"<!-- figures: \S+ begin \(benchmarks/report/make_results\.py\) -->")


# ---- about the run ------------------------------------------------------------------------------


def less(suite):
    """What a run that is not the whole one says of itself; empty for a whole one."""
    mode = suite.header().get("mode", "full")
    return "" if mode == "full" else f"**A {mode} run: less work, so the figures vary more than those of a full one.** "


def about_the_run(suite):
    header = suite.header()
    if not header:
        return ["The run was not recorded (there is no run.csv)."]
    rows = suite.rows("run")
    spent = sum(suite.number("run", row, "seconds") for row in rows)
    return [f"{less(suite)}Machine: {suite.machines()}. Mode {header['mode']}, {len(rows)} runs in {spent / 60:.0f} minutes. "
            f"{header['allocators']}.", "", *markdown([["commit", "measured (UTC)", "steps"], *measured_when(suite)])]


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


def measured(suite, step=None):
    """One sentence: the day, the commits and the machine of all steps, or of one."""
    rows = [row for row in suite.rows("run") if step in (None, row["step"])]
    if not rows:
        return ""
    days = sorted({(row.get("date") or suite.header()["date"])[:len("2020-01-01")] for row in rows})
    commits = ", ".join(dict.fromkeys(row["commit"] for row in rows))
    day = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"{less(suite)}Measured {day} on {suite.machines(step and [step])}; commit {commits}."


# ---- who is ahead -------------------------------------------------------------------------------

# Metrics that say how a measurement was made, or that another one contains: object_ns of the scopes is a part of any_object_ns.
SKIPPED = re.compile(rf"floor|step_ns|round_trip|from_start|drift| spike_|worst_|committed_|^{SUITE}scope_\S+ object_ns$")


def standings(summary):
    """(how many rows have a peer, how many of them a peer that is better by more than what is called equal)."""
    compared = behind = 0
    for (work, metric), entries in summary.items():
        best = report.best_peer(entries)
        if OURS in entries and best is not None and not SKIPPED.search(f"{work} {metric}") and not in_the_noise(summary, work, metric):
            compared += 1
            behind += compare(entries[OURS], entries[best], metric)[2]
    return compared, behind


def overall(suite, summary):
    judged = tables.judged_targets(suite, summary)
    met = sum(row.verdict == "ok" for row in judged)
    compared, behind = standings(summary)
    return (f"{met} of {len(judged)} aims are met. In {behind} of {compared} comparisons some other allocator is better than temporal-slab "
            f"by more than {100 * EQUAL:.0f} %, or {POINTS} points where the figure is per cent.")


# ---- docs/results.md ----------------------------------------------------------------------------


def document(suite, summary):
    lines = ["# Results", "", "`make results` measures this page, and everything on it, on one commit. Do not edit it: "
             "`benchmarks/report/make_results.py` writes it from `benchmarks/results/*.csv`.", "",
             "- A cell is the median of the rounds, with the least and the largest behind it where they differ.",
             "- A ratio (x) is the median of the quotients round by round. It may differ from the quotient of two cells.",
             "- The best peer is the one with the least median. `ahead` and `behind` name it.",
             "- All figures: [all_figures.csv](../benchmarks/results/all_figures.csv). All aims: [aims.csv](../benchmarks/results/aims.csv).",
             "", overall(suite, summary), "", *about_the_run(suite), "", "![Four figures, all allocators](images/summary.png)", ""]
    for heading, needs, table, charts in tables.PARTS:
        if needs is None or suite.path(needs).is_file():
            lines += [f"## {heading}", "", *table(suite, summary), ""]
            for chart in charts:
                lines += [f"![{chart.replace('_', ' ')}](images/{chart}.png)", ""]
    return "\n".join(lines[:-1]) + "\n"


# ---- blocks -------------------------------------------------------------------------------------

# A row of the README's table: what, work, metric, and how the metric, of which less is better, becomes the figure.
README_ROWS = [
    ("allocation p99.9, 100,000 live objects of 128 B, ns", LATENCY, "alloc_p999_ns", None),
    ("2,000 live objects of 16 to 128 B, a free and an allocation, ns", "small_16_128", "pair_ns", None),
    ("a request of 80 to 200 objects, an object, ns", "request", "object_ns", None),
    ("16 threads, a free and an allocation, ns", "threads_16", "pair_ns", None),
    ("one thread allocates, another frees, an object, ns", "producer_consumer", "object_ns", None),
    ("mixed load for minutes, a call, ns", f"{SUITE}soak", "op_ns", None),
    ("resident over the payload, 128 B, %", f"{SUITE}space_128", "overhead_pct", None),
    ("of a 256 MiB spike given back at once, %", f"{SUITE}phase_shifts", "kept_pct", percent_of_rest),
    ("the same, after a second of calls, %", f"{SUITE}phase_shifts", "kept_rested_pct", percent_of_rest),
    ("the same, asked for it, %", f"{SUITE}phase_shifts", "kept_asked_pct", percent_of_rest),
]


def summary_block(suite, summary):
    """The README's chart and table."""
    names = present(summary)
    rows = [["", *(label(name) for name in names)]]
    for text, work, metric, turn in README_ROWS:
        entries = {("malloc" if name == "glibc" else name): entry for name, entry in summary.get((work, metric), {}).items()}
        if OURS in entries:
            rows.append([text, *(number(turn(entries[n]["median"]) if turn else entries[n]["median"]) if n in entries else "-" for n in names)])
    return ["![Four figures, all allocators](docs/images/summary.png)", "", *markdown(rows), "", overall(suite, summary), "",
            f"{measured(suite)} All figures, also those where others are ahead: [docs/results.md](docs/results.md)."]


BURST = "8 answers of 2 MB"


def burst_block(suite, _summary):
    """What the first row of make run still holds, and its picture."""
    rows = {row["allocator"]: row for row in suite.rows("make_run") if row["row"] == BURST}
    if OURS not in rows:
        return ["`make run` was not measured."]
    names = [name for name in ALLOCATORS[1:] if name in rows] + [OURS]
    versions = dict(text.split(" ", 1) for text in suite.header().get("allocators", "").split(", ") if " " in text)
    cells = {name: f"{suite.number('make_run', rows[name], 'memory_bytes') / 2**20:.0f} MiB" for name in names}
    cells[OURS] = f"**{cells[OURS]}**"
    heading = [label(name) + (f" {versions[name]}" if name in versions and name != OURS else "") for name in names]
    return [*markdown([heading, [cells[name] for name in names]]), "",
            f"`make run` measures this row and ten others on your machine. {measured(suite, 'make_run')}", "",
            "![Eleven rows: time and memory beside malloc, jemalloc, mimalloc and tcmalloc](docs/images/run.png)"]


BLOCKS = {"summary": summary_block, "burst": burst_block}


def pages(root):
    """README.md and the pages of docs/, but for the one that is generated as a whole."""
    return [root / "README.md", *sorted(path for path in (root / "docs").glob("*.md") if path.name != "results.md")]


def fill(path, suite, summary):
    """The text of a page with its blocks as the figures give them."""
    text = report.read_utf8(path)
    found = [match[2] for match in BLOCK.finditer(text)]
    if len(BEGIN.findall(text)) != len(found):
        raise report.InputError(f"{path}: a block of figures begins and does not end")
    for name in found:
        if name not in BLOCKS:
            raise report.InputError(f"{path}: no block of figures is named '{name}': one of {', '.join(BLOCKS)}")
    return BLOCK.sub(lambda match: "\n".join([match[1], *BLOCKS[match[2]](suite, summary), match[4]]), text)


# ---- CSV files ----------------------------------------------------------------------------------


def as_csv(suite, heading, rows):
    header = suite.header()
    about = [f"# {word}: {value}" for word, value in (("commit", "; ".join(dict.fromkeys(row["commit"] for row in suite.rows("run")))),
                                                      ("date", header.get("date", "")), ("mode", header.get("mode", ""))) if value]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
    return "\n".join([*about, text.getvalue()])


def all_figures(suite, summary):
    return as_csv(suite, ["work", "metric", "unit", "allocator", "version", "median", "least", "largest", "rounds"],
                  [[work.removeprefix(SUITE), metric, entry["unit"], name, entry["version"], f"{entry['median']:.6g}",
                    f"{entry['min']:.6g}", f"{entry['max']:.6g}", entry["runs"]]
                   for (work, metric), entries in summary.items() for name, entry in entries.items()])


def all_aims(suite, summary):
    return as_csv(suite, ["work", "metric", "kind", "limit", "figure", "best", "verdict"],
                  [[row.work.removeprefix(SUITE), row.metric, row.kind, f"{row.limit:g}",
                    "" if row.figure is None else f"{row.figure:.4g}", row.best or "", report.verdict(row)]
                   for row in tables.judged_targets(suite, summary)])


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
    parser.add_argument("--results", metavar="DIR", help="the CSV files (default: benchmarks/results of the root)")
    parser.add_argument("--root", metavar="DIR", default=str(ROOT), help="where README.md and docs/ are (default: the project)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file would change")
    options = parser.parse_args(arguments)
    root = pathlib.Path(options.root)
    results = pathlib.Path(options.results) if options.results else root / "benchmarks" / "results"
    try:
        suite, summary = summarize(results)
        wanted = {root / "docs" / "results.md": document(suite, summary), results / "all_figures.csv": all_figures(suite, summary),
                  results / "aims.csv": all_aims(suite, summary)}
        wanted.update({path: fill(path, suite, summary) for path in pages(root)})
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
