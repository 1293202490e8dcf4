#!/usr/bin/env python3
"""trial_gate.py: medians and quotients; what is beyond a limit."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness.testing import PROGRAMS, InFolder, script  # noqa: E402
from suite import trial_gate  # noqa: E402

TRIALS = """# mode: quick
allocator,threads,epochs,frees,trial,ops_per_sec,p50_ns,p99_ns
x,2,same,private,1,100,10,{}
x,2,same,private,2,120,12,{}
x,2,same,private,3,140,14,{}
x,2,separate,private,1,1,1,1
"""
HEALTHY = {"current_partial_null": 0, "current_partial_full": 0, "slow_path_hits": 1, "allocated_objects_total": 1000}


class Gate(InFolder):
    def trials(self, *p99):
        return trial_gate.trials_of(self.write("trials.csv", TRIALS.format(*p99)))

    def beyond(self, times, counts):
        with contextlib.redirect_stdout(io.StringIO()):
            return trial_gate.show(times, counts, "malloc")

    def test_a_quotient_beyond_its_limit_fails(self):
        peer = self.trials(20, 20, 20)
        for p99, said in (((20, 25, 90), []), ((20, 26, 26), ["private, 2 threads, p99_ns: 1.300, at most 1.25"])):
            rows = trial_gate.judge_times(self.trials(*p99), peer)
            self.assertEqual([row[0].split(", ")[2] for row in rows], ["M ops/s", "p50_ns", "p99_ns"])
            self.assertEqual((rows[2][5:], rows[0][6]), ((p99[1] / 20, 1.25), None))
            self.assertEqual(self.beyond(rows, []), said)

    def test_one_partial_miss_fails(self):
        for changed, count in (({}, 0), ({"current_partial_null": 1}, 1), ({"current_partial_full": 1}, 1), ({"slow_path_hits": 2}, 1)):
            self.assertEqual(len(self.beyond([], trial_gate.judge_counts({"tslab": {**HEALTHY, **changed}}, 0.1))), count, changed)

    def test_it_runs(self):
        done = script("suite/trial_gate.py", "--smoke", "--trials", "2", "--build", PROGRAMS)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("cross, 16 threads, p99_ns", done.stdout)
        self.assertIn("hotspot: partial misses", done.stdout)
        self.refused(script("suite/trial_gate.py", "--smoke", "--build", "/none"), "trial_gate: no benchmark_threads")


if __name__ == "__main__":
    unittest.main()
