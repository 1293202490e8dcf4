#!/usr/bin/env python3
"""Does style.py find every kind of fault? A small tree, good at first, is broken in one way after the other.

    style_test.py
"""
import pathlib
import subprocess
import sys
import tempfile

STYLE = pathlib.Path(__file__).resolve().parent / "style.py"
GOOD = {
    "src/core/base/base.h": "/* What low.c gives: ts_low. CAP_SYS_ADMIN, acq_rel, ts_lo* exist. */\nint ts_low(void);\n",
    "src/core/base/low.c": '#include "base/base.h"\nint ts_low(void) {\n    return 0;\n}\n',
    "src/core/api/api.h": "int ts_high(void);\nextern int ts_datum;\n",
    "src/core/api/high.c": '#include "api/api.h"\n#include "base/base.h"\nint ts_datum;\n'
                           "int ts_high(void) {\n    return ts_low();\n}\n",
    "tests/unit/low_test.c": "// Does ts_low (base.h) work? See low_test and base/low.c.\n",
    "tests/unit/calls_test.c": "int x = ts_low + ts_high + ts_f + ts_again + %s;\n" % " + ".join("ts_r%d" % n for n in range(7)),
}


def ring(count, folder="core/os"):
    """Rooms of one floor, each of which calls the next."""
    text = "void ts_r%d(void);\nvoid ts_r%d(void) {\n    ts_r%d();\n}\n"
    return {"src/%s/r%d.c" % (folder, n): text % ((n + 1) % count, n, (n + 1) % count) for n in range(count)}


def ring_by_header(count):
    """A ring that is closed by an inline function of a header alone."""
    files = ring(count)
    files["src/core/os/os.h"] = "void ts_r0(void);\nstatic inline void ts_again(void) {\n    ts_r0();\n}\n"
    last = "src/core/os/r%d.c" % (count - 1)
    return {**files, last: '#include "os/os.h"\nvoid ts_r%d(void) {\n    ts_again();\n}\n' % (count - 1)}


TEST, LOW = "tests/unit/low_test.c", "src/core/base/base.h"
NO_TEST = {TEST: "int x;\n", "tests/unit/calls_test.c": "int x = ts_high;\n"}  # of low
LOW_C, LONG_C = "src/core/base/low.c", "src/core/base/long.c"
LONG_LINE = "int x; //" + " x" * 56 + "\n"
FUNCTION = "int ts_f(void);\nint ts_f(void) {\n%s    return 0;\n}\n"
HIGH_BODY = "int ts_datum;\nint ts_high(void) {\n    return 0;\n}\n"
LOW_BODY = "int ts_low(void);\nint ts_low(void) {\n    return %s;\n}\n"

# (rule, files to change, a line that the output must have)
BAD = [
    ("dead_references", {TEST: "// Does gone.c work?\n"}, TEST + ": line 1: there is no file gone.c"),
    ("dead_references", {TEST: "// See api/low.h.\n"}, "there is no file api/low.h"),
    ("dead_references", {LOW: "int ts_low(void);\n/* It\n   is ts_gone. */\n"}, "line 3: there is no ts_gone"),
    ("dead_references", {LOW: "/* As IS_GONE. */\nint ts_low(void);\n"}, "there is no IS_GONE"),
    ("dead_references", {LOW: "/* As gone(). */\nint ts_low(void);\n"}, "there is no gone"),
    ("long_lines", {TEST: LONG_LINE}, "line 1 has 121 columns"),
    ("long_files", {"src/core/base/long.h": "int x;\n" * 501}, "src/core/base/long.h: 501 lines"),
    ("long_functions", {LONG_C: FUNCTION % ("    ;\n" * 58)}, "line 2: ts_f has 61 lines"),
    ("includes_upwards", {LOW_C: '#include "api/api.h"\n' + LOW_BODY % 0}, "low.c: includes api/api.h"),
    ("includes_upwards", {LOW_C: "#include <signal.h>\n" + LOW_BODY % 0}, "low.c: includes <signal.h>"),
    ("calls_upwards", {LOW_C: "int ts_high(void);\n" + LOW_BODY % "ts_high()"}, "uses ts_high of src/core/api/"),
    ("calls_upwards", {LOW_C: "extern int ts_datum;\n" + LOW_BODY % "ts_datum"}, "uses ts_datum of src/core/api/"),
    ("includes_upwards", {LOW_C: '#include "malloc/malloc.h"\n' + LOW_BODY % 0}, "low.c: includes malloc/malloc.h"),
    ("doors", {"src/core/api/high.c": '#include "os/inner.h"\n' + HIGH_BODY}, "high.c: includes os/inner.h, an inner"),
    ("doors", {"src/malloc/c.c": '#include "os/inner.h"\n'}, "c.c: includes os/inner.h, an inner header"),
    ("readers", {"src/observe/look.c": '#include "slab/slab.h"\n'}, "look.c: includes slab/slab.h: src/observe reads"),
    ("calls_upwards", {LOW: "int ts_high(void);\nstatic inline int ts_low(void) {\n    return ts_high();\n}\n",
                       LOW_C: '#include "base/base.h"\nint ts_f(void) {\n    return ts_low();\n}\n'}, "uses ts_high of"),
    ("circles", ring(7), "one of a circle of 7"),
    ("circles", ring(7, "malloc"), "one of a circle of 7"),
    ("circles", ring_by_header(7), "one of a circle of 7"),
    ("untested_rooms", NO_TEST, "base/low: no test"),
]
for sentence in ("Of units it takes two.", "It goes to the thread that asked, likewise.", "A thread who waits.",
                 "Whoever waits.", "It ends; what is left goes.", "It ends. What is left goes.",
                 "In a span it does the same."):
    BAD.append(("words", {LOW: "/* %s */\nint ts_low(void);\n" % sentence}, 'base.h: line 1: "'))

# Files to change: they look like a breach and are none.
FINE = [
    {LOW: '/* It says "x". What could go wrong: nothing. What for? For the same reason. */\nint ts_low(void);\n'},
    {LOW_C: 'const char *ts_text = "/* who is ts_gone */";\n' + LOW_BODY % 0},
    {LONG_C: FUNCTION % ("    ;\n" * 57)},
    {**NO_TEST, TEST: "/* See low.c. */\n"},
    {**NO_TEST, TEST: "int x = ts_low;\n"},
    {**NO_TEST, "tests/unit/base/low_steps_test.c": "int x;\n"},
    {**NO_TEST, "tests/mutation/base/low.txt": "[a] ts_low\nprotocol: none\ntests: unit.x; unit.low\n- return\n"},
    ring(6),
    ring(6, "malloc"),
    ring_by_header(6),
    {"src/core/os/os.c": '#include "os/inner.h"\n#include "base/base.h"\n'},
    {"src/observe/look.c": '#include "core/read.h"\n#include "base/base.h"\n'},
]


def write_tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def run(root, *more):
    command = [sys.executable, str(STYLE), "--root", str(root), *more]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def broken_rules(output):
    return {line.split()[0] for line in output.split("\n") if " BROKEN: " in line}


def expect(what, condition, output):
    if not condition:
        sys.exit("style_test.py: %s\n%s" % (what, output))


def check_rules():
    for rule, files, line in BAD + [(None, files, "") for files in FINE] + [(None, {}, "")]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            write_tree(root, {**GOOD, **files})
            status, output = run(root)
            expect("%s: status %d" % (files, status), status == (1 if rule else 0), output)
            expect("%s breaks %s" % (files, rule), broken_rules(output) == ({rule} if rule else set()), output)
            expect("%s: no word of %s" % (files, line), line in output, output)


def check_exceptions():
    """A count allows so many places, falls with them, and never rises."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        listed = root / "tests/style/exceptions.txt"
        write_tree(root, {**GOOD, TEST: LONG_LINE * 2,
                          "tests/style/exceptions.txt": "# Known.\n[long_lines] 2\ntests/unit/low_test.c 2\n"})
        status, output = run(root)
        expect("two of two long lines", status == 0 and "long_lines        2 of 2" in output, output)
        listed.write_text("[long_lines] 3\ntests/unit/low_test.c 2\n" + listed.read_text())
        status, output = run(root)
        expect("of two counts the lower holds", status == 0 and "long_lines        2 of 2" in output, output)
        write_tree(root, {"tests/unit/more_test.c": LONG_LINE})
        before = listed.read_text()
        status, output = run(root, "--update")
        expect("three of two long lines", status == 1 and "more_test.c: line 1 has 121" in output, output)
        expect("the old places are not told again", "low_test.c" not in output, output)
        expect("the count has not risen", "[long_lines] 2\ntests/unit/low_test.c 2\n" in listed.read_text(), before)
        write_tree(root, {TEST: "int x;\n"})
        status, output = run(root)
        expect("more are listed than there are", status == 1 and "LISTED TOO OFTEN" in output, output)
        status, output = run(root, "--update")
        fallen = "[long_lines] 1\ntests/unit/more_test.c 1\n" in listed.read_text()
        expect("the count falls", status == 0 and fallen, output)
        write_tree(root, {"tests/unit/more_test.c": "int x;\n"})
        status, output = run(root, "--update")
        expect("a rule that holds has no section", status == 0 and "long_lines" not in listed.read_text(), output)
        write_tree(root, {"tests/unit/more_test.c": LONG_LINE})
        status, output = run(root, "--update")
        expect("and gets none", status == 1 and "long_lines" not in listed.read_text(), output)


def main():
    check_rules()
    check_exceptions()
    print("style_test.py: %d ways to break a rule are seen" % len(BAD))
    return 0


if __name__ == "__main__":
    sys.exit(main())
