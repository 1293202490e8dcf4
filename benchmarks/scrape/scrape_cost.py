#!/usr/bin/env python3
"""What a scrape a second costs the program: requests as fast as they go, with and without it, over real HTTP.

scrape_bench serves requests and its statistics in one process. Windows of a second come in pairs, one of them with one
scrape of /metrics by curl in its middle, which of the two first by turns. All threads of the program share one
processor and curl has another, so what a scrape takes is taken from the requests, and nothing else is. The figure is the
median over the pairs of the ratio of the requests, by the clock and by the processor time of the process: the second
does not move with what else the machine does.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
ROOT = BENCHMARKS.parent

LIMIT = 0.99


def fail(what):
    sys.exit(f"scrape_cost: {what}")


class Program:
    def __init__(self, path, cpu, threads, epochs):
        pin = (lambda: os.sched_setaffinity(0, {cpu})) if cpu is not None else None
        self.process = subprocess.Popen([path, str(threads), str(epochs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, preexec_fn=pin)
        self.port = int(self.process.stdout.readline() or fail("scrape_bench did not start"))

    def now(self):
        """Requests, and nanoseconds: of the process, of its threads beside the requests, of the clock."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [int(x) for x in self.process.stdout.readline().split()]


def scrape(port, cpu):
    pin = (lambda: os.sched_setaffinity(0, {cpu})) if cpu is not None else None
    answer = subprocess.run(["curl", "--silent", "--fail", "--max-time", "10", f"http://127.0.0.1:{port}/metrics"],
                            stdout=subprocess.PIPE, preexec_fn=pin, check=False)
    if answer.returncode != 0 or b"\ntemporal_slab_rss_bytes " not in answer.stdout:
        fail(f"curl ends with {answer.returncode}")
    return len(answer.stdout)


def window(program, seconds, cpu):
    """Requests a second by the clock and by processor time, and the milliseconds of the other threads. cpu: -1, no scrape."""
    before = program.now()
    time.sleep(seconds / 2)
    if cpu != -1:
        scrape(program.port, cpu)
    time.sleep(max(0.0, before[3] / 1e9 + seconds - time.monotonic()))
    after = program.now()
    requests, process, others, clock = (b - a for a, b in zip(before, after))
    return requests / clock * 1e9, requests / process * 1e9, others / 1e6


def main():
    parser = argparse.ArgumentParser(prog="scrape_cost.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"), metavar="DIR")
    parser.add_argument("--pairs", type=int, default=120)
    parser.add_argument("--window", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--threads", type=int, default=1, help="more than 1: nothing is pinned")
    parser.add_argument("--epochs", type=int, default=1000, help="open beside the requests, with 20 labels")
    parser.add_argument("--gate", action="store_true", help=f"exit 1 if less than {LIMIT * 100:g} %% are kept by processor time")
    options = parser.parse_args()
    program = os.path.join(options.build, "benchmarks", "scrape_bench")
    if not os.path.exists(program):
        fail(f"{program} is missing (tools/setup.sh observability, then build)")
    if options.pairs < 1 or options.window <= 0:
        fail("--pairs and --window must be above 0")
    cpus = sorted(os.sched_getaffinity(0))
    pinned = len(cpus) > 1 and options.threads == 1
    own, other = (cpus[0], cpus[1]) if pinned else (None, None)
    running = Program(program, own, options.threads, options.epochs)
    try:
        length = scrape(running.port, other)
        window(running, options.window, -1)
        clock, processor, cost = [], [], []
        for i in range(options.pairs):
            first = window(running, options.window, other if i % 2 else -1)
            second = window(running, options.window, -1 if i % 2 else other)
            on, off = (first, second) if i % 2 else (second, first)
            clock.append(on[0] / off[0])
            processor.append(on[1] / off[1])
            cost.append(on[2] - off[2])
    finally:
        running.process.kill()
        running.process.wait()
    kept = statistics.median(processor)
    print(f"{options.pairs} pairs of {options.window:g} s, {options.threads} thread(s), {options.epochs} epochs open, "
          f"{length} bytes a scrape{', pinned' if pinned else ''}")
    for name, ratios in (("clock", clock), ("processor time", processor)):
        quarters = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        print(f"requests kept by {name}: {100 * statistics.median(ratios):.2f} % "
              f"(middle half {100 * quarters[0]:.2f} to {100 * quarters[2]:.2f})")
    print(f"a scrape takes {statistics.median(cost):.2f} ms of the server's thread")
    if options.gate and kept < LIMIT:
        fail(f"less than {LIMIT:.0%}")


if __name__ == "__main__":
    main()
