"""The plots of docs/accuracy.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from app.catalog.queries import calibration_notes
from app.sizing.accuracy import COVERAGE_TARGET, MAX_MEDIAN_ERROR, MIN_INTERVAL_ROWS, MIN_ROWS, QUANTITIES, report_on
from app.sizing.columns import GIB
from app.sizing.evidence import Compared
from artefacts.sweep_plots import sweep_figure

DOCS = Path(__file__).parents[1] / "docs"
NAMES = {
    "throughput": "Throughput",
    "tpot": "Time per output token",
    "ttft": "Time to first token",
    "single_stream": "One stream",
    "prefill": "Prompt rate of one stream",
    "e2e": "Static batch, end to end",
    "ttft_p95": "Time to first token, p95",
    "ttft_p99": "Time to first token, p99",
    "tpot_p95": "Time per output token, p95",
    "tpot_p99": "Time per output token, p99",
    "training": "Training, tokens",
    "training_samples": "Training, samples",
    "training_memory": "Training, peak memory",
}
AXES = {
    **dict.fromkeys(("tpot", "ttft", "e2e", "ttft_p95", "ttft_p99", "tpot_p95", "tpot_p99"), "s"),
    "training_samples": "samples/s",
    "training_memory": "bytes",
}

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "headroom",
    "svg.fonttype": "none",
    "savefig.dpi": 110,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
FAMILY_KINDS = ("throughput", "tpot", "single_stream", "training", "training_memory")


def write_plots(rows: Sequence[Compared]) -> None:
    """Writes the figures of the page to docs/accuracy."""
    mpl.rcParams.update(STYLE)
    (DOCS / "accuracy").mkdir(exist_ok=True)
    save_figure(measured_figure(rows), "predicted-over-measured")
    save_figure(family_figure(rows), "by-family")
    save_figure(interval_figure(rows), "intervals")
    save_figure(cache_figure(), "kv-cache")
    save_figure(sweep_figure(rows), "concurrency")


def save_figure(figure: Figure, name: str) -> None:
    figure.tight_layout()
    figure.savefig(DOCS / "accuracy" / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def measured_figure(rows: Sequence[Compared]) -> Figure:
    """Predictions without their source over measurements, one panel per quantity."""
    by_kind = {kind: [r for r in rows if r.kind == kind and not r.excluded] for kind in QUANTITIES}
    shown = {kind: of_kind for kind, of_kind in by_kind.items() if of_kind}
    figure, axes = plt.subplots(-(-len(shown) // 3), 3, figsize=(11, 3.5 * -(-len(shown) // 3)))
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(False)
    for axis, (kind, of_kind) in zip(axes.flat, shown.items(), strict=False):
        measured, held_out = np.array([r.measured for r in of_kind]), np.array([r.held_out for r in of_kind])
        axis.loglog(measured, held_out, ".", markersize=3, alpha=0.35, rasterized=True)
        ends = np.array([min(measured.min(), held_out.min()), max(measured.max(), held_out.max())])
        axis.loglog(ends, ends, color="black", linewidth=0.8)
        axis.fill_between(ends, ends / 1.5, ends * 1.5, color="grey", alpha=0.15, linewidth=0)
        axis.set_title(f"{NAMES[kind]}, {AXES.get(kind, 'tokens/s')}")
        axis.set_xlabel("measured")
        axis.set_ylabel("predicted, source unseen")
    return figure


def family_figure(rows: Sequence[Compared]) -> Figure:
    """Median errors by accelerator family, for unseen sources and in sample."""
    families = [s for s in report_on(rows).by["accelerator_family"] if s.rows >= MIN_ROWS and s.metric in FAMILY_KINDS]
    figure, axis = plt.subplots(figsize=(9, 0.28 * len(families) + 1))
    places = np.arange(len(families))
    axis.barh(places - 0.2, [min(s.held_out.median, 1.5) for s in families], 0.4, label="source unseen")
    axis.barh(places + 0.2, [min(s.in_sample.median, 1.5) for s in families], 0.4, label="in sample")
    axis.axvline(MAX_MEDIAN_ERROR, color="black", linewidth=0.8, linestyle=":")
    axis.set_yticks(places, [f"{NAMES[s.metric]}, {s.value} ({s.rows})" for s in families])
    axis.invert_yaxis()
    axis.set_xlabel("median absolute relative error (cut at 1.5)")
    axis.legend(frameon=False)
    return figure


def interval_figure(rows: Sequence[Compared]) -> Figure:
    """Share of unseen results inside the intervals of a family, over the width of the intervals."""
    families = [s for s in report_on(rows).by["accelerator_family"] if s.rows >= MIN_INTERVAL_ROWS]
    figure, axis = plt.subplots(figsize=(9, 5))
    for kind in QUANTITIES:
        held = [s.intervals for s in families if s.metric == kind]
        axis.semilogx([h.width for h in held], [h.coverage for h in held], "o", alpha=0.7, label=NAMES[kind])
    for s in families:
        axis.annotate(s.value, (s.intervals.width, s.intervals.coverage), fontsize=6)
    axis.axhspan(*COVERAGE_TARGET, color="grey", alpha=0.15, linewidth=0)
    axis.set_xlabel("high over low, median")
    axis.set_ylabel("share inside, source unseen")
    axis.legend(frameon=False, fontsize=7)
    return figure


def cache_figure() -> Figure:
    """Predicted over logged cache sizes."""
    logs = calibration_notes()["kv_cache"]
    figure, axis = plt.subplots(figsize=(5, 4.5))
    measured = np.array([log["measured_bytes"] for log in logs]) / GIB
    predicted = np.array([log["predicted_bytes"] for log in logs]) / GIB
    axis.loglog(measured, predicted, "o", markersize=4, alpha=0.5)
    axis.loglog([1, 150], [1, 150], color="black", linewidth=0.8)
    axis.set_xlabel("cache in the start-up log, GiB per device")
    axis.set_ylabel("predicted, GiB per device")
    return figure
