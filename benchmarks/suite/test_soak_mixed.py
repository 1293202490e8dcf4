#!/usr/bin/env python3
"""soak_mixed_single_process.sh for a moment: turns, counts, interruption, bad input."""

import contextlib
import io
import os
import pathlib
import signal
import subprocess
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import run  # noqa: E402
from harness.ending import Refusal  # noqa: E402
from harness.testing import BENCHMARKS, PROGRAMS, InFolder, answer_of, until  # noqa: E402
from report import analyze_epoch_tail_csv as analyze  # noqa: E402
from report import suite_figures as figures  # noqa: E402
from suite import soak_mixed  # noqa: E402

# A stand-in for soak_mixed: its windows, and its end as the test wants it.
PROGRAM = """#!/bin/sh
case "$*" in *--identify*) echo "tslab,1.0,lib.so,optimized"; exit ;; esac
echo {header}
number=0
while read -r line; do number=$((number + 1)); echo "tslab,$number,1e6,0.01,7000,3000,280,3000,1.4,1.0"; done
{end}
"""


class Soak(InFolder):
    def setUp(self):
        super().setUp()
        self.csv = self.folder / "soak.csv"

    def stand_in(self, end=":"):
        self.program("soak_mixed", PROGRAM.format(header=soak_mixed.HEADER, end=end))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return soak_mixed.main(["--build", str(self.folder), "--csv", str(self.csv), "--smoke", "--allocators", "tslab"])

    def command(self, *arguments):
        return [BENCHMARKS / "soak_mixed_single_process.sh", "--build", PROGRAMS, "--csv", self.csv, *arguments]

    def test_the_file_says_which_run_it_is_of(self):
        self.assertEqual(self.stand_in(), 0)
        lines = self.csv.read_text(encoding="utf-8").split("\n")
        self.assertEqual([line.split(":")[0] for line in lines[:5]], ["# machine", "# command", "# date", "# allocators", "# commit"])
        self.assertEqual(lines[1], "# command: benchmarks/soak_mixed_single_process.sh --smoke --allocators tslab")
        self.assertEqual((lines[3], lines[5]), ("# allocators: tslab 1.0", soak_mixed.HEADER))
        self.assertEqual(analyze.read_windows(self.csv, {}), {"tslab": [1e6] * 3})
        self.assertEqual(len(figures.Suite(self.folder).rows("soak")), 3)

    def test_a_program_that_does_not_end(self):
        with mock.patch.object(soak_mixed, "END_S", 0.1), self.assertRaisesRegex(Refusal, "tslab: no end within 0.1 s of the last window"):
            self.stand_in("exec sleep 30")
        with self.assertRaisesRegex(Refusal, "tslab: it leaked"):
            self.stand_in("echo it leaked >&2; exit 1")

    def test_windows_in_turn(self):
        answer = answer_of(self.command("--smoke", "--allocators", "tslab,glibc"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        rows = run.read_csv(self.csv)
        self.assertEqual([(row["allocator"], row["epoch"]) for row in rows],
                         [("tslab", "1"), ("malloc", "1"), ("malloc", "2"), ("tslab", "2"), ("tslab", "3"), ("malloc", "3")])
        self.assertEqual(len({row["live_objects"] for row in rows[:2]}), 1)  # the load is the same for all
        for name in ("tslab", "malloc"):
            mine = [row for row in rows if row["allocator"] == name]
            for row in mine:
                calls = int(row["allocations"]) + int(row["frees"])
                self.assertAlmostEqual(calls / float(row["seconds"]) / float(row["throughput_ops_sec"]), 1, places=3)
                self.assertGreaterEqual(float(row["seconds"]), 0.01)
                # seven in ten slots are full on average
                self.assertTrue(220 < int(row["live_objects"]) < 340, row)
            for before, after in zip(mine, mine[1:]):
                self.assertEqual(int(before["live_objects"]) + int(after["allocations"]) - int(after["frees"]), int(after["live_objects"]))
        self.assertIn("\ntslab ", answer.stdout)

    def test_an_interruption_keeps_the_windows(self):
        with subprocess.Popen(self.command("--smoke", "--seconds", "60", "--allocators", "tslab,malloc"), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as child:
            until(lambda: self.csv.exists() and self.csv.read_text(encoding="utf-8").count("\n") > 8)
            child.send_signal(signal.SIGTERM)
            output, _ = child.communicate(timeout=300)
        self.assertEqual(child.returncode, 128 + signal.SIGTERM)
        self.assertIn("interrupted: the windows above are kept", output)
        self.assertGreaterEqual(len(run.read_csv(self.csv)), 3)

    def test_two_do_not_write_to_one_file(self):
        self.csv.write_text("what was there\n", encoding="utf-8")
        with run.lock_file(self.csv):
            answer = answer_of(self.command("--smoke"))
        self.assertEqual(answer.returncode, 2)
        self.assertIn("soak.csv is in use", answer.stderr)
        self.assertEqual(self.csv.read_text(encoding="utf-8"), "what was there\n")
        self.csv.unlink()
        os.mkfifo(self.csv)
        self.refused(answer_of(self.command("--smoke")), "soak.csv is no file that can be read again")

    def test_refuses(self):
        for words, *arguments in (("'0'", "--seconds", "0"), ("'many'", "--seconds", "many"), ("'nope'", "--allocators", "nope"),
                                  ("twice", "--allocators", "malloc,glibc"), ("''", "--allocators", ""), ("extra", "extra"),
                                  ("/nonexistent", "--build", "/nonexistent")):
            self.refused(answer_of(self.command(*arguments)), words)
            self.assertFalse(self.csv.exists(), arguments)


if __name__ == "__main__":
    unittest.main()
