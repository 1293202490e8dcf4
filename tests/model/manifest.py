#!/usr/bin/env python3
"""Ties the models to the code: the text of every modelled function is known by its hash.

usage: tests/model/manifest.py            an error for each function that changed since its models were looked at
       tests/model/manifest.py --accept   the models are right for the functions as they are now
       --root DIR                         another source tree

Comments and white space do not count. A source file with modelled functions names their models in a comment.
"""

import argparse
import hashlib
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from models import MODELS, ORDERS  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
MANIFEST = "tests/model/manifest.txt"
README = "tests/model/README.md"
BEGIN, END = "<!-- orders: written by manifest.py --accept -->\n", "<!-- end of orders -->\n"
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def without_comments(text):
    return TOKEN.sub(lambda m: " " if m.group().startswith("/") else m.group(), text)


def function_text(text, name):
    """The definition of a function in a source without comments, white space made single; None if there is none, or
    more than one."""
    found = []
    for m in re.finditer(r"^[A-Za-z_][^;{}()#\n]*(?:\([^;{}()\n]*\)[^;{}()\n]*)?\b%s\(" % re.escape(name), text, re.M):
        at, depth = m.end(), 1
        while at < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        body = re.compile(r"\s*\{").match(text, at)
        if not body:
            continue
        at, depth = body.end(), 1
        while at < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        if depth == 0:
            found.append(" ".join(text[m.start():at].split()))
    return found[0] if len(found) == 1 else None


def short(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def short_name(file):
    """foreign of tests/model/foreign.pml, orders of tests/model/orders/src/main.rs."""
    return os.path.splitext(file.split("/")[2])[0]


def wanted():
    """(file, function) -> names of its models, in the order of the models."""
    table = {}
    for model in MODELS:
        for path, names in model["functions"].items():
            for name in names:
                table.setdefault((path, name), []).append(model["name"])
    return table


def orders_table():
    lines = ["| model | shows | without | functions |\n", "|---|---|---|---|\n"]
    for model in MODELS:
        if model["file"] == ORDERS:
            functions = ["`%s`" % name for names in model["functions"].values() for name in names]
            lines.append("| %s | %s | %s | %s |\n" % (model["name"].split()[1], model["property"], ", ".join(
                step for step, _ in model["controls"]), " ".join(functions)))
    return "".join(lines)


def readme_with_table(text):
    """The README with the table of orders as it has to be; None if its marks are not there."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        return None
    before, rest = text.split(BEGIN)
    return before + BEGIN + orders_table() + END + rest.split(END)[1]


def read_manifest(path):
    known = {}
    try:
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
    except FileNotFoundError:
        return known
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        parts = line.split()
        if len(parts) != 3 or not re.fullmatch(r"[0-9a-f]{16}", parts[0]):
            sys.exit("%s:%d: not 'hash file function': %s" % (MANIFEST, number, line))
        if (parts[1], parts[2]) in known:
            sys.exit("%s:%d: %s of %s is here twice" % (MANIFEST, number, parts[2], parts[1]))
        known[parts[1], parts[2]] = parts[0]
    return known


def wrong_names(root):
    """The complaints about models that a source names, or that the loom program has."""
    wrong, named = [], {}
    for folder, _, files in os.walk(os.path.join(root, "src")):
        for file in files:
            full = os.path.join(folder, file)
            with open(full, encoding="utf-8", errors="replace") as f:
                note = re.search(r"/\* Modelled in tests/model: ([\w, ]*)\. \*/", f.read())
            if note:
                named[os.path.relpath(full, root)] = set(note.group(1).split(", "))
    for path in sorted(set(named) | {path for model in MODELS for path in model["functions"]}):
        has, wants = named.get(path, set()), {short_name(m["file"]) for m in MODELS if path in m["functions"]}
        for file in sorted(wants - has):
            wrong.append("%s: the comment 'Modelled in tests/model: ....' does not name %s" % (path, file))
        for file in sorted(has - wants):
            wrong.append("%s: the comment 'Modelled in tests/model: ....' names %s, which has no function of it" %
                         (path, file))
    with open(os.path.join(root, ORDERS), encoding="utf-8") as f:
        there = set(re.findall(r'^ *\("(\w+)", \1\),$', f.read(), re.M))
    for name in sorted(there ^ {m["name"].split()[1] for m in MODELS if m["file"] == ORDERS}):
        wrong.append("%s: the model %s is here alone, or in models.py alone" % (ORDERS, name))
    return wrong


def check(root, accept=False):
    """The complaints. accept: writes the manifest, if only its hashes are wrong."""
    broken, stale, now, sources = [], [], {}, {}
    table = wanted()
    for (path, name), models in table.items():
        if path not in sources:
            try:
                with open(os.path.join(root, path), encoding="utf-8") as f:
                    raw = f.read()
            except OSError as error:
                sources[path] = None
                broken.append("%s: cannot be read: %s" % (path, error.strerror))
                continue
            sources[path] = without_comments(raw)
        if sources[path] is None:
            continue
        text = function_text(sources[path], name)
        if text is None:
            broken.append("%s: the function %s is not there (once); it is modelled by %s: change models.py, and the model" %
                          (path, name, ", ".join(models)))
        else:
            now[path, name] = short(text)
    broken += wrong_names(root)
    known = read_manifest(os.path.join(root, MANIFEST))
    for key, value in now.items():
        if known.get(key) != value:
            stale.append("%s: %s is not as it was when %s was made: look at the model, then `tests/model/manifest.py "
                         "--accept`" % (key[0], key[1], ", ".join(table[key])))
    for key in known:
        if key not in table:
            stale.append("%s: %s of %s is in no model: `tests/model/manifest.py --accept`" % (MANIFEST, key[1], key[0]))
    with open(os.path.join(root, README), encoding="utf-8") as f:
        readme = f.read()
    right = readme_with_table(readme)
    if right is None:
        broken.append("%s: the marks around the table of orders are not there" % README)
    elif right != readme:
        stale.append("%s: the table of orders is not as models.py has it: `tests/model/manifest.py --accept`" % README)
    for model in MODELS:
        names = [name for functions in model["functions"].values() for name in functions]
        for word in [step for step, _ in model["controls"]] + names:
            if model["file"] != ORDERS and not re.search(r"\b%s\b" % re.escape(word), readme):
                broken.append("%s: %s of the model %s is not named" % (README, word, model["name"]))
    if accept and not broken:
        with open(os.path.join(root, README), "w", encoding="utf-8") as f:
            f.write(right)
        with open(os.path.join(root, MANIFEST), "w", encoding="utf-8") as f:
            f.write("# The modelled functions, by the hash of their text; written by tests/model/manifest.py --accept.\n")
            for (path, name), value in sorted(now.items()):
                f.write("%s %s %s\n" % (value, path, name))
        for line in stale:
            print("accepted: " + line.split(" is not as")[0].split(" of src")[0])
        return []
    return broken if accept else broken + stale


def main():
    parser = argparse.ArgumentParser(description="Whether the modelled functions are as the models know them.")
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(HERE)))
    options = parser.parse_args()
    complaints = check(options.root, options.accept)
    for line in complaints:
        print(line, file=sys.stderr)
    if complaints:
        return 1
    print("%d functions as their models know them" % len(wanted()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
