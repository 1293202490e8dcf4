#!/usr/bin/env python3
"""The lines that tslab advise prints: at which place, at what price, and what is left once they are there.

    lines_test.py TSLAB INCLUDE LIBRARY...

LIBRARY is libtslab-malloc, and libtslab: programs with the lines are linked with them.
Exit status: 0 all is right; 1 something is not; 77 there is no compiler.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
TURN = "static _Thread_local EpochDomain *turn;"


class Tools:
    """The tool, and how programs are built."""

    def __init__(self, tslab, include, *libraries):
        self.tslab, self.include, self.libraries = tslab, include, libraries
        self.folder = None

    def build(self, source, *flags):
        program = self.folder / "program"
        subprocess.run(["gcc", "-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", *flags, "-I", str(PROGRAMS),
                        "-I", self.include, str(source), "-o", str(program), *self.libraries,
                        *("-Wl,-rpath," + str(pathlib.Path(l).parent) for l in self.libraries)], check=True)
        return program

    def advice(self, source, *flags):
        """Its text, its object, and what the program prints."""
        program, trace = self.build(source, *flags), self.folder / "trace"
        done = subprocess.run([self.tslab, "record", "-o", str(trace), str(program)], check=True, capture_output=True,
                              text=True, timeout=120)
        both = [subprocess.run([self.tslab, "advise", *more, str(trace)], capture_output=True, text=True, timeout=120,
                               check=False) for more in ([], ["--json"])]
        assert all(b.returncode in (0, 1) and not b.stderr for b in both), both
        return both[0].stdout, json.loads(both[1].stdout), done.stdout


def line_with(source, text):
    """The number of the first line that has the text."""
    return 1 + next(i for i, line in enumerate(source.read_text(encoding="utf-8").splitlines()) if text in line)


def check_prices(text, found):
    """A captured pair is measured, and its price is that of the lines."""
    costs, best = found["costs"], found["boundaries"][0]
    assert costs["captured_ns"] > 0 and costs["captured_domain_ns"] > 0, costs
    each = best["objects_per_turn"] * (costs["malloc_free_ns"] - costs["captured_ns"]) - costs["captured_domain_ns"]
    assert abs(best["ns_saved_captured_per_turn"] - each) < 1 + abs(each) / 50, (best, each)
    line = re.search(r"first, by CAPTURE with each free: (\w+) ", text).group(1)
    wanted = re.search(r"captured, malloc and free take ([0-9.]+)", text).group(1)
    assert line in ("costs", "saves") and float(wanted) > 0, text
    assert "a turn by slab_alloc and without %d frees" % best["frees_saved"] in text, text
    for part in ("pkg-config --cflags --libs tslab-malloc", "#include <tslab/malloc.h>"):
        assert part in text, text


def check_place(tools, source):
    """Where rounds are cut, in a function that is inlined, and in one that is not and has no loop."""
    wanted = line_with(source, "read_nodes(document);")
    text, found, _ = tools.advice(source)
    best = found["boundaries"][0]
    assert (best["line"], best["cut"], best["inlined"], best["turn"]) == (wanted, "before", "convert", "loop"), best
    assert "before documents.c:%d (convert, inlined into main) the turn ends and the next begins" % wanted in text, text
    assert "loop" not in text, text
    assert best["reallocs_per_turn"] == 3 and "with 3.0 reallocs" in text, text
    assert not [l for l in found["long_lives"] if l["life"] == "generation"], "what dies in the turns is a long life"
    assert sum(f["objects"] for f in best["frees"]) == best["frees_saved"], best["frees"]
    assert best["frees"][0]["function"] == "free_nodes", best["frees"]
    assert "frees to take out: %d in free_nodes (documents.c:%d)" % (
        best["frees"][0]["objects"], line_with(source, "free(first);")) in text, text
    assert best["allocated_by"][0]["function"] == "new_memory", best["allocated_by"]
    assert re.search(r"let new_memory \(.*\) call slab_alloc: 100\.0 %", text), text
    check_prices(text, found)
    text, found, _ = tools.advice(source, "-fno-inline")
    best = found["boundaries"][0]
    assert (best["function"], best["line"], best["cut"], best["inlined"]) == ("convert", wanted, "before", None), best
    assert "loop" not in text and "before documents.c:%d (convert) the turn ends" % wanted in text, text


def check_loop(tools):
    """One that the source has."""
    text, found, _ = tools.advice(PROGRAMS / "loop_in_main.c")
    assert "each round of the loop around this line is a turn" in text, text
    assert "in front of the loop" in text and found["boundaries"][0]["cut"] in ("before", "behind"), text
    text, found, _ = tools.advice(PROGRAMS / "request_server.c")
    assert "each call is a turn" in text and found["boundaries"][0]["cut"] is None, text
    assert found["domains_entered"] == 0 and "a domain is here" not in text, text


def printed_lines(text):
    """Those between the place and the way the variable is declared."""
    part = text[text.index("the turn ends and the next begins:"):text.index("with static _Thread_local")]
    return "\n".join(part.splitlines()[1:-1])


def check_domain(tools, source):
    """The lines, put there, change no output; and the advice for the program that has them is of what is left."""
    text, found, before = tools.advice(source)
    place = found["boundaries"][0]["line"] - 1
    lines = source.read_text(encoding="utf-8").splitlines()
    lines[place:place] = printed_lines(text).splitlines()
    top = lines.index('#include "common.h"') + 1
    lines[top:top] = ["#include <tslab/malloc.h>", TURN]
    end = lines.index("    return 0;", place)
    lines[end:end] = ["    epoch_domain_exit(turn);", "    epoch_domain_destroy(turn);"]
    captured = tools.folder / "captured.c"
    captured.write_text("\n".join(lines) + "\n", encoding="utf-8")
    text, found, after = tools.advice(captured)
    assert after == before, (before, after)
    best = found["boundaries"][0]
    assert abs(found["domains_entered"] - best["turns"]) <= 1 and best["domains_entered"] == found["domains_entered"], best
    assert "a domain is here already, entered %d times; remaining:" % best["domains_entered"] in text, text
    for part in ("epoch_domain_create_ex", "how:", "No patch", "CAPTURE"):
        assert part not in text, text
    assert "frees to take out" in text, text
    whole = captured.read_text(encoding="utf-8").replace("{ return get(bytes); }", "{ return slab_alloc(bytes); }")
    whole = whole.replace("        free(first);\n", "")
    captured.write_text(whole, encoding="utf-8")
    text, found, after = tools.advice(captured)
    assert after == before and found["verdict"] == "none", (before, after, text)
    assert found["objects_in_domains"] > 180000, found
    assert "a domain is here already: entered %d times, most often in main (" % found["domains_entered"] in text, text


def check_lives(tools):
    """Each has its saving; where no boundary is, generations that are worth it are said to be."""
    text, found, _ = tools.advice(PROGRAMS / "generations.c")
    rows = [line for line in text.splitlines() if re.match(r"  (run|cache|generation) ", line)]
    assert len(rows) == len(found["long_lives"]) > 0, text
    for row, life in zip(rows, found["long_lives"]):
        assert ("in all" in row) == (life["ns_saved"] > 0) != ("not worth it alone" in row), (row, life)
    assert any(life["life"] == "generation" and life["ns_saved"] > 0 for life in found["long_lives"]), found["long_lives"]
    assert "No boundary" in text and re.search(r"Yet [0-9.]+ % of the allocations die together", text), text
    text, _, _ = tools.advice(PROGRAMS / "table_for_life.c")
    assert "No boundary" in text and "Yet " not in text, text


def main():
    tools = Tools(*(str(pathlib.Path(path).resolve()) for path in sys.argv[1:]))
    if not shutil.which("gcc"):
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        tools.folder = pathlib.Path(name)
        source = PROGRAMS / "documents.c"
        check_place(tools, source)
        check_loop(tools)
        check_domain(tools, source)
        check_lives(tools)
    print("the lines are right")


if __name__ == "__main__":
    main()
