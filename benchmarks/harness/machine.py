"""What a file of measurements says of its run: the machine, the commit, the allocators."""

import datetime
import os
import pathlib
import platform
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def governor():
    """What sets the processors' frequency, as far as the system shows it."""
    found = {path.read_text(encoding="ascii").strip()
             for path in pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return f"governor {' and '.join(sorted(found))}" if found else "governor not shown"


def affinity():
    """The processors that programs started from here may use, as `0-3,6`."""
    runs = []
    for cpu in sorted(os.sched_getaffinity(0)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{low}-{high}" if low < high else f"{low}" for low, high in runs)


def built_with(build=ROOT / "build" / "release"):
    """Compiler and flags of a build; empty where there is none."""
    try:
        cache = dict(re.findall(r"(?m)^(\w+):\w+=(.*)$", (build / "CMakeCache.txt").read_text(encoding="utf-8")))
        compiler = next((build / "CMakeFiles").glob("*/CMakeCCompiler.cmake")).read_text(encoding="utf-8")
    except (OSError, StopIteration):
        return ""
    kind = cache.get("CMAKE_BUILD_TYPE", "")
    flags = f"{cache.get('CMAKE_C_FLAGS', '')} {cache.get(f'CMAKE_C_FLAGS_{kind.upper()}', '')}".split()
    named = [re.search(rf'set\(CMAKE_C_COMPILER_{word} "([^"]*)"', compiler) for word in ("ID", "VERSION")]
    return " ".join([*(match[1] for match in named if match), *flags])


def processor():
    """With family and model where the system tells them: one name may cover several generations."""
    try:
        first = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        first = ""
    facts = dict(re.findall(r"(?m)^([^\t:]+)\s*: (.*)$", first))
    known = "cpu family" in facts and "model" in facts
    return facts.get("model name", platform.machine()) + (f" (family {facts['cpu family']} model {facts['model']})" if known else "")


def describe():
    """The processor, which of them may be used, what sets their frequency, and what the programs were built with."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    kernel = re.match(r"[0-9.]*", platform.release())[0].rstrip(".")  # without its builder's additions
    parts = [processor(), f"{len(os.sched_getaffinity(0))} processors ({affinity()})", governor(), f"{gib:.0f} GiB",
             f"{platform.system()} {kernel}", built_with()]
    return ", ".join(part for part in parts if part)


def commit():
    """The commit that is checked out; with `+changes` if a file of the sources is not as it is there, or not there."""
    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False).stdout.strip()

    figures = (":(exclude)benchmarks/results",)
    try:
        head = git("rev-parse", "--short", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "include", "cmake", ":(glob)benchmarks/**/*.[chp]*",
                      "benchmarks/peers/rust", "CMakeLists.txt", "CMakePresets.json", *figures)
        added = git("ls-files", "--others", "--exclude-standard", "--", "src", "include", "benchmarks", *figures)
    except OSError:
        return "unknown"
    return head + ("+changes" if changed or added else "") if head else "unknown"


def now():
    return f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M:%S}"


def about(command, versions=None, absent=()):
    """The lines of a file before its heading. versions: {allocator: version}; absent: those that are not installed."""
    named = [f"{name} {version}" for name, version in (versions or {}).items()] + [f"{name} not installed" for name in absent]
    return [f"machine: {describe()}", f"command: {command}", f"date: {now()} UTC, load {os.getloadavg()[0]:.2f}",
            *([f"allocators: {', '.join(named)}"] if named else []), f"commit: {commit()}"]
