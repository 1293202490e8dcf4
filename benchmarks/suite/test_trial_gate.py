#!/usr/bin/env python3
"""trial_gate.py: medians, ranges and quotients; what is beyond a limit. SUITE_DIR: where the programs are."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.dont_write_bytecode = True

from suite import trial_gate  # noqa: E402

TRIALS = """# mode: quick
allocator,threads,epochs,frees,trial,ops_per_sec,p50_ns,p99_ns
x,2,same,private,1,100,10,{}
x,2,same,private,2,120,12,{}
x,2,same,private,3,140,14,{}
x,2,separate,private,1,1,1,1
"""


def counts(**changed):
    return {"tslab": {"current_partial_null": 0, "current_partial_full": 0, "slow_path_hits": 1, "allocated_objects_total": 1000, **changed}}


class Gate(unittest.TestCase):
    def trials(self, *p99):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trials.csv"
            path.write_text(TRIALS.format(*p99), encoding="utf-8")
            return trial_gate.trials_of(path)

    def test_the_middle_and_its_range(self):
        self.assertEqual(trial_gate.spread([1, 2, 3, 4, 100]), (3, 2))
        self.assertEqual(trial_gate.spread([7]), (7, 0))

    def test_a_quotient_beyond_its_limit_fails(self):
        peer = self.trials(20, 20, 20)
        for p99, beyond in (((20, 25, 90), 0), ((20, 26, 26), 1)):
            rows = trial_gate.judge_times(self.trials(*p99), peer)
            self.assertEqual([row[0].split(", ")[2] for row in rows], ["M ops/s", "p50_ns", "p99_ns"])
            self.assertEqual(rows[2][5:], (p99[1] / 20, 1.25))
            self.assertIsNone(rows[0][6])
            self.assertEqual(len(trial_gate.show(rows, [], "malloc")), beyond)

    def test_one_partial_miss_fails(self):
        self.assertEqual(trial_gate.show([], trial_gate.judge_counts(counts(), 0.1), "malloc"), [])
        for changed in ({"current_partial_null": 1}, {"current_partial_full": 1}, {"slow_path_hits": 2}):
            self.assertEqual(len(trial_gate.show([], trial_gate.judge_counts(counts(**changed), 0.1), "malloc")), 1, changed)

    def test_it_runs(self):
        build = pathlib.Path(os.environ["SUITE_DIR"]).parent
        done = subprocess.run([sys.executable, "-B", HERE / "trial_gate.py", "--smoke", "--trials", "2", "--build", build],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("cross, 16 threads, p99_ns", done.stdout)
        self.assertIn("hotspot: partial misses", done.stdout)
        none = subprocess.run([sys.executable, "-B", HERE / "trial_gate.py", "--smoke", "--build", "/none"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(none.returncode, 2)
        self.assertIn("trial_gate:", none.stderr)


if __name__ == "__main__":
    unittest.main()
