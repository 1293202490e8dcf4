#!/usr/bin/env python3
"""The interface of the shared libraries beside the recorded one of packaging/abi, by libabigail.

A function that is gone is an error, and so is a type or signature with which a program that is linked already would not
go on. Allowed are new functions, and new members at the end of a structure that begins with its size or version. A
record has its library's soname: where another change has to be, TSLAB_SOVERSION rises in CMakeLists.txt, and --update
(make abi-update) records the new libraries. It refuses to change what a record has already.

usage: packaging/abi_test.py [--update] BUILD_DIR
Exit code 77: abidiff is missing, or the records are of another machine.
"""

import glob
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree

RECORDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "abi")
WITH_SIZE = re.compile(r"(Slab\w*(Options|Stats|Metric|Sample|Total)|PerfCounters)$")
DUMP = ["--suppressions", os.path.join(RECORDS, "opaque.ini"), "--drop-undefined-syms", "--no-elf-needed",
        "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-write-default-sizes", "--type-id-style", "hash"]


def say_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def leave_out(why):
    print("abi_test: left out: " + why)
    sys.exit(77)


def need_tools():
    if not shutil.which("abidw") or not shutil.which("abidiff"):
        leave_out("there is no abidiff (Debian: abigail-tools)")
    if platform.machine() != "x86_64":
        leave_out("the records are of x86_64")


def dump(library, path, work):
    """Its public functions and their types, without what the project's own libraries need of each other."""
    public = os.path.join(work, "public")
    with open(public, "w", encoding="ascii") as file:
        file.write("[abi_whitelist]\n")
        for line in say_of("nm", "-D", "--defined-only", library).splitlines():
            _, kind, name = line.split()
            if kind != "A" and not name.endswith("@@TSLAB_PRIVATE"):
                file.write("  %s\n" % name.partition("@")[0])
    with open(path, "w", encoding="utf-8") as file:
        subprocess.run(["abidw", *DUMP, "--kmi-whitelist", public, library], check=True, stdout=file)


def structures(root):
    return {s.get("name"): s for s in root.iter("class-decl") if s.get("size-in-bits")}


def place(member):
    return int(member.get("layout-offset-in-bits"))


def places(structure):
    return {member.find("var-decl").get("name"): place(member) for member in structure.findall("data-member")}


def compare(record, dumped, cut):
    """The differences as text: members that moved, which abidiff takes for new names, and then what abidiff says.

    It gets the dump without the members behind the end of a recorded structure that begins with its size or version."""
    root = tree.parse(dumped)
    recorded, text = structures(tree.parse(record).getroot()), ""
    for name, structure in structures(root.getroot()).items():
        if name not in recorded:
            continue
        old, new, bits = places(recorded[name]), places(structure), int(recorded[name].get("size-in-bits"))
        for member in old:
            if new.get(member, old[member]) != old[member]:
                text += "%s.%s: bit %d, recorded as %d\n" % (name, member, new[member], old[member])
        if WITH_SIZE.match(name) and int(structure.get("size-in-bits")) > bits:
            structure.set("size-in-bits", str(bits))
            for member in structure.findall("data-member"):
                if place(member) >= bits:
                    structure.remove(member)
    root.write(cut)
    done = subprocess.run(["abidiff", "--no-added-syms", record, cut], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        text += done.stdout or "abidiff ended with %d\n" % done.returncode
    return text


def check(library, update, work):
    """Whether the library is as its record allows."""
    if ".debug_info" not in say_of("readelf", "-S", "-W", library):
        leave_out(library + " has no debug information")
    soname = re.search(r"SONAME.*\[(.*)\]", say_of("readelf", "-d", "-W", library)).group(1)
    record, dumped = (os.path.join(folder, soname + ".abi") for folder in (RECORDS, work))
    dump(library, dumped, work)
    if os.path.exists(record):
        difference = compare(record, dumped, os.path.join(work, "cut"))
        if difference:
            print("%sabi_test: %s: a program that is linked with the recorded library would not go on; "
                  "TSLAB_SOVERSION has to rise" % (difference, soname), file=sys.stderr)
            return False
    elif not update:
        print("abi_test: %s has no record; make abi-update writes it" % soname, file=sys.stderr)
        return False
    if update:
        shutil.copyfile(dumped, record)
    return True


def main(arguments):
    update = arguments[:1] == ["--update"]
    if len(arguments) != 1 + update or not os.path.isdir(arguments[-1]):
        print("usage: packaging/abi_test.py [--update] BUILD_DIR", file=sys.stderr)
        return 2
    need_tools()
    libraries = [path for name in ("libtslab.so", "src/[!r]*/libtslab-*.so")  # src/record: for tslab record alone
                 for path in sorted(glob.glob(os.path.join(arguments[-1], name)))]
    with tempfile.TemporaryDirectory() as work:
        good = [check(library, update, work) for library in libraries]
    if not libraries:
        print("abi_test: no library in " + arguments[-1], file=sys.stderr)
    elif all(good):
        print("abi_test: %d libraries" % len(libraries))
    return 0 if libraries and all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
