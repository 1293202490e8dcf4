#!/usr/bin/env python3
"""What the programs of the suite, scope_bench and tail_attribution measure: the files of a moment each, and that the figures fit together."""

import csv
import pathlib
import re
import statistics
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import peers, run  # noqa: E402
from harness.testing import BENCHMARKS, PROGRAMS, InFolder, answer_of  # noqa: E402
from steps import STEPS  # noqa: E402

INSTALLED = list(run.identify(lambda name: [PROGRAMS / "churn_test", "--allocator", name], peers.ALLOCATORS, debug=True)[0])

README = re.sub(r"\s", "", (BENCHMARKS / "README.md").read_text(encoding="utf-8"))


class Results(InFolder):
    def smoke(self, program, name, *arguments, settings=None):
        answer = answer_of([PROGRAMS / program, "--smoke", *self.further(program), "--csv", self.folder / name, *arguments],
                           env={**peers.clean_environment(), **(settings or {})})
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer

    def further(self, program):
        """The options that name the other files of a program."""
        return [word for option, name in next(step.further for step in STEPS if step.name == program).items()
                for word in (option, self.folder / f"{name}.csv")]

    def rows(self, name):
        lines = (self.folder / name).read_text(encoding="ascii").splitlines()
        self.assertIn(f"`{lines[0]}`", README, name)
        rows = list(csv.DictReader(lines))
        self.assertTrue(rows, name)
        for row in rows:
            self.assertFalse({None} & {*row, *row.values()}, f"{name}: a line with too many or too few fields")
        return rows

    def test_benchmark_accurate(self):
        for name in INSTALLED:
            answer = self.smoke("benchmark_accurate", "accurate.csv", "--allocator", name, "--sizes", "64,128", "--cycles", "3")
            reasons = re.findall(r"(\d+)  (seq_alloc|alloc) +p99\.9 comes mainly from 1 [a-z() ]+ \(the slowest 1 of 1000\)\n",
                                 answer.stdout)
            wanted = [(size, op) for size in ("64", "128") for op in ("seq_alloc", "alloc")]
            self.assertEqual(reasons, wanted if name == "tslab" else [])
            self.assertEqual(self.names(), ["accurate.csv", "fragmentation.csv", "latency_cdf.csv", "space.csv"])
            rows = self.rows("accurate.csv")
            operations = ["seq_alloc", "seq_free", "floor", "alloc", "free", "fifo_alloc", "fifo_free", "written"]
            self.assertEqual([(row["size_class"], row["op"]) for row in rows],
                             [(size, op) for size in ("64", "128") for op in operations])
            for row in rows:
                self.assertEqual((row["allocator"], row["threads"]), (name, "1"))
                figures = [float(row[f"{p}_ns"]) for p in ("p50", "p95", "p99", "p999", "p9999", "p99999", "max")]
                self.assertEqual(figures, sorted(figures), row)
                self.assertGreater(figures[-1], 0)
                self.assertLessEqual(float(row["avg_ns"]), figures[-1])
                self.assertGreater(float(row["ops_per_sec"]), 0)  # beside any other load
                self.assertLess(float(row["ops_per_sec"]), 1e10)
                # 1,000 live in smoke mode: 3 cycles of 5 tenths; for both halves of the floor one before and one each
                samples = {"alloc": 1500, "free": 1500, "seq_alloc": 2000, "seq_free": 2000, "floor": 4000, "written": 2000,
                           "fifo_alloc": 1500, "fifo_free": 1500}
                self.assertEqual(int(row["samples"]), samples[row["op"]])
                floor = next(r for r in rows if r["op"] == "floor" and r["size_class"] == row["size_class"])
                if row["op"] in ("written", "seq_alloc", "seq_free", "fifo_alloc", "fifo_free"):  # the floor until then, or of a process of its own
                    self.assertGreater(float(row["floor_ns"]), 0)
                else:
                    self.assertEqual(row["floor_ns"], "0.000" if row["op"] == "floor" else floor["p50_ns"])
            self.check_cdf(name, rows)
            self.check_fragmentation(name)

    def check_cdf(self, name, latency):
        points = {}
        for row in self.rows("latency_cdf.csv"):
            self.assertEqual(row["allocator"], name)
            points.setdefault((row["size_class"], row["op"]), []).append(
                (float(row["fraction_above"]), float(row["latency_ns"])))
        self.assertEqual(set(points), {(row["size_class"], row["op"]) for row in latency})
        for row in latency:
            curve = points[row["size_class"], row["op"]]
            self.assertEqual([above for above, _ in curve], sorted((above for above, _ in curve), reverse=True))
            self.assertEqual([ns for _, ns in curve], sorted(ns for _, ns in curve))
            self.assertEqual(curve[-1][0], 0)
            self.assertAlmostEqual(curve[-1][1], float(row["max_ns"]) + float(row["floor_ns"]), places=2)

    def check_fragmentation(self, name):
        rows = self.rows("fragmentation.csv")
        classes = [int(row["size_class"]) for row in rows]
        self.assertEqual(classes, sorted(set(classes)))
        total = 0
        for row in rows:
            requested, rounded, wasted = int(row["requested"]), int(row["rounded"]), int(row["wasted"])
            self.assertEqual((row["allocator"], wasted), (name, rounded - requested))
            self.assertAlmostEqual(float(row["efficiency_pct"]), 100 * requested / rounded, places=2)
            self.assertLessEqual(requested, rounded)
            total += requested
        self.assertEqual(total, 3368532)  # the sum of size_mix.h
        for row in self.rows("space.csv"):
            payload, resident = int(row["payload_bytes"]), int(row["resident_bytes"])
            self.assertAlmostEqual(float(row["overhead_pct"]), 100 * (resident / payload - 1), places=2)
            if name in ("tslab", "malloc"):  # another one may have so little resident already, in huge pages
                self.assertGreater(resident, payload * 0.9)
        kinds = {(row["work"], row["kind"]) for row in self.rows("space.csv")}
        wanted = {("128", "churn"), ("mix", "churn")}
        self.assertEqual(kinds, wanted | ({("128", "scope"), ("mix", "scope")} if name == "tslab" else set()))

    def test_only_memory(self):
        self.smoke("benchmark_accurate", "accurate.csv", "--allocator", "tslab", "--memory")
        self.assertEqual(self.names(), ["fragmentation.csv", "space.csv"])

    def test_dense(self):
        self.smoke("benchmark_accurate", "accurate.csv", "--allocator", "tslab", "--dense")
        self.assertEqual(self.names(), ["space.csv"])
        rows = self.rows("space.csv")
        sizes = [int(row["work"]) for row in rows]
        self.assertEqual((len(sizes), sizes[0], sizes[-1]), (24, 16, 20000))
        for row in rows:
            self.assertEqual(int(row["payload_bytes"]), int(row["objects"]) * int(row["work"]))
            self.assertGreater(int(row["resident_bytes"]), int(row["payload_bytes"]) * 0.9)

    def test_churn_test(self):
        for name in INSTALLED:
            self.smoke("churn_test", "churn.csv", "--allocator", name, "--cycles", "25", "--shifts", "12")
            self.assertEqual(self.names(), ["churn.csv", "epoch_cycles.csv", "mixed_load.csv", "phase_shifts.csv"])
            rows = self.rows("churn.csv")
            self.assertEqual([int(row["cycle"]) for row in rows], list(range(1, 26)))
            shifts = self.rows("phase_shifts.csv")
            self.assertEqual([int(row["shift"]) for row in shifts], list(range(1, 13)))
            self.assertEqual([int(row["cycle"]) for row in self.rows("epoch_cycles.csv")], list(range(1, 21)))
            # only the last one was followed by a question for the memory
            self.assertEqual([row["shift"] for row in shifts if row["returned_asked_pct"]], ["12"])
            mixed = self.rows("mixed_load.csv")
            for row in rows + shifts + mixed:
                self.assertEqual(row["allocator"], name)
                self.assertGreater(float(row.get("rss_mib") or row["rss_cool_mib"]), 0.1)
                self.assertLess(float(row.get("rss_mib") or row["rss_cool_mib"]), 64)
            for row in mixed:
                self.assertGreater(float(row["payload_mib"]), 0.05)
            for column in ("slabs_allocated", "slabs_recycled", "slabs_overflowed"):
                values = [row[column] for row in rows]
                if name != "tslab":
                    self.assertEqual(set(values), {""})
                    continue
                numbers = [int(value) for value in values]
                self.assertEqual(numbers, sorted(numbers))
                if column != "slabs_overflowed":
                    self.assertGreater(numbers[-1], numbers[0])
            for column in ("live_objects", "live_bytes", "committed_bytes"):
                if name == "tslab":
                    self.assertEqual({row[column] for row in shifts}, {shifts[0][column]})
                    self.assertGreater(int(shifts[0][column]), 0)
                else:
                    self.assertEqual({row[column] for row in shifts}, {""})

    def test_the_peak_is_there_and_goes_back(self):
        """With memory given back at once, in amounts that the kernel's count shows."""
        self.smoke("churn_test", "churn.csv", "--pressure", "24", "--shifts", "3", "--cycles", "1", "--samples", "1")
        kept = self.rows("phase_shifts.csv")
        self.smoke("churn_test", "churn.csv", "--pressure", "24", "--shifts", "3", "--cycles", "1", "--samples", "1",
                   settings={"TSLAB_RECLAIM": "at_once"})
        for warm, cold in zip(kept, self.rows("phase_shifts.csv")):
            for row in (warm, cold):
                base, peak, cool = (float(row[f"rss_{moment}_mib"]) for moment in ("base", "peak", "cool"))
                self.assertGreater(peak - base, 24)
                self.assertAlmostEqual(float(row["returned_pct"]), 100 * (peak - cool) / (peak - base), delta=0.02)
            self.assertGreater(float(cold["returned_pct"]), float(warm["returned_pct"]) + 50)

    def test_benchmark_threads(self):
        for name in INSTALLED:
            self.smoke("benchmark_threads", "threads.csv", "--allocator", name, "--trials", "3", *(
                [] if name == "tslab" else ["2"]))
            self.assertEqual(self.names(), ["thread_trials.csv", "threads.csv"])
            rows, trials = self.rows("threads.csv"), {}
            for row in self.rows("thread_trials.csv"):
                trials.setdefault((row["threads"], row["epochs"], row["frees"]), []).append(row)
            epochs = ["same", "separate"] if name == "tslab" else ["same"]
            self.assertEqual(
                [(row["threads"], row["frees"], row["epochs"]) for row in rows],
                [(str(threads), frees, kind) for threads in ((1, 2, 4, 8, 16) if name == "tslab" else (2,))
                 for frees in ("private", "cross", "batch") for kind in epochs if threads > 1 or frees != "cross"])
            for row in rows:
                mine = trials[row["threads"], row["epochs"], row["frees"]]
                self.assertEqual([trial["trial"] for trial in mine], ["1", "2", "3"])
                ops = [float(trial["ops_per_sec"]) for trial in mine]
                self.assertAlmostEqual(float(row["ops_per_sec"]) / statistics.mean(ops), 1, places=5)
                self.assertAlmostEqual(float(row["ops_per_sec_cv_pct"]),
                                       100 * statistics.stdev(ops) / statistics.mean(ops), delta=0.02)
                p99 = [float(trial["p99_ns"]) for trial in mine]
                self.assertAlmostEqual(float(row["p99_ns"]), statistics.mean(p99), delta=0.01)
                self.assertLessEqual(float(row["p50_ns"]), float(row["p99_ns"]))
                self.assertLessEqual(float(row["p99_ns"]), float(row["p999_ns"]))
                if name == "tslab":
                    for column in ("lock_acquired", "lock_contended", "lock_waits", "foreign_frees", "cas_retries"):
                        self.assertEqual(int(row[column]), sum(int(trial[column]) for trial in mine))
                    self.assertEqual(int(row["foreign_frees"]) > 0, row["frees"] == "cross")
                else:
                    self.assertEqual({row["lock_acquired"], row["cas_retries"]}, {""})

    def test_fragmentation_over_time(self):
        for name in INSTALLED:
            self.smoke("fragmentation_over_time", "over_time.csv", "--allocator", name, "--payload", "16", *(
                ["--idle", "1"] if name == "tslab" else []))
            rows = self.rows("over_time.csv")
            placements = ["together", "by_lifetime"] if name == "tslab" else ["together"]
            moments = ["full", "freed", *(["idle"] if name == "tslab" else []), "asked", "empty", "empty_asked"]
            self.assertEqual([(row["placement"], row["moment"]) for row in rows],
                             [(placement, moment) for placement in placements for moment in moments])
            for row in rows:
                if name in ("tslab", "malloc"):  # mimalloc 3 holds less at the end than before the first object
                    self.assertLessEqual(float(row["returned_pct"]), 100)
                self.assertGreaterEqual(float(row["rss_mib"]), float(row["payload_mib"]))
                if row["moment"] == "full":
                    self.assertEqual(row["returned_pct"], "0.00")
                    self.assertGreater(float(row["payload_mib"]), 15.9)
                elif row["moment"] == "freed":
                    self.assertAlmostEqual(float(row["payload_mib"]), 16 / 20, delta=0.1)
            if name == "tslab":
                # memory of objects known to die together comes back together: the rest is survivors, and warm memory
                asked = {row["placement"]: float(row["returned_pct"]) for row in rows if row["moment"] == "asked"}
                self.assertGreater(asked["together"], 45)  # pages without an object go back, too
        self.assertGreater(asked["by_lifetime"], asked["together"] + 20)

    def test_smoke_tests(self):
        for name in INSTALLED:
            answer = self.smoke("smoke_tests", "smoke.csv", "--allocator", name)
            rows = self.rows("smoke.csv")
            self.assertEqual({row["result"] for row in rows}, {"ok"})
            self.assertLessEqual({"sizes", "random", "threads", "latency"}, {row["check"] for row in rows})
            self.assertIn(f"{len(rows)} passed, 0 failed", answer.stdout)

    def test_smoke_tests_can_fail(self):
        answer = answer_of([PROGRAMS / "smoke_tests", "--smoke", "--csv", self.folder / "smoke.csv"],
                           env={**peers.clean_environment(), "TSLAB_BUDGET": "1M"})
        self.assertEqual(answer.returncode, 1, answer)
        self.assertIn("FAIL sizes", answer.stdout)
        self.assertIn("NULL", answer.stderr)
        failed = [row["check"] for row in self.rows("smoke.csv") if row["result"] == "failed"]
        self.assertIn("sizes", failed)
        self.assertNotIn("misuse", failed)
        self.assertEqual(self.names(), ["smoke.csv"])

    def test_scope_bench(self):
        names = [line.split()[0] for line in answer_of([PROGRAMS / "scope_bench", "--list"]).stdout.splitlines()]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual({"none", "tslab", "mimalloc", "jemalloc", "apr", "talloc", "pmr", "bumpalo"}, set(names))
        self.smoke("scope_bench", "scope.csv", "--allocator", "tslab")
        rows = self.rows("scope.csv")
        self.assertEqual([(row["allocator"], row["objects_per_scope"], row["scopes_open"]) for row in rows], [("none", "10", "10"), ("tslab", "10", "10")])
        for row in rows:
            self.assertTrue(16 * 100 <= int(row["payload_bytes"]) <= 1040 * 100)
            self.assertGreater(float(row["ns_per_object"]), 0)
            self.assertGreaterEqual(float(row["drop_ns_per_scope"]), 0)
            self.assertEqual((row["rounds"], row["ns_of_rounds"]), ("1", row["ns_per_object"]))
            self.assertAlmostEqual(float(row["drop_ns_of_rounds"]), float(row["drop_ns_per_scope"]), delta=0.06)
        # more objects hold more memory
        answer = answer_of([PROGRAMS / "scope_bench_tslab", "--objects", "1000", "--open", "100", "--seconds", "0.001"])
        peak, payload = (int(field) for field in answer.stdout.split(",")[3:5])
        self.assertTrue(1000 * 100 * 500 < payload < 1000 * 100 * 556 and payload < peak < 2 * payload, answer)

    def test_tail_attribution(self):
        self.smoke("tail_attribution", "tail.csv", "--top", "25")
        rows = self.rows("tail.csv")
        self.assertEqual([int(row["rank"]) for row in rows], list(range(1, 26)))
        walls = [int(row["wall_ns"]) for row in rows]
        self.assertEqual(walls, sorted(walls, reverse=True))
        steps = {step for row in rows for step in row["path"].split("+")}
        self.assertLessEqual(steps, {"fast", "refill", "new_slab", "fresh_memory", "foreign_drain", "slab_used_up", "slab_from_full",
                                     "slab_emptied", "purge", "lock_wait"})
        self.assertLessEqual({"purge", "fresh_memory"}, steps)  # with 256 KiB kept, giving memory back and getting it again takes longest
        self.assertLessEqual({row["op"] for row in rows}, {"alloc", "free"})
        self.assertLessEqual({row["verdict"] for row in rows}, {"scheduler", "page_fault", "allocator", "machine"})
        for row in rows:
            self.assertEqual(int(row["wait_ns"]), max(0, int(row["wall_ns"]) - int(row["cpu_ns"])))
            self.assertTrue(16 <= int(row["bytes"]) <= 1040)


if __name__ == "__main__":
    unittest.main()
