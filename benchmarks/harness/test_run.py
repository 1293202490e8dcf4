#!/usr/bin/env python3
"""The runner: turns, command lines, files and the lines about a run; and of every script its help and its word before a file is replaced."""

import pathlib
import shutil
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import machine, run  # noqa: E402
from harness.ending import Refusal  # noqa: E402
from harness.testing import BENCHMARKS, InFolder, answer_of, script  # noqa: E402


class Runner(InFolder):
    def test_each_round_begins_with_another_name(self):
        calls = []
        found = run.in_turns(["a", "b", "c"], 4, lambda name, number: calls.append(name) or number)
        self.assertEqual("".join(calls), "abcbcacababc")
        self.assertEqual(found, {name: [0, 1, 2, 3] for name in "abc"})

    def test_quantiles_interpolate(self):
        self.assertEqual(run.median([5, 1, 3]), 3)
        self.assertEqual(run.median([4, 1, 2, 10]), 3)
        self.assertEqual(run.quantile([10, 20, 30, 40], 0.25), 17.5)
        self.assertEqual((run.quantile([7], 0.75), run.quantile([1, 2], 1.0)), (7, 2))
        self.assertEqual((run.range_of([1, 2, 3, 4, 100]), run.range_of([7])), ((3, 2), (7, 0)))
        # mean 5, squares 9 1 1 1 0 0 4 16 = 32, divided by 7
        self.assertAlmostEqual(run.deviation([2, 4, 4, 4, 5, 5, 7, 9]), (32 / 7) ** 0.5, places=12)
        self.assertEqual(run.deviation([3.0]), 0)
        self.assertAlmostEqual(run.geometric_mean([1, 4]), 2)

    def test_names_on_a_command_line(self):
        self.assertEqual(run.choose("b,a", ["a", "b", "c"], "letter"), ["b", "a"])
        self.assertEqual(run.choose(None, ["a", "b"], "letter"), ["a", "b"])
        for text, words in (("d", "unknown letter 'd'"), ("", "unknown letter ''"), ("a,b,a", "'a' is there twice")):
            with self.assertRaisesRegex(Refusal, words):
                run.choose(text, ["a", "b"], "letter")

    def test_each_program_proves_which_allocator_it_has(self):
        def identify(says, **more):
            self.program("tslab", f"#!/bin/sh\n{says}\n")
            return run.identify(lambda name: [self.folder / name], ["tslab"], **more)

        self.assertEqual(identify("echo tslab,1.0,lib.so,optimized"), ({"tslab": ("1.0", "lib.so")}, []))
        self.assertEqual(identify("echo it is not here >&2; exit 2"), ({}, ["tslab"]))
        self.assertEqual(run.identify(lambda name: None, ["tslab"]), ({}, ["tslab"]))
        for says, more, words in (("echo malloc,1.0,lib.so,optimized", {}, "tslab: 'malloc,1.0,lib.so,optimized' is no answer"),
                                  ("echo it is not here >&2; exit 2", {"required": ["tslab"]}, "tslab: it is not here"),
                                  ("echo it broke >&2; exit 1", {}, "it broke"), ("echo tslab,1,l,debug", {}, "debug build"),
                                  ("exec sleep 30", {}, "no answer to --identify within 0.1 s")):
            with self.assertRaisesRegex(Refusal, words), mock.patch.object(run, "IDENTIFY_S", 0.1 if "sleep" in says else 60):
                identify(says, **more)
        self.assertEqual(identify("echo tslab,1,l,debug", debug=True)[0]["tslab"].version, "1")

    def test_a_file_is_there_whole_or_not_at_all(self):
        path = self.folder / "a.csv"
        link = self.folder / "link.csv"
        link.symlink_to(path)
        run.write_csv(link, ["machine: x", "date: y"], ["a", "b"], [[1, "2, 3"]])
        self.assertEqual(path.read_text(encoding="utf-8"), '# machine: x\n# date: y\na,b\n1,"2, 3"\n')
        self.assertEqual((run.header_of(path), run.read_csv(path)), ({"machine": "x", "date": "y"}, [{"a": "1", "b": "2, 3"}]))
        with self.assertRaises(ZeroDivisionError):
            run.write_csv(path, [], ["a"], ([1 / n] for n in (1, 0)))
        self.assertEqual(run.read_csv(path)[0]["a"], "1")
        self.assertTrue(link.is_symlink())

    def test_a_table(self):
        self.assertEqual(run.aligned([["name", "n", ""], ["a", "10", "said"], ["long name", "7", ""]]),
                         ["name        n", "a          10  said", "long name   7"])


class About(InFolder):
    """The lines about a run."""

    def test_compiler_and_flags_are_those_of_the_build(self):
        self.assertEqual(machine.built_with(self.folder), "")
        self.write("CMakeFiles/3.25.1/CMakeCCompiler.cmake", 'set(CMAKE_C_COMPILER_ID "GNU")\nset(CMAKE_C_COMPILER_VERSION "12.2.0")\n')
        self.write("CMakeCache.txt", "CMAKE_BUILD_TYPE:STRING=Release\nCMAKE_C_FLAGS:STRING=-march=native\nCMAKE_C_FLAGS_RELEASE:STRING=-O2 -g\n")
        self.assertEqual(machine.built_with(self.folder), "GNU 12.2.0 -march=native -O2 -g")

    def test_the_line_has_governor_and_affinity(self):
        with mock.patch.object(machine.os, "sched_getaffinity", lambda _: {0, 1, 2, 6}):
            self.assertRegex(machine.describe(), r", 4 processors \(0-2,6\), governor [a-z ]+, \d+ GiB, Linux ")
        self.assertRegex(machine.about("x --y", {"tslab": "1"}, ["google"])[3], "^allocators: tslab 1, google not installed$")

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_the_commit_is_of_what_was_measured(self):
        def git(*words):
            return answer_of(["git", "-C", self.folder, "-c", "user.name=n", "-c", "user.email=e@example.org", *words], check=True).stdout.strip()

        with mock.patch.object(machine, "ROOT", self.folder):
            self.assertEqual(machine.commit(), "unknown")
            for name in ("src/a.c", "benchmarks/b.py", "benchmarks/core/b.h", "benchmarks/results/c.csv", "docs/d.md"):
                self.write(name, "one")
            self.write(".gitignore", "*.o\n")
            git("init", "-q")
            git("add", "-A")
            git("commit", "-q", "-m", "m")
            commit = git("rev-parse", "--short", "HEAD")
            for name in ("benchmarks/results/c.csv", "docs/d.md", "benchmarks/results/new.csv", "docs/new.md", "src/new.o"):
                self.write(name, "two")  # figures, words and what is built are not measured
            self.assertEqual(machine.commit(), commit)
            for name in ("src/a.c", "benchmarks/b.py", "benchmarks/core/b.h", "src/new/a.c", "include/a.h", "benchmarks/a.cmake"):
                before = self.folder / name
                was = before.read_text(encoding="utf-8") if before.exists() else None
                self.write(name, "two")
                self.assertEqual(machine.commit(), commit + "+changes", name)
                before.unlink() if was is None else self.write(name, was)


class Scripts(InFolder):
    def test_every_script_describes_its_options_and_refuses_others(self):
        for path in sorted(BENCHMARKS.glob("*/*.py")):
            if path.name.startswith("test_") or "__main__" not in path.read_text(encoding="utf-8"):
                continue
            answer = script(path, "--help")
            self.assertEqual((answer.returncode, answer.stderr), (0, ""), path.name)
            self.assertTrue(answer.stdout.startswith("usage: "), path.name)
            # argparse fills in a dictionary of the option for a lone %
            self.assertNotIn("{'", answer.stdout, path.name)
            self.refused(script(path, "--nope"), "(see --help)")

    def test_a_word_before_a_file_is_replaced(self):
        for name in ("programs/phases_bench.py", "programs/programs_bench.py", "suite/soak_counts.py", "suite/soak_mixed.py",
                     "core/observability.py", "watched/watched_bench.py", "capture/capture_bench.py", "workloads/comparison.py"):
            path = self.write("a.csv", "")
            self.assertEqual(script(name, "--csv", path, "--help").stderr, "", name)
            self.write("a.csv", "old\n")
            self.assertEqual(script(name, "--csv", path, "--help").stderr, f"'{path}' is there, and is replaced at the end\n", name)
            self.refused(script(name, "--csv", self.folder / "no" / "a.csv"), "--csv", "no/a.csv")


if __name__ == "__main__":
    unittest.main()
