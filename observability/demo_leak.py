"""From the first leaked object to the answer: ten handlers, one leaks; how long until Prometheus's alert, the page and the
doctor name that handler, its class and its bytes? Then the same where nothing is ever closed: a cache in an epoch that stays
open, and domains that are not destroyed; how long until the page and the doctor name both labels? Fails if any takes 60
seconds or names another.
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
            if answer.returncode != 1 or f"`{label}`" not in line or "128-byte objects" not in line:
                sys.exit(f"demo-leak: stats_dump ends with {answer.returncode} and says {line}")
            return line
    return None


def open_page(port, label):
    stats = get(f"http://127.0.0.1:{port}/stats.json")
    found = {f["label"]: f["what"] for f in stats["findings"] if f["id"] == "leak"} if stats else {}
    if found.keys() - {"cache", label}:
        sys.exit(f"demo-leak: the page names {', '.join(found)}")
    return " ".join(found.values()) if len(found) == 2 else None


def open_doctor(tool, pid, label):
    answer = subprocess.run([tool, "doctor", str(pid)], capture_output=True, text=True, timeout=20)
    lines = [line for line in answer.stdout.splitlines() if " leaks " in line]
    for line in lines:
        if not any(f"`{name}`" in line for name in ("cache", label)):
            sys.exit(f"demo-leak: tslab doctor says {line}")
    return " ".join(lines) if len(lines) == 2 and answer.returncode == 1 else None


class Server:
    """The leaky server with an endpoint, a page in shared memory and a Prometheus."""
    limit = LIMIT

    def __init__(self, build, library, *arguments):
        self.port, self.prometheus_port = free_port(), free_port()
        command = [os.path.join(HERE, "run-observability.sh"), f"--port={self.port}", f"--prometheus-port={self.prometheus_port}",
                   os.path.join(build, "tools/leaky_server"), str(2 * self.limit), *arguments]
        self.log = tempfile.TemporaryFile()
        self.run = subprocess.Popen(command, env={**os.environ, "LIBTSLAB_HTTP": library, "TSLAB_SHM": "1"},
                                    stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True)

    def __enter__(self):
        if self.run.stdout.readline() != "leaks from now on\n":
            self.log.seek(0)
            said = self.log.read().decode()
            self.__exit__()
            sys.exit("demo-leak: the server did not start:\n" + said)
        self.started = time.monotonic()
        self.pid = None
        while self.pid is None and time.monotonic() - self.started < self.limit:
            stats = get(f"http://127.0.0.1:{self.port}/stats.json")
            self.pid = stats["pid"] if stats else None
        return self

    def wait_for(self, looks):
        while looks and time.monotonic() - self.started < self.limit:
            for name in list(looks):
                said = looks[name]()
                if said:
                    print(f"{time.monotonic() - self.started:5.1f} s  {name}: {said}", flush=True)
                    del looks[name]
            time.sleep(0.25)
        if looks:
            sys.exit(f"demo-leak: nothing within {self.limit:.0f} s from {', '.join(looks)}")

    def __exit__(self, *_):
        os.killpg(self.run.pid, signal.SIGTERM)
        self.run.wait()
        self.log.close()


def main():
    parser = argparse.ArgumentParser(prog="demo_leak.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="BUILD_DIR", help="such as build/release")
    parser.add_argument("leaking", nargs="?", metavar="LEAKING_HANDLER", choices=[str(n) for n in range(10)], default="7",
                        help="0 to 9; default 7")
    parser.add_argument("--limit", metavar="SECONDS", type=float, default=LIMIT, help="that each answer may take; 60")
    options = parser.parse_args()
    Server.limit = options.limit
    build, leaking = os.path.abspath(options.build), options.leaking
    label = f"handler:/api/{leaking}"
    library = os.path.join(build, "src/http/libtslab-http.so")
    dump, tslab = (os.path.join(build, "tools", name) for name in ("stats_dump", "tslab"))
    for path in (library, os.path.join(build, "tools/leaky_server"), dump, tslab):
        if not os.path.exists(path):
            sys.exit(f"demo-leak: {path} is missing (tools/setup.sh observability, then build)")
    if not shutil.which("prometheus"):
        sys.exit("demo-leak: prometheus is not installed (tools/setup.sh observability)")
    with Server(build, library, leaking) as s:
        s.wait_for({"the alert": lambda: alert(s.prometheus_port, label), "the page": lambda: page(s.port, label),
                    "stats_dump --doctor": lambda: doctor(dump, s.pid, label)})
    print(f"demo-leak: {label} was named by all three within {options.limit:.0f} s of the first leaked object")
    print("demo-leak: now nothing is ever closed", flush=True)
    with Server(build, library, leaking, "open") as s:
        s.wait_for({"the page": lambda: open_page(s.port, label), "tslab doctor": lambda: open_doctor(tslab, s.pid, label)})
    print(f"demo-leak: cache and {label} were named by both within {options.limit:.0f} s of the first leaked object")


if __name__ == "__main__":
    main()
