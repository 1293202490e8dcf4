#!/usr/bin/env python3
"""The advice for programs whose lifetimes are known: truth.csv.

    advise_test.py TSLAB [PROGRAM]...

Each program is built, recorded and advised twice: with symbols, and stripped. The right function is within the first
three boundaries, or there is none. Stripped, the function is the one at the same address. Languages whose compiler is
missing are skipped by name.
Exit status: 0 all is right; 1 something is not; 77 nothing could be built.
"""
import csv
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FIRST = 3
COMPILE = {
    ".c": ["gcc", "-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"],
    ".cpp": ["g++", "-std=c++20", "-O2", "-g", "-Wall", "-Wextra", "-Werror"],
    ".rs": ["rustc", "-O", "-g"],
}
LUA = ["-I/usr/include/lua5.4", "-llua5.4"]


def build(source, folder):
    """The program; a text: why it cannot be built here."""
    compiler = COMPILE[source.suffix]
    if not shutil.which(compiler[0]):
        return "%s is not installed" % compiler[0]
    if source.suffix == ".rs" and subprocess.run(["rustc", "--version"], capture_output=True).returncode:
        return "rustc does not run"
    more = LUA if "lua" in source.stem else []
    if more and not pathlib.Path("/usr/include/lua5.4/lua.h").exists():
        return "liblua5.4-dev is not installed"
    program = folder / source.stem
    subprocess.run([*compiler, str(source), "-o", str(program), *more], check=True)
    return program


def advise(tslab, program, name):
    """The advice as JSON, and its exit status."""
    trace = program.with_name(name + ".trace")
    subprocess.run([tslab, "record", "-o", str(trace), str(program)], check=True, capture_output=True, timeout=120)
    done = subprocess.run([tslab, "advise", "--json", str(trace)], capture_output=True, text=True, timeout=120)
    if done.returncode not in (0, 1):
        raise RuntimeError("tslab advise: status %d: %s" % (done.returncode, done.stderr))
    return json.loads(done.stdout), done.returncode


def plain(function):
    """A function's name without namespaces, parameters and hashes."""
    return function.replace("(anonymous namespace)", "").split("(")[0].split("::")[-1]


def wrong_lives(row, advice):
    """What is wrong with its long lives: each has to be named, and no row may read like another; None: nothing."""
    lives = [(plain(l["function"]), l["life"]) for l in advice["long_lives"]]
    rows = [(l["function"], l["line"], *l["through"], l["life"], l["turns_later"]) for l in advice["long_lives"]]
    missing = [life for life in row["lives"].split() if tuple(life.split(":")) not in lives]
    if missing:
        return "%s not within the lives %s" % (missing, lives)
    return "two lives read the same: %s" % rows if len(set(rows)) < len(rows) else None


def wrong_memory(advice):
    """Which boundary holds more in the mean than at most; None: none. Of programs with one thread that allocates."""
    seconds = advice["duration_ns"] * 1e-9
    for b in advice["boundaries"]:
        if b["held_byte_seconds"] > b["held_peak_bytes"] * seconds:
            return "%s holds %g bytes in the mean, %d at most" % (
                b["function"], b["held_byte_seconds"] / seconds, b["held_peak_bytes"])
    return None


def wrong_escapees(advice):
    """Which boundary is advised to do the wrong thing about its escapees; None: none."""
    for b in advice["boundaries"]:
        escapees, fate = b["escapees"], b["at_destroy"]
        if (fate == "none") != (not escapees):
            return "%s: %s with %d escapees" % (b["function"], fate, len(escapees))
        if fate == "promote" and all(e["turns_later"] for e in escapees[:2]):
            return "%s: promotes what dies a turn later" % b["function"]
    return None


def wrong(row, advice, status):
    """What is wrong with the advice for a program; None: nothing."""
    fault = wrong_lives(row, advice) or wrong_memory(advice) or wrong_escapees(advice)
    if fault:
        return fault
    expected, names = row["functions"].split(), [plain(b["function"]) for b in advice["boundaries"][:FIRST]]
    if row["verdict"] == "none":
        return None if advice["verdict"] == "none" and status == 1 else "boundaries %s where there are none" % names
    if advice["verdict"] != "boundaries" or status != 0:
        return "no boundary: " + advice["why"]
    missing = [name for name in expected if name not in names]
    return "%s not within %s" % (missing, names) if missing else None


def same_addresses(row, full, stripped):
    """What differs between the advice with symbols and without, of boundaries and expected lives; None: nothing."""
    def addresses(advice):
        return [b["address"].split("+")[-1] for b in advice["boundaries"][:FIRST]]
    lives = {(l["address"].split("+")[-1], l["life"]) for l in stripped["long_lives"]}
    wanted = {(l["address"].split("+")[-1], l["life"]) for l in full["long_lives"]
              if "%s:%s" % (plain(l["function"]), l["life"]) in row["lives"].split()}
    if not wanted <= lives:
        return "stripped: lives %s, with symbols: %s" % (lives, wanted)
    a, b = addresses(full), addresses(stripped)
    return None if a == b else "stripped: %s, with symbols: %s" % (b, a)


def check(tslab, row, folder):
    """'' if all is right, a text if not; None: skipped."""
    program = build(HERE / "programs" / row["program"], folder)
    if isinstance(program, str):
        print("%-20s skipped: %s" % (row["program"], program))
        return None
    advice, status = advise(tslab, program, program.name)
    fault = wrong(row, advice, status)
    if not fault:
        subprocess.run(["strip", str(program)], check=True)
        fault = same_addresses(row, advice, advise(tslab, program, program.name + ".stripped")[0])
    names = [plain(b["function"]) for b in advice["boundaries"][:FIRST]]
    print("%-20s %s: %s" % (row["program"], "WRONG: " + fault if fault else "right", names or advice["why"]))
    return fault or ""


def main():
    tslab, chosen = sys.argv[1], sys.argv[2:]
    with open(HERE / "truth.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if not chosen or row["program"] in chosen]
    with tempfile.TemporaryDirectory() as folder:
        results = [check(tslab, row, pathlib.Path(folder)) for row in rows]
    done = [r for r in results if r is not None]
    print("%d right, %d wrong, %d skipped" % (done.count(""), sum(bool(r) for r in done), results.count(None)))
    sys.exit(1 if any(done) else 0 if done else 77)


if __name__ == "__main__":
    main()
