#!/usr/bin/env python3
"""What a scrape a second costs the program: requests as fast as they go, with and without it, over real HTTP.

scrape_bench serves requests and its statistics in one process. Windows of a second come in pairs, one of them with one
scrape of /metrics by curl in its middle, which of the two first by turns. All threads of the program share one
processor and curl has another, so what a scrape takes is taken from the requests, and nothing else is. The figure is the
median over the pairs of the ratio of the requests, by the clock and by the processor time of the process: the second
does not move with what else the machine does.
"""

import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, run  # noqa: E402

LIMIT = 0.99


def pinned_to(cpu):
    """For Popen, of a program that is to stay on one processor; None: anywhere."""
    return None if cpu is None else lambda: os.sched_setaffinity(0, {cpu})


class Program:
    def __init__(self, path, cpu, threads, epochs):
        self.process = subprocess.Popen([path, str(threads), str(epochs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=pinned_to(cpu))
        said = self.process.stdout.readline()
        if not said:
            raise run.Missing("scrape_bench did not start")
        self.port = int(said)

    def now(self):
        """Requests, and nanoseconds: of the process, of its threads beside the requests, of the clock."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [int(x) for x in self.process.stdout.readline().split()]


def scrape(port, cpu):
    answer = subprocess.run(["curl", "--silent", "--fail", "--max-time", "10", f"http://127.0.0.1:{port}/metrics"],
                            stdout=subprocess.PIPE, preexec_fn=pinned_to(cpu), check=False)
    if answer.returncode != 0 or b"\ntemporal_slab_rss_bytes " not in answer.stdout:
        raise run.Missing(f"curl ends with {answer.returncode}")
    return len(answer.stdout)


def window(program, seconds, scraped, cpu):
    """Requests a second by the clock and by processor time, and the milliseconds of the other threads."""
    before = program.now()
    time.sleep(seconds / 2)
    if scraped:
        scrape(program.port, cpu)
    time.sleep(max(0.0, before[3] / 1e9 + seconds - time.monotonic()))
    requests, process, others, clock = (b - a for a, b in zip(before, program.now()))
    return requests / clock * 1e9, requests / process * 1e9, others / 1e6


def main(arguments):
    parser = run.Parser("scrape_cost.py", __doc__, "build")
    parser.add_argument("--pairs", type=run.whole(1, 10**6), default=120)
    parser.add_argument("--window", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--threads", type=run.whole(1, 1000), default=1, help="more than 1: nothing is pinned")
    parser.add_argument("--epochs", type=run.whole(0, 10**6), default=1000, help="open beside the requests, with 20 labels")
    parser.add_argument("--gate", action="store_true", help=f"exit 1 if less than {LIMIT * 100:g} %% are kept by processor time")
    options = parser.parse_args(arguments)
    path = run.programs_in(options.build, "scrape_bench") / "scrape_bench"
    cpus = sorted(os.sched_getaffinity(0))
    pinned = len(cpus) > 1 and options.threads == 1
    own, other = cpus[:2] if pinned else (None, None)
    running = Program(path, own, options.threads, options.epochs)
    try:
        length = scrape(running.port, other)
        window(running, options.window, False, other)
        both = run.in_turns((True, False), options.pairs, lambda scraped, _: window(running, options.window, scraped, other))
    finally:
        running.process.kill()
        running.process.wait()
    pairs = list(zip(both[True], both[False]))
    print(f"{options.pairs} pairs of {options.window:g} s, {options.threads} thread(s), {options.epochs} epochs open, "
          f"{length} bytes a scrape{', pinned' if pinned else ''}")
    for column, name in enumerate(("clock", "processor time")):
        ratios = [on[column] / off[column] for on, off in pairs]
        print(f"requests kept by {name}: {100 * run.median(ratios):.2f} % "
              f"(middle half {100 * run.quantile(ratios, 0.25):.2f} to {100 * run.quantile(ratios, 0.75):.2f})")
    print(f"a scrape takes {run.median([on[2] - off[2] for on, off in pairs]):.2f} ms of the server's thread")
    if options.gate and run.median(ratios) < LIMIT:
        raise run.Missing(f"less than {LIMIT:.0%}", 1)
    return 0


if __name__ == "__main__":
    ending.run("scrape_cost", main)
