#!/usr/bin/env python3
"""What `make results` refuses, what it leaves when it is killed, and what it writes: with real programs, a moment each."""

import fcntl
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from harness.testing import BENCHMARKS, PROGRAMS, InFolder, answer_of, script  # noqa: E402

ROOT = BENCHMARKS.parent
STEPS = "close_bench,fragmentation_over_time,tail_attribution"


class Tree(InFolder):
    """A copy of the pages and figures with a history of its own."""

    def setUp(self):
        super().setUp()
        self.root = self.folder / "tree"
        self.results_of = self.root / "benchmarks" / "results"
        for name in ("README.md", ".gitignore", "benchmarks/workloads/COMPARISON_RESULTS.md"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        shutil.copytree(ROOT / "docs", self.root / "docs")
        self.results_of.mkdir()
        for path in (BENCHMARKS / "results").glob("*.csv"):
            shutil.copy(path, self.results_of)
        self.write("tree/benchmarks/results/old.csv", "a\n1\n")
        self.git("init", "-q")
        self.commit()

    def git(self, *words):
        return answer_of(["git", "-C", self.root, "-c", "user.name=t", "-c", "user.email=t@t", *words], check=True).stdout

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "all")

    def back(self):
        self.git("checkout", "-q", "--", ".")
        self.git("clean", "-q", "-f", "-d")

    def command(self, *arguments):
        return [sys.executable, "-B", BENCHMARKS / "results.py", "--root", self.root, "--build", PROGRAMS.parent, *arguments]

    def results(self, *arguments):
        return answer_of(self.command(*arguments))

    def test_a_tree_that_differs_from_its_commit(self):
        (self.root / "README.md").write_text("changed\n", encoding="utf-8")
        (self.root / "docs" / "new.md").touch()
        answer = self.results("--smoke", "--steps", STEPS)
        self.assertEqual(answer.returncode, 2)
        self.assertIn("the tree differs from its commit: README.md, docs/new.md. Commit it", answer.stderr)
        self.assertFalse((self.root / "build").exists())
        shutil.rmtree(self.root / ".git")
        answer = self.results("--smoke")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("no git history", answer.stderr)

    def test_figures_that_are_none_do_not_go_into_the_project(self):
        for arguments in (["--smoke"], ["--quick", "--steps", "soak"]):
            self.refused(script("results.py", *arguments), "they need --root")

    def begin(self, number, **more):
        """A run whose measuring has come to this program."""
        child = subprocess.Popen(self.command("--smoke", "--steps", STEPS), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more)
        self.assertTrue(any(line.startswith(f"[{number}/") for line in child.stderr), "it ended before it had measured anything")
        return child

    def test_a_run_in_the_background_of_a_shell_can_be_ended(self):
        child = self.begin(1, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        child.send_signal(signal.SIGTERM)
        said = child.stderr.read()
        self.assertRegex(said, r"interrupted: [0-2] of 3 runs are finished and kept")
        self.assertEqual(child.wait(), 128 + signal.SIGTERM, said)

    def end_all(self, child):
        """Until nobody holds the lock any more: also what a killed run left behind."""
        child.stderr.close()
        child.wait()
        with open(self.root / "build" / "results" / "lock", encoding="ascii") as held:
            fcntl.flock(held, fcntl.LOCK_EX)

    def test_interrupted_and_killed_it_leaves_what_was_there(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            child = self.begin(2)
            child.send_signal(signal.SIGSTOP)  # so that it begins no further program meanwhile
            self.refused(self.results("--smoke"), f"another make results is at work here (process {child.pid}")
            child.send_signal(number)
            child.send_signal(signal.SIGCONT)
            self.end_all(child)
            self.assertEqual(self.git("status", "--porcelain"), "")
            # the same command goes on: the run that was ended was in its second program, or at the end of that
            again = self.results("--smoke", "--steps", STEPS)
            self.assertIn("goes on with the interrupted run of this commit", again.stderr)
            self.assertRegex(again.stderr, r"\[1/[12]\] ")
            self.assertEqual(again.returncode, 1, again.stderr)
            self.back()
            shutil.rmtree(self.root / "build")

    def test_what_it_writes(self):
        answer = self.results("--smoke", "--steps", STEPS)
        self.assertEqual(answer.returncode, 1, answer.stderr)  # not every chart, and no rows of make run
        for what in ("the picture of make run", "a chart", "docs/study.md: soak_", "benchmarks/workloads/COMPARISON_RESULTS.md: comparison"):
            self.assertIn(f"NOT written, the old one stays: {what}", answer.stderr)
        results = self.results_of
        self.assertEqual({path.name for path in results.glob("*.csv")},
                         {"run.csv", "close_bench.csv", "fragmentation_over_time.csv", "tail_attribution.csv", "all_figures.csv", "aims.csv"})
        for path in results.glob("*.csv"):
            head = path.read_text(encoding="utf-8").split("\n")[:7]
            self.assertIn("# mode: smoke", head, path)
            self.assertEqual(len([line for line in head if line.startswith("# commit: ")]), 1, path)
        self.assertFalse((results / "mixed").exists())
        self.assertIn("**A smoke run: less work", (self.root / "docs" / "results.md").read_text(encoding="utf-8"))
        self.assertIn("**A smoke run: less work", (self.root / "README.md").read_text(encoding="utf-8"))
        # once more from the measured figures, of the same commit only
        self.back()
        times = (self.root / "build" / "results" / "csv" / "times.log").read_text(encoding="utf-8").splitlines()
        self.assertEqual([line.split()[0] for line in times], ["fragmentation_over_time", "tail_attribution", "close_bench", "all"])
        self.assertRegex(times[0], r" s, 1 of 1 runs, expected \d+ s$")
        answer = self.results("--smoke", "--steps", STEPS)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("measured on this commit already", answer.stderr)
        self.assertNotIn("[1/", answer.stderr)
        self.assertFalse((results / "old.csv").exists())
        self.commit()
        answer = self.results("--smoke", "--steps", STEPS)  # of another commit: all of it again
        self.assertIn("[1/3] ", answer.stderr)


if __name__ == "__main__":
    unittest.main()
