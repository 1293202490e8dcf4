"""From the first leaked object to the answer: ten handlers, one leaks; how long until Prometheus's alert, the page and the
doctor name that handler, its class and its bytes? Fails if any takes 60 seconds or names another.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

LIMIT = 60.0
HERE = os.path.dirname(os.path.abspath(__file__))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)
    except (urllib.error.URLError, OSError):
        return None


def alert(prometheus, label):
    """The alert that names the label: with its class and its bytes."""
    for a in (get(f"http://127.0.0.1:{prometheus}/api/v1/alerts") or {"data": {"alerts": []}})["data"]["alerts"]:
        if a["state"] == "firing" and a["labels"]["alertname"] == "TemporalSlabEpochLeak":
            if a["labels"]["label"] != label or a["labels"]["class"] != "128":
                sys.exit(f"demo-leak: the alert names {a['labels']}, not {label}")
            return a["annotations"]["summary"]
    return None


def page(port, label):
    stats = get(f"http://127.0.0.1:{port}/stats.json")
    for f in stats["findings"] if stats else []:
        if f["id"] == "leak_after_close":
            if f"`{label}`" not in f["what"] or "128-byte objects" not in f["what"]:
                sys.exit(f"demo-leak: the page says {f['what']}, which is not {label}")
            return f["what"]
    return None


def doctor(tool, pid, label):
    answer = subprocess.run([tool, "--doctor", str(pid)], capture_output=True, text=True, timeout=20)
    for line in answer.stdout.splitlines():
        if "after its close" in line:
            if answer.returncode != 1 or f"`{label}`" not in line:
                sys.exit(f"demo-leak: stats_dump ends with {answer.returncode} and says {line}")
            return line
    return None


def main():
    parser = argparse.ArgumentParser(prog="demo_leak.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="BUILD_DIR", help="such as build/release")
    parser.add_argument("leaking", nargs="?", metavar="LEAKING_HANDLER", choices=[str(n) for n in range(10)], default="7",
                        help="0 to 9; default 7")
    options = parser.parse_args()
    build, leaking = os.path.abspath(options.build), options.leaking
    label = f"handler:/api/{leaking}"
    library = os.path.join(build, "src/http/libtslab-http.so")
    for path in (library, os.path.join(build, "tools/leaky_server"), os.path.join(build, "tools/stats_dump")):
        if not os.path.exists(path):
            sys.exit(f"demo-leak: {path} is missing (tools/setup.sh observability, then build)")
    if not shutil.which("prometheus"):
        sys.exit("demo-leak: prometheus is not installed (tools/setup.sh observability)")
    port, prometheus_port = free_port(), free_port()
    command = [os.path.join(HERE, "run-observability.sh"), f"--port={port}", f"--prometheus-port={prometheus_port}",
               os.path.join(build, "tools/leaky_server"), "120", leaking]
    environment = {**os.environ, "LIBTSLAB_HTTP": library, "TSLAB_SHM": "1"}
    with tempfile.TemporaryFile() as log:
        run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True,
                               start_new_session=True)
        try:
            if run.stdout.readline() != "leaks from now on\n":
                log.seek(0)
                sys.exit("demo-leak: the server did not start:\n" + log.read().decode())
            started = time.monotonic()
            pid = None
            while pid is None and time.monotonic() - started < LIMIT:
                stats = get(f"http://127.0.0.1:{port}/stats.json")
                pid = stats["pid"] if stats else None
            looks = {"the alert": lambda: alert(prometheus_port, label), "the page": lambda: page(port, label),
                     "stats_dump --doctor": lambda: doctor(os.path.join(build, "tools/stats_dump"), pid, label)}
            while looks and time.monotonic() - started < LIMIT:
                for name in list(looks):
                    said = looks[name]()
                    if said:
                        print(f"{time.monotonic() - started:5.1f} s  {name}: {said}", flush=True)
                        del looks[name]
                time.sleep(0.25)
            if looks:
                sys.exit(f"demo-leak: nothing within {LIMIT:.0f} s from {', '.join(looks)}")
        finally:
            os.killpg(run.pid, signal.SIGTERM)
            run.wait()
    print(f"demo-leak: {label} was named by all three within {LIMIT:.0f} s of the first leaked object")


if __name__ == "__main__":
    main()
