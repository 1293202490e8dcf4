#!/usr/bin/env python3
"""Real programs and loops under one malloc after the other: processor time, peak memory, memory after the work, and how long a malloc takes.

usage: programs_bench.py LIBRARY [--tools DIR] [--hard] [--quick] [--rounds N] [--parts PART,...] [--without ROW,...] [--peers DIR] [--csv FILE] [--smoke] [ROW...]

Parts (all without --parts):
  time     each row is a command or a server under load that takes about a second: processor time and peak resident memory
  idle     what a program still holds 20 s after its work, when it has freed all but what it keeps
  latency  malloc, calloc and realloc one by one in Redis and in a server of threads that hand objects on: p99.9 and p99.99

In a round every allocator runs a row once, in an order that turns; figures are medians of the rounds, and ratios are to glibc's. --hard: the
library in its usual mode and with TSLAB_HARDEN=1, and ratios are to the former. Peak memory is at least this script's own, some 15 MB, which the
system counts for what it starts. An allocator or a program that is not there is left out, by name. --quick: fewer rounds, about ten minutes.
--peers: the newest NAME-VERSION.so of each name in that directory (benchmarks/peers/newest.sh builds them) in place of Debian's.
--smoke: one round of short runs, for whether it works. --tools: where programs_loops and malloc_timer are built.
"""
import argparse
import csv
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import rows
import servers
from core import run_bench
from harness import peers, place

IDLE_SECONDS = 20
OURS = ("tslab", "tslab hard")


def allocators(library, hard, newest=None):
    """Name: the settings of the environment. Ratios are to the first."""
    preload = [f"LD_PRELOAD={library}"]
    if hard:
        return {"tslab": preload, "tslab hard": preload + ["TSLAB_HARDEN=1"]}
    # By its name: a program may be linked with another malloc, as Debian's Redis is.
    found = {"glibc": ["LD_PRELOAD=libc.so.6"], "tslab": preload}
    others, absent = peers.find(newest)
    if newest and not any("-" in name for name in others):
        sys.exit(f"programs_bench.py: no NAME-VERSION.so in {newest}: benchmarks/peers/newest.sh builds them")
    for name in absent:
        print(f"{name}: not installed")
    return found | {name: [f"{key}={value}" for key, value in peers.settings(name, path).items()] for name, path in others.items()}


def versions(found, tools):
    """Name: the identity by core_bench of that allocator, where it is built."""
    said = {}
    for a in found:
        if "-" in a:
            said[a] = a.partition("-")[2]
            continue
        program = pathlib.Path(tools) / f"core_bench_{a.split()[0]}"
        fields = run_bench.call(program, "--identify").stdout.split(",") if program.is_file() else []
        said[a] = fields[1] if len(fields) == 4 else "of an unknown version"
    return said


def environment():
    kept = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("TSLAB_")}
    return kept | {"PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0", "LC_ALL": "C"}


def fails(what, allocator):
    """Ours and glibc's have to work."""
    if allocator in OURS + ("glibc",):
        sys.exit(f"{what}: fails with {allocator}")


# ---- time and peak memory ------------------------------------------------------------------------------------------------------------------------


def ended(process, what):
    """Seconds of processor time and peak KiB of the largest process, or None if it fails."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        print(f"{what}: status {process.returncode}", file=sys.stderr)
        return None
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def run_command(row, amount, variables):
    _, _, _, files, command = row
    with tempfile.TemporaryDirectory(prefix="programs_bench.") as directory:
        for file, text in files.items():
            with open(os.path.join(directory, file), "w", encoding="ascii") as f:
                f.write(rows.c_source(amount) if text is None else text % amount)
        command = [c.replace("%s", str(amount)) if os.path.basename(command[0]) in ("programs_loops", "programs_sized") else c for c in command]
        # By way of env: the variable is for the program, not for its starter.
        process = subprocess.Popen(["env"] + variables + command, cwd=directory, env=environment(), stdout=subprocess.DEVNULL)
        return ended(process, " ".join(command))


def run_server(row, amount, variables):
    name, server, _ = row
    with tempfile.TemporaryDirectory(prefix="programs_bench.") as directory:
        s = None
        try:
            s = server(["env"] + variables, environment(), directory)
            s.load(amount)
            s.end()
            return ended(s.process, name)
        except (servers.Fails, subprocess.CalledProcessError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return None
        finally:
            if s and s.process.returncode is None:
                s.process.kill()
                s.process.wait()


def time_rows(arguments):
    all_rows = [(r[0], [n for n in r[1] if not shutil.which(n)], r[2], lambda amount, v, r=r: run_command(r, amount, v))
                for r in rows.ROWS + rows.loop_rows(arguments.tools)]
    return all_rows + [(r[0], servers.missing(r[0]), r[2], lambda amount, v, r=r: run_server(r, amount, v)) for r in servers.ROWS]


def rounds_of(found, rounds, run):
    """Figures of each allocator; None: it fails."""
    figures, order = {a: [] for a in found}, list(found)
    for _ in range(rounds):
        for allocator in order:
            figures[allocator].append(run(allocator))
        order = order[1:] + order[:1]
    return {a: None if any(x is None for x in f) else [statistics.median(column) for column in zip(*f)] for a, f in figures.items()}


def mean(values):
    return math.exp(sum(math.log(max(v, 1e-9)) for v in values) / len(values))


def aim(text, value, limit):
    print(f"  {text:78s} {value:6.2f}  (aim: at most {limit:.2f}) {'met' if value <= limit else 'MISSED'}")


def say_time_aims(medians):
    """medians: of each row, by allocator."""
    others = [a for a in next(iter(medians.values())) if a not in OURS]
    both = {a: [(m["tslab"], m[a]) for m in medians.values() if m[a]] for a in others}
    print("aims, of time and peak memory:")
    for a in others:
        aim(f"time of tslab over {a}, geometric mean", mean([t[0] / o[0] for t, o in both[a]]), 1.0)
    over_best = {n: m["tslab"][0] / min(f[0] for a, f in m.items() if a != "tslab" and f) for n, m in medians.items()}
    worst = max(over_best, key=over_best.get)
    aim("time over the best of each row, geometric mean", mean(over_best.values()), 1.05)
    aim(f"time over the best, worst row ({worst})", over_best[worst], 1.3)
    if "jemalloc" in both:
        aim("peak memory over jemalloc, geometric mean", mean([t[1] / o[1] for t, o in both["jemalloc"]]), 1.05)


def say_hard_aims(medians):
    programs = [m for n, m in medians.items() if not n.startswith("loop ")]
    if not programs:
        return
    print("aims, of the programs (loops have none):")
    aim("time in hard mode over the usual mode, geometric mean", mean([m["tslab hard"][0] / m["tslab"][0] for m in programs]), 1.5)
    aim("peak memory in hard mode over the usual mode, geometric mean", mean([m["tslab hard"][1] / m["tslab"][1] for m in programs]), 1.3)


def time_part(arguments, found, lines):
    first, rounds, medians = next(iter(found)), arguments.rounds, {}
    print(f"{'time, peak':15s}" + "".join(f"{a:>22s}" for a in found) + f"{'tslab / best':>16s}")
    for name, missing, amounts, run in time_rows(arguments):
        if arguments.rows and name not in arguments.rows or name in arguments.without.split(","):
            continue
        if missing:
            print(f"{name}: left out, there is no {', '.join(missing)}")
            continue
        row = rounds_of(found, rounds, lambda a: run(amounts[1 if arguments.smoke else 0], found[a]))
        for a, figure in row.items():
            if figure is None:
                fails(name, a)
        base, text = row[first], ""
        for a, figure in row.items():
            if figure is None:
                text += f"{'fails':>22s}"
                lines.append(["time", name, a, "", "", ""])
                continue
            text += f"{figure[0]:9.3f} s {figure[0] / max(base[0], 0.001):4.2f} {figure[1] / base[1]:4.2f}m"
            lines.append(["time", name, a, f"{figure[0]:.4f}", int(figure[1]), ""])
            figure[0] = max(figure[0], 0.001)
        best = min(f[0] for a, f in row.items() if f and a != "tslab")
        print(f"{name:15s}{text}{row['tslab'][0] / best:16.2f}", flush=True)
        medians[name] = row
    if not medians:
        return 0
    line = f"{'mean':15s}"
    for a in found:
        ratios = [(m[a][0] / max(m[first][0], 0.001), m[a][1] / m[first][1]) for m in medians.values() if m[a]]
        line += f"{'':11s} {mean([t for t, _ in ratios]):4.2f} {mean([m for _, m in ratios]):4.2f}m" if ratios else f"{'':22s}"
    print(line)
    print("seconds of processor time; time and peak memory (m) as a ratio to those of", first + "; medians of", rounds, "rounds, interleaved")
    (say_hard_aims if arguments.hard else say_time_aims)(medians)
    return len(medians)


# ---- memory after the work -----------------------------------------------------------------------------------------------------------------------

PYTHON_IDLE = """import sys
for k in range(3): x = [{"a": str(i)} for i in range(%s)]; x = None
print("idle", flush=True); sys.stdin.read()
"""


class Waiting:
    """A program that says when it has done its work, and waits."""

    def __init__(self, command, variables):
        self.process = subprocess.Popen(["env"] + variables + command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line == "idle\n":
                break

    def end(self):
        self.process.communicate("")


class IdleRedis:
    def __init__(self, keys, variables):
        self.directory = tempfile.TemporaryDirectory(prefix="programs_bench.")
        self.server = servers.Redis(["env"] + variables, environment(), self.directory.name)
        self.process = self.server.process
        self.server.fill(keys)
        self.server.cli("flushall")

    def end(self):
        self.server.end()
        self.process.wait()
        self.directory.cleanup()


def resident_kib(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def idle_rows(tools):
    loops = os.path.join(tools, "programs_loops")
    found = [("redis, flushall", servers.missing("redis"), (400000, 2000), IdleRedis),
             ("python", [n for n in ["python3"] if not shutil.which(n)], (300000, 1000), lambda n, v: Waiting(["python3", "-c", PYTHON_IDLE % n], v))]
    for name, amounts in rows.LOOPS:
        if name in ("fragment", "large", "power", "server", "cross"):
            found.append(("loop " + name, [n for n in [loops] if not shutil.which(n)], (max(amounts[0] // 4, 1), amounts[1]),
                          lambda n, v, name=name: Waiting([loops, "--wait", name, str(n)], v)))
    return found


def idle_part(arguments, found, lines):
    seconds, over = 0.2 if arguments.smoke else IDLE_SECONDS, {}
    print(f"\n{f'idle {seconds} s, MB':20s}" + "".join(f"{a:>12s}" for a in found) + f"{'tslab / best':>16s}")
    for name, missing, amounts, start in idle_rows(arguments.tools):
        if arguments.rows and name not in arguments.rows:
            continue
        if missing:
            print(f"{name}: left out, there is no {', '.join(missing)}")
            continue
        running = []
        row = {}
        for a, variables in found.items():
            try:
                running.append((a, start(amounts[1 if arguments.smoke else 0], variables), time.monotonic()))
            except servers.Fails:
                fails(name, a)
                row[a] = None
        for a, program, since in running:
            time.sleep(max(0, since + seconds - time.monotonic()))
            row[a] = resident_kib(program.process.pid)
            program.end()
            if program.process.returncode != 0:
                fails(name, a)
                row[a] = None
            lines.append(["idle", name, a, "", row[a] or "", ""])
        over[name] = row["tslab"] / min(m for a, m in row.items() if m and a not in OURS) if any(a not in OURS for a in row) else 1
        print(f"{name:20s}" + "".join(f"{m / 1024:12.1f}" if m else f"{'fails':>12s}" for m in (row[a] for a in found)) + f"{over[name]:16.2f}", flush=True)
    if over and not arguments.hard:
        worst = max(over, key=over.get)
        print("aims, of memory after the work:")
        aim(f"tslab over the best, worst row ({worst})", over[worst], 1.0)
    return len(over)


# ---- latency -----------------------------------------------------------------------------------------------------------------------------------------


def timed(tools, variables, out):
    """The variables of an allocator, with the timer before it."""
    timer = next((p for p in (os.path.join(tools, "programs", "libmalloc_timer.so"), os.path.join(tools, "libmalloc_timer.so")) if os.path.exists(p)), "")
    return [v.replace("LD_PRELOAD=", f"LD_PRELOAD={timer}:") for v in variables] + [f"MALLOC_TIMER={out}"] if timer else None


def run_latency(name, arguments, variables):
    """p99.9 and p99.99 in ns, the median, and the part of the calls that were interrupted."""
    with tempfile.TemporaryDirectory(prefix="programs_bench.") as directory:
        out = os.path.join(directory, "times")
        if name == "redis":
            try:
                server = servers.Redis(["env"] + timed(arguments.tools, variables, out), environment(), directory)
                server.load(500 if arguments.smoke else 40000)
                server.end()
            except (servers.Fails, subprocess.CalledProcessError):
                return None
            good = server.process.wait() == 0
        else:
            command = [os.path.join(arguments.tools, "programs_loops"), "server", "2" if arguments.smoke else "60"]
            good = subprocess.run(["env"] + timed(arguments.tools, variables, out) + command, env=environment(), stdout=subprocess.DEVNULL,
                                  check=False).returncode == 0
        if not good or not os.path.exists(out):
            return None
        with open(out, encoding="ascii") as f:
            count, left_out, median, p999, p9999, _ = map(float, f.read().splitlines()[-1].split())
        return (p999, p9999, median, left_out / (count + left_out)) if count else None


def latency_part(arguments, found, lines):
    over, done = {}, 0
    if not timed(arguments.tools, [], "") or not shutil.which(os.path.join(arguments.tools, "programs_loops")):
        print("latency: left out, there is no malloc_timer; --tools is where it is built")
        return 0
    rounds = 1 if arguments.smoke else 3 if arguments.quick else 9
    print(f"\n{'malloc, ns':12s}" + "".join(f"{a:>30s}" for a in found) + "   (median, p99.9, p99.99)")
    for name in ("redis", "server"):
        if arguments.rows and name not in arguments.rows:
            continue
        if name == "redis" and servers.missing(name):
            print(f"{name}: left out, there is no {', '.join(servers.missing(name))}")
            continue
        row = rounds_of(found, rounds, lambda a: run_latency(name, arguments, found[a]))
        text = f"{name:12s}"
        for a, figure in row.items():
            if figure is None:
                fails(name, a)
                text += f"{'fails':>30s}"
                continue
            text += f"{figure[2]:10.0f}{figure[0]:10.0f}{figure[1]:10.0f}"
            lines.append(["latency", name, a, "", "", f"{figure[2]:.1f} {figure[0]:.1f} {figure[1]:.1f}"])
        print(text, flush=True)
        done += 1
        if any(a not in OURS for a in found):
            for i, what in enumerate(("p99.9", "p99.99")):
                over[f"{what} of malloc in {name} over the best"] = row["tslab"][i] / min(f[i] for a, f in row.items() if f and a not in OURS)
    if over:
        print("aims, of latency; medians of", rounds, "rounds, calls that were interrupted left out:")
        for text, value in over.items():
            aim(text, value, 1.1)
    return done


# ---- command -----------------------------------------------------------------------------------------------------------------------------------------

PARTS = {"time": time_part, "idle": idle_part, "latency": latency_part}


def said(arguments):
    """ARGS of the run."""
    words = [f"--{name}" for name in ("quick", "smoke", "hard") if getattr(arguments, name)] + arguments.rows
    words += ["--rounds", str(arguments.rounds)] + (["--parts", arguments.parts] if arguments.parts != ",".join(PARTS) else [])
    words += ["--without", arguments.without] if arguments.without else []
    words += ["--peers", "DIR"] if arguments.peers else []
    return [f'ARGS="{" ".join(words)}"']


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--tools", default=None)
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--without", default="", metavar="ROW,...")
    parser.add_argument("--peers", default=None, metavar="DIR")
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--csv", metavar="FILE", type=place.output)
    arguments = parser.parse_intermixed_args()
    if not os.path.exists(arguments.library):
        parser.error(f"{arguments.library}: no such file")
    if not set(arguments.parts.split(",")) <= set(PARTS):
        parser.error(f"--parts: of {', '.join(PARTS)}")
    arguments.rounds = 1 if arguments.smoke else arguments.rounds or (3 if arguments.quick else 5)
    arguments.tools = os.path.abspath(arguments.tools or os.path.join(os.path.dirname(arguments.library), "..", "..", "benchmarks"))
    found, lines = allocators(os.path.abspath(arguments.library), arguments.hard, arguments.peers), []
    header = run_bench.header_lines(["make bench-programs", *said(arguments)], versions(found, arguments.tools), {})
    if sum([PARTS[p](arguments, found, lines) for p in arguments.parts.split(",")]) == 0:
        sys.exit("no row was run")
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="ascii") as f:
            f.writelines(f"# {line}\n" for line in header)
            writer = csv.writer(f, lineterminator="\n")
            writer.writerow(["part", "row", "allocator", "cpu_s", "kib", "median_p999_p9999_ns"])
            writer.writerows(lines)


if __name__ == "__main__":
    main()
