"""The answer of GET /accuracy: how far predictions are from published results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from app.api.schemas.base import Shown, rounded
from app.calibration.report import FAMILY_REASONS, Errors, Report, Slice, link_of
from app.sizing.evidence import Compared


class ErrorsShown(Shown):
    """Errors of predictions against measurements."""

    median: float = Field(description="Median absolute relative error.")
    p90: float = Field(description="Its 90th percentile.")
    bias: float = Field(description="Median of predicted over measured; above 1 is predicted too high.")


class SliceShown(Shown):
    """Errors of one metric in one slice of the measurements."""

    metric: str
    value: str
    rows: int
    sources: int
    unseen_source: ErrorsShown = Field(
        description="Each source predicted by a fit that never saw it: the honest figure."
    )
    in_sample: ErrorsShown
    coverage: float = Field(description="Share of unseen results inside their 80 % interval.")
    width: float = Field(description="High over low of those intervals, in the median.")
    interval_score: float = Field(
        description="Width in logarithms, and ten times by how far results are outside: less is better."
    )
    kept: float = Field(description="Back-test: share of unseen results as good as what was planned for at 80 %.")


class WorstShown(Shown):
    """One of the largest errors."""

    measurement: str
    source: str
    link: str | None = Field(description="Where the source can be read, if it is in a public repository.")
    model: str
    accelerator: str
    engine: str
    metric: str
    measured: float
    predicted: float = Field(description="By a fit that never saw the source.")
    unit: str


class CacheShown(Shown):
    """Predicted sizes of KV caches against start-up logs."""

    logs: int
    median: float
    p90: float
    left_out: dict[str, int]


class ScaleUpsShown(Shown):
    """Runs published at several sizes: percentage points of efficiency that predictions without their source are off.\
"""

    pairs: int
    median_points: float
    p90_points: float


class PeaksShown(Shown):
    """Peaks of memory of one part of the published runs, each predicted without its source."""

    part: str = Field(description="What the runs are told apart by.")
    value: str
    rows: int
    sources: int
    median: float = Field(description="Median absolute relative error.")
    p90: float
    bias: float = Field(description="Median of predicted over measured.")
    too_low: float = Field(description="Share predicted more than a tenth too low.")
    too_low_with_reserve: float = Field(description="The same with what a recommended plan keeps free.")
    inside: float = Field(description="Share inside their 80 % interval.")
    width: float = Field(description="High over low of those intervals, in the median.")


class RunsShown(Shown):
    """Published runs asked as /estimate is, with their own layouts."""

    asked: int
    misfits: int = Field(description="Those answered not to fit in memory.")
    by_source: dict[str, list[int]] = Field(description="Misfits and runs asked, of each source that has any.")


class AccuracyResponse(Shown):
    """Errors overall and by slice."""

    snapshot: str
    definitions: dict[str, str]
    overall: list[SliceShown]
    by: dict[str, list[SliceShown]]
    worst: list[WorstShown]
    kv_cache: CacheShown
    scaling: ScaleUpsShown
    peaks: list[PeaksShown]
    runs: RunsShown
    left_out: dict[str, int] = Field(description="Published rows of serving that were not compared, by reason.")
    training_left_out: dict[str, int] = Field(
        description="Published rows of training that were not compared, by reason."
    )
    reasons: dict[str, str] = Field(
        description="Accelerator families that are far off for an unseen source, with the reason."
    )
    set_aside: dict[str, str] = Field(description="Rows compared and not fitted, with the reason.")


DEFINITIONS = {
    "throughput": "tokens/s of a whole deployment under load: generated, or prompt and generated, as the source counts",
    "tpot": "seconds per token after the first, of a request in the middle of the run",
    "ttft": "seconds from sending a request to its first token, queueing included",
    "single_stream": "tokens/s of one request alone",
    "prefill": "prompt tokens/s of one request alone",
    "e2e": "seconds of a static batch, first prompt token to last generated token",
    "training": "tokens/s of one accelerator in training or fine-tuning, whole optimizer steps",
    "training_samples": "samples/s of one accelerator in training: images and the like",
    "training_memory": "peak memory of one accelerator in training, counted as the source counts it: by the allocator "
    "or by the driver",
}


def _errors(e: Errors) -> dict[str, Any]:
    return {"median": rounded(e.median, 4), "p90": rounded(e.p90, 4), "bias": rounded(e.bias, 4)}


def _slice(s: Slice) -> dict[str, Any]:
    return {
        "metric": s.metric,
        "value": s.value,
        "rows": s.rows,
        "sources": s.sources,
        "unseen_source": _errors(s.held_out),
        "in_sample": _errors(s.in_sample),
        "coverage": rounded(s.intervals.coverage, 4),
        "width": rounded(s.intervals.width, 4),
        "interval_score": rounded(s.intervals.score, 4),
        "kept": rounded(s.intervals.kept, 4),
    }


def _worst(c: Compared) -> dict[str, Any]:
    return {
        "measurement": c.measurement,
        "source": c.reference,
        "link": link_of(c.reference),
        "model": c.model,
        "accelerator": c.setting.accelerator,
        "engine": c.setting.engine,
        "metric": c.metric,
        "measured": rounded(c.measured),
        "predicted": rounded(c.held_out),
        "unit": c.unit,
    }


def accuracy_json(snapshot: str, report: Report, notes: Mapping[str, Any]) -> dict[str, Any]:
    """The report as it is sent; `notes` is the calibration's own account of what it left out."""
    off = sorted(abs(log["predicted_bytes"] / log["measured_bytes"] - 1) for log in notes["kv_cache"])
    return {
        "snapshot": snapshot,
        "definitions": DEFINITIONS,
        "overall": [_slice(s) for s in report.overall],
        "by": {name: [_slice(s) for s in slices] for name, slices in report.by.items()},
        "worst": [_worst(c) for c in report.worst],
        "kv_cache": {
            "logs": len(off),
            "median": rounded(off[len(off) // 2], 4),
            "p90": rounded(off[int(0.9 * (len(off) - 1))], 4),
            "left_out": notes["kv_cache_left_out"],
        },
        "left_out": notes["left_out"],
        "scaling": notes["scaling"],
        "peaks": notes["peaks"],
        "runs": notes["runs"],
        "training_left_out": notes["training_left_out"],
        "reasons": dict(FAMILY_REASONS),
        "set_aside": notes["set_aside"],
    }
