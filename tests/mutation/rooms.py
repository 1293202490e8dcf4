"""The mutants of the rooms: tests/mutation/FLOOR/ROOM.txt has those of the room's source and header.

    [name] the function, macro or other definition that it changes
    protocol: the conclusion of a file, or the place, that argues for the step
    tests: those of which one must fail, by their names in ctest; options of a longer run behind the name; "; " between
    sanitize: thread or address, if it takes a sanitizer to see it
    equivalent: why the step may be missing, if no test can fail
    - the anchor: text that is in that definition once; white space and comments do not count
    + what stands in its place; none: the anchor is taken out

The definition is looked for in all sources. If several of its name have the anchor, the room's own is meant.
"""
import re

FIELDS = ("protocol", "tests", "sanitize", "equivalent")


class Malformed(Exception):
    pass


def read_room(path, room):
    mutants = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        head = re.fullmatch(r"\[([\w-]+)\] (\w+)", line)
        field = re.fullmatch(r"(%s): (.+)" % "|".join(FIELDS), line)
        if head:
            mutants.append({"name": head.group(1), "in": head.group(2), "room": room, "old": [], "new": []})
        elif field and mutants:
            mutants[-1][field.group(1)] = field.group(2)
        elif line[:1] in ("-", "+") and mutants:
            mutants[-1]["old" if line[0] == "-" else "new"].append(line[2:])
        elif line and not line.startswith("#"):
            raise Malformed("%s:%d: not understood: %s" % (path, number, line))
    for mutant in mutants:
        mutant["old"], mutant["new"] = "\n".join(mutant["old"]), "\n".join(mutant["new"])
        if not mutant["old"] or "tests" not in mutant or "protocol" not in mutant:
            raise Malformed("%s: %s has no anchor, no tests or no protocol" % (path, mutant["name"]))
        mutant["tests"] = mutant["tests"].split("; ")
    return mutants


def read_mutants(folder):
    return [mutant for path in sorted(folder.glob("*/*.txt"))
            for mutant in read_room(path, "%s/%s" % (path.parent.name, path.stem))]
