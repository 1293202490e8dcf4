#!/usr/bin/env python3
"""Writes the core library as two files, tslab.c and tslab.h, for programs that build it themselves.

usage: packaging/amalgamation.py OUTPUT_FOLDER

Headers are put where they are first included. What a source file has for itself (static functions and variables, types,
enumerators) gets the name of its file as an ending where another file or libc may have the same name; its macros end with it.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
LAYERS = """core/base core/os core/region core/slab core/memtools core/ownership core/supply core/cache core/epoch core/diagnose
core/object core/domain core/spill observe advice core/api""".split()

# A comment, a text, a character: whatever is not code. Then the words of the code.
TOKEN = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\.?[0-9][\w.]*|->|\s+|.", re.S
)
WORD = re.compile(r"[A-Za-z_]\w*\Z")
INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"].*')
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.M)
# Asked for once, at the top.
FEATURES = re.compile(r"^#define (_GNU_SOURCE|_POSIX_C_SOURCE|TSLAB_BUILDS)\b.*\n", re.M)


def directives_out(text):
    """The text without the lines of the preprocessor, comments and literals."""
    text = "".join(" " if t[:2] in ("/*", "//") or t[0] in "\"'" else t for t in TOKEN.findall(text))
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)


def declarations(text):
    """The declarations and definitions of the file's own level, each as its words; what is in braces is left out but for
    enumerators, which are given apart."""
    depth, words, previous_enum = 0, [], False
    for token in TOKEN.findall(directives_out(text)):
        if token.isspace():
            continue
        if token == "{":
            if depth == 0:
                previous_enum = "enum" in words[:3]
                words.append("{")
            depth += 1
        elif token == "}":
            depth -= 1
            if depth == 0:
                words.append("}")
                head = words[: words.index("{")]
                if ")" in head and "=" not in head and "typedef" not in head:
                    yield words, ()
                    words = []
        elif depth == 0:
            if token == ";":
                yield words, ()
                words = []
            else:
                words.append(token)
        elif depth == 1 and previous_enum and WORD.match(token):
            yield (), (token,)


KEYWORDS = set(
    "static inline const volatile struct union enum typedef extern void int unsigned char long short bool size_t "
    "__attribute__ _Atomic _Thread_local _Alignas _Static_assert __asm__ weak register signed float double if for".split()
)


def own_names(text):
    """What the file defines for itself."""
    names, constants = set(), set()
    for words, enumerators in declarations(text):
        constants.update(enumerators)
        for tag in ("struct", "union", "enum"):
            for i, word in enumerate(words[:-2]):
                if word == tag and WORD.match(words[i + 1]) and words[i + 2] == "{":
                    names.add(words[i + 1])
        if "typedef" in words:
            last = [w for w in words if WORD.match(w)]
            pointer = re.search(r"\( \* (\w+) \)", " ".join(words))
            names.add(pointer.group(1) if pointer else last[-1])
        elif "static" in words or "TS_ALWAYS_INLINE" in words:
            head = words[: words.index("=")] if "=" in words else words
            flat, nested, level = [], [], 0
            for i, word in enumerate(head):
                if word == "(" and flat and WORD.match(flat[-1]) and flat[-1] not in KEYWORDS and level == 0:
                    following = head[i + 1] if i + 1 < len(head) else ""
                    # Of a macro with arguments in front of the name, the name comes later.
                    if flat[-1].isupper():
                        level += 1
                        continue
                    if following != "*":
                        names.add(flat[-1])
                        break
                level += word in "(["
                level -= word in ")]"
                if level == 0 and word not in ")]":
                    flat.append(word)
                else:
                    nested.append(word)
            else:
                pointer = re.search(r"\( \* (\w+)", " ".join(head))
                if pointer:
                    names.add(pointer.group(1))
                elif "{" not in head or "}" in head:
                    after = flat[flat.index("}") + 1 :] if "}" in flat else flat
                    groups = " ".join(after).split(",")
                    for group in groups:
                        found = [w for w in group.split() if WORD.match(w) and w not in KEYWORDS]
                        if found:
                            names.add(found[-1])
    return {n for n in names if n not in KEYWORDS and not n.isupper()} | constants


def renamed(text, names, ending):
    """The text with an ending on these names, where they are not members."""
    tokens = TOKEN.findall(text)
    out, previous, opened, structs = [], "", "", []
    for i, token in enumerate(tokens):
        if token in ("struct", "union"):
            opened = token
        elif token == "{":
            structs.append(bool(opened))
            opened = ""
        elif token == "}" and structs:
            structs.pop()
        elif token in (";", ")", "=", "*") or WORD.match(token) and previous not in ("struct", "union"):
            opened = ""
        if token in names and previous not in (".", "->"):
            following = next((t for t in tokens[i + 1 :] if not t.isspace()), "")
            # In the braces of a structure a name is a member, unless a member of that type follows.
            if not (structs and structs[-1]) or previous == "[" or following == "*" or WORD.match(following):
                token += ending
        out.append(token)
        if not token.isspace():
            previous = token
    return "".join(out)


def header_of(name):
    return SRC / name if name.startswith(("core/", "observe/", "advice/")) else SRC / "core" / name


class Amalgamation:
    def __init__(self):
        self.done = set()

    def expand(self, text, where):
        """A file with its headers in it, each once."""
        out, depth, guard = [], 0, int(where.endswith(".h"))
        for line in text.split("\n"):
            depth += bool(re.match(r"[ \t]*#[ \t]*if", line)) - bool(re.match(r"[ \t]*#[ \t]*endif", line))
            found = INCLUDE.match(line)
            if not found:
                out.append(line)
                continue
            kind, name = found.groups()
            if name.startswith("tslab/"):
                if name not in ("tslab/tslab.h", "tslab/stats.h"):
                    raise SystemExit(f"amalgamation.py: {where} includes {name}, which is not in tslab.h")
            elif name == "tslab_build.h":
                out.append('#define TSLAB_BUILD "amalgamation"')
            elif kind == "<":
                out.append(line)
            elif header_of(name) not in self.done:
                header = header_of(name)
                # In a condition other than the header's own guard the next one needs it again: it has a guard itself.
                if depth == guard and "#ifndef TS_" in header.read_text(encoding="utf-8"):
                    self.done.add(header)
                out.append(self.expand(header.read_text(encoding="utf-8"), name).strip("\n"))
        return "\n".join(out)


def public_header():
    """tslab.h and stats.h in one."""
    texts = [(ROOT / "include/tslab" / n).read_text(encoding="utf-8") for n in ("tslab.h", "stats.h")]
    return texts[0] + "\n" + re.sub(r"^#include <tslab/tslab.h>\n", "", texts[1], flags=re.M)


def main():
    if len(sys.argv) != 2:
        print("usage: packaging/amalgamation.py OUTPUT_FOLDER", file=sys.stderr)
        return 2
    sources = [p for layer in LAYERS for p in sorted((SRC / layer).glob("*.c"))]
    if len(sources) != sum(len(list(SRC.glob(f"{d}/*.c"))) for d in ("core/*", "observe", "advice")):
        raise SystemExit("amalgamation.py: src/core has a folder that is not in LAYERS")
    texts = {p: p.read_text(encoding="utf-8") for p in sources}
    own = {p: own_names(t) for p, t in texts.items()}
    count = {}
    for names in own.values():
        for name in names:
            count[name] = count.get(name, 0) + 1

    version = re.findall(r"#define TSLAB_VERSION_\w+ (\d+)", (ROOT / "include/tslab/tslab.h").read_text(encoding="utf-8"))
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8").rstrip()
    banner = f"/*\n * temporal-slab {'.'.join(version)}, the core library in one file. Generated: change src/core instead.\n *\n"
    banner += "".join(f" * {line}".rstrip() + "\n" for line in licence.split("\n")) + " */\n"
    parts = [
        banner,
        '#ifdef __cplusplus\n#error "tslab.c is C11: compile it by a C compiler; tslab.h is C++, too"\n#endif\n',
        "#define _GNU_SOURCE 1\n#define TSLAB_BUILDS 1\n",
        '#include "tslab.h"\n',
        '#pragma GCC diagnostic ignored "-Wunused-function" /* inline functions of the former headers */\n',
    ]
    amalgamation = Amalgamation()
    for path in sources:
        text = FEATURES.sub("", texts[path])
        macros = DEFINE.findall(text)
        # One word may be a function of libc, too.
        taken = {n for n in own[path] if (count[n] > 1 or "_" not in n) and n not in macros}
        ending = "_in_" + re.sub(r"\W", "_", f"{path.parent.name}_{path.stem}")
        # Renamed before its headers are put in: these are everybody's.
        expanded = amalgamation.expand(renamed(text, taken, ending), path.name)
        parts.append(f"/* ---- {path.relative_to(SRC)} ---- */\n" + expanded.strip("\n") + "\n")
        parts.append("".join(f"#undef {m}\n" for m in dict.fromkeys(macros)))
    out = pathlib.Path(sys.argv[1])
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemExit(f"amalgamation.py: {out}: {error.strerror}")
    (out / "tslab.h").write_text(public_header(), encoding="utf-8")
    (out / "tslab.c").write_text("\n".join(parts), encoding="utf-8")
    print(f"{out}/tslab.c, {out}/tslab.h: {len(sources)} files in one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
