"""libtslab-http against good, bad and slow clients. Arguments: HTTP_TARGET LIBRARY TOOLS_DIR SOURCE_DIR."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from target import ENVIRONMENT, Target

TARGET, LIBRARY, TOOLS, SOURCE = sys.argv[1:5]


class Program(Target):
    def __init__(self, **environment):
        super().__init__(TARGET, **environment)

    def get(self, path, headers=None, method="GET", body=None, host="127.0.0.1"):
        c = http.client.HTTPConnection(host, self.port, timeout=20)
        try:
            c.request(method, path, body=body, headers=headers or {})
            answer = c.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            c.close()

    def raw(self, data, timeout=20):
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            got = b""
            while True:
                part = s.recv(65536)
                if not part:
                    return got
                got += part

    def __exit__(self, *_):
        try:  # by the end of its input, so that it ends as programs do
            self.process.stdin.close()
            self.process.wait(timeout=10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except BrokenPipeError:
                pass


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = Program()
        cls.program.start()
        cls.program.tell("fill 400")

    @classmethod
    def tearDownClass(cls):
        cls.program.__exit__()

    def get(self, path, status=200, **more):
        got, headers, body = self.program.get(path, **more)
        self.assertEqual(got, status, body)
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        return headers, body

    def test_metrics(self):
        headers, body = self.get("/metrics")
        self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        text = body.decode()
        self.assertIn("\ntemporal_slab_epochs{label=\"phase \\\"0\\\" <b>\",state=\"active\"} ", text)
        for name in ("epoch_age_seconds", "epoch_estimated_rss_bytes", "epoch_live_objects", "madvise_calls_total",
                     "madvise_bytes_total", "madvise_failures_total", "slow_path_hits_total", "slabs_allocated_total",
                     "slabs_recycled_total", "rss_bytes"):
            self.assertRegex(text, rf"(?m)^temporal_slab_{name}(\{{[^\n]*\}})? [0-9.]+$")
        promtool = shutil.which("promtool")
        if promtool:
            answer = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=30)
            self.assertEqual((answer.returncode, answer.stdout + answer.stderr), (0, ""))

    def test_openmetrics_by_negotiation(self):
        prometheus = ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                      "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
        for accept, is_open in ((prometheus, True), ("application/openmetrics-text", True), ("*/*", False), ("", False),
                                ("text/plain, application/openmetrics-text;q=0.5", False), ("text/html", False),
                                ("application/openmetrics-text; q=0, */*", False), (",;q=,,;", False)):
            headers, body = self.get("/metrics", headers={"Accept": accept})
            self.assertEqual(headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0"), is_open, accept)
            self.assertEqual(body.endswith(b"\n# EOF\n"), is_open)

    def test_json(self):
        headers, body = self.get("/stats.json")
        self.assertEqual(headers["Content-Type"], "application/json")
        stats = json.loads(body)
        self.assertEqual(stats["global"]["live_objects"], 1200)
        self.assertEqual((stats["global"]["active_epoch_count"], stats["global"]["closing_epoch_count"]), (300, 100))
        self.assertEqual(len(stats["labels"]), 12)

    def test_epochs(self):
        for query, rows in (("", 100), ("?limit=0", 0), ("?limit=7", 7), ("?limit=10000", 400), ("?sort=age&limit=3", 3),
                            ("?sort=bytes&limit=1", 1)):
            answer = json.loads(self.get("/epochs.json" + query)[1])
            self.assertEqual((answer["epoch_count"], len(answer["epochs"])), (400, rows))
        ages = [e["age_ns"] for e in json.loads(self.get("/epochs.json?sort=age&limit=400")[1])["epochs"]]
        since = [e["open_since_ns"] for e in json.loads(self.get("/epochs.json?sort=age&limit=400")[1])["epochs"]]
        self.assertEqual(since, sorted(since))
        self.assertEqual(len(ages), 400)
        sizes = [e["slab_count"] for e in json.loads(self.get("/epochs.json?limit=400")[1])["epochs"]]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        for query, said in (("limit=-1", b"limit"), ("limit=x", b"limit"), ("limit=10001", b"limit"), ("limit=", b"limit"),
                            ("limit=99999999999999999999", b"limit"), ("sort=size", b"sort"), ("sort=", b"sort")):
            self.assertIn(said, self.get("/epochs.json?" + query, status=400)[1])

    def test_stacks(self):
        for path, kind in (("/stacks.json", "application/json"), ("/stacks.txt", "text/plain; charset=utf-8")):
            headers, body = self.get(path)
            self.assertEqual(headers["Content-Type"], kind)
        self.assertTrue(body.startswith(b"stacks are not sampled"))
        self.assertEqual(json.loads(self.get("/stacks.json")[1]), json.loads(self.get("/stats.json")[1])["stacks"])
        p = Program(TSLAB_SAMPLE_STACKS="1")
        self.addCleanup(p.__exit__)
        p.start()
        p.tell("fill 24")
        stacks = json.loads(p.get("/stacks.json")[2])
        self.assertEqual(sum(s["samples"] for s in stacks["sites"]), 72)
        self.assertEqual({s["label"] for s in stacks["sites"]}, {f"phase \"{i}\" <b>" for i in range(12)})
        self.assertTrue(all(m["path"].startswith("/") for m in stacks["modules"]))
        text = p.get("/stacks.txt")[2].decode()
        self.assertIn("http_target+0x", text)

    def test_words(self):
        self.assertEqual(self.get("/healthz")[1], b"ok\n")
        self.assertTrue(self.get("/stats.txt")[1].startswith(b"temporal-slab: 1200 live objects"))
        # The closed phases hold objects: a leak as soon as ten seconds have gone by.
        self.assertRegex(self.get("/doctor.txt")[1], rb"^(nothing found|1\. warning: `phase )")

    def test_dashboard(self):
        headers, body = self.get("/")
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertNotIn(b"://", body)
        for path in ("/app.js", "/style.css", "/uPlot.js", "/uPlot.css"):
            self.assertIn(f'"{path}"'.encode(), body)
            self.assertGreater(len(self.get(path)[1]), 500)
        with open(os.path.join(SOURCE, "src/http/assets/app.js"), "rb") as file:
            self.assertEqual(self.get("/app.js")[1], file.read())

    def test_a_path_that_there_is_not_is_told_those_that_there_are(self):
        said = self.get("/nothing", status=404)[1].decode()
        self.assertTrue(said.startswith("not found; there are /, ") and said.endswith("\n"), said)
        paths = said.removeprefix("not found; there are ").strip().split(", ")
        profiles = ["/debug/pprof/allocs", "/debug/pprof/heap"]
        self.assertEqual(sorted(paths), ["/", *profiles, "/debug/pprof/symbol", "/doctor.txt", "/epochs.json", "/functions.json",
                                         "/healthz", "/history.json", "/metrics", "/process.json", "/stacks.json",
                                         "/stacks.txt", "/stats.json", "/stats.txt", "/view"])
        for path in set(paths) - set(profiles):
            self.get(path)
        for path in profiles:
            status, _, body = self.program.get(path)
            if status != 200:  # it was built without
                self.assertEqual((status, body), (501, b"libtslab-http was built without libprotobuf-c and zlib\n"))
        self.get("/debug/pprof/symbol", method="POST", body="0x1+0x2")

    def test_head(self):
        headers, body = self.get("/metrics", method="HEAD")
        self.assertEqual(body, b"")
        self.assertGreater(int(headers["Content-Length"]), 1000)

    def test_bad_requests(self):
        for method in ("POST", "PUT", "DELETE", "BREW"):
            headers, _ = self.get("/metrics", status=405, method=method, body="x" * 100000)
            self.assertEqual(headers["Allow"], "GET, HEAD")
        for path in ("/metric", "/stats.json/", "//", "/../etc/passwd", "/%2e%2e/", "/" + "a" * 4000, "/%00", "/%00x",
                     "/metrics%00", "/stats.json%00?limit=1"):
            self.get(path, status=404)
        self.assertIn(b"limit", self.get("/epochs.json?limit=1%00", status=400)[1])
        self.assertEqual(self.get("/%6detrics")[0]["Content-Type"].split(";")[0], "text/plain")
        for data in (b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00\xff\xfe" * 100 + b"\r\n\r\n",
                     b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                     b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20000 + b"\r\n"):
            try:
                answer = self.program.raw(data, timeout=15)
            except OSError:  # cut off in the middle
                answer = b""
            self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1."), answer[:80])
            self.assertNotIn(b" 200 ", answer.split(b"\r\n")[0])
        self.assertEqual(self.get("/healthz")[1], b"ok\n")

    def test_slow_clients_keep_nobody_waiting(self):
        slow = []
        for _ in range(30):
            s = socket.create_connection(("127.0.0.1", self.program.port))
            s.sendall(b"GET /metrics HT")
            slow.append(s)
        reader = socket.create_connection(("127.0.0.1", self.program.port))
        reader.sendall(b"GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)  # and takes nothing
        started = time.time()
        for _ in range(5):
            self.assertEqual(self.get("/healthz")[1], b"ok\n")
        self.assertLess(time.time() - started, 5)
        slow[0].settimeout(25)
        self.assertIn(slow[0].recv(100)[:8], (b"", b"HTTP/1.1"))  # cut off, or told so
        for s in slow + [reader]:
            s.close()

    def test_many_at_once(self):
        errors = []

        def scrape():
            try:
                for _ in range(10):
                    self.assertEqual(self.program.get("/metrics")[0], 200)
            except Exception as e:  # noqa: BLE001
                errors.append(e)

        threads = [threading.Thread(target=scrape) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])

    def test_tools(self):
        if not os.path.exists(os.path.join(TOOLS, "stats_dump")):
            self.skipTest("the tools are not built")
        url = f"http://127.0.0.1:{self.program.port}"

        def run(*command):
            return subprocess.run(command, capture_output=True, text=True, timeout=30, env=ENVIRONMENT)

        dump = os.path.join(TOOLS, "stats_dump")
        self.assertEqual(json.loads(run(dump, "--json", url).stdout)["global"]["live_objects"], 1200)
        self.assertTrue(run(dump, url + "/").stdout.startswith("temporal-slab: 1200 live"))
        self.assertIn("temporal_slab_rss_bytes ", run(dump, "--prometheus", url).stdout)
        self.assertTrue(run(dump, "--openmetrics", url).stdout.endswith("# EOF\n"))
        doctor = run(dump, "--doctor", url)
        self.assertEqual(doctor.returncode, 1 if doctor.stdout.startswith("1. warning: `phase ") else 0, doctor.stdout)
        top = run(os.path.join(TOOLS, "tslab"), "top", url)
        self.assertEqual((top.returncode, top.stderr), (0, ""))
        self.assertIn('phase "3" <b>', top.stdout)


class SeveralAllocators(unittest.TestCase):
    def test_all_are_shown_and_one_can_be_chosen(self):
        with Program() as p:
            p.start("with localhost")
            p.tell("fill 10")
            p.tell("second")
            default, created = {"number": 0, "name": "default"}, {"number": 1, "name": "created"}
            get = lambda path: json.loads(p.get(path)[2])
            stats = get("/stats.json")
            self.assertEqual([a["allocator"] for a in stats["allocators"]], [default, created])
            self.assertEqual(stats["global"]["live_objects"], 5030)
            self.assertEqual({l["label"]: l["allocator"] for l in stats["labels"]}["second"], created)
            self.assertEqual({l["label"]: l["allocator"] for l in stats["labels"]}['phase "0" <b>'], default)
            self.assertEqual(get("/stats.json?allocator=0")["global"]["live_objects"], 30)
            epochs = get("/epochs.json")
            self.assertEqual(epochs["epoch_count"], 11)
            self.assertEqual({e["label"]: e["allocator"] for e in epochs["epochs"]}["second"], created)
            self.assertEqual(get("/epochs.json?allocator=1")["epoch_count"], 1)
            text = p.get("/stats.txt")[2].decode()
            self.assertIn("allocator 0 (default)\ntemporal-slab: 30 live", text)
            self.assertIn("allocator 1 (created)\ntemporal-slab: 5000 live", text)
            self.assertIn("nothing found yet in allocator 0 (default), watched", p.get("/doctor.txt")[2].decode())
            self.assertIn('label="second"', p.get("/metrics")[2].decode())  # that which holds most
            self.assertNotIn('label="second"', p.get("/metrics?allocator=0")[2].decode())
            for wrong in ("2", "", "x", "-1", "99999", "123456"):
                status, _, said = p.get("/stats.json?allocator=" + wrong)
                self.assertEqual((status, said), (400, b"allocator: not the number of one, from 0\n"), wrong)
            history = self.history(p, stats["global"]["live_bytes"])
            self.assertEqual(history["labels"][0]["label"], "second")
            self.assertEqual(len(history["labels"]), 8)
            self.tools(f"http://127.0.0.1:{p.port}")

    def history(self, p, live_bytes):
        """Its newest point, which may first be of a moment at which the program was filling the second."""
        for _ in range(200):
            point = json.loads(p.get("/history.json")[2])["points"][-1:]
            if point and point[0]["labels"] and point[0]["labels"][0]["label"] == "second" \
                    and point[0]["global"]["live_bytes"] == live_bytes:
                return point[0]
            time.sleep(0.1)
        self.fail("no history of the second allocator")

    def tools(self, url):
        tslab = os.path.join(TOOLS, "tslab")
        if not os.path.exists(tslab):
            return
        run = lambda *command: subprocess.run(command, capture_output=True, text=True, timeout=30, env=ENVIRONMENT)
        top = run(tslab, "top", url)
        self.assertEqual(top.returncode, 0, top.stderr)
        self.assertRegex(top.stdout, r"(?m)^second .* 1 created$")
        self.assertNotIn("phase", run(tslab, "top", "--allocator=1", url).stdout)
        self.assertEqual(run(tslab, "top", "--allocator=2", url).returncode, 2)
        self.assertEqual(json.loads(run(tslab, "stats", "--json", "--allocator=0", url).stdout)["global"]["live_objects"], 30)
        self.assertIn("not the number of one", run(tslab, "doctor", "--allocator=2", url).stderr)


OWN = r"""# HELP jobs%(total)s Jobs.
# TYPE jobs%(total)s counter
jobs_total{kind="x",queue="a"} 0
jobs_total{kind="\"q\"\\\n?ä",queue="b"} 7
# HELP plain A plain one.
# TYPE plain gauge
plain 0.125
# HELP odd Says %(q)sodd%(q)s,\\ in\ntwo lines.
# TYPE odd gauge
odd{v="nan"} NaN
odd{v="inf"} +Inf
odd{v="-inf"} -Inf
odd{v="large"} 1.0000000000000001e+300
odd{v="long"} 12345678901234568
odd{v="minus"} -3
odd{v="half"} 6.5
# HELP called_back 0.
# TYPE called_back gauge
called_back 0
"""


class OfTheProgram(unittest.TestCase):
    """slab_http_metric_add and slab_http_metric_remove."""

    def test_what_is_refused(self):
        with Program() as p:
            self.assertEqual(p.tell("metrics refused"), "ok")
            p.start()
            self.assertEqual(p.tell("metrics refused"), "ok")

    def test_both_formats(self):
        # With a comma for the point too, where there is such a locale.
        german = "de_DE.utf8" in subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.split()
        for environment in ({}, {"LC_ALL": "de_DE.UTF-8"}) if german else ({},):
            with Program(**environment) as p:
                self.assertEqual(p.tell("metrics add"), "ok")  # before the server runs
                p.start()
                before = p.get("/metrics")[2].decode()
                self.assertTrue(before.endswith("\n" + OWN % {"total": "_total", "q": '"'}), before[-2000:])
                self.assertIn("\ntemporal_slab_rss_bytes ", before)
                if shutil.which("promtool"):
                    answer = subprocess.run(["promtool", "check", "metrics"], input=before, capture_output=True, text=True)
                    self.assertEqual((answer.returncode, answer.stdout + answer.stderr), (0, ""))
                accept = {"Accept": "application/openmetrics-text"}
                opened = p.get("/metrics", headers=accept)[2].decode()
                self.assertTrue(opened.endswith("\n" + OWN % {"total": "", "q": '\\"'} + "# EOF\n"), opened[-2000:])
                self.assertEqual(opened.count("# EOF"), 1)
                self.assertEqual(p.tell("metrics remove"), "ok")
                self.assertNotIn("jobs_total", p.get("/metrics")[2].decode())
                self.assertTrue(p.get("/metrics", headers=accept)[2].endswith(b"\n# EOF\n"))

    def test_stay_over_a_stop_and_in_a_child_of_fork(self):
        with Program() as p:
            p.start()
            self.assertEqual(p.tell("metrics add"), "ok")
            self.assertEqual(p.tell("stop"), "true")
            p.start()
            self.assertIn(b'\njobs_total{kind="x",queue="a"} 0\n', p.get("/metrics")[2])
            port, child = map(int, p.tell("fork serve").split())
            try:
                p.port = port
                self.assertIn(b'\njobs_total{kind="x",queue="a"} 0\n', p.get("/metrics")[2])
                self.assertEqual(json.loads(p.get("/stats.json")[2])["pid"], child)
            finally:
                os.kill(child, signal.SIGKILL)

    def test_removed_while_scraped(self):
        with Program() as p:
            p.start()
            seen, stop = [], threading.Event()

            def scrape():
                while not stop.is_set():
                    seen.append(p.get("/metrics")[2].count(b"\nchurn{"))

            thread = threading.Thread(target=scrape)
            thread.start()
            self.assertEqual(p.tell("metrics churn"), "ok")
            stop.set()
            thread.join()
            self.assertLessEqual(max(seen), 2)
            self.assertEqual(p.get("/healthz")[0], 200)


def is_known(host):
    """Not in a root directory without /etc/hosts."""
    try:
        return bool(socket.getaddrinfo(host, None))
    except socket.gaierror:
        return False


class Life(unittest.TestCase):
    def test_addresses(self):
        with Program() as p:
            for address in ("", ":", "x", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:9x", "::1:80",
                            "[::1:80", "no.such.host.invalid:80", "256.1.1.1:80", "a" * 300 + ":80"):
                self.assertEqual(p.tell("start " + address), "EINVAL", address)
            for address in ("0", ":0", "127.0.0.1:0") + (("localhost:0",) if is_known("localhost") else ()):
                p.start(address)
                # A name can be of an address of IPv6 first.
                host = "localhost" if address.startswith("localhost") else "127.0.0.1"
                self.assertEqual(p.get("/healthz", host=host)[0], 200)
                self.assertEqual(p.tell("stop"), "true")
            # Loopback unless told otherwise.
            port = p.start("0")
            self.assertIn(f"127.0.0.1:{port} ", sockets_of(p.process.pid))

    def test_start_and_stop_twice(self):
        with Program() as p:
            self.assertEqual((p.tell("stop"), p.tell("port")), ("false", "0"))
            port = p.start()
            self.assertEqual(p.tell("start 127.0.0.1:0"), "EALREADY")
            self.assertEqual(p.get("/healthz")[0], 200)
            self.assertEqual(p.tell("stop"), "true")
            self.assertEqual(p.tell("stop"), "false")
            with self.assertRaises(ConnectionError):
                p.get("/healthz")
            p.start(f"127.0.0.1:{port}")  # the same again
            self.assertEqual(p.get("/healthz")[0], 200)

    def test_port_taken(self):
        with Program() as one, Program() as two:
            port = one.start()
            self.assertEqual(two.tell(f"start 127.0.0.1:{port}"), "EADDRINUSE")
            self.assertEqual(two.tell("port"), "0")
            two.start()
            self.assertEqual(two.get("/healthz")[0], 200)

    def test_stop_while_scraped(self):
        with Program() as p:
            p.tell("fill 2000")
            port = p.start()
            stop, answers, broken = threading.Event(), [], []

            def scrape():
                while not stop.is_set():
                    try:
                        answers.append(p.get("/stats.json"))
                    except (OSError, http.client.HTTPException) as e:
                        broken.append(e)
                        time.sleep(0.01)

            threads = [threading.Thread(target=scrape) for _ in range(4)]
            for t in threads:
                t.start()
            for _ in range(5):
                time.sleep(0.3)
                self.assertEqual(p.tell("stop"), "true")
                p.start(f"127.0.0.1:{port}")
            stop.set()
            for t in threads:
                t.join()
            self.assertGreater(len(answers), 5)
            for status, _, body in answers:
                self.assertEqual(status, 200)
                json.loads(body)
            self.assertEqual(p.get("/healthz")[0], 200)

    def test_a_child_of_fork_lets_go_of_the_port(self):
        with Program() as p:
            port = p.start()
            child = int(p.tell("fork"))
            try:
                self.assertEqual(p.get("/healthz")[0], 200)
                self.assertEqual(p.tell("stop"), "true")
                time.sleep(0.2)
                with Program() as other:
                    self.assertEqual(other.tell(f"start 127.0.0.1:{port}"), f"ok {port}")
            finally:
                os.kill(child, signal.SIGTERM)

    def test_ends_with_the_last_thread_of_the_program(self):
        with Program() as p:
            p.start()
            self.assertEqual(p.tell("fork last"), "0")
            self.assertEqual(p.get("/healthz")[0], 200)
            self.assertEqual(p.tell("last"), "over")
            self.assertEqual(p.process.wait(60), 0)

    def test_a_number_that_the_program_has_taken_stays_its_own(self):
        with Program() as p:
            p.start()
            self.assertEqual(p.tell("fork reused"), "yes")

    def test_by_environment(self):
        with Program(TSLAB_HTTP="127.0.0.1:0") as p:
            p.port = int(p.tell("port"))
            p.tell("fill 10")
            self.assertEqual(json.loads(p.get("/stats.json")[2])["global"]["live_objects"], 30)
        with Program(TSLAB_HTTP="nonsense") as p:
            self.assertEqual(p.tell("port"), "0")
            p.process.stdin.close()
            self.assertEqual(p.process.stderr.read(), 'tslab: TSLAB_HTTP="nonsense": Invalid argument\n')

    def test_preloaded_into_a_program_that_knows_nothing_of_it(self):
        plain = os.path.join(TOOLS, "tools_target")
        if not os.path.exists(plain):
            self.skipTest("the tools are not built")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        env = {**ENVIRONMENT, "LD_PRELOAD": LIBRARY, "TSLAB_HTTP": f"127.0.0.1:{port}"}
        with subprocess.Popen([plain], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
            self.assertEqual(p.stdout.readline(), "ready\n")
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            c.request("GET", "/stats.json")
            self.assertEqual(json.loads(c.getresponse().read())["labels"][0]["label"], "handler:/api/7")
            p.stdin.close()


def sockets_of(pid):
    """The listening sockets of a process, as "ADDRESS:PORT " each."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        link = os.readlink(f"/proc/{pid}/fd/{fd}")
        if link.startswith("socket:["):
            inodes.add(link[8:-1])
    out = ""
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as table:
        for line in table.readlines()[1:]:
            words = line.split()
            if words[9] in inodes and words[3] == "0A":
                address, port = words[1].split(":")
                out += socket.inet_ntoa(bytes.fromhex(address)[::-1]) + f":{int(port, 16)} "
    return out


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
