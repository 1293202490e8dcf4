#!/usr/bin/env python3
"""The rules of style that a program can check, over the sources.

    style.py [--root DIR] [--update | --rooms]

A rule without a section in exceptions.txt holds everywhere. A rule with a section is broken as often as its count says:
the places are listed there so that a new one is seen, and one that is mended leaves the list. --update writes the list
anew for each rule that is broken less often than its count, and never raises a count.
Exit status: 0 all rules hold; 1 one is broken; 2 the arguments or the list are no good.
"""
import argparse
import collections
import functools
import os
import pathlib
import re
import sys

sys.dont_write_bytecode = True  # the checkout stays as it is

from c_text import code, comments, functions  # noqa: E402
import calls  # noqa: E402
import rooms  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
FLOORS = ("base os elf region slab memtools ownership supply cache epoch diagnose object domain spill observe advice "
          "api http malloc zones").split()
READER = "core/read.h"  # of all floors of src/core, for src/observe
RANK = {floor: rank for rank, floor in enumerate(FLOORS)}
COLUMNS, FILE_LINES, FUNCTION_LINES, CIRCLE, WORDS_IN_10000 = 120, 500, 60, 6, 5

# Files and names of the system and of other projects that comments mention.
FOREIGN = set("""alloca.h cmocka.h dlfcn.h elf.h features.h ieee754.h io_uring.h limits.h link.h linux/blkzoned.h
    malloc.h math.h mempolicy.c pthread.h sched.h signal.h stdalign.h stdatomic.h stddef.h stdint.h stdio.h stdlib.h
    string.h threads.h time.h ucontext.h unistd.h unwind.h valgrind.h memcheck.h sdt.h
    CAP_SYS_ADMIN PF_EXITING SCHED_FIFO SQLITE_MISUSE acq_rel alloc_func anon_vma at_quick_exit copy_nodes_to_user
    free_func get_nodes gettid lua_Alloc parse_with_any_library queue_wait_seconds_total seq_cst set_mempolicy
    sqlite3_initialize uv_fs_realpath""".split())
SOURCES = (".c", ".h", ".cpp", ".hpp")
OTHERS = (".map", ".in", ".txt", ".py", ".cmake", ".d", ".sh", ".yml", ".json", ".proto")
FILE_NAME = re.compile(r"(?<![\w./<*-])((?:[\w-]+/)*[\w-]+\.(?:c|h|hpp|cpp|pml|py|sh))\b(?![\w(/*])")
NAME = re.compile(r"\b([A-Za-z]\w*_\w*|\w+(?=\(\)))(?!\w)(\*|\.\.\.|<)?")  # with an underscore, or called
WORDS = re.compile(r"""\b(?:[Ww]ho|[Ww]hoever|[Ll]ikewise|Of)\b
    | \bWhat\b (?!\ could\ go\ wrong) (?![^.!;:]*\?)  # not a question
    | (?<=[;:]\ )what\b
    | \b[Tt]he\ same (?=\s*[.,;:)]|\s*$)
    | \bThe\ same (?=\s(?:for|of|in|with|goes|holds)\b)""", re.X)


class Unusable(Exception):
    """The arguments, or the list of exceptions."""


Finding = collections.namedtuple("Finding", "place text")  # place: a file, or another name without a line


def files_of(root):
    """All names of files, without those of builds."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in ("build", ".git", "__pycache__"))
        yield from (os.path.relpath(os.path.join(folder, f), root) for f in sorted(files))


class Tree:
    def __init__(self, root):
        self.root = root
        self.names = list(files_of(root))
        self.all = {f: self.read(f) for f in self.names if f.endswith(SOURCES)}
        self.src = {f: t for f, t in self.all.items() if f.startswith("src/")}
        self.checked = {f: t for f, t in self.all.items() if f.startswith(("src/", "include/", "tests/", "tools/"))}

    def read(self, file):
        return (self.root / file).read_text(encoding="utf-8", errors="replace")

    def known_words(self):
        """The names that a comment may use: words of the code, of other files, and names of files."""
        texts = [code(text) for text in self.all.values()]
        texts += [code(self.read(f)) for f in self.names if f.endswith((".pml", ".rs"))]
        texts += [self.read(f) for f in self.names
                  if f.endswith(OTHERS) and not f.startswith(("tests/style/", "tests/mutation/"))]
        texts += [os.path.basename(f).split(".")[0] for f in self.names]
        return set(re.findall(r"\w+", "\n".join(texts))) | FOREIGN

    def dead_references(self):
        """Comments name files, functions and constants that exist."""
        def found(file, line, comment, match, kind):
            at = line + comment.count("\n", 0, match.start())
            return Finding(file + " " + match.group(1), "line %d: there is no %s%s" % (at, kind, match.group(1)))

        paths = {"/" + f for f in self.names}
        known = self.known_words()
        starts = {word[:n] for word in known if "_" in word for n in range(2, len(word))}
        for file, text in self.checked.items():
            for line, comment in comments(text):
                for match in FILE_NAME.finditer(comment):
                    name = match.group(1)
                    if name not in FOREIGN and name.split("/")[-1] not in FOREIGN \
                            and not any(p.endswith("/" + name) for p in paths):
                        yield found(file, line, comment, match, "file ")
                for match in NAME.finditer(comment):
                    name, more = match.groups()
                    start = re.sub(r"(?<=_)(NAME|N|X)$", "", name)
                    if name not in known and not ((more or start.endswith("_")) and start in starts):
                        yield found(file, line, comment, match, "")

    def long_lines(self):
        """No line has more than 120 columns."""
        for file, text in self.checked.items():
            for number, line in enumerate(text.split("\n"), 1):
                if len(line) > COLUMNS:
                    yield Finding(file, "line %d has %d columns" % (number, len(line)))

    def long_files(self):
        """No file of src has more than 500 lines."""
        for file, text in self.src.items():
            if text.count("\n") > FILE_LINES:
                yield Finding(file, "%d lines" % text.count("\n"))

    def long_functions(self):
        """No function of src has more than 60 lines."""
        for file, text in self.src.items():
            for name, lines, line in functions(text):
                if lines > FUNCTION_LINES:
                    yield Finding(file + " " + name, "line %d: %s has %d lines" % (line, name, lines))

    def floor(self, file):
        """Its rank; None if it is no floor."""
        parts = file.split("/")
        return RANK.get(parts[-2]) if len(parts) > 1 else None

    def includes(self):
        """(file, folder/name.h) of each include of a header of src."""
        for file, text in self.src.items():
            for header in re.findall(r'^#\s*include "([^"]+)"', text, re.M) if self.floor(file) is not None else ():
                if self.floor(header) is not None or header == READER:
                    yield file, header

    def includes_upwards(self):
        """A floor includes headers of itself and of the floors below. Calls to the system are the floor os's."""
        for file, header in self.includes():
            if header != READER and self.floor(header) > self.floor(file):
                yield Finding(file + " " + header, "includes %s, which lies above" % header)
        for file, text in self.src.items():
            if file.startswith("src/core/") and not file.startswith("src/core/os/"):
                for header in re.findall(r"^#\s*include <((?:signal|fcntl|sched|link|sys/(?!sdt)\w+)\.h)>", text, re.M):
                    yield Finding(file + " " + header, "includes <%s>, which is for src/core/os/" % header)

    def doors(self):
        """A folder is entered by the header with its name: all other headers are included from inside only."""
        for file, header in self.includes():
            folder, name = header.split("/")[-2:]
            if header != READER and calls.folder(file) != folder and name != folder + ".h":
                yield Finding(file + " " + header, "includes %s, an inner header: use %s/%s.h" % (header, folder, folder))

    def readers(self):
        """Of the core, src/observe sees core/read.h, and the floors base and os, which know nothing of its memory."""
        for file, header in self.includes():
            known = header == READER or header.split("/")[-2] in ("observe", "base", "os")
            if calls.folder(file) == "observe" and not known:
                yield Finding(file + " " + header, "includes %s: src/observe reads the core by %s" % (header, READER))

    @functools.lru_cache(maxsize=None)
    def calls(self):
        """{(file, file of the names it uses): {names}}, inline functions included."""
        return calls.uses({f: t for f, t in self.src.items() if self.floor(f) is not None}, self.floor)

    def calls_upwards(self):
        """A floor uses functions and data of itself and of the floors below."""
        for (user, used), symbols in sorted(self.calls().items()):
            if self.floor(used) > self.floor(user):
                for symbol in sorted(symbols):
                    yield Finding(user + " " + symbol, "uses %s of %s, which lies above" % (symbol, used))

    def circles(self):
        """Of one floor no more than six rooms reach each other."""
        next_of = collections.defaultdict(set)
        for user, used in self.calls():
            if self.floor(user) == self.floor(used):
                next_of[user].add(used)
        reach = {}
        for start in next_of:
            seen, todo = set(), [start]
            while todo:
                for file in next_of.get(todo.pop(), set()) - seen:
                    seen.add(file)
                    todo.append(file)
            reach[start] = seen
        circles = {frozenset(f for f in seen if start in reach.get(f, ())) for start, seen in reach.items()}
        for circle in sorted(circles, key=sorted):
            for file in sorted(circle)[CIRCLE:]:
                yield Finding(file, "one of a circle of %d: %s" % (len(circle), " ".join(sorted(circle))))

    def untested_rooms(self):
        """Each room of the floors has a test, as rooms.py finds them."""
        for room, tests in rooms.index(self.src, self.names, self.read).items():
            if not tests:
                yield Finding(room, "no test has its name, calls it, names its file or kills a mutant of it")

    def words(self):
        """The subject of a sentence in a comment of src is a thing, with a name."""
        for file, text in self.src.items():
            for line, comment in comments(text):
                for match in WORDS.finditer(comment):
                    if match.group() == "What" and not comment[:match.start()].strip():
                        continue  # a title
                    at = line + comment.count("\n", 0, match.start())
                    yield Finding(file, 'line %d: "%s"' % (at, " ".join(match.group().split())))

    def allowed_words(self):
        total = sum(len(c.split()) for text in self.src.values() for _, c in comments(text))
        return total * WORDS_IN_10000 // 10000


RULES = ("dead_references", "long_lines", "long_files", "long_functions", "includes_upwards", "doors",
         "readers", "calls_upwards", "circles", "untested_rooms", "words")


def read_exceptions(path):
    """{rule: [count, Counter of places]}; a line is `[rule] count`, or a place and how often. A merge may leave a rule
    twice (.gitattributes): the lower count holds."""
    found = {}
    for line in path.read_text(encoding="utf-8").split("\n") if path.exists() else ():
        head = re.fullmatch(r"\[(\w+)\] (\d+)", line)
        item = re.fullmatch(r"(.+) (\d+)", line)
        if head and head.group(1) in RULES:
            last = found.setdefault(head.group(1), [int(head.group(2)), collections.Counter()])
            last[0] = min(last[0], int(head.group(2)))
        elif item and found:
            last[1][item.group(1)] = int(item.group(2))
        elif line and not line.startswith("#"):
            raise Unusable("%s: not understood: %s" % (path, line))
    return found


def write_exceptions(path, found):
    lines = ["# Places that break a rule of style.py. A count may only fall: `tests/style/style.py --update`."]
    for rule in RULES:
        if rule in found and found[rule][0]:
            lines += ["", "[%s] %d" % (rule, found[rule][0])]
            lines += ["%s %d" % item for item in sorted(found[rule][1].items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def check(rule, findings, allowed, known):
    """Prints the findings above the allowed count. Whether the rule holds."""
    if len(findings) <= allowed:
        print("%-17s %s" % (rule, "%d of %d" % (len(findings), allowed) if allowed else "holds"))
        return True
    print("%-17s BROKEN: %d, and %d are allowed. %s" % (rule, len(findings), allowed, getattr(Tree, rule).__doc__))
    per_place = collections.Counter(f.place for f in findings)
    for finding in findings:
        if per_place[finding.place] > known[finding.place]:
            print("    %s: %s" % (finding.place.split(" ")[0], finding.text))
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--root", type=pathlib.Path, default=HERE.parents[1], help="the tree to check (this one)")
    parser.add_argument("--update", action="store_true", help="take places that are mended out of exceptions.txt")
    parser.add_argument("--rooms", action="store_true", help="only print which tests exercise each room")
    arguments = parser.parse_args()
    tree = Tree(arguments.root)
    if arguments.rooms:
        for room, tests in rooms.index(tree.src, tree.names, tree.read).items():
            print("%-24s %s" % (room, " ".join(tests)))
        return 0
    path = arguments.root / "tests/style/exceptions.txt"
    exceptions = read_exceptions(path)
    good = True
    for rule in RULES:
        findings = list(getattr(tree, rule)())
        count, known = exceptions.get(rule, [0, collections.Counter()])
        allowed = max(count, tree.allowed_words() if rule == "words" else 0)
        good &= check(rule, findings, allowed, known)
        if len(findings) < count and not arguments.update:
            print("%-17s LISTED TOO OFTEN: exceptions.txt has %d: --update" % (rule, count))
            good = False
        if len(findings) <= count:
            exceptions[rule] = [len(findings), collections.Counter(f.place for f in findings)]
    if arguments.update:
        write_exceptions(path, exceptions)
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Unusable as error:
        print("style.py: %s" % error, file=sys.stderr)
        sys.exit(2)
