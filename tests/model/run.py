#!/usr/bin/env python3
"""Runs the models: each exhaustively to its bound, then each with one step taken out, where a violation must be found.

usage: tests/model/run.py [NAME...]      all, or those whose name begins so (foreign, hold, ..., orders)
       --jobs N           how many at a time (default: processors)
       --list             the models and their controls
       --without-loom     leaves the memory orders out (where there is no Rust)
       --accept           writes the numbers of states into the README

Exit code 0 only if every run is complete and without violation, every control finds one, and the modelled functions
are as the models know them (manifest.py). Spin's trail of a violation is left in the build directory, which is named.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import manifest  # noqa: E402
from models import MODELS, ORDERS  # noqa: E402

BUILD = os.path.join(ROOT, "build", "model")
README = os.path.join(HERE, "README.md")
BEGIN, END = "<!-- states: written by run.py --accept -->\n", "<!-- end of states -->\n"
TIMEOUT = 900  # seconds for one run: only for one that hangs; on an idle machine the longest takes six
DEPTH = 20000


class Failure(Exception):
    pass


def call(command, cwd, log, what):
    try:
        done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise Failure("%s: not done after %d s" % (what, TIMEOUT)) from None
    with open(log, "a", encoding="utf-8") as f:
        f.write("$ %s\n%s" % (" ".join(command), done.stdout))
    return done.returncode, done.stdout


def run_spin(model, options, where):
    """(violation or None, states)."""
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(where)
    log = os.path.join(where, "log")
    source = os.path.basename(model["file"])
    shutil.copy(os.path.join(ROOT, model["file"]), where)
    code, out = call(["spin"] + options + ["-a", source], where, log, "spin")
    if code != 0 or not os.path.exists(os.path.join(where, "pan.c")):
        raise Failure("spin refuses the model: " + (out.strip().splitlines() or ["?"])[0])
    code, out = call(["gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DNOCLAIM", "-o", "pan", "pan.c"], where, log, "gcc")
    if code != 0:
        raise Failure("gcc refuses what spin made: " + out.strip().splitlines()[-1])
    code, out = call(["./pan", "-m%d" % DEPTH], where, log, "pan")
    states = re.search(r"^\s*(\d+) states, stored", out, re.M)
    errors = re.search(r"errors: (\d+)$", out, re.M)
    if code != 0 or not states or not errors:
        raise Failure("pan did not come to an end, code %d" % code)
    if "max search depth too small" in out or "Search not completed" in out and errors.group(1) == "0":
        raise Failure("the search is not complete")
    violation = re.search(r"^pan:\d+: (.*?) \(at depth \d+\)", out, re.M)
    if (errors.group(1) != "0") != bool(violation):
        raise Failure("pan counts %s errors, and names %s" % (errors.group(1), violation and violation.group(1)))
    return violation and violation.group(1), int(states.group(1))


def orders_program():
    return os.path.join(BUILD, "orders", "release", "orders")


def run_loom(model, options, where):
    name = options[0]
    os.makedirs(os.path.dirname(where), exist_ok=True)
    log = where + ".log"
    if os.path.exists(log):
        os.unlink(log)
    code, out = call([orders_program()] + options, BUILD, log, "orders " + name)
    executions = re.search(r"^executions (\d+)$", out, re.M)
    if code == 0 and executions:
        return None, int(executions.group(1))
    # 101: a panic, which is how loom tells of a violation. A limit of loom's own is none.
    panic = re.search(r"panicked at [^\n]*\n([^\n]*)", out)
    if code != 101 or not panic or re.search(r"exceeded maximum|Model exceeded|usage", out):
        raise Failure("orders %s ended with code %d: %s" % (name, code, (out.strip().splitlines() or ["?"])[-1]))
    return panic.group(1), 0


def build_orders():
    started = time.time()
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path",
               os.path.join(HERE, "orders", "Cargo.toml"), "--target-dir", os.path.join(BUILD, "orders")]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "cargo build: %s" % error
    if done.returncode != 0:
        return "cargo cannot build tests/model/orders:\n" + done.stdout.strip()
    print("built tests/model/orders in %.0f s" % (time.time() - started))
    return None


def tasks_of(models):
    for model in models:
        loom = model["file"] == ORDERS
        run = run_loom if loom else run_spin
        base = os.path.join(BUILD, model["name"].replace(" ", "."))
        for i, options in enumerate(model["runs"]):
            yield model, None, options, run, "%s.run%d" % (base, i)
        for i, (step, options) in enumerate(model["controls"]):
            more = [step] if loom else ["-DWITHOUT_" + step]
            yield model, step, options + more, run, "%s.without%d.%s" % (base, i, step)


def undefined_controls():
    """A control whose name the model does not know would change nothing (and then fail: no violation). Said by name."""
    for model in MODELS:
        with open(os.path.join(ROOT, model["file"]), encoding="utf-8") as f:
            text = f.read()
        loom = model["file"] == ORDERS
        there = set(re.findall(r'"([a-z-]+)"', text) if loom else re.findall(r"\bWITHOUT_(\w+)", text))
        used = {step for step, _ in model["controls"]}
        for step in sorted(used - there):
            yield "%s: the model has no step %s to leave out" % (model["name"], step)
        if not loom:
            for step in sorted(there - used):
                yield "%s: WITHOUT_%s is in the model, and in no control" % (model["name"], step)


def table(results):
    lines = ["| model | options | states | controls found |\n", "|---|---|---|---|\n"]
    for model in MODELS:
        for i, options in enumerate(model["runs"]):
            states = results.get((model["name"], None, tuple(options)))
            if states is None:
                return None
            found = "%d of %d" % (len(model["controls"]), len(model["controls"])) if i == 0 else ""
            shown = "" if model["file"] == ORDERS else " ".join(options)
            lines.append("| %s | %s | %s | %s |\n" % (model["name"], shown, format(states, ","), found))
    return "".join(lines)


def update_readme(results, accept):
    new = table(results)
    if new is None:
        return  # not all were run
    with open(README, encoding="utf-8") as f:
        text = f.read()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise Failure("tests/model/README.md: the marks around the numbers of states are missing")
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    if old == new:
        return
    if accept:
        with open(README, "w", encoding="utf-8") as f:
            f.write(before + BEGIN + new + END + after)
        print("README: numbers of states written")
    else:
        # Another version of spin may count otherwise.
        print("note: the README gives other numbers of states; tests/model/run.py --accept writes these")


def main():
    parser = argparse.ArgumentParser(description="Runs the models of the protocols, and their negative controls.")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--without-loom", action="store_true")
    parser.add_argument("--accept", action="store_true")
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error("--jobs: %d is less than 1" % options.jobs)
    for name in options.names:
        if not any(m["name"].startswith(name) for m in MODELS):
            parser.error("no model's name begins with '%s'" % name)
    models = [m for m in MODELS if not options.names or any(m["name"].startswith(n) for n in options.names)]
    if options.without_loom:
        models = [m for m in models if m["file"] != ORDERS]
    if options.list:
        for m in models:
            print("%-16s %s\n%16s without: %s" % (m["name"], m["property"], "", " ".join(c for c, _ in m["controls"])))
        return 0

    failures = manifest.check(ROOT) + list(undefined_controls())
    for line in failures:
        print("FAILED  " + line)
    need = ["spin", "gcc"] if any(m["file"] != ORDERS for m in models) else []
    if any(m["file"] == ORDERS for m in models):
        need.append("cargo")
    missing = [program for program in need if not shutil.which(program)]
    if missing:
        print("FAILED  not installed: %s: run `tools/setup.sh model` (without Rust: --without-loom, which checks less)" %
              ", ".join(missing))
        return 1
    os.makedirs(BUILD, exist_ok=True)
    if "cargo" in need:
        error = build_orders()
        if error:
            print("FAILED  " + error)
            print("        (--without-loom leaves the memory orders out, and checks less)")
            return 1

    started = time.time()
    results, controls = {}, 0

    def work(task):
        model, step, opts, run, where = task
        begun = time.time()
        try:
            violation, states = run(model, opts, where)
            error = None
            if step is None and violation:
                error = "violation: %s (trail: %s)" % (violation, os.path.relpath(where, ROOT))
            if step is not None and not violation:
                error = "without %s, no violation is found in %d states: the model does not see this step" % (step, states)
        except Failure as failure:
            error, states, violation = str(failure), 0, None
        return task, error, states, violation, time.time() - begun

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for task, error, states, violation, took in pool.map(work, tasks_of(models)):
            model, step, opts, _, where = task
            if error:
                failures.append(error)
                print("FAILED  %s %s: %s" % (model["name"], " ".join(opts), error))
                continue
            if step is None:
                results[model["name"], None, tuple(opts)] = states
                print("ok      %-16s %-28s %11s states, %.1f s" % (
                    model["name"], " ".join(opts) if model["file"] != ORDERS else "", format(states, ","), took))
            else:
                controls += 1
                print("found   %-16s without %-20s %s" % (model["name"], step, violation[:60]))
            if model["file"] != ORDERS:
                shutil.rmtree(where)
            sys.stdout.flush()
    if not failures:
        update_readme(results, options.accept)
    print("%d models, %d runs complete, %d controls found, %d failures, %.0f s" % (
        len(models), len(results), controls, len(failures), time.time() - started))
    if options.without_loom:
        print("the memory orders were left out (--without-loom)")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
