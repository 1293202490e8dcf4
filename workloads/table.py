"""Runs every workload with malloc and with temporal-slab, each in a process of its own, and prints one table.

Every figure of the table comes from the JSON that the programs write; the last sentence is computed from the
same figures. Exit 1 if a program fails or the two allocators print a document differently, 2 on wrong usage.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

PATTERNS = {
    "burst": "80-200 objects of 128 bytes a request, freed in it; with temporal-slab a domain for each request",
    "steady": "50 objects of 128 bytes a request, each freed 8 requests later; an epoch for 16 requests",
    "leak": "as burst, but one object in a hundred is never freed. With temporal-slab each of these keeps its slab of 16 KiB, "
            "so the leak costs more there, and is named",
    "hotspot": "120 objects of 48-768 bytes a request, freed in it; all in one epoch",
    "kernel": "300 objects of 256 bytes a request; at its end temporal-slab hands all memory back to the system and fetches "
              "it anew for the next, malloc keeps it: the difference in latency is the system's calls and page faults",
}
ALLOCATORS = ["malloc", "tslab"]
MIB = 1024 * 1024
# Two figures that differ by less are called equal.
TIE = 0.05
SECONDS_MAX = 8.0


class Failure(Exception):
    """A run that gave no figures; its text is what to say, its code the exit code."""

    def __init__(self, text, code=1):
        super().__init__(text)
        self.code = code


def parse_arguments(argv):
    default_build = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "release")
    parser = argparse.ArgumentParser(prog="workloads/run.sh", description=__doc__.split("\n\n", 1)[0],
                                     allow_abbrev=False)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="JSON files, or directories of them: the documents")
    parser.add_argument("--seconds", type=float, help="of each run; default 4, at most %g" % SECONDS_MAX)
    parser.add_argument("--quick", "--smoke", action="store_true", help="0.4 seconds each: does it work")
    parser.add_argument("--build", default=default_build, help="build directory; default build/release")
    parser.add_argument("--json", metavar="FILE", help="all results as JSON")
    # One line that names the argument, without the usage text.
    parser.error = lambda message: parser.exit(2, "workloads/run.sh: %s\n" % message)
    options = parser.parse_args(argv)
    if options.seconds is None:
        options.seconds = 0.4 if options.quick else 4.0
    if not 0 < options.seconds <= SECONDS_MAX:
        parser.error("--seconds=%g: must be more than 0 and at most %g" % (options.seconds, SECONDS_MAX))
    for path in options.paths:
        if not os.path.exists(path):
            parser.error("%s: no such file or directory" % path)
    if options.json:
        try:
            open(options.json, "w", encoding="utf-8").close()
        except OSError as error:
            parser.error("--json=%s: %s" % (options.json, error.strerror))
    return options


# ---- the runs ------------------------------------------------------------------------------------


def command(workload, allocator, options, result):
    programs = os.path.join(options.build, "workloads")
    if workload == "documents":
        # -- : a path may begin with a dash.
        return [os.path.join(programs, "json_docs"), "--allocator=" + allocator, "--seconds=%g" % options.seconds,
                "--json=" + result, "--"] + options.paths
    return [os.path.join(programs, "synthetic_bench"), "--allocator=" + allocator, "--pattern=" + workload,
            "--duration_s=%g" % options.seconds, "--json=" + result]


def run_one(workload, allocator, options, said):
    """Runs one program and returns its JSON. said: complaints already printed, each is printed once."""
    with tempfile.TemporaryDirectory() as directory:
        result = os.path.join(directory, "result.json")
        line = command(workload, allocator, options, result)
        try:
            done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                  timeout=300)
        except FileNotFoundError:
            raise Failure("%s is missing: build the release first (make)" % line[0])
        except subprocess.TimeoutExpired:
            raise Failure("%s with %s: no end after 300 s" % (workload, allocator))
        for complaint in done.stderr.splitlines():
            if complaint not in said:
                said.add(complaint)
                print(complaint, file=sys.stderr)
        if done.returncode != 0:
            how = "signal %d" % -done.returncode if done.returncode < 0 else "exit code %d" % done.returncode
            raise Failure("%s with %s: %s" % (workload, allocator, how), 2 if done.returncode == 2 else 1)
        with open(result, encoding="utf-8") as file:
            return json.load(file)


def check_documents(runs):
    """The same documents, and the same bytes for each, from both allocators."""
    with_malloc, with_tslab = (run["documents"] for run in runs)
    if [each["path"] for each in with_malloc] != [each["path"] for each in with_tslab]:
        raise Failure("documents: malloc served %d of them, tslab %d" % (len(with_malloc), len(with_tslab)))
    for left, right in zip(with_malloc, with_tslab):
        if left != right:
            raise Failure("documents: %s: malloc and tslab print it differently" % left["path"])


def run_all(options):
    """{workload: [result with malloc, result with tslab]}"""
    workloads = ["documents", *PATTERNS]
    total = len(workloads) * len(ALLOCATORS)
    results, said, number = {}, set(), 0
    for workload in workloads:
        results[workload] = []
        for allocator in ALLOCATORS:
            number += 1
            print("[%d/%d] %s with %s ..." % (number, total, workload, allocator), file=sys.stderr, flush=True)
            results[workload].append(run_one(workload, allocator, options, said))
    check_documents(results["documents"])
    return results


# ---- the table -----------------------------------------------------------------------------------


def microseconds(ns):
    return "%.1f" % (ns / 1000)


def mebibytes(count):
    return "%.1f" % (count / MIB)


def leak_cells(result):
    """How many objects leaked, and in which epoch."""
    objects = result["leaked"]["objects"]
    labels = result["leaked"]["by_epoch_label"]
    count = "n/a" if objects is None else str(objects)
    if labels is None:
        return count, "n/a"
    if not labels:
        return count, "-"
    return count, ", ".join('"%s" (%d in %d epochs)' % (row["label"], row["objects"], row["epochs"])
                            for row in labels)


def row(result):
    latency, rss = result["latency_ns"], result["rss"]
    return [result["workload"], result["allocator"], "%.0f" % result["requests_per_s"],
            microseconds(latency["p50"]), microseconds(latency["p99"]), microseconds(latency["p99_9"]),
            mebibytes(rss["peak_bytes"]), mebibytes(rss["after_bytes"]), mebibytes(rss["given_back_bytes"]),
            *leak_cells(result)]


HEADER = [["workload", "allocator", "requests", "p50", "p99", "p99.9", "RSS peak", "RSS after", "given back", "leaked",
           "in the epochs"],
          ["", "", "/s", "us", "us", "us", "MiB", "MiB", "MiB", "objects", "labelled"]]
LEFT = {0, 1, 10}


def format_table(results):
    groups = [HEADER] + [[row(result) for result in runs] for runs in results.values()]
    widths = [max(len(line[i]) for group in groups for line in group) for i in range(len(HEADER[0]))]
    lines = []
    for group in groups:
        for cells in group:
            lines.append("  ".join(cell.ljust(width) if i in LEFT else cell.rjust(width)
                                   for i, (cell, width) in enumerate(zip(cells, widths))).rstrip())
        lines.append("-" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join(lines[:-1])


def describe(results):
    """What the table is about, from the results."""
    documents = results["documents"][0]
    count = len(documents["documents"])
    size = sum(each["bytes"] for each in documents["documents"])
    lines = ["documents: %d JSON files of %.2f MiB in all, parsed, walked and printed again, as fast as it goes; both "
             "allocators printed the same bytes." % (count, size / MIB)]
    skipped = documents["invalid"] + documents["unreadable"]
    if skipped:
        lines[0] += " %d could not be read." % skipped
    lines.append("The patterns run at a fixed rate of requests, so only their latency and memory can differ; malloc is "
                 "the system's, as it is. RSS after: all is freed but what leaked. Given back: the difference to the peak; temporal-slab "
                 "keeps up to 32 MiB warm for what comes next, which is more than these need (TSLAB_RETAIN).")
    lines += ["%s: %s." % (workload, PATTERNS[workload]) for workload in results if workload in PATTERNS]
    for workload, runs in results.items():
        for result in runs:
            if result["allocation_failures"]:
                lines.append("%s with %s: %d allocations FAILED." % (workload, result["allocator"],
                                                                     result["allocation_failures"]))
    leaking = [runs[1] for runs in results.values() if runs[1]["leaked"]["objects"]]
    for result in leaking:
        before, after = ("%.1f" % (result["rss"][key] / MIB) for key in ("after_bytes", "after_destroy_bytes"))
        if float(after) < float(before):
            lines.append("%s: epoch_destroy of the leaking epochs brought temporal-slab from %s to %s MiB."
                         % (result["workload"], before, after))
        else:
            lines.append("%s: epoch_destroy of the leaking epochs left temporal-slab at %s MiB: what they held is below "
                         "the retain budget and kept for new objects." % (result["workload"], after))
    return "\n".join(lines)


# ---- the last sentence ---------------------------------------------------------------------------

METRICS = {
    "p50": lambda result: result["latency_ns"]["p50"],
    "p99": lambda result: result["latency_ns"]["p99"],
    "p99.9": lambda result: result["latency_ns"]["p99_9"],
    "RSS peak": lambda result: result["rss"]["peak_bytes"],
    "RSS after": lambda result: result["rss"]["after_bytes"],
}


def ratios(results, metric):
    """{workload: temporal-slab's figure in malloc's}"""
    figure = METRICS[metric]
    return {workload: figure(runs[1]) / max(figure(runs[0]), 1) for workload, runs in results.items()}


def score(by_workload):
    """(lower, equal, higher): in how many workloads temporal-slab's figure is."""
    lower = sum(ratio < 1 - TIE for ratio in by_workload.values())
    higher = sum(ratio > 1 + TIE for ratio in by_workload.values())
    return lower, len(by_workload) - lower - higher, higher


def extremes(results):
    """((ratio, metric, workload) of the best and of the worst figure of temporal-slab)"""
    every = [(ratio, metric, workload) for metric in METRICS for workload, ratio in ratios(results, metric).items()]
    return min(every), max(every)


def sentence(results):
    parts = []
    for metric in METRICS:
        lower, equal, higher = score(ratios(results, metric))
        parts.append("%s %d lower, %d equal, %d higher" % (metric, lower, equal, higher))
    best, worst = extremes(results)
    text = ("Of %d workloads, temporal-slab's figures are, beside malloc's (equal: within %d %%): %s; "
            % (len(results), TIE * 100, "; ".join(parts)))
    text += "its best was the %s of %s, %.2f times malloc's, " % (best[1], best[2], best[0])
    text += "and its worst the %s of %s, %.2f times malloc's" % (worst[1], worst[2], worst[0])
    rates = [result["requests_per_s"] for result in results["documents"]]
    text += "; it served %.2f times the documents per second" % (rates[1] / rates[0])
    leaked = sum(runs[1]["leaked"]["objects"] for runs in results.values())
    named = sum(label["objects"] for runs in results.values() for label in runs[1]["leaked"]["by_epoch_label"])
    if leaked:
        text += ", and named the epochs of %d of %d leaked objects, of which malloc can name none" % (named, leaked)
    return text + "."


def main(argv):
    options = parse_arguments(argv)
    try:
        results = run_all(options)
    except Failure as failure:
        print("workloads/run.sh: %s" % failure, file=sys.stderr)
        return failure.code
    except KeyboardInterrupt:
        return 130
    print()
    print(format_table(results))
    print()
    print(describe(results))
    print(sentence(results))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"runs": [result for runs in results.values() for result in runs],
                       "sentence": sentence(results)}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
