#!/usr/bin/env python3
"""Real programs and loops under one malloc after the other: processor time, peak memory, memory after the work, and how long a malloc takes.

    programs_bench.py LIBRARY [--tools DIR] [--hard] [--quick] [--rounds N] [--parts PART,...] [--without ROW,...] [--peers DIR] [--csv FILE]
                      [--smoke] [ROW...]

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

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, machine, peers, run  # noqa: E402
from harness.run import Missing, geometric_mean  # noqa: E402
from programs import rows, servers  # noqa: E402

IDLE_SECONDS = 20
OURS = ("tslab", "tslab hard")
SAME = {"PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0", "LC_ALL": "C"}  # for the same work each time
HEADING = ["part", "row", "allocator", "cpu_s", "kib", "median_p999_p9999_ns"]


def allocators(library, hard, newest=None):
    """{name: settings of the environment}. Ratios are to the first."""
    preload = {"LD_PRELOAD": str(library)}
    if hard:
        return {"tslab": preload, "tslab hard": {**preload, "TSLAB_HARDEN": "1"}}
    others, absent = peers.find(newest)
    if newest and not any("-" in name for name in others):
        raise Missing(f"no NAME-VERSION.so in {newest}: benchmarks/peers/newest.sh builds them")
    for name in absent:
        print(f"{name}: not installed")
    # By its name: a program may be linked with another malloc, as Debian's Redis is.
    return {"glibc": {"LD_PRELOAD": "libc.so.6"}, "tslab": preload, **{name: peers.settings(name, path) for name, path in others.items()}}


def versions(found, tools):
    """{name: version}, by core_bench of that allocator, where it is built."""
    known, _ = run.identify(lambda name: [tools / f"core_bench_{name}"] if (tools / f"core_bench_{name}").is_file() else None,
                            {name.split()[0] for name in found if "-" not in name}, debug=True)
    return {name: name.partition("-")[2] or (known[name.split()[0]].version if name.split()[0] in known else "of an unknown version")
            for name in found}


def start(command, settings, **more):
    """By way of env: the settings are for the program, not for what starts it."""
    return subprocess.Popen(before(settings) + [str(word) for word in command], env=environment(), **more)


def before(settings):
    return ["env", *(f"{key}={value}" for key, value in settings.items())]


def environment():
    return {**peers.clean_environment(), **SAME}


# ---- the parts: (row, programs that it lacks, (usual, smoke) amounts, a run) --------------------------------------------------------------------


def resources(process):
    """Seconds of processor time and peak KiB of the largest process."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise Missing(f"status {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def run_command(row, amount, settings):
    _, _, _, files, command = row
    with tempfile.TemporaryDirectory(prefix="programs_bench.") as directory:
        for file, text in files.items():
            (pathlib.Path(directory) / file).write_text(rows.c_source(amount) if text is None else text % amount, encoding="ascii")
        loop = pathlib.Path(command[0]).name in ("programs_loops", "programs_sized")
        return resources(start([c.replace("%s", str(amount)) if loop else c for c in command], settings, cwd=directory, stdout=subprocess.DEVNULL))


@contextlib.contextmanager
def served(server, settings):
    """A server, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="programs_bench.") as directory:
        running = server(before(settings), environment(), directory)
        try:
            yield running
        except subprocess.CalledProcessError as error:
            raise Missing(str(error)) from error
        finally:
            if running.process.returncode is None:
                running.process.kill()
                running.process.wait()


def run_server(server, amount, settings):
    with served(server, settings) as running:
        running.load(amount)
        running.end()
        return resources(running.process)


def time_rows(tools):
    return [(row[0], lacking(*row[1]), row[2], lambda amount, settings, row=row: run_command(row, amount, settings))
            for row in rows.ROWS + rows.loop_rows(tools)] + \
        [(name, servers.missing(name), amounts, lambda amount, settings, server=server: run_server(server, amount, settings))
         for name, server, amounts in servers.ROWS]


def lacking(*programs):
    return [name for name in programs if not shutil.which(str(name))]


PYTHON_IDLE = """import sys
for k in range(3): x = [{"a": str(i)} for i in range(%s)]; x = None
print("idle", flush=True); sys.stdin.read()
"""


@contextlib.contextmanager
def waiting(command, settings):
    """A program that says when it has done its work, and waits."""
    process = start(command, settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    next((line for line in process.stdout if line == "idle\n"), None)
    yield process
    process.communicate("")


@contextlib.contextmanager
def flushed(keys, settings):
    with served(servers.Redis, settings) as redis:
        redis.fill(keys)
        redis.cli("flushall")
        yield redis.process
        redis.end()
        redis.process.wait()


def idle_rows(tools):
    loops = tools / "programs_loops"
    return [("redis, flushall", servers.missing("redis"), (400000, 2000), flushed),
            ("python", lacking("python3"), (300000, 1000), lambda n, settings: waiting(["python3", "-c", PYTHON_IDLE % n], settings))] + \
        [("loop " + name, lacking(loops), (max(amounts[0] // 4, 1), amounts[1]),
          lambda n, settings, name=name: waiting([loops, "--wait", name, n], settings))
         for name, amounts in rows.LOOPS if name in ("fragment", "large", "power", "server", "cross")]


def resident_kib(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def held(begin, amount, found, seconds):
    """{allocator: (KiB,) so long after its work}; all wait at the same time. None: it fails."""
    row = {}
    with contextlib.ExitStack() as stack:
        running = {}
        for name, settings in found.items():
            with failing(name, row):
                running[name] = stack.enter_context(begin(amount, settings)), time.monotonic()
        for name, (process, since) in running.items():
            time.sleep(max(0, since + seconds - time.monotonic()))
            row[name] = (resident_kib(process.pid),)
    for name, (process, _) in running.items():
        with failing(name, row):
            if process.returncode != 0:
                raise Missing(f"status {process.returncode}")
    return {name: row[name] for name in found}


def timer_of(tools):
    return next((path for path in (tools / "programs" / "libmalloc_timer.so", tools / "libmalloc_timer.so") if path.exists()), tools / "libmalloc_timer.so")


def run_latency(name, tools, amount, settings):
    """The median of a malloc, p99.9 and p99.99 in ns; calls that were interrupted are left out."""
    with tempfile.TemporaryDirectory(prefix="programs_bench.") as directory:
        out = pathlib.Path(directory) / "times"
        settings = {**settings, "LD_PRELOAD": f"{timer_of(tools)}:{settings['LD_PRELOAD']}", "MALLOC_TIMER": str(out)}
        if name == "redis":
            run_server(servers.Redis, amount, settings)
        else:
            resources(start([tools / "programs_loops", "server", amount], settings, stdout=subprocess.DEVNULL))
        count, _, median, p999, p9999, _ = map(float, out.read_text(encoding="ascii").splitlines()[-1].split())
        if not count:
            raise Missing("no calls")
        return median, p999, p9999


def latency_rows(tools):
    needs = lacking(tools / "programs_loops") + ([] if timer_of(tools).exists() else ["malloc_timer"])
    return [(name, needs + more, amounts, lambda amount, settings, name=name: run_latency(name, tools, amount, settings))
            for name, more, amounts in (("redis", servers.missing("redis"), (40000, 500)), ("server", [], (60, 2)))]


# ---- measuring and saying ----------------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def failing(name, row):
    """An allocator that fails has no figure; ours and glibc's have to work."""
    try:
        yield
    except Missing as why:
        if name in OURS + ("glibc",):
            raise Missing(f"fails with {name}: {why}", 1) from why
        print(f"{name}: {why}", file=sys.stderr)
        row[name] = None


def medians(found, rounds, once):
    """{allocator: the median of each figure}; None: it fails."""
    failed = {}

    def tried(name, _round):
        with failing(name, failed):
            return once(found[name])

    return {name: None if name in failed else [run.median(column) for column in zip(*figures)]
            for name, figures in run.in_turns(found, rounds, tried).items()}


def measured(options, found, part, all_rows, rounds):
    """{row: {allocator: figures}} of a part, each told when it is done."""
    first, done = next(iter(found)), {}
    print(f"\n{part:20s}" + "".join(f"{name:>26s}" for name in found), flush=True)
    for name, missing, amounts, once in all_rows:
        if options.rows and name not in options.rows or name in options.without.split(","):
            continue
        if missing:
            print(f"{name}: left out, there is no {', '.join(map(str, missing))}")
            continue
        amount = amounts[options.smoke]
        try:
            if part == "idle":
                done[name] = held(once, amount, found, 0.2 if options.smoke else IDLE_SECONDS)
            else:
                done[name] = medians(found, rounds, lambda settings: once(amount, settings))
        except Missing as why:
            raise Missing(f"{name}: {why}", 1) from why
        cells = [SHOWN[part](figures, done[name][first]) if figures else "fails" for figures in done[name].values()]
        print(f"{name:20s}" + "".join(f"{cell:>26s}" for cell in cells), flush=True)
    return done


SHOWN = {"time": lambda own, base: f"{own[0]:.3f} s {own[0] / max(base[0], 0.001):.2f} {own[1] / base[1]:.2f}m",
         "idle": lambda own, base: f"{own[0] / 1024:.1f} MB",
         "latency": lambda own, base: " ".join(f"{value:.0f}" for value in own)}
LINES = {"time": lambda own: [f"{own[0]:.4f}", int(own[1]), ""], "idle": lambda own: ["", own[0], ""],
         "latency": lambda own: ["", "", " ".join(f"{value:.1f}" for value in own)]}
ROWS = {"time": time_rows, "idle": idle_rows, "latency": latency_rows}


def aims_of(done, part, hard):
    """[(words, figure, limit)] of {row: {allocator: figures}}."""
    def ratios(column, name, beside):
        return {row: max(of[name][column], 0.001) / max(of[beside][column], 0.001) for row, of in done.items() if of.get(beside) and of.get(name)}

    def over_best(column):
        return {row: of["tslab"][column] / max(min(figures[column] for name, figures in of.items() if figures and name not in OURS), 0.001)
                for row, of in done.items()}

    if hard and part == "time":
        done = {row: of for row, of in done.items() if not row.startswith("loop ")}  # loops have no aims
        return [(f"{what} in hard mode over the usual mode, geometric mean", geometric_mean(ratios(column, "tslab hard", "tslab").values()), limit)
                for column, what, limit in ((0, "time", 1.5), (1, "peak memory", 1.3)) if done]
    if hard:
        return []
    if part == "latency":
        return [(f"{what} of malloc in {row} over the best", over, 1.1) for column, what in ((1, "p99.9"), (2, "p99.99"))
                for row, over in over_best(column).items()]
    best = over_best(0)
    worst = max(best, key=best.get)
    if part == "idle":
        return [(f"memory of tslab over the best, worst row ({worst})", best[worst], 1.0)]
    others = [name for name in next(iter(done.values())) if name != "tslab"]
    return [*((f"time of tslab over {name}, geometric mean", geometric_mean(ratios(0, "tslab", name).values()), 1.0) for name in others),
            ("time over the best of each row, geometric mean", geometric_mean(best.values()), 1.05),
            (f"time over the best, worst row ({worst})", best[worst], 1.3),
            *(("peak memory over jemalloc, geometric mean", geometric_mean(ratios(1, "tslab", name).values()), 1.05)
              for name in others if name == "jemalloc")]


def command_words(options):
    """ARGS of the run."""
    words = [f"--{name}" for name in ("quick", "smoke", "hard") if getattr(options, name)] + options.rows + ["--rounds", str(options.rounds)]
    words += [word for name in ("parts", "without") if getattr(options, name) for word in (f"--{name}", getattr(options, name))]
    return f"make bench-programs ARGS=\"{' '.join(words + (['--peers', 'DIR'] if options.peers else []))}\""


def main(arguments):
    parser = run.Parser("programs_bench.py", __doc__, "rounds quick smoke csv")
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--tools", type=pathlib.Path)
    parser.add_argument("--parts", metavar="PART,...")
    parser.add_argument("--without", default="", metavar="ROW,...")
    parser.add_argument("--peers", metavar="DIR")
    parser.add_argument("--hard", action="store_true")
    options = parser.parse_intermixed_args(arguments)
    if not options.library.is_file():
        parser.error(f"{options.library}: no such file")
    parts = run.choose(options.parts, ROWS, "part")
    options.rounds = 1 if options.smoke else options.rounds or (3 if options.quick else 5)
    tools = (options.tools or options.library.parent / "../../benchmarks").resolve()
    found, lines = allocators(options.library.resolve(), options.hard, options.peers), []
    about = machine.about(command_words(options), versions(found, tools))
    for part in parts:
        rounds = {"latency": 1 if options.smoke else 3 if options.quick else 9}.get(part, options.rounds)
        done = measured(options, found, part, ROWS[part](tools), rounds)
        lines += [[part, row, name, *(LINES[part](own) if own else ["", "", ""])] for row, of in done.items() for name, own in of.items()]
        if done:
            print(f"medians of {rounds} rounds; a time and a peak (m) also as a ratio to those of {next(iter(found))}; aims:")
        for words, figure, limit in aims_of(done, part, options.hard) if done else ():
            print(f"  {words:78s} {figure:6.2f}  (aim: at most {limit:.2f}) {'met' if figure <= limit else 'MISSED'}")
    if not lines:
        raise Missing("no row was run")
    if options.csv:
        run.write_csv(options.csv, about, HEADING, lines)
    return 0


if __name__ == "__main__":
    ending.run("programs_bench", main)
