#!/usr/bin/env python3
"""The table of the benchmarks: what run_all.sh and `make results` run, how, and which columns its files must have.

A benchmark is one entry here, and its program. CMake takes from it what it builds and the smoke test (`steps.py --cmake`), run_all.py the
commands, report/suite_figures.py the columns. A table on a page is one more function, in PARTS of report/tables.py.
"""

import dataclasses
import shutil
import sys

from harness.peers import ALLOCATORS

# Of each file the columns that tell its rows apart, with `round`, and those that figures are made of; RULES of
# report/suite_figures.py defines each kind.
LATENCIES = {"p50_ns": "from 0", "p99_ns": "positive", "p999_ns": "positive", "p9999_ns": "positive"}
THREADS = {"allocator": "text", "threads": "count", "epochs": "text", "frees": "text"}
RATES = {"ops_per_sec": "positive", "p99_ns": "positive"}
COUNTERS = dict.fromkeys(["lock_acquired", "lock_contended", "lock_waits", "foreign_frees", "cas_retries"], "amount?")
SLABS = dict.fromkeys(["slabs_allocated", "slabs_recycled", "slabs_overflowed"], "amount?")

EACH = "{programs}/{name} --allocator {allocator} @size @extra @further --csv {csv}"
OURS = "{programs}/{name} @size @extra --csv {csv}"


@dataclasses.dataclass(frozen=True)
class Step:
    """A benchmark. rounds, seconds: an entry per mode (full, quick, smoke): how many, and what a run of it takes, roughly."""

    name: str
    kind: str  # each: a run per allocator. all: one run, for all of them. ours: one run, of temporal-slab
    rounds: tuple
    seconds: tuple
    arguments: dict = dataclasses.field(default_factory=dict)  # per mode, beyond --quick and --smoke
    what: str = ""
    command: str = ""  # of words; run_all.command_of() puts {...} and @... in. "": EACH or OURS
    smoke: str = ""    # the command of that mode, where it is another one
    needs: tuple = ()  # allocators, programs, files of the build ("src/malloc/..."), or "cargo"
    csv: dict = dataclasses.field(default_factory=dict)  # {file: (columns that tell rows apart, columns of figures)}
    further: dict = dataclasses.field(default_factory=dict)  # {option: file} beside --csv
    works: tuple = ()  # how the names of its works begin, in targets.csv
    source: str = ""   # a program of this one file, linked to temporal-slab, for CMake; "": folders' CMakeLists.txt

    @property
    def line(self):
        return self.command or {"each": EACH, "ours": OURS}[self.kind]


LIBRARY = "src/malloc/libtslab-malloc.so"
PRELOAD = ("tslab", "malloc", LIBRARY)

# A full run has seven rounds, and five of steps that take a minute a round. Memory that a step measures hundreds of
# times in one process has one. Times are those of two quiet processors; all of it is some 45 minutes.
STEPS = [
    Step("core_bench", "all", (1, 1, 1), (434, 63, 7), {"full": ["--rounds", "5"], "quick": ["--rounds", "2"]},
         "the table of the core: speed, threads, tails, memory",
         command="{benchmarks}/run_bench.sh @size @extra --build {programs} --allocators {glibc} --out {csv}",
         smoke="{benchmarks}/run_bench.sh --smoke --build {programs} --allocators {glibc}"),
    Step("benchmark_accurate", "each", (7, 1, 1), (6, 4, 1), {"full": ["--sizes", "128", "--cycles", "100"], "quick": ["--sizes", "128"]},
         "latency of single calls, fragmentation, bytes per object",
         further={"--fragmentation": "fragmentation", "--cdf": "latency_cdf", "--space": "space"},
         works=("latency_", "sequential_", "space_", "size_mix"),
         csv={"benchmark_accurate": ({"allocator": "text", "size_class": "count", "op": "text"}, LATENCIES),
              "fragmentation": ({"allocator": "text", "size_class": "count"},
                                {"requested": "positive", "rounded": "positive", "efficiency_pct": "number"}),
              "latency_cdf": ({"allocator": "text", "size_class": "count", "op": "text", "latency_ns": "from 0", "fraction_above": "from 0"}, {}),
              "space": ({"allocator": "text", "work": "text", "kind": "text"}, {"overhead_pct": "number"})}),
    Step("churn_test", "each", (1, 1, 1), (15, 10, 1),
         {"full": ["--cycles", "200", "--shifts", "100", "--samples", "50"], "quick": ["--shifts", "40"]},
         "memory over cycles, phase shifts, epochs and a mixed load",
         further={"--phase-shifts": "phase_shifts", "--epoch-cycles": "epoch_cycles", "--mixed": "mixed_load"},
         works=("phase_shifts", "churn_test", "epoch_cycles", "mixed_load"),
         csv={"churn_test": ({"allocator": "text", "cycle": "count"}, {"rss_mib": "positive", **SLABS}),
              "phase_shifts": ({"allocator": "text", "shift": "count"},
                               {"live_bytes": "from 0?", "committed_bytes": "from 0?", "rss_peak_mib": "positive", "rss_cool_mib": "positive",
                                "returned_pct": "number"}),
              "epoch_cycles": ({"allocator": "text", "cycle": "count"}, {"rss_full_mib": "positive", "rss_closed_mib": "positive"}),
              "mixed_load": ({"allocator": "text", "sample": "count"}, {"rss_mib": "positive"})}),
    Step("smoke_tests", "each", (1, 1, 1), (1, 1, 1), {}, "correctness, eight threads, a first look at latency",
         csv={"smoke_tests": ({"allocator": "text", "check": "text"}, {"result": "text"})}),
    Step("benchmark_threads", "each", (7, 1, 1), (4, 5, 2), {"full": ["--trials", "2"], "quick": ["--trials", "5"]},
         "throughput and p99 from 1 to 16 threads", further={"--trials-csv": "thread_trials"}, works=("threads",),
         csv={"benchmark_threads": (THREADS, {**RATES, **COUNTERS}), "thread_trials": ({**THREADS, "trial": "count"}, RATES)}),
    Step("fragmentation_over_time", "all", (5, 1, 1), (26, 8, 1), {}, "what comes back while one in twenty survives",
         command="{benchmarks}/suite/at_once.py {programs}/{name} @size @extra --allocators {allocators} --csv {csv}", works=("survivors_",),
         csv={"fragmentation_over_time": ({"allocator": "text", "placement": "text", "moment": "text", "second": "whole"},
                                          {"returned_pct": "number"})}),
    Step("scope_bench", "all", (1, 1, 1), (250, 70, 4), {"full": ["--rounds", "5", "--seconds", "0.02"], "quick": ["--rounds", "1"]},
         "objects dropped together, beside pools and arenas", command="{programs}/{name} @size @extra @ways --csv {csv}", works=("scope_",),
         csv={"scope_bench": ({"allocator": "text", "objects_per_scope": "count", "scopes_open": "count"},
                              {"ns_per_object": "positive", "ns_min": "positive", "ns_max": "positive", "held_per_payload": "from 0",
                               "drop_ns_per_scope": "from 0", "floor_ns_per_object": "from 0"})}),
    Step("tail_attribution", "ours", (1, 1, 1), (18, 5, 1), {}, "the slowest operations: which path, ours or the scheduler's",
         works=("tail_attribution",), source="core/tail_attribution.c",
         csv={"tail_attribution": ({"allocator": "text", "rank": "count"},
                                   {"verdict": "text", "path": "text", "wall_ns": "positive", "operations": "count", "empty_as_slow": "amount"})}),
    Step("soak", "all", (1, 1, 1), (285, 142, 1), {"full": ["--seconds", "40"]}, "the mixed load in windows of a second",
         command="{benchmarks}/soak_mixed_single_process.sh @size @extra --build {programs} --allocators {allocators} --csv {csv}",
         works=("soak",), csv={"soak": ({"allocator": "text", "epoch": "count"}, {"throughput_ops_sec": "positive"})}),
    Step("observability", "all", (1, 1, 0), (30, 30, 0), {}, "instructions with and without the counters of the statistics",
         command="{benchmarks}/core/observability.py --build {programs} --csv {csv}", needs=("tslab",), works=("observability",),
         csv={"observability": ({"work": "text", "call": "text"},
                                {"calls": "count", "counted": "from 0", "uncounted": "from 0", "difference": "number"})}),
    Step("soak_counts", "all", (1, 1, 0), (17, 17, 0), {mode: ["--windows", "100", "1000"] for mode in ("full", "quick")},
         "what a call of the soak does, by count",
         command="{benchmarks}/suite/soak_counts.py @extra --allocators {allocators} --build {build} --csv {csv}",
         csv={"soak_counts": ({"allocator": "text"}, dict.fromkeys(["instructions", "accesses", "l1_misses", "mispredicts"], "positive"))}),
    Step("zones", "ours", (1, 1, 0), (30, 3, 0), {"full": ["--mib", "512"], "quick": ["--mib", "64"]},
         "closed epochs in zones and back: bytes, time, memory that stays",
         command="{programs}/zones_bench @extra --csv {csv} {target}/zones.device", needs=("zones_bench",),
         csv={"zones": ({"work": "text", "figure": "text"}, {"value": "number", "limit": "from 0?", "load": "from 0"})}),
    Step("numa_bench", "ours", (1, 1, 1), (10, 2, 1), {}, "what TSLAB_NUMA is worth, on a machine that is simulated",
         csv={"numa_bench": ({"work": "text", "option": "text"},
                             {"missed_percent": "from 0", "local_percent": "from 0", "busiest_percent": "from 0", "ns_90_140": "from 0",
                              "beside_off_90_140": "from 0", "ns_100_250": "from 0", "beside_off_100_250": "from 0"})}),
    Step("close_bench", "ours", (1, 1, 1), (15, 4, 1), {}, "ends of epochs beside busy threads", works=("close_bench",), source="core/close_bench.c",
         csv={"close_bench": ({"call": "text", "time": "text"},
                              {"mean_ns": "positive", "p50_ns": "from 0", "p99_ns": "positive", "p999_ns": "positive"})}),
    Step("make_run", "all", (1, 1, 1), (170, 60, 12), {"full": ["--rounds", "5"], "quick": ["--rounds", "2"], "smoke": ["--smoke"]},
         "the rows of make run, their picture, memory after a burst",
         command="python3 -B {benchmarks}/workloads/table.py --build {build} @extra @peers --csv {csv}", needs=PRELOAD,
         csv={"make_run": ({"row": "text", "allocator": "text"}, {"time_ns": "positive", "memory_bytes": "positive"})}),
    Step("programs", "all", (1, 1, 0), (370, 75, 0), {"full": ["--rounds", "5", "--parts", "time", "--without", "clang"],
                                                      "quick": ["--rounds", "1", "--parts", "time", "--without", "clang"]},
         "real programs and loops: processor time and peak memory", needs=PRELOAD,
         command="python3 -B {benchmarks}/programs/programs_bench.py {build}/" + LIBRARY + " --tools {programs} @size @extra @peers --csv {csv}",
         csv={"programs": ({"part": "text", "row": "text", "allocator": "text"}, {"cpu_s": "from 0?", "kib": "count?"})}),
    Step("rust", "all", (1, 1, 0), (60, 60, 0), {}, "scopes in Rust beside arenas, inlined (and the crates are built)",
         command="cargo run --quiet --release --locked --manifest-path {root}/bindings/rust/Cargo.toml --target-dir {root}/build/rust -p bench -- "
                 "--csv {csv}", needs=("tslab", "cargo"), csv={"rust": ({"work": "text", "side": "text"}, {"ns": "positive"})}),
    Step("phases", "all", (1, 1, 0), (52, 52, 0), {}, "memory over time of a program whose work changes",
         command="python3 -B {benchmarks}/programs/phases_bench.py {build}/" + LIBRARY + " {programs}/programs_phases --csv {csv}", needs=PRELOAD,
         csv={"phases": ({"allocator": "text", "phase": "text", "second": "from 0"}, {"rss_mib": "positive", "faults": "amount"})}),
    Step("comparison", "all", (1, 1, 0), (50, 40, 0), {"full": ["--seconds", "4"], "quick": ["--seconds", "3"]},
         "the five patterns beside malloc", command="python3 -B {benchmarks}/workloads/comparison.py --build {build} @extra --csv {csv}", needs=PRELOAD,
         csv={"comparison": ({"pattern": "text", "allocator": "text", "figure": "text"}, {"value": "from 0"})}),
    Step("watched", "all", (1, 1, 0), (45, 20, 0), {"full": ["--rounds", "7", "--seconds", "0.5"], "quick": ["--quick"]}, "what being watched costs",
         command="python3 -B {benchmarks}/watched/watched_bench.py --build {build} @extra --csv {csv}", needs=PRELOAD,
         csv={"watched": ({"watcher": "text", "allocator": "text", "run": "count"},
                          {"says": "text", "unwatched_ns": "positive", "watched_ns": "positive"})}),
]


def has(need, build, programs, allocators):
    """Whether a need of a step is there. build: the folder of the build; programs: where its benchmarks are."""
    if need == "cargo":
        return shutil.which("cargo") is not None
    if need in ALLOCATORS:
        return need in allocators
    return ((build if "/" in need else programs) / need).is_file()


if __name__ == "__main__":
    if sys.argv[1:] == ["--cmake"]:
        print(";".join(f"{step.name}={step.source}" for step in STEPS if step.source), end="")
    else:
        print(f"usage: steps.py --cmake\n\n{__doc__}")
