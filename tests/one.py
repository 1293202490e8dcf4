#!/usr/bin/env python3
"""Builds the programs of a test, and runs it: make t T=unit.cache.foreign. T is a name, the beginning of names, or a regular
expression. Usage: one.py PRESET T [OPTION OF CMAKE...]"""

import difflib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def build(preset, options, targets):
    subprocess.run(["tools/build.sh", preset, *options, *(["--", *targets] if targets else [])], cwd=ROOT, check=True)


def configure(preset, options):
    # Every generator has this target, which compiles nothing.
    subprocess.run(["tools/build.sh", preset, *options, "--", "help"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def read_tests(folder):
    """Name: its command as CMake wrote it."""
    found = {}
    for file in [folder / "CTestTestfile.cmake", *folder.glob("*/**/CTestTestfile.cmake")]:
        if file.is_file():
            for line in file.read_text().splitlines():
                match = re.match(r"add_test\((?:\[=*\[)?([^\]\s\"]+)(?:\]=*\])? (.*)\)$", line)
                if match:
                    found[match[1]] = match[2]
    return found


def choose(wanted, names):
    if wanted in names:
        return [wanted]
    started = [n for n in names if n.startswith(wanted)]
    try:
        return started or [n for n in names if re.search(wanted, n)]
    except re.error:
        return []


def targets_of(folder, commands):
    """The targets of the build that the commands name; None: everything, as one of them is no target."""
    listed = subprocess.run(["cmake", "--build", folder, "--target", "help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^(?:\.\.\. )?([^\s:]+)", listed, re.M))
    targets = set()
    for command in commands:
        for path in re.findall(re.escape(str(folder)) + r"/([^\s\":;]+)", command):
            candidates = (os.path.basename(path), path, path + "/all")
            target = next((c for c in candidates if c in known), None)
            if target is None:
                return None
            targets.add(target)
    return sorted(targets)


def main():
    if len(sys.argv) < 3:
        print("usage: one.py PRESET T [OPTION OF CMAKE...]", file=sys.stderr)
        return 2
    preset, wanted, *options = sys.argv[1:]
    folder = ROOT / "build" / preset
    configure(preset, options)
    tests = read_tests(folder)
    chosen = choose(wanted, tests)
    idle = [part for part in wanted.split("|") if not choose(part, tests)]
    if chosen and idle and "(" not in wanted:
        print("no test is named " + ", ".join(idle), file=sys.stderr)
        return 2
    if not chosen:
        near = difflib.get_close_matches(wanted, tests, n=5, cutoff=0.5)
        print(f"no test is named {wanted}" + (": is it " + ", ".join(near) + "?" if near else ""), file=sys.stderr)
        print(f"ctest --test-dir build/{preset} -N lists all", file=sys.stderr)
        return 2
    print(f"{len(chosen)} tests chosen" if len(chosen) > 1 else f"test {chosen[0]}", flush=True)
    targets = targets_of(folder, [tests[name] for name in chosen])
    if targets is None:
        print("one of them needs the whole build", flush=True)
    if targets is None or targets:
        build(preset, options, targets)
    expression = "^(" + "|".join(re.escape(name) for name in chosen) + ")$"
    return subprocess.run(["ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error", "-R", expression]).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode or 1)
