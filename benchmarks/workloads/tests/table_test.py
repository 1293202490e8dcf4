"""The table: every figure comes from the programs, every sentence from the figures, and failures are told."""

import io
import os
import stat
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout

import workload_check as w

sys.path.insert(0, os.path.dirname(w.HERE))
import runs  # noqa: E402  (they lie beside the tests' folder)
import rows  # noqa: E402
import table  # noqa: E402
import words  # noqa: E402

PROGRAMS = sorted({row.program for row in rows.ROWS if row.program})
REAL_UNMODIFIED = runs.run_unmodified

# Stands for every program: writes a result whose figures follow from the workload, the allocator and a factor.
FAKE = """#!%(python)s -SE
import json, os, sys
options = dict(each.split("=", 1) for each in sys.argv[1:] if each.startswith("--") and "=" in each)
tslab = options["--allocator"] == "tslab"
peer = os.environ.get("LD_PRELOAD", "")
workload = options.get("--pattern", os.path.basename(sys.argv[0]))
with open(%(log)r, "a") as log:
    log.write(" ".join([os.path.basename(sys.argv[0]), peer] + sys.argv[1:]) + "\\n")
%(behaviour)s
scale = %(factor)s if tslab else %(peer)s if peer else 1.0
leaked = 7 if workload == "leak" else 0
result = {
    "latency_ns": {"p50": 100000 * scale},
    "rss": {"before_bytes": %(before)s, "peak_bytes": 50331648 * scale, "after_bytes": 41943040 * scale, "after_destroy_bytes": 31457280 * scale},
    "leaked": {"objects": leaked, "by_epoch_label": ([{"label": "req", "objects": leaked, "epochs": 3}] if leaked
                                                     else []) if tslab else None},
    "allocation_failures": %(failed)s,
}
if workload == "json_docs":
    result["documents"] = [{"path": "a.json", "bytes": 1048576, "output_fnv1a": %(hash)s}]
else:
    result["digest"] = %(hash)s
json.dump(result, open(options["--json"], "w"))
"""


def run_table(directory, *arguments, factor="0.5", peer="0.8", behaviour="", hash="1", failed="0", peers=True, without=(), before="0"):
    programs = os.path.join(directory, "benchmarks")
    os.makedirs(programs, exist_ok=True)
    log = os.path.join(directory, "log")
    open(log, "w").close()
    for name in PROGRAMS:
        path = os.path.join(programs, name)
        if name in without:
            if os.path.exists(path):
                os.remove(path)
            continue
        with open(path, "w") as file:
            file.write(FAKE % {"python": sys.executable, "log": log, "factor": factor, "behaviour": behaviour,
                               "hash": hash, "peer": peer, "failed": failed, "before": before})
        os.chmod(path, stat.S_IRWXU)
    runs.find_peers = lambda newest: ({"mimalloc": "libm.so.6"}, ["jemalloc", "gperftools"]) if peers else ({}, ["jemalloc", "gperftools", "mimalloc"])
    runs.run_unmodified = lambda row, allocator, *_: {
        "latency_ns": {"p50": 1e9 * (0.5 if allocator == runs.OURS else 1)}, "rss": {"peak_bytes": 50331648}}
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = table.main(["--build", directory, *arguments])
        except SystemExit as stop:
            code = stop.code
    with open(log) as file:
        return code, out.getvalue(), err.getvalue(), file.read().splitlines()


PROCESSES = sum(min(3, 2 if row.memory == "idle afterwards" else 3) for row in rows.ROWS if row.program)

with tempfile.TemporaryDirectory() as directory:
    # One process for each row, allocator and round.
    code, out, err, log = run_table(directory, "--seconds=3", "--json=" + os.path.join(directory, "all.json"))
    w.check(code == 0, "exit %r: %s" % (code, err))
    w.check(err == "", "stderr %r" % err)
    w.check(len(log) == 3 * PROCESSES, "%d programs of %d" % (len(log), 3 * PROCESSES))
    w.check(all("=3" in line for line in log), "the time of a run: %r" % log)
    w.check(sum("libm.so.6" in line for line in log) == PROCESSES, "programs with the peer")
    w.check(not any("libm.so.6" in line and "=tslab" in line for line in log), "temporal-slab under a peer")
    lines = out.splitlines()
    w.check(max(len(line) for line in lines) <= 100, "lines of %d columns" % max(len(line) for line in lines))
    for row in rows.ROWS:
        w.check(sum(line.startswith(row.name) for line in lines) == 2, "%s: its block, and its line of the table" % row.name)
    found = [line.split() for line in lines if line.startswith("JSON documents  ")]
    w.check(found == [["JSON", "documents", "100.0", "us", "80.0", "us", "mimalloc", "50.0", "us", "|", "48.0", "38.4", "mimalloc",
                       "24.0"]], "%r" % found)
    text = " ".join(out.split())
    for said in ("Time: temporal-slab is ahead (1.60 times as fast as mimalloc and 2.0 times as fast as malloc).",
                 "Memory: temporal-slab is ahead (1.60 times as small as mimalloc and 2.0 times as small as malloc).",
                 "- a parser of JSON (JSON documents): ahead in time (50.0 us beside 80.0 us of mimalloc), ahead in memory (24.0 MiB "
                 "beside 38.4 MiB of mimalloc).",
                 "ahead in memory (20.0 MiB beside 32.0 MiB of mimalloc); by design: an epoch a request, so that a leak has a name.",
                 'Found by temporal-slab: 7 objects of "req" in 3 epochs; memory after epoch_destroy of them: 15.0 MiB.',
                 "Left out: jemalloc: not installed.", "Left out: gperftools: not installed."):
        w.check(said in text, "%r is not in: %s" % (said, text))

    # The sentences are not flattering when the figures are not.
    code, out, err, log = run_table(directory, "--rounds=1", factor="(3.0 if workload == 'steady' else 1.5)", peer="2.0")
    text = " ".join(out.split())
    for said in ("Time: malloc is ahead (1.50 times as slow as malloc).", "Memory: malloc is ahead (1.50 times as large as malloc).",
                 "(steady): behind in time (300.0 us beside 100.0 us of malloc), behind in memory (144.0 MiB beside 48.0 MiB of malloc)."):
        w.check(said in text, "%r is not in: %s" % (said, text))
    # A memory is that above an empty process, and less than a MiB apart is level, at any ratio.
    code, out, err, log = run_table(directory, "--rounds=1", peers=False, factor="1.01", before="50331648 - 100000 if tslab else 50331648 - 200000")
    found = [line.split("|")[1].split() for line in out.splitlines() if line.startswith("JSON documents  ")]
    w.check(found[0][0] == "0.2" and found[0][-1] == "0.7", "%r" % found)
    w.check("(JSON documents): level in time, level in memory." in " ".join(out.split()), out)
    # The rows that rest have jemalloc's thread beside jemalloc.
    both = runs.with_background({"malloc": None, "jemalloc-5.3.1": "a.so", runs.OURS: None})
    w.check(list(both) == ["malloc", "jemalloc-5.3.1", "jemalloc-5.3.1 bg", runs.OURS], "%r" % both)
    w.check(runs.environment("a.so", True).get("MALLOC_CONF") == "background_thread:true", "its variable")
    code, out, err, log = run_table(directory, "--rounds=1", factor="1.04", peers=False)
    text = " ".join(out.split())
    w.check("Time: temporal-slab is level with the best (equal to malloc within 5 %)." in text, text)
    w.check("Left out: mimalloc: not installed." in text, text)
    code, out, err, log = run_table(directory, "--rounds=1", failed="4 if tslab else 0")
    w.check("short requests with temporal-slab: 4 allocations FAILED." in " ".join(out.split()), out)

    # A row whose library is not there is left out by name.
    code, out, err, log = run_table(directory, "--rounds=1", without=("xml_tree", "lua_states"))
    text = " ".join(out.split())
    w.check(code == 0 and "Left out: XML tree: xml_tree is not built (libxml2-dev)." in text, text)
    w.check("Left out: Lua states: lua_states is not built (liblua5.4-dev)." in text, text)
    w.check(text.count(" in time (") == 9, text)

    # Paths go to the documents only; --quick and --smoke are short and without other allocators.
    code, out, err, log = run_table(directory, "--quick", w.HERE, w.BUILD)
    documents = [line for line in log if line.startswith("json_docs")]
    w.check(len(documents) == 2 and all(line.endswith("-- %s %s" % (w.HERE, w.BUILD)) for line in documents), "paths %r" % documents)
    w.check(all(w.BUILD not in line for line in log if line not in documents), "paths %r" % log)
    w.check(all("=0.2" in line and "libm" not in line for line in log), "quick %r" % log)
    code, out, err, log = run_table(directory, "--smoke")
    w.check(code == 0 and all("=0.2" in line for line in log), "smoke %r" % log)

    # A file of results is not replaced without a word.
    old = os.path.join(directory, "old.csv")
    for text, said in (("", ""), ("old", "'%s' is there, and is replaced at the end\n" % old)):
        with open(old, "w") as file:
            file.write(text)
        code, out, err, log = run_table(directory, "--quick", "--csv=" + old, "steady")
        w.check((code, err) == (0, said), "%r %r" % (code, err))

    # Rows by name are the only ones.
    code, out, err, log = run_table(directory, "--quick", "steady", "XML tree", w.HERE)
    w.check(code == 0 and [line.split()[0] for line in log] == 2 * ["xml_tree"] + 2 * [rows.PATTERN], "rows %r" % log)
    w.check(" ".join(out.split()).count(" in time (") == 2, out)
    code, out, err, log = run_table(directory, "nosuchrow")
    w.check(code == 2 and "nosuchrow: no row" in err and all("'%s'" % row.name in err for row in rows.ROWS), "%r" % err)

    # Failures.
    code, out, err, log = run_table(directory, "--rounds=1", behaviour="if workload == 'steady': sys.exit('it broke')")
    w.check(code == 1 and "it broke" in err and "steady with malloc: exit code 1" in err, "%r %r" % (code, err))
    w.check("For whom" not in out, "a summary without its figures: %r" % out)
    code, out, err, log = run_table(directory, "--rounds=1", behaviour="if tslab and workload == 'json_docs': os.abort()")
    w.check(code == 1 and "JSON documents with temporal-slab: signal 6" in err, "%r %r" % (code, err))
    code, out, err, log = run_table(directory, "--rounds=1", hash="str(tslab) if workload == 'json_docs' else 1")
    w.check(code == 1 and "a.json: malloc and temporal-slab print it differently" in err, "%r %r" % (code, err))
    code, out, err, log = run_table(directory, "--rounds=1", hash="str(tslab) if workload == 'xml_tree' else 1")
    w.check(code == 1 and "XML tree: malloc and temporal-slab compute different results" in err, "%r %r" % (code, err))

    for arguments, named in ((["--nonsense"], "--nonsense"), (["--seconds=0"], "--seconds=0"),
                             (["--seconds=9"], "--seconds=9"), (["--seconds=x"], "x"), (["--rounds=0"], "--rounds=0"),
                             (["/no/such/path"], "/no/such/path"),
                             (["--picture=/no/such/directory/x.png"], "/no/such/directory/x.png"),
                             (["--json=/no/such/directory/x.json"], "/no/such/directory/x.json")):
        code, out, err, log = run_table(directory, *arguments)
        w.check(code == 2 and err.count("\n") == 1 and named in err and log == [], "%r: %r" % (arguments, err))

with tempfile.TemporaryDirectory() as empty:
    err = io.StringIO()
    with redirect_stderr(err), redirect_stdout(io.StringIO()):
        code = table.main(["--build", empty])
    w.check(code == 1 and "big_answers is missing" in err.getvalue(), "%r" % err.getvalue())

# A bar is never empty, and the longest has its full length.
row = rows.ROWS[0]
results = {name: {"latency_ns": {"p50": ns}, "rss": {"after_bytes": 1 << 20, "peak_bytes": 1 << 20}}
           for name, ns in (("malloc", 1), (runs.OURS, 1000))}
lengths = [line[:48].count(words.bar_sign()) for line in words.bars(row, results)[1:]]
w.check(lengths == [1, words.BAR], "bars %r" % lengths)

# For real, with the programs of this build.
runs.run_unmodified = REAL_UNMODIFIED
out, err = io.StringIO(), io.StringIO()
with redirect_stdout(out), redirect_stderr(err):
    code = table.main(["--build", os.path.dirname(w.BUILD), "--quick"])
w.check(code == 0, "exit %r: %s" % (code, err.getvalue()))
w.check("\nFor whom which row matters" in out.getvalue(), "%s" % out.getvalue())

w.finish()
