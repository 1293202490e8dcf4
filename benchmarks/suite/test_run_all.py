#!/usr/bin/env python3
"""run_all.sh with stand-in programs: order, merging, failures, interruptions, bad command lines.

SUITE_DIR, where set, holds the real programs; the whole suite then runs for a moment.
"""

import contextlib
import csv
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
ROOT = BENCHMARKS.parent
sys.path.insert(0, str(BENCHMARKS))

from suite import run_all  # noqa: E402

# A stand-in for a program of the suite. The files name the failures: fail.NAME, absent.NAME, judge.NAME; slow makes it
# sleep, and hold.N the Nth program that begins wait until the file is gone.
PROGRAM = """#!/bin/sh
name=$(basename "$0") folder=$(dirname "$0") allocator=tslab file=
while test $# -gt 0; do
    case $1 in
        --allocator) allocator=$2; shift ;;
        --csv) file=$2; shift ;;
        --identify) identify=yes ;;
    esac
    shift
done
if test -e "$folder/absent.$allocator"; then echo "$allocator is not installed" >&2; exit 2; fi
if test -n "$identify"; then echo "$allocator,1.0,lib.so,$(cat "$folder/kind")"; exit 0; fi
echo "$name $allocator" >>"$folder/log"
test ! -e "$folder/slow" || sleep 0.15
while test -e "$folder/hold.$(wc -l <"$folder/log")"; do sleep 0.02; done
if test -e "$folder/fail.$name.$allocator"; then echo "it broke" >&2; exit 1; fi
echo "allocator,value" >"$file"
echo "$allocator,$name" >>"$file"
echo "allocator,more" >"$(dirname "$file")/beside_$name.csv"
echo "$allocator,5" >>"$(dirname "$file")/beside_$name.csv"
if test -e "$folder/judge.$name.$allocator"; then echo "it grows" >&2; exit 1; fi
"""


class Killed(BaseException):
    """Ends a run as SIGKILL does: nothing of it puts anything in order."""


class StandIns(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.build = self.folder / "build"
        self.out = self.folder / "out"
        self.build.mkdir()
        (self.build / "kind").write_text("optimized")
        for name in ("benchmark_accurate", "churn_test", "smoke_tests"):
            path = self.build / name
            path.write_text(PROGRAM, encoding="utf-8")
            path.chmod(0o755)
        for name in ("jemalloc", "tcmalloc", "snmalloc", "google"):
            (self.build / f"absent.{name}").touch()

    def tearDown(self):
        self.temporary.cleanup()

    def command(self, *arguments):
        return [str(BENCHMARKS / "run_all.sh"), "--build", str(self.build), "--out", str(self.out), *arguments]

    def run_all(self, *arguments):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False, timeout=300)

    def calls(self):
        try:
            return (self.build / "log").read_text(encoding="utf-8").split("\n")[:-1]
        except FileNotFoundError:
            return []

    def rows(self, name):
        """The lines but for those about the run."""
        return [line for line in self.lines(name) if not line.startswith("# ")]

    def lines(self, name):
        return (self.out / name).read_text(encoding="utf-8").split("\n")[:-1]

    def test_says_where_the_results_are_seen_from_where_it_was_started(self):
        answer = self.run_all("--steps", "smoke_tests")
        self.assertIn(f"the results are in {self.out}\n", answer.stdout + answer.stderr)
        command = [*self.command("--steps", "smoke_tests"), "--out", "new/figures"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=self.folder)
        self.assertIn("the results are in new/figures\n", answer.stdout + answer.stderr)
        (self.folder / "below").mkdir()
        command = [*self.command("--steps", "smoke_tests"), "--out", "../other"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=self.folder / "below")
        self.assertIn(f"the results are in {self.folder.resolve() / 'other'}\n", answer.stdout + answer.stderr)

    def test_rounds_take_turns_and_are_joined(self):
        answer = self.run_all("--steps", "benchmark_accurate,churn_test")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        rounds = [["tslab", "malloc", "mimalloc"], ["malloc", "mimalloc", "tslab"], ["mimalloc", "tslab", "malloc"]]
        rounds = [rounds[n % 3] for n in range(7)]
        expected = [f"benchmark_accurate {name}" for names in rounds for name in names]
        self.assertEqual(self.calls(), expected + [f"churn_test {name}" for name in rounds[0]])
        self.assertEqual(self.rows("benchmark_accurate.csv"), ["allocator,value,round"] + [
            f"{name},benchmark_accurate,{number}" for number, names in enumerate(rounds, 1) for name in names])
        self.assertEqual(self.rows("beside_churn_test.csv"),
                         ["allocator,more,round", "tslab,5,1", "malloc,5,1", "mimalloc,5,1"])
        self.assertFalse((self.out / ".parts").exists())
        self.assertIn("jemalloc is not installed: left out", answer.stderr)
        self.assertIn("[24/24] churn_test, mimalloc", answer.stderr)
        times = self.lines("times.log")
        self.assertEqual([line.split()[0] for line in times], ["benchmark_accurate", "churn_test", "all"])
        self.assertRegex(times[1], r"^churn_test +\d+ s, 3 of 3 runs, expected 45 s$")
        self.assertIn("    churn_test  ", answer.stderr)
        record = self.lines("run.csv")
        # every file says of which run it is
        stamp = [line for line in record if line.startswith(("# date: ", "# commit: ", "# mode: full"))]
        self.assertEqual(len(stamp), 3)
        self.assertEqual(sorted(self.lines("beside_churn_test.csv")[:3]), sorted(stamp))
        self.assertEqual([line.split(":")[0] for line in record[:6]],
                         ["# machine", "# mode", "# command", "# date", "# allocators", "# commit"])
        self.assertEqual(record[4], "# allocators: tslab 1.0, malloc 1.0, mimalloc 1.0")
        rows = list(csv.DictReader(record[6:]))
        self.assertEqual(len(rows), 24)
        self.assertEqual({row["exit_code"] for row in rows}, {"0"})
        self.assertEqual({row["machine"] for row in rows}, {record[0].removeprefix("# machine: ")})
        self.assertTrue(rows[0]["command"].endswith("benchmark_accurate --allocator tslab --sizes 128 --cycles 100 --fragmentation fragmentation.csv "
                                                     "--cdf latency_cdf.csv --space space.csv --csv benchmark_accurate.csv"),
                        rows[0])

    def test_a_program_that_waits_runs_with_all_at_once(self):
        def at_once():
            return subprocess.run([str(BENCHMARKS / "suite" / "at_once.py"), str(self.build / "churn_test"), "--allocators", "tslab,malloc",
                                   "--csv", str(self.folder / "all.csv"), "--quick"], capture_output=True, text=True, check=False, timeout=60)

        self.assertEqual(at_once().returncode, 0)
        self.assertEqual((self.folder / "all.csv").read_text(encoding="utf-8"), "allocator,value\ntslab,churn_test\nmalloc,churn_test\n")
        (self.folder / "all.csv").unlink()
        (self.build / "fail.churn_test.malloc").touch()
        answer = at_once()
        self.assertEqual(answer.returncode, 1)
        self.assertIn("at_once: malloc: exit code 1", answer.stderr)
        self.assertFalse((self.folder / "all.csv").exists())

    def test_a_program_that_does_not_like_its_own_figures(self):
        (self.build / "judge.churn_test.tslab").touch()
        answer = self.run_all("--steps", "churn_test")
        self.assertEqual(answer.returncode, 4, answer.stderr)
        self.assertIn("    measured, but: it grows\n", answer.stderr)
        self.assertIn("1 of 3 runs say that something does not hold: churn_test, tslab", answer.stderr)
        self.assertEqual(self.rows("churn_test.csv"), ["allocator,value", "tslab,churn_test", "malloc,churn_test", "mimalloc,churn_test"])
        self.assertEqual([row["exit_code"] for row in csv.DictReader(self.lines("run.csv")[6:])], ["4", "0", "0"])

    def test_the_lines_before_a_heading_stay_before_it(self):
        step = next(step for step in run_all.STEPS if step.name == "soak")
        unit = run_all.Unit(step, 1, "all")
        (self.folder / "parts" / unit.folder).mkdir(parents=True)
        (self.folder / "parts" / unit.folder / "soak.csv").write_text("# machine: x\n# date: y\na,b\n1,2\n3,4\n")
        self.out.mkdir()
        run_all.merge(self.folder / "parts", self.out, [unit])
        self.assertEqual(self.lines("soak.csv"), ["# machine: x", "# date: y", "a,b,round", "1,2,1", "3,4,1"])
        run_all.merge(self.folder / "parts", self.out, [unit], ["commit: abc", "date: z", "machine: m", "mode: quick"])
        self.assertEqual(self.lines("soak.csv")[:5], ["# machine: x", "# date: y", "# commit: abc", "# mode: quick", "a,b,round"])

    def test_another_step_keeps_the_record_of_the_first(self):
        self.run_all("--steps", "churn_test")
        self.run_all("--steps", "smoke_tests")
        rows = list(csv.DictReader(self.lines("run.csv")[6:]))
        self.assertEqual([row["step"] for row in rows], ["churn_test"] * 3 + ["smoke_tests"] * 3)
        self.run_all("--steps", "churn_test", "--allocators", "malloc")
        rows = list(csv.DictReader(self.lines("run.csv")[6:]))
        self.assertEqual([row["step"] for row in rows], ["smoke_tests"] * 3 + ["churn_test"])

    def test_a_run_of_some_allocators_keeps_those_of_the_other_steps(self):
        def named():
            return run_all.versions_in(run_all.header_of(self.out / "run.csv"))

        everyone = {"tslab": "1.0", "malloc": "1.0", "mimalloc": "1.0"}
        self.run_all("--steps", "churn_test")
        partial = ("--allocators", "tslab,malloc", "--steps", "smoke_tests")
        self.run_all(*partial)
        self.assertEqual(named(), everyone)
        self.run_all(*partial)
        self.assertEqual(named(), everyone)
        self.interrupt(signal.SIGTERM, len(self.calls()) + 2, *partial)
        self.assertEqual(named(), everyone)
        self.assertEqual(self.run_all(*partial, "--resume").returncode, 0)
        self.assertEqual(named(), everyone)
        # with its last figures an allocator goes
        self.run_all("--allocators", "tslab,malloc", "--steps", "churn_test")
        self.assertEqual(named(), {"tslab": "1.0", "malloc": "1.0"})

    def test_the_command_of_a_step_for_all_names_its_allocators(self):
        def named(command, allocator="all"):
            return run_all.allocators_of({"allocator": allocator, "command": command})

        self.assertEqual(named("run_bench.sh --build b --allocators tslab,glibc --out core_bench.csv"), {"tslab", "malloc"})
        self.assertEqual(named("scope_bench --allocator glibc --allocator tcmalloc_free --csv s.csv"), {"malloc", "tcmalloc"})
        self.assertEqual(named("scope_bench --csv scope_bench.csv"), set())
        self.assertEqual(named("smoke_tests", "jemalloc"), {"jemalloc"})

    def test_a_record_that_cannot_be_read_is_one_line(self):
        self.run_all("--steps", "churn_test")
        path = self.out / "run.csv"
        record = path.read_text(encoding="utf-8")
        calls = self.calls()
        for text, words in ((record.replace(",commit,", ",comment,"), "run.csv: the heading has no column commit"),
                            (record + "churn_test,1\n", "a row of step 'churn_test' has not as many fields")):
            path.write_text(text, encoding="utf-8")
            answer = self.run_all("--steps", "smoke_tests", "--allocators", "tslab")
            self.assertEqual(answer.returncode, 2)
            self.assertIn(words, answer.stderr)
            self.assertEqual(len(answer.stderr.strip().split("\n")), 1, answer.stderr)
        self.assertEqual(self.calls(), calls)
        path.write_text("\ufeff" + record, encoding="utf-8")
        self.assertEqual(self.run_all("--steps", "smoke_tests").returncode, 0)
        self.assertEqual(len(run_all.read_run(path)), 6)

    def test_steps_of_another_machine_stay_its_own(self):
        self.run_all("--steps", "churn_test")
        path = self.out / "run.csv"
        header, rows = run_all.header_of(path), run_all.read_run(path)
        # as a record without the column, of a machine that only the lines before the heading name
        columns = [name for name in run_all.RUN_COLUMNS if name != "machine"]
        with open(path, "w", newline="", encoding="utf-8") as file:
            file.writelines(f"# {line}\n" for line in ["machine: elsewhere, 1 processor", *header[1:]])
            writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        self.run_all("--steps", "smoke_tests")
        rows = list(csv.DictReader(self.lines("run.csv")[6:]))
        here = self.lines("run.csv")[0].removeprefix("# machine: ")
        self.assertEqual([(row["step"], row["machine"]) for row in rows],
                         [("churn_test", "elsewhere, 1 processor")] * 3 + [("smoke_tests", here)] * 3)

    def test_a_failure_is_named_the_rest_goes_on_and_resume_repeats_it(self):
        (self.build / "fail.churn_test.malloc").touch()
        answer = self.run_all("--steps", "churn_test,smoke_tests", "--quick")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("FAILED with exit code 1: it broke", answer.stderr)
        self.assertIn("1 of 6 runs failed: churn_test, malloc.", answer.stderr)
        self.assertEqual(self.rows("churn_test.csv"), ["allocator,value", "tslab,churn_test",
                                                        "mimalloc,churn_test"])
        (self.build / "fail.churn_test.malloc").unlink()
        (self.build / "log").unlink()
        answer = self.run_all("--steps", "churn_test,smoke_tests", "--quick", "--resume")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(self.calls(), ["churn_test malloc"])
        self.assertEqual(self.rows("churn_test.csv"), ["allocator,value", "tslab,churn_test",
                                                        "malloc,churn_test", "mimalloc,churn_test"])
        self.assertEqual(len(list(csv.DictReader(self.lines("run.csv")[6:]))), 6)

    def test_an_interruption_keeps_what_is_finished(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            (self.build / "slow").touch()
            with subprocess.Popen(self.command("--steps", "churn_test,smoke_tests"), text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as child:
                deadline = time.monotonic() + 30
                while time.monotonic() < deadline and len(self.calls()) < 3:
                    time.sleep(0.02)
                os.killpg(child.pid, number)
                _, errors = child.communicate(timeout=300)
            self.assertEqual(child.returncode, 128 + number, errors)
            self.assertIn("2 of 6 runs are finished", errors)
            self.assertIn("--resume", errors)
            self.assertEqual(self.rows("churn_test.csv"), ["allocator,value", "tslab,churn_test",
                                                            "malloc,churn_test"])
            (self.build / "slow").unlink()
            (self.build / "log").unlink()
            for arguments, words in ((["--steps", "churn_test", "--resume"], "--steps churn_test,smoke_tests"),
                                     (["--steps", "churn_test,smoke_tests", "--quick", "--resume"], "--quick")):
                answer = self.run_all(*arguments)
                self.assertEqual(answer.returncode, 2)
                self.assertIn(words, answer.stderr)
            begun = self.out / ".parts" / "run.csv"
            record = begun.read_text(encoding="utf-8")
            begun.write_text(record.replace("# machine: ", "# machine: another than "), encoding="utf-8")
            answer = self.run_all("--steps", "churn_test,smoke_tests", "--resume")
            self.assertEqual(answer.returncode, 2)
            self.assertIn("had 'machine: another than ", answer.stderr)
            begun.write_text(record, encoding="utf-8")
            answer = self.run_all("--steps", "churn_test,smoke_tests", "--resume")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertEqual(self.calls(), ["churn_test mimalloc", "smoke_tests tslab", "smoke_tests malloc",
                                            "smoke_tests mimalloc"])
            self.assertEqual(len(self.rows("churn_test.csv")), 4)
            (self.build / "log").unlink()

    STEPS = ["--steps", "churn_test,smoke_tests"]

    def run_of_another_commit(self, *arguments):
        """A whole run, whose lines in run.csv and whose figures say `older`."""
        answer = self.run_all(*self.STEPS, *arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        path = self.out / "run.csv"
        rows = [{**row, "commit": "older"} for row in run_all.read_run(path)]
        run_all.write_run(path, run_all.header_of(path), rows)
        for step in ("churn_test", "smoke_tests"):
            for name, value in ((step, step), (f"beside_{step}", "5")):
                path = self.out / f"{name}.csv"
                path.write_text(re.sub(f",{value}(?=[,\n])", ",older", path.read_text(encoding="utf-8")), encoding="utf-8")
        (self.build / "log").unlink()

    def recorded(self, step):
        """[(allocator, of the older run)] of run.csv."""
        return [(row["allocator"], row["commit"] == "older") for row in csv.DictReader(self.lines("run.csv")[6:])
                if row["step"] == step]

    def figures(self, name):
        """The same of a file of figures."""
        return [(line.split(",")[0], line.split(",")[1] == "older") for line in self.rows(f"{name}.csv")[1:]]

    def test_a_record_is_replaced_with_the_figures_of_its_step(self):
        (self.build / "absent.mimalloc").touch()
        names = ["tslab", "malloc"]
        older = [(name, True) for name in names]
        newer = [(name, False) for name in names]
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            # by how many programs have begun; all but the last of them are finished
            for begun, churn, smoke in ((1, older, older), (2, newer[:1], older), (3, newer, older), (4, newer, newer[:1])):
                with self.subTest(number=number, begun=begun):
                    self.run_of_another_commit()
                    before = self.lines("run.csv")
                    self.interrupt(number, begun, *self.STEPS)
                    for step, expected in (("churn_test", churn), ("smoke_tests", smoke)):
                        self.assertEqual(self.recorded(step), expected)
                        self.assertEqual(self.figures(step), expected)
                        self.assertEqual(self.figures(f"beside_{step}"), expected)
                    if begun == 1:
                        self.assertEqual(self.lines("run.csv"), before)
                    self.resume(names[begun - 1:], names[max(begun - 3, 0):])
                    for step in ("churn_test", "smoke_tests"):
                        self.assertEqual(self.recorded(step), newer)
                        self.assertEqual(self.figures(step), newer)

    def interrupt(self, number, begun, *arguments):
        """A run that gets this signal while the program that is the begunth runs."""
        hold = self.build / f"hold.{begun}"
        hold.touch()
        with subprocess.Popen(self.command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and len(self.calls()) < begun:
                time.sleep(0.01)
            child.send_signal(number)
            child.wait(timeout=300)
        hold.unlink()

    def resume(self, churn, smoke):
        """Goes on, which is to run these and no others."""
        deadline = time.monotonic() + 30
        while True:
            (self.build / "log").unlink(missing_ok=True)
            answer = self.run_all(*self.STEPS, "--resume")
            if "is in use" not in answer.stderr or time.monotonic() > deadline:  # the program of a killed run
                break
            time.sleep(0.05)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(self.calls(), [f"churn_test {name}" for name in churn] + [f"smoke_tests {name}" for name in smoke])

    def test_killed_at_any_write_it_records_no_figures_but_those_that_are_there(self):
        arguments = [*self.STEPS, "--allocators", "tslab"]
        replace, left = pathlib.Path.replace, 0

        def replace_or_die(path, target):
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return replace(path, target)

        for writes in range(100):
            self.run_of_another_commit("--allocators", "tslab")
            left = writes
            run = run_all.Run(run_all.parse_arguments(self.command(*arguments)[1:]))
            try:
                with mock.patch.object(pathlib.Path, "replace", replace_or_die), contextlib.redirect_stderr(io.StringIO()):
                    run.run()
            except Killed:
                pass
            finally:
                os.close(run.locked)
            for step in ("churn_test", "smoke_tests"):
                for row in self.recorded(step):
                    self.assertIn(row, self.figures(step), writes)
                    self.assertIn(row, self.figures(f"beside_{step}"), writes)
            if not (self.out / ".parts").exists():
                break
            if writes == 0:
                continue  # nothing is there yet to go on from
            answer = self.run_all(*arguments, "--resume")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            for step in ("churn_test", "smoke_tests"):
                for rows in (self.recorded(step), self.figures(step), self.figures(f"beside_{step}")):
                    self.assertEqual(rows, [("tslab", False)], writes)
        self.assertGreater(writes, 6)

    def test_a_step_that_fails_or_cannot_measure_keeps_the_older_figures_and_their_record(self):
        self.run_of_another_commit("--allocators", "tslab")
        (self.build / "fail.churn_test.tslab").touch()
        self.assertEqual(self.run_all(*self.STEPS, "--allocators", "tslab").returncode, 1)
        for rows in (self.recorded("churn_test"), self.figures("churn_test")):
            self.assertEqual(rows, [("tslab", True)])
        for rows in (self.recorded("smoke_tests"), self.figures("smoke_tests")):
            self.assertEqual(rows, [("tslab", False)])
        # where there are no figures, the failure is recorded
        for path in self.out.glob("*.csv"):
            path.unlink()
        self.assertEqual(self.run_all(*self.STEPS, "--allocators", "tslab").returncode, 1)
        self.assertEqual([(row["step"], row["exit_code"]) for row in csv.DictReader(self.lines("run.csv")[6:])],
                         [("churn_test", "1"), ("smoke_tests", "0")])
        (self.build / "churn_test").write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
        self.assertEqual(self.run_all(*self.STEPS, "--allocators", "tslab").returncode, 0)
        self.assertEqual([row["exit_code"] for row in csv.DictReader(self.lines("run.csv")[6:])], ["3", "0"])

    def test_a_whole_run_replaces_records_like_one_of_some_steps(self):
        self.run_of_another_commit("--allocators", "tslab")
        self.interrupt(signal.SIGTERM, 1, "--allocators", "tslab")
        self.assertEqual(self.calls(), ["benchmark_accurate tslab"])
        for step in ("churn_test", "smoke_tests"):
            self.assertEqual(self.recorded(step), [("tslab", True)])

    def test_another_mode_moves_the_figures_aside(self):
        self.run_all("--steps", "churn_test")
        figures = self.lines("churn_test.csv")
        answer = self.run_all("--steps", "smoke_tests", "--quick")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertFalse((self.out / "churn_test.csv").exists())
        aside = next(self.out.glob("full-*"))
        self.assertIn(aside.name, answer.stderr)
        self.assertEqual((aside / "churn_test.csv").read_text(encoding="utf-8").split("\n")[:-1], figures)
        self.assertEqual(run_all.mode_of(aside), "full")

    def start_slowly(self, *arguments):
        (self.build / "slow").write_text("")
        child = subprocess.Popen(self.command("--steps", "churn_test,smoke_tests", *arguments), text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not self.calls():
            time.sleep(0.02)
        return child

    def test_a_folder_in_use_is_refused(self):
        held = self.build / "hold.1"
        held.touch()
        with self.start_slowly() as child:
            answer = self.run_all("--steps", "smoke_tests")
            held.unlink()
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertIn("is in use", answer.stderr)
            child.communicate(timeout=300)
        self.assertEqual(child.returncode, 0)

    def test_a_program_left_behind_keeps_the_folder_in_use(self):
        (self.build / "churn_test").write_text(PROGRAM.replace("sleep 0.15", "sleep 2"), encoding="utf-8")
        with self.start_slowly() as child:
            child.kill()
        answer = self.run_all("--steps", "churn_test,smoke_tests", "--resume")
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertIn("is in use", answer.stderr)

    def test_a_hangup_that_was_ignored_stays_so(self):
        (self.build / "slow").touch()
        command = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *self.command("--steps", "churn_test")]
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and not self.calls():
                time.sleep(0.02)
            child.send_signal(signal.SIGHUP)
            _, errors = child.communicate(timeout=300)
        self.assertEqual(child.returncode, 0, errors)

    def test_programs_built_anew_are_no_part_of_an_interrupted_run(self):
        with self.start_slowly() as child:
            child.send_signal(signal.SIGTERM)
            child.communicate(timeout=300)
        (self.build / "churn_test").write_text(PROGRAM + "\n", encoding="utf-8")
        answer = self.run_all("--steps", "churn_test,smoke_tests", "--resume")
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertIn("other programs", answer.stderr)

    def test_every_program_and_the_library_are_what_is_measured(self):
        (self.folder / "libtslab.so").touch()
        for name in ("core_bench_tslab", "scope_bench", "smoke_tests_malloc", "tail_attribution"):
            (self.build / name).touch(mode=0o755)
        before = run_all.fingerprint(self.build)
        (self.build / "log").touch()
        self.assertEqual(run_all.fingerprint(self.build), before)
        for path in [*(path for path in self.build.iterdir() if os.access(path, os.X_OK)), self.folder / "libtslab.so"]:
            text = path.read_text(encoding="utf-8")
            path.write_text(text + "#", encoding="utf-8")
            self.assertNotEqual(run_all.fingerprint(self.build), before, path)
            path.write_text(text, encoding="utf-8")

    def test_a_program_that_does_not_say_who_it_is(self):
        (self.build / "benchmark_accurate").write_text("#!/bin/sh\nexec sleep 30\n", encoding="utf-8")
        errors = io.StringIO()
        with mock.patch.object(run_all, "IDENTIFY_S", 0.1), contextlib.redirect_stderr(errors):
            self.assertEqual(run_all.main(self.command()[1:]), 2)
        self.assertEqual(errors.getvalue(),
                         "run_all: tslab: benchmark_accurate has no answer to --identify within 0.1 s\n")

    def test_the_scopes_of_an_allocator(self):
        known = re.findall(r'^    \{"(\w+)", "', (BENCHMARKS / "scope" / "scope_bench.c").read_text(encoding="utf-8"), re.MULTILINE)
        for name, scopes in (("malloc", ["glibc"]), ("jemalloc", ["jemalloc", "jemalloc_tcache", "jemalloc_free"]),
                             ("tcmalloc", ["tcmalloc_free"]), ("mimalloc", ["mimalloc", "mimalloc_free"])):
            options = run_all.parse_arguments(["--allocators", name, "--steps", "scope_bench"])
            unit, = run_all.make_plan(options, [name])
            command = run_all.command_of(unit, options, self.build, [name], self.out)
            self.assertEqual([word for before, word in zip(command, command[1:]) if before == "--allocator"], scopes)
            self.assertLessEqual(set(scopes), set(known))
        self.assertEqual(set(run_all.SCOPES), set(run_all.ALLOCATORS))

    def test_refuses(self):
        def refuse(words, *arguments):
            answer = self.run_all(*arguments)
            self.assertEqual(answer.returncode, 2, answer.stdout + answer.stderr)
            lines = answer.stderr.strip().split("\n")
            self.assertIn(words, lines[-1])
            self.assertEqual(len([line for line in lines if "left out" not in line]), 1, answer.stderr)
            self.assertEqual(self.calls(), [])

        refuse("--nope", "--nope")
        refuse("--alloc", "--alloc", "malloc")
        refuse("'nope'", "--steps", "nope")
        refuse("''", "--steps", "")
        refuse("'nope'", "--allocators", "tslab,nope")
        refuse("tcmalloc is not installed", "--allocators", "tcmalloc")
        refuse("--smoke", "--quick", "--smoke")
        refuse("--gate", "--smoke", "--gate")
        refuse("extra", "extra")
        refuse("no interrupted run", "--resume")
        refuse("no folder", "--out", "")
        refuse("nothing of it runs with --smoke", "--steps", "observability", "--smoke")
        nowhere = self.folder / "nowhere"
        refuse("no interrupted run", "--resume", "--out", str(nowhere / "a"))
        self.assertFalse(nowhere.exists())
        (self.build / "kind").write_text("debug")
        refuse("debug build")
        (self.build / "benchmark_accurate").unlink()
        refuse("build the project first")

    def test_where_it_goes(self):
        def place(*arguments):
            return run_all.destination(run_all.parse_arguments(list(arguments)))

        here, run_all.BENCHMARKS = run_all.BENCHMARKS, self.folder
        try:
            self.assertEqual(place(), self.folder / "results")
            # a smoke run leaves nothing where figures are looked for
            self.assertEqual(place("--smoke"), self.folder / "results" / "smoke")
            self.assertEqual(place("--smoke", "--out", str(self.folder)), self.folder)
        finally:
            run_all.BENCHMARKS = here


class AWordBeforeAFileIsReplaced(unittest.TestCase):
    def test_scripts(self):
        for script in ("programs/phases_bench.py", "programs/programs_bench.py", "suite/soak_counts.py", "core/observability.py",
                       "watched/watched_bench.py", "capture/capture_bench.py"):
            with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
                said = []
                for text in ("", "old\n"):
                    file.write(text)
                    file.flush()
                    said.append(subprocess.run([sys.executable, "-B", str(BENCHMARKS / script), "--csv", file.name, "--help"], capture_output=True,
                                               text=True, check=True, timeout=60).stderr)
                self.assertEqual(said, ["", f"'{file.name}' is there, and is replaced at the end\n"], script)


@unittest.skipUnless(os.environ.get("SUITE_DIR"), "SUITE_DIR is not set")
class Smoke(unittest.TestCase):
    """Every step for a moment, with the real programs."""

    COLUMNS = {
        "benchmark_accurate": "allocator,threads,size_class,op,avg_ns,p50_ns,p95_ns,p99_ns,p999_ns,ops_per_sec",
        "fragmentation": "allocator,size_class,requested,rounded,wasted,efficiency_pct",
        "churn_test": "allocator,cycle,rss_mib,slabs_allocated,slabs_recycled,slabs_overflowed",
        "soak": "allocator,epoch,throughput_ops_sec",
        "benchmark_threads": "allocator,threads",
        "phase_shifts": "allocator,shift",
        "scope_bench": "allocator,version",
        "fragmentation_over_time": "allocator,placement",
        "tail_attribution": "allocator,version",
        "smoke_tests": "allocator,check",
    }

    def run_smoke(self, out, *arguments):
        command = [str(BENCHMARKS / "run_all.sh"), "--smoke", "--build", os.environ["SUITE_DIR"], "--out", out, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)

    def test_everything_runs(self):
        with tempfile.TemporaryDirectory() as out:
            # each program has a smoke test of its own for every allocator
            answer = self.run_smoke(out, "--allocators", "tslab")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            for name, columns in self.COLUMNS.items():
                with open(pathlib.Path(out) / f"{name}.csv", encoding="utf-8") as file:
                    heading, *rows = [line for line in file.read().split("\n") if not line.startswith("# ")]
                self.assertTrue(heading.startswith(columns), f"{name}: {heading}")
                self.assertTrue(any(row.startswith("tslab,") for row in rows), name)
            self.assertFalse((pathlib.Path(out) / ".parts").exists())
            script = str(BENCHMARKS / "report" / "make_results.py")
            document = pathlib.Path(out) / "docs" / "results.md"
            document.parent.mkdir()
            (pathlib.Path(out) / "README.md").touch()
            answer = subprocess.run([sys.executable, "-B", script, "--results", out, "--root", out],
                                    capture_output=True, text=True, check=False, timeout=300)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            with open(pathlib.Path(out) / "numa_bench.csv", newline="", encoding="utf-8") as file:
                options = {row["option"] for row in csv.DictReader(line for line in file if not line.startswith("# "))}
            self.assertEqual(options, {"off", "local", "interleave", "epoch_bind"})
            for heading in ("## Latency", "## Memory", "## Threads", "## Scopes", "## Soak", "## Whose tail it is", "## NUMA nodes"):
                self.assertIn(f"\n{heading}\n", document.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
