"""tslab stats, doctor and top, and the name stats_dump, against a real program, also when it hangs or is stopped. Arguments: BUILD_DIR SOURCE_DIR."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from page import settle

BUILD, SOURCE = sys.argv[1], sys.argv[2]
DUMP = os.path.join(BUILD, "stats_dump")  # tslab stats
TSLAB = os.path.join(BUILD, "tslab")
TARGET = os.path.join(BUILD, "tools_target")
LEAK = os.path.join(BUILD, "tools_leak")
THROUGH = os.path.join(BUILD, "tools_through_library")
THROUGH_SOURCE = os.path.join(SOURCE, "tools", "tests", "through_library_program.c")
LEAK_SOURCE = os.path.join(SOURCE, "tools", "tests", "leak_program.c")


def run(*command, **options):
    """Paths of files are as one that no `..` is in: a build can have them relative to its folder."""
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    while "/../" in answer.stdout:
        plain = re.sub(r"[^/\s]+(?<!\.\.)/\.\./", "", answer.stdout)
        if plain == answer.stdout:
            break
        answer.stdout = plain
    return answer


class Program:
    """tools_target with a page, ready."""

    def __init__(self, shm="1", program=TARGET, **variables):
        env = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_")}
        env.update(variables, TSLAB_SHM=shm)
        self.process = subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()
        self.pid = str(self.process.pid)

    def tell(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:  # by the end of its input, so that it ends as programs do
            self.process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()


class Formats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = Program()
        settle(TSLAB, cls.program.pid)

    @classmethod
    def tearDownClass(cls):
        cls.program.__exit__()

    def dump(self, *options):
        answer = run(DUMP, *options, self.program.pid)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stderr, "")
        return answer.stdout

    def test_json(self):
        stats = json.loads(self.dump("--json"))
        self.assertEqual(stats["pid"], int(self.program.pid))
        g = stats["global"]
        self.assertEqual((g["allocated_objects_total"], g["freed_objects_total"], g["live_objects"]), (10000, 9980, 20))
        self.assertEqual(g["epoch_close_calls"], 200)
        self.assertEqual(g["closing_epoch_count"], 20)
        self.assertGreater(g["resident_bytes"], 100000)
        (cls,) = stats["classes"]
        self.assertEqual((cls["class"], cls["object_size"], cls["live_objects"]), ("128", 128, 20))
        (label,) = stats["labels"]
        self.assertEqual(label["label"], "handler:/api/7")
        self.assertEqual((label["closing_epochs"], label["closing_live_objects"], label["closing_live_bytes"]),
                         (20, 20, 2560))
        self.assertEqual(len(stats["epochs"]), 20)
        self.assertTrue(all(e["state"] == "closing" and e["live_objects"] == 1 for e in stats["epochs"]))
        ages = [e["open_since_ns"] for e in stats["epochs"]]
        self.assertEqual(ages, sorted(ages))

    def test_text_is_the_default(self):
        text = self.dump()
        self.assertTrue(text.startswith("temporal-slab: 20 live objects, 2560 bytes live"))
        self.assertIn("handler:/api/7", text)
        self.assertNotIn("\033", text)
        self.assertEqual(text.split("\n")[0], self.dump("--text").split("\n")[0])

    def test_prometheus(self):
        text = self.dump("--prometheus")
        self.assertIn('\ntemporal_slab_epoch_class_live_objects{label="handler:/api/7",state="closing",class="128"} 20\n', text)
        self.assertIn('\ntemporal_slab_allocated_objects_total{class="128"} 10000\n', text)
        self.assertNotIn("# EOF", text)
        promtool = shutil.which("promtool")
        if promtool:
            answer = run(promtool, "check", "metrics", input=text)
            self.assertEqual((answer.returncode, answer.stdout + answer.stderr), (0, ""))

    def test_openmetrics(self):
        text = self.dump("--openmetrics")
        self.assertTrue(text.endswith("\n# EOF\n"))
        self.assertIn("# TYPE temporal_slab_madvise_calls counter\n", text)
        self.assertIn("\ntemporal_slab_madvise_calls_total 0\n", text)

    def test_every_key_is_documented(self):
        stats = json.loads(self.dump("--json"))
        with open(os.path.join(SOURCE, "docs", "stats.md"), encoding="utf-8") as page:
            documented = page.read()
        for part in (stats["global"], stats["classes"][0], stats["epochs"][0], stats["labels"][0], stats["samples"]):
            for key in part:
                if key not in ("class", "kind", "classes"):
                    self.assertIn(f"`{key}`", documented)

    def test_top(self):
        answer = run(TSLAB, "top", self.program.pid)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        lines = answer.stdout.splitlines()
        self.assertIn(f"process {self.program.pid} ", lines[0])
        self.assertIn("20 closing", lines[1])
        self.assertTrue(lines[2].startswith("LABEL"))
        self.assertEqual(lines[3].split()[:6], ["handler:/api/7", "0", "20", "20", "2.5", "kB"])
        self.assertNotIn("\033", answer.stdout)
        twice = run(TSLAB, "top", "--batch", "--frames=2", "--every=0.1", "--sort=age", self.program.pid)
        self.assertEqual(twice.stdout.count("LABEL"), 2)

    def test_labels_cannot_drive_the_terminal(self):
        with Program() as program:
            self.assertEqual(program.tell("label a\033[2J\u009b2J"), "labelled")
            settle(TSLAB, program.pid)
            text = run(DUMP, "--text", program.pid).stdout
            self.assertIn("a?[2J?2J ", text)
            self.assertNotRegex(text, "[\0-\x09\x0b-\x1f\x7f-\x9f]")

    def test_watch_ends_with_its_pipe(self):
        with subprocess.Popen([DUMP, "--watch=0.1", "--json", self.program.pid], stdout=subprocess.PIPE, text=True) as p:
            first, second = (json.loads(p.stdout.readline()) for _ in range(2))
            self.assertEqual(first["pid"], second["pid"])
            p.stdout.close()
            self.assertNotEqual(p.wait(timeout=300), 0)

    def test_allocators(self):
        self.assertEqual(run(DUMP, "--allocator=0", self.program.pid).returncode, 0)
        answer = run(DUMP, "--allocator=1", self.program.pid)
        self.assertEqual(answer.returncode, 2)
        self.assertIn("has 1 allocator, from 0: there is no 1", answer.stderr)


def setUpModule():
    """A leak is one ten seconds after the close: the other tests run meanwhile."""
    global HUNG, LEAKING, LEAKING_THROUGH, SECOND
    SECOND = Program()
    assert SECOND.tell("second") == "seconded"
    LEAKING_THROUGH = Program(program=THROUGH, TSLAB_SAMPLE_STACKS="1")
    LEAKING = Program(program=LEAK, TSLAB_SAMPLE_STACKS="1K")
    HUNG = Program()
    assert HUNG.tell("misuse") == "refused"
    assert HUNG.tell("hang") == "hanging"
    settle(TSLAB, HUNG.pid)
    early = run(DUMP, "--doctor", HUNG.pid)
    assert early.returncode == 1 and "1. warning: 1 free was refused" in early.stdout, early


def leaking_line(source=LEAK_SOURCE):
    with open(source, encoding="utf-8") as file:
        return next(n for n, line in enumerate(file, 1) if "/* the leaking line */" in line)


def sites(text):
    """The frames below each line that says how much a stack holds."""
    found = []
    for line in text.splitlines():
        if line.startswith("      at "):
            found[-1].append(line[len("      at "):])
        elif "about " in line and " sample" in line:
            found.append([])
    return found


class Stacks(unittest.TestCase):
    def test_names_function_and_line(self):
        with Program(program=LEAK, TSLAB_SAMPLE_STACKS="1K") as program:
            settle(TSLAB, program.pid)
            answer = run(DUMP, "--stacks", program.pid)
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))
            self.assertIn("sampled once in 1024 bytes", answer.stdout)
            self.assertIn("\n   session, closing: about ", answer.stdout)
            (frames,) = sites(answer.stdout)
            if not shutil.which("addr2line"):
                self.skipTest("no addr2line")
            self.assertEqual(frames[0], f"remember, {LEAK_SOURCE}:{leaking_line()}")
            self.assertRegex(frames[1], r"^main, .*/leak_program\.c:\d+$")
            self.check_json(json.loads(run(DUMP, "--json", program.pid).stdout)["stacks"])

    def check_json(self, stacks):
        self.assertEqual((stacks["sample_stacks"], stacks["samples_dropped"], stacks["count"]), (1024, 0, 1))
        (site,) = stacks["sites"]
        self.assertEqual((site["label"], site["state"]), ("session", "closing"))
        # 100 objects, each sampled with probability 1 - exp(-1008 / 1024); five standard deviations
        self.assertTrue(60 <= site["live_objects"] <= 140, site)
        self.assertGreater(stacks["samples_taken"], site["samples"])
        address = int(site["frames"][0], 16)
        (module,) = [m for m in stacks["modules"] if int(m["start"], 16) <= address < int(m["end"], 16)]
        self.assertEqual(module["path"], os.path.realpath(LEAK))

    def test_without_addr2line(self):
        with Program(program=LEAK, TSLAB_SAMPLE_STACKS="1K") as program:
            settle(TSLAB, program.pid)
            answer = run(DUMP, "--stacks", program.pid, env={"PATH": "/nonexistent"})
            self.assertEqual(answer.returncode, 0)
            self.assertIn("addr2line is not installed", answer.stderr)
            (frames,) = sites(answer.stdout)
            self.assertRegex(frames[0], "^" + os.path.realpath(LEAK) + r"\+0x[0-9a-f]+$")

    def test_off(self):
        with Program() as program:
            settle(TSLAB, program.pid)
            answer = run(DUMP, "--stacks", program.pid)
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))
            self.assertIn("stacks are not sampled", answer.stdout)


class ZDoctor(unittest.TestCase):
    """Last by its name."""

    def doctor_of(self, program, text):
        """The doctor's output as soon as the text is in it, or after 20 s."""
        deadline = time.time() + 20
        while True:
            answer = run(DUMP, "--doctor", program.pid)
            if text in answer.stdout or time.time() > deadline:
                return answer
            time.sleep(0.5)

    def test_names_the_lines_of_a_leak(self):
        with LEAKING as program:
            answer = self.doctor_of(program, "`session`")
            self.assertEqual(answer.returncode, 1)
            self.assertIn("warning: `session` has held", answer.stdout)
            if shutil.which("addr2line"):
                self.assertEqual(sites(answer.stdout)[0][0], f"remember, {LEAK_SOURCE}:{leaking_line()}")
            self.assertNotIn("TSLAB_SAMPLE_STACKS", answer.stdout)

    def test_a_leak_through_a_library(self):
        """Objects of one line of the program are one, with any calls of a library below it; and a static function of that
        library, which has no symbol, is nobody else's."""
        with LEAKING_THROUGH as program:
            answer = self.doctor_of(program, "`session` has held")
            # Bytes are estimated from samples.
            self.assertRegex(answer.stdout, r"site:     about 30\d\.\d kB in 300 objects, 300 samples, 3 stacks, of which the largest is\n")
            self.assertRegex(answer.stdout, r"site:     about 20\.\d kB in 20 objects, 20 samples\n")
            self.assertEqual(len(sites(answer.stdout)), 2)
            (finding,) = json.loads(run(DUMP, "--json", program.pid).stdout)["findings"]
            self.assertEqual([(s["stacks"], s["live_objects"]) for s in finding["sites"]], [(3, 300), (1, 20)])
            if not shutil.which("addr2line"):
                self.skipTest("no addr2line")
            for frames in sites(answer.stdout):
                self.assertRegex(frames[0], r"^/.*/libtools_stripped\.so\+0x[0-9a-f]+$")
                at = next(i for i, frame in enumerate(frames) if "library_take" in frame)
                self.assertRegex(frames[at], r"^library_take, /.*/libtools_stripped\.so\+0x[0-9a-f]+$")
                self.assertRegex(frames[at + 1], r"^(remember|work), ")
            self.assertIn(f"at remember, {THROUGH_SOURCE}:{leaking_line(THROUGH_SOURCE)}\n", answer.stdout)
            listed = sites(run(DUMP, "--stacks", program.pid).stdout)
            self.assertEqual(len(listed), 4)
            self.assertTrue(all(frames[0].startswith("/") for frames in listed), listed)

    def test_names_the_leak_of_a_program_that_hangs(self):
        with HUNG as program:
            answer = self.doctor_of(program, "handler:/api/7")
            self.assertEqual(answer.returncode, 1)
            self.assertRegex(answer.stdout, r"1\. warning: `handler:/api/7` has held 2\.5 kB in 128-byte objects for [1-9]\d s")
            self.assertIn("evidence: 20 live objects (2.5 kB) in 20 closed epochs keep", answer.stdout)
            self.assertIn("TSLAB_SAMPLE_STACKS=64K names the lines", answer.stdout)
            found = json.loads(run(DUMP, "--json", program.pid).stdout)["findings"]
            self.assertEqual([f["id"] for f in found], ["leak_after_close", "rejected_frees"])

    def test_all_allocators_of_a_process(self):
        """The leak is in the smaller one."""
        with SECOND as program:
            answer = self.doctor_of(program, "`handler:/api/7`")
            self.assertEqual((answer.returncode, answer.stderr), (1, ""))
            self.assertRegex(answer.stdout, r"^1\. warning: `handler:/api/7` has held 2\.5 kB in 128-byte objects for "
                             r"\d+ s after its close\n   in:       allocator 0 \(default\)\n   evidence: ")
            one = run(TSLAB, "doctor", "--allocator=0", program.pid)
            self.assertEqual((one.returncode, "   in: " in one.stdout), (1, False))
            other = run(TSLAB, "doctor", "--allocator=1", program.pid)
            self.assertEqual(other.returncode, 0)
            self.assertTrue(other.stdout.startswith("nothing found"))
            self.rows_of_two(program)

    def rows_of_two(self, program):
        stats = json.loads(run(DUMP, "--json", program.pid).stdout)
        default, created = {"number": 0, "name": "default"}, {"number": 1, "name": "created"}
        self.assertEqual([a["allocator"] for a in stats["allocators"]], [default, created])
        self.assertEqual([(l["label"], l["allocator"]) for l in stats["labels"]],
                         [("handler:/api/7", default), ("second", created)])
        self.assertEqual({e["label"]: e["allocator"] for e in stats["epochs"]},
                         {"handler:/api/7": default, "second": created})
        for figure in ("live_bytes", "committed_bytes", "allocated_objects_total", "closing_epoch_count"):
            self.assertEqual(stats["global"][figure], sum(a[figure] for a in stats["allocators"]))
        self.assertEqual(stats["global"]["resident_bytes"], stats["allocators"][0]["resident_bytes"])
        self.assertEqual([f["allocator"] for f in stats["findings"]], [default])
        (label,) = json.loads(run(DUMP, "--json", "--allocator=1", program.pid).stdout)["labels"]
        self.assertEqual(label["label"], "second")
        text = run(DUMP, program.pid).stdout
        self.assertTrue(text.startswith("allocator 0 (default)\ntemporal-slab: 20 live objects"))
        self.assertIn("\n\nallocator 1 (created)\ntemporal-slab: 1000 live objects", text)
        lines = run(TSLAB, "top", program.pid).stdout.splitlines()
        self.assertIn("in 1020 objects", lines[0])
        self.assertTrue(lines[2].endswith(" after its close, in allocator 0 (default)"), lines)
        self.assertEqual([(l.split()[0], *l.split()[-2:]) for l in lines[4:6]],
                         [("second", "1", "created"), ("handler:/api/7", "0", "default")])
        alone = run(TSLAB, "top", "--allocator=1", program.pid).stdout.splitlines()
        self.assertNotIn("ALLOCATOR", alone[2])
        self.assertEqual(len(alone), 4)
        self.assertEqual(run(TSLAB, "top", "--allocator=2", program.pid).returncode, 2)

    def test_nothing_found(self):
        with Program() as program:
            settle(TSLAB, program.pid)
            answer = run(DUMP, "--doctor", program.pid)
            self.assertEqual(answer.returncode, 0)
            # It runs with TSLAB_SHM=1, and is not told to.
            self.assertRegex(answer.stdout, r"^nothing found yet, watched for \d+ m?s \(what grows shows after 12 s\): 20 live objects")


class OneProgram(unittest.TestCase):
    def test_stats_dump_is_tslab_stats(self):
        self.assertTrue(os.path.samefile(DUMP, TSLAB))
        with Program() as program:
            settle(TSLAB, program.pid)
            os.kill(int(program.pid), signal.SIGSTOP)  # the page stays as it is
            for options in ([], ["--json"], ["--prometheus"], ["--doctor"], ["--stacks"]):
                one, other = run(DUMP, *options, program.pid), run(TSLAB, "stats", *options, program.pid)
                self.assertEqual((one.returncode, one.stdout), (other.returncode, other.stdout))
            os.kill(int(program.pid), signal.SIGCONT)
        self.assertIn("usage: stats_dump", run(DUMP, "--help").stdout)
        self.assertIn("usage: tslab stats", run(TSLAB, "stats", "--help").stdout)

    def test_doctor_of_several(self):
        with Program() as one, Program() as two:
            self.assertEqual(two.tell("misuse"), "refused")
            settle(TSLAB, one.pid)
            settle(TSLAB, two.pid)
            alone = run(TSLAB, "doctor", one.pid)
            self.assertEqual(alone.returncode, 0)
            self.assertTrue(alone.stdout.startswith("nothing found yet"))
            both = run(TSLAB, "doctor", one.pid, two.pid)
            self.assertEqual((both.returncode, both.stderr), (1, ""))
            self.assertRegex(both.stdout, rf"^process {one.pid}:\nnothing found yet.*\n\nprocess {two.pid}:\n1. warning: 1 free was")
            gone = run(TSLAB, "doctor", one.pid, "999999999", two.pid)
            self.assertEqual(gone.returncode, 3)
            self.assertIn("there is no process 999999999", gone.stderr)
            self.assertIn("1 free was refused", gone.stdout)


class Core(unittest.TestCase):
    """A core file has the page: those of the system and gdb, and here one that is made of a process's page."""

    @staticmethod
    def page_of(pid):
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            if "memfd:tslab-stats" in os.readlink(path):
                with open(path, "rb") as file:
                    return file.read()
        raise AssertionError("no page")

    @staticmethod
    def write_core(path, segments, kind=4):
        """An ELF file of 64 bits with those segments at multiples of a page."""
        head = b"\x7fELF\x02" + (b"\x01" if sys.byteorder == "little" else b"\x02") + b"\x01" + bytes(9)
        head += struct.pack("=HHIQQQIHHHHHH", kind, 62, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0)
        at, table = 4096, b""
        for s in segments:
            table += struct.pack("=IIQQQQQQ", 1, 4, at, 0x7F0000000000 + at, 0, len(s), len(s), 4096)
            at += (len(s) + 4095) // 4096 * 4096
        with open(path, "wb") as file:
            file.write((head + table).ljust(4096, b"\0"))
            for s in segments:
                file.write(s.ljust((len(s) + 4095) // 4096 * 4096, b"\0"))

    def check(self, core, pid):
        answer = run(TSLAB, "doctor", core)
        self.assertEqual((answer.returncode, answer.stderr), (1, ""))
        self.assertIn("1. warning: 1 free was refused", answer.stdout)
        stats = json.loads(run(TSLAB, "stats", "--json", core).stdout)
        self.assertEqual((stats["pid"], stats["global"]["live_objects"]), (pid, 20))
        top = run(TSLAB, "top", "--batch", core)
        self.assertEqual(top.returncode, 0, top.stderr)
        self.assertIn("CORE FILE: as it was at its end", top.stdout)
        self.assertIn("handler:/api/7", top.stdout)

    @unittest.skipIf(sys.maxsize < 2**32, "of 64 bits")
    def test_of_a_page(self):
        with tempfile.TemporaryDirectory() as where, Program() as program:
            self.assertEqual(program.tell("misuse"), "refused")
            settle(TSLAB, program.pid)
            core = os.path.join(where, "core")
            page = self.page_of(program.pid)
            self.write_core(core, [b"x" * 5000, page])
            self.check(core, int(program.pid))
            both = run(TSLAB, "doctor", core, program.pid)
            self.assertRegex(both.stdout, rf"^core file {core}:\n1\. [^$]*\n\nprocess {program.pid}:\n1\. ")
            self.write_core(core, [b"x" * 5000])
            answer = run(TSLAB, "doctor", core)
            self.assertEqual(answer.returncode, 3)
            self.assertIn("has no statistics page: the program ran without TSLAB_SHM=1; gdb with tslab-gdb.py", answer.stderr)
            self.write_core(core, [page], kind=2)  # a program
            for what, said in ((core, "no core file"), (os.path.join(where, "none"), "neither a process id nor a URL nor a core file")):
                answer = run(TSLAB, "doctor", what)
                self.assertIn(answer.returncode, (2, 3))
                self.assertIn(said, answer.stderr)
            self.write_core(core, [page[:4096]])  # cut off
            self.assertEqual(run(TSLAB, "doctor", core).returncode, 3)
            with open(core, "r+b") as file:
                file.truncate(70)
            self.assertEqual(run(TSLAB, "doctor", core).returncode, 3)

    def test_of_gdb(self):
        if not shutil.which("gcore"):
            self.skipTest("no gcore (gdb)")
        with tempfile.TemporaryDirectory() as where, Program() as program:
            self.assertEqual(program.tell("misuse"), "refused")
            settle(TSLAB, program.pid)
            subprocess.run(["gcore", "-o", os.path.join(where, "core"), program.pid], capture_output=True, timeout=120)
            core = os.path.join(where, "core." + program.pid)
            if not os.path.exists(core):
                self.skipTest("gcore may not look at a process here")
            self.check(core, int(program.pid))


class Page(unittest.TestCase):
    def test_of_a_stopped_process(self):
        with Program() as program:
            settle(TSLAB, program.pid)
            os.kill(int(program.pid), signal.SIGSTOP)
            time.sleep(2.5)
            answer = run(DUMP, "--json", program.pid)
            self.assertEqual(answer.returncode, 0)
            self.assertRegex(answer.stderr, r"written \d+\.\d s ago: process \d+ is stopped")
            self.assertEqual(json.loads(answer.stdout)["global"]["live_objects"], 20)
            self.assertIn("STOPPED", run(TSLAB, "top", program.pid).stdout)

    def test_a_child_of_fork_has_its_own(self):
        with Program() as program:
            child = program.tell("fork")
            try:
                settle(TSLAB, child)
                settle(TSLAB, program.pid)
                of_child = json.loads(run(DUMP, "--json", child).stdout)
                of_parent = json.loads(run(DUMP, "--json", program.pid).stdout)
                self.assertEqual((of_child["pid"], of_parent["pid"]), (int(child), int(program.pid)))
                self.assertEqual((of_child["global"]["live_objects"], of_parent["global"]["live_objects"]), (21, 20))
            finally:
                os.kill(int(child), signal.SIGTERM)

    def test_cannot_be_written_by_others(self):
        with Program() as program:
            settle(TSLAB, program.pid)
            fds = f"/proc/{program.pid}/fd"
            (path,) = [f"{fds}/{fd}" for fd in os.listdir(fds) if "memfd:tslab-stats" in os.readlink(f"{fds}/{fd}")]
            try:
                fd = os.open(path, os.O_RDWR)
            except PermissionError:
                return
            try:
                with self.assertRaises(OSError):
                    os.pwrite(fd, b"x", 0)
                with self.assertRaises(OSError):
                    os.ftruncate(fd, 0)
            finally:
                os.close(fd)

    def test_of_a_process_that_has_just_started(self):
        """As soon as its page is there, its allocator is, too."""
        for _ in range(20):
            env = {**{k: v for k, v in os.environ.items() if not k.startswith("TSLAB_")}, "TSLAB_SHM": "1"}
            with subprocess.Popen([TARGET], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
                while True:
                    answer = run(DUMP, str(program.pid))
                    if "has no statistics page" not in answer.stderr:
                        break
                self.assertEqual((answer.returncode, answer.stderr), (0, ""))
                program.stdin.close()

    def test_is_off_by_default_and_a_wrong_value_is_said(self):
        for value, said in (("0", ""), ("", ""), ("yes", 'tslab: TSLAB_SHM="yes" is not one of 0|1; using the default\n')):
            with Program(value) as program:
                answer = run(DUMP, program.pid)
                self.assertEqual(answer.returncode, 3)
                self.assertIn("has no statistics page", answer.stderr)
                program.tell("end")
                self.assertEqual(program.process.stderr.read(), said)

    def test_of_a_process_that_has_ended(self):
        with Program() as program:
            program.process.kill()
            os.waitid(os.P_PID, program.process.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
            for tool in ([DUMP], [TSLAB, "top"]):
                answer = run(*tool, program.pid)
                self.assertEqual((answer.returncode, answer.stdout), (3, ""))
                self.assertEqual(answer.stderr.split(": ", 1)[1], f"process {program.pid} has ended\n")

    @unittest.skipUnless(os.geteuid() == 0, "takes root")
    def test_why_another_may_not_read_it(self):
        if subprocess.run(["test", "-x", DUMP], user=65534, group=65534, extra_groups=[], check=False).returncode == 0:
            with Program() as program:
                answer = run(DUMP, program.pid, user=65534, group=65534, extra_groups=[])
                self.assertEqual(answer.returncode, 3)
                self.assertIn("a statistics page, if it has one, is for that user and root only", answer.stderr)
        try:
            for fd in os.listdir("/proc/1/fd"):
                os.readlink(f"/proc/1/fd/{fd}")
        except PermissionError:  # in a container whose root is not that of the host
            answer = run(DUMP, "1")
            self.assertEqual(answer.returncode, 3)
            self.assertIn("process 1: its files cannot be looked at (Permission denied), though this is root", answer.stderr)

    def test_without_a_target(self):
        with Program() as one:
            settle(TSLAB, one.pid)
            with Program() as two:
                settle(TSLAB, two.pid)
                answer = run(DUMP)
                self.assertEqual(answer.returncode, 2)
                self.assertIn("which one?", answer.stderr)
                for program in (one, two):
                    self.assertIn(f" {program.pid}  tools_target", answer.stderr)


class Lines(unittest.TestCase):
    """The library's messages on its variables, one line each."""

    def said(self, **variables):
        with Program(shm="0", **variables) as program:
            program.tell("end")
            return program.process.stderr.read()

    def test_http_without_its_library(self):
        self.assertEqual(self.said(TSLAB_HTTP="127.0.0.1:0"), "tslab: TSLAB_HTTP: libtslab-http is not in this process: "
                         "link or preload it, or use tslab run --http\n")
        for off in ("0", ""):
            self.assertEqual(self.said(TSLAB_HTTP=off), "")

    def test_budget(self):
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("TSLAB_")}, "TSLAB_BUDGET": "64K"}
        program = subprocess.run([TARGET], env=env, input="second\n", capture_output=True, text=True, timeout=60)
        self.assertEqual(program.returncode, 1)  # it has not the memory that it wants
        self.assertRegex(program.stderr, r"^tslab: budget of 65536 bytes reached: no memory for an object of \d+ bytes\n$")


class Usage(unittest.TestCase):
    def test_help_and_version(self):
        for tool in (DUMP, TSLAB):
            answer = run(tool, "--help")
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))
            self.assertTrue(answer.stdout.startswith("usage: "))
            self.assertRegex(run(tool, "--version").stdout, r"^(stats_dump|tslab) \d+\.\d+\.\d+\n$")

    def test_man_page_names_every_option(self):
        with open(os.path.join(SOURCE, "man", "tslab.1"), encoding="utf-8") as file:
            page = file.read().replace("\\-", "-")
        for command in ("top", "stats", "doctor", "run"):
            for word in run(TSLAB, command, "--help").stdout.split():
                if word.startswith("--") and len(word) > 3:
                    option = word.split("=")[0].split("[")[0].split("|")[0].rstrip(",.)]")
                    if option not in ("--help", "--version"):
                        self.assertIn(option, page)

    def test_wrong_usage(self):
        for command, said in (([DUMP, "--jsn"], "'--jsn'"), ([DUMP, "--json", "--text"], "'--text'"),
                              ([DUMP, "12x"], "'12x'"), ([DUMP, "0"], "'0'"), ([DUMP, "-1"], "'-1'"), ([DUMP, "--allocator"], "no value behind '--allocator'"),
                              ([DUMP, "1", "2"], "'2'"), ([DUMP, "--watch=0"], "'--watch=0'"),
                              ([DUMP, "--allocator=-1"], "'--allocator=-1'"), ([DUMP, "https://x"], "'https://x'"),
                              ([TSLAB, "top", "--allocator=x"], "'--allocator=x'"),
                              ([DUMP, "http://"], "'http://'"), ([DUMP, "http://h:p"], "'http://h:p'"),
                              ([DUMP, "http://h:0"], "'http://h:0'"), ([DUMP, "http://h:99999"], "'http://h:99999'"),
                              ([DUMP, "http://h/metrics"], "'http://h/metrics'"), ([TSLAB, "tip"], "'tip'"),
                              ([TSLAB, "top", "--sort=size"], "'--sort=size'"),
                              ([TSLAB, "top", "--frames=0"], "'--frames=0'"),
                              ([TSLAB, "stats", "1", "2"], "'2'; see tslab stats --help"),
                              ([TSLAB, "doctor", "--json"], "'--json'; see tslab doctor --help"), ([TSLAB], "usage")):
            answer = run(*command)
            self.assertEqual(answer.returncode, 2, command)
            self.assertIn(said, answer.stderr)
            self.assertEqual(answer.stdout, "")

    def test_no_target(self):
        for command, said in (([DUMP, "2147483647"], "no process 2147483647"),
                              ([DUMP, str(os.getpid())], "has no statistics page"),
                              ([DUMP, "http://127.0.0.1:1"], "http://127.0.0.1:1: Connection refused"),
                              ([TSLAB, "top", "http://127.0.0.1:1"], "Connection refused")):
            answer = run(*command)
            self.assertEqual(answer.returncode, 3, command)
            self.assertIn(said, answer.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
