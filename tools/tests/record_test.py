#!/usr/bin/env python3
"""tslab record and tslab trace. Arguments: DIRECTORY OF THE TOOLS, DIRECTORY OF THE SOURCES, DIRECTORY OF THE LIBRARY."""
import collections
import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOOLS, SOURCES, LIBRARY = (os.path.abspath(a) for a in sys.argv[1:4])
TSLAB, PROGRAM = os.path.join(TOOLS, "tslab"), os.path.join(TOOLS, "tools_record")
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(TOOLS, "trace")]
import tslab_trace  # noqa: E402

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("TSLAB_") and k != "LD_PRELOAD"}
WORK = tempfile.mkdtemp(prefix="tslab-record-")


def tslab(*arguments, **more):
    return subprocess.run([TSLAB, *arguments], capture_output=True, text=True, timeout=300,
                          env={**ENVIRONMENT, **more.pop("variables", {})}, **more)


def record(*program, options=(), name="it.trace"):
    """The answer, and the trace."""
    path = os.path.join(WORK, name)
    answer = tslab("record", "-o", path, *options, *program)
    return answer, tslab_trace.open(path)


def installed(name):
    if not shutil.which(name):
        raise unittest.SkipTest("%s is not installed" % name)
    return name


def modules(*names):
    for name in names:
        try:
            __import__(name)
        except ImportError:
            raise unittest.SkipTest("Python's %s is not installed" % name) from None


class Recording(unittest.TestCase):
    def test_counts_of_threads(self):
        answer, trace = record(PROGRAM, "threads", "8", "1000")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIsNone(trace.damage)
        kinds, births, ends = collections.Counter(), {}, 0
        for e in trace.events():
            if e.kind == "alloc" and (1000 <= e.size < 1100 or e.size == 777):
                births[e.object] = e
            if e.object in births:
                kinds[e.kind] += 1
                if e.kind == "realloc":
                    self.assertEqual((e.size, e.thread), (5000, births[e.object].thread))
                if e.kind == "free" and births[e.object].size == 777:
                    self.assertNotEqual(e.thread, births[e.object].thread)
                    ends += 1
        self.assertEqual(kinds, {"alloc": 8008, "realloc": 8000, "free": 8008})
        self.assertEqual(ends, 8)
        events = list(trace.events())
        self.assertEqual(events, sorted(events, key=lambda e: e.time_ns))
        self.assertEqual(sum(e.kind == "thread end" for e in events), 8)
        self.assertEqual(sum(e.text == "counted" for e in events), 8)
        threads = {e.address for e in events if e.kind == "thread start"}
        self.assertEqual(len(threads), 9)

    def test_stacks_name_functions(self):
        _, trace = record(PROGRAM, "threads", "2", "10")
        self.assertTrue(all(m.build_id for m in trace.modules if m.path.endswith("tools_record")))
        answer = tslab("trace", "export", "--to", "folded", os.path.join(WORK, "it.trace"))
        wanted = 2 * (sum(1000 + i for i in range(10)) + 10 * 5000 + 777)
        (line,) = [x for x in answer.stdout.splitlines() if x.endswith(" %d" % wanted)]
        self.assertTrue(line.split(" ")[0].endswith(";work"), line)

    def test_children(self):
        for options, wanted in (((), {1001: 500}), (("--children",), {1001: 500, 1002: 500, 1003: 500})):
            answer, trace = record(PROGRAM, "fork", "500", options=options)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIsNone(trace.damage)
            found, frees, process = collections.Counter(), collections.Counter(), {}
            for e in trace.events():
                if e.kind == "alloc" and 1001 <= e.size <= 1003:
                    found[e.size] += 1
                    process[e.size] = e.process
                if e.kind == "free" and e.object and 1001 <= e.size <= 1003:
                    frees[e.size] += 1
            self.assertEqual(found, wanted)
            self.assertEqual(frees, wanted)
            self.assertEqual(len(set(process.values())), len(wanted))
            if options:
                parent, child, executed = (trace.processes[process[s]] for s in (1001, 1002, 1003))
                self.assertEqual((child.parent, executed.parent), (parent.number, child.number))
                self.assertEqual((child.pid, child.image), (executed.pid, parent.image))
                self.assertNotEqual(executed.image, parent.image)

    def test_forks_while_threads_allocate(self):
        answer, trace = record(PROGRAM, "storm", "60", options=("--children",))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        births = [e for e in trace.raw_events() if e[1] == tslab_trace.ALLOC and e[3] == 1004]
        self.assertEqual(len({e[7] for e in births}), 60)
        self.assertEqual((len(births), len(trace.processes), trace.damage), (60, 61, None))
        self.assertTrue(all(trace.frames(e[5]) for e in births))

    def test_a_fork_waits_for_threads_in_hooks(self):
        variables = {"LD_PRELOAD": os.path.join(TOOLS, "libtools_slow_malloc.so")}
        alone = subprocess.run([PROGRAM, "middle"], env={**ENVIRONMENT, **variables}, check=False)
        self.assertEqual(alone.returncode, 5)
        answer = tslab("record", "--children", "-o", WORK + "/middle.trace", PROGRAM, "middle", variables=variables)
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_epochs_and_domains(self):
        program = os.path.join(TOOLS, "tools_record_domains")
        answer, trace = record(program)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        kinds, inside, scope = collections.Counter(), 0, None
        for e in trace.events():
            kinds[e.kind] += e.kind.startswith("scope")
            if e.text == "request":
                scope = e.scope
            inside += e.kind == "alloc" and e.size == 100 and e.scope == scope != 0
            if e.text == "mine":
                mine = e.scope
            if e.object and e.kind in ("realloc", "free") and e.size == 500:
                self.assertEqual(e.scope, mine)
                kinds[e.kind] += 1
        self.assertEqual(inside, 50)
        self.assertEqual({k: v for k, v in kinds.items() if v},
                         {"scope create": 2, "scope enter": 10, "scope leave": 10, "scope reset": 10, "scope end": 1,
                          "scope close": 1, "realloc": 1, "free": 1})

    def test_functions_of_a_jit(self):
        if os.uname().machine != "x86_64":
            self.skipTest("the code is for x86_64")
        trace = record(PROGRAM, "jit")[1]
        os.unlink("/tmp/perf-%d.map" % trace.processes[0].pid)
        answer = tslab("trace", "export", "--to", "folded", os.path.join(WORK, "it.trace"))
        (line,) = [x for x in answer.stdout.splitlines() if x.endswith(" 12345")]
        self.assertIn(";jit;made_at_run_time;take ", line)

    def test_functions_of_a_jit_in_a_live_stack(self):
        if os.uname().machine != "x86_64":
            self.skipTest("the code is for x86_64")
        with subprocess.Popen([TSLAB, "run", "--stacks", "1", PROGRAM, "jit", "hold"], stdout=subprocess.PIPE, text=True,
                              env=ENVIRONMENT) as program:
            try:
                self.assertEqual(program.stdout.readline(), "holds\n")
                for _ in range(100):
                    answer = tslab("stats", "--stacks", str(program.pid))
                    if "made_at_run_time" in answer.stdout:
                        break
                    time.sleep(0.1)
            finally:
                program.kill()
                os.unlink("/tmp/perf-%d.map" % program.pid)
        self.assertIn("at made_at_run_time, [JIT]\n", answer.stdout)

    def test_a_malloc_of_its_own_is_said(self):
        answer, trace = record(os.path.join(TOOLS, "tools_record_own"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("has a malloc of its own", answer.stderr)
        self.assertFalse(any(e.size == 4242 for e in trace.events()))

    def test_beside_another_malloc(self):
        answer = tslab("run", TSLAB, "record", "-o", os.path.join(WORK, "both.trace"), PROGRAM, "spin", "1000")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        trace = tslab_trace.open(os.path.join(WORK, "both.trace"))
        self.assertEqual(sum(e.kind == "free" and e.size == 64 for e in trace.events()), 1000)
        self.assertTrue(any("libtslab-malloc" in m.path for m in trace.modules))


class Samples(unittest.TestCase):
    def look(self, trace, least, most):
        births = 0
        for e in trace.events():
            if e.kind in ("free", "realloc"):
                self.assertNotEqual(e.object, 0, "a free without its birth")
            births += e.kind == "alloc" and e.size == 64
        self.assertTrue(least <= births <= most, births)

    def test_time(self):
        answer, trace = record(PROGRAM, "spin", "20000000", options=("--sample", "time=5ms/100ms"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.look(trace, 100, 10000000)
        windows = [e.size for e in trace.events() if e.kind == "window"]
        self.assertTrue(len(windows) >= 2 and windows[0] == 1, windows)

    def test_turns(self):
        answer, trace = record(os.path.join(TOOLS, "tools_record_domains"), options=("--sample", "turn=1/5"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        births = sum(e.kind == "alloc" and e.size == 100 for e in trace.events())
        self.assertEqual(births, 10)  # 2 of 10 turns, each with 5

    def test_no_turn_is_said(self):
        answer, _ = record(PROGRAM, "spin", "10", options=("--sample", "turn=1/5"))
        self.assertIn("no thread had a turn", answer.stderr)


class Mishaps(unittest.TestCase):
    def hold(self, count, name):
        path = os.path.join(WORK, name)
        tool = subprocess.Popen([TSLAB, "record", "-o", path, PROGRAM, "hold", str(count)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.assertEqual(tool.stdout.readline(), "holds\n")
        (child,) = open("/proc/%d/task/%d/children" % (tool.pid, tool.pid), encoding="ascii").read().split()
        return tool, int(child), path

    def held(self, path):
        trace = tslab_trace.open(path)
        return sum(e.kind == "alloc" and e.size == 4321 for e in trace.events()), trace

    def test_a_killed_program_loses_nothing(self):
        tool, child, path = self.hold(50001, "killed.trace")
        os.kill(child, signal.SIGKILL)
        tool.communicate(timeout=300)
        self.assertEqual(tool.returncode, 128 + signal.SIGKILL)
        count, trace = self.held(path)
        self.assertEqual((count, trace.damage, trace.about["status"]), (50001, None, str(int(signal.SIGKILL))))

    def test_a_killed_recorder_leaves_what_it_wrote(self):
        tool, child, path = self.hold(50001, "recorder.trace")
        for _ in range(200):
            if self.held(path)[0] == 50001:
                break
            time.sleep(0.05)
        tool.kill()
        tool.wait(timeout=300)
        count, trace = self.held(path)
        self.assertEqual(count, 50001)
        self.assertIn("the recorder was killed", trace.damage)
        os.kill(child, signal.SIGKILL)
        tool.communicate(timeout=300)

    def test_the_program_goes_on_without_the_recorder(self):
        path = os.path.join(WORK, "alone.trace")
        tool = subprocess.Popen([TSLAB, "record", "-o", path, "sh", "-c", 'read -r x; "$1" spin 500000; echo done', "sh",
                                 PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        while not os.path.exists(path) or os.path.getsize(path) < 1000:
            time.sleep(0.01)
        tool.kill()
        self.assertEqual(tool.communicate("x\n", timeout=300)[0], "done\n")

    def test_a_program_that_waits_for_room_goes_on_without_the_recorder(self):
        path = os.path.join(WORK, "room.trace")
        tool = subprocess.Popen([TSLAB, "record", "-o", path, PROGRAM, "spin", "3000000"], stderr=subprocess.PIPE,
                                text=True, env=ENVIRONMENT)
        while not (os.path.exists(path) and os.path.getsize(path) > 1000):
            time.sleep(0.01)
        tool.kill()
        tool.communicate(timeout=300)  # its end is the program's, which has stderr

    def test_a_full_disk(self):
        answer = tslab("record", "-o", "/dev/full", PROGRAM, "spin", "10")
        self.assertEqual(answer.returncode, 126)
        self.assertIn("/dev/full: No space left on device", answer.stderr)
        path = os.path.join(WORK, "full.trace")
        code = "import sys; sys.stdin.read(); x = [str(i) * 100 for i in range(1000000)]; print(len(x))"
        tool = subprocess.Popen([TSLAB, "record", "-o", path, sys.executable, "-c", code], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        while not os.path.exists(path):
            time.sleep(0.01)
        resource.prlimit(tool.pid, resource.RLIMIT_FSIZE, (200000, 200000))  # the recorder's alone
        out, said = tool.communicate("x", timeout=300)
        self.assertEqual((tool.returncode, out), (0, "1000000\n"))
        self.assertIn("full.trace: File too large; the recording ends here, and the program goes on", said)
        trace = tslab_trace.open(path)
        self.assertIsNotNone(trace.damage)
        self.assertGreater(sum(1 for _ in trace.events()), 10000)

    def test_two_at_once(self):
        tool, child, path = self.hold(10, "one.trace")
        answer = tslab("record", "-o", path, PROGRAM, "spin", "10")
        self.assertEqual(answer.returncode, 126)
        self.assertIn("one.trace: another recording is being written to it", answer.stderr)
        other, second, other_path = self.hold(20, "other.trace")
        for pid in (child, second):
            os.kill(pid, signal.SIGTERM)
        for each, where, count in ((tool, path, 10), (other, other_path, 20)):
            each.communicate(timeout=300)
            self.assertEqual(self.held(where)[0], count)

    def test_what_cannot_be_done_is_said(self):
        for arguments, code, said in (
                (("-o", "/nowhere/x.trace", "true"), 126, "/nowhere/x.trace: No such file or directory"),
                (("-o", WORK, "true"), 126, WORK + ": Is a directory"),
                (("--sample", "time=2s/1s", "true"), 2, "--sample 'time=2s/1s'"),
                (("--sample", "turn=1/1", "true"), 2, "--sample 'turn=1/1'"), (("--sample",), 2, "needs a value"),
                (("--what",), 2, "unknown option '--what'"), ((), 2, "usage: tslab record"),
                (("-o", WORK + "/no.trace", "/nowhere/program"), 127, "/nowhere/program: No such file")):
            answer = tslab("record", *arguments)
            self.assertEqual(answer.returncode, code, arguments)
            self.assertIn(said, answer.stderr)
        self.assertFalse(os.path.exists(WORK + "/no.trace"))
        self.assertEqual(record("sh", "-c", "exit 7")[0].returncode, 7)

    def test_what_is_no_trace_is_said(self):
        path = os.path.join(WORK, "none")
        for text, said in (("", "it is empty"), ("something else, and long enough to be read as a head of a block", "it is no trace")):
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            answer = tslab("trace", "info", path)
            self.assertEqual((answer.returncode, answer.stdout), (1, ""))
            self.assertIn(said, answer.stderr)


class Programs(unittest.TestCase):
    def look(self, answer, trace, least):
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIsNone(trace.damage)
        kinds, unknown = collections.Counter(), 0
        for e in trace.events():
            kinds[e.kind] += 1
            unknown += e.kind in ("free", "realloc") and e.object == 0
        self.assertEqual(unknown, 0, "objects without a birth")
        self.assertGreater(kinds["alloc"], least)
        self.assertLess(os.path.getsize(trace.file.name), 6 * len(trace) + 100000)

    def test_lua(self):
        code = "local t={} for i=1,20000 do t[i%100]={i,tostring(i)} end print(#t)"
        self.look(*record(installed("lua5.4"), "-e", code), 20000)

    def test_sqlite(self):
        sql = "create table t(a,b); with recursive n(i) as (select 1 union all select i+1 from n where i<2000) " \
              "insert into t select i,'row '||i from n; select count(*) from t where b like '%9%';"
        answer, trace = record(installed("sqlite3"), ":memory:", sql)
        self.assertEqual(answer.stdout, "542\n")
        self.look(answer, trace, 100)

    def test_python(self):
        variables = {"PYTHONMALLOC": "malloc"}
        os.environ.update(variables)
        try:
            answer = tslab("record", "-o", WORK + "/py.trace", sys.executable, "-c", "import json; print(len(json.dumps(list(range(9999)))))",
                           variables=variables)
        finally:
            os.environ.pop("PYTHONMALLOC")
        self.look(answer, tslab_trace.open(WORK + "/py.trace"), 10000)

    def test_redis(self):
        installed("redis-cli")
        path, socket = os.path.join(WORK, "redis.trace"), os.path.join(WORK, "redis.sock")
        tool = subprocess.Popen([TSLAB, "record", "-o", path, installed("redis-server"), "--port", "0", "--unixsocket", socket,
                                 "--save", ""], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        for _ in range(200):
            if os.path.exists(socket):
                break
            time.sleep(0.05)
        for i in range(20):
            subprocess.run(["redis-cli", "-s", socket, "set", "key%d" % i, "x" * 100], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["redis-cli", "-s", socket, "shutdown", "nosave"], check=True, stdout=subprocess.DEVNULL)
        said = tool.communicate(timeout=300)[1]
        self.assertEqual(tool.returncode, 0, said)
        trace = tslab_trace.open(path)
        self.assertIsNone(trace.damage)
        self.assertGreater(sum(e.kind == "alloc" for e in trace.events()), 200)


class Formats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.answer, cls.trace = record(PROGRAM, "threads", "2", "100", name="formats.trace")
        cls.path = cls.trace.file.name
        cls.births = [e for e in cls.trace.events() if e.kind in ("alloc", "realloc")]

    def export(self, to, name):
        out = os.path.join(WORK, name)
        answer = tslab("trace", "export", "--to", to, "-o", out, self.path)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        return out

    def test_info(self):
        answer = tslab("trace", "info", self.path)
        self.assertIn("processes: 1, threads: 3", answer.stdout)

    def test_folded(self):
        with open(self.export("folded", "folded"), encoding="utf-8") as file:
            total = sum(int(line.rsplit(" ", 1)[1]) for line in file)
        self.assertEqual(total, sum(e.size for e in self.births))

    def test_dhat(self):
        with open(self.export("dhat", "out.dhat"), encoding="utf-8") as file:
            data = json.load(file)
        self.assertEqual(sum(p["tbk"] for p in data["pps"]), len(self.births))
        self.assertEqual(sum(p["tb"] for p in data["pps"]), sum(e.size for e in self.births))
        live, now, peak = {}, 0, 0
        for e in self.trace.events():
            if e.object:
                now += (e.size if e.kind != "free" else 0) - live.pop(e.object, 0)
                if e.kind != "free":
                    live[e.object] = e.size
                peak = max(peak, now)
        self.assertEqual(sum(p["eb"] for p in data["pps"]), now)
        # Before a realloc grows an object it is counted once: the peak of the sites is at most one object behind.
        self.assertTrue(0 <= peak - sum(p["gb"] for p in data["pps"]) <= 5000)

    def test_dhat_and_back(self):
        out = os.path.join(WORK, "back.trace")
        self.assertEqual(tslab("trace", "import", "--from", "dhat", "-o", out, self.export("dhat", "out.dhat")).stderr, "")
        trace = tslab_trace.open(out)
        back = [e for e in trace.events() if e.kind == "alloc"]
        self.assertEqual((len(back), sum(e.size for e in back)), (len(self.births), sum(e.size for e in self.births)))
        self.assertEqual((trace.damage, trace.about["synthetic"]), (None, "dhat"))

    def test_pprof(self):
        modules("google.protobuf")
        sys.path.insert(0, os.path.join(TOOLS, "trace"))
        import exporting
        profile = exporting._messages()()
        with gzip.open(self.export("pprof", "out.pb.gz")) as file:
            profile.ParseFromString(file.read())
        self.assertEqual([profile.string_table[t.type] for t in profile.sample_type],
                         ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"])
        self.assertEqual(sum(s.value[0] for s in profile.sample), len(self.births))
        functions = {profile.string_table[f.name] for f in profile.function}
        self.assertLessEqual({"work", "main"}, functions)
        self.assertEqual(len({i for s in profile.sample for i in s.location_id} - {x.id for x in profile.location}), 0)

    def test_heaptrack(self):
        installed("heaptrack")
        subprocess.run(["heaptrack", "-r", "-o", WORK + "/ht", PROGRAM, "spin", "777"], check=False, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        subprocess.run(["heaptrack", "-o", WORK + "/ht", PROGRAM, "spin", "777"], check=True, stdout=subprocess.DEVNULL)
        (made,) = [f for f in os.listdir(WORK) if f.startswith("ht.") and f.endswith((".zst", ".gz")) and "raw" not in f]
        answer = tslab("trace", "import", "--from", "heaptrack", "-o", WORK + "/ht.trace", os.path.join(WORK, made))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        events = list(tslab_trace.open(WORK + "/ht.trace").events())
        for kind in ("alloc", "free"):
            self.assertEqual(sum(e.kind == kind and e.size == 64 and e.object > 0 for e in events), 777)
        self.assertIn(";some ", tslab("trace", "export", "--to", "folded", WORK + "/ht.trace").stdout)

    def test_a_fleet_in_duckdb(self):
        """The queries of docs/record.md over a hundred traces."""
        modules("pyarrow", "duckdb")
        import duckdb
        with open(os.path.join(SOURCES, "docs/record.md"), encoding="utf-8") as file:
            queries = [part.split("```")[0] for part in file.read().split("```sql\n")[1:]]
        self.assertEqual(len(queries), 3)
        folder = os.path.join(WORK, "fleet")
        os.mkdir(folder)
        sys.path.insert(0, os.path.join(TOOLS, "trace"))
        import exporting
        for i in range(100):
            _, trace = record(PROGRAM, "spin", str(100 + i), name="fleet-%d.trace" % i)
            exporting.parquet(trace, os.path.join(folder, "%d.parquet" % i), "%d" % i)
        os.chdir(WORK)
        rows = [duckdb.sql(q).fetchall() for q in queries]
        spun = sum(100 + i for i in range(100))
        self.assertTrue(any(r[0] == "some" and r[1] == spun and r[2] == 64 * spun for r in rows[0]), rows[0][:5])
        self.assertEqual(rows[1][0][0].split()[-1], "199")
        self.assertTrue(all(r[0] is not None for r in rows[2]))
        self.assertEqual({r[0] for r in rows[2] if r[0] == "some"}, set())  # nothing of it was left


class Readers(unittest.TestCase):
    def test_without_numpy(self):
        _, trace = record(PROGRAM, "threads", "2", "50")
        with_numpy = list(trace.events())
        before, tslab_trace.numpy = tslab_trace.numpy, None
        try:
            self.assertEqual(list(tslab_trace.open(trace.file.name).events()), with_numpy)
        finally:
            tslab_trace.numpy = before

    def test_columns_and_objects(self):
        modules("numpy")
        _, trace = record(PROGRAM, "threads", "2", "50")
        columns, objects = trace.columns(), trace.objects()
        self.assertEqual(len(columns["time_ns"]), len(trace))
        self.assertTrue((columns["time_ns"][1:] >= columns["time_ns"][:-1]).all())
        self.assertEqual(int((objects["reallocs"] == 1).sum()), 100)
        self.assertEqual(int(objects["most_bytes"][objects["reallocs"] == 1].sum()), 500000)

    def test_the_reader_in_c_agrees(self):
        _, trace = record(PROGRAM, "threads", "3", "200", options=("--children",))
        answer = subprocess.run([os.path.join(TOOLS, "tools_trace_dump"), trace.file.name], capture_output=True, text=True)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        kinds = ["", "alloc", "free", "realloc", "process start", "process end", "thread start", "thread name", "thread end"]
        mine = ["%d %d %d %d %d %d %d" % (e.time_ns, kinds.index(e.kind), e.thread, e.process, e.address, e.size, e.object)
                for e in trace.events()]
        self.assertEqual(answer.stdout.splitlines(), mine)


if __name__ == "__main__":
    try:
        unittest.main(argv=sys.argv[:1] + sys.argv[4:], warnings="ignore")
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
