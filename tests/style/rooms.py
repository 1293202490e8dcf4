"""Which tests exercise a room of src/core, src/observe or src/advice: a source with its header, or a header with functions.

A test is one of the room if it has the room's name, if a mutant of one of the room's functions names it, if it calls
such a function, or if its first comment names the room's file.
"""
import collections
import os
import re

from c_text import code, comments, functions

TEST = re.compile(r"(?:tests|tools/tests)/(.+)_test\.(?:c|cpp|py|sh)$")


def rooms_of(src):
    """{floor/room: names of its functions}, in the order of the files."""
    found = collections.defaultdict(set)
    for file, text in src.items():
        if file.startswith(("src/core/", "src/observe/", "src/advice/")):
            names = {name for name, _, _ in functions(text)}
            if names:
                found["/".join(os.path.splitext(file)[0].split("/")[-2:])] |= names
    return dict(found)


def tests_of(names, read):
    """{name of a test: (words of its code, its first comment)}"""
    found = {}
    for file in names:
        match = TEST.match(file)
        if match:
            text = read(file)
            first = (comments(text) or [(0, "")])[0][1] if file.endswith((".c", ".cpp")) else text[:1500]
            words = set(re.findall(r"\w+", code(text))) if file.endswith((".c", ".cpp")) else set()
            found[match.group(1).replace("/", ".")] = (words, first)
    return found


def mutants_of(names, read):
    """{(floor, name of a room or a function): tests}"""
    found = collections.defaultdict(set)
    for file in names:
        match = re.match(r"tests/mutation/(\w+)/(\w+)\.txt$", file)
        if match:
            for function, tests in re.findall(r"^\[[\w-]+\] (\w+)\n(?:.*\n)*?tests: (.+)$", read(file), re.M):
                for name in (function, match.group(2)):
                    found[match.group(1), name] |= {test.split()[0] for test in tests.split("; ")}
    return found


def index(src, names, read):
    """{floor/room: [tests]}"""
    tests, mutants, found = tests_of(names, read), mutants_of(names, read), {}
    for room, defined in rooms_of(src).items():
        floor, short = room.split("/")
        exported = {name for name in defined if re.match(r"(ts|slab|epoch)_", name)}
        own = re.compile(r"unit\.%s(_\w+)?" % re.escape(room.replace("/", ".")))
        file = re.compile(r"\b%s\.[ch]\b" % re.escape(short))
        by_mutants = set().union(*(mutants.get((floor, name), ()) for name in defined | {short}))
        found[room] = sorted(name for name, (words, first) in tests.items() if own.fullmatch(name)
                             or name in by_mutants or words & exported or file.search(first))
    return found
