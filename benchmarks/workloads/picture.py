#!/usr/bin/env python3
"""The picture of `make run`: two bars a row and allocator, as multiples of malloc's figure.

    picture.py FILE.csv PICTURE.png      of what `table.py --csv` wrote

Debian's python3-matplotlib is of /usr/bin/python3, which need not be the python3 that runs this: then that one draws.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import ending, machine, run  # noqa: E402
from report.palette import colour  # noqa: E402
from workloads.rows import ROWS  # noqa: E402
from workloads.runs import BACKGROUND, OURS  # noqa: E402
from workloads.words import MIB, memory_text, time_text  # noqa: E402

CUT = 3.0  # longer bars end here, with their figure at the end
HEADING = ["row", "allocator", "time_ns", "memory_bytes"]
SYSTEM = "/usr/bin/python3"


def draw_elsewhere(lines, path):
    if sys.executable == SYSTEM or os.environ.get("TSLAB_PICTURE_CHILD") or not os.path.exists(SYSTEM):
        return "python3-matplotlib is not installed"
    with tempfile.TemporaryDirectory() as folder:
        figures = pathlib.Path(folder) / "rows.csv"
        run.write_csv(figures, [], HEADING, lines)
        done = subprocess.run([SYSTEM, "-B", os.path.abspath(__file__), figures, path], text=True, capture_output=True, check=False,
                              env=dict(os.environ, TSLAB_PICTURE_CHILD="1"))
    return None if done.returncode == 0 else run.last(done.stderr).removeprefix("picture: ")


def by_row(lines):
    """[(row, {allocator: (time, memory)})]"""
    found = {}
    for row, name, *figures in lines:
        found.setdefault(row, {})[OURS if name == "tslab" else name] = [float(figure) for figure in figures]
    return [(row, found[row.name]) for row in ROWS if row.name in found]


def draw(lines, path):
    """None, or why there is no picture. lines: (row, allocator, time, memory)."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return draw_elsewhere(lines, path)
    results = by_row(lines)
    names = sorted(dict.fromkeys(name for _, found in results for name in found), key=lambda name: name == OURS)
    figure, axes = plt.subplots(1, 2, figsize=(11, 0.55 * len(results) * (0.4 + 0.14 * len(names)) + 1.6), sharey=True)
    height = 0.8 / len(names)
    # a memory below a MiB is drawn as this much: it is the process's more than the allocator's
    for index, (axis, title, text, floor) in enumerate(((axes[0], "time", time_text, 1), (axes[1], "memory above an empty process", memory_text, MIB))):
        for place, (row, found) in enumerate(results):
            drawn = [name for name in names if name in found]
            for number, name in enumerate(drawn):
                value = found[name][index]
                ratio = max(value, floor) / max(found["malloc"][index], floor)
                at = place + (number - (len(drawn) - 1) / 2) * height
                background = name.endswith(BACKGROUND)
                axis.barh(at, min(ratio, CUT), height * 0.9, color=colour(name), hatch="///" if background else None,
                          edgecolor="white" if background else colour(name), linewidth=0.3,
                          label=name.replace(BACKGROUND, " with its thread") if place == 0 else None)
                if name == OURS or ratio > CUT:
                    axis.text(min(ratio, CUT) + 0.03, at, text(value), va="center", fontsize=6.5)
        axis.axvline(1, color="#9a9a9a", linewidth=0.7)
        axis.set_xlim(0, CUT + 0.5)
        axis.set_title(f"{title}, malloc = 1", fontsize=10)
        for slow in [place for place, (row, _) in enumerate(results) if row.by_design][:1]:
            axis.axhline(slow - 0.5, color="#666666", linewidth=0.8, linestyle=":")
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(results)))
    axes[0].set_yticklabels([f"{row.name}\nslow by design: {textwrap.fill(row.by_design, 26)}" if row.by_design else
                             f"{row.name}\n{textwrap.fill(row.matters, 34)}" for row, _ in results])
    axes[0].set_ylim(len(results) - 0.4, -0.6)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncol=len(names), fontsize=8, frameon=False)
    about = f"{machine.processor()}, {os.cpu_count() or 1} processors"
    figure.suptitle(f"make run, {time.strftime('%Y-%m-%d', time.gmtime())}: {about}. Shorter is better", fontsize=9)
    figure.tight_layout(rect=(0, 0.04, 1, 0.99))
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return None


def main(arguments):
    parser = run.Parser("picture.py", __doc__)
    parser.add_argument("figures", metavar="FILE.csv")
    parser.add_argument("path", metavar="PICTURE.png")
    options = parser.parse_args(arguments)
    trouble = draw([[row[column] for column in HEADING] for row in run.read_csv(options.figures)], options.path)
    if trouble:
        raise run.Missing(trouble)
    return 0


if __name__ == "__main__":
    ending.run("picture", main)
