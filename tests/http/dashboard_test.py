"""The dashboard in headless Chromium: it shows the findings, the figures and the epochs, and stays usable with 10,000 of
them. Arguments: HTTP_TARGET. Skipped (77) where there is no Chromium."""

import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

BROWSER = next((b for b in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if b), None)


def fail(what, dom=""):
    sys.exit(f"dashboard_test: {what}\n{dom[-3000:]}")


def dom_of(url, seconds, *options):
    with tempfile.TemporaryDirectory() as profile:
        answer = subprocess.run([BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                                 f"--virtual-time-budget={seconds * 1000}", "--dump-dom", *options, url],
                                capture_output=True, text=True, timeout=90)
    if "</html>" not in answer.stdout:
        fail("no page: " + answer.stderr[-2000:])
    return answer.stdout


class Nodes(http.server.BaseHTTPRequestHandler):
    """The server's answers, with rows of NUMA nodes that this machine has not."""
    upstream = ""
    rows = []
    ended = []

    def do_GET(self):
        try:
            with urllib.request.urlopen(self.upstream + self.path, timeout=20) as answer:
                status, kind, body = answer.status, answer.headers["Content-Type"], answer.read()
        except urllib.error.HTTPError as error:
            status, kind, body = error.code, "text/plain", b""
        if self.path.startswith("/stats.json"):
            stats = json.loads(body)
            stats["nodes"] = self.rows
            stats["ended"] = self.ended
            body = json.dumps(stats).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def check_nodes(port):
    Nodes.upstream = f"http://127.0.0.1:{port}"
    Nodes.rows = [{"node": 0, "committed_bytes": 3 << 20, "remote_frees_total": 1234},
                  {"node": 9, "committed_bytes": 1 << 20, "remote_frees_total": 0}]
    Nodes.ended = [{"label": "phase", "ended_for_ns": 12 * 10**9, "age_ns": 3 * 10**9, "returned_bytes": 5 << 20,
                    "rss_before_close": 80 << 20, "rss_after_close": 0}]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Nodes) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        dom = dom_of(f"http://127.0.0.1:{proxy.server_address[1]}/", 4)
        proxy.shutdown()
    section = re.search(r'<section id="nodes-section"(.*?)>.*?<tbody>(.*?)</tbody>', dom, re.S)
    cells = [re.findall(r"<td[^>]*>([^<]*)<", row) for row in section[2].split("</tr>")[:-1]]
    if "hidden" in section[1] or [row[0] for row in cells] != ["0", "9"]:
        fail(f"the nodes are not shown: {cells}", dom)
    if cells[0][2:4] != ["75 %", "1,234"] or cells[1][2:4] != ["25 %", "0"] or cells[0][1] == cells[1][1]:
        fail(f"the nodes' figures are not shown: {cells}", dom)
    if cells[0][4] != "0":
        fail(f"remote frees a second, of a number that stands still: {cells}", dom)
    section = re.search(r'<section id="ended-section"(.*?)>.*?<tbody>(.*?)</tbody>', dom, re.S)
    cells = re.findall(r"<td[^>]*>([^<]*)<", section[2])
    if "hidden" in section[1] or len(cells) != 6 or cells[0] != "phase" or "ago" not in cells[1] or cells[4] == "-" or cells[5] != "-":
        fail(f"the ended epoch is not shown: {cells}", dom)


def main():
    if not BROWSER:
        print("dashboard_test: no Chromium here")
        sys.exit(77)
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        def tell(what):
            program.stdin.write(what + "\n")
            program.stdin.flush()
            return program.stdout.readline().strip()

        try:
            program.stdout.readline()
            port = tell("start 127.0.0.1:0").split()[1]
            dom = dom_of(f"http://127.0.0.1:{port}/", 2)
            if "Nothing found yet" not in dom:
                fail("that nothing is found is not said", dom)
            if not re.search(r'id="domains-section" hidden', dom):
                fail("a tree of domains, of which there are none", dom)
            if not re.search(r'id="nodes-section" hidden', dom):
                fail("nodes, of which there are none", dom)
            check_nodes(port)
            if tell("domains") != "ok":
                fail("no domains")
            tell("fill 9989")
            time.sleep(11)  # a closed epoch with objects is a leak from ten seconds on
            dom = dom_of(f"http://127.0.0.1:{port}/", 6)
            for said in (f"process {program.pid} · up ", 'role="status" class="">live<', "cgroup limit", "<title>http_target "):
                if said not in dom:
                    fail(f"the head does not say: {said}", dom)
            if not re.search(r'class="finding warning".*?<code>phase "\d+" &lt;b&gt;</code> has held', dom, re.S):
                fail("it does not say what leaks", dom)
            if not re.search(r"id=\"epoch-count\"[^>]*>10,000<", dom):
                fail("the number of epochs is not shown", dom)
            rows = len(re.findall(r"<tr[^>]*>\s*<td class=\"label\"", dom))
            if not 10 <= rows <= 60:
                fail(f"{rows} rows exist; only those that are seen should", dom)
            figures = re.findall(r"<figure(.*?)><figcaption>([^<]*).*?</figure>", dom, re.S)
            shown = [name.strip() for attributes, name in figures if "hidden" not in attributes]
            if len(figures) != 5 or shown != ["Slabs by epoch label", "Memory", "Slow paths per second"]:
                fail(f"the charts that have something in them: {shown}", dom)
            if "Not shown, because there is nothing in them: timed operations (TSLAB_SAMPLE=N" not in dom:
                fail("it does not say which charts are not shown", dom)
            labels = re.search(r'<table id="labels">.*?</table>', dom, re.S)[0]
            if labels.count("<tr") != 16 or 'class="warning"' not in labels or "A minute" not in labels:
                fail("not a row for each of the fifteen labels", labels)
            if "What the columns say" not in dom or "By how much the live bytes" not in dom:
                fail("the columns are not explained", dom)
            history = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{port}/history.json", timeout=20).read())["points"]
            if len(history) < 5 or not all(a["taken_ns"] < b["taken_ns"] for a, b in zip(history, history[1:])):
                fail(f"a history of {len(history)} points")
            domains = re.search(r'<table id="domains">.*?</table>', dom, re.S)[0]
            names = re.findall(r'<td class="label" title="([^"]*)"', domains)
            if names != ["server", "request", "query"] or "× 5" not in domains or not re.search(r"\d+ % of 1\.0 MB", domains):
                fail(f"the tree of domains: {names}", domains)
            if "largest</span>" not in dom or "oldest</span>" not in dom:
                fail("the largest and the oldest epoch do not stand out", dom)
            if "29,977" not in dom:
                fail("the live objects are not shown", dom)
            if 'data-theme="dark"' not in dom_of(f"http://127.0.0.1:{port}/", 2, "--blink-settings=preferredColorScheme=0"):
                fail("the system's dark theme is not followed")
        finally:
            program.kill()
    print("dashboard_test: 10000 epochs shown")


if __name__ == "__main__":
    main()
