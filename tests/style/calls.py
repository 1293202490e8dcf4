"""Which rooms of src use which, by their source.

A room is a file that is compiled. An inline function or a macro is no room: its uses are those of each room that it is
used in, as after inlining. Uses are of functions and of data with linkage whose names are the project's. A name that
several floors define is that of the nearest floor that is not above: of the user's own, if it can be.
"""
import collections
import os
import re

from c_text import code, functions

MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.M)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*", re.M)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
EXTERN = re.compile(r"^(?:TS_PRIVATE )?extern\b[^;]*?(\w+)(?:\[[^;]*)?;", re.M)
OURS = re.compile(r"(?:ts|tm|slab|epoch|get)_")
LOCAL = re.compile(r"\bstatic\b|\bTS_ALWAYS_INLINE\b")


def words(text):
    return set(re.findall(r"[A-Za-z_]\w*", text))


def parts(text):
    """[(name, head, body)] of the functions."""
    lines = text.split("\n")
    return [(name, lines[line - 1], "\n".join(lines[line - 1:line - 1 + count])) for name, count, line in functions(text)]


def nearest(file, homes, floor):
    """Of the files that define a name, those that are meant in this file."""
    mine = floor(file)
    best = max((floor(h) for h in homes if floor(h) <= mine), default=None)
    return [h for h in homes if best is None or floor(h) == best]


def uses(src, floor):
    """{(file, file of the names it uses): {names}} of the compiled files of src. floor: of a file, rising."""
    texts = {f: INCLUDE.sub("", STRING.sub('""', code(t))) for f, t in src.items()}
    inline, homes, own = collections.defaultdict(set), collections.defaultdict(set), {}
    data = {name for f, t in texts.items() if f.endswith(".h") for name in EXTERN.findall(t)}
    for file, text in texts.items():
        local = {m.group(1): words(m.group(2)) for m in MACRO.finditer(text)}
        found = parts(text)
        if file.endswith(".h"):
            for name, body in [*local.items(), *((n, words(b)) for n, _, b in found)]:
                inline[name] |= body - {name}
            continue
        own[file] = set(local) | {n for n, head, _ in found if LOCAL.search(head)}
        for name, head, _ in found:
            if OURS.match(name) and not LOCAL.search(head):
                homes[name].add(file)
        for line in text.split("\n"):
            head = re.match(r"(?!extern|static|typedef|return|#|\s|\})[\w (),*]*?\b(\w+)(?:\[.*\])?(?: TS_\w+)?(?: =.*|;)", line)
            if head and head.group(1) in data and head.group(1) not in own[file]:
                homes[head.group(1)].add(file)
    edges = collections.defaultdict(set)
    for file in own:
        todo, seen = words(texts[file]), set()
        while todo:
            name = todo.pop()
            if name in seen or name in own[file]:
                continue
            seen.add(name)
            for home in nearest(file, homes.get(name, ()), floor):
                if home != file:
                    edges[file, home].add(name)
            if name in inline and name not in homes:
                todo |= inline[name] - seen
    return edges


def folder(file):
    return os.path.basename(os.path.dirname(file))
