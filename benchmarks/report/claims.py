"""The figures that the design's description published of its own allocator and of its malloc, beside what is measured here.

They are of another machine and of other programs: they give the order of size. The comparison is with the other allocators of
the same run, and with what the description says of its allocator against its malloc, as ratios.

claims.csv has them: `figure` (with the amounts of the run, see amounts()), the design's own, that of its malloc, and the work and metric
that are measured here. `turn`: from the metric, of which less is better, to the figure that was published; `said`: where no other allocator
has such a figure, the published one as a number.
"""

from harness.run import BENCHMARKS
from report import data
from report.bench_report import OURS, SUITE
from report.suite_figures import SIZE
from report.words import EQUAL, label, markdown, present, where, with_spread

ACCURATE, THREADS = "benchmark_accurate", "benchmark_threads"
LATENCY = f"{SUITE}latency_{SIZE}"
SOURCE = ("The design's description published these figures: `docs/results.md` of github.com/blackwell-systems/temporal-slab, as of 2026-02-07 "
          "(Intel Core Ultra 7 165H, Linux 6.6 under WSL2, GCC 13.3 -O3).")


def percent_of_rest(value):
    return 100 - value


TURNS = {"": None, "rest": percent_of_rest, "ms": lambda value: value / 1e6}


def amounts(suite):
    """How much was measured, in words of the claims."""
    shifts = max((int(row.number("shift")) for row in suite.rows("phase_shifts")), default=0)
    samples = [row.number("samples") for row in suite.rows(ACCURATE) if row["op"] == "alloc" and "samples" in row]
    return {"shifts": f"{shifts:,}", "operations": f"{2 * max(samples, default=0) / 1e6:.0f} M"}


def table(suite, summary):
    """Markdown."""
    names, counts = present(summary), amounts(suite)
    rows = [["figure", "design: its allocator", "design: malloc", *(label(name) for name in names), "where we are"]]
    for claim in data.read(BENCHMARKS / "claims.csv", {"work": "text", "metric": "text"}, {"figure": "text", "said": "number?"}):
        entries = summary.get((claim["work"], claim["metric"]), {})
        if OURS in entries:
            turn = TURNS[claim["turn"]]
            rows.append([claim["figure"].format(**counts), claim["theirs"], claim["malloc"] or "-",
                         *(with_spread(entries.get(name), turn) for name in names), verdict(summary, claim, turn)])
    return markdown(rows)


def verdict(summary, claim, turn):
    """Beside the other allocators; where none has such a figure, beside the published one."""
    beside, said = where(summary, claim["work"], claim["metric"], claim["metric"]), claim.number("said")
    if beside or not said:
        return beside
    ours = summary[claim["work"], claim["metric"]][OURS]["median"]
    ours = turn(ours) if turn else ours
    if abs(ours - said) <= EQUAL * said:
        return "as published"
    return "better than published" if ours < said else "**worse than published**"
