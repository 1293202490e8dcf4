#!/usr/bin/env python3
"""watched_bench.py: a moment of each watcher that is there, and the message about one that is not. Argument: the build directory."""

import csv
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = sys.argv.pop(1)
BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))
sys.dont_write_bytecode = True

from watched import watched_bench  # noqa: E402


class Watched(unittest.TestCase):
    def test_ours_are_measured_and_others_named_that_are_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "watched.csv"
            answer = subprocess.run([sys.executable, "-B", BENCHMARKS / "watched" / "watched_bench.py", "--smoke", "--build", BUILD,
                                     "--csv", out], capture_output=True, text=True, check=False, env={"PATH": ""})
            self.assertEqual(answer.returncode, 0, answer.stderr)
            lines = out.read_text(encoding="utf-8").splitlines()
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
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
        class Options:
            program, seconds, rounds = pathlib.Path(BUILD) / "benchmarks" / "synthetic_bench", 0.01, 1

        with self.assertRaisesRegex(watched_bench.Missing, "it left no .*, so it did not watch"):
            watched_bench.measure(Options, watched_bench.Watcher("none", "", "", {}, (), "profile*"))

    def test_costs_in_words(self):
        self.assertEqual([watched_bench.cost_text(cost) for cost in (0.99, 1.0, 1.25, 2.9, 12.4)],
                         ["-1 %", "+0 %", "+25 %", "+190 %", "12 times"])


if __name__ == "__main__":
    unittest.main()
