"""tslab top on a terminal: the screen, keys, other sizes, and that the shell gets its screen back. Arguments: BUILD_DIR."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

from page import settle

BUILD = sys.argv[1]
TSLAB, TARGET, DUMP = (os.path.join(BUILD, name) for name in ("tslab", "tools_target", "stats_dump"))
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_")}


class Screen:
    """As much of a terminal as the tool uses; any other sequence is an error."""

    def __init__(self, rows, columns):
        self.alternate, self.cursor, self.pending = False, True, b""
        self.unknown = []
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.style = [[""] * columns for _ in range(rows)]
        self.y = self.x = 0
        self.sgr = ""

    def erase(self, y, x):
        for column in range(min(x, self.columns - 1), self.columns):
            self.cells[y][column], self.style[y][column] = " ", ""

    def control(self, arguments, final):
        if (arguments, final) == ("", "H"):
            self.y = self.x = 0
        elif (arguments, final) == ("", "K"):
            self.erase(self.y, self.x)
        elif (arguments, final) == ("", "J"):
            self.erase(self.y, self.x)
            for y in range(self.y + 1, self.rows):
                self.erase(y, 0)
        elif final == "m":
            self.sgr = "" if arguments in ("", "0") else arguments
        elif arguments == "?1049" and final in "hl":
            self.alternate = final == "h"
        elif arguments == "?25" and final in "hl":
            self.cursor = final == "h"
        else:
            self.unknown.append((arguments, final))

    def feed(self, data):
        text = (self.pending + data).decode("utf-8", errors="surrogateescape")
        at = 0
        self.pending = b""
        while at < len(text):
            c = text[at]
            if c == "\033":
                found = re.compile(r"\033\[([?0-9;]*)([A-Za-z])").match(text, at)
                if not found:
                    self.pending = text[at:].encode()
                    return
                self.control(*found.groups())
                at = found.end()
                continue
            at += 1
            if c == "\r":
                self.x = 0
            elif c == "\n":
                if self.y == self.rows - 1:  # the top row is lost
                    self.cells = self.cells[1:] + [[" "] * self.columns]
                    self.style = self.style[1:] + [[""] * self.columns]
                self.y = min(self.y + 1, self.rows - 1)
            elif ord(c) < 0x20 or 0x7f <= ord(c) < 0xa0:
                self.unknown.append(c)
            else:
                if self.x == self.columns:
                    self.unknown.append("a line wider than the screen")
                    self.x = 0
                self.cells[self.y][self.x], self.style[self.y][self.x] = c, self.sgr
                self.x += 1  # at the end it stays, until something else comes

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]


class Terminal:
    def __init__(self, *arguments, rows=24, columns=80, term="xterm", ignored=(), command=(TSLAB, "top")):
        try:
            self.master, slave = pty.openpty()
        except OSError as error:
            raise unittest.SkipTest(f"no terminals here: {error}") from None
        self.screen = Screen(rows, columns)
        self.set_size(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.raw = b""

        def session():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)

        environment = {k: v for k, v in ENVIRONMENT.items() if k != "TERM"}
        if term is not None:
            environment["TERM"] = term
        self.process = subprocess.Popen([*command, *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment,
                                        preexec_fn=session, close_fds=True)
        self.slave = slave

    def set_size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self.take(0.05)
        self.screen.resize(rows, columns)
        self.set_size(rows, columns)
        os.kill(self.process.pid, signal.SIGWINCH)  # as the system sends it to the foreground of a terminal

    def take(self, seconds):
        end = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            if not ready:
                return
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            self.raw += data
            self.screen.feed(data)

    def wait_for(self, what, seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.take(0.05)
            if what(self.screen.lines()):
                return self.screen.lines()
        raise AssertionError("it did not come: %r" % self.screen.lines())

    def first_frame(self):
        return self.wait_for(lambda lines: any(line.startswith("LABEL") for line in lines))

    def type(self, keys):
        os.write(self.master, keys)

    def end(self):
        """The exit code, when the tool has ended, and everything that it left."""
        end = time.monotonic() + 10
        while self.process.poll() is None and time.monotonic() < end:
            self.take(0.05)
        self.take(0.05)
        return self.process.poll()

    def modes(self):
        return termios.tcgetattr(self.slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


class Top(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.target = cls.new_target("label zz\u00e4\u00f6", "label \033[2J\u009b2Jx", "label " + "w" * 31)

    @classmethod
    def new_target(cls, *commands):
        target = subprocess.Popen([TARGET], env={**ENVIRONMENT, "TSLAB_SHM": "1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True)
        assert target.stdout.readline() == "ready\n"
        for command in commands:
            target.stdin.write(command + "\n")
            target.stdin.flush()
            assert target.stdout.readline() == "labelled\n"
        settle(TSLAB, target.pid)
        return target

    @classmethod
    def tearDownClass(cls):
        cls.end_of(cls.target)

    @staticmethod
    def end_of(target):
        target.kill()
        target.communicate()

    def open(self, *arguments, **more):
        return Terminal(*arguments, str(self.target.pid), **more)

    def check_restored(self, terminal):
        self.assertFalse(terminal.screen.alternate)
        self.assertTrue(terminal.screen.cursor)
        self.assertEqual(terminal.modes(), terminal.before)
        self.assertEqual(terminal.screen.unknown, [])

    @staticmethod
    def labels(lines):
        at = next(i for i, line in enumerate(lines) if line.startswith("LABEL"))
        return [line.split()[0] for line in lines[at + 1:] if line]

    def test_first_frame_and_q(self):
        with self.open() as t:
            lines = t.first_frame()
            self.assertTrue(t.screen.alternate)
            self.assertFalse(t.screen.cursor)
            self.assertFalse(t.modes()[3] & (termios.ICANON | termios.ECHO))
            self.assertIn(f"process {self.target.pid} ", lines[0])
            self.assertIn("20 closing", lines[1])
            title = next(i for i, line in enumerate(lines) if line.startswith("LABEL"))
            self.assertEqual(set(t.screen.style[title][:40]), {"7"})
            row = next(line for line in lines if line.startswith("handler:/api/7"))
            self.assertEqual(row.split()[1:3], ["20", "20"])  # closing, objects
            t.type(b"q")
            self.assertEqual(t.end(), 0)
            self.check_restored(t)

    def test_sort_keys(self):
        with self.open("--every=60", columns=120) as t:
            t.first_frame()
            orders = {}
            for key, name in ((b"l", "label"), (b"o", "objects"), (b"a", "age"), (b"b", "bytes")):
                t.type(key)
                orders[name] = self.labels(t.wait_for(lambda lines, n=name: f"by {n}" in lines[1]))
            self.assertEqual(orders["label"], sorted(orders["label"]))
            self.assertEqual(orders["objects"][0], "handler:/api/7")
            self.assertEqual(orders["age"][0], "handler:/api/7")  # older than epochs that were labelled later
            self.assertEqual(orders["bytes"][0], "handler:/api/7")
            for name in ("objects", "age", "label", "bytes"):
                t.type(b"s")
                t.wait_for(lambda lines, n=name: f"by {n}" in lines[1])
            t.type(b"x\033[A")  # means nothing
            t.take(0.3)
            t.type(b"q")
            self.assertEqual(t.end(), 0)
            self.check_restored(t)

    def test_pause(self):
        with self.open("--every=0.1", columns=120) as t:
            t.first_frame()
            t.type(b"p")
            t.wait_for(lambda lines: lines[1].endswith("PAUSED"))
            t.take(0.2)
            before = len(t.raw)
            t.take(0.5)
            self.assertEqual(len(t.raw), before)
            t.resize(10, 110)
            t.wait_for(lambda lines: lines[1].endswith("PAUSED"))
            t.type(b"p")
            t.wait_for(lambda lines: "PAUSED" not in lines[1] and lines[1])
            before = len(t.raw)
            t.take(0.5)
            self.assertGreater(len(t.raw), before)
            t.type(b"q")
            self.assertEqual(t.end(), 0)

    def test_other_sizes(self):
        columns_of = {140: 8, 106: 8, 100: 7, 80: 5, 60: 3, 44: 2, 24: 0, 5: 0, 1: 0}
        with self.open("--every=60") as t:
            t.first_frame()
            for columns, expected in columns_of.items():
                t.resize(24, columns)
                lines = t.wait_for(lambda lines: any(line.startswith("LABEL"[:columns]) for line in lines[2:]))
                t.take(0.1)
                lines = t.screen.lines()
                titles = next(line for line in lines[2:] if line.startswith("LABEL"[:columns]))
                self.assertEqual(len(re.findall(r"OPEN|CLOSING|OBJECTS|LIVE|SLABS|A MINUTE|AGE|AFTER CLOSE", titles)), expected, titles)
                for line in lines:
                    self.assertLessEqual(len(line), columns)
            for rows in (6, 3, 2, 1):
                t.resize(rows, 120)
                lines = t.wait_for(lambda lines: lines[0].startswith("process"))
                t.take(0.1)
                self.assertTrue(t.screen.lines()[0].startswith("process"))
            t.resize(30, 120)
            lines = t.wait_for(lambda lines: any(line.startswith("handler:/api/7") for line in lines))
            self.assertEqual(lines[-1], "")
            t.type(b"q")
            self.assertEqual(t.end(), 0)
            self.check_restored(t)

    def test_a_full_line_keeps_its_last_character(self):
        with self.open("--every=60", columns=104) as t:
            lines = t.first_frame()
            self.assertRegex(next(line for line in lines if line.startswith("LABEL")), r"AFTER CLOSE$")
            t.resize(24, 20)
            lines = t.wait_for(lambda lines: any(line.startswith("LABEL") for line in lines))
            t.take(0.1)
            self.assertEqual(t.screen.lines()[0], f"process {self.target.pid}  resident"[:20].rstrip())

    def test_labels_cannot_drive_the_terminal(self):
        with self.open("--every=60", columns=110) as t:
            t.wait_for(lambda lines: any(line.startswith("?[2J??2Jx") or line.startswith("?[2J?2Jx") for line in lines))
            self.assertEqual(t.screen.unknown, [])
            self.assertTrue(any(line.startswith("zz\u00e4\u00f6 ") for line in t.screen.lines()))

    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with self.open() as t:
                t.first_frame()
                os.kill(t.process.pid, number)
                self.assertEqual(t.end(), -number)
                self.check_restored(t)
        with self.open() as t:
            t.first_frame()
            t.type(b"\x03")  # Ctrl-C
            self.assertEqual(t.end(), -signal.SIGINT)
            self.check_restored(t)
        with self.open(ignored=[signal.SIGHUP]) as t:  # nohup
            t.first_frame()
            os.kill(t.process.pid, signal.SIGHUP)
            t.take(0.3)
            self.assertIsNone(t.process.poll())

    def test_stop_and_continue(self):
        # A shell with job control; its terminal is asked for its modes while the tool is stopped.
        script = 'set -m; "$0" top --every=60 "$1"; stty -a; echo "now stopped"; sleep 1; fg; echo "ended: $?"'
        with self.open(command=("sh", "-c", script, TSLAB)) as t:
            t.first_frame()
            t.type(b"\x1a")  # Ctrl-Z
            t.wait_for(lambda _: b"now stopped" in t.raw)
            between = t.raw.split(b"\033[?1049l")
            self.assertEqual(len(between), 2)
            self.assertRegex(between[1], rb"(?s)\bicanon\b.* echo\b")
            self.assertFalse(t.screen.alternate)
            self.assertTrue(t.screen.cursor)
            t.wait_for(lambda _: t.screen.alternate)
            t.screen.resize(24, 80)
            t.type(b"l")
            t.wait_for(lambda lines: "by label" in lines[1])
            t.type(b"q")
            t.wait_for(lambda _: b"ended: 0" in t.raw)
            self.assertEqual(t.end(), 0)
            self.check_restored(t)

    def test_the_process_ends(self):
        target = self.new_target()
        try:
            with Terminal("--every=0.1", str(target.pid)) as t, \
                    subprocess.Popen([DUMP, "--watch=0.1", str(target.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                     text=True) as watch:
                t.first_frame()
                target.kill()  # and is not waited for: it stays a zombie
                self.assertEqual(t.end(), 3)
                self.check_restored(t)
                said = t.raw.split(b"\033[?1049l")[-1].decode()
                self.assertEqual(said, f"tslab: process {target.pid} has ended\r\n")
                self.assertEqual((watch.wait(timeout=300), watch.stderr.read()), (3, f"stats_dump: process {target.pid} has ended\n"))
        finally:
            self.end_of(target)

    def test_a_terminal_without_a_cursor(self):
        for term in ("dumb", "", None):
            with self.open(term=term) as t:
                self.assertEqual(t.end(), 0)
                self.assertNotIn(b"\033", t.raw)
                self.assertIn(b"handler:/api/7", t.raw)
                self.assertEqual(t.modes(), t.before)

    def test_batch_on_a_terminal(self):
        with self.open("--batch", "--frames=2", "--every=0.1") as t:
            self.assertEqual(t.end(), 0)
            self.assertEqual(t.raw.count(b"LABEL"), 2)
            self.assertNotIn(b"\033", t.raw)

    def test_batch_that_cannot_be_written(self):
        with open("/dev/full", "wb") as full:
            answer = subprocess.run([TSLAB, "top", "--batch", str(self.target.pid)], env=ENVIRONMENT, stdout=full,
                                    stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(answer.returncode, 3)
        self.assertIn("stdout: No space left on device", answer.stderr)

    def test_frames(self):
        with self.open("--frames=3", "--every=0.1") as t:
            self.assertEqual(t.end(), 0)
            self.assertEqual(t.raw.count(b"\033[H"), 3)
            self.check_restored(t)

    def test_the_terminal_goes_away(self):
        t = self.open("--every=0.2")
        t.first_frame()
        os.close(t.slave)
        os.close(t.master)
        self.assertIsNotNone(t.process.wait(timeout=300))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
