#!/usr/bin/env python3
"""The patch of tslab advise: it applies, compiles, and ends the turn on each way out; else the advice says why there is
none.

    hint_test.py TSLAB INCLUDE LIBRARY...

LIBRARY is libtslab-malloc, and libtslab: a patched program, linked with them, prints what it printed before.

Exit status: 0 all is right; 1 something is not; 77 gcc or patch is missing.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
# A function with a body that is put in, and a program that calls it.
PROGRAM = """#include "common.h"

static const char *text = "return 1; {";

/* handle_job(int n) { return 2; } */
FUNCTION static unsigned handle_job(unsigned n)
{
    void *p[50];
    for (unsigned i = 0; i < 50; i++) {
        p[i] = get(100);
    }
    for (unsigned i = 0; i < 50; i++) {
        free(p[i]);
    }
    // return
%s}

int main(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 2000; i++) {
        sum += handle_job(i);
    }
    printf("%%u%%s\\n", sum, text);
    return 0;
}
"""
BODIES = {  # how often the turn ends; or why there is no patch
    "    if (n % 2) {\n        return 3;\n    }\n    return n;\n": 2,
    "    switch (n) {\n    case 1:\n        n++;\n        return 0;\n    default:\n        n += 2;\n    }\n    return n;\n": 2,
    "    if (n % 8) {\n        n = handle_job(n / 8);\n    }\n    return n;\n": "calls itself",
    "    if (n % 8) {\n        n ^= handle_job(n / 8) % 7;\n    }\n    return n;\n": "calls itself",
    "    return n + 1;\n": "value is computed there",
    "    if (n % 2)\n        return 3;\n    return n;\n": "value is computed there",
    "    if (n % 2) return 3;\n    return n;\n": "value is computed there",
    "    n++; return n;\n": "value is computed there",
}


def advice_of(tslab, source, folder):
    """The advice for a program of C in a folder."""
    shutil.copy(PROGRAMS / "common.h", folder)
    subprocess.run(["gcc", "-std=c11", "-O2", "-g", "-pthread", str(source), "-o", str(folder / "program")], check=True)
    subprocess.run([tslab, "record", "-o", str(folder / "trace"), str(folder / "program")], check=True,
                   capture_output=True, timeout=120)
    return subprocess.run([tslab, "advise", str(folder / "trace")], capture_output=True, text=True, check=True,
                          timeout=120).stdout


def apply(advice, source, include, libraries):
    """How often the patched source ends the turn. It has to compile without a warning, and to print the same."""
    program = source.with_name("program")
    before = subprocess.run([str(program)], capture_output=True, check=True, timeout=60).stdout
    done = subprocess.run(["patch", "--fuzz=0", str(source)], input=advice, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "offset" not in done.stdout, done.stdout + advice
    subprocess.run(["gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", include, str(source), "-o",
                    str(program), *libraries, *("-Wl,-rpath," + str(pathlib.Path(l).parent) for l in libraries)], check=True)
    after = subprocess.run([str(program)], capture_output=True, check=True, timeout=60).stdout
    assert after == before, (before, after)
    text = source.read_text(encoding="utf-8")
    assert text.count("epoch_domain_create_ex(") == 1 and text.count("epoch_domain_enter(turn)") == 1, text
    assert text.count("epoch_domain_exit(turn)") == text.count("epoch_domain_destroy(turn)"), text
    return text.count("epoch_domain_destroy(turn)")


def check_bodies(tslab, include, libraries, folder):
    """Functions that can be patched, and such that cannot."""
    source = folder / "job.c"
    for body, wanted in BODIES.items():
        text = PROGRAM % body
        source.write_text(text, encoding="utf-8")
        advice = advice_of(tslab, source, folder)
        if isinstance(wanted, int):
            assert apply(advice, source, include, libraries) == wanted, (body, source.read_text(encoding="utf-8"))
        else:
            assert "No patch for handle_job" in advice and wanted in advice and "+++" not in advice, (body, advice)
    source.unlink()
    advice = subprocess.run([tslab, "advise", str(folder / "trace")], capture_output=True, text=True, check=True).stdout
    assert "source cannot be read" in advice, advice


def main():
    tslab, include, *libraries = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:])
    if not shutil.which("gcc") or not shutil.which("patch"):
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_bodies(tslab, include, libraries, folder)
        for program in ("request_server.c", "transactions.c", "compiler.c"):
            source = pathlib.Path(shutil.copy(PROGRAMS / program, folder))
            assert apply(advice_of(tslab, source, folder), source, include, libraries) == 1, program
        source = pathlib.Path(shutil.copy(PROGRAMS / "loop_in_main.c", folder))
        assert "No patch: the lines go to" in advice_of(tslab, source, folder)
    print("the patches are right")


if __name__ == "__main__":
    main()
