#!/usr/bin/env python3
"""What memcheck and AddressSanitizer say of objects: where each came from, and where its lifetime ended.

usage: listen_test.py FOLDER_OF_THE_LIBRARY INCLUDE valgrind|gcc|clang
The library is the ordinary one, which no sanitizer is in. Exit 77: that tool is not here.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY, INCLUDE, TOOL = map(str, sys.argv[1:4]) if len(sys.argv) > 3 else ("", "", "")
SOURCE = pathlib.Path(__file__).resolve().parent / "listen_program.c"
SECONDS = 120

# case: where the object comes from, where its lifetime ends, its size, the byte that is read
ENDED = {
    "after_free": ("makes_object", "ends_object", 64, 8),
    "after_span_free": ("makes_object", "ends_object", 100000, 70000),
    "after_domain": ("makes_scratch", "ends_domain", 64, 8),
    "after_domain_span": ("makes_scratch", "ends_domain", 50000, 40000),
    "after_reset": ("makes_scratch", "ends_by_reset", 200, 199),
    "after_epoch": ("makes_object", "ends_epoch", 64, 8),
    "after_epoch_of_thread": ("makes_elsewhere", "ends_epoch", 64, 8),
    "after_domain_and_next": ("makes_scratch", "ends_domain", 64, 24),
    "after_allocator": ("makes_object", "ends_allocator", 64, 8),
}


def skip(why):
    print(f"listen_test: skipped: {why}")
    sys.exit(77)


def build(compiler, *flags):
    program = pathlib.Path(FOLDER.name) / "listen_program"
    answer = subprocess.run([*compiler, "-g", "-O1", "-fno-omit-frame-pointer", *flags, "-I", INCLUDE, str(SOURCE), "-o",
                             str(program), "-L", LIBRARY, "-ltslab", f"-Wl,-rpath,{LIBRARY}", "-pthread"],
                            capture_output=True, text=True, check=False, timeout=SECONDS)
    return program if answer.returncode == 0 else None


class Base(unittest.TestCase):
    def run_case(self, name, *before, **variables):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TSLAB_")}
        return subprocess.run([*before, str(PROGRAM), name], capture_output=True, text=True, check=False, timeout=SECONDS,
                              env={**environment, **variables})

    def assert_in_order(self, text, *patterns):
        at = 0
        for pattern in patterns:
            found = re.compile(pattern).search(text, at)
            self.assertIsNotNone(found, f"{pattern!r} is not in, or not where it should be:\n{text}")
            at = found.end()


class Memcheck(Base):
    def call(self, name, *options):
        return self.run_case(name, "valgrind", "-q", "--num-callers=30", "--error-exitcode=99", *options)

    def test_where_it_came_from_and_ended(self):
        for name, (made, ended, size, byte) in ENDED.items():
            with self.subTest(name):
                answer = self.call(name)
                self.assertEqual(answer.returncode, 99, answer.stderr)
                self.assert_in_order(answer.stderr, "Invalid read of size 1", r"by 0x\w+: \w+ \(listen_program.c",
                                     f"{byte:,} bytes inside a block of size {size:,} free'd", f": {ended} ",
                                     "Block was alloc'd at", f": {made} ")

    def losses(self, text):
        """Each record: its first line, and the names of its frames."""
        records = re.split(r"\n==\d+== \n", text)
        return [record for record in records if "in loss record" in record]

    def test_leaks(self):
        answer = self.call("leaks", "--leak-check=full")
        self.assertEqual(answer.returncode, 99, answer.stderr)
        losses = sorted(self.losses(answer.stderr), key=lambda record: record.count("indirect"))
        self.assertEqual(len(losses), 3, answer.stderr)
        of = {name: record for record in losses for name in ("forgets_object", "forgets_span", "forgets_list")
              if f": {name} " in record}
        self.assertEqual(len(of), 3, answer.stderr)
        self.assertIn(" 50 bytes in 1 blocks are definitely lost", of["forgets_object"])
        self.assertIn(" 50,000 bytes in 1 blocks are definitely lost", of["forgets_span"])
        # one of the three leads to the others, though each is known by its neighbour
        self.assertIn("(96 direct, 192 indirect) bytes in 1 blocks are definitely lost", of["forgets_list"])

    def test_a_thread_goes_on(self):
        answer = self.call("leaks_beside_thread", "--leak-check=full")
        self.assertNotIn("Invalid", answer.stderr)
        self.assertNotIn("SIGSEGV", answer.stderr)
        self.assertIn(answer.returncode, (0, 99), answer.stderr)

    def test_what_is_kept_is_no_leak(self):
        answer = self.call("no_leak", "--leak-check=full")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))


if TOOL == "valgrind":
    if not shutil.which("valgrind"):
        skip("valgrind is not installed")
    FOLDER = tempfile.TemporaryDirectory()
    PROGRAM = build(os.environ.get("CC", "cc").split())
    if not PROGRAM:
        skip("the program cannot be built")
    if subprocess.run(["valgrind", "-q", "--log-file=/dev/null", str(PROGRAM), "no_leak"], check=False).returncode != 0:
        skip("valgrind cannot run this program")
    SUITE = Memcheck
else:
    sys.exit(__doc__)

if __name__ == "__main__":
    result = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromTestCase(SUITE))
    sys.exit(not result.wasSuccessful())
