#!/usr/bin/env python3
"""tslab run redis-server, without a word of configuration: its page, its label, the doctor, the holders of memory, and over HTTP. Arguments:
DIRECTORY OF THE TOOLS, HTTP LIBRARY or -. Skipped (77) where there is no Redis."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from listening import port_of

TOOLS, HTTP = os.path.abspath(sys.argv[1]), sys.argv[2]
TSLAB = os.path.join(TOOLS, "tslab")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_") and k != "LD_PRELOAD"}


def tslab(*arguments):
    return subprocess.run([TSLAB, *arguments], capture_output=True, text=True, timeout=60, env=ENVIRONMENT, check=False)


class Redis:
    """A server with 40 MB of values, its socket in a directory of its own. redis-server gets the directory alone, and no option on memory."""

    def __init__(self, *options):
        self.directory = tempfile.TemporaryDirectory(prefix="tslab_redis.")
        self.socket = os.path.join(self.directory.name, "socket")
        self.process = subprocess.Popen([TSLAB, "run", *options, "redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "",
                                         "--dir", self.directory.name], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)

    def __enter__(self):
        deadline = time.monotonic() + 30
        while self.cli("ping") != "PONG":
            assert time.monotonic() < deadline and self.process.poll() is None, "redis-server does not answer"
            time.sleep(0.05)
        assert self.cli("eval", "for i = 1, 40000 do redis.call('set', 'k' .. i, string.rep('v', 1000)) end return 'set'", "0") == "set"
        return self

    def __exit__(self, *unused):
        self.cli("shutdown", "nosave")
        self.process.communicate(timeout=60)
        self.directory.cleanup()

    def cli(self, *arguments):
        return subprocess.run(["redis-cli", "-s", self.socket, *arguments], capture_output=True, text=True, timeout=60, check=False).stdout.strip()

    def stats(self):
        """When they have the new values: the page is as old as its last moment."""
        deadline = time.monotonic() + 30
        while True:
            stats = json.loads(tslab("stats", "--json", str(self.process.pid)).stdout)
            if stats["global"]["live_bytes"] > 40e6 or time.monotonic() > deadline:
                return stats
            time.sleep(0.2)


class Shown(unittest.TestCase):
    def test_without_a_word(self):
        with Redis() as redis:
            pid, stats = str(redis.process.pid), redis.stats()
            top, doctor = tslab("top", "--batch", pid), tslab("doctor", pid)
            self.assertEqual(redis.cli("dbsize"), "40000")
        self.assertEqual(redis.process.returncode, 0)
        self.assertEqual([label["label"] for label in stats["labels"]], ["malloc"])
        self.assertGreater(stats["global"]["live_bytes"], 40e6)
        self.assertEqual(stats["global"]["rejected_frees_total"], 0)
        self.assertEqual((top.returncode, top.stderr), (0, ""))
        self.assertRegex(top.stdout, r"(?m)^malloc +1 ")
        self.assertRegex(top.stdout, r"(?m)^ +\d\d\.\d MB +\d+  redis-server$")
        self.assertIn(doctor.returncode, (0, 1), doctor.stderr)
        self.assertRegex(doctor.stdout, r"who holds what, estimated from \d+ samples")
        self.assertRegex(doctor.stdout, r"about \d\d\.\d MB in ")
        self.assertEqual(stats["holders"]["threads"][0]["name"], "redis-server")
        self.assertGreater(stats["holders"]["threads"][0]["live_bytes"], 15e6)
        self.assertTrue(stats["holders"]["functions"])

    @unittest.skipIf(HTTP == "-", "there is no libtslab-http")
    def test_serves(self):
        with Redis("--http", "127.0.0.1:0") as redis:
            address = f"http://127.0.0.1:{port_of(redis.process.pid)}"
            page, metrics, doctor = (urllib.request.urlopen(address + path, timeout=20).read().decode() for path in ("/", "/metrics", "/doctor.txt"))
            stats = json.loads(urllib.request.urlopen(address + "/stats.json", timeout=20).read())
        self.assertIn("Who holds what", page)
        self.assertRegex(metrics, r'temporal_slab_\w+\{[^}]*label="malloc"')
        self.assertIn("who holds what, estimated from ", doctor)
        self.assertEqual(stats["holders"]["threads"][0]["name"], "redis-server")


if __name__ == "__main__":
    lacking = [program for program in ("redis-server", "redis-cli") if not shutil.which(program)]
    if lacking:
        print("redis_test: skipped, there is no", ", ".join(lacking))
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
