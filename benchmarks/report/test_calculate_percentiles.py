#!/usr/bin/env python3
"""calculate_percentiles.py against answers computed by hand, and against what it must refuse."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness.testing import InFolder, script  # noqa: E402

SUITE = "allocator,size_class,op,p50_ns,p95_ns,p99_ns,p999_ns,p9999_ns,p99999_ns,max_ns,samples,round\n"


class Percentiles(InFolder):
    def rows(self, *arguments, **more):
        answer = script("report/calculate_percentiles.py", *arguments, **more)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        return [line.split() for line in answer.stdout.rstrip("\n").split("\n")[1:]]

    def test_numbers(self):
        # Rank 999 * 0.99 = 989.01: between 990 and 991. Above p99 are ten values, above p99.9 one.
        (row,) = self.rows("-", input="# a remark\n" + "".join(f"{n}\n" for n in range(1000, 0, -1)))
        self.assertEqual(row, ["-", "1000", "500.5", "900.1", "950.0", "990.0", "999.0?", "999.9?", "1000.0?", "1000",
                               "1.998", "-"])

    def test_of_the_suite_the_median_of_the_rounds(self):
        path = self.write("a.csv", SUITE + "".join(
            f"{name},{size},alloc,10,20,30,40,50,{tail},99,1000,{n}\n" for name, tails in (("tslab", (100, 300, 200)), ("malloc", (900, 600, 600)))
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
        for text, words in (("", "no number"), ("1\nx\n", "a.csv:2: the line 'x' is no number"), ("a,b\n1,2\n", "a.csv:1: the heading has no column"),
                            (SUITE, "no alloc or free of 128 bytes")):
            answer = script("report/calculate_percentiles.py", self.write("a.csv", text))
            self.refused(answer, words)
            self.assertEqual(answer.stdout, "")


if __name__ == "__main__":
    unittest.main()
