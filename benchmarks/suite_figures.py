"""The figures that the CSV files of run_all.sh contain, in the form of core_bench's measurements.

measurements(Suite(folder)) gives rows as bench_report.read_raw does: a work, a metric, an allocator and a value, of
which less is better. The same medians, ratios and targets then apply to them. What is not there gives no row.
"""

import csv
import math
import pathlib
import re

import bench_report as report

OURS = report.OURS
ALLOCATORS = ["tslab", "malloc", "jemalloc", "tcmalloc", "mimalloc"]
# scope_bench: those that cannot free single objects, by whether the scope itself is kept and emptied.
REGIONS = ["apr", "pmr", "pmr_pooled", "bumpalo"]
KEPT_REGIONS = ["apr_clear", "bumpalo_reset"]
SIZE = "128"  # the documents' own object
# glibc "shows its spikes" where one operation in a thousand takes this many times the median.
SPIKE = 12.0
FILES = ["benchmark_accurate", "fragmentation", "latency_cdf", "space", "churn_test", "phase_shifts", "epoch_cycles",
         "mixed_load", "benchmark_threads", "thread_trials", "fragmentation_over_time", "scope_bench", "tail_attribution", "soak",
         "observability", "smoke_tests", "run"]


class Suite:
    """The CSV files of one folder, each read once."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.tables = {}

    def path(self, name):
        return self.folder / f"{name}.csv"

    def rows(self, name):
        """The rows as dictionaries; none if the file is not there. `line` is the row's line in the file."""
        if name not in self.tables:
            self.tables[name] = list(self._read(name))
        return self.tables[name]

    def _read(self, name):
        path = self.path(name)
        if not path.is_file():
            return
        with open(path, newline="", encoding="utf-8") as file:
            lines = [(number, line) for number, line in enumerate(file, 1) if line.strip() and not line.startswith("#")]
        if not lines:
            raise report.InputError(f"{path}:1: no heading")
        heading = next(csv.reader([lines[0][1]]))
        for number, line in lines[1:]:
            fields = next(csv.reader([line]))
            if len(fields) != len(heading):
                raise report.InputError(f"{path}:{number}: {len(fields)} fields, {len(heading)} expected")
            yield {**dict(zip(heading, fields)), "line": str(number)}

    def number(self, name, row, column):
        """A field as a number; None if it is empty."""
        where = f"{self.path(name)}:{row['line']}"
        if column not in row:
            raise report.InputError(f"{self.path(name)}:1: no column {column}")
        if row[column] == "":
            return None
        try:
            value = float(row[column])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise report.InputError(f"{where}: {column} '{row[column]}' is no number")
        return value

    def series(self, name, allocator, column, round_="1"):
        """The numbers of a column, in the order of the file, for one allocator and round."""
        values = (self.number(name, row, column) for row in self.rows(name)
                  if row["allocator"] == allocator and row.get("round", "1") == round_)
        return [value for value in values if value is not None]

    def allocators(self, name):
        """In the order of ALLOCATORS, then as in the file."""
        found = dict.fromkeys(row["allocator"] for row in self.rows(name))
        return [a for a in ALLOCATORS if a in found] + [a for a in found if a not in ALLOCATORS]

    def versions(self):
        result = {}
        for name in FILES:
            for row in self.rows(name):
                if row.get("version") and row.get("allocator"):
                    result.setdefault(row["allocator"], row["version"])
        return result

    def header(self, name="run"):
        """The lines about the run that a file begins with, by their first word."""
        path = self.path(name)
        if not path.is_file():
            return {}
        with open(path, encoding="utf-8") as file:
            lines = [line[2:].rstrip("\n") for line in file if line.startswith("# ")]
        return dict(line.split(": ", 1) for line in lines if ": " in line)


def measurement(row, work, metric, value, unit, allocator=None):
    return {"round": int(row.get("round") or 1), "allocator": allocator or row["allocator"],
            "version": row.get("version") or "", "work": report.SUITE + work, "metric": metric, "value": value, "unit": unit}


# ---- latency ------------------------------------------------------------------------------------

PERCENTILES = ["p50", "p95", "p99", "p999", "p9999", "p99999"]


def latency(suite):
    name = "benchmark_accurate"
    spikes = {}
    for row in suite.rows(name):
        if row["op"] == "floor":
            continue
        work = f"latency_{row['size_class']}"
        values = {p: suite.number(name, row, f"{p}_ns") for p in PERCENTILES if f"{p}_ns" in row}
        for p, value in values.items():
            yield measurement(row, work, f"{row['op']}_{p}_ns", value, "ns")
        if values.get("p50") and values.get("p9999"):
            yield measurement(row, work, f"{row['op']}_p9999_over_p50", values["p9999"] / values["p50"], "")
        if row["op"] == "seq_alloc":
            spikes[row.get("round", "1"), row["size_class"], row["allocator"]] = (row, values)
    # Against glibc in sequence: only the sizes and percentiles where glibc has a spike.
    for (round_, size, allocator), (row, values) in spikes.items():
        theirs = spikes.get((round_, size, "malloc"))
        if allocator not in (OURS, "malloc") or theirs is None:
            continue
        for p in ("p99", "p999"):
            if theirs[1].get("p50") and theirs[1][p] > SPIKE * theirs[1]["p50"]:
                yield measurement(row, f"sequential_{size}", f"spike_{p}_ns", values[p], "ns")


# ---- memory -------------------------------------------------------------------------------------


def space(suite):
    for row in suite.rows("space"):
        kind = "" if row["kind"] == "churn" else f"{row['kind']}_"
        value = suite.number("space", row, "overhead_pct")
        yield measurement(row, f"space_{row['work']}", f"{kind}overhead_pct", value, "%")
    sums = {}
    for row in suite.rows("fragmentation"):
        total = sums.setdefault((row.get("round", "1"), row["allocator"]), [row, 0.0, 0.0])
        total[1] += suite.number("fragmentation", row, "requested")
        total[2] += suite.number("fragmentation", row, "rounded")
    for row, requested, rounded in sums.values():
        yield measurement(row, "size_mix", "waste_pct", 100 - 100 * requested / rounded, "%")


def drift(values):
    """How far a series ever is from its first value."""
    return max(abs(value - values[0]) for value in values)


def memory(suite):
    for allocator in suite.allocators("phase_shifts"):
        some = next(row for row in suite.rows("phase_shifts") if row["allocator"] == allocator)
        for column in ("live_bytes", "committed_bytes"):
            values = suite.series("phase_shifts", allocator, column)
            if values:
                yield measurement(some, "phase_shifts", f"{column}_drift", drift(values), "bytes")
        returned = suite.series("phase_shifts", allocator, "returned_pct")
        yield measurement(some, "phase_shifts", "kept_pct", 100 - sum(returned) / len(returned), "%")
        yield measurement(some, "phase_shifts", "worst_kept_pct", 100 - min(returned), "%")
        cool = suite.series("phase_shifts", allocator, "rss_cool_mib")
        yield measurement(some, "phase_shifts", "rss_growth_pct", growth(cool), "%")
    for name, column, metric in (("churn_test", "rss_mib", "rss_growth_pct"),
                                 ("epoch_cycles", "rss_full_mib", "rss_growth_pct"),
                                 ("mixed_load", "rss_mib", "rss_growth_pct")):
        for allocator in suite.allocators(name):
            some = next(row for row in suite.rows(name) if row["allocator"] == allocator)
            values = suite.series(name, allocator, column)
            if len(values) > 2:
                yield measurement(some, name, metric, growth(values), "%")
                yield measurement(some, name, "rss_mib", values[-1], "MiB")


def growth(values):
    """In per cent, from the second value (the first one warms up) to the last; what shrinks has not grown."""
    return max(0.0, 100 * (values[-1] / values[1] - 1))


# ---- threads ------------------------------------------------------------------------------------


def processors(suite):
    """As many as the machine had that the figures are of; None if that is not recorded."""
    match = re.search(r"(\d+) processors", suite.header().get("machine", ""))
    return int(match[1]) if match else None


def threads(suite):
    name = "thread_trials"
    speeds = {}
    for row in suite.rows(name):
        value = suite.number(name, row, "ops_per_sec")
        where = row["epochs"] if row["epochs"] != "same" else ""
        work = f"threads_{row['threads']}_{row['frees']}" + (f"_{where}" if where else "")
        row = {**row, "round": row["trial"]}
        yield measurement(row, work, "op_ns", 1e9 / value, "ns")
        yield measurement(row, work, "p99_ns", suite.number(name, row, "p99_ns"), "ns")
        if row["frees"] == "private" and not where:
            speeds[row["allocator"], row["threads"], row["trial"]] = (row, value)
    few = str(processors(suite))
    for (allocator, count, trial), (row, value) in speeds.items():
        base = speeds.get((allocator, few, trial))
        if count == "16" and base:
            yield measurement(row, "threads", "slowdown_16", base[1] / value, "")
    for row in suite.rows("benchmark_threads"):
        if row["threads"] == "16" and row["frees"] == "private" and row["lock_contended"]:
            metric = "locks_contended" + ("" if row["epochs"] == "same" else f"_{row['epochs']}")
            yield measurement(row, "threads", metric, suite.number("benchmark_threads", row, "lock_contended"), "")


# ---- what comes back ----------------------------------------------------------------------------


def survivors(suite):
    name = "fragmentation_over_time"
    last = {}
    for row in suite.rows(name):
        if row["moment"] in ("idle", "asked"):
            last[row.get("round", "1"), row["allocator"], row["placement"], row["moment"]] = row
    for (_, _, placement, moment), row in last.items():
        value = 100 - suite.number(name, row, "returned_pct")
        yield measurement(row, f"survivors_{placement}", f"kept_{moment}_pct", value, "%")


# ---- scopes, soak, observability ----------------------------------------------------------------


def scopes(suite):
    for row in suite.rows("scope_bench"):
        work = f"scope_{row['objects_per_scope']}x{row['scopes_open']}"
        value = suite.number("scope_bench", row, "ns_per_object")
        allocator = row["allocator"]
        if allocator == OURS or allocator in REGIONS:
            yield measurement(row, work, "object_ns", value, "ns")
        if allocator == "tslab_reset" or allocator in KEPT_REGIONS:
            yield measurement(row, work, "kept_object_ns", value, "ns", OURS if allocator == "tslab_reset" else None)
        if allocator in (OURS, "mimalloc"):
            yield measurement(row, work, "heap_destroy_ns", value, "ns")
            drop = suite.number("scope_bench", row, "drop_ns_per_scope")
            yield measurement(row, work, "drop_ns", drop, "ns")


def soak(suite):
    speeds = {}
    for row in suite.rows("soak"):
        value = suite.number("soak", row, "throughput_ops_sec")
        speeds.setdefault(row["allocator"], []).append(value)
        # windows in turn: the n-th of each belong together
        yield {**measurement(row, "soak", "op_ns", 1e9 / value, "ns"), "round": int(row["epoch"])}
    for row in suite.rows("soak"):
        values = speeds.pop(row["allocator"], None)
        if values and len(values) > 1:
            mean = math.fsum(values) / len(values)
            deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
            yield measurement(row, "soak", "throughput_cv_pct", 100 * deviation / mean, "%")


def observability(suite):
    """The work in which the counters cost most, per operation: over its allocations and frees together, to which the
    calls of a domain belong."""
    name = "observability"
    works = {}
    for row in suite.rows(name):
        calls, difference = (suite.number(name, row, column) for column in ("calls", "difference"))
        total = works.setdefault(row["work"], [row, 0.0, 0.0])
        total[1] += calls * difference
        total[2] += calls if row["call"] != "domain" else 0
    means = [(total / calls, row) for row, total, calls in works.values() if calls]
    if means:
        worst, row = max(means, key=lambda pair: pair[0])
        yield measurement(row, name, "instructions_per_call", max(0.0, worst), "", OURS)


PARTS = [latency, space, memory, threads, survivors, scopes, soak, observability]


def measurements(suite):
    """All rows, as bench_report.summarize takes them."""
    return [row for part in PARTS for row in part(suite) if row["value"] is not None]
