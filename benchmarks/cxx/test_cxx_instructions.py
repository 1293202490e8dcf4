"""A request by tslab::memory_resource takes hardly more instructions than one by slab_alloc() itself, and fewer than one by what
one would write first. Counted by callgrind, so no matter what else the machine does. Argument: cxx_bench. 77: no valgrind."""

import re
import shutil
import subprocess
import sys

FEW, MANY = 10, 40


def instructions(name, requests):
    run = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.argv[1], "--rounds", "1", "--requests",
                          str(requests), name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    counted = re.search(r"Collected : (\d+)", run.stdout)
    if run.returncode != 0 or not counted:
        sys.exit("%s: valgrind failed:\n%s" % (name, run.stdout))
    return int(counted.group(1))


if not shutil.which("valgrind"):
    print("test_cxx_instructions: no valgrind")
    sys.exit(77)
a_request = {name: (instructions(name, MANY) - instructions(name, FEW)) / (MANY - FEW)
             for name in ("slab_alloc", "tslab", "tslab_alloc", "obvious", "new_delete")}
for name, count in a_request.items():
    print("%-12s %8.0f instructions a request" % (name, count))
failed = 0
for name, other, limit in (("tslab", "slab_alloc", 1.08), ("tslab_alloc", "slab_alloc", 1.08), ("tslab", "obvious", 0.92), ("tslab", "new_delete", 0.75)):
    ratio = a_request[name] / a_request[other]
    if not 0.3 < ratio <= limit:
        print("%s: %.3f of %s, the limit is %.2f" % (name, ratio, other, limit), file=sys.stderr)
        failed = 1
sys.exit(failed)
