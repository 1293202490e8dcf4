"""The figures that the CSV files of run_all.sh contain, in the form of core_bench's measurements.

measurements(Suite(folder)) gives rows as bench_report.read_raw does: a work, a metric, an allocator and a value, of
which less is better. The same medians, ratios and targets then apply to them. What is not there gives no row.
"""

import pathlib
import re

from harness import run
from harness.peers import ALLOCATORS
from report import bench_report as report
from report import data
from steps import STEPS

OURS = report.OURS
# scope_bench: those that cannot free single objects, by whether the scope itself is kept and emptied.
REGIONS = ["apr", "pmr", "pmr_pooled", "bumpalo"]
KEPT_REGIONS = ["apr_clear", "bumpalo_reset"]
SIZE = "128"  # the object of the reference figures
# glibc "shows its spikes" where one operation in a thousand takes this many times the median.
SPIKE = 12.0
# scope_bench: those that are no other allocator's way to do what temporal-slab's scope does: its own variants, those
# that keep the scope and empty it, and the loop alone.
NO_WHOLE_SCOPE = ["tslab_keep", "tslab_reset", *KEPT_REGIONS, "none"]

# Of each file the columns that tell its rows apart, with `round`, and those that figures are made of.
COLUMNS = {name: columns for step in STEPS for name, columns in step.csv.items()}
COLUMNS["run"] = ({"step": "text", "allocator": "text"}, {"seconds": "from 0", "exit_code": "whole", "commit": "text"})
FILES = list(COLUMNS)
# The step that writes a file.
STEP_OF = {"core_bench_raw": "core_bench", **{name: step.name for step in STEPS for name in step.csv}}
OPTIONAL = {"round": "count", "p95_ns": "from 0", "p99999_ns": "positive", "samples": "count",  # may be missing
            "ns_of_rounds": "several", "drop_ns_of_rounds": "several", "machine": "text", "date": "text",
            "returned_asked_pct": "number?", "returned_rested_pct": "number?", "ops_per_sec": "from 0", "floor_ns": "from 0", "p99_ns_per_scope": "from 0",
            "timed_scopes": "amount", "allocations": "amount", "slow_allocations": "amount"}
# The required contents of the lines before the heading.
HEADERS = {"run": ["machine", "mode", "command", "date", "allocators"],
           "core_bench_raw": ["machine", "date", "allocators", "commit"],
          "programs": ["machine", "command", "date", "allocators", "commit"]}


def kind_of(path):
    """The file of COLUMNS that this one is by its heading; None if it is none of them."""
    heading = set(next((line for _, line in data.read_lines(path)), "").split(","))
    found = [name for name, (keys, values) in COLUMNS.items() if heading.issuperset({*keys, *values})]
    return max(found, key=lambda name: sum(map(len, COLUMNS[name])), default=None)


class Suite:
    """The CSV files of one folder, each read once. elsewhere: {name: path} of files that have another name."""

    def __init__(self, folder, elsewhere=()):
        self.folder = pathlib.Path(folder)
        self.elsewhere = dict(elsewhere)
        self.tables = {}
        self.asked = set()  # names of the files whose rows were asked for

    def path(self, name):
        return self.elsewhere.get(name, self.folder / f"{name}.csv")

    def rows(self, name):
        """The rows, their fields as COLUMNS demands; none if the file is not there."""
        self.asked.add(name)
        if name not in self.tables:
            self.tables[name] = data.read(self.path(name), *COLUMNS[name], OPTIONAL) if self.path(name).is_file() else []
        return self.tables[name]

    def series(self, name, allocator, column, round_="1"):
        """The numbers of a column, in the order of the file, for one allocator and round."""
        values = (row.number(column) for row in self.rows(name)
                  if row["allocator"] == allocator and row.get("round", "1") == round_)
        return [value for value in values if value is not None]

    def rounds(self, name):
        """In the order of the file."""
        return list(dict.fromkeys(row.get("round", "1") for row in self.rows(name)))

    def allocators(self, name):
        """In the order of ALLOCATORS, then as in the file."""
        found = dict.fromkeys(row["allocator"] for row in self.rows(name))
        return [a for a in ALLOCATORS if a in found] + [a for a in found if a not in ALLOCATORS]

    def header(self, name="run"):
        """The lines about the run that a file begins with, by their first word; empty if there is no such file."""
        path = self.path(name)
        if not path.is_file():
            return {}
        header = run.header_of(path)
        for word in HEADERS.get(name, []):
            if word not in header:
                raise data.InputError(f"{path}:1: no line '# {word}: ...' before the heading")
        return header

    def by_step(self, column, wanted=None):
        """What a column of run.csv says, of all steps or of those that are wanted, with the steps that each of several
        values is of."""
        steps = {}
        for row in self.rows("run"):
            if wanted is None or row["step"] in wanted:
                steps.setdefault(row.get(column) or self.header().get(column, ""), {})[row["step"]] = None
        return "; ".join(value if len(steps) == 1 else f"{value} ({', '.join(of)})" for value, of in steps.items())

    def machines(self, files=None):
        """In words, of all files or of some; empty if there is no record of the run."""
        steps = files and {STEP_OF.get(name, name) for name in files}
        return self.by_step("machine", steps) or self.header().get("machine", "")

    def measured(self, name="run"):
        """The allocators that the run had, as its file names them."""
        named = [text.split(" ", 1) for text in self.header(name).get("allocators", "").split(", ") if text]
        return [words[0] for words in named if words[1:] != ["not installed"]]


def measurement(row, work, metric, value, unit, allocator=None, spread=None):
    """spread: the numbers that the value is the median of, as far as they are known."""
    more = {"spread": spread} if spread else {}
    return {**more, "round": int(row.get("round") or 1), "allocator": allocator or row["allocator"],
            "version": row.get("version") or "", "work": report.SUITE + work, "metric": metric, "value": value, "unit": unit}


def worst(rows):
    """The largest value of each figure and allocator, of all its rounds: for figures that say `never`."""
    found = {}
    for row in rows:
        found.setdefault((row["work"], row["metric"], row["allocator"]), []).append(row)
    for same in found.values():
        values = [row["value"] for row in same]
        yield {**same[0], "round": 1, "value": max(values), "spread": values}


# ---- latency ------------------------------------------------------------------------------------

PERCENTILES = ["p50", "p95", "p99", "p999", "p9999", "p99999"]


# The works that are compared with glibc where it has a spike: the call alone, and the call with the first write.
SPIKES = {"seq_alloc": "sequential", "written": "sequential_written"}


def latency(suite):
    name = "benchmark_accurate"
    spikes = {}
    for row in suite.rows(name):
        if row["op"] == "floor":
            continue
        work = f"latency_{row['size_class']}"
        values = {p: row.number(f"{p}_ns") for p in PERCENTILES if f"{p}_ns" in row}
        for p, value in values.items():
            yield measurement(row, work, f"{row['op']}_{p}_ns", value, "ns")
        for p in ("p9999", "p99999"):
            if values.get("p50") and values.get(p):
                yield measurement(row, work, f"{row['op']}_{p}_over_p50", values[p] / values["p50"], "")
        if row.get("floor_ns"):
            yield measurement(row, work, f"{row['op']}_floor_ns", row.number("floor_ns"), "ns")
        if row["op"] in ("alloc", "free") and float(row.get("ops_per_sec") or 0):
            yield measurement(row, work, f"{row['op']}_call_ns", 1e9 / row.number("ops_per_sec"), "ns")
        if row["op"] in SPIKES:
            spikes[row.get("round", "1"), row["op"], row["size_class"], row["allocator"]] = (row, values)
    # Against glibc in sequence: only the sizes and percentiles where glibc has a spike.
    for (round_, op, size, allocator), (row, values) in spikes.items():
        theirs = spikes.get((round_, op, size, "malloc"))
        if allocator not in (OURS, "malloc") or theirs is None:
            continue
        for p in ("p99", "p999"):
            if theirs[1]["p50"] and theirs[1][p] > SPIKE * theirs[1]["p50"]:
                yield measurement(row, f"{SPIKES[op]}_{size}", f"spike_{p}_ns", values[p], "ns")


# ---- memory -------------------------------------------------------------------------------------


def space(suite):
    for row in suite.rows("space"):
        kind = "" if row["kind"] == "churn" else f"{row['kind']}_"
        value = row.number("overhead_pct")
        yield measurement(row, f"space_{row['work']}", f"{kind}overhead_pct", value, "%")
    sums = {}
    for row in suite.rows("fragmentation"):
        total = sums.setdefault((row.get("round", "1"), row["allocator"]), [row, 0.0, 0.0])
        total[1] += row.number("requested")
        total[2] += row.number("rounded")
    for row, requested, rounded in sums.values():
        yield measurement(row, "size_mix", "waste_pct", 100 - 100 * requested / rounded, "%")


def drift(values):
    """How far a series ever is from its first value."""
    return max(abs(value - values[0]) for value in values)


def check_shifts(suite):
    """Two shifts or more, and as many for every allocator: the drift over fewer is another figure."""
    name = "phase_shifts"
    last = {(row["allocator"], row.get("round", "1")): row.where for row in suite.rows(name)}
    counts = {key: len(suite.series(name, key[0], "returned_pct", key[1])) for key in last}
    most = max(2, *counts.values(), 2)
    for (allocator, round_), count in counts.items():
        where = f"{last[allocator, round_]}: {allocator}"
        if count < most:
            raise data.InputError(f"{where} ends after shift {count} of {most}")
        for column in ("live_bytes", "committed_bytes"):
            given = len(suite.series(name, allocator, column, round_))
            if given not in (0, count):
                raise data.InputError(f"{where} has {column} in {given} of {count} shifts")


SETTLED = 10  # shifts after which the retain budget has settled


def drifts(suite, allocator, row):
    """Of each round: live bytes of all shifts, committed bytes once the budget has settled."""
    for round_ in suite.rounds("phase_shifts"):
        for column in ("live_bytes", "committed_bytes"):
            values = suite.series("phase_shifts", allocator, column, round_)
            if column == "committed_bytes" and len(values) > 2 * SETTLED:
                values = values[SETTLED:]
            if values:
                yield measurement({**row, "round": round_}, "phase_shifts", f"{column}_drift", drift(values), "bytes")


def memory(suite):
    check_shifts(suite)
    for allocator in suite.allocators("phase_shifts"):
        some = next(row for row in suite.rows("phase_shifts") if row["allocator"] == allocator)
        yield from worst(drifts(suite, allocator, some))
        returned = suite.series("phase_shifts", allocator, "returned_pct")
        yield measurement(some, "phase_shifts", "kept_pct", 100 - sum(returned) / len(returned), "%")
        yield measurement(some, "phase_shifts", "worst_kept_pct", 100 - min(returned), "%")
        for kind in ("asked", "rested"):
            for row in suite.rows("phase_shifts"):
                if row["allocator"] == allocator and row.get(f"returned_{kind}_pct"):
                    yield measurement(row, "phase_shifts", f"kept_{kind}_pct", 100 - row.number(f"returned_{kind}_pct"), "%")
        committed = suite.series("phase_shifts", allocator, "committed_bytes")
        for metric, value in (("committed_first_mb", committed[:1]), ("committed_last_mb", committed[-1:])):
            if value:
                yield measurement(some, "phase_shifts", metric, value[0] / 1e6, "MB")
        cool = suite.series("phase_shifts", allocator, "rss_cool_mib")
        yield measurement(some, "phase_shifts", "rss_growth_pct", growth(cool), "%")
    for name, column in (("churn_test", "rss_mib"), ("epoch_cycles", "rss_full_mib"), ("mixed_load", "rss_mib")):
        for allocator in suite.allocators(name):
            some = next(row for row in suite.rows(name) if row["allocator"] == allocator)
            values = suite.series(name, allocator, column)
            if len(values) > 2:
                yield measurement(some, name, "rss_growth_pct", growth(values), "%")
                yield measurement(some, name, "rss_mib", values[-1], "MiB")


def growth(values):
    """In per cent, from the second value (the first one warms up) to the last; what shrinks has not grown."""
    return max(0.0, 100 * (values[-1] / values[1] - 1))


# ---- threads ------------------------------------------------------------------------------------


def processors(suite):
    """As many as the machine had that the figures of threads are of; None if that is not recorded."""
    match = re.search(r"(\d+) processors", suite.machines({"thread_trials"}))
    return int(match[1]) if match else None


def threads(suite):
    name = "thread_trials"
    speeds = {}
    for row in suite.rows(name):
        value, p99 = row.number("ops_per_sec"), row.number("p99_ns")
        where = row["epochs"] if row["epochs"] != "same" else ""
        work = f"threads_{row['threads']}_{row['frees']}" + (f"_{where}" if where else "")
        # the n-th trials of a round belong together
        row = {**row, "round": 1000 * (int(row.get("round") or 1) - 1) + int(row["trial"])}
        yield measurement(row, work, "op_ns", 1e9 / value, "ns")
        yield measurement(row, work, "p99_ns", p99, "ns")
        if row["frees"] == "private" and not where:
            speeds[row["allocator"], row["threads"], row["round"]] = (row, value)
    yield from slowdown(speeds, processors(suite) or 0)
    yield from uneven(speeds)
    yield from worst(lock_counts(suite))
    for row in suite.rows("benchmark_threads"):
        for frees, metric, part, whole, unit in (("batch", "batch_waited_pct", "lock_contended", "lock_acquired", ""),
                                                 ("cross", "cas_retries_pct", "cas_retries", "foreign_frees", "%")):
            if (row["threads"], row["frees"], row["epochs"]) == ("16", frees, "same") and row[whole] not in ("", "0"):
                yield measurement(row, "threads", metric, 100 * row.number(part) / row.number(whole), unit)


def uneven(speeds):
    """The coefficient of variation of the throughput of 16 threads over all trials."""
    trials = {}
    for (allocator, threads, _), (row, speed) in speeds.items():
        if threads == "16":
            trials.setdefault(allocator, (row, []))[1].append(speed)
    for row, values in trials.values():
        if len(values) > 1:
            yield measurement({**row, "round": 1}, "threads", "throughput_cv_pct", 100 * run.variation(values), "%")


def slowdown(speeds, most):
    """The best throughput of all thread counts up to the processors, over that of 16 threads, trial by trial.
    speeds: {(allocator, threads, trial): (row, throughput)}."""
    best = {}
    for (allocator, threads, trial), (_, speed) in speeds.items():
        if int(threads) <= most:
            best[allocator, trial] = max(speed, best.get((allocator, trial), 0))
    for (allocator, threads, trial), (row, speed) in speeds.items():
        if threads == "16" and (allocator, trial) in best:
            yield measurement(row, "threads", "slowdown_16", best[allocator, trial] / speed, "")


def lock_counts(suite):
    """Of 16 threads that each replace objects of their own, the counts of each round."""
    name = "benchmark_threads"
    for row in suite.rows(name):
        if row["threads"] != "16" or row["frees"] != "private":
            continue
        for column, metric in (("lock_contended", "locks_contended"), ("lock_waits", "lock_waits")):
            metric += "" if row["epochs"] == "same" else f"_{row['epochs']}"
            if row[column]:
                yield measurement(row, "threads", metric, row.number(column), "")


# ---- returned memory ----------------------------------------------------------------------------


def survivors(suite):
    name = "fragmentation_over_time"
    last = {}
    for row in suite.rows(name):
        if row["moment"] in ("idle", "asked", "empty", "empty_asked"):
            last[row.get("round", "1"), row["allocator"], row["placement"], row["moment"]] = row
    for (_, _, placement, moment), row in last.items():
        value = 100 - row.number("returned_pct")
        yield measurement(row, f"survivors_{placement}", f"kept_{moment}_pct", value, "%")


# ---- scopes, soak, observability ----------------------------------------------------------------


def rounds_of(row, column, measured):
    """The measurement for each round that the row names; as it is where it names none, or one."""
    values = row.get(column, "").split()
    if len(values) < 2:
        return [measured]
    measured = {key: value for key, value in measured.items() if key != "spread"}
    return [{**measured, "round": number, "value": float(value)} for number, value in enumerate(values, 1)]


def scopes(suite):
    name = "scope_bench"
    for row in suite.rows(name):
        work = f"scope_{row['objects_per_scope']}x{row['scopes_open']}"
        value, *ends = (row.number(column) for column in ("ns_per_object", "ns_min", "ns_max"))
        allocator = row["allocator"]
        metrics = {"object_ns": allocator == OURS or allocator in REGIONS, "any_object_ns": allocator not in NO_WHOLE_SCOPE,
                   "kept_object_ns": allocator == "tslab_reset" or allocator in KEPT_REGIONS,
                   "heap_destroy_ns": allocator in (OURS, "mimalloc")}
        for metric in (metric for metric, counts in metrics.items() if counts):
            ours = OURS if allocator == "tslab_reset" else None
            yield from rounds_of(row, "ns_of_rounds", measurement(row, work, metric, value, "ns", ours, spread=ends))
        if allocator in (OURS, "mimalloc"):
            drop = row.number("drop_ns_per_scope")
            yield from rounds_of(row, "drop_ns_of_rounds", measurement(row, work, "drop_ns", drop, "ns"))


def soak(suite):
    speeds = {}
    for row in suite.rows("soak"):
        value = row.number("throughput_ops_sec")
        speeds.setdefault(row["allocator"], []).append(value)
        # windows in turn: the n-th of each belong together
        yield {**measurement(row, "soak", "op_ns", 1e9 / value, "ns"), "round": int(row["epoch"])}
    for row in suite.rows("soak"):
        values = speeds.pop(row["allocator"], None)
        if values and len(values) > 1:
            yield measurement(row, "soak", "throughput_cv_pct", 100 * run.variation(values), "%")


def observability(suite):
    """The kind of call in which the counters cost most, on average over a work: allocations, frees, or calls of a domain."""
    name = "observability"
    works = {}
    for row in suite.rows(name):
        calls, difference = (row.number(column) for column in ("calls", "difference"))
        total = works.setdefault((row["work"], row["call"]), [row, 0.0, 0.0])
        total[1] += calls * difference
        total[2] += calls
    means = [(total / calls, row) for row, total, calls in works.values() if calls]
    if means:
        worst, row = max(means, key=lambda pair: pair[0])
        yield measurement(row, name, "instructions_per_call", max(0.0, worst), "", OURS)


def closes(suite):
    """Ends of epochs beside busy threads, less the caller's time in the run queue."""
    for row in suite.rows("close_bench"):
        if row["time"] == "net":
            yield measurement(row, "close_bench", f"{row['call']}_ns", row.number("mean_ns"), "ns", OURS)


def slow_paths(suite):
    """The share of the allocations that looked for a slab."""
    row = next((row for row in suite.rows("tail_attribution") if row.get("slow_allocations") and row["allocations"] != "0"), None)
    if row:
        slow, all_of_them = (row.number(column) for column in ("slow_allocations", "allocations"))
        yield measurement({**row, "round": 1}, "tail_attribution", "slow_share_pct", 100 * slow / all_of_them, "%")


PARTS = [latency, space, memory, threads, survivors, scopes, soak, observability, closes, slow_paths]


def measurements(suite):
    """All rows, as bench_report.summarize takes them."""
    return [row for part in PARTS for row in part(suite) if row["value"] is not None]


# ---- requirements of a target -------------------------------------------------------------------

UNAVAILABLE = 3  # the exit code of a program that cannot measure here


def step_of(work):
    if not work.startswith(report.SUITE):
        return "core_bench"
    return next((step.name for step in STEPS if work.removeprefix(report.SUITE).startswith(step.works or ("\0",))), None)


def check_run(suite, targets):
    """The figures that targets apply to are of a run that was meant to make figures, and of programs that succeeded."""
    path = suite.path("run")
    header = suite.header()
    if not header and any(suite.rows(name) for name in FILES):
        raise data.InputError(f"{path}: is not there: nothing says which allocators were measured")
    if header.get("mode") == "smoke":
        raise data.InputError(f"{path}: mode smoke: such a run makes no figures to compare")
    needed = {step_of(work) for work, _ in targets}
    for row in suite.rows("run"):
        if row["step"] in needed and int(row["exit_code"]) not in (0, UNAVAILABLE):
            raise data.InputError(f"{row.where}: {row['step']} of {row['allocator']} ended with exit code {row['exit_code']}: what it measured is "
                                  "not complete")


def expected(suite, targets):
    """{(work, metric): the allocators that must have a figure there} for the targets that compare."""
    core = suite.measured("core_bench_raw")
    whole = suite.measured()
    unavailable = {(row["step"], row["allocator"]) for row in suite.rows("run") if int(row["exit_code"]) == UNAVAILABLE}
    there = suite.allocators("scope_bench")
    regions, kept = ([name for name in names if name in there] for names in (REGIONS, KEPT_REGIONS))
    needed = {}
    for (work, metric), (kind, _) in targets.items():
        step = step_of(work)
        if kind.startswith("ratio") and kind.endswith("?"):
            needed[work, metric] = without_sequence(suite, *work.removeprefix(report.SUITE).rsplit("_", 1))
        elif kind == "ratio":
            scopes_of = kept if metric.startswith("kept_") else regions
            names = core if step == "core_bench" else scopes_of if step == "scope_bench" else whole
            needed[work, metric] = [name for name in names if (step, name) not in unavailable]
    return needed


def without_sequence(suite, work, size):
    """Who of temporal-slab and malloc lacks a round of this work of SPIKES, so that nobody knows whether malloc has a spike
    there."""
    op = next(op for op, name in SPIKES.items() if name == work)
    rounds = {name: {row.get("round", "1") for row in suite.rows("benchmark_accurate")
                     if (row["allocator"], row["size_class"], row["op"]) == (name, size, op)}
              for name in (OURS, "malloc")}
    every = set.union(*rounds.values())
    return [name for name, there in rounds.items() if not there or there != every]
