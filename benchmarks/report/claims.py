"""The figures that the design's description published of its own allocator and of its malloc, beside what is measured here.

They are of another machine and of other programs: they give the order of size. The comparison is with the other allocators of
the same run, and with what the description says of its allocator against its malloc, as ratios.
"""

import dataclasses

from report.bench_report import OURS, SUITE
from report.suite_figures import SIZE
from report.words import EQUAL, label, markdown, present, where, with_spread

CHURN, ACCURATE, THREADS = "churn_test", "benchmark_accurate", "benchmark_threads"
LATENCY = f"{SUITE}latency_{SIZE}"


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a figure is of, the design's own, that of its malloc, and the metric that is measured here. In `what` stand the
    amounts of the run, see amounts()."""

    what: str
    theirs: str
    malloc: str
    work: str
    metric: str
    step: str
    turn: object = None  # from the metric, of which less is better, to the figure that was published
    said: float = 0  # where no other allocator has such a figure: the published one, as a number


SOURCE = ("The design's description published these figures: `docs/results.md` of github.com/blackwell-systems/temporal-slab, as of 2026-02-07 "
          "(Intel Core Ultra 7 165H, Linux 6.6 under WSL2, GCC 13.3 -O3).")


def percent_of_rest(value):
    return 100 - value


def milliseconds(value):
    return value / 1e6


CLAIMS = [
    Claim("in sequence: allocation p50, ns", "40", "31", LATENCY, "seq_alloc_p50_ns", ACCURATE),
    Claim("in sequence: p99, ns", "120", "1,443", LATENCY, "seq_alloc_p99_ns", ACCURATE),
    Claim("in sequence: p99.9, ns", "340", "4,409", LATENCY, "seq_alloc_p999_ns", ACCURATE),
    Claim("in sequence: p99.99, ns", "2,535", "6,432", LATENCY, "seq_alloc_p9999_ns", ACCURATE),
    Claim("FIFO churn of 100,000 objects, {operations} operations: allocation p50, ns", "30", "24", LATENCY, "fifo_alloc_p50_ns", ACCURATE),
    Claim("FIFO: p99, ns", "76", "2,962", LATENCY, "fifo_alloc_p99_ns", ACCURATE),
    Claim("FIFO: p99.9, ns", "166", "11,525", LATENCY, "fifo_alloc_p999_ns", ACCURATE),
    Claim("FIFO: p99.99, ns", "1,542", "63,940", LATENCY, "fifo_alloc_p9999_ns", ACCURATE),
    Claim("FIFO: p99.999, ns", "19,764", "254,039", LATENCY, "fifo_alloc_p99999_ns", ACCURATE),
    Claim("FIFO: variance, p99.999 over p50", "659", "10,585", LATENCY, "fifo_alloc_p99999_over_p50", ACCURATE),
    Claim("random victims, as many: allocation p50, ns", "-", "", LATENCY, "alloc_p50_ns", ACCURATE),
    Claim("random: p99, ns", "-", "", LATENCY, "alloc_p99_ns", ACCURATE),
    Claim("random: p99.9, ns", "-", "", LATENCY, "alloc_p999_ns", ACCURATE),
    Claim("random: p99.99, ns", "-", "", LATENCY, "alloc_p9999_ns", ACCURATE),
    Claim("random: p99.999, ns", "-", "", LATENCY, "alloc_p99999_ns", ACCURATE),
    Claim("random: variance, p99.999 over p50", "-", "", LATENCY, "alloc_p99999_over_p50", ACCURATE),
    Claim("share of slow paths: allocations that looked for a slab, % (here in epochs that are filled and closed)", "below 1", "", f"{SUITE}tail_attribution",
          "slow_share_pct", "tail_attribution", said=1),
    Claim("growth of a mixed load without boundaries, % (theirs: a load whose working set grows)", "1,027", "1,109",
          f"{SUITE}mixed_load", "rss_growth_pct", CHURN),
    Claim("memory that a spike gives back as soon as it is over, mean of {shifts} shifts, %", "71.9", "18.6",
          f"{SUITE}phase_shifts", "kept_pct", CHURN, percent_of_rest),
    Claim("committed after the first phase shift, MB", "0.70", "", f"{SUITE}phase_shifts", "committed_first_mb", CHURN, said=0.70),
    Claim("committed after the last, MB", "0.70", "", f"{SUITE}phase_shifts", "committed_last_mb", CHURN, said=0.70),
    Claim("space efficiency over a realistic mix of sizes, %", "88.9", "", f"{SUITE}size_mix", "waste_pct", ACCURATE,
          percent_of_rest),
    Claim("16 threads: acquisitions of locks that waited, %", "14.8", "", f"{SUITE}threads", "batch_waited_pct", THREADS, said=14.8),
    Claim("16 threads: compare-and-swaps repeated, %", "1.2", "", f"{SUITE}threads", "cas_retries_pct", THREADS, said=1.2),
    Claim("16 threads: coefficient of variation of the throughput, %", "5", "", f"{SUITE}threads", "throughput_cv_pct", THREADS),
    Claim("`epoch_close`, mean, ms (here beside 8 busy threads)", "0.16", "", f"{SUITE}close_bench", "epoch_close_ns", "close_bench",
          milliseconds, 0.16),
]


def amounts(suite):
    """How much was measured, in words of the claims."""
    shifts = max((int(row.number("shift")) for row in suite.rows("phase_shifts")), default=0)
    samples = [row.number("samples") for row in suite.rows(ACCURATE) if row["op"] == "alloc" and "samples" in row]
    return {"shifts": f"{shifts:,}", "operations": f"{2 * max(samples, default=0) / 1e6:.0f} M"}


def table(suite, summary):
    """Markdown; and the steps that the figures are of."""
    names, counts = present(summary), amounts(suite)
    rows = [["figure", "design: its allocator", "design: malloc", *(label(name) for name in names), "where we are"]]
    steps = {}
    for claim in CLAIMS:
        entries = summary.get((claim.work, claim.metric), {})
        if OURS in entries:
            steps[claim.step] = None
            rows.append([claim.what.format(**counts), claim.theirs, claim.malloc or "-",
                         *(with_spread(entries.get(name), claim.turn) for name in names),
                         verdict(summary, claim)])
    return markdown(rows), list(steps)


def verdict(summary, claim):
    """Beside the other allocators; where none has such a figure, beside the published one."""
    beside = where(summary, claim.work, claim.metric, claim.metric)
    if beside or not claim.said:
        return beside
    ours = summary[claim.work, claim.metric][OURS]["median"]
    ours = claim.turn(ours) if claim.turn else ours
    if abs(ours - claim.said) <= EQUAL * claim.said:
        return "as published"
    return "better than published" if ours < claim.said else "**worse than published**"
