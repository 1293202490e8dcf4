#!/usr/bin/env python3
"""analyze_epoch_tail_csv.py against answers computed by hand, and against files that it must refuse."""

import contextlib
import io
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))

from report import analyze_epoch_tail_csv as analyze  # noqa: E402

SCRIPT = BENCHMARKS / "report" / "analyze_epoch_tail_csv.py"
HEAD = "allocator,epoch,throughput_ops_sec\n"
KEYS = ["windows", "throughput_p50", "throughput_p10", "throughput_p1", "throughput_p0_1", "throughput_mean",
        "throughput_stddev", "throughput_cv", "latency_ns_p50", "latency_ns_p90", "latency_ns_p99", "latency_ns_p999",
        "latency_ns_mean", "latency_ns_stddev", "latency_p99_over_p50"]


class Arithmetic(unittest.TestCase):
    def near(self, value, expected):
        self.assertTrue(math.isclose(value, expected, rel_tol=1e-12, abs_tol=1e-15), f"{value} is not {expected}")

    def test_percentiles_interpolate_linearly(self):
        # rank (n - 1) * percent / 100: 3 * 0.5 = 1.5, 3 * 0.9 = 2.7, 3 * 0.01 = 0.03
        values = [10.0, 20.0, 30.0, 50.0]
        self.near(analyze.percentile(values, 50), 25.0)
        self.near(analyze.percentile(values, 90), 44.0)
        self.near(analyze.percentile(values, 1), 10.3)
        self.near(analyze.percentile(values, 0), 10.0)
        self.near(analyze.percentile(values, 100), 50.0)
        self.near(analyze.percentile([7.0], 99.9), 7.0)

    def test_sample_deviation(self):
        # mean 5, squares 9 1 1 1 0 0 4 16 = 32, divided by 7
        self.near(analyze.sample_stddev([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), math.sqrt(32 / 7))
        self.near(analyze.sample_stddev([1e9, 1e9 + 2]), math.sqrt(2))
        self.assertEqual(analyze.sample_stddev([3.0]), 0.0)

    def test_four_windows(self):
        # 1, 2, 4 and 5 million a second are 1000, 500, 250 and 200 ns.
        f = analyze.analyze([4e6, 1e6, 5e6, 2e6])
        self.assertEqual(list(f), KEYS)
        self.assertEqual(f["windows"], 4)
        self.near(f["throughput_p50"], 3e6)           # halfway from 2 to 4
        self.near(f["throughput_p10"], 1.3e6)         # rank 0.3 between 1 and 2
        self.near(f["throughput_p1"], 1.03e6)
        self.near(f["throughput_p0_1"], 1.003e6)
        self.near(f["throughput_mean"], 3e6)
        self.near(f["throughput_stddev"], math.sqrt(10 / 3) * 1e6)  # squares 4 1 1 4
        self.near(f["throughput_cv"], math.sqrt(10 / 3) / 3)
        self.near(f["latency_ns_p50"], 375.0)         # between 250 and 500; 1e9 / throughput_p50 would be 333
        self.near(f["latency_ns_p90"], 850.0)         # rank 2.7 between 500 and 1000
        self.near(f["latency_ns_p99"], 985.0)
        self.near(f["latency_ns_p999"], 998.5)
        self.near(f["latency_ns_mean"], 487.5)        # 1e9 / throughput_mean would be 333
        # deviations 512.5 12.5 -237.5 -287.5, squares 401,875 in all
        self.near(f["latency_ns_stddev"], math.sqrt(401875 / 3))
        self.near(f["latency_p99_over_p50"], 985 / 375)

    def test_the_slow_side(self):
        # 1001 windows, one of them stalled: rank 1000 * 0.1 % = 1, the slowest but one
        f = analyze.analyze([100.0] * 1000 + [1.0])
        self.near(f["throughput_p0_1"], 100.0)
        # 501 windows: rank 0.5, halfway between the stalled one and the others
        f = analyze.analyze([100.0] * 500 + [1.0])
        self.near(f["throughput_p0_1"], 50.5)
        self.near(f["throughput_p1"], 100.0)
        self.near(f["latency_ns_p999"], (1e9 + 1e7) / 2)

    def test_a_single_window(self):
        f = analyze.analyze([2e6])
        for key in KEYS:
            expected = {"windows": 1, "throughput_stddev": 0, "throughput_cv": 0, "latency_ns_stddev": 0,
                        "latency_p99_over_p50": 1}.get(key, 2e6 if key.startswith("throughput") else 500)
            self.near(f[key], expected)

    def test_equal_windows_have_no_spread(self):
        f = analyze.analyze([3e6] * 7)
        for key in ("throughput_stddev", "throughput_cv", "latency_ns_stddev"):
            self.assertEqual(f[key], 0.0)
        self.assertEqual(f["latency_p99_over_p50"], 1.0)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "soak.csv"

    def tearDown(self):
        self.folder.cleanup()

    def write(self, data, name="soak.csv"):
        path = self.path.with_name(name)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def run_script(self, *arguments):
        command = [sys.executable, "-B", str(SCRIPT), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    def read(self, data):
        windows = {}
        analyze.read_windows(self.write(data), windows)
        return windows

    def test_a_quote_that_stays_open_is_named_where_it_begins(self):
        data = "allocator,epoch,throughput_ops_sec\na,1,5\na,2,\"5\n" + "a,3,5\n" * 50
        with self.assertRaisesRegex(analyze.InputError, "soak.csv:3: "):
            self.read(data)

    def test_reads(self):
        expected = {"tslab": [2e6, 3e6], "malloc": [1.5e6]}
        rows = ["allocator,epoch,throughput_ops_sec", "tslab,1,2000000", "malloc,1,1.5e6", "tslab,2,3000000.0"]
        for data in [
            "\n".join(rows) + "\n",
            "\n".join(rows),
            "\r\n".join(rows) + "\r\n",
            "\r".join(rows) + "\r",
            b"\xef\xbb\xbf" + "\r\n".join(rows).encode(),
            "# a line about the machine\n" + "\n".join(rows) + "\n\n",
            "epoch,rss_kib,throughput_ops_sec,allocator\n1,7,2e6,tslab\n1,,+1500000,malloc\n2,x,.3e7,tslab\n",
            'allocator, epoch , throughput_ops_sec\n"tslab", 1 , 2000000 \n"malloc",1,1500000.\n"tslab",2,"3000000"\n',
        ]:
            self.assertEqual(self.read(data), expected, data)

    def test_a_file_of_one_allocator_goes_by_its_name(self):
        path = self.write("# of one\nepoch,seconds,throughput_ops_sec\n1,1,2e6\n2,1,4e6\n", "mine.csv")
        answer = self.run_script("--json", path)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(json.loads(answer.stdout), {"mine": analyze.analyze([2e6, 4e6])})

    def test_refuses_and_names_file_and_line(self):
        for data, line, words in [
            ("", 1, "empty"),
            ("\n \n", 1, "empty"),
            (HEAD, 1, "no window"),
            (HEAD + "\n\n", 3, "no window"),
            ("# only a comment\n", 1, "no heading"),
            ("allocator,epoch\na,1\n", 1, "throughput_ops_sec"),
            ("allocator,throughput_ops_sec\na,1\n", 1, "no column epoch"),
            ("# x\nallocator,epoch\na,1\n", 2, "no column throughput_ops_sec"),
            ("a,1,5\n", 1, "no column epoch, throughput_ops_sec"),
            ("allocator,epoch,epoch,throughput_ops_sec\na,1,1,1\n", 1, "2 times"),
            (HEAD + "a,1,fast\n", 2, "'fast'"),
            (HEAD + "a,1,5\na,2,\n", 3, "throughput_ops_sec is empty"),
            (HEAD + "a,1,5\r\na,2,0\r\n", 3, "not above zero"),
            (HEAD + "a,1,-3\n", 2, "not above zero"),
            (HEAD + "a,1,-0.0\n", 2, "not above zero"),
            (HEAD + "a,1,nan\n", 2, "'nan'"),
            (HEAD + "a,1,inf\n", 2, "'inf'"),
            (HEAD + "a,1,Infinity\n", 2, "'Infinity'"),
            (HEAD + "a,1,1e999\n", 2, "too large"),
            (HEAD + "a,1,1e-320\n", 2, "not between"),
            (HEAD + "a,1,1e300\n", 2, "not between"),
            (HEAD + "a,1,1_000\n", 2, "'1_000'"),
            (HEAD + "a,1,0x10\n", 2, "'0x10'"),
            (HEAD + "a,1,1 000\n", 2, "'1 000'"),
            (HEAD + "a,1,\u0661\u0662\n", 2, "is not a number"),
            (HEAD + "a,one,5\n", 2, "epoch 'one'"),
            (HEAD + "a,,5\n", 2, "epoch is empty"),
            (HEAD + "a,nan,5\n", 2, "epoch 'nan'"),
            (HEAD + ",1,5\n", 2, "allocator"),
            (HEAD + "a\0b,1,5\n", 2, ""),
            (HEAD + "a,1\n", 2, "2 fields"),
            (HEAD + "a,1,5,6\n", 2, "4 fields"),
            (HEAD + "a,1,5\n# b\n", 3, "1 fields"),
            (HEAD + "a,1,5\n" + HEAD + "b,1,5\n", 3, "'epoch'"),
            (HEAD + 'a,1,"5\n', 2, ""),
            (HEAD.encode() + b"a,1,5\n\xff\xfe,1,5\n", 3, "UTF-8"),
            (HEAD.encode("utf-16"), 1, "UTF-8"),
        ]:
            path = self.write(data)
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), self.assertRaises(SystemExit) as end:
                analyze.main(["--json", str(path)])
            self.assertEqual(end.exception.code, 2, data)
            self.assertEqual(out.getvalue(), "", data)
            self.assertEqual(len(err.getvalue().strip().split("\n")), 1, err.getvalue())
            self.assertIn(f"{path}:{line}: ", err.getvalue(), data)
            self.assertIn(words, err.getvalue(), data)

    def test_bad_files_and_command_lines(self):
        good = self.write(HEAD + "a,1,5\n")
        link = self.path.with_name("link.csv")
        link.symlink_to(good)
        for arguments, words in [
            ([], "FILE"),
            (["--nope", good], "--nope"),
            ([self.path.with_name("absent.csv")], "absent.csv"),
            ([good, self.path.with_name("absent.csv")], "absent.csv"),
            ([self.folder.name], self.folder.name),
            ([good, good], f"{good}: given twice\n"),
            ([good, link], f"{link}: given twice, as {good} too\n"),
        ]:
            answer = self.run_script(*arguments)
            self.assertEqual(answer.returncode, 2, arguments)
            self.assertEqual(answer.stdout, "")
            self.assertEqual(len(answer.stderr.strip().split("\n")), 1, answer.stderr)
            self.assertIn(words, answer.stderr)

    def test_json(self):
        one = self.write(HEAD + "tslab,1,1e6\nmalloc,1,3e6\ntslab,2,2e6\n", "one.csv")
        two = self.write(HEAD + "tslab,1,4e6\ntslab,2,5e6\n", "two.csv")
        answer = self.run_script("--json", one, two)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        figures = json.loads(answer.stdout)
        self.assertEqual(list(figures), ["tslab", "malloc"])
        for name in figures:
            self.assertEqual(list(figures[name]), KEYS)
        self.assertEqual(figures["tslab"], analyze.analyze([1e6, 2e6, 4e6, 5e6]))
        self.assertEqual(figures["malloc"]["windows"], 1)

    def test_table(self):
        path = self.write(HEAD + "tslab,1,1e6\ntslab,2,2e6\ntslab,3,4e6\ntslab,4,5e6\nmalloc,1,2e6\n")
        answer = self.run_script(path)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        heading, ours, theirs = answer.stdout.rstrip("\n").split("\n")
        self.assertTrue(heading.startswith("allocator  windows"))
        self.assertEqual(ours.split(), ["tslab", "4", "3.000", "1.300", "1.030", "1.003", "3.000", "1.826", "60.86",
                                        "%", "375.0", "850.0", "985.0", "998.5", "487.5", "366.0", "2.627"])
        self.assertEqual(theirs.split(), ["malloc", "1", *["2.000"] * 5, "-", "-", *["500.0"] * 5, "-", "1.000"])

    def test_a_name_that_the_output_cannot_spell(self):
        path = self.write(HEAD + "tsl\u00e4b,1,1e6\n")
        answer = subprocess.run([sys.executable, "-B", SCRIPT, path], capture_output=True, text=True, check=False,
                                env={**os.environ, "PYTHONIOENCODING": "ascii"})
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.assertIn("\ntsl\\xe4b ", answer.stdout)

    @unittest.skipUnless(pathlib.Path("/dev/full").is_char_device(), "no /dev/full")
    def test_an_output_that_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder, open("/dev/full", "w", encoding="utf-8") as full:
            path = pathlib.Path(folder) / "soak.csv"
            path.write_text(HEAD + "a,1,10\n", encoding="utf-8")
            answer = subprocess.run([sys.executable, "-B", SCRIPT, path], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(answer.returncode, 2)
        self.assertEqual(answer.stderr, "analyze_epoch_tail_csv: standard output: No space left on device\n")


if __name__ == "__main__":
    unittest.main()
