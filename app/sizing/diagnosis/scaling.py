"""Findings about scaling: the speed of a run on several numbers of accelerators, compared with the estimates."""

from __future__ import annotations

from collections.abc import Iterator

from app.sizing.diagnosis.case import Case, Evidence, Finding
from app.sizing.diagnosis.observed import ScalePoint
from app.sizing.words import format_number


def find_poor_scaling(case: Case) -> Iterator[Finding]:
    """The speed per accelerator falls more than expected when the run grows."""
    points = sorted(case.training.scales, key=lambda s: s.accelerators)
    if len(points) < 2 or points[0].accelerators == points[-1].accelerators:
        return
    first, last = points[0], points[-1]
    seen = accelerator_tokens_per_s(last) / accelerator_tokens_per_s(first)
    ratio = expected_scaling_ratio(case, first.accelerators, last.accelerators)
    expected = 1.0 if ratio is None else min(1.0, ratio)
    if ratio is None or not case.exceeds_expected(expected, seen):
        return
    share = 1 - seen / expected
    yield Finding(
        "poor_scaling",
        f"Scaling efficiency from {format_number(first.accelerators)} to {format_number(last.accelerators)} "
        "accelerators is "
        f"{format_number(100 * seen)} % (expected: {format_number(100 * expected)} %).",
        share,
        (Evidence("scaling_efficiency", seen, expected, "1"),),
        "The network between machines, or some machines, are slower than they should be.",
        "Run an all-reduce test on all machines, then on halves until you find the slow part.",
        share,
        "more accelerators",
        accounts_for=("slow_step", "low_mfu"),
    )


def accelerator_tokens_per_s(point: ScalePoint) -> float:
    """Tokens per second and accelerator."""
    return point.tokens_per_s / point.accelerators


def expected_scaling_ratio(case: Case, few: float, many: float) -> float | None:
    """Expected speed per accelerator on many accelerators over that on few; None if no layout runs.

    Both estimates use the same layout of a replica, or any layout that runs.
    """
    rates = [expected_each(case, count) for count in (few, many)]
    return rates[1] / rates[0] if rates[0] and rates[1] else None


def expected_each(case: Case, count: float) -> float | None:
    """Expected tokens per second and accelerator on `count` accelerators."""
    changed = {"nodes": None, "replicas": None, "data_parallel": None, "accelerators_per_replica": None}
    for freed in (
        (),
        (
            "tensor_parallel",
            "pipeline_parallel",
            "context_parallel",
            "expert_parallel",
            "zero_stage",
            "micro_batch_sequences",
            "activation_checkpointing",
        ),
    ):
        fields = {**changed, **dict.fromkeys(freed)}
        variant = case.estimate_variant(case.current_deployment(**fields, total_accelerators=round(count)))
        p = None if variant is None or variant.deployment.total_accelerators != round(count) else variant.performance
        if p is not None and p.tokens_per_s:
            return p.tokens_per_s / count
    return None


CHECKS = (find_poor_scaling,)
