#!/usr/bin/env python3
"""run_all.sh with stand-in programs: order, merging, failures, interruptions, bad command lines. And every step for a moment."""

import contextlib
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import run  # noqa: E402
from harness.testing import BENCHMARKS, PROGRAMS, InFolder, answer_of, script, until  # noqa: E402
from suite import run_all  # noqa: E402

# A stand-in for a program of the suite. The files name the failures: fail.NAME, absent.NAME, judge.NAME; hold.N makes the Nth
# program that begins wait until the file is gone.
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


class StandIns(InFolder):
    STEPS = ["--steps", "churn_test,smoke_tests"]

    def setUp(self):
        super().setUp()
        self.build, self.out = self.folder / "build", self.folder / "out"
        self.write("build/kind", "optimized")
        for name in ("benchmark_accurate", "churn_test", "smoke_tests"):
            self.program(f"build/{name}", PROGRAM)
        for name in ("jemalloc", "tcmalloc", "snmalloc", "google"):
            self.flag(f"absent.{name}")

    def flag(self, name):
        return self.write(f"build/{name}", "")

    def command(self, *arguments):
        return [BENCHMARKS / "run_all.sh", "--build", self.build, "--out", self.out, *arguments]

    def run_all(self, *arguments, **more):
        return answer_of(self.command(*arguments), **more)

    def calls(self):
        log = self.build / "log"
        return log.read_text(encoding="utf-8").split("\n")[:-1] if log.exists() else []

    def lines(self, name):
        return (self.out / name).read_text(encoding="utf-8").split("\n")[:-1]

    def rows(self, name):
        """The lines but for those about the run."""
        return [line for line in self.lines(name) if not line.startswith("# ")]

    def start(self, begun, *arguments, **more):
        """A run, while its program that is the begunth runs until the file that it returns is gone."""
        held = self.flag(f"hold.{begun}")
        child = subprocess.Popen(self.command(*arguments), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        until(lambda: len(self.calls()) >= begun)
        return child, held

    def end(self, started, number):
        """The exit code and the errors of a run that gets this signal."""
        child, held = started
        child.send_signal(number)
        _, errors = child.communicate(timeout=300)
        held.unlink()
        return child.returncode, errors

    def test_says_where_the_results_are_seen_from_where_it_was_started(self):
        (self.folder / "below").mkdir()
        for arguments, cwd, place in (((), None, self.out), (("--out", "new/figures"), self.folder, "new/figures"),
                                      (("--out", "../other"), self.folder / "below", self.folder / "other")):
            self.assertIn(f"the results are in {place}\n", self.run_all("--steps", "smoke_tests", *arguments, cwd=cwd).stderr)

    def test_rounds_take_turns_and_are_joined(self):
        answer = self.run_all("--steps", "benchmark_accurate,churn_test")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        rounds = [run.turn(["tslab", "malloc", "mimalloc"], number) for number in range(7)]
        self.assertEqual(self.calls(), [f"benchmark_accurate {name}" for names in rounds for name in names] +
                         [f"churn_test {name}" for name in rounds[0]])
        self.assertEqual(self.rows("benchmark_accurate.csv"), ["allocator,value,round"] + [
            f"{name},benchmark_accurate,{number}" for number, names in enumerate(rounds, 1) for name in names])
        self.assertEqual(self.rows("churn_test.csv"), ["allocator,value", "tslab,churn_test", "malloc,churn_test", "mimalloc,churn_test"])
        self.assertEqual(self.rows("beside_churn_test.csv"), ["allocator,more,round", "tslab,5,1", "malloc,5,1", "mimalloc,5,1"])
        self.assertFalse((self.out / ".parts").exists())
        for said in ("jemalloc is not installed: left out", "[24/24] churn_test, mimalloc", "    churn_test  "):
            self.assertIn(said, answer.stderr)
        times = self.lines("times.log")
        self.assertEqual([line.split()[0] for line in times], ["benchmark_accurate", "churn_test", "all"])
        self.assertRegex(times[1], r"^churn_test +\d+ s, 3 of 3 runs, expected 45 s$")
        record = self.lines("run.csv")
        # every file says of which run it is
        stamp = [line for line in record if line.startswith(("# date: ", "# commit: ", "# mode: full"))]
        self.assertEqual(len(stamp), 3)
        self.assertEqual(sorted(self.lines("beside_churn_test.csv")[:3]), sorted(stamp))
        self.assertEqual([line.split(":")[0] for line in record[:6]], ["# machine", "# mode", "# command", "# date", "# allocators", "# commit"])
        self.assertEqual(record[4], "# allocators: tslab 1.0, malloc 1.0, mimalloc 1.0")
        rows = run.read_csv(self.out / "run.csv")
        self.assertEqual((len(rows), {row["exit_code"] for row in rows}), (24, {"0"}))
        self.assertTrue(rows[0]["command"].endswith("benchmark_accurate --allocator tslab --sizes 128 --cycles 100 --fragmentation fragmentation.csv "
                                                     "--cdf latency_cdf.csv --space space.csv --csv benchmark_accurate.csv"), rows[0])

    def test_a_program_that_waits_runs_with_all_at_once(self):
        arguments = [self.build / "churn_test", "--allocators", "tslab,malloc", "--csv", self.folder / "all.csv", "--quick"]
        self.assertEqual(script("suite/at_once.py", *arguments).returncode, 0)
        self.assertEqual((self.folder / "all.csv").read_text(encoding="utf-8"), "allocator,value\ntslab,churn_test\nmalloc,churn_test\n")
        (self.folder / "all.csv").unlink()
        self.flag("fail.churn_test.malloc")
        answer = script("suite/at_once.py", *arguments)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("at_once: malloc: exit code 1", answer.stderr)
        self.assertFalse((self.folder / "all.csv").exists())

    def test_a_program_that_does_not_like_its_own_figures(self):
        self.flag("judge.churn_test.tslab")
        answer = self.run_all("--steps", "churn_test")
        self.assertEqual(answer.returncode, 4, answer.stderr)
        self.assertIn("    measured, but: it grows\n", answer.stderr)
        self.assertIn("1 of 3 runs say that something does not hold: churn_test, tslab", answer.stderr)
        self.assertEqual(len(self.rows("churn_test.csv")), 4)
        self.assertEqual([row["exit_code"] for row in run.read_csv(self.out / "run.csv")], ["4", "0", "0"])

    def test_the_lines_before_a_heading_stay_before_it(self):
        unit = run_all.Unit(next(step for step in run_all.STEPS if step.name == "soak"), 1, "all")
        self.write(f"parts/{unit.folder}/soak.csv", "# machine: x\n# date: y\na,b\n1,2\n3,4\n")
        self.out.mkdir()
        run_all.merge(self.folder / "parts", self.out, [unit], ["commit: abc", "date: z", "machine: m", "mode: quick"])
        self.assertEqual(self.lines("soak.csv"), ["# machine: x", "# date: y", "# commit: abc", "# mode: quick", "a,b,round", "1,2,1", "3,4,1"])

    def test_another_step_keeps_the_record_of_the_first(self):
        def recorded():
            return [row["step"] for row in run.read_csv(self.out / "run.csv")], run.header_of(self.out / "run.csv")["allocators"]

        everyone = "tslab 1.0, malloc 1.0, mimalloc 1.0"
        self.run_all("--steps", "churn_test")
        self.run_all("--steps", "smoke_tests", "--allocators", "tslab,malloc")
        self.assertEqual(recorded(), (["churn_test"] * 3 + ["smoke_tests"] * 2, everyone))
        self.end(self.start(len(self.calls()) + 2, "--steps", "churn_test", "--allocators", "tslab,malloc"), signal.SIGTERM)
        self.assertEqual(recorded()[1], everyone)
        self.run_all("--steps", "churn_test", "--allocators", "malloc")
        self.assertEqual(recorded()[0], ["smoke_tests"] * 2 + ["churn_test"])
        # a run of less work does not mix with these
        self.refused(self.run_all("--steps", "churn_test", "--quick", "--allocators", "tslab"), "has figures of mode full: name another folder")

    def test_a_record_that_cannot_be_read_is_one_line(self):
        self.run_all("--steps", "churn_test")
        path, calls = self.out / "run.csv", self.calls()
        record = path.read_text(encoding="utf-8")
        for text in (record.replace(",commit,", ",comment,"), record + "churn_test,1\n"):
            path.write_text(text, encoding="utf-8")
            self.refused(self.run_all("--steps", "smoke_tests", "--allocators", "tslab"), "run.csv: its columns are not step,round,")
        self.assertEqual(self.calls(), calls)

    def test_a_failure_is_named_the_rest_goes_on_and_resume_repeats_it(self):
        failing = self.flag("fail.churn_test.malloc")
        answer = self.run_all(*self.STEPS, "--quick")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("FAILED with exit code 1: it broke", answer.stderr)
        self.assertIn("1 of 6 runs failed: churn_test, malloc.", answer.stderr)
        self.assertEqual(self.rows("churn_test.csv")[1:], ["tslab,churn_test", "mimalloc,churn_test"])
        failing.unlink()
        (self.build / "log").unlink()
        self.assertEqual(self.run_all(*self.STEPS, "--quick", "--resume").returncode, 0)
        self.assertEqual(self.calls(), ["churn_test malloc"])
        self.assertEqual(self.rows("churn_test.csv")[1:], ["tslab,churn_test", "malloc,churn_test", "mimalloc,churn_test"])
        self.assertEqual(len(run.read_csv(self.out / "run.csv")), 6)

    def test_resume_is_of_the_same_run(self):
        code, errors = self.end(self.start(3, *self.STEPS), signal.SIGINT)
        self.assertEqual(code, 128 + signal.SIGINT, errors)
        self.assertIn("interrupted: 2 of 6 runs are finished and kept", errors)
        self.assertEqual(self.rows("churn_test.csv")[1:], ["tslab,churn_test", "malloc,churn_test"])
        for arguments, words in ((["--steps", "churn_test"], "--steps churn_test,smoke_tests"), ([*self.STEPS, "--allocators", "tslab"], "--allocators tslab")):
            self.assertIn(words, self.run_all(*arguments, "--resume").stderr)
        begun = self.out / ".parts" / "run.csv"
        record = begun.read_text(encoding="utf-8")
        begun.write_text(record.replace("# machine: ", "# machine: another than "), encoding="utf-8")
        self.assertIn("had 'machine: another than ", self.run_all(*self.STEPS, "--resume").stderr)
        begun.write_text(record, encoding="utf-8")
        self.program("build/churn_test", PROGRAM + "\n")
        self.assertIn("other programs", self.run_all(*self.STEPS, "--resume").stderr)

    def run_of_another_commit(self, *arguments):
        """A whole run, whose lines in run.csv and whose figures say `older`."""
        answer = self.run_all(*self.STEPS, *arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        path = self.out / "run.csv"
        header, rows = run_all.read_run(path)
        run_all.write_run(path, [f"{word}: {text}" for word, text in header.items()], [{**row, "commit": "older"} for row in rows])
        for step in ("churn_test", "smoke_tests"):
            for name, value in ((step, step), (f"beside_{step}", "5")):
                path = self.out / f"{name}.csv"
                path.write_text(re.sub(f",{value}(?=[,\n])", ",older", path.read_text(encoding="utf-8")), encoding="utf-8")
        (self.build / "log").unlink()

    def recorded(self, step):
        """[(allocator, of the older run)] of run.csv."""
        return [(row["allocator"], row["commit"] == "older") for row in run.read_csv(self.out / "run.csv") if row["step"] == step]

    def figures(self, name):
        """The same of a file of figures."""
        return [(line.split(",")[0], line.split(",")[1] == "older") for line in self.rows(f"{name}.csv")[1:]]

    def test_a_record_is_replaced_with_the_figures_of_its_step(self):
        self.flag("absent.mimalloc")
        names = ["tslab", "malloc"]
        older, newer = ([(name, old) for name in names] for old in (True, False))
        for number in (signal.SIGTERM, signal.SIGKILL):
            # by how many programs have begun; all but the last of them are finished
            for begun, churn, smoke in ((1, older, older), (2, newer[:1], older), (3, newer, older), (4, newer, newer[:1])):
                with self.subTest(number=number, begun=begun):
                    self.run_of_another_commit()
                    self.end(self.start(begun, *self.STEPS), number)
                    for step, expected in (("churn_test", churn), ("smoke_tests", smoke)):
                        for rows in (self.recorded(step), self.figures(step), self.figures(f"beside_{step}")):
                            self.assertEqual(rows, expected)
                    self.resume([f"churn_test {name}" for name in names[begun - 1:]] + [f"smoke_tests {name}" for name in names[max(begun - 3, 0):]])
                    for step in ("churn_test", "smoke_tests"):
                        self.assertEqual((self.recorded(step), self.figures(step)), (newer, newer))

    def resume(self, calls):
        """Goes on, which is to run these and no others."""
        def went_on():
            (self.build / "log").unlink(missing_ok=True)
            self.answer = self.run_all(*self.STEPS, "--resume")
            return "is in use" not in self.answer.stderr  # by the program of a killed run

        until(went_on)
        self.assertEqual(self.answer.returncode, 0, self.answer.stderr)
        self.assertEqual(self.calls(), calls)

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
            going = run_all.Run(run_all.parse_arguments([str(word) for word in self.command(*arguments)[1:]]))
            try:
                with mock.patch.object(pathlib.Path, "replace", replace_or_die), contextlib.redirect_stderr(io.StringIO()):
                    going.run()
            except Killed:
                pass
            finally:
                os.close(going.locked)
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
        def exit_codes(code):
            self.assertEqual(self.run_all(*self.STEPS, "--allocators", "tslab").returncode, code)
            return [row["exit_code"] for row in run.read_csv(self.out / "run.csv")]

        self.run_of_another_commit("--allocators", "tslab")
        self.flag("fail.churn_test.tslab")
        exit_codes(1)
        self.assertEqual((self.recorded("churn_test"), self.figures("churn_test")), ([("tslab", True)], [("tslab", True)]))
        self.assertEqual((self.recorded("smoke_tests"), self.figures("smoke_tests")), ([("tslab", False)], [("tslab", False)]))
        # where there are no figures, the failure is recorded
        for path in self.out.glob("*.csv"):
            path.unlink()
        self.assertEqual(exit_codes(1), ["1", "0"])
        self.write("build/churn_test", "#!/bin/sh\nexit 3\n")
        self.assertEqual(exit_codes(0), ["3", "0"])

    def test_a_folder_in_use_is_refused(self):
        child, held = self.start(1, *self.STEPS)
        self.refused(self.run_all("--steps", "smoke_tests", "--allocators", "tslab"), "is in use")
        child.kill()
        child.communicate()
        held.unlink()

    def test_a_hangup_that_was_ignored_stays_so(self):
        child, held = self.start(1, "--steps", "churn_test", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        child.send_signal(signal.SIGHUP)
        held.unlink()
        _, errors = child.communicate(timeout=300)
        self.assertEqual(child.returncode, 0, errors)

    def test_every_program_and_the_library_are_what_is_measured(self):
        self.write("libtslab.so", "")
        before = run_all.fingerprint(self.build)
        self.flag("log")
        self.assertEqual(run_all.fingerprint(self.build), before)
        for path in [self.build / "churn_test", self.folder / "libtslab.so"]:
            text = path.read_text(encoding="utf-8")
            path.write_text(text + "#", encoding="utf-8")
            self.assertNotEqual(run_all.fingerprint(self.build), before, path)
            path.write_text(text, encoding="utf-8")

    def test_the_scopes_of_an_allocator(self):
        known = re.findall(r'^    \{"(\w+)", "', (BENCHMARKS / "scope" / "scope_bench.c").read_text(encoding="utf-8"), re.MULTILINE)
        self.assertLessEqual(set(run_all.WAYS), set(known))
        for name, ways in (("malloc", ["glibc"]), ("tslab", ["tslab", "tslab_reset"]), ("tcmalloc", ["tcmalloc_free"]),
                           ("mimalloc", ["mimalloc", "mimalloc_free"])):
            options = run_all.parse_arguments(["--allocators", name, "--steps", "scope_bench"])
            unit, = run_all.make_plan(options, [name])
            command = run_all.command_of(unit, options, self.build, [name], self.out)
            self.assertEqual([word for before, word in zip(command, command[1:]) if before == "--allocator"], ways)

    def test_refuses(self):
        for words, *arguments in (("'nope'", "--steps", "nope"), ("''", "--steps", ""), ("'nope'", "--allocators", "tslab,nope"),
                                  ("tcmalloc is not installed", "--allocators", "tcmalloc"), ("--smoke", "--quick", "--smoke"),
                                  ("--gate", "--smoke", "--gate"), ("extra", "extra"),
                                  ("nothing of it runs with --smoke", "--steps", "observability", "--smoke"),
                                  ("no interrupted run", "--resume", "--allocators", "tslab", "--out", self.folder / "nowhere")):
            self.refused(self.run_all(*arguments), words)
        self.assertFalse((self.folder / "nowhere").exists())
        self.write("build/kind", "debug")
        self.refused(self.run_all("--allocators", "tslab"), "debug build")
        (self.build / "benchmark_accurate").unlink()
        self.refused(self.run_all(), "build the project first")
        self.assertEqual(self.calls(), [])
        for arguments, place in ((), "results"), (("--smoke",), "results/smoke"), (("--quick",), "results/quick"), (("--smoke", "--out", "/a"), "/a"):
            self.assertEqual(run_all.parse_arguments([*arguments, "--steps", "soak"]).out, BENCHMARKS / place)


class Smoke(InFolder):
    def test_every_step_for_a_moment(self):
        # each program has a smoke test of its own for every allocator
        answer = answer_of([BENCHMARKS / "run_all.sh", "--smoke", "--build", PROGRAMS, "--out", self.folder, "--allocators", "tslab"])
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for step in run_all.STEPS:
            for name, (keys, values) in step.csv.items() if step.rounds[2] and "malloc" not in step.needs else ():
                rows = run.read_csv(self.folder / f"{name}.csv")
                self.assertLessEqual({*keys, *values}, set(rows[0]), name)
                self.assertIn("tslab", {row.get("allocator", "tslab") for row in rows}, name)
        self.assertFalse((self.folder / ".parts").exists())
        self.write("docs/a.md", "")
        answer = script("report/make_results.py", "--results", self.folder, "--root", self.folder)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        document = (self.folder / "docs" / "results.md").read_text(encoding="utf-8")
        for heading in ("Latency", "Memory", "Threads", "Scopes", "Soak", "Whose tail it is", "NUMA nodes"):
            self.assertIn(f"\n## {heading}\n", document)


if __name__ == "__main__":
    unittest.main()
