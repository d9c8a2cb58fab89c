"""What of a request can be moved to see when the answer turns: each a number, where it stands, how far it is moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from app.api.schemas.requests import RecommendRequest
from app.sizing.question import Question
from app.sizing.words import large
from app.sizing.workload import InferenceWorkload

Part = dict[str, Any]
# Fields of traffic that are a load, those that count whole things among them.
LOADS, WHOLE = ("peak_requests_per_s", "average_requests_per_s", "samples_per_s"), ("concurrent_requests", "batch")
TIMES = (2.0, 4.0)
CONFIDENCES = (0.5, 0.65, 0.8, 0.9, 0.95)
DISCOUNTS = (0.1, 0.2, 0.35, 0.5)
MOST_RIVALS = 2
PRICE = "price"
# Of runs: fields that say one thing, what it is called, and its unit.
OF_RUNS = (
    ("training_tokens", "the size of the run", "tokens"),
    ("training_samples", "the size of the run", "samples"),
    ("examples", "the size of the run", "examples"),
    ("deadline_days", "the deadline", "days"),
    ("deadline_hours", "the deadline", "hours"),
    ("sequence_length", "the length of sequences", "tokens"),
)


@dataclass(frozen=True, slots=True)
class Knob:
    """A number that may be moved: `patch` is what changes of the request at a value of it."""

    name: str
    label: str
    unit: str
    now: float
    steps: tuple[tuple[float, ...], ...]  # values to try, away from now, in each direction
    patch: Callable[[float], Part]
    closeness: float = 0.05

    def amount(self, value: float) -> str:
        """A value in words."""
        return f"{value:.0%}" if self.unit == "1" else f"{large(_told(value))} {self.unit}"

    def words(self, value: float) -> str:
        """What is moved, to which value."""
        if self.name == PRICE:
            return f"{1 - value:.1%} off {self.label}"
        return f"{self.label} at {self.amount(value)} instead of {self.amount(self.now)}"


def knobs_of(request: RecommendRequest, question: Question, rivals: list[tuple[str, str]]) -> Iterator[Knob]:
    """Of a request; `rivals` are the types ranked behind the first, each with its name."""
    said = request.model_dump(mode="json", exclude_unset=True)
    workload = said["workload"]
    if isinstance(question.workload, InferenceWorkload):
        yield from _of_traffic(workload.get("traffic", {}))
        yield from _of_limits(question.workload)
    else:
        yield from _of_run(workload)
    sure = question.constraints.confidence
    above = tuple(c for c in CONFIDENCES if c > sure)
    below = tuple(c for c in reversed(CONFIDENCES) if c < sure)
    yield Knob("confidence", "the confidence", "1", sure, (below, above), _at("constraints", "confidence"), 0.02)
    already = said.get("economics", {}).get("discounts", {})
    for slug, name in rivals[:MOST_RIVALS]:
        if slug not in already:
            label, paid = f"the price of {name}", tuple(1 - d for d in DISCOUNTS)
            yield Knob(PRICE, label, "1", 1.0, (paid,), _discount(slug), 0.01)


def _of_traffic(traffic: Part) -> Iterator[Knob]:
    """Load and lengths, where they are said in one place."""
    users = traffic.get("users")
    counted = [(name, traffic[name]) for name in (*LOADS, *WHOLE) if traffic.get(name) is not None]
    if counted or users is not None:
        name, now = counted[0] if users is None else ("users", users["count"])
        unit = "requests/s" if name in LOADS else name.replace("_", " ")
        yield Knob("load", "the load", unit, float(now), _around(float(now)), _load(traffic, float(now)))
    for name, label in (("input_tokens", "prompts"), ("output_tokens", "answers")):
        lengths = traffic.get(name)
        if lengths is not None and "classes" not in traffic and "trace" not in traffic:
            mean = float(_mean(lengths))
            if mean > 0:
                yield Knob(
                    name, f"the mean length of {label}", "tokens", mean, _around(mean), _lengths(name, lengths, mean)
                )


def _of_limits(workload: InferenceWorkload) -> Iterator[Knob]:
    """Limits of latency, said or assumed."""
    slo = workload.slo
    for name, limit in (("ttft", slo.ttft_s), ("tpot", slo.tpot_s), ("e2e", slo.e2e_s)):
        if limit is not None and workload.serves_many:
            now = limit * 1e3
            patch = _at("workload", "slo", f"{name}_ms")
            yield Knob(f"{name}_ms", f"the limit of {name.upper()}", "ms", now, _around(now), patch)


def _of_run(workload: Part) -> Iterator[Knob]:
    """The size of a run, its deadline, its sequences."""
    for name, label, unit in OF_RUNS:
        if workload.get(name) is not None:
            now, whole = float(workload[name]), name in ("sequence_length", "examples")
            yield Knob(name, label, unit, now, _around(now), _at("workload", name, whole=whole))


def _around(now: float) -> tuple[tuple[float, ...], ...]:
    """Values to try, down and up."""
    return tuple(now / t for t in TIMES), tuple(now * t for t in TIMES)


def _at(*path: str, whole: bool = False) -> Callable[[float], Part]:
    """A patch of one field."""

    def patch(value: float) -> Part:
        said: Any = _told(value, whole=whole)
        for name in reversed(path):
            said = {name: said}
        return dict(said)

    return patch


def _told(value: float, *, whole: bool = False) -> float | int:
    """A value with as many digits as are asked for and told."""
    return max(1, round(value)) if whole else float(f"{value:.4g}")


def _load(traffic: Part, now: float) -> Callable[[float], Part]:
    """All that a load is said by, in proportion."""

    def patch(value: float) -> Part:
        times = value / now
        said: Part = {name: _told(traffic[name] * times) for name in LOADS if traffic.get(name) is not None}
        said |= {name: _told(traffic[name] * times, whole=True) for name in WHOLE if traffic.get(name) is not None}
        if (users := traffic.get("users")) is not None:
            said["users"] = {"count": _told(users["count"] * times, whole=True)}
        return {"workload": {"traffic": said}}

    return patch


def _lengths(name: str, lengths: Any, mean: float) -> Callable[[float], Part]:
    """Lengths in proportion, said as they were."""

    def patch(value: float) -> Part:
        times = value / mean
        said: Any
        if not isinstance(lengths, dict):
            said = _told(lengths * times)
        elif "values" in lengths:
            said = {"values": [_told(v * times, whole=True) for v in lengths["values"]]}
        else:
            whole = "min" in lengths
            said = {k: _told(v * times, whole=whole) for k, v in lengths.items() if v is not None}
        return {"workload": {"traffic": {name: said}}}

    return patch


def _mean(lengths: Any) -> float:
    """Of lengths in any of the ways they are said."""
    if not isinstance(lengths, dict):
        return float(lengths)
    if "values" in lengths:
        weights: list[float] = lengths["weights"]
        return float(sum(v * w for v, w in zip(lengths["values"], weights, strict=True)) / sum(weights))
    return float((lengths["min"] + lengths["max"]) / 2) if "min" in lengths else float(lengths["mean"])


def _discount(slug: str) -> Callable[[float], Part]:
    """A share off the price of a type."""

    def patch(paid: float) -> Part:
        return {"economics": {"discounts": {slug: round(1 - paid, 4)}}}

    return patch
