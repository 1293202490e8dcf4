#!/usr/bin/env python3
"""soak_counts.py: counts of a call, of short windows."""

import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import run  # noqa: E402
from harness.testing import PROGRAMS, InFolder, script  # noqa: E402


class Counts(InFolder):
    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_counts_of_a_call(self):
        out = self.folder / "counts.csv"
        answer = script("suite/soak_counts.py", "--build", PROGRAMS, "--windows", "1", "300", "--allocators", "tslab,jemalloc,google", "--csv", out)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stderr, "google is (not installed: )?left out")
        row, *others = run.read_csv(out)
        self.assertEqual(row["allocator"], "tslab")
        # valgrind counts preloaded libraries, not a program that only starts another one
        for other in others:
            self.assertEqual(other["allocator"], "jemalloc")
            self.assertTrue(40 < float(other["instructions"]) < 120 and other["instructions"] != row["instructions"], other)
        # A call with its part of the loop: tens of instructions, half of them accesses, a miss now and then.
        self.assertTrue(20 < float(row["instructions"]) < 120, row)
        self.assertTrue(10 < float(row["accesses"]) < float(row["instructions"]), row)
        self.assertTrue(0 < float(row["l1_misses"]) < 5, row)
        self.assertTrue(0 < float(row["mispredicts"]) < 5, row)

    def test_without_the_programs(self):
        self.refused(script("suite/soak_counts.py", "--build", self.folder), "no soak_mixed in", "build the project first")


if __name__ == "__main__":
    unittest.main()
