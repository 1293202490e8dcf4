#!/usr/bin/env python3
"""comparison.py: the figures are those of the runs, and its block those of the figures."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))

from harness.testing import PROGRAMS, InFolder, script  # noqa: E402
from report import data  # noqa: E402
from report.suite_figures import Suite  # noqa: E402
from workloads import comparison  # noqa: E402


class Comparison(InFolder):
    def test_runs_and_block(self):
        answer = script("workloads/comparison.py", "--smoke", "--build", PROGRAMS, "--csv", self.folder / "comparison.csv")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        suite, found = Suite(self.folder), {}
        for row in suite.rows("comparison"):
            found.setdefault((row["pattern"], row["allocator"]), {})[row["figure"]] = row.number("value")
        self.assertEqual(set(found), {(p, a) for p in comparison.PATTERNS for a in ("malloc", "tslab")})
        for pattern in comparison.PATTERNS:
            ours, theirs = found[pattern, "tslab"], found[pattern, "malloc"]
            self.assertNotIn("net_slabs", theirs)
            # 1 % of the leaking requests' objects are never freed, and hold pieces of 1 KiB at least.
            self.assertEqual(ours["net_slabs"] > 0, pattern == "leak")
            self.assertEqual(ours["leak_keeps_bytes"] >= 1024 * ours["leak_epochs"] > 0, pattern == "leak")
            self.assertEqual(ours["madvise_bytes"] > 0, pattern == "kernel")
        text = "\n".join(comparison.block(suite, {}))
        self.assertIn(f"| leaked objects | 0, 0 | 0, 0 | {found['leak', 'malloc']['leaked_objects']:,.0f}, ", text)
        self.assertIn("governor", text.split("\n")[-1])

    def test_refuses(self):
        self.write("comparison.csv", "pattern,allocator,figure,value\nburst,malloc,p50_ns,1\n")
        with self.assertRaisesRegex(data.InputError, "no figures of burst with tslab, steady with malloc"):
            comparison.block(Suite(self.folder), {})
        self.refused(script("workloads/comparison.py", "--build", self.folder, "--csv", self.folder / "b.csv"), "no synthetic_bench in")


if __name__ == "__main__":
    unittest.main()
