"""The picture of `make run`: two bars a row and allocator, as multiples of malloc's figure.

Debian's python3-matplotlib is of /usr/bin/python3, which need not be the python3 that runs this: then that one draws, from the
same figures as JSON on its standard input.
"""

import argparse
import json
import os
import subprocess
import sys
import textwrap
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import rows

from report.palette import colour
from runs import BACKGROUND, OURS
from words import MIB, figures

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
    names = list(dict.fromkeys(name for _, results in all_results for name in results))
    names.sort(key=lambda name: name == OURS)
    least = MIB  # a memory below it is drawn as this much: it is the process's more than the allocator's
    figure, axes = plt.subplots(1, 2, figsize=(11, 0.55 * len(all_results) * (0.4 + 0.14 * len(names)) + 1.6), sharey=True)
    height = 0.8 / len(names)
    for index, (axis, title) in enumerate(zip(axes, ("time", "memory above an empty process"))):
        for place, (row, results) in enumerate(all_results):
            by_allocator, text = figures(row, results)[index][1:]
            drawn = [name for name in names if name in by_allocator]
            floor = least if index else 1
            for number, name in enumerate(drawn):
                ratio = max(by_allocator[name], floor) / max(by_allocator["malloc"], floor)
                at = place + (number - (len(drawn) - 1) / 2) * height
                axis.barh(at, min(ratio, CUT), height * 0.9, color=colour(name), hatch="///" if name.endswith(BACKGROUND) else None,
                          edgecolor="white" if name.endswith(BACKGROUND) else colour(name), linewidth=0.3,
                          label=name.replace(BACKGROUND, " with its thread") if place == 0 else None)
                if name == OURS or ratio > CUT:
                    axis.text(min(ratio, CUT) + 0.03, at, text(by_allocator[name]), va="center", fontsize=6.5)
        axis.axvline(1, color="#9a9a9a", linewidth=0.7)
        axis.set_xlim(0, CUT + 0.5)
        axis.set_title("%s, malloc = 1" % title, fontsize=10)
        slow = [place for place, (row, _) in enumerate(all_results) if row.by_design]
        if slow:
            axis.axhline(slow[0] - 0.5, color="#666666", linewidth=0.8, linestyle=":")
        axis.tick_params(labelsize=8)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0].set_yticks(range(len(all_results)))
    axes[0].set_yticklabels(["%s\nslow by design: %s" % (row.name, textwrap.fill(row.by_design, 26)) if row.by_design else
                             "%s\n%s" % (row.name, textwrap.fill(row.matters, 34)) for row, _ in all_results])
    axes[0].set_ylim(len(all_results) - 0.4, -0.6)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncol=len(names), fontsize=8, frameon=False)
    figure.suptitle("make run, %s: %s. Shorter is better" % (time.strftime("%Y-%m-%d", time.gmtime()), machine()), fontsize=9)
    figure.tight_layout(rect=(0, 0.04, 1, 0.99))
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        return "%s: %s" % (path, error.strerror)
    finally:
        plt.close(figure)
    return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", help="the picture; its figures come from the standard input")
    path = parser.parse_args().path
    by_name = json.load(sys.stdin)
    trouble = draw([(row, by_name[row.name]) for row in rows.ROWS if row.name in by_name], path)
    if trouble:
        print(trouble)
        sys.exit(1)
