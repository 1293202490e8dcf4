#!/usr/bin/env python3
"""Runs core_bench for every allocator, interleaved, and compares the medians with targets.csv.

Each measurement is a process of its own. A round runs every work once with every allocator, one allocator
after the other, each round beginning with another one, so that a slow spell of the machine hits all alike.
Every measurement is appended to the raw file at once.
"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, machine, peers, run  # noqa: E402
from harness.ending import Refusal  # noqa: E402
from report import bench_report as report  # noqa: E402

ALLOCATORS = [report.OURS, "glibc", *peers.PEERS[1:]]
EXIT_UNAVAILABLE = 3
TIMEOUT_S = 180


def parse_arguments(arguments):
    parser = run.Parser("run_bench.sh", __doc__, "rounds quick smoke works allocators build")
    parser.add_argument("--gate", action="store_true", help="exit 1 if a figure misses its target")
    parser.add_argument("--touch", action="store_true", help="write the first byte of every new object")
    parser.add_argument("--out", type=run.output, metavar="FILE", help="results (default benchmarks/results/core_bench.csv; for a "
                        "quick or partial run core_bench_partial.csv); the raw file lies beside it")
    options = parser.parse_args(arguments)
    if options.smoke and options.gate:
        raise Refusal("--smoke makes no figures: it does not go with --gate")
    options.rounds = options.rounds or (3 if options.quick else 7)
    if not options.out:
        partial = options.quick or options.works or options.allocators or options.touch
        options.out = run.output(run.BENCHMARKS / "results" / f"core_bench{'_partial' if partial else ''}.csv")
    return options


def find_programs(options):
    """({allocator: program}, {allocator: Identity}, [those that are not installed]) of the wanted ones."""
    wanted = run.choose(options.allocators, ALLOCATORS, "allocator")
    folder = run.programs_in(options.build, *(f"core_bench_{name}" for name in ALLOCATORS))
    programs = {name: folder / f"core_bench_{name}" for name in wanted}
    found, absent = run.identify(lambda name: [programs[name]] if programs[name].is_file() else None, wanted)
    if not found:
        raise Refusal("none of the wanted allocators is built")
    return {name: programs[name] for name in found}, found, absent


def list_works(programs):
    """{work: the allocators that have it}, in the order of the programs' own tables."""
    works = {}
    for name, program in programs.items():
        for line in run.call([program, "--list"]).stdout.splitlines():
            works.setdefault(line.split("\t")[0], []).append(name)
    return works


def command_words(options):
    words = ["benchmarks/run_bench.sh", "--rounds", str(options.rounds)]
    words += [f"--{name}" for name in ("quick", "touch") if getattr(options, name)]
    return " ".join(words + [f"--{name} {getattr(options, name)}" for name in ("works", "allocators") if getattr(options, name)])


def measure(options, programs, works, raw):
    """Runs all, and writes each to the raw file. (measurements, {(work, allocator): (failed, why)}, interrupted)"""
    plan = [(number, work, name) for number in range(options.rounds) for work, available in works.items()
            for name in run.turn(programs, number) if name in available]
    more = ["--csv", *(["--touch"] if options.touch else []), *(["--seconds", "0.05"] if options.quick else [])]
    measurements, problems, progress = [], {}, run.Progress(len(plan))
    try:
        for number, work, name in plan:
            if (work, name) not in problems:
                rows, problem = measure_once(programs[name], name, work, more, number + 1)
                if problem:
                    problems[work, name] = problem
                raw.writelines(",".join(str(row[column]) for column in report.RAW_COLUMNS) + "\n" for row in rows)
                raw.flush()
                measurements += rows
            progress.step(f"round {number + 1} of {options.rounds}, {work}, {name}")
    except KeyboardInterrupt:
        return measurements, problems, True
    finally:
        progress.end()
    return measurements, problems, False


def measure_once(program, name, work, more, number):
    """([measurements], None) or ([], (failed, why))."""
    try:
        answer = run.call([program, "--work", work, *more], timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return [], (True, f"no end after {TIMEOUT_S} s")
    if answer.returncode != 0:
        return [], (answer.returncode != EXIT_UNAVAILABLE, answer.stderr.strip() or f"exit code {answer.returncode}")
    rows = []
    for line in answer.stdout.splitlines():
        fields = line.split(",")
        if len(fields) != 6 or fields[0] != name or fields[2] != work:
            return [], (True, f"unexpected line '{line}'")
        row = dict(zip(report.RAW_COLUMNS, [number, *fields]))
        rows.append({**row, "value": float(row["value"])})
    return rows, None if rows else (True, "no output")


def smoke(programs):
    failed = False
    for program in programs.values():
        answer = run.call([program, "--smoke"])
        failed |= answer.returncode != 0
        print((answer.stdout if answer.returncode == 0 else answer.stderr).strip() or f"{program.name}: failed")
    return int(failed)


def judge(options, summary, works, problems):
    """[Judged] of every target of these works, and of what has none."""
    targets = {key: value for key, value in report.read_targets().items()
               if key[0] in works or not (options.works or key[0].startswith(report.SUITE))}
    unavailable = {key for key, (failed, _) in problems.items() if not failed}
    expected = {(work, metric): [name for name in works.get(work, []) if (work, name) not in unavailable]
                for (work, metric), (kind, _) in targets.items() if kind == "ratio"}
    rest = [report.Judged(*key, "", 0, None, None, "", "") for key in summary
            if key not in targets and not key[1].endswith(("floor_ns", "step_ns", "floor_p9999_ns"))]
    return report.judge_all(summary, targets, expected), rest


def main(arguments):
    options = parse_arguments(arguments)
    programs, versions, absent = find_programs(options)
    for name in absent:
        print(f"core_bench_{name}: not installed")
    if options.smoke:
        return smoke(programs)
    available = list_works(programs)
    works = {work: available[work] for work in run.choose(options.works, available, "work")}
    about = machine.about(command_words(options), {name: each.version for name, each in versions.items()}, absent)
    raw_path = options.out.with_name(options.out.stem + "_raw.csv")
    with run.lock_file(raw_path):
        with open(raw_path, "w", encoding="utf-8") as raw:
            raw.writelines([*(f"# {line}\n" for line in about), ",".join(report.RAW_COLUMNS) + "\n"])
            measurements, problems, interrupted = measure(options, programs, works, raw)
        summary = report.summarize(measurements)
        report.write_summary(options.out, about, summary)
    print("\n".join([*about[:4], "", "median of the rounds ± half the distance between the quartiles; figure: tslab / the best peer, or tslab itself"]))
    judged, rest = judge(options, summary, works, problems)
    there = [row for row in judged if (row.work, row.metric) in summary]
    missed = report.missed(judged)
    print("\n".join([*report.table(summary, there + rest, programs), "", f"{len(judged) - len(missed)} of {len(judged)} targets met"]))
    if missed:
        print(f"missed or not measured: {', '.join(missed)}")
    for (work, name), (failed, why) in problems.items():
        print(f"{'FAILED' if failed else 'not here'}: {work}, {name}: {why}")
    holds = bool(judged) and not missed
    if options.gate:
        print(f"judged without {', '.join(name for name in ALLOCATORS if name not in programs) or 'nobody'}; gate: {'passed' if holds else 'FAILED'}")
    print(f"{run.shown(options.out)}, {run.shown(raw_path)}")
    if interrupted:
        print(f"interrupted: {run.shown(raw_path)} has what was measured")
        return ending.interrupted()
    return int(any(failed for failed, _ in problems.values()) or (options.gate and not holds))


if __name__ == "__main__":
    ending.run("run_bench", main)
