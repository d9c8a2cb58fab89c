"""Detects input values that suggest another unit was meant, for error messages and warnings."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from app.api.schemas.requests import EstimateRequest, InferenceSpec, RecommendRequest
from app.api.schemas.traffic import LengthDistribution
from app.sizing.assumptions import Assumptions
from app.sizing.result import Notice
from app.sizing.words import join_words
from app.sizing.workload import MAX_P95_TO_MEAN

UNUSUAL_UNIT, TOO_WIDE, PREFIX_CACHE_OFF = "unit_looks_wrong", "spread_too_wide", "prefix_cache_off"
PURCHASES_ONLY, ADAPTERS_WAIT = "purchases_only", "adapters_wait"
MAX_PERCENT = 100.0
# Hint on the unit of a field, for a value outside its range.
UNIT_HINTS: Mapping[str, str] = {
    "parameters_billion": "The unit is billions: 70 for a 70B model",
    "draft_parameters_billion": "The unit is billions: 1 for a 1B model",
    "gflops_per_sample": "The unit is GFLOPs (10^9 operations)",
    "percentile": "The unit is percent: send 95, not 0.95",
    "horizon_months": "The unit is months: 36 for three years",
    "confidence": "Send a fraction from 0.5 to 0.95",
    "deadline_days": "The unit is days",
    "deadline_hours": "The unit is hours",
    "max_power_kw": "The unit is kW",
    "max_carbon_kg": "The unit is kg of CO2e",
    "electricity_usd_per_kwh": "The unit is USD: 0.12 for 12 cents",
    "pue": "PUE is facility power divided by IT power and at least 1",
}


def unit_hint(field: str, kind: str, value: Any, context: Mapping[str, Any]) -> str:
    """Returns a hint for an out-of-range number: a percentage, or another unit. Empty if there is no hint."""
    if kind not in ("less_than_equal", "less_than", "greater_than_equal", "greater_than"):
        return ""
    limit = context.get("le", context.get("lt"))
    number = float(value) if isinstance(value, int | float) and abs(value) <= MAX_PERCENT else None
    if limit is not None and number is not None and number > 1 >= limit:
        if number / 100 > limit:
            return f". {UNIT_HINTS.get(field, 'Send a smaller fraction')}: {number:g} % would be {number / 100:g}"
        return f". This is a fraction from 0 to 1: {number:g} % is {number / 100:g}"
    return f". {UNIT_HINTS[field]}" if field in UNIT_HINTS else ""


def accepted_names_hint(value: str, expected: str) -> str:
    """Returns the closest accepted names, followed by all accepted names."""
    names = re.findall(r"'([^']*)'", expected)
    spelling = value.strip().lower()
    close = [name for name in names if name.startswith(spelling)][:3]
    close = (
        close or difflib.get_close_matches(spelling, names, n=3, cutoff=0.5) or [n for n in names if spelling in n][:3]
    )
    return (f"Did you mean {join_words(close, 'or')}? " if close else "") + f"Accepted values: {', '.join(names)}"


class TypicalRange(NamedTuple):
    """Typical range of a field, and the warning text for values outside of it."""

    path: tuple[str, ...]
    low: float
    high: float
    text: str


TYPICAL_RANGES = (
    TypicalRange(
        ("workload", "slo", "ttft_ms"), 5, 3.6e6, "a TTFT limit of {value:g} ms (if you meant s: {times_1000:g} ms)"
    ),
    TypicalRange(
        ("workload", "slo", "tpot_ms"), 0.5, 60_000, "a TPOT limit of {value:g} ms (if you meant s: {times_1000:g} ms)"
    ),
    TypicalRange(
        ("workload", "slo", "e2e_ms"),
        5,
        8.64e7,
        "an end-to-end limit of {value:g} ms (if you meant s: {times_1000:g} ms)",
    ),
    TypicalRange(("workload", "max_context_tokens"), 128, 1e8, "a context of {value:g} tokens (8k is 8192)"),
    TypicalRange(("workload", "training_tokens"), 1e5, 1e15, "{value:g} training tokens (15 trillion is 15e12)"),
    TypicalRange(
        ("workload", "model", "parameters_billion"), 0, 3000, "a model with {value:g} billion parameters (7B is 7)"
    ),
    TypicalRange(
        ("workload", "traffic", "users", "requests_per_hour_each"),
        0,
        1000,
        "{value:g} requests per hour from each user",
    ),
    TypicalRange(("economics", "electricity_usd_per_kwh"), 0, 1.5, "{value:g} USD per kWh (12 cents is 0.12)"),
    TypicalRange(("economics", "horizon_months"), 6, 1e9, "hardware paid off in {value:g} months (three years is 36)"),
    TypicalRange(("constraints", "max_power_kw"), 0.015, 1e9, "{value:g} kW, less than any computer draws"),
    TypicalRange(("constraints", "max_purchase_usd"), 100, 1e13, "a purchase budget of {value:g} USD"),
)


def input_warnings(request: RecommendRequest | EstimateRequest) -> Iterator[Notice]:
    """Yields warnings about values that were changed, ignored or probably given in another unit."""
    yield from unit_warnings(request)
    if isinstance(request, RecommendRequest) and request.maximize and request.constraints.limits_purchases_alone:
        text = "Only purchases count: max_purchase_usd does not limit rents. To include rents, set max_usd_per_hour."
        yield Notice(PURCHASES_ONLY, text)
    if isinstance(request.workload, InferenceSpec):
        traffic, adapters = request.workload.traffic, request.workload.adapters
        loaded = 0 if adapters is None else adapters.loaded(Assumptions().with_overrides(request.assumptions))
        if adapters is not None and adapters.active is None and adapters.count > loaded:
            yield Notice(
                ADAPTERS_WAIT,
                f"{loaded:,} of {adapters.count:,} adapters are assumed to stay loaded on every replica. Requests for "
                "other adapters wait until one is swapped in; this wait is not counted. Set `adapters.active` to the "
                "number that requests use at once.",
            )
        launched = request.deployment.scheduler if isinstance(request, EstimateRequest) else None
        if launched is not None and launched.prefix_cache is False and traffic.has_hits:
            yield Notice(
                PREFIX_CACHE_OFF,
                "scheduler.prefix_cache is false, so the engine computes every prompt in full and the cached share of "
                "the traffic has no effect.",
            )
        for name, length in (("input_tokens", traffic.input_tokens), ("output_tokens", traffic.output_tokens)):
            if isinstance(length, LengthDistribution) and (length.p95 or 0) > MAX_P95_TO_MEAN * length.mean:
                text = (
                    f"The p95 of {name} was reduced to {MAX_P95_TO_MEAN:.3g} times its mean, the maximum of a "
                    "log-normal distribution. Use values with weights for a wider spread."
                )
                yield Notice(TOO_WIDE, text)


def unit_warnings(request: RecommendRequest | EstimateRequest) -> Iterator[Notice]:
    """Yields warnings about values that were used as sent although another unit was probably meant."""
    for usual in TYPICAL_RANGES:
        value: Any = request
        for step in usual.path:
            value = getattr(value, step, None)
        if isinstance(value, int | float) and not usual.low <= value <= usual.high:
            text = usual.text.format(value=value, times_1000=value * 1000)
            yield Notice(
                UNUSUAL_UNIT,
                f"{'.'.join(usual.path)} has an unusual value: {text}. Check its unit. It was used as sent.",
            )
