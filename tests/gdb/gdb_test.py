#!/usr/bin/env python3
"""Runs gdb with tools/gdb/tslab-gdb.py on a small program, and on a core file of it, and checks the output of the commands.

usage: gdb_test.py PROGRAM EXTENSION      exit code 77: there is no gdb here
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

# (command, the expected output: a regular expression over its lines)
EXPECTED = [
    ("tslab ptr live", r"live: slot \d+ of class \d+ \(768 bytes\)\n  in epoch 0x[0-9a-f]+ \(\"request 42\", ACTIVE\)\n"
                       r"  unit \d+ of heap 1 \(live\)"),
    ("tslab ptr freed", r"free: slot \d+ of class \d+ \(768 bytes\)\n  in epoch 0x[0-9a-f]+ \(\"request 42\", ACTIVE\)"),
    ("tslab ptr interior", r"interior: slot .*\n  100 bytes into the object at 0x[0-9a-f]+\n  in epoch .*request 42"),
    ("tslab ptr never", r"free: behind the last slot of its slab"),
    ("tslab ptr small", r"live: slot \d+ of class 1 \(32 bytes\)\n  in epoch .*request 42"),
    ("tslab ptr largest", r"live: slot \d+ of class \d+ \(4096 bytes\)\n  in epoch .*request 42"),
    ("tslab slab largest", r"class \d+: 4 slots of 4096 bytes, 1 live"),
    ("tslab ptr by_other", r"free: slot \d+ of class 5 \(96 bytes\), freed by another thread than its owner\n  in epoch .*request 42"),
    ("tslab ptr span", r"live: span of 114688 bytes\n  in epoch .*request 42"),
    ("tslab ptr in_span", r"interior: span of 114688 bytes\n  50000 bytes into the object at"),
    ("tslab ptr huge", r"live: span of 41943040 bytes\n  in epoch .*large"),
    ("tslab ptr in_huge", r"interior: span of 41943040 bytes\n  3145735 bytes into the object at"),
    ("tslab slab huge", r"unit \d+ at 0x[0-9a-f]+, last used as: span"),
    ("tslab ptr stale", r"stale: its epoch has ended"),
    ("tslab ptr in_scope", r"live: object of 112 bytes in a scope slab\n  in epoch .*scratch"),
    ("tslab ptr inside_scope", r"interior: object of 112 bytes in a scope slab\n  20 bytes into the object"),
    ("tslab ptr freed_in_scope", r"free: object of 32 bytes in a scope slab"),
    ("tslab ptr (char *)in_scope + 5000", r"free: not yet used in its scope slab"),
    ("tslab ptr in_piece", r"live: object of 112 bytes in a scope slab\n  in epoch .*small.*\n  piece \d+ of unit \d+ of heap 1"),
    ("tslab ptr in_odd_piece", r"live: object of 112 bytes in a scope slab\n  in epoch .*small.*\n  piece \d+ of unit \d+ of heap 1"),
    ("tslab ptr freed_in_piece", r"free: object of 32 bytes in a scope slab\n  in epoch .*small"),
    ("tslab ptr (char *)freed_in_piece + 64", r"free: not yet used in its scope slab"),
    ("tslab slab (char *)in_odd_piece + 16", r"piece \d+ of unit \d+ at 0x[0-9a-f]+, last used as: scope\n.*\n.*small.*\n"
                                             r"  scope slab: 144 of 512 bytes used, 1 live objects\n.*\n     0 #------\.-\n"),
    ("tslab slab (long)((char *)in_piece - ts_region.part[0].base) / 16384", r"last used as: cut into pieces\n  UNIT word .* CUT, .*\n"
                                                                             r"(  piece \d+: epoch .*small.*\n)+"),
    ("tslab handle piece_handle", r"class scope, format 2\n  accepted\n.*: live: object of 112 bytes in a scope slab"),
    ("tslab ptr &not_ours", r"not ours: outside of tslab's region"),
    ("tslab ptr 1", r"not ours: outside of tslab's region"),
    ("tslab ptr ts_region.lines + 64", r"not ours: in the metadata of tslab"),
    ("tslab ptr (char *)ts_region.part[0].base + 200 * 16384", r"free: unit 200 is in no slab"),
    ("tslab ptr burst", r"free: unit \d+ is in no slab"),
    ("tslab slab burst", r"unit \d+ at 0x[0-9a-f]+, (last used as: (churn|never used)|never used)\n(.*\n)*.*free: unit"),
    ("tslab ptr (char *)ts_region.part[0].base + (long)ts_region.part[0].limit * 16 + 64", r"free: unit \d+ is in no slab"),
    ("tslab slab ts_region.part[0].limit / 1024 + 5", r"unit \d+ at 0x[0-9a-f]+, never used\n"),
    ("tslab slab live", r"unit \d+ at 0x[0-9a-f]+, last used as: churn\n  UNIT word .*\n  heap 1 \(live\) of epoch .*request 42.*\n"
                        r"  class \d+: 21 slots of 768 bytes, 1 live, .*\n.*\n     0 #?\.*#\.*\n"),
    ("tslab slab by_other", r"FOREIGN"),
    ("tslab slab in_scope", r"scope slab: 144 of 16384 bytes used, 1 live objects\n.*\n     0 #------\.-\n"),
    ("tslab epochs", r"epoch 0x[0-9a-f]+ \(\"request 42\", ACTIVE\): 6 live objects\n"
                     r"epoch 0x[0-9a-f]+ \(\"scratch\", ACTIVE\): 1 live objects\n"),
    ("tslab epoch request 42", r"churn epoch of allocator 0x[0-9a-f]+, .* 6 live objects\n(.*\n)*  span at 0x[0-9a-f]+: 114688 bytes"),
    ("tslab epoch request 42", r"class \d+ \(4096 bytes\): 1 live, 1 slabs"),
    ("tslab epoch request", r"churn epoch of allocator"),
    ("tslab epoch ended", r"epoch 0x[0-9a-f]+ has ended"),
    ("tslab heaps", r"heap 2: of an ended thread, 1 blocks, 1 live objects\nheap 1: live, thread 1, 42 blocks, 84 live objects"),
    ("tslab heap 1", r"heap 1: live.*\n(.*\n)*  share of allocator .*\n  slabs with foreign frees: unit \d+"),
    ("tslab handle handle", r"handle 0x[0-9a-f]+: unit \d+, generation \d+, entry \d+, class \d+, format 2\n  accepted\n.*: live: "),
    ("tslab handle span_handle", r"class span, format 2\n  accepted\n.*: live: span"),
    ("tslab handle huge_handle", r"class span of the FAR part, format 2\n  accepted\n.*: live: span"),
    ("tslab handle scope_handle", r"class scope, format 2\n  accepted\n.*: live: object of 112 bytes in a scope slab"),
    ("tslab handle old_handle", r"format 2\n  stale\n  the place is in generation \d+ now, and free"),
    ("tslab handle 12345", r"never was a handle"),
    ("tslab handle 5UL << 42 | 3 << 18 | 7 << 8 | 2 << 2 | 1", r"unit %d, generation 3, entry 7, region 66\n  never was" % (5 + (66 << 22))),
    ("tslab allocators", r"allocator 0x[0-9a-f]+: \d+ KiB committed, \d+ KiB of them retained"),
    # The fault is named.
    ("tslab epoch nosuch", r'tslab: no open epoch has the label "nosuch"'),
    ("tslab heap 99", r"tslab: there is no heap 99"),
    ("tslab slab 0", r"tslab: 0x0 is neither the number of a unit nor an address"),
    ("tslab handle", r"tslab: a handle is missing"),
    ("tslab ptr", r"tslab: an expression is missing"),
    ("tslab ptr nosuch", r'tslab: "nosuch" is no number and no pointer: No symbol "nosuch" in current context'),
    ("tslab ptr live +", r'tslab: "live \+" is no number and no pointer: '),
    ("tslab heap nosuch", r'tslab: "nosuch" is no number and no pointer: '),
    ("tslab handle nosuch", r'tslab: "nosuch" is no number and no pointer: '),
    ("tslab ptr *(long *)8", r"tslab: what this needs is not in memory, or not in the core file: "),
]


def run_gdb(arguments, commands):
    command = ["gdb", "-q", "-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off",
               "-iex", "set pagination off"]
    for c in commands:
        command += ["-ex", c]
    done = subprocess.run(command + arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
                          stdin=subprocess.DEVNULL, env=dict(os.environ, LC_ALL="C"))
    return done.stdout


def marked(commands):
    """The commands with a mark before each. One that fails does not end the rest: gdb goes on with -ex."""
    result = []
    for i, c in enumerate(commands):
        result += ["echo \\n=== %d\\n" % i, c]
    return result + ["echo \\n=== end\\n"]


def check(title, output):
    wrong = 0
    for i, (command, expected) in enumerate(EXPECTED):
        found = re.search(r"=== %d\n(.*?)\n===" % i, output, re.S)
        said = found.group(1) if found else ""
        if not re.search(expected, said + "\n"):
            wrong += 1
            print("%s: %s\n  said: %r\n  wanted: %s" % (title, command, said, expected))
    if wrong == len(EXPECTED):
        print(output)
    return wrong


def core_of(program, work):
    """The core file that the system writes when the program aborts; None if it writes none here."""

    def limits():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    try:
        subprocess.run([program, "abort"], cwd=work, stdin=subprocess.DEVNULL, timeout=300, preexec_fn=limits)
    except (subprocess.SubprocessError, ValueError):
        return None
    found = [os.path.join(work, name) for name in os.listdir(work) if name.startswith("core")]
    return found[0] if found else None


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    program, extension = (os.path.abspath(name) for name in sys.argv[1:])
    if shutil.which("gdb") is None:
        print("skipped: there is no gdb here (apt-get install gdb)")
        return 77
    commands = ["source " + extension] + marked([c for c, _ in EXPECTED])
    with tempfile.TemporaryDirectory() as work:
        own = os.path.join(work, "gcore")
        output = run_gdb([program], ["break stop_here", "run"] + commands + ["generate-core-file " + own])
        if "ptrace: Operation not permitted" in output or "Cannot PTRACE" in output:
            print("skipped: gdb may not run programs here (ptrace is forbidden)")
            return 77
        wrong = check("running program", output)
        if os.path.exists(own):
            wrong += check("core file by gdb", run_gdb([program, own], commands))
            if os.path.getsize(own) > 160 << 20:  # the burst, the object of 40 MiB, and unused memory are not in it
                wrong += 1
                print("core file by gdb: %d bytes" % os.path.getsize(own))
        else:
            wrong += 1
            print("gdb wrote no core file: %r" % output[-300:])
        core = core_of(program, work)
        if core is not None:
            wrong += check("core file", run_gdb([program, core], commands))
        # Before anything was allocated, and in a program without tslab.
        said = run_gdb([program], ["break main", "run", "source " + extension, "tslab heaps"])
        if "tslab: nothing was allocated with tslab yet" not in said:
            wrong += 1
            print("before the first allocation: %r" % said[-300:])
    print("gdb_test: %d commands on a running program%s: %s" % (
        len(EXPECTED), " and on a core file" if core else "; the system writes no core files here", "%d wrong" % wrong if wrong else "good"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
