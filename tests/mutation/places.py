"""Where a mutant's anchor stands: the definitions of the sources, by name, and text found in them.

White space and comments do not count. A definition is a function, a macro, or another declaration outside of functions.
"""
import collections
import re

PIECES = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)
STEP = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*|[{}();]|\S", re.M)
NO_FUNCTIONS = ("__attribute__", "_Alignas", "alignas")

# names: its own, or all words of a declaration that is no function. text: without comments, as long as the source's.
Definition = collections.namedtuple("Definition", "file names begin text")


def blanked(text, strings):
    """The text with spaces for comments, and for strings if asked; each character stays where it is."""
    def blank(match):
        piece = match.group()
        return re.sub(r"[^\n]", " ", piece) if strings or piece[0] == "/" else piece
    return PIECES.sub(blank, text)


def function_name(head):
    """Of the text before a brace outside of functions: name of the last call-like word; None if there is none."""
    if "=" in head or not head.rstrip().endswith(")"):
        return None
    depth, names = 0, []
    for match in re.finditer(r"(\w+)?\s*\(|\)", head):
        if match.group() == ")":
            depth -= 1
            continue
        if depth == 0 and match.group(1) and match.group(1) not in NO_FUNCTIONS:
            names.append(match.group(1))
        depth += 1
    return names[-1] if names else None


def definitions(file, source):
    text, shape = blanked(source, False), blanked(source, True)
    begin, depth, name, found = None, 0, None, []

    def end(at):
        words = {name} if name else set(re.findall(r"\w+", shape[begin:at]))
        found.append(Definition(file, words, begin, text[begin:at]))

    for match in STEP.finditer(shape):
        step = match.group()
        if step.lstrip()[0] == "#":
            macro = re.match(r"\s*#\s*define\s+(\w+)", step)
            if depth == 0 and macro:
                found.append(Definition(file, {macro.group(1)}, match.start(), text[match.start():match.end()]))
            continue
        if begin is None:
            begin, name = match.start(), None
        if step in "{(":
            if step == "{" and depth == 0:
                name = function_name(shape[begin:match.start()])
            depth += 1
        elif step in ")}":
            depth -= 1
            if step == "}" and depth == 0 and name:
                end(match.end())
                begin = None
        elif step == ";" and depth == 0:
            end(match.end())
            begin = None
    return found


class Anchor:
    """Text to look for."""

    def __init__(self, text):
        self.text = "".join(blanked(text, False).split())

    def spans(self, definition):
        """[(begin, end)] in the source of each place in the definition."""
        places = [i for i, c in enumerate(definition.text) if not c.isspace()]
        dense = "".join(definition.text.split())
        found, at = [], dense.find(self.text)
        while at >= 0:
            found.append((definition.begin + places[at], definition.begin + places[at + len(self.text) - 1] + 1))
            at = dense.find(self.text, at + 1)
        return found


class Places:
    """All definitions below a root."""

    def __init__(self, root, folders):
        self.sources, self.by_name = {}, collections.defaultdict(list)
        for folder in folders:
            for path in sorted((root / folder).rglob("*.[ch]")):
                file = str(path.relative_to(root))
                self.sources[file] = path.read_text(encoding="utf-8")
                for definition in definitions(file, self.sources[file]):
                    for name in definition.names:
                        self.by_name[name].append(definition)

    def find(self, name, anchor, room):
        """[(file, begin, end)] of the anchor in the definitions of that name; if there are several, those of the room's
        files (floor/room)."""
        found = [(d.file, begin, end) for d in self.by_name.get(name, ()) for begin, end in Anchor(anchor).spans(d)]
        if len(found) > 1:
            own = [f for f in found if "/".join(f[0].rsplit(".", 1)[0].split("/")[-2:]) == room]
            found = own or found
        return found

    def names_with(self, anchor):
        """["file: name"]: the functions and macros that have the anchor, for a message."""
        return sorted({"%s: %s" % (d.file, name) for name, found in self.by_name.items() for d in found
                       if len(d.names) == 1 and Anchor(anchor).spans(d)})
