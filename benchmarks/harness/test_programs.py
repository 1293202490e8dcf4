#!/usr/bin/env python3
"""The programs in C from outside: their command lines, where their files go, and who they say that they are."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import peers, run  # noqa: E402
from harness.testing import PROGRAMS, InFolder, answer_of, until  # noqa: E402

SUITE = ["benchmark_accurate", "benchmark_threads", "churn_test", "fragmentation_over_time", "smoke_tests"]
WRITERS = [*SUITE, "scope_bench", "tail_attribution"]
SHORT = {"scope_bench": ["--allocator", "tslab"], "benchmark_threads": ["2"], "fragmentation_over_time": ["--payload", "4"]}  # with --smoke
INSTALLED = list(run.identify(lambda name: [PROGRAMS / "churn_test", "--allocator", name], peers.ALLOCATORS, debug=True)[0])

# Of each program: what it is given, and what its one line has then.
OF_ALL = [("--wrong", "'--wrong'"), ("--smok", "'--smok'"), ("-3", "'-3'"), ("--seed x", "'x'"), ("--seed=-1", "'-1'"),
          ("--seed 18446744073709551616", "'18446744073709551616'"), ("--seed=", "--seed"), ("--smoke=1", "--smoke=1"), ("--quick --smoke", "--smoke"),
          ("--allocator hoard", "'hoard'"), ("--allocator ''", "--allocator"), ("--csv --smoke", "'--smoke'"), ("--seed --smoke", "'--smoke'")]
CORE = [("", "--work"), ("--work", "--work"), ("--work nope", "'nope'"), ("--nope", "'--nope'"), ("--work memory --reps 0", "'0'"),
        ("--work memory --reps -1", "'-1'"), ("--work memory --seconds nan", "'nan'"), ("--work memory --seconds 1 --reps 1", "exclude"),
        ("--seed 1x", "'1x'"), ("--work --smoke", "'--work', not '--smoke'")]
REFUSED = {
    **{program: OF_ALL for program in SUITE}, "core_bench_tslab": CORE, "core_bench_glibc": CORE,
    "benchmark_threads": [*OF_ALL, ("0", "'0'"), ("65", "'65'"), ("two", "'two'"), ("2 4", "'4'"), ("--trials 1", "'1'")],
    "benchmark_accurate": [*OF_ALL, ("7", "'7'"), ("--cycles 0", "'0'"), ("--sizes 64,", "'64,'"), ("--sizes 64,9000", "'64,9000'"), ("--sizes 0", "'0'"),
                           ("--sizes 64,128,64", "64 twice")],
    "churn_test": [*OF_ALL, ("7", "'7'"), ("--shifts 1e3", "'1e3'"), ("--pressure 99999", "'99999'")],
    "fragmentation_over_time": [*OF_ALL, ("--idle 0", "'0'")], "smoke_tests": [*OF_ALL, ("--check everything", "'everything'")],
    "scope_bench": [("--bogus", "--bogus"), ("more", "more"), ("--csv", "--csv"), ("--allocator nobody", "nobody"), ("--objects 7", "'7'"),
                    ("--objects -1", "'-1'"), ("--objects ''", "''"), ("--open 1e3", "'1e3'"), ("--open 100000", "'100000'"), ("--live 1000001", "'1000001'"),
                    ("--rounds 0", "'0'"), ("--rounds 26", "'26'"), ("--rounds 3x", "'3x'"), ("--seconds 0", "'0'"), ("--seconds nan", "'nan'"),
                    ("--seconds 61", "'61'"), ("--objects 100000 --open 10000", "100000"), ("--smoke --open 1", "--smoke"), ("--csv --smoke", "'--smoke'")],
    "scope_bench_none": [("--bogus", "--bogus"), ("", "--objects"), ("--objects 10", "--open"), ("--objects 0 --open 1", "'0'"),
                         ("--objects 1000000 --open 2", "--objects x --open"), ("--objects 1 --open 1 --seconds -1", "'-1'"),
                         ("--objects --smoke", "'--smoke'")],
    "tail_attribution": [("--bogus", "--bogus"), ("--csv", "--csv"), ("--ops 0", "'0'"), ("--ops 9x", "'9x'"), ("--top 10001", "'10001'"),
                         ("--top -3", "'-3'"), ("--seed x", "'x'"), ("--csv --smoke", "'--smoke'")],
}


class Program(InFolder):
    def run_it(self, program, *arguments, folder=PROGRAMS, **more):
        settings = more.pop("settings", {})
        return answer_of([folder / program, *arguments], env={**peers.clean_environment(), **settings}, **more)

    def smoke(self, program, path, **more):
        return self.run_it(program, "--smoke", *SHORT.get(program, []), "--csv", path, **more)


class CommandLines(Program):
    def test_what_is_wrong_is_one_line_that_names_it(self):
        for program, cases in REFUSED.items():
            for line, words in cases:
                answer = self.run_it(program, *(word.strip("'") for word in line.split()), cwd=self.folder)
                self.refused(answer, words, program if program in SUITE else "")
                self.assertEqual(answer.stdout, "")
        self.assertEqual(self.names(), [])

    def test_help(self):
        for program in (*WRITERS, "scope_bench_none"):
            answer = self.run_it(program, "--help")
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))
            for word in (f"usage: {program}", *(("--csv FILE", "--allocator NAME", "--smoke", "--quick") if program in SUITE else ())):
                self.assertIn(word, answer.stdout)


class Identity(Program):
    def test_each_says_who_it_is(self):
        for program in SUITE:
            for name in INSTALLED:
                fields = self.run_it(program, "--allocator", name, "--identify").stdout.rstrip("\n").split(",")
                self.assertEqual((fields[0], len(fields)), (name, 4))
                self.assertRegex(fields[1], r"^\d+\.\d+")
                self.assertIn({"malloc": "libc."}.get(name, name), fields[2])
        # the program of one allocator becomes that of another too, and glibc is a name of malloc
        if "malloc" in INSTALLED:
            self.assertTrue(self.run_it("churn_test_malloc", "--allocator", "tslab", "--identify").stdout.startswith("tslab,"))
            self.assertTrue(self.run_it("churn_test", "--allocator=glibc", "--identify").stdout.startswith("malloc,"))

    def test_core_bench_measures_the_one_it_is_named_after(self):
        for path in sorted(PROGRAMS.glob("core_bench_*")):
            name = path.name.removeprefix("core_bench_")
            identity = self.run_it(path.name, "--identify")
            if identity.returncode == run.NOT_INSTALLED:
                continue
            self.assertGreaterEqual(len(self.run_it(path.name, "--list").stdout.splitlines()), 14)
            answer = self.run_it(path.name, "--work", "memory", "--csv")
            fields = answer.stdout.split("\n")[0].split(",")
            self.assertEqual([*fields[:4], fields[5]], [name, identity.stdout.split(",")[1], "memory", "bytes_per_object", "bytes"], answer.stderr)
            self.assertGreaterEqual(float(fields[4]), 128 if name in ("tslab", "glibc") else 100)  # others hold some before

    def test_one_that_is_not_installed(self):
        for program in SUITE:
            shutil.copy(PROGRAMS / program, self.folder / program)
            for name in peers.PEERS:
                self.refused(self.run_it(program, "--allocator", name, "--smoke", folder=self.folder), f"'{name}' is not installed")
        # the file in build/peers is no library: the loader goes on with libc's malloc
        (self.folder / "snmalloc-1.so").touch()
        for folder in (self.folder, self.folder / "nothing"):
            answer = self.run_it("churn_test", "--allocator", "snmalloc", "--smoke", settings={"BENCH_PEERS": str(folder)})
            self.assertEqual(answer.returncode, 2)
            self.assertIn("'snmalloc' is not installed", answer.stderr)

    def test_a_peer_of_the_scopes_removed_since_the_build_is_left_out(self):
        for name in ("scope_bench", "scope_bench_none", "scope_bench_tslab", "scope_bench_glibc"):
            shutil.copy(PROGRAMS / name, self.folder)
        for arguments, code in ([], 0), (["--allocator", "apr"], 3):
            answer = self.run_it("scope_bench", "--smoke", *arguments, folder=self.folder, settings={"LD_LIBRARY_PATH": str(PROGRAMS.parent)})
            self.assertEqual(answer.returncode, code, answer.stderr)
            self.assertIn("apr", answer.stderr)

    @unittest.skipUnless({"malloc", "jemalloc"} <= set(INSTALLED), "needs malloc and jemalloc")
    def test_another_in_its_place(self):
        """The newest takes the place of the installed one: by its version, of which 5.10 is newer than 5.9. Any other preload is refused."""
        library = self.run_it("churn_test", "--allocator", "jemalloc", "--identify").stdout.split(",")[2]
        for program in ("churn_test_malloc", "core_bench_glibc"):
            answer = self.run_it(program, "--smoke", settings={"LD_PRELOAD": library})
            self.assertEqual(answer.returncode, 1, answer)
            self.assertRegex(answer.stderr, "jemalloc|no measurement of glibc")
        for version in ("5.9.0", "5.10.0"):
            (self.folder / f"jemalloc-{version}.so").symlink_to(library)
        answer = self.run_it("churn_test", "--allocator", "jemalloc", "--identify", settings={"BENCH_PEERS": str(self.folder)})
        self.assertEqual(answer.stdout.split(",")[:3], ["jemalloc", "5.10.0", str(self.folder / "jemalloc-5.10.0.so")], answer.stderr)


class Files(Program):
    """A file is there whole or not at all; what is no file is written to as it is."""

    def test_a_link_and_a_pipe_stay(self):
        for program in WRITERS:
            real, link, pipe = (self.folder / name for name in ("real.csv", "link.csv", "pipe"))
            real.write_text("old\n", encoding="ascii")
            link.symlink_to(real)
            answer = self.smoke(program, link)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIn("link.csv' is there, and is replaced at the end\n", answer.stderr)
            self.assertTrue(link.is_symlink())
            self.assertIn("allocator,", real.read_text(encoding="ascii"))
            os.mkfifo(pipe)
            with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
                self.assertEqual(self.smoke(program, pipe).returncode, 0)
                self.assertIn("allocator,", reader.communicate(timeout=300)[0])
            self.assertTrue(pipe.is_fifo())
            self.assertEqual(self.names(), ["link.csv", "pipe", "real.csv"])  # and one file a name
            for path in (real, link, pipe):
                path.unlink()

    def test_places_that_cannot_be_written(self):
        (self.folder / "folder").mkdir()
        (self.folder / "link.csv").symlink_to(self.folder / "nothing")
        for program in WRITERS:
            for path in (self.folder / "missing" / "x.csv", self.folder / "folder", self.folder / "link.csv"):
                answer = self.smoke(program, path)
                self.assertEqual(answer.returncode, 2, (program, path))
                self.assertIn(str(path), answer.stderr)
        for program in ("scope_bench", "tail_attribution", "churn_test"):  # a full disk is noticed at the end only
            answer = self.smoke(program, "/dev/full")
            self.assertEqual(answer.returncode, 2, program)
            self.assertIn("/dev/full", answer.stderr)
            with open("/dev/full", "w", encoding="ascii") as full:
                more = ["--csv", self.folder / "x.csv"] if program == "churn_test" else []
                answer = self.run_it(program, "--smoke", *more, stdout=full, stderr=subprocess.PIPE, capture_output=False)
            self.assertEqual(answer.returncode, 2, program)
            self.assertIn("standard output", answer.stderr)
        for further in (self.folder / "no" / "b.csv", self.folder / "a.csv"):  # the second is the first file's, too
            answer = self.run_it("churn_test", "--smoke", "--csv", self.folder / "a.csv", "--mixed", further)
            self.assertEqual(answer.returncode, 2)
            self.assertIn(further.name, answer.stderr)
        self.assertEqual(self.names(), ["folder", "link.csv"])

    def test_an_interrupted_run_leaves_nothing(self):
        path = self.folder / "kept.csv"
        for program, *arguments in (("churn_test", "--cycles", "100000"), ("scope_bench", "--allocator", "tslab")):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                path.write_text("old\n", encoding="ascii")
                with subprocess.Popen([PROGRAMS / program, *arguments, "--csv", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
                    until(lambda: len(self.names()) == 2)  # a temporary file beside the result
                    child.send_signal(number)
                    self.assertIn(child.wait(30), (-number, 128 + number))
                self.assertEqual((self.names(), path.read_text(encoding="ascii")), (["kept.csv"], "old\n"))

    def test_nobody_reads_the_table(self):
        reader, writer = os.pipe()
        os.close(reader)
        with subprocess.Popen([PROGRAMS / "churn_test", "--smoke", "--csv", self.folder / "churn.csv"], stdout=writer, stderr=subprocess.DEVNULL,
                              preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL)) as process:
            os.close(writer)
            self.assertNotEqual(process.wait(30), 0)
        self.assertEqual(self.names(), [])

    def test_a_program_that_fails(self):
        answer = self.smoke("churn_test", self.folder / "churn.csv", settings={"TSLAB_BUDGET": "64K"})
        self.assertEqual(answer.returncode, 1, answer)
        for word in ("NULL", "TSLAB_BUDGET=64K"):
            self.assertIn(word, answer.stderr)
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    unittest.main()
