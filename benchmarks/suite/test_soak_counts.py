#!/usr/bin/env python3
"""soak_counts.py: counts of a call, of short windows. SUITE_DIR: where the programs are."""

import csv
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "soak_counts.py"
PROGRAMS = pathlib.Path(os.environ["SUITE_DIR"])


class Counts(unittest.TestCase):
    def run_script(self, build, *arguments):
        return subprocess.run([sys.executable, "-B", SCRIPT, "--build", build, *arguments], capture_output=True, text=True, check=False)

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_counts_of_a_call(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            (build / "benchmarks").mkdir()
            for name in ("soak_mixed", "soak_mixed_malloc"):
                os.symlink(PROGRAMS / name, build / "benchmarks" / name)
            answer = self.run_script(build, "--windows", "1", "300", "--allocators", "tslab,jemalloc,nobody")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("nobody is not installed: left out", answer.stderr)
        row, *others = csv.DictReader(line for line in answer.stdout.splitlines() if not line.startswith("#"))
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
        with tempfile.TemporaryDirectory() as folder:
            answer = self.run_script(folder)
        self.assertEqual(answer.returncode, 3)
        self.assertIn("soak_mixed is not built: make bench", answer.stderr)


if __name__ == "__main__":
    unittest.main()
