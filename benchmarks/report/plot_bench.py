#!/usr/bin/env python3
"""Draws the charts of docs/images/ from the CSV files of benchmarks/run_all.sh.

    benchmarks/report/plot_bench.py                            every chart, of benchmarks/results, into docs/images
    benchmarks/report/plot_bench.py latency.csv rss_churn.csv  the charts of these files (benchmark_accurate --csv latency.csv, churn_test
                                                   --csv rss_churn.csv) and of those beside them, into the folder images there

A file may have any name; its heading says what it is. Every allocator that has figures is on every chart it has figures for. Colours are
those of benchmarks/report/palette.py, the same in every picture; markers, line styles and hatches tell them apart without any colour.
Needs matplotlib (Debian: python3-matplotlib).
"""

import math
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

try:
    import matplotlib
except ImportError:
    # A Python beside the system's own does not have the packages of Debian.
    if os.path.realpath(sys.executable) != os.path.realpath("/usr/bin/python3") and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3", "-B", *sys.argv])
    print("plot_bench: matplotlib is not installed: tools/setup.sh plot (Debian: python3-matplotlib)", file=sys.stderr)
    sys.exit(2)

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib import ticker  # noqa: E402
from matplotlib.container import BarContainer  # noqa: E402
from matplotlib.legend_handler import HandlerTuple  # noqa: E402

from harness import ending, run  # noqa: E402
from harness.ending import Refusal  # noqa: E402
from report import bench_report as report  # noqa: E402
from report import suite_figures as figures  # noqa: E402
from report.palette import COLOURS  # noqa: E402

# colour, marker, line style, hatch
DRAWN = {
    "tslab": ("o", "-", ""), "malloc": ("s", (0, (6, 2)), "//"), "jemalloc": ("^", (0, (6, 2, 1, 2)), "\\\\"),
    "tcmalloc": ("D", (0, (1, 1.5)), "xx"), "mimalloc": ("v", (0, (3, 1, 1, 1, 1, 1)), ".."), "snmalloc": ("<", (0, (4, 1)), "++"),
    "google": (">", (0, (2, 1)), "oo"),
    # scope_bench's further ones
    "apr": ("P", (0, (6, 2)), "//"), "pmr": ("X", (0, (1, 1.5)), "xx"), "bumpalo": ("h", (0, (6, 2, 1, 2)), "\\\\"),
    "talloc": ("*", (0, (3, 1, 1, 1, 1, 1)), ".."),
}
NAMES = {"tslab": "temporal-slab", "malloc": "malloc (glibc)", "apr": "APR pools", "pmr": "pmr monotonic",
         "mimalloc_heap": "mi_heap", "jemalloc_arena": "jemalloc arenas", "tcmalloc_free": "gperftools, each freed", "tcmalloc": "gperftools", "google": "Google's tcmalloc",
         "tslab_reset": "temporal-slab, kept", "apr_clear": "APR pools, kept", "bumpalo_reset": "bumpalo, kept",
         "jemalloc_free": "jemalloc, each freed", "mimalloc_free": "mimalloc, each freed"}
SIZE = figures.SIZE
PERCENTILES = [("p50_ns", "p50"), ("p99_ns", "p99"), ("p999_ns", "p99.9"), ("p9999_ns", "p99.99"),
               ("p99999_ns", "p99.999")]


def finish(figure, axes, title=None, columns=None, legend=None):
    """The grid, and one legend for all panels, under them, where it hides nothing. What is a bar here and a line there is shown as
    both, side by side."""
    entries = {}
    for each in legend or axes:
        for handle, text in zip(*each.get_legend_handles_labels()):
            entries.setdefault(text, {}).setdefault(isinstance(handle, BarContainer), handle)
    handles = [tuple(kinds[is_bar] for is_bar in sorted(kinds, reverse=True)) for kinds in entries.values()]
    columns = columns or len(entries)
    below = figure.legend(handles, entries.keys(), loc="lower center", bbox_to_anchor=(0.5, 0.035), fontsize=9, ncol=columns,
                          frameon=False, handlelength=3 * max(map(len, handles)), handleheight=1.3,
                          handler_map={tuple: HandlerTuple(ndivide=None)})
    below.rows = -(-len(entries) // columns)  # for the author of a layout
    grid(*axes)
    if title:
        figure.suptitle(title)
    return figure


class NoData(Exception):
    """There is nothing to draw the chart from; the message names the file."""


def label(name):
    return NAMES.get(name, name)


def style(name):
    return (COLOURS[name], *DRAWN[name])


def line(axes, name, x, y, every=None, width=None, order=None):
    colour, marker, dashes, _ = style(name)
    ours = name == "tslab"
    axes.plot(x, y, color=colour, marker=marker, linestyle=dashes, label=label(name), markersize=5, markevery=every,
              linewidth=width or (2.4 if ours else 1.5), zorder=order or (3 if ours else 2))


def beside(x, at, count):
    """Places on a logarithmic axis for the at-th of `count` allocators, each a little beside the last: what is equal is not
    hidden."""
    return [value * 2 ** (0.06 * (at - (count - 1) / 2)) for value in x]


def bars(axes, groups, names, values, spread=None, width=0.8):
    """values[name]: one height for each group, None where there is none."""
    each = width / len(names)
    for at, name in enumerate(names):
        colour, _, _, hatch = style(name)
        heights = values[name]
        places = [g - width / 2 + each * (at + 0.5) for g in range(len(groups))]
        shown = [(p, h) for p, h in zip(places, heights) if h is not None]
        errors = None
        if spread and any(low != high for low, high in spread[name]):
            errors = [[max(0, h - s[0]) for (h, s) in zip(heights, spread[name]) if h is not None],
                      [max(0, s[1] - h) for (h, s) in zip(heights, spread[name]) if h is not None]]
        axes.bar([p for p, _ in shown], [h for _, h in shown], each * 0.92, color=colour, hatch=hatch, label=label(name),
                 edgecolor="black", linewidth=0.5, yerr=errors, error_kw={"linewidth": 0.8, "capsize": 2})
    axes.set_xticks(range(len(groups)))
    axes.set_xticklabels(groups)


def mark_low_bars(axes):
    """Called when all bars are drawn: one that is too low to be seen gets its figure."""
    _, top = axes.get_ylim()
    for container in axes.containers:
        for bar in container if isinstance(container, BarContainer) else []:
            height = bar.get_height()
            if height < top / 60:
                axes.annotate(f"{height:.1f}" if height >= 0.05 else "0", (bar.get_x() + bar.get_width() / 2, max(height, 0)),
                              xytext=(0, 2), textcoords="offset points", ha="center", fontsize=8)


def plain(value, _=None):
    """Numbers of an axis, without exponents."""
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def duration(value, _=None):
    for limit, divisor, unit in ((1e3, 1, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if value < limit:
            return f"{value / divisor:g} {unit}"
    return f"{value / 1e9:g} s"


def log_axis(axis, formatter=plain):
    """Called when everything is drawn: below three decades, 2 and 5 are labelled too. Nothing above 0, as after a short
    run, stays as it is."""
    if not math.isfinite(axis.get_minpos()):
        axis.axes.set(xticks=[], yticks=[])
        axis.axes.text(0.5, 0.5, "not measured", transform=axis.axes.transAxes, ha="center", color="#555555")
        return
    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    low, high = axis.get_view_interval()
    axis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 2, 5) if high < 1000 * low else (1,)))
    axis.set_major_formatter(ticker.FuncFormatter(formatter))
    axis.set_minor_formatter(ticker.NullFormatter())


def grid(*axes):
    for each in axes:
        each.grid(True, which="major", color="#d0d0d0", linewidth=0.6)
        each.set_axisbelow(True)
        each.spines[["top", "right"]].set_visible(False)


def log2_axis(axis, formatter=plain):
    axis.axes.set_xscale("log", base=2)
    axis.set_major_formatter(ticker.FuncFormatter(formatter))
    axis.set_minor_formatter(ticker.NullFormatter())


def series(data, axis, name, x, y, every=lambda at, step: step, **more):
    """A line for each allocator of a file: two of its columns. every(at, step): its marks, of the at-th with so many points between ten."""
    for at, allocator in enumerate(data.there(name)):
        values = data.numbers(name, allocator, x)
        line(axis, allocator, values, data.numbers(name, allocator, y), every=every(at, max(1, len(values) // 10)),
             **{key: value[allocator != "tslab"] for key, value in more.items()})


def shifted(at, step):
    """Marks between those of the others: two lines that are the same lie on each other."""
    return at * step // 5, step


class Data(figures.Suite):
    """The suite's files of one folder. elsewhere: {name: path} of files with other names."""

    def there(self, name):
        """The allocators in a file, in the order of the charts."""
        found = [a for a in figures.ALLOCATORS if a in self.allocators(name)]
        if not found:
            raise NoData(f"{name}.csv is not there")
        return found

    def some(self, name, allocator, **wanted):
        rows = [row for row in self.rows(name) if row["allocator"] == allocator]
        if not rows:
            raise NoData(f"{name}.csv has no {allocator}")
        return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]

    def numbers(self, name, allocator, column, **wanted):
        values = [row.number(column) for row in self.some(name, allocator, **wanted)]
        return [value for value in values if value is not None]

    def median(self, name, allocator, column, **wanted):
        values = self.numbers(name, allocator, column, **wanted)
        return statistics.median(values) if values else None

    def origin(self):
        """The machine of the figures that were asked for; and what the titles do not say of a run that is not the whole one."""
        mode = self.header().get("mode", "full")
        less = [] if mode == "full" else [f"MODE {mode.upper()}: less work, fewer objects and threads than the titles say"]
        return "; ".join([*less, self.machines(self.asked) or "machine not recorded"])


# ---- the charts ---------------------------------------------------------------------------------


def percentile_bars(data, axis, op):
    name = "benchmark_accurate"
    numbers = {a: [data.numbers(name, a, column, size_class=SIZE, op=op) for column, _ in PERCENTILES] for a in data.there(name)}
    if not any(found for each in numbers.values() for found in each):
        raise NoData(f"{name}.csv has no {op} of {SIZE} bytes")
    bars(axis, [text for _, text in PERCENTILES], list(numbers),
         {a: [statistics.median(found) if found else None for found in each] for a, each in numbers.items()},
         {a: [(min(found, default=0), max(found, default=0)) for found in each] for a, each in numbers.items()})
    log_axis(axis.yaxis, duration)


def latency_percentiles(data):
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True)
    for axis, op, title in ((axes[0], "alloc", "allocation"), (axes[1], "free", "free")):
        percentile_bars(data, axis, op)
        axis.set(title=f"{title} of {SIZE} bytes", xlabel="percentile of single operations")
    axes[0].set_ylabel("latency (log scale, lower is better)")
    return finish(figure, axes, "100,000 live objects, a random tenth freed and allocated again; the clock's own cost subtracted")


def latency_comparison(data):
    """The description's chart of this name: its workload frees the oldest."""
    figure, axis = plt.subplots(figsize=(11, 4.6))
    percentile_bars(data, axis, "fifo_alloc")
    axis.set(xlabel="percentile of single allocations", ylabel="latency (log scale, lower is better)")
    return finish(figure, [axis], "100,000 live objects of 128 bytes, the oldest tenth freed and allocated again (FIFO)")


def rss_comparison(data):
    """The description's chart of this name: resident memory at the first and the last cycle of the churn."""
    names = data.there("churn_test")
    figure, axis = plt.subplots(figsize=(11, 4.4))
    cycles = {name: data.numbers("churn_test", name, "rss_mib") for name in names}
    bars(axis, ["the first cycle", f"cycle {max(map(len, cycles.values())):,}"], names,
         {name: [values[0], values[-1]] for name, values in cycles.items()})
    axis.set_ylabel("resident memory (MiB, lower is better)")
    return finish(figure, [axis], "100,000 live objects of 128 bytes, the oldest tenth replaced in every cycle")


def latency_cdf(data):
    name = "latency_cdf"
    names = data.there(name)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), sharey=True, sharex=True)
    for axis, op, title in ((axes[0], "alloc", "allocation"), (axes[1], "free", "free")):
        for allocator in names:
            x, y = curve(data, allocator, op)
            line(axis, allocator, x, y, every=6)
        floors = [curve(data, allocator, "floor") for allocator in names]
        low, high, above = floor_band(floors)
        axis.fill_betweenx(above, low, high, color="#bbbbbb", label="this machine's floor (nothing called)", zorder=1)
        axis.set_xscale("log")
        axis.set_yscale("log")
        log_axis(axis.xaxis, duration)
        axis.yaxis.set_major_locator(ticker.LogLocator(base=10, numticks=12))
        axis.yaxis.set_major_formatter(ticker.FuncFormatter(one_in))
        axis.yaxis.set_minor_formatter(ticker.NullFormatter())
        axis.set(title=f"{title} of {SIZE} bytes", xlabel="latency as the clock saw it (log scale)")
    axes[0].set_ylabel("operations that take longer")
    return finish(figure, axes, "What share of the operations takes longer than a given time; further left and down is better")


def curve(data, allocator, op):
    points = [(row.number("latency_ns"), row.number("fraction_above"))
              for row in data.some("latency_cdf", allocator, size_class=SIZE, op=op) if row.get("round", "1") == "1"]
    points = [(x, y) for x, y in points if y > 0 and x > 0]
    if not points:
        raise NoData(f"latency_cdf.csv has no {op} of {SIZE} bytes for {allocator}")
    return list(zip(*points))


def floor_band(floors):
    """The least and the largest latency of the floors at each share that all of them have."""
    shares = sorted(set.intersection(*(set(y) for _, y in floors)), reverse=True)
    columns = [[dict(zip(y, x))[share] for x, y in floors] for share in shares]
    return [min(c) for c in columns], [max(c) for c in columns], shares


def one_in(value, _=None):
    return "all" if value >= 1 else f"1 in {plain(round(1 / value))}"


def rss_over_time(data):
    shifts_too = bool(data.rows("phase_shifts"))
    figure, axes = plt.subplots(1, 1 + shifts_too, figsize=(11, 4.4), squeeze=False)
    axes = axes[0]
    # Two that need the same lie on each other: ours is wide and below.
    series(data, axes[0], "churn_test", "cycle", "rss_mib", shifted, width=(4, 1.4), order=(1, 3))
    axes[0].set(title="100,000 objects of 128 bytes, the oldest tenth\nreplaced in every cycle", xlabel="cycle")
    if shifts_too:
        series(data, axes[1], "phase_shifts", "shift", "rss_cool_mib")
        first = data.there("phase_shifts")[0]
        peak = data.median("phase_shifts", first, "rss_peak_mib")
        axes[1].axhline(peak, color="black", linewidth=0.8, linestyle=":", label=f"{label(first)} at its peak: {peak:.0f} MiB")
        axes[1].set(title="what stays after a spike of 256 MiB is freed", xlabel="phase shift")
    for axis in axes:
        axis.set(ylim=(0, 1.12 * axis.get_ylim()[1]), ylabel="resident memory (MiB, lower is better)")
    return finish(figure, axes)


def phases(data):
    figure, axes = plt.subplots(1, 1, figsize=(11, 4.4))
    series(data, axes, "phases", "second", "rss_mib", shifted)
    axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
    begins = {row["phase"]: float(row["second"]) for row in reversed(data.some("phases", data.there("phases")[0]))}
    for phase, second in reversed(begins.items()):
        axes.axvline(second, color="#999999", linewidth=0.8, linestyle=":")
        axes.annotate(phase, (second, axes.get_ylim()[1]), xytext=(3, -11), textcoords="offset points", fontsize=8)
    axes.set(title="a program whose work changes; all that a phase has is freed at its end", xlabel="second",
             ylabel="resident memory (MiB, lower is better)")
    return finish(figure, [axes])


def fragmentation(data):
    names = data.there("fragmentation")
    classes = sorted({int(row["size_class"]) for row in data.rows("fragmentation")})
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.6), gridspec_kw={"width_ratios": [3, 2, 2]})
    # Some have the same classes: the further down a line is the wider, and each has its marks at other sizes.
    for at, allocator in enumerate(names):
        points = [(c, data.median("fragmentation", allocator, "efficiency_pct", size_class=str(c))) for c in classes]
        points = [(c, value) for c, value in points if value is not None]
        line(axes[0], allocator, [c for c, _ in points], [value for _, value in points], every=(at, len(names)),
             width=2.4 if at == 0 else 1 + 0.6 * at, order=3 - at / 10)
    axes[0].set_xscale("log", base=2)
    axes[0].set_xticks([classes[0], *(1 << n for n in range(1, 64) if classes[0] < 1 << n <= classes[-1])])
    axes[0].xaxis.set_major_formatter(ticker.FuncFormatter(plain))
    axes[0].tick_params(axis="x", labelsize=9)
    axes[0].set(xlabel="objects up to this many bytes (log scale)", ylabel="bytes asked for, % of the bytes taken\nthe axis does not begin at 0",
                title="by size, over a realistic mix")
    works = [("size mix,\nrounding", None), ("size mix,\nresident", "mix"), ("128 B,\nresident", "128")]
    values = {a: [overhead(data, a, work) for _, work in works] for a in names}
    bars(axes[1], [text for text, _ in works], names, values)
    axes[1].set(ylabel="over the payload (%)", title="what the whole costs (lower is better)")
    over_time(data, axes[2])
    for axis in axes[1:]:
        mark_low_bars(axis)
    return finish(figure, axes)


def over_time(data, axis):
    """What is back after one in twenty objects survived: ten seconds idle, and after asking for it."""
    moments = [("idle", "after idling"), ("asked", "after asking")]
    names = data.there("fragmentation_over_time")
    placements = {name: "together" for name in names}
    if "tslab" in names:
        placements["tslab, by lifetime"] = "by_lifetime"
    each = 0.8 / len(placements)
    for at, (name, placement) in enumerate(placements.items()):
        allocator = name.split(",")[0]
        colour, _, _, hatch = style(allocator) if placement == "together" else ("#56B4E9", "", "", "++")
        heights = [last_returned(data, allocator, placement, moment) for moment, _ in moments]
        shown = [(g - 0.4 + each * (at + 0.5), height) for g, height in enumerate(heights) if height is not None]
        axis.bar([p for p, _ in shown], [h for _, h in shown], each * 0.92, color=colour, hatch=hatch, edgecolor="black",
                 linewidth=0.5, label="temporal-slab, survivors in an epoch of their own" if at >= len(names) else None)
    axis.axhline(95, color="black", linewidth=0.8, linestyle=":")
    axis.annotate("95 % is dead", (1.45, 95), xytext=(0, 3), textcoords="offset points", fontsize=8, ha="right")
    axis.set_xticks(range(len(moments)), [text for _, text in moments])
    axis.set(ylabel="resident memory returned (%, higher is better)", ylim=(0, 105), title="one object in twenty survives")


def last_returned(data, allocator, placement, moment):
    """The median over the rounds of what is back at the end of a moment."""
    name = "fragmentation_over_time"
    last = {row.get("round"): row for row in data.some(name, allocator, placement=placement, moment=moment)}
    return statistics.median(float(row["returned_pct"]) for row in last.values()) if last else None


def overhead(data, allocator, work):
    if work is not None:
        return data.median("space", allocator, "overhead_pct", work=work, kind="churn")
    requested = sum(data.numbers("fragmentation", allocator, "requested"))
    return 100 * (sum(data.numbers("fragmentation", allocator, "rounded")) / requested - 1)


def slab_lifecycle(data):
    """Counters that only temporal-slab has; the others' resident memory in the same cycles for comparison."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.4))
    cycles = data.numbers("churn_test", "tslab", "cycle")
    for column, text, colour, dashes in (("slabs_allocated", "taken into use", "#0072B2", "-"),
                                         ("slabs_recycled", "empty, kept for the next", "#56B4E9", (0, (6, 2))),
                                         ("slabs_overflowed", "empty, beyond the budget: given back", "#444444", (0, (1, 1.5)))):
        values = data.numbers("churn_test", "tslab", column)
        axes[0].plot(cycles, values, color=colour, linestyle=dashes, linewidth=2, label=text)
    axes[0].set(xlabel="cycle of 10,000 objects of 128 bytes", ylabel="slabs of 16 KiB, in all")
    axes[0].yaxis.set_major_formatter(ticker.FuncFormatter(plain))
    axes[0].set_title("temporal-slab: what its slabs go through")
    axes[0].legend(fontsize=9)
    series(data, axes[1], "epoch_cycles", "cycle", "rss_closed_mib", lambda at, step: 3)
    first = data.there("epoch_cycles")[0]
    full = data.median("epoch_cycles", first, "rss_full_mib")
    axes[1].axhline(full, color="black", linewidth=0.8, linestyle=":", label=f"{label(first)} while full: {full:.1f} MiB")
    axes[1].set(xlabel="epoch of 50,000 objects of 128 bytes", ylabel="resident memory after it is closed (MiB)",
                title="what is kept for the next epoch (temporal-slab: up to 32 MiB)", ylim=(0, 1.12 * axes[1].get_ylim()[1]))
    axes[1].xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    return finish(figure, axes, legend=[axes[1]])


RUN = 15  # windows: five lines of single ones hide each other


def running_median(values):
    """Of each value and those around it; at the ends of those there are."""
    return [statistics.median(values[max(0, i - RUN // 2):i + RUN // 2 + 1]) for i in range(len(values))]


def soak_distribution(data):
    names = data.there("soak")
    speeds = {a: [v / 1e6 for v in data.numbers("soak", a, "throughput_ops_sec")] for a in names}
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.4))
    for allocator in names:
        ordered = sorted(speeds[allocator])
        share = [100 * i / max(1, len(ordered) - 1) for i in range(len(ordered))]
        line(axes[0], allocator, share, ordered, every=max(1, len(ordered) // 8))
        windows = data.numbers("soak", allocator, "epoch")
        line(axes[1], allocator, windows, running_median(speeds[allocator]), every=max(1, len(windows) // 8))
    axes[0].set(xlabel="windows that are slower (%)", title="distribution over the windows, slowest on the left")
    axes[1].set(xlabel="window", title=f"over time, median of {RUN} windows around each")
    for axis in axes:
        axis.set_ylabel("million calls a second (higher is better)\nthe axis does not begin at 0")
        axis.margins(y=0.12)
    return finish(figure, axes, "400 slots of 16-1040 bytes, 70 % of the operations allocate; one process each, windows in turn")


# What is drawn of scope_bench, and its name there.
SCOPES = {"tslab": "tslab", "malloc": "glibc", "jemalloc_free": "jemalloc_free", "mimalloc_free": "mimalloc_free", "tcmalloc_free": "tcmalloc_free",
          "jemalloc_arena": "jemalloc", "mimalloc_heap": "mimalloc", "apr": "apr", "pmr": "pmr", "bumpalo": "bumpalo", "talloc": "talloc",
          "tslab_reset": "tslab_reset", "apr_clear": "apr_clear", "bumpalo_reset": "bumpalo_reset"}


def scope_line(axis, shown, points):
    """Of one allocator two ways: the markers of the one that drops all at once, or keeps the scope, are open."""
    colour, marker, dashes, _ = style(shown.split("_")[0])
    at_once = shown.endswith(("_arena", "_heap", "_reset", "_clear"))
    points = [(x, y) for x, y in sorted(points) if y > 0]
    axis.plot([x for x, _ in points], [y for _, y in points], color=colour, marker=marker, linestyle=":" if at_once else dashes,
              label=label(shown), markersize=6 if at_once else 5, markerfacecolor="white" if at_once else colour,
              markeredgecolor=colour if at_once else "black", markeredgewidth=1.2 if at_once else 0.4,
              linewidth=2.4 if shown == "tslab" else 1.5, zorder=3 if shown == "tslab" else 2)


def scope_cost(data):
    rows = data.rows("scope_bench")
    if not rows:
        raise NoData("scope_bench.csv is not there")
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.8))
    panels = (("scopes_open", "1", "objects_per_scope", "ns_per_object", duration), ("objects_per_scope", "100", "scopes_open", "ns_per_object", duration),
              ("objects_per_scope", "100", "scopes_open", "held_per_payload", plain))
    for shown, name in SCOPES.items():
        mine = [row for row in rows if row["allocator"] == name]
        for axis, (fixed, value, varied, column, _) in zip(axes, panels) if mine else ():
            scope_line(axis, shown, [(int(row[varied]), row.number(column)) for row in mine if row[fixed] == value])
    floor = sorted({int(row["objects_per_scope"]): float(row["floor_ns_per_object"]) for row in rows if row["scopes_open"] == "1"}.items())
    axes[0].plot([x for x, _ in floor], [y for _, y in floor], color="#888888", linewidth=1, label="the loop alone")
    axes[0].set(title="one scope open", xlabel="objects in a scope (log scale)", ylabel="time per object, scope included (log scale)")
    axes[1].set_title("100 objects in a scope")
    axes[2].set(title="memory, 100 objects in a scope", ylabel="resident bytes per byte asked for (log scale)")
    for axis, panel in zip(axes, panels):
        log_axis(axis.yaxis, panel[-1])
    drawn = [axis for axis in axes[:2] if axis.get_yscale() == "log"]
    for axis in drawn:
        axis.set_ylim(*(f(f(each.get_ylim()) for each in drawn) for f in (min, max)))
    for axis, panel in zip(axes, panels):
        if axis.get_yscale() == "log":
            log_axis(axis.xaxis)
            log_axis(axis.yaxis, panel[-1])
    for axis in axes[1:]:
        axis.set_xlabel("scopes open at once (log scale)")
    return finish(figure, axes, "Objects that are dropped together: a scope made, its objects allocated and written, the scope dropped", columns=5)


# ---- threads ------------------------------------------------------------------------------------


def thread_points(data, allocator, column, scale, **wanted):
    """The median of the trials for each number of threads."""
    counts = sorted({int(row["threads"]) for row in data.some("thread_trials", allocator, **wanted)})
    return counts, [scale * data.median("thread_trials", allocator, column, threads=str(n), **wanted) for n in counts]


def thread_chart(data, column, scale, unit, log, title):
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharey=log)
    names = data.there("thread_trials")
    for axis, frees, heading in ((axes[0], "private", "each thread frees its own objects"),
                                 (axes[1], "cross", "each thread frees what another allocated")):
        def places(x, at):
            return beside(x, at, len(names) + 1) if log else x

        for at, allocator in enumerate(names):
            x, y = thread_points(data, allocator, column, scale, epochs="same", frees=frees)
            line(axis, allocator, places(x, at), y)
        x, y = thread_points(data, "tslab", column, scale, epochs="separate", frees=frees)
        axis.plot(places(x, len(names)), y, color=COLOURS["tslab"], marker="o", linestyle=":", markerfacecolor="white", markersize=5, linewidth=1.5,
                  label="temporal-slab, an epoch for each thread")
        log2_axis(axis.xaxis)
        axis.set(title=heading, xlabel="threads (log scale)" + (", side by side at each number" if log else ""))
        if log:
            log_axis(axis.yaxis, duration)
        else:
            axis.set_ylim(bottom=0)
    axes[0].set_ylabel(unit)
    return finish(figure, axes, title)


def p99_vs_threads(data):
    return thread_chart(data, "p99_ns", 1, "p99 of an operation (log scale, lower is better)", True,
                        "2,000 live objects of 128 bytes in each thread, replaced at random; median of the trials")


def scaling(data):
    count = figures.processors(data)
    return thread_chart(data, "ops_per_sec", 1e-6, "million operations a second (higher is better)", False,
                        "Throughput of 1 to 16 threads" + (f" on {count} processors" if count else "") +
                        ", 2,000 live objects of 128 bytes in each; all threads together, median of the trials")


# ---- time by size -------------------------------------------------------------------------------


def size_points(data):
    """{allocator: {bytes: the median of its rounds in ns}} of core_bench's work by_size."""
    values = {}
    data.asked.add("core_bench_raw")
    path = data.path("core_bench_raw")
    for row in report.read_raw(path) if path.is_file() else ():
        if row["work"] == "by_size":
            name = {"glibc": "malloc"}.get(row["allocator"], row["allocator"])
            bytes_ = int(row["metric"].removeprefix("pair_ns_"))
            values.setdefault(name, {}).setdefault(bytes_, []).append(row["value"])
    return {name: {size: statistics.median(found) for size, found in sorted(sizes.items())} for name, sizes in values.items()}


def binary(value, _=None):
    for limit, divisor, unit in ((1 << 10, 1, "B"), (1 << 20, 1 << 10, "KiB")):
        if value < limit:
            return f"{value / divisor:g} {unit}"
    return f"{value / (1 << 20):g} MiB"


def time_by_size(data):
    points = size_points(data)
    if not points:
        raise NoData("core_bench_raw.csv is not there, or has no by_size")
    figure, axis = plt.subplots(figsize=(11, 5))
    for allocator in [name for name in figures.ALLOCATORS if name in points]:
        line(axis, allocator, list(points[allocator]), list(points[allocator].values()))
    log2_axis(axis.xaxis, binary)
    axis.xaxis.set_major_locator(ticker.FixedLocator([8 * 4**n for n in range(11)]))
    axis.set(xlabel="bytes of each object (log scale)", ylabel="a free and an allocation (log scale, lower is better)")
    log_axis(axis.yaxis, duration)
    return finish(figure, [axis], "Objects of one size, replaced at random: 2,000 live ones, or 32 MiB of them, ten at least; calls alone")


# ---- summary ------------------------------------------------------------------------------------


def summary(data):
    """The four figures that the allocator is made for."""
    figure, axes = plt.subplots(1, 4, figsize=(13, 4.2))
    panels = [
        ("allocation p99.9,\n100,000 live x 128 B", "ns", "benchmark_accurate",
         lambda a: data.median("benchmark_accurate", a, "p999_ns", size_class=SIZE, op="alloc")),
        ("of a 256 MiB spike, back\nwithout being asked", "% returned", "phase_shifts",
         lambda a: statistics.mean(data.numbers("phase_shifts", a, "returned_pct"))),
        ("100 objects dropped together,\n1 scope open, per object", "ns", "scope_bench", lambda a: scope_figure(data, a)),
        ("mixed load, soak", "million calls a second", "soak",
         lambda a: statistics.median(data.numbers("soak", a, "throughput_ops_sec")) / 1e6),
    ]
    there = {source: [a for a in figures.ALLOCATORS if a in data.allocators(source)] for _, _, source, _ in panels}
    names = [name for name in figures.ALLOCATORS if any(name in there[source] for source in there if source != "scope_bench")]
    if not names:
        raise NoData("benchmark_accurate.csv is not there")
    for axis, (title, unit, source, value) in zip(axes, panels):
        shown = {name: SHORT.get(name, name) for name in names} if source != "scope_bench" else \
            {name: text for name, text in WAYS.items() if name in names or value(name) is not None}
        for at, name in enumerate(shown):
            v = value(name) if source == "scope_bench" or name in there[source] else None
            if v is None:
                axis.annotate("not measured", (at, 0.03), xycoords=axis.get_xaxis_transform(), rotation=90, ha="center",
                              va="bottom", fontsize=8.5, color="#555555")
                continue
            colour, _, _, hatch = style(name)
            axis.bar(at, v, 0.75, color=colour, hatch=hatch, edgecolor="black", linewidth=0.6)
            axis.annotate(f"{v:,.0f}" if v >= 1000 else report.short(max(v, 0)), (at, max(v, 0)), xytext=(0, 2), textcoords="offset points", ha="center",
                          fontsize=8.5)
        axis.set_xticks(range(len(shown)))
        axis.set_xticklabels(shown.values(), rotation=40, ha="right", fontsize=9)
        axis.set_title(title, fontsize=10.5)
        axis.set(ylabel=unit, xlim=(-0.6, len(shown) - 0.4))
        axis.margins(y=0.12)
        grid(axis)
        axis.grid(False, axis="x")
    for axis, better in zip(axes, ("lower", "higher", "lower", "higher")):
        axis.set_xlabel(f"{better} is better", fontsize=9, style="italic")
    axes[2].set_xlabel(f"{axes[2].get_xlabel()}; 1 to 100,000 objects: scope_cost", fontsize=9, style="italic")
    return figure


SHORT = {"tslab": "temporal-slab", "tcmalloc": "gperftools", "google": "Google's"}
# APR, bumpalo and std::pmr cannot free a single object. The mallocs free each, which is quicker than their own arenas and heaps.
WAYS = {"tslab": "temporal-slab", "apr": "APR pool", "bumpalo": "bumpalo", "pmr": "std::pmr", "malloc": "malloc, free",
        "jemalloc": "jemalloc, free", "tcmalloc": "gperftools, free", "mimalloc": "mimalloc, free"}


def scope_figure(data, allocator):
    name = {"malloc": "glibc", "jemalloc": "jemalloc_free", "tcmalloc": "tcmalloc_free",
            "mimalloc": "mimalloc_free"}.get(allocator, allocator)
    values = [row.number("ns_per_object") for row in data.rows("scope_bench")
              if row["allocator"] == name and row["objects_per_scope"] == "100" and row["scopes_open"] == "1"]
    return statistics.median(values) if values else None


CHARTS = {chart.__name__: chart for chart in (
    latency_percentiles, latency_comparison, latency_cdf, rss_comparison, p99_vs_threads, scaling, rss_over_time, phases, fragmentation, slab_lifecycle,
    scope_cost, soak_distribution, time_by_size, summary)}


# ---- main ---------------------------------------------------------------------------------------


def draw(chart, data, out, kind):
    data.asked.clear()
    figure = CHARTS[chart](data)
    rows = max((legend.rows for legend in figure.legends), default=0)
    figure.tight_layout(rect=(0, 0.04 + 0.05 * rows if rows else 0.03, 1, 1))
    figure.text(0.995, 0.005, data.origin(), ha="right", va="bottom", fontsize=7, color="#555555")
    metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    figure.savefig(out / f"{chart}.{kind}", dpi=130, metadata=metadata, facecolor="white")
    plt.close(figure)


def named_files(paths):
    """{name: path} of the files on the command line, which have to be of one folder."""
    found = {}
    for path in paths:
        kind = figures.kind_of(path)
        if kind is None or kind in found or path.parent.resolve() != paths[0].parent.resolve():
            raise Refusal(f"{path}: " + ("its heading is of no file of the suite" if kind is None else
                                         f"{found[kind]} is a {kind}.csv too" if kind in found else f"not in the folder of {paths[0]}"))
        found[kind] = path
    return found


def main(arguments):
    parser = run.Parser("plot_bench.py", __doc__)
    parser.epilog = f"charts: {', '.join(CHARTS)}"
    parser.add_argument("charts", nargs="*", metavar="CHART|FILE.csv", help="only these (default: all)")
    parser.add_argument("--results", metavar="DIR", type=pathlib.Path, default=run.BENCHMARKS / "results",
                        help="where the CSV files are (default benchmarks/results)")
    parser.add_argument("--out", metavar="DIR", type=pathlib.Path, help="default docs/images, of files by name the folder images beside them")
    parser.add_argument("--format", choices=["png", "svg"], default="png", help="default png")
    options = parser.parse_args(arguments)
    files = [pathlib.Path(name) for name in options.charts if name.endswith(".csv")]
    charts = [name for name in options.charts if not name.endswith(".csv")]
    for name in charts:
        if name not in CHARTS:
            raise Refusal(f"unknown chart '{name}': one of {', '.join(CHARTS)}")
    results = files[0].parent if files else options.results
    if not results.is_dir():
        raise Refusal(f"--results: '{results}' is no folder")
    plt.rcParams.update({"font.size": 10, "axes.titlesize": 10.5, "figure.titlesize": 11, "hatch.linewidth": 0.6,
                         "svg.hashsalt": "temporal-slab"})
    out = options.out or (results / "images" if files else run.ROOT / "docs" / "images")
    data = Data(results, named_files(files))
    out.mkdir(parents=True, exist_ok=True)
    missing = drawn = 0
    for name in charts or CHARTS:
        try:
            draw(name, data, out, options.format)
            print(out / f"{name}.{options.format}")
            drawn += 1
        except NoData as reason:
            if charts or not files:  # of files by name a chart that needs others too is none
                run.say(f"plot_bench: {name}: left out: {reason}")
                missing += 1
    if not drawn and not missing:
        raise Refusal(f"no chart can be drawn of {', '.join(map(str, files))} alone")
    return 1 if missing else 0


if __name__ == "__main__":
    ending.run("plot_bench", main)
