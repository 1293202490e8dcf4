"""Every leak is named with its label and line; nothing sound is called one. All programs run at once, beside each other, so
what is slow on a busy machine is slow for all. Arguments: BUILD_DIR."""

import os
import re
import shutil
import subprocess
import sys
import time
import unittest

BUILD = sys.argv[1]
DUMP, PROGRAM = (os.path.join(BUILD, name) for name in ("stats_dump", "tools_growth"))
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_")}
WATCHED = 36  # seconds that the sound ones are watched
LONGEST = 120  # that a leak may take; it takes 26 on a machine that has time


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)


class Program:
    def __init__(self, kind, name, label):
        self.kind, self.name, self.label = kind, name, label
        env = {**ENVIRONMENT, "TSLAB_SHM": "1", "TSLAB_SAMPLE_STACKS": "4K"}
        self.process = subprocess.Popen([PROGRAM, name], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.worst, self.said, self.heard = -1, "", []

    def ask(self):
        answer = run(DUMP, "--doctor", str(self.process.pid))
        assert answer.returncode in (0, 1), answer.stderr
        self.said = answer.stdout
        grades = re.findall(r"(?m)^\d+\. (info|warning|critical): (?:`|open epochs of `)", answer.stdout)
        for grade in grades:
            self.worst = max(self.worst, ("info", "warning", "critical").index(grade))
        if grades and (not self.heard or self.heard[-1] != answer.stdout):
            self.heard.append(answer.stdout)

    def is_named(self):
        return re.search(rf"(?m)^1\. (warning|critical): `{re.escape(self.label)}` leaks ", self.said) is not None

    def end(self):
        self.process.communicate()


class Growth(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        listed = run(PROGRAM, "--list").stdout.splitlines()
        cls.programs = [Program(*line.split(" ", 2)) for line in listed]
        time.sleep(1)  # until each has a page
        started = time.monotonic()
        while True:
            for p in cls.programs:
                if p.kind == "sound" or not p.is_named():
                    p.ask()
            passed = time.monotonic() - started
            # "tenth" and "threads" free most of their objects: that they leak shows later than that they grow.
            if passed > WATCHED and all(p.is_named() or p.worst >= 0 for p in cls.programs if p.kind == "leak"):
                break
            if passed > LONGEST:
                break
            time.sleep(1)

    @classmethod
    def tearDownClass(cls):
        for p in cls.programs:
            p.end()

    def test_ten_of_each(self):
        self.assertEqual([sum(p.kind == kind for p in self.programs) for kind in ("leak", "sound")], [10, 10])

    def test_leaks(self):
        for p in self.programs:
            if p.kind != "leak":
                continue
            with self.subTest(p.name):
                grade = "(grows by|leaks)" if p.name in ("tenth", "threads", "domain", "one_of_two") else "leaks"
                self.assertRegex(p.said, rf"(?m)^1\. \w+: `{re.escape(p.label)}` {grade} [\d.]+ [kMG]B a minute, mostly ")
                self.assertRegex(p.said, r"evidence: from [\d.]+ [kM]?B to [\d.]+ [kM]?B live in \d+ s; ")
                self.assertNotIn("`other`", p.said)
                self.assertNotIn("nothing found", p.said)
                if shutil.which("addr2line"):
                    first = re.search(r"site: .*\n +at (.*)", p.said)
                    self.assertIsNotNone(first, p.said)
                    self.assertRegex(first[1], r"^leak_\w+, .*growth_program\.c:\d+$")

    def test_sound_ones(self):
        for p in self.programs:
            if p.kind == "sound":
                with self.subTest(p.name):
                    self.assertLessEqual(p.worst, 0, p.heard)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
