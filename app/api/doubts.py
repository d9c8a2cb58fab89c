"""Values that look as if another unit was meant: asked about, in an error or beside an answer."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from app.api.schemas.lengths import LengthDistribution
from app.api.schemas.requests import EstimateRequest, RecommendRequest
from app.api.schemas.workload import InferenceSpec
from app.sizing.result import Notice
from app.sizing.workload import WIDEST_P95_TO_MEAN

CODE, TOO_WIDE, NO_HITS = "unit_looks_wrong", "spread_too_wide", "prefix_cache_off"
MOST_PER_CENT = 100.0
# What a field counts in, for a value out of its range.
COUNTED_IN: Mapping[str, str] = {
    "parameters_billion": "it counts billions: 70 for a model of 70B",
    "draft_parameters_billion": "it counts billions: 1 for a model of 1B",
    "gflops_per_sample": "it counts 10^9 operations",
    "percentile": "it counts per cent: 95, not 0.95",
    "horizon_months": "it counts months: 36 for three years",
    "deadline_days": "it counts days",
    "deadline_hours": "it counts hours",
    "max_power_kw": "it counts kilowatts",
    "electricity_usd_per_kwh": "it counts USD: 0.12 for 12 cents",
    "pue": "it is the facility's power over the machines', 1 or more",
}


def doubted(field: str, kind: str, value: Any, context: Mapping[str, Any]) -> str:
    """What a number out of its range may have meant: a percentage, or another unit; empty where nothing is known."""
    if kind not in ("less_than_equal", "less_than", "greater_than_equal", "greater_than"):
        return ""
    limit = context.get("le", context.get("lt"))
    number = float(value) if isinstance(value, int | float) and abs(value) <= MOST_PER_CENT else None
    if limit is not None and number is not None and number > 1 >= limit:
        return f"; fractions run from 0 to 1: {number:g} % is {number / 100:g}"
    return f"; {COUNTED_IN[field]}" if field in COUNTED_IN else ""


def meant(value: str, expected: str) -> str:
    """The nearest of the accepted names, then all of them."""
    names = re.findall(r"'([^']*)'", expected)
    typed = value.strip().lower()
    close = [name for name in names if name.startswith(typed)][:3]
    close = close or difflib.get_close_matches(typed, names, n=3, cutoff=0.5) or [n for n in names if typed in n][:3]
    return (f"nearest: {', '.join(close)}; " if close else "") + f"accepted: {', '.join(names)}"


class Usual(NamedTuple):
    """What a number is hardly ever below, or above, and what may have been meant where it is."""

    path: tuple[str, ...]
    low: float
    high: float
    text: str


USUAL = (
    Usual(
        ("workload", "slo", "ttft_ms"), 5, 3.6e6, "{value:g} ms to a first token; seconds would be {times_1000:g} ms"
    ),
    Usual(("workload", "slo", "tpot_ms"), 0.5, 60_000, "{value:g} ms per token; seconds would be {times_1000:g} ms"),
    Usual(
        ("workload", "slo", "e2e_ms"), 5, 8.64e7, "{value:g} ms for a whole answer; seconds would be {times_1000:g} ms"
    ),
    Usual(("workload", "max_context_tokens"), 128, 1e8, "a context of {value:g} tokens; 8k are 8192"),
    Usual(("workload", "training_tokens"), 1e5, 1e15, "{value:g} tokens in all; 15 trillion are 15e12"),
    Usual(("workload", "model", "parameters_billion"), 0, 3000, "a model of {value:g} billion parameters; 7B are 7"),
    Usual(
        ("workload", "traffic", "users", "requests_per_hour_each"), 0, 1000, "{value:g} requests an hour from each user"
    ),
    Usual(("economics", "electricity_usd_per_kwh"), 0, 1.5, "{value:g} USD per kWh; 12 cents are 0.12"),
    Usual(("economics", "horizon_months"), 6, 1e9, "hardware paid off in {value:g} months; three years are 36"),
    Usual(("constraints", "max_power_kw"), 0.015, 1e9, "{value:g} kW is less than any computer takes"),
    Usual(("constraints", "max_purchase_usd"), 100, 1e13, "{value:g} USD for a machine"),
)


def doubts(request: RecommendRequest | EstimateRequest) -> Iterator[Notice]:
    """Values that were not taken as they may have been meant."""
    yield from unit_doubts(request)
    if isinstance(request.workload, InferenceSpec):
        traffic = request.workload.traffic
        launched = request.deployment.scheduler if isinstance(request, EstimateRequest) else None
        if launched is not None and launched.prefix_cache is False and traffic.has_hits:
            yield Notice(
                NO_HITS, "scheduler.prefix_cache is false: every prompt is computed whole, whatever was cached."
            )
        for name, length in (("input_tokens", traffic.input_tokens), ("output_tokens", traffic.output_tokens)):
            if isinstance(length, LengthDistribution) and (length.p95 or 0) > WIDEST_P95_TO_MEAN * length.mean:
                text = (
                    f"No log-normal has a p95 above {WIDEST_P95_TO_MEAN:.3g} times its mean; {name} was taken as "
                    "that wide. Values with weights say any spread."
                )
                yield Notice(TOO_WIDE, text)


def unit_doubts(request: RecommendRequest | EstimateRequest) -> Iterator[Notice]:
    """Values that were taken as they are, though another unit looks meant."""
    for usual in USUAL:
        value: Any = request
        for step in usual.path:
            value = getattr(value, step, None)
        if isinstance(value, int | float) and not usual.low <= value <= usual.high:
            text = usual.text.format(value=value, times_1000=value * 1000)
            yield Notice(CODE, f"{'.'.join(usual.path)} was taken as it stands: {text}. Check its unit.")
