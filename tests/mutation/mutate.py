#!/usr/bin/env python3
"""Does some test fail when a step of a protocol is removed?

Applies the mutants of the rooms (rooms.py says how they are written) one at a time to a copy of the sources, builds the
tests that a mutant names, runs them and prints which one failed. Nothing of the checkout is written to.

    mutate.py [--list] [--only NAME]... [--room FLOOR/ROOM]... [--jobs N] [--keep DIR]

Exit status: 0 every mutant is killed (or is recorded as equivalent); 1 a mutant survived; 2 the list does not fit the
code: an anchor is not found exactly once, a mutant does not compile, or a named test fails without any mutant.
"""
import argparse
import concurrent.futures
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the checkout stays as it is

import places  # noqa: E402
import rooms  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT = {"unit": 20}  # by the first part of the name; a unit test takes a second or two
TIMEOUT_OTHERS = 60
FLAGS = ["-std=c11", "-O1", "-g", "-w", "-pthread", "-fno-omit-frame-pointer", "-DTSLAB_ASSERT=2",
         "-Isrc/core", "-Isrc", "-Iinclude", "-Itests", "-Itests/support", '-DTSLAB_MAP="%s"' % (ROOT / "cmake/tslab.map")]
VARIANTS = {
    "plain": [],
    "thread": ["-fsanitize=thread"],
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
}
ENVIRONMENT = {
    "ASAN_OPTIONS": "allocator_may_return_null=1:detect_stack_use_after_return=0",
    "TSAN_OPTIONS": "detect_deadlocks=0:die_after_fork=0:allocator_may_return_null=1",
}


class Broken(Exception):
    """The list and the code do not fit."""


def source_of(test):
    """unit.cache.foreign -> tests/unit/cache/foreign_test.c, as in tests/CMakeLists.txt"""
    return "tests/" + test.replace(".", "/") + "_test.c"


def tests_of(mutant):
    """[(name, arguments)]: a test is a name, or a name and the options of a longer run."""
    return [(t.split()[0], t.split()[1:]) for t in mutant["tests"]]


def library_sources(tree):
    folders = ("src/core", "src/core/*", "src/observe", "src/advice", "tests/walk", "tests/support")
    return [str(p.relative_to(tree)) for folder in folders for p in sorted(tree.glob(folder + "/*.c"))]


def copy_tree(to, tests):
    for part in ("src", "include", "tests/support", "tests/walk"):
        shutil.copytree(ROOT / part, to / part)
    # The build of the sources by CMake: all libraries of a mutant are of one build.
    (to / "include/tslab_build.h").write_text('#define TSLAB_BUILD "mutant"\n', encoding="utf-8")
    for test in tests:
        source = ROOT / source_of(test)
        (to / source_of(test)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, to / source_of(test))
    for header in (ROOT / "tests/unit").glob("*/*.h"):
        (to / header.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(header, to / header.relative_to(ROOT))


def locate(mutants):
    """Gives each mutant the file that it changes, and where."""
    table, misfits = places.Places(ROOT, ("src", "tests/walk")), []
    for mutant in mutants:
        found = table.find(mutant["in"], mutant["old"], mutant["room"])
        if len(found) == 1:
            mutant["file"], mutant["begin"], mutant["end"] = found[0]
            continue
        elsewhere = ", ".join(table.names_with(mutant["old"])) or "nowhere"
        misfits.append("%s (tests/mutation/%s.txt): the anchor is found %d times in %s; in all: %s" %
                       (mutant["name"], mutant["room"], len(found), mutant["in"], elsewhere))
    if misfits:
        raise Broken("\n".join(misfits))


def mutated_text(mutant, text):
    return text[:mutant["begin"]] + mutant["new"] + text[mutant["end"]:]


def run(command, cwd, timeout, log):
    """Status of the command; 'timeout' if it took too long. Its children end with it."""
    environment = dict(os.environ, TEST_LONG="1", **ENVIRONMENT)
    process = subprocess.Popen(command, cwd=cwd, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                               env=environment, start_new_session=True)
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return "timeout"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


class Build:
    """Objects of the unchanged tree, by variant; a mutant compiles again only the files that include the changed one."""

    def __init__(self, tree):
        self.tree = tree
        self.objects = {}  # (variant, source) -> (object, names of the files it depends on)

    def compile(self, tree, variant, source):
        out = tree / "objects" / variant / (source.replace("/", ".") + ".o")
        out.parent.mkdir(parents=True, exist_ok=True)
        # The deep walk is in every test program, as in tests/CMakeLists.txt.
        level = ["-UTSLAB_ASSERT", "-DTSLAB_ASSERT=3"] if source.startswith("tests/walk/") else []
        command = ["gcc", *FLAGS, *VARIANTS[variant], *level, "-MD", "-MF", str(out) + ".d", "-c", source, "-o", str(out)]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
        if done.returncode != 0:
            raise Broken("%s does not compile:\n%s" % (source, done.stderr[:2000]))
        text = pathlib.Path(str(out) + ".d").read_text().replace("\\\n", " ").split(":", 1)[1]
        return out, {os.path.normpath(name) for name in text.split()}

    def base(self, variant, source):
        key = (variant, source)
        if key not in self.objects:
            self.objects[key] = self.compile(self.tree, variant, source)
        return self.objects[key]

    def program(self, tree, variant, test, changed):
        """Links the test; objects that depend on the changed file come from the mutated tree. The library is an archive, as in
        the build: a test that includes a source has that in place of the library's."""
        objects = []
        for source in library_sources(tree) + [source_of(test)]:
            out, needs = self.base(variant, source)
            if changed in needs:
                fresh = tree / "objects" / variant / (source.replace("/", ".") + ".o")
                out = fresh if fresh.exists() else self.compile(tree, variant, source)[0]
            objects.append(str(out))
        program = tree / "programs" / variant / test
        program.parent.mkdir(parents=True, exist_ok=True)
        archive = str(program) + ".a"
        subprocess.run(["ar", "rcs", archive, *objects[:-1]], check=True)
        done = subprocess.run(["gcc", "-pthread", *VARIANTS[variant], "-o", str(program), objects[-1], archive, "-lcmocka"],
                              cwd=tree, capture_output=True, text=True)
        if done.returncode != 0:
            raise Broken("%s does not link:\n%s" % (test, done.stderr[:2000]))
        return program


# The sanitizers place their shadow at fixed addresses; randomization with many bits gets in the way.
def launcher(variant):
    if variant == "plain":
        return []
    works = subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode == 0 \
        if shutil.which("setarch") else False
    return ["setarch", "-R"] if works else []


def run_test(program, arguments, variant, log_path):
    with open(log_path, "ab") as log:
        timeout = TIMEOUT.get(program.name.split(".")[0], TIMEOUT_OTHERS)
        return run([*launcher(variant), str(program), *arguments], program.parent, timeout, log)


def check_base(build, chosen):
    """A test that fails without any mutant says nothing about one."""
    seen = {(m.get("sanitize", "plain"), test) for m in chosen for test, _ in tests_of(m)}
    for variant, test in sorted(seen):
        program = build.program(build.tree, variant, test, None)
        log = build.tree / (test + "." + variant + ".log")
        status = run_test(program, [], variant, log)
        if status != 0:
            raise Broken("%s (%s) fails without a mutant: %s\n%s" %
                         (test, variant, status, log.read_text(errors="replace")[-2000:]))


def try_mutant(build, mutant, directory):
    """(outcome, by which test, seconds)"""
    from_time = time.monotonic()
    variant = mutant.get("sanitize", "plain")
    tests = tests_of(mutant)
    tree = directory / mutant["name"]
    shutil.copytree(build.tree, tree, ignore=shutil.ignore_patterns("objects", "programs", "*.log"))
    path = tree / mutant["file"]
    path.write_text(mutated_text(mutant, path.read_text(encoding="utf-8")), encoding="utf-8")
    what, by = "SURVIVED", ""
    for test, arguments in tests:
        program = build.program(tree, variant, test, mutant["file"])
        status = run_test(program, arguments, variant, tree / "log")
        if status != 0:
            what = "killed"
            by = test + (" (it hung)" if status == "timeout" else "")
            break
    if what == "SURVIVED" and "equivalent" in mutant:
        what, by = "equivalent", mutant["equivalent"]
    elif what == "killed" and "equivalent" in mutant:
        raise Broken("%s is recorded as equivalent, and is killed by %s" % (mutant["name"], by))
    shutil.rmtree(tree / "objects", ignore_errors=True)
    shutil.rmtree(tree / "programs", ignore_errors=True)
    return what, by, time.monotonic() - from_time


def choose(only, of_rooms):
    mutants = rooms.read_mutants(ROOT / "tests/mutation")
    names = [m["name"] for m in mutants]
    if not names or len(set(names)) != len(names):
        raise Broken("no mutants, or two of one name")
    unknown = [name for name in only if name not in names] + list(set(of_rooms) - {m["room"] for m in mutants})
    if unknown:
        raise Broken("no such mutant or room: " + ", ".join(unknown))
    chosen = [m for m in mutants if not only + of_rooms or m["name"] in only or m["room"] in of_rooms]
    locate(chosen)
    return chosen


def print_list(chosen):
    for m in chosen:
        for test, _ in tests_of(m):
            if not (ROOT / source_of(test)).is_file():
                raise Broken("%s: there is no test %s" % (m["name"], test))
        print("%-34s %-26s %-22s %s" % (m["name"], m["protocol"], m["file"], ", ".join(m["tests"])))


def list_mutants(chosen):
    """The reader of the list may have seen enough of it."""
    try:
        print_list(chosen)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def try_all(chosen, jobs, directory):
    """Prints a line per mutant. Returns the number of survivors."""
    base = directory / "base"
    copy_tree(base, {test for m in chosen for test, _ in tests_of(m)})
    build = Build(base)
    check_base(build, chosen)
    survivors = 0
    print("%-34s %-26s %-11s %6s  %s" % ("mutant", "protocol", "result", "s", "by"), flush=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        tried = [(m, pool.submit(try_mutant, build, m, directory)) for m in chosen]
        for m, future in tried:
            what, by, seconds = future.result()
            survivors += what == "SURVIVED"
            print("%-34s %-26s %-11s %6.1f  %s" % (m["name"], m["protocol"], what, seconds, by), flush=True)
    print("%d mutants, %d survived" % (len(chosen), survivors))
    return survivors


def main():
    parser = argparse.ArgumentParser(description="Does some test fail when a step of a protocol is removed?")
    parser.add_argument("--list", action="store_true", help="only say which mutants there are, and whether they fit the code")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this mutant; can be repeated")
    parser.add_argument("--room", action="append", default=[], metavar="FLOOR/ROOM", help="those of this room")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="mutants at a time (1)")
    parser.add_argument("--keep", metavar="DIR", help="work in DIR, which must not exist, and leave the logs there")
    arguments = parser.parse_args()
    try:
        chosen = choose(arguments.only, arguments.room)
        if arguments.list:
            list_mutants(chosen)
            return 0
        if arguments.keep:
            directory = pathlib.Path(arguments.keep).resolve()
            directory.mkdir(parents=True)
            return 1 if try_all(chosen, arguments.jobs, directory) else 0
        with tempfile.TemporaryDirectory(prefix="tslab-mutation-") as directory:
            return 1 if try_all(chosen, arguments.jobs, pathlib.Path(directory)) else 0
    except (Broken, rooms.Malformed) as broken:
        print("mutate.py: %s" % broken, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
