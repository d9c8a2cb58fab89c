"""Schemas of GET /accuracy: errors of predictions against published results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from app.api.schemas.base import ResponseModel, round_value
from app.calibration.report import FAMILY_REASONS, Errors, Report, Slice, link_of
from app.sizing.evidence import Compared


class ErrorsShown(ResponseModel):
    """Errors of predictions against measurements."""

    median: float = Field(description="Median absolute relative error.")
    p90: float = Field(description="Its 90th percentile.")
    bias: float = Field(description="Median of predicted over measured; above 1 is predicted too high.")


class SliceShown(ResponseModel):
    """Errors of one metric in one slice of the measurements."""

    metric: str
    value: str
    rows: int
    sources: int
    unseen_source: ErrorsShown = Field(
        description="Errors if each source is predicted by a fit that excludes it; use these to judge accuracy."
    )
    in_sample: ErrorsShown
    coverage: float = Field(description="Share of unseen results inside their 80 % interval.")
    width: float = Field(description="Median ratio of the interval's upper to its lower end.")
    interval_score: float = Field(
        description="Logarithmic width plus ten times the distance of results outside the interval; lower is better."
    )
    kept: float = Field(description="Back-test: share of unseen results at least as good as the 80 % confidence plan.")


class WorstShown(ResponseModel):
    """One of the largest errors."""

    measurement: str
    source: str
    link: str | None = Field(description="URL of the source, if it is in a public repository.")
    model: str
    accelerator: str
    engine: str
    metric: str
    measured: float
    predicted: float = Field(description="Prediction of a fit that excludes the source.")
    unit: str


class CacheShown(ResponseModel):
    """Predicted sizes of KV caches against start-up logs."""

    logs: int
    median: float
    p90: float
    left_out: dict[str, int]


class ScaleUpsShown(ResponseModel):
    """Errors of predicted scaling for runs published at several sizes, in percentage points of efficiency. Each
    prediction excludes its source.
    """

    pairs: int
    median_points: float
    p90_points: float


class PeaksShown(ResponseModel):
    """Errors of predicted peak memory for one part of the published runs; each prediction excludes its source."""

    part: str = Field(description="Property that defines the slice.")
    value: str
    rows: int
    sources: int
    median: float = Field(description="Median absolute relative error.")
    p90: float
    bias: float = Field(description="Median of predicted over measured.")
    too_low: float = Field(description="Share predicted more than 10 % too low.")
    too_low_with_reserve: float = Field(description="The same including the memory that a recommended plan keeps free.")
    inside: float = Field(description="Share of results inside their 80 % interval.")
    width: float = Field(description="Median ratio of the interval's upper to its lower end.")


class RunsShown(ResponseModel):
    """Published runs estimated by /estimate with their own layouts."""

    asked: int
    misfits: int = Field(description="Number of runs predicted not to fit in memory.")
    by_source: dict[str, list[int]] = Field(description="Misfits and estimated runs for each source with misfits.")


class AccuracyResponse(ResponseModel):
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
    left_out: dict[str, int] = Field(
        description="Number of published serving results that were not compared, by reason."
    )
    training_left_out: dict[str, int] = Field(
        description="Number of published training results that were not compared, by reason."
    )
    reasons: dict[str, str] = Field(
        description="Accelerator families with large errors for unseen sources, with the reason."
    )
    excluded: dict[str, str] = Field(
        description="Results that are compared but excluded from the fit, with the reason."
    )


DEFINITIONS = {
    "throughput": "tokens/s of a whole deployment under load: generated tokens, or prompt and generated tokens, as in "
    "the source",
    "tpot": "seconds per token after the first, for a request in the middle of the run",
    "ttft": "seconds from sending a request to its first token, including queueing",
    "single_stream": "tokens/s of a single request without other load",
    "prefill": "prompt tokens/s of a single request without other load",
    "e2e": "seconds of a static batch from the first prompt token to the last generated token",
    "training": "tokens/s of one accelerator in training or fine-tuning, whole optimizer steps",
    "training_samples": "samples/s of one accelerator in training: images and the like",
    "training_memory": "peak memory of one accelerator in training, as in the source: reported by the allocator "
    "or by the driver",
}


def _errors_json(e: Errors) -> dict[str, Any]:
    return {"median": round_value(e.median, 4), "p90": round_value(e.p90, 4), "bias": round_value(e.bias, 4)}


def _slice_json(s: Slice) -> dict[str, Any]:
    return {
        "metric": s.metric,
        "value": s.value,
        "rows": s.rows,
        "sources": s.sources,
        "unseen_source": _errors_json(s.held_out),
        "in_sample": _errors_json(s.in_sample),
        "coverage": round_value(s.intervals.coverage, 4),
        "width": round_value(s.intervals.width, 4),
        "interval_score": round_value(s.intervals.score, 4),
        "kept": round_value(s.intervals.kept, 4),
    }


def _worst_json(c: Compared) -> dict[str, Any]:
    return {
        "measurement": c.measurement,
        "source": c.reference,
        "link": link_of(c.reference),
        "model": c.model,
        "accelerator": c.setting.accelerator,
        "engine": c.setting.engine,
        "metric": c.metric,
        "measured": round_value(c.measured),
        "predicted": round_value(c.held_out),
        "unit": c.unit,
    }


def accuracy_json(snapshot: str, report: Report, notes: Mapping[str, Any]) -> dict[str, Any]:
    """The accuracy report as JSON. `notes` lists what the calibration excluded, with reasons."""
    off = sorted(abs(log["predicted_bytes"] / log["measured_bytes"] - 1) for log in notes["kv_cache"])
    return {
        "snapshot": snapshot,
        "definitions": DEFINITIONS,
        "overall": [_slice_json(s) for s in report.overall],
        "by": {name: [_slice_json(s) for s in slices] for name, slices in report.by.items()},
        "worst": [_worst_json(c) for c in report.worst],
        "kv_cache": {
            "logs": len(off),
            "median": round_value(off[len(off) // 2], 4),
            "p90": round_value(off[int(0.9 * (len(off) - 1))], 4),
            "left_out": notes["kv_cache_left_out"],
        },
        "left_out": notes["left_out"],
        "scaling": notes["scaling"],
        "peaks": notes["peaks"],
        "runs": notes["runs"],
        "training_left_out": notes["training_left_out"],
        "reasons": dict(FAMILY_REASONS),
        "excluded": notes["excluded"],
    }
