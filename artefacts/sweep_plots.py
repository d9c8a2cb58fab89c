"""Plots of concurrency sweeps: published and predicted latencies, one row per series."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from app.sizing.evidence import Compared

LATENCIES = {"ttft_s": "time to first token, s", "tpot_s": "time per output token, s"}
LONG = 4  # fewest loads of a series that is shown
SHOWN = 9
Series = tuple[str, str, str, str, float, float, float]


def series_of(r: Compared) -> Series:
    """Everything that is constant over a sweep."""
    s = r.setting
    return s.engine, r.model, s.accelerator, s.format_class, s.devices, s.input_tokens, s.output_tokens


def select_series(rows: Sequence[Compared]) -> dict[Series, dict[str, dict[float, Compared]]]:
    """Series with enough loads, by latency and requests in flight.

    Each combination of engine, model and accelerator gives its longest series; engines alternate.
    """
    found: dict[Series, dict[str, dict[float, Compared]]] = defaultdict(lambda: defaultdict(dict))
    for r in sorted(rows, key=lambda r: r.measurement):
        if r.metric in LATENCIES and r.setting.load == "closed":
            found[series_of(r)][r.metric][r.setting.in_flight] = r
    long = [s for s, by in found.items() if min(len(by[metric]) for metric in LATENCIES) >= LONG]
    longest: dict[tuple[str, str, str], Series] = {}
    for s in sorted(long, key=lambda s: (-len(found[s]["ttft_s"]), s)):
        longest.setdefault(s[:3], s)
    by_engine: dict[str, list[Series]] = defaultdict(list)
    for s in longest.values():
        by_engine[s[0]].append(s)
    turns = sorted((place, engine, s) for engine, own in by_engine.items() for place, s in enumerate(own))
    return {s: found[s] for _, _, s in turns[:SHOWN]}


def sweep_figure(rows: Sequence[Compared]) -> Figure:
    """One row per series: both latencies over the requests in flight."""
    shown = select_series(rows)
    figure, axes = plt.subplots(len(shown), len(LATENCIES), figsize=(10, 2.3 * len(shown)), squeeze=False)
    for line, (series, by_metric) in zip(axes, shown.items(), strict=True):
        engine, model, accelerator, format_class, devices, prompt, output = series
        name = f"{model.split('/')[-1]}, {devices:g} x {accelerator}, {engine} {format_class}, {prompt:g}/{output:g}"
        for axis, (metric, label) in zip(line, LATENCIES.items(), strict=True):
            draw_latency(axis, by_metric[metric])
            axis.set_ylabel(label)
        line[0].set_title(name, loc="left", fontsize=8)
    axes[0][0].legend(frameon=False, fontsize=7)
    for axis in axes[-1]:
        axis.set_xlabel("requests in flight")
    return figure


def draw_latency(axis: Axes, of: Mapping[float, Compared]) -> None:
    loads = sorted(of)
    axis.fill_between(loads, [of[n].low for n in loads], [of[n].high for n in loads], alpha=0.12, linewidth=0)
    axis.loglog(loads, [of[n].held_out for n in loads], "--", linewidth=1, label="predicted, source unseen")
    axis.loglog(loads, [of[n].predicted for n in loads], "-", linewidth=1, label="predicted")
    axis.loglog(loads, [of[n].measured for n in loads], "o", color="black", markersize=3, label="published")
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter("{x:g}")
