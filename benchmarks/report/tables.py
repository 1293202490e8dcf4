"""The tables of docs/results.md. Each is a function of the suite and of the summary of its measurements, and gives lines of
Markdown; PARTS at the end says in which order, under which heading, and with which charts."""

import collections
import math

from harness.run import geometric_mean
from report import analyze_epoch_tail_csv as analyze
from report import bench_report as report
from report import claims
from report import suite_figures as figures
from report.bench_report import OURS, SUITE
from report.claims import ACCURATE, LATENCY, THREADS
from report.suite_figures import SIZE
from report.words import judged_ratio, label, markdown, number, present, standing, times, where, with_spread

FAR = 20  # so many of the missed aims are shown, the farthest first

# ---- the design ---------------------------------------------------------------------------------

NOISE = ("A p50 is what is left after the clock's own median is subtracted. No ratio is formed (`-`) where ours or the best peer's is "
         "below half of what was subtracted, and their rounds overlap.")


def design(suite, summary):
    return [f"{claims.SOURCE} They are of another machine, so they give the order of size. `where we are` is beside the best other allocator "
            "of this run, or, where none has such a figure, beside the published one. The description frees the oldest tenth (FIFO); the rows "
            "of random victims are ours alone.", "", times_malloc(summary), "", *claims.table(suite, summary), "", NOISE]


def times_malloc(summary):
    """The FIFO tail beside malloc's, as the description states it: how many times malloc's is ours."""
    said = []
    for percentile, text, theirs in (("p99", "p99", 39), ("p999", "p99.9", 69), ("p9999", "p99.99", 41), ("p99999", "p99.999", 12.9)):
        entries = summary.get((LATENCY, f"fifo_alloc_{percentile}_ns"), {})
        if OURS in entries and "malloc" in entries and report.quotient(entries[OURS], entries["malloc"]):
            said.append(f"{text} {times(1 / report.quotient(entries[OURS], entries['malloc']))} ({theirs:g})")
    return f"FIFO, malloc's time over ours, and in brackets the description's: {', '.join(said)}." if said else "FIFO was not measured."


# ---- speed --------------------------------------------------------------------------------------

def speed(suite, summary):
    """The works of core_bench that have an aim."""
    found = {name for (work, _), entries in summary.items() if not work.startswith(SUITE) for name in entries}
    names = [name for name in ("tslab", "glibc", *figures.ALLOCATORS[2:]) if name in found]
    aims, texts = targets(), report.texts()
    rows = [["work", *(label(name) for name in names), "ratio to the best, or figure", "aim"]]
    for key, text in texts.items():
        entries, (kind, limit) = summary.get(key, {}), aims[key]
        if OURS in entries:
            figure = report.judge(entries, kind, limit)[0]
            rows.append([text, *(with_spread(entries.get(name)) for name in names),
                         "-" if figure is None else number(figure), f"{limit:g}"])
    return ["Nanoseconds, unless the row says something else. A pair is a free and an allocation. `producer_consumer` depends on how "
            "long a cache line takes to another processor: each round is compared with the peer's in which it took as long.", "",
            *markdown(rows)]


def targets():
    return report.read_targets()


# ---- latency ------------------------------------------------------------------------------------


def latency(suite, summary):
    names = present(summary)
    rows = [["operation", "percentile", *(label(name) for name in names), "where we are"]]
    for op, text in (("alloc", "allocation, random victims"), ("free", "free, random victims"), ("fifo_alloc", "allocation, FIFO"),
                     ("fifo_free", "free, FIFO"), ("seq_alloc", "allocation in sequence"),
                     ("written", "the same with the first write")):
        for percentile, shown in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"), ("p9999", "p99.99")):
            key = LATENCY, f"{op}_{percentile}_ns"
            entries = summary.get(key, {})
            if OURS in entries:
                rows.append([text, shown, *(with_spread(entries.get(name)) for name in names), where(summary, *key)])
    floors = [row.number("p9999_ns") for row in suite.rows(ACCURATE) if row["op"] == "floor"]
    floor = f" With nothing called, this machine has a p99.99 of {number(min(floors))} to {number(max(floors))} ns." if floors else ""
    return [f"Nanoseconds of single calls, objects of {SIZE} bytes.{floor} malloc writes headers into new memory, so its page faults are "
            "in the time of the call; with the first write they are in the time of every allocator.", "", *markdown(rows)]


# ---- threads ------------------------------------------------------------------------------------


def threads(suite, summary):
    names = present(summary)
    rows = [["threads", "who frees", "metric", *(label(name) for name in names), "where we are"]]
    for frees, who in (("private", "the same thread"), ("cross", "another"), ("batch", "the same, 100,000 at once")):
        for count in ("1", "2", "4", "8", "16"):
            for metric, text in (("op_ns", "ns an operation"), ("p99_ns", "p99, ns")):
                entries = summary.get((f"{SUITE}threads_{count}_{frees}", metric), {})
                if entries and (metric == "op_ns" or count == "16"):
                    rows.append([count, who, text, *(with_spread(entries.get(name)) for name in names), standing(entries)])
    waits = summary.get((f"{SUITE}threads", "lock_waits"), {}).get(OURS)
    said = f" Waits for any lock of the library, 16 threads that free their own, the most of any round: {number(waits['median'])}." \
        if waits else ""
    return [f"Wall time divided by the operations of all threads. No fast path takes a lock.{said}", "", *markdown(rows)]


# ---- memory -------------------------------------------------------------------------------------


def memory(suite, summary):
    names = present(summary)
    idle = max((int(row["second"]) for row in suite.rows("fragmentation_over_time") if row["moment"] == "idle"), default=0)
    rows = [["what stays", *(label(name) for name in names), "where we are"]]
    for work, metric, text in (
        ("space_128", "overhead_pct", "128 B objects: resident over the payload (%)"),
        ("space_mix", "overhead_pct", "mix of sizes: resident over the payload (%)"),
        ("size_mix", "waste_pct", "mix of sizes: lost by rounding (%)"),
        ("phase_shifts", "kept_pct", "of a 256 MiB spike, as soon as it is over (%)"),
        ("phase_shifts", "worst_kept_pct", "the most of any shift (%)"),
        ("phase_shifts", "kept_rested_pct", "after the last, and a second of calls (%)"),
        ("phase_shifts", "kept_asked_pct", "the same, asked for it (%)"),
        ("phase_shifts", "rss_growth_pct", "growth after the spikes, second to last shift (%)"),
        ("phase_shifts", "committed_bytes_drift", "change of committed bytes from the eleventh shift on"),
        ("churn_test", "rss_growth_pct", "growth over the cycles of churn (%)"),
        ("epoch_cycles", "rss_growth_pct", "growth over 20 epochs of 50,000 objects (%)"),
        ("survivors_together", "kept_idle_pct", f"one in twenty survives, {idle} idle seconds (%)"),
        ("survivors_together", "kept_asked_pct", "the same, asked for it (%)"),
        ("survivors_together", "kept_empty_pct", "the survivors freed as well (%)"),
        ("survivors_by_lifetime", "kept_idle_pct", f"survivors in an epoch of their own, {idle} idle seconds (%)"),
    ):
        entries = summary.get((SUITE + work, metric), {})
        if entries:
            rows.append([text, *(with_spread(entries.get(name)) for name in names), standing(entries, metric)])
    return ["Asked: `slab_trim`, `malloc_trim`, `arena.purge`, `ReleaseFreeMemory`, `mi_collect`.", "", *markdown(rows)]


def make_run(suite, _summary):
    """The rows of make run."""
    found = {}
    for row in suite.rows("make_run"):
        found.setdefault(row["row"], {})[row["allocator"]] = row
    names = suite.allocators("make_run")
    lines = [["row", "figure", *(label(name) for name in names)]]
    for name, rows in found.items():
        for column, what, factor in (("time_ns", "time, us", 1e3), ("memory_bytes", "memory, MiB", 2**20)):
            lines.append([name if column == "time_ns" else "", what, *(
                number(rows[a].number(column) / factor) if a in rows else "-" for a in names)])
    return ["A time is the best of the rounds, a memory their median, above that of an empty process. `jemalloc bg` has "
            "`background_thread:true`. The last two rows are slow by design. [workloads](../benchmarks/workloads/README.md) says what a row does.", "", "![Eleven rows: time and memory](images/run.png)", "", *markdown(lines)]


# ---- scopes -------------------------------------------------------------------------------------

# The ways to drop objects together that are shown; scope_bench.csv has all.
WAYS = ["tslab", "apr", "bumpalo", "pmr", "talloc", "mimalloc", "mimalloc3", "glibc", "tcmalloc_free", "tslab_reset", "apr_clear", "bumpalo_reset"]


def scopes(suite, _summary):
    name = "scope_bench"
    rows = suite.rows(name)
    names = [way for way in WAYS if way in suite.allocators(name)]
    entries = {}
    for row in rows:
        median, low, high = (row.number(column) for column in ("ns_per_object", "ns_min", "ns_max"))
        entries[row["allocator"], row["objects_per_scope"], row["scopes_open"]] = {"median": median, "min": low, "max": high}
    lines = [["objects", "open", *map(label, names)]]
    for shape in dict.fromkeys((row["objects_per_scope"], row["scopes_open"]) for row in rows):
        lines.append([*(f"{int(count):,}" for count in shape), *(with_spread(entries.get((each, *shape))) for each in names)])
    return ["Nanoseconds an object: its scope made, its objects allocated and written, the scope dropped. `tslab_reset`, `apr_clear` and "
            "`bumpalo_reset` keep the scope and empty it. `glibc` and `NAME_free` free each "
            "object. Every one is called, never inlined; the Rust crate's page has the figures of inlined calls. Only `tslab`, `talloc`, `mimalloc` and the mallocs can also free a single object, and only `tslab` checks anything.",
            "", *markdown(lines)]


# ---- the soak, the tail -------------------------------------------------------------------------


def soak(suite, _summary):
    rows = [["", "windows", "M calls/s p50", "p10", "p1", "cv", "ns a call p50", "p99", "p99.9", "p99/p50"]]
    for name in suite.allocators("soak"):
        f = analyze.analyze(suite.series("soak", name, "throughput_ops_sec"))
        rows.append([label(name), str(f["windows"]), *(number(f[f"throughput_{p}"] / 1e6) for p in ("p50", "p10", "p1")),
                     f"{100 * f['throughput_cv']:.2f} %", *(number(f[f"latency_ns_{p}"]) for p in ("p50", "p99", "p999")),
                     f"{f['latency_p99_over_p50']:.3f}"])
    return ["The mixed load of 400 slots in windows of a second, each allocator in a process of its own, in turn.", "", *markdown(rows)]


def tails(suite, _summary):
    name = "tail_attribution"
    rows = suite.rows(name)
    verdicts = {}
    for row in rows:
        verdicts.setdefault(row["verdict"], []).append(row)
    text = {"scheduler": "the thread was switched out", "page_fault": "the system found memory for a new page",
            "allocator": "one of the allocator's longer paths, or its call into the system",
            "machine": "none of these: an interrupt, the host, caches"}
    lines = [["whose time", "operations", "share of their time", "slowest (ns)", "empty ones as slow", "paths"]]
    total = sum(row.number("wall_ns") for row in rows)
    for verdict in sorted(verdicts, key=lambda v: -len(verdicts[v])):
        walls = [row.number("wall_ns") for row in verdicts[verdict]]
        empty = max(int(row.number("empty_as_slow")) for row in verdicts[verdict])
        paths = collections.Counter(row["path"] for row in verdicts[verdict]).most_common(3)
        lines.append([f"{verdict}: {text.get(verdict, '')}", str(len(walls)), f"{100 * sum(walls) / total:.0f} %",
                      number(max(walls)), str(empty), ", ".join(f"{path} ({n})" for path, n in paths)])
    count = int(rows[0].number("operations"))
    return [f"The {len(rows)} slowest of {count:,} operations of temporal-slab, and of as many empty ones measured in the same way "
            "between them.", "", *markdown(lines)]


# ---- programs -----------------------------------------------------------------------------------


def programs_ratio(suite):
    """The geometric mean, over the real programs, of our processor time over that of the fastest other."""
    found, over = {}, []
    for row in suite.rows("programs"):
        if row["part"] == "time" and row["cpu_s"] and not row["row"].startswith("loop "):
            found.setdefault(row["row"], {})[row["allocator"]] = row.number("cpu_s")
    for values in found.values():
        others = [value for name, value in values.items() if name != OURS]
        if values.get(OURS) and others and min(others) > 0:
            over.append(values[OURS] / min(others))
    return geometric_mean(over) if over else None


def programs(suite, _summary):
    """Real programs and loops under a preload of each allocator."""
    name = "programs"
    names = [n for n in suite.allocators(name) if n not in (OURS, "glibc")]
    names = [OURS, "glibc", *names]
    found = {}
    for row in suite.rows(name):
        found.setdefault(row["part"], {}).setdefault(row["row"], {})[row["allocator"]] = row
    lines = ["Each program runs with `LD_PRELOAD` of one allocator after the other. `python malloc` is Python with `PYTHONMALLOC=malloc`; "
             "`loop` rows are small programs of this project that do nothing else. Peak memory is at least 15 MB, that of the starter.", ""]
    for part, column, factor, what in (("time", "cpu_s", 1, "Seconds of processor time, of user and system together."),
                                       ("time", "kib", 1 / 1024, "Peak resident memory, MiB."),
                                       ("idle", "kib", 1 / 1024, "Resident memory 20 s after the work, MiB.")):
        table, over = [["program", *(label(n) for n in names), "ratio to the best other"]], []
        for work, rows in found.get(part, {}).items():
            values = {a: row.number(column) * factor for a, row in rows.items() if row[column] != ""}
            others = [v for a, v in values.items() if a != OURS]
            ratio = values[OURS] / min(others) if OURS in values and others and min(others) > 0 else None
            over += [ratio] if ratio else []
            table.append([work, *(number(values[n]) if n in values else "-" for n in names), times(ratio) if ratio else "-"])
        if over:
            table.append(["geometric mean", *("" for _ in names), times(geometric_mean(over))])
            lines += [what, "", *markdown(table), ""]
    return lines[:-1]


def watched(suite, _summary):
    """What being watched costs, by the best of the rounds."""
    best = {}
    for row in suite.rows("watched"):
        pair = [row.number(column) for column in ("unwatched_ns", "watched_ns")]
        _, so_far = best.setdefault(row["watcher"], (row, pair))
        so_far[:] = map(min, so_far, pair)
    rows = [["watched by", "a request, us", "watched, us", "times", "says"]]
    rows += [[name, number(plain / 1e3), number(cost / 1e3), times(cost / plain), row["says"]] for name, (row, (plain, cost)) in best.items()]
    return ["The pattern `hotspot` of `synthetic_bench` without a pause. Each is beside the same allocator unwatched.", "", *markdown(rows)]


# ---- other libraries ----------------------------------------------------------------------------


def zones(suite, _summary):
    """The aims of libtslab-zones. No allocator has anything like it: there is nobody to compare with."""
    rows = [["what", "figure", "aim at most", "measured", "load"]]
    for row in suite.rows("zones"):
        value = row.number("value")
        missed = row["limit"] != "" and value > float(row["limit"])
        text = f"{value:.2f}" if "%" in row["figure"] or "times" in row["figure"] else f"{value:.3f}".rstrip("0").rstrip(".")
        rows.append([row["work"], row["figure"], f"{float(row['limit']):g}" if row["limit"] else "", f"**{text}**" if missed else text,
                     row["load"]])
    return ["An emulated device on a file, zones of 4 MiB with a capacity of 3 MiB. Every byte that came back was compared. A figure that "
            "misses its aim is bold. [zones.md](zones.md) says what the figures mean.", "", *markdown(rows)]


def nodes(suite, _summary):
    """What TSLAB_NUMA is worth, simulated."""
    rows = [["work", "option", "misses, % of accesses", "of the own node, %", "of the busiest node, %", "ns a miss (90 and 140 ns)",
             "beside off"]]
    for row in suite.rows("numa_bench"):
        value = {column: row.number(column) for column in
                 ("missed_percent", "local_percent", "busiest_percent", "ns_90_140", "beside_off_90_140")}
        rows.append([row["work"], row["option"], f"{value['missed_percent']:.1f}", f"{value['local_percent']:.2f}",
                     f"{value['busiest_percent']:.1f}", f"{value['ns_90_140']:.1f}", f"{value['beside_off_90_140']:.2f}"])
    return ["Four threads on two nodes run on the allocator as it is. Each access goes through a simulated cache of 1 MiB a thread. A miss "
            "costs what memory of that node is assumed to cost. [numa.md](numa.md) says what is simulated.", "", *markdown(rows)]


# ---- aims ---------------------------------------------------------------------------------------


def judged_targets(suite, summary):
    wanted = targets()
    return report.judge_all(summary, wanted, figures.expected(suite, wanted))


def over(row):
    """How many times its limit a missed figure is."""
    return row.figure / row.limit if row.limit else math.inf


def aims(suite, summary):
    """The missed aims that are farthest over their limits."""
    judged = judged_targets(suite, summary)
    missed = sorted((row for row in judged if row.verdict == "miss"), key=over, reverse=True)
    rows = [["work", "metric", "temporal-slab", "compared with", "its figure", "ratio or figure", "aim"]]
    for row in missed[:FAR]:
        entries = summary.get((row.work, row.metric), {})
        ratio = row.kind.startswith("ratio")
        rows.append([row.work.removeprefix(SUITE), row.metric, with_spread(entries.get(OURS)), label(report.compared_with(row)),
                     with_spread(entries.get(row.best)), f"{judged_ratio(row)} x" if ratio else number(row.figure),
                     f"{row.limit:g} x" if ratio else f"{row.limit:g}"])
    met = sum(row.verdict == "ok" for row in judged)
    return [f"{met} of {len(judged)} aims of targets.csv are met. {min(FAR, len(missed))} of {len(missed)} missed ones, the farthest first. [benchmarks](../benchmarks/README.md) says what a "
            "work and a metric is.", "", *markdown(rows)]


# heading, the file whose rows it needs (None: any), the table, charts
PARTS = [
    ("The design's published figures", None, design, []),
    ("Speed", "core_bench_raw", speed, ["time_by_size"]),
    ("Latency", ACCURATE, latency, ["latency_comparison", "latency_percentiles", "latency_cdf"]),
    ("Threads", THREADS, threads, ["scaling", "p99_vs_threads"]),
    ("Memory", None, memory, ["rss_comparison", "rss_over_time", "fragmentation", "slab_lifecycle"]),
    ("The rows of make run", "make_run", make_run, []),
    ("Scopes", "scope_bench", scopes, ["scope_cost"]),
    ("Soak", "soak", soak, ["soak_distribution"]),
    ("Whose tail it is", "tail_attribution", tails, []),
    ("Real programs", "programs", programs, ["phases"]),
    ("What being watched costs", "watched", watched, []),
    ("Zones", "zones", zones, []),
    ("NUMA nodes", "numa_bench", nodes, []),
    ("Aims that are missed", None, aims, []),
]
