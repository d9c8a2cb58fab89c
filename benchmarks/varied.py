"""Distinct questions that share nothing but their model: rates, lengths, limits and token budgets vary."""

from __future__ import annotations

import random
from typing import Any

LEAST, MOST = 0.8, 1.25  # factors between which each number of a workload varies
# Numbers of a workload that state its size; others are settings, which keep their values.
VARIED = (
    "peak_requests_per_s",
    "average_requests_per_s",
    "requests_per_hour_each",
    "samples_per_s",
    "concurrent_requests",
    "volume_requests",
    "input_tokens",
    "output_tokens",
    "ttft_ms",
    "tpot_ms",
    "e2e_ms",
    "training_tokens",
    "training_samples",
    "deadline_days",
    "deadline_hours",
)
MOST_KEPT = 4  # whole numbers up to this one stay: one user, two images


def vary_request(body: dict[str, Any], number: int) -> dict[str, Any]:
    """The same question about a workload of another size; the same number gives the same question."""
    return {**body, "workload": _varied(body["workload"], random.Random(number))}


def _varied(value: Any, chance: random.Random, name: str = "") -> Any:
    if name in VARIED:
        return _scaled(value, chance.uniform(LEAST, MOST))
    return {key: _varied(part, chance, key) for key, part in value.items()} if isinstance(value, dict) else value


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, dict):  # mean and percentile of lengths
        return {key: _scaled(part, factor) for key, part in value.items()}
    if isinstance(value, int):
        return value if value <= MOST_KEPT else round(value * factor)
    return float(f"{value * factor:.4g}")
