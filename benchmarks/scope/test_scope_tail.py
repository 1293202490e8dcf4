#!/usr/bin/env python3
"""Tests of the command lines and files of scope_bench and tail_attribution.

CORE_BENCH_DIR names the folder of the built programs.
"""

import csv
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAMS = pathlib.Path(os.environ.get("CORE_BENCH_DIR", "build/release/benchmarks"))

SCOPE_COLUMNS = ["allocator", "version", "objects_per_scope", "scopes_open", "ns_per_object", "p99_ns_per_scope",
                 "peak_rss_bytes", "payload_bytes", "rounds"]
TAIL_COLUMNS = ["allocator", "version", "rank", "op", "bytes", "path", "verdict", "wall_ns", "cpu_ns", "wait_ns",
                "minor_faults", "major_faults", "voluntary_switches", "involuntary_switches"]
STEPS = {"fast", "refill", "new_slab", "fresh_memory", "foreign_drain", "slab_used_up", "slab_from_full",
         "slab_emptied", "purge", "lock_wait"}
VERDICTS = {"scheduler", "page_fault", "allocator", "machine"}


def run(program, *arguments):
    return subprocess.run([PROGRAMS / program, *arguments], capture_output=True, text=True, timeout=120, check=False)


def rows_of(path):
    with open(path, newline="", encoding="ascii") as file:
        return list(csv.DictReader(file))


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.csv = pathlib.Path(self.folder.name) / "figures.csv"

    def refuse(self, program, arguments, named):
        answer = run(program, *arguments)
        self.assertEqual(answer.returncode, 2, f"{program} {arguments}: {answer.stderr}")
        self.assertIn(named, answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1)
        self.assertEqual(answer.stdout, "")


class Places(Programs):
    """Where a file may go: what is no file is written to as it is, and none of it is replaced."""

    def test_a_link_and_a_pipe_stay(self):
        for program in ("scope_bench", "tail_attribution"):
            arguments = ["--smoke"] + (["--allocator", "tslab"] if program == "scope_bench" else [])
            real, link, pipe = (pathlib.Path(self.folder.name) / name for name in ("real.csv", "link.csv", "pipe"))
            real.write_text("old\n", encoding="ascii")
            link.unlink(missing_ok=True)
            link.symlink_to(real)
            self.assertEqual(run(program, *arguments, "--csv", link).returncode, 0)
            self.assertTrue(link.is_symlink())
            self.assertIn("allocator,", real.read_text(encoding="ascii"))
            pipe.unlink(missing_ok=True)
            os.mkfifo(pipe)
            reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
            self.assertEqual(run(program, *arguments, "--csv", pipe).returncode, 0)
            self.assertIn("allocator,", reader.communicate(timeout=300)[0])
            self.assertTrue(pipe.is_fifo())
            self.assertEqual(sorted(os.listdir(self.folder.name)), ["link.csv", "pipe", "real.csv"])

    def test_a_folder_is_refused_at_once(self):
        for program in ("scope_bench", "tail_attribution"):
            self.refuse(program, ["--smoke", "--csv", self.folder.name], self.folder.name)

    @unittest.skipUnless(pathlib.Path("/dev/full").is_char_device(), "no /dev/full")
    def test_what_is_full_at_the_end_is_a_bad_place_too(self):
        for program in ("scope_bench", "tail_attribution"):
            arguments = ["--smoke"] + (["--allocator", "tslab"] if program == "scope_bench" else [])
            answer = run(program, *arguments, "--csv", "/dev/full")
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertIn(f"{program}: --csv /dev/full: No space left on device\n", answer.stderr)


class Absent(Programs):
    def test_a_peer_removed_since_the_build_is_left_out(self):
        folder = pathlib.Path(self.folder.name)
        for name in ("scope_bench", "scope_bench_none", "scope_bench_tslab", "scope_bench_glibc"):
            (folder / name).write_bytes((PROGRAMS / name).read_bytes())
            (folder / name).chmod(0o755)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(PROGRAMS.parent)}
        for arguments, code in ([], 0), (["--allocator", "apr"], 3):
            answer = subprocess.run([folder / "scope_bench", "--smoke", *arguments], capture_output=True, text=True, timeout=120,
                                    env=environment, check=False)
            self.assertEqual(answer.returncode, code, answer.stderr)
            self.assertIn("apr", answer.stderr)


class BadArguments(Programs):
    def test_scope_bench(self):
        for arguments, named in [
            (["--bogus"], "--bogus"), (["more"], "more"), (["--csv"], "--csv"), (["--allocator"], "--allocator"),
            (["--allocator", "nobody"], "nobody"), (["--objects", "7"], "'7'"), (["--objects", "-1"], "'-1'"),
            (["--objects", ""], "''"), (["--open", "1e3"], "'1e3'"), (["--open", "100000"], "'100000'"),
            (["--live", "1000001"], "'1000001'"), (["--rounds", "0"], "'0'"), (["--rounds", "26"], "'26'"), (["--rounds", "3x"], "'3x'"),
            (["--seconds", "0"], "'0'"), (["--seconds", "nan"], "'nan'"), (["--seconds", "61"], "'61'"),
            (["--objects", "100000", "--open", "10000"], "100000"), (["--smoke", "--open", "1"], "--smoke"),
            (["--csv", "--smoke"], "'--csv', not '--smoke'"), (["--rounds", "--smoke"], "'--rounds', not '--smoke'"),
            (["--smoke", "--csv", "/no/such/folder/f.csv"], "/no/such/folder/f.csv"),
        ]:
            self.refuse("scope_bench", arguments, named)

    def test_a_single_measurement(self):
        for arguments, named in [
            (["--bogus"], "--bogus"), ([], "--objects"), (["--objects", "10"], "--open"),
            (["--objects", "0", "--open", "1"], "'0'"), (["--objects", "1000000", "--open", "2"], "--objects x --open"),
            (["--objects", "1", "--open", "1", "--seconds", "-1"], "'-1'"),
            (["--objects", "--smoke"], "'--objects', not '--smoke'"),
        ]:
            self.refuse("scope_bench_none", arguments, named)

    def test_tail_attribution(self):
        for arguments, named in [
            (["--bogus"], "--bogus"), (["--csv"], "--csv"), (["--ops", "0"], "'0'"), (["--ops", "9x"], "'9x'"),
            (["--top", "10001"], "'10001'"), (["--top", "-3"], "'-3'"), (["--seed", "x"], "'x'"),
            (["--csv", "--smoke"], "'--csv', not '--smoke'"), (["--top", "--smoke"], "'--top', not '--smoke'"),
            (["--smoke", "--csv", "/no/such/folder/f.csv"], "/no/such/folder/f.csv"),
        ]:
            self.refuse("tail_attribution", arguments, named)

    def test_what_cannot_be_printed(self):
        for program in ("scope_bench", "tail_attribution"):
            with open("/dev/full", "w", encoding="utf-8") as full:
                answer = subprocess.run([PROGRAMS / program, "--smoke"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(answer.returncode, 2, program)
            self.assertIn("cannot write to the standard output", answer.stderr)

    def test_help(self):
        for program in ["scope_bench", "scope_bench_none", "tail_attribution"]:
            answer = run(program, "--help")
            self.assertEqual(answer.returncode, 0)
            self.assertTrue(answer.stdout.startswith(f"usage: {program}"))


class ScopeBench(Programs):
    def test_list_names_every_allocator_once(self):
        answer = run("scope_bench", "--list")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        names = [line.split()[0] for line in answer.stdout.splitlines()]
        self.assertEqual(len(names), len(set(names)))
        for name in ["none", "tslab", "mimalloc", "jemalloc", "apr", "talloc", "pmr", "bumpalo"]:
            self.assertIn(name, names)
        for line in answer.stdout.splitlines():
            if line.split()[1] != "absent":
                self.assertTrue((PROGRAMS / f"scope_bench_{line.split()[0]}").exists(), line)

    def test_csv(self):
        answer = run("scope_bench", "--smoke", "--allocator", "tslab", "--csv", self.csv)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        rows = rows_of(self.csv)
        self.assertEqual(list(rows[0])[:len(SCOPE_COLUMNS)], SCOPE_COLUMNS)
        self.assertEqual({row["allocator"] for row in rows}, {"none", "tslab"})
        shapes = {(int(row["objects_per_scope"]), int(row["scopes_open"])) for row in rows}
        self.assertEqual(shapes, {(10, 10)})
        self.assertEqual(len(rows), 2 * len(shapes))
        for row in rows:
            objects = int(row["objects_per_scope"]) * int(row["scopes_open"])
            self.assertGreaterEqual(int(row["payload_bytes"]), 16 * objects)
            self.assertLessEqual(int(row["payload_bytes"]), 1040 * objects)
            self.assertGreater(float(row["ns_per_object"]), 0)
            self.assertGreater(float(row["p99_ns_per_scope"]) + 1, 0)
            self.assertGreaterEqual(float(row["drop_ns_per_scope"]), 0)
            self.assertEqual(int(row["rounds"]), 1)
            self.assertEqual(row["ns_of_rounds"], row["ns_per_object"])
            self.assertAlmostEqual(float(row["drop_ns_of_rounds"]), float(row["drop_ns_per_scope"]), delta=0.06)
        self.assertEqual(os.listdir(self.folder.name), ["figures.csv"])

    def test_more_objects_hold_more_memory(self):
        answer = run("scope_bench_tslab", "--objects", "1000", "--open", "100", "--seconds", "0.001")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        peak, payload = (int(field) for field in answer.stdout.split(",")[3:5])
        self.assertGreater(payload, 1000 * 100 * 500)
        self.assertLess(payload, 1000 * 100 * 556)
        self.assertGreater(peak, payload)
        self.assertLess(peak, 2 * payload)

    def test_an_interrupted_run_leaves_nothing(self):
        probe = run("scope_bench", "--allocator", "none", "--objects", "1", "--open", "1", "--rounds", "1")
        if probe.returncode == 3:
            self.skipTest(probe.stderr.strip())
        process = subprocess.Popen([PROGRAMS / "scope_bench", "--allocator", "tslab", "--csv", self.csv],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not os.listdir(self.folder.name):
            self.assertIsNone(process.poll(), "it ended before it was interrupted")
        process.terminate()
        self.assertEqual(process.wait(timeout=300), 128 + 15)
        process.stderr.close()
        self.assertEqual(os.listdir(self.folder.name), [])


class TailAttribution(Programs):
    def test_csv(self):
        answer = run("tail_attribution", "--smoke", "--top", "25", "--csv", self.csv)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        rows = rows_of(self.csv)
        self.assertEqual(list(rows[0])[:len(TAIL_COLUMNS)], TAIL_COLUMNS)
        self.assertEqual([int(row["rank"]) for row in rows], list(range(1, 26)))
        walls = [int(row["wall_ns"]) for row in rows]
        self.assertEqual(walls, sorted(walls, reverse=True))
        for row in rows:
            self.assertIn(row["op"], {"alloc", "free"})
            self.assertIn(row["verdict"], VERDICTS)
            self.assertLessEqual(set(row["path"].split("+")), STEPS)
            self.assertEqual(int(row["wait_ns"]), max(0, int(row["wall_ns"]) - int(row["cpu_ns"])))
            self.assertTrue(16 <= int(row["bytes"]) <= 1040)
        # With 256 KiB kept, giving memory back and getting it again takes longest.
        slow = {step for row in rows for step in row["path"].split("+")}
        self.assertLessEqual({"purge", "fresh_memory"}, slow)
        self.assertEqual(os.listdir(self.folder.name), ["figures.csv"])


if __name__ == "__main__":
    unittest.main()
