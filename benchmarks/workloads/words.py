"""Figures as text: bars, the table, and who is ahead in words. All of it follows from the figures."""

import sys
import textwrap

from workloads import rows
from workloads.runs import BACKGROUND, OURS

MIB = 1024 * 1024
# Two figures that differ by less are called equal; so are two memories that differ by less than a MiB.
TIE = 0.05
WIDTH = 94
BAR = 20


def time_text(ns):
    if ns < 1e6:
        return "%.1f us" % (ns / 1e3)
    return "%.1f ms" % (ns / 1e6) if ns < 1e9 else "%.2f s" % (ns / 1e9)


def memory_text(count):
    return "%.1f MiB" % (count / MIB)


def figures(results):
    """[(what, {allocator: figure}, how it is written)]"""
    return [("time", {name: each.time for name, each in results.items()}, time_text),
            ("memory", {name: each.memory for name, each in results.items()}, memory_text)]


def best_other(by_allocator):
    """(name, figure) of the best allocator that is neither ours nor malloc; None if there is none."""
    others = {name: figure for name, figure in by_allocator.items() if name not in (OURS, "malloc")}
    return min(others.items(), key=lambda each: each[1]) if others else None


def best_rival(by_allocator):
    return min(((name, figure) for name, figure in by_allocator.items() if name != OURS), key=lambda each: each[1])


def times(larger, smaller):
    ratio = larger / max(smaller, 1)
    return ("%.0f" if ratio >= 10 else "%.1f" if ratio >= 1.95 else "%.2f") % ratio


def standing(ours, other, what="time"):
    """-1: ours is lower, 0: equal, 1: higher."""
    if what == "memory" and abs(ours - other) < MIB:
        return 0
    ratio = ours / max(other, 1)
    return -1 if ratio < 1 - TIE else 1 if ratio > 1 + TIE else 0


def beside(what, ours, name, other):
    """temporal-slab beside one allocator, in words."""
    if standing(ours, other, what) == 0:
        return "equal to %s within %s" % (name, "%d %%" % (TIE * 100) if what == "time" else "%d %% or a MiB" % (TIE * 100))
    if what == "time":
        return "%s times as %s as %s" % ((times(other, ours), "fast", name) if ours < other else (times(ours, other), "slow", name))
    if ours < other:
        return "%s times as small as %s" % (times(other, ours), name)
    return "%s times as large as %s" % (times(ours, other), name)


def verdict(results):
    """One line for each figure: who is ahead, and by what."""
    lines = []
    for what, by_allocator, _ in figures(results):
        name, rival = best_rival(by_allocator)
        ours = by_allocator[OURS]
        ahead = {-1: OURS + " is ahead", 0: OURS + " is level with the best", 1: name + " is ahead"}[standing(ours, rival, what)]
        said = [beside(what, ours, name, rival)]
        if name != "malloc":
            said.append(beside(what, ours, "malloc", by_allocator["malloc"]))
        lines.append("%s: %s (%s)." % (what.capitalize(), ahead, " and ".join(said)))
    return lines


# ---- bars ----------------------------------------------------------------------------------------


def bar_sign():
    try:
        "\u2588".encode(sys.stdout.encoding or "ascii")
        return "\u2588"
    except (LookupError, UnicodeEncodeError):
        return "#"


def bars(row, results):
    sign = bar_sign()
    both = figures(results)
    largest = [max(by_allocator.values()) for _, by_allocator, _ in both]
    titles = ["time, " + row.time, "memory, %s, above an empty process" % row.memory]
    lines = ["  %-13s  %-32s  %s" % ("", *titles)]
    for name in results:
        cells = []
        for (_, by_allocator, text), most in zip(both, largest):
            length = max(1, round(BAR * by_allocator[name] / max(most, 1)))
            cells.append("%10s %s" % (text(by_allocator[name]), (sign * length).ljust(BAR)))
        lines.append(("  %-13s  %s   %s" % (name, *cells)).rstrip())
    return lines


def block(row, results):
    """All that is said of a row when it is done."""
    lines = textwrap.wrap("%s. %s" % (row.name, row.does), WIDTH)
    lines += bars(row, results)
    for line in verdict(results) + extra(row, results):
        lines += textwrap.wrap(line, WIDTH - 2, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)


def extra(row, results):
    lines = [row.note] if row.note else []
    ours = results[OURS].raw
    for name, result in results.items():
        if result.raw["allocation_failures"]:
            lines.append("%s with %s: %d allocations FAILED." % (row.name, name, result.raw["allocation_failures"]))
    left_out = ours.get("invalid", 0) + ours.get("unreadable", 0)
    if left_out:
        lines.append("%d documents could not be read." % left_out)
    leaked = (ours.get("leaked") or {}).get("by_epoch_label")
    if leaked:
        lines.append("Found by temporal-slab: " + ", ".join(
            '%d objects of "%s" in %d epochs' % (each["objects"], each["label"], each["epochs"]) for each in leaked) +
            "; memory after epoch_destroy of them: %s." % memory_text(ours["rss"]["after_destroy_bytes"]))
    return lines


# ---- the table -----------------------------------------------------------------------------------


def table(all_results):
    """One line a row: malloc, the best other allocator, temporal-slab; time and memory."""
    lines = ["%-20s%s | %s" % ("", "time".center(41), "MiB above an empty process".center(34)),
             "%-20s%9s %-21s %9s | %7s %-18s %7s" % (("",) + ("malloc", " best other", "tslab") * 2)]
    lines.append("-" * len(lines[-1]))
    for row, results in all_results:
        cells = []
        for what, by_allocator, text in figures(results):
            short, width = (text, 9) if what == "time" else (lambda count: "%.1f" % (count / MIB), 6)
            other = best_other(by_allocator)
            cells += [short(by_allocator["malloc"]), "%*s %s" % (width, short(other[1]), other[0]) if other else "%*s" % (width, "-"),
                      short(by_allocator[OURS])]
        lines.append("%-20s%9s %-21s %9s | %7s %-18s %7s" % (row.name, *cells))
    return "\n".join(lines)


def place(what, by_allocator, text):
    """Where temporal-slab is in a figure of a row: a few words."""
    ours, (name, rival) = by_allocator[OURS], best_rival(by_allocator)
    where = standing(ours, rival, what)
    if where == 0:
        return "level in %s" % what
    return "%s in %s (%s beside %s of %s)" % ("ahead" if where < 0 else "behind", what, text(ours), text(rival), name)


def summary(all_results):
    """For whom each row matters, and where temporal-slab is there; the rows where it means to be slow come last."""
    lines = ["For whom which row matters, and where temporal-slab is there, beside the best of the others:"]
    for row, results in all_results:
        said = ", ".join(place(*each) for each in figures(results))
        lines.append("- %s (%s): %s%s." % (row.matters, row.name, said, "; by design: " + row.by_design if row.by_design else ""))
    background = {name for _, results in all_results for name in results if name.endswith(BACKGROUND)}
    lines += ["\"%s\" has background_thread:true." % name for name in sorted(background)]
    return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in lines)


assert all(len(row.name) <= 20 for row in rows.ROWS)
