#!/usr/bin/env python3
"""The cost of being watched: one program, unwatched and watched by each allocator's own means.

    benchmarks/watched/watched_bench.py                the table (two minutes)
    benchmarks/watched/watched_bench.py --csv FILE     and the figures
    benchmarks/watched/watched_bench.py --rounds 1 --seconds 0.5    quickly

The program is synthetic_bench with the pattern `hotspot` and no pause between requests: 120 objects of 48 to 768 bytes each. A
cost is how much longer a request takes than with the same allocator unwatched. The time is the mean of a run, and that of the
best run counts: other work on the machine only adds to it. Unwatched and watched runs take turns. What is not installed is left out, by name:
libjemalloc2 (its heap profile, where it was built with it), libgoogle-perftools4, heaptrack, valgrind (massif); Debian's names.
"""

import dataclasses
import json
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, machine, peers, run  # noqa: E402
from harness.run import Missing  # noqa: E402

COLUMNS = ["watcher", "allocator", "says", "run", "unwatched_ns", "watched_ns"]


@dataclasses.dataclass(frozen=True)
class Watcher:
    """A way to watch the program. {folder} in its settings and command is one for its output."""

    name: str
    allocator: str  # tslab, or a library that is preloaded, or malloc
    says: str
    settings: dict = dataclasses.field(default_factory=dict)
    command: tuple = ()  # before the program
    writes: str = ""     # a pattern of the files that it leaves, if it did watch
    package: str = ""


WATCHERS = [
    Watcher("temporal-slab: statistics page", "tslab", "every counter, by class, epoch and label; doctor", {"TSLAB_SHM": "1"}),
    Watcher("temporal-slab: sampled stacks", "tslab", "and live bytes by stack, one sample in 512 KiB",
            {"TSLAB_SHM": "1", "TSLAB_SAMPLE_STACKS": "512K"}),
    Watcher("jemalloc: heap profile", "libjemalloc.so.2", "live bytes by stack, one sample in 512 KiB",
            {"MALLOC_CONF": "prof:true,prof_final:true,lg_prof_sample:19,prof_prefix:{folder}/je"}, (), "je*.heap", "libjemalloc2"),
    Watcher("tcmalloc: heap profile", "libtcmalloc.so.4", "live bytes by stack, every allocation", {"HEAPPROFILE": "{folder}/tc"}, (),
            "tc*.heap", "libgoogle-perftools4"),
    Watcher("heaptrack", "malloc", "every allocation with its stack", {}, ("heaptrack", "--output", "{folder}/track"), "track*", "heaptrack"),
    Watcher("massif", "malloc", "live bytes by stack, every allocation", {},
            ("valgrind", "--tool=massif", "--massif-out-file={folder}/massif"), "massif*", "valgrind"),
]


def parts_of(watcher, folder):
    """(settings of the allocator, settings and command of the watcher), or Missing."""
    settings = {key: value.format(folder=folder) for key, value in watcher.settings.items()}
    command = [word.format(folder=folder) for word in watcher.command]
    library = None if watcher.allocator in ("malloc", "tslab") else peers.installed(watcher.allocator)
    lacks = command[0] if command and not shutil.which(command[0]) else \
        watcher.allocator if watcher.allocator not in ("malloc", "tslab") and not library else None
    if lacks:
        raise Missing(f"{lacks} is not installed ({watcher.package})")
    return {"LD_PRELOAD": library} if library else {}, settings, command


def once(program, seconds, watcher, watched):
    """The mean time of a request in nanoseconds."""
    with tempfile.TemporaryDirectory() as folder:
        allocator, settings, command = parts_of(watcher, folder)
        result = pathlib.Path(folder) / "result.json"
        done = run.call([*(command if watched else []), program, f"--allocator={'tslab' if watcher.allocator == 'tslab' else 'malloc'}",
                         "--pattern=hotspot", "--req_rate=0", f"--duration_s={seconds:g}", f"--json={result}"],
                        **allocator, **(settings if watched else {}))
        if "Invalid conf" in done.stderr:
            raise Missing("this build of the library has none")
        if done.returncode != 0:
            raise Missing(f"exit code {done.returncode}: {run.last(done.stderr)}")
        if watched and watcher.writes and not any(pathlib.Path(folder).glob(watcher.writes)):
            raise Missing(f"it left no {watcher.writes}, so it did not watch")
        return json.loads(result.read_text(encoding="utf-8"))["latency_ns"]["mean"]


def cost_text(cost):
    return f"{cost:.0f} times" if cost >= 2.95 else f"{100 * (cost - 1):+.0f} %"


def main(arguments):
    parser = run.Parser("watched_bench.py", __doc__, "rounds=5 csv quick smoke build")
    parser.add_argument("--seconds", type=float, default=2, help="of each run (default 2)")
    options = parser.parse_args(arguments)
    if options.quick or options.smoke:
        options.rounds, options.seconds = (3, 0.5) if options.quick else (1, 0.05)
    program = run.programs_in(options.build, "synthetic_bench") / "synthetic_bench"
    rows, lines = [["watched by", "a request, us", "watched", "cost", ""]], []
    for watcher in WATCHERS:
        try:
            both = run.in_turns((False, True), options.rounds, lambda watched, _: once(program, options.seconds, watcher, watched))
        except Missing as missing:
            run.say(f"watched_bench: left out: {watcher.name}: {missing}")
            continue
        plain, cost = (min(both[watched]) for watched in (False, True))
        rows.append([watcher.name, f"{plain / 1e3:.2f}", f"{cost / 1e3:.2f}", cost_text(cost / plain), watcher.says])
        lines += [[watcher.name, watcher.allocator, watcher.says, number, f"{without:.1f}", f"{with_it:.1f}"]
                  for number, (without, with_it) in enumerate(zip(both[False], both[True]), 1)]
    print("\n".join(run.aligned(rows)))
    if options.csv:
        about = machine.about(f"benchmarks/watched/watched_bench.py --rounds {options.rounds} --seconds {options.seconds:g}")
        run.write_csv(options.csv, about, COLUMNS, lines)
    return 0


if __name__ == "__main__":
    ending.run("watched_bench", main)
