"""Runs sized for a confidence: properties that hold for every request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Constraints, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Assurance, Estimate, Interval
from app.sizing.snapshot import Catalog
from app.sizing.workload import Method, TrainingWorkload
from tests.examples import LLAMA_8B, LLAMA_70B, PRETRAIN
from tests.sizing.training.layouts import asked

SLOW = settings(max_examples=15)

RUNS = st.builds(
    lambda model, method, units, sequence, batch, days: replace(
        PRETRAIN,
        model=model,
        phase="training" if method is Method.FULL else "fine_tuning",
        method=method,
        lora_rank=0 if method is Method.FULL else 16,
        units=units,
        units_per_sequence=float(sequence),
        global_batch=batch,
        deadline_s=days * 86400.0,
    ),
    st.sampled_from([LLAMA_8B, LLAMA_70B]),
    st.sampled_from([Method.FULL, Method.LORA, Method.QLORA]),
    st.floats(1e8, 1e12),
    st.sampled_from([512, 2048, 8192]),
    st.sampled_from([16, 96, 1024, 1536]),
    st.floats(0.2, 365),
)
NEAR_TIE = Assumptions.default_value("near_tie_share")
CONFIDENCES = st.floats(0.5, 0.95)


def found(catalog: Catalog, workload: TrainingWorkload, confidence: float, limit: int = 3) -> list[Estimate]:
    question = Question(workload, Constraints(confidence=confidence), limit=limit)
    return [r.estimate for r in recommend_hardware(question, catalog).recommendations]


def assurance(e: Estimate) -> Assurance:
    assert e.assurance is not None
    return e.assurance


def sure_usd(e: Estimate) -> float:
    """What a run costs with the confidence asked."""
    sure = assurance(e)
    (usd,) = [level.usd_total for level in sure.by_level if level.confidence == sure.asked]
    assert usd is not None
    return usd


def interval(e: Estimate, quantity: str) -> Interval:
    assert e.performance is not None
    (named,) = [i for i in (e.performance.interval, *e.performance.intervals) if i.quantity == quantity]
    return named


@SLOW
@given(RUNS, CONFIDENCES)
def test_a_higher_level_never_needs_fewer_accelerators(
    catalog: Catalog, w: TrainingWorkload, confidence: float
) -> None:
    for estimate in found(catalog, w, confidence, limit=3):
        assert estimate.assurance is not None
        counts = [level.total_accelerators for level in estimate.assurance.by_level]
        known = [count for count in counts if count is not None]
        assert known == sorted(known) and counts[: len(known)] == known


@SLOW
@given(RUNS, CONFIDENCES, CONFIDENCES)
def test_a_higher_confidence_never_costs_less(catalog: Catalog, w: TrainingWorkload, one: float, other: float) -> None:
    low, high = (found(catalog, w, confidence, limit=1) for confidence in sorted((one, other)))
    if high:
        assert low
        # of near ties the one without a pipeline is taken, which may be the dearer by as much
        assert sure_usd(high[0]) >= sure_usd(low[0]) / (1 + NEAR_TIE)


@SLOW
@given(RUNS, CONFIDENCES)
def test_deadline_and_memory_hold_with_the_confidence_asked(
    catalog: Catalog, w: TrainingWorkload, confidence: float
) -> None:
    for e in found(catalog, w, confidence):
        sure, performance = assurance(e), e.performance
        assert performance is not None
        assert sure.asked == confidence
        assert (sure.meets_deadline or 0) >= confidence - 1e-9
        assert sure.fits >= confidence - 1e-9
        assert (performance.days or 0) * 86400 <= w.deadline_s
        usd = [level.usd_total for level in sure.by_level if level.usd_total is not None]
        # fewer accelerators that recompute more may be dearer than more that hold everything
        assert usd == sorted(usd)
        # from some level on no size does
        assert [level.usd_total for level in sure.by_level][: len(usd)] == usd
        assert {0.5, 0.8, 0.9, 0.95, confidence} == {level.confidence for level in sure.by_level}


@SLOW
@given(RUNS, CONFIDENCES)
def test_intervals_hold_the_point_and_stay_inside_physics(
    catalog: Catalog, w: TrainingWorkload, confidence: float
) -> None:
    for e in found(catalog, w, confidence):
        performance, memory, cost = e.performance, e.memory, e.cost
        assert performance is not None and memory is not None and cost is not None
        points = {
            "tokens_per_s": performance.tokens_per_s,
            "days": performance.days,
            "usd_total": cost.usd_total,
            "memory_total_bytes": memory.total_bytes,
        }
        for quantity, point in points.items():
            i = interval(e, quantity)
            assert 0 < i.low <= (point or 0) <= i.high
        assert interval(e, "memory_total_bytes").high <= memory.capacity_bytes
        states = memory.weights_bytes + memory.gradient_bytes + memory.optimizer_bytes
        assert interval(e, "memory_total_bytes").low >= states * (1 - 1e-12)
        peak_share = (performance.mfu or 0) * interval(e, "tokens_per_s").high / (performance.tokens_per_s or 1)
        assert peak_share <= 1 + 1e-12


@SLOW
@given(RUNS, CONFIDENCES)
def test_a_recommendation_posted_back_is_as_sure(catalog: Catalog, w: TrainingWorkload, confidence: float) -> None:
    for e in found(catalog, w, confidence):
        again = estimate_deployment(Question(w, Constraints(confidence=confidence)), e.deployment, catalog)
        assert again.assurance == e.assurance
        assert again.performance == e.performance
        assert again.cost == e.cost


@pytest.mark.parametrize("quantity", ["sequence_length", "micro_batch", "parameters"])
def test_more_confidence_never_fits_more(catalog: Catalog, quantity: str) -> None:
    workload = replace(PRETRAIN, phase="fine_tuning", global_batch=16)
    most = [asked(catalog, workload, quantity, sure, accelerators_per_replica=8) for sure in (0.5, 0.8, 0.95)]
    values = [e.maximum.value for e in most if e.maximum is not None]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[2]
    assert [assurance(e).fits >= sure for e, sure in zip(most, (0.5, 0.8, 0.95), strict=True)] == [True] * 3
