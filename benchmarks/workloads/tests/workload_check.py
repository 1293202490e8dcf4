"""What the tests of the workload programs share: run a program, and check what it answers."""

import json
import os
import subprocess
import sys
import tempfile

BUILD = sys.argv.pop(1) if len(sys.argv) > 1 else ""
HERE = os.path.dirname(os.path.abspath(__file__))

_done = 0
_failed = 0


def check(condition, what):
    global _done, _failed
    _done += 1
    if not condition:
        _failed += 1
        print("FAILED: %s" % what, file=sys.stderr)


def finish():
    """Ends the test; one that checked nothing has failed."""
    print("%d checks, %d failed" % (_done, _failed))
    sys.exit(0 if _done and not _failed else 1)


def run(program, *arguments):
    return subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)


def check_refused(program, line, named=None):
    """Exit 2, nothing on stdout, one line on stderr that names the tool and what is wrong: the last word, or these."""
    arguments = line.split() if isinstance(line, str) else line
    named = named or arguments[-1]
    done = run(program, *arguments)
    what = "%s: exit %d, stdout %r, stderr %r" % (" ".join(arguments), done.returncode, done.stdout, done.stderr)
    check(done.returncode == 2, what)
    check(done.stdout == "", what)
    check(done.stderr.count("\n") == 1 and done.stderr.endswith("\n"), what)
    check(done.stderr.startswith(os.path.basename(program) + ": "), what)
    check(named in done.stderr, "%r is not named: %s" % (named, what))


def run_json(program, *arguments):
    """The JSON that a good run writes, and its text."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "out.json")
        done = run(program, *arguments, "--json=" + path)
        check(done.returncode == 0, "%s: exit %d: %s" % (" ".join(arguments), done.returncode, done.stderr))
        check(done.stderr == "", "%s: stderr %r" % (" ".join(arguments), done.stderr))
        if done.returncode != 0:
            finish()
        with open(path, encoding="utf-8") as file:
            return json.load(file), done.stdout


def check_latencies(latency, requests):
    check(latency["count"] == requests, "%d latencies of %d requests" % (latency["count"], requests))
    order = [latency[key] for key in ("p50", "p90", "p99", "p99_9", "max")]
    check(order == sorted(order) and order[0] > 0, "latencies %r" % order)


def check_rss(rss, seconds):
    check(rss["peak_bytes"] >= rss["before_bytes"] > 0, "rss %r" % rss["peak_bytes"])
    check(rss["peak_bytes"] >= rss["after_bytes"] > 0, "rss after %r" % rss["after_bytes"])
    check(rss["given_back_bytes"] == rss["peak_bytes"] - rss["after_bytes"], "given back %r" % rss["given_back_bytes"])
    # A busy machine may delay the sampler, and make the run longer, by any time.
    series = rss["series_ms_bytes"]
    milliseconds = max([seconds * 1000] + [point[0] for point in series])
    expected = milliseconds / rss["sample_ms"]
    check(1 <= rss["samples"] <= expected * 2 + 10, "%d samples in %g ms" % (rss["samples"], milliseconds))
    check(0 < len(series) <= min(rss["samples"], 1024), "%d points of %d samples" % (len(series), rss["samples"]))
    check(max(point[1] for point in series) <= rss["peak_bytes"], "a point above the peak")
    times = [point[0] for point in series]
    check(times == sorted(times), "the series is out of order")
