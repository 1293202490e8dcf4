"""The commands that documents print: benchmarks/workloads/synthetic_bench runs the program of the build, and make knows three
programs by their names. Arguments: the folder of the programs."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent


class Printed(unittest.TestCase):
    def test_the_script_runs_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            (tree / "benchmarks" / "workloads").mkdir(parents=True)
            script = shutil.copy(ROOT / "benchmarks" / "workloads" / "synthetic_bench", tree / "benchmarks" / "workloads")
            answer = subprocess.run([script, "--help"], capture_output=True, text=True, check=False)
            self.assertEqual((answer.returncode, answer.stdout), (1, ""))
            self.assertIn("make synthetic_bench", answer.stderr)
            (tree / "build" / "release").mkdir(parents=True)
            os.symlink(PROGRAMS, tree / "build" / "release" / "benchmarks")
            answer = subprocess.run([script, "--allocator=tslab", "--pattern=burst", "--duration_s=0.1"], capture_output=True,
                                    text=True, check=False)
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))
            self.assertIn("burst with tslab", answer.stdout)

    def test_make_builds_programs_by_name(self):
        for name in ("synthetic_bench", "benchmark_accurate", "churn_test"):
            answer = subprocess.run(["make", "-n", "-C", str(ROOT), name], capture_output=True, text=True, check=False)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIn(f"--target {name} ", answer.stdout)


if __name__ == "__main__":
    unittest.main()
