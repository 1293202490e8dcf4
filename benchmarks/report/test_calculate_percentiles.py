#!/usr/bin/env python3
"""calculate_percentiles.py against answers computed by hand, and against what it must refuse."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = BENCHMARKS / "report" / "calculate_percentiles.py"
SUITE = "allocator,size_class,op,p50_ns,p95_ns,p99_ns,p999_ns,p9999_ns,p99999_ns,max_ns,samples,round\n"


class Percentiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, text, name="a.csv"):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(text, encoding="utf-8")
        return path

    def run_script(self, *arguments, given=None):
        return subprocess.run([sys.executable, "-B", SCRIPT, *map(str, arguments)], input=given, capture_output=True, text=True,
                              check=False, timeout=300)

    def rows(self, *arguments, given=None):
        answer = self.run_script(*arguments, given=given)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        return [line.split() for line in answer.stdout.rstrip("\n").split("\n")[1:]]

    def test_numbers(self):
        # Rank 999 * 0.99 = 989.01: between 990 and 991. Above p99 are ten values, above p99.9 one.
        (row,) = self.rows("-", given="# a remark\n" + "".join(f"{n}\n" for n in range(1000, 0, -1)))
        self.assertEqual(row, ["-", "1000", "500.5", "900.1", "950.0", "990.0", "999.0?", "999.9?", "1000.0?", "1000",
                               "1.998", "-"])

    def test_a_column_by_allocator(self):
        path = self.write("op,allocator,ns\nalloc,tslab,10\nalloc,malloc,10\nalloc,tslab,20\nalloc,malloc,50\n")
        ours, theirs = self.rows("--column", "ns", path)
        self.assertEqual((ours[:4], theirs[:4]), (["tslab", "alloc", "2", "15.00?"], ["malloc", "alloc", "2", "30.00?"]))
        self.assertEqual((ours[-1], theirs[-1]), ("1.25", "1.00"))  # 50/30 over 20/15

    def test_of_the_suite_the_median_of_the_rounds(self):
        path = self.write(SUITE + "".join(f"{name},{size},alloc,10,20,30,40,50,{tail},99,1000,{n}\n"
                                          for name, tails in (("tslab", (100, 300, 200)), ("malloc", (900, 600, 600)))
                                          for size in (64, 128) for n, tail in enumerate(tails, 1)))
        ours, theirs = self.rows(path)
        self.assertEqual(ours, ["tslab", "alloc", "1000", "10.00", "-", "20.00", "30.00", "40.00", "50.00", "200.0", "99.00",
                                "20.00", "3.00"])
        self.assertEqual(theirs[-2:], ["60.00", "1.00"])

    def test_without_arguments(self):
        """Those of the results that are in the repository."""
        found = {tuple(row[:2]) for row in self.rows()}
        self.assertLessEqual({("tslab", "alloc"), ("malloc", "alloc"), ("tslab", "free"), ("malloc", "free")}, found)

    def test_refuses(self):
        for text, words in (("", "no number"), ("1\nx\n", "a.csv:2: the line 'x' is not a number"),
                            ("a,b\n1,2\n", "no column latency_ns: --column"), ("latency_ns,b\n1\n", "a.csv:2: 1 fields"),
                            ("latency_ns\n", "no line after the heading"), (SUITE, "no alloc or free of 128 bytes")):
            answer = self.run_script(self.write(text))
            self.assertEqual((answer.returncode, answer.stdout), (2, ""))
            self.assertIn(words, answer.stderr)
        answer = self.run_script(pathlib.Path(self.folder.name) / "absent")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("No such file", answer.stderr)


if __name__ == "__main__":
    unittest.main()
