#!/usr/bin/env python3
"""The arithmetic of the comparison against hand-computed answers, and run_bench.py with stand-in programs.

CORE_BENCH_DIR, where set, holds the real programs; their command lines are then tested too.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))

from core import run_bench  # noqa: E402
from report import bench_report as report  # noqa: E402

# A stand-in for core_bench_NAME: `figure` ns for each work; a log of the calls; slow if asked to be.
PROGRAM = """#!/bin/sh
name={name} figure={figure}
case $1 in
    --identify) echo "$name,1.0,lib$name.so,{build}" ;;
    --list) printf 'fifo_replace\\tpair_ns\\tx\\nmixed_400\\top_ns\\tx\\n' ;;
    --smoke) echo "core_bench_$name 1.0: 2 works" ;;
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


class Arithmetic(unittest.TestCase):
    def test_quantiles_interpolate(self):
        self.assertEqual(report.median([5, 1, 3]), 3)
        self.assertEqual(report.median([4, 1, 2, 10]), 3)
        self.assertEqual(report.quantile([10, 20, 30, 40], 0.25), 17.5)
        self.assertEqual(report.quantile([7], 0.75), 7)
        self.assertEqual(report.quantile([1, 2], 1.0), 2)

    def test_summary_is_per_work_metric_and_allocator(self):
        rows = [
            {"round": r, "allocator": name, "version": "1", "work": "w", "metric": "m", "value": value, "unit": "ns"}
            for r, name, value in [(1, "tslab", 6.0), (1, "glibc", 10.0), (2, "tslab", 8.0), (3, "tslab", 7.0),
                                   (4, "tslab", 90.0)]
        ]
        summary = report.summarize(rows)
        ours = summary["w", "m"]["tslab"]
        self.assertEqual((ours["median"], ours["min"], ours["max"], ours["runs"]), (7.5, 6.0, 90.0, 4))
        self.assertEqual((ours["q1"], ours["q3"]), (6.75, 28.5))
        self.assertEqual(summary["w", "m"]["glibc"]["median"], 10.0)

    @staticmethod
    def figures(**rounds):
        return report.summarize([
            {"round": r, "allocator": name, "version": "1", "work": "w", "metric": "m", "value": float(v), "unit": "ns"}
            for name, values in rounds.items() for r, v in enumerate(values)
        ])["w", "m"]

    def test_judge(self):
        figures = self.figures(tslab=[9], glibc=[20], mimalloc=[10])
        self.assertEqual(report.judge(figures, "ratio", 0.9), (0.9, "mimalloc", "ok", ""))
        self.assertEqual(report.judge(figures, "ratio", 0.89), (0.9, "mimalloc", "miss", ""))
        self.assertEqual(report.judge(figures, "absolute", 9.0), (9.0, "mimalloc", "ok", ""))
        self.assertEqual(report.judge(figures, "absolute", 8.9), (9.0, "mimalloc", "miss", ""))
        missing = "not measured"
        self.assertEqual(report.judge(self.figures(glibc=[1]), "ratio", 1), (None, "glibc", missing, "no tslab"))
        self.assertEqual(report.judge(self.figures(tslab=[1]), "ratio", 1), (None, None, missing, "no peer"))
        zero = self.figures(tslab=[1], glibc=[0])
        self.assertEqual(report.judge(zero, "ratio", 1), (None, "glibc", missing, "glibc has a 0"))

    def test_every_peer_of_the_run_must_be_there(self):
        figures = self.figures(tslab=[9], glibc=[20])
        self.assertEqual(report.judge(figures, "ratio", 1, ["tslab", "glibc"]), (0.45, "glibc", "ok", ""))
        self.assertEqual(report.judge(figures, "ratio", 1, ["tslab", "glibc", "jemalloc", "mimalloc"]),
                         (None, "glibc", "not measured", "no jemalloc, mimalloc"))
        # a slower peer too must have the same rounds: with all of them it might not be the slower one
        figures = self.figures(tslab=[9, 9], glibc=[10, 10], jemalloc=[20])
        self.assertEqual(report.judge(figures, "ratio", 1, ["glibc", "jemalloc"]),
                         (None, "glibc", "not measured", "jemalloc has other rounds"))

    def test_ratios_are_paired_by_round(self):
        # quotients to mimalloc 0.5, 0.6 and 0.4; the quotient of the medians would be 10 / 25
        figures = self.figures(tslab=[5, 60, 10], mimalloc=[10, 100, 25], glibc=[200, 1, 300])
        self.assertEqual(report.judge(figures, "ratio", 1), (0.5, "mimalloc", "ok", ""))
        self.assertEqual(report.quotient(figures["tslab"], figures["mimalloc"]), 0.5)
        # with a round that one side lacks there is no target to meet, and the quotient is that of the medians
        figures["tslab"]["rounds"][7] = 1000.0
        self.assertEqual(report.judge(figures, "ratio", 1), (None, "mimalloc", "not measured", "mimalloc has other rounds"))
        self.assertEqual(report.quotient(figures["tslab"], figures["mimalloc"]), 0.4)

    def test_rounds_with_unlike_round_trips_are_not_compared(self):
        rows = []
        for name, trips, values in (("tslab", [100, 400, 400], [10, 30, 30]), ("jemalloc", [110, 390, 90], [20, 50, 20]),
                                    ("glibc", [95, 100, 105], [40, 40, 40])):
            for number, (trip, value) in enumerate(zip(trips, values)):
                for metric, figure in (("round_trip_ns", trip), ("object_ns", value)):
                    rows.append({"round": number, "allocator": name, "version": "1", "work": "pipe", "metric": metric,
                                 "value": float(figure), "unit": "ns"})
        figures = report.summarize(rows)["pipe", "object_ns"]
        # 10 / 20, 30 / 50 twice; the third round of both would be 30 / 20
        self.assertEqual(report.quotient(figures["tslab"], figures["jemalloc"]), 0.6)
        # glibc has no slow round: one pair is left
        self.assertEqual(report.quotient(figures["tslab"], figures["glibc"]), 0.25)
        self.assertEqual(report.judge(figures, "ratio", 0.5), (0.6, "jemalloc", "miss", ""))
        # without any like rounds it is round by round, and the best peer the one with the least median
        for figure in figures["jemalloc"], figures["glibc"]:
            figure["round_trips"] = dict.fromkeys(range(3), 2000.0)
        self.assertEqual(report.judge(figures, "ratio", 2), (0.6, "jemalloc", "ok", ""))

    def test_the_targets_are_those_of_the_table(self):
        targets = report.read_targets(BENCHMARKS / "targets.csv")
        self.assertEqual(targets["fifo_replace", "pair_ns"], ("ratio", 0.9))
        self.assertEqual(targets["random_replace_100k", "pair_ns"], ("ratio", 1.15))
        self.assertEqual(targets["free_all_alloc_all", "pair_ns"], ("ratio", 1.0))
        self.assertEqual(targets["random_replace_2k", "pair_ns"], ("ratio", 1.15))
        self.assertEqual(targets["mixed_400", "op_ns"], ("ratio", 0.97))
        self.assertEqual(targets["request", "object_ns"], ("ratio", 0.6))
        for threads in (1, 2, 8, 16):
            self.assertEqual(targets[f"threads_{threads}", "pair_ns"], ("ratio", 1.2))
        self.assertEqual(targets["producer_consumer", "object_ns"], ("ratio", 0.42))
        self.assertEqual(targets["tail_order", "p999_ns"], ("ratio", 0.8))
        self.assertEqual(targets["tail_order", "p9999_ns"], ("ratio", 0.7))
        self.assertEqual(targets["tail_random", "p999_ns"], ("ratio", 0.8))
        self.assertEqual(targets["tail_all", "p9999_ns"], ("ratio", 1.1))
        self.assertEqual(targets["tail_order_free", "p999_ns"], ("ratio", 1.1))
        for work, limit in (("small_32", 1.25), ("small_16_48", 1.25), ("small_16_128", 1.25), ("small_16_48_100k", 1.3),
                            ("middle_1_8k", 1.1)):
            self.assertEqual(targets[work, "pair_ns"], ("ratio", limit))
        for work, limit in (("large_500", 1.2), ("large_100", 1.0), ("large_20", 1.0)):
            self.assertEqual(targets[work, "pair_ns"], ("ratio", limit))
            self.assertEqual(targets[work, "peak_per_byte"], ("ratio", 1.2))
        self.assertEqual(targets["memory", "bytes_per_object"], ("absolute", 134.5))
        self.assertEqual(targets["domain_cycle", "cycle_ns"], ("absolute", 400))
        self.assertEqual(targets["destroy_growth", "ratio"][0], "absolute")

    def test_a_figure_is_not_shown_as_its_limit_if_it_misses_that(self):
        self.assertEqual(report.beside_limit(1.0004, 1, 2), "1.0004")
        self.assertEqual(report.beside_limit(1.0004, 1, 3), "1.0004")
        self.assertEqual(report.beside_limit(1.006, 1, 2), "1.01")
        self.assertEqual(report.beside_limit(0.9999, 1, 2), "1.00")
        self.assertEqual(report.beside_limit(1, 1, 2), "1.00")
        self.assertEqual(report.beside_limit(0.20001, 0.2, 2), "0.20001")
        self.assertEqual(report.beside_limit(5.5, 0, 2), "5.50")


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "file.csv"

    def tearDown(self):
        self.folder.cleanup()

    def refuse(self, reader, text, line, words):
        self.path.write_text(text, encoding="utf-8")
        with self.assertRaises(report.InputError) as caught:
            reader(self.path)
        self.assertIn(f"{self.path}:{line}: ", str(caught.exception))
        self.assertIn(words, str(caught.exception))

    def test_bad_targets(self):
        head = "work,metric,kind,limit\n"
        self.refuse(report.read_targets, "", 1, "heading")
        self.refuse(report.read_targets, "work,metric,limit\n", 1, "heading")
        self.refuse(report.read_targets, head + "a,b,ratio\n", 2, "3 fields")
        self.refuse(report.read_targets, head + "a,b,ratio,1\na,b,best,1\n", 3, "'best'")
        self.refuse(report.read_targets, head + "a,b,ratio,fast\n", 2, "'fast'")
        for limit in ("nan", "1_000", " 1", "1 ", "0x10", "\u0661"):
            self.refuse(report.read_targets, head + f"a,b,ratio,{limit}\n", 2, f"'{limit}'")
        self.refuse(report.read_targets, head + "a,b,ratio,1\na,b,ratio,1\n", 3, "already")

    def test_bad_raw_files(self):
        head = "# machine\n" + ",".join(report.RAW_COLUMNS) + "\n"
        self.refuse(report.read_raw, head + "1,a,1,w,m,-5,ns\n", 3, "'-5'")
        self.refuse(report.read_raw, head + "1,a,1,w,m,5\n", 3, "6 fields")
        self.refuse(report.read_raw, head + "1,a,1,w,m,0,ns\n", 3, "0 ns")
        self.refuse(report.read_raw, head + "1,a,1,w,m,0,bytes\n", 3, "0 bytes")
        self.refuse(report.read_raw, head + "1.5,a,1,w,m,5,ns\n", 3, "round '1.5'")
        self.refuse(report.read_raw, head + "1,a,1,w,m,5,ns\n2,a,1,w,m,5,ns\n1,a,1,w,m,6,ns\n", 5, "in line 3")
        self.refuse(report.read_raw, head + "1,a,1,w,m,1_000,ns\n", 3, "'1_000'")
        self.path.write_bytes(head.encode() + b"1,\xff,1,w,m,5,ns\n")
        with self.assertRaisesRegex(report.InputError, "file.csv:3: not UTF-8"):
            report.read_raw(self.path)
        self.path.write_text(head + "1,a,1,w,floor_ns,0,ns\n", encoding="utf-8")
        self.assertEqual(report.read_raw(self.path)[0]["value"], 0)
        self.path.write_text("\ufeff" + head + "1,a,1,w,m,+1.5e3,ns\n", encoding="utf-8")
        self.assertEqual(report.read_raw(self.path)[0]["value"], 1500)
        with self.assertRaises(report.InputError):
            report.read_raw(self.path.with_name("absent"))


class Runs(unittest.TestCase):
    """The whole script, with programs that are shell scripts."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.log = self.folder / "log"
        self.out = self.folder / "out" / "x.csv"

    def tearDown(self):
        self.temporary.cleanup()

    def program(self, name, figure, broken="-", code=1, build="optimized"):
        path = self.folder / f"core_bench_{name}"
        path.write_text(
            PROGRAM.format(name=name, figure=figure, log=self.log, broken=broken, code=code, build=build),
            encoding="utf-8",
        )
        path.chmod(0o755)

    def hold(self, run):
        """The programs stop in their so manieth run, until the file that it returns is gone."""
        path = pathlib.Path(f"{self.log}.hold")
        path.write_text(str(run), encoding="utf-8")
        return path

    def wait_for_run(self, run):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.log.exists() and self.log.read_text(encoding="utf-8").count("\n") >= run:
                return
            time.sleep(0.02)
        raise AssertionError(f"there is no run {run}")

    def command(self, *arguments):
        return [sys.executable, "-B", str(BENCHMARKS / "core" / "run_bench.py"), "--build", str(self.folder), "--out", str(self.out),
                *arguments]

    def run_bench(self, *arguments):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False, timeout=300)

    def test_interleaves_and_compares(self):
        self.program("tslab", 8)
        self.program("glibc", 10)
        self.program("mimalloc", 20)
        answer = self.run_bench("--rounds", "2")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        first = ["tslab", "glibc", "mimalloc"]
        second = ["glibc", "mimalloc", "tslab"]
        expected = [f"{name} {work}" for order in (first, second) for work in ("fifo_replace", "mixed_400")
                    for name in order]
        self.assertEqual(self.log.read_text(encoding="utf-8").split("\n")[:-1], expected)
        rows = [line for line in answer.stdout.split("\n") if line.startswith("fifo_replace")]
        self.assertEqual(len(rows), 1)
        self.assertIn("0.80 x", rows[0])
        self.assertTrue(rows[0].endswith("ok"), rows[0])
        self.assertIn("not installed", rows[0])
        lines = self.out.read_text(encoding="utf-8").split("\n")
        self.assertTrue(lines[0].startswith("# machine: "))
        self.assertTrue(lines[1].startswith("# command: benchmarks/run_bench.sh --rounds 2 "))
        self.assertIn("fifo_replace,pair_ns,ns,tslab,1.0,8,8,8,8,8,2", lines)

    def test_gate(self):
        self.program("tslab", 8)
        self.program("glibc", 10)
        works = ("--rounds", "1", "--gate", "--works")
        self.assertEqual(self.run_bench(*works, "fifo_replace,mixed_400").returncode, 0)
        self.program("tslab", 9.5)
        missed = self.run_bench(*works, "fifo_replace,mixed_400")
        self.assertEqual(missed.returncode, 1)
        self.assertIn("missed: fifo_replace pair_ns\n", missed.stdout)
        self.assertIn("gate: FAILED", missed.stdout)
        self.assertEqual(self.run_bench(*works, "mixed_400").returncode, 0)
        self.assertEqual(self.run_bench("--rounds", "1", "--works", "fifo_replace").returncode, 0)
        unmeasured = self.run_bench("--rounds", "1", "--gate")
        self.assertEqual(unmeasured.returncode, 1)
        self.assertIn("not measured: random_replace_100k pair_ns", unmeasured.stdout)
        self.assertEqual(self.run_bench(*works, "fifo_replace", "--allocators", "glibc").returncode, 1)

    def test_gate_names_the_peers_that_it_did_without(self):
        for name in ("tslab", "glibc", "jemalloc"):
            self.program(name, 8 if name == "tslab" else 10)
        works = ("--rounds", "1", "--works", "fifo_replace")
        answer = self.run_bench(*works, "--gate", "--allocators", "tslab,glibc")
        self.assertEqual(answer.returncode, 0, answer.stdout)
        self.assertIn("judged without jemalloc, tcmalloc, mimalloc, snmalloc, google: this run did not measure them\n", answer.stdout)
        self.assertNotIn("judged without", self.run_bench(*works).stdout)

    def test_a_peer_that_fails_leaves_a_target_unmeasured(self):
        self.program("tslab", 8)
        self.program("glibc", 10)
        self.program("jemalloc", 1, broken="fifo_replace")
        answer = self.run_bench("--rounds", "1", "--works", "fifo_replace", "--gate")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("not measured: no jemalloc", answer.stdout)
        # one that cannot measure here is no miss
        self.program("jemalloc", 1, broken="fifo_replace", code=3)
        self.assertEqual(self.run_bench("--rounds", "1", "--works", "fifo_replace", "--gate").returncode, 0)

    def test_failures_are_named_and_the_rest_goes_on(self):
        self.program("tslab", 8)
        self.program("glibc", 10, broken="fifo_replace")
        self.program("jemalloc", 10, broken="mixed_400", code=3)
        answer = self.run_bench("--rounds", "2")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("FAILED: fifo_replace, glibc: it broke", answer.stdout)
        self.assertIn("not here: mixed_400, jemalloc: it broke", answer.stdout)
        self.assertIn("mixed_400,op_ns,ns,glibc,1.0,10", self.out.read_text(encoding="utf-8"))

    def test_two_do_not_write_to_one_file(self):
        self.program("tslab", 8)
        held = self.hold(1)
        raw = self.out.with_name("x_raw.csv")
        with subprocess.Popen(self.command("--rounds", "1"), stdout=subprocess.PIPE, text=True) as child:
            self.wait_for_run(1)
            other = self.run_bench("--rounds", "2")
            held.unlink()
            self.assertEqual(other.returncode, 2, other.stdout)
            self.assertIn(f"{raw} is in use", other.stderr)
            child.communicate(timeout=300)
            self.assertEqual(child.returncode, 0)
        self.assertEqual({row["round"] for row in report.read_raw(raw)}, {1})

    def test_an_interruption_keeps_what_was_measured(self):
        self.program("tslab", 8)
        self.program("glibc", 10)
        held = self.hold(5)
        raw = self.out.with_name("x_raw.csv")
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(self.command("--rounds", "3"), text=True, **pipes) as child:
            self.wait_for_run(5)
            child.send_signal(signal.SIGTERM)
            held.unlink()
            output, _ = child.communicate(timeout=300)
            self.assertEqual(child.returncode, 128 + signal.SIGTERM)
        self.assertIn("interrupted: ", output)
        kept = raw.read_text(encoding="utf-8")
        self.assertIn("mixed_400,op_ns,ns,tslab,1.0,8", self.out.read_text(encoding="utf-8"))
        self.assertEqual(len(report.read_raw(raw)), kept.count(",pair_ns,") + kept.count(",op_ns,"))

    def test_refuses(self):
        def refuse(words, *arguments):
            answer = self.run_bench(*arguments)
            self.assertEqual(answer.returncode, 2, answer.stdout)
            self.assertEqual(len(answer.stderr.strip().split("\n")), 1, answer.stderr)
            self.assertIn(words, answer.stderr)

        refuse("build the project first")
        self.program("glibc", 10)
        refuse("'nope'", "--works", "nope")
        refuse("'nope'", "--allocators", "nope")
        refuse("--rounds", "--rounds", "0")
        refuse("--rounds", "--rounds", "many")
        refuse("--nope", "--nope")
        refuse("the name of a file", "--out", str(self.folder))
        refuse("the name of a file", "--out", "")
        refuse("--smoke makes no figures", "--smoke", "--gate")
        self.program("glibc", 10, build="debug")
        refuse("debug build")
        self.program("glibc", 10)
        (self.folder / "core_bench_jemalloc").symlink_to(self.folder / "core_bench_glibc")
        refuse("core_bench_jemalloc", "--rounds", "1")


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class Machine(unittest.TestCase):
    def test_compiler_and_flags_are_those_of_the_build(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            self.assertEqual(run_bench.built_with(build), "")
            (build / "CMakeFiles" / "3.25.1").mkdir(parents=True)
            (build / "CMakeFiles" / "3.25.1" / "CMakeCCompiler.cmake").write_text(
                'set(CMAKE_C_COMPILER_ID "GNU")\nset(CMAKE_C_COMPILER_VERSION "12.2.0")\n', encoding="utf-8")
            (build / "CMakeCache.txt").write_text("CMAKE_BUILD_TYPE:STRING=Release\nCMAKE_C_FLAGS:STRING=-march=native\n"
                                                  "CMAKE_C_FLAGS_RELEASE:STRING=-O2 -g\n", encoding="utf-8")
            self.assertEqual(run_bench.built_with(build), "GNU 12.2.0 -march=native -O2 -g")

    def test_the_line_has_governor_and_affinity(self):
        before = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, before)
        os.sched_setaffinity(0, {min(before)})
        self.assertRegex(run_bench.describe_machine(), rf", 1 processors \({min(before)}\), governor [a-z ]+, ")


class Commit(unittest.TestCase):
    """The commit that a run says it is of."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name)
        for name in ("src/a.c", "benchmarks/b.py", "benchmarks/core/b.h", "benchmarks/results/c.csv", "docs/d.md"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text("one", encoding="utf-8")
        patch = unittest.mock.patch.object(run_bench, "ROOT", self.root)
        patch.start()
        self.addCleanup(patch.stop)

    def git(self, *words):
        names = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
        answer = subprocess.run(["git", "-C", str(self.root), *names, *words], capture_output=True, text=True, check=True)
        return answer.stdout.strip()

    def test_names_what_was_measured(self):
        self.assertEqual(run_bench.describe_commit(), "unknown")
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "m")
        commit = self.git("rev-parse", "--short", "HEAD")
        self.assertEqual(run_bench.describe_commit(), commit)
        for name in ("benchmarks/results/c.csv", "docs/d.md"):  # figures and words are not measured
            (self.root / name).write_text("two", encoding="utf-8")
        self.assertEqual(run_bench.describe_commit(), commit)
        for name in ("src/a.c", "benchmarks/b.py", "benchmarks/core/b.h"):
            (self.root / name).write_text("two", encoding="utf-8")
            self.assertEqual(run_bench.describe_commit(), commit + "+changes", name)
            (self.root / name).write_text("one", encoding="utf-8")
        for name in ("benchmarks/results/new.csv", "docs/new.md", "src/new.o"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).touch()
        (self.root / ".gitignore").write_text("*.o\n", encoding="utf-8")
        self.assertEqual(run_bench.describe_commit(), commit)
        for name in ("src/new/a.c", "include/a.h", "benchmarks/a.cmake"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).touch()
            self.assertEqual(run_bench.describe_commit(), commit + "+changes", name)
            (self.root / name).unlink()


@unittest.skipUnless(os.environ.get("CORE_BENCH_DIR"), "CORE_BENCH_DIR is not set")
class Programs(unittest.TestCase):
    """The command line of the real programs."""

    def programs(self):
        found = sorted(pathlib.Path(os.environ["CORE_BENCH_DIR"]).glob("core_bench_*"))
        found = [path for path in found if os.access(path, os.X_OK) and self.call(path, "--identify").returncode != run_bench.EXIT_USAGE]
        self.assertTrue(found, "no core_bench_* to test")
        return found

    def call(self, program, *arguments):
        return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False, timeout=300)

    def test_identity_and_measurement(self):
        for program in self.programs():
            name = program.name.removeprefix("core_bench_")
            identity = self.call(program, "--identify").stdout.strip().split(",")
            self.assertEqual(identity[0], name)
            works = [line.split("\t") for line in self.call(program, "--list").stdout.splitlines()]
            self.assertGreaterEqual(len(works), 14)
            answer = self.call(program, "--work", "memory", "--csv")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            fields = answer.stdout.splitlines()[0].split(",")
            self.assertEqual([fields[i] for i in (0, 1, 2, 3, 5)],
                             [name, identity[1], "memory", "bytes_per_object", "bytes"])
            self.assertGreaterEqual(float(fields[4]), 128 if name in ("tslab", "glibc") else 100)  # others hold some before

    def test_bad_command_lines(self):
        for program in self.programs():
            for arguments, words in [
                ([], "--work"),
                (["--work"], "--work"),
                (["--work", "nope"], "'nope'"),
                (["--nope"], "'--nope'"),
                (["--work", "memory", "--reps", "0"], "'0'"),
                (["--work", "memory", "--reps", "-1"], "'-1'"),
                (["--work", "memory", "--seconds", "nan"], "'nan'"),
                (["--work", "memory", "--seconds", "1", "--reps", "1"], "exclude"),
                (["--seed", "1x"], "'1x'"),
                (["--work", "--smoke"], "'--work', not '--smoke'"),
            ]:
                answer = self.call(program, *arguments)
                self.assertEqual(answer.returncode, 2, f"{program.name} {arguments}")
                self.assertEqual(answer.stdout, "")
                self.assertEqual(len(answer.stderr.strip().split("\n")), 1)
                self.assertIn(words, answer.stderr)

    def test_another_malloc_is_noticed(self):
        programs = {path.name: path for path in self.programs()}
        if not {"core_bench_glibc", "core_bench_jemalloc"} <= programs.keys():
            self.skipTest("needs jemalloc")
        library = self.call(programs["core_bench_jemalloc"], "--identify").stdout.split(",")[2]
        answer = subprocess.run([str(programs["core_bench_glibc"]), "--identify"], capture_output=True, text=True,
                                check=False, timeout=300, env={**os.environ, "LD_PRELOAD": library})
        self.assertEqual(answer.returncode, 1)
        self.assertIn("no measurement of glibc", answer.stderr)


class Help(unittest.TestCase):
    def test_every_script_describes_its_options(self):
        for script in sorted(BENCHMARKS.glob("*/*.py")):
            if script.name.startswith("test_") or "__main__" not in script.read_text(encoding="utf-8"):
                continue
            answer = subprocess.run([sys.executable, "-B", str(script), "--help"], capture_output=True, text=True,
                                    check=False, timeout=300)
            self.assertEqual((answer.returncode, answer.stderr), (0, ""), script.name)
            self.assertTrue(answer.stdout.startswith("usage: "), script.name)
            # argparse fills in a dictionary of the option for a lone %
            self.assertNotIn("{'", answer.stdout, script.name)


if __name__ == "__main__":
    unittest.main()
