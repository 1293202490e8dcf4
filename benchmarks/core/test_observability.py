#!/usr/bin/env python3
"""observability.py and count_instructions.py: what is read of a profile, the arithmetic, the CSV file, and refusals.

Nothing is built and nothing counted: the profiles are written by hand.
"""

import contextlib
import csv
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))

from core import count_instructions as count  # noqa: E402
from core import observability  # noqa: E402

# Two calls of the program: 3 allocations of 31 instructions each, 2 frees. Calls by the library itself, and by other
# objects, do not count.
PROFILE = """events: Ir
ob=/build/benchmarks/core_bench_tslab
fn=work
cob=/build/libtslab.so.0
cfn=slab_malloc_epoch
calls=3 0
12 93
12 5
cfn=slab_free'2
calls=2 0
13 96
cfn=memset@plt
calls=7 0
14 700
ob=/build/libtslab.so.0
fn=slab_realloc
cfn=slab_free
calls=5 0
15 500
"""


class Profiles(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def test_calls_of_the_program_alone(self):
        path = self.folder / "callgrind.1"
        path.write_text(PROFILE, encoding="utf-8")
        self.assertEqual(count.read_profile(path), {"alloc": [3, 93], "free": [2, 96], "domain": [0, 0]})

    def test_start_up_cancels_out(self):
        profiles = {1: {"alloc": [110, 5000], "free": [10, 480], "domain": [4, 9000]},
                    3: {"alloc": [310, 11200], "free": [30, 1440], "domain": [4, 9000]}}
        with mock.patch.object(count, "profile", side_effect=lambda name, program, work, reps, folder: profiles[reps]) as profile:
            self.assertEqual(observability.measure("program", "work", self.folder), {"alloc": (200, 31.0), "free": (20, 48.0)})
        self.assertEqual({call.args[0] for call in profile.call_args_list}, {observability.run_bench.report.OURS})


class Table(unittest.TestCase):
    """The whole program, with figures for each build: {work: {kind: (calls, instructions per call)}}."""

    COUNTED = {"mixed_400": {"alloc": (300, 31.5), "free": (100, 48.0)},
               "request": {"alloc": (100, 28.0), "domain": (1, 1080.8)}}
    UNCOUNTED = {"mixed_400": {"alloc": (300, 31.0), "free": (100, 48.5)},
                 "request": {"alloc": (100, 27.5), "domain": (1, 1080.0)}}

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.csv = pathlib.Path(self.temporary.name) / "observability.csv"
        self.built = 0

    def tearDown(self):
        self.temporary.cleanup()

    def build(self, log):
        self.built += 1
        return "uncounted"

    def run_main(self, *arguments, counted=None):
        figures = {"counted": counted or self.COUNTED, "uncounted": self.UNCOUNTED}
        out, err = io.StringIO(), io.StringIO()
        with contextlib.ExitStack() as stack:
            for module, name, value in (
                (observability.run_bench, "find_programs", lambda options: ({"tslab": "counted"}, {})),
                (observability.run_bench, "identify", lambda programs: None),
                (observability.run_bench, "list_works", lambda programs: list(self.COUNTED)),
                (observability, "build_uncounted", self.build),
                (observability, "measure", lambda program, work, folder: figures[program][work]),
            ):
                stack.enter_context(mock.patch.object(module, name, value))
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(err))
            try:
                code = observability.main(["--works", ",".join(self.COUNTED), *arguments])
            except SystemExit as end:
                code = end.code
        return code, out.getvalue(), err.getvalue()

    def test_rows_and_the_mean_of_a_work(self):
        code, out, _ = self.run_main("--csv", str(self.csv))
        self.assertEqual(code, 0)
        with open(self.csv, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(row["work"], row["call"], row["calls"], row["difference"]) for row in rows],
                         [("mixed_400", "alloc", "300", "0.500"), ("mixed_400", "free", "100", "-0.500"),
                          ("request", "alloc", "100", "0.500"), ("request", "domain", "1", "0.800")])
        self.assertIn("at most 0.80 instructions (request, domain), limit 1", out)

    def test_above_the_limit(self):
        more = {**self.COUNTED, "mixed_400": {"alloc": (300, 33.0), "free": (100, 48.5)}}
        code, out, _ = self.run_main(counted=more)
        self.assertEqual(code, 1)
        self.assertIn("at most 2.00 instructions (mixed_400, alloc)", out)
        self.assertFalse(self.csv.exists())

    def test_a_file_that_cannot_be_written_is_refused_before_anything_is_built(self):
        path = str(self.csv / "in" / "nothing.csv")
        code, _, err = self.run_main("--csv", path)
        self.assertEqual(code, 2)
        self.assertIn(f"--csv {path}", err)
        self.assertEqual(self.built, 0)

    def test_an_unknown_work_is_named(self):
        code, _, err = self.run_main("--works", "mixed_400,nothing")
        self.assertEqual(code, 2)
        self.assertIn("'nothing'", err)
        self.assertEqual(self.built, 0)


if __name__ == "__main__":
    unittest.main()
