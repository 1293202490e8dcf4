#!/usr/bin/env python3
"""The figures of the suite, the targets and the report against answers computed by hand."""

import contextlib
import io
import pathlib
import shutil
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness.testing import InFolder, script  # noqa: E402
from report import bench_report as report  # noqa: E402
from report import claims, data, gate, make_results, palette, tables, words  # noqa: E402
from report import suite_figures as figures  # noqa: E402

ACCURATE = "allocator,threads,size_class,op,avg_ns,p50_ns,p95_ns,p99_ns,p999_ns,ops_per_sec,p9999_ns,version,round\n"
SHIFTS = "allocator,shift,live_bytes,committed_bytes,rss_peak_mib,rss_cool_mib,returned_pct,version,round\n"
THREADS = "allocator,threads,epochs,frees,ops_per_sec,p99_ns,lock_acquired,lock_contended,lock_waits,foreign_frees," \
    "cas_retries,version\n"
SCOPES = "allocator,version,objects_per_scope,scopes_open,ns_per_object,ns_min,ns_max,drop_ns_per_scope,held_per_payload," \
    "floor_ns_per_object\n"
RUN = """# machine: a machine, 2 processors, 1 GiB, Linux
# mode: full
# command: benchmarks/run_all.sh
# date: 2020-01-01 00:00:00 UTC
# allocators: tslab 1, malloc 2
# commit: abc
step,round,allocator,seconds,exit_code,date,commit,command
soak,1,all,90.0,0,2020-01-01 00:00:00,abc,soak
"""


def row_of(metric="m", **rounds):
    """{allocator: figures} of one row, from the values of its rounds."""
    return report.summarize([{"round": number, "allocator": name, "version": "1", "work": "w", "metric": metric, "value": float(value), "unit": "ns"}
                             for name, values in rounds.items() for number, value in enumerate(values)])["w", metric]


class Judgement(unittest.TestCase):
    def test_a_summary_is_per_work_metric_and_allocator(self):
        row = row_of(tslab=[6, 8, 7, 90], glibc=[10])
        self.assertEqual([row["tslab"][key] for key in ("median", "min", "max", "runs", "q1", "q3")], [7.5, 6, 90, 4, 6.75, 28.5])
        self.assertEqual(row["glibc"]["median"], 10)

    def test_verdicts(self):
        row, none = row_of(tslab=[9], glibc=[20], mimalloc=[10]), "not measured"
        uneven = row_of(tslab=[9, 9], glibc=[10, 10], jemalloc=[20])
        for figures_of, kind, limit, expected, verdict in (
                (row, "ratio", 0.9, (), (0.9, "mimalloc", "ok", "")), (row, "ratio", 0.89, (), (0.9, "mimalloc", "miss", "")),
                (row, "absolute", 9.0, (), (9.0, "mimalloc", "ok", "")), (row, "absolute", 8.9, (), (9.0, "mimalloc", "miss", "")),
                (row_of(glibc=[1]), "ratio", 1, (), (None, "glibc", none, "no tslab")), (row_of(tslab=[1]), "ratio", 1, (), (None, None, none, "no peer")),
                (row_of(tslab=[1], glibc=[0]), "ratio", 1, (), (None, "glibc", none, "glibc has a 0")),
                # every peer of the run must be there, and a slower one too must have the same rounds: with all it might not be slower
                (row, "ratio", 1, ["tslab", "jemalloc", "google"], (None, "mimalloc", none, "no jemalloc, google")),
                (uneven, "ratio", 1, ["glibc", "jemalloc"], (None, "glibc", none, "jemalloc has other rounds")),
                # a named peer; the question mark forgives that there is no such row, not that one side of it is missing
                (row, "ratio:glibc", 0.45, (), (0.45, "glibc", "ok", "")), (row, "ratio:jemalloc", 1, (), (None, None, none, "no jemalloc")),
                ({}, "ratio:glibc?", 1, (), (None, None, "does not apply", "")), ({}, "ratio:glibc?", 1, ["glibc"], (None, None, none, "no glibc")),
                (row_of(glibc=[9]), "ratio:glibc?", 1, (), (None, "glibc", none, "no tslab")),
                (row_of(tslab=[9]), "ratio:glibc?", 1, (), (None, None, none, "no glibc"))):
            self.assertEqual(report.judge(figures_of, kind, limit, expected), verdict)

    def test_ratios_are_paired_by_round(self):
        # quotients to mimalloc 0.5, 0.6 and 0.4; the quotient of the medians would be 10 / 25
        row = row_of(tslab=[5, 60, 10], mimalloc=[10, 100, 25], glibc=[200, 1, 300])
        self.assertEqual(report.judge(row, "ratio", 1), (0.5, "mimalloc", "ok", ""))
        # with a round that one side lacks there is no target to meet, and the quotient is that of the medians
        row["tslab"]["rounds"][7] = 1000.0
        self.assertEqual(report.judge(row, "ratio", 1), (None, "mimalloc", "not measured", "mimalloc has other rounds"))
        self.assertEqual(report.quotient(row["tslab"], row["mimalloc"]), 0.4)

    def test_rounds_with_unlike_round_trips_are_not_compared(self):
        trips = {"tslab": [100, 400, 400], "jemalloc": [110, 390, 90], "glibc": [95, 100, 105]}
        row = row_of(tslab=[10, 30, 30], jemalloc=[20, 50, 20], glibc=[40, 40, 40])
        for name, entry in row.items():
            entry["round_trips"] = dict(enumerate(trips[name]))
        # 10 / 20, 30 / 50 twice; the third round of both would be 30 / 20. glibc has no slow round: one pair is left
        self.assertEqual([report.quotient(row["tslab"], row[name]) for name in ("jemalloc", "glibc")], [0.6, 0.25])
        self.assertEqual(report.judge(row, "ratio", 0.5), (0.6, "jemalloc", "miss", ""))
        # without any like rounds it is round by round, and the best peer the one with the least median
        for entry in row["jemalloc"], row["glibc"]:
            entry["round_trips"] = dict.fromkeys(range(3), 2000.0)
        self.assertEqual(report.judge(row, "ratio", 2), (0.6, "jemalloc", "ok", ""))

    def test_a_figure_is_not_shown_as_its_limit_if_it_misses_that(self):
        for value, limit, decimals, text in ((1.0004, 1, 2, "1.0004"), (1.006, 1, 2, "1.01"), (0.9999, 1, 2, "1.00"), (1, 1, 2, "1.00"),
                                             (0.20001, 0.2, 2, "0.20001"), (5.5, 0, 2, "5.50")):
            self.assertEqual(report.beside_limit(value, limit, decimals), text)


class Inputs(InFolder):
    def refuse(self, reader, text, line, said):
        path = self.write("file.csv", text)
        with self.assertRaises(data.InputError) as caught:
            reader(path)
        self.assertIn(f"{path}:{line}: ", str(caught.exception))
        self.assertIn(said, str(caught.exception))

    def test_bad_targets(self):
        head = "work,metric,kind,limit\n"
        for text, line, said in (("", 1, "heading"), ("work,metric,limit\n", 1, "heading"), (head + "a,b,ratio\n", 2, "3 fields"),
                                 (head + "a,b,ratio,1\nc,b,best,1\n", 3, "'best'"), (head + "a,b,ratio,1\na,b,ratio,1\n", 3, "as in line 2"),
                                 *((f"{head}a,b,ratio,{limit}\n", 2, f"'{limit}'") for limit in ("fast", "nan", "1_000", " 1", "0x10", "1e999", "-1"))):
            self.refuse(report.read_targets, text, line, said)

    def test_raw_files(self):
        head = "# machine\n" + ",".join(report.RAW_COLUMNS) + "\n"
        for text, line, said in (("1,a,1,w,m,-5,ns\n", 3, "'-5'"), ("1,a,1,w,m,5\n", 3, "6 fields"), ("1,a,1,w,m,0,ns\n", 3, "0 ns"),
                                 ("1,a,1,w,m,0,bytes\n", 3, "0 bytes"), ("1.5,a,1,w,m,5,ns\n", 3, "round '1.5'"),
                                 ("1,a,1,w,m,5,ns\n2,a,1,w,m,5,ns\n1,a,1,w,m,6,ns\n", 5, "in line 3"), ('1,a,1,w,m,"5,ns\n', 3, "")):
            self.refuse(report.read_raw, head + text, line, said)
        self.assertEqual(report.read_raw(self.write("a.csv", head + "1,a,1,w,floor_ns,0,ns\n"))[0]["value"], 0)
        self.assertEqual(report.read_raw(self.write("a.csv", "\ufeff" + head + "1,a,1,w,m,+1.5e3,ns\n"))[0]["value"], 1500)
        (self.folder / "a.csv").write_bytes(head.encode() + b"1,\xff,1,w,m,5,ns\n")
        with self.assertRaisesRegex(data.InputError, "a.csv:3: not UTF-8"):
            report.read_raw(self.folder / "a.csv")
        with self.assertRaisesRegex(data.InputError, "absent: No such file"):
            report.read_raw(self.folder / "absent")


class Folder(InFolder):
    def files(self, **files):
        for name, text in files.items():
            self.write(f"{name}.csv", text)

    def summary(self):
        return report.summarize(figures.measurements(figures.Suite(self.folder)))

    def figures(self):
        """{"work metric allocator": [value of each round]}, the work without suite/"""
        found = {}
        for row in figures.measurements(figures.Suite(self.folder)):
            found.setdefault(f"{row['work'].removeprefix(report.SUITE)} {row['metric']} {row['allocator']}", []).append(round(row["value"], 9))
        return found


TRIALS = "allocator,threads,epochs,frees,trial,ops_per_sec,p50_ns,p99_ns,p999_ns,lock_acquired,lock_contended\n"


class Figures(Folder):
    def expect(self, lines, **files):
        """Of these files these figures, a line each: work, metric, allocator, and the value of each round, or none."""
        self.files(**files)
        found = self.figures()
        for line in lines.strip().split("\n"):
            key, values = " ".join(line.split()[:3]), [float(word) for word in line.split("#")[0].split()[3:]]
            self.assertEqual(found.get(key, []), values, key)

    def test_latency(self):
        self.expect("""
            latency_128 alloc_p999_ns tslab 40 60
            latency_128 alloc_p9999_over_p50 tslab 5 8
            latency_128 floor_p50_ns tslab
            sequential_128 spike_p99_ns tslab       # glibc's p99 of 90 is less than 12 times its median of 8
            sequential_128 spike_p999_ns tslab 40   # its p99.9 of 400 is more
            sequential_128 spike_p999_ns malloc 400
            """, benchmark_accurate=ACCURATE + "tslab,1,128,floor,1,9,9,9,9,9,99,1,1\n"
            "tslab,1,128,alloc,12,10,20,30,40,5,50,1,1\ntslab,1,128,alloc,12,11,20,30,60,5,88,1,2\nmalloc,1,128,alloc,12,8,20,30,400,5,500,2,1\n"
            "tslab,1,128,seq_alloc,9,10,20,30,40,5,60,1,1\nmalloc,1,128,seq_alloc,9,8,20,90,400,5,60,2,1\n")
        self.expect("""
            sequential_written_128 spike_p99_ns tslab 30   # malloc's p99 of 61 is more than 12 times its median of 5
            sequential_written_128 spike_p99_ns malloc 61
            sequential_written_128 spike_p999_ns tslab     # its p99.9 of 59 is not
            sequential_128 spike_p99_ns tslab
            latency_128 alloc_call_ns tslab 20             # 50 million a second
            latency_128 free_call_ns tslab                 # 0: not measured
            latency_128 written_call_ns tslab
            latency_128 alloc_floor_ns tslab 24
            """, benchmark_accurate=ACCURATE.replace(",version", ",floor_ns,version") +
            "tslab,1,128,written,9,10,20,30,90,50000000,60,21,1,1\nmalloc,1,128,written,9,5,8,61,59,25000000,60,22,2,1\n"
            "tslab,1,128,alloc,9,10,20,30,40,50000000,60,24,1,1\ntslab,1,128,free,9,10,20,30,40,0,60,24,1,1\n")

    def test_memory(self):
        self.expect("""
            phase_shifts live_bytes_drift tslab 0
            phase_shifts committed_bytes_drift tslab 1
            phase_shifts live_bytes_drift malloc
            phase_shifts kept_pct tslab 4
            phase_shifts kept_pct malloc 85
            phase_shifts worst_kept_pct tslab 6
            space_128 overhead_pct tslab 4.5
            space_128 scope_overhead_pct tslab 4
            size_mix waste_pct tslab 5            # 1,900 of 2,000
            churn_test rss_growth_pct tslab 5     # from the second, 10, to the last
            phase_shifts rss_growth_pct tslab 5   # 20 to 21
            phase_shifts rss_growth_pct malloc 0
            """, phase_shifts=SHIFTS + "tslab,1,100,4096,256,20,96.00,1,1\ntslab,2,100,4096,256,20,98.00,1,1\ntslab,3,100,4095,256,21,94.00,1,1\n"
            "malloc,1,,,256,200,20.00,2,1\nmalloc,2,,,256,200,10.00,2,1\nmalloc,3,,,256,200,15.00,2,1\n",
            space="allocator,work,kind,overhead_pct,version,round\ntslab,128,churn,4.5,1,1\ntslab,128,scope,4.0,1,1\n",
            fragmentation="allocator,size_class,requested,rounded,wasted,efficiency_pct,round\ntslab,64,900,1000,100,90,1\ntslab,96,1000,1000,0,100,1\n",
            churn_test="allocator,cycle,rss_mib,slabs_allocated,slabs_recycled,slabs_overflowed,round\n"
            "tslab,1,9,1,1,0,1\ntslab,2,10,1,1,0,1\ntslab,3,12,1,1,0,1\ntslab,4,10.5,1,1,0,1\n")

    def test_the_drift(self):
        for shifts, drift in ((21, 0), (20, 9000)):  # committed bytes may settle first; of so few the first counts
            self.expect(f"phase_shifts committed_bytes_drift tslab {drift}", phase_shifts=SHIFTS + "".join(
                f"tslab,{n},5,{9 if n > 10 else n * 1000},90,10,90,1,1\n" for n in range(1, shifts + 1)))
        # the largest of all rounds
        self.files(phase_shifts=SHIFTS + "".join(
            f"tslab,{shift},100,{committed},256,20,96.00,1,{number}\n" for number, both in
            ((1, (4096, 4096)), (2, (4096, 4103)), (3, (4096, 4098))) for shift, committed in enumerate(both, 1)))
        drift = self.summary()["suite/phase_shifts", "committed_bytes_drift"]
        self.assertEqual([drift["tslab"][key] for key in ("median", "min", "max")], [7, 0, 7])
        self.assertEqual(report.judge(drift, "absolute", 0), (7, None, "miss", ""))

    def test_threads(self):
        self.expect("""
            threads_16_private op_ns tslab 10 8
            threads_16_cross_separate p99_ns tslab 70
            threads slowdown_16 tslab 2 0.8
            threads locks_contended tslab 3
            threads lock_waits tslab 4
            threads locks_contended malloc
            """, run=RUN, thread_trials=TRIALS + "tslab,2,same,private,1,200000000,1,20,30,5,0\ntslab,16,same,private,1,100000000,1,20,30,5,0\n"
            "tslab,2,same,private,2,100000000,1,20,30,5,0\ntslab,16,same,private,2,125000000,1,20,30,5,0\n"
            "tslab,16,separate,cross,1,50000000,1,70,90,5,1\n",
            benchmark_threads=THREADS + "tslab,16,same,private,1,9,5,3,4,0,0,1\ntslab,16,same,cross,1,9,5,9,9,0,0,1\nmalloc,16,same,private,1,9,,,,,,2\n")
        # trials of one number in two rounds are two; a quotient is of one round
        self.expect("threads_2_private op_ns tslab 5 10\nthreads slowdown_16 tslab 2 1", thread_trials=TRIALS.replace("\n", ",round\n") + "".join(
            f"tslab,{threads},same,private,1,{rate},1,20,30,5,0,{number}\n"
            for number, threads, rate in ((1, 2, 200000000), (1, 16, 100000000), (2, 2, 100000000), (2, 16, 100000000))))
        # locks are the most of all rounds; the median would be 0
        self.files(benchmark_threads=THREADS.replace("version", "version,round") + "".join(
            f"tslab,16,same,private,1,9,5,{contended},{waits},0,0,1,{number}\n"
            for number, contended, waits in ((1, 0, 15), (2, 2, 0), (3, 0, 0))))
        locks, waits = (self.summary()["suite/threads", metric]["tslab"] for metric in ("locks_contended", "lock_waits"))
        self.assertEqual([locks[key] for key in ("median", "min", "max")], [2, 0, 2])
        self.assertEqual(words.with_spread(waits), "15.0 (0..15.0)")

    def test_the_slowdown_is_from_the_best_of_up_to_the_processors(self):
        speeds = {1: 100, 2: 150, 4: 300, 8: 900, 16: 200}
        # 150 / 200 of 2, 300 / 200 of up to 6, 900 / 200 of up to 12; one thread alone may be the best
        for count, one, expected in (("2 processors, ", 100, 0.75), ("6 processors, ", 100, 1.5), ("12 processors, ", 100, 4.5),
                                     ("2 processors, ", 400, 2), ("", 100, "")):
            self.expect(f"threads slowdown_16 tslab {expected}", run=RUN.replace("2 processors, ", count), thread_trials=TRIALS + "".join(
                f"tslab,{n},same,private,1,{speed}000000,1,20,30,5,0\n" for n, speed in {**speeds, 1: one}.items()))

    def test_scopes_are_compared_round_by_round(self):
        heading = SCOPES.rstrip("\n") + ",ns_of_rounds,drop_ns_of_rounds\n"
        rows = "tslab,1,100,1,6,4,9,50,1.5,1,4 9 6,40 90 50\napr,1,100,1,8,2,9,1,1.5,1,8 9 2,1 1 1\n" \
            "mimalloc,1,100,1,60,40,60,500,1.5,1,40 60 60,400 500 500\n"
        self.files(scope_bench=heading + rows)
        found = self.summary()
        objects, drops = found["suite/scope_100x1", "object_ns"], found["suite/scope_100x1", "drop_ns"]
        self.assertEqual([objects["tslab"][key] for key in ("median", "min", "max", "runs")], [6, 4, 9, 3])
        self.assertEqual(report.quotient(objects["tslab"], objects["apr"]), 1)  # 0.5, 1, 3; of the medians 0.75
        self.assertEqual(report.quotient(drops["tslab"], drops["mimalloc"]), 0.1)  # 0.1, 0.18, 0.1
        for wrong in ("4 x 6", "4  6", "", "4 -1"):
            self.bad("scope_bench", heading + rows.replace("4 9 6", wrong), 2, "ns_of_rounds")

    def test_the_rest(self):
        self.expect("""
            scope_100x1 object_ns tslab 4           # the target compares with those that cannot free a single object
            scope_100x1 object_ns apr 5
            scope_100x1 object_ns glibc
            scope_100x1 any_object_ns glibc 9       # `behind` with all that drop a scope
            scope_100x1 any_object_ns tslab_reset
            scope_100x1 kept_object_ns tslab 2
            scope_100x1 heap_destroy_ns mimalloc 40
            scope_100x1 drop_ns tslab 40
            scope_100x1 drop_ns mimalloc 400
            scope_100x1 drop_ns apr
            soak op_ns tslab 10 5
            soak throughput_cv_pct tslab 47.140452079
            soak throughput_cv_pct malloc
            observability instructions_per_call tslab 5   # of b's calls of a domain, which are no part of its allocations
            survivors_together kept_idle_pct tslab 40
            survivors_together kept_asked_pct tslab 30
            survivors_together kept_empty_pct tslab 5
            """, scope_bench=SCOPES + "".join(f"{name},1,100,1,{ns},{ns - 1},{ns + 2},{10 * ns},1.5,1\n" for name, ns in (
                ("tslab", 4), ("apr", 5), ("mimalloc", 40), ("tslab_reset", 2), ("apr_clear", 3), ("glibc", 9), ("none", 2))),
            soak="allocator,epoch,throughput_ops_sec,version\ntslab,1,100000000,1\ntslab,2,200000000,1\nmalloc,1,50000000,2\n",
            observability="work,call,calls,counted,uncounted,difference\na,alloc,10,40,39,1.000\na,free,30,9,9,0.000\n"
            "b,alloc,10,9,9,0.000\nb,domain,1,9,4,5.000\n",
            fragmentation_over_time="allocator,placement,moment,second,returned_pct\ntslab,together,idle,1,50\n"
            "tslab,together,idle,10,60\ntslab,together,asked,10,70\ntslab,together,empty,10,95\n")
        ours = self.summary()["suite/scope_100x1", "object_ns"]["tslab"]
        self.assertEqual((ours["median"], ours["min"], ours["max"]), (4, 3, 6))

    def bad(self, name, text, line, said):
        self.files(**{name: text})
        with self.assertRaises(data.InputError, msg=said) as caught:
            self.figures()
        self.assertIn(f"{name}.csv:{line}: ", str(caught.exception))
        self.assertIn(said, str(caught.exception))
        (self.folder / f"{name}.csv").unlink()

    def test_bad_files_are_named(self):
        head = "allocator,epoch,throughput_ops_sec\n"
        for text, line, said in (("", 1, "no heading"), ("allocator,epoch\ntslab,1\n", 1, "throughput_ops_sec"), ("epoch,throughput_ops_sec\n1,5\n", 1, "allocator"),
                                 (head + "tslab,1\n", 2, "2 fields"), (head + "\ntslab,1,fast\n", 3, "'fast'"), (head + "tslab,1,0\n", 2, "no number above 0"),
                                 (head + "tslab,1,\n", 2, "throughput_ops_sec ''"), (head + "tslab,one,5\n", 2, "epoch 'one' is no whole number"),
                                 (head + ",1,5\n", 2, "allocator '' is no name"), (head + "tslab,1,5\nx,1,5\ntslab,1,6\n", 4, "allocator, epoch as in line 2")):
            self.bad("soak", text, line, said)
        fragments = "allocator,size_class,requested,rounded,efficiency_pct,round\n"
        shift = "tslab,1,1,1,256,20,96.00,1,1\n"
        for name, text, line, said in (
                ("fragmentation", fragments + "tslab,64,0,64,0,1\n", 2, "requested '0'"), ("fragmentation", fragments + "tslab,64,10,64,0,x\n", 2, "round 'x'"),
                ("benchmark_accurate", ACCURATE.replace("p99_ns", "p98_ns"), 1, "no column p99_ns"),
                ("benchmark_threads", THREADS + "tslab,2,same,private,1,9,1.5,0,0,0,0,1\n", 2, "lock_acquired '1.5'"),
                ("phase_shifts", SHIFTS + shift, 2, "tslab ends after shift 1 of 2"),
                ("phase_shifts", SHIFTS + "".join(shift.replace("tslab,1", each) for each in ("x,1", "x,2", "x,3", "tslab,1", "tslab,2")), 6,
                 "tslab ends after shift 2 of 3"),
                ("phase_shifts", SHIFTS + shift + "tslab,2,1,,256,20,96.00,1,1\n", 3, "tslab has committed_bytes in 1 of 2 shifts")):
            self.bad(name, text, line, said)


class Commits(Folder):
    def about(self, *more):
        self.files(run=RUN + "".join(f"{line}\n" for line in more))
        return make_results.about_the_run(figures.Suite(self.folder))

    def test_each_commit_has_its_steps_and_times(self):
        self.assertIn("| abc | 2020-01-01 00:00 | soak |", self.about())
        lines = self.about("churn_test,1,tslab,9.0,0,2020-01-02 10:00:59,def,churn_test",
                           "churn_test,1,malloc,9.0,0,2020-01-02 11:30:00,def,churn_test",
                           "smoke_tests,1,tslab,9.0,0,2020-01-03 00:05:00,abc,smoke_tests")
        self.assertIn("| abc | 2020-01-01 00:00 to 2020-01-03 00:05 | soak, smoke_tests |", lines)
        self.assertIn("| def | 2020-01-02 10:00 to 11:30 | churn_test |", lines)

    def test_steps_of_another_machine_are_named(self):
        self.assertIn("Machine: a machine, 2 processors, 1 GiB, Linux. ", self.about()[0])
        text = RUN.replace("commit,command", "commit,machine,command").replace("abc,soak", 'abc,"M2, 4 processors",soak')
        self.assertNotEqual(text, RUN)
        self.files(run=text + "churn_test,1,tslab,9.0,0,2020-01-01 00:00:00,abc,another,churn_test\n")
        suite = figures.Suite(self.folder)
        self.assertEqual(suite.machines(), "M2, 4 processors (soak); another (churn_test)")
        self.assertEqual(suite.machines({"soak"}), "M2, 4 processors")
        self.assertEqual(suite.machines({"phase_shifts", "mixed_load"}), "another")
        self.assertIn("Machine: M2, 4 processors (soak); another (churn_test). ", make_results.about_the_run(suite)[0])


class Programs(Folder):
    HEADER = "# machine: M\n# command: make bench-programs ARGS=\"--rounds 3\"\n# date: D, load 3.00 at the start\n" \
        "# allocators: tslab 1, glibc 2\n# commit: abc\npart,row,allocator,cpu_s,kib,median_p999_p9999_ns\n"

    def lines(self, rows):
        self.files(programs=self.HEADER + rows)
        return tables.programs(figures.Suite(self.folder), {})

    def test_ratios_are_to_the_best_other_and_one_that_fails_has_none(self):
        lines = self.lines("time,a,glibc,2,4096,\ntime,a,tslab,1,2048,\ntime,a,jemalloc,0.5,8192,\n"
                           "time,b,glibc,1,1024,\ntime,b,tslab,4,1024,\ntime,b,jemalloc,,,\n")
        self.assertIn("| program | temporal-slab | glibc | jemalloc | ratio to the best other |", lines)
        self.assertIn("| a | 1.00 | 2.00 | 0.50 | 2.00 |", lines)
        self.assertIn("| b | 4.00 | 1.00 | - | 4.00 |", lines)
        self.assertIn("| a | 2.00 | 4.00 | 8.00 | 0.50 |", lines)
        self.assertIn("| geometric mean |  |  |  | 2.83 |", lines)

    def test_what_was_measured_after_the_work(self):
        lines = self.lines("idle,a,glibc,,4096,\nidle,a,tslab,,2048,\n")
        self.assertIn("| a | 2.00 | 4.00 | 0.50 |", lines)
        self.assertFalse([line for line in lines if "processor time" in line])


class Words(unittest.TestCase):
    def test_no_ratio_is_formed_of_p50s_in_the_noise(self):
        def summary(ours, peer):
            return {("w", metric): row_of(metric, tslab=mine, malloc=theirs) for metric, mine, theirs in (
                ("alloc_p50_ns", ours, peer), ("alloc_floor_ns", (20, 20), (20, 20)), ("alloc_p99_ns", ours, peer))}

        # Of one peer's rounds, and of two that do not meet, which are told apart however small they are.
        for ours, peer, shown in (((20, 20), (10, 10), "**behind malloc by 2.00 x**"), ((8, 4), (4, 8), "-"), ((9, 9.9), (9.9, 10), "-"),
                                  ((8, 8), (4, 4), "**behind malloc by 2.00 x**"), ((4, 4), (8, 8), "ahead of malloc by 2.00 x")):
            self.assertEqual(words.where(summary(ours, peer), "w", "alloc_p50_ns"), shown)
        self.assertEqual(words.where(summary((8, 8), (4, 4)), "w", "alloc_p99_ns"), "**behind malloc by 2.00 x**")

    def test_the_farthest_misses_come_first(self):
        rows = [report.Judged("suite/w", metric, kind, limit, figure, "malloc", "miss", "")
                for metric, kind, limit, figure in (("a", "ratio", 0.5, 1), ("b", "absolute", 10, 90), ("z", "absolute", 0, 15))]
        self.assertEqual([row.metric for row in sorted(rows, key=tables.over, reverse=True)], ["z", "b", "a"])

    def test_standing(self):
        for values, text in [
            ({"tslab": 10, "malloc": 40, "mimalloc": 20}, "ahead of mimalloc by 2.00 x"),
            ({"tslab": 30, "malloc": 40, "mimalloc": 20}, "**behind mimalloc by 1.50 x**"),
            ({"tslab": 10.2, "malloc": 40, "mimalloc": 10}, "equal to mimalloc"),
            ({"tslab": 0, "malloc": 0}, "equal to malloc"),
            ({"tslab": 0, "malloc": 3}, "ahead of malloc"),
            ({"tslab": 1, "malloc": 0}, "**behind malloc**"),
            ({"tslab": 1}, ""),
            ({"malloc": 1}, ""),
        ]:
            self.assertEqual(words.standing(row_of(**{name: [value] for name, value in values.items()})), text)
        self.assertEqual(words.standing(row_of(tslab=[4], malloc=[0.5]), "kept_pct"), "**behind malloc by 3.50 points**")
        self.assertEqual(words.standing(row_of(tslab=[4], malloc=[44]), "kept_pct"), "ahead of malloc by 40.0 points")
        self.assertEqual(words.standing(row_of(tslab=[0.4], malloc=[0]), "kept_pct"), "equal to malloc")
        # quotients 0.5, 4 and 3 round by round; the quotient of the medians would be 0.6
        self.assertEqual(words.standing(row_of(tslab=[5, 40, 6], malloc=[10, 10, 2])), "**behind malloc by 3.00 x**")

    def test_numbers(self):
        for value, text in ((0, "0"), (4.567, "4.57"), (45.67, "45.7"), (456.7, "457"), (4567, "4,567"),
                            (0.05, "0.05"), (0.0012, "0.0012"), (-3.2, "-3.20"), (9.999, "10.0")):
            self.assertEqual(words.number(value), text)
        self.assertEqual(words.with_spread({"median": 5, "min": 4, "max": 7, "runs": 3}), "5.00 (4.00..7.00)")
        self.assertEqual(words.with_spread({"median": 5, "min": 4, "max": 7, "runs": 3},
                                                  claims.percent_of_rest), "95.0 (93.0..96.0)")
        self.assertEqual(words.with_spread({"median": 5, "min": 5, "max": 5, "runs": 1}), "5.00")

    def test_an_allocator_has_one_name_and_one_colour(self):
        self.assertEqual([words.label(name) for name in ("tcmalloc", "tcmalloc_free", "tslab", "mimalloc-3.3.2")],
                         ["gperftools", "gperftools_free", "temporal-slab", "mimalloc-3.3.2"])
        for same in (("tslab", "temporal-slab", "tslab_reset"), ("jemalloc", "jemalloc-5.3.1", "jemalloc-5.3.1 bg", "jemalloc_free"),
                     ("tcmalloc", "gperftools"), ("malloc", "glibc")):
            self.assertEqual(len({palette.colour(name) for name in same}), 1, same)
        self.assertEqual(len(set(palette.COLOURS.values())), len(palette.COLOURS))


class Document(Folder):
    def write_some(self):
        self.files(
            run=RUN,
            soak="allocator,epoch,throughput_ops_sec,version\n" + "".join(
                f"{name},{n},{speed},{n}\n" for name, speed in (("tslab", 2e8), ("malloc", 1e8), ("mimalloc", 2.5e8))
                for n in (1, 2)),
            space="allocator,work,kind,overhead_pct,version,round\ntslab,128,churn,4,1,1\nmalloc,128,churn,12,2,1\n",
        )

    BLOCK = "before\n<!-- figures: standing begin (benchmarks/report/make_results.py) -->\nold\n<!-- figures: standing end -->\nafter\n"

    def make(self, *arguments, readme=BLOCK):
        """The pages are in the folder of the figures."""
        (self.folder / "docs").mkdir(exist_ok=True)
        self.write("README.md", readme)
        return self.again(*arguments)

    def again(self, *arguments):
        return script("report/make_results.py", "--results", self.folder, "--root", self.folder, *arguments)

    def test_a_page_and_a_block(self):
        self.write_some()
        answer = self.make()
        self.assertEqual(answer.returncode, 0, answer.stderr)
        out, readme = self.folder / "docs" / "results.md", self.folder / "README.md"
        text = out.read_text(encoding="utf-8")
        self.assertIn("- **Ahead of all others**: memory beyond the payload (8.00 points, malloc).\n- **Level with the best**: in no row.\n"
                      "- **Behind the best**: a mixed load for minutes (1.25 x, mimalloc).\n", text)
        self.assertIn(" aims of targets.csv are met. ", text)
        self.assertIn("| soak | op_ns | 5.00 | mimalloc (fixed) | 4.00 | 1.25 x | 0.952 x |", text)
        self.assertIn("Machine: a machine, 2 processors, 1 GiB, Linux.", text)
        self.assertIn("| temporal-slab | 2 | 200 |", text)
        self.assertNotIn("quick", text)
        lines = readme.read_text(encoding="utf-8").split("\n")
        self.assertEqual((lines[0], lines[-2]), ("before", "after"))
        at = lines.index("- **Ahead**: memory beyond payload.")
        self.assertEqual(lines[at + 1:at + 4], ["- **Level**: in no row.", "- **Behind**: mixed load (1.25 x).", ""])
        self.assertTrue(lines[at + 4].startswith("Each beside the best other allocator of its row. Measured "), lines[at + 4])
        self.assertNotIn("old", lines)
        self.assertIn("soak,op_ns,ns,mimalloc,1,4,4,4,2", (self.folder / "all_figures.csv").read_text(encoding="utf-8").split("\n"))
        self.assertIn("# commit: abc", (self.folder / "aims.csv").read_text(encoding="utf-8").split("\n"))
        self.assertEqual(self.again("--check").returncode, 0)
        for path in (out, readme, self.folder / "aims.csv"):
            good = path.read_text(encoding="utf-8")
            path.write_text(good.replace("5.00", "5.01").replace("miss", "ok").replace("1.25 x", "1.26 x"), encoding="utf-8")
            stale = self.again("--check")
            self.assertEqual(stale.returncode, 1, path)
            self.assertIn(f"{path.name} is not what the figures give", stale.stderr)
            path.write_text(good, encoding="utf-8")

    def test_a_quick_run_says_so_wherever_its_figures_are(self):
        self.write_some()
        self.files(run=RUN.replace("mode: full", "mode: quick"))
        self.assertEqual(self.make().returncode, 0)
        for name in ("README.md", "docs/results.md"):
            self.assertIn("**A quick run: less work", (self.folder / name).read_text(encoding="utf-8"))
        for name in ("aims.csv", "all_figures.csv"):
            self.assertIn("# mode: quick\n", (self.folder / name).read_text(encoding="utf-8"))

    def test_the_burst_of_make_run_and_the_inlined_scopes(self):
        self.write_some()
        self.files(run=RUN.replace("# allocators: tslab 1, malloc 2", "# allocators: tslab 1, malloc 2, tcmalloc 2.10"),
                   make_run="row,allocator,time_ns,memory_bytes\n" + "".join(
                       f"memory after a burst,{name},1000,{mib << 20}\n" for name, mib in
                       (("malloc", 100), ("gperftools", 90), ("jemalloc-5.3.1", 80), ("jemalloc-5.3.1 bg", 60), ("tslab", 30))),
                   rust="work,side,ns\nscope of 10 objects of 40 bytes,tslab,6\nscope of 10 objects of 40 bytes,bumpalo,2\n"
                   "scope of 10 objects of 40 bytes,Box,40\n")
        burst, rust = (self.BLOCK.replace("standing", name) for name in ("burst", "rust"))
        self.assertEqual(self.make(readme=self.BLOCK + burst + rust).returncode, 0)
        text = (self.folder / "README.md").read_text(encoding="utf-8")
        for said in ("| malloc 2 | gperftools 2.10 | jemalloc 5.3.1 | jemalloc 5.3.1 with its background thread | temporal-slab |",
                     "| 100 MiB | 90 MiB | 80 MiB | 60 MiB | **30 MiB** |", "- **Ahead**: memory after a burst (2.00 x)", "| scope of 10 objects of 40 bytes | 6.00 | 2.00 | 40.0 | 3.00 |"):
            self.assertIn(said, text)
        self.assertEqual(text.count("; commit "), 1)
        self.assertIn("memory after a burst (2.00 x, jemalloc-5.3.1 bg)", (self.folder / "docs" / "results.md").read_text(encoding="utf-8"))

    def test_where_we_are_takes_75_words_at_most(self):
        rows = [(brief, "", "" if metric.endswith("_pct") else "12.3 x", "") for brief, _, _, metric in make_results.HEADLINES]
        rows += [(brief, "", "12.3 x", "") for brief in (make_results.BURST, "unmodified programs")]
        with mock.patch.object(make_results, "placed", return_value={-1: rows[::2], 0: rows[1::4], 1: rows[3::4]}), \
                mock.patch.object(make_results, "measured", return_value=""):
            bullets = make_results.standing_block(None, None)[:3]
        self.assertLessEqual(len(" ".join(bullets).split()), 75)

    def test_every_claim_has_its_verdict(self):
        head = ACCURATE.replace("p9999_ns,", "p9999_ns,p99999_ns,")
        self.files(run=RUN, benchmark_accurate=head + "".join(
            f"{name},1,128,{op},9,{p50},20,{p99},{p999},5,4000,{p99999},1,1\n" for name, op, p50, p99, p999, p99999 in
            (("tslab", "fifo_alloc", 10, 30, 100, 6000), ("malloc", "fifo_alloc", 9, 30, 3800, 9000), ("tslab", "alloc", 12, 90, 264, 7000),
             ("malloc", "alloc", 9, 80, 500, 8000))),
            phase_shifts=SHIFTS + "".join(f"tslab,{n},100,{committed},256,20,96,1,1\n" for n, committed in ((1, 600000), (2, 900000))),
            tail_attribution="allocator,rank,verdict,path,wall_ns,operations,empty_as_slow,allocations,slow_allocations\ntslab,1,machine,fast,900,2000,0,1000,7\n")
        suite, summary = make_results.summarize(self.folder)
        rows = {cells[0]: cells for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in claims.table(suite, summary))}
        self.assertEqual(rows["FIFO: p99.9, ns"], ["FIFO: p99.9, ns", "166", "11,525", "100", "3,800", "ahead of malloc by 38 x"])
        self.assertEqual(rows["FIFO: variance, p99.999 over p50"][1:], ["659", "10,585", "600", "1,000", "ahead of malloc by 1.67 x"])
        self.assertEqual(rows["random: p99, ns"][1:], ["-", "-", "90.0", "80.0", "**behind malloc by 1.12 x**"])
        self.assertEqual(rows["committed after the first phase shift, MB"][-1], "better than published")
        self.assertEqual(rows["committed after the last, MB"][-1], "**worse than published**")
        self.assertEqual(next(cells for name, cells in rows.items() if name.startswith("share of slow paths"))[1:], ["below 1", "-", "0.70", "-", "better than published"])
        self.assertEqual([name for name, cells in rows.items() if cells[-1] == ""],
                         ["memory that a spike gives back as soon as it is over, mean of 2 shifts, %"])  # of ours alone here
        self.assertIn("p99 1.00 (39), p99.9 38 (69)", "\n".join(tables.design(suite, summary)))

    def test_marks_that_do_not_belong_together(self):
        self.write_some()
        for text, words_of_it in ((self.BLOCK.replace("standing end", "other end"), "README.md: a block of figures begins and does not end"),
                                  (self.BLOCK.replace("standing", "nothing"), "no block of figures is named 'nothing'")):
            answer = self.make(readme=text)
            self.assertEqual(answer.returncode, 2)
            self.assertIn(words_of_it, answer.stderr)
            self.assertEqual((self.folder / "README.md").read_text(encoding="utf-8"), text)
        # of a step that was not measured it stays as it is
        other = self.BLOCK.replace("standing", "comparison")
        self.assertIn("not measured, the old block stays: README.md: comparison", self.make(readme=other).stderr)
        self.assertEqual((self.folder / "README.md").read_text(encoding="utf-8"), other)

    def gate(self):
        answer = script("report/gate.py", self.folder)
        return answer, {tuple(line.split()[:2]): line for line in answer.stdout.split("\n") if line.strip()}

    def test_the_gate(self):
        self.write_some()
        answer, rows = self.gate()
        self.assertEqual(answer.returncode, 1)
        self.assertTrue(rows["suite/space_128", "overhead_pct"].endswith(" ok"))
        self.assertTrue(rows["suite/soak", "op_ns"].endswith(" miss"))
        self.assertIn("mimalloc (fixed)", rows["suite/soak", "op_ns"])
        self.assertTrue(rows["suite/size_mix", "waste_pct"].endswith("not measured: no tslab"))
        self.assertIn("judged without jemalloc, tcmalloc, mimalloc, snmalloc, google, apr, pmr, pmr_pooled, bumpalo, apr_clear, bumpalo_reset: ",
                      answer.stdout)
        self.assertIn("gate: FAILED", answer.stdout)

    def test_the_gate_tells_new_misses_from_those_of_the_tree(self):
        self.write_some()
        tree = self.folder / "tree"
        tree.mkdir()
        targets = report.read_targets()
        with mock.patch.object(gate, "RESULTS", tree):
            self.assertIsNone(gate.missed_in_tree(self.folder, targets))  # there are none to compare with
            for file in self.folder.glob("*.csv"):
                shutil.copy(file, tree)
            self.assertIsNone(gate.missed_in_tree(tree, targets))  # these are they
            same = gate.missed_in_tree(self.folder, targets)
        self.assertIn("suite/soak op_ns", same)
        self.assertNotIn("suite/space_128 overhead_pct", same)
        for before, said in ((same, "NEW: none"), (same - {"suite/soak op_ns"}, "NEW: suite/soak op_ns\n")):
            out = io.StringIO()
            with mock.patch.object(gate, "missed_in_tree", lambda *_, before=before: before), contextlib.redirect_stdout(out):
                self.assertEqual(gate.main([str(self.folder)]), 1)
            self.assertIn(said, out.getvalue())

    def test_the_gate_fails_without_an_allocator_unless_it_is_named(self):
        targets = {("suite/space_128", "overhead_pct"): ("absolute", 5)}
        names = ",".join(gate.PEERS)
        self.write_some()
        for arguments, code, said in (([], 1, "--without jemalloc,"), (["--without", names], 0, "gate: passed"),
                                       (["--without", "apr"], 1, "gate: FAILED")):
            out = io.StringIO()
            with mock.patch.object(gate.report, "read_targets", lambda: targets), contextlib.redirect_stdout(out):
                self.assertEqual(gate.main([*arguments, str(self.folder)]), code)
            self.assertIn(said, out.getvalue())
        self.refused(script("report/gate.py", "--without", "none", self.folder), "'none'")

    def accurate(self, *without):
        """Two rounds of alloc and seq_alloc, in which nobody has a spike, without the rows that begin like these."""
        rows = [f"{name},1,128,{op},12,10,20,30,40,5,50,1,{n}\n" for n in (1, 2) for name in ("tslab", "malloc")
                for op in ("alloc", "seq_alloc")]
        rows = [row for row in rows if not row.startswith(without) and not row.endswith(without)]
        self.files(benchmark_accurate=ACCURATE + "".join(rows), run=RUN)
        return {key: line.rpartition("  ")[2] for key, line in self.gate()[1].items()}

    def test_the_gate_misses_rows_that_are_not_there(self):
        alloc, spike = ("suite/latency_128", "alloc_p999_ns"), ("suite/sequential_128", "spike_p99_ns")
        rows = self.accurate(" ")
        self.assertEqual((rows[alloc], rows[spike]), ("miss", "does not apply"))
        self.assertEqual(self.accurate("malloc,1,128,alloc")[alloc], "not measured: no malloc")
        for name in ("tslab", "malloc"):
            self.assertEqual(self.accurate(f"{name},1,128,seq_alloc")[spike], f"not measured: no {name}")
            self.assertEqual(self.accurate(f"{name},1,128,seq_alloc,12,10,20,30,40,5,50,1,2\n")[spike],
                             f"not measured: no {name}")
        self.assertEqual(self.accurate("malloc,1,128,alloc,12,10,20,30,40,5,50,1,2\n")[alloc],
                         "not measured: malloc has other rounds")

    def test_the_gate_wants_every_region_peer_and_every_peer_of_the_core(self):
        self.write_some()
        rows = [f"{name},1,{objects},1,4,4,4,40,1.5,1\n" for name in ("tslab", "apr", "pmr") for objects in (10, 100)]
        raw = "# machine: m\n# date: d\n# commit: c\n# allocators: tslab 1, glibc 2, jemalloc 5, tcmalloc not installed\n"
        raw += ",".join(report.RAW_COLUMNS) + "\n" + "".join(
            f"1,{name},1,{work},{metric},5,ns\n" for name in ("tslab", "glibc", "jemalloc")
            for work, metric in (("fifo_replace", "pair_ns"), ("request", "object_ns")))
        raw = raw.replace("1,jemalloc,1,request,object_ns,5,ns\n", "")
        self.files(scope_bench=SCOPES + "".join(rows[:-1]), core_bench_raw=raw)
        rows = self.gate()[1]
        self.assertTrue(rows["suite/scope_10x1", "object_ns"].endswith(" ok"))
        self.assertTrue(rows["suite/scope_100x1", "object_ns"].endswith("not measured: no pmr"))
        self.assertTrue(rows["fifo_replace", "pair_ns"].endswith(" miss"))
        self.assertTrue(rows["request", "object_ns"].endswith("not measured: no jemalloc"))

    def test_the_gate_refuses_a_run_that_makes_no_figures(self):
        for record, said in [
            (RUN.replace("mode: full", "mode: smoke"), "run.csv: mode smoke"),
            (RUN.replace("90.0,0,", "90.0,1,"), "run.csv:8: soak of all ended with exit code 1"),
            (RUN.replace("90.0,0,", "90.0,-9,"), "exit code -9"),
            (RUN.replace("# machine: a machine, 2 processors, 1 GiB, Linux\n", ""), "run.csv:1: no line '# machine"),
            (RUN.replace("90.0,0,", "long,0,"), "run.csv:8: seconds 'long'"),
            (None, "run.csv: is not there"),
        ]:
            self.write_some()
            if record:
                self.files(run=record)
            else:
                (self.folder / "run.csv").unlink()
            self.refused(self.gate()[0], said)
        # one that cannot measure here has ended well, and so has one that no target needs
        for record in (RUN.replace("90.0,0,", "90.0,3,"), RUN.replace("soak,1,all,90.0,0,", "smoke_tests,1,tslab,90.0,1,")):
            self.files(run=record)
            self.assertEqual(self.gate()[0].returncode, 1)

    def test_refuses(self):
        self.refused(self.make(), "no results")
        self.write_some()
        self.write("soak.csv", "allocator,epoch,throughput_ops_sec\ntslab,1,x\n")
        self.refused(self.make(), "soak.csv:2: ")


if __name__ == "__main__":
    unittest.main()
