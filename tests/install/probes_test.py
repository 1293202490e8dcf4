"""The shared library has the probes of docs/probes.md, with the arguments that it states, where <sys/sdt.h> was there when
it was built; and the commands of that page do what it says.

Arguments: LIBRARY PROGRAM SOURCE_DIR. Environment: CC. Exit code 77: built without probes. The commands are run by
bpftrace where it is installed and the system lets it attach; else only their probes and arguments are compared.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

LIBRARY, PROGRAM, SOURCE = (os.path.abspath(a) for a in sys.argv[1:4])

# The output of each command while probes_program runs, in the order of the page.
PRINTS = [
    r"@\[slab_free,\s[^\]]*\bts_misuse_free\+\d+[^\]]*\]: [1-9]",
    r"@\[handler:/probe\]: [1-9]",
    r"@us:\s+\[[^\]\n]*[\])] +[1-9]",
    r"@ms:\s+\[[^\]\n]*[\])] +[1-9]",
    r"@bytes\[[^\]]*\bts_purge_run\+\d+[^\]]*\]: [1-9]\d{4}",
    r"(?s)(?=.*@back: [1-9])(?=.*@new\[112\]: [1-9])",
]


def fail(what):
    sys.exit(f"probes_test: {what}")


def has_sdt():
    answer = subprocess.run([os.environ.get("CC") or "gcc", "-E", "-"], input="#include <sys/sdt.h>\n", capture_output=True,
                            text=True, check=False)
    return answer.returncode == 0


def probes_of_library():
    """{name: the sizes of its arguments}; a probe that is in several places has the same in all."""
    notes = subprocess.run(["readelf", "-n", "-W", LIBRARY], capture_output=True, text=True, check=True,
                           env={**os.environ, "LC_ALL": "C"}).stdout
    found = {}
    for name, arguments in re.findall(r"Provider: tslab\s+Name: (\w+)\s+Location: .*\s+Arguments: (.*)", notes):
        sizes = [int(a.split("@")[0]) for a in arguments.split()]
        if found.setdefault(name, sizes) != sizes:
            fail(f"{name} has {found[name]} in one place and {sizes} in another")
    return found


def documented(page):
    """{name: its arguments in words}."""
    return {name: re.sub(r"\([^)]*\)", lambda m: m.group().replace(",", ";"), words.split(";")[0]).split(",")
            for name, words in re.findall(r"(?m)^\| `(\w+__\w+)` \| (.*) \|$", page)}


def commands(page):
    found = re.findall(r'(?m)^    bpftrace -e "([^"]*)"$', page)
    if len(found) != page.count("bpftrace -e"):
        fail("a command of docs/probes.md is not understood")
    return found


def check_arguments(command, probes, words):
    """Every probe exists; every argument that is used too; those that are strings are read as strings, and no others."""
    strings = set()
    last = 0
    for part in re.finditer(r"usdt:\$L:tslab:(\w+)([^{]*\{[^}]*\})", command):
        name, body = part.groups()
        if name not in probes:
            fail(f"there is no probe {name}: {command}")
        for number in map(int, re.findall(r"\barg(\d)\b", body)):
            if number >= len(probes[name]):
                fail(f"{name} has no arg{number}: {command}")
            if (f"str(arg{number})" in body) != ("a string" in words[name][number]):
                fail(f"arg{number} of {name} is '{words[name][number].strip()}': {command}")
            strings.add((name, number))
        last = part.end()
    if last == 0 or not strings:
        fail(f"no probe, or none of its arguments: {command}")


def can_attach():
    if not shutil.which("bpftrace"):
        return "bpftrace is not installed"
    try:
        answer = subprocess.run(["bpftrace", "-e", f"usdt:{LIBRARY}:tslab:epoch__open {{ exit(); }} interval:ms:1 {{ exit(); }}"],
                                capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return "bpftrace does not end"
    return None if answer.returncode == 0 and "Attaching" in answer.stdout else "bpftrace may not attach: " + answer.stderr.strip()[-200:]


def run(command):
    """Its output, as a shell starts it, when it is interrupted after two seconds."""
    with subprocess.Popen(["sh", "-c", f'exec bpftrace -e "{command}"'], env={**os.environ, "L": LIBRARY},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tracer:
        first = tracer.stdout.readline()
        if "Attaching" not in first:
            tracer.kill()
            fail(f"{command}: {tracer.stderr.read()[-1000:]}")
        time.sleep(2.5)
        tracer.send_signal(signal.SIGINT)
        return tracer.communicate(timeout=300)[0]


def main():
    if not has_sdt():
        print("probes_test: no <sys/sdt.h> here (systemtap-sdt-dev)")
        sys.exit(77)
    with open(os.path.join(SOURCE, "docs/probes.md"), encoding="utf-8") as file:
        page = file.read()
    probes, words, tried = probes_of_library(), documented(page), commands(page)
    if not probes or set(probes) != set(words):
        fail(f"in the library: {sorted(probes)}; in docs/probes.md: {sorted(words)}")
    for name, sizes in probes.items():
        if len(sizes) != len(words[name]) or set(sizes) != {8}:
            fail(f"{name}: arguments of {sizes} bytes; in docs/probes.md: {words[name]}")
    for command in tried:
        check_arguments(command, probes, words)
    if len(tried) != len(PRINTS):
        fail(f"{len(tried)} commands in docs/probes.md, {len(PRINTS)} are known here")
    why_not = can_attach()
    if why_not:
        print(f"probes_test: {len(probes)} probes, {len(tried)} commands compared, not run: {why_not}")
        return
    with subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            program.stdout.readline()
            for command, expected in zip(tried, PRINTS):
                said = run(command)
                if not re.search(expected, said):
                    fail(f"{command} printed:\n{said}")
        finally:
            program.kill()
    print(f"probes_test: {len(probes)} probes, {len(tried)} commands run")


if __name__ == "__main__":
    main()
