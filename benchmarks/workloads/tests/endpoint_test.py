"""What a run serves while it lasts: the page, and the leaks of the five patterns. Arguments: BUILD_DIR 0|1 (without or with
libtslab-http)."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import workload_check as w

WITH_HTTP = sys.argv[1] == "1"
BENCH = os.path.join(w.BUILD, "synthetic_bench")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(port, path, accept="text/plain"):
    """The page; None: it is not there yet, or not any more."""
    try:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, OSError):
        return None


def leaked(text, pattern, allocator):
    found = re.findall(r'(?m)^benchmark_objects_leaked_total\{allocator="%s",pattern="%s"\} (\d+)$' % (allocator, pattern), text)
    w.check(len(found) == 1, "%s of %s: %r" % (pattern, allocator, found))
    return int(found[0]) if found else -1


def start(program, port, *arguments):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_")}
    return subprocess.Popen([program, *arguments], env={**env, "TSLAB_HTTP": "127.0.0.1:%d" % port},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def scrape(pattern, allocator):
    """What a run shows from its first request on until it ends."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "out.json")
        run = start(BENCH, port, "--pattern=" + pattern, "--allocator=" + allocator, "--duration_s=1.2", "--json=" + path)
        seen = []
        while run.poll() is None:
            text = get(port, "/metrics")
            if text and "benchmark_objects_leaked_total" in text:
                seen.append(leaked(text, pattern, allocator))
                w.check(("temporal_slab_rss_bytes" in text) == (allocator == "tslab"), "whose metrics: " + text[:300])
                opened = get(port, "/metrics", "application/openmetrics-text")
                w.check(opened is None or opened.endswith("# EOF\n"), "OpenMetrics ends with %r" % (opened or "")[-30:])
            time.sleep(0.05)
        out, err = run.communicate()
        w.check(run.returncode == 0 and err == "", "%s: exit %d: %s" % (pattern, run.returncode, err))
        with open(path, encoding="utf-8") as file:
            left = json.load(file)["leaked"]["objects"]
    what = "%s of %s: %r, then %d left" % (pattern, allocator, seen, left)
    w.check(len(seen) >= 3, what)
    w.check(seen == sorted(seen) and seen[-1] <= left, what)
    if pattern == "leak":
        w.check(seen[0] < seen[-1] and seen[-1] >= left // 4 > 0, what)
    else:
        w.check(seen[-1] == left == 0, what)


def documents_are_served():
    """json_docs calls nothing of libtslab-http."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "a.json"), "w", encoding="utf-8") as file:
            json.dump(list(range(2000)), file)
        run = start(os.path.join(w.BUILD, "json_docs"), port, "--allocator=tslab", "--seconds=1", directory)
        served = None
        while run.poll() is None and not served:
            served = get(port, "/healthz")
            time.sleep(0.02)
        w.check(served == "ok\n", "json_docs serves %r" % served)
        _, err = run.communicate()
        w.check(run.returncode == 0 and err == "", "json_docs: exit %d: %s" % (run.returncode, err))


def without_the_library():
    port = free_port()
    run = start(BENCH, port, "--pattern=leak", "--duration_s=0.5")
    time.sleep(0.3)
    w.check(get(port, "/healthz") is None, "something listens")
    _, err = run.communicate()
    w.check(run.returncode == 0 and err == "", "exit %d: %s" % (run.returncode, err))


if WITH_HTTP:
    for each in ("burst", "steady", "leak", "hotspot", "kernel"):
        scrape(each, "tslab")
    scrape("leak", "malloc")
    documents_are_served()
else:
    without_the_library()
w.finish()
