#!/usr/bin/env python3
"""The table of make run: every figure comes from the programs, every sentence from the figures, and failures are told."""

import contextlib
import io
import os
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))

from harness import run  # noqa: E402
from harness.ending import Refusal  # noqa: E402
from harness.testing import BENCHMARKS, PROGRAMS, InFolder, answer_of  # noqa: E402
from workloads import picture, rows, runs, table, words  # noqa: E402

# Stands for every program: writes a result whose figures follow from the workload, the allocator and a factor.
FAKE = """#!%(python)s -SE
import json, os, sys
options = dict(each.split("=", 1) for each in sys.argv[1:] if each.startswith("--") and "=" in each)
tslab = options["--allocator"] == "tslab"
peer = os.environ.get("LD_PRELOAD", "")
workload = options.get("--pattern", os.path.basename(sys.argv[0]))
with open(%(log)r, "a") as log:
    log.write(" ".join([os.path.basename(sys.argv[0]), peer] + sys.argv[1:]) + "\\n")
%(behaviour)s
scale = %(factor)s if tslab else %(peer)s if peer else 1.0
leaked = 7 if workload == "leak" else 0
result = {
    "latency_ns": {"p50": 100000 * scale},
    "rss": {"before_bytes": %(before)s, "peak_bytes": 50331648 * scale, "after_bytes": 41943040 * scale, "after_destroy_bytes": 31457280 * scale},
    "leaked": {"objects": leaked, "by_epoch_label": ([{"label": "req", "objects": leaked, "epochs": 3}] if leaked
                                                     else []) if tslab else None},
    "allocation_failures": %(failed)s,
}
if workload == "json_docs":
    result["documents"] = [{"path": "a.json", "bytes": 1048576, "output_fnv1a": %(hash)s}]
else:
    result["digest"] = %(hash)s
json.dump(result, open(options["--json"], "w"))
"""
USUAL = {"factor": "0.5", "peer": "0.8", "behaviour": "", "hash": "1", "failed": "0", "before": "0"}


class Table(InFolder):
    def make_run(self, *arguments, peers=True, without=(), **fake):
        """(its lines in one, what the programs were called with)"""
        log = self.write("log", "")
        for name in sorted({row.program for row in rows.ROWS if row.program}):
            self.program(f"benchmarks/{name}", FAKE % {"python": sys.executable, "log": str(log), **USUAL, **fake})
            if name in without:
                (self.folder / "benchmarks" / name).unlink()
        found = ({"mimalloc": "libm.so.6"}, ["jemalloc", "gperftools"]) if peers else ({}, ["jemalloc", "gperftools", "mimalloc"])
        python = {"latency_ns": {"p50": 1e9}, "rss": {"peak_bytes": 50331648}}
        self.out, self.err = io.StringIO(), io.StringIO()
        with mock.patch.multiple(runs, find_peers=lambda _: found, run_unmodified=lambda row, allocator, *_: {
                **python, "latency_ns": {"p50": 0.5e9 if allocator == runs.OURS else 1e9}}), \
                contextlib.redirect_stdout(self.out), contextlib.redirect_stderr(self.err):
            self.assertEqual(table.main(["--build", str(self.folder), *map(str, arguments)]), 0)
        return " ".join(self.out.getvalue().split()), log.read_text(encoding="utf-8").splitlines()

    def test_every_row_allocator_and_round_has_a_process(self):
        processes = sum(2 if row.memory == "idle afterwards" else 3 for row in rows.ROWS if row.program)
        out = self.folder / "rows.csv"
        text, log = self.make_run("--seconds=3", "--csv", out)
        self.assertEqual((self.err.getvalue(), len(log)), ("", 3 * processes))
        self.assertTrue(all("=3" in line for line in log))
        self.assertEqual(sum("libm.so.6" in line for line in log), processes)
        self.assertFalse([line for line in log if "libm.so.6" in line and "=tslab" in line])
        lines = self.out.getvalue().splitlines()
        self.assertLessEqual(max(map(len, lines)), 100)
        for row in rows.ROWS:  # its block, and its line of the table
            self.assertEqual(sum(line.startswith(row.name) for line in lines), 2, row.name)
        found = [line.split() for line in lines if line.startswith("JSON documents  ")]
        self.assertEqual(found, ["JSON documents 100.0 us 80.0 us mimalloc 50.0 us | 48.0 38.4 mimalloc 24.0".split()])
        for said in ("Time: temporal-slab is ahead (1.60 times as fast as mimalloc and 2.0 times as fast as malloc).",
                     "Memory: temporal-slab is ahead (1.60 times as small as mimalloc and 2.0 times as small as malloc).",
                     "- a parser of JSON (JSON documents): ahead in time (50.0 us beside 80.0 us of mimalloc), ahead in memory (24.0 MiB "
                     "beside 38.4 MiB of mimalloc).",
                     "ahead in memory (20.0 MiB beside 32.0 MiB of mimalloc); by design: an epoch a request, so that a leak has a name.",
                     'Found by temporal-slab: 7 objects of "req" in 3 epochs; memory after epoch_destroy of them: 15.0 MiB.',
                     "Left out: jemalloc: not installed.", "Left out: gperftools: not installed."):
            self.assertIn(said, text)
        written = [(row["allocator"], float(row["time_ns"]), float(row["memory_bytes"])) for row in run.read_csv(out) if row["row"] == "XML tree"]
        self.assertEqual(written, [("malloc", 1e5, 48 << 20), ("mimalloc", 8e4, 0.8 * (48 << 20)), ("tslab", 5e4, 24 << 20)])

    def test_the_sentences_are_not_flattering_when_the_figures_are_not(self):
        text, _ = self.make_run("--rounds=1", factor="(3.0 if workload == 'steady' else 1.5)", peer="2.0")
        for said in ("Time: malloc is ahead (1.50 times as slow as malloc).", "Memory: malloc is ahead (1.50 times as large as malloc).",
                     "(steady): behind in time (300.0 us beside 100.0 us of malloc), behind in memory (144.0 MiB beside 48.0 MiB of malloc)."):
            self.assertIn(said, text)
        text, _ = self.make_run("--rounds=1", factor="1.04", peers=False)
        self.assertIn("Time: temporal-slab is level with the best (equal to malloc within 5 %).", text)
        self.assertIn("Left out: mimalloc: not installed.", text)
        text, _ = self.make_run("--rounds=1", failed="4 if tslab else 0")
        self.assertIn("short requests with temporal-slab: 4 allocations FAILED.", text)

    def test_a_memory_is_above_an_empty_process_and_less_than_a_mib_apart_is_level(self):
        text, _ = self.make_run("--rounds=1", peers=False, factor="1.01", before="50331648 - 100000 if tslab else 50331648 - 200000")
        found = [line.split("|")[1].split() for line in self.out.getvalue().splitlines() if line.startswith("JSON documents  ")]
        self.assertEqual((found[0][0], found[0][-1]), ("0.2", "0.7"))
        self.assertIn("(JSON documents): level in time, level in memory.", text)

    def test_the_rows_that_rest_have_the_thread_of_jemalloc_beside_jemalloc(self):
        both = runs.with_background({"malloc": None, "jemalloc-5.3.1": "a.so", runs.OURS: None})
        self.assertEqual(list(both), ["malloc", "jemalloc-5.3.1", "jemalloc-5.3.1 bg", runs.OURS])
        self.assertEqual(runs.settings("jemalloc-5.3.1 bg", "a.so"), {"LD_PRELOAD": "a.so", "MALLOC_CONF": "background_thread:true"})

    def test_what_is_asked_for_alone(self):
        text, _ = self.make_run("--rounds=1", without=("xml_tree", "lua_states"))
        for said in ("XML tree: xml_tree is not built (libxml2-dev)", "Lua states: lua_states is not built (liblua5.4-dev)"):
            self.assertIn(f"Left out: {said}.", text)
        self.assertEqual(text.count(" in time ("), 9)
        # Paths go to the documents only; --quick and --smoke are short and without other allocators.
        _, log = self.make_run("--quick", BENCHMARKS, PROGRAMS)
        documents = [line for line in log if line.startswith("json_docs")]
        self.assertTrue(len(documents) == 2 and all(line.endswith(f"-- {BENCHMARKS} {PROGRAMS}") for line in documents), documents)
        self.assertFalse([line for line in log if line not in documents and str(PROGRAMS) in line])
        self.assertTrue(all("=0.2" in line and "libm" not in line for line in log))
        text, log = self.make_run("--smoke", "steady", "XML tree", BENCHMARKS)
        self.assertEqual([line.split()[0] for line in log], 2 * ["xml_tree"] + 2 * [rows.PATTERN])
        self.assertEqual(text.count(" in time ("), 2)

    def test_failures(self):
        for said, fake in (("steady with malloc: exit code 1", {"behaviour": "if workload == 'steady': sys.exit('it broke')"}),
                           ("JSON documents with temporal-slab: signal 6", {"behaviour": "if tslab and workload == 'json_docs': os.abort()"}),
                           ("a.json: malloc and temporal-slab print it differently", {"hash": "str(tslab) if workload == 'json_docs' else 1"}),
                           ("XML tree: malloc and temporal-slab compute different results", {"hash": "str(tslab) if workload == 'xml_tree' else 1"}),
                           ("big_answers is not built", {"without": ("big_answers",)})):
            with self.assertRaisesRegex(Refusal, said):
                self.make_run("--rounds=1", **fake)
            self.assertNotIn("For whom", self.out.getvalue())  # a summary without its figures
        for named, *arguments in (("--seconds=0", "--seconds=0"), ("--seconds=9", "--seconds=9"), ("x", "--seconds=x"), ("--rounds", "--rounds=0"),
                                  ("'steady'", "nosuchrow"), ("/no/such/path", "/no/such/path"), ("no/such", "--picture=/no/such/x.png"),
                                  ("no/such", "--csv=/no/such/x.csv")):
            self.refused(answer_of([BENCHMARKS / "workloads" / "run.sh", "--build", self.folder, *arguments]), named, "run.sh: ")

    def test_a_bar_is_never_empty_and_the_longest_has_its_full_length(self):
        results = {name: runs.Result(ns, 1 << 20, {}) for name, ns in (("malloc", 1), (runs.OURS, 1000))}
        lengths = [line[:48].count(words.bar_sign()) for line in words.bars(rows.ROWS[0], results)[1:]]
        self.assertEqual(lengths, [1, words.BAR])

    def test_for_real(self):
        out = self.folder / "rows.csv"
        answer = answer_of([BENCHMARKS / "workloads" / "run.sh", "--build", PROGRAMS.parent, "--quick", "--csv", out], env={**os.environ, "LC_ALL": "C.UTF-8"})
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("\nFor whom which row matters", answer.stdout)
        drawn = answer_of([sys.executable, "-B", BENCHMARKS / "workloads" / "picture.py", out, self.folder / "rows.png"])
        if "not installed" not in drawn.stderr:
            self.assertEqual(drawn.returncode, 0, drawn.stderr)
            self.assertEqual((self.folder / "rows.png").read_bytes()[:4], b"\x89PNG")
        self.assertEqual(picture.by_row([["steady", "tslab", "1", "2"]])[0][1], {runs.OURS: [1.0, 2.0]})


if __name__ == "__main__":
    unittest.main()
