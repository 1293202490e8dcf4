#!/usr/bin/env python3
"""The reports of memcheck and AddressSanitizer on objects: where each came from, and where its lifetime ended (listen.c, leaks.c).

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
    "after_epoch": ("makes_object", "ends_epoch", 64, 24),
    "after_epoch_of_thread": ("makes_elsewhere", "ends_epoch", 64, 8),
    "after_domain_and_next": ("makes_scratch", "ends_domain", 64, 24),
    "after_allocator": ("makes_object", "ends_allocator", 64, 8),
}


def skip(why):
    print(f"listen_test: skipped: {why}")
    sys.exit(77)


def build(compiler, *flags, static=False):
    """The program; None if the compiler cannot make it."""
    program = pathlib.Path(FOLDER.name) / ("static_program" if static else "listen_program")
    library = [f"{LIBRARY}/libtslab.a"] if static else ["-L", LIBRARY, "-ltslab", f"-Wl,-rpath,{LIBRARY}"]
    answer = subprocess.run([*compiler, "-g", "-O1", "-fno-omit-frame-pointer", *flags, "-I", INCLUDE, str(SOURCE), "-o",
                             str(program), *library, "-pthread"],
                            capture_output=True, text=True, check=False, timeout=SECONDS)
    return program if answer.returncode == 0 else None


class Base(unittest.TestCase):
    def run_case(self, name, *before, program=None, **variables):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TSLAB_")}
        return subprocess.run([*before, str(program or PROGRAM), name], capture_output=True, text=True, check=False, timeout=SECONDS,
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


class AddressSanitizer(Base):
    """With the ordinary library, shared and static."""

    def call(self, name, **variables):
        return self.run_case(name, ASAN_OPTIONS="detect_leaks=1:exitcode=1", **variables)

    def test_where_it_came_from_and_ended(self):
        for name, (made, ended, size, byte) in ENDED.items():
            with self.subTest(name):
                answer = self.call(name)
                self.assertEqual(answer.returncode, 1, answer.stderr)
                self.assert_in_order(answer.stderr, "AddressSanitizer: use-after-poison", " in reads ",
                                     rf"tslab: 0x\w+ is {byte} bytes inside an object of {size} bytes that has ended \(",
                                     r"tslab: its lifetime ended in thread \d+:", f" in {ended} ", " in main ",
                                     r"tslab: it came from thread \d+:", rf" in {made} ", "ABORTING")

    def test_threads_are_told_apart(self):
        text = self.call("after_epoch_of_thread").stderr
        ended = re.search(r"its lifetime ended in thread (\d+):", text)
        born = re.search(r"it came from thread (\d+):", text)
        self.assertNotEqual(ended.group(1), born.group(1), text)

    def test_epoch_and_label(self):
        self.assertIn('(class 64, epoch 4194305 "request", ended)', self.call("after_epoch").stderr)

    def test_beyond(self):
        for name, size in (("beyond", 61), ("grown", 60)):
            answer = self.call(name)
            self.assertEqual(answer.returncode, 1, answer.stderr)
            self.assert_in_order(answer.stderr, "AddressSanitizer: use-after-poison",
                                 f"is 0 bytes behind a live object of {size} bytes", "it came from thread", " in makes_object ")
            self.assertNotIn("its lifetime ended", answer.stderr)

    def test_misuse(self):
        answer = self.call("free_twice", TSLAB_ON_MISUSE="report")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assert_in_order(answer.stderr, "tslab: slab_free: pointer 0x", "freed already", "its lifetime ended in thread",
                             " in ends_object ", " in free_twice ", "it came from thread", " in makes_object ")

    def test_without_tools(self):
        answer = self.call("after_free", TSLAB_TOOLS="off")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))

    def test_what_objects_point_to_is_no_leak(self):
        for name in ("no_leak", "leaks"):
            answer = self.call(name)
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))

    def test_what_is_live_is_told(self):
        answer = self.call("leaks", TSLAB_TOOLS="leaks")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assert_in_order(answer.stderr, 'tslab: 1 object, 50000 bytes, still live [(]span of 65536, epoch 4194305 "request"',
                             " in forgets_span ", r"tslab: 3 objects, 288 bytes, still live; the first \(", " in forgets_list ",
                             "tslab: 1 object, 50 bytes, still live", " in forgets_object ",
                             "tslab: 6 objects, 50354 bytes, live when the process ended\n$")


class Static(AddressSanitizer):
    def run_case(self, name, *before, **variables):
        return super().run_case(name, *before, program=STATIC, **variables)


if TOOL == "valgrind":
    if not shutil.which("valgrind"):
        skip("valgrind is not installed")
    FOLDER = tempfile.TemporaryDirectory()
    PROGRAM = build(os.environ.get("CC", "cc").split())
    if not PROGRAM:
        skip("the program cannot be built")
    if subprocess.run(["valgrind", "-q", "--log-file=/dev/null", str(PROGRAM), "no_leak"], check=False).returncode != 0:
        skip("valgrind cannot run this program")
    SUITES = [Memcheck]
elif TOOL in ("gcc", "clang"):
    if not shutil.which(TOOL):
        skip(f"{TOOL} is not installed")
    FOLDER = tempfile.TemporaryDirectory()
    PROGRAM = build([TOOL], "-fsanitize=address")
    STATIC = PROGRAM and build([TOOL], "-fsanitize=address", static=True)
    if not STATIC:
        skip(f"{TOOL} has no AddressSanitizer")
    control = Base().run_case("after_free").stderr
    if "AddressSanitizer" not in control:
        skip("AddressSanitizer cannot run this program")
    if " in reads " not in control:
        skip("AddressSanitizer finds no names here (llvm-symbolizer?)")
    SUITES = [AddressSanitizer, Static]
else:
    sys.exit(__doc__)

if __name__ == "__main__":
    cases = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, SUITES))
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(cases).wasSuccessful())
