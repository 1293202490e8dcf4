#!/usr/bin/env python3
"""Runs quick tests on a kernel of their own, in QEMU without hardware help: NUMA nodes, a zoned NVMe namespace and an ordinary one.

The tests run once as the kernel comes, and some of them again with transparent huge pages always and never, in a cgroup with
a memory limit, in cpusets with a part of the nodes, under strict overcommit, without membarrier, and on the kernel's null_blk. Output
and status of each come back, with --coverage the counters too; what hangs ends by time.
Exit status: 0, 1 a test failed, 77 what it needs is not installed (tools/setup.sh vm), or --short and the machine is too slow for it,
2 a bad argument.
"""

import argparse
import csv
import glob
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ZONE_MIB, ZONE_CAPACITY_MIB = 4, 3
# Machines: of each node its MiB and its processors. Without an argument the tests run on the first, and PLACEMENT on each.
TOPOLOGIES = {
    "two": ((512, 1), (512, 1)),
    "four": ((256, 1), (256, 1), (256, 1), (256, 1)),
    "no_processors": ((384, 1), (384, 1), (256, 0)),
    "no_memory": ((512, 1), (512, 1), (0, 1)),
    "uneven": ((768, 1), (192, 1)),
    "one": ((768, 2),),
}
# The memory of the cpusets there: a part of it, by node. The first and the last of it are left out once each, and ids have gaps.
CPUSETS = {"two": (1,), "four": (1, 3), "no_processors": (0, 2), "no_memory": (1,), "uneven": (0,)}
PLACEMENT = r"unit\.(os\.(placement|numa|refused_numa|native)|region\.home|supply\.nodes)"
CPUSET = "unit.os.cpuset"  # may not be skipped in a cpuset
IN_CPUSET = r"unit\.os\.(cpuset|placement|refused_numa)"
IN_CPUSET_MORE = r"|unit\.(os\.native|region\.pool|ownership\.heap|supply\.retained|epoch\.epoch|domain\.reset|api\.(objects|memory))|process\.fork"
# cpuset: memory of a part of the nodes, and all processors; cpuset_whole: the processors of that part only.
VARIANTS = ("plain", "huge_always", "huge_never", "strict", "cgroup", "cpuset", "cpuset_whole", "no_membarrier", "null_blk")
# The variants change how memory comes and goes, and how threads agree.
SHORT = ("unit.region.region", "unit.ownership.heap", "unit.cache.hollow")
QUICK = (r"unit\.(os\.(native|cgroup|huge_pages|move|numa|refused_numa|placement|watched)|region\..*|slab\..*|ownership\.(heap|blocks)|supply\.(retained|hollow|retain|nodes)|cache\.(scope|bin|closed)|"
         r"epoch\.epoch|object\.move|domain\.reset|diagnose\.diagnose|api\.(objects|epochs|domains|memory|handles))|process\.(fork|life)|"
         r"zones\.(emulated|spill|window|figures|device|libzbd)")
AGAIN = r"unit\.(os\.(native|huge_pages|move)|region\.pool|ownership\.heap|supply\.(retained|hollow)|epoch\.epoch|domain\.reset|api\.(objects|memory))"
# Those that know of a system without a barrier for all threads: others expect memory that only a held heap can give.
BARE = r"unit\.(region\.region|ownership\.heap|supply\.hollow)"
DEVICE = "zones.device"  # the emulated device beside a real one
ON_DEVICE = r"zones\.(device|libzbd)"
SKIPPED, KILLED, NO_VARIANT = 77, 137, 125
# The output of unit.os.placement: the case, the node, the share of the pages that are there.
SHARES = r"^(\S.*?) +(?:node (\d+)): *([0-9.]+) %"


def skip(why):
    print(f"vm_test: skipped: {why}")
    sys.exit(SKIPPED)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="vm_test.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", metavar="DIR", help="where the programs are (default build/release)")
    parser.add_argument("--short", action="store_true", help="three tests, once in each variant")
    parser.add_argument("--tests", metavar="REGEX", help="these, in every variant")
    parser.add_argument("--topologies", metavar="NAMES", help=f"machines, of {', '.join(TOPOLOGIES)}; default all, or two where tests or variants are chosen")
    parser.add_argument("--variants", default=",".join(VARIANTS), metavar="NAMES", help="default all: %(default)s")
    parser.add_argument("--sequences", type=int, metavar="N", help=f"random sequences of calls in {DEVICE} (default its own, 1000)")
    parser.add_argument("--seconds", type=int, default=1200, metavar="N", help="for the whole machine (default %(default)s)")
    parser.add_argument("--test-seconds", type=int, default=120, metavar="N", help="for each test (default %(default)s)")
    parser.add_argument("--coverage", action="store_true", help="of a build with gcov: adds what the tests have counted to its counters")
    parser.add_argument("--csv", metavar="FILE", help="writes the shares of pages on the right node")
    parser.add_argument("--verbose", action="store_true", help="all that the machine prints")
    options = parser.parse_args()
    unknown = set(options.variants.split(",")) - set(VARIANTS)
    if unknown:
        parser.error(f"no such variant: {', '.join(sorted(unknown))}")
    chosen = options.short or options.tests or options.variants != ",".join(VARIANTS)
    options.topologies = (options.topologies or ("two" if chosen else ",".join(TOPOLOGIES))).split(",")
    unknown = set(options.topologies) - set(TOPOLOGIES)
    if unknown:
        parser.error(f"no such machine: {', '.join(sorted(unknown))}")
    return options


def kernel():
    """The newest of Debian's cloud kernels: it has the needed drivers built in."""
    found = sorted(glob.glob("/boot/vmlinuz-*-cloud-amd64"), key=os.path.getmtime)
    return os.environ.get("VM_KERNEL") or (found[-1] if found else None)


def modules(image):
    """null_blk of that kernel and its dependencies, in order; empty: there is none."""
    drivers = pathlib.Path("/lib/modules") / pathlib.Path(image).name[len("vmlinuz-"):] / "kernel"
    found = [drivers / "fs/configfs/configfs.ko", drivers / "drivers/block/null_blk/null_blk.ko"]
    return found if all(path.exists() for path in found) else []


def plan(options, image, topology):
    """[(variant, name of a test)]"""
    folder = pathlib.Path(options.build) / "tests"
    names = sorted(path.name[:-len("_test")] for path in folder.glob("*_test") if os.access(path, os.X_OK))
    if not names:
        skip(f"no tests are built in {folder}")
    steps = []
    for variant in options.variants.split(","):
        if variant == "null_blk" and not modules(image):
            print("vm_test: null_blk is skipped: the kernel has no such module")
            continue
        if variant.startswith("cpuset") and topology not in CPUSETS:
            print(f"vm_test: {variant} is skipped: the machine {topology} has one node")
            continue
        short = "|".join(map(re.escape, SHORT))
        usual = {"plain": QUICK, "no_membarrier": BARE, "null_blk": ON_DEVICE, "cpuset": IN_CPUSET + IN_CPUSET_MORE,
                 "cpuset_whole": IN_CPUSET}.get(variant, AGAIN)
        short = "" if variant == "null_blk" else re.escape(CPUSET) if variant.startswith("cpuset") else short
        pattern = options.tests or (short if options.short else usual)
        if not options.tests and topology != "two":
            pattern = (PLACEMENT if variant == "plain" else r"unit\.os\.placement" if variant.startswith("huge")
                       else IN_CPUSET if variant.startswith("cpuset") else "none")
        steps += [(variant, name) for name in names if re.fullmatch(pattern, name)]
    return steps


def libraries(program):
    """Those that the loader names, and the loader."""
    text = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(?:=> |^\s*)(/\S+) \(", text, re.MULTILINE)


def make_initramfs(root, options, steps, image, topology):
    for name in ("bin", "dev", "proc", "sys", "tmp", "tests", "modules"):
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin" / "busybox")
    shutil.copy(HERE / "init.sh", root / "init")
    (root / "init").chmod(0o755)
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O1", "-static", str(HERE / "no_membarrier.c"), "-o", str(root / "tests" / "no_membarrier")], check=True)
    for name in sorted({name for _, name in steps}):
        program = pathlib.Path(options.build) / "tests" / f"{name}_test"
        subprocess.run(["strip", "-g", "-o", str(root / "tests" / name), str(program)], check=True)
        for library in libraries(program):
            place = root / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                shutil.copy(library, place)
    for path in modules(image):
        shutil.copy(path, root / "modules" / path.name)
    if topology in CPUSETS:
        (root / "cpuset").write_text("\n".join(cpuset_of(topology)) + "\n", encoding="ascii")
    words = {DEVICE: f" --programs {options.sequences}" if options.sequences else ""}
    lines = [f"{variant} {options.test_seconds} {name}{words.get(name, '')}" for variant, name in steps]
    if options.coverage:
        (root / "coverage").mkdir()
    (root / "plan").write_text("\n".join(lines) + "\n", encoding="utf-8")
    names = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
    archive = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, capture_output=True, check=True).stdout
    return gzip.compress(archive, compresslevel=1)


def cpuset_of(topology):
    """The nodes of the cpuset, and their processors, as the kernel writes them: no two side by side."""
    nodes, first = TOPOLOGIES[topology], [0]
    for _, cpus in nodes:
        first.append(first[-1] + cpus)
    processors = [cpu for node in CPUSETS[topology] for cpu in range(first[node], first[node + 1])]
    return ",".join(map(str, CPUSETS[topology])), ",".join(map(str, processors))


def numa_arguments(topology):
    """The nodes, by number; their processors are numbered one after the other."""
    arguments, next_cpu = [], 0
    for node, (mib, cpus) in enumerate(TOPOLOGIES[topology]):
        words = f"node,nodeid={node}"
        if mib:
            arguments += ["-object", f"memory-backend-ram,id=m{node},size={mib}M"]
            words += f",memdev=m{node}"
        if cpus:
            words += f",cpus={next_cpu}-{next_cpu + cpus - 1}"
            next_cpu += cpus
        arguments += ["-numa", words]
    return arguments


def machine(folder, image, topology):
    nodes = TOPOLOGIES[topology]
    return ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", str(sum(cpus for _, cpus in nodes)),
            "-m", f"{sum(mib for mib, _ in nodes)}M", "-nographic", "-no-reboot",
            "-net", "none", "-monitor", "none", "-serial", "stdio", *numa_arguments(topology),
            "-kernel", image, "-initrd", str(folder / "initrd.gz"), "-append", "console=ttyS0 quiet panic=-1 no_timer_check",
            "-drive", f"file={folder / 'zoned.img'},if=none,id=z,format=raw", "-device", "nvme,serial=zns0,id=nvme0",
            "-device", f"nvme-ns,drive=z,bus=nvme0,zoned=true,zoned.zone_size={ZONE_MIB}M,zoned.zone_capacity={ZONE_CAPACITY_MIB}M,"
            "zoned.max_open=16,zoned.max_active=32,logical_block_size=4096,physical_block_size=4096",
            "-drive", f"file={folder / 'ordinary.img'},if=none,id=o,format=raw", "-device", "nvme-ns,drive=o,bus=nvme0"]


def run(command, seconds, verbose):
    """The machine's output; and whether it went off by itself."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines, end = [], time.monotonic() + seconds
    try:
        os.set_blocking(process.stdout.fileno(), False)
        rest = ""
        while time.monotonic() < end:
            text = (process.stdout.read() or b"").decode("utf-8", "replace")
            if not text and process.poll() is not None:
                return "".join(lines) + rest, True
            if not text:
                time.sleep(0.2)
            *whole, rest = (rest + text).split("\n")
            for line in whole:
                lines.append(line + "\n")
                if verbose:
                    print("  |", line.rstrip())
        return "".join(lines) + rest, False
    finally:
        process.kill()
        process.wait()


def judge(text, steps, topology):
    """Prints a line for each test; how many failed."""
    failed, skipped = 0, 0
    ends = dict(re.findall(r"^vm: end (\S+ \S+) (\d+)\r?$", text, re.MULTILINE))
    for variant, name in steps:
        status = int(ends.get(f"{variant} {name}", -1))
        words = {0: "passed", SKIPPED: "skipped", KILLED: "killed: out of time", NO_VARIANT: "failed: the machine cannot be made so",
                 -1: "failed: did not end"}.get(status, f"failed: status {status}")
        if name == CPUSET and variant.startswith("cpuset") and status == SKIPPED:
            status, words = 1, "failed: skipped, though it runs in a cpuset"
        failed += status not in (0, SKIPPED)
        skipped += status == SKIPPED
        if status != 0:
            print(f"{topology:14} {variant:14} {name:32} {words}")
        if status not in (0, SKIPPED):
            output = re.search(rf"^vm: begin {re.escape(variant)} {re.escape(name)}\r?\n(.*?)(?=^vm: |\Z)", text, re.MULTILINE | re.DOTALL)
            lines = (output.group(1) if output else "").split("\n")
            said = [line for line in lines[:-10] if re.search(r"ERROR|LINE|FAIL", line)]
            print("\n".join("    " + line.rstrip() for line in said + lines[-10:]))
    if topology != "one" and any(name == "unit.os.placement" for _, name in steps):
        print("\n".join("    " + line.rstrip() for line in re.findall(r"^.*: *[0-9.]+ %.*$", text, re.MULTILINE)))
    print(f"vm_test: {topology}: {len(steps)} runs, {failed} failed, {skipped} skipped")
    return failed


def note_shares(path, text, topology):
    """A row for each case and node of the tests of placement: the least share of pages that was printed."""
    variant, least = "", {}
    for line in text.split("\n"):
        begin = re.match(r"vm: begin (\S+) unit\.os\.(?:placement|cpuset)", line)
        variant = begin.group(1) if begin else "" if line.startswith("vm: end") else variant
        found = re.match(SHARES, line)
        if variant and found:
            case, node, percent = found.groups()
            key = topology, variant, case, node
            least[key] = min(least.get(key, percent), percent, key=float)
    with open(path, "a", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([*key, percent] for key, percent in least.items())


def take_coverage(image, build):
    """Adds the archive of counters, by their whole paths, that the machine has left on its ordinary disk to those of the build."""
    build = pathlib.Path(build).resolve()
    with tempfile.TemporaryDirectory() as name:
        new, old, both = (pathlib.Path(name) / part for part in ("new", "old", "both"))
        try:
            with tarfile.open(image) as archive:
                archive.extractall(new)  # of a machine that ran the programs built here
        except tarfile.TarError:
            return 0
        new = new / str(build).lstrip("/")
        counters = [path.relative_to(new) for path in new.rglob("*.gcda")]
        for path in counters:
            if (build / path).exists():
                (old / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(build / path, old / path)
        if old.exists():
            tool = os.environ.get("GCOV_TOOL", "gcov-tool")
            subprocess.run([tool, "merge", str(old), str(new), "-o", str(both)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for path in counters:
            shutil.copy((both if (both / path).exists() else new) / path, build / path)
    return len(counters)


def run_machine(options, image, topology):
    """Starts one machine; how much failed."""
    steps = plan(options, image, topology)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "initrd.gz").write_bytes(make_initramfs(folder / "root", options, steps, image, topology))
        with open(folder / "zoned.img", "wb") as disk:
            disk.truncate(256 << 20)
        with open(folder / "ordinary.img", "wb") as disk:
            disk.truncate(128 << 20)
        begin = time.monotonic()
        text, off = run(machine(folder, image, topology), options.seconds, options.verbose)
        counters = take_coverage(folder / "ordinary.img", options.build) if options.coverage and off else 0
    if options.short and not off and "panic" not in text and not re.search(r"^vm: end \S+ \S+ (?!0\r?$|77\r?$)\d", text, re.MULTILINE):
        skip(f"too slow here: not over in {options.seconds} s; what ended until then passed")
    failed = judge(text, steps, topology)
    if options.csv:
        note_shares(options.csv, text, topology)
    if options.coverage:
        print(f"vm_test: {topology}: counters of {counters} files")
        failed += counters == 0
    nodes, cpusets = len(TOPOLOGIES[topology]), []
    for variant in ("cpuset", "cpuset_whole"):
        if any(step[0] == variant for step in steps):
            # The set according to the kernel: all that was asked for, and less than the machine.
            memory, processors = cpuset_of(topology)
            of = rf" processors {processors} of (?!{processors}\r?$)\S+" if variant == "cpuset_whole" else ""
            cpusets.append((f"the set {variant}", rf"vm: {variant} memory {memory} of (?!{memory}[ \r\n])\S+{of}\r?$"))
    for what, pattern in (*cpusets, (f"{nodes} nodes", rf"vm: nodes {nodes}\r?$"),
                          ("a zoned disk", rf"vm: disk nvme0n1 host-managed {ZONE_MIB * 2048}\r?$"), ("an ordinary disk", r"vm: disk nvme0n2 none 0\r?$")):
        if not re.search(pattern, text, re.MULTILINE):
            print(f"vm_test: the machine has not got {what}")
            failed += 1
    if not off or not re.search(r"^vm: done\r?$", text, re.MULTILINE):
        print(f"vm_test: the machine did not come to its end in {options.seconds} s; its last lines:")
        print("\n".join("    " + line.rstrip() for line in text.split("\n")[-20:]))
        failed += 1
    print(f"vm_test: {topology}: {time.monotonic() - begin:.0f} s on {pathlib.Path(image).name}")
    return failed


def main():
    options = parse_arguments()
    for program, package in (("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static"), ("cpio", "cpio")):
        if not shutil.which(program):
            skip(f"{program} is not installed ({package}: tools/setup.sh vm)")
    image = kernel()
    if not image:
        skip("no /boot/vmlinuz-*-cloud-amd64 (linux-image-cloud-amd64: tools/setup.sh vm)")
    if options.csv:
        pathlib.Path(options.csv).write_text("machine,variant,case,node,percent\n", encoding="utf-8")
    return int(sum(run_machine(options, image, topology) for topology in options.topologies) > 0)


if __name__ == "__main__":
    sys.exit(main())
