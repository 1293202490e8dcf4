#!/usr/bin/env python3
"""Writes docs/results.md, the blocks of generated figures in README.md, docs/ and the pages that PAGES names, and the CSV files of all
figures and aims.

All of it follows from the CSV files of run_all.sh and from targets.csv. --check writes nothing and fails if a file would change.
A block is what stands between `<!-- figures: NAME begin (benchmarks/...) -->` and `<!-- figures: NAME end -->`; BLOCKS has its function.
"""

import csv
import io
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, run  # noqa: E402
from report import bench_report as report  # noqa: E402
from report import data, study, tables  # noqa: E402
from report import suite_figures as figures  # noqa: E402
from report.bench_report import OURS, SUITE  # noqa: E402
from report.claims import LATENCY  # noqa: E402
from report.words import EQUAL, compare, in_the_noise, label, markdown, number, others  # noqa: E402
from workloads import comparison  # noqa: E402

BLOCK = re.compile(r"(<!-- figures: (\S+) begin \(benchmarks/\S+\) -->)\n(.*?)(<!-- figures: \2 end -->)", re.DOTALL)
BEGIN = re.compile(r"<!-- figures: \S+ begin \(benchmarks/\S+\) -->")


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
    spent = sum(row.number("seconds") for row in rows)
    return [f"{less(suite)}Machine: {suite.machines()}. Mode {header['mode']}, {len(rows)} runs in {spent / 60:.0f} minutes. "
            f"{', '.join(map(label, header['allocators'].split(', ')))}.", "", *markdown([["commit", "measured (UTC)", "steps"], *measured_when(suite)])]


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


BURST = "memory after a burst"  # the first row of make run


# ---- where we are -------------------------------------------------------------------------------

# A reader's first questions: the row in two or three words for the README, in more for docs/results.md, the work and
# the metric.
HEADLINES = [
    ("a request", "a request of 80 to 200 objects", "request", "object_ns"),
    ("2,000 small objects", "2,000 live objects of 16 to 128 bytes", "small_16_128", "pair_ns"),
    ("100,000 objects, FIFO", "100,000 live objects, the oldest replaced", "fifo_replace", "pair_ns"),
    ("large objects", "large objects, 64 KiB to 1 MiB", "large_100", "pair_ns"),
    ("16 threads", "16 threads", "threads_16", "pair_ns"),
    ("cross-thread frees", "one thread allocates, another frees", "producer_consumer", "object_ns"),
    ("mixed load", "a mixed load for minutes", f"{SUITE}soak", "op_ns"),
    ("p99.9, FIFO", "p99.9 of an allocation, FIFO", LATENCY, "fifo_alloc_p999_ns"),
    ("p99.9, random", "p99.9 of an allocation, random victims", LATENCY, "alloc_p999_ns"),
    ("scopes of 10", "a scope of 10 objects", f"{SUITE}scope_10x1", "object_ns"),
    ("scopes of 1,000", "a scope of 1,000 objects", f"{SUITE}scope_1000x1", "object_ns"),
    ("memory beyond payload", "memory beyond the payload", f"{SUITE}space_128", "overhead_pct"),
    ("memory after spikes", "memory right after a 256 MiB spike", f"{SUITE}phase_shifts", "kept_pct"),
    ("a second after spikes", "memory a second later", f"{SUITE}phase_shifts", "kept_rested_pct"),
]


def placed(suite, summary):
    """{-1, 0, 1: rows}: ahead of the best other, level with it, behind it. A row: its brief name, its name, the ratio, if it is one and
    not level, and the distance and the best other in words."""
    found = {-1: [], 0: [], 1: []}
    for brief, text, work, metric in HEADLINES:
        entries = summary.get((work, metric), {})
        best = report.best_peer(entries)
        if OURS in entries and best is not None and not in_the_noise(summary, work, metric):
            distance, _, worse, better = compare(entries[OURS], entries[best], metric)
            apart = worse or better
            found[1 if worse else -1 if better else 0].append(
                (brief, text, distance if apart and distance.endswith(" x") else "", f"{distance}, {label(best)}" if apart else label(best)))
    programs = tables.programs_ratio(suite)
    if programs:
        at = beside(programs)
        found[at].append(("unmodified programs", "real programs that are not compiled anew", f"{number(programs)} x" if at else "",
                          f"{number(programs)} x the time of the fastest of each"))
    rows = {row["allocator"]: row.number("memory_bytes") for row in suite.rows("make_run") if row["row"] == BURST}
    if OURS in rows and len(rows) > 1:
        best = min((name for name in rows if name != OURS), key=rows.get)
        ratio = rows[OURS] / rows[best]
        distance = f"{number(max(ratio, 1 / ratio))} x"
        found[beside(ratio)].insert(0, (BURST, BURST, distance if beside(ratio) else "", f"{distance}, {label(best)}"))
    return found


def beside(ratio):
    """-1, 0, 1: less than, equal to, more than the best other."""
    return 1 if ratio > 1 + EQUAL else -1 if ratio < 1 - EQUAL else 0


def standing_lines(suite, summary):
    """Three lines: where temporal-slab is ahead, level and behind."""
    found = placed(suite, summary)
    return [f"- **{word}**: {', '.join(f'{text} ({said})' for _, text, _, said in found[at]) or 'in no row'}."
            for word, at in (("Ahead of all others", -1), ("Level with the best", 0), ("Behind the best", 1))]


def standing_block(suite, summary):
    """The same in 75 words at most, and the one sentence of the README about the run."""
    found = placed(suite, summary)
    lines = [f"- **{word}**: {'; '.join(f'{brief} ({ratio})' if ratio else brief for brief, _, ratio, _ in found[at]) or 'in no row'}."
             for word, at in (("Ahead", -1), ("Level", 0), ("Behind", 1))]
    return [*lines, "", f"Each beside the best other allocator of its row. {measured(suite)}"]


# ---- docs/results.md ----------------------------------------------------------------------------


def document(suite, summary):
    lines = ["# Results", "", "`make results` measures this page, and everything on it, on one commit. Do not edit it: "
             "`benchmarks/report/make_results.py` writes it from `benchmarks/results/*.csv`.", "",
             "- A cell is the median of the rounds, with the least and the largest behind it where they differ.",
             "- A ratio (x) is the median of the quotients round by round. It may differ from the quotient of two cells.",
             "- The best peer is the one with the least median. `ahead` and `behind` name it.",
             "- All figures: [all_figures.csv](../benchmarks/results/all_figures.csv). All aims: [aims.csv](../benchmarks/results/aims.csv).",
             "", others(suite.measured()), "", *standing_lines(suite, summary), "", "In brackets: the best other allocator of the row, and the distance.", "",
             *about_the_run(suite), "", "![Four figures, all allocators](images/summary.png)", ""]
    for heading, needs, table, charts in tables.PARTS:
        if needs is None or suite.path(needs).is_file():
            lines += [f"## {heading}", "", *table(suite, summary), ""]
            for chart in charts:
                lines += [f"![{chart.replace('_', ' ')}](images/{chart}.png)", ""]
    return "\n".join(lines[:-1]) + "\n"


# ---- blocks -------------------------------------------------------------------------------------

def burst_block(suite, _summary):
    """What the first row of make run still holds, and its picture."""
    rows = {row["allocator"]: row for row in suite.rows("make_run") if row["row"] == BURST}
    if OURS not in rows:
        return ["`make run` was not measured."]
    names = [name for name in rows if name != OURS] + [OURS]
    versions = dict(text.split(" ", 1) for text in suite.header().get("allocators", "").split(", ") if " " in text)
    cells = {name: f"{rows[name].number('memory_bytes') / 2**20:.0f} MiB" for name in names}
    cells[OURS] = f"**{cells[OURS]}**"
    return [*markdown([[with_version(name, versions) for name in names], [cells[name] for name in names]]), "",
            "[In figures](#in-figures) names the run. `make run` measures this row and ten others on your machine.", "",
            "![Eleven rows: time and memory beside malloc and the newest allocators](docs/images/run.png)"]


def with_version(name, versions):
    """jemalloc-5.3.1 bg: `jemalloc 5.3.1 with its background thread`."""
    plain, background, _ = name.partition(" bg")
    kind, _, version = plain.partition("-")
    version = version or versions.get({"gperftools": "tcmalloc"}.get(kind, kind), "")
    return label(kind) + (f" {version}" if version and kind != OURS else "") + (" with its background thread" if background else "")


def rust_block(suite, _summary):
    """Scopes in Rust, all calls inlined as the compiler likes."""
    rows = {}
    for row in suite.rows("rust"):
        rows.setdefault(row["work"], {})[row["side"]] = row.number("ns")
    if not rows:
        return ["The Rust figures were not measured."]
    sides = list(dict.fromkeys(side for found in rows.values() for side in found))
    table = [["nanoseconds an object", *sides, "tslab over the best other"]]
    for work, found in rows.items():
        others = [value for side, value in found.items() if side != OURS]
        table.append([work, *(number(found[side]) if side in found else "-" for side in sides), number(found[OURS] / min(others))])
    return [*markdown(table), "", f"An arena is kept and reset; the calls are inlined. {measured(suite, 'rust')}"]


def programs_block(suite, _summary):
    """Unmodified programs over glibc's malloc."""
    found = {}
    for row in suite.rows("programs"):
        if row["part"] == "time" and row["allocator"] in (OURS, "glibc") and not row["row"].startswith("loop "):
            found.setdefault(row["row"], {}).setdefault(row["allocator"], []).append(row)
    table = [["program", "time over glibc's", "peak over glibc's"]]
    for work, rows in found.items():
        if len(rows) == 2:
            ratios = [statistics.median(row.number(column) for row in rows[OURS]) /
                      statistics.median(row.number(column) for row in rows["glibc"]) for column in ("cpu_s", "kib")]
            table.append([work, *map(number, ratios)])
    return [*markdown(table), "", measured(suite, "programs")] if len(table) > 1 else ["The programs were not measured."]


BLOCKS = {"standing": standing_block, "burst": burst_block, "rust": rust_block, "programs": programs_block, **study.BLOCKS,
          "comparison": comparison.block}
# Blocks that stay as they are where these files were not measured; those of a run of less work say so.
NEEDS = {"comparison": ("comparison",), "variance": ("benchmark_accurate",), **dict.fromkeys(
    (name for name in study.BLOCKS if name.startswith("soak")), ("soak", "benchmark_accurate"))}
PAGES = ("README.md", "bindings/rust/tslab/README.md", "benchmarks/workloads/COMPARISON_RESULTS.md")


def pages(root):
    """PAGES and those of docs/, but for the one that is generated as a whole."""
    return [path for path in (root / name for name in PAGES) if path.is_file()] + \
        sorted(path for path in (root / "docs").glob("*.md") if path.name != "results.md")


def fill(path, suite, summary):
    """The text of a page with its blocks as the figures give them, and the names of those that stay as they are."""
    text, stay = data.read_utf8(path), []

    def block(match):
        name = match[2]
        if name not in BLOCKS:
            raise data.InputError(f"{path}: no block of figures is named '{name}': one of {', '.join(BLOCKS)}")
        if not all(suite.path(file).is_file() for file in NEEDS.get(name, ())):
            stay.append(name)
            return match[0]
        said = [less(suite).strip(), ""] if less(suite) and (name in study.BLOCKS or name in NEEDS) else []
        return "\n".join([match[1], *said, *BLOCKS[name](suite, summary), match[4]])

    if len(BEGIN.findall(text)) != len(BLOCK.findall(text)):
        raise data.InputError(f"{path}: a block of figures begins and does not end")
    return BLOCK.sub(block, text), stay


# ---- CSV files ----------------------------------------------------------------------------------


def as_csv(suite, heading, rows):
    header = suite.header()
    about = [f"# {word}: {value}" for word, value in (("commit", "; ".join(dict.fromkeys(row["commit"] for row in suite.rows("run")))),
                                                      ("date", header.get("date", "")), ("mode", header.get("mode", ""))) if value]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([heading, *rows])
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
    suite = figures.Suite(folder)
    rows = figures.measurements(suite)
    core_raw = suite.path("core_bench_raw")
    rows = (report.read_raw(core_raw) if core_raw.is_file() else []) + rows
    if not rows:
        raise data.InputError(f"{folder}:1: no results: run benchmarks/run_all.sh")
    return suite, report.summarize(rows)


def write(root, results, check=False):
    """([files that were not what the figures give], [pages of which a block stays as it is, as its step was not measured])"""
    suite, summary = summarize(results)
    wanted = {root / "docs" / "results.md": document(suite, summary), results / "all_figures.csv": all_figures(suite, summary),
              results / "aims.csv": all_aims(suite, summary)}
    stay = {}
    for page in pages(root):
        wanted[page], stay[page] = fill(page, suite, summary)
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in [] if check else stale:
        path.write_text(wanted[path], encoding="utf-8")
    return stale, [f"{page.relative_to(root)}: {', '.join(names)}" for page, names in stay.items() if names]


def main(arguments):
    parser = run.Parser("make_results.py", __doc__)
    parser.add_argument("--results", metavar="DIR", type=pathlib.Path, help="the CSV files (default: benchmarks/results of the root)")
    parser.add_argument("--root", metavar="DIR", type=pathlib.Path, default=run.ROOT, help="where README.md and docs/ are (default: the project)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file would change")
    options = parser.parse_args(arguments)
    stale, stay = write(options.root, options.results or options.root / "benchmarks" / "results", options.check)
    for path in stale:
        if options.check:
            run.say(f"make_results: {path} is not what the figures give: run benchmarks/report/make_results.py")
        else:
            print(path)
    for page in stay:
        run.say(f"make_results: not measured, the old block stays: {page}")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    ending.run("make_results", main)
