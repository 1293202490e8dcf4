#!/usr/bin/env python3
"""run_bench.py with stand-in programs: turns, verdicts, failures, interruptions, bad command lines."""

import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness.testing import BENCHMARKS, InFolder, script, until  # noqa: E402
from report import bench_report as report  # noqa: E402

# A stand-in for core_bench_NAME: `figure` ns for each work, and a log of the calls.
PROGRAM = """#!/bin/sh
name={name} figure={figure}
case $1 in
    --identify) echo "$name,1.0,lib$name.so,{build}" ;;
    --list) printf 'fifo_replace\\tpair_ns\\tx\\nmixed_400\\top_ns\\tx\\n' ;;
    --work)
        echo "$name $2" >>"{log}"
        if test "$2" = "{broken}"; then echo "it broke" >&2; exit {code}; fi
        while test -e "{log}.hold" && test "$(wc -l <"{log}")" -ge "$(cat "{log}.hold")"; do sleep 0.05; done
        case $2 in
            fifo_replace) echo "$name,1.0,$2,pair_ns,$figure,ns" ;;
            mixed_400) echo "$name,1.0,$2,op_ns,$figure,ns" ;;
        esac ;;
esac
"""


class Runs(InFolder):
    def setUp(self):
        super().setUp()
        self.log, self.raw = self.folder / "log", self.folder / "x_raw.csv"
        self.arguments = ["--build", self.folder, "--out", self.folder / "x.csv"]

    def stand_in(self, name, figure, broken="-", code=1, build="optimized"):
        self.program(f"core_bench_{name}", PROGRAM.format(name=name, figure=figure, log=self.log, broken=broken, code=code, build=build))

    def run_bench(self, *arguments):
        return script("core/run_bench.py", *self.arguments, *arguments)

    def held_at(self, run, *arguments):
        """A run, whose programs stop in their so manieth call until the file that it returns is gone."""
        held = self.write("log.hold", str(run))
        child = subprocess.Popen([sys.executable, "-B", BENCHMARKS / "core" / "run_bench.py", *self.arguments, *arguments],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: self.log.exists() and self.log.read_text(encoding="utf-8").count("\n") >= run)
        return child, held

    def test_interleaves_and_compares(self):
        for name, figure in (("tslab", 8), ("glibc", 10), ("mimalloc", 20)):
            self.stand_in(name, figure)
        answer = self.run_bench("--rounds", "2")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        expected = [f"{name} {work}" for order in (["tslab", "glibc", "mimalloc"], ["glibc", "mimalloc", "tslab"])
                    for work in ("fifo_replace", "mixed_400") for name in order]
        self.assertEqual(self.log.read_text(encoding="utf-8").split("\n")[:-1], expected)
        row, = [line for line in answer.stdout.split("\n") if line.startswith("fifo_replace")]
        self.assertRegex(row, "0.800 x +0.9 x  ok$")
        self.assertIn("core_bench_jemalloc: not installed\n", answer.stdout)
        lines = (self.folder / "x.csv").read_text(encoding="utf-8").split("\n")
        self.assertTrue(lines[0].startswith("# machine: "))
        self.assertEqual(lines[1], "# command: benchmarks/run_bench.sh --rounds 2")
        self.assertIn("fifo_replace,pair_ns,ns,tslab,1.0,8,8,8,8,8,2", lines)

    def test_the_gate(self):
        works = ("--rounds", "1", "--gate", "--works")
        for name, figure in (("tslab", 8), ("glibc", 10)):
            self.stand_in(name, figure)
        answer = self.run_bench(*works, "fifo_replace,mixed_400")
        self.assertEqual(answer.returncode, 0)
        self.assertIn("judged without jemalloc, tcmalloc, mimalloc, snmalloc, google; gate: passed\n", answer.stdout)
        self.stand_in("tslab", 9.5)
        answer = self.run_bench(*works, "fifo_replace,mixed_400")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("missed or not measured: fifo_replace pair_ns\n", answer.stdout)
        self.assertIn("gate: FAILED", answer.stdout)
        self.assertEqual(self.run_bench(*works, "mixed_400").returncode, 0)
        self.assertEqual(self.run_bench("--rounds", "1", "--works", "fifo_replace").returncode, 0)
        answer = self.run_bench("--rounds", "1", "--gate")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("random_replace_100k pair_ns", answer.stdout)
        self.assertEqual(self.run_bench(*works, "fifo_replace", "--allocators", "glibc").returncode, 1)
        # a peer that fails leaves a target unmeasured; one that cannot measure here does not
        for code, expected in ((1, 1), (3, 0)):
            self.stand_in("tslab", 8)
            self.stand_in("jemalloc", 1, broken="fifo_replace", code=code)
            self.assertEqual(self.run_bench(*works, "fifo_replace").returncode, expected)

    def test_failures_are_named_and_the_rest_goes_on(self):
        self.stand_in("tslab", 8)
        self.stand_in("glibc", 10, broken="fifo_replace")
        self.stand_in("jemalloc", 10, broken="mixed_400", code=3)
        answer = self.run_bench("--rounds", "2")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("FAILED: fifo_replace, glibc: it broke", answer.stdout)
        self.assertIn("not here: mixed_400, jemalloc: it broke", answer.stdout)
        self.assertIn("mixed_400,op_ns,ns,glibc,1.0,10", (self.folder / "x.csv").read_text(encoding="utf-8"))

    def test_two_do_not_write_to_one_file(self):
        self.stand_in("tslab", 8)
        child, held = self.held_at(1, "--rounds", "1")
        other = self.run_bench("--rounds", "2")
        held.unlink()
        self.assertEqual(other.returncode, 2, other.stdout)
        self.assertIn("x_raw.csv is in use", other.stderr)
        child.communicate(timeout=300)
        self.assertEqual(child.returncode, 0)
        self.assertEqual({row["round"] for row in report.read_raw(self.raw)}, {1})

    def test_an_interruption_keeps_what_was_measured(self):
        self.stand_in("tslab", 8)
        self.stand_in("glibc", 10)
        child, held = self.held_at(5, "--rounds", "3")
        child.send_signal(signal.SIGTERM)
        held.unlink()
        output, _ = child.communicate(timeout=300)
        self.assertEqual(child.returncode, 128 + signal.SIGTERM)
        self.assertIn("interrupted: ", output)
        self.assertIn("mixed_400,op_ns,ns,tslab,1.0,8", (self.folder / "x.csv").read_text(encoding="utf-8"))
        self.assertGreaterEqual(len(report.read_raw(self.raw)), 4)

    def test_refuses(self):
        self.refused(self.run_bench(), "build the project first")
        self.stand_in("glibc", 10)
        for words, *arguments in (("'nope'", "--allocators", "nope"), ("--rounds", "--rounds", "0"), ("--rounds", "--rounds", "many"),
                                  ("the name of a file", "--out", self.folder), ("the name of a file", "--out", ""),
                                  ("--smoke makes no figures", "--smoke", "--gate")):
            self.refused(self.run_bench(*arguments), words)
        self.assertIn("'nope'", self.run_bench("--works", "nope").stderr)
        self.stand_in("glibc", 10, build="debug")
        self.refused(self.run_bench(), "debug build")
        self.stand_in("glibc", 10)
        (self.folder / "core_bench_jemalloc").symlink_to(self.folder / "core_bench_glibc")
        self.refused(self.run_bench("--rounds", "1"), "jemalloc: 'glibc,1.0,libglibc.so,optimized' is no answer")


if __name__ == "__main__":
    unittest.main()
