#!/usr/bin/env python3
"""plot_bench.py draws every chart of a small set of files, says what is missing, and refuses bad input."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness.testing import InFolder, script  # noqa: E402

CHARTS = ["latency_percentiles", "latency_comparison", "rss_comparison", "latency_cdf", "p99_vs_threads", "scaling", "rss_over_time", "phases",
          "fragmentation", "slab_lifecycle", "scope_cost", "soak_distribution", "time_by_size", "summary"]
NAMES = ["tslab", "malloc"]


def table(heading, rows):
    return heading + "\n" + "".join(",".join(str(field) for field in row) + "\n" for row in rows)


def files():
    """Every file that a chart needs, with two allocators."""
    percentiles = [10, 20, 30, 40, 50]
    return {
        "benchmark_accurate": table("allocator,size_class,op,p50_ns,p99_ns,p999_ns,p9999_ns,p99999_ns,round", [
            (name, 128, op, *percentiles, 1) for name in NAMES for op in ("alloc", "free", "fifo_alloc")]),
        "latency_cdf": table("allocator,size_class,op,latency_ns,fraction_above,round", [
            (name, 128, op, 10 * n, 10.0**-n, 1) for name in NAMES for op in ("alloc", "free", "floor") for n in (1, 2, 3)]),
        "churn_test": table("allocator,cycle,rss_mib,slabs_allocated,slabs_recycled,slabs_overflowed", [
            (name, n, 12, *((n, n, 0) if name == "tslab" else ("", "", ""))) for name in NAMES for n in (1, 2, 3)]),
        "phase_shifts": table("allocator,shift,live_bytes,committed_bytes,rss_peak_mib,rss_cool_mib,returned_pct", [
            (name, n, "", "", 256, 20, 97) for name in NAMES for n in (1, 2, 3)]),
        "phases": table("allocator,phase,second,rss_mib,faults", [
            (name, phase, n + at, 100 - 30 * at, 1000) for name in NAMES for at, phase in ((0, "day"), (3, "night"))
            for n in (0, 1, 2)]),
        "epoch_cycles": table("allocator,cycle,rss_full_mib,rss_closed_mib", [
            (name, n, 9, 3) for name in NAMES for n in (1, 2, 3)]),
        "fragmentation": table("allocator,size_class,requested,rounded,wasted,efficiency_pct", [
            (name, size, 90, 100, 10, 90) for name in NAMES for size in (64, 128)]),
        "space": table("allocator,work,kind,overhead_pct", [
            (name, work, "churn", 4) for name in NAMES for work in ("128", "mix")]),
        "fragmentation_over_time": table("allocator,placement,moment,second,returned_pct", [
            *((name, "together", moment, 10, 60) for name in NAMES for moment in ("idle", "asked")),
            ("tslab", "by_lifetime", "idle", 10, 94), ("tslab", "by_lifetime", "asked", 10, 95)]),
        "thread_trials": table("allocator,threads,epochs,frees,trial,ops_per_sec,p99_ns", [
            (name, n, epochs, frees, trial, 1e8 * n, 50) for name in NAMES for epochs in ("same", "separate")
            for frees in ("private", "cross") for n in (1, 2, 16) for trial in (1, 2, 3)
            if name == "tslab" or epochs == "same"]),
        "scope_bench": table("allocator,objects_per_scope,scopes_open,ns_per_object,ns_min,ns_max,held_per_payload,"
                             "drop_ns_per_scope,floor_ns_per_object", [
            (name, objects, opened, 5, 4, 6, 1.2, 9, 1) for name in ("tslab", "glibc", "apr", "jemalloc", "jemalloc_tcache", "jemalloc_free")
            for objects in (1, 100) for opened in (1, 10)]),
        "soak": table("allocator,epoch,throughput_ops_sec", [
            (name, n, 1e8 + n) for name in NAMES for n in (1, 2, 3)]),
        "core_bench_raw": "# machine: one\n# date: a day\n# allocators: two\n# commit: c\n" + table(
            "round,allocator,version,work,metric,value,unit", [
                (n, name, 1, "by_size", f"pair_ns_{size}", 7 + n, "ns") for name in ("tslab", "glibc") for n in (1, 2, 3)
                for size in (8, 4096, 8 << 20)]),
    }


def plot(*arguments):
    return script("report/plot_bench.py", *arguments)


@unittest.skipIf("matplotlib is not installed" in plot("--help").stderr, "matplotlib is not installed")
class Charts(InFolder):
    def setUp(self):
        super().setUp()
        self.results = self.folder / "results"
        for name, text in files().items():
            self.file(name, text)

    def file(self, name, text):
        self.write(f"results/{name}.csv", text)

    def run_plot(self, *arguments):
        return plot("--results", self.results, "--out", self.folder / "images", *arguments)

    def test_every_chart(self):
        answer = self.run_plot()
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stderr, "")
        for name in CHARTS:
            data = (self.folder / "images" / f"{name}.png").read_bytes()
            self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
            self.assertGreater(len(data), 10000, name)

    def test_what_is_missing_is_named_and_the_rest_is_drawn(self):
        (self.results / "soak.csv").unlink()
        answer = self.run_plot("soak_distribution", "fragmentation")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("soak_distribution: left out: soak.csv is not there", answer.stderr)
        self.assertTrue((self.folder / "images" / "fragmentation.png").is_file())

    def drawn(self, chart):
        """The picture as text, and the words in it."""
        answer = self.run_plot(chart, "--format", "svg")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        picture = (self.folder / "images" / f"{chart}.svg").read_text(encoding="utf-8")
        return picture, re.findall("<!-- (.*?) -->", picture, re.DOTALL)

    def test_jemalloc_is_drawn_as_it_comes(self):
        text = files()["scope_bench"]
        slow = text.replace("jemalloc_tcache,1,1,5,", "jemalloc_tcache,1,1,5e7,").replace(
            "jemalloc_tcache,100,1,5,", "jemalloc_tcache,100,1,5e7,")
        self.assertEqual(slow.count("5e7"), 2)
        self.file("scope_bench", slow)
        self.file("soak", table("allocator,epoch,throughput_ops_sec", [
            (name, n, 1e8 + n) for name in (*NAMES, "jemalloc") for n in (1, 2, 3)]))
        words = self.drawn("scope_cost")[1]
        self.assertIn("jemalloc arenas", words)
        self.assertFalse([word for word in words if word.endswith(" ms")])
        words = self.drawn("summary")[1]
        self.assertNotIn("50000000", words)
        # jemalloc has no latency and no phase shifts here
        self.assertEqual(words.count("not measured"), 2)

    def test_threads_show_the_median_of_the_trials(self):
        text = files()["thread_trials"]
        self.file("thread_trials", re.sub("(,1,[0-9.e+]*),50\n", "\\1,5e7\n", text))
        self.assertFalse([word for word in self.drawn("p99_vs_threads")[1] if word.endswith(" ms")])
        self.file("thread_trials", re.sub(",1,[0-9.e+]*,50\n", ",1,1e15,50\n", text))
        picture, words = self.drawn("scaling")
        self.assertFalse([word for word in words if re.fullmatch("[0-9]{5,}", word)])
        self.assertIn("median of the trials", picture)

    def test_time_by_size(self):
        words = self.drawn("time_by_size")[1]
        for text in ("8 B", "8 MiB", "malloc (glibc)", "temporal-slab"):
            self.assertIn(text, words)
        text = files()["core_bench_raw"]
        self.file("core_bench_raw", text.replace("by_size", "other"))
        answer = self.run_plot("time_by_size")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("time_by_size: left out: core_bench_raw.csv is not there, or has no by_size", answer.stderr)

    def test_what_lines_and_axes_say(self):
        self.assertIn("temporal-slab at its peak: 256 MiB", self.drawn("rss_over_time")[1])
        self.assertIn("the axis does not begin at 0", self.drawn("soak_distribution")[0])
        self.assertIn("temporal-slab while full: 9.0 MiB", self.drawn("slab_lifecycle")[1])

    def test_fragmentation_shows_bars_that_are_too_low(self):
        picture, words = self.drawn("fragmentation")
        self.assertIn("64", words)  # the first size
        hatched = picture.count("fill: url(#")
        zeros = words.count("0")
        # of malloc five bars and one in the legend, of a work with an epoch of its own two and one
        self.assertEqual(hatched, 9)
        self.file("fragmentation_over_time", files()["fragmentation_over_time"].replace(",60\n", ",0\n"))
        self.assertEqual(self.drawn("fragmentation")[1].count("0"), zeros + 4)

    def test_a_short_run_has_other_shapes(self):
        heading = files()["scope_bench"].split("\n")[0]
        self.file("scope_bench", f"{heading}\ntslab,7,2,5,4,6,1.2,9,1\n")
        self.assertEqual(self.drawn("scope_cost")[1].count("not measured"), 3)

    def test_files_by_name(self):
        """What benchmark_accurate and churn_test wrote, under any name, without the rest of the suite."""
        mine = [self.write(f"mine/{name}", files()[kind]) for name, kind in (("latency.csv", "benchmark_accurate"), ("rss_churn.csv", "churn_test"))]
        answer = plot(*mine)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        drawn = {path.name for path in (self.folder / "mine" / "images").iterdir()}
        self.assertLessEqual({"latency_percentiles.png", "rss_over_time.png"}, drawn)
        self.assertNotIn("soak_distribution.png", drawn)
        self.refused(plot(self.write("mine/odd.csv", "a,b\n1,2\n")), "its heading is of no file")
        self.refused(plot(mine[0], self.results / "soak.csv"), "not in the folder")

    def test_refuses(self):
        self.file("soak", "allocator,epoch,throughput_ops_sec\ntslab,1,x\n")
        for words, *arguments in (("'nope'", "nope"), ("absent", "--results", self.folder / "absent"), ("soak.csv:2: ", "soak_distribution")):
            self.refused(self.run_plot(*arguments), words)
        self.file("soak", files()["soak"])
        self.file("run", "# mode: full\n" + table("step,round,allocator,seconds,exit_code,commit", []))
        self.refused(self.run_plot("soak_distribution"), "run.csv:1: no line '# machine")


if __name__ == "__main__":
    unittest.main()
