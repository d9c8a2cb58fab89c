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
LOADS, WHOLE = ("peak_requests_per_s", "average_requests_per_s", "samples_per_s"), ("concurrent_requests", "batch")
TIMES = (2.0, 4.0)
CONFIDENCES = (0.5, 0.65, 0.8, 0.9, 0.95)
DISCOUNTS = (0.1, 0.2, 0.35, 0.5)
MOST_RIVALS = 2
PRICE = "price"
# Fields of a training run: name, label and unit.
OF_RUNS = (
    ("training_tokens", "run size", "tokens"),
    ("training_samples", "run size", "samples"),
    ("examples", "run size", "examples"),
    ("deadline_days", "deadline", "days"),
    ("deadline_hours", "deadline", "hours"),
    ("sequence_length", "sequence length", "tokens"),
)


@dataclass(frozen=True, slots=True)
class Knob:
    """A number of the request that can be varied; `patch` returns the change to the request for a value."""

    name: str
    label: str
    unit: str
    now: float
    steps: tuple[tuple[float, ...], ...]  # trial values in each direction, nearest to the current value first
    patch: Callable[[float], Part]
    closeness: float = 0.05

    def amount(self, value: float) -> str:
        """Returns a value as text with its unit."""
        return percent(value) if self.unit == "1" else f"{format_large_number(_told(value))} {self.unit}"

    def describe_change(self, value: float) -> str:
        """Returns the change of this parameter to `value` as text."""
        if self.name == PRICE:
            return f"{percent(1 - value, 1)} off the {self.label}"
        return f"{self.label} at {self.amount(value)} instead of {self.amount(self.now)}"


def knobs_of(request: RecommendRequest, question: Question, runners_up: list[tuple[str, str]]) -> Iterator[Knob]:
    """Yields the parameters of a request. `runners_up` are slug and name of the types that rank below the first."""
    body = request.model_dump(mode="json", exclude_unset=True)
    workload = body["workload"]
    if isinstance(question.workload, InferenceWorkload):
        yield from _of_traffic(workload.get("traffic", {}))
        yield from _of_limits(question.workload)
    else:
        yield from _of_run(workload)
    sure = question.constraints.confidence
    above = tuple(c for c in CONFIDENCES if c > sure)
    below = tuple(c for c in reversed(CONFIDENCES) if c < sure)
    yield Knob("confidence", "confidence", "1", sure, (below, above), _at("constraints", "confidence"), 0.02)
    already = body.get("economics", {}).get("discounts", {})
    for slug, name in runners_up[:MOST_RIVALS]:
        if slug not in already:
            label, paid = f"price of {name}", tuple(1 - d for d in DISCOUNTS)
            yield Knob(PRICE, label, "1", 1.0, (paid,), _discount(slug), 0.01)


def _of_traffic(traffic: Part) -> Iterator[Knob]:
    """Yields the load, and the mean prompt and answer lengths if each is given in one place."""
    users = traffic.get("users")
    counted = [(name, traffic[name]) for name in (*LOADS, *WHOLE) if traffic.get(name) is not None]
    if counted or users is not None:
        name, now = counted[0] if users is None else ("users", users["count"])
        unit = "requests/s" if name in LOADS else name.replace("_", " ")
        yield Knob("load", "load", unit, float(now), _around(float(now)), _load(traffic, float(now)))
    for name, label in (("input_tokens", "mean prompt length"), ("output_tokens", "mean answer length")):
        lengths = traffic.get(name)
        if lengths is not None and "classes" not in traffic and "trace" not in traffic:
            mean = float(_mean(lengths))
            if mean > 0:
                yield Knob(name, label, "tokens", mean, _around(mean), _lengths(name, lengths, mean))


def _of_limits(workload: InferenceWorkload) -> Iterator[Knob]:
    """Yields the latency limits, whether given or assumed."""
    slo = workload.slo
    for name, limit in (("ttft", slo.ttft_s), ("tpot", slo.tpot_s), ("e2e", slo.e2e_s)):
        if limit is not None and workload.serves_many:
            now = limit * 1e3
            patch = _at("workload", "slo", f"{name}_ms")
            yield Knob(f"{name}_ms", f"{name.upper()} limit", "ms", now, _around(now), patch)


def _of_run(workload: Part) -> Iterator[Knob]:
    """Yields the size, the deadline and the sequence length of a training run."""
    for name, label, unit in OF_RUNS:
        if workload.get(name) is not None:
            now, whole = float(workload[name]), name in ("sequence_length", "examples")
            yield Knob(name, label, unit, now, _around(now), _at("workload", name, whole=whole))


def _around(now: float) -> tuple[tuple[float, ...], ...]:
    """Returns trial values below and above the current value."""
    return tuple(now / t for t in TIMES), tuple(now * t for t in TIMES)


def _at(*path: str, whole: bool = False) -> Callable[[float], Part]:
    """Returns a function that patches the field at `path`."""

    def patch(value: float) -> Part:
        nested: Any = _told(value, whole=whole)
        for name in reversed(path):
            nested = {name: nested}
        return dict(nested)

    return patch


def _told(value: float, *, whole: bool = False) -> float | int:
    """Rounds a value to four significant digits, or to a whole number of at least 1."""
    return max(1, round(value)) if whole else float(f"{value:.4g}")


def _load(traffic: Part, now: float) -> Callable[[float], Part]:
    """Returns a function that scales all load fields in proportion."""

    def patch(value: float) -> Part:
        times = value / now
        scaled: Part = {name: _told(traffic[name] * times) for name in LOADS if traffic.get(name) is not None}
        scaled |= {name: _told(traffic[name] * times, whole=True) for name in WHOLE if traffic.get(name) is not None}
        if (users := traffic.get("users")) is not None:
            scaled["users"] = {"count": _told(users["count"] * times, whole=True)}
        return {"workload": {"traffic": scaled}}

    return patch


def _lengths(name: str, lengths: Any, mean: float) -> Callable[[float], Part]:
    """Returns a function that scales lengths in proportion and keeps the form in which they were given."""

    def patch(value: float) -> Part:
        times = value / mean
        scaled: Any
        if not isinstance(lengths, dict):
            scaled = _told(lengths * times)
        elif "values" in lengths:
            scaled = {"values": [_told(v * times, whole=True) for v in lengths["values"]]}
        else:
            whole = "min" in lengths
            scaled = {k: _told(v * times, whole=whole) for k, v in lengths.items() if v is not None}
        return {"workload": {"traffic": {name: scaled}}}

    return patch


def _mean(lengths: Any) -> float:
    """Returns the mean of lengths given as a number, a distribution, a range or weighted values."""
    if not isinstance(lengths, dict):
        return float(lengths)
    if "values" in lengths:
        weights: list[float] = lengths["weights"]
        return float(sum(v * w for v, w in zip(lengths["values"], weights, strict=True)) / sum(weights))
    return float((lengths["min"] + lengths["max"]) / 2) if "min" in lengths else float(lengths["mean"])


def _discount(slug: str) -> Callable[[float], Part]:
    """Returns a function that patches the discount of an accelerator type."""

    def patch(paid: float) -> Part:
        return {"economics": {"discounts": {slug: round(1 - paid, 4)}}}

    return patch
