"""/debug/pprof/heap and /debug/pprof/allocs: decoded here, and read by `go tool pprof` where Go is. Arguments: PROFILE_TARGET."""

import collections
import contextlib
import gzip
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TARGET = sys.argv[1]
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_")}
GO = shutil.which("go", path=os.environ.get("PATH", "") + ":/usr/local/go/bin:/usr/lib/go/bin")


class Program:
    def __init__(self, *arguments, **environment):
        self.process = subprocess.Popen([TARGET, *arguments], env={**ENVIRONMENT, **environment}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def get(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            c.request("GET", path)
            answer = c.getresponse()
            return answer.status, answer.getheader("Content-Type"), answer.read()
        finally:
            c.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


# ---- a decoder of protobuf's format: (number of the field, value) ---------------------------------------------------

def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind, number = key & 7, key >> 3
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length
        else:
            raise AssertionError(f"wire type {kind}")
        yield number, value


def numbers(data):
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


class Profile:
    def __init__(self, body):
        all_fields = collections.defaultdict(list)
        for number, value in fields(gzip.decompress(body)):
            all_fields[number].append(value)
        self.text = [t.decode() for t in all_fields[6]]
        assert self.text[0] == "" and len(set(self.text)) == len(self.text)
        name = lambda message, number: self.text[dict(fields(message)).get(number, 0)]
        self.types = [(name(t, 1), name(t, 2)) for t in all_fields[1]]
        self.mappings = {m[1]: m for m in map(dict, map(fields, all_fields[3]))}
        self.functions = {f[1]: self.text[f[2]] for f in map(dict, map(fields, all_fields[5]))}
        self.locations = {l[1]: l for l in map(dict, map(fields, all_fields[4]))}
        self.comment = [self.text[number] for number in (numbers(all_fields[13][0]) if all_fields[13] else [])]
        self.default = self.text[all_fields[14][0]]
        self.period, self.period_type = all_fields[12][0] if all_fields[12] else 0, (name(all_fields[11][0], 1), name(all_fields[11][0], 2))
        assert all(l[2] in self.mappings for l in self.locations.values()), "a location without a mapping"
        self.samples = [self.sample(s) for s in all_fields[2]]

    def function(self, location):
        lines = [v for n, v in fields_of(self.locations[location]) if n == 4]
        return self.functions[dict(fields(lines[0]))[1]] if lines else None

    def sample(self, message):
        got = collections.defaultdict(list)
        for number, value in fields(message):
            got[number].append(value)
        labels = {}
        for label in got[3]:
            l = dict(fields(label))
            labels[self.text[l[1]]] = self.text[l[2]]
        locations = numbers(got[1][0]) if got[1] else []
        return [self.function(l) for l in locations], numbers(got[2][0]), labels, locations

    def mapping_of(self, location):
        return self.mappings[self.locations[location][2]]


def fields_of(message):
    return message.items()


# alloc_objects, alloc_space, inuse_objects, inuse_space
KEPT, DROPPED, FORGOTTEN = ("cache", "keep", 100, 1024), ("request", "drop", 200, 512), ("session", "forget", 10, 64)


class Profiles(unittest.TestCase):
    def test_what_is_in_a_profile(self):
        with Program(TSLAB_SAMPLE_STACKS="1") as p:
            for path, default in (("heap", "inuse_space"), ("allocs", "alloc_space")):
                status, kind, body = p.get("/debug/pprof/" + path)
                self.assertEqual((status, kind), (200, "application/vnd.google.protobuf+gzip"))
                profile = Profile(body)
                self.assertEqual(profile.types, [("alloc_objects", "count"), ("alloc_space", "bytes"),
                                                 ("inuse_objects", "count"), ("inuse_space", "bytes")])
                self.assertEqual(profile.default, default)
                self.assertRegex(profile.comment[0], r"^temporal-slab [\d.]+: of 310 samples 0 of live objects found no room$")
                expected = [(label, {"epoch": label}, function, [n, n * size, 0, 0])
                            for label, function, n, size in (KEPT, DROPPED, FORGOTTEN)]
                expected += [("cache", {"epoch": "cache", "state": "active"}, "keep", [0, 0, 100, 100 * 1024]),
                             ("session", {"epoch": "session", "state": "closing"}, "forget", [0, 0, 10, 640])]
                got = [(labels["epoch"], labels, functions[0], values) for functions, values, labels, _ in profile.samples]
                self.assertCountEqual(got, expected)
                for functions, _, _, locations in profile.samples:
                    if len(locations) > 1:
                        self.assertEqual(functions[1], "main")
                    m = profile.mapping_of(locations[0])
                    self.assertEqual(profile.text[m[5]], os.path.realpath(TARGET))
                    address = profile.locations[locations[0]][3]
                    self.assertTrue(m[2] <= address < m[3])
                    self.assertTrue(set("0123456789abcdef").issuperset(profile.text[m.get(6, 0)]))
                self.assertEqual(profile.text[profile.mappings[1][5]], os.path.realpath(TARGET))  # the first is the program's

    def test_what_finds_no_room_is_counted(self):
        with Program("3000", TSLAB_SAMPLE_STACKS="1") as p:
            profile = Profile(p.get("/debug/pprof/allocs")[2])
            labels = [labels["epoch"] for _, values, labels, _ in profile.samples if values[0]]
            self.assertIn("(other)", labels)
            self.assertEqual((profile.period, profile.period_type), (1, ("space", "bytes")))
            self.assertLess(len(labels), 2100)
            self.assertEqual(sum(values[0] for _, values, _, _ in profile.samples), 3310)

    def test_without_samples(self):
        with Program() as p:
            status, _, body = p.get("/debug/pprof/heap")
            self.assertEqual(status, 200)
            profile = Profile(body)
            self.assertEqual(profile.samples, [])
            self.assertIn("no samples yet (TSLAB_SAMPLE_STACKS=512K", profile.comment[0])
            for what in ("seconds=1", "debug=1"):
                self.assertEqual(p.get("/debug/pprof/heap?" + what)[0], 400)


@unittest.skipUnless(GO and os.environ.get("TEST_LONG"), "go is not installed, or this is the short form")
class GoTool(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Go from 1.25 on builds the tool when it is used first, and keeps it in the user's cache.
        cls.home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.home.cleanup)
        environment = {"HOME": cls.home.name, "GOTOOLCHAIN": "local", **ENVIRONMENT}
        answer = subprocess.run([GO, "tool", "pprof", "-h"], capture_output=True, text=True, timeout=500, env=environment)
        if "usage" not in (answer.stdout + answer.stderr).lower():
            raise unittest.SkipTest("go has no pprof here: " + answer.stderr)

    def pprof(self, *arguments):
        home = self.home.name
        with contextlib.suppress(subprocess.TimeoutExpired):
            environment = {"HOME": home, "GOTOOLCHAIN": "local", **ENVIRONMENT, "PPROF_TMPDIR": home}
            answer = subprocess.run([GO, "tool", "pprof", *arguments], capture_output=True, text=True, timeout=500, env=environment)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            return answer.stdout
        raise AssertionError("go tool pprof does not end")

    def test_a_live_server(self):
        with Program(TSLAB_SAMPLE_STACKS="1") as p:
            url = f"http://127.0.0.1:{p.port}/debug/pprof/"
            top = self.pprof("-top", url + "heap")
            self.assertIn("Type: inuse_space", top)
            self.assertRegex(top, r"(?m)^ *100kB 99\.\d+% +99\.\d+% +100kB 99\.\d+% +keep")
            self.assertRegex(self.pprof("-top", url + "allocs"), r"(?m)^ *100kB 49\.\d+% .* (keep|drop)")
            self.assertRegex(self.pprof("-top", "-sample_index=alloc_objects", url + "heap"), r"(?m)^ *200 64\.\d+% .* drop")
            self.assertRegex(self.pprof("-top", "-tagfocus=epoch=session", url + "heap"), r"(?m)^ *0\.62kB .* forget")
            self.assertRegex(self.pprof("-tags", url + "heap"), r"(?s)epoch: .*cache.*state: .*active")
            raw = self.pprof("-raw", url + "heap")
            self.assertRegex(raw, r"(?m)^ +0 +0 +100 +102400: \d+")
            self.assertIn("epoch:[cache] state:[active]", raw)
            self.assertIn(os.path.realpath(TARGET), raw)
            if shutil.which("addr2line"):
                self.assertRegex(self.pprof("-top", "-lines", url + "heap"), r" keep .*profile_target\.c:\d+")


if __name__ == "__main__":
    if not GO:
        print("go is not installed: what reads a profile is the decoder of this test alone")
    elif not os.environ.get("TEST_LONG"):
        print("without TEST_LONG=1 go does not read the profiles")
    unittest.main(argv=[sys.argv[0]])
