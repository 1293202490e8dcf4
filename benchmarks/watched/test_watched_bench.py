#!/usr/bin/env python3
"""watched_bench.py: a moment of each watcher that is there, and the message about one that is not."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import run  # noqa: E402
from harness.testing import PROGRAMS, InFolder, script  # noqa: E402
from watched import watched_bench  # noqa: E402


class Watched(InFolder):
    def test_ours_are_measured_and_others_named_that_are_not_there(self):
        out = self.folder / "watched.csv"
        answer = script("watched/watched_bench.py", "--smoke", "--build", PROGRAMS, "--csv", out, env={"PATH": ""})
        self.assertEqual(answer.returncode, 0, answer.stderr)
        rows = run.read_csv(out)
        names = [row["watcher"] for row in rows]
        self.assertEqual(names[:2], ["temporal-slab: statistics page", "temporal-slab: sampled stacks"])
        for row in rows:
            self.assertGreater(float(row["unwatched_ns"]), 0)
            self.assertGreater(float(row["watched_ns"]), 0)
            self.assertIn(row["watcher"], answer.stdout)
        # heaptrack and valgrind are found in PATH, which is empty here.
        self.assertEqual([name for name in names if name in ("heaptrack", "massif")], [])
        self.assertIn("left out: heaptrack: heaptrack is not installed (heaptrack)", answer.stderr)
        self.assertIn("left out: massif: valgrind is not installed (valgrind)", answer.stderr)

    def test_a_watcher_that_did_not_watch_is_none(self):
        with self.assertRaisesRegex(run.Missing, "it left no .*, so it did not watch"):
            watched_bench.once(PROGRAMS / "synthetic_bench", 0.01, watched_bench.Watcher("none", "malloc", "", {}, (), "profile*"), True)

    def test_costs_in_words(self):
        self.assertEqual([watched_bench.cost_text(cost) for cost in (0.99, 1.0, 1.25, 2.9, 12.4)],
                         ["-1 %", "+0 %", "+25 %", "+190 %", "12 times"])


if __name__ == "__main__":
    unittest.main()
