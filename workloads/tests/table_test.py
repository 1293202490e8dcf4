"""The table: every figure comes from the programs, the last sentence from the figures, and failures are told."""

import io
import os
import stat
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout

import workload_check as w

sys.path.insert(0, os.path.dirname(w.HERE))
import table  # noqa: E402  (it lies beside the tests' folder)

# Stands for both programs: writes a result whose figures follow from the workload, the allocator and a factor.
FAKE = """#!%(python)s
import json, os, sys
options = dict(each.split("=", 1) for each in sys.argv[1:] if each.startswith("--") and "=" in each)
allocator = options["--allocator"]
workload = options.get("--pattern", "documents")
with open(%(log)r, "a") as log:
    log.write(" ".join([os.path.basename(sys.argv[0])] + sys.argv[1:]) + "\\n")
%(behaviour)s
tslab = allocator == "tslab"
scale = %(factor)s if tslab else 1.0
leaked = 7 if workload == "leak" else 0
result = {
    "workload": workload, "allocator": allocator, "requests_per_s": 1000 / scale, "allocation_failures": 0,
    "invalid": 0, "unreadable": 0,
    "latency_ns": {"p50": 100000 * scale, "p99": 200000 * scale, "p99_9": 300000 * scale},
    "rss": {"peak_bytes": 50331648 * scale, "after_bytes": 41943040 * scale, "given_back_bytes": 8388608 * scale,
            "after_destroy_bytes": %(destroyed)s * scale},
    "leaked": {"objects": leaked, "by_epoch_label": ([{"label": "req", "objects": leaked, "epochs": 3}] if leaked
                                                     else []) if tslab else None},
    "documents": [{"path": "a.json", "bytes": 1048576, "output_fnv1a": %(hash)s}],
}
json.dump(result, open(options["--json"], "w"))
"""


def run_table(directory, *arguments, factor="0.5", behaviour="", hash="1", destroyed="31457280"):
    programs = os.path.join(directory, "workloads")
    os.makedirs(programs, exist_ok=True)
    log = os.path.join(directory, "log")
    open(log, "w").close()
    for name in ("json_docs", "synthetic_bench"):
        path = os.path.join(programs, name)
        with open(path, "w") as file:
            file.write(FAKE % {"python": sys.executable, "log": log, "factor": factor, "behaviour": behaviour,
                               "hash": hash, "destroyed": destroyed})
        os.chmod(path, stat.S_IRWXU)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = table.main(["--build", directory, *arguments])
        except SystemExit as stop:
            code = stop.code
    with open(log) as file:
        return code, out.getvalue(), err.getvalue(), file.read().splitlines()


with tempfile.TemporaryDirectory() as directory:
    # One process for each workload and allocator, with progress.
    code, out, err, log = run_table(directory, "--seconds=3", "--json=" + os.path.join(directory, "all.json"))
    w.check(code == 0, "exit %r: %s" % (code, err))
    w.check(len(log) == 12, "%d programs" % len(log))
    w.check(err.splitlines()[0] == "[1/12] documents with malloc ..." and
            err.splitlines()[-1] == "[12/12] kernel with tslab ...", "progress %r" % err)
    w.check(all("=3" in line for line in log), "the time of a run: %r" % log)
    rows = [line.split() for line in out.splitlines() if line.split()[1:2] in (["malloc"], ["tslab"])]
    w.check([row[:2] for row in rows] == [[workload, allocator]
                                          for workload in ("documents", "burst", "steady", "leak", "hotspot", "kernel")
                                          for allocator in ("malloc", "tslab")], "rows %r" % rows)
    w.check(rows[0][2:] == ["1000", "100.0", "200.0", "300.0", "48.0", "40.0", "8.0", "0", "n/a"], "%r" % rows[0])
    w.check(rows[1][2:] == ["2000", "50.0", "100.0", "150.0", "24.0", "20.0", "4.0", "0", "-"], "%r" % rows[1])
    w.check(rows[7][2:] == ["2000", "50.0", "100.0", "150.0", "24.0", "20.0", "4.0", "7", '"req"', "(7", "in", "3",
                            "epochs)"], "%r" % rows[7])
    last = out.splitlines()[-1]
    for words in ("p50 6 lower, 0 equal, 0 higher", "p99.9 6 lower, 0 equal, 0 higher", "RSS after 6 lower, 0 equal, 0 higher", "0.50 times malloc's",
                  "2.00 times the documents per second", "7 of 7 leaked objects"):
        w.check(words in last, "%r is not in: %s" % (words, last))
    w.check("from 20.0 to 15.0 MiB" in out, "what epoch_destroy gave back: %s" % out)

    for destroyed in ("41943040", "41943041", "42152755"):  # the last is 20.1 MiB: what is measured moves by itself
        code, out, err, log = run_table(directory, destroyed=destroyed)
        left = "20.1" if destroyed == "42152755" else "20.0"
        w.check("leak: epoch_destroy of the leaking epochs left temporal-slab at %s MiB: " % left in out and "brought" not in out,
                "nothing was given back: %s" % out)

    # The sentence is not flattering when the figures are not.
    code, out, err, log = run_table(directory, factor="(3.0 if workload == 'steady' else 1.5)")
    last = out.splitlines()[-1]
    for words in ("p50 0 lower, 0 equal, 6 higher", "RSS after 0 lower, 0 equal, 6 higher", "of steady, 3.00 times malloc's",
                  "0.67 times the documents per second"):
        w.check(words in last, "%r is not in: %s" % (words, last))
    code, out, err, log = run_table(directory, factor="1.04")
    w.check("p99 0 lower, 6 equal, 0 higher" in out.splitlines()[-1], "ties: %s" % out.splitlines()[-1])

    # Paths go to the documents only; --quick and --smoke are short.
    code, out, err, log = run_table(directory, "--quick", w.HERE, w.BUILD)
    w.check(all(line.endswith("-- %s %s" % (w.HERE, w.BUILD)) for line in log[:2]), "paths %r" % log[:2])
    w.check(all(w.BUILD not in line for line in log[2:]), "paths %r" % log[2:])
    w.check(all("=0.4" in line for line in log), "quick %r" % log)
    code, out, err, log = run_table(directory, "--smoke")
    w.check(code == 0 and all("=0.4" in line for line in log), "smoke %r" % log)

    # Failures.
    code, out, err, log = run_table(directory, behaviour="if workload == 'steady': sys.exit('it broke')")
    w.check(code == 1 and "it broke" in err and "steady with malloc: exit code 1" in err, "%r %r" % (code, err))
    w.check(out == "", "a table without its figures: %r" % out)
    code, out, err, log = run_table(directory, behaviour="if tslab: os.abort()".replace(
        "tslab", "allocator == 'tslab'"))
    w.check(code == 1 and "documents with tslab: signal 6" in err, "%r %r" % (code, err))
    code, out, err, log = run_table(directory, hash="str(tslab)")
    w.check(code == 1 and "a.json: malloc and tslab print it differently" in err, "%r %r" % (code, err))

    for arguments, named in ((["--nonsense"], "--nonsense"), (["--seconds=0"], "--seconds=0"),
                             (["--seconds=9"], "--seconds=9"), (["--seconds=x"], "x"),
                             (["/no/such/path"], "/no/such/path"),
                             (["--json=/no/such/directory/x.json"], "/no/such/directory/x.json")):
        code, out, err, log = run_table(directory, *arguments)
        w.check(code == 2 and err.count("\n") == 1 and named in err and log == [], "%r: %r" % (arguments, err))

with tempfile.TemporaryDirectory() as empty:
    err = io.StringIO()
    with redirect_stderr(err):
        code = table.main(["--build", empty])
    w.check(code == 1 and "json_docs is missing" in err.getvalue(), "%r" % err.getvalue())

# For real, with the programs of this build.
out, err = io.StringIO(), io.StringIO()
with redirect_stdout(out), redirect_stderr(err):
    code = table.main(["--build", os.path.dirname(w.BUILD), "--quick"])
w.check(code == 0, "exit %r: %s" % (code, err.getvalue()))
w.check("\nOf 6 workloads, " in out.getvalue(), "%s" % out.getvalue())

w.finish()
