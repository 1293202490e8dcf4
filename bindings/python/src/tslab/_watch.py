"""Statistics of other processes. The command ``tslab`` reads them: what a process shows need not be sound."""

from __future__ import annotations

import json
import operator
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any, Iterator

from ._native import command

if TYPE_CHECKING:
    import pandas


class TargetError(OSError):
    """The process is not there, shows no statistics, or may not be read."""


def _target(pid: int | str) -> str:
    text = str(pid)
    if isinstance(pid, bool) or not text or text.startswith("-"):
        raise ValueError(f"not a process: {pid!r}")
    return text


def stats(pid: int | str, allocator: int | None = None) -> dict[str, Any]:
    """All statistics of a process: ``global``, ``classes``, ``epochs``, ``stacks``, ``findings``, ...

    pid: the id of a process that runs with ``TSLAB_SHM=1``, the URL of one that serves its statistics, or a core file.
    allocator: the number of the one that is meant; None: all of the process. Each row says which one it is of, as
    ``row["allocator"]["number"]`` and ``["name"]``; ``global`` is their sum, and ``allocators`` has the same of each.
    The names of the fields are those of docs/stats.md. TargetError: there are none.
    """
    which = [] if allocator is None else [f"--allocator={operator.index(allocator)}"]
    done = subprocess.run([command(), "stats", "--json", *which, _target(pid)], capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise TargetError(said or f"tslab stats {pid}: exit code {done.returncode}")
    shown: dict[str, Any] = json.loads(done.stdout.decode(errors="replace"))
    return shown


def findings(pid: int | str, allocator: int | None = None) -> list[dict[str, Any]]:
    """What is wrong with the process: leaks, lifetimes that grow, limits that were met; worst first.

    allocator: as in ``stats``, here and below.
    """
    return list(stats(pid, allocator)["findings"])


def stacks(pid: int | str, allocator: int | None = None) -> list[dict[str, Any]]:
    """The call stacks that hold the most. The process samples them if it runs with ``TSLAB_SAMPLE_STACKS=BYTES``.

    ``frames`` are addresses, innermost first; ``at`` are the same as ``FILE+OFFSET`` of the program or library.
    ``python -m tslab stats --stacks PID`` names functions and lines.
    """
    shown = stats(pid, allocator)["stacks"]
    modules = [(int(m["start"], 16), int(m["end"], 16), m) for m in shown["modules"]]
    return [{**site, "at": [_at(int(frame, 16), modules) for frame in site["frames"]]} for site in shown["sites"]]


def _at(address: int, modules: list[tuple[int, int, dict[str, Any]]]) -> str:
    for start, end, module in modules:
        if start <= address < end:
            return f"{os.path.basename(module['path'])}+{address - int(module['base'], 16):#x}"
    return f"{address:#x}"


def processes() -> list[dict[str, Any]]:
    """The processes that show their statistics and may be read: ``pid`` and ``name`` of each."""
    found = []
    for entry in sorted((e for e in os.listdir("/proc") if e.isdigit()), key=int):
        try:
            links = (os.readlink(f"/proc/{entry}/fd/{fd}") for fd in os.listdir(f"/proc/{entry}/fd"))
            if not any(link.startswith("/memfd:tslab") for link in links):
                continue
            with open(f"/proc/{entry}/comm", encoding="utf-8", errors="replace") as comm:
                found.append({"pid": int(entry), "name": comm.read().rstrip("\n")})
        except OSError:  # it has ended, or is another user's
            continue
    return found


def frame(pid: int | str, what: str = "epochs", allocator: int | None = None) -> "pandas.DataFrame":
    """A part of the statistics as a pandas data frame: a row for each epoch, and the fields as columns.

    what: a list of ``stats(pid)``, such as ``"epochs"``, ``"labels"``, ``"classes"`` or ``"findings"``; or ``"stacks"``.
    The column ``allocator`` has the number of each row's allocator, ``allocator_name`` its name.
    """
    import pandas

    rows = stacks(pid, allocator) if what == "stacks" else stats(pid, allocator).get(what)
    if not isinstance(rows, list):
        raise ValueError(f"the statistics have no list {what!r}")
    return pandas.DataFrame([_flat(row) for row in rows])


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    of = row.get("allocator")
    return row if of is None else {**row, "allocator": of["number"], "allocator_name": of["name"]}


def watch(
    pid: int | str, every: float = 1.0, times: int | None = None, wait: float = 0.0
) -> Iterator[dict[str, Any]]:
    """The statistics again and again, ``every`` so many seconds, until the process ends, or so many ``times``.

    wait: seconds for a process that has just been started to show its first statistics; then TargetError.

    In a notebook::

        for s in tslab.watch(pid):
            display.clear_output(wait=True)
            display.display(pandas.DataFrame(s["epochs"]))
    """
    shown = 0
    last = time.monotonic() + wait
    while times is None or shown < times:
        try:
            now = stats(pid)
        except TargetError:
            if shown > 0:
                return
            if time.monotonic() >= last:
                raise
        else:
            yield now
            shown += 1
        if times is None or shown < times:
            time.sleep(every)
