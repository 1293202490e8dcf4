#!/usr/bin/env python3
"""analyze_epoch_tail_csv.py against answers computed by hand, and against files that it must refuse."""

import json
import math
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness.testing import InFolder, script  # noqa: E402
from report import analyze_epoch_tail_csv as analyze  # noqa: E402

SCRIPT = "report/analyze_epoch_tail_csv.py"
HEAD = "allocator,epoch,throughput_ops_sec\n"
KEYS = ["windows", "throughput_p50", "throughput_p10", "throughput_p1", "throughput_p0_1", "throughput_mean",
        "throughput_stddev", "throughput_cv", "latency_ns_p50", "latency_ns_p90", "latency_ns_p99", "latency_ns_p999",
        "latency_ns_mean", "latency_ns_stddev", "latency_p99_over_p50"]


class Arithmetic(unittest.TestCase):
    def near(self, figures, *expected):
        for key, value in zip(KEYS, expected):
            self.assertTrue(math.isclose(figures[key], value, rel_tol=1e-12, abs_tol=1e-15), f"{key}: {figures[key]} is not {value}")

    def test_four_windows(self):
        # 1, 2, 4 and 5 million a second are 1000, 500, 250 and 200 ns.
        f = analyze.analyze([4e6, 1e6, 5e6, 2e6])
        self.assertEqual(list(f), KEYS)
        # p50 halfway from 2 to 4, p10 rank 0.3 between 1 and 2; the deviation of squares 4 1 1 4. Of the latencies p50 between 250 and 500
        # (1e9 / throughput_p50 would be 333), p90 rank 2.7 between 500 and 1000, the deviation of squares that are 401,875 in all.
        self.near(f, 4, 3e6, 1.3e6, 1.03e6, 1.003e6, 3e6, math.sqrt(10 / 3) * 1e6, math.sqrt(10 / 3) / 3, 375, 850, 985, 998.5, 487.5,
                  math.sqrt(401875 / 3), 985 / 375)

    def test_the_slow_side(self):
        # 1001 windows, one of them stalled: rank 1000 * 0.1 % = 1, the slowest but one
        self.assertEqual(analyze.analyze([100.0] * 1000 + [1.0])["throughput_p0_1"], 100)
        # 501 windows: rank 0.5, halfway between the stalled one and the others
        f = analyze.analyze([100.0] * 500 + [1.0])
        self.assertEqual((f["throughput_p0_1"], f["throughput_p1"], round(f["latency_ns_p999"])), (50.5, 100, (1e9 + 1e7) / 2))

    def test_windows_without_a_spread(self):
        self.near(analyze.analyze([2e6]), 1, *[2e6] * 5, 0, 0, *[500] * 5, 0, 1)
        self.near(analyze.analyze([2e6] * 7), 7, *[2e6] * 5, 0, 0, *[500] * 5, 0, 1)


class Files(InFolder):
    def test_reads(self):
        rows = ["allocator,epoch,throughput_ops_sec", "tslab,1,2000000", "malloc,1,1.5e6", "tslab,2,3000000.0"]
        for text in ("\n".join(rows) + "\n", "\n".join(rows), "\ufeff" + "\r\n".join(rows) + "\r\n",
                     "# a line about the machine\n" + "\n".join(rows) + "\n\n",
                     "epoch,rss_kib,throughput_ops_sec,allocator\n1,7,2e6,tslab\n1,,+1500000,malloc\n2,x,.3e7,tslab\n",
                     'allocator,epoch,throughput_ops_sec\n"tslab",1,2000000\n"malloc",1,1500000.\n"tslab",2,"3000000"\n'):
            self.assertEqual(analyze.read_windows(self.write("soak.csv", text), {}), {"tslab": [2e6, 3e6], "malloc": [1.5e6]}, text)

    def test_a_file_of_one_allocator_goes_by_its_name(self):
        one = self.write("mine.csv", "# of one\nepoch,seconds,throughput_ops_sec\n1,1,2e6\n2,1,4e6\n")
        two = self.write("two.csv", HEAD + "mine,1,1e6\nmalloc,1,3e6\n")
        answer = script(SCRIPT, "--json", one, two)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        figures = json.loads(answer.stdout)
        self.assertEqual(figures, {"mine": analyze.analyze([2e6, 4e6, 1e6]), "malloc": analyze.analyze([3e6])})

    def test_table(self):
        path = self.write("soak.csv", HEAD + "tslab,1,1e6\ntslab,2,2e6\ntslab,3,4e6\ntslab,4,5e6\nmalloc,1,2e6\n")
        answer = script(SCRIPT, path)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        heading, ours, theirs = answer.stdout.rstrip("\n").split("\n")
        self.assertTrue(heading.startswith("allocator  windows"))
        self.assertEqual(ours.split(), ["tslab", "4", "3.000", "1.300", "1.030", "1.003", "3.000", "1.826", "60.86",
                                        "%", "375.0", "850.0", "985.0", "998.5", "487.5", "366.0", "2.627"])
        self.assertEqual(theirs.split(), ["malloc", "1", *["2.000"] * 5, "-", "-", *["500.0"] * 5, "-", "1.000"])

    def test_refuses(self):
        good = self.write("good.csv", HEAD + "a,1,5\n")
        link = self.folder / "link.csv"
        link.symlink_to(good)
        for words, *arguments in (("FILE", ), ("absent.csv: No such file", self.folder / "absent.csv"), ("soak.csv:2: ", self.write(
                "soak.csv", HEAD + "a,1,0\n")), (f"{good}: given twice", good, good), (f"{link}: given twice", good, link),
                ("no window after the heading", self.write("empty.csv", HEAD))):
            answer = script(SCRIPT, *arguments)
            self.refused(answer, words)
            self.assertEqual(answer.stdout, "")

    def test_outputs_that_cannot_spell_a_name_or_be_written(self):
        path = self.write("soak.csv", HEAD + "tsl\u00e4b,1,1e6\n")
        answer = script(SCRIPT, path, env={**os.environ, "PYTHONIOENCODING": "ascii"})
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.assertIn("\ntsl\\xe4b ", answer.stdout)
        with open("/dev/full", "w", encoding="utf-8") as full:
            answer = script(SCRIPT, path, stdout=full, stderr=subprocess.PIPE, capture_output=False)
        self.assertEqual((answer.returncode, answer.stderr), (2, "analyze_epoch_tail_csv: standard output: No space left on device\n"))
        reader, writer = os.pipe()
        os.close(reader)
        answer = script(SCRIPT, path, stdout=writer, stderr=subprocess.PIPE, capture_output=False)
        os.close(writer)
        self.assertEqual((answer.returncode, answer.stderr), (141, ""))


if __name__ == "__main__":
    unittest.main()
