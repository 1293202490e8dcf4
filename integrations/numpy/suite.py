#!/usr/bin/env python3
"""NumPy's own tests, each in a domain's numpy(). What does not pass is run again without it, and must come out the same.

usage: suite.py short|whole     in an environment that has tslab, numpy, pytest, pytest-xdist and hypothesis
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy

HERE = pathlib.Path(__file__).resolve().parent
SITE = pathlib.Path(numpy.__file__).parent.parent
CORE = "numpy/_core" if (SITE / "numpy/_core/tests").is_dir() else "numpy/core"
WHOLE = [CORE, *("numpy/" + part for part in ("lib", "ma", "random", "linalg", "fft"))]
SHORT = [*(CORE + "/tests/test_%s.py" % part for part in
           ("api", "array_coercion", "dtype", "indexing", "mem_overlap", "mem_policy", "multiarray", "shape_base")),
         "numpy/lib", "numpy/ma", "numpy/fft", "numpy/random/tests/test_generator_mt19937.py", "numpy/linalg/tests/test_linalg.py"]


def run(plain, what, work):
    """What came of each test, by its name."""
    file = pathlib.Path(work) / ("plain" if plain else "handler")
    environment = dict(os.environ, PYTHONPATH=str(HERE), TSLAB_PLAIN="1" if plain else "0", TSLAB_OUTCOMES=str(file), TSLAB_ON_MISUSE="abort")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "tslab_numpy_plugin", "-W", "ignore",
               "--rootdir=%s" % SITE, "-m", "not slow", "-n", str(os.cpu_count() or 1), *what]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=SITE, env=environment)
    print(done.stdout.strip().rsplit("\n", 1)[-1])
    if not file.exists():
        sys.exit(done.stdout[-5000:] + done.stderr[-5000:])
    return json.loads(file.read_text(encoding="utf-8"))


def main():
    if sys.argv[1:] not in (["short"], ["whole"]):
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as work:
        ours = run(False, SHORT if sys.argv[1] == "short" else WHOLE, work)
        others = {name: one for name, one in ours.items() if one["kind"] != "passed"}
        plain = run(True, sorted(others)[:3000], work) if others else {}
    held = [one["held"] for one in ours.values() if one["held"] > 0]
    print("NumPy %s: %d tests in domains, of which %d held memory at their end, %.1f MiB at most" % (
        numpy.__version__, len(ours), len(held), max(held, default=0) / 2**20))
    for reason, count in collections.Counter(one["reason"] for one in others.values() if one["kind"] == "skipped").most_common():
        print("    %4d %s" % (count, reason))
    different = {name: one for name, one in others.items() if one["kind"] != plain.get(name, {}).get("kind")}
    for name, one in different.items():
        print("%s: %s with the handler, %s without it: %s" % (name, one["kind"], plain.get(name, {}).get("kind"), one["reason"]))
    for name, one in others.items():
        if one["kind"] == "failed" and name not in different:
            print("%s: fails without the handler, too" % name)
    if len(held) < 5000:
        print("suite.py: hardly any test has put its arrays into a domain")
        return 1
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
