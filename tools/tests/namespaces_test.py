"""The tools beside processes of other PID and time namespaces. Arguments: BUILD_DIR."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

from page import settle

BUILD = sys.argv[1]
DUMP, TSLAB, TARGET = (os.path.join(BUILD, name) for name in ("stats_dump", "tslab", "tools_target"))
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_")}
OWN_PIDS = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
OWN_CLOCK = ("unshare", "--time", "--monotonic", "100000", "--pid", "--fork", "--mount-proc", "--kill-child")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)


def is_permitted(namespace):
    try:
        return run(*namespace, "true").returncode == 0
    except FileNotFoundError:
        return False


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return f.read().split()


class Program:
    """tools_target in namespaces of its own, ready; `pid` is its id out here."""

    def __init__(self, namespace):
        self.process = subprocess.Popen([*namespace, TARGET], env={**ENVIRONMENT, "TSLAB_SHM": "1"}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        (self.pid,) = children_of(self.process.pid)

    def tell(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate(timeout=300)


class OfItsOwn(unittest.TestCase):
    def check(self, *command, pid):
        settle(TSLAB, pid)
        answer = run(*command)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.assertIn(f"process {pid} ", answer.stdout.splitlines()[0])

    def test_pids(self):
        with Program(OWN_PIDS) as p:
            settle(TSLAB, p.pid)
            answer = run(DUMP, "--json", p.pid)
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))
            stats = json.loads(answer.stdout)
            self.assertEqual((stats["pid"], stats["global"]["live_objects"]), (int(p.pid), 20))
            self.check(TSLAB, "top", "--batch", p.pid, pid=p.pid)
            found = run(TSLAB, "top", "--batch")  # the only one here, or one of those that are listed
            self.assertRegex(found.stdout + found.stderr, rf"(?m)^process {p.pid} |^ +{p.pid}  tools_target$")
            # Its child there has a page of its own.
            self.assertLess(int(p.tell("fork")), 10)
            (child,) = children_of(p.pid)
            settle(TSLAB, child)
            stats = json.loads(run(DUMP, "--json", child).stdout)
            self.assertEqual((stats["pid"], stats["global"]["live_objects"]), (int(child), 21))

    def test_a_namespace_in_a_namespace(self):
        with Program((*OWN_PIDS, *OWN_PIDS)) as p:
            (inner,) = children_of(p.pid)
            self.check(TSLAB, "top", "--batch", inner, pid=inner)

    def test_seen_from_inside(self):
        script = f"'{TARGET}' >/dev/null </dev/zero & sleep 1; '{DUMP}' --json $!; echo $?; kill $!"
        env = {**ENVIRONMENT, "TSLAB_SHM": "1"}

        def look(*namespace):
            return subprocess.run([*namespace, "sh", "-c", script], env=env, capture_output=True, text=True, timeout=300)

        self.assertIn('"pid":2', look(*OWN_PIDS).stdout)
        # Where /proc is that of outside, $! is no id of it.
        foreign = look("unshare", "--pid", "--fork", "--kill-child")
        self.assertEqual(foreign.stdout, "3\n")
        self.assertIn("/proc here is of another PID namespace: give the id that the process has there", foreign.stderr)

    def test_clock(self):
        if not is_permitted(OWN_CLOCK):
            self.skipTest("no time namespaces")
        with Program(OWN_CLOCK) as p:
            self.check(TSLAB, "top", "--batch", p.pid, pid=p.pid)
            os.kill(int(p.pid), signal.SIGSTOP)
            time.sleep(2.5)
            stopped = run(DUMP, "--json", p.pid)
            os.kill(int(p.pid), signal.SIGCONT)
            self.assertRegex(stopped.stderr, rf"written [23]\.\d s ago: process {p.pid} is stopped")

    def test_all_descriptors_closed(self):
        with Program(OWN_PIDS) as p:
            self.assertEqual(p.tell("close"), "closed")
            self.check(TSLAB, "top", "--batch", p.pid, pid=p.pid)


if __name__ == "__main__":
    if not is_permitted(OWN_PIDS):
        print("tools.namespaces: unshare --pid is not permitted here, or not installed")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]])
