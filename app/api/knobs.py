"""Parameters of a request that the sensitivity analysis varies: current value, trial values and patch of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from app.api.schemas.requests import RecommendRequest
from app.sizing.question import Question
from app.sizing.words import format_large_number, percent
from app.sizing.workload import InferenceWorkload

Part = dict[str, Any]
# Fields of traffic that state a load: rates, and counts of whole things.
LOAD_RATES, LOAD_COUNTS = (
    ("peak_requests_per_s", "average_requests_per_s", "samples_per_s"),
    ("concurrent_requests", "batch"),
)
TRIAL_FACTORS = (2.0, 4.0)
CONFIDENCES = (0.5, 0.65, 0.8, 0.9, 0.95)
DISCOUNTS = (0.1, 0.2, 0.35, 0.5)
MAX_RUNNERS_UP = 2
PRICE = "price"
# Fields of a training run: name, label and unit.
RUN_FIELDS = (
    ("training_tokens", "run size", "tokens"),
    ("training_samples", "run size", "samples"),
    ("examples", "run size", "examples"),
    ("deadline_days", "deadline", "days"),
    ("deadline_hours", "deadline", "hours"),
    ("sequence_length", "sequence length", "tokens"),
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of the request that can be varied; `patch` returns the change to the request for a value."""

    name: str
    label: str
    unit: str
    now: float
    steps: tuple[tuple[float, ...], ...]  # trial values in each direction, nearest to the current value first
    patch: Callable[[float], Part]
    tolerance: float = 0.05

    def format_value(self, value: float) -> str:
        """Returns a value as text with its unit."""
        return percent(value) if self.unit == "1" else f"{format_large_number(_round_value(value))} {self.unit}"

    def describe_change(self, value: float) -> str:
        """Returns the change of this parameter to `value` as text."""
        if self.name == PRICE:
            return f"{percent(1 - value, 1)} off the {self.label}"
        return f"{self.label} at {self.format_value(value)} instead of {self.format_value(self.now)}"


def tunable_parameters(
    request: RecommendRequest, question: Question, runners_up: list[tuple[str, str]]
) -> Iterator[Parameter]:
    """Yields the parameters of a request. `runners_up` are slug and name of the types that rank below the first."""
    body = request.model_dump(mode="json", exclude_unset=True)
    workload = body["workload"]
    if isinstance(question.workload, InferenceWorkload):
        yield from _traffic_parameters(workload.get("traffic", {}))
        yield from _latency_parameters(question.workload)
    else:
        yield from _run_parameters(workload)
    sure = question.constraints.confidence
    above = tuple(c for c in CONFIDENCES if c > sure)
    below = tuple(c for c in reversed(CONFIDENCES) if c < sure)
    yield Parameter("confidence", "confidence", "1", sure, (below, above), _patch_at("constraints", "confidence"), 0.02)
    already = body.get("economics", {}).get("discounts", {})
    for slug, name in runners_up[:MAX_RUNNERS_UP]:
        if slug not in already:
            label, paid = f"price of {name}", tuple(1 - d for d in DISCOUNTS)
            yield Parameter(PRICE, label, "1", 1.0, (paid,), _discount_patch(slug), 0.01)


def _traffic_parameters(traffic: Part) -> Iterator[Parameter]:
    """Yields the load, and the mean prompt and answer lengths if each is given in one place."""
    users = traffic.get("users")
    counted = [(name, traffic[name]) for name in (*LOAD_RATES, *LOAD_COUNTS) if traffic.get(name) is not None]
    if counted or users is not None:
        name, now = counted[0] if users is None else ("users", users["count"])
        unit = "requests/s" if name in LOAD_RATES else name.replace("_", " ")
        yield Parameter("load", "load", unit, float(now), _trial_values(float(now)), _load_patch(traffic, float(now)))
    for name, label in (("input_tokens", "mean prompt length"), ("output_tokens", "mean answer length")):
        lengths = traffic.get(name)
        if lengths is not None and "classes" not in traffic and "trace" not in traffic:
            mean = float(_mean_length(lengths))
            if mean > 0:
                yield Parameter(name, label, "tokens", mean, _trial_values(mean), _lengths_patch(name, lengths, mean))


def _latency_parameters(workload: InferenceWorkload) -> Iterator[Parameter]:
    """Yields the latency limits, whether given or assumed."""
    slo = workload.slo
    for name, limit in (("ttft", slo.ttft_s), ("tpot", slo.tpot_s), ("e2e", slo.e2e_s)):
        if limit is not None and workload.serves_many:
            now = limit * 1e3
            patch = _patch_at("workload", "slo", f"{name}_ms")
            yield Parameter(f"{name}_ms", f"{name.upper()} limit", "ms", now, _trial_values(now), patch)


def _run_parameters(workload: Part) -> Iterator[Parameter]:
    """Yields the size, the deadline and the sequence length of a training run."""
    for name, label, unit in RUN_FIELDS:
        if workload.get(name) is not None:
            now, whole = float(workload[name]), name in ("sequence_length", "examples")
            yield Parameter(name, label, unit, now, _trial_values(now), _patch_at("workload", name, whole=whole))


def _trial_values(now: float) -> tuple[tuple[float, ...], ...]:
    """Returns trial values below and above the current value."""
    return tuple(now / t for t in TRIAL_FACTORS), tuple(now * t for t in TRIAL_FACTORS)


def _patch_at(*path: str, whole: bool = False) -> Callable[[float], Part]:
    """Returns a function that patches the field at `path`."""

    def patch(value: float) -> Part:
        nested: Any = _round_value(value, whole=whole)
        for name in reversed(path):
            nested = {name: nested}
        return dict(nested)

    return patch


def _round_value(value: float, *, whole: bool = False) -> float | int:
    """Rounds a value to four significant digits, or to a whole number of at least 1."""
    return max(1, round(value)) if whole else float(f"{value:.4g}")


def _load_patch(traffic: Part, now: float) -> Callable[[float], Part]:
    """Returns a function that scales all load fields in proportion."""

    def patch(value: float) -> Part:
        times = value / now
        scaled: Part = {
            name: _round_value(traffic[name] * times) for name in LOAD_RATES if traffic.get(name) is not None
        }
        scaled |= {
            name: _round_value(traffic[name] * times, whole=True)
            for name in LOAD_COUNTS
            if traffic.get(name) is not None
        }
        if (users := traffic.get("users")) is not None:
            scaled["users"] = {"count": _round_value(users["count"] * times, whole=True)}
        return {"workload": {"traffic": scaled}}

    return patch


def _lengths_patch(name: str, lengths: Any, mean: float) -> Callable[[float], Part]:
    """Returns a function that scales lengths in proportion and keeps the form in which they were given."""

    def patch(value: float) -> Part:
        times = value / mean
        scaled: Any
        if not isinstance(lengths, dict):
            scaled = _round_value(lengths * times)
        elif "values" in lengths:
            scaled = {"values": [_round_value(v * times, whole=True) for v in lengths["values"]]}
        else:
            whole = "min" in lengths
            scaled = {k: _round_value(v * times, whole=whole) for k, v in lengths.items() if v is not None}
        return {"workload": {"traffic": {name: scaled}}}

    return patch


def _mean_length(lengths: Any) -> float:
    """Returns the mean of lengths given as a number, a distribution, a range or weighted values."""
    if not isinstance(lengths, dict):
        return float(lengths)
    if "values" in lengths:
        weights: list[float] = lengths["weights"]
        return float(sum(v * w for v, w in zip(lengths["values"], weights, strict=True)) / sum(weights))
    return float((lengths["min"] + lengths["max"]) / 2) if "min" in lengths else float(lengths["mean"])


def _discount_patch(slug: str) -> Callable[[float], Part]:
    """Returns a function that patches the discount of an accelerator type."""

    def patch(paid: float) -> Part:
        return {"economics": {"discounts": {slug: round(1 - paid, 4)}}}

    return patch
