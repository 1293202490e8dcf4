#!/usr/bin/env python3
"""tslab run --plan: objects of sites that live long lie in epochs of their own. Argument: DIRECTORY OF THE TOOLS."""
import collections
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.abspath(sys.argv[1])
TSLAB = os.path.join(TOOLS, "tslab")
(LIBRARY,) = [os.path.join(TOOLS, name) for name in ("libtools_stripped.so",)]
WORK = tempfile.mkdtemp(prefix="tslab-plan-")
TRACE, PLAN = os.path.join(WORK, "known.trace"), os.path.join(WORK, "known.plan")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_") and k != "LD_PRELOAD"}
ROUNDS = 2000
# By the call of malloc itself, and by its callers, which only x86-64 sees.
DIRECT = ["direct", "zeroed", "grown", "aligned", "copied"]
KEPT = DIRECT + (["wrapped", "twice", "library"] if platform.machine() == "x86_64" else [])


def tslab(*arguments, **more):
    return subprocess.run([TSLAB, *arguments], capture_output=True, text=True, timeout=300, env=ENVIRONMENT, **more)


def advice():
    with open(PLAN) as file:
        return json.load(file)


def written(plan):
    path = os.path.join(WORK, "changed.plan")
    with open(path, "w") as file:
        file.write(plan if isinstance(plan, str) else json.dumps(plan))
    return path


class Plan(unittest.TestCase):
    PROGRAM = os.path.join(TOOLS, "tools_plan")

    @classmethod
    def setUpClass(cls):
        subprocess.run([TSLAB, "record", "-o", TRACE, "--", cls.PROGRAM, LIBRARY, str(ROUNDS)], check=True, capture_output=True,
                       env=ENVIRONMENT)
        with open(PLAN, "w") as file:
            subprocess.run([TSLAB, "advise", "--json", TRACE], stdout=file, env=ENVIRONMENT)

    def places(self, *how, plan=PLAN):
        answer = tslab("run", *(["--plan", plan] if plan else []), self.PROGRAM, LIBRARY, str(ROUNDS), *how)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""), answer.stdout)
        found = collections.defaultdict(dict)
        for line in answer.stdout.splitlines():
            place, count = line.rsplit(" ", 1)
            epoch, site = place.rsplit("/", 1)
            found[site][epoch] = int(count)
        return found

    def check(self, found, rounds, kept=KEPT):
        (run,) = [f"malloc: {name}" for name in advice()["epochs"] if name.startswith("run")]
        for site in kept:
            self.assertEqual(found[site], {run: rounds * ROUNDS}, site)
        self.assertEqual(found["dying"], {"malloc": 20})

    def refused(self, plan, *parts, code=126):
        answer = tslab("run", "--plan", written(plan), "echo", "runs")
        self.assertEqual((answer.returncode, answer.stdout), (code, ""), answer.stderr)
        self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
        for part in parts:
            self.assertIn(part, answer.stderr)

    def test_each_site_has_its_place(self):
        self.check(self.places(), 1)

    def test_without_a_plan_all_is_in_one(self):
        found = self.places(plan=None)
        self.assertEqual({epoch for places in found.values() for epoch in places}, {"malloc"})

    def test_threads(self):
        self.check(self.places("threads"), 5)

    def test_a_child_of_fork(self):
        self.check(self.places("fork"), 2)

    def test_an_epoch_that_the_program_closes_takes_nothing_more(self):
        found = self.places("close")
        for site in KEPT:
            self.assertEqual(sorted(found[site].values()), [ROUNDS, ROUNDS], site)
            self.assertIn("malloc", found[site])

    def test_a_domain_that_captures_comes_first(self):
        found = self.places("domain")
        for site in KEPT:
            self.assertEqual(sorted(found[site].values()), [ROUNDS, ROUNDS], site)
            self.assertIn("captured", found[site])
        self.assertEqual(found["dying"], {"captured": 20})

    @unittest.skipIf(KEPT == DIRECT, "the library has no sites")
    def test_a_library_with_sites_stays(self):
        arguments = (self.PROGRAM, LIBRARY, "2", "unload")
        self.assertEqual(tslab("run", *arguments).returncode, 11)
        self.assertEqual(tslab("run", "--plan", PLAN, *arguments).returncode, 10)

    @unittest.skipIf(KEPT == DIRECT, "the library has no sites")
    def test_a_library_that_a_constructor_has_loaded_stays(self):
        early = {"LD_PRELOAD": os.path.join(TOOLS, "libtools_early.so"), "TOOLS_EARLY": LIBRARY}
        for plan, code in (((), 11), (("--plan", PLAN), 10)):
            answer = subprocess.run([TSLAB, "run", *plan, self.PROGRAM, LIBRARY, "2", "unload"], env={**ENVIRONMENT, **early})
            self.assertEqual(answer.returncode, code)

    def test_a_library_beside_the_program_comes_before_the_systems(self):
        arguments = (self.PROGRAM, "libBrokenLocale.so.1", "2", "unload")
        for plan in ((), ("--plan", PLAN)):
            self.assertEqual(tslab("run", *plan, *arguments).returncode, 11)

    def test_copies_are_their_callers_sites(self):
        files = {os.path.realpath(m["path"]) for m in advice()["modules"]}
        self.assertIn(os.path.realpath(self.PROGRAM), files)
        self.assertFalse([f for f in files if "libc.so" in f], files)

    def test_another_program_runs_as_ever(self):
        answer = tslab("run", "--plan", PLAN, "sh", "-c", 'exec sh -c "echo $0"', "done")
        self.assertEqual((answer.returncode, answer.stdout, answer.stderr), (0, "done\n", ""))

    def test_another_build_is_refused(self):
        plan = advice()
        own = plan["modules"][0]["build_id"]
        plan["modules"][0]["build_id"] = "00ff" + own[4:]
        self.refused(plan, plan["modules"][0]["path"], own, "00ff" + own[4:], "record it anew")

    def test_a_file_that_is_gone_is_refused(self):
        plan = advice()
        plan["modules"][0]["path"] = "/nowhere/program"
        self.refused(plan, "/nowhere/program")

    def test_a_build_that_is_not_loaded_has_no_sites(self):
        # A library of another build than the file that was looked at: by the time of the load it may have been replaced.
        self.assertIsNotNone(shutil.which("env"))
        text = tslab("run", "--plan", PLAN, "sh", "-c", 'echo "$TSLAB_PLAN"').stdout.strip()
        version, epochs, ids, sites = text.split(";")
        other = ";".join((version, epochs, "".join("11" * (len(i) // 2) + "," for i in ids.split(",")[:-1]), sites))
        answer = tslab("run", "--plan", PLAN, "env", f"TSLAB_PLAN={other}", self.PROGRAM, LIBRARY, str(ROUNDS))
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.assertNotIn("malloc: ", answer.stdout)
        self.assertIn(f"malloc/direct {ROUNDS}\n", answer.stdout)

    def test_a_variable_that_is_no_plan_is_told(self):
        for text in ("2;;;", "1", "1;a", "1;a,;zz,;", "1;a,;00,;0.0.0.0.0", "1;a,;00,;1.0.0.0.0.0,", "1;a,;00,;0.1.0.0.0.0,",
                     "1;a,;00,;0.0.0.0.0.2,", "1;a,;00,;0.0.0.10000.0.1,", "1;" + "a,", "1;" + "a" * 30 + ",;;"):
            answer = tslab("run", "--plan", PLAN, "env", f"TSLAB_PLAN={text}", "echo", "runs")
            self.assertEqual((answer.returncode, answer.stdout), (0, "runs\n"), text)
            self.assertIn("TSLAB_PLAN is no plan", answer.stderr, text)

    def test_a_broken_file_is_refused_by_name(self):
        plan = json.dumps(advice())
        self.refused(plan[:-1], "changed.plan", "no JSON")
        self.refused(plan + "}", "changed.plan", f"byte {len(plan)} is no JSON")
        self.refused("", "changed.plan", "no JSON")
        self.refused("[" * 100, "changed.plan", "no JSON")
        for key, value in (("epoch", 99), ("module", 99), ("caller_of", 5000), ("return_address", "main"), ("epoch", -1)):
            changed = advice()
            changed["sites"][0][key] = value
            self.refused(changed, "changed.plan", f"sites.0.{key} is {value}")
        changed = advice()
        del changed["sites"][0]["module"]
        self.refused(changed, "changed.plan", "sites.0 lacks a key")
        changed = advice()
        del changed["modules"][0]["build_id"]
        self.refused(changed, "changed.plan", "modules.0 lacks")
        self.refused({"version": 1, "boundaries": []}, "changed.plan", "names no sites")
        answer = tslab("run", "--plan", "/nowhere.plan", "echo", "runs")
        self.assertEqual((answer.returncode, answer.stdout), (126, ""))
        self.assertIn("/nowhere.plan: No such file", answer.stderr)

    @unittest.skipIf(KEPT == DIRECT, "callers of callers are seen on x86-64 only")
    def test_frames_of_any_size(self):
        for how in ("array", "realigned"):
            trace = os.path.join(WORK, how + ".trace")
            subprocess.run([TSLAB, "record", "-o", trace, "--", self.PROGRAM, LIBRARY, str(ROUNDS), how], check=True,
                           capture_output=True, env=ENVIRONMENT)
            advised = subprocess.run([TSLAB, "advise", "--json", trace], capture_output=True, text=True, env=ENVIRONMENT)
            answer = tslab("run", "--plan", written(advised.stdout), self.PROGRAM, LIBRARY, str(ROUNDS), how)
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))
            self.assertRegex(answer.stdout, f"malloc: run [0-9]/other kept {2 * ROUNDS}\n")

    @unittest.skipIf(KEPT == DIRECT, "callers of callers are seen on x86-64 only")
    def test_a_frame_that_cannot_be_followed_is_told(self):
        plan = advice()
        parent = next(site["caller_of"] for site in plan["sites"] if site["caller_of"])
        plan["sites"][parent - 1]["return_address"] = "0x1"
        answer = tslab("run", "--plan", written(plan), "echo", "runs")
        self.assertEqual((answer.returncode, answer.stdout), (0, "runs\n"))
        self.assertRegex(answer.stderr, "^tslab run: the callers of 1 of [0-9]+ sites are not looked at")

    def test_not_in_the_hard_mode(self):
        answer = tslab("run", "--hard", "--plan", PLAN, "echo", "runs")
        self.assertEqual((answer.returncode, answer.stdout), (2, ""))
        self.assertIn("--plan and the hard mode", answer.stderr)


class WithFramePointers(Plan):
    PROGRAM = os.path.join(TOOLS, "tools_plan_pointers")


try:
    unittest.main(argv=sys.argv[:1], verbosity=1)
finally:
    shutil.rmtree(WORK)
