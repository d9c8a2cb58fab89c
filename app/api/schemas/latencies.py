"""Schemas of latencies: percentiles, the simulation that gives them, and the load curve."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.schemas.base import ResponseModel, round_value, with_examples
from app.sizing.values.latencies import LoadCurve, LoadPoint, Percentiles, Simulation

POINT_DIGITS = 4
WAITS = {"mean": 21.4, "p50": 18.2, "p95": 44.9, "p99": 71.3}
POINT = {
    "requests_per_s": 12.4,
    "ttft_ms": {"p50": 212, "p95": 640.2},
    "tpot_ms": {"p50": 24.1, "p95": 31.7},
    "output_tokens_per_s": 3174,
    "goodput_share": 0.998,
}
SIMULATED = {
    "requests": 10_000,
    "seed": 1,
    "arrivals": "poisson",
    "policy": "mixed",
    "inter_token_ms": WAITS,
    "queue_ms": WAITS,
    "mean_batch": 31.8,
    "cache_occupancy": 0.42,
    "preemptions_per_request": 0,
    "goodput_requests_per_s": 12.38,
    "goodput_share": 0.998,
}


class PercentilesShown(ResponseModel):
    """Latencies in milliseconds; null if the queue never empties."""

    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class SimulationShown(ResponseModel):
    """Simulation of one replica's scheduler at the peak load."""

    model_config = with_examples(SIMULATED)

    requests: int = Field(description="Simulated requests at each load of the curve.")
    seed: int
    arrivals: str = Field(
        description="Arrival process: poisson, bursty, closed (fixed concurrency), burst (a finite run that starts at "
        "once) or trace."
    )
    policy: str = Field(description="How prefill and decode share steps: mixed, prefill_first or static.")
    inter_token_ms: PercentilesShown = Field(description="Time between two consecutive tokens.")
    queue_ms: PercentilesShown = Field(description="Time in the queue until prefill starts.")
    mean_batch: float = Field(description="Mean number of sequences that run concurrently on a replica.")
    cache_occupancy: float = Field(description="Mean share of the KV cache in use.")
    preemptions_per_request: float
    goodput_requests_per_s: float = Field(
        description="Requests per second of the whole deployment that meet every limit."
    )
    goodput_share: float = Field(description="Share of requests that meet every limit.")


class MedianShown(ResponseModel):
    """Median and 95th percentile, in milliseconds."""

    model_config = with_examples({"p50": 212, "p95": 640.2})

    p50: float
    p95: float


class LoadPointShown(ResponseModel):
    """Behavior of the whole deployment at one load."""

    model_config = with_examples(POINT)

    requests_per_s: float
    in_flight: float | None = Field(None, description="Requests in flight, for fixed concurrency.")
    ttft_ms: MedianShown
    tpot_ms: MedianShown
    output_tokens_per_s: float
    goodput_share: float


class LoadCurveShown(ResponseModel):
    """Behavior of this deployment from light load to overload."""

    model_config = with_examples({"points": [POINT], "knee_requests_per_s": 14.2})

    points: list[LoadPointShown]
    knee_requests_per_s: float = Field(description="Load above which p95 latency grows faster than throughput.")


def percentiles_json(p: Percentiles) -> dict[str, Any]:
    values = {"mean": p.mean_s, "p50": p.p50_s, "p95": p.p95_s, "p99": p.p99_s}
    return {k: None if v is None else round_value(v * 1e3) for k, v in values.items()}


def simulation_json(s: Simulation) -> dict[str, Any]:
    return {
        "requests": s.requests,
        "seed": s.seed,
        "arrivals": s.arrivals,
        "policy": s.policy,
        "inter_token_ms": percentiles_json(s.inter_token),
        "queue_ms": percentiles_json(s.queue),
        "mean_batch": round_value(s.mean_batch),
        "cache_occupancy": round_value(s.cache_occupancy),
        "preemptions_per_request": round_value(s.preemptions_per_request),
        "goodput_requests_per_s": round_value(s.goodput_per_s),
        "goodput_share": round_value(s.goodput_share),
    }


def point_json(p: LoadPoint) -> dict[str, Any]:
    """A point of the load curve as JSON, rounded to four significant digits."""

    def to_shown(value: float) -> Any:
        return round_value(value, POINT_DIGITS)

    return {
        "requests_per_s": to_shown(p.requests_per_s),
        **({} if p.in_flight is None else {"in_flight": to_shown(p.in_flight)}),
        "ttft_ms": {"p50": to_shown(p.ttft_p50_s * 1e3), "p95": to_shown(p.ttft_p95_s * 1e3)},
        "tpot_ms": {"p50": to_shown(p.tpot_p50_s * 1e3), "p95": to_shown(p.tpot_p95_s * 1e3)},
        "output_tokens_per_s": to_shown(p.output_tokens_per_s),
        "goodput_share": to_shown(p.goodput_share),
    }


def load_curve_json(c: LoadCurve) -> dict[str, Any]:
    return {"points": [point_json(p) for p in c.points], "knee_requests_per_s": round_value(c.knee_per_s)}
