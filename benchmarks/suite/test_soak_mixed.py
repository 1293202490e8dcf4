#!/usr/bin/env python3
"""soak_mixed_single_process.sh with the real programs (SUITE_DIR) for a moment: turns, counts, interruption, bad input."""

import contextlib
import csv
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))

from report import analyze_epoch_tail_csv as analyze  # noqa: E402
from report import suite_figures as figures  # noqa: E402
from suite import run_all  # noqa: E402
from suite import soak_mixed  # noqa: E402

BUILD = os.environ.get("SUITE_DIR")

# A stand-in for soak_mixed: its name, its windows, and its end, each as the test wants them.
PROGRAM = """#!/bin/sh
case "$*" in *--identify*) {identify}; echo "tslab,1.0,lib.so,optimized"; exit ;; esac
echo {header}
number=0
while read -r line; do number=$((number + 1)); echo "tslab,$number,1e6,0.01,7000,3000,280,3000,1.4,1.0"; done
{end}
"""


class StandIns(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        self.csv = self.folder / "soak.csv"

    def soak(self, identify=":", end=":"):
        """The exit code, and what went to stderr."""
        program = self.folder / "soak_mixed"
        program.write_text(PROGRAM.format(header=soak_mixed.HEADER, identify=identify, end=end), encoding="utf-8")
        program.chmod(0o755)
        errors = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            try:
                code = soak_mixed.main(["--build", str(self.folder), "--csv", str(self.csv), "--smoke", "--seed", "7",
                                        "--allocators", "tslab"])
            except SystemExit as end_of_it:
                code = end_of_it.code
        return code, errors.getvalue()

    def test_the_file_says_which_run_it_is_of(self):
        self.assertEqual(self.soak()[0], 0)
        lines = self.csv.read_text(encoding="utf-8").split("\n")
        self.assertEqual([line.split(":")[0] for line in lines[:5]],
                         ["# machine", "# command", "# date", "# allocators", "# commit"])
        self.assertEqual(lines[1], "# command: benchmarks/soak_mixed_single_process.sh --window-ms 10 --seed 7 --smoke "
                         "--allocators tslab")
        self.assertEqual(lines[3], "# allocators: tslab 1.0")
        self.assertEqual(lines[5], soak_mixed.HEADER)
        windows = {}
        analyze.read_windows(self.csv, windows)
        self.assertEqual(windows, {"tslab": [1e6] * 3})
        self.assertEqual(len(figures.Suite(self.folder).rows("soak")), 3)

    def test_a_program_that_does_not_answer(self):
        with mock.patch.object(run_all, "IDENTIFY_S", 0.1):
            self.assertEqual(self.soak(identify="exec sleep 30"), (2, "soak_mixed_single_process: tslab: soak_mixed has no "
                                                                   "answer to --identify within 0.1 s\n"))
        with mock.patch.object(soak_mixed, "END_S", 0.1):
            code, errors = self.soak(end="exec sleep 30")
        self.assertEqual(code, 1)
        self.assertIn("soak_mixed_single_process: tslab: no end within 0.1 s of the last window\n", errors)


@unittest.skipUnless(BUILD, "SUITE_DIR is not set")
class Soak(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.csv = pathlib.Path(self.temporary.name) / "soak.csv"

    def tearDown(self):
        self.temporary.cleanup()

    def command(self, *arguments):
        return [str(BENCHMARKS / "soak_mixed_single_process.sh"), "--build", BUILD, "--csv", str(self.csv), *arguments]

    def soak(self, *arguments):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False, timeout=100)

    def rows(self):
        with open(self.csv, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(line for line in file if not line.startswith("# ")))

    def test_windows_in_turn(self):
        answer = self.soak("--smoke", "--allocators", "tslab,glibc")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        rows = self.rows()
        self.assertEqual([(row["allocator"], row["epoch"]) for row in rows],
                         [("tslab", "1"), ("malloc", "1"), ("malloc", "2"), ("tslab", "2"), ("tslab", "3"), ("malloc", "3")])
        for name in ("tslab", "malloc"):
            mine = [row for row in rows if row["allocator"] == name]
            for row in mine:
                calls = int(row["allocations"]) + int(row["frees"])
                self.assertAlmostEqual(calls / float(row["seconds"]) / float(row["throughput_ops_sec"]), 1, places=3)
                self.assertGreaterEqual(float(row["seconds"]), 0.01)
                # seven in ten slots are full on average
                self.assertTrue(220 < int(row["live_objects"]) < 340, row)
            for before, after in zip(mine, mine[1:]):
                self.assertEqual(int(before["live_objects"]) + int(after["allocations"]) - int(after["frees"]),
                                 int(after["live_objects"]))
        windows = {}
        analyze.read_windows(self.csv, windows)
        self.assertEqual({name: len(speeds) for name, speeds in windows.items()}, {"tslab": 3, "malloc": 3})
        self.assertIn("\ntslab ", answer.stdout)

    def test_the_load_is_the_same_for_all_and_of_the_seed(self):
        counts = []
        for seed in ("1", "1", "2"):
            self.assertEqual(self.soak("--smoke", "--allocators", "tslab,malloc", "--seed", seed).returncode, 0)
            first = [row for row in self.rows() if row["epoch"] == "1"]
            # allocations of one pass: a window has a whole number of them
            self.assertEqual(len({row["live_objects"] for row in first}), 1)
            counts.append(first[0]["live_objects"] + "," + self.rows()[2]["live_objects"])
        self.assertEqual(counts[0], counts[1])
        self.assertNotEqual(counts[0], counts[2])

    def test_an_interruption_keeps_the_windows(self):
        with subprocess.Popen(self.command("--allocators", "tslab,malloc", "--window-ms", "20"), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and not (self.csv.exists() and self.csv.read_text().count("\n") > 8):
                time.sleep(0.02)
            child.send_signal(signal.SIGTERM)
            output, _ = child.communicate(timeout=300)
        self.assertEqual(child.returncode, 128 + signal.SIGTERM)
        self.assertIn("interrupted: the windows above are kept", output)
        self.assertGreaterEqual(len(self.rows()), 3)

    def test_two_do_not_write_to_one_file(self):
        self.csv.write_text("what was there\n", encoding="utf-8")
        with soak_mixed.lock_file(self.csv):
            answer = self.soak("--smoke")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("soak.csv is in use", answer.stderr)
        self.assertEqual(self.csv.read_text(encoding="utf-8"), "what was there\n")
        self.csv.unlink()
        os.mkfifo(self.csv)
        answer = self.soak("--smoke")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("soak.csv is no file that can be read again", answer.stderr)

    def test_refuses(self):
        for arguments, words in [
            (["--seconds", "0"], "'0'"),
            (["--seconds", "many"], "'many'"),
            (["--seconds", "1", "--window-ms", "2000"], "--seconds 1"),
            (["--window-ms", "-1"], "--window-ms"),
            (["--allocators", "nope"], "'nope'"),
            (["--allocators", "malloc,glibc"], "twice"),
            (["--allocators", ""], "''"),
            (["--quick", "--smoke"], "--smoke"),
            (["--nope"], "--nope"),
            (["extra"], "extra"),
            (["--build", "/nonexistent"], "/nonexistent"),
            (["--smoke", "--allocators", "tslab", "--csv", "/nonexistent/soak.csv"], "/nonexistent/soak.csv"),
        ]:
            answer = self.soak(*arguments)
            self.assertEqual(answer.returncode, 2, arguments)
            self.assertEqual(len(answer.stderr.strip().split("\n")), 1, answer.stderr)
            self.assertIn(words, answer.stderr)
            self.assertFalse(self.csv.exists(), arguments)


if __name__ == "__main__":
    unittest.main()
