#!/usr/bin/env python3
"""tslab run: the program has temporal-slab as its malloc, its options, and a page. Arguments: DIRECTORY OF THE TOOLS, HTTP LIBRARY or -."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.request

from listening import port_of
from page import settle

TOOLS, HTTP = os.path.abspath(sys.argv[1]), sys.argv[2]
TSLAB = os.path.join(TOOLS, "tslab")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_") and k != "LD_PRELOAD"}


def tslab(*arguments, **more):
    return subprocess.run([TSLAB, *arguments], capture_output=True, text=True, timeout=300, env=ENVIRONMENT, **more)


# Says when it runs, and ends with its input.
HOLDER = "import sys; x = bytearray(5000000); print('holds', flush=True); sys.stdin.read()"


class Holder:
    def __init__(self, *options):
        self.process = subprocess.Popen([TSLAB, "run", *options, sys.executable, "-c", HOLDER], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        assert self.process.stdout.readline() == "holds\n"

    def __enter__(self):
        return self.process

    def __exit__(self, *unused):
        self.process.communicate("", timeout=300)


class Run(unittest.TestCase):
    def test_is_the_malloc(self):
        answer = tslab("run", "sh", "-c", "grep -c libtslab-malloc /proc/self/maps")
        self.assertEqual(answer.returncode, 0)
        self.assertGreater(int(answer.stdout), 0)

    def test_keeps_status_arguments_and_input(self):
        answer = tslab("run", "sh", "-c", 'read -r line; echo "$line $1"; exit 7', "sh", "--retain", input="given\n")
        self.assertEqual((answer.returncode, answer.stdout, answer.stderr), (7, "given --retain\n", ""))

    def test_options_are_variables(self):
        answer = tslab("run", "--retain", "8M", "--budget=1G", "--poison", "--abort", "--stacks", "64K", "--", "sh", "-c",
                       'echo "$TSLAB_RETAIN $TSLAB_BUDGET $TSLAB_POISON $TSLAB_ON_MISUSE $TSLAB_SAMPLE_STACKS $TSLAB_SHM $TSLAB_BACKGROUND"')
        self.assertEqual((answer.stdout, answer.stderr), ("8M 1G 1 abort 64K 1 1\n", ""))

    def test_a_path_that_cannot_be_preloaded_is_said(self):
        libraries = subprocess.run([TSLAB, "run", "sh", "-c", "cat /proc/self/maps"], capture_output=True, text=True, env=ENVIRONMENT)
        (library,) = {line.split()[-1] for line in libraries.stdout.splitlines() if "libtslab-malloc" in line}
        for name, said in (("a b", "a path with a space or a colon"), ("a:b", "a path with a space or a colon"), ("ab", None)):
            with tempfile.TemporaryDirectory() as directory:
                for part in ("tools", "src/malloc"):
                    os.makedirs(os.path.join(directory, name, part))
                tool = shutil.copy(TSLAB, os.path.join(directory, name, "tools"))
                if said:
                    shutil.copy(library, os.path.join(directory, name, "src/malloc/libtslab-malloc.so.0"))
                answer = subprocess.run([tool, "run", "echo", "done"], capture_output=True, text=True, env=ENVIRONMENT)
                self.assertEqual((answer.returncode, answer.stdout), (126, ""), name)
                self.assertIn(said or "libtslab-malloc.so.0 is not found", answer.stderr)

    def test_a_namespace_that_is_for_one_thread(self):
        if subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode != 0:
            self.skipTest("no namespaces of users here")
        answer = tslab("run", "unshare", "-Ur", "id", "-u")
        self.assertEqual((answer.returncode, answer.stdout, answer.stderr), (0, "0\n", ""))
        # In a child of fork the background thread begins when the child first needs it, so before the call or after it.
        code = """if True:
            import ctypes, os, sys, time
            if os.fork() != 0:
                os._exit(os.waitstatus_to_exitcode(os.wait()[1]))

            def threads(least):
                for _ in range(1000):
                    if len(os.listdir("/proc/self/task")) >= least:
                        break
                    time.sleep(0.01)
                return len(os.listdir("/proc/self/task"))

            before = threads(2)
            if ctypes.CDLL(None).unshare(0x10000000) != 0:
                os._exit(9)
            os._exit(0 if before >= 2 and threads(before) >= before else 8)
        """
        self.assertEqual(tslab("run", sys.executable, "-c", code).returncode, 0, "the library's own threads are there again")

    def test_wrong_usage(self):
        for arguments in (["run"], ["run", "--nonsense", "true"], ["run", "--retain"], ["run", "--poison=1", "true"]):
            self.assertEqual(tslab(*arguments).returncode, 2, arguments)
        for value in ("lots", "", "-1", "64X", "64MB", "99999999999999999999", "17179869184G"):
            for option in ("--retain", "--budget", "--stacks"):
                answer = tslab("run", option, value, "echo", "ran")
                self.assertEqual((answer.returncode, answer.stdout), (2, ""), (option, value))
                self.assertIn(option, answer.stderr)
        for value in ("1", "64K", "1048575", "1023K"):
            answer = tslab("run", "--budget", value, "echo", "ran")
            self.assertEqual((answer.returncode, answer.stdout), (2, ""), value)
            self.assertIn(f"--budget '{value}': 1M at least", answer.stderr)
        for value in ("0", "1M", "1048576", "1024k"):
            self.assertEqual(tslab("run", "--budget", value, "sh", "-c", "echo ran").stdout, "ran\n", value)
        for value in ("nowhere:99999999", "nowhere.invalid:9464", "99999", "127.0.0.1", "127.0.0.1:", "::1:80", "[::1:80", ""):
            answer = tslab("run", "--http", value, "echo", "ran")
            self.assertEqual((answer.returncode, answer.stdout), (2, ""), value)
            self.assertIn(f"--http '{value}': an address" if value else "--http needs a value", answer.stderr)
        for value in ("foo", "canary,foo", "canary,", ",", "Canary", "2"):
            answer = tslab("run", "--hard=" + value, "echo", "ran")
            self.assertEqual((answer.returncode, answer.stdout), (2, ""), value)
            self.assertIn(f"--hard '{value}'", answer.stderr)
        self.assertEqual(tslab("run", "--retain=64m", "--stacks", "0", "echo", "ran").stdout, "ran\n")
        self.assertEqual(tslab("run", "--help").returncode, 0)
        for command in ("run", "top", "stats", "doctor"):
            texts = {tslab(*words).stdout for words in ([command, "--help"], [command, "-h"], ["help", command])}
            self.assertEqual(len(texts), 1, command)
            self.assertIn("usage: tslab " + command, texts.pop())
        for words in (["help"], ["-h"], ["--help"]):
            answer = tslab(*words)
            self.assertEqual((answer.returncode, answer.stderr), (0, ""), words)
            self.assertIn("usage: tslab top", answer.stdout)
        self.assertEqual(tslab("help", "nonsense").returncode, 2)
        self.assertEqual(tslab("run", "./no such program").returncode, 127)
        self.assertEqual(tslab("run", "/").returncode, 126)

    def test_text_that_cannot_be_written_is_an_error(self):
        commands = [[TSLAB, *words] for words in (["--help"], ["--version"], ["help"], *(["help", c] for c in ("run", "top", "stats", "doctor")))]
        commands += [[os.path.join(TOOLS, "stats_dump"), word] for word in ("--help", "--version")]
        for command in commands:
            with open("/dev/full", "w", encoding="ascii") as full:
                answer = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, check=False)
            self.assertEqual(answer.returncode, 3, command)
            self.assertIn("stdout: No space left on device", answer.stderr)

    def test_keeps_what_is_preloaded(self):
        answer = subprocess.run([TSLAB, "run", "sh", "-c", "echo $LD_PRELOAD"], capture_output=True, text=True, timeout=300,
                                env=dict(ENVIRONMENT, LD_PRELOAD="libc.so.6"), check=True)
        self.assertRegex(answer.stdout, r"/libtslab-malloc\.so[.0-9]*:libc\.so\.6\n")

    def test_tells_of_misuse(self):
        crime = "import ctypes; f = ctypes.CDLL(None).free; f.argtypes = [ctypes.c_void_p]; f(0x1230); print('on')"
        answer = tslab("run", "--report", sys.executable, "-c", crime)
        self.assertEqual((answer.returncode, answer.stdout), (0, "on\n"))
        self.assertEqual(answer.stderr, "tslab: free: pointer 0x1230: not memory of temporal-slab\n")
        answer = tslab("run", "--abort", sys.executable, "-c", crime)
        self.assertEqual((answer.returncode, answer.stdout), (-6, ""))

    def test_samples_stacks(self):
        for options, rate in ([], "512K"), (["--stacks", "0"], "0"):
            answer = tslab("run", *options, "sh", "-c", 'echo "$TSLAB_SAMPLE_STACKS"')
            self.assertEqual(answer.stdout, rate + "\n")

    def test_says_who_holds_what(self):
        if not shutil.which("addr2line"):
            self.skipTest("no addr2line")
        with subprocess.Popen([TSLAB, "run", "--stacks", "128K", os.path.join(TOOLS, "tools_holders")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, env=ENVIRONMENT) as process:
            self.assertEqual(process.stdout.readline(), "holds\n")
            settle(TSLAB, process.pid)
            answer = tslab("doctor", str(process.pid))
            top, stats = tslab("top", "--batch", str(process.pid)), json.loads(tslab("stats", "--json", str(process.pid)).stdout)
            process.communicate("", timeout=300)
        self.assertEqual(process.returncode, 0)
        text = answer.stdout[answer.stdout.index("who holds what, estimated from "):]
        ways = text.split("   about ")[1:4]  # the rest are some bytes of libc's, which may be in a sample, too
        for way, name, wanted in zip(ways, ("fill_cache", "load_index", "collect"), (64, 24, 12)):
            self.assertIn(name, way, text)
            self.assertNotRegex(way, r"\bat main\b")  # all but the thread come from there
            self.assertLess(abs(float(way.split()[0]) - wanted), 6 * (wanted * 0.131) ** 0.5, text)  # standard deviations
        self.assertEqual(len(ways), 3, text)
        # By the names of the threads; the same in tslab top and in JSON.
        self.assertRegex(text, r"(?s)samples, by the thread that allocated it:\n +tools_holders: about \d.*\n +collector: about \d")
        held = r" +\d+\.\d MB +\d+  "
        for way in ("serve > fill_cache > keep", "serve > load_index > keep", "collect > keep > allocate", "tools_holders", "collector"):
            self.assertRegex(top.stdout, rf"(?m)^{held}{way}$")
        holders = stats["holders"]
        self.assertEqual([t["name"] for t in holders["threads"]], ["tools_holders", "collector"])
        self.assertEqual(sum(t["samples"] for t in holders["threads"]), holders["samples"])
        self.assertLess(abs(holders["threads"][1]["live_bytes"] / 1e6 - 12), 6 * (12 * 0.131) ** 0.5)
        frames = {f for site in stats["stacks"]["sites"] for f in site["frames"]}
        self.assertGreaterEqual(len(holders["functions"]), 3)
        for function in holders["functions"][:3]:
            self.assertTrue(function["frames"] and set(function["frames"]) <= frames, holders)

    @unittest.skipIf(HTTP == "-", "there is no libtslab-http")
    def test_children_that_cannot_have_the_port_say_nothing(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
            taken = tslab("run", "--http", f"127.0.0.1:{port}", "sh", "-c", ":")
            self.assertIn("Address already in use", taken.stderr)  # the program itself says so
        answer = tslab("run", "--http", f"127.0.0.1:{port}", "sh", "-c", "sh -c 'echo one'; sh -c 'echo two'; :")
        self.assertEqual((answer.returncode, answer.stdout, answer.stderr), (0, "one\ntwo\n", ""))

    @unittest.skipIf(HTTP == "-", "there is no libtslab-http")
    def test_serves_who_holds_what(self):
        with subprocess.Popen([TSLAB, "run", "--http", "127.0.0.1:0", "--stacks", "128K", os.path.join(TOOLS, "tools_holders")],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
            self.assertEqual(process.stdout.readline(), "holds\n")
            address = f"http://127.0.0.1:{port_of(process.pid)}"
            page = urllib.request.urlopen(address + "/", timeout=20).read().decode()
            self.assertIn('id="holders"', page)
            holders = json.loads(urllib.request.urlopen(address + "/stats.json", timeout=20).read())["holders"]
            names = json.loads(urllib.request.urlopen(address + "/functions.json", timeout=20).read())
            process.communicate("", timeout=300)
        self.assertEqual([t["name"] for t in holders["threads"]][:2], ["tools_holders", "collector"])
        ways = [[names.get(f, "?") for f in function["frames"]] for function in holders["functions"]]
        self.assertEqual(ways[:3], [["serve", "fill_cache", "keep"], ["serve", "load_index", "keep"], ["collect", "keep", "allocate"]])

    def test_says_of_hard(self):
        answer = tslab("run", "--hard", "sh", "-c", 'echo "$TSLAB_HARDEN"')
        self.assertEqual((answer.returncode, answer.stdout), (0, "1\n"))
        answer = tslab("run", "--hard=canary,kinds", "sh", "-c", 'echo "$TSLAB_HARDEN"')
        self.assertEqual((answer.returncode, answer.stdout), (0, "canary,kinds\n"))

    def test_has_a_page(self):
        with Holder("--stacks", "16K") as process:
            top = tslab("top", "--batch", str(process.pid))
            self.assertEqual(top.returncode, 0, top.stderr)
            self.assertRegex(top.stdout, r"(?m)^malloc\s")
            stats = subprocess.run([os.path.join(TOOLS, "stats_dump"), "--stacks", str(process.pid)], capture_output=True, text=True,
                                   timeout=300, check=True).stdout
            self.assertIn("live", stats)
            doctor = subprocess.run([os.path.join(TOOLS, "stats_dump"), "--doctor", str(process.pid)], capture_output=True, text=True,
                                    timeout=300, check=False)
            self.assertIn(doctor.returncode, (0, 1), doctor.stderr)

    @unittest.skipIf(HTTP == "-", "there is no libtslab-http")
    def test_serves(self):
        with Holder("--http", "127.0.0.1:0") as process:
            metrics = urllib.request.urlopen(f"http://127.0.0.1:{port_of(process.pid)}/metrics", timeout=20).read().decode()
            self.assertRegex(metrics, r'temporal_slab_\w+\{[^}]*label="malloc"')

    @unittest.skipUnless(shutil.which("cc"), "there is no compiler")
    def test_says_that_a_program_is_static(self):
        with tempfile.TemporaryDirectory() as directory:
            source, program = os.path.join(directory, "p.c"), os.path.join(directory, "p")
            with open(source, "w", encoding="ascii") as f:
                f.write("int main(void) { return 3; }\n")
            if subprocess.run(["cc", "-static", source, "-o", program], capture_output=True, check=False).returncode != 0:
                self.skipTest("nothing can be linked statically here")
            answer = tslab("run", program)
            self.assertEqual(answer.returncode, 3)
            self.assertIn("linked statically", answer.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
