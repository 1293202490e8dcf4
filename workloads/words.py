"""Figures as text: bars, the table, and who is ahead in words. All of it follows from the figures."""

import sys
import textwrap

import rows
from runs import OURS

MIB = 1024 * 1024
# Two figures that differ by less are called equal.
TIE = 0.05
WIDTH = 94
BAR = 20


def time_of(result):
    return result["latency_ns"]["p50"]


def memory_of(row, result):
    return result["rss"][row.memory_key]


def time_text(ns):
    if ns < 1e6:
        return "%.1f us" % (ns / 1e3)
    return "%.1f ms" % (ns / 1e6) if ns < 1e9 else "%.2f s" % (ns / 1e9)


def memory_text(count):
    return "%.1f MiB" % (count / MIB)


def figures(row, results):
    """[(what, {allocator: figure}, how it is written)]"""
    return [("time", {name: time_of(each) for name, each in results.items()}, time_text),
            ("memory", {name: memory_of(row, each) for name, each in results.items()}, memory_text)]


def best_other(by_allocator):
    """(name, figure) of the best allocator that is neither ours nor malloc; None if there is none."""
    others = {name: figure for name, figure in by_allocator.items() if name not in (OURS, "malloc")}
    return min(others.items(), key=lambda each: each[1]) if others else None


def best_rival(by_allocator):
    return min(((name, figure) for name, figure in by_allocator.items() if name != OURS), key=lambda each: each[1])


def times(larger, smaller):
    ratio = larger / max(smaller, 1)
    return ("%.0f" if ratio >= 10 else "%.1f" if ratio >= 1.95 else "%.2f") % ratio


def standing(ours, other):
    """-1: ours is lower, 0: equal, 1: higher."""
    ratio = ours / max(other, 1)
    return -1 if ratio < 1 - TIE else 1 if ratio > 1 + TIE else 0


def beside(what, ours, name, other):
    """temporal-slab beside one allocator, in words."""
    if standing(ours, other) == 0:
        return "equal to %s within %d %%" % (name, TIE * 100)
    if what == "time":
        return "%s times as %s as %s" % ((times(other, ours), "fast", name) if ours < other else (times(ours, other), "slow", name))
    if ours < other:
        return "%s times as small as %s" % (times(other, ours), name)
    return "%s times as large as %s" % (times(ours, other), name)


def verdict(row, results):
    """One line for each figure: who is ahead, and by what."""
    lines = []
    for what, by_allocator, _ in figures(row, results):
        name, rival = best_rival(by_allocator)
        ours = by_allocator[OURS]
        ahead = {-1: OURS + " is ahead", 0: OURS + " is level with the best", 1: name + " is ahead"}[standing(ours, rival)]
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
    both = figures(row, results)
    largest = [max(by_allocator.values()) for _, by_allocator, _ in both]
    titles = ["time, " + row.time, "memory, " + row.memory]
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
    for line in verdict(row, results) + extra(row, results):
        lines += textwrap.wrap(line, WIDTH - 2, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)


def extra(row, results):
    lines = [row.note] if row.note else []
    ours = results[OURS]
    for name, result in results.items():
        if result.get("allocation_failures"):
            lines.append("%s with %s: %d allocations FAILED." % (row.name, name, result["allocation_failures"]))
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
    lines = ["%-20s%s | %s" % ("", "time".center(38), "memory, MiB".center(31)),
             "%-20s%9s %-18s %9s | %7s %-15s %7s" % (("",) + ("malloc", " best other", "tslab") * 2)]
    lines.append("-" * len(lines[-1]))
    for row, results in all_results:
        cells = []
        for what, by_allocator, text in figures(row, results):
            short, width = (text, 9) if what == "time" else (lambda count: "%.1f" % (count / MIB), 6)
            other = best_other(by_allocator)
            cells += [short(by_allocator["malloc"]), "%*s %s" % (width, short(other[1]), other[0]) if other else "%*s" % (width, "-"),
                      short(by_allocator[OURS])]
        lines.append("%-20s%9s %-18s %9s | %7s %-15s %7s" % (row.name, *cells))
    return "\n".join(lines)


def summary(all_results):
    """Counts over all rows, and the best and the worst figure."""
    lines, every = [], []
    for index, what in enumerate(("time", "memory")):
        counts = {-1: 0, 0: 0, 1: 0}
        beside_malloc = {-1: 0, 0: 0, 1: 0}
        for row, results in all_results:
            by_allocator = figures(row, results)[index][1]
            ours, (name, rival) = by_allocator[OURS], best_rival(by_allocator)
            counts[standing(ours, rival)] += 1
            beside_malloc[standing(ours, by_allocator["malloc"])] += 1
            every.append((ours / max(by_allocator["malloc"], 1), what, row.name))
        lines.append("In %s temporal-slab is ahead of all others in %d of %d rows, level with the best in %d, behind it in %d. Beside "
                     "malloc alone: ahead in %d, level in %d, behind in %d."
                     % (what, counts[-1], len(all_results), counts[0], counts[1], beside_malloc[-1], beside_malloc[0], beside_malloc[1]))
    best, worst = min(every), max(every)
    lines.append("Its best figure beside malloc is the %s of \"%s\", %.2f times malloc's; its worst the %s of \"%s\", %.2f times malloc's."
                 % (best[1], best[2], best[0], worst[1], worst[2], worst[0]))
    return "\n".join(textwrap.fill(line, WIDTH) for line in lines)


assert all(len(row.name) <= 20 for row in rows.ROWS)
