#!/usr/bin/env python3
"""What `make results` refuses, what it leaves when it is killed, and what it writes: with real programs, a moment each."""

import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

BENCHMARKS = pathlib.Path(__file__).resolve().parent
ROOT = BENCHMARKS.parent
STEPS = "close_bench,fragmentation_over_time,tail_attribution"


class Tree(unittest.TestCase):
    """A copy of the pages and figures with a history of its own."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.temporary.name) / "tree"
        (self.root / "benchmarks").mkdir(parents=True)
        for name in ("README.md", ".gitignore"):
            shutil.copy(ROOT / name, self.root)
        shutil.copytree(ROOT / "docs", self.root / "docs")
        shutil.copytree(BENCHMARKS / "results", self.root / "benchmarks" / "results", ignore=lambda folder, names: [
            name for name in names if (pathlib.Path(folder) / name).is_dir()])
        (self.root / "benchmarks" / "results" / "old.csv").write_text("a\n1\n", encoding="utf-8")
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "all")

    def tearDown(self):
        self.temporary.cleanup()

    def git(self, *words):
        return subprocess.run(["git", "-C", str(self.root), "-c", "user.name=t", "-c", "user.email=t@t", *words], capture_output=True,
                              text=True, check=True).stdout

    def command(self, *arguments):
        return [sys.executable, "-B", str(BENCHMARKS / "results.py"), "--root", str(self.root), "--build",
                str(pathlib.Path(os.environ["SUITE_DIR"]).parent), *arguments]

    def results(self, *arguments):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False, timeout=300)

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
            answer = subprocess.run([sys.executable, "-B", str(BENCHMARKS / "results.py"), *arguments], capture_output=True, text=True, check=False)
            self.assertEqual(answer.returncode, 2)
            self.assertIn("they need --root", answer.stderr)

    def begin(self):
        """A run whose measuring has begun."""
        child = subprocess.Popen(self.command("--smoke", "--steps", STEPS), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in child.stderr:
            if line.startswith("[2/"):
                return child
        self.fail("it ended before it had measured anything")

    def test_a_run_in_the_background_of_a_shell_can_be_ended(self):
        child = subprocess.Popen(self.command("--smoke", "--steps", STEPS), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                 preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        for line in child.stderr:
            if line.startswith("[1/"):
                break
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
            child = self.begin()
            child.send_signal(signal.SIGSTOP)  # so that it begins no further program meanwhile
            second = self.results("--smoke")
            self.assertEqual(second.returncode, 2)
            self.assertIn(f"another make results is at work here (process {child.pid}", second.stderr)
            self.assertEqual(len(second.stderr.strip().split("\n")), 1, second.stderr)
            child.send_signal(number)
            child.send_signal(signal.SIGCONT)
            self.end_all(child)
            self.assertEqual(self.git("status", "--porcelain"), "")
            # the same command goes on: the run that was ended was in its second program, or at the end of that
            child = subprocess.run(self.command("--smoke", "--steps", STEPS), capture_output=True, text=True, check=False, timeout=300)
            self.assertIn("goes on with the interrupted run of this commit", child.stderr)
            self.assertRegex(child.stderr, r"\[1/[12]\] ")
            self.assertEqual(child.returncode, 1, child.stderr)
            self.git("checkout", "-q", "--", ".")
            self.git("clean", "-q", "-f", "-d")
            shutil.rmtree(self.root / "build")

    def test_what_it_writes(self):
        answer = self.results("--smoke", "--steps", STEPS)
        self.assertEqual(answer.returncode, 1, answer.stderr)  # not every chart, and no rows of make run
        for what in ("the rows of make run", "docs/study.md", "benchmarks/workloads/COMPARISON_RESULTS.md"):
            self.assertIn(f"NOT written, the old one stays: {what}", answer.stderr)
        results = self.root / "benchmarks" / "results"
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
        self.git("checkout", "-q", "--", ".")
        self.git("clean", "-q", "-f", "-d")
        times = (self.root / "build" / "results" / "csv" / "times.log").read_text(encoding="utf-8").splitlines()
        self.assertEqual([line.split()[0] for line in times], ["fragmentation_over_time", "tail_attribution", "close_bench", "all"])
        self.assertRegex(times[0], r" s, 1 of 1 runs, expected \d+ s$")
        answer = self.results("--smoke", "--steps", STEPS)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("measured on this commit already", answer.stderr)
        self.assertNotIn("[1/", answer.stderr)
        self.assertFalse((results / "old.csv").exists())
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "figures")
        answer = self.results("--smoke", "--steps", STEPS)  # of another commit: all of it again
        self.assertIn("[1/3] ", answer.stderr)


if __name__ == "__main__":
    unittest.main()
