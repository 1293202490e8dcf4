"""The figures of docs/limits.md are those of the constants that it names. Argument: the source directory."""

import os
import re
import sys

SOURCE = os.path.abspath(sys.argv[1])
UNIT = {"": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def defines():
    found = {}
    for top in ("src/core", "src/observe", "src/advice", "include"):
        for folder, _, files in os.walk(os.path.join(SOURCE, top)):
            for name in files:
                if not name.endswith((".c", ".h")):
                    continue
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    for name, value in re.findall(r"^#define ([A-Z]\w+)[ \\\n]+([^\n]+)", file.read(), re.MULTILINE):
                        found[name] = value.split("/*")[0].strip()
    return found


DEFINES = defines()


def value_of(text):
    text = re.sub(r"\((size_t|uint\d+_t)\)", "", text)
    text = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]*\b", r"\1", text)
    text = re.sub(r"[A-Z][A-Z0-9_]{2,}", lambda name: str(value_of(DEFINES[name.group()])), text)
    if not re.fullmatch(r"[0-9a-fx ()*+<\-/]+", text):
        raise ValueError("cannot read '%s'" % text)
    return eval(text.replace("/", "//"))  # digits and operators only


checked = failed = 0


def compare(where, name, expected, found):
    global checked, failed
    checked += 1
    if expected != found:
        failed += 1
        print("docs/limits.md: %s: the page has %d, %s is %d" % (where, expected, name, found), file=sys.stderr)


with open(os.path.join(SOURCE, "docs", "limits.md"), encoding="utf-8") as file:
    text = file.read()
for name in re.findall(r"`((?:TS|SLAB)_[A-Z0-9_]+)`", text):
    if name not in DEFINES and not re.search(r"\b%s\b" % name, open(os.path.join(SOURCE, "include/tslab/tslab.h"), encoding="utf-8").read()):
        failed += 1
        print("docs/limits.md: there is no %s" % name, file=sys.stderr)
for line in text.splitlines():
    row = re.fullmatch(r"\| (.*) \| ([\d,]+) ?(bytes|KiB|MiB|GiB)?[^|]* \| `([A-Z]\w+)`( - 1)?( units)? \|", line)
    if row:
        where, number, unit, name, less, units = row.groups()
        found = value_of(name) - (1 if less else 0)
        compare(where, name, int(number.replace(",", "")) * UNIT[unit or ""], found * (value_of("TS_UNIT_BYTES") if units else 1))
for name, number in re.findall(r"`([A-Z]\w+)`\s+\((\d+)\)", text):
    compare("text", name, int(number), value_of(name))
print("%d figures, %d failures" % (checked, failed))
sys.exit(0 if checked >= 12 and not failed else 1)
