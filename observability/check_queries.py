"""Every query of the Grafana dashboard, and every recording rule, against a real Prometheus that scrapes the five request
patterns of synthetic_bench: each must return data. Left out are zones and NUMA nodes, which the patterns have none of.
"""

import argparse
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
PATTERNS = ("burst", "steady", "leak", "hotspot", "kernel")
ABSENT = ("temporal_slab_zones", "temporal_slab_node_")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def ask(port, query):
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as e:
        sys.exit(f"check_queries: {query}: {e.read().decode()}")
    except (urllib.error.URLError, OSError):
        return []


def queries():
    out = subprocess.run([sys.executable, "-B", os.path.join(HERE, "grafana/dashboard.py"), "--queries"], check=True,
                         capture_output=True, text=True).stdout.splitlines()
    with open(os.path.join(HERE, "rules.yml"), encoding="utf-8") as file:
        records = re.findall(r"- record: (\S+)", file.read())
    return [query for query in out + records if not any(name in query for name in ABSENT)]


def main():
    parser = argparse.ArgumentParser(prog="check_queries.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="BUILD_DIR", help="such as build/release")
    parser.add_argument("seconds", nargs="?", metavar="SECONDS", type=float, default=40.0,
                        help="within which all must have data; default 40")
    options = parser.parse_args()
    build, seconds = os.path.abspath(options.build), options.seconds
    if not 0 < seconds < math.inf:
        parser.error("SECONDS must be above 0")
    bench = os.path.join(build, "benchmarks/synthetic_bench")
    for path in (bench, os.path.join(build, "src/http/libtslab-http.so")):
        if not os.path.exists(path):
            sys.exit(f"check_queries: {path} is missing (tools/setup.sh observability, then build)")
    if not shutil.which("prometheus"):
        sys.exit("check_queries: prometheus is not installed (tools/setup.sh observability)")
    *ports, prometheus_port = free_ports(len(PATTERNS) + 1)
    running = []
    with tempfile.TemporaryDirectory() as work:
        try:
            for pattern, port in zip(PATTERNS, ports):
                env = {**os.environ, "TSLAB_HTTP": f"127.0.0.1:{port}", "TSLAB_SAMPLE": "100",
                       "TSLAB_BUDGET": "2G"}
                running.append(subprocess.Popen(
                    [bench, "--allocator=tslab", f"--pattern={pattern}", f"--duration_s={int(seconds) + 30}"], env=env,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            with open(os.path.join(HERE, "prometheus.yml"), encoding="utf-8") as file:
                config = file.read()
            targets = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
            config = config.replace('["127.0.0.1:9464"]', f"[{targets}]")
            with open(os.path.join(work, "prometheus.yml"), "w", encoding="utf-8") as file:
                file.write(config)
            shutil.copy(os.path.join(HERE, "rules.yml"), work)
            log = open(os.path.join(work, "log"), "w", encoding="utf-8")
            running.append(subprocess.Popen(
                ["prometheus", f"--config.file={work}/prometheus.yml", f"--storage.tsdb.path={work}/data",
                 f"--web.listen-address=127.0.0.1:{prometheus_port}", "--log.level=warn"], stdout=log, stderr=log))
            empty, end = queries(), time.monotonic() + seconds
            total = len(empty)
            while empty and time.monotonic() < end:
                time.sleep(1)
                empty = [q for q in empty if not ask(prometheus_port, q)]
            up = ask(prometheus_port, 'sum(up{job="temporal-slab"})')
            if not up or float(up[0]["value"][1]) != len(PATTERNS):
                sys.exit(f"check_queries: not all patterns are scraped: {up}")
            if empty:
                sys.exit(f"check_queries: without data after {seconds:.0f} s:\n  " + "\n  ".join(empty))
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait()
    print(f"check_queries: {total} queries return data from {len(PATTERNS)} patterns")


if __name__ == "__main__":
    main()
