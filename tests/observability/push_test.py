"""push-metrics.sh with a real pushgateway. Arguments: BUILD_DIR SOURCE_DIR. Skipped (77) where there is no pushgateway (Debian:
prometheus-pushgateway), curl or libtslab-http."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from servers import free_ports, get, wait_for

BUILD, SOURCE = (os.path.abspath(a) for a in sys.argv[1:3])
SCRIPT = os.path.join(SOURCE, "observability/push-metrics.sh")
DUMP = os.path.join(BUILD, "tools/stats_dump")
BENCH = os.path.join(BUILD, "benchmarks/synthetic_bench")
GATEWAY = next((p for p in map(shutil.which, ("prometheus-pushgateway", "pushgateway")) if p), None)
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_") and "proxy" not in k.lower()}


def push(*arguments):
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=300, check=False,
                          env={**ENVIRONMENT, "STATS_DUMP": DUMP})


class Gateway(unittest.TestCase):
    def setUp(self):
        port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}"
        self.log = tempfile.TemporaryFile()
        self.gateway = subprocess.Popen([GATEWAY, f"--web.listen-address=127.0.0.1:{port}"], stdout=self.log, stderr=self.log)
        self.started = [self.gateway]
        self.addCleanup(self.end)
        wait_for(lambda: get(self.url + "/-/ready") is not None)

    def end(self):
        for process in self.started:
            process.kill()
            process.wait()
        self.log.close()

    def run_leak(self, seconds):
        """The leak pattern with a page and an endpoint: its URL, its process."""
        port = free_ports(1)[0]
        bench = subprocess.Popen([BENCH, "--pattern=leak", f"--duration_s={seconds}"], stdout=subprocess.DEVNULL,
                                 env={**ENVIRONMENT, "TSLAB_SHM": "1", "TSLAB_HTTP": f"127.0.0.1:{port}"})
        self.started.append(bench)
        wait_for(lambda: "leaked_total" in (get(f"http://127.0.0.1:{port}/metrics") or ""))
        wait_for(lambda: 'state="closing"' in subprocess.run([DUMP, "--prometheus", str(bench.pid)], capture_output=True, text=True,
                                                             timeout=300, check=False).stdout)
        return f"http://127.0.0.1:{port}", bench

    def value(self, name, labels):
        for line in get(self.url + "/metrics").splitlines():
            if line.startswith(name + "{" + labels + "} "):
                return float(line.split()[-1])
        return None

    def test_of_a_url_and_of_a_pid(self):
        url, bench = self.run_leak(20)
        for arguments, labels in (((self.url + "/", "web", url), 'instance="",job="web"'),
                                  ((self.url, "by-pid", str(bench.pid)), 'instance="",job="by-pid"'),
                                  (("--instance=host:1", self.url, "web", url), 'instance="host:1",job="web"')):
            answer = push(*arguments)
            self.assertEqual((answer.returncode, answer.stdout, answer.stderr), (0, "", ""))
            self.assertGreater(self.value("temporal_slab_rss_bytes", labels), 1e6)
        self.assertGreater(self.value("benchmark_objects_leaked_total",
                                      'allocator="tslab",instance="",job="web",pattern="leak"'), 0)
        self.assertGreater(self.value("temporal_slab_epoch_live_objects",
                                      'instance="",job="by-pid",label="req",state="closing"'), 0)

    def test_every_second_until_the_program_ends(self):
        url, bench = self.run_leak(4)
        script = subprocess.Popen([SCRIPT, "--every=1", self.url, "again", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**ENVIRONMENT, "STATS_DUMP": DUMP}, text=True)
        self.started.append(script)
        labels = 'allocator="tslab",instance="",job="again",pattern="leak"'
        seen = set()
        while script.poll() is None:
            seen.add(self.value("benchmark_objects_leaked_total", labels))
            time.sleep(0.2)
        out, err = script.communicate()
        self.assertEqual((script.returncode, out, err), (0, "", ""))
        self.assertGreaterEqual(len(seen - {None}), 3)
        self.assertIsNotNone(bench.poll())

    def test_what_goes_wrong(self):
        url, bench = self.run_leak(10)
        answer = push(f"http://127.0.0.1:{free_ports(1)[0]}", "web", url)
        self.assertEqual(answer.returncode, 7)  # curl's
        self.assertIn("curl: (7)", answer.stderr)
        bench.kill()
        bench.wait()
        answer = push(self.url, "web", url)
        self.assertEqual(answer.returncode, 3)
        self.assertIn("Connection refused", answer.stderr)
        self.assertIsNone(self.value("temporal_slab_rss_bytes", 'instance="",job="web"'))


class Demonstration(unittest.TestCase):
    def begin(self, *arguments):
        run = subprocess.Popen([SCRIPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={
            **ENVIRONMENT, "STATS_DUMP": DUMP, "SYNTHETIC_BENCH": BENCH,
            "LIBTSLAB_HTTP": os.path.join(BUILD, "src/http/libtslab-http.so")})
        self.addCleanup(run.kill)
        return run

    def test_without_arguments(self):
        """It starts a gateway and the five patterns, pushes, and leaves nothing."""
        port, gateway = free_ports(2)
        run = self.begin(f"--port={port}", f"--gateway-port={gateway}", "--pattern-seconds=1")
        pushed = 'temporal_slab_rss_bytes{instance="pushed",job="temporal-slab"}'
        wait_for(lambda: pushed in (get(f"http://127.0.0.1:{gateway}/metrics") or ""))
        out, err = run.communicate(timeout=300)
        self.assertEqual(run.returncode, 0, err)
        self.assertEqual(len(out.splitlines()), 5)
        self.assertIsNone(get(f"http://127.0.0.1:{gateway}/-/ready"))
        self.assertIsNone(get(f"http://127.0.0.1:{port}/healthz"))

    def test_ends_at_a_signal(self):
        port, gateway = free_ports(2)
        run = self.begin(f"--port={port}", f"--gateway-port={gateway}", "--pattern-seconds=300")
        wait_for(lambda: "pushed" in (get(f"http://127.0.0.1:{gateway}/metrics") or ""))
        run.terminate()
        run.communicate(timeout=300)
        self.assertEqual(run.returncode, 143)
        self.assertIsNone(get(f"http://127.0.0.1:{gateway}/-/ready"))
        self.assertIsNone(get(f"http://127.0.0.1:{port}/healthz"))


class Usage(unittest.TestCase):
    def test_usage(self):
        for arguments, code, said in ((("--help",), 0, "usage"), (("--every=1",), 2, "usage"), (("http://x", "a", "b", "c"), 2, "usage"),
                                      (("--port=x",), 2, "'--port=x': a number"),
                                      (("x",), 2, "'x' is no URL"), (("http://",), 2, "is no URL"),
                                      (("http://x", "a/b"), 2, "'a/b'"), (("--every=0", "http://x"), 2, "'--every=0'"),
                                      (("--every=a", "http://x"), 2, "'--every=a'"), (("--instance=", "http://x"), 2, "'--instance='"),
                                      (("--instance=a/b", "http://x"), 2, "'--instance=a/b'"), (("--evry=1", "http://x"), 2, "'--evry=1'")):
            answer = push(*arguments)
            self.assertEqual(answer.returncode, code, arguments)
            self.assertIn(said, answer.stderr)
            self.assertEqual(answer.stdout, "")


if __name__ == "__main__":
    if not GATEWAY or not shutil.which("curl") or not os.path.exists(os.path.join(BUILD, "src/http/libtslab-http.so")):
        print("push_test: no pushgateway, curl or libtslab-http here (tools/setup.sh observability)")
        sys.exit(77)
    if not os.path.exists(BENCH) or not os.path.exists(DUMP):
        print("push_test: the workloads or the tools are not built")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]])
