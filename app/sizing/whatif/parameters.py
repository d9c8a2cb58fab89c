"""Changes that a request leaves open: numbers that can be varied, sets of formats, and patterns that save cost.

Each is a merge patch of the request (RFC 7396), so that a caller can send it and get the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.question import CONFIDENCE_GRID, MEDIAN_CONFIDENCE, Question
from app.sizing.serving.draft_heads import DraftHead, published_draft
from app.sizing.serving.load_curves import is_simulated
from app.sizing.whatif.change import Stage
from app.sizing.words import format_large_number, format_name, percent
from app.sizing.workload import InferenceWorkload, Load

Part = dict[str, Any]
Body = Mapping[str, Any]
# Fields of traffic that state a load: rates, and counts of whole things.
LOAD_RATES, LOAD_COUNTS = (
    ("peak_requests_per_s", "average_requests_per_s", "samples_per_s"),
    ("concurrent_requests", "batch"),
)
TRIAL_FACTORS = (2.0, 4.0)
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
FEW_BITS = ("int4-awq", "int4-gptq", "nvfp4", "mxfp4")
# Sets of weight formats that are tried for a service.
FORMATS = (("bf16", "fp16"), ("fp8",), FEW_BITS)
CACHED_SHARE, DEFERRED_SHARE = 0.5, 0.25  # shares of a prompt, and of the peak, that patterns assume
ACCURACY = "an accuracy check on your own tasks"
RESTARTS = {
    True: "spare replicas and request retries, because replicas can be reclaimed at any time",
    False: "a restart policy with checkpoints, and spare days before the deadline",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of the request that can be varied; `patch` returns the change of the request for a value."""

    name: str
    label: str
    unit: str
    now: float
    steps: tuple[tuple[float, ...], ...]  # trial values in each direction, nearest to the current value first
    patch: Callable[[float], Part]
    tolerance: float = 0.05  # relative distance to which a threshold is narrowed
    stage: Stage = Stage.SEARCH

    def format_value(self, value: float) -> str:
        """A value as text with its unit."""
        return percent(value) if self.unit == "1" else f"{format_large_number(_round_value(value))} {self.unit}"

    def describe_change(self, value: float) -> str:
        """The change of this parameter to `value` as text."""
        if self.name == PRICE:
            return f"{percent(1 - value, 1)} off the {self.label}"
        return f"{self.label} at {self.format_value(value)} instead of {self.format_value(self.now)}"

    def patch_to(self, value: float) -> Part:
        """The patch for a value; empty for the current value."""
        return {} if value == self.now else self.patch(value)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A change of the request that may lower cost, and its trade-off."""

    name: str
    text: str
    owes: str
    patch: Part


def tunable_parameters(body: Body, question: Question, runners_up: list[tuple[str, str]]) -> Iterator[Parameter]:
    """The parameters of a request. `runners_up` are slug and name of the types that rank below the first."""
    workload = body["workload"]
    if isinstance(question.workload, InferenceWorkload):
        yield from _traffic_parameters(workload.get("traffic", {}))
        yield from _latency_parameters(question.workload)
    else:
        yield from _run_parameters(workload)
    sure, offered = question.constraints.confidence, [c for c in CONFIDENCE_GRID if c >= MEDIAN_CONFIDENCE]
    steps = tuple(c for c in reversed(offered) if c < sure), tuple(c for c in offered if c > sure)
    yield Parameter("confidence", "confidence", "1", sure, steps, _patch_at("constraints", "confidence"), 0.02)
    already = body.get("economics", {}).get("discounts", {})
    for slug, name in runners_up[:MAX_RUNNERS_UP]:
        if slug not in already:
            label, paid = f"price of {name}", tuple(1 - d for d in DISCOUNTS)
            yield Parameter(PRICE, label, "1", 1.0, (paid,), _discount_patch(slug), 0.01, Stage.PRICE)


def _traffic_parameters(traffic: Body) -> Iterator[Parameter]:
    """The load, and the mean prompt and answer lengths if each is given in one place."""
    users = traffic.get("users")
    counted = [(name, traffic[name]) for name in (*LOAD_RATES, *LOAD_COUNTS) if traffic.get(name) is not None]
    if counted or users is not None:
        name, now = counted[0] if users is None else ("users", users["count"])
        unit = "requests/s" if name in LOAD_RATES else name.replace("_", " ")
        now, steps = float(now), _trial_values(float(now))
        yield Parameter("load", "load", unit, now, steps, _load_patch(traffic, now), stage=Stage.FLEET)
    for name, label in (("input_tokens", "mean prompt length"), ("output_tokens", "mean answer length")):
        lengths = traffic.get(name)
        if lengths is not None and "classes" not in traffic and "trace" not in traffic:
            mean = float(_mean_length(lengths))
            if mean > 0:
                yield Parameter(name, label, "tokens", mean, _trial_values(mean), _lengths_patch(name, lengths, mean))


def _latency_parameters(workload: InferenceWorkload) -> Iterator[Parameter]:
    """The latency limits, whether given or assumed."""
    slo = workload.slo
    for name, limit in (("ttft", slo.ttft_s), ("tpot", slo.tpot_s), ("e2e", slo.e2e_s)):
        if limit is not None and workload.serves_many:
            now = limit * 1e3
            patch = _patch_at("workload", "slo", f"{name}_ms")
            yield Parameter(f"{name}_ms", f"{name.upper()} limit", "ms", now, _trial_values(now), patch)


def _run_parameters(workload: Body) -> Iterator[Parameter]:
    """The size, the deadline and the sequence length of a training run."""
    for name, label, unit in RUN_FIELDS:
        if workload.get(name) is not None:
            now, whole = float(workload[name]), name in ("sequence_length", "examples")
            yield Parameter(name, label, unit, now, _trial_values(now), _patch_at("workload", name, whole=whole))


def _trial_values(now: float) -> tuple[tuple[float, ...], ...]:
    """Trial values below and above the current value."""
    return tuple(now / t for t in TRIAL_FACTORS), tuple(now * t for t in TRIAL_FACTORS)


def _patch_at(*path: str, whole: bool = False) -> Callable[[float], Part]:
    """A function that patches the field at `path`."""

    def patch(value: float) -> Part:
        nested: Any = _round_value(value, whole=whole)
        for name in reversed(path):
            nested = {name: nested}
        return dict(nested)

    return patch


def _round_value(value: float, *, whole: bool = False) -> float | int:
    """A value with four significant digits, or a whole number of at least 1."""
    return max(1, round(value)) if whole else float(f"{value:.4g}")


def _load_patch(traffic: Body, now: float) -> Callable[[float], Part]:
    """A function that scales all load fields in proportion."""

    def patch(value: float) -> Part:
        times = value / now
        scaled: Part = {
            name: _round_value(traffic[name] * times, whole=name in LOAD_COUNTS)
            for name in (*LOAD_RATES, *LOAD_COUNTS)
            if traffic.get(name) is not None
        }
        if (users := traffic.get("users")) is not None:
            scaled["users"] = {"count": _round_value(users["count"] * times, whole=True)}
        return {"workload": {"traffic": scaled}}

    return patch


def _lengths_patch(name: str, lengths: Any, mean: float) -> Callable[[float], Part]:
    """A function that scales lengths in proportion and keeps the form in which they were given."""

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
    """Mean of lengths given as a number, a distribution, a range or weighted values."""
    if not isinstance(lengths, dict):
        return float(lengths)
    if "values" in lengths:
        weights: list[float] = lengths["weights"]
        return float(sum(v * w for v, w in zip(lengths["values"], weights, strict=True)) / sum(weights))
    return float((lengths["min"] + lengths["max"]) / 2) if "min" in lengths else float(lengths["mean"])


def _discount_patch(slug: str) -> Callable[[float], Part]:
    """A function that patches the discount of an accelerator type."""

    def patch(paid: float) -> Part:
        return {"economics": {"discounts": {slug: round(1 - paid, 4)}}}

    return patch


def format_changes(requested: tuple[str, ...]) -> Iterator[tuple[str, Part]]:
    """Sets of weight formats other than the requested one, as text and as a patch."""
    for formats in FORMATS:
        if set(requested) != set(formats):
            text = f"weights in {' or '.join(map(format_name, formats))}"
            yield text, {"constraints": {"weight_formats": [*formats]}}


def open_patterns(body: Body, question: Question, smaller: Callable[[str], str | None]) -> Iterator[Pattern]:
    """The patterns that a request left open. `smaller` returns the next smaller model of a family."""
    limits, workload = body.get("constraints", {}), question.workload
    less = smaller(workload.model.name)
    if less is not None and isinstance(body["workload"].get("model"), str):
        yield Pattern("smaller_model", f"Smaller model {less}", ACCURACY, {"workload": {"model": less}})
    serves = isinstance(workload, InferenceWorkload)
    yield from (
        _service_patterns(limits, body["workload"].get("traffic", {}), workload)
        if isinstance(workload, InferenceWorkload)
        else _run_patterns(body["workload"])
    )
    if not limits.get("pricing_models"):
        spot = {"constraints": {"pricing_models": ["spot"]}}
        yield Pattern("spot", "Spot capacity", RESTARTS[serves], spot)
        if "commitment" not in limits and isinstance(workload, InferenceWorkload) and workload.load is Load.OPEN:
            bound = {"constraints": {"commitment": "3y"}}
            yield Pattern(
                "commit", "A commitment of up to three years", "payment for the full term, used or not", bound
            )


def _service_patterns(limits: Body, traffic: Body, workload: InferenceWorkload) -> Iterator[Pattern]:
    """Lower-precision formats for weights and KV cache, a shared prefix, and work that can wait."""
    yield from _traffic_patterns(traffic, workload)
    if not workload.model.attention:
        return
    if not limits.get("weight_formats") and WEIGHT_FORMATS[workload.model.native_format].nominal_bits > 4:
        yield Pattern("quantise", "4-bit weights", ACCURACY, {"constraints": {"weight_formats": [*FEW_BITS]}})
    if not limits.get("kv_formats") and not workload.single_pass:
        text, owes = "8-bit KV cache", f"{ACCURACY}, especially with long contexts"
        yield Pattern("quantise_cache", text, owes, {"constraints": {"kv_formats": ["fp8"]}})
    if not limits.get("speculative") and not workload.single_pass:
        head = published_draft(workload.model)
        yield from () if head is None else (_speculative_pattern(head),)


def _speculative_pattern(head: DraftHead) -> Pattern:
    """Speculative decoding with a published draft, at the acceptance that its source states."""
    offered = head.speculative
    settings = {
        "method": head.method.value,
        "draft_tokens": offered.draft_tokens,
        "acceptance_rate": offered.acceptance_rate,
    }
    text, patch = f"Speculative decoding with {head.name}", {"constraints": {"speculative": settings}}
    return Pattern("speculative", text, head.acceptance_note, patch)


def _traffic_patterns(traffic: Body, workload: InferenceWorkload) -> Iterator[Pattern]:
    """A prefix that all prompts share, and bulk requests that wait until after the peak."""
    mixed = "classes" in traffic or "trace" in traffic
    if is_simulated(workload) and not mixed and "cached_prefix_fraction" not in traffic:
        prefix = dict.fromkeys(("cached_prefix_fraction", "shared_prefix_fraction"), CACHED_SHARE)
        text = f"A shared prefix of {percent(CACHED_SHARE)} of each prompt, cached"
        owes = "prompts that begin with the same text, such as instructions or a document"
        yield Pattern("cache_prefixes", text, owes, {"workload": {"traffic": prefix}})
    peak, average = traffic.get("peak_requests_per_s"), traffic.get("average_requests_per_s")
    if peak is not None and average is not None and average <= (1 - DEFERRED_SHARE) * peak:
        lower = {"peak_requests_per_s": _round_value(peak * (1 - DEFERRED_SHARE))}
        text = f"{percent(DEFERRED_SHARE)} of the peak deferred as bulk work"
        owes = "a queue for requests that are not latency-critical, served after the peak"
        yield Pattern("defer_bulk", text, owes, {"workload": {"traffic": lower}})


def _run_patterns(workload: Body) -> Iterator[Pattern]:
    """Fine-tuning methods that train fewer parameters."""
    if workload["phase"] != "fine_tuning":
        return
    method = workload.get("method", "lora")
    fewer = {
        "full": ("lora", "LoRA adapters instead of all weights"),
        "lora": ("qlora", "QLoRA with a 4-bit base model"),
    }
    if method in fewer:
        name, text = fewer[method]
        yield Pattern(name, text, ACCURACY, {"workload": {"method": name}})
