#!/usr/bin/env python3
"""tslab replay. Argument: DIRECTORY OF THE TOOLS."""
import csv
import html
import json
import os
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.abspath(sys.argv[1])
TSLAB = os.path.join(TOOLS, "tslab")
WORK = tempfile.mkdtemp(prefix="tslab-replay-")
KNOWN = os.path.join(WORK, "known.trace")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_") and k != "LD_PRELOAD"}


def replay(*arguments):
    return subprocess.run([TSLAB, "replay", *arguments], capture_output=True, text=True, timeout=300, env=ENVIRONMENT)


def figures(*arguments):
    answer = replay("--json", "--rounds", "1", *arguments)
    if answer.returncode:
        raise AssertionError(answer.stderr)
    return json.loads(answer.stdout)


class Replaying(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run([os.path.join(TOOLS, "tools_replay_trace"), KNOWN], check=True)

    def one_line(self, answer, code, *parts):
        self.assertEqual(answer.returncode, code, answer.stderr)
        self.assertEqual(answer.stdout, "")
        self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
        for part in parts:
            self.assertIn(part, answer.stderr)

    def test_operations_and_live_bytes(self):
        found = figures("--allocator", "malloc,tslab", KNOWN)
        self.assertEqual((found["mallocs"], found["frees"], found["reallocs"]), (20000, 19990, 5000))
        self.assertEqual(found["threads"], 2)
        self.assertEqual(found["left_out"], 1)
        self.assertEqual(found["live_peak_bytes"], 10000 * 1000 + 5000 * 4000)
        self.assertEqual(found["live_end_bytes"], 5 * 1000 + 5 * 5000)
        self.assertEqual([a["name"] for a in found["allocators"]], ["malloc", "tslab"])
        for a in found["allocators"]:
            self.assertEqual((a["mallocs"], a["frees"], a["reallocs"]), (20000, 19990, 5000), a)
            peak = a["peak_bytes"]["median"]
            self.assertGreaterEqual(peak, found["live_peak_bytes"], a)
            self.assertLess(peak, 2 * found["live_peak_bytes"], a)
            self.assertGreaterEqual(peak, a["final_bytes"]["median"], a)
            for of in ("time_ns", "cpu_ns", "peak_bytes", "final_bytes"):
                self.assertLessEqual(a[of]["low"], a[of]["median"], a)
                self.assertLessEqual(a[of]["median"], a[of]["high"], a)
            for of in ("malloc_ns", "free_ns"):
                self.assertLessEqual(a[of]["p50"], a[of]["p99"], a)
                self.assertLessEqual(a[of]["p99"], a[of]["p99_9"], a)

    def test_course(self):
        out = os.path.join(WORK, "course.csv")
        figures("--allocator", "tslab,malloc", "--csv", out, KNOWN)
        with open(out, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(list(rows[0]), ["time_ns", "operations", "live_bytes", "tslab", "malloc"])
        self.assertEqual(max(int(r["live_bytes"]) for r in rows), 30000000)
        self.assertGreater(len(rows), 200)
        times = [int(r["time_ns"]) for r in rows]
        self.assertEqual(times, sorted(times))
        for row in rows:
            if int(row["live_bytes"]) > 10000000:
                self.assertGreaterEqual(int(row["malloc"]), int(row["live_bytes"]) * 0.9, row)
                self.assertGreaterEqual(int(row["tslab"]), int(row["live_bytes"]) * 0.9, row)

    def turns(self, command="known"):
        """A trace with a boundary, and the advice for it."""
        trace, plan = os.path.join(WORK, "turns.trace"), os.path.join(WORK, "turns.plan")
        subprocess.run([os.path.join(TOOLS, "tools_replay_trace"), trace, "turns", command], check=True)
        with open(plan, "w", encoding="utf-8") as file:
            subprocess.run([TSLAB, "advise", "--json", trace], check=True, stdout=file)
        return trace, plan

    def test_plan(self):
        """200 turns of 30 objects and one pair outside; 20 objects stay."""
        trace, plan = self.turns()
        found = figures("--allocator", "malloc,tslab", "--plan", plan, trace)
        self.assertEqual(found["plan"], {"address": "0x5000", "turns": 200, "frees_saved": 200 * 30 - 20})
        done = {a["name"]: (a["mallocs"], a["frees"]) for a in found["allocators"]}
        self.assertEqual(done, {"malloc": (6200, 6180), "tslab": (6200, 6180), "captured": (6200, 6180), "planned": (6200, 200)})
        planned = found["allocators"][3]
        self.assertLess(planned["peak_bytes"]["median"], 200 << 10) # the turns' ends free: 600 KB are allocated
        answer = replay("--rounds", "1", "--allocator", "tslab", "--plan", plan, trace)
        self.assertIn("planned: tslab with a domain for each of 200 turns of 0x5000, and without 5980 frees",
                      answer.stdout)

    def test_proof(self):
        trace, _ = self.turns()
        answer = subprocess.run([TSLAB, "advise", "--proof", trace], capture_output=True, text=True, timeout=300,
                                env=ENVIRONMENT)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        proof = answer.stdout[answer.stdout.index("\nProof: "):]
        self.assertIn("domain for each of 200 turns of 0x5000, and without 5980 frees", proof)
        rows = [line.split()[0] for line in proof.splitlines() if line.endswith("|")]
        self.assertEqual(rows[-3:], ["tslab", "captured", "planned"])
        answer = subprocess.run([TSLAB, "advise", "--proof", KNOWN], capture_output=True, text=True, timeout=300,
                                env=ENVIRONMENT)
        self.assertEqual(answer.returncode, 1)
        self.assertNotIn("Proof", answer.stdout)
        answer = subprocess.run([TSLAB, "advise", "--proof", "--json", trace], capture_output=True, text=True,
                                timeout=300, env=ENVIRONMENT)
        self.one_line(answer, 2, "--json")

    def test_long_command(self):
        """JSON has all of it, also where quotes double its length, and text no more than a heading takes."""
        for command in ("/bin/server " + "a long name " * 400, '"\\' * 50000):
            trace, plan = self.turns(command)
            with open(plan, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["command"], command)
            found = figures("--allocator", "tslab", "--plan", plan, trace)
            self.assertEqual((found["command"], found["plan"]["turns"]), (command, 200))
            page = os.path.join(WORK, "page.html")
            subprocess.run([TSLAB, "advise", "--html", page, trace], check=True, capture_output=True, timeout=300)
            with open(page, encoding="utf-8") as file:
                self.assertIn(html.escape(command[:120]).replace("&quot;", "&#34;") + "...", file.read())
            for what in (["advise"], ["advise", "--proof"], ["replay", "--rounds", "1", "--allocator", "malloc"],
                         ["trace", "info"]):
                answer = subprocess.run([TSLAB, *what, trace], capture_output=True, text=True, timeout=300,
                                        env=ENVIRONMENT)
                self.assertEqual((answer.returncode, answer.stderr), (0, ""))
                self.assertIn(command[:120] + "...", answer.stdout)
                self.assertNotIn(command[:121], answer.stdout)

    def test_plan_that_is_cut_off(self):
        trace, plan = self.turns()
        with open(plan, encoding="utf-8") as file:
            whole = file.read()
        for end in (len(whole) // 20, whole.index('"address"') + 5, whole.index('"boundaries": [') + 15):
            with open(plan, "w", encoding="utf-8") as file:
                file.write(whole[:end])
            self.one_line(replay("--plan", plan, trace), 3, "cut off")

    def test_plan_that_does_not_fit(self):
        trace, plan = self.turns()
        other = os.path.join(WORK, "other.plan")
        with open(other, "w", encoding="utf-8") as file:
            file.write('{"version": 1, "boundaries": [], "address": "0x1"}')
        self.one_line(replay("--plan", other, trace), 3, "no boundary in the plan")
        self.one_line(replay("--plan", os.path.join(WORK, "missing"), trace), 3, "cannot be read")
        self.one_line(replay("--plan", plan, KNOWN), 3, "no turns in this trace")
        self.one_line(replay("--plan", plan, "--allocator", "malloc", trace), 3, "tslab")

    def test_text(self):
        answer = replay("--rounds", "2", "--allocator", "malloc,tslab", KNOWN)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.assertIn("known: 20000 mallocs, 19990 frees, 5000 reallocs of 2 threads; at most 30.00 MB live, 0.03 at the end",
                      answer.stdout)
        charts = [line for line in answer.stdout.splitlines() if line.endswith("|")]
        self.assertEqual([line.split()[0] for line in charts], ["malloc", "tslab"])
        self.assertEqual([len(line) for line in charts], [10 + 74, 10 + 74])
        times = [line for line in answer.stdout.split("Time in ms")[1].split("\n\n")[0].splitlines()[1:]]
        self.assertEqual(len(times), 2)
        for line in times: # wall and CPU time, each with its range
            self.assertRegex(line, r"^(malloc|tslab)( +[0-9.]+ \([0-9.]+ to [0-9.]+\)){2}$")

    def test_damaged(self):
        with open(KNOWN, "rb") as file:
            whole = file.read()
        cut = os.path.join(WORK, "cut.trace")
        with open(cut, "wb") as file:
            file.write(whole[:-40])
        answer = replay("--json", "--rounds", "1", "--allocator", "malloc", cut)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
        self.assertIn("only the events before are replayed", answer.stderr)
        with open(cut, "wb") as file:
            file.write(b"no trace" * 100)
        self.one_line(replay(cut), 3, cut)
        self.one_line(replay(os.path.join(WORK, "missing")), 3, "missing")

    def test_allocator_that_is_missing(self):
        """Each process of the loader looks into a cache that has none: a root of its own would be needed. So the
        library is one whose file cannot be loaded."""
        folder = os.path.join(WORK, "broken")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "libjemalloc.so.2"), "wb") as file:
            file.write(b"no library")
        answer = subprocess.run([TSLAB, "replay", "--json", "--rounds", "1", "--allocator", "jemalloc,malloc", KNOWN],
                                capture_output=True, text=True, timeout=300,
                                env={**ENVIRONMENT, "LD_LIBRARY_PATH": folder})
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stderr, "tslab: jemalloc is left out: libjemalloc.so.2 is not installed\n")
        found = json.loads(answer.stdout)
        self.assertEqual(found["skipped"], ["jemalloc"])
        self.assertEqual([a["name"] for a in found["allocators"]], ["malloc"])

    def test_wrong_command_lines(self):
        for wrong, part in ((["--allocator", "hoard", KNOWN], "hoard"), (["--allocator", "", KNOWN], "not a list"),
                            (["--allocator", "tslab,tslab", KNOWN], "tslab,tslab"), (["--rounds", "0", KNOWN], "0"),
                            (["--rounds", "100", KNOWN], "100"), ([], "no trace is named"),
                            ([KNOWN, KNOWN], "more than one trace"), (["--fast", KNOWN], "--fast")):
            self.one_line(replay(*wrong), 2, part)

    def test_csv_that_cannot_be_written(self):
        answer = replay("--json", "--rounds", "1", "--allocator", "malloc", "--csv", WORK, KNOWN)
        self.assertEqual(answer.returncode, 3)
        self.assertIn(WORK, answer.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
