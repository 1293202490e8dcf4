"""What the tests of this folder share. SUITE_DIR: the folder of the programs."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = pathlib.Path(os.environ.get("SUITE_DIR", BENCHMARKS.parent / "build" / "release" / "benchmarks")).resolve()


def answer_of(command, **more):
    """What a program answers."""
    return subprocess.run([str(word) for word in command], **{"capture_output": True, "text": True, "check": False, "timeout": 300, **more})


def script(name, *arguments, **more):
    """What a script of benchmarks/ answers."""
    return answer_of([sys.executable, "-B", BENCHMARKS / name, *arguments], **more)


def until(condition, seconds=60):
    """Waits for it."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.01)


class InFolder(unittest.TestCase):
    """With a folder that is empty at its beginning, and gone at its end."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name).resolve()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def program(self, name, text):
        """A stand-in for a program."""
        self.write(name, text).chmod(0o755)

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def refused(self, answer, *words, code=2):
        """It ends with that code, and with one line that has these words."""
        self.assertEqual(answer.returncode, code, answer)
        self.assertEqual(len(answer.stderr.strip().split("\n")), 1, answer.stderr)
        for word in words:
            self.assertIn(word, answer.stderr)
