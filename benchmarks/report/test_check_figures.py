#!/usr/bin/env python3
"""What check_figures.py says of pages and histories that are wrong in one way each."""

import pathlib
import shutil
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness.testing import InFolder, answer_of  # noqa: E402
from report import check_figures  # noqa: E402


class Stray(unittest.TestCase):
    def said(self, text, allowed=()):
        return check_figures.stray({"docs/a.md": text}, list(allowed))

    def test_figures_in_prose_and_tables_are_found(self):
        for text in ("A free takes 3.4 ns.", "| a free | 60 us |", "It takes 1,200 ns at most", "mimalloc is 2.5 times as fast",
                     "It costs 50 to 180 instructions.", "It takes 0.87 of the time.", "1.2 of the best", "for 20 ms to seconds"):
            self.assertEqual(len(self.said(text)), 1, text)
        self.assertIn("docs/a.md:3: '3 ns' looks measured", self.said("a\n\nb 3 ns")[0])

    def test_what_is_no_figure_is_not(self):
        for text in ("As many instructions as ending 1,000.", "16 KiB", "three times", "every 12 s", "p99.9 of 5", "`sample_rate` of 64",
                     "```c\nsleep(3 ns)\n```", "    build/x --ms 3 ms", "a2 ns", "1.5.3 is a version",
                     "<!-- figures: b begin (x) -->\n| 3 ns |\n<!-- figures: b end -->"):
            self.assertEqual(self.said(text), [], text)
        # the page goes on behind code and behind a block
        for before in ("```\n3 ns\n```\n", "<!-- figures: b begin (x) -->\n3 ns\n<!-- figures: b end -->\n"):
            self.assertEqual(len(self.said(before + "4 ns")), 1)

    def test_a_permission_is_of_a_page_and_is_needed(self):
        self.assertEqual(self.said("looks every 50 us", [("docs/a.md", "every 50 us", "a constant")]), [])
        self.assertEqual(len(self.said("looks every 50 us", [("docs/b.md", "every 50 us", "a constant")])), 2)
        self.assertIn("no such line any more", self.said("nothing", [("docs/a.md", "every 50 us", "a constant")])[0])


class Commit(InFolder):
    def setUp(self):
        super().setUp()
        self.root = self.folder / "tree"
        self.results = self.root / "benchmarks" / "results"
        self.results.mkdir(parents=True)
        self.git("init", "-q")
        self.commit = self.next()

    def git(self, *words):
        return answer_of(["git", "-C", self.root, "-c", "user.name=t", "-c", "user.email=t@t", *words], check=True).stdout.strip()

    def next(self):
        self.git("commit", "-q", "--allow-empty", "-m", "one more")
        return self.git("rev-parse", "--short", "HEAD")

    def file(self, name, commit, more="# date: d\n# mode: full\n"):
        (self.results / f"{name}.csv").write_text(f"# commit: {commit}\n{more}a,b\n1,2\n", encoding="utf-8")

    def said(self):
        with mock.patch.object(check_figures, "OLDEST", 2):
            return check_figures.check_commit(self.root)

    def skipped(self):
        with self.assertRaises(SystemExit) as ended:
            self.said()
        self.assertEqual(ended.exception.code, check_figures.SKIPPED)

    def test_one_commit_that_is_not_too_far_back(self):
        self.file("one", self.commit)
        self.file("two", self.commit)
        for _ in range(2):
            self.next()
            self.assertEqual(self.said(), [])
        self.next()
        self.assertIn("3 commits back, more than 2: run `make results`", self.said()[0])

    def test_several_commits_and_files_that_say_nothing(self):
        self.file("one", self.commit)
        (self.root / "script.py").write_text("", encoding="utf-8")
        self.git("add", "script.py")
        self.file("two", self.next())
        self.assertEqual(self.said(), [])  # the programs are the same
        (self.root / "program.c").write_text("", encoding="utf-8")
        self.git("add", "program.c")
        self.file("two", self.next())
        self.assertIn("of several commits", self.said()[0])
        self.file("two", self.commit, "# date: d\n")
        self.assertIn("no commit, date or mode: two.csv", self.said()[0])

    def test_a_commit_that_is_not_here(self):
        self.file("one", "0123abc")
        self.assertIn("no commit of this history", self.said()[0])
        self.file("one", f"{self.commit}+changes")
        self.assertIn("no commit of this history", self.said()[0])

    def test_where_git_cannot_tell(self):
        self.file("one", self.commit)
        self.next()
        shallow = self.root.parent / "shallow"
        answer_of(["git", "clone", "-q", "--depth", "1", f"file://{self.root}", shallow], check=True)
        shutil.copytree(self.results, shallow / "benchmarks" / "results")
        self.root = shallow
        self.skipped()
        shutil.rmtree(shallow / ".git")
        self.skipped()


if __name__ == "__main__":
    unittest.main()
