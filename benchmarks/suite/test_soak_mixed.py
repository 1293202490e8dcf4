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

# A stand-in for soak_mixed: who it is, its windows, and its end, each as the test wants them.
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
        self.assertIn("interrupted: the windows above are kept; the same command with --resume goes on", output)
        self.assertGreaterEqual(len(self.rows()), 3)

    def test_an_interrupted_soak_goes_on(self):
        command = ["--smoke", "--allocators", "tslab,malloc", "--seed", "5"]
        self.assertEqual(self.soak(*command).returncode, 0)
        whole = self.csv.read_text(encoding="utf-8").splitlines(keepends=True)
        for cut, kept in ((-1, 4), (-5, 0), (-6, 0)):  # within the last window, the first, and before it
            self.csv.write_text("".join(whole[:cut]) + "tslab,9,1e", encoding="utf-8")
            answer = self.soak(*command, "--resume")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            now = self.csv.read_text(encoding="utf-8").splitlines(keepends=True)
            self.assertEqual(now[:len(whole) - 6 + kept], whole[:len(whole) - 6 + kept])
            self.assertEqual(sorted((row["epoch"], row["allocator"]) for row in self.rows()),
                             [(str(n), name) for n in (1, 2, 3) for name in ("malloc", "tslab")])

    def test_goes_on_with_nothing_else(self):
        answer = self.soak("--smoke", "--resume")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("--resume: there is no ", answer.stderr)
        self.assertEqual(self.soak("--smoke", "--allocators", "tslab", "--seed", "5").returncode, 0)
        before = self.csv.read_text(encoding="utf-8")
        for other, words in ((["--seed", "6"], "--seed 5"), (["--seed", "5", "--window-ms", "20"], "--window-ms 10")):
            answer = self.soak("--smoke", "--allocators", "tslab", *other, "--resume")
            self.assertEqual(answer.returncode, 2)
            self.assertIn(words, answer.stderr)
        self.csv.write_text("allocator,epoch\n", encoding="utf-8")
        self.assertEqual(self.soak("--smoke", "--allocators", "tslab", "--seed", "5", "--resume").returncode, 2)
        self.csv.write_text(before, encoding="utf-8")
        self.assertEqual(self.soak("--smoke", "--allocators", "tslab", "--seed", "5", "--resume").returncode, 0)
        self.assertEqual(self.csv.read_text(encoding="utf-8"), before)

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

    def test_what_was_there_is_kept_until_another_soak_is_complete(self):
        self.csv.write_text("old windows\n", encoding="utf-8")
        with subprocess.Popen(self.command("--allocators", "tslab", "--window-ms", "20"), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as child:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and not (self.csv.exists() and self.csv.read_text().count("\n") > 8):
                time.sleep(0.02)
            child.send_signal(signal.SIGTERM)
            output, _ = child.communicate(timeout=300)
        before = self.csv.with_name("soak.csv.before")
        self.assertIn("soak.csv.before", output)
        self.assertEqual(before.read_text(encoding="utf-8"), "old windows\n")
        self.assertEqual(self.soak("--smoke", "--allocators", "tslab").returncode, 0)
        self.assertFalse(before.exists())

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
