#!/usr/bin/env python3
"""Compares the CSV files of a folder with targets.csv. Exit code 1 if a figure misses its target or is not there, or if an
allocator was not measured that --without does not name: a ratio to the best peer is another one where the best is missing.

What missed in the figures of the tree (benchmarks/results) as well is told apart from what is new, which a change has to
explain."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, run  # noqa: E402
from report import bench_report as report  # noqa: E402
from report import data, make_results  # noqa: E402
from report import suite_figures as figures  # noqa: E402

RESULTS = run.BENCHMARKS / "results"
PEERS = [*figures.ALLOCATORS[1:], *figures.REGIONS, *figures.KEPT_REGIONS]


def judge(folder, targets):
    suite, summary = make_results.summarize(folder)
    figures.check_run(suite, targets)
    return suite, summary, report.judge_all(summary, targets, figures.expected(suite, targets))


def missed_in_tree(folder, targets):
    """Names of what the tree's own figures miss; None: these are they, or there are none to compare with."""
    if pathlib.Path(folder).resolve() == RESULTS.resolve():
        return None
    try:
        return set(report.missed(judge(RESULTS, targets)[2]))
    except data.InputError:
        return None


def main(arguments):
    parser = run.Parser("gate.py", __doc__)
    parser.add_argument("folder", nargs="?", metavar="DIR", default=RESULTS, help="default benchmarks/results")
    parser.add_argument("--without", metavar="A,B", help="allocators that cannot be had here")
    options = parser.parse_args(arguments)
    without = run.choose(options.without, PEERS, "allocator") if options.without else []
    targets = report.read_targets()
    suite, summary, judged = judge(options.folder, targets)
    before = missed_in_tree(options.folder, targets)
    missed = report.missed(judged)
    print("\n".join([*report.table(summary, judged, [report.OURS, "best"]), "", f"{len(judged) - len(missed)} of {len(judged)} targets hold"]))
    mode = suite.header().get("mode", "full")
    if mode != "full":
        print(f"of a run with less work (mode {mode}): figures that need all of it, as the drift and p99.99, are of less")
    if missed and before is None:
        print(f"missed or not measured: {', '.join(missed)}")
    elif missed:
        for words, names in (("missed or not measured, as in the tree's figures", [name for name in missed if name in before]),
                             ("NEW", [name for name in missed if name not in before])):
            print(f"{words}: {', '.join(names) or 'none'}")
    absent = [name for name in figures.ALLOCATORS if name not in suite.measured()]
    absent += [name for name in (*figures.REGIONS, *figures.KEPT_REGIONS) if name not in suite.allocators("scope_bench")]
    unexplained = [name for name in absent if name not in without]
    if absent:
        print(f"judged without {', '.join(absent)}: the run did not measure them")
    if unexplained:
        print(f"install them, or: benchmarks/report/gate.py --without {','.join(unexplained)}")
    failed = missed or unexplained
    print("gate: " + ("FAILED" if failed else "passed"))
    return 1 if failed else 0


if __name__ == "__main__":
    ending.run("gate", main)
