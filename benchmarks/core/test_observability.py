#!/usr/bin/env python3
"""observability.py and count_instructions.py: what is read of a profile, the arithmetic, the CSV file, and refusals.

Nothing is built and nothing counted: the profiles are written by hand.
"""

import contextlib
import io
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from core import count_instructions as count  # noqa: E402
from core import observability  # noqa: E402
from harness import run  # noqa: E402
from harness.ending import Refusal  # noqa: E402
from harness.testing import InFolder  # noqa: E402

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


class Profiles(InFolder):
    def test_calls_of_the_program_alone(self):
        self.assertEqual(count.read_profile(self.write("callgrind", PROFILE)), {"alloc": [3, 93], "free": [2, 96], "domain": [0, 0]})

    def test_start_up_cancels_out(self):
        profiles = {1: {"alloc": [110, 5000], "free": [10, 480], "domain": [4, 9000]},
                    3: {"alloc": [310, 11200], "free": [30, 1440], "domain": [4, 9000]}}
        with mock.patch.object(count, "profile", side_effect=lambda program, work, reps, settings: profiles[reps]):
            self.assertEqual(count.instructions("program", "work"), {"alloc": (200, 31.0), "free": (20, 48.0)})


class Table(InFolder):
    """The whole program, with figures for each build: {work: {kind: (calls, instructions per call)}}."""

    COUNTED = {"mixed_400": {"alloc": (300, 31.5), "free": (100, 48.0)},
               "request": {"alloc": (100, 28.0), "domain": (1, 1080.8)}}
    UNCOUNTED = {"mixed_400": {"alloc": (300, 31.0), "free": (100, 48.5)},
                 "request": {"alloc": (100, 27.5), "domain": (1, 1080.0)}}

    def run_main(self, *arguments, counted=None):
        figures = {"counted": counted or self.COUNTED, "uncounted": self.UNCOUNTED}
        self.build, out = mock.Mock(return_value="uncounted"), io.StringIO()
        with mock.patch.multiple(observability.run_bench, find_programs=lambda _: ({"tslab": "counted"}, {}, []), list_works=lambda _: self.COUNTED), \
                mock.patch.multiple(observability, build_uncounted=self.build, instructions=lambda program, work: figures[program][work]), \
                contextlib.redirect_stdout(out):
            return observability.main(["--works", ",".join(self.COUNTED), *arguments]), out.getvalue()

    def test_rows_and_the_mean_of_a_work(self):
        path = self.folder / "observability.csv"
        code, out = self.run_main("--csv", str(path))
        self.assertEqual(code, 0)
        self.assertEqual([(row["work"], row["call"], row["calls"], row["difference"]) for row in run.read_csv(path)],
                         [("mixed_400", "alloc", "300", "0.500"), ("mixed_400", "free", "100", "-0.500"),
                          ("request", "alloc", "100", "0.500"), ("request", "domain", "1", "0.800")])
        self.assertIn("at most 0.80 instructions (request, domain), limit 1", out)

    def test_above_the_limit(self):
        code, out = self.run_main(counted={**self.COUNTED, "mixed_400": {"alloc": (300, 33.0), "free": (100, 48.5)}})
        self.assertEqual(code, 1)
        self.assertIn("at most 2.00 instructions (mixed_400, alloc)", out)

    def test_refused_before_anything_is_built(self):
        for arguments, words in ((("--csv", str(self.folder / "in" / "nothing.csv")), "--csv"), (("--works", "mixed_400,nothing"), "'nothing'")):
            with self.assertRaisesRegex(Refusal, words):
                self.run_main(*arguments)
            self.build.assert_not_called()


if __name__ == "__main__":
    unittest.main()
