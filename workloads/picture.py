"""The picture of `make run`: two bars a row and allocator, as multiples of malloc's figure.

Debian's python3-matplotlib is of /usr/bin/python3, which need not be the python3 that runs this: then that one draws, from the
same figures as JSON on its standard input.
"""

import json
import os
import subprocess
import sys
import time

import rows

from runs import OURS
from words import figures

COLOURS = {"malloc": "#9a9a9a", "jemalloc": "#d9a441", "mimalloc": "#7aa874", "tcmalloc": "#b07aa1", OURS: "#2f6fb0"}
CUT = 3.0  # longer bars end here, with their figure at the end


def machine():
    model = "unknown processor"
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    model = line.split(":", 1)[1].strip()
                    break
    except OSError:
        pass
    return "%s, %d processors" % (model, os.cpu_count() or 1)


SYSTEM = "/usr/bin/python3"
ABSENT = "python3-matplotlib is not installed"


def draw_elsewhere(all_results, path):
    if sys.executable == SYSTEM or os.environ.get("TSLAB_PICTURE_CHILD") or not os.path.exists(SYSTEM):
        return ABSENT
    given = json.dumps({row.name: results for row, results in all_results})
    done = subprocess.run([SYSTEM, "-B", os.path.abspath(__file__), path], input=given, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=dict(os.environ, TSLAB_PICTURE_CHILD="1"))
    if done.returncode == 0:
        return None
    return done.stdout.strip() or "%s: %s" % (SYSTEM, done.stderr.strip().splitlines()[-1])


def draw(all_results, path):
    """None, or why there is no picture."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return draw_elsewhere(all_results, path)
    names = list(all_results[0][1])
    figure, axes = plt.subplots(1, 2, figsize=(11, 0.55 * len(all_results) * (0.4 + 0.14 * len(names)) + 1.6), sharey=True)
    height = 0.8 / len(names)
    for index, (axis, title) in enumerate(zip(axes, ("time", "memory"))):
        for place, (row, results) in enumerate(all_results):
            by_allocator, text = figures(row, results)[index][1:]
            for number, name in enumerate(names):
                ratio = by_allocator[name] / max(by_allocator["malloc"], 1)
                at = place + (number - (len(names) - 1) / 2) * height
                axis.barh(at, min(ratio, CUT), height * 0.9, color=COLOURS.get(name, "#555555"), label=name if place == 0 else None)
                if name == OURS or ratio > CUT:
                    axis.text(min(ratio, CUT) + 0.03, at, text(by_allocator[name]), va="center", fontsize=6.5)
        axis.axvline(1, color="#9a9a9a", linewidth=0.7)
        axis.set_xlim(0, CUT + 0.5)
        axis.set_title("%s, malloc = 1 (shorter is better)" % title, fontsize=10)
        axis.tick_params(labelsize=8)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0].set_yticks(range(len(all_results)))
    axes[0].set_yticklabels([row.name for row, _ in all_results])
    axes[0].set_ylim(len(all_results) - 0.4, -0.6)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncol=len(names), fontsize=8, frameon=False)
    figure.suptitle("make run, %s: %s" % (time.strftime("%Y-%m-%d", time.gmtime()), machine()), fontsize=9)
    figure.tight_layout(rect=(0, 0.04, 1, 0.99))
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        return "%s: %s" % (path, error.strerror)
    finally:
        plt.close(figure)
    return None


if __name__ == "__main__":
    by_name = json.load(sys.stdin)
    trouble = draw([(row, by_name[row.name]) for row in rows.ROWS if row.name in by_name], sys.argv[1])
    if trouble:
        print(trouble)
        sys.exit(1)
