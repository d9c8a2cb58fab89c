"""How a run scales beside how the core expects it to at the same numbers of accelerators."""

from __future__ import annotations

from collections.abc import Iterator

from app.sizing.diagnosis.case import Case, Evidence, Finding
from app.sizing.diagnosis.observed import ScalePoint
from app.sizing.words import figure


def scaling(case: Case) -> Iterator[Finding]:
    """Each accelerator does less on more of them than it should."""
    points = sorted(case.training.scales, key=lambda s: s.accelerators)
    if len(points) < 2 or points[0].accelerators == points[-1].accelerators:
        return
    first, last = points[0], points[-1]
    seen = each(last) / each(first)
    ratio = expected_ratio(case, first.accelerators, last.accelerators)
    expected = 1.0 if ratio is None else min(1.0, ratio)
    if ratio is None or not case.much(expected, seen):
        return
    share = 1 - seen / expected
    yield Finding(
        "poor_scaling",
        f"On {figure(last.accelerators)} accelerators each does {figure(100 * seen)} % of what it does on "
        f"{figure(first.accelerators)}; {figure(100 * expected)} % are expected.",
        share,
        (Evidence("scaling_efficiency", seen, expected, "1"),),
        "The network between machines is slower than it should be, or some of them are.",
        "Run an all-reduce test over all machines, then over halves of them until the slow part is found.",
        share,
        "more accelerators",
        accounts_for=("slow_step", "low_mfu"),
    )


def each(point: ScalePoint) -> float:
    """Tokens that one accelerator does in a second."""
    return point.tokens_per_s / point.accelerators


def expected_ratio(case: Case, few: float, many: float) -> float | None:
    """What an accelerator among many does over one among few, as the core judges both with the same layout of a
    replica, or with any that runs; None where none does.
    """
    found = [expected_each(case, count) for count in (few, many)]
    return found[1] / found[0] if found[0] and found[1] else None


def expected_each(case: Case, count: float) -> float | None:
    """Tokens that one of so many accelerators is expected to do in a second."""
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
        found = case.judged(case.running(**fields, total_accelerators=round(count)))
        p = None if found is None or found.deployment.total_accelerators != round(count) else found.performance
        if p is not None and p.tokens_per_s:
            return p.tokens_per_s / count
    return None


FINDINGS = (scaling,)
