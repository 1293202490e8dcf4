#!/usr/bin/env python3
"""study.py: its arithmetic."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness.testing import InFolder  # noqa: E402
from report import study  # noqa: E402
from report import suite_figures as figures  # noqa: E402


class Study(InFolder):
    def setUp(self):
        super().setUp()
        # Ours has half of mimalloc's speed, but for one window.
        speeds = {"tslab": [1e6, 2e6, 3e6, 8e6], "mimalloc": [2e6, 4e6, 6e6, 8e6]}
        self.write("soak.csv", "allocator,epoch,throughput_ops_sec\n" + "".join(
            f"{name},{n},{speed}\n" for name, values in speeds.items() for n, speed in enumerate(values, 1)))
        self.suite = figures.Suite(self.folder)

    def cells(self, lines):
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]

    def test_the_tail_of_a_throughput_is_its_low_side(self):
        ours = self.cells(study.throughput_block(self.suite, {}))[0]
        self.assertEqual(ours[:3] + ours[-2:], ["temporal-slab", "2.500", "-", "1.000", "8.000"])
        ours = self.cells(study.time_block(self.suite, {}))[0]
        self.assertEqual(ours[:3] + ours[-2:], ["temporal-slab", "416.7", "-", "125.0", "1000"])
        _, slow_first = study.spread({"tslab": [float(n) for n in range(1, 12)]}, 1, True)
        _, fast_first = study.spread({"tslab": [float(n) for n in range(1, 12)]}, 1, False)
        self.assertEqual((slow_first[1:5], fast_first[1:5]), (["6.000", "2.000", "-", "-"], ["6.000", "10.00", "-", "-"]))

    def test_a_percentile_that_no_window_lies_beyond_is_not_shown(self):
        self.assertEqual(study.beyond(self.suite)[1], "4 windows each. Beyond p90 and p99 and p99.9 there is less than one: that is the slowest "
                         "window.")

    def test_conclusions_follow_from_the_figures(self):
        names = ("tslab", "malloc", "jemalloc", "mimalloc")
        self.write("soak.csv", "allocator,epoch,throughput_ops_sec\n" + "".join(
            f"{name},{n},{100 + (n - 2) * spread}\n" for spread, name in enumerate(names, 1) for n in (1, 2, 3)))
        for misses, verdict in (((1, 2, 3, 4), "1.0 over 4 allocators."), ((4, 3, 2, 1), "-1.0 over 4 allocators, so they do not explain it.")):
            self.write("soak_counts.csv", "allocator,instructions,accesses,l1_misses,mispredicts\n" + "".join(
                f"{name},1,{at},{at},{at}\n" for name, at in zip(names, misses)))
            lines = study.calls_block(figures.Suite(self.folder), {})
            self.assertIn(f"- More misses, more uneven: rank correlation {verdict}", lines)
            self.assertIn("- More instructions, more uneven: all have as many.", lines)

    def test_shares_of_variances_are_less_than_of_deviations(self):
        by_deviation, by_variance = (float(share.rstrip(" %")) for share in study.shares(study.speeds_of(self.suite)))
        self.assertAlmostEqual(by_variance / 100, (by_deviation / 100) ** 2, delta=0.02)

    def test_order_and_traps(self):
        self.assertEqual(study.order_block(self.suite, {})[2], "- temporal-slab beside mimalloc: median 0.50, cv 1.72.")
        middle = self.cells(study.traps_block(self.suite, {}))[5]
        # Quotients of the times: 2, 2, 2, 1. Medians of the times: 416.7 and 208.3.
        self.assertEqual(middle[1:], ["2.000", "2.000"])
        self.assertAlmostEqual(study.correlation([1, 2, 3], [2, 4, 6]), 1)
        self.assertAlmostEqual(study.correlation([1, 2, 3], [6, 4, 2]), -1)

    def test_a_figure_that_is_not_there_is_said(self):
        rows = self.cells(study.guarantees_block(self.suite, {}))
        self.assertEqual(len(rows), len(study.GUARANTEED))
        self.assertEqual({row[2] for row in rows}, {"not measured"})


if __name__ == "__main__":
    unittest.main()
